"""Labels are checked in the type they come in, on every way into vitedu."""

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from vitedu.data import PreprocessSpec, as_source, from_torch, load_dataset
from vitedu.data.labels import named_classes, whole_labels
from vitedu.errors import UserError

SPEC = PreprocessSpec(image_size=4, in_channels=1)
PIXELS = np.zeros((3, 4, 4), np.uint8)
WRAPPING = 2**64 - 100  # as int64 it is -100, which cross-entropy ignores


@pytest.mark.parametrize(
    "dtype", [np.uint8, np.int8, np.uint16, np.int32, np.uint64, np.int64]
)
def test_whole_numbers_of_any_type_become_int64(dtype):
    for kind in (np.array, torch.tensor, list, tuple):
        labels = whole_labels(kind(np.array([0, 100, 7], dtype)), "it")
        assert labels.dtype == torch.int64 and labels.tolist() == [0, 100, 7]


BAD = {
    "wrapping": (
        np.array([0, 1, WRAPPING], np.uint64),
        "label -100; labels begin",
    ),
    "huge": ([0, 1, 2**70], "are object"),
    "halves": (np.array([0.0, 0.5, 1.0]), "are float64 .* such as 0.0,"),
    "nan": (torch.tensor([0.0, torch.nan, 1.0]), "are float32"),
    "bool": (np.array([True, False, True]), r"are bool .* \.astype\(int\)"),
    "objects": (np.array([0, 1, 2], object), "are object"),
    "texts": (["ant", "bee", "ant"], "are <U3 .* number the classes"),
    "negative": (np.array([0, -1, 2], np.int8), "label -1; labels begin at 0"),
}


class Photos(Dataset):
    """A dataset that keeps its labels."""

    def __init__(self, labels):
        self.targets = labels

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, row):
        return PIXELS[row], self.targets[row]


def as_batches(labels):
    """The epoch of a loader whose batches have these labels."""
    batches = [(torch.zeros(3, 1, 4, 4, dtype=torch.uint8), labels)]
    return list(as_source(batches, preprocess=SPEC).batches(batch_size=3))


WAYS = {
    "a pair": lambda labels: as_source((PIXELS, labels), preprocess=SPEC),
    "a dataset": lambda labels: from_torch(Photos(labels)),
    "batches": as_batches,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", BAD)
def test_bad_labels_are_one_sentence_on_every_way(way, name):
    labels, sentence = BAD[name]
    with pytest.raises(UserError, match=sentence):
        WAYS[way](labels)


@pytest.mark.parametrize("name", ["wrapping", "halves", "bool", "negative"])
def test_bad_labels_in_an_npz_are_one_sentence(tmp_path, name):
    labels, _ = BAD[name]
    path = tmp_path / "set.npz"
    np.savez(
        path, x_train=PIXELS, y_train=labels, x_test=PIXELS, y_test=[0] * 3
    )
    with pytest.raises(UserError, match=r"set\.npz: train (are|has the label)"):
        load_dataset(str(path))


@pytest.mark.parametrize("num_classes", [0, -1, 2.5, "many"])
def test_a_number_of_classes_is_a_whole_number_from_1(num_classes):
    with pytest.raises(UserError, match="num_classes must be a whole number"):
        as_source((PIXELS, [0, 0, 0]), preprocess=SPEC, num_classes=num_classes)


def test_classes_are_those_given_else_the_datas_own_else_numbers():
    assert named_classes("it", ("a", "b"), None, 2) == ("a", "b")
    assert named_classes("it", ("a", "b"), ["c", "d"], 2) == ("c", "d")
    assert named_classes("it", (), None, 2) == ("0", "1")
    assert named_classes("it", (), None, None) == ()
