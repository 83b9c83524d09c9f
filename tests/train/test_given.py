"""What a caller gives to `fit` in Python: a model, data, a loss, augmentation."""

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
from vitedu.errors import UserError
from vitedu.model import ViTConfig, resnet
from vitedu.pictures import PreprocessSpec
from vitedu.train import TrainConfig, fit
from vitedu.train.folder import RunFolder
from vitedu.train.given import check_given, name_of, names_given

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
    """Images (count, 8, 8) of three classes, which can be learned, and labels."""
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
    assert "head.bias has the shape (4,) in the model, (3,) by" in said
    assert "model.reset_classifier" in said
    assert not (here / "run").exists()


def test_a_parameter_that_no_configuration_describes_is_refused(here):
    model = own_model()
    model.register = nn.Parameter(torch.zeros(1, 4, 8))
    assert "register has the shape (1, 4, 8) in the model, none by" in sentence(
        CONFIG, model=model
    )


def test_a_model_of_others_is_a_wrong_call(here):
    with pytest.raises(
        TypeError, match="ViT or a ResNet of vitedu, got Linear"
    ):
        fit(CONFIG, model=nn.Linear(3, 3))


def test_a_model_and_weights_are_one_too_many(here):
    config = replace(CONFIG, weights="ViT-Ti/16")
    assert "leave one of them out" in sentence(config, model=own_model())


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


# --- names, and a resume without what was given


def test_what_is_given_is_called_by_its_name():
    assert name_of(focal_loss) == "focal_loss"
    assert name_of(partial(focal_loss, gamma=1.0)) == "focal_loss"
    assert name_of(lambda logits, labels: 0) == "lambda"
    assert name_of(nn.CrossEntropyLoss(reduction="sum")) == "CrossEntropyLoss"
    assert name_of(Squares(3)) == "Squares"
    assert names_given(loss=focal_loss, train=None) == "loss=focal_loss"
    assert names_given(loss=None) is None


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
    assert "holds a run that was given train=Squares loss=focal_loss" in (
        sentence(CONFIG, "run")
    )
    assert before == {
        path.name: path.read_bytes() for path in (here / "run").iterdir()
    }
    assert fit(recorded, "run", **given).result["status"] == "finished"


def test_what_a_run_was_not_given_is_refused_when_it_goes_on(here):
    fit(CONFIG, "run", should_stop=stopper(2))
    said = sentence(CONFIG, "run", loss=plain_loss)
    assert "was given nothing in Python, this one is given loss=plain" in said


def test_a_finished_run_wants_nothing_again(here):
    fit(CONFIG, "run", loss=plain_loss)
    recorded = RunFolder("run").read_config()
    assert fit(recorded, "run").result["status"] == "finished"


def test_what_is_given_again_is_enough():
    check_given("loss=f train=Squares", "loss=f train=Squares")
    check_given(None, "loss=f")


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
