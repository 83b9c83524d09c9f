"""Name every photograph of a folder: timm."""

from pathlib import Path

import timm
from PIL import Image

name = "vit_tiny_patch16_224.augreg_in21k_ft_in1k"
model = timm.create_model(name, pretrained=True).eval()
config = timm.data.resolve_model_data_config(model)
transform = timm.data.create_transform(**config)
names = timm.data.ImageNetInfo()
for path in sorted(Path("album").glob("*.jpg")):
    image = transform(Image.open(path).convert("RGB"))
    index = model(image[None]).argmax().item()
    print(path, names.index_to_description(index))
