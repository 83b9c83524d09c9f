"""VTAB's table, and tasks from small copies of torchvision's folders."""

import json

import numpy as np
import pytest
from PIL import Image

from vitedu import PreprocessSpec
from vitedu.compat import import_torchvision
from vitedu.data import as_source
from vitedu.evaluate import VTAB, VtabResult
from vitedu.evaluate.vtab import MissingTaskError, open_task

TASKS = {task.name: task for task in VTAB}
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
    assert len(TASKS) == 19


def test_torchvision_has_the_classes_that_it_names():
    sets = import_torchvision().datasets
    for task in VTAB:
        if task.torchvision:
            assert isinstance(getattr(sets, task.torchvision), type)


def test_the_score_is_the_mean_of_the_tasks_and_not_of_the_groups():
    result = VtabResult({"pets": 90.0, "dtd": 60.0, "eurosat": 30.0}, {})
    assert result.mean == pytest.approx(60.0)
    assert result.group_means == {"natural": 75.0, "specialized": 30.0}


def picture(path, value=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((8, 8, 3), value, np.uint8)).save(path)


def dtd(root):
    """Two textures, 3 + 2 pictures to learn from and 1 to test on."""
    data = root / "dtd" / "dtd"
    parts = {
        "train": ["banded/1.jpg", "dotted/1.jpg", "dotted/2.jpg"],
        "val": ["banded/2.jpg", "dotted/3.jpg"],
        "test": ["banded/3.jpg", "dotted/4.jpg"],
    }
    for part, names in parts.items():
        for name in names:
            picture(data / "images" / name)
        labels = data / "labels" / f"{part}1.txt"
        labels.parent.mkdir(exist_ok=True)
        labels.write_text("\n".join(names) + "\n")


def pets(root):
    folder = root / "oxford-iiit-pet"
    for part, numbers in (("trainval", (1, 2)), ("test", (3,))):
        lines = []
        for kind, label in (("Bengal", 1), ("Pug", 2)):
            for number in numbers:
                picture(folder / "images" / f"{kind}_{number}.jpg")
                lines.append(f"{kind}_{number} {label} 1 1")
        (folder / "annotations").mkdir(exist_ok=True)
        (folder / "annotations" / f"{part}.txt").write_text("\n".join(lines))


def eurosat(root, folder="eurosat/2750", num_images=5):
    for name in ("Forest", "River"):
        for number in range(num_images):
            picture(root / folder / name / f"{number}.jpg")


def clevr(root):
    """Scenes of 3 and 4 objects, the nearest at 7, 8.2 and 30."""
    data = root / "clevr" / "CLEVR_v1.0"
    scenes = {"train": [(7.0, 9, 9), (8.2, 9, 9, 9)], "val": [(30.0, 40, 50)]}
    (data / "scenes").mkdir(parents=True)
    for part, distances in scenes.items():
        listed = []
        for number, nearest in enumerate(distances):
            name = f"CLEVR_{part}_{number:06}.png"
            picture(data / "images" / part / name, value=number)
            objects = [{"pixel_coords": [1, 1, z]} for z in nearest]
            listed.append({"image_filename": name, "objects": objects})
        path = data / "scenes" / f"CLEVR_{part}_scenes.json"
        path.write_text(json.dumps({"scenes": listed[::-1]}))


def labels_of(part):
    """What a training would get, read picture by picture."""
    source = as_source(part, preprocess=PreprocessSpec(image_size=8))
    (batch,) = source.batches(epoch=0, seed=0, batch_size=100)
    assert len(batch[0]) == len(part)
    return batch[1].tolist()


def test_dtd_learns_from_train_and_val_and_pets_have_a_test_part(tmp_path):
    dtd(tmp_path)
    train, test = open_task(TASKS["dtd"], tmp_path)
    assert labels_of(train) == [0, 1, 1, 0, 1] and labels_of(test) == [0, 1]
    assert train.class_names == test.class_names == ("banded", "dotted")
    pets(tmp_path)
    train, test = open_task(TASKS["pets"], str(tmp_path))
    assert labels_of(train) == [0, 0, 1, 1] and labels_of(test) == [0, 1]


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("eurosat", "eurosat/2750"),
        ("caltech101", "caltech101/101_ObjectCategories"),
    ],
)
def test_without_a_test_part_a_fifth_of_each_class_is_held_out(
    tmp_path, name, folder
):
    eurosat(tmp_path, folder)
    train, test = open_task(TASKS[name], tmp_path)
    assert labels_of(train) == 4 * [0] + 4 * [1]
    assert labels_of(test) == [0, 1]


def test_clevr_asks_for_the_number_and_the_nearest_of_the_objects(tmp_path):
    clevr(tmp_path)
    for name, want in (("clevr-count", 0), ("clevr-dist", 5)):
        train, test = open_task(TASKS[name], tmp_path)
        assert labels_of(train) == [0, 1] and labels_of(test) == [want]
    # a picture that's left out takes its label with it
    folder = tmp_path / "clevr/CLEVR_v1.0/images/train"
    (folder / "CLEVR_train_000000.png").write_bytes(b"no picture")
    train, _ = open_task(TASKS["clevr-count"], tmp_path)
    assert labels_of(train) == [1]


@pytest.mark.parametrize("task", VTAB, ids=lambda task: task.name)
def test_what_is_not_there_says_where_to_get_it(tmp_path, task):
    with pytest.raises(MissingTaskError) as raised:
        open_task(task, tmp_path)
    said = str(raised.value)
    assert "\n" not in said
    if not task.torchvision:
        assert task.where in said and task.question in said
        assert f'data={{"{task.name}": (train, test)}}' in said
    elif "pip install" not in said:  # h5py, for one
        assert said.startswith(f"{task.title} isn't here (")
        assert f"{task.where}, or by torchvision.datasets." in said
    assert list(tmp_path.iterdir()) == []


def test_a_set_is_found_in_the_usual_places(tmp_path, monkeypatch):
    monkeypatch.setenv("VITEDU_DATA", str(tmp_path))
    monkeypatch.setenv("VITEDU_CACHE", str(tmp_path / "cache"))
    pets(tmp_path / "oxford-pets")
    assert len(open_task(TASKS["pets"]).train) == 4
    with pytest.raises(MissingTaskError, match=r"DTD isn't here .* doesn't ex"):
        open_task(TASKS["dtd"])


def test_damaged_scenes_are_one_sentence(tmp_path):
    clevr(tmp_path)
    path = tmp_path / "clevr/CLEVR_v1.0/scenes/CLEVR_val_scenes.json"
    for text in ("{", "{}", '{"scenes": []}', '{"scenes": [{}]}'):
        path.write_text(text)
        with pytest.raises(MissingTaskError, match="Clevr-Dist isn't here"):
            open_task(TASKS["clevr-dist"], tmp_path)
