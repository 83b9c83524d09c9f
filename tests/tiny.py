"""The small network that tests build, its variants, and numbers to fill it.

`vit(tiny(depth=4, position=RoPE()))`: odd token counts, a grid that is no
square, and every layer kind once.
"""

from dataclasses import replace

import torch
from torch import nn

from vitedu.model import ViTConfig, new_network

TINY = ViTConfig(
    image_size=(8, 12),
    patch_size=4,
    num_classes=5,
    embed_dim=32,
    depth=2,
    num_heads=4,
    mlp_dim=48,
)
# the same for timm, but for depth
TIMM_TINY = {"img_size": (8, 12), "patch_size": 4, "num_classes": 5}
TIMM_TINY |= {"embed_dim": 32, "num_heads": 4, "mlp_ratio": 1.5}


def tiny(**fields):
    """`TINY` with other values for these fields."""
    return replace(TINY, **fields)


def random_tensors(model, dtype=torch.float64):
    """Values for every tensor of a state_dict; no zeros or ones as initially.

    Matrices keep the size of what they multiply, so that attention does not
    saturate.
    """
    torch.manual_seed(0)
    tensors = {}
    for name, like in model.state_dict().items():
        drawn = torch.randn(like.shape, dtype=dtype)
        if like.ndim == 1:
            is_scale = "norm" in name and name.endswith("weight")
            drawn = 0.1 * drawn + is_scale
        elif "token" not in name and "pos_embed" not in name:
            drawn /= like[0].numel() ** 0.5
        tensors[name] = drawn
    return tensors


def fill_randomly(module):
    """No zeros and ones left from initial values: every tensor matters."""
    torch.manual_seed(0)
    for weight in module.parameters():
        nn.init.normal_(weight, std=0.3)


def random_model(config=TINY, **fields):
    """The network of a configuration, with random numbers in float64."""
    model = new_network(replace(config, **fields)).double().eval()
    model.load_state_dict(random_tensors(model))
    return model


def random_images(config=TINY, b=2):
    """b images for a network, float64."""
    torch.manual_seed(1)
    shape = b, config.in_channels, *config.image_size
    return torch.randn(shape, dtype=torch.float64)
