"""Files of training programs, with more in them than the network."""

from argparse import Namespace

import pytest
import torch
from torch.testing import assert_close

from vitedu import load
from vitedu.compat import import_timm

from ..tiny import tiny
from .examples import (
    assert_same,
    assert_same_function,
    checkpoint,
    images,
    randomise,
)

IMAGENET = (0.485, 0.456, 0.406)
STATE = checkpoint(tiny(image_size=16, num_classes=0)).state_dict


def under(prefix, arrays=STATE):
    return {prefix + name: array for name, array in arrays.items()}


def normed(name):
    """The arrays of a dense layer and a batch norm behind it."""
    ends = {"0.weight": (4, 4), "1.running_mean": (4,)}
    return {f"{name}.{end}": torch.ones(shape) for end, shape in ends.items()}


DINO = normed("head.mlp") | {"head.last_layer.weight_g": torch.ones(4, 1)}
DINOV2 = normed("dino_head.mlp") | normed("ibot_head.mlp")
MOCO = (
    normed("base_encoder.head")
    | normed("predictor")
    | under("momentum_encoder.")
    | normed("momentum_encoder.head")
)
MAE = {
    "mask_token": torch.zeros(1, 1, 16),
    "decoder_embed.weight": torch.zeros(16, 32),
    "decoder_pos_embed": torch.zeros(1, 17, 16),
    "decoder_blocks.0.norm1.weight": torch.zeros(16),
}
KINDS = {
    "DINO's head": ("backbone.", DINO),
    "DINO's head (v2)": ("backbone.", DINOV2),
    "MoCo's heads and the slow copy of its network": ("base_encoder.", MOCO),
    "MAE's decoder, or a token for hidden patches": ("", MAE),
}


@pytest.mark.parametrize("whose", KINDS)
@pytest.mark.parametrize("wrapper", ["", "module.", "model."])
def test_a_network_is_found_among_the_parts_of_its_training(
    tmp_path, whose, wrapper
):
    prefix, others = KINDS[whose]
    arrays = under(wrapper, under(prefix) | others)
    # a name that is said to mean other preprocessing
    path = tmp_path / "vit_tiny_patch16_224.pth"
    torch.save({"model": arrays, "epoch": 3}, path)
    model = load(path, num_heads=4)
    assert_same(STATE, model.state_dict())
    report = model.load_report
    assert set(report.dropped) == others.keys()
    what = whose.removesuffix(" (v2)")
    assert f"arrays left out: {len(others)}, {what}" in report.notes
    assert model.preprocess.mean == IMAGENET


def test_moco_v3_has_twelve_heads(tmp_path):
    sizes = {"embed_dim": 384, "depth": 12, "num_heads": 12, "mlp_dim": 1}
    config = tiny(image_size=8, num_classes=0, **sizes)
    arrays = under("module.base_encoder.", checkpoint(config).state_dict)
    path = tmp_path / "vit-s-300ep.pth.tar"
    arrays |= under("module.", MOCO)
    torch.save({"arch": "vit_small", "state_dict": arrays}, path)
    assert load(path).config.num_heads == 12


def test_of_dinos_two_networks_the_teacher_is_read(tmp_path):
    other = {name: array + 1 for name, array in STATE.items()}
    content = {
        "student": under("module.", under("backbone.", other) | DINO),
        "teacher": under("backbone.") | DINO,
        "optimizer": {"state": {}},
        "args": Namespace(arch="vit_small", patch_size=16),
        "dino_loss": {"center": torch.ones(1, 4)},
    }
    torch.save(content, tmp_path / "checkpoint.pth")
    model = load(tmp_path / "checkpoint.pth", num_heads=4)
    assert_same(STATE, model.state_dict())
    said = "of student and teacher, the teacher was read"
    assert said in model.load_report.notes
    assert (
        "left out of checkpoint.pth: student, optimizer, args, dino_loss"
        in model.load_report.notes
    )


# as torch.hub has them: timm calls some arrays otherwise, and folds the class
# token's position into the token
@pytest.mark.parametrize("gated", [False, True])
def test_dinov2_is_read_as_its_authors_wrote_it(tmp_path, gated):
    timm = import_timm()
    small = {"img_size": 28, "embed_dim": 24, "depth": 2, "num_heads": 3}
    name = "giant" if gated else "small"
    name = f"vit_{name}_patch14_reg4_dinov2"
    theirs = randomise(timm.create_model(name, **small, mlp_ratio=2))
    position = torch.rand(1, 1, 24)
    arrays = theirs.state_dict() | {
        "mask_token": torch.zeros(1, 24),
        "register_tokens": theirs.reg_token,
        "cls_token": theirs.cls_token - position,
        "pos_embed": torch.cat([position, theirs.pos_embed], dim=1),
    }
    del arrays["reg_token"]
    if gated:
        names = {"mlp.fc1": "mlp.w12", "mlp.fc2": "mlp.w3"}
        for timms, authors in names.items():
            arrays = {k.replace(timms, authors): arrays[k] for k in arrays}
    path = tmp_path / "dinov2_vits14_reg4_pretrain.pth"
    torch.save(arrays, path)
    ours = load(path, dtype=torch.float64, num_heads=3)
    assert ours.preprocess.mean == IMAGENET
    x = images(ours.config)
    with torch.no_grad():
        # the position was taken from the token in float32
        assert_close(ours(x), theirs.double()(x), rtol=0, atol=1e-6)


# --- timm's train.py

TRAINED = {
    "model": "vit_tiny_patch16_224",
    "gp": "avg",
    "model_kwargs": {
        "img_size": [32, 48],
        "depth": 2,
        "num_heads": 12,
        "fc_norm": False,
        "act_layer": "gelu_tanh",
    },
    "img_size": None,
    "input_size": [3, 32, 48],
    "mean": [0.1, 0.2, 0.3],
    "std": None,
    "crop_pct": 0.8,
}


def test_a_checkpoint_of_timms_train_py_says_what_it_trained(tmp_path):
    timm = import_timm()
    args = Namespace(**TRAINED)
    theirs = timm.create_model(
        args.model, num_classes=5, global_pool=args.gp, **args.model_kwargs
    )
    saver = timm.utils.CheckpointSaver(
        randomise(theirs),
        torch.optim.SGD(theirs.parameters(), lr=0.1),
        args,
        model_ema=timm.utils.ModelEmaV3(theirs),
        checkpoint_dir=str(tmp_path),
        recovery_dir=str(tmp_path),
    )
    saver.save_checkpoint(0, metric=0.5)
    path = tmp_path / "last.pth.tar"
    ours = load(path, dtype=torch.float64)
    assert_same_function(ours, theirs)
    spec = ours.preprocess
    assert (spec.mean, spec.std) == ((0.1, 0.2, 0.3), (0.5, 0.5, 0.5))
    assert (spec.crop, spec.image_size) == (0.8, (32, 48))
    (note,) = [x for x in ours.load_report.notes if "left out" in x]
    assert "state_dict_ema" in note


def test_arguments_of_another_program_say_nothing(tmp_path):
    args = Namespace(lr=0.1, model="mine")
    content = {"model": STATE, "arch": "vit_small", "args": args}
    torch.save(content, tmp_path / "w.pth")
    with pytest.warns(UserWarning, match="how its pictures are prepared"):
        load(tmp_path / "w.pth", num_heads=4)
