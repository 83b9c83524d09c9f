"""A folder of your own as a data set: class folders, in train/ and val/ or alone.

`pets = load_folder("pets")`
`source = ImageSource(pets.train, spec, augment=augment, shuffle=True)`
"""

import hashlib
import os
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import torch

from vitedu.data import sources
from vitedu.data.arrays import is_array_set
from vitedu.data.images import (
    Pictures,
    left_out,
    match_classes,
    pictures_by_class,
)
from vitedu.data.listing import (
    class_folders,
    contents,
    existing_folder,
    has_pictures,
    has_pictures_itself,
)
from vitedu.data.order import hold_out
from vitedu.errors import UserError
from vitedu.files import check_regular, user_path

# What is held out for testing where there is no part for it.
TEST_SHARE = 0.2
TEST_SEED = 0
# What others call the parts of a data set, and what we do.
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


@dataclass(frozen=True, eq=False)
class FolderDataset:
    """The parts of a folder, and what a result says of it, as `Dataset` has it."""

    name: str
    train: Pictures
    validation: Pictures | None  # where there are both val/ and test/
    test: Pictures
    class_names: tuple[str, ...]  # the folders in train/, sorted
    digest: str  # of the names and sizes of the pictures that can be read
    origin: str  # "data=..."
    requested: str
    notes: tuple[str, ...] = ()  # what was decided for the user, in sentences
    # a sentence for each file that was left out, since it cannot be read
    skipped: tuple[str, ...] = ()


def folder_of(dataset: str, data: str | None = None) -> Path | None:
    """The folder of pictures that `dataset` and `data` mean; None: they mean arrays.

    `data` is one if it has train/ or class folders of pictures, whatever set a
    recipe names, unless it has that set's own files. A name that `load_dataset`
    knows is never taken for a folder that is called so (./mnist is); any other
    names one, which may be at `data`.
    """
    is_named = is_array_set(dataset)
    if dataset.endswith(".npz") or (data or "").endswith(".npz"):
        return None
    if data is None:
        folder = user_path(dataset)
        return folder if os.path.isdir(folder) and not is_named else None
    folder = user_path(data)
    if is_named and (
        sources.holds(dataset, folder) or not holds_pictures(folder)
    ):
        return None
    return folder


def holds_pictures(folder: Path) -> bool:
    """Whether there is train/, or a class folder with a picture in it."""
    return os.path.isdir(folder) and (
        os.path.isdir(folder / "train")
        or any(has_pictures(folder / name) for name in class_folders(folder))
    )


def evaluation_part(folder: str | PathLike[str]) -> Path:
    """Where the pictures to test on are: test/ or val/ of a folder with train/, or it.

    UserError: there is train/, but neither of the others.
    """
    folder = user_path(folder)
    if training_part(folder) == folder:
        return folder
    if parts := parts_to_test_on(folder):
        return folder / parts[0]
    raise UserError(
        f"{folder} has train/, but neither val/ nor test/; put the pictures to "
        "measure with into one of them, in class folders like those of train/"
    )


def training_part(folder: Path) -> Path:
    """FOLDER/train, or FOLDER itself if there are class folders alone.

    A folder called train with pictures right in it, beside other folders of
    pictures, is a class: of vehicles, say.
    """
    train = folder / "train"
    if not os.path.isdir(train):
        return folder
    others = [name for name in class_folders(folder) if name not in PARTS]
    if has_pictures_itself(train) and any(
        has_pictures_itself(folder / name) for name in others
    ):
        return folder
    return train


def has_test_part(folder: Path) -> bool:
    """Whether pictures were put aside to test on: test/ or val/, beside train/."""
    return training_part(folder) != folder and bool(parts_to_test_on(folder))


def parts_to_test_on(folder: Path) -> list[str]:
    """Which of test/ and val/ there are."""
    return [x for x in ("test", "val") if os.path.isdir(folder / x)]


def folder_classes(folder: str | PathLike[str]) -> tuple[str, ...]:
    """The classes that `load_folder` would find, sorted; no picture is read.

    UserError: as `load_folder`, as far as the names of files and folders tell.
    """
    folder = existing_folder(folder)
    root = training_part(folder)
    names = class_folders(root)
    for name in class_folders(folder):
        part = PARTS.get(name.lower())
        if part is None or (root != folder and name in PARTS.values()):
            continue
        if name in names and has_pictures_itself(folder / name):
            continue  # a class that is called so
        raise UserError(
            f"{folder} has {name}/, which looks like a part of the data and "
            "not like a class; the parts are called train/, val/ and test/"
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


def load_folder(
    folder: str | PathLike[str], name: str | None = None
) -> FolderDataset:
    """The pictures to train on and to test on in a folder, those that can be read.

    FOLDER/train and FOLDER/test, or FOLDER/val if there is no test/; with both,
    val/ is for validation. Each part has class folders, as `find_images` reads
    them. Where there is neither test/ nor val/, or class folders alone,
    TEST_SHARE of every class is held out for testing: the same pictures every
    time, none of a class with one or two. `notes` says so, and how many
    pictures are left out. `name` is the folder's own if not given.
    UserError: there are no class folders, one has no picture that can be read,
    or a later part has a class that train/ doesn't have.
    """
    folder = existing_folder(folder)
    folder_classes(folder)
    own_name = folder.resolve().name
    root = training_part(folder)
    train = pictures_by_class(root, folder)
    _check_no_class_is_lost(train)
    found = {"train": train}
    if root != folder:
        found |= {
            part: _like(train, folder / part, folder)
            for part in parts_to_test_on(folder)
        }
    skipped = sum((part.skipped for part in found.values()), ())
    num_all = sum(map(len, found.values()))
    notes = left_out(skipped, num_all)
    parts = found
    if len(found) == 1:
        parts = _hold_out_test(train, folder)
        missing = "train/ and val/" if root == folder else "val/ and test/"
        held_out = held_out_words(len(parts["test"]), len(train))
        notes = (f"{own_name} doesn't have {missing}, so {held_out}", *notes)
    return FolderDataset(
        name or own_name,
        parts["train"],
        parts.get("val") if "test" in parts else None,
        parts["test"] if "test" in parts else parts["val"],
        train.class_names,
        _digest(folder, parts),
        f"data={folder}",
        name or own_name,
        notes,
        skipped,
    )


def held_out_words(num_held_out: int, num_all: int) -> str:
    """How a part that was held out for testing came about, for a sentence."""
    verb = "is" if num_held_out == 1 else "are"
    return (
        f"{num_held_out:,} of its {num_all:,} pictures ({100 * TEST_SHARE:g} % "
        f"of each class, drawn with seed {TEST_SEED}) {verb} held out for "
        "testing"
    )


def _check_no_class_is_lost(train: Pictures) -> None:
    """UserError: every picture of a class was left out."""
    left = set(train.labels)
    for label, name in enumerate(train.class_names):
        if label not in left:
            raise UserError(
                f"no picture of the class {name!r} can be read; "
                f"{train.notes[0]}"
            )


def _hold_out_test(train: Pictures, folder: Path) -> dict[str, Pictures]:
    labels = torch.tensor(train.labels)
    try:
        held_out = hold_out(labels, TEST_SHARE, TEST_SEED)
    except UserError as error:
        raise UserError(
            f"{folder} has too few pictures to hold some out for testing "
            f"({len(train)} in all); put pictures to test on into val/, beside "
            "train/"
        ) from error
    return {
        "train": train.take((~held_out).nonzero()[:, 0].tolist()),
        "test": train.take(held_out.nonzero()[:, 0].tolist()),
    }


def _like(train: Pictures, part: Path, folder: Path) -> Pictures:
    """The pictures of another part, with labels as train/ counts them."""
    pictures = pictures_by_class(part, folder)
    known = train.class_names
    strange = [name for name in pictures.class_names if name not in known]
    if strange:
        raise UserError(
            f"{part} has the class {strange[0]!r}, which train/ doesn't have; "
            f"its classes: {', '.join(known[:5])}"
        )
    return match_classes(pictures, known, len(known))


def _digest(folder: Path, parts: dict[str, Pictures]) -> str:
    digest = hashlib.sha256()
    for part in sorted(parts):
        for path in parts[part].paths:
            place = path.relative_to(folder).as_posix()
            line = f"{place} {check_regular(path).st_size}\n"
            digest.update(os.fsencode(line))
    return digest.hexdigest()[:16]
