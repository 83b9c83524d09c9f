"""TrainConfig: what it accepts, its JSON, values from text, fields' effects."""

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch

from tests.train.runs import OTHER, SHORT, SMALL, write_set
from vitedu.data import Augment, PreprocessSpec
from vitedu.errors import UserError
from vitedu.fields import meanings
from vitedu.model import Hybrid, Patches, ResNetConfig, RoPE, SinCos2D, ViT
from vitedu.train import RECIPES, fit, override, recipe
from vitedu.train.checkpoint import read_saved
from vitedu.train.config import MAY_DIFFER, TIERS, TrainConfig
from vitedu.train.data import open_sources
from vitedu.train.start import build_model, build_state
from vitedu.train.step import count_steps, train_step
from vitedu.weights import save

CPU = torch.device("cpu")
NAN, INF = float("nan"), float("inf")


def config(**changes):
    return replace(SHORT, **{"steps": 3} | changes)


def through_json(value):
    return TrainConfig.from_json(json.loads(json.dumps(value.to_json())))


# --- JSON


def test_json_gives_every_recipe_back():
    for each in (recipe(name, tier) for name in RECIPES for tier in TIERS):
        assert through_json(each) == each


def test_json_gives_every_field_back():
    for name, values in OTHER.items():
        changed = replace(SHORT, **values)
        assert changed != SHORT, name
        assert through_json(changed) == changed


def test_the_table_has_every_field():
    named = {name.partition(".")[0] for name in OTHER}
    assert named == {each.name for each in fields(TrainConfig)}


@pytest.mark.parametrize("part", ["model", "preprocess", "augment", None])
def test_json_of_an_unknown_field_names_it(part):
    values = config().to_json()
    (values[part] if part else values)["warm_up"] = 0.1
    with pytest.raises(UserError, match="no field 'warm_up'"):
        TrainConfig.from_json(values)


# --- identity


def test_what_may_differ_is_no_part_of_the_identity():
    for name, values in OTHER.items():
        changed, may_differ = replace(SHORT, **values), name in MAY_DIFFER
        assert (changed.identity() == SHORT.identity()) == may_differ, name
        assert (changed.digest() == SHORT.digest()) == may_differ, name


def test_runs_from_before_the_later_fields_keep_their_folders():
    # recorded before `weights`, `keep` and `given` were there
    digests = {
        "digits": "49b19050",
        "mnist-tiny": "5476dc28",
        "finetune": "32ba0566",
        "cifar10-scratch": "d92f47d3",
        "imagenet-s16": "9e3b46a5",
        "deit-s": "9ee31e39",
        "paper-jft": "e5f6ae22",
    }
    now = {name: recipe(name, "cpu").digest() for name in digests}
    assert now == digests


def test_a_configuration_without_the_later_fields_can_be_read():
    values = config().to_json()
    for name in ("weights", "keep", "given", "threads"):
        del values[name]
    assert TrainConfig.from_json(values) == config()


def test_the_model_may_be_a_resnet():
    small = ResNetConfig(layers=(1,), width=0.5, num_classes=3, image_size=32)
    both = config(model=small)
    assert through_json(both) == both
    deeper = override(both, {"model.layers": "1,1", "model.image_size": "64"})
    assert deeper.model.layers == (1, 1)
    assert deeper.preprocess.image_size == (64, 64)


def test_every_field_has_a_meaning():
    assert list(meanings(TrainConfig)) == [x.name for x in fields(TrainConfig)]


def test_the_digest_does_not_depend_on_how_a_whole_number_is_written():
    assert config(lr=1).digest() == config(lr=1.0).digest()


# --- values out of range

WRONG = {
    **dict.fromkeys(
        ("epochs", "steps", "batch_size", "micro_batch_size"), (0,)
    ),
    **dict.fromkeys(("log_every", "save_every", "max_images", "threads"), (0,)),
    **dict.fromkeys(("weight_decay", "mixup", "cutmix"), (-0.1, NAN, INF)),
    **dict.fromkeys(("label_smoothing", "validation", "ema"), (-0.1, 1.0, NAN)),
    **dict.fromkeys(("lr", "max_grad_norm"), (0.0, NAN, INF, True)),
    "seed": (-1, 2**64, 0.5),
    "num_workers": (-1,),
    "warmup": (-0.1, 1.1, NAN),
    "layer_decay": (0.0, 1.1, NAN),
    "head_bias": (NAN, INF, 1e308),
    "betas": ((0.9, 1.0), (NAN, 0.9), (0.9,), (0.9, 0.99, 0.999), 0.9),
    "tier": ("smok", ""),
    "optimizer": ("adamm", "AdamW"),
    "schedule": ("cosin", None),
    "loss": ("softmx",),
    "keep": ("lst",),
    "precision": ("fp8", "float16"),
    "attention": ("flsh",),
    "fallback": ("mnist",),
    "compile": ("yes", 1),
    "dataset": (None,),
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name in WRONG for value in WRONG[name]],
)
def test_a_wrong_value_is_one_sentence_with_its_name(name, value):
    changes = {name: value} | ({"steps": None} if name == "epochs" else {})
    with pytest.raises(UserError, match=name) as error:
        config(**changes)
    assert "\n" not in str(error.value)


# --- preprocess follows the model


def test_preprocess_takes_size_and_channels_from_the_model():
    spec = config(
        model=replace(SMALL, image_size=(8, 12), in_channels=3)
    ).preprocess
    assert (spec.image_size, spec.in_channels) == ((8, 12), 3)


# --- values from text

ASSIGNMENTS = [
    ("lr=3e-4", 3e-4),
    ("lr=1", 1.0),
    ("batch_size=32", 32),
    ("betas=0.9,0.99", (0.9, 0.99)),
    ("compile=true", True),
    ("compile=False", False),
    ("optimizer=sgd", "sgd"),
    ("micro_batch_size=4", 4),
    ("micro_batch_size=none", None),
    ("max_grad_norm=0.5", 0.5),
    ("ema=none", None),
    ("data=some/folder", "some/folder"),
    ("data=none", None),
    ("model.image_size=32", (32, 32)),
    ("model.image_size=32,48", (32, 48)),
    ("model.pre_logits=none", None),
    ("model.class_token=true", True),
    ("model.position.at=stem", "stem"),
    ("augment.shift=3", 3),
    ("augment.rotate=12.5", 12.5),
    ("preprocess.mean=0.5", (0.5,)),
    ("preprocess.crop=none", None),
    ("preprocess.interpolation=bicubic", "bicubic"),
]


@pytest.mark.parametrize(("assignment", "want"), ASSIGNMENTS)
def test_text_is_read_by_the_type_of_the_field(assignment, want):
    path, text = assignment.split("=")
    before = config(
        micro_batch_size=2,
        ema=0.5,
        data="x",
        model=replace(SMALL, pre_logits=8),
        preprocess=PreprocessSpec(crop=0.5),
    )
    value = override(before, {path: text})
    for name in path.split("."):
        value = getattr(value, name)
    assert value == want
    assert type(value) is type(want)


def test_values_need_to_fit_each_other_only_in_the_end():
    # neither value of a pair fits the old value of the other
    both = {"model.image_size": "30", "model.patch_size": "5"}
    for order in (both, dict(reversed(both.items()))):
        assert override(config(), order).model.grid == (6, 6)


def test_values_of_two_parts_need_to_fit_each_other_only_in_the_end():
    three = {"model.in_channels": "3", "preprocess.mean": "0.1,0.2,0.3"}
    assert override(config(), three).preprocess.mean == (0.1, 0.2, 0.3)


def test_steps_and_epochs_take_each_others_place():
    after = override(config(steps=None, epochs=5), {"steps": "9"})
    assert (after.steps, after.epochs) == (9, None)
    after = override(after, {"epochs": "5"})
    assert (after.steps, after.epochs) == (None, 5)


@pytest.mark.parametrize("path", ["model.position", "model.position.name"])
def test_a_variant_is_set_by_its_name(path):
    base = replace(config(), model=replace(config().model, position=RoPE()))
    changed = override(base, {path: "SinCos2D", "model.position.at": "stem"})
    assert changed.model.position == SinCos2D(at="stem")
    assert changed == override(base, {"model.position": "SinCos2D"})


def test_a_variant_starts_from_its_defaults_and_takes_fields():
    assignments = {
        "model.stem": "Hybrid",
        "model.stem.layers": "1,1",
        "model.stem.width": "0.5",
        "model.patch_size": "1",
    }
    changed = override(config(), assignments)
    assert changed.model.stem == Hybrid(layers=(1, 1), width=0.5)
    assert override(changed, {"model.stem": "Patches"}).model.stem == Patches()


def test_a_size_is_set_in_the_model_and_nowhere_else():
    assert override(config(), {"model.image_size": "16"}) != config()
    with pytest.raises(UserError, match=r"set model\.image_size"):
        override(config(), {"preprocess.image_size": "16"})


# --- every field changes something


@pytest.fixture
def here(here):
    """A folder of two small sets of three classes; no other data in reach."""
    for name, seed in (("set", 0), ("other", 1)):
        write_set(here, name, 24, 9, noise=256, step=0, seed=seed)
    return here


def trained(config):
    """The weights after training, as one vector."""
    weights = fit(config).model.state_dict().values()
    return torch.cat([weight.flatten() for weight in weights]).tolist()


def first_images(config):
    batches = open_sources(config, CPU).train.batches(batch_size=8)
    return next(iter(batches))[0].tolist()


def forward_passes(config):
    """Images in and dtype out of each forward pass of one step."""
    sources, seen = open_sources(config, CPU), []
    state = build_state(config, sources.train, CPU)
    state.model.register_forward_hook(
        lambda _, images, logits: seen.append((len(images[0]), logits.dtype))
    )
    train_step(state, next(iter(sources.train.batches(batch_size=8))))
    return seen


def saved_steps(config):
    """The step that the checkpoint holds, after each step of the run."""
    folder, steps = f"run-{config.save_every}", []

    def look():
        try:
            steps.append(read_saved(Path(folder, "checkpoint.pt"))["step"])
        except UserError:
            steps.append(None)
        return False

    fit(config, folder, should_stop=look)
    return steps


def mlp_passes(config):
    """How often one step computes the MLP of the first block."""
    sources, seen = open_sources(config, CPU), []
    state = build_state(config, sources.train, CPU)
    mlp = state.model.blocks[0].mlp
    mlp.register_forward_pre_hook(lambda *_: seen.append(1))
    train_step(state, next(iter(sources.train.batches(batch_size=8))))
    return len(seen)


def outcome(config):
    """What a run without its data says, or which data it took."""
    try:
        return open_sources(config, CPU).dataset.name
    except UserError as error:
        return str(error)[:20]


def run_outcome(config):
    try:
        return fit(config).result["status"]
    except UserError as error:
        return str(error)


def threads_used(config):
    """The CPU threads of PyTorch while a run goes on."""
    seen = []
    fit(config, on_progress=lambda _: seen.append(torch.get_num_threads()))
    return seen


def first_weight(config):
    """A weight that a run begins with; there's a file for another to name."""
    torch.manual_seed(5)
    save(ViT(SMALL), "start.safetensors")
    model, _ = build_model(config)
    return model.patch_embed.proj.weight[0, 0, 0, 0].item()


MNIST = {
    "dataset": "mnist",
    "model": replace(SMALL, image_size=28, num_classes=10),
}
# field: its other value, what shows it, and what else is set on both sides
SHOWN = {
    "recipe": ("other", lambda c: fit(c).result["name"], {}),
    "tier": ("gpu", lambda c: fit(c).result["tier"], {}),
    "model": (replace(SMALL, depth=2), lambda c: len(trained(c)), {}),
    "dataset": ("other.npz", lambda c: open_sources(c, CPU).dataset.digest, {}),
    "data": ("other.npz", lambda c: open_sources(c, CPU).dataset.digest, {}),
    "preprocess": (PreprocessSpec(mean=0.1), first_images, {}),
    "augment": (Augment(rotate=20.0), first_images, {}),
    "epochs": (5, lambda c: count_steps(c, 24), {"steps": None, "epochs": 2}),
    "steps": (5, lambda c: count_steps(c, 24), {}),
    "batch_size": (4, trained, {}),
    "micro_batch_size": (3, forward_passes, {}),
    "optimizer": ("sgd", trained, {}),
    "lr": (2e-3, trained, {}),
    "betas": ((0.9, 0.9), trained, {}),
    "weight_decay": (0.1, trained, {}),
    "schedule": ("linear", trained, {}),
    "warmup": (0.7, trained, {}),
    "max_grad_norm": (1e-6, trained, {"optimizer": "sgd"}),
    "layer_decay": (0.5, trained, {}),
    "freeze": ("backbone", trained, {}),
    "loss": ("sigmoid", trained, {}),
    "head_bias": (-3.0, trained, {}),
    "label_smoothing": (0.1, trained, {}),
    # 4, 3 and 3 images
    "class_weights": ("balanced", trained, {"max_images": 10}),
    "mixup": (0.2, trained, {}),
    "cutmix": (1.0, trained, {}),
    "ema": (0.9, trained, {}),
    # the last epoch is not the best one
    "keep": ("best", trained, {"validation": 0.3, "steps": 24, "lr": 0.3}),
    # a rate that changes no answer
    "patience": (
        1,
        lambda c: len(fit(c).history),
        {"validation": 0.3, "steps": 12, "lr": 1e-12},
    ),
    "precision": ("bf16", forward_passes, {}),
    # there is no such kernel on the CPU, and a sentence says so
    "attention": ("efficient", run_outcome, {}),
    "activation_checkpointing": (True, mlp_passes, {}),
    "seed": (1, trained, {}),
    "validation": (0.3, lambda c: len(open_sources(c, CPU).train), {}),
    "max_images": (10, lambda c: len(open_sources(c, CPU).train), {}),
    "fallback": ("digits", outcome, MNIST),
    "device": ("cuda:99", run_outcome, {"device": "cpu"}),
    "threads": (2, threads_used, {}),
    "weights": ("start.safetensors", first_weight, {}),
    "given": ("loss=f", run_outcome, {}),
    "log_every": (1, lambda c: len(fit(c).history), {}),
    "save_every": (1, saved_steps, {}),
}


def test_no_field_is_left_out():
    left = {each.name for each in fields(TrainConfig)} - SHOWN.keys()
    # of use to folders of pictures, and to several processes: tested there, as
    # is what is compiled in test_start.py
    assert left == {"num_workers", "shard", "compile"}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN)
def test_every_field_changes_something(here, name):
    value, show, shared = SHOWN[name]
    before, after = config(**shared), config(**(shared | {name: value}))
    assert getattr(before, name) != getattr(after, name)
    assert show(before) != show(after)


def test_the_same_configuration_shows_the_same(here):
    # otherwise the test above would prove nothing
    for name in ("lr", "augment", "micro_batch_size"):
        show = SHOWN[name][1]
        assert show(config()) == show(config())
