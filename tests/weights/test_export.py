"""Loaded models outside Python: torch.export, and ONNX under onnxruntime."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import nn

from vitedu import PreprocessSpec, UserError, classify, load
from vitedu.data import photo
from vitedu.model import Learned1D, Patches, Standard, new_network, vit_config
from vitedu.model.axial import Axial
from vitedu.model.hybrid import Hybrid
from vitedu.model.position import Learned2D, NoPosition, SinCos2D
from vitedu.model.relative import Relative, RoPE
from vitedu.pictures import normalise
from vitedu.weights.convert import convert
from vitedu.weights.export import PROGRAMS, FromPixels, to_onnx

from ..tiny import tiny
from . import examples

PACKAGES = ("onnx", "onnxruntime", "onnxscript")
pytestmark = [
    pytest.mark.slow,  # seconds each
    pytest.mark.skipif(
        not all(map(find_spec, PACKAGES)), reason="needs the extra onnx"
    ),
]

TINY = tiny(image_size=(32, 24), patch_size=8, depth=1)
TWO = replace(TINY, depth=2)  # what blocks share
BIT = replace(examples.BIT, image_size=(32, 24))
# every kind of every part, in as few networks as there are kinds of positions
KINDS = {
    "token": TINY,
    "no head, mean, no positions": replace(
        TINY, num_classes=0, pool="mean", position=NoPosition()
    ),
    "pre-logits, tanh, sin-cos": replace(
        TINY, pre_logits=7, gelu="tanh", position=SinCos2D()
    ),
    "map, sin-cos in blocks": replace(
        TINY, pool="map", position=SinCos2D(at="layers")
    ),
    "every token, 1-D shared": replace(
        TWO, pool="none", position=Learned1D(at="shared")
    ),
    "2-D, mean of patches": replace(
        TINY, position=Learned2D(), class_token=False, pool="mean"
    ),
    "2-D in blocks, quick": replace(
        TINY,
        position=Learned2D(at="layers"),
        gelu="quick",
        block=Standard(qkv_bias=False),
    ),
    "relative": replace(TINY, position=Relative()),
    "relative shared": replace(TWO, position=Relative(at="shared")),
    "rope, registers": replace(TINY, position=RoPE(), registers=2),
    "axial": replace(TINY, block=Axial()),
    "others' blocks": replace(
        TINY,
        stem=Patches(bias=False, norm=True),
        block=Standard(layer_scale=1e-5, qk_norm=True, swiglu=True),
        pool="mean_norm",
    ),
    "root": replace(TINY, stem=Hybrid(()), patch_size=2),
    "hybrid": replace(TINY, stem=Hybrid((1, 1), width=0.5), patch_size=1),
    "bit-v2": BIT,
    "bit-v2, zeros": replace(BIT, pool_padding="zeros"),
    "bit-v1": replace(BIT, family="bit-v1"),
}
# ONNX's exporter goes the way of torch.export first
BY_BOTH = ("token", "relative", "rope, registers", "axial", "hybrid", "bit-v2")


def classify_by(to, path):
    """A function that runs a program without vitedu, and its metadata."""
    if to == "onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(path)
        (given,), (output,) = session.get_inputs(), session.get_outputs()
        assert (given.name, given.type) == ("images", "tensor(uint8)")
        assert (given.shape[0], output.shape[0]) == ("batch", "batch")
        metadata = session.get_modelmeta().custom_metadata_map
        return (
            lambda x: torch.from_numpy(
                session.run(None, {"images": x.numpy()})[0]
            )
        ), metadata
    metadata = {"preprocess": "", "class_names": "", "loss": ""}
    program = torch.export.load(path, extra_files=metadata).module()
    return program, metadata


def pictures(config, b=2):
    torch.manual_seed(b)
    shape = b, config.in_channels, *config.image_size
    return torch.randint(256, shape, dtype=torch.uint8)


def largest(model, run, config):
    """The largest difference between two, and the largest output."""
    found = []
    for b in (1, 3):
        images = pictures(config, b)
        want = model(normalise(images, model.preprocess))
        given = run(images)
        assert given.shape == want.shape and given.dtype == torch.float32
        found.append((given - want).abs().max().item())
    return max(found), want.abs().max().item()


@torch.no_grad()
@pytest.mark.parametrize(
    ("kind", "to"),
    [(x, "onnx") for x in KINDS] + [(x, "torch-export") for x in BY_BOTH],
)
def test_the_program_of_pixels_gives_the_models_numbers(kind, to, tmp_path):
    config = KINDS[kind]
    source = examples.write("vitedu", tmp_path, examples.checkpoint(config))
    target = tmp_path / f"model{PROGRAMS[to][0]}"
    done = convert(source, target, to=to)
    model = load(source)
    run, metadata = classify_by(to, target)
    difference, size = largest(model, run, config)
    # float32 with other kernels; sums of at most 1,000 terms
    assert difference < 1e-5 * size
    spec = PreprocessSpec.from_json(json.loads(metadata["preprocess"]))
    assert spec == model.preprocess
    assert json.loads(metadata["class_names"]) == list(model.class_names)
    assert (
        "of four images of noise differ from the model's by" in done.notes[-1]
    )
    assert [*tmp_path.glob("*.part")] == []


@torch.no_grad()
@pytest.mark.parametrize(
    ("to", "channels", "mean"),
    [("onnx", 3, (0.1, 0.3, 0.6)), ("torch-export", 1, 0.3)],
)
def test_a_model_in_half_precision_is_written_from_python(
    to, channels, mean, tmp_path
):
    model = new_network(replace(TINY, in_channels=channels))
    model.load_state_dict(examples.checkpoint(model.config).state_dict)
    model.eval().bfloat16()
    model.class_names, model.loss_name = (*"abcde",), "sigmoid"
    model.preprocess = PreprocessSpec(
        (32, 24), channels, mean, 0.2, "bicubic", 0.9
    )
    target = tmp_path / f"model{PROGRAMS[to][0]}"
    convert(model, target, to=to)
    run, metadata = classify_by(to, target)
    assert largest(model.float(), run, model.config)[0] < 1e-5
    assert json.loads(metadata["loss"]) == "sigmoid"
    assert json.loads(metadata["class_names"]) == [*"abcde"]
    # the same door leads to the other formats
    convert(model, tmp_path / "again.safetensors", to="vitedu")
    again = load(tmp_path / "again.safetensors")
    images = normalise(pictures(model.config), model.preprocess)
    assert torch.equal(again(images), model(images))


def test_a_program_that_computes_something_else_is_not_kept(tmp_path):
    model = new_network(TINY).eval()
    # the sum of a normed token is 0, but for rounding, which is all there is
    nn.init.constant_(model.head.weight, 1e6)
    with pytest.raises(UserError, match=r"by up to .* is more than rounding"):
        convert(model, tmp_path / "model.onnx", to="onnx")
    assert [*tmp_path.iterdir()] == []


def test_a_model_too_large_for_onnx_is_one_sentence(tmp_path):
    # shapes alone: 2.5 GB of weights
    with torch.device("meta"):
        network = FromPixels(new_network(vit_config("ViT-H/14")))
    with pytest.raises(UserError, match=r"2\.5 GB, .*--to torch-export"):
        to_onnx(network, torch.empty(0), {}, "logits")


@pytest.mark.parametrize("missing", PACKAGES)
def test_without_its_packages_onnx_is_refused_first(missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    want = rf"--to onnx needs {missing}; pip install 'vitedu\[onnx\]'"
    with pytest.raises(UserError, match=want):
        convert("nowhere.npz", "a.onnx", to="onnx")


@pytest.mark.parametrize(
    ("target", "to", "sentence"),
    [
        ("model.pt", "onnx", "a file that ends in .onnx, not to 'model.pt'"),
        ("folder", "torch-export", "a file that ends in .pt2"),
        ("here.onnx", "onnx", "is there already"),
    ],
)
def test_a_wrong_target_is_one_sentence(target, to, sentence, tmp_path):
    (tmp_path / "here.onnx").write_text("mine")
    with pytest.raises(UserError, match=sentence):
        convert("ViT-Ti/16", tmp_path / target, to=to)


@pytest.mark.parametrize("name", ["a.onnx", "a.pt2"])
def test_a_program_is_not_taken_for_weights(name, tmp_path):
    (tmp_path / name).write_bytes(b"PK")
    with pytest.raises(UserError, match="is an exported program"):
        load(tmp_path / name)


# --- the page that shows how to use the files


PAGE = (Path(__file__).parents[2] / "book" / "export.md").read_text("utf-8")


def lines_of(language):
    """The page's blocks of code in a language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with both files of a network, as the page calls them."""
    folder = tmp_path_factory.mktemp("written")
    convert("shapes-small", folder / "model.onnx", to="onnx")
    convert("shapes-small", folder / "model.pt2", to="torch-export")
    return folder


def test_the_pages_python_needs_nothing_of_vitedu(written):
    photo("cat").save(written / "photo.jpg", quality=95)
    by_onnx, by_torch = lines_of("python")
    assert "vitedu" not in by_onnx + by_torch
    seen = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=written,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for code in (by_onnx, by_torch)
    ]
    rows = [line.rsplit("  ", 1) for line in seen[0].splitlines()]
    guesses = classify("shapes-small", written / "photo.jpg", top=3)
    assert [name for name, _ in rows] == [name for name, _ in guesses]
    for (_, percent), (_, probability) in zip(rows, guesses, strict=True):
        assert abs(float(percent[:-1]) - 100 * probability) < 1
    assert len(seen[1].splitlines()) == 2


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_pages_javascript_is_a_module(tmp_path):
    (code,) = lines_of("javascript")
    (tmp_path / "use.mjs").write_text(code, encoding="utf-8")
    subprocess.run(["node", "--check", "use.mjs"], cwd=tmp_path, check=True)


def test_the_page_names_what_is_in_the_file(written):
    _, metadata = classify_by("onnx", written / "model.onnx")
    assert {"preprocess", "class_names"} <= metadata.keys()
    assert metadata.keys() <= {*re.findall(r"metadata `(\w+)`", PAGE), "resize"}
