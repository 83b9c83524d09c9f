"""Pictures on a disk as a source of batches: class folders, or a flat one with a CSV.

`pictures = find_images("photos/val")`
`source = ImageSource(pictures, model.preprocess, num_workers=2)`
`for images, labels in source.batches(batch_size=64): ...`
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from vitedu.data.imagenet import imagenet_classes
from vitedu.data.preprocess import PreprocessSpec, normalise, read_image
from vitedu.errors import UserError

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".tif", ".webp")


@dataclass(frozen=True)
class Pictures:
    """Files and what is on them; nothing is decoded yet."""

    paths: tuple[Path, ...]
    labels: tuple[int, ...]  # indices
    class_names: tuple[str, ...]  # empty where a CSV gave indices alone


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
    classes = sorted(path.name for path in folder.iterdir() if path.is_dir())
    found = [
        (path, index)
        for index, name in enumerate(classes)
        for path in _pictures_in(folder / name)
    ]
    if not found:
        raise UserError(
            f"{folder} holds no pictures in class folders; put each class into a "
            "folder of its own, or name a table with labels=FILE.csv"
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
    if num_classes == 1000 and not set(ours) <= set(names):
        classes = imagenet_classes()
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


def _pictures_in(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in SUFFIXES and path.is_file()
    )


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


class ImageSource(torch.utils.data.Dataset):
    """Pictures decoded on workers, ready for a model with the given `preprocess`.

    An item is (uint8 (c, h, w), label), or the UserError that names a picture which
    cannot be decoded. `batches` raises it: a silent gap would change what is measured.
    """

    def __init__(
        self,
        pictures: Pictures,
        preprocess: PreprocessSpec,
        *,
        num_workers: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        self.pictures = pictures
        self.preprocess = preprocess
        self.num_workers = num_workers
        self.device = torch.device(device)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names by index; empty where only indices are known."""
        return self.pictures.class_names

    @property
    def num_classes(self) -> int:
        """One more than the largest label, or as many as there are names."""
        return len(self.class_names) or max(self.pictures.labels) + 1

    def __len__(self) -> int:
        return len(self.pictures.paths)

    def __getitem__(self, index: int) -> tuple[Tensor, int] | UserError:
        path, label = self.pictures.paths[index], self.pictures.labels[index]
        try:
            return read_image(path, self.preprocess), label
        except UserError as error:
            return (
                error  # raised on a worker it would become a page of traceback
            )

    def batches(self, *, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """(b, c, h, w) float32 as the model wants it, (b,) int64; in order."""
        loader = torch.utils.data.DataLoader(
            self,
            batch_size=batch_size,
            num_workers=self.num_workers,
            collate_fn=_stack,
            generator=torch.Generator(),  # leaves the global one alone
        )
        for batch in loader:
            if isinstance(batch, UserError):
                raise batch
            images, labels = (part.to(self.device) for part in batch)
            yield normalise(images, self.preprocess), labels


def _stack(
    items: list[tuple[Tensor, int] | UserError],
) -> tuple[Tensor, Tensor] | UserError:
    for item in items:
        if isinstance(item, UserError):
            return item
    images, labels = zip(*items, strict=True)
    return torch.stack(images), torch.tensor(labels)
