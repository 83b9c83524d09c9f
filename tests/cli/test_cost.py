"""What `vitedu info RECIPE` says of memory, hours and commands."""

import re
import shlex

import pytest
from torch.distributed.run import get_args_parser

from vitedu.bench.trial import GPUS, fits, num_images
from vitedu.cli import main
from vitedu.cli.info import LOW_MEMORY, commands
from vitedu.train import override, recipe

pytestmark = pytest.mark.slow  # large networks, built on no device

B16 = recipe("imagenet-b16-384", "gpu")


def test_epochs_are_counted_where_the_data_are_known():
    assert num_images(B16) == 20_000 * 512
    assert num_images(recipe("paper-imagenet", "gpu")) == 300 * 1_281_167
    assert num_images(recipe("digits", "gpu")) is None


# --- settings for the smallest GPUs


def test_with_them_the_largest_recipe_fits_a_t4():
    largest = recipe("imagenet-l16-512", "gpu")
    assert fits(override(largest, LOW_MEMORY), GPUS["T4"].num_bytes)


# --- what is shown


def test_info_of_a_recipe_shows_hours_memory_and_commands(here, capsys):
    assert main(["info", "imagenet-b16-384"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for name in GPUS:
        assert re.search(rf" {name} \S+ (hours|minutes|days) on 1, ", out)
    for _, command in commands("imagenet-b16-384"):
        assert command in out
    assert "83.97%" in out and "GB of memory with micro_batch_size=" in out


def test_the_commands_for_one_for_eight_and_for_64(here):
    rows = commands("imagenet-b16-384")
    one, eight, many = (shlex.split(row[1]) for row in rows[:3])
    assert one[:2] == ["vitedu", "train"]
    assert eight[:3] == ["torchrun", "--nproc-per-node", "8"]
    assert many[1:5] == ["--nnodes", "8", "--nproc-per-node", "8"]
    assert "HOST:29500" in many and "--rdzv-endpoint" in many
    assert eight[-5:] == many[-5:] == ["-m", *one]
    for words in (eight, many):
        options = get_args_parser().parse_args(words[1:])
        assert (options.module, options.training_script) == (True, "vitedu")
        assert options.training_script_args[0] == "train"
