"""The two JSON files of Hugging Face beside a model's arrays, read and written.

`beside(checkpoint)["config.json"]["id2label"]` has the names of the classes.
"""

import math
from typing import Any

from vitedu.fields import Size, converted
from vitedu.model import ViTConfig
from vitedu.pictures import PreprocessSpec
from vitedu.weights.checkpoint import About, Checkpoint, names_in
from vitedu.weights.vit_sizes import crop_share

# what it calls the two GELUs; the first is written
GELUS = {
    "exact": ("gelu", "gelu_python"),
    "tanh": ("gelu_pytorch_tanh", "gelu_new", "gelu_fast", "gelu_accurate"),
}
RESAMPLE = {2: "bilinear", 3: "bicubic"}  # pillow's numbers


def config_of(about: About) -> dict[str, Any]:
    """The config.json beside the arrays if it is Hugging Face's, else {}."""
    return about.config if "hidden_size" in about.config else {}


def class_names(config: ViTConfig, about: About) -> tuple[str, ...]:
    """The names in config.json, unless they are only LABEL_0, LABEL_1, ..."""
    labels = config_of(about).get("id2label")
    keys = [str(i) for i in range(config.num_classes)]
    if not isinstance(labels, dict) or {*labels} != {*keys}:
        return ()
    found = names_in([labels[key] for key in keys])
    return () if found == default_names(config) else found


def default_names(config: ViTConfig) -> tuple[str, ...]:
    """What transformers calls classes that have no names."""
    return tuple(f"LABEL_{i}" for i in range(config.num_classes))


def preprocess(
    config: ViTConfig, about: About
) -> tuple[PreprocessSpec, tuple[str, ...]]:
    """What preprocessor_config.json says, and what of it may be wrong here.

    Without that file what ViTImageProcessor does by default: resized straight
    to size, bilinear, range -1..1.
    """
    if not about.preprocessor:
        doubt = (
            "no preprocessor_config.json says how its pictures are prepared; "
            "mean and std 0.5 are assumed, as for Google's ViTs, where DeiT, "
            "DINO and MAE want (0.485, 0.456, 0.406) and (0.229, 0.224, 0.225)"
        )
        return PreprocessSpec(config.image_size, config.in_channels), (doubt,)
    spec, unsupported = spec_of(about.preprocessor, config)
    if not unsupported:
        return spec, ()
    return spec, (
        f"its preprocessor_config.json says {'; '.join(unsupported)}",
    )


def spec_of(
    written: dict[str, Any], config: ViTConfig
) -> tuple[PreprocessSpec, list[str]]:
    """A preprocessor_config.json as a PreprocessSpec; what that can't hold."""
    size = sides_of(written.get("size"), config.image_size)
    unsupported, crop, kept = [], None, size
    if not written.get("do_resize", True):
        unsupported.append("do_resize=false, vitedu resizes all the same")
    elif written.get("do_center_crop"):
        kept = sides_of(written.get("crop_size"), config.image_size)
        crop = crop_share(min(kept), min(size))
        if not is_shortest_edge(written.get("size")):
            unsupported.append(
                f"a squash to {size} before the crop, vitedu keeps the aspect"
            )
        if crop > 1 or kept[0] != kept[1]:
            unsupported.append(
                f"a crop of {kept} out of {min(size)}, vitedu resizes to that"
            )
            crop = None
    elif is_shortest_edge(written.get("size")):
        unsupported.append(
            "no crop to the model's size, vitedu resizes to that"
        )
    resample = written.get("resample", 2)
    interpolation = "bicubic"
    if isinstance(resample, int) and resample in RESAMPLE:
        interpolation = RESAMPLE[resample]
    else:
        unsupported.append(f"resample={resample!r}, vitedu takes bicubic")
    if written.get("rescale_factor", 1 / 255) != 1 / 255 or not written.get(
        "do_rescale", True
    ):
        unsupported.append(
            "another rescale_factor than 1/255, which vitedu takes"
        )
    mean, std = written.get("image_mean", 0.5), written.get("image_std", 0.5)
    if not written.get("do_normalize", True):
        mean, std = 0.0, 1.0
    return PreprocessSpec(
        kept, config.in_channels, mean, std, interpolation, crop
    ), unsupported


def is_shortest_edge(size: Any) -> bool:
    """Whether a size is that of the short side alone."""
    return isinstance(size, dict) and "shortest_edge" in size


def sides_of(size: Any, otherwise: tuple[int, int]) -> tuple[int, int]:
    """Height and width of a size as preprocessor_config.json spells it."""
    if isinstance(size, dict):
        edge = size.get("shortest_edge")
        size = (size.get("height", edge), size.get("width", edge))
    if size is None:
        return otherwise
    return converted("a size in its preprocessor_config.json", size, Size)


def beside(checkpoint: Checkpoint) -> dict[str, dict[str, Any]]:
    """config.json and preprocessor_config.json."""
    config, spec = checkpoint.config, checkpoint.preprocess
    labels = checkpoint.class_names or default_names(config)
    (p, q), (height, width) = config.patch_size, config.image_size
    model = {
        "architectures": [
            "ViTForImageClassification" if config.num_classes else "ViTModel"
        ],
        "model_type": "vit",
        "hidden_size": config.embed_dim,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.mlp_dim,
        "hidden_act": GELUS[config.gelu][0],
        "layer_norm_eps": config.norm_eps,
        "image_size": height if height == width else [height, width],
        "patch_size": p if p == q else [p, q],
        "num_channels": config.in_channels,
        "qkv_bias": True,
        "pooler_output_size": config.pre_logits or config.embed_dim,
        "pooler_act": "tanh",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        # whatever the arrays are stored in, as vitedu does
        "dtype": "float32",
    }
    if labels:
        model["id2label"] = {str(i): name for i, name in enumerate(labels)}
        model["label2id"] = ids_of(labels)
    resample = {name: number for number, name in RESAMPLE.items()}
    pictures = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(spec.mean),
        "image_std": list(spec.std),
        "resample": resample[spec.interpolation],
        **geometry_of(spec),
    }
    return {"config.json": model, "preprocessor_config.json": pictures}


def ids_of(labels: tuple[str, ...]) -> dict[str, int]:
    """The index of each label; of equal ones the second gets a number too.

    So both stay: "crane" 134, "crane (517)" 517.
    """
    ids: dict[str, int] = {}
    for index, label in enumerate(labels):
        name = label
        while name in ids or (name != label and name in labels):
            name = f"{name} ({index})"
        ids[name] = index
    return ids


def geometry_of(spec: PreprocessSpec) -> dict[str, Any]:
    """Resize and crop, as preprocessor_config.json spells them."""
    height, width = spec.image_size
    sides = {"height": height, "width": width}
    if spec.crop is None:
        return {"size": sides}
    edge = math.floor(min(height, width) / spec.crop)
    return {
        "size": {"shortest_edge": edge},
        "do_center_crop": True,
        "crop_size": sides,
    }
