"""What ViT-Ti/16, trained at 224 pixels, answers at other sides.

    VITEDU_DATA=... python benchmarks/resolution.py
    VITEDU_DATA=... python benchmarks/resolution.py 224 288 288-timm

The 1,000 sample images, cut out as at 224 and scaled to each side, through
`vitedu.load("ViT-Ti/16", image_size=side)`: without training, with the
positions resized as the authors do; at 288 also in each other library's way,
and with mistakes that raise no error; at 224 also whole, each in its own shape.
Their JPEGs have a short side of 256, so from 256 on there is no more to see:
only the patches become finer.

The logits of each case go to runs/resolution/ and are not computed twice.
Counts of 1,000, the mean cross-entropy, right answers gained and lost against
224, and how many answers and how far logits are from those of the authors' way
at the same side are printed and written to `vitedu/results/resolution.json`.
"""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from imagenet_sample import batches, digest
from PIL import Image
from recorded import result_fields
from torch import Tensor

import vitedu
from vitedu import results
from vitedu.data import ImageSource, find_images
from vitedu.evaluate import Answers, all_logits, top_k_correct
from vitedu.model.resize import ResizeMode

SIDES = (224, 384, 288, 160, 320, 256, 192, 112)
NAMES = vitedu.load("ViT-Ti/16").class_names
NAMES_KEPT = 12  # of the answers gained and lost in each case
KEPT = Path("runs/resolution")
Table = Callable[[Tensor, int], Tensor]  # (1, t, d), new rows -> (1, t_new, d)


class Case(NamedTuple):
    """A side, and the way to the positions: a library's, or a mistake."""

    side: int
    mode: ResizeMode = "paper"
    mistake: Table | None = None
    is_whole: bool = False  # the side is the shorter one, and nothing is cut


def along_a_line(table: Tensor, rows: int) -> Tensor:
    """All rows, the class token's too, stretched as if they were a line."""
    size = 1 + rows**2
    return F.interpolate(table.mT, size=size, mode="linear").mT


def cut(table: Tensor, rows: int) -> Tensor:
    """As many rows as are needed, from the first."""
    return table[:, : 1 + rows**2]


def padded(table: Tensor, rows: int) -> Tensor:
    """The old rows first, then zeros."""
    return F.pad(table, (0, 0, 0, 1 + rows**2 - table.shape[1]))


CASES = {
    **{str(side): Case(side) for side in SIDES},
    "288-timm": Case(288, "timm"),
    "288-torchvision": Case(288, "torchvision"),
    "288-hf": Case(288, "hf"),
    "288-line": Case(288, mistake=along_a_line),
    "288-padded": Case(288, mistake=padded),
    "160-cut": Case(160, mistake=cut),
    "224-whole": Case(224, is_whole=True),
}


def measure_whole(data: Path, side: int) -> Answers:
    """Logits of all pictures, none of which is cut: each in its own shape."""
    folder = data / "imagenet-sample"
    pictures = find_images(folder, labels=folder / "reference_top5.csv")
    shapes: dict[tuple[int, int], list[int]] = {}
    for row in range(len(pictures)):
        with Image.open(pictures[row][0]) as picture:
            width, height = picture.size
        scale = side / min(width, height) / 16
        sizes = (16 * min(round(x * scale), 42) for x in (height, width))
        shapes.setdefault(tuple(sizes), []).append(row)
    logits = torch.zeros(len(pictures), 1000)
    model = vitedu.load("ViT-Ti/16")
    learned, config = model.pos_embed.detach(), model.config
    for shape, rows in shapes.items():
        model.set_input_size(config.image_size)
        model.pos_embed.data = learned.clone()
        model.set_input_size(shape)
        spec = replace(model.preprocess, crop=None)
        source = ImageSource(pictures.take(rows), spec, num_workers=1)
        logits[rows] = all_logits(model, source.batches(batch_size=25)).logits
    return Answers(logits, pictures.labels)


def measure(data: Path, case: Case) -> Answers:
    """Logits of all pictures in one case."""
    if case.is_whole:
        return measure_whole(data, case.side)
    model = vitedu.load("ViT-Ti/16")
    learned = model.pos_embed.detach()
    model.set_input_size(case.side, mode=case.mode)
    if case.mistake is not None:
        model.pos_embed.data = case.mistake(learned, case.side // 16)
    return all_logits(model, batches(data, model.preprocess))


def kept(data: Path, name: str) -> dict[str, Any]:
    """The logits, labels and seconds of a case, measured unless they are."""
    path = KEPT / f"{name}.pt"
    if not path.exists():
        started = time.perf_counter()
        logits, labels = measure(data, CASES[name])
        seconds = time.perf_counter() - started
        KEPT.mkdir(parents=True, exist_ok=True)
        found = {"logits": logits, "labels": labels, "seconds": seconds}
        torch.save(found, path)
    return torch.load(path, weights_only=True)


def right_share(logits: Tensor, labels: Tensor) -> Tensor:
    """The probability of each picture's own class: (n,)."""
    return logits.softmax(dim=1)[torch.arange(len(labels)), labels]


def compared(name: str, data: Path) -> dict[str, dict[str, Any]]:
    """The metrics of a case."""
    found, usual = kept(data, name), kept(data, "224")
    side = CASES[name].side
    as_authors = kept(data, str(side))["logits"]
    logits, labels = found["logits"], found["labels"]
    now = logits.argmax(dim=1) == labels
    once = usual["logits"].argmax(dim=1) == labels
    loss = F.cross_entropy(logits.double(), labels).item()
    far = (logits - as_authors).abs().max().item()
    others = logits.argmax(dim=1) != as_authors.argmax(dim=1)
    answers = Answers(logits, labels)
    pictures = "of 1,000 images"
    config = vitedu.vit_config("ViT-Ti/16", image_size=side)
    values = {
        "top1": (top_k_correct(answers, 1), pictures),
        "top5": (top_k_correct(answers, 5), pictures),
        "cross_entropy": (loss, "nats"),
        "gained_answers": (int((now & ~once).sum()), pictures),
        "lost_answers": (int((once & ~now).sum()), pictures),
        "changed_answers": (int(others.sum()), pictures),
        "largest_change": (far, "logits"),
    }
    if not CASES[name].is_whole:  # there are many sizes
        macs = vitedu.budget.macs(config)
        values["macs"] = (macs, "multiply-adds an image")
    metrics: dict[str, dict[str, Any]] = {
        f"{metric}/{name}": {"value": value, "unit": unit, "per_seed": [value]}
        for metric, (value, unit) in values.items()
    }
    # of the right classes, and what was or is said instead; those whose right
    # class changed most come first
    rise = right_share(logits, labels) - right_share(usual["logits"], labels)
    for metric, changed, said, order in (
        ("gained_answers", now & ~once, usual["logits"], -rise),
        ("lost_answers", once & ~now, logits, rise),
    ):
        metrics[f"{metric}/{name}"]["names"] = [
            [NAMES[int(labels[i])], NAMES[int(said[i].argmax())]]
            for i in order.argsort().tolist()
            if changed[i]
        ][:NAMES_KEPT]
    return metrics


def main() -> int:
    """Measure what is missing, print and record."""
    if "VITEDU_DATA" not in os.environ:
        print(
            "resolution: set VITEDU_DATA to the folder that holds "
            "imagenet-sample/",
            file=sys.stderr,
        )
        return 2
    data = Path(os.environ["VITEDU_DATA"])
    metrics: dict[str, Any] = {}
    seconds = 0.0
    for name in sys.argv[1:] or CASES:
        found = compared(name, data)
        metrics |= found
        seconds += kept(data, name)["seconds"]
        row = [found[f"{each}/{name}"]["value"] for each in ("top1", "top5")]
        print(
            f"{name:16} {row[0]:4} {row[1]:4} "
            f"{found[f'cross_entropy/{name}']['value']:.4f} "
            f"gained {found[f'gained_answers/{name}']['value']:3} "
            f"lost {found[f'lost_answers/{name}']['value']:3} "
            f"changed {found[f'changed_answers/{name}']['value']:3} "
            f"by {found[f'largest_change/{name}']['value']:.2g} "
            f"in {kept(data, name)['seconds']:.0f} s",
            flush=True,
        )
    if sys.argv[1:]:
        return 0  # a part: nothing to record
    model = vitedu.load("ViT-Ti/16")
    result = {
        **result_fields(
            "resolution", "python benchmarks/resolution.py", seconds
        ),
        "config": model.config.to_json(),
        "metrics": metrics,
        "dataset": {
            "name": "imagenet-sample, re-encoded",
            "digest": digest(data / "imagenet-sample"),
            "num_train": 0,
            "num_test": 1000,
        },
        "notes": "one image a class, short side 256, JPEG quality 75, of which "
        "the middle 90% is scaled to each side; no training, and nothing is "
        "drawn at random",
    }
    results.write(Path(results.__file__).parent / "resolution.json", result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
