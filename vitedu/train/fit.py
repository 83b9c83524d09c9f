"""`fit`: a configuration in, a trained model out."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from vitedu.errors import UserError
from vitedu.model import ResNet, ViT
from vitedu.model.about import LossName
from vitedu.train.checkpoint import load_checkpoint
from vitedu.train.config import TrainConfig
from vitedu.train.device import find_device
from vitedu.train.distributed import own_device, process_group
from vitedu.train.folder import RunFolder
from vitedu.train.given import (
    Objects,
    check_given,
    check_model,
    name_of,
    settled,
)
from vitedu.train.journal import Progress, Run
from vitedu.train.loop import Loop, this_process
from vitedu.train.losses import GivenLoss, Loss
from vitedu.train.precision import concrete
from vitedu.train.sources import Sources, digest_of, open_sources
from vitedu.train.state import build_state
from vitedu.train.step import TrainState
from vitedu.train.threads import choose_threads, cpu_threads
from vitedu.weights import load

if TYPE_CHECKING:
    from vitedu.data.augment import Augment
    from vitedu.data.image_source import PictureChange


class Start(NamedTuple):
    """What `on_start` is told before the first step."""

    config: TrainConfig  # with the device, precision and threads that are used
    sources: Sources
    state: TrainState  # goes on with the run: `state.step`
    num_steps: int


def fit(
    config: TrainConfig,
    out: str | PathLike[str] | None = None,
    *,
    model: ViT | ResNet | None = None,
    train: Any = None,
    validation: Any = None,
    test: Any = None,
    loss: LossName | Loss | None = None,
    augment: "Augment | PictureChange | None" = None,
    on_start: Callable[[Start], None] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    command: str = "vitedu.train.fit",
) -> Run:
    """Train as `config` says; go on with the run in the folder `out`, if there is one.

    A finished run is not repeated; what its folder holds is returned. Without `out`
    nothing is written. The model of the result is in eval mode.

    `model` is one that you have, on any device: it is itself trained, and is the
    result's. Its configuration and preprocessing take the place of the config's; its
    frozen weights (`requires_grad=False`) stay as they are.

    `train`, `validation` and `test` are anything that `vitedu.data.as_source` takes: a
    folder, arrays, a torch Dataset, a DataLoader. They are used instead of
    `config.dataset`. Without `test` a share of `train` is held out and tested on,
    which takes labels that are known without reading the pictures (`targets`);
    `validation` may be the share of `train` to choose by. Data that do not name their
    classes take the names of the `model`.

    `loss(logits, labels)` returns a sum over the images of a batch, not a mean, of
    logits (b, classes) in float32; labels are int64 (b,), or (b, classes) with mixup.
    `augment(picture)` changes a training picture (pillow's) before it is resized, as
    torchvision's `TrivialAugmentWide()` does; `config.augment` is then off. The name of
    a loss ("sigmoid"), an `Augment`, a path and a share are settings as in `config`.
    What else is given is recorded by its name, and has to be given again when the run
    goes on.

    `on_progress` is told of each line of the log, `on_start` of what is about to run.
    `should_stop` is asked after every step and between the batches of an evaluation: if
    it says yes the state is saved, and the weights as they are, so `vitedu.load(out)`
    works; the same call goes on from there later. The test part is read once, after
    the last step.

    Processes started by `torchrun` share every batch of `batch_size` images, and every
    evaluation; where one is to stop all do; the first alone writes and reports.

    UserError: the configuration, the data and the model do not fit, the folder holds
    another run, or the loss is not finite; the last good state is then in the folder.
    """
    return fit_objects(
        config,
        out,
        Objects(model, train, validation, test, loss, augment),
        on_start=on_start,
        on_progress=on_progress,
        should_stop=should_stop,
        command=command,
    )


def fit_objects(
    config: TrainConfig,
    out: str | PathLike[str] | None,
    objects: Objects,
    *,
    on_start: Callable[[Start], None] | None,
    on_progress: Callable[[Progress], None] | None,
    should_stop: Callable[[], bool] | None,
    command: str,
    notes: tuple[str, ...] = (),
) -> Run:
    """`fit`, with `notes` on what was done before it, for the log and the result."""
    world = this_process()
    device = own_device(world, find_device(config.device))
    config, objects = settled(config, objects)
    model, loss = objects.model, objects.loss
    config = concrete(described(config, model, objects.names), device)
    folder = None if out is None else RunFolder(out)
    with process_group(world, device), ExitStack() as stack:
        if folder is not None and (
            run := world.first(lambda: finished_run(folder, config, objects))
        ):
            return returned(run, model, device)
        check_given(config.given, objects.names)
        threads = world.first(lambda: threads_of(config, folder))
        config = replace(config, threads=threads)
        stack.enter_context(cpu_threads(threads))
        sources = open_sources(
            config,
            device,
            train=objects.train,
            validation=objects.validation,
            test=objects.test,
            augment=objects.augment,
            class_names=() if model is None else model.class_names,
        )
        if config.keep == "best" and sources.validation is None:
            raise UserError(
                "keep=best needs validation data to choose by; hold some out of the "
                "training data with validation=0.1"
            )
        state = build_state(
            config,
            sources.train,
            device,
            world,
            model=model,
            loss=None if loss is None else GivenLoss(loss, name_of(loss)),
        )
        state.notes = [*notes, *state.notes]
        state.data_digest = sources.dataset.digest
        if folder is not None:
            world.first(lambda: stack.enter_context(folder.held(config)))
        history, seconds, pending = [], 0.0, []
        if folder is not None:
            checkpoint = folder.checkpoint
            if world.first(checkpoint.exists):
                seconds, pending = load_checkpoint(checkpoint, state, world)
            history = world.first(lambda: folder.rewind(state.step or -1))
        told = on_progress if world.is_first else None
        loop = Loop(
            config,
            state,
            sources,
            folder,
            history=history,
            seconds=seconds,
            on_progress=told,
            pending=pending,
            world=world,
        )
        if on_start is not None and world.is_first:
            on_start(Start(config, sources, state, loop.num_steps))
        asked = should_stop or (lambda: False)
        loop.run(lambda: world.any(asked()))
        return loop.finish(command)


def described(
    config: TrainConfig, model: ViT | ResNet | None, given: str | None
) -> TrainConfig:
    """`config` as it is recorded: with the given model's own fields, and what else.

    UserError: trained weights are named and a model is given, or what `check_model`
    says of it.
    """
    if model is not None:
        check_model(model)
        if config.weights is not None:
            raise UserError(
                f"weights={config.weights} and model= are two models to start from; "
                "leave one of them out"
            )
        config = replace(
            config, model=model.config, preprocess=model.preprocess
        )
    return replace(config, given=config.given or given)


def threads_of(config: TrainConfig, folder: RunFolder | None) -> int:
    """The CPU threads that are asked for, else those of the run that goes on.

    A run recorded before there was such a field used what PyTorch would.
    """
    if config.threads is not None:
        return config.threads
    if folder is not None and os.path.isfile(folder.config):
        return folder.read_config().threads or torch.get_num_threads()
    return choose_threads(config, torch.get_num_threads())


def finished_run(
    folder: RunFolder, config: TrainConfig, objects: Objects
) -> Run | None:
    """What the folder holds, if its run is done.

    UserError: it was trained on other data than those that are given now.
    """
    result = folder.finished(config)
    if result is None:
        return None
    if objects.has_data:
        now = digest_of(
            config,
            train=objects.train,
            validation=objects.validation,
            test=objects.test,
        )
        if now != result["dataset"]["digest"]:
            raise UserError(
                f"{folder.path} holds a finished run on other data than those that are "
                "given now; give another out for a new run"
            )
    return Run(result, folder.history(), load(folder.weights))


def returned(run: Run, model: ViT | ResNet | None, device: torch.device) -> Run:
    """A finished run on its device; its weights go into the model that was given."""
    if model is None:
        run.model.to(device)
        return run
    model.load_state_dict(run.model.state_dict())
    model.preprocess = run.model.preprocess
    model.class_names = run.model.class_names
    model.loss_name = run.model.loss_name
    return run._replace(model=model.to(device).eval())
