"""Files that are damaged, hostile or somebody else's: one sentence each.

Never code from a file, and never half a model.
"""

import argparse
import io
import json
import os
import pickle
import zipfile
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import nn

from vitedu.errors import UserError
from vitedu.weights import convert, load, save
from vitedu.weights.npz import from_vitedu

from ..train.runs import sentence as refused
from .examples import (
    CONTAINERS,
    GOOGLES,
    INDEX,
    checkpoint,
    example,
    model_of,
    write,
)


def google_arrays(**more):
    """The weights under Google's names, which are a ViT in every container."""
    return from_vitedu(checkpoint(GOOGLES)) | more


FILES = [name for name in CONTAINERS if name != INDEX]


def put(folder, name, arrays=None):
    CONTAINERS[name](
        google_arrays() if arrays is None else arrays, folder / name
    )
    return folder / name


sentence = partial(refused, load)


# --- truncated, another kind of file


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_one_sentence(tmp_path, name, share):
    path = put(tmp_path, name)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    assert str(path) in sentence(path)


def test_a_truncated_or_missing_shard_is_one_sentence(tmp_path):
    path = put(tmp_path, INDEX)
    shard = tmp_path / "part1.safetensors"
    shard.write_bytes(shard.read_bytes()[:-100])
    assert "part1.safetensors" in sentence(path)
    shard.unlink()
    assert "part1.safetensors does not exist" in sentence(path)


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize(
    "content",
    [
        b"This is a text file, renamed.\n" * 40,
        b"\xff" * 1000,
        b"PK\x05\x06" + b"\x00" * 18,  # an archive of nothing
        b"\x80\x02.",  # a pickle of nothing
    ],
)
def test_another_kind_of_file_renamed_is_one_sentence(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    assert str(tmp_path / name) in sentence(tmp_path / name)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("other", FILES)
def test_one_container_under_the_name_of_another_is_one_sentence(
    tmp_path, name, other
):
    path = put(tmp_path, name)
    if name.endswith(".pth") and other.endswith(".pth"):
        load(path.rename(tmp_path / "renamed.pth"))
    elif name != other:
        sentence(path.rename(tmp_path / f"renamed.{other.rpartition('.')[2]}"))


@pytest.mark.slow
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@pytest.mark.parametrize("name", FILES)
@given(where=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_a_changed_byte_is_one_sentence_or_another_number(
    tmp_path, name, where, byte
):
    path = tmp_path / name
    if not path.exists():
        put(tmp_path, name)
        (tmp_path / "whole").write_bytes(path.read_bytes())
    content = bytearray((tmp_path / "whole").read_bytes())
    content[int(where * len(content))] = byte
    path.write_bytes(content)
    try:
        model = load(path)
    except UserError as error:
        assert "\n" not in str(error)
    else:
        assert model(torch.randn(1, 3, 16, 16)).shape == (1, 5)


# --- code in a file


class Evil:
    """Unpickled, it would make a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("wrap", ["model", "args", None])
def test_a_pickle_that_would_run_code_does_not(tmp_path, is_old, wrap):
    evil = {"evil": Evil(tmp_path / "harm")}
    content = google_arrays(**evil)
    inner = argparse.Namespace(**evil) if wrap == "args" else content
    torch.save(
        {wrap: inner} if wrap else content,
        tmp_path / "w.pth",
        _use_new_zipfile_serialization=not is_old,
    )
    assert f"{os.mkdir.__module__}.mkdir" in sentence(tmp_path / "w.pth")
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("suffix", ["pth", "pt", "bin", "ckpt", "tar", "npz"])
def test_a_bare_pickle_that_would_run_code_does_not(tmp_path, suffix):
    path = tmp_path / f"w.{suffix}"
    path.write_bytes(pickle.dumps(Evil(tmp_path / "harm")))
    sentence(path)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("extra", [Evil, str])
def test_an_npz_holds_numbers_alone(tmp_path, extra):
    path = put(tmp_path, "w.npz")
    with zipfile.ZipFile(path, "a") as archive:
        content, array = io.BytesIO(), np.array([extra(tmp_path / "harm")])
        np.save(content, array, allow_pickle=True)
        archive.writestr("extra.npy", content.getvalue())
    assert "extra cannot be read: " in sentence(path)
    assert not (tmp_path / "harm").exists()


# --- what a file holds


NO_NAMES = "no dictionary of named tensors"
HOLDS = {
    "a list": ("w.pth", [1, 2], NO_NAMES),
    "a tensor": ("w.pth", torch.ones(2), NO_NAMES),
    "a whole module": (
        "w.pth",
        nn.Linear(2, 2),
        "more than tensors and plain types: torch.nn.modules.linear.Linear;",
    ),
    "arguments of a kind of their own": (
        "old.pth",
        {"model": google_arrays(), "args": argparse.Namespace(to=io.BytesIO())},
        "plain types: _io.BytesIO;",
    ),
    "whole numbers": (
        "w.safetensors",
        google_arrays(**{"head/bias": torch.ones(5, dtype=torch.int8)}),
        "head.bias as torch.int8; weights are floats",
    ),
    "NaN": (
        "w.npz",
        google_arrays(**{"head/bias": torch.full((5,), float("nan"))}),
        "NaN or infinity in head.bias",
    ),
    "somebody else's": (
        "w.npz",
        {"transformer.h.0.attn.c_attn.weight": torch.ones(4, 4)},
        "c_attn.weight, ...) that belong to no known ViT",
    ),
    "no arrays": ("w.safetensors", {}, "doesn't contain any arrays"),
    "one with a strange name": (
        "w.pth",
        google_arrays(**{"\x1b[2Jgone": torch.ones(2)}),
        repr("\x1b[2Jgone"),
    ),
}


@pytest.mark.parametrize("case", HOLDS)
def test_what_is_no_set_of_weights_is_one_sentence(tmp_path, case):
    name, content, said = HOLDS[case]
    assert said in sentence(put(tmp_path, name, content))


def test_a_script_is_named(tmp_path):
    with pytest.warns(DeprecationWarning):
        torch.jit.save(torch.jit.script(nn.Linear(2, 2)), tmp_path / "w.pt")
    assert "TorchScript" in sentence(tmp_path / "w.pt")


def test_what_is_no_number_in_half_precision_is_one_sentence(tmp_path):
    arrays = google_arrays()
    arrays["head/kernel"][0, 0] = 1e6  # float16 ends at 65,504
    path = put(tmp_path, "w.npz", arrays)
    load(path)
    assert "(as torch.float16)" in sentence(path, dtype=torch.float16)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_dumps_come_in_float32(tmp_path, name, dtype):
    arrays = {k: v.to(dtype) for k, v in google_arrays().items()}
    model = load(put(tmp_path, name, arrays))
    for key, weight in checkpoint(GOOGLES).state_dict.items():
        assert torch.equal(model.state_dict()[key], weight.to(dtype).float())


OTHERS = {
    "BEiT": ["blocks.0.attn.relative_position_bias_table", "cls_token"],
    "BEiT of Hugging Face": ["beit.encoder.layer.0.lambda_1"],
    "CLIP": ["visual.transformer.resblocks.0.ln_1.weight", "logit_scale"],
    "DINOv3 in Meta's spelling": ["storage_tokens", "cls_token"],
    "a DeiT with a distillation token": ["dist_token", "cls_token"],
    "a ViT with attention and MLP side by side": ["blocks.0.in_proj.weight"],
    "a ViT with two attentions side by side": ["blocks.0.attns.0.norm.weight"],
    "a ViT with differential attention": ["blocks.0.attn.lambda_a"],
    "a ResNet with BatchNorm": ["layer1.0.bn1.running_mean", "conv1.weight"],
}


@pytest.mark.parametrize("other", OTHERS)
def test_other_networks_are_refused_by_name(tmp_path, other):
    arrays = {key: torch.ones(4, 4) for key in OTHERS[other]}
    said = sentence(put(tmp_path, "w.safetensors", arrays))
    assert f"weights of {other.partition(' of ')[0]}" in said


# --- what stands beside the arrays


def ours(folder, **content):
    """A file of vitedu's; `content` replaces parts of its metadata."""
    path = write("vitedu", folder)
    header = json.loads(example_header()) | content
    save_file(load_file(path), path, {"vitedu": json.dumps(header)})
    return path


def example_header():
    from vitedu.weights.vitedu import header_of

    return header_of(example("vitedu"))["vitedu"]


@pytest.mark.parametrize(
    "name", ["config.json", "preprocessor_config.json", INDEX]
)
@pytest.mark.parametrize("text", ["", "{", "[1]", "3"])
def test_json_that_is_none_is_one_sentence(tmp_path, name, text):
    path = ours(tmp_path)
    (tmp_path / name).write_text(text)
    assert name in sentence(tmp_path / name if name == INDEX else path)


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ({}, "weight_map is missing"),
        ({"a": 3}, "names 3"),
        ({"a": "../model.safetensors"}, "names '../model.safetensors'"),
        ({"a": "/etc/passwd"}, "names '/etc/passwd'"),
        ({"a": ".."}, "names '..'"),
    ],
)
def test_an_index_that_leads_astray_is_one_sentence(tmp_path, index, said):
    path = tmp_path / INDEX
    path.write_text(json.dumps({"weight_map": index} if index else {}))
    assert said in sentence(path)


# --- the machine and its files


@pytest.mark.parametrize("name", [*FILES, INDEX])
def test_a_file_larger_than_the_memory_is_one_sentence(tmp_path, name):
    big = tmp_path / name
    if name == INDEX:
        big = tmp_path / "0.safetensors"
        (tmp_path / INDEX).write_text('{"weight_map": {"a": "0.safetensors"}}')
    big.write_bytes(b"PK\x03\x04")
    os.truncate(big, 2**43)  # which takes up no room on the disk
    assert "8.8 TB of memory" in sentence(tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes")
@pytest.mark.parametrize("name", ["w.npz", "model.safetensors", "w.pth", INDEX])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    assert "is a pipe" in sentence(tmp_path / name)


@pytest.mark.parametrize("closed", ["file", "folder"])
def test_what_may_not_be_read_is_one_sentence(tmp_path, fork, closed):
    path = write("vitedu", tmp_path)
    source = {"file": path, "folder": tmp_path}[closed]
    source.chmod(0)

    def read():
        if os.geteuid() == 0:  # whom no right holds back
            os.setuid(65534)
        load(source)

    said = fork(read).answer()
    source.chmod(0o700)
    assert said.startswith("UserError: ") and "Permission denied" in said


@pytest.mark.parametrize("name", ["a" * 300, "", "~nosuchuser/a"])
def test_a_target_that_cannot_be_a_path_is_one_sentence(tmp_path, name):
    target = str(tmp_path / name) if name[:1] == "a" else name
    with pytest.raises(UserError):
        convert(write("vitedu", tmp_path), target, to="timm")
    if name:
        with pytest.raises(UserError):
            save(model_of(example("vitedu")), f"{target}.safetensors")
