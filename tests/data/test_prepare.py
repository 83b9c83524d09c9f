"""`vitedu.data.prepare`: small pictures, written once, whatever happens."""

import io
import json
import multiprocessing
import os
import signal
import tarfile
import threading

import numpy as np
import pytest
from PIL import Image

from vitedu import UserError
from vitedu.data import evaluation_part, find_images, load_folder, prepare
from vitedu.data.open import can_train_on
from vitedu.data.prepare import resized_to
from vitedu.data.prepared_index import read_index


def noise(width, height, seed=0, mode="RGB"):
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels).convert(mode)


def save(image, path, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)
    return path


@pytest.fixture
def folder(tmp_path):
    """12 + 4 pictures of two classes, of odd sizes and with odd names."""
    root = tmp_path / "zoo"
    for part, count in (("train", 6), ("val", 2)):
        for index, name in enumerate(("ant \u718a", "bee")):
            for i in range(count):
                image = noise(40 + 7 * i, 50 - 3 * i, seed=10 * index + i)
                save(image, root / part / name / f"{i} \u00e9.x.jpg")
    return root


def bytes_in(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def pictures_in(folder):
    """Every picture of some shards, opened, by the name that it has there."""
    found = {}
    for path in sorted(folder.glob("*.tar")):
        with tarfile.open(path) as archive:
            for member in archive:
                if member.name.endswith(".jpg"):
                    content = archive.extractfile(member).read()
                    found[path.name, member.name] = Image.open(
                        io.BytesIO(content)
                    )
    return found


def test_the_short_side_is_resized_once_and_nothing_is_enlarged(
    folder, tmp_path
):
    done = prepare(folder, tmp_path / "out", short_side=45, shard_size=5)
    assert not done.was_finished
    assert [x.name for x in done.index.parts["train"].shards] == [
        f"train-00000{i}.tar" for i in range(3)
    ]
    sizes = [image.size for image in pictures_in(done.out).values()]
    assert len(sizes) == 16
    originals = []
    for path in folder.rglob("*.jpg"):
        with Image.open(path) as image:
            originals.append(image.size)
    assert sorted(sizes) == sorted(resized_to(*x, 45) for x in originals)
    assert resized_to(50, 100, 10) == (10, 20)
    assert resized_to(9, 1000, 10) == (9, 1000)
    assert resized_to(333, 100, 10) == (33, 10)
    before = {x: x.stat().st_mtime_ns for x in done.out.iterdir()}
    again = prepare(folder, done.out, short_side=45, shard_size=5)
    assert again.was_finished and again.index == done.index
    assert before == {x: x.stat().st_mtime_ns for x in done.out.iterdir()}


def test_the_index_says_what_is_there(folder, tmp_path):
    (folder / "train/bee/broken.jpg").write_bytes(b"no picture")
    done = prepare(folder, tmp_path / "out", shard_size=5)
    values = json.loads((tmp_path / "out" / "index.json").read_text())
    assert values["classes"] == ["ant \u718a", "bee"]
    assert values["parts"]["train"]["counts"] == [6, 6]
    assert [x["samples"] for x in values["parts"]["val"]["shards"]] == [4]
    assert values["preprocess"]["short_side"] == 256
    assert done.index == read_index(tmp_path / "out")
    assert done.index.unreadable == (
        "cannot read train/bee/broken.jpg: it is not a picture that pillow "
        "can read",
    )


def test_the_bytes_depend_on_neither_workers_nor_the_clock(folder, tmp_path):
    for name, workers in (("a", 1), ("b", 4)):
        prepare(
            folder,
            tmp_path / name,
            shard_size=3,
            short_side=20,
            num_workers=workers,
        )
    assert bytes_in(tmp_path / "a") == bytes_in(tmp_path / "b")
    with tarfile.open(tmp_path / "a" / "val-000000.tar") as archive:
        members = archive.getmembers()
    assert {(x.mtime, x.uid, x.uname, x.mode) for x in members} == {
        (0, 0, "", 0o644)
    }
    assert [x.name[-4:] for x in members] == [".jpg", ".cls"] * 3


def test_a_small_jpeg_keeps_its_bytes(folder, tmp_path):
    done = prepare(folder, tmp_path / "out", format="folder")
    assert bytes_in(folder) == {
        name: content
        for name, content in bytes_in(done.out).items()
        if name != "index.json"
    }


def test_a_folder_has_the_same_classes_and_names(folder, tmp_path):
    for name in ("x.png", "x.png.jpg", "X.PNG.jpg"):  # a disk may take for one
        save(noise(30, 30), folder / "train/bee/deep" / name)
    done = prepare(folder, tmp_path / "out", format="folder", short_side=20)
    pictures = load_folder(done.out)
    assert (len(pictures.train), len(pictures.test)) == (15, 4)
    assert pictures.class_names == ("ant \u718a", "bee")
    deep = done.out / "train/bee/deep"
    names = {path.name.casefold() for path in deep.iterdir()}
    assert names == {f"x.png{'.jpg' * n}" for n in (1, 2, 3)}


def test_every_kind_of_picture_becomes_rgb_and_upright(tmp_path):
    place, exif = tmp_path / "in", Image.Exif()
    exif[0x0112] = 6  # orientation: a quarter turn
    for mode in ("L", "P", "RGBA"):
        save(noise(40, 30, mode=mode), place / "a" / f"{mode}.png")
    deep = Image.fromarray(np.full((30, 40), 40_000, np.uint16))
    save(deep, place / "a" / "16.png")
    save(noise(40, 30, mode="CMYK"), place / "b" / "x.tif")
    save(noise(30, 40), place / "b" / "turned.jpg", exif=exif)
    done = prepare(place, tmp_path / "out", short_side=15)
    assert list(done.index.parts) == ["train"]  # of class folders alone
    for picture in pictures_in(done.out).values():
        assert (picture.mode, picture.size) == ("RGB", (20, 15))
        assert not picture.getexif()


def truncated(path):
    content = save(noise(60, 60), path).read_bytes()
    path.write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize(
    "damage",
    [
        truncated,
        lambda path: save(Image.new("L", (70_000, 2)), path, format="PNG"),
        lambda path: path.symlink_to("nowhere.jpg"),
        lambda path: path.write_text("<html>404</html>"),
    ],
)
def test_what_cannot_be_read_is_left_out_and_named(folder, tmp_path, damage):
    damage(folder / "train/bee/bad \u00e9.jpg")
    done = prepare(folder, tmp_path / "out", short_side=20)
    assert done.index.parts["train"].counts == (6, 6)
    [sentence] = done.index.unreadable
    assert sentence.count("train/bee/bad \u00e9.jpg") == 1


def test_a_name_that_is_not_utf8_is_written_and_named(folder, tmp_path):
    name = os.fsdecode(b"\xe4\x1b[31m.jpg")
    try:
        save(noise(30, 30), folder / "train/bee" / name, format="JPEG")
    except OSError:
        pytest.skip("this disk takes only UTF-8")
    (folder / "train/ant \u718a" / name).write_bytes(b"no picture")
    done = prepare(folder, tmp_path / "out", short_side=20)
    assert done.index.parts["train"].counts == (6, 7)
    assert "\\xe4\\x1b[31m.jpg" in done.index.unreadable[0]
    assert read_index(tmp_path / "out") == done.index


def test_a_class_without_a_readable_picture_is_refused(folder, tmp_path):
    (folder / "train/cat").mkdir()
    (folder / "train/cat/x.jpg").write_bytes(b"no")
    with pytest.raises(UserError, match="no picture of the class 'cat'"):
        prepare(folder, tmp_path / "out")
    with pytest.raises(UserError, match="isn't finished"):
        load_folder(tmp_path / "out")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("nowhere", "there is no folder"),
        ("zoo/train/bee", "contains 6 pictures outside of class folders"),
        ("zoo", r"val has the class 'dog', which train/ doesn't have"),
        ("zoo.tar", "isn't a folder of class folders"),
    ],
)
def test_a_folder_that_doesnt_fit_is_refused_before_anything_is_written(
    folder, tmp_path, place, words
):
    (folder / "val/dog").mkdir()
    with pytest.raises(UserError, match=words):
        prepare(tmp_path / place, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_that_may_not_be_read_is_a_sentence(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(os, "access", lambda path, _: "bee" not in str(path))
    with pytest.raises(UserError, match=r"\.jpg: Permission denied"):
        prepare(folder, tmp_path / "out")


# --- Interrupted, finished, refused


@pytest.mark.slow
@pytest.mark.parametrize("form", ["shards", "folder"])
def test_killed_twice_and_finished_it_has_the_same_bytes(tmp_path, form):
    folder, out = tmp_path / "zoo", tmp_path / "out"
    for name in "ab":
        for i in range(20):
            image = noise(250, 250, seed=i)
            save(image, folder / name / f"{i}.jpg", quality=30)
    settings = {"short_side": 200, "shard_size": 2, "format": form}

    def killed():
        prepare(
            folder,
            out,
            **settings,
            num_workers=1,
            on_progress=lambda *_: os.kill(os.getpid(), signal.SIGKILL),
        )

    num_done = []
    for _ in range(2):
        child = multiprocessing.get_context("fork").Process(target=killed)
        child.start()
        child.join()
        assert child.exitcode == -signal.SIGKILL
        num_done.append(len(list((out / ".unfinished").glob("*.json"))))
        assert not read_index(out).is_complete
    assert 0 < num_done[0] < num_done[1] < 20
    (out / f"train-000019.tar.{'0' * 16}.part").write_bytes(b"half")
    reports = []
    done = prepare(
        folder, out, **settings, on_progress=lambda *n: reports.append(n)
    )
    assert done.index.is_complete
    assert reports[0][0] >= 2 * num_done[1] and reports[-1] == (40, 40)
    prepare(folder, tmp_path / "whole", **settings)
    assert bytes_in(out) == bytes_in(tmp_path / "whole")


def test_a_lost_shard_is_written_anew(folder, tmp_path):
    (folder / "val/bee/broken.jpg").write_bytes(b"no picture")
    prepare(folder, tmp_path / "out", shard_size=3)
    before = bytes_in(tmp_path / "out")
    (tmp_path / "out/train-000001.tar").unlink()
    path = tmp_path / "out/val-000000.tar"
    path.write_bytes(path.read_bytes()[:999])
    done = prepare(folder, tmp_path / "out", shard_size=3)
    assert not done.was_finished
    assert bytes_in(tmp_path / "out") == before


def stop(*_):
    raise KeyboardInterrupt


def test_an_unfinished_folder_is_not_measured_on(folder, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        prepare(folder, tmp_path / "out", format="folder", on_progress=stop)
    for opened in (evaluation_part, find_images, load_folder):
        with pytest.raises(UserError, match="isn't finished"):
            opened(tmp_path / "out")
    with pytest.raises(UserError, match="isn't finished"):
        find_images(tmp_path / "out" / "train")


def test_other_settings_and_other_pictures_are_refused(folder, tmp_path):
    prepare(folder, tmp_path / "out")
    words = r"format=shards \(now folder\), shard_size=1000 \(now 5\)"
    with pytest.raises(UserError, match=words):
        prepare(folder, tmp_path / "out", shard_size=5, format="folder")
    save(noise(9, 9), folder / "train/bee/new.jpg")
    with pytest.raises(UserError, match=r"zoo have changed since .*out"):
        prepare(folder, tmp_path / "out")


def test_somebody_elses_folder_is_refused_and_left_alone(folder, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(
        UserError, match=r"has other files in it \(thesis\.txt\)"
    ):
        prepare(folder, out)
    (out / "index.json").write_text("{}")
    with pytest.raises(UserError, match=r"in it \(index\.json, thesis\.txt\)"):
        prepare(folder, out)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="Not a directory"):
        prepare(folder, tmp_path / "file")
    assert (out / "thesis.txt").read_text() == "mine"


def test_an_index_that_is_damaged_is_refused(folder, tmp_path):
    out = prepare(folder, tmp_path / "out", shard_size=6).out
    text = (out / "index.json").read_text()
    for old, new in (
        (text[len(text) // 2 :], ""),  # cut off
        ('"sha256": "', '"x": "'),
        ('"counts"', '"count"'),
        ('"short_side"', '"long_side"'),
    ):
        assert old in text
        (out / "index.json").write_text(text.replace(old, new))
        for place in (out, out / "val-000000.tar"):
            with pytest.raises(UserError, match=r"x\.json is damaged; delete"):
                load_folder(place)


def test_parts_of_other_names_become_train_and_val(folder, tmp_path):
    want = bytes_in(prepare(folder, tmp_path / "one").out)
    (folder / "train").rename(folder / "Train")
    (folder / "val").rename(folder / "valid")
    found = bytes_in(prepare(folder, tmp_path / "two").out)
    del want["index.json"], found["index.json"]  # a digest of the names
    assert found == want


@pytest.mark.parametrize("format", ["shards", "folder"])
def test_what_is_prepared_has_as_many_pictures_to_train_on(
    folder, tmp_path, format
):
    out = prepare(folder, tmp_path / "out", format=format).out
    for place in (folder, out):
        assert can_train_on(place, 12) and not can_train_on(place, 13)


def test_the_pictures_and_the_result_are_apart(folder, tmp_path):
    with pytest.raises(UserError, match="is inside"):
        prepare(folder, folder / "small")
    with pytest.raises(UserError, match="is inside"):
        prepare(folder / "train", folder)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("short_side", 0, "short_side"),
        ("quality", 101, "quality"),
        ("num_workers", 0, "num_workers"),
        ("format", "shard", "did you mean 'shards'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(folder, name, value, words):
    with pytest.raises(UserError, match=words):
        prepare(folder, "out", **{name: value})


def test_two_at_a_time_do_not_share_a_folder(folder, tmp_path):
    out, begun, go_on = tmp_path / "out", threading.Event(), threading.Event()

    def hold(*_):
        begun.set()
        go_on.wait(30)

    first = threading.Thread(
        target=prepare, args=(folder, out), kwargs={"on_progress": hold}
    )
    first.start()
    begun.wait(30)
    with pytest.raises(UserError, match="another process is preparing"):
        prepare(folder, out)
    go_on.set()
    first.join()
    assert prepare(folder, out).was_finished
