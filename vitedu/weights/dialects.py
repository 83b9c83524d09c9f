"""Whose weights are these? The dialects read, and those refused by name.

A dialect is a module of this package with

    MARKS                                   names of arrays, see `recognise`
    to_vitedu(arrays, about) -> Checkpoint  uses every array once
    from_vitedu(checkpoint) -> arrays       its inverse

and, where its readers want JSON beside the arrays,

    beside(checkpoint) -> {file: content}

All of them are pure. `about` is an `About`: what is known apart from the
arrays.

`DIALECTS[recognise(found)].to_vitedu(found.arrays, found.about)`
"""

import re
from types import ModuleType

from vitedu.errors import UserError
from vitedu.weights import hf, npz, timm, torchvision, vitedu
from vitedu.weights.files import Arrays

# asked in this order
DIALECTS: dict[str, ModuleType] = {
    "vitedu": vitedu,
    "npz": npz,
    "hf": hf,
    "torchvision": torchvision,
    "timm": timm,
}

# Other architectures: what they are called, and a name that only they have.
REFUSED = {
    "DINOv2 or another ViT with LayerScale": (
        r"(^|\.)(ls1\.gamma|layer_scale1\.lambda1)$"
    ),
    "BEiT": (
        r"^(blocks|encoder\.layer|beit\.encoder\.layer)\.\d+"
        r"\.(gamma_1|lambda_1)$"
    ),
    "CLIP": (
        r"^visual\.(transformer\.resblocks|trunk)\.|^norm_pre\.weight$"
        r"|(^|\.)vision_model\.pre_layrnorm\."
    ),
    "SigLIP": (
        r"(^|\.)vision_model\.head\.probe$|^logit_bias$"
        r"|^(params/)?(txt/|[tb]$)"
    ),
    "Swin": (
        r"(^|\.)(layers|features)\.\d+\..*"
        r"(relative_position_bias_table|cpb_mlp\.)"
    ),
    "ConvNeXt": (
        r"(^|\.)stages\.\d+\.((blocks|layers)\.)?\d+\.(conv_dw|dwconv)\."
        r"|^features\.\d+\.\d+\.layer_scale$"
    ),
    "MLP-Mixer": r"^(params/|opt/target/)?MixerBlock_\d+/",
    "a ResNet with BatchNorm": r"(^|\.)bn1\.running_mean$",
}


def recognise(found: Arrays) -> str:
    """The dialect, a key of `DIALECTS`, in which a file is written.

    A file is vitedu's if its metadata say so, or a config.json of Hugging
    Face's mixin; else that of the first dialect with all names of one of its
    `MARKS`.
    UserError: it is another architecture, or nothing that is known here.
    """
    config = found.about.config.get("vitedu")
    if "vitedu" in found.about.metadata or isinstance(config, dict):
        return "vitedu"
    for name, pattern in REFUSED.items():
        if any(re.search(pattern, key) for key in found.arrays):
            raise UserError(
                f"{found.path} holds weights of {name}, which is another "
                "network than a ViT or BiT of the paper; vitedu does not read "
                "it"
            )
    for name, dialect in DIALECTS.items():
        if any(marks <= found.arrays.keys() for marks in dialect.MARKS):
            return name
    names = sorted(found.arrays)
    raise UserError(
        f"{found.path} holds {len(names)} arrays ({', '.join(names[:4])}, ...) "
        "that belong to no known ViT or BiT; known dialects: "
        f"{', '.join(DIALECTS)}"
    )
