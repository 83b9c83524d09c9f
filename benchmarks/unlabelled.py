"""What learning without labels buys, where 1,000 digits have labels.

    VITEDU_DATA=... vitedu train mae-mnist --tier cpu --out runs/mae-mnist
    VITEDU_DATA=... vitedu train mpp-mnist --tier cpu --out runs/mpp-mnist
    VITEDU_DATA=... python benchmarks/unlabelled.py [scratch mpp-mnist ...]

Both saw the 60,000 training pictures of MNIST without labels, for as many
multiply-adds. Then the same small ViT learns from 1,000 of them with labels, a
seed draws which: from scratch, or from what was learned without. Rates are
chosen for each by 1,000 other training pictures; accuracies are on the first
5,000 test pictures, and on the 1,000 themselves. Beside it linear probes and
few-shot classifiers on frozen features, and how far the heads look.

What is measured goes to runs/unlabelled/ and is not measured twice; all of it
to `vitedu/results/unlabelled.json`.

    VITEDU_DATA=... python benchmarks/unlabelled.py labels

The package's `mae-mnist`, which is the same run's, and a network from scratch
learn from 1,000, 100 and 5,000 labelled pictures, in three times as many steps,
each at its best rate for 1,000; beside them a linear probe on the pixels, and
what a classifier of whole digits reads in completed ones. It goes to
`vitedu/results/unlabelled-labels.json`.

    VITEDU_DATA=... python benchmarks/unlabelled.py equal

From scratch again with 1,000 labels, for as many multiply-adds as `mae-mnist`
and three times as many steps of fine-tuning take together, the rate chosen for
it. It goes to `vitedu/results/unlabelled-equal.json`.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from kept import climb
from recorded import result_fields
from torch import Tensor

from vitedu import budget, results
from vitedu.data import Augment, load_dataset
from vitedu.evaluate import accuracy, fewshot_accuracy, linear_probe
from vitedu.evaluate.features import Features, features
from vitedu.evaluate.fewshot import sample_shots
from vitedu.interpret import attention_distance
from vitedu.model import (
    new_network,
    patchify,
    record_attention,
    unpatchify,
)
from vitedu.model.mae import random_mask
from vitedu.train import TrainConfig, fit, recipe
from vitedu.train.recipes.small import CENTRED
from vitedu.train.recipes.unlabelled import MNIST
from vitedu.train.start import load_to_train
from vitedu.weights import load

KEPT, RUNS = Path("runs/unlabelled"), Path("runs")
TARGET = Path(__file__).parents[1] / "vitedu/results/unlabelled.json"
STARTS = ("scratch", "mpp-mnist", "mae-mnist")
SEEDS, LABELS = (0, 1, 2), 1_000
MORE_LABELS, MORE_RATES = (1_000, 100, 5_000), (2e-3, 4e-3, 8e-3)
RATES = (5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2)
STEPS, BATCH, HELD_OUT, NUM_TEST = 150, 50, 1_000, 5_000
LONGER = 3 * STEPS

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


def found(name: str) -> Any:
    """What was measured."""
    return json.loads((KEPT / f"{name}.json").read_text())["found"]


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
    if start == "package":
        return load_to_train("mae-mnist", num_classes=10)
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
    start: str,
    lr: float,
    seed: int,
    pool: Pictures,
    test: Pictures,
    steps: int,
    count: int = LABELS,
) -> dict[str, float]:
    """Accuracy after learning from labels, on new and on learned pictures."""
    few = labelled(pool, seed, count)
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
    """Probes and few shots on features that stay as they are, or on pixels."""
    model = None if start == "pixels" else network(start, 0).eval()

    def featured(pictures: Pictures) -> Features:
        if model is None:
            return Features(pictures[0].flatten(1) / 255, pictures[1])
        return features(model, pictures, batch_size=500)

    unseen = featured(test)
    found: dict[str, Any] = {"probe": [], "shots": {}}
    for seed in SEEDS:
        known = featured(labelled(pool, seed))
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


def measured(start: str, data: tuple[Pictures, Pictures, Pictures]) -> None:
    """Every part of a start that isn't there yet."""
    pool, chosen_by, test = data
    kept("frozen/pixels", lambda: frozen("pixels", pool, test))
    kept(f"frozen/{start}", lambda: frozen(start, pool, test))
    kept(f"distance/{start}", lambda: distances(start, test))
    for lr in RATES:
        kept(
            f"rate/{start}/{lr:g}",
            lambda r=lr: tuned(start, r, 0, pool, chosen_by, STEPS),
        )
    lr = best_rate(start)
    for seed in SEEDS:
        for name, steps in lengths(start).items():
            kept(
                f"tuned/{name}/{seed}",
                lambda n=steps, k=seed: tuned(start, lr, k, pool, test, n),
            )


def lengths(start: str) -> dict[str, int]:
    """Steps of fine-tuning; from scratch also for three times as long."""
    more = {"scratch, longer": 3 * STEPS} if start == "scratch" else {}
    return {start: STEPS, **more}


def best_rate(start: str) -> float:
    """The rate that is best on held-out pictures; never the grid's edge."""
    right = by_rate(start)
    best = max(right, key=right.__getitem__)
    rates = [*right]
    assert best not in (rates[0], rates[-1]), f"{start}: the grid's edge"
    return float(best)


def by_rate(start: str) -> dict[str, float]:
    """What each rate reached on held-out pictures, with the first seed."""
    return {
        f"{lr:g}": found(f"rate/{start}/{lr:g}")["test"]
        for lr in RATES
        if is_there(f"rate/{start}/{lr:g}")
    }


def is_there(name: str) -> bool:
    """Whether a part has been measured."""
    return (KEPT / f"{name}.json").exists()


def metrics_of(start: str) -> dict[str, Any]:
    """What a start, or the pixels, came to so far."""
    both = found(f"frozen/{start}")
    metrics = {f"probe/{start}": metric(both["probe"])}
    for shots, values in both["shots"].items():
        metrics[f"shots/{start}/{shots}"] = metric(values)
    if start == "pixels":
        return metrics
    heads = torch.tensor(found(f"distance/{start}"))
    metrics[f"distance/{start}"] = metric(
        heads.mean(dim=(1, 2)).tolist(),
        "pixels",
        heads=heads.mean(dim=0).tolist(),  # (blocks, heads)
    )
    for name in lengths(start):
        names = [f"tuned/{name}/{seed}" for seed in SEEDS]
        if all(map(is_there, names)):
            runs = [found(each) for each in names]
            metrics[f"tuned/{name}"] = metric(
                [x["test"] for x in runs],
                train_per_seed=[x["train"] for x in runs],
                lr=best_rate(start),
            )
    return metrics


def curve(log: Path) -> list[tuple[int, float]]:
    """Steps, and the mean loss of those since the one before."""
    lines = map(json.loads, log.read_text().splitlines())
    return [(x["step"], round(x["loss"], 4)) for x in lines if "loss" in x]


def pretrained(start: str) -> dict[str, Any]:
    """What learning without labels took, and its loss."""
    run = results.read_file(RUNS / start / "result.json")
    config = recipe(start, "cpu")
    return {
        "seconds": run["wall_seconds"],
        "macs_per_image": budget.macs(config.model),
        "images": config.batch_size * config.steps,
        "loss": run["metrics"]["test_loss"]["value"],
        "curve": curve(RUNS / start / "log.jsonl"),
    }


def write() -> None:
    """Write what has been measured so far."""
    starts = [x for x in STARTS if is_there(f"frozen/{x}")]
    pretraining = {x: pretrained(x) for x in starts if x != "scratch"}
    files = [json.loads(x.read_text()) for x in KEPT.rglob("*.json")]
    seconds = sum(each["seconds"] for each in [*files, *pretraining.values()])
    missing = [
        name
        for start in STARTS
        for name in lengths(start)
        if not all(is_there(f"tuned/{name}/{seed}") for seed in SEEDS)
    ]
    notes = "MAE and MPP are trained once each, seed 0"
    if missing:
        notes += f"; not measured yet: three seeds from {', '.join(missing)}"
    results.write(
        TARGET,
        {
            **result_fields(
                "unlabelled", "python benchmarks/unlabelled.py", seconds
            ),
            "seeds": list(SEEDS),
            "config": {
                "pretraining": pretraining,
                "held_out_by_rate": {x: by_rate(x) for x in starts},
                "tuning": tuning(RATES[0], 0).to_json(),
            },
            "metrics": {
                name: value
                for start in ("pixels", *starts)
                for name, value in metrics_of(start).items()
            },
            "dataset": {
                "name": f"mnist; {LABELS:,} labels",
                "digest": load_dataset("mnist").digest,
                "num_train": LABELS,
                "num_test": NUM_TEST,
            },
            "notes": notes,
        },
    )


def probed(
    count: int, seed: int, pool: Pictures, test: Pictures
) -> dict[str, float]:
    """A linear probe on the pixels."""
    few, unseen = (
        Features(images.flatten(1) / 255, labels)
        for images, labels in (labelled(pool, seed, count), test)
    )
    return {"test": linear_probe(None, few).accuracy(None, unseen)}


def readable(test: Pictures) -> dict[str, list[float]]:
    """What the package's small classifier reads, in three draws of masks."""
    model, reader = load("mae-mnist"), load("mnist-tiny")
    found: dict[str, list[float]] = {
        "whole": [],
        "covered": [],
        "completed": [],
    }
    images = test[0] / 127.5 - 1
    for seed in SEEDS:
        generator = torch.Generator().manual_seed(seed)
        mask = random_mask(len(images), 49, 0.75, generator)
        patches = patchify(images, 4)
        black = patches.masked_fill(mask[..., None], -1.0)
        with torch.no_grad():
            pictures = {
                "whole": images,
                "covered": unpatchify(black, 4, (7, 7)),
                "completed": model.complete(images, mask).clamp(-1, 1),
            }
            for name, each in pictures.items():
                right = reader(each).argmax(dim=1) == test[1]
                found[name].append(100 * right.double().mean().item())
    return found


def with_more_labels(data: tuple[Pictures, Pictures, Pictures]) -> None:
    """Every part that isn't there yet, and the record of what is."""
    pool, chosen_by, test = data
    metrics = {
        f"read/{name}": metric(values)
        for name, values in kept("labels/read", partial(readable, test))[
            "found"
        ].items()
    }
    by_rate: dict[str, dict[str, float]] = {}
    for count in MORE_LABELS:
        for start in ("package", "pixels", "scratch"):
            more: dict[str, Any] = {}
            if start != "pixels" and start not in by_rate:
                by_rate[start] = {
                    f"{lr:g}": kept(
                        f"labels/rate-{start}-{lr:g}",
                        partial(
                            *(tuned, start, lr, 0, pool, chosen_by, LONGER)
                        ),
                    )["found"]["test"]
                    for lr in MORE_RATES
                }
            runs = []
            for seed in SEEDS:
                measure = partial(probed, count, seed, pool, test)
                if start != "pixels":
                    rates = by_rate[start]
                    more["lr"] = float(max(rates, key=rates.__getitem__))
                    measure = partial(
                        *(tuned, start, more["lr"], seed, pool, test),
                        *(LONGER, count),
                    )
                runs.append(kept(f"labels/{start}-{count}-{seed}", measure))
            each = [run["found"] for run in runs]
            if start != "pixels":
                more["train_per_seed"] = [run["train"] for run in each]
            values = [run["test"] for run in each]
            metrics[f"{start}/{count}"] = metric(values, **more)
            write_more(metrics, by_rate)


def write_more(metrics: dict[str, Any], by_rate: dict[str, Any]) -> None:
    """Write the rows that are whole."""
    files = [json.loads(x.read_text()) for x in KEPT.glob("labels/*.json")]
    write_digits(
        "labels",
        sum(each["seconds"] for each in files),
        {
            "tuning": tuning(RATES[0], 0, LONGER).to_json(),
            "held_out_by_rate": by_rate,
        },
        metrics,
        "MAE is trained once, seed 0",
        max(
            int(name.split("/")[1])
            for name in metrics
            if not name.startswith("read/")
        ),
    )


def write_digits(
    what: str,
    seconds: float,
    config: dict[str, Any],
    metrics: dict[str, Any],
    notes: str,
    num_train: int = LABELS,
) -> None:
    """A record beside the first: `unlabelled-labels`, `unlabelled-targets`."""
    name, command = (
        f"unlabelled-{what}",
        f"python benchmarks/unlabelled.py {what}",
    )
    results.write(
        TARGET.with_stem(name),
        {
            **result_fields(name, command, seconds),
            "seeds": list(SEEDS),
            "config": config,
            "metrics": metrics,
            "dataset": {
                "name": "mnist",
                "digest": load_dataset("mnist").digest,
                "num_train": num_train,
                "num_test": NUM_TEST,
            },
            "notes": notes,
        },
    )


def for_as_much(data: tuple[Pictures, Pictures, Pictures]) -> None:
    """From scratch for what pretraining and fine-tuning cost together."""
    pool, chosen_by, test = data
    pretraining = recipe("mae-mnist", "cpu")
    work = (
        budget.macs(pretraining.model)
        * pretraining.batch_size
        * pretraining.steps
    )
    steps = LONGER + round(work / budget.macs(MNIST) / BATCH)

    def run(lr: float, seed: int) -> Any:
        """Right on test pictures, on its own, and on those to choose by."""
        model = fit(
            tuning(lr, seed, steps),
            model=network("scratch", seed),
            train=labelled(pool, seed),
            test=test,
            progress=False,
        ).model
        parts = {"train": labelled(pool, seed), "choose": chosen_by}
        return {
            name: accuracy(model, part, batch_size=500).accuracy
            for name, part in (parts | {"test": test}).items()
        }

    def at(lr: float, seed: int) -> Any:
        return kept(f"equal/{lr:g}-{seed}", partial(run, lr, seed))["found"]

    by_rate = climb(lambda lr: at(lr, 0), MORE_RATES, lambda x: x["choose"])
    lr = max(by_rate, key=lambda lr: by_rate[lr]["choose"])
    runs = [at(lr, seed) for seed in SEEDS]
    own = [each["train"] for each in runs]
    found = metric([x["test"] for x in runs], train_per_seed=own, lr=lr)
    files = [json.loads(x.read_text()) for x in KEPT.glob("equal/*.json")]
    chosen = {f"{lr:g}": x["choose"] for lr, x in sorted(by_rate.items())}
    write_digits(
        "equal",
        sum(each["seconds"] for each in files),
        {
            "tuning": tuning(lr, 0, steps).to_json(),
            "held_out_by_rate": chosen,
        },
        {"tuned/scratch, equal": found},
        "as many multiply-adds as mae-mnist and 450 steps of fine-tuning",
    )


ASKED = ("small", "pixels")


def asked(target: str) -> TrainConfig:
    """`mpp-mnist` with another target, for as many multiply-adds."""
    config = recipe("mpp-mnist", "cpu")
    model = replace(config.model, target=target)
    share = budget.macs(config.model) / budget.macs(model)
    return replace(config, model=model, steps=round(config.steps * share))


def with_targets(data: tuple[Pictures, Pictures, Pictures]) -> None:
    """Every part that isn't there yet, and the record of what is."""
    pool, chosen_by, test = data
    metrics: dict[str, Any] = {}
    config: dict[str, Any] = {}
    for target in ASKED:
        start = f"mpp-mnist-{target}"
        run = fit(asked(target), RUNS / start, progress=False)
        both = kept(
            f"targets/frozen-{target}", partial(frozen, start, *data[::2])
        )
        metrics[f"probe/{target}"] = metric(both["found"]["probe"])
        for shots, values in both["found"]["shots"].items():
            metrics[f"shots/{target}/{shots}"] = metric(values)
        by_rate = {
            f"{lr:g}": kept(
                f"targets/rate-{target}-{lr:g}",
                partial(tuned, start, lr, 0, pool, chosen_by, STEPS),
            )["found"]["test"]
            for lr in MORE_RATES
        }
        lr = float(max(by_rate, key=by_rate.__getitem__))
        runs = [
            kept(
                f"targets/{target}-{seed}",
                partial(tuned, start, lr, seed, pool, test, STEPS),
            )["found"]
            for seed in SEEDS
        ]
        metrics[f"tuned/{target}"] = metric(
            [x["test"] for x in runs],
            train_per_seed=[x["train"] for x in runs],
            lr=lr,
        )
        config[target] = {
            "steps": asked(target).steps,
            "macs_per_image": budget.macs(asked(target).model),
            "seconds": run.result["wall_seconds"],
            "loss": run.result["metrics"]["test_loss"]["value"],
            "held_out_by_rate": by_rate,
        }
        files = [json.loads(x.read_text()) for x in KEPT.glob("targets/*")]
        seconds = sum(x["seconds"] for x in [*files, *config.values()])
        write_digits(
            "targets",
            seconds,
            config | {"tuning": tuning(RATES[0], 0).to_json()},
            metrics,
            "each is pretrained once, seed 0; of the mean colour: `unlabelled`",
        )


def main() -> None:
    """Measure what isn't there yet of the starts that are named, or of all."""
    torch.set_num_threads(1)
    data = digits()
    more = {
        "labels": with_more_labels,
        "targets": with_targets,
        "equal": for_as_much,
    }
    if sys.argv[1:] in [[name] for name in more]:
        more[sys.argv[1]](data)
        return
    for start in sys.argv[1:] or STARTS:
        measured(start, data)
        write()


if __name__ == "__main__":
    main()
