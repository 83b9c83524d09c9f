"""Pictures on a disk as a source of batches: class folders, or a flat one with a CSV.

`pictures = find_images("photos/val")`
`source = ImageSource(pictures, model.preprocess, num_workers=2)`
`for images, labels in source.batches(batch_size=64): ...`
"""

import csv
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from vitedu.data.augment import Augment, erase
from vitedu.data.imagenet import classes_of
from vitedu.data.order import (
    batch_rows,
    check_batches,
    epoch_generator,
    mixed,
)
from vitedu.errors import UserError
from vitedu.pictures import PreprocessSpec, normalise, read_image

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


class ImageSource:
    """Pictures decoded on workers, ready for a model with the given `preprocess`.

    Without `augment` each is prepared as for evaluation; with it, by pillow on the
    worker, as `vitedu.data.transforms` says, from numbers that (seed, epoch, sample)
    alone decide: not the batch, the workers or where a run was resumed.
    """

    def __init__(
        self,
        pictures: Pictures,
        preprocess: PreprocessSpec,
        *,
        augment: Augment | None = None,
        shuffle: bool = False,
        num_workers: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        """`num_workers` processes decode; 0: this one does."""
        self.pictures = pictures
        self.preprocess = preprocess
        self.augment = None if augment is None or augment.is_off else augment
        self.shuffle = shuffle
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
        """The number of pictures."""
        return len(self.pictures.paths)

    def batches(
        self,
        *,
        epoch: int = 0,
        seed: int = 0,
        batch_size: int,
        start: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """One epoch: (images (b, c, h, w) float32, labels (b,) int64), on the device.

        Order, `start`, `rank` and `world` as in `ArraySource.batches`.
        UserError: a picture cannot be decoded; a silent gap would change what is
        measured.
        """
        check_batches(batch_size, start, rank, world)
        order = torch.arange(len(self))
        if self.shuffle:
            generator = epoch_generator(seed, epoch)
            order = torch.randperm(len(self), generator=generator)
        batches = batch_rows(
            order, batch_size=batch_size, start=start, rank=rank, world=world
        )
        return self._batches(Epoch(self, epoch, seed), batches)

    def _batches(
        self, epoch: "Epoch", batches: list[Tensor]
    ) -> Iterator[tuple[Tensor, Tensor]]:
        loader = torch.utils.data.DataLoader(
            epoch,
            batch_sampler=[rows.tolist() for rows in batches],
            num_workers=self.num_workers,
            collate_fn=epoch.collate,
            pin_memory=self.device.type == "cuda",
            worker_init_fn=leave_signals_to_the_parent,
            generator=torch.Generator(),  # leaves the global one alone
        )
        for batch in loader:
            if isinstance(batch, UserError):
                raise batch
            pixels, labels, drawn = batch
            images = pixels.to(self.device, non_blocking=True)
            images = normalise(images, self.preprocess)
            if self.augment is not None:
                images = erase(self.augment, images, drawn)
            yield images, labels.to(self.device, non_blocking=True)


class Epoch(torch.utils.data.Dataset):
    """The pictures of a source as they are in one epoch; what workers are sent."""

    def __init__(self, source: ImageSource, epoch: int, seed: int) -> None:
        self.source = source
        self.epoch = epoch
        self.seed = seed

    def __getitem__(self, index: int) -> tuple[Tensor, int, Tensor] | UserError:
        """Pixels uint8 (c, h, w), label, and what was drawn; or what went wrong.

        The UserError is handed over, since raised on a worker it would become a page
        of traceback.
        """
        source = self.source
        path, label = (
            source.pictures.paths[index],
            source.pictures.labels[index],
        )
        try:
            if source.augment is None:
                return (
                    read_image(path, source.preprocess),
                    label,
                    torch.empty(0),
                )
            # here, so that pillow is loaded by whoever reads pictures, and by no other
            from vitedu.data.transforms import training_pixels

            seed = mixed(self.seed, self.epoch, index)
            generator = torch.Generator().manual_seed(seed)
            pixels, drawn = training_pixels(
                path, source.preprocess, source.augment, generator
            )
            return pixels, label, drawn
        except UserError as error:
            return error

    def collate(
        self, items: list[tuple[Tensor, int, Tensor] | UserError]
    ) -> tuple[Tensor, Tensor, Tensor] | UserError:
        """A batch from its pictures; the last of an epoch may have none."""
        for item in items:
            if isinstance(item, UserError):
                return item
        if not items:
            spec, augment = self.source.preprocess, self.source.augment
            pixels = torch.empty(
                0, spec.in_channels, *spec.image_size, dtype=torch.uint8
            )
            width = 0 if augment is None else augment.num_columns
            return (
                pixels,
                torch.empty(0, dtype=torch.int64),
                torch.empty(0, width),
            )
        pixels, labels, drawn = zip(*items, strict=True)
        return torch.stack(pixels), torch.tensor(labels), torch.stack(drawn)


def leave_signals_to_the_parent(worker: int) -> None:
    """Ctrl-C reaches every process of a run, and one of them decides when to stop."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
