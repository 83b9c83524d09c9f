"""Lot 9: waste by material, the recipes `trashnet` and `trashnet-384`.

At tier gpu, three seeds each, from the weights in the package; the runs are
kept, for `resolution_trashnet.py`. Without `--data` a smoke test takes the 120
photographs of the package.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from lots import Options, Outcome, in_pieces
from lots.finetune import SEEDS, outcome, reduced, trained
from lots.pack import WASTE
from vitedu.train import TrainConfig, recipe

RECIPES = ("trashnet", "trashnet-384")


def run(options: Options) -> Iterator[Outcome]:
    """Yield what is measured so far after every run."""
    seeds = SEEDS[:1] if options.smoke else SEEDS
    configs = {name: configured(name, options) for name in RECIPES}
    pieces = {
        f"{name}-{seed}": partial(
            trained,
            f"{name}-{seed}",
            config,
            seed,
            options.folder / "runs" / f"{name}-{seed}",
        )
        for seed in seeds
        for name, config in configs.items()
    }
    note = "the same objects are in different parts, which flatters accuracies"
    yield from in_pieces(options, pieces, partial(outcome, configs, note))


def configured(name: str, options: Options) -> TrainConfig:
    """The recipe on the photographs that were packed."""
    packed = options.data and str(options.data / WASTE)
    config = replace(
        recipe(name, "gpu"),
        dataset=packed or "trashnet-small",
        num_workers=0 if options.smoke else 8,
        device=str(options.device),
    )
    return reduced(config) if options.smoke else config
