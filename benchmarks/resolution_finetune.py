"""Does practice at a larger size pay? Ants and bees at 224 and 384, 3 seeds.

    python benchmarks/resolution_finetune.py [--runs runs/resolution]

The recipe `ants-bees` fine-tunes ViT-Ti/16 at 224 pixels and at 384. What was
fine-tuned at 224 is tested at 384 too, its positions resized and nothing
trained. 153 photographs, whose short side is 256. Runs are kept in the folder
and go on where they were. Right answers and the mean cross-entropy go to
`vitedu/results/resolution-finetune.json`.
"""

import argparse
import statistics
from dataclasses import replace
from pathlib import Path

import torch
from recorded import result_fields

import vitedu
from vitedu import results
from vitedu.evaluate import Evaluation, accuracy
from vitedu.train import TrainConfig, fit, recipe
from vitedu.train.data import open_sources

TARGET = Path(results.__file__).parent / "resolution-finetune.json"
SIDES, SEEDS = (224, 384), (0, 1, 2)
CASES = [(224, 224), (224, 384), (384, 384)]  # fine-tuned at, tested at


def settings(side: int, seed: int) -> TrainConfig:
    """The recipe `ants-bees` at another size."""
    config = recipe("ants-bees", "cpu")
    model = replace(config.model, image_size=side)
    return replace(config, model=model, seed=seed, threads=1)


def tested(run: Path, config: TrainConfig, side: int) -> Evaluation:
    """What the weights of a run answer at `side`, positions resized."""
    model = vitedu.load(run, image_size=side)
    at_side = replace(
        config,
        model=replace(config.model, image_size=side),
        preprocess=model.preprocess,
    )
    sources = open_sources(at_side, torch.device("cpu"))
    return accuracy(model, sources.test.batches(batch_size=51))


def main() -> None:
    """Fine-tune what is missing, test, record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/resolution"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, list[Evaluation]] = {}
    seconds = 0.0
    for seed in SEEDS:
        folders = {}
        for side in SIDES:
            folders[side] = options.runs / f"{side}-{seed}"
            run = fit(settings(side, seed), folders[side])
            seconds += run.result["wall_seconds"]
        for learned, side in CASES:
            config = settings(learned, seed)
            answer = tested(folders[learned], config, side)
            found.setdefault(f"{learned}-{side}", []).append(answer)
            print(seed, learned, side, answer, flush=True)
    metrics = {}
    for case, answers in found.items():
        learned, side = case.split("-")
        where = f"fine-tuned at {learned}, tested at {side}"
        for name, values, unit in (
            ("accuracy", [each.accuracy for each in answers], "percent"),
            ("cross_entropy", [each.loss for each in answers], "nats"),
        ):
            metrics[f"{name}/{case}"] = {
                "value": statistics.mean(values),
                "unit": f"{unit}, {where}",
                "per_seed": values,
            }
    config = settings(SIDES[0], SEEDS[0])
    dataset = open_sources(config, torch.device("cpu")).dataset
    result = {
        **result_fields(
            TARGET.stem, "python benchmarks/resolution_finetune.py", seconds
        ),
        "config": config.to_json(),
        "metrics": metrics,
        "seeds": list(SEEDS),
        "dataset": {
            "name": dataset.name,
            "digest": dataset.digest,
            "num_train": 244,
            "num_test": 153,
        },
        "notes": "config is that of 224 pixels and seed 0",
    }
    results.write(TARGET, result)


if __name__ == "__main__":
    main()
