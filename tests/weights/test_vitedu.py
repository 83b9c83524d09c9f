"""Our own file of weights: all comes back, and equal content is equal bytes."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from vitedu.data import PreprocessSpec
from vitedu.weights import read_weights, write_weights

from ..tiny import tiny
from .examples import assert_same, checkpoint, refused

TINY = tiny(in_channels=1, num_classes=3, pre_logits=6, gelu="tanh")
SPEC = PreprocessSpec((8, 12), in_channels=1, mean=0.13, std=0.31, crop=0.9)
NAMES = ("null", "eins", "zwei ½")
STORED = checkpoint(TINY, preprocess=SPEC, class_names=NAMES)


def described(path):
    """The metadata of a file, and its JSON."""
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    return metadata, json.loads(metadata["vitedu"])


def rewritten(path, change):
    """The file with its JSON changed."""
    with safe_open(path, framework="pt") as file:
        arrays = {name: file.get_tensor(name).clone() for name in file.keys()}
    save_file(arrays, path, {"vitedu": json.dumps(change(described(path)[1]))})


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16]
)
def test_everything_comes_back_bit_by_bit(tmp_path, dtype):
    state = {name: x.to(dtype) for name, x in STORED.state_dict.items()}
    path = tmp_path / "w.safetensors"
    write_weights(path, STORED._replace(state_dict=state))
    after = read_weights(path)
    assert (after.config, after.preprocess) == (TINY, SPEC)
    assert after.class_names == NAMES
    assert_same(state, after.state_dict)


def test_there_is_one_metadata_key_of_sorted_json(tmp_path):
    write_weights(tmp_path / "w.safetensors", STORED)
    metadata, content = described(tmp_path / "w.safetensors")
    assert metadata.keys() == {"vitedu"}
    assert metadata["vitedu"] == json.dumps(content, sort_keys=True)
    assert content.keys() == {"config", "preprocess", "class_names"}


def test_loss_and_resizing_are_written_where_they_are_not_the_usual(tmp_path):
    plain = STORED
    same = plain._replace(loss_name="softmax", resize_mode="paper")
    other = plain._replace(loss_name="sigmoid", resize_mode="timm")
    for name, each in (("a", plain), ("b", same), ("c", other)):
        write_weights(tmp_path / name, each)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    _, content = described(tmp_path / "c")
    assert (content["loss"], content["resize"]) == ("sigmoid", "timm")
    again = read_weights(tmp_path / "c")
    assert (again.loss_name, again.resize_mode) == ("sigmoid", "timm")
    again = read_weights(tmp_path / "b")
    assert (again.loss_name, again.resize_mode) == (None, "paper")


def test_equal_content_gives_equal_bytes(tmp_path):
    first = STORED
    backwards = dict(reversed(first.state_dict.items()))
    for name, state in (("a", first.state_dict), ("b", backwards)):
        write_weights(tmp_path / name, first._replace(state_dict=state))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.slow  # starts a process, which imports torch
def test_another_process_writes_the_same_bytes(tmp_path):
    # another hash seed, another order of sets
    program = (
        "import sys; from vitedu.weights import read_weights, write_weights; "
        "write_weights(sys.argv[2], read_weights(sys.argv[1]))"
    )
    one, two = tmp_path / "one", tmp_path / "two"
    write_weights(one, STORED)
    root = str(Path(__file__).parents[2])
    subprocess.run(
        [sys.executable, "-c", program, one, two],
        check=True,
        env=os.environ | {"PYTHONHASHSEED": "4711", "PYTHONPATH": root},
    )
    assert one.read_bytes() == two.read_bytes()


# --- files that cannot be read


sentence = partial(refused, read_weights)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_a_file_of_somebody_else_is_one_sentence(tmp_path, metadata):
    path = tmp_path / "w.safetensors"
    save_file({"head.weight": torch.zeros(3, 8)}, path, metadata)
    assert "was not written by vitedu" in sentence(path)


def test_what_is_no_file_of_weights_is_one_sentence(tmp_path):
    path = tmp_path / "w.safetensors"
    sentence(path)  # nothing there
    sentence(tmp_path)  # a folder
    write_weights(path, STORED)
    whole = path.read_bytes()
    for content in (b"", b"text\n", whole[:-1], whole + b"\0"):
        path.write_bytes(content)
        assert "cannot be read as safetensors" in sentence(path)
    torch.save(STORED.state_dict, path)
    assert "cannot be read as safetensors" in sentence(path)


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "3", "{}"])
def test_metadata_of_another_form_is_one_sentence(tmp_path, text):
    path = tmp_path / "w.safetensors"
    save_file(STORED.state_dict, path, {"vitedu": text})
    assert "holds unreadable metadata" in sentence(path)


PLAIN = TINY.to_json()
UNREADABLE, OTHERWISE = "holds unreadable metadata", "it contradicts itself"


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        *(("config", x, UNREADABLE) for x in (None, 3, "text", [1], {"a": 1})),
        ("config", PLAIN | {"retina": 4}, "no field 'retina'"),
        ("config", {}, OTHERWISE),
        *(("preprocess", x, UNREADABLE) for x in (None, 3, [], {"mean": []})),
        ("preprocess", PreprocessSpec(16, 1).to_json(), OTHERWISE),
        ("preprocess", PreprocessSpec((8, 12)).to_json(), OTHERWISE),
        *(("class_names", x, UNREADABLE) for x in (None, 3, "text")),
        ("class_names", ["one", "two"], OTHERWISE),
        *(("loss", x, UNREADABLE) for x in (3, "hinge", ["sigmoid"])),
        *(("resize", x, UNREADABLE) for x in (None, "nearest", {})),
    ],
)
def test_metadata_that_are_damaged_are_one_sentence(
    tmp_path, part, value, said
):
    path = tmp_path / "w.safetensors"
    write_weights(path, STORED)
    rewritten(path, lambda content: content | {part: value})
    assert said in sentence(path)
    if part in ("config", "preprocess", "class_names"):
        rewritten(path, lambda content: without(content, part))
        assert UNREADABLE in sentence(path)


def without(content, part):
    return {name: content[name] for name in content if name != part}
