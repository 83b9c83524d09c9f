"""What a report shows of the test part: the answers, and some pictures."""

import io
import sys
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor
from tqdm import tqdm

from vitedu.data import Source
from vitedu.data.feed.pictures import ImageSource
from vitedu.errors import UserError
from vitedu.evaluate import Predictions, predictions
from vitedu.evaluate.classify import class_names
from vitedu.interpret import attention_map
from vitedu.model.network import Network
from vitedu.pictures import PreprocessSpec
from vitedu.train.config import TrainConfig
from vitedu.train.journal import until

EXAMPLES = 6  # pictures that are right, and as many that are wrong
# Of more test pictures, every nth: the run has measured them all, and a page
# should not take as long again.
MOST_MEASURED = 10_000
MOST_AT_ONCE = 64
SIDE = 256  # pixels; larger pictures are shrunk, so that a report stays small
LEAST = 112  # smaller ones are enlarged, pixel by pixel
SHADE = 0.2  # of a picture is left where least of it reaches the answer
BRIGHT = 0.95  # share of the patches from which on one is left as it is
QUALITY = 80  # of a JPEG


class Example(NamedTuple):
    """A test picture, its label and the model's answer.

    `picture` is (3, h, w) in 0..1, as the model saw it; `shares` (gh, gw) is
    each patch's share of the answer, or None.
    """

    name: str
    picture: Tensor
    label: str
    predicted: str
    probability: float
    shares: Tensor | None


class Measured(NamedTuple):
    answers: Predictions
    right: tuple[Example, ...]  # the most confident first
    wrong: tuple[Example, ...]


def measure(
    model: Network,
    test: Source,
    config: TrainConfig,
    should_stop: Callable[[], bool],
) -> Measured:
    """Answers on every nth test picture if there are over MOST_MEASURED."""
    every = -(-len(test) // MOST_MEASURED)
    num_images = -(-len(test) // every)
    size = min(config.micro_batch_size or config.batch_size, MOST_AT_ONCE)
    found = test.batches(
        epoch=0, seed=0, batch_size=every * size, rank=0, world=every
    )
    batches = tqdm(
        until(found, should_stop),
        total=-(-num_images // size),
        desc="report",
        disable=not sys.stderr.isatty(),
        leave=False,
        dynamic_ncols=True,
    )
    answers = predictions(model, iter(batches))
    if len(answers.labels) < num_images:
        raise UserError("it was stopped; `vitedu report RUN` draws it")
    one_by_one = copy(test)
    if isinstance(one_by_one, ImageSource):
        one_by_one.num_workers = 0  # which take longer to start than a picture
    names = class_names(model, answers.num_classes)
    like = next(model.parameters())

    def example(row: int) -> Example:
        index = row * every
        images, _ = next(
            iter(one_by_one.batches(epoch=0, seed=0, batch_size=1, start=index))
        )
        shares = None
        with suppress(UserError):  # a model without such maps
            maps = attention_map(model, images.to(like.device, like.dtype))
            shares = maps[0].cpu()
        return Example(
            name=title_of(test, index),
            picture=as_seen(images[0], config.preprocess),
            label=names[answers.labels[row]],
            predicted=names[answers.classes[row]],
            probability=answers.probabilities[row].item(),
            shares=shares,
        )

    def most_confident(rows: Tensor) -> tuple[Example, ...]:
        shares = answers.probabilities[rows]
        order = shares.argsort(descending=True, stable=True)[:EXAMPLES]
        return tuple(map(example, rows[order].tolist()))

    return Measured(
        answers,
        right=most_confident(answers.is_correct.nonzero()[:, 0]),
        wrong=most_confident((~answers.is_correct).nonzero()[:, 0]),
    )


def title_of(test: Source, index: int) -> str:
    pictures = getattr(test, "pictures", None)
    if pictures is None or not pictures.is_named:
        return f"test image {index + 1:,}"
    return "/".join(Path(pictures.name_of(index)).parts[-2:])


# --- pictures


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
    size = list(picture.shape[-2:])
    bright = F.interpolate(
        bright.clamp(max=1)[None, None], size, mode="bilinear"
    )
    return picture * (SHADE + (1 - SHADE) * bright[0])


def jpeg(picture: Tensor) -> str:
    pixels = (picture * 255).round().byte().permute(1, 2, 0).contiguous()
    image = Image.fromarray(pixels.numpy())
    image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    if (longest := max(image.size)) < LEAST:
        scale = -(-LEAST // longest)
        size = image.width * scale, image.height * scale
        image = image.resize(size, Image.Resampling.NEAREST)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{b64encode(file.getvalue()).decode()}"
