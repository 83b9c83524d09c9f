"""What preprocessor_config.json says of pictures, and what is usual without it.

`preprocess(config, Metadata(), "clip")[0].mean[0]` is 0.48145466.
"""

import math
from typing import Any

from vitedu.fields import Size, converted
from vitedu.model import ViTConfig
from vitedu.pictures import IMAGENET, PreprocessSpec
from vitedu.weights.checkpoint import Metadata
from vitedu.weights.hf.names import KINDS
from vitedu.weights.mapping import crop_share

# what it does to every picture, unless preprocessor_config.json says otherwise
USUAL = {"do_resize": True, "do_rescale": True, "rescale_factor": 1 / 255}
RESAMPLE = {2: "bilinear", 3: "bicubic"}  # pillow's numbers


def preprocessor_of(
    spec: PreprocessSpec, image_size: tuple[int, int]
) -> dict[str, Any]:
    height, width = image_size
    sides = {"height": height, "width": width}
    geometry: dict[str, Any] = {"size": sides}
    if spec.crop is not None:
        edge = math.floor(min(height, width) / spec.crop)
        geometry = {
            "size": {"shortest_edge": edge},
            "do_center_crop": True,
            "crop_size": sides,
        }
    resample = {name: number for number, name in RESAMPLE.items()}
    return {
        "image_processor_type": "ViTImageProcessor",
        **USUAL,
        "do_normalize": True,
        "image_mean": list(spec.mean),
        "image_std": list(spec.std),
        "resample": resample[spec.interpolation],
        **geometry,
    }


def preprocess(
    config: ViTConfig, metadata: Metadata, kind: str = "vit"
) -> tuple[PreprocessSpec, tuple[str, ...]]:
    """By preprocessor_config.json, else as is usual for a kind; doubts."""
    written = metadata.preprocessor
    if not written:
        whose, _, _, *usual = KINDS[kind]
        usual = usual if config.in_channels == 3 else []
        spec = PreprocessSpec(config.image_size, config.in_channels, *usual)
        numbers = f"mean {spec.mean} and std {spec.std}"
        others = ""
        if kind == "vit":
            numbers = "mean and std 0.5"
            others = ", where DeiT, DINO and MAE want {} and {}"
        doubt = (
            "no preprocessor_config.json says how its pictures are prepared; "
            f"{numbers} are assumed, as for {whose}{others.format(*IMAGENET)}"
        )
        return spec, () if kind == "vit_mae" else (doubt,)
    stated, old = written.get("size"), written.get("feature_extractor_type")
    processor = str(written.get("image_processor_type", old))
    if isinstance(stated, int) and processor.startswith(("CLIP", "Bit")):
        stated = {"shortest_edge": stated}
    size, crop = sides_of(stated, config.image_size), None
    is_short_side = isinstance(stated, dict) and "shortest_edge" in stated
    crops = bool(written.get("do_center_crop"))
    odd = [
        name for name in USUAL if written.get(name, USUAL[name]) != USUAL[name]
    ]
    # a squash before the crop, or a short side without one
    if crops != is_short_side:
        odd.append("do_center_crop")
    if crops:
        edge = min(size)
        size = sides_of(written.get("crop_size"), config.image_size)
        if min(size) > edge or size[0] != size[1]:
            odd.append("crop_size")
        else:
            crop = crop_share(min(size), edge)
    resample = written.get("resample", 2)
    if resample not in RESAMPLE:
        odd.append("resample")
    interpolation = RESAMPLE.get(resample, "bicubic")
    mean, std = written.get("image_mean", 0.5), written.get("image_std", 0.5)
    if not written.get("do_normalize", True):
        mean, std = 0.0, 1.0
    spec = PreprocessSpec(
        size, config.in_channels, mean, std, interpolation, crop
    )
    said = ", ".join(f"{name}={written.get(name)!r}" for name in odd)
    doubt = (
        f"its preprocessor_config.json says {said} with size={stated!r}, which "
        f"vitedu cannot do; it takes crop={crop} and "
        f"interpolation={interpolation!r}"
    )
    return spec, (doubt,) if odd else ()


def sides_of(size: Any, otherwise: tuple[int, int]) -> tuple[int, int]:
    if isinstance(size, dict):
        edge = size.get("shortest_edge")
        size = (size.get("height", edge), size.get("width", edge))
    if size is None:
        return otherwise
    return converted("a size in its preprocessor_config.json", size, Size)
