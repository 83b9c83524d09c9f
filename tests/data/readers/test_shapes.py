import hashlib
import resource

import numpy as np
import pytest
from PIL import Image

from vitedu import results
from vitedu.data.readers import shapes
from vitedu.data.readers.shapes import (
    VALIDATION_SEED,
    class_names,
    make_arrays,
    write_folder,
)
from vitedu.errors import UserError


def digest(images):
    return hashlib.sha256(images.tobytes()).hexdigest()


@pytest.mark.parametrize(
    ("arguments", "start", "sha256"),
    [
        (
            (24, 32, 12, 3),
            0,
            "61f9dad85a19bb1cd2005babcb1200834f58a45b050b7ee33cc2446ea32a5acb",
        ),
        (
            (6, (48, 80), 6, 2**40),
            5,
            "032ade6b47bd9aba27d0660974ab7339ddc43ba00eb7cac492363c685d735143",
        ),
        (
            (32, 64, 16),
            0,
            "e439840cf35a5df37010a6c68562019795a511e066873a5a0b015c818e7f9716",
        ),
    ],
)
def test_images_are_the_stored_bytes(arguments, start, sha256):
    images, labels = make_arrays(*arguments, start=start)
    num_images, num_classes = arguments[0], arguments[2]
    assert images.dtype == np.uint8 and labels.dtype == np.int64
    expected = np.arange(start, start + num_images) % num_classes
    assert np.array_equal(labels, expected)
    assert digest(images) == sha256


@pytest.mark.parametrize("pixels", [1, 5 * 64 * 64, 2**22])
def test_bytes_do_not_depend_on_the_chunk(monkeypatch, pixels):
    whole = make_arrays(40)[0]
    monkeypatch.setattr(shapes, "PIXELS_AT_ONCE", pixels)
    assert digest(make_arrays(40)[0]) == digest(whole)


def test_a_set_begins_with_every_smaller_one_and_start_continues_it():
    images, labels = make_arrays(80, 32, 10, seed=2)
    for start, stop in ((0, 1), (1, 38), (38, 80)):
        part, part_labels = make_arrays(
            stop - start, 32, 10, seed=2, start=start
        )
        assert np.array_equal(part, images[start:stop])
        assert np.array_equal(part_labels, labels[start:stop])


def test_class_names_are_in_the_order_of_image_folders_and_grow_by_one():
    for num_classes in range(4, 17):
        names = class_names(num_classes)
        assert list(names) == sorted(set(names)) and len(names) == num_classes
        if num_classes > 4:
            assert set(class_names(num_classes - 1)) < set(names)


@pytest.mark.slow
def test_a_seed_shows_the_same_scenes_at_every_size():
    # A product too large for int32 at 1024 pixels would show here, too. From
    # image 1: crescent, cross, disc, ellipse, frame, half_disc.
    large, small = (make_arrays(6, size, 16, start=1)[0] for size in (1024, 64))
    difference = np.abs(large[..., 8::16, 8::16].astype(int) - small)
    # Pixel noise alone gives 3.8 on average, edges add up to 1.1, a lost form
    # over 5.
    assert difference.mean(axis=(1, 2, 3)).max() < 6


def test_every_form_covers_the_area_of_its_formula():
    # A 200 x 200 field, radius 60 pixels, turned by 25 degrees.
    radius = 60
    axis = np.arange(-100, 100, dtype=np.int64)[None] * 64 + 32
    place = shapes.Place(axis, axis, np.array([50]))
    tan = {sides: sides * np.tan(np.pi / sides) for sides in (3, 4, 5, 6)}
    spike = np.tan(np.pi / 5) ** 2 * np.tan(2 * np.pi / 5)
    formulas = {
        "disc": np.pi * 0.82**2,
        "triangle": tan[3] * 0.58**2,
        "ring": np.pi * (0.95**2 - 0.55**2),
        "cross": 4 * 0.30 * (2 * 0.97 - 0.30),
        "square": tan[4] * 0.74**2,
        "stripes": 3 * 4 * 0.88 * 0.20,
        "star": (tan[5] + 5 * spike) * 0.37**2,
        "hexagon": tan[6] * 0.76**2,
        "frame": tan[4] * (0.84**2 - 0.48**2),
        "ellipse": 2 * np.pi * 0.54**2,
        "letter_l": 4 * (0.95 * 0.25 + 0.25 * 0.62) - 0.50 * 0.50,
        "pentagon": tan[5] * 0.73**2,
    }
    for form in shapes.FORMS:
        outline = shapes.outline(form, place, np.full((1, 1, 1), radius * 64))
        area = np.count_nonzero(outline < 0) / radius**2
        # No class is told by its area alone: radii differ by 1.7, areas by 2.8.
        assert 1.1 < area < 2.3, form
        if form in formulas:
            # Lengths are rounded to 1/64 pixel, the border is 400 pixels of
            # 6,000.
            assert area == pytest.approx(formulas[form], rel=0.02), form


def test_no_sine_is_so_near_to_a_half_that_a_machine_could_round_otherwise():
    exact = np.sin(2 * np.pi * np.arange(720) / 720) * 2**14
    assert np.abs(exact - shapes.sine_table()).max() < 0.4996


def test_a_written_folder_holds_the_arrays(tmp_path):
    folder = tmp_path / "new" / "shapes"
    write_folder(
        folder,
        num_train=70,
        num_val=9,
        image_size=(32, 48),
        num_classes=5,
        seed=4,
    )
    assert sorted(path.name for path in folder.iterdir()) == ["train", "val"]
    assert list(folder.parent.iterdir()) == [folder]
    parts = (("train", 70, 4), ("val", 9, 4 + VALIDATION_SEED))
    for part, num_images, seed in parts:
        names = sorted(path.name for path in (folder / part).iterdir())
        assert names == list(class_names(5))
        assert len(list((folder / part).glob("*/*"))) == num_images
        images, labels = make_arrays(num_images, (32, 48), 5, seed)
        differences = []
        for number, (image, label) in enumerate(
            zip(images, labels, strict=True)
        ):
            path = folder / part / names[label] / f"{number:06d}.jpg"
            with Image.open(path) as file:
                assert file.format == "JPEG"
                pixels = np.asarray(file.convert("RGB"), dtype=int)
            differences.append(np.abs(pixels - image.transpose(1, 2, 0)).mean())
        # Colour is stored at half resolution; two scenes differ by 70 levels or
        # so.
        assert max(differences) < 20


def test_an_existing_folder_is_refused_and_kept(tmp_path):
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(UserError, match="exists already"):
        write_folder(tmp_path, num_train=10, num_val=10)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_full_disk_leaves_nothing(tmp_path, fork):
    def write_with_little_space():
        # one image is 5 kB
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        write_folder(
            tmp_path / "shapes", num_train=10, num_val=10, image_size=96
        )

    answer = fork(write_with_little_space).answer()
    assert answer.startswith("UserError: cannot write") and "\n" not in answer
    assert list(tmp_path.iterdir()) == []


def test_the_documented_difficulty_is_the_recorded_one():
    metrics = results.read("shapes-difficulty")["metrics"]
    for thousands in (1, 10, 100):
        row = [f"{thousands * 1000:,}"]
        for model in ("linear", "cnn", "vit"):
            row.append(f"{metrics[f'{model}_{thousands}k']['value']:.1f}")
        assert row in [line.split() for line in shapes.__doc__.splitlines()]


def test_targets_leave_the_images_and_labels_as_they_are():
    images, labels, targets = make_arrays(40, 32, 16, seed=3, targets=True)
    plain = make_arrays(40, 32, 16, seed=3)
    assert np.array_equal(images, plain[0]) and np.array_equal(labels, plain[1])
    assert [len(each) for each in targets] == [40] * 4


def test_masks_hold_the_figure_and_boxes_fit_them():
    images, _, targets = make_arrays(64, (48, 80), 16, seed=1, targets=True)
    for image, mask, box in zip(
        images, targets.masks, targets.boxes, strict=True
    ):
        left, top, right, bottom = box
        rows, columns = np.nonzero(mask)
        assert (left, right) == (columns.min(), columns.max() + 1)
        assert (top, bottom) == (rows.min(), rows.max() + 1)
        # the figure differs from its ground by 50 levels in each channel;
        # texture and what lies there may bring the two nearer
        inside, outside = image[:, mask].mean(1), image[:, ~mask].mean(1)
        assert np.abs(inside - outside).max() > 20


def test_the_figure_turns_about_its_place():
    _, labels, targets = make_arrays(64, 64, 4, seed=2, targets=True)
    name = class_names(4).index("disc")
    checked = 0
    for label, place, box in zip(
        labels, targets.places, targets.boxes, strict=True
    ):
        if label == name and box.min() > 0 and box.max() < 64:
            middle = (box[:2] + box[2:]) / 2
            assert np.abs(middle - place).max() <= 1  # to a pixel
            checked += 1
    assert checked > 5


def test_counts_are_of_the_figure_and_the_distractors_that_show():
    _, _, targets = make_arrays(400, 64, 10, targets=True)
    shares = np.bincount(targets.counts, minlength=5) / 400
    # each of three is there in half of the images: 1/8, 3/8, 3/8, 1/8, but for
    # those that others hide
    assert shares[0] == 0 and len(shares) == 5
    assert np.abs(shares[1:] - [0.125, 0.375, 0.375, 0.125]).max() < 0.06
