"""torchmetrics: the same accuracy as ours."""

from importlib.util import find_spec

import pytest
import torch

import vitedu

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(
        find_spec("torchmetrics") is None,
        reason="torchmetrics is not installed",
    ),
    pytest.mark.filterwarnings("ignore:::torchmetrics"),
]


def test_accuracy_is_the_same(tiny, batches):
    from torchmetrics.classification import MulticlassAccuracy

    metric = MulticlassAccuracy(2, average="micro")
    with torch.no_grad():
        for images, labels in batches:
            metric.update(tiny.eval()(images), labels)
    ours = vitedu.evaluate.accuracy(tiny, batches)
    assert ours.accuracy == pytest.approx(100 * metric.compute().item())
    assert 0 < ours.num_correct < ours.num_images
