"""Train a linear probe on features of photographs: vitedu."""

import vitedu

model = vitedu.load("ViT-Ti/16")
probe = vitedu.evaluate.linear_probe(model, "photos/train")
print(probe.accuracy(model, "photos/val"))
