"""`vitedu train`: a recipe, with fields of its configuration set by name."""

import argparse
import os
import shlex
from typing import Any

from vitedu.cli.announcement import announcement, notes
from vitedu.cli.answer import Answer
from vitedu.cli.command import Command
from vitedu.cli.dry_run import dry_run
from vitedu.cli.interrupt import Interrupt
from vitedu.cli.plan import Plan, plan_of
from vitedu.cli.progress import Reporter
from vitedu.cli.report import draw_report
from vitedu.cli.settings import overview, setting_names
from vitedu.cli.talk import say
from vitedu.data import Source
from vitedu.errors import UserError, reason
from vitedu.files import replace_file
from vitedu.train import RECIPES, Progress, Start, fit
from vitedu.train.config import MAY_DIFFER, TIERS
from vitedu.train.processes import from_environment
from vitedu.train.run_folder import OtherRun, RunFolder


def train(options: argparse.Namespace) -> Answer:
    """Train a recipe, go on with a run, or say what either would take."""
    plan = plan_of(options)
    try:
        if options.dry_run:
            return dry_run(plan, fresh=options.fresh)
        return trained(plan, options)
    except OtherRun as error:
        if options.resume is not None:
            raise
        raise UserError(
            f"{error} (--out DIR trains elsewhere, --fresh starts again)"
        ) from None


def trained(plan: Plan, options: argparse.Namespace) -> Answer:
    """Train, and draw the curves and the report."""
    folder = RunFolder(plan.out)
    is_first = from_environment().is_first
    if options.fresh and is_first and (old := folder.set_aside()):
        say(f"the run that was there is now in {old}")
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
            draw_curves(run.history, folder)
        page = None
        if is_first and run.result["status"] == "finished":
            stop = interrupt.is_requested
            page = draw_report(run, folder, watcher.test, stop)
    values = run.result | {"out": str(plan.out)}
    if run.result["status"] == "interrupted":
        text = f"interrupted {watcher.where()} and saved; the same command "
        return Answer(values, f"{text}goes on: {plan.out}", interrupt.code)
    if is_first and watcher.reporter is None:
        say(f"this run in {plan.out} was already finished; --fresh repeats it")
    test = run.result["metrics"]["test_accuracy"]["value"]
    trained = run.result["dataset"]
    lines = [
        f"test accuracy {test:.2f} % on {trained['num_test']:,} images of "
        f"{trained['name']}, {run.result['wall_seconds']:.0f} s of training",
        f"weights: {folder.weights}",
    ]
    if page is not None:
        lines.append(f"report: {page}")
    return Answer(values, "\n".join(lines))


class Watcher:
    """What `fit` calls: tells the user, and passes on their wish to stop."""

    def __init__(self, plan: Plan, interrupt: Interrupt) -> None:
        self.plan = plan
        self.interrupt = interrupt
        # None before the start, and in all processes but the first
        self.reporter: Reporter | None = None

    def start(self, start: Start) -> None:
        """Say what is about to be trained."""
        say(announcement(start, self.plan))
        self.reporter = Reporter(start, notes(start))

    @property
    def test(self) -> Source | None:
        """The test part; None if the run was finished before."""
        if self.reporter is None:
            return None
        return self.reporter.start.sources.test

    def measured(self, progress: Progress) -> None:
        """Show a measurement."""
        if self.reporter is not None:
            self.reporter.measured(progress)

    def stepped(self) -> bool:
        """Move the bar after a step; whether the run is to stop."""
        if self.reporter is not None:
            self.reporter.stepped()
        return self.interrupt.is_requested()

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


def draw_curves(history: list[dict[str, Any]], folder: RunFolder) -> None:
    """`curves.png` in the run folder, if there is anything to draw yet.

    The run is complete without it, so nothing that goes wrong here ends it.
    """
    if not any("loss" in line for line in history):
        return
    # no window is needed, and the user's kind of window may not be available
    os.environ["MPLBACKEND"] = "agg"
    try:
        from vitedu import figures

        figure, _ = figures.curves(history)
        with folder.locked():
            # the run has left its folder, and another may have begun there
            if folder.history() == history:
                replace_file(
                    folder.path / "curves.png",
                    lambda file: figure.savefig(file, format="png", dpi=120),
                )
    except Exception as error:
        say(f"curves.png could not be drawn: {reason(error)}")


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
        help="go on with the run in DIR; its settings are there, so no recipe "
        f"is needed, and only {', '.join(MAY_DIFFER)} can be changed",
    )
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="start again; the run that is in the folder is kept as DIR.1",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="say whether memory will do, how long it takes here (from "
        "10 steps), and what the data are; the run folder isn't touched",
    )
    parser.add_argument(
        "--tier",
        metavar="TIER",
        help=f"{', '.join(TIERS)}: how much is computed; smoke is 20 steps, to "
        "see that it runs; by default $VITEDU_TIER, else gpu or cpu, "
        "depending on the device",
    )


TRAIN = Command(
    train,
    usage="RECIPE [field=value ...]",
    summary="train a recipe, or go on with a run",
    about="Train a recipe. A run that was stopped goes on with the same "
    "command, and ends with the weights that it would have had anyway; a "
    "finished one prints its result. Several processes share a run under "
    "`torchrun --nproc-per-node N -m vitedu train ...`, one per GPU.",
    words=[
        ("RECIPE", "where the settings come from; `vitedu info` lists them"),
        (
            "field=value",
            "another value of a setting. Those below are the defaults, `vitedu "
            "info RECIPE` shows a recipe's own. Unless it is given, "
            "model.num_classes is counted from the data",
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
        (
            "vitedu train imagenet-b16-384 data=imagenet --dry-run",
            "what it would take here",
        ),
        ("vitedu train --resume runs/digits-49b19050", "go on with a run"),
    ],
    add_options=add_options,
    fields=setting_names,
    completions=lambda: sorted(RECIPES),
    more_help=overview,
)
