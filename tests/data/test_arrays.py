import os
from pathlib import Path

import numpy as np
import pytest
import torch

from vitedu.data.array_sets import load_dataset
from vitedu.data.open import open_split
from vitedu.errors import UserError

REAL_DATA = os.environ.get("VITEDU_DATA", "")
X = np.random.default_rng(0).integers(0, 256, (6, 5, 4), dtype=np.uint8)
Y = np.array([0, 1, 2, 0, 1, 2], dtype=np.uint8)
GOOD = {"x_train": X, "y_train": Y, "x_test": X[:3], "y_test": Y[:3]}


pytestmark = pytest.mark.usefixtures("here")


def write_npz(tmp_path, **changed):
    path = tmp_path / "set.npz"
    np.savez(
        path, **{k: v for k, v in (GOOD | changed).items() if v is not None}
    )
    return path


def numbered(n, classes=3):
    """n images, each full of its own number, so a batch tells what's in it."""
    images = torch.arange(n, dtype=torch.uint8)[:, None, None, None].expand(
        n, 1, 5, 4
    )
    return open_split((images.contiguous(), torch.arange(n) % classes))


# Reading


@pytest.mark.parametrize("as_name", [True, False])
def test_an_npz_is_read_as_the_name_or_as_data(tmp_path, as_name):
    path = write_npz(tmp_path, class_names=np.array(["cat", "dog", "newt"]))
    mine = (
        load_dataset(str(path)) if as_name else load_dataset("mine", data=path)
    )
    # called as its file is, whatever it stands for
    wanted = "set.npz", "set.npz" if as_name else "mine"
    assert (mine.name, mine.requested) == wanted
    assert mine.class_names == ("cat", "dog", "newt")
    assert mine.origin == f"data={path}"
    assert torch.equal(mine.test.images, torch.from_numpy(X[:3])[:, None])


def test_colour_images_come_with_channels_first(tmp_path):
    colour = np.random.default_rng(0).integers(
        0, 256, (6, 5, 4, 3), dtype=np.uint8
    )
    path = write_npz(tmp_path, x_train=colour, x_test=colour[:3])
    images = load_dataset(str(path)).train.images
    assert torch.equal(images.permute(0, 2, 3, 1), torch.from_numpy(colour))
    assert images.is_contiguous()


def test_shapes_are_made_here():
    shapes = load_dataset("shapes-1k", image_size=16, num_classes=4)
    assert (shapes.name, shapes.origin) == ("shapes-1k", "made")
    assert shapes.train.images.shape == (1000, 3, 16, 16)
    assert shapes.test.images.shape == (2000, 3, 16, 16)
    assert len(shapes.class_names) == 4
    assert not torch.equal(shapes.train.images[:9], shapes.test.images[:9])


def test_glyphs_are_drawn_by_name():
    puzzles = load_dataset("glyphs-same-off-300")
    assert (puzzles.name, puzzles.origin) == ("glyphs-same-off-300", "made")
    assert puzzles.train.images.shape == (300, 1, 16, 16)
    assert puzzles.test.images.shape == (2000, 1, 16, 16)
    assert puzzles.class_names == ("different", "same")
    with pytest.raises(UserError, match="drawn, not read"):
        load_dataset("glyphs-same", data=".")
    with pytest.raises(UserError, match="did you mean 'glyphs-same'"):
        load_dataset("glyphs-same-0")


def test_the_digest_tells_data_apart(tmp_path):
    same = [load_dataset(str(write_npz(tmp_path))).digest for _ in range(2)]
    pixel, label = X.copy(), Y.copy()
    pixel[0, 0, 0] ^= 1
    label[0] = 1
    other = [
        load_dataset(str(write_npz(tmp_path, **changed))).digest
        for changed in (
            {"x_train": pixel},
            {"y_train": label},
            {"x_test": pixel[:3]},
            {"x_train": X.reshape(6, 4, 5), "x_test": X[:3].reshape(3, 4, 5)},
        )
    ]
    assert same[0] == same[1] and len(same[0]) == 16
    assert len({same[0], *other}) == 5


def test_a_fallback_stands_in_and_says_so():
    digits = load_dataset("mnist", fallback="digits")
    found = digits.name, digits.requested, digits.origin
    assert found == ("digits", "mnist", "package")


@pytest.mark.slow
@pytest.mark.skipif(
    not REAL_DATA or not Path(REAL_DATA, "mnist").is_dir(),
    reason="VITEDU_DATA names no folder with mnist/",
)
def test_mnist_is_mnist(monkeypatch):
    monkeypatch.setenv("VITEDU_DATA", REAL_DATA)
    mnist = load_dataset("mnist")
    assert mnist.origin == "$VITEDU_DATA"
    assert mnist.train.images.shape == (60_000, 1, 28, 28)
    assert mnist.test.images.shape == (10_000, 1, 28, 28)
    assert mnist.train.labels[:5].tolist() == [5, 0, 4, 1, 9]
    # the mean and deviation that everybody normalises MNIST with
    pixels = mnist.train.images.float() / 255
    assert abs(float(pixels.mean()) - 0.1307) < 1e-4
    assert abs(float(pixels.std()) - 0.3081) < 1e-4


# Parts of a set


def test_split_is_balanced_and_loses_nothing():
    train, validation = numbered(120).hold_out(0.1, seed=0)
    assert validation.labels.bincount().tolist() == [4, 4, 4]
    held, kept = (
        part.images[:, 0, 0, 0].tolist() for part in (validation, train)
    )
    assert sorted(held + kept) == list(range(120))
    assert held == sorted(held) and kept == sorted(kept)
    assert validation.labels.tolist() == [number % 3 for number in held]


def test_split_depends_on_its_seed_alone():
    first, again, other = (
        numbered(120).hold_out(0.1, seed)[1] for seed in (0, 0, 1)
    )
    assert torch.equal(first.images, again.images)
    assert not torch.equal(first.images, other.images)
