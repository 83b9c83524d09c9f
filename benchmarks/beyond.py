"""Outlines and boxes from the tokens of a frozen ViT-Ti/16.

    VITEDU_DATA=... python benchmarks/beyond.py

Outlines: figures of `shapes` at 224 pixels by `ridge` on the tokens after each
block, and after blocks 3, 6, 9 and 12 together, from 10 to 1,000 pictures. A
seed stands for another 1,000 pictures; the 200 new ones are the same for all.
IoU per picture, of masks drawn from patches by linear interpolation.

Boxes: the cells of `bccd` at 480 x 640 pixels, the authors' parts. Each token
says for each class how central it is, and how far the box's edges are. By
`ridge` after blocks 1 to 8, from 10 to all 205 pictures (a seed draws which),
and after blocks 3, 6, 9 and 12; by a small MLP on these four (a seed draws its
weights and the order of the pictures). Penalty, overlap at which boxes are
dropped, and the score from which a cell counts are chosen by the 87 pictures
for validation.

What is measured goes to runs/beyond/ and is not measured twice; all of it to
`vitedu/results/beyond.json`. About 40 minutes of one core.
"""

import hashlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from recorded import result_fields
from torch import Tensor, nn

import vitedu
from vitedu import results
from vitedu.data import Boxed, BoxedSet, load_boxes
from vitedu.data.readers.shapes import make_arrays
from vitedu.evaluate.dense import (
    average_precision,
    box_targets,
    coverage,
    ridge,
    suppress,
)

KEPT = Path("runs/beyond")
SEEDS = (0, 1, 2)
FOUR = (2, 5, 8, 11)  # blocks 3, 6, 9 and 12, from 0
EIGHT = tuple(range(8))
PICTURES = (10, 20, 40, 100, 300, 1000)
NUM_NEW, NEW_SEED = 200, 2**20
L2 = 10.0  # of outlines; from 1 to 100 IoU changes by 0.3 points or less
BOXED_PICTURES = (10, 50)
CENTRAL = 0.3  # from which on a token learns its box's edges
LOWEST = 0.05  # score of a box that counts
OVERLAPS = (0.3, 0.4, 0.5)
PENALTIES = (30.0, 300.0, 3000.0)
HIDDEN, DROPOUT, EPOCHS, RATE = 512, 0.2, 20, 2e-3
TALL, WIDE = 30, 40  # patches
rows, columns = torch.meshgrid(
    torch.arange(TALL), torch.arange(WIDE), indexing="ij"
)
POINTS = 16.0 * torch.stack([columns, rows], dim=2).view(-1, 2) + 8

Pictures = list[list[tuple[Tensor, Tensor]]]  # of each picture, of each class


def kept(name: str, measure: Callable[[], Any]) -> Any:
    """What a part measured, as JSON with its seconds; measured unless it is."""
    path = KEPT / f"{name}.json"
    if not path.exists():
        started = time.perf_counter()
        found = {"found": measure()}
        found["seconds"] = time.perf_counter() - started
        KEPT.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found))
        print(f"{name}: {found['seconds']:.0f} s", flush=True)
    return json.loads(path.read_text())


# --------------------------------------------------------------- outlines


def shape_tokens(count: int, seed: int) -> tuple[list[Tensor], Tensor]:
    """Tokens after each block, each (b, 196, 192), and masks."""
    images, _, targets = make_arrays(count, 224, 10, seed, targets=True)
    model = vitedu.load("ViT-Ti/16")
    layers = [
        torch.stack(model.get_intermediate_layers(x.float() / 127.5 - 1, 12))
        for x in torch.from_numpy(images).split(20)
    ]
    tokens = F.layer_norm(torch.cat(layers, dim=1), (192,))
    return list(tokens.unbind()), torch.from_numpy(targets.masks)


def mean_iou(shares: Tensor, masks: Tensor) -> float:
    """Of shares (b, 196, 1) and masks (b, 224, 224), in percent."""
    maps = shares.view(-1, 1, 14, 14)
    drawn = F.interpolate(maps, size=(224, 224), mode="bilinear")[:, 0] > 0.5
    common, either = (drawn & masks).sum((1, 2)), (drawn | masks).sum((1, 2))
    return 100 * (common / either).mean().item()


def outlines(seed: int) -> dict[str, float]:
    """IoU on new pictures by "blocks/pictures"."""
    new, truth = shape_tokens(NUM_NEW, NEW_SEED)
    tokens, masks = shape_tokens(max(PICTURES), seed)
    targets = coverage(masks, 16).view(len(masks), -1, 1)
    choices = {str(i + 1): [i] for i in range(12)} | {"four": list(FOUR)}
    found = {}
    for name, blocks in choices.items():
        x = torch.cat([tokens[i] for i in blocks], dim=2)
        xt = F.pad(torch.cat([new[i] for i in blocks], dim=2), (0, 1), value=1)
        for count in PICTURES:
            few, shares = x[:count].flatten(0, 1), targets[:count].flatten(0, 1)
            weights = ridge(few, shares, L2)
            found[f"{name}/{count}"] = mean_iou(xt @ weights, truth)
    return found


# ------------------------------------------------------------------ boxes


def cell_tokens(part: Boxed, blocks: Sequence[int]) -> Tensor:
    """Tokens of each picture after some blocks: (b, 1200, 192 * blocks)."""
    model = vitedu.load("ViT-Ti/16")
    model.set_input_size((16 * TALL, 16 * WIDE))
    found = []
    for path in part.paths:
        file = KEPT / "bccd" / f"{path.stem}.pt"
        if not file.exists():
            with Image.open(path) as picture:
                pixels = np.array(picture.convert("RGB"))
            image = torch.from_numpy(pixels).permute(2, 0, 1)[None]
            layers = model.get_intermediate_layers(image / 127.5 - 1, 12)
            file.parent.mkdir(parents=True, exist_ok=True)
            torch.save(torch.cat(layers).half(), file)
        tokens = torch.load(file, weights_only=True)[list(blocks)]
        found.append(tokens.permute(1, 0, 2).flatten(1))
    return torch.stack(found)


def normed(tokens: Tensor) -> Tensor:
    """Each block's tokens with mean 0 and deviation 1."""
    parts = tokens.float().unflatten(-1, (-1, 192))
    return F.layer_norm(parts, (192,)).flatten(-2)


def all_targets(part: Boxed, classes: int) -> tuple[Tensor, Tensor]:
    """Centreness (b, 1200, classes) and distances (b, 1200, classes, 4)."""
    told = [
        [box_targets(POINTS, boxes[labels == k]) for k in range(classes)]
        for boxes, labels in zip(part.boxes, part.labels, strict=True)
    ]
    centres = [torch.stack([c for c, _ in each], dim=1) for each in told]
    edges = [torch.stack([d for _, d in each], dim=1) for each in told]
    return torch.stack(centres), torch.stack(edges)


def boxes_of(scores: Tensor, edges: Tensor, overlap: float) -> Pictures:
    """From scores (b, 1200, classes) and distances, the boxes that stay."""
    limits = torch.tensor([16.0 * WIDE, 16.0 * TALL])
    found: Pictures = []
    for score, edge in zip(scores, edges, strict=True):
        found.append([])
        for k in range(score.shape[1]):
            some = (score[:, k] > LOWEST).nonzero()[:, 0]
            far = edge[some, k].clamp(min=0)
            before, behind = far.split(2, dim=1)
            corners = [POINTS[some] - before, POINTS[some] + behind]
            corners = [x.clamp(min=0).minimum(limits) for x in corners]
            boxes = torch.cat(corners, dim=1)
            keep = suppress(boxes, score[some, k], overlap)
            found[-1].append((boxes[keep], score[some, k][keep]))
    return found


def precisions(found: Pictures, part: Boxed) -> list[float]:
    """Average precision of each class, in percent."""
    return [
        average_precision(
            [each[k] for each in found],
            [
                boxes[labels == k]
                for boxes, labels in zip(part.boxes, part.labels, strict=True)
            ],
        )
        for k in range(len(found[0]))
    ]


def chosen(
    heads: Sequence[Any], run: Callable[[Any, Tensor], Any], val: Any, test: Any
) -> dict[str, Any]:
    """The head and overlap that are best on validation, and how they test."""
    best: dict[str, Any] = {"val_mean": -1.0}
    best_head = heads[0]
    for number, head in enumerate(heads):
        answers = run(head, val[0])
        for overlap in OVERLAPS:
            found = boxes_of(*answers, overlap)
            each = precisions(found, val[1])
            mean = sum(each) / len(each)
            if mean > best["val_mean"]:
                best = {"val_mean": mean, "val": each, "overlap": overlap}
                best |= {"head": number, "cuts": cuts(found, val[1])}
                best_head = head
    found = boxes_of(*run(best_head, test[0]), best["overlap"])
    best["test"] = precisions(found, test[1])
    best["counted"], best["true"] = counts(found, test[1], best["cuts"])
    return best


def counts(
    found: Pictures, part: Boxed, lowest: Sequence[float]
) -> tuple[list[list[int]], list[list[int]]]:
    """Cells of each class counted in each picture, and the true numbers."""
    counted = [
        [int((s > cut).sum()) for (_, s), cut in zip(each, lowest, strict=True)]
        for each in found
    ]
    true = [x.bincount(minlength=len(lowest)).tolist() for x in part.labels]
    return counted, true


def cuts(found: Pictures, part: Boxed) -> list[float]:
    """The score of each class whose counts are nearest to the true ones."""
    steps = [0.05 * step for step in range(1, 19)]
    wrong = []
    for cut in steps:
        pair = counts(found, part, [cut] * len(found[0]))
        counted, true = (torch.tensor(each) for each in pair)
        wrong.append((counted - true).abs().sum(dim=0))
    return [steps[i] for i in torch.stack(wrong).argmin(dim=0).tolist()]


def linear(
    x: Tensor, centres: Tensor, edges: Tensor, l2: Sequence[float]
) -> list[tuple[Tensor, Tensor]]:
    """`ridge`, picture by picture: for each penalty, two sets of weights."""
    size, classes = x.shape[2] + 1, centres.shape[2]
    square, sides = torch.zeros(size, size), torch.zeros(classes, size, size)
    right, behind = torch.zeros(size, classes), torch.zeros(classes, size, 4)
    for tokens, centre, edge in zip(x, centres, edges, strict=True):
        rows = F.pad(normed(tokens), (0, 1), value=1.0)
        square += rows.mT @ rows
        right += rows.mT @ centre
        for k in range(classes):
            some = rows[centre[:, k] > CENTRAL]
            sides[k] += some.mT @ some
            behind[k] += some.mT @ edge[centre[:, k] > CENTRAL, k]
    found = []
    for penalty in l2:
        ruler = penalty * torch.eye(size)
        first = torch.linalg.solve(square + ruler, right)
        found.append((first, torch.linalg.solve(sides + ruler, behind)))
    return found


def run_linear(weights: tuple[Tensor, Tensor], x: Tensor) -> Any:
    scores, edges = [], []
    for tokens in x:
        rows = F.pad(normed(tokens), (0, 1), value=1.0)
        scores.append(rows @ weights[0])
        edges.append((rows @ weights[1]).transpose(0, 1))
    return torch.stack(scores), torch.stack(edges)


def boxes_by_ridge(blocks: Sequence[int], seed: int, count: int) -> Any:
    """`ridge` on so many pictures for training, which the seed draws."""
    cells = load_boxes()
    x, val, test = (cell_tokens(part, blocks) for part in cells[:3])
    order = torch.randperm(len(x), generator=torch.manual_seed(seed))[:count]
    centres, edges = all_targets(cells.train, len(cells.class_names))
    heads = linear(x[order], centres[order], edges[order], PENALTIES)
    return chosen(heads, run_linear, (val, cells.val), (test, cells.test))


def boxes_by_mlp(seed: int) -> Any:
    """An MLP on four blocks: cross-entropy of centreness, -log IoU of edges."""
    cells = load_boxes()
    x, val, test = (cell_tokens(part, FOUR) for part in cells[:3])
    classes = len(cells.class_names)
    centres, edges = all_targets(cells.train, classes)
    torch.manual_seed(seed)
    body = nn.Linear(x.shape[2], HIDDEN), nn.GELU(), nn.Dropout(DROPOUT)
    last = nn.Linear(HIDDEN, 5 * classes)
    head = nn.Sequential(*body, last)
    with torch.no_grad():  # few tokens are central; edges are a token away
        last.bias.copy_(torch.tensor([-3.0, 3.0, 3.0, 3.0, 3.0] * classes))
    optimizer = torch.optim.AdamW(head.parameters(), RATE, weight_decay=0.05)
    steps = EPOCHS * (len(x) // 4)
    plan = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, steps)

    def run(head: nn.Module, tokens: Tensor) -> tuple[Tensor, Tensor]:
        given = head(normed(tokens)).unflatten(-1, (classes, 5))
        return given[..., 0], given[..., 1:].exp()

    def answers(head: nn.Module, tokens: Tensor) -> tuple[Tensor, Tensor]:
        told = [run(head, some) for some in tokens.split(4)]
        scores, far = zip(*told, strict=True)
        return torch.cat(scores).sigmoid(), torch.cat(far)

    with torch.enable_grad():
        for _ in range(EPOCHS):
            for some in torch.randperm(len(x)).split(4)[: len(x) // 4]:
                scores, far = run(head, x[some])
                truth, inside = centres[some], centres[some] > 0
                loss = F.binary_cross_entropy_with_logits(
                    scores, truth, reduction="sum"
                ) / (inside.sum())
                weight = truth[inside]
                overlap = edge_iou(far[inside], edges[some][inside])
                loss = loss - (overlap.log() * weight).sum() / weight.sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                plan.step()
    head.eval()
    return chosen([head], answers, (val, cells.val), (test, cells.test))


def edge_iou(a: Tensor, b: Tensor) -> Tensor:
    """IoU of boxes round the same points, from distances (n, 4)."""
    common = torch.minimum(a, b)
    areas = [(x[:, 0] + x[:, 2]) * (x[:, 1] + x[:, 3]) for x in (a, b, common)]
    return areas[2].clamp(min=1e-3) / (areas[0] + areas[1] - areas[2])


# ----------------------------------------------------------------- record


def metric(values: Sequence[float], unit: str) -> dict[str, Any]:
    """The mean over the seeds."""
    mean = sum(values) / len(values)
    return {"value": mean, "unit": unit, "per_seed": list(values)}


def box_metrics(name: str, parts: Sequence[Any]) -> dict[str, Any]:
    """What `chosen` found with each seed."""
    classes = load_boxes().class_names
    found = {}
    for where in ("val", "test"):
        for k, label in enumerate(classes):
            values = [part[where][k] for part in parts]
            found[f"{where}_ap/{name}/{label}"] = metric(values, "percent")
        means = [sum(part[where]) / len(classes) for part in parts]
        found[f"{where}_ap/{name}"] = metric(means, "percent")
    for k, label in enumerate(classes):
        off = [
            [
                abs(one[k] - other[k])
                for one, other in zip(
                    part["counted"], part["true"], strict=True
                )
            ]
            for part in parts
        ]
        values = [sum(each) / len(each) for each in off]
        unit = "cells a picture"
        found[f"count_error/{name}/{label}"] = metric(values, unit)
    return found


def usual_counts(cells: BoxedSet) -> dict[str, Any]:
    """Cells of each class in a picture for training, on average."""
    classes = cells.class_names
    known = [x.bincount(minlength=len(classes)) for x in cells.train.labels]
    means = torch.stack(known).double().mean(dim=0).tolist()
    return {
        f"count_mean/{label}": {"value": mean, "unit": "cells a picture"}
        for label, mean in zip(classes, means, strict=True)
    }


def main() -> int:
    """Measure what is missing, print and record."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    metrics: dict[str, Any] = {}
    parts = [kept(f"outlines-{s}", lambda s=s: outlines(s)) for s in SEEDS]
    seconds = sum(part["seconds"] for part in parts)
    for name in parts[0]["found"]:
        values = [part["found"][name] for part in parts]
        metrics[f"iou/{name}"] = metric(values, "percent")
    cases: dict[str, list[tuple[str, Callable[[], Any]]]] = {}
    for count in BOXED_PICTURES:
        cases[f"ridge-{count}"] = [
            (f"ridge-{count}-{s}", lambda s=s, n=count: by_eight(s, n))
            for s in SEEDS
        ]
    # with all pictures nothing is drawn: every seed has the same weights
    cases["ridge"] = [("ridge", lambda: by_eight(0, 205))] * 3
    cases["ridge-four"] = [
        ("ridge-four", lambda: boxes_by_ridge(FOUR, 0, 205))
    ] * 3
    cases["mlp"] = [(f"mlp-{s}", lambda s=s: boxes_by_mlp(s)) for s in SEEDS]
    pairs = {}
    for name, all_seeds in cases.items():
        parts = [kept(*each) for each in all_seeds]
        names = {each for each, _ in all_seeds}
        seconds += sum(kept(each, dict)["seconds"] for each in names)
        metrics |= box_metrics(name, [part["found"] for part in parts])
        pairs[name] = [parts[0]["found"][x] for x in ("counted", "true")]
        print(name, round(metrics[f"test_ap/{name}"]["value"], 1), flush=True)
    # of the first seed, to draw: counted and true in each picture, by class
    metrics["count_error/mlp/RBC"]["pairs"] = pairs["mlp"]
    metrics |= usual_counts(load_boxes())
    digest = hashlib.sha256()
    for part in load_boxes()[:3]:
        for path in part.paths:
            digest.update(path.read_bytes())
    config = {"model": "ViT-Ti/16", "l2": L2, "central": CENTRAL}
    config |= {"lowest": LOWEST, "overlaps": OVERLAPS, "penalties": PENALTIES}
    config |= {"hidden": HIDDEN, "dropout": DROPOUT, "epochs": EPOCHS}
    result = {
        **result_fields("beyond", "python benchmarks/beyond.py", seconds),
        "seeds": list(SEEDS),
        "config": json.loads(json.dumps(config | {"lr": RATE})),
        "metrics": metrics,
        "dataset": {
            "name": "bccd; outlines: shapes, 1,000 and 200 new pictures",
            "digest": digest.hexdigest()[:16],
            "num_train": 205,
            "num_test": 72,
        },
        "notes": "the ViT is frozen; the 87 pictures for validation choose "
        "penalty, overlap and the score from which a cell counts",
    }
    results.write(Path(results.__file__).parent / "beyond.json", result)
    return 0


def by_eight(seed: int, count: int) -> Any:
    return boxes_by_ridge(EIGHT, seed, count)


if __name__ == "__main__":
    sys.exit(main())
