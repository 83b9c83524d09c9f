"""What every kind of source keeps: order, shares, resuming, whose draws."""

import random

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset

from vitedu.data import Augment, PreprocessSpec, Source, as_source, prepare

SPEC = PreprocessSpec(image_size=8)
AUGMENT = Augment(crop=0.3, flip=True, erase=0.5)
NUM_IMAGES = 9
NAMES = ("ant", "bee", "cat")
EPOCH = {"epoch": 1, "seed": 2}


class Drawing(TensorDataset):
    """Adds what the three usual generators draw."""

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        light = random.random() + np.random.rand() + torch.rand(())
        return image + light.float() / 9, label


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    """Nine pictures in every kind of data, and the options for them."""
    root = tmp_path_factory.mktemp("data")
    for index in range(NUM_IMAGES):
        path = root / "photos" / NAMES[index % 3] / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (12, 9), (20 * index, 9 * index, 3)).save(path)
    prepare(root / "photos", root / "shards", shard_size=2, num_workers=1)
    labels = torch.arange(NUM_IMAGES) % 3
    floats = torch.linspace(-0.9, -0.7, NUM_IMAGES)[:, None, None, None]
    drawing = Drawing(floats.expand(-1, 3, 8, 8), labels)
    pixels = torch.arange(NUM_IMAGES, dtype=torch.uint8)[:, None, None, None]
    small = (20 * pixels).repeat(1, 3, 8, 8)
    large = (20 * pixels).repeat(1, 3, 11, 9)
    ours = {"shuffle": True, "augment": AUGMENT}
    return {
        "arrays": ((small, labels), ours),
        "large arrays": ((large, labels), ours),
        "folder": (root / "photos", ours),
        "shards": (root / "shards", ours),
        "dataset": (drawing, {"shuffle": True}),
        "loader": (DataLoader(drawing, batch_size=2, shuffle=True), {}),
    }


KINDS = ("arrays", "large arrays", "folder", "shards", "dataset", "loader")


@pytest.fixture(params=KINDS)
def source(request, kinds):
    data, options = kinds[request.param]
    return as_source(data, preprocess=SPEC, **options)


def joined(batches):
    return tuple(map(torch.cat, zip(*batches, strict=True)))


def whole(source, **changes):
    return joined(source.batches(**(EPOCH | changes), batch_size=NUM_IMAGES))


def test_it_is_one(source):
    assert isinstance(source, Source)
    assert (len(source), source.num_classes) == (NUM_IMAGES, 3)
    assert sorted(whole(source)[1].tolist()) == sorted([0, 1, 2] * 3)


@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_sample_does_not_depend_on_the_batch_size(source, batch_size):
    for got, want in zip(
        joined(source.batches(**EPOCH, batch_size=batch_size)),
        whole(source),
        strict=True,
    ):
        assert torch.equal(got, want)


@pytest.mark.parametrize("start", [1, 2, 3])
def test_a_resumed_epoch_goes_on_with_the_same_batches(source, start):
    images, labels = whole(source)
    rest = []
    for batch in source.batches(**EPOCH, batch_size=4, start=start):
        torch.rand(3)  # what a training step draws in between
        rest.append(batch)
    assert len(rest) == 3 - start
    for number, (found, truth) in enumerate(rest, start):
        assert torch.equal(found, images[4 * number : 4 * number + 4])
        assert torch.equal(truth, labels[4 * number : 4 * number + 4])


def test_processes_share_the_batch_that_one_would_have(source):
    images, _ = whole(source)
    for rank in range(2):
        options = {"batch_size": 4, "rank": rank, "world": 2}
        batches = list(source.batches(**EPOCH, **options))
        # the last batch has one picture: none is left for the second process
        assert [len(labels) for _, labels in batches] == [2, 2, 1 - rank]
        assert batches[-1][0].shape[1:] == (3, 8, 8)
        places = [i for i in range(NUM_IMAGES) if i % 4 % 2 == rank]
        assert torch.equal(joined(batches)[0], images[places])


def test_epoch_and_seed_decide_the_order_and_the_pictures(source):
    first = whole(source)[0]
    assert torch.equal(whole(source)[0], first)
    assert not torch.equal(whole(source, epoch=3)[0], first)
    assert not torch.equal(whole(source, seed=3)[0], first)


def test_the_programs_generators_are_left_alone(source):
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1]
    whole(source)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert (np.random.get_state()[1] == before[2]).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["folder", "shards", "dataset", "loader"])
def test_workers_change_nothing(kinds, kind):
    data, options = kinds[kind]
    want = whole(as_source(data, preprocess=SPEC, **options))
    if kind == "loader":
        data = DataLoader(
            data.dataset, batch_size=2, shuffle=True, num_workers=2
        )
        images, labels = whole(as_source(data, preprocess=SPEC))
        # what a loader's workers draw depends on their number
        assert torch.equal(labels, want[1])
        again = as_source(data, preprocess=SPEC)
        rest = again.batches(**EPOCH, batch_size=4, start=1)
        assert torch.equal(joined(rest)[0], images[4:])
        return
    source = as_source(data, preprocess=SPEC, num_workers=2, **options)
    got = joined(source.batches(**EPOCH, batch_size=2))
    assert torch.equal(got[0], want[0]) and torch.equal(got[1], want[1])
