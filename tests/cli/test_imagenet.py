"""ImageNet's fine-tuning from end to end, on a few of its pictures."""

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

import vitedu
from vitedu.cli import main
from vitedu.cli.train import configured

SAMPLE = Path(os.environ.get("VITEDU_DATA") or "/nowhere") / "imagenet-sample"
CLASSES = 20
WORDS = [
    *("train", "imagenet-b16-384", "data=imagenet", "--tier", "smoke"),
    *("--device", "cpu", "steps=6", "log_every=1", "save_every=2"),
]
pytestmark = pytest.mark.skipif(
    not SAMPLE.is_dir(), reason="VITEDU_DATA/imagenet-sample is not there"
)


@pytest.fixture
def imagenet(here):
    """Train/ and val/ of a few classes, which share their one picture."""
    for picture in sorted(SAMPLE.glob("*.JPEG"))[:CLASSES]:
        code, _, _ = picture.name.partition("_")
        for part in ("train", "val"):
            folder = here / "imagenet" / part / code
            folder.mkdir(parents=True)
            shutil.copy(picture, folder)
    return here


def kill_at(step, process, folder):
    """Start the run, and kill it once it has logged a step."""
    child = process.start(*WORDS, "--out", folder)
    log = Path(folder, "log.jsonl")
    while not log.exists() or f'"step": {step},' not in log.read_text():
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    return process.wait()


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_weights(imagenet, process, capsys):
    assert kill_at(3, process, "parts").code == -signal.SIGKILL
    steps = [
        json.loads(line)["step"]
        for line in Path("parts/log.jsonl").read_text().splitlines()
    ]
    assert max(steps) < 6
    assert main([*WORDS, "--out", "parts"]) == 0
    assert ", going on at step 2" in capsys.readouterr().err
    assert main([*WORDS, "--out", "whole"]) == 0
    assert "from ViT-Ti/16" in capsys.readouterr().err
    files = [Path(x, "model.safetensors") for x in ("parts", "whole")]
    assert files[0].read_bytes() == files[1].read_bytes()
    model = vitedu.load("parts")
    assert model.num_classes == CLASSES
    assert model.config.embed_dim == 192


def test_other_weights_bring_their_network_and_their_range(imagenet):
    model = vitedu.vit("ViT-Ti/16", depth=1, num_classes=3, image_size=32)
    model.preprocess = vitedu.PreprocessSpec(32, mean=0.1, std=0.2)
    vitedu.save(model, "mine.safetensors")
    words = {"weights": "mine.safetensors", "data": "imagenet"}
    config = configured("imagenet-b16-384", "smoke", words)
    assert (config.model.depth, config.model.num_classes) == (1, CLASSES)
    assert config.model.image_size == (64, 64)
    assert config.preprocess.mean == (0.1, 0.1, 0.1)
    assert config.preprocess.crop is None
