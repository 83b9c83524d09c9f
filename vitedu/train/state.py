"""The state of a run before its first step."""

import warnings
from dataclasses import fields
from typing import Any

import torch
from torch import nn

from vitedu.data import Source
from vitedu.data.items import numbers
from vitedu.data.opened import few
from vitedu.errors import UserError
from vitedu.model import ResNet, ViT, ViTConfig, new_network
from vitedu.train.config import TrainConfig
from vitedu.train.distributed import ALONE, Together, World, spread
from vitedu.train.losses import Loss
from vitedu.train.optimizer import MovingAverage, optimizer_of
from vitedu.train.precision import build_precision
from vitedu.train.schedule import build_schedule
from vitedu.train.step import TrainState
from vitedu.weights import load


def build_state(
    config: TrainConfig,
    train: Source,
    device: torch.device,
    world: World = ALONE,
    *,
    model: ViT | ResNet | None = None,
    loss: Loss | None = None,
) -> TrainState:
    """The state before the first step: initial weights from the seed, on the CPU.

    A `model` that is given keeps its weights, and is itself what learns.
    UserError: it counts the classes of the data in another order.
    """
    class_names = tuple(getattr(train, "class_names", ()))
    if model is None:
        model, notes = starting_model(config, class_names)
    else:
        notes = checked_classes(model, class_names)
    class_names, named = classes_of(model, class_names)
    notes += named
    model = model.to(device)
    if config.activation_checkpointing:
        model.set_grad_checkpointing()
    if config.compile and (note := compile_model(model, device)):
        notes.append(note)
    if world.size > 1:
        notes.append(f"{world.size} processes share every batch")
    elif config.shard:
        notes.append("shard=true has no effect: there is one process")
    num_steps = count_steps(config, len(train))
    precision = build_precision(config.precision, device, config.attention)
    spread_model = spread(model.train(), world, config.shard)
    if world.size > 1:
        precision = Together(
            precision, spread_model, world, config.micro_batch_size
        )
    return TrainState(
        config=config,
        model=spread_model,
        optimizer=optimizer_of(model, config),
        schedule=build_schedule(
            config.schedule, config.lr, num_steps, config.warmup
        ),
        precision=precision,
        ema=MovingAverage(model, config.ema) if config.ema else None,
        loss=loss,
        class_names=class_names,
        notes=notes,
    )


def build_model(config: TrainConfig) -> ViT | ResNet:
    """The network as the run begins with it, on the CPU.

    With the initial weights of the seed, or with the trained ones of `config.weights`.
    UserError: those are of another architecture.
    """
    return starting_model(config, ())[0]


def starting_model(
    config: TrainConfig, class_names: tuple[str, ...]
) -> tuple[ViT | ResNet, list[str]]:
    """`build_model` for classes of these names, and what is to be known about it.

    Trained weights of other classes, or of classes without names, keep their body: the
    head becomes zeros.
    """
    notes: list[str] = []
    if config.weights is None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            model = new_network(config.model)
        is_new_head = True
    else:
        model = trained_network(config, config.weights)
        names, _ = classes_of(model, class_names)
        is_new_head = bool(names) and model.class_names != names
        if is_new_head and not is_zero_head(model):
            notes.append(other_classes(config.weights))
            zero_head(model)
        if differ := differing(model.preprocess, config.preprocess):
            notes.append(
                f"{config.weights} was trained on pictures with {differ}"
            )
    if config.head_bias and is_new_head:
        nn.init.constant_(head_of(model).bias, config.head_bias)
    return model, notes


def classes_of(
    model: ViT | ResNet, class_names: tuple[str, ...]
) -> tuple[tuple[str, ...], list[str]]:
    """What a run calls its classes, and what is to be known about it.

    As the data do; where those only count them, as many, as the model does.
    """
    own, counted = model.class_names, numbers(len(class_names))
    if class_names != counted or len(own) != len(counted) or own == counted:
        return class_names, []
    return own, [
        "the data do not name their classes, so they are taken for the model's: "
        + few(own)
    ]


def checked_classes(
    model: ViT | ResNet, class_names: tuple[str, ...]
) -> list[str]:
    """What is to be known of a given model, whose head will go on with these classes.

    UserError: they are its own in another order.
    """
    own = model.class_names
    names, _ = classes_of(model, class_names)
    if not own or not names or own == names:
        return []
    if sorted(own) == sorted(names):
        raise UserError(
            f"the data count their classes in the order {few(names)}, the model in the "
            f"order {few(own)}, so that a label would mean another class; call "
            "model.reset_classifier to begin with a new head, as vitedu.finetune does"
        )
    return [
        f"the classes of the model, {few(own)}, are called as those of the data from "
        f"now on: {few(names)}"
    ]


def other_classes(weights: str) -> str:
    """The note of a head that begins anew."""
    return (
        f"{weights} has as many classes as the data, but different ones, so the head "
        "starts from zeros"
    )


def trained_network(config: TrainConfig, weights: str) -> ViT | ResNet:
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
            f"weights={weights} is a {type(model).__name__}, the model of this run is "
            f"described by a {type(wanted).__name__}"
        )
    if isinstance(wanted, ViTConfig):
        # built into the layers, and no part of the weights
        rates = {"dropout": wanted.dropout, "drop_path": wanted.drop_path}
        if any(getattr(model.config, x) != rate for x, rate in rates.items()):
            model = load_to_train(weights, **overrides, **rates)
    if differ := differing(model.config, wanted):
        raise UserError(
            f"weights={weights} does not fit the model of this run: it has {differ}; "
            "leave model.* out, and take the recipe finetune"
        )
    return model


def load_to_train(weights: str, **overrides: Any) -> ViT | ResNet:
    """`vitedu.load` without its warning of a head of zeros: that one will learn."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*its head is all zeros")
        return load(weights, **overrides)


def differing(one: Any, other: Any) -> str:
    """Up to three fields in which two of a kind differ: "depth=12 (here 4)"."""
    differ = [
        f"{each.name}={getattr(one, each.name)} (here {getattr(other, each.name)})"
        for each in fields(one)
        if getattr(one, each.name) != getattr(other, each.name)
    ]
    return ", ".join(differ[:3])


def head_of(model: ViT | ResNet) -> nn.Module:
    """The layer that gives the logits."""
    return model.get_submodule(model.head_name)


@torch.no_grad()
def is_zero_head(model: ViT | ResNet) -> bool:
    """Whether every image gets the same logits, 0."""
    return not any(weight.any() for weight in head_of(model).parameters())


def zero_head(model: ViT | ResNet) -> None:
    """Start the head anew, in place, as the paper fine-tunes: from zeros."""
    for weight in head_of(model).parameters():
        nn.init.zeros_(weight)


def count_steps(config: TrainConfig, num_images: int) -> int:
    """Updates of the whole run; the last batch of an epoch may be short."""
    if config.steps is not None:
        return config.steps
    return (config.epochs or 0) * -(-num_images // config.batch_size)


def compile_model(model: nn.Module, device: torch.device) -> str | None:
    """Compile in place, at the first forward pass; names of parameters stay.

    Where that cannot be done (no C++ compiler, no Triton, a Python or a system that
    torch.compile does not know) the model is left as it is, and a sentence says so.
    """
    try:
        torch.compile(probe)(torch.ones(8, device=device))
    except Exception as error:  # each missing tool raises another kind
        lines = str(error).splitlines() or [type(error).__name__]
        return (
            f"compile=true has no effect, torch.compile fails here ({lines[0]}); "
            "training goes on uncompiled"
        )
    model.compile()
    return None


def probe(x: torch.Tensor) -> torch.Tensor:
    """The least that has to be compiled to know whether there is a compiler."""
    return x.sin() + 1.0
