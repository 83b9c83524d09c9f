"""`vitedu explain`: a page on what a ViT sees in a photograph."""

import argparse
import os
from pathlib import Path

from vitedu.cli.output import Answer, Command, rows_in
from vitedu.cli.overrides import OF_WEIGHTS, load_fields, split_words
from vitedu.data.readers.folder import is_picture
from vitedu.errors import UserError
from vitedu.files import make_folder, replace_file, user_path
from vitedu.interpret import explain as explanation
from vitedu.train import find_device
from vitedu.weights import load

OURS = "ViT-Ti/16"


def explain(options: argparse.Namespace) -> Answer:
    words, fields = split_words(options.words, OF_WEIGHTS)
    if not words:
        raise UserError("explain needs at least one PHOTO")
    weights, *photos = words
    # a photograph in front: no weights are named
    if is_picture(weights) or not photos:
        weights, photos = OURS, words
    out = user_path(options.out)
    pages = [out / f"{Path(photo).stem}-explained.html" for photo in photos]
    if twice := {x.name for x in pages if pages.count(x) > 1}:
        raise UserError(
            f"two photographs would have the page {min(twice)}; explain them "
            "one by one, with another --out"
        )
    model = load(
        weights, device=find_device(options.device), **load_fields(fields)
    )
    from vitedu.figures.report.explanation import render

    values, lines = [], []
    for photo, page in zip(photos, pages, strict=True):
        found = explanation(model, user_path(photo))
        make_folder(out)
        name = os.path.basename(photo)
        replace_file(page, render(found, model, name, weights))
        answers = [{"class": x, "probability": y} for x, y in found.answers]
        values.append({"image": photo, "page": str(page), "top": answers})
        said = "".join(f", {x} {100 * y:.1f}%" for x, y in found.answers[:1])
        lines.append(f"{photo}{said}: {page}")
    return Answer({"weights": weights, "pages": values}, "\n".join(lines))


EXPLAIN = Command(
    explain,
    usage="[WEIGHTS] PHOTO... [name=value ...]",
    summary="a page on what a ViT sees in a photograph",
    about="Write a page for each photograph: the answers, what reaches them, "
    "what every block looks at and how far, the tokens as colours, and a test "
    "of whether the map is true.",
    reads_weights=True,
    words=rows_in("""
        PHOTO  a picture that pillow can read; any number of them. Without
            WEIGHTS, ViT-Ti/16 looks at it
    """),
    examples=rows_in("""
        vitedu explain cat.jpg  writes cat-explained.html
        vitedu explain runs/finetune-1a2b3c4d ant.jpg bee.jpg --out pages
            with a model of your own
    """),
    options=rows_in("""
        --out DIR  the folder for the pages; by default this one
    """),
    defaults={"out": "."},
)
