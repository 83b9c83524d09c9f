"""The input of a model's head, to fit your own classifier on.

`train = vitedu.evaluate.features(model, "photos/train")`
"""

from typing import NamedTuple

from torch import Tensor

from vitedu.data.dataset import match_classes
from vitedu.data.feed.loader import yields_batches
from vitedu.data.labels import check_known
from vitedu.data.open import open_split, warn_of_skipped
from vitedu.errors import UserError
from vitedu.evaluate.batches import (
    Data,
    Model,
    all_rows,
    batches_of,
    evaluating,
    loaded,
)
from vitedu.weights.save import inside


class Features(NamedTuple):
    """Features (n, d) in the model's dtype, labels (n,) int64, on the CPU."""

    features: Tensor
    labels: Tensor

    def take(self, rows: Tensor) -> "Features":
        """Some of the images: rows int64 (m,), or bool (n,)."""
        return Features(self.features[rows], self.labels[rows])


def features(
    model: Model, data: Data, *, batch_size: int = 64, num_workers: int = 0
) -> Features:
    """The features (n, d) of the images, in their order, and their labels (n,).

    A feature is the head's input: the class token or the pooled patches after
    the final norm (and the pre-logits layer, if any); for a ResNet the mean
    over positions. `model` and `data` are as for `accuracy`, but labels are the
    data's own: for a folder, its classes in alphabetical order. All that is
    built on features takes a model and data too, or `Features`, such as some
    that were computed with more workers; here these are returned as they are.

    UserError: the data have another form, or the model keeps all tokens
    (pool=none). ValueError: there are no images. TypeError: the model isn't a
    ViT or ResNet of vitedu.
    """
    return features_and_names(model, data, (), batch_size, num_workers)[0]


def features_and_names(
    model: Model,
    data: Data,
    like: tuple[str, ...] = (),
    batch_size: int = 64,
    num_workers: int = 0,
) -> tuple[Features, tuple[str, ...]]:
    """`features`, and a folder's classes, which are matched with `like`."""
    if isinstance(data, Features):
        return data, ()
    names: tuple[str, ...] = ()
    if not yields_batches(data):
        split = open_split(data)
        warn_of_skipped(data, split)
        if split.is_named and like:
            who = "the training data"
            check_known(split.name, split.class_names, like, who)
            split = match_classes(split, like, len(like))
        data, names = split, split.class_names if split.is_named else ()
    network = inside(loaded(model), "features")
    if network.config.pool == "none":
        raise UserError(
            "the model has features for every token (pool=none) and none for "
            "the picture as a whole; load it with pool='token' or pool='mean'"
        )

    def compute(images: Tensor) -> Tensor:
        tokens = network.forward_features(images)
        return network.forward_head(tokens, pre_logits=True)

    batches = batches_of(
        network, data, batch_size, num_workers, by_class_of_model=False
    )
    with evaluating(network):
        return Features(*all_rows(compute, batches, "features")), names


def features_of_both(
    model: Model, train: Data, test: Data
) -> tuple[Features, Features]:
    """Checked; the classes of a folder `test` are matched with `train`'s."""
    known, names = features_and_names(model, train)
    unseen, _ = features_and_names(model, test, names)
    check_features("training images", *known)
    check_features("test images", *unseen)
    return known, unseen


def percent_right(answers: Tensor, labels: Tensor) -> float:
    return 100 * (answers == labels).double().mean().item()


def check_features(what: str, features: Tensor, labels: Tensor) -> None:
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise ValueError(
            f"the {what} need features (n, d) and labels (n,), got "
            f"{tuple(features.shape)} and {tuple(labels.shape)}"
        )
    if not features.isfinite().all():
        raise ValueError(
            f"the features of the {what} contain NaN or infinity; compute them "
            "in float32, or load other weights"
        )
