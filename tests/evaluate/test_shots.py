"""k images of each class: the authors' draws, and a curve over k."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch

import vitedu
from vitedu.evaluate import (
    Features,
    FewShotPoint,
    features,
    fewshot_accuracy,
    fewshot_curve,
    linear_probe,
    sample_shots,
)

LABELS = torch.tensor([2, 0, 1, 1, 2, 0, 0, 1, 2, 1])


def drawn(n=60, seed=0):
    """Three clouds that overlap."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 3
    centres = 2.0 * torch.eye(3, 4)[labels]
    return Features(centres + torch.randn(n, 4, generator=generator), labels)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_every_class_gives_k_images_and_none_comes_twice(k, seed):
    rows = sample_shots(LABELS, k, seed)
    assert len(rows.unique()) == len(rows) == 3 * k
    assert LABELS[rows].tolist() == [
        label for label in range(3) for _ in range(k)
    ]


def test_the_draws_are_the_authors(golden):
    facts = json.loads((golden / "fewshot.json").read_text())
    with np.load(golden / "fewshot.npz") as arrays:
        for each in facts["sets"]:
            labels = torch.from_numpy(arrays[f"{each['name']}/train_y"])
            for k in facts["shots"]:
                idx = arrays[f"{each['name']}/shots{k}/idx"]
                for seed in facts["seeds"]:
                    rows = sample_shots(labels, k, seed)
                    assert rows.tolist() == idx[seed].tolist()


def test_a_seed_draws_the_same_again_and_another_seed_others():
    labels = torch.zeros(100, dtype=torch.int64)
    first, again, other = (sample_shots(labels, 9, seed) for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_fewer_shots_are_among_more_shots():
    few, more = (set(sample_shots(LABELS, k, 3).tolist()) for k in (1, 3))
    assert few < more


def test_only_classes_that_occur_are_drawn():
    rows = sample_shots(torch.tensor([5, 2, 5]), 1, 0)
    assert torch.tensor([5, 2, 5])[rows].tolist() == [2, 5]


def test_a_class_with_too_few_images_is_named():
    with pytest.raises(ValueError, match="class 0 has 3 images, but 4 of"):
        sample_shots(LABELS, 4, 0)


@pytest.mark.parametrize("k", [0, -1])
def test_no_shots_are_refused(k):
    with pytest.raises(ValueError, match="k must be at least 1"):
        sample_shots(LABELS, k, 0)


@pytest.mark.parametrize("shape", [(0,), (3, 1)])
def test_without_a_label_for_each_image_there_is_one_sentence(shape):
    with pytest.raises(ValueError, match="of at least one image, got"):
        sample_shots(torch.zeros(shape, dtype=torch.int64), 1, 0)


def test_a_curve_is_the_accuracy_of_every_draw():
    train, test = drawn(), drawn(30, seed=1)
    curve = fewshot_curve(train, test, shots=(2, 5), seeds=(0, 7))
    assert [point.shots for point in curve] == [2, 5]
    for point in curve:
        for seed, accuracy in zip((0, 7), point.accuracies, strict=True):
            rows = sample_shots(train.labels, point.shots, seed)
            few = train.take(rows)
            assert accuracy == fewshot_accuracy(*few, *test)


def test_more_shots_help():
    first, *_, last = fewshot_curve(
        drawn(300), drawn(300, seed=1), shots=(1, 50), seeds=range(5)
    )
    assert last.mean > first.mean and last.std < first.std


def test_mean_and_spread_are_over_the_seeds():
    point = FewShotPoint(1, (0.5, 0.7, 0.9))
    assert point.mean == pytest.approx(0.7)
    assert point.std == pytest.approx(math.sqrt((0.04 + 0 + 0.04) / 2))


def test_a_single_seed_has_no_spread():
    assert FewShotPoint(1, (0.5,)).std is None


@pytest.mark.parametrize("arguments", [{"shots": ()}, {"seeds": ()}])
def test_a_curve_needs_shots_and_seeds(arguments):
    with pytest.raises(ValueError, match="at least one k and one seed"):
        fewshot_curve(drawn(), drawn(), **arguments)


@pytest.mark.slow
def test_on_photographs_more_shots_help_and_a_probe_more_still():
    root = Path(os.environ.get("VITEDU_DATA") or "/nowhere") / "ants-bees"
    if not root.is_dir():
        pytest.skip("VITEDU_DATA/ants-bees is not there")
    model = vitedu.load("ViT-Ti/16", image_size=96)  # small, to be fast
    train, test = (features(model, root / part) for part in ("train", "val"))
    one, five, many = fewshot_curve(train, test, shots=(1, 5, 25))
    probe = linear_probe(train).accuracy(*test)
    # measured: 50, 61, 78 and 81 % of 153; at 224 pixels 57, 90, 95 and 97
    assert one.mean < five.mean < many.mean < probe
    assert many.mean > 0.7 and probe > 0.75
