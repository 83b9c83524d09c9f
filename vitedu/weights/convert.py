"""Weights from any dialect to any other: `vitedu convert`.

`convert("ViT-B_16.npz", "vit-b16-hf", to="hf")` writes a folder for
`ViTForImageClassification.from_pretrained`.
"""

import json
import math
import os
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from vitedu.errors import UserError, explained, unknown
from vitedu.fields import check_names
from vitedu.files import list_folder, replace_file, user_path
from vitedu.model import (
    Learned1D,
    Learned2D,
    NoPosition,
    ResNetConfig,
    SinCos2D,
    ViT,
    new_network,
)
from vitedu.model.classifier import Usage
from vitedu.pictures import PreprocessSpec
from vitedu.weights import export
from vitedu.weights.checkpoint import (
    ANSWERS,
    Checkpoint,
    Metadata,
    NetworkConfig,
)
from vitedu.weights.load import (
    DIALECTS,
    Dialect,
    LoadFields,
    WeightsFile,
    check_finite,
    check_tensors,
    empty_model,
    normalised,
    read_checkpoint,
)
from vitedu.weights.save import savable
from vitedu.weights.vitedu import write_weights

# of a format that is one file; none: a folder with JSON beside the arrays
SUFFIXES = {name: dialect.SUFFIXES for name, dialect in DIALECTS.items()}


class Conversion(NamedTuple):
    """What `convert` wrote."""

    source: str  # the file that was read
    dialect: str  # its
    target: str
    format: str
    config: NetworkConfig
    num_arrays: int
    notes: tuple[str, ...]  # what is another than in the source
    usage: Usage  # preprocessing and class names, for whoever uses the target


def convert(
    source: str | PathLike[str] | nn.Module,
    target: str | PathLike[str],
    *,
    to: Dialect | export.Program,
    ignore: str | Sequence[str] = (),
    **answers: Unpack[LoadFields],
) -> Conversion:
    """Write `source`, a model or what `load` takes, in another format.

    `to` is "vitedu" or "npz", files; "torchvision", a file .pth or
    .safetensors; "timm" or "hf", new folders with their JSON. Every array keeps
    its dtype and its bits; nothing is resized. `ignore` and `answers`
    (image_size, num_heads, pool, position, pool_padding) are as for `load`.

    "onnx" (.onnx) and "torch-export" (.pt2) are programs in float32: uint8
    pixels (b, c, h, w), for any b, to logits without softmax; they normalise,
    but don't resize. Metadata "preprocess", "class_names" and "loss" are JSON.
    They are compared with the model first; `notes` has the largest difference.

    A warning says what the format cannot store, what a reader will assume
    instead and by how much that moves the logits. The target is written whole
    or not at all.

    UserError: nothing to read, `target` exists or has the wrong form, or the
    format cannot store the network.
    """
    target = user_path(target)
    check_target(target, to)
    check_names("convert", answers, ANSWERS)
    given = normalised({**answers})
    if isinstance(source, nn.Module):
        stored = WeightsFile(
            Path("model"), "vitedu", savable(source, "convert")
        )
    else:
        stored = read_checkpoint(source, ignore=ignore, **given)
    check_source(stored, given)
    checkpoint, lost = stored.checkpoint, ()
    arrays = checkpoint.state_dict
    if to == "onnx" or to == "torch-export":
        content, difference = export.exported(checkpoint, to)
        replace_file(target, content)
        notes: tuple[str, ...] = (difference,)
    else:
        checkpoint, notes = in_the_form_of(to, checkpoint)
        dialect = DIALECTS[to]
        arrays = dialect.from_vitedu(checkpoint)
        beside = dialect.beside(checkpoint) if not SUFFIXES[to] else {}
        lost = lost_in(to, checkpoint, arrays, beside, target)
        if to == "vitedu":
            write_weights(target, checkpoint)
        elif SUFFIXES[to]:
            write_file(target, arrays)
        else:
            write_folder(target, arrays, beside)
    for each in lost:
        warnings.warn(f"{target}: {each}", stacklevel=2)
    return Conversion(
        str(stored.path),
        stored.dialect,
        str(target),
        to,
        checkpoint.config,
        len(arrays),
        stored.checkpoint.notes + notes + lost,
        checkpoint.usage,
    )


def check_target(target: Path, to: str) -> None:
    formats = SUFFIXES | export.PROGRAMS
    if to not in formats:
        raise unknown("format", to, formats)
    export.check_packages(to)
    suffixes = formats[to]
    if suffixes:
        form = f"a file that ends in {' or '.join(suffixes)}"
        is_right = target.suffix in suffixes
    else:
        form = "a folder, with config.json in it"
        is_right = target.suffix not in (".npz", ".safetensors", ".pth")
    if not is_right:
        raise UserError(f"{to} is written to {form}, not to {target.name!r}")
    is_empty = os.path.isdir(target) and not list_folder(target)
    if os.path.exists(target) and (suffixes or not is_empty):
        raise UserError(
            f"{target} is there already; remove it or name another place"
        )


def check_source(stored: WeightsFile, answers: dict[str, Any]) -> None:
    path, config = stored.path, stored.checkpoint.config
    for name, value in answers.items():
        found = getattr(config, name, None)
        if found != value:
            raise UserError(
                f"{path} says itself that {name} is {found}, not {value}; "
                f"leave {name}= out, for convert changes nothing"
            )
    state = stored.checkpoint.state_dict
    check_tensors(path, state, empty_model(stored, config).state_dict(), False)
    check_finite(path, state)


def in_the_form_of(
    to: Dialect, checkpoint: Checkpoint
) -> tuple[Checkpoint, tuple[str, ...]]:
    config, state, *_ = checkpoint
    position = getattr(config, "position", None)
    is_table = (
        isinstance(position, NoPosition | SinCos2D | Learned1D | Learned2D)
        and getattr(position, "at", "stem") == "stem"
    )
    held = getattr(DIALECTS[to], "POSITIONS", (position,))
    if not is_table or position in held:
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


# --- what is lost


def lost_in(
    to: Dialect,
    before: Checkpoint,
    arrays: dict[str, Tensor],
    beside: dict[str, dict[str, Any]],
    target: Path,
) -> tuple[str, ...]:
    """What the format cannot store, a sentence each, found by reading back."""
    if to == "vitedu":
        return ()
    metadata = Metadata(
        name=target.stem,
        config=beside.get("config.json", {}),
        preprocessor=beside.get("preprocessor_config.json", {}),
    )
    after, sentences = read_again(to, before, arrays, metadata)
    config, again = before.config, after.config
    changed = {
        each.name
        for each in fields(config)
        if getattr(config, each.name) != getattr(again, each.name)
    }
    unused = {"dropout", "drop_path"}  # they matter in training alone
    if isinstance(config, ResNetConfig):
        unused.add("image_size")
    elif "image_size" in changed:
        raise UserError(
            f"{to} cannot say that the positions are those of images of "
            f"{config.image_size}; a reader takes {again.image_size}"
        )
    no_place = f"{to} has no place for"
    if changed & unused:
        sentences.append(
            f"{no_place} {listed_fields(config, changed & unused)}"
        )
    if names := changed - unused:
        sentences.append(
            f"{no_place} {listed_fields(config, names)}; a reader takes "
            f"{listed_fields(again, names)}, which {measured(before, again)}"
        )
    sentences += after.notes
    spec, taken = before.preprocess, after.preprocess
    if geometry(taken) != geometry(spec):
        names = ("mean", "std", "interpolation", "crop", "orientation")
        differ = {x for x in names if getattr(spec, x) != getattr(taken, x)}
        sentences.append(
            f"{no_place} the preprocessing {listed_fields(spec, differ)}; a "
            f"reader takes {listed_fields(taken, differ)}"
        )
    if before.class_names and not beside:
        sentences.append(f"{no_place} the names of the classes")
    if before.loss_name == "sigmoid":
        sentences.append(
            f"{no_place} the loss, the sigmoid's; a reader may take the "
            "softmax of the logits, which gives other probabilities"
        )
    return tuple(sentences)


def read_again(
    to: Dialect,
    before: Checkpoint,
    arrays: dict[str, Tensor],
    metadata: Metadata,
) -> tuple[Checkpoint, list[str]]:
    read, asks = DIALECTS[to].to_vitedu, []
    try:
        after = read(arrays, metadata)
    except UserError as error:
        asks.append(f"a reader has to be told more: {error}")
        answers = {x: getattr(before.config, x, None) for x in ANSWERS}
        after = read(arrays, replace(metadata, **answers))
    stored, found = before.state_dict, after.state_dict
    if stored.keys() != found.keys() or not all(
        torch.equal(stored[name].cpu(), found[name]) for name in stored
    ):
        raise ValueError(f"{to} gives back other arrays than it was given")
    return after, asks


def listed_fields(owner: Any, names: set[str]) -> str:
    return ", ".join(f"{x}={getattr(owner, x)!r}" for x in sorted(names))


def geometry(spec: PreprocessSpec) -> tuple[Any, ...]:
    """What a spec does to a picture, except the size (the model's)."""
    resized = spec.crop and [math.floor(x / spec.crop) for x in spec.image_size]
    numbers = spec.mean, spec.std
    return *numbers, spec.interpolation, resized, spec.orientation


@torch.no_grad()
def measured(before: Checkpoint, again: NetworkConfig) -> str:
    """How far two readings' outputs differ, on two images of noise."""
    state, config = before.state_dict, before.config
    is_double = any(x.dtype == torch.float64 for x in state.values())
    dtype = torch.float64 if is_double else torch.float32
    generator = torch.Generator().manual_seed(0)
    shape = (2, config.in_channels, *config.image_size)
    images = torch.randn(shape, generator=generator).to(dtype)
    answers = []
    for each in (config, again):
        with torch.device("meta"):
            model = new_network(each).eval()
        widened = {name: tensor.to(dtype) for name, tensor in state.items()}
        model.load_state_dict(widened, assign=True)
        answers.append(model(images))
    first, second = answers
    what = "logits" if config.num_classes else "features"
    if first.shape != second.shape:
        return f"gives {what} {tuple(second.shape)}, not {tuple(first.shape)}"
    return (
        f"moves the {what} of two images of noise by up to "
        f"{(first - second).abs().max():.1e} (the largest is "
        f"{first.abs().max():.1e})"
    )


# --- writing


def write_file(target: Path, arrays: dict[str, Tensor]) -> None:
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
    from safetensors.torch import save

    with (
        explained(f"cannot write {target}"),
        tempfile.TemporaryDirectory(
            prefix=f"{target.name}.", suffix=".part", dir=target.parent
        ) as temporary,
    ):
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
