"""The state before the first step: model, loss and classes.

`state = build_state(config, sources.train, device)`
"""

import re
import shlex
import warnings
from dataclasses import fields, replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

from vitedu.budget import OPTIMIZER_STATE, check_memory
from vitedu.data import Source
from vitedu.data.augment import Augment
from vitedu.data.labels import few, numbered_names
from vitedu.errors import UserError
from vitedu.evaluate.losses import GivenLoss, Loss
from vitedu.model import Classifier, ViTConfig, new_network
from vitedu.model.classifier import LossName
from vitedu.model.network import Network
from vitedu.train.config import TrainConfig
from vitedu.train.data import path_as_dataset
from vitedu.train.optimizer import MovingAverage, optimizer_of
from vitedu.train.precision import build_precision
from vitedu.train.processes import SINGLE, Processes
from vitedu.train.schedule import build_schedule
from vitedu.train.state import TrainState, count_steps
from vitedu.weights import load
from vitedu.weights.save import expected_shapes

if TYPE_CHECKING:
    from vitedu.data.feed.pictures import PictureChange


# --- what is given in Python


class Given(NamedTuple):
    """The objects passed to `fit`; a run records only their names."""

    model: Network | None = None
    train: Any = None
    validation: Any = None
    test: Any = None
    loss: LossName | Loss | None = None
    augment: "Augment | PictureChange | None" = None

    @property
    def names(self) -> str | None:
        """The text of `TrainConfig.given`: "train=ImageFolder loss=focal_loss".

        Words with a blank are quoted as in a shell: `'test=my photos'`.
        """
        words = [
            f"{argument}={name_of(value)}"
            for argument, value in self._asdict().items()
            if value is not None
        ]
        return " ".join(map(quoted, words)) or None

    @property
    def has_data(self) -> bool:
        """Whether any part of the data is an object, not a path."""
        parts = (self.train, self.validation, self.test)
        return any(
            part is not None and not isinstance(part, str | PathLike)
            for part in parts
        )


def into_settings(
    config: TrainConfig, given: Given
) -> tuple[TrainConfig, Given]:
    """Move into `config` what settings can express; the objects left over.

    These are a path to train on, a share to validate on, a loss's name, an
    `Augment`, and a model's fields. A setting that an object replaces is reset.

    UserError: a setting contradicts an object, or what `check_model` says.
    """
    config, train = path_as_dataset(config, given.train)
    given = given._replace(train=train)
    changes: dict[str, Any] = {}
    if isinstance(given.validation, int | float):
        changes["validation"] = given.validation
        given = given._replace(validation=None)
    if isinstance(given.loss, str):
        changes["loss"] = given.loss
        given = given._replace(loss=None)
    elif given.loss is not None:
        check_callable("loss", given.loss, "a name")
        if config.label_smoothing:
            raise UserError(
                f"label_smoothing={config.label_smoothing} works with the "
                "losses that have a name, and not with "
                f"loss={name_of(given.loss)}; set label_smoothing=0, and "
                "smooth in your loss"
            )
        changes["loss"] = "softmax"
    if isinstance(given.augment, Augment):
        changes["augment"] = given.augment
        given = given._replace(augment=None)
    elif given.augment is not None:
        check_callable("augment", given.augment, "an Augment")
        changes["augment"] = Augment()
    if (model := given.model) is not None:
        check_model(model)
        if config.weights is not None:
            raise UserError(
                f"weights={config.weights} and model= are two models to start "
                "from; leave one of them out"
            )
        changes |= {"model": model.config, "preprocess": model.preprocess}
    changes["given"] = config.given or given.names
    return replace(config, **changes), given


def check_callable(name: str, value: Any, other: str) -> None:
    if not callable(value):
        raise TypeError(
            f"{name} must be {other} or a function, got {type(value).__name__}"
        )


def quoted(word: str) -> str:
    return shlex.quote(word) if re.search(r"""[\s"'\\]""", word) else word


def name_of(value: Any) -> str:
    if isinstance(value, str | PathLike):
        return fspath(value)
    if hasattr(value, "func"):  # functools.partial
        return name_of(value.func)
    name = getattr(value, "__name__", type(value).__name__)
    return str(name).strip("<>")  # <lambda>


def check_given_again(recorded: str | None, now: str | None) -> None:
    """UserError: objects that the run was given are missing now."""
    if recorded is None or recorded == now:
        return
    words, present = shlex.split(recorded), shlex.split(now or "")
    missing = [word for word in words if word not in present] or words
    arguments = ["{0}={0}".format(word.partition("=")[0]) for word in missing]
    raise UserError(
        f"this run was given {' and '.join(missing)} in Python, which can't be "
        "stored; resume from Python: vitedu.train.fit(config, out, "
        f"{', '.join(arguments)})"
    )


def check_model(model: Network) -> None:
    """Refuse a model that can't be trained or written.

    TypeError: it isn't one of vitedu's. UserError: it is not in float32, or its
    weights don't fit its configuration.
    """
    if not isinstance(model, Classifier):
        raise TypeError(
            "model must be a ViT or a ResNet of vitedu, got "
            f"{type(model).__name__}; if it is a wrapper (DDP, torch.compile), "
            "pass the model inside"
        )
    for name, weight in model.named_parameters():
        if weight.dtype != torch.float32:
            raise UserError(
                f"{name} is {weight.dtype}, and training needs weights in "
                "float32; call model.float(), and set precision= for the "
                "arithmetic"
            )
    described = expected_shapes(model.config)
    shapes = {name: each.shape for name, each in model.state_dict().items()}
    for name in sorted(described.keys() | shapes.keys()):
        here, there = (
            tuple(each[name]) if name in each else "none"
            for each in (shapes, described)
        )
        if here != there:
            raise UserError(
                f"{name} has the shape {here} in the model and {there} in its "
                "configuration, so its weights could not be loaded again; "
                "change the head with model.reset_classifier, and train "
                "anything else in a loop of your own"
            )


# --- the network and its classes


def build_model(config: TrainConfig) -> Network:
    """The network at the start of a run, on the CPU.

    Weights are initialised from the seed, or loaded from `config.weights`.
    UserError: those are of another architecture.
    """
    return first_network(config, ())[0]


def first_network(
    config: TrainConfig, class_names: tuple[str, ...]
) -> tuple[Network, list[str]]:
    """A new or trained network for these classes, and notes on changes.

    Trained weights get a head of zeros if their classes differ or are unnamed.
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
    """UserError: the weights' architecture isn't that of `config.model`."""
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
        # not in the file: any weights can be trained with them
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
    """`vitedu.load` without its warning about a zero head."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*its head is all zeros")
        return load(weights, **overrides)


def run_classes(
    model: Network, class_names: tuple[str, ...]
) -> tuple[tuple[str, ...], list[str]]:
    """The run's class names, and notes.

    The model's, if the data only number theirs and have as many.
    """
    known, numbered = model.class_names, numbered_names(len(class_names))
    are_named = class_names != numbered or known == numbered
    if are_named or len(known) != len(numbered):
        return class_names, []
    return known, [
        "the data do not name their classes, so they are taken for the "
        "model's: " + few(known)
    ]


def check_order(model: Network, class_names: tuple[str, ...]) -> list[str]:
    """A note if the data rename the classes of a given model.

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
    return (
        f"{weights} has as many classes as the data, but different ones, so "
        "the head starts from zeros"
    )


def differing(one: Any, other: Any) -> str:
    """Up to three fields in which the two differ: "depth=12 (here 4)"."""
    names = [each.name for each in fields(one)]
    pairs = [(name, getattr(one, name), getattr(other, name)) for name in names]
    differ = [f"{name}={x} (here {y})" for name, x, y in pairs if x != y]
    return ", ".join(differ[:3])


def is_zero_head(model: Network) -> bool:
    return not any(x.any() for x in model.get_classifier().parameters())


def zero_head(model: Network) -> None:
    """In place; the paper fine-tunes from a head of zeros."""
    for weight in model.get_classifier().parameters():
        nn.init.zeros_(weight)


# --- the state before the first step


def build_state(
    config: TrainConfig,
    train: Source,
    device: torch.device,
    processes: Processes = SINGLE,
    *,
    model: Network | None = None,
    loss: Loss | None = None,
) -> TrainState:
    """The state before the first step: weights from the seed, on the CPU.

    A given `model` keeps its weights and is trained itself; a given `loss` is
    checked to be a sum.
    UserError: the model has the data's classes in another order, or there isn't
    enough memory.
    """
    class_names = tuple(getattr(train, "class_names", ()))
    if model is None:
        check_room(config, device)
        model, notes = first_network(config, class_names)
    else:
        notes = check_order(model, class_names)
    class_names, more_notes = run_classes(model, class_names)
    notes += more_notes
    model = model.to(device)
    if config.activation_checkpointing:
        model.set_grad_checkpointing()
    if config.compile and (note := compile_model(model, device)):
        notes.append(note)
    if processes.world_size > 1:
        notes.append(f"{processes.world_size} processes share every batch")
    elif config.shard:
        notes.append("shard=true has no effect: there is one process")
    num_steps = count_steps(config, len(train))
    return TrainState(
        config=config,
        # first: FSDP2 replaces the parameters
        model=processes.wrap_model(model.train(), config.shard),
        optimizer=optimizer_of(model, config),
        schedule=build_schedule(
            config.schedule, config.lr, num_steps, config.warmup
        ),
        precision=build_precision(config.precision, device, config.attention),
        ema=MovingAverage(model, config.ema) if config.ema else None,
        loss=None if loss is None else GivenLoss(loss, name_of(loss)),
        images_per_epoch=len(train),
        class_names=class_names,
        notes=notes,
    )


def check_room(config: TrainConfig, device: torch.device) -> None:
    """UserError: there isn't enough memory to build and train the network."""
    # built on the CPU, but only training on it needs several copies there
    copies = num_copies(config) if device.type == "cpu" else 1
    check_memory(config.model, "training this model", copies=copies)


def num_copies(config: TrainConfig) -> int:
    """Values per weight: itself, gradient, moments, average."""
    moments = OPTIMIZER_STATE.get(config.optimizer, 2)
    return 2 + moments + bool(config.ema)


def compile_model(model: nn.Module, device: torch.device) -> str | None:
    """Compile in place, at the first forward pass; parameters keep their names.

    Where torch.compile doesn't work (no C++ compiler, no Triton, an unsupported
    Python or system) the model stays as it is; returns a sentence on why.
    """

    def probe(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1.0

    try:
        torch.compile(probe)(torch.ones(8, device=device))
    except Exception as error:  # each missing tool raises another kind
        lines = str(error).splitlines() or [type(error).__name__]
        return (
            "compile=true has no effect, torch.compile fails here "
            f"({lines[0]}); training goes on uncompiled"
        )
    model.compile()
    return None
