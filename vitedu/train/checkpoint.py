"""A run's state in one file: written whole or not at all, checked when it is read."""

import hashlib
import io
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitedu.errors import UserError
from vitedu.files import reason, replace_file
from vitedu.train.config import TrainConfig
from vitedu.train.distributed import (
    ALONE,
    World,
    gather,
    own_results,
    scatter,
)
from vitedu.train.folder import differences, listed
from vitedu.train.step import StepResult, TrainState


def save_checkpoint(
    path: Path,
    state: TrainState,
    seconds: float,
    pending: Sequence[StepResult] = (),
) -> None:
    """Write all that the next step depends on; the old file stays until then.

    `pending` are the results of steps that no line of the log holds yet.
    UserError: a number is not finite (nothing is written), or the disk refuses.
    """
    content = checkpoint_content(state, seconds, pending)
    if name := first_not_finite(content):
        raise UserError(f"{name} is not finite at step {state.step}")
    write_checkpoint(path, content)


def load_checkpoint(
    path: Path, state: TrainState, world: World = ALONE
) -> tuple[float, list[StepResult]]:
    """Put the file's state into `state`; seconds so far, and the pending results.

    The random states of torch, CUDA, NumPy and Python are put back as well. The first
    process of several reads the file and tells the others.
    UserError: the file is not a whole checkpoint, or belongs to another run.
    """
    large: dict[str, Any] = {}  # sent tensor by tensor, and not as a whole

    def read() -> dict[str, Any]:
        content = read_checkpoint(path)
        with belonging(path):
            before = TrainConfig.from_json(content["config"])
            theirs, ours = differences(before, state.config)
            if theirs:
                raise ValueError(f"it has {listed(theirs)}, not {listed(ours)}")
            if content["data"] != state.data_digest:
                raise ValueError(
                    "its data were others; give back what was there, or start anew"
                )
            for part in ("model", "optimizer", "ema"):
                large[part] = content.pop(part)
        return content

    small = world.first(read)
    with belonging(path):
        scatter(large, state, world)
        state.precision.load_state_dict(small["precision"])
        state.step = small["step"]
        pending = [StepResult(*result) for result in small["pending"]]
        device = next(state.model.parameters()).device
        set_random_state(small["random"], device)
        return small["seconds"], own_results(pending, world)


@contextmanager
def belonging(path: Path) -> Iterator[None]:
    """Turn what goes wrong with a file's content into one sentence."""
    try:
        yield
    except (RuntimeError, LookupError, TypeError, ValueError) as error:
        # torch names what does not fit below a heading
        lines = [line.strip() for line in str(error).splitlines()]
        what = lines[1] if len(lines) > 1 else lines[0]
        raise UserError(f"{path} does not belong to this run: {what}") from None


def checkpoint_content(
    state: TrainState,
    seconds: float,
    pending: Sequence[StepResult] = (),
    world: World = ALONE,
) -> dict[str, Any]:
    """What a checkpoint holds: tensors and plain values, by parts."""
    device = next(state.model.parameters()).device
    return {
        "format": 2,
        "config": state.config.to_json(),
        "data": state.data_digest,
        "step": state.step,  # schedule and order of the data follow from it
        "seconds": seconds,
        "pending": [tuple(result) for result in pending],
        **gather(state, world),  # model, optimizer, ema
        "precision": state.precision.state_dict(),
        "random": random_state(device),
    }


def random_state(device: torch.device) -> dict[str, Any]:
    """Where the streams of torch, CUDA, NumPy and Python stand.

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
    """The inverse of `random_state`; on another device CUDA's is left as it is."""
    torch.set_rng_state(saved["torch"])
    if saved["cuda"] is not None and device.type == "cuda":
        torch.cuda.set_rng_state(saved["cuda"], device)
    np.random.set_state(("MT19937", *saved["numpy"]))
    random.setstate(saved["python"])


def first_not_finite(
    content: dict[str, Any], world: World = ALONE
) -> str | None:
    """The name of the first tensor with nan or infinity in it; None: all are finite.

    What was measured may be infinite: float16 skips a step whose gradients overflow.
    """
    names = (
        name
        for part in ("model", "optimizer", "ema")
        for name, tensor in named_tensors(content[part], part)
        if tensor.is_floating_point() and not tensor.isfinite().all()
    )
    return world.first(lambda: next(names, None))


def named_tensors(values: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    """Every tensor inside dicts and lists, by its dotted name."""
    if isinstance(values, Tensor):
        yield name, values
    elif isinstance(values, list | tuple):
        values = dict(enumerate(values))
    if isinstance(values, dict):
        for key, value in values.items():
            yield from named_tensors(value, f"{name}.{key}")


def write_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write `content` and behind it the sha256 of its bytes, whole or not at all."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    buffer.write(hashlib.sha256(buffer.getbuffer()).digest())
    replace_file(path, buffer.getvalue())


def read_checkpoint(path: Path) -> dict[str, Any]:
    """What `write_checkpoint` wrote, on the CPU.

    Only tensors and plain types are read, and nothing before the checksum is right.
    UserError: the file is missing, damaged, or no checkpoint of this version.
    """
    try:
        whole = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {reason(error)}") from None
    serialised, checksum = whole[:-32], whole[-32:]
    if hashlib.sha256(serialised).digest() != checksum:
        raise UserError(
            f"{path} is not a whole checkpoint: {wrong_checksum(whole)}; "
            "start the recipe anew with --fresh"
        )
    try:
        content = torch.load(
            io.BytesIO(serialised), map_location="cpu", weights_only=True
        )
    # behind a right checksum may stand anything, which torch says in a dozen kinds
    except Exception:
        raise UserError(
            f"{path} is not a whole checkpoint: it is damaged, or holds more than "
            "tensors and plain values, which is not read"
        ) from None
    if not isinstance(content, dict) or content.get("format") != 2:
        raise UserError(f"{path} is not a checkpoint of this version of vitedu")
    return content


def wrong_checksum(whole: bytes) -> str:
    """Why a file's last 32 bytes may not be the sha256 of the others."""
    # what ends an archive of torch.save; ours go on with the checksum
    if whole[-22:].startswith(b"PK\x05\x06"):
        return "an older vitedu or another program wrote it, without a checksum"
    return (
        "it was cut short, damaged, or not written by vitedu "
        "(its checksum is wrong)"
    )
