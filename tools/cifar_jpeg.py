"""CIFAR-10 as JPEG, packed, to the FILE.npz that `vitedu train` reads.

    python tools/cifar_jpeg.py FOLDER cifar10-jpeg75.npz
    vitedu train cifar10-scratch data=cifar10-jpeg75.npz

In FOLDER are train.npz and test.npz, each with `header` (the bytes that all its
files begin with), `lengths` and `scans` (what follows, one image after the
other), `labels` and `class_names`. The copy is lossy: a number measured on it
is for CIFAR-10 as JPEG at quality 75; say so where you state it.
"""

import argparse
import io
import sys
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

from vitedu.errors import UserError
from vitedu.files import replace_file

END = b"\xff\xd9"  # of every JPEG
SHAPE = (32, 32, 3)


def decode(packed: dict[str, np.ndarray]) -> np.ndarray:
    """All images of a part, uint8 (n, 32, 32, 3). UserError: one is damaged."""
    header, scans = packed["header"].tobytes(), packed["scans"].tobytes()
    ends = np.cumsum(packed["lengths"], dtype=np.int64)
    if len(ends) != len(packed["labels"]) or ends[-1] != len(scans):
        raise UserError(
            f"{len(packed['labels'])} labels, {len(ends)} lengths that add up "
            f"to {ends[-1]:,} of {len(scans):,} bytes: the file is damaged"
        )
    images = np.empty((len(ends), *SHAPE), np.uint8)
    begin = 0
    for i, end in enumerate(ends.tolist()):
        try:
            file = io.BytesIO(header + scans[begin:end] + END)
            image = np.asarray(Image.open(file).convert("RGB"))
        except OSError as error:
            raise UserError(f"image {i} isn't a JPEG: {error}") from None
        if image.shape != SHAPE:
            raise UserError(f"image {i} is {image.shape}, should be {SHAPE}")
        images[i], begin = image, end
    return images


def read(path: Path) -> dict[str, np.ndarray]:
    """The five arrays of one part. UserError: one is missing, or all are."""
    names = ("header", "lengths", "scans", "labels", "class_names")
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in names}
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(f"cannot read {path}: {error}") from None


def unpack(folder: Path, target: Path) -> dict[str, int]:
    """Write `target`; the number of images of each part."""
    arrays = {}
    for part in ("train", "test"):
        packed = read(folder / f"{part}.npz")
        arrays[f"x_{part}"] = decode(packed)
        arrays[f"y_{part}"] = packed["labels"].astype(np.int64)
        arrays["class_names"] = packed["class_names"].astype(str)
    replace_file(target, lambda file: np.savez(file, **arrays))
    return {part: len(arrays[f"y_{part}"]) for part in ("train", "test")}


def main(arguments: list[str] | None = None) -> None:
    """Unpack one folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args(arguments)
    try:
        counts = unpack(options.folder, options.target)
    except UserError as error:
        sys.exit(f"cifar_jpeg: {error}")
    print(f"{options.target}: {counts['train']:,} + {counts['test']:,} images")


if __name__ == "__main__":
    main()
