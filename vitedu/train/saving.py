"""What a run writes besides its log: its state, and at the end its weights.

Nothing that is not finite is ever written.
"""

import math
from typing import NoReturn

from torch import Tensor

from vitedu.errors import UserError
from vitedu.model.network import Network
from vitedu.train.checkpoint import (
    as_bytes,
    checkpoint_content,
    first_not_finite,
    load_checkpoint,
)
from vitedu.train.folder import RunFolder
from vitedu.train.processes import Processes
from vitedu.train.state import TrainState
from vitedu.train.step import StepResult
from vitedu.weights import Checkpoint, checkpoint_of, read_weights


class Saver:
    """Keeps a run's state in its folder; without one, only the best weights."""

    def __init__(
        self, state: TrainState, folder: RunFolder | None, processes: Processes
    ) -> None:
        self.state = state
        self.folder = folder
        self.processes = processes
        self.saved_step: int | None = None
        self.best_weights: dict[str, Tensor] = {}  # if no folder keeps them

    def load(self) -> tuple[float, list[StepResult]]:
        """Put the last checkpoint, if there is one, into the state.

        Seconds of training until then, and the results that are not in the log
        yet.
        """
        folder = self.folder
        if folder is None or not self.processes.first(folder.checkpoint.exists):
            return 0.0, []
        loaded = load_checkpoint(folder.checkpoint, self.state, self.processes)
        self.saved_step = self.state.step or None
        return loaded

    def save(self, seconds: float, totals: list[StepResult]) -> None:
        """Write the state after this step; `totals` are the journal's."""
        if self.saved_step == self.state.step:
            return
        self.check_loss(totals)
        content = checkpoint_content(
            self.state, seconds, totals, self.processes
        )
        if name := self.processes.first(lambda: first_not_finite(content)):
            since = self.saved_step or 0
            self.stop_not_finite(f"{name} became nan or infinite", since)
        if folder := self.folder:
            self.processes.first(
                lambda: folder.write(folder.checkpoint, as_bytes(content))
            )
        self.saved_step = self.state.step

    def check_loss(self, totals: list[StepResult]) -> None:
        """UserError: the loss of some steps, the last ones, is not finite."""
        loss_sum = float(sum(result.loss_sum for result in totals))
        if math.isfinite(loss_sum):
            return
        content = checkpoint_content(self.state, 0.0, [], self.processes)
        name = self.processes.first(lambda: first_not_finite(content))
        where = f", and {name} is not finite," if name else ""
        since = max(self.state.step - len(totals), self.saved_step or 0)
        self.stop_not_finite(f"loss became {loss_sum}{where}", since)

    def stop_not_finite(self, what: str, since: int) -> NoReturn:
        """Raise the sentence on what happened and where the good state is."""
        good = "no state had been saved yet"
        if self.folder is not None and self.saved_step is not None:
            good = (
                f"the last good state, step {self.saved_step}, is in "
                f"{self.folder.checkpoint}"
            )
        precision = self.state.config.precision
        advice = "precision=bf16" if precision == "fp16" else "a lower lr"
        raise UserError(
            f"{what} between steps {since} and {self.state.step} "
            f"(precision {precision}); {good}; try {advice}"
        )

    def finite_weights(self) -> dict[str, Tensor]:
        """The weights that would be the result now.

        UserError: not all of them are finite.
        """
        weights = self.state.result_weights()
        self.check_weights(weights)
        return weights

    def check_weights(self, weights: dict[str, Tensor]) -> None:
        """UserError: not all of these weights of a network are finite."""
        if name := first_not_finite({"model": weights}):
            since = self.saved_step or 0
            self.stop_not_finite(f"{name} became nan or infinite", since)

    def keep_best(self) -> None:
        """Put the weights that would be the result now where `best` looks."""
        state, folder = self.state, self.folder
        weights = self.finite_weights()
        if folder is None:
            self.best_weights = {x: weights[x].clone() for x in weights}
            return
        checkpoint = Checkpoint(
            state.config.model,
            weights,
            state.config.preprocess,
            state.class_names,
            loss_name=state.loss_name,
        )
        self.processes.first(
            lambda: folder.write_weights(folder.best, checkpoint)
        )

    def best(self) -> dict[str, Tensor]:
        """The weights that `keep_best` kept."""
        if self.folder is None:
            return self.best_weights
        path = self.folder.best
        return self.processes.first(lambda: read_weights(path).state_dict)

    def final_model(self, is_finished: bool) -> Network:
        """The network with the weights of the result, ready for use."""
        state, config = self.state, self.state.config
        takes_best = is_finished and config.keep == "best"
        weights = self.best() if takes_best else state.result_weights()
        self.check_weights(weights)
        model = state.network
        if config.shard and self.processes.count > 1:
            model = type(model)(model.config).to(state.device)
        model.load_state_dict(weights)
        if config.activation_checkpointing:
            model.set_grad_checkpointing(False)
        model.preprocess = config.preprocess
        model.class_names = state.class_names
        model.loss_name = state.loss_name
        return model.eval()

    def write_weights(self, model: Network) -> None:
        """Write the file that is the result of the run."""
        if folder := self.folder:
            checkpoint = checkpoint_of(model)
            self.processes.first(
                lambda: folder.write_weights(folder.weights, checkpoint)
            )
