"""A run's state in one file, written whole or not at all."""

from collections.abc import Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from vitedu.errors import UserError
from vitedu.files import replace_file
from vitedu.train.step import StepResult, TrainState

FORMAT = 1


def save_checkpoint(
    path: Path,
    state: TrainState,
    seconds: float,
    pending: Sequence[StepResult] = (),
) -> None:
    """Write all that the next step depends on; the old file stays until then.

    `pending` are the results of steps that no line of the log holds yet. No random
    state is among it: what is drawn depends on the step's number alone.
    UserError: a number is not finite (nothing is written), or the disk refuses.
    """
    content = {
        "format": FORMAT,
        "step": state.step,
        "seconds": seconds,
        "pending": [tuple(result) for result in pending],
        "model": state.model.state_dict(),
        "optimizer": state.optimizer.state_dict(),
        "precision": state.precision.state_dict(),
        "ema": None if state.ema is None else state.ema.state_dict(),
    }
    parts = [content[name] for name in ("model", "optimizer", "ema")]
    if not all_finite(parts):
        raise UserError(f"the state is not finite at step {state.step}")
    replace_file(path, lambda file: torch.save(content, file))


def load_checkpoint(
    path: Path, state: TrainState
) -> tuple[float, list[StepResult]]:
    """Put the file's state into `state`; seconds so far, and the pending results.

    UserError: the file is not a whole checkpoint, or belongs to another model.
    """
    content = read_checkpoint(path)
    try:
        state.model.load_state_dict(content["model"])
        state.optimizer.load_state_dict(content["optimizer"])
        state.precision.load_state_dict(content["precision"])
        if state.ema is not None:
            state.ema.load_state_dict(content["ema"])
        state.step = content["step"]
        pending = [StepResult(*result) for result in content["pending"]]
        return content["seconds"], pending
    except (RuntimeError, KeyError, TypeError, ValueError) as error:
        # torch names what does not fit below a heading
        lines = [line.strip() for line in str(error).splitlines()]
        what = lines[1] if len(lines) > 1 else lines[0]
        raise UserError(f"{path} does not belong to this run: {what}") from None


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The plain content of a checkpoint; only tensors and plain types are read."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError:
        raise UserError(
            f"{path} is not a whole checkpoint: it is damaged, or holds more than "
            "tensors and plain values, which is not read"
        ) from None
    except Exception as error:  # a damaged archive raises one of a dozen kinds
        lines = str(error).splitlines() or [type(error).__name__]
        raise UserError(
            f"{path} is not a whole checkpoint: {lines[0]}"
        ) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UserError(f"{path} is not a checkpoint of this version of vitedu")
    return content


def all_finite(values: Any) -> bool:
    """Whether no tensor inside lists and dicts holds nan or infinity."""
    if isinstance(values, Tensor):
        return not values.is_floating_point() or bool(values.isfinite().all())
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, list | tuple):
        return all(map(all_finite, values))
    return True
