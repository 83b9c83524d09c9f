"""A torch Dataset or DataLoader, or a Hugging Face dataset object.

`photos = from_torch(torchvision.datasets.ImageFolder("photos"))`
`photos[0]` is (picture, label); `photos.labels` needs no picture.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
)

from vitedu.data.dataset import Loader, Reader, Split
from vitedu.data.feed.source import Draws
from vitedu.data.labels import (
    check_labels,
    named_classes,
    names_from_labels,
    whole_label,
    whole_labels,
)
from vitedu.errors import UserError

# Keys of the two parts of an item that is a dict.
PICTURE_KEYS = ("image", "img", "pixel_values")
LABEL_KEYS = ("label", "labels")
# Where the datasets of torchvision and others keep their labels.
LABEL_ATTRIBUTES = ("targets", "labels", "_labels")


class DatasetReader(Reader):
    is_named = False
    is_foreign = True

    def __init__(self, dataset: Any, name: str) -> None:
        self.dataset = dataset
        self.name = name

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, row: int) -> tuple[Any, int]:
        where = f"{self.name}[{row}]"
        picture, label = pair_of(self.dataset[row], where)
        return picture, whole_label(label, where)


def from_torch(
    dataset: "Dataset[Any]",
    *,
    class_names: Sequence[str] | None = None,
    num_classes: int | None = None,
) -> Split:
    """A map-style torch Dataset as a `Split`, for `fit` and `as_source`.

    Its items are (picture, label) or dicts with an image and a label. A picture
    is a pillow image, a path, uint8 pixels, or normalised floats (c, h, w); a
    label a whole number from 0. The classes come from the dataset's attribute
    `classes`, or from labels that it keeps (`targets`, `labels`); for other
    datasets give `class_names` or `num_classes`.
    UserError: it is empty, or its items or labels have another form.
    """
    name = type(dataset).__name__
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise UserError(
            f"{name} cannot be read by index; a Dataset with __len__ and "
            "__getitem__ is needed, or a DataLoader around it; nothing can be "
            "streamed, since a run has to go on exactly where it stopped"
        )
    if len(dataset) == 0:
        raise UserError(f"{name} is empty")
    labels, names = kept_labels(dataset), own_class_names(dataset)
    names = named_classes(name, names, class_names, num_classes)
    check_labels(name, labels, len(names))
    return Split(name, DatasetReader(dataset, name), labels, names)


def pair_of(item: Any, where: str) -> tuple[Any, Any]:
    """(picture, label) of an item, or of a batch. UserError: one is missing."""
    if isinstance(item, Mapping):
        picture_key = next((key for key in PICTURE_KEYS if key in item), None)
        label_key = next((key for key in LABEL_KEYS if key in item), None)
        if picture_key is None or label_key is None:
            raise UserError(
                f"{where} has {', '.join(map(str, item)) or 'nothing'}; an "
                f"image ({', '.join(PICTURE_KEYS)}) and a label "
                f"({', '.join(LABEL_KEYS)}) are needed"
            )
        picture = item[picture_key]
        if isinstance(picture, Mapping):  # Hugging Face's Image(decode=False)
            picture = picture.get("bytes") or picture.get("path")
        return picture, item[label_key]
    if isinstance(item, tuple | list) and len(item) == 2:
        return item[0], item[1]
    is_list = isinstance(item, tuple | list)
    length = f" of length {len(item)}" if is_list else ""
    raise UserError(
        f"{where} is of type {type(item).__name__}{length}; it should be a "
        "pair (picture, label)"
    )


def kept_labels(dataset: Any) -> Tensor | None:
    """All labels (n,) in order; None if only the items have them."""
    name = type(dataset).__name__
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
    """The data set's class names; (): unknown."""
    if isinstance(dataset, Subset):
        return own_class_names(dataset.dataset)
    if isinstance(dataset, ConcatDataset):
        names = {own_class_names(part) for part in dataset.datasets} - {()}
        if len(names) > 1:
            first, second, *_ = sorted(names)
            raise UserError(
                f"the parts of {type(dataset).__name__} have different "
                f"classes, such as {', '.join(first[:5])} and "
                f"{', '.join(second[:5])}, so a label would mean two things; "
                "give both the same classes in the same order"
            )
        return names.pop() if names else ()
    if is_hugging_face(dataset):
        feature = dataset.features[_label_column(dataset)]
        return tuple(getattr(feature, "names", None) or ())
    if getattr(dataset, "target_transform", None) is not None:
        return ()  # the labels may mean other classes now
    classes = getattr(dataset, "classes", None)
    if isinstance(classes, str) or not isinstance(classes, Iterable):
        return ()  # not names: a method, say
    # ImageNet's classes have several names each
    return tuple(
        ", ".join(name) if isinstance(name, tuple | list) else str(name)
        for name in classes
    )


def is_hugging_face(dataset: Any) -> bool:
    return hasattr(dataset, "column_names") and hasattr(dataset, "features")


def _label_column(dataset: Any) -> str:
    names = list(dataset.column_names)
    label = next((key for key in LABEL_KEYS if key in names), None)
    if label is None or not any(key in names for key in PICTURE_KEYS):
        raise UserError(
            f"{type(dataset).__name__} has the columns {', '.join(names)}; "
            "rename them to image and label with its rename_column"
        )
    return label


def open_loader(
    loader: Any,
    class_names: Sequence[str] | None,
    num_classes: int | None,
) -> Split:
    """Batches as a Split; counts their images, by reading them if need be."""
    name = type(loader).__name__
    sampler: Any = getattr(loader, "sampler", None)
    if getattr(sampler, "num_replicas", 1) > 1:
        raise UserError(
            f"the {name} has a DistributedSampler, but vitedu already divides "
            "every batch among the processes; leave the sampler out"
        )
    names = named_classes(name, (), class_names, num_classes)
    if (
        isinstance(loader, DataLoader)
        and not isinstance(loader.dataset, IterableDataset)
        and loader.batch_size is not None
    ):
        num_images = len(sampler)
        if loader.drop_last:
            num_images -= num_images % loader.batch_size
        if not names:
            with suppress(UserError):  # of a form that we can't read
                behind = from_torch(loader.dataset)
                is_known = behind.class_names or behind.labels is not None
                names = behind.classes() if is_known else ()
    else:
        labels = _labels_by_reading(loader)
        num_images = len(labels)
        check_labels(name, labels, len(names))
        names = names or (names_from_labels(name, labels) if num_images else ())
    if num_images == 0:
        raise UserError(f"the {name} is empty")
    return Split(name, Loader(loader, num_images), None, names)


def _labels_by_reading(loader: Any) -> torch.Tensor:
    name = type(loader).__name__
    try:
        len(loader)  # a DataLoader of a stream has __len__, which fails
    except TypeError:
        raise UserError(
            f"the {name} doesn't have a length (its number of batches), so an "
            "epoch might never end; give it a __len__"
        ) from None
    with Draws(0):
        labels = [
            whole_labels(pair_of(batch, f"batch {number}")[1], name)
            for number, batch in enumerate(loader)
        ]
    return torch.cat([*labels, torch.empty(0, dtype=torch.int64)])
