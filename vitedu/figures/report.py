"""The report of a run: one page that needs nothing else, on screen or paper.

`report(Contents(...))` is its HTML. Whatever comes from names of files and
classes is escaped, and the page forbids scripts and requests of any kind.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from vitedu.evaluate.confusion import Predictions
from vitedu.figures.report_charts import charts
from vitedu.figures.report_pictures import jpeg, lit
from vitedu.figures.report_style import STYLE
from vitedu.figures.report_tables import classes, confusions, settings, text

MOST_SKIPPED = 100  # sentences about pictures that were left out
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


@dataclass(frozen=True, eq=False)
class Example:
    """A test picture, what it shows, and what the model says.

    `picture` is (3, h, w) in 0..1, as the model saw it; `shares` (gh, gw) is
    what of each patch reaches the answer, None where nobody knows.
    """

    name: str
    picture: Tensor
    label: str
    predicted: str
    probability: float
    shares: Tensor | None


@dataclass(frozen=True, eq=False)
class Measured:
    """What the model says of the test pictures."""

    answers: Predictions
    right: tuple[Example, ...]  # the most confident first
    wrong: tuple[Example, ...]


@dataclass(frozen=True, eq=False)
class Contents:
    """All that a report says.

    `result` and `history` are the run's own; `run` is how to name its folder,
    `model` describes the network in a line. `changed` is what differs from the
    recipe, None if nobody knows the recipe. `missing` says why there is nothing
    in `measured`.
    """

    run: str
    model: str
    result: Mapping[str, Any]
    history: list[dict[str, Any]]
    class_names: Sequence[str]
    settings: Mapping[str, str]
    changed: Mapping[str, str] | None
    measured: Measured | None
    missing: str = ""


def report(contents: Contents) -> str:
    """The whole page."""
    title = headline(contents.result)
    body = "\n".join(
        [
            f"<h1>{text(title)}</h1>",
            f'<p class="soft">{text(contents.model)}</p>',
            numbers(contents),
            section("Training", training(contents.history)),
            *tested(contents),
            section("Left out", left_out(contents.result)),
            section("Use this model", usage(contents)),
            section("Settings", all_settings(contents)),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n"
        f'<link rel="icon" href="data:,">\n<style>{STYLE}</style>\n</head>\n'
        f"<body>\n<main>\n{body}\n</main>\n{foot(contents.result)}\n</body>\n"
        "</html>\n"
    )


def section(title: str, content: str) -> str:
    """A part of the page under its title."""
    return f"<section><h2>{title}</h2>\n{content}\n</section>"


def headline(result: Mapping[str, Any]) -> str:
    """The result in a line: "photos: 96.73 % of the test pictures right"."""
    name = result["dataset"]["name"]
    accuracy = result["metrics"].get("test_accuracy")
    if accuracy is None:
        return f"{name}: stopped before the end"
    return f"{name}: {accuracy['value']:.2f} % of the test pictures right"


def numbers(contents: Contents) -> str:
    """The numbers that one looks for first."""
    result = contents.result
    data, metrics = result["dataset"], result["metrics"]
    pairs = {
        f"{part} accuracy": f"{metrics[f'{part}_accuracy']['value']:.2f} %"
        for part in ("test", "validation")
        if f"{part}_accuracy" in metrics
    }
    pairs |= {
        "test pictures": f"{data['num_test']:,}",
        "training pictures": f"{data['num_train']:,}",
        "classes": f"{len(contents.class_names):,}",
        "training": duration(result["wall_seconds"]),
    }
    rows = "".join(
        f"<div><dt>{name}</dt><dd>{text(value)}</dd></div>"
        for name, value in pairs.items()
    )
    return f'<dl class="numbers">{rows}</dl>'


def duration(seconds: float) -> str:
    """ "59 s", "12 min", "3 h 20 min"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours:,} h {minutes} min" if hours else f"{minutes} min"


def training(history: list[dict[str, Any]]) -> str:
    """The curves."""
    drawn = [
        f"<figure><figcaption>{each.title}</figcaption>"
        f'<div role="img" aria-label={quoted(each.alt)}>{each.svg}</div>'
        "</figure>"
        for each in charts(history)
    ]
    if not drawn:
        return "<p>Nothing was measured before the run was stopped.</p>"
    return f'<div class="charts">{"".join(drawn)}</div>'


def tested(contents: Contents) -> list[str]:
    """Confusions, classes and pictures, or why they are missing."""
    measured, names = contents.measured, contents.class_names
    if measured is None:
        words = f"They are missing here: {text(contents.missing)}."
        return [section("Test pictures", f'<p class="note">{words}</p>')]
    num_shown = len(measured.answers.labels)
    num_test = contents.result["dataset"]["num_test"]
    words = ""
    if num_shown < num_test:
        words = (
            f'<p class="note">This part is about {num_shown:,} of the '
            f"{num_test:,} test pictures, evenly spread, so its numbers can "
            "differ a little from those above.</p>"
        )
    return [
        section(
            "Which classes it confuses",
            words + confusions(measured.answers, names),
        ),
        section("Class by class", classes(measured.answers, names)),
        section("Most confident answers", pictures(measured)),
    ]


def pictures(measured: Measured) -> str:
    """The examples, right and wrong."""
    words = (
        "Each test picture as the model saw it, after resizing and cropping."
    )
    if any(x.shares is not None for x in (*measured.right, *measured.wrong)):
        words += (
            " Beside it the same picture, dark where little of it reaches the "
            "answer and bright where much does (attention rollout)."
        )
    parts = [f"<p>{words}</p>"]
    for title, found in (("Wrong", measured.wrong), ("Right", measured.right)):
        cards = "".join(map(card, found)) or "<p>None.</p>"
        parts.append(f'<h3>{title}</h3><div class="cards">{cards}</div>')
    return "\n".join(parts)


def card(example: Example) -> str:
    """A picture, its map, and what the model says."""
    images = [image(example.picture, f"{example.name}, a test picture")]
    if example.shares is not None:
        lighted = lit(example.picture, example.shares)
        images.append(image(lighted, map_words(example.shares)))
    said = f"<b>{text(example.predicted)}</b>, {sure(example.probability)} sure"
    if example.predicted != example.label:
        said += f"; it's <b>{text(example.label)}</b>"
    return (
        f'<figure><div class="pair">{"".join(images)}</div><figcaption>{said}'
        f'<span class="file">{text(example.name)}</span></figcaption></figure>'
    )


def sure(probability: float) -> str:
    """A probability in percent, which is never rounded up to certainty."""
    return (
        "over 99.9 %" if probability > 0.9995 else f"{100 * probability:.1f} %"
    )


def image(picture: Tensor, alt: str) -> str:
    """An image inside the page."""
    return f"<img src={quoted(jpeg(picture))} alt={quoted(alt)}>"


def map_words(shares: Tensor) -> str:
    """Where most of an answer comes from."""
    rows, columns = shares.shape
    row, column = divmod(int(shares.argmax()), columns)
    return (
        f"Attention map of {rows} by {columns} patches; most comes from row "
        f"{row + 1}, column {column + 1}."
    )


def left_out(result: Mapping[str, Any]) -> str:
    """The pictures that could not be read."""
    skipped = result["dataset"].get("skipped", [])
    if not skipped:
        return "<p>Nothing: every picture could be read.</p>"
    noun = "picture" if len(skipped) == 1 else "pictures"
    items = "".join(f"<li>{text(each)}</li>" for each in skipped[:MOST_SKIPPED])
    found = f"<p>{len(skipped):,} {noun} could not be read:</p><ul>{items}</ul>"
    more = len(skipped) - MOST_SKIPPED
    if more > 0:
        found += f"<p>And {more:,} more; result.json lists them.</p>"
    return found


def usage(contents: Contents) -> str:
    """How to load the model, in Python and from the shell."""
    height, width = contents.result["config"]["model"]["image_size"]
    channels = contents.result["config"]["model"]["in_channels"]
    code = (
        "import vitedu\n\n"
        f"model = vitedu.load({contents.run!r})\n"
        'images = vitedu.preprocess(model, "photo.jpg")'
        f"  # (1, {channels}, {height}, {width})\n"
        'print(vitedu.classify(model, "photo.jpg"))'
    )
    shell = f"vitedu predict {shlex.quote(contents.run)} FOLDER --csv out.csv"
    return (
        f"{code_block(code)}"
        "<p>Or for a whole folder, from the shell:</p>"
        f"{code_block(shell)}"
    )


def all_settings(contents: Contents) -> str:
    """What differs from the recipe, then everything."""
    recipe, changed = contents.result["config"]["recipe"], contents.changed
    command = code_block(contents.result["command"])
    if changed is None:
        differs = f"<p>{text(recipe)} is not a recipe of this version.</p>"
    elif changed:
        words = f"Not as in the recipe {recipe}"
        differs = f"<p>{text(words)}:</p>{settings(changed, words)}"
    else:
        differs = f"<p>All as in the recipe {text(recipe)}.</p>"
    everything = settings(contents.settings, "All settings")
    return (
        f"<p>The run was started with:</p>{command}{differs}"
        f"<details><summary>All settings</summary>{everything}</details>"
    )


def foot(result: Mapping[str, Any]) -> str:
    """Where and when."""
    versions = ", ".join(
        f"{name} {version}"
        for name, version in sorted(result["versions"].items())
    )
    parts = [result["date"], result["hardware"], versions]
    if result["commit"]:
        parts.append(f"commit {result['commit'][:12]}")
    return f"<footer>{text(' · '.join(parts))}</footer>"


def quoted(value: str) -> str:
    """An attribute's value in quotes."""
    return f'"{text(value)}"'


def code_block(code: str) -> str:
    """Lines to be copied."""
    lines = "\n".join(map(text, code.split("\n")))
    return f'<pre tabindex="0"><code>{lines}</code></pre>'
