"""Renames other libraries' arrays to ours, and reads sizes from shapes.

A dialect yields `Row("head.weight", ("head/kernel",), "dense")`: our
`head.weight` is their arrays concatenated, each rearranged as `KINDS["dense"]`
says. The same rows are read both ways.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from einops import EinopsError, rearrange
from torch import Tensor

from vitedu.budget.meta import on_meta
from vitedu.errors import UserError
from vitedu.fields import Size, converted
from vitedu.model import (
    Hybrid,
    Patches,
    ResNetConfig,
    Standard,
    ViTConfig,
    new_network,
)
from vitedu.model.config import SIZES
from vitedu.model.resnet import Family, PoolPadding
from vitedu.weights.checkpoint import Metadata, NetworkConfig

# Theirs and ours, in einops' words: d in, e out of a dense layer, p q pixels.
KINDS = {
    "same": ("... -> ...", "... -> ..."),
    "dense": ("d e -> e d", "e d -> d e"),
    "convolution": ("p q d e -> e d p q", "e d p q -> p q d e"),
    "dense as convolution": ("d e -> e d 1 1", "e d 1 1 -> d e"),
    "to heads": ("d heads hd -> (heads hd) d", "(heads hd) d -> d heads hd"),
    "to heads, bias": ("heads hd -> (heads hd)", "(heads hd) -> heads hd"),
    "of heads": ("heads hd d -> d (heads hd)", "d (heads hd) -> heads hd d"),
    "row": ("d -> 1 1 d", "1 1 d -> d"),
    "rows": ("t d -> 1 t d", "1 t d -> t d"),
    # a GroupNorm's: (1, 1, 1, d) or (d,) is read, the former written
    "channels": ("... d -> (... d)", "d -> 1 1 1 d"),
}
# Fields of a ViTConfig that every dialect can hold, or whose loss is reported
# after writing. A new field is refused until its dialect knows it.
HELD_BY_ALL = {
    *("image_size", "patch_size", "in_channels", "num_classes", "embed_dim"),
    *("depth", "num_heads", "mlp_dim", "class_token", "pre_logits"),
    *("gelu", "norm_eps", "dropout", "drop_path"),
}
BACKBONE = "patch_embed.backbone."  # a hybrid's ResNet


class Row(NamedTuple):
    """One row of the table of names."""

    ours: str
    theirs: tuple[str, ...]
    kind: str


def layer(
    ours: str,
    *theirs: str,
    joint: str = ".",
    words: tuple[str, str] = ("weight", "bias"),
    kinds: tuple[str, str] = ("same", "same"),
) -> Iterator[Row]:
    for end, word, kind in zip(("weight", "bias"), words, kinds, strict=True):
        names = tuple(f"{name}{joint}{word}" for name in theirs)
        yield Row(f"{ours}.{end}", names, kind)


class Mapped(NamedTuple):
    """Arrays under our names, with their own names for error messages."""

    state: dict[str, Tensor]
    theirs: dict[str, tuple[str, ...]]  # of every row, whether it is there
    left: tuple[str, ...]  # names that are in no row


def to_ours(
    rows: Iterable[Row],
    arrays: dict[str, Tensor],
    num_heads: int = 0,
    prefix: str = "",  # of all names in the file, but not in `rows`
) -> Mapped:
    """The arrays that are present, under our names and axes."""
    left, state, names = dict(arrays), {}, {}
    for ours, bare, kind in rows:
        theirs = names[ours] = tuple(prefix + name for name in bare)
        if not any(name in left for name in theirs):
            continue
        parts, pattern = [], KINDS[kind][0]
        heads = {"heads": num_heads} if "heads" in pattern else {}
        for name in theirs:
            if name not in left:
                raise lacking(name)
            array = left.pop(name)
            try:
                parts.append(rearrange(array, pattern, **heads))
            except EinopsError:
                raise UserError(
                    f"{name} has shape {tuple(array.shape)}, which is not "
                    f"{pattern.partition(' ->')[0]!r} with {num_heads} heads"
                ) from None
        if len({part.shape for part in parts}) > 1:
            raise UserError(f"{listed(theirs)} have different shapes")
        state[ours] = torch.cat(parts) if len(parts) > 1 else parts[0]
    return Mapped(state, names, tuple(left))


def check_complete(mapped: Mapped, config: NetworkConfig) -> None:
    """UserError unless the names are those of `config`'s network."""
    state, theirs, left = mapped
    expected = on_meta(new_network, config, what="its network")[0].state_dict()
    for name in expected:
        if name not in state:
            raise lacking(theirs.get(name, (name,))[0])
    unknown = [*left, *(theirs[x][0] for x in state if x not in expected)]
    if unknown:
        unknown.sort()
        needed = {name for ours in expected for name in theirs[ours]}
        pattern = pattern_for(unknown[0], needed)
        raise UserError(
            "it holds arrays that this network has no place for: "
            f"{listed(unknown, most=4)}; if the model does not need them, "
            f'leave them out with ignore="{pattern}"'
        )


def to_theirs(
    rows: Iterable[Row], state_dict: dict[str, Tensor], num_heads: int = 0
) -> dict[str, Tensor]:
    """The inverse of `to_ours`, as contiguous copies."""
    arrays = {}
    for ours, theirs, kind in rows:
        if ours not in state_dict:
            continue
        pattern = KINDS[kind][1]
        heads = {"heads": num_heads} if "heads" in pattern else {}
        parts = state_dict[ours].chunk(len(theirs))
        for name, part in zip(theirs, parts, strict=True):
            part = rearrange(part.detach().cpu(), pattern, **heads)
            arrays[name] = part.clone(memory_format=torch.contiguous_format)
    return arrays


# --- what one side has no place for


def check_holds(owner: str, excess: dict[str, bool]) -> None:
    for what, is_there in excess.items():
        if is_there:
            raise UserError(f"{owner} has no place for {what}")


def check_vit(
    owner: str, config: NetworkConfig, **values: Collection[Any]
) -> ViTConfig:
    """UserError unless `owner` has every field of a ViT.

    It supports these `values` (empty: any); of other fields only the default.
    """
    if not isinstance(config, ViTConfig):
        raise UserError(f"{owner} has no place for a ResNet")
    for name in (each.name for each in fields(ViTConfig)):
        held = values.get(name, (getattr(ViTConfig(), name),))
        value = getattr(config, name)
        if name not in HELD_BY_ALL and held and value not in held:
            raise UserError(f"{owner} has no place for {name}={value!r}")
    return config


def lacking(name: str) -> UserError:
    return UserError(f"it lacks {name!r}, so it is not complete")


def pattern_for(name: str, needed: set[str]) -> str:
    """The shortest pattern ("a/*") that fits `name` and nothing `needed`."""
    for end in re.finditer(r"[/.](?=.)", name):
        start = name[: end.end()]
        if not any(other.startswith(start) for other in needed):
            return f"{start}*"
    return name


def listed(names: Iterable[Any], most: int = 8) -> str:
    words = [str(name) for name in names]
    shown = [x if x.isprintable() else repr(x) for x in words[:most]]
    if len(words) > most:
        shown.append(f"and {len(words) - most} more")
    return ", ".join(shown)


def note_on_dropped(names: tuple[str, ...], what: str) -> tuple[str, ...]:
    return (f"arrays left out: {len(names)}, {what}",) if names else ()


# --- what shapes say


def shape_of(mapped: Mapped, name: str, ndim: int) -> list[int]:
    theirs = mapped.theirs.get(name, (name,))[0]
    if name not in mapped.state:
        raise lacking(theirs)
    shape = [*mapped.state[name].shape]
    if len(shape) != ndim:
        raise UserError(
            f"{theirs} has shape {tuple(shape)}, expected {ndim} axes"
        )
    return shape


def width_of(mapped: Mapped, name: str, ndim: int = 2) -> int | None:
    there = name in mapped.state
    return shape_of(mapped, name, ndim)[0] if there else None


def depth_in(names: Iterable[str], block: str) -> int:
    """How many numbers there are after `block` in names."""
    return len({*re.findall(rf"^{block}(\d+)\b", "\n".join(names), re.M)})


def sizes_in(
    mapped: Mapped,
    metadata: Metadata,
    stated: dict[str, Any],
    *,
    has_prefix_rows: bool | None = None,
) -> dict[str, Any]:
    """The fields of a ViTConfig that follow from the shapes of its weights.

    The rest (number of heads, size of non-square images) comes from `stated`,
    fields from a config.json or a table of names. `has_prefix_rows` is whether
    the positions include the tokens before the patches; None: either.

    UserError: an array is missing, `stated` doesn't fit the arrays, or the
    caller has to say more.
    """
    state = mapped.state
    embed_dim, in_channels, *patch = shape_of(
        mapped, "patch_embed.proj.weight", 4
    )
    block = block_in(mapped, stated)
    hidden = shape_of(mapped, "blocks.0.mlp.fc1.weight", 2)[0]
    found = {
        "embed_dim": embed_dim,
        "depth": depth_in(state, r"blocks\."),
        "mlp_dim": hidden // 2 if block.swiglu else hidden,
    }
    for name, value in found.items():
        if stated.get(name, value) != value:
            raise UserError(
                f"the config.json beside it says {name}={stated[name]}, its "
                f"arrays {value}; put the config.json of these weights there, "
                "or none"
            )
    is_clips = holds(state, r"norm_pre\.")
    stem: Patches | Hybrid = Patches(bias=not is_clips, norm=is_clips)
    if any(name.startswith(BACKBONE) for name in state):
        layers, width, in_channels = resnet_in(mapped, BACKBONE)
        stem = Hybrid(layers, width)
    class_token = "cls_token" in state
    pool = "token" if class_token else "mean"
    pool = "map" if "pool.latent" in state else pool
    pool = "mean_norm" if holds(state, r"fc_norm\.") else pool
    registers = 0
    if "reg_token" in state:
        registers = shape_of(mapped, "reg_token", 3)[1]
    counts = []
    if "pos_embed" in state:
        rows = shape_of(mapped, "pos_embed", 3)[1]
        counts = [max(rows - class_token - registers, 0), rows]
        if has_prefix_rows is not None:
            counts = counts[:1] if has_prefix_rows else counts[1:]
    return found | {
        "patch_size": tuple(patch),
        "in_channels": in_channels,
        "num_classes": width_of(mapped, "head.weight") or 0,
        "num_heads": num_heads_of(embed_dim, found["depth"], stated, metadata),
        "image_size": image_size_of(counts, patch, stem, stated, metadata),
        "stem": stem,
        "block": block,
        "class_token": class_token,
        "pool": metadata.pool or stated.get("pool") or pool,
        "registers": registers,
        "pre_logits": width_of(mapped, "pre_logits.fc.weight"),
    }


def block_in(mapped: Mapped, stated: dict[str, Any]) -> Standard:
    state = mapped.state
    fc1, fc2 = (
        mapped.state.get(f"blocks.0.mlp.{x}.weight") for x in ("fc1", "fc2")
    )
    has_both = fc1 is not None and fc2 is not None
    return Standard(
        layer_scale=(stated.get("layer_scale") or 1e-5)
        if holds(state, r"blocks\.\d+\.ls\d\.")
        else None,
        qkv_bias=holds(state, r"blocks\.\d+\.attn\.qkv\.bias$"),
        qk_norm=holds(state, r"blocks\.\d+\.attn\.[qk]_norm\."),
        swiglu=has_both and fc1.shape[0] == 2 * fc2.shape[1],
    )


def holds(names: Iterable[str], pattern: str) -> bool:
    return any(re.match(pattern, name) for name in names)


def layers_in(names: Iterable[str], unit: str) -> tuple[int, ...]:
    """The number of units in each stage; `unit` matches the two numbers."""
    units = {*re.findall(unit, "\n".join(names), re.M)}
    counts = Counter(int(stage) for stage, _ in units)
    return tuple(counts[stage] for stage in sorted(counts))


def resnet_in(
    mapped: Mapped, prefix: str = ""
) -> tuple[tuple[int, ...], float, int]:
    """Units per stage of a ResNet, its width, and its input channels."""
    unit = rf"^{re.escape(prefix)}stages\.(\d+)\.blocks\.(\d+)\."
    layers = layers_in(mapped.state, unit)
    root = "stem.conv.weight" if layers or not prefix else "conv.weight"
    channels, in_channels, *_ = shape_of(mapped, prefix + root, 4)
    return layers, channels / 64, in_channels


def resnet_config_in(
    mapped: Mapped,
    family: Family,
    pool_padding: PoolPadding | None,
    image_size: tuple[int, int] | None,
) -> ResNetConfig:
    layers, width, in_channels = resnet_in(mapped)
    return ResNetConfig(
        family=family,
        layers=layers,
        width=width,
        num_classes=width_of(mapped, "head.fc.weight", 4) or 0,
        in_channels=in_channels,
        pool_padding=pool_padding,
        **({"image_size": image_size} if image_size else {}),
    )


def usual_heads(embed_dim: int, depth: int) -> int | None:
    """Table 1's number of heads; None: it has no model of that size."""
    heads = {(size[0], size[1]): size[2] for size in SIZES.values()}
    return heads.get((embed_dim, depth))


def num_heads_of(
    embed_dim: int, depth: int, stated: dict[str, Any], metadata: Metadata
) -> int:
    if metadata.num_heads is not None:
        return metadata.num_heads
    if "num_heads" in stated:
        return stated["num_heads"]
    usual = usual_heads(embed_dim, depth)
    if usual is None:
        raise UserError(
            "its arrays do not say the number of heads, and no model of "
            f"Table 1 has width {embed_dim} and {depth} blocks; give num_heads="
        )
    if usual == 6:
        raise UserError(
            f"its arrays do not say the number of heads: of width {embed_dim} "
            f"with {depth} blocks there are ViT-S, as of DeiT and DINO, with "
            "6, and MoCo-v3's with 12; give num_heads=6 or num_heads=12"
        )
    return usual


def doubt_on_heads(
    config: ViTConfig, stated: dict[str, Any], metadata: Metadata
) -> tuple[str, ...]:
    """A sentence if the number of heads is Table 1's alone."""
    if metadata.num_heads is not None or "num_heads" in stated:
        return ()
    return (
        f"num_heads={config.num_heads} is guessed from its width "
        f"{config.embed_dim} and {config.depth} blocks, since nothing says it, "
        "and another number would give wrong answers without an error; pass "
        "num_heads= if you know it",
    )


def image_size_of(
    counts: list[int],
    patch_size: Sequence[int],
    stem: Patches | Hybrid,
    stated: dict[str, Any],
    metadata: Metadata,
) -> tuple[int, int]:
    """The size that a file was trained on; `counts`: possible num_patches.

    `stated` wins if it fits, then a square, then the caller's: an image_size to
    resize to may have as many patches.
    """
    ask = "give image_size=(height, width) of the images that it was trained on"
    given, size = metadata.image_size, None
    if "image_size" in stated:
        size = converted("image_size", stated["image_size"], Size)
    if not counts:
        if size or given:
            return size or given
        raise UserError(
            f"it has no table of positions, so any size fits; {ask}"
        )

    def fits(image_size: tuple[int, int]) -> bool:
        try:
            config = ViTConfig(image_size, tuple(patch_size), stem=stem)
        except UserError:  # it doesn't divide into patches
            return False
        return config.num_patches in counts

    sides = [getattr(stem, "stride", 1) * math.isqrt(n) for n in counts]
    squares = [(side * patch_size[0], side * patch_size[1]) for side in sides]
    for each in (size, *squares, given):
        if each and fits(each):
            return each
    fault = f", and image_size={given} has another number" if given else ""
    raise UserError(f"its {counts[0]} positions form no square{fault}; {ask}")


def with_prefix_rows(
    state: dict[str, Tensor], config: ViTConfig
) -> dict[str, Tensor]:
    """The state_dict, with zero positions for tokens that have none."""
    table = state.get("pos_embed")
    if table is None or table.shape[1] != config.num_patches:
        return state
    padding = (0, 0, config.num_prefix_tokens, 0)
    return state | {"pos_embed": F.pad(table, padding)}


def with_register_rows(table: Tensor, registers: Tensor) -> Tensor:
    """Positions (1, 1 + n, d) with zeros for the registers, which have none."""
    none = table.new_zeros(registers.shape)
    return torch.cat([table[:, :1], none, table[:, 1:]], dim=1)


def crop_share(size: int, resized: int) -> float:
    """Share of a short side of `resized` pixels that a `size` crop keeps.

    The shortest decimal from which PreprocessSpec finds `resized` again: 0.875
    for 224 of 256, 0.9256 for 224 of 242.
    """
    for digits in range(1, 17):
        share = round(size / resized, digits)
        if 0 < share <= 1 and math.floor(size / share) == resized:
            return share
    return size / resized
