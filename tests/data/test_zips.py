"""Photographs by name: found here, or downloaded as a zip."""

import hashlib
import io
import os
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from vitedu import UserError
from vitedu.data import evaluation_part, folder_of, load_folder
from vitedu.data.catalogue import CATALOGUE, File, MissingDataError
from vitedu.data.open import known_classes

ZIP = "hymenoptera_data.zip"
NAMES = [
    f"{part}/{name}/{i}.{'jpg' if i else 'png'}"
    for part in ("train", "val")
    for name in ("ants", "bees")
    for i in range(2)
]


def picture(value):
    content = io.BytesIO()
    pixels = np.full((9, 9, 3), value, np.uint8)
    Image.fromarray(pixels).save(content, "JPEG")
    return content.getvalue()


def zipped(names, more, above="hymenoptera_data"):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for value, name in enumerate(names):
            archive.writestr(f"{above}/{name}", picture(value))
        for name, data in more:
            archive.writestr(name, data)
    return content.getvalue()


@pytest.fixture(autouse=True)
def server(tmp_path, monkeypatch, file_server):
    """A server with eight pictures, and nothing of them here."""
    more = [
        ("__MACOSX/hymenoptera_data/train/ants/._0.jpg", b""),
        ("hymenoptera_data/train/ants/imageNotFound.gif", b"GIF"),
    ]
    content = zipped(NAMES, more)
    file_server.files = {ZIP: content}
    digest = hashlib.sha256(content).hexdigest()
    entry = replace(
        CATALOGUE["ants-bees"],
        files=(File(ZIP, digest),),
        mirrors=(f"{file_server.address}/good/",),
    )
    monkeypatch.setitem(CATALOGUE, "ants-bees", entry)
    for name in ("VITEDU_DATA", "VITEDU_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VITEDU_CACHE", str(tmp_path / "cache"))
    return file_server


def test_it_is_downloaded_once_and_then_found(tmp_path, server):
    place = folder_of("ants-bees")
    assert known_classes("ants-bees", num_classes=0) == ("ants", "bees")
    assert not (tmp_path / "cache").exists()
    dataset = load_folder(place)
    assert dataset.name == "ants-bees"
    assert len(dataset.train) == len(dataset.test) == 4
    assert os.listdir(tmp_path / "cache") == ["ants-bees"]
    server.files = {}
    found = folder_of("ants-bees")
    assert found == tmp_path / "cache" / "ants-bees"
    assert load_folder(found).digest == dataset.digest
    assert evaluation_part(place) == found / "val"


def test_offline_it_is_one_sentence(monkeypatch):
    monkeypatch.setenv("VITEDU_OFFLINE", "1")
    with pytest.raises(
        MissingDataError, match=r"Ants and bees is not in .*zip"
    ):
        load_folder(folder_of("ants-bees"))


def test_what_is_in_the_way_is_left_alone(tmp_path):
    (tmp_path / "cache/ants-bees").mkdir(parents=True)
    (tmp_path / "cache/ants-bees/mine.txt").write_text("x")
    with pytest.raises(UserError, match="has something else in it"):
        load_folder(folder_of("ants-bees"))
    assert (tmp_path / "cache/ants-bees/mine.txt").read_text() == "x"
