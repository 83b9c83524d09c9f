"""Pixels and labels: where they lie, how they are read, augmented and fed."""

from vitedu.data.array_source import ArraySource
from vitedu.data.arrays import (
    Arrays,
    Dataset,
    load_dataset,
    split,
    subset,
)
from vitedu.data.augment import Augment, mix
from vitedu.data.folders import (
    FolderDataset,
    evaluation_part,
    folder_of,
    load_folder,
)
from vitedu.data.image_source import ImageSource
from vitedu.data.images import Pictures, find_images, match_classes
from vitedu.data.items import Items, from_torch
from vitedu.data.kinds import as_source
from vitedu.data.prepare import Prepared, prepare
from vitedu.data.readers.photos import photo
from vitedu.data.shards import Shards, find_shards
from vitedu.data.source import Source
from vitedu.data.sources import Location, locate, where
from vitedu.pictures import PreprocessSpec, normalise, read_image

__all__ = [
    "ArraySource",
    "Arrays",
    "Augment",
    "Dataset",
    "FolderDataset",
    "ImageSource",
    "Items",
    "Location",
    "Pictures",
    "Prepared",
    "PreprocessSpec",
    "Shards",
    "Source",
    "as_source",
    "evaluation_part",
    "find_images",
    "find_shards",
    "folder_of",
    "from_torch",
    "load_dataset",
    "load_folder",
    "locate",
    "match_classes",
    "mix",
    "normalise",
    "photo",
    "prepare",
    "read_image",
    "split",
    "subset",
    "where",
]
