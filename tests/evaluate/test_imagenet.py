"""ReaL and ObjectNet: several classes of ImageNet are right, or none."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

import vitedu
from tests.evaluate.objectnet import write_objectnet
from tests.evaluate.small import small
from vitedu import UserError
from vitedu.data import photo
from vitedu.data.imagenet import imagenet_classes
from vitedu.evaluate import (
    ObjectNetEvaluation,
    RealEvaluation,
    objectnet_accuracy,
    real_accuracy,
)
from vitedu.evaluate.imagenet import (
    find_objectnet,
    names_of,
    read_objectnet,
    read_real,
    real_rows,
    validation_pictures,
)

# --- ImageNet-ReaL


def write(path, first):
    """A real.json in which only the first pictures have labels."""
    path.write_text(json.dumps([*first, *[[]] * (50_000 - len(first))]))
    return path


def name(number):
    return f"ILSVRC2012_val_{number:08}.JPEG"


@pytest.fixture
def folder(tmp_path):
    """The pictures 1 to 4 of the validation set."""
    folder = tmp_path / "val"
    folder.mkdir()
    for number in (1, 2, 3, 4):
        Image.new("RGB", (8, 8)).save(folder / name(number), "JPEG")
    return folder


def model_of(num_classes, answer=0, class_names=()):
    """A small model that always gives the same answer."""
    model = small(num_classes)
    model.head.weight.data.zero_()
    model.head.bias.data[answer] = 9.0
    model.class_names = class_names
    return model


def test_an_answer_counts_if_it_is_one_of_the_labels(folder, tmp_path):
    # right, as the second of two; wrong; no label; right
    real = write(tmp_path / "real.json", [[504, 7], [0, 1], [], [7]])
    found = real_accuracy(model_of(1000, answer=7), folder, real)
    assert found == RealEvaluation(2, 3)
    assert found.accuracy == pytest.approx(200 / 3)


def test_a_model_that_answers_nan_is_never_right(folder, tmp_path):
    real = write(tmp_path / "real.json", [[7]])
    model = model_of(1000, answer=7)
    torch.nn.init.constant_(model.norm.weight, float("nan"))
    with pytest.raises(UserError, match="answers NaN or infinity"):
        real_accuracy(model, folder, real)


def test_pictures_are_found_at_any_depth_in_the_order_of_their_numbers(folder):
    (folder / "n02124075").mkdir()
    (folder / name(2)).rename(folder / "n02124075" / name(2))
    found = validation_pictures(folder)
    assert real_rows(names_of(found)) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "wrong", ["cat.jpg", name(0), name(50_001), "ILSVRC2012_val_000000011.JPEG"]
)
def test_the_number_is_read_from_the_name(wrong):
    names = [name(7), "ILSVRC2012_val_00050000.jpg", f"a/x_{name(1)}"]
    assert real_rows(names) == [6, 49_999, 0]
    with pytest.raises(UserError, match="isn't one of ImageNet's validation"):
        real_rows([wrong])


def test_a_broken_picture_is_left_out_and_named(folder):
    (folder / name(1)).write_bytes(b"no picture")
    found = validation_pictures(folder)
    assert real_rows(names_of(found)) == [1, 2, 3]
    assert name(1) in found.skipped[0]
    for path in folder.iterdir():
        path.write_bytes(b"")
    with pytest.raises(
        UserError, match=r"none of the pictures .* can be read; the first of 4"
    ):
        validation_pictures(folder)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot read .*real.json"),
        ("{}", "isn't ImageNet-ReaL's real.json, a list of 50,000 lists"),
        ("[[1], [2]]", "isn't ImageNet-ReaL's real.json, a list of 50,000"),
        (None, "does not exist"),
    ],
    ids=["cut", "dict", "short", "missing"],
)
def test_another_file_is_one_sentence(tmp_path, text, said):
    path = tmp_path / "real.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=said) as raised:
        read_real(path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "names", [("ant", "bee"), tuple(f"fungus {x}" for x in range(1000))]
)
def test_a_model_with_other_classes_is_refused(folder, tmp_path, names):
    model = model_of(len(names), class_names=names)
    with pytest.raises(UserError, match="a model with ImageNet's 1,000 class"):
        real_accuracy(model, folder, write(tmp_path / "real.json", []))


# --- ObjectNet


@pytest.fixture
def root(tmp_path):
    return write_objectnet(tmp_path / "objectnet-1.0")


def test_only_the_classes_of_imagenet_count(root):
    model = vitedu.load("ViT-Ti/16", image_size=48)
    found = objectnet_accuracy(model, root)
    objectnet = read_objectnet(root)
    items = [objectnet.pictures[row] for row in range(3)]
    with torch.no_grad():
        logits = model(vitedu.preprocess(model, [x for x, _ in items]))
    assert found == objectnet.counts(logits, torch.tensor([0, 0, 1]))
    assert found.num_images == 3
    assert found.accuracy == pytest.approx(100 * found.num_correct / 3)


def test_the_border_is_cut_off_and_a_broken_picture_left_out(root):
    pictures = read_objectnet(root).pictures
    found, label = pictures[0]
    want = photo("coffee").resize((48, 48))
    assert label == 0 and np.array_equal(np.array(found), np.array(want))
    (root / "images/house_cat/1.png").write_bytes(b"no picture")
    pictures = read_objectnet(root).pictures
    assert len(pictures) == 2 and "house_cat/1.png" in pictures.skipped[0]


def test_the_second_class_of_a_folder_is_right_too(root):
    objectnet = read_objectnet(root)
    names = imagenet_classes().names
    logits = torch.zeros(2, 1000)
    logits[0, names.index("coffee mug")] = 1.0
    logits[1, names.index("Egyptian cat")] = 2.0
    logits[1, names.index("espresso")] = 1.0
    found = objectnet.counts(logits, torch.tensor([0, 0]))
    assert found == ObjectNetEvaluation(1, 2, 2)


def test_it_is_known_by_its_mapping_from_above_and_from_its_images(root):
    assert find_objectnet(root) == find_objectnet(root / "images") == root
    assert find_objectnet(root / "images" / "house_cat") is None
    (root / "mappings" / "objectnet_to_imagenet_1k.json").unlink()
    assert find_objectnet(root) is None


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("folder_to_objectnet_label.json", "{", "not valid JSON"),
        ("folder_to_objectnet_label.json", None, "does not exist"),
    ],
)
def test_a_damaged_mapping_is_one_sentence(root, file, text, said):
    path = root / "mappings" / file
    path.unlink()
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=said) as raised:
        read_objectnet(root)
    assert "\n" not in str(raised.value)


def test_without_pictures_of_known_classes_it_says_so(root):
    (root / "images").rename(root / "elsewhere")
    (root / "images/air_freshener").mkdir(parents=True)
    with pytest.raises(UserError, match="no pictures in class folders in"):
        read_objectnet(root)


def test_a_folder_without_mappings_is_refused(root):
    with pytest.raises(UserError, match="isn't ObjectNet"):
        objectnet_accuracy(vitedu.vit("ViT-Ti/16", depth=1), root / "mappings")
