"""Memory of a step and hours on GPUs, as they are predicted."""

from dataclasses import replace

import pytest
import torch

from vitedu import budget
from vitedu.bench.trial import (
    FEWEST,
    GPUS,
    added_words,
    fits,
    fitted,
    gpu_hours,
    out_of_memory,
    quick,
    step_memory,
)
from vitedu.train import override, recipe

pytestmark = pytest.mark.slow  # large networks, built on no device

# of two blocks, which are counted sooner than twelve; batches of 512
SHALLOW = override(
    recipe("imagenet-b16-384", "gpu"), {"model.depth": "2", "precision": "bf16"}
)


@pytest.mark.parametrize("name", GPUS)
def test_the_hours_are_those_of_the_formula(name):
    # images x 6 operations per multiply-add / (peak x share of it)
    gpu, images = GPUS[name], 20_000 * 512
    peak = budget.datasheet(name, gpu.precision)
    seconds = images * 6 * budget.macs(SHALLOW.model) / (peak * gpu.mfu)
    hours = gpu_hours(SHALLOW, images, name)
    assert hours == pytest.approx(seconds / 3600)
    # blocks that are computed twice cost a third more
    twice = replace(SHALLOW, activation_checkpointing=True)
    assert gpu_hours(twice, images, name) / hours == pytest.approx(4 / 3)


def test_room_is_what_the_budget_says_and_the_rest_of_the_batch():
    held = budget.memory(
        SHALLOW.model, batch_size=64, optimizer="sgd", autocast=torch.bfloat16
    )
    images = (512 - 64) * 3 * 384 * 384 * 4
    found = step_memory(replace(SHALLOW, micro_batch_size=64))
    assert (found.total, found.images) == (held.total + images, images)


def test_processes_share_the_batch_and_sharded_weights():
    eight = step_memory(SHALLOW, 8)
    assert eight == step_memory(replace(SHALLOW, batch_size=64))
    part = step_memory(replace(SHALLOW, shard=True), 8)
    assert part.weights == eight.weights // 8


def test_an_average_takes_as_much_as_the_weights():
    weights = 4 * budget.parameters(SHALLOW.model).total
    with_average = step_memory(replace(SHALLOW, ema=0.9)).total
    assert with_average - step_memory(SHALLOW).total == weights


@pytest.mark.parametrize("giga", [1.3, 1.6, 3, 8, 15, 1000])
def test_what_is_made_to_fit_fits(giga):
    found = fitted(SHALLOW, giga * 1e9)
    assert fits(found, giga * 1e9)
    words = added_words(found, SHALLOW)  # which can be typed
    typed = dict(word.split("=") for word in words.split())
    assert override(SHALLOW, typed) == found
    if found != SHALLOW:
        size = found.micro_batch_size
        assert size >= FEWEST or found.activation_checkpointing
        # the next larger size doesn't fit
        larger = replace(found, micro_batch_size=2 * size)
        assert not fits(larger, giga * 1e9)


def test_what_fits_stays_and_where_nothing_helps_there_is_no_advice():
    assert fitted(SHALLOW, 1e12) is SHALLOW
    assert fitted(SHALLOW, 1e9) is None


def test_a_micro_batch_is_never_advised_to_grow():
    found = fitted(replace(SHALLOW, micro_batch_size=4), 1.29e9)
    assert found.activation_checkpointing and found.micro_batch_size <= 4


def test_steps_on_a_cpu_are_of_as_many_images_as_take_seconds():
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    config = replace(SHALLOW, threads=2, compile=True, num_workers=1)
    # 3 * 2 * 9.6e9 operations an image, at 4e10 a second
    small = quick(config, cpu, 1)
    assert (small.batch_size, small.compile) == (2, False)
    assert quick(config, cpu, 3).batch_size == 6
    assert quick(config, cuda, 1) == replace(config, log_every=1)
    tiny = override(recipe("digits", "cpu"), {"batch_size": "400"})
    assert quick(tiny, cpu, 1).batch_size == 400
    # but pictures have to be read, too
    read = replace(tiny, dataset="imagenet", data="photos")
    assert quick(read, cpu, 1).batch_size == 100


def test_where_one_image_takes_a_minute_no_step_is_taken():
    huge = override(SHALLOW, {"model.depth": "48", "model.mlp_dim": "20000"})
    assert quick(replace(huge, threads=1), torch.device("cpu"), 1) is None


def test_what_is_frozen_needs_less_memory():
    cases = (None, 0, 1, 2, "backbone")
    needed = [step_memory(replace(SHALLOW, freeze=x)) for x in cases]
    totals = [each.total for each in needed]
    assert totals == sorted(totals, reverse=True) and len({*totals}) == 5
    # no gradient and no velocity, but of the head
    head = 8 * 1000 * (768 + 1)
    weights = 4 * budget.parameters(SHALLOW.model).total
    assert needed[-1].weights == pytest.approx(weights + head, abs=8)


@pytest.mark.parametrize(
    ("gigabytes", "fields", "advice"),
    [
        (4, {}, "add micro_batch_size=64, which changes the time and not"),
        # predicted to fit, so somebody else's memory is missing
        (900, {"micro_batch_size": "32"}, "add micro_batch_size=16, which"),
        (900, {"micro_batch_size": "1"}, "take a smaller model or smaller"),
        (0.01, {}, "take a smaller model or smaller images"),
    ],
)
def test_a_step_that_does_not_fit_is_told_what_would(
    gigabytes, fields, advice, monkeypatch
):
    free = int(gigabytes * 1e9)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free - 8, free))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 8)
    config = override(SHALLOW, fields)
    at_once = fields.get("micro_batch_size", "512")
    sentence = str(out_of_memory(config, torch.device("cuda")))
    assert sentence.startswith(f"a step of {at_once} images at a time doesn't")
    assert advice in sentence
