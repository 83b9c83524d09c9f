"""Bytes that a step holds: weights, gradients, optimizer state, activations."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from vitedu.budget.meta import bytes_alive, bytes_kept, on_meta
from vitedu.budget.operations import parameters
from vitedu.model import ViTConfig, new_network
from vitedu.model.network import NetworkConfig

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
    moment (of a ResNet, all); without `training`, what is alive at the widest
    moment. Images are included; the loss, the kernels' work space and the
    allocator's rounding are not.
    """
    half = autocast or dtype
    weights = parameters(config).total * dtype.itemsize
    if not training:
        alive = bytes_of(bytes_alive, config, batch_size, dtype, half)
        return Memory(weights, 0, 0, 0, alive, weights + alive)
    if checkpointing and isinstance(config, ViTConfig):
        casts, alive = checkpointed_bytes(config, batch_size, dtype, half)
    else:
        casts = cast_bytes(config, dtype, half)
        alive = bytes_of(bytes_kept, config, batch_size, dtype, half) - casts
    state = OPTIMIZER_STATE[optimizer] * weights
    held = [weights, weights, state, casts, alive]
    return Memory(*held, sum(held))


def checkpointed_bytes(
    config: ViTConfig,
    batch_size: int,
    dtype: torch.dtype,
    half: torch.dtype,
) -> tuple[int, int]:
    """Bytes of casts and activations if blocks keep only their inputs.

    The peak is in the last block: forward, with all casts, or backward, with
    the gradient of what is between the MLP's products.
    """
    casts, kept = zip(
        *(
            (
                cast_bytes(each, dtype, half),
                bytes_of(bytes_kept, each, batch_size, dtype, half),
            )
            for each in (replace(config, depth=depth) for depth in (1, 2))
        ),
        strict=True,
    )
    rows = batch_size * config.num_tokens
    inputs = (config.depth - 1) * rows * config.embed_dim * dtype.itemsize
    alive = kept[0] - casts[0] + inputs
    gradient = rows * config.mlp_dim * half.itemsize
    moments = (
        (cast_bytes(config, dtype, half), alive),
        (casts[1] - casts[0], alive + gradient),
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


@cache
def bytes_of(
    count: Callable[[nn.Module, Tensor], int],
    config: NetworkConfig,
    batch_size: int,
    dtype: torch.dtype,
    half: torch.dtype,
) -> int:
    """What `count` finds on a pretended CPU, whose kernels save as real ones.

    A dropout mask counts as wide as what it masks (on CUDA it is a byte).
    """
    if count is bytes_kept:  # grows evenly with the batch and a ViT's blocks
        numbers, depth = (dtype, half), getattr(config, "depth", 1)
        if batch_size > 2:
            one, two = (bytes_of(count, config, b, *numbers) for b in (1, 2))
            return one + (batch_size - 1) * (two - one)
        if depth > 2:
            less = (replace(config, depth=n) for n in (1, 2))
            one, two = (bytes_of(count, x, batch_size, *numbers) for x in less)
            return one + (depth - 1) * (two - one)
    from torch._subclasses.fake_tensor import FakeTensorMode  # takes a second

    model, images = on_meta(new_network, config, batch_size, dtype)
    products = torch.autocast("cpu", half, enabled=half != dtype)
    with FakeTensorMode(allow_non_fake_inputs=True), products:
        images = torch.empty_like(images, device="cpu")
        return count(model.to_empty(device="cpu"), images)


def pixels(config: NetworkConfig) -> int:
    height, width = config.image_size
    return config.in_channels * height * width
