"""Data from a caller, read far enough to be counted, split and fed.

`train, test = open_data(dataset).split(0.2, seed=0)`
`source = train.source(preprocess=model.preprocess, shuffle=True)`
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from vitedu.data.arrays import Arrays
from vitedu.data.augment import Augment
from vitedu.data.image_source import ImageSource
from vitedu.data.images import Pictures, left_out, match_classes
from vitedu.data.items import Items
from vitedu.data.labels import (
    check_labels,
    names_from_labels,
    numbered_names,
)
from vitedu.data.loader_source import LoaderSource
from vitedu.data.memory import array_source
from vitedu.data.order import hold_out
from vitedu.data.source import Source
from vitedu.errors import UserError
from vitedu.pictures import PreprocessSpec

if TYPE_CHECKING:
    from vitedu.data.image_source import PictureChange


@dataclass(frozen=True, eq=False)
class Opened:
    """Data as they were given, and what can be known before they are read."""

    name: str
    content: Any  # a Source, Arrays, Pictures, Items, or what yields batches
    num_images: int
    class_names: tuple[str, ...]  # empty: the data do not name them
    labels: Tensor | None  # (n,) int64; None: only reading tells

    @property
    def skipped(self) -> tuple[str, ...]:
        """A sentence for each picture of a folder that cannot be read."""
        content = self.content
        return content.skipped if isinstance(content, Pictures) else ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What to tell a user: how many pictures of a folder are left out."""
        return left_out(self.skipped, len(self))

    @property
    def knows_classes(self) -> bool:
        """Whether the data say what `classes` there are."""
        return bool(self.class_names) or self.labels is not None

    def __len__(self) -> int:
        """The number of images."""
        return self.num_images

    def classes(self) -> tuple[str, ...]:
        """The classes: their names, else the numbers up to the highest label.

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

    def called(self, class_names: tuple[str, ...]) -> "Opened":
        """The same data with labels that mean `class_names`, in this order.

        Folders are matched by name; where one side has numbers for names, only
        their count is compared. UserError: the data have other classes.
        """
        content = self.content
        own = self.class_names
        is_named = class_names != numbered_names(len(class_names))
        if isinstance(content, Pictures) and own and is_named:
            content = match_classes(content, class_names, len(class_names))
            labels = torch.tensor(content.labels)
            return replace(
                self, content=content, class_names=class_names, labels=labels
            )
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
        if isinstance(content, Items):
            content = replace(content, class_names=class_names)
        return replace(self, content=content, class_names=class_names)

    def take(self, rows: Sequence[int]) -> "Opened":
        """Some of the images, in this order. UserError: they have no index."""
        content = self.content
        if isinstance(content, Arrays):
            chosen = torch.as_tensor(rows)
            content = Arrays(content.images[chosen], content.labels[chosen])
        elif isinstance(content, Pictures | Items):
            content = content.take(rows)
        else:
            raise UserError(
                f"{self.name} decides itself what comes when, so no part of it "
                "can be used alone; give the parts one by one (train=, "
                "validation=, test=), and leave out the fields validation and "
                "max_images"
            )
        labels = None if self.labels is None else self.labels[list(rows)]
        return replace(
            self, content=content, num_images=len(rows), labels=labels
        )

    def spread(self, n: int) -> "Opened":
        """n evenly spaced images, so every class comes up (all, if fewer)."""
        if n >= len(self):
            return self
        return self.take((torch.arange(n) * len(self) // n).tolist())

    def split(self, share: float, seed: int) -> tuple["Opened", "Opened"]:
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
        kept, taken = (
            self.take(chosen.nonzero()[:, 0].tolist())
            for chosen in (~held_out, held_out)
        )
        return kept, taken

    def digest(self) -> str:
        """16 hex digits that change with the data, as far as that is cheap.

        Arrays: their content. Else the kind, the number of images, the classes
        and, where they are known, the labels; files by name and size.
        """
        digest = hashlib.sha256()
        if isinstance(self.content, Arrays):
            digest.update(str(tuple(self.content.images.shape)).encode())
            digest.update(self.content.images.contiguous().numpy().tobytes())
        else:
            digest.update(f"{self.name} {self.num_images}\n".encode())
            digest.update("\n".join(self.class_names).encode())
        if isinstance(self.content, Pictures):
            for stamp in self.content.stamps():
                digest.update(stamp)
        if self.labels is not None:
            digest.update(self.labels.numpy().astype("<i8").tobytes())
        return digest.hexdigest()[:16]

    def source(
        self,
        *,
        preprocess: PreprocessSpec,
        augment: "Augment | PictureChange | None" = None,
        shuffle: bool = False,
        num_workers: int = 0,
        device: torch.device | str = "cpu",
        check_range: bool = True,
    ) -> Source:
        """What feeds a model with these data, as `as_source` says."""
        content, names = self.content, self.classes()
        options: dict[str, Any] = {
            "preprocess": preprocess,
            "augment": augment,
            "shuffle": shuffle,
            "num_workers": num_workers,
            "device": device,
            "check_range": check_range,
        }
        if isinstance(content, Arrays):
            return array_source(content, names, **options)
        if isinstance(content, Items):
            content = replace(content, class_names=names)
        if isinstance(content, Pictures | Items):
            return ImageSource(content, **options)
        if isinstance(content, Source):
            return content
        if not (
            augment is None or (isinstance(augment, Augment) and augment.is_off)
        ):
            raise UserError(
                f"{self.name} augments its images itself, or leaves them as "
                "they are; give a Dataset to have augment applied, or none "
                "(augment=Augment())"
            )
        return LoaderSource(
            content,
            preprocess,
            names,
            num_images=self.num_images,
            device=device,
            check_range=check_range,
        )


def few(names: Sequence[str]) -> str:
    """The first names, for a sentence."""
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
