"""Batches from arrays in the device's memory.

`source = ArraySource(load_dataset("mnist").train, spec, shuffle=True)`
`for images, labels in source.batches(epoch=3, seed=0, batch_size=64): ...`
"""

import torch
from torch import Tensor

from vitedu.data.augment import Augment, apply, augmentation_table, erase
from vitedu.data.dataset import Split
from vitedu.data.feed import floats
from vitedu.data.feed.source import Batches, Feed, Share, epoch_generator
from vitedu.data.labels import check_labels
from vitedu.errors import UserError
from vitedu.pictures import PreprocessSpec, normalise, sent

# Values prepared in one go: small batches share the cost of the calls, and a
# block still fits a processor's cache. On another device calls cost more.
BLOCK_VALUES = 1 << 18
DEVICE_BLOCK_VALUES = 1 << 23


class ArraySource(Feed):
    """Batches from arrays on the device: shuffled, augmented, normalised.

    Float images aren't normalised and can't be augmented; `check_range` refuses
    those that do not look normalised. With `augment=None` nothing is random.
    UserError: the images don't fit `preprocess`, or a label has no class.
    """

    def __init__(
        self,
        split: Split,
        preprocess: PreprocessSpec,
        *,
        augment: Augment | None = None,
        shuffle: bool = False,
        device: str | torch.device = "cpu",
        check_range: bool = True,
    ) -> None:
        images, labels = split.images, split.labels
        assert labels is not None, "arrays come with labels"
        if images.is_floating_point():
            images = floats.as_prepared(images, preprocess)
            if check_range:
                floats.RangeCheck(preprocess).see(images)
        check_size(images, preprocess)
        check_labels("the data", labels, split.num_classes)
        if augment is not None and images.is_floating_point():
            raise floats.not_augmented()
        self.class_names = split.classes()
        self.num_classes = len(self.class_names)
        self.preprocess = preprocess
        self.augment = augment
        self.shuffle = shuffle
        self.images = images.to(device)
        self.labels = labels.to(device)

    def __len__(self) -> int:
        return len(self.labels)

    def _feed(self, epoch: int, seed: int, share: Share) -> Batches:
        n = len(self)
        # for all samples, whatever this process is to see, and on the CPU:
        # reading them back from a device would wait for it
        generator = epoch_generator(seed, epoch)
        order = torch.arange(n)
        if self.shuffle:
            order = torch.randperm(n, generator=generator)
        table = None
        if self.augment is not None:
            table = augmentation_table(self.augment, n, generator)
        size = share.batch_size // share.world
        return self._prepared(share.rows_of(order), table, size)

    def _prepared(
        self, batches: list[Tensor], table: Tensor | None, size: int
    ) -> Batches:
        """Batches of about `size` samples, several of them made at a time."""
        device = self.labels.device
        values = size * self.images[0].numel()
        most = BLOCK_VALUES if device.type == "cpu" else DEVICE_BLOCK_VALUES
        per_block = max(1, most // max(1, values))
        for first in range(0, len(batches), per_block):
            block = batches[first : first + per_block]
            rows = torch.cat(block)
            place = sent(rows, device)
            images = self.images.index_select(0, place)
            labels = self.labels.index_select(0, place)
            if self.augment is not None and table is not None:
                drawn = table.index_select(0, rows)
                images = apply(self.augment, images, drawn)
                images = normalise(images, self.preprocess)
                images = erase(self.augment, images, drawn)
            elif not images.is_floating_point():
                images = normalise(images, self.preprocess)
            sizes = [len(share) for share in block]
            yield from zip(
                images.split(sizes), labels.split(sizes), strict=True
            )


def check_size(images: Tensor, preprocess: PreprocessSpec) -> None:
    channels, *size = images.shape[1:]
    if tuple(size) != preprocess.image_size:
        wanted = "x".join(map(str, preprocess.image_size))
        raise UserError(
            f"the images are {size[0]}x{size[1]}, the model wants {wanted}; "
            f"set model.image_size={size[0]},{size[1]} or take another data set"
        )
    if channels != preprocess.in_channels:
        raise UserError(
            f"the images have in_channels={channels}, the model wants "
            f"{preprocess.in_channels}; "
            f"set model.in_channels={channels} or take another data set"
        )
