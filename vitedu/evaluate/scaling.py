"""Power laws of error over compute, with intervals, and the paper's Table 6.

fit = power_law(compute, errors); fit.error(1000.0) is its error there, and
interval(bootstrap(compute, errors).error(1000.0)) how sure that is.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from vitedu.budget import training_flops
from vitedu.errors import UserError
from vitedu.model import resnet_config, vit_config
from vitedu.model.network import NetworkConfig

JFT_IMAGES = 303e6  # paper, section 4.1


class Pretrained(NamedTuple):
    """A row of Table 6: accuracies in percent after transfer, and its cost."""

    model: str
    epochs: int  # of JFT-300M
    imagenet: float
    real: float
    cifar10: float
    cifar100: float
    pets: float
    flowers: float
    exaflops: float  # as printed

    @property
    def family(self) -> str:
        """One of "vit", "resnet" and "hybrid"."""
        if "+" in self.model:
            return "hybrid"
        return "vit" if self.model.startswith("ViT") else "resnet"

    @property
    def mean(self) -> float:
        """The mean of five sets (not ReaL), the left half of Figure 5."""
        sets = self.imagenet, self.cifar10, self.cifar100
        return (sum(sets) + self.pets + self.flowers) / 5

    @property
    def config(self) -> NetworkConfig:
        """Its network, at 224 pixels and with a head of 1,000 classes."""
        build = resnet_config if self.family == "resnet" else vit_config
        return build(self.model)

    @property
    def recounted(self) -> float:
        """Its exaFLOPs by `vitedu.budget`, two to a multiply-add."""
        images = self.epochs * JFT_IMAGES
        return images * training_flops(self.config) / 1e18


TABLE_6 = tuple(
    Pretrained(*row)
    for row in (
        ("ViT-B/32", 7, 80.73, 86.27, 98.61, 90.49, 93.40, 99.27, 55),
        ("ViT-B/16", 7, 84.15, 88.85, 99.00, 91.87, 95.80, 99.56, 224),
        ("ViT-L/32", 7, 84.37, 88.28, 99.19, 92.52, 95.83, 99.45, 196),
        ("ViT-L/16", 7, 86.30, 89.43, 99.38, 93.46, 96.81, 99.66, 783),
        ("ViT-L/16", 14, 87.12, 89.99, 99.38, 94.04, 97.11, 99.56, 1567),
        ("ViT-H/14", 14, 88.08, 90.36, 99.50, 94.71, 97.11, 99.71, 4262),
        ("R50x1", 7, 77.54, 84.56, 97.67, 86.07, 91.11, 94.26, 50),
        ("R50x2", 7, 82.12, 87.94, 98.29, 89.20, 93.43, 97.02, 199),
        ("R101x1", 7, 80.67, 87.07, 98.48, 89.17, 94.08, 95.95, 96),
        ("R152x1", 7, 81.88, 87.96, 98.82, 90.22, 94.17, 96.94, 141),
        ("R152x2", 7, 84.97, 89.69, 99.06, 92.05, 95.37, 98.62, 563),
        ("R152x2", 14, 85.56, 89.89, 99.24, 91.92, 95.75, 98.75, 1126),
        ("R200x3", 14, 87.22, 90.15, 99.34, 93.53, 96.32, 99.04, 3306),
        ("R50+ViT-B/32", 7, 84.90, 89.15, 99.01, 92.24, 95.75, 99.46, 106),
        ("R50+ViT-B/16", 7, 85.58, 89.65, 99.14, 92.63, 96.65, 99.40, 274),
        ("R50+ViT-L/32", 7, 85.68, 89.04, 99.24, 92.93, 96.97, 99.43, 246),
        ("R50+ViT-L/16", 7, 86.60, 89.72, 99.18, 93.64, 97.03, 99.40, 859),
        ("R50+ViT-L/16", 14, 87.12, 89.76, 99.31, 93.89, 97.36, 99.11, 1668),
    )
)


class PowerLaw(NamedTuple):
    """error = factor * compute ** exponent; () or, of resamples, (samples,)."""

    factor: Tensor
    exponent: Tensor

    def error(self, compute: float | Tensor) -> Tensor:
        """What the law gives for a cost."""
        return self.factor * compute**self.exponent

    def compute(self, error: float | Tensor) -> Tensor:
        """The cost for which the law gives an error."""
        return (error / self.factor) ** (1 / self.exponent)


def power_law(compute: Tensor, errors: Tensor) -> PowerLaw:
    """Least squares in logarithms: costs (n,) and errors (n,) of n models.

    UserError: fewer than three different costs, or a number without a
    logarithm.
    """
    return fitted(*checked(compute, errors, 3))


def bootstrap(
    compute: Tensor, errors: Tensor, *, samples: int = 2000, seed: int = 0
) -> PowerLaw:
    """Power laws of `samples` draws of n models of n, with repeats.

    Draws of fewer than three different costs are drawn again. UserError as by
    `power_law`, and for fewer than four different costs.
    """
    compute, errors = checked(compute, errors, 4)
    generator = torch.Generator().manual_seed(seed)
    # of four models two draws in three are kept, of more models more
    shape = 3 * samples, len(compute)
    rows = torch.randint(len(compute), shape, generator=generator)
    steps = compute[rows].sort(dim=1).values.diff(dim=1)
    rows = rows[(steps > 0).sum(dim=1) >= 2][:samples]
    return fitted(compute[rows], errors[rows])


def checked(
    compute: Tensor, errors: Tensor, fewest: int
) -> tuple[Tensor, Tensor]:
    compute, errors = compute.double(), errors.double()
    for name, values in {"a cost": compute, "an error": errors}.items():
        wrong = values[~(values.isfinite() & (values > 0))]
        if len(wrong):
            raise UserError(
                f"{name} of {wrong[0]:g} has no logarithm; an accuracy of "
                "100% leaves no error to fit, so leave that model out"
            )
    costs = len(compute.unique())
    if costs < fewest:
        raise UserError(
            f"this wants models of at least {fewest} different costs, got "
            f"{costs}: a line through two points always fits"
        )
    return compute, errors


def fitted(compute: Tensor, errors: Tensor) -> PowerLaw:
    """One fit over the last axis: (..., n) and (..., n)."""
    x, y = compute.log(), errors.log()
    dx = x - x.mean(-1, keepdim=True)
    exponent = (dx * y).sum(-1) / dx.square().sum(-1)
    factor = (y.mean(-1) - exponent * x.mean(-1)).exp()
    return PowerLaw(factor, exponent)


def advantage(
    ours: PowerLaw, theirs: PowerLaw, compute: float | Tensor
) -> Tensor:
    """How many times `compute` they need for the error that we reach by it."""
    return theirs.compute(ours.error(compute)) / compute


def interval(values: Tensor, share: float = 0.9) -> tuple[float, float]:
    """The middle `share` of values (n,): its lower and its upper end."""
    tail = (1 - share) / 2
    ends = torch.tensor([tail, 1 - tail], dtype=values.dtype)
    low, high = values.quantile(ends).tolist()
    return low, high
