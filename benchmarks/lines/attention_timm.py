"""The attention maps of the last block for a photograph: timm."""

import timm
from PIL import Image
from timm.utils import AttentionExtract

timm.layers.set_fused_attn(False)  # fused attention keeps no maps
name = "vit_tiny_patch16_224.augreg_in21k_ft_in1k"
model = timm.create_model(name, pretrained=True).eval()
config = timm.data.resolve_model_data_config(model)
transform = timm.data.create_transform(**config)
image = transform(Image.open("photo.jpg").convert("RGB"))
maps = AttentionExtract(model, method="hook")(image[None])
print(maps["blocks.11.attn.attn_drop"].shape)
