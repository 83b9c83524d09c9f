"""The loop: data, step, measure, save. Nothing else in vitedu loops over updates."""

import math
import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import torch
from torch import Tensor

from vitedu import results
from vitedu.data import Source
from vitedu.data.mix import mix
from vitedu.errors import UserError
from vitedu.evaluate import Evaluation
from vitedu.model import ResNet, ViT
from vitedu.model.about import LossName
from vitedu.train.checkpoint import (
    checkpoint_content,
    first_not_finite,
    write_checkpoint,
)
from vitedu.train.config import TrainConfig
from vitedu.train.distributed import (
    ALONE,
    World,
    bare,
    distributed_step,
    whole,
    whole_model,
    whole_results,
)
from vitedu.train.evaluation import as_metrics, evaluate
from vitedu.train.folder import RunFolder
from vitedu.train.journal import Journal, Progress, Run
from vitedu.train.losses import GivenLoss
from vitedu.train.sources import Sources
from vitedu.train.state import count_steps
from vitedu.train.step import StepResult, TrainState, step_seed, train_step
from vitedu.weights import (
    Checkpoint,
    checkpoint_of,
    read_weights,
    write_weights,
)


def this_process() -> World:
    """Which of the processes that `torchrun` started this one is."""
    if "LOCAL_RANK" not in os.environ:
        return ALONE
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    return World(*(int(os.environ[name]) for name in names))


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
        self.world = world
        self.num_steps = count_steps(config, len(sources.train))
        self.journal = Journal(
            history, state, self.num_steps, folder, on_progress, world
        )
        self.epoch_steps = -(-len(sources.train) // config.batch_size)
        self.save_steps = config.save_every or self.epoch_steps
        self.saved_step = state.step or None
        self.pending = list(pending)  # results since the last measurement
        # without a folder to keep them
        self.best_weights: dict[str, Tensor] = {}
        self.started = time.perf_counter() - seconds
        self.should_stop: Callable[[], bool] = lambda: False
        self.stopped = False

    @property
    def seconds(self) -> float:
        """Of training so far; evaluation and pauses are left out."""
        return time.perf_counter() - self.started

    @property
    def loss_name(self) -> LossName | None:
        """What the result was trained by; None: a loss of the caller's."""
        is_given = isinstance(self.state.loss, GivenLoss)
        return None if is_given else self.config.loss

    def run(self, should_stop: Callable[[], bool]) -> None:
        """Step until the last step, or until `should_stop` says so."""
        self.should_stop = should_stop
        for note in (*self.sources.notes, *self.state.notes):
            self.journal.note(note)
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
        if not self.state.model.training:  # a callback looked at its answers
            self.state.model.train()
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
        speed = num_images / max(seconds - self.journal.seconds(), 1e-9)
        step = self.state.step
        line: dict[str, Any] = {
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
        self.journal.record(line, speed)

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
        """Measure the held-out part where an epoch ends, unless the log has it.

        With keep="best" the weights are kept if they do better than any before. They
        are written before the line: what the log says is best is there.
        """
        step = self.state.step
        if self.sources.validation is None or step == 0:
            return
        if step % self.epoch_steps and step != self.num_steps:
            return
        if any(line["step"] == step for line in self.journal.validations()):
            return
        measured = self.evaluate(self.sources.validation)
        if measured is None:
            self.save()
            return
        if self.config.keep == "best":
            best = self.journal.best()
            if best is None or measured.accuracy > best["validation_accuracy"]:
                self.keep_weights()
        self.journal.record(
            {
                "step": step,
                "epoch": (step - 1) // self.epoch_steps,
                "validation_accuracy": measured.accuracy,
                "validation_loss": measured.loss,
            }
        )

    def keep_weights(self) -> None:
        """Put the weights that would be the result now where `final_model` looks."""
        average = self.state.ema and self.state.ema.average
        weights = {
            name: whole(tensor)
            for name, tensor in (
                average or bare(self.state.model).state_dict()
            ).items()
        }
        if self.folder is None:
            self.best_weights = {x: weights[x].clone() for x in weights}
            return
        path = self.folder.best
        checkpoint = Checkpoint(
            self.config.model,
            weights,
            self.config.preprocess,
            self.state.class_names,
            loss_name=self.loss_name,
        )
        self.world.first(lambda: write_weights(path, checkpoint))

    def kept_weights(self) -> dict[str, Tensor]:
        """What `keep_weights` kept, on every process."""
        if self.folder is None:
            return self.best_weights
        path = self.folder.best
        return self.world.first(lambda: read_weights(path).state_dict)

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
        if self.folder is not None:
            path = self.folder.checkpoint
            self.world.first(lambda: write_checkpoint(path, content))
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

    def evaluate(
        self, source: Source, model: ViT | ResNet | None = None
    ) -> Evaluation | None:
        """What the result would reach now, or `model`; not timed. None: stopped."""
        paused = time.perf_counter()
        measured = evaluate(
            self.state, source, self.should_stop, self.world, model
        )
        self.started += time.perf_counter() - paused
        self.stopped = measured is None
        return measured

    def finish(self, command: str) -> Run:
        """The result of the run, measured and written.

        A run that was stopped has its weights written as they are, averaged if
        `config.ema`: it can be loaded, and goes on from its checkpoint.
        """
        is_last = self.state.step == self.num_steps and not self.stopped
        model = self.final_model(is_last)
        test = self.evaluate(self.sources.test, model) if is_last else None
        metrics: dict[str, Any] = {}
        if test is not None:
            if line := self.reported_validation():
                accuracy = line["validation_accuracy"]
                loss = line["validation_loss"]
                metrics |= as_metrics("validation", accuracy, loss)
            metrics |= as_metrics("test", test.accuracy, test.loss)
            line = {"step": self.state.step, "test_accuracy": test.accuracy}
            self.journal.record(line)
        status = "interrupted" if test is None else "finished"
        result = self.result(command, metrics, status)
        if self.folder is not None:
            weights, path = self.folder.weights, self.folder.result
            checkpoint = checkpoint_of(model)
            self.world.first(lambda: write_weights(weights, checkpoint))
            self.world.first(lambda: results.write(path, result))
        return Run(result, self.history, model)

    def reported_validation(self) -> dict[str, Any] | None:
        """The line that measured the weights of the result."""
        if self.config.keep == "best":
            return self.journal.best()
        return next(reversed(self.journal.validations()), None)

    def final_model(self, is_last: bool) -> ViT | ResNet:
        """The network with the weights of the result, ready for use."""
        if self.state.ema is not None:
            bare(self.state.model).load_state_dict(self.state.ema.average)
        model = whole_model(self.state.model)
        if is_last and self.config.keep == "best":
            model.load_state_dict(self.kept_weights())
        if self.config.activation_checkpointing:
            model.set_grad_checkpointing(False)
        model.preprocess = self.config.preprocess
        model.class_names = self.state.class_names
        model.loss_name = self.loss_name
        return model.eval()

    def result(
        self, command: str, metrics: dict[str, Any], status: str
    ) -> dict[str, Any]:
        """The fields of result.json."""
        dataset = self.sources.dataset
        notes = [*self.sources.notes, *self.state.notes]
        if status == "finished" and self.config.keep == "best":
            if line := self.journal.best():
                notes.append(
                    f"the weights are those of step {line['step']}, the best on the "
                    "validation part"
                )
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
            **({"notes": "; ".join(notes)} if notes else {}),
        }
