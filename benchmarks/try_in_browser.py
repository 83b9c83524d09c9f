"""The page "Try it" in a browser: answers, time, memory and weight.

    VITEDU_DATA=... python benchmarks/try_in_browser.py [--images 1000]

In a headless Chromium ($CHROMIUM, or the one in PATH), by the page's own
JavaScript: the answers to the sample images, which the page decodes and resizes
by itself, against PyTorch's; the time for a photograph and for a digit, in turn
with PyTorch's on one thread; what the page's memory holds with both networks;
the bytes that it loads before and after the click, and those of every page of
the built site (`_build/html`). And why the weights are 16-bit floats: how many
answers change if they are 8-bit integers with a scale for each row, which would
halve the page's largest file.

Written to `vitedu/results/try-in-browser.json`.
"""

import argparse
import contextlib
import functools
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import torch
from imagenet_sample import batches, digest
from playwright.sync_api import Browser, Page, sync_playwright
from recorded import result_fields
from torch import Tensor

import vitedu
from vitedu import results
from vitedu.data import find_images, load_dataset, normalise, photo
from vitedu.data.readers.photos import PHOTOS
from vitedu.evaluate import all_logits
from vitedu.model import ViT

sys.path.append(str(Path(__file__).parents[1] / "tools"))
import try_files

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "vitedu/results/try-in-browser.json"
STATIC = ROOT / "book/_static/try"
SITE = ROOT / "_build/html"
# as book/_static/book.js names them; what is loaded once it is seen is not here
BEFORE_CLICK = (
    *("vit.js", "networks.js", "kernels.js", "pictures.js", "try.js"),
    *("see.js", "train.js", "teach.js", "tasks.js", "learner.js"),
    *("learn.js", "walk.js", "try.css"),
    *("digits.js", "mnist-tiny.js", *(f"{name}.jpg" for name in PHOTOS)),
)
AFTER_CLICK = (*(f"vit-ti-16-{part}.js" for part in range(1, 9)), "photos.js")
PAGE = (
    '<!DOCTYPE html><meta charset="utf-8"><title>try</title>'
    '<script src="vit.js"></script><script src="networks.js"></script>'
    '<script src="kernels.js"></script>'
    '<script src="pictures.js"></script>'
)
# A photograph at an address, all by the page: the best class.
NAMED = """async (address) => {
  const { preprocess } = await vitedu.load("ViT-Ti/16");
  const { read, cutOut, normalise } = vitedu.pictures;
  const pixels = normalise(cutOut(await read(address), preprocess), preprocess);
  return (await vitedu.classify(pixels)).top[0].index;
}"""
TIMED = """async (pixels) => {
  const array = new Float32Array(pixels);
  const begin = performance.now();
  await vitedu.classify(array);
  return performance.now() - begin;
}"""
# the page itself and all that it has asked for, unpacked
WEIGHED = """["navigation", "resource"].flatMap((kind) =>
  performance.getEntriesByType(kind)).reduce(
    (sum, entry) => sum + entry.decodedBodySize, 0)"""
MEMORY = "performance.measureUserAgentSpecificMemory().then((x) => x.bytes)"


class Isolated(SimpleHTTPRequestHandler):
    """Serves with the headers that a page needs to measure its memory."""

    def end_headers(self) -> None:
        """Add them."""
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


def in_8_bits(model: ViT) -> ViT:
    """Every matrix as integers of -127..127 times a 16-bit scale for a row."""
    for name, weight in model.named_parameters():
        if weight.ndim < 2 or name in ("cls_token", "pos_embed"):
            continue
        rows = weight.detach().flatten(1)
        scale = (rows.abs().amax(dim=1, keepdim=True) / 127).half().float()
        whole = (rows / scale).round().clamp(-127, 127)
        weight.data = (whole * scale).view_as(weight)
    return model


def compared(model: ViT, data: Path, page: Page, count: int) -> dict:
    """Right and changed answers of 1,000: the page's, and with 8 bits."""
    usual = all_logits(model, batches(data, model.preprocess))
    labels, best = usual.labels[:count], usual.logits[:count].argmax(dim=1)
    small = in_8_bits(vitedu.load("ViT-Ti/16"))
    whole = all_logits(small, batches(data, model.preprocess)).logits[:count]
    folder = data / "imagenet-sample"
    pictures = find_images(folder, labels=folder / "reference_top5.csv")
    answers = []
    for row in range(min(count, len(pictures))):
        content = b64encode(pictures[row][0].read_bytes()).decode()
        address = f"data:image/jpeg;base64,{content}"
        answers.append(page.evaluate(NAMED, address))
    found = {"page": torch.tensor(answers), "int8": whole.argmax(dim=1)}
    metrics = {
        "pytorch_right": {"value": int((best == labels).sum())},
    }
    for name, each in found.items():
        metrics[f"{name}_right"] = {"value": int((each == labels).sum())}
        metrics[f"{name}_changed"] = {"value": int((each != best).sum())}
    for metric in metrics.values():
        metric["unit"] = f"of {count} sample images"
    return metrics


@torch.no_grad()
def seconds_of(model: ViT, image: Tensor) -> float:
    """PyTorch's time for one picture."""
    begin = time.perf_counter()
    model(image)
    return time.perf_counter() - begin


def timed(page: Page, rounds: int) -> dict:
    """Milliseconds for one picture, the page and PyTorch in turn."""
    digits = load_dataset("digits").test.images[:5].float()
    metrics = {}
    for name, what in {
        "ViT-Ti/16": "photograph",
        "mnist-tiny": "digit",
    }.items():
        model = vitedu.load(name)
        if name == "mnist-tiny":
            images = list(normalise(digits, model.preprocess).split(1))
        else:
            images = [vitedu.preprocess(model, photo(each)) for each in PHOTOS]
        ours, theirs = [], []
        for image in images * rounds:
            ours.append(page.evaluate(TIMED, image.flatten().tolist()))
            theirs.append(1000 * seconds_of(model, image))
        metrics[f"{what}_milliseconds"] = {
            "value": statistics.median(ours),
            "slowest": max(ours),
            "unit": "milliseconds in the browser, median",
        }
        metrics[f"{what}_ratio"] = {
            "value": statistics.median(
                one / other for one, other in zip(ours, theirs, strict=True)
            ),
            "unit": "times PyTorch's on one thread",
        }
    return metrics


def weighed(folder: Path) -> dict:
    """Bytes of the page's own files."""
    sums = {"before": BEFORE_CLICK, "after": AFTER_CLICK}
    return {
        f"bytes_{when}_click": {
            "value": sum((folder / name).stat().st_size for name in names),
            "unit": "bytes beyond the site's own",
        }
        for when, names in sums.items()
    }


def pages_weighed(browser: Browser, site: Path) -> dict:
    """Bytes of every page of the book, as a reader finds it."""
    pages = {}
    with served(site) as address:
        for path in sorted(site.glob("book/*.html")):
            if 'http-equiv="refresh"' in path.read_text():
                continue
            page = browser.new_page()  # nothing is cached between two
            page.goto(f"{address}/book/{path.name}", wait_until="networkidle")
            pages[path.stem] = page.evaluate(WEIGHED)
            page.close()
    largest = max(pages, key=pages.__getitem__)
    return {
        "bytes_of_largest_page": {
            "value": pages[largest],
            "page": largest,
            "each": pages,
            "unit": "bytes with scripts, styles, type and pictures, unpacked",
        },
        "bytes_of_first_page": {
            "value": pages["index"],
            "unit": "bytes with scripts, styles, type and pictures, unpacked",
        },
    }


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder, while it is served."""
    handler = functools.partial(Isolated, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def measure(data: Path, count: int, rounds: int) -> dict:
    """All metrics."""
    model = vitedu.load("ViT-Ti/16")
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        folder = Path(name)
        shutil.copytree(STATIC, folder, dirs_exist_ok=True)
        try_files.write(folder)
        (folder / "page.html").write_text(PAGE)
        flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        eager = "--enable-blink-features=ForceEagerMeasureMemory"
        browser = driver.chromium.launch(
            executable_path=chromium, args=[*flags, eager]
        )
        page = browser.new_page()
        with served(folder) as address:
            page.goto(f"{address}/page.html")
            load = "async (name) => { await vitedu.load(name); }"
            for each in try_files.MODELS:
                page.evaluate(load, each)
            metrics = timed(page, rounds)
            metrics["memory"] = {
                "value": page.evaluate(MEMORY),
                "unit": "bytes of the page and its workers",
            }
            metrics |= weighed(folder) | compared(model, data, page, count)
        metrics["photograph_milliseconds"]["browser"] = browser.version
        metrics |= pages_weighed(browser, SITE)
        browser.close()
    return metrics


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=TARGET)
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = Path(os.environ["VITEDU_DATA"])
    begin = time.perf_counter()
    metrics = measure(data, options.images, options.rounds)
    for name, metric in metrics.items():
        print(f"{name:24}{metric['value']:14,.1f} {metric['unit']}")
    result = {
        **result_fields(
            TARGET.stem,
            "python benchmarks/try_in_browser.py",
            time.perf_counter() - begin,
        ),
        "config": {"model": "ViT-Ti/16", "images": options.images},
        "metrics": metrics,
        "dataset": {
            "name": "ImageNet sample, re-encoded",
            "digest": digest(data),
            "num_train": 0,
            "num_test": options.images,
        },
        "notes": "the page decodes and resizes by itself; int8 is computed in "
        "PyTorch, with all else as it is",
    }
    results.write(options.out, result)


if __name__ == "__main__":
    main()
