"""What ViT-Ti/16 looks at, and its corner tokens, on 1,000 photographs.

    VITEDU_DATA=FOLDER python benchmarks/inside_photographs.py

`imagenet-sample` of $VITEDU_DATA, one photograph of each class. Three things:
attention distance of every head on 128 of them (Figure 7, right); what the
answer loses if the four corner tokens are dropped, emptied or moved, or if the
neuron that makes giants of them is silent; and how quickly the answer's
probability falls if patches are removed in the order of a map. Errors are of
the mean over photographs, by 2,000 bootstrap draws. About 50 minutes on one
thread, in pieces that a second call doesn't repeat (--work).
`--parts looks` measures one part anew and keeps the rest of the record.
Written to `vitedu/results`: `inside-photographs.json`, `inside-rollout.json`
(the corners, which are no patches, are never removed) and `inside-maps.json`.
"""

import argparse
import copy
import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from recorded import result_fields
from torch import Tensor

import vitedu
from vitedu import results
from vitedu.data import ImageSource, find_images
from vitedu.interpret import (
    attention_distance,
    attention_map,
    class_token_maps,
    deletion_curve,
)
from vitedu.interpret.removal import SHARES
from vitedu.interpret.tokens import TIMES
from vitedu.model import ViT, record_attention

RESULTS = Path(__file__).parents[1] / "vitedu/results"
CORNERS, INNER = [0, 13, 182, 195], [60, 65, 130, 135]  # patches, from 0
AT_CORNERS = [1 + i for i in CORNERS]  # tokens
NEAR = [15, 26, 169, 180]  # the corners' neighbours towards the middle
# in block 8's MLP: what adds most to the corners of the book's photographs (429
# long on the mean), and what comes next there (2.4)
NEURONS = {"the giants' neuron silent": 417, "the next neuron silent": 711}
BATCH = 50
DRAWS = 2_000
# measures a batch: model, images, labels, mean patch
Part = Callable[[ViT, Tensor, Tensor, Tensor], dict[str, Tensor]]


@dataclass(frozen=True)
class Tokens:
    """What one batch has before the first block, (b, 197, d), and its parts."""

    whole: Tensor
    positions: Tensor  # (196, d)
    mean: Tensor  # (d,): the mean patch, without position

    @property
    def content(self) -> Tensor:
        """The patches without their positions."""
        return self.whole[:, 1:] - self.positions

    def put(self, content: Tensor, positions: Tensor) -> Tensor:
        """Class token, then patches of this content at these positions."""
        return torch.cat([self.whole[:, :1], content + positions], dim=1)

    def empty(self, patches: list[int]) -> Tensor:
        """Tokens that carry nothing but the positions of `patches`."""
        one = self.mean + self.positions[patches]
        return one.expand(len(self.whole), -1, -1)


def dropped(patches: list[int]) -> Callable[[Tokens], Tensor]:
    """Without these patches."""

    def change(tokens: Tokens) -> Tensor:
        kept = [0] + [1 + i for i in range(196) if i not in patches]
        return tokens.whole[:, kept]

    return change


def swapped(tokens: Tokens) -> Tensor:
    """Four inner patches have the corners' positions, and the other way."""
    positions = tokens.positions.clone()
    positions[CORNERS] = tokens.positions[INNER]
    positions[INNER] = tokens.positions[CORNERS]
    return tokens.put(tokens.content, positions)


def emptied(patches: list[int]) -> Callable[[Tokens], Tensor]:
    """These patches show the mean patch, at their own positions."""

    def change(tokens: Tokens) -> Tensor:
        content = tokens.content.clone()
        content[:, patches] = tokens.mean
        return tokens.put(content, tokens.positions)

    return change


def four_more(tokens: Tokens) -> Tensor:
    """All patches, and four empty tokens with the corners' positions."""
    return torch.cat([tokens.whole, tokens.empty(CORNERS)], dim=1)


def moved(tokens: Tokens) -> Tensor:
    """The corners' patches at their neighbours' positions."""
    positions = tokens.positions.clone()
    positions[CORNERS] = tokens.positions[NEAR]
    return tokens.put(tokens.content, positions)


def with_empty(tokens: Tokens) -> Tensor:
    """The same, and four empty tokens with the corners' positions."""
    return torch.cat([moved(tokens), tokens.empty(CORNERS)], dim=1)


def with_copies(tokens: Tokens) -> Tensor:
    """The same, and the corners as they were: as tokens of no patch."""
    return torch.cat([moved(tokens), tokens.whole[:, AT_CORNERS]], dim=1)


ADDED = [-4, -3, -2, -1]
# what is changed, and the rows in which giants are then counted
VARIANTS: dict[str, tuple[Callable[[Tokens], Tensor], list[int]]] = {
    "as it is": (lambda tokens: tokens.whole, AT_CORNERS),
    "corners dropped": (dropped(CORNERS), []),
    "four inner patches dropped": (dropped(INNER), [1, 14, 179, 192]),
    "corners emptied": (emptied(CORNERS), AT_CORNERS),
    "four inner patches emptied": (emptied(INNER), AT_CORNERS),
    "positions swapped": (swapped, [1 + i for i in INNER]),
    "four empty tokens more": (four_more, ADDED),
    "corners moved inwards": (moved, AT_CORNERS),
    "moved inwards, four empty tokens": (with_empty, ADDED),
    "moved inwards, four copies": (with_copies, ADDED),
}


@torch.no_grad()
def mean_patch(model: ViT, images: Tensor) -> Tensor:
    """What the patches of these images are on the mean: (d,)."""
    content = model.embed(images)[:, 1:] - model.pos_embed[0, 1:]
    return content.mean(dim=(0, 1))


@torch.no_grad()
def corners(
    model: ViT, images: Tensor, labels: Tensor, mean: Tensor
) -> dict[str, Tensor]:
    """By variant the loss of each image, whether it's right, and giants."""
    tokens = Tokens(model.embed(images), model.pos_embed[0, 1:], mean)
    return {
        name: answered(model, change(tokens), labels, rows)
        for name, (change, rows) in VARIANTS.items()
    }


def answered(
    model: ViT, tokens: Tensor, labels: Tensor, rows: list[int]
) -> Tensor:
    """Loss, whether it's right, giants, and those in `rows`: (b, 4)."""
    tokens = model.blocks(tokens)
    logits = model.forward_head(model.norm(tokens))
    loss = F.cross_entropy(logits, labels, reduction="none")
    norms = tokens.norm(dim=-1)
    giant = norms > TIMES * norms[:, 1:].median(dim=1, keepdim=True).values
    return torch.stack(
        [
            loss,
            (logits.argmax(dim=1) == labels).float(),
            giant[:, 1:].float().sum(dim=1),
            giant[:, rows].float().sum(dim=1),
        ],
        dim=1,
    )


@torch.no_grad()
def neurons(
    model: ViT, images: Tensor, labels: Tensor, mean: Tensor
) -> dict[str, Tensor]:
    """The same as `corners`, with one neuron of block 8's MLP silent."""
    tokens = model.embed(images)
    found = {"as it is": answered(model, tokens, labels, AT_CORNERS)}
    for name, neuron in NEURONS.items():
        silent = copy.deepcopy(model)
        silent.blocks[7].mlp.fc2.weight[:, neuron] = 0
        found[name] = answered(silent, tokens, labels, AT_CORNERS)
    return found


def orders(model: ViT, images: Tensor) -> dict[str, Tensor]:
    """Maps (b, 196) by which patches are removed, the highest first."""
    with torch.no_grad(), record_attention(model) as maps:
        model.forward_features(images)
    last = class_token_maps(maps[-1:], model.config.grid)[0].mean(dim=1)
    pixels = images.clone().requires_grad_()
    model(pixels).max(dim=1).values.sum().backward()
    slope = F.avg_pool2d(pixels.grad.abs().sum(dim=1), 16)
    generator = torch.Generator().manual_seed(len(images))
    return {
        "rollout": attention_map(model, images).flatten(1),
        "last block's attention": last.flatten(1),
        "gradient": slope.flatten(1),
        "at random": torch.rand(len(images), 196, generator=generator),
    }


def orders_inside(model: ViT, images: Tensor) -> dict[str, Tensor]:
    """The same, but the corners are never removed: they are no patches."""
    found = orders(model, images)
    for map in found.values():
        map[:, CORNERS] = -1
    return {f"{name}, corners kept": map for name, map in found.items()}


def removal(of: Callable[[ViT, Tensor], dict[str, Tensor]]) -> Part:
    """By map the probability of the model's answer: (b, shares)."""

    def measured(
        model: ViT, images: Tensor, labels: Tensor, mean: Tensor
    ) -> dict[str, Tensor]:
        with torch.no_grad():
            best = model(images).softmax(dim=-1).max(dim=-1)
        found = {}
        for name, map in of(model, images).items():
            order = map.argsort(dim=1, descending=True)
            curve = deletion_curve(
                model, images, order, best.indices, SHARES[1:]
            )
            found[name] = torch.cat([best.values[None], curve]).T
        return found

    return measured


@torch.no_grad()
def looks(
    model: ViT, images: Tensor, labels: Tensor, mean: Tensor
) -> dict[str, Tensor]:
    """Distances of a batch, and what its corners take; (1, layers, heads)."""
    with record_attention(model) as maps:
        model.forward_features(images)
    inside = torch.ones(196, dtype=torch.bool)
    inside[CORNERS] = False
    distances = {
        prefix: attention_distance(maps, (14, 14), 16, prefix)
        for prefix in ("renormalise", "drop")
    }
    cleared = [layer.clone() for layer in maps]
    for layer in cleared:  # nothing is taken from the corners
        layer[..., AT_CORNERS] = 0
    distances["without corners"] = attention_distance(cleared, (14, 14), 16)
    to_corners = torch.stack(
        [layer[:, :, 1:, AT_CORNERS].sum(-1) for layer in maps]
    )  # (layers, b, heads, 196)
    distances["share of the corners"] = to_corners.mean(dim=(1, 3))
    tokens = model.embed(images)
    norms = []
    for block in model.blocks:
        tokens = block(tokens)
        norms.append(tokens[:, 1:].norm(dim=-1))
    sizes = torch.stack(norms)  # (layers, b, 196)
    distances["norm of the corners"] = sizes[:, :, CORNERS].mean(dim=(1, 2))
    middle = sizes[:, :, inside].flatten(1).median(dim=1).values
    distances["median norm of the others"] = middle
    return {name: value[None] for name, value in distances.items()}


PARTS: dict[str, Part] = {
    "looks": looks,
    "corners": corners,
    "neurons": neurons,
    "removal": removal(orders),
    "inside": removal(orders_inside),
}


def batches(data: Path, model: ViT) -> list[tuple[Tensor, Tensor]]:
    """All photographs in an order that mixes the classes."""
    folder = data / "imagenet-sample"
    pictures = find_images(folder, labels=folder / "reference_top5.csv")
    source = ImageSource(pictures, model.preprocess, num_workers=1)
    images, labels = zip(*source.batches(batch_size=100), strict=True)
    order = torch.randperm(1_000, generator=torch.Generator().manual_seed(0))
    x, y = torch.cat(images)[order], torch.cat(labels)[order]
    return list(zip(x.split(BATCH), y.split(BATCH), strict=True))


def measure(part: str, model: ViT, data: Path, work: Path) -> dict[str, Tensor]:
    """All batches of a part; those in `work` aren't repeated."""
    found: dict[str, list[Tensor]] = {}
    left = 128 if part == "looks" else 1_000
    photographs = batches(data, model)
    mean = mean_patch(model, torch.cat([x for x, _ in photographs[:5]]))
    for number, (images, labels) in enumerate(photographs):
        images, labels = images[:left], labels[:left]
        left -= len(images)
        if not len(images):
            break
        file = work / f"{part}-{number}.pt"
        if not file.exists():
            torch.save(PARTS[part](model, images, labels, mean), file)
            print(f"{part}, batch {number}", flush=True)
        for name, value in torch.load(file).items():
            found.setdefault(name, []).append(value)
    return {name: torch.cat(values) for name, values in found.items()}


def error(values: Tensor) -> float:
    """Of the mean over photographs: the spread of bootstrap draws."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(
        len(values), (DRAWS, len(values)), generator=generator
    )
    return values[drawn].mean(dim=1).std().item()


def errors(each: Tensor) -> list:
    """The same for each layer, or each layer and head: photographs first."""
    if each.dim() == 1:
        return error(each)
    return [errors(part) for part in each.unbind(dim=1)]


def table(found: dict[str, Tensor]) -> dict[str, dict]:
    """The corners' rows: (1000, 4) each, less what the model has as it is."""
    metrics = {}
    plain = found["as it is"]
    for name, each in found.items():
        more = each[:, 0] - plain[:, 0]
        metrics[f"corners/{name}"] = {
            "value": each[:, 0].mean().item(),
            "unit": "nats",
            "per_seed": [each[:, 0].mean().item()],
            "more": more.mean().item(),
            "error_of_more": error(more),
            "right": int(each[:, 1].sum()),
            "giants_per_photograph": each[:, 2].mean().item(),
            "of_them_there": each[:, 3].mean().item(),
        }
    return metrics


def curves(found: dict[str, Tensor]) -> dict[str, dict]:
    """The mean probability of the answer after each share is removed."""
    metrics = {}
    *_, by_chance = found.values()
    for name, each in found.items():
        lost = each[:, 1:].mean(dim=1)
        below = by_chance[:, 1:].mean(dim=1) - lost
        metrics[f"removal/{name}"] = {
            "value": lost.mean().item(),
            "unit": "probability of the answer, mean of four shares",
            "per_seed": [lost.mean().item()],
            "shares": list(SHARES),
            "probability": each.mean(dim=0).tolist(),
            "error": [error(each[:, i]) for i in range(len(SHARES))],
            "below_random": below.mean().item(),
            "error_below_random": error(below),
        }
    return metrics


def distances(found: dict[str, Tensor]) -> dict[str, dict]:
    """By layer, or by layer and head."""
    metrics = {}
    for name, each in found.items():
        mean = each.mean(dim=0)
        metrics[f"looks/{name}"] = {
            "value": mean[-1].mean().item(),
            "unit": "last block; share, norm, or pixels",
            "per_seed": [mean[-1].mean().item()],
            "by_layer": mean.tolist(),
            "error_by_layer": errors(each),
        }
    return metrics


def claims(
    metrics: dict[str, dict],
) -> dict[str, tuple[str, list[str], str]]:
    """By name of a result: the paper's row, the metrics, and what they say."""
    looked = metrics["looks/renormalise"]

    def reach(layer: int) -> str:
        """The nearest and the farthest head of a block, each ± its error."""
        pairs = zip(
            *(looked[k][layer] for k in ("by_layer", "error_by_layer")),
            strict=True,
        )
        heads = [f"{value:.1f} ± {wide:.1f}" for value, wide in sorted(pairs)]
        return f"{heads[0]} to {heads[-1]}"

    first, last = reach(0), reach(-1)
    far = f"heads of 128 photographs: {first} pixels in the first block, "
    far += f"{last} in the last (± over photographs)"
    split: dict[str, list[str]] = {"": [], "all": [], "kept": []}
    for key in metrics:
        kind = "all" if key.startswith("removal/") else ""
        split["kept" if key.endswith("corners kept") else kind].append(key)

    def below(end: str) -> str:
        maps = "rollout", "last block's attention", "gradient"
        found = [metrics[f"removal/{name}{end}"] for name in maps]
        points = [
            f"{name} {100 * each['below_random']:.1f} ± "
            f"{100 * each['error_below_random']:.1f}"
            for name, each in zip(maps, found, strict=True)
        ]
        return (
            "points of the answer's probability that removing 10 to 75% of "
            f"the patches costs beyond chance: {', '.join(points)}"
        )

    kept = below(", corners kept") + " (corners kept)"
    return {
        "inside-photographs": ("figure-7", split[""], far),
        "inside-rollout": ("figure-6", split["kept"], kept),
        "inside-maps": ("figure-14", split["all"], below("")),
    }


def main() -> None:
    """Measure what is not there yet, and record all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=Path("runs/inside"))
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=PARTS,
        default=list(PARTS),
        help="what to measure; the rest stays as it is recorded",
    )
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    data = Path(os.environ["VITEDU_DATA"])
    model = vitedu.load("ViT-Ti/16")
    began = time.perf_counter()
    recorded: dict[str, dict] = {}
    if set(options.parts) < set(PARTS):
        for name in ("inside-photographs", "inside-rollout", "inside-maps"):
            recorded |= results.read(name)["metrics"]
    found: dict[str, dict] = {}
    summaries = {"looks": distances, "corners": table, "neurons": table}
    summaries |= {"removal": curves, "inside": curves}
    for part, summary in summaries.items():
        if part not in options.parts:
            continue
        found |= summary(measure(part, model, data, options.work))
    metrics = recorded | found
    names = sorted((data / "imagenet-sample").glob("*.JPEG"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in names))
    command = "python benchmarks/inside_photographs.py"
    spent = time.perf_counter() - began
    for name, (row, keys, ours) in claims(metrics).items():
        if not found.keys() & set(keys):
            continue
        result = {
            **result_fields(name, command, spent),
            "config": model.config.to_json(),
            "metrics": {key: metrics[key] for key in keys},
            "dataset": {
                "name": "imagenet-sample, re-encoded",
                "digest": digest.hexdigest()[:16],
                "num_train": 0,
                "num_test": 1_000,
            },
            "notes": "measured in pieces; the seconds are those of the last "
            "call",
            "reproduces": {
                "row": row,
                "scale": "small",
                "ours": f"ViT-Ti/16, {ours}",
                "paper": None,
                "n": 1,
            },
        }
        results.write(RESULTS / f"{name}.json", result)


if __name__ == "__main__":
    main()
