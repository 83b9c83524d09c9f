"""Photographs as a camera stores them: turned, with a tag that says how."""

import io

from PIL import Image, ImageOps

ORIENTATION = 0x0112  # EXIF's tag


def photographed(picture, tag, kind="PNG", **options):
    """The bytes of a file whose pixels are turned so that `tag` undoes it."""
    exif, file = Image.Exif(), io.BytesIO()
    # a quarter turn is undone by the other one, all else by itself
    exif[ORIENTATION] = {6: 8, 8: 6}.get(tag, tag)
    picture.save(file, "PNG", exif=exif)
    stored = ImageOps.exif_transpose(Image.open(file))
    exif[ORIENTATION], file = tag, io.BytesIO()
    stored.save(file, kind, exif=exif, **options)
    return file.getvalue()
