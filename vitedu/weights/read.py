"""From a file, a folder or a name to a Checkpoint: what it holds, in our terms.

`read_checkpoint("ViT-B_16.npz").checkpoint.config` is the network that it is
for.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

from vitedu.data.imagenet import assumed_names
from vitedu.errors import UserError, reason
from vitedu.files import user_path
from vitedu.weights import hub
from vitedu.weights.checkpoint import About, Checkpoint
from vitedu.weights.dialects import DIALECTS, recognise
from vitedu.weights.files import Arrays, read_arrays
from vitedu.weights.renaming import note_on_dropped


class WeightsFile(NamedTuple):
    """A file of weights, read and understood, before any change."""

    path: Path
    dialect: str
    checkpoint: Checkpoint


def read_checkpoint(
    source: str | PathLike[str],
    *,
    ignore: str | Sequence[str] = (),
    **answers: Any,
) -> WeightsFile:
    """Read and understand a file; `answers` are About's fields it may need.

    Arrays whose names fit a pattern of `ignore` are left out.
    UserError: it cannot be read or recognised, holds an unknown array, or needs
    an answer; the sentence says which.
    """
    found = find_arrays(source, ignore)
    dialect = recognise(found)
    about = replace(found.about, **answers)
    try:
        checkpoint = DIALECTS[dialect].to_vitedu(found.arrays, about)
    except UserError as error:
        raise UserError(f"{found.path}: {error}") from None
    for doubt in (*checkpoint.doubts, *contradictions(checkpoint, about)):
        warnings.warn(f"{found.path}: {doubt}", stacklevel=3)
    config, names, notes = checkpoint.config, checkpoint.class_names, ()
    if not names and dialect != "vitedu":
        names, notes = assumed_names(config.num_classes)
    notes += note_on_dropped(found.ignored, "ignore= matches them")
    checkpoint = checkpoint._replace(
        preprocess=checkpoint.preprocess.sized(
            config.image_size, config.in_channels
        ),
        class_names=names,
        dropped=checkpoint.dropped + found.ignored,
        notes=found.notes + checkpoint.notes + notes,
    )
    return WeightsFile(found.path, dialect, checkpoint)


def find_arrays(
    source: str | PathLike[str], ignore: str | Sequence[str] = ()
) -> Arrays:
    """The arrays of a path here, else of a hub's model of that name."""
    name = fspath(source)
    path = user_path(name)
    try:
        is_here = path.exists()
    except OSError as error:
        raise UserError(f"cannot read {name}: {reason(error)}") from None
    if is_here:
        return read_arrays(path, ignore=ignore)
    found = read_arrays(hub.find(name), ignore=ignore)
    about = replace(found.about, name=hub.bare_name(name))
    return found._replace(about=about)


def contradictions(checkpoint: Checkpoint, about: About) -> Iterator[str]:
    """Where the JSON beside a file says another preprocessing than is taken."""
    config, spec = checkpoint.config, checkpoint.preprocess
    beside = about.preprocessor or about.config
    if isinstance(beside.get("pretrained_cfg"), dict):  # as timm writes it
        beside = beside["pretrained_cfg"]
    for ours, theirs in (("mean", "image_mean"), ("std", "image_std")):
        stated = beside.get(theirs, beside.get(ours))
        used = getattr(spec, ours)
        if isinstance(stated, list | tuple) and tuple(stated) != used:
            yield (
                f"the JSON beside it says {ours} {tuple(stated)}, but {used} "
                "is used for these weights; one of them gives wrong answers"
            )
    if spec.image_size != config.image_size:
        yield (
            f"its preprocessing says images of {spec.image_size}, its "
            f"positions {config.image_size}, which is used"
        )
