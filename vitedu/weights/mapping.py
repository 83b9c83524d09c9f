"""Renames other libraries' arrays to ours, and reads sizes from shapes.

A dialect yields `Row("head.weight", ("head/kernel",), "dense")`: our
`head.weight` is their arrays concatenated, each rearranged as `KINDS["dense"]`
says. The same rows are read both ways.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from einops import EinopsError, rearrange
from torch import Tensor

from vitedu.budget.building import on_meta
from vitedu.errors import UserError
from vitedu.fields import Size, converted
from vitedu.model import Hybrid, Patches, ViTConfig, new_network
from vitedu.model.config import SIZES
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
    rows: Iterable[Row], arrays: dict[str, Tensor], num_heads: int = 0
) -> Mapped:
    """The arrays that are present, under our names and axes."""
    left, state, names = dict(arrays), {}, {}
    for ours, theirs, kind in rows:
        names[ours] = theirs
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


def check_complete(
    mapped: Mapped, config: NetworkConfig, in_file: Callable[[str], str] = str
) -> None:
    """UserError unless the names are those of `config`'s network.

    `in_file` maps a row's name to the file's.
    """
    state, theirs, left = mapped
    expected = on_meta(new_network, config, what="its network")[0].state_dict()
    for name in expected:
        if name not in state:
            raise lacking(theirs.get(name, (name,))[0])
    unknown = [*left, *(theirs[x][0] for x in state if x not in expected)]
    if unknown:
        known = [x for name in expected for x in theirs[name]]
        raise refusal([*map(in_file, unknown)], map(in_file, known))


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
    """UserError unless it is a ViT that `owner` has in every field.

    `values` are the values that `owner` supports (empty: any); of other fields
    only the default.
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


def refusal(unknown: Collection[str], all_names: Iterable[str]) -> UserError:
    names = sorted(unknown)
    count, them = "an array", "it"
    if len(names) > 1:
        count, them = f"{len(names)} arrays", "them"
    pattern = pattern_for(names, {*all_names} - {*names})
    return UserError(
        f"it holds {count} that this network has no place for: "
        f"{listed(names, most=4)}; if the model does not need {them}, leave "
        f'{them} out with ignore="{pattern}"'
    )


def pattern_for(names: Sequence[str], needed: set[str]) -> str:
    """The shortest pattern ("a/*") that fits names[0] and nothing `needed`."""
    first = names[0]
    for end in re.finditer(r"[/.](?=.)", first):
        start = first[: end.end()]
        if not any(name.startswith(start) for name in needed):
            return f"{start}*"
    return first


def listed(names: Iterable[Any], most: int = 8) -> str:
    words = [str(name) for name in names]
    shown = [x if x.isprintable() else repr(x) for x in words[:most]]
    if len(words) > most:
        shown.append(f"and {len(words) - most} more")
    return ", ".join(shown)


def note_on_dropped(names: tuple[str, ...], what: str) -> tuple[str, ...]:
    if not names:
        return ()
    count = "1 array is" if len(names) == 1 else f"{len(names)} arrays are"
    return (f"{count} left out: {what}",)


def check_no_distillation(has_token: bool) -> None:
    if has_token:
        raise UserError(
            "it has a distillation token and a head for it; take the DeiT that "
            "was trained without, vitedu's network has no place for them"
        )


# --- what shapes say


def shape_of(mapped: Mapped, name: str, ndim: int) -> list[int]:
    theirs = mapped.theirs.get(name, (name,))[0]
    if name not in mapped.state:
        raise lacking(theirs)
    shape = [*mapped.state[name].shape]
    if len(shape) != ndim or 0 in shape:
        raise UserError(
            f"{theirs} has shape {tuple(shape)}, expected {ndim} axes"
        )
    return shape


def width_of(mapped: Mapped, name: str, ndim: int = 2) -> int | None:
    there = name in mapped.state
    return shape_of(mapped, name, ndim)[0] if there else None


def depth_in(names: Iterable[str], block: str) -> int:
    """One more than the highest number after `block` in names."""
    found = re.findall(rf"^{block}(\d{{1,4}})\b", "\n".join(names), re.M)
    return 1 + max(map(int, found), default=-1)


def sizes_in(
    mapped: Mapped,
    metadata: Metadata,
    stated: dict[str, Any],
    *,
    class_token: bool | None = None,
    has_prefix_rows: bool | None = None,
) -> dict[str, Any]:
    """The fields of a ViTConfig that follow from the shapes of its weights.

    The rest (number of heads, size of non-square images) comes from `stated`,
    fields from a config.json or a table of names. `class_token` is whether the
    dialect has one, `has_prefix_rows` whether its positions include the tokens
    before the patches; None: decided by the arrays.

    UserError: an array is missing, `stated` doesn't fit the arrays, or the
    caller has to say more.
    """
    state = mapped.state
    embed_dim, in_channels, *patch = shape_of(
        mapped, "patch_embed.proj.weight", 4
    )
    found = {
        "embed_dim": embed_dim,
        "depth": depth_in(state, r"blocks\."),
        "mlp_dim": shape_of(mapped, "blocks.0.mlp.fc1.weight", 2)[0],
    }
    for name, value in found.items():
        if stated.get(name, value) != value:
            raise UserError(
                f"the config.json beside it says {name}={stated[name]}, its "
                f"arrays {value}; put the config.json of these weights there, "
                "or none"
            )
    stem: Patches | Hybrid = Patches()
    backbone = "patch_embed.backbone."
    if any(name.startswith(backbone) for name in state):
        layers, width, in_channels = resnet_in(mapped, backbone)
        stem = Hybrid(layers, width)
    if class_token is None:
        class_token = "cls_token" in state
    registers = 0
    if "reg_token" in state:
        registers = shape_of(mapped, "reg_token", 3)[1]
    counts = []
    if "pos_embed" in state:
        rows = shape_of(mapped, "pos_embed", 3)[1]
        counts = [rows - class_token - registers, rows]
        if has_prefix_rows is not None:
            counts = counts[:1] if has_prefix_rows else counts[1:]
    return found | {
        "patch_size": tuple(patch),
        "in_channels": in_channels,
        "num_classes": width_of(mapped, "head.weight") or 0,
        "num_heads": num_heads_of(embed_dim, found["depth"], stated, metadata),
        "image_size": image_size_of(counts, patch, stem, stated, metadata),
        "stem": stem,
        "class_token": class_token,
        "registers": registers,
        "pre_logits": width_of(mapped, "pre_logits.fc.weight"),
    }


def layers_in(names: Iterable[str], unit: str) -> tuple[int, ...]:
    """Number of units in each stage, by the pattern `unit`; from 0 or 1."""
    found = re.findall(unit, "\n".join(names), re.M)
    units = {(int(stage), int(number)) for stage, number in found}
    first = min((number for _, number in units), default=0)
    stages = range(first, 1 + max((i for i, _ in units), default=first - 1))
    counts = [[j for i, j in units if i == stage] for stage in stages]
    return tuple(1 + max(x, default=first) - first for x in counts)


def resnet_in(
    mapped: Mapped, prefix: str = ""
) -> tuple[tuple[int, ...], float, int]:
    """Units per stage of a ResNet, its width, and its input channels."""
    start = re.escape(f"{prefix}stages.")
    unit = rf"^{start}(\d{{1,3}})\.blocks\.(\d{{1,3}})\."
    layers = layers_in(mapped.state, unit)
    root = "stem.conv.weight" if layers or not prefix else "conv.weight"
    channels, in_channels, *_ = shape_of(mapped, prefix + root, 4)
    return layers, channels / 64, in_channels


def num_heads_of(
    embed_dim: int, depth: int, stated: dict[str, Any], metadata: Metadata
) -> int:
    """The number of heads, which no array shows: 3 and 12 have the same shapes.

    From the caller, the file's header, `stated`, or Table 1 by width and depth,
    in this order.
    """
    in_header = metadata.header.get("num_heads", "")
    if metadata.num_heads is not None:
        return metadata.num_heads
    if in_header.isdecimal():
        return int(in_header)
    if "num_heads" in stated:
        return stated["num_heads"]
    for width, of_depth, num_heads, _ in SIZES.values():
        if (width, of_depth) == (embed_dim, depth):
            return num_heads
    raise UserError(
        "its arrays do not say the number of heads, and no model of Table 1 "
        f"has width {embed_dim} and {depth} blocks; give num_heads="
    )


def image_size_of(
    counts: list[int],
    patch_size: Sequence[int],
    stem: Patches | Hybrid,
    stated: dict[str, Any],
    metadata: Metadata,
) -> tuple[int, int]:
    """The size of the images that a file was trained on.

    `counts` are the possible numbers of patches. `stated` wins if it fits one
    of them, then a square, then the caller's: an image_size to resize to may
    have as many patches.
    """
    ask = "give image_size=(height, width) of the images that it was trained on"
    given, size = metadata.image_size, None
    if "image_size" in stated:
        size = converted("image_size", stated["image_size"], Size)
    if not counts and not (size or given):
        raise UserError(
            f"it has no table of positions, so any size fits; {ask}"
        )
    if not counts:
        return size or given

    def fits(image_size: tuple[int, int] | None) -> bool:
        try:
            config = ViTConfig(image_size, tuple(patch_size), stem=stem)
        except UserError:  # it doesn't divide into patches
            return False
        return config.num_patches in counts

    if size and fits(size):
        return size
    for n in counts:
        side = math.isqrt(n)
        if side * side == n:
            pixels = getattr(stem, "stride", 1) * side
            return pixels * patch_size[0], pixels * patch_size[1]
    if given and fits(given):
        return given
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
