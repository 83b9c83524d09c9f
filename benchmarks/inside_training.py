"""What training does to a table of positions: the paper's Figure 10, small.

    VITEDU_DATA=FOLDER python benchmarks/inside_training.py

A ViT of 139,000 weights with patches of 4 learns the digits of MNIST under
four settings of rate and decay, three seeds each. How far its heads
look is measured on 128 test digits. About half an hour on one thread; a second
call goes on where the first has stopped (--runs). Written to
`vitedu/results/inside-training.json`.
"""

import argparse
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from recorded import result_fields
from torch import Tensor

import vitedu
from vitedu import results
from vitedu.data import load_dataset
from vitedu.data.dataset import Dataset, Split
from vitedu.interpret import attention_distance, position_similarity
from vitedu.model import ViT, record_attention
from vitedu.plain import accuracy
from vitedu.train import TrainConfig, fit, recipe

TARGET = Path(__file__).parents[1] / "vitedu/results/inside-training.json"
SEEDS = (0, 1, 2)
STEPS = 1_875  # two epochs of 60,000 in batches of 64
RUNS: dict[str, dict[str, float]] = {
    f"rate {lr}, decay {decay}": {"lr": lr, "weight_decay": decay}
    for lr, decay in ((5e-4, 0.01), (1e-3, 0.1), (5e-3, 0.01), (5e-3, 0.1))
}


def config(name: str, seed: int) -> TrainConfig:
    """One training."""
    tiny = recipe("mnist-seed", "cpu")
    model = replace(
        tiny.model,
        patch_size=4,
        embed_dim=64,
        depth=4,
        num_heads=4,
        mlp_dim=128,
    )
    return replace(
        tiny,
        model=model,
        epochs=None,
        steps=STEPS,
        batch_size=64,
        optimizer="adamw",
        schedule="cosine",
        warmup=0.1,
        seed=seed,
        threads=1,
        **RUNS[name],
    )


def patterns(similarity: Tensor) -> dict[str, float]:
    """How a map (7, 7, 7, 7) differs by where two positions are.

    "cross" is the mean cosine of two positions in one row or column, less that
    of two that share neither; "neighbours" that of two side by side, less that
    of all others.
    """
    side = len(similarity)
    places = torch.cartesian_prod(*[torch.arange(side)] * 2)
    apart = (places[:, None] - places).abs()
    cosines = similarity.flatten(2).flatten(0, 1)
    other = apart.sum(dim=-1) > 0
    shared = other & (apart == 0).any(dim=-1)
    near = apart.sum(dim=-1) == 1
    cross = cosines[shared].mean() - cosines[other & ~shared].mean()
    neighbours = cosines[near].mean() - cosines[other & ~near].mean()
    return {"cross": cross.item(), "neighbours": neighbours.item()}


def rounded(values: Tensor) -> list:
    """To three digits, as nested lists."""
    return (1e3 * values).round().div(1e3).double().round(decimals=3).tolist()


def right(model: ViT, split: Split, count: int) -> float:
    """Percent of the first digits of a part."""
    images = split.images[:count] / 255
    return round(100 * accuracy(model, images, split.labels[:count]), 2)


def measure(name: str, runs: Path, data: Dataset) -> dict[str, Any]:
    """Three seeds."""
    tests, learned, seconds, found, maps, distances = [], [], [], [], [], []
    digits = data.test.images[:128] / 255
    for seed in SEEDS:
        out = runs / f"{name}-{seed}".replace(", ", "-").replace(" ", "-")
        run = fit(config(name, seed), out)
        model = vitedu.load(out)
        seconds.append(run.result["wall_seconds"])
        tests.append(right(model, data.test, 10_000))
        learned.append(right(model, data.train, 10_000))
        similarity = position_similarity(model)
        with torch.no_grad(), record_attention(model) as attention:
            model(digits)
        maps.append(similarity)
        distances.append(attention_distance(attention, (7, 7), 4))
        found.append(patterns(similarity))
        print(name, seed, tests[-1], learned[-1], seconds[-1], found[-1])
        print(
            distances[-1].sort().values.round(decimals=1).tolist(), flush=True
        )
    return {
        "value": statistics.mean(tests),
        "unit": "percent of 10,000 test digits",
        "per_seed": tests,
        "train_per_seed": learned,
        "cross_per_seed": [each["cross"] for each in found],
        "neighbours_per_seed": [each["neighbours"] for each in found],
        "distance_per_seed": [rounded(each) for each in distances],
        "seconds_per_seed": seconds,
        "similarity_of_seed_0": rounded(maps[0].flatten(2).flatten(0, 1)),
    }


def crosses(metrics: dict[str, dict[str, Any]]) -> str:
    """The mean of each setting, with its standard error."""
    seeds = [each["cross_per_seed"] for each in metrics.values()]
    found = [
        f"{statistics.mean(x):.3f} ± {statistics.stdev(x) / len(x) ** 0.5:.3f}"
        for x in seeds
    ]
    return f"{', '.join(found)} of a cosine (ViT-Ti/16: 0.53)"


def main() -> None:
    """Train what is not there yet, record what is whole."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/inside"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = load_dataset("mnist")
    metrics: dict[str, dict[str, Any]] = {}
    for name in RUNS:
        metrics[name] = measure(name, options.runs, data)
        seconds = sum(sum(x["seconds_per_seed"]) for x in metrics.values())
        command = "python benchmarks/inside_training.py"
        result = {
            **result_fields(TARGET.stem, command, seconds),
            "config": config("rate 0.001, decay 0.1", seed=0).to_json(),
            "metrics": metrics,
            "seeds": list(SEEDS),
            "dataset": {
                "name": "mnist",
                "digest": data.digest,
                "num_train": len(data.train.labels),
                "num_test": len(data.test.labels),
            },
            "reproduces": {
                "row": "figure-10",
                "scale": "small",
                "ours": "no pattern on MNIST: positions of a row or column are "
                f"more alike by {crosses(metrics)}",
                "paper": None,
                "n": len(SEEDS),
            },
            "notes": "the config is that of the second row",
        }
        results.write(TARGET, result)


if __name__ == "__main__":
    main()
