"""Name what a photograph shows, read at 384 by 384 pixels: timm."""

import timm
from PIL import Image

name = "vit_tiny_patch16_224.augreg_in21k_ft_in1k"
model = timm.create_model(name, pretrained=True, img_size=384).eval()
config = timm.data.resolve_model_data_config(model, {"img_size": 384})
transform = timm.data.create_transform(**config)
image = transform(Image.open("photo.jpg").convert("RGB"))
index = model(image[None]).argmax().item()
print(timm.data.ImageNetInfo().index_to_description(index))
