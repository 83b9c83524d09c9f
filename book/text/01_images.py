# %% [markdown] tags=["links", "remove-cell"]
# [Open in Colab](COLAB) · [this page on the site](SITE) · about an hour · under a minute of computing on a laptop, no GPU needed

# %% tags=["setup", "remove-cell"]
import vitedu

# %% [markdown]
# # Images as words
#
# Let's start with something that works. The book's package, `vitedu`, holds a trained Vision
# Transformer (*ViT* for short) and a photograph. It takes four lines to ask the model, a
# ViT-Ti/16, what it sees. *Ti* stands for tiny, and what the 16 stands for, you'll see in a
# minute.

# %% tags=["nbval-ignore-output", "hide-input"]
import math

import numpy as np
import torch
from einops import rearrange
from torch import nn
from torch.nn.functional import avg_pool2d

from vitedu import figures
from vitedu.figures.chapters import images as drawings
from vitedu.figures import photos

torch.set_num_threads(1)
_ = torch.manual_seed(0)
print(f"seed 0, cpu, torch {torch.__version__}, vitedu {vitedu.__version__}")

# %%
model = vitedu.load("ViT-Ti/16")
photo = vitedu.data.photo("hopper")
for name, probability in vitedu.classify(model, photo, top=4):
    print(f"{probability:4.0%}  {name}")

# %% tags=["hide-input"]
small = torch.tensor(np.array(photo.resize((192, 225)))).permute(2, 0, 1) / 255
guesses = vitedu.classify(model, photo, top=4)
seen = "A portrait of a woman with glasses, in a navy uniform and a cap."
figures.show(*drawings.answers(small, guesses, seen))

# %% [markdown]
# This is Grace Hopper, who wrote one of the first compilers and retired from the US Navy as a
# rear admiral. The model knows a thousand names, but neither "computer pioneer" nor "navy
# cap" is among them, so it does its best with what she's wearing. A pickelhaube is the
# Prussian helmet with the spike, a bearskin the tall fur hat of the Buckingham Palace guards.
# Don't ask about the airship.
#
# For years, the networks that could do this had a bit of eyesight built in: small windows
# that slide over the picture and compare each pixel with its neighbours. This one has
# almost nothing of the kind. It's a Transformer, and Transformers were made for sentences.
# They take in one vector per word, let the vectors exchange what they know, and answer.
#
# But you gave it a photograph, and there isn't a word in it. **So what does a Transformer
# read when it looks at a picture?**

# %% tags=["margin", "hide-input"]
figures.show(*figures.network("patches"))

# %% [markdown]
# The drawing shows the whole network, from the bottom up, with only 16 patches. Today we build
# the filled box; the other names, and the $L$, can wait.
#
# ## Cut it up
#
# A sentence comes apart at the spaces, but a picture has none. The paper that introduced
# the ViT ([Dosovitskiy et al. 2021](https://arxiv.org/abs/2010.11929)) has an answer
# that's almost rude: put a square grid over the picture and cut.
#
# We cut a square out of the photograph, shrink it to 224×224 pixels, and keep it for the whole
# book. `picture` is a tensor with the axes `c` (its channels: red, green, blue), `h` (rows) and
# `w` (columns), and its numbers go from 0 to 1.

# %% tags=["hide-cell"]
# a wider square than `classify` cuts, so percentages will differ a little
square = photo.crop((0, 20, 512, 532)).resize((224, 224))
picture = torch.tensor(np.array(square)).permute(2, 0, 1) / 255
print(tuple(picture.shape))


# %% [markdown]
# A *patch* is a slice of rows and a slice of columns. Two loops cut out all of them.


# %%
def cut(picture, size):
    """(c, h, w) -> a list of patches (c, size, size), row by row."""
    _, h, w = picture.shape
    return [
        picture[:, top : top + size, left : left + size]
        for top in range(0, h, size)
        for left in range(0, w, size)
    ]


patches = cut(picture, 16)
print(len(patches), "patches of shape", tuple(patches[0].shape))

# %% tags=["hide-input"]
panels = {
    "the picture": picture,
    "its patches": drawings.mosaic(patches, columns=14, gap=4),
}
seen = (
    "The portrait, and beside it the same with white gaps between its "
    "14 rows of 14 square patches."
)
figures.show(*photos.pictures(panels, seen))

# %% [markdown]
# You get fourteen rows of fourteen patches, in reading order, and each is a word of
# 16×16 pixels. That's the 16 in the model's name, and the 16x16 in the paper's title, *An
# Image is Worth 16x16 Words*: the size of a word, not the number of words.

# %% [markdown] tags=["predict"]
# Let's shuffle the patches: four large ones, then 49 smaller ones, then our 196. For each size
# we try twenty shuffles and keep the name that wins most often, with its average probability
# over all twenty. **When is that name no longer a uniform?**
#
# * with 4 patches
# * with 49
# * with 196
# * never: every pixel is still there

# %% tags=["hide-input"]
panels = {}
for size in (112, 32, 16):
    mixed = [drawings.shuffled(cut(picture, size), seed=s) for s in range(20)]
    with torch.no_grad():
        shares = model(2 * torch.stack(mixed) - 1).softmax(dim=-1)
    name = shares.argmax(dim=-1).mode().values  # the most frequent
    share = shares[:, name].mean().item()
    title = f"{(224 // size) ** 2} patches"
    panels[title] = mixed[3], model.class_names[name], share
seen = (
    "The portrait with its patches in random order, three times. With 4 it is "
    "easy to put together, with 49 hard, with 196 hopeless."
)
figures.show(*drawings.captioned(panels, 3, seen))

# %% tags=["nbval-check-output", "remove-cell"]
four, *_, many = panels.values()
assert [name for _, name, _ in panels.values()][1:] == ["mortarboard"] * 2
assert four[1] == "military uniform" and many[2] > four[2]
print("surer of the mortarboard in 196 pieces than of the uniform in four")

# %% [markdown]
# Already with 49. In the middle panel, one of the twenty shuffles, you can still hunt for her:
# half a pair of glasses here, the ribbons there. But the model's commonest answer is a
# mortarboard, the flat cap of a graduation. With 196 patches there's hardly anything left to
# find, yet the model is no less sure. A high percentage doesn't mean that it sees what you see.
#
# The order counts, then, but nothing inside a patch says where it belongs. Each patch will have
# to be told ([chapter 4](04_vit.ipynb)).
#
# ## Unroll each patch
#
# A Transformer wants each word as one flat list of numbers. In which order do you unroll a
# patch? First all its red, then all its green? Or pixel by pixel?
#
# Try it on an image in which every number says where it comes from: hundreds for the channel,
# tens for the row, ones for the column. Its four patches have 2×2 pixels each.

# %%
channel = 100 * torch.arange(2)[:, None, None]
row = 10 * torch.arange(4)[:, None]
column = torch.arange(4)
image = channel + row + column  # (c, h, w) = (2, 4, 4)

# %% tags=["hide-input"]
figures.show(*drawings.numbered(image, 2))


# %% [markdown]
# Read the first flat patch drawn there: 0, 100, 1, 101. At each pixel you take all its channels,
# then you step one pixel to the right, and at the end of the row you go down to the next. *Row,
# column, channel.* Any fixed order would do; we take the one in the authors' files.
#
# In code it's a single line, with `rearrange` from a small library called
# [einops](https://einops.rocks). You name the axes before and after:


# %% tags=["teaches"]
def patchify(images, patch_size):
    """(b, c, h, w) -> (b, n, p*p*c): flat patches, row by row."""
    p = patch_size
    return rearrange(images, "b c (gh p) (gw q) -> b (gh gw) (p q c)", p=p, q=p)


# %% [markdown]
# Left of the arrow, `b` counts images, and brackets split an axis: `(gh p)` turns the height
# into `gh` patches of `p` rows, `(gw q)` the width into `gw` patches of `q` columns. Right of
# it, brackets join axes, and the last name in them counts fastest, like the ones digit of a
# number. `(gh gw)` numbers the `n` patches in reading order, and `(p q c)` is our row, column,
# channel.
#
# The model was trained on pixels from −1 to 1. Stretch Hopper to that range, make her a batch
# of one, cut, and print two pixels of the first patch:

# %%
x = 2 * picture[None] - 1  # (b, c, h, w)
flat = patchify(x, 16)  # (b, n, p*p*c)
print(tuple(x.shape), "->", tuple(flat.shape))
print([f"{number:.2f}" for number in flat[0, 0, :6]], "...")

# %% [markdown]
# In both pixels the third number, blue, is the highest: you're looking at the dark blue of the
# flag.

# %% tags=["nbval-check-output", "remove-cell"]
by_loop = [each.permute(1, 2, 0).flatten() for each in cut(x[0], 16)]
assert torch.equal(flat[0], torch.stack(by_loop))
tiny = patchify(image[None], 2)
assert tiny[0, 0].tolist() == [0, 100, 1, 101, 10, 110, 11, 111]
print("the loop and the pattern: the same 196 lists of 768 numbers")

# %% [markdown] tags=["predict"]
# ## Ask each patch questions
#
# A language model looks each word up in a table and finds a learned vector there. With patches
# that can't work, because you'll practically never meet the same 768 numbers twice.
#
# Instead, let's ask each patch some questions. How bright are you? How much brighter on the
# right than on the left? A question is a list of factors, one for each number in the patch.
# Multiply each number by its factor, add up, and there's the answer.
#
# Pick up a pencil. Here are three patches of 2×2 grey pixels:
#
# $$
# \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix} \qquad
# \begin{pmatrix} 0 & 4 \\ 0 & 4 \end{pmatrix} \qquad
# \begin{pmatrix} 3 & 3 \\ 3 & 3 \end{pmatrix}
# $$
#
# The first question adds up all four pixels. The second adds the two on the right and
# subtracts the two on the left. **What does the left patch answer to the second question?**

# %%
three = torch.tensor([[1, 2, 3, 4], [0, 4, 0, 4], [3, 3, 3, 3]])
questions = torch.tensor([[1, -1], [1, 1], [1, -1], [1, 1]])
print((three @ questions).tolist())

# %% [markdown]
# Each column of `questions` is a question, and the result has a pair of answers for each patch.
# The middle patch has a sharp edge, and its second answer says so.
#
# That's the whole step. Write $D$ questions side by side as the columns of a matrix
# $\mathbf{E}$, and each patch becomes the list of its $D$ answers. This list is its *token*, the
# vector that the Transformer reads. And nobody makes the questions up: they're learned. Here's
# the step in one picture, with the $\mathbf{E}$ of the real model:

# %% tags=["hide-input"]
with torch.no_grad():
    products = model.patch_embed(x)[0] - model.patch_embed.proj.bias
figures.show(*drawings.embedding(picture, products))


# %% [markdown]
# Three flat patches go in with 768 numbers each and come out with 192. In the paper, this is
# part of equation (1):
#
# $$
# \mathbf{x}_p^i\,\mathbf{E} \qquad \text{with} \quad
# \mathbf{x}_p^i \in \mathbb{R}^{P^2 C}, \quad
# \mathbf{E} \in \mathbb{R}^{(P^2 C) \times D}, \quad i = 1, \dots, N
# $$
#
# $\mathbf{x}_p^i$ is flat patch number $i$ of $N$, $P$ is the side of a patch in pixels, and $C$
# the number of channels. So $P^2 C$ follows from how you cut. But $D$, the length of a token, is
# yours to choose. It's called the *width* of the network.
#
# ## A convolution asks them all
#
# In the code of a ViT, you'll usually find a convolution in place of $\mathbf{E}$. It cuts and
# multiplies in one call, and PyTorch's is fast. A convolution lays a small array of weights, its
# *kernel*, on the picture, multiplies each number by the weight on top of it, and adds up: one
# question, asked in one place.
#
# Make the kernel as large as a patch and move it by a whole patch at a time (its *stride*), and
# it asks every patch once. Each kernel is then a column of $\mathbf{E}$, folded back into the
# shape of a patch. There is a sliding window in this network after all, but it never looks
# across the edge of a patch.


# %% tags=["teaches"]
class PatchEmbedding(nn.Module):
    """Each patch times E of equation (1): (b, c, h, w) -> (b, n, d)."""

    def __init__(self, patch_size, in_channels, embed_dim):
        super().__init__()
        p = patch_size
        self.proj = nn.Conv2d(in_channels, embed_dim, p, stride=p)

    def forward(self, images):
        x = self.proj(images)  # (b, d, gh, gw)
        return rearrange(x, "b d gh gw -> b (gh gw) d")


# %% [markdown]
# Give your class the weights that the real model learned. They come with a *bias*: one constant
# per question, added to its answer. To get $\mathbf{E}$, unroll each kernel like a patch, in the
# order `(p q c)`. The last line asks whether the matrix gives the same tokens as the
# convolution.

# %%
embed = PatchEmbedding(16, in_channels=3, embed_dim=192)
_ = embed.load_state_dict(model.patch_embed.state_dict())
tokens = embed(x).detach()  # (1, 196, 192): your words

E = rearrange(embed.proj.weight, "d c p q -> (p q c) d").detach()
bias = embed.proj.bias.detach()  # (d,)
print(torch.allclose(flat @ E + bias, tokens, atol=1e-4))

# %% tags=["nbval-check-output", "remove-cell"]
double = embed.double()
wide = rearrange(double.proj.weight, "d c p q -> (p q c) d")
product = patchify(x.double(), 16) @ wide + double.proj.bias
# float64, sums of 768 terms in two orders
assert torch.allclose(product, double(x.double()), rtol=0, atol=1e-12)
embed.float()
with torch.no_grad():
    assert torch.equal(embed(x), model.patch_embed(x))
print("computed in double precision, equal to 12 decimals")


# %% [markdown]
# It does, so the box in the drawing is built. Let's break it.
#
# ## Right shape, wrong numbers
#
# Here's a mistake that raises no error: keep the channel in front, `(c p q)`, as PyTorch does.
# The first flat patch of the numbered image would then begin with 0, 1, 10, 11: the same numbers,
# channel by channel.

# %% [markdown] tags=["predict"]
# When you made $\mathbf{E}$, though, you unrolled its kernels in the order `(p q c)`. So every
# patch stays in its place, but the numbers inside it meet the wrong factors. The function
# `answer` (folded below) sends the tokens through the rest of the model. **What will it call
# Grace Hopper now?**
#
# * still a military uniform, but less sure
# * something else, and it won't be sure
# * something else, and it will be sure


# %% tags=["hide-cell"]
@torch.no_grad()
def answer(tokens, top=3):
    """Tokens (1, n, d) through all later layers: names and probabilities."""
    tokens = torch.cat([model.cls_token, tokens], dim=1) + model.pos_embed
    y = model.norm(model.blocks(tokens))
    best = model.forward_head(y)[0].softmax(dim=-1).topk(top)
    names = [model.class_names[number] for number in best.indices]
    return list(zip(names, best.values.tolist(), strict=True))


# %% tags=["failure"]
wrong = "b c (gh p) (gw q) -> b (gh gw) (c p q)"
channel_first = rearrange(x, wrong, p=16, q=16)
print(tuple(channel_first.shape), "as it should be")
for name, probability in answer(channel_first @ E + bias, top=2):
    print(f"{probability:4.0%}  {name}")


# %% [markdown]
# A window shade, and it's sure. To see why, turn the flat patches back into a picture. `paste`
# does it with the pattern of `patchify`, read from right to left.


# %%
def paste(flat, p):
    """(b, n, p*p*c) -> (b, c, h, w), if the order is (p q c)."""
    gh = math.isqrt(flat.shape[1])
    back = "b (gh gw) (p q c) -> b c (gh p) (gw q)"
    return rearrange(flat, back, gh=gh, p=p, q=p)


# %% tags=["hide-input"]
panels = {
    "what you meant, (p q c)": paste(flat, 16)[0],
    "what you fed it, (c p q)": paste(channel_first, 16)[0],
}
panels = {title: each / 2 + 0.5 for title, each in panels.items()}
seen = (
    "Flat patches pasted as (p q c), twice. Cut right, they give the portrait; "
    "cut as (c p q), a coarse grey portrait of striped squares."
)
figures.show(*photos.pictures(panels, seen))

# %% [markdown]
# There it hangs, slats and all. This is what the network got, because cutting this striped
# picture correctly gives the very numbers you fed it. In each patch, red, green and blue are now
# three bands, one below another. It's nearly grey, because three neighbouring reds are read as
# the red, green and blue of one pixel.
#
# If you train from scratch, though, this order is harmless: training simply learns $\mathbf{E}$
# [with its factors in that order](#Reshape-and-permute-by-hand).
#
# > **Remember.** A shape tells you how many numbers there are, not where each came from. Test
# > every reordering on an image with numbered pixels.
#
# ## What the real model asks
#
# The real model learned 192 questions, and each is a kernel of 16×16 pixels in three channels: a
# small colour picture. Here's the whole of $\mathbf{E}$. The *liveliest* questions come first,
# those whose answers vary most over the patches of five photographs, Hopper's included. A
# question's number is its column in $\mathbf{E}$, counted from 0.

# %% tags=["hide-input"]
names = ("hopper", "cat", "coffee", "astronaut", "rocket")
five = [vitedu.preprocess(model, vitedu.data.photo(name)) for name in names]
filters = embed.proj.weight.detach()
with torch.no_grad():
    spread = embed(torch.cat(five)).flatten(0, 1).std(dim=0)  # (d,)
liveliest = spread.argsort(descending=True).tolist()
seen = (
    "All 192 kernels as small colour pictures. Some in the first row are "
    "plain orange, brown or green, or have soft shadings; further down there "
    "is confetti around grey. The first three are also drawn large: an orange "
    "one, one that is bright at the right, one that is bright at the top."
)
figures.show(*drawings.kernels(filters, liveliest, 3, seen))

# %% [markdown]
# Grey means "this pixel doesn't count", and each tile has its own scale. In the first row you
# can read a few; further down it's mostly confetti.
#
# Look at the three large ones. **What do they ask?** Put it in words, and then let Hopper's
# patches answer. Each question has its own column in the tokens, with one answer per patch.
# Put that column back on the grid of patches, and you get a picture again.

# %% tags=["hide-cell"]
maps = rearrange(tokens[0], "(gh gw) d -> d gh gw", gh=14)
print(tuple(tokens.shape), "->", tuple(maps.shape))

# %% tags=["hide-input"]
rows = {
    f"question {number}": (filters[number], maps[number])
    for number in (113, 30, 75)
}
seen = (
    "For each of the three questions its kernel, the patch with the highest "
    "answer, the one with the lowest, the portrait with these two framed, and "
    "a map of 14 by 14 answers. Number 113, orange: skin says yes, the blue "
    "wall says no, and the map shows the face bright. Number 30: yes from a "
    "patch that is dark at the left and white at the right, no from the "
    "opposite. Number 75: yes from one that is bright at the top and black "
    "below, no from the opposite. Their maps light up at single edges, such as "
    "the shoulder and the cap."
)
figures.show(*drawings.questions(rows, picture, 5, seen))


# %% [markdown]
# Question 113 asks *are you warm or blue?* The loudest yes comes from a patch of skin, the
# loudest no from the blue wall. And on the map, there she is, in one number per patch.
#
# Question 30 is roughly the one you did in pencil: *how much brighter are you on the right?*
# ([Roughly](#Do-they-ask-that?), because it also dislikes bright tops.) And question 75
# asks *how much brighter are you at the top?*
#
# The maps of these two look like noise, but compare them with the portrait: they show its edges.
# On the last map, the yellow slope is her shoulder, with bright wall above it, and the dark bar
# is the lower edge of her cap.

# %% [markdown] tags=["predict"]
# ## How many answers does it need?
#
# The rest of the real model can now take over your tokens. But does it need all 192 answers?
# First, every patch keeps only its answers to the three liveliest questions. To every other
# question, each patch gives the average answer of all patches. Then more questions come in, the
# liveliest first. **How many does it need before it says "military uniform"?**
#
# * 3
# * 8
# * 32
# * 64
# * all 192


# %%
def read(known, tokens=tokens):
    """What the model says if only these questions are answered."""
    some = tokens.mean(dim=1, keepdim=True).repeat(1, 196, 1)
    some[:, :, known] = tokens[:, :, known]
    return answer(some)[0]


# %% tags=["hide-input"]
generator = torch.Generator().manual_seed(0)
draws = [torch.randperm(192, generator=generator)[:64] for _ in range(10)]


def painted(known, flat=flat[0]):
    """A picture from its average patch and these kernels alone."""
    basis = torch.linalg.qr(E[:, known]).Q  # (p*p*c, k)
    mean = flat.mean(dim=0)
    some = mean + (flat - mean) @ basis @ basis.mT
    return paste(some[None], 16)[0] / 2 + 0.5


asked = {f"{count} answers": liveliest[:count] for count in (3, 8, 32, 64)}
asked |= {"all 192": liveliest, "64 at random": draws[0]}
panels = {title: (painted(q), *read(q)) for title, q in asked.items()}
seen = (
    "The portrait painted with the kernels of 3, 8, 32, 64 and all questions: "
    "at first a ghost of orange and grey squares, then a blurred face, then "
    "nearly the photograph. With 64 questions picked at random she is dark and "
    "speckled, and her jacket has turned red."
)
figures.show(*drawings.captioned(panels, 3, seen))
uniforms = sum(read(known)[0] == "military uniform" for known in draws)
print(f"64 answers picked at random, ten times: a uniform {uniforms} times")

# %% tags=["nbval-check-output", "remove-cell"]
names = [name for _, name, _ in panels.values()]
assert names[:3] == ["tile roof", "space shuttle", "bearskin"]
assert names[3:5] == ["military uniform"] * 2 and uniforms == 0
print("tile roof, space shuttle, bearskin, and from 64 answers on a uniform")

# %% [markdown]
# A tile roof, a space shuttle, a hat, and with 64 answers she's in uniform. For her, a third of
# the questions is enough, but not just any third: picked at random, it failed in all ten tries.
# (The 83% at the top of the page, instead of 87%, came from the narrower square that `classify`
# cuts.)
#
# The portraits are [painted](#How-the-portraits-are-painted) for you alone; the model gets only
# the numbers. You know who she is, so you find her with eight answers. From the same eight, the
# model makes a space shuttle.
#
# And a picture of yours? Open this chapter in Colab or Jupyter, put the name of your file in
# place of this cup of coffee, and run all cells:

# %%
yours = vitedu.data.photo("coffee")  # or yours = "my photo.jpg"

# %% tags=["hide-input"]
pixels = vitedu.preprocess(model, yours)  # (1, 3, 224, 224), from -1 to 1
its_flat, its_tokens = patchify(pixels, 16)[0], embed(pixels).detach()
panels = {
    f"{count} answers": (
        painted(liveliest[:count], its_flat),
        *read(liveliest[:count], its_tokens),
    )
    for count in (3, 8, 32, 64)
}
seen = "The picture painted with 3, 8, 32 and 64 answers, ever more clearly."
figures.show(*drawings.captioned(panels, 2, seen))

# %% [markdown]
# The coffee is first a worm, then an eggnog and a clear soup, and only then an espresso. How
# many answers does yours need?
#
# So that's what a Transformer reads when it looks at a picture: a sequence of vectors, each a
# list of answers about one small square. The rest of the model never sees anything else of
# Hopper.
#
# ## What to take with you
#
# 1. You cut a picture $H$ pixels high and $W$ wide into words: $N = HW/P^2$ patches, each a flat
#    list of $P^2 C$ numbers, in the order row, column, channel.
# 2. A learned matrix $\mathbf{E}$ asks each patch $D$ questions, and the answers are its token;
#    in code, it's a convolution whose stride is the patch size.
# 3. A wrong order raises no error. If you load weights, it can turn a rear admiral into a window
#    shade.
#
# You can also [follow one patch](try.md#Walk) through the whole network.
#
# Can you answer these without scrolling up? ([Answers](#Solutions))
#
# 1. When is `(c p q)` harmless, and when is it ruinous?
# 2. What decides $P^2 C$, and what decides $D$?
# 3. Why does half the patch size mean four times as many tokens? (And [what would
#    that cost](#What-sixteen-costs)?)
#
# Your 196 tokens are ready, and so far none of them knows that the others exist. From inside, a
# piece of Hopper's black cap looks just like a piece of her black jacket. How can a token find
# out what it's a piece of? It has to look around, in [chapter 2](02_attention.ipynb).
#
# ## Exercises
#
# Of the numbered ones, the first four need no typing. The [solutions](#Solutions) are at the
# end of the page.
#
# ✎ Write `patchify` and `PatchEmbedding` again, in your own way and from memory. After
# `from vitedu import check`, `check.patchify(patchify)` tells you how closely yours
# agrees with ours, or what's likely to be wrong with it; so does
# `check.patch_embedding(PatchEmbedding)`.
#
# **1.** ★ How many patches do you get, and how many numbers are in each: 384×384 pixels
# in colour by 16; 28×28 in grey by 7; 224×224 in colour by 14; a strip of 128×1024 in
# grey by 16?
#
# **2.** ★ In a flat patch of 16×16 pixels with three channels, at what index is the
# green value of row 2, column 5? Everything is counted from 0, and green is channel 1.
#
# **3.** ★ Somebody writes the patch product as `nn.Linear(D, D)`, tests it with ViT-B/16 (B for
# base, patches of 16) at 224 pixels, and is happy. For which of these does it break: B/32
# ($D = 768$), L/16 (L for large, $D = 1024$), Ti/16 ($D = 192$), B/16 at 384 pixels?
#
# **4.** ★★ Read [What sixteen costs](#What-sixteen-costs) first. In each block, the
# pairs of $t$ tokens of width $D$ cost $2 t^2 D$ multiply-adds, and everything else
# $12 t D^2$. At how many tokens do the pairs take half of the work? Is that sooner or
# later in a wider network?
#
# **5.** ★★ OpenCV loads pictures as blue, green, red. Predict what the model says about
# Hopper if you forget to swap them, and which of the questions 113, 30 and 75 notices.
# Then try it: `x.flip(1)` reverses the channels.
#
# **6.** ★★ Read [What strips cost](#What-strips-cost) first. Then put all 784 pixels of
# the digits into one random order, the same for each digit, so that a word is 49 pixels
# from anywhere. Predict the accuracy before you run `score`. (`torch.randperm(784)` gives you
# an order, and `images.flatten(1)[:, order].reshape(images.shape)` applies it.)
#
# **7.** ★★★ A cat that moves is the same cat. Move the picture by 16 pixels with
# `x.roll(16, -1)`, then by 1 instead. How many of the 196 flat patches do you find again,
# anywhere? What does that mean for a network that should recognise cats? (A set of `tuple(word)`
# for each `word` in `flat[0].tolist()` makes the search short.)
#
# ## Second reading
#
# Nothing here is needed for the next chapter.
#
# ### Reshape and permute by hand
#
# For a single patch, `permute` moves the channel to the end, and `flatten` lays the numbers out
# in one list, stepping through the last axis fastest.

# %%
patch = cut(image, 2)[0]  # (c, p, q) = (2, 2, 2)
print(patch.permute(1, 2, 0).flatten().tolist())

# %% [markdown]
# For all patches at once, you split height and width into (how many, how large), bring the
# axes that count patches to the front, and join.

# %%
six = x.reshape(1, 3, 14, 16, 14, 16)  # (b, c, gh, p, gw, q)
six = six.permute(0, 2, 4, 3, 5, 1)  # (b, gh, gw, p, q, c)
by_hand = six.reshape(1, 14 * 14, 16 * 16 * 3)

# %% tags=["nbval-check-output", "hide-cell"]
assert torch.equal(by_hand, flat)
print("reshape, permute, reshape: the same numbers")

# %% [markdown]
# The `permute` in the middle is the line that gets forgotten, because the shape comes out
# right without it. `torch.nn.functional.unfold` cuts as well, but in the order
# `(c p q)` and with the patches last. And if the patch size doesn't divide the side?
# `patchify` raises an error, while the convolution silently drops the rest.
#
# Pasting back isn't a test, by the way: if you cut and paste with the same wrong order, the
# picture looks right. And if the factors in $\mathbf{E}$ are in that order too, the tokens come
# out right. That's why you can train with `(c p q)` from scratch.

# %%
E_first = rearrange(E, "(p q c) d -> (c p q) d", p=16, q=16)
print(torch.allclose(channel_first @ E_first, flat @ E, atol=1e-4))

# %% [markdown]
# ### The grid must be known
#
# `paste` took the square root of the number of patches. That only works for squares.
# The whole photograph, resized to 240×208 pixels, has 15 rows of 13 patches, and 195
# has no whole root. You have to know the grid, and know which number comes first:

# %% tags=["failure", "hide-input"]
tall = torch.tensor(np.array(photo.resize((208, 240)))).permute(2, 0, 1) / 255
portrait = patchify(tall[None], 16)
pattern = "b (gh gw) (p q c) -> b c (gh p) (gw q)"
panels = {
    f"grid ({gh}, {195 // gh})": rearrange(portrait, pattern, gh=gh, p=16, q=16)
    for gh in (15, 13)
}
# at half the resolution: for the shape of the thing that's enough
panels = {title: avg_pool2d(each[0], 2) for title, each in panels.items()}
seen = (
    "The portrait pasted as 15 rows of 13 patches, and as 13 rows of 15: in "
    "the second, each row of patches slides further sideways."
)
figures.show(*photos.pictures(panels, seen))

# %% [markdown]
# Again there's no error, since $15 \cdot 13 = 13 \cdot 15$. You'll meet this again when
# positions are resized for another resolution.
#
# ### What strips cost
#
# Forget the `permute`, and you cut with `x.reshape(1, 196, 768)`. The shape is right, but each
# word is now a *strip* instead of a patch: about three and a half rows of the image, nearly
# always in one colour. No $\mathbf{E}$ can change which pixels meet in a word.
#
# What does that cost, if you train from scratch? Let's train the network that you'll have
# written by [chapter 5](05_mnist.ipynb) (`vitedu.plain` has it) on 2,500 handwritten
# digits, moved about a little and cut into 16 patches, once as squares and once as strips.

# %% tags=["nbval-ignore-output", "hide-input"]
digits = vitedu.data.load_dataset("digits")
steps = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
pixels = digits.train.images / 127.5 - 1
images = torch.cat([pixels.roll(step, (2, 3)) for step in steps])
labels = digits.train.labels.repeat(9)
test_images = digits.test.images / 127.5 - 1
test_labels = digits.test.labels
rows = {
    "as squares": test_images[:4],
    "as strips": paste(test_images[:4].reshape(-1, 16, 49), 7),
}
# pixels 196 to 244: patch 4 of the 16, at the left of the second row
outlines = [
    [(0, 7), (28, 7), (28, 8), (21, 8), (21, 9), (0, 9)],
    [(0, 7), (7, 7), (7, 14), (0, 14)],
]
seen = (
    "Four handwritten digits; below, the same with their pixels in strips, "
    "which no eye reads as digits. A blue outline shows one strip of the 7, "
    "not quite two lines across the picture; below, it fills one square."
)
figures.show(*drawings.digits(rows, seen, outlines))

# %% [markdown]
# The lower row is what the network gets when you forget the `permute`. (In blue: one
# strip of the 7, and the square it's folded into.) `images` and `labels` are the digits to learn
# from. With squares the network names about 95 of 100 new digits correctly. **How many with
# strips?**

# %% tags=["failure", "nbval-ignore-output"]
from vitedu import plain

sizes = {"embed_dim": 32, "depth": 2, "num_heads": 4, "mlp_dim": 64}


def score(change, seed=0):
    """Train on digits that `change` has altered; the test accuracy."""
    torch.manual_seed(seed)
    network = plain.ViT(28, 7, in_channels=1, num_classes=10, **sizes)
    plain.train(network, change(images), labels, epochs=4, lr=0.01)
    return plain.accuracy(network, change(test_images), test_labels)


squares = score(lambda images: images)
strips = score(lambda images: paste(images.reshape(-1, 16, 49), 7))
print(f"seed 0: squares {squares:.1%}, strips {strips:.1%}")

# %% tags=["nbval-check-output", "hide-cell"]
assert squares > 0.92 and 0.90 < strips < squares + 0.01
print("the wrong cut learns too, above 90%")


# %% [markdown]
# It loses about a point. `score` takes a seed, so you can try others: over the seeds 0 to 4,
# squares reach 95% and strips 94% on average, and each time the strips got four to six more of
# the 500 test digits wrong.
#
# Why so little? In every digit the same 49 pixels meet in a strip, so its numbers mean the same
# thing each time, and the later layers bring all words together. In your own project you'd
# blame the missing point on the data.
#
# ### Do they ask that?
#
# Do 113, 30 and 75 really ask *warm*, *right* and *top*? Compute from the pixels what each
# interpretation predicts, and correlate that with the real answers: 1 is a perfect fit, 0
# is none. Each question should fit its own interpretation best.


# %%
def predicted(x):
    """(1, 3, 224, 224) -> (3, 14, 14): warm, right, top, from pixels."""
    red, green, blue = avg_pool2d(x, 16)[0]  # of each patch
    grey = x.mean(dim=1)
    across = avg_pool2d(grey, (16, 8))[0]  # left half, right half, ...
    down = avg_pool2d(grey, (8, 16))[0]  # top half, bottom half, ...
    right = across[:, 1::2] - across[:, ::2]
    return torch.stack([red + green - 2 * blue, right, down[::2] - down[1::2]])


both = torch.cat([maps[[113, 30, 75]], predicted(x)]).flatten(1)
print("      warm  right    top")
for number, fits in zip((113, 30, 75), both.corrcoef()[:3, 3:], strict=True):
    print(f"{number:3}", *(f"{fit:6.2f}" for fit in fits))

# %% tags=["nbval-check-output", "hide-cell"]
with torch.no_grad():
    for other in five[1:]:
        told = rearrange(embed(other)[0], "(gh gw) d -> d gh gw", gh=14)
        both = torch.cat([told[[113, 30, 75]], predicted(other)]).flatten(1)
        fits = both.corrcoef()[:3, 3:]
        assert (fits.diag() > 0.75).all()
        assert (fits.argmax(dim=1) == torch.arange(3)).all()
print("on the four other photographs, too, each fits its own best")


# %% [markdown]
# They do. But look at the −0.48: question 30 dislikes bright tops. Go back to its kernel, and
# you'll see that the bright corner is at the *lower* right. "Brighter on the right" is most of
# what it asks, but not all.
#
# Why is 113 the liveliest question, although 30 has the larger answers here? Because the order
# counts all five photographs together. A red and orange cup of coffee is warm in nearly every
# patch, the wall behind Hopper is cool, and so the answers to 113 are far apart.
#
# ### How the portraits are painted
#
# To paint a patch from some of its answers, we start from the average patch and add as much of
# each kernel as it takes to make exactly these answers come out. Many patches would give the
# same answers, because even 192 answers can't pin down 768 numbers. The one you see is the one
# closest to the average patch.
#
# ### What sixteen costs
#
# Smaller patches keep finer detail, but there are more of them. And from the next chapter on,
# every token is compared with every other, so there are *pairs* to count, too.
#
# Go from 16 pixels to 8. You get four times the tokens, and each of them meets four times as
# many others, which makes sixteen times the pairs. **So how many times more work is it in
# all?**
#
# Count the multiply-adds in one block of the network (the dashed box in the drawing of
# the whole), for $t$ tokens of width $D$. Comparing all pairs takes $t^2 D$ of them,
# and carrying something over between them takes $t^2 D$ again. Everything else treats
# tokens one by one, and takes $12 t D^2$ in the sizes of the paper (4 of the 12 are in
# [chapter 2](02_attention.ipynb), 8 in [chapter 3](03_encoder.ipynb)). The numbers are for
# ViT-B, since the paper has no ViT-Ti.


# %%
def multiply_adds(t, d=768, depth=12):
    """The blocks of ViT-B, in billions: pairs, and the rest."""
    return depth * 2 * t**2 * d / 1e9, depth * 12 * t * d**2 / 1e9


for p in (32, 16, 8, 4, 2):
    t = (224 // p) ** 2 + 1  # one more token: chapter 4
    pairs, rest = multiply_adds(t)
    total, part = pairs + rest, pairs / (pairs + rest)
    print(f"P = {p:2} {t:6,} tokens {total:8,.1f} billion, pairs {part:4.0%}")

# %% [markdown]
# Only four and a half times as much, because most of the work is done on one token at a
# time. "Attention is quadratic" becomes the whole story only when patches get tiny.
# Memory is a different story: when you train, the numbers that belong to pairs have to be
# stored or computed twice.
#
# And what do smaller patches buy? In the paper, the step from 32 to 16 takes ViT-B from 81.28%
# to 83.97% on ImageNet, after a first training on the larger ImageNet-21k
# ([Dosovitskiy et al. 2021](https://arxiv.org/abs/2010.11929), Table 5).
#
# ## Where this is in the paper
#
# Section 3.1 and the left half of Figure 1 of
# [Dosovitskiy et al. 2021](https://arxiv.org/abs/2010.11929). What you wrote is the
# inside of equation (1); the class token in front and the positions at the end come in
# [chapter 4](04_vit.ipynb).
#
# $$
# \mathbf{z}_0 = [\mathbf{x}_\text{class};\ \mathbf{x}_p^1\mathbf{E};\
# \dots;\ \mathbf{x}_p^N\mathbf{E}] + \mathbf{E}_{pos} \tag{1}
# $$
#
# Figure 7 (left) shows the kernels of ViT-L/32, not one by one as on this page, but as
# their principal components. Appendix D.2 varies the patch size with everything else
# fixed, and smaller patches help steadily.
#
# ### What differs
#
# * The small $p$ in $\mathbf{x}_p^i$ only means "patch". The side of a patch is $P$ in the paper
#   and `p` in our code.
# * Equation (1) has no bias. The authors' code adds one, and so do we.
# * The authors' files keep $\mathbf{E}$ as (row, column, channel, $D$), PyTorch wants
#   ($D$, channel, row, column). The numbers are the same, and it's a place to go wrong.
# * The paper has no network as small as ViT-Ti. The weights we load came later, with
#   [Steiner et al. 2022](https://arxiv.org/abs/2106.10270). The network for digits
#   is ours.
#
# ## Three readings
#
# * [Dosovitskiy et al. 2021](https://arxiv.org/abs/2010.11929), section 3.1. One page.
#   The first paragraph is this chapter. Mark the words in the other paragraphs that
#   still mean nothing to you; they're the next three chapters.
# * [Cordonnier et al. 2020](https://arxiv.org/abs/1911.03584). Before ViT, with patches
#   of 2×2 pixels, and with a proof that attention can do what a convolution does.
# * [Xiao et al. 2021](https://arxiv.org/abs/2106.14881) disagree. One giant step of 16
#   pixels is a strange convolution, they say; replace it by a few small ones, and
#   training becomes steadier. [Nguyen et al. 2025](https://arxiv.org/abs/2406.09415)
#   disagree in the other direction: single pixels make good words, if you can pay.
#
# ## Solutions
#
# <details><summary>Three questions</summary>
#
# 1. Harmless if you train from scratch: training finds $\mathbf{E}$ with its factors in that
#    order. Ruinous if you load weights that were learned with another order.
# 2. $P^2 C$ follows from how you cut, $D$ is the width you choose for the network.
# 3. You get twice as many patches across, and twice as many down. For ViT-B, 8 pixels
#    instead of 16 cost about [four and a half times](#What-sixteen-costs) as many multiply-adds.
#
# </details>
#
# <details><summary>Solution 1</summary>
#
# 576 patches of 768 numbers; 16 of 49; 256 of 588; 512 of 256.
#
# </details>
#
# <details><summary>Solution 2</summary>
#
# Two full rows of 16 pixels and five more pixels come before it, with three numbers each, and
# then the red of its own pixel: $(2 \cdot 16 + 5) \cdot 3 + 1 = 112$.
#
# </details>
#
# <details><summary>Solution 3</summary>
#
# It needs $P^2 C = D$, and in B/16 both happen to be 768. B/32 has $P^2 C = 3072$ and
# breaks; L/16 and Ti/16 have 768 and another $D$, so they break; B/16 at 384 pixels
# works, since only the number of patches changes.
#
# </details>
#
# <details><summary>Solution 4</summary>
#
# $2 t^2 D = 12 t D^2$ gives $t = 6D$: for ViT-B that's 4,608 tokens, roughly a 68×68 grid.
# In a wider network it's later, so in large models the pairs are a smaller part of the
# work.
#
# </details>
#
# <details><summary>Solution 5</summary>
#
# Question 113 notices: warm and blue change places, and its new answers are nearly the negative
# of the old ones. The other two compare light with dark and hardly care. The model still says
# "military uniform", only less surely than the 87% from before. Here the answer is still right,
# and that's why this mistake is so hard to find.
#
# </details>

# %% tags=["hide-cell"]
swapped = embed(x.flip(1)).detach()
for number in (113, 30, 75):
    both = torch.stack([tokens[0, :, number], swapped[0, :, number]])
    print(f"question {number:3}: correlation {both.corrcoef()[0, 1]:.2f}")
for name, probability in answer(swapped, top=2):
    print(f"{probability:4.0%}  {name}")

# %% [markdown]
# <details><summary>Solution 6</summary>
#
# It still learns, to between 91 and 93% with seeds 0 to 4 (the cell below trains seed 0), three
# points less than with squares on average. A word needn't mean anything to you. As with strips,
# the same 49 pixels meet in it each time, and the later layers bring all words together. But
# neighbouring pixels belong together, and a square lets them meet in the very first product.
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
order = torch.randperm(784, generator=torch.Generator().manual_seed(0))


def scattered(images):
    """Digits whose pixels are in one random order."""
    return images.flatten(1)[:, order].reshape(images.shape)


print(f"scattered {score(scattered):.1%}")

# %% [markdown]
# <details><summary>Solution 7</summary>
#
# By 16 pixels, all of them: the same words, each one place further. (`roll` lets what falls out
# come in again on the other side.) By one pixel, none at all, though your eye sees no
# difference. A network like ours has to learn from examples that all these different words mean
# the same, and that's one reason why ViTs want a lot of data, or training pictures that are
# moved around at random.
#
# </details>

# %% tags=["hide-cell"]
known = {tuple(word) for word in flat[0].tolist()}
for step in (16, 1):
    moved = patchify(x.roll(step, -1), 16)[0].tolist()
    found = sum(tuple(word) in known for word in moved)
    print(f"moved by {step:2}: {found} of 196 words found again")
