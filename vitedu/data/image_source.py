"""Pictures as a source of batches: decoded, augmented and collated on workers.

`pictures = find_images("photos/val")`
`source = ImageSource(pictures, model.preprocess, num_workers=2)`
`for images, labels in source.batches(batch_size=64): ...`
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from vitedu.data.augment import Augment, erase
from vitedu.data.images import Pictures
from vitedu.data.items import Items
from vitedu.data.order import (
    batch_rows,
    check_batches,
    epoch_generator,
    mixed,
    windowed,
)
from vitedu.data.prepared import (
    RangeCheck,
    as_prepared,
    check_not_prepared,
    is_prepared,
)
from vitedu.data.randomness import Draws
from vitedu.data.shards import Shards
from vitedu.data.workers import explain_killed_workers, follow_the_parent
from vitedu.decode import as_image
from vitedu.errors import UserError
from vitedu.pictures import PreprocessSpec, normalise, read_image

if TYPE_CHECKING:
    from PIL.Image import Image

    PictureChange = Callable[[Image], Any]


WINDOW = 16  # shards that are read side by side


class ImageSource:
    """Pictures decoded on workers, ready for a model with this `preprocess`.

    Those of a folder are the ones that could be read when `find_images` opened
    it; `pictures.skipped` names the others.

    Without `augment` each is prepared as for evaluation. With an `Augment` it
    is changed by pillow on the worker, as `vitedu.data.transforms` says. A
    function in its place (torchvision's `TrivialAugmentWide()`, say) gets the
    pillow picture in its full size and returns what is then prepared. What that
    function or the data set itself draws at random depends on (seed, epoch,
    sample) alone, and not on the batch, the workers or where a run was resumed.

    An item whose picture is a tensor of floats is fed as it is, neither resized
    nor normalised.
    """

    def __init__(
        self,
        pictures: Pictures | Items,
        preprocess: PreprocessSpec,
        *,
        augment: "Augment | PictureChange | None" = None,
        shuffle: bool = False,
        num_workers: int = 0,
        device: torch.device | str = "cpu",
        check_range: bool = True,
    ) -> None:
        """`num_workers` processes decode; 0: this process does.

        `check_range`: floats that do not look normalised are refused.
        """
        if isinstance(augment, Augment) and augment.is_off:
            augment = None
        self.pictures = pictures
        self.preprocess = preprocess
        self.augment = augment
        self.shuffle = shuffle
        self.num_workers = num_workers
        self.device = torch.device(device)
        self.check_range = check_range

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names by index; empty where the data have indices alone."""
        return self.pictures.class_names

    @property
    def num_classes(self) -> int:
        """One more than the largest label, or as many as there are names."""
        return self.pictures.num_classes

    def __len__(self) -> int:
        """The number of pictures."""
        return len(self.pictures)

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
        """One epoch on the device: (b, c, h, w) float32, labels (b,) int64.

        Order, `start`, `rank` and `world` as in `ArraySource.batches`; shards
        are shuffled WINDOW at a time, so that a disk reads them in large parts.
        UserError: a picture cannot be decoded, or no longer can; leaving it out
        now would change what is measured.
        """
        check_batches(batch_size, start, rank, world)
        order = torch.arange(len(self))
        if self.shuffle:
            generator = epoch_generator(seed, epoch)
            if isinstance(self.pictures, Shards):
                shard_of = self.pictures.places[:, 0]
                order = windowed(shard_of, WINDOW, generator)
            else:
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
            worker_init_fn=follow_the_parent,
            generator=torch.Generator(),  # leaves the global one alone
        )
        check = RangeCheck(self.preprocess, "the pictures")
        with explain_killed_workers():
            for batch in loader:
                if isinstance(batch, UserError):
                    raise batch
                pixels, labels, drawn = batch
                images = pixels.to(self.device, non_blocking=True)
                if pixels.dtype == torch.uint8:
                    images = normalise(images, self.preprocess)
                elif self.check_range:
                    check.see(pixels)
                if isinstance(self.augment, Augment):
                    images = erase(self.augment, images, drawn)
                yield images, labels.to(self.device, non_blocking=True)


class Epoch(torch.utils.data.Dataset[Any]):
    """The pictures of a source as they are in one epoch: what workers get."""

    def __init__(self, source: ImageSource, epoch: int, seed: int) -> None:
        self.source = source
        self.epoch = epoch
        self.seed = seed

    def __getitem__(self, index: int) -> tuple[Tensor, int, Tensor] | UserError:
        """Pixels uint8 (c, h, w), label, what was drawn; or what went wrong.

        The UserError is returned: raised on a worker it would become a page of
        traceback.
        """
        source = self.source
        numbers = self.seed, self.epoch, index
        try:
            if isinstance(source.pictures, Pictures) and (
                source.augment is None or isinstance(source.augment, Augment)
            ):
                return self.read(index, mixed(*numbers))
            # code of others, which may draw as it likes
            with Draws(*numbers, 1).in_force():
                return self.read(index, mixed(*numbers))
        except UserError as error:
            return error

    def read(self, index: int, seed: int) -> tuple[Tensor, int, Tensor]:
        """One picture, changed by draws from `seed`."""
        source = self.source
        spec, augment = source.preprocess, source.augment
        picture, label = source.pictures[index]
        if augment is not None:
            check_not_prepared(picture)
        if augment is not None and not isinstance(augment, Augment):
            picture = augment(as_image(picture, spec.in_channels))
        if is_prepared(picture):
            return as_prepared(picture, spec), label, torch.empty(0)
        if not isinstance(augment, Augment):
            return read_image(picture, spec), label, torch.empty(0)
        # here, so that pillow is loaded only where pictures are read
        from vitedu.data.transforms import training_pixels

        generator = torch.Generator().manual_seed(seed)
        pixels, drawn = training_pixels(picture, spec, augment, generator)
        return pixels, label, drawn

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
            width = augment.num_columns if isinstance(augment, Augment) else 0
            return (
                pixels,
                torch.empty(0, dtype=torch.int64),
                torch.empty(0, width),
            )
        pixels, labels, drawn = zip(*items, strict=True)
        if len({each.dtype for each in pixels}) > 1:
            return UserError(
                "the data set mixes float tensors and pictures; return one kind"
            )
        return torch.stack(pixels), torch.tensor(labels), torch.stack(drawn)
