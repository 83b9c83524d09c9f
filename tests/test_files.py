"""Files are written whole or not at all."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from vitedu.errors import UserError, reason
from vitedu.files import (
    check_regular,
    list_folder,
    parse_json,
    read_json,
    replace_file,
    user_path,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("content", "want"),
    [
        (b"\x00\xff", b"\x00\xff"),
        ("zwei ½\n", "zwei ½\n".encode()),
        ("", b""),
        (lambda file: file.write(b"called"), b"called"),
    ],
)
def test_the_content_is_in_the_file_and_nothing_else_in_the_folder(
    tmp_path, content, want
):
    replace_file(tmp_path / "a", content)
    assert (tmp_path / "a").read_bytes() == want
    assert names(tmp_path) == ["a"]


def test_an_old_file_is_replaced(tmp_path):
    replace_file(tmp_path / "a", "a long old content")
    replace_file(str(tmp_path / "a"), "new")
    assert (tmp_path / "a").read_text() == "new"


def test_lines_end_the_same_on_every_system(tmp_path):
    replace_file(tmp_path / "a", "one\ntwo\n")
    assert (tmp_path / "a").read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize(
    "error",
    [OSError(28, "No space left on device"), RuntimeError("writer failed")],
)
def test_what_fails_in_the_middle_leaves_the_old_file_and_one_sentence(
    tmp_path, error
):
    replace_file(tmp_path / "a", "old")

    def half(file):
        file.write(b"half")
        raise error

    with pytest.raises(UserError, match=r"cannot write .*a: ") as caught:
        replace_file(tmp_path / "a", half)
    assert str(caught.value).endswith(
        ("No space left on device", "writer failed")
    )
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, MemoryError])
def test_any_other_failure_passes_and_leaves_the_old_file(tmp_path, error):
    replace_file(tmp_path / "a", "old")

    def half(file):
        file.write(b"half")
        raise error

    with pytest.raises(error):
        replace_file(tmp_path / "a", half)
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == ["a"]


def test_a_reader_sees_the_old_file_until_the_new_one_is_whole(tmp_path):
    replace_file(tmp_path / "a", "old")
    seen = []

    def watched(file):
        file.write(b"new ")
        file.flush()
        seen.append((tmp_path / "a").read_text())
        file.write(b"content")

    replace_file(tmp_path / "a", watched)
    assert seen == ["old"]
    assert (tmp_path / "a").read_text() == "new content"


def test_a_file_that_is_being_read_keeps_its_content(tmp_path):
    replace_file(tmp_path / "a", "old")
    with open(tmp_path / "a") as file:
        replace_file(tmp_path / "a", "new")
        assert file.read() == "old"


def test_the_content_is_on_the_disk_before_its_name_and_the_name_too(
    tmp_path, monkeypatch
):
    synced, fsync = [], os.fsync

    def watched(descriptor):
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        there = (tmp_path / "a").exists()
        synced.append(("folder" if is_folder else "file", there))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    replace_file(tmp_path / "a", "new")
    assert synced == [("file", False), ("folder", True)]


def test_a_link_that_somebody_planted_is_not_written_through(tmp_path):
    (tmp_path / "theirs").write_text("untouched")
    (tmp_path / f"a.{os.getpid()}.part").symlink_to(tmp_path / "theirs")
    replace_file(tmp_path / "a", "new")
    assert (tmp_path / "theirs").read_text() == "untouched"
    assert (tmp_path / "a").read_text() == "new"


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(
        UserError, match=r"cannot write .*: No such file or directory"
    ):
        replace_file(tmp_path / "nowhere" / "a", "x")


def test_a_folder_that_is_a_file_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(UserError, match=r"cannot write .*: Not a directory"):
        replace_file(tmp_path / "file" / "a", "x")
    assert (tmp_path / "file").read_text() == "old"


def test_a_target_that_is_a_folder_is_one_sentence(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(UserError, match=r"cannot write .*: Is a directory"):
        replace_file(tmp_path / "a", "x")
    assert names(tmp_path) == ["a"]


def test_a_name_that_is_too_long_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"cannot write .*: File name too long"):
        replace_file(tmp_path / ("a" * 300), "x")


# Writes argv[1] over and over, each time 100 kB of the digit argv[2].
WRITER = """
import sys
from vitedu.files import replace_file
for _ in range(20):
    replace_file(sys.argv[1], sys.argv[2] * 100_000)
"""


@pytest.mark.slow
def test_a_reader_never_sees_a_part_of_what_two_processes_write(tmp_path):
    whole = {digit * 100_000 for digit in "012"}
    replace_file(tmp_path / "a", "0" * 100_000)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, tmp_path / "a", digit],
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        )
        for digit in "12"
    ]
    while any(writer.poll() is None for writer in writers):
        assert (tmp_path / "a").read_text() in whole
    assert [writer.wait() for writer in writers] == [0, 0]
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(13, "Permission denied", "/a/path"), "Permission denied"),
        (OSError("no number"), "no number"),
        (RuntimeError("first\nsecond"), "first"),
        (RuntimeError(), "RuntimeError"),
    ],
)
def test_a_reason_is_short_and_never_empty(error, said):
    assert reason(error) == said


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("", "the path is empty; name a file or a folder"),
        ("a\0b", "cannot be a path: it contains a zero byte"),
        ("~nosuchuser/a", "~nosuchuser/a: no such user; write ./~nosuchuser/a"),
    ],
)
def test_what_cannot_be_a_path_is_one_sentence(value, sentence):
    with pytest.raises(UserError, match=sentence):
        user_path(value)


def test_a_tilde_in_text_is_the_home_folder():
    assert user_path("~/a") == Path.home() / "a"


@pytest.mark.parametrize("name", ["~nosuchuser", "~", "~root/a"])
def test_a_name_that_begins_with_a_tilde_can_be_written_with_a_dot(
    tmp_path, monkeypatch, name
):
    monkeypatch.chdir(tmp_path)
    path = user_path(f"./{name}")
    assert path == tmp_path / name
    # however often, and in whatever form
    assert user_path(path) == user_path(str(path)) == path
    assert user_path(Path(name)) == path


def test_what_cannot_be_read_without_waiting_is_one_sentence(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, sentence in (
        (tmp_path / "pipe", "is a pipe, a socket or a device"),
        ("/dev/null", "is a pipe, a socket or a device"),
        (tmp_path, "is a folder; a file is needed"),
        (tmp_path / "none", "does not exist"),
        (tmp_path / ("a" * 5000), "File name too long"),
    ):
        with pytest.raises(UserError, match=sentence):
            check_regular(path)


def test_a_folder_that_cannot_be_listed_is_one_sentence(tmp_path):
    (tmp_path / "b").touch()
    (tmp_path / "a").touch()
    assert list_folder(tmp_path) == ["a", "b"]
    with pytest.raises(UserError, match=r"cannot list .*b: Not a directory"):
        list_folder(tmp_path / "b")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"1" * 5000 + b"}", "Exceeds the limit"),
        (b"\xff{}", "can't decode byte 0xff"),
        (b'{"a": 1', "Expecting ',' delimiter"),
        (b"[1]", "must be a JSON object, got a list"),
    ],
    ids=["deep", "digits", "bytes", "short", "list"],
)
def test_what_is_no_json_object_is_one_sentence(tmp_path, text, sentence):
    path = tmp_path / "a.json"
    path.write_bytes(text)
    with pytest.raises(UserError, match=sentence):
        read_json(path)


def test_a_json_file_of_gigabytes_is_not_read(tmp_path):
    path = tmp_path / "a.json"
    with open(path, "wb") as file:
        file.truncate(60_000_000_000)  # takes no room on the disk
    with pytest.raises(UserError, match=r"60\.0 GB, and JSON of at most 20\.0"):
        read_json(path)


def test_json_is_read_up_to_a_size_that_fits_into_memory(tmp_path):
    text = b'{"a": "' + 2_000_000 * b"x" + b'"}'
    path = tmp_path / "a.json"
    path.write_bytes(text)
    assert len(read_json(path)["a"]) == 2_000_000
    with pytest.raises(
        UserError, match=r"2\.0 MB, and JSON of at most 1\.0 MB"
    ):
        read_json(path, most=1_000_000)
    with pytest.raises(
        UserError, match=r"metadata has 22\.0 MB, and JSON of at"
    ):
        parse_json(11 * text, "metadata")
