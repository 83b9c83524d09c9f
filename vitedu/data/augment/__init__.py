"""What training does to pictures: moved, cropped, recoloured, erased, mixed."""

from vitedu.data.augment.augment import (
    BOX,
    Augment,
    apply,
    augmentation_table,
    erase,
    mix,
)

__all__ = ["BOX", "Augment", "apply", "augmentation_table", "erase", "mix"]
