# %% [markdown] tags=["links", "remove-cell"]
# [Open in Colab](COLAB) · [this page on the site](SITE) · about an hour · a quarter of a minute of computing on a laptop, no GPU needed

# %% tags=["setup", "remove-cell"]
import vitedu

# %% [markdown]
# # Everybody's weights
#
# Three photographs, and the trained network of [chapter 4](04_vit.ipynb) that knows what's
# in them. Let's ask it twice, and change one line in between. (A folded cell defines
# `prepared`, which gives the photographs as `model` wants them, and `say`, which prints
# the most probable class for each.)

# %% tags=["nbval-ignore-output", "hide-input"]
import os

import torch

torch.set_num_threads(1)
_ = torch.manual_seed(0), torch.set_grad_enabled(False)  # nothing is trained
TIER = os.environ.get("VITEDU_TIER", "cpu")
print(f"tier {TIER}, seed 0, cpu, torch {torch.__version__}")

# %% tags=["hide-input"]
from vitedu.data import photo

photographs = {
    "hopper": photo("hopper").crop((0, 20, 512, 532)),
    "cat": photo("cat"),
    "coffee": photo("coffee"),
}


def prepared():
    """The photographs as `model` wants them: (3, 3, 224, 224)."""
    return torch.stack([model.preprocess(p) for p in photographs.values()])


def best(logits):
    """The most probable class of each photograph, and how probable."""
    shares, places = logits.softmax(dim=-1).max(dim=-1)
    names = [model.class_names[place] for place in places]
    return [f"{x} {y:.0%}" for x, y in zip(names, shares, strict=True)]


def say(logits):
    """Print the best of each photograph in one line."""
    print(", ".join(best(logits)))


# %% tags=["nbval-ignore-output"]
from dataclasses import replace

IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}

model = vitedu.load("ViT-Ti/16")
right = model(prepared())
say(right)
model.preprocess = replace(model.preprocess, **IMAGENET)
wrong = model(prepared())
say(wrong)

# %% tags=["hide-input"]
from vitedu import figures
from vitedu.figures import weights as drawings

model = vitedu.load("ViT-Ti/16")  # with its own preprocessing again
seen = dict(zip(photographs, prepared() / 2 + 0.5, strict=True))
before = dict(zip(photographs, best(right), strict=True))
after = dict(zip(photographs, best(wrong), strict=True))
figures.show(*drawings.answers(seen, before, after))

# %% [markdown]
# The six numbers in `IMAGENET` are the mean and the deviation of ImageNet's pixels, and
# they're in nearly every tutorial about images. This network wants its pixels from −1 to
# 1 instead. Give it the famous six, and Grace Hopper's uniform is a mask and the coffee a
# candle. There's no error and no warning, and the network is quite sure of its candle. If
# you'd tried it on the cat alone, you'd have noticed nothing.
#
# It happens to professionals. An example of Microsoft's Olive had the same six numbers,
# and when somebody [put them right](https://github.com/microsoft/Olive/pull/1781), the
# accuracy rose from 0.77 to 0.82. A user of
# [a program in C++](https://github.com/staghado/vit.cpp/issues/18) for checkpoints like
# ours found them there, too.
#
# The 5.7 million weights were right all the time. So here's the question: **how do you
# get somebody else's trained network into your own class, and how do you find out if
# something went wrong on the way?**
#
# ## One matrix, five names
#
# In chapter 4 the file fitted your class at once, because `vitedu.plain` uses the names
# of the library timm. Most files won't be so kind. The network is always the paper's, but
# everybody who programs it invents new names for its parts, and a new way to lay out the
# numbers.
#
# So the same 5.7 million weights come in many *dialects*. A folded cell has written ours in
# four of them, with the names that their owners use, and opened the files again. It adds
# a fifth, because Hugging Face's library has called things differently inside since its
# version 5. For each you get a dict, from names to arrays.

# %% tags=["nbval-ignore-output", "hide-input"]
import warnings

import numpy as np
from safetensors.torch import load_file

from vitedu.weights import convert, hf
from vitedu.weights.renaming import to_theirs

told = {}
for to, target in {
    "npz": "authors.npz",
    "timm": "timm",
    "torchvision": "torchvision.pth",
    "hf": "hugging-face",
}.items():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        convert("ViT-Ti/16", target, to=to)
    told[to] = [str(each.message) for each in caught]

# %% tags=["hide-input"]
rows = hf.rows_in(model.config, "vit.", hf.MEMORY)
files = {
    "the authors": dict(np.load("authors.npz")),
    "timm, and this book": load_file("timm/model.safetensors"),
    "torchvision": torch.load("torchvision.pth", weights_only=True),
    "Hugging Face": load_file("hugging-face/model.safetensors"),
    "Hugging Face inside": to_theirs(rows, model.state_dict(), 0),
}

# %%
for owner, arrays in files.items():
    print(f"{len(arrays)} arrays: {owner}")

# %% [markdown]
# Not even the number agrees. To see why, follow a single matrix: the one that turns tokens
# into values, in the first block. (Remember [chapter 2](02_attention.ipynb): queries, keys
# and values each have a matrix.)

# %% tags=["hide-input"]
block = "Transformer/encoderblock_0/"
places = {
    "the authors": (block, "MultiHeadDotProductAttention_1/", "value/kernel"),
    "timm, and this book": ("blocks.0.attn.qkv.weight",),
    "torchvision": (
        "encoder.layers.encoder_layer_0.",
        "self_attention.in_proj_weight",
    ),
    "Hugging Face": (
        "vit.encoder.layer.0.",
        "attention.attention.value.weight",
    ),
    "Hugging Face inside": ("vit.layers.0.", "attention.v_proj.weight"),
}
ways = {
    "heads": 'rearrange(x, "d h hd -> (h hd) d")',
    "joint": "x[384:]",
    "three": "x, as it is",
}
forms = ["heads", "joint", "joint", "three", "three"]
table = [
    drawings.Dialect(who, name, files[who]["".join(name)].shape, ways[f], f)
    for (who, name), f in zip(places.items(), forms, strict=True)
]
figures.show(*drawings.dialects(table))

# %% [markdown]
# The dark green part is our matrix. The bold line says how you get it out of the array
# `x`, as 192×192 numbers. Three things differ from row to row:
#
# * **The name.** That's only text.
# * **What's kept together.** timm and torchvision stack the matrices of queries, keys and
#   values into one tall array. The others keep three.
# * **The order of the axes.** The authors use JAX, Google's library, where the array of a
#   layer is (in, out). PyTorch keeps (out, in).
#
# Take a pencil for the last one. JAX computes $x W$, for example
#
# $$ x = (1, 2), \qquad W = \begin{pmatrix} 1 & 0 & 3 \\ 0 & 1 & 1 \end{pmatrix},
# \qquad x W = (1, 2, 5) $$
#
# and its file holds $W$, two rows of three. PyTorch's file holds the same six numbers as
# three rows of two, $W^\top$. So if you carry weights from one to the other, you have to
# turn every matrix. Remember that. It'll bite.
#
# The authors also split the outputs into heads: 3 heads of 64 numbers. It looks fussy, but
# theirs is the only one of the five that remembers how many heads there are.
#
# ## A dialect in two small functions
#
# Let's read the authors' file, because it differs from ours in all three. Here are its names
# and shapes. The "…" is what the names of the first block have in common, and the eleven
# other blocks are left out.

# %%
authors = {
    name: torch.from_numpy(array)
    for name, array in files["the authors"].items()
}
for name, array in authors.items():
    if "block" not in name or "block_0/" in name:
        short = name.replace("Transformer/encoderblock_0", "…")
        print(f"{tuple(array.shape)!s:18} {short}")

# %% [markdown]
# Begin with the matrix from the figure. `rearrange` is the function from
# [chapter 1](01_images.ipynb): on the left the axes as they are, on the right as they
# should be. Do we get timm's matrix?

# %%
from einops import rearrange

attention = "Transformer/encoderblock_0/MultiHeadDotProductAttention_1"
theirs = authors[f"{attention}/value/kernel"]
ours = files["timm, and this book"]["blocks.0.attn.qkv.weight"][384:]
turned = rearrange(theirs, "d heads hd -> (heads hd) d")
print(torch.equal(turned, ours))

# %% tags=["nbval-check-output", "hide-input"]
values = [
    files[row.owner]["".join(row.name)] if row.form != "heads" else turned
    for row in table
]
values = [
    each[384:].float() if len(each) == 576 else each.float() for each in values
]
assert all(torch.equal(each, ours.float()) for each in values)
print("checked: the five names hold the same matrix, to the last bit")


# %% [markdown]
# To the last bit. Nearly all the other arrays follow the same rule: the axis of the inputs
# goes last, and if there are heads, they're flattened. (A *kernel* is what JAX calls a
# matrix of weights.) Two kernels have an order of their own: the one that embeds patches of
# $p \times q$ pixels and $c$ colours, and `out`, whose *inputs* are the heads.


# %%
def in_our_order(name, array):
    """An array of the authors', with PyTorch's order of axes."""
    if name == "embedding/kernel":
        return rearrange(array, "p q c d -> d c p q")
    if name.endswith("out/kernel"):
        return rearrange(array, "heads hd d -> d (heads hd)")
    if name.endswith("kernel"):
        return rearrange(array, "d ... -> (...) d")
    return array.flatten() if array.ndim == 2 else array


# %% [markdown]
# The names are a table. Every row is a piece of text to replace, from the top down:

# %%
NAMES = {  # theirs: ours
    "Transformer/posembed_input/pos_embedding": "pos_embed",
    "Transformer/encoder_norm": "norm",
    "Transformer/encoderblock_": "blocks.",
    "MultiHeadDotProductAttention_1/out": "attn.proj",
    "MultiHeadDotProductAttention_1": "attn",
    "MlpBlock_3/Dense_0": "mlp.fc1",
    "MlpBlock_3/Dense_1": "mlp.fc2",
    "LayerNorm_0": "norm1",
    "LayerNorm_2": "norm2",
    "embedding/": "patch_embed.proj.",
    "cls": "cls_token",
    "kernel": "weight",
    "scale": "weight",
    "/": ".",
}

# %% [markdown]
# What's left is to stack queries, keys and values. We ask for them by name and don't rely
# on their order in the file, because nobody has promised us one.

# %%
from itertools import product

QKV = ("query", "key", "value")


def translate(arrays):
    """The authors' arrays -> the state_dict of our ViT."""
    state = {}
    for theirs, array in arrays.items():
        name = theirs
        for old, new in NAMES.items():
            name = name.replace(old, new)
        state[name] = in_our_order(theirs, array)
    for i, end in product(range(12), ("weight", "bias")):
        start = f"blocks.{i}.attn"
        parts = [state.pop(f"{start}.{x}.{end}") for x in QKV]
        state[f"{start}.qkv.{end}"] = torch.cat(parts)
    return state


state = translate(authors)
print(len(authors), "arrays of theirs,", len(state), "of ours")

# %% [markdown]
# Thirty-odd lines, and half of them are a table. Now give the result to the class that you
# wrote in chapter 4, in float64, so that "equal" can mean equal.

# %%
from vitedu.plain import ViT

mine = ViT().double()
print(mine.load_state_dict(state, strict=True))
images = prepared().double()
logits = mine(images)
say(logits)

# %% [markdown]
# It looks good. But you've seen how little that means, so let's ask somebody else's
# program. A folded cell gives timm's class the file in timm's dialect and the same
# photographs, and calls the logits `reference`.

# %% tags=["hide-input"]
from vitedu.compat import import_timm

TimmViT = import_timm().models.VisionTransformer
timm_vit = TimmViT(embed_dim=192, num_heads=3).double().eval()
_ = timm_vit.load_state_dict(files["timm, and this book"], strict=True)
reference = timm_vit(images)

# %%
difference = (logits - reference).abs().max() / reference.abs().max()
print("largest difference below 1e-10:", bool(difference < 1e-10))

# %% tags=["nbval-check-output", "hide-input"]
assert difference < 1e-10 and reference.std() > 0.1
assert all(array.is_floating_point() for array in state.values())
print("checked: 3,000 logits, equal to timm's")

# %% [markdown]
# The authors' file, your class, timm's numbers. Your dialect reads any ViT of twelve blocks
# that the authors fine-tuned and published, ViT-B/16 for example, if you build `ViT` in its
# size. [Exercise 3](#Exercises) does the other depths.
#
# ## What a strict load can't see
#
# **Suppose you get just one line of `in_our_order` wrong: you flatten `out/kernel` to
# 192×192, but you forget to turn it. What will PyTorch say when you load the arrays
# strictly? And what will the network say?**

# %% tags=["failure", "nbval-ignore-output"]
careless = dict(state)
for i in range(12):
    name = f"blocks.{i}.attn.proj.weight"
    careless[name] = state[name].T
print(mine.load_state_dict(careless, strict=True))
say(mine(images))

# %% [markdown]
# "All keys matched successfully", and Hopper is a coil. A strict load compares names and
# shapes, and a square matrix keeps its shape when you turn it. Every block has four square
# ones: queries, keys, values and output. If you write a converter by turning whatever
# PyTorch complains about, these four stay wrong.
#
# Then there's what has no array at all. The arrays alone can't tell you
#
# * **how many heads** there are, except in the authors' form;
# * **which GELU** it is. The authors' code has an approximation with a tanh, while PyTorch
#   computes the exact one unless you ask;
# * **the epsilon** of each LayerNorm, the tiny number that keeps it from dividing by zero.
#   timm's ViT has $10^{-6}$. PyTorch's default is $10^{-5}$, and that of Hugging Face's ViT
#   $10^{-12}$;
# * **how to prepare a photograph**: its size, the crop, the filter, mean and deviation, and
#   whether red or blue comes first.
#
# Some dialects keep a JSON file beside the arrays that says it. With the others, you have to
# know the habits of the house. Get one wrong, and nobody complains.
#
# ## What does a silent mistake cost?
#
# Let's make the mistakes on purpose. Here are the first seven, three wrong settings of the
# network and four wrong ways to prepare a photograph:

# %%
SETTINGS = {
    "12 heads, not 3": {"num_heads": 12},
    "tanh GELU": {"gelu": "tanh"},
    "epsilon 1e-5": {"norm_eps": 1e-5},
}
PICTURES = {
    "ImageNet mean, std": IMAGENET,
    "pixels 0 to 1": {"mean": 0.0, "std": 1.0},
    "squashed": {"crop": None},
    "bilinear resize": {"interpolation": "bilinear"},
}


# %% [markdown]
# For this model a photograph is scaled until its short side is 248 pixels, with a *bicubic*
# filter, and then the middle 224×224 are cut out. *Squashed* means that the whole photograph
# is pressed into the square instead. *Bilinear* is a simpler filter.
#
# Two more mistakes are in the arrays. Somebody takes the queries' matrix for the keys' and
# the keys' for the queries'. And somebody numbers the patches from top to bottom, when the
# table of positions goes line by line.


# %%
def swap_q_and_k(state):
    for name in state:
        if "qkv" in name:
            q, k, v = state[name].chunk(3)
            state[name] = torch.cat([k, q, v])


def positions_by_column(state):
    token, table = state["pos_embed"].split([1, 196], dim=1)
    table = rearrange(table, "b (x y) d -> b (y x) d", x=14)
    state["pos_embed"] = torch.cat([token, table], dim=1)


# %% [markdown]
# The tenth is a classic. Some libraries, like OpenCV, read a photograph with blue first,
# then green, then red: BGR.
#
# **Ten mistakes. Which three cost most? Which will you not see in the answers at all? Write
# down your guess before you go on.**


# %% tags=["hide-input"]
def trial(name, settings=None, pictures=None, edit=None, is_bgr=False):
    """One mistake: the change of a logit, and what the network says now."""
    global model
    model = vitedu.load("ViT-Ti/16", **(settings or {}))
    model.preprocess = replace(model.preprocess, **(pictures or {}))
    if edit:
        changed = model.state_dict()
        edit(changed)
        model.load_state_dict(changed, strict=True)
    x = prepared()
    found = model(x.flip(1) if is_bgr else x)
    change = (found - reference).abs().max()
    said = [model.class_names[i] for i in found.argmax(dim=-1)]
    print(f"{name:19}{change:8.2g} {', '.join(said)}")
    return float(change)


# %% tags=["nbval-ignore-output", "hide-input"]
print(f"{'':21}change of a logit, and what it says now")
changes = {"right": trial("right")}
for name, change in SETTINGS.items():
    changes[name] = trial(name, settings=change)
for name, change in PICTURES.items():
    changes[name] = trial(name, pictures=change)
changes["BGR for RGB"] = trial("BGR for RGB", is_bgr=True)
changes["q and k swapped"] = trial("q and k swapped", edit=swap_q_and_k)
name = "positions by column"
changes[name] = trial(name, edit=positions_by_column)

# %% tags=["nbval-check-output", "hide-input"]
assert changes["right"] < 1e-3
assert changes["epsilon 1e-5"] < 0.01 < changes["bilinear resize"]
assert 0.001 < changes["tanh GELU"] < 0.2
worst = ("12 heads, not 3", "q and k swapped", "positions by column")
assert min(changes[name] for name in worst) > 5
print("checked: attention's mistakes are large, epsilon's is tiny")

# %% [markdown]
# (The change without a mistake is rounding: this time the network computes in float32.)
# Some mistakes turn everything into nonsense. Some spare the cat. And several leave no trace
# in the answers.
#
# But three photographs are an anecdote. A recorded run has made the same mistakes, and a
# few more, on 1,000 photographs, one from each class of ImageNet. It counts the right
# answers, and notes by how much a logit moved at most.

# %% tags=["nbval-ignore-output", "hide-input"]
from vitedu import results

record = results.read("imagenet-sample")
metrics = record["metrics"]
WORDS = {
    "qk_swapped": "q and k swapped",
    "heads_12": "12 heads, not 3",
    "qkv_by_head": "q, k, v by head",
    "out_transposed": "out not turned",
    "positions_transposed": "positions by column",
    "kernel_transposed": "pixels by column",
    "imagenet_mean_std": "ImageNet mean, std",
    "pixels_0_1": "pixels 0 to 1",
    "bgr": "BGR for RGB",
    "squash": "squashed",
    "bilinear": "bilinear resize",
    "resize_256": "short side 256",
    "tanh_gelu": "tanh GELU",
    "norm_eps_1e-5": "epsilon 1e-5",
    "norm_eps_1e-12": "epsilon 1e-12",
}

# %% tags=["nbval-ignore-output", "hide-input"]
costs = [
    drawings.Cost(
        key,
        words,
        metrics[f"top1/{key}"]["value"],
        metrics[f"largest_change/{key}"]["value"],
    )
    for key, words in WORDS.items()
]
without = metrics["top1/none"]["value"]
figures.show(*drawings.costs(costs, 1_000, without))
print(f"{without} of 1,000 are right without a mistake")
print(f"{record['command']}")
print(f"{record['hardware']}, {record['date']}")

# %% [markdown]
# The dashed line is your network, loaded the right way: 813 of 1,000 photographs. The
# colours say which part is wrong: green for attention, orange for positions, blue for
# patches and pixels, purple for the MLP, grey for the norms. A few rows are new or from
# further up. *Out not turned* was your forgotten line. *q, k, v by head* reads the tall array
# as if each head kept its own three parts together. *Pixels by column* numbers the pixels
# within each patch downwards, and *short side 256* scales to that and not to 248. How good
# was your guess?
#
# **At the top, nothing is left.** One right answer in a thousand is what you'd get by
# guessing. All four mistakes are in attention, and all four load strictly. Take the twelve
# heads: each now compares a query with a key by 16 of their numbers, and the network had
# learned to do it by 64. Three good questions have become twelve that nobody ever learned
# to ask. (Why q and k [can't be swapped](#The-wrong-way-round) is in the second
# reading.)
#
# **In the middle, just enough is left to fool you.** With the famous six numbers, nearly
# half of the answers are still right. If you don't know what the network should reach,
# you'll take it for a weak one, and start to fine-tune it.
#
# **Then three rows tie with the right network.** The record says more: not one of the
# thousand answers is different. All the same, they compute another function, as the dots
# on the right show.
#
# **And two mistakes get *more* photographs right.** Scale the short side to 256 and not to
# 248, and you gain six. Should you? As in [chapter 5](05_mnist.ipynb), count the photographs
# that only one of the two gets right, and divide the difference by the root of their sum.

# %% tags=["nbval-ignore-output", "hide-input"]
import math

for key in ("bilinear", "resize_256", "squash", "bgr"):
    lost, gained, changed = (
        metrics[f"{each}_answers/{key}"]["value"]
        for each in ("lost", "gained", "changed")
    )
    error = math.sqrt(lost + gained)
    print(
        f"{WORDS[key]:16}{changed:4} answers changed: gained {gained:3},"
        f" lost {lost:3}, {(gained - lost) / error:5.1f} errors"
    )

# %% [markdown]
# Both gains are about one error, so by our rule from chapter 5 they're no result. Now look
# at the squashed photographs. One answer in seven changes, but nearly as many turn right
# as turn wrong, so that's no result either. On a thousand photographs, accuracy sees BGR.
# It doesn't see how you cut out the square.
#
# > **Remember.** Accuracy can't tell the right network from a slightly wrong one, and may
# > prefer the wrong one. First compare *logits* with another program's, on a real
# > photograph. Then count right answers.
#
# ## There and back
#
# You won't have to write a dialect for every file. `vitedu.load` knows these and some more,
# and it recognises them by the names of the arrays. But now you know what it does, and what
# to look for in its report:

# %%
model = vitedu.load("authors.npz")
report = model.load_report
print(report.dialect, len(report.loaded), "arrays loaded", report.dropped)
print(model.config.num_heads, "heads,", model.config.gelu, "GELU")
print(model.preprocess.interpolation, model.preprocess.crop)

# %% [markdown]
# Three heads, read off a shape. But the GELU is now the tanh one, and photographs will be
# squashed. Those are the habits of the authors' house, and the file says nothing else. So
# our network has lost something in translation! Did anybody tell us? `convert`, which wrote
# the files at the top of this page, did. Here's what it said:

# %% tags=["nbval-ignore-output"]
import textwrap

for to, warned in told.items():
    for words in warned or ["nothing is lost"]:
        print(textwrap.fill(f"{to}: {words}", 72, subsequent_indent="    "))

# %% [markdown]
# Read the first warning about torchvision to its end. A program that opens the file will
# assume torchvision's own mean and deviation, and there they are, the famous six. It's the
# candle from the top of the page, announced beforehand.
#
# In Hugging Face's form, nothing is lost. So once you have a network of your own, trained on
# your own photographs, you can hand it to people who've never heard of this book:
#
# ```
# vitedu convert runs/my-run my-vit --to hf
# ```
#
# Which files `load` reads, and what each form can hold, is on [the reference
# page](weights.ipynb).
#
# ## What to take with you
#
# 1. A checkpoint is a dict from names to arrays. To read somebody else's, you translate
#    names, put together what belongs together, and turn the axes.
# 2. What has no array travels beside the file or not at all: heads, GELU, epsilon, and how
#    to prepare a photograph.
# 3. A strict load checks names and shapes, accuracy checks the gross mistakes, and only
#    logits compared with another program check the function.
#
# **Five questions**
#
# 1. Why do some of the dialects need 200 arrays, and others only 152?
# 2. Which matrices of a block can be left unturned without PyTorch noticing?
# 3. How can you read off the number of heads in the authors' file, and why in no other?
# 4. Name two mistakes that no accuracy on 1,000 photographs can show, and how you'd find
#    them.
# 5. A downloaded ViT gets half of your photographs right, where its makers promise 80%.
#    What do you check first?
#
# So now you can load anybody's ViT. But it'll insist on 224×224 pixels, because its table of
# positions has a row for each of 196 patches and not one more. Your camera has more to
# offer. Can the same weights read a larger photograph? That's chapter 10.
#
# ## Exercises
#
# **1.** ★ The dialects differ by 48 arrays. Where do exactly 48 come from? And how many
# arrays does the file of a ViT-L/16 hold, with its 24 blocks, in each kind of dialect?
#
# **2.** ★ Which of these would `load_state_dict(strict=True)` notice: (a) `LayerNorm_0` and
# `LayerNorm_2` are exchanged; (b) the two kernels of the MLP aren't turned; (c) the bias of
# the keys is left out; (d) the class token is exchanged with the first row of positions? And
# which of these mistakes does the *network* notice?
#
# **3.** ★★ `translate` works for twelve blocks. Change it so that it finds out by itself how
# many there are, and also how many heads. Why can't you do the second for timm's file?
#
# **4.** ★★ Make two mistakes at once: positions by column, and the pixels within each patch
# by column too (`state["patch_embed.proj.weight"].mT`). Predict what the network says about
# Hopper. What if you also turn the photograph on its side, `images.mT`? Then run it.
#
# **5.** ★★ Swap q and k in the *first* block only, then in the last only. Which hurts more?
# Why isn't the swap harmless, though $q k^\top$ and $k q^\top$ hold the same numbers?
#
# **6.** ★★★ Design a test that tells you whether a file was loaded correctly, if nobody
# else's program is at hand: no timm, no published logits, only unlabelled photographs of
# your own. What would it catch of the mistakes above, and what can it never catch?
#
# ## Second reading
#
# ### The whole table
#
# All that the record holds: right answers of 1,000, with the first or one of the first five
# answers; the mean cross-entropy; and how many answers are others than without a mistake.

# %% tags=["nbval-ignore-output", "hide-input"]
print(f"{'':20} top-1 top-5 cross-entropy changed")
for key, words in {"none": "no mistake", **WORDS}.items():
    first, five, nats, changed = (
        metrics[f"{each}/{key}"]["value"]
        for each in ("top1", "top5", "cross_entropy", "changed_answers")
    )
    print(f"{words:20} {first:5} {five:5} {nats:13.4f} {changed:7}")

# %% [markdown]
# The cross-entropy sees a little more than top-1. Bilinear resizing, for example, gets four
# more answers right but has the higher cross-entropy. The last three rows look like the
# first even there, to the fourth digit.
#
# That two mistakes tie at 384 is chance, as far as we can tell, though they're related: see
# [exercise 4](#Exercises).
#
# ### A file is not a harmless thing
#
# The `.pth` files of PyTorch are *pickles*, and a pickle is a little program that builds
# objects. Opening one from a stranger can run the stranger's code. That's why the folded
# cell above says `weights_only=True`, which is the default since PyTorch 2.6: only tensors
# and plain values are built, all else is refused. An `.npz` can hold pickles, too, and
# `np.load` refuses them unless you ask. A `.safetensors` file can't hold any: it's a header
# of names and shapes, and then numbers.
#
# The package goes a step further: NaNs, files that end early and networks that only look
# like a ViT [are refused](weights.ipynb#What-is-refused) with a sentence.
#
# ### The wrong way round
#
# In the table of scores $q k^\top$, row $i$ says how much token $i$ wants from each other
# token. Swap q and k, and you get the transposed table: row $i$ now says how much each other
# token wants from token $i$. Chapter 2 called the query a question. With the swap, everybody
# takes from those who'd have liked to ask them. It's as if you read a list of who admires
# whom the wrong way round.
#
# The numbers are the same, but the softmax runs over rows, and these are other rows. In a
# single block the damage is small, as [exercise 5](#Exercises) shows, since a block only adds to
# the residual stream (the tokens as they go through the network, [chapter
# 3](03_encoder.ipynb)). Twelve blocks together leave nothing.
#
# ## Where this is in the paper
#
# Nowhere, and that's the point. [Dosovitskiy et al.
# 2021](https://arxiv.org/abs/2010.11929) describe the network in section 3.1 and say in
# 3.2 what becomes of the head and the positions when it's fine-tuned. Which GELU, which
# epsilon and what mean of the pixels is only in the authors' code. Our file isn't from
# that paper either, but by all evidence from [Steiner et al.
# 2022](https://arxiv.org/abs/2106.10270).
#
# ### What differs
#
# * The authors' files hold float32; ours was rounded to float16 to fit into the package.
# * They evaluate with a direct bilinear resize to 224×224; timm, and we with it, use bicubic
#   and the middle of 248 pixels.
# * The 1,000 photographs are no ImageNet validation set: one per class, made smaller and
#   compressed again. Don't compare the 813 with published accuracies.
#
# ## Three readings
#
# * [Steiner et al. 2022](https://arxiv.org/abs/2106.10270) published more than 50,000
#   checkpoints, all in the authors' dialect. Ask yourself how you'd choose one.
# * [Parmar et al. 2022](https://arxiv.org/abs/2104.11222) found that libraries which all say
#   "bilinear" and "bicubic" compute different pictures, and what that did to published
#   numbers.
# * [Touvron et al. 2019](https://arxiv.org/abs/1906.06423) disagree with "prepare the
#   photographs as in training". Objects look larger in training crops than in test crops,
#   so they test on purpose with other sizes, and win.
#
# ## Solutions
#
# <details><summary>Solution 1</summary>
#
# Queries, keys and values have a matrix and a bias each, six arrays in three parts where
# timm has two. That's four more per block, and twelve blocks make 48. A block has 12 arrays
# in timm's dialect and 16 in the authors', and there are 8 outside of the blocks. With 24
# blocks that's 296 and 392.
#
# </details>
#
# <details><summary>Solution 2</summary>
#
# (a) No, they have the same shape, but the network does. (b) Yes: 192×768 isn't 768×192. (c)
# Yes: the bias then has 384 numbers where 576 are expected. (d) No, the shapes fit (you'd
# have to write the row as 1×1×192). And here the network doesn't notice either: by equation
# (1), the class token and the first row of positions are only ever added to each other.
#
# </details>
#
# <details><summary>Solution 3</summary>
#
# Count the names that end in `query/kernel`; that array's second axis is the number of
# heads. Then `range(12)` becomes `range(len(queries))`. In timm's file the array is 576×192,
# whatever the number of heads.
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
queries = [name for name in authors if name.endswith("query/kernel")]
print(len(queries), "blocks of", authors[queries[0]].shape[1], "heads")

# %% [markdown]
# <details><summary>Solution 4</summary>
#
# One mistake mirrors every patch at its diagonal. The other puts it where it would be if the
# whole photograph were mirrored at *its* diagonal. So the two together are the right network
# looking at a mirrored photograph, with Hopper lying on her side. Mirror the photograph as
# well, and the mirrors cancel: the right answers, with the right logits.
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
both = dict(state)
positions_by_column(both)
kernel = "patch_embed.proj.weight"
both[kernel] = both[kernel].mT
mine.load_state_dict(both)
say(mine(images))
mirrored = mine(images.mT)
say(mirrored)
print("the right logits:", bool((mirrored - reference).abs().max() < 1e-8))

# %% [markdown]
# <details><summary>Solution 5</summary>
#
# Neither is a disaster. Hopper wears a military uniform both times. With the swap in the last
# block the network is even surer of her, though less sure of the cat. A block only adds to
# the tokens that pass it, so eleven right ones can make up for a wrong one. That makes the
# mistake all the nastier: in a single block, you'd never find it by looking at answers.
#
# The two tables hold the same numbers, but transposed, and the softmax treats each row by
# itself. Row $i$ was what token $i$ wants, and is now what's wanted from it.
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
for name, i in {"first": 0, "last": 11}.items():
    swapped = dict(state)
    one = {key: state[key] for key in state if f"blocks.{i}.attn.qkv" in key}
    swap_q_and_k(one)
    mine.load_state_dict(swapped | one)
    found = mine(images)
    print(name, f"{(found - reference).abs().max():.1f}")
    say(found)

# %% [markdown]
# <details><summary>Solution 6</summary>
#
# Two ideas. How sure is the network? Take the mean *entropy* of its answers, which is 0 if
# it's certain and $\ln 1000 \approx 6.9$ if it has no idea. And does it say the same about
# a photograph and its mirror image? The cell below tries both.
#
# Broken attention gives itself away by its entropy, and so do the famous six numbers. The
# mirror is less use: a network that says nearly the same about everything passes it. And
# neither finds the photographs that were squashed: the network is just as sure of them. GELU
# and epsilon change too little for any such test. There you need another program, or
# published logits of a published picture.
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
photographs |= {"astronaut": photo("astronaut"), "rocket": photo("rocket")}


def suspicion(network, x):
    """Mean entropy of the answers, and how many stay if x is mirrored."""
    logits, mirrored = network(x), network(x.flip(-1))
    each = -(logits.softmax(dim=-1) * logits.log_softmax(dim=-1)).sum(dim=-1)
    same = (logits.argmax(dim=-1) == mirrored.argmax(dim=-1)).sum()
    return f"entropy {each.mean():.1f}, {same} of {len(x)} stay"


for name in ("right", "12 heads, not 3", "ImageNet mean, std", "squashed"):
    model = vitedu.load("ViT-Ti/16", **SETTINGS.get(name, {}))
    model.preprocess = replace(model.preprocess, **PICTURES.get(name, {}))
    print(f"{name:18}", suspicion(model, prepared()))
model = vitedu.load("ViT-Ti/16")
mine.load_state_dict(careless)
print(f"{'out not turned':18}", suspicion(mine, prepared().double()))
