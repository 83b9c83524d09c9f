"""The loop: data, step, measure, save. Nothing else in vitedu loops over updates."""

import math
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vitedu import results
from vitedu.data import ArraySource
from vitedu.errors import UserError
from vitedu.evaluate import Evaluation, accuracy
from vitedu.model import ViT
from vitedu.train.checkpoint import all_finite, load_checkpoint, save_checkpoint
from vitedu.train.config import TrainConfig
from vitedu.train.device import find_device
from vitedu.train.folder import RunFolder
from vitedu.train.sources import Sources, open_sources
from vitedu.train.state import build_state, count_steps
from vitedu.train.step import StepResult, TrainState, train_step
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
    nothing is written. `should_stop` is asked after every step: if it
    says yes the state is saved, and the same call goes on from there later. The test
    part is read once, after the last step.

    UserError: the configuration does not fit the data, the folder holds another run,
    or the loss is not finite; the last good state is then in the folder.
    """
    device = find_device(config.device)
    folder = None if out is None else RunFolder(out)
    if folder is not None and (result := folder.finished(config)):
        return Run(
            result, folder.history(), load(folder.weights, device=device)
        )
    sources = open_sources(config, device)
    history: list[dict[str, Any]] = []
    if folder is not None:
        folder.prepare(config)
    state = build_state(config, sources.train, device)
    seconds, pending = 0.0, []
    if folder is not None and folder.checkpoint.exists():
        seconds, pending = load_checkpoint(folder.checkpoint, state)
        history = folder.rewind(state.step)
    elif folder is not None:
        folder.rewind(-1)
    loop = Loop(
        config, state, sources, folder, history, seconds, on_progress, pending
    )
    loop.run(should_stop or (lambda: False))
    return loop.finish(command)


def step_seed(seed: int, step: int, rank: int = 0) -> int:
    """The seed of what is drawn inside the network at one step of one process."""
    mixed = np.random.SeedSequence([seed, step, rank]).generate_state(
        2, np.uint32
    )
    return int(mixed[0]) << 32 | int(mixed[1])


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
    ) -> None:
        self.config = config
        self.state = state
        self.sources = sources
        self.folder = folder
        self.history = history
        self.on_progress = on_progress
        self.num_steps = count_steps(config, len(sources.train))
        self.epoch_steps = -(-len(sources.train) // config.batch_size)
        self.save_steps = config.save_every or self.epoch_steps
        self.saved_step = state.step or None
        self.pending = list(pending)  # results since the last measurement
        self.started = time.perf_counter() - seconds

    @property
    def seconds(self) -> float:
        """Of training so far; evaluation and pauses are left out."""
        return time.perf_counter() - self.started

    def run(self, should_stop: Callable[[], bool]) -> None:
        """Step until the last step, or until `should_stop` says so."""
        while self.state.step < self.num_steps:
            epoch, start = divmod(self.state.step, self.epoch_steps)
            for batch in self.sources.train.batches(
                epoch=epoch,
                seed=self.config.seed,
                batch_size=self.config.batch_size,
                start=start,
            ):
                torch.manual_seed(step_seed(self.config.seed, self.state.step))
                self.pending.append(train_step(self.state, batch))
                step = self.state.step
                last = step == self.num_steps
                if last or step % self.config.log_every == 0:
                    self.measure()
                if last or step % self.epoch_steps == 0:
                    self.validate()
                stopping = not last and should_stop()
                if last or stopping or step % self.save_steps == 0:
                    self.save()
                if last or stopping:
                    return

    def measure(self) -> None:
        """Put the mean of the steps since the last line into the log."""
        num_images = sum(result.num_images for result in self.pending)
        loss = self.finite_loss()
        seconds = self.seconds
        before = [x["wall_seconds"] for x in self.history if "loss" in x]
        speed = num_images / max(seconds - (before or [0.0])[-1], 1e-9)
        step = self.state.step
        line = {
            "step": step,
            "epoch": (step - 1) // self.epoch_steps,
            "loss": loss,
            "lr": self.state.schedule(step - 1),
            "images_per_second": round(speed, 1),
            "wall_seconds": round(seconds, 3),
        }
        if self.pending[0].correct is not None:
            correct = int(sum(result.correct for result in self.pending))
            line["train_accuracy"] = 100.0 * correct / num_images
        norm = self.pending[-1].grad_norm
        if (
            norm is not None and norm.isfinite()
        ):  # a scaler skips what overflowed
            line["grad_norm"] = float(norm)
        self.pending = []
        self.record(line, speed)

    def finite_loss(self) -> float:
        """Mean loss since the last line; waits for the device, stops if not finite."""
        num_images = sum(result.num_images for result in self.pending)
        loss_sum = float(sum(result.loss_sum for result in self.pending))
        if not math.isfinite(loss_sum):
            since = self.state.step - len(self.pending)
            since = max(since, self.saved_step or 0)
            self.stop_not_finite(f"loss became {loss_sum}", since)
        return loss_sum / max(num_images, 1)

    def validate(self) -> None:
        """Measure the held-out part, if there is one, at the end of an epoch."""
        if self.sources.validation is None:
            return
        measured = self.evaluate(self.sources.validation)
        line = {
            "step": self.state.step,
            "epoch": (self.state.step - 1) // self.epoch_steps,
            "validation_accuracy": measured.accuracy,
            "validation_loss": measured.loss,
        }
        self.record(line, 0.0)

    def record(self, line: dict[str, Any], speed: float) -> None:
        """Put a line into the log and tell whoever watches."""
        self.history.append(line)
        if self.folder is not None:
            self.folder.append(line)
        if self.on_progress is not None:
            step = self.state.step
            self.on_progress(Progress(step, self.num_steps, line, speed))

    def save(self) -> None:
        """Write the checkpoint, unless something in it is not finite."""
        self.finite_loss()
        if not all_finite(self.state.model.state_dict()):
            since = self.saved_step or 0
            self.stop_not_finite("a weight became nan or infinite", since)
        if self.folder is not None:
            path = self.folder.checkpoint
            save_checkpoint(path, self.state, self.seconds, self.pending)
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

    def evaluate(self, source: ArraySource) -> Evaluation:
        """Accuracy in float32 of what would be the result now; not timed."""
        paused = time.perf_counter()
        own = None
        if self.state.ema is not None:
            own = swap_weights(self.state.model, self.state.ema.average)
        batches = source.batches(batch_size=evaluation_batch(self.config))
        measured = accuracy(self.state.model, batches)
        if own is not None:
            swap_weights(self.state.model, own)
        self.started += time.perf_counter() - paused
        return measured

    def finish(self, command: str) -> Run:
        """The result of the run, measured and written."""
        done = self.state.step == self.num_steps
        metrics: dict[str, Any] = {}
        if done:
            validated = [x for x in self.history if "validation_loss" in x]
            for line in validated[-1:]:
                accuracy_percent = line["validation_accuracy"]
                loss = line["validation_loss"]
                metrics |= as_metrics("validation", accuracy_percent, loss)
            test = self.evaluate(self.sources.test)
            metrics |= as_metrics("test", test.accuracy, test.loss)
            self.record(
                {"step": self.state.step, "test_accuracy": test.accuracy}, 0.0
            )
        model = self.state.model
        if self.state.ema is not None:
            model.load_state_dict(self.state.ema.average)
        model.preprocess = self.config.preprocess
        model.class_names = self.sources.train.class_names
        model.eval()
        result = self.result(
            command, metrics, "finished" if done else "interrupted"
        )
        if self.folder is not None:
            if done:
                write_weights(self.folder.weights, checkpoint_of(model))
            results.write(self.folder.result, result)
        return Run(result, self.history, model)

    def result(
        self, command: str, metrics: dict, status: str
    ) -> dict[str, Any]:
        """The fields of result.json."""
        dataset = self.sources.dataset
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
        }


def as_metrics(
    part: str, accuracy_percent: float, loss: float
) -> dict[str, Any]:
    """Accuracy and loss of one part of the data as metrics of a result."""
    return {
        f"{part}_accuracy": {
            "value": accuracy_percent,
            "unit": "percent",
            "per_seed": [accuracy_percent],
        },
        f"{part}_loss": {"value": loss, "unit": "nats", "per_seed": [loss]},
    }


def swap_weights(model: ViT, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Put `weights` into `model`; a copy of those it had."""
    own = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.load_state_dict(weights)
    return own


def evaluation_batch(config: TrainConfig) -> int:
    """Images at a time when nothing is learned: as many as fit where learning does."""
    return 2 * (config.micro_batch_size or config.batch_size)
