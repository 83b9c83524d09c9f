"""The ledger page, from its rows and the recorded results.

    python tools/ledger.py

`book/ledger.toml` says which tables and figures the paper has, and what we
measure beside them; `vitedu/results` what was measured. `book/ledger.md` joins
the two. Nobody types a number or a state into it: equal rows and results give
an equal page.
"""

import argparse
import math
import re
import statistics
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from vitedu import results
from vitedu.errors import UserError, did_you_mean
from vitedu.files import replace_file

BOOK = Path(__file__).resolve().parents[1] / "book"
ROWS, PAGE = BOOK / "ledger.toml", BOOK / "ledger.md"
REPRODUCED, SMALL, OPEN = "reproduced", "small scale", "open"
RECOMPUTED, HELD = "recomputed", "held by a test"
MANY = 6  # more numbers than that are told as a range
LONGEST = 100  # characters of what else was recorded
GPU = "gpu-"  # begins the names of what benchmarks/gpu_day.py measures
POINTS = 0.3  # how far a reproduced number may be from the paper's
DEVIATIONS = 2  # or how many standard deviations of our own seeds
# of a row: those that must be there, and those that may
FIELDS = {
    "paper": (["id", "title", "chapter", "paper"], ["note", "command", "test"]),
    "ours": (["id", "title", "chapter", "aim", "command"], []),
}

Row = dict[str, Any]
Result = dict[str, Any]


class Rows(NamedTuple):
    """`book/ledger.toml`: chapters by number, rows in their order."""

    chapters: dict[int, dict[str, str]]
    paper: list[Row]
    ours: list[Row]


def read_rows(path: Path) -> Rows:
    """The rows. UserError: a field, id or chapter is missing or unknown."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        chapters = {
            int(each): it for each, it in found.get("chapters", {}).items()
        }
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as rows: {error}") from None
    rows = Rows(chapters, found.get("paper", []), found.get("ours", []))
    seen: set[str] = set()
    for kind, (needed, optional) in FIELDS.items():
        for row in getattr(rows, kind):
            name = row.get("id", "without an id")
            for field in row:
                if field not in needed + optional:
                    end = did_you_mean(field, needed + optional)
                    raise UserError(f"row {name} has a field {field!r}; {end}")
            for field in needed:
                if field not in row:
                    raise UserError(
                        f"row {name} needs {field!r}, which is missing"
                    )
            if "test" in row:
                check_test(name, row["test"])
            if row["chapter"] not in chapters:
                raise UserError(
                    f"row {name} names chapter {row['chapter']!r}, which "
                    "[chapters] does not list; write its number, 1 to "
                    f"{max(chapters)}"
                )
            if name in seen:
                raise UserError(f"row {name} is there twice")
            seen.add(name)
    return rows


def check_test(name: str, test: str) -> None:
    """UserError: the test that a row names isn't there."""
    file, _, function = test.partition("::")
    try:
        text = (BOOK.parent / file).read_text(encoding="utf-8")
    except OSError:
        text = ""
    if not function or f"\ndef {function}(" not in text:
        raise UserError(
            f"row {name} names the test {test!r}, which isn't there; write it "
            "as tests/FILE.py::test_name"
        )


def read_results() -> list[Result]:
    """Every recorded result, sorted by name."""
    return [results.read(name) for name in results.names()]


def assign(rows: Rows, recorded: Iterable[Result]) -> dict[str, list[Result]]:
    """The results of each row that has any.

    A result belongs to the row of the paper that its `reproduces` names, and to
    the row of ours that bears its name; those of other GPUs have the card's
    name behind it.
    UserError: it names a row that does not exist, or belongs nowhere.
    """
    paper = [row["id"] for row in rows.paper]
    ours = [row["id"] for row in rows.ours]
    found: dict[str, list[Result]] = {}
    for result in sorted(recorded, key=lambda each: each["name"]):
        name, claim = result["name"], result.get("reproduces")
        results.check(result, f"result {name}")
        if claim is not None:
            check_comparable(name, claim)
            if claim["row"] not in paper:
                raise UserError(
                    f"result {name} reproduces row {claim['row']!r}, which "
                    f"{ROWS.name} does not have; "
                    + did_you_mean(claim["row"], paper)
                )
            found.setdefault(claim["row"], []).append(result)
        if row := row_of(name, ours):
            found.setdefault(row, []).append(result)
        elif claim is None:
            raise UserError(
                f"result {name} belongs to no row of {ROWS.name}; add one of "
                f"ours with id = {name!r}, or say in the result what it "
                "reproduces"
            )
    return found


def row_of(name: str, ours: list[str]) -> str | None:
    """The row of ours that a result belongs to: "gpu-steps-tesla-t4" too."""
    for row in ours:
        is_other_card = row.startswith(GPU) and name.startswith(f"{row}-")
        if name == row or is_other_card:
            return row
    return None


def check_comparable(name: str, claim: dict[str, Any]) -> None:
    """UserError if `name` is at full scale but lacks one of two numbers."""
    for side in ("ours", "paper"):
        if claim["scale"] == "full" and isinstance(claim[side], str | None):
            raise UserError(
                f"result {name}: {side} is {claim[side]!r}; at full scale two "
                "numbers are compared"
            )


def state(row: Row, found: list[Result]) -> str:
    """What a row of the paper is by its results, or by its test.

    Reproduced if every result at full scale agrees; open if one does not.
    """
    full = [each for each in found if each["reproduces"]["scale"] == "full"]
    if full:
        return REPRODUCED if all(map(agrees, full)) else OPEN
    scales = {each["reproduces"]["scale"] for each in found}
    if found:
        return SMALL if "small" in scales else RECOMPUTED
    return HELD if "test" in row else OPEN


def agrees(result: Result) -> bool:
    """Whether ours is within 2 standard deviations or 0.3 points of theirs."""
    claim = result["reproduces"]
    difference = abs(claim["ours"] - claim["paper"])
    allowed = max(POINTS, DEVIATIONS * deviation(result))
    return difference < allowed or math.isclose(difference, allowed)


def deviation(result: Result) -> float:
    """Standard deviation of what was compared over seeds; 0.0 for one seed."""
    ours = result["reproduces"]["ours"]
    spreads = [
        statistics.stdev(metric["per_seed"])
        for metric in result["metrics"].values()
        if len(metric.get("per_seed", [])) > 1
        and math.isclose(metric["value"], ours, abs_tol=0.01)  # ours is rounded
    ]
    return max(spreads, default=0.0)


def page(rows: Rows, recorded: Iterable[Result]) -> str:
    """The text of `book/ledger.md`."""
    found = assign(rows, recorded)
    states = {
        row["id"]: state(row, found.get(row["id"], [])) for row in rows.paper
    }
    counts = Counter(states.values())
    cited = [each for row in rows.paper for each in found.get(row["id"], [])]
    names = [row["id"] for row in rows.ours]
    behind = {
        each["name"]: each for each in cited if not row_of(each["name"], names)
    }
    parts = [
        OPENING.format(
            rows=len(rows.paper),
            reproduced=counts[REPRODUCED],
            small=counts[SMALL],
            recomputed=counts[RECOMPUTED],
            held=counts[HELD],
            open=counts[OPEN],
        ),
        unwritten(rows),
        "## Tables of the paper",
        table(rows, "table-", found, states),
        "## Figures of the paper",
        table(rows, "figure-", found, states),
        "## In the paper's text alone",
        table(rows, ("section-", "appendix-"), found, states),
        "## What we measure beside it",
        OURS_OPENING,
    ]
    for row in rows.ours:
        parts.append(f"### {row['id']}\n\n{row['title']}.")
        parts.append(
            f"Chapter: {chapter(rows, row)}. Aim: {row['aim']}.\n"
            f"State: {'recorded' if row['id'] in found else '*open*'}."
        )
        if row["id"] in found:
            parts += [run(each) for each in found[row["id"]]]
        else:
            parts.append(f"To fill it:\n\n{shell(row['command'])}")
    parts += on_gpus(rows, found)
    at_full = [
        row
        for row in rows.paper
        if "command" in row and states[row["id"]] != REPRODUCED
    ]
    if at_full:
        parts += ["## Rows to fill at full scale", FULL_OPENING]
        for row in at_full:
            command = shell(row["command"].strip())
            parts.append(f"### {called(row)}\n\n{row['title']}.\n\n{command}")
    if behind:
        parts.append("## Runs behind the rows of the paper")
        for name in sorted(behind):
            parts.append(f"### {name}\n\n{run(behind[name])}")
    text = "\n\n".join(filter(None, parts)) + "\n"
    return re.sub(r"(?<=\d) %", "%", text)  # records have a space


OPENING = """\
<!-- Written by tools/ledger.py from ledger.toml and vitedu/results. \
Not by hand. -->

(ledger)=
# The ledger

Which results of the paper {{cite}}`dosovitskiy2021` have we reproduced? \
Every table
and every figure has a row here, and so has what stands in its text alone. Of \
{rows} rows,
{reproduced} are reproduced, {small} are reproduced at a small scale, \
{recomputed} are
recomputed from the paper's own numbers, {held} are held by a test, and {open} \
are open.

* **reproduced**: run at the paper's own scale. \
Our number is within 0.3 points of the
  paper's, or within two standard deviations of our own seeds.
* **small scale**: the same question, asked with smaller networks or less \
data. The
  answer is ours; it doesn't confirm the paper's number.
* **recomputed**: what the paper concludes, computed again from the numbers \
that it
  prints. Nothing was trained.
* **held by a test**: settings or sizes, not a measurement. Ours are the \
paper's, and a
  test says so.
* *open*: not run yet, or run at full scale and not close enough.

The state covers the numbers in that row, not every cell of the paper's table. \
It is
computed from the recorded runs that the package carries in `vitedu/results`; \
nobody
types it in."""

OURS_OPENING = """\
Each number comes from a recorded run. \
The number after ± is the standard error of the
mean, and n is the number of seeds."""


GPU_OPENING = """\
Everything that needs a GPU is cut into lots of a few minutes: \
`python benchmarks/gpu_day.py
--list`. If you have a card that isn't here, `make gpu` runs them, and the \
records are
welcome as a pull request."""

FULL_OPENING = """\
We haven't had the machines or the data for these. The commands are ready. \
FOLDER is
ImageNet; expect hours or days of a large GPU."""


def table(
    rows: Rows,
    prefix: str | tuple[str, ...],
    found: dict[str, list[Result]],
    states: dict[str, str],
) -> str:
    """The rows of the paper whose id begins with `prefix`, as a table."""
    lines = [
        "| row | what it shows | chap. | the paper | ours | state |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows.paper:
        if not row["id"].startswith(prefix):
            continue
        ours = "; ".join(map(claim_text, found.get(row["id"], [])))
        lines.append(
            line(
                called(row),
                row["title"],
                chapter(rows, row),
                row["paper"],
                ours or row.get("note", "\u2013"),
                {OPEN: "*open*"}.get(
                    states[row["id"]], f"**{states[row['id']]}**"
                ),
            )
        )
    return "\n".join(lines)


def on_gpus(rows: Rows, found: dict[str, list[Result]]) -> list[str]:
    """Which lots of `benchmarks/gpu_day.py` have run on which card."""
    lots = [row for row in rows.ours if row["id"].startswith(GPU)]
    if not lots:
        return []
    lines = ["| lot | what it measures | recorded on |", "|---|---|---|"]
    for row in lots:
        cards = [
            f"{each['hardware']}, {each['date']}"
            + (", in part" if each["status"] == "interrupted" else "")
            for each in found.get(row["id"], [])
        ]
        name = row["id"].removeprefix(GPU)
        lines.append(line(name, row["title"], "; ".join(cards) or "*open*"))
    return ["## What has run on a GPU", GPU_OPENING, "\n".join(lines)]


def called(row: Row) -> str:
    """What the paper calls it: "Table 5", "Appendix D.9"."""
    kind, _, number = str(row["id"]).partition("-")
    return f"{kind.capitalize()}\u00a0{number.upper()}"


def line(*cells: str) -> str:
    """One line of a table."""
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def chapter(rows: Rows, row: Row) -> str:
    """The number of a row's chapter, linked once the chapter is written."""
    number = row["chapter"]
    page = rows.chapters[number].get("page")
    return f"[{number}]({page}.ipynb)" if page else str(number)


def unwritten(rows: Rows) -> str:
    """The chapters without a page yet, in a sentence; empty if all have one."""
    titles = [
        f"{number} {known['title']}"
        for number, known in sorted(rows.chapters.items())
        if "page" not in known
    ]
    return f"Not written yet: {'; '.join(titles)}." if titles else ""


def claim_text(result: Result) -> str:
    """What a result says of its row, in a few words."""
    claim = result["reproduces"]
    text = plain(claim["ours"])
    if claim["paper"] is not None:
        text += f" against {plain(claim['paper'])}"
    return f"{text} ({claim['scale']}, n = {claim['n']}, `{result['name']}`)"


def run(result: Result) -> str:
    """Numbers, hardware, date and command of one result."""
    metrics = result["metrics"]
    details = {
        name: ", ".join(
            f"{each.replace('_', ' ')} {beside(metric[each])}"
            for each in sorted(metric.keys() - {"value", "unit", "per_seed"})
        )
        for name, metric in metrics.items()
    }
    heads = ["measure", "value", "error", "unit"]
    if any(details.values()):
        heads.append("and also")
    lines = [line(*heads), "|---" * len(heads) + "|"]
    for name in sorted(metrics, key=natural):
        metric = metrics[name]
        cells = [
            name.replace("_", " "),
            *value_and_error(metric),
            metric["unit"],
        ]
        lines.append(line(*cells, *([details[name]] if len(heads) > 4 else [])))
    data = result["dataset"]
    seeds = ", ".join(map(str, result["seeds"]))
    facts = [
        f"Seed{'s' if len(result['seeds']) > 1 else ''} {seeds}",
        f"tier {result['tier']}",
        f"data {data['name']} ({data['num_train']:,} and {data['num_test']:,} "
        "images)",
        result["hardware"],
        f"torch {result['versions'].get('torch', 'not recorded')}",
        f"{result['wall_seconds']:,.0f} seconds in all",
        result["date"],
    ]
    if result["commit"]:
        facts.append(f"commit {result['commit'][:10]}")
    text = "\n".join(lines) + "\n\n" + " · ".join(facts) + "."
    if "notes" in result:
        text += f"\n\nNote: {result['notes']}."
    return text + "\n\n" + shell(result["command"])


def natural(name: str) -> list[tuple[str, int]]:
    """A key that puts 2 before 10 inside names."""
    parts = re.findall(r"(\D*)(\d*)", name)
    return [(word, int(digits or 0)) for word, digits in parts]


def shell(command: str) -> str:
    """A command as a block, one line for each of those joined by &&."""
    return "```sh\n" + command.replace(" && ", " &&\n") + "\n```"


def value_and_error(metric: dict[str, Any]) -> tuple[str, str]:
    """A metric's value and what its seeds say of it, as text."""
    percent = metric["unit"].startswith("percent")
    value, each = metric["value"], metric.get("per_seed", [])
    text = f"{value:.2f}" if percent else number(value)
    if not each:
        return text, "\u2013"
    if len(each) == 1:
        return text, "n = 1"
    if math.isclose(value, statistics.fmean(each)):
        error = statistics.stdev(each) / math.sqrt(len(each))
        wide = f"± {error:.2f}" if percent else f"± {error:.2g}"
    else:  # a median
        low, high = min(each), max(each)
        wide = (
            f"{low:.2f} to {high:.2f}"
            if percent
            else (f"{number(low)} to {number(high)}")
        )
    return text, f"{wide} (n = {len(each)})"


def number(value: float) -> str:
    """Four digits that count, no exponent for large ones."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def plain(value: object) -> str:
    """Numbers in four digits, of many the range; anything else as it is."""
    if isinstance(value, list) and all(
        isinstance(x, int | float) for x in value
    ):
        if len(value) > MANY:
            return f"{number(min(value))} to {number(max(value))}"
        return "; ".join(map(number, value))
    return number(value) if isinstance(value, int | float) else str(value)


def beside(value: object) -> str:
    """What was recorded beside a number, if that is short."""
    text = plain(value)
    return text if len(text) <= LONGEST else "(in the record)"


def main(arguments: list[str] | None = None) -> int:
    """Write the page; exit code 2 for what the user can mend."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.parse_args(arguments)
    try:
        text = page(read_rows(ROWS), read_results())
        replace_file(PAGE, text)
    except UserError as error:
        print(f"ledger: {error}", file=sys.stderr)
        return 2
    print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
