"""Which picture goes into which shard: follows from names, sizes and settings.

`plan_of(Path("photos"), Settings("shards", 256, 1000, 90)).jobs[0].originals`
"""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from vitedu.data.feed.order import seed_from
from vitedu.data.open import reader_of
from vitedu.data.prepared_index import Settings
from vitedu.data.readers import folder as folders
from vitedu.data.readers.folder import (
    class_folders,
    contents,
    existing_folder,
    pictures_in,
)
from vitedu.errors import UserError

SHUFFLE_SEED = 0
STRANGE = re.compile(r"[^A-Za-z0-9_-]")
MOST_LETTERS = 60  # of a key: a tar's header has room for 100


class Original(NamedTuple):
    path: Path
    label: int
    target: str  # its key in a shard, or its path in a folder


class Job(NamedTuple):
    """One shard, or as many pictures of a folder as a shard would have."""

    name: str  # "train-000000"
    part: str
    originals: list[Original]


class Plan(NamedTuple):
    folder: Path
    classes: tuple[str, ...]
    parts: tuple[str, ...]
    jobs: list[Job]
    digest: str  # 16 hex digits, of the names and sizes of the files


def plan_of(folder: Path, settings: Settings) -> Plan:
    """The jobs for class folders, in train/, val/ and test/ or alone."""
    if reader_of(folder) is not folders:
        raise UserError(
            f"{folder} isn't a folder of class folders, which is what prepare "
            "reads"
        )
    folder = existing_folder(folder)
    classes = folders.class_names(folder)
    roots = folders.parts(folder) or {"train": folder}
    digest = hashlib.sha256()
    jobs: list[Job] = []
    for part, root in roots.items():
        found = _labelled(root, classes)
        for path, _ in found:
            # None: nothing is there; reading it will tell
            size = path.stat().st_size if path.exists() else None
            name = f"{path.relative_to(folder).as_posix()} {size}\n"
            digest.update(os.fsencode(name))
        if settings.format == "shards":
            targets = [
                f"{number:09}-{STRANGE.sub('_', path.stem)[:MOST_LETTERS]}"
                for number, (path, _) in enumerate(found)
            ]
        else:
            inner = "" if root == folder else f"{part}/"
            targets = _jpeg_names(root, inner, found)
        originals = [
            Original(path, label, target)
            for (path, label), target in zip(found, targets, strict=True)
        ]
        jobs += _jobs(part, originals, settings.shard_size)
    return Plan(folder, classes, tuple(roots), jobs, digest.hexdigest()[:16])


def _labelled(root: Path, classes: tuple[str, ...]) -> list[tuple[Path, int]]:
    """The pictures of a part, sorted by name, with their labels."""
    names = class_folders(root)
    strange = [name for name in names if name not in classes]
    if strange:
        raise UserError(
            f"{root} has the class {strange[0]!r}, which train/ doesn't have; "
            f"its classes: {', '.join(classes[:5])}"
        )
    found = [
        (path, classes.index(name))
        for name in names
        for path in sorted(pictures_in(root / name))
    ]
    if not found:
        raise UserError(
            f"there are no pictures in class folders in {root}, but "
            f"{contents(root)}; put some there, or move the folder away"
        )
    return found


def _jpeg_names(
    root: Path, inner: str, found: list[tuple[Path, int]]
) -> list[str]:
    """The old names below OUT, with .jpg appended to those of other formats."""
    taken: set[str] = set()
    names = []
    for path, _ in found:
        name = f"{inner}{path.relative_to(root).as_posix()}"
        is_jpeg = path.suffix.lower() in (".jpg", ".jpeg")
        name = name if is_jpeg else f"{name}.jpg"
        # cat.png beside cat.png.jpg; not every disk tells a.jpg from A.jpg
        while name.casefold() in taken:
            name = f"{name}.jpg"
        taken.add(name.casefold())
        names.append(name)
    return names


def _jobs(part: str, originals: list[Original], size: int) -> Iterator[Job]:
    """Equal shares of a part, each from all of its classes."""
    generator = torch.Generator().manual_seed(seed_from(SHUFFLE_SEED))
    order = torch.randperm(len(originals), generator=generator).tolist()
    for number, first in enumerate(range(0, len(order), size)):
        rows = order[first : first + size]
        yield Job(f"{part}-{number:06}", part, [originals[row] for row in rows])
