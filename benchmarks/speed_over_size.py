"""Speed and largest batch over the size of the image: the paper's Figure 12.

    python benchmarks/speed_over_size.py
    python benchmarks/speed_over_size.py --rounds 5 --sides 64 224 384

Speed is measured: images a second of a forward pass, of two ViTs and two
ResNets, at several sides of a square image. All of them take turns, on one
thread, in the processor's time, so that what else runs on the machine matters
little. Batches hold about as many pixels at every side.

The largest batch is computed and not run: the images whose bytes, by
`vitedu.budget.memory`, fit into 16 and 80 GB beside the weights. The table is
written to vitedu/results/speed-over-size.json.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from recorded import result_fields

from vitedu import budget, results
from vitedu.bench.measure import take_turns
from vitedu.model import new_network
from vitedu.weights.named import network_config_of

TARGET = Path(__file__).parents[1] / "vitedu/results/speed-over-size.json"
SIDES = (64, 128, 192, 224, 256, 320, 384, 512)
USUAL = 224  # what the others are compared with
IMAGES = 4  # in a batch at the usual side
MODELS = ("ViT-Ti/16", "BiT-R26x1", "ViT-S/16", "BiT-R50x1")
PAIR = ("ViT-S/16", "BiT-R50x1")  # about as much arithmetic
LARGE = ("ViT-B/16", "BiT-R50x2", "ViT-L/16", "BiT-R152x2")  # on paper alone
MEMORIES = {"16gb": 16e9, "80gb": 80e9}
COUNTED = 8  # images: enough to tell what grows with the batch


def key(name: str, side: int, measure: str) -> str:
    """A metric's name: "vit-s16/224/speed"."""
    return f"{name.lower().replace('/', '')}/{side}/{measure}"


def forward(name: str, side: int) -> tuple[Callable[[], None], int]:
    """A forward pass without gradients, and how many images it sees."""
    torch.manual_seed(0)
    model = new_network(network_config_of(name, image_size=side)).eval()
    count = max(1, round(IMAGES * (USUAL / side) ** 2))
    images = torch.randn(count, 3, side, side)

    @torch.inference_mode()
    def run() -> None:
        model(images)

    return run, count


def speeds(sides: tuple[int, ...], rounds: int) -> dict[str, list[float]]:
    """Images a second, one number a round, by model and side."""
    turns, counts = {}, {}
    for name in MODELS:
        for side in sides:
            place = key(name, side, "speed")
            turns[place], counts[place] = forward(name, side)
    for run in turns.values():
        run()  # warms up
    device = torch.device("cpu")
    seconds = take_turns(turns, rounds, device)
    return {
        place: [counts[place] / each for each in found]
        for place, found in seconds.items()
    }


def largest_batch(name: str, side: int, room: float, training: bool) -> int:
    """How many images fit into `room` bytes beside the weights; 0 for none."""
    config = network_config_of(name, image_size=side)
    count = partial(budget.memory, config, training=training)
    few, many = (count(batch_size=size).total for size in (1, 1 + COUNTED))
    of_image = (many - few) / COUNTED
    return max(0, int((room - (few - of_image)) / of_image))


def metrics_of(
    sides: tuple[int, ...], found: dict[str, list[float]]
) -> dict[str, Any]:
    """Everything by model, side and measure, as metrics of a result."""
    metrics: dict[str, Any] = {}
    for name in MODELS + LARGE:
        for side in sides:
            put = partial(key, name, side)
            config = network_config_of(name, image_size=side)
            macs = budget.macs(config)
            metrics[put("macs")] = {"value": macs, "unit": "multiply-adds"}
            for kind in ("training", "inference"):
                for room, num_bytes in MEMORIES.items():
                    most = largest_batch(
                        name, side, num_bytes, kind == "training"
                    )
                    unit = "images, on paper: float32"
                    unit += ", AdamW" if kind == "training" else ""
                    place = put(f"{kind}_batch_{room}")
                    metrics[place] = {"value": most, "unit": unit}
            if name not in MODELS:
                continue
            values = found[put("speed")]
            usual = found[key(name, USUAL, "speed")]
            speed = statistics.median(values)
            # both of one round, so that a slow minute hits both
            ratio = statistics.median(
                a / b for a, b in zip(values, usual, strict=True)
            )
            metrics |= {
                put("speed"): {
                    "value": round(speed, 3),
                    "unit": "images per second",
                },
                put("of_usual"): {
                    "value": round(ratio, 4),
                    "unit": f"times its speed at {USUAL}",
                },
                put("macs_per_second"): {
                    "value": round(macs * speed / 1e9, 2),
                    "unit": "1e9 multiply-adds per second",
                },
            }
            print(
                f"{name:10} {side:4} {speed:8.2f} images/s {ratio:7.3f}  "
                f"{macs * speed / 1e9:6.1f} GMAC/s"
            )
    return metrics


def compared(
    found: dict[str, list[float]], sides: tuple[int, ...]
) -> list[float]:
    """How many times as fast as its ResNet the ViT is, at each side."""
    vit, resnet = PAIR
    return [
        statistics.median(
            a / b
            for a, b in zip(
                found[key(vit, side, "speed")],
                found[key(resnet, side, "speed")],
                strict=True,
            )
        )
        for side in sides
    ]


def main() -> None:
    """Measure, print, record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--sides", type=int, nargs="+", default=SIDES)
    parser.add_argument("--out", type=Path, default=TARGET)
    options = parser.parse_args()
    sides = tuple(sorted({USUAL, *options.sides}))
    torch.set_num_threads(1)
    begin = time.perf_counter()
    found = speeds(sides, options.rounds)
    metrics = metrics_of(sides, found)
    ratios = compared(found, sides)
    for side, ratio in zip(sides, ratios, strict=True):
        metrics[f"vit_to_resnet/{side}"] = {
            "value": round(ratio, 3),
            "unit": f"times as fast, {' to '.join(PAIR)}",
        }
    vit, resnet = (
        metrics[key(name, USUAL, "training_batch_80gb")]["value"]
        for name in PAIR
    )
    said = (
        f"{PAIR[0]} is {min(ratios):.2f} to {max(ratios):.2f} times as fast as "
        f"{PAIR[1]}, with {vit / resnet:.2f} times its batch on paper"
    )
    given = ""
    if tuple(options.sides) != SIDES:
        given = " --sides " + " ".join(map(str, options.sides))
    result = {
        **result_fields(
            "speed-over-size",
            "python benchmarks/speed_over_size.py"
            f" --rounds {options.rounds}{given}",
            time.perf_counter() - begin,
        ),
        "config": {
            "models": list(MODELS),
            "on_paper": list(MODELS + LARGE),
            "sides": list(sides),
            "images_at_224": IMAGES,
            "rounds": options.rounds,
        },
        "metrics": metrics,
        "dataset": {
            "name": "random images",
            "digest": "torch.randn, seed 0",
            "num_train": 0,
            "num_test": 0,
        },
        "reproduces": {
            "row": "figure-12",
            "scale": "small",
            "ours": said,
            "paper": None,
            "n": 1,
        },
        "notes": "speeds and ratios are medians over the rounds, in each of "
        "which every model has a turn at every side; the processor's time of "
        "one process with one thread; batches are computed, not run",
    }
    results.write(options.out, result)


if __name__ == "__main__":
    main()
