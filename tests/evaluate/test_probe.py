"""The probe's weights are scikit-learn's; its l2 is chosen on other images."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from vitedu import UserError
from vitedu.data.feed.order import hold_out
from vitedu.evaluate import Features, linear_probe


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
    found = linear_probe(train, l2=l2)
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
    found = linear_probe(train, l2=0.1)
    weight = found.weight.clone().requires_grad_()
    logits = found._replace(weight=weight).logits(train.features)
    loss = F.cross_entropy(logits, train.labels)
    (loss + 0.1 / 2 * weight.square().sum()).backward()
    assert weight.grad.abs().max() < 2e-6


def test_l2_is_the_one_with_the_lowest_loss_on_what_is_held_out():
    train, l2s = drawn(), (100.0, 0.1, 1e-6)
    found = linear_probe(train, l2=l2s)
    held_out = hold_out(train.labels, 0.2, 0)
    x, y = train.take(held_out)
    losses = {
        l2: F.cross_entropy(
            linear_probe(train.take(~held_out), l2=l2).logits(x), y
        )
        for l2 in l2s
    }
    assert found.l2 == min(losses, key=losses.get) == 0.1
    # and in the end it learns from all images
    alone = linear_probe(train, l2=0.1)
    assert_close(found.weight, alone.weight, rtol=1e-3, atol=1e-4)
    assert torch.equal(found.mean, train.features.double().mean(0))


def test_a_feature_that_never_changes_has_no_weight():
    train = drawn()
    features = torch.cat([train.features, torch.ones(90, 1)], dim=1)
    found = linear_probe(Features(features, train.labels), l2=0.1)
    assert not found.weight[:, -1].any()


GOOD = drawn(6)


@pytest.mark.parametrize(
    ("train", "options", "error", "said"),
    [
        (GOOD, {}, UserError, "held-out share of 0.2 of 6"),
        (GOOD, {"validation": 0.0}, UserError, "held-out share of 0.0"),
        (GOOD._replace(labels=GOOD.labels[:2]), {}, ValueError, r"and \(2,\)"),
        (GOOD._replace(features=GOOD.features / 0), {}, ValueError, "NaN or"),
        (GOOD, {"l2": [1.0, 0.0]}, ValueError, "l2 must be above 0, got"),
    ],
)
def test_what_does_not_fit_is_one_sentence(train, options, error, said):
    with pytest.raises(error, match=said) as raised:
        linear_probe(train, **options)
    assert "\n" not in str(raised.value)
