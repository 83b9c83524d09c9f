"""Hugging Face's dialect: the ViT of transformers, under both of its spellings.

Files carry the older one, `vit.encoder.layer.0.attention.attention.query`,
which every version reads; in memory transformers 5 says
`vit.layers.0.attention.q_proj`. A ViTModel alone has no `vit.` in front, and
its pooler is our pre-logits layer without a head. What the arrays cannot say is
in config.json and preprocessor_config.json, which `vitedu.weights.hf_config`
reads and writes.

`load("google/vit-base-patch16-224")`
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor

from vitedu.errors import UserError
from vitedu.model import ViTConfig
from vitedu.weights.checkpoint import About, Checkpoint
from vitedu.weights.hf_config import GELUS, beside, config_of, preprocess
from vitedu.weights.hf_config import class_names as stored_names
from vitedu.weights.renaming import (
    Row,
    check_holds,
    check_vit,
    layer,
    note_on_dropped,
    to_ours,
    to_theirs,
)
from vitedu.weights.vit_sizes import Names, check_no_distillation, sizes_in

__all__ = ["MARKS", "beside", "from_vitedu", "to_vitedu"]

EPS = 1e-12  # where config.json says none
# parts of its other models: a decoder, the token that is put for a hidden patch
OTHERS = re.compile(
    r"decoder\.(\d+|decoder_(embed|layers|norm|pred))\."
    r"|decoder\.(mask_token|decoder_pos_embed)$|(vit\.)?embeddings\.mask_token$"
)


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


SPELLINGS = [(x, y) for x in ("vit.", "", "deit.") for y in (FILE, MEMORY)]
PATCHES = "embeddings.patch_embeddings.projection.weight"


def marks_of(prefix: str, spelling: Spelling) -> set[str]:
    """Arrays of every file with this prefix and spelling of its names."""
    query = f"{prefix}{spelling.block}.0.{spelling.query}.weight"
    return {prefix + PATCHES, query}


MARKS = tuple(marks_of(*each) for each in SPELLINGS)


def to_vitedu(arrays: dict[str, Tensor], about: About) -> Checkpoint:
    """The checkpoint in a file.

    Without a config.json, GELU is exact and epsilon 1e-12, as by default.
    UserError: something must be asked for, is missing or left over, or ours
    cannot be that network.
    """
    dropped = tuple(name for name in arrays if OTHERS.match(name))
    arrays = {k: v for k, v in arrays.items() if k not in dropped}
    prefix, spelling = next(
        (each for each in SPELLINGS if marks_of(*each) <= arrays.keys()),
        SPELLINGS[0],
    )
    check_no_distillation(f"{prefix}embeddings.distillation_token" in arrays)
    names = Names(
        patches=prefix + PATCHES,
        class_token=f"{prefix}embeddings.cls_token",
        positions=f"{prefix}embeddings.position_embeddings",
        block=re.escape(f"{prefix}{spelling.block}.") + r"(\d{1,4})\.",
        mlp=f"{prefix}{spelling.block}.0.{spelling.fc1}.weight",
        head="classifier.weight",
        pre_logits=f"{prefix}pooler.dense.weight",
    )
    beside = config_of(about)
    stated = fields_in(beside)
    sizes = sizes_in(
        arrays, names, stated=stated, about=about, class_token=True
    )
    if sizes["pre_logits"] and sizes["num_classes"]:
        # its classifier reads the class token, not the pooler
        raise UserError(
            f"it has a head and {names.pre_logits!r}, which its head does not "
            "see; take the pooler away"
        )
    if beside.get("pooler_act", "tanh") != "tanh" and sizes["pre_logits"]:
        raise UserError(
            f"its pooler ends in {beside['pooler_act']!r}, vitedu's pre-logits "
            "in tanh"
        )
    config = ViTConfig(
        **sizes, gelu=stated["gelu"], norm_eps=stated.get("norm_eps", EPS)
    )
    spec, doubts = preprocess(config, about)
    return Checkpoint(
        config,
        to_ours(rows_in(config, prefix, spelling), arrays, config.num_heads),
        spec,
        stored_names(config, about),
        resize_mode="hf",
        dropped=dropped,
        notes=note_on_dropped(
            dropped, "the decoder and the token for hidden patches"
        ),
        doubts=doubts,
    )


def fields_in(config: dict[str, Any]) -> dict[str, Any]:
    """A Hugging Face config.json in our terms. UserError: its activation."""
    ours = {
        "hidden_size": "embed_dim",
        "num_hidden_layers": "depth",
        "intermediate_size": "mlp_dim",
        "num_attention_heads": "num_heads",
        "image_size": "image_size",
        "layer_norm_eps": "norm_eps",
    }
    stated = {ours[name]: config[name] for name in ours if name in config}
    activation = config.get("hidden_act", "gelu")
    for gelu, names in GELUS.items():
        if activation in names:
            return stated | {"gelu": gelu}
    raise UserError(
        f"its config.json says hidden_act={activation!r}, which vitedu's "
        "network does "
        "not have; known: " + ", ".join(sum(GELUS.values(), ()))
    )


def rows_in(
    config: ViTConfig, prefix: str, spelling: Spelling
) -> Iterator[Row]:
    """Our names beside Hugging Face's; q, k and v are one matrix in ours."""

    first = f"{prefix}embeddings"
    yield Row("cls_token", (f"{first}.cls_token",), "same")
    yield Row("pos_embed", (f"{first}.position_embeddings",), "same")
    yield from layer("patch_embed.proj", f"{first}.patch_embeddings.projection")
    for i in range(config.depth):
        ours, theirs = f"blocks.{i}", f"{prefix}{spelling.block}.{i}"
        qkv = (spelling.query, spelling.key, spelling.value)
        yield from layer(f"{ours}.norm1", f"{theirs}.layernorm_before")
        yield from layer(f"{ours}.attn.qkv", *(f"{theirs}.{x}" for x in qkv))
        yield from layer(f"{ours}.attn.proj", f"{theirs}.{spelling.out}")
        yield from layer(f"{ours}.norm2", f"{theirs}.layernorm_after")
        yield from layer(f"{ours}.mlp.fc1", f"{theirs}.{spelling.fc1}")
        yield from layer(f"{ours}.mlp.fc2", f"{theirs}.{spelling.fc2}")
    yield from layer("norm", f"{prefix}layernorm")
    if config.pre_logits:
        yield from layer("pre_logits.fc", f"{prefix}pooler.dense")
    if config.num_classes:
        yield from layer("head", "classifier")


def from_vitedu(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The arrays as transformers stores them: with a head those of
    ViTForImageClassification, without one those of ViTModel.

    UserError: its ViT cannot be this network.
    """
    owner = "Hugging Face's ViT"
    config = check_vit(owner, checkpoint.config)
    is_below_head = bool(config.pre_logits and config.num_classes)
    check_holds(owner, {"a pre-logits layer below a head": is_below_head})
    prefix = "vit." if config.num_classes else ""
    return to_theirs(rows_in(config, prefix, FILE), checkpoint.state_dict, 0)
