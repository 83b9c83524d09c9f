"""Pictures in class folders, or in one folder with a CSV of labels.

`split = open_part(Path("photos/val"))`
`split[0]` is (Path("photos/val/ants/1.jpg"), 0).
"""

import csv
import os
import re
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path

import torch

from vitedu.data.dataset import FileReader, Split
from vitedu.data.labels import few
from vitedu.data.prepared_index import finished_index
from vitedu.data.scan import files_key, leave_out_unreadable
from vitedu.errors import UserError, counted, explained
from vitedu.files import check_regular, user_path
from vitedu.pictures import FOREIGN

PREFIX = ""
SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff"}
SUFFIXES |= {".webp", *FOREIGN}
# Editors and systems keep copies there that are not the user's pictures: a
# notebook's .ipynb_checkpoints/, macOS's ._cat.jpg and __MACOSX/, the
# thumbnails of a file server.
HIDDEN = (".", "__MACOSX", "@eaDir")
# Usual names of a data set's parts, in lower case, and ours.
PARTS = {"train": "train", "val": "val", "test": "test"}
PARTS |= dict.fromkeys(("training", "train_set", "training_set"), "train")
PARTS |= dict.fromkeys(("valid", "validation", "dev", "val_set"), "val")
PARTS |= dict.fromkeys(("testing", "test_set"), "test")
MOST_NAMES = 3  # in one sentence
NUMBER = "[0-9]{1,9}"  # of a class


def accepts(place: Path) -> bool:
    return os.path.isdir(place)


def parts(folder: Path) -> dict[str, Path]:
    """Those of train, test and val that exist; {}: `folder` is one part.

    They may have any name in PARTS, in any case. If a folder called train has
    pictures directly in it, beside other folders of pictures, it is a class (of
    vehicles, say). UserError: a part is there under two names.
    """
    names = class_folders(existing_folder(folder))
    found: dict[str, list[str]] = {"train": [], "test": [], "val": []}
    for name in names:
        if name.lower() in PARTS:
            found[PARTS[name.lower()]].append(name)
    others = [name for name in names if name.lower() not in PARTS]
    is_class = any(has_pictures_itself(folder / x) for x in found["train"])
    if not found["train"] or (
        is_class and any(has_pictures_itself(folder / x) for x in others)
    ):
        return {}
    for same in found.values():
        if len(same) > 1:
            raise UserError(
                f"{folder} has {same[0]}/ and {same[1]}/, two names of one "
                "part of the data; put their pictures into one of them, or "
                "move the other away"
            )
    return {part: folder / same[0] for part, same in found.items() if same}


def class_names(folder: Path) -> tuple[str, ...]:
    """The sorted classes. UserError: the names show that it doesn't fit."""
    found = parts(folder)
    root = found.get("train", folder)
    names = class_folders(root)
    for name in () if found else names:
        # unless it is a class that is called so
        if name.lower() in PARTS and not has_pictures_itself(folder / name):
            raise UserError(
                f"{folder} has {name}/, which looks like a part of the data "
                "and not like a class, but no train/ beside it"
            )
    empty = [name for name in names if not has_pictures(root / name)]
    if len(empty) == len(names):
        raise UserError(
            f"{root} contains {contents(root)}; a folder to train on contains "
            "a folder of pictures for each class, or train/ and val/ with such "
            "folders; shards are named, as in train-{000000..000127}.tar"
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
    to `folder`, whose part it is; the part to train on needs a picture of every
    class. UserError: there are none.
    """
    part = existing_folder(part)
    is_learned = False
    if classes is None:
        classes = class_folders(part)
        if folder is not None and part in (
            folder,
            parts(folder).get("train"),
        ):
            is_learned, classes = True, class_names(folder)
    found = [
        (path, label)
        for label, name in enumerate(classes)
        for path in sorted(pictures_in(part / name))
    ]
    if not found:
        raise UserError(
            f"there are no pictures in class folders in {part}, which "
            f"contains {contents(part)}; put each class into a folder of its "
            "own, or name a table with labels=FILE.csv"
        )
    paths, labels = zip(*found, strict=True)
    split = readable(paths, labels, tuple(classes), folder or part)
    if is_learned:
        left = set() if split.labels is None else set(split.labels.tolist())
        for label, name in enumerate(classes):
            if label not in left:
                raise UserError(
                    f"no picture of the class {name!r} can be read; "
                    f"{split.notes[0]}"
                )
    return split


def readable(
    paths: Sequence[Path],
    labels: Sequence[int],
    class_names: tuple[str, ...],
    folder: Path,
) -> Split:
    name, known = folder.resolve().name, torch.tensor(labels)
    split = Split(name, FileReader(paths), known, class_names)
    return leave_out_unreadable(split, files_key(paths), above=folder)


def open_loose(folder: Path) -> Split | None:
    """Pictures that nobody has sorted, as one class; None: it has folders."""
    if not has_pictures_itself(folder) or holds_pictures(folder):
        return None
    paths = sorted(pictures_in(folder))
    return readable(paths, [0] * len(paths), ("picture",), folder)


def open_table(folder: Path, table: Path) -> Split:
    """Pictures directly in a folder, labelled by a CSV with a header.

    Its columns are `filename` and `class_index` (a number) or `class` (a name).
    UserError: the CSV or a picture in it is missing or doesn't fit.
    """
    check_regular(table)
    kinds = OSError, UnicodeDecodeError, csv.Error
    with (
        explained(f"cannot read labels={table}", *kinds),
        table.open(newline="", encoding="utf-8-sig") as file,
    ):
        rows = list(csv.DictReader(file))
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
            what = "twice" if name in value_of else f"without a {key}"
            raise UserError(f"labels={table} names {name!r} {what}")
        if key == "class_index" and not re.fullmatch(NUMBER, value):
            raise UserError(
                f"labels={table}: class_index must be a whole number from 0 "
                f"up, of at most 9 digits, got {value!r}"
            )
        value_of[name] = value
    missing = [name for name in value_of if not os.path.lexists(folder / name)]
    if missing:
        raise UserError(
            f"labels={table} names {counted(len(missing), 'picture')} missing "
            f"from {folder}: {few(missing)}"
        )
    names = sorted(value_of)
    paths = [folder / name for name in names]
    values = [value_of[name] for name in names]
    if key == "class_index":
        return readable(paths, list(map(int, values)), (), folder)
    classes = sorted(set(values))
    labels = [classes.index(value) for value in values]
    return readable(paths, labels, tuple(classes), folder)


def existing_folder(folder: str | PathLike[str]) -> Path:
    """UserError: it doesn't exist, or `vitedu prepare` hasn't finished it."""
    path = user_path(folder)
    if not os.path.isdir(path):
        raise UserError(f"there is no folder '{path}'")
    for each in (path, path.parent):  # of OUT/val too
        finished_index(each)
    return path


def visible(folder: Path) -> tuple[list[str], list[str]]:
    folders: list[str] = []
    others: list[str] = []
    with explained(f"cannot list {folder}"), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith(HIDDEN):
                (folders if entry.is_dir() else others).append(entry.name)
    return sorted(folders), sorted(others)


def class_folders(folder: Path) -> list[str]:
    return visible(folder)[0]


def is_picture(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in SUFFIXES


def pictures_in(folder: Path) -> Iterator[Path]:
    """Files with a picture's suffix, at any depth; links aren't followed."""
    folders, files = visible(folder)
    yield from (folder / name for name in files if is_picture(name))
    for name in folders:
        if not os.path.islink(folder / name):  # it may lead back up
            yield from pictures_in(folder / name)


def has_pictures(folder: Path) -> bool:
    return next(pictures_in(folder), None) is not None


def holds_pictures(folder: Path) -> bool:
    return os.path.isdir(folder) and (
        bool(parts(folder))
        or any(has_pictures(folder / name) for name in class_folders(folder))
    )


def has_pictures_itself(folder: Path) -> bool:
    """Whether there is a picture outside of its sub-folders."""
    return os.path.isdir(folder) and any(map(is_picture, visible(folder)[1]))


def contents(folder: Path) -> str:
    if not folder.is_dir():
        return "no folder"
    folders, files = visible(folder)
    full = [name for name in folders if has_pictures(folder / name)]
    empty = [name for name in folders if name not in full]
    loose = [name for name in files if is_picture(name)]
    others = [name for name in files if name not in loose]
    found = []
    for names, noun, what in (
        (full, "folder", " of pictures"),
        (empty, "folder", " without pictures"),
        (loose, "picture", " outside of class folders"),
        (others, "file", ""),
    ):
        if names:
            more = ", ..." if len(names) > MOST_NAMES else ""
            shown = ", ".join(names[:MOST_NAMES])
            number = counted(len(names), noun)
            found.append(f"{number}{what} ({shown}{more})")
    if others and not folders and not loose:
        found.append("no folders")
    return " and ".join(found) or "nothing"
