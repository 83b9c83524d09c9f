"""What a folder holds: class folders, pictures, and how to say so in a sentence.

`class_folders(Path("photos"))` is `["ants", "bees"]`.
"""

import os
from collections.abc import Iterator
from pathlib import Path

SUFFIXES = (
    *(".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm"),
    *(".tif", ".tiff", ".webp"),
)
MOST_NAMES = 3  # in one sentence


def class_folders(folder: Path) -> list[str]:
    """The sub-folders, by sorted name; hidden ones (.git, .cache) are no classes.

    Nor is `__MACOSX`, which a Mac puts into every zip that it makes.
    """
    return sorted(
        path.name
        for path in folder.iterdir()
        if path.is_dir() and not path.name.startswith((".", "__MACOSX"))
    )


def pictures_in(folder: Path) -> Iterator[Path]:
    """Files with a picture's suffix, however deep, in no order.

    Nothing hidden: editors and systems keep copies there that are no pictures of
    the user's, such as `.ipynb_checkpoints/` and macOS's `._cat.jpg`.
    """
    for path in folder.rglob("*"):
        if path.suffix.lower() not in SUFFIXES or not path.is_file():
            continue
        # asked of few: of a million pictures it would take seconds
        if f"{os.sep}." in f"{os.sep}{path}":
            inside = path.relative_to(folder).parts
            if any(part.startswith(".") for part in inside):
                continue
        yield path


def has_pictures(folder: Path) -> bool:
    """Whether there is a picture anywhere inside; the first one ends the search."""
    return next(pictures_in(folder), None) is not None


def has_pictures_itself(folder: Path) -> bool:
    """Whether a picture lies in the folder, not in one of its sub-folders."""
    return any(
        path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
        for path in folder.iterdir()
    )


def contents(folder: Path) -> str:
    """What a folder holds, for a sentence about one that does not fit."""
    if not folder.is_dir():
        return "no folder"
    folders = class_folders(folder)
    full = [name for name in folders if has_pictures(folder / name)]
    empty = [name for name in folders if name not in full]
    names = sorted(
        path.name
        for path in folder.iterdir()
        if not path.is_dir() and not path.name.startswith(".")
    )
    loose = [name for name in names if Path(name).suffix.lower() in SUFFIXES]
    others = [name for name in names if name not in loose]
    found = [
        _counted(full, "folder", " of pictures"),
        _counted(empty, "folder", " without pictures"),
        _counted(loose, "picture", " outside of class folders"),
        _counted(others, "file", ""),
        "" if folders or loose or not others else "no folders",
    ]
    return " and ".join(part for part in found if part) or "nothing"


def _counted(names: list[str], noun: str, what: str) -> str:
    """'2 folders without pictures (a, b)'; no names, no words."""
    if not names:
        return ""
    more = ", ..." if len(names) > MOST_NAMES else ""
    plural = "" if len(names) == 1 else "s"
    shown = ", ".join(names[:MOST_NAMES])
    return f"{len(names)} {noun}{plural}{what} ({shown}{more})"
