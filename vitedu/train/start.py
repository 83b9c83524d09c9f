"""What a run starts with: what `fit` is given in Python, and the first state.

`state = build_state(config, sources.train, device)`
"""

import hashlib
import shlex
import warnings
from collections import Counter
from dataclasses import fields, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from vitedu.budget import OPTIMIZER_STATE, check_memory
from vitedu.data import Source
from vitedu.data.augment import Augment
from vitedu.data.catalogue import kind_of
from vitedu.data.feed.pictures import PictureChange
from vitedu.data.feed.source import labels_of
from vitedu.data.labels import few, numbered_names
from vitedu.errors import UserError
from vitedu.evaluate.batches import rows_of_classes
from vitedu.evaluate.losses import GivenLoss, Loss, balanced_weights
from vitedu.files import user_path
from vitedu.model import Classifier, ViTConfig, new_network
from vitedu.model.classifier import LossName
from vitedu.model.mae import Unlabelled
from vitedu.model.network import Network
from vitedu.train.config import TrainConfig
from vitedu.train.optimizer import MovingAverage, freeze, optimizer_of
from vitedu.train.precision import build_precision
from vitedu.train.processes import SINGLE, Processes
from vitedu.train.run_folder import OtherRun
from vitedu.train.schedule import build_schedule
from vitedu.train.step import TrainState, count_steps
from vitedu.weights import load
from vitedu.weights.load import find_arrays
from vitedu.weights.save import check_fits, expected_shapes

UNEVEN = 10  # times as many images in one class as in another: worth a word

# --- what is given in Python


class Given(NamedTuple):
    """The objects passed to `fit`; a run records only their names."""

    model: Network | None = None
    train: Any = None
    validation: Any = None
    test: Any = None
    loss: LossName | Loss | None = None
    augment: Augment | PictureChange | None = None

    @property
    def names(self) -> str | None:
        """Quoted as in a shell: "train=ImageFolder 'test=my photos'"."""
        words = [
            f"{argument}={called(value)}"
            for argument, value in self._asdict().items()
            if value is not None
        ]
        return shlex.join(words) or None

    @property
    def has_data(self) -> bool:
        parts = (self.train, self.validation, self.test)
        return not all(isinstance(x, str | PathLike | None) for x in parts)


NOTHING = Given()


def into_settings(
    config: TrainConfig, given: Given
) -> tuple[TrainConfig, Given]:
    """Move into `config` what settings can express; the objects left over.

    A setting that an object replaces is reset. UserError: a setting contradicts
    an object, or what `check_model` says.
    """
    changes: dict[str, Any] = {}
    if isinstance(given.train, str | PathLike):
        changes |= {"dataset": fspath(given.train), "data": None}
        given = given._replace(train=None)
    if isinstance(given.validation, int | float):
        changes["validation"] = given.validation
        given = given._replace(validation=None)
    if isinstance(given.loss, str):
        changes["loss"] = given.loss
        given = given._replace(loss=None)
    elif given.loss is not None:
        for name, off, verb in (
            ("label_smoothing", "0", "smooth"),
            ("class_weights", "none", "weigh the classes"),
        ):
            if value := getattr(config, name):
                raise UserError(
                    f"{name}={value} works with the losses that have a name, "
                    f"and not with loss={called(given.loss)}; set "
                    f"{name}={off}, and {verb} in your loss"
                )
        changes["loss"] = "softmax"
    if isinstance(given.augment, Augment):
        changes["augment"] = given.augment
        given = given._replace(augment=None)
    elif given.augment is not None:
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
    if not (config.dataset or "dataset" in changes):
        if given.train is None:
            raise UserError(
                "there is nothing to train on: give fit data with train=, or "
                "name a data set in the configuration (dataset=)"
            )
        changes["dataset"] = called(given.train)
    return replace(config, **changes), given


def called(value: Any) -> str:
    if isinstance(value, str | PathLike):
        return fspath(value)
    value = getattr(value, "func", value)  # of functools.partial
    # behind batches that were counted
    value = getattr(getattr(value, "reader", None), "loader", value)
    name = getattr(value, "__name__", type(value).__name__)
    return str(name).strip("<>")  # <lambda>


def check_model(model: Network) -> None:
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
    check_fits(model.state_dict(), expected_shapes(model.config))


def start_of(config: TrainConfig, given: Given, own: Path) -> str | None:
    """A hash of the weights that a run starts from: a model's or a file's.

    None: there are none, or they are in its own file, where it has got to.
    """
    weights: dict[str, Tensor]
    if (model := given.model) is not None:
        weights = model.state_dict()
    elif config.weights is None or not user_path(config.weights).exists():
        return None
    else:
        weights = find_arrays(config.weights).arrays
    found = hash_of(weights)
    if own.is_file() and found == hash_of(find_arrays(own).arrays):
        return None
    return found


def hash_of(weights: dict[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()[:16]


def check_start(
    folder: Path, config: TrainConfig, before: str | None, now: str | None
) -> None:
    if before == now or None in (before, now):
        return
    whose = "the model given now"
    if config.weights is not None:
        whose = f"weights={config.weights} now"
    raise OtherRun(
        f"{folder} contains a run that started from other weights than those "
        f"of {whose}; start from the same, or train in another folder"
    )


# --- the network and its classes


def build_model(
    config: TrainConfig, class_names: tuple[str, ...] = ()
) -> tuple[Network, list[str]]:
    """The network at the start of a run, on the CPU, and notes on changes.

    The head of trained weights is fitted to `class_names`, see `fit_head`.
    UserError: they are of another architecture.
    """
    notes: list[str] = []
    if config.weights is None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            model = new_network(config.model)
    else:
        model, notes = trained_network(config, config.weights, class_names)
        if differ := differing(model.preprocess, config.preprocess):
            notes.append(
                f"{config.weights} was trained on pictures with {differ}"
            )
    if config.head_bias and is_zero_head(model):
        nn.init.constant_(model.get_classifier().bias, config.head_bias)
    return model, notes


def trained_network(
    config: TrainConfig, weights: str, class_names: tuple[str, ...]
) -> tuple[Network, list[str]]:
    wanted = config.model
    overrides: dict[str, Any] = {"image_size": wanted.image_size}
    model = load_to_train(weights, **overrides)
    if type(model.config) is not type(wanted):
        raise UserError(
            f"weights={weights} is a {type(model).__name__}, but the model of "
            f"this run is described by a {type(wanted).__name__}"
        )
    if isinstance(wanted, ViTConfig):
        overrides |= free_fields(wanted)
        if replace(model.config, **overrides) != model.config:
            model = load_to_train(weights, **overrides)
    notes = fit_head(model, class_names, wanted.num_classes, weights)
    if differ := differing(model.config, wanted):
        raise UserError(
            f"weights={weights} does not fit the model of this run: it has "
            f"{differ}; leave model.* out, and use the recipe finetune"
        )
    return model, notes


def free_fields(wanted: ViTConfig) -> dict[str, Any]:
    """Fields that weights leave open: any can be trained with them."""
    pool = {"pool": "mean"} if wanted.pool == "mean" else {}
    return {"dropout": wanted.dropout, "drop_path": wanted.drop_path} | pool


def load_to_train(weights: str, **overrides: Any) -> Network:
    """`vitedu.load` without its warning about a zero head.

    An MAE or an MPP gives the ViT inside.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*its head is all zeros")
        model = load(weights, **overrides)
        if isinstance(model, Unlabelled):
            model = load(weights, num_classes=0, **overrides)
        return model


def run_classes(
    model: Network | None, class_names: tuple[str, ...]
) -> tuple[str, ...]:
    """The run's class names: the model's if the data only number as many."""
    known, count = getattr(model, "class_names", ()), len(class_names)
    is_numbered = class_names == numbered_names(count)
    return known if is_numbered and len(known) == count else class_names


def fit_head(
    model: Network, class_names: tuple[str, ...], num_classes: int, what: str
) -> list[str]:
    """Fit the head to the data's classes in place; notes.

    It takes over the rows of the classes that the model knows. Unless it knows
    them all, it starts from zeros, as the paper fine-tunes.
    """
    names, count = run_classes(model, class_names), model.num_classes
    is_same = not names or model.class_names == names or is_zero_head(model)
    if count == num_classes and is_same:
        return []
    rows = None
    has_layer = getattr(model.config, "pre_logits", None)
    if not (is_zero_head(model) or names == numbered_names(len(names))):
        # another head goes with the layer before it
        if count == num_classes or not has_layer:
            rows = rows_of_classes(model.class_names, names)
    trained = [x.detach().clone() for x in model.get_classifier().parameters()]
    if count != num_classes:
        model.reset_classifier(num_classes)
    with torch.no_grad():
        fresh = model.get_classifier().parameters()
        for weight, before in zip(fresh, trained, strict=False):
            weight.zero_()
            for row, old in enumerate(rows or ()):
                if old is not None:
                    weight[row] = before[old]
    if rows:
        notes = [
            f"{what} knows the data's {num_classes:,} classes, so the head "
            "starts from its rows for them, in the data's order"
        ]
        times = Counter(names)
        missed = {x for x, old in zip(names, rows, strict=True) if old is None}
        paired = {x for x in names if times[x] > 1} - missed
        if missed:
            notes.append(
                f"several classes are called {few(sorted(missed))}, so these "
                "rows of the head start from zeros; folders named by "
                "WordNet's codes tell ImageNet's apart"
            )
        if paired:
            notes.append(
                f"several classes are called {few(sorted(paired))}; they are "
                f"matched in the order in which {what} has them"
            )
        return notes
    if count != num_classes:
        return []
    return [
        f"{what} has as many classes as the data, but different ones, so the "
        "head starts from zeros"
    ]


def is_zero_head(model: Network) -> bool:
    return not any(x.any() for x in model.get_classifier().parameters())


def check_order(model: Network, class_names: tuple[str, ...]) -> list[str]:
    """A note if the data rename a model's classes. UserError: they permute."""
    known, names = model.class_names, run_classes(model, class_names)
    if not known or not names or known == names:
        return []
    if sorted(known) == sorted(names):
        raise UserError(
            f"the data have the classes in the order {few(names)}, the model "
            f"in the order {few(known)}, so a label would mean another class; "
            "use vitedu.finetune, which reorders the head, or call "
            "model.reset_classifier to begin with a new one"
        )
    return [
        f"the classes of the model, {few(known)}, are called as those of the "
        f"data from now on: {few(names)}"
    ]


def differing(one: Any, other: Any, whose: str = "here") -> str:
    """Up to three fields in which the two differ: "depth=12 (here 4)"."""
    names = [each.name for each in fields(one)]
    pairs = [(name, getattr(one, name), getattr(other, name)) for name in names]
    differ = [f"{name}={x} ({whose} {y})" for name, x, y in pairs if x != y]
    return ", ".join(differ[:3])


# --- the state before the first step


def build_state(
    config: TrainConfig,
    train: Source,
    device: torch.device,
    processes: Processes = SINGLE,
    given: Given = NOTHING,
) -> TrainState:
    """The state before the first step; a given model is trained itself."""
    named = tuple(getattr(train, "class_names", ()))
    if not config.needs_labels:
        named = ()
    model, loss = given.model, given.loss
    if model is None:
        model, notes = build_model(config, named)
    else:
        notes = check_order(model, named)
    class_names = run_classes(model, named)
    if class_names != named:
        notes.append(
            "the data do not name their classes, so they are taken for the "
            f"model's: {few(class_names)}"
        )
    weights = None
    if config.needs_labels:
        weights, uneven = balance(config, train, class_names or named)
        notes += uneven
    model.preprocess, model.class_names = config.preprocess, class_names
    model.loss_name = config.loss if loss is None else None
    frozen = freeze(model, config.freeze)
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
        loss=None if loss is None else GivenLoss(loss, called(loss)),
        images_per_epoch=len(train),
        class_weights=None if weights is None else weights.to(device),
        frozen=frozen,
        notes=notes,
    )


def balance(
    config: TrainConfig, train: Source, class_names: tuple[str, ...]
) -> tuple[Tensor | None, list[str]]:
    """The weights of the classes, and a note where own data need some."""
    labels = labels_of(train)
    if config.class_weights is not None:
        if labels is None:
            raise UserError(
                f"class_weights={config.class_weights} counts the labels "
                "before the first step, and those of the training data are "
                "only known by reading them; leave it out, and pass loss= with "
                "weights of your own"
            )
        return balanced_weights(labels, config.model.num_classes), []
    if labels is None or kind_of(config.dataset) is not None:
        return None, []
    counts = Counter(labels.tolist()).most_common()
    (large, most), (small, least) = counts[0], counts[-1]
    if most < UNEVEN * least:
        return None, []
    names = class_names or numbered_names(config.model.num_classes)
    return None, [
        f"{names[large]} has {most:,} images to train on, {names[small]} "
        f"{least:,}; class_weights=balanced lets every class count the same"
    ]


def check_room(config: TrainConfig, device: torch.device) -> None:
    copies = 1  # built on the CPU
    # weight, gradient, moments, average
    if device.type == "cpu" and config.freeze != "backbone":
        moments = OPTIMIZER_STATE.get(config.optimizer, 2)
        copies = 2 + moments + bool(config.ema)
    check_memory(config.model, "training this model", copies=copies)


def compile_model(model: nn.Module, device: torch.device) -> str | None:
    """Compile in place, or return a sentence on why torch.compile fails here.

    There may be no C++ compiler, no Triton, an unsupported Python or system.
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
