"""Weights from any dialect to any other: `vitedu convert`.

`convert("ViT-B_16.npz", "vit-b16-hf", to="hf")` writes a folder that
`ViTForImageClassification.from_pretrained` takes. The arrays keep their bits. A
warning says what the other format cannot hold, and what that changes.
"""

import json
import os
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np
import torch
from torch import Tensor

from vitedu.errors import UserError, did_you_mean, reason
from vitedu.fields import check_names
from vitedu.files import list_folder, replace_file, user_path
from vitedu.model import Learned1D, Learned2D, NoPosition, SinCos2D, ViT
from vitedu.weights.checkpoint import ANSWERS, Checkpoint, NetworkConfig
from vitedu.weights.dialects import DIALECTS
from vitedu.weights.load import (
    LoadFields,
    check_finite,
    check_floats,
    check_tensors,
    empty_model,
    in_kept_form,
)
from vitedu.weights.read import WeightsFile, read_checkpoint
from vitedu.weights.roundtrip import not_told
from vitedu.weights.vitedu import write_weights

Format = Literal["vitedu", "npz", "hf", "torchvision", "timm"]
# the suffixes of a format that is one file; none: a folder with JSON beside the
# arrays
SUFFIXES = {
    "vitedu": (".safetensors",),
    "npz": (".npz",),
    "hf": (),
    "torchvision": (".pth", ".safetensors"),
    "timm": (),
}
# Positions that it can say. Others at the stem are written as the table they
# amount to.
POSITIONS = {
    "npz": (Learned1D, SinCos2D),
    "hf": (Learned1D,),
    "torchvision": (Learned1D,),
    "timm": (Learned1D, NoPosition),
}


class Conversion(NamedTuple):
    """What `convert` wrote."""

    source: str  # the file that was read
    dialect: str  # its
    target: str
    format: str
    config: NetworkConfig
    num_arrays: int
    notes: tuple[str, ...]  # what is another than in the source


def convert(
    source: str | PathLike[str],
    target: str | PathLike[str],
    *,
    to: Format,
    ignore: str | Sequence[str] = (),
    **answers: Unpack[LoadFields],
) -> Conversion:
    """Write `source`, as `load` takes it, to `target` in another format.

    `to` is "vitedu" or "npz", files; "torchvision", a file .pth or
    .safetensors; "timm" or "hf", new folders with config.json and what else
    these read. Every array keeps its dtype and its bits. `answers` are what the
    source cannot say, as in `load`: image_size, num_heads, pool, position,
    pool_padding. Nothing is resized. Arrays whose names fit a pattern of
    `ignore` are left out.

    A warning says what a reader of the target will take to be otherwise,
    because the format has no place for it, and by how much that moves the
    logits; or that the preprocessing is lost. It is written whole or not at
    all.

    UserError: nothing to read, `target` is there already or of another form, or
    the format cannot hold the network.
    """
    target = user_path(target)
    check_target(target, to)
    check_names("convert", answers, ANSWERS)
    given = in_kept_form({**answers})
    stored = read_checkpoint(source, ignore=ignore, **given)
    check_answers(stored, given)
    check_whole(stored)
    checkpoint, notes = in_the_form_of(to, stored.checkpoint)
    names = checkpoint.class_names
    if len(names) != checkpoint.config.num_classes:
        checkpoint = checkpoint._replace(class_names=())
    if to == "vitedu":
        write_weights(target, checkpoint)
        num_arrays, lost = len(checkpoint.state_dict), ()
    else:
        dialect, beside = DIALECTS[to], {}
        arrays = dialect.from_vitedu(checkpoint)
        if hasattr(dialect, "beside"):
            beside = dialect.beside(checkpoint)
        lost = not_told(to, checkpoint, arrays, beside, target)
        if SUFFIXES[to]:
            write_file(target, arrays)
        else:
            write_folder(target, arrays, beside)
        num_arrays = len(arrays)
    for each in lost:
        warnings.warn(f"{target}: {each}", stacklevel=2)
    return Conversion(
        str(stored.path),
        stored.dialect,
        str(target),
        to,
        checkpoint.config,
        num_arrays,
        stored.checkpoint.notes + notes + lost,
    )


def check_target(target: Path, to: str) -> None:
    """UserError unless `to` is a format, `target` a new place of its form."""
    if to not in SUFFIXES:
        raise UserError(
            f"there is no format {to!r}; {did_you_mean(str(to), SUFFIXES)}"
        )
    suffixes = SUFFIXES[to]
    if suffixes and target.suffix not in suffixes:
        raise UserError(
            f"{to} is written to a file that ends in {' or '.join(suffixes)}, "
            f"not to {target.name!r}"
        )
    if not suffixes and target.suffix in (".npz", ".safetensors", ".pth"):
        raise UserError(
            f"{to} is written to a folder, with config.json in it; name one, "
            f"not {target.name!r}"
        )
    try:
        is_empty = target.is_dir() and not list_folder(target)
        is_there = target.exists()
    except OSError as error:
        raise UserError(f"cannot write {target}: {reason(error)}") from None
    if is_there and not (is_empty and not suffixes):
        raise UserError(
            f"{target} is there already; remove it or name another place"
        )


def check_answers(stored: WeightsFile, answers: dict[str, Any]) -> None:
    """UserError where the file itself says something else than an answer."""
    for name, value in answers.items():
        found = getattr(stored.checkpoint.config, name, None)
        if found != value:
            raise UserError(
                f"{stored.path} says itself that {name} is {found}, not "
                f"{value}; leave {name}= out, for convert changes nothing"
            )


def check_whole(stored: WeightsFile) -> None:
    """UserError unless the arrays are all that the model has, and finite."""
    config, state, *_ = stored.checkpoint
    expected = empty_model(stored, config).state_dict()
    check_tensors(stored.path, state, expected, False)
    check_floats(stored)
    check_finite(stored, state)


def in_the_form_of(
    to: str, checkpoint: Checkpoint
) -> tuple[Checkpoint, tuple[str, ...]]:
    """The checkpoint, with positions the format lacks as a table; a note."""
    config, state, *_ = checkpoint
    position = getattr(config, "position", None)
    held = POSITIONS.get(to)
    is_table = (
        isinstance(position, NoPosition | SinCos2D | Learned2D)
        and getattr(position, "at", "stem") == "stem"
    )
    if held is None or isinstance(position, held) or not is_table:
        return checkpoint, ()
    with torch.device("meta"):
        model = ViT(config)
    model.load_state_dict(state, assign=True)
    dtype = torch.promote_types(state["norm.weight"].dtype, torch.float32)
    shape = (1, config.num_tokens, config.embed_dim)
    with torch.no_grad():
        table = position.add(torch.zeros(shape, dtype=dtype), model.pos_embed)
    state = {k: v for k, v in state.items() if not k.startswith("pos_embed")}
    changed = checkpoint._replace(
        config=replace(config, position=Learned1D()),
        state_dict=state | {"pos_embed": table},
    )
    return changed, (
        f"the positions {position} are written as the table that they amount "
        "to",
    )


def write_file(target: Path, arrays: dict[str, Tensor]) -> None:
    """Write arrays alone, in the form that the suffix says."""
    from safetensors.torch import save

    if target.suffix == ".npz":
        # numpy does not know bfloat16, float32 holds it
        numbers = {
            name: (x.float() if x.dtype == torch.bfloat16 else x).numpy()
            for name, x in arrays.items()
        }
        replace_file(target, lambda file: np.savez(file, **numbers))
    elif target.suffix == ".pth":
        replace_file(target, lambda file: torch.save(arrays, file))
    else:
        replace_file(target, save(arrays, {"format": "pt"}))


def write_folder(
    target: Path, arrays: dict[str, Tensor], beside: dict[str, dict[str, Any]]
) -> None:
    """Write model.safetensors and the JSON beside it into a new folder."""
    from safetensors.torch import save

    try:
        with tempfile.TemporaryDirectory(
            prefix=f"{target.name}.", suffix=".part", dir=target.parent
        ) as temporary:
            # in it, since the temporary folder is closed to everybody else
            folder = Path(temporary, target.name)
            folder.mkdir()
            for name, content in beside.items():
                text = json.dumps(content, indent=2) + "\n"
                replace_file(folder / name, text)
            content = save(arrays, {"format": "pt"})
            replace_file(folder / "model.safetensors", content)
            if target.is_dir():  # empty, see check_target
                target.rmdir()
            os.replace(folder, target)
    except OSError as error:
        raise UserError(f"cannot write {target}: {reason(error)}") from None
