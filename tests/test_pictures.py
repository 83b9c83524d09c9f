import io
import os
import random
import resource
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.testing import assert_close

from tests.photographs import photographed
from vitedu import vit
from vitedu.compat import import_timm
from vitedu.data import photo
from vitedu.errors import UserError
from vitedu.pictures import (
    PreprocessSpec,
    UnreadablePicture,
    as_image,
    normalise,
    preprocess,
    read_image,
)

GREY = PreprocessSpec(image_size=4, in_channels=1)
RGB = PreprocessSpec(image_size=4)


def random_picture(height, width, channels=3, seed=0):
    shape = (height, width, channels)[: 3 if channels > 1 else 2]
    pixels = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    return Image.fromarray(pixels)


def encoded(picture, kind="PNG"):
    file = io.BytesIO()
    picture.save(file, kind)
    return file.getvalue()


def test_one_number_stands_for_every_channel():
    spec = PreprocessSpec(image_size=28, in_channels=1, mean=0, std=[1])
    assert (spec.image_size, spec.mean, spec.std) == ((28, 28), (0.0,), (1.0,))
    grey = PreprocessSpec(mean=0.3, std=0.2, crop=0.9).sized((28, 28), 1)
    assert grey == PreprocessSpec(28, 1, 0.3, 0.2, crop=0.9)


def test_json_goes_both_ways():
    spec = PreprocessSpec((8, 6), 3, (0.1, 0.2, 0.3), 0.5, "bicubic", 0.9)
    values = spec.to_json()
    assert values["image_size"] == [8, 6] and values["mean"] == [0.1, 0.2, 0.3]
    assert PreprocessSpec.from_json(values) == spec


@pytest.mark.parametrize("mean", [0.5, (0.485, 0.456, 0.406)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_normalise_is_the_formula(mean, dtype):
    spec = PreprocessSpec(4, mean=mean, std=(0.229, 0.224, 0.225))
    images = torch.arange(2 * 3 * 16).view(2, 3, 4, 4).to(dtype)
    mean, std = (
        torch.tensor(each)[:, None, None] for each in (spec.mean, spec.std)
    )
    before = images.clone()
    got = normalise(images, spec)
    assert got.dtype == torch.float32 and torch.equal(images, before)
    # float32, the same sum in another order: a few units of 1.2e-7 at values of
    # 3
    assert_close(got, (images / 255 - mean) / std, rtol=0, atol=2e-6)


@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
@pytest.mark.parametrize("crop", [0.875, 0.9, 0.95, 1.0])
@pytest.mark.parametrize("size", [(64, 64), (37, 37), (48, 31), (31, 48)])
def test_resize_and_crop_equal_timm_pixel_for_pixel(size, crop, interpolation):
    import_timm()
    from timm.data import create_transform

    transform = create_transform(
        (3, *size),
        crop_pct=crop,
        interpolation=interpolation,
        mean=(0.0, 0.0, 0.0),
        std=(1.0, 1.0, 1.0),
    )
    spec = PreprocessSpec(size, crop=crop, interpolation=interpolation)
    for height, width in ((75, 101), (101, 75), (33, 33), (29, 200), (64, 65)):
        picture = random_picture(height, width, seed=height)
        want = (transform(picture) * 255).round().to(torch.uint8)
        assert torch.equal(read_image(picture, spec), want)


def test_a_file_an_image_and_an_array_are_the_same_picture(tmp_path):
    picture = random_picture(9, 7)
    picture.save(tmp_path / "picture.png")
    want = read_image(picture, RGB)
    for other in (tmp_path / "picture.png", str(tmp_path / "picture.png")):
        assert torch.equal(read_image(other, RGB), want)
    assert torch.equal(read_image(np.array(picture), RGB), want)
    last_axis = np.array(random_picture(9, 7, 1))[..., None]
    assert torch.equal(
        read_image(last_axis, GREY), read_image(last_axis[..., 0], GREY)
    )


def test_sixteen_bits_become_eight(tmp_path):
    pixels = (np.arange(16, dtype=np.uint16) * 4096 + 255).reshape(4, 4)
    Image.fromarray(pixels).save(tmp_path / "deep.png")
    got = read_image(tmp_path / "deep.png", GREY)
    assert got.flatten().tolist() == [16 * i for i in range(16)]


def test_a_palette_with_transparent_entries_keeps_its_colours(tmp_path):
    picture = Image.new("P", (4, 4), 1)
    picture.putpalette([0, 0, 0, 10, 200, 30])
    picture.save(tmp_path / "palette.png", transparency=b"\x00\x80")
    got = read_image(tmp_path / "palette.png", RGB)
    assert got[:, 0, 0].tolist() == [10, 200, 30]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "RGBA", "CMYK", "HSV"])
def test_other_colour_models_are_converted(mode):
    picture = random_picture(5, 5).convert(mode)
    assert read_image(picture, RGB).shape == (3, 4, 4)
    assert read_image(picture, GREY).shape == (1, 4, 4)


def test_of_an_animation_the_first_frame_is_taken(tmp_path):
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    path = tmp_path / "moving.gif"
    frames[0].save(path, save_all=True, append_images=frames[1:])
    assert read_image(path, RGB)[:, 0, 0].tolist() == [255, 0, 0]


@pytest.mark.parametrize("tag", range(1, 9))
@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
def test_a_photograph_is_turned_upright(tag, kind):
    picture = random_picture(5, 9)
    content = photographed(picture, tag, kind, lossless=True)
    want = read_image(picture, RGB)
    assert torch.equal(read_image(content, RGB), want)
    # a picture that a torch Dataset has opened, and what is made of it
    with Image.open(io.BytesIO(content)) as image:
        assert torch.equal(read_image(image.convert("RGBA"), RGB), want)
        assert torch.equal(read_image(as_image(image, 3), RGB), want)


@pytest.mark.parametrize("tag", [3, 6])
def test_a_photograph_can_be_left_as_it_is_stored(tag):
    content = photographed(random_picture(5, 9), tag)
    with Image.open(io.BytesIO(content)) as image:
        stored = Image.fromarray(np.asarray(image))
    as_stored = replace(RGB, orientation="ignore")
    want = read_image(stored, RGB)
    assert torch.equal(read_image(content, as_stored), want)
    assert not torch.equal(read_image(content, RGB), want)


@pytest.mark.parametrize("exif", [b"Exif\0\0nonsense", b"Exif\0\0MM\0*\xff"])
def test_a_damaged_exif_turns_nothing(exif):
    picture, file = random_picture(5, 9), io.BytesIO()
    picture.save(file, "PNG", exif=exif)
    assert torch.equal(
        read_image(file.getvalue(), RGB), read_image(picture, RGB)
    )


def test_an_upright_spec_is_written_as_before_there_was_another():
    assert "orientation" not in RGB.to_json()
    other = replace(RGB, orientation="ignore")
    assert PreprocessSpec.from_json(other.to_json()) == other


# --- other forms of a picture


def test_bytes_and_an_open_file_are_the_picture_too(tmp_path):
    picture = random_picture(5, 7)
    want = read_image(picture, RGB)
    assert torch.equal(read_image(encoded(picture), RGB), want)
    assert torch.equal(read_image(io.BytesIO(encoded(picture)), RGB), want)
    path = tmp_path / "cat.png"
    path.write_bytes(encoded(picture))
    with path.open("rb") as file:
        assert torch.equal(read_image(file, RGB), want)
        assert not file.closed
        assert torch.equal(read_image(file, RGB), want)  # from its beginning


@pytest.mark.parametrize("channels", [1, 3])
def test_a_tensor_of_bytes_or_of_floats_is_the_picture_too(channels):
    spec = PreprocessSpec(image_size=4, in_channels=channels)
    picture = random_picture(5, 7, channels)
    want = read_image(picture, spec)
    pixels = torch.from_numpy(np.array(picture)).reshape(5, 7, channels)
    pixels = pixels.permute(2, 0, 1)
    for same in (
        pixels,
        pixels / 255,
        (pixels / 255).double().requires_grad_(),
    ):
        assert torch.equal(read_image(same, spec), want)


# --- many pictures, and the spec as a transform


def test_a_list_of_pictures_of_any_sizes_is_one_batch():
    model = nn.Linear(1, 1, dtype=torch.float64)
    model.preprocess = RGB
    pictures = [random_picture(5, 7), encoded(random_picture(9, 4, seed=1))]
    got = preprocess(model, pictures)
    assert got.dtype == torch.float64  # the model's own
    assert torch.equal(got, torch.stack(list(map(RGB, pictures))).double())
    assert torch.equal(got[:1], preprocess(model, pictures[0]))


def test_a_spec_is_a_transform_of_one_picture():
    picture = random_picture(5, 7)
    got = RGB(picture)
    assert got.dtype == torch.float32
    assert torch.equal(got, normalise(read_image(picture, RGB)[None], RGB)[0])


@pytest.mark.parametrize("crop", [None, 0.9])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_timm_finds_the_preprocessing_of_a_model(crop, interpolation):
    import_timm()
    from timm.data import create_transform, resolve_model_data_config

    model = vit("ViT-Ti/16", depth=1, image_size=64)
    model.preprocess = PreprocessSpec(
        64,
        mean=(0.4, 0.5, 0.6),
        std=(0.3, 0.5, 0.2),
        interpolation=interpolation,
        crop=crop,
    )
    config = resolve_model_data_config(model)
    theirs = create_transform(**config, is_training=False)
    picture = photo("hopper")
    # The same pixels; then (x / 255 - mean) / std against x * scale + offset: a
    # few roundings in float32 of numbers up to 3, measured 5e-7.
    assert_close(theirs(picture), model.preprocess(picture), rtol=0, atol=2e-6)


# --- what cannot be a picture


def png_header(width, height):
    """A PNG that says how large it is, and ends where its pixels begin."""
    size = struct.pack(">II5B", width, height, 8, 2, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n"
    for name, chunk in ((b"IHDR", size), (b"IDAT", b"")):
        content += struct.pack(">I", len(chunk)) + name + chunk
        content += struct.pack(">I", zlib.crc32(name + chunk))
    return content


PNG = encoded(random_picture(50, 50))
# what is in a file of this name, and what is said of it
FILES = {
    "notes.jpg": (b"not a picture", "it is not a picture that pillow can read"),
    "half.png": (PNG[:900], "image file is truncated"),
    "half.jpg": (encoded(random_picture(90, 90), "JPEG")[:900], "image file"),
    "IMG_1.HEIC": (
        b"\0\0\0\x18ftypheic",
        r"pillow .* does not read \.heic; save it as JPEG",
    ),
    "huge.png": (
        png_header(50_000, 50_000),
        r"2500000000 pixels\) exceeds limit of 178956970 pixels; scale it down",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_picture_is_named(tmp_path, name):
    content, sentence = FILES[name]
    (tmp_path / name).write_bytes(content)
    said = rf"^cannot read .*{name}: .*{sentence}"
    with pytest.raises(UnreadablePicture, match=said):
        read_image(tmp_path / name, RGB)
    with (
        (tmp_path / name).open("rb") as file,
        pytest.raises(UnreadablePicture, match=said),
    ):
        read_image(file, RGB)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("cat.jpg", "cat.jpg does not exist"),
        (".", "is a folder; a file is needed"),
        ("pipe.png", "pipe.png is a pipe"),
        ("x" * 5000, "cannot read x+.*: File name too long"),
        ("", "the path is empty"),
    ],
)
def test_a_path_that_is_no_file_is_one_sentence(
    tmp_path, monkeypatch, path, sentence
):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe.png")
    with pytest.raises(UserError, match=sentence):
        read_image(path, RGB)


NO_PICTURE = [
    (b"hello", "cannot read the picture of 5 bytes: it is not a picture"),
    (io.StringIO(), 'the open file is opened as text; open it with "rb"'),
    (Image.new("F", (4, 4)), "floating-point pixels have no known range"),
    *[
        (each, f"a picture is a path, .* got {type(each).__name__}$")
        for each in (None, 3, [[0, 1]], {})
    ],
    *[
        (array, "a picture as an array is uint8 of shape")
        for array in (
            np.zeros((4, 4), np.float32),
            np.zeros((4, 4, 2), np.uint8),
            np.zeros((0, 4), np.uint8),
        )
    ],
    (torch.zeros(1, 3, 8, 8), r"is \(3, h, w\), .* \(1, 3, 8, 8\)"),
    (torch.zeros(1, 8, 8), r"is \(3, h, w\), .* \(1, 8, 8\)"),
    (torch.zeros(3, 0, 8), r"is \(3, h, w\), .* \(3, 0, 8\)"),
    (torch.full((3, 8, 8), 2.0), r"in 0\.\.1, got 2\.\.2"),
    (torch.full((3, 8, 8), torch.nan), r"in 0\.\.1, got nan\.\.nan"),
    (torch.zeros(3, 8, 8, dtype=torch.int64), "got torch.int64"),
]


@pytest.mark.parametrize(("thing", "sentence"), NO_PICTURE)
def test_what_is_no_picture_is_one_sentence(thing, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_image(thing, RGB)


def test_what_the_system_cannot_read_just_now_is_not_called_broken(tmp_path):
    random_picture(4, 4).save(tmp_path / "a.png")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        with pytest.raises(
            UserError, match=r"cannot read .*a\.png: Too many open files"
        ) as caught:
            read_image(tmp_path / "a.png", RGB)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not isinstance(caught.value, UnreadablePicture)


def pictures_of_every_format():
    """A small picture in each format that pillow writes here."""
    Image.init()
    for kind in ("AVIF", "BMP", "GIF", "ICO", "JPEG", "JPEG2000", "PNG", "PPM"):
        if kind in Image.SAVE:
            yield encoded(random_picture(12, 16), kind)
    for mode, kind in (("P", "PNG"), ("I;16", "TIFF"), ("CMYK", "TIFF")):
        yield encoded(random_picture(12, 16).convert(mode), kind)
    yield encoded(random_picture(12, 16), "WEBP")


def damaged(content, draws):
    """The file cut off, or with some bytes overwritten."""
    if draws.random() < 0.3:
        return content[: draws.randrange(len(content))]
    content = bytearray(content)
    for _ in range(draws.randrange(1, 6)):
        content[draws.randrange(len(content))] = draws.randrange(256)
    return bytes(content)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:::PIL")
def test_damage_of_any_kind_is_one_sentence_and_no_warning(capfd):
    draws = random.Random(0)
    num_read = num_refused = 0
    for content in pictures_of_every_format():
        for _ in range(50):
            try:
                as_image(damaged(content, draws), 3)
                num_read += 1
            except UnreadablePicture as error:
                assert "\n" not in str(error)
                num_refused += 1
    assert num_read > 100 and num_refused > 200
    assert capfd.readouterr() == ("", "")
