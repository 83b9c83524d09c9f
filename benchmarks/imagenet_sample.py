"""What ViT-Ti/16 answers on 1,000 ImageNet images, and what mistakes cost.

    VITEDU_DATA=... python benchmarks/imagenet_sample.py

The AugReg checkpoint and one image of each class (`weights/` and
`imagenet-sample/` in $VITEDU_DATA) through `vitedu.load` and our own
preprocessing; then once more for each common mistake: another GELU, epsilon,
number of heads, order of weights, mean, channel order or geometry. Counts of
1,000, the mean cross-entropy, how many answers are others than without a
mistake (right ones lost and gained) and the largest change of a logit are
printed and written to `vitedu/results/imagenet-sample.json`.
"""

import csv
import hashlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from recorded import result_fields
from torch import Tensor, nn

import vitedu
from vitedu import results
from vitedu.data import ImageSource, PreprocessSpec, find_images
from vitedu.evaluate import Answers, all_logits, top_k_correct

WEIGHTS = "vit_tiny_patch16_224.augreg_in21k_ft_in1k.fp16.safetensors"
IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
MARGIN = 0.01  # logits; closer than this, two machines may disagree


class Change(NamedTuple):
    """One mistake: in the network, the preprocessing or the channel order."""

    model: Callable[[nn.Module], None] = lambda model: None
    spec: dict[str, Any] | None = None
    is_bgr: bool = False


def set_epsilon(value: float) -> Callable[[nn.Module], None]:
    """Give every LayerNorm of a model another epsilon."""

    def change(model: nn.Module) -> None:
        for module in model.modules():
            if isinstance(module, nn.LayerNorm):
                module.eps = value

    return change


def set_tanh_gelu(model: nn.Module) -> None:
    """The approximation in every MLP."""
    for module in model.modules():
        if isinstance(module, nn.GELU):
            module.approximate = "tanh"


def set_heads(value: int) -> Callable[[nn.Module], None]:
    """Give every attention another number of heads."""

    def change(model: nn.Module) -> None:
        for block in model.blocks:
            block.attn.num_heads = value

    return change


def rearranged(
    ending: str | tuple[str, ...], pattern: str, **sizes: int
) -> Callable[[nn.Module], None]:
    """Put the arrays whose names end so into another order."""

    def change(model: nn.Module) -> None:
        state = model.state_dict()
        for key, array in state.items():
            if key.endswith(ending):
                array.copy_(rearrange(array, pattern, **sizes).clone())

    return change


@torch.no_grad()
def swap_queries_and_keys(model: nn.Module) -> None:
    """Take queries for keys and keys for queries in every block."""
    for block in model.blocks:
        for array in block.attn.qkv.parameters():
            q, k, v = array.chunk(3)
            array.copy_(torch.cat([k, q, v]))


@torch.no_grad()
def transpose_positions(model: nn.Module) -> None:
    """The table of positions as if patches were numbered by columns."""
    token, grid = model.pos_embed[:, :1], model.pos_embed[:, 1:]
    grid = rearrange(grid, "1 (x y) d -> 1 (y x) d", x=14)
    model.pos_embed.copy_(torch.cat([token, grid], dim=1))


# those of the network first: they share their pictures
CHANGES = {
    "none": Change(),
    "qk_swapped": Change(model=swap_queries_and_keys),
    "heads_12": Change(model=set_heads(12)),
    "positions_transposed": Change(model=transpose_positions),
    "out_transposed": Change(
        model=rearranged("attn.proj.weight", "d e -> e d")
    ),
    "kernel_transposed": Change(
        model=rearranged("patch_embed.proj.weight", "e d p q -> e d q p")
    ),
    "qkv_by_head": Change(
        model=rearranged(
            ("attn.qkv.weight", "attn.qkv.bias"),
            "(heads three hd) ... -> (three heads hd) ...",
            heads=3,
            three=3,
        )
    ),
    "tanh_gelu": Change(model=set_tanh_gelu),
    "norm_eps_1e-5": Change(model=set_epsilon(1e-5)),
    "norm_eps_1e-12": Change(model=set_epsilon(1e-12)),
    "bgr": Change(is_bgr=True),
    "imagenet_mean_std": Change(spec=IMAGENET),
    "pixels_0_1": Change(spec={"mean": (0.0,) * 3, "std": (1.0,) * 3}),
    "squash": Change(spec={"crop": None}),
    "bilinear": Change(spec={"interpolation": "bilinear"}),
    "resize_256": Change(spec={"crop": 224 / 256}),
}


@lru_cache(maxsize=1)
def batches(data: Path, spec: PreprocessSpec) -> list[tuple[Tensor, Tensor]]:
    """All pictures and labels, preprocessed so; kept until another spec."""
    folder = data / "imagenet-sample"
    pictures = find_images(folder, labels=folder / "reference_top5.csv")
    source = ImageSource(pictures, spec, num_workers=1)
    return list(source.batches(batch_size=50))


def answers(data: Path, change: Change) -> Answers:
    """Logits of all pictures under one change."""
    model = vitedu.load(data / "weights" / WEIGHTS)
    change.model(model)
    spec: PreprocessSpec = replace(model.preprocess, **(change.spec or {}))
    turned = (
        (images.flip(1) if change.is_bgr else images, labels)
        for images, labels in batches(data, spec)
    )
    return all_logits(model, turned)


def disagreements(found: Answers, data: Path) -> tuple[int, int]:
    """Against the stored answers: clear ones that differ, and all that do."""
    folder = data / "imagenet-sample"
    with (folder / "reference_top5.csv").open(newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: row["filename"])
    stored = torch.tensor([int(row["p1"]) for row in rows])
    differ: Tensor = found.logits.argmax(dim=1) != stored
    best = found.logits.topk(2, dim=1).values
    clear = best[:, 0] - best[:, 1] > MARGIN
    return int((differ & clear).sum()), int(differ.sum())


def digest(folder: Path) -> str:
    """Of the bytes of all pictures, by name."""
    found = hashlib.sha256()
    for path in sorted(folder.glob("*.JPEG")):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def main() -> int:
    """Measure every change, print and record."""
    if "VITEDU_DATA" not in os.environ:
        print(
            "imagenet_sample: set VITEDU_DATA to the folder that holds "
            "weights/ and imagenet-sample/",
            file=sys.stderr,
        )
        return 2
    data = Path(os.environ["VITEDU_DATA"])
    started = time.perf_counter()
    metrics = {}
    for name, change in CHANGES.items():
        found = answers(data, change)
        logits, labels = found
        loss = F.cross_entropy(logits.double(), labels).item()
        if name == "none":
            right = logits
        now, once = logits.argmax(dim=1), right.argmax(dim=1)
        lost = int(((once == labels) & (now != labels)).sum())
        gained = int(((once != labels) & (now == labels)).sum())
        changed = int((now != once).sum())
        for metric, value, unit in (
            ("top1", top_k_correct(found, 1), "of 1,000 images"),
            ("top5", top_k_correct(found, 5), "of 1,000 images"),
            ("cross_entropy", loss, "nats"),
            ("changed_answers", changed, "of 1,000 images"),
            ("lost_answers", lost, "of 1,000 images"),
            ("gained_answers", gained, "of 1,000 images"),
            ("largest_change", (logits - right).abs().max().item(), "logits"),
        ):
            metrics[f"{metric}/{name}"] = {
                "value": value,
                "unit": unit,
                "per_seed": [value],
            }
        row = [metrics[f"{m}/{name}"]["value"] for m in ("top1", "top5")]
        print(
            f"{name:20} {row[0]:4} {row[1]:4} {loss:.4f} changed {changed:4} "
            f"lost {lost:3} gained {gained:2} "
            f"by {metrics[f'largest_change/{name}']['value']:.2g}",
            flush=True,
        )
        if name == "none":
            clear, differing = disagreements(found, data)
            print(
                f"clear answers unlike timm's: {clear} (of {differing} unlike)"
            )
            metrics["clear_disagreements_with_timm"] = {
                "value": clear,
                "unit": "images",
                "per_seed": [clear],
            }
    model = vitedu.load(data / "weights" / WEIGHTS)
    result = {
        **result_fields(
            "imagenet-sample",
            "python benchmarks/imagenet_sample.py",
            time.perf_counter() - started,
        ),
        "config": model.config.to_json(),
        "metrics": metrics,
        "dataset": {
            "name": "imagenet-sample, re-encoded",
            "digest": digest(data / "imagenet-sample"),
            "num_train": 0,
            "num_test": 1000,
        },
        "notes": "one image a class, short side 256, JPEG quality 75; "
        "nothing is drawn at random",
    }
    results.write(
        Path(results.__file__).parent / "imagenet-sample.json", result
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
