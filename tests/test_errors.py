"""Sentences for a user, whatever is in them; and memory that isn't there."""

import pickle

import psutil
import pytest

from vitedu.errors import (
    UserError,
    available_memory,
    check_free,
    container_memory,
    counted,
    printable,
    readable_bytes,
    reason,
    unknown,
)


def test_one_thing_is_no_plural():
    words = [counted(n, x) for n in (0, 1, 2000) for x in ("image", "class")]
    assert words == [
        *("0 images", "0 classes", "1 image", "1 class"),
        *("2,000 images", "2,000 classes"),
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("zwei ½ 猫 👩‍🚀 \u3000", "zwei ½ 猫 👩‍🚀 \u3000"),
        ("a\x1b[31mred\x07", "a\\x1b[31mred\\x07"),
        ("two\nlines\ttab", "two\\nlines\\ttab"),
        ("caf\udce9.jpg", "caf\\xe9.jpg"),
        ("\x9b31m\u202egnp.exe", "\\x9b31m\\u202egnp.exe"),
        ("half \ud83d", "half \\ud83d"),
    ],
)
def test_what_would_change_the_terminal_is_escaped(text, shown):
    assert printable(text) == shown
    assert printable(shown) == shown
    assert str(UserError(text)) == shown


def test_a_long_message_is_cut_in_its_middle_and_only_once():
    message = str(UserError("a" * 65_000 + "; rename it"))
    assert len(message) < 1600
    assert message.startswith("aaa") and message.endswith("a; rename it")
    assert "[63511 letters]" in message
    outer = str(UserError(f"config.json is not a run's: {message}"))
    assert outer.endswith(message)


def test_of_many_names_half_a_sentence_is_listed():
    names = [f"m{number:02}" for number in range(25)]
    assert str(unknown("model", "z", names[:24])).endswith("m22, m23")
    assert str(unknown("model", "z", names)).endswith("m11, and 13 more")


def test_an_error_goes_from_one_process_to_another():
    error = pickle.loads(pickle.dumps(UserError("caf\udce9")))
    assert type(error) is UserError and str(error) == "caf\\xe9"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(28, "No space left", "a/b"), "No space left"),
        (OSError("no number"), "no number"),
        (RuntimeError("first line\nsecond"), "first line"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
    ],
)
def test_the_reason_is_what_the_system_said_without_the_path(error, words):
    assert reason(error) == words


def test_what_does_not_fit_into_memory_is_a_sentence_with_both_numbers():
    assert 0 < available_memory() <= psutil.virtual_memory().total
    check_free(1000, "a picture")
    with pytest.raises(
        UserError, match=r"a\.npz needs 1000\.0 PB .*B are free; take fewer"
    ):
        check_free(10**18, "a.npz", "take fewer")


def test_the_limit_of_a_control_group_counts_without_what_it_caches(tmp_path):
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("600\n")
    (tmp_path / "memory.stat").write_text(
        "anon 1\ninactive_file 70\nactive_file 30\n"
    )
    assert container_memory(tmp_path) == [500]
    (tmp_path / "memory.max").write_text("max\n")  # no limit
    assert container_memory(tmp_path) == []


@pytest.mark.parametrize(
    ("num_bytes", "words"),
    [
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (16_000_000_000, "16.0 GB"),
        (10**17, "100.0 PB"),
    ],
)
def test_a_size_is_read_as_a_person_says_it(num_bytes, words):
    assert readable_bytes(num_bytes) == words
