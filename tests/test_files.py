"""Files are written whole or not at all."""

import os
import stat
from functools import partial
from pathlib import Path
from select import select

import pytest

from vitedu.errors import UserError
from vitedu.files import check_regular, read_json, replace_file, user_path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("content", "want"),
    [
        ("zwei ½\n", "zwei ½\n".encode()),
        (lambda file: file.write(b"called"), b"called"),
    ],
)
def test_the_content_is_in_the_file_and_nothing_else_in_the_folder(
    tmp_path, content, want
):
    replace_file(tmp_path / "a", content)
    assert (tmp_path / "a").read_bytes() == want
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize(
    ("error", "raised", "end"),
    [
        (OSError(28, "No space left on device"), UserError, "left on device"),
        (RuntimeError("writer failed"), UserError, "a: writer failed"),
        (KeyboardInterrupt(), KeyboardInterrupt, ""),
        (ValueError("x"), ValueError, "x"),
        (MemoryError(), MemoryError, ""),
    ],
)
def test_what_fails_in_the_middle_leaves_the_old_file(
    tmp_path, error, raised, end
):
    replace_file(tmp_path / "a", "old")

    def half(file):
        file.write(b"half")
        raise error

    with pytest.raises(raised) as caught:
        replace_file(tmp_path / "a", half)
    assert str(caught.value).endswith(end)
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


@pytest.mark.parametrize(
    ("place", "sentence"),
    [("nowhere/a", "No such file or directory"), ("folder", "Is a directory")],
)
def test_a_place_that_cannot_be_written_is_one_sentence(
    tmp_path, place, sentence
):
    (tmp_path / "file").write_text("old")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match=rf"cannot write .*: {sentence}"):
        replace_file(tmp_path / place, "x")
    assert names(tmp_path) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "old"


@pytest.mark.slow
def test_a_reader_never_sees_a_part_of_what_two_processes_write(tmp_path, fork):
    def write(digit):
        for _ in range(20):
            replace_file(tmp_path / "a", digit * 100_000)

    write("0")
    writers = [fork(partial(write, digit)) for digit in "12"]
    said = [writer.output for writer in writers]
    while len(select(said, [], [], 0)[0]) < 2:
        assert (tmp_path / "a").read_text() in {x * 100_000 for x in "012"}
    assert [writer.answer() for writer in writers] == 2 * ["no error"]
    assert names(tmp_path) == ["a"]


def test_a_path_is_taken_as_it_is_typed():
    assert user_path("~/a") == Path.home() / "a"
    with pytest.raises(UserError, match="the path is empty; name a file or a"):
        user_path("")


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


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"\xff{}", "can't decode byte 0xff"),
        (b'{"a": 1', "Expecting ',' delimiter"),
        (b"[1]", "must be a JSON object, got a list"),
    ],
    ids=["bytes", "short", "list"],
)
def test_what_is_no_json_object_is_one_sentence(tmp_path, text, sentence):
    path = tmp_path / "a.json"
    path.write_bytes(text)
    with pytest.raises(UserError, match=sentence):
        read_json(path)
