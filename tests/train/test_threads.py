"""CPU threads: chosen by the configuration alone, recorded, kept, put back."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from vitedu.model import ViTConfig, vit_config
from vitedu.train import TrainConfig, fit, recipe
from vitedu.train.processes.device import choose_threads, cpu_threads
from vitedu.train.run_folder import RunFolder

CONFIG = TrainConfig(
    recipe="test",
    tier="cpu",
    model=ViTConfig(
        image_size=8,
        patch_size=4,
        in_channels=1,
        num_classes=3,
        embed_dim=8,
        depth=1,
        num_heads=2,
        mlp_dim=16,
    ),
    dataset="set.npz",
    steps=4,
    batch_size=8,
    log_every=1,
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a small set of three classes."""
    monkeypatch.chdir(tmp_path)
    drawn, arrays = np.random.default_rng(0), {}
    for part, count in (("train", 24), ("test", 9)):
        arrays[f"x_{part}"] = drawn.integers(0, 256, (count, 8, 8), np.uint8)
        arrays[f"y_{part}"] = np.arange(count) % 3
    np.savez("set.npz", **arrays)
    return tmp_path


@pytest.fixture
def three_threads():
    """PyTorch as on a machine with three cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def used(config, out=None, **options):
    """The threads that each line of the log was computed with."""
    seen = []
    fit(
        config,
        out,
        on_progress=lambda _: seen.append(torch.get_num_threads()),
        **options,
    )
    return {*seen}


def stopper(steps):
    """A should_stop that says yes after so many steps of this call."""
    counter = iter(range(1, 1000))
    return lambda: next(counter) == steps


@pytest.mark.parametrize("name", ["digits", "mnist-seed", "mnist-small"])
def test_small_recipes_take_one_thread(name):
    assert choose_threads(recipe(name, "cpu"), 64) == 1


def test_a_large_model_takes_all():
    config = replace(CONFIG, model=vit_config("ViT-B/16"), batch_size=64)
    assert choose_threads(config, 64) == 64


def test_what_counts_is_what_is_in_memory_at_a_time():
    config = replace(CONFIG, model=vit_config("ViT-Ti/16"), batch_size=64)
    assert choose_threads(config, 8) == 8
    assert choose_threads(replace(config, micro_batch_size=1), 8) == 1


def test_a_run_uses_and_records_its_threads(here, three_threads):
    assert used(CONFIG, "run") == {1}
    assert RunFolder("run").read_config().threads == 1


def test_threads_that_are_asked_for_are_taken(here, three_threads):
    assert used(replace(CONFIG, threads=2), "run") == {2}
    assert RunFolder("run").read_config().threads == 2


def test_a_run_that_goes_on_keeps_its_threads(here, three_threads):
    asked = replace(CONFIG, threads=2)
    used(asked, "run", should_stop=stopper(1))
    assert used(CONFIG, "run", should_stop=stopper(1)) == {2}
    assert used(replace(CONFIG, threads=3), "run") == {3}
    assert RunFolder("run").read_config().threads == 3


def test_a_run_from_before_there_were_threads_keeps_those_of_pytorch(
    here, three_threads
):
    fit(CONFIG, "run", should_stop=stopper(1))
    path = here / "run" / "config.json"
    values = json.loads(path.read_text())
    del values["threads"]
    path.write_text(json.dumps(values))
    assert used(CONFIG, "run") == {3}


def test_the_threads_are_put_back_behind_a_run(here, three_threads):
    fit(CONFIG)
    assert torch.get_num_threads() == 3


def test_the_threads_are_put_back_behind_an_error(three_threads):
    with pytest.raises(ZeroDivisionError), cpu_threads(1):
        assert torch.get_num_threads() == 1
        raise ZeroDivisionError
    assert torch.get_num_threads() == 3
