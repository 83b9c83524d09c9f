"""Predictions for many pictures: named files, and all in a folder.

`predict_all(model, find_pictures(["album", "cat.jpg"]))`
"""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from vitedu.data.readers.folder import HIDDEN, contents, is_picture
from vitedu.data.scan import threads
from vitedu.errors import UserError, reason
from vitedu.evaluate.classify import probabilities
from vitedu.files import user_path
from vitedu.model.network import Network
from vitedu.pictures import as_image, normalise, read_image

BATCH = 32  # pictures that the model gets at a time


class Found(NamedTuple):
    file: str
    is_named: bool = False  # then it has to be readable
    error: str = ""  # why a folder could not be listed


class Prediction(NamedTuple):
    file: str
    classes: tuple[tuple[int, float], ...]  # index and probability, best first
    error: str = ""


def find_pictures(words: Iterable[str]) -> list[Found]:
    found = []
    for word in words:
        folder = user_path(word)
        # unlike Path.is_dir, this is False too for a name that is too long
        if not os.path.isdir(folder):
            found.append(Found(word, is_named=True))
            continue
        inside = pictures_below(str(folder))
        if not inside:
            raise UserError(
                f"there are no pictures in {folder}, which contains "
                f"{contents(folder)}"
            )
        found += inside
    return found


def pictures_below(folder: str) -> list[Found]:
    """All at any depth, sorted by name; nothing hidden, no linked folders."""
    inside = []

    def keep_error(error: OSError) -> None:
        why = f"cannot list {error.filename}: {reason(error)}"
        inside.append(Found(error.filename, error=why))

    for place, folders, files in os.walk(folder, onerror=keep_error):
        folders[:] = [name for name in folders if not name.startswith(HIDDEN)]
        inside += [
            Found(os.path.join(place, name))
            for name in files
            if is_picture(name) and not name.startswith(HIDDEN)
        ]
    return sorted(inside, key=lambda each: Path(each.file).parts)


def predict_all(
    model: Network, found: list[Found], *, top: int = 5, invert: bool = False
) -> Iterator[Prediction]:
    like = next(model.parameters())
    for batch, pixels in decoded(model, found, invert):
        readable = [each for each in pixels if isinstance(each, Tensor)]
        rows: Iterator[Tensor] = iter(())
        if readable:
            images = normalise(torch.stack(readable), model.preprocess)
            try:
                rows = iter(probabilities(model, images.to(like)))
            except torch.OutOfMemoryError:
                raise UserError(
                    f"{like.device} is out of memory with {len(readable)} "
                    "pictures at a time; use another one, or --device cpu"
                ) from None
        for each, read in zip(batch, pixels, strict=True):
            if isinstance(read, str):
                yield Prediction(each.file, (), read)
                continue
            shares, classes = map(Tensor.tolist, next(rows).topk(top))
            pairs = tuple(zip(classes, shares, strict=True))
            yield Prediction(each.file, pairs)


def decoded(
    model: Network, found: list[Found], invert: bool
) -> Iterator[tuple[list[Found], list[Tensor | str]]]:
    """Batches of uint8 (c, h, w) or errors; `invert` swaps dark and light."""
    from PIL import Image, ImageOps

    Image.init()  # all plug-ins, before threads would load them side by side
    spec = model.preprocess

    def read(each: Found) -> Tensor | str:
        try:
            if each.error:
                return each.error
            if not invert:
                return read_image(each.file, spec)
            picture = as_image(each.file, spec.in_channels)
            return read_image(ImageOps.invert(picture), spec)
        except UserError as error:
            if each.is_named:
                raise
            return str(error)

    batches = [found[x : x + BATCH] for x in range(0, len(found), BATCH)]
    with ThreadPoolExecutor(threads()) as pool:
        ahead = pool.map(read, batches[0])
        for batch, following in zip(batches, [*batches[1:], []], strict=True):
            pixels, ahead = ahead, pool.map(read, following)
            yield batch, list(pixels)
