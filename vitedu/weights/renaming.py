"""Somebody's names for arrays beside ours: a table of rows, read both ways.

A dialect yields `Row("head.weight", ("head/kernel",), "dense")`: our
`head.weight` is made of theirs, one behind the other, each rearranged as
`KINDS["dense"]` says.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import fields
from typing import Any, NamedTuple

import torch
from einops import EinopsError, rearrange
from torch import Tensor

from vitedu.errors import UserError
from vitedu.model import ViTConfig
from vitedu.weights.checkpoint import NetworkConfig
from vitedu.weights.leftovers import refusal

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


def layer(ours: str, *theirs: str, joint: str = ".") -> Iterator[Row]:
    """Weight and bias of a layer, or of several that are one in ours."""
    for end in ("weight", "bias"):
        names = tuple(f"{name}{joint}{end}" for name in theirs)
        yield Row(f"{ours}.{end}", names, "same")


def to_ours(
    rows: Iterator[Row],
    arrays: dict[str, Tensor],
    num_heads: int,
    in_file: Callable[[str], str] = str,
) -> dict[str, Tensor]:
    """Their arrays under our names and in our order of axes.

    `in_file` turns a name of `arrays` into that of the file, for the message.
    UserError: one is missing, is of another form, or is left over.
    """
    left, state = dict(arrays), {}
    for ours, theirs, kind in rows:
        missing = [name for name in theirs if name not in left]
        if missing:
            raise UserError(f"it lacks {missing[0]!r}, so it is not complete")
        parts = []
        for name in theirs:
            array, pattern = left.pop(name), KINDS[kind][0]
            heads = {"heads": num_heads} if "heads" in pattern else {}
            try:
                parts.append(rearrange(array, pattern, **heads))
            except EinopsError:
                raise UserError(
                    f"{name} has shape {tuple(array.shape)}, which is not "
                    f"{pattern.partition(' ->')[0]!r} with {num_heads} heads"
                ) from None
        state[ours] = torch.cat(parts) if len(parts) > 1 else parts[0]
    if left:
        raise refusal({*map(in_file, left)}, map(in_file, arrays))
    return state


def to_theirs(
    rows: Iterator[Row], state_dict: dict[str, Tensor], num_heads: int
) -> dict[str, Tensor]:
    """The inverse of `to_ours`: copies, contiguous as they are written."""
    arrays = {}
    for ours, theirs, kind in rows:
        pattern = KINDS[kind][1]
        heads = {"heads": num_heads} if "heads" in pattern else {}
        for name, part in zip(
            theirs, state_dict[ours].chunk(len(theirs)), strict=True
        ):
            part = rearrange(part.detach().cpu(), pattern, **heads)
            arrays[name] = part.clone(memory_format=torch.contiguous_format)
    return arrays


def check_holds(owner: str, excess: dict[str, bool]) -> None:
    """UserError naming the first thing in a network that `owner` can't hold."""
    for what, is_there in excess.items():
        if is_there:
            raise UserError(f"{owner} has no place for {what}")


def note_on_dropped(names: tuple[str, ...], what: str) -> tuple[str, ...]:
    """For the load report: arrays a dialect leaves out; `what` they are."""
    if not names:
        return ()
    count = "1 array is" if len(names) == 1 else f"{len(names)} arrays are"
    return (f"{count} left out: {what}",)


def check_vit(
    owner: str, config: NetworkConfig, **values: Collection[Any]
) -> ViTConfig:
    """UserError unless it is a ViT whose every field is one that `owner` has.

    `values` are those that `owner` has for a field, empty for any; where it is
    not among them, the default of ViTConfig alone.
    """
    if not isinstance(config, ViTConfig):
        raise UserError(f"{owner} has no place for a ResNet")
    for each in fields(ViTConfig):
        held = values.get(each.name, (getattr(ViTConfig(), each.name),))
        value = getattr(config, each.name)
        if each.name not in HELD_BY_ALL and held and value not in held:
            raise UserError(f"{owner} has no place for {each.name}={value!r}")
    return config


def shape_of(
    arrays: dict[str, Tensor], name: str, ndim: int
) -> tuple[int, ...]:
    """The shape of an array. UserError: it is not there, or has other axes."""
    if name not in arrays:
        raise UserError(f"it lacks {name!r}, so it is not complete")
    shape = tuple(arrays[name].shape)
    if len(shape) != ndim or 0 in shape:
        raise UserError(f"{name} has shape {shape}, expected {ndim} axes")
    return shape
