"""Small checkpoints in every dialect, which the tests of weights share."""

import json

import numpy as np
import torch
from safetensors.torch import save_file
from torch.testing import assert_close

from vitedu.model import (
    Hybrid,
    Learned1D,
    NoPosition,
    Patches,
    ResNetConfig,
    RoPE,
    SinCos2D,
    Standard,
    new_network,
)
from vitedu.pictures import PreprocessSpec
from vitedu.weights import DIALECTS, Checkpoint, Metadata, write_weights
from vitedu.weights.convert import write_file, write_folder

from ..tiny import tiny
from ..train.runs import sentence

SQUARE = tiny(image_size=16)  # 4x4 patches of 4: what every dialect can say
GOOGLES = tiny(image_size=16, gelu="tanh")
TRANSFORMERS = tiny(image_size=16, norm_eps=1e-12)
FLAT = {"class_token": False, "pool": "mean"}
CLIP = {"stem": Patches(bias=False, norm=True)}
NO_SQUARE = {"image_size": (24, 40), "patch_size": (8, 4), "in_channels": 1}
BIT = ResNetConfig(layers=(1, 2), width=0.5, num_classes=5, pool_padding="-inf")


def refused(call, source, **options):
    """The one sentence with which a file is refused, and which names it."""
    said = sentence(call, source, **options)
    assert str(source) in said
    return said


def others(config, **changes):
    """The configuration with other fields, by name."""
    return {
        name: type(config)(**vars(config) | x) for name, x in changes.items()
    }


# What each dialect can hold, the usual first.
HELD = {
    "vitedu": {
        "plain": SQUARE,
        "bit": BIT,
        **others(SQUARE, mean=FLAT, rectangles=NO_SQUARE),
    },
    "npz": {
        "plain": GOOGLES,
        **others(
            GOOGLES,
            pre_logits={"pre_logits": 7},
            no_head={"num_classes": 0},
            mean=FLAT,
            map={"class_token": False, "pool": "map"},
            map_with_token={"pool": "map"},
            sines=FLAT | {"position": SinCos2D()},
            sines_with_token={"position": SinCos2D()},
            rectangles=NO_SQUARE,
            root={"stem": Hybrid(()), "patch_size": 1},
            hybrid={
                "stem": Hybrid((1, 2), width=0.5),
                "patch_size": 1,
                "image_size": 32,
            },
        ),
        "bit": BIT,
        **others(
            BIT,
            bit_with_zeros={"pool_padding": "zeros"},
            bit_without_head={"num_classes": 0},
            bit_v1={"family": "bit-v1"},
        ),
    },
    "hf": {
        "plain": TRANSFORMERS,
        **others(
            TRANSFORMERS,
            tanh={"gelu": "tanh", "norm_eps": 1e-6},
            rectangles=NO_SQUARE,
            no_head={"num_classes": 0},
            pooler={"num_classes": 0, "pre_logits": 16},
            dinov2={"block": Standard(layer_scale=0.1), "mlp_dim": 64},
            dinov2_giant={
                "block": Standard(layer_scale=0.1, swiglu=True),
                "mlp_dim": 88,
                "num_classes": 0,
            },
            clip=CLIP | {"gelu": "quick", "num_classes": 0},
            siglip={"class_token": False, "pool": "map", "num_classes": 0},
            dinov3={
                "block": Standard(layer_scale=0.1),
                "position": RoPE(unit=True),
                "norm_eps": 1e-5,
                "registers": 2,
                "num_classes": 0,
            },
            siglip_with_head=FLAT | {"gelu": "tanh"},
        ),
    },
    "torchvision": {
        "plain": SQUARE,
        **others(SQUARE, pre_logits={"pre_logits": 16}),
    },
    "timm": {
        "plain": SQUARE,
        **others(
            SQUARE,
            mean=FLAT | {"gelu": "tanh"},
            mean_beside_token={"pool": "mean"},
            map={"class_token": False, "pool": "map"},
            none={"pool": "none"},
            no_head={"num_classes": 0},
            rectangles=NO_SQUARE,
            no_positions={"position": NoPosition()},
            registers={"registers": 4},
            layer_scale={"block": Standard(layer_scale=0.1)},
            q_k_norm={"block": Standard(qk_norm=True, qkv_bias=False)},
            swiglu={"block": Standard(swiglu=True)},
            clip={"stem": Patches(bias=False, norm=True), "gelu": "quick"},
            norm_of_the_mean={"pool": "mean_norm"},
            clips_epsilon={"norm_eps": 1e-5},
            rope={"position": RoPE(), "block": Standard(layer_scale=0.1)},
            rope_of_rows=FLAT
            | {
                "pool": "mean_norm",
                "registers": 2,
                "position": RoPE(50.0, rows_first=True, across=16),
                "block": Standard(qkv_bias=False, qk_norm=True),
            },
            dinov3={
                "norm_eps": 1e-5,
                "registers": 4,
                "position": RoPE(unit=True),
                "block": Standard(layer_scale=1e-5, swiglu=True),
            },
            no_prefix_rows={
                "position": Learned1D(prefix=False),
                "registers": 4,
            },
            # 21 * (51 / 21) is a little less than 51
            odd_mlp={"embed_dim": 21, "num_heads": 3, "mlp_dim": 51},
        ),
    },
}
CASES = [(to, name) for to, held in HELD.items() for name in held]


def randomise(model, seed=0):
    """Every tensor drawn, at a size that keeps the activations near 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            draw = torch.randn(weight.shape, generator=generator)
            fan_in = weight[0].numel() if weight.ndim > 1 else 4
            weight.copy_(draw * fan_in**-0.5 + (weight.ndim == 1) * 0.5)
    return model.eval()


def checkpoint(config=SQUARE, **fields):
    """A checkpoint with a number in every place; `fields` are its others."""
    state = dict(randomise(new_network(config)).state_dict())
    spec = PreprocessSpec(config.image_size, config.in_channels)
    return Checkpoint(
        **{"config": config, "state_dict": state, "preprocess": spec} | fields
    )


def example(to, name="plain", **fields):
    return checkpoint(HELD[to][name], **fields)


def beside(to, stored):
    """The JSON that a reader finds beside the arrays."""
    write = getattr(DIALECTS[to], "beside", lambda _: {})
    return json.loads(json.dumps(write(stored)))


def metadata(to, stored, **answers):
    """What a reader knows beside the arrays."""
    if to == "vitedu":
        return Metadata(header=DIALECTS[to].header_of(stored))
    files = beside(to, stored)
    return Metadata(
        config=files.get("config.json", {}),
        preprocessor=files.get("preprocessor_config.json", {}),
        **answers,
    )


def answers(to, config):
    """What the caller has to say of such a file."""
    if to == "torchvision":
        return {"num_heads": config.num_heads}
    return {"image_size": config.image_size} if to == "npz" else {}


def write(to, folder, stored=None, **arrays):
    """The path of a file or folder of that dialect; `arrays` in it besides.

    None in place of an array leaves it out.
    """
    stored = stored or example(to)
    if to == "vitedu":
        path = folder / "w.safetensors"
        state = changed(stored.state_dict, arrays)
        write_weights(path, stored._replace(state_dict=state))
        return path
    written = changed(DIALECTS[to].from_vitedu(stored), arrays)
    suffixes = DIALECTS[to].SUFFIXES
    path = folder / ("w" + suffixes[0] if suffixes else to)
    if suffixes:
        write_file(path, written)
    else:
        write_folder(path, written, beside(to, stored))
    return path


def changed(arrays, more):
    return {k: v for k, v in (arrays | more).items() if v is not None}


def model_of(stored):
    """Our model of a checkpoint, in float64."""
    model = new_network(stored.config)
    model.load_state_dict(stored.state_dict)
    return model.double().eval()


def with_exact_rope(theirs):
    """timm's Eva in float64, with speeds that aren't rounded to float32."""
    theirs, rope = theirs.double().eval(), getattr(theirs, "rope", None)
    if hasattr(rope, "bands"):
        k = rope.bands.numel()
        rope.bands = rope.temperature ** -(torch.arange(k).double() / k)
        rope._update_cached_embed(rope.feat_shape, rope.bands)
    if hasattr(rope, "periods"):
        k = rope.periods.numel()
        rope.periods = rope.temperature ** (torch.arange(k).double() / k)
    return theirs


def images(config):
    generator = torch.Generator().manual_seed(1)
    shape = (2, config.in_channels, *config.image_size)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def assert_same(first, second):
    """Two sets of arrays, bit by bit."""
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert second[name].dtype == array.dtype
        assert torch.equal(second[name], array), name


def assert_same_function(ours, theirs):
    """Logits of both in float64, from the float32 numbers in the file."""
    x = images(ours.config)
    with torch.no_grad():
        want = theirs.double()(x)
        want = getattr(want, "logits", want)  # as transformers gives them
        # float64, sums of at most 192 terms in another order: measured 4e-15
        assert_close(ours(x), want, rtol=0, atol=1e-11)


# --- the same arrays in every kind of file

INDEX = "model.safetensors.index.json"


def save_npz(arrays, path):
    named = {}
    for name, array in arrays.items():
        is_bfloat16 = array.dtype == torch.bfloat16
        bits = array.view(torch.int16) if is_bfloat16 else array
        named[name] = bits.numpy().view("V2") if is_bfloat16 else bits.numpy()
    np.savez(path, **named)


def save_old_torch(arrays, path):
    torch.save(arrays, path, _use_new_zipfile_serialization=False)


def save_shards(arrays, path):
    names = list(arrays)
    half, places = len(names) // 2, {}
    for i, part in enumerate((names[:half], names[half:])):
        file = f"part{i}.safetensors"
        save_file({key: arrays[key] for key in part}, path.parent / file)
        places |= dict.fromkeys(part, file)
    path.write_text(json.dumps({"weight_map": places}))


CONTAINERS = {
    "w.npz": save_npz,
    "w.safetensors": save_file,
    "w.pth": torch.save,
    "old.pth": save_old_torch,
    INDEX: save_shards,
}
