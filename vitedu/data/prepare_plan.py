"""What `vitedu prepare` will write: which pictures, where, under which key.

`plan = plan_of(Path("photos"), Settings("shards", 256, 1000, 90))`
`plan.jobs[0].name` is "train-000000".

It depends on the names and sizes of the files and on the settings alone. So a
run that was interrupted comes back to the same jobs.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from vitedu.data.folders import (
    folder_classes,
    parts_to_test_on,
    training_part,
)
from vitedu.data.listing import (
    class_folders,
    contents,
    existing_folder,
    pictures_in,
)
from vitedu.data.order import mixed
from vitedu.data.places import is_place
from vitedu.data.prepared_index import MOST_SHARDS, Settings
from vitedu.errors import UserError

SHUFFLE_SEED = 0
STRANGE = re.compile(r"[^A-Za-z0-9_-]")
MOST_LETTERS = 60  # of a key: a tar's header has room for 100


class Original(NamedTuple):
    """A picture as it was found."""

    path: Path
    label: int
    target: str  # its key in a shard, or its path in a folder


class Job(NamedTuple):
    """The pictures of one shard, or as many of a folder."""

    name: str  # "train-000000"
    part: str
    originals: list[Original]


class Plan(NamedTuple):
    """All that will be written."""

    folder: Path
    classes: tuple[str, ...]
    parts: tuple[str, ...]
    jobs: list[Job]
    digest: str  # 16 hex digits, of the names and sizes of the files


def plan_of(folder: Path, settings: Settings) -> Plan:
    """The jobs for class folders, in train/, val/ and test/ or alone.

    UserError: as `vitedu.data.load_folder`, as far as names tell.
    """
    if is_place(folder):
        raise UserError(
            f"{folder} isn't a folder of class folders, which is what prepare "
            "reads"
        )
    folder = existing_folder(folder)
    classes = folder_classes(folder)
    roots = {"train": training_part(folder)}
    if roots["train"] != folder:
        roots |= {part: folder / part for part in parts_to_test_on(folder)}
    digest = hashlib.sha256()
    jobs: list[Job] = []
    for part, root in roots.items():
        found = _labelled(root, classes)
        for path, _ in found:
            name = f"{path.relative_to(folder).as_posix()} {_size_of(path)}\n"
            digest.update(os.fsencode(name))
        inner = "" if root == folder else f"{part}/"
        jobs += _jobs(part, root, inner, found, settings)
    if len(jobs) > MOST_SHARDS:
        raise UserError(
            f"shard_size={settings.shard_size} makes {len(jobs):,} shards, and "
            f"{MOST_SHARDS:,} are the most; take a larger one"
        )
    return Plan(folder, classes, tuple(roots), jobs, digest.hexdigest()[:16])


def _size_of(path: Path) -> int | None:
    """None: nothing is there, or not for this user; reading it will tell."""
    try:
        return os.stat(path).st_size
    except OSError:
        return None


def _labelled(root: Path, classes: tuple[str, ...]) -> list[tuple[Path, int]]:
    """The pictures of a part in the order of their names, and their labels."""
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


def _jobs(
    part: str,
    root: Path,
    inner: str,
    found: list[tuple[Path, int]],
    settings: Settings,
) -> Iterator[Job]:
    """Equal shares of a part, each from all of its classes."""
    if settings.format == "shards":
        targets = [
            f"{number:09}-{STRANGE.sub('_', path.stem)[:MOST_LETTERS]}"
            for number, (path, _) in enumerate(found)
        ]
    else:
        targets = _jpeg_names(root, inner, found)
    seed = mixed(SHUFFLE_SEED)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(found), generator=generator).tolist()
    size = settings.shard_size
    for number, first in enumerate(range(0, len(order), size)):
        rows = order[first : first + size]
        originals = [
            Original(found[row][0], found[row][1], targets[row]) for row in rows
        ]
        yield Job(f"{part}-{number:06}", part, originals)


def _jpeg_names(
    root: Path, inner: str, found: list[tuple[Path, int]]
) -> list[str]:
    """The old names below OUT, with .jpg behind those of other formats."""
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
