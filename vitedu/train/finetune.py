"""Fine-tuning: trained weights, data of your own, one line.

`vitedu.finetune("ViT-Ti/16", "photos", "out", epochs=5)`
"""

from collections.abc import Callable, Container
from dataclasses import replace
from math import ceil
from os import PathLike, fspath
from typing import Any, Literal, TypedDict, Unpack

from vitedu.budget import check_memory
from vitedu.data.augment import Augment
from vitedu.data.catalogue import kind_of
from vitedu.data.dataset import Loader, Split
from vitedu.data.feed.pictures import PictureChange
from vitedu.data.feed.source import Draws, Source
from vitedu.data.open import (
    can_train_on,
    folder_of,
    open_split,
    parts_of,
)
from vitedu.errors import UserError
from vitedu.evaluate.losses import Loss
from vitedu.fields import check_names, field_types
from vitedu.model import Classifier, ViTConfig
from vitedu.model.classifier import LossName
from vitedu.model.network import Network
from vitedu.pictures import PreprocessSpec, is_prepared
from vitedu.train import start
from vitedu.train.config import (
    Attention,
    Keep,
    Optimizer,
    Precision,
    Schedule,
    Tier,
    TrainConfig,
    changed,
)
from vitedu.train.data import data_classes
from vitedu.train.fit import Start, fit
from vitedu.train.journal import Progress, Run
from vitedu.train.processes.device import find_device
from vitedu.train.recipes import recipe
from vitedu.train.recipes.imagenet import smoke_size


class FinetuneFields(TypedDict, total=False):
    image_size: int | tuple[int, int]
    dropout: float
    drop_path: float
    tier: Tier
    preprocess: PreprocessSpec
    epochs: int | None
    steps: int | None
    batch_size: int
    micro_batch_size: int | None
    optimizer: Optimizer
    lr: float
    betas: tuple[float, float]
    weight_decay: float
    schedule: Schedule
    warmup: float
    layer_decay: float
    freeze: int | Literal["backbone"] | None
    max_grad_norm: float | None
    head_bias: float
    label_smoothing: float
    class_weights: Literal["balanced"] | None
    mixup: float
    cutmix: float
    ema: float | None
    keep: Keep
    patience: int | None
    precision: Precision
    attention: Attention
    compile: bool
    activation_checkpointing: bool
    shard: bool
    seed: int
    max_images: int | None
    fallback: Literal["digits"] | None
    device: str
    threads: int | None
    num_workers: int | Literal["auto"]
    log_every: int
    save_every: int | None


# Pictures held out to choose the best weights by: share, number, a class's.
SHARE = 0.1
LEAST = 50
LEAST_OF_CLASS = 2
MODEL_FIELDS = ("image_size", "dropout", "drop_path")


def finetune(
    weights: str | PathLike[str] | Network,
    data: Any,
    out: str | PathLike[str] | None = None,
    *,
    validation: Any = None,
    test: Any = None,
    loss: LossName | Loss | None = None,
    augment: Augment | PictureChange | None = None,
    on_start: Callable[[Start], None] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    progress: bool = True,
    command: str = "vitedu.finetune",
    **fields: Unpack[FinetuneFields],
) -> Run:
    """Train a model that has learned something on your own data, in one line.

    >>> vitedu.finetune(
    ...     "ViT-Ti/16", "photos", "out", epochs=5, layer_decay=0.75
    ... )

    `weights` is what `vitedu.load` takes (a name, a file, a run folder), or a
    model that you have, which is then changed and trained itself. `data` is a
    folder with a folder of pictures for each class (with train/ and val/ above
    them, or without), a named data set, or anything else that
    `vitedu.data.as_source` takes. Its classes are counted. The head starts from
    zeros unless the weights were trained on classes of the same names, or on as
    many if the data only number them. Pictures are prepared as for the weights,
    and positions are resized to `image_size`.

    Of a folder with at least 500 pictures to train on, and 20 of each class on
    average, a tenth of each class is held out (`validation=0.1`), every epoch
    is measured on it, and the best weights are kept; `validation=0` trains on
    all, and `keep="last"` keeps the last. Named sets are used as they come.

    The arguments from `out` to `progress` are those of `vitedu.train.fit`:
    the same line again goes on with a run that was stopped. Images that come
    prepared, or in batches, are not augmented, and a note says so.

    The other settings are TrainConfig's (`help(vitedu.train.TrainConfig)` says
    what each means), and the model's `image_size`, `dropout` and `drop_path`.
    Their defaults are those of the recipe `finetune`; tier "smoke" takes 10
    steps, to prove that it runs.

    UserError: a setting is unknown, or what `fit` says.
    """
    if "num_classes" in fields:
        raise UserError(
            "finetune counts the classes of the data; leave num_classes out"
        )
    check_names("finetune", fields, FinetuneFields.__annotations__)
    tier = fields.pop("tier", None) or tier_of(fields.get("device", "auto"))
    settings: dict[str, Any] = dict(fields)
    of_model = {x: settings.pop(x) for x in MODEL_FIELDS if x in settings}
    notes: list[str] = []
    is_named, name = isinstance(data, str | PathLike), start.called(data)
    split = None if is_named else open_split(data)
    if split is not None and isinstance(split.reader, Loader):
        data = split  # counted, which may have read all of it
    if augment is None and split is not None and not can_augment(split):
        augment = Augment()
        notes.append(
            "the training images are not augmented, since they come prepared "
            "or in batches; give pictures, or pixels as uint8, to have them "
            "augmented"
        )
    chosen = {*settings} | ({"validation"} if validation is not None else set())
    if isinstance(validation, int | float):
        settings["validation"], validation = validation, None
    config = replace(recipe("finetune", tier), dataset=name)
    names = data_classes(config, split)
    model = None
    if isinstance(weights, Classifier):
        model = weights
        notes += adapt(model, names, of_model)
        config = replace(config, weights=None)
    else:
        config = with_weights(config, fspath(weights), len(names))
        network = type(config.model)
        check_names(network.__name__, of_model, field_types(network))
        config = replace(config, model=replace(config.model, **of_model))
    config = changed(config, settings)
    if is_named or "validation" in chosen:
        config = with_choice(config, chosen, validation)
    return fit(
        config,
        out,
        model=model,
        train=data,
        validation=validation,
        test=test,
        loss=loss,
        augment=augment,
        on_start=on_start,
        on_progress=on_progress,
        should_stop=should_stop,
        progress=progress,
        command=command,
        notes=notes,
    )


def finetune_config(
    weights: str | None,
    data: str | None,
    tier: str,
    *,
    dataset: str | None = None,
) -> TrainConfig:
    """A command's configuration; with a `dataset`, `data` is where it is."""
    if dataset is None:
        dataset, data = data, None
    if dataset is None:
        raise UserError(
            "finetune has no data set of its own; name yours: data=FOLDER, "
            "with a folder of pictures for each class in it"
        )
    config = replace(recipe("finetune", tier), dataset=dataset, data=data)
    num_classes = len(data_classes(config))
    if weights is None:
        weights = str(config.weights)
    return with_weights(config, weights, num_classes)


def with_choice(
    config: TrainConfig, given: Container[str], validation: Any = None
) -> TrainConfig:
    """Hold a tenth out of a large enough folder, and keep the best weights.

    Large enough means that SHARE of the pictures to train on is at least LEAST,
    and LEAST_OF_CLASS of each class on average; fewer tell epochs apart by
    chance. A folder with val/ beside test/ has its own part to choose by, a
    named set is used as it comes, and what is `given` stays.
    """
    place = folder_of(config.dataset, config.data)
    has_part = validation is not None
    is_own = place is not None and kind_of(config.dataset) is None
    if place and is_own and place.is_dir() and "validation" not in given:
        has_part = {"val", "test"} <= parts_of(place).keys()
        least = max(LEAST, LEAST_OF_CLASS * config.model.num_classes)
        count = ceil(least / SHARE)
        is_small = config.max_images is not None and config.max_images < count
        if not (has_part or is_small) and can_train_on(place, count):
            config = replace(config, validation=SHARE)
    if "keep" not in given and (config.validation or has_part):
        config = replace(config, keep="best")
    return config


def with_weights(
    config: TrainConfig, weights: str, num_classes: int
) -> TrainConfig:
    """Start a recipe from trained weights other than its own.

    Network sizes, mean and std change; image size, resizing and dropout don't.
    The recipe finetune takes all from the weights; smoke makes images small.
    """
    before, spec = config.model, config.preprocess
    is_open = config.recipe == "finetune"
    size = {} if is_open else {"image_size": before.image_size}
    loaded = start.load_to_train(weights, num_classes=num_classes, **size)
    model, theirs = loaded.config, loaded.preprocess
    if is_open:
        spec = theirs
        if config.tier == "smoke":
            model = replace(model, image_size=smoke_size(model))
    elif isinstance(model, ViTConfig) and isinstance(before, ViTConfig):
        model = replace(model, **start.free_fields(before))
    return replace(
        config,
        weights=weights,
        model=model,
        preprocess=replace(spec, mean=theirs.mean, std=theirs.std),
    )


def adapt(
    model: Network, names: tuple[str, ...], settings: dict[str, Any]
) -> list[str]:
    for name in ("dropout", "drop_path"):
        if name in settings:
            raise UserError(
                f"{name}={settings[name]} cannot be set in a model that is "
                "built; give the name or the file of its weights instead, or "
                f"load it with {name}={settings[name]}"
            )
    if "image_size" in settings:
        resized = replace(model.config, image_size=settings["image_size"])
        check_memory(resized, "this model with images of that size")
        model.set_input_size(resized.image_size)
    notes = start.fit_head(model, names, len(names), "the model")
    model.class_names = start.run_classes(model, names)
    return notes


def tier_of(device: str) -> str:
    return "cpu" if find_device(device).type == "cpu" else "gpu"


def can_augment(split: Split) -> bool:
    """False for batches, and if the first image is already prepared."""
    if isinstance(split.reader, Loader | Source):
        return False
    with Draws(0):
        picture, _ = split[0]
    return not is_prepared(picture)
