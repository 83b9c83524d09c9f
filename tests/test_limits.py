"""Sizes that come from outside are held against the memory that is free."""

import psutil
import pytest

from vitedu.errors import (
    UserError,
    available_memory,
    cached,
    check_memory,
    container_memory,
    readable_bytes,
)


def test_what_fits_passes():
    check_memory(1000, "a picture")


def test_what_does_not_fit_is_a_sentence_with_both_numbers():
    with pytest.raises(
        UserError, match=r"a\.npz needs 10\^18 bytes .*B are free; take fewer"
    ):
        check_memory(10**18, "a.npz", "take fewer")


def test_no_more_is_free_than_the_system_has():
    assert 0 < available_memory() <= psutil.virtual_memory().total


def test_the_limit_of_a_control_group_counts_without_what_it_caches(tmp_path):
    for name, text in (
        ("memory.max", "1000\n"),
        ("memory.current", "600\n"),
        ("memory.stat", "anon 1\ninactive_file 70\nactive_file 30\n"),
    ):
        (tmp_path / name).write_text(text)
    assert container_memory(tmp_path) == [500]


def test_what_the_groups_inside_cache_counts_too(tmp_path):
    # version 1 of the control groups
    lines = "inactive_file 1\ntotal_inactive_file 70\ntotal_active_file 30\n"
    (tmp_path / "memory.stat").write_text(lines)
    assert cached(tmp_path) == 100


def test_a_group_without_a_limit_leaves_it_to_the_system(tmp_path):
    (tmp_path / "memory.max").write_text("max\n")
    assert container_memory(tmp_path) == []


@pytest.mark.parametrize(
    ("num_bytes", "words"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (16_000_000_000, "16.0 GB"),
        (10**17, "100.0 PB"),
        (10**400, "10^400 bytes"),
    ],
)
def test_a_size_is_read_as_a_person_says_it(num_bytes, words):
    assert readable_bytes(num_bytes) == words
