"""torchvision's dialect against torchvision's own module, small and random.

Every tensor is drawn, the scales of norms and all biases too.
"""

import json
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from vitedu import UserError, load
from vitedu.compat import import_torchvision
from vitedu.model import ViTConfig
from vitedu.weights import torchvision as dialect

from .examples import assert_same_function, randomise, write

SMALL = {
    "image_size": 32,
    "patch_size": 8,
    "num_layers": 2,
    "num_heads": 3,
    "hidden_dim": 24,
    "mlp_dim": 60,
    "num_classes": 5,
}
MODELS = ("vit_b_16", "vit_b_32", "vit_l_16", "vit_l_32", "vit_h_14")


@pytest.fixture(scope="module")
def models():
    return import_torchvision().models


def built(models, **changes):
    return randomise(models.VisionTransformer(**SMALL | changes))


def saved(path, arrays):
    torch.save(arrays, path)
    return path


# --- the same function


@pytest.mark.parametrize(
    "changes",
    [{}, {"representation_size": 16}, {"image_size": 48}, {"num_heads": 6}],
    ids=str,
)
def test_a_state_dict_gives_torchvisions_logits(models, tmp_path, changes):
    theirs = built(models, **changes)
    path = saved(tmp_path / "w.pth", theirs.state_dict())
    num_heads = changes.get("num_heads", 3)
    ours = load(path, dtype=torch.float64, num_heads=num_heads)
    assert ours.load_report.dialect == "torchvision"
    assert (ours.config.gelu, ours.config.norm_eps) == ("exact", 1e-6)
    assert_same_function(ours, theirs)


def test_the_names_of_its_own_files_are_read_too(models, tmp_path):
    theirs = built(models)
    arrays = {
        name.replace("mlp.0.", "mlp.linear_1.").replace(
            "mlp.3.", "mlp.linear_2."
        ): x
        for name, x in theirs.state_dict().items()
    }
    assert "encoder.layers.encoder_layer_1.mlp.linear_2.bias" in arrays
    path = saved(tmp_path / "w.pth", arrays)
    ours = load(path, dtype=torch.float64, num_heads=3)
    assert_same_function(ours, theirs)


def test_without_a_head_it_gives_features(models, tmp_path):
    theirs = built(models)
    theirs.heads = torch.nn.Identity()
    path = saved(tmp_path / "w.pth", theirs.state_dict())
    ours = load(path, dtype=torch.float64, num_heads=3)
    assert ours.config.num_classes == 0
    assert_same_function(ours, theirs)


@pytest.mark.parametrize("num_heads", [3, 12])
@pytest.mark.filterwarnings("ignore:.*num_heads=3 is guessed")
def test_table_1_says_the_heads_unless_the_caller_does(
    models, tmp_path, num_heads
):
    sizes = {
        "hidden_dim": 192,
        "num_layers": 12,
        "mlp_dim": 8,
        "image_size": 16,
    }
    theirs = built(models, **sizes, num_heads=num_heads)
    path = saved(tmp_path / "w.pth", theirs.state_dict())
    given = {} if num_heads == 3 else {"num_heads": 12}
    assert_same_function(load(path, dtype=torch.float64, **given), theirs)


def test_heads_that_nobody_says_are_asked_for(models, tmp_path):
    path = saved(tmp_path / "w.pth", built(models).state_dict())
    with pytest.raises(
        UserError, match="width 24 and 2 blocks; give num_heads="
    ):
        load(path)


def test_positions_are_resized_as_torchvision_does(models, tmp_path):
    from torchvision.models.vision_transformer import interpolate_embeddings

    theirs = built(models)
    path = saved(tmp_path / "w.pth", theirs.state_dict())
    ours = load(path, num_heads=3, image_size=48)
    want = interpolate_embeddings(48, 8, theirs.state_dict())
    # torchvision resizes in float32: values of size 1 move by 1e-6
    want = want["encoder.pos_embedding"]
    assert_close(ours.pos_embed, want, rtol=0, atol=1e-5)


# --- preprocessing


def test_the_table_is_that_of_torchvisions_weights(models):
    found = {}
    for name in MODELS:
        for weights in models.get_model_weights(name):
            about = weights.transforms()
            found[Path(weights.url).stem] = (
                about.crop_size[0],
                about.resize_size[0],
                about.interpolation.value,
            )
            assert (tuple(about.mean), tuple(about.std)) == dialect.IMAGENET
    assert found == dialect.PREPROCESS


@pytest.mark.parametrize("name", dialect.PREPROCESS)
def test_a_known_file_is_prepared_as_torchvision_does(name):
    import math

    crop, resized, interpolation = dialect.PREPROCESS[name]
    spec = dialect.preprocess(ViTConfig(image_size=crop, patch_size=1), name)
    assert (spec.image_size, spec.interpolation) == (
        (crop, crop),
        interpolation,
    )
    assert math.floor(crop / spec.crop) == resized
    assert (spec.mean, spec.std) == dialect.IMAGENET


def test_another_name_gets_the_first_of_the_size():
    def crop_of(**fields):
        return dialect.preprocess(ViTConfig(**fields), "my").crop

    large = {"embed_dim": 1024, "depth": 24, "num_heads": 16}
    assert crop_of() == 0.875
    assert crop_of(**large) == 0.9256  # 224 of 242
    assert crop_of(**large, patch_size=32) == 0.875
    assert crop_of(image_size=384) == 1.0
    assert crop_of(image_size=480) == pytest.approx(0.875, abs=1e-3)


def test_a_config_json_of_another_program_beside_it_is_passed_over(tmp_path):
    path = write("torchvision", tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"recipe": "mnist-tiny"}))
    assert load(path, num_heads=4)
