"""What a training run comes to, on test images and on those it learned from."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from vitedu.data import Augment
from vitedu.evaluate import accuracy
from vitedu.train import TrainConfig, fit
from vitedu.train.data import open_sources
from vitedu.train.fit import Start


class Reached(NamedTuple):
    """One run: percent right twice, and the seconds it took."""

    test: float
    train: float  # on the images it learned from, as they are
    seconds: float


def reach(
    config: TrainConfig,
    *,
    out: Path | None = None,
    dataset: str | None = None,
    on_start: Start | None = None,
) -> Reached:
    """Train, in the folder `out` if any.

    `dataset` has the images for `train`, else the config's has.
    """
    run = fit(config, out, on_start=on_start)
    plain = replace(
        config, augment=Augment(), dataset=dataset or config.dataset
    )
    device = next(run.model.parameters()).device
    sources = open_sources(plain, device)
    learned = accuracy(
        run.model, sources.train.batches(epoch=0, seed=0, batch_size=250)
    )
    return Reached(
        run.result["metrics"]["test_accuracy"]["value"],
        learned.accuracy,
        run.result["wall_seconds"],
    )
