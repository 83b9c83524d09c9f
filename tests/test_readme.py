import re
from pathlib import Path

import pytest

from vitedu import budget, results
from vitedu.train import RECIPES, recipe

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
ROWS = re.findall(
    r"^\| `vitedu train ([a-z0-9-]+)` \|(.*)\|$", TEXT, flags=re.MULTILINE
)


def test_the_table_has_a_row_for_every_recorded_recipe():
    recorded = [name for name in results.names() if name in RECIPES]
    assert sorted(name for name, _ in ROWS) == sorted(recorded)


@pytest.mark.parametrize(("name", "row"), ROWS)
def test_a_row_says_what_was_recorded(name, row):
    result = results.read(name)
    weights = budget.parameters(recipe(name, "cpu").model).total
    accuracy = result["metrics"]["test_accuracy"]["value"]
    cells = [cell.strip() for cell in row.split("|")]
    assert cells[:3] == [
        f"{weights:,}",
        f"{accuracy:.2f} %",
        str(len(result["seeds"])),
    ]


def test_the_ratio_is_the_recorded_one():
    ratio = results.read("mnist-time-to-96")["metrics"]["ratio"]
    low, high = min(ratio["per_seed"]), max(ratio["per_seed"])
    assert f"{ratio['value']:.1f} times ({low:.1f} to {high:.1f})" in " ".join(
        TEXT.split()
    )


def test_its_picture_and_links_are_there():
    links = re.findall(r"\]\(([^)#]+)\)", TEXT.replace("\n", " "))
    local = [link for link in links if "://" not in link]
    assert "book/first_vit.png" in local
    assert [link for link in local if not (ROOT / link).exists()] == []
