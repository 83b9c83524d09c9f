"""VTAB's protocol: which images are learned, by which setting, and the mean."""

import json

import numpy as np
import pytest
import torch

import vitedu
from tests.tiny import tiny
from vitedu import PreprocessSpec, UserError
from vitedu.evaluate import VTAB
from vitedu.train import run_vtab
from vitedu.train.vtab import data_of, drawn_images, settings_for

TASKS = {task.name: task for task in VTAB}
SMALL = {"image_size": 8, "steps": 2, "batch_size": 8, "device": "cpu"}


def images(n, num_classes, seed=0):
    """Noise, each picture another one, and labels in turn."""
    pixels = np.random.default_rng(seed).integers(
        0, 256, (n, 8, 8, 3), np.uint8
    )
    return pixels, np.arange(n) % num_classes


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A file of a very small model with a mean of its own."""
    torch.manual_seed(0)
    model = vitedu.ViT(tiny(image_size=8, depth=1, num_classes=3))
    torch.nn.init.normal_(model.head.weight)
    model.preprocess = PreprocessSpec(image_size=8, mean=0.4, std=0.3, crop=0.9)
    return vitedu.save(model, tmp_path_factory.mktemp("vtab") / "w.safetensors")


@pytest.fixture(scope="module")
def data():
    """Two tasks, larger than 1,000 images."""
    return {
        name: (
            images(1100, TASKS[name].num_classes),
            images(30, TASKS[name].num_classes, seed=1),
        )
        for name in ("dmlab", "svhn")
    }


def test_each_task_is_learned_and_the_mean_taken(weights, data, tmp_path):
    begun = []
    result = run_vtab(
        weights, data, tmp_path / "runs", on_task=begun.append, **SMALL
    )
    assert [task.name for task in begun] == ["svhn", "dmlab"]
    assert set(result.accuracies) == {"svhn", "dmlab"}
    for name, accuracy in result.accuracies.items():
        path = tmp_path / "runs" / name / "result.json"
        recorded = json.loads(path.read_text())
        assert recorded["dataset"]["num_train"] == 1000
        assert recorded["dataset"]["num_test"] == 30
        assert recorded["dataset"]["name"].startswith("VTAB-1k ")
        assert recorded["metrics"]["test_accuracy"]["value"] == accuracy
    assert result.mean == sum(result.accuracies.values()) / 2
    assert set(result.missing) == set(TASKS) - {"svhn", "dmlab"}
    assert TASKS["dtd"].where in result.missing["dtd"]


def test_the_same_call_returns_what_is_finished(weights, data, tmp_path):
    words = {"tasks": ["svhn"], **SMALL}
    first = run_vtab(weights, data, tmp_path, **words)
    before = (tmp_path / "svhn" / "result.json").stat().st_mtime_ns
    assert run_vtab(weights, data, tmp_path, **words) == first
    assert (tmp_path / "svhn" / "result.json").stat().st_mtime_ns == before


def test_what_was_stopped_is_not_counted(weights, data):
    result = run_vtab(weights, data, should_stop=lambda: True, **SMALL)
    assert result.accuracies == {}
    for name in data:
        assert "the same call goes on with it" in result.missing[name]


def test_the_setting_is_the_papers(weights):
    assert settings_for(weights, {"lr": 0.003})["lr"] == 0.003
    setting = settings_for(weights, {})
    assert setting["preprocess"] == PreprocessSpec(mean=0.4, std=0.3)
    del setting["preprocess"]
    assert setting == {
        "image_size": 384,
        "epochs": None,
        "steps": 2_500,
        "batch_size": 512,
        "optimizer": "sgd",
        "betas": (0.9, 0.999),
        "lr": 0.01,
        "weight_decay": 0.0,
        "schedule": "cosine",
        "warmup": 0.2,
        "max_grad_norm": 1.0,
    }


def rows_of(part, pixels):
    """Which of the pictures they are."""
    known = {each.tobytes(): row for row, each in enumerate(pixels)}
    found = part.images.permute(0, 2, 3, 1).contiguous().numpy()
    return [known[each.tobytes()] for each in found]


def test_a_thousand_are_drawn_by_seed_and_none_twice(data):
    pixels, _ = data["svhn"][0]
    parts = data_of(TASKS["svhn"], data)
    first, again, other = (
        drawn_images(TASKS["svhn"], parts, seed, choose=False)
        for seed in (0, 0, 1)
    )
    rows = rows_of(first.train, pixels)
    assert len(set(rows)) == len(rows) == 1000
    assert rows_of(again.train, pixels) == rows
    assert rows_of(other.train, pixels) != rows
    assert len(first.test) == 30
    labels = first.train.labels.tolist()
    assert labels == [row % 10 for row in rows]


def test_to_choose_800_are_learned_and_the_other_200_measured(data):
    pixels, _ = data["svhn"][0]
    parts = data_of(TASKS["svhn"], data)
    whole, chosen = (
        drawn_images(TASKS["svhn"], parts, 0, choose=choose)
        for choose in (False, True)
    )
    learned, measured = (rows_of(part, pixels) for part in chosen)
    assert (len(learned), len(measured)) == (800, 200)
    assert learned + measured == rows_of(whole.train, pixels)


@pytest.mark.parametrize(
    ("changes", "options", "said"),
    [
        ({"svhm": 1}, {}, r"no task 'svhm'; did you mean 'svhn'"),
        ({}, {"tasks": ["svhm"]}, r"no task 'svhm'; did you mean 'svhn'"),
        ({}, {"tasks": []}, "nothing to learn: no task is named"),
        ({}, {"tasks": ["dtd"]}, r"nothing to learn: DTD isn't among"),
        ({"svhn": (images(999, 10), images(9, 10))}, {}, "SVHN has 999"),
        ({"dmlab": (images(1000, 10), images(9, 9))}, {}, "label 9, but"),
    ],
)
def test_what_does_not_fit_is_one_sentence(
    weights, data, changes, options, said
):
    with pytest.raises(UserError, match=said):
        run_vtab(weights, data | changes, **options, **SMALL)


def test_other_classes_are_named(weights):
    named = vitedu.data.from_torch(
        [(x, 0) for x in images(1, 1)[0]], class_names=("ant", "bee")
    )
    with pytest.raises(UserError, match="SVHN have 2 classes, but VTAB's"):
        run_vtab(weights, {"svhn": (named, named)}, **SMALL)


def test_a_folder_without_any_set_is_one_sentence(weights, tmp_path):
    with pytest.raises(UserError, match="nothing to learn: Caltech101 isn't"):
        run_vtab(weights, tmp_path, **SMALL)
