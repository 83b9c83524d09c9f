"""A data set, and the parts it is split into.

`digits = load_dataset("digits")`
`digits.train.images` is (2500, 1, 28, 28); `digits.train[0]` is (picture,
label).
"""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from vitedu.data.feed.source import Source, seed_from
from vitedu.data.imagenet import classes_of
from vitedu.data.labels import (
    check_labels,
    few,
    names_from_labels,
    numbered_names,
)
from vitedu.errors import UserError, counted
from vitedu.files import check_regular

Stamps: TypeAlias = Iterable[bytes | memoryview]
MOST_SHOWN = 3  # sentences in one note


class Reader(ABC):
    """Reads pictures by row; subclass it to support another kind of data.

    A picture is whatever `vitedu.pictures.read_image` takes (a path, an open
    file, a pillow image, uint8 pixels), or floats (c, h, w), which go to the
    model unchanged.
    """

    # the pictures of all rows (n, c, h, w), where they are in memory
    images: Tensor | None = None
    # (n,) int64: the file that each row is in, where a few files have all
    shard_of: Tensor | None = None
    # the names of classes say what a label means, and so labels can be changed
    # to those of a model with the same names in another order
    is_named = True
    # reading a row runs foreign code, which may draw at random
    is_foreign = False
    # of all rows together, where it isn't hashed row by row
    digest = ""
    # of the bytes of all files that can be read, once they have been
    contents = ""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, row: int) -> tuple[Any, int | None]:
        """A picture, and its label if any. UserError: it cannot be read."""

    def name_of(self, row: int) -> str:
        """How messages and tables refer to this picture."""
        return f"picture {row:,}"

    def stamps(
        self, rows: Tensor, labels: Tensor | None, folder: Path | None
    ) -> Stamps:
        """Bytes to hash these rows by; file names are relative to `folder`."""
        if not self.digest:
            return ()
        chosen = hashlib.sha256(str(tuple(rows.tolist())).encode()).digest()
        return (f"{self.digest}\n".encode(), chosen)


class FileReader(Reader):
    """Pictures in files of their own, known by their paths."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, row: int) -> tuple[Path, None]:
        return self.paths[row], None

    def name_of(self, row: int) -> str:
        return str(self.paths[row])

    def stamps(
        self, rows: Tensor, labels: Tensor | None, folder: Path | None
    ) -> Stamps:
        for row in rows.tolist():
            path = self.paths[row]
            name = f"{path.parent.name}/{path.name}"
            if folder is not None and path.is_relative_to(folder):
                name = path.relative_to(folder).as_posix()
            yield os.fsencode(f"{name} {check_regular(path).st_size}\n")


class Loader:
    """A DataLoader or other iterable of batches; it has no rows."""

    def __init__(self, loader: Any, num_images: int) -> None:
        self.loader = loader
        self.num_images = num_images

    def __len__(self) -> int:
        return self.num_images


@dataclass(frozen=True, eq=False)
class Split:
    """One part of a data set: pictures, labels and class names.

    `split[0]` is (picture, label), and `len(split)` the number of pictures.

    Attributes:
        name: for messages and results
        reader: reads a picture by row; or a Source or Loader, without rows
        labels: (n,) int64; None: unknown until the pictures are read
        class_names: empty if the data have only numbers
        rows: (n,) int64, the reader's rows in this split; None: all
        skipped: a sentence for each picture left out as unreadable
    """

    name: str
    reader: Reader | Loader | Source
    labels: Tensor | None
    class_names: tuple[str, ...] = ()
    rows: Tensor | None = None
    skipped: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.reader if self.rows is None else self.rows)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        """(picture, label). UserError: two labels differ, or have no class."""
        row = self._row(index)
        picture, found = self._indexed()[row]
        where = f"{self.name}[{row}]"
        label = found if self.labels is None else int(self.labels[index])
        assert label is not None, "a reader without labels needs those here"
        if found is not None and found != label:
            raise UserError(
                f"{where} comes with the label {found}, but the labels that "
                f"the data set keeps say {label}; make them match"
            )
        if self.class_names and label >= len(self.class_names):
            check_labels(where, torch.tensor([label]), len(self.class_names))
        return picture, label

    @property
    def images(self) -> Tensor:
        """All pictures (n, c, h, w); a UserError if they are not in memory."""
        if not isinstance(self.reader, Reader) or self.reader.images is None:
            raise UserError(
                f"the pictures of {self.name} aren't in memory; read them one "
                "by one, or in batches from vitedu.data.as_source"
            )
        images = self.reader.images
        return images if self.rows is None else images[self.rows]

    @property
    def is_named(self) -> bool:
        """Whether class names may be used to match labels to a model's."""
        return isinstance(self.reader, Reader) and self.reader.is_named

    @property
    def num_classes(self) -> int:
        """How many names, else the largest label plus one (0 if unknown)."""
        if self.class_names or self.labels is None:
            return len(self.class_names)
        return int(self.labels.max()) + 1

    @property
    def notes(self) -> tuple[str, ...]:
        """At most one sentence, about the pictures left out."""
        return left_out(self.skipped, len(self))

    def name_of(self, index: int) -> str:
        """How messages and tables refer to this picture."""
        return self._indexed().name_of(self._row(index))

    def classes(self) -> tuple[str, ...]:
        """Class names, else numbers. UserError: the labels are not known."""
        if self.class_names:
            return self.class_names
        if self.labels is None:
            raise UserError(
                f"{self.name} doesn't keep its labels, so its classes can't be "
                "counted; give the Dataset the attribute targets, a list of "
                "all labels, or say num_classes= or class_names= to "
                "vitedu.data.from_torch or as_source"
            )
        return names_from_labels(self.name, self.labels)

    def take(self, indices: Sequence[int] | Tensor) -> "Split":
        """The pictures at `indices`, in that order. UserError: no rows."""
        self._indexed()
        chosen = torch.as_tensor(indices, dtype=torch.int64)
        return replace(
            self,
            labels=None if self.labels is None else self.labels[chosen],
            rows=chosen if self.rows is None else self.rows[chosen],
            skipped=(),
        )

    def first(self, count: int) -> "Split":
        """The first `count` pictures, or all."""
        return self.take(torch.arange(min(count, len(self))))

    def spread(self, count: int) -> "Split":
        """`count` evenly spaced pictures, to cover the classes; or all."""
        if count >= len(self):
            return self
        return self.take(torch.arange(count) * len(self) // count)

    def hold_out(self, share: float, seed: int) -> tuple["Split", "Split"]:
        """Hold out a share of every class, drawn by `seed`: (kept, held out).

        UserError: the labels are unknown, or a part would be empty.
        """
        if self.labels is None:
            raise UserError(
                f"the labels of {self.name} are known only when it is read, so "
                "no share of each class can be held out; give the parts one by "
                "one (train=, validation=, test=), or give it the attribute "
                "targets, a list of all labels"
            )
        held_out = hold_out(self.labels, share, seed)
        kept, taken = (x.nonzero()[:, 0] for x in (~held_out, held_out))
        return self.take(kept), self.take(taken)

    def with_classes(self, class_names: tuple[str, ...]) -> "Split":
        """This split with labels that index `class_names`.

        Folders are matched by name; if either side has only numbers, their
        count is compared. UserError: the data have other classes.
        """
        own, num_classes = self.class_names, len(class_names)
        is_named = class_names != numbered_names(num_classes)
        if self.is_named and own and is_named:
            return match_classes(self, class_names, num_classes)
        is_other = own not in ((), class_names, numbered_names(len(own)))
        if len(own) > num_classes or (is_named and is_other):
            raise UserError(
                f"{self.name} has the classes {few(own)}, but "
                f"{few(class_names)} are wanted, in this order"
            )
        check_labels(self.name, self.labels, num_classes)
        return replace(self, class_names=class_names)

    def stamps(self, folder: Path | None = None) -> Stamps:
        """Bytes to hash, which change when one of the pictures does."""
        if not isinstance(self.reader, Reader):
            return ()
        rows = torch.arange(len(self)) if self.rows is None else self.rows
        return self.reader.stamps(rows, self.labels, folder)

    def digest(self) -> str:
        """16 hex digits that change with the data, where that is cheap to tell.

        Arrays: their content. Otherwise name, number of pictures, classes,
        labels if known, and the names and sizes of files.
        """
        digest = hashlib.sha256()
        if getattr(self.reader, "images", None) is None:
            digest.update(f"{self.name} {len(self)}\n".encode())
            digest.update("\n".join(self.class_names).encode())
        for stamp in self.stamps():
            digest.update(stamp)
        if self.labels is not None:
            digest.update(self.labels.numpy().astype("<i8").tobytes())
        return digest.hexdigest()[:16]

    def _row(self, index: int) -> int:
        return index if self.rows is None else int(self.rows[index])

    def _indexed(self) -> Reader:
        if isinstance(self.reader, Reader):
            return self.reader
        raise UserError(
            f"{self.name} yields batches in an order of its own, so no part "
            "of it can be taken; give the parts one by one (train=, "
            "validation=, test=), and leave out the fields validation and "
            "max_images"
        )


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set with its parts, and what results record about it.

    Attributes:
        name: for messages and results
        train: the part to learn from
        validation: the part to choose by, if there is one besides `test`
        test: the part to measure on
        class_names: names of labels 0, 1, ...
        digest: 16 hex digits; equal data, equal digest
        origin: "data=...", "$VITEDU_DATA", "cache", "package", "made", "given"
        requested: the name that was given; differs from `name` after a fallback
            and where `data` is a FILE.npz
        notes: decisions made for the user, in sentences
        skipped: a sentence for each picture left out as unreadable
    """

    name: str
    train: Split
    validation: Split | None
    test: Split
    class_names: tuple[str, ...]
    digest: str
    origin: str = "given"
    requested: str = ""
    notes: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """By which a result knows its data again; see `changes`.

        `contents` are of what `digest` knows by names and sizes.
        """
        parts = [x for x in (self.train, self.validation, self.test) if x]
        found = [getattr(part.reader, "contents", "") for part in parts]
        contents = hashlib.sha256(" ".join(found).encode()).hexdigest()[:16]
        return {
            "name": self.name,
            "digest": self.digest,
            "num_images": sum(map(len, parts)),
            **({"contents": contents} if any(found) else {}),
        }


def hold_out(labels: Tensor, fraction: float, seed: int) -> Tensor:
    """Which samples are held out, a share of every class: bool (n,).

    Of each class round(fraction * its size). UserError: a part is empty.
    """
    generator = torch.Generator().manual_seed(seed_from(seed))
    held_out = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique():
        members = (labels == label).nonzero()[:, 0]
        drawn = torch.randperm(len(members), generator=generator)
        held_out[members[drawn[: round(fraction * len(members))]]] = True
    if not held_out.any() or held_out.all():
        raise UserError(
            f"a held-out share of {fraction} of {len(held_out)} samples "
            "leaves one part empty"
        )
    return held_out


def changes(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    if before == now:
        return None
    name, old, new = now["name"], before.get("num_images"), now["num_images"]
    if before["digest"] == now["digest"]:
        if before.get("contents") in (None, now.get("contents")):
            return None
        return f"some pictures of {name} were changed since"
    if old is None:
        return f"{name} has changed since"
    if old == new:
        return (
            f"some of the {new:,} images of {name} were replaced, renamed or "
            "changed since"
        )
    verb = "more" if new > old else "fewer"
    return f"{name} has {new:,} images now, {abs(new - old):,} {verb} than then"


def left_out(skipped: tuple[str, ...], num_left: int) -> tuple[str, ...]:
    if not skipped:
        return ()
    verb = "is" if len(skipped) == 1 else "are"
    num_more = len(skipped) - MOST_SHOWN
    more = f"; and {num_more:,} more" if num_more > 0 else ""
    return (
        f"{len(skipped):,} of {len(skipped) + num_left:,} pictures {verb} left "
        f"out: {'; '.join(skipped[:MOST_SHOWN])}{more}",
    )


def match_classes(
    split: Split, names: Sequence[str], num_classes: int
) -> Split:
    """`split` with its labels renumbered as in a model with class `names`.

    Folders are matched by name; for a model without names they are sorted.
    ImageNet's folders may be named by WordNet's codes.

    UserError: the folders are not classes of the model.
    """
    ours, labels = split.class_names, split.labels
    if labels is None:
        return split.with_classes(tuple(names))
    if not ours:
        check_labels(split.name, labels, num_classes)
        return split
    if not set(ours) <= set(names) and (classes := classes_of(num_classes)):
        is_code = set(ours) <= set(classes.codes)
        names = classes.codes if is_code else names or classes.names
    if not names and len(ours) == num_classes:
        return split
    label_of = {name: label for label, name in enumerate(names)}
    unknown = [name for name in ours if name not in label_of]
    if unknown:
        known = ", ".join(list(names)[:5]) or f"{num_classes} without names"
        raise UserError(
            f"the model has no class for {counted(len(unknown), 'folder')} "
            f"({few(unknown)}); its classes: {known}"
        )
    theirs = torch.tensor([label_of[name] for name in ours])
    return replace(split, labels=theirs[labels], class_names=tuple(names))
