"""Hugging Face's dialect: the ViT of transformers, under both of its spellings.

Files carry the older one, `vit.encoder.layer.0.attention.attention.query`, which every
version reads; in memory transformers 5 says `vit.layers.0.attention.q_proj`. A ViTModel
alone has no `vit.` in front, and its pooler is our pre-logits layer without a head.
What the arrays cannot say stands in config.json and preprocessor_config.json.

`load("google/vit-base-patch16-224")`
"""

import math
import re
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor

from vitedu.errors import UserError
from vitedu.model import Patches, Standard, ViTConfig
from vitedu.model.checks import pair
from vitedu.model.position import Learned1D
from vitedu.model.resnet import ResNetConfig
from vitedu.pictures import PreprocessSpec
from vitedu.weights.rows import Row, to_ours, to_theirs
from vitedu.weights.sizes import (
    Names,
    check_holds,
    crop_share,
    sizes_in,
)

RESIZE = "hf"

# what it calls the two GELUs; the first is written
GELUS = {
    "exact": ("gelu", "gelu_python"),
    "tanh": ("gelu_pytorch_tanh", "gelu_new", "gelu_fast", "gelu_accurate"),
}
EPS = 1e-12  # where config.json says none
RESAMPLE = {2: "bilinear", 3: "bicubic"}  # pillow's numbers
# parts of its other models: a decoder, the token that is put for a hidden patch
OTHERS = re.compile(r"decoder\.|(vit\.)?embeddings\.mask_token$")


class Spelling(NamedTuple):
    """What the parts of a block are called."""

    block: str
    query: str
    key: str
    value: str
    out: str
    fc1: str
    fc2: str


FILE = Spelling(
    "encoder.layer",
    "attention.attention.query",
    "attention.attention.key",
    "attention.attention.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)
MEMORY = Spelling(
    "layers",
    *(f"attention.{x}_proj" for x in "qkvo"),
    "mlp.fc1",
    "mlp.fc2",
)


def recognises(arrays: dict[str, Tensor]) -> bool:
    """Whether it has patches and blocks under one of the two spellings."""
    return spelling_of(arrays) is not None


def spelling_of(arrays: dict[str, Tensor]) -> tuple[str, Spelling] | None:
    """What stands before all names, and how the blocks are spelt."""
    for prefix in ("vit.", "", "deit."):
        patches = f"{prefix}embeddings.patch_embeddings.projection.weight"
        for spelling in (FILE, MEMORY):
            query = f"{prefix}{spelling.block}.0.{spelling.query}.weight"
            if {patches, query} <= arrays.keys():
                return prefix, spelling
    return None


def dropped(arrays: dict[str, Tensor], hints: dict[str, Any]) -> list[str]:
    """The names of what its models for hidden patches have besides."""
    return [name for name in arrays if OTHERS.match(name)]


def config_of(hints: dict[str, Any]) -> dict[str, Any]:
    """The config.json among the hints if it is Hugging Face's, else {}."""
    config = hints.get("config") or {}
    return config if "hidden_size" in config else {}


def to_vitedu(
    arrays: dict[str, Tensor], hints: dict[str, Any]
) -> tuple[ViTConfig, dict[str, Tensor]]:
    """Configuration and state_dict of a file.

    Without a config.json, GELU is exact and epsilon 1e-12, as by default.
    UserError: something must be asked for, is missing or left over, or ours cannot be
    that network.
    """
    arrays = {k: v for k, v in arrays.items() if not OTHERS.match(k)}
    prefix, spelling = spelling_of(arrays) or ("vit.", FILE)
    if f"{prefix}embeddings.distillation_token" in arrays:
        raise UserError(
            "it has a distillation token and a head for it; take the DeiT that was "
            "trained without, vitedu's network has no place for them"
        )
    names = Names(
        patches=f"{prefix}embeddings.patch_embeddings.projection.weight",
        class_token=f"{prefix}embeddings.cls_token",
        positions=f"{prefix}embeddings.position_embeddings",
        block=re.escape(f"{prefix}{spelling.block}.") + r"(\d{1,4})\.",
        mlp=f"{prefix}{spelling.block}.0.{spelling.fc1}.weight",
        head="classifier.weight",
        pre_logits=f"{prefix}pooler.dense.weight",
    )
    about = config_of(hints)
    said = said_by(about)
    sizes = sizes_in(arrays, names, said=said, hints=hints, class_token=True)
    if sizes["pre_logits"] and sizes["num_classes"]:
        # its classifier stands on the class token, beside the pooler
        raise UserError(
            f"it has a head and {names.pre_logits!r}, which its head does not see; "
            "take the pooler away"
        )
    if about.get("pooler_act", "tanh") != "tanh" and sizes["pre_logits"]:
        raise UserError(
            f"its pooler ends in {about['pooler_act']!r}, vitedu's pre-logits in tanh"
        )
    config = ViTConfig(
        **sizes, gelu=said["gelu"], norm_eps=said.get("norm_eps", EPS)
    )
    rows = rows_in(config, prefix, spelling)
    return config, to_ours(rows, arrays, config.num_heads)


def said_by(about: dict[str, Any]) -> dict[str, Any]:
    """A config.json of Hugging Face in our terms. UserError: another activation."""
    ours = {
        "hidden_size": "embed_dim",
        "num_hidden_layers": "depth",
        "intermediate_size": "mlp_dim",
        "num_attention_heads": "num_heads",
        "image_size": "image_size",
        "layer_norm_eps": "norm_eps",
    }
    said = {ours[name]: about[name] for name in ours if name in about}
    activation = about.get("hidden_act", "gelu")
    for gelu, names in GELUS.items():
        if activation in names:
            return said | {"gelu": gelu}
    raise UserError(
        f"its config.json says hidden_act={activation!r}, which vitedu's network does "
        "not have; known: " + ", ".join(sum(GELUS.values(), ()))
    )


def rows_in(
    config: ViTConfig, prefix: str, spelling: Spelling
) -> Iterator[Row]:
    """Our names beside Hugging Face's; q, k and v are one matrix in ours."""

    def both(ours: str, *theirs: str) -> Iterator[Row]:
        for end in ("weight", "bias"):
            names = tuple(f"{name}.{end}" for name in theirs)
            yield Row(f"{ours}.{end}", names, "same")

    first = f"{prefix}embeddings"
    yield Row("cls_token", (f"{first}.cls_token",), "same")
    yield Row("pos_embed", (f"{first}.position_embeddings",), "same")
    yield from both("patch_embed.proj", f"{first}.patch_embeddings.projection")
    for i in range(config.depth):
        ours, theirs = f"blocks.{i}", f"{prefix}{spelling.block}.{i}"
        qkv = (spelling.query, spelling.key, spelling.value)
        yield from both(f"{ours}.norm1", f"{theirs}.layernorm_before")
        yield from both(f"{ours}.attn.qkv", *(f"{theirs}.{x}" for x in qkv))
        yield from both(f"{ours}.attn.proj", f"{theirs}.{spelling.out}")
        yield from both(f"{ours}.norm2", f"{theirs}.layernorm_after")
        yield from both(f"{ours}.mlp.fc1", f"{theirs}.{spelling.fc1}")
        yield from both(f"{ours}.mlp.fc2", f"{theirs}.{spelling.fc2}")
    yield from both("norm", f"{prefix}layernorm")
    if config.pre_logits:
        yield from both("pre_logits.fc", f"{prefix}pooler.dense")
    if config.num_classes:
        yield from both("head", "classifier")


def from_vitedu(
    config: ViTConfig | ResNetConfig, state_dict: dict[str, Tensor]
) -> dict[str, Tensor]:
    """The arrays as transformers stores them: with a head those of
    ViTForImageClassification, without one those of ViTModel.

    UserError: its ViT cannot be this network.
    """
    check_writable(config)
    prefix = "vit." if config.num_classes else ""
    return to_theirs(rows_in(config, prefix, FILE), state_dict, num_heads=0)


def check_writable(config: ViTConfig | ResNetConfig) -> None:
    """UserError unless the ViT of transformers can be this network."""
    owner = "Hugging Face's ViT"
    check_holds(owner, {"a ResNet": isinstance(config, ResNetConfig)})
    check_holds(
        owner,
        {
            f"stem={config.stem}": config.stem != Patches(),
            f"block={config.block}": config.block != Standard(),
            f"position={config.position}": config.position != Learned1D(),
            f"pool={config.pool!r}": config.pool != "token",
            "a pre-logits layer below a head": bool(
                config.pre_logits and config.num_classes
            ),
        },
    )


def class_names(config: ViTConfig, hints: dict[str, Any]) -> tuple[str, ...]:
    """The names in config.json, unless they are but LABEL_0, LABEL_1, ..."""
    names = config_of(hints).get("id2label")
    keys = [str(i) for i in range(config.num_classes)]
    if not isinstance(names, dict) or {*names} != {*keys}:
        return ()
    found = tuple(str(names[key]) for key in keys)
    return () if found == default_names(config) else found


def default_names(config: ViTConfig) -> tuple[str, ...]:
    """What transformers calls classes that have no names."""
    return tuple(f"LABEL_{i}" for i in range(config.num_classes))


def preprocess(config: ViTConfig, hints: dict[str, Any]) -> PreprocessSpec:
    """What preprocessor_config.json says.

    Without one that of ViTImageProcessor by default, with a warning: resized straight
    to size, bilinear, range -1..1.
    """
    about = hints.get("preprocessor")
    if about is None:
        warnings.warn(
            "no preprocessor_config.json says how its pictures are prepared; mean and "
            "std 0.5 are taken, as of Google's ViTs, where DeiT, DINO and MAE want "
            "(0.485, 0.456, 0.406) and (0.229, 0.224, 0.225)",
            stacklevel=4,
        )
        return PreprocessSpec(config.image_size, config.in_channels)
    spec, not_held = spec_of(about, config)
    if not_held:
        warnings.warn(
            f"its preprocessor_config.json says {'; '.join(not_held)}",
            stacklevel=4,
        )
    return spec


def spec_of(
    about: dict[str, Any], config: ViTConfig
) -> tuple[PreprocessSpec, list[str]]:
    """A preprocessor_config.json as a PreprocessSpec, and what that cannot hold."""
    size = sides_of(about.get("size"), config.image_size)
    not_held, crop, kept = [], None, size
    if not about.get("do_resize", True):
        not_held.append("do_resize=false, vitedu resizes all the same")
    elif about.get("do_center_crop"):
        kept = sides_of(about.get("crop_size"), config.image_size)
        crop = crop_share(min(kept), min(size))
        if not is_shortest_edge(about.get("size")):
            not_held.append(
                f"a squash to {size} before the crop, vitedu keeps the aspect"
            )
        if crop > 1 or kept[0] != kept[1]:
            not_held.append(
                f"a crop of {kept} out of {min(size)}, vitedu resizes to that"
            )
            crop = None
    elif is_shortest_edge(about.get("size")):
        not_held.append("no crop to the model's size, vitedu resizes to that")
    resample = about.get("resample", 2)
    interpolation = "bicubic"
    if isinstance(resample, int) and resample in RESAMPLE:
        interpolation = RESAMPLE[resample]
    else:
        not_held.append(f"resample={resample!r}, vitedu takes bicubic")
    if about.get("rescale_factor", 1 / 255) != 1 / 255 or not about.get(
        "do_rescale", True
    ):
        not_held.append("another rescale_factor than 1/255, which vitedu takes")
    mean, std = about.get("image_mean", 0.5), about.get("image_std", 0.5)
    if not about.get("do_normalize", True):
        mean, std = 0.0, 1.0
    return PreprocessSpec(
        kept, config.in_channels, mean, std, interpolation, crop
    ), not_held


def is_shortest_edge(size: Any) -> bool:
    """Whether a size is that of the short side alone."""
    return isinstance(size, dict) and "shortest_edge" in size


def sides_of(size: Any, otherwise: tuple[int, int]) -> tuple[int, int]:
    """Height and width of a size as preprocessor_config.json spells it."""
    if isinstance(size, dict):
        edge = size.get("shortest_edge")
        size = (size.get("height", edge), size.get("width", edge))
    if size is None:
        return otherwise
    return pair("a size in its preprocessor_config.json", size)


def beside(
    config: ViTConfig, spec: PreprocessSpec, names: tuple[str, ...]
) -> dict[str, dict[str, Any]]:
    """config.json and preprocessor_config.json."""
    labels = names or default_names(config)
    (p, q), (height, width) = config.patch_size, config.image_size
    model = {
        "architectures": [
            "ViTForImageClassification" if config.num_classes else "ViTModel"
        ],
        "model_type": "vit",
        "hidden_size": config.embed_dim,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.mlp_dim,
        "hidden_act": GELUS[config.gelu][0],
        "layer_norm_eps": config.norm_eps,
        "image_size": height if height == width else [height, width],
        "patch_size": p if p == q else [p, q],
        "num_channels": config.in_channels,
        "qkv_bias": True,
        "pooler_output_size": config.pre_logits or config.embed_dim,
        "pooler_act": "tanh",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        # whatever the arrays are stored in, as vitedu does
        "dtype": "float32",
    }
    if labels:
        model["id2label"] = {str(i): name for i, name in enumerate(labels)}
        model["label2id"] = {name: i for i, name in enumerate(labels)}
    resample = {name: number for number, name in RESAMPLE.items()}
    pictures = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(spec.mean),
        "image_std": list(spec.std),
        "resample": resample[spec.interpolation],
        **geometry_of(spec),
    }
    return {"config.json": model, "preprocessor_config.json": pictures}


def geometry_of(spec: PreprocessSpec) -> dict[str, Any]:
    """Resize and crop, as preprocessor_config.json spells them."""
    height, width = spec.image_size
    sides = {"height": height, "width": width}
    if spec.crop is None:
        return {"size": sides}
    edge = math.floor(min(height, width) / spec.crop)
    return {
        "size": {"shortest_edge": edge},
        "do_center_crop": True,
        "crop_size": sides,
    }
