"""timm's Eva: the ViTs of its list that rotate q and k, DINOv3 among them.

What is called otherwise than in its plain ViT, and built otherwise.

`rows_in(["blocks.0.gamma_1"])` is that name beside ours, `blocks.0.ls1.gamma`.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from vitedu.model import RoPE, ViTConfig
from vitedu.weights.mapping import Row, to_theirs

PLAIN = "vit_small_patch16_rope_224"  # of which all sizes can be set
WITH_EPS = "vit_small_patch16_dinov3"  # and its norms' epsilon is 1e-5


def rows_in(names: Iterable[str]) -> Iterator[Row]:
    for name in names:
        if re.search(r"attn\.[kv]_bias$|mlp\.fc1_x\.", name):
            continue  # with its sister
        theirs: tuple[str, ...] = (name,)
        ours = re.sub(r"^attn_pool\.", "pool.", name)
        ours = re.sub(r"\.gamma_(\d)$", r".ls\1.gamma", ours)
        if name.endswith("attn.q_bias"):
            ours = name.replace("q_bias", "qkv.bias")
            theirs = tuple(name.replace("q_bias", f"{x}_bias") for x in "qkv")
        elif "mlp.fc1_g." in name:
            ours = name.replace("fc1_g", "fc1")
            theirs = (name, name.replace("fc1_g", "fc1_x"))
        yield Row(ours, theirs, "same")


def with_k_bias(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    """The arrays, with the zeros that Eva has in place of k's bias."""
    return arrays | {
        name.replace("q_bias", "k_bias"): torch.zeros_like(bias)
        for name, bias in arrays.items()
        if name.endswith("attn.q_bias")
    }


def rope_of(model: nn.Module) -> RoPE | None:
    rope: Any = getattr(model, "rope", None)
    if rope is None:
        return None
    across = getattr(rope, "ref_feat_shape", None)
    return RoPE(
        rope.temperature,
        rows_first=rope.grid_indexing == "ij" and not is_unit(rope),
        across=across[0] if across else None,
        unit=is_unit(rope),
    )


def is_unit(rope: nn.Module) -> bool:
    return type(rope).__name__ == "RotaryEmbeddingDinoV3"


def foreign_part(model: Any) -> str | None:
    rope, attn = model.rope, model.blocks[0].attn
    if rope is not None:
        usual = {"in_pixels": False, "grid_offset": 0, "max_period": None}
        across = getattr(rope, "ref_feat_shape", None) or (1, 1)
        if type(rope).__name__ == "RotaryEmbeddingMixed":
            return "a RoPE whose speeds are learned"
        if model.pos_embed is not None:
            return "a table of positions beside its RoPE"
        if across[0] != across[1] or attn.rotate_half != is_unit(rope):
            return "another RoPE"
        if any(getattr(rope, x, y) != y for x, y in usual.items()):
            return "another RoPE"
    if attn.gate is not None:
        return "a gate behind its attention"
    return None


def has_k_bias(state: dict[str, Tensor]) -> bool:
    biases = (x for name, x in state.items() if name.endswith("attn.qkv.bias"))
    return any(bool(bias.chunk(3)[1].any()) for bias in biases)


def from_ours(state: dict[str, Tensor], config: ViTConfig) -> dict[str, Tensor]:
    """The arrays under Eva's names, without a bias of k that is all zeros."""
    arrays = to_theirs(rows_of(state, config), state)
    return {k: x for k, x in arrays.items() if not k.endswith("attn.k_bias")}


def rows_of(state: dict[str, Tensor], config: ViTConfig) -> Iterator[Row]:
    is_fused = has_k_bias(state)
    for ours in state:
        name = re.sub(r"^pool\.", "attn_pool.", ours)
        name = re.sub(r"\.ls(\d)\.gamma$", r".gamma_\1", name)
        theirs: tuple[str, ...] = (name,)
        if name.endswith("attn.qkv.bias") and not is_fused:
            theirs = tuple(name.replace("qkv.", f"{x}_") for x in "qkv")
        elif ".mlp.fc1." in name and config.block.swiglu:
            theirs = tuple(name.replace("fc1", f"fc1_{x}") for x in "gx")
        yield Row(ours, theirs, "same")


def args_of(
    config: ViTConfig, state: dict[str, Tensor], args: dict[str, Any]
) -> dict[str, Any]:
    rope, block = config.position, config.block
    same = {"img_size", "patch_size", "in_chans", "embed_dim", "depth"}
    same |= {"num_heads", "class_token", "global_pool"}
    side = [rope.across] * 2 if rope.across else None
    return {name: args[name] for name in same & args.keys()} | {
        "mlp_ratio": args["mlp_ratio"] / (2 if block.swiglu else 1),
        "swiglu_mlp": block.swiglu,
        "swiglu_align_to": 1,
        "num_reg_tokens": config.registers,
        "use_fc_norm": config.pool == "mean_norm",
        "init_values": block.layer_scale,
        "qkv_bias": block.qkv_bias,
        "qk_norm": block.qk_norm,
        "attn_type": "rope" if has_k_bias(state) else "eva",
        "use_abs_pos_emb": False,
        "use_rot_pos_emb": True,
        "rope_type": "dinov3" if rope.unit else "cat",
        "rope_temperature": rope.theta,
        "rope_grid_indexing": "ij" if rope.unit or rope.rows_first else "xy",
        "rope_rotate_half": rope.unit,
        "ref_feat_shape": side,
    }
