"""`vitedu predict`: what a trained model sees in pictures."""

import argparse
import csv
import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from vitedu.cli.output import Answer, Command, rows_in, say_notes, table
from vitedu.cli.overrides import OF_WEIGHTS, load_fields, split_words
from vitedu.cli.progress import with_progress
from vitedu.data.dataset import left_out
from vitedu.errors import UserError, counted
from vitedu.evaluate.classify import check_has_classes
from vitedu.evaluate.predict import (
    Found,
    Prediction,
    decoded,
    find_pictures,
    predict_all,
)
from vitedu.files import replace_file, user_path
from vitedu.model.mae import MAE
from vitedu.pictures import normalise
from vitedu.train import find_device
from vitedu.weights import load

FORMULA = tuple("=+-@\t\r\n")  # how formulas of a spreadsheet begin


def predict(options: argparse.Namespace) -> Answer:
    words, fields = split_words(options.words, OF_WEIGHTS)
    if len(words) < 2:
        raise UserError("predict needs WEIGHTS and at least one IMAGE")
    if options.top < 1:
        raise UserError(f"--top is {options.top}, it must be at least 1")
    weights, *images = words
    path = None if options.csv is None else table_path(options.csv)
    device = find_device(options.device)
    model = load(weights, device=device, **load_fields(fields))
    if options.complete is not None:
        drawn = user_path(options.complete)
        return completed(model, weights, find_pictures(images), drawn)
    check_has_classes(model, weights)
    found = find_pictures(images)
    top = min(options.top, model.config.num_classes)
    predictions = predict_all(model, found, top=top, invert=options.invert)
    has_folders = not all(each.is_required for each in found)
    if has_folders:
        predictions = with_progress(predictions, 1, len(found))
    everything = list(predictions)
    skipped = [each.error for each in everything if each.error]
    num_read = len(found) - len(skipped)
    if not num_read:
        raise UserError(
            "none of the pictures can be read; the first of "
            f"{len(skipped):,}: {skipped[0]}"
        )
    values: dict[str, Any] = {"weights": weights}
    if path is None:
        predicted, text = printed(everything)
        values["predictions"] = predicted
    else:
        write_table(path, everything, top)
        values["csv"] = str(path)
        text = f"{counted(num_read, 'picture')} in {path}"
    say_notes(left_out(tuple(skipped), num_read))
    if has_folders:
        values["num_pictures"] = num_read
        values["num_skipped"] = len(skipped)
        values["skipped"] = skipped
    return Answer(values, text)


def printed(
    predictions: Iterable[Prediction],
) -> tuple[list[dict[str, Any]], str]:
    values, rows = [], []
    for file, names, shares, indices, error in predictions:
        if error:
            continue
        classes = [
            {"class": name, "index": index, "probability": share}
            for name, index, share in zip(names, indices, shares, strict=True)
        ]
        values.append({"image": file, "top": classes})
        pairs = zip(names, shares, strict=True)
        texts = (f"{name} {100 * share:.1f}%" for name, share in pairs)
        rows.append((file, ", ".join(texts)))
    return values, table(rows)


def completed(
    model: Any, weights: str, found: list[Found], path: Path
) -> Answer:
    """Draw a row for each picture: covered, completed, and the original."""
    if not isinstance(model, MAE):
        raise UserError(
            "--complete needs a masked autoencoder with its decoder, such as "
            f"mae-mnist, and {weights} is a {type(model).__name__}"
        )
    if path.suffix.lower() != ".png":
        raise UserError(
            f"--complete needs the name of a file that ends in .png, got {path}"
        )
    spec, rows = model.preprocess, []
    like = next(model.parameters())
    for _, pixels in decoded(found, spec, invert=False):
        for each in pixels:
            if isinstance(each, str):
                continue
            images = normalise(each[None], spec).to(like)
            mask = model.draw_mask(images)
            with torch.no_grad():
                answer = model.complete(images, mask)
            parts = [model.covered(images, mask), answer, images]
            rows.append(torch.cat(parts, dim=3)[0].cpu())
    if not rows:
        raise UserError("none of the pictures can be read")
    strip = torch.cat(rows, dim=1)  # (c, h * pictures, 3 * w)
    mean, std = (torch.tensor(x).view(-1, 1, 1) for x in (spec.mean, spec.std))
    shown = (255 * (strip * std + mean)).round().clamp(0, 255).byte()
    file = io.BytesIO()
    drawn = shown.permute(1, 2, 0).squeeze(2).numpy()  # grey: (h, w)
    Image.fromarray(drawn).save(file, "PNG")
    replace_file(path, file.getvalue())
    values = {
        "weights": weights,
        "picture": str(path),
        "num_pictures": len(rows),
    }
    return Answer(values, f"{counted(len(rows), 'picture')} in {path}")


# --- the table


def table_path(name: str) -> Path:
    """Check the path first: the pictures may take an hour."""
    path = user_path(name)
    if path.suffix.lower() != ".csv":
        raise UserError(
            f"--csv needs the name of a file that ends in .csv, got {name}"
        )
    if not os.access(path.parent, os.W_OK):
        raise UserError(
            f"cannot write {path}: its folder is missing, or not writable"
        )
    return path


def write_table(
    path: Path, predictions: Iterable[Prediction], top: int
) -> None:
    """One row per picture; no cell begins like a formula of a spreadsheet."""

    def plain(text: str, mark: str = "'") -> str:
        return f"{mark}{text}" if text.startswith(FORMULA) else text

    header = ["file", "class", "probability"]
    for place in range(2, top + 1):
        header += [f"class_{place}", f"probability_{place}"]
    file = io.StringIO(newline="")
    # quoted, so that semicolons don't split it
    writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow([*header, "error"])
    for each in predictions:
        # the same file
        row: list[str | float] = [plain(each.file, os.path.join(".", ""))]
        for name, share in zip(each.names, each.probabilities, strict=True):
            row += [plain(name), round(share, 6)]
        row += [""] * (len(header) - len(row))
        writer.writerow([*row, plain(each.error)])
    replace_file(path, file.getvalue().encode("utf-8", "backslashreplace"))


PREDICT = Command(
    predict,
    usage="WEIGHTS IMAGE|FOLDER... [name=value ...]",
    summary="the likeliest classes of pictures",
    about="Say what pictures show: the likeliest classes of each, with their "
    "probabilities.",
    reads_weights=True,
    words=rows_in("""
        IMAGE  a picture that pillow can read; any number of them
        FOLDER  all pictures in it, however deep; those that can't be read
            are left out and listed
    """),
    examples=rows_in("""
        vitedu predict ViT-Ti/16 cat.jpg dog.jpg  two photographs
        vitedu predict runs/photos album --csv album.csv
            a folder of photographs, as a table
        vitedu predict mae-mnist five.png --complete five-completed.png
            a digit, completed from a quarter of its patches
        vitedu predict runs/mnist-tiny-1a2b3c4d five.png --invert --top 3
            a digit written in ink
    """),
    options=rows_in("""
        --top N  how many classes of each picture are shown; 5 by default
        --complete FILE  draw pictures with patches covered, completed by a
            masked autoencoder, and as they are, into a .png
        --csv FILE  write a table with a row for each picture: file, class,
            probability, the other classes of --top, and why a picture can't be
            read
        --invert  swap dark and light, since MNIST's digits are light on black:
            for a dark digit that fills the middle of a clean white picture
    """),
    defaults={"top": 5},
)
