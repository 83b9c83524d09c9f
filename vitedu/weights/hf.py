"""Hugging Face's dialect: the ViT of transformers, under both of its spellings.

Files use the older one, `vit.encoder.layer.0.attention.attention.query`; in
memory transformers 5 says `vit.layers.0.attention.q_proj`. A ViTModel's pooler
is our pre-logits layer, without a head.

`load("google/vit-base-patch16-224")`
"""

import math
import re
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from vitedu.errors import UserError
from vitedu.fields import Size, converted
from vitedu.model import Learned1D, ViTConfig
from vitedu.model.classifier import checked_names
from vitedu.pictures import PreprocessSpec
from vitedu.weights import mapping
from vitedu.weights.checkpoint import Checkpoint, Metadata
from vitedu.weights.mapping import Row, layer

EPS = 1e-12  # where config.json says none
# what it calls the GELUs; the first is written
GELUS = {
    "exact": ("gelu", "gelu_python"),
    "tanh": ("gelu_pytorch_tanh", "gelu_new", "gelu_fast", "gelu_accurate"),
    "quick": ("quick_gelu",),
}
FIELDS = {
    "hidden_size": "embed_dim",
    "num_hidden_layers": "depth",
    "intermediate_size": "mlp_dim",
    "num_attention_heads": "num_heads",
    "image_size": "image_size",
    "layer_norm_eps": "norm_eps",
}
# what it does to every picture, unless preprocessor_config.json says otherwise
USUAL = {"do_resize": True, "do_rescale": True, "rescale_factor": 1 / 255}
RESAMPLE = {2: "bilinear", 3: "bicubic"}  # pillow's numbers
# parts of its other models: a decoder, the mask token
OTHERS = re.compile(
    r"decoder\.(\d+|decoder_(embed|layers|norm|pred))\."
    r"|decoder\.(mask_token|decoder_pos_embed)$|(vit\.)?embeddings\.mask_token$"
)


# the layers of a block, in files and in memory
NORMS = {"norm1": ["layernorm_before"], "norm2": ["layernorm_after"]}
FILE = NORMS | {
    "attn.qkv": [f"attention.attention.{x}" for x in ("query", "key", "value")],
    "attn.proj": ["attention.output.dense"],
    "mlp.fc1": ["intermediate.dense"],
    "mlp.fc2": ["output.dense"],
}
MEMORY = NORMS | {
    "attn.qkv": [f"attention.{x}_proj" for x in "qkv"],
    "attn.proj": ["attention.o_proj"],
    "mlp.fc1": ["mlp.fc1"],
    "mlp.fc2": ["mlp.fc2"],
}
SPELLINGS = [
    (prefix, *blocks)
    for prefix in ("vit.", "", "deit.")
    for blocks in (("encoder.layer", FILE), ("layers", MEMORY))
]
MARKS = tuple(
    {
        f"{prefix}embeddings.patch_embeddings.projection.weight",
        f"{prefix}{blocks}.0.{layers['attn.qkv'][0]}.weight",
    }
    for prefix, blocks, layers in SPELLINGS
)
SUFFIXES = ()  # a folder
POSITIONS = (Learned1D(),)


def to_vitedu(arrays: dict[str, Tensor], metadata: Metadata) -> Checkpoint:
    """The checkpoint in a file; defaults are transformers' own."""
    dropped = tuple(name for name in arrays if OTHERS.match(name))
    arrays = {k: v for k, v in arrays.items() if k not in dropped}
    found = [marks <= arrays.keys() for marks in MARKS]
    spelling = SPELLINGS[found.index(True)]
    prefix = spelling[0]
    depth = mapping.depth_in(arrays, re.escape(f"{prefix}{spelling[1]}."))
    mapped = mapping.to_ours(rows_in(depth, *spelling), arrays)
    beside = config_of(metadata)
    stated = {FIELDS[name]: beside[name] for name in FIELDS if name in beside}
    sizes = mapping.sizes_in(mapped, metadata, stated)
    if sizes["pre_logits"] and sizes["num_classes"]:
        # its classifier reads the class token, not the pooler
        raise UserError(
            f"it has a head and '{prefix}pooler.dense.weight', which its head "
            "does not see; take the pooler away"
        )
    act, end = beside.get("hidden_act", "gelu"), beside.get("pooler_act")
    gelu = next((x for x, names in GELUS.items() if act in names), None)
    if not gelu or (sizes["pre_logits"] and end not in (None, "tanh")):
        raise UserError(
            f"its config.json says hidden_act={act!r} and pooler_act={end!r}, "
            "which vitedu's network does not have; known: "
            f"{mapping.listed(sum(GELUS.values(), ()))} and tanh"
        )
    norm_eps = stated.get("norm_eps", EPS)
    config = ViTConfig(**sizes, gelu=gelu, norm_eps=norm_eps)
    mapping.check_complete(mapped, config)
    spec, doubts = preprocess(config, metadata)
    what = "the decoder and the token for hidden patches"
    return Checkpoint(
        config,
        mapped.state,
        spec,
        class_names(config, metadata),
        resize_mode="hf",
        dropped=dropped,
        notes=mapping.note_on_dropped(dropped, what),
        doubts=doubts + mapping.doubt_on_heads(config, stated, metadata),
    )


def rows_in(
    depth: int, prefix: str, blocks: str, layers: dict[str, list[str]]
) -> Iterator[Row]:
    first = f"{prefix}embeddings"
    yield Row("cls_token", (f"{first}.cls_token",), "same")
    yield Row("pos_embed", (f"{first}.position_embeddings",), "same")
    yield from layer("patch_embed.proj", f"{first}.patch_embeddings.projection")
    for i in range(depth):
        for ours, theirs in layers.items():
            names = (f"{prefix}{blocks}.{i}.{name}" for name in theirs)
            yield from layer(f"blocks.{i}.{ours}", *names)
    yield from layer("norm", f"{prefix}layernorm")
    yield from layer("pre_logits.fc", f"{prefix}pooler.dense")
    yield from layer("head", "classifier")


def from_vitedu(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The arrays of ViTForImageClassification, or ViTModel if there is no head.

    UserError: transformers' ViT cannot be this network.
    """
    owner = "Hugging Face's ViT"
    config = mapping.check_vit(owner, checkpoint.config)
    is_below_head = bool(config.pre_logits and config.num_classes)
    mapping.check_holds(
        owner, {"a pre-logits layer below a head": is_below_head}
    )
    prefix = "vit." if config.num_classes else ""
    rows = rows_in(config.depth, prefix, "encoder.layer", FILE)
    return mapping.to_theirs(rows, checkpoint.state_dict)


# --- config.json


def config_of(metadata: Metadata) -> dict[str, Any]:
    return metadata.config if "hidden_size" in metadata.config else {}


def class_names(config: ViTConfig, metadata: Metadata) -> tuple[str, ...]:
    """The names in config.json, unless they are only LABEL_0, LABEL_1, ..."""
    labels = config_of(metadata).get("id2label")
    keys = [str(i) for i in range(config.num_classes)]
    if not isinstance(labels, dict) or {*labels} != {*keys}:
        return ()
    found = checked_names([labels[key] for key in keys])
    return () if found == default_names(config) else found


def default_names(config: ViTConfig) -> tuple[str, ...]:
    return tuple(f"LABEL_{i}" for i in range(config.num_classes))


def beside(checkpoint: Checkpoint) -> dict[str, dict[str, Any]]:
    config, spec = checkpoint.config, checkpoint.preprocess
    labels = checkpoint.class_names or default_names(config)
    (p, q), (height, width) = config.patch_size, config.image_size
    kind = "ViTForImageClassification" if config.num_classes else "ViTModel"
    model = {
        "architectures": [kind],
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
    sides = {"height": height, "width": width}
    geometry: dict[str, Any] = {"size": sides}
    if spec.crop is not None:
        edge = math.floor(min(height, width) / spec.crop)
        geometry = {
            "size": {"shortest_edge": edge},
            "do_center_crop": True,
            "crop_size": sides,
        }
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
        **geometry,
    }
    return {"config.json": model, "preprocessor_config.json": pictures}


# --- preprocessor_config.json


def preprocess(
    config: ViTConfig, metadata: Metadata
) -> tuple[PreprocessSpec, tuple[str, ...]]:
    """By preprocessor_config.json or ViTImageProcessor's defaults; doubts."""
    written = metadata.preprocessor
    if not written:
        doubt = (
            "no preprocessor_config.json says how its pictures are prepared; "
            "mean and std 0.5 are assumed, as for Google's ViTs, where DeiT, "
            "DINO and MAE want (0.485, 0.456, 0.406) and (0.229, 0.224, 0.225)"
        )
        return PreprocessSpec(config.image_size, config.in_channels), (doubt,)
    stated = written.get("size")
    size, crop = sides_of(stated, config.image_size), None
    is_short_side = isinstance(stated, dict) and "shortest_edge" in stated
    crops = bool(written.get("do_center_crop"))
    odd = [
        name for name in USUAL if written.get(name, USUAL[name]) != USUAL[name]
    ]
    # a squash before the crop, or a short side without one
    if crops != is_short_side:
        odd.append("do_center_crop")
    if crops:
        edge = min(size)
        size = sides_of(written.get("crop_size"), config.image_size)
        if min(size) > edge or size[0] != size[1]:
            odd.append("crop_size")
        else:
            crop = mapping.crop_share(min(size), edge)
    resample = written.get("resample", 2)
    if resample not in RESAMPLE:
        odd.append("resample")
    interpolation = RESAMPLE.get(resample, "bicubic")
    mean, std = written.get("image_mean", 0.5), written.get("image_std", 0.5)
    if not written.get("do_normalize", True):
        mean, std = 0.0, 1.0
    spec = PreprocessSpec(
        size, config.in_channels, mean, std, interpolation, crop
    )
    said = ", ".join(f"{name}={written.get(name)!r}" for name in odd)
    doubt = (
        f"its preprocessor_config.json says {said} with size={stated!r}, which "
        f"vitedu cannot do; it takes crop={crop} and "
        f"interpolation={interpolation!r}"
    )
    return spec, (doubt,) if odd else ()


def sides_of(size: Any, otherwise: tuple[int, int]) -> tuple[int, int]:
    if isinstance(size, dict):
        edge = size.get("shortest_edge")
        size = (size.get("height", edge), size.get("width", edge))
    if size is None:
        return otherwise
    return converted("a size in its preprocessor_config.json", size, Size)
