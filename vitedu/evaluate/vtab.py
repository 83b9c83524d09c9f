"""VTAB-1k: 19 tasks of 1,000 training images each (Zhai et al. 2019).

All tasks are learned with one setting, and the score is the mean of their
accuracies (paper, section 4.1 and table 9). `vitedu.train.run_vtab` learns
them.

`for task in VTAB: print(task.name, task.where)`
"""

from collections.abc import Mapping
from math import nan
from statistics import fmean
from typing import Literal, NamedTuple

Group = Literal["natural", "specialized", "structured"]


class VtabTask(NamedTuple):
    """One of the 19."""

    name: str
    title: str  # in the paper's table 9
    group: Group
    num_classes: int
    question: str  # what the classes are
    where: str  # it can be had
    # the class of torchvision.datasets that reads it, and the folder for that
    # in $VITEDU_DATA; None: there is none
    torchvision: str | None = None
    dataset: str | None = None


class VtabResult(NamedTuple):
    """Test accuracy of each task in percent, and why the others are missing."""

    accuracies: Mapping[str, float]
    missing: Mapping[str, str]

    @property
    def mean(self) -> float:
        """Unweighted mean of the tasks that ran, VTAB's score if all did.

        NaN if none did.
        """
        return fmean(self.accuracies.values()) if self.accuracies else nan

    @property
    def group_means(self) -> dict[str, float]:
        """The same for the groups in which a task ran."""
        members: dict[str, list[float]] = {}
        for task in VTAB:
            if task.name in self.accuracies:
                accuracy = self.accuracies[task.name]
                members.setdefault(task.group, []).append(accuracy)
        return {group: fmean(each) for group, each in members.items()}


VTAB = (
    VtabTask(
        "caltech101",
        "Caltech101",
        "natural",
        102,
        "the object, or the background",
        "https://data.caltech.edu/records/mzrjq-6wc02",
        "Caltech101",
        "caltech101",
    ),
    VtabTask(
        "cifar100",
        "CIFAR-100",
        "natural",
        100,
        "the object",
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        "CIFAR100",
        "cifar100",
    ),
    VtabTask(
        "dtd",
        "DTD",
        "natural",
        47,
        "the texture",
        "https://www.robots.ox.ac.uk/~vgg/data/dtd/",
        "DTD",
        "dtd",
    ),
    VtabTask(
        "flowers102",
        "Flowers102",
        "natural",
        102,
        "the flower",
        "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/",
        "Flowers102",
        "flowers102",
    ),
    VtabTask(
        "pets",
        "Pets",
        "natural",
        37,
        "the breed",
        "https://www.robots.ox.ac.uk/~vgg/data/pets/",
        "OxfordIIITPet",
        "oxford-pets",
    ),
    VtabTask(
        "sun397",
        "Sun397",
        "natural",
        397,
        "the scene",
        "https://vision.princeton.edu/projects/2010/SUN/",
        "SUN397",
        "sun397",
    ),
    VtabTask(
        "svhn",
        "SVHN",
        "natural",
        10,
        "the digit in the middle of a house number",
        "http://ufldl.stanford.edu/housenumbers/",
        "SVHN",
        "svhn",
    ),
    VtabTask(
        "camelyon",
        "Camelyon",
        "specialized",
        2,
        "whether there is tumour tissue in the middle",
        "https://github.com/basveeling/pcam",
        "PCAM",
        "camelyon",
    ),
    VtabTask(
        "eurosat",
        "EuroSAT",
        "specialized",
        10,
        "what the land is used for",
        "https://github.com/phelber/EuroSAT",
        "EuroSAT",
        "eurosat",
    ),
    VtabTask(
        "resisc45",
        "Resisc45",
        "specialized",
        45,
        "the scene, from above",
        "https://gcheng-nwpu.github.io",
    ),
    VtabTask(
        "retinopathy",
        "Retinopathy",
        "specialized",
        5,
        "the stage of the disease, 0 to 4",
        "https://www.kaggle.com/c/diabetic-retinopathy-detection",
    ),
    VtabTask(
        "clevr-count",
        "Clevr-Count",
        "structured",
        8,
        "the number of objects, less 3",
        "https://cs.stanford.edu/people/jcjohns/clevr/",
        "CLEVRClassification",
        "clevr-count",
    ),
    VtabTask(
        "clevr-dist",
        "Clevr-Dist",
        "structured",
        6,
        "how far the nearest object is: to 8, 8.5, 9, 9.5, 10, beyond",
        "https://cs.stanford.edu/people/jcjohns/clevr/",
        "CLEVRClassification",
        "clevr-count",
    ),
    VtabTask(
        "dmlab",
        "DMLab",
        "structured",
        6,
        "how far the nearest object of a maze is, and whether it is good",
        "https://www.tensorflow.org/datasets/catalog/dmlab",
    ),
    VtabTask(
        "dsprites-loc",
        "dSpr-Loc",
        "structured",
        16,
        "the horizontal position: label_x_position // 2",
        "https://github.com/google-deepmind/dsprites-dataset",
    ),
    VtabTask(
        "dsprites-ori",
        "dSpr-Ori",
        "structured",
        16,
        "the orientation: label_orientation // 2.5",
        "https://github.com/google-deepmind/dsprites-dataset",
    ),
    VtabTask(
        "kitti-dist",
        "KITTI-Dist",
        "structured",
        4,
        "how far the nearest car, van or truck is: to 8 m, 20 m, beyond, none",
        "https://www.cvlibs.net/datasets/kitti/",
    ),
    VtabTask(
        "snorb-azim",
        "sNORB-Azim",
        "structured",
        18,
        "the azimuth of the camera, in steps of 20 degrees",
        "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/",
    ),
    VtabTask(
        "snorb-elev",
        "sNORB-Elev",
        "structured",
        9,
        "the elevation of the camera, in steps of 5 degrees",
        "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/",
    ),
)
