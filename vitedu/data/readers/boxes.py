"""Pictures with boxes around what they show: the set `bccd`.

`found = load_boxes("bccd")`
`found.train.boxes[0]` is (n, 4), `found.train.labels[0]` (n,).

Twelve of its 364 pictures come with the package and stand in for all.
"""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from vitedu.data.catalogue import CATALOGUE
from vitedu.data.locate import Location, locate_given, present
from vitedu.errors import UserError

# Our file and the authors' own, with the folders of pictures and of parts.
PLACES = {
    "boxes.csv": ("images", "."),
    "test.csv": ("BCCD/JPEGImages", "BCCD/ImageSets/Main"),
}
OTHER_NAMES = {"filename": "file", "cell_type": "class"}  # the authors'
EDGES = ("xmin", "ymin", "xmax", "ymax")


class Boxed(NamedTuple):
    """One part: for each picture its file, boxes and their classes."""

    paths: tuple[Path, ...]
    boxes: tuple[Tensor, ...]  # each (n, 4) float32: EDGES in pixels
    labels: tuple[Tensor, ...]  # each (n,) int64


class BoxedSet(NamedTuple):
    """A data set of boxes; `left_out` has a sentence for each bad box."""

    train: Boxed
    val: Boxed
    test: Boxed
    class_names: tuple[str, ...]
    origin: str  # "data=...", "$VITEDU_DATA", "cache" or "package"
    left_out: tuple[str, ...]


def load_boxes(
    name: str = "bccd", *, data: str | Path | None = None
) -> BoxedSet:
    """Read a set of boxes: from `data`, $VITEDU_DATA/NAME, the cache, or here.

    A clone of Shenggan/BCCD_Dataset, from GitHub, is read as it is. Boxes
    without area are left out.
    UserError: no such set, or `data` or a file isn't what it should be.
    """
    named = CATALOGUE.get(name)
    if named is None or named.kind != "boxes":
        raise UserError(f"there is no set of boxes {name!r}; there is bccd")
    if data is not None:
        place = locate_given(name, data)
    else:
        here = Location(Path(__file__).parents[1] / name, "package")
        place = present(name) or here
    index = next(file for file in PLACES if (place.path / file).is_file())
    pictures, parts = (place.path / folder for folder in PLACES[index])
    rows, left_out = _read(place.path / index, named.class_names)
    train, val, test = (
        _part((parts / f"{part}.txt").read_text().split(), rows, pictures)
        for part in ("train", "val", "test")
    )
    names = named.class_names
    return BoxedSet(train, val, test, names, place.origin, tuple(left_out))


Row = tuple[int, list[float]]  # class, edges


def _read(
    path: Path, names: Sequence[str]
) -> tuple[dict[str, list[Row]], list[str]]:
    found: dict[str, list[Row]] = {}
    left_out = []
    with open(path, newline="") as lines:
        for number, line in enumerate(csv.DictReader(lines), 2):
            row = {OTHER_NAMES.get(key, key): line[key] for key in line}
            try:
                label = names.index(row["class"])
                edges = [float(row[edge]) for edge in EDGES]
            except (KeyError, TypeError, ValueError) as error:
                raise UserError(
                    f"{path}, line {number}: {row} is no box; it needs a file, "
                    f"a class ({', '.join(names)}) and {', '.join(EDGES)}"
                ) from error
            left, top, right, bottom = edges
            if left < right and top < bottom:
                stem = Path(row["file"]).stem
                found.setdefault(stem, []).append((label, edges))
            else:
                left_out.append(
                    f"{path.name}, line {number}: a box without area in "
                    f"{row['file']} ({row['class']} at {left:g}, {top:g})"
                )
    return found, left_out


def _part(
    stems: Sequence[str], rows: dict[str, list[Row]], pictures: Path
) -> Boxed:
    paths, boxes, labels = [], [], []
    for stem in stems:
        paths.append(pictures / f"{stem}.jpg")
        found = rows.get(stem, [])
        edges = [each for _, each in found]
        boxes.append(torch.tensor(edges).view(-1, 4))
        labels.append(torch.tensor([label for label, _ in found]).long())
    return Boxed(tuple(paths), tuple(boxes), tuple(labels))
