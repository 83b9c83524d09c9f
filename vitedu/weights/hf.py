"""Hugging Face's dialect: the ViT of transformers, under both of its spellings.

Files carry the older one, `vit.encoder.layer.0.attention.attention.query`, which every
version reads; in memory transformers 5 says `vit.layers.0.attention.q_proj`. A ViTModel
alone has no `vit.` in front, and its pooler is our pre-logits layer without a head.
What the arrays cannot say is in config.json and preprocessor_config.json, which
`vitedu.weights.hf_about` reads and writes.

`load("google/vit-base-patch16-224")`
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor

from vitedu.errors import UserError
from vitedu.model import Patches, Standard, ViTConfig
from vitedu.model.position import Learned1D
from vitedu.model.resnet import ResNetConfig
from vitedu.weights.hf_about import (
    GELUS,
    beside,
    class_names,
    config_of,
    preprocess,
)
from vitedu.weights.rows import Row, to_ours, to_theirs
from vitedu.weights.sizes import (
    Names,
    check_holds,
    sizes_in,
)

__all__ = [
    "beside",
    "class_names",
    "dropped",
    "from_vitedu",
    "preprocess",
    "recognises",
    "to_vitedu",
]

RESIZE = "hf"

EPS = 1e-12  # where config.json says none
# parts of its other models: a decoder, the token that is put for a hidden patch
OTHERS = re.compile(
    r"decoder\.(\d+|decoder_(embed|layers|norm|pred))\."
    r"|decoder\.(mask_token|decoder_pos_embed)$|(vit\.)?embeddings\.mask_token$"
)
LEFT_OUT = "the decoder and the token for hidden patches"


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
    """The prefix of all names, and how the blocks are spelt."""
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
        # its classifier reads the class token, not the pooler
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
