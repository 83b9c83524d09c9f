"""What a second look at ImageNet's labels changes, for ViT-Ti/16.

    VITEDU_DATA=FOLDER python benchmarks/imagenet_second_look.py

`imagenet-val-1300` of $VITEDU_DATA holds 1,300 photographs of ImageNet's
validation set under their own names, squeezed to 227 x 227 pixels, as they are
in VeriSilicon/acuity-dataset on GitHub, `labels.csv` (filename, class_index)
and ReaL's `real.json` (google-research/reassessed-imagenet). ViT-Ti/16 answers;
counted are the answers that agree with the one label, and those that are among
ReaL's. The labels and answers themselves are kept, so that others can count. A
minute, written to `vitedu/results/imagenet-second-look.json`.
"""

import os
import time
from pathlib import Path
from typing import Any

import torch
from recorded import result_fields
from torch import Tensor

import vitedu
from vitedu import results
from vitedu.data import ImageSource, find_images
from vitedu.data.dataset import Split
from vitedu.evaluate.imagenet import names_of, read_real, real_rows

NAME = "imagenet-second-look"
FOLDER = Path(os.environ.get("VITEDU_DATA", "data")) / "imagenet-val-1300"


def photographs() -> tuple[Split, list[list[int]]]:
    """With their one label, and the classes that ReaL finds right."""
    pictures = find_images(FOLDER, labels=FOLDER / "labels.csv")
    real = read_real(FOLDER / "real.json")
    return pictures, [real[row] for row in real_rows(names_of(pictures))]


def counted(
    answers: Tensor, labels: Tensor, right: list[list[int]]
) -> dict[str, int]:
    """How many are right, and what becomes of those that aren't."""
    pairs = zip(answers.tolist(), labels.tolist(), right, strict=True)
    found = dict.fromkeys(
        ("label", "real", "mistakes", "forgiven", "uncounted", "taken"), 0
    )
    for answer, label, classes in pairs:
        found["label"] += answer == label
        found["real"] += answer in classes
        found["mistakes"] += answer != label
        found["forgiven"] += answer != label and answer in classes
        found["uncounted"] += answer != label and not classes
        found["taken"] += (
            answer == label and bool(classes) and answer not in classes
        )
    return found


def main() -> None:
    """Measure, print and record."""
    torch.set_num_threads(1)
    started = time.perf_counter()
    pictures, right = photographs()
    model = vitedu.load("ViT-Ti/16").eval()
    metrics: dict[str, Any] = {}
    unit = f"of {len(right):,} photographs"
    batches = ImageSource(pictures, model.preprocess).batches(batch_size=50)
    with torch.no_grad():
        found = [(model(x).argmax(dim=1), y) for x, y in batches]
    answers, labels = map(torch.cat, zip(*found, strict=True))
    for name, value in counted(answers, labels, right).items():
        metrics[name] = {"value": value, "unit": unit}
        print(f"{name:10} {value:5} {unit}", flush=True)
    metrics["label"]["answers"] = line(answers.tolist())
    with_one = sum(map(bool, right))
    metrics["with a right class"] = {"value": with_one, "unit": unit}
    command = f"python benchmarks/{NAME.replace('-', '_')}.py"
    result = {
        **result_fields(NAME, command, time.perf_counter() - started),
        "config": {
            "labels": line(labels.tolist()),
            "right_classes": ";".join(map(line, right)),
        },
        "metrics": metrics,
        "dataset": {
            "name": "1,300 of ImageNet's validation photographs",
            "digest": pictures.digest(),
            "num_train": 0,
            "num_test": len(right),
        },
        "notes": "somebody's choice for another purpose, 725 classes, squeezed "
        "to 227 x 227 pixels: easier than the whole of the 50,000",
    }
    results.write(results.FOLDER / f"{NAME}.json", result)


def line(numbers: list[int]) -> str:
    return " ".join(map(str, numbers))


if __name__ == "__main__":
    main()
