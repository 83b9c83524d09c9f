"""Runs of `cifar_full.py` that were stopped: what they had reached by then.

    python benchmarks/cifar_halfway.py RUNS

Twelve epochs of all runs over 24 and 40 were done when the GPU's time was up,
and RandAugment's eleven. Each is judged as it stood, by its average of the
weights if it has one: on the images that `cifar_full.py` holds out, and on the
first 5,000 that it learned from. The three seeds of the recipe say how far
apart twins are. Runs over 8 epochs were whole; their accuracy is copied from
RUNS. Minutes on a thread; RUNS also has `cifar-full.npz`, which that script
makes. Written to `vitedu/results/cifar-halfway.json`.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import torch
from cifar_full import LONG, NUM_HELD_OUT, RUNS, SHORT, configured
from recorded import result_fields
from torch import Tensor

from vitedu import results
from vitedu.data import Augment
from vitedu.evaluate import accuracy
from vitedu.model import ViT
from vitedu.train import TrainConfig
from vitedu.train.checkpoint import read_saved
from vitedu.train.data import open_sources

TARGET = Path(__file__).parents[1] / "vitedu/results/cifar-halfway.json"
STEPS = 704  # of an epoch
LEARNED = 5_000  # images of those it learned from


Parts = dict[str, list[tuple[Tensor, Tensor]]]  # by name their batches


def images(file: str) -> Parts:
    """What is held out, and some of what was learned from, as they are."""
    config = replace(configured("recipe", LONG, 0, file), augment=Augment())
    sources = open_sources(config, torch.device("cpu"))
    learned = sources.train.batches(epoch=0, seed=0, batch_size=250)
    held_out = sources.test.batches(epoch=0, seed=0, batch_size=250)
    return {
        "train": [next(learned) for _ in range(LEARNED // 250)],
        "test": list(held_out),
    }


def stood(folder: Path, config: TrainConfig, parts: Parts) -> dict:
    """How right a stopped run was, from its checkpoint."""
    saved = read_saved(folder / "checkpoint.pt")
    model = ViT(config.model).eval()
    average = saved["ema"] and saved["ema"]["average"]
    model.load_state_dict(saved["model"] | (average or {}))
    return {
        "value": accuracy(model, parts["test"]).accuracy,
        "unit": f"percent of {NUM_HELD_OUT:,} held out",
        "train": accuracy(model, parts["train"]).accuracy,
        "done": saved["step"] / STEPS,
    }


def main() -> None:
    """Judge them all, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    began = time.perf_counter()
    parts = images(str(options.runs / "cifar-full.npz"))
    metrics: dict[str, dict] = {}
    for run in RUNS:
        name, epochs, seed = run
        slug = f"cifar-full-{name}-{epochs}-{seed}".replace(" ", "-")
        folder = options.runs / slug
        said = {"switch": name, "epochs": epochs, "seed": seed}
        title = f"{name}, {epochs} epochs, seed {seed}"
        if epochs == SHORT and (folder / "result.json").exists():
            whole = results.read_file(folder / "result.json")
            found = dict(whole["metrics"]["test_accuracy"])
            metrics[title] = {
                "value": found["value"],
                "unit": f"percent of {NUM_HELD_OUT:,} held out",
                "done": SHORT,
                **said,
            }
        elif epochs >= LONG and (folder / "checkpoint.pt").exists():
            config = configured(*run, "none")
            metrics[title] = stood(folder, config, parts) | said
        if title in metrics:
            print(title, metrics[title], flush=True)
    command = "python benchmarks/cifar_halfway.py RUNS"
    result = {
        **result_fields(TARGET.stem, command, time.perf_counter() - began),
        "config": replace(
            configured("recipe", LONG, 0, "none"), data=None
        ).to_json(),
        "metrics": metrics,
        "dataset": {
            "name": "cifar10-jpeg75",
            "digest": "10ca53417fa4f6d8",
            "num_train": 50_000 - NUM_HELD_OUT,
            "num_test": NUM_HELD_OUT,
        },
        "notes": "trained on an NVIDIA H200 in bfloat16 by "
        "benchmarks/cifar_full.py until its time was up; judged on the CPU",
    }
    results.write(TARGET, result)


if __name__ == "__main__":
    main()
