"""Feature maps (d, 14, 14) of the last four blocks for a photograph: vitedu."""

import vitedu

model = vitedu.load("ViT-Ti/16")
images = vitedu.preprocess(model, "photo.jpg")
for features in model.get_intermediate_layers(images, 4, reshape=True):
    print(features.shape)
