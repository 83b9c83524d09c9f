"""What the lots read, copied out of $VITEDU_DATA: under 50 MB for each lot.

`python benchmarks/gpu_day.py --pack DIR`, and there `--data DIR`
"""

import os
import shutil
from pathlib import Path

from vitedu.errors import UserError, reason
from vitedu.files import make_folder

CIFAR = "cifar10-jpeg"  # the pair of npz that tools/cifar_jpeg.py decodes
ANTS = "ants-bees"
SAMPLE = "imagenet-sample"  # one picture of each class
WASTE = "trashnet"  # 2,527 photographs, in its authors' parts
PARTS = (CIFAR, ANTS, SAMPLE, WASTE)


def pack(folder: Path) -> None:
    """Copy every part that the lots need. UserError: one isn't there."""
    if "VITEDU_DATA" not in os.environ:
        raise UserError(
            "set VITEDU_DATA to the folder that holds "
            f"{', '.join(PARTS[:-1])} and {PARTS[-1]}"
        )
    source = Path(os.environ["VITEDU_DATA"])
    missing = [name for name in PARTS if not (source / name).is_dir()]
    if missing:
        raise UserError(f"{source} lacks {' and '.join(missing)}")
    make_folder(folder)
    for name in PARTS:
        target = folder / name
        try:
            for path in sorted((source / name).rglob("*")):
                copy = target / path.relative_to(source / name)
                if path.is_dir():
                    continue
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)  # not its mode: it may be read-only
        except OSError as error:
            raise UserError(f"cannot pack {name}: {reason(error)}") from None
        files = [path for path in target.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files) / 1e6
        print(f"{target}: {len(files):,} files, {size:.1f} MB")
