"""Comparing speeds: turns, ratios and fields; no speed is asserted."""

import json
import re
import time
from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.tiny import tiny
from vitedu import bench, budget, errors
from vitedu.bench import measure, peers
from vitedu.cli import main
from vitedu.errors import UserError
from vitedu.model import ResNetConfig
from vitedu.train.processes.device import cpu_threads

pytestmark = pytest.mark.slow  # measures speed

CPU = torch.device("cpu")
TINY = tiny(image_size=32, patch_size=16, num_classes=3, depth=1)
SETTINGS = bench.Settings(batch_size=2, threads=1, rounds=5)


@pytest.fixture(autouse=True)
def short_turns(monkeypatch):
    monkeypatch.setattr(measure, "TURN_SECONDS", 1e-9)
    monkeypatch.setattr(measure, "WARM_UP", 1)


def test_turns_are_timed_apart_and_another_begins_each_round(monkeypatch):
    now, taken = [0.0], []

    def turn(name, seconds):
        def take():
            taken.append(name)
            now[0] += seconds

        return take

    three = {"a": turn("a", 1.0), "b": turn("b", 4.0), "c": turn("c", 2.0)}
    monkeypatch.setattr(measure, "clock_of", lambda device: lambda: now[0])
    seconds = measure.take_turns(three, 4, CPU)
    assert "".join(taken) == "abcbcacababc"
    assert seconds == {"a": [1.0] * 4, "b": [4.0] * 4, "c": [2.0] * 4}


def test_ratios_are_taken_within_a_round_and_to_the_fastest():
    seconds = {
        "vitedu": [1.0, 10.0, 2.0, 1.0, 1.0],
        "slow": [2.0, 20.0, 4.0, 2.0, 2.0],
        "near": [1.1, 9.0, 2.0, 0.9, 1.0],
        "other": [0.1] * 5,  # another function: no rival
    }
    answer = measure.compare(seconds, 6, {"vitedu", "slow", "near"})
    assert answer["fastest_peer"] == "near"
    rows = answer["contestants"]
    assert answer["ratio"] == rows["near"]["ratio"]
    assert rows["slow"]["ratio"] == {"low": 2.0, "median": 2.0, "high": 2.0}
    assert rows["near"]["ratio"]["median"] == 1.0
    assert rows["near"]["ratio"]["low"] == pytest.approx(0.9)
    assert rows["vitedu"]["images_per_second"]["median"] == 6.0
    assert rows["other"]["ratio"]["median"] == pytest.approx(0.1)


@pytest.mark.parametrize("name", ["timm", "torchvision"])
def test_a_peer_has_our_weights_and_our_function(name):
    (ours, theirs), away = peers.contestants(TINY, [name])
    assert away == {}
    assert theirs.num_parameters == ours.num_parameters
    # float32, sums in another order
    assert theirs.difference < 1e-5
    images = torch.randn(2, 3, 32, 32)
    assert ours.model(images).abs().min() > 0  # no zeros of an untrained head
    names = {id(weight) for weight in ours.model.parameters()}
    assert not any(id(weight) in names for weight in theirs.model.parameters())


@pytest.mark.slow  # imports transformers
def test_transformers_takes_part_with_fused_attention():
    pytest.importorskip("transformers")
    (_, theirs), away = peers.contestants(TINY, ["transformers"])
    assert away == {}
    assert theirs.difference < 1e-5
    assert theirs.model.model.config._attn_implementation == "sdpa"
    assert theirs.model(torch.randn(1, 3, 32, 32)).shape == (1, 3)


def test_what_is_not_installed_stays_away_and_says_so(monkeypatch):
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda name: None)
    entered, away = peers.contestants(TINY, ["vit-pytorch"])
    assert [each.name for each in entered] == ["vitedu"]
    assert away == {"vit-pytorch": "vit-pytorch is not installed"}


@pytest.mark.parametrize(
    ("changes", "name", "said"),
    [
        ({"pre_logits": 8}, "timm", "a pre-logits layer"),
        ({"gelu": "tanh"}, "torchvision", "gelu='tanh'"),
        ({"pool": "mean"}, "torchvision", "pool='mean'"),
        ({"image_size": (32, 48)}, "torchvision", "only for squares"),
    ],
)
def test_a_peer_without_the_network_stays_away_and_says_so(changes, name, said):
    _, away = peers.contestants(replace(TINY, **changes), [name])
    assert said in away[name]


def test_a_resnet_is_compared_with_timms_alone():
    config = ResNetConfig(layers=(1, 1), width=0.5, num_classes=2)
    _, away = peers.contestants(config, ["torchvision"])
    assert "a ResNet" in away["torchvision"]


def test_a_peer_with_another_function_stays_away(monkeypatch):
    def other(checkpoint):
        return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 3))

    monkeypatch.setitem(peers.PEERS, "timm", other)
    _, away = peers.contestants(TINY, ["timm"])
    assert "timm builds another network: 9,219 parameters for" in away["timm"]


def test_a_model_that_does_not_fit_is_not_built(monkeypatch):
    # two models that train, each with weights, gradients and two means
    free = 4 * 2 * 4 * budget.parameters(TINY).total
    monkeypatch.setattr(errors, "available_memory", lambda: free)
    with pytest.raises(UserError, match="benchmark of 2 models needs"):
        bench.bench(TINY, SETTINGS, against=("timm",), device=CPU)
    inference = replace(SETTINGS, kinds=("inference",))
    assert bench.bench(TINY, inference, against=("timm",), device=CPU)


@pytest.fixture(scope="module")
def measured():
    """One whole run, small: ours and timm's, both kinds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "TURN_SECONDS", 1e-9)
        patch.setattr(measure, "WARM_UP", 1)
        return bench.bench(TINY, SETTINGS, against=("timm",), device=CPU)


def test_a_result_says_what_was_equal(measured):
    settings = measured["settings"]
    assert settings["batch_size"] == 2 and settings["threads"] == 1
    assert settings["optimizer"] == "adamw, fused"
    assert settings["compile"] is False and measured["precision"] == "fp32"
    assert measured["clock"] == "process_time"
    assert measured["config"]["image_size"] == [32, 32]
    assert {"torch", "timm"} <= measured["versions"].keys()
    assert json.dumps(measured, allow_nan=False)
    counts = {x["parameters"] for x in measured["contestants"].values()}
    assert counts == {budget.parameters(TINY).total}


@pytest.mark.parametrize("kind", measure.KINDS)
def test_a_result_holds_a_row_for_each_contestant(measured, kind):
    answer = measured[kind]
    assert list(answer["contestants"]) == ["vitedu", "timm"]
    assert answer["fastest_peer"] == "timm"
    assert all(len(turns) == 5 for turns in answer["seconds"].values())
    for row in answer["contestants"].values():
        speed = row["images_per_second"]
        assert 0 < speed["low"] <= speed["median"] <= speed["high"]
        assert row["peak_memory"] is None  # the CPU does not count it
        ceiling = measured["ceilings"]["matrix_product"]
        training = kind == "training"
        share = budget.mfu(TINY, speed["median"], ceiling, training=training)
        assert row["mfu"]["matrix_product"] == pytest.approx(share)


# a field of the model may be typed as train takes it
COMMAND = (
    "bench ViT-Ti/16 model.image_size=32 embed_dim=16 num_heads=2 mlp_dim=24 "
    "depth=1 num_classes=3 --batch 1 --rounds 5 --threads 1 --device cpu "
    "--against vit-pytorch,torchvision"
).split()


def test_the_command_answers_in_text_and_in_json(monkeypatch, capsys):
    monkeypatch.setattr(peers, "is_installed", lambda name: name[0] != "v")
    assert main(COMMAND) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].startswith("ViT-Ti/16: ") and "32x32" in lines[0]
    heads = [line.split()[0] for line in lines if "ours / theirs" in line]
    assert heads == ["inference", "training"]
    ours, ceiling = (
        float(re.search(form, out)[1])
        for form in (r"vitedu .* ([\d.]+)%", r"product\): ([\d.]+) TFLOP")
    )
    assert 0 <= ours < 100 and 0.001 < ceiling < 1000
    assert "vit-pytorch did not take part: vit-pytorch is not installed" in out
    assert "warming up" in err
    assert main([*COMMAND, "--training", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["model"] == "ViT-Ti/16" and "inference" not in answer
    assert answer["training"]["fastest_peer"] == "torchvision"


def test_a_training_turn_changes_the_weights_of_its_model():
    (ours,), _ = peers.contestants(TINY, [])
    state = measure.train_state(ours.model, SETTINGS, CPU)
    before = state.model.head.weight.clone()
    measure.step_of(state, measure.random_batch(TINY, 2, CPU), True)()
    assert state.step == 1
    assert not torch.equal(before, state.model.head.weight)


def test_one_thread_is_timed_by_the_clock_of_the_process():
    with cpu_threads(1):
        assert measure.clock_of(CPU) is time.process_time
        assert measure.clock_of(torch.device("cuda")) is time.perf_counter
    with cpu_threads(2):
        assert measure.clock_of(CPU) is time.perf_counter


def test_resident_bytes_are_weights_and_two_means():
    (ours,), _ = peers.contestants(TINY, [])
    state = measure.train_state(ours.model, SETTINGS, CPU)
    weights = 4 * ours.num_parameters
    assert measure.resident_bytes(state) == weights
    measure.step_of(state, measure.random_batch(TINY, 2, CPU), True)()
    # and a count of steps for each tensor
    steps = 4 * len(list(ours.model.parameters()))
    assert measure.resident_bytes(state) == 3 * weights + steps
