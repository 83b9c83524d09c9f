"""timm's ViT, with its variants: DeiT, DINO, CLIP, MAE and MoCo-v3; its BiT.

timm's names are ours, except for attention pooling. What the arrays cannot say
is in a config.json beside them, else in timm's own table of names.

`load("vit_tiny_patch16_224.augreg_in21k_ft_in1k.safetensors")`
"""

import math
import re
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from vitedu.compat import import_timm
from vitedu.errors import UserError, explained
from vitedu.model import (
    Hybrid,
    Learned1D,
    NoPosition,
    Patches,
    ResNetConfig,
    RoPE,
    Standard,
    ViTConfig,
    new_network,
)
from vitedu.model.classifier import checked_names
from vitedu.model.config import SIZES
from vitedu.model.resnet import LAYERS
from vitedu.pictures import INTERPOLATIONS, PreprocessSpec
from vitedu.weights import mapping
from vitedu.weights.checkpoint import Checkpoint, Metadata, NetworkConfig
from vitedu.weights.mapping import Mapped, Row
from vitedu.weights.timm import eva
from vitedu.weights.timm.families import (
    AROUND,
    COMPLETES,
    by_timm,
    family_of,
    with_decoder,
)

VIT = ("patch_embed.proj.weight", "blocks.0.attn.qkv.weight")
# a ViT or a hybrid, and a ResNetV2
MARKS = (
    *({prefix + name for name in VIT} for prefix, *_ in AROUND.values()),
    {"stem.conv.weight", "stages.0.blocks.0.conv1.weight"},
)
SUFFIXES = ()  # a folder
POSITIONS = (Learned1D(), Learned1D(prefix=False), NoPosition())
POOLS = {"token": "token", "avg": "mean", "map": "map", "": "none"}
GELUS = {"gelu": "exact", "gelu_tanh": "tanh", "quick_gelu": "quick"}
USUAL = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "crop_pct": 0.9}
# what timm's train.py is told of them
PICTURES = ("mean", "std", "interpolation", "crop_pct", "crop_mode")

# timm's words for the sizes of Table 1
WORDS = {"Ti": "tiny", "S": "small", "B": "base", "L": "large", "H": "huge"}
PLAIN = "vit_base_patch16_224"  # of which all sizes can be set
# the hybrids, by the stages of their ResNet
HYBRIDS = {
    (): "vit_tiny_r_s16_p8_224",
    (2, 2, 2, 2): "vit_small_r26_s32_224",
    (3, 4, 9): "vit_base_r50_s16_224",
    (3, 4, 6, 3): "vit_large_r50_s32_224",
}
ACTS = {"GELUTanh": "tanh", "QuickGELU": "quick"}
WITH_EPS = "vit_base_patch16_clip_224"  # whose norms' epsilon is 1e-5
# an activation that JSON can't name, with the MLP that it belongs to
SWIGLU = "vit_giant_patch14_dinov2"
# the parts that ours has, by what timm calls them, and words for some others
PARTS = {"VisionTransformer", "Block", "Attention", "LayerNorm", "Mlp"}
PARTS |= {"GELU", "GELUTanh", "QuickGELU", "GluMlp", "SwiGLU", "SiLU"}
PARTS |= {"Eva", "EvaBlock", "EvaAttention", "AttentionRope"}
STEMS = {"ResNetV2", "Sequential"}  # of hybrids, the latter without stages
PARTS |= STEMS
FOREIGN = {
    "ResPostBlock": "norms behind the branches",
    "DiffAttention": "differential attention",
    "RmsNorm": "norms that leave the mean",
    "Identity": "no norm behind its blocks",
    "FeatureListNet": "another ResNet as its stem",
    "ConvStem": "another stem",
    "VisionTransformerDistilled": "a distillation token",
}


def to_vitedu(arrays: dict[str, Tensor], metadata: Metadata) -> Checkpoint:
    """The checkpoint in a file.

    Defaults: exact GELU, epsilon 1e-6, and the class token as pool (without
    one, the mean).
    """
    found = [marks <= arrays.keys() for marks in MARKS].index(True)
    is_resnet = found == len(AROUND)
    method = "mae" if is_resnet else [*AROUND][found]
    prefix, pattern, parts = AROUND[method]
    dropped = tuple(name for name in arrays if re.match(pattern, name))
    trained_by, whole = method if dropped else family_of(metadata.name), arrays
    if {*dropped} - {"mask_token"} and not metadata.config:
        metadata = replace(metadata, name="")
    arrays = by_timm({k: v for k, v in arrays.items() if k not in dropped})
    rows = eva.rows_in(name.removeprefix(prefix) for name in arrays)
    mapped = mapping.to_ours(rows, eva.with_k_bias(arrays), prefix=prefix)
    state = mapped.state
    notes = mapping.note_on_dropped(dropped, parts)
    doubts: tuple[str, ...] = ()
    config: NetworkConfig
    if is_resnet:
        size = known_of(metadata)[2].get("input_size")
        size = size[1:] if size else metadata.image_size
        family = "bit-v1" if "stem.norm.weight" in state else "bit-v2"
        config = mapping.resnet_config_in(
            mapped, family, metadata.pool_padding, size
        )
    else:
        config, doubts = vit_config_in(mapped, metadata, trained_by)
    if "decoder_pred.weight" in dropped:
        decoder = {name: whole[name] for name in dropped}
        config, state = with_decoder(config, decoder), state | decoder
        dropped, notes = (), (COMPLETES,)
        mapped = mapped._replace(state=state)
    mapping.check_complete(mapped, config)
    if config.has_resnet:
        kind, moved = ("BiT", "1e-5") if is_resnet else ("hybrids", "5e-4")
        notes += (
            f"timm has other small numbers in the norms of {kind} than their "
            "authors; vitedu has the authors', which moves logits by up to "
            f"{moved} of the largest",
        )
    spec, more = preprocess(config, metadata, trained_by)
    return Checkpoint(
        config,
        state,
        spec,
        class_names(config, metadata),
        resize_mode="paper" if is_resnet else "timm",
        dropped=dropped,
        notes=notes,
        doubts=doubts + more,
    )


def vit_config_in(
    mapped: Mapped, metadata: Metadata, family: str | None
) -> tuple[ViTConfig, tuple[str, ...]]:
    state = mapped.state
    width = mapping.width_of(mapped, "patch_embed.proj.weight", 4)
    depth = mapping.depth_in(state, r"blocks\.")
    stated = fields_of(metadata, width, depth)
    usual = mapping.usual_heads(width, depth) if width else None
    if family and usual:
        stated = {"num_heads": 12 if family == "moco" else usual} | stated
    sizes = mapping.sizes_in(mapped, metadata, stated)
    is_over_all = stated.get("pool_include_prefix") and sizes["class_token"]
    if is_over_all and sizes["pool"] in ("mean", "map"):
        raise UserError(
            "it pools over the class token too (timm's pool_include_prefix), "
            "which vitedu's network does not"
        )
    position = metadata.position or stated.get("position")
    if "pos_embed" in state:
        position = Learned1D()
    if not position:
        raise UserError(
            "it lacks 'pos_embed'; if it was trained with RoPE, give "
            "position=RoPE(), if without positions, position=NoPosition() (in "
            "the command position=none)"
        )
    is_clips = getattr(sizes["stem"], "norm", False)
    config = ViTConfig(
        **sizes,
        position=position,
        gelu=stated.get("gelu", "exact"),
        norm_eps=stated.get("norm_eps", 1e-5 if is_clips else 1e-6),
    )
    if "pos_embed" in state and config.num_prefix_tokens:
        has_rows = state["pos_embed"].shape[1] != config.num_patches
        config = replace(config, position=Learned1D(prefix=has_rows))
    doubts = mapping.doubt_on_heads(config, stated, metadata)
    if is_clips and "gelu" not in stated:
        doubts += (
            "nothing says which GELU this CLIP has; the exact one is assumed, "
            'give gelu="quick" for OpenAI\'s weights',
        )
    return config, doubts


def from_vitedu(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The arrays under timm's names. UserError: timm has no such network."""
    config = checkpoint.config
    if isinstance(config, ResNetConfig):
        padding, sizes = config.pool_padding, (config.layers, config.width)
        mapping.check_holds(
            "timm's BiT",
            {
                f"family {config.family}": config.family != "bit-v2",
                "layers={} of width {}".format(*sizes): not bit_of(config),
                f"pool_padding={padding!r}": padding != "zeros",
            },
        )
    else:
        owner, stem = "timm's ViT", config.stem
        is_eva = isinstance(config.position, RoPE)
        open_to = {"stem": (), "pool": (), "registers": ()}
        open_to["position"] = () if is_eva else POSITIONS
        if isinstance(config.block, Standard):
            open_to["block"] = ()
        mapping.check_vit(owner, config, **open_to)
        is_clips = stem == Patches(bias=False, norm=True) and not is_eva
        is_known = stem == Patches() or is_clips
        if config.has_resnet:
            is_known = stem.width == 1 and stem.layers in HYBRIDS
        excess = {
            "a pre-logits layer": bool(config.pre_logits),
            f"stem={stem}": not is_known,
        }
        mapping.check_holds(owner, excess)
    state = checkpoint.state_dict
    if isinstance(config, ViTConfig) and isinstance(config.position, RoPE):
        return eva.from_ours(state, config)
    rows = [
        Row(ours, (re.sub(r"^pool\.", "attn_pool.", ours),), "same")
        for ours in state
    ]
    return mapping.to_theirs(rows, state)


# --- what is known besides: config.json, else timm's own table of names


def known_of(
    metadata: Metadata,
) -> tuple[str | None, dict[str, Any], dict[str, Any]]:
    """timm's name of the network, its arguments, and its pretrained_cfg."""
    import_timm()
    from timm.models import get_pretrained_cfg, is_model

    config, args = metadata.config, {}
    name = re.sub(r"-[0-9a-f]{8}$", "", metadata.name)  # torch.hub's checksum
    name = config.get("architecture", config.get("arch", name))
    if "architecture" in config:
        args = config.get("model_args") or {}
        cfg = config.get("pretrained_cfg", config)  # older files are it
    else:
        try:
            known = get_pretrained_cfg(name)
        except RuntimeError:  # the tag is not timm's
            known = None
        cfg = known.to_dict() if known else {}
    if cfg and "arch" in config:  # with the arguments of timm's train.py
        given = config["args"]
        args = {"global_pool": given.get("gp")} | given.get("model_kwargs", {})
        args = {k: v for k, v in args.items() if v is not None}
        size = given.get("img_size")
        size = given.get("input_size") or (size and (3, size, size))
        cfg |= {k: given[k] for k in PICTURES if given.get(k) is not None}
        cfg |= {"input_size": size} if size else {}
    architecture = name.partition(".")[0]
    if not is_model(architecture):
        architecture = PLAIN if args else None
    return architecture, args, cfg


def fields_of(
    metadata: Metadata, embed_dim: int | None, depth: int
) -> dict[str, Any]:
    """Fields of a ViTConfig, and pool_include_prefix, that timm's model has.

    It is there, or is built without weights, by config.json or by the file's
    name, which counts only if width and depth fit the arrays. UserError: it
    isn't a plain ViT.
    """
    model: Any = metadata.built
    architecture, args, cfg = type(model).__name__, {}, {}
    if model is None:
        architecture, args, cfg = known_of(metadata)
        if not architecture:
            return {}
        from timm import create_model

        what = f"timm cannot build the {architecture} of its config.json"
        # timm raises what its layers do with such arguments
        with explained(what, Exception), torch.device("meta"):
            model = create_model(architecture, **args)
    if what := foreign_part(model):
        raise UserError(
            f"timm's {architecture} has {what}, which vitedu's network doesn't"
        )
    block = model.blocks[0]
    sizes = model.embed_dim, len(model.blocks)
    if sizes != (embed_dim, depth) and "architecture" not in metadata.config:
        return {}
    act, scaled = block.mlp.act, getattr(block, "ls1", block)
    is_tanh = getattr(act, "approximate", None) == "tanh"
    pool = POOLS[model.global_pool]
    size = model.patch_embed.img_size
    if model.pos_embed is None and not args and "input_size" in cfg:
        size = cfg["input_size"][1:]  # any will do for the network
    position = eva.rope_of(model) or NoPosition()
    return {
        "position": position if model.pos_embed is None else None,
        "embed_dim": model.embed_dim,
        "depth": len(model.blocks),
        "num_heads": block.attn.num_heads,
        "image_size": tuple(size),
        "norm_eps": block.norm1.eps,
        "pool_include_prefix": getattr(model, "pool_include_prefix", False),
        "pool": "mean_norm" if is_norm(model.fc_norm) else pool,
        "gelu": ACTS.get(type(act).__name__, "tanh" if is_tanh else "exact"),
        "layer_scale": getattr(scaled, "init_values", None),
    }


def foreign_part(model: Any) -> str | None:
    kind = type(model).__name__
    if kind not in PARTS - STEMS:
        return FOREIGN.get(kind, f"the architecture {kind}")
    block = model.blocks[0]
    parts = [model, block, getattr(model.patch_embed, "backbone", model)]
    if type(block).__name__ in PARTS:
        norm = model.fc_norm if is_norm(model.fc_norm) else model.norm
        parts += [block.attn, norm, block.mlp, block.mlp.act]
    for name in (type(part).__name__ for part in parts):
        if name not in PARTS:
            return FOREIGN.get(name, f"a {name}")
    mlp, act = block.mlp, type(block.mlp.act).__name__
    is_split = type(mlp).__name__ == "SwiGLU"
    is_swiglu = not getattr(mlp, "gate_last", not is_split)
    if is_swiglu != (act == "SiLU"):
        return f"an MLP with {act}"
    if is_norm(block.attn.norm) or is_norm(block.mlp.norm):
        return "norms inside of attention and MLP"
    pools = {"avg"} if is_norm(model.fc_norm) else POOLS
    if model.global_pool not in pools:
        return f"the pool {model.global_pool!r}"
    return eva.foreign_part(model) if type(model).__name__ == "Eva" else None


def is_norm(part: nn.Module) -> bool:
    return not isinstance(part, nn.Identity)


def class_names(config: NetworkConfig, metadata: Metadata) -> tuple[str, ...]:
    about = known_of(metadata)[2]
    names = metadata.config.get("label_names") or about.get("label_names")
    if not isinstance(names, list) or len(names) != config.num_classes:
        return ()
    return checked_names(names)


def preprocess(
    config: NetworkConfig, metadata: Metadata, family: str | None = None
) -> tuple[PreprocessSpec, tuple[str, ...]]:
    """By `pretrained_cfg` or family, else as most of timm's ViTs; doubts."""
    import_timm()
    from timm.models import PretrainedCfg

    default = vars(PretrainedCfg()) | {"input_size": None}
    cfg, doubts = known_of(metadata)[2], ()
    if not cfg and (family or family_of(metadata.name)):
        cfg = {"crop_pct": USUAL["crop_pct"]}
    elif not cfg:
        cfg = USUAL
        doubts = (
            "neither a config.json nor the file's name says how its pictures "
            "are prepared; mean and std 0.5 are assumed, as for most ViTs of "
            f"timm, where DeiT, DINO and MAE want {default['mean']} and "
            f"{default['std']}",
        )
    cfg = default | cfg
    crop = cfg["crop_pct"] or default["crop_pct"]
    interpolation, mode = cfg["interpolation"], cfg["crop_mode"]
    is_squash = mode == "squash" and crop == 1
    is_known = interpolation in INTERPOLATIONS
    if not is_known or not (is_squash or mode in ("center", None)):
        doubts += (
            f"its pictures are prepared with interpolation={interpolation!r}, "
            f"crop_mode={mode!r} and crop_pct={crop}, which vitedu cannot do; "
            "it takes bicubic and cuts out the centre",
        )
    mean, std = cfg["mean"], cfg["std"]
    if len(mean) != config.in_channels:  # as timm does
        mean, std = sum(mean) / len(mean), sum(std) / len(std)
    spec = PreprocessSpec(
        tuple((cfg["input_size"] or (0, *config.image_size))[1:]),
        config.in_channels,
        mean,
        std,
        interpolation if is_known else "bicubic",
        None if is_squash else crop,
    )
    return spec, doubts


def beside(checkpoint: Checkpoint) -> dict[str, dict[str, Any]]:
    """The config.json with which timm builds the model as `local-dir:`."""
    config, names = checkpoint.config, list(checkpoint.class_names)
    with torch.device("meta"):
        model = new_network(config)
    model.preprocess = checkpoint.preprocess
    if isinstance(config, ViTConfig):
        architecture, args = vit_of(config), args_of(config)
        if isinstance(config.position, RoPE):
            args = eva.args_of(config, checkpoint.state_dict, args)
        features, pool = config.embed_dim, args["global_pool"]
    else:
        architecture, args = bit_of(config), {"in_chans": config.in_channels}
        features, pool = config.num_features, "avg"
    content = {
        "architecture": architecture,
        "num_classes": config.num_classes,
        "num_features": features,
        "global_pool": pool,
        **({"label_names": names} if names else {}),
        "model_args": args,
        "pretrained_cfg": {
            "tag": "",
            "custom_load": False,
            **model.pretrained_cfg,
        },
    }
    return {"config.json": content}


def vit_of(config: ViTConfig) -> str:
    if isinstance(config.stem, Hybrid):
        return HYBRIDS[config.stem.layers]
    if isinstance(config.position, RoPE):
        return eva.WITH_EPS if config.norm_eps == 1e-5 else eva.PLAIN
    if config.block.swiglu:
        return SWIGLU
    if config.norm_eps == 1e-5:
        return WITH_EPS
    for size, (width, depth, *_) in SIZES.items():
        if (width, depth) == (config.embed_dim, config.depth):
            name = f"vit_{WORDS[size]}_patch{config.patch_size[0]}_224"
            return known_of(Metadata(name))[0] or PLAIN
    return PLAIN


def bit_of(config: ResNetConfig) -> str | None:
    depths = {layers: depth for depth, layers in LAYERS.items()}
    name = f"resnetv2_{depths.get(config.layers)}x{config.width:g}_bit"
    return known_of(Metadata(name))[0]


def args_of(config: ViTConfig) -> dict[str, Any]:
    block, position = config.block, config.position
    hidden = config.mlp_dim * (2 if block.swiglu else 1)
    ratio = hidden / config.embed_dim
    while int(config.embed_dim * ratio) < hidden:  # timm cuts off
        ratio = math.nextafter(ratio, math.inf)
    ours = {ours: theirs for theirs, ours in POOLS.items()}
    gelus = {ours: theirs for theirs, ours in GELUS.items()}
    is_normed = config.pool == "mean_norm"
    # said only where it isn't what timm's plain ViT has
    said = {
        "reg_tokens": config.registers or None,
        "no_embed_class": None if getattr(position, "prefix", True) else True,
        "init_values": block.layer_scale,
        "qkv_bias": None if block.qkv_bias else False,
        "qk_norm": block.qk_norm or None,
        "pre_norm": getattr(config.stem, "norm", False) or None,
    }
    said = {name: value for name, value in said.items() if value is not None}
    if block.swiglu:  # whose architecture has a LayerScale
        said["init_values"] = block.layer_scale
    elif config.norm_eps == 1e-5:
        said["pre_norm"] = getattr(config.stem, "norm", False)
    else:
        said["norm_layer"] = "layernorm"
    return {
        "img_size": list(config.image_size),
        "patch_size": list(config.patch_size),
        "in_chans": config.in_channels,
        "embed_dim": config.embed_dim,
        "depth": config.depth,
        "num_heads": config.num_heads,
        "mlp_ratio": ratio,
        "class_token": config.class_token,
        "pos_embed": "none" if position == NoPosition() else "learn",
        "global_pool": "avg" if is_normed else ours[config.pool],
        # whether it norms the mean, in place of the tokens
        "fc_norm": is_normed,
        "act_layer": "silu" if block.swiglu else gelus[config.gelu],
        **said,
    }
