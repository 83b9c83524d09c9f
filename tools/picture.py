"""Draw the README's picture from a trained run on 28 x 28 digits.

python tools/picture.py runs/mnist-tiny-... [--into book/first_vit.png]
"""

import argparse
from pathlib import Path

import torch
from matplotlib.figure import Figure

import vitedu
from vitedu.data import load_dataset, normalise

ROOT = Path(__file__).parents[1]


def draw(model: vitedu.ViT, images: torch.Tensor) -> Figure:
    """Digits (b, 1, 28, 28) uint8 with their patches, above the attention they get.

    A patch's attention is what it receives in the last block, averaged over heads and
    over the tokens that ask.
    """
    with torch.no_grad(), vitedu.record_attention(model) as maps:
        logits = model(normalise(images, model.preprocess))
    rows, columns = model.config.grid
    received = maps[-1].mean(dim=(1, 2))[:, -rows * columns :]  # (b, n)
    figure = Figure(
        figsize=(1.1 * len(images), 2.5), dpi=160, layout="constrained"
    )
    axes = figure.subplots(2, len(images))
    p, q = model.config.patch_size
    for column, (image, weights) in enumerate(
        zip(images, received, strict=True)
    ):
        top, bottom = axes[:, column]
        top.imshow(image[0], cmap="gray_r")
        for line in range(1, rows):
            top.axhline(line * p - 0.5, color="C0", linewidth=0.6)
        for line in range(1, columns):
            top.axvline(line * q - 0.5, color="C0", linewidth=0.6)
        share = logits[column].softmax(-1).max()
        name = model.class_names[logits[column].argmax()]
        top.set_title(f"{name}, {100 * share:.0f} %", fontsize=9)
        bottom.imshow(weights.reshape(rows, columns), cmap="cividis", vmin=0)
        for axis in (top, bottom):
            axis.set(xticks=[], yticks=[])
    axes[0, 0].set_ylabel("image, patches", fontsize=8)
    axes[1, 0].set_ylabel("attention received", fontsize=8)
    return figure


def main() -> None:
    """Load the run, draw the first digit of each of eight classes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument(
        "--into", type=Path, default=ROOT / "book/first_vit.png"
    )
    options = parser.parse_args()
    test = load_dataset("digits").test
    first = [int((test.labels == label).nonzero()[0, 0]) for label in range(8)]
    figure = draw(vitedu.load(options.run), test.images[first])
    options.into.parent.mkdir(exist_ok=True)
    figure.savefig(options.into)
    print(options.into)


if __name__ == "__main__":
    main()
