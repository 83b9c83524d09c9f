"""Pictures on a disk and what is on them: class folders, or a flat one with a CSV.

`pictures = find_images("photos/val")`
`pictures[0]` is (Path("photos/val/ants/1.jpg"), 0).
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vitedu.data.imagenet import classes_of
from vitedu.data.listing import class_folders, contents, pictures_in
from vitedu.errors import UserError


@dataclass(frozen=True)
class Pictures:
    """Files and what is on them; nothing is decoded yet."""

    paths: tuple[Path, ...]
    labels: tuple[int, ...]  # indices
    class_names: tuple[str, ...]  # empty where a CSV gave indices alone

    @property
    def num_classes(self) -> int:
        """As many as there are names, else one more than the largest label."""
        return len(self.class_names) or max(self.labels) + 1

    def __len__(self) -> int:
        """The number of pictures."""
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Path, int]:
        """One file and its label."""
        return self.paths[index], self.labels[index]

    def take(self, rows: Sequence[int]) -> "Pictures":
        """These pictures alone, in this order; the classes stay."""
        return Pictures(
            tuple(self.paths[row] for row in rows),
            tuple(self.labels[row] for row in rows),
            self.class_names,
        )


def find_images(
    folder: str | Path, *, labels: str | Path | None = None
) -> Pictures:
    """The pictures of a folder, in the order of their names.

    Without `labels`, each sub-folder is a class; classes are numbered by the sorted
    names. With it the folder is flat, and `labels` is a CSV with a header: the columns
    `filename` and `class_index` (a number) or `class` (a name).

    UserError: no picture, a picture without a label, a CSV that does not fit.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"there is no folder {str(folder)!r}")
    if labels is not None:
        return _flat(folder, Path(labels))
    classes = class_folders(folder)
    found = [
        (path, index)
        for index, name in enumerate(classes)
        for path in sorted(pictures_in(folder / name))
    ]
    if not found:
        raise UserError(
            f"{folder} holds no pictures in class folders, but {contents(folder)}; "
            "put each class into a folder of its own, or name a table with "
            "labels=FILE.csv"
        )
    paths, indices = zip(*found, strict=True)
    return Pictures(paths, indices, tuple(classes))


def match_classes(
    pictures: Pictures, names: Sequence[str], num_classes: int
) -> Pictures:
    """`pictures` with labels as a model counts them: its class `names`, in order.

    Folders are matched by name; a model without names gets them in sorted order.
    ImageNet's folders may bear WordNet's codes.

    UserError: the folders are not classes of the model.
    """
    ours = pictures.class_names
    if not ours:
        if max(pictures.labels) >= num_classes:
            raise UserError(
                f"the table has the class {max(pictures.labels)}, but the model has "
                f"{num_classes} classes, counted from 0"
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
            f"{len(unknown)} folders are no classes of the model, the first is "
            f"{unknown[0]!r}; its classes: {known}"
        )
    place = {name: index for index, name in enumerate(names)}
    labels = tuple(place[ours[label]] for label in pictures.labels)
    return Pictures(pictures.paths, labels, tuple(names))


def _flat(folder: Path, table: Path) -> Pictures:
    """Pictures named by a CSV; every line's file must be there, once."""
    try:
        with table.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"labels={table} cannot be read: {error}") from None
    columns = set(rows[0]) if rows else set()
    key = next((k for k in ("class_index", "class") if k in columns), None)
    if "filename" not in columns or key is None:
        raise UserError(
            f"labels={table} must have a header with the columns filename and "
            "class_index (a number) or class (a name)"
        )
    by_file: dict[str, str] = {}
    for row in rows:
        name, value = row["filename"], row[key]
        if not name or not value or name in by_file:
            raise UserError(
                f"labels={table} names {name!r} twice, or without a {key}"
            )
        by_file[name] = value
    missing = [name for name in by_file if not (folder / name).is_file()]
    if missing:
        raise UserError(
            f"labels={table} names {len(missing)} pictures that are not in "
            f"{folder}, the first is {missing[0]}"
        )
    names = sorted(by_file)
    paths = tuple(folder / name for name in names)
    if key == "class":
        classes = tuple(sorted(set(by_file.values())))
        place = {name: index for index, name in enumerate(classes)}
        return Pictures(
            paths, tuple(place[by_file[name]] for name in names), classes
        )
    wrong = [value for value in by_file.values() if not value.isdecimal()]
    if wrong:
        raise UserError(
            f"labels={table}: class_index must be a whole number from 0 up, "
            f"got {wrong[0]!r}"
        )
    return Pictures(paths, tuple(int(by_file[name]) for name in names), ())
