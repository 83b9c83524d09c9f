"""A file for onnxruntime, for any number of photographs at a time: timm."""

import timm
import torch

name = "vit_tiny_patch16_224.augreg_in21k_ft_in1k"
model = timm.create_model(name, pretrained=True).eval()
images = torch.zeros(2, 3, 224, 224)
sizes = {"x": {0: torch.export.Dim("batch")}}
torch.onnx.export(model, (images,), "model.onnx", dynamic_shapes=sizes)
