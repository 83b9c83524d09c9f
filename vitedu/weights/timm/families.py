"""Whose files have timm's names: DeiT's, DINO's, DINOv2's, MAE's, MoCo-v3's.

`family_of("dino_deitsmall16_pretrain")` is "dino".
"""

import re
from dataclasses import fields

from torch import Tensor

from vitedu.model import ViTConfig
from vitedu.model.mae import MAEConfig
from vitedu.weights.mapping import depth_in, with_register_rows

# Ways of training whose files hold more than the network: what stands in front
# of the network's own names, and what is left out
AROUND = {
    "mae": (
        "",
        r"decoder_(embed|blocks|norm|pred)\.|(decoder_pos_embed|mask_token)$",
        "MAE's decoder, or a token for hidden patches",
    ),
    "dino": ("backbone.", r"(dino_|ibot_)?head\.", "DINO's head"),
    "moco": (
        "base_encoder.",
        r"base_encoder\.head\.|momentum_encoder\.|predictor\.",
        "MoCo's heads and the slow copy of its network",
    ),
}
# DINOv2's own names and timm's
AUTHORS = {
    "register_tokens": "reg_token",
    "mlp.w12": "mlp.fc1",
    "mlp.w3": "mlp.fc2",
}
# in a file's name; they have ImageNet's preprocessing, and MoCo-v3 other heads
FAMILIES = re.compile(r"(?:^|[_-])(deit|dino|mae|moco)")


COMPLETES = (
    "its decoder is taken for one of pixels as they are, as in the files that "
    "Facebook's authors draw with; if it learned normalised ones, give "
    "normalised=True"
)


def by_timm(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    """DINOv2's arrays as timm calls them, where its authors don't."""
    registers, table = arrays.get("register_tokens"), arrays.get("pos_embed")
    if registers is not None and table is not None:
        table = with_register_rows(table, registers)
        arrays = arrays | {"pos_embed": table}
    for theirs, name in AUTHORS.items():
        arrays = {k.replace(theirs, name): x for k, x in arrays.items()}
    return arrays


def family_of(name: str) -> str | None:
    found = FAMILIES.search(name)
    return found and found[1]


def with_decoder(config: ViTConfig, decoder: dict[str, Tensor]) -> MAEConfig:
    """The configuration of a masked autoencoder; its heads are 32 wide."""
    width = decoder["mask_token"].shape[-1]
    names = {x.name: getattr(config, x.name) for x in fields(ViTConfig)}
    return MAEConfig(
        **names,
        decoder_dim=width,
        decoder_depth=depth_in(decoder, r"decoder_blocks\."),
        decoder_heads=max(width // 32, 1),
        normalised=False,
    )
