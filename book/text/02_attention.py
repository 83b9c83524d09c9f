# %% [markdown]
# (ch-attention)=
# # Attention
#
# A {term}`token` is made from one {term}`patch` and knows nothing else. This chapter is
# about the one layer in which tokens hear of each other. At its end you can compute
# {term}`attention` between three tokens on paper. You have written the layer that every
# Vision Transformer runs, line by line beside its equations, and can say what each line
# is for, the square root included. And you can find two mistakes in it that no error
# message reports.

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

figures.show(*figures.network("attention"))

# %% [markdown]
# The lit box also names a norm and "+ itself": both belong to {ref}`ch-encoder`.
#
# We have a row of tokens, one a patch ({ref}`ch-images`). What is missing is any way
# for one of them to learn something from another. The question: **whom should a token
# ask, when the same learned numbers must do for every picture?**
#
# ## Two dark squares
#
# The picture of this book again, 224×224 pixels, and two of its 196 patches, five times
# as bright as they are. Which of the two stands left is drawn by lot.

# %%
import numpy as np
from matplotlib.cbook import get_sample_data
from PIL import Image

from vitedu.figures import attention as drawings
from vitedu.figures.maps import dealt, framed, looks
from vitedu.figures.patches import pictures
from vitedu.model import patchify, unpatchify

with get_sample_data("grace_hopper.jpg") as file:
    photo = Image.open(file).convert("RGB")
square = photo.crop((0, 20, 512, 532)).resize((224, 224))
picture = torch.tensor(np.array(square)).permute(2, 0, 1) / 255  # (c, h, w)
picture = picture.double()
flat = patchify(picture[None], 16)  # (b, n, p*q*c) = (1, 196, 768)

pair = [[33, 169][i] for i in torch.randperm(2)]  # two patches, by number
squares = 5 * unpatchify(flat[:, pair], 16, (1, 2))[0]
panels = {"left": squares[:, :, :16], "right": squares[:, :, 16:]}
figures.show(*pictures(panels, "Two dark squares that hardly differ."))

# %% [markdown]
# One of them is a piece of the officer's cap, the other of her jacket. Which is which?
# A few brownish pixels in a corner are the only hint. How far apart are their numbers,
# which run from 0 to 1?

# %%
cap, jacket = 33, 169
apart = (flat[0, :, None] - flat[0, None]).abs().mean(dim=-1)  # (n, n)
print(f"the cap is on the {('left', 'right')[pair.index(cap)]}")
print(f"cap and jacket differ by {apart[cap, jacket]:.3f} a number")
print(f"the jacket and its right neighbour by {apart[jacket, jacket + 1]:.3f}")
print(f"two patches of the picture, in the median, by {apart.median():.2f}")

places = {"Cap": (2, 5), "Jacket": (12, 1)}  # row, column
figures.show(*framed(picture, places, 16))

# %% [markdown]
# This piece of the jacket is more like a piece of the cap than like its own neighbour,
# where a name plate begins. A function of one patch alone could learn the corner and be
# right here; it says nothing about dark cloth in the next picture. What makes this one
# a cap lies outside the patch: gold braid above, a face below. Around the other lie a
# collar and a shirt.
#
# So tokens must exchange what they know. Three ways come to mind.
#
# * *Everyone hears the mean of all.* Then all hear the same, and cap and jacket stay as
#   alike as before.
# * *Everyone hears the neighbours*, by a rule that is the same everywhere. That is a
#   {term}`convolution`. It is a good rule for edges; but which patches matter for the
#   cap is another question in this picture than in the next.
# * *One matrix from all numbers of all tokens to all numbers of all tokens.* With
#   $196 \cdot 768$ numbers on each side that is 22.7 billion learned numbers, for
#   pictures of this one size.
#
# What we want lies between: everyone hears a mean, but each token its own mean, with
# weights that it finds by looking at the others.
#
# ## A dictionary that always answers
#
# A dictionary is a thing that one asks. Here is one of winds: from which side it blows,
# and how warm it is then, in °C.

# %% tags=["failure", "raises-exception"]
winds = {"north": 4, "east": 10, "south": 22, "west": 14}
winds["north-east"]

# %% [markdown]
# We ask with a {term}`query`. The dictionary compares it with its {term}`keys <key>`.
# If one is equal it hands out the {term}`value` that belongs to it, and otherwise
# nothing. A north-east wind is no mystery, though: something between 4 and 10 would be
# a fair answer.
#
# For "between", keys must be vectors. We take the four directions in the plane, east to
# the right. The query is a vector too, and the match of a query with a key is their dot
# product, the *score*: large if they point the same way, 0 at a right angle, negative
# if they oppose. {term}`Softmax <softmax>` makes weights of the scores $s_j$, positive
# and with sum 1,
#
# $$w_j = \frac{e^{s_j}}{\sum_i e^{s_i}},$$
#
# and the answer is the mean of the values with these weights.

# %%
import math

keys = torch.tensor([[0.0, 1], [1, 0], [0, -1], [-1, 0]])  # n, e, s, w
values = torch.tensor([4.0, 10, 22, 14])


def ask(query):
    """A mean of the values: those count whose keys match the query (2,)."""
    scores = keys @ query  # (4,)
    weights = scores.softmax(dim=0)
    return (weights @ values).item()


north_east = torch.tensor([1.0, 1]) / math.sqrt(2)  # length 1
for length in (1, 3, 10):
    print(f"query of length {length:2}: {ask(length * north_east):5.2f} °C")

# %% [markdown]
# A short query hears everybody, the opposite side too, and is drawn to the mean of all,
# 12.5. A longer one makes all scores larger, and softmax turns larger differences of
# scores into more unequal weights. The direction of a query says what it asks for, its
# length how picky it is. We turn the query once around.

# %% tags=["hide-input"]
directions = torch.arange(0, 361, 3.0)  # degrees, from north over east
radians = directions.deg2rad()
around = torch.stack([radians.sin(), radians.cos()], dim=1)
lines = {
    f"length {length}": torch.tensor([ask(length * unit) for unit in around])
    for length in (1, 5, 50)
}
entries = {0: 4, 90: 10, 180: 22, 270: 14, 360: 4}
figures.show(*drawings.answers(directions, lines, entries))

# %% [markdown]
# With length 50 it is the dictionary that we began with, except that it answers in
# between too: with the nearest entry, or at a tie with the mean of two, as 7 at
# north-east. But its steps are flat: turn the query a little, and the answer does not
# move. A network learns by turning its queries a little in the direction that helps,
# and on a flat step no direction does. The wave of length 5 is flat only near crest and
# trough. So softness has two reasons, answers in between and a slope. The second comes
# back when we ask how long a query should be.

# %% tags=["nbval-check-output"]
for unit, expected in zip(keys, values, strict=True):
    assert abs(ask(50 * unit) - expected) < 1e-9
assert min(values) < ask(north_east) < max(values)
print("a long query finds its entry, a short one something in between")

# %% [markdown]
# ## Three tokens on paper
#
# Now the tokens themselves are the dictionary. Each asks, each is asked, each hands
# something out. Three tokens of two numbers, and for a start each uses its own vector
# for all three roles:
#
# $$\mathbf{x}_1 = (1, 0), \qquad \mathbf{x}_2 = (0, 1), \qquad \mathbf{x}_3 = (1, 1).$$
#
# *Scores.* Token 1 against 1, 2 and 3: $1, 0, 1$. Token 2: $0, 1, 1$. Token 3:
# $1, 1, 2$.
#
# *Divide* by $\sqrt 2$, the root of 2, the length of the list; the reason comes below.
# $1$ becomes $0.71$ and $2$ becomes $1.41$.
#
# *Exponentials.* $e^{0} = 1$, $e^{0.71} = 2.03$, $e^{1.41} = 4.11$. Row 1 has
# $2.03, 1, 2.03$, in sum $5.06$.
#
# *Weights.* Divide each row by its sum:
#
# $$
# A = \begin{pmatrix}
# 0.40 & 0.20 & 0.40 \\ 0.20 & 0.40 & 0.40 \\ 0.25 & 0.25 & 0.50
# \end{pmatrix}
# $$
#
# *Values.* Token 1 receives the three vectors with the weights of row 1:
#
# $$
# 0.40 \begin{pmatrix} 1 & 0 \end{pmatrix} + 0.20 \begin{pmatrix} 0 & 1 \end{pmatrix}
# + 0.40 \begin{pmatrix} 1 & 1 \end{pmatrix}
# = \begin{pmatrix} 0.80 & 0.60 \end{pmatrix}
# $$
#
# In the same way token 2 receives $(0.60, 0.80)$ and token 3 $(0.75, 0.75)$.
#
# Those are all the steps. In code they are three lines:

# %%
x = torch.tensor([[1.0, 0], [0, 1], [1, 1]])  # (t, d)

scores = x @ x.T / math.sqrt(2)  # (t, t): row i holds what token i asks
weights = scores.softmax(dim=1)  # each row sums to 1
mixed = weights @ x  # (t, d)

for row, output in zip(weights, mixed, strict=True):
    shares = ", ".join(f"{weight:.2f}" for weight in row)
    print(f"weights {shares}  ->  ({output[0]:.2f}, {output[1]:.2f})")

figures.show(*drawings.triangle(x, mixed))

# %% [markdown]
# Weights are positive and sum to 1, so every output is a mean of the values and lies
# inside the triangle of the three. Attention moves each token towards what it looks at.
#
# ### Three roles
#
# With one vector in all roles, the matrix of scores is its own mirror image: as much as
# 1 asks for 3, 3 asks for 1. That is not how asking works. The eyes of a portrait may
# need to know of the cap above them; the cap need not ask back. And a token tends to
# find itself. So each token gets three vectors. A learned matrix, $\mathbf{U}_q$, makes
# its query $\mathbf{q}$ (what do I ask for?), a second, $\mathbf{U}_k$, its key
# $\mathbf{k}$ (what am I found by?), a third, $\mathbf{U}_v$, its value $\mathbf{v}$
# (what do I tell?). The same three matrices serve all tokens.
#
# On paper again, with matrices that say something. A token with a first number asks for
# others' second number; one with a second number asks for those who lack the first.
# Keys are the tokens as they are, and values enlarge the second number:
#
# $$
# \mathbf{U}_q = \begin{pmatrix} 0 & 2 \\ -2 & 0 \end{pmatrix}, \qquad
# \mathbf{U}_k = \begin{pmatrix} 1 & 0 \\ 0 & 1 \end{pmatrix}, \qquad
# \mathbf{U}_v = \begin{pmatrix} 1 & 0 \\ 0 & 10 \end{pmatrix}
# $$
#
# Token 3, for example: its query is $(1, 1)\,\mathbf{U}_q = (-2, 2)$. Its scores are
# $-2, 2, 0$, divided by $\sqrt 2$: $-1.41, 1.41, 0$. Exponentials: $0.24$, $4.11$, $1$,
# in sum $5.36$. Weights: $0.05, 0.77, 0.19$. Side by side, the three matrices are one,
# $\mathbf{U}_{qkv}$, of 2 rows and 6 columns, and one product makes all nine vectors.

# %%
U_q = torch.tensor([[0.0, 2], [-2, 0]])
U_k = torch.eye(2)
U_v = torch.tensor([[1.0, 0], [0, 10]])
U_qkv = torch.cat([U_q, U_k, U_v], dim=1)  # (d, 3 * hd) = (2, 6)

q, k, v = (x @ U_qkv).chunk(3, dim=1)  # (t, hd) each
weights = (q @ k.T / math.sqrt(2)).softmax(dim=1)
figures.show(*drawings.flow(x, q, k, v, weights, weights @ v))

# %% [markdown]
# Token 1's score for token 2 is now 2, and token 2's for token 1 is −2; both were 0
# before. Asking has a direction. And what a token hands on, the 10, is not what it is
# found by, the 1.
#
# ## The equations
#
# Now there is something to name. $\mathbf{z}$ is the matrix of all $N$ tokens of one
# picture, a token a row, each of $D$ numbers. (In the network a class token comes to
# the $N$ patches, so there are $N + 1$ rows. The paper writes $N$ in its appendix A,
# and so do we here.)
#
# $$[\mathbf{q}, \mathbf{k}, \mathbf{v}] = \mathbf{z}\, \mathbf{U}_{qkv} \tag{5}$$
#
# $$A = \text{softmax}\left(\mathbf{q}\mathbf{k}^\top / \sqrt{D_h}\right) \tag{6}$$
#
# $$\text{SA}(\mathbf{z}) = A \mathbf{v} \tag{7}$$
#
# | symbol | in the code | shape, one head | what it is |
# |---|---|---|---|
# | $\mathbf{z}$ | `x` | (t, d) | tokens, one a row |
# | $\mathbf{U}_{qkv} \in \mathbb{R}^{D \times 3D_h}$ | `qkv.weight`, transposed | (d, 3·hd) | the learned matrices, side by side |
# | $\mathbf{q}, \mathbf{k}, \mathbf{v}$ | `q`, `k`, `v` | (t, hd) each | queries, keys, values |
# | $D_h$ | `head_dim`, axis `hd` | a number | width of a query |
# | $\mathbf{q}\mathbf{k}^\top / \sqrt{D_h}$ | `scores` | (t, t) | row $i$: how well token $i$'s query matches each key |
# | $A \in \mathbb{R}^{N \times N}$ | `weights` | (t, t) | the softmax of each row; rows sum to 1 |
# | $\text{SA}(\mathbf{z})$ | `weights @ v` | (t, hd) | self-attention: each row a mean of values |
#
# "Self" says that queries, keys and values come from the same tokens. In the package
# the function works on all pictures of a batch and on several attentions side by side,
# the *heads* that we come to below: two more axes in front. `bias` is `None` for now:
# numbers added to the scores, with which a later chapter tells where a token is.

# %%
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn


# %% tags=["teaches"]
def attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Equations (6), (7): q, k, v (b, heads, t, hd) -> values and weights."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # (b, heads, t, t)
    if bias is not None:
        scores = scores + bias
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


# %% [markdown]
# `.mT` transposes the last two axes, so `q @ k.mT` is $\mathbf{q}\mathbf{k}^\top$ for
# each picture and head. The definition must give what paper gave.

# %% tags=["nbval-check-output"]
found, weights = attention(*(role[None, None] for role in (q, k, v)))
paper = [[0.11, 0.45, 0.45], [0.16, 0.67, 0.16], [0.05, 0.77, 0.19]]
assert found.shape == (1, 1, 3, 2) and weights.shape == (1, 1, 3, 3)
assert (weights[0, 0] - torch.tensor(paper)).abs().max() < 0.005
assert (weights.sum(dim=-1) - 1).abs().max() < 1e-12
print("rows sum to 1, and the weights are those on paper")

# %% [markdown]
# ## Why the root
#
# Why the $\sqrt{D_h}$ in equation (6)? **Guess first:** take two vectors of 64 random
# numbers each, drawn from the normal distribution with variance 1. Their product is a
# sum of 64 terms of random sign. How large is it typically: 1, 8, or 64?
#
# We draw 4,000 pairs at each of six widths and measure the variance of the product.
# What does it do to a softmax? Over two scores the weights are $w$ and $1 - w$, and if
# one score grows a little, $w$ grows $w (1 - w)$ times as much. Learning depends on
# this slope. How much of it is left for one query and two keys of 64 random numbers, in
# the median, with and without the root?

# %%
generator = torch.Generator().manual_seed(0)
variances = {}
for width in (1, 4, 16, 64, 256, 1024):
    q, k = torch.randn(2, 4000, width, generator=generator)
    variances[width] = (q * k).sum(dim=-1).var().item()

q = torch.randn(4000, 1, 64, generator=generator)
k = torch.randn(4000, 2, 64, generator=generator)
scores = (q * k).sum(dim=-1)  # (4000, 2)
gap = (scores[:, 0] - scores[:, 1]).abs().median().item()

marks = {"divided by √64": gap / 8, "not divided": gap}
figures.show(*drawings.saturation(variances, marks))

# %% [markdown]
# The variance equals the width. Each term $q_i k_i$ has mean 0 and variance 1, there
# are $D_h$ of them, they are independent, so their variances add up. The typical size
# of the product is the root of that: 8 for 64 numbers. Divided by $\sqrt{D_h}$ the
# variance is 1 at every width.
#
# Below is what happens otherwise. The larger of two scores takes all, the softmax is
# *saturated*, and the slope falls from 0.2 to 0.00045. Queries and keys hardly learn:
# they start on the flat step of our dictionary. {cite:t}`vaswani2017` suspected this
# and put the root there.
#
# ```{note}
# Attention divides by $\sqrt{D_h}$ so that how picky a query is does not depend on how
# many numbers it is made of.
# ```
#
# The argument is about the beginning, when the learned numbers are random. Later a
# network may make its queries as long as it likes.
#
# There are two widths in the layer, and it is easy to take the wrong one. ViT-B has
# tokens of $D = 768$ numbers, but queries of $D_h = 64$. To compare, we count at how
# many tokens a query looks: the exponential of the entropy of its weights, which is $m$
# if $m$ tokens get equal weights and the others none.

# %% tags=["failure"]
q = torch.randn(200, 1, 64, generator=generator)
k = torch.randn(200, 196, 64, generator=generator)
for name, divisor in {"1": 1, "√D_h": 64**0.5, "√D": 768**0.5}.items():
    w = (q @ k.mT / divisor).softmax(dim=-1)
    assert (w.sum(dim=-1) - 1).abs().max() < 1e-12
    looked_at = (-w * w.log()).sum(dim=-1).exp().mean()
    print(
        f"divided by {name:5} a query looks at {looked_at:3.0f} of 196 tokens"
    )

# %% [markdown]
# With $\sqrt D$ every token hears nearly the mean of all: the first of the three bad
# ways from above. Nothing complains, all shapes are right, all rows sum to 1. A network
# trained like this can mend it by learning a $\mathbf{U}_q$ that is $\sqrt{12}$ times
# larger. One that was trained with $\sqrt{D_h}$ and is loaded into such code cannot: it
# computes another function than the one that was trained.
#
# ## The portrait looks at itself
#
# Back to the picture, with a layer in which nothing is learned: query, key and value of
# a token are its patch, 768 numbers as they are. $\mathbf{U}_q$, $\mathbf{U}_k$ and
# $\mathbf{U}_v$ are the identity.
#
# **Guess first:** the dark square from the jacket looks around. Which patches get the
# largest weights: other dark ones, itself, or bright ones?

# %%
asking = {"Jacket": (12, 1), "Face": (7, 7), "Sky": (2, 11)}  # row, column


def maps_of(weights):
    """The rows of weights (n, n) that belong to `asking`, as grids."""
    return {
        name: (weights[14 * r + c].view(14, 14), (r, c))
        for name, (r, c) in asking.items()
    }


one_head = flat[:, None]  # (b, heads, t, hd) = (1, 1, 196, 768)
_, raw = attention(one_head, one_head, one_head)
figures.show(*looks(picture, maps_of(raw[0, 0])))

# %% [markdown]
# Bright ones, and whoever asks, most of all the same patch of forehead. Pixels run from
# 0 to 1, none is negative. So a product is large where the key is large, and a bright
# patch is a large key: the score measures how much light there is, not likeness. Face
# and sky say it loudly. The jacket, being dark, has a short query and hardly chooses.
#
# Take the mean patch of the picture away from queries and keys. Then dark is negative,
# and dark times dark is positive. A layer can nearly do that: in
# $\mathbf{q} = \mathbf{x}\,\mathbf{I} + \mathbf{b}$ the bias $\mathbf{b}$ is learned
# and the same for all pictures, while the mean is this picture's own. To take 0.5 from
# every number is such a bias. We try both.

# %%
centred = one_head - one_head.mean(dim=2, keepdim=True)
_, alike = attention(centred, centred, one_head)
_, half = attention(one_head - 0.5, one_head - 0.5, one_head)
seen = "The jacket looks at jacket and cap, the sky at the sky."
figures.show(*looks(picture, maps_of(alike[0, 0]), seen))

dark = flat[0].mean(dim=-1) < 0.16  # (n,), among them cap and jacket
print(f"jacket's weight on the {dark.sum()} dark patches", end=" ")
print(f"(equal shares: {dark.double().mean():.0%})")
for name, w in {"as it is": raw, "mean": alike, "0.5": half}.items():
    most = w[0, 0].argmax(dim=-1) == torch.arange(196)
    taken = name if name == "as it is" else f"{name} taken away"
    share = w[0, 0, jacket, dark].sum()
    print(f"{taken:15} {share:.0%}; {most.sum():2} look most at themselves")

# %% [markdown]
# It is half a remedy. Large keys still win: the face gives most to the brightest patch
# of the picture, and only 94 of 196 patches look most at themselves. The other half is
# the last exercise.
#
# Nobody told the layer what a face is, and nothing in it was learned. Patches of a face
# are alike in colour, and that is enough: a map that shows a face is no proof that
# anything was learned.
#
# ## A likeness that is learned
#
# A network does not begin with the identity but with random matrices. Let them make 64
# numbers out of 768. How much do the scores between all pairs of patches resemble those
# of the last map, on a scale where 1 is "alike", 0 "unrelated" and −1 "the opposite"?
# We draw the matrices 100 times.

# %%
patches = centred[0, 0]  # (n, 768)
identity = (patches @ patches.T).flatten()
found = {"U_q for both": [], "U_q and U_k": []}
for seed in range(100):
    generator = torch.Generator().manual_seed(seed)
    U_q, U_k = torch.randn(2, 768, 64, generator=generator)
    q, k = patches @ U_q, patches @ U_k
    for name, scores in zip(found, (q @ q.T, q @ k.T), strict=True):
        pair = torch.stack([identity, scores.flatten()])
        found[name].append(torch.corrcoef(pair)[0, 1])
for name, likeness in found.items():
    likeness = torch.stack(likeness)
    low, high = likeness.aminmax()
    print(f"{name}: mean {likeness.mean():.2f}, {low:.2f} to {high:.2f}")

# %% [markdown]
# One random matrix in both roles keeps the scores nearly as they were: 64 questions
# suffice to tell which patches are alike. With two different ones, like patches may
# attract each other or repel each other. In
#
# $$
# \mathbf{q}\mathbf{k}^\top
# = \mathbf{z}\, \mathbf{U}_q \mathbf{U}_k^\top \mathbf{z}^\top
# $$
#
# we see why: only the product $\mathbf{U}_q \mathbf{U}_k^\top$ counts for the scores.
# For the identity, and nearly so for one random matrix with itself, it says "equal
# numbers match". It may say anything else, and it is what the network learns. Training
# starts from an opinion drawn by lot.
#
# Can it learn a likeness that pixels do not show? A game with the handwritten digits of
# {ref}`ch-images`: ten cards on the table, one picture of each digit, every time by
# other hands. We hold an eleventh picture and ask which card shows the same digit. The
# cards are keys; the value of a card is its number. (196 is here the number of pixels
# of a digit of 14×14, not of patches.)

# %%
from vitedu.data import load_dataset


def by_class(split):
    """Images by label: (10, m, 196), halved in size, 0 in the mean."""
    small = F.avg_pool2d(split.images.double() / 255, 2).flatten(1)
    small = small - small.mean(dim=0)
    return torch.stack([small[split.labels == c] for c in range(10)])


def deal(pictures, count, generator):
    """Queries (b, 1, 196), ten cards (b, 10, 196), which one is right (b,)."""
    half = pictures.shape[1] // 2  # cards from one half, queries from the other
    pick = torch.randint(half, (count, 11), generator=generator)
    right = torch.randint(10, (count,), generator=generator)
    cards = pictures[torch.arange(10), pick[:, :10]]
    return pictures[right, half + pick[:, 10]][:, None], cards, right


# %% [markdown]
# The same `attention` does it; only the queries now come from elsewhere than keys and
# values. If the value of card $c$ is the vector that is 1 at place $c$ and 0 elsewhere,
# then what comes back is the list of weights, ten probabilities. So the loss is the
# usual one, minus the logarithm of the right card's weight. We train $\mathbf{U}_q$ and
# $\mathbf{U}_k$, from 196 to 32 numbers, for 300 steps of 128 deals; it takes a few
# seconds. The digits of the test are others.
#
# **Guess first:** in how many of 100 deals has the right card the largest weight, with
# random matrices, with the pixels as they are, and with the learned matrices?


# %%
def answer(queries, cards, U_q, U_k):
    """Probabilities of the ten cards: (b, 10)."""
    q, k = (queries @ U_q)[:, None], (cards @ U_k)[:, None]
    v = torch.eye(10).expand(len(cards), 1, 10, 10)
    values, _ = attention(q, k, v)  # (b, 1, 1, 10)
    return values[:, 0, 0]


def hits(U_q, U_k):
    """Share of 2000 deals with unseen digits in which the right card wins."""
    queries, cards, right = deal(test, 2000, torch.Generator().manual_seed(1))
    chosen = answer(queries, cards, U_q, U_k).argmax(dim=-1)
    return (chosen == right).double().mean().item()


digits = load_dataset("digits")
train, test = by_class(digits.train), by_class(digits.test)

# %% tags=["nbval-ignore-output"]
generator = torch.Generator().manual_seed(0)
U_q, U_k = torch.randn(2, 196, 32, generator=generator) / 14
start = hits(U_q, U_k)

learned = [U_q.requires_grad_(), U_k.requires_grad_()]
optimizer = torch.optim.Adam(learned, lr=0.01)
for _ in range(300):
    queries, cards, right = deal(train, 128, generator)
    loss = F.nll_loss(answer(queries, cards, U_q, U_k).log(), right)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

U_q, U_k = U_q.detach(), U_k.detach()
pixels, trained = hits(torch.eye(196), torch.eye(196)), hits(U_q, U_k)
print("right card, of unseen digits; by chance it would be 10%")
print(f"random {start:.0%}, pixels {pixels:.0%}, learned {trained:.0%}")

# %% tags=["nbval-check-output"]
assert abs(start - 0.1) < 0.08 and 0.35 < pixels < 0.6
assert trained > pixels + 0.08
print("random matrices guess, pixels do better, learned matrices best")

# %% tags=["nbval-ignore-output"]
queries, cards, right = deal(test, 40, torch.Generator().manual_seed(9))
eye = torch.eye(196)
rows = {
    "pixels": answer(queries, cards, eye, eye),
    "learned": answer(queries, cards, U_q, U_k),
}
fails = {name: w.argmax(dim=-1) != right for name, w in rows.items()}
first = {
    "learned right, pixels wrong": fails["pixels"] & ~fails["learned"],
    "learned wrong": fails["learned"],
}
deals = {}
for title, found in first.items():
    i = int(found.nonzero()[0])
    shown = queries[i].view(14, 14), cards[i].view(10, 14, 14)
    weights = {name: w[i] for name, w in rows.items()}
    deals[title] = (*shown, weights, int(right[i]))
figures.show(*dealt(deals))

# %% [markdown]
# The right card has the coloured ground. (The weights of the pixels are nearly equal,
# as their scores are small; here only the largest counts.) The layer has no output for
# a digit: labels served to deal the cards and to say which is right. What was learned
# is a comparison, one product of two small matrices, that often holds for hands it
# never saw. In a Vision Transformer no layer is told which card is right: the loss
# stands at the end of the network, and queries and keys learn from it through the slope
# of the softmax alone.
#
# ## Two questions at once
#
# A softmax has weight 1 to give away. A token that wants to hear two others gives each
# a half, and there it loses something. Say that token 1 wants to know the brightness of
# token 2 and that of token 3. All tokens share one $\mathbf{U}_v$, so both tell it in
# the same place of their value. If they say 3 and 7, then token 1 hears
# $\tfrac12 \cdot 3 + \tfrac12 \cdot 7 = 5$; if they say 4 and 6, it hears 5. With two
# attentions side by side, each with its own weights, it hears both.

# %% tags=["nbval-check-output"]
one = torch.tensor([[0, 0.5, 0.5]])  # (heads, t): what token 1 gives to whom
two = torch.tensor([[0.0, 1, 0], [0, 0, 1]])
said = torch.tensor([[0.0, 3, 7], [0, 4, 6]]).T  # (t, cases)
assert (one @ said).tolist() == [[5, 5]]
assert (two @ said).T.tolist() == [[3, 7], [4, 6]]
print("one head hears 5 and 5; two heads hear 3, 7 and 4, 6")

# %% [markdown]
# Such an attention is called a {term}`head`. We give the portrait three. The 768
# numbers of a patch, sorted by colour, are the queries, keys and values of a red, a
# green and a blue head, 256 numbers each. One patch of sky asks.

# %%
colours = rearrange(centred, "b 1 n (p q c) -> b c n (p q)", p=16, q=16)
_, weights = attention(colours, colours, colours)  # (1, 3, n, n)
row, column = asking["Sky"]
views = {
    name: (grid.view(14, 14), (row, column))
    for name, grid in zip(
        ("Red", "Green", "Blue"), weights[0, :, 14 * row + column], strict=True
    )
}
seen = "Blue looks at the sky; red and green hardly choose."
figures.show(*looks(picture, views, seen))
for name, (grid, _) in views.items():
    print(f"{name:5} {grid.flatten()[dark].sum():4.1%} on the dark patches")


# %% [markdown]
# For the blue head the sky is bright, and it looks at the sky. For the red head the sky
# is dark, and it leans slightly to the dark patches, whose equal share would be 30%.
# One token asks three questions and keeps three answers apart; one head over all 768
# numbers would add up the scores and be left with one answer. In a trained network
# nobody gives heads such tidy tasks; whether they find any is for {ref}`ch-mnist` to
# show.
#
# The paper runs $k$ heads (a plain $k$; the bold $\mathbf{k}$ is a key), each with its
# own $\mathbf{U}_{qkv}$, writes what they return side by side, and mixes that with a
# last learned matrix:
#
# $$
# \text{MSA}(\mathbf{z}) = [\text{SA}_1(\mathbf{z}); \dots; \text{SA}_k(\mathbf{z})]
# \, \mathbf{U}_{msa} \tag{8}
# $$
#
# | symbol | in the code | shape | what it is |
# |---|---|---|---|
# | $k$ | `num_heads`, axis `heads` | a number | attentions side by side |
# | $\text{SA}_i$ | `values[:, i]` | (b, t, hd) | what head $i$ returns |
# | $[\dots; \dots]$ | `(heads hd)` | (b, t, k·hd) | written one after the other |
# | $\mathbf{U}_{msa} \in \mathbb{R}^{k D_h \times D}$ | `proj.weight`, transposed | (k·hd, d) | mixes what the heads say |
#
# First head by head, one picture at a time, exactly as the paper writes it. With one
# head, and the identity as $\mathbf{U}_{msa}$, it must be our example on paper.


# %% tags=["nbval-check-output"]
def by_the_paper(z, U_qkv, U_msa):
    """(t, d) -> (t, d); U_qkv is (heads, d, 3 * hd), U_msa (heads * hd, d)."""
    said = []
    for U in U_qkv:  # head after head
        q, k, v = (z @ U).chunk(3, dim=1)  # equation (5)
        A = (q @ k.T / math.sqrt(q.shape[1])).softmax(dim=1)  # (6)
        said.append(A @ v)  # (7)
    return torch.cat(said, dim=1) @ U_msa  # (8)


one_alone = by_the_paper(x, U_qkv[None], torch.eye(2))
on_paper = torch.tensor([[0.55, 8.92], [0.33, 8.36], [0.23, 9.55]])
assert (one_alone - on_paper).abs().max() < 0.006
print("equations (5) to (8), one head: what paper gave")

# %% [markdown]
# More heads would cost more, so each is made narrower: $D_h = D / k$. Then $k$ heads
# have as many learned numbers and take as many multiplications as one of width $D$. In
# the paper's Table 1, ViT-B has $k = 12$ and $D = 768$, ViT-L 16 and 1024, both with
# $D_h = 64$; ViT-H has 16 and 1280, hence 80.
#
# The $k$ matrices $\mathbf{U}_{qkv}$, put side by side, are one matrix of $D$ rows and
# $3D$ columns. So one product makes the queries, keys and values of all heads, and what
# remains is to find them among the $3D$ numbers of a token. An einops pattern says
# where they stand, from the slowest to the fastest: which of the *three* (q, k or v),
# which *head*, which number in it, so `(three heads hd)`. On the way back `(heads hd)`
# joins the heads, as equation (8) writes them.

# %%
made = torch.zeros(1, 197, 3 * 768)  # what one product makes, in ViT-B
parts = rearrange(
    made, "b t (three heads hd) -> three b heads t hd", three=3, heads=12
)
print(tuple(made.shape), "->", tuple(parts.shape), "= q, k and v")
figures.show(*drawings.split())


# %% [markdown]
# Another order could be trained all the same, but learned numbers from elsewhere would
# be read as noise. Ours is the order of timm, a library of image models whose learned
# numbers later chapters load.
#
# Now all heads in one product. `position_bias` and `maps` are for later; read past
# them. With both `None`, `forward` is four steps: split, attend, join, mix. To attend
# it calls PyTorch's own version of equations (6) and (7). `dropout` does nothing unless
# asked for.


# %% tags=["teaches"]
class MultiHeadAttention(nn.Module):
    """Equations (5) to (8), all heads at once: (b, t, d) -> (b, t, d)."""

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(
                f"embed_dim={embed_dim} does not divide into {num_heads} heads"
            )
        self.num_heads = num_heads
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)  # U_qkv of equation (5)
        self.proj = nn.Linear(embed_dim, embed_dim)  # U_msa of equation (8)
        self.dropout = nn.Dropout(dropout)
        self.position_bias: nn.Module | None = None
        self.maps: list[Tensor] | None = None  # see record_attention

    def forward(self, x: Tensor) -> Tensor:
        """(b, t, d) -> (b, t, d)."""
        q, k, v = rearrange(
            self.qkv(x),
            "b t (three heads hd) -> three b heads t hd",
            three=3,
            heads=self.num_heads,
        )
        bias = None if self.position_bias is None else self.position_bias(q)
        if self.maps is None:
            values = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        else:
            values, weights = attention(q, k, v, bias)
            self.maps.append(weights.detach())
        return self.dropout(
            self.proj(rearrange(values, "b heads t hd -> b t (heads hd)"))
        )


# %% [markdown]
# To be sure of the pattern we take the paper's matrices out of the layer, one
# $\mathbf{U}_{qkv}$ a head, and compare. The paper has no biases, so we set ours to 0.

# %% tags=["nbval-check-output"]
layer, z = MultiHeadAttention(48, 4), torch.randn(5, 7, 48)
for part in (layer.qkv, layer.proj):
    nn.init.zeros_(part.bias)
pattern = "(three heads hd) d -> heads d (three hd)"
U_qkv = rearrange(layer.qkv.weight, pattern, three=3, heads=4)
U_msa = layer.proj.weight.T

alone = torch.stack([by_the_paper(one, U_qkv, U_msa) for one in z])
# float64, sums of at most 48 terms in another order
assert torch.allclose(layer(z), alone, rtol=0, atol=1e-12)
print("all heads in one product: equal to the paper's equations")

# %% [markdown]
# ## Order does not exist
#
# We have not told the layer where a patch lies. Does it know? We shuffle the 196
# tokens, let them attend, and put the outputs back in order.

# %%
order = torch.randperm(196, generator=torch.Generator().manual_seed(0))
shuffled, _ = attention(
    centred[:, :, order], centred[:, :, order], one_head[:, :, order]
)
sorted_back = shuffled[:, :, order.argsort()]

parts = {
    "shuffled": one_head[:, :, order],
    "its output": shuffled,
    "put in order": sorted_back,
}
panels = {
    name: unpatchify(tokens[0], 16, (14, 14))[0]
    for name, tokens in parts.items()
}
seen = (
    "The last is the portrait in dull brown and blue, each patch in its place."
)
figures.show(*pictures(panels, seen))

# %% [markdown]
# (It is dull, since every patch is replaced by a mean of those it looks at.) Without
# shuffling we get the same picture up to rounding: shuffled tokens give the same
# outputs, shuffled. This is called {term}`permutation equivariance`, and the equations
# say it too. Let $\boldsymbol\Pi$ be the matrix that shuffles rows. Queries, keys and
# values are made row by row, so they become $\boldsymbol\Pi\mathbf{q}$,
# $\boldsymbol\Pi\mathbf{k}$, $\boldsymbol\Pi\mathbf{v}$, and the scores
# $\boldsymbol\Pi \mathbf{q}\mathbf{k}^\top \boldsymbol\Pi^\top$: rows and columns
# shuffled alike. Softmax works on each row and does not care for its order, so the
# weights are $\boldsymbol\Pi A \boldsymbol\Pi^\top$. Times $\boldsymbol\Pi\mathbf{v}$
# that is $\boldsymbol\Pi A \mathbf{v}$, since $\boldsymbol\Pi^\top \boldsymbol\Pi$ is
# the identity. It holds whatever the layer has learned.

# %% tags=["nbval-check-output"]
straight, _ = attention(centred, centred, one_head)
assert torch.allclose(sorted_back, straight, rtol=0, atol=1e-12)

layer, z = MultiHeadAttention(48, 4), torch.randn(5, 7, 48)
order = torch.randperm(7)
assert torch.allclose(
    layer(z[:, order]), layer(z)[:, order], rtol=0, atol=1e-12
)
print("shuffled tokens in, the same outputs shuffled out")

# %% [markdown]
# Now cap and jacket can be judged. They were to ask their surroundings which of them is
# which. If two tokens are equal, so are their queries, their weights and what they
# hear. "Who is *above* me?" is a question that no query can put, because no key says
# where it is from.
#
# We make them equal, and see; then we add to each token a vector that depends on its
# place alone. (The layer and the vectors are random.)

# %% tags=["nbval-check-output"]
tokens = centred[:, 0].clone()  # (b, t, d)
tokens[:, cap] = tokens[:, jacket]
layer = MultiHeadAttention(768, 12)
places = 0.1 * torch.randn(196, 768)

without, given = layer(tokens)[0], layer(tokens + places)[0]
assert torch.allclose(without[cap], without[jacket], rtol=0, atol=1e-12)
assert (given[cap] - given[jacket]).abs().max() > 1e-3
print("equal tokens hear the same; with places added they do not")

# %% [markdown]
# Whom should a token ask? Whoever has a key that matches its query: that answers half
# of our question. The other half, where a token is, must be put into it before it
# enters. Such vectors, learned and one for each place, are the position embeddings of
# {ref}`ch-vit`.
#
# ## The wrong axis
#
# PyTorch has a layer of its own for equations (5) to (8), `nn.MultiheadAttention`. We
# give it four handwritten digits, each as 16 tokens of 7×7 pixels.

# %% tags=["failure"]
_ = torch.manual_seed(0)
four = digits.test.images[:4].double() / 255  # (b, c, h, w)
z = patchify(four, 7)  # (b, t, d) = (4, 16, 49)

theirs = nn.MultiheadAttention(49, 7)
said, weights = theirs(z, z, z)
print("shapes:", tuple(z.shape), "->", tuple(said.shape))
print("of the weights:", tuple(weights.shape))

changed = z.clone()
changed[1] = 1 - changed[1]  # the second picture in negative
moved = (theirs(changed, changed, changed)[0] - said).abs().amax(dim=(1, 2))
print("the outputs move by", [round(most.item(), 2) for most in moved])

# %% [markdown]
# The shape of the output is right and nothing complains. But we changed the second
# picture, and the answers to the other three moved. The layer's default layout is (t,
# b, d), tokens first: it took our batch for the sentence and our tokens for the batch.
# Each patch attends to the patches in its place in all four *pictures*, and to no other
# patch of its own. The shape of the weights gives it away: 4×4, one row for each
# picture, where 16×16 was due.
#
# Which test would have found that? One comes to mind at once: reorder the pictures, and
# the answers must be reordered and otherwise the same. We ask the broken layer, and a
# second one that was told `batch_first=True`.

# %% tags=["failure"]
told = nn.MultiheadAttention(49, 7, batch_first=True)
order = [2, 0, 3, 1]
for name, layer in {"default": theirs, "batch_first": told}.items():
    first, then = layer(z, z, z)[0], layer(z[order], z[order], z[order])[0]
    passed = torch.allclose(first[order], then, rtol=0, atol=1e-12)
    print(f"{name:12} passes the test: {passed}")


# %% [markdown]
# Both pass. We have just proved why: attention treats what it attends over as a set,
# here the batch. This test cannot find the mistake.
#
# What the wrong layer cannot pass is a picture whose company has changed. We change one
# picture at a time, then one token at a time, and note whose outputs move.


# %%
def hears(layer, z, axis):
    """Whose output changes with whose input along `axis`: booleans (m, m)."""
    before, heard = layer(z), []
    for place in range(z.shape[axis]):
        changed = z.clone()
        changed.select(axis, place).add_(1)
        difference = (layer(changed) - before).abs().amax(dim=2)  # (b, t)
        heard.append(difference.amax(dim=1 - axis) > 1e-9)
    return torch.stack(heard, dim=1)


squares = {}
for name, layer in {"default": theirs, "batch_first": told}.items():
    for axis, thing in enumerate(("image", "token")):
        heard = hears(lambda z, layer=layer: layer(z, z, z)[0], z, axis)
        squares[name, thing] = heard
figures.show(*drawings.hears(squares))

# %% [markdown]
# Above, every image hears every image, and a token only itself. Below, as it should be,
# every token hears every token, and an image only itself.

# %% tags=["nbval-check-output"]
ours = MultiHeadAttention(49, 7)
assert torch.equal(hears(ours, z, 0), torch.eye(4).bool())  # images
assert hears(ours, z, 1).all()  # tokens

state = {"in_proj_weight": ours.qkv.weight, "in_proj_bias": ours.qkv.bias}
state |= {f"out_proj.{name}": x for name, x in ours.proj.named_parameters()}
told.load_state_dict(state)
assert torch.allclose(ours(z), told(z, z, z)[0], rtol=0, atol=1e-12)
print("ours keeps pictures apart, and equals PyTorch's with batch_first")

# %% [markdown]
# ```{note}
# Give a layer a picture alone, and the same picture in a batch. If the two answers
# differ, something looks across the batch.
# ```
#
# ## The price
#
# Count the multiplications for one picture of $N$ tokens. $\mathbf{U}_{qkv}$ takes
# $N \cdot D \cdot 3D$ and $\mathbf{U}_{msa}$ takes $N \cdot D \cdot D$, together
# $4ND^2$. The scores take $N \cdot N \cdot D_h$ in each of $k$ heads, so $N^2 D$, and
# the mixing of values as much again: $2N^2D$. The number of heads does not appear, but
# each head has a matrix of weights of its own.
#
# PyTorch can count for us, and here `maps` has its use. Where it is `None`, the class
# calls `F.scaled_dot_product_attention`: equations (6) and (7) in one *fused*
# operation, into which nobody can look. Where it is a list, the class calls our
# `attention` and appends the weights. `record_attention` makes it a list, for the time
# of a `with` block, in every layer that a network calls `attn`.

# %% tags=["nbval-check-output"]
from torch.utils.flop_counter import FlopCounterMode

from vitedu.model import record_attention

N, D = 197, 768  # ViT-B: patches and class token
network = nn.ModuleDict({"attn": MultiHeadAttention(D, 12)})
count = FlopCounterMode(display=False)
with count, record_attention(network) as maps:
    network["attn"](torch.randn(1, N, D))
assert maps[0].shape == (1, 12, N, N)  # one matrix A a head

counted = count.get_total_flops() // 2  # a product and a sum are two
assert counted == 4 * N * D**2 + 2 * N**2 * D == 524_391_936
print("524 million multiply-adds for one picture in one layer, as counted")

# %%
for name, N in {
    "16 px of 224": 197,
    "16 px of 384": 577,
    "16 px of 512": 1025,
    " 1 px of 224": 50_177,
}.items():
    linear, pairs = 4 * N * D**2 / 1e9, 2 * N**2 * D / 1e9
    share = pairs / (linear + pairs)
    print(f"{name}  linear {linear:6.2f} G  pairs {pairs:8.2f} G  {share:4.0%}")


# %% [markdown]
# The pairs are what attention is feared for, as they grow with $N^2$. But the two costs
# are equal only where $2N^2D = 4ND^2$, that is at $N = 2D$, 1,536 tokens for ViT-B. At
# the paper's 197 the linear maps take nearly nine tenths of the layer. The MLP of
# {ref}`ch-encoder` takes another $8ND^2$; with it the pairs are 4% of the network. With
# pixels as tokens they are nearly everything. (G is a billion multiply-adds.)
#
# The fused operation computes the scores piece by piece and never has the whole matrix
# of weights in memory {cite}`dao2022`. How much does each of the two lay aside for the
# backward pass? `saved_tensors_hooks` shows us every tensor that PyTorch keeps for it,
# and `data_ptr`, a tensor's place in memory, saves us from counting one twice.


# %% tags=["nbval-check-output"]
def kept(compute, *roles):
    """Bytes that `compute` keeps for the backward pass."""
    sizes = {}

    def note(tensor):
        sizes[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        compute(*roles)
    return sum(sizes.values())


fused, share = F.scaled_dot_product_attention, {}
for t in (196, 576):  # patches of 16 in 224 and in 384 pixels, in ViT-B
    roles = [torch.randn(1, 12, t, 64).float() for _ in "qkv"]
    q, k, v = (role.requires_grad_() for role in roles)
    # float32: sums of 576 terms, in another order
    same = torch.allclose(attention(q, k, v)[0], fused(q, k, v), atol=1e-5)
    assert same and kept(fused, q, k, v) < kept(attention, q, k, v)
    share[t] = kept(fused, q, k, v) / kept(attention, q, k, v)
found = ", ".join(f"{s:.0%} at {t}" for t, s in share.items())
print("the same values; share of our bytes, by number of tokens:", found)

# %% [markdown]
# Ours keeps the weights besides q, k and v: at 576 tokens $12 \cdot 576^2$ numbers of 4
# bytes, 16 of its 21 million bytes. So the network runs on the fused operation and we
# read ours; a test of the package holds the two equal.
#
# ## Where this stands in the paper
#
# Equations (5) to (8) are appendix A of {cite:t}`dosovitskiy2021`, the numbers of heads
# are in Table 1. MSA is used in equation (2), which {ref}`ch-encoder` writes. About
# attention itself the paper changes nothing: it is the layer of {cite:t}`vaswani2017`.
#
# ```{admonition} Differs from the paper
# Equations (5) and (8) have no biases; the authors' code has them in q, k, v and in the
# last map, and so do we. The authors keep the matrices of q, k and v apart, ours are
# one, in timm's order. Their code computes (6) and (7) as they are written, ours with
# the fused operation; the difference is rounding.
# ```
#
# ## In five lines
#
# * Attention is a dictionary with soft keys: scores, softmax, a mean of values.
# * What is asked, found and told are three linear maps of the token, and are learned.
# * $\sqrt{D_h}$ keeps softmax where it has a slope; $\sqrt D$ makes all weights alike.
# * Heads are several such means side by side, at the multiplications of one.
# * Tokens are a set to it: order must come from elsewhere; the wrong axis is silent.
#
# Can you answer from this page?
#
# 1. Why does a network want a soft dictionary, when a hard one gives sharper answers?
# 2. What would change if one matrix made both queries and keys?
# 3. Where does the $D_h$ in $\sqrt{D_h}$ come from, and why not $D$?
# 4. Two tokens are equal. Why can no attention tell them apart, and what can?
# 5. Why does reordering the batch not reveal attention over the batch?
#
# ## Three readings
#
# {cite:t}`vaswani2017`, section 3.2
# : The layer as it was first written down, for translation. Read the footnote on the
#   variance of products; it is our measurement in two sentences. Heads are motivated
#   there by averaging, as on this page.
#
# {cite:t}`parmar2018`
# : Attention among the pixels of a picture, before ViT. Since pairs are too many, each
#   pixel hears a neighbourhood only. Our table of prices says why; ViT's answer is
#   larger words, not fewer listeners.
#
# {cite:t}`jain2019attention`, with the reply of {cite:t}`wiegreffe2019`
# : Disagrees with how we have used the maps. In recurrent networks that read text, the
#   authors find weights that hardly agree with other measures of what matters, and very
#   different weights that lead to the same prediction; so a map explains nothing. The
#   reply: that depends on what one calls an explanation, and the other weights do worse
#   in a test of their own. The exercise on two maps is about this.
#
# ## Exercises
#
# ```{exercise} ★ A pickier token
# :label: ex-attention-picky
# In the first example on paper, token 3's query is made twice as long. Which of the
# nine weights change, and to what?
# ```
#
# ```{exercise} ★★ Alone
# :label: ex-attention-alone
# The layer with the wrong axis gets a batch of one picture. What does it compute? What
# would you see if it is tested with single pictures after training with 100?
# ```
#
# ```{exercise} ★★ Another order
# :label: ex-attention-order
# Somebody's code reads `(heads three hd)` where ours reads `(three heads hd)`. Can it
# be trained? What happens with learned numbers from elsewhere? How can its own be used
# in our layer?
# ```
#
# ```{exercise} ★★ Without softmax
# :label: ex-attention-linear
# Leave the softmax out of equation (6). In which order would you then multiply
# $\mathbf{q}\mathbf{k}^\top\mathbf{v}$, what does it cost, and what is lost?
# ```
#
# ```{exercise} ★★ Two maps, one answer
# :label: ex-attention-two-maps
# A head of ViT-B gives a token 196 weights and takes a mean of values of 64 numbers.
# How many different sets of weights give the same mean? Make one for the jacket, with
# `patches @ torch.randn(768, 64)` as values, in which as many weights as possible
# vanish. What does that say about maps?
# ```
#
# ```{exercise} ★★★ Attention that cleans
# :label: ex-attention-clean
# Cut the portrait into patches of 8×8, add noise of standard deviation 0.1 to each
# number, take the mean patch away from queries and keys, and let the patches attend to
# each other. A mean of similar patches should have less noise, but the error grows, for
# two reasons. Make the queries $\sqrt{192}$ times as long, which undoes attention's own
# division: it gets no better. Why? Then find a `bias` for `attention` with which the
# error falls below 0.07.
# ```
#
# Tokens now hear each other, and each becomes a mean of what it hears. Do that twice,
# and then twenty-four times: {ref}`ch-encoder` begins with what is left of the
# portrait.
#
# ## Solutions
#
# ```{solution-start} ex-attention-picky
# :class: dropdown
# ```
#
# Only row 3, what token 3 asks. Its scores double, $2, 2, 4$, divided by $\sqrt 2$:
# $1.41, 1.41, 2.83$. Exponentials $4.11, 4.11, 16.92$, in sum $25.15$. Weights
# $0.16, 0.16, 0.67$ in place of $0.25, 0.25, 0.50$.

# %% tags=["exercise-solution"]
longer = torch.tensor([1.0, 1, 2]) * 2 / math.sqrt(2)
print(", ".join(f"{weight:.2f}" for weight in longer.softmax(dim=0)))

# %% [markdown]
# ```{solution-end}
# ```
#
# ```{solution-start} ex-attention-alone
# :class: dropdown
# ```
#
# Each patch attends to the patches in its place in the batch: only itself. A softmax
# over one score is 1, so the output is $\mathbf{z}\,\mathbf{U}_v \mathbf{U}_{msa}$, a
# linear map of each token by itself; queries and keys do nothing. A network trained in
# batches of 100 has learned to work with a mixture of 100 pictures, and gets something
# else now. A test accuracy that changes with the batch size gives this mistake away.
#
# ```{solution-end}
# ```
#
# ```{solution-start} ex-attention-order
# :class: dropdown
# ```
#
# It can be trained: the rows of `qkv.weight` start at random, and it does not matter
# which of them is called a query. Learned numbers from elsewhere have the right shape
# and give noise. One pattern converts them.

# %% tags=["exercise-solution"]
theirs = torch.randn(3 * 48, 48)  # rows in the order (heads three hd)
ours = rearrange(
    theirs, "(heads three hd) d -> (three heads hd) d", heads=4, three=3
)
z = torch.randn(1, 7, 48)
q = rearrange(
    z @ theirs.T, "b t (heads three hd) -> three b heads t hd", heads=4, three=3
)[0]
same = rearrange(
    z @ ours.T, "b t (three heads hd) -> three b heads t hd", heads=4, three=3
)[0]
assert torch.allclose(q, same, rtol=0, atol=1e-12)
print("converted: the same queries")

# %% [markdown]
# ```{solution-end}
# ```
#
# ```{solution-start} ex-attention-linear
# :class: dropdown
# ```
#
# $\mathbf{q}\,(\mathbf{k}^\top \mathbf{v})$: the bracket is $D_h \times D_h$, so a head
# takes $2 N D_h^2$ in place of $2 N^2 D_h$, and no matrix of pairs is ever made. Lost
# is the dictionary: scores may be negative and sum to anything, so the result is no
# mean of values, and no query can be picky: one that is twice as long only makes the
# answer twice as large.
#
# ```{solution-end}
# ```
#
# ```{solution-start} ex-attention-two-maps
# :class: dropdown
# ```
#
# Infinitely many. That the mean stays is 64 equations, that the sum stays 1 is one
# more, for 196 unknowns: 131 directions are free. Go along one of them until the first
# weight reaches 0, leave that patch out, and begin again; it works as long as more than
# 65 are left.

# %% tags=["exercise-solution"]
generator = torch.Generator().manual_seed(0)
v = patches @ torch.randn(768, 64, generator=generator)
w = alike[0, 0, jacket]  # (n,), none of them 0
fixed = torch.cat([v, torch.ones(196, 1)], dim=1)  # (n, 65): must not change

other = w.clone()
while len(live := other.nonzero().flatten()) > 65:
    free = torch.linalg.svd(fixed[live].T).Vh[-1]  # fixed[live].T @ free = 0
    room = torch.where(free < 0, -other[live] / free, math.inf)
    other[live] = (other[live] + room.min() * free).clamp(min=0)
    other[live[room.argmin()]] = 0

assert torch.allclose(other @ fixed, w @ fixed, rtol=0, atol=1e-9)
assert (other - w).abs().sum() / 2 > 0.25
print(f"{int((w > 0).sum())} patches looked at, or {len(live)}: the same mean")

# %% [markdown]
# A map with 131 zeros and one with none, and nothing after this head can tell which of
# them it had. So a map says what was mixed, not that it had to be mixed so.
#
# ```{solution-end}
# ```
#
# ```{solution-start} ex-attention-clean
# :class: dropdown
# ```
#
# With the division every patch hears too many others. Without it a patch chooses
# sharply, and chooses wrong: products favour keys that are large, so a patch of
# middling colour finds a bright patch of similar hue before its own twin. What we mean
# by similar is a small distance, $-\lVert \mathbf{q} - \mathbf{k} \rVert^2
# = 2\,\mathbf{q} \cdot \mathbf{k} - \lVert \mathbf{k} \rVert^2
# - \lVert \mathbf{q} \rVert^2$. The last term is the same for all keys of a query, and
# softmax does not see it. The second is a number a key: that is the bias.

# %% tags=["exercise-solution"]
clean = patchify(picture[None], 8)[:, None]  # (1, 1, 784, 192)
generator = torch.Generator().manual_seed(0)
noisy = clean + 0.1 * torch.randn(clean.shape, generator=generator)
x = noisy - noisy.mean(dim=2, keepdim=True)
root = math.sqrt(x.shape[-1])  # attention's own division
bias = -x.square().sum(dim=-1)[:, :, None] / 2  # (b, heads, 1, t)

guesses = {
    "as it is": attention(x, x, noisy)[0],
    "longer queries": attention(x * root, x, noisy)[0],
    "bias, divided like the products": attention(x, x, noisy, bias / root)[0],
    "longer queries and bias": attention(x * root, x, noisy, bias)[0],
}
for name, guess in {"noise alone": noisy, **guesses}.items():
    print(f"{name:31} {(guess - clean).square().mean().sqrt():.3f}")

# %% [markdown]
# Means of similar patches were a way to remove noise from photographs before anybody
# called them attention {cite}`buades2005`. Keys of equal length would need no bias. A
# Transformer can learn such keys; whether it does is another question.
#
# ```{solution-end}
# ```
