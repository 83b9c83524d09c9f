"""WebDataset's shards as a source: the same pictures as in a folder."""

import io
import multiprocessing
import os
import signal
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.tiny import tiny
from vitedu import UserError
from vitedu.data import (
    Augment,
    ImageSource,
    PreprocessSpec,
    as_source,
    evaluation_part,
    find_images,
    folder_of,
    load_folder,
    prepare,
)
from vitedu.data.open import known_classes
from vitedu.data.readers.shards import ShardReader, expanded, samples_in
from vitedu.train import TrainConfig, fit
from vitedu.train.checkpoint import read_saved

SPEC = PreprocessSpec(image_size=8, mean=0.0, std=1 / 255)
AUGMENT = Augment(crop=0.3, flip=True, rotate=9, rand_layers=1, erase=0.5)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VITEDU_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def shade(value):
    """A picture that can be told from all others, in any size."""
    pixels = np.full((10, 12, 3), value, np.uint8)
    pixels[5:] = 255 - value
    return pixels


def encoded(pixels, kind="PNG"):
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, kind)
    return content.getvalue()


def write_shard(path, samples):
    """Write (key, suffix, content, label) as WebDataset does."""
    with tarfile.open(path, "w") as archive:
        for key, suffix, content, label in samples:
            for name, data in (
                (f"{key}.{suffix}", content),
                (f"{key}.cls", str(label).encode()),
            ):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))


@pytest.fixture
def shards(tmp_path):
    """Three foreign shards of 5, 5 and 3 pictures, without an index."""
    for number, count in enumerate((5, 5, 3)):
        write_shard(
            tmp_path / f"a-{number:03}.tar",
            [
                (f"{i:04}", "png", encoded(shade(10 * number + i)), i % 3)
                for i in range(count)
            ],
        )
    return tmp_path / "a-{000..002}.tar"


@pytest.fixture
def folder(tmp_path):
    """10 + 5 pictures of three classes as JPEG."""
    for part, count in (("train", 5), ("val", 2)):
        for index, name in enumerate(("ant", "bee", "cat")):
            place = tmp_path / "pets" / part / name
            place.mkdir(parents=True)
            for i in range(count):
                content = encoded(shade(40 * index + 4 * i), "JPEG")
                (place / f"{i} \u718a.jpg").write_bytes(content)
    return tmp_path / "pets"


@pytest.fixture
def prepared(folder, tmp_path):
    prepare(folder, tmp_path / "out", shard_size=4)
    return tmp_path / "out"


def contents(pictures):
    return [pictures[i][0].read() for i in range(len(pictures))]


def test_the_pictures_come_in_the_order_of_the_tars(shards):
    pictures = find_images(shards)
    assert isinstance(pictures.reader, ShardReader)
    expected = [
        encoded(shade(10 * number + i))
        for number, count in enumerate((5, 5, 3))
        for i in range(count)
    ]
    assert contents(pictures) == expected
    assert pictures.labels.tolist() == [0, 1, 2, 0, 1] * 2 + [0, 1, 2]
    assert pictures.class_names == ("0", "1", "2")


def test_webdataset_reads_the_same_samples(prepared):
    """The library that the format comes from."""
    tars = pytest.importorskip("webdataset.tariterators")
    place = evaluation_part(prepared)
    ours = find_images(place)
    samples = []
    for path in expanded(place):
        with open(path, "rb") as file:
            opened = [{"url": str(path), "stream": file}]
            members = tars.tar_file_expander(opened)
            for x in tars.group_by_keys(members):
                samples.append((x["jpg"], int(x["cls"])))
    assert samples == list(zip(contents(ours), ours.labels, strict=True))


def test_shards_that_webdataset_wrote_are_read(tmp_path):
    webdataset = pytest.importorskip("webdataset")
    with webdataset.ShardWriter(
        str(tmp_path / "b-%03d.tar"), maxcount=2, verbose=0
    ) as writer:
        for i in range(5):
            writer.write({"__key__": f"{i}", "jpg": shade(i), "cls": i})
    pictures = find_images(tmp_path / "b-{000..002}.tar")
    assert pictures.labels.tolist() == [0, 1, 2, 3, 4]


def test_prepared_shards_and_a_prepared_folder_feed_the_same_pixels(
    folder, tmp_path
):
    prepare(folder, tmp_path / "s", shard_size=4)
    prepare(folder, tmp_path / "f", format="folder", shard_size=4)
    for part in ("train", "test"):
        both = []
        for place in (tmp_path / "s", tmp_path / "f"):
            pictures = getattr(load_folder(place), part)
            [batch] = ImageSource(pictures, SPEC).batches(batch_size=99)
            pairs = zip(*batch, strict=True)
            both.append(sorted((x.numpy().tobytes(), int(y)) for x, y in pairs))
        assert both[0] == both[1]


def test_a_source_reads_its_shards_window_by_window(shards, monkeypatch):
    monkeypatch.setattr("vitedu.data.feed.pictures.WINDOW", 1)
    source = ImageSource(find_images(shards), SPEC, shuffle=True)
    [(images, _)] = source.batches(batch_size=99)
    shard_of = (images[:, 0, 0, 0] / 10).int()
    assert sorted(shard_of.unique_consecutive().tolist()) == [0, 1, 2]


def test_prepared_shards_know_their_parts_and_classes(prepared):
    out = prepared
    dataset = load_folder(out)
    assert (len(dataset.train), len(dataset.test)) == (15, 6)
    assert (
        dataset.class_names
        == known_classes(str(out), num_classes=0)
        == ("ant", "bee", "cat")
    )
    assert folder_of("mnist", str(out)) == out
    assert folder_of(str(out)) == out
    assert evaluation_part(out) == out / "val-{000000..000001}.tar"
    assert find_images(evaluation_part(out)).class_names == (
        "ant",
        "bee",
        "cat",
    )


def test_a_set_of_one_part_is_that_part(folder, tmp_path):
    prepare(folder / "train", tmp_path / "out", shard_size=4)
    source = as_source(tmp_path / "out", preprocess=SPEC)
    assert len(source) == 15
    assert len(load_folder(tmp_path / "out").test) == 3


def test_a_broken_picture_is_left_out_from_the_beginning(tmp_path):
    good = encoded(shade(1))
    samples = [("a", "png", good, 0), ("b", "png", good[:60], 1)]
    samples += [("c", "png", b"not a picture", 1), ("d", "png", good, 1)]
    write_shard(tmp_path / "a.tar", samples)
    pictures = find_images(tmp_path / "a.tar")
    assert pictures.labels.tolist() == [0, 1]
    first, second = pictures.skipped
    assert first.startswith("cannot read a.tar: b.png: ")
    assert second == (
        "cannot read a.tar: c.png: it is not a picture that pillow can read"
    )
    assert "2 of 4 pictures are left out" in pictures.notes[0]


def test_the_digest_follows_the_labels(tmp_path):
    digests = []
    for label in (0, 1):
        samples = [("a", "png", encoded(shade(1)), label)]
        samples += [(f"{i}", "png", encoded(shade(i)), i % 2) for i in range(9)]
        write_shard(tmp_path / "a.tar", samples)
        digests.append(load_folder(tmp_path / "a.tar").digest)
    assert digests[0] != digests[1]


def test_what_was_found_out_is_kept_until_a_tar_changes(
    tmp_path, cache, monkeypatch
):
    good = encoded(shade(1))
    samples = [(f"{i}", "png", good, i % 2) for i in range(120)]
    write_shard(tmp_path / "a.tar", samples)
    first = find_images(tmp_path / "a.tar")
    [kept] = (cache / "shards").iterdir()
    again = find_images(tmp_path / "a.tar")
    assert torch.equal(first.reader.places, again.reader.places)
    assert torch.equal(first.labels, again.labels)
    kept.write_bytes(kept.read_bytes()[:900])
    looked_again = find_images(tmp_path / "a.tar")
    assert torch.equal(looked_again.labels, first.labels)
    write_shard(tmp_path / "a.tar", samples[:110])
    assert len(find_images(tmp_path / "a.tar")) == 110


def test_a_prepared_shard_that_was_cut_or_damaged_is_refused(prepared):
    path = prepared / "train-000001.tar"
    content = bytearray(path.read_bytes())
    content[700] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"train-000001\.tar has the sha256"):
        load_folder(prepared)
    path.write_bytes(content[:-10_000])
    with pytest.raises(UserError, match=r"train-000001\.tar: it breaks off"):
        load_folder(prepared)


def test_a_missing_shard_is_named_and_counted(prepared, shards, tmp_path):
    (prepared / "train-000002.tar").unlink()
    with pytest.raises(UserError, match=r"000002\.tar \(1 of 4 shards missing"):
        load_folder(prepared)
    (tmp_path / "a-001.tar").unlink()
    with pytest.raises(UserError, match=r"a-001\.tar \(1 of 3 shards"):
        find_images(shards)


def test_a_tar_that_becomes_shorter_later_is_a_sentence(shards, tmp_path):
    pictures = find_images(shards)
    (tmp_path / "a-000.tar").write_bytes(b"")
    with pytest.raises(UserError, match=r"a-000\.tar has become shorter"):
        pictures[0]


def test_shards_without_samples_are_refused(tmp_path):
    write_shard(tmp_path / "a.tar", [])
    with pytest.raises(UserError, match=r"there are no samples in .*a\.tar"):
        find_images(tmp_path / "a.tar")
    write_shard(tmp_path / "b.tar", [("x", "png", b"no", 0)])
    with pytest.raises(UserError, match=r"none of the pictures in .* can be"):
        find_images(tmp_path / "b.tar")


@pytest.mark.parametrize(
    "text", ["a-{008..011}.tar", "{a,b}/{0..2}.tar", "a-{0..1}-{x,y}.tar"]
)
def test_braces_mean_what_they_mean_to_webdataset(text):
    theirs = pytest.importorskip("braceexpand").braceexpand(text)
    assert expanded(Path(text)) == list(map(Path, theirs))


def test_a_folder_of_shards_without_an_index_says_how_to_name_them(shards):
    with pytest.raises(
        UserError, match=r"shards are named, as in train-\{000000\.\."
    ):
        load_folder(shards.parent)


# --- what is in a tar


def write_tar(path, members, **options):
    """Write a tar of (name or TarInfo, content)."""
    with tarfile.open(path, "w", **options) as archive:
        for name, content in members:
            is_name = isinstance(name, str)
            info = tarfile.TarInfo(name) if is_name else name
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def sample(key, label=0):
    picture = f"picture {key}".encode()
    return [(f"{key}.jpg", picture), (f"{key}.cls", f"{label}\n".encode())]


@pytest.mark.parametrize(
    "form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
)
def test_each_picture_is_found_at_its_place_with_its_label(tmp_path, form):
    keys = {"a": 3, "deep/er/b": 0, "with space": 12}
    if form != tarfile.USTAR_FORMAT:
        keys |= {"k" * 200: 1, "\u718a": 7}
    parts = [part for key in keys for part in sample(key, keys[key])]
    path = write_tar(tmp_path / "a.tar", parts, format=form)
    samples, skipped = samples_in(path)
    content = path.read_bytes()
    assert [
        (content[first : first + size].decode(), label)
        for first, size, label in samples
    ] == [(f"picture {key}", keys[key]) for key in keys]
    assert skipped == []


def test_what_belongs_to_no_sample_is_left_alone(tmp_path):
    folder = tarfile.TarInfo("deep.er")
    folder.type = tarfile.DIRTYPE
    parts = [(folder, b""), ("._a.jpg", b""), ("README", b"")]
    parts += [*sample("a"), ("a.json", b"{}"), ("a.seg.png", b"")]
    samples, skipped = samples_in(write_tar(tmp_path / "a.tar", parts))
    assert (len(samples), skipped) == (1, [])


LINK = tarfile.TarInfo("b.jpg")
LINK.type, LINK.linkname = tarfile.LNKTYPE, "a.jpg"
NO_NUMBER = "not a whole number from 0 up"


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([("b.jpg", b"x")], "b doesn't have a label (.cls)"),
        ([("b.cls", b"1")], "b doesn't have a picture"),
        ([(LINK, b""), ("b.cls", b"1")], "b doesn't have a picture"),
        ([("b.jpg", b"x"), ("b.png", b"x")], "b has more than one picture"),
        ([("b.jpg", b"x"), ("b.cls", b"-1")], NO_NUMBER),
        ([("b.jpg", b"x"), ("b.cls", "\u0663".encode())], NO_NUMBER),
        ([("a.jpg", b"x")], "a.jpg is there twice; the first one is used"),
    ],
)
def test_what_cannot_be_used_is_skipped_and_named(tmp_path, members, words):
    path = write_tar(tmp_path / "a.tar", [*sample("a"), *members])
    samples, [sentence] = samples_in(path)
    assert len(samples) == 1
    assert sentence.startswith("a.tar: ") and words in sentence


@pytest.fixture
def whole(tmp_path):
    parts = [part for key in "abcd" for part in sample(key)]
    return write_tar(tmp_path / "a.tar", parts)


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (0, "is not a tar file"),
        (511, "is not a tar file"),
        (1024, "a.tar: .* after a.jpg"),  # between two members
        (2048 + 515, "a.tar: unexpected end of data"),
        (4 * 2048, "a.tar: it breaks off or is damaged, after d.cls"),
        (4 * 2048 + 512, "a.tar: it breaks off or is damaged, after d.cls"),
    ],
)
def test_a_tar_that_breaks_off_is_refused_wherever_that_is(
    whole, length, words
):
    whole.write_bytes(whole.read_bytes()[:length])
    with pytest.raises(UserError, match=words):
        samples_in(whole)


def test_a_damaged_header_in_the_middle_is_not_the_end(whole):
    content = bytearray(whole.read_bytes())
    content[2048 + 20] ^= 1
    whole.write_bytes(content)
    with pytest.raises(UserError, match=r"it breaks off .*, after a\.cls"):
        samples_in(whole)


# --- a run on shards


def config_of(data):
    """8 steps of 4, two epochs of 15 pictures."""
    return TrainConfig(
        recipe="test",
        tier="cpu",
        model=tiny(image_size=(8, 8), num_classes=3, dropout=0.1),
        preprocess=PreprocessSpec(image_size=8),
        dataset="pictures",
        data=str(data),
        steps=8,
        batch_size=4,
        lr=0.01,
        augment=AUGMENT,
        log_every=1,
        save_every=2,
        device="cpu",
        num_workers=1,
    )


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_run_killed_in_the_middle_of_an_epoch_ends_on_the_same_bytes(
    folder, tmp_path
):
    prepare(folder, tmp_path / "out", shard_size=4)
    config = config_of(tmp_path / "out")

    def killed(at):
        def kill(progress):
            if progress.step == at:
                os.kill(os.getpid(), signal.SIGKILL)

        fit(config, tmp_path / "parts", on_progress=kill)

    # an epoch has 4 steps: in the middle of the first and of the second
    for at in (3, 7):
        context = multiprocessing.get_context("fork")
        child = context.Process(target=killed, args=(at,))
        child.start()
        child.join()
        assert child.exitcode == -signal.SIGKILL
        saved = read_saved(tmp_path / "parts" / "checkpoint.pt")["step"]
        assert saved == at - 1 and saved % 4
    fit(config, tmp_path / "parts")
    fit(config, tmp_path / "whole")
    parts, whole = (
        (tmp_path / name / "model.safetensors").read_bytes()
        for name in ("parts", "whole")
    )
    assert parts == whole
