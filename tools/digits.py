"""Write the digits that the package carries, from MNIST.

    python tools/digits.py [FILE]

The first 250 images of each class of MNIST's training part and the first 50 of
its test part, in MNIST's own order. MNIST is looked for as always
(`vitedu.data.locate`). Equal input gives equal bytes: no date and no other
trace of the machine is in the archive. Licence and attribution:
vitedu/data/digits.LICENSE.txt.
"""

import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch

from vitedu.data import Split, load_dataset
from vitedu.files import replace_file

TARGET = Path(__file__).parents[1] / "vitedu" / "data" / "digits.npz"
TRAIN_PER_CLASS = 250
TEST_PER_CLASS = 50


def first_of_each_class(split: Split, count: int) -> Split:
    """The first `count` samples of each class, in the order of `split`."""
    chosen = torch.cat(
        [
            (split.labels == label).nonzero()[:count, 0]
            for label in split.labels.unique()
        ]
    )
    return split.take(chosen.sort().values)


def digits_npz() -> bytes:
    """The file: uint8 x_train (2500, 28, 28), x_test (500, 28, 28), labels."""
    mnist = load_dataset("mnist")
    arrays = {}
    for part, whole, count in (
        ("train", mnist.train, TRAIN_PER_CLASS),
        ("test", mnist.test, TEST_PER_CLASS),
    ):
        split = first_of_each_class(whole, count)
        arrays[f"x_{part}"] = split.images[:, 0].numpy()
        arrays[f"y_{part}"] = split.labels.numpy().astype(np.uint8)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name, array in arrays.items():
            stored = io.BytesIO()
            np.lib.format.write_array(stored, array, (1, 0), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            # else the archive names the system it was made on
            entry.create_system = 3
            file.writestr(entry, stored.getvalue(), zipfile.ZIP_DEFLATED)
    return content.getvalue()


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    replace_file(target, digits_npz())
    print(f"wrote {target}, {target.stat().st_size:,} bytes")
