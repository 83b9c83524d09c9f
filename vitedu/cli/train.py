"""`vitedu train`: a recipe, with settings as name=value."""

import argparse
import shlex
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from vitedu.bench.trial import MEASURED, WARM_UP, out_of_memory, try_run
from vitedu.cli.info import on_device, readable_hours, tier_for
from vitedu.cli.output import Answer, Command, rows_in, say, table, wrapped
from vitedu.cli.overrides import check_settings, split_words
from vitedu.cli.progress import Reporter, announcement
from vitedu.cli.report import draw_curves
from vitedu.errors import UserError, counted, readable_bytes
from vitedu.files import user_path
from vitedu.train import (
    RECIPES,
    Start,
    TrainConfig,
    find_device,
    fit,
    override,
    recipe,
)
from vitedu.train.config import MAY_DIFFER, TIERS, differences
from vitedu.train.data import data_classes
from vitedu.train.finetune import finetune_config, with_choice, with_weights
from vitedu.train.fit import finished_run
from vitedu.train.processes import from_environment
from vitedu.train.run_folder import OtherRun, RunFolder
from vitedu.train.watch.interrupt import Interrupt

CTRL_C = 130  # the shells' exit code for a program ended by Ctrl-C


def train(options: argparse.Namespace) -> Answer:
    config, out = plan_of(options)
    run = dry_run if options.dry_run else trained
    try:
        return run(config, out, options)
    except OtherRun as error:
        if options.resume is not None:
            raise
        raise UserError(
            f"{error} (--out DIR trains elsewhere, --fresh starts again)"
        ) from None


# --- what the words mean


def plan_of(options: argparse.Namespace) -> tuple[TrainConfig, Path]:
    names, fields = split_words(options.words)
    if "recipe" in fields:
        raise UserError("recipe= is not a setting; name the recipe after train")
    if options.device != "auto":
        fields.setdefault("device", options.device)
    if len(names) > 1:
        raise UserError(f"train takes one recipe, got {', '.join(names)}")
    if options.resume is not None:
        return resumed(options, names, fields)
    if not names:
        raise UserError(
            f"train needs a recipe; known: {', '.join(sorted(RECIPES))}"
        )
    tier = tier_for(options, fields.pop("tier", options.tier))
    config = configured(names[0], tier, fields)
    out = Path("runs") / f"{config.recipe}-{on_device(config).digest()}"
    if options.out is not None:
        out = user_path(options.out)
    if not options.fresh:
        config = RunFolder(out).kept(config)
    return on_device(config), out


def configured(name: str, tier: str, fields: dict[str, str]) -> TrainConfig:
    check_settings(fields)
    if name == "finetune":
        dataset = fields.pop("dataset", None)
        weights, data = fields.pop("weights", None), fields.pop("data", None)
        config = finetune_config(weights, data, tier, dataset=dataset)
        return with_choice(override(config, fields), fields)
    config = recipe(name, tier, fields.pop("model", None))
    if config.weights is not None and "weights" in fields:
        weights = fields.pop("weights")
        if weights != config.weights:
            named = {x: fields[x] for x in ("dataset", "data") if x in fields}
            num_classes = len(data_classes(override(config, named)))
            config = with_weights(config, weights, num_classes)
    config = override(config, fields)
    if config.needs_labels and "model.num_classes" not in fields:
        num_classes = len(data_classes(config))
        if num_classes != config.model.num_classes:
            model = replace(config.model, num_classes=num_classes)
            config = replace(config, model=model)
    return config


def resumed(
    options: argparse.Namespace, names: list[str], fields: dict[str, str]
) -> tuple[TrainConfig, Path]:
    if options.fresh or options.out is not None or options.tier is not None:
        raise UserError(
            "--resume uses the run's own folder and tier; leave out --fresh, "
            "--out and --tier"
        )
    out = user_path(options.resume)
    config = RunFolder(out).read_config()
    if names and names[0] != config.recipe:
        raise UserError(
            f"{out} contains a run of {config.recipe}, not of {names[0]}"
        )
    new = on_device(override(config, fields))
    _, changed = differences(config, new)
    if changed:
        raise UserError(
            f"{' and '.join(changed)} cannot change when a run goes on; only "
            f"{', '.join(MAY_DIFFER)} can"
        )
    return new, out


# --- the run


def trained(
    config: TrainConfig, out: Path, options: argparse.Namespace
) -> Answer:
    folder = RunFolder(out)
    is_first = from_environment().is_first
    if options.fresh and is_first and (old := folder.set_aside()):
        say(f"the run that was there is now in {old}")
    reporter = Reporter(out)
    with Interrupt() as interrupt:

        def stepped() -> bool:
            reporter.stepped()
            return interrupt.is_requested()

        try:
            run = fit(
                config,
                out,
                on_start=reporter.start,
                on_progress=reporter.measured,
                should_stop=stepped,
                progress=False,
                command=shlex.join(["vitedu", *options.arguments]),
            )
        except torch.cuda.OutOfMemoryError:
            device = torch.device(config.device)
            raise out_of_memory(config, device) from None
        finally:
            reporter.close()
        begun = reporter.begun
        if is_first:
            draw_curves(run, folder)
    values = run.result | {"out": str(out)}
    if run.result["status"] == "interrupted":
        where = "before the last step"
        if begun:
            where = f"at step {begun.state.step:,} of {begun.num_steps:,}"
        text = f"interrupted {where} and saved; the same command goes on: "
        # 0 after SIGTERM: to a scheduler, anything else is a failure
        code = CTRL_C if interrupt.number == signal.SIGINT else 0
        return Answer(values, f"{text}{out}", code)
    if is_first and begun is None:
        say(f"this run in {out} was already finished; --fresh repeats it")
    metrics, data = run.result["metrics"], run.result["dataset"]
    if config.needs_labels:
        found = f"test accuracy {metrics['test_accuracy']['value']:.2f}%"
    else:
        found = f"test loss {metrics['test_loss']['value']:.4g}"
    text = (
        f"{found} on "
        f"{counted(data['num_test'], 'image')} of {data['name']}, "
        f"{run.result['wall_seconds']:.0f} s of training\n"
        f"weights: {folder.weights}"
    )
    return Answer(
        values, f"{text}\nreport: {run.report}" if run.report else text
    )


# --- what a run would take


def dry_run(
    config: TrainConfig, out: Path, options: argparse.Namespace
) -> Answer:
    """Take a few steps with a copy of the weights; the folder isn't touched."""
    processes = from_environment()
    device = processes.device(find_device(config.device))
    values: dict[str, Any] = {"dry_run": True, "out": str(out)}

    def announce(start: Start) -> None:
        say(announcement(start, out))
        steps = min(WARM_UP + MEASURED, start.num_steps)
        say(f"taking at most {counted(steps, 'step')} to time them")

    with processes.connected(device):
        done: int | None = 0
        if not options.fresh:
            done = processes.on_rank0(lambda: steps_done(config, out))
        if done is None:
            text = f"the run in {out} is finished; nothing would be done"
            return Answer(values | {"finished": True}, text)
        values |= try_run(
            config,
            device,
            steps_done=done,
            on_memory=lambda x: say(wrapped("memory  ", memory_line(x))),
            on_start=announce,
        )
    return Answer(values, forecast(values) if processes.is_first else "")


def steps_done(config: TrainConfig, out: Path) -> int | None:
    """The last step in the folder's log; None if the run is finished."""
    folder = RunFolder(out)
    if not folder.path.exists():  # to look into it would make it
        return 0
    if finished_run(folder, config) is not None:
        return None
    folder.check(config)
    return max([0, *(line["step"] for line in folder.history())])


def forecast(values: dict[str, Any]) -> str:
    data, took = values["data"], values.get("time")
    rows = [("classes", f"{data['num_classes']:,}")]
    if "smallest" in data:  # else only reading the images would tell
        few, many = data["smallest"], data["largest"]
        sizes = (
            f"{counted(few['count'], 'image')} to train on in the smallest "
            f"({few['class']}), {many['count']:,} in the largest "
            f"({many['class']})"
        )
        rows[0] = ("classes", f"{data['num_classes']:,}; {sizes}")
    if pictures := pictures_line(data):
        rows.append(("pictures", pictures))
    memory = memory_line(values["memory"])
    if took and "peak_memory" in took:
        memory += f"; {readable_bytes(took['peak_memory'])} were measured"
    rows.append(("memory", memory))
    if took:
        training = readable_hours(took["training_seconds"] / 3600)
        evaluation = readable_hours(took["evaluation_seconds"] / 3600)
        speed = took["images_per_second"]
        of = f"median of {took['measured_steps']} measured"
        if took["measured_images"] < took["batch_size"]:
            of += f", with {counted(took['measured_images'], 'image')}"
        line = (
            f"{training} for {counted(took['steps'], 'step')} of "
            f"{took['step_seconds']:.3g} s ({of}), "
            f"{speed:,.{0 if speed >= 10 else 2}f} images/s, "
            f"{100 * took['data_wait']:.0f}% of it waiting for data"
        )
        images = (
            f"{evaluation} for {counted(took['evaluated_images'], 'image')}"
        )
        rows += [("training", line), ("evaluation", f"{images}, estimated")]
    elif values["memory"]["enough"]:
        line = "not timed: a single image would take about a minute here"
        rows.append(("training", line))
    return table(rows)


def pictures_line(data: dict[str, Any]) -> str:
    if left_out := data["left_out"]:
        return (
            f"{len(left_out):,} can't be read and are left out; the first: "
            f"{left_out[0]}"
        )
    if "sample" not in data:
        return ""
    count, wrong = data["sample"]["count"], data["sample"]["unreadable"]
    if wrong:
        return (
            f"{100 * len(wrong) / count:.1f}% of a sample of {count} can't be "
            f"read; the first: {wrong[0]}"
        )
    return f"all of a sample of {count} can be read"


def memory_line(memory: dict[str, Any]) -> str:
    free = f"{readable_bytes(memory['available'])} are free"
    line = f"{readable_bytes(memory['needed']['total'])} are needed, {free}"
    if memory["enough"]:
        return f"{line}: enough"
    advice = "take a smaller batch_size, model or images"
    if memory["add"]:
        advice = f"add {memory['add']}"
    return f"{line}: not enough; {advice}"


TRAIN = Command(
    train,
    usage="RECIPE [field=value ...]",
    summary="train a recipe, or go on with a run",
    about="Train a recipe. A run that was stopped goes on with the same "
    "command, and ends with the weights that it would have had anyway; a "
    "finished one prints its result. Several processes share a run under "
    "`torchrun --nproc-per-node N -m vitedu train ...`, one per GPU.",
    words=rows_in("""
        RECIPE  where the settings come from; `vitedu info` lists them
        field=value  another value of a setting: `vitedu help settings` lists
            them all with their defaults, `vitedu info RECIPE` shows a recipe's
            own. Unless it is given, model.num_classes is counted from the data
        data=PATH  your own photographs, in a folder for each class, or a
            FILE.npz
    """),
    examples=rows_in("""
        vitedu train digits  seconds, nothing to download
        vitedu train mnist-tiny lr=3e-3 model.depth=4  other settings
        vitedu train finetune weights=ViT-Ti/16 data=photos
            a trained model on your photographs
        vitedu train imagenet-b16-384 data=imagenet --dry-run
            what it would take here
        vitedu train --resume runs/digits-49b19050  go on with a run
    """),
    options=rows_in(f"""
        --out DIR  the run folder; by default runs/RECIPE-<digits of the
            settings>
        --resume DIR  go on with the run in DIR; its settings are there, so no
            recipe is needed, and only {", ".join(MAY_DIFFER)} can be changed
        --fresh  start again; the run that is in the folder is kept as DIR.1
        --dry-run  say within a minute whether memory will do, how long it takes
            here (from a few steps), and what the data are; the run folder isn't
            touched
        --tier TIER  {", ".join(TIERS)}: how much is computed; smoke is 20
            steps, to see that it runs; by default $VITEDU_TIER, else gpu or
            cpu, depending on the device
    """),
    completions=lambda: sorted(RECIPES),
)
