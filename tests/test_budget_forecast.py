"""Memory of a step and hours on GPUs, as they are predicted."""

import pytest
import torch

from vitedu import budget
from vitedu.budget.forecast import (
    FEWEST,
    GPUS,
    Step,
    fits,
    fitted,
    gpu_hours,
    step_memory,
)
from vitedu.model import vit_config

pytestmark = pytest.mark.slow  # large networks, built on no device

# of two blocks, which are counted sooner than twelve
SHALLOW = Step(
    vit_config("ViT-B/16", depth=2, image_size=384),
    batch_size=512,
    optimizer="sgd",
    precision="bf16",
)


@pytest.mark.parametrize("name", GPUS)
def test_the_hours_are_those_of_the_formula(name):
    # images x 6 operations per multiply-add / (peak x share of it)
    gpu, images = GPUS[name], 20_000 * 512
    peak = budget.datasheet(name, gpu.precision)
    seconds = images * 6 * budget.macs(SHALLOW.model) / (peak * gpu.mfu)
    hours = gpu_hours(SHALLOW.model, images, name)
    assert hours == pytest.approx(seconds / 3600)
    # blocks that are computed twice cost a third more
    twice = gpu_hours(SHALLOW.model, images, name, checkpointing=True)
    assert twice / hours == pytest.approx(4 / 3)


def test_room_is_what_the_budget_says_and_the_rest_of_the_batch():
    held = budget.memory(
        SHALLOW.model,
        batch_size=64,
        optimizer="sgd",
        autocast=torch.bfloat16,
    )
    images = (512 - 64) * 3 * 384 * 384 * 4
    found = step_memory(SHALLOW._replace(micro_batch_size=64))
    assert (found.total, found.images) == (held.total + images, images)


def test_processes_share_the_batch_and_sharded_weights():
    eight = SHALLOW._replace(num_processes=8)
    alone = SHALLOW._replace(batch_size=64)
    assert step_memory(eight) == step_memory(alone)
    part = step_memory(eight._replace(shard=True))
    assert part.weights == step_memory(eight).weights // 8


def test_an_average_takes_as_much_as_the_weights():
    weights = 4 * budget.parameters(SHALLOW.model).total
    with_average = step_memory(SHALLOW._replace(ema=True)).total
    assert with_average - step_memory(SHALLOW).total == weights


@pytest.mark.parametrize("giga", [1.3, 1.6, 3, 8, 15, 1000])
def test_what_is_made_to_fit_fits(giga):
    step = fitted(SHALLOW, giga * 1e9)
    assert fits(step, giga * 1e9)
    if step != SHALLOW:
        size = step.micro_batch_size
        assert size >= FEWEST or step.checkpointing
        # the next larger size doesn't fit
        larger = step._replace(micro_batch_size=2 * size)
        assert not fits(larger, giga * 1e9)


def test_what_fits_stays_and_where_nothing_helps_there_is_no_advice():
    assert fitted(SHALLOW, 1e12) is SHALLOW
    assert fitted(SHALLOW, 1e9) is None


def test_a_micro_batch_is_never_advised_to_grow():
    found = fitted(SHALLOW._replace(micro_batch_size=4), 1.29e9)
    assert found.checkpointing and found.micro_batch_size <= 4
