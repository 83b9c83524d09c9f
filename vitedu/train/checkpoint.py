"""A run's state in one file; one with nan or infinity is never written."""

import hashlib
import io
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from vitedu.data.dataset import changes
from vitedu.errors import UserError, explained
from vitedu.files import replace_file
from vitedu.model.network import Network
from vitedu.train.processes import SINGLE, Processes
from vitedu.train.run_folder import OtherRun, RunFolder
from vitedu.train.start import check_start
from vitedu.train.step import StepResult, TrainState
from vitedu.weights import checkpoint_of, read_weights, write_weights

FORMAT = 2
LEARNED = ("model", "optimizer", "ema")  # the parts that `gather` gives


def checkpoint_content(
    state: TrainState,
    seconds: float,
    pending: Sequence[StepResult] = (),
    processes: Processes = SINGLE,
) -> dict[str, Any]:
    """All that the next step depends on: tensors and plain values, by part."""
    return {
        "format": FORMAT,
        "config": state.config.to_json(),
        "data": state.data,
        "start": state.start,
        "step": state.step,  # schedule and order of the data follow from it
        "seconds": seconds,
        "pending": [tuple(result) for result in pending],  # not logged yet
        **processes.gather(state),
        "precision": state.precision.state_dict(),
        "random": random_state(state.device),
    }


def as_bytes(content: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    buffer.write(hashlib.sha256(buffer.getbuffer()).digest())
    return buffer.getvalue()


def read_saved(path: Path) -> dict[str, Any]:
    """The content of a checkpoint, on the CPU. UserError: it is damaged."""
    with explained(f"cannot read {path}"):
        file = path.read_bytes()
    serialised, checksum = file[:-32], file[-32:]
    if hashlib.sha256(serialised).digest() != checksum:
        raise UserError(
            f"{path} is not a whole checkpoint: it was cut short, damaged, or "
            "not written by vitedu (its checksum is wrong); delete it to start "
            "the run anew"
        )
    content: dict[str, Any] = torch.load(
        io.BytesIO(serialised), map_location="cpu", weights_only=True
    )
    if content["format"] != FORMAT:
        raise UserError(f"{path} is not a checkpoint of this version of vitedu")
    return content


def load_checkpoint(
    path: Path, state: TrainState, processes: Processes = SINGLE
) -> tuple[float, list[StepResult]]:
    """Put a file's state into `state`; seconds so far, and pending results."""

    def read() -> dict[str, Any]:
        content = read_saved(path)
        if changed := changes(content["data"], state.data):
            raise OtherRun(
                f"{path} does not belong to this run: it was trained on other "
                f"data: {changed}; restore them, or start anew"
            )
        check_start(
            path.parent, state.config, content.get("start"), state.start
        )
        # the device may have changed, and with it `fused`
        optimizer = content["optimizer"]
        optimizer["param_groups"] = [
            own | {"params": saved["params"], "lr": saved["lr"]}
            for own, saved in zip(
                state.optimizer.param_groups,
                optimizer["param_groups"],
                strict=True,
            )
        ]
        return content

    content = processes.scatter(read, state)
    state.precision.load_state_dict(content["precision"])
    set_random_state(content["random"], state.device)
    state.step = content["step"]
    state.start = state.start or content.get("start")
    pending = [StepResult(*result) for result in content["pending"]]
    if not processes.is_first:  # the first one has the sums of all
        pending = [
            StepResult(0.0, None if correct is None else 0, 0, grad_norm)
            for _, correct, _, grad_norm in pending
        ]
    return content["seconds"], pending


def random_state(device: torch.device) -> dict[str, Any]:
    """The generators' states; training steps seed themselves."""
    _, keys, *position = np.random.get_state()
    on_cuda = device.type == "cuda"
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if on_cuda else None,
        "numpy": [keys.tolist(), *position],
        "python": random.getstate(),
    }


def set_random_state(saved: dict[str, Any], device: torch.device) -> None:
    np.random.set_state(("MT19937", *saved["numpy"]))
    random.setstate(saved["python"])
    torch.set_rng_state(saved["torch"])
    if saved["cuda"] is not None and device.type == "cuda":
        torch.cuda.set_rng_state(saved["cuda"], device)


def first_not_finite(values: Any, name: str = "") -> str | None:
    if isinstance(values, Tensor):
        return None if values.isfinite().all() else name
    if isinstance(values, list | tuple):
        values = dict(enumerate(values))
    if not isinstance(values, dict):
        return None
    found = (
        first_not_finite(value, f"{name}.{key}" if name else key)
        for key, value in values.items()
    )
    return next(filter(None, found), None)


class Saver:
    """Saves a run's state in its folder; without one, only the best weights."""

    def __init__(
        self, state: TrainState, folder: RunFolder | None, processes: Processes
    ) -> None:
        self.state = state
        self.folder = folder
        self.processes = processes
        self.saved_step: int | None = None
        self.best_weights: dict[str, Tensor] = {}  # if no folder keeps them

    def load(self) -> tuple[float, list[StepResult]]:
        """Restore the last checkpoint; returns what `load_checkpoint` does."""
        path, processes = self.folder and self.folder.checkpoint, self.processes
        if path is None or not processes.on_rank0(path.exists):
            return 0.0, []
        loaded = load_checkpoint(path, self.state, processes)
        self.saved_step = self.state.step or None
        return loaded

    def save(self, seconds: float, totals: list[StepResult]) -> None:
        """`totals` are the journal's. UserError: something is not finite."""
        if self.saved_step == self.state.step:
            return
        self.check_loss(totals)
        content = checkpoint_content(
            self.state, seconds, totals, self.processes
        )
        self.check_finite({part: content[part] for part in LEARNED})
        if folder := self.folder:
            self.processes.on_rank0(
                lambda: replace_file(folder.checkpoint, as_bytes(content))
            )
        self.saved_step = self.state.step

    def check_loss(self, totals: list[StepResult]) -> None:
        loss_sum = float(sum(result.loss_sum for result in totals))
        if math.isfinite(loss_sum):
            return
        content = self.processes.gather(self.state)
        name = self.processes.on_rank0(lambda: first_not_finite(content))
        where = f", and {name} is not finite," if name else ""
        since = max(self.state.step - len(totals), self.saved_step or 0)
        self.stop_not_finite(f"loss became {loss_sum}{where}", since)

    def check_finite(self, content: dict[str, Any]) -> None:
        if name := self.processes.on_rank0(lambda: first_not_finite(content)):
            since = self.saved_step or 0
            self.stop_not_finite(f"{name} became nan or infinite", since)

    def stop_not_finite(self, what: str, since: int) -> NoReturn:
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

    def keep_best(self) -> None:
        state, folder = self.state, self.folder
        weights = state.result_weights()
        if folder is None:
            self.best_weights = {x: weights[x].clone() for x in weights}
            return
        checkpoint = checkpoint_of(state.network)._replace(state_dict=weights)
        self.processes.on_rank0(lambda: write_weights(folder.best, checkpoint))

    def final_model(self, is_finished: bool) -> Network:
        state, config, folder = self.state, self.state.config, self.folder
        if not (is_finished and config.keep == "best"):
            weights = state.result_weights()
        elif folder is None:
            weights = self.best_weights
        else:
            weights = self.processes.on_rank0(
                lambda: read_weights(folder.best).state_dict
            )
        model = state.network
        for weight in state.frozen:
            weight.requires_grad_(True)
        if config.shard and self.processes.world_size > 1:
            model = type(model)(model.config).to(state.device)
            model.usage = state.network.usage
        model.load_state_dict(weights)
        if config.activation_checkpointing:
            model.set_grad_checkpointing(False)
        return model.eval()
