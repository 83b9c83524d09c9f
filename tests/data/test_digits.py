import io
import os
import runpy
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from vitedu.data import load_dataset
from vitedu.data.locate import locate
from vitedu.data.readers.arrays import open_pair

REAL_DATA = os.environ.get("VITEDU_DATA", "")
TOOL = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "digits.py"))


def write_mnist(folder):
    """Thirty images of each class and part, in a folder like VITEDU_DATA."""
    (folder / "mnist").mkdir(parents=True)
    random = np.random.default_rng(0)
    for part in ("train", "t10k"):
        labels = np.repeat(np.arange(10, dtype=np.uint8), 30)
        images = random.integers(0, 256, (300, 28, 28), dtype=np.uint8)
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            shape = b"".join(side.to_bytes(4, "big") for side in array.shape)
            (folder / "mnist" / f"{part}-{kind}-ubyte").write_bytes(
                bytes((0, 0, 8, array.ndim)) + shape + array.tobytes()
            )


def test_digits_are_there_without_any_other_data(monkeypatch):
    monkeypatch.delenv("VITEDU_DATA", raising=False)
    monkeypatch.setenv("VITEDU_OFFLINE", "1")
    digits = load_dataset("digits")
    assert (digits.name, digits.origin) == ("digits", "package")
    assert digits.train.images.shape == (2500, 1, 28, 28)
    assert digits.test.images.shape == (500, 1, 28, 28)
    assert digits.class_names == tuple("0123456789")


def test_digits_have_not_changed():
    assert load_dataset("digits").digest == "c29bc35f5b9b8648"


def test_digits_are_one_file_under_a_megabyte_with_their_licence():
    path = Path(locate("digits").path)
    assert path.stat().st_size < 1_000_000
    licence = path.with_name("digits.LICENSE.txt").read_text(encoding="utf-8")
    for words in (
        "Yann LeCun",
        "Corinna Cortes",
        "CC BY-SA 3.0",
        "What was changed",
    ):
        assert words in licence


def test_the_first_of_each_class_are_taken_in_their_order():
    labels = torch.tensor([2, 0, 0, 1, 2, 0, 2, 1])
    chosen = TOOL["first_of_each_class"](
        open_pair(torch.arange(8, dtype=torch.uint8)[:, None, None], labels), 2
    )
    assert chosen.images.flatten().tolist() == [0, 1, 2, 3, 4, 7]
    assert chosen.labels.tolist() == [2, 0, 0, 1, 2, 1]


def test_the_tool_writes_the_same_bytes_each_time(tmp_path, monkeypatch):
    write_mnist(tmp_path)
    monkeypatch.setenv("VITEDU_DATA", str(tmp_path))
    first = TOOL["digits_npz"]()
    assert TOOL["digits_npz"]() == first
    with zipfile.ZipFile(io.BytesIO(first)) as archive:
        dates = {entry.date_time for entry in archive.infolist()}
    assert dates == {(1980, 1, 1, 0, 0, 0)}  # not the day it was written


@pytest.mark.skipif(
    not REAL_DATA or not Path(REAL_DATA, "mnist").is_dir(),
    reason="VITEDU_DATA names no folder with mnist/",
)
def test_digits_are_what_the_tool_makes_of_mnist(tmp_path):
    (tmp_path / "again.npz").write_bytes(TOOL["digits_npz"]())
    # as arrays: another zlib may pack the same pixels into other bytes
    again = load_dataset(str(tmp_path / "again.npz"))
    assert again.digest == load_dataset("digits").digest
