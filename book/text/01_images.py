# %% [markdown]
# (ch-images)=
# # Images as words
#
# A Transformer reads a row of vectors, as a reader reads a row of words. A picture is a
# rectangle of pixels. This chapter is the step from the one to the other. At its end
# you can cut any picture into words and put it together again, write the cut in four
# ways that agree to the last number, say what smaller words cost, and recognise three
# mistakes that no error message reports.
#
# We begin at the other end, with a network that works.

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

# %% [markdown]
# The package brings 2,500 handwritten digits to learn from and 500 others to be tested
# on, 28×28 pixels each, a part of MNIST {cite}`lecun1998mnist`. The next cell trains a
# Vision Transformer on them. It takes less than a minute on one core.

# %% tags=["nbval-ignore-output"]
from dataclasses import replace
from time import process_time

from vitedu.data import load_dataset, normalise
from vitedu.train import fit, recipe

training = replace(recipe("digits", "cpu"), device="cpu")
model = fit(training).model

test = load_dataset("digits").test
pixels = normalise(test.images, model.preprocess)  # (500, 1, 28, 28)
with torch.no_grad():
    guesses = model(pixels).argmax(dim=-1)  # (500,)
hits = int((guesses == test.labels).sum())
print(f"{hits} of {len(pixels)} right, {process_time():.0f} s of computing")

# %% [markdown]
# Whoever guesses is right 50 times in 500, on average. The network was never told what
# a line, a loop or a corner is.

# %% tags=["nbval-check-output"]
assert hits > 450, "fewer than 90% of the digits are named right"
print("more than 90% of 500 digits that it never saw")

# %% [markdown]
# Here are six that it names wrongly. **What would you have called each?**

# %% tags=["nbval-ignore-output"]
from vitedu import figures
from vitedu.figures import patches as drawings

wrong = pixels[guesses != test.labels]
seen = "Six handwritten digits that the network names wrongly."
figures.show(*drawings.plain(wrong[:6], seen))

# %% [markdown]
# The same six in the lower row, with what the network says and what the label is; above
# them six that it names as they are labelled.

# %% tags=["nbval-ignore-output"]
figures.show(*drawings.guessed(pixels, guesses, test.labels))

# %% [markdown]
# ## What is in the box
#
# `model` is a box: 784 pixels go in, ten numbers come out, and the largest of them is
# the guess. We open it and count what was learned in each part.

# %%
from vitedu import budget

by_part = budget.parameters(model.config).by_part
for part, count in by_part.items():
    if count:
        print(f"{part:12}{count:8,} learned numbers")

# %% [markdown]
# | part | what it does | where we write it |
# |---|---|---|
# | `patch_embed` | makes a row of vectors, one a piece of the picture | on this page |
# | `cls_token` | one vector more, from which the answer is read | {ref}`ch-vit` |
# | `pos_embed` | tells each vector where its piece stood | {ref}`ch-vit` |
# | `blocks` | lets the vectors exchange what they know | the next two chapters |
# | `norm`, `head` | makes ten numbers of one vector | {ref}`ch-vit` |
#
# How they come by their values is the matter of {ref}`ch-mnist`. The drawing shows the
# same parts in the order in which a picture passes them, from below.

# %% tags=["hide-input"]
figures.show(*figures.network("patches"))

# %% [markdown]
# $\mathbf{E}$ is the learned matrix of this chapter. The dashed box is one block,
# repeated $L$ times, here 3; what attention is, {ref}`ch-attention` says, and what
# norm, MLP and "+ itself" are, {ref}`ch-encoder`.
#
# We have a network that names digits, and no idea why. Everything above the yellow box
# works on rows of vectors, whatever they were made from. What is missing is the way
# from a picture to such a row. The question of this chapter: **what are the words of a
# picture, and what does one of them cost?**
#
# ## A picture in pieces
#
# One picture goes with us through the book: the computer scientist Grace Hopper, in a
# photograph in the public domain that comes with matplotlib. We cut a square out of it
# and bring it to 224×224 pixels, the size that the paper trains at.

# %%
import numpy as np
from matplotlib.cbook import get_sample_data
from PIL import Image

with get_sample_data("grace_hopper.jpg") as file:
    photo = Image.open(file).convert("RGB")  # 512 wide, 600 high
square = photo.crop((0, 20, 512, 532)).resize((224, 224))
picture = torch.tensor(np.array(square)).permute(2, 0, 1) / 255  # (c, h, w)
print(tuple(picture.shape), f"{picture.numel():,} numbers from 0 to 1")


# %% [markdown]
# The axes are `c` channels (red, green, blue), `h` rows and `w` columns of pixels. A
# piece is a slice of rows and a slice of columns. Two loops cut the whole picture, row
# by row, as we read a page.


# %%
def cut(picture, size):
    """(c, h, w) -> a list of square tiles (c, size, size), row by row."""
    _, h, w = picture.shape
    return [
        picture[:, top : top + size, left : left + size]
        for top in range(0, h, size)
        for left in range(0, w, size)
    ]


tiles = cut(picture, 16)
print(len(tiles), "tiles of", tuple(tiles[0].shape))

panels = {
    "224 x 224 pixels": picture,
    "14 x 14 patches": drawings.mosaic(tiles, columns=14, gap=4),
}
seen = "A portrait in uniform, then the same with white between its 196 pieces."
figures.show(*drawings.pictures(panels, seen, equally_tall=True))

# %% [markdown]
# Such a piece is a {term}`patch`. The paper's title says what it is to be: a word of
# 16×16 pixels, one of 196 in this picture. Our network cuts its digits, 28×28, into 16
# patches of 7×7.
#
# Words in a sentence can be shuffled, and often one still guesses what it was about. We
# shuffle patches, of three sizes: 4 with 112 pixels a side, 49 with 32, 196 with the 16
# of the title. **Guess first: at which size do you lose the portrait?**

# %%
generator = torch.Generator().manual_seed(3)
shuffled = {}
for size in (112, 32, 16):
    pieces = cut(picture, size)
    order = torch.randperm(len(pieces), generator=generator)
    mixed = [pieces[place] for place in order]
    title = f"{len(pieces)} of {size} x {size}"
    shuffled[title] = drawings.mosaic(mixed, columns=224 // size)

seen = "Each time the same portrait, its patches in random order."
figures.show(*drawings.pictures(shuffled, seen))

# %% [markdown]
# Four patches are four pictures, and an eye sorts them at once. Of 49, some still hold
# an ear or a star, and with patience the portrait can be found. At 196 it is gone: most
# hold an edge or a bit of cloth. No number was lost in any of the three.
#
# ```{note}
# The smaller the words, the less a word says by itself, and the more of the picture is
# in their arrangement.
# ```
#
# That is what the rest of the network is for. Something must bring words together, and
# that is {ref}`attention <ch-attention>`; something must say where each one stood, and
# that is done by the positions of {ref}`ch-vit`. Here we make the words.
#
# ## One cut, written four times
#
# Our tiles are blocks of pixels still; a Transformer wants each as one flat row. So the
# numbers of a patch must be put in some order, and a mistake in it is hard to see in a
# photograph. We take an image whose numbers say where they come from: hundreds for the
# channel, tens for the row, ones for the column.

# %%
by_channel = 100 * torch.arange(2)[:, None, None]
by_row = 10 * torch.arange(4)[:, None]
image = by_channel + by_row + torch.arange(4)  # (c, h, w) = (2, 4, 4)
images = image[None].float()  # (b, c, h, w): a batch of one

figures.show(*drawings.numbered(image, 2))

# %% [markdown]
# With patches of $P = 2$ pixels a side there are $N = HW / P^2 = 4 \cdot 4 / 4 = 4$ of
# them, each with $P^2 C = 4 \cdot 2 = 8$ numbers, where $H$ and $W$ are the height and
# width and $C$ the number of channels. Read the first row: 0, 100, then 1, 101. It goes
# through the patch row by row, in a row column by column, and at each pixel through the
# channels. We say: the order is row, column, channel. Any order would do. We take this
# one because the authors' code has it, so their weights expect it.
#
# **The first way is a loop**, over the tiles that we have.

# %%
rows = [tile.permute(1, 2, 0).flatten() for tile in cut(images[0], 2)]
by_loop = torch.stack(rows)[None]  # (b, n, p*q*c) = (1, 4, 8)
print(by_loop[0, 0].int().tolist())

# %% [markdown]
# `permute(1, 2, 0)` puts the channel last; `flatten` lets the last axis run fastest.
#
# **The second way is a reshape.** It has no loop, so all images of a batch are cut at
# once. `reshape` splits an axis of 4 rows into 2 groups of 2, and likewise the columns:
# six axes. `permute` brings the axes that count patches to the front, the axes within a
# patch to the back, and a second `reshape` joins what belongs together.

# %%
b, c, h, w = images.shape
p = 2
six = images.reshape(b, c, h // p, p, w // p, p)  # (b, c, gh, p, gw, q)
six = six.permute(0, 2, 4, 3, 5, 1)  # (b, gh, gw, p, q, c)
by_reshape = six.reshape(b, (h // p) * (w // p), p * p * c)  # (b, n, p*q*c)
print(
    tuple(images.shape), "->", tuple(six.shape), "->", tuple(by_reshape.shape)
)

# %% [markdown]
# Six axes called by number are hard to read. **The third way gives them names**, the
# ones of the comments: `gh` and `gw` are rows and columns of the grid of patches, `p`
# and `q` row and column inside a patch. In a pattern of einops, brackets split an axis
# on the left of the arrow and join axes on the right; within brackets, the last name
# runs fastest.

# %%
from einops import rearrange

by_pattern = rearrange(
    images, "b c (gh p) (gw q) -> b (gh gw) (p q c)", p=2, q=2
)
print(by_pattern[0, 0].int().tolist())

# %% [markdown]
# The pattern is the sentence from above, word for word: patches row by row, `(gh gw)`,
# and in each the order row, column, channel, `(p q c)`.
#
# **The fourth way is a convolution**, which seems to have nothing to do with cutting. A
# convolution lays a kernel on the image, multiplies what lies under it with the
# kernel's numbers, and adds up. If the kernel is 1 at one place and 0 elsewhere, it
# picks one number. If it is as large as a patch and moves a whole patch at a time (its
# stride), it picks that number from every patch. Eight such kernels pick all eight.

# %%
import torch.nn.functional as F
from torch import Tensor, nn

picks = rearrange(torch.eye(8), "d (p q c) -> d c p q", p=2, q=2)
maps = F.conv2d(images, picks, stride=2)  # (b, d, gh, gw)
by_convolution = rearrange(maps, "b d gh gw -> b (gh gw) d")
print("kernels", tuple(picks.shape), "maps", tuple(maps.shape))

# %% tags=["nbval-check-output"]
ways = (by_loop, by_reshape, by_pattern, by_convolution)
for way in ways:
    assert way.shape == (1, 4, 8)
    assert torch.equal(way, by_loop)
print("loop, reshape, pattern and convolution: the same 4 rows of 8")


# %% [markdown]
# We keep the pattern, as it can be read, and will come back to the convolution, as it
# is where the learned numbers live. What remains is to refuse what cannot be cut, in
# words that help. In the package, and from here on, this is `patchify`; a patch need
# not be square, so its size may be a pair.


# %% tags=["teaches"]
def patchify(images: Tensor, patch_size: int | tuple[int, int]) -> Tensor:
    """(b, c, h, w) -> (b, n, p*q*c): flat patches, row by row."""
    if isinstance(patch_size, int):
        patch_size = (patch_size, patch_size)
    p, q = patch_size
    if images.ndim != 4:
        raise ValueError(
            f"patchify wants (b, c, h, w), got {tuple(images.shape)}; "
            "one image is images[None]"
        )
    h, w = images.shape[-2:]
    if min(p, q, h, w) < 1:
        raise ValueError(
            f"patchify: {h}x{w} pixels in patches of {p}x{q}; "
            "every side must be at least 1"
        )
    if h % p or w % q:
        raise ValueError(
            f"patchify: {h}x{w} does not divide into patches of {p}x{q} "
            f"({h % p} rows and {w % q} columns left over)"
        )
    return rearrange(images, "b c (gh p) (gw q) -> b (gh gw) (p q c)", p=p, q=q)


# %% [markdown]
# The photograph at 250×250 pixels does not divide into patches of 16. A loop would have
# made smaller tiles at the edge, a convolution would have left the edge out without a
# word.

# %% tags=["failure", "raises-exception"]
patchify(torch.zeros(1, 3, 250, 250), 16)


# %% [markdown]
# ## And back
#
# A cut that loses nothing has an inverse: the same pattern, read from right to left.
# One thing must be told to it. 196 rows may be 14 rows of 14 patches, or 7 of 28; the
# number of patches alone does not say.


# %% tags=["teaches"]
def unpatchify(
    patches: Tensor, patch_size: int | tuple[int, int], grid: tuple[int, int]
) -> Tensor:
    """(b, n, p*q*c) -> (b, c, h, w): the inverse of `patchify`."""
    if isinstance(patch_size, int):
        patch_size = (patch_size, patch_size)
    p, q = patch_size
    rows, columns = grid
    if patches.ndim != 3 or patches.shape[1] != rows * columns:
        raise ValueError(
            f"unpatchify wants (b, {rows * columns}, p*q*c) for a "
            f"{rows}x{columns} grid, got {tuple(patches.shape)}"
        )
    if patches.shape[2] % (p * q):
        raise ValueError(
            f"unpatchify: {patches.shape[2]} numbers do not divide into "
            f"the {p * q} pixels of a {p}x{q} patch"
        )
    return rearrange(
        patches, "b (gh gw) (p q c) -> b c (gh p) (gw q)", gh=rows, p=p, q=q
    )


# %% tags=["nbval-check-output"]
batch = picture[None]  # (1, 3, 224, 224)
flat = patchify(batch, 16)  # (1, 196, 768)
assert flat.shape == (1, 196, 16 * 16 * 3)
assert torch.equal(unpatchify(flat, 16, (14, 14)), batch)
print("196 rows of 768 numbers, and back: nothing lost, to the last bit")

# %% [markdown]
# Nothing asks for a square picture. We take the whole photograph, 240×208 pixels: a
# grid of 15 rows and 13 columns. Code that has only met squares takes the root of the
# number of patches; 195 has none. And code that confuses rows with columns gets this:

# %% tags=["failure"]
whole = photo.resize((208, 240))  # pillow wants width, height
whole = torch.tensor(np.array(whole)).permute(2, 0, 1)[None] / 255
portrait = patchify(whole, 16)  # (1, 195, 768)

panels = {
    "grid (15, 13)": unpatchify(portrait, 16, (15, 13))[0],
    "grid (13, 15)": unpatchify(portrait, 16, (13, 15))[0],
}
seen = "The second is wider than high, its rows of patches slide to the right."
figures.show(*drawings.pictures(panels, seen))

# %% [markdown]
# No error: $15 \cdot 13 = 13 \cdot 15$. Each patch is whole; after the first row they
# stand in the wrong places. So the package hands a grid on as a pair (rows, columns)
# and takes no root anywhere.
#
# ## Right shape, wrong numbers
#
# The last mistake could still be seen in a shape: 208×240 in place of 240×208. The next
# two cannot; every shape is right. One forgets the `permute` of the second way. The
# other keeps the channels in front, in the order (channel, row, column), as a PyTorch
# user may well do.

# %% tags=["failure"]
forgotten = batch.reshape(1, 196, 768)
channel_first = rearrange(
    batch, "b c (gh p) (gw q) -> b (gh gw) (c p q)", p=16, q=16
)
assert flat.shape == forgotten.shape == channel_first.shape

panels = {
    "right": unpatchify(flat, 16, (14, 14))[0],
    "no permute": unpatchify(forgotten, 16, (14, 14))[0],
    "(c p q)": unpatchify(channel_first, 16, (14, 14))[0],
}
seen = (
    "Put together as (p q c), the second is grey stripes without a portrait, "
    "the third a coarse grey portrait of striped squares."
)
figures.show(*drawings.pictures(panels, seen))

# %% [markdown]
# The two are not equally bad. A row of `channel_first` holds the numbers of one patch
# in another order. Trained with this order from the start, a network would not notice:
# its learned numbers would stand in that order too. A row of `forgotten` holds three
# and a half lines of the picture, nearly always of one colour. Training cannot put
# right which pixels meet in a word. What does that cost? We train on digits cut without
# the `permute`, a line and three quarters to a word, with all else as in the first
# cell. (`stem` is the package's name for the first part, the one that cuts.)

# %% tags=["failure", "nbval-ignore-output"]
from vitedu.model import Patches


def score(order):
    """Share of test digits named right after training on pixels in `order`."""

    def reorder(_, inputs):  # runs before the stem, on its input
        return inputs[0].flatten(1)[:, order].reshape(inputs[0].shape)

    class Reordered(Patches):
        def build(self, config):
            stem = super().build(config)
            stem.register_forward_pre_hook(reorder)
            return stem

    network = replace(training.model, stem=Reordered())
    result = fit(replace(training, model=network)).result
    return result["metrics"]["test_accuracy"]["value"] / 100


numbers = torch.arange(784.0).reshape(1, 16, 49)  # cut without a permute
order = unpatchify(numbers, 7, (4, 4)).flatten().long()
print(
    f"{hits / len(pixels):.1%} with patches, {score(order):.1%} without permute"
)

# %% [markdown]
# Three points, no error, and nothing to say where they went. They even look like luck.
# We ran both with six seeds, 0 to 5 (`replace(training, seed=1)` and so on): on average
# 92.7% with patches and 91.3% without `permute`, and twice the mistake was ahead.
#
# The order within a patch starts to hurt when a network meets an order that it was not
# trained with, for example somebody else's weights in our code. How much? Our digits
# have one channel, so (c p q) and (p q c) are the same; the mistake left to make is row
# against column. In our trained network we swap the two inside each of the 16 patches
# of a digit, every patch staying in its place. **Guess: of 100 digits, how many are
# still named right?**

# %% tags=["failure", "nbval-ignore-output"]
as_rows = rearrange(patchify(pixels, 7), "b n (p q) -> b n (q p)", p=7)
swapped = unpatchify(as_rows, 7, (4, 4))
with torch.no_grad():
    after = model(swapped).argmax(dim=-1)

share = (after == test.labels).float().mean().item()
print(f"{hits / len(pixels):.0%} before, {share:.0%} after")
figures.show(*drawings.guessed(swapped, after, test.labels))

# %% tags=["nbval-check-output"]
assert share < 0.5 * hits / len(pixels), "the order should matter more"
print("another order inside the patches: more than half of the hits are lost")

# %% [markdown]
# If you saw only the second number, you would blame the training.
#
# ```{note}
# A shape says how many numbers there are, not which. Check a reordering with an image
# whose numbers say where they come from, or by putting it together again.
# ```
#
# ## From a patch to a token
#
# A word in a language model is a number in a dictionary, and the first layer looks up
# that word's vector. Patches have no dictionary: with 768 numbers of 256 values each
# there are $256^{768}$ of them. But a look-up is also a product: a row that is 1 at the
# word's number and 0 elsewhere, times the matrix of all vectors. That product takes any
# row. So a flat patch, a row of $P^2 C$ numbers, is multiplied with a learned matrix
# $\mathbf{E}$ and becomes a vector of $D$ numbers, its {term}`token`. The paper says it
# in section 3.1, beside its equation (1): the picture is reshaped into a row of flat
# patches; since the Transformer keeps one width $D$ through all its layers, a trainable
# linear map brings each patch to that width.
#
# ```{math}
# :label: eq-patches
# \mathbf{x}_p^i \mathbf{E}, \qquad i = 1, \dots, N, \qquad
# \mathbf{x}_p \in \mathbb{R}^{N \times (P^2 C)}, \quad
# \mathbf{E} \in \mathbb{R}^{(P^2 C) \times D}
# ```
#
# | symbol | in the code | what it is |
# |---|---|---|
# | $\mathbf{x}_p$ | `patchify(images, 16)` | flat patches, $\mathbf{x}_p^i$ one row |
# | $N$ | `num_patches`, axis `n` | number of patches |
# | $P^2 C$ | axis `(p q c)` | numbers in a patch |
# | $D$ | `embed_dim`, axis `d` | numbers in a token, the same all through the network |
# | $\mathbf{E}$ | `patch_embed.proj.weight`, reordered | what is learned |
#
# On paper, with three patches of 2×2 pixels, one channel, and $D = 2$. The first column
# of $\mathbf{E}$ adds the four numbers up: how bright is the patch? The second adds the
# right ones and takes away the left ones: how much brighter is it on the right?
#
# $$
# \begin{pmatrix} 1 & 2 & 3 & 4 \\ 0 & 4 & 0 & 4 \\ 3 & 3 & 3 & 3 \end{pmatrix}
# \begin{pmatrix} 1 & -1 \\ 1 & 1 \\ 1 & -1 \\ 1 & 1 \end{pmatrix}
# = \begin{pmatrix} 10 & 2 \\ 8 & 8 \\ 12 & 0 \end{pmatrix}
# $$
#
# The middle patch has an edge, its second number says so; the last one is flat. A
# column of $\mathbf{E}$ is a question put to every patch, and a token is the list of
# answers.

# %% tags=["nbval-check-output"]
strip = torch.tensor([[1, 2, 0, 4, 3, 3], [3, 4, 0, 4, 3, 3]])  # (h, w)
questions = torch.tensor([[1, -1], [1, 1], [1, -1], [1, 1]])  # (p*q*c, d)
answers = patchify(strip[None, None], 2)[0] @ questions  # (n, d)
assert answers.tolist() == [[10, 2], [8, 8], [12, 0]]
print("three patches, two questions: the product on paper is right")

# %% [markdown]
# $P^2 C$ and $D$ are two different things. The first follows from the picture and the
# cut, the second is a choice: how wide the network is. A model's name says both: "B" is
# the size of the network, with its $D$, and "/16" is $P$. In one of the five models of
# the paper's Table 5, here at 224 pixels, they happen to be the same number. Code that
# takes the one for the other runs there, and nowhere else.

# %%
from vitedu import vit_config

for name in ("ViT-B/32", "ViT-B/16", "ViT-L/32", "ViT-L/16", "ViT-H/14"):
    config = vit_config(name)
    p, q = config.patch_size
    inside = p * q * config.in_channels
    equal = "  <- equal" if inside == config.embed_dim else ""
    line = f"P*P*C = {inside:5,} -> D = {config.embed_dim:5,}"
    print(f"{name}  N = {config.num_patches:3}  {line}{equal}")

# %% [markdown]
# Where $D$ is smaller, something must get lost. How much can go before we see it? We
# let patches of 8×8 pixels, 192 numbers each, pass through 2, 8 and 32 numbers and
# back. For one picture we can compute the $\mathbf{E}$ that loses least, by squared
# error. A singular value decomposition (SVD) of the patches, their mean taken off,
# lists directions in the space of 192 numbers: first the one along which the patches
# differ most, then the one along which the rest differs most, and so on. The first $D$
# of them are the columns.

# %%
flat8 = patchify(batch, 8)[0]  # (784, 192)
mean = flat8.mean(dim=0)
directions = torch.linalg.svd(flat8 - mean, full_matrices=False).Vh

panels = {}
for d in (2, 8, 32):
    best = directions[:d].T  # (192, d)
    tokens = (flat8 - mean) @ best  # (784, d)
    back = tokens @ best.T + mean
    panels[f"D = {d}"] = unpatchify(back[None], 8, (28, 28))[0]

seen = (
    "Squares of one colour become a portrait; 32 of 192 numbers hardly differ."
)
figures.show(*drawings.pictures(panels, seen))

# %% [markdown]
# Neighbouring pixels are much alike, so a patch has fewer things to say than it has
# numbers. This matrix was made for this picture, and for going back. A learned one need
# not allow a way back at all: it keeps what helps to name the picture.
#
# ## The same product as a convolution
#
# Cutting was a convolution with kernels that pick. The product with $\mathbf{E}$ is one
# too: let kernel number $j$ hold column $j$ of $\mathbf{E}$, put back into the shape of
# a patch.

# %%
figures.show(*drawings.strides())


# %% [markdown]
# A kernel lies on one patch, multiplies, adds up: one number. $D$ kernels make $D$
# numbers, which are one token. Then all go one patch further.
#
# In this form the layer stands in the package: PyTorch's convolution makes patches and
# product in one call. `proj.weight` has the shape (d, c, p, q). A
# {term}`patch embedding` is no more than this.


# %% tags=["teaches"]
class PatchEmbedding(nn.Module):
    """Each patch times E of equation (1): (b, c, h, w) -> (b, n, d)."""

    def __init__(
        self,
        image_size: tuple[int, int],
        patch_size: tuple[int, int],
        in_channels: int,
        embed_dim: int,
    ) -> None:
        super().__init__()
        for size, patch in zip(image_size, patch_size, strict=True):
            if size % patch:
                raise ValueError(
                    f"{size} pixels do not divide into patches of {patch} "
                    f"({size % patch} left over)"
                )
        self.input_shape = (in_channels, *image_size)
        self.grid = (
            image_size[0] // patch_size[0],
            image_size[1] // patch_size[1],
        )
        self.num_patches = self.grid[0] * self.grid[1]
        self.proj = nn.Conv2d(
            in_channels, embed_dim, patch_size, stride=patch_size
        )

    def forward(self, images: Tensor) -> Tensor:
        """(b, c, h, w) -> (b, n, d), n row by row."""
        c, h, w = self.input_shape
        if images.ndim != 4:
            raise ValueError(
                f"the model wants images (b, {c}, {h}, {w}), got "
                f"{tuple(images.shape)}; one image is images[None]"
            )
        if images.shape[1:] != self.input_shape:
            channels, height, width = images.shape[1:]
            raise ValueError(
                f"the model wants images of {c} channels, {h}x{w} pixels, "
                f"got {channels} channels, {height}x{width}"
            )
        return rearrange(self.proj(images), "b d gh gw -> b (gh gw) d")


# %% [markdown]
# `patchify` does not occur in it: the kernels lie on the picture itself. The order of a
# flat patch matters where $\mathbf{E}$ is written as a matrix, as in the next cell, or
# where weights are carried in from elsewhere. $\mathbf{E}$ is the kernels in another
# order: `d c p q -> (p q c) d`. There is a vector `bias` besides, one number for each
# of the $D$, which is added to every token.

# %% tags=["nbval-check-output"]
embed = PatchEmbedding((224, 224), (16, 16), 3, 192).double()
E = rearrange(embed.proj.weight, "d c p q -> (p q c) d")  # (768, 192)
by_product = patchify(batch.double(), 16) @ E + embed.proj.bias
by_module = embed(batch.double())

assert by_module.shape == (1, embed.num_patches, 192) == (1, 196, 192)
# float64, sums of 768 terms in two orders
assert torch.allclose(by_module, by_product, rtol=0, atol=1e-12)
print("cut and multiply, or convolve: the same 196 tokens of 192 numbers")

# %% [markdown]
# Now the box from the beginning. We take its first part out, put ours in with the
# numbers that were learned, and ask for the 500 digits again.

# %% tags=["nbval-check-output"]
ours = PatchEmbedding((28, 28), (7, 7), 1, model.config.embed_dim)
ours.load_state_dict(model.patch_embed.state_dict())
model.patch_embed = ours
with torch.no_grad():
    assert torch.equal(model(pixels).argmax(dim=-1), guesses)
print("the network runs on this page's class: 500 guesses, none changed")

# %% [markdown]
# The part has $49 \cdot 64 + 64 = 3200$ learned numbers, as the list at the beginning
# says: 64 questions of 49 numbers each, and the bias. Let us look at the questions. The
# first row has six of the 64 kernels; they look like noise. The second row takes away
# the random numbers that training began with, which we draw again from the same seed.
# The third has the first directions of that change, from an SVD of all 64, each with
# its share of the change. Grey is 0; the sign of a direction means nothing, black and
# white may change places. **What did the network learn to ask?**

# %% tags=["nbval-ignore-output"]
from vitedu import ViT

_ = torch.manual_seed(training.seed)
start = ViT(training.model).patch_embed.proj.weight  # (64, 1, 7, 7)
change = (ours.proj.weight - start).detach()
svd = torch.linalg.svd(change.flatten(1))
shares = svd.S**2 / (svd.S**2).sum()

rows = {
    "kernels after training": ours.proj.weight[:6],
    "minus the random numbers of the start": change[:6],
    "main directions of this change": svd.Vh[:6].reshape(-1, 1, 7, 7),
}
under = [f"{share:.0%}" for share in shares[:6]]
figures.show(*drawings.filters(rows, under))


# %% [markdown]
# Bars, borders, a bright or a dark middle: is there ink above, on the left, in the
# centre? An eye finds such forms in noise, too. So we measure two things, of the start,
# which is noise, and of the change: the share that the first 12 of the 49 directions
# hold, and the correlation of a number with its right neighbour.


# %% tags=["nbval-ignore-output"]
def measured(kernels):
    """Share of the first 12 directions; correlation of neighbours in a row."""
    squares = torch.linalg.svdvals(kernels.flatten(1)) ** 2
    left, right = kernels[..., :-1].flatten(), kernels[..., 1:].flatten()
    neighbours = torch.corrcoef(torch.stack([left, right]))[0, 1]
    return (squares[:12].sum() / squares.sum()).item(), neighbours.item()


for name, kernels in {"start": start.detach(), "change": change}.items():
    twelve, neighbours = measured(kernels)
    print(f"{name:6}  12 directions {twelve:.2f}, neighbours {neighbours:.2f}")

# %% tags=["nbval-check-output"]
twelve, neighbours = measured(change)
assert twelve > 0.75 and neighbours > 0.4
assert measured(start.detach())[0] < 0.65
print("the change has fewer directions than noise, and is smoother")

# %% [markdown]
# Of the start, 12 directions hold little more than half, and neighbours have nothing to
# do with each other. Of the change they hold 85%, and neighbours go together. In Figure
# 7 (left) the paper shows the principal components of the kernels of
# ViT-L/32, in colour, and sees in them a basis for the fine structure inside a patch.
#
# ## Why sixteen
#
# A token is $D$ sums over its whole patch, and no later layer sees the pixels again. A
# smaller patch mixes fewer of them. Why not one word a pixel? Because every word is
# compared with every word. With $t$ tokens (the patches, and one more that
# {ref}`ch-vit` adds) that is $t^2$ pairs. Each costs $D$ multiplications to compare and
# $D$ more to hand something over: $2 t^2 D$ in a block. The rest of a block of the
# paper's models treats tokens one by one, at about $12 t D^2$. We borrow both numbers:
# {ref}`ch-attention` counts the pairs and 4 of the 12, {ref}`ch-encoder` the other 8.
#
# **Guess before you read on.** From patches of 16 pixels to patches of 8 there are 4
# times as many tokens. How many times dearer does ViT-B become: 4, 16, or something
# between?

# %%
SIZES = (32, 16, 8, 4, 2, 1)
pairs, rest = [], []  # billions of multiply-adds for one image
for size in SIZES:
    config = vit_config("ViT-B/16", patch_size=size)
    t, d = config.num_tokens, config.embed_dim
    pairs.append(config.depth * 2 * t * t * d / 1e9)
    rest.append(budget.macs(config) / 1e9 - pairs[-1])
    total = pairs[-1] + rest[-1]
    share = pairs[-1] / total
    print(f"P = {size:2} {t:7,} tokens {total:9,.1f} G, pairs {share:4.0%}")

# %% [markdown]
# $78.1 / 17.6 = 4.4$: hardly more than 4, since at 16 pixels the pairs are 4% of the
# work. (G stands for a billion multiply-adds.)

# %%
figures.show(*drawings.cost(SIZES, pairs, rest))

# %% [markdown]
# The dashed line is twice as steep. "Attention is quadratic" is true of 15% of the work
# at 8 pixels. Below 4 the pairs take over: with a word a pixel, the picture costs 2,900
# times what it costs at 16. In memory they count sooner. Each pair has weights, twelve
# in a block of ViT-B, which must be kept or computed again for training. From 16 pixels
# to 8 they already become 16 times as many, and with a word a pixel:

# %% tags=["nbval-check-output"]
for size, expected in ((16, "1.9 MB"), (1, "120.9 GB")):
    config = vit_config("ViT-B/16", patch_size=size)
    in_bytes = 4 * config.num_heads * config.num_tokens**2  # float32
    unit = {"MB": 1e6, "GB": 1e9}[expected[-2:]]
    assert f"{in_bytes / unit:.1f}" == expected[:-3]
assert round(budget.macs(vit_config("ViT-B/16")) / 1e9, 2) == 17.56
print("one block's weights for one image: 1.9 MB at 16, 120.9 GB at 1 pixel")

# %% [markdown]
# In the other direction, larger patches are cheap and cost accuracy. Pre-trained on
# ImageNet-21k and fine-tuned on ImageNet at 384 pixels, ViT-B/32 reaches 81.28% and
# ViT-B/16 83.97%; for the large network it is 80.99% and 85.15% (the paper's Table 5).
# Sixteen lies between the two; the largest model of the paper takes 14.
#
# ## Where this stands in the paper
#
# Section 3.1 and Figure 1 of {cite:t}`dosovitskiy2021`; {eq}`eq-patches` is the inside
# of its equation (1). The rest, $\mathbf{x}_\text{class}$ and $\mathbf{E}_{pos}$, is
# added in {ref}`ch-vit`:
#
# $$
# \mathbf{z}_0 = [\mathbf{x}_\text{class};\ \mathbf{x}_p^1\mathbf{E};
# \ \dots;\ \mathbf{x}_p^N\mathbf{E}] + \mathbf{E}_{pos} \tag{1}
# $$
#
# Table 1 lists the sizes B, L and H. Appendix D.2 varies the patch size while all else
# stays: accuracy rises steadily as patches get smaller. It is not that more is learned.
# From 32 to 16 pixels, at the $D = 1024$ of that study and 224 pixels, $\mathbf{E}$
# loses 2.4 million numbers and the positions gain 0.15 million.
#
# ```{admonition} Differs from the paper
# Equation (1) has no bias; the authors' code adds one after $\mathbf{E}$, and so do we.
# The authors keep the kernel in the order (row, column, channel, d), PyTorch wants (d,
# channel, row, column): the same numbers, and a place to go wrong. The network of this
# page is ours alone: the paper has none of this size, nor patches of 7 pixels.
# ```
#
# ## In five lines
#
# * A picture becomes a row of words by cutting: $N = HW/P^2$ patches of $P^2 C$
#   numbers.
# * Loop, reshape, pattern and convolution write the same cut; order row, column,
#   channel.
# * Nothing is lost, if the grid is known; a wrong grid or order raises no error.
# * One learned matrix $\mathbf{E}$, or the equal convolution, makes $D$ numbers of a
#   patch.
# * Halving $P$ means 4 times the tokens: 4 times the work while patches are large,
#   towards 16 times when they are small.
#
# Can you answer from this page?
#
# 1. Why does a network need more than the set of its patches, the smaller they are?
# 2. Why does `unpatchify` have to be told the grid?
# 3. Which of the two wrong orders costs nothing if the network is trained with it?
#    Why?
# 4. What is the difference between $P^2 C$ and $D$, and when are they equal?
# 5. Why is halving $P$ from 16 only 4.4 times dearer, and from 2 nearly 13 times?
#
# ## Three readings
#
# {cite:t}`dosovitskiy2021`, section 3.1
# : One page, and all of this chapter is in its first paragraph. Read it now, and see
#   which words of it are still empty: they are the next three chapters.
#
# {cite:t}`cordonnier2020`
# : Patches of 2×2 pixels and full attention, before ViT, and a proof that attention can
#   do what a convolution does. The ViT authors name it as the closest relative of their
#   model; what ViT adds is size: larger patches, larger pictures, more data.
#
# {cite:t}`xiao2021early`
# : Disagrees. One large step of 16 pixels is an odd convolution, the authors say. They
#   conjecture that it makes ViTs sensitive to how they are trained, and test that: with
#   a few small convolutions in its place, training becomes steadier and ImageNet
#   accuracy rises by 1 to 2 points. Then a word is no longer a piece of the picture.
#   {cite:t}`nguyen2024pixels` disagree in the other direction: single pixels as words
#   work well where they can be paid for.
#
# ## Exercises
#
# ```{exercise} ★ Count before you cut
# :label: ex-images-count
# How many patches, and how many numbers in each: 384×384 pixels in colour by 16; 28×28
# in grey by 7; 224×224 in colour by 14; a strip of 128×1024 in grey by 16?
# ```
#
# ```{exercise} ★ A place in the row
# :label: ex-images-place
# In a flat patch of 16×16 pixels with 3 channels, where stands the green value of row
# 2, column 5? Red is channel 0, green 1; rows and columns are counted from 0 too.
# ```
#
# ```{exercise} ★★ No piece of the picture
# :label: ex-images-scattered
# Cut without the `permute`, about nine digits of ten are still named right, though no
# word holds a square of the picture. How can that be? Now put all 784 pixels in one
# random order, the same for every digit. Predict the score, then test it with `score`.
# ```
#
# ```{exercise} ★★ Where the lines cross
# :label: ex-images-cross
# From the two costs in the text: at how many tokens does the comparison of pairs take
# half of the work? Which patch size is that for ViT-B at 224 pixels? Is it reached
# sooner by a wider network?
# ```
#
# ```{exercise} ★★ A fifth way
# :label: ex-images-unfold
# `F.unfold(images, 2, stride=2)` cuts patches too, in another layout. Find the einops
# pattern that makes `patchify`'s rows of it.
# ```
#
# ```{exercise} ★★ Words that overlap
# :label: ex-images-overlap
# A kernel of 16 pixels may move 8 at a time. How many tokens does a picture of 224
# pixels give then, and how many times dearer does ViT-B become? What would `unpatchify`
# have to do?
# ```
#
# ```{exercise} ★★★ One pixel to the right
# :label: ex-images-shift
# A cat that moves is the same cat. Move the picture by 16 pixels, then by 1, with
# `torch.roll`, which lets what falls out come in on the other side. How many of the 196
# rows are found again, anywhere? What does that mean for a network that must learn
# about cats?
# ```
#
# A row of tokens waits, and none of them knows of another: each was made from its own
# patch alone. {ref}`ch-attention` lets them look at each other.
#
# ## Solutions
#
# ```{solution-start} ex-images-count
# :class: dropdown
# ```
#
# $24 \cdot 24 = 576$ patches of 768 numbers; 16 of 49; 256 of 588; 512 of 256.

# %% tags=["exercise-solution"]
for shape, size in (
    ((3, 384, 384), 16),
    ((1, 28, 28), 7),
    ((3, 224, 224), 14),
    ((1, 128, 1024), 16),
):
    print(
        shape, size, "->", tuple(patchify(torch.zeros(1, *shape), size).shape)
    )

# %% [markdown]
# ```{solution-end}
# ```
#
# ```{solution-start} ex-images-place
# :class: dropdown
# ```
#
# Two full rows of 16 pixels and five pixels come before it, each with 3 numbers, and
# red before green: $(2 \cdot 16 + 5) \cdot 3 + 1 = 112$.

# %% tags=["exercise-solution"]
place = (2 * 16 + 5) * 3 + 1
assert flat[0, 0, place] == picture[1, 2, 5]
print(place)

# %% [markdown]
# ```{solution-end}
# ```
#
# ```{solution-start} ex-images-scattered
# :class: dropdown
# ```
#
# A word need not mean anything to us. In every digit the same 49 pixels meet in it, so
# its numbers mean the same each time; $\mathbf{E}$ can weigh any 49 pixels, and the
# blocks bring all words together. Scattered pixels do about as well as strips:

# %% tags=["exercise-solution", "nbval-ignore-output"]
generator = torch.Generator().manual_seed(0)
print(f"{score(torch.randperm(784, generator=generator)):.1%}")

# %% [markdown]
# A patch has one advantage: neighbours, which belong together, meet in the first
# product. On these digits it is worth about a point, as the six seeds in the text say.
#
# ```{solution-end}
# ```
#
# ```{solution-start} ex-images-cross
# :class: dropdown
# ```
#
# $12 t D^2 = 2 t^2 D$ at $t = 6D$. For ViT-B that is 4,608 tokens, a grid of 68×68 and
# patches of 3.3 pixels: in the figure, between 4 and 2. A wider network reaches it
# later: with $D = 1280$ at 7,680 tokens. In a large model pairs are a smaller part of
# the work.
#
# ```{solution-end}
# ```
#
# ```{solution-start} ex-images-unfold
# :class: dropdown
# ```
#
# `unfold` gives (b, c·p·q, n): channel first within a patch, and patches last.

# %% tags=["exercise-solution"]
columns = F.unfold(images, 2, stride=2)  # (b, c*p*q, n) = (1, 8, 4)
fifth = rearrange(columns, "b (c p q) n -> b n (p q c)", p=2, q=2)
assert torch.equal(fifth, patchify(images, 2))
print("unfold, reordered: the same rows")

# %% [markdown]
# ```{solution-end}
# ```
#
# ```{solution-start} ex-images-overlap
# :class: dropdown
# ```
#
# $(224 - 16) / 8 + 1 = 27$ a side, 729 patches and 730 tokens in place of 197.
# `unpatchify` would find most pixels in four patches and have to take a mean.

# %% tags=["exercise-solution"]
maps = F.conv2d(batch, torch.zeros(1, 3, 16, 16), stride=8)
tokens = maps[0, 0].numel() + 1


def block_cost(t, d=768):
    """Multiply-adds of one block of ViT-B for t tokens."""
    return 12 * t * d**2 + 2 * t**2 * d


print(
    f"{tokens} tokens, {block_cost(tokens) / block_cost(197):.1f} times dearer"
)

# %% [markdown]
# ```{solution-end}
# ```
#
# ```{solution-start} ex-images-shift
# :class: dropdown
# ```

# %% tags=["exercise-solution"]
before = {tuple(row) for row in flat[0].tolist()}
for step in (16, 1):
    moved = patchify(batch.roll(step, dims=-1), 16)[0]
    found = sum(tuple(row) in before for row in moved.tolist())
    print(f"moved by {step:2}: {found} of 196 rows found again")

# %% [markdown]
# After a step of one patch, the same words stand in other places. After one pixel,
# every word is a new one, though to the eye nothing happened. A convolution of small
# stride gives nearly the same maps, moved by one; here the network has to learn from
# examples that these 196 rows and those 196 mean the same. More data can teach it, and
# so can moving the training images at random: the recipe of the first cell does so by
# up to 2 pixels.
#
# ```{solution-end}
# ```
