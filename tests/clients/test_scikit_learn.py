"""scikit-learn: a probe on the features of a folder."""

import pytest

import vitedu
from tests.clients.marks import client

pytestmark = [*client("sklearn"), pytest.mark.slow]


def test_a_probe_on_the_features_of_a_folder(model, photos):
    from sklearn.linear_model import LogisticRegression

    features, labels = vitedu.evaluate.features(model, photos)
    assert features.shape == (8, 192)
    assert labels.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    probe = LogisticRegression().fit(features, labels)
    assert probe.score(features, labels) == 1
