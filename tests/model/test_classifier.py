"""What a model carries besides its weights, and what timm asks it for."""

import pytest
import torch
from torch import nn

from vitedu.compat import import_timm
from vitedu.errors import UserError
from vitedu.model import Hybrid, Relative, SinCos2D, resnet, resnet_config
from vitedu.pictures import PreprocessSpec
from vitedu.weights.named import network_config_of, vit, vit_config

SMALL = {"image_size": 32, "num_classes": 5, "depth": 2}
RESNET = {"image_size": 32, "num_classes": 5, "layers": (1, 2), "width": 0.5}


def small_vit(**fields):
    return with_random_weights(vit("ViT-Ti/16", **SMALL | fields))


def small_resnet(name="BiT-R50x1"):
    return with_random_weights(resnet(name, **RESNET))


def with_random_weights(model):
    torch.manual_seed(0)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.1)
    return model.eval()


def images(b=2):
    torch.manual_seed(1)
    return torch.randn(b, 3, 32, 32)


both = pytest.mark.parametrize("build", [small_vit, small_resnet])


# --- a new model, and another head


@both
def test_another_head_takes_the_names_of_its_classes(build):
    model = build()
    model.reset_classifier(2, ["ants", "bees"])
    assert model.class_names == ("ants", "bees")


@both
def test_names_that_do_not_fit_change_nothing(build):
    model = build()
    model.class_names = tuple("abcde")
    before = model(images())
    message = "2 class names do not fit 3 classes; give one for each class"
    with pytest.raises(UserError, match=message):
        model.reset_classifier(3, ["ants", "bees"])
    with pytest.raises(UserError, match="num_classes must be a whole number"):
        model.reset_classifier(-1)
    assert (model.num_classes, model.class_names) == (5, tuple("abcde"))
    assert torch.equal(model(images()), before)


@both
def test_one_string_is_no_list_of_names(build):
    model = build()
    with pytest.raises(UserError, match="must be a list of names, got 'avg'"):
        model.reset_classifier(3, "avg")  # timm's second argument
    assert model.num_classes == 5


# --- what timm's functions find


@pytest.mark.parametrize(
    ("build", "fields", "first", "classifier"),
    [
        (small_vit, {}, "patch_embed.proj", "head"),
        (
            small_vit,
            {"stem": Hybrid((1,), width=0.5), "patch_size": 4},
            "patch_embed.backbone.stem.conv",
            "head",
        ),
        (
            small_vit,
            {"stem": Hybrid((), width=0.5), "patch_size": 4},
            "patch_embed.backbone.conv",
            "head",
        ),
        (small_resnet, {}, "stem.conv", "head.fc"),
        (small_resnet, {"name": "R50x1"}, "stem.conv", "head.fc"),
    ],
)
def test_pretrained_cfg_names_the_first_and_the_last_layer(
    build, fields, first, classifier
):
    model = build(**fields)
    config = model.pretrained_cfg
    assert (config["first_conv"], config["classifier"]) == (first, classifier)
    assert isinstance(model.get_submodule(first), nn.Conv2d)
    assert len(model.get_submodule(classifier).bias) == config["num_classes"]


def test_pretrained_cfg_follows_the_preprocessing():
    model = small_vit()
    assert model.pretrained_cfg["crop_mode"] == "squash"
    model.preprocess = PreprocessSpec(64, crop=0.9, mean=(0.1, 0.2, 0.3))
    config = model.pretrained_cfg
    assert config["input_size"] == (3, 64, 64)
    assert config["mean"] == (0.1, 0.2, 0.3)
    assert (config["crop_mode"], config["crop_pct"]) == ("center", 0.9)


@pytest.mark.slow
@both
def test_pretrained_cfg_has_no_key_that_timms_own_has_not(build):
    import_timm()
    from timm.models import PretrainedCfg

    config = build().pretrained_cfg
    assert PretrainedCfg(**config).num_classes == 5


def layers(model, **options):
    """timm's parameter groups, sorted: rate, decay and names of each."""
    import_timm()
    from timm.optim import param_groups_layer_decay

    names = {id(weight): name for name, weight in model.named_parameters()}
    return sorted(
        (
            group["lr_scale"],
            group["weight_decay"],
            sorted(names[id(weight)] for weight in group["params"]),
        )
        for group in param_groups_layer_decay(
            model, no_weight_decay_list=model.no_weight_decay(), **options
        )
    )


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda: vit("ViT-Ti/16"), "vit_tiny_patch16_224"),
        (lambda: resnet("BiT-R50x1"), "resnetv2_50x1_bit"),
    ],
)
def test_layer_decay_has_the_groups_of_timms_own_model(ours, theirs):
    timm = import_timm()
    with torch.device("meta"):
        ours, theirs = ours(), timm.create_model(theirs, num_classes=1000)
    theirs.no_weight_decay = getattr(theirs, "no_weight_decay", set)
    assert layers(ours) == layers(theirs)


def test_coarse_layers_of_a_resnet_are_its_stages():
    import_timm()
    from timm.models import group_parameters

    model = small_resnet()
    fine, coarse = (
        group_parameters(model, model.group_matcher(coarse=coarse))
        for coarse in (False, True)
    )
    assert len(fine) == 1 + 3 + 1  # root, units, head
    assert len(coarse) == 1 + 2 + 1  # root, stages, norm with the head


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, {"cls_token", "pos_embed"}),
        ({"class_token": False, "pool": "mean"}, {"pos_embed"}),
        (
            {"position": Relative()},
            {"cls_token", "blocks.0.pos_embed", "blocks.1.pos_embed"},
        ),
        ({"position": SinCos2D()}, {"cls_token"}),
    ],
)
def test_class_token_and_positions_are_not_to_decay(fields, names):
    assert small_vit(**fields).no_weight_decay() == names


# --- either kind of network


def test_a_name_of_either_kind_is_found():
    for name, config in (
        ("ViT-B/16", vit_config("ViT-B/16", num_classes=3)),
        ("R50+ViT-B/16", vit_config("R50+ViT-B/16", num_classes=3)),
        ("R50x1", resnet_config("R50x1", num_classes=3)),
    ):
        assert network_config_of(name, num_classes=3) == config
    with pytest.raises(UserError, match="did you mean 'BiT-R50x"):
        network_config_of("BiT-R50")


@pytest.mark.parametrize("kwargs", [None, {}, {"use_reentrant": False}])
def test_transformers_names_switch_the_recomputing_of_blocks(kwargs):
    model = small_vit()
    model.gradient_checkpointing_enable(kwargs)
    assert all("forward" in vars(block) for block in model.blocks)
    model.gradient_checkpointing_disable()
    assert not any("forward" in vars(block) for block in model.blocks)
    model.activation_checkpointing_enable(kwargs, every_n_layers=1)
    assert all("forward" in vars(block) for block in model.blocks)


@pytest.mark.parametrize(
    "settings",
    [
        {"every_n_layers": 2},
        {"offload": True},
        {"activation_checkpointing_kwargs": {"use_reentrant": True}},
        {"activation_checkpointing_kwargs": {"preserve_rng_state": False}},
    ],
)
def test_other_settings_of_recomputing_are_refused(settings):
    model = small_vit()
    with pytest.raises(UserError, match="leave out the other settings"):
        model.activation_checkpointing_enable(**settings)
    assert not any("forward" in vars(block) for block in model.blocks)
