"""Train a linear probe on features of photographs: vitedu."""

from sklearn.linear_model import LogisticRegression

import vitedu

model = vitedu.load("ViT-Ti/16")
train = vitedu.evaluate.features(model, "photos/train")
val = vitedu.evaluate.features(model, "photos/val")
probe = LogisticRegression().fit(*train)
print(probe.score(*val))
