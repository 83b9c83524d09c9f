"""Ready-made batches, such as a DataLoader's, as a source.

`source = as_source(DataLoader(dataset, batch_size=64), preprocess=spec)`
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from vitedu.data.dataset import Split
from vitedu.data.feed import source
from vitedu.data.feed.floats import RangeCheck, as_prepared
from vitedu.data.labels import check_labels, whole_labels
from vitedu.data.readers.arrays import is_pair
from vitedu.data.readers.torch_dataset import is_hugging_face, pair_of
from vitedu.errors import UserError, counted
from vitedu.pictures import (
    PreprocessSpec,
    is_prepared,
    normalise,
    read_image,
)


class LoaderSource(source.Feed):
    """Ready-made batches, cut to the size that the run wants.

    Order, augmentation and file reading are the loader's. Before each epoch
    torch, numpy, random and the loader's generators are seeded by (seed,
    epoch), and `sampler.set_epoch` is called; so an epoch can be repeated, and
    a resumed run skips what it has seen. Images are prepared floats, which
    `check_range` refuses if they don't look so, or uint8 (b, c, h, w), which
    are resized and normalised. `num_images` is the number in an epoch.

    UserError: the loader's workers, and their random state, outlive an epoch.
    """

    def __init__(
        self,
        loader: Iterable[Any],
        preprocess: PreprocessSpec,
        class_names: tuple[str, ...],
        *,
        num_images: int,
        device: torch.device | str = "cpu",
        check_range: bool = True,
    ) -> None:
        if getattr(loader, "persistent_workers", False):
            raise UserError(
                f"the {type(loader).__name__} has persistent_workers=True, so "
                "what its workers draw in an epoch would depend on the epochs "
                "before, and a run that is resumed would differ; give it "
                "persistent_workers=False"
            )
        self.loader = loader
        self.preprocess = preprocess
        self.class_names = class_names
        self.num_classes = len(class_names)
        self.num_images = num_images
        self.device = torch.device(device)
        self.check_range = check_range

    def __len__(self) -> int:
        return self.num_images

    def _feed(
        self, epoch: int, seed: int, share: source.Share
    ) -> source.Batches:
        """Reads what comes before the start too, in every process."""
        rows = slice(share.rank, None, share.world)
        cut = _cut(self._read(epoch, seed), share.batch_size)
        return (
            (
                images[rows].to(self.device, non_blocking=True),
                labels[rows].to(self.device, non_blocking=True),
            )
            for images, labels in islice(cut, share.start, None)
        )

    def _read(self, epoch: int, seed: int) -> source.Batches:
        spec, num_seen = self.preprocess, 0
        check = RangeCheck(spec) if self.check_range else None
        for number, batch in enumerate(self._drawn(epoch, seed)):
            where = f"batch {number}"
            images, labels = read_batch(batch, spec, where, check)
            check_labels(where, labels, self.num_classes)
            num_seen += len(labels)
            if num_seen > self.num_images:
                break
            yield as_prepared(images, spec), labels
        if num_seen != self.num_images:
            found = str(num_seen)
            if num_seen > self.num_images:
                found = f"more than {self.num_images}"
            raise UserError(
                f"the {type(self.loader).__name__} gave {found} images "
                f"in epoch {epoch}, but {self.num_images} were expected; every "
                "epoch must have as many"
            )

    def _drawn(self, epoch: int, seed: int) -> Iterator[Any]:
        sampler: Any = getattr(self.loader, "sampler", None)
        batch_sampler: Any = getattr(self.loader, "batch_sampler", None)
        for part in (self.loader, sampler, batch_sampler):
            generator = getattr(part, "generator", None)
            if isinstance(generator, torch.Generator):
                generator.manual_seed(source.seed_from(seed, epoch))
            if hasattr(part, "set_epoch") and part is not self.loader:
                part.set_epoch(epoch)
        draws = source.Draws(seed, epoch)
        with draws:
            iterator = iter(self.loader)
        while True:
            with draws, source.explain_killed_workers():
                batch = next(iterator, None)
            if batch is None:
                return
            yield batch


def _cut(batches: source.Batches, batch_size: int) -> source.Batches:
    waiting: list[tuple[Tensor, Tensor]] = []
    num_waiting = 0
    for batch in batches:
        waiting.append(batch)
        num_waiting += len(batch[1])
        if num_waiting >= batch_size:
            images, labels = map(torch.cat, zip(*waiting, strict=True))
            whole = num_waiting - num_waiting % batch_size
            yield from zip(
                images[:whole].split(batch_size),
                labels[:whole].split(batch_size),
                strict=True,
            )
            waiting = [(images[whole:], labels[whole:])]
            num_waiting -= whole
    if num_waiting:
        images, labels = map(torch.cat, zip(*waiting, strict=True))
        yield images, labels


def yields_batches(data: Any) -> bool:
    """Whether iterating `data` gives batches rather than single pictures.

    True for a DataLoader, an iterator, an iterable without an index, and a list
    of pairs (images, labels), each an array or list.
    """
    if isinstance(data, DataLoader) or hasattr(data, "__next__"):
        return True
    if isinstance(data, Split | source.Source | IterableDataset):
        return False
    if is_pair(data) or is_hugging_face(data):
        return False
    if not isinstance(data, list | tuple):
        return hasattr(data, "__iter__") and not hasattr(data, "__getitem__")
    if not data:
        return True
    images, labels = pair_of(data[0], f"{type(data).__name__}[0]")
    is_array = isinstance(labels, np.ndarray | Tensor) and labels.ndim > 0
    return isinstance(images, np.ndarray | Tensor) and (
        is_array or isinstance(labels, list | tuple)
    )


def read_batch(
    batch: Any,
    spec: PreprocessSpec | None,
    where: str,
    check: RangeCheck | None = None,
) -> tuple[Tensor, Tensor]:
    """The images (b, c, h, w) of a batch as floats, and its labels (b,) int64.

    uint8 is resized and normalised by `spec`; floats stay as they are, after
    `check` has seen their range. Without a `spec` any images will do.
    UserError: the batch has another form; `where` names it.
    """
    images, labels = pair_of(batch, where)
    images, labels = torch.as_tensor(images), whole_labels(labels, where)
    is_shaped = images.ndim == 4 if spec else images.ndim > 0
    if not is_shaped or len(images) != len(labels):
        raise UserError(
            f"{where} has images of shape {tuple(images.shape)} and "
            f"{counted(len(labels), 'label')}; images are (b, c, h, w), with a "
            "label for each"
        )
    if spec is None:
        return images, labels
    if is_prepared(images):
        if check:
            check.see(images)
        return images, labels
    if images.dtype != torch.uint8:
        raise UserError(
            f"{where} has images of {images.dtype}; they are uint8, or floats "
            "that are prepared already"
        )
    wanted = (spec.in_channels, *spec.image_size)
    if len(images) and images.shape[1:] != wanted:
        rows = [image.permute(1, 2, 0).cpu().numpy() for image in images]
        images = torch.stack([read_image(row, spec) for row in rows])
    return normalise(images, spec), labels
