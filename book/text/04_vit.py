# %% [markdown]
# (ch-vit)=
# # The Vision Transformer
#
# We have both halves of a network. {ref}`ch-images` turns an image into a row of patch
# tokens, and {ref}`ch-encoder` sends such a row through $L$ blocks until every token
# knows of the others. What is missing is what makes a classifier of them: one answer
# instead of sixteen, a trace of where each patch stood, and values for the weights to
# begin with. The question: **how little must be added, and how can we tell that the
# result is the paper's network and not one that resembles it?**
#
# At the end you have written `ViT`, a class whose forward pass reads like four
# equations. You can account for each of the 86,567,656 weights of ViT-B/16, say its
# first loss before it has seen an image, and have held the output of `ViT` against
# another library's.

# %% tags=["setup", "remove-cell"]
import importlib.util

if importlib.util.find_spec("vitedu") is None:
    # %pip install -q "vitedu @ git+https://github.com/OWNER/vitedu@main"
    pass

# %% tags=["nbval-ignore-output"]
import torch

torch.set_num_threads(1)
_ = torch.manual_seed(0)
print(f"seed 0, cpu, torch {torch.__version__}")

# %% tags=["hide-input"]
from vitedu import figures

figures.show(*figures.network("network"))

# %% [markdown]
# ## Sixteen vectors in, sixteen vectors out
#
# Three handwritten digits of 28×28 pixels, cut into patches of 7×7, are 16 tokens each.
# We give every token $D = 24$ numbers and send it through two blocks.

# %%
from torch import Tensor, nn

from vitedu.data import load_dataset
from vitedu.model import EncoderBlock, PatchEmbedding

digits = load_dataset("digits")
images = digits.train.images[:3] / 127.5 - 1  # (b, c, h, w), in -1..1
d = 24
patch_embed = PatchEmbedding((28, 28), (7, 7), 1, d)
blocks = nn.Sequential(EncoderBlock(d, 3, 96), EncoderBlock(d, 3, 96))
patches = patch_embed(images)  # (b, n, d)
print(tuple(patches.shape), "->", tuple(blocks(patches).shape))

# %% [markdown]
# Sixteen vectors come out, and an image has one class. Laying all of them in a row and
# putting one linear layer on top would answer, at a price: for 196 patches of 768
# numbers and 1,000 classes that layer alone has 196 · 768 · 1,000 = 150.5 million
# weights, while the whole of ViT-B/16, to which these numbers belong, will turn out to
# have 86.6 million. To read the answer off one patch's vector is cheap, but which
# patch? None of them is there to speak for the image. The mean of all sixteen favours
# none; it works too, and we come to it below.
#
# ## A token that belongs to no patch
#
# The paper adds a vector that is there for this alone, as BERT does for sentences
# {cite}`devlin2019bert`. The {term}`class token` is a learned vector in front of the
# row. It stands for no pixels; whatever it holds after the last block, attention has
# brought there. Together with the positions, which the next section needs, this is
# equation (1):
#
# $$\mathbf{z}_0 = [\mathbf{x}_\text{class};\ \mathbf{x}_p^1\mathbf{E};\ \dots;\ \mathbf{x}_p^N\mathbf{E}] + \mathbf{E}_{pos} \tag{1}$$
#
# $\mathbf{x}_p^i$ is patch number $i$ as a flat row, $\mathbf{E}$ the matrix that makes
# $D$ numbers of it, $N$ the number of patches; the semicolon puts rows under each other.
# $\mathbf{x}_\text{class}$ is one row of $D$ numbers and $\mathbf{E}_{pos}$ a table of
# $N + 1$ such rows.
#
# On paper, with $N = 2$ and $D = 2$: let the class token be $(5, 5)$ and the rows of the
# table $(0, 0)$, $(0, 0.1)$ and $(0, 0.2)$. An image whose two patch tokens are equal,
# $(1, 0)$ and $(1, 0)$, becomes $(5, 5)$, $(1, 0.1)$, $(1, 0.2)$: three tokens, and the
# equal ones can now be told apart. A second image with $(0, 2)$ and $(3, 0)$ becomes
# $(5, 5)$, $(0, 2.1)$, $(3, 0.2)$. Both begin with the same vector.

# %% tags=["nbval-check-output"]
x_class = torch.tensor([[[5.0, 5.0]]], requires_grad=True)  # (1, 1, d)
embedded = torch.tensor([[[1.0, 0], [1, 0]], [[0, 2], [3, 0]]])  # (b, n, d)
e_pos = torch.tensor([[[0, 0], [0, 0.1], [0, 0.2]]])  # (1, n + 1, d)

in_front = x_class.expand(len(embedded), -1, -1)  # (b, 1, d), no copy
z0 = torch.cat([in_front, embedded], dim=1) + e_pos  # (b, n + 1, d)
first = [[5, 5], [1, 0.1], [1, 0.2]]
second = [[5, 5], [0, 2.1], [3, 0.2]]
assert torch.allclose(z0, torch.tensor([first, second]))
assert in_front.stride(0) == 0  # the next image's row is the same memory

z0.sum().backward()
assert x_class.grad.tolist() == [[[2.0, 2.0]]]  # 1 from each of 2 images
print("2 images, 3 tokens each; one class token learns from both")

# %% [markdown]
# `expand` repeats the token without copying it, and in the backward pass the gradients
# of all images are added up in the one vector that there is.

# %% tags=["hide-input"]
from vitedu.figures.vit import tokens

figures.show(*tokens())

# %% [markdown]
# In neither of the two learned tensors on the left does the number of images occur. It
# is easy to write it in by accident: the tokens have shape (b, n, d), so a class token
# of shape (b, 1, d) can be put in front of them without `expand`, and the code runs.

# %% tags=["failure"]
per_sample = torch.randn(3, 1, d)  # one for each of the 3 images: wrong
shared = torch.randn(1, 1, d)
order = [2, 0, 1]


def change_by_order(token):
    """How far an image's answer moves with the order of the batch."""
    straight = blocks(torch.cat([token, patches], dim=1))[:, 0]
    mixed = blocks(torch.cat([token, patches[order]], dim=1))[:, 0]
    return (mixed - straight[order]).abs().max()


assert change_by_order(shared.expand(3, -1, -1)) < 1e-5
assert change_by_order(per_sample) > 0.1
print("one token for all: an image's answer is its own")
print("one per sample: it depends on the image's place in the batch")

# %% [markdown]
# This is worse than an error: what the network says of an image depends on where in the
# batch it happens to stand. The mistake shows itself only when a batch of another size
# comes along, often the last one of the first epoch.

# %% tags=["failure", "raises-exception"]
five = patch_embed(digits.train.images[:5] / 127.5 - 1)  # (5, n, d)
torch.cat([per_sample, five], dim=1)

# %% [markdown]
# ```{admonition} To keep
# What is learned belongs to the model and never to the batch: class token (1, 1, d),
# positions (1, n + 1, d).
# ```
#
# ## Where was the patch?
#
# {ref}`ch-attention` showed that attention treats its tokens as a set: shuffle them, and
# the outputs come out shuffled in the same way, otherwise unchanged. The blocks' other
# parts, norms and MLP, look at one token at a time. The class token is not shuffled; it
# stays in row 0.

# %%
import numpy as np
from matplotlib.cbook import get_sample_data
from PIL import Image

from vitedu.figures.vit import pictures
from vitedu.model import patchify, unpatchify

with get_sample_data("grace_hopper.jpg") as file:
    picture = Image.open(file).convert("RGB").crop((0, 20, 512, 532))
pixels = np.array(picture.resize((112, 112)))  # (h, w, c)
photo = torch.tensor(pixels).permute(2, 0, 1)[None] / 255  # (1, c, h, w)

places = torch.randperm(49, generator=torch.Generator().manual_seed(0))
shuffled = unpatchify(patchify(photo, 16)[:, places], 16, (7, 7))
titles = ("as it was taken", "its 49 patches shuffled")
seen = "A portrait; beside it its patches in disorder, and no face to be found."
figures.show(*pictures(photo[0], shuffled[0], titles, seen))

# %% [markdown]
# **Before you read on:** both pictures go through the same patch embedding and the same
# blocks. How far apart are the two class tokens at the end, first without positions,
# then with a table of small random numbers?

# %% tags=["nbval-check-output"]
stem = PatchEmbedding((112, 112), (16, 16), 3, d).double()
encoder = nn.Sequential(EncoderBlock(d, 3, 96), EncoderBlock(d, 3, 96)).double()
class_token = torch.randn(1, 1, d, dtype=torch.float64)


def class_row(image, table):
    """Row 0 after the blocks: (1, c, h, w) -> (1, d)."""
    z = torch.cat([class_token, stem(image.double() * 2 - 1)], dim=1)
    return encoder(z + table)[:, 0]


def distance(table):
    """Between the answers to both pictures, relative to their size."""
    one, other = class_row(photo, table), class_row(shuffled, table)
    return ((one - other).norm() / one.norm()).item()


no_table = torch.zeros(1, 50, d, dtype=torch.float64)
table = 0.02 * torch.randn(1, 50, d, dtype=torch.float64)
assert distance(no_table) < 1e-12 and 0.002 < distance(table) < 0.006
apart = f"{distance(table):.1%}"
print(f"without positions equal to 12 digits; with them {apart} apart")


# %% [markdown]
# Without positions the network cannot tell a face from its pieces. For it, both
# pictures are the same set of patches, and no training will change that: the equality
# holds for every value of the weights. A network that is to know "eye above mouth" must
# find the place of a patch *in its token*, and equation (1) puts it there by the
# plainest means: a {term}`position embedding`, one learned row for each place, added
# once before the first block. Small random rows set the two answers 0.4 % apart;
# training makes of them what it needs.
#
# A row knows only its number in the sequence. That 16 patches form a 4×4 grid, that
# number 5 lies below number 1, is nowhere written (that is what "1-D" means). The
# authors also tried to write the grid in, with a table for its rows and one for its
# columns (2-D), and to tell attention how many places apart in the sequence two tokens
# are, with no table at all (relative). Table 8 of {cite:t}`dosovitskiy2021` compares
# them for ViT-B/16 by 5-shot accuracy on ImageNet: a linear classifier learns from the
# features of 5 images a class, and the network stays as it is.
#
# | positions | none | 1-D | 2-D | relative |
# |---|---|---|---|---|
# | accuracy | 0.614 | **0.642** | 0.640 | 0.640 |
#
# Having them matters by 2.8 points, their kind by a fifth of a point. What a learned
# table looks like is seen in {ref}`ch-mnist` and, for the real weights, later.
#
# ## One row out
#
# After block number $L$ the paper normalises the tokens once more and keeps row 0:
#
# $$\mathbf{y} = \text{LN}(\mathbf{z}_L^0) \tag{4}$$
#
# LN is the LayerNorm of {ref}`ch-encoder`; it works on each row alone, so it does not
# matter whether we normalise all rows and take the first, or take it and normalise.
#
# The other way to get one vector from many is their mean over the patches. The authors'
# code takes it *after* the norm, and there the order does matter. On paper: LN
# subtracts a row's mean and divides by its deviation, so with $D = 2$ it keeps only
# which is larger, $(3, 1) \to (1, -1)$ and $(0, 4) \to (-1, 1)$. Norm, then mean:
# $(0, 0)$. Mean first is $(1.5, 2.5)$, and its norm $(-1, 1)$. Both are called mean
# pooling; timm uses the second unless told `fc_norm=False`. In our module the mean
# takes the last `num_patches` rows, which leaves a class token out.


# %% tags=["teaches"]
class Pool(nn.Module):
    """Equation (4): (b, t, d) -> (b, d), the class token or the patch mean."""

    def __init__(self, kind: str, num_patches: int) -> None:
        super().__init__()
        self.kind = kind
        self.num_patches = num_patches

    def forward(self, tokens: Tensor) -> Tensor:
        """(b, t, d) -> (b, d)."""
        if self.kind == "token":
            return tokens[:, 0]
        return tokens[:, -self.num_patches :].mean(dim=1)


# %% tags=["nbval-check-output"]
norm = nn.LayerNorm(2, eps=1e-6)
rows = torch.tensor([[[3.0, 1.0], [0.0, 4.0]]])  # (1, t, d)
first, mean = Pool("token", 2), Pool("mean", 2)
assert torch.equal(first(norm(rows)), norm(first(rows)))
after, before = mean(norm(rows)), norm(mean(rows))  # (1, d)
assert torch.allclose(after, torch.tensor([[0.0, 0.0]]), atol=1e-5)
assert torch.allclose(before, torch.tensor([[-1.0, 1.0]]), atol=1e-5)
print("one row: any order; mean: norm first is not norm last")

# %% [markdown]
# From $\mathbf{y}$ to the {term}`logits`, one number for each of $K$ classes, is a
# linear layer, the head. In pre-training the paper puts a hidden layer of $D$ units in
# between, with a tanh: the authors call it `pre_logits`. When a trained network moves to
# another task, both layers are dropped and one linear layer of zeros takes their place
# (section 3.2 and appendix B.1.1).

# %% tags=["hide-input"]
from vitedu.figures.vit import readout

figures.show(*readout())

# %% [markdown]
# A tanh squeezes any number into −1 to 1. That is harmless in the hidden layer. What if
# it stands one layer too high, on the logits?
#
# **Before you read on:** such a network learns ten digits perfectly. Every true class
# gets the logit 1, every other class −1, which is all that tanh allows. The
# cross-entropy of logits without bounds could then be as small as we like. How small is
# it here: about 0.0, 0.1, 0.4 or 0.8 nats? (A nat is the unit of a loss that takes
# natural logarithms.)

# %% tags=["failure", "nbval-check-output"]
import math

import torch.nn.functional as F

labels = torch.arange(10)
perfect = 2.0 * torch.eye(10) - 1  # 1 for the true class, -1 for the others
loss = F.cross_entropy(perfect, labels).item()
floor = math.log(1 + 9 * math.exp(-2))
assert (perfect.argmax(dim=1) == labels).all() and abs(loss - floor) < 1e-6
print(f"ten of ten right, and a loss of {loss:.4f} nats")

# %% [markdown]
# The true class gets the probability $e / (e + 9 e^{-1}) = 1 / (1 + 9 e^{-2}) = 0.45$,
# so no image ever costs less than $\ln(1 + 9 e^{-2}) = 0.7966$ nats. The largest logit
# stays the largest under a tanh, which is why accuracy hides the mistake; the loss
# shows it, and so does every probability that the network states. There is a second
# price: to come near the floor, tanh must be driven to its flat ends, where its slope
# $1 - \tanh^2$ and with it the gradient vanish. We will watch a training slow down
# before it gets there.
#
# ```{admonition} To keep
# tanh belongs in the hidden layer of the head; what enters the cross-entropy has no
# bounds.
# ```
#
# ## Four equations, and what must be known in advance
#
# Between (1) and (4) stand the blocks, $\ell = 1, \dots, L$:
#
# $$\mathbf{z}'_\ell = \text{MSA}(\text{LN}(\mathbf{z}_{\ell-1})) + \mathbf{z}_{\ell-1} \tag{2}$$
#
# $$\mathbf{z}_\ell = \text{MLP}(\text{LN}(\mathbf{z}'_\ell)) + \mathbf{z}'_\ell \tag{3}$$
#
# MSA is the multi-head attention of {ref}`ch-attention`. This is all of section 3.1, and
# every symbol has a name in the code:
#
# | symbol | shape | in `ViT` | eq. |
# |---|---|---|---|
# | $\mathbf{x}$ | (b, c, h, w) | `images` | |
# | $\mathbf{x}_p\mathbf{E}$ | (b, n, d) | `patch_embed(images)` | (1) |
# | $\mathbf{x}_\text{class}$ | (1, 1, d) | `cls_token` | (1) |
# | $\mathbf{E}_{pos}$ | (1, n + 1, d) | `pos_embed` | (1) |
# | $\mathbf{z}_0$ | (b, n + 1, d) | `x` before the blocks | (1) |
# | $\mathbf{z}_L$ | (b, n + 1, d) | `blocks(x)` | (2), (3) |
# | LN | row by row | `norm` | (4) |
# | $\mathbf{y}$ | (b, d) | `pool(tokens)` | (4) |
#
# Above, the width, the pixels and the number of heads were handed from cell to cell;
# change one and forget another, and shapes collide deep inside. So everything that must
# be known before there are weights goes into one frozen object that checks itself when
# it is made. Its defaults are the paper's ViT-B/16. A frozen object refuses all
# assignment, even its own; `object.__setattr__` gets around that once, to make (28, 28)
# of an `image_size` of 28. `to_json` and `from_json` turn all of it into plain values,
# for files, and back.

# %%
from collections import OrderedDict
from dataclasses import dataclass, field, fields, replace
from typing import Any

from vitedu.model import (
    Encoder,
    Learned1D,
    Patches,
    Standard,
    build_pool,
    vit_config,
)
from vitedu.model.checks import check_config, check_fields, pair
from vitedu.model.seams import (
    Block,
    Position,
    Stem,
    seams_from_json,
    seams_to_json,
)


# %% tags=["teaches"]
@dataclass(frozen=True)
class ViTConfig:
    """Everything needed to build the network before its weights are loaded."""

    image_size: tuple[int, int] = (224, 224)  # H, W
    patch_size: tuple[int, int] = (16, 16)  # P
    in_channels: int = 3  # C
    num_classes: int = 1000  # 0: no head, the model returns features
    embed_dim: int = 768  # D
    depth: int = 12  # L
    num_heads: int = 12  # k
    mlp_dim: int = 3072
    stem: Stem = field(default_factory=Patches)
    position: Position = field(default_factory=Learned1D)
    block: Block = field(default_factory=Standard)
    pool: str = "token"  # or "mean" of the patches, "map", "none"
    class_token: bool = True
    pre_logits: int | None = None  # width of the tanh layer before the head
    gelu: str = "exact"  # the authors' code: "tanh"
    norm_eps: float = 1e-6  # the authors' code; PyTorch's default is 1e-5
    dropout: float = 0.0
    drop_path: float = 0.0  # of the last block; rises linearly from 0

    def __post_init__(self) -> None:
        for name in ("image_size", "patch_size"):
            size = pair(name, getattr(self, name))
            object.__setattr__(self, name, size)  # the way past `frozen`
        check_config(self)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.stem.grid(self)

    @property
    def num_patches(self) -> int:
        """N of the paper."""
        return self.grid[0] * self.grid[1]

    @property
    def num_tokens(self) -> int:
        """N + 1 with a class token, else N."""
        return self.num_patches + self.class_token

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, strings and lists; the inverse of `from_json`."""
        return seams_to_json(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "ViTConfig":
        """What `to_json` wrote. UserError: a field is unknown."""
        check_fields("ViTConfig", values, (each.name for each in fields(cls)))
        return cls(**seams_from_json(values))


# %% [markdown]
# Three fields are objects themselves. `Patches()` builds the patch embedding of
# {ref}`ch-images`, `Standard()` the block of {ref}`ch-encoder`, `Learned1D()` the table
# of positions of this chapter: the three places where later chapters put something
# else, without touching what stands here. (The types `Stem`, `Position` and `Block`
# only name the methods that such an object must have.) `Learned1D()` is the last term
# of equation (1), and does two things, in its methods `build` and `add`:
#
# ```python
# pos_embed = nn.Parameter(torch.zeros(1, config.num_tokens, config.embed_dim))
# x = x + pos_embed
# ```
#
# A third method, `attach`, is for tables that are added inside the blocks; the paper's
# is not. A fourth place for variants is `pool`, a word: `build_pool` turns it into the
# `Pool` above, or into another module for checkpoints that have one.

# %% tags=["nbval-check-output"]
small = ViTConfig(
    image_size=28,
    patch_size=7,
    in_channels=1,
    num_classes=10,
    embed_dim=24,
    depth=2,
    num_heads=3,
    mlp_dim=96,
)
assert small.image_size == (28, 28) and small.grid == (4, 4)
assert (small.num_patches, small.num_tokens) == (16, 17)
assert ViTConfig.from_json(small.to_json()) == small
assert ViTConfig().num_tokens == 14 * 14 + 1
print("28x28 in patches of 7: a 4x4 grid, 16 patches, 17 tokens")


# %% [markdown]
# ## The values to begin with
#
# A network is not described by its equations alone. The last line of the class that we
# are about to write will give every weight its first value, so we write that line's
# function first. *Fan-in* is how many numbers go into one output, *fan-out* how many
# outputs one number goes into. Where the authors' code draws what:
#
# ```{list-table}
# :header-rows: 1
#
# * - tensor
#   - first values
# * - patch embedding, `pre_logits`
#   - LeCun-normal: standard deviation $\sqrt{1 / \text{fan-in}}$, tails cut at 2.27
#     times that
# * - q, k and v, each on its own; attention's output; MLP
#   - Xavier-uniform: between $\pm\sqrt{6 / (\text{fan-in} + \text{fan-out})}$
# * - positions
#   - normal, standard deviation 0.02
# * - biases of the MLP
#   - normal, standard deviation 0.000001
# * - class token, head, all other biases
#   - 0
# * - norms
#   - scale 1, bias 0
# ```
#
# A sum of fan-in products has fan-in times the variance of one of them. LeCun's rule
# gives a weight the variance 1 / fan-in, so that the sum keeps the size of its inputs.
# The backward pass sums over the outputs and would want 1 / fan-out. Xavier
# {cite}`glorot2010` takes the mean of both fans, a compromise that equals LeCun's rule
# only where they are equal: uniform between $\pm b$ has the variance $b^2 / 3$, here
# 2 / (fan-in + fan-out).
#
# LeCun-normal has a twist. A normal that is cut at two standard deviations keeps 0.88
# of its own, so it is drawn wider by 1 / 0.88, and the cut at two of that is at 2.27.


# %% tags=["teaches"]
@torch.no_grad()
def lecun_normal(weight: Tensor) -> None:
    """Fill (out, in, ...) in place: truncated normal, std sqrt(1 / fan_in)."""
    fan_in = weight[0].numel()
    std = fan_in**-0.5 / 0.87962566103423978
    nn.init.trunc_normal_(weight, std=std, a=-2 * std, b=2 * std)


# %% [markdown]
# We check the constant on a million draws, and the function on the patch embedding of
# ViT-B/16, whose fan-in is the 16 · 16 · 3 numbers of a patch.

# %% tags=["nbval-check-output"]
plain = torch.randn(1_000_000)
kept = plain[plain.abs() < 2].std().item()  # of 1 before cutting
kernel = torch.empty(768, 3, 16, 16)  # (d, c, p, q) of ViT-B/16
lecun_normal(kernel)
wanted = (16 * 16 * 3) ** -0.5
assert abs(kept - 0.87962566) < 0.003  # 5 standard errors
assert abs(kernel.std() / wanted - 1) < 0.01
assert kernel.abs().max() <= 2 * wanted / 0.8796
print(f"cut at 2, a normal keeps {kept:.2f} of its deviation")

# %% [markdown]
# A trap lies in a matrix that we made for speed. {ref}`ch-attention` keeps the
# kernels of q, k and v as one matrix of $3D$ outputs. Ask Xavier's rule for that one, and
# fan-out is $3D$ where it should be $D$: the bound becomes
# $\sqrt{6 / (D + 3D)} = \sqrt{1.5 / D}$ in place of $\sqrt{6 / (D + D)} = \sqrt{3 / D}$.
# Nothing complains. We draw both at $D = 768$ and let random tokens attend with one head
# of 64 dimensions.

# %% tags=["nbval-check-output"]
D = 768
separate = [nn.init.xavier_uniform_(torch.empty(D, D)) for _ in range(2)]
fused = nn.init.xavier_uniform_(torch.empty(3 * D, D)).chunk(3)
x = torch.randn(200, D)  # (t, d), as after a norm


def score_deviation(q_kernel, k_kernel):
    """Of the scaled scores, over all pairs of tokens."""
    q, k = x @ q_kernel[:64].mT, x @ k_kernel[:64].mT  # (t, hd)
    return (q @ k.mT / 8).std().item()


ratio = separate[0].std() / fused[0].std()
from_own = score_deviation(*separate)
from_fused = score_deviation(*fused[:2])
assert abs(ratio - math.sqrt(2)) < 0.01
assert abs(from_own - 1) < 0.1 and abs(from_fused - 0.5) < 0.05
print("fused: weights too small by sqrt(2), scores by 2")


# %% [markdown]
# Drawn one by one, the scores begin with deviation 1, the value for which attention
# divides by $\sqrt{D_h}$. Drawn as one, they begin at 0.5 and every row of attention is
# flatter than the authors'. Nobody sees it in the code, because the call reads like the
# rule, nor in the values, which are flat between their bounds either way: ±0.0625 and
# ±0.0442. So `initialise` cuts the matrix in three before it draws.


# %% tags=["teaches"]
@torch.no_grad()
def initialise(model: nn.Module) -> None:
    """Set every weight of a ViT in place to the authors' initial values."""
    if model.norm.weight.is_meta:
        return  # shapes without numbers
    for name, module in model.named_modules():
        if isinstance(module, nn.LayerNorm):
            module.reset_parameters()  # scale one, bias zero
        elif isinstance(module, nn.Conv2d):
            lecun_normal(module.weight)
        elif isinstance(module, nn.Linear) and name == "head":
            nn.init.zeros_(module.weight)
        elif isinstance(module, nn.Linear) and name == "pre_logits.fc":
            lecun_normal(module.weight)
        elif isinstance(module, nn.Linear):
            # a fused (3d, d) matrix would get a bound sqrt(2) too small
            parts = 3 if name.endswith("attn.qkv") else 1
            for matrix in module.weight.chunk(parts):
                nn.init.xavier_uniform_(matrix)
        if (
            isinstance(module, nn.Conv2d | nn.Linear)
            and module.bias is not None
        ):
            nn.init.normal_(module.bias, std=1e-6 if ".mlp." in name else 0.0)
    if model.cls_token is not None:
        nn.init.zeros_(model.cls_token)
    if isinstance(model.pos_embed, nn.Parameter):
        nn.init.normal_(model.pos_embed, std=0.02)


# %% [markdown]
# The first lines make an exception: PyTorch can build a network on the device `meta`,
# where tensors have shapes and no numbers. There is nothing to draw there, and we will
# soon use it to count.
#
# ## The network
#
# All parts are here. Read `forward_features` beside equations (1) to (3) and
# `forward_head` beside (4). The LN of (4) is the last line of `forward_features`: it
# norms all rows, so that whoever wants the patches has them normed as well.


# %% tags=["teaches"]
class ViT(nn.Module):
    """The Vision Transformer: images (b, c, h, w) -> logits (b, classes)."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        d = config.embed_dim
        self.patch_embed = config.stem.build(config)
        self.cls_token = (
            nn.Parameter(torch.zeros(1, 1, d)) if config.class_token else None
        )
        self.pos_embed = config.position.build(config)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = Encoder(config)
        self.norm = nn.LayerNorm(d, eps=config.norm_eps)
        self.pool = build_pool(config)
        self.pre_logits = nn.Identity()
        if config.pre_logits:
            fc = nn.Linear(d, config.pre_logits)
            self.pre_logits = nn.Sequential(OrderedDict(fc=fc, act=nn.Tanh()))
        self.head = nn.Identity()
        if config.num_classes:
            self.head = nn.Linear(config.pre_logits or d, config.num_classes)
        config.position.attach(self)
        initialise(self)

    def forward_features(self, images: Tensor) -> Tensor:
        """(b, c, h, w) -> (b, t, d): all tokens after the final norm."""
        x = self.patch_embed(images)  # (b, n, d)
        if self.cls_token is not None:
            x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1)
        x = self.config.position.add(x, self.pos_embed)  # equation (1)
        x = self.blocks(self.dropout(x))  # equations (2) and (3)
        return self.norm(x)

    def forward_head(self, tokens: Tensor) -> Tensor:
        """(b, t, d) -> (b, classes): pool, then the head."""
        y = self.pool(tokens)  # equation (4)
        return self.head(self.pre_logits(y))

    def forward(self, images: Tensor) -> Tensor:
        """(b, c, h, w) -> (b, classes)."""
        return self.forward_head(self.forward_features(images))

    def reset_classifier(self, num_classes: int) -> None:
        """Replace head and pre-logits by a head of zeros; 0 classes: none."""
        changes = {"num_classes": num_classes, "pre_logits": None}
        self.config = replace(self.config, **changes)
        self.pre_logits = nn.Identity()
        self.head = nn.Identity()
        if num_classes:
            head = nn.Linear(self.config.embed_dim, num_classes)
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)
            self.head = head.to(self.norm.weight)  # its device and dtype


# %% [markdown]
# On the way from image to logits nothing happens that we have not done by hand above.
# `reset_classifier` is the change of head for another task, section 3.2 of the paper.
# We walk through one pass by hand, and then hold the class to it.

# %%
model = ViT(small)


def shapes(what, axes, value):
    """One line of the way, and `value` handed on."""
    print(f"{what:22}{axes:16}{tuple(value.shape)}")
    return value


shapes("images", "(b, c, h, w)", images)
z = shapes("patches, times E", "(b, n, d)", model.patch_embed(images))
z = torch.cat([model.cls_token.expand(3, -1, -1), z], dim=1)
z = shapes("class token in front", "(b, n + 1, d)", z)
z = shapes("plus positions", "(b, n + 1, d)", z + model.pos_embed)
z = shapes("after the blocks", "(b, n + 1, d)", model.blocks(z))
z = shapes("after the last norm", "(b, n + 1, d)", model.norm(z))
y = shapes("y, row 0", "(b, d)", model.pool(z))
logits = shapes("logits", "(b, classes)", model.head(y))

# %% tags=["nbval-check-output"]
assert torch.equal(model.forward_features(images), z)
assert torch.equal(model(images), logits) and logits.shape == (3, 10)
mixed = model.forward_features(images[order])
assert torch.allclose(mixed, z[order], atol=1e-5)
print("the class does the steps; an image's answer is its own")

# %% [markdown]
# And the first values have the deviations of the table, measured in a network of
# ViT-B's width with one block:

# %% tags=["nbval-check-output"]
wide = ViT(replace(vit_config("ViT-B/16"), depth=1, pre_logits=768))
weights = dict(wide.named_parameters())
mlp_deviation = math.sqrt(2 / (768 + 3072))  # bound / sqrt(3)
deviations = {
    "patch_embed.proj.weight": 768**-0.5,  # 16 * 16 * 3 numbers in
    "pos_embed": 0.02,
    "blocks.0.attn.qkv.weight": 768**-0.5,
    "blocks.0.attn.proj.weight": 768**-0.5,
    "blocks.0.mlp.fc1.weight": mlp_deviation,
    "blocks.0.mlp.fc1.bias": 1e-6,
    "blocks.0.mlp.fc2.weight": mlp_deviation,
    "blocks.0.mlp.fc2.bias": 1e-6,
    "pre_logits.fc.weight": 768**-0.5,
}
for name, tensor in weights.items():
    if "norm" in name and name.endswith("weight"):
        assert (tensor == 1).all(), name
    elif name in deviations:
        # of 768 draws the deviation is known to 2.6 %: 15 % is 6 times that
        assert abs(tensor.std() / deviations[name] - 1) < 0.15, name
    else:
        assert not tensor.any(), name
print(f"{len(weights)} tensors: deviations, ones and zeros as in the table")

# %% [markdown]
# The configuration fixes the number of positions. That is the price of a table: a
# network for 28×28 pixels has 17 rows, one for 42×42 has 37, and the weights of one do
# not fit the other although no other tensor differs.

# %% tags=["failure", "raises-exception"]
larger = ViT(replace(small, image_size=42))
larger.load_state_dict(model.state_dict())


# %% [markdown]
# PyTorch refuses, and rightly. To cut off the table or to fill it with fresh rows would
# load without a word and be wrong: row 5 of the table belongs to patch 5, which begins
# the second line of a 4×4 grid and stands near the end of the first line of a 6×6 one.
# What the paper does instead is in its section 3.2: see the table as a picture of 4×4
# pixels and enlarge it. A later chapter is about nothing else.
#
# ## Is it the paper's? Count
#
# The first test of identity needs no data. Let $M$ be the MLP's width, $K$ the number of
# classes, $C$ the channels and $P$ the patch size. One block has
#
# $$4(D^2 + D) + (2DM + M + D) + 4D$$
#
# weights: four dense layers of $D$ to $D$ (q, k, v, output) with their biases, two for
# the MLP, two norms of two vectors. The whole network adds patch embedding, class token,
# positions, last norm and head:
#
# $$(P^2 C D + D) + D + (N + 1) D + L \cdot \text{block} + 2D + (DK + K) .$$


# %%
def formula(config):
    """Weights by the formula, for a linear head."""
    d, m, k = config.embed_dim, config.mlp_dim, config.num_classes
    patch = config.patch_size[0] * config.patch_size[1] * config.in_channels
    block = 4 * (d * d + d) + (2 * d * m + m + d) + 4 * d
    tokens = d + (config.num_patches + 1) * d
    return (patch * d + d) + tokens + config.depth * block + 2 * d + (d * k + k)


def on_meta(config):
    """The model with shapes and without numbers."""
    with torch.device("meta"):
        return ViT(config)


def count(config):
    """Weights of the network that our class builds."""
    return sum(weight.numel() for weight in on_meta(config).parameters())


# %% [markdown]
# `vit_config` knows Table 1: the names B, L and H of the paper, with Ti and S of a
# follow-up {cite}`steiner2022augreg`, each with the patch size behind the slash. All
# twenty, at 224 pixels and 1,000 classes, by both ways of counting:

# %%
PATCHES = (8, 14, 16, 32)
print("   " + "".join(f"{f'/{p}':>14}" for p in PATCHES))
for size in ("Ti", "S", "B", "L", "H"):
    configs = [vit_config(f"ViT-{size}/{p}") for p in PATCHES]
    totals = [count(config) for config in configs]
    assert totals == [formula(config) for config in configs]
    print(f"{size:<3}" + "".join(f"{total:>14,}" for total in totals))

# %% [markdown]
# Formula and code could share a misunderstanding. The authors' repository
# ([vision_transformer](https://github.com/google-research/vision_transformer)) tests
# its own models against exact counts, in `vit_jax/models_test.py`; nine are in our
# table.

# %% tags=["nbval-check-output"]
AUTHORS = {
    "ViT-Ti/16": 5_717_416,
    "ViT-S/16": 22_050_664,
    "ViT-S/32": 22_878_952,
    "ViT-B/8": 86_576_872,
    "ViT-B/16": 86_567_656,
    "ViT-B/32": 88_224_232,
    "ViT-L/16": 304_326_632,
    "ViT-L/32": 306_535_400,
    "ViT-H/14": 632_045_800,
}
for name, total in AUTHORS.items():
    assert count(vit_config(name)) == total, name
print(f"{len(AUTHORS)} counts are those of the authors' tests, to the last one")

# %% [markdown]
# Now hold it against the paper's Table 1, which prints 86M, 307M and 632M for B, L and
# H. Our ViT-L/16 has 304.3 million, nearly three million fewer than printed. Is a layer
# missing? The columns of our table answer: ViT-L/32 has 306.5. A larger patch means a
# larger $\mathbf{E}$ ($P^2 C D$ weights) and fewer positions, and the paper's table
# does not say which patch size it counts. Nor does a column of ours give all three:
# 86.57 for B/16 would be printed as 87, and 88.2 for B/32 as 88. The last exercise
# looks for a way of counting that does.
#
# Where do the weights sit?

# %% tags=["hide-input"]
from vitedu.figures.vit import parameter_shares

GROUPS = {"attention": ".attn.", "MLP": ".mlp.", "embedding": "embed"}


def by_group(config):
    """Number of weights in each group, the class token among the embeddings."""
    counts = dict.fromkeys([*GROUPS, "head and norms"], 0)
    for name, weight in on_meta(config).named_parameters():
        name = name.replace("cls_token", "embed")
        found = [group for group, word in GROUPS.items() if word in name]
        counts[(found or ["head and norms"])[0]] += weight.numel()
    return counts


names = ("Ti/16", "S/16", "B/16", "L/16", "H/14")
counts = {name: by_group(vit_config(f"ViT-{name}")) for name in names}
figures.show(*parameter_shares(counts))

# %% [markdown]
# About two thirds in the MLPs, one third in attention, in every size: per block the MLP
# has $2DM = 8D^2$ where attention has $4D^2$. What this chapter added, class token and
# positions, is 152,064 of 86.6 million in ViT-B/16.
#
# So small a part is easily lost. A tool that prints a network as a table goes through
# its layers and adds up what each holds; `torchsummary`, for one, takes the `weight`
# and `bias` of every layer. The class token and the positions are in no layer: they
# hang on the network itself. The smallest network of this book has the width 16 and is
# trained on MNIST in {ref}`ch-mnist`; what such a table says of it is this:

# %% tags=["nbval-check-output"]
tiny = replace(small, embed_dim=16, num_heads=2, mlp_dim=64)


def layer_summary(model):
    """The sum over layers, as printed: bare weights are lost."""
    leaves = [m for m in model.modules() if not list(m.children())]
    return sum(w.numel() for leaf in leaves for w in leaf.parameters())


told, true = layer_summary(on_meta(tiny)), count(tiny)
assert told + 16 + 17 * 16 == true == formula(tiny)
print(f"by layers {told:,}; class token 16, positions 272; true {true:,}")

# %% [markdown]
# ## Is it everybody's? Compare
#
# Counts do not see the order of operations. The second test of identity is another
# implementation: timm's `VisionTransformer`, built by other people and run on real
# weights by many. Our attributes carry its names, so the weights of one load into the
# other with nothing missing and nothing left over. We put noise on all of them (a zero
# head would make any two networks agree), compute in float64, where 1e-10 leaves room
# for the order of sums and for nothing else, and compare for both ways of pooling.

# %% tags=["nbval-check-output"]
from vitedu.compat import import_timm

timm = import_timm()
for ours_pool, theirs_pool in (("token", "token"), ("mean", "avg")):
    theirs = timm.models.VisionTransformer(
        img_size=28,
        patch_size=7,
        in_chans=1,
        num_classes=10,
        embed_dim=24,
        depth=2,
        num_heads=3,  # its MLP is 4 times as wide as d unless told otherwise
        global_pool=theirs_pool,
        fc_norm=False,
    ).double()
    ours = ViT(replace(small, pool=ours_pool)).double()
    with torch.no_grad():
        for weight in ours.parameters():
            weight += 0.2 * torch.randn_like(weight)
        theirs.load_state_dict(ours.state_dict(), strict=True)
        ours.load_state_dict(theirs.state_dict(), strict=True)
        got, want = ours(images.double()), theirs(images.double())
    assert want.std() > 0.1 and (got - want).norm() / want.norm() < 1e-10
print("timm: every weight loads both ways, logits equal to 1e-10")

# %% [markdown]
# Equal as functions, that is: the same weights give the same logits. Whether both would
# *begin* with such weights is another question, and one of the exercises.
#
# ## Two losses known in advance
#
# The third test costs one line before every training. With a head of zeros all logits
# are 0, each of $K$ classes gets the probability $1/K$, and the first loss is $\ln K$,
# whatever the image: 2.3026 nats for ten classes, 6.9078 for a thousand. Any other
# first loss says that the head does not begin at zero, or that the network has been
# trained before.

# %% tags=["nbval-check-output"]
many = digits.train.images[:100] / 127.5 - 1
answers = digits.train.labels[:100]
noise = torch.randn_like(many)
for pixels in (many, noise):
    loss = F.cross_entropy(ViT(small)(pixels), answers).item()
    assert abs(loss - math.log(10)) < 1e-6
print(f"step 0, digits or noise: {loss:.4f} nats, ln 10")

# %% [markdown]
# ```{admonition} To keep
# Before training, look at the first loss. For a head of zeros it is $\ln K$.
# ```
#
# The zeros have a second consequence. The logits are $\mathbf{W}\mathbf{y}$ plus a
# bias. Let $\mathbf{p}$ be the probabilities and $\mathbf{a}$ the true answer (1 for
# the true class, else 0); here all three vectors are columns. The chain rule gives
#
# $$\frac{\partial\,\text{loss}}{\partial \mathbf{W}} = (\mathbf{p} - \mathbf{a})\, \mathbf{y}^\top, \qquad \frac{\partial\,\text{loss}}{\partial \mathbf{y}} = \mathbf{W}^\top (\mathbf{p} - \mathbf{a}) .$$
#
# On paper, with two classes and two dimensions: $\mathbf{y} = (1, -1)$, the first class
# is true, $\mathbf{W} = 0$. Then $\mathbf{p} - \mathbf{a} = (-0.5, 0.5)$, the gradient
# of $\mathbf{W}$ has the rows $(-0.5, 0.5)$ and $(0.5, -0.5)$, and that of $\mathbf{y}$
# is $(0, 0)$.
#
# **Before you read on:** seven parts of our small network have weights: patch embedding,
# class token, positions, two blocks, the last norm, the head. Which of them does the
# very first gradient reach? And the second?

# %%
from vitedu.figures.vit import gradients


def part_of(name):
    """The attribute that a weight belongs to; each block on its own."""
    return ".".join(name.split(".")[: 2 if name.startswith("blocks") else 1])


parts = "patch_embed cls_token pos_embed blocks.0 blocks.1 norm head"
learner, moments = ViT(small), {}
optimizer = torch.optim.SGD(learner.parameters(), lr=0.5)
for step in range(2):
    optimizer.zero_grad()
    F.cross_entropy(learner(many), answers).backward()
    squares = dict.fromkeys(parts.split(), 0.0)
    for name, weight in learner.named_parameters():
        squares[part_of(name)] += weight.grad.square().sum().item()
    moments[f"step {step}"] = {k: v**0.5 for k, v in squares.items()}
    optimizer.step()
figures.show(*gradients(moments))

# %% [markdown]
# Class token and positions show the same number at step 1: row 0 of the table is added
# to the class token and gets its gradient, and the other rows get little. The zeros at
# step 0 are not small numbers that print as 0; they are exact, here as on paper:

# %% tags=["nbval-check-output"]
w = torch.zeros(2, 2, requires_grad=True)
y = torch.tensor([1.0, -1.0], requires_grad=True)
F.cross_entropy((w @ y)[None], torch.tensor([0])).backward()
assert w.grad.tolist() == [[-0.5, 0.5], [0.5, -0.5]]
assert y.grad.tolist() == [0, 0]

silent = [part for part, norm in moments["step 0"].items() if norm == 0]
assert set(moments["step 0"]) - set(silent) == {"head"}
assert all(norm > 0 for norm in moments["step 1"].values())
print(f"step 0: gradient in the head, 0 in {len(silent)} parts; step 1: in all")


# %% [markdown]
# No bug: through a matrix of zeros no gradient passes. It takes one step for
# $\mathbf{W}$ to leave zero. A test that every weight receives a gradient, made on the
# first step, gives a false alarm. (Plain gradient descent, as here, moves the head
# alone; the weight decay of AdamW shrinks the other weights at once.) For a network
# that has been trained before, silence is the aim: no random head sends its noise
# through the good weights below.
#
# Now the other loss that can be known in advance, the floor under a tanh. The loop below
# is as short as a training gets; the next chapter replaces it by a careful one.


# %%
def train(model, squash=False, epochs=12):
    """Losses of all steps in nats; accuracy on the test digits in percent."""
    pixels, answers = digits.train.images / 127.5 - 1, digits.train.labels
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    losses = []
    for _ in range(epochs):
        for chosen in torch.randperm(len(pixels)).split(100):
            logits = model(pixels[chosen])
            logits = logits.tanh() if squash else logits
            loss = F.cross_entropy(logits, answers[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    with torch.no_grad():
        guesses = model(digits.test.images / 127.5 - 1).argmax(dim=1)
    right = (guesses == digits.test.labels).float().mean().item()
    return losses, 100 * right


# %% [markdown]
# With the tanh we also train the variants that this chapter argued about: the mean in
# place of the class token, and a table of positions held at zero. All see the same 2,500
# digits at the same learning rate; three runs of each variant, one with the tanh. This
# takes about half a minute.

# %% tags=["failure", "nbval-ignore-output"]
from vitedu.figures.vit import losses as loss_curves

VARIANTS = {
    "class token": ("token", 3),
    "mean of patches": ("mean", 3),
    "no positions": ("token", 3),
    "tanh on logits": ("token", 1),
}
losses, accuracies = {}, {}
for variant, (pool, seeds) in VARIANTS.items():
    accuracies[variant] = []
    for seed in range(seeds):
        _ = torch.manual_seed(seed)
        model = ViT(replace(small, pool=pool))
        if variant == "no positions":
            model.pos_embed.requires_grad_(False).zero_()
        run = train(model, squash=variant == "tanh on logits")
        losses.setdefault(variant, run[0])  # of seed 0
        accuracies[variant].append(run[1])
    percent = " ".join(f"{a:.0f}" for a in accuracies[variant])
    print(f"{variant:16} {percent} % of 500 test digits")
curves = (losses["class token"], losses["tanh on logits"])
figures.show(*loss_curves(*curves, floor))

# %% [markdown]
# One curve crosses the dashed line and goes on falling. The other lies above this floor
# to the end. It is the same network, on the same images, and its accuracy, in the lines
# above, gives little away. Remember the picture when accuracy is high and the loss will
# not follow.

# %% tags=["nbval-check-output"]
assert min(losses["tanh on logits"]) > floor - 1e-6
assert sum(losses["class token"][-50:]) / 50 < floor
with_positions = accuracies["class token"] + accuracies["mean of patches"]
assert max(accuracies["no positions"]) < min(with_positions)
assert min(min(values) for values in accuracies.values()) > 30
print("tanh stays above its floor; without positions every run is worse")

# %% [markdown]
# Without positions each run is behind each run that has them, and still far from the
# one in ten of guessing: the strokes in the patches tell much about a digit before
# their places do. Class token and mean overlap. With 500 test images one run's accuracy
# has a standard error of nearly two points, so these runs do not say which is better;
# appendix D.3 of the paper finds them equal once each has its own learning rate, and
# here they share one. On the same digits {ref}`ch-images` reached about 94 %, with a
# wider network, 30 epochs and images that were moved a little each time.
#
# ## What one image costs
#
# Weights are half of a network's price; the other half is arithmetic. A product of a
# matrix (t, d) with one (d, m) takes $t \cdot d \cdot m$ multiplications, each followed
# by an addition. One such pair is a *MAC*, a multiply-add; counted as two operations it
# is 2 *FLOPs*. Both are in use, and many tables print MACs under the name FLOPs, so a
# factor of 2 between two papers may be no more than a word. With $N$ patches and
# $t = N + 1$ tokens the matrix products of one forward pass are
#
# $$N P^2 C D + L\,(4 t D^2 + 2 t D M + 2 t^2 D) + D K$$
#
# MACs: patch embedding; per block the four dense layers of attention, the MLP, and the
# two products $\mathbf{q}\mathbf{k}^\top$ and $A\mathbf{v}$ over all pairs of tokens;
# the head. Norms, softmax and GELU are left out. `budget.macs` is this formula.

# %% tags=["nbval-check-output"]
from torch.utils.flop_counter import FlopCounterMode

from vitedu import budget

giga = {}
for name in ("ViT-Ti/16", "ViT-S/16", "ViT-B/32", "ViT-B/16", "ViT-L/16"):
    config = vit_config(name)
    with FlopCounterMode(display=False) as counter:
        on_meta(config)(torch.empty(1, 3, 224, 224, device="meta"))
    assert counter.get_total_flops() == 2 * budget.macs(config)
    giga[name.removeprefix("ViT-")] = budget.macs(config) / 1e9
print("GMAC: " + ", ".join(f"{k} {v:.2f}" for k, v in giga.items()))

# %% [markdown]
# PyTorch's counter watches the operations of our class and agrees with the formula,
# once the 2 is put in. ViT-B/16 takes 17.56 GMAC (G is a billion) or 35.1 GFLOPs an
# image. With patches of 32 pixels the network has more weights and a quarter of the
# work: cost follows the tokens. The term with $t^2$ is 4 % of it at 224 pixels;
# {ref}`ch-images` shows where that ends.
#
# ## Where this stands in the paper
#
# Equations (1) to (4) and Figure 1 are section 3.1; the names are Table 1; the hidden
# layer of the head and its removal are in sections 3.1 and 3.2 and appendix B.1.1; the
# head of zeros is in section 3.2. Appendix D.3 compares class token and mean, D.4 the
# positions (Table 8). Initial values are in no table of the paper: ours are those of the
# authors' code.
#
# ```{admonition} Differs from the paper
# :class: note
# * The equations show no biases; the authors' code has them in every dense layer, and so
#   have we.
# * GELU is the exact one by default, as in timm; the authors' code uses the tanh
#   approximation, and `gelu="tanh"` gives it. The two differ by at most 0.0005.
# * `pre_logits` is off unless asked for: the released weights of the follow-up
#   {cite}`steiner2022augreg` and all fine-tuned ones have a linear head.
# * The paper drops activations after most dense layers when it trains; our `dropout` is
#   0 unless asked for.
# * Ti and S are not in the paper's Table 1.
# ```
#
# ## What to keep
#
# 1. A class token and a table of positions turn an encoder into a Vision Transformer:
#    (1, 1, d) and (1, n + 1, d), one of each for all images.
# 2. Without positions shuffled patches give the same answer, for any weights.
# 3. One normalised row goes through a linear head; a tanh, if any, stands before the
#    head, and on the logits it puts a floor under the loss.
# 4. Initial values belong to the network: q, k and v are drawn one by one, the head is
#    zero, so the first loss is $\ln K$ and the first gradient reaches the head alone.
# 5. Whether it is the paper's network can be tested: count to the last weight, compare
#    in float64, predict the first loss.
#
# ## Five questions
#
# 1. Why does the class token have shape (1, 1, d) although a batch has b images?
# 2. Which operation of the network can tell two equal patches at different places apart?
# 3. Why does accuracy not reveal a tanh on the logits?
# 4. Why is a gradient of zero in all blocks at step 0 no sign of a bug?
# 5. Two papers state 17.6 and 35.1 "GFLOPs" for ViT-B/16. How can both be right?
#
# ## Three readings
#
# * {cite:t}`dosovitskiy2021`, section 3.1 and appendices D.3 and D.4: two pages that this
#   chapter took apart. Read D.3 for a mistake that the authors report of themselves: the
#   mean of the patches first looked far worse than the class token, and only the
#   learning rate was to blame.
# * {cite:t}`glorot2010` derive the bound $\sqrt{6 / (\text{fan-in} + \text{fan-out})}$ by
#   following variances forward and backward. Ask of their argument what a residual path
#   and a norm do to it.
# * {cite:t}`beyer2022better` disagree. With ViT-S/16 on ImageNet-1k, 90 and 300 epochs,
#   they reach 76.5 and 80.0 % with the mean and fixed sine-cosine positions; going back to
#   the class token costs them 1.5 and 1.8 points, going back to learned positions 1.5 and
#   0.4. In D.3 and Table 8 neither mattered. Less data, another width or one learning
#   rate for all: their table, one switch at a time, cannot say which explains it.
#
# ## Exercises
#
# ```{exercise} ★ Floors
# :label: ex-vit-floors
#
# Write the floor of a tanh on the logits for $K$ classes. For two and for a thousand
# classes, how far below the first loss $\ln K$ does it lie?
# ```
#
# ```{exercise} ★★ Another grid
# :label: ex-vit-grid
#
# How many rows has the position table of ViT-S/32 at 384×384 pixels? How many weights
# more than at 224 has the network? The row of S in the table of twenty is enough: its
# width follows from two numbers there.
# ```
#
# ```{exercise} ★★ Both shuffled
# :label: ex-vit-both
#
# In the experiment with the photograph, shuffle the patches *and* rows 1 to 49 of the
# position table in the same way. What happens to the class token's answer?
# ```
#
# ```{exercise} ★★ No blocks
# :label: ex-vit-no-blocks
#
# A configuration error builds a network with `pool="token"` whose blocks return their
# input. It trains without an error. What accuracy does it reach on ten balanced classes,
# and what would `pool="mean"` have reached instead: the same, or more?
# ```
#
# ```{exercise} ★★ A bias worth having
# :label: ex-vit-bias
#
# The authors' code can train with one yes-or-no loss per class (sigmoid cross-entropy,
# summed over classes), and then starts the head's bias at $-6.9$ for 1,000 classes. What
# is the first loss of an image with one true class for a bias of 0, and for that one?
# Why this number?
# ```
#
# ```{exercise} ★★ The same function, another start
# :label: ex-vit-start
#
# We showed that timm's network computes the same function as ours. Measure whether a
# *new* one begins with the same values: compare the deviations of `blocks.0.attn.qkv`
# and of `head`, and predict the first loss of both.
# ```
#
# ```{exercise} ★★★ How did they count?
# :label: ex-vit-table
#
# Table 1 prints 86M, 307M and 632M. Search for one way of counting that gives all three:
# choose a patch size for each, the head (none, 1,000 classes, 21,843 classes; with or
# without `pre_logits`), and rounding to the nearest or down. Is there one in which B and
# L have the same patch size?
# ```
#
# The network is written, counted and compared, and was trained only in passing.
# {ref}`ch-mnist` takes its smallest member, 7,850 weights, and trains it with care.
#
# ## Solutions
#
# ```{solution-start} ex-vit-floors
# :class: dropdown
# ```
#
# $\ln(1 + (K - 1) e^{-2})$: a perfect network gains at most two units of logit on each of
# $K - 1$ rivals.

# %% tags=["exercise-solution"]
for k in (2, 10, 1000):
    lowest = math.log(1 + (k - 1) * math.exp(-2))
    room = math.log(k) - lowest
    print(
        f"K = {k:4}: from {math.log(k):.4f} down to {lowest:.4f} nats, "
        f"room {room:.3f}, {room / math.log(k):.0%} of the first loss"
    )

# %% [markdown]
# The room grows with the classes and stays below 2, the two units of logit that all of
# tanh gives. As a share of the first loss it shrinks.
#
# ```{solution-end}
# ```
#
# ```{solution-start} ex-vit-grid
# :class: dropdown
# ```
#
# 384 / 32 = 12, so 12 · 12 + 1 = 145 rows against 7 · 7 + 1 = 50, and nothing else
# changes. The width: S/32 and S/16 differ by the patch embedding,
# $(32^2 - 16^2) \cdot 3D$, and by 147 positions, so by
# $(2{,}304 - 147)\,D = 2{,}157\,D$. The table says 828,288, so $D = 384$, and 95 rows of
# 384 numbers are 36,480 weights more.

# %% tags=["exercise-solution"]
width = (22_878_952 - 22_050_664) / 2157
larger_grid = vit_config("ViT-S/32", image_size=384)
more = count(larger_grid) - count(vit_config("ViT-S/32"))
assert (larger_grid.num_tokens, width, more) == (145, 384, 95 * 384)
print(f"{larger_grid.num_tokens} rows, {more:,} more weights")

# %% [markdown]
# ```{solution-end}
# ```
#
# ```{solution-start} ex-vit-both
# :class: dropdown
# ```
#
# Nothing. Each patch carries its row along, so the sum of equation (1) is the old set of
# tokens in another order, and of the order alone the class token knows nothing. What is
# broken by positions is not the symmetry of the blocks; it is that patch and row are
# paired by place.
#
# ```{solution-end}
# ```
#
# ```{solution-start} ex-vit-no-blocks
# :class: dropdown
# ```
#
# With the class token, one in ten: its row is the same learned vector for every image,
# and nothing brings the patches to it, so the logits cannot depend on the image. The mean
# sees the patches without attention. It is a linear map of each patch, normed and
# averaged, which is more than nothing: it knows how much ink is where inside patches, on
# average, and positions are of little use to it.
#
# ```{solution-end}
# ```
#
# ```{solution-start} ex-vit-bias
# :class: dropdown
# ```
#
# With bias $\beta$ each class gets the probability $\sigma = 1 / (1 + e^{-\beta})$; the
# loss is $-\ln \sigma - (K - 1) \ln(1 - \sigma)$.

# %% tags=["exercise-solution"]
one_of_1000 = torch.zeros(1, 1000)
one_of_1000[0, 0] = 1.0
for bias in (0.0, -6.9):
    logits = torch.full((1, 1000), bias)
    summed = F.binary_cross_entropy_with_logits(
        logits, one_of_1000, reduction="sum"
    )
    print(f"bias {bias:4.1f}: first loss {summed.item():.1f} nats")

# %% [markdown]
# $-6.9 = -\ln 1000$ makes every class as probable as it is, one in a thousand. From 0 the
# first steps would do nothing but teach 1,000 classes that they are rare.
#
# ```{solution-end}
# ```
#
# ```{solution-start} ex-vit-start
# :class: dropdown
# ```

# %% tags=["exercise-solution"]
theirs = timm.models.VisionTransformer(
    img_size=28,
    patch_size=7,
    in_chans=1,
    num_classes=10,
    embed_dim=384,
    depth=1,
)
ours = ViT(replace(small, embed_dim=384, num_heads=12, mlp_dim=1536, depth=1))
for name, network in (("ours", ours), ("timm", theirs)):
    qkv = network.blocks[0].attn.qkv.weight.std().item()
    head = network.head.weight.std().item()
    loss = F.cross_entropy(network(many), answers).item()
    print(f"{name}: q, k, v {qkv:.3f}, head {head:.2f}, loss {loss:.1f}")

# %% [markdown]
# timm draws all dense layers with deviation 0.02 by default, the authors q, k and v with
# $\sqrt{1/D} = 0.051$ here. Its head is small but not zero, so its first loss is near
# $\ln 10$ and not equal to it. Equal functions can be different trainings.
#
# ```{solution-end}
# ```
#
# ```{solution-start} ex-vit-table
# :class: dropdown
# ```

# %% tags=["exercise-solution"]
from itertools import product

printed = {"B": 86, "L": 307, "H": 632}
ways = product((0, 1000, 21_843), (False, True), (round, math.floor))
for classes, hidden, rounding in ways:
    fits = {}
    for size, millions in printed.items():
        fits[size] = []
        for patch in PATCHES:
            config = vit_config(f"ViT-{size}/{patch}", num_classes=classes)
            if hidden:
                config = replace(config, pre_logits=config.embed_dim)
            if rounding(count(config) / 1e6) == millions:
                fits[size].append(patch)
    if all(fits.values()):
        print(f"{classes} classes, hidden layer {hidden}, {rounding.__name__}")
        print("   patch sizes", fits)

# %% [markdown]
# Two ways fit. One needs a B with patches of 14, which the paper does not have. The
# other leaves out the last layer and keeps the hidden one, as for a network that is to
# be moved to another task: B with 86.4 million (16×16 patches, say), H/14 with 632.4,
# and L with 306.6 at 32×32 alone. In neither do all three have one patch size. That the
# authors counted so is our inference; the paper does not say.
#
# ```{solution-end}
# ```
