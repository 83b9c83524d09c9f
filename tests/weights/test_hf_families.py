"""MAE, DINOv2 and 3, CLIP and SigLIP of transformers, small and random."""

import json

import pytest
import torch
from safetensors.torch import save_file
from torch.testing import assert_close

from vitedu import UserError, load, save
from vitedu.compat import import_torchvision
from vitedu.weights import convert

from .examples import images, randomise

pytestmark = pytest.mark.slow  # transformers takes seconds to import

SMALL = {
    "image_size": 32,
    "patch_size": 8,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,  # of 12, which RoPE divides by 4
    "intermediate_size": 48,
}
TEXT = {x: SMALL[x] for x in SMALL if "size" not in x} | {
    "hidden_size": 24,
    "intermediate_size": 48,
    "vocab_size": 20,
}
DECODER = {
    "decoder_hidden_size": 16,
    "decoder_num_hidden_layers": 1,
    "decoder_intermediate_size": 8,
    "decoder_num_attention_heads": 2,
}
PICTURES = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 3}

V3 = {"num_register_tokens": 3}
# class: its configuration's class and fields, and which output is ours
MODELS = {
    "Dinov2Model": ("Dinov2Config", {"mlp_ratio": 2}, "pooler_output"),
    "Dinov2Model, gated": (
        "Dinov2Config",
        {"mlp_ratio": 2, "use_swiglu_ffn": True},
        "pooler_output",
    ),
    "Dinov2Model, without a bias": (
        "Dinov2Config",
        {"mlp_ratio": 2, "qkv_bias": False},
        "pooler_output",
    ),
    "Dinov2WithRegistersModel": (
        "Dinov2WithRegistersConfig",
        {"mlp_ratio": 2, "num_register_tokens": 3},
        "pooler_output",
    ),
    "DINOv3ViTModel": (
        "DINOv3ViTConfig",
        V3 | {"image_size": [24, 40]},
        "pooler_output",
    ),
    "DINOv3ViTModel, plus": (
        "DINOv3ViTConfig",
        V3 | {"use_gated_mlp": True, "hidden_act": "silu", "rope_theta": 50.0},
        "pooler_output",
    ),
    "DINOv3ViTModel, with all biases": (
        "DINOv3ViTConfig",
        V3 | {"key_bias": True},
        "pooler_output",
    ),
    "CLIPVisionModel": ("CLIPVisionConfig", {}, "pooler_output"),
    "CLIPVisionModel, exact": (
        "CLIPVisionConfig",
        {"hidden_act": "gelu"},
        "pooler_output",
    ),
    "CLIPVisionModelWithProjection": (
        "CLIPVisionConfig",
        {"projection_dim": 7},
        "image_embeds",
    ),
    "SiglipVisionModel": ("SiglipVisionConfig", {}, "pooler_output"),
    "SiglipForImageClassification": (
        "SiglipConfig",
        {"num_labels": 5},
        "logits",
    ),
}


@pytest.fixture(scope="module")
def transformers():
    import_torchvision()  # which it imports too, see vitedu.compat
    return pytest.importorskip("transformers")


def built(transformers, name):
    kind, fields, _ = MODELS[name]
    settings = SMALL | fields
    if "mlp_ratio" in fields:
        del settings["intermediate_size"]
    if kind in ("CLIPConfig", "SiglipConfig"):
        settings = {"vision_config": SMALL, "text_config": TEXT} | fields
    config = getattr(transformers, kind)(**settings)
    model = getattr(transformers, name.partition(",")[0])(config)
    return randomise(model)


def saved(model, folder, spelling="file"):
    model.save_pretrained(folder)
    if spelling == "memory":
        arrays = {k: x.clone() for k, x in model.state_dict().items()}
        save_file(arrays, folder / "model.safetensors")
    text = json.dumps(PICTURES)
    (folder / "preprocessor_config.json").write_text(text)
    return folder


def assert_close_to(theirs, ours, answer):
    x = images(ours.config)
    with torch.no_grad():
        want = getattr(theirs.double()(x), answer)
        # float64, sums of at most 192 terms in another order; transformers
        # computes DINOv3's angles in float32
        atol = 1e-6 if "DINOv3" in type(theirs).__name__ else 1e-11
        assert_close(ours.double()(x), want, rtol=1e-10, atol=atol)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("spelling", ["file", "memory"])
def test_the_answers_are_transformers_and_go_back(
    transformers, tmp_path, name, spelling
):
    theirs, answer = built(transformers, name), MODELS[name][2]
    if "gated" in name and spelling == "memory":
        pytest.skip("written in two matrices in no file")
    folder = saved(theirs, tmp_path / "theirs", spelling)
    ours = load(folder, dtype=torch.float64)
    assert ours.load_report.dialect == "hf"
    assert_close_to(theirs, ours, answer)
    # and back
    done = convert(folder, tmp_path / "again", to="hf")
    assert not [note for note in done.notes if "no place" in note]
    again, report = type(theirs).from_pretrained(
        tmp_path / "again", output_loading_info=True
    )
    assert not report["unexpected_keys"] and not report["mismatched_keys"]
    assert all("mask_token" in x for x in report["missing_keys"])
    x = images(ours.config)
    with torch.no_grad():
        want = getattr(theirs.double()(x), answer)
        assert_close(getattr(again.double()(x), answer), want)


# --- larger models around the image's encoder


def whole(transformers, name):
    if name == "ViTMAEForPreTraining":
        config = transformers.ViTMAEConfig(**SMALL, **DECODER)
    else:
        kind = getattr(transformers, name.replace("Model", "Config"))
        config = kind(vision_config=SMALL, text_config=TEXT, projection_dim=7)
    return randomise(getattr(transformers, name)(config))


@pytest.mark.parametrize("name", ["CLIPModel", "SiglipModel"])
def test_of_images_and_texts_the_images_are_read(transformers, tmp_path, name):
    theirs = whole(transformers, name)
    ours = load(saved(theirs, tmp_path), dtype=torch.float64)
    dropped = ours.load_report.dropped
    assert all("text" in x or "logit_" in x for x in dropped)
    assert f"arrays left out: {len(dropped)}, the tower for texts" in (
        ours.load_report.notes
    )
    x = images(ours.config)
    with torch.no_grad():
        want = theirs.double().get_image_features(x).pooler_output
        assert_close(ours(x), want, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("spelling", ["file", "memory"])
def test_of_mae_the_encoder_is_read(transformers, tmp_path, spelling):
    theirs = whole(transformers, "ViTMAEForPreTraining")
    folder = saved(theirs, tmp_path, spelling)
    (folder / "preprocessor_config.json").unlink()
    ours = load(folder, dtype=torch.float64)
    assert ours.preprocess.mean == (0.485, 0.456, 0.406)
    x = images(ours.config)
    encoder = theirs.double().vit
    encoder.config.mask_ratio = 0.0
    order = torch.arange(16.0).expand(2, 16)
    with torch.no_grad():
        want = encoder(x, noise=order).last_hidden_state
        tokens = ours.forward_features(x)
    assert_close(tokens, want, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("name", ["Dinov2", "CLIP"])
def test_a_classifier_that_reads_more_is_left_out(transformers, tmp_path, name):
    fields = {"vision_config": SMALL, "text_config": TEXT}
    if name == "Dinov2":
        fields = {k: v for k, v in SMALL.items() if k != "intermediate_size"}
    config = getattr(transformers, f"{name}Config")(**fields, num_labels=5)
    theirs = getattr(transformers, f"{name}ForImageClassification")(config)
    folder = saved(randomise(theirs), tmp_path)
    with pytest.warns(UserWarning, match="the mean of the patches .* left out"):
        ours = load(folder, dtype=torch.float64)
    gone = {"classifier.weight", "classifier.bias"}
    assert gone <= {*ours.load_report.dropped}
    encoder = theirs.dinov2 if name == "Dinov2" else theirs.vision_model
    assert_close_to(encoder, ours, "pooler_output")


def test_what_an_old_config_json_leaves_out_is_usual(transformers, tmp_path):
    theirs = built(transformers, "SiglipVisionModel")
    folder = saved(theirs, tmp_path)
    config = {"vision_config": {"model_type": "siglip_vision_model"}}
    (folder / "config.json").write_text(json.dumps(config))
    config = load(folder).config
    assert (config.num_heads, config.gelu) == (12, "tanh")
    (folder / "config.json").unlink()
    with pytest.raises(UserError, match="number of heads"):
        load(folder)


def test_a_gelu_that_nothing_says_is_warned_of(transformers, tmp_path):
    folder = saved(built(transformers, "CLIPVisionModel"), tmp_path)
    (folder / "config.json").unlink()
    with pytest.warns(UserWarning, match="the quick one is assumed"):
        assert load(folder, num_heads=2).config.gelu == "quick"


# --- what it has no place for


@pytest.mark.parametrize("name", ["registers", "projection"])
def test_what_a_training_has_changed_may_have_no_place(
    transformers, tmp_path, name
):
    kind = {
        "registers": "Dinov2WithRegistersModel",
        "projection": "CLIPVisionModelWithProjection",
    }[name]
    model = load(saved(built(transformers, kind), tmp_path / "theirs"))
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.01
    save(model, tmp_path / "trained.safetensors")
    said = "positions of registers|a bias in its head"
    with pytest.raises(UserError, match=f"has no place for ({said})"):
        convert(tmp_path / "trained.safetensors", tmp_path / "again", to="hf")
