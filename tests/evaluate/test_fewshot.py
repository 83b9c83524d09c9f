"""The closed-form classifier and its draws: equal to the authors'."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import vitedu
from tests.evaluate.small import small
from vitedu.evaluate import (
    Features,
    FewShotPoint,
    features,
    fewshot_accuracy,
    fewshot_classifier,
    fewshot_curve,
    knn,
    linear_probe,
    sample_shots,
)

LABELS = torch.tensor([2, 0, 1, 1, 2, 0, 0, 1, 2, 1])
SETS = ("gauss16", "gauss64", "relu24")
MODEL = small()  # not asked for features that are given


def classifier(x, y, l2=2.0**10):
    return fewshot_classifier(MODEL, Features(x, y), l2=l2)


def accuracy(x, y, xt, yt, l2=2.0**10):
    return fewshot_accuracy(MODEL, Features(x, y), Features(xt, yt), l2=l2)


def drawn(n=12, d=5, num_classes=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    return 3 * x + 1, torch.arange(n) % num_classes


@pytest.fixture(scope="module")
def authors(golden):
    """Arrays and facts of the authors' own runs."""
    facts = json.loads((golden / "fewshot.json").read_text())
    with np.load(golden / "fewshot.npz") as arrays:
        return facts, {key: torch.from_numpy(arrays[key]) for key in arrays}


def parts(arrays, name):
    return [
        arrays[f"{name}/{part}"].long() if part[-1] == "y" else
        arrays[f"{name}/{part}"]
        for part in ("train_x", "train_y", "test_x", "test_y")
    ]  # fmt: skip


@pytest.mark.parametrize("name", SETS)
def test_every_accuracy_is_the_authors(authors, name):
    facts, arrays = authors
    x, y, xt, yt = parts(arrays, name)
    want = arrays[f"{name}/accuracy_f64"]
    found = torch.empty_like(want)
    for i, l2 in enumerate(facts["l2"]):
        for j, k in enumerate(facts["shots"]):
            for seed, rows in enumerate(arrays[f"{name}/shots{k}/idx"]):
                few = sample_shots(y, k, seed)
                assert few.tolist() == rows.tolist()
                found[i, j, seed] = accuracy(x[few], y[few], xt, yt, l2)
    # theirs are shares; one of 200 images is 0.5%
    assert_close(found, 100 * want, rtol=0, atol=0.5)


@pytest.mark.parametrize("name", SETS)
def test_the_weights_are_the_authors(authors, name):
    facts, arrays = authors
    x, y, xt, _ = parts(arrays, name)
    for k in facts["shots"]:
        few = arrays[f"{name}/shots{k}/idx"][0].long()
        for i, l2 in enumerate(facts["l2"]):
            found = classifier(x[few], y[few], l2)
            key = f"{name}/shots{k}"
            assert_close(found.mean, arrays[f"{key}/mean_f64"])
            assert_close(found.std, arrays[f"{key}/std_f64"])
            want = arrays[f"{key}/w_f64"][i]
            error = (found.weights - want).norm() / want.norm()  # Frobenius
            # float64; XX' of the bias' 100s against l2 2^-10 loses 8 digits
            assert error < 1e-6
            scores = arrays[f"{key}/test_scores_first8_f64"][i]
            assert_close(found.scores(xt[:8]), scores, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("n", "d"), [(12, 5), (6, 5), (5, 5), (4, 9)])
def test_the_weights_solve_the_normal_equations(n, d):
    x, y = drawn(n, d)
    found = classifier(x, y, l2=2.0)
    z = (x - x.mean(0)) / (x.std(0, correction=0) + 1e-5)
    z = torch.cat([z, torch.full((n, 1), 100.0)], dim=1)
    targets = torch.where(y[:, None] == torch.arange(3), 1.0, -1.0).double()
    square = z.mT @ z + 2.0 * torch.eye(d + 1)
    assert_close(square @ found.weights, z.mT @ targets)


def test_half_precision_features_are_computed_in_float64():
    x, y = drawn()
    found = classifier(x.half(), y)
    assert {each.dtype for each in found} == {torch.float64}
    assert_close(found.weights, classifier(x.half().double(), y).weights)


def test_a_class_of_the_test_images_that_was_never_seen_counts_as_wrong():
    x, y = drawn(num_classes=2)
    assert accuracy(x, y, x[:4], torch.full((4,), 7)) == 0.0


GOOD = drawn()


# --- draws and curves


def clouds(n=60, seed=0):
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


def test_a_seed_draws_the_same_again_and_another_seed_others():
    labels = torch.zeros(100, dtype=torch.int64)
    first, again, other = (sample_shots(labels, 9, seed) for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_a_curve_is_the_accuracy_of_every_draw():
    train, test = clouds(), clouds(30, seed=1)
    curve = fewshot_curve(MODEL, train, test, shots=(2, 5), seeds=(0, 7))
    assert [point.shots for point in curve] == [2, 5]
    for point in curve:
        for seed, found in zip((0, 7), point.accuracies, strict=True):
            rows = sample_shots(train.labels, point.shots, seed)
            few = train.take(rows)
            assert found == fewshot_accuracy(MODEL, few, test)


def test_mean_and_spread_are_over_the_seeds():
    point = FewShotPoint(1, (50.0, 70.0, 90.0))
    assert point.mean == pytest.approx(70)
    assert point.std == pytest.approx(math.sqrt((400 + 0 + 400) / 2))
    assert FewShotPoint(1, (50.0,)).std is None


@pytest.mark.slow
def test_on_photographs_more_shots_help_and_a_probe_more_still():
    root = Path(os.environ.get("VITEDU_DATA") or "/nowhere") / "ants-bees"
    if not root.is_dir():
        pytest.skip("VITEDU_DATA/ants-bees is not there")
    model = vitedu.load("ViT-Ti/16", image_size=96)  # small, to be fast
    train, test = (features(model, root / part) for part in ("train", "val"))
    one, five, many = fewshot_curve(model, train, test, shots=(1, 5, 25))
    probe = linear_probe(model, train).accuracy(model, test)
    # measured: 50, 61, 78 and 81% of 153; at 224 pixels 57, 90, 95 and 97
    assert one.mean < five.mean < many.mean < probe
    assert many.mean > 70 and probe > 75
    assert knn(model, train, test) > 65
