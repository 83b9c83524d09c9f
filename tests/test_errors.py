"""Sentences for a user, whatever stands in them."""

import pickle

import pytest

from vitedu.errors import UserError, did_you_mean, printable, reason


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("zwei ½ 猫 👩‍🚀", "zwei ½ 猫 👩‍🚀"),
        ("a\x1b[31mred\x07", "a\\x1b[31mred\\x07"),
        ("two\nlines\ttab", "two\\nlines\\ttab"),
        ("caf\udce9.jpg", "caf\\xe9.jpg"),
        ("\x9b31m\u202egnp.exe", "\\x9b31m\\u202egnp.exe"),
        ("a\u2028b", "a\\u2028b"),
        ("half \ud83d", "half \\ud83d"),
    ],
)
def test_what_would_change_the_terminal_is_escaped(text, shown):
    assert printable(text) == shown
    assert printable(shown) == shown
    assert str(UserError(text)) == shown


def test_a_message_of_65_000_letters_is_cut_in_its_middle():
    message = str(UserError("a" * 65_000 + "; rename it"))
    assert len(message) < 1600
    assert message.startswith("aaa") and message.endswith("a; rename it")
    assert "[63511 letters]" in message


def test_a_message_is_cut_once_however_often_it_is_said_again():
    for text in ("a" * 65_000, "\x1b" * 1900, "\x1b" * 9_000_000):
        inner = UserError(text)
        assert str(UserError(inner)) == printable(str(inner)) == str(inner)
        outer = str(UserError(f"config.json is not a run's: {inner}"))
        assert outer.endswith(str(inner)) and outer.count(" letters]") == 1


def test_an_error_goes_from_one_process_to_another():
    error = pickle.loads(pickle.dumps(UserError("caf\udce9")))
    assert type(error) is UserError and str(error) == "caf\\xe9"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            OSError(28, "No space left on device", "a/b"),
            "No space left on device",
        ),
        (RuntimeError("first line\nsecond"), "first line"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
    ],
)
def test_the_reason_is_what_the_system_said_without_the_path(error, words):
    assert reason(error) == words


def test_a_name_of_thousands_of_letters_is_answered_at_once():
    # compared letter by letter it would take minutes
    known = [f"{i}" * 1000 for i in range(100)]
    assert did_you_mean("x" * 1_000_000, known).startswith("known: ")
