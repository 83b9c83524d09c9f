"""What a run measures: sums on the device, log lines, then the result."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor, nn

from vitedu import results
from vitedu.data import Source
from vitedu.evaluate import Evaluation, Prediction, accuracy, predict
from vitedu.evaluate.accuracy import mean_loss
from vitedu.model import ViT
from vitedu.model.mae import MAE
from vitedu.pictures import Picture
from vitedu.train.data import Sources
from vitedu.train.processes import SINGLE, Processes
from vitedu.train.run_folder import RunFolder
from vitedu.train.step import StepResult, TrainState, uncompiled
from vitedu.train.watch.facts import facts
from vitedu.train.watch.notes import log

# what a validation logs; without labels only the loss
VALIDATED = ("validation_accuracy", "validation_loss")


class Progress(NamedTuple):
    """What `on_progress` gets at each measurement.

    `line` is what was measured: training loss and more every `log_every` steps,
    else an accuracy on validation or test data, or a note. `model` is the
    network with its current weights (not averaged), in training mode: don't
    change it.
    """

    step: int
    num_steps: int
    line: dict[str, Any]  # as the log has it
    images_per_second: float
    model: ViT | Any  # or a ResNet


class Run(NamedTuple):
    """What `fit` returns: the result's fields, the log's lines, and the model.

    The model is in eval mode, with `preprocess` and `class_names`. Its weights
    are averaged if `config.ema`, the best if `config.keep` is "best".
    """

    result: dict[str, Any]
    history: list[dict[str, Any]]
    model: ViT | Any  # or a ResNet
    folder: RunFolder | None = None  # of a run with `out`

    @property
    def accuracy(self) -> float | None:
        """Percent of the test images; None if the run was stopped."""
        measured = self.result["metrics"].get("test_accuracy")
        return None if measured is None else float(measured["value"])

    @property
    def report(self) -> Path | None:
        """The page report.html, which runs on pictures have."""
        if self.folder is None or not self.folder.report.exists():
            return None
        return self.folder.report

    def predict(
        self, pictures: Picture | Iterable[Picture], top: int = 5
    ) -> list[Prediction]:
        """`vitedu.predict` by the run's model: a folder, or many pictures."""
        return predict(self.model, pictures, top)


class Journal:
    def __init__(
        self,
        state: TrainState,
        sources: Sources,
        folder: RunFolder | None = None,
        processes: Processes = SINGLE,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.state = state
        self.sources = sources
        self.folder = folder
        self.processes = processes
        self.watchers = [] if on_progress is None else [on_progress]
        self.history: list[dict[str, Any]] = []
        self.pending: list[StepResult] = []  # of the steps since the last line
        self.started = time.perf_counter()
        self.resumed = 0.0  # `seconds` when this process took the run over

    @property
    def seconds(self) -> float:
        """Seconds of training so far, without evaluation and pauses."""
        return time.perf_counter() - self.started

    @seconds.setter
    def seconds(self, seconds: float) -> None:
        self.started = time.perf_counter() - seconds

    @contextmanager
    def clock_stopped(self) -> Iterator[None]:
        seconds = self.seconds
        yield
        self.seconds = seconds

    def totals(self) -> list[StepResult]:
        """Each pending result summed over processes; waits for the device."""
        numbers = [
            0 if number is None else number  # no `correct` of soft labels
            for result in self.pending
            for number in result[:3]
        ]
        sums = self.processes.total(numbers)
        columns = sums[0::3], sums[1::3], sums[2::3]
        return [
            result._replace(
                loss_sum=loss_sum,
                correct=None if result.correct is None else correct,
                num_images=int(num_images),
            )
            for result, loss_sum, correct, num_images in zip(
                self.pending, *columns, strict=True
            )
        ]

    def measure(self, totals: list[StepResult], waited: float) -> None:
        """Log the steps of `totals`, `waited` seconds of them for data."""
        state, seconds = self.state, self.seconds
        num_images = sum(result.num_images for result in totals)
        before = self.last("loss")["wall_seconds"]
        speed = num_images / max(seconds - before, 1e-9)
        here = seconds - max(before, self.resumed)  # of it in this process
        waited = min(waited / max(here, 1e-9), 1.0)
        waited = float(self.processes.total([waited])[0])
        line = self.place() | {
            "loss": float(sum(x.loss_sum for x in totals)) / max(num_images, 1),
            "lr": state.schedule(state.step - 1),
            "precision": state.config.precision,
            "images_per_second": round(speed, 1),
            "wall_seconds": round(seconds, 3),
            "data_wait": round(waited / self.processes.world_size, 3),
        }
        if totals[0].correct is not None:
            correct = int(sum(result.correct for result in totals))
            line["train_accuracy"] = 100.0 * correct / num_images
        norm = totals[-1].grad_norm
        # a loss scaler skips steps that overflow
        if norm is not None and norm.isfinite():
            line["grad_norm"] = float(norm)
        self.pending = []
        self.record(line, speed)

    def numbers(self, part: str, measured: Evaluation) -> dict[str, float]:
        """{part}_accuracy and {part}_loss; a note if the loss isn't finite."""
        found = {}
        if self.state.config.needs_labels:
            found[f"{part}_accuracy"] = measured.accuracy
        if math.isfinite(measured.loss):
            return found | {f"{part}_loss": measured.loss}
        self.note(
            f"the {part} loss is not finite at step {self.state.step}: the "
            f"model answers NaN or infinity for {measured.num_unanswered} of "
            f"{measured.num_images} images, which count as wrong"
        )
        return found

    def note(self, sentence: str) -> None:
        """Log a sentence, unless the log has it from before a stop."""
        if self.processes.is_first:
            log.info("%s", sentence)
        if not any(line.get("note") == sentence for line in self.history):
            self.record({"step": self.state.step, "note": sentence})

    def place(self) -> dict[str, Any]:
        step = self.state.step
        return {"step": step, "epoch": (step - 1) // self.state.epoch_steps}

    def record(self, line: dict[str, Any], speed: float = 0.0) -> None:
        self.history.append(line)
        folder, state = self.folder, self.state
        if folder is not None:
            self.processes.on_rank0(lambda: folder.append(line))
        place = state.step, state.num_steps
        for watcher in self.watchers if self.processes.is_first else ():
            watcher(Progress(*place, line, speed, state.network))

    def last(self, *names: str) -> dict[str, Any]:
        """The last line with one of them; one of step 0 if there is none."""
        lines = (x for x in reversed(self.history) if x.keys() & names)
        return next(lines, {"step": 0, "wall_seconds": 0.0})

    def best(self) -> dict[str, Any]:
        """The last line with the highest validation accuracy, or {}.

        Of equal ones the last, since the learning rate has fallen.
        """
        lines = [x for x in self.history if "validation_accuracy" in x][::-1]
        return max(lines, key=lambda x: x["validation_accuracy"], default={})

    def has_stalled(self, patience: int) -> bool:
        name = "validation_accuracy"
        measured = [x[name] for x in self.history if name in x]
        if not measured:
            return False
        return len(measured) - 1 - measured.index(max(measured)) >= patience

    def mean_wait(self) -> float | None:
        waited = before = 0.0
        for line in self.history:
            if "data_wait" in line:
                lasted = line["wall_seconds"] - before
                waited += line["data_wait"] * lasted
                before += lasted
        return round(waited / before, 3) if before else None

    def conclude(self, command: str, test: Evaluation | None) -> dict[str, Any]:
        """Log the test accuracy, the last line; the fields of result.json.

        `test` is None if the run was stopped.
        """
        state, config = self.state, self.state.config
        numbers: dict[str, float] = {}
        is_best = test is not None and config.keep == "best"
        chosen = self.best() if is_best else self.last(*VALIDATED)
        if test is not None:
            numbers = {
                name: chosen[name] for name in VALIDATED if name in chosen
            }
            found = self.numbers("test", test)
            numbers |= found
            # the accuracy, or without labels the loss
            self.record({"step": state.step} | dict([*found.items()][:1]))
        notes = [line["note"] for line in self.history if "note" in line]
        if is_best:
            notes.append(
                f"the weights are those of step {chosen['step']}, the best on "
                "the validation part"
            )
        data_wait, of_loss = self.mean_wait(), "nats"
        is_of_pixels = getattr(config.model, "target", None) == "pixels"
        if is_of_pixels or isinstance(state.network, MAE):
            of_loss = "mean squared error"
        return {
            "schema": results.SCHEMA,
            "status": "interrupted" if test is None else "finished",
            "name": config.recipe,
            "command": command,
            "config": config.to_json(),
            "tier": config.tier,
            "metrics": {
                name: {"value": value, "unit": unit, "per_seed": [value]}
                for name, value in numbers.items()
                for unit in [of_loss if name.endswith("_loss") else "percent"]
            },
            "seeds": [config.seed],
            "dataset": self.sources.record(),
            "facts": facts(state, self.sources, self.processes.world_size),
            **results.machine(state.device),
            "date": datetime.now(UTC).date().isoformat(),
            "wall_seconds": round(self.seconds, 1),
            **({} if state.start is None else {"start": state.start}),
            **({} if data_wait is None else {"data_wait": data_wait}),
            **({"notes": "; ".join(notes)} if notes else {}),
        }


def evaluate(
    state: TrainState,
    source: Source,
    should_stop: Callable[[], bool],
    processes: Processes = SINGLE,
    model: nn.Module | None = None,
) -> Evaluation | None:
    """Float32 accuracy of `model`, or of the weights that would be the result.

    Each process measures its share. None if `should_stop` ended it early.
    """
    if len(source) < processes.world_size:
        processes = SINGLE  # a share would be empty: each sees all
    # as many images at a time as fit where training fits
    config, count = state.config, processes.world_size
    size = 2 * (config.micro_batch_size or -(-config.batch_size // count))
    batches = processes.batches(
        source, epoch=0, seed=0, batch_size=size * count
    )
    network, own = model or state.network, None
    if model is None and state.ema is not None:
        own = {name: x.clone() for name, x in network.state_dict().items()}
        network.load_state_dict(state.ema.average)
    # to compile for float32 and for each size would take longer than it saves
    with uncompiled(config.compile):
        seen = until(batches, should_stop)
        if config.needs_labels:
            share = accuracy(network, seen, loss=state.plain_loss)
        else:
            share = mean_loss(network, seen)
    if own is not None:
        network.load_state_dict(own)
    correct, loss_sum, num_images, unanswered = processes.total(
        [*share[:3], share.num_unanswered]
    )
    if num_images < len(source):
        return None
    return Evaluation(
        int(correct),
        float(loss_sum),
        int(num_images),
        share.loss_name,
        int(unanswered),
    )


def until(
    batches: Iterable[tuple[Tensor, Tensor]], should_stop: Callable[[], bool]
) -> Iterator[tuple[Tensor, Tensor]]:
    for number, batch in enumerate(batches):
        if number and should_stop():
            return
        yield batch
