"""What a picture costs on its way to a training step: ours, torchvision, timm.

    python benchmarks/input_pipeline.py
    python benchmarks/input_pipeline.py --rounds 21

JPEGs from a folder, decoded, cropped at random (5 to 100% of the area) to
224 x 224, flipped in every other case, normalised, in batches of 40 as floats:
by `ImageSource`, by torchvision's `ImageFolder` and `DataLoader` with its
transforms of both kinds, by timm's loader with and without its prefetcher; and
beside them pillow alone, which decodes and resizes the whole picture.

Each in this process, on one thread, by turns, in the processor's time: so it is
a cost per core, and what else runs on the machine matters little. The pictures
are cut out of the photographs in the package, at 500 x 375 pixels (about
ImageNet's) and at 2016 x 1512 (a phone's). The table is printed and written to
vitedu/results/input-pipeline.json.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import torch
from PIL import Image
from recorded import result_fields
from torch.utils.data import DataLoader

from vitedu import results
from vitedu.compat import import_timm, import_torchvision
from vitedu.data import Augment, find_images, photo
from vitedu.data.feed.pictures import ImageSource
from vitedu.pictures import PreprocessSpec

TARGET = Path(__file__).parents[1] / "vitedu/results/input-pipeline.json"
SIDE, BATCH, CROP = 224, 40, 0.05
# by name: width, height and how many of each photograph are cut out
SIZES = {"500px": (500, 375, 40), "2016px": (2016, 1512, 8)}
PHOTOS = ("hopper", "cat", "coffee", "astronaut", "rocket")


def write_pictures(folder: Path, width: int, height: int, count: int) -> int:
    """JPEGs in a class folder for each photograph; their bytes in all."""
    generator = np.random.default_rng(0)
    num_bytes = 0
    for name in PHOTOS:
        whole = photo(name).convert("RGB")
        (folder / name).mkdir(parents=True)
        for i in range(count):
            largest = min(whole.width, whole.height * width / height)
            w = largest * generator.uniform(0.6, 1.0)
            h = w * height / width
            left = generator.uniform(0, whole.width - w)
            top = generator.uniform(0, whole.height - h)
            box = (left, top, left + w, top + h)
            part = whole.resize((width, height), Image.Resampling.LANCZOS, box)
            path = folder / name / f"{i}.jpg"
            part.save(path, quality=90)
            num_bytes += path.stat().st_size
    return num_bytes


def bare(paths: list[Path]) -> None:
    """Decode and resize, with pillow."""
    for path in paths:
        with Image.open(path) as image:
            image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)


def ours(folder: Path) -> Callable[[], Iterable[Any]]:
    """What a run of `vitedu train` reads."""
    source = ImageSource(
        find_images(folder),
        PreprocessSpec(SIDE),
        augment=Augment(crop=CROP, flip=True),
        shuffle=True,
    )
    return lambda: source.batches(batch_size=BATCH)


def of_torchvision(folder: Path, transform: Any) -> Iterable[Any]:
    """The usual loop of PyTorch's tutorials."""
    from torchvision.datasets import ImageFolder

    dataset = ImageFolder(str(folder), transform)
    return DataLoader(dataset, batch_size=BATCH, shuffle=True)


def transforms_v1() -> Any:
    """Those of the tutorials: pillow's crop, then floats."""
    from torchvision import transforms

    return transforms.Compose(
        [
            transforms.RandomResizedCrop(SIDE, scale=(CROP, 1.0)),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize([0.5] * 3, [0.5] * 3),
        ]
    )


def transforms_v2() -> Any:
    """Those that torchvision recommends: uint8 as long as it goes."""
    from torchvision.transforms import v2

    return v2.Compose(
        [
            v2.PILToTensor(),
            v2.RandomResizedCrop(SIDE, scale=(CROP, 1.0), antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5] * 3, [0.5] * 3),
        ]
    )


def of_timm(folder: Path, use_prefetcher: bool) -> Iterable[Any]:
    """What timm's own train.py reads, without colours and erasing."""
    from timm.data import create_dataset, create_loader

    return create_loader(
        create_dataset("", root=str(folder)),
        (3, SIDE, SIDE),
        BATCH,
        is_training=True,
        scale=(CROP, 1.0),
        color_jitter=0.0,
        interpolation="bilinear",
        mean=(0.5,) * 3,
        std=(0.5,) * 3,
        num_workers=0,
        persistent_workers=False,
        device=torch.device("cpu"),
        use_prefetcher=use_prefetcher,
    )


def seconds(run: Callable[[], Iterable[Any] | None]) -> float:
    """The processor's time for one pass over the pictures."""
    begin = time.process_time()
    for images, _ in run() or ():
        if images.dtype != torch.float32 or images.shape[1:] != (3, SIDE, SIDE):
            raise SystemExit(f"a batch of {images.dtype} {images.shape}")
    return time.process_time() - begin


def measured(folder: Path, rounds: int) -> dict[str, list[float]]:
    """Milliseconds a picture for each contestant, one number a round."""
    paths = sorted(folder.rglob("*.jpg"))
    loaders = {
        "torchvision": of_torchvision(folder, transforms_v1()),
        "torchvision-v2": of_torchvision(folder, transforms_v2()),
        "timm": of_timm(folder, use_prefetcher=True),
        "timm-without-prefetcher": of_timm(folder, use_prefetcher=False),
    }
    contestants: dict[str, Callable[[], Iterable[Any] | None]] = {
        "bare": partial(bare, paths),
        "vitedu": ours(folder),
        **{name: partial(iter, loader) for name, loader in loaders.items()},
    }
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(-1, rounds):  # the first warms up
        for name, run in contestants.items():
            took = 1e3 * seconds(run) / len(paths)
            if turn >= 0:
                found[name].append(took)
    return found


def metrics_of(size: str, found: dict[str, list[float]]) -> dict[str, Any]:
    """Medians in milliseconds, and how many times faster ours is."""
    metrics = {}
    for name, values in found.items():
        median = statistics.median(values)
        ratio = statistics.median(
            theirs / mine
            for theirs, mine in zip(values, found["vitedu"], strict=True)
        )
        metrics[f"{size}/{name}"] = {
            "value": round(median, 3),
            "unit": "ms a picture and core",
        }
        if name != "vitedu":
            metrics[f"{size}/{name}_to_ours"] = {
                "value": round(ratio, 3),
                "unit": "its time / ours",
            }
        print(f"{size}  {name:24} {median:7.3f} ms  {ratio:5.2f} x ours")
    return metrics


def main() -> None:
    """Measure, print, record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--out", type=Path, default=TARGET)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torchvision, timm = import_torchvision(), import_timm()
    begin = time.perf_counter()
    metrics: dict[str, Any] = {}
    count = 0
    with tempfile.TemporaryDirectory() as name:
        for size, (width, height, each) in SIZES.items():
            folder = Path(name) / size
            num_bytes = write_pictures(folder, width, height, each)
            count += each * len(PHOTOS)
            print(f"{size}: {num_bytes / each / len(PHOTOS) / 1e3:.0f} kB each")
            found = measured(folder, options.rounds)
            metrics |= metrics_of(size, found)
    result = {
        **result_fields(
            "input-pipeline",
            f"python benchmarks/input_pipeline.py --rounds {options.rounds}",
            time.perf_counter() - begin,
        ),
        "config": {
            "image_size": SIDE,
            "batch_size": BATCH,
            "crop": CROP,
            "rounds": options.rounds,
        },
        "metrics": metrics,
        "dataset": {
            "name": "parts of five photographs as JPEGs of quality 90",
            "digest": "numpy.random.default_rng(0)",
            "num_train": count,
            "num_test": 0,
        },
        "notes": "medians over the rounds, in each of which everybody has a "
        "turn; the processor's time of one process with one thread",
    }
    result["versions"] |= {
        "torchvision": torchvision.__version__,
        "timm": timm.__version__,
        "pillow": PIL.__version__,
    }
    results.write(options.out, result)


if __name__ == "__main__":
    main()
