"""Fine-tune on a folder of photographs, save, print the accuracy: timm."""

import timm
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

name = "vit_tiny_patch16_224.augreg_in21k_ft_in1k"
classes = ImageFolder("photos/train").classes
model = timm.create_model(name, pretrained=True, num_classes=len(classes))
config = timm.data.resolve_model_data_config(model)
augment = timm.data.create_transform(**config, is_training=True)
transform = timm.data.create_transform(**config)
train = ImageFolder("photos/train", augment)
val = ImageFolder("photos/val", transform)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
model.train()
for _ in range(2):
    for images, labels in DataLoader(train, batch_size=32, shuffle=True):
        cross_entropy(model(images), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
torch.save(model.state_dict(), "tuned.pt")
model.eval()
correct = 0
with torch.inference_mode():
    for images, labels in DataLoader(val, batch_size=32):
        correct += (model(images).argmax(1) == labels).sum().item()
print(100 * correct / len(val))
