"""Pixels and labels: where they lie, how they are read, augmented and fed."""

from vitedu.data.array_sets import load_dataset
from vitedu.data.augment import Augment, mix
from vitedu.data.catalogue import MissingDataError
from vitedu.data.dataset import Dataset, Reader, Split, match_classes
from vitedu.data.feed.arrays import ArraySource
from vitedu.data.feed.pictures import ImageSource
from vitedu.data.feed.source import Source
from vitedu.data.locate import Location, locate, where
from vitedu.data.open import (
    as_source,
    evaluation_part,
    find_images,
    folder_of,
    load_folder,
)
from vitedu.data.prepare import Prepared, prepare
from vitedu.data.readers.boxes import Boxed, BoxedSet, load_boxes
from vitedu.data.readers.photos import photo
from vitedu.data.readers.torch_dataset import from_torch
from vitedu.pictures import PreprocessSpec, normalise, read_image

__all__ = [
    "ArraySource",
    "Augment",
    "Boxed",
    "BoxedSet",
    "Dataset",
    "ImageSource",
    "Location",
    "MissingDataError",
    "Prepared",
    "PreprocessSpec",
    "Reader",
    "Source",
    "Split",
    "as_source",
    "evaluation_part",
    "find_images",
    "folder_of",
    "from_torch",
    "load_boxes",
    "load_dataset",
    "load_folder",
    "locate",
    "match_classes",
    "mix",
    "normalise",
    "photo",
    "prepare",
    "read_image",
    "where",
]
