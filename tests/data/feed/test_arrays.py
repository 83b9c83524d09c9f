import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vitedu.data.augment import Augment
from vitedu.data.feed.arrays import BLOCK_VALUES, ArraySource
from vitedu.data.readers.arrays import open_pair
from vitedu.pictures import PreprocessSpec, normalise

SPEC = PreprocessSpec(image_size=(5, 4), in_channels=1, mean=0.1, std=0.3)
# pixel / 255
RAW = PreprocessSpec(image_size=(5, 4), in_channels=1, mean=0, std=1)
MOVES = {"shift": 1, "rotate": 20, "crop": 0.5, "flip": True}
COLOURS = {"rand_layers": 2, "jitter": 0.3, "erase": 0.5}
AUGMENT = Augment(**MOVES, **COLOURS)


def split_of(images, labels):
    return open_pair(images, labels, ("a", "b", "c"))


def numbered(n, classes=3):
    """n images, each full of its own number, so a batch tells what's in it."""
    images = torch.arange(n, dtype=torch.uint8)[:, None, None, None].expand(
        n, 1, 5, 4
    )
    return open_pair(
        images.contiguous(), torch.arange(n) % classes, ("a", "b", "c")
    )


def source(arrays, **options):
    options = {"preprocess": SPEC, "shuffle": True} | options
    return ArraySource(arrays, **options)


def everything(batches):
    batches = list(batches)
    return tuple(torch.cat([batch[i] for batch in batches]) for i in (0, 1))


@given(
    n=st.integers(1, 40),
    batch_size=st.integers(1, 45),
    world=st.integers(1, 4),
    shuffle=st.booleans(),
)
@settings(deadline=None, max_examples=40)
def test_every_sample_comes_once_whoever_takes_it(
    n, batch_size, world, shuffle
):
    feed = source(numbered(n), shuffle=shuffle, preprocess=RAW)
    ranks = [
        list(feed.batches(batch_size=batch_size, rank=rank, world=world))
        for rank in range(world)
    ]
    assert {len(batches) for batches in ranks} == {-(-n // batch_size)}
    seen = [
        int(i) for rank in ranks for x, _ in rank for i in (255 * x[:, 0, 0, 0])
    ]
    assert sorted(seen) == list(range(n))


def test_batches_are_normalised_floats_with_their_labels():
    arrays = numbered(7)
    [(images, labels)] = source(arrays, shuffle=False).batches(batch_size=7)
    assert images.dtype == torch.float32 and labels.dtype == torch.int64
    assert torch.equal(images, normalise(arrays.images, SPEC))
    assert torch.equal(labels, arrays.labels)


def test_batches_are_the_same_when_an_epoch_takes_several_blocks():
    side = 64
    n = 3 * BLOCK_VALUES // side**2 + 5
    images = torch.arange(n).to(torch.uint8)[:, None, None, None]
    arrays = split_of(images.repeat(1, 1, side, side), torch.arange(n) % 3)
    spec = PreprocessSpec(side, 1, mean=0, std=1)
    small = everything(source(arrays, preprocess=spec).batches(batch_size=3))
    large = everything(source(arrays, preprocess=spec).batches(batch_size=n))
    assert torch.equal(small[1], large[1]) and torch.equal(small[0], large[0])


def test_what_is_erased_is_0_after_the_normalisation():
    feed = source(numbered(40), augment=Augment(erase=1.0), shuffle=False)
    images, _ = everything(feed.batches(batch_size=8))
    plain, _ = everything(
        source(numbered(40), shuffle=False).batches(batch_size=8)
    )
    assert torch.equal(images[images != 0], plain[images != 0])
    assert (images == 0).flatten(1).any(1).float().mean() > 0.5


def test_batches_are_fed_on_the_device():
    """The meta device has no values: nothing may be asked of it."""
    feed = source(numbered(9), augment=AUGMENT, device="meta")
    images, labels = next(feed.batches(batch_size=4))
    assert images.device.type == labels.device.type == "meta"
