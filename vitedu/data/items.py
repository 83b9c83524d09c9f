"""Pictures that are read by index: any torch Dataset, or one from Hugging Face.

`photos = from_torch(torchvision.datasets.ImageFolder("photos"))`
`photos[0]` is (picture, label), and `photos.labels` are known without a picture.
"""

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset

from vitedu.errors import UserError

# What the two parts of an item are called where an item is a dict.
PICTURE_KEYS = ("image", "img", "pixel_values")
LABEL_KEYS = ("label", "labels")
# Where the datasets of torchvision and others keep their labels.
LABEL_ATTRIBUTES = ("targets", "labels", "_labels")


@dataclass(frozen=True, eq=False)
class Items:
    """Pictures and labels by index, and what is known of them before one is read.

    A picture is whatever `vitedu.pictures.read_image` takes, or a tensor of floats
    (c, h, w), which is fed to the model as it is.
    """

    name: str  # for sentences and results
    dataset: Any  # dataset[row] is (picture, label), or a dict of both
    class_names: tuple[str, ...]  # empty: unknown
    labels: Tensor | None  # (n,) int64; None: only reading tells
    # of the dataset that are meant; None: all
    rows: Sequence[int] | None = None

    def __len__(self) -> int:
        """The number of pictures."""
        return len(self.dataset if self.rows is None else self.rows)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        """One picture and its label. UserError: it is not of that form."""
        row = index if self.rows is None else self.rows[index]
        where = f"{self.name}[{row}]"
        picture, label = pair_of(self.dataset[row], where)
        number = label_of(label, where)
        if self.labels is not None and number != int(self.labels[index]):
            raise UserError(
                f"{where} comes with the label {number}, but the labels that the data "
                f"set keeps say {int(self.labels[index])}; make them match"
            )
        if self.class_names and number >= len(self.class_names):
            raise UserError(
                f"{where} has the label {number}, but there are "
                f"{len(self.class_names)} classes, counted from 0"
            )
        return picture, number

    @property
    def num_classes(self) -> int:
        """The number of classes; 0: unknown."""
        return len(self.class_names)

    def take(self, rows: Sequence[int]) -> "Items":
        """These items alone, in this order; the classes stay."""
        own = self.rows
        return replace(
            self,
            labels=None if self.labels is None else self.labels[list(rows)],
            rows=tuple(rows if own is None else (own[row] for row in rows)),
        )


def from_torch(
    dataset: "Dataset[Any]",
    *,
    class_names: Sequence[str] | None = None,
    num_classes: int | None = None,
) -> Items:
    """A map-style torch Dataset as pictures and labels, for `fit` and `as_source`.

    Its items are (picture, label) or dicts with an image and a label. The picture may
    be a pillow image, a path, uint8 pixels, or a tensor of floats (c, h, w) that is
    prepared already. The labels are whole numbers from 0. The classes are
    those of its attribute `classes`, else as many as its labels say where it keeps
    them (`targets`, `labels`); `class_names` or `num_classes` say it for others.
    UserError: it is empty, its items have another form, or its labels do.
    """
    return items_of(dataset, class_names, num_classes)


def items_of(
    dataset: Any,
    class_names: Sequence[str] | None = None,
    num_classes: int | None = None,
) -> Items:
    """Anything with a length that is read by index, a Hugging Face dataset too."""
    name = name_of(dataset)
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise UserError(
            f"{name} cannot be read by index; a Dataset with __len__ and __getitem__ "
            "is needed, or a DataLoader around it"
        )
    if len(dataset) == 0:
        raise UserError(f"{name} is empty")
    labels = kept_labels(dataset)
    names = named_classes(
        name, own_class_names(dataset), class_names, num_classes
    )
    check_labels(name, labels, names)
    return Items(name, dataset, names, labels)


def named_classes(
    name: str,
    own: tuple[str, ...],
    class_names: Sequence[str] | None,
    num_classes: int | None,
) -> tuple[str, ...]:
    """The classes that were given, else the data's own; () if neither is known."""
    if class_names is not None:
        own = tuple(str(each) for each in class_names)
    if num_classes is None:
        return own
    if own and len(own) != num_classes:
        raise UserError(
            f"{name} has {len(own)} classes, but num_classes={num_classes}"
        )
    return own or numbers(num_classes)


def numbers(num_classes: int) -> tuple[str, ...]:
    """What classes without names are called: "0", "1", ..."""
    return tuple(str(label) for label in range(num_classes))


def check_labels(
    name: str, labels: Tensor | None, names: tuple[str, ...]
) -> None:
    """UserError: a label is below 0, or there is no class of it."""
    if labels is None or not len(labels):
        return
    lowest, highest = int(labels.min()), int(labels.max())
    if lowest < 0:
        raise UserError(
            f"{name} has the label {lowest}; labels begin at 0, and pictures without "
            "one cannot be used here"
        )
    if names and highest >= len(names):
        raise UserError(
            f"{name} has the label {highest}, but there are {len(names)} classes, "
            "counted from 0"
        )


def pair_of(item: Any, where: str) -> tuple[Any, Any]:
    """The picture and the label of an item, or of a batch. UserError: not both."""
    if isinstance(item, Mapping):
        picture_key = next((key for key in PICTURE_KEYS if key in item), None)
        label_key = next((key for key in LABEL_KEYS if key in item), None)
        if picture_key is None or label_key is None:
            raise UserError(
                f"{where} has {', '.join(map(str, item)) or 'nothing'}; an image "
                f"({', '.join(PICTURE_KEYS)}) and a label ({', '.join(LABEL_KEYS)}) "
                "are needed"
            )
        picture = item[picture_key]
        if isinstance(picture, Mapping):  # Hugging Face's Image(decode=False)
            picture = picture.get("bytes") or picture.get("path")
        return picture, item[label_key]
    if isinstance(item, tuple | list) and len(item) == 2:
        return item[0], item[1]
    held = type(item).__name__
    if isinstance(item, tuple | list):
        held = f"{len(item)} things"
    raise UserError(f"{where} is {held}; a picture and its label are needed")


def label_of(label: Any, where: str) -> int:
    """A label as a plain number. UserError: it is no whole number from 0 up."""
    try:
        number = operator.index(label)
    except TypeError:
        raise UserError(
            f"{where} has the label {label!r}; a label is a whole number from 0 up"
        ) from None
    if number < 0:
        raise UserError(f"{where} has the label {number}; labels begin at 0")
    return number


def whole_labels(labels: Any, name: str) -> Tensor:
    """Labels of whatever kind as int64 (n,). UserError: they are not whole numbers."""
    if isinstance(labels, Tensor):
        labels = labels.detach().cpu().numpy()
    try:
        array = np.asarray(labels)
    except ValueError:  # rows of different lengths
        array = np.empty(0, object)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        example = (
            f", such as {array.ravel().tolist()[0]!r}" if array.size else ""
        )
        mend = (
            "; number the classes (a Hugging Face dataset by class_encode_column)"
            if array.dtype.kind == "U"
            else ""
        )
        raise UserError(
            f"the labels of {name} are {array.dtype} of shape {array.shape}{example}, "
            f"but a label is one whole number from 0 up{mend}"
        )
    return torch.from_numpy(array.astype(np.int64))


def kept_labels(dataset: Any) -> Tensor | None:
    """The labels in the order of the pictures, where no picture is read for it."""
    name = name_of(dataset)
    if isinstance(dataset, Subset):
        labels = kept_labels(dataset.dataset)
        return None if labels is None else labels[list(dataset.indices)]
    if isinstance(dataset, ConcatDataset):
        parts = [kept_labels(part) for part in dataset.datasets]
        known = [part for part in parts if part is not None]
        return torch.cat(known) if len(known) == len(parts) else None
    if isinstance(dataset, TensorDataset) and len(dataset.tensors) == 2:
        return whole_labels(dataset.tensors[-1], name)
    if is_hugging_face(dataset):
        # as stored, not as a transform of the user's would make them
        plain = getattr(dataset, "with_format", lambda _: dataset)(None)
        return whole_labels(list(plain[_label_column(dataset)]), name)
    if isinstance(dataset, list | tuple):
        pairs = (
            pair_of(item, f"{name}[{i}]") for i, item in enumerate(dataset)
        )
        return whole_labels([label for _, label in pairs], name)
    for attribute in LABEL_ATTRIBUTES:
        kept: Any = getattr(dataset, attribute, None)
        is_list = isinstance(kept, list | tuple | np.ndarray | Tensor)
        if is_list and len(kept) == len(dataset):
            change = getattr(dataset, "target_transform", None)
            if change is not None:
                kept = [change(label) for label in kept]
            return whole_labels(kept, name)
    return None


def own_class_names(dataset: Any) -> tuple[str, ...]:
    """What the data set calls its classes; (): it does not say."""
    if isinstance(dataset, Subset):
        return own_class_names(dataset.dataset)
    if isinstance(dataset, ConcatDataset):
        names = {own_class_names(part) for part in dataset.datasets} - {()}
        if len(names) > 1:
            first, second, *_ = sorted(names)
            raise UserError(
                f"the parts of {name_of(dataset)} have different classes, such as "
                f"{', '.join(first[:5])} and {', '.join(second[:5])}, so that a label "
                "would mean two things; number them alike"
            )
        return names.pop() if names else ()
    if is_hugging_face(dataset):
        feature = dataset.features[_label_column(dataset)]
        return tuple(getattr(feature, "names", None) or ())
    if getattr(dataset, "target_transform", None) is not None:
        return ()  # the labels may mean other classes now
    classes = getattr(dataset, "classes", None)
    if isinstance(classes, int | np.integer):  # how many there are
        return numbers(int(classes))
    if isinstance(classes, str) or not isinstance(classes, Iterable):
        return ()  # not names: a method, say
    # ImageNet's classes have several names each
    return tuple(
        ", ".join(name) if isinstance(name, tuple | list) else str(name)
        for name in classes
    )


def is_hugging_face(dataset: Any) -> bool:
    """Whether it looks like a dataset of Hugging Face's library `datasets`."""
    return hasattr(dataset, "column_names") and hasattr(dataset, "features")


def _label_column(dataset: Any) -> str:
    names = list(dataset.column_names)
    label = next((key for key in LABEL_KEYS if key in names), None)
    if label is None or not any(key in names for key in PICTURE_KEYS):
        raise UserError(
            f"{name_of(dataset)} has the columns {', '.join(names)}; rename them to "
            "image and label with its rename_column"
        )
    return label


def name_of(data: Any) -> str:
    """What a sentence and a result call data without a name: the kind of it."""
    return type(data).__name__
