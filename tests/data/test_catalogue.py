"""An entry in the catalogue is all that a data set needs."""

import hashlib
import io

import numpy as np
import pytest

from vitedu.cli import main
from vitedu.data import load_dataset, where
from vitedu.data.catalogue import CATALOGUE, File, NamedSet, sets_of
from vitedu.data.readers.array_files import KEYS


def test_every_file_has_a_size_a_digest_and_a_place_to_come_from():
    for name in sets_of("idx", "cifar", "npz", "zip"):
        named = CATALOGUE[name]
        assert named.files and named.mirrors and named.class_names
        assert all(len(file.sha256) == 64 for file in named.files)
        assert all(mirror.endswith("/") for mirror in named.mirrors)
        assert all(mirror.startswith("https://") for mirror in named.mirrors)
        if named.kind == "idx":
            assert len(named.files) == len(KEYS)


@pytest.fixture
def stripes(file_server, tmp_path, monkeypatch):
    """A new set of two classes, in catalogue and on a server, but not here."""
    random = np.random.default_rng(0)
    labels = np.arange(40) % 2
    images = random.integers(0, 100, (40, 8, 8, 1), dtype=np.uint8)
    images[labels == 1, ::2] += 150
    content = io.BytesIO()
    arrays = (images, labels, images[:10], labels[:10])
    np.savez(content, **dict(zip(KEYS, arrays, strict=True)))
    content = content.getvalue()
    file_server.files = {"stripes.npz": content}
    digest = hashlib.sha256(content).hexdigest()
    entry = NamedSet(
        title="Stripes",
        kind="npz",
        files=(File("stripes.npz", digest),),
        layouts=(("stripes.npz", ()),),
        mirrors=(f"{file_server.address}/good/",),
        class_names=("plain", "striped"),
    )
    monkeypatch.setitem(CATALOGUE, "stripes", entry)
    for name in ("VITEDU_DATA", "VITEDU_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VITEDU_CACHE", str(tmp_path / "cache"))
    return entry


def test_an_entry_alone_is_found_downloaded_and_read(stripes, tmp_path):
    assert where()["stripes"] is None
    dataset = load_dataset("stripes")
    assert (dataset.name, dataset.origin) == ("stripes", "cache")
    assert dataset.class_names == ("plain", "striped")
    assert dataset.train.images.shape == (40, 1, 8, 8)
    assert where()["stripes"].path == tmp_path / "cache/stripes/stripes.npz"


@pytest.mark.slow
def test_an_entry_alone_is_listed_and_trained_on(stripes, tmp_path, capsys):
    assert main(["info", "data"]) == 0
    assert "stripes" in capsys.readouterr().out
    fields = ["dataset=stripes", "model.num_classes=2", "model.image_size=8"]
    fields += ["model.patch_size=4", "epochs=1"]
    out = ["--out", str(tmp_path / "run"), "--tier", "smoke"]
    assert main(["train", "digits", *fields, *out]) == 0
    assert "test_accuracy" in (tmp_path / "run/result.json").read_text()
