"""Whose weights are these? The dialects that are read, and those refused by name.

A dialect is a module of this package with

    recognises(arrays) -> bool          by names and shapes of the arrays alone
    to_vitedu(arrays, hints) -> (config, state_dict)        uses every array once
    from_vitedu(config, state_dict) -> arrays               its inverse
    preprocess(config, hints) -> PreprocessSpec             of its own evaluation
    RESIZE                              its mode of `resize_pos_embed`

and, where it has something to say,

    dropped(arrays, hints)              names of arrays that it leaves out on purpose
    LEFT_OUT                            and what these are
    class_names(config, hints)          where it stores them
    notes(config, hints)                sentences for the load report
    beside(config, spec, class_names)   the JSON files that belong to its arrays

All of them are pure. `hints` is a dict in which every key may be absent: image_size,
num_heads, pool, position, pool_padding (what the caller of `load` said), config and
preprocessor (the JSON beside the file), metadata (of a safetensors file) and name.

`DIALECTS[recognise(read_arrays("ViT-B_16.npz"))].to_vitedu(...)`
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
    "BEiT": r"^(blocks|encoder\.layer|beit\.encoder\.layer)\.\d+\.(gamma_1|lambda_1)$",
    "CLIP": (
        r"^visual\.(transformer\.resblocks|trunk)\.|^norm_pre\.weight$"
        r"|(^|\.)vision_model\.pre_layrnorm\."
    ),
    "SigLIP": (
        r"(^|\.)vision_model\.head\.probe$|^logit_bias$"
        r"|^(params/)?(txt/|[tb]$)"
    ),
    "Swin": (
        r"(^|\.)(layers|features)\.\d+\..*(relative_position_bias_table|cpb_mlp\.)"
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

    UserError: it is another architecture, or nothing that is known here.
    """
    by_mixin = isinstance((found.config or {}).get("vitedu"), dict)
    if "vitedu" in found.metadata or by_mixin:
        return "vitedu"
    for name, pattern in REFUSED.items():
        if any(re.search(pattern, key) for key in found.arrays):
            raise UserError(
                f"{found.path} holds weights of {name}, which is another network than "
                "a ViT or BiT of the paper; vitedu does not read it"
            )
    for name, dialect in DIALECTS.items():
        if dialect.recognises(found.arrays):
            return name
    names = sorted(found.arrays)
    raise UserError(
        f"{found.path} holds {len(names)} arrays ({', '.join(names[:4])}, ...) that "
        f"belong to no known ViT or BiT; known dialects: {', '.join(DIALECTS)}"
    )
