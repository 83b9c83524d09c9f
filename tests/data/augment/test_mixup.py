"""Mixup and CutMix: what is mixed, and what the labels say of it."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from vitedu.data import mix
from vitedu.data.augment.augment import cut_box

LABELS = torch.tensor([2, 0, 1, 1, 0])


def numbered(b=5, side=8):
    """Each image full of its own number, so that a pixel tells whose it is."""
    return torch.arange(float(b))[:, None, None, None].expand(b, 3, side, side)


def partner(i, b=5):
    return (i - 1) % b


def test_off_returns_what_was_given():
    images = numbered()
    assert mix(images, LABELS, 3, seed=0) == (images, LABELS)


@pytest.mark.parametrize("seed", range(5))
def test_mixup_mixes_each_image_and_label_with_the_one_before(seed):
    images, labels = mix(numbered(), LABELS, 3, mixup=0.8, seed=seed)
    hard = F.one_hot(LABELS, 3).float()
    # image 1 holds 1 kept + 0 (1 - kept)
    kept = float(images[1, 0, 0, 0])
    assert 0.5 <= kept <= 1
    for i in range(5):
        want = kept * i + (1 - kept) * partner(i)
        # float32, three operations on numbers up to 4
        assert_close(images[i], torch.full((3, 8, 8), want), rtol=0, atol=2e-6)
        want = kept * hard[i] + (1 - kept) * hard[partner(i)]
        assert_close(labels[i], want, rtol=0, atol=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_cutmix_pastes_one_box_and_weighs_labels_by_its_area(seed):
    images, labels = mix(numbered(), LABELS, 3, cutmix=1.0, seed=seed)
    hard = F.one_hot(LABELS, 3).float()
    pasted = images[1, 0] == partner(1)
    assert torch.equal(pasted, pasted.any(1)[:, None] & pasted.any(0)[None, :])
    share = pasted.float().mean()
    for i in range(5):
        want = torch.where(pasted, float(partner(i)), float(i)).expand(3, 8, 8)
        assert torch.equal(images[i], want)
        want = (1 - share) * hard[i] + share * hard[partner(i)]
        assert_close(labels[i], want, rtol=0, atol=1e-6)  # float32


def test_soft_labels_are_mixed_as_they_are():
    soft = torch.tensor([[0.5, 0.5], [1.0, 0.0], [0.2, 0.8]])
    images, labels = mix(numbered(3), soft, 2, mixup=1.0, seed=1)
    kept = images[1, 0, 0, 0]
    assert_close(labels[1], kept * soft[1] + (1 - kept) * soft[0])


def test_the_same_seed_draws_the_same_and_another_does_not():
    before = torch.get_rng_state()
    first, again, other = (
        mix(numbered(), LABELS, 3, mixup=0.5, cutmix=1.0, seed=seed)
        for seed in (4, 4, 5)
    )
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])
    assert not torch.equal(first[0], other[0])
    assert torch.equal(torch.get_rng_state(), before)


def test_with_both_on_a_fair_coin_chooses():
    takes_mixup = 0
    for seed in range(400):
        images, _ = mix(
            numbered(2, 2), LABELS[:2], 3, mixup=0.5, cutmix=1.0, seed=seed
        )
        # whole numbers everywhere: a box, or nothing, was pasted
        takes_mixup += not torch.equal(images, images.round())
    # binomial(400, 0.5) has standard deviation 10; some factors are 1 in
    # float32
    assert 130 < takes_mixup < 260


def test_boxes_have_the_drawn_area_and_stay_inside():
    random = np.random.default_rng(0)
    areas = []
    for _ in range(500):
        top, bottom, left, right = cut_box(20, 30, 0.75, random)
        assert 0 <= top <= bottom <= 20 and 0 <= left <= right <= 30
        areas.append((bottom - top) * (right - left) / 600)
    assert max(areas) == 0.25  # a whole box: 10 x 15
    assert min(areas) < 0.15  # cut off at the border


def test_an_empty_batch_gives_empty_soft_labels():
    images, labels = mix(numbered()[:0], LABELS[:0], 3, mixup=0.5, seed=0)
    assert images.shape == (0, 3, 8, 8) and labels.shape == (0, 3)
