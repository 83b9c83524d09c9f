"""A network by its name, without weights: the paper's names, and timm's.

`vit("vit_small_patch16_rope_224", num_classes=10)`
"""

import re
from dataclasses import fields, replace
from functools import cache
from typing import Any, Unpack

import torch

from vitedu.compat import import_timm
from vitedu.errors import UserError, explained, unknown
from vitedu.fields import check_names, with_meanings
from vitedu.model import HYBRIDS, NAMES, RESNETS, ViT, ViTConfig, resnet_config
from vitedu.model import vit_config as papers_config
from vitedu.model.config import ViTFields
from vitedu.model.network import NetworkConfig
from vitedu.model.vit import take_any_size
from vitedu.weights import hub
from vitedu.weights.checkpoint import Checkpoint, Metadata
from vitedu.weights.timm import plain as timm


def vit(
    name: str, *, dynamic: bool = False, **fields: Unpack[ViTFields]
) -> ViT:
    """A new model by its name, "ViT-B/16" or timm's, with fields overridden.

    `vit("ViT-Ti/16", image_size=64, num_classes=10)` maps images (b, 3, 64, 64)
    to logits (b, 10); names are as in `vit_config`, the fields are ViTConfig's.
    By timm's name it also prepares pictures and resizes positions as timm's
    does. `dynamic` is as in `load`.

    UserError: the name or a field is unknown, the fields do not fit each
    other, or timm's network has a part that vitedu's hasn't.
    """
    model = ViT(vit_config(name, **fields))
    if is_like_timms(name):
        size = model.config.image_size, model.config.in_channels
        model.preprocess = timms(name).preprocess.sized(*size)
        model.resize_mode = "timm"
    if dynamic:
        take_any_size(model)
    return model


vit.__doc__ = with_meanings(vit.__doc__, ViTConfig)


def vit_config(name: str, **overrides: Unpack[ViTFields]) -> ViTConfig:
    """The configuration of a name, with other fields.

    Names are the paper's, "ViT-B/16" or "R50+ViT-B/16", whose patch size counts
    pixels of the ResNet's feature map; and timm's, such as
    "vit_base_patch14_dinov2", whose default classes it has too.

    UserError: the name or a field is unknown, or timm's network has a part
    that vitedu's hasn't.
    """
    if not is_like_timms(name):
        return papers_config(name, **overrides)
    check_names("ViTConfig", overrides, [x.name for x in fields(ViTConfig)])
    return replace(timms(name).config, **overrides)


def network_config_of(name: str, **fields: Any) -> NetworkConfig:
    """As `vit_config`, and a ResNet's, "BiT-R50x1".

    UserError: the name or a field is unknown.
    """
    if name in RESNETS:
        return resnet_config(name, **fields)
    if name in (*NAMES, *HYBRIDS) or is_like_timms(name):
        return vit_config(name, **fields)
    raise unknown("model", name, [*NAMES, *HYBRIDS, *RESNETS])


def is_network(name: str) -> bool:
    """Whether it is a network's; timm's with a tag are names of weights."""
    papers = name in (*NAMES, *HYBRIDS, *RESNETS)
    return papers or (is_like_timms(name) and name in of_timm())


def is_like_timms(name: str) -> bool:
    return re.fullmatch(hub.TIMMS, name) is not None


@cache
def of_timm() -> frozenset[str]:
    import_timm()
    from timm import list_models

    return frozenset(list_models())


@cache
def timms(name: str) -> Checkpoint:
    """What `load` would read from a file of timm's network; on meta."""
    if name.partition(".")[0] not in of_timm():
        raise unknown("model of timm", name, of_timm())
    from timm.models import create_model, is_model_in_modules

    # without numbers on meta either, where that can be asked for: it's slow
    plain = is_model_in_modules(name, ["vision_transformer", "deit"])
    options = {"weight_init": "skip"} if plain else {}
    # it raises what its layers do
    with explained(f"timm has no {name}", Exception), torch.device("meta"):
        model = create_model(name, **options)
    if what := timm.foreign_part(model):
        raise UserError(
            f"timm's {name} has {what}, which vitedu's network doesn't"
        )
    return timm.to_vitedu(model.state_dict(), Metadata(name, built=model))
