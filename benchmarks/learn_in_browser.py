"""A ViT that learns in the page "Try it": time for a step, and accuracy.

    python benchmarks/learn_in_browser.py [--seeds 5]
    python benchmarks/learn_in_browser.py --puzzles --seeds 1

In a headless Chromium ($CHROMIUM, or the one in PATH), by the page's own
JavaScript: the processor's time for a step of 128 digits, in turn with
`plain.train_step` on one thread of PyTorch, and the accuracy on the held-out
digits after as many steps as 30 and 60 seconds of one core allow. Time is that
of the browser's processes, so a busy machine doesn't change it much.

With `--puzzles` the puzzles of the chapters instead, each with the settings
that the page gives it.

What is finished lies in `runs/learn-in-browser.jsonl`, and isn't repeated.
Written to `vitedu/results/learn-in-browser.json` or `learn-puzzles.json`.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import torch
from playwright.sync_api import Page, sync_playwright
from recorded import result_fields

from vitedu import results
from vitedu.data import load_dataset
from vitedu.plain import ViT, train_step

sys.path.append(str(Path(__file__).parents[1] / "tools"))
import try_files

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "vitedu/results/learn-in-browser.json"
PUZZLES = ROOT / "vitedu/results/learn-puzzles.json"
TASKS = ("same", "same-off", "twin", "left", "left-above")
DONE = ROOT / "runs/learn-in-browser.jsonl"
STATIC = ROOT / "book/_static/try"
BATCH, RATE = 128, 0.01
BUDGETS = (30, 60)  # seconds of one core
FILES = ("vit.js", "networks.js", "kernels.js", "train.js", "teach.js")
FILES += ("tasks.js", "learner.js")
PAGE = "<!DOCTYPE html><title>learn</title>" + "".join(
    f'<script src="{name}"></script>' for name in FILES
)
# A network that learns for so many steps of so many planned.
TRAIN = """async ([seed, planned, most, task]) => {
  const ask = await vitedu.learning.learner();
  const settings = vitedu.learning.checked({ seed, task });
  const steps = planned ?? settings.steps;
  await ask("start", { ...settings, steps, batch: 128 });
  const { losses } = await ask("train", { most: most ?? steps });
  const accuracy = await ask("accuracy");
  ask.stop();
  return [losses.at(-1), accuracy, losses.length];
}"""


def processor_seconds() -> float:
    """What all processes below this one have used so far."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        times = process.cpu_times()
        total += times.user + times.system
    return total


def trained(
    page: Page,
    seed: int,
    planned: int | None = None,
    most: int | None = None,
    task: str = "digits",
) -> dict[str, float]:
    """Loss, accuracy and processor time of a training in the page."""
    begin = processor_seconds()
    given = [seed, planned, most, task]
    loss, accuracy, steps = page.evaluate(TRAIN, given)
    seconds = processor_seconds() - begin
    found = {"loss": loss, "accuracy": accuracy, "seconds": seconds}
    return found | {"steps": steps}


def pytorch_seconds(steps: int) -> float:
    """PyTorch's processor time for as many steps of the same network."""
    model = ViT(28, 7, 1, 10, embed_dim=16, depth=2, num_heads=2, mlp_dim=64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    digits = load_dataset("digits").train
    images, labels = digits.images[:BATCH] / 127.5 - 1, digits.labels[:BATCH]
    begin = time.process_time()
    for _ in range(steps):
        train_step(model, optimizer, images, labels)
    return time.process_time() - begin


def timed(page: Page, rounds: int, steps: int) -> dict[str, object]:
    """Milliseconds for a step, the page and PyTorch in turn."""
    ours, theirs = [], []
    for _ in range(rounds):
        short = trained(page, 0, 10_000, 1)["seconds"]  # starts, and looks
        whole = trained(page, 0, 10_000, 1 + steps)["seconds"]
        ours.append(1000 * (whole - short) / steps)
        theirs.append(1000 * pytorch_seconds(steps) / steps)
    return {"ours": ours, "pytorch": theirs}


def puzzles(page: Page, seeds: int) -> dict:
    """Of each puzzle the accuracies on pictures that it didn't learn from."""
    metrics = {}
    for task in TASKS:
        found = [
            remember(f"{task} {seed}", trained, page, seed, None, None, task)
            for seed in range(seeds)
        ]
        accuracies = [each["accuracy"] for each in found]
        metrics[f"accuracy_{task}"] = {
            "value": statistics.mean(accuracies),
            "unit": "percent",
            "per_seed": accuracies,
            "losses": [each["loss"] for each in found],
            "steps": found[0]["steps"],
            "processor_seconds": [each["seconds"] for each in found],
        }
    return metrics


def remember(key: str, compute: Callable[..., dict], *given: object) -> dict:
    """What `compute` gives; finished pieces come from their file."""
    lines = DONE.read_text().splitlines() if DONE.is_file() else []
    known = dict(json.loads(line) for line in lines)
    if key not in known:
        known[key] = compute(*given)
        DONE.parent.mkdir(exist_ok=True)
        with DONE.open("a") as file:
            file.write(json.dumps([key, known[key]]) + "\n")
        print(key, known[key], flush=True)
    return known[key]


def measure(page: Page, seeds: int) -> dict:
    """All metrics."""
    times = remember("times", timed, page, 5, 100)
    step = statistics.median(times["ours"])
    metrics = {
        "step_milliseconds": {
            "value": step,
            "unit": f"milliseconds of a core for a step of {BATCH} digits",
        },
        "step_ratio": {
            "value": step / statistics.median(times["pytorch"]),
            "unit": "times PyTorch's on one thread",
        },
    }
    for budget in BUDGETS:
        steps = int(1000 * budget / step)
        found = [
            remember(f"{budget} {seed}", trained, page, seed, steps, steps)
            for seed in range(seeds)
        ]
        accuracies = [each["accuracy"] for each in found]
        metrics[f"accuracy_{budget}"] = {
            "value": statistics.mean(accuracies),
            "unit": "percent",
            "per_seed": accuracies,
            "steps": steps,
            "processor_seconds": [each["seconds"] for each in found],
        }
    return metrics


def record_puzzles(metrics: dict, seeds: int, seconds: float) -> None:
    """Write what `puzzles` found."""
    command = f"python benchmarks/learn_in_browser.py --puzzles --seeds {seeds}"
    result = {
        **result_fields(PUZZLES.stem, command, seconds),
        "seeds": list(range(seeds)),
        "config": {"batch_size": BATCH},
        "metrics": metrics,
        "dataset": {
            "name": "glyphs, drawn for every step",
            "digest": "",
            "num_train": 0,
            "num_test": 500,
        },
        "notes": "seconds are the processor's, others were at work",
    }
    results.write(PUZZLES, result)


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--puzzles", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    begin = time.perf_counter()
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        folder = Path(name)
        shutil.copytree(STATIC, folder, dirs_exist_ok=True)
        digits = try_files.assigned("vitedu.digitSet", try_files.digit_set())
        (folder / "digit-set.js").write_bytes(digits)
        (folder / "page.html").write_text(PAGE)
        flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = driver.chromium.launch(executable_path=chromium, args=flags)
        page = browser.new_page()
        page.set_default_timeout(0)
        page.goto((folder / "page.html").as_uri())
        metrics = (puzzles if options.puzzles else measure)(page, options.seeds)
        next(iter(metrics.values()))["browser"] = browser.version
        browser.close()
    if options.puzzles:
        record_puzzles(metrics, options.seeds, time.perf_counter() - begin)
        return
    data = load_dataset("digits")
    result = {
        **result_fields(
            TARGET.stem,
            "python benchmarks/learn_in_browser.py",
            time.perf_counter() - begin,
        ),
        "seeds": list(range(options.seeds)),
        "config": {"batch_size": BATCH, "lr": RATE, "parameters": 7850},
        "metrics": metrics,
        "dataset": {
            "name": "digits",
            "digest": data.digest,
            "num_train": len(data.train.labels),
            "num_test": len(data.test.labels),
        },
        "notes": "images move by up to two pixels; seconds are the processor's",
    }
    results.write(TARGET, result)


if __name__ == "__main__":
    main()
