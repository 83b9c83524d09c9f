"""Pictures on disk and what they show: class folders, or one with a CSV.

`pictures = find_images("photos/val")`
`pictures[0]` is (Path("photos/val/ants/1.jpg"), 0).
"""

import csv
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from vitedu.data.imagenet import classes_of
from vitedu.data.listing import (
    class_folders,
    contents,
    existing_folder,
    pictures_in,
)
from vitedu.data.readable import unreadable
from vitedu.errors import UserError, reason
from vitedu.files import check_regular, user_path

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_SHOWN = 3  # sentences in one note
MOST_DIGITS = 9  # of a class_index


@dataclass(frozen=True)
class Pictures:
    """Files and what they show."""

    paths: tuple[Path, ...]
    labels: tuple[int, ...]  # indices
    class_names: tuple[str, ...]  # empty where a CSV gave indices alone
    # a sentence for each file that was left out, since it cannot be read
    skipped: tuple[str, ...] = ()

    @property
    def num_classes(self) -> int:
        """As many as there are names, else one more than the largest label."""
        return len(self.class_names) or max(self.labels) + 1

    def __len__(self) -> int:
        """The number of pictures."""
        return len(self.labels)

    def __getitem__(self, index: int) -> "tuple[Path | BinaryIO | Image, int]":
        """One file and its label."""
        return self.paths[index], self.labels[index]

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence about what was left out, if anything was."""
        return left_out(self.skipped, len(self))

    def name_of(self, index: int) -> str:
        """What a sentence or a table calls one picture."""
        return str(self.paths[index])

    def take(self, rows: Sequence[int]) -> "Pictures":
        """These pictures alone, in this order; the classes stay."""
        return Pictures(
            tuple(self.paths[row] for row in rows),
            tuple(self.labels[row] for row in rows),
            self.class_names,
        )

    def stamps(self, folder: Path | None = None) -> Iterator[bytes]:
        """For digests: what changes when one of the pictures does.

        Its name below `folder`, or in its own folder, and its size.
        """
        for path in self.paths:
            place = f"{path.parent.name}/{path.name}"
            if folder is not None:
                place = path.relative_to(folder).as_posix()
            yield os.fsencode(f"{place} {check_regular(path).st_size}\n")


def find_images(
    folder: str | PathLike[str], *, labels: str | PathLike[str] | None = None
) -> Pictures:
    """The pictures of a folder that can be read, in the order of their names.

    Without `labels`, each sub-folder is a class; classes are numbered by the
    sorted names. With it the folder is flat, and `labels` is a CSV with a
    header: the columns `filename` and `class_index` (a number) or `class` (a
    name). Every picture is decoded once, as `vitedu.data.readable` says;
    `skipped` has the damaged ones. Shards in brace notation and `hf:NAME:SPLIT`
    may stand for a folder.

    UserError: no picture, a picture without a label, a CSV that does not fit.
    """
    # here, since what is at other places is made of Pictures
    from vitedu.data.places import kind_of

    place = user_path(folder)
    if labels is None and (kind := kind_of(place)):
        return kind.pictures(place)
    folder = existing_folder(folder)
    if labels is None:
        return pictures_by_class(folder, folder)
    return _readable(_listed(folder, user_path(labels)), folder)


def pictures_by_class(
    part: Path, folder: Path, classes: Sequence[str] | None = None
) -> Pictures:
    """The same of class folders in `part`; skipped names are below `folder`.

    Of those folders `classes` alone, if they are given.
    """
    classes = class_folders(part) if classes is None else classes
    found = [
        (path, index)
        for index, name in enumerate(classes)
        for path in sorted(pictures_in(part / name))
    ]
    if not found:
        raise UserError(
            f"there are no pictures in class folders in {part}, but "
            f"{contents(part)}; put each class into a folder of its own, or "
            "name a table with labels=FILE.csv"
        )
    paths, indices = zip(*found, strict=True)
    return _readable(Pictures(paths, indices, tuple(classes)), folder)


def _readable(pictures: Pictures, folder: Path) -> Pictures:
    bad = unreadable(pictures.paths, folder)
    rows = [i for i, path in enumerate(pictures.paths) if path not in bad]
    if not rows:
        raise UserError(
            f"none of the {len(pictures):,} pictures in {folder} can be read; "
            f"the first: {next(iter(bad.values()))}"
        )
    return replace(pictures.take(rows), skipped=tuple(bad.values()))


def left_out(skipped: tuple[str, ...], num_left: int) -> tuple[str, ...]:
    """A sentence about pictures that cannot be read, if there are any."""
    if not skipped:
        return ()
    verb = "is" if len(skipped) == 1 else "are"
    num_more = len(skipped) - MOST_SHOWN
    more = f"; and {num_more:,} more" if num_more > 0 else ""
    return (
        f"{len(skipped):,} of {len(skipped) + num_left:,} pictures {verb} left "
        f"out: {'; '.join(skipped[:MOST_SHOWN])}{more}",
    )


def match_classes(
    pictures: Pictures, names: Sequence[str], num_classes: int
) -> Pictures:
    """`pictures` with labels as a model counts them: by its class `names`.

    Folders are matched by name; a model without names gets them in sorted
    order. ImageNet's folders may be named by WordNet's codes.

    UserError: the folders are not classes of the model.
    """
    ours = pictures.class_names
    if not ours:
        if max(pictures.labels) >= num_classes:
            raise UserError(
                f"the table has the class {max(pictures.labels)}, but the "
                f"model has {num_classes} classes, counted from 0"
            )
        return pictures
    if not set(ours) <= set(names) and (classes := classes_of(num_classes)):
        is_code = set(ours) <= set(classes.codes)
        names = classes.codes if is_code else names or classes.names
    if not names and len(ours) == num_classes:
        return pictures
    unknown = [name for name in ours if name not in names]
    if unknown:
        known = ", ".join(list(names)[:5]) or f"{num_classes} without names"
        raise UserError(
            f"{len(unknown)} folders are not classes of the model, the first "
            f"is {unknown[0]!r}; its classes: {known}"
        )
    place = {name: index for index, name in enumerate(names)}
    labels = tuple(place[ours[label]] for label in pictures.labels)
    return replace(pictures, labels=labels, class_names=tuple(names))


def _listed(folder: Path, table: Path) -> Pictures:
    """Pictures named by a CSV; every line's file must be there, once."""
    check_regular(table)
    try:
        with table.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(
            f"cannot read labels={table}: {reason(error)}"
        ) from None
    columns = set(rows[0]) if rows else set()
    key = next((k for k in ("class_index", "class") if k in columns), None)
    if "filename" not in columns or key is None:
        raise UserError(
            f"labels={table} must have a header with the columns filename and "
            "class_index (a number) or class (a name)"
        )
    label_of: dict[str, str] = {}
    for row in rows:
        name, value = row["filename"], row[key]
        if not name or not value or name in label_of:
            raise UserError(
                f"labels={table} names {name!r} twice, or without a {key}"
            )
        label_of[name] = value
    missing = [name for name in label_of if not os.path.lexists(folder / name)]
    if missing:
        raise UserError(
            f"labels={table} names {len(missing)} pictures that are not in "
            f"{folder}, the first is {missing[0]}"
        )
    names = sorted(label_of)
    paths = tuple(folder / name for name in names)
    if key == "class":
        classes = tuple(sorted(set(label_of.values())))
        index_of = {name: index for index, name in enumerate(classes)}
        labels = tuple(index_of[label_of[name]] for name in names)
        return Pictures(paths, labels, classes)
    for value in label_of.values():
        if not value.isdecimal() or len(value) > MOST_DIGITS:
            raise UserError(
                f"labels={table}: class_index must be a whole number from 0 "
                f"up, of at most {MOST_DIGITS} digits, got {value!r}"
            )
    return Pictures(paths, tuple(int(label_of[name]) for name in names), ())
