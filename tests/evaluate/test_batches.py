"""Folders that are numbered, as ImageNet-V2's are, are read as numbers."""

from pathlib import Path

import pytest
import torch

from vitedu import UserError
from vitedu.data import Split
from vitedu.data.dataset import FileReader
from vitedu.data.imagenet import imagenet_classes
from vitedu.evaluate.batches import match_folders

NAMES, CODES = imagenet_classes()


def split(paths, labels, names):
    labels = torch.tensor(tuple(labels))
    return Split("photos", FileReader(paths), labels, tuple(names))


def in_folders(*names):
    """One picture in each, labelled in the order of text as folders are."""
    names = sorted(names)
    paths = tuple(Path(name) / "1.png" for name in names)
    return split(paths, range(len(names)), names)


def labels_of(pictures):
    return {
        path.parent.name: label
        for path, label in (pictures[row] for row in range(len(pictures)))
    }


@pytest.mark.parametrize("names", [NAMES, ()], ids=["named", "nameless"])
@pytest.mark.parametrize("numbers", [range(1000), (2, 10, 999)])
def test_folders_of_imagenet_v2_are_numbers_and_not_text(names, numbers):
    matched = match_folders(in_folders(*map(str, numbers)), names, 1000)
    assert labels_of(matched) == {str(x): x for x in numbers}
    assert matched.class_names == NAMES


def test_codes_and_names_are_matched_as_before():
    assert labels_of(match_folders(in_folders("tench"), NAMES, 1000)) == {
        "tench": 0
    }
    assert labels_of(match_folders(in_folders("n01443537"), (), 1000)) == {
        "n01443537": 1
    }


@pytest.mark.parametrize("names", [NAMES, ()], ids=["named", "nameless"])
def test_names_of_several_words_are_known_by_their_order(names):
    spelt = tuple(
        f"{name.upper()}, {code}"
        for name, code in zip(NAMES, CODES, strict=True)
    )
    pictures = split((Path("a"), Path("b")), (7, 134), spelt)
    matched = match_folders(pictures, names, 1000)
    assert matched.labels.tolist() == [7, 134] and matched.class_names == NAMES


def test_a_thousand_other_classes_are_not_imagenets():
    others = tuple(f"fungus {x}" for x in range(1000))
    pictures = split((Path("a"),), (7,), others)
    with pytest.raises(UserError, match=r"1,000 folders \(fungus 0, fungus 1"):
        match_folders(pictures, NAMES, 1000)
    spelt = tuple(
        f"{name}, {code}" for name, code in zip(NAMES, CODES, strict=True)
    )
    with pytest.raises(UserError, match=r"1,000 folders \(tench, n01440764"):
        match_folders(split((Path("a"),), (7,), spelt), others, 1000)


def test_a_model_without_names_takes_as_many_folders_in_their_order():
    pictures = in_folders("b", "a", "c")
    assert match_folders(pictures, (), 3) is pictures
    with pytest.raises(UserError, match=r"no class for 3 folders \(a, b, c"):
        match_folders(pictures, (), 4)
