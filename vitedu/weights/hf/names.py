"""What transformers calls our arrays: a table for each of its families.

`rows_in(12, VIT, "vit.")` are the rows of a ViT's names for `mapping.to_ours`.
"""

from collections.abc import Iterator
from typing import NamedTuple

from vitedu.pictures import IMAGENET, Interpolation
from vitedu.weights.mapping import Row, layer


class Spelling(NamedTuple):
    """Its names for ours, without what stands in front of all of them."""

    prefixes: tuple[str, ...]  # what may stand there
    names: dict[str, str]
    place: str  # of the blocks
    block: dict[str, list[str]]  # in a block; several are joined


FILE = {
    "attn.qkv": [f"attention.attention.{x}" for x in ("query", "key", "value")],
    "attn.proj": ["attention.output.dense"],
}
MEMORY = {
    "attn.qkv": [f"attention.{x}_proj" for x in "qkv"],
    "attn.proj": ["attention.o_proj"],
}
NORMS = {"norm1": ["layernorm_before"], "norm2": ["layernorm_after"]}
MLP = {"mlp.fc1": ["mlp.fc1"], "mlp.fc2": ["mlp.fc2"]}
DENSE = {"mlp.fc1": ["intermediate.dense"], "mlp.fc2": ["output.dense"]}
GATED = {"mlp.fc1": ["mlp.weights_in"], "mlp.fc2": ["mlp.weights_out"]}
SCALED = {x: [x] for x in ("norm1", "norm2")} | {
    f"ls{i}.gamma": [f"layer_scale{i}.lambda1"] for i in (1, 2)
}
VIT = Spelling(
    ("vit.", "", "deit."),
    {
        "cls_token": "embeddings.cls_token",
        "pos_embed": "embeddings.position_embeddings",
        "patch_embed.proj": "embeddings.patch_embeddings.projection",
        "norm": "layernorm",
        "pre_logits.fc": "pooler.dense",
    },
    "encoder.layer",
    NORMS | FILE | DENSE,
)
VIT_NOW = VIT._replace(place="layers", block=NORMS | MEMORY | MLP)
DINO = Spelling(
    ("dinov2.", "dinov2_with_registers.", ""),
    VIT.names | {"reg_token": "embeddings.register_tokens"},
    "encoder.layer",
    SCALED | FILE | MLP,
)
DINO_NOW = DINO._replace(block=SCALED | MEMORY | MLP)
GIANT = DINO._replace(block=SCALED | FILE | GATED)
GATE_AND_UP = {"mlp.fc1": ["mlp.gate_proj", "mlp.up_proj"]}
DINO3 = Spelling(
    ("",),
    {name: DINO.names[name] for name in ("cls_token", "reg_token")}
    | {"patch_embed.proj": "embeddings.patch_embeddings", "norm": "norm"},
    "layer",
    SCALED
    | MEMORY
    | {"mlp.fc1": ["mlp.up_proj"], "mlp.fc2": ["mlp.down_proj"]},
)
PLUS = DINO3._replace(block=DINO3.block | GATE_AND_UP)
DINO3S = [
    each._replace(place=place)
    for place in ("layer", "model.layer")
    for each in (PLUS, DINO3)  # which has fewer names
]
CLIP = Spelling(
    ("vision_model.", ""),
    {
        "cls_token": "embeddings.class_embedding",
        "pos_embed": "embeddings.position_embedding.weight",
        "patch_embed.proj": "embeddings.patch_embedding",
        "norm_pre": "pre_layrnorm",
        "norm": "post_layernorm",
        "pool.latent": "head.probe",
        "pool.q": "head.attention.q",
        "pool.kv": "head.attention.kv",
        "pool.proj": "head.attention.out_proj",
        "pool.norm": "head.layernorm",
        "pool.mlp.fc1": "head.mlp.fc1",
        "pool.mlp.fc2": "head.mlp.fc2",
    },
    "encoder.layers",
    {
        "norm1": ["layer_norm1"],
        "attn.qkv": [f"self_attn.{x}_proj" for x in "qkv"],
        "attn.proj": ["self_attn.out_proj"],
        "norm2": ["layer_norm2"],
        **MLP,
    },
)
# its model_type, its class without a head, and what ends that with one
CLASSES = {
    "vit": ("vit", "ViT", "ForImageClassification"),
    "dinov2": ("dinov2", "Dinov2", "ForImageClassification"),
    "dinov3": ("dinov3_vit", "DINOv3ViT", ""),
    "clip": ("clip_vision_model", "CLIPVision", "ModelWithProjection"),
    "siglip": ("siglip_vision_model", "SiglipVision", "ForImageClassification"),
}
SPELLINGS = [
    (spelling, prefix)
    for spelling in (VIT, VIT_NOW, DINO, DINO_NOW, GIANT, *DINO3S, CLIP)
    for prefix in spelling.prefixes
]
# names of one array each, and the two that CLIP has in another form
ARRAYS = ("cls_token", "reg_token", "pos_embed", "pool.latent", "gamma")
FORMS = {
    "embeddings.class_embedding": "row",
    "embeddings.position_embedding.weight": "rows",
}


class Kind(NamedTuple):
    """A family of its networks, and what it has where nothing says."""

    whose: str
    gelu: str
    norm_eps: float
    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.5,)
    interpolation: Interpolation = "bicubic"
    crop: float | None = None


OPENAI = (
    (0.48145466, 0.4578275, 0.40821073),
    (0.26862954, 0.26130258, 0.27577711),
)
KINDS = {
    "vit": Kind("Google's ViTs", "gelu", 1e-12, interpolation="bilinear"),
    "vit_mae": Kind("MAE", "gelu", 1e-12, *IMAGENET),
    "dinov2": Kind("DINOv2", "gelu", 1e-6, *IMAGENET, crop=0.875),
    "dinov3": Kind("DINOv3", "gelu", 1e-5, *IMAGENET, "bilinear"),
    "clip": Kind("OpenAI's CLIP", "quick_gelu", 1e-5, *OPENAI, crop=1.0),
    "siglip": Kind("SigLIP", "gelu_pytorch_tanh", 1e-6),
}


def rows_in(depth: int, spelling: Spelling, prefix: str) -> Iterator[Row]:
    names = {ours: [theirs] for ours, theirs in spelling.names.items()}
    for i in range(depth):
        start = f"{spelling.place}.{i}."
        for ours, theirs in spelling.block.items():
            names[f"blocks.{i}.{ours}"] = [start + name for name in theirs]
    for ours, theirs in names.items():
        whole = tuple(prefix + name for name in theirs)
        if ours.endswith(ARRAYS):
            yield Row(ours, whole, FORMS.get(theirs[0], "same"))
        else:
            yield from layer(ours, *whole)
    yield from layer("head", "classifier")
