"""A run's state in one file: everything comes back, and nothing bad goes in."""

import math
import pickle
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tests.train.runs import SHORT, sentence
from vitedu.errors import UserError
from vitedu.model import ViT
from vitedu.train.checkpoint import (
    Saver,
    as_bytes,
    checkpoint_content,
    first_not_finite,
    load_checkpoint,
    read_saved,
)
from vitedu.train.processes import SINGLE
from vitedu.train.run_folder import RunFolder
from vitedu.train.start import Given, build_state
from vitedu.train.step import StepResult, train_step

BASE = replace(SHORT, steps=10, ema=0.9)
KINDS = [
    (optimizer, precision)
    for optimizer in ("adamw", "adam", "sgd")
    for precision in ("fp32", "bf16", "fp16")
]


def build(seed=0, **fields):
    """A state at step 0, its weights drawn from `seed`."""
    config = replace(BASE, **fields)
    torch.manual_seed(seed)
    model = ViT(config.model)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    return build_state(
        config, range(30), torch.device("cpu"), given=Given(model=model)
    )


def save(path, state, seconds=0.0, pending=()):
    """A checkpoint of `state`, as a run writes it."""
    path.write_bytes(as_bytes(checkpoint_content(state, seconds, pending)))


def step(state, times=1):
    generator = torch.Generator().manual_seed(state.step)
    for _ in range(times):
        images = torch.randn(5, 1, 8, 8, generator=generator)
        train_step(state, (images, torch.arange(5) % 3))


def equal(ours, theirs):
    """Whether nested dicts and lists are equal, their tensors bit by bit."""
    if isinstance(ours, torch.Tensor):
        return ours.dtype == theirs.dtype and torch.equal(ours, theirs)
    if isinstance(ours, list | tuple):
        ours, theirs = dict(enumerate(ours)), dict(enumerate(theirs))
    if not isinstance(ours, dict):
        return ours == theirs
    return ours.keys() == theirs.keys() and all(
        equal(ours[name], theirs[name]) for name in ours
    )


def same(first, second):
    """Whether all that decides the next step is equal, bit by bit."""
    first, second = (
        checkpoint_content(first, 0.0),
        checkpoint_content(second, 0.0),
    )
    return all(
        equal(first[part], second[part])
        for part in ("step", "model", "optimizer", "precision", "ema")
    )


@pytest.mark.parametrize(("optimizer", "precision"), KINDS)
def test_all_comes_back_and_goes_on_alike(tmp_path, optimizer, precision):
    fields = {"optimizer": optimizer, "precision": precision}
    before, after = build(seed=0, **fields), build(seed=1, **fields)
    step(before, 3)
    save(tmp_path / "c.pt", before, 12.5)
    seconds, pending = load_checkpoint(tmp_path / "c.pt", after)
    assert seconds == 12.5
    assert pending == []
    assert same(before, after)
    for state in (before, after):
        step(state, 2)
    assert same(before, after)


def draw():
    """One number from each stream that a caller may draw from."""
    return (
        torch.rand(1).item(),
        np.random.normal(),
        random.random(),
        random.gauss(),
    )


@pytest.mark.parametrize("drawn_before", [0, 1, 700])
def test_what_a_caller_draws_goes_on(tmp_path, drawn_before):
    # after an odd count, normal and gauss keep a second number for the next
    # call
    for _ in range(drawn_before):
        draw()
    save(tmp_path / "c.pt", build())
    torch.manual_seed(1)
    state = build()
    # what building draws comes first, as when a run goes on
    load_checkpoint(tmp_path / "c.pt", state)
    first = [draw() for _ in range(3)]
    draw()
    load_checkpoint(tmp_path / "c.pt", state)
    assert [draw() for _ in range(3)] == first


def test_saving_draws_nothing(tmp_path):
    streams = []
    for saves in (False, True):
        torch.manual_seed(0)
        np.random.seed(0)
        random.seed(0)
        state = build()
        if saves:
            save(tmp_path / "c.pt", state)
        streams.append(draw())
    assert streams[0] == streams[1]


class Wrapped(nn.Module):
    """A network inside another, as DDP keeps it, or torch.compile(model)."""

    def __init__(self, network, name):
        super().__init__()
        setattr(self, name, network)


@pytest.mark.parametrize("name", ["module", "_orig_mod"])
def test_the_names_in_the_file_are_those_of_the_network(tmp_path, name):
    before, after = build(seed=0), build(seed=1)
    plain = before.model.state_dict()
    before.model = Wrapped(before.model, name)
    save(tmp_path / "c.pt", before)
    assert read_saved(tmp_path / "c.pt")["model"].keys() == plain.keys()
    # the other way as well
    after.model = Wrapped(after.model, name)
    load_checkpoint(tmp_path / "c.pt", after)
    assert_close(after.network.state_dict(), plain, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("weights", r"^model\.head\.bias"),
        ("average", r"^ema\.\S*head\.bias"),
        ("moments", r"^optimizer\.state\.\d+\.exp_avg_sq"),
    ],
)
def test_what_is_not_finite_is_never_saved(tmp_path, part, name):
    state = build()
    saver = Saver(state, RunFolder(tmp_path), SINGLE)
    step(state)
    saver.save(0.0, [])
    good = (tmp_path / "checkpoint.pt").read_bytes()
    step(state)
    weight = state.model.head.bias
    tensor = {
        "weights": weight.data,
        "average": state.ema.average["head.bias"],
        "moments": state.optimizer.state[weight]["exp_avg_sq"],
    }[part]
    tensor[1] = math.nan
    with pytest.raises(UserError, match=f"{name} became nan or infinite"):
        saver.save(0.0, [])
    assert (tmp_path / "checkpoint.pt").read_bytes() == good
    assert len(list(tmp_path.iterdir())) == 1


def test_a_saver_goes_on_with_what_stands_in_its_folder(tmp_path):
    saved, again = build(seed=0), build(seed=1)
    step(saved)
    Saver(saved, RunFolder(tmp_path), SINGLE).save(2.5, [])
    assert Saver(again, None, SINGLE).load() == (0.0, [])
    assert again.step == 0
    assert Saver(again, RunFolder(tmp_path), SINGLE).load() == (2.5, [])
    assert same(saved, again)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_one_bad_value_anywhere_is_named(value):
    bad = torch.zeros(3, 4)
    bad[2, 3] = value
    good = {"a": torch.zeros(2), "count": torch.tensor(3), "lr": math.inf}
    assert first_not_finite({"model": good, "ema": None}) is None
    content = {"model": good, "optimizer": {"groups": [good, {"b": bad}]}}
    assert first_not_finite(content) == "optimizer.groups.1.b"


def test_an_infinite_norm_of_a_skipped_step_may_be_saved(tmp_path):
    infinite = torch.tensor(float("inf"))
    skipped = StepResult(torch.tensor(2.5), torch.tensor(3), 5, infinite)
    save(tmp_path / "c.pt", build(), 0.0, [skipped])
    assert load_checkpoint(tmp_path / "c.pt", build())[1] == [skipped]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_one_sentence(tmp_path, share):
    path = tmp_path / "c.pt"
    save(path, build())
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    said = sentence(load_checkpoint, path, build())
    assert "c.pt is not a whole checkpoint" in said


def test_another_version_is_one_sentence(tmp_path):
    (tmp_path / "c.pt").write_bytes(as_bytes({"format": 3}))
    said = sentence(load_checkpoint, tmp_path / "c.pt", build())
    assert "not a checkpoint of this version" in said


def test_every_flipped_bit_is_seen(tmp_path):
    path = tmp_path / "c.pt"
    save(path, build())
    whole = bytearray(path.read_bytes())
    for place in {*range(0, len(whole), len(whole) // 50), len(whole) - 1}:
        whole[place] ^= 1 << place % 8
        path.write_bytes(whole)
        with pytest.raises(UserError, match=r"c\.pt is not a whole checkpoint"):
            load_checkpoint(path, build())
        whole[place] ^= 1 << place % 8
    path.write_bytes(whole)
    load_checkpoint(path, build())


def test_the_file_is_still_what_torch_reads(tmp_path):
    # the checksum stands behind the archive, where its reader does not look
    save(tmp_path / "c.pt", build(), 12.5)
    content = torch.load(tmp_path / "c.pt", weights_only=True)
    assert content["seconds"] == 12.5


class Malicious:
    """Unpickling it writes a file."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (open, (str(self.target), "w"))


@pytest.mark.parametrize("is_ours", [True, False], ids=["whole", "bare"])
def test_a_malicious_pickle_is_not_executed(tmp_path, is_ours):
    path, target = tmp_path / "c.pt", tmp_path / "executed"
    bad = {"format": 2, "model": Malicious(target)}
    path.write_bytes(as_bytes(bad) if is_ours else pickle.dumps(bad))
    with pytest.raises((UserError, pickle.UnpicklingError)):
        load_checkpoint(path, build())
    assert not target.exists()


def test_a_missing_file_is_one_sentence(tmp_path):
    assert "c.pt" in sentence(load_checkpoint, tmp_path / "c.pt", build())


def test_what_may_differ_may_differ(tmp_path):
    before, after = build(seed=0), build(seed=1, micro_batch_size=2)
    save(tmp_path / "c.pt", before)
    load_checkpoint(tmp_path / "c.pt", after)
    assert same(before, after)


def test_other_data_are_another_run(tmp_path):
    state = build()
    data = {"name": "photos", "digest": "0a1b", "num_images": 20}
    state.data = data
    save(tmp_path / "c.pt", state)
    state.data = data | {"digest": "2c3d", "num_images": 19}
    said = "on other data: photos has 19 images now, 1 fewer than then"
    with pytest.raises(UserError, match=said):
        load_checkpoint(tmp_path / "c.pt", state)


def test_the_groups_of_the_optimizer_are_those_of_the_run(tmp_path):
    # which kernel updates the weights, say, is not the file's to decide: the
    # run may go on on another device
    content = checkpoint_content(build(), 0.0)
    for group in content["optimizer"]["param_groups"]:
        group |= {"fused": False, "lr": 0.25}
    (tmp_path / "c.pt").write_bytes(as_bytes(content))
    state = build()
    load_checkpoint(tmp_path / "c.pt", state)
    for group in state.optimizer.param_groups:
        assert (group["fused"], group["lr"]) == (True, 0.25)
