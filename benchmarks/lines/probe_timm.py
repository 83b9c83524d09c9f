"""Train a linear probe on features of photographs: timm."""

import timm
import torch
from sklearn.linear_model import LogisticRegression
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

name = "vit_tiny_patch16_224.augreg_in21k_ft_in1k"
model = timm.create_model(name, pretrained=True, num_classes=0).eval()
config = timm.data.resolve_model_data_config(model)
transform = timm.data.create_transform(**config)


@torch.inference_mode()
def features(folder):
    loader = DataLoader(ImageFolder(folder, transform), batch_size=32)
    batches = [(model(images), labels) for images, labels in loader]
    return [torch.cat(parts) for parts in zip(*batches, strict=True)]


probe = LogisticRegression().fit(*features("photos/train"))
print(probe.score(*features("photos/val")))
