"""DataLoaders and the like: their order, cut anew, never silently short."""

import pytest
import torch
from torch.testing import assert_close
from torch.utils.data import (
    DataLoader,
    DistributedSampler,
    RandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from vitedu.data import PreprocessSpec, Source, as_source
from vitedu.data.feed.loader import LoaderSource
from vitedu.errors import UserError

SPEC = PreprocessSpec(image_size=(2, 3), in_channels=1)
LABELS = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2, 0])


def numbered(n=10):
    """Images of floats, each full of a tenth of its own number less 4."""
    tenths = (torch.arange(n) - 4) / 10
    return tenths[:, None, None, None].expand(n, 1, 2, 3)


def loader(**options):
    return DataLoader(
        TensorDataset(numbered(), LABELS), **{"batch_size": 3} | options
    )


def source(loader, **options):
    return as_source(loader, preprocess=SPEC, **options)


def batches(source, **options):
    """The numbers of the images in each batch."""
    options = {"epoch": 0, "seed": 0, "batch_size": 4} | options
    return [
        (10 * images[:, 0, 0, 0] + 4).round().int().tolist()
        for images, _ in source.batches(**options)
    ]


def test_batches_are_cut_anew_in_the_loaders_order():
    ours = source(loader())
    assert isinstance(ours, Source)
    assert batches(ours) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert batches(ours, batch_size=7) == [[*range(7)], [7, 8, 9]]
    assert batches(ours, batch_size=2)[1] == [2, 3]


def test_the_classes_and_the_length_are_those_of_its_data_set():
    assert (len(source(loader())), source(loader()).num_classes) == (10, 3)
    assert len(source(loader(drop_last=True))) == 9
    sampler = WeightedRandomSampler([1.0] * 10, 6)
    assert len(source(loader(sampler=sampler))) == 6


@pytest.mark.parametrize(
    "make",
    [
        lambda own: loader(shuffle=True, generator=own),
        lambda own: loader(sampler=RandomSampler(range(10), generator=own)),
    ],
)
def test_a_generator_of_its_own_is_seeded_too(make):
    ours = source(make(torch.Generator()))
    first = batches(ours, epoch=1)
    assert batches(ours, epoch=1) == first != batches(ours, epoch=2)


def test_a_sampler_is_told_the_epoch():
    sampler = DistributedSampler(range(10), num_replicas=1, rank=0)
    ours = source(loader(sampler=sampler))
    first = batches(ours, epoch=1)
    assert batches(ours, epoch=2) != first == batches(ours, epoch=1)


def test_a_list_of_batches_is_such_a_thing():
    pairs = [(numbered()[:6], LABELS[:6]), (numbered()[6:], LABELS[6:])]
    ours = source(pairs)
    assert (len(ours), ours.class_names) == (10, ("0", "1", "2"))
    assert batches(ours) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert batches(source([list(pair) for pair in pairs])) == batches(ours)


class Own:
    """What anybody may write: batches again and again, and their number."""

    def __init__(self, num_batches=5, **items):
        self.num_batches = num_batches
        self.num_runs = 0
        self.items = items

    def __len__(self):
        return self.num_batches

    def __iter__(self):
        self.num_runs += 1
        for first in range(0, 2 * self.num_batches, 2):
            chosen = slice(first, first + 2)
            yield {"pixel_values": numbered()[chosen], "labels": LABELS[chosen]}


def test_another_iterable_of_batches_is_counted_by_a_first_run():
    own = Own()
    ours = source(own)
    assert (len(ours), ours.num_classes, own.num_runs) == (10, 3, 1)
    assert batches(ours)[0] == [0, 1, 2, 3]


def test_an_epoch_of_another_length_is_one_sentence():
    own = Own()
    ours = source(own)
    own.num_batches = 4
    with pytest.raises(
        UserError, match=r"gave 8 images .*, but 10 were expected"
    ):
        batches(ours)
    own.num_batches = 5
    short = LoaderSource(own, SPEC, ("a", "b", "c"), num_images=7)
    with pytest.raises(UserError, match="more than 7 images"):
        batches(short)


def test_uint8_is_resized_and_normalised():
    pixels = torch.randint(0, 256, (4, 1, 9, 9), dtype=torch.uint8)
    data = TensorDataset(pixels, torch.zeros(4, dtype=torch.int64))
    [(images, _)] = source(DataLoader(data, batch_size=4)).batches(batch_size=4)
    alone = as_source((pixels, [0] * 4), preprocess=SPEC)
    [(want, _)] = alone.batches(epoch=0, seed=0, batch_size=4)
    assert_close(images, want, rtol=0, atol=0)


BAD = {
    "no-labels": ([numbered()], r"batch 0 is of type Tensor"),
    "flat-images": ([(numbered()[:, 0, 0, 0], LABELS)], r"of shape \(10,\)"),
    "too-few-labels": ([(numbered(), LABELS[:9])], "and 9 labels"),
    "float-labels": ([(numbered(), LABELS.float())], "labels of .* float32"),
    "below-0": ([(numbered(), LABELS - 1)], "the label -1"),
    "whole-numbers": ([(numbered().int(), LABELS)], "int32; they are uint8"),
    "another-size": (
        [(torch.zeros(10, 1, 3, 3), LABELS)],
        "these are 1x3x3 and it wants 1x2x3",
    ),
    "not-normalised": (
        [(numbered().abs(), LABELS)],
        "the images are floats in 0..0.5",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_batch_of_another_form_is_one_sentence(name):
    items, sentence = BAD[name]

    class Listed:
        def __len__(self):
            return 1

        def __iter__(self):
            return iter(items)

    with pytest.raises(UserError, match=sentence):
        batches(source(Listed()))


def test_an_iterable_without_a_length_is_refused():
    class Endless:
        def __iter__(self):
            return iter(Own())

    with pytest.raises(UserError, match=r"Endless doesn't have a length .* __"):
        source(Endless())
