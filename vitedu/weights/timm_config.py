"""What timm says of a model besides arrays: config.json, its table of names.

`fields_of(About(name="vit_tiny_patch16_224"), 192, 12)` knows that it has 3
heads.
"""

import math
import re
from typing import Any

import torch

from vitedu.compat import import_timm
from vitedu.errors import UserError
from vitedu.model import Hybrid, NoPosition, ResNetConfig, ViTConfig
from vitedu.pictures import INTERPOLATIONS, PreprocessSpec
from vitedu.weights.checkpoint import (
    About,
    Checkpoint,
    NetworkConfig,
    names_in,
)

POOLS = {"token": "token", "avg": "mean", "map": "map", "": "none"}
GELUS = {"gelu": "exact", "gelu_tanh": "tanh"}
# norms that are a LayerNorm, whose epsilon is 1e-6 in timm
NORMS = (None, "layernorm", "layernormfp32")
# what timm takes where a pretrained_cfg does not say it
DEFAULT = {
    "mean": (0.485, 0.456, 0.406),
    "std": (0.229, 0.224, 0.225),
    "interpolation": "bicubic",
    "crop_pct": 0.875,
    "crop_mode": "center",
}
# of nearly all of its ViTs, and those of three families
USUAL = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "crop_pct": 0.9}
FAMILIES = re.compile(r"(^|[_-])(deit|dino|mae)")

# timm's name of the plain ViT of a width, a depth and a patch size
ARCHITECTURES = {
    (192, 12, 16): "vit_tiny_patch16_224",
    (384, 12, 8): "vit_small_patch8_224",
    (384, 12, 16): "vit_small_patch16_224",
    (384, 12, 32): "vit_small_patch32_224",
    (768, 12, 8): "vit_base_patch8_224",
    (768, 12, 16): "vit_base_patch16_224",
    (768, 12, 32): "vit_base_patch32_224",
    (1024, 24, 14): "vit_large_patch14_224",
    (1024, 24, 16): "vit_large_patch16_224",
    (1024, 24, 32): "vit_large_patch32_224",
    (1280, 32, 14): "vit_huge_patch14_224",
}
# of the hybrid with these stages, of BiT with these and of this width
HYBRIDS = {
    (): "vit_tiny_r_s16_p8_224",
    (2, 2, 2, 2): "vit_small_r26_s32_224",
    (3, 4, 9): "vit_base_r50_s16_224",
    (3, 4, 6, 3): "vit_large_r50_s32_224",
}
RESNETS = {
    ((3, 4, 6, 3), 1.0): "resnetv2_50x1_bit",
    ((3, 4, 6, 3), 3.0): "resnetv2_50x3_bit",
    ((3, 4, 23, 3), 1.0): "resnetv2_101x1_bit",
    ((3, 4, 23, 3), 3.0): "resnetv2_101x3_bit",
    ((3, 8, 36, 3), 2.0): "resnetv2_152x2_bit",
    ((3, 8, 36, 3), 4.0): "resnetv2_152x4_bit",
}


def config_of(about: About) -> dict[str, Any] | None:
    """The config.json beside the arrays if it is timm's."""
    is_timms = isinstance(about.config.get("architecture"), str)
    return about.config if is_timms else None


def fields_of(about: About, embed_dim: int, depth: int) -> dict[str, Any]:
    """Fields of a ViTConfig in a config.json, else in timm's table of names.

    Also pool_include_prefix: whether it pools over all tokens. A name is not
    believed if its model has another width or depth than the arrays.
    UserError: it is a network that ours cannot be.
    """
    config = config_of(about)
    if config is None:
        known = fields_by_name(name_of(about))
        sizes = known.get("embed_dim"), known.get("depth")
        return known if sizes == (embed_dim, depth) else {}
    args = config.get("model_args")
    args = args if isinstance(args, dict) else {}
    needed = {"num_heads", "global_pool", "act_layer", "norm_layer"}
    known = {}
    if needed - args.keys():
        known = fields_by_name(config["architecture"])
    return known | fields_by_args(args)


def name_of(about: About) -> str:
    """The name of the model: in the metadata, else the file's."""
    return about.metadata.get("architecture") or about.name


def fields_by_args(args: dict[str, Any]) -> dict[str, Any]:
    """The arguments of timm's VisionTransformer as fields of a ViTConfig."""
    known = {
        name: args[name]
        for name in ("embed_dim", "depth", "num_heads", "pool_include_prefix")
        if name in args
    }
    if "img_size" in args:
        known["image_size"] = args["img_size"]
    if args.get("pos_embed", "learn") in ("", "none"):
        known["position"] = NoPosition()
    for name, ours, values in (
        ("global_pool", "pool", POOLS),
        ("act_layer", "gelu", GELUS),
        ("norm_layer", "norm_eps", dict.fromkeys(NORMS, 1e-6)),
    ):
        value = args.get(name)
        if name not in args or (value is None and name == "act_layer"):
            continue
        if not isinstance(value, str | None) or value not in values:
            names = ", ".join(repr(x) for x in values if x is not None)
            raise UserError(
                f"its config.json says {name}={value!r}, which vitedu's "
                f"network cannot be; known: {names}"
            )
        known[ours] = values[value]
    return known


def fields_by_name(name: str) -> dict[str, Any]:
    """Fields of timm's own model of that name, built without numbers; else {}.

    `name` is timm's, with or without a tag, or that of a file that timm
    fetches.
    UserError: it isn't a plain ViT.
    """
    architecture, _ = look_up(name)
    if architecture is None or architecture.startswith("resnetv2"):
        return {}
    from timm import create_model

    with torch.device("meta"):
        model = create_model(architecture)
    block = getattr(model, "blocks", [None])[0]
    kinds = [
        type(x).__name__ for x in (model, block, getattr(block, "attn", None))
    ]
    if kinds != ["VisionTransformer", "Block", "Attention"]:
        raise UserError(
            f"timm's {architecture} is a {kinds[0]} with blocks {kinds[1]}, "
            "which is another network than the paper's ViT"
        )
    known = {
        "embed_dim": model.embed_dim,
        "depth": len(model.blocks),
        "num_heads": block.attn.num_heads,
        "image_size": tuple(model.patch_embed.img_size),
        "norm_eps": block.norm1.eps,
        "pool_include_prefix": model.pool_include_prefix,
    }
    approximate = getattr(block.mlp.act, "approximate", None)
    if type(block.mlp.act).__name__ == "GELUTanh":
        approximate = "tanh"
    gelus = {"none": "exact", "tanh": "tanh"}
    if model.global_pool not in POOLS or approximate not in gelus:
        raise UserError(
            f"timm's {architecture} pools by {model.global_pool!r} and has "
            f"{type(block.mlp.act).__name__}, which vitedu's network cannot"
        )
    pool, gelu = POOLS[model.global_pool], gelus[approximate]
    return known | {"pool": pool, "gelu": gelu}


def look_up(name: str) -> tuple[str | None, dict[str, Any]]:
    """timm's architecture of a name, and its pretrained_cfg; else None and {}.

    The name of a file is known too where timm fetches it from elsewhere:
    "dino_vitbase16_pretrain". Of a tag that timm does not know it has nothing
    to say.
    """
    if "_" not in name:
        return None, {}
    import_timm()
    from timm.models import get_pretrained_cfg, is_model, list_pretrained

    bare = re.sub(r"-[0-9a-f]{8}$", "", name)
    architecture = bare.partition(".")[0]
    if is_model(architecture):
        try:
            about = get_pretrained_cfg(bare)
        except RuntimeError:  # the tag is not timm's
            about = None
        return architecture, about.to_dict() if about else {}
    for other in list_pretrained():
        about = get_pretrained_cfg(other)
        url = about.url if isinstance(about.url, str) else ""
        if url.rpartition("/")[2].rpartition(".")[0] == name:
            return other.partition(".")[0], about.to_dict()
    return None, {}


def pretrained_cfg(about: About) -> dict[str, Any]:
    """pretrained_cfg of config.json, else of timm's table of names, else {}."""
    config = config_of(about)
    if config is None:
        return look_up(name_of(about))[1]
    inner = config.get("pretrained_cfg")
    return inner if isinstance(inner, dict) else config  # older files' form


def class_names(config: NetworkConfig, about: About) -> tuple[str, ...]:
    """The label_names of a config.json."""
    beside = config_of(about) or {}
    names = beside.get("label_names") or pretrained_cfg(about).get(
        "label_names"
    )
    if not isinstance(names, list) or len(names) != config.num_classes:
        return ()
    return names_in(names)


def preprocess(
    config: NetworkConfig, about: About
) -> tuple[PreprocessSpec, tuple[str, ...]]:
    """timm's evaluation: pretrained_cfg of config.json, else of its name table.

    Where neither is there, that of nearly all of its ViTs is taken, with a
    doubt.
    """
    cfg, doubts = pretrained_cfg(about), ()
    if not cfg:
        cfg = dict(USUAL)
        if FAMILIES.search(name_of(about)):
            cfg |= {"mean": DEFAULT["mean"], "std": DEFAULT["std"]}
        else:
            doubts = (
                "neither a config.json nor the file's name says how its "
                "pictures are prepared; mean and std 0.5 are assumed, as for "
                "most ViTs of timm, where DeiT, DINO and MAE want "
                f"{DEFAULT['mean']} and {DEFAULT['std']}",
            )
    spec, unsupported = spec_of({**DEFAULT, **cfg}, config)
    if unsupported:
        doubts += (
            f"its pictures are prepared with {', '.join(unsupported)}, which "
            "vitedu cannot do",
        )
    return spec, doubts


def spec_of(
    cfg: dict[str, Any], config: NetworkConfig
) -> tuple[PreprocessSpec, list[str]]:
    """A pretrained_cfg as a PreprocessSpec, and what that cannot hold."""
    size = cfg.get("input_size")
    size = (
        tuple(size[1:]) if isinstance(size, list | tuple) else config.image_size
    )
    crop, mode = cfg["crop_pct"] or DEFAULT["crop_pct"], cfg["crop_mode"]
    interpolation, unsupported = cfg["interpolation"], []
    if interpolation not in INTERPOLATIONS:
        unsupported.append(
            f"interpolation={interpolation!r} (bicubic is taken)"
        )
        interpolation = "bicubic"
    if mode == "squash" and crop == 1:
        crop = None
    elif mode not in ("center", None):
        unsupported.append(
            f"crop_mode={mode!r} with crop_pct={crop} (the centre is cut out)"
        )
    mean, std = (
        per_channel(cfg[name], config.in_channels) for name in ("mean", "std")
    )
    spec = PreprocessSpec(
        size, config.in_channels, mean, std, interpolation, crop
    )
    return spec, unsupported


def per_channel(values: Any, channels: int) -> Any:
    """The numbers per channel; their mean, as in timm, if the count differs."""
    is_list = isinstance(values, list | tuple) and len(values) > 0
    if not is_list or len(values) == channels:
        return values
    if not all(isinstance(value, int | float) for value in values):
        return values
    return sum(values) / len(values)


def beside(checkpoint: Checkpoint) -> dict[str, dict[str, Any]]:
    """The config.json for timm to build the model by a `local-dir:` name."""
    config, spec = checkpoint.config, checkpoint.preprocess
    names = list(checkpoint.class_names)
    if isinstance(config, ResNetConfig):
        architecture = RESNETS[config.layers, config.width]
        args = {"in_chans": config.in_channels}
        places = {"first_conv": "stem.conv", "classifier": "head.fc"}
        features, pool = config.num_features, "avg"
    else:
        architecture, args = architecture_of(config), args_of(config)
        places = {"first_conv": first_convolution(config), "classifier": "head"}
        features, pool = config.embed_dim, args["global_pool"]
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
            "input_size": [spec.in_channels, *spec.image_size],
            "fixed_input_size": isinstance(config, ViTConfig),
            "interpolation": spec.interpolation,
            "crop_pct": 1.0 if spec.crop is None else spec.crop,
            "crop_mode": "squash" if spec.crop is None else "center",
            "mean": list(spec.mean),
            "std": list(spec.std),
            "num_classes": config.num_classes,
            "pool_size": None,
            **places,
        },
    }
    return {"config.json": content}


def architecture_of(config: ViTConfig) -> str:
    """timm's model to start from; `args_of` says in what ours is another."""
    if isinstance(config.stem, Hybrid):
        return HYBRIDS[config.stem.layers]
    sizes = config.embed_dim, config.depth, config.patch_size[0]
    return ARCHITECTURES.get(sizes, "vit_base_patch16_224")


def first_convolution(config: ViTConfig) -> str:
    """The name of the layer that sees the pixels."""
    if not isinstance(config.stem, Hybrid):
        return "patch_embed.proj"
    root = ".stem" if config.stem.layers else ""
    return f"patch_embed.backbone{root}.conv"


def args_of(config: ViTConfig) -> dict[str, Any]:
    """The arguments that make timm's VisionTransformer the one of `config`."""
    ratio = config.mlp_dim / config.embed_dim
    while int(config.embed_dim * ratio) < config.mlp_dim:  # timm cuts off
        ratio = math.nextafter(ratio, math.inf)
    ours = {ours: theirs for theirs, ours in POOLS.items()}
    gelus = {ours: theirs for theirs, ours in GELUS.items()}
    return {
        "img_size": list(config.image_size),
        "patch_size": list(config.patch_size),
        "in_chans": config.in_channels,
        "embed_dim": config.embed_dim,
        "depth": config.depth,
        "num_heads": config.num_heads,
        "mlp_ratio": ratio,
        "class_token": config.class_token,
        **({"reg_tokens": config.registers} if config.registers else {}),
        "pos_embed": "none" if config.position == NoPosition() else "learn",
        "global_pool": ours[config.pool],
        # the mean of normed tokens; timm's own is the norm of their mean
        "fc_norm": False,
        "act_layer": gelus[config.gelu],
        "norm_layer": "layernorm",
    }
