"""The recipe of `cifar_switches.py` on all of CIFAR-10: longer, step by step.

    python benchmarks/cifar_full.py cifar10-jpeg75.npz --processes 19

The same network with patches of 4 pixels (0.3 M weights) learns from the
training part but for the 5,000 images that `cifar_switches.py` holds out, and
is judged on those: the recipe with three seeds over 40 epochs, and the
package's own network of 57 million multiply-adds, in bfloat16; then the recipe
and each switch, one seed, over 8 and over 24. A difference between two single
runs counts only beyond the spread of the three.

With --graphs: stochastic depth over 8 epochs and the recipe once more, by
`device_loop`, whose updates are graphs; a run is minutes of a GPU then.

What is measured is written to `vitedu/results/cifar-full.json` after each run,
and what stands there is not repeated; a run that was stopped goes on from its
folder in `runs`. On a GPU all runs share the card: one alone leaves most of it
unused. On a CPU a run of 40 epochs takes a core one to two hours.
"""

import argparse
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import device_loop
import numpy as np
import torch
from cifar_switches import NUM_HELD_OUT, NUM_TRAIN, SWITCHES, modelled, small
from kept import kept
from reached import Reached, reach
from recorded import result_fields
from torch.nn.attention import SDPBackend, sdpa_kernel

from vitedu import budget, results
from vitedu.data import load_dataset
from vitedu.model import ViT
from vitedu.train import TrainConfig, find_device, recipe

TARGET = Path(__file__).parents[1] / "vitedu/results/cifar-full.json"
WHOLE, SHORT, LONG = 40, 8, 24  # epochs
WORDS = (
    "with mixup and cutmix",
    "no augmentation",
    "with RandAugment",
    "no weight decay",
    "no average of the weights",
    "no label smoothing",
    "with stochastic depth",
)
OWN = "network of the package"  # 57 million multiply-adds
RUNS = [
    *((name, WHOLE, seed) for name in ("recipe", OWN) for seed in (0, 1, 2)),
    *((name, LONG, 0) for name in ("recipe", *WORDS)),
    *((name, SHORT, 0) for name in ("recipe", *WORDS)),
]

IN_GRAPHS = [
    ("with stochastic depth", SHORT, 0),
    ("recipe", WHOLE, 3),
]


def configured(name: str, epochs: int, seed: int, data: str) -> TrainConfig:
    """A run: the switch's settings for as many epochs, a line each epoch."""
    config = recipe("cifar10-scratch", "cpu")
    if name == OWN:
        config = replace(config, precision="bf16")
    else:
        config = modelled(SWITCHES[name](small(data)), patch_size=4)
    settings = {"data": data, "max_images": None, "threads": 1}
    return replace(config, epochs=epochs, seed=seed, **settings)


def write_parts(source: str, target: Path) -> str:
    """All images but those held out, and these; the digest."""
    train = load_dataset("cifar10", data=source).train
    images, labels = train.images.permute(0, 2, 3, 1).numpy(), train.labels
    held_out = np.zeros(len(images), bool)
    held_out[NUM_TRAIN : NUM_TRAIN + NUM_HELD_OUT] = True
    parts = {"train": ~held_out, "test": held_out}
    np.savez(
        target,
        **{f"x_{part}": images[rows] for part, rows in parts.items()},
        **{f"y_{part}": labels.numpy()[rows] for part, rows in parts.items()},
    )
    return load_dataset("cifar10", data=target).digest


def metric(run: Reached, config: TrainConfig, name: str) -> dict[str, object]:
    """What a run comes to, as it is recorded."""
    return {
        "value": run.test,
        "unit": f"percent of {NUM_HELD_OUT:,} held out",
        "train": run.train,
        "seconds": run.seconds,
        "switch": name,
        "epochs": config.epochs,
        "seed": config.seed,
        "macs_per_image": budget.macs(config.model),
    }


def measured(
    run: tuple[str, int, int], folder: Path, file: Path
) -> dict[str, object]:
    """One run, in a process of its own."""
    torch.set_num_threads(1)
    name, epochs, seed = run
    config = configured(name, epochs, seed, str(file))
    slug = f"cifar-full-{name}-{epochs}-{seed}".replace(" ", "-")
    attention = nullcontext()
    on_cpu = find_device("auto").type == "cpu"
    if on_cpu and config.precision == "bf16":  # faster with 64 tokens
        attention = sdpa_kernel(SDPBackend.MATH)
    with attention:
        return metric(reach(config, out=folder / slug), config, name)


def in_graphs(config: TrainConfig) -> dict[str, float]:
    """The same training, but every update is one graph."""
    device = find_device("auto")
    started = time.perf_counter()
    data = load_dataset("cifar10", data=config.data)
    parts = [
        (part.images.to(device), part.labels.to(device))
        for part in (data.train, data.test)
    ]
    torch.manual_seed(config.seed)
    model = ViT(config.model).to(device).train()
    device_loop.train(
        model,
        *parts[0],
        lr=config.lr,
        steps=config.epochs * (len(data.train) // config.batch_size),
        seed=config.seed,
        batch=config.batch_size,
        build=partial(device_loop.adamw, betas=config.betas),
        precision=torch.bfloat16 if device.type == "cuda" else torch.float32,
        warmup=config.warmup,
        smoothing=config.label_smoothing,
        ema=config.ema,
    )
    model.eval()
    learned, held_out = (device_loop.right(model, *part) for part in parts)
    seconds = round(time.perf_counter() - started, 1)
    return {"test": held_out, "train": learned, "seconds": seconds}


def add_graphs(
    metrics: dict[str, dict], folder: Path, file: Path, source: Path
) -> None:
    """Run what no other process is at, and write what is there."""
    digest = load_dataset("cifar10", data=file).digest
    for run in IN_GRAPHS:
        config = configured(*run, str(file))
        name, epochs, seed = run
        title = f"{name}, {epochs} epochs, seed {seed}"
        slug = f"graphs-{name}-{epochs}-{seed}.json".replace(" ", "-")
        found = kept(folder / slug, partial(in_graphs, config))
        if found is not None:
            metrics[title] = metric(Reached(**found), config, name)
    write_result(metrics, source, digest)


def main() -> None:
    """Run what isn't there yet, and write after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--graphs", action="store_true")
    options = parser.parse_args()
    metrics = {}
    if TARGET.exists():
        metrics = results.read_file(TARGET)["metrics"]
    options.runs.mkdir(parents=True, exist_ok=True)
    file = options.runs / "cifar-full.npz"  # a resumed run asks for the same
    digest = write_parts(options.data, file)
    if options.graphs:
        torch.set_num_threads(1)
        add_graphs(metrics, options.runs, file, Path(options.data))
        return
    named = {f"{run[0]}, {run[1]} epochs, seed {run[2]}": run for run in RUNS}
    spawn = get_context("spawn")
    with ProcessPoolExecutor(options.processes, mp_context=spawn) as pool:
        titles = {
            pool.submit(measured, run, options.runs, file): title
            for title, run in named.items()
            if title not in metrics
        }
        for each in as_completed(titles):
            title, found = titles[each], each.result()
            metrics[title] = found
            print(title, found, flush=True)
            write_result(metrics, Path(options.data), digest)


def write_result(metrics: dict[str, dict], source: Path, digest: str) -> None:
    """Write all runs, old and new."""
    seconds = sum(each["seconds"] for each in metrics.values())
    command = f"python benchmarks/cifar_full.py {source.name}"
    result = {
        **result_fields(
            TARGET.stem, command, seconds, device=find_device("auto").type
        ),
        "config": replace(
            configured("recipe", WHOLE, 0, "none"), data=None
        ).to_json(),
        "metrics": metrics,
        "dataset": {
            "name": source.stem,
            "digest": digest,
            "num_train": 50_000 - NUM_HELD_OUT,
            "num_test": NUM_HELD_OUT,
        },
        "notes": "judged on images held out of the training part",
    }
    results.write(TARGET, result)


if __name__ == "__main__":
    main()
