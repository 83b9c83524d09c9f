"""A folder of one's own as a data set: class folders, in train/ and val/ or alone.

`pets = load_folder("pets")`
`source = ImageSource(pets.train, spec, augment=augment, shuffle=True)`
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch

from vitedu.data import sources
from vitedu.data.arrays import is_array_set
from vitedu.data.images import Pictures, find_images, match_classes
from vitedu.data.listing import (
    class_folders,
    contents,
    has_pictures,
    has_pictures_itself,
)
from vitedu.data.order import hold_out
from vitedu.errors import UserError

# What is held out for testing where nothing was put aside for it.
TEST_SHARE = 0.2
TEST_SEED = 0
# What others call the parts of a data set; ours are the last three.
PARTS = {
    **dict.fromkeys(("training", "train_set", "training_set"), "train"),
    **dict.fromkeys(("valid", "validation", "dev", "val_set"), "val"),
    **dict.fromkeys(("testing", "test_set"), "test"),
    **{"train": "train", "val": "val", "test": "test"},
}


@dataclass(frozen=True, eq=False)
class FolderDataset:
    """The parts of a folder, and what a result says of it; the like of `Dataset`."""

    name: str
    train: Pictures
    validation: Pictures | None  # where there are both val/ and test/
    test: Pictures
    class_names: tuple[str, ...]  # the folders in train/, sorted
    digest: str  # of the files' names and sizes: pixels are not read for it
    origin: str  # "data=..."
    requested: str
    notes: tuple[str, ...] = ()  # what was decided for the user, in sentences


def folder_of(dataset: str, data: str | None = None) -> Path | None:
    """The folder of pictures that `dataset` and `data` mean; None: they mean arrays.

    `data` is one if it holds train/ or class folders of pictures, whatever set a
    recipe names, unless it holds that set's own files. A name that `load_dataset`
    knows is never taken for a folder that is called so (./mnist is); any other names
    one, which `data` may say where it lies.
    """
    is_named = is_array_set(dataset)
    if dataset.endswith(".npz") or (data or "").endswith(".npz"):
        return None
    if data is None:
        folder = Path(dataset).expanduser()
        return folder if folder.is_dir() and not is_named else None
    folder = Path(data).expanduser()
    if is_named and (
        sources.holds(dataset, folder) or not holds_pictures(folder)
    ):
        return None
    return folder


def holds_pictures(folder: Path) -> bool:
    """Whether there is train/, or a class folder with a picture in it."""
    return folder.is_dir() and (
        (folder / "train").is_dir()
        or any(has_pictures(folder / name) for name in class_folders(folder))
    )


def evaluation_part(folder: str | Path) -> Path:
    """Where the pictures to test on are: test/ or val/ of a folder with train/, or it.

    UserError: there is train/, but neither of the others.
    """
    folder = Path(folder).expanduser()
    if training_part(folder) == folder:
        return folder
    for part in ("test", "val"):
        if (folder / part).is_dir():
            return folder / part
    raise UserError(
        f"{folder} has train/, but neither val/ nor test/; put the pictures to measure "
        "by into one of them, in class folders like those of train/"
    )


def training_part(folder: Path) -> Path:
    """FOLDER/train, or FOLDER itself if it holds class folders alone.

    A folder called train with pictures right in it, beside other folders of
    pictures, is a class: of vehicles, say.
    """
    train = folder / "train"
    if not train.is_dir():
        return folder
    others = [name for name in class_folders(folder) if name not in PARTS]
    if has_pictures_itself(train) and any(
        has_pictures_itself(folder / name) for name in others
    ):
        return folder
    return train


def has_test_part(folder: Path) -> bool:
    """Whether pictures were put aside to test on: test/ or val/, beside train/."""
    return training_part(folder) != folder and any(
        (folder / part).is_dir() for part in ("test", "val")
    )


def folder_classes(folder: str | Path) -> tuple[str, ...]:
    """The classes that `load_folder` would find, sorted; no picture is listed.

    UserError: as `load_folder`, where the names of the folders tell.
    """
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise UserError(f"there is no folder {str(folder)!r}")
    root = training_part(folder)
    names = class_folders(root)
    for name in class_folders(folder):
        part = PARTS.get(name.lower())
        if part is None or (root != folder and name in PARTS.values()):
            continue
        if name in names and has_pictures_itself(folder / name):
            continue  # a class that is called so
        raise UserError(
            f"{folder} has {name}/, which looks like a part of the data and not "
            f"like a class; the parts are called train/, val/ and test/"
        )
    empty = [name for name in names if not has_pictures(root / name)]
    if len(empty) == len(names):
        raise UserError(
            f"{root} holds {contents(root)}; a folder to train on holds a folder of "
            "pictures for each class, or train/ and val/ with such folders"
        )
    if empty:
        more = f" and {len(empty) - 1} more" if len(empty) > 1 else ""
        raise UserError(
            f"{root / empty[0]}{more} holds no pictures, so nothing could be learned "
            "of this class; put pictures there, or move the folder away"
        )
    return tuple(names)


def load_folder(folder: str | Path, name: str | None = None) -> FolderDataset:
    """The pictures to train on and to test on in a folder; nothing is decoded.

    FOLDER/train and FOLDER/test, or FOLDER/val if there is no test/; with both, val/
    is for validation. Each part holds class folders, as `find_images` reads them.
    Where there is neither test/ nor val/, or the folder holds class folders alone,
    TEST_SHARE of every class is held out for testing: the same pictures every time,
    none of a class with one or two, and `notes` says so. `name` is the folder's own if
    not given.
    UserError: there are no class folders, one is empty, or a later part has a class
    that train/ has not.
    """
    folder = Path(folder).expanduser()
    folder_classes(folder)
    root = training_part(folder)
    train = find_images(root)
    parts = {"train": train}
    if root != folder:
        parts |= {
            part: _like(train, folder / part)
            for part in ("val", "test")
            if (folder / part).is_dir()
        }
    notes: tuple[str, ...] = ()
    if len(parts) == 1:
        parts = dict(
            zip(("train", "test"), _hold_out_test(train, folder), strict=True)
        )
        missing = (
            f"{folder.resolve().name} has no train/ and val/"
            if root == folder
            else f"{folder.resolve().name} has neither val/ nor test/"
        )
        notes = (
            f"{missing}, so {held_out_words(len(parts['test']), len(train))}",
        )
    return FolderDataset(
        name or folder.resolve().name,
        parts["train"],
        parts.get("val") if "test" in parts else None,
        parts["test"] if "test" in parts else parts["val"],
        train.class_names,
        _digest(folder, parts),
        f"data={folder}",
        name or folder.resolve().name,
        notes,
    )


def held_out_words(num_held_out: int, num_all: int) -> str:
    """How a part that was held out for testing came about, for a sentence."""
    verb = "is" if num_held_out == 1 else "are"
    return (
        f"{num_held_out:,} of its {num_all:,} pictures ({100 * TEST_SHARE:g} % of "
        f"each class, drawn with seed {TEST_SEED}) {verb} held out for testing"
    )


def _hold_out_test(
    pictures: Pictures, folder: Path
) -> tuple[Pictures, Pictures]:
    labels = torch.tensor(pictures.labels)
    try:
        held_out = hold_out(labels, TEST_SHARE, TEST_SEED)
    except UserError as error:
        raise UserError(
            f"{folder} holds too few pictures to hold some out for testing "
            f"({len(pictures)} in all); put pictures to test on into val/, beside "
            "train/"
        ) from error
    kept, taken = (
        pictures.take(chosen.nonzero()[:, 0].tolist())
        for chosen in (~held_out, held_out)
    )
    return kept, taken


def _like(train: Pictures, folder: Path) -> Pictures:
    """The pictures of another part, with labels as train/ counts them."""
    pictures = find_images(folder)
    known = train.class_names
    strange = [name for name in pictures.class_names if name not in known]
    if strange:
        raise UserError(
            f"{folder} has the class {strange[0]!r}, which train/ has not; its "
            f"classes: {', '.join(known[:5])}"
        )
    return match_classes(pictures, known, len(known))


def _digest(folder: Path, parts: dict[str, Pictures]) -> str:
    digest = hashlib.sha256()
    for part in sorted(parts):
        for path in parts[part].paths:
            place = path.relative_to(folder).as_posix()
            digest.update(f"{place} {path.stat().st_size}\n".encode())
    return digest.hexdigest()[:16]
