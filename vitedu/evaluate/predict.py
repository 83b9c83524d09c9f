"""What a model sees in many pictures: in a folder, or in a list.

`for each in vitedu.predict(model, "album"): print(each.file, each.names)`
"""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from vitedu.data.readers.folder import HIDDEN, contents, is_picture
from vitedu.data.scan import threads
from vitedu.errors import UserError, reason
from vitedu.evaluate.batches import Model, loaded
from vitedu.evaluate.classify import (
    check_has_classes,
    class_names,
    probabilities,
)
from vitedu.files import user_path
from vitedu.pictures import (
    Picture,
    PreprocessSpec,
    as_image,
    is_encoded,
    normalise,
    read_image,
    spec_of,
)

BATCH = 32  # pictures that the model gets at a time


class Found(NamedTuple):
    file: str
    picture: Picture
    is_required: bool = False  # to be readable
    error: str = ""  # why a folder could not be listed


class Prediction(NamedTuple):
    """The likeliest classes of one picture, the likeliest first.

    `classes` are the numbers of the `names`. A picture that can't be read has
    none of them, and a sentence in `error`, which is "" otherwise.
    """

    file: str  # its path; without one its place, as in "picture 3" (from 0)
    names: tuple[str, ...] = ()
    probabilities: tuple[float, ...] = ()
    classes: tuple[int, ...] = ()
    error: str = ""


def predict(
    model: Model,
    pictures: Picture | Iterable[Picture],
    top: int = 5,
    *,
    invert: bool = False,
) -> list[Prediction]:
    """The `top` likeliest classes of each of many pictures, as in `classify`.

    `pictures` is a folder, whose pictures are found at any depth and sorted by
    name, or a picture, or an iterable of folders and pictures: paths, bytes,
    open files, pillow images, arrays or tensors. A file that can't be read has
    its reason in `error`, unless it was given alone. `invert` swaps dark and
    light, since MNIST's digits are light on black.

    UserError: a folder without pictures, a lone picture that cannot be read,
    an object that is no picture, a model without classes.
    """
    model = loaded(model)
    check_has_classes(model)
    is_alone = is_encoded(pictures) or getattr(pictures, "ndim", 4) < 4
    is_alone = is_alone or not isinstance(pictures, Iterable)
    each = cast(Iterable[Picture], [pictures] if is_alone else pictures)
    found = find_pictures(each, are_required=is_alone)
    return list(predict_all(model, found, top=top, invert=invert))


def find_pictures(
    pictures: Iterable[Picture], *, are_required: bool = True
) -> list[Found]:
    found = []
    for number, each in enumerate(pictures):
        if not isinstance(each, str | PathLike):
            is_required = are_required or not is_encoded(each)
            found.append(Found(f"picture {number}", each, is_required))
            continue
        folder = user_path(each)
        # unlike Path.is_dir, this is False too for a name that is too long
        if not os.path.isdir(folder):
            found.append(Found(os.fspath(each), each, are_required))
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
        inside.append(Found(error.filename, b"", error=why))

    for place, folders, files in os.walk(folder, onerror=keep_error):
        folders[:] = [name for name in folders if not name.startswith(HIDDEN)]
        for name in files:
            if is_picture(name) and not name.startswith(HIDDEN):
                path = os.path.join(place, name)
                inside.append(Found(path, path))
    return sorted(inside, key=lambda each: Path(each.file).parts)


def predict_all(
    model: nn.Module, found: list[Found], *, top: int = 5, invert: bool = False
) -> Iterator[Prediction]:
    like, spec = next(model.parameters()), spec_of(model)
    for batch, pixels in decoded(found, spec, invert):
        readable = [each for each in pixels if isinstance(each, Tensor)]
        rows: Iterator[Tensor] = iter(())
        names: tuple[str, ...] = ()
        if readable:
            images = normalise(torch.stack(readable), spec)
            try:
                shares = probabilities(model, images.to(like))
            except torch.OutOfMemoryError:
                raise UserError(
                    f"{like.device} is out of memory with {len(readable)} "
                    "pictures at a time; use another one, or --device cpu"
                ) from None
            rows, names = iter(shares), class_names(model, shares.shape[1])
        for each, read in zip(batch, pixels, strict=True):
            if isinstance(read, str):
                yield Prediction(each.file, error=read)
                continue
            values, classes = next(rows).topk(min(top, len(names)))
            best = tuple(classes.tolist())
            yield Prediction(
                each.file,
                tuple(names[index] for index in best),
                tuple(values.tolist()),
                best,
            )


def decoded(
    found: list[Found], spec: PreprocessSpec, invert: bool
) -> Iterator[tuple[list[Found], list[Tensor | str]]]:
    """Batches of uint8 (c, h, w) or errors; `invert` swaps dark and light."""
    from PIL import Image, ImageOps

    Image.init()  # all plug-ins, before threads would load them side by side

    def read(each: Found) -> Tensor | str:
        try:
            if each.error:
                return each.error
            if not invert:
                return read_image(each.picture, spec)
            picture = as_image(each.picture, spec.in_channels, spec.orientation)
            return read_image(ImageOps.invert(picture), spec)
        except UserError as error:
            if each.is_required:
                raise
            return str(error)

    batches = [found[x : x + BATCH] for x in range(0, len(found), BATCH)]
    with ThreadPoolExecutor(threads()) as pool:
        ahead = pool.map(read, found[:BATCH])
        for batch, following in zip(batches, [*batches[1:], []], strict=False):
            pixels, ahead = ahead, pool.map(read, following)
            yield batch, list(pixels)
