"""A run's state in one file: written whole or not at all, checked when read."""

import hashlib
import io
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitedu.errors import UserError, reason
from vitedu.files import check_regular
from vitedu.train.belonging import check_parts, check_same_run
from vitedu.train.processes import ALONE, Processes
from vitedu.train.state import TrainState
from vitedu.train.step import StepResult
from vitedu.weights.torch_files import check_torch

PARTS = ("model", "optimizer", "ema")  # where the tensors are
# What Python and torch raise over a value that they cannot use.
WRONG = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


def checkpoint_content(
    state: TrainState,
    seconds: float,
    pending: Sequence[StepResult] = (),
    processes: Processes = ALONE,
) -> dict[str, Any]:
    """All that the next step depends on: tensors and plain values, by parts.

    `pending` are the results of steps that are not in the log yet.
    """
    return {
        "format": 2,
        "config": state.config.to_json(),
        "data": state.data_digest,
        "step": state.step,  # schedule and order of the data follow from it
        "seconds": seconds,
        "pending": [tuple(result) for result in pending],
        **processes.gather(state),  # model, optimizer, ema
        "precision": state.precision.state_dict(),
        "random": random_state(state.device),
    }


def first_not_finite(content: dict[str, Any]) -> str | None:
    """The name of the first tensor with nan or infinity; None: all are finite.

    What was measured may be infinite: float16 skips a step whose gradients
    overflow.
    """
    names = (
        name
        for part in PARTS
        if part in content
        for name, tensor in named_tensors(content[part], part)
        if tensor.is_floating_point() and not tensor.isfinite().all()
    )
    return next(names, None)


def named_tensors(values: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    """Every tensor inside dicts and lists, by its dotted name."""
    if isinstance(values, Tensor):
        yield name, values
    elif isinstance(values, list | tuple):
        values = dict(enumerate(values))
    if isinstance(values, dict):
        for key, value in values.items():
            yield from named_tensors(value, f"{name}.{key}")


def as_bytes(content: dict[str, Any]) -> bytes:
    """The file of a checkpoint: what torch saves, and the sha256 of that."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    buffer.write(hashlib.sha256(buffer.getbuffer()).digest())
    return buffer.getvalue()


def load_checkpoint(
    path: Path, state: TrainState, processes: Processes = ALONE
) -> tuple[float, list[StepResult]]:
    """Put the file's state into `state`; seconds so far, and pending results.

    The random states of torch, CUDA, NumPy and Python are put back as well.
    UserError: the file is not a whole checkpoint, or belongs to another run.
    """

    def read() -> dict[str, Any]:
        content = read_checkpoint(path)
        try:
            check_same_run(content, state)
            check_parts(content, state)
        except WRONG as error:
            raise not_this_run(path, error) from None
        if name := first_not_finite(content):
            raise UserError(
                f"{path} cannot be used: {name} in it is nan or infinite; "
                "delete it to start the run anew"
            )
        return content

    try:
        content = processes.scatter(read, state)
        state.precision.load_state_dict(content["precision"])
        set_random_state(content["random"], state.device)
    except UserError:
        raise
    except WRONG as error:
        raise not_this_run(path, error) from None
    state.step = content["step"]
    pending = [StepResult(*result) for result in content["pending"]]
    if not processes.is_first:  # the first one has the sums of all
        pending = [without_images(result) for result in pending]
    return content["seconds"], pending


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The content of a checkpoint, on the CPU.

    Only tensors and plain types are read, and nothing before the checksum is
    right.
    UserError: the file is missing, damaged, or not a checkpoint of this
    version, or this torch could be made to run what is hidden in one.
    """
    check_regular(path)
    check_torch(torch.__version__, path)
    try:
        file = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {reason(error)}") from None
    serialised, checksum = file[:-32], file[-32:]
    if hashlib.sha256(serialised).digest() != checksum:
        raise UserError(
            f"{path} is not a whole checkpoint: {wrong_checksum(file)}; "
            "delete it to start the run anew"
        )
    try:
        content = torch.load(
            io.BytesIO(serialised), map_location="cpu", weights_only=True
        )
    # even with a right checksum it may be anything, and torch has a dozen
    # errors
    except Exception:
        raise UserError(
            f"{path} is not a whole checkpoint: it is damaged, or contains "
            "more than tensors and plain values, which is not read"
        ) from None
    if not isinstance(content, dict) or content.get("format") != 2:
        raise UserError(f"{path} is not a checkpoint of this version of vitedu")
    return content


def wrong_checksum(file: bytes) -> str:
    """Why a file's last 32 bytes may not be the sha256 of the others."""
    # how an archive of torch.save ends; ours go on with the checksum
    if file[-22:].startswith(b"PK\x05\x06"):
        return "an older vitedu or another program wrote it, without a checksum"
    return (
        "it was cut short, damaged, or not written by vitedu "
        "(its checksum is wrong)"
    )


def without_images(result: StepResult) -> StepResult:
    """The same, with no image in it."""
    correct = None if result.correct is None else 0 * result.correct
    return result._replace(
        loss_sum=0 * result.loss_sum, correct=correct, num_images=0
    )


def random_state(device: torch.device) -> dict[str, Any]:
    """The states of the random generators of torch, CUDA, NumPy and Python.

    They are for what a caller draws: a step seeds its own draws by its number.
    """
    _, keys, *position = np.random.get_state()
    on_cuda = device.type == "cuda"
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if on_cuda else None,
        "numpy": [keys.tolist(), *position],
        "python": random.getstate(),
    }


def set_random_state(saved: dict[str, Any], device: torch.device) -> None:
    """The inverse of `random_state`; on another device CUDA's is left alone."""
    keys, position, *normal = saved["numpy"]
    if not 0 <= position <= len(keys):  # NumPy would read beyond them
        raise ValueError(f"random.numpy is at {position} of {len(keys)}")
    np.random.set_state(("MT19937", keys, position, *normal))
    random.setstate(saved["python"])
    torch.set_rng_state(saved["torch"])
    if saved["cuda"] is not None and device.type == "cuda":
        torch.cuda.set_rng_state(saved["cuda"], device)


def not_this_run(path: Path, error: Exception) -> UserError:
    """The sentence about a whole file whose content does not fit."""
    # torch names what does not fit below a heading
    lines = [line.strip() for line in str(error).splitlines()] or [""]
    what = lines[1] if len(lines) > 1 else lines[0]
    return UserError(f"{path} does not belong to this run: {what}")
