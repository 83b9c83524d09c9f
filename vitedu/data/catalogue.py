"""The named data sets. A new one is one more entry of CATALOGUE, nothing else.

`CATALOGUE["mnist"].class_names` is ("0", "1", ..., "9").

With its entry a set is listed by `vitedu info data`, found in $VITEDU_DATA/NAME
and in the cache, downloaded, read by `load_dataset` and trained on.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple


class File(NamedTuple):
    """A file to download, and what it has to be when it has arrived."""

    name: str
    num_bytes: int
    sha256: str


@dataclass(frozen=True)
class NamedSet:
    """What is known about a data set that has a name.

    Attributes:
        title: its name in a sentence
        format: how its files are read, by `vitedu.data.formats`: "idx" is
            MNIST's, four files; "cifar10" a folder of batches or an archive of
            one; "npz" a file with x_train, y_train, x_test and y_test
        files: what to download; for "idx" training images, their labels, test
            images, their labels
        mirrors: addresses that end in "/", in the order in which they are tried
        class_names: what label 0, 1, ... is called
        inner_folder: where another program puts the files inside a folder
    """

    title: str
    format: Literal["idx", "cifar10", "npz"]
    files: tuple[File, ...]
    mirrors: tuple[str, ...]
    class_names: tuple[str, ...]
    inner_folder: str = "."

    @property
    def layouts(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Layouts of a folder that contains the set, each a path and its files.

        A file may also be there with ".gz" behind its name. No files: the path
        itself is a file.
        """
        if self.format == "npz":
            return tuple((file.name, ()) for file in self.files)
        if self.format == "cifar10":
            binary = tuple(f"{name}.bin" for name in CIFAR_BATCHES)
            return (
                ("cifar-10-batches-bin", binary),
                (".", binary),
                ("cifar-10-batches-py", CIFAR_BATCHES),
                (".", CIFAR_BATCHES),
                ("cifar-10-binary.tar.gz", ()),
                ("cifar-10-python.tar.gz", ()),
            )
        names = tuple(file.name.removesuffix(".gz") for file in self.files)
        return ((".", names), (self.inner_folder, names))


@dataclass(frozen=True)
class PictureArchive:
    """Photographs in class folders that come as one zip.

    Attributes:
        title: its name in a sentence
        address: where the zip is
        most_bytes: no zip and no content beyond this is taken
        inner_folder: the folder in the zip that has train/ and val/
        num_pictures: in all parts
        names_sha256: of the paths of the pictures below that folder, sorted, a
            line each; nothing else is unpacked. The server publishes no
            checksum of the zip.
        class_names: its class folders
    """

    title: str
    address: str
    most_bytes: int
    inner_folder: str
    num_pictures: int
    names_sha256: str
    class_names: tuple[str, ...]


CIFAR_BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
DIGIT_NAMES = tuple("0123456789")

MNIST_FILES = (
    File(
        "train-images-idx3-ubyte.gz",
        9_912_422,
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    ),
    File(
        "train-labels-idx1-ubyte.gz",
        28_881,
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    ),
    File(
        "t10k-images-idx3-ubyte.gz",
        1_648_877,
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    ),
    File(
        "t10k-labels-idx1-ubyte.gz",
        4_542,
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
)
FASHION_FILES = (
    File(
        "train-images-idx3-ubyte.gz",
        26_421_880,
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    ),
    File(
        "train-labels-idx1-ubyte.gz",
        29_515,
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    ),
    File(
        "t10k-images-idx3-ubyte.gz",
        4_422_102,
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    ),
    File(
        "t10k-labels-idx1-ubyte.gz",
        5_148,
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
)
# the binary form, since the other one is a pickle
CIFAR10_FILES = (
    File(
        "cifar-10-binary.tar.gz",
        170_052_171,
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    ),
)

CATALOGUE = {
    "mnist": NamedSet(
        title="MNIST",
        format="idx",
        files=MNIST_FILES,
        mirrors=(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        class_names=DIGIT_NAMES,
        inner_folder="MNIST/raw",
    ),
    "fashion-mnist": NamedSet(
        title="Fashion-MNIST",
        format="idx",
        files=FASHION_FILES,
        mirrors=(
            "https://github.com/zalandoresearch/fashion-mnist/raw/"
            "master/data/fashion/",
            "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
        ),
        class_names=(
            "T-shirt/top",
            "Trouser",
            "Pullover",
            "Dress",
            "Coat",
            "Sandal",
            "Shirt",
            "Sneaker",
            "Bag",
            "Ankle boot",
        ),
        inner_folder="FashionMNIST/raw",
    ),
    "cifar10": NamedSet(
        title="CIFAR-10",
        format="cifar10",
        files=CIFAR10_FILES,
        mirrors=("https://www.cs.toronto.edu/~kriz/",),
        class_names=(
            "airplane",
            "automobile",
            "bird",
            "cat",
            "deer",
            "dog",
            "frog",
            "horse",
            "ship",
            "truck",
        ),
    ),
}

# 244 + 153 photographs of the transfer-learning tutorial of PyTorch.
ARCHIVES = {
    "ants-bees": PictureArchive(
        title="Ants and bees",
        address="https://download.pytorch.org/tutorial/hymenoptera_data.zip",
        most_bytes=100_000_000,
        inner_folder="hymenoptera_data",
        num_pictures=397,
        names_sha256="8d349b42de8bb8c790910e22165b3dc7"
        "b5a0d108be102dff5b365172b947efa8",
        class_names=("ants", "bees"),
    )
}
