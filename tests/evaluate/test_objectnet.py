"""ObjectNet: its own folders, several right classes, a border to cut off."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

import vitedu
from vitedu import UserError
from vitedu.data import photo
from vitedu.data.imagenet import imagenet_classes
from vitedu.evaluate import ObjectNetEvaluation, objectnet_accuracy
from vitedu.evaluate.imagenet import (
    find_objectnet,
    imagenet_classes_of,
    read_objectnet,
)

# folder, label, and what ImageNet calls it; the last isn't in ImageNet
THINGS = [
    ("coffee_drink", "Coffee", ["espresso", "coffee mug"]),
    ("house_cat", "Cat", ["Egyptian cat"]),
    ("air_freshener", "Air freshener", []),
]


@pytest.fixture
def root(tmp_path):
    """A small ObjectNet: coffee twice, a cat that is called a coffee, and more.

    The list of labels is in another order than a model's classes, as ImageNet's
    own is.
    """
    names = imagenet_classes().names
    lines = list(range(1000))[::-1]  # line i has the class lines[i]
    root = tmp_path / "objectnet-1.0"
    mappings = root / "mappings"
    mappings.mkdir(parents=True)
    files = {
        "folder_to_objectnet_label.json": {x: y for x, y, _ in THINGS},
        "objectnet_to_imagenet_1k.json": {
            y: "; ".join(z) for _, y, z in THINGS if z
        },
        "pytorch_to_imagenet_2012_id.json": {
            str(index): line for line, index in enumerate(lines)
        },
    }
    for name, values in files.items():
        (mappings / name).write_text(json.dumps(values))
    text = "\n".join(names[index] for index in lines)
    (mappings / "imagenet_to_label_2012_v2").write_text(text + "\n")
    for folder, name, shown in (
        ("coffee_drink", "1.png", "coffee"),
        ("coffee_drink", "2.png", "cat"),
        ("house_cat", "1.png", "cat"),
        ("air_freshener", "1.png", "rocket"),
    ):
        (root / "images" / folder).mkdir(parents=True, exist_ok=True)
        picture = photo(shown).resize((48, 48))
        framed = Image.new(
            "RGB", (picture.width + 4, picture.height + 4), (255, 0, 0)
        )
        framed.paste(picture, (2, 2))
        framed.save(root / "images" / folder / name)
    return root


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


def test_the_mapping_leads_from_folders_to_the_models_classes(root):
    names = imagenet_classes().names
    found = imagenet_classes_of(root / "mappings")
    assert {
        folder: [names[index] for index in classes]
        for folder, classes in found.items()
    } == {
        "coffee_drink": ["espresso", "coffee mug"],
        "house_cat": ["Egyptian cat"],
    }


def test_the_border_is_cut_off(root):
    pictures = read_objectnet(root).pictures
    found, label = pictures[0]
    assert label == 0
    assert np.array_equal(
        np.array(found), np.array(photo("coffee").resize((48, 48)))
    )


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


def test_a_broken_picture_is_left_out_and_named(root):
    (root / "images/house_cat/1.png").write_bytes(b"no picture")
    pictures = read_objectnet(root).pictures
    assert len(pictures) == 2 and "house_cat/1.png" in pictures.skipped[0]


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("folder_to_objectnet_label.json", "{", "not valid JSON"),
        ("objectnet_to_imagenet_1k.json", '{"Cat": "dodo"}', "'dodo'"),
        ("pytorch_to_imagenet_2012_id.json", '{"x": 0}', "are damaged"),
        ("imagenet_to_label_2012_v2", "", "don't belong together"),
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
    with pytest.raises(UserError, match=r"no pictures in .*coffee_drink"):
        read_objectnet(root)


def test_another_folder_is_refused(root):
    with pytest.raises(UserError, match="isn't ObjectNet"):
        objectnet_accuracy(vitedu.vit("ViT-Ti/16", depth=1), root / "mappings")
