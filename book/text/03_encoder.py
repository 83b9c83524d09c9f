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
# equations (2) and (3). You have seen what a network does that lacks one of its parts
# or has one in another place, and you can count the weights of a block on paper.

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
print(f"seed 0, cpu, torch {torch.__version__}")

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
    square = Image.open(file).convert("RGB").crop((0, 20, 512, 532))
picture = torch.tensor(np.array(square.resize((224, 224)))) / 255
images = 2 * picture.permute(2, 0, 1)[None].double() - 1  # (b, c, h, w)
patch_embed = PatchEmbedding((224, 224), (16, 16), 3, d)
tokens = patch_embed(images).detach()  # (b, t, d)
print(tuple(images.shape), "->", tuple(tokens.shape))

# %% [markdown]
# Nothing in this chapter is trained for longer than a few steps, so it matters what the
# weights are at the beginning. For dense layers we do as the authors' code does,
# Xavier-uniform {cite}`glorot2010`: the weights of a layer from $a$ to $b$ numbers are
# drawn evenly between $\pm\sqrt{6/(a+b)}$, its biases are zero. With $a = b$ what comes
# out is on average as large as what goes in. {ref}`ch-vit` is more exact.
#
# Tokens have two measures here: a size, the root mean square (rms) of their numbers, and
# a spread, 1 where the mean token is zero and 0 where all tokens are one vector.

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
# **Guess before you go on:** the picture's tokens start with a spread of 0.88. After
# how many of the 24 layers can double precision no longer tell them apart: after 3,
# after 20, or never?

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
    cosines = unit @ unit[14 * marked[0] + marked[1]]
    maps[passed] = (1 - cosines).view(14, 14)
figures.show(*drawings.similarity(picture, maps, marked))

# %% [markdown]
# Each map has a scale of its own. The person can be made out in all three, but after
# one layer the tokens point the same way up to a few percent, after two up to the ninth
# digit, and from the third on only rounding errors tell them apart. The other layers
# get 196 copies of one vector, and nothing that comes after them could know where
# anything was, or what.
#
# The reason fits on paper. Rows of attention weights are positive and sum to 1, so what
# comes out is an average of what went in; the linear maps before and after are the same
# for all tokens and cannot take it back. Take three tokens in two dimensions, $(4, 0)$,
# $(0, 4)$, $(2, 2)$, and let each give itself the weight ½ and the others ¼. The first
# becomes ½(4, 0) + ¼(0, 4) + ¼(2, 2) = (2.5, 1.5). The mean of the three is $(2, 2)$
# before and after; the distance from it shrinks to a quarter, and to a sixteenth in the
# next layer. Attention between tokens that are alike is closer to uniform still, so the
# fall speeds up. {cite:t}`dong2021rank` prove that it is doubly exponential in depth:
# the exponent itself grows exponentially. These are new weights, and training would
# have to begin with them.
#
# ## Keep the token, add the rest
#
# The cure is one addition: `z = layer(z)` becomes `z = z + layer(z)`. A layer does not
# replace its input; it adds to it,
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
# *residual branch*, the addition a {term}`residual connection`. Think of a river: a
# branch takes a sample of its water, works on it and lets the result flow back in. The
# river goes on, whatever the branch does. Here are both stacks on the picture, the same
# 24 layers with and without the addition:

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
growth = sizes["added"][-1] / sizes["added"][0]
print(f"added: {growth:.0f}-fold, {growth ** (1 / depth):.2f}-fold a layer")


# %% [markdown]
# The upper panel is the cure, and it is not complete: averages are still being added,
# and the spread sinks to 0.0003. The lower panel is the price. What a layer writes is
# about as large as what it reads, and has nothing to do with it. Two such vectors add
# like the sides of a right angle: the sum is $\sqrt2 = 1.41$ times as long as either.
# So the stream grows by a *factor* a layer, 1.40 on average, and deep layers see an
# input of a size that no initial value was made for.
#
# ## Without level and size
#
# So let a branch read the stream at a size that is always the same. LayerNorm
# ({term}`layer normalisation`) {cite}`ba2016layernorm` takes one token
# $\mathbf{x} = (x_1, \dots, x_D)$ and gives
#
# $$\text{LN}(\mathbf{x})_i = \gamma_i \frac{x_i - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta_i, \qquad \mu = \frac1D \sum_i x_i, \qquad \sigma^2 = \frac1D \sum_i (x_i - \mu)^2 .$$
#
# The mean $\mu$ is the level of *this* token and the deviation $\sigma$ its size; no
# other token and no other image enters. The scale $\boldsymbol\gamma$ and the shift
# $\boldsymbol\beta$ are learned, $D$ numbers each, and begin as ones and zeros.
# $\epsilon$ is a small constant. Three tokens to try it on: $(3, 1)$, $(0.2, 0)$ and
# $(4, 4)$.


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
# In two dimensions almost nothing survives. $(3, 1)$ has the mean 2 and differs from it
# by $(1, -1)$, so $\sigma = 1$; for $(0.2, 0)$ these differences are ten times smaller,
# $\sigma$ with them, and it comes to the same place. Only which number is the larger one
# remains. In 64 dimensions more does: all *ratios* between the differences. The tokens
# of our picture, before and after:

# %% tags=["nbval-check-output"]
after = layer_norm(tokens)  # (b, t, d)
means, deviations = tokens.mean(-1), tokens.std(-1, correction=0)  # (b, t)
assert after.mean(-1).abs().max() < 1e-12
assert (after.std(-1, correction=0) - 1).abs().max() < 1e-4
low, high = deviations.min(), deviations.max()
told = f"means {means.min():.2f} to {means.max():.2f}, deviations {low:.2f}"
print(f"before: {told} to {high:.2f}; after: 0 and 1")

# %% [markdown]
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
# The authors' code has $10^{-6}$ and PyTorch's default is $10^{-5}$. On a token with
# $\sigma = 1$ the two agree to five digits. Whoever compares outputs to twelve digits,
# as we shall, has to ask.
#
# Where does the norm go? Into the branch: $\mathbf{z} + f(\text{LN}(\mathbf{z}))$. The
# branch reads a normalised sample, the stream stays as it is.

# %% tags=["nbval-check-output"]
with torch.no_grad():
    z = tokens
    for layer in layers:
        z = z + layer(layer_norm(z))
raw, normed = (size(end) / size(tokens) for end in (residual[-1], z))
assert normed < 15 < 1000 < raw
added, kept = spread(residual[-1]), spread(z)
assert added < 0.001 < 0.05 < kept
print(f"growth {raw:.0f} and {normed:.0f}, spread {added:.4f} and {kept:.2f}")

# %% [markdown]
# A write no longer grows with the stream, so growth by a factor has become growth by
# steps, and the tokens keep more of their difference: after 24 layers the spread is
# 0.11 instead of 0.0003.
#
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
# A unit that ReLU has switched off gets no gradient at all. GELU has a slope left of
# zero too, save at its lowest point near −0.75 and far out, where it is flat. The lower
# panel is about a detail that breaks comparisons. $\Phi$ has no closed form, and the
# authors' code uses an approximation with tanh where PyTorch and timm compute the exact
# function. How far apart are they?

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
# For a test of equality to twelve digits that is eight digits too much. Our MLP can be
# told which one to use:


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
# Tokens talk in attention and nowhere else. Norm and MLP see one token at a time.
# ```
#
# ## Two equations, two lines
#
# Everything has a place now. Block $\ell$ of $L$ reads the stream
# $\mathbf{z}_{\ell-1}$ and leaves $\mathbf{z}_\ell$ behind; MSA is the multi-head
# attention of {ref}`ch-attention`:
#
# $$\mathbf{z}'_\ell = \text{MSA}(\text{LN}(\mathbf{z}_{\ell-1})) + \mathbf{z}_{\ell-1}, \qquad \ell = 1 \dots L \tag{2}$$
#
# $$\mathbf{z}_\ell = \text{MLP}(\text{LN}(\mathbf{z}'_\ell)) + \mathbf{z}'_\ell, \qquad \ell = 1 \dots L \tag{3}$$
#
# Section 3.1 of the paper says it in words: a norm before each branch, a residual
# connection after it, and an MLP of two layers with a GELU. It gives no reasons; for
# this place of the norm it names two papers on language {cite}`wang2019,baevski2019`.

# %% tags=["hide-input"]
figures.show(*drawings.river())


# %% [markdown]
# | symbol | in the code | shape |
# | --- | --- | --- |
# | $\mathbf{z}_{\ell-1}$, $\mathbf{z}'_\ell$, $\mathbf{z}_\ell$ | `x` before, between and after | (b, t, d) |
# | first, second LN | `norm1`, `norm2` | (b, t, d) → (b, t, d) |
# | MSA | `attn` | (b, t, d) → (b, t, d) |
# | MLP | `mlp` | (b, t, d) → (b, t, mlp_dim) → (b, t, d) |
# | $D$, $M$; $L$ | `embed_dim`, `mlp_dim`; `depth` | |
#
# One name in the code is in neither equation. `DropPath` hands on what it gets as long
# as its rate is 0, which is the default. We import it for now and write it later.


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
# Two tests. PyTorch's own layer was written by others: told to put the norm first, to
# use GELU and the authors' $\epsilon$, it should compute the same function of the same
# weights. And a block whose branches write nothing must leave the stream untouched, to
# the last bit.

# %% tags=["nbval-check-output"]
from vitedu.model import DropPath

assert DropPath(0.0)(tokens) is tokens
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
# ## How much does a block write?
#
# The equations can be added up: $\mathbf{z}_L$ is $\mathbf{z}_0$ plus everything that
# the $2L$ branches have written. How much is that? Twenty-four new blocks, the picture
# as input; a write is measured against the stream that it is added to.

# %% tags=["nbval-check-output"]
stack = [xavier(EncoderBlock(d, heads, mlp_dim)) for _ in range(depth)]
z, written, streams = tokens, torch.zeros_like(tokens), []
wrote = {"attention": [], "MLP": []}
shares = {"attention": [], "MLP": []}
with torch.no_grad():
    for block in stack:
        streams.append(size(z))
        branches = (block.norm1, block.attn), (block.norm2, block.mlp)
        for name, (norm, branch) in zip(wrote, branches, strict=True):
            write = branch(norm(z))  # (b, t, d)
            wrote[name].append(size(write))
            shares[name].append(size(write) / size(z))
            z, written = z + write, written + write
    assert torch.allclose(z, nn.Sequential(*stack)(tokens))
assert torch.allclose(z, tokens + written) and spread(z) > 0.1
assert shares["attention"][0] > 0.5 and shares["attention"][-1] < 0.3
print(f"source + {2 * depth} writes = stream; its spread is {spread(z):.2f}")

# %% tags=["hide-input"]
figures.show(*drawings.writes(streams, wrote, shares))

# %% [markdown]
# The tokens are still different after 24 blocks. Attention alone left rounding errors
# of their spread, the addition 0.0003, the norm 0.11, and with the MLP it is 0.27 (one
# draw of weights each).
#
# All branches are made alike and read tokens of one size. Attention's writes rise from
# 0.46 to about 0.9 within four blocks and stay there, the MLP's stay near 0.5. But the
# first block writes into a small stream and the last into a large one: what was 126 and
# 75 % of the stream at the beginning is 20 and 8 % of it at the end. Unrelated writes of
# one size add up like the steps of a random walk, and the stream grows about as the
# square root of the number of blocks behind it, the thin line in the figure.
#
# ## In front or behind?
#
# Our norm stands in the branch ({term}`pre-norm`). The Transformer of 2017
# {cite}`vaswani2017` is {term}`post-norm`: first add, then normalise the sum,
# $\mathbf{z} \leftarrow \text{LN}(\mathbf{z} + f(\mathbf{z}))$. Then the norm stands on
# the stream itself, 48 times in 24 blocks.

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
# Same parts, same weights, another order. Does the gradient get lost on its way down
# through 48 norms? We measure: 32 digits, 16 patches each, 24 blocks with new weights,
# one linear layer on the mean token. For each block we take the gradient of the loss
# with respect to the MLP's second matrix and note its norm (the root of the sum of
# squares) for five seeds.
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
runs = {
    name: [gradients(kind, depth, seed) for seed in range(5)]
    for name, kind in ORDERS.items()
}
by_block = {
    name: list(zip(*lines, strict=True)) for name, lines in runs.items()
}
axes = ("block", "gradient norm")
figures.show(*drawings.medians(range(1, depth + 1), by_block, axes))

# %% [markdown]
# (Dots are the five seeds, lines their medians.) Nothing vanishes. Post-norm's curve
# wavers and keeps its level over 24 blocks. It is pre-norm's that falls, towards the
# end: the later a block, the larger the stream it writes into, and the smaller the part
# that its weights have in the output. At the last block the medians are a factor of four
# apart. Does this gap depend on the depth?

# %%
depths = (1, 3, 8, 24)
last = {
    name: [[gradients(kind, n, s)[-1] for s in range(5)] for n in depths]
    for name, kind in ORDERS.items()
}
axes = ("blocks in the stack", "gradient norm, last block")
figures.show(*drawings.medians(depths, last, axes))

# %% tags=["nbval-check-output"]
from itertools import pairwise
from statistics import median

middle = {name: list(map(median, values)) for name, values in last.items()}
ratios = {name: line[0] / line[-1] for name, line in middle.items()}
assert 0.7 < ratios["pre-norm"] / depth**0.5 < 1.4
assert ratios["post-norm"] < 1
assert all(a > b for a, b in pairwise(middle["pre-norm"]))
print("1 to 24: pre-norm's falls like the root, post-norm's does not fall")


# %% [markdown]
# There is the root of the stream again. {cite:t}`xiong2020prenorm` derive an upper bound
# for this very gradient, for new weights: with post-norm it does not depend on the
# depth, with pre-norm it goes down with $1/\sqrt{L}$. They conclude that post-norm's
# large gradients near the output make the first steps unstable, and that this is why it
# needs a {term}`warm-up`, a learning rate that starts near zero and rises.
#
# A doubt remains. Adam {cite}`kingma2015adam` divides the gradient of each weight by
# its own size; its first step moves a weight by the learning rate, whatever the
# gradient's norm. If only sizes were the trouble, Adam would not notice. So let us look
# at what such a step does. We move the weights of the blocks by 0.0001 each (the biases
# of the keys stay: softmax does not notice them, so they have no gradient). That is
# about a thousandth of a weight's size.
#
# **Guess before you go on:** how far does the output move, as a share of its size? A
# thousandth, a tenth, half? With one block, and with 24, in either order?


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
    name: [[moved(kind, n, s) for s in range(5)] for n in depths]
    for name, kind in ORDERS.items()
}
axes = ("blocks in the stack", "change by one step")
figures.show(*drawings.medians(depths, change, axes))
for name, values in change.items():
    for n, seeds in zip(depths[::3], values[::3], strict=True):
        print(f"{name}, depth {n:2}: {min(seeds):.2f} to {max(seeds):.2f}")


# %% [markdown]
# With one block the orders hardly differ. With 24, the step changes pre-norm's output
# by 0.18 to 0.25 of its size and post-norm's by 0.54 to 1.09: no seed of one reaches the
# other. In pre-norm a late branch is a small share of a large stream, and so is a change
# of it. In post-norm each norm brings the stream back to size 1: every branch keeps a
# large share, and a change in one block changes what all blocks behind it read.
#
# Now the failure itself. A usual learning rate of 0.001, no warm-up, the same 32 digits
# at every step: a network that learns anything learns these by heart. The loss is in
# nats, the unit of the natural logarithm.


# %% tags=["failure", "nbval-ignore-output"]
def learn(kind, lr, steps=13):
    """Losses over some steps of Adam on the same 32 digits."""
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
print("0.001: pre-norm learns, post-norm is no better than a constant")


# %% [markdown]
# Post-norm comes to the loss of the best constant answer, the one that knows how often
# each digit occurs and has not looked at any, and is still there at step 12. At a tenth
# of the rate it learns. Pre-norm's loss rises at the first step, then falls. This is
# one seed, thirteen steps and a small network: it shows how the mistake looks, not how
# often it happens or whether it passes.
#
# ```{admonition} To keep
# Pre-norm: nothing on the stream but additions. One step moves a deep network less far,
# and late blocks count for less.
# ```
#
# The paper is careful twice over: it is pre-norm and still warms up, for 10,000 steps.
#
# ## A branch that stays away
#
# One name of the block is still to be written. If the stream goes on whatever a branch
# does, we may also leave a branch out. {term}`Stochastic depth <stochastic depth>`
# {cite}`huang2016stochastic` does so at random while training: each image of a batch
# passes through a slightly different, shallower network, and no branch can rely on all
# others being there. It is not in the paper; its follow-ups train with it
# {cite}`steiner2022augreg,touvron2021deit`.
#
# A branch with the rate 0.25 is present three times out of four. In use all branches
# are there, and it would write a third more on average than in training. So what is
# kept is divided by the probability of keeping it, $1 - 0.25$. Four images that each
# write 3, with the draws 1, 0, 1, 1, write 4, 0, 4, 4: on average 3. The average is all
# that this mends; no single image writes 3.


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
# The division is easy to forget, and no error says so:


# %% tags=["failure"]
class ForgetfulDropPath(DropPath):
    """Leaves branches out and forgets `/ keep`: wrong."""

    def forward(self, x):
        """(b, t, d) -> (b, t, d)."""
        if not self.training or self.rate == 0.0:
            return x
        keep = 1.0 - self.rate
        return x * x.new_empty(len(x), 1, 1).bernoulli_(keep)


for kind in (DropPath, ForgetfulDropPath):
    drop = kind(0.5)
    training = drop.train()(writes).mean()
    ratio = drop.eval()(writes).mean() / training
    print(f"{kind.__name__:17} evaluation / training: {ratio:.1f}")


# %% [markdown]
# In evaluation each such branch writes more, on average, than the branches behind it
# have met in training; at the rate 0.5 twice as much.
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
# others read; a late one, as we measured, adds a little to a large stream. And there is
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
# branch that looks at one token at a time. The five sizes of the paper and its follow-up
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
# Twelve blocks of B hold 85,054,464 weights, and the paper prints 86M for the whole
# network. Everything else without the head is another 0.74 million, 85.8 in all; a head
# of 1,000 classes makes it 86.6. {ref}`ch-vit` asks which of the two was counted.
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
# * Stochastic depth is not in the paper, and off by default.
# * Dropout is 0 by default. Where it is on, it acts after the attention's output layer
#   and after both layers of the MLP, as in the authors' code.
# ```
#
# ## What to keep
#
# 1. Attention alone averages: on our picture three layers make 196 tokens one. A
#    residual path keeps what a layer would have replaced.
# 2. LayerNorm looks at one token, removes its level and its size, and in the branch it
#    keeps the stream from growing by a factor a layer.
# 3. The MLP bends, one token at a time, and holds two thirds of a block's weights. GELU
#    has two forms that differ by 0.0005 at most.
# 4. A block is two lines: read through a norm, write by addition. The output is the
#    input plus $2L$ writes, whose shares shrink with depth.
# 5. Norm behind the sum (post-norm) does not lose gradients at the start; with 24 blocks
#    it lets one small step change the output by half of its size or more.
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
# * {cite:t}`dong2021rank` prove what our maps of the portrait show, and ask which of the
#   other parts prevents it. Compare their answer on residual paths and MLPs with your
#   own.
# * {cite:t}`xiong2020prenorm` derive the bounds above and train pre-norm Transformers
#   without warm-up. Look for the step from "large gradients" to "unstable", and hold
#   Adam's first step against it.
# * {cite:t}`liu2020difficulty` disagree. About the cause: balancing the gradients alone
#   does not make post-norm stable; what does the harm is that a layer depends heavily on
#   its branch, which amplifies every small change of its weights, our picture of one
#   step. And about the cure: too light a branch limits what the trained network can
#   reach, so they keep post-norm and mend its initial values.
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
# How many weights has one block with $D = 64$ and $M = 256$, by the formula? In how many
# parameter *tensors* do they stand? How many weights are the MLP's?
# ```
#
# ```{exercise} ★★ One norm for the whole image
# :label: ex-encoder-axes
#
# Somebody writes `nn.LayerNorm((num_tokens, d))`, so that mean and variance are taken
# over all tokens of an image. How does the norm's panel in the figure of influences
# change? What can the network no longer do with a larger image, although no weight was
# retrained?
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
# at the rate 0.1 one image in twelve passes through the network that is used afterwards.
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
    slopes = [gradients(kind, depth, seed, same) for seed in range(5)]
    first, *_, end = map(median, zip(*slopes, strict=True))
    steps = [moved(kind, depth, seed, same) for seed in range(5)]
    print(f"{name}: gradient {first:.1f} first, {end:.1f} last (medians)")
    print(f"    one step moves {min(steps):.2f} to {max(steps):.2f}")


# %% [markdown]
# With smaller values a branch writes less. Pre-norm's last block keeps more of its
# gradient, post-norm moves less in one step, and pre-norm moves more, since the same
# step is larger beside smaller weights. The ranges of the two orders now touch: where
# the norm stands and which values the weights begin with is one question, not two.
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


for power in (0.25, 0.5):  # power 0 is post-norm, measured above
    ScaledPostNormBlock.alpha = (2 * depth) ** power
    slopes = [gradients(ScaledPostNormBlock, depth, s) for s in range(5)]
    first, *_, end = map(median, zip(*slopes, strict=True))
    steps = [moved(ScaledPostNormBlock, depth, s) for s in range(5)]
    far = f"{min(steps):.2f} to {max(steps):.2f}"
    print(f"alpha {ScaledPostNormBlock.alpha:.2f}: one step moves {far}")
    print(f"    gradient {first:.2f} first, {end:.2f} last (medians)")

# %% [markdown]
# With $\alpha = (2L)^{1/4}$ one step moves about a third of the output, not far above
# pre-norm, with $\sqrt{2L}$ less than a tenth, and in both cases first and last block
# get gradients of about one size, which pre-norm does not offer. The price is the one
# that pre-norm pays: with a larger $\alpha$ a branch counts for less.
# {cite:t}`wang2022deepnet` train stacks of 1,000 layers with a weight of this kind;
# whether ours would be the better network, only a training says.
#
# ```{solution-end}
# ```
