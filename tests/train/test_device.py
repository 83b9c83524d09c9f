"""The device that a name means; CPU threads: chosen, recorded, kept."""

import json
from dataclasses import replace

import pytest
import torch

from tests.train.runs import SHORT, stopper
from vitedu.errors import UserError
from vitedu.model import vit_config
from vitedu.train import find_device, fit, recipe
from vitedu.train.processes.device import choose_threads, cpu_threads
from vitedu.train.run_folder import RunFolder

CONFIG = replace(SHORT, steps=4, log_every=1)


@pytest.fixture
def three_threads():
    """PyTorch as on a machine with three cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def used(config, **options):
    """The threads that each line of the log was computed with."""
    seen = []
    options["on_progress"] = lambda _: seen.append(torch.get_num_threads())
    fit(config, "run", **options)
    return {*seen}


def recorded():
    return RunFolder("run").read_config().threads


@pytest.mark.parametrize("name", ["digits", "mnist-seed", "mnist-small"])
def test_small_recipes_take_one_thread(name):
    assert choose_threads(recipe(name, "cpu"), 64) == 1


def test_a_large_model_takes_all_by_what_is_in_memory_at_a_time():
    config = replace(CONFIG, model=vit_config("ViT-Ti/16"), batch_size=64)
    assert choose_threads(config, 8) == 8
    assert choose_threads(replace(config, micro_batch_size=1), 8) == 1


@pytest.mark.parametrize(("asked", "taken"), [(None, 1), (2, 2)])
def test_a_run_uses_and_records_its_threads(here, three_threads, asked, taken):
    assert used(replace(CONFIG, threads=asked)) == {taken}
    assert recorded() == taken


@pytest.mark.slow
def test_a_run_that_goes_on_keeps_its_threads(here, three_threads):
    used(replace(CONFIG, threads=2), should_stop=stopper(1))
    assert used(CONFIG, should_stop=stopper(1)) == {2}
    assert used(replace(CONFIG, threads=3)) == {3}
    assert recorded() == 3


def test_a_run_from_before_there_were_threads_keeps_those_of_pytorch(
    here, three_threads
):
    fit(CONFIG, "run", should_stop=stopper(1))
    path = here / "run" / "config.json"
    values = json.loads(path.read_text())
    del values["threads"]
    path.write_text(json.dumps(values))
    assert used(CONFIG) == {3}


def test_the_threads_are_put_back_behind_an_error(three_threads):
    with pytest.raises(ZeroDivisionError), cpu_threads(1):
        assert torch.get_num_threads() == 1
        raise ZeroDivisionError
    assert torch.get_num_threads() == 3


# --- devices

HERE = [
    name
    for name, there in (
        ("cuda", torch.cuda.is_available()),
        ("mps", torch.backends.mps.is_available()),
        ("cpu", True),
    )
    if there
]


def test_auto_is_the_first_of_cuda_mps_cpu():
    assert find_device("auto").type == HERE[0]
    for name in HERE:
        assert torch.ones(2, device=find_device(name)).sum().item() == 2


@pytest.mark.parametrize(
    "name", [name for name in ("cuda", "cuda:0", "mps") if name[:4] not in HERE]
)
def test_a_device_that_is_absent_is_one_sentence_naming_what_is_there(name):
    with pytest.raises(
        UserError, match=f"doesn't have the device '{name}'"
    ) as error:
        find_device(name)
    assert str(error.value).endswith("it has " + ", ".join(HERE))
