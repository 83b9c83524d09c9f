"""Hugging Face's dialect against transformers' own modules, small and random.

Every tensor is drawn, the scales of norms and all biases too. What needs
transformers itself is slow, for its import takes seconds; the names are tested
without it.
"""

import json
import re

import pytest
import torch
from safetensors.torch import save_file
from torch.testing import assert_close

from vitedu import PreprocessSpec, UserError, load
from vitedu.compat import import_torchvision
from vitedu.model import ViTConfig
from vitedu.weights import Metadata
from vitedu.weights import hf as dialect

from ..tiny import tiny
from .examples import (
    HELD,
    checkpoint,
    example,
    images,
    model_of,
    randomise,
    write,
)

# tokens 3x4, three heads of 8, an MLP that is no multiple of the width
SMALL = {
    "image_size": [24, 32],
    "patch_size": 8,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 60,
}
PICTURES = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 2}
IMAGENET = (0.485, 0.456, 0.406)


@pytest.fixture(scope="module")
def transformers():
    import_torchvision()  # which it imports too, see vitedu.compat
    return pytest.importorskip("transformers")


def built(transformers, kind="ViTForImageClassification", **changes):
    config = transformers.ViTConfig(**{"num_labels": 5} | SMALL | changes)
    return randomise(getattr(transformers, kind)(config))


def put(folder, arrays, config=None, pictures=PICTURES):
    """A folder as transformers writes it."""
    save_file(
        {name: x.clone() for name, x in arrays.items()},
        folder / "model.safetensors",
    )
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    if pictures is not None:
        text = json.dumps(pictures)
        (folder / "preprocessor_config.json").write_text(text)
    return folder


def plain_arrays(**more):
    """The arrays of a small ViT of ours under Hugging Face's names."""
    return dialect.from_vitedu(example("hf")) | more


def ti_arrays():
    """As wide and deep as ViT-Ti, so that Table 1 knows its heads."""
    sizes = {"embed_dim": 192, "depth": 12, "num_heads": 3, "mlp_dim": 8}
    return dialect.from_vitedu(checkpoint(tiny(image_size=16, **sizes)))


# --- the same function


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"image_size": 32},
        {"patch_size": [8, 4]},
        {"num_channels": 1},
        {"hidden_act": "gelu_pytorch_tanh"},
        {"hidden_act": "gelu_new"},
        {"layer_norm_eps": 1e-3},
        {"num_attention_heads": 6},
    ],
    ids=str,
)
@pytest.mark.parametrize("spelling", ["file", "memory"])
def test_both_spellings_give_transformers_logits(
    transformers, tmp_path, spelling, changes
):
    theirs = built(transformers, **changes)
    channels = theirs.config.num_channels
    if spelling == "file":
        theirs.save_pretrained(tmp_path)
        pictures = {"image_mean": [0.5] * channels}
        text = json.dumps(pictures | {"image_std": [0.5] * channels})
        (tmp_path / "preprocessor_config.json").write_text(text)
    else:
        config = theirs.config.to_dict()
        pictures = PICTURES | {"image_mean": 0.5, "image_std": 0.5}
        put(tmp_path, theirs.state_dict(), config, pictures)
    ours = load(tmp_path, dtype=torch.float64)
    assert ours.load_report.dialect == "hf" and not ours.load_report.dropped
    x = images(ours.config)
    with torch.no_grad():
        want = theirs.double()(x).logits
        # float64, sums of at most 192 terms in another order: measured 3e-15
        assert_close(ours(x), want, rtol=0, atol=1e-11)


@pytest.mark.slow
def test_a_vit_model_gives_what_its_pooler_gives(transformers, tmp_path):
    theirs = built(transformers, "ViTModel", pooler_output_size=16)
    put(tmp_path, theirs.state_dict(), theirs.config.to_dict())
    ours = load(tmp_path, dtype=torch.float64)
    assert (ours.config.num_classes, ours.config.pre_logits) == (0, 16)
    x = images(ours.config)
    with torch.no_grad():
        want = theirs.double()(x)
        assert_close(ours(x), want.pooler_output, rtol=0, atol=1e-11)
        tokens = ours.forward_features(x)
    assert_close(tokens, want.last_hidden_state, rtol=0, atol=1e-11)


@pytest.mark.slow
def test_of_a_model_for_hidden_patches_the_rest_is_dropped(
    transformers, tmp_path
):
    kind = "ViTForMaskedImageModeling"
    theirs = built(transformers, kind, encoder_stride=8)
    put(tmp_path, theirs.state_dict(), theirs.config.to_dict())
    ours = load(tmp_path, dtype=torch.float64)
    assert set(ours.load_report.dropped) == {
        "decoder.0.bias",
        "decoder.0.weight",
        "vit.embeddings.mask_token",
    }
    x = images(ours.config)
    with torch.no_grad():
        want = theirs.double().vit(x).last_hidden_state[:, 0]
        assert_close(ours(x), want, rtol=0, atol=1e-11)


@pytest.mark.slow
def test_positions_are_resized_as_transformers_does(transformers, tmp_path):
    theirs = built(transformers, image_size=32)
    put(tmp_path, theirs.state_dict(), theirs.config.to_dict())
    ours = load(tmp_path, image_size=48)
    x = images(ours.config).float()
    with torch.no_grad():
        want = theirs(x, interpolate_pos_encoding=True).logits
        # transformers resizes in float32
        assert_close(ours(x), want, rtol=0, atol=2e-5)


# --- transformers takes what is written


@pytest.mark.slow
@pytest.mark.parametrize("name", HELD["hf"])
def test_transformers_takes_what_is_written(transformers, tmp_path, name):
    before = example("hf", name)
    config, path, keywords = before.config, write("hf", tmp_path, before), {}
    written = json.loads((path / "config.json").read_text())
    (kind,) = written["architectures"]
    assert kind.endswith("Model") != bool(config.num_classes)
    if kind == "ViTModel":
        keywords["add_pooling_layer"] = config.pre_logits is not None
    theirs, report = getattr(transformers, kind).from_pretrained(
        path, output_loading_info=True, **keywords
    )
    # DINOv3 has a token for hidden patches, which training alone needs
    report["missing_keys"].discard("embeddings.mask_token")
    assert not any(report.values()), report
    x = images(config)
    with torch.no_grad():
        answer, want = theirs.double().eval()(x), model_of(before)(x)
    if config.num_classes:
        found = answer.logits
    elif config.pre_logits or kind != "ViTModel":
        found = answer.pooler_output
    else:
        found = answer.last_hidden_state[:, 0]
    # transformers computes DINOv3's angles in float32
    atol = 1e-6 if kind == "DINOv3ViTModel" else 1e-11
    assert_close(found, want, rtol=0, atol=atol)


@pytest.mark.slow
def test_transformers_computes_in_float32_from_a_file_in_float16(
    transformers, tmp_path
):
    before = example("hf")
    half = {name: x.half() for name, x in before.state_dict.items()}
    path = write("hf", tmp_path, before._replace(state_dict=half))
    theirs = transformers.ViTForImageClassification.from_pretrained(path)
    assert theirs.dtype == torch.float32


@pytest.mark.slow
@pytest.mark.parametrize(
    "spec",
    [
        PreprocessSpec(32),
        PreprocessSpec(32, 3, IMAGENET, (0.2, 0.3, 0.4), "bicubic"),
        PreprocessSpec(32, crop=0.875, interpolation="bicubic"),
    ],
    ids=["squash", "bicubic", "crop"],
)
def test_transformers_prepares_pictures_as_vitedu_does(
    transformers, tmp_path, spec
):
    import numpy as np
    from PIL import Image

    from vitedu.pictures import normalise, read_image

    before = checkpoint(tiny(image_size=32), preprocess=spec)
    written = dialect.beside(before)["preprocessor_config.json"]
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(written))
    # pillow's resizing, as vitedu's; torchvision's differs by a grey value
    processor = transformers.models.vit.ViTImageProcessorPil.from_pretrained(
        tmp_path
    )
    # 36x46 after resizing: were a margin odd, the two would cut a pixel apart
    noise = np.random.default_rng(0).integers(0, 255, (50, 64, 3), np.uint8)
    picture = Image.fromarray(noise)
    found = processor(picture, return_tensors="pt")["pixel_values"]
    want = normalise(read_image(picture, spec)[None], spec)
    # float32, a mean and a deviation of one rounding each
    assert_close(found, want, rtol=0, atol=2e-6)


@pytest.mark.slow
def test_names_of_classes_reach_transformers(transformers):
    names = ("crane", "ant", "bee", "crane", "fly")  # two birds and machines
    about = dialect.beside(example("hf", class_names=names))["config.json"]
    theirs = transformers.ViTConfig(**about)
    assert (theirs.num_labels, theirs.id2label[3]) == (5, "crane")


# --- both ways, without transformers


def test_query_key_and_value_are_the_thirds_of_one_matrix_in_this_order():
    arrays, state = plain_arrays(), example("hf").state_dict
    start = "vit.encoder.layer.1.attention.attention"
    thirds = [arrays[f"{start}.{x}.weight"] for x in ("query", "key", "value")]
    assert torch.equal(torch.cat(thirds), state["blocks.1.attn.qkv.weight"])


def test_without_config_json_the_defaults_of_transformers_are_taken(tmp_path):
    with pytest.warns(UserWarning, match="num_heads=3 is guessed"):
        model = load(put(tmp_path, ti_arrays()))
    assert (model.config.norm_eps, model.config.gelu) == (1e-12, "exact")
    assert model.config.num_heads == 3  # Table 1


def test_config_json_says_the_heads_over_table_1(tmp_path):
    arrays = ti_arrays()
    about = {"hidden_size": 192, "num_attention_heads": 12}
    assert load(put(tmp_path, arrays, about)).config.num_heads == 12


# --- preprocessing


def preprocess(**written):
    config = ViTConfig(image_size=224)
    return dialect.preprocess(config, Metadata(preprocessor=written))


def test_no_preprocessor_config_is_warned_of_with_both_numbers():
    spec, (doubt,) = preprocess()
    assert re.search(r"std 0\.5 are assumed.*0\.485", doubt)
    assert spec == PreprocessSpec()


@pytest.mark.parametrize(
    "size", [224, [224, 224], {"height": 224, "width": 224}]
)
def test_a_size_is_read_in_all_its_spellings(size):
    spec, _ = preprocess(size=size, image_mean=[0.1, 0.2, 0.3])
    assert spec == PreprocessSpec(224, mean=(0.1, 0.2, 0.3))


def test_no_normalisation_is_mean_0_and_deviation_1():
    spec, _ = preprocess(do_normalize=False, image_mean=[0.1] * 3)
    assert (spec.mean, spec.std) == ((0.0,) * 3, (1.0,) * 3)


@pytest.mark.parametrize(
    "about, what",
    [
        ({"resample": 1}, "resample=1"),
        ({"rescale_factor": 1.0}, "rescale_factor=1.0"),
        ({"do_resize": False}, "do_resize=False"),
        ({"size": {"shortest_edge": 256}}, "do_center_crop=None with size="),
        (
            {"size": 256, "do_center_crop": True, "crop_size": 224},
            "do_center_crop=True with size=256",
        ),
        (
            {
                "size": {"shortest_edge": 200},
                "do_center_crop": True,
                "crop_size": 224,
            },
            "crop_size=224",
        ),
    ],
)
def test_preprocessing_that_vitedu_cannot_do_is_said(about, what):
    _, (doubt,) = preprocess(**about)
    said = f"preprocessor_config.json says {what}.*which vitedu cannot do"
    assert re.search(said, doubt)


# as in the files of OpenAI's CLIP and of DINOv2
@pytest.mark.parametrize(
    "processor",
    [
        {"feature_extractor_type": "CLIPFeatureExtractor", "size": 224},
        {"image_processor_type": "CLIPImageProcessor", "size": 256},
        {
            "image_processor_type": "BitImageProcessor",
            "size": {"shortest_edge": 256},
            "crop_size": {"height": 224, "width": 224},
        },
    ],
)
def test_a_crop_from_a_short_side_is_read(processor):
    usual = {"do_center_crop": True, "crop_size": 224, "resample": 3}
    spec, doubts = preprocess(**usual | processor)
    assert doubts == () and spec.interpolation == "bicubic"
    assert spec.crop == (1.0 if processor["size"] == 224 else 0.875)


@pytest.mark.parametrize(
    ("kind", "mean", "crop"),
    [
        ("clip", 0.48145466, 1.0),
        ("siglip", 0.5, None),
        ("dinov2", 0.485, 0.875),
    ],
)
def test_without_a_file_a_family_has_its_usual_preprocessing(kind, mean, crop):
    spec, (doubt,) = dialect.preprocess(ViTConfig(), Metadata(), kind)
    assert (spec.mean[0], spec.crop) == (mean, crop)
    assert f"mean {spec.mean}" in doubt


# --- refused in a sentence


def test_a_pooler_below_a_head_is_refused(tmp_path):
    start = "vit.pooler.dense"
    kernel, bias = torch.zeros(32, 32), torch.zeros(32)
    arrays = plain_arrays(**{f"{start}.weight": kernel, f"{start}.bias": bias})
    with pytest.raises(UserError, match="which its head does not see"):
        load(put(tmp_path, arrays), num_heads=4)


@pytest.mark.parametrize(
    "about, sentence",
    [
        ({"hidden_act": "relu"}, "hidden_act='relu'"),
        ({"hidden_act": ["gelu"]}, "hidden_act="),
        ({"hidden_size": 33}, "says embed_dim=33, its arrays 32"),
        ({"num_hidden_layers": 3}, "says depth=3, its arrays 2"),
        ({"num_attention_heads": 5}, "5 heads"),
        ({"num_attention_heads": "3"}, "num_heads must be"),
        ({"layer_norm_eps": "small"}, "norm_eps"),
        ({"image_size": {"height": 32}}, "image_size"),
    ],
    ids=str,
)
def test_a_config_json_that_does_not_fit_is_refused(tmp_path, about, sentence):
    about = {"hidden_size": 32, "num_attention_heads": 4} | about
    with pytest.raises(UserError, match=sentence):
        load(put(tmp_path, plain_arrays(), about))
