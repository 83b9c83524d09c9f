"""timm's dialect, with its variants: DeiT, DINO (the first) and MAE's encoder.

timm's names are ours, except for attention pooling. What the arrays cannot say
is in a config.json beside them, else in timm's own table of names.

`load("vit_tiny_patch16_224.augreg_in21k_ft_in1k.safetensors")`
"""

import math
import re
from typing import Any

import torch
from torch import Tensor

from vitedu.compat import import_timm
from vitedu.errors import UserError, reason
from vitedu.model import (
    Hybrid,
    Learned1D,
    NoPosition,
    ResNetConfig,
    ViTConfig,
    new_network,
)
from vitedu.pictures import INTERPOLATIONS, PreprocessSpec
from vitedu.weights import mapping
from vitedu.weights.checkpoint import (
    Checkpoint,
    Metadata,
    NetworkConfig,
    names_in,
)
from vitedu.weights.mapping import Mapped, Row

# a ViT or a hybrid, and a ResNetV2
MARKS = (
    {"patch_embed.proj.weight", "blocks.0.attn.qkv.weight"},
    {"stem.conv.weight", "stages.0.blocks.0.conv1.weight"},
)
SUFFIXES = ()  # a folder
POSITIONS = (Learned1D(), NoPosition())
# MAE's decoder and its mask token
DECODER = re.compile(
    r"decoder_(embed|blocks|norm|pred)\.|(decoder_pos_embed|mask_token)$"
)
POOLS = {"token": "token", "avg": "mean", "map": "map", "": "none"}
GELUS = {"gelu": "exact", "gelu_tanh": "tanh"}
# the arguments of its VisionTransformer that say what arrays do not
ARGS = (
    *("img_size", "patch_size", "embed_dim", "depth", "num_heads"),
    *("class_token", "pos_embed", "pool_include_prefix", "global_pool"),
    *("act_layer", "norm_layer"),
)
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

PLAIN = "vit_base_patch16_224"  # of which all sizes can be set
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


def to_vitedu(arrays: dict[str, Tensor], metadata: Metadata) -> Checkpoint:
    """The checkpoint in a file.

    Defaults: exact GELU, epsilon 1e-6, and the class token as pool (without
    one, the mean). A norm after the pool (fc_norm) is accepted if the pool is
    known to be the class token, where it is the same function.
    """
    dropped = tuple(name for name in arrays if DECODER.match(name))
    arrays = {k: v for k, v in arrays.items() if k not in dropped}
    mapping.check_no_distillation("dist_token" in arrays)
    is_resnet = MARKS[1] <= arrays.keys()
    mapped = mapping.to_ours(rows_in(arrays), arrays)
    config = (resnet_config_in if is_resnet else vit_config_in)(
        mapped, metadata
    )
    mapping.check_complete(mapped, config)
    state = mapped.state
    spec, doubts = preprocess(config, metadata)
    notes = mapping.note_on_dropped(dropped, "MAE's decoder")
    if config.has_resnet:
        kind, moved = ("BiT", "1e-5") if is_resnet else ("hybrids", "5e-4")
        notes += (
            f"timm has other small numbers in the norms of {kind} than their "
            "authors; vitedu has the authors', which moves logits by up to "
            f"{moved} of the largest",
        )
    return Checkpoint(
        config,
        state if is_resnet else mapping.with_prefix_rows(state, config),
        spec,
        class_names(config, metadata),
        resize_mode="paper" if is_resnet else "timm",
        dropped=dropped,
        notes=notes,
        doubts=doubts,
    )


def rows_in(arrays: dict[str, Tensor]) -> list[Row]:
    norm = "fc_norm." if "fc_norm.weight" in arrays else "norm."
    ours = {norm: "norm.", "attn_pool.": "pool."}
    rows = []
    for name in arrays:
        first, dot, rest = name.partition(".")
        start = ours.get(first + dot, first + dot)
        if norm == "norm." or first != "norm":  # which is left over beside it
            rows.append(Row(start + rest, (name,), "same"))
    return rows


def vit_config_in(mapped: Mapped, metadata: Metadata) -> ViTConfig:
    state = mapped.state
    width = mapping.width_of(mapped, "patch_embed.proj.weight", 4)
    stated = fields_of(metadata, width, mapping.depth_in(state, r"blocks\."))
    pool = metadata.pool or stated.get("pool")
    has_fc_norm = ("fc_norm.weight",) in mapped.theirs.values()
    if has_fc_norm and pool not in ("token", "none"):
        raise UserError(
            "it takes the norm of the mean of the tokens (timm's fc_norm), "
            "where vitedu takes the mean of normed tokens, which is another "
            "function"
        )
    sizes = mapping.sizes_in(mapped, metadata, stated)
    if pool is None:
        pool = "token" if sizes["class_token"] else "mean"
        pool = "map" if "pool.latent" in state else pool
    is_over_all = stated.get("pool_include_prefix") and sizes["class_token"]
    if is_over_all and pool in ("mean", "map"):
        raise UserError(
            "it pools over the class token too (timm's pool_include_prefix), "
            "which vitedu's network does not"
        )
    position = Learned1D()
    if "pos_embed" not in state:
        position = metadata.position or stated.get("position")
        if position != NoPosition():
            raise UserError(
                "it lacks 'pos_embed'; if it was trained without positions, "
                "give position=NoPosition() (in the command position=none)"
            )
    return ViTConfig(
        **sizes,
        position=position,
        pool=pool,
        gelu=stated.get("gelu", "exact"),
        norm_eps=stated.get("norm_eps", 1e-6),
    )


def resnet_config_in(mapped: Mapped, metadata: Metadata) -> ResNetConfig:
    layers, width, in_channels = mapping.resnet_in(mapped)
    size = pretrained_cfg(metadata).get("input_size")
    size = size[1:] if isinstance(size, list | tuple) else metadata.image_size
    is_v1 = "stem.norm.weight" in mapped.state
    return ResNetConfig(
        family="bit-v1" if is_v1 else "bit-v2",
        layers=layers,
        width=width,
        num_classes=mapping.width_of(mapped, "head.fc.weight", 4) or 0,
        in_channels=in_channels,
        pool_padding=metadata.pool_padding,
        **({"image_size": size} if size else {}),
    )


def from_vitedu(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The arrays under timm's names. UserError: timm has no such network."""
    config = checkpoint.config
    if isinstance(config, ResNetConfig):
        family, padding = config.family, config.pool_padding
        layers, width = config.layers, config.width
        known = (layers, width) in RESNETS
        mapping.check_holds(
            "timm's BiT",
            {
                f"family {family}": family != "bit-v2",
                f"layers={layers} of width {width}": not known,
                f"pool_padding={padding!r}": padding != "zeros",
            },
        )
    else:
        owner, stem = "timm's ViT", config.stem
        open_to = {"stem": (), "pool": (), "registers": ()}
        mapping.check_vit(owner, config, position=POSITIONS, **open_to)
        is_unknown = config.has_resnet and (
            stem.width != 1 or stem.layers not in HYBRIDS
        )
        mapping.check_holds(
            owner,
            {
                "a pre-logits layer": config.pre_logits is not None,
                f"stem={stem}": is_unknown,
            },
        )
    rows = [
        Row(ours, (re.sub(r"^pool\.", "attn_pool.", ours),), "same")
        for ours in checkpoint.state_dict
    ]
    return mapping.to_theirs(rows, checkpoint.state_dict)


# --- what is known besides: config.json, else timm's own table of names


def config_of(metadata: Metadata) -> dict[str, Any] | None:
    is_timms = isinstance(metadata.config.get("architecture"), str)
    return metadata.config if is_timms else None


def fields_of(
    metadata: Metadata, embed_dim: int | None, depth: int
) -> dict[str, Any]:
    """Fields of a ViTConfig, and pool_include_prefix, that timm's model has.

    The model is named by config.json, else by the file's name, which counts
    only if width and depth fit the arrays.
    """
    config = config_of(metadata)
    if config is None:
        known = fields_by_name(name_of(metadata))
        sizes = known.get("embed_dim"), known.get("depth")
        return known if sizes == (embed_dim, depth) else {}
    args = config.get("model_args")
    args = args if isinstance(args, dict) else {}
    known = {name: args[name] for name in ARGS if name in args}
    return fields_by_name(config["architecture"], **known)


def name_of(metadata: Metadata) -> str:
    return metadata.header.get("architecture") or metadata.name


def fields_by_name(name: str, **args: Any) -> dict[str, Any]:
    """Fields of timm's model of this name and arguments, built without weights.

    {}: timm has no such name. UserError: it isn't a plain ViT.
    """
    architecture = look_up(name)[0] or (args and PLAIN)
    if not architecture or architecture.startswith("resnetv2"):
        return {}
    from timm import create_model

    try:
        with torch.device("meta"):
            model = create_model(architecture, **args)
    # timm raises what its layers do with such arguments
    except Exception as error:
        raise UserError(
            f"timm cannot build the {architecture} of its config.json: "
            f"{reason(error)}"
        ) from None
    block = getattr(model, "blocks", [None])[0]
    kinds = [
        type(x).__name__ for x in (model, block, getattr(block, "attn", None))
    ]
    if kinds != ["VisionTransformer", "Block", "Attention"]:
        raise UserError(
            f"timm's {architecture} is a {kinds[0]} with blocks {kinds[1]}, "
            "which is another network than the paper's ViT"
        )
    kinds = [type(x).__name__ for x in (block.norm1, block.mlp.act)]
    approximate = getattr(block.mlp.act, "approximate", None)
    is_tanh = approximate == "tanh" or kinds[1] == "GELUTanh"
    is_known = kinds[0].startswith("LayerNorm") and kinds[1].startswith("GELU")
    if model.global_pool not in POOLS or not is_known:
        raise UserError(
            f"timm's {architecture} pools by {model.global_pool!r} and has "
            f"{kinds[0]} and {kinds[1]}, which vitedu's network cannot"
        )
    has_none = model.pos_embed is None
    return {
        **({"position": NoPosition()} if has_none else {}),
        "embed_dim": model.embed_dim,
        "depth": len(model.blocks),
        "num_heads": block.attn.num_heads,
        "image_size": tuple(model.patch_embed.img_size),
        "norm_eps": block.norm1.eps,
        "pool_include_prefix": model.pool_include_prefix,
        "pool": POOLS[model.global_pool],
        "gelu": "tanh" if is_tanh else "exact",
    }


def look_up(name: str) -> tuple[str | None, dict[str, Any]]:
    """timm's architecture of a name, and its pretrained_cfg; else None and {}.

    File names of weights that timm downloads from elsewhere work too:
    "dino_vitbase16_pretrain".
    """
    if "_" not in name:
        return None, {}
    import_timm()
    from timm.models import get_pretrained_cfg, is_model, list_pretrained

    bare = re.sub(r"-[0-9a-f]{8}$", "", name)
    architecture = bare.partition(".")[0]
    if is_model(architecture):
        try:
            known = get_pretrained_cfg(bare)
        except RuntimeError:  # the tag is not timm's
            known = None
        return architecture, known.to_dict() if known else {}
    for other in list_pretrained():
        known = get_pretrained_cfg(other)
        url = known.url if isinstance(known.url, str) else ""
        if url.rpartition("/")[2].rpartition(".")[0] == name:
            return other.partition(".")[0], known.to_dict()
    return None, {}


def pretrained_cfg(metadata: Metadata) -> dict[str, Any]:
    """pretrained_cfg of config.json, else of timm's table of names, else {}."""
    config = config_of(metadata)
    if config is None:
        return look_up(name_of(metadata))[1]
    inner = config.get("pretrained_cfg")
    return inner if isinstance(inner, dict) else config  # older files' form


def class_names(config: NetworkConfig, metadata: Metadata) -> tuple[str, ...]:
    key = "label_names"
    names = (config_of(metadata) or {}).get(key)
    names = names or pretrained_cfg(metadata).get(key)
    if not isinstance(names, list) or len(names) != config.num_classes:
        return ()
    return names_in(names)


def preprocess(
    config: NetworkConfig, metadata: Metadata
) -> tuple[PreprocessSpec, tuple[str, ...]]:
    """By `pretrained_cfg`, else as nearly all of timm's ViTs; with doubts."""
    cfg, doubts = pretrained_cfg(metadata), ()
    if not cfg:
        cfg = dict(USUAL)
        if FAMILIES.search(name_of(metadata)):
            cfg |= {"mean": DEFAULT["mean"], "std": DEFAULT["std"]}
        else:
            doubts = (
                "neither a config.json nor the file's name says how its "
                "pictures are prepared; mean and std 0.5 are assumed, as for "
                "most ViTs of timm, where DeiT, DINO and MAE want "
                f"{DEFAULT['mean']} and {DEFAULT['std']}",
            )
    cfg, unsupported = {**DEFAULT, **cfg}, []
    size = cfg.get("input_size")
    size = size[1:] if isinstance(size, list | tuple) else config.image_size
    crop, mode = cfg["crop_pct"] or DEFAULT["crop_pct"], cfg["crop_mode"]
    interpolation = cfg["interpolation"]
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
    if unsupported:
        doubts += (
            f"its pictures are prepared with {', '.join(unsupported)}, which "
            "vitedu cannot do",
        )
    mean, std = cfg["mean"], cfg["std"]
    if len(mean) != config.in_channels:  # as timm does
        mean, std = sum(mean) / len(mean), sum(std) / len(std)
    spec = PreprocessSpec(
        tuple(size), config.in_channels, mean, std, interpolation, crop
    )
    return spec, doubts


def beside(checkpoint: Checkpoint) -> dict[str, dict[str, Any]]:
    """The config.json with which timm builds the model as `local-dir:`."""
    config, names = checkpoint.config, list(checkpoint.class_names)
    with torch.device("meta"):
        model = new_network(config)
    model.preprocess = checkpoint.preprocess
    if isinstance(config, ViTConfig):
        sizes = config.embed_dim, config.depth, config.patch_size[0]
        architecture, args = ARCHITECTURES.get(sizes, PLAIN), args_of(config)
        if isinstance(config.stem, Hybrid):
            architecture = HYBRIDS[config.stem.layers]
        features, pool = config.embed_dim, args["global_pool"]
    else:
        architecture = RESNETS[config.layers, config.width]
        args = {"in_chans": config.in_channels}
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


def args_of(config: ViTConfig) -> dict[str, Any]:
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
