"""Your own folder as a data set: class folders, in train/ and val/ or alone.

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
from vitedu.data.archives import archive_folder, downloaded, is_archive
from vitedu.data.arrays import is_array_set
from vitedu.data.catalogue import reader_of
from vitedu.data.images import (
    Pictures,
    left_out,
    match_classes,
    pictures_by_class,
)
from vitedu.data.listing import (
    PARTS,
    class_folders,
    contents,
    existing_folder,
    has_pictures,
    has_pictures_itself,
    visible,
)
from vitedu.data.order import hold_out
from vitedu.data.places import (
    is_place,
    kind_of,
    name_at,
    parts_at,
)
from vitedu.data.torchvision_sets import (
    torchvision_holds,
    torchvision_place,
)
from vitedu.errors import UserError
from vitedu.files import user_path

# What is held out for testing where there is no part for it.
TEST_SHARE = 0.2
TEST_SEED = 0


@dataclass(frozen=True, eq=False)
class FolderDataset:
    """The parts of a folder, and what a result says of it, like `Dataset`."""

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
    """The folder of pictures that `dataset` and `data` mean; None for arrays.

    `data` is one if it has train/ or class folders of pictures, whatever set a
    recipe names, unless it has that set's own files. A name that `load_dataset`
    knows is never taken for a folder that is called so (./mnist is); any other
    names one, which may be at `data`.

    Shards in brace notation, `hf:NAME` and the names of torchvision's sets
    count as folders: `load_folder`, `evaluation_part` and `find_images` take
    what is returned for them.
    """
    if reader_of(dataset) == "torchvision":
        place = None if data is None else user_path(data)
        if (
            place is None
            or not holds_pictures(place)
            or torchvision_holds(dataset, place)
        ):
            return torchvision_place(dataset, place)
        return place
    if reader_of(dataset) == "zip" and data is None:
        return archive_folder(dataset)
    is_named = is_array_set(dataset)
    if dataset.endswith(".npz") or (data or "").endswith(".npz"):
        return None
    if data is None:
        folder = user_path(dataset)
        is_there = os.path.isdir(folder) or is_place(folder)
        return folder if is_there and not is_named else None
    folder = user_path(data)
    if is_named and (
        sources.holds(dataset, folder) or not holds_pictures(folder)
    ):
        return None
    return folder


def holds_pictures(folder: Path) -> bool:
    """Whether there is train/, a class folder with a picture, or shards."""
    if is_place(folder):
        return True
    return os.path.isdir(folder) and (
        os.path.isdir(folder / "train")
        or any(has_pictures(folder / name) for name in class_folders(folder))
    )


def evaluation_part(folder: str | PathLike[str]) -> Path:
    """The part to test on: test/ or val/ if there is train/, else `folder`.

    UserError: there is train/, but neither of the others; or no such folder.
    """
    folder = _existing(folder)
    if training_part(folder) == folder:
        return folder
    if parts := parts_to_test_on(folder):
        return parts_at(folder).get(parts[0], folder / parts[0])
    raise UserError(
        f"{folder} has train/, but neither val/ nor test/; put the pictures to "
        "measure with into one of them, in class folders like those of train/"
    )


def training_part(folder: Path) -> Path:
    """FOLDER/train, or FOLDER itself if there are class folders alone.

    A folder called train with pictures right in it, beside other folders of
    pictures, is a class: of vehicles, say.
    """
    if is_place(folder):
        return parts_at(folder).get("train", folder)
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
    """Whether test pictures were put aside: test/ or val/, beside train/."""
    return training_part(folder) != folder and bool(parts_to_test_on(folder))


def parts_to_test_on(folder: Path) -> list[str]:
    """Which of test/ and val/ there are."""
    if is_place(folder):
        return [x for x in ("test", "val") if x in parts_at(folder)]
    return [x for x in ("test", "val") if os.path.isdir(folder / x)]


def folder_classes(folder: str | PathLike[str]) -> tuple[str, ...]:
    """The classes that `load_folder` would find, sorted; no picture is read.

    UserError: as `load_folder`, as far as the names of files and folders tell.
    """
    folder = _existing(folder)
    if kind := kind_of(folder):
        return kind.classes(folder)
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


def _existing(folder: str | PathLike[str]) -> Path:
    place = user_path(folder)
    return place if is_place(place) else existing_folder(place)


def load_folder(
    folder: str | PathLike[str], name: str | None = None
) -> FolderDataset:
    """The readable pictures of a folder, to train on and to test on.

    FOLDER/train and FOLDER/test, or FOLDER/val if there is no test/; with both,
    val/ is for validation. Each part has class folders, as `find_images` reads
    them. Where there is neither test/ nor val/, or class folders alone,
    TEST_SHARE of every class is held out for testing: the same pictures every
    time, none of a class with one or two. `notes` says so, and how many
    pictures are left out. `name` is the folder's own if not given.

    `folder` may also be one that `vitedu prepare` filled with shards, a tar or
    several in brace notation, `hf:NAME`, or what `folder_of` returns for the
    name of a set of photographs; the splits of these are the parts.
    UserError: there are no class folders, one has no picture that can be read,
    or a later part has a class that train/ doesn't have.
    """
    folder = _existing(folder)
    if is_archive(folder):
        folder = downloaded(folder)
    own_name = name_at(folder)
    found = _parts(folder)
    train = found["train"]
    skipped = sum((part.skipped for part in found.values()), ())
    num_all = sum(map(len, found.values()))
    notes = left_out(skipped, num_all)
    parts = found
    if len(found) == 1:
        parts = _hold_out_test(train, folder)
        is_flat = training_part(folder) == folder and not is_place(folder)
        missing = "train/ and val/" if is_flat else "val/ and test/"
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


def _parts(folder: Path) -> dict[str, Pictures]:
    """train, val and test, as far as they are there, with the same classes."""
    if kind := kind_of(folder):
        parts = kind.parts(folder)
        train = kind.pictures(parts.pop("train", folder))
        return {"train": train} | {
            part: _as_in_train(train, kind.pictures(place), place)
            for part, place in parts.items()
        }
    folder_classes(folder)
    root = training_part(folder)
    train = pictures_by_class(root, folder)
    _check_no_class_is_lost(train)
    others = parts_to_test_on(folder) if root != folder else []
    return {"train": train} | {
        part: _like(train, folder / part, folder) for part in others
    }


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
    return _as_in_train(train, pictures_by_class(part, folder), part)


def _as_in_train(train: Pictures, pictures: Pictures, part: Path) -> Pictures:
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
        for stamp in parts[part].stamps(folder):
            digest.update(stamp)
    return digest.hexdigest()[:16]
