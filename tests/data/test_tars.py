"""What is in a tar, and tars that are damaged or want to do harm."""

import io
import re
import tarfile

import pytest

from vitedu import UserError
from vitedu.data.tars import listed


def write(path, members, **options):
    """Write a tar of (name or TarInfo, content)."""
    with tarfile.open(path, "w", **options) as archive:
        for name, content in members:
            info = name
            if isinstance(name, str):
                info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def sample(key, label=0, suffix="jpg"):
    return [
        (f"{key}.{suffix}", f"picture {key}".encode()),
        (f"{key}.cls", f"{label}\n".encode()),
    ]


def special(name, kind):
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = "/etc/passwd"
    return info


@pytest.mark.parametrize(
    "form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
)
def test_each_picture_is_found_at_its_place_with_its_label(tmp_path, form):
    keys = {"a": 3, "deep/er/b": 0, "with space": 12}
    if form != tarfile.USTAR_FORMAT:
        keys |= {"k" * 200: 1, "\u718a": 7}
    parts = [part for key in keys for part in sample(key, keys[key])]
    path = write(tmp_path / "a.tar", parts, format=form)
    found = listed(path)
    content = path.read_bytes()
    assert [
        (content[first : first + size].decode(), label)
        for first, size, label in found.samples
    ] == [(f"picture {key}", keys[key]) for key in keys]
    assert found.skipped == []


def test_other_files_of_a_sample_are_left_alone(tmp_path):
    parts = [*sample("a", 1), ("a.json", b"{}"), ("a.seg.png", b"")]
    assert len(listed(write(tmp_path / "a.tar", parts)).samples) == 1


def test_what_an_editor_or_a_system_leaves_is_no_sample(tmp_path):
    parts = [("._a.jpg", b""), ("README", b""), *sample("a")]
    found = listed(write(tmp_path / "a.tar", parts))
    assert (len(found.samples), found.skipped) == (1, [])


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([("b.jpg", b"x")], r"b doesn't have a label \(\.cls\)"),
        ([("b.cls", b"1")], "b doesn't have a picture"),
        ([("b.jpg", b"x"), ("b.png", b"x")], "b has more than one picture"),
        ([("b.jpg", b"x"), ("b.cls", b"-1")], "not a whole number"),
        ([("b.jpg", b"x"), ("b.cls", b"9" * 5000)], "not a whole number"),
        ([("b.jpg", b"x"), ("b.cls", b"9" * 19)], "not a whole number"),
        ([("b.jpg", b"x"), ("b.cls", "\u0663".encode())], "not a whole"),
        ([("../b.jpg", b"x")], r"\.\./b\.jpg is a path that leads out"),
        ([("/etc/b.jpg", b"x")], r"/etc/b\.jpg is a path that leads out"),
        ([("a.jpg", b"x")], r"a\.jpg is there twice; the first one is used"),
        ([(special("b.jpg", tarfile.SYMTYPE), b"")], r"b\.jpg is a link"),
        ([(special("b.jpg", tarfile.LNKTYPE), b"")], r"b\.jpg is a link"),
        ([(special("b.jpg", tarfile.CHRTYPE), b"")], r"b\.jpg is a device"),
        ([(special("b.jpg", tarfile.FIFOTYPE), b"")], r"b\.jpg is a pipe"),
    ],
)
def test_what_cannot_be_used_is_skipped_and_named(tmp_path, members, words):
    found = listed(write(tmp_path / "a.tar", [*sample("a"), *members]))
    assert len(found.samples) == 1
    [sentence] = found.skipped
    assert sentence.startswith("a.tar: ")
    assert re.search(words, sentence)


def test_what_comes_after_a_member_of_an_unknown_kind_is_found(tmp_path):
    parts = [(special("dump", b"D"), b"y" * 700), *sample("a")]
    path = write(tmp_path / "a.tar", parts)
    [found] = listed(path).samples
    assert path.read_bytes()[found.first_byte :].startswith(b"picture a")


@pytest.fixture
def whole(tmp_path):
    parts = [part for key in "abcd" for part in sample(key)]
    return write(tmp_path / "a.tar", parts)


@pytest.mark.parametrize("length", [1, 511, 600, 1024, 2060, 3 * 1024, 8191])
def test_a_tar_that_breaks_off_is_refused_wherever_that_is(whole, length):
    whole.write_bytes(whole.read_bytes()[:length])
    with pytest.raises(UserError, match=r"a\.tar"):
        listed(whole)


def test_a_tar_that_breaks_off_names_the_file(whole):
    whole.write_bytes(whole.read_bytes()[: 2048 + 515])
    with pytest.raises(UserError, match=r"in the middle of b\.jpg; fetch it"):
        listed(whole)


def test_a_damaged_header_in_the_middle_is_not_the_end(whole):
    content = bytearray(whole.read_bytes())
    content[2048 + 20] ^= 1
    whole.write_bytes(content)
    with pytest.raises(UserError, match=r"damaged at byte 2,048, after a\.cls"):
        listed(whole)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\x1f\x8b" + bytes(600), "is compressed"),
        (b"x" * 1000, "is not a tar file"),
    ],
)
def test_what_is_no_tar_is_refused(tmp_path, content, words):
    (tmp_path / "a.tar").write_bytes(content)
    with pytest.raises(UserError, match=words):
        listed(tmp_path / "a.tar")


def test_a_header_of_gigabytes_is_refused_before_it_is_read(tmp_path):
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 10**12
    block = header.tobuf(tarfile.GNU_FORMAT)
    (tmp_path / "a.tar").write_bytes(block[:512] + bytes(2048))
    with pytest.raises(UserError, match="one of its headers has 1,000,000,00"):
        listed(tmp_path / "a.tar")


def test_a_negative_size_is_refused(tmp_path):
    header = tarfile.TarInfo("a.jpg")
    header.size = -512
    (tmp_path / "a.tar").write_bytes(header.tobuf(tarfile.GNU_FORMAT) * 3)
    with pytest.raises(UserError, match=r"in the middle of a\.jpg"):
        listed(tmp_path / "a.tar")
