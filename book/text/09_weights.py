# %% [markdown] tags=["links", "remove-cell"]
# [Open in Colab](COLAB) · [this page on the site](SITE) · about an hour · half a minute of computing on a laptop, no GPU needed

# %% tags=["setup", "remove-cell"]
import vitedu

# %% [markdown]
# # Everybody's weights
#
# Here are three photographs, and the trained network of [chapter 4](04_vit.ipynb), which
# knows what's in them. We'll ask it twice, and change nothing in between but six numbers.
# (`prepared` turns the photographs into a tensor by the rules in `model.preprocess`, and `say`
# prints the most probable class of each.)

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

rules = model.preprocess
model.preprocess = replace(rules, **IMAGENET)
wrong = model(prepared())
say(wrong)
model.preprocess = rules  # its own again

# %% tags=["hide-input"]
from vitedu import figures
from vitedu.figures import photos
from vitedu.figures.chapters import weights as drawings

seen = dict(zip(photographs, prepared() / 2 + 0.5, strict=True))
before = dict(zip(photographs, best(right), strict=True))
after = dict(zip(photographs, best(wrong), strict=True))
figures.show(*drawings.answers(seen, before, after))

# %% [markdown]
# Above each photograph is the right answer, and below it what the six numbers make of it.
# They're the mean and standard deviation of ImageNet's pixels, one pair per colour, and
# many tutorials use them. But this network wants its pixels from −1 to 1, and with these
# numbers they run from about −2.1 to 2.6.
#
# So Grace Hopper's uniform becomes a mask, and the coffee a candle. There's no error and no
# warning. If you'd tried only the cat, you wouldn't have noticed anything.
#
# It happens to professionals, too. An example for Olive, Microsoft's tool for making models
# faster, used the same six numbers with a ViT-B/16. When a contributor [put them
# right](https://github.com/microsoft/Olive/pull/1781), the accuracy rose from 0.77 to 0.82.
#
# The 5.7 million weights were right all along. So here's the question: **how do you get
# another library's trained network into your own class, and how do you find out if
# something went wrong on the way?**
#
# ## One matrix, four names
#
# A file with trained weights is called a *checkpoint*. In chapter 4 it fitted your class at
# once, because you'd taken the names of the parts from the library timm. But each library
# has its own names, and its own way of laying out the numbers: its own *dialect*.
#
# Here are our weights in four dialects. This book's `convert` wrote all the files, even the
# `.npz` (NumPy's archive of arrays) in the dialect of the paper's authors. Open a file, and you
# get a dict from names to arrays, which PyTorch calls a `state_dict`. The four dicts are in `files`:

# %% tags=["nbval-ignore-output", "hide-input"]
import warnings

import numpy as np
from safetensors.torch import load_file

from vitedu.weights import convert

targets = {
    "npz": "authors.npz",
    "timm": "timm",
    "torchvision": "torchvision.pth",
    "hf": "hugging-face",
}
with warnings.catch_warnings():
    # what they say is in the second reading, "There and back"
    warnings.simplefilter("ignore")
    for to, target in targets.items():
        convert("ViT-Ti/16", target, to=to)
# there, the loader also guesses the number of heads from the width
warnings.filterwarnings("ignore", ".*: num_heads=3 is guessed")

# %% tags=["hide-input"]
files = {
    "the authors": dict(np.load("authors.npz")),
    "timm, and this book": load_file("timm/model.safetensors"),
    "torchvision": torch.load("torchvision.pth", weights_only=True),
    "Hugging Face": load_file("hugging-face/model.safetensors"),
}

# %%
for owner, arrays in files.items():
    print(f"{len(arrays)} arrays: {owner}")

# %% [markdown]
# Not even the number of arrays agrees. To see why, follow a single matrix: the one that
# turns tokens into [values](02_attention.ipynb), in the first block.

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
}
ways = {
    "heads": ("rearrange(x,", ' "i heads hd -> (heads hd) i")'),
    "joint": ("x[2 * 192 :]",),
    "three": ("x, as it is",),
}
forms = ["heads", "joint", "joint", "three"]
table = [
    drawings.Dialect(who, name, files[who]["".join(name)].shape, ways[f], f)
    for (who, name), f in zip(places.items(), forms, strict=True)
]
figures.show(*drawings.dialects(table))

# %% [markdown]
# The dark green part is our matrix, and the arrows name its axes. The bold line gets it out
# of the array, `x`. (For timm and torchvision, `x` is the whole column; for the others, only
# the dark square.) Three things can differ:
#
# * **The name.** That's all that differs between timm's arrays and torchvision's.
# * **What's stacked.** timm and torchvision stack the matrices of queries, keys and
#   values into one tall array, with the values last. The other two keep them apart.
# * **The order of the axes.** The authors use JAX, Google's library. There, a matrix of
#   weights, or *kernel*, is stored as (in, out), and you compute $x W$. PyTorch stores (out,
#   in) and computes $x A^\top$ with $A = W^\top$. So you have to *transpose* every matrix.
#
# The authors also split the outputs by head. In their bold line, `i` stands for the inputs,
# `heads` for the three heads, and `hd` for the 64 numbers of each head.
#
# ## Translating a dialect
#
# Let's read the authors' dialect, because it differs from ours in all three ways. Here's
# what's in its first block and outside the blocks. (We leave out arrays with one axis: they
# only need a new name.) "…" stands for `Transformer/encoderblock_0`.

# %%
authors = {
    name: torch.from_numpy(array)
    for name, array in files["the authors"].items()
}
for name, array in authors.items():
    first = "block" not in name or "block_0/" in name
    if first and array.ndim > 1:
        short = name.replace("Transformer/encoderblock_0", "…")
        print(f"{tuple(array.shape)!s:18} {short}")

# %% [markdown]
# Begin with the matrix from the figure. As in [chapter 1](01_images.ipynb), `rearrange` has
# the old order of the axes left of the arrow, and the new order right of it. Is the result
# the last third of timm's array?

# %%
from einops import rearrange

attention = "Transformer/encoderblock_0/MultiHeadDotProductAttention_1"
theirs = authors[f"{attention}/value/kernel"]
ours = files["timm, and this book"]["blocks.0.attn.qkv.weight"][2 * 192 :]
transposed = rearrange(theirs, "i heads hd -> (heads hd) i")
print(torch.equal(transposed, ours))

# %% tags=["nbval-check-output", "hide-cell"]
values = [
    files[row.owner]["".join(row.name)] if row.form != "heads" else transposed
    for row in table
]
values = [
    each[384:].float() if len(each) == 576 else each.float() for each in values
]
assert all(torch.equal(each, ours.float()) for each in values)
x, w = torch.tensor([1, 2]), torch.tensor([[1, 0, 3], [0, 1, 1]])
assert (x @ w).tolist() == torch.nn.functional.linear(x, w.T).tolist()
assert (x @ w).tolist() == [1, 2, 5]
print("checked: the four names hold the same matrix")


# %% [markdown]
# `True` means the same to the last bit. Nearly all other kernels follow this rule, too:
# the axis of the inputs goes last, and outputs that are split by head are joined again.
#
# Only two kernels need a rule of their own. The patch embedding has four axes: `p` times `q`
# pixels, `c` colours, and the outputs, `o`. And in the kernel called `out`, it's the *inputs*
# that are split by head.


# %%
def in_our_order(name, array):
    """An array of the authors', with PyTorch's order of axes."""
    if name == "embedding/kernel":
        return rearrange(array, "p q c o -> o c p q")
    if name.endswith("out/kernel"):
        return rearrange(array, "heads hd o -> o (heads hd)")
    if name.endswith("kernel"):  # the dots: any number of axes
        return rearrange(array, "i ... -> (...) i")
    # a bias that is split by head has two axes
    return array.flatten() if array.ndim == 2 else array


# %% [markdown]
# For the names there's a folded table. Each of its fourteen rows replaces one piece of text,
# from the top down: `LayerNorm_0` becomes `norm1`, for example. `stacked`, also folded,
# stacks queries, keys and values.

# %% tags=["hide-input"]
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

# %% tags=["hide-input"]
from itertools import product

QKV = ("query", "key", "value")


def stacked(state):
    """Its queries, keys and values in one array per block, as in timm."""
    for i, end in product(range(12), ("weight", "bias")):
        start = f"blocks.{i}.attn"
        parts = [state.pop(f"{start}.{x}.{end}") for x in QKV]
        state[f"{start}.qkv.{end}"] = torch.cat(parts)
    return state


# %% [markdown]
# `translate` does it all:


# %%
def translate(arrays):
    """The authors' arrays -> the state_dict of our ViT."""
    state = {}
    for theirs, array in arrays.items():
        name = theirs
        for old, new in NAMES.items():
            name = name.replace(old, new)
        state[name] = in_our_order(theirs, array)
    return stacked(state)


state = translate(authors)
print(len(authors), "arrays of theirs,", len(state), "of ours")

# %% [markdown]
# Now give the result to your class from chapter 4 (in float64, so that the network itself
# hardly rounds):

# %%
from vitedu.plain import ViT

mine = ViT().double()
print(mine.load_state_dict(state, strict=True))
images = prepared().double()
logits = mine(images)
say(logits)

# %% [markdown]
# It looks good. But so did the cat, so let's ask another program. In a folded cell, timm
# reads `authors.npz` into its own network, `timm_vit`, and its logits are in `reference`. We
# give timm the photographs, not our tensor, because from a wrong tensor it would see a candle
# as well.

# %% tags=["hide-input"]
from vitedu.compat import import_timm

timm = import_timm()
from timm.data import create_transform, resolve_model_data_config

timm_vit = timm.create_model("vit_tiny_patch16_224.augreg_in21k_ft_in1k")
timm_vit.load_pretrained("authors.npz")
timm_vit = timm_vit.double().eval()
transform = create_transform(**resolve_model_data_config(timm_vit))
timm_images = torch.stack([transform(p) for p in photographs.values()])
reference = timm_vit(timm_images.double())


# %% tags=["nbval-ignore-output"]
def apart(logits, reference):
    """The largest difference, as a share of the largest logit."""
    return (logits - reference).abs().max() / reference.abs().max()


theirs = timm_vit.state_dict()
same = sum(torch.equal(state[name].double(), theirs[name]) for name in theirs)
print(f"{same} of {len(theirs)} arrays are the same")
print(f"the largest logit is {reference.abs().max():.0f}")
print(f"your class: {apart(logits, reference):.0e} of the largest logit")
print(f"the candle: {apart(wrong, reference):.0e} of the largest logit")

# %% tags=["nbval-check-output", "hide-cell"]
size = reference.abs().max()
assert (logits - reference).abs().max() < 1e-6 * size and size > 10
assert (wrong - reference).abs().max() > 0.1 * size
same_images = mine(timm_images.double())
assert (same_images - reference).abs().max() < 1e-10 * size
assert all(array.is_floating_point() for array in state.values())
print("checked: if both get timm's tensors, the difference is below 1e-10")

# %% [markdown]
# All the arrays are the same, and the logits agree to one part in ten million. The rest is
# rounding: each program prepared its own pixels, in float32.
#
# And the candle is caught: its logits are far off. (The weights come [from
# Google](#The-file-they-published), [Steiner et al. 2022](https://arxiv.org/abs/2106.10270).
# Only the handwriting in `authors.npz` is ours.)
#
# ## One forgotten transpose
#
# In chapter 4, a strict load didn't notice four heads instead of three, because none of *our*
# arrays shows how many there are. But what about a mistake *in* the arrays?

# %% [markdown] tags=["predict"]
# Suppose `in_our_order` joins the heads of `out/kernel`, but forgets to transpose it.
# **What will happen?**
#
# * the strict load refuses the arrays
# * it loads, and the answers are a little less sure
# * it loads, and the answers are nonsense

# %% tags=["failure", "nbval-ignore-output"]
careless = dict(state)
for i in range(12):
    name = f"blocks.{i}.attn.proj.weight"
    careless[name] = state[name].T
broken = ViT().double()
print(broken.load_state_dict(careless, strict=True))
say(broken(images))


# %% [markdown]
# "All keys matched successfully", and Hopper is a coil. A strict load compares names and
# shapes, and a square matrix keeps its shape when you transpose it. Every block has four
# square ones: queries, keys and values, before you stack them, and the output.
#
# And some mistakes, like the six numbers at the top of this page, aren't in any array. A strict
# load can't see those either.
#
# ## What does a silent mistake cost?
#
# Let's get it wrong on purpose, in ten ways. *Right* only means "as timm does it", because we
# compare with timm. The authors themselves do the three marked †:
#
# | part | mistake | right |
# |---|---|---|
# | attention | q and k swapped | q, k, v |
# | | 12 heads | 3 heads |
# | positions | counted down the columns | along the rows |
# | pixels | ImageNet's mean and deviation | mean and deviation 0.5 |
# | | BGR: blue first, as OpenCV reads | RGB |
# | | from 0 to 1 | from −1 to 1 |
# | | *squashed* into a square † | square cut from the middle |
# | | bilinear resizing † | bicubic |
# | MLP | tanh GELU, an approximation † | exact GELU |
# | norms | [epsilon](03_encoder.ipynb) $10^{-5}$, PyTorch's default | $10^{-6}$ |
#
# `spoiled`, in a folded cell, gives you the network with one of the mistakes.


# %% tags=["hide-input"]
def swap_q_and_k(state):
    for name in state:
        if "qkv" in name:
            q, k, v = state[name].chunk(3)
            state[name] = torch.cat([k, q, v])


def positions_by_column(state):
    token, table = state["pos_embed"].split([1, 196], dim=1)
    table = rearrange(table, "b (x y) d -> b (y x) d", x=14)
    state["pos_embed"] = torch.cat([token, table], dim=1)


# %% tags=["hide-input"]
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

# %% tags=["hide-input"]
EDITS = {
    "q and k swapped": swap_q_and_k,
    "positions by column": positions_by_column,
}
MISTAKES = [*SETTINGS, *PICTURES, "BGR for RGB", *EDITS]


def spoiled(name):
    """The network with a mistake: photographs -> logits."""
    network = vitedu.load("ViT-Ti/16", **SETTINGS.get(name, {}))
    rules = replace(network.preprocess, **PICTURES.get(name, {}))
    if name in EDITS:
        changed = network.state_dict()
        EDITS[name](changed)
        network.load_state_dict(changed, strict=True)

    def answer(pictures):
        x = torch.stack([rules(picture) for picture in pictures])
        return network(x.flip(1) if name == "BGR for RGB" else x)

    return answer


# %% tags=["nbval-check-output", "hide-cell"]
changes = {}
for name in ("right", *MISTAKES):
    found = spoiled(name)([*photographs.values()])
    changes[name] = float((found - reference).abs().max())
assert changes["right"] < 1e-3
assert changes["epsilon 1e-5"] < 0.01 < changes["bilinear resize"]
assert 0.001 < changes["tanh GELU"] < 0.2
worst = ("12 heads, not 3", "q and k swapped", "positions by column")
assert min(changes[name] for name in worst) > 5
print("checked: attention's mistakes are large, epsilon's is tiny")

# %% [markdown] tags=["predict"]
# Three photographs can't tell us what a mistake costs. So we ran each mistake on 1,000
# photographs, one from each class of ImageNet, and recorded the run. If nothing is changed, 813
# are right. **How many are still right with ImageNet's mean and deviation?**

# %% tags=["nbval-ignore-output", "hide-input"]
from vitedu import results

record = results.read("imagenet-sample")
metrics = record["metrics"]
WORDS = {
    "qk_swapped": "q and k swapped",
    "heads_12": "12 heads, not 3",
    "qkv_by_head": "q, k, v by head",
    "out_transposed": "out not transposed",
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
    if words in MISTAKES
]
without = metrics["top1/none"]["value"]
figures.show(*drawings.costs(costs, 1_000, without))
print(f"{without} of 1,000 are right if nothing is changed")

# %% [markdown]
# Each colour stands for a part in the table. A dot shows how far a logit moved at most, and
# each grid line is a hundred times the one before. (The last three, with no fewer than 813, are
# sorted by their dots.)
#
# **At the top, next to nothing is left.** With twelve heads instead of three, each head compares
# only 16 numbers of a query and a key, but these weights were trained to compare 64. ([Why can't
# you swap q and k?](#The-wrong-way-round))
#
# **In the middle, enough is left to fool you.** With the six numbers from the top of this
# page, 486 are still right. You'd take that for a weak network, and start to fine-tune it.
#
# **At the bottom, accuracy is blind.** Squashing seems to cost a little, and bilinear resizing
# even to help, but both may be chance. With the tanh GELU or the wrong epsilon, not one of the
# thousand answers changes ([the whole table](#The-whole-table) counts them), although the
# logits do.
#
# > **Remember.** Accuracy can't tell the right network from a slightly wrong one. So check names
# > and shapes with a strict load, and then compare *logits* with another program's. They agree
# > if they differ only by rounding: in float32, about a millionth of the largest logit.
# >
# > First let each program prepare its *own pixels*. If the logits disagree, give both the *same
# > pixels*. If they agree now, the preparation differs. If not, the difference is [inside the
# > network](#When-the-logits-disagree).
#
# ## Who did it?
#
# Now you're the detective. `sabotaged` takes a number and puts one of the ten mistakes into
# the network, without saying which. Think of it as a program on somebody's server: you send a
# photograph and get logits back, but you can't send pixels of your own. When you've found the
# culprit, `accuse` says if you're right.
#
# Here's case 9, with a rocket. (ImageNet has missiles and space shuttles, but no class for
# this.) The healthy network's answer is above, and the suspect's below:

# %% tags=["hide-input"]
from random import Random


def sabotaged(case):
    """A network with a mistake that only the number knows."""
    return spoiled(Random(case).choice(MISTAKES))


def accuse(case, name):
    """Whether it was this one."""
    guilty = Random(case).choice(MISTAKES) == name
    print(f"case {case}, {name}: {'guilty' if guilty else 'innocent'}")


# %% tags=["nbval-ignore-output"]
healthy, suspect = spoiled("nothing"), sabotaged(9)
rocket = [photo("rocket")]

# %% tags=["nbval-ignore-output", "hide-input"]
tensor = {"rocket": rules(rocket[0]) / 2 + 0.5}
pair = [{"rocket": best(each(rocket))[0]} for each in (healthy, suspect)]
figures.show(*drawings.answers(tensor, *pair))

# %% [markdown] tags=["predict"]
# Which of the ten is it? The GELU and the epsilon have an alibi: they hardly move a logit, and
# this answer has changed. After attention's two mistakes, nearly every answer is nonsense. But
# show the suspect the cat, with `say(suspect([photo("cat")]))`, and it still says *Egyptian
# cat*. That clears attention, too.
#
# That leaves six suspects: the five with pixels, and positions by column. You may show
# both networks one more picture. A picture *hides* a mistake if the network with that mistake
# gives it the same logits as the healthy network. **Which picture hides exactly one of the
# six?**
#
# * the rocket, mirrored
# * the rocket, in grey
# * a plain white one

# %% tags=["nbval-ignore-output"]
grey = [photo("rocket").convert("L").convert("RGB")]
change = (suspect(grey) - healthy(grey)).abs().max()
print(f"largest change of a logit, in grey: {change:.0e}")
accuse(9, "ImageNet mean, std")
accuse(9, "BGR for RGB")

# %% [markdown]
# In grey, the two networks agree to the last digit. A grey pixel is the same number three
# times, so the order of the colours doesn't matter. But would grey have hidden another
# mistake as well? Let's try them all:

# %% tags=["nbval-ignore-output", "hide-input"]
from PIL import Image

tests = {
    "mirrored": photo("rocket").transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    "grey": grey[0],
    "white": Image.new("RGB", rocket[0].size, "white"),
}
cleared = {"12 heads, not 3", "q and k swapped", "tanh GELU", "epsilon 1e-5"}
print(f"{'':20}", *(f"{name:8}" for name in tests))
hidden = dict.fromkeys(tests, 0)
for name in (each for each in MISTAKES if each not in cleared):
    moved = [
        (spoiled(name)([picture]) - healthy([picture])).abs().max()
        for picture in tests.values()
    ]
    hides = ["hidden" if change < 1e-3 else "-" for change in moved]
    print(f"{name:20}", *(f"{word:8}" for word in hides))
    for picture, word in zip(tests, hides, strict=True):
        hidden[picture] += word == "hidden"
assert hidden == {"mirrored": 0, "grey": 1, "white": 5}

# %% [markdown]
# The mirrored rocket gives every mistake away. White hides five: it stays white however you
# resize it or mix up its colours and patches, and both ranges of pixels end at 1. Only grey
# points to a single suspect. Here's what the two networks saw, and said:

# %% tags=["nbval-ignore-output", "hide-input"]
colours, pale = tensor["rocket"], rules(grey[0]) / 2 + 0.5
said = [best(each)[0] for each in (healthy(rocket), suspect(rocket))]
both = best(suspect(grey))[0]
panels = {
    f"the healthy network:\n{said[0]}": colours,
    f"the suspect:\n{said[1]}": colours.flip(0),
    f"both, in grey:\n{both}": pale,
}
told = "The rocket as each network sees it, with its answer. "
alt = told + ". ".join(panels).replace("\n", " ") + "."
figures.show(*photos.pictures(panels, alt))

# %% [markdown]
# Without colour, even the healthy network says *water tower*. From that answer alone, you'd
# have suspected it, too. That's why we compare logits.
#
# ## Three files that we didn't write
#
# Until now, our own `convert` wrote every file, and reading your own handwriting proves
# little. Let's have others hold the pen. In folded cells, timm, Hugging Face's transformers and
# torchvision each build a ViT-Ti/16 with these weights, save it, prepare the photographs by our
# network's rules, and answer. Here are the [files](#A-file-is-not-a-harmless-thing) they saved:

# %% tags=["nbval-ignore-output", "hide-input"]
from timm.models import save_for_hf

originals = [*photographs.values()]
save_for_hf(timm_vit.float(), "by-timm", safe_serialization=True)
answered = {"by-timm": (timm_images, reference)}
try:
    from transformers import AutoImageProcessor, AutoModelForImageClassification
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    hf_vit = AutoModelForImageClassification.from_pretrained("hugging-face")
    processor = AutoImageProcessor.from_pretrained("hugging-face")
    for each in (hf_vit, processor):
        each.save_pretrained("by-transformers")
    x = processor(images=originals, return_tensors="pt")["pixel_values"]
    answered["by-transformers"] = x, hf_vit.double()(x.double()).logits
except ImportError:
    print("transformers isn't installed, so its row is missing")

# %% tags=["nbval-ignore-output", "hide-input"]
import torchvision
from torchvision.transforms import InterpolationMode
from torchvision.transforms._presets import ImageClassification

their_vit = torchvision.models.VisionTransformer(224, 16, 12, 3, 192, 768)
_ = their_vit.load_state_dict(files["torchvision"], strict=True)
torch.save(their_vit.state_dict(), "by-torchvision.pth")
prepare = ImageClassification(
    crop_size=224,
    resize_size=248,
    mean=(0.5, 0.5, 0.5),
    std=(0.5, 0.5, 0.5),
    interpolation=InterpolationMode.BICUBIC,
)
x = torch.stack([prepare(p) for p in originals])
answered["by-torchvision.pth"] = x, their_vit.double().eval()(x.double())
for file in answered:
    inside = sorted(os.listdir(file)) if os.path.isdir(file) else []
    print(file, *inside, sep="\n    ")


# %% [markdown]
# On our side, `vitedu.load` does what your `translate` does, and also looks for a file that says
# how to prepare photographs. Then `compare` (folded) asks your class twice, as in the box: first
# with its *own pixels*, prepared by the rules from `load`, then with the *same pixels* as the
# library.


# %% tags=["hide-input"]
def compare(file, rules=None):
    """Your class, with a file's weights, against the library that wrote it."""
    loaded = vitedu.load(file)
    mine.load_state_dict(loaded.state_dict(), strict=True)
    pixels, theirs = answered[file]
    rules = rules or loaded.preprocess
    x = torch.stack([rules(p) for p in photographs.values()])
    yours, same = mine(x.double()), mine(pixels.double())
    print(f"{file:18}", f"own pixels {apart(yours, theirs):.0e},", end=" ")
    print(f"same pixels {apart(same, theirs):.0e}")
    say(yours)


# %% [markdown] tags=["predict"]
# If a library saved no rules for the photographs, `load` has to guess them. **Whose file
# brings the candle back?**
#
# * timm's
# * transformers'
# * torchvision's

# %% tags=["nbval-ignore-output"]
for file in answered:
    compare(file)

# %% [markdown]
# torchvision's file brings the candle back. With the same pixels, though, all three agree to
# the last digits of float64. Nothing is wrong inside the network, then: as the box says, the
# preparation differs. (With transformers it differs [a little](#Two-thousandths), but that's
# no mistake: *bicubic* can be computed in more than one way.)
#
# The JSON files say how to prepare a photograph, but torchvision saves [the arrays
# alone](#There-and-back). In the folded cell, we told torchvision the rules. But `load`
# has only the file, and assumes torchvision's habits: the six numbers from the top of this
# page, and another way to resize and crop. Give your class our network's `rules` instead:

# %% tags=["nbval-ignore-output"]
compare("by-torchvision.pth", rules)

# %% tags=["nbval-check-output", "hide-cell"]
for file, (pixels, theirs) in answered.items():
    loaded = vitedu.load(file)
    _ = mine.load_state_dict(loaded.state_dict(), strict=True)
    assert apart(mine(pixels.double()), theirs) < 1e-12
    x = torch.stack([rules(p) for p in originals]).double()
    limit = 0.01 if file == "by-transformers" else 1e-6
    assert apart(mine(x), theirs) < limit
if "by-transformers" in answered:
    by_pillow = AutoImageProcessor.from_pretrained(
        "hugging-face", backend="pil"
    )
    x = by_pillow(images=originals, return_tensors="pt")["pixel_values"]
    assert apart(mine(x.double()), reference) < 1e-6
print("checked: the arrays to 1e-12; transformers' pixels, if Pillow resizes")

# %% [markdown]
# The candle is out. Strangers trained this network, three libraries wrote it down, and your
# one class reproduces every library's answers, once it knows how to prepare the photographs.
#
# ## What to take with you
#
# 1. A checkpoint is a dict from names to arrays. To read another library's, translate the
#    names, stack what belongs together, and put the axes in order.
# 2. Some settings have no array, such as the GELU, the epsilon and how to prepare a photograph.
#    They travel beside the file or not at all.
# 3. Check in this order: names and shapes, then logits when each program prepares its own
#    pixels, then logits on the same pixels.
#
# **Five questions**
#
# 1. Why do two of the dialects need 200 arrays, and the others only 152?
# 2. Which matrices of a block can you forget to transpose without PyTorch noticing?
# 3. Where does the authors' file show the number of heads?
# 4. Which two mistakes change no answer on the 1,000 photographs, and how would you find them?
# 5. A downloaded ViT gets half of your photographs right, but its makers promise 80%.
#    What do you suspect first?
#
# <details><summary>Answers</summary>
#
# 1. They keep queries, keys and values apart: six arrays per block, not two.
# 2. The square ones: queries, keys and values, before you stack them, and the output.
# 3. It's the length of a query kernel's second axis.
# 4. The tanh GELU and another epsilon. Compare logits.
# 5. How photographs are prepared, beginning with mean and deviation.
#
# </details>
#
# Other libraries' files run in your class now. But they insist on 224×224 pixels, because
# the table of positions has a row for the class token, 196 for the patches, and no more. Can
# the same weights read a larger photograph? That's [chapter 10](10_resolution.ipynb).
#
# ## Exercises
#
# **1.** ★ The dialects differ by 48 arrays. Where do exactly 48 come from? And how many
# arrays does the file of a ViT-L/16 hold, with its 24 blocks, in each kind of dialect?
#
# **2.** ★ The dict from `translate` has one mistake. Which of these would
# `load_state_dict(strict=True)` notice: (a) `norm1` and `norm2` are exchanged; (b) the
# two matrices of the MLP aren't transposed; (c) the biases of the keys are missing from
# `qkv.bias`; (d) the class token is exchanged with the first row of positions? And which
# of these mistakes does the *network* notice?
#
# **3.** ★★ `stacked`, and so `translate`, works for twelve blocks. Change it so that it finds
# out by itself how many there are, and also how many heads. Why can't you do the second for
# timm's file?
#
# **4.** ★★ Make two mistakes at once: positions by column, and the pixels within each
# patch by column too. (`.mT` transposes the last two axes:
# `state["patch_embed.proj.weight"].mT`. `positions_by_column`, in a folded cell above, changes
# the dict that it gets, so begin with a copy, `dict(state)`, and load it into `mine`.)
# Predict what the network says about Hopper. What if you also mirror the photographs along
# their diagonal, `images.mT`? Then run it.
#
# **5.** ★★ Begin with a fresh `dict(state)`. Swap q and k in the *first* block only, then
# in the last only (with the folded `swap_q_and_k`). Which hurts more, and are three
# photographs enough to say? Why isn't the swap harmless, though $q k^\top$ and $k q^\top$ hold the same numbers?
#
# **6.** ★★★ Design a test that tells you whether a file was loaded correctly if you have
# no other program at hand: no timm, no published logits, only unlabelled photographs of
# your own. Which of the mistakes above would it catch, and which can it never catch?
#
# ## Second reading
#
# ### The whole table
#
# These are the record's counts. Top-1 counts the photographs whose right class comes first, and
# top-5 those where it's among the first five. Then come the mean cross-entropy, and how many
# answers aren't the same as without a change.
#
# Five of the rows aren't in the figure. *Out not transposed* is what `careless` got wrong. *q, k,
# v by head* reads the tall array as if each head kept its own three parts together. *Pixels
# by column* numbers the pixels within each patch downwards. For *short side 256*, photographs
# are scaled to 256 pixels instead of 248, and *epsilon 1e-12* is the default of Hugging Face's
# ViT.
#
# These are the costs for this one network, which may have been trained on some of these
# photographs, so compare the rows only with each other. Olive's ViT-B/16, at the top of this
# page, lost only five points to the six numbers of ImageNet. It's a larger network with a
# test of its own, and we haven't looked for the reason.

# %% tags=["nbval-ignore-output", "hide-input"]
print(f"{'':20} top-1 top-5 cross-entropy changed")
for key, words in {"none": "no change", **WORDS}.items():
    first, five, nats, changed = (
        metrics[f"{each}/{key}"]["value"]
        for each in ("top1", "top5", "cross_entropy", "changed_answers")
    )
    print(f"{words:20} {first:5} {five:5} {nats:13.4f} {changed:7}")
print(record["command"])
print(f"{record['hardware']}, {record['date']}")

# %% [markdown]
# Two rows have more right answers than the network without a change. Should you resize
# like them, then? As in [chapter 5](05_mnist.ipynb), count the photographs that only the
# new network gets right (gained), and those that only the old one does (lost). *Wrong both
# times* are the answers that went from one wrong class to another.

# %% tags=["nbval-ignore-output", "hide-input"]
import math

print(f"{'':16}changed  gained  lost  wrong both times  gain / error")
for key in ("bilinear", "resize_256", "squash", "bgr"):
    lost, gained, changed = (
        metrics[f"{each}_answers/{key}"]["value"]
        for each in ("lost", "gained", "changed")
    )
    both = changed - lost - gained
    ratio = (gained - lost) / math.sqrt(lost + gained)
    print(f"{WORDS[key]:16}{changed:7}{gained:8}{lost:6}{both:18}{ratio:14.1f}")

# %% [markdown]
# Both gains are about one standard error, and by our rule from chapter 5, anything below
# two is no result. Nor is squashing a result: one answer in seven changes, but nearly as
# many become right as become wrong. So a thousand photographs are enough to notice BGR, but
# not how you cut out the square.
#
# That two mistakes tie at 384 is chance, as far as we can tell, though they're related:
# see [exercise 4](#Exercises).
#
# ### When the logits disagree
#
# Suppose they still disagree with the same pixels. Then compare the tokens of the two
# networks after the first block, then after the second, and so on. The first block where they
# part is the place to look, and inside it you can go on: after the norm, after attention,
# after the MLP. If they part before the first block, it's the patches or the positions.
#
# How small is small enough? In float32, rounding alone can make a difference of about a
# millionth of the largest number. A wrong epsilon, in the figure above, moves a logit by less
# than a ten-thousandth of the largest, so a careless tolerance lets it through. A few
# thousandths can be a wrong GELU, or, with each program's own pixels, only another way to
# shrink photographs.
#
# ### Two thousandths
#
# transformers turns a photograph into a tensor first, and then shrinks the tensor with
# torchvision's code, whose *bicubic* isn't quite Pillow's. That's where the two thousandths
# come from: if you ask transformers to let Pillow shrink the photographs, the difference is
# gone. In our cell with torchvision it doesn't appear at all, because there the photograph is
# still a Pillow image when it's shrunk, and torchvision leaves the work to Pillow.
#
# ### There and back
#
# The four files from the start of this chapter, one per dialect, went out with the same rules.
# What does `load` make of them?

# %% tags=["nbval-ignore-output", "hide-input"]
print(f"{'':16} GELU   filter    crop   mean of red")
for file in ("ViT-Ti/16", *targets.values()):
    back = vitedu.load(file)
    kept = back.preprocess
    line = f"{file:16} {back.config.gelu:6} {kept.interpolation:9} "
    print(line + f"{kept.crop!s:6} {kept.mean[0]}")

# %% [markdown]
# The first row is what went in. timm and Hugging Face keep the rules in a JSON file beside
# the arrays, so nothing is lost. The other two files have no place for them, and `load`
# assumes what that library does. ([The reference page](weights.ipynb) says what each form
# can hold.)
#
# It works the other way round, too. In a terminal, you'd type `vitedu convert by-timm my-vit
# --to hf` to hand timm's file to people who only have transformers. (Or give it the folder of a
# network that you've trained yourself.)

# %% tags=["nbval-ignore-output"]
from vitedu import cli

_ = cli.main("convert by-timm my-vit --to hf".split())

# %% tags=["nbval-check-output", "hide-cell"]
sent = load_file("my-vit/model.safetensors")
for name, array in files["Hugging Face"].items():
    assert torch.equal(sent[name].float(), array.float()), name
print("checked: my-vit has the arrays of the folder that transformers read")

# %% [markdown]
# ### The file they published
#
# Whose weights are they? By all evidence, Google's: [Steiner et al.
# 2022](https://arxiv.org/abs/2106.10270) published them, and four of its six authors are also
# authors of the ViT paper. timm carried the weights over to PyTorch, this book rounded them to
# float16, and `convert` put them back into the authors' dialect.
#
# Can your `translate` read a file that the authors themselves wrote? timm knows the address of
# one, and if you're online, the hidden `fetched` gets it for you (23 MB). Its name tells you
# how it was trained: `Ti_16-i21k-300ep-…--imagenet2012-…` means 300 epochs on ImageNet-21k,
# and then ImageNet. Our file is rounded to float16, so we round theirs, too.

# %% tags=["hide-input"]
import socket

from torch.hub import download_url_to_file

from vitedu.data.catalogue import is_offline


def fetched(address):
    """The arrays of a file in the net; {} and a sentence if there's no way."""
    if is_offline():
        print("not fetched: VITEDU_OFFLINE=1 forbids it")
        return {}
    socket.setdefaulttimeout(20)
    try:
        download_url_to_file(address, "published.npz", progress=False)
    except OSError as error:
        print(f"not fetched: {error}")
        return {}
    arrays = np.load("published.npz")
    return {name: torch.from_numpy(arrays[name]) for name in arrays}


# %% tags=["nbval-ignore-output"]
published = fetched(timm_vit.pretrained_cfg["url"])
if published:
    theirs = translate(published)
    same = sum(torch.equal(theirs[x].half(), state[x].half()) for x in state)
    print(same, "of 152 arrays are ours")

# %% [markdown]
# "Not fetched" is what you see here because the book is built without a network, so this cell
# is for you to run. (The package's tests load files that the authors' code wrote, and compare
# with its logits.) `translate` should read any plain ViT of twelve blocks from Steiner et al.,
# and after [exercise 3](#Exercises) the others, too.
#
# ### A file is not a harmless thing
#
# The `.pth` files of PyTorch are *pickles*, and a pickle is a little program that builds
# objects. Opening one from a stranger can run the stranger's code. That's why the hidden
# cell above says `weights_only=True`, which is the default since PyTorch 2.6: only
# tensors and plain values are built, and everything else is refused. An `.npz`, NumPy's
# archive of arrays, can hold pickles, too, and `np.load` refuses them unless you ask. A
# `.safetensors` file can't hold any: it's a header of names and shapes, and then numbers.
#
# The package goes a step further: NaNs, files that end early and networks that only look
# like a ViT [are refused](weights.ipynb#What-is-refused), and the error says why.
#
# ### The wrong way round
#
# In the table of scores $q k^\top$, row $i$ says how much token $i$ wants from each other
# token. Swap q and k, and you get the transposed table: row $i$ now says how much each
# other token wants from token $i$. In chapter 2, a token asks with its query. After the swap,
# each token takes from those that would have liked to ask *it*. It's as if you read a
# list of who admires whom the wrong way round.
#
# The numbers are the same, but the softmax runs over rows, and the rows are different
# now. One swapped block can be survived, as [exercise 5](#Exercises) shows, since a block only
# adds to the residual stream (the tokens as they go through the network, [chapter
# 3](03_encoder.ipynb)). After twelve of them, next to nothing is left.
#
# ## Where this is in the paper
#
# It isn't: the paper doesn't say how the weights are stored. [Dosovitskiy et al.
# 2021](https://arxiv.org/abs/2010.11929) describe the network in section 3.1 and say in
# 3.2 what becomes of the head and the positions when it's fine-tuned. Only the authors'
# code says which GELU, which epsilon and which mean of the pixels they used. Our weights aren't
# from that paper either. As far as anybody can tell, they're from [Steiner et al.
# 2022](https://arxiv.org/abs/2106.10270), by some of the same authors.
#
# ### What differs
#
# * The authors' files hold float32; ours was rounded to float16 to fit into the package.
# * They evaluate with the tanh GELU and a direct bilinear resize to 224×224. timm, and we
#   with it, use the exact GELU, bicubic scaling, and the middle of 248 pixels.
# * The 1,000 photographs aren't ImageNet's validation set. They're one per class, from a
#   collection that doesn't say how they were chosen, scaled to a short side of 256 pixels
#   if they were larger, and compressed again.
#
# ## Three readings
#
# * [Steiner et al. 2022](https://arxiv.org/abs/2106.10270) published more than 50,000
#   checkpoints, all in the authors' dialect. Ask yourself how you'd choose one.
# * [Parmar et al. 2022](https://arxiv.org/abs/2104.11222) found that libraries which all
#   say "bilinear" and "bicubic" compute different pictures, and what that did to
#   published numbers.
# * [Touvron et al. 2019](https://arxiv.org/abs/1906.06423) disagree with "prepare the
#   photographs as in training". Objects look larger in training crops than in test crops,
#   so they test on purpose with other sizes, and win.
#
# ## Solutions
#
# <details><summary>Solution 1</summary>
#
# Queries, keys and values have a matrix and a bias each. That's six arrays, where timm
# has two, so four more per block, and twelve blocks make 48. A block has 12 arrays in
# timm's dialect and 16 in the authors', and there are 8 outside the blocks. With 24
# blocks that makes 296 and 392.
#
# </details>
#
# <details><summary>Solution 2</summary>
#
# (a) No, they have the same shape, but the network notices. (b) Yes: 192×768 isn't
# 768×192. (c) Yes: the bias then has 384 numbers where 576 are expected. So neither
# reaches the network. (d) No, the shapes fit (you'd have to write the row as 1×1×192). And
# here the network doesn't notice either: the class token and the first row of positions are
# only ever added to each other.
#
# </details>
#
# <details><summary>Solution 3</summary>
#
# Count the names that end in `query/kernel`; the length of the second axis of each
# of these arrays is the number of heads. Then, in `stacked`, `range(12)` becomes `range(len(queries))`. In timm's file the
# array is 576×192, whatever the number of heads.
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
queries = [name for name in authors if name.endswith("query/kernel")]
print(len(queries), "blocks of", authors[queries[0]].shape[1], "heads")

# %% [markdown]
# <details><summary>Solution 4</summary>
#
# One mistake mirrors every patch along its diagonal. The other puts it where it would be
# if the whole photograph were mirrored along *its* diagonal. So the two together are the
# right network looking at a mirrored photograph, with Hopper lying on her side. Mirror
# the photograph as well, and the mirrors cancel out: the right answers, with the right
# logits.
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
both = dict(state)
positions_by_column(both)
kernel = "patch_embed.proj.weight"
both[kernel] = both[kernel].mT
_ = mine.load_state_dict(both)
say(mine(images))
mirrored = mine(images.mT)
say(mirrored)
print("the right logits:", bool((mirrored - logits).abs().max() < 1e-8))

# %% [markdown]
# <details><summary>Solution 5</summary>
#
# On three photographs, you can't tell. No answer changes in either case, and the largest
# change of a logit is about the same: 3.5 for the first block, 3.9 for the last. With the
# swap in the last block, the network is even surer of Hopper's uniform. You might think
# that one swapped block does no harm at all.
#
# It does. Of the 1,000 photographs, 597 are right after the swap in the first block, and 727
# after the swap in the last one, instead of 813. (We measured that separately, and noted it in
# the repository's `LOG.md`.) The first hurts more, and that makes sense, because eleven blocks
# build on what it hands them. But a block only adds to the tokens that pass it, so most of the
# network survives.
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
    _ = mine.load_state_dict(swapped | one)
    found = mine(images)
    print(name, f"{(found - logits).abs().max():.1f}")
    say(found)

# %% [markdown]
# <details><summary>Solution 6</summary>
#
# Two ideas. How sure is the network? Take the mean *entropy* of its answers, which is 0
# if it's certain and $\ln 1000 \approx 6.9$ if it has no idea. And does it say the same
# about a photograph and its mirror image? The cell below tries both on five photographs.
#
# You don't know beforehand how much entropy is too much. But you can compare the settings
# that you're in doubt about, and keep the one with the lowest. Here that finds the heads,
# the mean and the forgotten transpose.
#
# The mirror is less use: the forgotten transpose leaves one right answer in a thousand, and
# still passes it on four of the five photographs. And neither test finds the squashed photographs,
# because the network is just as sure of them. GELU and epsilon change too little for any
# test like this. For those you need another program, or published logits of a published
# picture.
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
print(f"{'out not transposed':18}", suspicion(broken, prepared().double()))
