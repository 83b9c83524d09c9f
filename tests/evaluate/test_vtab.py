"""VTAB's table: 19 tasks in three groups, as table 9 of the paper has them."""

import pytest

from vitedu.compat import import_torchvision
from vitedu.evaluate import VTAB, VtabResult

# paper, table 9, in its order
TITLES = (
    "Caltech101 CIFAR-100 DTD Flowers102 Pets Sun397 SVHN "
    "Camelyon EuroSAT Resisc45 Retinopathy "
    "Clevr-Count Clevr-Dist DMLab dSpr-Loc dSpr-Ori KITTI-Dist "
    "sNORB-Azim sNORB-Elev"
).split()


def test_it_has_the_papers_tasks_in_their_order():
    assert [task.title for task in VTAB] == TITLES
    groups = [task.group for task in VTAB]
    assert groups == 7 * ["natural"] + 4 * ["specialized"] + 8 * ["structured"]


def test_a_name_means_one_task():
    assert len({task.name for task in VTAB}) == 19


def test_torchvision_has_the_classes_that_it_names():
    sets = import_torchvision().datasets
    for task in VTAB:
        if task.torchvision:
            assert isinstance(getattr(sets, task.torchvision), type)


def test_the_score_is_the_mean_of_the_tasks_and_not_of_the_groups():
    result = VtabResult({"pets": 90.0, "dtd": 60.0, "eurosat": 30.0}, {})
    assert result.mean == pytest.approx(60.0)
    assert result.group_means == {"natural": 75.0, "specialized": 30.0}
