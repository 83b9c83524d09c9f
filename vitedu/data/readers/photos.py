"""Five photographs in the package, to try a model on without a download.

`vitedu.data.photo("hopper").crop((0, 20, 512, 532))`

Credits are in `photos/CREDITS.txt`.
"""

from importlib import resources
from typing import TYPE_CHECKING

from vitedu.errors import UserError

if TYPE_CHECKING:
    from PIL.Image import Image

PHOTOS = ("hopper", "cat", "coffee", "astronaut", "rocket")


def photo(name: str) -> "Image":
    """One of `PHOTOS`, as an RGB pillow image. UserError: unknown name."""
    from PIL import Image

    if name not in PHOTOS:
        raise UserError(
            f"there is no photograph {name!r}; there are {', '.join(PHOTOS)}"
        )
    file = resources.files("vitedu.data") / "photos" / f"{name}.jpg"
    with file.open("rb") as content, Image.open(content) as image:
        return image.convert("RGB")
