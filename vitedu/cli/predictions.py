"""Pictures by name or by folder, and what a model says of each, one by one.

However many files a folder has, two batches of pictures are in memory, and
the names of the folders that are being listed.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from vitedu.data.listing import contents, is_picture, visible
from vitedu.errors import UserError
from vitedu.evaluate.classify import probabilities
from vitedu.model.network import Network
from vitedu.pictures import normalise, open_image, path_of, read_image

BATCH = 32  # pictures that the model gets at a time
MOST_THREADS = 8  # past that they wait for Python's lock


class Found(NamedTuple):
    """A picture, and whether it was named itself: then it has to be readable.

    `error` says why a folder, in place of a picture, could not be listed.
    """

    file: str
    is_named: bool
    error: str = ""


class Prediction(NamedTuple):
    """The likeliest classes of a picture, or why it cannot be read."""

    file: str
    classes: tuple[tuple[int, float], ...]  # index and probability, best first
    error: str = ""


def find_pictures(words: Iterable[str]) -> Iterator[Found]:
    """The pictures that are named, and those of each folder that is."""
    for word in words:
        if (folder := folder_called(word)) is not None:
            yield from pictures_below(str(folder))
        else:
            yield Found(word, is_named=True)


def folder_called(word: str) -> Path | None:
    """The folder that a word names; None: it's a picture, or a mistake."""
    path = path_of(word)
    # unlike Path.is_dir, this is False too for a name that is too long
    return path if os.path.isdir(path) else None


def pictures_below(folder: str) -> Iterator[Found]:
    """All pictures however deep, in the order of their names; nothing hidden.

    A link to another folder isn't followed, since it may lead back up.
    """
    listed = [iter([(folder, True)])]
    while listed:
        path, is_folder = next(listed[-1], ("", False))
        if not path:
            listed.pop()
        elif not is_folder:
            yield Found(path, is_named=False)
        else:
            try:
                listed.append(entries(path))
            except UserError as error:
                yield Found(path, is_named=False, error=str(error))


def entries(folder: str) -> Iterator[tuple[str, bool]]:
    """Paths in a folder, and whether each is a folder too, in order.

    UserError, at once: the folder cannot be listed.
    """
    folders, files = visible(Path(folder))
    names = [(name, True) for name in folders]
    names += [(name, False) for name in files if is_picture(name)]
    pairs = ((os.path.join(folder, name), x) for name, x in sorted(names))
    return (
        (path, is_folder)
        for path, is_folder in pairs
        if not (is_folder and os.path.islink(path))
    )


def check_pictures(words: Iterable[str]) -> None:
    """UserError if there isn't a picture in one of the folders."""
    for word in words:
        folder = folder_called(word)
        if folder is None:
            continue
        first = next(pictures_below(str(folder)), None)
        if first is None:
            raise UserError(
                f"there are no pictures in {folder}, but {contents(folder)}"
            )
        if first.file == str(folder):
            raise UserError(first.error)  # it cannot be listed


def predict_all(
    model: Network, found: Iterable[Found], *, top: int, invert: bool
) -> Iterator[Prediction]:
    """What `model` says of each picture, in order.

    `invert` swaps dark and light: a digit in ink is dark on light, those of
    MNIST are light on dark. UserError: a picture that is named cannot be read,
    or the model answers NaN.
    """
    like = next(model.parameters())
    for batch, pixels in decoded(model, found, invert):
        readable = [each for each in pixels if isinstance(each, Tensor)]
        rows: Iterator[Tensor] = iter(())
        if readable:
            images = normalise(torch.stack(readable), model.preprocess)
            try:
                shares = probabilities(
                    model, images.to(like.device, like.dtype)
                )
            except torch.OutOfMemoryError:
                raise UserError(
                    f"{like.device} is out of memory with {len(readable)} "
                    "pictures at a time; use another one, or --device cpu"
                ) from None
            rows = iter(shares)
        for each, read in zip(batch, pixels, strict=True):
            if isinstance(read, str):
                yield Prediction(each.file, (), read)
                continue
            row = next(rows)
            best = row.topk(min(top, len(row)))
            pairs = zip(
                best.indices.tolist(), best.values.tolist(), strict=True
            )
            yield Prediction(each.file, tuple(pairs))


def decoded(
    model: Network, found: Iterable[Found], invert: bool
) -> Iterator[tuple[list[Found], list[Tensor | str]]]:
    """Batches with their pixels (c, h, w), or why there are none.

    The next batch is decoded while the model computes.
    """
    from PIL import Image

    Image.init()  # all plug-ins, before threads would load them side by side

    def read(each: Found) -> Tensor | str:
        try:
            return each.error or pixels_of(model, each.file, invert)
        except UserError as error:
            if each.is_named:
                raise
            return str(error)

    waiting: deque[tuple[list[Found], list[Future[Tensor | str]]]] = deque()
    threads = min(os.cpu_count() or 1, MOST_THREADS)
    everything = iter(found)
    with ThreadPoolExecutor(threads) as pool:
        while batch := list(islice(everything, BATCH)):
            waiting.append((batch, [pool.submit(read, x) for x in batch]))
            if len(waiting) > 1:
                yield finished(*waiting.popleft())
        while waiting:
            yield finished(*waiting.popleft())


def finished(
    batch: list[Found], futures: list[Future[Tensor | str]]
) -> tuple[list[Found], list[Tensor | str]]:
    """The batch with what its threads have read."""
    return batch, [future.result() for future in futures]


def pixels_of(model: Network, file: str, invert: bool) -> Tensor:
    """A picture as uint8 (c, h, w), of the model's size; inverted, if asked."""
    spec = model.preprocess
    if not invert:
        return read_image(file, spec)
    from PIL import ImageOps

    picture = open_image(file, spec.in_channels)
    return read_image(ImageOps.invert(picture), spec)
