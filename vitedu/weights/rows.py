"""Somebody's names for arrays beside ours: a table of rows, read in both directions.

A dialect yields `Row("head.weight", ("head/kernel",), "dense")`: our `head.weight` is
made of theirs, one behind the other, each rearranged as `KINDS["dense"]` says.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from einops import EinopsError, rearrange
from torch import Tensor

from vitedu.errors import UserError
from vitedu.weights.unknown import refusal

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


class Row(NamedTuple):
    """One row of the table of names."""

    ours: str
    theirs: tuple[str, ...]
    kind: str


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
