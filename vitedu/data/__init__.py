"""Pixels and labels: where they lie, how they are read, augmented and fed."""

from vitedu.data.arrays import (
    Arrays,
    ArraySource,
    Dataset,
    load_dataset,
    split,
    subset,
)
from vitedu.data.augment import Augment
from vitedu.data.images import (
    ImageSource,
    Pictures,
    find_images,
    match_classes,
)
from vitedu.data.preprocess import PreprocessSpec, normalise, read_image
from vitedu.data.sources import Location, locate, where

__all__ = [
    "ArraySource",
    "Arrays",
    "Augment",
    "Dataset",
    "ImageSource",
    "Location",
    "Pictures",
    "PreprocessSpec",
    "find_images",
    "load_dataset",
    "locate",
    "match_classes",
    "normalise",
    "read_image",
    "split",
    "subset",
    "where",
]
