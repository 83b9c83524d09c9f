"""timm's dialect, with its variants: DeiT, DINO (the first) and MAE's encoder.

Their names are ours, but for attention pooling. What the arrays cannot say is
in `vitedu.weights.timm_config`: a config.json beside them, or timm's table of
names.

`load("vit_tiny_patch16_224.augreg_in21k_ft_in1k.safetensors")`
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from vitedu.errors import UserError, reason
from vitedu.model import (
    Hybrid,
    Learned1D,
    NoPosition,
    Patches,
    ResNetConfig,
    ViTConfig,
    new_network,
)
from vitedu.weights.checkpoint import About, Checkpoint, NetworkConfig
from vitedu.weights.renaming import (
    Row,
    check_holds,
    check_vit,
    note_on_dropped,
    shape_of,
    to_ours,
    to_theirs,
)
from vitedu.weights.timm_config import (
    HYBRIDS,
    RESNETS,
    beside,
    class_names,
    fields_of,
    preprocess,
    pretrained_cfg,
)
from vitedu.weights.vit_sizes import (
    Names,
    check_no_distillation,
    depth_in,
    sizes_in,
    with_prefix_rows,
)

__all__ = ["MARKS", "beside", "from_vitedu", "to_vitedu"]

NAMES = Names(
    patches="patch_embed.proj.weight",
    class_token="cls_token",
    positions="pos_embed",
    block=r"blocks\.(\d{1,4})\.",
    mlp="blocks.0.mlp.fc1.weight",
    head="head.weight",
    pre_logits="pre_logits.fc.weight",
)
# the first layers of a ViT's block and of a ResNet
BLOCK = "blocks.0.attn.qkv.weight"
ROOT, UNIT = "stem.conv.weight", "stages.0.blocks.0.conv1.weight"
BACKBONE = "patch_embed.backbone."
# MAE's decoder, and the token that it puts for a hidden patch
DECODER = re.compile(
    r"decoder_(embed|blocks|norm|pred)\.|(decoder_pos_embed|mask_token)$"
)


# a ViT or a hybrid, and a ResNetV2
MARKS = ({NAMES.patches, BLOCK}, {ROOT, UNIT})


def to_vitedu(arrays: dict[str, Tensor], about: About) -> Checkpoint:
    """The checkpoint in a file.

    Where nothing says otherwise, GELU is exact and epsilon 1e-6, and the pool
    is the class token's, without one the mean. A norm after the pool (fc_norm)
    is read where the pool is known to be the class token's: there it is the
    same function.

    UserError: something must be asked for, is missing or left over, or ours
    cannot be that network.
    """
    dropped = tuple(name for name in arrays if DECODER.match(name))
    arrays = {k: v for k, v in arrays.items() if k not in dropped}
    check_no_distillation("dist_token" in arrays)
    is_resnet = MARKS[1] <= arrays.keys()
    config = (resnet_config_in if is_resnet else vit_config_in)(arrays, about)
    norm = "fc_norm" if "fc_norm.weight" in arrays else "norm"
    state = to_ours(rows_in(config, norm), arrays, num_heads=0)
    spec, doubts = preprocess(config, about)
    return Checkpoint(
        config,
        state if is_resnet else with_prefix_rows(state, config),
        spec,
        class_names(config, about),
        resize_mode="paper" if is_resnet else "timm",
        dropped=dropped,
        notes=note_on_dropped(dropped, "MAE's decoder") + note_on_norms(config),
        doubts=doubts,
    )


def vit_config_in(arrays: dict[str, Tensor], about: About) -> ViTConfig:
    """The configuration of a ViT's or a hybrid's arrays."""
    embed_dim = shape_of(arrays, NAMES.patches, 4)[0]
    stated = fields_of(about, embed_dim, depth_in(arrays, NAMES.block))
    stem, channels = stem_in(arrays)
    registers = 0
    if "reg_token" in arrays:
        registers = shape_of(arrays, "reg_token", 3)[1]
    sizes = sizes_in(
        arrays,
        NAMES,
        stated=stated,
        about=about,
        stem=stem,
        registers=registers,
    )
    pool = about.pool or stated.get("pool")
    if "fc_norm.weight" in arrays and pool not in ("token", "none"):
        raise UserError(
            "it takes the norm of the mean of the tokens (timm's fc_norm), "
            "where vitedu takes the mean of normed tokens, which is another "
            "function"
        )
    if pool is None:
        pool = "token" if sizes["class_token"] else "mean"
        pool = "map" if "attn_pool.latent" in arrays else pool
    is_over_all = stated.get("pool_include_prefix") and sizes["class_token"]
    if is_over_all and pool in ("mean", "map"):
        raise UserError(
            "it pools over the class token too (timm's pool_include_prefix), "
            "which vitedu's network does not"
        )
    return ViTConfig(
        **sizes | channels,
        position=position_in(arrays, stated, about),
        pool=pool,
        gelu=stated.get("gelu", "exact"),
        norm_eps=stated.get("norm_eps", 1e-6),
    )


def stem_in(
    arrays: dict[str, Tensor],
) -> tuple[Patches | Hybrid, dict[str, int]]:
    """The stem, and for a hybrid the channels that its root sees."""
    if not any(name.startswith(BACKBONE) for name in arrays):
        return Patches(), {}
    layers = layers_in(arrays, BACKBONE)
    root = BACKBONE + (ROOT if layers else ROOT.removeprefix("stem."))
    channels, in_channels, *_ = shape_of(arrays, root, 4)
    return Hybrid(layers, channels / 64), {"in_channels": in_channels}


def position_in(
    arrays: dict[str, Tensor], stated: dict[str, Any], about: About
) -> Learned1D | NoPosition:
    """The positions. UserError: there are none, and nothing says why."""
    if NAMES.positions in arrays:
        return Learned1D()
    position = about.position or stated.get("position")
    if position != NoPosition():
        raise UserError(
            f"it lacks {NAMES.positions!r}; if it was trained without "
            "positions, give position=NoPosition() (in the command "
            "position=none)"
        )
    return position


def resnet_config_in(arrays: dict[str, Tensor], about: About) -> ResNetConfig:
    """The configuration of ResNetV2 arrays: BiT's, or the hybrids' backbone."""
    channels, in_channels, *_ = shape_of(arrays, ROOT, 4)
    head = "head.fc.weight"
    size = pretrained_cfg(about).get("input_size")
    size = size[1:] if isinstance(size, list | tuple) else about.image_size
    return ResNetConfig(
        family="bit-v1" if "stem.norm.weight" in arrays else "bit-v2",
        layers=layers_in(arrays, ""),
        width=channels / 64,
        num_classes=shape_of(arrays, head, 4)[0] if head in arrays else 0,
        in_channels=in_channels,
        pool_padding=about.pool_padding,
        **({"image_size": size} if size else {}),
    )


def layers_in(arrays: dict[str, Tensor], prefix: str) -> tuple[int, ...]:
    """Units of each stage of a ResNet, by the names of arrays."""
    pattern = rf"^{re.escape(prefix)}stages\.(\d{{1,3}})\.blocks\.(\d{{1,3}})\."
    found = re.findall(pattern, "\n".join(arrays), re.MULTILINE)
    places = sorted({(int(stage), int(unit)) for stage, unit in found})
    depths = Counter(stage for stage, _ in places)
    layers = tuple(depths[stage] for stage in range(len(depths)))
    whole = [(i, j) for i, depth in enumerate(layers) for j in range(depth)]
    if places != whole:
        raise UserError(
            f"it holds units of the stages {sorted(depths)[:8]}, but not all "
            "of them, so it is not complete"
        )
    return layers


def rows_in(config: NetworkConfig, norm: str = "norm") -> Iterator[Row]:
    """Our names beside timm's; `norm` is what it calls the final norm."""
    try:
        with torch.device("meta"):
            names = new_network(config).state_dict()
    except (RuntimeError, OverflowError, TypeError) as error:
        raise UserError(
            f"its network cannot be built: {reason(error)}"
        ) from None
    for ours in names:
        theirs = re.sub(r"^pool\.", "attn_pool.", ours)
        yield Row(ours, (re.sub(r"^norm\.", f"{norm}.", theirs),), "same")


def from_vitedu(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The arrays under timm's names. UserError: timm has no such network."""
    config = checkpoint.config
    if isinstance(config, ResNetConfig):
        check_resnet(config)
    else:
        check_writable(config)
    return to_theirs(rows_in(config), checkpoint.state_dict, num_heads=0)


def check_writable(config: ViTConfig) -> None:
    """UserError unless timm's VisionTransformer can be this network."""
    owner, stem = "timm's ViT", config.stem
    positions = (Learned1D(), NoPosition())
    check_vit(owner, config, stem=(), pool=(), registers=(), position=positions)
    is_unknown = config.has_resnet and (
        stem.width != 1 or stem.layers not in HYBRIDS
    )
    check_holds(
        owner,
        {
            "a pre-logits layer": config.pre_logits is not None,
            f"stem={stem}": is_unknown,
        },
    )


def check_resnet(config: ResNetConfig) -> None:
    """UserError unless timm has this ResNet."""
    kind = config.layers, config.width
    check_holds(
        "timm's BiT",
        {
            f"family {config.family}": config.family != "bit-v2",
            f"layers={config.layers} of width {config.width}": kind
            not in RESNETS,
            f"pool_padding={config.pool_padding!r}": config.pool_padding
            != "zeros",
        },
    )


def note_on_norms(config: NetworkConfig) -> tuple[str, ...]:
    """Where timm computes otherwise than the authors, whom vitedu follows."""
    if not config.has_resnet:
        return ()
    is_bit = isinstance(config, ResNetConfig)
    kind, moved = ("BiT", "1e-5") if is_bit else ("hybrids", "5e-4")
    return (
        f"timm has other small numbers in the norms of {kind} than their "
        "authors; vitedu has the authors', which moves logits by up to "
        f"{moved} of the largest",
    )
