"""ImageNet's class names, and the codes that its folders are named by.

`imagenet_classes().names[285]` is "Egyptian cat".

The 1,000 of ImageNet-1k are in a file beside this module, a code and a name per
line: WordNet's, sorted by code, first synonym only, as in timm 1.0.31. The
21,843 of ImageNet-21k, in the order of Google's checkpoints, are read from
timm, whose import takes seconds.
"""

from functools import cache
from importlib import resources
from typing import NamedTuple

from vitedu.compat import import_timm

# a file of weights may say this instead of listing all the names
IMAGENET_1K = "imagenet-1k"
NUM_1K, NUM_21K = 1_000, 21_843


class ImageNetClasses(NamedTuple):
    """By class index: "tench", and WordNet's "n01440764"."""

    names: tuple[str, ...]
    codes: tuple[str, ...]


@cache
def imagenet_classes() -> ImageNetClasses:
    """The 1,000 of ImageNet-1k.

    Two names occur twice: "crane" (bird, machine), "maillot" (two swimsuits).
    """
    file = resources.files("vitedu.data") / f"{IMAGENET_1K}.txt"
    lines = file.read_text(encoding="utf-8").splitlines()
    codes, names = zip(*(line.split("\t") for line in lines), strict=True)
    return ImageNetClasses(names, codes)


def classes_of(num_classes: int) -> ImageNetClasses | None:
    """ImageNet-1k's or -21k's classes, whichever are that many; or None."""
    if num_classes == NUM_1K:
        return imagenet_classes()
    return imagenet_21k_classes() if num_classes == NUM_21K else None


def assumed_names(
    num_classes: int,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Class names for a head of this size, and a note that they are assumed."""
    classes = classes_of(num_classes)
    if classes is None:
        return (), ()
    which = "1k" if num_classes == NUM_1K else "21k"
    note = (
        f"its {num_classes:,} classes have no names, so they are taken to be "
        f"ImageNet-{which}'s"
    )
    return classes.names, (note,)


@cache
def imagenet_21k_classes() -> ImageNetClasses:
    """The 21,843 of ImageNet-21k (autumn 2011), as in Google's checkpoints."""
    import_timm()
    from timm.data import ImageNetInfo

    info = ImageNetInfo("imagenet-21k-goog")
    indices = range(info.num_classes())
    return ImageNetClasses(
        tuple(info.index_to_description(i).split(",")[0] for i in indices),
        tuple(info.index_to_label_name(i) for i in indices),
    )
