"""Fine-tuning: a line of Python, and the configuration of a command line."""

import shutil
import signal
import typing
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.testing import assert_close
from torch.utils.data import DataLoader, Dataset, IterableDataset

import vitedu
from tests.tiny import tiny
from tests.train.runs import equal, sentence, stopper, weights
from vitedu.data.augment import Augment
from vitedu.data.imagenet import imagenet_classes
from vitedu.model import SinCos2D, resnet
from vitedu.pictures import PreprocessSpec
from vitedu.train import TrainConfig, fit, override, recipe
from vitedu.train.finetune import (
    MODEL_FIELDS,
    FinetuneFields,
    finetune_config,
    with_choice,
    with_weights,
)
from vitedu.train.run_folder import RunFolder
from vitedu.train.start import build_model, fit_head

pytestmark = pytest.mark.slow  # each test trains

SMALL = tiny(image_size=16, embed_dim=16, num_heads=2, mlp_dim=32, gelu="tanh")
SPEC = PreprocessSpec(image_size=16, mean=(0.4, 0.5, 0.6), std=(0.2, 0.2, 0.2))
# what keeps a run of a test short
SHORT = {"epochs": 2, "batch_size": 8, "log_every": 1}
CLASSES = {"ants": 40, "bees": 200}


def trained(num_classes=5, class_names=()):
    """A model as after a training: no weight is zero."""
    torch.manual_seed(3)
    model = vitedu.ViT(replace(SMALL, num_classes=num_classes))
    nn.init.normal_(model.head.weight)
    model.preprocess, model.class_names = SPEC, tuple(class_names)
    return model


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with weights and 10 photographs each of ants and bees."""
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    for name, grey in CLASSES.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(10):
            pixels = generator.normal(grey, 20, (18, 22, 3)).clip(0, 255)
            picture = Image.fromarray(pixels.astype(np.uint8))
            picture.save(tmp_path / "photos" / name / f"{number}.png")
    vitedu.save(trained(), "start.safetensors")
    return tmp_path


class Greys(Dataset):
    """A torch Dataset of (picture, label)."""

    classes = ("ants", "bees")

    def __init__(self, count=12):
        self.targets = [i % 2 for i in range(count)]

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        grey = 40 + 160 * self.targets[index]
        return np.full((16, 16, 3), grey, np.uint8), self.targets[index]


def listed(folder, counts):
    """Files that only their names make pictures: {"train/ants": 3}."""
    for place, count in counts.items():
        (folder / place).mkdir(parents=True)
        for number in range(count):
            (folder / place / f"{number}.jpg").touch()


# --- what the best weights are chosen by


@pytest.mark.parametrize(
    ("counts", "validation"),
    [
        ({"train/a": 250, "train/b": 250, "val/a": 9}, 0.1),
        ({"train/a": 250, "train/b": 249, "val/a": 9}, 0.0),
        # a fifth is held out to test on
        ({"a": 313, "b": 312}, 0.1),
        ({"a": 312, "b": 312}, 0.0),
        # 19 and 20 of each class on average
        ({f"Train/{i}": 19 for i in range(27)} | {"Valid/0": 9}, 0.0),
        ({f"Train/{i}": 7 + i for i in range(27)} | {"Valid/0": 9}, 0.1),
    ],
)
def test_a_tenth_of_a_large_enough_folder_chooses(tmp_path, counts, validation):
    listed(tmp_path, counts)
    num_classes = len([x for x in counts if not x.lower().startswith("val")])
    config = recipe("finetune", "cpu")
    config = replace(
        config,
        model=replace(config.model, num_classes=num_classes),
        dataset=str(tmp_path),
    )
    found = with_choice(config, {})
    keep = "best" if validation else "last"
    assert (found.validation, found.keep) == (validation, keep)
    assert with_choice(config, {"validation": "0"}) == config
    few = replace(config, max_images=499)
    assert with_choice(few, {}) == few
    last = with_choice(config, {"keep": "last"})
    assert (last.validation, last.keep) == (validation, "last")


def test_a_part_to_choose_by_is_used_and_named_sets_stay(tmp_path):
    listed(tmp_path, {"train/a": 300, "train/b": 300, "val/a": 9, "test/b": 9})
    config = replace(recipe("finetune", "cpu"), dataset=str(tmp_path))
    found = with_choice(config, {})
    assert (found.validation, found.keep) == (0.0, "best")
    for name in ("ants-bees", "cifar10", "digits"):
        known = replace(config, dataset=name)
        assert with_choice(known, {}) == known


def test_a_run_says_what_it_holds_out_and_keeps(here):
    for name in CLASSES:
        for number in range(10, 320):
            shutil.copy(
                here / f"photos/{name}/{number % 10}.png",
                here / f"photos/{name}/{number}.png",
            )
    run = vitedu.finetune("start.safetensors", "photos", **SHORT)
    assert (
        "52 of the 512 images to train on (10% of each class) are"
        in (run.result["notes"])
    )
    assert "the best on the validation part" in run.result["notes"]
    assert run.result["dataset"]["num_train"] == 460
    measured = [x for x in run.history if "validation_accuracy" in x]
    assert len(measured) == SHORT["epochs"]
    run = vitedu.finetune("start.safetensors", "photos", validation=0, **SHORT)
    assert run.result["dataset"]["num_train"] == 512
    assert "validation" not in run.result["notes"]


# --- one line


def test_one_line_gives_a_model_of_the_data(here):
    run = vitedu.finetune("start.safetensors", "photos", "out", **SHORT)
    assert run.result["status"] == "finished"
    assert run.model.class_names == ("ants", "bees")
    assert run.model.num_classes == 2
    assert run.model.preprocess == SPEC
    assert run.model.config == replace(SMALL, num_classes=2)
    assert vitedu.load("out").class_names == ("ants", "bees")


def test_a_run_on_pictures_has_a_page_and_names_others(here, on_the_keyboard):
    line = "start.safetensors", "photos", "out"
    press = {"should_stop": lambda: signal.raise_signal(signal.SIGINT)}
    with pytest.raises(KeyboardInterrupt, match="stopped at step 2 of"):
        vitedu.finetune(*line, **press, **SHORT)
    page = RunFolder("out").report
    assert "the run was stopped" in page.read_text()
    run = vitedu.finetune(*line, **SHORT)
    assert run.report == page
    assert "Class by class" in run.report.read_text()
    assert vitedu.finetune(*line, **SHORT).report == run.report
    found = run.predict("photos", top=1)
    assert found == vitedu.predict(run.model, "photos", top=1)
    assert len(found) == 20 and found[0].names
    assert vitedu.finetune(*line[:2], **SHORT).report is None


def test_every_tensor_of_the_real_model_learns(here):
    run = vitedu.finetune("ViT-Ti/16", "photos", tier="smoke")
    began = vitedu.load("ViT-Ti/16", image_size=64, num_classes=2).state_dict()
    same = [
        name
        for name, tensor in run.model.state_dict().items()
        if torch.equal(tensor, began[name])
    ]
    assert len(began) == 152 and same == []


def test_it_learns_and_goes_on_from_what_the_weights_know(here):
    run = vitedu.finetune(
        "start.safetensors", "photos", epochs=8, lr=0.05, log_every=1
    )
    losses = [line["loss"] for line in run.history if "loss" in line]
    assert losses[-1] < 0.5 * losses[0]
    barely = vitedu.finetune("start.safetensors", "photos", lr=1e-9, **SHORT)
    assert torch.allclose(
        barely.model.blocks[0].mlp.fc1.weight,
        trained().blocks[0].mlp.fc1.weight,
    )


def test_the_head_starts_from_zeros(here):
    run = vitedu.finetune("start.safetensors", "photos", lr=1e-9, **SHORT)
    # the loss of guessing between two classes
    assert run.history[-2]["loss"] == pytest.approx(np.log(2), rel=1e-4)


def test_settings_are_those_of_the_recipe_unless_given(here):
    run = vitedu.finetune(
        "start.safetensors",
        "photos",
        "out",
        **SHORT,
        layer_decay=0.75,
        validation=0.25,
        label_smoothing=0.1,
        drop_path=0.2,
    )
    config = RunFolder("out").read_config()
    plain = recipe("finetune", "cpu")
    assert (config.recipe, config.tier) == ("finetune", "cpu")
    assert (config.dataset, config.weights) == ("photos", "start.safetensors")
    assert (config.layer_decay, config.validation) == (0.75, 0.25)
    assert config.model.drop_path == 0.2
    assert (config.optimizer, config.lr) == (plain.optimizer, plain.lr)
    assert config.augment == plain.augment
    assert config.given is None
    assert run.result["metrics"].keys() >= {"validation_accuracy"}


def test_the_same_line_again_goes_on_to_the_same_bytes(here):
    line = ("start.safetensors", "photos")
    vitedu.finetune(*line, "whole", **SHORT)
    for steps in (1, 2):
        vitedu.finetune(*line, "parts", should_stop=stopper(steps), **SHORT)
    vitedu.finetune(*line, "parts", **SHORT)
    assert weights(here / "parts") == weights(here / "whole")


def test_a_dataset_of_your_own_works_as_well(here):
    run = vitedu.finetune(
        "start.safetensors",
        Greys(),
        "out",
        validation=Greys(4),
        test=Greys(6),
        **SHORT,
    )
    assert run.model.class_names == ("ants", "bees")
    given = "train=Greys validation=Greys test=Greys"
    assert RunFolder("out").read_config().given == given
    assert run.result["dataset"]["num_test"] == 6


class Prepared(Greys):
    """Floats, made of the greys by the data set's own transform."""

    def __getitem__(self, index):
        pixels, label = super().__getitem__(index)
        return SPEC(Image.fromarray(pixels)), label


class Stream(IterableDataset):
    """Its images have to be read to be counted."""

    times = 0

    def __len__(self):
        return 12

    def __iter__(self):
        self.times += 1
        yield from (Prepared()[index] for index in range(12))


FLOATS = 2 * torch.rand(12, 3, 16, 16) - 1, np.arange(12) % 2


@pytest.mark.parametrize(
    "data",
    [Prepared(), DataLoader(Stream(), 4), FLOATS],
    ids=["dataset", "loader", "floats"],
)
def test_what_comes_prepared_is_not_augmented(here, data):
    run = vitedu.finetune("start.safetensors", data, test=Greys(4), **SHORT)
    augment = run.result["config"]["augment"]
    assert (augment["flip"], augment["crop"]) == (False, 0.0)
    assert "the training images are not augmented" in run.result["notes"]
    if isinstance(data, DataLoader):  # counted, then two epochs
        assert data.dataset.times == 3
        assert run.result["config"]["given"] == "train=DataLoader test=Greys"


def test_pictures_are_augmented_without_a_note(here):
    run = vitedu.finetune("start.safetensors", Greys(), test=Greys(4), **SHORT)
    assert run.result["config"]["augment"]["flip"] is True
    assert "augmented" not in run.result.get("notes", "")


def test_loss_and_augmentation_may_be_settings_or_functions(here):
    def summed(logits, labels):
        return nn.functional.cross_entropy(logits, labels, reduction="sum")

    line = ("start.safetensors", Greys())
    run = vitedu.finetune(
        *line, loss="sigmoid", augment=Augment(flip=True), **SHORT
    )
    assert run.result["config"]["loss"] == "sigmoid"
    assert run.result["config"]["augment"]["crop"] == 0.0
    run = vitedu.finetune(
        *line, loss=summed, augment=lambda picture: picture, **SHORT
    )
    given = run.result["config"]["given"]
    assert given == "train=Greys loss=summed augment=lambda"


# --- a model that one has


def test_a_model_is_changed_and_trained_in_place(here):
    model = trained()
    run = vitedu.finetune(model, "photos", "out", image_size=32, **SHORT)
    assert run.model is model
    assert model.pos_embed.shape[1] == 1 + 8 * 8
    assert model.class_names == ("ants", "bees")
    assert model.config == replace(SMALL, num_classes=2, image_size=(32, 32))
    assert vitedu.load("out").config == model.config


@pytest.mark.parametrize("start", ["file", "model"])
def test_arrays_of_another_size_are_resized(here, start):
    drawn = np.random.default_rng(0)
    arrays = {
        f"x_{part}": drawn.integers(0, 256, (12, 10, 10, 3), np.uint8)
        for part in ("train", "test")
    }
    labels = np.arange(12) % 3
    np.savez("set.npz", **arrays, y_train=labels, y_test=labels)
    weights = "start.safetensors" if start == "file" else trained()
    run = vitedu.finetune(weights, "set.npz", **SHORT)
    assert run.model.config == replace(SMALL, num_classes=3)


def test_a_model_trains_as_its_file_does(here):
    from_file = vitedu.finetune("start.safetensors", "photos", **SHORT)
    own = vitedu.finetune(trained(), "photos", **SHORT)
    assert equal(from_file.model, own.model)


@pytest.mark.parametrize("start", ["file", "model"])
@pytest.mark.parametrize(
    ("names", "rows"),
    [
        (("ants", "bees"), [0, 1]),
        (("bees", "ants"), [1, 0]),
        (("bees", "cats", "ants"), [2, 0]),
        (("cats", "dogs"), None),
        (("ants", "ants", "bees"), [None, 2]),
        ((), None),
    ],
    ids=str,
)
def test_a_head_is_kept_for_the_classes_that_it_knows(here, start, names, rows):
    model = trained(len(names) or 2, names)
    before = model.head.weight.detach().clone()
    vitedu.save(model, "known.safetensors")
    weights = "known.safetensors" if start == "file" else model
    run = vitedu.finetune(weights, "photos", lr=1e-9, **SHORT)
    after = torch.zeros_like(before[:2])
    for row, old in enumerate(rows or ()):
        after[row] = 0.0 if old is None else before[old]
    assert torch.allclose(run.model.head.weight, after, atol=1e-6)
    assert run.model.class_names == ("ants", "bees")
    notes = run.result.get("notes", "")
    is_new = not rows and len(names) < 3
    assert ("has as many classes as the data, but diff" in notes) == is_new
    is_moved = rows not in (None, [0, 1])
    assert ("knows the data's 2 classes, so the head" in notes) == is_moved
    is_doubtful = rows == [None, 2]
    assert ("called ants, so these rows of the head" in notes) == is_doubtful


# as vitedu names ImageNet's classes, and as Hugging Face's files do
@pytest.mark.parametrize("end", ["", ", and a synonym"])
@pytest.mark.parametrize("spelling", ["names", "folders", "codes"])
def test_imagenets_head_serves_some_of_its_classes(here, spelling, end):
    names = tuple(name + end for name in imagenet_classes().names)
    model = trained(1000, names)
    vitedu.save(model, "known.safetensors")
    called = getattr(imagenet_classes(), spelling.replace("folders", "names"))
    if spelling == "folders":
        called = [name.replace(" ", "_") for name in called]
    for number, name in ((285, "bees"), (0, "ants")):  # cat, tench
        (here / "photos" / name).rename(here / "photos" / called[number])
    run = vitedu.finetune("known.safetensors", "photos", lr=1e-9, **SHORT)
    rows = [0, 285] if spelling == "codes" else [285, 0]
    assert run.model.class_names == tuple(called[row] for row in rows)
    assert_close(run.model.head.weight, model.head.weight[rows])


def test_imagenets_names_in_another_order_keep_its_head():
    names, codes = imagenet_classes()
    order = list(range(999, -1, -1))
    called = [names[i] for i in order]
    # two pairs have one name each: as the model has them, or told by a code
    swapped = {134: 517, 517: 134, 638: 639, 639: 638}  # cranes and maillots
    coded = [codes[i] if i in (517, 639) else names[i] for i in order]
    for wanted, rows, note in (
        (called, [swapped.get(i, i) for i in order], "crane, maillot; they"),
        (coded, order, "in the data's order"),
    ):
        model = trained(1000, names)
        before = model.head.weight.detach().clone()
        notes = fit_head(model, tuple(wanted), len(wanted), "the model")
        assert_close(model.head.weight, before[rows])
        assert note in notes[-1]


def test_numbers_are_not_taken_for_other_numbers(here):
    vitedu.save(trained(3, ("0", "1", "2")), "known.safetensors")
    run = vitedu.finetune("known.safetensors", unnamed(), lr=1e-9, **SHORT)
    assert run.model.head.weight.abs().max() < 1e-6


def unnamed(count=12):
    """Arrays of two classes that have no names."""
    pictures = [Greys(count)[index][0] for index in range(count)]
    return np.stack(pictures), np.arange(count) % 2


@pytest.mark.parametrize("start", ["file", "model"])
def test_classes_without_names_are_taken_for_the_weights_own(here, start):
    model = trained(2, ("bees", "ants"))
    before = model.head.weight.detach().clone()
    vitedu.save(model, "known.safetensors")
    run = vitedu.finetune(
        "known.safetensors" if start == "file" else model,
        unnamed(),
        lr=1e-9,
        **SHORT,
    )
    assert torch.allclose(run.model.head.weight, before, atol=1e-6)
    assert run.model.class_names == ("bees", "ants")
    assert "they are taken for the model's: bees, ants" in run.result["notes"]


def test_a_resnet_can_be_fine_tuned(here):
    torch.manual_seed(0)
    model = resnet("BiT-R50x1", layers=(1,), width=0.5, image_size=16)
    vitedu.save(model, "resnet.safetensors")
    run = vitedu.finetune("resnet.safetensors", "photos", "out", **SHORT)
    assert vitedu.load("out").config == replace(model.config, num_classes=2)
    assert run.result["status"] == "finished"


def test_dropout_of_a_built_model_is_refused(here):
    said = sentence(vitedu.finetune, trained(), "photos", dropout=0.1)
    assert "cannot be set in a model that is built" in said
    assert "load it with dropout=0.1" in said


# --- what does not fit


@pytest.mark.parametrize(
    ("weights", "data", "settings", "said"),
    [
        ("start.safetensors", "photos", {"epoch": 1}, "did you mean 'epochs"),
        ("start.safetensors", "photos", {"image_sice": 1}, "'image_size"),
        ("start.safetensors", "photos", {"learning_rate": 1}, "mean 'lr'?"),
        ("start.safetensors", "photos", {"num_classes": 3}, "counts the class"),
        ("start.safetensors", "photos", {"layerdecay": 1}, "'layer_"),
        (
            "start.safetensors",
            "photos",
            {"layer_decay": 2.0},
            "layer_decay must be a number above 0 and at most 1",
        ),
        ("start.safetensors", "nowhere", {}, "nowhere"),
        ("none.npz", "photos", {}, "none.npz"),
    ],
)
def test_what_does_not_fit_is_one_sentence(here, weights, data, settings, said):
    assert said in sentence(vitedu.finetune, weights, data, "out", **settings)
    assert not (here / "out").exists()


@pytest.mark.parametrize("start", ["start.safetensors", "a model"])
def test_an_image_size_beyond_the_memory_is_one_sentence(here, start):
    weights = vitedu.load("start.safetensors") if start == "a model" else start
    said = sentence(vitedu.finetune, weights, "photos", image_size=16 * 10**6)
    assert "of memory" in said


def test_the_settings_for_type_checkers_are_those_of_the_configuration():
    ours = typing.get_type_hints(FinetuneFields)
    theirs = typing.get_type_hints(TrainConfig)
    # what `finetune` decides, or takes by a parameter of its own
    decided = {"recipe", "model", "dataset", "data", "weights", "given"}
    decided |= {"loss", "augment", "validation"}
    assert ours.keys() == theirs.keys() - decided | {*MODEL_FIELDS}
    for name in ours.keys() - {*MODEL_FIELDS}:
        assert ours[name] == theirs[name], name


# --- the command line's configuration


def test_a_command_line_gives_the_same_run_as_python(here):
    texts = {"epochs": "2", "batch_size": "8", "log_every": "1"}
    texts |= {"layer_decay": "0.75", "model.image_size": "32"}
    plain = finetune_config("start.safetensors", "photos", "cpu")
    config = override(plain, texts)
    assert config.model == replace(SMALL, num_classes=2, image_size=(32, 32))
    assert config.preprocess == replace(SPEC, image_size=(32, 32))
    line = fit(config).model
    python = vitedu.finetune(
        "start.safetensors", "photos", layer_decay=0.75, image_size=32, **SHORT
    )
    assert equal(line, python.model)


def test_without_data_the_sentence_says_what_to_name():
    said = sentence(finetune_config, "ViT-Ti/16", None, "cpu")
    assert said.startswith(
        "finetune has no data set of its own; name yours: data="
    )


def test_without_weights_it_is_the_real_model(here):
    config = finetune_config(None, None, "cpu", dataset="shapes-1k")
    assert (config.dataset, config.data) == ("shapes-1k", None)
    assert config.weights == "ViT-Ti/16"
    assert config.model == vitedu.load("ViT-Ti/16", num_classes=10).config


# --- weights in any recipe


def plain_config(**fields):
    given = {
        "recipe": "test",
        "tier": "cpu",
        "model": replace(SMALL, num_classes=2),
        "dataset": "photos",
        "weights": "start.safetensors",
        "preprocess": SPEC,
        "steps": 2,
        "batch_size": 8,
    }
    return TrainConfig(**(given | fields))


def test_weights_of_another_architecture_are_refused_and_named(here):
    other = replace(SMALL, num_classes=2, depth=3, position=SinCos2D())
    said = sentence(fit, plain_config(model=other), "run")
    assert (
        "weights=start.safetensors does not fit the model of this run" in said
    )
    assert "depth=2 (here 3)" in said
    assert "position=Learned1D" in said
    assert not (here / "run").exists()


def test_weights_of_a_resnet_do_not_fit_a_vit(here):
    model = resnet("BiT-R50x1", layers=(1,), width=0.5, image_size=16)
    vitedu.save(model, "resnet.safetensors")
    said = sentence(fit, plain_config(weights="resnet.safetensors"))
    assert (
        "is a ResNet, but the model of this run is described by a ViTConfig"
        in said
    )


def test_another_preprocessing_than_that_of_the_weights_is_noted(here):
    assert fit(plain_config()).result.get("notes", "").count("trained on") == 0
    run = fit(plain_config(preprocess=PreprocessSpec(image_size=16)))
    assert (
        "was trained on pictures with mean=(0.4, 0.5, 0.6)"
        in (run.result["notes"])
    )


def test_a_new_head_begins_with_its_bias(here):
    run = fit(plain_config(loss="sigmoid", head_bias=-3.0, lr=1e-9))
    # both classes of each image say no: 2 softplus(-3) and, of the right one, 3
    assert run.history[-2]["loss"] == pytest.approx(
        2 * np.log1p(np.exp(-3)) + 3, rel=1e-4
    )


def test_weights_of_the_class_token_can_learn_by_the_mean_of_the_patches(here):
    # as MAE's are fine-tuned; no weight depends on it
    config = plain_config()
    pooled = replace(config, model=replace(config.model, pool="mean"))
    model, _ = build_model(pooled)
    assert model.config.pool == "mean"
    own = build_model(config)[0].state_dict()
    assert all(
        torch.equal(x, own[name]) for name, x in model.named_parameters()
    )


def test_a_pool_with_weights_of_its_own_is_not_made_up(here):
    config = plain_config()
    wanted = replace(config, model=replace(config.model, pool="map"))
    assert "pool=token (here map)" in sentence(build_model, wanted)


# --- a recipe with other weights than its own


def test_other_weights_bring_their_network_and_the_recipe_keeps_the_rest():
    recipes_own = recipe("mae-finetune-b16", "smoke")
    config = with_weights(recipes_own, "shapes-small", 10)
    assert config.model.image_size == recipes_own.model.image_size
    assert (config.weights, config.model.embed_dim) == ("shapes-small", 128)
    assert (config.model.pool, config.model.drop_path) == ("mean", 0.1)
    assert config.preprocess.mean == (0.5, 0.5, 0.5)
    assert config.preprocess.crop == recipes_own.preprocess.crop
    assert config.lr == recipes_own.lr
    build_model(config)


def test_weights_whose_patches_do_not_fit_the_recipes_size_are_one_sentence():
    config = recipe("ants-bees", "cpu")
    model = replace(config.model, image_size=100, patch_size=100)
    said = sentence(
        with_weights, replace(config, model=model), "shapes-small", 2
    )
    assert "image size 100 is not a multiple of the patch size 8" in said


def test_tier_smoke_sees_small_images(here):
    config = finetune_config("ViT-Ti/16", "photos", "smoke")
    assert config.model.image_size == (64, 64)
    assert (config.batch_size, config.steps) == (8, 10)
    config = finetune_config("ViT-Ti/16", "photos", "cpu")
    assert config.model.image_size == (224, 224)
