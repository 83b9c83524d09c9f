"""One part of a data set, and a data set with its parts.

`digits = load_dataset("digits")`
`digits.train.images` is (2500, 1, 28, 28), and `digits.train[0]` a picture and
its label.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from vitedu.data.feed.order import hold_out
from vitedu.data.feed.source import Source
from vitedu.data.imagenet import classes_of
from vitedu.data.labels import (
    check_labels,
    few,
    names_from_labels,
    numbered_names,
)
from vitedu.errors import UserError

Stamps: TypeAlias = Iterable[bytes | memoryview]

MOST_SHOWN = 3  # sentences in one note


class Reader:
    """Reads pictures by row. A kind of data is a subclass of this.

    A picture is whatever `vitedu.pictures.read_image` takes: a path, an open
    file, a pillow image, uint8 pixels; or floats (c, h, w), which go to the
    model as they are.
    """

    # the pictures of all rows (n, c, h, w), where they are in memory
    images: Tensor | None = None
    # (n,) int64: the file that each row is in, where a few files have all
    shard_of: Tensor | None = None
    # the names of classes say what a label means, and so labels can be changed
    # to those of a model with the same names in another order
    is_named = True
    # reading a row runs code of others, which may draw at random
    is_foreign = False

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, row: int) -> tuple[Any, int | None]:
        """A picture, and its label where the row has it.

        UserError: it cannot be read.
        """
        raise NotImplementedError

    def name_of(self, row: int) -> str:
        """What a sentence or a table calls one picture."""
        return f"picture {row:,}"

    def stamps(
        self, rows: Tensor, labels: Tensor | None, folder: Path | None
    ) -> Stamps:
        """Bytes for a digest, which change when one of these rows does.

        Names of files are as they are below `folder`.
        """
        return ()


class Loader(Reader):
    """A DataLoader or other iterable of batches, which can't be indexed."""

    is_named = False

    def __init__(self, loader: Any, num_images: int) -> None:
        self.loader = loader
        self.num_images = num_images

    def __len__(self) -> int:
        return self.num_images


@dataclass(frozen=True, eq=False)
class Split:
    """One part of a data set: pictures, labels and what the labels mean.

    `split[0]` is (picture, label), and `len(split)` the number of pictures.

    Attributes:
        name: for messages and results
        reader: reads a picture; or a Source or Loader, which have no rows
        labels: (n,) int64; None: only reading tells them
        class_names: empty where the data have numbers alone
        rows: (n,) int64, the rows of the reader that are meant; None: all
        skipped: a sentence for each picture left out, since it is unreadable
    """

    name: str
    reader: Reader | Source
    labels: Tensor | None
    class_names: tuple[str, ...] = ()
    rows: Tensor | None = None
    skipped: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.reader if self.rows is None else self.rows)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        """A picture and its label. UserError: the label is another, or none."""
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
            raise UserError(
                f"{where} has the label {label}, but there are "
                f"{len(self.class_names)} classes, counted from 0"
            )
        return picture, label

    @property
    def images(self) -> Tensor:
        """All pictures (n, c, h, w) of data in memory.

        UserError: they are elsewhere, and read one by one.
        """
        if not isinstance(self.reader, Reader) or self.reader.images is None:
            raise UserError(
                f"the pictures of {self.name} aren't in memory; read them one "
                "by one, or in batches from vitedu.data.as_source"
            )
        images = self.reader.images
        return images if self.rows is None else images[self.rows]

    @property
    def is_named(self) -> bool:
        """Whether labels can be changed to those of a model with such names."""
        return isinstance(self.reader, Reader) and self.reader.is_named

    @property
    def num_classes(self) -> int:
        """As many as there are names, else one more than the largest label.

        0: unknown.
        """
        if self.class_names or self.labels is None:
            return len(self.class_names)
        return int(self.labels.max()) + 1

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence about the pictures left out, if there are any."""
        return left_out(self.skipped, len(self))

    def name_of(self, index: int) -> str:
        """What a sentence or a table calls one picture."""
        return self._indexed().name_of(self._row(index))

    def classes(self) -> tuple[str, ...]:
        """The names of the classes, else the numbers up to the highest label.

        UserError: only reading all of the data would tell.
        """
        if self.class_names:
            return self.class_names
        if self.labels is None:
            raise UserError(
                f"{self.name} does not say how many classes it has; give "
                "num_classes= or class_names= to vitedu.data.as_source or "
                "from_torch, or a data set with the attribute classes or "
                "targets"
            )
        return names_from_labels(self.name, self.labels)

    def take(self, indices: Sequence[int] | Tensor) -> "Split":
        """Some of the pictures, in this order, with all the classes.

        UserError: they have no index.
        """
        self._indexed()
        chosen = torch.as_tensor(indices, dtype=torch.int64)
        return replace(
            self,
            labels=None if self.labels is None else self.labels[chosen],
            rows=chosen if self.rows is None else self.rows[chosen],
            skipped=(),
        )

    def first(self, count: int) -> "Split":
        """The first pictures; all, if there are fewer."""
        return self.take(torch.arange(min(count, len(self))))

    def spread(self, count: int) -> "Split":
        """Evenly spaced pictures, so that every class comes up; or all."""
        if count >= len(self):
            return self
        return self.take(torch.arange(count) * len(self) // count)

    def hold_out(self, share: float, seed: int) -> tuple["Split", "Split"]:
        """Hold out a share of every class, drawn by `seed`: (kept, held out).

        UserError: the labels are not known, or a part would be empty.
        """
        if self.labels is None:
            raise UserError(
                f"the labels of {self.name} are known only when it is read, so "
                "no share of each class can be held out; give the parts one by "
                "one (train=, validation=, test=)"
            )
        held_out = hold_out(self.labels, share, seed)
        return (
            self.take((~held_out).nonzero()[:, 0]),
            self.take(held_out.nonzero()[:, 0]),
        )

    def with_classes(self, class_names: tuple[str, ...]) -> "Split":
        """This split with labels that index `class_names`.

        Folders are matched by name; where one side has numbers for names, only
        their count is compared. UserError: the data have other classes.
        """
        own = self.class_names
        is_named = class_names != numbered_names(len(class_names))
        if self.is_named and own and is_named:
            return match_classes(self, class_names, len(class_names))
        if is_named and own not in ((), class_names, numbered_names(len(own))):
            raise UserError(
                f"{self.name} has the classes {few(own)}, but "
                f"{few(class_names)} are wanted, in this order"
            )
        if len(own) > len(class_names):
            raise UserError(
                f"{self.name} has {len(own)} classes, but there are "
                f"{len(class_names)}: {few(class_names)}"
            )
        check_labels(self.name, self.labels, len(class_names))
        return replace(self, class_names=class_names)

    def stamps(self, folder: Path | None = None) -> Stamps:
        """Bytes for a digest, which change when one of the pictures does."""
        if not isinstance(self.reader, Reader):
            return ()
        rows = torch.arange(len(self)) if self.rows is None else self.rows
        return self.reader.stamps(rows, self.labels, folder)

    def digest(self) -> str:
        """16 hex digits that change with the data, as far as that is cheap.

        Arrays: their content. Else the name, the number of pictures, the
        classes and, where they are known, the labels; files by name and size.
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
        if isinstance(self.reader, Reader) and not isinstance(
            self.reader, Loader
        ):
            return self.reader
        raise UserError(
            f"{self.name} yields batches in an order of its own, so no part "
            "of it can be taken; give the parts one by one (train=, "
            "validation=, test=), and leave out the fields validation and "
            "max_images"
        )


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set with its parts, and what a result says of it.

    Attributes:
        name: for messages and results
        train: the part to learn from
        validation: the part to choose by, if there is one besides `test`
        test: the part to measure on
        class_names: what label 0, 1, ... is called
        digest: 16 hex digits; equal data, equal digest
        origin: "data=...", "$VITEDU_DATA", "cache", "package", "made", "given"
        requested: the name that was given; after a fallback not `name`
        notes: what was decided for the user, in sentences
        skipped: a sentence for each picture left out, since it is unreadable
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


def rows_stamp(rows: Tensor) -> bytes:
    """For the digests of readers whose rows are those of one table."""
    return hashlib.sha256(str(tuple(rows.tolist())).encode()).digest()


def left_out(skipped: tuple[str, ...], num_left: int) -> tuple[str, ...]:
    """A sentence about pictures that cannot be read, if there are any."""
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
    """`split` with labels as a model counts them: by its class `names`.

    Folders are matched by name; a model without names gets them in sorted
    order. ImageNet's folders may be named by WordNet's codes.

    UserError: the folders are not classes of the model.
    """
    ours, labels = split.class_names, split.labels
    if labels is None:
        return split.with_classes(tuple(names))
    if not ours:
        if int(labels.max()) >= num_classes:
            raise UserError(
                f"the table has the class {int(labels.max())}, but the "
                f"model has {num_classes} classes, counted from 0"
            )
        return split
    if not set(ours) <= set(names) and (classes := classes_of(num_classes)):
        is_code = set(ours) <= set(classes.codes)
        names = classes.codes if is_code else names or classes.names
    if not names and len(ours) == num_classes:
        return split
    unknown = [name for name in ours if name not in names]
    if unknown:
        known = ", ".join(list(names)[:5]) or f"{num_classes} without names"
        raise UserError(
            f"{len(unknown)} folders are not classes of the model, the first "
            f"is {unknown[0]!r}; its classes: {known}"
        )
    label_of = {name: label for label, name in enumerate(names)}
    theirs = torch.tensor([label_of[name] for name in ours])
    return replace(split, labels=theirs[labels], class_names=tuple(names))
