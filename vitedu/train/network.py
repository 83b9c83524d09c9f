"""The network a run begins with, and whether its classes are the data's."""

import warnings
from dataclasses import fields
from typing import Any

import torch
from torch import nn

from vitedu.data.labels import numbered_names
from vitedu.data.opened import few
from vitedu.errors import UserError
from vitedu.model import ViTConfig, new_network
from vitedu.model.network import Network
from vitedu.train.config import TrainConfig
from vitedu.weights import load


def first_network(
    config: TrainConfig, class_names: tuple[str, ...]
) -> tuple[Network, list[str]]:
    """A new network, or a trained one for these classes; notes on changes.

    Trained weights of other classes, or of classes without names, keep their
    body: the head becomes zeros.
    """
    notes: list[str] = []
    if config.weights is None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            model = new_network(config.model)
        is_new_head = True
    else:
        model = trained_network(config, config.weights)
        names, _ = run_classes(model, class_names)
        is_new_head = bool(names) and model.class_names != names
        if is_new_head and not is_zero_head(model):
            notes.append(other_classes(config.weights))
            zero_head(model)
        if differ := differing(model.preprocess, config.preprocess):
            notes.append(
                f"{config.weights} was trained on pictures with {differ}"
            )
    if config.head_bias and is_new_head:
        nn.init.constant_(model.get_classifier().bias, config.head_bias)
    return model, notes


def trained_network(config: TrainConfig, weights: str) -> Network:
    """The network of `config.model` with trained weights, positions resized.

    UserError: the weights are of another architecture; what differs is named.
    """
    wanted = config.model
    overrides: dict[str, Any] = {
        "num_classes": wanted.num_classes,
        "image_size": wanted.image_size,
    }
    model = load_to_train(weights, **overrides)
    if type(model.config) is not type(wanted):
        raise UserError(
            f"weights={weights} is a {type(model).__name__}, but the model of "
            f"this run is described by a {type(wanted).__name__}"
        )
    if isinstance(wanted, ViTConfig):
        # they aren't in the file: any weights may learn with them
        free = {"dropout": wanted.dropout, "drop_path": wanted.drop_path}
        if wanted.pool == "mean":
            free["pool"] = "mean"
        if any(getattr(model.config, x) != free[x] for x in free):
            model = load_to_train(weights, **overrides, **free)
    if differ := differing(model.config, wanted):
        raise UserError(
            f"weights={weights} does not fit the model of this run: it has "
            f"{differ}; leave model.* out, and use the recipe finetune"
        )
    return model


def load_to_train(weights: str, **overrides: Any) -> Network:
    """`vitedu.load` without the warning of a zero head: the head will learn."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*its head is all zeros")
        return load(weights, **overrides)


def run_classes(
    model: Network, class_names: tuple[str, ...]
) -> tuple[tuple[str, ...], list[str]]:
    """What a run calls its classes: as the data do; notes if as the model does.

    The model's names are taken if the data only number theirs, and have as
    many.
    """
    known, numbered = model.class_names, numbered_names(len(class_names))
    if class_names != numbered or known == numbered:
        return class_names, []
    if len(known) != len(numbered):
        return class_names, []
    return known, [
        "the data do not name their classes, so they are taken for the "
        "model's: " + few(known)
    ]


def check_order(model: Network, class_names: tuple[str, ...]) -> list[str]:
    """A note if the classes of a given model get other names from the data.

    UserError: the data have the same names in another order.
    """
    known = model.class_names
    names, _ = run_classes(model, class_names)
    if not known or not names or known == names:
        return []
    if sorted(known) == sorted(names):
        raise UserError(
            f"the data have the classes in the order {few(names)}, the model "
            f"in the order {few(known)}, so a label would mean another class; "
            "call model.reset_classifier to begin with a new head, as "
            "vitedu.finetune does"
        )
    return [
        f"the classes of the model, {few(known)}, are called as those of the "
        f"data from now on: {few(names)}"
    ]


def other_classes(weights: str) -> str:
    """The note about a head that starts anew."""
    return (
        f"{weights} has as many classes as the data, but different ones, so "
        "the head starts from zeros"
    )


def differing(one: Any, other: Any) -> str:
    """Up to three fields in which two of a kind differ: "depth=12 (here 4)"."""
    names = [each.name for each in fields(one)]
    pairs = [(name, getattr(one, name), getattr(other, name)) for name in names]
    differ = [f"{name}={x} (here {y})" for name, x, y in pairs if x != y]
    return ", ".join(differ[:3])


@torch.no_grad()
def is_zero_head(model: Network) -> bool:
    """Whether every image gets the same logits, 0."""
    return not any(x.any() for x in model.get_classifier().parameters())


def zero_head(model: Network) -> None:
    """Start the head anew, in place, as the paper fine-tunes: from zeros."""
    for weight in model.get_classifier().parameters():
        nn.init.zeros_(weight)
