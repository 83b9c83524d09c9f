"""The ledger: states from results, unknown rows refused, an up-to-date page."""

import random

import ledger
import pytest

from tests.train.runs import sentence as refused
from vitedu import results

TABLES = [f"table-{number}" for number in range(1, 10)]
FIGURES = [f"figure-{number}" for number in range(1, 15)]
TEXTS = ["section-4.1", "appendix-b.1.2", "appendix-d.9"]
TOML = """
[chapters]
1 = { title = "Images", page = "01_images" }
7 = { title = "The recipe" }

[[paper]]
id = "table-2"
title = "A comparison"
chapter = 7
paper = "88.55"
note = "Not tried."
command = "vitedu train large"

[[paper]]
id = "figure-1"
title = "A drawing"
chapter = 1
paper = "a drawing"

[[ours]]
id = "digits"
title = "A first success"
chapter = 1
aim = "90%"
command = "vitedu train digits"
"""


def result(name="a-run", *, accuracy=(98.0,), reproduces=None, **changes):
    """A recorded result; `accuracy` has a value a seed."""
    made = {
        "schema": 1,
        "status": "finished",
        "name": name,
        "command": f"vitedu train {name}",
        "config": {},
        "tier": "gpu",
        "metrics": {
            "test_accuracy": {
                "value": sum(accuracy) / len(accuracy),
                "unit": "percent",
                "per_seed": list(accuracy),
            }
        },
        "seeds": list(range(len(accuracy))),
        "dataset": {
            "name": "mnist",
            "digest": "0",
            "num_train": 60_000,
            "num_test": 10_000,
        },
        "hardware": "a processor, 2 threads",
        "versions": {"torch": "2.13.0"},
        "commit": None,
        "date": "2026-01-31",
        "wall_seconds": 90.0,
    } | changes
    if reproduces is not None:
        made["reproduces"] = reproduces
    results.check(made, name)  # what this test makes is what the writer accepts
    return made


def claim(ours=88.5, paper=88.5, scale="full", row="table-2", n=1):
    return {"row": row, "scale": scale, "ours": ours, "paper": paper, "n": n}


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "ledger.toml"
    path.write_text(TOML)
    return ledger.read_rows(path)


# --- the rows


def test_every_table_and_figure_of_the_paper_and_every_chapter_is_there():
    rows = ledger.read_rows(ledger.ROWS)
    assert [row["id"] for row in rows.paper] == TABLES + FIGURES + TEXTS
    ours = {row["id"] for row in rows.ours}
    assert {"mnist-seed", "mnist-tiny", "mnist-small"} < ours
    chapters = rows.chapters
    assert [*chapters] == [*range(1, 21)]
    for text in (ledger.BOOK / "text").glob("[0-9][0-9]_*.py"):
        assert chapters[int(text.name[:2])].get("page") == text.stem


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('note = "Not tried."', 'nots = "Not tried."', "did you mean 'note'"),
        ('note = "Not tried."', 'test = "tests/x.py::y"', "isn't there"),
        ('note = "Not tried."', 'test = "CHANGELOG.md"', "isn't there"),
        ('aim = "90%"\n', "", "digits needs 'aim'"),
        ('id = "digits"\n', "", "without an id needs 'id'"),
        ("chapter = 7", "chapter = 8", "chapter 8, which"),
        ("chapter = 7", 'chapter = "7"', "chapter '7', which"),
        ('id = "figure-1"', 'id = "table-2"', "table-2 is there twice"),
        ('id = "digits"', 'id = "table-2"', "table-2 is there twice"),
        ("[chapters]", "[chapters", "cannot be read as rows"),
        ("7 = {", "seven = {", "cannot be read as rows"),
    ],
)
def test_rows_that_cannot_be_meant_are_one_sentence(
    tmp_path, old, new, message
):
    assert old in TOML
    path = tmp_path / "ledger.toml"
    path.write_text(TOML.replace(old, new, 1))
    assert message in refused(ledger.read_rows, path)
    assert "cannot be read" in refused(ledger.read_rows, tmp_path / "no.toml")


# --- the states


def state(*found, **row):
    return ledger.state(row, list(found))


def test_a_row_is_open_or_held_by_its_test_until_there_is_a_run():
    assert state() == "open"
    test = "tests/train/test_recipes.py::test_table_4_is_the_printed_one"
    assert state(test=test) == "held by a test"
    small = result(reproduces=claim(1, 2, scale="small"))
    assert state(small, test=test) == "small scale"


@pytest.mark.parametrize(
    ("ours", "paper", "want"),
    [
        (88.5, 88.5, "reproduced"),
        (88.8, 88.5, "reproduced"),  # 0.3 points, in spite of rounding
        (88.2, 88.5, "reproduced"),
        (88.81, 88.5, "open"),
        (88.19, 88.5, "open"),
        (90, 88.5, "open"),  # better is not reproduced
    ],
)
def test_a_single_full_run_is_held_to_three_tenths_of_a_point(
    ours, paper, want
):
    assert state(result(reproduces=claim(ours, paper))) == want


@pytest.mark.parametrize(
    ("paper", "want"), [(86.01, "reproduced"), (85.9, "open")]
)
def test_several_seeds_are_held_to_two_of_their_deviations(paper, want):
    # 87, 88, 89: mean 88, standard deviation 1
    ours = result(
        accuracy=(87.0, 88.0, 89.0), reproduces=claim(88.0, paper, n=3)
    )
    assert state(ours) == want


@pytest.mark.parametrize(
    ("ours", "paper"),
    [(50.0, 88.5), (50.0, None), ("the same order", "curves")],
)
def test_a_small_run_is_small_scale_whatever_it_found(ours, paper):
    small = result(reproduces=claim(ours, paper, "small"))
    assert state(small) == "small scale"


def test_a_full_run_outranks_a_small_one_and_all_must_agree():
    small = result(reproduces=claim(50.0, 88.5, "small"))
    good, bad = (result(reproduces=claim(ours)) for ours in (88.5, 80.0))
    assert state(small, good) == state(good, good) == "reproduced"
    assert state(small, bad) == state(good, bad) == state(bad, good) == "open"


def test_a_recomputed_row_is_called_so_until_something_is_trained():
    again = result(reproduces=claim("2.8 to 5.9", "2 to 4", "recomputed"))
    small = result(reproduces=claim(50.0, 88.5, "small"))
    assert state(again) == state(again, again) == "recomputed"
    assert state(again, small) == "small scale"
    assert state(again, result(reproduces=claim())) == "reproduced"


# --- results and rows


def test_a_result_may_stand_in_a_row_of_each_kind(rows):
    both = result("digits", reproduces=claim())
    assert ledger.assign(rows, [both]) == {"table-2": [both], "digits": [both]}


@pytest.mark.parametrize(
    ("reproduces", "messages"),
    [
        (claim(ours="88.5"), ["ours is '88.5'"]),
        (claim(paper=None), ["paper is None"]),
        (claim(row="tabel-2"), ["row 'tabel-2'", "did you mean 'table-2'"]),
        (claim(row="digits"), ["row 'digits'"]),  # one of ours
        (None, ["lost belongs to no row", "id = 'lost'"]),
    ],
)
def test_a_claim_without_its_row_or_numbers_is_refused(
    rows, reproduces, messages
):
    lost = result("lost", reproduces=reproduces)
    said = refused(ledger.assign, rows, [lost])
    assert "result lost" in said and all(each in said for each in messages)


# --- the page


def section(text, heading):
    """What stands between a heading and the next of its rank or above."""
    rank = heading.split(" ")[0]
    inside, lines = False, []
    for each in text.splitlines():
        if each.startswith("#") and len(each.split(" ")[0]) <= len(rank):
            inside = each == heading
        elif inside:
            lines.append(each)
    assert lines, heading
    return "\n".join(lines)


def test_a_row_links_the_chapter_that_is_written_and_names_the_other(rows):
    text = ledger.page(rows, [])
    assert "| Figure\u00a01 | A drawing | [1](01_images.ipynb) |" in text
    assert "| Table\u00a02 | A comparison | 7 |" in text
    assert "Not written yet: 7 The recipe.\n" in text
    rows.chapters[7]["page"] = "06_recipe"
    assert "Not written yet" not in ledger.page(rows, [])


def test_a_result_puts_numbers_and_state_into_its_row_instead_of_a_note(rows):
    assert "| Not tried. | *open* |" in ledger.page(rows, [])
    ours = result("full-run", reproduces=claim(88.41, 88.55, n=3))
    text = ledger.page(rows, [ours])
    row = next(each for each in text.splitlines() if "A comparison" in each)
    assert row.endswith(
        "| 88.41 against 88.55 (full, n = 3, `full-run`) | **reproduced** |"
    )
    assert (
        "Of 2 rows,\n1 are reproduced, 0 are reproduced at a small scale, "
        "0 are\nrecomputed from the paper's own numbers, 0 are held by a test, "
        "and 1 are open." in text
    )
    assert "Not tried." not in text


def test_a_run_behind_a_row_is_shown_with_its_circumstances(rows):
    ours = result("full-run", accuracy=(88.4, 88.6), reproduces=claim())
    shown = section(ledger.page(rows, [ours]), "### full-run")
    assert "| test accuracy | 88.50 | ± 0.10 (n = 2) | percent |" in shown
    for each in ("a processor, 2 threads", "2026-01-31", "90 seconds"):
        assert each in shown
    assert "```sh\nvitedu train full-run\n```" in shown


def test_a_row_of_ours_names_its_command_and_then_shows_its_run(rows):
    shown = section(ledger.page(rows, []), "### digits")
    assert "State: *open*." in shown
    assert "```sh\nvitedu train digits\n```" in shown
    ours = result("digits", accuracy=(91.0,), commit="0123456789abcdef" * 2)
    shown = section(ledger.page(rows, [ours]), "### digits")
    assert "State: recorded." in shown
    assert "| test accuracy | 91.00 | n = 1 | percent |" in shown
    assert "commit 0123456789." in shown


def test_a_row_of_the_paper_names_what_fills_it_until_it_is_full(rows):
    small = result(reproduces=claim(80.0, 88.5, "small"))
    for known in ([], [small]):
        shown = section(ledger.page(rows, known), "### Table\u00a02")
        assert "A comparison." in shown
        assert "```sh\nvitedu train large\n```" in shown
    full = ledger.page(rows, [result(reproduces=claim())])
    assert "vitedu train large" not in full
    assert "at full scale\n" not in full


def test_what_ran_on_which_gpu_is_a_table(rows):
    title = "Steps on a GPU"
    row = {"title": title, "chapter": 1, "aim": "x", "command": "run"}
    rows.ours.extend([row | {"id": "gpu-steps"}, row | {"id": "gpu-feed"}])
    first = result("gpu-steps", hardware="NVIDIA H100")
    other = result(
        "gpu-steps-tesla-t4", hardware="Tesla T4", status="interrupted"
    )
    text = ledger.page(rows, [first, other])
    shown = section(text, "## What has run on a GPU")
    cards = "NVIDIA H100, 2026-01-31; Tesla T4, 2026-01-31, in part"
    assert f"| steps | {title} | {cards} |" in shown
    assert f"| feed | {title} | *open* |" in shown
    assert "## Runs behind" not in text


def test_equal_rows_and_results_give_an_equal_page(rows):
    made = [
        result("digits"),
        result("run-a", reproduces=claim()),
        result("run-b", reproduces=claim(scale="small")),
    ]
    text = ledger.page(rows, made)
    assert ledger.page(rows, made) == ledger.page(rows, made[::-1]) == text
    # the order of fields is no part of a result
    other = [dict(random.Random(0).sample([*r.items()], len(r))) for r in made]
    assert ledger.page(rows, other) == text


def test_the_page_is_what_the_command_writes(tmp_path, monkeypatch, capsys):
    page = ledger.PAGE.read_text(encoding="utf-8")
    monkeypatch.setattr(ledger, "PAGE", tmp_path / "ledger.md")
    assert ledger.main([]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'ledger.md'}\n"
    assert page == ledger.PAGE.read_text(encoding="utf-8"), (
        "book/ledger.md is not what book/ledger.toml and vitedu/results make; "
        "run: python tools/ledger.py"
    )


def test_the_command_says_in_one_sentence_what_to_mend(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(ledger, "ROWS", tmp_path / "ledger.toml")
    monkeypatch.setattr(ledger, "PAGE", tmp_path / "ledger.md")
    assert ledger.main([]) == 2
    message = capsys.readouterr().err
    assert message.startswith("ledger: ") and message.count("\n") == 1
    assert not ledger.PAGE.exists()
