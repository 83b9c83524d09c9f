"""Google's dialect: what vit_jax, big_vision and BiT keep in .npz files.

The arrays alone say the architecture: ViTs with and without pre-logits, hybrids, BiT
and big_vision's ViTs, under the released names and today's, scanned blocks too. What
they cannot say is asked for: `load("FILE.npz", image_size=(224, 320))`.

Sources: vit_jax's models_vit.py and checkpoint.py, big_vision's vit.py, bit.py and
bit_paper.py; paper, section 3.1.
"""

import math
import re
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from vitedu.errors import UserError
from vitedu.model import Patches, Standard, ViTConfig
from vitedu.model.hybrid import Hybrid
from vitedu.model.position import Learned1D, SinCos2D
from vitedu.model.resnet import ResNetConfig
from vitedu.pictures import PreprocessSpec
from vitedu.weights.npz_names import (
    LINEN,
    POSITIONS,
    RELEASED,
    Numbers,
    legacy_names,
    resnet_names,
    vit_names,
)
from vitedu.weights.rows import shape_of, to_ours, to_theirs
from vitedu.weights.unknown import refusal

RESIZE = "paper"
# of all files, and nowhere in them
FIXED = {"gelu": "tanh", "norm_eps": 1e-6}

PREFIXES = ("opt/target/", "params/img/", "params/", "")
LEGACY_ROOT = "resnet/root_block/standardized_conv2d/kernel"
BIT_ROOT = "root_block/conv_root/kernel"
# the first layers of a ViT, of a ResNet, and of BiT under two names
FIRST = ("embedding/kernel", "conv_root/kernel", BIT_ROOT, LEGACY_ROOT)
# what vit_jax and big_vision keep beside the weights while they train
TRAINING = re.compile(r"(opt|opt_state|chrono)/|(step|epoch)$")
LEFT_OUT = "the state of a training"


def recognises(arrays: dict[str, Tensor]) -> bool:
    """Whether the first layer has one of the names of Google's files."""
    return prefix_of(arrays) is not None


def dropped(arrays: dict[str, Tensor], hints: dict[str, Any]) -> list[str]:
    """The names of what a training program kept beside the weights."""
    prefix = prefix_of(arrays) or ""
    return [
        name
        for name in arrays
        if TRAINING.match(name) and not (prefix and name.startswith(prefix))
    ]


def preprocess(
    config: ViTConfig | ResNetConfig, hints: dict[str, Any]
) -> PreprocessSpec:
    """The authors' evaluation: resized straight to size, bilinear, range -1..1.

    That is vit_jax's and BiT's. Files that only big_vision writes, with attention
    pooling or fixed positions, get its own: short side to 8/7 of the size (256 for
    224), then the centre.
    """
    is_big_vision = isinstance(config, ViTConfig) and (
        config.pool == "map" or isinstance(config.position, SinCos2D)
    )
    crop = 0.875 if is_big_vision else None
    return PreprocessSpec(config.image_size, config.in_channels, crop=crop)


def to_vitedu(
    arrays: dict[str, Tensor], hints: dict[str, Any]
) -> tuple[ViTConfig | ResNetConfig, dict[str, Tensor]]:
    """Configuration and state_dict of a file; its arrays say nearly all.

    `hints` count where they say nothing: `image_size`, where the patches form no
    square or there is no table of positions; `position`, where there is none (else
    SinCos2D); `pool` "none"; `pool_padding` of BiT, by default -inf under the flat
    names, as in big_vision, and zeros under the legacy ones, as in the release.

    UserError: something must be asked for, is missing, or is left over.
    """
    prefix, stack = prefix_of(arrays) or "", "Transformer/encoderblock/"
    is_stacked = any(name.startswith(prefix + stack) for name in arrays)

    def in_file(name: str) -> str:
        if is_stacked:
            name = re.sub(r"^Transformer/encoderblock_\d+/", stack, name)
        return prefix + name

    arrays = unstacked(bare(arrays))
    if "embedding/kernel" not in arrays:
        config = resnet_config_in(arrays, hints)
        names = legacy_names if LEGACY_ROOT in arrays else resnet_names
        return config, to_ours(names(config), arrays, 0, in_file)
    config, table = vit_config_in(arrays, hints), table_in(arrays)
    numbers = numbers_in(arrays)._replace(positions=table)
    rows = vit_names(config, numbers, has_positions=table is not None)
    state = to_ours(rows, arrays, config.num_heads, in_file)
    if table and state["pos_embed"].shape[1] < config.num_tokens:
        # they add positions before the class token comes: it has none
        state["pos_embed"] = F.pad(state["pos_embed"], (0, 0, 1, 0))
    return config, state


def from_vitedu(
    config: ViTConfig | ResNetConfig, state_dict: dict[str, Tensor]
) -> dict[str, Tensor]:
    """The arrays under the released names, or big_vision's where it alone has such.

    The format has no place for the GELU and the norms' epsilon; `FIXED` holds what
    every reader takes. BiT gets the names that stand for its padding.

    UserError: the format cannot hold the model.
    """
    if isinstance(config, ResNetConfig):
        is_legacy = (config.family, config.pool_padding) == ("bit-v2", "zeros")
        names = legacy_names if is_legacy else resnet_names
        return flat_norms(to_theirs(names(config), state_dict, 0), is_legacy)
    check_writable(config)
    is_fixed = isinstance(config.position, SinCos2D)
    numbers = LINEN if is_fixed or config.pool == "map" else RELEASED
    if config.class_token:
        numbers = numbers._replace(positions=POSITIONS[0])
    rows = vit_names(config, numbers, has_positions=not is_fixed)
    return to_theirs(rows, state_dict, config.num_heads)


def flat_norms(arrays: dict[str, Tensor], is_legacy: bool) -> dict[str, Tensor]:
    """The legacy files have the vectors of their GroupNorms flat."""
    if not is_legacy:
        return arrays
    return {
        name: array.flatten() if "group_norm/" in name else array
        for name, array in arrays.items()
    }


def check_writable(config: ViTConfig) -> None:
    """UserError unless a reader of the file would build this network again."""
    reasons = {
        f"stem={config.stem}": not isinstance(config.stem, Patches | Hybrid),
        f"block={config.block}": not isinstance(config.block, Standard),
        f"position={config.position}": config.position
        not in (Learned1D(), SinCos2D()),
        "pool='mean' beside a class token": config.pool == "mean"
        and config.class_token,
    }
    for what, is_so in reasons.items():
        if is_so:
            raise UserError(f"Google's npz files cannot say {what}")


def prefix_of(arrays: dict[str, Tensor]) -> str | None:
    """The prefix of all names; None: this is not a file of Google's."""
    for prefix in PREFIXES:
        if any(prefix + name in arrays for name in FIRST):
            return prefix
    return None


def bare(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    """The arrays without their prefix and without a training's state.

    UserError: an array is neither below the prefix nor a training's.
    """
    prefix, left_out = prefix_of(arrays) or "", set(dropped(arrays, {}))
    kept = {name: arrays[name] for name in arrays if name not in left_out}
    outside = [name for name in kept if not name.startswith(prefix)]
    if outside:
        raise refusal(outside, arrays)
    return {name.removeprefix(prefix): kept[name] for name in kept}


def unstacked(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    """Scanned blocks, all depths in one array, taken apart to one block each."""
    stack, blocks = "Transformer/encoderblock/", {}
    shapes = [arrays[x].shape for x in arrays if x.startswith(stack)]
    depths = {tuple(shape[:1]) for shape in shapes}
    if len(depths) > 1 or () in depths or any(0 in x for x in shapes):
        raise UserError(
            "its scanned blocks are not all of one depth; it is damaged"
        )
    for name, array in arrays.items():
        if not name.startswith(stack):
            blocks[name] = array
            continue
        for i, one in enumerate(array):
            place = f"{stack[:-1]}_{i}/{name.removeprefix(stack)}"
            if place in arrays:
                raise UserError(f"it holds {place} twice, alone and scanned")
            blocks[place] = one
    return blocks


def numbers_in(arrays: dict[str, Tensor]) -> Numbers:
    """What the parts of the blocks are called in these arrays."""
    is_released = any(f"/{RELEASED.attention}/" in name for name in arrays)
    return RELEASED if is_released else LINEN


def table_in(arrays: dict[str, Tensor]) -> str | None:
    """The name of the table of positions; None: there is none."""
    return next((name for name in POSITIONS if name in arrays), None)


def width_of(arrays: dict[str, Tensor], name: str, ndim: int = 2) -> int | None:
    """The width of what a layer gives; None where there is no such layer."""
    return shape_of(arrays, name, ndim)[-1] if name in arrays else None


def resnet_config_in(
    arrays: dict[str, Tensor], hints: dict[str, Any]
) -> ResNetConfig:
    """The configuration of a ResNet's arrays."""
    is_legacy = LEGACY_ROOT in arrays
    is_v2 = is_legacy or BIT_ROOT in arrays
    first = LEGACY_ROOT if is_legacy else BIT_ROOT if is_v2 else FIRST[1]
    *_, in_channels, channels = shape_of(arrays, first, 4)
    head = "resnet/head/conv2d/kernel" if is_legacy else "head/kernel"
    given = {}
    if "image_size" in hints:
        given["image_size"] = hints["image_size"]
    padding = hints.get("pool_padding")
    if is_v2 and padding is None:
        padding = "zeros" if is_legacy else "-inf"
    return ResNetConfig(
        family="bit-v2" if is_v2 else "bit-v1",
        layers=layers_in(arrays),
        width=channels / 64,
        num_classes=width_of(arrays, head, 4 if is_legacy else 2) or 0,
        in_channels=in_channels,
        pool_padding=padding,
        **given,
    )


def layers_in(arrays: dict[str, Tensor]) -> tuple[int, ...]:
    """Units of each stage, by the names of arrays."""
    found = re.findall(r"block(\d+)/unit(\d+)/", "\n".join(arrays))
    units: dict[int, int] = {}
    for stage, unit in found:
        units[int(stage)] = max(units.get(int(stage), 0), int(unit))
    if sorted(units) != [*range(1, len(units) + 1)]:
        raise UserError(
            f"it holds the stages {sorted(units)}, so it is not complete"
        )
    return tuple(units[stage] for stage in sorted(units))


def vit_config_in(
    arrays: dict[str, Tensor], hints: dict[str, Any]
) -> ViTConfig:
    """The configuration of a ViT's or a hybrid's arrays."""
    p, q, in_channels, embed_dim = shape_of(arrays, "embedding/kernel", 4)
    stem = Patches()
    if "conv_root/kernel" in arrays:
        *_, in_channels, channels = shape_of(arrays, "conv_root/kernel", 4)
        stem = Hybrid(layers_in(arrays), width=channels / 64)
    found = re.findall(r"Transformer/encoderblock_(\d+)/", "\n".join(arrays))
    first, numbers = "Transformer/encoderblock_0", numbers_in(arrays)
    query = f"{first}/{numbers.attention}/query/kernel"
    _, num_heads, _ = shape_of(arrays, query, 3)
    if hints.get("num_heads", num_heads) != num_heads:
        raise UserError(
            f"its attention has {num_heads} heads, not {hints['num_heads']}; leave "
            "num_heads out"
        )
    mlp = f"{first}/{numbers.mlp}/Dense_0/kernel"
    pool = "map" if "MAPHead_0/probe" in arrays else "mean"
    if pool == "mean" and "cls" in arrays:
        pool = "token"
    position = Learned1D()
    if table_in(arrays) is None:
        position = hints.get("position", SinCos2D())
    return ViTConfig(
        image_size=image_size_in(arrays, (p, q), stem, hints),
        patch_size=(p, q),
        in_channels=in_channels,
        num_classes=width_of(arrays, "head/kernel") or 0,
        embed_dim=embed_dim,
        depth=1 + max(map(int, found)),
        num_heads=num_heads,
        mlp_dim=shape_of(arrays, mlp, 2)[1],
        stem=stem,
        position=position,
        pool=hints.get("pool", pool),
        class_token="cls" in arrays,
        pre_logits=width_of(arrays, "pre_logits/kernel"),
        **FIXED,
    )


def image_size_in(
    arrays: dict[str, Tensor],
    patch_size: tuple[int, int],
    stem: Patches | Hybrid,
    hints: dict[str, Any],
) -> tuple[int, int]:
    """The size of the images that a file was trained on.

    A square number of positions is a square grid, all released files have one, and
    `load` resizes it where another size is asked for.
    UserError: the arrays do not say it, and `hints` do not or say what cannot be.
    """
    given = hints.get("image_size")
    table = table_in(arrays)
    ask = "give image_size=(height, width) of the images that it was trained on"
    if table is None:
        if given is None:
            raise UserError(
                "it has no table of positions, which are then fixed sines and cosines "
                f"and fit any size; {ask}"
            )
        return given
    rows = shape_of(arrays, table, 3)[1]
    # vit_jax's table begins with the class token's row, big_vision's has none
    num_patches = rows - ("cls" in arrays and table == POSITIONS[0])
    side = math.isqrt(num_patches)
    if side * side == num_patches:
        pixels = getattr(stem, "stride", 1) * side
        return pixels * patch_size[0], pixels * patch_size[1]
    if given is None:
        raise UserError(f"its {num_patches} positions form no square; {ask}")
    grid = ViTConfig(image_size=given, patch_size=patch_size, stem=stem).grid
    if math.prod(grid) != num_patches:
        raise UserError(
            f"its {num_patches} positions are no {grid[0]}x{grid[1]} grid, as "
            f"image_size={tuple(given)} wants, and no square; {ask}"
        )
    return given
