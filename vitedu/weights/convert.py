"""Weights from any dialect to any other: `vitedu convert`.

`convert("ViT-B_16.npz", "vit-b16-hf", to="hf")` writes a folder that
`ViTForImageClassification.from_pretrained` takes. The arrays keep their bits. What the
other format cannot say is written nowhere: a warning tells it, with what it changes.
"""

import json
import os
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np
import torch
from torch import Tensor

from vitedu.errors import UserError, did_you_mean
from vitedu.files import reason, replace_file
from vitedu.model import Learned1D, ViT, ViTConfig
from vitedu.model.checks import check_fields
from vitedu.model.position import Learned2D, NoPosition, SinCos2D
from vitedu.model.resnet import ResNetConfig
from vitedu.weights.dialects import DIALECTS
from vitedu.weights.load import LoadFields, check_tensors, skeleton
from vitedu.weights.lost import losses
from vitedu.weights.stored import HINTS, Stored, in_form, read_stored
from vitedu.weights.vitedu import Checkpoint, write_weights

Format = Literal["vitedu", "npz", "hf", "torchvision", "timm"]
# the suffixes of a format that is one file; none: a folder with JSON beside the arrays
SUFFIXES = {
    "vitedu": (".safetensors",),
    "npz": (".npz",),
    "hf": (),
    "torchvision": (".pth", ".safetensors"),
    "timm": (),
}
# Positions that it can say. Others at the stem are written as the table they amount to.
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
    config: ViTConfig | ResNetConfig
    num_arrays: int
    notes: tuple[str, ...]  # what is another than in the source


def convert(
    source: str | PathLike[str],
    target: str | PathLike[str],
    *,
    to: Format,
    ignore: str | Sequence[str] = (),
    **hints: Unpack[LoadFields],
) -> Conversion:
    """Write the weights of `source`, as `load` takes it, to `target` in another format.

    `to` is "vitedu" or "npz", files; "torchvision", a file .pth or .safetensors;
    "timm" or "hf", new folders with config.json and what else these read. Every array
    keeps its dtype and its bits. `hints` answer what the source cannot say, as in
    `load`: image_size, num_heads, pool, position, pool_padding. Nothing is resized.
    Arrays whose names fit a pattern of `ignore` are left out.

    A warning tells what a reader of the target will take to be otherwise, because the
    format has no place for it, and by how much that moves the logits; or that the
    preprocessing is lost. It is written whole or not at all.

    UserError: nothing to read, `target` is there already or of another form, or the
    format cannot hold the network.
    """
    target = Path(target)
    check_target(target, to)
    check_fields("convert", hints, HINTS)
    given = in_form({**hints})
    stored = read_stored(source, ignore=ignore, **given)
    check_hints(stored, given)
    check_whole(stored)
    checkpoint, notes = in_the_form_of(to, stored.checkpoint)
    config, state, spec, names, *_ = checkpoint
    names = names if len(names) == config.num_classes else ()
    checkpoint = checkpoint._replace(class_names=names)
    if to == "vitedu":
        write_weights(target, checkpoint)
        num_arrays, lost = len(state), ()
    else:
        arrays, beside = DIALECTS[to].from_vitedu(config, state), {}
        if hasattr(DIALECTS[to], "beside"):
            beside = DIALECTS[to].beside(config, spec, names)
        lost = losses(to, checkpoint, arrays, beside, target)
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
        config,
        num_arrays,
        stored.notes + notes + lost,
    )


def check_target(target: Path, to: str) -> None:
    """UserError unless `to` is a format and `target` a new place of its form."""
    if to not in SUFFIXES:
        raise UserError(
            f"there is no format {to!r}; {did_you_mean(str(to), SUFFIXES)}"
        )
    suffixes = SUFFIXES[to]
    if suffixes and target.suffix not in suffixes:
        raise UserError(
            f"{to} is written to a file that ends in {' or '.join(suffixes)}, not to "
            f"{target.name!r}"
        )
    if not suffixes and target.suffix in (".npz", ".safetensors", ".pth"):
        raise UserError(
            f"{to} is written to a folder, with config.json in it; name one, not "
            f"{target.name!r}"
        )
    is_empty = target.is_dir() and not any(target.iterdir())
    if target.exists() and not (is_empty and not suffixes):
        raise UserError(
            f"{target} is there already; remove it or name another place"
        )


def check_hints(stored: Stored, hints: dict[str, Any]) -> None:
    """UserError where the file itself says something else than a hint."""
    config = stored.checkpoint.config
    for name, value in hints.items():
        found = getattr(config, name, None)
        if found != value:
            raise UserError(
                f"{stored.path} says itself that {name} is {found}, not {value}; leave "
                f"{name}= out, for convert changes nothing"
            )


def check_whole(stored: Stored) -> None:
    """UserError unless the arrays are all that the model has, and finite."""
    config, state, *_ = stored.checkpoint
    expected = skeleton(stored, config).state_dict()
    check_tensors(stored.path, state, expected, False)
    for name, tensor in state.items():
        if not tensor.is_floating_point():
            raise UserError(
                f"{stored.path} holds {name} as {tensor.dtype}; weights are floats"
            )
        if not torch.isfinite(tensor).all():
            raise UserError(
                f"{stored.path} holds NaN or infinity in {name}; it was saved after "
                "training failed, or is damaged"
            )


def in_the_form_of(
    to: str, checkpoint: Checkpoint
) -> tuple[Checkpoint, tuple[str, ...]]:
    """The checkpoint, positions that the format cannot say as a table; and a note."""
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
        f"the positions {position} are written as the table that they amount to",
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

    temporary = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        temporary.mkdir()
        for name, content in beside.items():
            text = json.dumps(content, indent=2) + "\n"
            replace_file(temporary / name, text)
        content = save(arrays, {"format": "pt"})
        replace_file(temporary / "model.safetensors", content)
        if target.is_dir():  # empty, see check_target
            target.rmdir()
        os.replace(temporary, target)
    except OSError as error:
        raise UserError(f"cannot write {target}: {reason(error)}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
