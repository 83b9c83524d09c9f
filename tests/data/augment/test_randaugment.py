"""The operations of RandAugment against pillow's, and who gets which."""

import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from PIL.ImageEnhance import Brightness, Color, Contrast, Sharpness

from vitedu.data.augment.randaugment import GREY, OPERATIONS, apply_layers, draw


def moved(image, *matrix):
    """Pixel (x, y) from (a x + b y + c, d x + e y + f), the nearest one."""
    fill = GREY if image.mode == "L" else (GREY,) * 3
    affine, nearest = Image.Transform.AFFINE, Image.Resampling.NEAREST
    return image.transform(image.size, affine, matrix, nearest, fillcolor=fill)


def rotated(image, degrees):
    """About the centre, counter-clockwise, as `Image.rotate` turns."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    x, y = image.width / 2, image.height / 2
    first = cos, -sin, x - cos * x + sin * y
    second = sin, cos, y - sin * x - cos * y
    return moved(image, *first, *second)


PILLOWS = {
    "identity": lambda image, _: image,
    "autocontrast": lambda image, _: ImageOps.autocontrast(image),
    "equalize": lambda image, _: ImageOps.equalize(image),
    "posterize": lambda image, bits: ImageOps.posterize(image, int(bits)),
    "solarize": lambda image, first: ImageOps.solarize(image, int(first)),
    "brightness": lambda image, factor: Brightness(image).enhance(factor),
    "contrast": lambda image, factor: Contrast(image).enhance(factor),
    "colour": lambda image, factor: Color(image).enhance(factor),
    "sharpness": lambda image, factor: Sharpness(image).enhance(factor),
    "rotate": rotated,
    "shear_x": lambda image, by: moved(image, 1, by, 0, 0, 1, 0),
    "shear_y": lambda image, by: moved(image, 1, 0, 0, by, 1, 0),
    "translate_x": lambda image, by: moved(
        image, 1, 0, by * image.width, 0, 1, 0
    ),
    "translate_y": lambda image, by: moved(
        image, 1, 0, 0, 0, 1, by * image.height
    ),
}


def pictures(count, channels, height=19, width=23):
    """Clouds with noise, one channel of one value, and one flat picture."""
    generator = torch.Generator().manual_seed(0)
    clouds = torch.rand(count, channels, 4, 4, generator=generator)
    clouds = torch.nn.functional.interpolate(
        clouds, size=(height, width), mode="bilinear"
    )
    noise = torch.rand(count, channels, height, width, generator=generator)
    images = (170 * clouds + 60 * noise + 10).to(torch.uint8)
    images[:1], images[1:2, 0] = 77, 3
    return images


def changed(name, images, levels):
    """All of them through one operation."""
    operation = OPERATIONS[name]
    return operation.change(images, operation.value(levels))


def by_pillow(operation, images, values):
    """Each picture on its own, through pillow and back."""
    out = []
    for image, value in zip(images, values.tolist(), strict=True):
        grey = len(image) == 1
        pixels = image[0] if grey else image.permute(1, 2, 0)
        pixels = np.array(operation(Image.fromarray(pixels.numpy()), value))
        pixels = torch.from_numpy(pixels)
        out.append(pixels[None] if grey else pixels.permute(2, 0, 1))
    return torch.stack(out)


def test_the_operations_are_the_14_of_the_paper():
    assert set(OPERATIONS) == set(PILLOWS) and len(OPERATIONS) == 14


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_gives_pillows_pixels(name, channels):
    images = pictures(12, channels)
    # up to twice the whole range; round ones would read from borders of pixels
    levels = torch.linspace(-1.987, 1.979, 12)
    values = OPERATIONS[name].value(levels)
    got = OPERATIONS[name].change(images, values)
    want = by_pillow(PILLOWS[name], images, values)
    assert got.dtype == torch.uint8
    difference = (got.int() - want.int()).abs()
    if name == "autocontrast":
        # ours are whole numbers throughout; pillow's float64 falls below some
        # of them
        assert difference.max() <= 1
    elif name == "rotate":
        # a place on the border of two pixels: float32 here, 1/65536 of a pixel
        # there
        assert (difference > 0).float().mean() < 1e-3
    else:
        assert torch.equal(got, want)


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("rotate", lambda image: image.rotate(30, fillcolor=(128, 128, 128))),
        ("posterize", lambda image: image.point(lambda value: value & 0xF0)),
        ("solarize", lambda image: image.point(lambda value: 255 - value)),
        ("brightness", lambda image: image.point(lambda value: value * 1.9)),
        ("identity", lambda image: image),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_whole_range_is_the_stated_one(name, reference):
    images = pictures(4, 3)
    got = changed(name, images, torch.ones(4))
    want = by_pillow(
        lambda image, level: reference(image), images, torch.ones(4)
    )
    # pillow's rotate and point round in their own ways: one value, or a border
    # pixel
    assert ((got.int() - want.int()).abs() > 1).float().mean() < 5e-3


def test_a_move_brings_in_grey_and_keeps_the_rest():
    images = pictures(2, 1, height=4, width=331)
    got = changed("translate_x", images, torch.ones(2))
    assert torch.equal(got[..., : 331 - 150], images[..., 150:])
    assert got[..., 331 - 150 :].eq(128).all()


@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - {"identity"}))
def test_level_0_changes_nothing_that_has_a_strength(name):
    images = pictures(5, 3)
    same = torch.equal(changed(name, images, torch.zeros(5)), images)
    assert same == (name not in ("autocontrast", "equalize"))


def test_every_sample_goes_through_its_own_operations_in_order():
    images = pictures(60, 3)
    generator = torch.Generator().manual_seed(1)
    layers = [draw(torch.rand(60, 2, generator=generator)) for _ in range(3)]
    rows = torch.stack([column for layer in layers for column in layer], dim=1)
    got = apply_layers(images, rows, magnitude=7)
    names = list(OPERATIONS)
    for i in range(60):
        want = images[i : i + 1]
        for number, sign in layers:
            level = sign[i : i + 1] * 7 / 10
            want = changed(names[int(number[i])], want, level)
        assert torch.equal(got[i : i + 1], want)


def test_operations_and_signs_are_drawn_about_equally_often():
    generator = torch.Generator().manual_seed(0)
    number, sign = draw(torch.rand(14_000, 2, generator=generator))
    # binomial(14000, 1/14): 30.5; binomial(14000, 1/2): 59; 6 of them: 1 in
    # 10^8
    assert draw(torch.ones(1, 2))[0].item() == 13  # rand may round up to 1
    counts = number.long().bincount()
    assert len(counts) == 14 and (counts - 1000).abs().max() < 6 * 30.5
    assert set(sign.tolist()) == {-1.0, 1.0}
    assert abs(int((sign > 0).sum()) - 7000) < 6 * 59


def test_the_input_is_not_written_to():
    images = pictures(6, 3)
    before = images.clone()
    for name in OPERATIONS:
        changed(name, images, torch.ones(6))
    assert torch.equal(images, before)
