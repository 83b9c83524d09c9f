"""One picture through pillow does what a batch of arrays does."""

import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from vitedu.data import Augment, PreprocessSpec, read_image
from vitedu.data.augment import apply
from vitedu.data.transforms import training_pixels
from vitedu.errors import UserError

SIDE = 20
SPEC = PreprocessSpec(image_size=SIDE)


@pytest.fixture
def photo(tmp_path):
    """Clouds without noise, as large as SPEC wants them."""
    generator = torch.Generator().manual_seed(0)
    clouds = 255 * torch.rand(1, 3, 5, 5, generator=generator)
    clouds = torch.nn.functional.interpolate(clouds, size=SIDE, mode="bilinear")
    path = tmp_path / "photo.png"
    pixels = clouds[0].permute(1, 2, 0).to(torch.uint8)
    Image.fromarray(pixels.numpy()).save(path)
    return path


def drawn(path, augment, seed=0, spec=SPEC):
    generator = torch.Generator().manual_seed(seed)
    return training_pixels(path, spec, augment, generator)


def inside(images):
    """Without the border, where only arrays, not pillow, mix in the outside."""
    return images[..., 8:12, 8:12]


@pytest.mark.parametrize(
    "fields",
    [
        {"flip": True},
        {"shift": 3, "flip": True},
        {"rotate": 40},
        {"scale": 0.3, "shift": 2},
        {"shear": 30, "rotate": 10, "scale": 0.1, "shift": 3, "flip": True},
    ],
    ids=lambda fields: "-".join(fields),
)
@pytest.mark.parametrize("seed", range(4))
def test_a_move_is_that_of_an_array(photo, fields, seed):
    augment = Augment(**fields)
    pixels, row = drawn(photo, augment, seed)
    image = read_image(photo, SPEC)[None]
    want = apply(augment, image, row[None])[0]
    # pillow cuts off to whole values; float32 coordinates add 1e-2 at most
    assert_close(inside(pixels).float(), inside(want), rtol=0, atol=1.01)


@pytest.mark.parametrize("seed", range(4))
def test_colours_and_layers_are_those_of_an_array(photo, seed):
    augment = Augment(rand_layers=3, rand_magnitude=8, jitter=0.3)
    pixels, row = drawn(photo, augment, seed)
    want = apply(augment, read_image(photo, SPEC)[None], row[None])[0]
    # autocontrast may differ by 1, which what follows may stretch
    assert (pixels.float() - want).abs().mean() < 0.5


@pytest.mark.parametrize("seed", range(4))
def test_a_crop_is_the_drawn_box_of_the_whole_picture(tmp_path, seed):
    """A picture: its red is the column, its green the row, in percent."""
    height, width = 100, 200
    pixels = torch.zeros(height, width, 3, dtype=torch.uint8)
    pixels[..., 0] = torch.arange(width) // 2
    pixels[..., 1] = torch.arange(height)[:, None]
    path = tmp_path / "ramp.png"
    Image.fromarray(pixels.numpy()).save(path)
    cut, row = drawn(path, Augment(crop=0.1), seed)
    centre_y, centre_x, box_height, box_width = row[7:11].tolist()
    middle = cut[
        :, SIDE // 2 - 1 : SIDE // 2 + 1, SIDE // 2 - 1 : SIDE // 2 + 1
    ]
    # percent; whole values, and columns were halved downwards
    assert abs(middle[0].float().mean() - 50 * (1 + centre_x)) < 1.5
    assert abs(middle[1].float().mean() - 50 * (1 + centre_y)) < 1.5
    spread = (cut[0, 0, -1].int() - cut[0, 0, 0].int()) * SIDE / (SIDE - 1)
    assert abs(spread - 100 * box_width) < 3
    assert 3 / 4 - 1e-4 <= 2 * box_width / box_height <= 4 / 3 + 1e-4


def test_without_a_crop_the_picture_is_brought_to_size_as_for_evaluation(
    tmp_path,
):
    path = tmp_path / "x.png"
    Image.effect_noise((37, 23), 50).save(path)
    spec = PreprocessSpec(image_size=8, crop=0.9)
    pixels, _ = drawn(path, Augment(erase=0.5), spec=spec)
    assert torch.equal(pixels, read_image(path, spec))


def test_a_strip_too_long_to_be_resized_is_named(tmp_path):
    path = tmp_path / "strip.png"
    Image.new("L", (1, 1_000_000)).save(path)
    spec = PreprocessSpec(SIDE, crop=0.9)
    with pytest.raises(UserError, match=r"strip\.png: resized from 1 by 1,00"):
        drawn(path, Augment(flip=True), spec=spec)
    assert drawn(path, Augment(crop=0.1), spec=spec)[0].shape == (3, SIDE, SIDE)


def test_the_generator_decides_all(photo):
    augment = Augment(crop=0.3, rotate=9, rand_layers=2, jitter=0.2, erase=0.5)
    first, again, other = (drawn(photo, augment, seed) for seed in (1, 1, 2))
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])
    assert not torch.equal(first[0], other[0])


def test_grey_pictures_go_through_every_operation(photo):
    spec = PreprocessSpec(image_size=SIDE, in_channels=1)
    augment = Augment(rotate=5, rand_layers=40, jitter=0.1)
    assert drawn(photo, augment, spec=spec)[0].shape == (1, SIDE, SIDE)
