"""`vitedu report`, and the page that `vitedu train` leaves in a run folder."""

import argparse
import os
from dataclasses import replace
from typing import Any

import torch

from vitedu import results
from vitedu.cli.output import Answer, Command, rows_in, say, say_notes
from vitedu.cli.overrides import split_words
from vitedu.data import Source
from vitedu.data.array_sets import is_array_set
from vitedu.errors import UserError, reason
from vitedu.files import replace_file
from vitedu.train import Run, TrainConfig, find_device
from vitedu.train.data import open_sources
from vitedu.train.run_folder import RunFolder
from vitedu.weights import load


def report(options: argparse.Namespace) -> Answer:
    words, fields = split_words(options.words, ("data",))
    if len(words) != 1:
        raise UserError("report needs one RUN, the folder of a run")
    folder = RunFolder(words[0])
    config = folder.read_config()
    for path in (folder.result, folder.weights):
        if not os.path.isfile(path):
            raise UserError(
                f"{path} is missing; `vitedu train --resume {folder.path}` "
                "goes on with the run, and writes it"
            )
    if not config.needs_labels:
        raise UserError(
            f"the network in {folder.path} learned without labels, so there "
            "are no answers to report on; curves.png shows its loss, and "
            "`vitedu predict RUN PICTURE --complete FILE` what it can do"
        )
    result = results.read_file(folder.result)
    device = find_device(options.device)
    run = Run(result, folder.history(), load(folder.weights, device=device))
    test = find_test_part(config, result, device, fields.get("data"))
    from vitedu.figures.report.page import write_report

    measured = write_report(run, folder, test)
    correct = measured.answers.is_correct.tolist() if measured else []
    missing = test if isinstance(test, str) else None
    if missing:
        say_notes([f"the test pictures are missing: {missing}"])
    path = str(folder.report)
    values = {"report": path, "missing": missing}
    values |= {"num_images": len(correct), "num_correct": sum(correct)}
    return Answer(values, f"report: {path}")


def find_test_part(
    config: TrainConfig,
    result: dict[str, Any],
    device: torch.device,
    data: str | None,
) -> Source | str:
    """The run's test part, else a sentence that says why it is missing."""
    if given := sorted({"train", "test"} & config.given_names.keys()):
        return f"the run was given its data in Python ({', '.join(given)})"
    if data is not None:
        is_beside = config.data is not None or is_array_set(config.dataset)
        config = replace(config, **{"data" if is_beside else "dataset": data})
    try:
        sources = open_sources(config, device)
        if sources.dataset.digest != result["dataset"]["digest"]:
            raise UserError(
                "the data aren't those of the run, so pictures that it was "
                "trained on may be among those that would be held out now"
            )
    except UserError as error:
        if data is not None:
            raise
        return (
            f"{error}; if they have moved, `vitedu report RUN data=FOLDER` "
            "draws this page with them"
        )
    return sources.test


def draw_curves(run: Run, folder: RunFolder) -> None:
    """Draw curves.png, if there are any; an error doesn't fail the run."""
    if not any("loss" in line for line in run.history):
        return
    try:
        from vitedu import figures

        figure, _ = figures.curves(run.history)
        replace_file(
            folder.path / "curves.png",
            lambda file: figure.savefig(file, format="png", dpi=120),
        )
    except Exception as error:
        say(f"curves.png could not be drawn: {reason(error)}")


REPORT = Command(
    report,
    usage="RUN [data=PATH]",
    summary="draw the page report.html of a run",
    about="Draw the report of a run: curves, confusions, the most confident "
    "answers with attention maps, and how to load the model. `vitedu train` "
    "draws it after a run on pictures; this command does so for any run. Of "
    "more than 10,000 test pictures it looks at an even share.",
    words=rows_in("""
        RUN  the folder of a run
        data=PATH  where its data are now, if they have moved
    """),
    examples=rows_in("""
        vitedu report runs/finetune-1a2b3c4d  the page of a run
        vitedu report runs/finetune-1a2b3c4d data=/mnt/photos
            whose photographs have moved
    """),
)
