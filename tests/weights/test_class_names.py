"""Class names that a file doesn't carry: ImageNet's, if they are as many."""

import json
import warnings

import pytest
from safetensors.torch import save_file

from vitedu.data.imagenet import imagenet_21k_classes, imagenet_classes
from vitedu.weights import convert, load, write_weights
from vitedu.weights.files import read_safetensors

from ..tiny import tiny
from .examples import checkpoint

IMAGENET = imagenet_classes().names
OWN = tuple(f"bird {i}" for i in range(1000))
HEADS = {"num_heads": 4}  # which the arrays cannot say


def stored(num_classes, names=()):
    config = tiny(image_size=8, num_classes=num_classes)
    return checkpoint(config, class_names=names)


def quiet_load(path, **overrides):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load(path, **overrides)


def quiet_convert(source, target, to):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return convert(source, target, to=to, **HEADS)


@pytest.fixture
def foreign(tmp_path):
    """A function of the number of classes: somebody's file without names."""

    def write(num_classes):
        path = tmp_path / "theirs.safetensors"
        save_file(stored(num_classes).state_dict, path)
        return path

    return write


def test_a_head_of_1000_classes_without_names_gets_imagenets(foreign):
    model = quiet_load(foreign(1000), **HEADS)
    assert model.class_names == IMAGENET
    assert model.load_report.dialect == "timm"
    notes = [
        note for note in model.load_report.notes if "have no names" in note
    ]
    assert notes == [
        "its 1,000 classes have no names, so they are taken to be ImageNet-1k's"
    ]


@pytest.mark.slow
def test_a_head_of_21843_classes_gets_imagenet_21ks(foreign):
    model = quiet_load(foreign(21_843), **HEADS)
    assert model.class_names == imagenet_21k_classes().names
    assert any("ImageNet-21k's" in note for note in model.load_report.notes)


@pytest.mark.parametrize("num_classes", [10, 999, 21_841])
def test_other_heads_get_no_names(foreign, num_classes):
    model = quiet_load(foreign(num_classes), **HEADS)
    assert model.class_names == ()
    assert not any("names" in note for note in model.load_report.notes)


@pytest.mark.parametrize(("held", "wanted"), [(1000, 5), (5, 1000), (0, 1000)])
def test_a_new_head_gets_no_names(foreign, held, wanted):
    model = quiet_load(foreign(held), num_classes=wanted, **HEADS)
    assert model.config.num_classes == wanted and model.class_names == ()


@pytest.mark.parametrize("names", [(), OWN])
def test_our_own_file_of_1000_classes_is_believed(tmp_path, names):
    path = tmp_path / "ours.safetensors"
    write_weights(path, stored(1000, names))
    model = load(path)
    assert model.class_names == names and model.load_report.notes == ()


def test_imagenets_names_are_one_word_in_our_file(tmp_path):
    path = tmp_path / "ours.safetensors"
    for names, said in ((IMAGENET, "imagenet-1k"), (OWN, list(OWN))):
        write_weights(path, stored(1000, names))
        metadata = json.loads(read_safetensors(path)[1]["vitedu"])
        assert metadata["class_names"] == said
        assert load(path).class_names == names


def test_a_conversion_keeps_the_names_and_says_whence(foreign, tmp_path):
    done = quiet_convert(foreign(1000), tmp_path / "ours.safetensors", "vitedu")
    assert any("have no names" in note for note in done.notes)
    model = load(tmp_path / "ours.safetensors")
    assert model.class_names == IMAGENET and model.load_report.notes == ()


# --- what Hugging Face is told


def said_to_hf(folder):
    return json.loads((folder / "config.json").read_text())


def assert_ids_are_names(config, names):
    """Each index has its name, and each name an index that has it."""
    assert config["id2label"] == {str(i): name for i, name in enumerate(names)}
    assert config["label2id"].keys() == {*names}
    for label, index in config["label2id"].items():
        assert names[index] == label


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (OWN, OWN),
        (IMAGENET, IMAGENET),
        (("ant", "bee", "ant"), ("ant", "bee", "ant")),
        ((), ("LABEL_0", "LABEL_1", "LABEL_2")),  # as transformers calls them
    ],
    ids=len,
)
def test_the_names_of_our_own_file_reach_hugging_face(tmp_path, names, said):
    path = tmp_path / "ours.safetensors"
    write_weights(path, stored(len(said), names))
    quiet_convert(path, tmp_path / "to-hf", "hf")
    assert_ids_are_names(said_to_hf(tmp_path / "to-hf"), said)
    assert quiet_load(tmp_path / "to-hf").class_names == names
