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

from vitedu.data.readers.folder import contents, is_picture, visible
from vitedu.errors import UserError
from vitedu.evaluate.classify import probabilities
from vitedu.files import user_path
from vitedu.model.network import Network
from vitedu.pictures import normalise, open_image, read_image

BATCH = 32  # pictures that the model gets at a time
MOST_THREADS = 8  # past that they wait for Python's lock


class Found(NamedTuple):
    file: str
    is_named: bool  # then it has to be readable
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
        inside = list(pictures_below(str(folder)))
        if not inside:
            raise UserError(
                f"there are no pictures in {folder}, but {contents(folder)}"
            )
        if inside[0].file == str(folder):
            raise UserError(inside[0].error)
        found += inside
    return found


def pictures_below(folder: str) -> Iterator[Found]:
    """All at any depth, sorted by name; nothing hidden, no linked folders."""
    try:
        folders, files = visible(Path(folder))
    except UserError as error:
        yield Found(folder, is_named=False, error=str(error))
        return
    names = [*folders, *(name for name in files if is_picture(name))]
    for name in sorted(names):
        path = os.path.join(folder, name)
        if not os.path.isdir(path):
            yield Found(path, is_named=False)
        elif not os.path.islink(path):
            yield from pictures_below(path)


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
                rows = iter(
                    probabilities(model, images.to(like.device, like.dtype))
                )
            except torch.OutOfMemoryError:
                raise UserError(
                    f"{like.device} is out of memory with {len(readable)} "
                    "pictures at a time; use another one, or --device cpu"
                ) from None
        for each, read in zip(batch, pixels, strict=True):
            if isinstance(read, str):
                yield Prediction(each.file, (), read)
                continue
            best = next(rows).topk(top)
            pairs = zip(*map(Tensor.tolist, best), strict=True)
            classes = tuple((index, share) for share, index in pairs)
            yield Prediction(each.file, classes)


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
            picture = open_image(each.file, spec.in_channels)
            return read_image(ImageOps.invert(picture), spec)
        except UserError as error:
            if each.is_named:
                raise
            return str(error)

    threads = min(os.cpu_count() or 1, MOST_THREADS)
    batches = [found[x : x + BATCH] for x in range(0, len(found), BATCH)]
    with ThreadPoolExecutor(threads) as pool:
        ahead = pool.map(read, batches[0])
        for batch, following in zip(batches, [*batches[1:], []], strict=True):
            pixels, ahead = ahead, pool.map(read, following)
            yield batch, list(pixels)
