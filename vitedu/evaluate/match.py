"""Which class of a model a folder of pictures means.

`pictures = match_folders(pictures, model.class_names, model.num_classes)`
"""

from collections.abc import Sequence
from dataclasses import replace

from vitedu.data.imagenet import NUM_1K, imagenet_classes
from vitedu.data.images import Pictures, match_classes

# of ImageNet's names, in the same places: spellings differ between libraries
FEWEST_ALIKE = 500


def match_folders(
    pictures: Pictures, names: Sequence[str], num_classes: int
) -> Pictures:
    """`match_classes`, and ImageNet's classes as others write them.

    ImageNet-V2's folders are numbers, 0 to 999; in the order of text, 10 would
    come before 2. Where all 1,000 classes have names of several words, such as
    "tench, Tinca tinca", their order is enough.

    UserError: the folders aren't classes of the model.
    """
    ours = pictures.class_names
    labels = pictures.labels
    knows_imagenet = num_classes == NUM_1K and (
        not names or are_imagenet(names)
    )
    if knows_imagenet and are_v2(ours):
        labels = tuple(int(ours[label]) for label in labels)
    elif not knows_imagenet or not are_imagenet(ours):
        return match_classes(pictures, names, num_classes)
    names = tuple(names) or imagenet_classes().names
    return replace(pictures, labels=labels, class_names=names)


def are_v2(names: Sequence[str]) -> bool:
    """Whether they are numbers from 0 to 999, as ImageNet-V2's folders."""
    return bool(names) and all(
        name.isascii()
        and name.isdecimal()
        and len(name) < 4
        and str(int(name)) == name
        for name in names
    )


def are_imagenet(names: Sequence[str]) -> bool:
    """Whether they are ImageNet's 1,000 in its order, however spelt."""
    if len(names) != NUM_1K:
        return False
    num_alike = sum(
        name.partition(",")[0].casefold() in (ours.casefold(), code)
        for name, ours, code in zip(names, *imagenet_classes(), strict=True)
    )
    return num_alike >= FEWEST_ALIKE
