"""Class folders and pictures in a folder, and a description for messages.

`class_folders(Path("photos"))` is `["ants", "bees"]`.
"""

import os
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from vitedu.data.prepared_index import finished_index
from vitedu.errors import UserError, reason
from vitedu.files import user_path
from vitedu.pictures import FOREIGN

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff"}
SUFFIXES |= {".webp", *FOREIGN}
# Editors and systems keep copies there that are not the user's pictures: a
# notebook's .ipynb_checkpoints/, macOS's ._cat.jpg and __MACOSX/, the
# thumbnails of a file server.
HIDDEN = (".", "__MACOSX", "@eaDir")
MOST_NAMES = 3  # in one sentence
# Usual names of a data set's parts, and ours.
PARTS = {
    "train": "train",
    "training": "train",
    "train_set": "train",
    "training_set": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "val_set": "val",
    "test": "test",
    "testing": "test",
    "test_set": "test",
}


def existing_folder(folder: str | PathLike[str]) -> Path:
    """UserError: it doesn't exist, or `vitedu prepare` hasn't finished it."""
    path = user_path(folder)
    if not os.path.isdir(path):
        raise UserError(f"there is no folder '{path}'")
    for each in (path, path.parent):  # of OUT/val too
        finished_index(each)
    return path


def visible(folder: Path) -> tuple[list[str], list[str]]:
    """Names of sub-folders and of files, sorted, without hidden ones."""
    folders: list[str] = []
    others: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.name.startswith(HIDDEN):
                    (folders if entry.is_dir() else others).append(entry.name)
    except OSError as error:
        raise UserError(f"cannot list {folder}: {reason(error)}") from None
    return sorted(folders), sorted(others)


def class_folders(folder: Path) -> list[str]:
    """Names of the sub-folders, sorted. UserError: one is not UTF-8."""
    folders, _ = visible(folder)
    for name in folders:
        if any("\udc80" <= letter <= "\udcff" for letter in name):
            raise UserError(
                f"the name of the class folder {folder / name} is not UTF-8; "
                "rename it"
            )
    return folders


def is_picture(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in SUFFIXES


def pictures_in(folder: Path) -> Iterator[Path]:
    """Files with a picture's suffix, at any depth."""
    waiting = [folder]
    while waiting:
        inside = waiting.pop()
        folders, files = visible(inside)
        yield from (inside / name for name in files if is_picture(name))
        # a link may lead back up
        waiting += [
            inside / name
            for name in folders
            if not os.path.islink(inside / name)
        ]


def has_pictures(folder: Path) -> bool:
    """Whether there is a picture at any depth."""
    return next(pictures_in(folder), None) is not None


def has_pictures_itself(folder: Path) -> bool:
    """Whether there is a picture outside of its sub-folders."""
    return any(map(is_picture, visible(folder)[1]))


def contents(folder: Path) -> str:
    """Describes a folder for a message that expected something else."""
    if not folder.is_dir():
        return "no folder"
    folders, files = visible(folder)
    full = [name for name in folders if has_pictures(folder / name)]
    empty = [name for name in folders if name not in full]
    loose = [name for name in files if is_picture(name)]
    others = [name for name in files if name not in loose]
    found = [
        _counted(full, "folder", " of pictures"),
        _counted(empty, "folder", " without pictures"),
        _counted(loose, "picture", " outside of class folders"),
        _counted(others, "file", ""),
        "" if folders or loose or not others else "no folders",
    ]
    return " and ".join(part for part in found if part) or "nothing"


def _counted(names: list[str], noun: str, what: str) -> str:
    """'2 folders without pictures (a, b)'; '' without names."""
    if not names:
        return ""
    more = ", ..." if len(names) > MOST_NAMES else ""
    plural = "" if len(names) == 1 else "s"
    shown = ", ".join(names[:MOST_NAMES])
    return f"{len(names)} {noun}{plural}{what} ({shown}{more})"
