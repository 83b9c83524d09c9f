"""What tests of the command begin with: a small run, a model, pictures."""

import torch
from PIL import Image

import vitedu
from vitedu.model import ViT, ViTConfig
from vitedu.weights import checkpoint_of, write_weights

# a network that is trained in a second
TINY = [
    "model.embed_dim=8",
    "model.depth=1",
    "model.num_heads=2",
    "model.mlp_dim=8",
]
SMOKE = ["train", "digits", *TINY, "--tier", "smoke"]


def write_model(path, class_names=(), change=None, **fields):
    """A file with a model of two classes for pictures of 16 pixels."""
    sizes = {"image_size": 16, "patch_size": 8, "embed_dim": 24, "depth": 1}
    sizes |= {"num_heads": 3, "mlp_dim": 32, "num_classes": 2}
    torch.manual_seed(0)
    model = ViT(ViTConfig(**sizes | fields))
    torch.nn.init.normal_(model.head.weight)
    model.class_names = class_names
    model.preprocess = vitedu.PreprocessSpec(16, model.config.in_channels)
    with torch.no_grad():
        if change is not None:
            change(model)
    write_weights(path, checkpoint_of(model))
    return vitedu.load(path)


def write_picture(path, color=(200, 90, 10), size=(16, 16)):
    """A picture of one colour."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).save(path)


def write_pictures(folder, size=(20, 24), **counts):
    """So many pictures of each class."""
    for label, (name, count) in enumerate(counts.items()):
        for index in range(count):
            color = (9 * index, 99 * label, 200)
            write_picture(folder / name / f"{index}.png", color, size)
