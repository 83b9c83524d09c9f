"""`vitedu predict`: what a trained model sees in pictures."""

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tqdm import tqdm

from vitedu.cli.answer import Answer, table
from vitedu.cli.command import Command
from vitedu.cli.predictions import (
    Prediction,
    check_pictures,
    find_pictures,
    folder_called,
    predict_all,
)
from vitedu.cli.progress import EVERY
from vitedu.cli.spreadsheet import (
    path_cell,
    table_path,
    text_cell,
    write_table,
)
from vitedu.cli.talk import say, wrapped
from vitedu.cli.words import (
    FIELDS_HELP,
    OF_WEIGHTS,
    WEIGHTS,
    load_model,
    split_words,
)
from vitedu.errors import UserError
from vitedu.evaluate.classify import check_has_classes, class_names
from vitedu.train import find_device

MOST_PRINTED = 1000  # pictures; more go into a table
MOST_NOTED = 3  # sentences about unreadable pictures in a note
MOST_LISTED = 100  # and in the answer; a table has all of them


def predict(options: argparse.Namespace) -> Answer:
    """The likeliest classes of each picture, with their probabilities."""
    words, fields = split_words(options.words, OF_WEIGHTS)
    if len(words) < 2:
        raise UserError("predict needs WEIGHTS and at least one IMAGE")
    if options.top < 1:
        raise UserError(f"--top is {options.top}, it must be at least 1")
    weights, *images = words
    path = None if options.csv is None else table_path(options.csv)
    device = find_device(options.device)
    model = load_model(weights, fields, device)
    check_has_classes(model, weights)
    check_pictures(images)
    if path is None:
        check_few(images)
    names = class_names(model, model.config.num_classes)
    top = min(options.top, len(names))
    found = find_pictures(images)
    counted = Counted(
        with_progress(
            predict_all(model, found, top=top, invert=options.invert), images
        )
    )
    if path is None:
        answer = printed(counted, names)
    else:
        answer = tabled(counted, names, top, path)
    if counted.num_skipped:
        say(wrapped("note: ", counted.note()))
    values = {"weights": weights, **answer.values}
    if any(map(folder_called, images)):
        values["num_pictures"] = counted.num_predicted
        values["num_skipped"] = counted.num_skipped
        values["skipped"] = counted.skipped
    return answer._replace(values=values)


class Counted:
    """Predictions as they pass by, and what is left of them in the end.

    UserError at the end: there were pictures, but none could be read.
    """

    def __init__(self, predictions: Iterator[Prediction]) -> None:
        self.predictions = predictions
        self.num_predicted = 0
        self.num_skipped = 0
        self.skipped: list[str] = []  # the first MOST_LISTED sentences

    def __iter__(self) -> Iterator[Prediction]:
        for each in self.predictions:
            if each.error:
                self.num_skipped += 1
                self.skipped += [each.error][: MOST_LISTED - len(self.skipped)]
            else:
                self.num_predicted += 1
            yield each
        if not self.num_predicted:
            raise UserError(
                "none of the pictures can be read; the first of "
                f"{self.num_skipped:,}: {self.skipped[0]}"
            )

    def note(self) -> str:
        """How many pictures cannot be read, and why the first of them."""
        verb = "is" if self.num_skipped == 1 else "are"
        num_more = self.num_skipped - MOST_NOTED
        more = f"; and {num_more:,} more" if num_more > 0 else ""
        return (
            f"{self.num_skipped:,} of {self.num_skipped + self.num_predicted:,}"
            f" pictures {verb} left out: "
            f"{'; '.join(self.skipped[:MOST_NOTED])}{more}"
        )


def printed(counted: Counted, names: tuple[str, ...]) -> Answer:
    """A line a picture on stdout."""
    predictions: list[dict[str, Any]] = []
    rows = []
    for file, pairs, error in counted:
        if error:
            continue
        classes = [
            {"class": names[index], "index": index, "probability": share}
            for index, share in pairs
        ]
        predictions.append({"image": file, "top": classes})
        texts = (f"{names[index]} {100 * x:.1f} %" for index, x in pairs)
        rows.append((file, ", ".join(texts)))
    return Answer({"predictions": predictions}, table(rows))


def tabled(
    counted: Counted, names: tuple[str, ...], top: int, path: Path
) -> Answer:
    """A row a picture in a CSV, also for those that cannot be read."""
    header = ["file", "class", "probability"]
    for place in range(2, top + 1):
        header += [f"class_{place}", f"probability_{place}"]
    header.append("error")
    write_table(path, header, (cells(each, names, top) for each in counted))
    text = f"{counted.num_predicted:,} pictures in {path}"
    return Answer({"csv": str(path)}, text)


def cells(
    prediction: Prediction, names: tuple[str, ...], top: int
) -> list[str | float]:
    """The row of a picture."""
    row: list[str | float] = [path_cell(prediction.file)]
    for index, share in prediction.classes:
        row += [text_cell(names[index]), round(share, 6)]
    row += [""] * (2 * (top - len(prediction.classes)))
    return [*row, text_cell(prediction.error)]


def check_few(images: list[str]) -> None:
    """UserError if there are too many pictures for lines on a screen."""
    found = islice(find_pictures(images), MOST_PRINTED + 1)
    if sum(1 for _ in found) > MOST_PRINTED:
        raise UserError(
            f"there are more than {MOST_PRINTED:,} pictures, which are too "
            "many to print; write them into a table with --csv FILE.csv"
        )


def with_progress(
    predictions: Iterator[Prediction], images: list[str]
) -> Iterator[Prediction]:
    """A bar on a terminal if there are folders, a line a minute elsewhere."""
    if not any(map(folder_called, images)):
        yield from predictions
        return
    if sys.stderr.isatty():
        total = sum(1 for _ in find_pictures(images))
        yield from tqdm(
            predictions,
            total=total,
            unit="picture",
            file=sys.stderr,
            dynamic_ncols=True,
        )
        return
    next_line = time.monotonic() + EVERY
    for number, prediction in enumerate(predictions, start=1):
        yield prediction
        if time.monotonic() >= next_line:
            say(f"{number:,} pictures so far")
            next_line = time.monotonic() + EVERY


def add_options(parser: argparse.ArgumentParser) -> None:
    """What `vitedu predict` takes."""
    parser.add_argument(
        "--top",
        type=int,
        default=5,
        metavar="N",
        help="how many classes of each picture are shown; 5 by default",
    )
    parser.add_argument(
        "--csv",
        metavar="FILE",
        help="write a table with a row for each picture: file, class, "
        "probability, the other classes of --top, and why a picture can't be "
        "read",
    )
    parser.add_argument(
        "--invert",
        action="store_true",
        help="swap dark and light, since MNIST's digits are light on black: "
        "for a dark digit that fills the middle of a clean white picture",
    )


PREDICT = Command(
    predict,
    usage="WEIGHTS IMAGE|FOLDER... [name=value ...]",
    summary="the likeliest classes of pictures",
    about="Say what pictures show: the likeliest classes of each, with their "
    "probabilities.",
    words=[
        *WEIGHTS,
        ("IMAGE", "a picture that pillow can read; any number of them"),
        (
            "FOLDER",
            "all pictures in it, however deep; those that can't be read are "
            "left out and listed",
        ),
        *FIELDS_HELP,
    ],
    examples=[
        ("vitedu predict ViT-Ti/16 cat.jpg dog.jpg", "two photographs"),
        (
            "vitedu predict runs/photos album --csv album.csv",
            "a folder of photographs, as a table",
        ),
        (
            "vitedu predict runs/mnist-tiny-1a2b3c4d five.png --invert --top 3",
            "a digit written in ink",
        ),
    ],
    add_options=add_options,
    fields=lambda: OF_WEIGHTS,
)
