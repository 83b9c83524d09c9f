"""Pictures cut to crops by a worker, and what is done to them on the device."""

import os

import pytest
import torch
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile
from torch.testing import assert_close

from vitedu.data import Augment, PreprocessSpec, read_image
from vitedu.data.augment import apply
from vitedu.data.feed.pictures import cropped_pixels, edges, make_coarse
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
    [pixels], [row] = cropped_pixels([path], spec, augment, [seed])
    return pixels, row


def jpeg(folder, size, quality=95):
    """Clouds without noise."""
    generator = torch.Generator().manual_seed(0)
    clouds = 255 * torch.rand(1, 3, 7, 9, generator=generator)
    clouds = torch.nn.functional.interpolate(clouds, size=size, mode="bicubic")
    path = folder / "clouds.jpg"
    pixels = clouds[0].clamp(0, 255).permute(1, 2, 0).to(torch.uint8)
    Image.fromarray(pixels.numpy()).save(path, quality=quality)
    return path


@pytest.mark.parametrize(
    "fields",
    [
        {"shift": 3, "flip": True},
        {"shear": 30, "rotate": 10, "scale": 0.1, "shift": 3, "flip": True},
        {"rand_layers": 3, "rand_magnitude": 8, "jitter": 0.3},
    ],
    ids=lambda fields: "-".join(fields),
)
@pytest.mark.parametrize("seed", range(4))
def test_without_a_crop_all_of_it_is_that_of_an_array(photo, fields, seed):
    augment = Augment(**fields)
    pixels, row = drawn(photo, augment, seed)
    image = read_image(photo, SPEC)
    assert torch.equal(pixels, image)
    assert torch.equal(
        apply(augment, pixels[None], row[None], is_cropped=True),
        apply(augment, image[None], row[None]),
    )


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


def test_a_picture_does_not_depend_on_those_beside_it(photo, tmp_path):
    augment = Augment(crop=0.1, flip=True, rand_layers=1)
    pictures = [photo, jpeg(tmp_path, (30, 70)), photo]
    pixels, rows = cropped_pixels(pictures, SPEC, augment, [4, 5, 6])
    for i, picture in enumerate(pictures):
        alone, row = drawn(picture, augment, seed=4 + i)
        assert torch.equal(pixels[i], alone) and torch.equal(rows[i], row)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_a_crop_is_resized_as_pillow_does_it(photo, interpolation):
    """Antialiased; pillow rounds in other places, by one level."""
    spec = PreprocessSpec(image_size=7, interpolation=interpolation)
    pixels, _ = drawn(photo, Augment(crop=1.0), spec=spec)
    assert_close(pixels.int(), read_image(photo, spec).int(), rtol=0, atol=1)


@pytest.mark.parametrize("seed", range(4))
def test_a_large_jpeg_is_decoded_only_as_finely_as_its_crop_needs(
    tmp_path, monkeypatch, seed
):
    path, augment = jpeg(tmp_path, (900, 1200)), Augment(crop=0.5)
    pixels, _ = drawn(path, augment, seed)
    monkeypatch.setattr(JpegImageFile, "draft", lambda *_: None)
    whole, _ = drawn(path, augment, seed)
    difference = (pixels.int() - whole.int()).abs()
    # of 255: the box is rounded to pixels eight times as large; 0 would mean
    # that the picture was decoded in full
    assert 0 < difference.float().mean() < 3 and difference.max() < 20


def test_a_jpeg_is_never_decoded_smaller_than_its_crop_is_wanted(tmp_path):
    path = jpeg(tmp_path, (2 * SIDE, 2 * SIDE))
    with Image.open(path) as image:
        make_coarse(image, SPEC, (0.0, 0.0, 0.99, 1.0))
        assert image.size == (2 * SIDE, 2 * SIDE)
    with Image.open(path) as image:
        make_coarse(image, SPEC, (0.0, 0.0, 1.0, 1.0))
        assert image.size == (SIDE, SIDE)


def test_a_box_has_at_least_one_pixel_and_stays_inside():
    for length in (1, 2, 3, 500):
        for size in (1e-6, 0.3, 1.0):
            for centre in (size - 1, 0.0, 1 - size):
                first, last = edges(centre, size, length)
                assert 0 <= first < last <= length


def test_a_damaged_picture_is_named(tmp_path, photo):
    path = jpeg(tmp_path, (90, 120))
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(UserError, match=r"clouds\.jpg: image file is trunc"):
        cropped_pixels([photo, path, photo], SPEC, Augment(crop=0.5), [0, 1, 2])


def test_an_open_file_stays_open_and_a_path_does_not(tmp_path):
    path = jpeg(tmp_path, (90, 120))
    with Image.open(path) as image:  # the caller's stays as it was
        drawn(image, Augment(crop=0.9))
        assert image.size == (120, 90)
    before = os.listdir("/proc/self/fd") if os.path.isdir("/proc") else []
    with path.open("rb") as file:
        drawn(file, Augment(crop=0.5))
        assert not file.closed
    drawn(path, Augment(crop=0.5))
    with pytest.raises(UserError):
        cropped_pixels([path, tmp_path / "x.jpg"], SPEC, Augment(), [0, 1])
    if before:
        assert len(os.listdir("/proc/self/fd")) == len(before)
