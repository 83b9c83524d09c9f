"""What a configuration costs, before anything is built: weights, arithmetic, memory.

`parameters(vit_config("ViT-B/16")).total` is 86567656.
"""

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from vitedu.errors import UserError, did_you_mean
from vitedu.model import ViT, ViTConfig
from vitedu.model.encoder import Standard
from vitedu.model.patches import Patches
from vitedu.model.position import Relative
from vitedu.model.resnet import ResNet, ResNetConfig

Config = ViTConfig | ResNetConfig

# numbers that an optimizer keeps per weight: Adam's two means, SGD's momentum
OPTIMIZER_STATE = {"adam": 2, "adamw": 2, "sgd": 1}


class Parameters(NamedTuple):
    """Numbers that are learned: in all, and by attribute of the model."""

    total: int
    by_part: dict[str, int]


def parameters(config: Config) -> Parameters:
    """Count the weights of a configuration, exactly, whatever its parts.

    The model is built on PyTorch's meta device, where tensors have shapes but no
    numbers. `by_part` has a 0 for what this configuration leaves out.
    """
    model, _ = on_meta(build, config)
    names = "patch_embed cls_token pos_embed blocks norm pre_logits head"
    if isinstance(config, ResNetConfig):
        names = "stem stages norm head"
    by_part = dict.fromkeys(names.split(), 0)
    for name, weight in model.named_parameters():
        part = name.split(".")[0]
        by_part[part] = by_part.get(part, 0) + weight.numel()
    return Parameters(sum(by_part.values()), by_part)


def macs(config: Config) -> int:
    """Multiply-adds of one image's forward pass; many tables call them FLOPs.

    Matrix products and convolutions alone: norms, softmax, GELU and biases are left
    out. By formula for the stem Patches; a hybrid, a ResNet and what else changes the
    products is run on the meta device under PyTorch's counter.
    """
    if not has_formula(config) or type(config.stem) is not Patches:
        return counted_macs(config)
    n, t = config.num_patches, config.num_tokens
    d, m = config.embed_dim, config.mlp_dim
    p, q = config.patch_size
    stem = n * p * q * config.in_channels * d
    dense = 4 * t * d * d + 2 * t * d * m  # q, k, v, their output; the MLP
    attention = 2 * t * t * d  # q k^T and A v, quadratic in the tokens
    hidden = config.pre_logits or 0
    head = d * hidden + (hidden or d) * config.num_classes
    return stem + config.depth * (dense + attention) + head


def has_formula(config: Config) -> bool:
    """Whether the encoder is the one that this module's formulas describe."""
    return (
        isinstance(config, ViTConfig)
        and type(config.block) is Standard
        and not isinstance(config.position, Relative)
        and config.pool in ("token", "mean")
    )


def counted_macs(config: Config) -> int:
    """Multiply-adds that PyTorch counts in a forward pass on the meta device."""
    from torch.utils.flop_counter import FlopCounterMode

    model, images = on_meta(build, config)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(images)
    return counter.get_total_flops() // 2


def flops(config: Config) -> int:
    """Floating-point operations of one image's forward pass: two per multiply-add.

    Equal to `torch.utils.flop_counter.FlopCounterMode` on the meta device.
    """
    return 2 * macs(config)


def training_flops(config: Config) -> int:
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
    config: Config,
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
    rounds up are not.

    UserError: the optimizer is unknown, or the block, the position or the pool is none
    that is counted here. ValueError: no image.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}, it must be at least 1")
    if optimizer not in OPTIMIZER_STATE:
        raise UserError(
            f"there is no optimizer {optimizer!r}; "
            + did_you_mean(optimizer, OPTIMIZER_STATE)
        )
    weights = parameters(config).total * dtype.itemsize
    activations = activation_bytes(config, batch_size, training, dtype)
    held = [weights, 0, 0, activations]
    if training:
        held[1:3] = weights, OPTIMIZER_STATE[optimizer] * weights
    return Memory(*held, sum(held))


def activation_bytes(
    config: Config, batch_size: int, training: bool, dtype: torch.dtype
) -> int:
    """What `memory` says of activations: a formula, or a ResNet's run on meta."""
    counted = bytes_kept if training else bytes_alive
    if isinstance(config, ResNetConfig):
        return counted(*on_meta(build, config, batch_size, dtype))
    if not has_formula(config):
        raise UserError(
            "memory is counted for the block Standard with positions that are added "
            "and the pools 'token' and 'mean'; measure this model on its device"
        )
    numbers = saved_activations if training else live_activations
    by_formula = batch_size * numbers(config) * dtype.itemsize
    if type(config.stem) is Patches:
        return by_formula
    stem, images = on_meta(config.stem.build, config, batch_size, dtype)
    by_stem = counted(stem, images)
    if training:
        return by_formula - images.nbytes + by_stem
    return max(by_formula, by_stem)


def bytes_kept(module: nn.Module, images: Tensor) -> int:
    """Images, and what autograd keeps of a forward pass: parameters are left out.

    Fused kernels aside: the attention of the meta device keeps its weights.
    """
    held = {}

    def keep(tensor: Tensor) -> Tensor:
        held.update((id(each), each) for each in storages(tensor))
        return tensor

    keep(images)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        module(images)
    for weight in storages(list(module.parameters())):
        held.pop(id(weight), None)
    return sum(each.nbytes() for each in held.values())


def bytes_alive(module: nn.Module, images: Tensor) -> int:
    """Images, and what is alive at the widest moment of a forward pass alone."""
    with torch.inference_mode(), Alive() as alive:
        module(images)
    return images.nbytes + alive.peak


class Alive(TorchDispatchMode):
    """Notes what the operators inside make, and the most bytes that lived at once."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes: dict[int, int] = {}  # of each storage that lives
        self.peak = 0

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        known = {id(each): each for each in storages((args, kwargs))}
        out = operator(*args, **(kwargs or {}))
        for made in storages(out):
            if id(made) not in known and id(made) not in self.bytes:
                self.bytes[id(made)] = made.nbytes()
                weakref.finalize(made, self.bytes.pop, id(made))
        self.peak = max(self.peak, sum(self.bytes.values()))
        return out


def storages(values: Any) -> list[torch.UntypedStorage]:
    """What holds the numbers of the tensors in any nest of lists and dicts."""
    tensors = [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]
    return [tensor.untyped_storage() for tensor in tensors]


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


def pixels(config: Config) -> int:
    """Numbers in one image."""
    height, width = config.image_size
    return config.in_channels * height * width


def build(config: Config) -> nn.Module:
    """The model of a configuration."""
    return ResNet(config) if isinstance(config, ResNetConfig) else ViT(config)


def on_meta(
    build: Callable[[Config], nn.Module],
    config: Config,
    batch_size: int = 1,
    dtype: torch.dtype = torch.float32,
) -> tuple[nn.Module, Tensor]:
    """`build(config)` and its images (b, c, h, w): shapes without numbers."""
    with torch.device("meta"):
        images = torch.empty(batch_size, config.in_channels, *config.image_size)
        return build(config).to(dtype), images.to(dtype)
