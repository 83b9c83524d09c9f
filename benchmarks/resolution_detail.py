"""Do more pixels help without training where there is more to see?

    VITEDU_DATA=... python benchmarks/resolution_detail.py

The 1,000 sample photographs with a short side of up to 440 pixels, beside those
of `resolution.py` with 256: the same scenes, through the same ViT-Ti/16 of 224
pixels, its positions resized and nothing trained. In bfloat16, which moves a
few close answers. Right answers, the mean cross-entropy, and what was gained
and lost against 224 go to `vitedu/results/resolution-detail.json`.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from imagenet_sample import digest
from recorded import result_fields

import vitedu
from vitedu import results
from vitedu.data import ImageSource, find_images
from vitedu.evaluate import Answers, all_logits

TARGET = Path(results.__file__).parent / "resolution-detail.json"
SIDES = (224, 288, 384)


def measure(data: Path, side: int) -> Answers:
    """Logits of all pictures at this side."""
    folder = data / "imagenet-sample-large"
    labels = data / "imagenet-sample" / "reference_top5.csv"
    model = vitedu.load("ViT-Ti/16", image_size=side)
    pictures = find_images(folder, labels=labels)
    source = ImageSource(pictures, model.preprocess, num_workers=1)
    with torch.autocast("cpu", torch.bfloat16):
        return all_logits(model, source.batches(batch_size=50))


def main() -> int:
    """Measure, print and record."""
    if "VITEDU_DATA" not in os.environ:
        print("resolution_detail: set VITEDU_DATA", file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    data, started = Path(os.environ["VITEDU_DATA"]), time.perf_counter()
    found = {side: measure(data, side) for side in SIDES}
    metrics: dict[str, Any] = {}
    usual = found[224]
    once = usual.logits.argmax(dim=1) == usual.labels
    for side, (logits, labels) in found.items():
        now = logits.argmax(dim=1) == labels
        values = {
            "top1": (int(now.sum()), "of 1,000 images"),
            "gained_answers": (int((now & ~once).sum()), "of 1,000 images"),
            "lost_answers": (int((once & ~now).sum()), "of 1,000 images"),
            "cross_entropy": (
                F.cross_entropy(logits.double(), labels).item(),
                "nats",
            ),
        }
        for name, (value, unit) in values.items():
            metrics[f"{name}/{side}"] = {"value": value, "unit": unit}
        print(side, values, flush=True)
    result = {
        **result_fields(
            TARGET.stem,
            "python benchmarks/resolution_detail.py",
            time.perf_counter() - started,
        ),
        "config": vitedu.load("ViT-Ti/16").config.to_json(),
        "metrics": metrics,
        "dataset": {
            "name": "imagenet-sample-large, re-encoded",
            "digest": digest(data / "imagenet-sample-large"),
            "num_train": 0,
            "num_test": 1000,
        },
        "notes": "one image a class, short side at most 440 (median 375), JPEG "
        "quality 80; no training; bfloat16; other work shared the CPU",
    }
    results.write(TARGET, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
