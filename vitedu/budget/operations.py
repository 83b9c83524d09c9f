"""A configuration's weights and operations, and its use of a device."""

from typing import NamedTuple

import torch

from vitedu.budget.meta import on_meta
from vitedu.model import ViTConfig, new_network
from vitedu.model.encoder import Standard
from vitedu.model.mae import MAEConfig, num_hidden
from vitedu.model.mpp import MPPConfig
from vitedu.model.network import NetworkConfig
from vitedu.model.patches import Patches
from vitedu.model.position import AddedTable, NoPosition

# Dense products (half of what is promised with sparsity), in TFLOP/s, by the
# words of the name that torch gives. Source: NVIDIA's data sheets and, for the
# H100's and H200's 989.5 and 494.7, its Hopper white paper; products sum in
# float32.
DATASHEET = {
    "H100 PCIe": {"bf16": 756, "fp16": 756, "tf32": 378, "fp32": 51},
    "H100": {"bf16": 989.5, "fp16": 989.5, "tf32": 494.7, "fp32": 67},
    "H200": {"bf16": 989.5, "fp16": 989.5, "tf32": 494.7, "fp32": 67},
    "A100": {"bf16": 312, "fp16": 312, "tf32": 156, "fp32": 19.5},
    "L4": {"bf16": 121, "fp16": 121, "tf32": 60, "fp32": 30.3},
    "V100 SXM2": {"fp16": 125, "fp32": 15.7},
    "T4": {"fp16": 65, "fp32": 8.1},
}

# attributes of a network that hold weights, in the order of its forward pass
VIT_PARTS = ("patch_embed", "cls_token", "reg_token", "pos_embed", "blocks")
VIT_PARTS += ("norm_pre", "norm", "pool", "fc_norm", "pre_logits", "head")
RESNET_PARTS = ("stem", "stages", "norm", "head")


class Parameters(NamedTuple):
    """Numbers of learned weights: in all, and by attribute of the model."""

    total: int
    by_part: dict[str, int]


def parameters(config: NetworkConfig) -> Parameters:
    """Count the weights of a configuration, on PyTorch's meta device.

    `by_part` has a 0 for what this configuration leaves out, and what learns
    without labels adds its own parts.
    """
    model, _ = on_meta(new_network, config)
    parts = VIT_PARTS if isinstance(config, ViTConfig) else RESNET_PARTS
    by_part = dict.fromkeys(parts, 0)
    for name, weight in model.named_parameters():
        part = name.partition(".")[0]
        by_part[part] = by_part.get(part, 0) + weight.numel()
    return Parameters(sum(by_part.values()), by_part)


def macs(config: NetworkConfig) -> int:
    """Multiply-adds of one image's forward pass; many tables call them FLOPs.

    Matrix products and convolutions only: no norms, softmax, GELU or biases. By
    formula for plain ViTs; others run on the meta device under PyTorch's
    counter.
    """
    is_plain = (
        isinstance(config, ViTConfig)
        and type(config.stem) is Patches
        and type(config.block) is Standard
        and isinstance(config.position, NoPosition | AddedTable)
        and config.pool in ("token", "mean", "mean_norm")
    )
    if not is_plain:
        from torch.utils.flop_counter import FlopCounterMode

        model, images = on_meta(new_network, config)
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            model(images)
        return counter.get_total_flops() // 2
    n, t, d = config.num_patches, config.num_tokens, config.embed_dim
    p, q = config.patch_size
    pixels = p * q * config.in_channels
    stem = n * pixels * d
    if isinstance(config, MAEConfig):
        seen = t - num_hidden(n, config.mask_ratio)
        ends = seen * d + t * pixels  # into the decoder, and out of it
        decoder = block_macs(config.decoder, t) + ends * config.decoder_dim
        return stem + block_macs(config, seen) + decoder
    if isinstance(config, MPPConfig):
        return stem + block_macs(config, t) + n * d * config.num_outputs
    hidden = config.pre_logits or 0
    head = d * hidden + (hidden or d) * config.num_classes
    return stem + block_macs(config, t) + head


def block_macs(config: ViTConfig, t: int) -> int:
    d, m = config.embed_dim, config.mlp_dim
    # q, k, v, their output; the MLP
    products = 3 if config.block.swiglu else 2
    dense = 4 * t * d * d + products * t * d * m
    attention = 2 * t * t * d  # q k^T and A v, quadratic in the tokens
    return config.depth * (dense + attention)


def flops(config: NetworkConfig) -> int:
    """Floating-point operations of a forward pass: two per multiply-add."""
    return 2 * macs(config)


def training_flops(config: NetworkConfig) -> int:
    """Operations to learn from an image once: backward costs twice forward."""
    return 3 * flops(config)


def datasheet(device: str, precision: str) -> float | None:
    """The maker's peak for matrix products, in operations per second.

    `device` is torch's name, "NVIDIA H100 80GB HBM3"; `precision` fp32, tf32,
    bf16 or fp16. None: unknown, as for slices of a GPU (MIG) and pairs (NVL).
    """
    words = {*device.replace("-", " ").split()}
    for name, peaks in DATASHEET.items():
        if {*name.split()} <= words and not words & {"MIG", "NVL"}:
            return peaks[precision] * 1e12 if precision in peaks else None
    return None


def mfu(
    config: NetworkConfig,
    images_per_second: float,
    ceiling: float,
    *,
    training: bool = True,
) -> float:
    """Model-FLOPs utilisation: the share of `ceiling` that is reached.

    Counts what the model needs (`training_flops`, or `flops` without training),
    not what kernels or activation checkpointing repeat.
    """
    needed = training_flops(config) if training else flops(config)
    return images_per_second * needed / ceiling
