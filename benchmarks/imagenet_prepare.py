"""What ImageNet costs before the first step, measured on 1,000 photographs.

    VITEDU_DATA=FOLDER python benchmarks/imagenet_prepare.py

`imagenet-sample-large` of $VITEDU_DATA, one photograph of each class with a
short side of 440 pixels at most: packed into shards as they are, and shrunk to
a short side of 256; then read as the recipe imagenet-b16-384
reads them to learn (a random piece, 384 pixels, mirrored or not), and to be
tested (the whole, squeezed). Milliseconds of one thread's processor, medians of
ROUNDS, so that others on the machine hardly count. Half a minute, written to
`vitedu/results/imagenet-prepare.json`.
"""

import os
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from recorded import result_fields

from vitedu import PreprocessSpec, results
from vitedu.data import find_images, prepare
from vitedu.data.open import as_source
from vitedu.train import recipe

ROUNDS = 3
SIDES = {"as they are": 448, "short side 256": 256}


def milliseconds(work: Callable[[], object], count: int) -> float:
    """Of the processor, for each picture."""
    spent = []
    for _ in range(ROUNDS):
        started = time.process_time()
        work()
        spent.append(1000 * (time.process_time() - started) / count)
    return statistics.median(spent)


def main() -> None:
    """Measure, print and record."""
    torch.set_num_threads(1)
    started = time.perf_counter()
    sample = Path(os.environ["VITEDU_DATA"]) / "imagenet-sample-large"
    paths = sorted(sample.glob("*.JPEG"))
    config = recipe("imagenet-b16-384", "gpu")
    spec = PreprocessSpec(image_size=config.model.image_size)
    metrics = {}

    def record(name: str, value: float, unit: str) -> None:
        metrics[name] = {"value": value, "unit": unit}
        print(f"{name:24} {value:10.2f} {unit}", flush=True)

    with TemporaryDirectory() as folder:
        here = Path(folder)
        for path in paths:
            place = here / "photos" / "train" / path.name.partition("_")[0]
            place.mkdir(parents=True)
            shutil.copy(path, place)

        for name, side in SIDES.items():
            out = here / str(side)

            def pack(out: Path = out, side: int = side) -> None:
                shutil.rmtree(out, ignore_errors=True)
                prepare(here / "photos", out, short_side=side, num_workers=1)

            record(f"prepare/{name}", milliseconds(pack, len(paths)), "ms")
            size = sum(x.stat().st_size for x in out.glob("*.tar"))
            record(f"bytes/{name}", size / len(paths), "bytes a photograph")
        pictures = find_images(here / "photos" / "train")
        for name, augment in (("learn", config.augment), ("test", None)):
            source = as_source(pictures, preprocess=spec, augment=augment)

            def read(source=source) -> None:
                for _ in source.batches(epoch=0, seed=0, batch_size=100):
                    pass

            record(f"read/{name}", milliseconds(read, len(pictures)), "ms")
        digest = pictures.digest()
    size = sum(path.stat().st_size for path in paths)
    record("bytes/given", size / len(paths), "bytes a photograph")
    seconds = time.perf_counter() - started
    command = "python benchmarks/imagenet_prepare.py"
    result = {
        **result_fields("imagenet-prepare", command, seconds),
        "config": {"rounds": ROUNDS, "image_size": 384},
        "metrics": metrics,
        "dataset": {
            "name": "imagenet-sample-large",
            "digest": digest,
            "num_train": len(paths),
            "num_test": 0,
        },
        "notes": "milliseconds of one thread's processor a photograph, "
        "re-encoded with a short side of at most 440 pixels",
    }
    results.write(results.FOLDER / "imagenet-prepare.json", result)


if __name__ == "__main__":
    main()
