"""What a run starts with: what `fit` is given in Python, its first state."""

import io
import json
import re
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
from tests.train.runs import (
    SHORT,
    SMALL,
    drawn,
    equal,
    losses,
    sentence,
    stopper,
    weights,
)
from vitedu.data import ArraySource
from vitedu.data.augment import Augment
from vitedu.data.readers.arrays import open_pair
from vitedu.model import ViT, resnet
from vitedu.pictures import PreprocessSpec
from vitedu.train import TrainConfig, fit, train_step
from vitedu.train.run_folder import RunFolder
from vitedu.train.start import Given, build_model, build_state, called

slow = pytest.mark.slow  # it trains
CPU = torch.device("cpu")
TWO = replace(SMALL, depth=2)
CONFIG = replace(SHORT, lr=0.01, log_every=1)


def own_model(*names, **fields):
    """A model with weights, preprocessing and class names of its own."""
    torch.manual_seed(7)
    model = ViT(replace(TWO, **fields))
    nn.init.normal_(model.head.weight)
    model.preprocess = PreprocessSpec(
        image_size=8, in_channels=1, mean=(0.3,), std=(0.2,)
    )
    model.class_names = names
    return model


def copied(model):
    return {name: each.clone() for name, each in model.state_dict().items()}


class Squares(Dataset):
    """A torch Dataset of pairs (image, label)."""

    classes = ("dark", "grey", "light")

    def __init__(self, count):
        self.images, self.targets = drawn(count)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], int(self.targets[index])


def source(mean=0.5, **options):
    images, labels = drawn(30)
    split = open_pair(torch.tensor(images)[:, None], labels, ("a", "b", "c"))
    spec = PreprocessSpec(image_size=8, in_channels=1, mean=mean)
    return ArraySource(split, spec, **options)


def focal_loss(logits, labels, gamma=2.0):
    """Lin et al. 2017: easy images count less."""
    cross_entropy = F.cross_entropy(logits, labels, reduction="none")
    return ((1 - torch.exp(-cross_entropy)) ** gamma * cross_entropy).sum()


def plain_loss(logits, labels):
    return F.cross_entropy(logits, labels, reduction="sum")


def mirrored(picture):
    return ImageOps.mirror(picture)


# --- a model


@slow
def test_the_given_model_is_what_learns(here):
    model = own_model()
    before = copied(model)
    run = fit(CONFIG, "run", model=model)
    assert run.model is model
    assert not model.training
    assert not torch.equal(model.head.weight, before["head.weight"])
    assert model.class_names == ("0", "1", "2")
    assert equal(model, vitedu.load("run"))
    recorded = RunFolder("run").read_config()
    assert recorded.model == TWO != CONFIG.model
    assert recorded.preprocess == own_model().preprocess == model.preprocess
    assert recorded.given == "model=ViT"
    assert run.result["config"] == recorded.to_json()


@slow
def test_it_learns_from_its_own_weights(here):
    run = fit(replace(CONFIG, lr=1e-30), model=own_model())
    # as far as a rate of 1e-30 goes in 6 steps
    assert_close(copied(run.model), copied(own_model()), rtol=0, atol=1e-28)


@slow
def test_frozen_weights_stay_as_they_are(here):
    model = own_model()
    model.blocks.requires_grad_(False)
    before = copied(model)
    run = fit(replace(CONFIG, weight_decay=0.1, layer_decay=0.5), model=model)
    for name, tensor in run.model.state_dict().items():
        assert torch.equal(tensor, before[name]) == name.startswith("blocks")
    assert not any(p.requires_grad for p in model.blocks.parameters())


def uneven(counts):
    """A Source with so many images of each class."""
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    images = torch.zeros(len(labels), 1, 8, 8, dtype=torch.uint8)
    split = open_pair(images, labels)
    return ArraySource(split, PreprocessSpec(image_size=8, in_channels=1))


def test_uneven_classes_are_noted_and_can_be_balanced():
    state = build_state(CONFIG, uneven([40, 4, 9]), CPU)
    assert state.class_weights is None and state.notes == [
        "0 has 40 images to train on, 1 4; class_weights=balanced lets every "
        "class count the same"
    ]
    assert build_state(CONFIG, uneven([39, 4, 9]), CPU).notes == []
    known = replace(CONFIG, dataset="svhn")  # a named set is as it is
    assert build_state(known, uneven([40, 4, 9]), CPU).notes == []
    balanced = replace(CONFIG, class_weights="balanced")
    state = build_state(balanced, uneven([40, 4, 9]), CPU)
    assert state.notes == []
    want = 53 / 3 / torch.tensor([40.0, 4.0, 9.0])
    assert_close(state.class_weights, want)


def test_weights_of_classes_need_labels_and_a_loss_of_ours():
    balanced = replace(CONFIG, class_weights="balanced")
    assert "counts the labels before the first step" in sentence(
        build_state, balanced, range(30), CPU
    )
    said = sentence(fit, balanced, loss=lambda x, y: x.sum())
    assert "set class_weights=none, and weigh the classes in your" in said


@slow
def test_a_frozen_backbone_stays_as_it_is_and_may_learn_afterwards(here):
    model = own_model()
    model.blocks.requires_grad_(False)  # and that is left to its owner
    before = copied(model)
    run = fit(replace(CONFIG, freeze="backbone", ema=0.5), model=model)
    for name, tensor in run.model.state_dict().items():
        assert torch.equal(tensor, before[name]) != name.startswith("head.")
    learning = {n for n, p in model.named_parameters() if p.requires_grad}
    assert learning == {n for n in before if not n.startswith("blocks")}


@slow
def test_a_finished_run_is_put_into_the_model(here):
    first = fit(CONFIG, "run", model=own_model())
    again = own_model().train()
    run = fit(CONFIG, "run", model=again)
    assert run.model is again
    assert not again.training
    assert again.class_names == ("0", "1", "2")
    assert run.result == json.loads(json.dumps(first.result))
    assert equal(first.model, again)


@slow
def test_data_and_a_network_are_all_that_fit_needs(here):
    config = TrainConfig(model=SMALL, steps=2)
    run = fit(config, "run", train=drawn(30))
    assert (run.result["name"], run.result["tier"]) == ("own", "gpu")
    recorded = RunFolder("run").read_config()
    assert (recorded.recipe, recorded.dataset) == ("own", "tuple")
    model = own_model()
    assert (
        fit(TrainConfig(steps=2), model=model, train=drawn(30)).model is model
    )
    assert "there is nothing to train on: give" in sentence(fit, config)


@slow
def test_a_resnet_may_be_given(here):
    torch.manual_seed(0)
    sizes = {"layers": (1, 1), "width": 0.5, "image_size": 8}
    model = resnet("BiT-R50x1", num_classes=3, in_channels=1, **sizes)
    run = fit(replace(CONFIG, layer_decay=0.5), "run", model=model)
    assert run.model is model
    assert vitedu.load("run").config == model.config
    assert RunFolder("run").read_config().model == model.config


@slow
def test_activation_checkpointing_is_off_again_behind_a_run(here):
    model = own_model()
    fit(replace(CONFIG, activation_checkpointing=True), model=model)
    assert not any("forward" in vars(block) for block in model.blocks)
    torch.save(model, io.BytesIO())


@slow
def test_data_without_names_take_those_of_the_model(here):
    names = ("cat", "dog", "cow")
    run = fit(CONFIG, "run", model=own_model(*names), train=drawn(30))
    assert run.model.class_names == vitedu.load("run").class_names == names
    said = "they are taken for the model's: cat, dog, cow"
    assert said in run.result["notes"]


@slow
def test_other_names_than_those_of_the_model_are_noted(here):
    run = fit(CONFIG, model=own_model("a", "b", "c"), train=Squares(30))
    assert run.model.class_names == Squares.classes
    said = "the classes of the model, a, b, c, are called"
    assert said in run.result["notes"]


# --- what does not fit


def with_another_head():
    model = own_model()
    model.head = nn.Linear(8, 4)
    return model


def with_a_parameter_more():
    model = own_model()
    model.register = nn.Parameter(torch.zeros(1, 4, 8))
    return model


def permuted():
    return own_model("light", "dark", "grey")


def with_other(part):
    """Sources, of which one prepares its images in another way."""
    return {"train": source(), "test": source(), part: source(mean=0.1)}


CATS = ("cat", "dog", "cow")
FLIP = Augment(flip=True)
UNLIKE = (
    "ArraySource prepares its images with mean=(0.1,) (the model: (0.5,)); "
    "make it with preprocess=model.preprocess"
)
# what `fit` is given, and what it says
REFUSED = [
    (
        lambda: {"model": own_model(num_classes=5)},
        "has 3 classes, the model 5; call model.reset_classifier(3)",
    ),
    (
        lambda: {"model": own_model().bfloat16()},
        "is torch.bfloat16, and training needs weights in float32",
    ),
    (
        lambda: {"model": with_another_head()},
        "head.weight has shape (4, 8), but its configuration says (3, 8)",
    ),
    (
        lambda: {"model": with_a_parameter_more()},
        "register has no place in its configuration",
    ),
    (
        lambda: {"model": own_model(), "config": {"weights": "ViT-Ti/16"}},
        "two models to start from; leave one of them out",
    ),
    (
        lambda: {
            "model": own_model(*CATS),
            "train": drawn(30),
            "test": Squares(9),
        },
        "has the classes dark, grey, light, but cat, dog, cow are",
    ),
    (
        lambda: {"model": permuted(), "train": Squares(30)},
        "in the order dark, grey, light, the model in the order light, dark, "
        "grey, so a label would mean another class; use vitedu.finetune, whi",
    ),
    (
        lambda: {"train": source(), "test": source(), "augment": FLIP},
        "leave it out here (augment=Augment())",
    ),
    (
        lambda: {"loss": "sigmoyd"},
        "loss='sigmoyd' is not known; did you mean 'sigmoid'",
    ),
    (
        lambda: {"loss": focal_loss, "config": {"label_smoothing": 0.3}},
        "and not with loss=focal_loss; set label_smoothing=0",
    ),
    (
        lambda: {"loss": nn.CrossEntropyLoss()},
        "loss=CrossEntropyLoss is the same for a batch",
    ),
    (lambda: with_other("train"), UNLIKE),
    (lambda: with_other("validation"), UNLIKE),
    (lambda: with_other("test"), UNLIKE),
]


@pytest.mark.parametrize(("make", "said"), REFUSED)
def test_what_does_not_fit_is_one_sentence(here, make, said):
    given = make()
    config = replace(CONFIG, **given.pop("config", {}))
    assert said in sentence(fit, config, "run", **given)
    # a loss shows what it is with the first batch
    assert not (here / "run").exists() or callable(given.get("loss"))


def test_a_model_of_another_kind_is_a_wrong_call(here):
    with pytest.raises(TypeError, match="ViT or a ResNet of vitedu, got Linea"):
        fit(CONFIG, model=nn.Linear(3, 3))


# --- data


@slow
def test_arrays_in_memory_train_as_the_file_of_them_does(here):
    from_file = fit(CONFIG)
    given = fit(CONFIG, train=drawn(30), test=drawn(11))
    assert equal(from_file.model, given.model)
    assert given.result["metrics"] == from_file.result["metrics"]


@slow
def test_a_torch_dataset_trains_and_names_its_classes(here):
    parts = {"validation": Squares(9), "test": Squares(9)}
    run = fit(replace(CONFIG, keep="best"), "run", train=Squares(30), **parts)
    assert run.model.class_names == Squares.classes
    assert vitedu.load("run").class_names == Squares.classes
    assert run.result["metrics"].keys() >= {"validation_accuracy"}
    assert "best on the validation part" in run.result["notes"]
    given = "train=Squares validation=Squares test=Squares"
    assert run.result["config"]["given"] == given


@slow
def test_without_a_test_part_a_share_is_held_out_and_said_once(here):
    for _ in range(3):
        fit(CONFIG, "run", train=Squares(30), should_stop=stopper(1))
    run = fit(CONFIG, "run", train=Squares(30))
    dataset = run.result["dataset"]
    assert (dataset["num_train"], dataset["num_test"]) == (24, 6)
    (note,) = (line["note"] for line in run.history if "note" in line)
    assert "held out" in note
    assert run.result["notes"] == note


@slow
@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_a_finished_run_is_not_that_of_other_data(here, part):
    data, other = Squares(30), Squares(30)
    other.images[0] += 1
    first = fit(CONFIG, "run", **{part: data})
    before = weights(here / "run")
    said = sentence(fit, CONFIG, "run", **{part: Squares(27)})
    assert said.startswith("run contains a finished run on other data: ")
    assert weights(here / "run") == before
    again = fit(CONFIG, "run", **{part: data})
    assert again.result["dataset"] == first.result["dataset"]


@slow
@pytest.mark.parametrize("steps", [3, None], ids=["stopped", "finished"])
def test_a_run_goes_on_from_its_own_first_weights_alone(here, steps):
    stop = stopper(steps) if steps else None
    model, other = own_model(), own_model()
    nn.init.normal_(other.head.weight)
    fit(CONFIG, "run", model=model, should_stop=stop)
    before = weights(here / "run")
    said = sentence(fit, CONFIG, "run", model=other)
    assert said.startswith("run contains a run that started from other weight")
    assert "of the model given now; start from the same, or" in said
    assert weights(here / "run") == before
    # the model as it was, and as far as the run has got with it
    for same in (lambda: model, own_model, lambda: vitedu.load("run")):
        run = fit(CONFIG, "run", model=same())
        assert run.result["status"] == "finished"
        assert run.result["start"] is not None


@slow
@pytest.mark.parametrize("steps", [3, None], ids=["stopped", "finished"])
def test_a_file_of_weights_that_has_changed_starts_another_run(here, steps):
    stop = stopper(steps) if steps else None
    config = replace(CONFIG, model=TWO, weights="start.safetensors")
    vitedu.save(own_model("a", "b", "c"), "start.safetensors")
    fit(config, "run", should_stop=stop)
    changed = own_model("a", "b", "c")
    nn.init.zeros_(changed.blocks[0].attn.proj.weight)
    vitedu.save(changed, "start.safetensors")
    said = sentence(fit, config, "run")
    assert "other weights than those of weights=start.safetensors now" in said
    (here / "start.safetensors").unlink()
    if steps is None:
        assert fit(config, "run").result["start"] is not None


# --- a loss, a change of pictures


@slow
def test_a_given_loss_of_the_same_formula_takes_the_same_steps(here):
    built_in, given = fit(CONFIG), fit(CONFIG, loss=plain_loss)
    assert equal(built_in.model, given.model)
    assert given.result["metrics"] == built_in.result["metrics"]


@slow
def test_a_given_loss_is_what_is_made_small_and_what_is_reported(here):
    run = fit(replace(CONFIG, loss="sigmoid"), "run", loss=focal_loss)
    assert losses(run)[0] != losses(fit(CONFIG))[0]
    images, labels = drawn(11)
    inputs = (torch.tensor(images)[:, None] / 255 - 0.5) / 0.5
    with torch.no_grad():
        loss = focal_loss(run.model(inputs), torch.tensor(labels)) / 11
    # float32, batches of another size
    reported = run.result["metrics"]["test_loss"]["value"]
    assert reported == pytest.approx(loss.item(), rel=1e-4)
    assert run.result["config"]["given"] == "loss=focal_loss"
    assert run.result["config"]["loss"] == "softmax"  # which is not used


class Lighter(Squares):
    """Pictures that are changed at random on the way, as torchvision would."""

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return image // 2 + int(20 * torch.rand(())), label


def turned(picture):
    return picture.rotate(np.random.rand())


def loader():
    images, labels = map(torch.tensor, drawn(30))
    images = (images[:, None] / 255 - 0.5) / 0.5
    return DataLoader(TensorDataset(images, labels), 7, shuffle=True)


@slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: {"model": own_model()},
        lambda: {"train": Lighter(30)},
        lambda: {"train": Squares(30), "augment": turned},
        lambda: {"train": loader(), "test": Squares(9)},
        lambda: {"loss": plain_loss},
    ],
    ids=["model", "dataset", "change", "loader", "loss"],
)
def test_a_run_on_what_was_given_goes_on_to_the_same_bytes(here, make):
    config = replace(CONFIG, mixup=0.5)

    def run(out, **options):
        return fit(config, out, **make(), **options)

    run("whole")
    for steps in (2, 1):
        run("parts", should_stop=stopper(steps))
    run("parts")
    assert weights(here / "parts") == weights(here / "whole")


@slow
@pytest.mark.parametrize(
    ("loss", "known"),
    [("sigmoid", "sigmoid"), ("softmax", "softmax"), (plain_loss, None)],
)
def test_the_model_knows_what_it_was_trained_by(here, loss, known):
    model = own_model()
    model.loss_name, model.resize_mode = "sigmoid", "timm"
    config = replace(CONFIG, keep="best", validation=0.2)
    fit(config, "run", model=model, loss=loss)
    assert model.loss_name == known
    assert weights(here / "run") == weights(here / "run", "best")
    again = own_model()
    fit(config, "run", model=again, loss=loss)
    assert again.loss_name == vitedu.load("run").loss_name
    is_sigmoid = vitedu.load("run").loss_name == "sigmoid"
    assert is_sigmoid == (loss == "sigmoid")


@slow
def test_a_given_change_of_pictures_is_applied_and_recorded(here):
    class Empty(nn.Sequential):  # of length 0
        def forward(self, picture):
            return mirrored(picture)

    config = replace(CONFIG, augment=Augment(flip=True, crop=0.5))
    plain = fit(CONFIG, train=Squares(30))
    for change in (mirrored, Empty()):
        run = fit(config, train=Squares(30), augment=change)
        recorded = run.result["config"]
        name = called(change)
        assert recorded["given"] == f"train=Squares augment={name}"
        assert recorded["augment"]["flip"] is False
        assert recorded["augment"]["crop"] == 0.0
        assert losses(run) != losses(plain)


# --- settings, names, and a resume without what was given


@slow
@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"train": "other.npz"}, "dataset", "other.npz"),
        ({"validation": 0.2}, "validation", 0.2),
        ({"loss": "sigmoid"}, "loss", "sigmoid"),
        ({"augment": Augment(flip=True)}, "augment", Augment(flip=True)),
    ],
)
def test_what_text_can_say_is_a_setting_like_any_other(
    here, given, name, value
):
    shutil.copy("set.npz", "other.npz")
    run = fit(CONFIG, **given)
    config = replace(CONFIG, **{name: value})
    assert run.result["config"] == replace(config, threads=1).to_json()
    assert run.result["metrics"] == fit(config).result["metrics"]


def test_what_is_given_is_called_by_its_name():
    assert called(focal_loss) == "focal_loss"
    assert called(partial(focal_loss, gamma=1.0)) == "focal_loss"
    assert called(lambda logits, labels: 0) == "lambda"
    assert called(nn.CrossEntropyLoss(reduction="sum")) == "CrossEntropyLoss"
    assert called(Squares(3)) == "Squares"
    assert Given(loss=focal_loss).names == "loss=focal_loss"
    assert Given().names is None
    assert Given(train=drawn(3)).has_data
    assert not Given(train="photos", loss=focal_loss).has_data


def test_a_name_may_have_blanks():
    given = Given(train=Squares(3), test="my photos/it's", loss=focal_loss)
    assert replace(CONFIG, given=given.names).given_names == {
        "train": "Squares",
        "test": "my photos/it's",
        "loss": "focal_loss",
    }
    # a path with an equals sign is no model
    assert not replace(CONFIG, given="'test=a model=b'").starts_trained
    assert replace(CONFIG, given="model=ViT").starts_trained


@slow
def test_a_resume_without_what_was_given_names_it(here):
    given = {"loss": focal_loss, "train": Squares(30)}
    fit(CONFIG, "run", **given, should_stop=stopper(2))
    before = {path.name: path.read_bytes() for path in (here / "run").iterdir()}
    recorded = RunFolder("run").read_config()  # as vitedu train --resume does
    for again in ({}, {"train": Squares(30)}):
        said = sentence(fit, recorded, "run", **again)
        assert "given train=Squares loss=focal_loss in Python, which" in said
    said = sentence(fit, CONFIG, "run")
    assert "contains a run that was given train=Squares loss=focal_l" in said
    said = sentence(fit, CONFIG, "run", loss=plain_loss)
    assert "and this one is given loss=plain_loss; give vitedu.train" in said
    assert before == {
        path.name: path.read_bytes() for path in (here / "run").iterdir()
    }
    assert fit(recorded, "run", **given).result["status"] == "finished"
    assert fit(recorded, "run").result["status"] == "finished"  # wants nothing


# --- who watches


@slow
def test_a_callback_sees_the_model_as_it_is_now(here):
    seen = []

    def watch(progress):
        seen.append(progress.model.head.weight.detach().clone())

    run = fit(replace(CONFIG, ema=0.9), on_progress=watch)
    assert len(seen) == len(run.history)
    assert not torch.equal(seen[0], seen[2])
    # the result's are the averaged ones
    assert not torch.equal(seen[-2], run.model.head.weight)


@slow
def test_a_callback_that_leaves_eval_mode_changes_nothing(here):
    config = replace(CONFIG, model=replace(TWO, dropout=0.5))
    watched = fit(config, on_progress=lambda progress: progress.model.eval())
    assert equal(watched.model, fit(config).model)


@slow
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


# --- the state before the first step

SLOW_SGD = replace(
    SHORT,
    model=replace(TWO, embed_dim=16, mlp_dim=32),
    steps=2,
    optimizer="sgd",
    schedule="constant",
    lr=0.1,
)
WIDE = SLOW_SGD.model
# torch.compile imports parts of torch that warn of themselves
compiles = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def config(**fields):
    return replace(SLOW_SGD, **fields)


def build(**fields):
    """A state whose every weight has been drawn, so that all of them matter."""
    state = build_state(config(**fields), range(8), CPU)
    torch.manual_seed(0)
    for weight in state.model.parameters():
        nn.init.normal_(weight, std=0.3)
    return state


def drawn_batch(num_images=4):
    torch.manual_seed(1)
    return torch.randn(num_images, 1, 8, 8), torch.arange(num_images) % 3


def after_steps(state):
    """The weights after two steps on one batch."""
    for step in range(2):
        batch = drawn_batch()
        torch.manual_seed(2 + step)  # of dropout
        train_step(state, batch)
    return copied(state.model)


def test_weights_are_the_seeds():
    first, again, other = (build_model(config(seed=s))[0] for s in (1, 1, 2))
    weights = [model.patch_embed.proj.weight for model in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_building_draws_nothing_from_the_callers_generator():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    assert build_state(config(), range(8), CPU).notes == []
    assert torch.equal(torch.get_rng_state(), before)


def test_the_bias_of_the_head_begins_with_what_is_asked():
    plain, biased = (build_model(config(head_bias=x))[0] for x in (0.0, -6.9))
    assert torch.equal(biased.head.bias, torch.full((3,), -6.9))
    assert not plain.head.bias.any()
    nn.init.zeros_(biased.head.bias)
    assert equal(plain, biased)


CHECKPOINTED = [
    {"model": replace(WIDE, dropout=0.3, drop_path=0.5)},
    {"model": replace(WIDE, dropout=0.3, drop_path=0.5), "micro_batch_size": 3},
    *(
        {"precision": precision, "attention": attention}
        for precision in ("fp32", "bf16", "fp16")
        for attention in ("auto", "flash", "math")
    ),
]


@pytest.mark.parametrize("fields", CHECKPOINTED)
def test_checkpointed_blocks_give_the_same_steps(fields):
    # with another kernel than in the forward pass, autograd would refuse it
    plain, less = (
        after_steps(build(**fields, activation_checkpointing=checkpointed))
        for checkpointed in (False, True)
    )
    # the same operations on the same numbers
    assert_close(less, plain, rtol=0, atol=0)


@slow
@compiles
def test_a_compiler_that_is_not_there_is_noticed():
    from torch._inductor import config as inductor

    torch._dynamo.reset()
    with inductor.patch({"cpp.cxx": ("no-such-compiler",)}):
        state = build(compile=True)
    (note,) = state.notes
    assert re.search("has no effect, .*no-such-compiler.*uncompiled$", note)
    assert state.model._compiled_call_impl is None
    assert_close(after_steps(state), after_steps(build()), rtol=0, atol=0)


@slow
@compiles
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_a_compiled_model_takes_the_same_steps():
    torch._dynamo.reset()
    fields = {
        "model": replace(WIDE, depth=1),
        "precision": "bf16",
        "activation_checkpointing": True,
    }
    plain, compiled = build(**fields), build(**fields, compile=True)
    assert compiled.notes == [] and compiled.model._compiled_call_impl
    assert plain.model._compiled_call_impl is None
    # bfloat16 keeps 8 bits, and fused kernels round less often: measured 3e-5
    assert_close(after_steps(compiled), after_steps(plain), rtol=0, atol=1e-3)
