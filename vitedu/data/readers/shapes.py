"""The procedural image set `shapes`: coloured figures on textured ground.

images, labels = make_arrays(1000, image_size=64, num_classes=10, seed=0)
images, labels, targets = make_arrays(1000, targets=True)  # masks, boxes, ...

Only the form depends on the class: place, size, angle, colours, ground and
distractors are drawn alike for all. Bytes are equal on every machine: every
draw is a word of `PCG64.random_raw`, and all arithmetic is on integers, but for
a rounded table of sines.

Image i has its own words, so a set begins with every smaller set of the same
seed. Lengths are parts of the image, so a seed shows the same scenes at every
size; only the pixel noise differs.

Test accuracy in percent at 64 pixels and 10 classes (chance is 10) of a linear
model, a small CNN and a small ViT (`benchmarks/shapes_difficulty.py`, recorded
in `vitedu/results/shapes-difficulty.json`, n = 1):

     images   linear      CNN      ViT
      1,000     12.4     16.9     24.8
     10,000     12.8     76.5     45.7
    100,000     11.4     98.8     80.3

Lengths are in 1/64 pixel, angles in 1/720 turn, sines in 1/2^14. Sides end at
1024 pixels because pixels are computed in int32: the largest number there is
twice a squared distance in 1/16 pixel, at most 2 * 25900^2 < 2^31. Numbers per
image, row or column are int64 and stay under 2^48.
"""

import os
from functools import cache, reduce
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy import ndarray as Array

from vitedu.errors import UserError, check_free, reason
from vitedu.fields import Count, OneForAll, Range, converted
from vitedu.files import user_path

MIN_SIZE, MAX_SIZE = 16, 1024
PIXEL, TURN, SINE_BITS = 64, 720, 14

# In the order in which they join as num_classes grows.
FORMS = tuple(
    "disc triangle ring cross square stripes star half_disc hexagon frame "
    "ellipse arrow crescent letter_l letter_t pentagon".split()
)
# Sides, and their distance from the middle in percent of the radius.
POLYGONS = dict(
    triangle=(3, 58), square=(4, 74), pentagon=(5, 73), hexagon=(6, 76)
)

PIXELS_AT_ONCE = 2**17
MIN_CLASSES = 4

WORDS_PER_IMAGE = 256  # 244 are taken, most as lattice points of the clouds
COARSE_CELLS, FINE_CELLS = 4, 12

Side = Annotated[int, Range(MIN_SIZE, MAX_SIZE)]
Sides = Annotated[tuple[Side, Side], OneForAll()]

# Colours start at DARKEST; a figure's differs by MIN_CONTRAST or more in each
# channel.
DARKEST, LEVELS, MIN_CONTRAST = 32, 192, 50
# How far textures change ground and figure at most, in levels.
GROUND, FIGURE = 28, 24
# The figure's circumscribed circle, in 1/1000 of the shorter side.
RADIUS = (220, 370)
# `write_folder` draws val/ from seed + VALIDATION_SEED.
VALIDATION_SEED = 2**32
MOST_FILES = 1_000_000  # whose numbers have six digits


def class_names(num_classes: int = 10) -> tuple[str, ...]:
    """The first `num_classes` of FORMS, sorted. UserError: not 4 to 16."""
    if not MIN_CLASSES <= num_classes <= len(FORMS):
        raise UserError(
            f"shapes has {MIN_CLASSES} to {len(FORMS)} classes, got "
            f"{num_classes}; choose a number in this range"
        )
    return tuple(sorted(FORMS[:num_classes]))


class Targets(NamedTuple):
    """What images show beside the figure's class; places are in pixels."""

    # (b,) int64: the figure, and as many of three distractors as can be seen
    counts: Array
    places: Array  # (b, 2) float32: x and y of the point the figure turns about
    # (b, h, w) bool: the whole figure, also where the thin bar crosses it
    masks: Array
    # (b, 4) int64: xmin, ymin, xmax, ymax of the mask; the last two are beyond
    boxes: Array


def make_arrays(
    num_images: int,
    image_size: int | tuple[int, int] = 64,
    num_classes: int = 10,
    seed: int = 0,
    *,
    start: int = 0,
    targets: bool = False,
) -> tuple[Any, ...]:
    """Draw `num_images` from `start` on: uint8 (b, 3, h, w), int64 (b,).

    `image_size` is one side or (height, width), 16 to 1024 pixels each. Label i
    is i modulo `num_classes`, so classes are balanced: shuffle before training.
    For test images use another seed. With `targets` also `Targets`; the images
    are the same.
    """
    names = class_names(num_classes)
    size = converted("image_size", image_size, Sides)
    num_images = converted("num_images", num_images, Count)
    start = converted("start", start, Annotated[int, Range(0, 10**12)])
    seed = converted("seed", seed, Annotated[int, Range(0)])
    num_bytes = num_images * (3 * size[0] * size[1] + 8)
    check_free(num_bytes, f"{num_images:,} shapes", "make fewer at a time")

    images = np.empty((num_images, 3, *size), np.uint8)
    labels = np.arange(start, start + num_images, dtype=np.int64) % num_classes
    found = []
    # Few enough for the cache, many enough to hide numpy's calls.
    chunk = max(1, PIXELS_AT_ONCE // (size[0] * size[1]))
    for first in range(0, num_images, chunk):
        some = labels[first : first + chunk]
        draws = _Draws(seed, start + first, len(some), size)
        images[first : first + chunk], told = _paint(some, names, draws)
        if targets:
            found.append(told)
    if not targets:
        return images, labels
    columns = map(np.concatenate, zip(*found, strict=True))
    return images, labels, Targets(*columns)


def write_folder(
    folder: str | os.PathLike[str],
    *,
    num_train: int,
    num_val: int,
    image_size: int | tuple[int, int] = 64,
    num_classes: int = 10,
    seed: int = 0,
) -> None:
    """Write JPEGs: `train/<class>/<number>.jpg`, `val/<class>/<number>.jpg`.

    The number, six digits, is the image's index in `make_arrays` with the same
    arguments; val/ has `seed + VALIDATION_SEED`. The bytes of the files depend
    on the JPEG library. A failure leaves nothing behind.
    """
    folder = user_path(folder)
    if os.path.lexists(folder):
        raise UserError(
            f"{folder} exists already; name a new folder or remove it"
        )
    class_names(num_classes)  # says if it is out of range
    counts = Annotated[int, Range(num_classes, MOST_FILES)]
    num_train = converted("num_train", num_train, counts)
    num_val = converted("num_val", num_val, counts)

    # A temporary folder is closed to others; the one inside it has the usual
    # mode.
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(
            prefix=f".{folder.name}-", dir=folder.parent
        ) as holder:
            whole = Path(holder) / "whole"
            arguments = (image_size, num_classes, seed)
            _write_part(whole / "train", num_train, arguments)
            arguments = (image_size, num_classes, seed + VALIDATION_SEED)
            _write_part(whole / "val", num_val, arguments)
            whole.rename(folder)
    except OSError as error:
        raise UserError(
            f"cannot write {folder}: {reason(error)}; name another folder"
        ) from error


def _write_part(folder: Path, total: int, arguments: tuple) -> None:
    from PIL import Image

    names = class_names(arguments[1])
    for number in range(total):
        [image], [label] = make_arrays(1, *arguments, start=number)
        path = folder / names[label] / f"{number:06d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        # Through memory: given a path, pillow misses a write cut short (full
        # disk).
        jpeg, pixels = BytesIO(), image.transpose(1, 2, 0)
        Image.fromarray(pixels).save(jpeg, "JPEG", quality=90)
        path.write_bytes(jpeg.getvalue())


def _paint(
    labels: Array, names: tuple[str, ...], draws: "_Draws"
) -> tuple[Array, Targets]:
    """Images of the classes `labels` (b,): (b, 3, h, w) uint8.

    Back to front: ground, blob, bar, figure, thin bar, pixel noise.
    """
    clouds = draws.clouds()
    waves = draws.waves(clouds)
    ground = draws.levels(DARKEST, DARKEST + LEVELS)
    change = clouds * draws.levels(-GROUND, GROUND + 1)
    canvas = ground + (change + waves * draws.levels(-GROUND, GROUND + 1) >> 7)
    blob, bar = (
        _distract(canvas, draws, longest, broadest)
        for longest, broadest in ((90, 90), (300, 40))
    )

    radius = draws.length(*RADIUS)
    place = draws.place(margin=radius * 85 // 100)
    # Modulo LEVELS, every level is at least MIN_CONTRAST away from the
    # ground's.
    rise = draws.levels(MIN_CONTRAST, LEVELS - MIN_CONTRAST)
    colour = DARKEST + (ground - DARKEST + rise) % LEVELS
    colour = colour + (clouds * draws.levels(-FIGURE, FIGURE + 1) >> 7)
    masks = np.zeros((len(labels), *draws.size), bool)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        edge = outline(names[label], place.rows(rows), radius[rows, :, None])
        canvas[rows] = _cover(canvas[rows], edge, colour[rows])
        masks[rows] = edge < 0

    thin = _distract(canvas, draws, 450, 15)
    canvas += draws.noise()
    images = np.clip(canvas, 0, 255, out=canvas).astype(np.uint8)
    shown = (blob & ~(bar | masks | thin), bar & ~(masks | thin), thin, masks)
    counts = sum(each.any(axis=(1, 2)).astype(np.int64) for each in shown)
    return images, Targets(counts, place.centres(), masks, boxes_of(masks))


def boxes_of(masks: Array) -> Array:
    """Of masks (b, h, w), none of them empty: (b, 4), as in `Targets`."""
    edges = []
    for axis in (1, 2):  # columns, then rows
        used = masks.any(axis=axis)
        edges.append((used.argmax(1), used.shape[1] - used[:, ::-1].argmax(1)))
    (left, right), (top, bottom) = edges
    return np.stack((left, top, right, bottom), axis=1)


def _distract(
    canvas: Array, draws: "_Draws", longest: int, broadest: int
) -> Array:
    """Paint bars (blobs, if both limits are equal) into half of the images.

    Where they are: (b, h, w) bool.
    """
    rows = np.flatnonzero(draws.between(0, 2))
    place = draws.place().rows(rows)
    colour = draws.levels(DARKEST, DARKEST + LEVELS)[rows]
    lengths = [draws.length(limit // 2, limit) for limit in (longest, broadest)]
    half_u, half_v = (
        length[rows, :, None].astype(np.int32) for length in lengths
    )
    u, v = place.along(), place.along(TURN // 4)
    is_blob = longest == broadest
    edge = circle_of(u, v, half_u) if is_blob else box_of(u, v, half_u, half_v)
    canvas[rows] = _cover(canvas[rows], edge, colour)
    where = np.zeros((draws.count, *draws.size), bool)
    where[rows] = edge < 0
    return where


def _cover(canvas: Array, edge: Array, colour: Array) -> Array:
    """Paint `colour` inside of an outline, whose edge is a pixel wide."""
    share = np.clip(PIXEL // 2 - edge, 0, PIXEL).astype(np.int16)[:, None]
    # |differences| * 64 < 2^15
    return canvas + ((colour - canvas) * share >> 6)


class _Draws:
    """The random numbers of `count` images, taken in a fixed order."""

    def __init__(self, seed: int, first: int, count: int, size: tuple):
        self.seed, self.first = seed, first
        self.count, self.size = count, size
        self.words, self.taken = self.stream(0, WORDS_PER_IMAGE), 0

    def stream(self, which: int, each: int) -> Array:
        """`each` words an image from stream `which`: (b, each) uint64."""
        entropy = np.random.SeedSequence(self.seed, spawn_key=(which,))
        words = np.random.PCG64(entropy).advance(self.first * each)
        return words.random_raw((self.count, each))

    def take(self, count: int) -> Array:
        """The next `count` words of every image: (b, count) uint64."""
        self.taken += count
        return self.words[:, self.taken - count : self.taken]

    def between(
        self, low: int | Array, high: int | Array, count: int = 1
    ) -> Array:
        """`count` whole numbers from `low` to `high` - 1: (b, count) int64."""
        # Through int64, since uint64 times int64 is a float; 31 bits times
        # under 2^17.
        return low + (
            (self.take(count) >> 33).astype(np.int64) * (high - low) >> 31
        )

    def length(self, low: int, high: int) -> Array:
        """`low` to `high` thousandths of the shorter side: (b, 1) int64."""
        return self.between(low, high) * min(self.size) * PIXEL // 1000

    def levels(self, low: int, high: int) -> Array:
        """One number in [low, high) per channel: (b, 3, 1, 1) int16."""
        return self.between(low, high, 3).astype(np.int16)[:, :, None, None]

    def place(self, margin: int | Array = 0) -> "Place":
        """Place and angle, `margin` (b, 1) in 1/64 pixel from the border."""
        down, right = (
            np.arange(PIXEL // 2, length * PIXEL, PIXEL, dtype=np.int64)
            - self.between(margin, length * PIXEL - margin)
            for length in self.size
        )
        return Place(right, down, self.between(0, TURN)[:, 0])

    def clouds(self) -> Array:
        """Value noise on two lattices: (b, 1, h, w) int16, -128 to 127."""
        total = 0
        for cells in (COARSE_CELLS, FINE_CELLS):
            levels = (self.take((cells + 1) ** 2) >> 56).astype(np.int32)
            levels = levels.reshape(-1, cells + 1, cells + 1)
            for axis, shape in ((1, (-1, 1)), (2, (1, -1))):
                # Pixel centres in 1/64 cell; levels are linear between lattice
                # points.
                at = np.arange(1, 2 * self.size[axis - 1], 2) * (cells * 32)
                at = at // self.size[axis - 1]
                share = (at & 63).astype(np.int32).reshape(shape)
                low, high = (
                    levels.take((at >> 6) + end, axis) for end in (0, 1)
                )
                levels = low * 64 + (high - low) * share >> 6
            total = total + levels
        return ((total >> 1) - 128).astype(np.int16)[:, None]

    def waves(self, clouds: Array) -> Array:
        """Stripes, bent by `clouds`: (b, 1, h, w) int16, -128 to 128."""
        place, period = self.place(), self.length(60, 400)
        x, y = (side * 512 // period for side in place[:2])
        phase = Place(x, y, place.angle).along()[:, None] + 2 * clouds
        return (np.abs((phase & 511) - 256) - 128).astype(np.int16)

    def noise(self) -> Array:
        """Independent noise: (b, 3, h, w) int16, triangular, -7 to 7."""
        shape = (self.count, 3, *self.size)
        num_bytes = shape[1] * shape[2] * shape[3]
        words = self.stream(1, -(-num_bytes // 8)).astype("<u8")
        noise = words.view(np.uint8)[:, :num_bytes].reshape(shape)
        return ((noise & 7) + (noise >> 5)).astype(np.int16) - 7


class Place(NamedTuple):
    """Pixel centres relative to the figures' centres, one row per image."""

    right: Array  # (b, w) int64, 1/64 pixel
    down: Array  # (b, h) int64, 1/64 pixel
    angle: Array  # (b,) int64, 1/720 turn

    def along(self, turn: int | Array = 0) -> Array:
        """Coordinates along the figure's angle + `turn`: (b, h, w) int32.

        Outer sums of a row and a column, so no pixel is multiplied.
        """
        angle, sine = (self.angle + turn) % TURN, sine_table()
        cosine = sine[(angle + TURN // 4) % TURN, None]
        x = self.right * cosine >> SINE_BITS
        y = self.down * sine[angle, None] >> SINE_BITS
        return x.astype(np.int32)[:, None, :] + y.astype(np.int32)[:, :, None]

    def centres(self) -> Array:
        """(b, 2) float32: x and y in pixels."""
        first = np.stack((self.right[:, 0], self.down[:, 0]), axis=1)
        return ((PIXEL // 2 - first) / PIXEL).astype(np.float32)

    def rows(self, chosen: Array) -> "Place":
        return Place(*(rows[chosen] for rows in self))


def outline(form: str, place: Place, radius: Array) -> Array:
    """Distance of each pixel from an outline: (b, h, w) int32, < 0 inside.

    `radius` is (b, 1, 1); distances are in 1/64 pixel and exact only near the
    outline. Union is the minimum, intersection the maximum, complement a minus.
    Lengths are percentages of the radius; areas are about equal, so that size
    doesn't tell the class.
    """
    radius = radius.astype(np.int32)
    u, v = place.along(), place.along(TURN // 4)

    def part(percent: int) -> Array:
        return radius * percent // 100

    def circle(percent: int, at_u: int = 0) -> Array:
        return circle_of(u - part(at_u), v, part(percent))

    def box(half_u: int, half_v: int, at_u: int = 0, at_v: int = 0) -> Array:
        return box_of(
            u - part(at_u), v - part(at_v), part(half_u), part(half_v)
        )

    def polygon(num_sides: int, apothem: int) -> Array:
        sides = (
            place.along(side * TURN // num_sides) for side in range(num_sides)
        )
        return reduce(np.maximum, sides) - part(apothem)

    if form in POLYGONS:
        return polygon(*POLYGONS[form])
    match form:
        case "disc":
            return circle(82)
        case "ring":
            return np.maximum(circle(95), -circle(55))
        case "cross":
            return np.minimum(box(97, 30), box(30, 97))
        case "stripes":
            return reduce(
                np.minimum, (box(88, 20, at_v=at) for at in (-68, 0, 68))
            )
        case "star":
            # outside at most one of the lines that join every second point
            lines = np.stack(
                [place.along(side * TURN // 5) for side in range(5)]
            )
            return np.partition(lines, 3, axis=0)[3] - part(37)
        case "half_disc":
            return np.maximum(circle(105, at_u=-45), -u - part(45))
        case "frame":  # a square ring
            return np.maximum(polygon(4, 84), -polygon(4, 48))
        case "ellipse":
            return circle_of(u // 2, v, part(54))
        case "arrow":
            slopes = np.maximum(place.along(TURN // 8), place.along(-TURN // 8))
            head = np.maximum(slopes - part(74), -u)
            return np.minimum(head, box(60, 22, at_u=-45))
        case "crescent":
            return np.maximum(circle(100, at_u=-15), -circle(82, at_u=40))
        case "letter_l":
            return np.minimum(box(95, 25, at_v=-37), box(25, 62, at_u=-70))
        case "letter_t":
            return np.minimum(box(24, 90, at_u=60), box(80, 24, at_u=-10))
    raise ValueError(f"no form {form!r}")


def circle_of(u: Array, v: Array, radius: Array) -> Array:
    """(|p|^2 - r^2) / 2r, which is |p| - r to first order."""
    u, v, radius = u >> 2, v >> 2, np.maximum(radius >> 2, 1)  # 1/16 pixel
    return (u * u + v * v - radius * radius) * 2 // radius


def box_of(u: Array, v: Array, half_u: Array, half_v: Array) -> Array:
    """max(|u| - half_u, |v| - half_v): the distance, but for the corners."""
    return np.maximum(np.abs(u) - half_u, np.abs(v) - half_v)


@cache
def sine_table() -> Array:
    """sin(2 pi k / TURN) in 1/2^14 for k = 0 … TURN - 1, rounded: (720,) int64.

    None is nearer than 0.0004 to a half, so every machine rounds alike.
    """
    sines = np.sin(np.arange(TURN) * (2 * np.pi / TURN))
    return np.rint(sines * 2**SINE_BITS).astype(np.int64)
