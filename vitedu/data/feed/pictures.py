"""Batches of pictures: decoded and cropped on workers, the rest on the device.

`source = ImageSource(find_images("photos/val"), spec, num_workers=2)`
`for images, labels in source.batches(batch_size=64): ...`
"""

import math
import signal
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from vitedu.data.augment.augment import (
    BOX,
    Augment,
    apply,
    draws,
    erase,
    table_from,
)
from vitedu.data.dataset import Reader, Split
from vitedu.data.feed import floats
from vitedu.data.feed.source import (
    Batches,
    Draws,
    Feed,
    Share,
    epoch_generator,
    explain_killed_workers,
    seed_from,
)
from vitedu.errors import UserError
from vitedu.pictures import (
    Picture,
    PreprocessSpec,
    as_image,
    as_pixels,
    channels_last,
    converted,
    header,
    is_encoded,
    is_prepared,
    name_of,
    normalise,
    read_image,
    reading,
    resized,
    turned,
)

if TYPE_CHECKING:
    from PIL.Image import Image

# from a picture to another, before it is resized
PictureChange: TypeAlias = Callable[["Image"], Any]
# Images (b, c, h, w), labels (b,), rows of the augmentation table (b, columns).
AugmentedBatch: TypeAlias = tuple[Tensor, Tensor, Tensor]

WINDOW = 16  # shards that are read side by side
AT_ONCE = 16  # pictures that are open side by side


class ImageSource(Feed):
    """Pictures decoded on workers, ready for a model with this `preprocess`.

    Without `augment` pictures are prepared as for evaluation. With an `Augment`
    the worker cuts the crop (of a JPEG decoded only as finely as it needs), and
    the device does the rest to the whole batch. A function instead
    (torchvision's `TrivialAugmentWide()`, say) gets the full-size pillow
    picture, and its result is prepared. Random draws of that function or of the
    data set depend only on (seed, epoch, sample), not on the batch, the workers
    or a resume.

    Float tensors are neither resized nor normalised; `check_range` refuses
    those that do not look normalised. `num_workers` processes decode (0: this
    one does).
    """

    def __init__(
        self,
        pictures: Split,
        preprocess: PreprocessSpec,
        *,
        augment: Augment | PictureChange | None = None,
        shuffle: bool = False,
        num_workers: int = 0,
        device: torch.device | str = "cpu",
        check_range: bool = True,
    ) -> None:
        assert isinstance(pictures.reader, Reader)
        self.pictures = pictures
        self.class_names = pictures.class_names
        self.num_classes = pictures.num_classes
        self.reader = pictures.reader
        self.preprocess = preprocess
        self.augment = augment
        self.shuffle = shuffle
        self.num_workers = num_workers
        self.device = torch.device(device)
        self.check_range = check_range

    def __len__(self) -> int:
        return len(self.pictures)

    def _feed(self, epoch: int, seed: int, share: Share) -> Batches:
        order = torch.arange(len(self))
        if self.shuffle:
            generator = epoch_generator(seed, epoch)
            shard_of = self.reader.shard_of
            if shard_of is None:
                order = torch.randperm(len(self), generator=generator)
            else:
                rows = self.pictures.rows
                shard_of = shard_of if rows is None else shard_of[rows]
                order = windowed(shard_of, WINDOW, generator)
        return self._batches(Epoch(self, epoch, seed), share.rows_of(order))

    def _batches(self, epoch: "Epoch", batches: list[Tensor]) -> Batches:
        loader: torch.utils.data.DataLoader[Any] = torch.utils.data.DataLoader(
            epoch,
            sampler=[rows.tolist() for rows in batches],
            batch_size=None,  # an index is a whole batch
            num_workers=self.num_workers,
            pin_memory=self.device.type == "cuda",
            worker_init_fn=follow_the_parent,
            generator=torch.Generator(),  # leaves the global one alone
        )
        check: floats.RangeCheck | None = None
        with explain_killed_workers():
            for batch in loader:
                if isinstance(batch, UserError):
                    raise batch
                images, labels, rows = batch
                is_pixels = images.dtype == torch.uint8
                if not is_pixels and self.check_range:
                    check = check or floats.RangeCheck(self.preprocess)
                    check.see(images)
                images = images.to(self.device, non_blocking=True)
                if isinstance(self.augment, Augment):
                    images = apply(self.augment, images, rows, is_cropped=True)
                if is_pixels:
                    images = normalise(images, self.preprocess)
                if isinstance(self.augment, Augment):
                    images = erase(self.augment, images, rows)
                yield images, labels.to(self.device, non_blocking=True)


def follow_the_parent(worker: int) -> None:
    """Leave Ctrl-C to the parent, with which torch's watchdog ends a worker."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    # pillow warns about files that it can read
    warnings.filterwarnings("ignore", module="PIL")


class Epoch(torch.utils.data.Dataset[Any]):
    def __init__(self, source: ImageSource, epoch: int, seed: int) -> None:
        self.source = source
        self.epoch = epoch
        self.seed = seed

    def __getitem__(self, indices: Sequence[int]) -> AugmentedBatch | UserError:
        """A batch, or its UserError, to which torch would add a traceback."""
        augment = self.source.augment
        try:
            if isinstance(augment, Augment):
                return self.cropped(indices, augment)
            return self.prepared(indices, augment)
        except UserError as error:
            return error

    def cropped(
        self, indices: Sequence[int], augment: Augment
    ) -> AugmentedBatch:
        spec, source = self.source.preprocess, self.source.pictures
        # foreign code may reuse the memory or file of a picture for the next
        at_once = 1 if self.source.reader.is_foreign else AT_ONCE
        images, labels = [self.nothing()], []
        rows = [torch.empty(0, augment.num_columns)]
        for first in range(0, len(indices), at_once):
            part = indices[first : first + at_once]
            pictures = []
            for index in part:
                with self.seeded(index):
                    picture, label = source[index]
                if is_prepared(picture):
                    raise floats.not_augmented()
                pictures.append(picture)
                labels.append(label)
            seeds = [seed_from(self.seed, self.epoch, index) for index in part]
            cut, drawn = cropped_pixels(pictures, spec, augment, seeds)
            images.append(cut)
            rows.append(drawn)
        return (
            torch.cat(images),
            torch.tensor(labels, dtype=torch.int64),
            torch.cat(rows),
        )

    def prepared(
        self, indices: Sequence[int], change: PictureChange | None
    ) -> AugmentedBatch:
        spec, source = self.source.preprocess, self.source.pictures
        images, labels = [], []
        for index in indices:
            with self.seeded(index):
                picture, label = source[index]
                if change is not None:
                    if is_prepared(picture):
                        raise floats.not_augmented()
                    picture = change(
                        as_image(picture, spec.in_channels, spec.orientation)
                    )
            images.append(
                floats.as_prepared(picture, spec)
                if is_prepared(picture)
                else read_image(picture, spec)
            )
            labels.append(label)
        if len({each.dtype for each in images}) > 1:
            raise UserError(
                "the data set mixes float tensors and pictures; return one kind"
            )
        return (
            torch.stack(images) if images else self.nothing(),
            torch.tensor(labels, dtype=torch.int64),
            torch.empty(len(labels), 0),
        )

    def nothing(self) -> Tensor:
        """An empty batch, which a process may get at the end of an epoch."""
        spec = self.source.preprocess
        shape = 0, spec.in_channels, *spec.image_size
        return torch.empty(shape, dtype=torch.uint8)

    def seeded(self, index: int) -> AbstractContextManager[None]:
        augment = self.source.augment
        is_ours = augment is None or isinstance(augment, Augment)
        if is_ours and not self.source.reader.is_foreign:
            return nullcontext()
        return Draws(self.seed, self.epoch, index, 1)


def windowed(
    shard_of: Tensor, window: int, generator: torch.Generator
) -> Tensor:
    """An order for samples in shards (n,): shuffled within windows of shards.

    Shards come in a random order, and the samples of `window` of them are
    mixed, so a disk is read nearly from front to back. With at most `window`
    shards every order is equally likely.
    """
    shards, number_of = torch.unique(shard_of, return_inverse=True)
    turn = torch.randperm(len(shards), generator=generator)
    window_of = turn[number_of] // window
    order = torch.randperm(len(shard_of), generator=generator)
    return order[window_of[order].argsort(stable=True)]


def cropped_pixels(
    pictures: Sequence[Picture],
    spec: PreprocessSpec,
    augment: Augment,
    seeds: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """Pictures cropped to uint8 (n, c, h, w), and their table rows.

    A picture's seed decides its row, with which `apply(..., is_cropped=True)`
    goes on. Without a crop, pictures are resized as for evaluation. All files
    are open at the same time.
    UserError: a file that is missing, damaged or no picture.
    """
    generator = torch.Generator()
    uniform = [draws(augment, 1, generator.manual_seed(seed)) for seed in seeds]
    height, width = spec.image_size
    pixels = []
    with undecoded(pictures, spec) as images:
        # relative to the result's
        sizes = [turned(x.size, x, spec.orientation) for x in images]
        aspects = [w * height / (h * width) for w, h in sizes]
        rows = table_from(
            augment,
            torch.cat(uniform),
            torch.tensor(aspects, dtype=torch.float64),
        )
        for picture, box in zip(pictures, rows[:, BOX].tolist(), strict=True):
            # closed and forgotten one by one, to free their memory
            with images.popleft() as image:
                with reading(name_of(picture)):
                    if augment.crop:
                        make_coarse(image, spec, box)
                    image = converted(image, spec.in_channels, spec.orientation)
                pixels.append(
                    cut(image, spec, box)
                    if augment.crop
                    else as_pixels(resized(image, spec))
                )
    return torch.stack(pixels), rows


@contextmanager
def undecoded(
    pictures: Sequence[Picture], spec: PreprocessSpec
) -> Iterator[deque["Image"]]:
    """Open all pictures, of files only the header; close those you remove."""
    images: deque[Image] = deque()
    try:
        for picture in pictures:
            images.append(
                header(picture)
                if is_encoded(picture)
                else as_image(picture, spec.in_channels, spec.orientation)
            )
        yield images
    finally:
        for image in images:
            with image:
                pass


def make_coarse(
    image: "Image", spec: PreprocessSpec, box: Sequence[float]
) -> None:
    """Have a JPEG decoded at 1/2, 1/4 or 1/8, its box not below the result."""
    height, width = spec.image_size
    _, _, box_height, box_width = box
    size = math.ceil(width / box_width), math.ceil(height / box_height)
    image.draft(None, turned(size, image, spec.orientation))


def cut(image: "Image", spec: PreprocessSpec, box: Sequence[float]) -> Tensor:
    """Cut out a box (centre, size) and resize it: (c, h, w) uint8."""
    centre_y, centre_x, box_height, box_width = box
    top, bottom = edges(centre_y, box_height, image.height)
    left, right = edges(centre_x, box_width, image.width)
    pixels = channels_last(image.crop((left, top, right, bottom)))
    if pixels.shape[1:] == spec.image_size:
        return pixels
    [pixels] = F.interpolate(
        pixels[None], spec.image_size, mode=spec.interpolation, antialias=True
    )
    return pixels


def edges(centre: float, size: float, length: int) -> tuple[int, int]:
    """A box's first pixel along one side, and the one after its last."""
    first = min(round((1 + centre - size) / 2 * length), length - 1)
    last = round((1 + centre + size) / 2 * length)
    return max(first, 0), min(max(last, first + 1), length)
