"""Photographs with EXIF's tags 1 to 8 are the upright ones, however read."""

import io
import tarfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from tests.photographs import photographed
from vitedu.compat import import_torchvision
from vitedu.data import Augment, PreprocessSpec, as_source, prepare
from vitedu.data.feed.pictures import cropped_pixels
from vitedu.data.readers.folder import pictures_in
from vitedu.evaluate.predict import decoded, find_pictures
from vitedu.pictures import read_image

SPEC = PreprocessSpec(image_size=8, crop=0.9)
CROP = Augment(crop=0.2, flip=True)
TAGS = range(1, 9)


def noise(height, width, seed=0):
    random = np.random.default_rng(seed)
    return random.integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The photographs as a camera stores them, and upright."""
    root = tmp_path_factory.mktemp("photos")
    for tag in TAGS:
        picture = Image.fromarray(noise(20, 33, tag))
        for name, kept in (("camera", tag), ("upright", 1)):
            path = root / name / "ab"[tag % 2] / f"{tag}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(photographed(picture, kept))
    return root / "camera", root / "upright"


def inverted(picture):
    return Image.fromarray(255 - np.asarray(picture))


def fed(data, augment=None, spec=SPEC):
    source = as_source(data, preprocess=spec, augment=augment)
    [(images, _)] = source.batches(batch_size=len(TAGS), epoch=1, seed=2)
    return images


def image_folder(folder):
    return import_torchvision().datasets.ImageFolder(folder)


def in_a_tar(folder):
    """The pictures in a shard as others write them, labels beside them."""
    place = folder.with_suffix(".tar")
    with tarfile.open(place, "w") as archive:
        for label in range(2):
            for path in sorted((folder / "ab"[label]).iterdir()):
                for suffix, content in (
                    (path.suffix, path.read_bytes()),
                    (".cls", b"%d" % label),
                ):
                    member = tarfile.TarInfo(f"{label}{path.stem}{suffix}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
    return place


def predicted(folder):
    [(_, pixels)] = decoded(find_pictures([folder]), SPEC, invert=True)
    return torch.stack(pixels)


@pytest.mark.parametrize(
    "read",
    [
        fed,
        lambda folder: fed(folder, CROP),
        lambda folder: fed(folder, Augment(flip=True)),
        lambda folder: fed(folder, inverted),
        lambda folder: fed(image_folder(folder)),
        lambda folder: fed(image_folder(folder), CROP),
        lambda folder: fed(in_a_tar(folder)),
        lambda folder: fed(in_a_tar(folder), CROP),
        predicted,
    ],
    ids="evaluated cropped augmented changed dataset dataset-cropped tar "
    "tar-cropped predicted".split(),
)
def test_a_camera_s_photographs_are_the_upright_ones(folders, read):
    got, want = map(read, folders)
    assert torch.equal(got, want)


def test_they_can_be_left_as_they_are_stored(folders):
    spec = replace(SPEC, orientation="ignore")
    for augment in (None, CROP, inverted):
        got, want = (fed(folder, augment, spec) for folder in folders)
        same = [torch.equal(*pair) for pair in zip(got, want, strict=True)]
        # the order is that of the names: tags 2, 4, 6, 8, 1, 3, 5, 7
        assert same == [False] * 4 + [True] + [False] * 3


@pytest.mark.parametrize("format", ["shards", "folder"])
def test_prepared_ones_are_turned(folders, tmp_path, format):
    for folder in folders:
        prepare(folder, tmp_path / folder.name, short_side=10, format=format)
    names = [path.name for path in tmp_path.iterdir()]
    got, want = (fed(tmp_path / name) for name in names)
    assert torch.equal(got, want)
    if format == "folder":
        for path in pictures_in(tmp_path / "camera"):
            with Image.open(path) as image:
                assert image.size == (16, 10) and not image.getexif()


@pytest.mark.parametrize("format", ["shards", "folder"])
def test_a_small_one_keeps_its_bytes_and_its_tag(tmp_path, format):
    content = photographed(Image.fromarray(noise(20, 33)), 6, "JPEG")
    for name in "ab":
        path = tmp_path / "in" / name / "x.jpg"
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    prepare(tmp_path / "in", tmp_path / "out", short_side=20, format=format)
    name = "a/x.jpg" if format == "folder" else "train-000000.tar"
    assert content in (tmp_path / "out" / name).read_bytes()
    want = fed(tmp_path / "in")
    assert torch.equal(fed(tmp_path / "out"), want)
    assert torch.equal(fed(in_a_tar(tmp_path / "in")), want)


@pytest.mark.slow
@pytest.mark.parametrize("tag", [6, 7])
@pytest.mark.parametrize("seed", range(3))
def test_a_wide_one_is_decoded_as_finely_as_its_crop_needs(tmp_path, tag, seed):
    """It lies on its side in the file, where the other one does not."""
    clouds = torch.rand(1, 3, 5, 20, generator=torch.Generator().manual_seed(0))
    clouds = torch.nn.functional.interpolate(
        clouds, (300, 2000), mode="bicubic"
    )
    clouds = (255 * clouds[0].clamp(0, 1)).byte().permute(1, 2, 0).numpy()
    spec, augment = PreprocessSpec(image_size=64), Augment(crop=0.1)
    cut = []
    for kept in (tag, 1):
        content = photographed(
            Image.fromarray(clouds), kept, "JPEG", quality=95
        )
        cut.append(cropped_pixels([content], spec, augment, [seed]))
    (got, row), (want, same) = cut
    assert torch.equal(row, same)
    # a block of a JPEG is rounded in another order if it is turned
    assert (got.int() - want.int()).abs().float().mean() < 1.5
    assert read_image(content, spec).shape == (3, 64, 64)
