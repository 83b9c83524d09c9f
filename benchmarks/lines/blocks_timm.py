"""Feature maps (d, 14, 14) of the last four blocks for a photograph: timm."""

import timm
from PIL import Image

name = "vit_tiny_patch16_224.augreg_in21k_ft_in1k"
model = timm.create_model(name, pretrained=True).eval()
config = timm.data.resolve_model_data_config(model)
transform = timm.data.create_transform(**config)
image = transform(Image.open("photo.jpg").convert("RGB"))
for features in model.get_intermediate_layers(image[None], 4, reshape=True):
    print(features.shape)
