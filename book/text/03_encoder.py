# %% [markdown]
# (ch-encoder)=
# # The encoder
#
# One layer of attention lets every token look at every other ({ref}`ch-attention`). The
# paper puts twelve such layers behind each other, or twenty-four, or thirty-two, and
# draws small boxes around each: a norm, a plus sign, a second network. We have the
# layer; we lack a reason for the boxes. The question: **what must stand around
# attention so that it can be stacked?**
#
# At the end you have written the encoder of the paper in two lines that are its
# equations (2) and (3). You have seen what a network does that lacks one of its parts,
# you can count the weights of a block on paper, and you can say what two research
# papers still dispute about the place of its norm.

# %% tags=["setup", "remove-cell"]
import importlib.util

if importlib.util.find_spec("vitedu") is None:
    # %pip install -q "vitedu @ git+https://github.com/OWNER/vitedu@main"
    pass

# %% tags=["nbval-ignore-output"]
import torch

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)  # so that all machines print the same
_ = torch.manual_seed(0)
print(f"no tiers, seed 0, cpu, torch {torch.__version__}")

# %% tags=["hide-input"]
from vitedu import figures

figures.show(*figures.network("encoder"))

# %% [markdown]
# ## Twenty-four attentions in a row
#
# We begin with nothing around it. The picture of this book, 224 pixels square, is cut
# into 196 {term}`patches <patch>` of 16×16, and each becomes a {term}`token` of
# $D = 64$ numbers: a tensor (b, t, d) of b images, t tokens, d numbers.

# %%
import numpy as np
from matplotlib.cbook import get_sample_data
from PIL import Image
from torch import Tensor, nn

from vitedu.model import MultiHeadAttention, PatchEmbedding

d, heads, mlp_dim, depth = 64, 4, 256, 24
with get_sample_data("grace_hopper.jpg") as file:
    square = Image.open(file).convert("RGB").crop((0, 0, 512, 512))
picture = torch.tensor(np.array(square.resize((224, 224)))) / 255
images = 2 * picture.permute(2, 0, 1)[None].double() - 1  # (b, c, h, w)
patch_embed = PatchEmbedding((224, 224), (16, 16), 3, d)
tokens = patch_embed(images).detach()  # (b, t, d)
print(tuple(images.shape), "->", tuple(tokens.shape))

# %% [markdown]
# Nothing in this chapter is trained for longer than a few steps, so it matters what the
# weights are at the beginning. We take the values of the authors' code for dense
# layers, Xavier-uniform {cite}`glorot2010` with biases of zero. {ref}`ch-vit` is more
# exact.

# %%
from torch.nn import functional as F


def xavier(module):
    """`module` with the authors' initial values in its dense layers."""
    for name, layer in module.named_modules():
        if isinstance(layer, nn.Linear):
            parts = 3 if name.endswith("qkv") else 1  # q, k and v one by one
            for matrix in layer.weight.chunk(parts):
                nn.init.xavier_uniform_(matrix)
            nn.init.zeros_(layer.bias)
    return module


def size(z):
    """Root mean square of all numbers of z."""
    return z.square().mean().sqrt().item()


def spread(z):
    """The share of the tokens (b, t, d) that is not common to all of them."""
    return size(z - z.mean(dim=1, keepdim=True)) / size(z)


# %% [markdown]
# `spread` is 1 where the mean token is zero and 0 where all tokens are one vector, 196
# times.
#
# **Guess before you go on:** the picture's tokens start with a spread of 0.90. After
# how many of the 24 layers can no measurement tell the tokens apart: after 3, after 20,
# or never?

# %% tags=["failure"]
layers = [xavier(MultiHeadAttention(d, heads)) for _ in range(depth)]
with torch.no_grad():
    z, bare = tokens, [tokens]
    for layer in layers:
        z = layer(z)
        bare.append(z)
for passed in (0, 1, 2):
    print(f"layers passed {passed}: spread {spread(bare[passed]):.1e}")
assert max(map(spread, bare[3:])) < 1e-14
print("layers passed 3 to 24: only rounding errors are left")

# %% tags=["hide-input"]
from vitedu.figures import encoder as drawings

marked = (5, 7)  # row and column of a patch of the face
maps = {}
for passed in (0, 1, 2):
    unit = F.normalize(bare[passed][0], dim=-1)  # (t, d)
    maps[passed] = (unit @ unit[14 * marked[0] + marked[1]]).view(14, 14)
figures.show(*drawings.similarity(picture, maps, marked))

# %% [markdown]
# Before the first layer the map still shows a person. One layer later the eye finds
# nothing, two layers later hardly an instrument does: face, cap and flag have become
# one vector. The other layers get 196 copies of it, and nothing that comes after them
# could know where anything was, or what.
#
# The reason fits on paper. Rows of attention weights are positive and sum to 1, so what
# comes out is an average of what went in; the linear maps before and after are the same
# for all tokens and cannot take it back. Take three tokens in two dimensions, $(4, 0)$,
# $(0, 4)$, $(2, 2)$, and let each give itself the weight ½ and the others ¼. The first
# becomes ½(4, 0) + ¼(0, 4) + ¼(2, 2) = (2.5, 1.5). The mean of the three is $(2, 2)$
# before and after; the distance from it shrinks to a quarter, and to a sixteenth in the
# next layer. Attention between tokens that are alike is closer to uniform still, so the
# fall speeds up. {cite:t}`dong2021rank` prove that it is doubly exponential in depth.
# These are new weights, and training would have to begin with them.
#
# ## Keep the token, add the rest
#
# The cure is one character. A layer does not replace its input; it adds to it:
#
# $$\mathbf{z} \leftarrow \mathbf{z} + f(\mathbf{z}),$$
#
# where $\mathbf{z}$ is the matrix of all tokens, one a row, and $f$ the layer. On
# paper: $(4, 0) + (2.5, 1.5) = (6.5, 1.5)$. The mean doubles from $(2, 2)$ to $(4, 4)$,
# the distance from it grows from $(2, -2)$ to $(2.5, -2.5)$. Its share falls, but no
# token is lost in the average.

# %% tags=["nbval-check-output"]
weights = torch.full((3, 3), 0.25) + 0.25 * torch.eye(3)  # rows sum to 1
three = torch.tensor([[[4.0, 0], [0, 4], [2, 2]]])  # (b, t, d)
replaced, added = weights @ three, three + weights @ three
assert replaced[0].tolist() == [[2.5, 1.5], [1.5, 2.5], [2, 2]]
assert added[0].tolist() == [[6.5, 1.5], [1.5, 6.5], [4, 4]]
shares = [spread(each) for each in (three, replaced, added)]
print("spread {:.2f}; replaced {:.2f}, added {:.2f}".format(*shares))

# %% [markdown]
# What runs through the network from end to end is the {term}`residual stream`, $f$ is a
# *residual branch*, the addition a {term}`residual connection`. Think of a river. A
# branch draws a sample of its water, works on it in a house on the bank, and lets the
# result flow back in. The river itself goes on, whatever the house does. Here are both
# stacks on the picture, the same 24 layers with and without the addition:

# %%
with torch.no_grad():
    z, residual = tokens, [tokens]
    for layer in layers:
        z = z + layer(z)
        residual.append(z)
stacks = {"replaced": bare, "added": residual}
spreads = {name: list(map(spread, zs)) for name, zs in stacks.items()}
sizes = {name: list(map(size, zs)) for name, zs in stacks.items()}
figures.show(*drawings.spread_and_size(spreads, sizes))


# %% [markdown]
# The upper panel is the cure, and it is not complete: averages are still being added,
# and the spread sinks. The lower panel shows what the cure costs. Each layer adds
# something in proportion to what it reads, so the river grows by a constant *factor* a
# layer. After 24 layers the numbers are three thousand times what they were, and deeper
# layers see an input of a size that no initial value was made for.
#
# ## Only the order remains
#
# So let a branch look at the river through an instrument that always shows the same
# size. LayerNorm ({term}`layer normalisation`) {cite}`ba2016layernorm` takes one token
# $\mathbf{x} = (x_1, \dots, x_D)$ and gives
#
# $$\text{LN}(\mathbf{x})_i = \gamma_i \frac{x_i - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta_i, \qquad \mu = \frac1D \sum_i x_i, \qquad \sigma^2 = \frac1D \sum_i (x_i - \mu)^2 .$$
#
# $\mu$ and $\sigma^2$ are mean and variance of the numbers of *this* token; no other
# token and no other image enters. The scale $\boldsymbol\gamma$ and the shift
# $\boldsymbol\beta$ are learned, $D$ numbers each, and begin as ones and zeros.
# $\epsilon$ is a small constant.
#
# **Guess before you go on:** three tokens, $(3, 1)$, $(0.2, 0)$ and $(4, 4)$, with
# $\gamma = 1$ and $\beta = 0$. What does LayerNorm make of each?


# %% tags=["nbval-check-output"]
def layer_norm(x, eps=1e-6):
    """LayerNorm with a scale of one and a shift of zero: (..., d) -> same."""
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x - mean).square().mean(dim=-1, keepdim=True)
    return (x - mean) / (variance + eps).sqrt()


by_hand = layer_norm(torch.tensor([[3.0, 1], [0.2, 0], [4, 4]]))
x = 5 + 3 * torch.randn(2, 7, d)
assert torch.allclose(layer_norm(x), nn.LayerNorm(d, eps=1e-6)(x))
assert torch.allclose(layer_norm(x), layer_norm(10 * x + 4))
print("; ".join(f"({a:.3f}, {b:.3f})" for a, b in by_hand))

# %% tags=["hide-input"]
many = torch.tensor([[3, 1], [0.2, 0], [4, 4], [-1, 2], [1, 5], [5, -1.0]])
figures.show(*drawings.plane(many, layer_norm(many)))

# %% [markdown]
# In two dimensions almost nothing survives. $(3, 1)$ has the mean 2, deviations
# $(1, -1)$ and variance 1; $(0.2, 0)$ is fifteen times smaller and comes to the same
# place. Only which number is the larger one remains. In 64 dimensions more does: all
# *ratios* between deviations. Gone are the token's level and its size, which is what we
# wanted: `layer_norm(10 * x + 4)` equals `layer_norm(x)`.
#
# $(4, 4)$ says what $\epsilon$ is for. Its variance is 0, and 0/0 would be the end of
# the computation; with $\epsilon$ it is $0/\sqrt\epsilon = 0$. A token whose variance
# is near $\epsilon$ lies between the two cases, and there the choice can be seen.

# %% tags=["nbval-check-output"]
faint = torch.tensor([[0.002, 0.0]])  # mean 0.001, variance 1e-6
authors, pytorch = layer_norm(faint, 1e-6), layer_norm(faint, 1e-5)
assert torch.allclose(authors[0, 0], torch.tensor(0.5).sqrt())
assert nn.LayerNorm(d).eps == 1e-5
print(f"eps 1e-6: {authors[0, 0]:.4f}, eps 1e-5: {pytorch[0, 0]:.4f}")

# %% [markdown]
# The authors' code has $10^{-6}$ and PyTorch's default is $10^{-5}$. On tokens of
# ordinary size the two agree to five digits. Whoever compares outputs to twelve digits,
# as we shall, has to ask.
#
# Where does the norm go? Into the branch: $\mathbf{z} + f(\text{LN}(\mathbf{z}))$. The
# house on the bank reads a normalised sample, the river stays as it is.

# %% tags=["nbval-check-output"]
with torch.no_grad():
    z = tokens
    for layer in layers:
        z = z + layer(layer_norm(z))
raw, normed = (size(end) / size(tokens) for end in (residual[-1], z))
assert normed < 15 < 1000 < raw
print(f"24 layers: the stream grows {raw:.0f}-fold, normed {normed:.0f}-fold")

# %% [markdown]
# ## Each token on its own
#
# Attention mixes tokens. What a head adds to a token is an average of values, and a
# value is a linear map of a token; once the weights are fixed there is no bend in it
# anywhere. The second branch of the block is the opposite: it sees one token at a time
# and bends. It is called the MLP, *multi-layer perceptron* ({term}`MLP`), and is two
# dense layers with a {term}`GELU` {cite}`hendrycks2016gelu` between them,
#
# $$\text{MLP}(\mathbf{x}) = \text{GELU}(\mathbf{x} \mathbf{W}_1 + \mathbf{b}_1)\, \mathbf{W}_2 + \mathbf{b}_2, \qquad \text{GELU}(x) = x \, \Phi(x),$$
#
# where $\mathbf{W}_1$ widens the $D$ numbers of a token to $M$ (in the paper $M = 4D$),
# $\mathbf{W}_2$ brings them back, $\mathbf{b}_1$ and $\mathbf{b}_2$ are biases, and
# $\Phi(x)$ is the probability that a standard normal number lies below $x$. ReLU
# switches a number off where it is negative; GELU multiplies it by that probability.
# Far from zero the two agree.

# %% tags=["hide-input"]
figures.show(*drawings.activations())

# %% [markdown]
# A unit that ReLU has switched off gets no gradient at all; left of zero GELU's slope
# is small and not zero. The lower panel is about a detail that breaks comparisons.
# $\Phi$ has no closed form, and the authors' code uses an approximation with tanh where
# PyTorch and timm compute the exact function. How far apart are they?

# %% tags=["nbval-check-output"]
x = torch.linspace(-6, 6, 1_200_001)
inner = (2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)
approximate = 0.5 * x * (1 + torch.tanh(inner))
assert torch.allclose(approximate, F.gelu(x, approximate="tanh"))
difference = (F.gelu(x) - approximate).abs()
where = x[difference.argmax()].abs()
one = F.gelu(torch.ones(()))  # 84 % of all normal numbers lie below 1
assert abs(one - 0.8413) < 5e-5
print(f"they differ by {difference.max():.2e} at most, at |x| = {where:.2f}")


# %% [markdown]
# Too little to matter for a prediction, and eight digits too much for a test of
# equality. Our MLP can be told which one to use:


# %% tags=["teaches"]
class MLP(nn.Module):
    """Two dense layers with a GELU between them: (b, t, d) -> (b, t, d)."""

    def __init__(
        self,
        embed_dim: int,
        mlp_dim: int,
        gelu: str = "exact",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.fc1 = nn.Linear(embed_dim, mlp_dim)
        self.act = nn.GELU(approximate="none" if gelu == "exact" else "tanh")
        self.fc2 = nn.Linear(mlp_dim, embed_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(b, t, d) -> (b, t, d)."""
        x = self.dropout(self.act(self.fc1(x)))  # (b, t, mlp_dim)
        return self.dropout(self.fc2(x))


# %% [markdown]
# (`dropout` sets random numbers to zero in training. It is off unless asked for; the
# paper uses 0.1 on ImageNet and none on its largest data set.) On paper: let the first
# layer compute $x_1 - x_2$ and $x_2 - x_1$, the second the difference and the sum of
# what it gets. For the token $(2, 1)$ that is $(1, -1)$, after GELU $(0.841, -0.159)$,
# at the end $(1.000, 0.683)$.

# %% tags=["nbval-check-output"]
small = MLP(2, 2)
with torch.no_grad():
    for bias in (small.fc1.bias, small.fc2.bias):
        bias.zero_()
    # a Linear keeps its matrix as (out, in): one row for each output
    small.fc1.weight.copy_(torch.tensor([[1, -1], [-1, 1]]))
    small.fc2.weight.copy_(torch.tensor([[1, -1], [1, 1]]))
    out = small(torch.tensor([[2.0, 1], [1, 1], [1, 2]]))
assert torch.allclose(out[0], torch.tensor([1, 0.6827]), atol=1e-4)
assert torch.allclose(out[:, 0], torch.tensor([1.0, 0, -1]))
print("; ".join(f"({a + 0.0:.3f}, {b:.3f})" for a, b in out))

# %% [markdown]
# The first output is $x_1 - x_2$ again, because $\text{GELU}(x) - \text{GELU}(-x) = x$:
# nothing was gained. The second is equal for $(2, 1)$ and $(1, 2)$ and zero between
# them, a rounded $|x_1 - x_2|$. No linear map of a token says "these two numbers
# differ", in either direction; one hidden layer does.
#
# Who touches whom? For six tokens we ask each of our three layers for its derivatives,
# and add up, for each pair of tokens, how strongly the output of one depends on the
# input of the other.

# %%
from torch.autograd.functional import jacobian

parts = {"norm": nn.LayerNorm(8), "MLP": MLP(8, 32)}
parts["attention"] = xavier(MultiHeadAttention(8, 2))
x = torch.randn(1, 6, 8)
touches = {}
for name, part in parts.items():
    slopes = jacobian(part, x)[0, :, :, 0]  # (t, d, t, d)
    touches[name] = slopes.square().sum(dim=(1, 3)).sqrt()  # (t, t)
figures.show(*drawings.influence(touches))

# %% tags=["nbval-check-output"]
others = ~torch.eye(6, dtype=torch.bool)
assert all((touches[name][others] == 0).all() for name in ("norm", "MLP"))
assert (touches["attention"] > 0).all()
print("norm and MLP: each token alone; attention: all with all")


# %% [markdown]
# ```{admonition} To keep
# Tokens talk in attention and nowhere else. Norm and MLP treat each token as if it were
# alone in the world.
# ```
#
# ## A branch that stays away
#
# If the river goes on whatever a branch does, we may also leave a branch out.
# {term}`Stochastic depth <stochastic depth>` {cite}`huang2016stochastic` does so at
# random while training: each image of a batch passes through a slightly different,
# shallower network, and no branch can rely on all others being there. It is not in the
# paper; its follow-ups train with it {cite}`steiner2022augreg,touvron2021deit`.
#
# A branch with the rate 0.25 is present three times out of four, and in use, when all
# branches are there, the river receives a third more than it is used to. So what is
# kept is divided by the probability of keeping it, $1 - 0.25$. Four images that each
# write 3, with the draws 1, 0, 1, 1, write 4, 0, 4, 4: on average 3.


# %% tags=["teaches"]
class DropPath(nn.Module):
    """Stochastic depth: in training, leave a branch out, image by image."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """(b, t, d) -> (b, t, d)."""
        if not self.training or self.rate == 0.0:
            return x
        keep = 1.0 - self.rate
        mask = x.new_empty(len(x), 1, 1).bernoulli_(keep)  # one draw an image
        return x * mask / keep


# %% tags=["nbval-check-output"]
writes = torch.full((20_000, 3, 2), 3.0)  # 20,000 images with 3 tokens
drop = DropPath(0.25)
kept = drop(writes)
assert set(kept.flatten().tolist()) == {0.0, 4.0}
assert torch.equal(kept.amin(dim=(1, 2)), kept.amax(dim=(1, 2)))
assert abs(kept.mean() - 3) < 0.05  # 4.1 standard errors
assert drop.eval()(writes) is writes
print("whole images write 0 or 4, on average 3; in evaluation 3")


# %% [markdown]
# The division is easy to forget, and nothing fails if it is: the network trains, the
# loss falls. Then it is put into evaluation mode and sees a river it has never seen.


# %% tags=["failure"]
class ForgetfulDropPath(DropPath):
    """Leaves branches out and does not divide by what it keeps: wrong."""

    def forward(self, x):
        """(b, t, d) -> (b, t, d)."""
        return super().forward(x) * (1 - self.rate) if self.training else x


for kind in (DropPath, ForgetfulDropPath):
    drop = kind(0.5)
    training = drop.train()(writes).mean()
    ratio = drop.eval()(writes).mean() / training
    print(f"{kind.__name__:17} evaluation / training: {ratio:.1f}")

# %% [markdown]
# ## Two equations, two lines
#
# Everything has a place now. Block $l$ of $L$ reads the stream $\mathbf{z}_{l-1}$ and
# leaves $\mathbf{z}_l$ behind; MSA is the multi-head attention of {ref}`ch-attention`:
#
# $$\mathbf{z}'_l = \text{MSA}(\text{LN}(\mathbf{z}_{l-1})) + \mathbf{z}_{l-1}, \qquad l = 1 \dots L \tag{2}$$
#
# $$\mathbf{z}_l = \text{MLP}(\text{LN}(\mathbf{z}'_l)) + \mathbf{z}'_l, \qquad l = 1 \dots L \tag{3}$$

# %% tags=["hide-input"]
figures.show(*drawings.river())


# %% [markdown]
# | symbol | in the code | shape |
# | --- | --- | --- |
# | $\mathbf{z}_{l-1}$, $\mathbf{z}'_l$, $\mathbf{z}_l$ | `x` before, between and after | (b, t, d) |
# | first, second LN | `norm1`, `norm2` | (b, t, d) → (b, t, d) |
# | MSA | `attn` | (b, t, d) → (b, t, d) |
# | MLP | `mlp` | (b, t, d) → (b, t, mlp_dim) → (b, t, d) |
# | $D$, $M$; $L$ | `embed_dim`, `mlp_dim`; `depth` | |
#
# `drop_path` stands around both branches, never around the stream.


# %% tags=["teaches"]
class EncoderBlock(nn.Module):
    """Equations (2) and (3): (b, t, d) -> (b, t, d)."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        mlp_dim: int,
        *,
        gelu: str = "exact",
        norm_eps: float = 1e-6,
        dropout: float = 0.0,
        drop_path: float = 0.0,
    ) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(embed_dim, eps=norm_eps)
        self.attn = MultiHeadAttention(embed_dim, num_heads, dropout)
        self.norm2 = nn.LayerNorm(embed_dim, eps=norm_eps)
        self.mlp = MLP(embed_dim, mlp_dim, gelu, dropout)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Tensor) -> Tensor:
        """(b, t, d) -> (b, t, d)."""
        x = x + self.drop_path(self.attn(self.norm1(x)))  # equation (2)
        return x + self.drop_path(self.mlp(self.norm2(x)))  # equation (3)


# %% [markdown]
# Two lines of `forward` carry the whole chapter. First a limit case: a block whose
# branches write nothing must leave the river untouched, to the last bit. Then PyTorch's
# own layer, which was written by others. Told to put the norm first, to use GELU and
# the authors' $\epsilon$, it should compute the same function of the same weights.

# %% tags=["nbval-check-output"]
block = xavier(EncoderBlock(d, heads, mlp_dim))
with torch.no_grad():
    for weight in block.parameters():
        weight += 0.1 * torch.randn_like(weight)  # no zeros, no ones left
names = {"attn.qkv.": "self_attn.in_proj_", "attn.proj": "self_attn.out_proj"}
names |= {"mlp.fc1": "linear1", "mlp.fc2": "linear2"}
theirs = {}
for name, weight in block.state_dict().items():
    for ours, other in names.items():
        name = name.replace(ours, other)
    theirs[name] = weight.clone()
widths = {"d_model": d, "nhead": heads, "dim_feedforward": mlp_dim}
options = {"norm_first": True, "activation": "gelu", "layer_norm_eps": 1e-6}
layer = nn.TransformerEncoderLayer(
    **widths, **options, dropout=0, batch_first=True
)
layer.load_state_dict(theirs, strict=True)
assert (block(tokens) - layer(tokens)).abs().max() < 1e-12
for last in (block.attn.proj, block.mlp.fc2):
    _ = nn.init.zeros_(last.weight), nn.init.zeros_(last.bias)
assert torch.equal(block(tokens), tokens)
print("equal to PyTorch's layer to 1e-12; silent branches change nothing")

# %% [markdown]
# That took five options. Left alone, PyTorch's layer puts the norm last, takes ReLU for
# GELU and $10^{-5}$ for $\epsilon$, drops a tenth of the numbers in training, and reads
# the first axis as the tokens instead of the batch. Our weights load into it all the
# same, since their shapes know nothing of it.

# %% tags=["failure"]
two = torch.cat([tokens, tokens.flip(1)])  # a batch of two images
careless = nn.TransformerEncoderLayer(**widths)
careless.load_state_dict(theirs, strict=True)  # no complaint
with torch.no_grad():
    right, wrong = layer(two), careless.eval()(two)
    alone = careless(two[:1])
far = size(wrong - right) / size(right)
assert (wrong[:1] - alone).abs().max() > 0.1
print(f"outputs differ by {100 * far:.0f} % of their size")
print("and an image's output depends on its neighbour in the batch")

# %% [markdown]
# ## How loud is a block?
#
# The equations can be added up. $\mathbf{z}_L$ is $\mathbf{z}_0$ plus everything that
# the $2L$ branches have written: the stream is a sum, and every block reads what all
# earlier ones have said. So the blocks share one river, and we can ask how much of it
# each one moves. Twenty-four new blocks, the picture as input; a write is measured
# against the stream that it flows into.

# %% tags=["nbval-check-output"]
stack = [xavier(EncoderBlock(d, heads, mlp_dim)) for _ in range(depth)]
z, said, streams = tokens, torch.zeros_like(tokens), []
shares = {"attention": [], "MLP": []}
with torch.no_grad():
    for block in stack:
        streams.append(size(z))
        branches = (block.norm1, block.attn), (block.norm2, block.mlp)
        for name, (norm, branch) in zip(shares, branches, strict=True):
            write = branch(norm(z))  # (b, t, d)
            shares[name].append(size(write) / size(z))
            z, said = z + write, said + write
    assert torch.allclose(z, nn.Sequential(*stack)(tokens))
assert torch.allclose(z, tokens + said) and spread(z) > 0.1
assert shares["attention"][0] > 0.5 and shares["attention"][-1] < 0.3
print(f"source + {2 * depth} writes = stream; its spread is {spread(z):.2f}")

# %% tags=["hide-input"]
figures.show(*drawings.writes(streams, shares))

# %% [markdown]
# The tokens are still different after 24 blocks, and they are of ordinary size: what
# attention alone could not do, attention with its surroundings does. All blocks are
# made alike and read a sample of the same size, so all write about as much. But the
# first one writes into a brook and the last into a wide river: what was as large as the
# stream itself at the beginning is a quarter or an eighth of it at the end. Independent
# writes add up like the steps of a random walk, so the stream grows about as the square
# root of the number of blocks behind it. Remember the root; it comes back.
#
# ## In front or behind?
#
# We put the norm into the branch because it seemed natural ({term}`pre-norm`). The
# Transformer of 2017 did otherwise {cite}`vaswani2017`. It is {term}`post-norm`: first
# add, then normalise the sum,
# $\mathbf{z} \leftarrow \text{LN}(\mathbf{z} + f(\mathbf{z}))$. Then the norm stands on
# the river itself, like a lock, 48 times in 24 blocks.

# %% tags=["hide-input"]
figures.show(*drawings.two_orders())


# %%
class PostNormBlock(EncoderBlock):
    """The order of 2017: add first, then normalise the stream."""

    def forward(self, x):
        """(b, t, d) -> (b, t, d)."""
        x = self.norm1(x + self.attn(x))
        return self.norm2(x + self.mlp(x))


ORDERS = {"pre-norm": EncoderBlock, "post-norm": PostNormBlock}

# %% [markdown]
# Same parts, same weights, another order. It is often said that post-norm loses the
# gradient on its way down through all these norms. We measure: 32 digits, 16 patches
# each, 24 blocks with new weights, one linear layer on the mean token. For each block
# we take the gradient of the loss with respect to the MLP's second matrix and note its
# norm (the root of the sum of squares), the median of five seeds.
#
# **Guess before you go on:** draw the two curves over the blocks 1 to 24. Which of them
# falls, and from which side?

# %%
from vitedu.data import load_dataset

train = load_dataset("digits").train
digits = (train.images[:32] / 127.5 - 1).double()  # (b, c, h, w)
labels = train.labels[:32]


def network(kind, depth, seed, start=xavier):
    """Digits (b, c, h, w) to normalised tokens, and a head of ten classes."""
    _ = torch.manual_seed(seed)
    blocks = [start(kind(d, heads, mlp_dim)) for _ in range(depth)]
    embed = PatchEmbedding((28, 28), (7, 7), 1, d)
    body = nn.Sequential(embed, *blocks, nn.LayerNorm(d, eps=1e-6))
    return body, xavier(nn.Linear(d, 10))


def gradients(kind, depth, seed, start=xavier):
    """Gradient norm of each block's second MLP matrix, at the beginning."""
    body, head = network(kind, depth, seed, start)
    F.cross_entropy(head(body(digits).mean(dim=1)), labels).backward()
    return [block.mlp.fc2.weight.grad.norm().item() for block in body[1:-1]]


# %%
def median(runs):
    """The middle of several runs, number by number."""
    return torch.tensor(runs).median(dim=0).values.tolist()


norms = {
    name: median([gradients(kind, depth, seed) for seed in range(5)])
    for name, kind in ORDERS.items()
}
figures.show(*drawings.gradient_by_block(norms))

# %% [markdown]
# Nothing vanishes. Post-norm's curve wavers and keeps its level over 24 blocks. It is
# pre-norm's that falls, towards the end: the later a block, the wider the river it
# writes into, and the less the loss cares for its words. At the last block the curves
# are a factor of four apart. Does this gap depend on the depth?

# %%
depths = (1, 3, 8, 24)
last = {
    name: [
        median([gradients(kind, n, s)[-1] for s in range(5)]) for n in depths
    ]
    for name, kind in ORDERS.items()
}
figures.show(*drawings.by_depth(depths, last, "gradient norm, last block"))

# %% tags=["nbval-check-output"]
from itertools import pairwise

ratios = {name: values[0] / values[-1] for name, values in last.items()}
assert 0.7 < ratios["pre-norm"] / depth**0.5 < 1.4
assert 0.5 < ratios["post-norm"] < 2
assert all(a > b for a, b in pairwise(last["pre-norm"]))
print("1 to 24 blocks: pre-norm's falls like the root, post-norm's stays")


# %% [markdown]
# There is the root again. {cite:t}`xiong2020prenorm` prove this for the beginning of
# training: the gradient of the last layer goes down with $1/\sqrt{L}$ for pre-norm and
# not at all for post-norm. They conclude that post-norm's large last gradients make the
# first steps unstable, and that this is why it needs a {term}`warm-up`, a learning rate
# that starts near zero and rises.
#
# A doubt remains. Adam {cite}`kingma2015adam` divides the gradient of each weight by
# its own size; its first step moves every weight by the learning rate, whatever the
# gradient's norm. If only sizes were the trouble, Adam would not notice. So let us look
# at what such a step does. Every weight of the blocks moves by 0.0001; how far does the
# output move, relative to its size?


# %%
def moved(kind, depth, seed, start=xavier):
    """Relative change of the output by one Adam step of 1e-4 in the blocks."""
    body, head = network(kind, depth, seed, start)
    optimizer = torch.optim.Adam(body[1:-1].parameters(), lr=1e-4)
    before = body(digits)  # (b, t, d)
    F.cross_entropy(head(before.mean(dim=1)), labels).backward()
    optimizer.step()
    with torch.no_grad():
        return size(body(digits) - before) / size(before)


change = {
    name: [median([moved(kind, n, s) for s in range(5)]) for n in depths]
    for name, kind in ORDERS.items()
}
figures.show(*drawings.by_depth(depths, change, "change by one step"))


# %% [markdown]
# With one block the orders do not differ. With 24, a step of 0.0001 changes post-norm's
# output by more than half of its size: after one step it is another network. In
# pre-norm a late branch is a small share of a wide river, and so is a change of it.
# Behind a lock the river is always narrow: every branch keeps its large share, and the
# changes of all branches before it are handed on with its own.
#
# Now the failure itself. A usual learning rate of 0.001, no warm-up, the same 32 digits
# at every step: a network that learns anything learns these by heart.


# %% tags=["failure", "nbval-ignore-output"]
def learn(kind, lr, steps=13):
    """Losses in nats over some steps of Adam on the same 32 digits."""
    body, head = network(kind, depth, seed=0)
    weights = [*body.parameters(), *head.parameters()]
    optimizer, losses = torch.optim.Adam(weights, lr=lr), []
    for _ in range(steps):
        loss = F.cross_entropy(head(body(digits).mean(dim=1)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


losses = {
    "pre-norm, 0.001": learn(EncoderBlock, 1e-3),
    "post-norm, 0.001": learn(PostNormBlock, 1e-3),
    "post-norm, 0.0001": learn(PostNormBlock, 1e-4),
}
counts = labels.bincount(minlength=10) / len(labels)
constant = -(counts * counts.clamp_min(1e-9).log()).sum().item()
figures.show(*drawings.loss_lines(losses, constant))

# %% tags=["nbval-check-output"]
ends = {name: values[-1] for name, values in losses.items()}
assert ends["pre-norm, 0.001"] < 0.6 * constant
assert ends["post-norm, 0.001"] > 0.9 * constant
assert ends["post-norm, 0.0001"] < ends["post-norm, 0.001"]
print("0.001: pre-norm learns, post-norm does no better than a constant")


# %% [markdown]
# Post-norm comes down to the loss of the best constant answer, the one that knows how
# often each digit occurs and has not looked at any, and stays there. At a tenth of the
# rate it learns. This is one seed, thirteen steps and a small network, not a law: what
# it shows is how the mistake looks.
#
# ```{admonition} To keep
# Pre-norm: nothing on the stream but additions. It buys calm first steps at great
# depth, and pays with late blocks that count for less.
# ```
#
# The paper is careful twice over: it is pre-norm and still warms up, for 10,000 steps.
#
# ## L of them
#
# The encoder is the block, $L$ times. What it must be told stands in a `ViTConfig`, a
# record of all sizes of a network that {ref}`ch-vit` writes; here it is enough that it
# has `embed_dim`, `depth`, `drop_path` and so on. Its field `block` is a small object
# with a method `build` that calls `EncoderBlock` with these sizes, so that other blocks
# can be put in its place later.


# %% tags=["teaches"]
class Encoder(nn.Sequential):
    """L blocks, without the final norm: (b, t, d) -> (b, t, d)."""

    def __init__(self, config: "ViTConfig") -> None:
        rates = torch.linspace(
            0.0, config.drop_path, config.depth, device="cpu"
        )
        super().__init__(
            *(config.block.build(config, rate) for rate in rates.tolist())
        )


# %% [markdown]
# Early blocks are rarely left out and late ones more often: the rate of stochastic
# depth rises in equal steps from 0 to `drop_path`. An early block writes what all
# others read; a late one, as we measured, adds a little to a wide river. And there is
# no norm at the end: `Encoder` returns the raw stream, which {ref}`ch-vit` normalises
# once, in equation (4), before anyone reads an answer from it.

# %% tags=["nbval-check-output"]
from vitedu.model import ViTConfig

config = ViTConfig(
    embed_dim=d, num_heads=heads, mlp_dim=mlp_dim, depth=5, drop_path=0.2
)
encoder = Encoder(config)
rates = [block.drop_path.rate for block in encoder]
assert torch.allclose(torch.tensor(rates), torch.linspace(0, 0.2, 5), atol=1e-6)
encoder.eval()
z = tokens
for block in encoder:
    z = block(z)
assert torch.equal(encoder(tokens), z) and z.shape == tokens.shape
print("rates", ", ".join(f"{r:.2f}" for r in rates), "and blocks in order")

# %% [markdown]
# ## What a block weighs
#
# A dense layer from $a$ to $b$ numbers has $ab + b$ weights. Attention makes q, k and v
# and mixes the heads, four layers from $D$ to $D$; the MLP goes from $D$ to $M$ and
# back; each of the two norms has a scale and a shift:
#
# $$4(D^2 + D) + (2DM + M + D) + 4D .$$
#
# The number of heads does not occur. For $M = 4D$ this is $12D^2 + 13D$: of the large
# term four parts are attention and eight the MLP, so two thirds of a block stand in the
# branch that no token talks in. The five sizes of the paper and its follow-up
# {cite}`steiner2022augreg`, by formula, by counting our class, and by the number that
# we expect:

# %% tags=["nbval-check-output"]
SIZES = {  # name: D, heads, M, weights of one block
    "Ti": (192, 3, 768, 444_864),
    "S": (384, 6, 1536, 1_774_464),
    "B": (768, 12, 3072, 7_087_872),
    "L": (1024, 16, 4096, 12_596_224),
    "H": (1280, 16, 5120, 19_677_440),
}
for width, k, m, expected in SIZES.values():
    formula = 4 * (width**2 + width) + (2 * width * m + m + width) + 4 * width
    with torch.device("meta"):  # shapes without numbers
        block = EncoderBlock(width, k, m)
    counted = sum(weight.numel() for weight in block.parameters())
    assert formula == counted == expected == 12 * width**2 + 13 * width
print("Ti, S, B, L and H: formula, class and expectation agree")

# %% [markdown]
# Twelve blocks of B hold 85,054,464 weights. The paper prints 86M for the whole
# network; everything outside the encoder fits into the difference.
#
# ## Where this stands in the paper
#
# Equations (2) and (3) and the right half of Figure 1, in section 3.1; MSA is appendix
# A. Table 1 gives $L$, $D$, $M$ and the heads of B, L and H. The rate of dropout is a
# column of Table 3; the warm-up of 10,000 steps belongs to the same settings.
#
# ```{admonition} Differs from the paper
# :class: note
# * The equations show no biases; the authors' code has them in every dense layer, and
#   so have we.
# * `gelu="exact"` is our default, as in PyTorch and timm; the authors' code is
#   `gelu="tanh"`.
# * Stochastic depth is not in the paper. With `drop_path=0`, the default, it is not
#   here either.
# * Dropout is 0 by default. Where it is on, it acts after the attention's output layer
#   and after both layers of the MLP, as in the authors' code.
# ```
#
# ## What to keep
#
# 1. Attention alone averages: on our picture two layers make 196 tokens one. A residual
#    path keeps what a layer would have replaced.
# 2. LayerNorm looks at one token, removes its level and its size, and in the branch it
#    keeps the stream from growing by a factor a layer.
# 3. The MLP bends, one token at a time, and holds two thirds of a block's weights. GELU
#    has two forms that differ by 0.0005 at most.
# 4. A block is two lines: read through a norm, write by addition. The output is the
#    input plus $2L$ writes, whose shares shrink with depth.
# 5. Norm behind the sum (post-norm) does not lose gradients at the start; it lets one
#    step change a deep network beyond recognition.
#
# ## Five questions
#
# 1. Why does a stack of attention without residual paths make all tokens equal?
# 2. What does LayerNorm make of a token in two dimensions, and what does $\epsilon$ do
#    to $(4, 4)$?
# 3. Which of the three layers norm, attention and MLP gives another output for token 1
#    when token 2 changes?
# 4. What goes wrong in evaluation if stochastic depth does not divide by the
#    probability of keeping?
# 5. Why does the gradient of pre-norm's last block fall with the depth of the stack?
#
# ## Three readings
#
# * {cite:t}`dong2021rank` prove what our first figure shows, and ask which of the other
#   parts prevents it. Compare their answer on residual paths and MLPs with your own.
# * {cite:t}`xiong2020prenorm` derive the gradients that we measured and train pre-norm
#   Transformers without warm-up. Look for the step from "large gradients" to
#   "unstable", and hold Adam's first step against it.
# * {cite:t}`liu2020difficulty` disagree. For them unequal gradients are not the root of
#   the trouble; it is that a heavily used branch amplifies every small change of its
#   weights, which is our picture of one step. They also hold that post-norm, where it
#   trains, is often the better network, since in pre-norm the branches come to count
#   too little, and they mend post-norm by its initial values.
#
# We have an encoder: any row of tokens goes in, a row of the same shape comes out, and
# it would treat shuffled patches as it treats a picture. {ref}`ch-vit` gives it
# positions, something to answer with, and its initial values.
#
# ## Exercises
#
# ```{exercise} ★ Scale and shift
# :label: ex-encoder-norm
#
# A LayerNorm in two dimensions has learned $\boldsymbol\gamma = (2, 1)$ and
# $\boldsymbol\beta = (0, 1)$. What does it make of $(3, 1)$, $(1, 3)$ and $(4, 4)$,
# with $\epsilon$ left out of account? Can any input come out as $(1, 1)$?
# ```
#
# ```{exercise} ★ Weigh a block
# :label: ex-encoder-count
#
# How many weights has one block with $D = 64$ and $M = 256$, by the formula? How many
# parameter *tensors* are they, and how many has the MLP?
# ```
#
# ```{exercise} ★★ One norm for the whole image
# :label: ex-encoder-axes
#
# Somebody writes `nn.LayerNorm((num_tokens, d))`, so that mean and variance are taken
# over all tokens of an image. How does the norm's panel in the figure of influences
# change? Which use of the network that needs no training is lost?
# ```
#
# ```{exercise} ★★ How many branches are missing?
# :label: ex-encoder-drops
#
# `drop_path=0.1` at depth 24: how many of the 48 branches does an image miss on
# average? What is the probability that it meets all of them? Guess before you compute.
# ```
#
# ```{exercise} ★★ Another beginning
# :label: ex-encoder-start
#
# The figures on the order of the norm hold for Xavier's initial values. PyTorch's own
# values for dense layers are smaller. Predict what `start=lambda block: block` changes
# in `gradients` and `moved` at depth 24, for both orders; then run it.
# ```
#
# ```{exercise} ★★★ Post-norm, mended
# :label: ex-encoder-scaled
#
# Give the stream more weight in the sum, $\text{LN}(\alpha\mathbf{z} + f(\mathbf{z}))$,
# and look for an $\alpha$ with which 24 post-norm blocks move no further in one step
# than pre-norm blocks. How should $\alpha$ depend on $L$? What does it do to the
# gradients of first and last block, and what is the price?
# ```
#
# ## Solutions
#
# ```{solution-start} ex-encoder-norm
# :class: dropdown
# ```
#
# Before scale and shift they are $(1, -1)$, $(-1, 1)$ and $(0, 0)$, so the results are
# $(2, 0)$, $(-2, 2)$ and $(0, 1)$. $(1, 1)$ would need $(0.5, 0)$ before scale and
# shift, whose numbers do not sum to zero: no input gives it.
#
# ```{solution-end}
# ```
#
# ```{solution-start} ex-encoder-count
# :class: dropdown
# ```

# %% tags=["exercise-solution"]
one = EncoderBlock(64, 4, 256)
total = sum(weight.numel() for weight in one.parameters())
assert total == 12 * 64**2 + 13 * 64
tensors = len(list(one.parameters()))
print(f"{total:,} weights in {tensors} tensors")
print(f"MLP: {sum(weight.numel() for weight in one.mlp.parameters()):,}")

# %% [markdown]
# Six modules with a weight and a bias each: two norms, qkv, the output layer, fc1, fc2.
#
# ```{solution-end}
# ```
#
# ```{solution-start} ex-encoder-axes
# :class: dropdown
# ```
#
# Every output token depends on every input token through the common mean and variance:
# the panel is no longer diagonal. The scale has the shape (t, d) then, so the layer is
# bound to one number of tokens, and an image of another size no longer passes through
# the same weights. ({ref}`ch-vit` has one other part with that bond, and it is a
# smaller one.)
#
# ```{solution-end}
# ```
#
# ```{solution-start} ex-encoder-drops
# :class: dropdown
# ```

# %% tags=["exercise-solution"]
rates = torch.linspace(0, 0.1, 24)
print(f"missing on average: {2 * rates.sum():.1f} of 48")
print(f"all present: {100 * (1 - rates).prod() ** 2:.0f} %")


# %% [markdown]
# Both branches of a block draw on their own, hence the 2 and the square. In a training
# at the rate 0.1 hardly any image ever sees the network that is used afterwards.
#
# ```{solution-end}
# ```
#
# ```{solution-start} ex-encoder-start
# :class: dropdown
# ```


# %% tags=["exercise-solution"]
def same(module):
    """PyTorch's own initial values: change nothing."""
    return module


for name, kind in ORDERS.items():
    runs = [gradients(kind, depth, seed, same) for seed in range(3)]
    steps = [moved(kind, depth, seed, same) for seed in range(3)]
    first, *_, end = median(runs)
    print(f"{name}: gradient {first:.1f} first, {end:.1f} last", end="; ")
    print(f"one step moves {median(steps):.2f}")


# %% [markdown]
# Smaller values make quieter branches. Pre-norm's last block keeps more of its
# gradient, post-norm moves less in one step, and pre-norm moves more, since the same
# step is larger beside smaller weights. The two orders have come closer from both
# sides: where the norm stands and which values the weights begin with is one question,
# not two.
#
# ```{solution-end}
# ```
#
# ```{solution-start} ex-encoder-scaled
# :class: dropdown
# ```


# %% tags=["exercise-solution"]
class ScaledPostNormBlock(EncoderBlock):
    """Post-norm with the stream weighted by a factor."""

    alpha = 1.0

    def forward(self, x):
        """(b, t, d) -> (b, t, d)."""
        x = self.norm1(self.alpha * x + self.attn(x))
        return self.norm2(self.alpha * x + self.mlp(x))


for power in (0, 0.25, 0.5):
    ScaledPostNormBlock.alpha = (2 * depth) ** power
    runs = [gradients(ScaledPostNormBlock, depth, seed) for seed in range(3)]
    steps = [moved(ScaledPostNormBlock, depth, seed) for seed in range(3)]
    first, *_, end = median(runs)
    print(f"alpha {ScaledPostNormBlock.alpha:.2f}: moves {median(steps):.2f}")
    print(f"    gradient {first:.2f} first, {end:.2f} last")

# %% [markdown]
# With $\alpha = (2L)^{1/4}$ one step moves about a third of the output, not far above
# pre-norm, with $\sqrt{2L}$ less than a tenth, and in both cases all blocks get
# gradients of one size, which pre-norm does not offer. The price is the one that
# pre-norm pays: a larger $\alpha$ is a quieter branch. {cite:t}`wang2022deepnet` train
# stacks of 1,000 layers with a weight of this kind; whether ours would be the better
# network, only a training says.
#
# ```{solution-end}
# ```
