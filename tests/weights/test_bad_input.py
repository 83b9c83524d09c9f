"""Files that are damaged, hostile or somebody else's: one sentence, or success.

Never code from a file, never half a model, never a gigabyte because a header
says so.
"""

import argparse
import io
import json
import os
import pickle
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

from vitedu.errors import UserError
from vitedu.model import ViT, ViTConfig
from vitedu.pictures import PreprocessSpec
from vitedu.weights import Checkpoint, load
from vitedu.weights.npz import from_vitedu

TINY = ViTConfig(
    image_size=8,
    patch_size=4,
    num_classes=3,
    embed_dim=8,
    depth=2,
    num_heads=2,
    mlp_dim=16,
    gelu="tanh",
)


def drawn_model():
    torch.manual_seed(0)
    model = ViT(TINY)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    return model.eval()


def google_arrays():
    """The weights under Google's names, which are a ViT in every container."""
    return from_vitedu(Checkpoint(TINY, drawn_model().state_dict()))


def save_npz(arrays, path):
    named = {}
    for name, array in arrays.items():
        is_bfloat16 = array.dtype == torch.bfloat16
        bits = array.view(torch.int16) if is_bfloat16 else array
        named[name] = bits.numpy().view("V2") if is_bfloat16 else bits.numpy()
    np.savez(path, **named)


def save_old_torch(arrays, path):
    torch.save(arrays, path, _use_new_zipfile_serialization=False)


def save_shards(arrays, path):
    names = list(arrays)
    half, places = len(names) // 2, {}
    for i, part in enumerate((names[:half], names[half:])):
        file = f"part{i}.safetensors"
        save_file({key: arrays[key] for key in part}, path.parent / file)
        places |= dict.fromkeys(part, file)
    path.write_text(json.dumps({"weight_map": places}))


CONTAINERS = {
    "w.npz": save_npz,
    "w.safetensors": save_file,
    "w.pth": torch.save,
    "old.pth": save_old_torch,
    "model.safetensors.index.json": save_shards,
}
FILES = [name for name in CONTAINERS if not name.endswith(".json")]


def sentence(path, **overrides):
    with pytest.raises(UserError) as error:
        load(path, **overrides)
    said = str(error.value)
    assert "\n" not in said and str(path.parent) in said
    return said


def write(name, folder, arrays=None):
    path = folder / name
    CONTAINERS[name](google_arrays() if arrays is None else arrays, path)
    return path


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_good_file_gives_the_model(tmp_path, name):
    model = load(write(name, tmp_path))
    images = torch.randn(2, 3, 8, 8)
    assert torch.equal(model(images), drawn_model()(images))


# --- truncated, empty, another kind of file


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("share", [0.01, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_one_sentence(tmp_path, name, share):
    path = write(name, tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    sentence(path)


def test_a_truncated_shard_is_one_sentence(tmp_path):
    path = write("model.safetensors.index.json", tmp_path)
    shard = tmp_path / "part1.safetensors"
    shard.write_bytes(shard.read_bytes()[:-100])
    assert "part1.safetensors" in sentence(path)


@pytest.mark.parametrize("name", CONTAINERS)
def test_an_empty_file_is_one_sentence(tmp_path, name):
    (tmp_path / name).touch()
    sentence(tmp_path / name)


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize(
    "content",
    [
        b"This is a text file, renamed.\n" * 40,
        b"\x00" * 1000,
        b"\xff" * 1000,
        b"PK\x03\x04" + b"\x00" * 100,
        b"PK\x05\x06" + b"\x00" * 18,  # an archive of nothing
        b"\x80\x02.",  # a pickle of nothing
        b"\x93NUMPY",
    ],
)
def test_another_kind_of_file_renamed_is_one_sentence(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    sentence(tmp_path / name)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("other", FILES)
def test_one_container_under_the_name_of_another_is_one_sentence(
    tmp_path, name, other
):
    path = write(name, tmp_path)
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
        write(name, tmp_path)
        (tmp_path / "whole").write_bytes(path.read_bytes())
    content = bytearray((tmp_path / "whole").read_bytes())
    content[int(where * len(content))] = byte
    path.write_bytes(content)
    try:
        model = load(path)
    except UserError as error:
        assert "\n" not in str(error)
    else:
        assert model(torch.randn(1, 3, 8, 8)).shape == (1, 3)


# --- code in a file


class Evil:
    """Unpickled, it would make a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("wrap", ["model", None])
def test_a_pickle_that_would_run_code_does_not(tmp_path, is_old, wrap):
    evil = Evil(tmp_path / "harm")
    content = google_arrays() | {"evil": evil}
    torch.save(
        {wrap: content} if wrap else content,
        tmp_path / "w.pth",
        _use_new_zipfile_serialization=not is_old,
    )
    assert f"{os.mkdir.__module__}.mkdir" in sentence(tmp_path / "w.pth")
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("suffix", ["pth", "pt", "bin", "ckpt", "npz"])
def test_a_bare_pickle_that_would_run_code_does_not(tmp_path, suffix):
    path = tmp_path / f"w.{suffix}"
    path.write_bytes(pickle.dumps(Evil(tmp_path / "harm")))
    sentence(path)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("is_old", [False, True])
def test_what_a_checkpoint_holds_besides_is_named(tmp_path, is_old):
    content = {
        "model": google_arrays(),
        "args": argparse.Namespace(lr=0.1),
    }
    torch.save(
        content,
        tmp_path / "w.pth",
        _use_new_zipfile_serialization=not is_old,
    )
    assert "plain types: argparse.Namespace;" in sentence(tmp_path / "w.pth")


def test_a_whole_module_is_named(tmp_path):
    torch.save(nn.Linear(2, 2), tmp_path / "w.pth")
    assert "torch.nn.modules.linear.Linear" in sentence(tmp_path / "w.pth")


def test_many_things_besides_are_counted(tmp_path):
    torch.save(drawn_model(), tmp_path / "w.pth")
    assert re.search(r", and \d+ more; reading", sentence(tmp_path / "w.pth"))


def test_a_script_is_named(tmp_path):
    with pytest.warns(DeprecationWarning):
        torch.jit.save(torch.jit.script(nn.Linear(2, 2)), tmp_path / "w.pt")
    assert "TorchScript" in sentence(tmp_path / "w.pt")


@pytest.mark.parametrize(
    "content", [[1, 2], 3, {}, {"epoch": 3}, {1: torch.ones(2)}, torch.ones(2)]
)
def test_a_checkpoint_without_named_tensors_is_one_sentence(tmp_path, content):
    torch.save(content, tmp_path / "w.pth")
    assert "no dictionary of named tensors" in sentence(tmp_path / "w.pth")


@pytest.mark.parametrize(
    "array",
    [torch.eye(3).to_sparse(), torch.zeros(3, device="meta")],
    ids=["sparse", "meta"],
)
def test_tensors_that_are_no_plain_arrays_are_one_sentence(tmp_path, array):
    torch.save(google_arrays() | {"head/bias": array}, tmp_path / "w.pth")
    assert "weights are plain arrays" in sentence(tmp_path / "w.pth")


def test_object_arrays_are_one_sentence(tmp_path):
    path = write("w.npz", tmp_path)
    with zipfile.ZipFile(path, "a") as archive:
        content = io.BytesIO()
        np.save(content, np.array([Evil(tmp_path / "harm")]), allow_pickle=True)
        archive.writestr("extra.npy", content.getvalue())
    assert "Python objects" in sentence(path)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    "array",
    [
        np.array(["text"]),
        np.array([1j]),
        np.zeros(3, [("a", "f4"), ("b", "f4")]),
        np.zeros(3, "V4"),
        np.zeros(3, "M8[s]"),
        np.zeros(3, np.longdouble),
    ],
)
def test_arrays_of_no_numbers_are_one_sentence(tmp_path, array):
    arrays = {key: x.numpy() for key, x in google_arrays().items()}
    np.savez(tmp_path / "w.npz", **arrays | {"head/bias": array})
    assert "weights are numbers" in sentence(tmp_path / "w.npz")


# --- archives


@pytest.mark.parametrize(
    "member",
    [
        "../evil.npy",
        "a/../../evil.npy",
        "..\\evil.npy",
        "/tmp/evil.npy",
        "C:\\evil.npy",
        "..",
    ],
)
@pytest.mark.parametrize("name", ["w.npz", "w.pth"])
def test_a_member_that_points_outside_is_one_sentence(tmp_path, name, member):
    path = write(name, tmp_path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(member, b"harm")
    assert "points out of the archive" in sentence(path)


def test_a_member_that_is_no_array_is_one_sentence(tmp_path):
    path = write("w.npz", tmp_path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("read.me", b"hello")
    assert "'read.me', which is not an array" in sentence(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_twice_is_one_sentence(tmp_path):
    path = write("w.npz", tmp_path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("cls.npy", b"hello")
    assert "'cls.npy' twice" in sentence(path)


def test_a_member_hidden_by_a_wrong_length_is_missed(tmp_path):
    path = write("w.npz", tmp_path)
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"PK\x01\x02", 0, content.rindex(b"PK\x01\x02"))
    rest = len(content) - content.rindex(b"PK\x01\x02") - 22
    content[entry + 32 : entry + 34] = rest.to_bytes(2, "little")  # its comment
    path.write_bytes(content)
    assert "damaged list" in sentence(path)


# --- headers that promise what is not there


def npy(shape, descr="'<f4'", data=b"\0" * 64, version=1):
    """One .npy with a header of any content."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"
    size = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size + text.encode() + data


NPY = {
    "2^40 elements": npy((2**40,)),
    "2^20 rows of 2^20": npy((2**20, 2**20)),
    "more than an int64": npy((10**30,)),
    "one too many": npy((17,)),
    "one too few": npy((15,)),
    "minus one": npy((-1,)),
    "minus times minus": npy((-4, -4)),
    "a flag for a side": npy((True, 16)),
    "no tuple": npy("16"),
    "text for sides": npy("('a',)"),
    "no header": b"\x93NUMPY\x01\x00\xff\xff",
    "another version": npy((16,), version=9),
    "a long header": npy((16,), descr="'<f4'" + " " * 20000),
    "a deep header": npy("(" * 3000 + ")" * 3000),
    "a huge number": npy("(" + "9" * 9000 + ",)"),
    "code for a header": npy("__import__('os').mkdir('harm')"),
    "a header of 4 GB": b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 99,
    "an unknown type": npy((16,), descr="'<q9'"),
    "a nested type": npy((16,), descr="[('a', '<f4', (1000000, 1000000))]"),
    "nothing": b"",
    "text": b"hello",
}


TOO_MANY = ("2^40 elements", "2^20 rows of 2^20", "one too many", "one too few")


def with_member(folder, content, **more):
    path = write("w.npz", folder, google_arrays())
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("extra.npy", content, **more)
    return path


@pytest.mark.filterwarnings("ignore:Reading `.npy`")  # a hint of numpy's
@pytest.mark.parametrize("case", NPY)
def test_an_npy_header_that_lies_is_one_sentence(tmp_path, case):
    said = sentence(with_member(tmp_path, NPY[case]))
    assert "extra cannot be read" in said and len(said) < 1000
    assert case not in TOO_MANY or "its header promises" in said


def patched_sizes(path, size):
    """The archive's list says that its last member unpacks to `size` bytes."""
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"PK\x01\x02")
    content[entry + 24 : entry + 28] = size.to_bytes(4, "little")
    path.write_bytes(content)
    return path


def lying_list(folder, numel):
    """List and header agree on `numel` floats; 64 bytes are there."""
    content = npy((numel,))
    path = with_member(folder, content)
    return patched_sizes(path, len(content) - 64 + 4 * numel)


def test_a_list_that_lies_with_the_header_is_one_sentence(tmp_path):
    assert "extra cannot be read" in sentence(lying_list(tmp_path, 2**27))


def test_an_archive_that_unpacks_too_far_is_one_sentence(tmp_path):
    assert "would unpack to" in sentence(lying_list(tmp_path, 2**29))


def safetensors_bytes(header, data=b"\0" * 64, size=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (size or len(text)).to_bytes(8, "little") + text + data


def one(dtype="F32", shape=(16,), offsets=(0, 64), **more):
    tensor = {"dtype": dtype, "shape": list(shape), "data_offsets": offsets}
    return {"w": tensor | more}


SAFETENSORS = {
    "2^40 elements": safetensors_bytes(one(shape=[2**40], offsets=[0, 2**42])),
    "2^40 in 64 bytes": safetensors_bytes(one(shape=[2**40])),
    "2^20 rows of 2^20": safetensors_bytes(one(shape=[2**20, 2**20])),
    "more than a u64": safetensors_bytes(one(shape=[10**30])),
    "2^32 times 2^32": safetensors_bytes(one(shape=[2**32, 2**32])),
    "minus one": safetensors_bytes(one(shape=[-16])),
    "backwards": safetensors_bytes(one(offsets=[64, 0])),
    "beyond the end": safetensors_bytes(one(shape=[32], offsets=[0, 128])),
    "a hole": safetensors_bytes(one(shape=[8], offsets=[32, 64])),
    "an unknown type": safetensors_bytes(one(dtype="F99")),
    "a header of 2^60": safetensors_bytes({}, size=2**60),
    "a header of 90 MB": safetensors_bytes({}, size=90_000_000),
    "no JSON": safetensors_bytes(b"hello"),
    "a deep header": safetensors_bytes(b"[" * 100_000),
    "a list": safetensors_bytes([1, 2]),
    "arrays twice": safetensors_bytes(
        b'{"a":{"dtype":"F32","shape":[16],"data_offsets":[0,64]},'
        b'"b":{"dtype":"F32","shape":[16],"data_offsets":[0,64]}}'
    ),
}


@pytest.mark.parametrize("case", SAFETENSORS)
def test_a_safetensors_header_that_lies_is_one_sentence(tmp_path, case):
    path = tmp_path / "w.safetensors"
    path.write_bytes(SAFETENSORS[case])
    assert "cannot be read as safetensors" in sentence(path)


class Storage:
    """What a pickle of torch's says of a storage of `numel` floats."""

    def __init__(self, numel):
        self.numel = numel


class Claim:
    """A tensor that claims `size` numbers of a storage of `numel`."""

    def __init__(self, numel, size, stride):
        self.parts = Storage(numel), 0, size, stride, False, {}

    def __reduce__(self):
        return torch._utils._rebuild_tensor_v2, self.parts


class Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        if not isinstance(obj, Storage):
            return None
        return "storage", torch.FloatStorage, "0", "cpu", obj.numel


class OldPickler(Pickler):
    def persistent_id(self, obj):
        found = super().persistent_id(obj)
        return found and (*found, None)


def new_torch(path, claim):
    """The zip format of torch, with 16 floats in its one storage."""
    content = io.BytesIO()
    Pickler(content, protocol=2).dump({"w": claim})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", content.getvalue())
        archive.writestr("archive/byteorder", "little")
        archive.writestr("archive/data/0", bytes(64))
        archive.writestr("archive/version", "3\n")
    return path


def old_torch(path, claim):
    """The format before 1.6, with 16 floats in its one storage."""
    content = io.BytesIO()
    sizes = {"short": 2, "int": 4, "long": 4}
    about = {
        "protocol_version": 1001,
        "little_endian": True,
        "type_sizes": sizes,
    }
    for part in (0x1950A86A20F9469CFC6C, 1001, about):
        pickle.dump(part, content, protocol=2)
    OldPickler(content, protocol=2).dump({"w": claim})
    pickle.dump(["0"], content, protocol=2)
    content.write((16).to_bytes(8, "little") + bytes(64))
    path.write_bytes(content.getvalue())
    return path


CLAIMS = {
    "a storage of 2^40": Claim(2**40, (2**40,), (1,)),
    "a storage of 2^28": Claim(2**28, (2**28,), (1,)),
    "a tensor of 2^40": Claim(16, (2**40,), (1,)),
    "a tensor of 2^28": Claim(16, (2**28,), (1,)),
    "one number, 2^40 times": Claim(16, (2**20, 2**20), (0, 0)),
    "one number, 2^28 times": Claim(16, (2**28,), (0,)),
    "minus one": Claim(16, (-16,), (1,)),
}


@pytest.mark.parametrize("write_torch", [new_torch, old_torch])
def test_a_true_claim_is_read(tmp_path, write_torch):
    # so that the false ones fail for what they claim
    from vitedu.weights.files import read_arrays

    path = write_torch(tmp_path / "w.pth", Claim(16, (4, 4), (4, 1)))
    assert torch.equal(read_arrays(path).arrays["w"], torch.zeros(4, 4))


@pytest.mark.parametrize("write_torch", [new_torch, old_torch])
@pytest.mark.parametrize("case", CLAIMS)
def test_a_torch_file_that_lies_is_one_sentence(tmp_path, write_torch, case):
    sentence(write_torch(tmp_path / "w.pth", CLAIMS[case]))


TOO_LARGE = {
    "blocks": {"depth": 10**6},
    "stages": {"stem": {"name": "Hybrid", "layers": [10**9], "width": 1}},
    "width": {"embed_dim": 4_000_000},
    "positions": {"position": {"name": "SinCos2D"}, "image_size": [20_000] * 2},
    "classes": {"num_classes": 10**11},
    "registers": {"registers": 10**12},
}


def too_large(folder, case):
    """A file of vitedu's whose metadata promise another network."""
    path = folder / "w.safetensors"
    config = TINY.to_json() | TOO_LARGE[case]
    spec = PreprocessSpec(image_size=tuple(config["image_size"]))
    content = {"config": config, "preprocess": spec.to_json()}
    text = json.dumps(content | {"class_names": []})
    save_file(drawn_model().state_dict(), path, {"vitedu": text})
    return path


@pytest.mark.parametrize("case", TOO_LARGE)
def test_metadata_of_a_network_too_large_are_one_sentence(tmp_path, case):
    sentence(too_large(tmp_path, case))


def full_of_nothing(path):
    """A file of 9 TB that takes up no room on the disk."""
    start = b"PK\x03\x04" if path.suffix == ".pth" else b"\x80\x02"
    path.write_bytes(start)
    os.truncate(path, 2**43)
    return path


@pytest.mark.parametrize("name", ["w.npz", "w.safetensors", "w.pth", "w.pt"])
def test_a_file_larger_than_the_memory_is_one_sentence(tmp_path, name):
    path = full_of_nothing(tmp_path / name)
    assert "8.8 TB of memory" in sentence(path)


MEASURE = """
import resource, sys
from pathlib import Path
from vitedu.errors import UserError
from vitedu.weights import load

def peak():
    # in megabytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

good, *bad = map(Path, sys.argv[1:])
load(good)
for path in bad:
    before = peak()
    try:
        load(path)
        print(path.parent.name, "was loaded")
    except UserError:
        pass
    grown = peak() - before
    if grown > 50:
        print(path.parent.name, f"took {grown:.0f} MB")
print("done")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is Linux's")
def test_no_header_makes_it_allocate(tmp_path):
    good, files = write("w.pth", tmp_path), []

    def folder():
        path = tmp_path / f"case{len(files)}"
        path.mkdir()
        return path

    for content in NPY.values():
        files.append(with_member(folder(), content))
    for content in SAFETENSORS.values():
        files.append(folder() / "w.safetensors")
        files[-1].write_bytes(content)
    for claim in CLAIMS.values():
        files.append(new_torch(folder() / "w.pth", claim))
        files.append(old_torch(folder() / "w.pth", claim))
    for numel in (2**27, 2**29):
        files.append(lying_list(folder(), numel))
    for case in TOO_LARGE:
        files.append(too_large(folder(), case))
    for name in ("w.npz", "w.safetensors", "w.pth", "w.pt"):
        files.append(full_of_nothing(folder() / name))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MEASURE, good, *files],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "done\n", done.stdout + done.stderr


# --- keys, numbers, other networks


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize(
    "key",
    [
        *("cls", "head/bias", "Transformer/encoder_norm/scale"),
        "Transformer/encoderblock_1/MlpBlock_3/Dense_0/kernel",
        "Transformer/encoderblock_0/MultiHeadDotProductAttention_1/key/bias",
    ],
)
def test_a_missing_array_is_one_sentence(tmp_path, name, key):
    arrays = google_arrays()
    del arrays[key]
    said = sentence(write(name, tmp_path, arrays))
    assert (
        key in said or key == "cls"
    )  # without it, a row of positions is too many


@pytest.mark.parametrize("name", CONTAINERS)
def test_an_array_too_many_is_named(tmp_path, name):
    arrays = google_arrays() | {"Transformer/extra": torch.ones(2)}
    assert "Transformer/extra" in sentence(write(name, tmp_path, arrays))


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize(
    ("key", "shape"),
    [
        ("head/bias", (4,)),
        ("head/kernel", (8,)),
        ("embedding/kernel", (4, 4, 3, 16)),
        ("embedding/bias", ()),
        ("Transformer/encoderblock_1/LayerNorm_0/bias", (1, 8)),
        (
            "Transformer/encoderblock_1/"
            "MultiHeadDotProductAttention_1/key/kernel",
            (8, 4, 2),
        ),
    ],
)
def test_an_array_of_another_shape_is_one_sentence(tmp_path, name, key, shape):
    arrays = google_arrays() | {key: torch.ones(shape)}
    sentence(write(name, tmp_path, arrays))


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_one_sentence(tmp_path, name, value):
    arrays = google_arrays()
    arrays["Transformer/encoder_norm/bias"][3] = value
    assert "NaN or infinity in norm.bias" in sentence(
        write(name, tmp_path, arrays)
    )


def test_what_is_no_number_in_half_precision_is_one_sentence(tmp_path):
    arrays = google_arrays()
    arrays["head/kernel"][0, 0] = 1e6  # float16 ends at 65,504
    path = write("w.npz", tmp_path, arrays)
    load(path)
    assert "(as torch.float16)" in sentence(path, dtype=torch.float16)


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_dumps_come_in_float32(tmp_path, name, dtype):
    arrays = {k: v.to(dtype) for k, v in google_arrays().items()}
    model = load(write(name, tmp_path, arrays))
    for key, weight in drawn_model().state_dict().items():
        assert torch.equal(model.state_dict()[key], weight.to(dtype).float())


@pytest.mark.parametrize("name", CONTAINERS)
def test_whole_numbers_for_weights_are_one_sentence(tmp_path, name):
    arrays = google_arrays()
    arrays["head/kernel"] = arrays["head/kernel"].to(torch.int8)
    assert "weights are floats" in sentence(write(name, tmp_path, arrays))


@pytest.mark.parametrize("name", [x for x in CONTAINERS if x != "w.npz"])
@pytest.mark.parametrize("key", ["a\nb", "\x1b[2Jgone", "a\0b"])
def test_a_name_that_would_write_on_the_screen_is_quoted(tmp_path, name, key):
    arrays = google_arrays() | {key: torch.ones(2)}
    assert repr(key) in sentence(write(name, tmp_path, arrays))


def test_a_member_that_would_write_on_the_screen_is_quoted(tmp_path):
    path = write("w.npz", tmp_path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("\x1b[2J\n.npy", npy((16,)))
    assert r"'\x1b[2J\n.npy'" in sentence(path)


OTHERS = {
    "DINOv2": ["blocks.0.ls1.gamma", "cls_token", "blocks.0.attn.qkv.weight"],
    "DINOv2 of Hugging Face": ["encoder.layer.0.layer_scale1.lambda1"],
    "BEiT": ["blocks.0.gamma_1", "cls_token"],
    "CLIP": ["visual.transformer.resblocks.0.ln_1.weight", "logit_scale"],
    "CLIP of Hugging Face": ["vision_model.pre_layrnorm.weight"],
    "CLIP of timm": ["norm_pre.weight", "blocks.0.attn.qkv.weight"],
    "SigLIP": ["vision_model.head.probe"],
    "SigLIP of big_vision": ["params/img/embedding/kernel", "params/txt/a/b"],
    "Swin": ["layers.0.blocks.0.attn.relative_position_bias_table"],
    "Swin of torchvision": ["features.1.0.attn.relative_position_bias_table"],
    "Swin of Hugging Face": [
        "swin.encoder.layers.0.blocks.0.attention.self"
        ".relative_position_bias_table"
    ],
    "ConvNeXt": ["stages.0.0.dwconv.weight"],
    "ConvNeXt of timm": ["stages.0.blocks.0.conv_dw.weight"],
    "ConvNeXt of torchvision": ["features.1.0.layer_scale"],
    "ConvNeXt of Hugging Face": [
        "convnext.encoder.stages.0.layers.0.dwconv.weight"
    ],
    "MLP-Mixer": ["MixerBlock_0/token_mixing/Dense_0/kernel", "stem/kernel"],
    "a ResNet with BatchNorm": ["layer1.0.bn1.running_mean", "conv1.weight"],
}


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("other", OTHERS)
def test_other_networks_are_refused_by_name(tmp_path, name, other):
    arrays = {key: torch.ones(4, 4) for key in OTHERS[other]}
    said = sentence(write(name, tmp_path, arrays))
    assert f"weights of {other.partition(' of ')[0]}" in said


@pytest.mark.parametrize("name", CONTAINERS)
def test_what_nobody_knows_is_one_sentence(tmp_path, name):
    arrays = {"transformer.h.0.attn.c_attn.weight": torch.ones(4, 4)}
    said = sentence(write(name, tmp_path, arrays))
    assert "belong to no known ViT" in said and "c_attn" in said
