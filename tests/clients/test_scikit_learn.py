"""scikit-learn: a probe on the features of a folder."""

from importlib.util import find_spec

import pytest

import vitedu

pytestmark = [
    pytest.mark.clients,
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("sklearn") is None, reason="sklearn is not installed"
    ),
]


def test_a_probe_on_the_features_of_a_folder(model, photos):
    from sklearn.linear_model import LogisticRegression

    features, labels = vitedu.evaluate.features(model, photos)
    assert features.shape == (8, 192)
    assert labels.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    probe = LogisticRegression().fit(features, labels)
    assert probe.score(features, labels) == 1
