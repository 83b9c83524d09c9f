"""Pictures in class folders, or in one folder with a CSV of labels.

`split = open_part(Path("photos/val"))`
`split[0]` is (Path("photos/val/ants/1.jpg"), 0).
"""

import csv
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from vitedu.data.dataset import Reader, Split
from vitedu.data.listing import (
    PARTS,
    class_folders,
    contents,
    existing_folder,
    has_pictures,
    has_pictures_itself,
    pictures_in,
    visible,
)
from vitedu.data.scan import files_key, leave_out, scan
from vitedu.errors import UserError, printable, reason
from vitedu.files import check_regular

PREFIX = ""
MOST_DIGITS = 9  # of a class_index


class FolderReader(Reader):
    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, row: int) -> tuple[Path, None]:
        """A path, and the label of its class folder."""
        return self.paths[row], None

    def name_of(self, row: int) -> str:
        return str(self.paths[row])

    def stamps(
        self, rows: Tensor, labels: Tensor | None, folder: Path | None
    ) -> Iterator[bytes]:
        for row in rows.tolist():
            path = self.paths[row]
            name = f"{path.parent.name}/{path.name}"
            if folder is not None:
                name = path.relative_to(folder).as_posix()
            yield os.fsencode(f"{name} {check_regular(path).st_size}\n")


def accepts(place: Path) -> bool:
    return os.path.isdir(place)


def parts(folder: Path) -> dict[str, Path]:
    """Those of train, test and val that exist; {}: `folder` is one part.

    If a folder called train has pictures directly in it, beside other folders
    of pictures, it is a class (of vehicles, say).
    """
    train = folder / "train"
    if not os.path.isdir(train):
        return {}
    others = [name for name in class_folders(folder) if name not in PARTS]
    if has_pictures_itself(train) and any(
        has_pictures_itself(folder / name) for name in others
    ):
        return {}
    names = ("train", "test", "val")
    return {x: folder / x for x in names if os.path.isdir(folder / x)}


def class_names(folder: Path) -> tuple[str, ...]:
    """The sorted classes. UserError: the names show that it doesn't fit."""
    folder = existing_folder(folder)
    found = parts(folder)
    root = found.get("train", folder)
    names = class_folders(root)
    for name in class_folders(folder):
        part = PARTS.get(name.lower())
        if part is None or (found and name in PARTS.values()):
            continue
        if name in names and has_pictures_itself(folder / name):
            continue  # a class that is called so
        raise UserError(
            f"{folder} has {name}/, which looks like a part of the data and "
            "not like a class; the parts are called train/, val/ and test/"
        )
    tars = [name for name in visible(root)[1] if name.endswith(".tar")]
    if tars and not names:
        raise UserError(
            f"{root} contains shards ({tars[0]}, ...) without the index of "
            "`vitedu prepare`; name them, as in "
            f"data={root}/train-{{000000..000127}}.tar"
        )
    empty = [name for name in names if not has_pictures(root / name)]
    if len(empty) == len(names):
        raise UserError(
            f"{root} contains {contents(root)}; a folder to train on contains "
            "a folder of pictures for each class, or train/ and val/ with such "
            "folders"
        )
    if empty:
        more = f" and {len(empty) - 1} more" if len(empty) > 1 else ""
        raise UserError(
            f"there are no pictures in {root / empty[0]}{more}, so nothing "
            "could be learned about this class; put some there, or move the "
            "folder away"
        )
    return tuple(names)


def open_part(
    part: Path, folder: Path | None = None, classes: Sequence[str] | None = None
) -> Split:
    """The readable pictures of the class folders in `part`, sorted by name.

    `classes` limits them to some folders. Pictures left out are named relative
    to `folder`. UserError: there are none.
    """
    part = existing_folder(part)
    classes = class_folders(part) if classes is None else classes
    found = [
        (path, label)
        for label, name in enumerate(classes)
        for path in sorted(pictures_in(part / name))
    ]
    if not found:
        raise UserError(
            f"there are no pictures in class folders in {part}, but "
            f"{contents(part)}; put each class into a folder of its own, or "
            "name a table with labels=FILE.csv"
        )
    paths, labels = zip(*found, strict=True)
    return readable(paths, labels, tuple(classes), folder or part)


def readable(
    paths: Sequence[Path],
    labels: Sequence[int],
    class_names: tuple[str, ...],
    folder: Path,
) -> Split:
    """A Split of the readable `paths`. UserError: none is left."""
    short = [printable(f"{path.parent.name}/{path.name}") for path in paths]
    bad = scan(
        paths.__getitem__,
        len(paths),
        files_key(paths),
        # as it is wherever the class folder is
        lambda row, why: why.replace(printable(str(paths[row])), short[row], 1),
    )
    for row, why in bad.items():
        name = paths[row].as_posix().removeprefix(f"{folder.as_posix()}/")
        bad[row] = why.replace(short[row], printable(name), 1)
    split = Split(
        folder.resolve().name,
        FolderReader(paths),
        torch.tensor(labels),
        class_names,
    )
    return leave_out(split, bad, folder)


def open_table(folder: Path, table: Path) -> Split:
    """Pictures directly in a folder, labelled by a CSV with a header.

    Its columns are `filename` and `class_index` (a number) or `class` (a name).
    UserError: the CSV or a picture in it is missing or doesn't fit.
    """
    key, value_of = _read_table(table)
    missing = [name for name in value_of if not os.path.lexists(folder / name)]
    if missing:
        raise UserError(
            f"labels={table} names {len(missing)} pictures that are not in "
            f"{folder}, the first is {missing[0]}"
        )
    names = sorted(value_of)
    paths = [folder / name for name in names]
    values = [value_of[name] for name in names]
    if key == "class":
        classes = sorted(set(values))
        labels = [classes.index(value) for value in values]
        return readable(paths, labels, tuple(classes), folder)
    for value in values:
        if not value.isdecimal() or len(value) > MOST_DIGITS:
            raise UserError(
                f"labels={table}: class_index must be a whole number from 0 "
                f"up, of at most {MOST_DIGITS} digits, got {value!r}"
            )
    return readable(paths, list(map(int, values)), (), folder)


def _read_table(table: Path) -> tuple[str, dict[str, str]]:
    """The name of the label column, and the label of each file."""
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
    value_of: dict[str, str] = {}
    for row in rows:
        name, value = row["filename"], row[key]
        if not name or not value or name in value_of:
            raise UserError(
                f"labels={table} names {name!r} twice, or without a {key}"
            )
        value_of[name] = value
    return key, value_of
