"""What 384 pixels bring for waste, with and without practice.

    VITEDU_DATA=... python benchmarks/resolution_trashnet.py RUN...

A RUN is a finished folder of `vitedu train trashnet precision=bf16 seed=N` or
of `trashnet-384`, seeds in the order given. Each network is tested on the 431
photographs at the size it was fine-tuned at, and one of 224 pixels at 384 too,
its positions resized and nothing trained; in bfloat16, on a GPU if there is
one. On how many of the 1,768 that it learned from it is right, and how far
training has moved the table of positions it began with, as a share of its
length, is measured as well. Percent and nats go to
`vitedu/results/resolution-trashnet.json`.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path

import torch
from recorded import result_fields

import vitedu
from vitedu import results
from vitedu.data import Augment
from vitedu.evaluate import accuracy
from vitedu.files import read_json
from vitedu.train import TrainConfig, find_device
from vitedu.train.data import open_sources

TARGET = Path(results.__file__).parent / "resolution-trashnet.json"
TESTED = {224: (224, 384), 384: (384,)}  # fine-tuned at: tested at


def main() -> int:
    """Test, print and record."""
    runs = [Path(each) for each in sys.argv[1:]]
    if not runs:
        print("resolution_trashnet: name a finished run", file=sys.stderr)
        return 2
    device = find_device("auto")
    torch.set_num_threads(1)
    started = time.perf_counter()
    found: dict[str, list[float]] = {}
    seeds: set[int] = set()
    trained_on: set[str] = set()
    for run in runs:
        config = TrainConfig.from_json(read_json(run / "config.json"))
        seeds.add(config.seed)
        trained_on.add(results.read_file(run / "result.json")["hardware"])
        learned = config.model.image_size[0]
        for side in TESTED[learned]:
            model = vitedu.load(run, image_size=side, device=str(device))
            at_side = replace(
                config,
                augment=Augment(),
                model=model.config,
                preprocess=model.preprocess,
            )
            sources = open_sources(at_side, device)
            parts = {"accuracy": sources.test}
            if side == learned:
                parts["train"] = sources.train
            for part, source in parts.items():
                batches = source.batches(epoch=0, seed=0, batch_size=32)
                with torch.autocast(device.type, torch.bfloat16):
                    reached = accuracy(model, batches)
                case = f"{learned}-{side}"
                found.setdefault(f"{part}/{case}", []).append(reached.accuracy)
                print(run, side, part, reached, flush=True)
                if part == "accuracy":
                    losses = found.setdefault(f"cross_entropy/{case}", [])
                    losses.append(reached.loss)
        first = vitedu.load("ViT-Ti/16", image_size=learned).pos_embed
        moved = vitedu.load(run).pos_embed - first
        share = 100 * (moved.norm() / first.norm()).item()
        found.setdefault(f"positions_moved/{learned}", []).append(share)
    units = {"accuracy": "percent of 431", "cross_entropy": "nats"}
    units["train"] = "percent of 1,768"
    metrics = {
        name: {
            "value": sum(values) / len(values),
            "unit": units.get(name.split("/")[0], "percent of their length"),
            "per_seed": values,
        }
        for name, values in found.items()
    }
    dataset = sources.dataset
    result = {
        **result_fields(
            TARGET.stem,
            "python benchmarks/resolution_trashnet.py RUN...",
            time.perf_counter() - started,
            device=device.type,
        ),
        "config": config.to_json(),
        "metrics": metrics,
        "seeds": sorted(seeds),
        "dataset": {
            "name": dataset.name,
            "digest": dataset.digest,
            "num_train": 1768,
            "num_test": 431,
        },
        "notes": "other work shared the machine; seconds are those of the "
        "tests; trained on: " + ", ".join(sorted(trained_on)),
    }
    results.write(TARGET, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
