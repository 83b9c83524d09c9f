"""Photographs in a run's report: as the model saw them, and where it looked."""

import io
from base64 import b64encode

import torch
import torch.nn.functional as F
from torch import Tensor

from vitedu.pictures import PreprocessSpec

SIDE = 256  # pixels; larger pictures are shrunk, so that a report stays small
LEAST = 112  # smaller ones are enlarged, pixel by pixel
SHADE = 0.2  # of a picture is left where least of it reaches the answer
BRIGHT = 0.95  # share of the patches from which on one is left as it is
QUALITY = 80  # of a JPEG


def as_seen(image: Tensor, spec: PreprocessSpec) -> Tensor:
    """Undo the preprocessing: (c, h, w) to a picture (3, h, w) in 0..1."""
    mean, std = (
        torch.tensor(each)[:, None, None] for each in (spec.mean, spec.std)
    )
    picture = (image.detach().float().cpu() * std + mean).clamp(0, 1)
    return picture if len(picture) == 3 else picture[:1].expand(3, -1, -1)


def lit(picture: Tensor, shares: Tensor) -> Tensor:
    """Darken (3, h, w) by `shares` (gh, gw); the top 5% stay as they are."""
    least, most = shares.min(), shares.quantile(BRIGHT)
    bright = (shares - least) / (most - least).clamp(min=1e-12)
    bright = bright.clamp(max=1)
    size = [int(side) for side in picture.shape[-2:]]
    bright = F.interpolate(bright[None, None], size, mode="bilinear")[0]
    return picture * (SHADE + (1 - SHADE) * bright)


def jpeg(picture: Tensor) -> str:
    """A picture (3, h, w) in 0..1 as a data: URL."""
    from PIL import Image

    pixels = (picture * 255).round().byte().permute(1, 2, 0).contiguous()
    image = Image.fromarray(pixels.numpy())
    longest = max(image.size)
    if longest > SIDE:
        size = [max(round(x * SIDE / longest), 1) for x in image.size]
        image = image.resize((size[0], size[1]), Image.Resampling.LANCZOS)
    elif longest < LEAST:
        scale = -(-LEAST // longest)
        size = [x * scale for x in image.size]
        image = image.resize((size[0], size[1]), Image.Resampling.NEAREST)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{b64encode(file.getvalue()).decode()}"
