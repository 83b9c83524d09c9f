"""The probe's weights are scikit-learn's; its l2 is chosen on other images.

Neighbours vote as in a direct formula, and as scikit-learn's.
"""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch.testing import assert_close

from tests.evaluate.small import small
from vitedu import UserError
from vitedu.data import photo
from vitedu.data.dataset import hold_out
from vitedu.evaluate import (
    Features,
    features,
    fewshot_accuracy,
    knn,
    linear_probe,
)

MODEL = small()  # not asked for features that are given


def drawn(n=90, d=24, num_classes=3, seed=0):
    """Clouds that overlap, of different scales and places; most is noise."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % num_classes
    x = torch.randn(n, d, generator=generator)
    x[:, :num_classes] += F.one_hot(labels, num_classes)
    return Features(x * torch.logspace(-2, 2, d) + 5, labels)


@pytest.mark.slow  # scikit-learn's import takes seconds
@pytest.mark.parametrize("l2", [1.0, 0.01, 1e-4])
def test_is_scikit_learns_logistic_regression(l2):
    linear_model = pytest.importorskip("sklearn.linear_model")
    train = drawn()
    found = linear_probe(MODEL, train, l2=l2)
    x = ((train.features.double() - found.mean) / found.std).numpy()
    theirs = linear_model.LogisticRegression(
        C=1 / (l2 * len(x)), tol=1e-8, max_iter=10_000
    ).fit(x, train.labels.numpy())
    # both stop at a gradient of 1e-6 or less; the curvature is l2 or more
    weights = torch.from_numpy(theirs.coef_)
    assert_close(found.weight, weights, rtol=1e-3, atol=1e-4)
    # of the biases, which are free, only differences count
    bias = torch.from_numpy(theirs.intercept_)
    centred = found.bias - found.bias.mean()
    assert_close(centred, bias - bias.mean(), rtol=1e-3, atol=1e-4)


def test_the_gradient_of_the_stated_loss_is_zero():
    train = drawn()
    found = linear_probe(MODEL, train, l2=0.1)
    weight = found.weight.clone().requires_grad_()
    logits = found._replace(weight=weight).logits(train.features)
    loss = F.cross_entropy(logits, train.labels)
    (loss + 0.1 / 2 * weight.square().sum()).backward()
    assert weight.grad.abs().max() < 2e-6


def test_l2_is_the_one_with_the_lowest_loss_on_what_is_held_out():
    train, l2s = drawn(), (100.0, 0.1, 1e-6)
    found = linear_probe(MODEL, train, l2=l2s)
    held_out = hold_out(train.labels, 0.2, 0)
    x, y = train.take(held_out)
    losses = {
        l2: F.cross_entropy(
            linear_probe(MODEL, train.take(~held_out), l2=l2).logits(x), y
        )
        for l2 in l2s
    }
    assert found.l2 == min(losses, key=losses.get) == 0.1
    # and in the end it learns from all images
    alone = linear_probe(MODEL, train, l2=0.1)
    assert_close(found.weight, alone.weight, rtol=1e-3, atol=1e-4)
    assert torch.equal(found.mean, train.features.double().mean(0))


def test_a_feature_that_never_changes_has_no_weight():
    train = drawn()
    features = torch.cat([train.features, torch.ones(90, 1)], dim=1)
    found = linear_probe(MODEL, Features(features, train.labels), l2=0.1)
    assert not found.weight[:, -1].any()


GOOD = drawn(6)


# --- neighbours


def direct(train, test, k, temperature):
    """The formula, image by image, in percent."""
    right = 0
    for x, label in zip(*test, strict=True):
        similarity = F.cosine_similarity(x[None], train.features)
        votes = torch.zeros(int(train.labels.max()) + 1)
        for row in similarity.argsort(descending=True)[:k]:
            votes[train.labels[row]] += (similarity[row] / temperature).exp()
        right += int(votes.argmax() == label)
    return 100 * right / len(test.labels)


@pytest.mark.parametrize("k", [1, 5, 20, 500])
@pytest.mark.parametrize("temperature", [0.07, 0.5])
def test_neighbours_vote_as_in_the_direct_formula(k, temperature):
    train, test = drawn(), drawn(40, seed=1)
    found = knn(MODEL, train, test, k=k, temperature=temperature)
    assert found == direct(train, test, k, temperature)
    assert 30 < found < 100  # the clouds overlap


def test_neighbours_are_found_in_pieces_too(monkeypatch):
    train, test = drawn(), drawn(40, seed=1)
    whole = knn(MODEL, train, test)
    monkeypatch.setattr("vitedu.evaluate.probe.SIMILARITIES", 7 * 90)
    assert knn(MODEL, train, test) == whole


def test_a_small_temperature_does_not_overflow():
    train, test = drawn(), drawn(40, seed=1)
    nearest = knn(MODEL, train, test, k=1)
    assert knn(MODEL, train, test, temperature=1e-4) == nearest


@pytest.mark.slow  # scikit-learn's import takes seconds
def test_the_nearest_is_scikit_learns():
    neighbors = pytest.importorskip("sklearn.neighbors")
    train, test = drawn(), drawn(40, seed=1)
    theirs = neighbors.KNeighborsClassifier(1, metric="cosine")
    theirs.fit(*(each.numpy() for each in train))
    want = 100 * theirs.score(*(each.numpy() for each in test))
    assert knn(MODEL, train, test, k=1) == pytest.approx(want)


# --- the same data in the same way


MEASURES = {
    "knn": knn,
    "few shots": fewshot_accuracy,
    "probe": lambda model, train, test: linear_probe(
        model, train, l2=0.1
    ).accuracy(model, test),
}


@pytest.fixture
def folders(tmp_path):
    """Pictures of three classes to train on; val/ has only two of them."""
    for part, names in {"train": "abc", "val": "bc"}.items():
        for name in names:
            for number in range(4):
                folder = tmp_path / part / name
                folder.mkdir(parents=True, exist_ok=True)
                place = 60 * "abc".index(name) + number
                picture = photo("cat").crop((place, 0, place + 60, 50))
                picture.save(folder / f"{number}.png")
    return tmp_path / "train", tmp_path / "val"


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_a_folder_without_one_of_the_classes_keeps_their_numbers(
    measure, folders
):
    # every picture is known, so a shifted number would make all of them wrong
    assert measure(MODEL, *folders) == 100


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_folders_arrays_and_features_of_them_are_measured_alike(
    measure, folders
):
    train, _ = folders
    found = features(MODEL, train)
    pictures = [Image.open(path) for path in sorted(train.glob("*/*.png"))]
    arrays = np.stack(list(map(np.asarray, pictures))), found.labels
    values = {
        measure(MODEL, *pair)
        for pair in ((train, train), (found, found), (arrays, arrays))
    }
    assert values == {100.0}


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_a_class_that_training_never_saw_is_a_mistake(measure, folders):
    train, val = folders
    with pytest.raises(UserError, match="'a', which the training data doesn't"):
        measure(MODEL, val, train)
