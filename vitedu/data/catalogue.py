"""The named data sets; to add one, add an entry to CATALOGUE.

`CATALOGUE["mnist"].class_names` is ("0", "1", ..., "9").

An entry is enough for a set to be listed by `vitedu info data`, found in
$VITEDU_DATA/NAME and in the cache, downloaded, read and trained on.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from vitedu.errors import UserError
from vitedu.files import user_path

Kind = Literal[
    "package", "photos", "idx", "cifar", "npz", "zip", "torchvision", "boxes"
]
ARRAYS: tuple[Kind, ...] = ("package", "idx", "cifar", "npz")
# A path below the set's folder and the files in it, each of which may have
# ".gz" behind its name. No files: the path is a file itself.
Layout = tuple[str, tuple[str, ...]]


class File(NamedTuple):
    """A file to download, with its expected digest."""

    name: str
    sha256: str


@dataclass(frozen=True)
class NamedSet:
    """A data set that can be loaded by name.

    Attributes:
        title: its name in a sentence
        kind: "idx" is MNIST's, four files; "cifar" a folder of batches or an
            archive of one; "npz" a file with x_train, y_train, x_test and
            y_test; "package" such a file in this package; "photos" class
            folders in train/ and test/ in this package; "zip" class folders,
            in train/ and val/ or sorted by `splits`, packed below a folder
            named like the zip; "torchvision" that library, which also
            downloads; "boxes" pictures with boxes, for `load_boxes`
        class_names: names of labels 0, 1, ...; () if the files have them
        files: what to download; for "idx" images and labels to train on, then
            images and labels to test on; for "zip" the zip first
        mirrors: addresses that end in "/", tried in this order
        layouts: file layouts by which the set is recognised in a folder
        torchvision: its class in torchvision.datasets
        splits: that class's argument `split` for train, val and test, or the
            file that lists a part's pictures, each first in its line; {}: it
            has one part, or its own folders for them
    """

    title: str
    kind: Kind
    class_names: tuple[str, ...] = ()
    files: tuple[File, ...] = ()
    mirrors: tuple[str, ...] = ()
    layouts: tuple[Layout, ...] = ()
    torchvision: str = ""
    splits: Mapping[str, str] = field(default_factory=dict)


def kind_of(name: str) -> Kind | None:
    return CATALOGUE[name].kind if name in CATALOGUE else None


def sets_of(*kinds: Kind) -> tuple[str, ...]:
    return tuple(name for name in CATALOGUE if kind_of(name) in kinds)


def _idx(
    title: str,
    class_names: tuple[str, ...],
    sha256s: tuple[str, ...],
    mirrors: tuple[str, ...],
    inner: str,
) -> NamedSet:
    names = (f"{name}.gz" for name in IDX_NAMES)
    files = tuple(map(File, names, sha256s))
    layouts = ((".", IDX_NAMES), (inner, IDX_NAMES))
    return NamedSet(title, "idx", class_names, files, mirrors, layouts)


def _cifar(
    title: str,
    class_names: tuple[str, ...],
    batches: tuple[str, ...],
    archive: str,
    folders: tuple[str, str],
    sha256: str,
) -> NamedSet:
    """Batches in their folder or alone, or their archive; binary ones first."""
    binary, pickled = folders
    records = tuple(f"{name}.bin" for name in batches)
    layouts: tuple[Layout, ...] = (
        (binary, records),
        (".", records),
        (pickled, batches),
        (".", batches),
        (f"{archive}-binary.tar.gz", ()),
        (f"{archive}-python.tar.gz", ()),
    )
    # the binary form, since the other one is a pickle
    files = (File(f"{archive}-binary.tar.gz", sha256),)
    mirrors = ("https://www.cs.toronto.edu/~kriz/",)
    return NamedSet(title, "cifar", class_names, files, mirrors, layouts)


def _by_torchvision(
    title: str,
    torchvision: str,
    class_names: tuple[str, ...] = (),
    **splits: str,
) -> NamedSet:
    return NamedSet(
        title, "torchvision", class_names, (), (), (), torchvision, splits
    )


IDX_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
CIFAR10_BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
CIFAR100_BATCHES = ("train", "test")
DIGIT_NAMES = tuple("0123456789")
FASHION_NAMES = (
    *"T-shirt/top Trouser Pullover Dress Coat Sandal Shirt Sneaker Bag".split(),
    "Ankle boot",
)
CIFAR10_NAMES = tuple(
    "airplane automobile bird cat deer dog frog horse ship truck".split()
)
CIFAR100_NAMES = tuple(
    """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy
    bridge bus butterfly camel can castle caterpillar cattle chair chimpanzee
    clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant
    flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower
    leopard lion lizard lobster man maple_tree motorcycle mountain mouse
    mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree
    plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea
    seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
    sunflower sweet_pepper table tank telephone television tiger tractor train
    trout tulip turtle wardrobe whale willow_tree wolf woman worm
    """.split()
)

TRASH_NAMES = tuple("cardboard glass metal paper plastic trash".split())
TRASH_LISTS = {
    part: f"one-indexed-files-notrash_{part}.txt"
    for part in ("train", "val", "test")
}
TRASH_SHA256S = (
    "420971a4248b42b07a741ef277059d92ded0c559cae8960c6a488e9c316ff789",
    "a6c01936e4a4adce41e8da776db39b366d1db46acf07f63215bbe24709081340",
    "a8cc4e520e4676c6e1bd6346d51a101f80e468763a36f2818ed4e32abb05bb79",
)

CATALOGUE: dict[str, NamedSet] = {
    "digits": NamedSet(
        "Digits", "package", DIGIT_NAMES, layouts=(("digits.npz", ()),)
    ),
    "mnist": _idx(
        "MNIST",
        DIGIT_NAMES,
        (
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        inner="MNIST/raw",
    ),
    "fashion-mnist": _idx(
        "Fashion-MNIST",
        FASHION_NAMES,
        (
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
        (
            "https://github.com/zalandoresearch/fashion-mnist/raw/"
            "master/data/fashion/",
            "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
        ),
        inner="FashionMNIST/raw",
    ),
    "cifar10": _cifar(
        "CIFAR-10",
        CIFAR10_NAMES,
        CIFAR10_BATCHES,
        "cifar-10",
        ("cifar-10-batches-bin", "cifar-10-batches-py"),
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    ),
    "cifar100": _cifar(
        "CIFAR-100",
        CIFAR100_NAMES,
        CIFAR100_BATCHES,
        "cifar-100",
        ("cifar-100-binary", "cifar-100-python"),
        "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
    ),
    # 244 + 153 photographs of the transfer-learning tutorial of PyTorch
    "ants-bees": NamedSet(
        "Ants and bees",
        "zip",
        ("ants", "bees"),
        (
            File(
                "hymenoptera_data.zip",
                "fbc41b31d544714d18dd1230b1e2b455"
                "e1557766e13e67f9f5a7a23af7c02209",
            ),
        ),
        ("https://download.pytorch.org/tutorial/",),
    ),
    # of which the package has twelve pictures
    "bccd": NamedSet(
        "Blood cells (BCCD)",
        "boxes",
        ("RBC", "WBC", "Platelets"),
        layouts=(
            (".", ("boxes.csv", "train.txt", "val.txt", "test.txt")),
            (".", ("test.csv", "BCCD/ImageSets/Main/train.txt")),
        ),
    ),
    # 2,527 photographs, by Gary Thung and Mindy Yang; tools/trashnet.py made
    # the small set
    "trashnet": NamedSet(
        "TrashNet",
        "zip",
        TRASH_NAMES,
        (
            File(
                "dataset-resized.zip",
                "c060e8abfe5d6de0578ca15be1ed8ad0"
                "794a865d333c3473d53d1d9ad6e38b8c",
            ),
            *map(File, TRASH_LISTS.values(), TRASH_SHA256S),
        ),
        (
            "https://github.com/garythung/trashnet/raw/master/data/",
            # the zip alone
            "https://huggingface.co/datasets/garythung/trashnet/resolve/main/",
        ),
        splits=TRASH_LISTS,
    ),
    "trashnet-small": NamedSet("TrashNet, small", "photos", TRASH_NAMES),
    "caltech101": _by_torchvision("Caltech-101", "Caltech101"),
    "clevr-count": _by_torchvision(
        "CLEVR (number of objects)",
        "CLEVRClassification",
        train="train",
        test="val",
    ),
    "dtd": _by_torchvision("DTD", "DTD", train="train", val="val", test="test"),
    "eurosat": _by_torchvision("EuroSAT", "EuroSAT"),
    "flowers102": _by_torchvision(
        "Flowers-102", "Flowers102", train="train", val="val", test="test"
    ),
    "food101": _by_torchvision(
        "Food-101", "Food101", train="train", test="test"
    ),
    "oxford-pets": _by_torchvision(
        "Oxford-IIIT Pets", "OxfordIIITPet", train="trainval", test="test"
    ),
    "stl10": _by_torchvision("STL-10", "STL10", train="train", test="test"),
    "sun397": _by_torchvision("SUN397", "SUN397"),
    "svhn": _by_torchvision(
        "SVHN", "SVHN", DIGIT_NAMES, train="train", test="test"
    ),
}


class MissingDataError(UserError):
    """A named data set isn't in any place and couldn't be downloaded."""


def folders_of(name: str) -> tuple[Path, ...]:
    if kind_of(name) == "package":
        return (Path(__file__).parent,)
    if kind_of(name) == "photos":
        return (Path(__file__).parent / name,)
    root = os.environ.get("VITEDU_DATA")
    own = (user_path(root) / name,) if root else ()
    return (*own, cache_folder() / name)


def cache_folder() -> Path:
    if given := os.environ.get("VITEDU_CACHE"):
        return user_path(given)
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
        return user_path(local) / "vitedu" / "Cache"
    if sys.platform == "darwin":
        return user_path("~/Library/Caches/vitedu")
    return user_path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "vitedu"


def is_offline() -> bool:
    return os.environ.get("VITEDU_OFFLINE", "") not in ("", "0")
