"""`vitedu train`: a recipe, with fields of its configuration set by name."""

import argparse
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from vitedu.cli.answer import Answer, say
from vitedu.cli.before import Plan, lines_before, notes
from vitedu.cli.command import Command
from vitedu.cli.interrupt import Interrupt
from vitedu.cli.progress import Reporter
from vitedu.cli.settings import settings
from vitedu.errors import UserError
from vitedu.files import replace_file
from vitedu.results import read_file
from vitedu.train import (
    RECIPES,
    Progress,
    Start,
    TrainConfig,
    find_device,
    fit,
    override,
    recipe,
)
from vitedu.train.config import MAY_DIFFER, TIERS
from vitedu.train.finetune import finetune_config, tier_of
from vitedu.train.folder import RunFolder, differences
from vitedu.train.loop import this_process
from vitedu.train.precision import concrete
from vitedu.train.sources import class_names_of


def train(options: argparse.Namespace) -> Answer:
    """Train a recipe, or go on with a run; draw its curves."""
    plan = plan_of(options)
    folder = RunFolder(plan.out)
    is_first = this_process().is_first
    if options.fresh and is_first and (old := folder.set_aside()):
        say(f"the folder that was there is now {old}")
    if is_first and is_finished(folder, plan.config):
        say(f"{plan.out} holds this run, finished; --fresh repeats it")
    with Interrupt() as interrupt:
        watcher = Watcher(plan, interrupt)
        try:
            run = fit(
                plan.config,
                plan.out,
                on_start=watcher.start,
                on_progress=watcher.measured,
                should_stop=watcher.stepped,
                command=shlex.join(["vitedu", *options.arguments]),
            )
        finally:
            watcher.close()
        if is_first:
            draw_curves(run.history, plan.out)
    values = run.result | {"out": str(plan.out)}
    if run.result["status"] == "interrupted":
        text = f"interrupted {watcher.where()} and saved; the same command "
        return Answer(values, f"{text}goes on: {plan.out}", interrupt.code)
    test = run.result["metrics"]["test_accuracy"]["value"]
    trained = run.result["dataset"]
    lines = [
        f"test accuracy {test:.2f} % on {trained['num_test']:,} images of "
        f"{trained['name']}, {run.result['wall_seconds']:.0f} s of training",
        f"weights: {folder.weights}",
    ]
    return Answer(values, "\n".join(lines))


class Watcher:
    """What `fit` calls: it tells the user, and passes on that they want to stop."""

    def __init__(self, plan: Plan, interrupt: Interrupt) -> None:
        self.plan = plan
        self.interrupt = interrupt
        # of several processes, only the first one has it
        self.reporter: Reporter | None = None

    def start(self, start: Start) -> None:
        """Say what is about to be trained."""
        say(lines_before(start, self.plan))
        self.reporter = Reporter(start, notes(start))

    def measured(self, progress: Progress) -> None:
        """Show a measurement."""
        if self.reporter is not None:
            self.reporter.measured(progress)

    def stepped(self) -> bool:
        """Move the bar after a step; whether the run is to stop."""
        if self.reporter is not None:
            self.reporter.stepped()
        return self.interrupt.asked()

    def where(self) -> str:
        """How far the run is, for a sentence."""
        if self.reporter is None:
            return "before the last step"
        start = self.reporter.start
        return f"at step {start.state.step:,} of {start.num_steps:,}"

    def close(self) -> None:
        """Leave the terminal's line."""
        if self.reporter is not None:
            self.reporter.close()


def is_finished(folder: RunFolder, config: TrainConfig) -> bool:
    """Whether the folder holds this run, and it is done; not merely interrupted."""
    if not (folder.weights.is_file() and folder.result.is_file()):
        return False
    different, _ = differences(folder.read_config(), config)
    is_done = read_file(folder.result)["status"] == "finished"
    return is_done and not different


def plan_of(options: argparse.Namespace) -> Plan:
    """The configuration and the folder that the words and options of train mean."""
    names = [word for word in options.words if "=" not in word]
    given = dict(word.split("=", 1) for word in options.words if "=" in word)
    if "recipe" in given:
        raise UserError("recipe= is not a setting; name the recipe after train")
    if options.device != "auto":
        given.setdefault("device", options.device)
    if len(names) > 1:
        raise UserError(f"train takes one recipe, got {', '.join(names)}")
    if options.resume:
        return resumed(options, names, given)
    if not names:
        raise UserError(
            f"train wants a recipe; known: {', '.join(sorted(RECIPES))}"
        )
    tier = tier_asked(given.pop("tier", options.tier), options)
    plain, config = configured(names[0], tier, given)
    _, differs = differences(on_device(plain), config)
    if "model.num_classes" not in given:  # counted
        differs.pop("model.num_classes", None)
    out = options.out or Path("runs") / f"{config.recipe}-{config.digest()}"
    return Plan(config, Path(out), differs)


def configured(
    name: str, tier: str, given: dict[str, str]
) -> tuple[TrainConfig, TrainConfig]:
    """A recipe as it is, and with the fields that were given.

    Unless it is given, the number of classes is that of the data.
    """
    if name == "finetune":
        dataset = given.pop("dataset", None)
        weights, data = given.pop("weights", None), given.pop("data", None)
        plain = finetune_config(weights, data, tier, dataset=dataset)
        return plain, on_device(override(plain, given))
    plain = recipe(name, tier, given.pop("model", None))
    config = override(plain, given)
    if "model.num_classes" not in given:
        num_classes = len(class_names_of(config))
        if num_classes != config.model.num_classes:
            model = replace(config.model, num_classes=num_classes)
            config = replace(config, model=model)
    return plain, on_device(config)


def resumed(
    options: argparse.Namespace, names: list[str], given: dict[str, str]
) -> Plan:
    """The configuration in the folder, where only what may differ can be changed."""
    if options.fresh or options.out or options.tier is not None:
        raise UserError(
            "--resume uses the run's own folder and tier; leave out --fresh, --out "
            "and --tier"
        )
    config = RunFolder(options.resume).read_config()
    if names and names[0] != config.recipe:
        raise UserError(
            f"{options.resume} holds a run of {config.recipe}, not of {names[0]}"
        )
    changed = on_device(override(config, given))
    _, asked = differences(config, changed)
    if asked:
        raise UserError(
            f"{' and '.join(asked)} cannot change when a run goes on; only "
            f"{', '.join(MAY_DIFFER)} can"
        )
    return Plan(changed, Path(options.resume), {})


def on_device(config: TrainConfig) -> TrainConfig:
    """`config` with the device and the precision that "auto" means here."""
    device = find_device(config.device)
    return concrete(replace(config, device=str(device)), device)


def tier_asked(given: str | None, options: argparse.Namespace) -> str:
    """The tier asked for, or $VITEDU_TIER; else gpu on an accelerator, cpu without."""
    asked = given or os.environ.get("VITEDU_TIER")
    return asked or tier_of(options.device)


def draw_curves(history: list[dict[str, Any]], out: Path) -> None:
    """`curves.png` in the run folder, if there is anything to draw yet."""
    from vitedu import figures

    if not any("loss" in line for line in history):
        return
    figure, _ = figures.curves(history)
    try:
        replace_file(
            out / "curves.png",
            lambda file: figure.savefig(file, format="png", dpi=120),
        )
    except UserError as error:  # the run is complete without them
        say(str(error))


def add_options(parser: argparse.ArgumentParser) -> None:
    """What `vitedu train` takes."""
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="the run folder; by default runs/RECIPE-<digits of the settings>",
    )
    parser.add_argument(
        "--resume",
        metavar="DIR",
        help="go on with the run in DIR; its settings are there, so that "
        f"no recipe is needed, and only {', '.join(MAY_DIFFER)} can be changed",
    )
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="begin anew; the folder that is there is kept as DIR.1",
    )
    parser.add_argument(
        "--tier",
        metavar="TIER",
        help=f"{', '.join(TIERS)}: how much is computed; smoke is 20 steps, to see "
        "that it runs; by default $VITEDU_TIER, else gpu or cpu as the device is",
    )


TRAIN = Command(
    train,
    usage="RECIPE [field=value ...]",
    summary="train a recipe, or go on with a run",
    about="Train a recipe. A run that was stopped goes on with the same command, and "
    "ends with the weights that it would have had anyway; a finished one prints its "
    "result. Several processes share a run under `torchrun --nproc-per-node N -m "
    "vitedu train ...`, one a GPU.",
    words=[
        ("RECIPE", "where the settings come from; `vitedu info` lists them"),
        (
            "field=value",
            "another value of a setting. Those below are the defaults, `vitedu info "
            "RECIPE` shows a recipe's own. Unless it is given, model.num_classes is "
            "counted from the data",
        ),
        (
            "data=PATH",
            "your own photographs, in a folder for each class, or a FILE.npz",
        ),
    ],
    examples=[
        ("vitedu train digits", "seconds, nothing to download"),
        ("vitedu train mnist-tiny lr=3e-3 model.depth=4", "other settings"),
        (
            "vitedu train finetune weights=ViT-Ti/16 data=photos",
            "a trained model on your photographs",
        ),
        ("vitedu train --resume runs/digits-49b19050", "go on with a run"),
    ],
    add_options=add_options,
    sections=settings,
)
