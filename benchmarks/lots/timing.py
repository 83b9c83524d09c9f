"""Steps of several networks, or of one network set up differently, in turns.

What is timed, and how, is that of `vitedu bench`: the package's own step, with
the optimizer; turns of 0.3 seconds, another contestant first in each round.
"""

import copy
import statistics
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lots import Options
from vitedu import budget
from vitedu.bench.measure import (
    Settings,
    matmul_ceiling,
    random_batch,
    repeated,
    spread,
    step_of,
    take_turns,
    train_state,
    warm_up,
)
from vitedu.model import ViT, ViTConfig, vit_config
from vitedu.train import TrainState
from vitedu.train.optimizer import parameter_groups
from vitedu.train.precision import (
    DTYPES,
    build_precision,
    resolve_precision,
)

ROUNDS = 7
Batch = tuple[Tensor, Tensor]


class Setup(NamedTuple):
    """How a step is computed. Each default is PyTorch's own."""

    precision: str
    batch_size: int
    attention: str = "auto"
    fused: bool = True  # AdamW in one kernel
    channels_last: bool = False
    compile: str | None = None  # a mode of torch.compile
    weights: torch.dtype = torch.float32


class Contestant(NamedTuple):
    """A network ready for its steps."""

    state: TrainState
    batch: Batch


def chosen(name: str, options: Options, **fields: Any) -> ViTConfig:
    """A model of the paper's Table 1; in a smoke test a tiny one."""
    if options.smoke:
        small = {"image_size": 32, "embed_dim": 32, "depth": 1, "mlp_dim": 64}
        return ViTConfig(num_classes=10, num_heads=2, **small)
    return vit_config(name, **fields)


def half(device: torch.device) -> str:
    """The 16 bits that this device is fast in; on a CPU: bf16."""
    if device.type != "cuda":
        return "bf16"
    return resolve_precision("auto", device)


def contestant(
    model: nn.Module, config: ViTConfig, setup: Setup, options: Options
) -> Contestant:
    """A copy of `model`, set up. UserError: the device lacks the precision."""
    device = options.device
    precision = build_precision(setup.precision, device, setup.attention)
    model = copy.deepcopy(model).to(device, setup.weights)
    images, labels = random_batch(config, setup.batch_size, device)
    images = images.to(setup.weights)
    if setup.channels_last:
        model = model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    settings = Settings(setup.batch_size, setup.precision)
    state = train_state(model, settings, device)
    state.precision = precision
    if not setup.fused:
        groups = parameter_groups(model, weight_decay=0.05)
        state.optimizer = torch.optim.AdamW(groups, lr=1e-6)
    if setup.compile is not None:
        compile_in_place(model, setup.compile, options.smoke)
    return Contestant(state, (images, labels))


def compile_in_place(model: nn.Module, mode: str, smoke: bool) -> None:
    """Compile at the first call; a smoke test only traces ours, in a second."""
    if smoke:
        is_traced = isinstance(model, ViT) and mode == "default"
        model.compile(backend="eager", disable=not is_traced)
    else:
        model.compile(mode=mode)


def forget_compiled() -> None:
    """So that the next network isn't compiled for sizes that vary."""
    torch._dynamo.reset()


def time_turns(
    contestants: dict[str, Contestant], options: Options, *, training: bool
) -> dict[str, dict[str, Any]]:
    """For each: images a second, milliseconds a step, peak memory in bytes.

    `times` is how many times as fast the first is as this one, with quartiles
    over the rounds.
    """
    device = options.device
    turns, num_steps, peaks = {}, {}, {}
    for name, (state, batch) in contestants.items():
        state.model.train(training)
        step = step_of(state, batch, training)
        filled, peak = warm_up({name: step}, {name: state}, device)
        num_steps[name] = 1 if options.smoke else filled
        peaks[name] = peak[name]
        turns[name] = repeated(step, num_steps[name])
    rounds = 2 if options.smoke else ROUNDS
    seconds = take_turns(turns, rounds, device)
    speeds = {
        name: [num_steps[name] * len(batch[0]) / each for each in seconds[name]]
        for name, (_, batch) in contestants.items()
    }
    first = next(iter(speeds.values()))
    return {
        name: {
            "images_per_second": spread(speeds[name]),
            "times": spread(
                [a / b for a, b in zip(first, speeds[name], strict=True)]
            ),
            "milliseconds": 1000
            * len(batch[0])
            / statistics.median(speeds[name]),
            "peak_memory": peaks[name],
            "batch_size": len(batch[0]),
            "steps_a_turn": num_steps[name],
            "seconds": seconds[name],
        }
        for name, (_, batch) in contestants.items()
    }


@cache
def ceilings(precision: str, device: torch.device) -> dict[str, float]:
    """Operations a second: of a large matrix product here, and as promised."""
    if device.type == "cpu":  # slow in 16 bits, and only a smoke test asks
        return {"matrix_product": matmul_ceiling(device, torch.float32)}
    found = {}
    with build_precision(precision, device).autocast():
        dtype = DTYPES[precision] or torch.float32
        found["matrix_product"] = matmul_ceiling(device, dtype)
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        if promised := budget.datasheet(name, precision):
            found["datasheet"] = promised
    return found


def metric(values: dict[str, float], unit: str) -> dict[str, Any]:
    """A median with its quartiles, as a metric of a result."""
    quartiles = {"low": values["low"], "high": values["high"]}
    return {"value": values["median"], "unit": unit, **quartiles}
