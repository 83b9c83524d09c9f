"""Reading files of weights: every container gives the same arrays."""

from functools import partial

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from vitedu.errors import UserError
from vitedu.weights import DIALECTS, load
from vitedu.weights.files import read_arrays
from vitedu.weights.mapping import pattern_for

from .examples import CONTAINERS as EVERY_KIND
from .examples import example, refused, save_npz, save_shards, write

ARRAYS = {
    "head.weight": torch.arange(12.0).reshape(3, 4),
    "head.bias": torch.tensor([1.5, -0.0, 1e-45]),
    "scale": torch.tensor(2.0),
}


def save_packed_npz(arrays, path):
    named = {name: array.numpy() for name, array in arrays.items()}
    np.savez_compressed(path, **named)


CONTAINERS = EVERY_KIND | {
    "packed.npz": save_packed_npz,
    "pytorch_model.bin": torch.save,
    "w.ckpt": torch.save,
    "w": save_file,
}


sentence = partial(refused, read_arrays)


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


@pytest.mark.parametrize("name", ["w.npz", "w.safetensors", "w.pth", "old.pth"])
@pytest.mark.parametrize(
    "dtype",
    [torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.bool],
)
def test_the_precision_of_the_file_is_kept(tmp_path, name, dtype):
    array = torch.tensor([[1, 0], [0, 1]]).to(dtype)
    CONTAINERS[name]({"w": array}, tmp_path / name)
    read = read_arrays(tmp_path / name).arrays["w"]
    assert read.dtype == dtype and torch.equal(read, array)


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
    torch.save(content | {"tied": wide}, tmp_path / "w.pth")
    arrays = read_arrays(tmp_path / "w.pth").arrays
    assert not arrays["p"].requires_grad
    assert torch.equal(arrays["tied"], wide)
    assert torch.equal(arrays["v"], wide[:, ::2].mT)


@pytest.mark.parametrize("name", CONTAINERS)
def test_the_json_beside_a_file_comes_along(tmp_path, name):
    CONTAINERS[name](ARRAYS, tmp_path / name)
    found = read_arrays(tmp_path / name)
    assert found.metadata.config == found.metadata.preprocessor == {}
    (tmp_path / "config.json").write_text('{"num_heads": 3}')
    (tmp_path / "preprocessor_config.json").write_text('{"size": 224}')
    found = read_arrays(tmp_path / name)
    assert found.metadata.config == {"num_heads": 3}
    assert found.metadata.preprocessor == {"size": 224}


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
    assert read_arrays(path).metadata.name == (name or path.stem)


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


def test_a_run_that_is_not_done_has_no_weights(tmp_path):
    torch.save({"model": ARRAYS}, tmp_path / "checkpoint.pt")
    assert "doesn't contain model.safetensors" in sentence(tmp_path)


def test_nothing_there_is_one_sentence(tmp_path):
    assert "there is no file or run folder" in sentence(tmp_path / "w.npz")


# --- what is left out


def ours(folder, content):
    """A file of torch.save's around the weights of a small ViT."""
    torch.save(content, folder / "w.pth")
    return folder / "w.pth"


STATE = example("timm").state_dict


@pytest.mark.parametrize(
    ("unknown", "needed", "pattern"),
    [
        ("extra/a", {"head"}, "extra/*"),
        ("blocks.1.gate", {"blocks.1.norm"}, "blocks.1.gate"),
        ("blocks.2.a", {"blocks.1.a"}, "blocks.2.*"),
        ("more", {"head"}, "more"),
    ],
)
def test_the_suggested_pattern_spares_what_is_needed(unknown, needed, pattern):
    assert pattern_for(unknown, needed) == pattern


@pytest.mark.parametrize(
    ("name", "pattern"),
    [("params/extra/a", "params/extra/*"), ("extra", "extra"), ("cls", "cls")],
)
def test_names_inside_and_outside_of_a_prefix_are_the_files(
    tmp_path, name, pattern
):
    arrays = DIALECTS["npz"].from_vitedu(example("npz"))
    named = {f"params/{k}": v.numpy() for k, v in arrays.items()}
    np.savez(tmp_path / "w.npz", **named, **{name: np.full((1, 1, 32), 9.0)})
    with pytest.raises(UserError) as error:
        load(tmp_path / "w.npz")
    assert f"no place for: {name}; " in str(error.value)
    assert f'ignore="{pattern}"' in str(error.value)
    model = load(tmp_path / "w.npz", ignore=pattern)
    assert torch.equal(model.cls_token, example("npz").state_dict["cls_token"])


@pytest.mark.parametrize("ignore", ["extra.a", "module.extra.a", "centre"])
@pytest.mark.filterwarnings("ignore:.*neither a config")
def test_a_pattern_may_leave_out_the_wrapper(tmp_path, ignore):
    arrays = {f"module.{name}": x for name, x in STATE.items()}
    extra = "centre" if ignore == "centre" else "module.extra.a"
    arrays[extra] = torch.ones(2)
    save_file(arrays, tmp_path / "w.safetensors")
    model = load(tmp_path / "w.safetensors", ignore=ignore, num_heads=4)
    assert model.load_report.dropped == (ignore,)


@pytest.mark.filterwarnings("ignore:.*neither a config")
def test_arrays_beside_the_state_dict_are_refused(tmp_path):
    path = ours(tmp_path, {"model": STATE, "extra": {"a": [torch.ones(2)]}})
    with pytest.raises(UserError, match=r"extra/a/0.*ignore=\"extra/\*\""):
        load(path, num_heads=4)
    report = load(path, ignore="extra/*", num_heads=4).load_report
    assert report.dropped == ("extra/a/0",)
    path = ours(tmp_path, {**STATE, "more": {"a": torch.ones(2)}})
    with pytest.raises(UserError, match="more/a"):
        load(path, num_heads=4)


@pytest.mark.parametrize(
    "beside",
    [
        {"optimizer": {"state": {0: {"exp_avg": torch.ones(5)}}}},
        {"optimizer_states": [{"a": torch.ones(5)}], "epoch": 3},
        {"lr_schedulers": [torch.ones(2)], "loops": {"a": torch.ones(2)}},
        {"state_dict_ema": {"head.weight": torch.ones(5)}},
        {"rng_state": torch.ones(5000, dtype=torch.uint8)},
        {"best_acc1": torch.tensor(0.5), "args": {"lr": 0.1}},
    ],
    ids=lambda beside: next(iter(beside)),
)
def test_a_trainings_state_is_left_out_and_noted(tmp_path, beside):
    found = read_arrays(ours(tmp_path, {"state_dict": STATE, **beside}))
    assert found.arrays.keys() == STATE.keys()
    assert f"left out of w.pth: {', '.join(beside)}" in found.notes


def test_what_a_dialect_leaves_out_has_a_reason(tmp_path):
    path = write("timm", tmp_path, mask_token=torch.ones(1, 1, 8))
    report = load(path).load_report
    assert report.dropped == ("mask_token",)
    said = "arrays left out: 1, MAE's decoder, or a token for hidden patches"
    assert said in report.notes
