"""Is there a photograph in the package whose answer needs the pixels?

    python benchmarks/photographs_by_size.py

ViT-Ti/16 of 224 pixels, positions resized and nothing trained, names the book's
five photographs and the 120 of waste at four sizes, in bfloat16. How often the
first answer isn't that of 224 pixels, and how many photographs have one answer
at all sizes, go to `vitedu/results/photographs-by-size.json`, with the first
answers of the five. Of those, Hopper, cat and coffee have a class in ImageNet.
"""

import hashlib
import time
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from recorded import result_fields

import vitedu
from vitedu import results
from vitedu.data import folder_of, photo

TARGET = Path(results.__file__).parent / "photographs-by-size.json"
SIDES = (224, 256, 288, 384)
NAMES = ("hopper", "cat", "coffee", "astronaut", "rocket")


def pictures() -> dict[str, Image.Image]:
    """All photographs of the package, by name."""
    waste = sorted(folder_of("trashnet-small").rglob("*.jpg"))
    found = {name: photo(name) for name in NAMES}
    return found | {path.stem: Image.open(path) for path in waste}


def digest() -> str:
    """Of all pixels, in their order."""
    found = hashlib.sha256()
    for picture in pictures().values():
        found.update(picture.tobytes())
    return found.hexdigest()[:16]


def measured() -> dict[str, dict[str, Any]]:
    """Ask at each size, and count."""
    first: dict[str, dict[int, str]] = {name: {} for name in pictures()}
    for side in SIDES:
        model = vitedu.load("ViT-Ti/16", image_size=side)
        for name, picture in pictures().items():
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
                logits = model(model.preprocess(picture)[None])
            first[name][side] = model.class_names[int(logits.argmax())]
    metrics: dict[str, dict[str, Any]] = {
        f"changed/{side}": {
            "value": sum(said[side] != said[224] for said in first.values()),
            "unit": f"of {len(first)} photographs",
        }
        for side in SIDES[1:]
    }
    metrics["steady"] = {
        "value": sum(len({*said.values()}) == 1 for said in first.values()),
        "unit": f"of {len(first)} photographs",
        "answers": {name: [*first[name].values()] for name in NAMES},
    }
    return metrics


def main() -> None:
    """Measure and record."""
    torch.set_num_threads(1)
    started = time.perf_counter()
    metrics = measured()
    print(metrics)
    result = {
        **result_fields(
            TARGET.stem,
            "python benchmarks/photographs_by_size.py",
            time.perf_counter() - started,
        ),
        "config": vitedu.load("ViT-Ti/16").config.to_json(),
        "metrics": metrics,
        "dataset": {
            "name": "the package's photographs",
            "digest": digest(),
            "num_train": 0,
            "num_test": len(pictures()),
        },
        "notes": "bfloat16; the photographs of waste are 320 x 240 pixels",
    }
    results.write(TARGET, result)


if __name__ == "__main__":
    main()
