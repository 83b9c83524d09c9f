"""Reading files of weights: every container gives the same arrays."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from vitedu.errors import UserError
from vitedu.weights.files import read_arrays

ARRAYS = {
    "head.weight": torch.arange(12.0).reshape(3, 4),
    "head.bias": torch.tensor([1.5, -0.0, 1e-45]),
    "scale": torch.tensor(2.0),
}


def save_npz(arrays, path):
    np.savez(path, **{name: array.numpy() for name, array in arrays.items()})


def save_packed_npz(arrays, path):
    named = {name: array.numpy() for name, array in arrays.items()}
    np.savez_compressed(path, **named)


def save_old_torch(arrays, path):
    torch.save(arrays, path, _use_new_zipfile_serialization=False)


def save_shards(arrays, path):
    """Two files and their index, as Hugging Face writes them."""
    places = {}
    for i, part in enumerate((list(arrays)[:2], list(arrays)[2:])):
        name = f"model-0000{i + 1}-of-00002.safetensors"
        save_file({key: arrays[key] for key in part}, path.parent / name)
        places |= dict.fromkeys(part, name)
    path.write_text(json.dumps({"metadata": {}, "weight_map": places}))


CONTAINERS = {
    "w.npz": save_npz,
    "packed.npz": save_packed_npz,
    "w.safetensors": save_file,
    "w.pth": torch.save,
    "old.pt": save_old_torch,
    "pytorch_model.bin": torch.save,
    "w.ckpt": torch.save,
    "w": save_file,
    "model.safetensors.index.json": save_shards,
}


def sentence(path):
    with pytest.raises(UserError) as error:
        read_arrays(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("name", CONTAINERS)
def test_every_container_gives_the_arrays_bit_by_bit(tmp_path, name):
    CONTAINERS[name](ARRAYS, tmp_path / name)
    found = read_arrays(tmp_path / name)
    assert found.path == tmp_path / name
    assert found.arrays.keys() == ARRAYS.keys()
    for key, array in ARRAYS.items():
        assert found.arrays[key].dtype == torch.float32
        assert found.arrays[key].shape == array.shape
        bits = found.arrays[key].reshape(-1).view(torch.int32)
        assert torch.equal(bits, array.reshape(-1).view(torch.int32))


@pytest.mark.parametrize("name", CONTAINERS)
def test_what_was_read_outlives_its_file(tmp_path, name):
    CONTAINERS[name](ARRAYS, tmp_path / name)
    found = read_arrays(str(tmp_path / name))
    for file in tmp_path.iterdir():
        file.write_bytes(b"\0" * file.stat().st_size)
    assert torch.equal(found.arrays["head.weight"], ARRAYS["head.weight"])


@pytest.mark.parametrize("name", ["w.npz", "w.safetensors", "w.pth", "old.pt"])
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.float64, torch.int64, torch.bool]
)
def test_the_precision_of_the_file_is_kept(tmp_path, name, dtype):
    array = torch.tensor([[1, 0], [0, 1]]).to(dtype)
    CONTAINERS[name]({"w": array}, tmp_path / name)
    read = read_arrays(tmp_path / name).arrays["w"]
    assert read.dtype == dtype and torch.equal(read, array)


@pytest.mark.parametrize("name", ["w.safetensors", "w.pth", "old.pt"])
def test_bfloat16_is_kept(tmp_path, name):
    array = torch.tensor([1.0, -3.5], dtype=torch.bfloat16)
    CONTAINERS[name]({"w": array}, tmp_path / name)
    assert torch.equal(read_arrays(tmp_path / name).arrays["w"], array)


def test_two_void_bytes_in_an_npz_are_jax_bfloat16(tmp_path):
    array = torch.tensor([[1.0, -3.5, 0.25]], dtype=torch.bfloat16)
    np.savez(tmp_path / "w.npz", w=array.view(torch.int16).numpy().view("V2"))
    assert torch.equal(read_arrays(tmp_path / "w.npz").arrays["w"], array)


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_big_endian_and_column_order_are_understood(tmp_path, version):
    import io
    import zipfile

    array = np.asfortranarray(np.arange(6, dtype=">f4").reshape(2, 3))
    content = io.BytesIO()
    np.lib.format.write_array(content, array, version=version)
    with zipfile.ZipFile(tmp_path / "w.npz", "w") as archive:
        archive.writestr("w.npy", content.getvalue())
    read = read_arrays(tmp_path / "w.npz").arrays["w"]
    assert torch.equal(read, torch.arange(6.0).reshape(2, 3))


# --- what is around the arrays


@pytest.mark.parametrize("wrapper", ["module.", "_orig_mod.", "model.module."])
def test_wrappers_around_all_names_come_off(tmp_path, wrapper):
    wrapped = {wrapper + name: array for name, array in ARRAYS.items()}
    save_file(wrapped, tmp_path / "w.safetensors")
    assert (
        read_arrays(tmp_path / "w.safetensors").arrays.keys() == ARRAYS.keys()
    )


def test_a_wrapper_around_some_names_is_a_name(tmp_path):
    wrapped = {"module.w": torch.ones(1), "w": torch.ones(1)}
    save_file(wrapped, tmp_path / "w.safetensors")
    assert (
        read_arrays(tmp_path / "w.safetensors").arrays.keys() == wrapped.keys()
    )


@pytest.mark.parametrize("key", ["state_dict", "model", "model_state_dict"])
@pytest.mark.parametrize("is_old", [False, True])
def test_a_training_checkpoint_gives_its_model(tmp_path, key, is_old):
    content = {key: ARRAYS, "epoch": 3, "optimizer": {"state": {}}}
    torch.save(
        content, tmp_path / "w.pth", _use_new_zipfile_serialization=not is_old
    )
    found = read_arrays(tmp_path / "w.pth")
    assert found.arrays.keys() == ARRAYS.keys()
    assert found.notes == ("left out of w.pth: epoch, optimizer",)


def test_a_checkpoint_inside_a_checkpoint_is_found(tmp_path):
    torch.save({"state_dict": {"model": ARRAYS}}, tmp_path / "w.pth")
    assert read_arrays(tmp_path / "w.pth").arrays.keys() == ARRAYS.keys()


def test_parameters_and_views_come_as_plain_arrays(tmp_path):
    wide = torch.arange(12.0).reshape(3, 4)
    content = {"p": torch.nn.Parameter(torch.ones(2)), "v": wide[:, ::2].mT}
    torch.save(content, tmp_path / "w.pth")
    arrays = read_arrays(tmp_path / "w.pth").arrays
    assert not arrays["p"].requires_grad
    assert torch.equal(arrays["v"], wide[:, ::2].mT)


def test_tied_weights_are_read(tmp_path):
    tied = torch.randn(100, 100)
    torch.save({"a": tied, "b": tied}, tmp_path / "w.pth")
    assert torch.equal(read_arrays(tmp_path / "w.pth").arrays["b"], tied)


def test_safetensors_metadata_come_along(tmp_path):
    save_file(ARRAYS, tmp_path / "w.safetensors", {"format": "pt"})
    assert read_arrays(tmp_path / "w.safetensors").about.metadata == {
        "format": "pt"
    }


@pytest.mark.parametrize("name", CONTAINERS)
def test_the_json_beside_a_file_comes_along(tmp_path, name):
    CONTAINERS[name](ARRAYS, tmp_path / name)
    found = read_arrays(tmp_path / name)
    assert found.about.config == found.about.preprocessor == {}
    (tmp_path / "config.json").write_text('{"num_heads": 3}')
    (tmp_path / "preprocessor_config.json").write_text('{"size": 224}')
    found = read_arrays(tmp_path / name)
    assert found.about.config == {"num_heads": 3}
    assert found.about.preprocessor == {"size": 224}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("vit_tiny.augreg_in21k.safetensors", "vit_tiny.augreg_in21k"),
        ("vit_tiny.augreg_in21k.fp16.safetensors", "vit_tiny.augreg_in21k"),
        ("vit_tiny.augreg_in21k.bf16", "vit_tiny.augreg_in21k"),
        ("B_16-i21k-300ep-lr_0.001-aug_none.npz", None),
        ("deit-tiny.v1/model.safetensors", "deit-tiny.v1"),
        ("deit-tiny.v1/pytorch_model.bin", "deit-tiny.v1"),
        ("deit-tiny.v1/model.safetensors.index.json", "deit-tiny.v1"),
    ],
)
def test_a_file_has_the_name_of_its_model(tmp_path, path, name):
    path = tmp_path / path
    path.parent.mkdir(exist_ok=True)
    writers = {".npz": save_npz, ".bin": torch.save, ".json": save_shards}
    writers.get(path.suffix, save_file)(ARRAYS, path)
    assert read_arrays(path).about.name == (name or path.stem)


# --- folders


@pytest.mark.parametrize(
    "name",
    [
        *("model.safetensors", "pytorch_model.bin", "any.npz", "any.pth"),
        *("any.safetensors", "model.safetensors.index.json"),
    ],
)
def test_a_folder_is_as_good_as_the_file_in_it(tmp_path, name):
    writers = {
        ".npz": save_npz,
        ".json": save_shards,
        ".safetensors": save_file,
    }
    path = tmp_path / name
    writers.get(path.suffix, torch.save)(ARRAYS, path)
    found = read_arrays(tmp_path)
    assert found.path == path and found.arrays.keys() == ARRAYS.keys()


def test_safetensors_go_before_pickles(tmp_path):
    save_file(ARRAYS, tmp_path / "model.safetensors")
    torch.save({"other": torch.ones(1)}, tmp_path / "pytorch_model.bin")
    assert read_arrays(tmp_path).arrays.keys() == ARRAYS.keys()


def test_the_best_weights_of_a_run_that_is_not_done_are_named(tmp_path):
    save_file(ARRAYS, tmp_path / "best.safetensors")
    (note,) = read_arrays(tmp_path).notes
    assert "is not done, so best.safetensors was read" in note
    assert read_arrays(tmp_path / "best.safetensors").notes == ()
    save_file(ARRAYS, tmp_path / "model.safetensors")
    assert read_arrays(tmp_path).notes == ()


def test_a_folder_of_several_files_asks_for_one(tmp_path):
    for name in ("b.npz", "a.npz"):
        save_npz(ARRAYS, tmp_path / name)
    assert "2 files of weights (a.npz, b.npz)" in sentence(tmp_path)


def test_an_empty_folder_is_one_sentence(tmp_path):
    assert "doesn't contain model.safetensors" in sentence(tmp_path)


def test_a_run_that_is_not_done_has_no_weights(tmp_path):
    torch.save({"model": ARRAYS}, tmp_path / "checkpoint.pt")
    assert "doesn't contain model.safetensors" in sentence(tmp_path)


def test_nothing_there_is_one_sentence(tmp_path):
    assert "there is no file or run folder" in sentence(tmp_path / "w.npz")


@pytest.mark.parametrize("text", ["", "{", "[1]", "3", "[" * 10**5])
@pytest.mark.parametrize("name", ["config.json", "preprocessor_config.json"])
def test_json_that_is_none_is_one_sentence(tmp_path, text, name):
    save_file(ARRAYS, tmp_path / "model.safetensors")
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=name):
        read_arrays(tmp_path)


# --- shards


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "weight_map is missing"),
        ({"weight_map": ["a"]}, "weight_map is missing"),
        ({"weight_map": {"a": 3}}, "weight_map is missing"),
        (
            {"weight_map": {"a": "../model.safetensors"}},
            "'../model.safetensors'",
        ),
        ({"weight_map": {"a": "/etc/passwd"}}, "'/etc/passwd'"),
        ({"weight_map": {"a": ".."}}, "'..'"),
        ({"weight_map": {"a": ""}}, "''"),
        ({"weight_map": {"a": "gone.safetensors"}}, "not beside it"),
        ({"weight_map": {"a": "one.safetensors"}}, "lack 1 of its arrays (a)"),
        ({"weight_map": {}}, "doesn't contain any arrays"),
    ],
)
def test_an_index_that_leads_astray_is_one_sentence(tmp_path, content, said):
    save_file(ARRAYS, tmp_path / "one.safetensors")
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps(content))
    assert said in sentence(path)
