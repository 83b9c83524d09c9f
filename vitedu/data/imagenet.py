"""ImageNet-1k's 1,000 classes: their names, and the codes that folders bear."""

from functools import cache
from typing import NamedTuple

from vitedu.compat import import_timm


class ImageNetClasses(NamedTuple):
    """By class index: "tench", and WordNet's "n01440764"."""

    names: tuple[str, ...]
    codes: tuple[str, ...]


@cache
def imagenet_classes() -> ImageNetClasses:
    """As timm lists them, in the order of the codes; a name's first synonym."""
    import_timm()
    from timm.data import ImageNetInfo

    info = ImageNetInfo("imagenet-1k")
    indices = range(info.num_classes())
    return ImageNetClasses(
        tuple(info.index_to_description(i).split(",")[0] for i in indices),
        tuple(info.index_to_label_name(i) for i in indices),
    )
