import math

import pytest
import torch
from torch.testing import assert_close

from vitedu.data.augment import randaugment
from vitedu.data.augment.augment import (
    COLUMNS,
    Augment,
    apply,
    augmentation_table,
    draws,
    erase,
    table_from,
)

MOVES = {"shift": 2, "rotate": 15, "scale": 0.1, "shear": 10, "crop": 0.5}
COLOURS = {"rand_layers": 2, "jitter": 0.3, "erase": 0.5}


def random_images(b, c, h, w, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(
        0, 256, (b, c, h, w), dtype=torch.uint8, generator=generator
    )


def draw(augment, n, seed=0, aspect=1.0):
    numbers = draws(augment, n, torch.Generator().manual_seed(seed))
    aspects = torch.full((n,), aspect, dtype=torch.float64)
    return table_from(augment, numbers, aspects)


def column(table, name):
    return table[:, COLUMNS.index(name)]


def shifted_by_loop(image, down, right):
    """(c, h, w): the definition, pixel by pixel."""
    result = torch.zeros_like(image)
    _, h, w = image.shape
    for y in range(h):
        for x in range(w):
            if 0 <= y - down < h and 0 <= x - right < w:
                result[:, y, x] = image[:, y - down, x - right]
    return result


@pytest.mark.parametrize(("c", "h", "w"), [(1, 7, 7), (3, 5, 8)])
def test_shift_and_flip_move_whole_pixels_and_fill_with_zero(c, h, w):
    augment, images = Augment(shift=3, flip=True), random_images(40, c, h, w)
    table = draw(augment, 40)
    moved = apply(augment, images, table)
    for image, row, got in zip(images, table, moved, strict=True):
        want = shifted_by_loop(image, int(row[0]), int(row[1]))
        assert torch.equal(got, (want.flip(-1) if row[2] else want).float())


def test_every_shift_and_flip_is_drawn_about_equally_often():
    table = draw(Augment(shift=2, flip=True), 20_000)
    for name in ("shift_down", "shift_right"):
        values, counts = column(table, name).unique(return_counts=True)
        assert values.tolist() == [-2, -1, 0, 1, 2]
        # binomial(20000, 0.2) has standard deviation 57; 6 of them: 1 in 10^8
        assert (counts - 4000).abs().max() < 6 * 57
    # binomial(20000, 0.5): 71
    assert abs(column(table, "flip").sum() - 10_000) < 6 * 71


def test_a_whole_pixel_shift_inside_a_resampling_equals_the_exact_shift():
    images, rows = random_images(1, 1, 8, 8), draw(Augment(), 1)
    rows[0, :3] = torch.tensor([2.0, -1.0, 1.0])
    want = shifted_by_loop(images[0], 2, -1).flip(-1)[None].float()
    got = apply(Augment(rotate=1), images, rows)
    # float32 coordinates are off by about 1e-6 of 8 pixels, times a step of 255
    assert_close(got, want, rtol=0, atol=1e-2)


def bilinear(image, y, x):
    """One value of an (h, w) picture between its pixels, zero outside."""
    h, w = image.shape
    value = 0.0
    for row in (math.floor(y), math.floor(y) + 1):
        for col in (math.floor(x), math.floor(x) + 1):
            if 0 <= row < h and 0 <= col < w:
                weight = (1 - abs(y - row)) * (1 - abs(x - col))
                value += weight * float(image[row, col])
    return value


@pytest.mark.parametrize(("h", "w"), [(11, 11), (9, 14)])
def test_rotation_equals_a_direct_computation(h, w):
    augment, images = Augment(rotate=40), random_images(4, 1, h, w)
    table = draw(augment, 4)
    got = apply(augment, images, table)
    for image, row, turned in zip(images[:, 0], table, got[:, 0], strict=True):
        angle = math.atan2(
            row[COLUMNS.index("m_yx")], row[COLUMNS.index("m_xx")]
        )
        assert 0 < abs(angle) <= math.radians(40)
        for y in range(h):
            for x in range(w):
                dy, dx = y - (h - 1) / 2, x - (w - 1) / 2
                read_y = (
                    math.cos(angle) * dy + math.sin(angle) * dx + (h - 1) / 2
                )
                read_x = (
                    math.cos(angle) * dx - math.sin(angle) * dy + (w - 1) / 2
                )
                want = bilinear(image, read_y, read_x)
                # float32 coordinates, about 1e-6 of 14 pixels, times a step of
                # 255
                assert abs(float(turned[y, x]) - want) < 1e-2


def test_a_positive_angle_turns_counter_clockwise():
    picture = torch.zeros(1, 1, 5, 5)
    picture[0, 0, 2, 4] = 100  # on the right
    rows = draw(Augment(), 1)
    rows[0, 3:7] = torch.tensor([0.0, 1.0, -1.0, 0.0])  # 90 degrees
    assert int(apply(Augment(rotate=90), picture, rows).argmax()) == 2  # on top


def test_a_crop_shows_its_box_over_the_whole_picture():
    rows = draw(Augment(), 1)
    # the upper right quarter
    rows[0, 7:11] = torch.tensor([-0.5, 0.5, 0.5, 0.5])
    picture = torch.zeros(1, 1, 8, 8)
    picture[:, :, :4, 4:] = 200
    # away from the border, where the outside is mixed in
    assert (
        apply(Augment(crop=0.1), picture, rows)[0, 0, 1:-1, 1:-1].eq(200).all()
    )


@pytest.mark.parametrize(("aspect", "largest"), [(1.0, 1.0), (2.0, 2 / 3)])
def test_crops_lie_inside_and_keep_area_and_aspect(aspect, largest):
    """Of a picture twice as wide too: 3:4 to 4:3 in its own pixels."""
    table = draw(Augment(crop=0.2), 5_000, aspect=aspect)
    y, x, height, width = table[:, 7:11].unbind(1)
    area, ratio = height * width, aspect * width / height
    slack = 1e-5  # float32
    assert 0.2 - slack <= area.min() < 0.21
    assert largest - 0.01 < area.max() <= largest + slack
    assert ratio.min() >= 3 / 4 - slack and ratio.max() <= 4 / 3 + slack
    assert (y.abs() + height).max() <= 1 + slack
    assert (x.abs() + width).max() <= 1 + slack


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("shift", 2),
        ("rotate", 20),
        ("scale", 0.2),
        ("shear", 20),
        ("crop", 0.3),
        ("flip", True),
        ("rand_layers", 1),
        ("jitter", 0.3),
    ],
)
def test_every_field_changes_the_picture(field, value):
    assert Augment().is_off
    augment, images = Augment(**{field: value}), random_images(4, 1, 10, 10)
    assert not augment.is_off
    out = apply(augment, images, draw(augment, 4))
    assert not torch.equal(out, images.float())


def test_a_shift_beyond_the_picture_takes_no_more_memory_than_one_across_it():
    images = torch.full((3, 1, 5, 7), 9, dtype=torch.uint8)
    augment = Augment(shift=50)
    assert apply(augment, images, draw(augment, 3)).eq(0).all()


def test_the_first_draws_are_those_of_earlier_versions():
    """Recorded runs rest on these: 10 uniform numbers a sample, in order."""
    uniform = torch.rand(30, 10, generator=torch.Generator().manual_seed(5))
    generator = torch.Generator().manual_seed(5)
    augment = Augment(shift=2, flip=True, **COLOURS)
    table = augmentation_table(augment, 30, generator)
    assert torch.equal(table[:, :2], (5 * uniform[:, :2]).floor() - 2)
    assert torch.equal(table[:, 2], (uniform[:, 2] < 0.5).float())
    table = draw(Augment(crop=0.25, rotate=30), 30, seed=5)
    height, width = column(table, "box_height"), column(table, "box_width")
    # float32, a root and a product
    assert_close(height * width, 0.25 + 0.75 * uniform[:, 6])
    turned = torch.atan2(column(table, "m_yx"), column(table, "m_xx"))
    assert_close(turned.rad2deg(), 60 * uniform[:, 4] - 30)


def test_a_crop_that_asks_for_more_than_a_wide_picture_has_takes_what_fits():
    table = draw(Augment(crop=0.9), 10, aspect=4.0)
    # float32: the whole height, 4/3 as wide
    assert_close(column(table, "box_height"), torch.ones(10))
    assert_close(column(table, "box_width"), torch.full((10,), 1 / 3))


def test_jitter_alone_is_brightness_then_contrast_then_colour():
    images, augment = random_images(6, 3, 8, 8), Augment(jitter=0.5)
    table = draw(augment, 6)
    want = randaugment.brightness(images, column(table, "brightness"))
    want = randaugment.contrast(want, column(table, "contrast"))
    want = randaugment.colour(want, column(table, "colour"))
    assert torch.equal(apply(augment, images, table), want.float())


def test_a_sample_with_everything_on_does_not_depend_on_its_batch():
    augment = Augment(**MOVES, **COLOURS)
    images, table = random_images(30, 3, 12, 12), draw(augment, 30)
    whole = erase(augment, apply(augment, images, table), table)
    for i in range(30):
        row = table[i : i + 1]
        alone = erase(augment, apply(augment, images[i : i + 1], row), row)
        assert torch.equal(whole[i : i + 1], alone)


def test_what_is_cropped_already_gets_all_but_the_crop():
    augment = Augment(**MOVES, **COLOURS, flip=True)
    images, table = random_images(20, 3, 12, 12), draw(augment, 20)
    boxes = [COLUMNS.index(f"box_{part}") for part in ("y", "x")]
    sizes = [COLUMNS.index(f"box_{part}") for part in ("height", "width")]
    whole = table.clone()
    whole[:, boxes], whole[:, sizes] = 0.0, 1.0
    assert torch.equal(
        apply(augment, images, table, is_cropped=True),
        apply(augment, images, whole),
    )


def test_a_flip_behind_a_crop_invents_no_values():
    augment = Augment(crop=0.3, flip=True)
    images, table = random_images(20, 3, 5, 7), draw(augment, 20)
    before = images.clone()
    out = apply(augment, images, table, is_cropped=True)
    flips = column(table, "flip") > 0
    assert flips.any() and not flips.all() and out.dtype == torch.uint8
    for image, result, is_flipped in zip(images, out, flips, strict=True):
        assert torch.equal(result, image.flip(-1) if is_flipped else image)
    assert torch.equal(images, before)


def test_an_empty_batch_stays_empty():
    augment = Augment(**MOVES, **COLOURS)
    images, table = torch.zeros(0, 3, 8, 8), draw(augment, 3)[:0]
    out = erase(augment, apply(augment, images, table), table)
    assert out.shape == (0, 3, 8, 8)


def test_erasing_takes_one_rectangle_of_the_stated_area_and_share():
    augment = Augment(erase=0.25)
    out = erase(augment, torch.ones(2_000, 1, 40, 40), draw(augment, 2_000))
    share = 1 - out.mean((1, 2, 3))
    # binomial(2000, 0.25) has standard deviation 19; 6 of them: 1 in 10^8
    assert abs(int((share > 0).sum()) - 500) < 6 * 19
    # whole pixels: each side is off by at most one of 40
    assert share.max() < 1 / 3 + 0.06
    for edge in (out[..., 0, :], out[..., -1, :], out[..., 0], out[..., -1]):
        assert (edge == 0).any()
    # as often wide as tall: logarithms to 1.2; the mean of 500 is off by 0.03
    tall, wide = ((out[:, 0] == 0).any(side).sum(1) for side in (2, 1))
    assert abs((wide / tall)[tall > 0].log().mean()) < 0.2
    for image in out[:100, 0]:
        lost = image == 0
        lines, columns = lost.any(1), lost.any(0)
        assert torch.equal(lost, lines[:, None] & columns[None, :])


def test_scale_jitter_and_shear_are_drawn_on_both_sides():
    table = draw(Augment(scale=0.2, jitter=0.2), 5_000)
    names = ("brightness", "contrast", "colour")
    drawn = [1 / column(table, "m_yy"), *(column(table, x) for x in names)]
    for factor in drawn:
        assert 0.8 - 1e-6 <= factor.min() < 0.81
        assert 1.19 < factor.max() <= 1.2 + 1e-6
    table = draw(Augment(shear=30), 5_000)
    lean = column(table, "m_xy").atan().rad2deg()
    assert -30 - 1e-4 <= lean.min() < -29 and 29 < lean.max() <= 30 + 1e-4
    for name, value in (("m_yx", 0), ("m_yy", 1)):  # rows are kept
        assert column(table, name).eq(value).all()
