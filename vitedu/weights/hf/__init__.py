"""Hugging Face's dialect: transformers' ViT, MAE, DINOv2, DINOv3, CLIP, SigLIP.

Of CLIP and SigLIP it is the image's encoder; CLIP's projection is our head.
ViT and DINOv2 are read under both of their spellings: files use the older one,
`vit.encoder.layer.0.attention.attention.query`; in memory transformers 5 says
`vit.layers.0.attention.q_proj`. A ViTModel's pooler is our pre-logits layer,
without a head.

`load("google/vit-base-patch16-224")`
"""

import re
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from vitedu.errors import UserError
from vitedu.model import Learned1D, Patches, RoPE, ViTConfig
from vitedu.model.classifier import checked_names
from vitedu.weights import mapping
from vitedu.weights.checkpoint import Checkpoint, Metadata, NetworkConfig
from vitedu.weights.hf.names import (
    CLASSES,
    CLIP,
    DINO,
    DINO3,
    DINO3S,
    GIANT,
    KINDS,
    PLUS,
    SPELLINGS,
    VIT,
    VIT_NOW,
    Spelling,
    rows_in,
)
from vitedu.weights.hf.pictures import preprocess, preprocessor_of
from vitedu.weights.timm.eva import has_k_bias

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
    "layerscale_value": "layer_scale",
}
# parts around the image's encoder, which are left out
AROUND = {
    "the decoder and the token for hidden patches": (
        r"decoder\.(\d+|decoder_(embed|layers|encoder\.layer|norm|pred))\."
        r"|decoder\.(mask_token|decoder_pos_embed)$"
        r"|((vit|dinov2|dinov2_with_registers)\.)?embeddings\.mask_token$"
    ),
    "the tower for texts": r"text_(model|projection)\.|logit_(scale|bias)$",
    "numbers of positions": r"(vision_model\.)?embeddings\.position_ids$",
}
MARKS = tuple(
    {
        f"{prefix}{spelling.names['patch_embed.proj']}.weight",
        f"{prefix}{spelling.place}.0.{spelling.block['attn.qkv'][0]}.weight",
        f"{prefix}{spelling.place}.0.{spelling.block['mlp.fc1'][0]}.weight",
    }
    for spelling, prefix in SPELLINGS
)
SUFFIXES = ()  # a folder
POSITIONS = (Learned1D(),)


def to_vitedu(arrays: dict[str, Tensor], metadata: Metadata) -> Checkpoint:
    """The checkpoint in a file; defaults are transformers' own."""
    dropped, notes = (), ()
    for what, pattern in AROUND.items():
        names = tuple(name for name in arrays if re.match(pattern, name))
        dropped += names
        notes += mapping.note_on_dropped(names, what)
    arrays = {k: v for k, v in arrays.items() if k not in dropped}
    found = [marks <= arrays.keys() for marks in MARKS]
    spelling, prefix = SPELLINGS[found.index(True)]
    kind = kind_in(spelling, prefix, {*arrays, *dropped})
    arrays, lost, doubts = straightened(kind, prefix, arrays)
    depth = mapping.depth_in(arrays, re.escape(f"{prefix}{spelling.place}."))
    mapped = mapping.to_ours(rows_in(depth, spelling, prefix), arrays)
    beside = config_of(metadata)
    stated = {FIELDS[name]: beside[name] for name in FIELDS if name in beside}
    sizes = mapping.sizes_in(mapped, metadata, stated)
    if sizes["pre_logits"] and sizes["num_classes"]:
        # its classifier reads the class token, not the pooler
        raise UserError(
            f"it has a head and '{prefix}pooler.dense.weight', which its head "
            "does not see; take the pooler away"
        )
    act = beside.get("hidden_act", KINDS[kind].gelu)
    if kind == "dinov3" and sizes["block"].swiglu:
        act = "gelu" if act == "silu" else f"a gate with {act}"
    end = beside.get("pooler_act")
    gelu = next((x for x, names in GELUS.items() if act in names), None)
    if not gelu or (sizes["pre_logits"] and end not in (None, "tanh")):
        raise UserError(
            f"its config.json says hidden_act={act!r} and pooler_act={end!r}, "
            "which vitedu's network does not have; known: "
            f"{mapping.listed(sum(GELUS.values(), ()))} and tanh"
        )
    norm_eps = stated.get("norm_eps", KINDS[kind].norm_eps)
    config = ViTConfig(**sizes, gelu=gelu, norm_eps=norm_eps)
    if kind == "dinov3":
        rope = RoPE(float(beside.get("rope_theta", 100.0)), unit=True)
        config = replace(config, position=rope)
    mapping.check_complete(mapped, config)
    spec, more = preprocess(config, metadata, kind)
    doubts += more + mapping.doubt_on_heads(config, stated, metadata)
    if kind == "clip" and not beside:
        doubts += (
            "no config.json says its GELU; the quick one is assumed, as in "
            "OpenAI's, where LAION's have the exact one",
        )
    return Checkpoint(
        config,
        mapped.state,
        spec,
        class_names(config, metadata),
        resize_mode="hf",
        dropped=dropped + lost,
        notes=notes,
        doubts=doubts,
    )


def kind_in(spelling: Spelling, prefix: str, names: set[str]) -> str:
    if spelling is CLIP:
        is_clip = f"{prefix}pre_layrnorm.weight" in names
        return "clip" if is_clip else "siglip"
    if spelling in (VIT, VIT_NOW):
        return "vit_mae" if "decoder.decoder_pos_embed" in names else "vit"
    return "dinov3" if spelling in DINO3S else "dinov2"


# --- what their arrays hold in another form than ours


def straightened(
    kind: str, prefix: str, arrays: dict[str, Tensor]
) -> tuple[dict[str, Tensor], tuple[str, ...], tuple[str, ...]]:
    """Arrays in our form; names of those left out; what is doubtful then."""
    arrays, lost, what = dict(arrays), (), ""
    head = arrays.get("classifier.weight")
    start = f"{prefix}embeddings."
    registers = arrays.get(f"{start}register_tokens")
    table = arrays.get(f"{start}position_embeddings")
    if registers is not None and table is not None:
        table = mapping.with_register_rows(table, registers)
        arrays[f"{start}position_embeddings"] = table
    for name, bias in [*arrays.items()] if kind == "dinov3" else ():
        if name.endswith("attention.q_proj.bias"):  # and k has none
            k = name.replace("q_proj", "k_proj")
            arrays.setdefault(k, torch.zeros_like(bias))
    for end in ("weight", "bias"):  # of q, k and v of the attention pooling
        joint = arrays.pop(f"{prefix}head.attention.in_proj_{end}", None)
        if joint is not None:
            d = len(joint) // 3
            arrays[f"{prefix}head.attention.q.{end}"] = joint[:d]
            arrays[f"{prefix}head.attention.kv.{end}"] = joint[d:]
    if kind == "siglip" and head is not None:
        pooling = f"{prefix}head."
        lost = tuple(name for name in arrays if name.startswith(pooling))
    elif kind == "dinov2" and head is not None:
        d = head.shape[1] // 2
        arrays["classifier.weight"] = head[:, :d]
        what = "the mean of the patches beside the class token"
        what = what if head[:, d:].any() else ""
    elif kind == "clip" and head is not None:
        what = "the mean of the patches without the last norm"
    elif kind == "clip" and "visual_projection.weight" in arrays:
        weight = arrays.pop("visual_projection.weight")
        arrays |= {"classifier.weight": weight}
        arrays |= {"classifier.bias": weight.new_zeros(len(weight))}
    if what:
        lost = ("classifier.weight", "classifier.bias")
        what = f"its classifier reads {what}, which no head of vitedu's does"
        what += "; it is left out, and the model gives features"
    arrays = {k: v for k, v in arrays.items() if k not in lost}
    return arrays, lost, (what,) if what else ()


def bent(
    kind: str, prefix: str, arrays: dict[str, Tensor]
) -> dict[str, Tensor]:
    """The inverse of `straightened`. UserError: their form has no place."""
    head = arrays.get("classifier.weight")
    excess, start = {}, f"{prefix}embeddings."
    registers = arrays.get(f"{start}register_tokens")
    table = arrays.get(f"{start}position_embeddings")
    if registers is not None and table is not None:
        end = 1 + registers.shape[1]
        excess["positions of registers"] = bool(table[:, 1:end].any())
        table = torch.cat([table[:, :1], table[:, end:]], dim=1)
        arrays[f"{start}position_embeddings"] = table
    for end in ("weight", "bias"):
        thirds = [f"{prefix}head.attention.{x}.{end}" for x in ("q", "kv")]
        if thirds[0] in arrays:
            joint = torch.cat([arrays.pop(name) for name in thirds])
            arrays[f"{prefix}head.attention.in_proj_{end}"] = joint
    if kind == "dinov2" and head is not None:
        zeros = torch.zeros_like(head)
        arrays["classifier.weight"] = torch.cat([head, zeros], dim=1)
    k_bias = [name for name in arrays if name.endswith("k_proj.bias")]
    if kind == "dinov3" and not any(arrays[name].any() for name in k_bias):
        arrays = {k: v for k, v in arrays.items() if k not in k_bias}
    if kind == "clip" and head is not None:
        bias = arrays.pop("classifier.bias")
        excess["a bias in its head"] = bool(bias.any())
        arrays["visual_projection.weight"] = arrays.pop("classifier.weight")
    mapping.check_holds(owner_of(kind), excess)
    return arrays


def from_vitedu(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The arrays of one of its networks, with a head or without."""
    kind, held = kind_of(checkpoint.config), {"position": POSITIONS}
    owner = owner_of(kind)
    if kind == "clip":
        held |= {"stem": [Patches(bias=False, norm=True)]}
    elif kind == "siglip":
        held |= {"pool": ("map", "mean")}
    elif kind in ("dinov2", "dinov3"):
        held |= {"block": (), "registers": ()}
    if kind == "dinov3":
        held["position"] = ()
    config = mapping.check_vit(owner, checkpoint.config, **held)
    has_head = bool(config.num_classes)
    sides = {
        f"{name}={getattr(config, name)}": len({*getattr(config, name)}) > 1
        for name in ("image_size", "patch_size")
        if kind not in ("vit", "dinov3")
    }
    excess = sides | {
        "a pre-logits layer below a head": bool(config.pre_logits)
        and (has_head or kind != "vit"),
        "pool='map' below a head": config.pool == "map" and has_head,
        "a head": kind == "dinov3" and has_head,
        "qk_norm=True": config.block.qk_norm,
        f"mlp_dim={config.mlp_dim}": kind == "dinov2"
        and mlp_ratio(config) is None,
    }
    mapping.check_holds(owner, excess)
    is_gated = config.block.swiglu
    spelling = {
        "vit": VIT,
        "dinov2": GIANT if is_gated else DINO,
        "dinov3": PLUS if is_gated else DINO3,
    }.get(kind, CLIP)
    prefix = spelling.prefixes[bool(config.registers) and kind == "dinov2"]
    prefix = prefix if has_head or spelling is CLIP else ""
    rows = rows_in(config.depth, spelling, prefix)
    return bent(kind, prefix, mapping.to_theirs(rows, checkpoint.state_dict))


def owner_of(kind: str) -> str:
    return f"Hugging Face's {CLASSES[kind][1]}"


def kind_of(config: NetworkConfig) -> str:
    if not isinstance(config, ViTConfig):
        return "vit"
    if getattr(config.stem, "norm", False):
        return "clip"
    if getattr(config.block, "layer_scale", None):
        is_turned = getattr(config.position, "unit", False)
        return "dinov3" if is_turned else "dinov2"
    is_pooled = config.pool in ("map", "mean")
    return "siglip" if is_pooled and not config.class_token else "vit"


def mlp_ratio(config: ViTConfig) -> int | None:
    """DINOv2's whole number for the width of the MLP; None: it has none."""
    for ratio in range(1, 17):
        width = ratio * config.embed_dim
        if config.block.swiglu:  # two thirds, up to a multiple of 8
            width = (int(width * 2 / 3) + 7) // 8 * 8
        if width == config.mlp_dim:
            return ratio
    return None


# --- config.json


def config_of(metadata: Metadata) -> dict[str, Any]:
    config = metadata.config
    if isinstance(config.get("vision_config"), dict):  # beside one for texts
        # older files leave out what is usual
        return {"num_attention_heads": 12} | config["vision_config"]
    return config if "hidden_size" in config else {}


def class_names(config: ViTConfig, metadata: Metadata) -> tuple[str, ...]:
    """The names in config.json, unless they are only LABEL_0, LABEL_1, ..."""
    labels = metadata.config.get("id2label")
    keys = [str(i) for i in range(config.num_classes)]
    if not isinstance(labels, dict) or {*labels} != {*keys}:
        return ()
    found = checked_names([labels[key] for key in keys])
    return () if found == default_names(config) else found


def default_names(config: ViTConfig) -> tuple[str, ...]:
    return tuple(f"LABEL_{i}" for i in range(config.num_classes))


def beside(checkpoint: Checkpoint) -> dict[str, dict[str, Any]]:
    config, spec = checkpoint.config, checkpoint.preprocess
    kind, has_head = kind_of(config), bool(config.num_classes)
    (p, q), (height, width) = config.patch_size, config.image_size
    model = {
        "hidden_size": config.embed_dim,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.mlp_dim,
        "hidden_act": GELUS[config.gelu][0],
        "layer_norm_eps": config.norm_eps,
        "image_size": height if height == width else [height, width],
        "patch_size": p if p == q else [p, q],
        "num_channels": config.in_channels,
    }
    block = config.block
    extra: dict[str, dict[str, Any]] = {
        "vit": {
            "qkv_bias": True,
            "pooler_output_size": config.pre_logits or config.embed_dim,
            "pooler_act": "tanh",
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        },
        "dinov3": {
            "query_bias": block.qkv_bias,
            "key_bias": has_k_bias(checkpoint.state_dict),
            "value_bias": block.qkv_bias,
            "hidden_act": "silu" if block.swiglu else GELUS[config.gelu][0],
            "use_gated_mlp": block.swiglu,
            "layerscale_value": block.layer_scale,
            "num_register_tokens": config.registers,
            "rope_theta": getattr(config.position, "theta", None),
        },
        "dinov2": {
            "qkv_bias": block.qkv_bias,
            "mlp_ratio": mlp_ratio(config),
            "use_swiglu_ffn": block.swiglu,
            "layerscale_value": block.layer_scale,
            "num_register_tokens": config.registers,
            "use_mask_token": False,
        },
        "clip": {"projection_dim": config.num_classes or config.embed_dim},
        "siglip": {"vision_use_head": config.pool == "map"},
    }
    model |= extra[kind]
    model["model_type"], name, end = CLASSES[kind]
    if kind == "dinov2" and config.registers:
        model["model_type"] = "dinov2_with_registers"
        name = "Dinov2WithRegisters"
    if kind == "siglip" and has_head:
        model, name = {"vision_config": model, "model_type": kind}, "Siglip"
    model["architectures"] = [name + (end if has_head else "Model")]
    # whatever the arrays are stored in, as vitedu does
    model["dtype"] = "float32"
    labels = checkpoint.class_names or default_names(config)
    if labels and kind != "clip":
        model["id2label"] = {str(i): name for i, name in enumerate(labels)}
        model["label2id"] = {name: i for i, name in enumerate(labels)}
    pictures = preprocessor_of(spec, config.image_size)
    return {"config.json": model, "preprocessor_config.json": pictures}
