"""The data of the lots in the forms that runs read, made once in a folder.

Without `--data` a smoke test gets stand-ins: drawn numbers as CIFAR-10, the
photographs in the package as ImageNet and as ants and bees.
"""

import os
import shutil
import sys
from pathlib import Path

import numpy as np

from lots import Options
from lots.pack import ANTS, CIFAR, SAMPLE
from vitedu.data import photo, prepare
from vitedu.data.prepared_index import Part, read_index, write_index
from vitedu.files import replace_file

TOOLS = Path(__file__).parents[2] / "tools"
PHOTOS = ("hopper", "cat", "coffee", "astronaut", "rocket")
STAND_INS = 64  # images of CIFAR-10's stand-in, and as many to test on


def cifar(options: Options) -> Path:
    """CIFAR-10, decoded: the FILE.npz of `data=`."""
    target = options.folder / "cifar10-jpeg75.npz"
    if target.exists():
        return target
    if options.data is not None:
        sys.path.append(str(TOOLS))
        from cifar_jpeg import unpack

        unpack(options.data / CIFAR, target)
        return target
    random = np.random.default_rng(0)
    arrays = {}
    for part in ("train", "test"):
        arrays[f"x_{part}"] = random.integers(
            0, 256, (STAND_INS, 32, 32, 3), np.uint8
        )
        arrays[f"y_{part}"] = np.arange(STAND_INS) % 10
    replace_file(target, lambda file: np.savez(file, **arrays))
    return target


def ants_and_bees(options: Options) -> Path:
    """A folder with train/ and val/ of two classes."""
    if options.data is not None:
        return options.data / ANTS
    folder = options.folder / ANTS
    for part in ("train", "val"):
        for label, names in (("ants", PHOTOS[:2]), ("bees", PHOTOS[2:4])):
            for name in names:
                save(name, folder / part / label / f"{name}.jpg")
    return folder


def sample(options: Options, copies: int) -> Path:
    """A folder of classes, each picture `copies` times in train/; val/ too.

    The copies are links, so they take no room. A disk's cache holds them all:
    what is measured is decoding, not the disk.
    """
    folder = options.folder / f"sample-{copies}"
    done = folder / "whole"
    if done.exists():
        return folder
    if options.data is not None:
        originals = [
            (path.name.split("_")[0], path)
            for path in sorted((options.data / SAMPLE).glob("*.JPEG"))
        ]
    else:
        originals = []
        for name in PHOTOS:
            path = options.folder / "photos" / f"{name}.jpg"
            save(name, path)
            originals.append((name, path))
    for label, path in originals:
        first = folder / "val" / label / path.name
        first.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, first)
        place = folder / "train" / label
        place.mkdir(parents=True, exist_ok=True)
        for number in range(copies):
            link(first, place / f"{number}-{path.name}")
    done.touch()
    return folder


def shards(options: Options, copies: int) -> Path:
    """The sample in shards, as `vitedu prepare` writes them.

    Those of train/ stand there `copies` times, as links, so that an epoch is
    long and workers start rarely.
    """
    out = options.folder / f"shards-{copies}"
    if (out / "whole").exists():
        return out
    prepare(
        sample(options, 1),
        out,
        num_workers=min(16, os.cpu_count() or 1),
        shard_size=100,
    )
    index = read_index(out)
    part = index.parts["train"]
    more = []
    for number in range(1, copies):
        for shard in part.shards:
            name = f"train-{number}{shard.name.removeprefix('train-')}"
            link(out / shard.name, out / name)
            more.append(shard._replace(name=name))
    counts = tuple(copies * count for count in part.counts)
    longer = Part(counts, (*part.shards, *more))
    parts = index.parts | {"train": longer}
    write_index(out, index._replace(parts=parts))
    (out / "whole").touch()
    return out


def link(source: Path, target: Path) -> None:
    """A hard link, or a copy where the disk has none."""
    if target.exists():
        return
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def save(name: str, path: Path) -> None:
    """A photograph of the package as a small JPEG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = photo(name).convert("RGB")
    image.thumbnail((160, 160))
    image.save(path, quality=90)
