"""Waste by material from frozen features, and what twins are worth.

    VITEDU_DATA=... python benchmarks/trashnet.py [--sixty RUN]

TrashNet in its authors' parts (1,768 to learn from, 328 to choose by, 431 to
test on), features of ViT-Ti/16 at 224 and at 384 pixels: logistic regression
whose C, of four, has the lowest loss on the 328; the nearest neighbour; few
shots; and the same with the 120 photographs of the package.

Photographs of one object stand in different parts. A test photograph has a twin
if its class token's features are closer (cosine) to those of a photograph to
learn from than a threshold. Above 0.88, nearly all pairs show one object;
above 0.75 about half do, by looking at 160 pairs. Measured are the test
photographs with and without a twin, and all of them after the twins were taken
out of what is learned from, or as many photographs at random.

Features go to runs/trashnet/ and are not computed twice. The rest takes a
minute and is written to `vitedu/results/trashnet-frozen.json`. With `--sixty`,
only what the network in RUN (of `vitedu train trashnet precision=bf16`) says of
the package's 60 test photographs is measured, and added to that file.
"""

import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from recorded import result_fields

import vitedu
from vitedu import results
from vitedu.data import Dataset, ImageSource, folder_of, load_folder
from vitedu.evaluate import (
    Features,
    LinearProbe,
    features,
    fewshot_curve,
    linear_probe,
)

SIDES = (224, 384)
CS = (0.01, 0.1, 1.0, 10.0)  # scikit-learn's: 1 / (l2 * n)
TWINS = (0.88, 0.75)  # cosines
SHOTS, SEEDS = (1, 5, 10, 25, 50), range(10)
KEPT = Path("runs/trashnet")
TARGET = Path(results.__file__).parent / "trashnet-frozen.json"
Parts = dict[str, Features]


def measured(dataset: Dataset, side: int) -> tuple[Parts, float]:
    """Features of all parts, and how many seconds they took."""
    path = KEPT / f"{dataset.name}-{side}.pt"
    if not path.exists():
        model = vitedu.load("ViT-Ti/16", image_size=side)
        started = time.perf_counter()
        found = {
            "train": features(model, dataset.train),
            "val": features(model, dataset.validation or dataset.train),
            "test": features(model, dataset.test),
        }
        kept = {part: tuple(each) for part, each in found.items()}
        seconds = time.perf_counter() - started
        KEPT.mkdir(parents=True, exist_ok=True)
        torch.save({"parts": kept, "seconds": seconds}, path)
    kept = torch.load(path, weights_only=True)
    parts = {part: Features(*each) for part, each in kept["parts"].items()}
    return parts, kept["seconds"]


def fitted(train: Features, c: float) -> LinearProbe:
    return linear_probe("ViT-Ti/16", train, l2=1 / (c * len(train.labels)))


def chosen_c(parts: Parts) -> tuple[float, dict[str, float]]:
    """That of the lowest loss on the 328; accuracies on them, in percent."""
    x, y = parts["val"]
    losses, accuracies = {}, {}
    for c in CS:
        logits = fitted(parts["train"], c).logits(x)
        losses[c] = F.cross_entropy(logits, y).item()
        accuracies[str(c)] = percent(logits.argmax(dim=1) == y)
    return min(losses, key=losses.__getitem__), accuracies


def percent(right: torch.Tensor) -> float:
    return 100 * right.double().mean().item()


def right_answers(train: Features, test: Features, c: float) -> dict[str, Any]:
    """Which test photographs the probe and the nearest neighbour name: (n,)."""
    answers = fitted(train, c).logits(test.features).argmax(dim=1)
    nearest = cosines(train, test).argmax(dim=1)
    return {
        "probe": answers == test.labels,
        "nearest": train.labels[nearest] == test.labels,
    }


def cosines(train: Features, test: Features) -> torch.Tensor:
    """(test, train)."""
    x, y = (F.normalize(each.features.double()) for each in (train, test))
    return y @ x.mT


def twin_metrics(parts: Parts, c: float, least: float) -> dict[str, Any]:
    """With and without a twin, and after their twins are taken out."""
    train, test = parts["train"], parts["test"]
    close = cosines(train, test) > least
    has_twin, is_twin = close.any(dim=1), close.any(dim=0)
    count = int(is_twin.sum())
    whole = right_answers(train, test, c)
    apart = right_answers(train.take(~is_twin), test, c)
    others = []
    for seed in SEEDS:
        order = torch.Generator().manual_seed(seed)
        rows = torch.randperm(len(train.labels), generator=order)[count:]
        others.append(right_answers(train.take(rows), test, c))
    values = {
        "with_twin": (int(has_twin.sum()), "of 431 test photographs"),
        "twins": (count, "of 1,768 photographs to learn from"),
    }
    for how in whole:
        values |= {
            f"{how}_with": (percent(whole[how][has_twin]), "percent"),
            f"{how}_without": (percent(whole[how][~has_twin]), "percent"),
            f"{how}_twins_out": (percent(apart[how]), "percent of 431"),
        }
    found = metrics_of({f"{x}/{least}": each for x, each in values.items()})
    for how in whole:
        found[f"{how}_others_out/{least}"] = seeds_metric(
            [percent(each[how]) for each in others], "percent of 431"
        )
    return found


def metrics_of(values: dict[str, tuple[float, str]]) -> dict[str, Any]:
    return {
        name: {"value": value, "unit": unit}
        for name, (value, unit) in values.items()
    }


def seeds_metric(values: list[float], unit: str) -> dict[str, Any]:
    mean = statistics.fmean(values)
    return {"value": mean, "unit": unit, "per_seed": values}


def few_metrics(name: str, train: Features, test: Features) -> dict[str, Any]:
    """A few shots, drawn ten times."""
    most = int(train.labels.bincount().min())
    shots = [each for each in SHOTS if each < most]
    curve = fewshot_curve("ViT-Ti/16", train, test, shots=shots, seeds=SEEDS)
    unit = f"percent of {len(test.labels)}, {{}} photographs a class"
    return {
        f"{name}/{each.shots}": seeds_metric(
            list(each.accuracies), unit.format(each.shots)
        )
        for each in curve
    }


def main() -> None:
    """Measure, print and record."""
    torch.set_num_threads(1)
    started = time.perf_counter()
    trashnet, small = (
        load_folder(folder_of(name)) for name in ("trashnet", "trashnet-small")
    )
    seconds, metrics = 0.0, {}
    for side in SIDES:
        parts, took = measured(trashnet, side)
        seconds += took
        train, test = parts["train"], parts["test"]
        c, accuracies = chosen_c(parts)
        right = right_answers(train, test, c)
        found = metrics_of(
            {
                f"{how}/{side}": (percent(answers), "percent of 431")
                for how, answers in right.items()
            }
        )
        found[f"probe/{side}"] |= {"c": c, "validation": accuracies}
        metrics |= found
        if side == 224:
            for least in TWINS:
                metrics |= twin_metrics(parts, c, least)
            metrics |= few_metrics("few_shots", train, test)
            few, took = measured(small, side)
            seconds += took
            probe = linear_probe("ViT-Ti/16", few["train"])
            for name, unseen in (("60", few["test"]), ("431", test)):
                accuracy = probe.accuracy("ViT-Ti/16", unseen)
                unit = f"percent of {name}, from the package's 60"
                metrics |= metrics_of({f"small_probe/{name}": (accuracy, unit)})
            metrics |= few_metrics("small_shots", few["train"], few["test"])
    for name, metric in metrics.items():
        print(f"{name:24} {metric['value']:8.2f} {metric['unit']}", flush=True)
    result = {
        **result_fields(
            "trashnet-frozen",
            "python benchmarks/trashnet.py",
            seconds + time.perf_counter() - started,
        ),
        "seeds": list(SEEDS),
        "config": vitedu.load("ViT-Ti/16").config.to_json(),
        "metrics": metrics,
        "dataset": {
            "name": "trashnet, re-encoded",
            "digest": trashnet.digest,
            "num_train": len(trashnet.train),
            "num_test": len(trashnet.test),
        },
        "notes": "frozen features of the class token; seeds draw the shots and "
        "what is taken out at random. The copy was squeezed to 384 columns and "
        "stretched back, JPEG quality 75",
    }
    results.write(TARGET, result)


def sixty(run: str) -> None:
    """What the network of a run calls the package's 60."""
    torch.set_num_threads(1)
    model = vitedu.load(run)
    small = load_folder(folder_of("trashnet-small"))
    source = ImageSource(small.test, model.preprocess)
    images, labels = next(source.batches(batch_size=len(source)))
    with torch.no_grad():
        answers = model(images).argmax(dim=1)
    value = percent(answers == labels)
    found = metrics_of({"sixty/224": (value, "percent of the package's 60")})
    found["sixty/224"]["answers"] = answers.tolist()
    print(found)
    result = results.read_file(TARGET)
    result["metrics"] |= found
    results.write(TARGET, result)


if __name__ == "__main__":
    sixty(*sys.argv[2:]) if sys.argv[1:2] == ["--sixty"] else main()
