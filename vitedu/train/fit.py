"""`fit`: a configuration in, a trained model out."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from vitedu.data.workers import explain_killed_workers
from vitedu.errors import UserError
from vitedu.model.classifier import LossName
from vitedu.model.network import Network
from vitedu.train.config import TrainConfig
from vitedu.train.device import find_device
from vitedu.train.folder import RunFolder
from vitedu.train.given import (
    Passed,
    check_model,
    check_passed_again,
    into_settings,
    name_of,
)
from vitedu.train.journal import Progress, Run
from vitedu.train.loop import Loop
from vitedu.train.losses import GivenLoss, Loss
from vitedu.train.precision import concrete
from vitedu.train.processes import from_environment
from vitedu.train.sources import Sources, digest_of, open_sources
from vitedu.train.state import TrainState, build_state, check_room
from vitedu.train.threads import choose_threads, cpu_threads
from vitedu.weights import load

if TYPE_CHECKING:
    from vitedu.data.augment import Augment
    from vitedu.data.image_source import PictureChange


class Start(NamedTuple):
    """What `on_start` gets before the first step."""

    config: TrainConfig  # with the device, precision and threads that are used
    sources: Sources
    state: TrainState  # goes on with the run: `state.step`
    num_steps: int


def fit(
    config: TrainConfig,
    out: str | PathLike[str] | None = None,
    *,
    model: Network | None = None,
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
    """Train as `config` says; go on with the run in the folder `out`, if any.

    A finished run is not repeated: you get what its folder contains. Without
    `out` nothing is written. The model of the result is in eval mode.

    `model` is one that you have, on any device: it is trained itself, and the
    result is the same object. Its configuration and preprocessing replace the
    config's; its frozen weights (`requires_grad=False`) stay as they are.

    `train`, `validation` and `test` are anything that `vitedu.data.as_source`
    takes: a folder, arrays, a torch Dataset, a DataLoader. They replace
    `config.dataset`. Without `test` a share of `train` is held out to test on,
    which needs labels that are known without reading the pictures (`targets`);
    `validation` may be the share of `train` to choose by. If the data do not
    name their classes, they get the names of the `model`.

    `loss(logits, labels)` returns a sum over the images of a batch, not a mean,
    of logits (b, classes) in float32; labels are int64 (b,), or (b, classes)
    with mixup. `augment(picture)` changes a training picture (pillow's) before
    it is resized, as torchvision's `TrivialAugmentWide()` does;
    `config.augment` is then off. The name of a loss ("sigmoid"), an `Augment`,
    a path and a share are settings as in `config`. Any other object is recorded
    by its name, and has to be passed again when the run goes on.

    `on_start` is called before the first step, `on_progress` with each line of
    the log. `should_stop` is called after every step and between the batches of
    an evaluation: if it returns True, the state is saved, and the weights as
    they are, so `vitedu.load(out)` works; the same call goes on from there
    later. The test part is read once, after the last step.

    Processes started by `torchrun` share every batch of `batch_size` images,
    and every evaluation; if one stops, all do; only the first one writes and
    reports.

    UserError: the configuration, the data and the model do not fit, the folder
    has another run in it, or the loss is not finite; the last good state is
    then in the folder.
    """
    return fit_passed(
        config,
        out,
        Passed(model, train, validation, test, loss, augment),
        on_start=on_start,
        on_progress=on_progress,
        should_stop=should_stop,
        command=command,
    )


@explain_killed_workers()
def fit_passed(
    config: TrainConfig,
    out: str | PathLike[str] | None,
    passed: Passed,
    *,
    on_start: Callable[[Start], None] | None,
    on_progress: Callable[[Progress], None] | None,
    should_stop: Callable[[], bool] | None,
    command: str,
    notes: tuple[str, ...] = (),
) -> Run:
    """`fit`, with `notes` on what was done before it, for log and result."""
    processes = from_environment()
    device = processes.device(find_device(config.device))
    config, passed = into_settings(config, passed)
    config = concrete(described(config, passed), device)
    folder = None if out is None else RunFolder(out)
    with processes.connected(device), ExitStack() as stack:
        if folder is not None and (
            run := processes.first(lambda: finished_run(folder, config, passed))
        ):
            return returned(run, passed.model, device)
        check_passed_again(config.given, passed.names)
        threads = processes.first(lambda: threads_of(config, folder))
        config = replace(config, threads=threads)
        stack.enter_context(cpu_threads(threads))
        # what is cheap to refuse comes before the data, which may take minutes
        if folder is not None:
            processes.first(lambda: folder.check(config))
        if passed.model is None:
            check_room(config, device)
        sources = processes.in_turn(lambda: sources_of(config, passed, device))
        state = build_state(
            config,
            sources.train,
            device,
            processes,
            model=passed.model,
            loss=named_loss(passed.loss),
        )
        state.data_digest = sources.dataset.digest
        state.notes = [*notes, *state.notes]
        loop = Loop(
            state,
            sources,
            folder=folder,
            processes=processes,
            on_progress=on_progress,
        )
        loop.journal.check_result(command)
        if folder is not None:
            processes.first(lambda: stack.enter_context(folder.held(config)))
        loop.resume()
        if on_start is not None and processes.is_first:
            on_start(Start(config, sources, state, state.num_steps))
        loop.run(should_stop or (lambda: False))
        return loop.finish(command)


def described(config: TrainConfig, passed: Passed) -> TrainConfig:
    """`config` as recorded: the given model's fields, and what else was given.

    UserError: trained weights are named and a model is given, or what
    `check_model` says of it.
    """
    model = passed.model
    if model is not None:
        check_model(model)
        if config.weights is not None:
            raise UserError(
                f"weights={config.weights} and model= are two models to start "
                "from; leave one of them out"
            )
        config = replace(
            config, model=model.config, preprocess=model.preprocess
        )
    return replace(config, given=config.given or passed.names)


def sources_of(
    config: TrainConfig, passed: Passed, device: torch.device
) -> Sources:
    """The data that the configuration names, or that were given.

    UserError: there is nothing to choose the best weights by, or what
    `open_sources` says.
    """
    sources = open_sources(
        config,
        device,
        train=passed.train,
        validation=passed.validation,
        test=passed.test,
        augment=passed.augment,
        class_names=() if passed.model is None else passed.model.class_names,
    )
    if config.keep == "best" and sources.validation is None:
        raise UserError(
            "keep=best needs validation data to choose by; hold some out of "
            "the training data with validation=0.1"
        )
    return sources


def named_loss(loss: Loss | None) -> GivenLoss | None:
    """A loss of the caller's under its name."""
    return None if loss is None else GivenLoss(loss, name_of(loss))


def threads_of(config: TrainConfig, folder: RunFolder | None) -> int:
    """The CPU threads of the configuration, or of the run that goes on.

    A run recorded before there was such a field used what PyTorch would.
    """
    if config.threads is not None:
        return config.threads
    if folder is not None and os.path.isfile(folder.config):
        return folder.read_config().threads or torch.get_num_threads()
    return choose_threads(config, torch.get_num_threads())


def finished_run(
    folder: RunFolder, config: TrainConfig, passed: Passed
) -> Run | None:
    """The run in the folder, if it is finished.

    UserError: it was trained on other data than those that are given now.
    """
    result = folder.finished(config)
    if result is None:
        return None
    if passed.has_data:
        now = digest_of(
            config,
            train=passed.train,
            validation=passed.validation,
            test=passed.test,
        )
        if now != result["dataset"]["digest"]:
            raise UserError(
                f"{folder.path} contains a finished run on other data than "
                "those given now; give another out for a new run"
            )
    return Run(result, folder.history(), load(folder.weights))


def returned(run: Run, model: Network | None, device: torch.device) -> Run:
    """A finished run on its device; its weights go into the given model."""
    if model is None:
        run.model.to(device)
        return run
    model.load_state_dict(run.model.state_dict())
    model.preprocess = run.model.preprocess
    model.class_names = run.model.class_names
    model.loss_name = run.model.loss_name
    return run._replace(model=model.to(device).eval())
