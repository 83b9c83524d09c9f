"""The programs of benchmarks/lines: they run, and ours are the shortest."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import vitedu
from vitedu.weights import convert

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location(
    "table", ROOT / "benchmarks/lines/table.py"
)
table = importlib.util.module_from_spec(spec)
spec.loader.exec_module(table)

# The names that the programs ask the hub for, and the format found there.
HUB = {
    "timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k": "timm",
    "google/vit-base-patch16-224": "hf",
}
# The second is the one that transformers' pipeline pins for its default model.
REVISIONS = ("main", "3f49326")
# google/vit-base-patch16-224 squashes a picture to the model's size.
SQUASH = {
    "image_processor_type": "ViTImageProcessor",
    "do_resize": True,
    "do_rescale": True,
    "do_normalize": True,
    "size": {"height": 224, "width": 224},
    "resample": 2,
    "rescale_factor": 1 / 255,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}
# What a program needs besides its library; without it the program is skipped.
NEEDS = {
    "probe_timm": ["sklearn"],
    "probe_transformers": ["sklearn", "datasets"],
    "finetune_transformers": ["accelerate", "datasets"],
    "onnx_vitedu": ["onnx", "onnxruntime"],
    "onnx_timm": ["onnxscript"],
}
# Tasks that another library does in as few lines.
TIES = ("label", "folder", "resolution", "onnx")
# The others fetch their weights from GitHub and Kaggle, which no test does.
RUN_HERE = ("vitedu", "timm", "transformers", "fastai")
# Beside a CPU build of torch, torchvision's wheel cannot load its compiled part
# (see vitedu.compat), and with it the decoder that transformers reads a path
# with.
HELP = """
import numpy, torch
from PIL import Image
from vitedu.compat import import_torchvision

def decode(path, mode="RGB", apply_exif_orientation=False):
    pixels = numpy.array(Image.open(path).convert("RGB"))
    return torch.from_numpy(pixels).permute(2, 0, 1)

import_torchvision()
import torchvision.io
if not torchvision.extension._has_ops():
    torchvision.io.decode_image = decode
"""
# One after the other in one process, which imports the library once.
RUN = """
import contextlib, io, json, runpy, sys, traceback
printed = {}
for program in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            runpy.run_path(program, run_name="__main__")
        except BaseException:
            traceback.print_exc(file=out)
    printed[program] = out.getvalue()
print(json.dumps(printed))
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with a photograph, drawn photographs and the hub's cache."""
    here = tmp_path_factory.mktemp("lines")
    for name, form in HUB.items():
        model = here / "hf/hub" / f"models--{name.replace('/', '--')}"
        snapshot = model / "snapshots" / ("0" * 40)
        snapshot.parent.mkdir(parents=True)
        convert("ViT-Ti/16", snapshot, to=form)
        if form == "hf":
            processor = snapshot / "preprocessor_config.json"
            processor.write_text(json.dumps(SQUASH))
        (model / "refs").mkdir()
        for revision in REVISIONS:
            (model / "refs" / revision).write_text(snapshot.name)
    photos = Path(vitedu.__path__[0]) / "data/photos"
    shutil.copy(photos / "hopper.jpg", here / "photo.jpg")
    (here / "album").mkdir()
    shutil.copy(photos / "cat.jpg", here / "album")
    generator = np.random.default_rng(0)
    for part, number in (("train", 8), ("val", 4)):
        for name, channel in (("ants", 0), ("bees", 2)):
            folder = here / "photos" / part / name
            folder.mkdir(parents=True)
            for index in range(number):
                pixels = generator.integers(0, 80, (60, 80, 3), np.uint8)
                pixels[20:40, 20:60, channel] = 250
                Image.fromarray(pixels).save(folder / f"{index}.jpg")
    return here


def can_run(task, library):
    """Whether everything is installed that a program needs."""
    if library not in table.counts(task):
        return False
    names = [library, *NEEDS.get(f"{task}_{library}", [])]
    return all(importlib.util.find_spec(name) for name in names)


@pytest.fixture(scope="module", params=RUN_HERE)
def printed(request, here):
    """What the programs of a library print, run as they are in that folder."""
    library = request.param
    paths = {
        task: str(table.path(task, library))
        for task in table.TASKS
        if can_run(task, library)
    }
    for left in here.glob("model.onnx*"):  # by another library
        left.unlink()
    # ours needs no torchvision, and runs without any help
    start = RUN if library == "vitedu" else HELP + RUN
    done = subprocess.run(
        [sys.executable, "-c", start, *paths.values()],
        cwd=here,
        env=os.environ
        | {
            "HF_HOME": str(here / "hf"),
            "HF_HUB_OFFLINE": "1",
            "PYTHONPATH": str(ROOT),
            "VITEDU_CACHE": str(here / "cache"),
            "VITEDU_OFFLINE": "1",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    outputs = json.loads(done.stdout.splitlines()[-1])

    def printed_by(task):
        if task not in paths:
            pytest.skip(f"{library} is not installed, or what else it needs")
        return outputs[paths[task]]

    return printed_by


@pytest.mark.parametrize("task", table.TASKS)
def test_ours_is_the_shortest(task):
    found = table.counts(task)
    ours = found.pop("vitedu")
    if task in TIES:
        assert ours == min(found.values()) <= 3
    else:
        assert ours < min(found.values())


def test_the_page_has_the_table_of_today():
    text = table.PAGE.read_text()
    assert table.page(text) == text


def test_every_program_is_in_the_table():
    programs = {path.name for path in table.HERE.glob("*_*.py")}
    assert programs == {
        table.path(task, library).name
        for task in table.TASKS
        for library in table.counts(task)
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("label", "military uniform"),
        ("folder", "Egyptian cat"),
        ("resolution", "military uniform"),
        ("attention", "torch.Size([1, 3, 197, 197])"),
        ("blocks", "\n".join(4 * ["torch.Size([1, 192, 14, 14])"])),
    ],
)
def test_the_right_answer_is_printed(printed, task, said):
    assert said in printed(task)


@pytest.mark.slow
def test_a_probe_tells_red_from_blue(printed):
    # ours in percent, scikit-learn's a share
    assert float(printed("probe")) in (1, 100)


@pytest.mark.slow
def test_fine_tuning_prints_an_accuracy(printed, here):
    *_, last = printed("finetune").splitlines()
    assert 0 <= float(last) <= 100
    assert list(here.glob("tuned*"))


@pytest.mark.slow
def test_an_onnx_file_is_written(printed, here):
    printed("onnx")
    sizes = [path.stat().st_size for path in here.glob("model.onnx*")]
    assert sum(sizes) > 20_000_000  # 5.7 million weights
