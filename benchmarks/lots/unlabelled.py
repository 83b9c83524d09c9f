"""Lot 10: CIFAR-10 completed from a quarter, `mae-cifar10` at tier gpu.

200 of its 800 epochs, or `--epochs N`. A linear probe on 10,000 labels then
says what the frozen encoder knows of the classes, beside one that wasn't
trained. A run that is stopped goes on from its last checkpoint.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from lots import Options, Outcome, in_pieces, tell
from lots.finetune import NO_DATA
from lots.pictures import cifar
from vitedu.data import load_dataset
from vitedu.evaluate import linear_probe
from vitedu.evaluate.features import Features, features
from vitedu.model import new_network
from vitedu.train import Run, TrainConfig, fit, recipe
from vitedu.train.start import load_to_train

EPOCHS, LABELS = 200, 10_000


def run(options: Options) -> Iterator[Outcome]:
    """Yield after the run, finished or stopped, and after each probe."""
    config = configured(options)
    place = options.folder / f"run-{config.epochs or config.steps}"
    found = trained(config, options, place)
    pieces = {
        "mae": partial(summary, found),
        "probe": partial(probed, config, options, place, True),
        "probe-untrained": partial(probed, config, options, place, False),
    }
    if found.result["status"] != "finished":  # the minutes are spent
        yield outcome(config, {}, [*pieces])
        return
    yield from in_pieces(options, pieces, partial(outcome, config))


def configured(options: Options) -> TrainConfig:
    """The recipe, shorter."""
    config = replace(
        recipe("mae-cifar10", "gpu"),
        data=str(cifar(options)),
        epochs=options.epochs or EPOCHS,
        device=str(options.device),
    )
    if not options.smoke:
        return config
    thin = {"embed_dim": 24, "depth": 1, "num_heads": 2, "mlp_dim": 24}
    return replace(
        config,
        model=replace(config.model, **thin),
        epochs=1,
        batch_size=24,
        max_images=48,
        precision="fp32",
        threads=1,
        log_every=1,
    )


def trained(config: TrainConfig, options: Options, place: Path) -> Run:
    """The run, as far as it gets."""

    def should_stop() -> bool:
        late = options.stop_at is not None
        return late and time.monotonic() > options.stop_at

    return fit(config, place, should_stop=should_stop, progress=False)


def summary(run: Run) -> dict[str, Any]:
    """What a finished run says of itself."""
    found = {
        "error": run.result["metrics"]["test_loss"]["value"],
        "seconds": run.result["wall_seconds"],
        "dataset": run.result["dataset"],
    }
    tell(f"unlabelled: error {found['error']:.3f}, {found['seconds']:.0f} s")
    return found


def probed(
    config: TrainConfig, options: Options, place: Path, is_trained: bool
) -> dict[str, Any]:
    """Accuracy of a linear probe on the encoder of this run."""
    model = load_to_train(str(place))
    if not is_trained:
        torch.manual_seed(0)
        new = new_network(model.config)
        new.preprocess, model = model.preprocess, new
    model = model.to(options.device).eval()
    data = load_dataset("cifar10", data=config.data)
    labelled = data.train.take(range(min(LABELS, len(data.train))))
    known, unseen = (
        Features(x.float().cpu(), y.cpu())
        for x, y in (
            features(model, part, batch_size=500)
            for part in (labelled, data.test)
        )
    )
    probe = linear_probe(model, known)
    reached = probe.accuracy(model, unseen)
    tell(f"unlabelled: probe, {is_trained=}: {reached:.2f}%")
    return {"accuracy": reached, "train": probe.accuracy(model, known)}


def outcome(
    config: TrainConfig, done: dict[str, dict[str, Any]], still_open: list[str]
) -> Outcome:
    """What there is, as a recorded result."""
    metrics: dict[str, Any] = {}
    for name, values in done.items():
        for what, unit in (
            ("error", "mean square of normalised pixels"),
            ("seconds", "seconds of training"),
            ("accuracy", "percent of the test images"),
            ("train", "percent of the labelled images"),
        ):
            if what in values:
                metrics[f"{name}/{what}"] = {
                    "value": values[what],
                    "unit": unit,
                }
    return Outcome(
        config=replace(config, data=None).to_json(),
        metrics=metrics,
        dataset=done.get("mae", {}).get("dataset", NO_DATA),
        open=still_open,
        notes="CIFAR-10 as JPEG of quality 75; probes learn from 10,000 labels",
    )
