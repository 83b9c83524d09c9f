"""Write the photographs of waste that the package carries, from TrashNet.

    python tools/trashnet.py [FOLDER]

Ten photographs to train on and ten to test on of each class, spread evenly over
the authors' numbers in their own parts, made smaller. TrashNet is looked for as
always (`vitedu.data.locate`). Licence: vitedu/data/trashnet.LICENSE.txt.
"""

import re
import sys
from pathlib import Path

from PIL import Image

from vitedu.data import folder_of, load_folder
from vitedu.data.dataset import Split

TARGET = Path(__file__).parents[1] / "vitedu" / "data" / "trashnet-small"
PER_CLASS = 10
SIZE = (320, 240)
QUALITY = 70  # all of them are less than a megabyte


def number(path: Path) -> int:
    """That of a file name: 12 of glass12.jpg."""
    return int(re.sub("[^0-9]", "", path.stem))


def spread(split: Split, count: int) -> list[Path]:
    """`count` of each class, from the middles of as many equal stretches."""
    paths = [split[row][0] for row in range(len(split))]
    chosen = []
    for name in split.class_names:
        own = sorted((x for x in paths if x.parent.name == name), key=number)
        chosen += [
            own[(2 * i + 1) * len(own) // (2 * count)] for i in range(count)
        ]
    return chosen


def write(target: Path) -> None:
    """Save them as JPEGs in class folders in train/ and test/."""
    trashnet = load_folder(folder_of("trashnet"))
    for part, split in (("train", trashnet.train), ("test", trashnet.test)):
        for path in spread(split, PER_CLASS):
            place = target / part / path.parent.name / path.name
            place.parent.mkdir(parents=True, exist_ok=True)
            with Image.open(path) as picture:
                small = picture.convert("RGB").resize(SIZE, Image.LANCZOS)
            small.save(place, quality=QUALITY, optimize=True, progressive=True)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    write(target)
    sizes = [path.stat().st_size for path in target.glob("*/*/*.jpg")]
    print(f"wrote {target}, {len(sizes)} files, {sum(sizes):,} bytes")
