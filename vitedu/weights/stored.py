"""A file of weights, understood: what it holds in our terms, before any change.

`read_stored("ViT-B_16.npz").checkpoint.config` is the network that it is for.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from vitedu.data.imagenet import assumed_names
from vitedu.errors import UserError
from vitedu.model import ViTConfig
from vitedu.model.checks import pair
from vitedu.model.position import NoPosition
from vitedu.model.resnet import ResNetConfig
from vitedu.pictures import PreprocessSpec
from vitedu.weights import hub, vitedu
from vitedu.weights.dialects import DIALECTS, recognise
from vitedu.weights.files import Arrays, read_arrays
from vitedu.weights.vitedu import Checkpoint

# what a dialect may have to ask for, see `vitedu.weights.dialects`
HINTS = ("image_size", "num_heads", "pool", "position", "pool_padding")


class Stored(NamedTuple):
    """A file of weights, understood: what it holds in our terms, before any change."""

    dialect: str
    checkpoint: Checkpoint
    path: Path
    dropped: tuple[str, ...]  # names of arrays that its dialect leaves out
    notes: tuple[str, ...]


def in_form(overrides: dict[str, Any]) -> dict[str, Any]:
    """The overrides, an image size as a pair, "none" of positions as its object."""
    overrides = dict(overrides)
    if "image_size" in overrides:
        size = pair("image_size", overrides["image_size"])
        overrides["image_size"] = size
    if overrides.get("position") == "none":  # as a command line says it
        overrides["position"] = NoPosition()
    return overrides


def read_stored(
    source: str | PathLike[str],
    *,
    ignore: str | Sequence[str] = (),
    **hints: Any,
) -> Stored:
    """Read a file and understand it; `hints` are those that its dialect may need.

    Arrays whose names fit a pattern of `ignore` are left out.
    UserError: it cannot be read or recognised, holds an unknown array, or needs a hint;
    the sentence says which.
    """
    found = find_arrays(source, ignore)
    dialect = recognise(found)
    module = DIALECTS[dialect]
    hints = {
        "metadata": found.metadata,
        "name": found.name,
        **hints,
        **({"config": found.config} if found.config else {}),
        **({"preprocessor": found.preprocessor} if found.preprocessor else {}),
    }
    try:
        config, state = module.to_vitedu(found.arrays, hints)
        spec = module.preprocess(config, hints)
        names = asked(module, "class_names", config, hints)
        dropped = asked(module, "dropped", found.arrays, hints)
        notes = asked(module, "notes", config, hints)
        is_vit = isinstance(config, ViTConfig)
        loss_name, resize_mode = None, module.RESIZE if is_vit else "paper"
        if module is vitedu:  # which alone says them in the file
            _, about = module.described(hints)
            loss_name, resize_mode = about.loss_name, about.resize_mode
    except UserError as error:
        raise UserError(f"{found.path}: {error}") from None
    warn_of_two_ways(found, spec, config)
    spec = replace(spec, image_size=config.image_size)
    if not names and dialect != "vitedu":
        names, note = assumed_names(config.num_classes)
        notes += note
    if dropped:
        notes += (f"{counted(dropped)} left out: {module.LEFT_OUT}",)
    if found.ignored:
        notes += (f"{counted(found.ignored)} left out, as ignore= says",)
    checkpoint = Checkpoint(config, state, spec, names, loss_name, resize_mode)
    gone, notes = dropped + found.ignored, found.notes + notes
    return Stored(dialect, checkpoint, found.path, gone, notes)


def counted(arrays: tuple[str, ...]) -> str:
    """How many arrays, for a sentence."""
    return "1 array is" if len(arrays) == 1 else f"{len(arrays)} arrays are"


def asked(module: ModuleType, question: str, *about: Any) -> tuple[str, ...]:
    """What a dialect says of something that it need not know about."""
    answer = getattr(module, question, None)
    return tuple(answer(*about)) if answer else ()


def find_arrays(
    source: str | PathLike[str], ignore: str | Sequence[str] = ()
) -> Arrays:
    """The arrays of a path here, else of a hub's model of that name."""
    name = fspath(source)
    path = Path(name).expanduser()
    try:
        is_here = path.exists()
    except (OSError, ValueError) as error:
        raise UserError(f"{name[:80]!r} cannot be a path: {error}") from None
    if is_here:
        return read_arrays(path, ignore=ignore)
    found = read_arrays(hub.find(name), ignore=ignore)
    return found._replace(name=hub.bare_name(name))


def warn_of_two_ways(
    found: Arrays, spec: PreprocessSpec, config: ViTConfig | ResNetConfig
) -> None:
    """Warn where the JSON beside a file says another preprocessing than is taken."""
    about = found.preprocessor or found.config or {}
    if isinstance(about.get("pretrained_cfg"), dict):  # as timm writes it
        about = about["pretrained_cfg"]
    for ours, theirs in (("mean", "image_mean"), ("std", "image_std")):
        said = about.get(theirs, about.get(ours))
        used = getattr(spec, ours)
        if isinstance(said, list | tuple) and tuple(said) != used:
            warnings.warn(
                f"{found.path}: the JSON beside it says {ours} {tuple(said)}, but "
                f"{used} is used for these weights; one of them gives wrong answers",
                stacklevel=4,
            )
    if spec.image_size != config.image_size:
        warnings.warn(
            f"{found.path}: its preprocessing says images of {spec.image_size}, its "
            f"positions {config.image_size}, which is used",
            stacklevel=4,
        )
