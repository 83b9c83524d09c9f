"""The log of a run: its lines in memory and in the folder, and whoever watches."""

from collections.abc import Callable
from typing import Any, NamedTuple

from vitedu.model import ViT
from vitedu.train.distributed import World, bare
from vitedu.train.folder import RunFolder
from vitedu.train.step import TrainState


class Progress(NamedTuple):
    """What `on_progress` is told at each measurement.

    `line` holds what was measured: the training loss and more every `log_every` steps,
    else an accuracy on validation or test data, or a note. `model` is the network with
    its weights as they are now (not averaged), in training mode: look at them, but
    leave them as they are. With TensorBoard's writer:

        for name, value in progress.line.items():
            if isinstance(value, float):
                writer.add_scalar(name, value, progress.step)
    """

    step: int
    num_steps: int
    line: dict[str, Any]  # as it stands in the log
    images_per_second: float
    model: ViT | Any  # or a ResNet


class Run(NamedTuple):
    """What `fit` returns: the result's fields, the log's lines, and the model.

    The model is in eval mode and carries `preprocess` and `class_names`. Its weights
    are the result's: averaged if `config.ema`, the best ones if `config.keep` says so.
    """

    result: dict[str, Any]
    history: list[dict[str, Any]]
    model: ViT | Any  # or a ResNet


class Journal:
    """The lines so far, `history`, and where the next one goes."""

    def __init__(
        self,
        history: list[dict[str, Any]],
        state: TrainState,
        num_steps: int,
        folder: RunFolder | None,
        on_progress: Callable[[Progress], None] | None,
        world: World,
    ) -> None:
        self.history = history
        self.state = state
        self.num_steps = num_steps
        self.folder = folder
        self.on_progress = on_progress
        self.world = world

    def record(self, line: dict[str, Any], speed: float = 0.0) -> None:
        """Put a line into the log and tell whoever watches."""
        self.history.append(line)
        folder = self.folder
        if folder is not None:
            self.world.first(lambda: folder.append(line))
        if self.on_progress is not None:
            model = bare(self.state.model)
            step = self.state.step
            self.on_progress(Progress(step, self.num_steps, line, speed, model))

    def note(self, sentence: str) -> None:
        """Record a sentence, unless the log has it from before the run was stopped."""
        if not any(line.get("note") == sentence for line in self.history):
            self.record({"step": self.state.step, "note": sentence})

    def seconds(self) -> float:
        """Of training, until the last line of it."""
        lines = (x for x in reversed(self.history) if "loss" in x)
        return next(lines, {"wall_seconds": 0.0})["wall_seconds"]

    def validations(self) -> list[dict[str, Any]]:
        """The lines that measured the validation part."""
        return [line for line in self.history if "validation_loss" in line]

    def best(self) -> dict[str, Any] | None:
        """The first of the lines with the highest accuracy on the validation part."""
        return max(
            self.validations(),
            key=lambda line: line["validation_accuracy"],
            default=None,
        )
