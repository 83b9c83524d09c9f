"""The loop: data, step, measure, save. Nothing else in vitedu loops over updates."""

import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vitedu import results
from vitedu.data import ArraySource
from vitedu.data.mix import mix
from vitedu.errors import UserError
from vitedu.evaluate import Evaluation
from vitedu.model import ViT
from vitedu.train.checkpoint import (
    checkpoint_content,
    first_not_finite,
    load_checkpoint,
    write_checkpoint,
)
from vitedu.train.config import TrainConfig
from vitedu.train.device import find_device
from vitedu.train.distributed import (
    ALONE,
    World,
    bare,
    distributed_step,
    own_device,
    process_group,
    whole_model,
    whole_results,
)
from vitedu.train.evaluation import as_metrics, evaluate
from vitedu.train.folder import RunFolder
from vitedu.train.precision import concrete
from vitedu.train.sources import Sources, open_sources
from vitedu.train.state import build_state, count_steps
from vitedu.train.step import StepResult, TrainState, step_seed, train_step
from vitedu.weights import checkpoint_of, load, write_weights


class Progress(NamedTuple):
    """What `on_progress` is told at each measurement."""

    step: int
    num_steps: int
    line: dict[str, Any]  # as it stands in the log
    images_per_second: float


class Run(NamedTuple):
    """What `fit` returns: the result's fields, the log's lines, and the model."""

    result: dict[str, Any]
    history: list[dict[str, Any]]
    model: ViT  # eval mode, with preprocess and class_names; averaged if config.ema


def fit(
    config: TrainConfig,
    out: str | Path | None = None,
    *,
    on_progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    command: str = "vitedu.train.fit",
) -> Run:
    """Train as `config` says; go on with the run in the folder `out`, if there is one.

    A finished run is not repeated; what its folder holds is returned. Without `out`
    nothing is written. `should_stop` is asked after every step and between the batches
    of an evaluation: if it says yes the state is saved, and the same call goes on from
    there later. The test part is read once, after the last step.

    Processes started by `torchrun` share every batch of `batch_size` images, and every
    evaluation; where one is to stop all do; the first alone writes and reports.

    UserError: the configuration does not fit the data, the folder holds another run,
    or the loss is not finite; the last good state is then in the folder.
    """
    world = this_process()
    device = own_device(world, find_device(config.device))
    config = concrete(config, device)
    folder = None if out is None else RunFolder(out)
    with process_group(world, device), ExitStack() as stack:
        if folder is not None and (
            run := world.first(lambda: finished_run(folder, config))
        ):
            run.model.to(device)
            return run
        sources = open_sources(config, device)
        if folder is not None:
            world.first(lambda: stack.enter_context(folder.held(config)))
        state = build_state(config, sources.train, device, world)
        state.data_digest = sources.dataset.digest
        history, seconds, pending = [], 0.0, []
        if folder is not None:
            path = folder.checkpoint
            if world.first(path.exists):
                seconds, pending = load_checkpoint(path, state, world)
            history = world.first(lambda: folder.rewind(state.step or -1))
        told = on_progress if world.is_first else None
        loop = Loop(
            config,
            state,
            sources,
            folder,
            history,
            seconds,
            told,
            pending,
            world,
        )
        asked = should_stop or (lambda: False)
        loop.run(lambda: world.any(asked()))
        return loop.finish(command)


def this_process() -> World:
    """Which of the processes that `torchrun` started this one is."""
    if "LOCAL_RANK" not in os.environ:
        return ALONE
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    return World(*(int(os.environ[name]) for name in names))


def finished_run(folder: RunFolder, config: TrainConfig) -> Run | None:
    """What the folder holds, if its run is done."""
    result = folder.finished(config)
    return result and Run(result, folder.history(), load(folder.weights))


class Loop:
    """A run between its first and last step; `history` and `state` grow with it."""

    def __init__(
        self,
        config: TrainConfig,
        state: TrainState,
        sources: Sources,
        folder: RunFolder | None,
        history: list[dict[str, Any]],
        seconds: float,
        on_progress: Callable[[Progress], None] | None,
        pending: Sequence[StepResult] = (),
        world: World = ALONE,
    ) -> None:
        self.config = config
        self.state = state
        self.sources = sources
        self.folder = folder
        self.history = history
        self.on_progress = on_progress
        self.world = world
        self.num_steps = count_steps(config, len(sources.train))
        self.epoch_steps = -(-len(sources.train) // config.batch_size)
        self.save_steps = config.save_every or self.epoch_steps
        self.saved_step = state.step or None
        self.pending = list(pending)  # results since the last measurement
        self.started = time.perf_counter() - seconds
        self.should_stop: Callable[[], bool] = lambda: False
        self.stopped = False

    @property
    def seconds(self) -> float:
        """Of training so far; evaluation and pauses are left out."""
        return time.perf_counter() - self.started

    def run(self, should_stop: Callable[[], bool]) -> None:
        """Step until the last step, or until `should_stop` says so."""
        self.should_stop = should_stop
        for note in self.state.notes:
            self.record({"step": self.state.step, "note": note}, 0.0)
        self.validate()  # a run may have been stopped before it did
        while self.state.step < self.num_steps and not self.stopped:
            epoch, start = divmod(self.state.step, self.epoch_steps)
            for batch in self.sources.train.batches(
                epoch=epoch,
                seed=self.config.seed,
                batch_size=self.config.batch_size,
                start=start,
                rank=self.world.rank,
                world=self.world.size,
            ):
                self.update(batch)
                if self.stopped or self.state.step == self.num_steps:
                    break

    def update(self, batch: tuple[Tensor, Tensor]) -> None:
        """One step and what is due after it. Only what is due waits for the device."""
        config = self.config
        seed = step_seed(config.seed, self.state.step, self.world.rank)
        torch.manual_seed(seed)
        batch = mix(
            *batch,
            config.model.num_classes,
            mixup=config.mixup,
            cutmix=config.cutmix,
            seed=seed,
        )
        self.pending.append(self.step(batch))
        step = self.state.step
        last = step == self.num_steps
        if last or step % config.log_every == 0:
            self.measure()
        self.stopped = self.should_stop()
        if last or self.stopped or step % self.save_steps == 0:
            self.save()
        if not self.stopped:
            self.validate()

    def step(self, batch: tuple[Tensor, Tensor]) -> StepResult:
        """One step on this process's share of a batch, or on all of it."""
        if self.world.size == 1:
            return train_step(self.state, batch)
        first = self.state.step % self.epoch_steps * self.config.batch_size
        left = len(self.sources.train) - first
        num_images = min(self.config.batch_size, left)
        return distributed_step(self.state, batch, num_images)

    def measure(self) -> None:
        """Put the mean of the steps since the last line into the log."""
        pending = whole_results(self.pending, self.world)
        num_images = sum(result.num_images for result in pending)
        loss = self.finite_loss(pending)
        seconds = self.seconds
        lines = (x for x in reversed(self.history) if "loss" in x)
        before = next(lines, {"wall_seconds": 0.0})["wall_seconds"]
        speed = num_images / max(seconds - before, 1e-9)
        step = self.state.step
        line = {
            "step": step,
            "epoch": (step - 1) // self.epoch_steps,
            "loss": loss,
            "lr": self.state.schedule(step - 1),
            "precision": self.config.precision,
            "images_per_second": round(speed, 1),
            "wall_seconds": round(seconds, 3),
        }
        if pending[0].correct is not None:
            correct = int(sum(result.correct for result in pending))
            line["train_accuracy"] = 100.0 * correct / num_images
        norm = pending[-1].grad_norm
        # a scaler skips what overflowed
        if norm is not None and norm.isfinite():
            line["grad_norm"] = float(norm)
        self.pending = []
        self.record(line, speed)

    def finite_loss(self, pending: Sequence[StepResult]) -> float:
        """Mean loss of some steps; waits for the device, stops if not finite."""
        num_images = sum(result.num_images for result in pending)
        loss_sum = float(sum(result.loss_sum for result in pending))
        if not math.isfinite(loss_sum):
            since = self.state.step - len(pending)
            since = max(since, self.saved_step or 0)
            content = checkpoint_content(self.state, 0.0, (), self.world)
            name = first_not_finite(content, self.world)
            where = f", and {name} is not finite," if name else ""
            self.stop_not_finite(f"loss became {loss_sum}{where}", since)
        return loss_sum / max(num_images, 1)

    def validate(self) -> None:
        """Measure the held-out part where an epoch ends, unless the log has it."""
        step = self.state.step
        if self.sources.validation is None or step == 0:
            return
        if step % self.epoch_steps and step != self.num_steps:
            return
        lines = [x for x in self.history if x["step"] == step]
        if any("validation_loss" in line for line in lines):
            return
        measured = self.evaluate(self.sources.validation)
        if measured is None:
            self.save()
            return
        line = {
            "step": step,
            "epoch": (step - 1) // self.epoch_steps,
            "validation_accuracy": measured.accuracy,
            "validation_loss": measured.loss,
        }
        self.record(line, 0.0)

    def record(self, line: dict[str, Any], speed: float) -> None:
        """Put a line into the log and tell whoever watches."""
        self.history.append(line)
        self.write(lambda: self.folder.append(line))
        if self.on_progress is not None:
            step = self.state.step
            self.on_progress(Progress(step, self.num_steps, line, speed))

    def write(self, action: Callable[[], None]) -> None:
        """Let the first process do something in the run's folder, if there is one."""
        if self.folder is not None:
            self.world.first(action)

    def save(self) -> None:
        """Write the checkpoint, unless something in it is not finite."""
        if self.saved_step == self.state.step:
            return
        pending = whole_results(self.pending, self.world)
        self.finite_loss(pending)
        content = checkpoint_content(
            self.state, self.seconds, pending, self.world
        )
        if name := first_not_finite(content, self.world):
            since = self.saved_step or 0
            self.stop_not_finite(f"{name} became nan or infinite", since)
        self.write(lambda: write_checkpoint(self.folder.checkpoint, content))
        self.saved_step = self.state.step

    def stop_not_finite(self, what: str, since: int) -> None:
        """Raise the sentence that says what happened and where the good state is."""
        good = "no state had been saved yet"
        if self.folder is not None and self.saved_step is not None:
            good = (
                f"the last good state, step {self.saved_step}, is in "
                f"{self.folder.checkpoint}"
            )
        advice = {"fp16": "precision=bf16"}.get(
            self.config.precision, "a lower lr"
        )
        raise UserError(
            f"{what} between steps {since} and {self.state.step} "
            f"(precision {self.config.precision}); {good}; try {advice}"
        )

    def evaluate(self, source: ArraySource) -> Evaluation | None:
        """What the result would reach now; not timed. None: asked to stop in it."""
        paused = time.perf_counter()
        measured = evaluate(self.state, source, self.should_stop, self.world)
        self.started += time.perf_counter() - paused
        self.stopped = measured is None
        return measured

    def finish(self, command: str) -> Run:
        """The result of the run, measured and written."""
        metrics: dict[str, Any] = {}
        test = None
        if self.state.step == self.num_steps and not self.stopped:
            test = self.evaluate(self.sources.test)
        if test is not None:
            validated = [x for x in self.history if "validation_loss" in x]
            for line in validated[-1:]:
                accuracy_percent = line["validation_accuracy"]
                loss = line["validation_loss"]
                metrics |= as_metrics("validation", accuracy_percent, loss)
            metrics |= as_metrics("test", test.accuracy, test.loss)
            self.record(
                {"step": self.state.step, "test_accuracy": test.accuracy}, 0.0
            )
        if self.state.ema is not None:
            bare(self.state.model).load_state_dict(self.state.ema.average)
        model = whole_model(self.state.model)
        model.preprocess = self.config.preprocess
        model.class_names = self.sources.train.class_names
        model.eval()
        result = self.result(
            command, metrics, "interrupted" if test is None else "finished"
        )
        if test is not None:
            self.write(
                lambda: write_weights(self.folder.weights, checkpoint_of(model))
            )
        self.write(lambda: results.write(self.folder.result, result))
        return Run(result, self.history, model)

    def result(
        self, command: str, metrics: dict, status: str
    ) -> dict[str, Any]:
        """The fields of result.json."""
        dataset = self.sources.dataset
        notes = " ".join(self.state.notes)
        device = next(self.state.model.parameters()).device
        return {
            "schema": results.SCHEMA,
            "status": status,
            "name": self.config.recipe,
            "command": command,
            "config": self.config.to_json(),
            "tier": self.config.tier,
            "metrics": metrics,
            "seeds": [self.config.seed],
            "dataset": {
                "name": dataset.name,
                "digest": dataset.digest,
                "num_train": len(self.sources.train),
                "num_test": len(self.sources.test),
            },
            **results.machine(device),
            "date": datetime.now(UTC).date().isoformat(),
            "wall_seconds": round(self.seconds, 1),
            **({"notes": notes} if notes else {}),
        }
