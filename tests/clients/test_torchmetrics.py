"""torchmetrics: the same accuracy as ours."""

import pytest
import torch

import vitedu
from tests.clients.marks import client

pytestmark = [
    *client("torchmetrics"),
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
