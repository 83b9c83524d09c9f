"""`vitedu evaluate` and `vitedu predict`: what trained weights are worth, and say."""

import argparse
from pathlib import Path
from typing import Any

import torch

from vitedu.cli.answer import Answer, table
from vitedu.data import ArraySource, load_dataset
from vitedu.data.preprocess import preprocess
from vitedu.errors import UserError
from vitedu.evaluate import accuracy
from vitedu.train import find_device
from vitedu.train.folder import RunFolder
from vitedu.weights import load


def evaluate(options: argparse.Namespace) -> Answer:
    """Accuracy on the test part of a data set; by default the one trained on."""
    words = [word for word in options.words if not word.startswith("data=")]
    paths = [
        word[len("data=") :]
        for word in options.words
        if word.startswith("data=")
    ]
    if not 1 <= len(words) <= 2 or len(paths) > 1:
        raise UserError(
            "evaluate wants WEIGHTS and at most one DATASET and one data="
        )
    device = find_device(options.device)
    model = load(words[0], device=device)
    data = paths[0] if paths else None
    if len(words) == 2:
        name = words[1]
    else:
        name, data = trained_on(Path(words[0]), data)
    if Path(name).is_dir():
        raise UserError(
            f"{name} is a folder; folders of images are not read yet, "
            "give a named set or FILE.npz"
        )
    dataset = load_dataset(
        name,
        data=data,
        image_size=model.config.image_size,
        num_classes=model.config.num_classes,
    )
    if len(dataset.class_names) != model.config.num_classes:
        raise UserError(
            f"{dataset.name} has {len(dataset.class_names)} classes, "
            f"{words[0]} was made for {model.config.num_classes}"
        )
    source = ArraySource(
        dataset.test,
        dataset.class_names,
        preprocess=model.preprocess,
        device=device,
    )
    measured = accuracy(model, source.batches(batch_size=256))
    values = {
        "weights": words[0],
        "dataset": {"name": dataset.name, "digest": dataset.digest},
        "accuracy": measured.accuracy,
        "loss": measured.loss,
        "num_correct": measured.num_correct,
        "num_images": measured.num_images,
    }
    text = (
        f"accuracy {measured.accuracy:.2f} % ({measured.num_correct:,} of "
        f"{measured.num_images:,} test images of {dataset.name}), "
        f"cross-entropy {measured.loss:.4f} nats"
    )
    return Answer(values, text)


def trained_on(weights: Path, data: str | None) -> tuple[str, str | None]:
    """Name and place of the data set in the run folder that `weights` belong to."""
    folder = RunFolder(weights if weights.is_dir() else weights.parent)
    if not folder.config.is_file():
        raise UserError(
            f"{weights} does not say what it was trained on; name a data set, "
            f"as in `vitedu evaluate {weights} mnist`"
        )
    config = folder.read_config()
    return config.dataset, data or config.data


def predict(options: argparse.Namespace) -> Answer:
    """The likeliest classes of each picture, with their probabilities."""
    if len(options.words) < 2:
        raise UserError("predict wants WEIGHTS and at least one IMAGE")
    if options.top < 1:
        raise UserError(f"--top is {options.top}, it must be at least 1")
    weights, *images = options.words
    device = find_device(options.device)
    model = load(weights, device=device)
    if not model.config.num_classes:
        raise UserError(f"{weights} has no head, so it names no class")
    names = model.class_names or [
        str(i) for i in range(model.config.num_classes)
    ]
    pixels = torch.cat([preprocess(model, image) for image in images])
    with torch.no_grad():
        probabilities = model(pixels.to(device)).softmax(dim=-1).cpu()
    top = probabilities.topk(min(options.top, len(names)))
    values: dict[str, Any] = {"weights": weights, "predictions": []}
    rows = []
    for image, shares, indices in zip(images, *top, strict=True):
        classes = [
            {"class": names[index], "index": index, "probability": share}
            for share, index in zip(
                shares.tolist(), indices.tolist(), strict=True
            )
        ]
        values["predictions"].append({"image": image, "top": classes})
        found = ", ".join(
            f"{x['class']} {100 * x['probability']:.1f} %" for x in classes
        )
        rows.append((image, found))
    return Answer(values, table(rows))
