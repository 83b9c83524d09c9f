"""A run's state in one file: everything comes back, and nothing bad goes in."""

import pickle
import zipfile
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitedu.errors import UserError
from vitedu.model import ViT, ViTConfig
from vitedu.train.checkpoint import (
    all_finite,
    load_checkpoint,
    read_checkpoint,
    save_checkpoint,
)
from vitedu.train.config import TrainConfig
from vitedu.train.optimizer import MovingAverage, build_optimizer
from vitedu.train.precision import build_precision
from vitedu.train.schedule import build_schedule
from vitedu.train.step import TrainState, train_step

TINY = ViTConfig(
    image_size=8,
    patch_size=4,
    in_channels=1,
    num_classes=3,
    embed_dim=8,
    depth=1,
    num_heads=2,
    mlp_dim=16,
)
BASE = TrainConfig(
    recipe="test", tier="cpu", model=TINY, dataset="digits", steps=10, ema=0.9
)
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
    return TrainState(
        config=config,
        model=model.train(),
        optimizer=build_optimizer(model, config),
        schedule=build_schedule(config.schedule, config.lr, 10, config.warmup),
        precision=build_precision(config.precision, torch.device("cpu")),
        ema=MovingAverage(model, config.ema) if config.ema else None,
    )


def step(state, times=1):
    generator = torch.Generator().manual_seed(state.step)
    for _ in range(times):
        images = torch.randn(5, 1, 8, 8, generator=generator)
        train_step(state, (images, torch.arange(5) % 3))


def same(first, second):
    """Whether all that decides the next step is equal, bit by bit."""
    for ours, theirs in (
        (first.model.state_dict(), second.model.state_dict()),
        (first.optimizer.state_dict(), second.optimizer.state_dict()),
        (first.ema.state_dict(), second.ema.state_dict()),
        (first.precision.state_dict(), second.precision.state_dict()),
    ):
        assert_close(ours, theirs, rtol=0, atol=0)
    return first.step == second.step


@pytest.mark.parametrize(("optimizer", "precision"), KINDS)
def test_all_comes_back(tmp_path, optimizer, precision):
    fields = {"optimizer": optimizer, "precision": precision}
    before, after = build(seed=0, **fields), build(seed=1, **fields)
    step(before, 3)
    save_checkpoint(tmp_path / "c.pt", before, 12.5)
    seconds, pending = load_checkpoint(tmp_path / "c.pt", after)
    assert seconds == 12.5
    assert pending == []
    assert same(before, after)


@pytest.mark.parametrize(("optimizer", "precision"), KINDS)
def test_the_next_steps_are_the_same(tmp_path, optimizer, precision):
    fields = {"optimizer": optimizer, "precision": precision}
    before, after = build(seed=0, **fields), build(seed=1, **fields)
    step(before, 3)
    save_checkpoint(tmp_path / "c.pt", before, 0.0)
    load_checkpoint(tmp_path / "c.pt", after)
    for state in (before, after):
        step(state, 2)
    assert same(before, after)


def test_saving_changes_nothing(tmp_path):
    saved, other = build(), build()
    step(saved, 2)
    step(other, 2)
    save_checkpoint(tmp_path / "c.pt", saved, 0.0)
    assert same(saved, other)


def test_the_state_of_a_new_run_can_be_saved(tmp_path):
    before, after = build(seed=0), build(seed=1)
    save_checkpoint(tmp_path / "c.pt", before, 0.0)
    load_checkpoint(tmp_path / "c.pt", after)
    assert same(before, after)


def test_there_is_no_random_state_in_the_file(tmp_path):
    torch.manual_seed(3)
    save_checkpoint(tmp_path / "c.pt", build(), 0.0)
    content = read_checkpoint(tmp_path / "c.pt")
    assert content.keys() == {
        *("format", "step", "seconds", "pending"),
        *("model", "optimizer", "precision", "ema"),
    }


def test_no_other_file_stays(tmp_path):
    save_checkpoint(tmp_path / "c.pt", build(), 0.0)
    save_checkpoint(tmp_path / "c.pt", build(), 0.0)
    assert [file.name for file in tmp_path.iterdir()] == ["c.pt"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    "part",
    [
        "weights",
        "average",
        "moments",
    ],
)
def test_what_is_not_finite_is_never_saved(tmp_path, part, value):
    state = build()
    step(state)
    save_checkpoint(tmp_path / "c.pt", state, 0.0)
    good = (tmp_path / "c.pt").read_bytes()
    weight = state.model.head.bias
    tensor = {
        "weights": weight.data,
        "average": state.ema.average["head.bias"],
        "moments": state.optimizer.state[weight]["exp_avg_sq"],
    }[part]
    tensor[1] = value
    with pytest.raises(UserError, match="not finite at step 1"):
        save_checkpoint(tmp_path / "c.pt", state, 0.0)
    assert (tmp_path / "c.pt").read_bytes() == good
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_one_bad_value_anywhere_is_seen(value):
    bad = torch.zeros(3, 4)
    bad[2, 3] = value
    assert not all_finite({"a": torch.zeros(2), "b": bad})


def test_whole_numbers_are_finite():
    assert all_finite({"a": torch.zeros(2), "count": torch.tensor(3)})


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_one_sentence(tmp_path, share):
    path = tmp_path / "c.pt"
    save_checkpoint(path, build(), 0.0)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(
        UserError, match=r"c\.pt is not a whole checkpoint"
    ) as error:
        load_checkpoint(path, build())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "content", [b"", b"a text file\n", b"PK\x03\x04 no archive"]
)
def test_a_file_of_another_kind_is_one_sentence(tmp_path, content):
    path = tmp_path / "c.pt"
    path.write_bytes(content)
    with pytest.raises(
        UserError, match=r"c\.pt is not a whole checkpoint"
    ) as error:
        load_checkpoint(path, build())
    assert "\n" not in str(error.value)


def test_an_archive_of_another_kind_is_one_sentence(tmp_path):
    path = tmp_path / "c.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "no tensors")
    with pytest.raises(UserError, match=r"c\.pt is not a whole checkpoint"):
        load_checkpoint(path, build())


@pytest.mark.parametrize(
    "content",
    [[1, 2], {}, {"format": 2}, {"format": "1"}, torch.zeros(3), None],
)
def test_what_torch_saved_elsewhere_is_no_checkpoint(tmp_path, content):
    torch.save(content, tmp_path / "c.pt")
    with pytest.raises(UserError, match="not a checkpoint of this version"):
        load_checkpoint(tmp_path / "c.pt", build())


class Malicious:
    """Unpickling it writes a file."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (open, (str(self.target), "w"))


def test_a_malicious_pickle_is_not_executed(tmp_path):
    path, target = tmp_path / "c.pt", tmp_path / "executed"
    torch.save({"format": 1, "model": Malicious(target)}, path)
    with pytest.raises(UserError, match=r"c\.pt is not a whole checkpoint"):
        load_checkpoint(path, build())
    assert not target.exists()


def test_a_bare_malicious_pickle_is_not_executed(tmp_path):
    path, target = tmp_path / "c.pt", tmp_path / "executed"
    path.write_bytes(pickle.dumps(Malicious(target)))
    with pytest.raises(UserError, match=r"c\.pt is not a whole checkpoint"):
        load_checkpoint(path, build())
    assert not target.exists()


def test_nobody_is_told_to_read_an_unsafe_file(tmp_path):
    # torch's own message proposes to switch the protection off
    path = tmp_path / "c.pt"
    torch.save({"format": 1, "model": Malicious(tmp_path / "executed")}, path)
    with pytest.raises(UserError) as error:
        load_checkpoint(path, build())
    assert "two options" not in str(error.value)
    assert "\x1b" not in str(error.value)


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"c\.pt"):
        load_checkpoint(tmp_path / "c.pt", build())


@pytest.mark.parametrize(
    "other",
    [
        {"model": replace(TINY, embed_dim=16)},
        {"model": replace(TINY, depth=2)},
        {"model": replace(TINY, pre_logits=4)},
    ],
)
def test_the_file_of_another_run_is_one_sentence(tmp_path, other):
    state = build(**other)
    step(state)
    save_checkpoint(tmp_path / "c.pt", state, 0.0)
    with pytest.raises(UserError, match="does not belong to this run") as error:
        load_checkpoint(tmp_path / "c.pt", build())
    assert "\n" not in str(error.value)


def test_the_sentence_says_what_does_not_fit(tmp_path):
    save_checkpoint(tmp_path / "c.pt", build(model=replace(TINY, depth=2)), 0.0)
    with pytest.raises(UserError, match=r"blocks\.1"):
        load_checkpoint(tmp_path / "c.pt", build())


def test_a_file_without_an_average_is_one_sentence(tmp_path):
    save_checkpoint(tmp_path / "c.pt", build(ema=None), 0.0)
    with pytest.raises(UserError, match="does not belong to this run"):
        load_checkpoint(tmp_path / "c.pt", build())


@pytest.mark.parametrize(
    "name", ["step", "seconds", "model", "optimizer", "precision", "ema"]
)
def test_a_file_that_lacks_a_part_is_one_sentence(tmp_path, name):
    save_checkpoint(tmp_path / "c.pt", build(), 0.0)
    content = read_checkpoint(tmp_path / "c.pt")
    del content[name]
    torch.save(content, tmp_path / "c.pt")
    with pytest.raises(UserError, match="does not belong to this run"):
        load_checkpoint(tmp_path / "c.pt", build())
