"""Lot 7: `imagenet-b16-384` at tier gpu for 200 steps, beside its forecast.

ViT-B/16 at 384 pixels, batches of 512, pictures of the sample from shards. The
weights are new, not trained, which changes nothing about speed and memory. What
`--dry-run` says of this card stands beside what the run then takes, and hours
for the recipe's 20,000 steps are computed from both.
"""

import os
import statistics
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch

from lots import Options, Outcome, in_pieces, tell
from lots.pictures import shards
from vitedu import budget
from vitedu.bench.trial import GPUS, fitted, gpu_hours, step_memory, try_run
from vitedu.train import TrainConfig, fit, recipe
from vitedu.train.precision import concrete

STEPS, COPIES = 200, 32
ROOM = 0.92  # of the card's memory; the rest is what is there already


def run(options: Options) -> Iterator[Outcome]:
    """Yield after the forecast and after the run."""
    config = cache(partial(configured, options))
    pieces = {
        "forecast": lambda: forecast(config(), options),
        "run": lambda: trained(config(), options),
    }
    yield from in_pieces(options, pieces, partial(outcome, config, options))


def configured(options: Options) -> TrainConfig:
    """The recipe, with as many images at a time as fit the card."""
    config = recipe("imagenet-b16-384", "gpu")
    cores = os.cpu_count() or 1
    config = replace(
        config,
        dataset=str(shards(options, 2 if options.smoke else COPIES)),
        weights=None,
        steps=STEPS,
        num_workers=max(1, cores - 2),
        device=str(options.device),
        log_every=10,
    )
    if options.smoke:
        thin = {"embed_dim": 24, "depth": 1, "num_heads": 2, "mlp_dim": 24}
        model = replace(
            config.model,
            image_size=(32, 32),
            num_classes=1000 if options.data else 5,
            **thin,
        )
        return replace(
            config,
            model=model,
            steps=2,
            batch_size=4,
            max_images=8,
            num_workers=0,
            precision="fp32",
            threads=1,
            log_every=1,
        )
    config = concrete(config, options.device)
    _, total = torch.cuda.mem_get_info(options.device)
    # if nothing fits, the run will say so
    return fitted(config, ROOM * total) or config


def forecast(config: TrainConfig, options: Options) -> dict[str, Any]:
    """What `vitedu train ... --dry-run` says."""
    found = try_run(config, options.device)
    values: dict[str, Any] = {"memory": found["memory"]}
    if "time" in found:
        values["time"] = found["time"]
        tell(
            f"imagenet: forecast {found['time']['images_per_second']:,.0f} "
            f"images/s, {found['memory']['needed']['total'] / 1e9:.1f} GB"
        )
    return values


def trained(config: TrainConfig, options: Options) -> dict[str, Any]:
    """Speed, memory and wait of the run."""
    on_cuda = options.device.type == "cuda"
    if on_cuda:
        torch.cuda.reset_peak_memory_stats(options.device)
    run = fit(config, on_progress=told)
    lines = [line for line in run.history if "images_per_second" in line]
    settled = lines[len(lines) // 4 :]  # workers and kernels have started
    speed = statistics.median(line["images_per_second"] for line in settled)
    values = {
        "speed": speed,
        "wait": statistics.mean(line["data_wait"] for line in settled),
        "seconds": run.result["wall_seconds"],
        "first_loss": lines[0]["loss"],
        "last_loss": lines[-1]["loss"],
        "dataset": run.result["dataset"],
    }
    if on_cuda:
        values["peak_memory"] = torch.cuda.max_memory_allocated(options.device)
    tell(
        f"imagenet: {speed:,.0f} images/s, "
        f"{100 * values['wait']:.0f}% waiting, "
        f"{values.get('peak_memory', 0) / 1e9:.1f} GB"
    )
    return values


def told(progress: Any) -> None:
    """A line every 50 steps."""
    if "loss" in progress.line and progress.step % 50 == 0:
        tell(
            f"imagenet: step {progress.step}, "
            f"{progress.images_per_second:,.0f} images/s"
        )


def outcome(
    config_of: Any,
    options: Options,
    done: dict[str, dict[str, Any]],
    still_open: list[str],
) -> Outcome:
    """Measured and predicted, as a recorded result."""
    config: TrainConfig = config_of()
    images = recipe("imagenet-b16-384", "gpu").steps * config.batch_size
    needed = step_memory(config).total
    metrics: dict[str, Any] = {
        "predicted/memory": {"value": needed, "unit": "bytes"}
    }
    for gpu in GPUS:
        hours = gpu_hours(config, images, gpu)
        metrics[f"predicted/hours_{gpu}"] = {"value": hours, "unit": "hours"}

    def add_speed(name: str, speed: float) -> None:
        unit = "images per second"
        metrics[f"{name}/speed"] = {"value": speed, "unit": unit}
        hours = images / speed / 3600
        metrics[f"{name}/hours"] = {"value": hours, "unit": "hours, computed"}

    notes = [
        f"{config.steps} steps of new weights; hours are those of the recipe's "
        "20,000 steps"
    ]
    for name, values in done.items():
        if "away" in values:
            notes.append(f"{name}: {values['away']}")
    took = done.get("forecast", {}).get("time")
    if took:
        add_speed("dry_run", took["images_per_second"])
    dataset = None
    if "speed" in (values := done.get("run", {})):
        add_speed("run", values["speed"])
        share = {"value": 100 * values["wait"], "unit": "percent of time"}
        metrics["run/data_wait"] = share
        if "peak_memory" in values:
            memory = {"value": values["peak_memory"], "unit": "bytes"}
            metrics["run/memory"] = memory
        flops = budget.training_flops(config.model) * values["speed"]
        metrics["run/flops"] = {"value": flops, "unit": "operations a second"}
        dataset = values["dataset"]
    return Outcome(
        config=config.to_json() | {"dataset": "shards of imagenet-sample"},
        metrics=metrics,
        dataset=dataset
        or {
            "name": "imagenet-sample",
            "digest": "not read",
            "num_train": 0,
            "num_test": 0,
        },
        open=still_open,
        notes="; ".join(notes),
    )
