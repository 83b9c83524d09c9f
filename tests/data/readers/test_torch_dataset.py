"""Datasets of torch and of Hugging Face, before a model sees them."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, Dataset, Subset

from vitedu.data import Split, from_torch
from vitedu.data.readers.torch_dataset import DatasetReader
from vitedu.errors import UserError


def pillow(value=0, size=(6, 5)):
    return Image.new("RGB", size, (value, value, value))


class Photos(Dataset):
    """Six pictures of two classes, with what torchvision's data sets keep."""

    def __init__(self, **attributes):
        self.read = []
        for name, value in attributes.items():
            setattr(self, name, value)

    def __len__(self):
        return 6

    def __getitem__(self, index):
        self.read.append(index)
        return pillow(10 * index), index % 2


TARGETS = [0, 1, 0, 1, 0, 1]


def test_a_dataset_gives_pictures_and_labels_by_index():
    items = from_torch(Photos(classes=["ant", "bee"]))
    picture, label = items[3]
    assert (picture.getpixel((0, 0)), label) == ((30, 30, 30), 1)
    assert (len(items), items.class_names) == (6, ("ant", "bee"))


@pytest.mark.parametrize("attribute", ["targets", "labels", "_labels"])
@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor])
def test_labels_that_a_dataset_keeps_are_known_without_a_picture(
    attribute, kind
):
    photos = Photos(**{attribute: kind(TARGETS)})
    assert from_torch(photos).labels.tolist() == TARGETS
    assert photos.read == []


def test_labels_that_are_changed_on_the_way_are_changed_here_too():
    photos = Photos(
        targets=[5, 6, 5, 6, 5, 6],
        target_transform=lambda label: label - 5,
        classes=list("abcdefg"),
    )
    items = from_torch(photos)
    assert items.labels.tolist() == TARGETS
    # what the names were for is not what the labels are now
    assert items.class_names == ()


def test_classes_can_be_given():
    assert from_torch(Photos(), num_classes=3).class_names == ("0", "1", "2")
    names = from_torch(Photos(), class_names=["ant", "bee"]).class_names
    assert names == ("ant", "bee")


def test_several_names_of_a_class_become_one():
    """As torchvision's ImageNet has them."""
    photos = Photos(classes=[("tench", "Tinca tinca"), ("goldfish",)])
    assert from_torch(photos).class_names == ("tench, Tinca tinca", "goldfish")


def test_a_subset_has_its_own_labels_and_the_classes_of_the_whole():
    whole = Photos(targets=TARGETS, classes=["ant", "bee"])
    items = from_torch(Subset(Subset(whole, [1, 2, 3, 4]), [0, 2, 3]))
    assert items.labels.tolist() == [1, 1, 0]
    assert [items[i][1] for i in range(3)] == [1, 1, 0]
    assert items.class_names == ("ant", "bee")


def test_joined_datasets_have_all_labels_if_each_has_them():
    kept, other = Photos(targets=TARGETS, classes=["a", "b"]), Photos()
    assert (
        from_torch(ConcatDataset([kept, kept])).labels.tolist() == 2 * TARGETS
    )
    assert from_torch(ConcatDataset([kept, other])).labels is None
    assert from_torch(ConcatDataset([kept, other])).class_names == ("a", "b")


def test_its_pictures_may_be_encoded_still():
    """As Image(decode=False) leaves them."""
    rows = [
        {"image": {"bytes": b"encoded", "path": "a.png"}, "label": 0},
        {"image": {"bytes": None, "path": "a.png"}, "label": 0},
    ]
    items = Split("it", DatasetReader(rows, "it"), None)
    assert (items[0][0], items[1][0]) == (b"encoded", "a.png")


def test_a_real_hugging_face_dataset(tmp_path):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["ant", "bee"]),
        }
    )
    rows = {"image": [pillow(9 * i) for i in range(4)], "label": [1, 0, 0, 1]}
    stored = datasets.Dataset.from_dict(rows, features=features)
    with pytest.raises(UserError, match="image, cls; rename them to image and"):
        from_torch(stored.rename_column("label", "cls"))
    items = from_torch(stored)
    assert items.class_names == ("ant", "bee")
    assert items.labels.tolist() == [1, 0, 0, 1]
    picture, label = items[3]
    assert (picture.getpixel((0, 0)), label) == ((27, 27, 27), 1)


def test_a_real_hugging_face_dataset_with_a_transform(tmp_path):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"img": datasets.Image(), "labels": datasets.Value("int64")}
    )
    rows = {"img": [pillow(9 * i) for i in range(4)], "labels": [2, 0, 0, 1]}
    stored = datasets.Dataset.from_dict(rows, features=features)

    def prepared(batch):
        pictures = [torch.full((3, 2, 2), 0.5) for _ in batch["img"]]
        return {"pixel_values": pictures, "labels": batch["labels"]}

    items = from_torch(stored.with_transform(prepared))
    assert items.labels.tolist() == [2, 0, 0, 1]
    picture, label = items[0]
    assert (picture.shape, label) == ((3, 2, 2), 2)
