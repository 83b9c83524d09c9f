"""Our own file of weights: all comes back, and equal content is equal bytes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from vitedu.data import PreprocessSpec
from vitedu.errors import UserError
from vitedu.model import ViT, ViTConfig
from vitedu.weights import Checkpoint, read_weights, write_weights

TINY = ViTConfig(
    image_size=(8, 12),
    patch_size=4,
    in_channels=1,
    num_classes=3,
    embed_dim=8,
    depth=2,
    num_heads=2,
    mlp_dim=16,
    pre_logits=6,
    gelu="tanh",
)
SPEC = PreprocessSpec(
    image_size=(8, 12), in_channels=1, mean=0.13, std=0.31, crop=0.9
)
NAMES = ("null", "eins", "zwei ½")


def checkpoint(dtype=torch.float32):
    torch.manual_seed(0)
    model = ViT(TINY).to(dtype)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    return Checkpoint(TINY, model.state_dict(), SPEC, NAMES)


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
    before = checkpoint(dtype)
    write_weights(tmp_path / "w.safetensors", before)
    after = read_weights(tmp_path / "w.safetensors")
    assert (after.config, after.preprocess) == (TINY, SPEC)
    assert after.class_names == NAMES
    assert after.state_dict.keys() == before.state_dict.keys()
    for name, tensor in before.state_dict.items():
        assert after.state_dict[name].dtype == dtype
        assert torch.equal(after.state_dict[name], tensor)


def test_there_is_one_metadata_key_of_sorted_json(tmp_path):
    write_weights(tmp_path / "w.safetensors", checkpoint())
    metadata, content = described(tmp_path / "w.safetensors")
    assert metadata.keys() == {"vitedu"}
    assert metadata["vitedu"] == json.dumps(content, sort_keys=True)
    assert content.keys() == {"config", "preprocess", "class_names"}


def test_loss_and_resizing_are_written_where_they_are_not_the_usual(tmp_path):
    plain = checkpoint()
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
    first = checkpoint()
    backwards = dict(reversed(first.state_dict.items()))
    for name, state in (("a", first.state_dict), ("b", backwards)):
        write_weights(tmp_path / name, first._replace(state_dict=state))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.slow  # starts a process, which imports torch
def test_another_process_writes_the_same_bytes(tmp_path):
    # another hash seed, another order of sets
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import test_vitedu as t\n"
        "t.write_weights(sys.argv[2], t.checkpoint())"
    )
    root = Path(__file__).parents[2]
    subprocess.run(
        [
            sys.executable,
            "-c",
            program,
            str(Path(__file__).parent),
            tmp_path / "a",
        ],
        check=True,
        env=os.environ | {"PYTHONHASHSEED": "4711", "PYTHONPATH": str(root)},
    )
    write_weights(tmp_path / "b", checkpoint())
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_an_old_file_stays_if_the_new_one_cannot_be_written(tmp_path):
    write_weights(tmp_path / "w", checkpoint())
    before = (tmp_path / "w").read_bytes()
    with pytest.raises(UserError, match="cannot write"):
        write_weights(tmp_path / "w" / "below", checkpoint())
    assert (tmp_path / "w").read_bytes() == before


# --- files that cannot be read


def sentence(path):
    with pytest.raises(UserError) as error:
        read_weights(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_a_file_of_somebody_else_is_one_sentence(tmp_path, metadata):
    path = tmp_path / "w.safetensors"
    save_file({"head.weight": torch.zeros(3, 8)}, path, metadata)
    assert "was not written by vitedu" in sentence(path)


def test_what_is_no_file_of_weights_is_one_sentence(tmp_path):
    path = tmp_path / "w.safetensors"
    sentence(path)  # nothing there
    sentence(tmp_path)  # a folder
    write_weights(path, checkpoint())
    whole = path.read_bytes()
    for content in (b"", b"text\n", whole[:-1], whole + b"\0"):
        path.write_bytes(content)
        assert "cannot be read as safetensors" in sentence(path)
    torch.save(checkpoint().state_dict, path)
    assert "cannot be read as safetensors" in sentence(path)


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "3", "{}"])
def test_metadata_of_another_form_is_one_sentence(tmp_path, text):
    path = tmp_path / "w.safetensors"
    save_file(checkpoint().state_dict, path, {"vitedu": text})
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
    write_weights(path, checkpoint())
    rewritten(path, lambda content: content | {part: value})
    assert said in sentence(path)
    if part in ("config", "preprocess", "class_names"):
        rewritten(path, lambda content: without(content, part))
        assert UNREADABLE in sentence(path)


def without(content, part):
    return {name: content[name] for name in content if name != part}
