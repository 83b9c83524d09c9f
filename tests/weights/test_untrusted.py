"""Files that a stranger made: what they promise, how they nest, what they are.

Nothing hangs, nothing is taken for numbers that is not, and each ends in one
sentence.
"""

import json
import os
import sys
import time
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from vitedu.errors import UserError
from vitedu.model import ViT, ViTConfig
from vitedu.pictures import PreprocessSpec
from vitedu.weights import Checkpoint, convert, load, save, write_weights
from vitedu.weights.torch_files import check_torch

TINY = ViTConfig(
    image_size=8,
    patch_size=4,
    num_classes=3,
    embed_dim=8,
    depth=2,
    num_heads=2,
    mlp_dim=16,
)
LONG_NUMBER = "9" * 5000
NOT_JSON = {
    "deep": "[" * 100_000 + "]" * 100_000,
    "long": f'{{"config": {LONG_NUMBER}}}',
}


def state():
    torch.manual_seed(0)
    return ViT(TINY).state_dict()


def ours(folder, **content):
    """A file of vitedu's; `content` replaces parts of its metadata."""
    path = folder / "model.safetensors"
    spec = PreprocessSpec(TINY.image_size)
    write_weights(path, Checkpoint(TINY, state(), spec))
    if content:
        written = json.loads(metadata(path)) | content
        save_file(load_file(path), path, {"vitedu": json.dumps(written)})
    return path


def metadata(path):
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return file.metadata()["vitedu"]


def sentence(source, **answers):
    """The sentence that refuses it, within ten seconds."""
    start = time.perf_counter()
    with pytest.raises(UserError) as error:
        load(source, **answers)
    assert time.perf_counter() - start < 10
    assert "\n" not in str(error.value)
    return str(error.value)


# --- archives of torch


def test_a_pth_that_is_packed_is_refused(tmp_path):
    torch.save(state(), tmp_path / "plain.pth")
    with (
        zipfile.ZipFile(tmp_path / "plain.pth") as plain,
        zipfile.ZipFile(tmp_path / "w.pth", "w") as packed,
    ):
        for number, member in enumerate(plain.infolist()):
            kind = zipfile.ZIP_DEFLATED if number == 7 else zipfile.ZIP_STORED
            packed.writestr(member.filename, plain.read(member), kind)
    assert "compressed, which torch.save never does" in sentence(
        tmp_path / "w.pth"
    )


def test_a_pth_with_a_wrong_checksum_is_refused(tmp_path):
    path = tmp_path / "w.pth"
    torch.save(state(), path)
    content = bytearray(path.read_bytes())
    numbers = state()["blocks.1.mlp.fc1.weight"].numpy().tobytes()
    content[content.index(numbers) + 10] ^= 1
    path.write_bytes(content)
    assert "Bad CRC-32" in sentence(path)


@pytest.mark.parametrize("version", ["1.13.1", "2.4.0+cpu", "2.5.1"])
def test_pickled_files_are_refused_under_a_torch_that_ran_their_code(version):
    with pytest.raises(UserError, match=r"CVE-2025-32434.*upgrade to torch 2"):
        check_torch(version, "w.pth")


@pytest.mark.parametrize("version", ["2.6.0", "2.9.1+cu128"])
def test_a_later_fault_of_torch_is_named(version):
    with pytest.raises(UserError, match=r"torch 2\.\d.*CVE-2026-24747.*2\.10"):
        check_torch(version, "w.pth")


@pytest.mark.parametrize("version", ["2.10.0", "2.13.0+cpu", "3.0.0a1", "main"])
def test_a_torch_without_a_known_fault_reads_them(version):
    check_torch(version, "w.pth")


# --- structures


def inside_itself():
    content = {"w": torch.ones(2)}
    content["state_dict"] = content
    return content


def in_many_containers():
    content = state()
    for _ in range(200):
        content = {"state_dict": content}
    return content


def beside_a_deep_nest():
    nest = [torch.ones(2)]
    for _ in range(200):
        nest = [nest, torch.ones(2)]
    return state() | {"extra": nest}


def under_a_deep_key():
    key = (1,)
    for _ in range(200):
        key = (key, 1)
    return {"model": state(), key: torch.ones(2)}


@pytest.mark.parametrize(
    "make",
    [inside_itself, in_many_containers, beside_a_deep_nest, under_a_deep_key],
)
def test_a_checkpoint_that_nests_without_end_is_one_sentence(tmp_path, make):
    torch.save(make(), tmp_path / "w.pth")
    assert len(sentence(tmp_path / "w.pth")) < 2500


@pytest.mark.parametrize("name", ["w.npz", "w.safetensors", "w.pth"])
@pytest.mark.parametrize("part", ["layers.0.", "block1/unit1/", "module."])
def test_a_name_of_30000_parts_is_refused_at_once(tmp_path, name, part):
    arrays = {part * 30_000: torch.ones(2)}
    if name == "w.npz":  # a name in an archive ends at 65,535 letters
        np.savez(tmp_path / name, **{part * 4000: np.ones(2)})
    else:
        (torch.save if name == "w.pth" else save_file)(arrays, tmp_path / name)
    assert "which cannot be a name" in sentence(tmp_path / name)


@pytest.mark.parametrize("number", ["1" * 5000, "7" * 40], ids=len)
def test_a_number_of_thousands_of_digits_in_a_name_is_one_sentence(
    tmp_path, number
):
    from vitedu.weights.npz import from_vitedu

    config = ViTConfig(**vars(TINY) | {"gelu": "tanh"})
    arrays = from_vitedu(Checkpoint(config, state()))
    arrays[f"Transformer/encoderblock_{number}/x"] = torch.ones(2)
    named = {name: array.numpy() for name, array in arrays.items()}
    np.savez(tmp_path / "w.npz", **named)
    sentence(tmp_path / "w.npz")


@pytest.mark.parametrize("text", NOT_JSON.values(), ids=NOT_JSON)
def test_metadata_that_json_cannot_hold_are_one_sentence(tmp_path, text):
    save_file(state(), tmp_path / "w.safetensors", {"vitedu": text})
    said = sentence(tmp_path / "w.safetensors")
    assert "is not valid JSON" in said


@pytest.mark.parametrize("text", NOT_JSON.values(), ids=NOT_JSON)
@pytest.mark.parametrize(
    "name", ["config.json", "preprocessor_config.json", "w.index.json"]
)
def test_json_beside_a_file_that_json_cannot_hold_is_one_sentence(
    tmp_path, name, text
):
    path = ours(tmp_path)
    (tmp_path / name).write_text(text)
    path = tmp_path / name if name.startswith("w.") else path
    assert f"{name} is not valid JSON" in sentence(path)


@pytest.mark.parametrize(
    "heads", [LONG_NUMBER, "²", "-3", ""], ids=lambda x: x[:9]
)
def test_a_number_of_heads_that_is_none_is_asked_for(tmp_path, heads):
    save_file(state(), tmp_path / "w.safetensors", {"num_heads": heads})
    assert "give num_heads=" in sentence(tmp_path / "w.safetensors")


@pytest.mark.parametrize("name", [["a"], 3, None, {"a": 1}])
def test_names_of_classes_in_our_file_are_strings(tmp_path, name):
    said = sentence(ours(tmp_path, class_names=["cat", name, "dog"]))
    assert f"class_names must be strings, got {name!r} for class 1" in said


@pytest.mark.parametrize("name", [["a"], 3.5, None, {"a": 1}])
@pytest.mark.parametrize("to", ["hf", "timm"])
def test_names_of_classes_in_somebodys_json_are_strings(tmp_path, to, name):
    names = ["cat", "cow", "dog"]
    convert(ours(tmp_path, class_names=names), tmp_path / "theirs", to=to)
    path = tmp_path / "theirs/config.json"
    content = json.loads(path.read_text())
    if to == "hf":
        content["id2label"]["1"] = name
    else:
        content["label_names"][1] = name
    path.write_text(json.dumps(content))
    assert "class_names must be strings" in sentence(tmp_path / "theirs")


# --- sizes


def test_a_crop_that_would_blow_up_a_picture_is_one_sentence(tmp_path):
    spec = PreprocessSpec(TINY.image_size).to_json() | {"crop": 1e-5}
    model = load(ours(tmp_path, preprocess=spec), num_classes=0)
    Image.new("RGB", (300, 200)).save(tmp_path / "photo.jpg")
    with pytest.raises(UserError, match=r"photo\.jpg.* pixels"):
        model.preprocess(tmp_path / "photo.jpg")


def test_shards_larger_than_the_memory_are_one_sentence(tmp_path):
    for i in range(4):
        (tmp_path / f"{i}.safetensors").touch()
        os.truncate(tmp_path / f"{i}.safetensors", 2**42)
    places = {f"a{i}": f"{i}.safetensors" for i in range(4)}
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": places}))
    assert "17.6 TB of memory" in sentence(path)


# --- the operating system


def test_the_home_of_nobody_is_one_sentence():
    assert "no such user" in sentence("~nosuchuser/w.pth")


def test_a_zero_byte_in_a_path_is_one_sentence():
    assert "zero byte" in sentence("a\0b.pth")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes")
@pytest.mark.parametrize(
    "name", ["w.npz", "w.safetensors", "w.pth", "model.safetensors.index.json"]
)
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    assert "is a pipe" in sentence(tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes")
def test_a_pipe_in_a_folder_is_refused_too(tmp_path):
    os.mkfifo(tmp_path / "model.safetensors")
    assert "is a pipe" in sentence(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="the system has none")
def test_a_device_is_refused():
    assert "or a device" in sentence("/dev/zero")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="rights are another's")
@pytest.mark.parametrize("closed", ["file", "folder"])
def test_what_may_not_be_read_is_one_sentence(tmp_path, closed):
    path = ours(tmp_path)
    source = {"file": path, "folder": tmp_path}[closed]
    source.chmod(0)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        if os.geteuid() == 0:  # whom no right holds back
            os.setuid(65534)
        try:
            load(source)
        except UserError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    source.chmod(0o700)
    with open(reader) as file:
        assert "Permission denied" in file.read()


@pytest.mark.parametrize("name", ["a" * 300, "a\0b", "", "~nosuchuser/a"])
def test_a_target_that_cannot_be_a_path_is_one_sentence(tmp_path, name):
    target = str(tmp_path / name) if name[:1] == "a" else name
    with pytest.raises(UserError):
        convert(ours(tmp_path), target, to="timm")


@pytest.mark.parametrize("name", ["a" * 300, "a\0b", "~nosuchuser/a"])
def test_a_model_saved_where_no_path_can_be_is_one_sentence(tmp_path, name):
    target = str(tmp_path / name) if name[:1] == "a" else name
    with pytest.raises(UserError):
        save(ViT(TINY), f"{target}.safetensors")


def test_convert_leaves_folders_that_it_did_not_make(tmp_path):
    mine = tmp_path / f"theirs.{os.getpid()}.part"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    convert(ours(tmp_path), tmp_path / "theirs", to="timm")
    assert (mine / "thesis.txt").read_text() == "years of work"
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"model.safetensors", "theirs", mine.name}


def test_a_written_folder_is_open_to_those_to_whom_any_is(tmp_path):
    (tmp_path / "any").mkdir()
    convert(ours(tmp_path), tmp_path / "theirs", to="timm")
    rights = [
        os.stat(tmp_path / name).st_mode & 0o777 for name in ("any", "theirs")
    ]
    assert rights[0] == rights[1]
