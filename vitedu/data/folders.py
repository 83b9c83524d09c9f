"""A folder of one's own as a data set: train/ and val/ or test/, of class folders.

`pets = load_folder("pets")`
`source = ImageSource(pets.train, spec, augment=augment, shuffle=True)`
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from vitedu.data.arrays import is_array_set
from vitedu.data.images import Pictures, find_images, match_classes
from vitedu.data.order import hold_out
from vitedu.errors import UserError


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


def folder_of(dataset: str, data: str | None = None) -> Path | None:
    """The folder of pictures that `dataset` and `data` mean; None: they mean arrays.

    `data` with train/ in it is one, whatever set a recipe names. A name that
    `load_dataset` knows is never taken for a folder that is called so (./mnist is);
    any other names one, which `data` may say where it lies.
    """
    if data and (Path(data).expanduser() / "train").is_dir():
        return Path(data).expanduser()
    if is_array_set(dataset) or (data or "").endswith(".npz"):
        return None
    folder = Path(data or dataset).expanduser()
    return folder if data or folder.is_dir() else None


def evaluation_part(folder: str | Path) -> Path:
    """Where the pictures to test on are: test/ or val/ of a folder with train/, or it.

    UserError: there is train/, but neither of the others.
    """
    folder = Path(folder).expanduser()
    if not (folder / "train").is_dir():
        return folder
    for part in ("test", "val"):
        if (folder / part).is_dir():
            return folder / part
    raise UserError(
        f"{folder} has train/, but neither val/ nor test/; put the pictures to measure "
        "by into one of them, in class folders like those of train/"
    )


def load_folder(folder: str | Path, name: str | None = None) -> FolderDataset:
    """The pictures of FOLDER/train and FOLDER/test, or FOLDER/val if there is no test/.

    With both, val/ is for validation. Each part holds class folders, as `find_images`
    reads them; nothing is decoded. `name` is the folder's own if not given.
    UserError: a part is missing or empty, or has a class that train/ has not.
    """
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise UserError(f"there is no folder {str(folder)!r}")
    if not (folder / "train").is_dir():
        raise UserError(
            f"{folder} has no train/; a folder to train on holds train/ and val/ (or "
            "test/), and each of them a folder a class"
        )
    tested = evaluation_part(folder)
    train = find_images(folder / "train")
    parts = {"train": train, tested.name: _like(train, tested)}
    if tested.name == "test" and (folder / "val").is_dir():
        parts["val"] = _like(train, folder / "val")
    return FolderDataset(
        name or folder.resolve().name,
        train,
        parts.get("val") if tested.name == "test" else None,
        parts[tested.name],
        train.class_names,
        _digest(folder, parts),
        f"data={folder}",
        name or folder.resolve().name,
    )


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


def spread(pictures: Pictures, n: int) -> Pictures:
    """n pictures at even distances, so that every class is met (all, if fewer)."""
    total = len(pictures.paths)
    if n >= total:
        return pictures
    return _chosen(pictures, torch.arange(n) * total // n)


def split_pictures(
    pictures: Pictures, fraction: float, seed: int
) -> tuple[Pictures, Pictures]:
    """Hold out a share of every class, drawn by `seed`: (train, validation).

    Both stay in file order. UserError: a part would be empty.
    """
    held_out = hold_out(torch.tensor(pictures.labels), fraction, seed)
    return tuple(
        _chosen(pictures, chosen.nonzero()[:, 0])
        for chosen in (~held_out, held_out)
    )


def _chosen(pictures: Pictures, indices: Tensor) -> Pictures:
    rows = indices.tolist()
    return Pictures(
        tuple(pictures.paths[row] for row in rows),
        tuple(pictures.labels[row] for row in rows),
        pictures.class_names,
    )
