"""timm's dialect, with its variants: DeiT, DINO (the first) and MAE's encoder.

Their names are ours, but for attention pooling. What the arrays cannot say is in
`vitedu.weights.timm_about`: a config.json beside them, or timm's table of names.

`load("vit_tiny_patch16_224.augreg_in21k_ft_in1k.safetensors")`
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from vitedu.errors import UserError
from vitedu.files import reason
from vitedu.model import Patches, Standard, ViT, ViTConfig
from vitedu.model.hybrid import Hybrid
from vitedu.model.position import Learned1D, NoPosition
from vitedu.model.resnet import ResNet, ResNetConfig
from vitedu.pictures import PreprocessSpec
from vitedu.weights.rows import Row, shape_of, to_ours, to_theirs
from vitedu.weights.sizes import (
    Names,
    check_holds,
    depth_in,
    sizes_in,
    with_class_row,
)
from vitedu.weights.timm_about import (
    HYBRIDS,
    RESNETS,
    about_of,
    class_names,
    config_json,
    preprocess,
    said_of,
)

__all__ = [
    "beside",
    "class_names",
    "dropped",
    "from_vitedu",
    "notes",
    "preprocess",
    "recognises",
    "to_vitedu",
]

RESIZE = "timm"

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
LEFT_OUT = "MAE's decoder"
REFUSED = {
    "dist_token": "it has a distillation token and a head for it; take the DeiT that "
    "was trained without, vitedu's network has no place for them",
    "reg_token": "it has register tokens, which vitedu's network has no place for",
}


def recognises(arrays: dict[str, Tensor]) -> bool:
    """Whether it has patches and blocks under timm's names, or is a ResNetV2 of its."""
    return {NAMES.patches, BLOCK} <= arrays.keys() or is_resnet(arrays)


def is_resnet(arrays: dict[str, Tensor]) -> bool:
    """Whether it is a ResNetV2 of timm."""
    return {ROOT, UNIT} <= arrays.keys()


def dropped(arrays: dict[str, Tensor], hints: dict[str, Any]) -> list[str]:
    """The names of MAE's decoder."""
    return [name for name in arrays if DECODER.match(name)]


def to_vitedu(
    arrays: dict[str, Tensor], hints: dict[str, Any]
) -> tuple[ViTConfig | ResNetConfig, dict[str, Tensor]]:
    """Configuration and state_dict of a file.

    Where nothing says otherwise, GELU is exact and epsilon 1e-6, and the pool is the
    class token's, without one the mean. A norm after the pool (fc_norm) is read where
    the pool is said to be the class token's: there it is the same function.

    UserError: something must be asked for, is missing or left over, or ours cannot be
    that network.
    """
    arrays = {k: v for k, v in arrays.items() if not DECODER.match(k)}
    for name, sentence in REFUSED.items():
        if name in arrays:
            raise UserError(sentence)
    if is_resnet(arrays):
        config = resnet_config_in(arrays, hints)
        return config, to_ours(rows_in(config), arrays, num_heads=0)
    config, is_fc_norm = vit_config_in(arrays, hints)
    rows = rows_in(config, norm="fc_norm" if is_fc_norm else "norm")
    state = to_ours(rows, arrays, config.num_heads)
    return config, with_class_row(state, config)


def vit_config_in(
    arrays: dict[str, Tensor], hints: dict[str, Any]
) -> tuple[ViTConfig, bool]:
    """The configuration of a ViT's or a hybrid's arrays, and whether it has fc_norm."""
    embed_dim = shape_of(arrays, NAMES.patches, 4)[0]
    said = said_of(hints, embed_dim, depth_in(arrays, NAMES.block))
    stem, channels = stem_in(arrays)
    sizes = sizes_in(arrays, NAMES, said=said, hints=hints, stem=stem)
    is_fc_norm = "fc_norm.weight" in arrays
    pool = hints.get("pool", said.get("pool"))
    if is_fc_norm and pool not in ("token", "none"):
        raise UserError(
            "it takes the norm of the mean of the tokens (timm's fc_norm), where "
            "vitedu takes the mean of normed tokens, which is another function"
        )
    if pool is None:
        pool = "token" if sizes["class_token"] else "mean"
        pool = "map" if "attn_pool.latent" in arrays else pool
    is_over_all = said.get("with_prefix") and sizes["class_token"]
    if is_over_all and pool in ("mean", "map"):
        raise UserError(
            "it pools over the class token too (timm's pool_include_prefix), which "
            "vitedu's network does not"
        )
    return ViTConfig(
        **sizes | channels,
        position=position_in(arrays, said, hints),
        pool=pool,
        gelu=said.get("gelu", "exact"),
        norm_eps=said.get("norm_eps", 1e-6),
    ), is_fc_norm


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
    arrays: dict[str, Tensor], said: dict[str, Any], hints: dict[str, Any]
) -> Learned1D | NoPosition:
    """The positions. UserError: there are none, and nobody said that."""
    if NAMES.positions in arrays:
        return Learned1D()
    position = hints.get("position", said.get("position"))
    if position != NoPosition():
        raise UserError(
            f"it lacks {NAMES.positions!r}; if it was trained without positions, give "
            "position=NoPosition() (in the command position=none)"
        )
    return position


def resnet_config_in(
    arrays: dict[str, Tensor], hints: dict[str, Any]
) -> ResNetConfig:
    """The configuration of a ResNetV2's arrays: BiT's, or the backbone of hybrids."""
    channels, in_channels, *_ = shape_of(arrays, ROOT, 4)
    head = "head.fc.weight"
    size = about_of(hints).get("input_size")
    given = {"image_size": hints["image_size"]} if "image_size" in hints else {}
    if isinstance(size, list | tuple):
        given = {"image_size": tuple(size[1:])}
    return ResNetConfig(
        family="bit-v1" if "stem.norm.weight" in arrays else "bit-v2",
        layers=layers_in(arrays, ""),
        width=channels / 64,
        num_classes=shape_of(arrays, head, 4)[0] if head in arrays else 0,
        in_channels=in_channels,
        pool_padding=hints.get("pool_padding"),
        **given,
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
            f"it holds units of the stages {sorted(depths)[:8]}, but not all of them, "
            "so it is not complete"
        )
    return layers


def rows_in(
    config: ViTConfig | ResNetConfig, norm: str = "norm"
) -> Iterator[Row]:
    """Our names beside timm's; `norm` is what it calls the final norm."""
    network = ResNet if isinstance(config, ResNetConfig) else ViT
    try:
        with torch.device("meta"):
            names = network(config).state_dict()
    except (RuntimeError, OverflowError, TypeError) as error:
        raise UserError(
            f"its network cannot be built: {reason(error)}"
        ) from None
    for ours in names:
        theirs = re.sub(r"^pool\.", "attn_pool.", ours)
        if network is ViT:
            theirs = re.sub(r"^norm\.", f"{norm}.", theirs)
        yield Row(ours, (theirs,), "same")


def from_vitedu(
    config: ViTConfig | ResNetConfig, state_dict: dict[str, Tensor]
) -> dict[str, Tensor]:
    """The arrays under timm's names. UserError: timm has no such network."""
    if isinstance(config, ResNetConfig):
        check_resnet(config)
    else:
        check_vit(config)
    return to_theirs(rows_in(config), state_dict, num_heads=0)


def check_vit(config: ViTConfig) -> None:
    """UserError unless timm's VisionTransformer can be this network."""
    stem, is_hybrid = config.stem, isinstance(config.stem, Hybrid)
    position = config.position
    check_holds(
        "timm's ViT",
        {
            "a pre-logits layer": config.pre_logits is not None,
            f"block={config.block}": config.block != Standard(),
            f"position={position}": position not in (Learned1D(), NoPosition()),
            f"stem={stem}": is_hybrid
            and (stem.width != 1 or stem.layers not in HYBRIDS),
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


def beside(
    config: ViTConfig | ResNetConfig,
    spec: PreprocessSpec,
    names: tuple[str, ...],
) -> dict[str, dict[str, Any]]:
    """The JSON that belongs beside the arrays."""
    return {"config.json": config_json(config, spec, names)}


def notes(
    config: ViTConfig | ResNetConfig, hints: dict[str, Any]
) -> tuple[str, ...]:
    """Where timm computes otherwise than the authors, whom vitedu follows."""
    if isinstance(config, ResNetConfig):
        kind, moved = "BiT", "1e-5"
    elif isinstance(config.stem, Hybrid):
        kind, moved = "hybrids", "5e-4"
    else:
        return ()
    return (
        f"timm has other small numbers in the norms of {kind} than their authors; "
        f"vitedu has the authors', which moves logits by up to {moved} of the largest",
    )
