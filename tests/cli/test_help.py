"""The help of the command and `vitedu info`: found without reading the site."""

from dataclasses import fields

import pytest

from vitedu.cli import main
from vitedu.cli.main import COMMANDS, parser_of
from vitedu.cli.overrides import NO_WORDS, settings
from vitedu.data import Augment
from vitedu.model import ViTConfig
from vitedu.train import RECIPES, TrainConfig, override, recipe


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch, here):
    """A terminal of 80 columns, on a computer without data."""
    monkeypatch.setenv("COLUMNS", "80")


def printed(capsys, *words):
    """What a command prints."""
    assert main([*words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_of_its_own(capsys, name):
    out = printed(capsys, name, "--help")
    assert out == printed(capsys, name, "-h") == printed(capsys, "help", name)
    assert out.startswith(f"usage: vitedu {name} ")
    assert "examples:\n  vitedu " in out
    for action in parser_of(name)._actions:
        assert action.help, action.option_strings
        assert all(option in out for option in action.option_strings)


@pytest.mark.parametrize(
    "words",
    [["info"], ["help", "settings"], *([x, "--help"] for x in COMMANDS), []],
)
def test_the_help_fits_80_columns(capsys, words):
    assert max(map(len, printed(capsys, *words).splitlines())) <= 80


def test_the_help_of_all_has_a_line_for_each_command(capsys):
    out = printed(capsys, "--help")
    assert out == printed(capsys) == printed(capsys, "help")
    for name, command in COMMANDS.items():
        assert f"  {name:<22}{command.summary}\n" in out


def test_the_help_of_settings_names_every_one(capsys):
    assert "`vitedu help settings`" in printed(capsys, "train", "--help")
    meanings = printed(capsys, "help", "settings")
    for owner, prefix in (
        (TrainConfig, ""),
        (ViTConfig, "model."),
        (Augment, "augment."),
    ):
        parts = ("stem", "position", "block") if prefix == "model." else ()
        for each in fields(owner):
            if each.name not in (*NO_WORDS.get(prefix, ()), *parts):
                assert f"\n  {prefix}{each.name}=" in meanings, each.name


def test_what_the_help_shows_can_be_typed():
    assert all(meaning for _, rows in settings() for _, meaning in rows)
    words = [name for _, rows in settings() for name, _ in rows]
    given = dict(word.split("=", 1) for word in words)
    given |= {"dataset": "digits", "epochs": "1"}
    config = override(recipe("mnist-tiny", "cpu"), given)
    assert config == TrainConfig(
        "mnist-tiny", "cpu", ViTConfig(), "digits", epochs=1
    )


def test_info_has_one_line_for_each_recipe(capsys):
    out = printed(capsys, "info")
    lines = out.partition("recipes, for ")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in lines[1:]] == sorted(RECIPES)
    assert all(len(line.split()) > 3 for line in lines[1:])


def test_info_of_a_recipe_shows_every_setting_and_what_decays(capsys):
    out = printed(capsys, "info", "digits")
    flat = {line.split()[0] for line in out.splitlines() if line.strip()}
    assert {each.name for each in fields(TrainConfig)} - flat <= {
        *("model", "preprocess", "augment")
    }
    assert "kernels" in out and "weight_decay 0.05" in out
