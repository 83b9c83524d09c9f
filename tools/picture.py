"""Draw the pictures of the front page and the README, and the logo.

    python tools/picture.py [--into book]

Everything on them is computed here: the photographs are `vitedu.data.photo`,
the maps and names come from `vitedu.load("ViT-Ti/16")`. Equal weights give
equal files.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_rgb
from PIL import Image

import vitedu
from vitedu.figures.palette import (
    ATTENTION,
    CLASS,
    GREY,
    MAP,
    MLP,
    PATCHES,
    POSITIONS,
    STREAM,
)
from vitedu.interpret import attention_map

ROOT = Path(__file__).parents[1]
SIDE, GAP = 28, 4  # pixels of a patch as drawn, and between two of them
COLUMNS, ROWS = 12, 8  # patches of a small picture
COLORS = 255  # of a picture, beside what is transparent
SEED = 922  # of the patches that part V keeps: with both eyes
LOGO = ["bbob", "bgpb", "brgb", "obbb"]
NAMES = {
    "b": PATCHES,
    "o": POSITIONS,
    "g": ATTENTION,
    "p": MLP,
    "r": CLASS,
    "s": STREAM,
}


def seen(photo: Image.Image, model: vitedu.ViT) -> Image.Image:
    """The part of a photograph that the network reads, in its own pixels."""
    size, _ = model.preprocess.image_size
    side = min(photo.size) * size / int(size / model.preprocess.crop)
    left, top = (photo.width - side) / 2, (photo.height - side) / 2
    return photo.crop(
        (round(left), round(top), round(left + side), round(top + side))
    )


def attention(model: vitedu.ViT, photo: Image.Image) -> np.ndarray:
    """What reaches the class token per patch, (gh, gw): least 0, most 1."""
    (shares,) = attention_map(model, vitedu.preprocess(model, photo))
    shares = (shares - shares.min()) / (shares.max() - shares.min())
    return shares.numpy()


def mosaic(
    photo: Image.Image, columns: int, rows: int, side: int = SIDE
) -> np.ndarray:
    """The middle of a photograph: (rows, columns, side, side, 3) in 0..255."""
    width, height = columns * side, rows * side
    scale = max(width / photo.width, height / photo.height)
    size = (round(photo.width * scale), round(photo.height * scale))
    left, top = (size[0] - width) // 2, (size[1] - height) // 2
    cut = photo.resize(size, Image.Resampling.LANCZOS).crop(
        (left, top, left + width, top + height)
    )
    pixels = np.asarray(cut).reshape(rows, side, columns, side, 3)
    return pixels.swapaxes(1, 2)


def plain(colors: np.ndarray, side: int = SIDE) -> np.ndarray:
    """Patches of one colour each, from colours (rows, columns, 3) in 0..1."""
    patch = (255 * colors).round().astype(np.uint8)[:, :, None, None]
    return np.broadcast_to(patch, (*colors.shape[:2], side, side, 3))


def shades(shares: np.ndarray) -> np.ndarray:
    """The colours of a map of 0..1, in 64 steps: (rows, columns, 3) in 0..1."""
    return colormaps[MAP]((63 * shares).round() / 63)[..., :3]


def letters(rows: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Patches in the book's colours, by letters of NAMES; which are there."""
    colors = [
        [to_rgb(NAMES.get(name, "white")) for name in row] for row in rows
    ]
    there = [[name in NAMES for name in row] for row in rows]
    return plain(np.array(colors)), np.array(there)


def sheet(
    patches: np.ndarray, there: np.ndarray | None = None, gap: int = GAP
) -> Image.Image:
    """Patches (rows, columns, side, side, 3) apart, on a transparent ground.

    Where `there` (rows, columns) is false, the patch is left out.
    """
    rows, columns, side, _, _ = patches.shape
    step = side + gap
    pixels = np.zeros((rows * step - gap, columns * step - gap, 4), np.uint8)
    for row in range(rows):
        for column in range(columns):
            if there is None or there[row, column]:
                top, left = row * step, column * step
                place = pixels[top : top + side, left : left + side]
                place[..., :3] = patches[row, column]
                place[..., 3] = 255
    return Image.fromarray(pixels)


def beside(first: Image.Image, second: Image.Image, gap: int) -> Image.Image:
    """Two pictures of one height, side by side."""
    both = Image.new("RGBA", (first.width + gap + second.width, first.height))
    both.paste(first, (0, 0))
    both.paste(second, (first.width + gap, 0))
    return both


def save(picture: Image.Image, path: Path) -> None:
    """Write a PNG of few colours; a pixel is either there or not.

    A colour that fills a whole patch stays as it is.
    """
    pixels = np.asarray(picture)
    there = pixels[..., 3] == 255
    colors, counts = np.unique(pixels[there], axis=0, return_counts=True)
    flat = colors[counts >= SIDE * SIDE][:, :3]
    rest = picture.convert("RGB").quantize(
        COLORS - len(flat), Image.Quantize.MEDIANCUT
    )
    found = rest.getpalette()[: 3 * (COLORS - len(flat))]
    palette = [*flat.reshape(-1).tolist(), *found]
    palette += [0] * (3 * COLORS + 3 - len(palette))
    chosen = Image.new("P", (1, 1))
    chosen.putpalette(palette)
    few = picture.convert("RGB").quantize(
        palette=chosen, dither=Image.Dither.NONE
    )
    index = np.asarray(few).copy()
    for place, color in enumerate(flat):
        index[(pixels[..., :3] == color).all(axis=-1)] = place
    index[~there] = COLORS
    small = Image.fromarray(index)
    small.putpalette(palette)
    small.save(path, optimize=True, transparency=COLORS)
    print(path, f"{path.stat().st_size / 1000:.0f} kB")


def hopper(model: vitedu.ViT) -> Image.Image:
    """The photograph as 196 patches; beside it what reaches the class token."""
    rows, columns = model.config.grid
    photo = vitedu.data.photo("hopper")
    shares = attention(model, photo)
    words = sheet(mosaic(seen(photo, model), columns, rows))
    lit = sheet(plain(shades(shares)))
    return beside(words, lit, 2 * SIDE)


def build() -> Image.Image:
    """Part I: the network from patches to class, in its colours."""
    block = ["g" * COLUMNS, "p" * COLUMNS]
    upwards = [
        "b" * COLUMNS,
        "r" + "o" * (COLUMNS - 1),
        *block,
        *block,
        "s" * COLUMNS,
        "....rrrr....",
    ]
    return sheet(*letters(upwards[::-1]))


def train() -> Image.Image:
    """Part II: an accuracy that rises, drawn freely."""
    heights = [1, 3, 4, 5, 6, 6, 7, 7, 7, 8, 8, 8]
    rows = [
        "".join(
            "." if height < level else "o" if height == level else "p"
            for height in heights
        )
        for level in range(ROWS, 0, -1)
    ]
    return sheet(*letters(rows))


def use() -> Image.Image:
    """Part III: a photograph, and a name that leads the others by far."""
    photo = mosaic(vitedu.data.photo("coffee"), ROWS - 1, ROWS)
    bar, short, none = ".rrrr", ".s...", "....."
    bars = [bar, bar, none, short, short, none, short, short]
    colors, there = letters(bars)
    whole = np.ones(photo.shape[:2], bool)
    return sheet(
        np.concatenate([photo, colors], axis=1),
        np.concatenate([whole, there], axis=1),
    )


def question(model: vitedu.ViT) -> Image.Image:
    """Part IV: a map of attention, and under the glass the photograph."""
    photo = vitedu.data.photo("hopper")
    side, _ = model.config.grid
    shares = attention(model, photo)
    patches = plain(shades(shares))
    behind = mosaic(seen(photo, model), side, side)
    row, column = np.indices(shares.shape)
    glass = np.hypot(row - 4.5, column - 6.5) < 3
    shown = np.where(glass[:, :, None, None, None], behind, patches)
    return sheet(shown[1 : 1 + ROWS, 1 : 1 + COLUMNS])


def beyond() -> Image.Image:
    """Part V: a quarter of a photograph's patches; of the others, a dot."""
    photo = mosaic(vitedu.data.photo("cat"), COLUMNS, ROWS)
    order = np.random.default_rng(SEED).permutation(ROWS * COLUMNS)
    kept = (order < ROWS * COLUMNS // 4).reshape(ROWS, COLUMNS)
    dot = np.zeros((SIDE, SIDE), bool)
    dot[SIDE // 3 : -SIDE // 3, SIDE // 3 : -SIDE // 3] = True
    grey = [round(255 * part) for part in to_rgb(GREY)]
    picture = np.asarray(sheet(photo)).copy()
    step = SIDE + GAP
    for row, column in zip(*np.nonzero(~kept), strict=True):
        top, left = row * step, column * step
        place = picture[top : top + SIDE, left : left + SIDE]
        place[...] = np.where(dot[..., None], (*grey, 255), 0)
    return Image.fromarray(picture)


def logo() -> str:
    """A picture cut into patches, some of them lit, as SVG."""
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 62 62">']
    for row, names in enumerate(LOGO):
        for column, name in enumerate(names):
            lines.append(
                f'<rect x="{16 * column}" y="{16 * row}" width="14" '
                f'height="14" rx="2.5" fill="{NAMES[name]}"/>'
            )
    return "\n".join([*lines, "</svg>"]) + "\n"


def main() -> None:
    """Draw all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--into", type=Path, default=ROOT / "book")
    folder = parser.parse_args().into
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    (folder / "_static").mkdir(exist_ok=True)
    model = vitedu.load("ViT-Ti/16")
    pictures = {
        "hopper": hopper(model),
        "part-1-build": build(),
        "part-2-train": train(),
        "part-3-use": use(),
        "part-4-question": question(model),
        "part-5-beyond": beyond(),
    }
    for name, picture in pictures.items():
        save(picture, folder / f"pictures/{name}.png")
    for name in ("logo", "favicon"):
        (folder / f"_static/{name}.svg").write_text(logo())


if __name__ == "__main__":
    main()
