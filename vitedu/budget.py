"""What a configuration costs, before anything is built: weights, arithmetic, memory.

`parameters(vit_config("ViT-B/16")).total` is 86567656.
"""

from typing import NamedTuple

import torch

from vitedu.errors import UserError, did_you_mean
from vitedu.model import ViT, ViTConfig

# numbers that an optimizer keeps per weight: Adam's two means, SGD's momentum
OPTIMIZER_STATE = {"adam": 2, "adamw": 2, "sgd": 1}


class Parameters(NamedTuple):
    """Numbers that are learned: in all, and by attribute of the model."""

    total: int
    by_part: dict[str, int]


def parameters(config: ViTConfig) -> Parameters:
    """Count the weights of a configuration, exactly, whatever its parts.

    The model is built on PyTorch's meta device, where tensors have shapes but no
    numbers. `by_part` has a 0 for what this configuration leaves out.
    """
    with torch.device("meta"):
        model = ViT(config)
    names = "patch_embed cls_token pos_embed blocks norm pre_logits head"
    by_part = dict.fromkeys(names.split(), 0)
    for name, weight in model.named_parameters():
        part = name.split(".")[0]
        by_part[part] = by_part.get(part, 0) + weight.numel()
    return Parameters(sum(by_part.values()), by_part)


def macs(config: ViTConfig) -> int:
    """Multiply-adds of one image's forward pass; many tables call them FLOPs.

    Matrix products alone: norms, softmax, GELU and biases are left out. For the stem
    Patches and the block Standard.
    """
    n, t = config.num_patches, config.num_tokens
    d, m = config.embed_dim, config.mlp_dim
    p, q = config.patch_size
    stem = n * p * q * config.in_channels * d
    dense = 4 * t * d * d + 2 * t * d * m  # q, k, v, their output; the MLP
    attention = 2 * t * t * d  # q k^T and A v, quadratic in the tokens
    hidden = config.pre_logits or 0
    head = d * hidden + (hidden or d) * config.num_classes
    return stem + config.depth * (dense + attention) + head


def flops(config: ViTConfig) -> int:
    """Floating-point operations of one image's forward pass: two per multiply-add.

    Equal to `torch.utils.flop_counter.FlopCounterMode` on the meta device.
    """
    return 2 * macs(config)


def training_flops(config: ViTConfig) -> int:
    """Operations to learn from one image once: forward, and backward at twice that.

    The convention that refits the paper's Table 6: 6 per multiply-add.
    """
    return 3 * flops(config)


class Memory(NamedTuple):
    """Bytes, by what they hold."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    total: int


def memory(
    config: ViTConfig,
    *,
    batch_size: int,
    optimizer: str = "adamw",
    training: bool = True,
    dtype: torch.dtype = torch.float32,
) -> Memory:
    """Bytes that a step on `batch_size` images holds, all numbers being of `dtype`.

    For training, activations are what the forward pass keeps for the backward pass;
    without training, there are only weights, and the activations alive at the widest
    moment. Images included; the loss, the kernels' work space and what the allocator
    rounds up are not. For the stem Patches and the block Standard.

    UserError: the optimizer is unknown. ValueError: no image.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}, it must be at least 1")
    if optimizer not in OPTIMIZER_STATE:
        raise UserError(
            f"there is no optimizer {optimizer!r}; "
            + did_you_mean(optimizer, OPTIMIZER_STATE)
        )
    weights = parameters(config).total
    if training:
        activations = batch_size * saved_activations(config)
        numbers = [
            weights,
            weights,
            OPTIMIZER_STATE[optimizer] * weights,
            activations,
        ]
    else:
        numbers = [weights, 0, 0, batch_size * live_activations(config)]
    in_bytes = [count * dtype.itemsize for count in numbers]
    return Memory(*in_bytes, sum(in_bytes))


def saved_activations(config: ViTConfig) -> int:
    """Numbers per image that the forward pass keeps for the backward pass.

    With fused attention, which keeps one number per row of the weights and computes
    the (t, t) weights again. A dropout mask counts as wide as what it masks, as on the
    CPU; CUDA keeps a byte per number. The masks of drop_path, one number an image and
    branch, are left out.
    """
    t, d, m = config.num_tokens, config.embed_dim, config.mlp_dim
    norm = t * (d + 2)  # its input, mean and scale
    attention = t * (
        d + 3 * d + config.num_heads + d
    )  # input; q, k, v; rows; values
    mlp = t * (d + m + m)  # input, before GELU, after GELU
    features = (
        t * d if config.pool == "token" else d
    )  # one row keeps its tensor alive
    hidden = config.pre_logits or 0
    head = (features if hidden or config.num_classes else 0) + hidden
    masks = t * d + config.depth * t * (d + m + d) if config.dropout else 0
    blocks = config.depth * (norm + attention + norm + mlp)
    return pixels(config) + blocks + norm + head + masks


def live_activations(config: ViTConfig) -> int:
    """Numbers per image alive at the widest moment of a forward pass alone.

    That is in the MLP, or in attention where the MLP is narrower than 2d. The first
    tokens, the block's input, the residual stream and the norm's output are held
    around it.
    """
    d, m = config.embed_dim, config.mlp_dim
    return pixels(config) + config.num_tokens * max(4 * d + 2 * m, 8 * d)


def pixels(config: ViTConfig) -> int:
    """Numbers in one image."""
    height, width = config.image_size
    return config.in_channels * height * width
