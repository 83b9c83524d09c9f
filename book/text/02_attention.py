# %% [markdown] tags=["links", "remove-cell"]
# [Open in Colab](COLAB) · [this page on the site](SITE) · about an hour · ten seconds of computing on a laptop, no GPU needed

# %% tags=["setup", "remove-cell"]
import vitedu

# %% [markdown]
# # Attention
#
# In [chapter 1](01_images.ipynb) we cut Grace Hopper's portrait into 196 patches. Here are
# two of them, trimmed a little, and made five times brighter. One is a piece of her cap, the
# other a piece of her jacket. Which one is the cap?

# %% tags=["nbval-ignore-output", "hide-input"]
import torch

torch.set_num_threads(1)
torch.set_printoptions(precision=2)
_ = torch.manual_seed(0)
print(f"seed 0, cpu, torch {torch.__version__}")

# %% tags=["hide-input"]
import numpy as np

from vitedu import figures, load, record_attention
from vitedu.data import glyphs, photo
from vitedu.figures.chapters import attention as drawings
from vitedu.figures import photos
from vitedu.plain import patchify

square = photo("hopper").crop((0, 20, 512, 532)).resize((224, 224))
picture = torch.tensor(np.array(square)).permute(2, 0, 1) / 255  # (c, h, w)
tiles = {  # without the bright corner of the first
    "left": picture[:, 36:48, 80:92],
    "right": picture[:, 196:208, 16:28],
}
alt = "Two dark squares of 12 by 12 pixels that hardly differ."
figures.show(
    *photos.pictures({name: 5 * tile for name, tile in tiles.items()}, alt)
)

# %% [markdown]
# If you can't tell, you're in good company. To a network, a patch is just 768 numbers. Which
# other patch of the photograph has the numbers closest to the cap's?

# %%
patches = patchify(picture[None], 16)[0]  # (n, p*p*c) = (196, 768)
cap = 33  # the number of a patch
distance = (patches - patches[cap]).abs().mean(dim=1)  # (n,)
nearest = distance.argsort()[1]  # [0] is the cap's patch itself
print(f"closest to the cap's patch: number {nearest}")
print(f"mean difference {distance[nearest]:.2f}", end=", ")
print(f"to a typical patch {distance.median():.2f}")

# %% tags=["hide-input"]
jacket = int(nearest)
figures.show(*drawings.named(picture, {"cap": (2, 5), "jacket": (12, 1)}, 16))

# %% [markdown]
# The left one is the cap. But of all the patches in the photograph, the one most like it is on
# the jacket.
#
# In the photograph you have no trouble, because you look around. The first square sits under
# gold braid and above a face, the second next to a name tag.
#
# **So how can a patch find out what it shows, when that depends on the other patches?**
#
# You'll write the layer that lets it look around: *attention*, the green box in the
# drawing. (Its *norm* waits for chapter 3.)

# %% tags=["margin", "hide-input"]
figures.show(*figures.network("attention"))

# %% [markdown]
# ## A look-up that always answers
#
# The simplest way to hear from the others is to average them. But if every patch gets the
# average of all, they all get the same. We'd like an average in which every patch decides for
# itself whose numbers count.
#
# For that, a patch has to look things up, as in a Python dictionary. This one says how warm
# each wind is, in °C.

# %%
winds = {"north": 4, "east": 10, "south": 22, "west": 14}
print(winds.get("north"), winds.get("north-north-east"))

# %% [markdown]
# You ask with a *query*, and the dictionary compares it with its *keys*. If one of them is
# equal, you get its *value*, and otherwise nothing. But for north-north-east you'd bet on
# something between 4 and 10, nearer to north's 4.
#
# For an answer in between, turn the keys into arrows. North is $(0, 1)$, east is
# $(1, 0)$, and the query is an arrow too. The dot product of the query with a key is
# called the *score*: large if both point the same way, zero at a right angle, negative
# if they're opposed. A softmax turns the four scores into shares that add up to one; code
# calls them *weights*. The answer is the average of the four values, each multiplied by
# its share.

# %%
import math

keys = torch.tensor([[0.0, 1], [1, 0], [0, -1], [-1, 0]])  # n, e, s, w
values = torch.tensor([4.0, 10, 22, 14])


def ask(query):
    scores = keys @ query  # (4,)
    weights = scores.softmax(dim=0)  # the shares: they sum to 1
    return weights @ values


# %% [markdown] tags=["predict"]
# The query points roughly north-north-east. **What changes if you make the query longer
# without turning it?**
#
# * nothing: it still points the same way
# * north gets more and more of a say
# * the four winds share more evenly

# %%
query = torch.tensor([1.0, 2]) / math.sqrt(5)  # an arrow of length 1
for length in (1, 5, 50):
    print(f"query of length {length:2}: {ask(length * query):5.2f} °C")

# %% tags=["hide-input"]
directions = torch.arange(0, 361, 3.0)  # degrees, from north over east
radians = directions.deg2rad()
around = torch.stack([radians.sin(), radians.cos()], dim=1)
lines = {
    f"length {length}": torch.stack([ask(length * unit) for unit in around])
    for length in (1, 5, 50)
}
entries = {0: 4, 90: 10, 180: 22, 270: 14, 360: 4}
figures.show(*drawings.answers(directions, lines, entries))

# %% [markdown]
# A short query takes a share from every wind, even the south, so its answer is nearer to
# east's 10 than to north's 4. A longer one pulls the scores apart, until only the best key
# counts. The direction of a query says what it's looking for, and its length says how picky
# it is.
#
# In the figure, the query goes once around the compass. At length 50 the curve is four flat
# steps. That's bad news for a network: it learns by turning its queries a little, and on a
# flat step the answer doesn't move.
#
# <div class="try" data-part="compass"></div>
#
# ## Three tokens on paper
#
# Now let tokens look each other up. Take a pencil, and three tokens of two numbers each. For
# now, a token is its own query, key and value:
#
# $$\mathbf{x}_1 = (1, 0), \qquad \mathbf{x}_2 = (0, 1), \qquad \mathbf{x}_3 = (1, 1).$$
#
# What does token 1 get?
#
# * **Scores:** its dot products with the three tokens are $1$, $0$ and $1$.
# * **Divide** by $\sqrt 2$, because the vectors have two numbers (you'll soon see why).
#   That gives $0.71$, $0$, $0.71$.
# * **Softmax:** the exponentials are $2.03$, $1$, $2.03$, and their sum is $5.06$. So
#   the shares are $0.40$, $0.20$, $0.40$.
# * **Mix:** $0.40\,(1, 0) + 0.20\,(0, 1) + 0.40\,(1, 1) = (0.80, 0.60)$.
#
# Two matrix products answer all three queries at once. Your pencil found the first row:

# %%
x = torch.tensor([[1.0, 0], [0, 1], [1, 1]])  # (t, d): one token per row
weights = (x @ x.T / math.sqrt(2)).softmax(dim=1)  # (t, t): rows sum to 1
print(weights @ x)

# %% tags=["hide-input"]
figures.show(*drawings.triangle(x, weights @ x))

# %% [markdown]
# Each output is an average of the tokens, so none can leave the triangle: attention pulls
# a token towards what it looks at.
#
# ### Three roles
#
# One vector isn't enough for all three roles. The dot product of tokens 1 and 3 is the same
# from both sides, so each gives the other the same score. But a dark patch may want to hear
# from the gold braid above it, while the braid has no need of dark cloth. And what you're found
# by needn't be what you hand over: in the dictionary, the key was a wind and the value a
# temperature. That's why every token gets three vectors, made by three matrices that the
# network learns and all tokens share:
#
# * $\mathbf{U}_q$ makes its **query** $\mathbf{q}$: what am I looking for?
# * $\mathbf{U}_k$ makes its **key** $\mathbf{k}$: what can I be found by?
# * $\mathbf{U}_v$ makes its **value** $\mathbf{v}$: what do I hand over?
#
# Let's make some up. This $\mathbf{U}_q$ turns the row $\mathbf{x}_1$ into the query
# $\mathbf{x}_1 \mathbf{U}_q = (0, 2)$, which looks for a large second number:
#
# $$
# \mathbf{U}_q = \begin{pmatrix} 0 & 2 \\ -2 & 0 \end{pmatrix}, \qquad
# \mathbf{U}_k = \begin{pmatrix} 1 & 0 \\ 0 & 1 \end{pmatrix}, \qquad
# \mathbf{U}_v = \begin{pmatrix} 1 & 0 \\ 0 & 10 \end{pmatrix}
# $$
#
# Side by side they form one matrix, $\mathbf{U}_{qkv}$, and one product makes all the vectors:

# %%
U_q = torch.tensor([[0.0, 2], [-2, 0]])
U_k = torch.eye(2)
U_v = torch.tensor([[1.0, 0], [0, 10]])
U_qkv = torch.cat([U_q, U_k, U_v], dim=1)  # (2, 6)

q, k, v = (x @ U_qkv).chunk(3, dim=1)  # (t, 2) each
weights = (q @ k.T / math.sqrt(2)).softmax(dim=1)
print("shares", weights, "outputs", weights @ v, sep="\n")

# %% [markdown]
# Now token 1 takes 45% of its output from token 3, but token 3 takes 5% from token 1.
# And because values are no longer the tokens themselves, the outputs have left the triangle.
#
# ## The equations
#
# The ViT paper ([Dosovitskiy et al. 2021](https://arxiv.org/abs/2010.11929)) writes what
# you've just done as three equations:
#
# $$[\mathbf{q}, \mathbf{k}, \mathbf{v}] = \mathbf{z}\, \mathbf{U}_{qkv} \tag{5}$$
#
# $$A = \text{softmax}\left(\mathbf{q}\mathbf{k}^\top / \sqrt{D_h}\right) \tag{6}$$
#
# $$\text{SA}(\mathbf{z}) = A \mathbf{v} \tag{7}$$
#
# The rows of $\mathbf{z}$ are the tokens, $t$ of them with $D$ numbers each, and a query has
# $D_h$ numbers. Each row of the *attention map* $A$ holds one query's shares. SA is
# *self-attention*: "self" because queries, keys and values come from the same tokens. (In
# code, `hd` is $D_h$, and `.mT` swaps the last two axes.)

# %% tags=["hide-input"]
import torch.nn.functional as F
from einops import rearrange
from torch import nn


# %% tags=["teaches"]
def attention(q, k, v):
    """Equations (6) and (7), for q, k, v (..., t, hd): values and weights."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # (..., t, t)
    weights = scores.softmax(dim=-1)  # each row sums to 1
    return weights @ v, weights


# %% tags=["nbval-check-output", "hide-cell"]
found, weights = attention(q, k, v)
printed = torch.tensor(  # by the cell before the equations
    [[0.11, 0.45, 0.45], [0.16, 0.67, 0.16], [0.05, 0.77, 0.19]]
)
assert found.shape == (3, 2)
assert (weights - printed).abs().max() < 0.006
assert (weights.sum(dim=-1) - 1).abs().max() < 1e-6
print("attention(q, k, v) gives the shares that you saw above")

# %% [markdown] tags=["predict"]
# ## Why divide?
#
# Take a query and two keys of 64 random numbers each, from a standard normal distribution,
# and don't divide. Nothing has been learned, so neither key deserves to win. **In how many of a hundred tries will one of them get more than 99% anyway?**

# %%
generator = torch.Generator().manual_seed(0)
for width in (4, 64, 1024):
    query = torch.randn(4000, 1, width, generator=generator)
    keys = torch.randn(4000, 2, width, generator=generator)
    scores = (query @ keys.mT)[:, 0]  # (4000, 2): two keys, 4,000 times
    won = scores.softmax(dim=1).amax(dim=1) > 0.99
    print(f"width {width:4}: typical score {scores.std():2.0f}", end=", ")
    print(f"one key gets it all: {won.float().mean():.0%}")

# %% [markdown]
# In 68, about two out of three. A score is a sum of 64 independent products, each with a
# variance of one. The variances add up to 64, and a typical score is the root of that: eight.
# Divide by $\sqrt{D_h}$, and it's one at any width.
#
# What's wrong with a clear winner? Say one key scores zero, and the other has a typical
# score: eight, or one after dividing. Here's the share of the better key:

# %% tags=["hide-input"]
figures.show(*drawings.steepness({"divided by 8": 1, "not divided": 8}))

# %% [markdown]
# If you don't divide, you're back on a flat step. If you divide, you're on the slope, where
# training can tell a better query from a worse one.
#
# ## Can a network learn what to look for?
#
# We made up $\mathbf{U}_q$ and $\mathbf{U}_k$. Can a network find its own? Here's a puzzle:

# %% tags=["hide-input"]
puzzles = glyphs.twins(5_000)
unseen = glyphs.twins(500, seed=1)
FRAMED = 5  # a patch
twin = int(unseen.twins[0, FRAMED])
figures.show(*drawings.puzzle(unseen.images[0] / 255, FRAMED, twin))


# %% [markdown] tags=["predict"]
# Among these sixteen patches, every glyph is there twice, in two colours, and every patch
# is asked: *what colour is your twin?* To answer, it has to find the other patch with its
# glyph (dashed, for the framed T). For once you know what the attention map $A$ should be:
# in each row, 1 at the twin and 0 elsewhere.
#
# Nobody tells the network that. It's one attention layer, whose three matrices start out
# random. It gets 5,000 such puzzles, and it's told which colours were right. A value has six
# numbers, one per colour, and the largest number in a patch's average is its answer.
#
# But there's a trap: the patch most like the framed one is the framed one itself. **How
# can a patch avoid finding itself?**
#
# * by its glyph
# * by its colour
# * it can't: nothing is more like it


# %%
def look(x, U_q, U_k, U_v):
    """Patches (b, 16, 192) -> scores of six colours, and the map."""
    return attention(x @ U_q, x @ U_k, x @ U_v)


# %% [markdown]
# The folded code trains it. Below, triangles mark the row of the framed T and the column of
# its twin.

# %% tags=["hide-input"]
x, x_unseen = (patchify(each.images / 255, 8) for each in (puzzles, unseen))
matrices = [torch.randn(192, width) / 14 for width in (32, 32, 6)]  # √192
optimizer = torch.optim.Adam([U.requires_grad_() for U in matrices], 0.01)
frames = {}
for step in range(301):
    few = torch.randint(5_000, (64,))
    logits, _ = look(x[few], *matrices)
    loss = F.cross_entropy(logits.flatten(0, 1), puzzles.labels[few].flatten())
    if step in (0, 20, 40, 300):
        _, frames[f"step {step}, loss {loss:.2f}"] = look(x_unseen, *matrices)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %% tags=["nbval-ignore-output", "hide-input"]
first = {name: A[0].detach() for name, A in frames.items()}
first["the right map"] = F.one_hot(unseen.twins[0], 16).float()
one = unseen.images[0] / 255
figures.show(*drawings.learned(one, FRAMED, twin, first))
twins = unseen.twins[..., None]  # (500, 16, 1)
print("How much a patch takes, on average over all unseen puzzles:")
print(f"{'':20}{'from its twin':>14}{'from itself':>13}")
for name, A in frames.items():
    itself = A.diagonal(dim1=1, dim2=2).mean()
    print(f"{name:20}{A.gather(2, twins).mean():14.0%}{itself:13.0%}")
scores = (x_unseen @ matrices[0]) @ (x_unseen @ matrices[1]).mT / math.sqrt(32)
of_twin = scores.gather(2, twins).mean()
of_itself = scores.diagonal(dim1=1, dim2=2).mean()
of_others = (16 * scores.mean() - of_twin - of_itself) / 14
print(f"mean score after training: twin {of_twin:.0f}", end=", ")
print(f"itself {of_itself:.0f}, others {of_others:.0f}")

# %% tags=["nbval-check-output", "hide-cell"]
logits, A = look(x_unseen, *matrices)
assert (logits.argmax(dim=-1) == unseen.labels).float().mean() > 0.99
assert A.gather(2, twins).mean() > 0.95
between = [A for name, A in frames.items() if "step 20" in name or "40" in name]
assert max(A.diagonal(dim1=1, dim2=2).mean() for A in between) > 0.1
assert of_twin > of_itself + 5 > of_others + 10
print("the colours are right, and the attention is at the twins")

# %% [markdown]
# A patch avoids itself by its colour. In the last line, the "others" have the wrong glyph, and
# they're far behind. The patch itself has the right glyph, but its colour counts against it.
#
# That takes two matrices. If one matrix made both query and key, a patch's query would also be
# its key. For two twins with the keys $\mathbf{k}_1$ and $\mathbf{k}_2$, the dot product
# $\mathbf{k}_1 \cdot \mathbf{k}_2$ can't be larger than both $\mathbf{k}_1 \cdot \mathbf{k}_1$
# and $\mathbf{k}_2 \cdot \mathbf{k}_2$. So at least one of the twins couldn't avoid itself.
#
# At step 40, patches take more from themselves than at the start: some are in the trap. Then
# they climb out. In the end the map is right, for a puzzle that it's never seen, and
# all it was ever told is colours.
#
# ## To attention, a picture is a bag
#
# What if you shuffle the patches of the puzzles?

# %%
order = [3, 15, 6, 0, 9, 12, 2, 5, 14, 8, 1, 11, 4, 13, 7, 10]
answers, _ = look(x_unseen, *matrices)
shuffled, _ = look(x_unseen[:, order], *matrices)
same = torch.allclose(shuffled, answers[:, order], rtol=0, atol=1e-4)
print("the same answers, in shuffled order:", same)

# %% [markdown]
# Each patch gets what it got before, only in another row. That's called *permutation
# equivariance*. Queries, keys and values are made token by token, and neither a softmax nor a
# sum cares about the order of its terms. To attention, a photograph is a bag of patches, and no
# patch can ask who's above it. [Chapter 4](04_vit.ipynb) has the cure: positions.
#
# ## Several questions at once
#
# Attention gives a patch a single average. Suppose a patch needs a number from each of two
# others. One has 3, the other 7, and with half shares it gets 5. Had they been 4 and 6, it
# would get 5 again. With two attentions side by side, it could get both.
#
# Each of the two is called a *head*, and has three matrices of its own. (The network's own
# head, which names the class, is something else.) The heads' outputs are set side by side, and
# one more learned matrix, $\mathbf{U}_{msa}$, mixes them. This is *multi-head self-attention*,
# MSA:
#
# $$
# \text{MSA}(\mathbf{z}) = [\text{SA}_1(\mathbf{z}); \dots; \text{SA}_k(\mathbf{z})]
# \, \mathbf{U}_{msa} \tag{8}
# $$
#
# Here $k$ is the number of heads (the bold $\mathbf{k}$ is a key). To keep the
# cost the same, each head is narrower: $D_h = D / k$. Here's the whole layer for two heads,
# dark and light, each equation with its line of code:

# %% tags=["hide-input"]
figures.show(*drawings.layer())


# %% [markdown]
# One linear layer makes $3D$ numbers per token: the queries of all heads, then the keys, then
# the values. The einops pattern cuts them into these three, and each into heads.


# %% tags=["teaches"]
class MultiHeadAttention(nn.Module):
    """Equations (5) to (8), all heads at once: (b, t, d) -> (b, t, d)."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)  # U_qkv
        self.proj = nn.Linear(embed_dim, embed_dim)  # U_msa

    def forward(self, x):
        parts = "b t (three heads hd) -> three b heads t hd"
        q, k, v = rearrange(self.qkv(x), parts, three=3, heads=self.num_heads)
        values, _ = attention(q, k, v)  # (b, heads, t, hd)
        return self.proj(rearrange(values, "b heads t hd -> b t (heads hd)"))


# %% tags=["nbval-check-output", "hide-cell"]
def by_the_paper(x, U_qkv, U_msa):
    """(t, d) -> (t, d); U_qkv: (heads, d, 3*hd), U_msa: (heads*hd, d)."""
    results = []
    for U in U_qkv:  # one head after the other
        q, k, v = (x @ U).chunk(3, dim=1)  # equation (5)
        values, _ = attention(q, k, v)  # (6) and (7)
        results.append(values)
    return torch.cat(results, dim=1) @ U_msa  # (8)


layer, x = MultiHeadAttention(48, 4), torch.randn(5, 7, 48)
for part in (layer.qkv, layer.proj):
    nn.init.zeros_(part.bias)  # the paper has none
pattern = "(three heads hd) d -> heads d (three hd)"
U_heads = rearrange(layer.qkv.weight, pattern, three=3, heads=4)
alone = torch.stack(
    [by_the_paper(one, U_heads, layer.proj.weight.T) for one in x]
)
# float32, sums of at most 48 terms in another order
assert torch.allclose(layer(x), alone, rtol=0, atol=1e-5)
print(f"head by head or all at once: the same {alone.numel():,} outputs")

# %% [markdown]
# ## Inside a trained network
#
# Now let's open ViT-Ti/16, which named the portrait in chapter 1. Its tokens know their
# positions, and pass through twelve *blocks*, each with three heads.

# %%
model = load("ViT-Ti/16")


# %% [markdown] tags=["predict"]
# To compare two tokens, we take the cosine of the angle between them: 1 if they point the same
# way, 0 at a right angle.
#
# When a patch has just become a token, it knows only its own pixels, so cap and jacket are
# alike: both are dark. Then block after block lets it look around. **What is the cap's patch
# most like after block 8?**
#
# * the whole picture: averages of averages leave no differences
# * all dark cloth, the jacket's too
# * all of the woman, from cap to jacket
# * the rest of its own cap


# %% tags=["hide-input"]
@torch.no_grad()
def tokens_of(model):
    """The patches' tokens (n, d) by name, and what attention adds to them."""
    first = model.patch_embed(2 * picture[None] - 1)  # (1, n, d)
    z = torch.cat([model.cls_token, first], dim=1) + model.pos_embed
    found = {"times E": first[0], "plus positions": z[0, 1:]}
    for number, block in enumerate(model.blocks, start=1):
        added = block.attn(block.norm1(z))
        z = z + added
        found[f"added in block {number}"] = added[0, 1:]
        found[f"block {number}, halfway"] = z[0, 1:]
        z = z + block.mlp(block.norm2(z))
        found[f"after block {number}"] = z[0, 1:]
    return found


cloth_of_cap = torch.tensor([32, 33, 34, 35, 36, 37, 46])
rows_below = torch.arange(196) >= 14 * 11  # the jacket's
cloth_of_jacket = (rows_below & (patches.mean(dim=1) < 0.12)).nonzero()[:, 0]


# %% tags=["hide-input"]
def likeness(tokens):
    """Mean similarity of the cap's cloth to itself, and to the jacket's."""
    cosine = F.cosine_similarity(tokens[:, None], tokens[None], dim=2)
    cloth, many = cosine[cloth_of_cap], len(cloth_of_cap)
    among = (cloth[:, cloth_of_cap].sum() - many) / (many * (many - 1))
    return among, cloth[:, cloth_of_jacket].mean()


def table(stages):
    """Print `likeness` of each stage, name -> tokens (n, d)."""
    print("how similar two dark patches are, on average:")
    print(f"{'':20}{'both on the cap':>16}{'cap and jacket':>16}")
    for name, tokens in stages.items():
        among, across = likeness(tokens)
        print(f"{name:20}{among:16.1f}{across:16.1f}")


# %% tags=["hide-input"]
def maps_of(stages):
    """Name -> similarity (14, 14) of each token to the cap's."""
    return {
        name: F.cosine_similarity(each[cap][None], each, dim=1)
        .clamp(min=0)
        .view(14, 14)
        for name, each in stages.items()
    }


# %% tags=["hide-input"]
usual = tokens_of(model)
shown = {name: usual[name] for name in ("times E", "after block 8")}
alt = """Two maps of how similar each patch is to the cap's. Times E, cap and
jacket are equally bright. After block 8 the cap alone is, its band most."""
label = "similarity to the cap's patch (below 0 drawn as 0)"
figures.show(*photos.maps(picture, maps_of(shown), label, alt, marked=(2, 5)))
table(shown)

# %% [markdown]
# The rest of its own cap, its dark band above all. When the tokens have just been made (*times
# E*), the jacket is as bright in the map as the cap; after block 8 it isn't. The table averages
# over pairs: seven dark patches of the cap with each other, and with the jacket's dark ones
# (mean pixel below 0.12). What has the cap's patch heard?
#
# ## What the cap looks at
#
# `record_attention` collects the attention maps:

# %%
with record_attention(model) as maps, torch.no_grad():
    model(2 * picture[None] - 1)  # it wants pixels from -1 to 1
print(len(maps), "blocks, each with a map", tuple(maps[0].shape))

# %% [markdown]
# That's one picture, three heads, and 197 rows and columns: the *class token* of chapter 4
# comes first, then the 196 patches. Here's the cap's row in block 2, and in block 8, which
# [treats cap and jacket most differently](#Why-block-8?).

# %%
token = cap + 1
looks = {b: maps[b - 1][0, :, token, 1:] for b in (2, 8)}  # (3, n)

# %% tags=["hide-input"]
rows = {
    f"block {block}": (look.view(3, 14, 14), divmod(token - 1, 14))
    for block, look in looks.items()
}
alt = """What the cap's patch looks at, three heads each of two blocks. Block 2:
head 1 at the patch to the left, head 2 at itself and at dark cloth, head 3 to
the right. Block 8: braid, the edge above the forehead and both ends of the
cap."""
figures.show(*drawings.heads(picture, rows, alt))

# %% [markdown]
# In block 2, the first head looks to the left and the third to the right, [in
# other photographs](#All-thirty-six-maps) too. The second looks at dark cloth, even the
# jacket's.
#
# In block 8, each head finds another part of the cap: the braid, the edge above the forehead,
# both ends. Do the heads go by content, or just up, down and sideways? In [the second
# reading](#All-thirty-six-maps), a lens of her glasses finds the other lens, and a star finds
# other stars. Content, it seems.
#
# Do the cap's other patches come away with much the same? What attention returns is added to
# the tokens. Here's how similar the tokens were before block 8, and how similar the vectors are
# that its attention adds:

# %% tags=["hide-input"]
names = ("after block 7", "added in block 8")
added = {name: usual[name] for name in names}
alt = """Two maps of how similar each patch is to the cap's. After block 7 most
of the cap's dark band is bright, and the rest dim. Of what block 8 adds, the
whole cap is bright, the forehead less so, the jacket dark."""
figures.show(*photos.maps(picture, maps_of(added), label, alt, marked=(2, 5)))
table(added)

# %% [markdown]
# They do. Earlier blocks had already told the cap from the jacket, but the cap's braid and
# crown weren't much like its band. What attention adds in block 8 is much the same all over the
# cap, and spills over onto her forehead. The jacket gets something else.
#
# The square that you couldn't tell from a piece of the jacket seems to have found out what it's
# a piece of, and nobody ever marked a cap for this network.
#
# That's one photograph, and the second reading checks [whether it was
# attention](#Was-it-attention?). On the site, you can point at any patch below.
#
# <div class="try" data-part="look" data-photo="hopper" data-layer="8"></div>
#
# ## What to take with you
#
# * In attention every token takes an average of all values, weighted by how well its
#   query matches each key.
# * What a token asks, what it's found by and what it hands over are learned. Heads ask
#   several questions at once.
# * Attention sees a bag of tokens. Without positions it can't tell left from right.
#
# **Five questions** ([answers](#Solutions))
#
# 1. What goes wrong in training if you don't divide by $\sqrt{D_h}$?
# 2. What would change if one matrix made both queries and keys?
# 3. Why does a token need more than one head?
# 4. What happens to the outputs if you shuffle the tokens, and what changes that?
# 5. What did attention add to the pieces of the cap in block 8, and to the jacket's?
#
# Attention makes mixtures: you saw three tokens move closer together. But eight blocks into
# the real network, cap and jacket have come apart. How do you stack such layers without
# mixing everything into one? [Chapter 3](03_encoder.ipynb) finds out.
#
# ## Exercises
#
# ★ read off, ★★ change and predict, ★★★ open.
#
# ✎ Write `attention` and `MultiHeadAttention` again from memory, perhaps without einops.
# After `from vitedu import check`, `check.attention(attention)` tells you how closely
# yours agrees with ours, or what's likely to be wrong with it; so does
# `check.multi_head_attention(MultiHeadAttention)`.
#
# **1.** ★ Which heads in the figure of blocks 2 and 8 could you replace by a fixed rule,
# such as "look two to the left and one down"? Which couldn't you?
#
# **2.** ★ A network with attention over the batch (the second reading has [such a
# layer](#The-layer-off-the-shelf)) is trained on batches of 100 pictures and then used on one
# picture at a time. What does its attention compute now?
#
# **3.** ★★ Our `qkv` lists all queries, then all keys, then all values. Somebody else's
# lists the query, key and value of head 1, then those of head 2, and so on. Can it be
# trained? Can you load our weights into it? What's the cure?
#
# **4.** ★★ Leave the softmax out of equation (6). In which order would you multiply
# $\mathbf{q}\mathbf{k}^\top\mathbf{v}$, what does that save, and what do you lose?
#
# **5.** ★★ Let the jacket look. First predict the maps of blocks 2 and 8, from what
# you know about those heads. Then set `token = jacket + 1` in *What the cap looks
# at*, run that cell and the next, and see which of your predictions fails.
#
# **6.** ★★★ In the second reading [we switch attention off](#Was-it-attention?) by adding
# "nothing"; read that first. Two more ways: every token looks at "only itself", or at "all
# alike". In which of the three would all tokens become alike, and why? (The solution has the
# maps.) What would convince you that such a test is about attention, and not about a network
# that you broke?
#
# **7.** ★★★ A head computes 196 shares for a token, none negative, and returns the average
# of the values, 64 numbers. Somebody shows you the average and the values. Can you tell
# what the token looked at? Count equations and unknowns. What does that say about maps?
#
# ## Second reading
#
# Nothing below is needed for chapter 3. Two sections are about mistakes with this layer
# that raise no error: dividing by [the root of $D$ instead of $D_h$](#The-wrong-root), and
# using PyTorch's own layer [without `batch_first=True`](#The-layer-off-the-shelf).
#
# ### Was it attention?
#
# Attention isn't the only suspect: each token also gets a position. So we break the network in
# two ways. In "nothing", attention adds nothing in any block. In "no positions", attention
# works, but all patches get the same position. Here's what's there after block 8:

# %% tags=["hide-input"]
import copy


def with_attention(change):
    """A copy of the model; `change` is (layer, values (1, t, d)) -> output."""
    other = copy.deepcopy(model)
    for block in other.blocks:
        block.attn.register_forward_hook(
            lambda layer, given, _: change(
                layer, layer.qkv(given[0]).chunk(3, dim=-1)[2]
            )
        )
    return other


no_positions = copy.deepcopy(model)
with torch.no_grad():
    places = no_positions.pos_embed[:, 1:]  # all get the mean position
    places.copy_(places.mean(dim=1, keepdim=True).expand_as(places))

# %% tags=["hide-input"]
after = "after block 8"
without = with_attention(lambda layer, values: torch.zeros_like(values))
stages = {
    "the network": usual[after],
    "nothing": tokens_of(without)[after],
    "no positions": tokens_of(no_positions)[after],
}
broken = {name: stages[name] for name in ("nothing", "no positions")}
alt = """Two maps of how similar each patch is to the cap's, after block 8. With
nothing added, the whole picture is brighter, cap and jacket most. Without
positions the jacket and the sky are brighter than most of the cap."""
figures.show(*photos.maps(picture, maps_of(broken), label, alt, marked=(2, 5)))
early = ("times E", "plus positions", "after block 1")
table({name: usual[name] for name in early} | stages)

# %% [markdown]
# Positions alone pull cap and jacket apart, but after block 1 that's gone again, so they
# can't be the whole story. If attention adds nothing, cap and jacket stay the same dark cloth, and
# the rest of the picture is more like it, too. Without positions, even the sky is more like the
# framed patch than much of the cap is.
#
# It seems to take both, attention to look around and positions to say where things are. But
# it's only one photograph, and two networks that we broke. Exercise 6 asks what would convince
# you.
#
# ### Why block 8?
#
# We looked at what attention adds in each of the twelve blocks, and took the one that says
# most about cap and jacket:

# %% tags=["hide-input"]
twelve = (f"added in block {number}" for number in range(1, 13))
table({name: usual[name] for name in twelve})

# %% [markdown]
# In block 8, the additions to cap and jacket are at right angles, and within the cap's band
# they're nearly the same. In the last two blocks, cap and jacket get nearly the same. That's
# how this network treats this photograph; in another one, another block may say more.
#
# ### Nothing learned
#
# What if query, key and value are simply the patch itself, its 768 numbers as they are? In the
# middle is what the jacket's patch looks at. On the right is the same, after we've subtracted
# the mean patch of the picture from queries and keys.

# %%
_, raw = attention(patches, patches, patches)
centred = patches - patches.mean(dim=0)
_, alike = attention(centred, centred, patches)

# %% tags=["hide-input"]
panels = {"as it is": raw, "minus the mean": alike}
panels = {name: 100 * A[jacket].view(14, 14) for name, A in panels.items()}
alt = """What the jacket's patch looks at. As it is: a little at everything,
more where it's bright. Minus the mean patch: at dark cloth, on the jacket
and on the cap."""
label = "share of attention in percent"
figures.show(*photos.maps(picture, panels, label, alt, marked=(12, 1)))

# %% [markdown]
# As it is, the jacket looks a little at everything, and more at what's bright. No pixel
# is negative, so a dot product is large wherever the key is bright: it measures light
# instead of likeness. With the mean subtracted, dark is negative, dark times dark is
# positive, and the jacket finds its own kind.
#
# Nothing in this layer was trained, and its map still shows a jacket. A map that picks out an
# object is no proof that something has been learned.
#
# ### The wrong root
#
# ViT-B, the smallest model of the paper, has tokens of $D = 768$ numbers but queries of
# $D_h = 64$. What if you divide by $\sqrt D$? To see it, count how many tokens a query
# looks at: take the *entropy* of its shares, which measures how evenly they are spread,
# and then its exponential, which is $m$ if $m$ tokens get equal shares and the others
# none.

# %% tags=["failure"]
generator.manual_seed(0)
q = torch.randn(200, 1, 64, generator=generator)
k = torch.randn(200, 196, 64, generator=generator)
for name, divisor in {"1": 1, "√D_h": 64**0.5, "√D": 768**0.5}.items():
    weights = (q @ k.mT / divisor).softmax(dim=-1)
    entropy = -(weights * weights.clamp(min=1e-30).log()).sum(dim=-1)
    many = entropy.exp().mean()
    print(f"divided by {name:4} a query looks at {many:3.0f} of 196 tokens")

# %% [markdown]
# With $\sqrt D$ every token gets nearly the average of all, which was the first bad
# idea of this chapter. A network trained that way can make up for it with a larger
# $\mathbf{U}_q$. But load weights that were trained with $\sqrt{D_h}$ into such code,
# and they compute a different function without any warning.
#
# ### The layer off the shelf
#
# PyTorch has its own layer for this. Let's give it four pictures of 16 tokens each, and
# then the first picture alone. What comes out for that one should be the same.

# %% tags=["failure"]
theirs = nn.MultiheadAttention(48, 4)
x = torch.randn(4, 16, 48)  # (b, t, d)

output, _ = theirs(x, x, x)
alone, _ = theirs(x[:1], x[:1], x[:1])
print("shape", tuple(output.shape))
print("the same:", torch.allclose(alone[0], output[0], atol=1e-5))

# %% tags=["hide-input"]
layers = {
    "nn.MultiheadAttention(48, 4)": theirs,
    "the same with batch_first=True": nn.MultiheadAttention(
        48, 4, batch_first=True
    ),
}
changed, panels = x.clone(), {}
changed[1, 5] += 1
for name, each in layers.items():
    difference = each(changed, changed, changed)[0] - each(x, x, x)[0]
    panels[name] = difference.abs().amax(dim=2) > 1e-5  # (b, t)
figures.show(*drawings.moved(panels, (1, 5)))

# %% [markdown]
# The shape is right and the output wrong. Without `batch_first=True`, this layer takes
# the first axis for the tokens and the second for the batch. So every patch looked at the
# same place in all four *pictures*, and nowhere else. (In the figure we've changed the
# framed token, and yellow marks every output that changes.) A published detector, OmDet, did
# just that at inference, until a user asked about it ([issue
# 19](https://github.com/om-ai-lab/OmDet/issues/19)).
#
# > **Remember.** Call `.eval()`, and give a layer one picture alone, then in a batch. If
# > the answers differ by more than rounding, something looks across the batch.

# %% tags=["nbval-check-output", "hide-cell"]
ours = MultiHeadAttention(48, 4)
assert torch.allclose(ours(x[:1])[0], ours(x)[0], rtol=0, atol=1e-5)
print("our layer, alone as in the batch: True")

# %% [markdown]
# ### The price
#
# The pairs of tokens are what attention is notorious for, because there are $t^2$ of them. Scores
# and mixing take $2t^2D$ multiplications in all, however many heads there are, and the four
# matrices take $4tD^2$. Here are both for one layer of ViT-B, in millions, at 224, 384 and 512
# pixels:

# %%
D = 768
print("pixels  tokens  matrices     pairs")
for side in (224, 384, 512):
    t = (side // 16) ** 2 + 1  # one more token: chapter 4
    matrices, pairs = 4 * t * D**2 / 1e6, 2 * t**2 * D / 1e6
    print(f"{side:6}{t:8}{matrices:10.1f}{pairs:10.1f}")

# %% [markdown]
# At 224 pixels the pairs are cheap. At 384 they cost 8.6 times as much, and the matrices only 2.9
# times. But the pairs catch up only at $t = 2D$, and that's 1,536 tokens.
# ([Chapter 1](01_images.ipynb#What-sixteen-costs) counts the MLP as well, which puts it off to
# $6D$.)
#
# In memory, our `attention` keeps its map, $t^2$ numbers per head. PyTorch's
# `F.scaled_dot_product_attention`, which the package's own networks use, doesn't need to hold
# the whole map ([Dao et al. 2022](https://arxiv.org/abs/2205.14135)).
#
# The hidden cell below checks that it computes what ours does. It also loads our
# weights into `nn.MultiheadAttention` with `batch_first=True`, whose `in_proj` is our
# `qkv` and whose `out_proj` is our `proj`.

# %% tags=["nbval-check-output", "hide-cell"]
q, k, v = (torch.randn(1, 12, 196, 64) for _ in "qkv")
fused = F.scaled_dot_product_attention(q, k, v)
# float32, sums of 196 terms in another order
assert torch.allclose(attention(q, k, v)[0], fused, rtol=0, atol=1e-5)

theirs = nn.MultiheadAttention(48, 4, batch_first=True)
state = {"in_proj_weight": ours.qkv.weight, "in_proj_bias": ours.qkv.bias}
state |= {f"out_proj.{name}": p for name, p in ours.proj.named_parameters()}
theirs.load_state_dict(state)
assert torch.allclose(ours(x), theirs(x, x, x)[0], rtol=0, atol=1e-5)
print("ours, the fused one and nn.MultiheadAttention agree")

# %% [markdown]
# ### All thirty-six maps
#
# What the cap's patch looks at in every head of every block:

# %% tags=["hide-input"]
rows = {
    f"block {block}": (A[0, :, 34, 1:].view(3, 14, 14), (2, 5))
    for block, A in enumerate(maps, start=1)
}
alt = """All 36 maps of the cap's patch. Blocks 1 to 3: patches like itself and
the neighbours to the left, to the right and above. Blocks 4 to 8: the cap
and the face. From block 9 on: more and more the four corners."""
figures.show(*drawings.heads(picture, rows, alt))

corners = maps[11][0, :, 1:, [1, 14, 183, 196]].sum(dim=-1).mean()
print(f"block 12: the four corners get {corners:.0%} of all patches' attention")


# %% [markdown]
# In the last block most of the attention goes to the four corners, and there's rarely
# anything to see in a corner. Larger networks have been caught using
# such dull patches as scratch paper ([Darcet et al.
# 2024](https://arxiv.org/abs/2309.16588)). [Chapter 15](15_inside.ipynb) looks into our
# corners.
#
# Three of these heads look in one direction. In the figure their neighbour is simply yellow, 6%
# or more. Here's the share that they really take from it, averaged over all patches of a
# photograph:


# %% tags=["hide-input"]
def share_of_neighbour(A, down, right):
    """Of one head's map A (t, t): the mean share of one neighbour."""
    row, column = torch.arange(196) // 14, torch.arange(196) % 14
    inside = (row + down >= 0) & (0 <= column + right) & (column + right < 14)
    asking = inside.nonzero().flatten() + 1  # past the class token
    return A[asking, asking + 14 * down + right].mean()


def everywhere(image):
    """Three shares, as means over all patches of a pillow image."""
    pixels = torch.tensor(np.array(image.resize((224, 224)))) / 127.5 - 1
    with record_attention(model) as A, torch.no_grad():
        model(pixels.permute(2, 0, 1)[None])
    left = share_of_neighbour(A[1][0, 0], 0, -1)
    right = share_of_neighbour(A[1][0, 2], 0, 1)
    above = share_of_neighbour(A[2][0, 1], -1, 0)
    return left, right, above


# %% tags=["hide-input"]
print("block, head    2, 1    2, 3    3, 2")
print("looks          left   right   above")
for name in ("hopper", "cat", "coffee", "astronaut"):
    image = square if name == "hopper" else photo(name)
    print(f"{name:11}", *(f"{share:7.0%}" for share in everywhere(image)))

# %% [markdown]
# And in block 8, a lens of her glasses looks at the other lens and, in one head, at the
# nose between them. A star of the flag looks mostly at other stars. On the site you
# can see [a head at work](try.md#Walk), number by number.

# %% tags=["hide-input"]
eight = maps[7][0, :, 1:, 1:]
rows = {
    f"block 8: {name}": (
        eight[:, 14 * row + column].view(3, 14, 14),
        (row, column),
    )
    for name, (row, column) in {"lens": (4, 5), "star": (1, 0)}.items()
}
alt = """Block 8. A lens of her glasses looks at both lenses, at the nose and
at the sides of the glasses; a star looks at the other stars."""
figures.show(*drawings.heads(picture, rows, alt))

# %% [markdown]
# ## Where this is in the paper
#
# Equations (5) to (8) are appendix A of [Dosovitskiy et al.
# 2021](https://arxiv.org/abs/2010.11929); the numbers of heads are in its Table 1. MSA
# enters the network in equation (2), which chapter 3 writes. About attention itself the
# paper changes nothing: it's the layer of [Vaswani et al.
# 2017](https://arxiv.org/abs/1706.03762), which was made for translation.
#
# ### What differs
#
# * Equations (5) and (8) have no biases. The authors' code has them in all four
#   matrices, and so does ours.
# * The authors keep the matrices for q, k and v apart. Ours are one, in the order of
#   timm, so that its weights can be loaded.
# * ViT-Ti/16 isn't in the paper. Its size comes from [Touvron et al.
#   2021](https://arxiv.org/abs/2012.12877); the weights are, as far as we can tell,
#   those of [Steiner et al. 2022](https://arxiv.org/abs/2106.10270).
#
# ## Three readings
#
# * [Vaswani et al. 2017](https://arxiv.org/abs/1706.03762), section 3.2, is where this
#   layer comes from. Its footnote on the variance of dot products says in two
#   sentences why we divide.
# * [Parmar et al. 2018](https://arxiv.org/abs/1802.05751) let the *pixels* of an image
#   attend to each other, before ViT. As pairs of pixels are too many, each pixel sees
#   only a neighbourhood. ViT's answer was to make the tokens larger, so that each can
#   still look at all the others.
# * [Jain and Wallace 2019](https://arxiv.org/abs/1902.10186) disagree with what we did
#   with the maps. In networks that read text they find very different maps that lead to
#   the same prediction, so, they say, a map explains nothing. [Wiegreffe and Pinter
#   2019](https://arxiv.org/abs/1908.04626) reply that it depends on what you call an
#   explanation. Exercise 7 is about this.
#
# ## Solutions
#
# <details><summary>Five questions</summary>
#
# 1. Wide queries have large scores, so one key would get nearly everything from the start.
#    There the softmax is flat, and training can't tell a better query from a worse one.
# 2. A token's query would also be its key. Call it $\mathbf{k}_1$, and its twin's
#    $\mathbf{k}_2$. As $(\mathbf{k}_1 - \mathbf{k}_2) \cdot (\mathbf{k}_1 - \mathbf{k}_2)$ is
#    never negative, $\mathbf{k}_1 \cdot \mathbf{k}_2$ is at most the mean of
#    $\mathbf{k}_1 \cdot \mathbf{k}_1$ and $\mathbf{k}_2 \cdot \mathbf{k}_2$, and can't be
#    larger than both. At least one of the twins couldn't avoid itself.
# 3. One softmax returns one average. Where you need two values, it gives you their mixture.
# 4. Shuffle the tokens, and the outputs are shuffled the same way. Positions break that.
# 5. To the pieces of the cap, vectors that point nearly the same way; to the jacket's, something
#    else. With attention taken away, cap and jacket [didn't come apart](#Was-it-attention?).
#
# </details>
#
# <details><summary>Solution 1</summary>
#
# Heads 1 and 3 of block 2 put most of their attention at a fixed offset: left and right.
# That's what one entry of a 3×3 convolution does, too. The dark cloth that head 2
# finds there, and the cap's parts in block 8, are somewhere else in every photograph. No fixed
# offset can do that.
#
# </details>
#
# <details><summary>Solution 2</summary>
#
# Each patch attends over the pictures in the batch, and there's only one. A softmax
# over one score is 1, so each token simply becomes its own value: a linear map, token
# by token, and queries and keys no longer matter. The network was trained on mixtures
# of 100 pictures and now gets something else. If your accuracy changes with the batch
# size, this is a mistake to look for.
#
# </details>
#
# <details><summary>Solution 3</summary>
#
# It can be trained: the rows of the matrix start out random, and it doesn't matter
# which of them you call a query. Our weights have the right shape, so they load, and
# give nonsense. The cure is to reorder the rows once, in the cell folded below with a
# single einops pattern.
#
# </details>

# %% tags=["hide-cell", "nbval-check-output"]
other = torch.randn(3 * 48, 48)  # rows in the order (heads three hd)
sizes = {"heads": 4, "three": 3}
rows = "(heads three hd) d -> (three heads hd) d"
converted = rearrange(other, rows, **sizes)
x = torch.randn(1, 7, 48)
parts = "b t (heads three hd) -> three b heads t hd"
q = rearrange(x @ other.T, parts, **sizes)[0]
parts = "b t (three heads hd) -> three b heads t hd"
same = rearrange(x @ converted.T, parts, **sizes)[0]
assert torch.allclose(q, same, rtol=0, atol=1e-5)
print("converted: the same queries")

# %% [markdown]
# <details><summary>Solution 4</summary>
#
# First $\mathbf{k}^\top\mathbf{v}$, which is only $D_h \times D_h$. A head then takes
# $2tD_h^2$ multiplications instead of $2t^2D_h$, and the map of all pairs is never
# made. What you lose is the dictionary: shares can be negative and needn't sum to 1, so
# the result is no average. Nor does the length of a query say how picky it is: if it's
# twice as long, the answer is just twice as large.
#
# </details>
#
# <details><summary>Solution 5</summary>
#
# The cell folded below draws the maps. Block 2 does what it did for the cap: left and
# right, now of the jacket's patch. Block 8 is where it gets hard. It's about content, so
# you'd expect jacket where there was cap, and head 3 finds that, on both shoulders. Head 1
# looks at the name tag next door. But head 2, which found the cap's lower edge, looks at the
# lower corners: that prediction fails.
#
# </details>

# %% tags=["hide-cell"]
rows = {
    f"block {b}": (
        maps[b - 1][0, :, jacket + 1, 1:].view(3, 14, 14),
        divmod(jacket, 14),
    )
    for b in (2, 8)
}
alt = """What the jacket's patch looks at, three heads each of two blocks. Block
2: head 1 at the patch to the left, head 3 to the right. Block 8: head 3 at
both shoulders."""
figures.show(*drawings.heads(picture, rows, alt))

# %% [markdown]
# <details><summary>Solution 6</summary>
#
# The cell folded below draws the maps. Look at the face: with "nothing" and "only itself"
# it has become like the cap, much more than it was at first. No token hears of another,
# and what the blocks add to each seems to be much the same everywhere. With "all
# alike" you'd most expect it, because attention adds one and the same vector to all
# tokens, but after block 8 it has happened least there. None of these networks was ever
# trained to work like this, so no single row proves much. More convincing: several ways
# of switching off that agree, as the three nearly do on the jacket; many photographs instead of
# one; or a network that was trained without attention from the start.
#
# </details>

# %% tags=["hide-cell"]
ways = {
    "only itself": lambda layer, values: layer.proj(values),
    "all alike": lambda layer, values: layer.proj(
        values.mean(dim=1, keepdim=True).expand_as(values)
    ),
}
three = {"nothing": stages["nothing"]}
three |= {
    name: tokens_of(with_attention(way))[after] for name, way in ways.items()
}
alt = """Three maps of how similar each patch is to the cap's, with attention
switched off in three ways. The jacket lights up in all of them; the face in
two, and least with all alike."""
label = "similarity to the cap's patch (below 0 drawn as 0)"
figures.show(
    *photos.maps(picture, maps_of(three), label, alt, marked=(2, 5), columns=2)
)
table(three)

# %% [markdown]
# <details><summary>Solution 7</summary>
#
# You can't. That the average stays the same is 64 equations, that the sum stays 1 is
# one more, and there are 196 unknowns: 131 directions are free. Go along one of them
# until the first share reaches zero, drop that patch, and start again, as long as more
# than 65 are left. The cell folded below does it for a map of the second reading.
# Nothing that comes after this head can tell the two maps apart, so a map shows what
# was mixed, not that it had to be mixed this way.
#
# </details>

# %% tags=["hide-cell", "nbval-check-output"]
generator = torch.Generator().manual_seed(0)
v = patches.double() @ torch.randn(768, 64, generator=generator).double()
w = alike[jacket].double()  # (n,), none of them 0
fixed = torch.cat([v, torch.ones(196, 1).double()], dim=1)  # must not change

other = w.clone()
while len(live := other.nonzero().flatten()) > 65:
    free = torch.linalg.svd(fixed[live].T).Vh[-1]  # fixed[live].T @ free = 0
    room = torch.where(free < 0, -other[live] / free, math.inf)
    other[live] = (other[live] + room.min() * free).clamp(min=0)
    other[live[room.argmin()]] = 0
assert torch.allclose(other @ fixed, w @ fixed, rtol=0, atol=1e-7)
assert (other - w).abs().sum() / 2 > 0.25
print(
    f"{int((w > 0).sum())} patches looked at, or {len(live)}: the same average"
)
