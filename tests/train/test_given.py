"""What a caller gives `fit` in Python: a model, data, a loss, augmentation."""

import io
import json
import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import ImageOps
from torch import nn
from torch.testing import assert_close
from torch.utils.data import DataLoader, Dataset, TensorDataset

import vitedu
from vitedu.data import ArraySource
from vitedu.data.augment import Augment
from vitedu.data.readers.arrays import open_pair
from vitedu.errors import UserError
from vitedu.model import ViTConfig, resnet
from vitedu.pictures import PreprocessSpec
from vitedu.train import TrainConfig, fit
from vitedu.train.run_folder import RunFolder
from vitedu.train.start import Given, check_given_again, name_of

pytestmark = pytest.mark.slow  # each test trains

TINY = ViTConfig(
    image_size=8,
    patch_size=4,
    in_channels=1,
    num_classes=3,
    embed_dim=8,
    depth=2,
    num_heads=2,
    mlp_dim=16,
)
CONFIG = TrainConfig(
    recipe="test",
    tier="cpu",
    model=replace(TINY, depth=1),
    dataset="set.npz",
    steps=6,
    batch_size=8,
    lr=0.01,
    log_every=1,
)


def drawn(count):
    """Images (count, 8, 8) of three learnable classes, and labels."""
    generator = np.random.default_rng(0)
    labels = np.arange(count) % 3
    images = (
        generator.integers(0, 100, (count, 8, 8)) + 70 * labels[:, None, None]
    )
    return images.astype(np.uint8), labels


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a set of 30 + 11 images in three classes."""
    monkeypatch.chdir(tmp_path)
    arrays = {}
    for part, count in (("train", 30), ("test", 11)):
        arrays[f"x_{part}"], arrays[f"y_{part}"] = drawn(count)
    np.savez("set.npz", **arrays)
    return tmp_path


def own_model(**fields):
    """A model with weights and preprocessing of its own."""
    torch.manual_seed(7)
    model = vitedu.ViT(replace(TINY, **fields))
    nn.init.normal_(model.head.weight)
    model.preprocess = PreprocessSpec(
        image_size=8, in_channels=1, mean=(0.3,), std=(0.2,)
    )
    return model


def copied(model):
    return {name: each.clone() for name, each in model.state_dict().items()}


def stopper(steps):
    """A should_stop that says yes after so many steps of this call."""
    counter = iter(range(1, 1000))
    return lambda: next(counter) == steps


def sentence(config, out=None, **options):
    with pytest.raises(UserError) as error:
        fit(config, out, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def weights(folder):
    return (folder / "model.safetensors").read_bytes()


# --- a model


def test_the_given_model_is_what_learns(here):
    model = own_model()
    before = copied(model)
    run = fit(CONFIG, "run", model=model)
    assert run.model is model
    assert not model.training
    assert not torch.equal(model.head.weight, before["head.weight"])
    assert model.class_names == ("0", "1", "2")
    stored = vitedu.load("run")
    for name, tensor in model.state_dict().items():
        assert torch.equal(stored.state_dict()[name], tensor)


def test_it_learns_from_its_own_weights(here):
    run = fit(replace(CONFIG, lr=1e-30), model=own_model())
    # as far as a rate of 1e-30 goes in 6 steps
    assert_close(copied(run.model), copied(own_model()), rtol=0, atol=1e-28)


def test_the_configuration_follows_the_given_model(here):
    run = fit(CONFIG, "run", model=own_model())
    recorded = RunFolder("run").read_config()
    assert recorded.model == TINY != CONFIG.model
    assert recorded.preprocess == own_model().preprocess == run.model.preprocess
    assert recorded.given == "model=ViT"
    assert run.result["config"] == recorded.to_json()


def test_a_given_model_trains_in_training_mode(here):
    runs = [
        fit(CONFIG, model=own_model(dropout=dropout).eval())
        for dropout in (0.0, 0.5)
    ]
    losses = [[x["loss"] for x in r.history if "loss" in x] for r in runs]
    assert losses[0] != losses[1]


def test_frozen_weights_stay_as_they_are(here):
    model = own_model()
    model.blocks.requires_grad_(False)
    before = copied(model)
    run = fit(replace(CONFIG, weight_decay=0.1, layer_decay=0.5), model=model)
    for name, tensor in run.model.state_dict().items():
        assert torch.equal(tensor, before[name]) == name.startswith("blocks")
    assert not any(p.requires_grad for p in model.blocks.parameters())


def test_a_run_of_a_given_model_goes_on_to_the_same_bytes(here):
    fit(CONFIG, "whole", model=own_model())
    for steps in (2, 1):
        fit(CONFIG, "parts", model=own_model(), should_stop=stopper(steps))
    model = own_model()
    assert fit(CONFIG, "parts", model=model).model is model
    assert weights(here / "parts") == weights(here / "whole")


def test_a_finished_run_is_put_into_the_model(here):
    first = fit(CONFIG, "run", model=own_model())
    again = own_model().train()
    run = fit(CONFIG, "run", model=again)
    assert run.model is again
    assert not again.training
    assert again.class_names == ("0", "1", "2")
    assert run.result == json.loads(json.dumps(first.result))
    for name, tensor in first.model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)


def test_a_resnet_may_be_given(here):
    torch.manual_seed(0)
    model = resnet(
        "BiT-R50x1",
        layers=(1, 1),
        width=0.5,
        num_classes=3,
        in_channels=1,
        image_size=8,
    )
    run = fit(replace(CONFIG, layer_decay=0.5), "run", model=model)
    assert run.model is model
    assert vitedu.load("run").config == model.config
    assert RunFolder("run").read_config().model == model.config


def test_activation_checkpointing_is_off_again_behind_a_run(here):
    config = replace(CONFIG, activation_checkpointing=True)
    model = own_model()
    fit(config, model=model)
    assert not any("forward" in vars(block) for block in model.blocks)
    torch.save(model, io.BytesIO())


def test_another_number_of_classes_says_how_to_change_the_head(here):
    said = sentence(CONFIG, "run", model=own_model(num_classes=5))
    assert "has 3 classes, the model 5" in said
    assert "model.reset_classifier(3)" in said
    assert not (here / "run").exists()


def test_weights_that_are_not_float32_are_refused(here):
    said = sentence(CONFIG, model=own_model().bfloat16())
    assert "is torch.bfloat16" in said
    assert "call model.float()" in said


def test_a_head_that_its_configuration_does_not_describe_is_refused(here):
    model = own_model()
    model.head = nn.Linear(8, 4)
    said = sentence(CONFIG, "run", model=model)
    assert "head.bias has the shape (4,) in the model and (3,) in" in said
    assert "model.reset_classifier" in said
    assert not (here / "run").exists()


def test_a_parameter_that_no_configuration_describes_is_refused(here):
    model = own_model()
    model.register = nn.Parameter(torch.zeros(1, 4, 8))
    assert (
        "register has the shape (1, 4, 8) in the model and none in"
        in sentence(CONFIG, model=model)
    )


def test_a_model_of_others_is_a_wrong_call(here):
    with pytest.raises(
        TypeError, match="ViT or a ResNet of vitedu, got Linear"
    ):
        fit(CONFIG, model=nn.Linear(3, 3))


def test_a_model_and_weights_are_one_too_many(here):
    config = replace(CONFIG, weights="ViT-Ti/16")
    assert "leave one of them out" in sentence(config, model=own_model())


def named_model(*names):
    model = own_model()
    model.class_names = names
    return model


def test_data_without_names_take_those_of_the_model(here):
    names = ("cat", "dog", "cow")
    run = fit(CONFIG, "run", model=named_model(*names), train=drawn(30))
    assert run.model.class_names == names
    assert vitedu.load("run").class_names == names
    assert (
        "they are taken for the model's: cat, dog, cow" in (run.result["notes"])
    )


def test_named_test_data_are_told_apart_by_the_names_of_the_model(here):
    said = sentence(
        CONFIG,
        model=named_model("cat", "dog", "cow"),
        train=drawn(30),
        test=Squares(9),
    )
    assert "has the classes dark, grey, light, but cat, dog, cow are" in said


def test_the_classes_of_the_model_in_another_order_are_refused(here):
    model = named_model("light", "dark", "grey")
    said = sentence(CONFIG, "run", model=model, train=Squares(30))
    assert "in the order dark, grey, light, the model in the order light" in (
        said
    )
    assert "model.reset_classifier" in said
    assert not (here / "run").exists()


def test_other_names_than_those_of_the_model_are_noted(here):
    run = fit(CONFIG, model=named_model("a", "b", "c"), train=Squares(30))
    assert run.model.class_names == Squares.classes
    assert (
        "the classes of the model, a, b, c, are called" in (run.result["notes"])
    )


# --- data


class Squares(Dataset):
    """A torch Dataset of pairs (image, label)."""

    classes = ("dark", "grey", "light")

    def __init__(self, count):
        self.images, self.targets = drawn(count)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], int(self.targets[index])


def test_arrays_in_memory_train_as_the_file_of_them_does(here):
    from_file = fit(CONFIG)
    given = fit(CONFIG, train=drawn(30), test=drawn(11))
    for name, tensor in from_file.model.state_dict().items():
        assert torch.equal(given.model.state_dict()[name], tensor)
    assert given.result["metrics"] == from_file.result["metrics"]


def test_a_torch_dataset_trains_and_names_its_classes(here):
    run = fit(
        CONFIG, "run", train=Squares(30), validation=Squares(9), test=Squares(9)
    )
    assert run.model.class_names == Squares.classes
    assert vitedu.load("run").class_names == Squares.classes
    assert run.result["metrics"].keys() >= {"validation_accuracy"}
    given = "train=Squares validation=Squares test=Squares"
    assert run.result["config"]["given"] == given


def test_without_a_test_part_a_share_is_held_out_and_said(here):
    run = fit(CONFIG, train=Squares(30))
    assert run.result["dataset"]["num_test"] == 6
    assert run.result["dataset"]["num_train"] == 24
    assert "held out" in run.result["notes"]
    assert "held out" in run.history[0]["note"]


def test_a_note_is_in_the_log_once_however_often_a_run_goes_on(here):
    for _ in range(3):
        fit(CONFIG, "run", train=Squares(30), should_stop=stopper(1))
    run = fit(CONFIG, "run", train=Squares(30))
    assert sum("note" in line for line in run.history) == 1


def test_a_data_loader_trains(here):
    images, labels = drawn(30)
    images = (torch.tensor(images)[:, None] / 255 - 0.5) / 0.5
    loader = DataLoader(TensorDataset(images, torch.tensor(labels)), 7)
    run = fit(CONFIG, train=loader, test=loader)
    assert run.result["status"] == "finished"
    assert run.result["dataset"]["num_train"] == 30


def test_a_run_on_given_data_goes_on_to_the_same_bytes(here):
    fit(CONFIG, "whole", train=Squares(30))
    for steps in (1, 3):
        fit(CONFIG, "parts", train=Squares(30), should_stop=stopper(steps))
    fit(CONFIG, "parts", train=Squares(30))
    assert weights(here / "parts") == weights(here / "whole")


def test_a_path_as_data_is_a_setting_like_any_other(here):
    shutil.copy("set.npz", "other.npz")
    run = fit(CONFIG, "run", train="other.npz")
    assert run.result["config"]["dataset"] == "other.npz"
    assert run.result["config"]["given"] is None


def test_best_weights_can_be_chosen_by_given_data(here):
    config = replace(CONFIG, keep="best")
    run = fit(config, train=Squares(24), validation=Squares(9), test=Squares(9))
    assert "best on the validation part" in run.result["notes"]


def test_a_finished_run_is_not_that_of_other_data(here):
    data, other = drawn(30), drawn(30)
    other[0][0] += 1
    first = fit(CONFIG, "run", train=data)
    before = weights(here / "run")
    said = sentence(CONFIG, "run", train=other)
    assert said.startswith("run contains a finished run on other data than")
    assert weights(here / "run") == before
    again = fit(CONFIG, "run", train=data)
    assert again.result["dataset"] == first.result["dataset"]


@pytest.mark.parametrize("part", ["validation", "test"])
def test_a_finished_run_is_not_that_of_other_parts(here, part):
    fit(CONFIG, "run", **{part: Squares(9)})
    said = sentence(CONFIG, "run", **{part: Squares(12)})
    assert "contains a finished run on other data" in said
    assert fit(CONFIG, "run", **{part: Squares(9)})


def test_a_share_to_validate_on_is_a_setting_like_any_other(here):
    run = fit(CONFIG, train=Squares(30), validation=0.2)
    assert run.result["config"]["validation"] == 0.2
    assert run.result["config"]["given"] == "train=Squares"
    assert "validation_accuracy" in run.result["metrics"]


def source(mean=0.5, **options):
    images, labels = drawn(30)
    split = open_pair(torch.tensor(images)[:, None], labels, ("a", "b", "c"))
    spec = PreprocessSpec(image_size=8, in_channels=1, mean=mean)
    return ArraySource(split, spec, **options)


def test_a_source_that_prepares_as_the_model_does_trains(here):
    run = fit(CONFIG, train=source(shuffle=True), test=source())
    assert run.model.class_names == ("a", "b", "c")


@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_a_source_that_prepares_in_another_way_is_refused(here, part):
    parts = {"train": source(), "test": source()} | {part: source(mean=0.1)}
    said = sentence(CONFIG, "run", **parts)
    assert "ArraySource prepares its images with mean=(0.1,)" in said
    assert "preprocess=model.preprocess" in said
    assert not (here / "run").exists()


@pytest.mark.parametrize("how", ["setting", "function"])
def test_a_source_is_not_augmented_in_silence(here, how):
    augment = Augment(flip=True) if how == "setting" else mirrored
    said = sentence(CONFIG, train=source(), test=source(), augment=augment)
    assert "ArraySource is a Source" in said
    assert "augment=Augment()" in said


def test_the_folder_may_be_any_path(here):
    class Place:
        def __fspath__(self):
            return "run"

    fit(CONFIG, Place())
    assert (here / "run" / "model.safetensors").is_file()


# --- a loss


def focal_loss(logits, labels, gamma=2.0):
    """Lin et al. 2017: easy images count less."""
    cross_entropy = F.cross_entropy(logits, labels, reduction="none")
    return ((1 - torch.exp(-cross_entropy)) ** gamma * cross_entropy).sum()


def plain_loss(logits, labels):
    return F.cross_entropy(logits, labels, reduction="sum")


def test_a_given_loss_of_the_same_formula_takes_the_same_steps(here):
    built_in, given = fit(CONFIG), fit(CONFIG, loss=plain_loss)
    for name, tensor in built_in.model.state_dict().items():
        assert torch.equal(given.model.state_dict()[name], tensor)
    assert given.result["metrics"] == built_in.result["metrics"]


def test_a_given_loss_is_what_is_made_small_and_what_is_reported(here):
    run = fit(CONFIG, "run", loss=focal_loss)
    assert run.history[0]["loss"] != fit(CONFIG).history[0]["loss"]
    images, labels = drawn(11)
    inputs = (torch.tensor(images)[:, None] / 255 - 0.5) / 0.5
    with torch.no_grad():
        loss = focal_loss(run.model(inputs), torch.tensor(labels)) / 11
    # float32, batches of another size
    reported = run.result["metrics"]["test_loss"]["value"]
    assert reported == pytest.approx(loss.item(), rel=1e-4)
    assert run.result["config"]["given"] == "loss=focal_loss"


@pytest.mark.parametrize("kind", [{"micro_batch_size": 3}, {"mixup": 0.5}])
def test_a_given_loss_goes_on_to_the_same_bytes(here, kind):
    config = replace(CONFIG, **kind)
    fit(config, "whole", loss=plain_loss)
    fit(config, "parts", loss=plain_loss, should_stop=stopper(3))
    fit(config, "parts", loss=plain_loss)
    assert weights(here / "parts") == weights(here / "whole")


def test_a_loss_may_be_given_by_its_name(here):
    run = fit(CONFIG, "run", loss="sigmoid")
    assert run.result["config"]["loss"] == "sigmoid"
    assert run.result["config"]["given"] is None
    named = fit(replace(CONFIG, loss="sigmoid"))
    assert run.result["metrics"] == named.result["metrics"]


def test_an_unknown_name_of_a_loss_is_one_sentence(here):
    said = sentence(CONFIG, loss="sigmoyd")
    assert "loss='sigmoyd' is not known; did you mean 'sigmoid'" in said


@pytest.mark.parametrize("option", ["loss", "augment"])
def test_what_is_neither_a_name_nor_a_function_is_a_wrong_call(here, option):
    with pytest.raises(TypeError, match=f"{option} must be .* got int"):
        fit(CONFIG, **{option: 3})


def test_label_smoothing_does_not_reach_a_given_loss(here):
    said = sentence(replace(CONFIG, label_smoothing=0.3), loss=focal_loss)
    assert "and not with loss=focal_loss; set label_smoothing=0" in said
    assert "label_smoothing=0" in said


def test_a_named_loss_that_is_not_used_is_not_recorded(here):
    run = fit(replace(CONFIG, loss="sigmoid"), loss=focal_loss)
    assert run.result["config"]["loss"] == "softmax"
    assert run.result["config"]["given"] == "loss=focal_loss"


@pytest.mark.parametrize(
    ("loss", "known"),
    [("sigmoid", "sigmoid"), ("softmax", "softmax"), (plain_loss, None)],
)
def test_the_model_knows_what_it_was_trained_by(here, loss, known):
    model = own_model()
    model.loss_name = "sigmoid"
    config = replace(CONFIG, keep="best", validation=0.2)
    fit(config, "run", model=model, loss=loss)
    assert model.loss_name == known
    again = own_model()
    fit(config, "run", model=again, loss=loss)
    assert again.loss_name == vitedu.load("run").loss_name
    is_sigmoid = vitedu.load("run").loss_name == "sigmoid"
    assert is_sigmoid == (loss == "sigmoid")


def test_a_mean_is_refused_with_the_remedy(here):
    said = sentence(CONFIG, loss=nn.CrossEntropyLoss())
    assert said.startswith("loss=CrossEntropyLoss is the same for a batch")
    assert "reduction='sum'" in said


def test_a_loss_for_each_image_is_refused_with_the_remedy(here):
    said = sentence(CONFIG, loss=nn.CrossEntropyLoss(reduction="none"))
    assert "returned (8,) for 8 images" in said
    assert "reduction='sum'" in said


def test_a_loss_that_returns_a_number_of_python_is_refused(here):
    said = sentence(CONFIG, loss=lambda logits, labels: 1.0)
    assert "loss=lambda returned float" in said


def test_half_precision_reaches_a_given_loss_as_float32(here):
    seen = []

    def watching(logits, labels):
        seen.append(logits.dtype)
        return plain_loss(logits, labels)

    fit(replace(CONFIG, precision="bf16"), loss=watching)
    assert {*seen} == {torch.float32}


# --- a change of pictures


def mirrored(picture):
    return ImageOps.mirror(picture)


def test_a_given_change_of_pictures_is_applied_and_recorded(here):
    plain, changed = (
        fit(CONFIG, f"{name}", train=Squares(30), augment=change)
        for name, change in (("plain", None), ("changed", mirrored))
    )
    assert changed.result["config"]["given"] == "train=Squares augment=mirrored"
    losses = [
        [line["loss"] for line in run.history if "loss" in line]
        for run in (plain, changed)
    ]
    assert losses[0] != losses[1]


def test_an_augment_is_a_setting_like_any_other(here):
    run = fit(CONFIG, "run", augment=Augment(flip=True))
    assert run.result["config"]["augment"]["flip"] is True
    assert run.result["config"]["given"] is None
    said = sentence(CONFIG, "run", augment=Augment(shift=1))
    assert "augment.flip=True" in said


def test_what_a_function_takes_the_place_of_is_recorded_as_off(here):
    config = replace(CONFIG, augment=Augment(flip=True, crop=0.5))
    run = fit(config, train=Squares(30), augment=mirrored)
    assert run.result["config"]["augment"]["flip"] is False
    assert run.result["config"]["augment"]["crop"] == 0.0


def test_a_function_of_length_0_is_still_applied(here):
    class Empty(nn.Sequential):
        def forward(self, picture):
            return mirrored(picture)

    plain, changed = (
        fit(CONFIG, train=Squares(30), augment=change)
        for change in (None, Empty())
    )
    assert plain.history[1] != changed.history[1]
    weight = "blocks.0.mlp.fc1.weight"
    assert not torch.equal(
        plain.model.state_dict()[weight], changed.model.state_dict()[weight]
    )


# --- names, and a resume without what was given


def test_what_is_given_is_called_by_its_name():
    assert name_of(focal_loss) == "focal_loss"
    assert name_of(partial(focal_loss, gamma=1.0)) == "focal_loss"
    assert name_of(lambda logits, labels: 0) == "lambda"
    assert name_of(nn.CrossEntropyLoss(reduction="sum")) == "CrossEntropyLoss"
    assert name_of(Squares(3)) == "Squares"
    assert Given(loss=focal_loss).names == "loss=focal_loss"
    assert Given().names is None


def test_a_name_may_have_blanks(here):
    given = Given(
        train=Squares(3), test="my photos/it's", loss=focal_loss
    ).names
    recorded = replace(CONFIG, given=given)
    assert recorded.given_names == {
        "train": "Squares",
        "test": "my photos/it's",
        "loss": "focal_loss",
    }
    check_given_again(given, given)
    with pytest.raises(UserError, match="given test=my photos/it's in Python"):
        check_given_again(given, "train=Squares loss=focal_loss")


def test_a_path_with_an_equals_sign_is_no_model():
    recorded = replace(CONFIG, given=Given(test="a model=b").names)
    assert not recorded.starts_trained
    assert replace(CONFIG, given="model=ViT").starts_trained


def test_only_what_no_path_names_is_data_in_memory():
    assert Given(train=drawn(3)).has_data
    assert not Given(train="photos", loss=focal_loss).has_data


def test_a_resume_without_what_was_given_names_it(here):
    given = {"loss": focal_loss, "train": Squares(30)}
    fit(CONFIG, "run", **given, should_stop=stopper(2))
    before = {path.name: path.read_bytes() for path in (here / "run").iterdir()}
    recorded = RunFolder("run").read_config()  # as vitedu train --resume does
    said = sentence(recorded, "run")
    assert "train=Squares and loss=focal_loss in Python" in said
    assert "fit(config, out, train=train, loss=loss)" in said
    said = sentence(recorded, "run", train=Squares(30))
    assert "given loss=focal_loss in Python" in said
    assert "contains a run that was given train=Squares loss=focal_loss" in (
        sentence(CONFIG, "run")
    )
    assert before == {
        path.name: path.read_bytes() for path in (here / "run").iterdir()
    }
    assert fit(recorded, "run", **given).result["status"] == "finished"


def test_what_a_run_was_not_given_is_refused_when_it_goes_on(here):
    fit(CONFIG, "run", should_stop=stopper(2))
    said = sentence(CONFIG, "run", loss=plain_loss)
    assert (
        "was given nothing in Python, and this one is given loss=plain" in said
    )


def test_a_finished_run_wants_nothing_again(here):
    fit(CONFIG, "run", loss=plain_loss)
    recorded = RunFolder("run").read_config()
    assert fit(recorded, "run").result["status"] == "finished"


def test_what_is_given_again_is_enough():
    check_given_again("loss=f train=Squares", "loss=f train=Squares")
    check_given_again(None, "loss=f")


# --- who watches


def test_a_callback_sees_the_model_as_it_is_now(here):
    seen = []

    def watch(progress):
        seen.append(progress.model.head.weight.detach().clone())

    run = fit(replace(CONFIG, ema=0.9), on_progress=watch)
    assert len(seen) == len(run.history)
    assert not torch.equal(seen[0], seen[2])
    # the result's are the averaged ones
    assert not torch.equal(seen[-2], run.model.head.weight)


def test_a_callback_that_leaves_eval_mode_changes_nothing(here):
    def look(progress):
        progress.model.eval()

    config = replace(CONFIG, model=replace(TINY, dropout=0.5))
    watched, alone = fit(config, on_progress=look), fit(config)
    for name, tensor in alone.model.state_dict().items():
        assert torch.equal(watched.model.state_dict()[name], tensor)


def test_four_lines_of_tensorboard(here):
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    with tensorboard.SummaryWriter("board") as writer:

        def watch(progress):
            writer.add_histogram(
                "head", progress.model.head.weight, progress.step
            )
            for name in {"loss", "lr"} & progress.line.keys():
                writer.add_scalar(name, progress.line[name], progress.step)

        fit(CONFIG, on_progress=watch)
    assert any((here / "board").iterdir())


def test_on_start_is_told_once_before_the_first_step(here):
    told = []
    run = fit(CONFIG, "run", on_start=told.append)
    (start,) = told
    assert (start.num_steps, start.config.threads) == (6, 1)
    assert start.config.precision == "fp32"
    assert len(start.sources.train) == 30
    assert start.state.step == 6  # it goes on with the run
    assert start.state.model is run.model
    fit(CONFIG, "run", on_start=told.append)
    assert len(told) == 1  # a finished run does not start
