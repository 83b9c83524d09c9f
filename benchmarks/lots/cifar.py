"""Lot 5: `cifar10-scratch` at tier gpu, then its switches.

First 60 steps are timed: images a second, the host's part of a step, and how
many minutes the run will take, so that `--epochs N` can fit it into eight. A
run that is stopped goes on from its last checkpoint.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from lots import Options, Outcome, free, piece, tell
from lots.pictures import cifar
from lots.timing import forget_compiled
from vitedu import budget
from vitedu.data import load_dataset
from vitedu.evaluate import accuracy
from vitedu.model import ViTConfig
from vitedu.train import TrainConfig, fit, recipe
from vitedu.train.data import open_sources
from vitedu.train.fit import Loop
from vitedu.train.start import build_state
from vitedu.train.step import uncompiled

WARM_UP, TIMED, ALONE = 15, 60, 20  # steps
SEEDS = (0, 1, 2)
CURVE = 20  # lines of loss that are kept of a run


def without_randaugment(config: TrainConfig) -> TrainConfig:
    """Shift and flip remain."""
    return replace(config, augment=replace(config.augment, rand_layers=0))


SWITCHES: dict[str, Callable[[TrainConfig], TrainConfig]] = {
    "recipe": lambda c: c,
    "no mixup and cutmix": lambda c: replace(c, mixup=0.0, cutmix=0.0),
    "no RandAugment": without_randaugment,
    "no weight decay": lambda c: replace(c, weight_decay=0.0),
    "no average of the weights": lambda c: replace(c, ema=None),
}


def run(options: Options) -> Iterator[Outcome]:
    """Yield after the probe and after every run, finished or stopped."""
    config = configured(options)
    dataset = load_dataset("cifar10", data=config.data)
    record = {
        "name": "cifar10-jpeg75",
        "digest": dataset.digest,
        "num_train": len(dataset.train),
        "num_test": len(dataset.test),
    }
    wanted = [(name, 0) for name in SWITCHES]
    wanted += [(name, seed) for name in SWITCHES for seed in SEEDS[1:]]
    if options.smoke:
        wanted = wanted[:1]
    names = [slug(*each) for each in wanted]
    probed = piece(options.folder, "probe", lambda: probe(config, options))
    done: dict[str, dict[str, Any]] = {"probe": probed}

    def outcome(still_open: list[str]) -> Outcome:
        return Outcome(
            config=replace(config, data=None).to_json(),
            metrics=metrics_of(done),
            dataset=record,
            open=still_open,
            notes=notes_of(done),
        )

    yield outcome(names)
    for number, (switch, seed) in enumerate(wanted):
        free(options.device)
        forget_compiled()  # after eight networks PyTorch would compile no more
        name = slug(switch, seed)
        values = trained(config, switch, seed, options)
        if values is None:  # the minutes are spent
            yield outcome(names[number:])
            return
        done[name] = values
        yield outcome(names[number + 1 :])


def configured(options: Options) -> TrainConfig:
    """The recipe at tier gpu, on the data that were packed."""
    config = recipe("cifar10-scratch", "gpu")
    config = replace(
        config, data=str(cifar(options)), device=str(options.device)
    )
    if options.epochs is not None:
        config = replace(config, epochs=options.epochs)
    if not options.smoke:
        return config
    model: ViTConfig = config.model
    thin = {"embed_dim": 24, "depth": 1, "num_heads": 2, "mlp_dim": 24}
    return replace(
        config,
        model=replace(model, **thin),
        epochs=options.epochs or 2,
        batch_size=24,
        compile=False,
        precision="fp32",
        max_images=64,
        threads=1,
        log_every=2,
        save_every=2,
    )


def slug(switch: str, seed: int) -> str:
    """A run as its folder and its metrics are called."""
    return f"{switch.replace(' ', '-')}-{seed}"


def probe(config: TrainConfig, options: Options) -> dict[str, Any]:
    """Time 60 steps in a row, and what the host does for one of them."""
    device = options.device
    warm_up, timed, alone = (
        (1, 2, 2) if options.smoke else (WARM_UP, TIMED, ALONE)
    )
    # a length that isn't reached, lines and checkpoints that don't come due
    config = replace(config, log_every=10**8, save_every=10**8)
    began = time.perf_counter()
    sources = open_sources(config, device)
    state = build_state(config, sources.train, device)
    loop = Loop(state, sources)
    hosts: list[float] = []
    marks: dict[int, float] = {}
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)

    def look() -> bool:
        """After every step: a clock, and in the last ones a wait as well."""
        step, now = state.step, time.perf_counter()
        if step > warm_up + timed:
            hosts.append(now - marks[step - 1])
        if step in (1, warm_up) or step >= warm_up + timed:
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            marks[step] = time.perf_counter()
        return step == warm_up + timed + alone

    torch.set_num_threads(config.threads or torch.get_num_threads())
    loop.run(look)
    end = warm_up + timed
    first = marks[1] - began
    step_ms = 1e3 * (marks[end] - marks[warm_up]) / timed
    host_ms = 1e3 * statistics.mean(hosts)
    speed = 1e3 * config.batch_size / step_ms
    minutes = state.num_steps * step_ms / 60e3
    values = {
        "speed": speed,
        "step_ms": step_ms,
        "host_ms": host_ms,
        "first_step_seconds": first,
        "minutes": minutes,
        "epochs": config.epochs,
        "num_weights": budget.parameters(config.model).total,
    }
    if device.type == "cuda":
        values["peak_memory"] = torch.cuda.max_memory_allocated(device)
    for note in state.notes:
        tell(f"cifar: {note}")
    tell(
        f"cifar: {step_ms:.2f} ms a step, {speed:,.0f} images/s; the host "
        f"needs {host_ms:.2f} ms of it ({100 * host_ms / step_ms:.0f}%); "
        f"ready after {first:.0f} s"
    )
    tell(
        f"cifar: {config.epochs} epochs would take {minutes:.1f} minutes; "
        f"eight have room for --epochs {int(8 / minutes * config.epochs)}"
    )
    return values


def trained(
    base: TrainConfig, switch: str, seed: int, options: Options
) -> dict[str, Any] | None:
    """What a run comes to; None if it was stopped, and goes on next time."""
    name = slug(switch, seed)
    config = replace(SWITCHES[switch](base), seed=seed)
    # other epochs are another run, with a folder of its own
    path = options.folder / f"{name}-{config.epochs}"

    def should_stop() -> bool:
        late = options.stop_at is not None
        return late and time.monotonic() > options.stop_at

    began, starts = time.perf_counter(), []
    run = fit(
        config,
        path,
        should_stop=should_stop,
        on_start=starts.append,
        on_progress=lambda progress: told(name, progress, config),
        command="python benchmarks/gpu_day.py --lot 5",
    )
    seconds = time.perf_counter() - began
    if run.result["status"] != "finished":
        test = open_sources(config, options.device).test
        with uncompiled(config.compile):
            so_far = accuracy(run.model, test.batches(batch_size=1000)).accuracy
        step = starts[0].state.step
        tell(f"cifar: {name} stopped at step {step}, {so_far:.2f}% so far")
        return None
    reached = run.result["metrics"]["test_accuracy"]["value"]
    lines = [line for line in run.history if "loss" in line]
    speed = statistics.median(x["images_per_second"] for x in lines)
    tell(
        f"cifar: {name}: {reached:.2f}% after {config.epochs} epochs, "
        f"{run.result['wall_seconds'] / 60:.2f} minutes of training, "
        f"{seconds / 60:.2f} in this call"
    )
    return {
        "accuracy": reached,
        "loss": run.result["metrics"]["test_loss"]["value"],
        "seconds": run.result["wall_seconds"],
        "call_seconds": seconds,
        "speed": speed,
        "epochs": config.epochs,
        "curve": [
            (line["step"], round(line["loss"], 4))
            for line in lines[:: max(1, len(lines) // CURVE)]
        ],
        "notes": run.result.get("notes", ""),
    }


def told(name: str, progress: Any, config: TrainConfig) -> None:
    """A line now and then."""
    line = progress.line
    if "note" in line:
        tell(f"cifar: {name}: {line['note']}")
    due = 20 * config.log_every
    if "loss" in line and progress.step % due == 0:
        tell(
            f"cifar: {name}: step {progress.step:,} of "
            f"{progress.num_steps:,}, loss {line['loss']:.3f}, "
            f"{progress.images_per_second:,.0f} images/s, "
            f"{100 * line['data_wait']:.0f}% waiting"
        )


def metrics_of(done: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The probe's figures, and each run's."""
    values = done["probe"]
    units = {
        "speed": "images per second",
        "step_ms": "milliseconds a step",
        "host_ms": "milliseconds of the host a step",
        "first_step_seconds": "seconds",
        "minutes": "minutes predicted",
        "num_weights": "weights",
        "peak_memory": "bytes",
    }
    metrics: dict[str, Any] = {
        f"probe/{name}": {"value": values[name], "unit": unit}
        for name, unit in units.items()
        if name in values
    }
    for name, values in done.items():
        if name == "probe":
            continue
        metrics[name] = {
            "value": values["accuracy"],
            "unit": "percent of the test images",
            **{x: values[x] for x in ("epochs", "seconds", "speed", "curve")},
        }
    for switch in SWITCHES:
        runs = [done.get(slug(switch, seed)) for seed in SEEDS]
        found = [each["accuracy"] for each in runs if each]
        if len(found) == len(SEEDS):
            metrics[f"{switch}, mean"] = {
                "value": statistics.mean(found),
                "unit": "percent of the test images",
                "seeds": found,
            }
    return metrics


def notes_of(done: dict[str, dict[str, Any]]) -> str:
    """Which data these are, and what the runs had to say."""
    notes = [
        "CIFAR-10 as JPEG of quality 75, learned from and tested on",
        "seconds are those of training, as the run's own clock has them",
    ]
    for values in done.values():
        notes += [each for each in [values.get("notes")] if each]
    return "; ".join(dict.fromkeys(notes))
