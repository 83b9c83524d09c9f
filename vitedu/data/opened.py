"""Data that a caller gave, known as far as it takes to count, to part and to feed them.

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
from vitedu.data.images import Pictures, match_classes
from vitedu.data.items import Items, check_labels, numbers
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
    """Data as they were given, read as far as it takes to know what they are."""

    name: str
    content: Any  # a Source, Arrays, Pictures, Items, or what yields batches
    num_images: int
    class_names: tuple[str, ...]  # empty: the data do not name them
    labels: Tensor | None  # (n,) int64; None: only reading tells

    @property
    def knows_classes(self) -> bool:
        """Whether `classes` can be told."""
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
                f"{self.name} does not say how many classes it has; give num_classes= "
                "or class_names= to vitedu.data.as_source or from_torch, or a data set "
                "with the attribute classes or targets"
            )
        return numbers(int(self.labels.max()) + 1)

    def called(self, class_names: tuple[str, ...]) -> "Opened":
        """The same data with labels that mean `class_names`, in this order.

        Folders are matched by name; where one side has numbers for names, only their
        count is compared. UserError: the data have other classes.
        """
        content = self.content
        own = self.class_names
        is_named = class_names != numbers(len(class_names))
        if isinstance(content, Pictures) and own and is_named:
            content = match_classes(content, class_names, len(class_names))
            labels = torch.tensor(content.labels)
            return replace(
                self, content=content, class_names=class_names, labels=labels
            )
        if is_named and own not in ((), class_names, numbers(len(own))):
            raise UserError(
                f"{self.name} has the classes {few(own)}, but {few(class_names)} are "
                "wanted, in this order"
            )
        if len(own) > len(class_names):
            raise UserError(
                f"{self.name} has {len(own)} classes, but there are "
                f"{len(class_names)}: {few(class_names)}"
            )
        check_labels(self.name, self.labels, class_names)
        if isinstance(content, Items):
            content = replace(content, class_names=class_names)
        return replace(self, content=content, class_names=class_names)

    def take(self, rows: Sequence[int]) -> "Opened":
        """Some of the images alone, in this order. UserError: they have no index."""
        content = self.content
        if isinstance(content, Arrays):
            chosen = torch.as_tensor(rows)
            content = Arrays(content.images[chosen], content.labels[chosen])
        elif isinstance(content, Pictures | Items):
            content = content.take(rows)
        else:
            raise UserError(
                f"of {self.name} no part can be taken, since it decides itself what "
                "comes when; give the parts (train, validation, test) one by one, and "
                "leave validation= and max_images= out"
            )
        labels = None if self.labels is None else self.labels[list(rows)]
        return replace(
            self, content=content, num_images=len(rows), labels=labels
        )

    def spread(self, n: int) -> "Opened":
        """n images at even distances, so that every class is met (all, if fewer)."""
        if n >= len(self):
            return self
        return self.take((torch.arange(n) * len(self) // n).tolist())

    def split(self, share: float, seed: int) -> tuple["Opened", "Opened"]:
        """Hold out a share of every class, drawn by `seed`: (kept, held out).

        UserError: the labels are not known, or a part would be empty.
        """
        if self.labels is None:
            raise UserError(
                f"no share of each class of {self.name} can be held out, since only "
                "reading it tells the labels; give the parts one by one, "
                "train=, validation= and test="
            )
        held_out = hold_out(self.labels, share, seed)
        kept, taken = (
            self.take(chosen.nonzero()[:, 0].tolist())
            for chosen in (~held_out, held_out)
        )
        return kept, taken

    def digest(self) -> str:
        """16 hex digits that change with the data, as far as that is cheap.

        Arrays: their content. Else the kind, the number of images, the classes and,
        where they are known, the labels; files by name and size.
        """
        digest = hashlib.sha256()
        if isinstance(self.content, Arrays):
            digest.update(str(tuple(self.content.images.shape)).encode())
            digest.update(self.content.images.contiguous().numpy().tobytes())
        else:
            digest.update(f"{self.name} {self.num_images}\n".encode())
            digest.update("\n".join(self.class_names).encode())
        if isinstance(self.content, Pictures):
            for path in self.content.paths:
                place = f"{path.parent.name}/{path.name}"
                digest.update(f"{place} {path.stat().st_size}\n".encode())
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
        if isinstance(content, Arrays):
            return array_source(
                content,
                names,
                preprocess=preprocess,
                augment=augment,
                shuffle=shuffle,
                num_workers=num_workers,
                device=device,
                check_range=check_range,
            )
        if isinstance(content, Items):
            content = replace(content, class_names=names)
        if isinstance(content, Pictures | Items):
            return ImageSource(
                content,
                preprocess,
                augment=augment,
                shuffle=shuffle,
                num_workers=num_workers,
                device=device,
                check_range=check_range,
            )
        if isinstance(content, Source):
            return content
        if not (
            augment is None or (isinstance(augment, Augment) and augment.is_off)
        ):
            raise UserError(
                f"{self.name} augments its images itself, or leaves them as they are; "
                "give a Dataset to have augment applied, or none "
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
