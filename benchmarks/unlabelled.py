"""What learning without labels buys, where 1,000 digits have labels.

    VITEDU_DATA=... vitedu train mae-mnist --tier cpu --out runs/mae-mnist
    VITEDU_DATA=... vitedu train mpp-mnist --tier cpu --out runs/mpp-mnist
    VITEDU_DATA=... python benchmarks/unlabelled.py

Both saw the 60,000 training pictures of MNIST without labels, for as many
multiply-adds. Then the same small ViT learns from 1,000 of them with labels, a
seed draws which: from scratch, or from what was learned without. Rates are
chosen for each by 1,000 other training pictures; accuracies are on the first
5,000 test pictures, and on the 1,000 themselves. Beside it linear probes and
few-shot classifiers on frozen features, and how far the heads look.

What is measured goes to runs/unlabelled/ and is not measured twice; all of it
to `vitedu/results/unlabelled.json`.
"""

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from recorded import result_fields
from torch import Tensor

from vitedu import budget, results
from vitedu.data import Augment, load_dataset
from vitedu.evaluate import accuracy, fewshot_accuracy, linear_probe
from vitedu.evaluate.features import Features, features
from vitedu.evaluate.fewshot import sample_shots
from vitedu.interpret import attention_distance
from vitedu.model import new_network, record_attention
from vitedu.train import TrainConfig, fit, recipe
from vitedu.train.recipes.small import CENTRED
from vitedu.train.recipes.unlabelled import MNIST
from vitedu.train.start import load_to_train

KEPT, RUNS = Path("runs/unlabelled"), Path("runs")
TARGET = Path(__file__).parents[1] / "vitedu/results/unlabelled.json"
STARTS = ("scratch", "mpp-mnist", "mae-mnist")
SEEDS, LABELS = (0, 1, 2), 1_000
RATES = (5e-4, 1e-3, 2e-3, 4e-3, 8e-3)
STEPS, BATCH, HELD_OUT, NUM_TEST = 150, 50, 1_000, 5_000

Pictures = tuple[Tensor, Tensor]


def kept(name: str, measure: Callable[[], Any]) -> Any:
    """What a part measured, with its seconds; measured unless it is there."""
    path = KEPT / f"{name}.json"
    if not path.exists():
        started = time.process_time()
        found = {"found": measure()}
        found["seconds"] = time.process_time() - started
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found))
        print(f"{name}: {found}", flush=True)
    return json.loads(path.read_text())


def digits() -> tuple[Pictures, Pictures, Pictures]:
    """Pictures to draw labelled ones from, to choose by, and to test on."""
    data = load_dataset("mnist")
    images, labels = data.train.images, data.train.labels
    rest, chosen_by = slice(0, -HELD_OUT), slice(-HELD_OUT, None)
    return (
        (images[rest], labels[rest]),
        (images[chosen_by], labels[chosen_by]),
        (data.test.images[:NUM_TEST], data.test.labels[:NUM_TEST]),
    )


def labelled(pool: Pictures, seed: int, count: int = LABELS) -> Pictures:
    """As many of each digit."""
    rows = sample_shots(pool[1], count // 10, seed)
    return pool[0][rows], pool[1][rows]


def network(start: str, seed: int) -> Any:
    """The ViT of a start, its head zeros."""
    if start != "scratch":
        return load_to_train(RUNS / start, num_classes=10)
    torch.manual_seed(seed)
    model = new_network(MNIST)
    model.preprocess = CENTRED
    return model


def tuning(lr: float, seed: int, steps: int = STEPS) -> TrainConfig:
    """How the labelled pictures are learned, from any start."""
    return TrainConfig(
        recipe="unlabelled",
        tier="cpu",
        augment=Augment(rotate=10.0, scale=0.1, shift=2),
        steps=steps,
        batch_size=BATCH,
        lr=lr,
        weight_decay=0.05,
        warmup=0.1,
        max_grad_norm=1.0,
        precision="fp32",
        threads=1,
        seed=seed,
    )


def tuned(
    start: str, lr: float, seed: int, pool: Pictures, test: Pictures, steps: int
) -> dict[str, float]:
    """Accuracy after learning from labels, on new and on learned pictures."""
    few = labelled(pool, seed)
    run = fit(
        tuning(lr, seed, steps),
        model=network(start, seed),
        train=few,
        test=test,
        progress=False,
    )
    learned = accuracy(run.model, few, batch_size=500)
    return {"test": run.accuracy, "train": learned.accuracy}


def frozen(start: str, pool: Pictures, test: Pictures) -> dict[str, Any]:
    """Probes and few shots on features that stay as they are."""
    model = network(start, 0).eval()
    unseen = features(model, test, batch_size=500)
    found: dict[str, Any] = {"probe": [], "shots": {}}
    for seed in SEEDS:
        known = features(model, labelled(pool, seed), batch_size=500)
        probe = linear_probe(model, known)
        found["probe"].append(probe.accuracy(model, unseen))
        for shots in (1, 5, 10):
            few: Features = known.take(sample_shots(known.labels, shots, seed))
            found["shots"].setdefault(str(shots), []).append(
                fewshot_accuracy(model, few, unseen)
            )
    return found


def distances(start: str, test: Pictures) -> list[Any]:
    """How far each head of each block looks, in pixels, on three times 200."""
    model = network(start, 0).eval()
    found = []
    for images in test[0][: 200 * len(SEEDS)].split(200):
        with torch.no_grad(), record_attention(model) as maps:
            model.forward_features(images.float() / 127.5 - 1)
        far = attention_distance(maps, MNIST.grid, MNIST.patch_size)
        found.append(far.tolist())
    return found


def metric(values: list[float], unit: str = "percent", **more: Any) -> Any:
    """A metric of several seeds."""
    mean = statistics.fmean(values)
    return {"value": mean, "unit": unit, "per_seed": values, **more}


def main() -> None:
    """Measure what isn't there yet, and write all of it."""
    torch.set_num_threads(1)
    pool, chosen_by, test = digits()
    metrics: dict[str, Any] = {}
    seconds = 0.0
    parts: list[Any] = []

    def part(name: str, measure: Callable[[], Any]) -> Any:
        parts.append(kept(name, measure))
        return parts[-1]["found"]

    for start in STARTS:
        found = part(f"frozen/{start}", lambda s=start: frozen(s, pool, test))
        metrics[f"probe/{start}"] = metric(found["probe"])
        for shots, values in found["shots"].items():
            metrics[f"shots/{start}/{shots}"] = metric(values)
        far = part(f"distance/{start}", lambda s=start: distances(s, test))
        heads = torch.tensor(far)  # (3, blocks, heads)
        metrics[f"distance/{start}"] = metric(
            heads.mean(dim=(1, 2)).tolist(),
            "pixels",
            heads=heads.mean(dim=0).tolist(),
        )
    tasks = [(x, x, STEPS) for x in STARTS]
    best: dict[str, float] = {}
    for start in STARTS:
        tried = {
            lr: part(
                f"rate/{start}/{lr:g}",
                lambda s=start, r=lr: tuned(s, r, 0, pool, chosen_by, STEPS),
            )["test"]
            for lr in RATES
        }
        best[start] = max(tried, key=tried.__getitem__)
        print(start, tried, flush=True)
        assert best[start] not in (RATES[0], RATES[-1]), "the grid's edge"
    # as long as it took to learn without labels and then with them
    tasks.append(("scratch, longer", "scratch", 4 * STEPS))
    for seed in SEEDS:
        for name, start, steps in tasks:
            part(
                f"tuned/{name}/{seed}",
                lambda s=start, n=steps, k=seed: tuned(
                    s, best[s], k, pool, test, n
                ),
            )
    for name, start, _ in tasks:
        runs = [kept(f"tuned/{name}/{k}", dict)["found"] for k in SEEDS]
        metrics[f"tuned/{name}"] = metric(
            [x["test"] for x in runs],
            train_per_seed=[x["train"] for x in runs],
            lr=best[start],
        )
    pretraining = {}
    for start in STARTS[1:]:
        run = results.read_file(RUNS / start / "result.json")
        config = recipe(start, "cpu")
        pretraining[start] = {
            "seconds": run["wall_seconds"],
            "macs_per_image": budget.macs(config.model),
            "images": config.batch_size * config.steps,
            "loss": run["metrics"]["test_loss"]["value"],
        }
        seconds += run["wall_seconds"]
    seconds += sum(each["seconds"] for each in parts)
    results.write(
        TARGET,
        {
            **result_fields(
                "unlabelled", "python benchmarks/unlabelled.py", seconds
            ),
            "seeds": list(SEEDS),
            "config": {
                "pretraining": pretraining,
                "rates": best,
                "tuning": tuning(best["scratch"], 0).to_json(),
            },
            "metrics": metrics,
            "dataset": {
                "name": f"mnist; {LABELS:,} labels",
                "digest": load_dataset("mnist").digest,
                "num_train": LABELS,
                "num_test": len(test[1]),
            },
            "notes": "MAE and MPP were trained once each, seed 0",
        },
    )


if __name__ == "__main__":
    main()
