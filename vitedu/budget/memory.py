"""Bytes that a step holds: weights, gradients, optimizer state, activations."""

from typing import NamedTuple

import torch
from torch import nn

from vitedu.budget.meta import bytes_alive, bytes_kept, on_meta
from vitedu.budget.operations import (
    has_formula,
    mlp_products,
    parameters,
)
from vitedu.errors import UserError
from vitedu.model import ResNetConfig, ViTConfig, new_network
from vitedu.model.network import NetworkConfig
from vitedu.model.patches import Patches

# numbers that an optimizer keeps per weight: Adam's two means, SGD's momentum
OPTIMIZER_STATE = {"adam": 2, "adamw": 2, "sgd": 1}


class Memory(NamedTuple):
    """Bytes, by what they hold."""

    weights: int
    gradients: int
    optimizer: int
    casts: int  # kernels in the format of autocast, kept for the backward pass
    activations: int
    total: int


def memory(
    config: NetworkConfig,
    *,
    batch_size: int,
    optimizer: str = "adamw",
    training: bool = True,
    dtype: torch.dtype = torch.float32,
    autocast: torch.dtype | None = None,
    checkpointing: bool = False,
) -> Memory:
    """Bytes that a step on `batch_size` images holds, in numbers of `dtype`.

    With `autocast` (bfloat16 or float16), products and what they keep are in
    that format. Activations are what the forward pass keeps for the backward
    pass; with `checkpointing`, each block's input and one block at its widest
    moment; without `training`, what is alive at the widest moment. Images are
    included; the loss, the kernels' work space and the allocator's rounding are
    not.

    UserError: the block, position or pool isn't counted here; a ResNet with
    `checkpointing`; `autocast` with any stem but Patches.
    """
    half = autocast or dtype
    weights = parameters(config).total * dtype.itemsize
    if not training:
        alive = activation_bytes(config, batch_size, False, dtype, half)
        return Memory(weights, 0, 0, 0, alive, weights + alive)
    if checkpointing:
        casts, alive = checkpointed_bytes(config, batch_size, dtype, half)
    else:
        casts = cast_bytes(config, dtype, half)
        alive = activation_bytes(config, batch_size, True, dtype, half)
    state = OPTIMIZER_STATE[optimizer] * weights
    held = [weights, weights, state, casts, alive]
    return Memory(*held, sum(held))


def activation_bytes(
    config: NetworkConfig,
    batch_size: int,
    training: bool,
    dtype: torch.dtype,
    half: torch.dtype,
) -> int:
    """By formula; for a ResNet, by a run on the meta device."""
    counted = bytes_kept if training else bytes_alive
    is_plain = type(getattr(config, "stem", None)) is Patches
    if half != dtype and not is_plain:
        refuse("autocast is counted for the stem Patches")
    if isinstance(config, ResNetConfig):
        return counted(*on_meta(new_network, config, batch_size, dtype))
    if not has_formula(config):
        refuse(
            "memory is counted for the block Standard with no norm of q and k, "
            "positions that are added and the pools 'token', 'mean' and "
            "'mean_norm'"
        )
    numbers = saved_activations if training else live_activations
    by_formula = batch_size * numbers(config, dtype.itemsize, half.itemsize)
    if is_plain:
        return by_formula
    stem, images = on_meta(config.stem.build, config, batch_size, dtype)
    by_stem = counted(stem, images)
    if training:
        return by_formula - images.nbytes + by_stem
    return max(by_formula, by_stem)


def checkpointed_bytes(
    config: NetworkConfig,
    batch_size: int,
    dtype: torch.dtype,
    half: torch.dtype,
) -> tuple[int, int]:
    """Bytes of casts and activations if blocks keep only their inputs.

    The peak is in the last block: forward, or backward at the second GELU.
    """
    if isinstance(config, ResNetConfig):
        refuse("activation checkpointing is counted for the blocks of a ViT")
    wide, narrow = dtype.itemsize, half.itemsize
    t, d, m = config.num_tokens, config.embed_dim, config.mlp_dim
    block = saved_in_block(config, wide, narrow)
    behind = config.depth * block + saved_at_end(config, wide, narrow)
    stem = activation_bytes(config, batch_size, True, dtype, half)
    stem -= batch_size * behind
    inputs = config.depth * t * d * wide
    # the residual stream and its norm; the MLP's two
    forward = inputs + t * (2 * d * wide + kept_in_mlp(config) * m * narrow)
    # the gradients of the stream and of what the MLP is in the middle of
    backward = inputs - t * d * wide + block + t * (d * wide + m * narrow)
    kernels = 4 * d * d + mlp_products(config) * d * m
    casts_of_block = kernels * narrow if half != dtype else 0
    moments = (
        (cast_bytes(config, dtype, half), stem + batch_size * forward),
        (casts_of_block, stem + batch_size * backward),
    )
    return max(moments, key=sum)


def cast_bytes(
    config: NetworkConfig, dtype: torch.dtype, half: torch.dtype
) -> int:
    """Bytes of all kernels as autocast copies them; 0 without autocast."""
    if half == dtype:
        return 0
    model, _ = on_meta(new_network, config)
    kernels = [
        module.weight.numel()
        for module in model.modules()
        if isinstance(module, nn.Linear | nn.Conv2d)
    ]
    return sum(kernels) * half.itemsize


def refuse(what: str) -> None:
    raise UserError(f"{what}; measure this model on its device")


def saved_activations(config: ViTConfig, wide: int, narrow: int) -> int:
    """Bytes per image that the forward pass keeps for the backward pass.

    A number takes `wide` bytes, in products and GELU `narrow` (autocast).
    Attention is fused: it keeps one number per row and head. A dropout mask
    counts as wide as what it masks, as on the CPU (CUDA: a byte).
    """
    t, d = config.num_tokens, config.embed_dim
    # autocast's convolution keeps images of its own
    images = pixels(config) * (wide + (narrow if narrow != wide else 0))
    mask = t * d * wide if config.dropout else 0
    # CLIP's norm: its input, mean and scale
    norm = t * (d + 2) * wide if getattr(config.stem, "norm", False) else 0
    blocks = config.depth * saved_in_block(config, wide, narrow)
    return images + mask + norm + blocks + saved_at_end(config, wide, narrow)


def kept_in_mlp(config: ViTConfig) -> int:
    """Rows of mlp_dim numbers for a token, from the first product on.

    They are before and after GELU; with a quick one also the sigmoid; with
    SwiGLU both halves, the SiLU of one, and their product.
    """
    if getattr(config.block, "swiglu", False):
        return 4
    return 3 if config.gelu == "quick" else 2


def saved_in_block(config: ViTConfig, wide: int, narrow: int) -> int:
    t, d, m = config.num_tokens, config.embed_dim, config.mlp_dim
    norm = t * (d + 2) * wide  # its input, mean and scale
    # input; q, k, v; values; one number a row and head
    attention = t * ((d + 3 * d + d) * narrow + config.num_heads * wide)
    mlp = t * (d + kept_in_mlp(config) * m) * narrow
    masks = t * (d + m + d) * narrow if config.dropout else 0
    scale = 2 * t * d * narrow if config.block.layer_scale is not None else 0
    return norm + attention + norm + mlp + masks + scale


def saved_at_end(config: ViTConfig, wide: int, narrow: int) -> int:
    """What the final norm, the pre-logits layer and the head keep."""
    t, d, hidden = config.num_tokens, config.embed_dim, config.pre_logits or 0
    # one row of float32 keeps its tensor alive, one that is cast is a copy
    is_view = config.pool == "token" and narrow == wide
    features = t * d * wide if is_view else d * narrow
    if not hidden and not config.num_classes:
        features = 0
    rows = 1 if config.pool == "mean_norm" else t
    return rows * (d + 2) * wide + features + hidden * narrow


def live_activations(config: ViTConfig, wide: int, narrow: int) -> int:
    """Bytes per image at the widest moment of a forward pass alone.

    That is in the MLP, or in attention if the MLP is narrower than 2d, beside
    the first tokens, the block's input, the residual stream and its norm.
    """
    d, m = config.embed_dim, config.mlp_dim
    in_mlp = 4 * d * wide + kept_in_mlp(config) * m * narrow
    in_attention = 3 * d * wide + 5 * d * narrow
    return pixels(config) * wide + config.num_tokens * max(in_mlp, in_attention)


def pixels(config: NetworkConfig) -> int:
    height, width = config.image_size
    return config.in_channels * height * width
