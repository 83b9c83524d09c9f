# %% [markdown] tags=["links", "remove-cell"]
# [Open in Colab](COLAB) · [this page on the site](SITE) · about an hour · half a minute of computing on a laptop, no GPU needed

# %% tags=["setup", "remove-cell"]
import vitedu

# %% [markdown]
# # Without labels
#
# Every network in this book so far had a teacher. For each picture, somebody had written
# down what it shows. This chapter's network has never been told anything. It has looked at
# 60,000 handwritten digits, each time with three quarters of the picture covered, and guessed
# what was underneath.
#
# Here are six digits that it has never seen. In each we cover 37 of the 49 patches, and ask the
# network for what's under them. `model` is our small network, and its `complete` does the painting.

# %% tags=["nbval-ignore-output", "hide-input"]
import os

import torch
import torch.nn.functional as F
from torch import Tensor

torch.set_num_threads(1)
TIER = os.environ.get("VITEDU_TIER", "cpu")
print(f"tier {TIER}, seed 0, cpu, torch {torch.__version__}")

# %% tags=["hide-input"]
from vitedu import figures, results
from vitedu.data import load_dataset, photo
from vitedu.figures.chapters import unlabelled
from vitedu.model import patchify, unpatchify
from vitedu.model.mae import num_hidden, random_mask
from vitedu.model.mpp import LEVELS

result = results.read("unlabelled")
record = result["metrics"]
model = vitedu.load("mae-mnist")
data = load_dataset("digits")


def in_range(pixels):
    """Pixels from 0..255, as in files, to -1..1, as the network has them."""
    return pixels / 127.5 - 1


def shown(images):
    """Back to 0 to 1, for drawing."""
    return ((images + 1) / 2).clamp(0, 1)


first = [data.test.labels.tolist().index(k) for k in (0, 2, 3, 4, 6, 9)]
digits = in_range(data.test.images[first])  # (6, 1, 28, 28)

# %%
torch.manual_seed(1)
mask = random_mask(6, 49, share=0.75)
with torch.no_grad():
    completed = model.complete(digits, mask)

# %% tags=["hide-input"]
asked = shown(digits), mask, shown(completed)
figures.show(*unlabelled.completed(*asked, only=("shown", "completed")))

# %% [markdown]
# Can you read the lower row? (The sharp squares are what the network was shown.) Make your six
# guesses, and then look at the truth:

# %% tags=["hide-input"]
figures.show(*unlabelled.completed(*asked, only=("true",)))

# %% [markdown]
# The 0 comes out well, and the 9 is hardly more than a cloud. But look at what the network had to
# go on there: twelve scraps, two thirds of them black. To get even this far, you have to know where
# strokes lead. Nobody told it that.
#
# **What can a network learn from pictures alone, and what is that worth once a few labels
# come along?** You'll write the mask and the loss that taught it, find out when looking first
# pays off and when it doesn't, and have a digit of your own completed.
#
# ## Hide three quarters
#
# Why so many? If you hide only a few patches, each can be guessed from its neighbours. If you hide
# three quarters, you have to know what digits look like. [He et al.
# 2022](https://arxiv.org/abs/2111.06377) found that to be about the best share.
#
# How do you pick exactly 37 of 49 at random? Give each patch a random number, and hide the patches
# with the lowest. One `argsort` lists the patches, from the lowest number to the highest. A second one,
# of that list, gives each patch its place in it, its *rank*.
#
# **Take a pencil.** Four patches draw the numbers 0.7, 0.1, 0.9 and 0.4. Write down the
# first argsort, then the argsort of that, and the mask for a share of ½.

# %%
noise = torch.tensor([0.7, 0.1, 0.9, 0.4])
noise.argsort(), noise.argsort().argsort(), noise.argsort().argsort() < 2


# %% [markdown]
# Many pictures at once work the same way. Twelve of the 49 patches stay in each (`num_hidden`
# does the rounding), so what's left fits into one tensor.


# %% tags=["teaches"]
def random_mask(
    num_images: int,
    num_patches: int,
    share: float,
    generator: torch.Generator | None = None,
) -> Tensor:
    """(b, n) booleans, True where a patch is hidden: as many in each image."""
    noise = torch.rand(num_images, num_patches, generator=generator)
    ranks = noise.argsort(dim=1).argsort(dim=1)
    return ranks < num_hidden(num_patches, share)


# %% tags=["nbval-check-output", "hide-cell"]
from vitedu.model import mae as package

one, two = (torch.Generator().manual_seed(5) for _ in range(2))
ours = random_mask(6, 49, 0.75, one)
assert torch.equal(ours, package.random_mask(6, 49, 0.75, two))
assert ours.sum(dim=1).tolist() == [37] * 6 and len(ours.unique(dim=0)) == 6
print("check: 37 of 49 are hidden, in each picture others")

# %% [markdown]
# ## An encoder that sees a quarter
#
# Here's what makes He et al.'s *masked autoencoder* (MAE) cheap. You might put a blank in place
# of every hidden patch. They simply leave the patch out. A ViT doesn't mind, because attention
# takes any number of tokens. So the encoder is the ViT you know, here without a class token, and
# all it gets is twelve tokens.

# %%
tokens = model.embed(digits)  # (6, 49, 64), positions already added
visible = tokens[~mask].unflatten(0, (6, 12))  # (6, 12, 64)
z = model.norm(model.blocks(visible))  # (6, 12, 64)
z.shape

# %% [markdown]
# How much of the blocks' work is left?

# %% tags=["nbval-check-output", "hide-input"]
from vitedu.budget import macs
from vitedu.budget.operations import block_macs
from vitedu.train.recipes.unlabelled import MNIST

whole, quarter = (block_macs(model.config, t) for t in (49, 12))
all_of_it = macs(model.config) / macs(MNIST)
assert 1 / 16 < quarter / whole < 1 / 4
print(f"{quarter / whole:.0%}")

# %% [markdown]
# The dense layers cost a quarter. Attention compares pairs, so it costs only a sixteenth, but with
# so few tokens it's a small part of the work anyway.
#
# ## A decoder that fills in the rest
#
# Twelve tokens have to become 49 patches. Into the empty places goes one learned vector, the
# *mask token*, the same for each of them. How does the decoder know which place is which? We
# add positions again. Then come a few small blocks, here only one, and a linear map
# from each token to the pixels of its patch.

# %%
everywhere = model.mask_token.repeat(6, 49, 1)  # (6, 49, 48)
everywhere[~mask] = model.decoder_embed(z).flatten(0, 1)  # from 64 to 48
everywhere = everywhere + model.decoder_pos_embed()
found = model.decoder_pred(
    model.decoder_norm(model.decoder_blocks(everywhere))
)  # (6, 49, 16)

# %% tags=["nbval-check-output", "hide-cell"]
pixels = patchify(digits, 4)
mixed = torch.where(mask[..., None], found, pixels)
assert torch.allclose(unpatchify(mixed, 4, (7, 7)), completed, atol=1e-5)
print(f"check: as model.complete does it, {all_of_it:.0%} of a ViT's work")


# %% [markdown]
# People call the pair *asymmetric*: a large network that understands and never meets a mask
# token, and a small one that paints, which you throw away if all you want is features.
# Together they do 44% of the work that a ViT does on all patches.
#
# What's a good answer? One whose pixels are close to the true ones. Call the set of hidden
# patches $\mathcal{H}$, their number $|\mathcal{H}|$, their true pixels $\mathbf{x}_i$ and
# the answers $\hat{\mathbf{x}}_i$. A patch of $P \times P$ pixels with $C$ channels has
# $P^2 C$ numbers (ours 16). The loss is the mean squared error,
#
# $$ \ell = \frac{1}{|\mathcal{H}|} \sum_{i \in \mathcal{H}} \frac{1}{P^2 C}
# \lVert \hat{\mathbf{x}}_i - \mathbf{x}_i \rVert^2 . $$
#
# Only hidden patches count, because the network has seen the others.


# %% tags=["teaches"]
def masked_error(found: Tensor, pixels: Tensor, mask: Tensor) -> Tensor:
    """Mean squared error of the hidden patches: (b, n, d) twice -> (b,)."""
    errors = (found - pixels).square().mean(dim=-1)  # (b, n)
    return (errors * mask).sum(dim=1) / mask.sum(dim=1)


# %% tags=["nbval-check-output", "hide-cell"]
assert torch.allclose(masked_error(found, pixels, mask), model(digits, mask))
assert torch.equal(masked_error(pixels, pixels, mask), torch.zeros(6))
print("check: the loss is the package's, and 0 for a perfect answer")


# %% [markdown]
# That's all there is to training: cover, guess, compare, correct the
# weights, [1,500 times](#How-it-learned).
#
# ## Does the order matter?
#
# In our code, positions are added first, and then patches are hidden. You could do it the
# other way round, and save a few additions:


# %%
def hide_first(images, mask):
    """Hides patches, and then adds positions."""
    visible = model.patch_embed(images)[~mask].unflatten(0, (len(images), 12))
    visible = visible + model.pos_embed()[:, :12]
    return model.norm(model.blocks(visible))


# %% [markdown]
# The shapes fit. Take the twelve visible patches of one
# digit, and lay them out in other places, in the same reading order. `both` holds the two
# pictures and their masks.

# %% tags=["hide-input"]
pieces = patchify(digits, 4)[4][~mask[4]]  # (12, 16)
elsewhere = random_mask(1, 49, 0.75, torch.Generator().manual_seed(8))
moved = torch.full((1, 49, 16), -1.0)
moved[~elsewhere] = pieces
moved = unpatchify(moved, 4, (7, 7))
both = torch.cat([digits[4:5], moved]), torch.cat([mask[4:5], elsewhere])
figures.show(*unlabelled.scraps(shown(both[0]), both[1]))

# %% [markdown] tags=["predict"]
# That's a different picture. **How much do the tokens of `hide_first` change?**
#
# * not at all
# * a little: attention notices the neighbours
# * completely

# %% tags=["failure"]
with torch.no_grad():
    change = {
        "positions first": model.encode(*both),
        "hidden first": hide_first(*both),
    }
for name, (one, other) in change.items():
    print(f"{name:15} tokens change by up to {(one - other).abs().max():.1f}")

# %% tags=["nbval-check-output", "hide-cell"]
one, other = change["hidden first"]
assert torch.allclose(one, other, atol=1e-5)
one, other = change["positions first"]
assert (one - other).abs().max() > 0.5
print("check: hidden first, the encoder can't tell where its patches were")

# %% [markdown]
# With patches hidden first, not at all. The first patch that's left always gets the first position, the next one the
# second, wherever they come from. So the encoder knows what's on the scraps, but not where they
# belong, and no error tells you. The second reading has [two](#Normalised-pixels)
# [more](#Labels-that-are-all-the-same) traps of this kind.
#
# ## Can you read it?
#
# Can anybody read what the network paints? Let's ask somebody who has only ever seen whole digits:
# the tiny ViT of [chapter 5](05_mnist.ipynb). `reads` says what share of 500 test digits it names
# correctly, and `hidden` is True for each hidden pixel.

# %% tags=["hide-input"]
classifier = vitedu.load("mnist-tiny")
train = in_range(data.train.images)
whole, labels = in_range(data.test.images), data.test.labels
covers = random_mask(500, 49, 0.75, torch.Generator().manual_seed(0))
hidden = covers.view(500, 1, 7, 7).repeat_interleave(4, 2)
hidden = hidden.repeat_interleave(4, 3)  # from patches to pixels


def reads(images):
    """Percent of the 500 digits that the classifier names."""
    with torch.no_grad():
        right = classifier(images.clamp(-1, 1)).argmax(dim=1) == labels
    return f"{right.double().mean():.0%}"


# %% tags=["nbval-ignore-output"]
on_black = whole.masked_fill(hidden, -1)
print("whole digits:      ", reads(whole))
print("a quarter, on black", reads(on_black))

# %% [markdown] tags=["predict"]
# Now our network completes the same quarters first. It sees no more than the classifier
# just did. **How many can be read then?**
#
# * a quarter, as before: what's hidden is gone
# * about half
# * nearly all

# %% tags=["nbval-ignore-output"]
with torch.no_grad():
    filled = model.complete(whole, covers)
print("completed:         ", reads(filled))

# %% [markdown]
# Half of them: twice as many as on black! (Luck moves such a share of 500 by about two points.)
# Completing can't add anything about *this* digit that the scraps don't say. But our network
# knows what usually goes with such scraps, and paints it.
#
# Is that a lot? Let's give it two simple rivals. The first puts the mean of all digits into the
# holes. The second looks among 2,500 training digits for the one that best matches the visible
# patches, and copies the rest from it. (Our network saw 60,000.)

# %% tags=["nbval-ignore-output", "hide-input"]
average = train.mean(dim=0).expand_as(whole)
there = (~hidden).float().flatten(1)
apart = there @ train.flatten(1).square().T
apart -= 2 * (there * whole.flatten(1)) @ train.flatten(1).T
nearest = train[apart.argmin(dim=1)]
ways = {
    "black": on_black,
    "the mean digit": torch.where(hidden, average, whole),
    "copied": torch.where(hidden, nearest, whole),
    "our network": filled,
}
error = {x: (y - whole)[hidden].square().mean() for x, y in ways.items()}
print(f"{'in the holes':15} error   read")
for name, images in ways.items():
    print(f"{name:15} {error[name]:5.2f} {reads(images):>6}")

# %% tags=["nbval-check-output", "hide-cell"]
share = {name: float(reads(x).rstrip("%")) for name, x in ways.items()}
assert 40 < share["our network"] < 60 and share["black"] < 30
assert share["the mean digit"] < 20 and share["copied"] > 60
best = ["our network", "the mean digit", "copied", "black"]
assert sorted(error, key=error.get) == best
print("check: the copy is further from the truth, and easier to read")

# %% [markdown]
# The copy wins, and by far. Now look at its error! Its pixels are *further* from the truth
# than our network's, and even than the mean digit's. How can a worse picture be easier to read?
# Here are three digits that the classifier gets right only when they're copied, then three only
# when they're painted:

# %% tags=["nbval-ignore-output", "hide-input"]
with torch.no_grad():
    named = {
        name: classifier(ways[way].clamp(-1, 1)).argmax(dim=1)
        for name, way in (("painted", "our network"), ("copied", "copied"))
    }
painted, copied = (digit == labels for digit in named.values())
kinds = {"copied": copied & ~painted, "painted": painted & ~copied}
for name, digit in kinds.items():
    print(f"read only if {name}: {digit.sum()} of 500")
six = torch.cat([digit.nonzero()[:3, 0] for digit in kinds.values()])
rows = {"painted": filled[six], "copied": ways["copied"][six]}
rows = {name: shown(images) for name, images in rows.items()}
says = {name: digit[six].tolist() for name, digit in named.items()}
figures.show(
    *unlabelled.completed(shown(whole[six]), covers[six], rows, read=says)
)

# %% [markdown]
# The copy settles for one digit, with the sharp strokes that our classifier is used to. It may be
# the wrong one: the 2 becomes a 1, and the second 4 a 9. But more often it's right. Our network hedges.
# Where there could be a 4 or a 9, the squared error is lowest for something between the two, [in
# grey](#A-strip-of-a-4).
#
# So the painting isn't the point. But to paint, the network had to find out what digits look like,
# and *that* may be useful once a few labels come along.
#
# ## Frozen, and then set free
#
# The simplest use is a *linear probe*, as in [chapter 13](13_few_shot.ipynb): freeze the network,
# and fit a linear classifier on the mean of its tokens. On digits, which are all white on black and
# in the middle, [plain pixels soon do as well](#Set-free,-on-digits). So let's take photographs,
# from CIFAR-10, and a ViT of six blocks that starts in four ways:
#
# * **from scratch**, with random weights;
# * **MAE**, which has looked at 45,000 photographs, 28 times each, without labels;
# * **MPP**, *masked patch prediction*, the ViT paper's own way, a year before MAE: half of
#   the patches are spoilt, most of them replaced by a mask token, and a linear head names
#   [the mean colour of each spoilt patch](#Masked-patch-prediction);
# * **drawn shapes**: this one has had labels, but for other things, such as rings and stars.
#
# The last three did the same amount of work. Now a thousand photographs get labels. First we freeze
# all four networks, and fit a linear probe to each, and to the plain pixels.

# %% [markdown] tags=["predict"]
# **Which of MAE, MPP and drawn shapes have better features than random weights?**
#
# * all three
# * MAE and MPP, which have seen photographs
# * only MAE

# %% tags=["hide-input"]
cifar_result = results.read("unlabelled-cifar")
cifar, cifar_config = cifar_result["metrics"], cifar_result["config"]
figures.show(*unlabelled.set_free(cifar, only=("probe",)))

# %% [markdown]
# Only MAE. Compared with random weights (the dotted line), the network that names mean colours is
# no better, and the network that knows shapes is even *worse*. (Asked for [more than a mean
# colour](#Three-targets), MPP does beat random weights.) Our guess is that both have learned to
# drop what their own task doesn't need.
#
# (Every marker is one draw of a thousand labels. Here scratch, MPP and MAE have nine, because we made
# each of them three times, from other random weights.)
#
# Now let's set them free, and fine-tune all their weights for 400 steps:

# %% tags=["hide-input"]
figures.show(*unlabelled.set_free(cifar))

# %% tags=["nbval-check-output", "hide-cell"]
runs = {name: torch.tensor(cifar[name]["per_seed"]) for name in cifar}


def all_of(kind, start):
    """All starts of that kind: a row each, its draws of labels."""
    names = (f"{kind}/cifar-{start}{x}/1000" for x in unlabelled.AGAIN)
    return torch.stack([runs[x] for x in names])


def in_errors(one, other):
    """A difference, each draw of labels with itself, over its error."""
    change = one - other
    return (change.mean() / change.std() * len(change) ** 0.5).item()


random, best = (all_of("probe", start) for start in ("scratch", "mae"))
mae, mpp = (all_of("tuned", start) for start in ("mae", "mpp-mean"))
scratch, shapes = (runs[f"tuned/cifar-{x}/1000"] for x in ("scratch", "shapes"))
assert in_errors(runs["probe/cifar-shapes/1000"], random.mean(dim=0)) < -3
for values in (mae.mean(dim=0), mpp.mean(dim=0), shapes):
    assert in_errors(values, scratch) > 3
for values in (scratch, mpp.mean(dim=0), shapes):
    assert in_errors(best.mean(dim=0), values) > 3
    assert best.mean(dim=1).min() > values.mean() + 1
print("check: each of these differences is more than three errors")


# %% tags=["nbval-check-output", "hide-cell"]
def between(one, other):
    """The difference of two starts, over the error of their pretrainings."""
    one, other = one.mean(dim=1), other.mean(dim=1)
    return (one.mean() - other.mean()) / ((one.var() + other.var()) / 3).sqrt()


assert between(mae, mpp) > 3 < between(best, mpp) and between(best, random) > 3
frozen = all_of("probe", "mpp-mean")
assert between(frozen, random).abs() < 2
falls = [in_errors(x, random.mean(dim=0)) for x in frozen]
assert falls[0] < -3 and max(map(abs, falls[1:])) < 2
print("check: with three pretrainings each, the order stays")

# %% [markdown]
# Set free, all three are ahead of scratch. So don't judge a start by its frozen features alone.
#
# But follow the dotted line down from MAE's frozen features. **A linear layer on top of them beats
# each of the other three networks, though those were trained whole, on the same labels.** Of the
# network's 800,000 weights, 1,290 are in that layer, and all the others were learned without a
# single label.
#
# ## Three kinds of pictures
#
# What does looking first gain you on other pictures? Here are digits, photographs, and drawn
# shapes, this time without their names. For each kind, one MAE looked at tens of thousands, and then
# a thousand got labels. Scratch had the same labels, and as many steps with them:

# %% tags=["hide-input"]
digits_too = record | results.read("unlabelled-labels")["metrics"]
digits_too |= results.read("unlabelled-equal")["metrics"]
kinds_of_pictures = {
    "digits": (digits_too, "tuned/scratch, longer", "package/1000"),
    "photographs": (
        cifar,
        *(f"tuned/cifar-{x}/1000" for x in ("scratch", "mae")),
    ),
    "shapes": (
        cifar,
        "tuned/shapes-scratch/1000",
        "tuned/shapes-mae-shapes/1000",
    ),
}
figures.show(*unlabelled.gained(kinds_of_pictures))

# %% [markdown]
# On shapes, MAE's start gets 60% right, and scratch 23%.
#
# But is that fair? MAE's start had a long training before its first label, and scratch had none. So
# we gave scratch as much compute as MAE had in all: nearly five times as many steps on digits, ten
# times as many on photographs, with learning rates chosen for these longer runs.

# %% [markdown] tags=["predict"]
# **Where does scratch catch up with MAE?**
#
# * on digits and on photographs
# * only on digits
# * only on photographs
# * on neither

# %% tags=["hide-input"]
equal = {
    "digits": digits_too["tuned/scratch, equal"],
    "photographs": cifar["tuned/cifar-scratch-equal/1000"],
}
figures.show(*unlabelled.gained(kinds_of_pictures, equal))

# %% tags=["nbval-check-output", "hide-cell"]
alone, begun = (
    torch.tensor(digits_too[name]["per_seed"])
    for name in ("tuned/scratch, equal", "package/1000")
)
assert in_errors(alone, begun) > 3 and alone.min() > begun.max() + 1
patient = cifar["tuned/cifar-scratch-equal/1000"]
assert patient["train_per_seed"] == [100.0] * 3
patient = torch.tensor(patient["per_seed"])
assert in_errors(scratch, patient) > 3 and scratch.mean() > patient.mean() + 1
assert in_errors(mae[0], patient) > 3 and mae.min() > patient.max() + 6
print("checked: for as much compute scratch is ahead on digits alone")

# %% tags=["nbval-check-output", "hide-cell"]
few = runs["tuned/shapes-scratch/1000"]
painted_first = runs["tuned/shapes-mae-shapes/1000"]
named_first = runs["tuned/shapes-mpp-mean-shapes/1000"]
assert in_errors(painted_first, named_first) > 3 < in_errors(named_first, few)
assert painted_first.mean() > 2.5 * few.mean()
held_out = cifar_config["held_out_by_rate"]
assert max(held_out["shapes-scratch-equal"].values()) < 21
assert max(held_out["shapes-mae-shapes"].values()) > 60
by_heart = results.read("resnets-long")["metrics"]["vit-1k"]
assert min(by_heart["train_per_seed"]) == 100 and by_heart["value"] < 27
halves = cifar["tuned/cifar-scratch/500"], cifar["tuned/cifar-mae/500"]
assert min(halves[0]["train_per_seed"]) > 96
assert in_errors(*(torch.tensor(x["per_seed"]) for x in halves[::-1])) > 3
work = cifar_config["pretraining"]["mae-0"]
work = work["macs"] * work["steps"] * cifar_config["pretrain_batch"]
tuning = cifar_config["pretraining"]["shapes-0"]["macs"]
tuning *= cifar_config["tune_steps"] * cifar_config["tune_batch"]
assert 8.5 < work / tuning < 9.5
print("checked: on shapes it is far behind")

# %% [markdown]
# Only on digits! There scratch (the upper squares) is even ahead, by a point and a half. A
# thousand digits, shifted and turned a little each time, were enough. Scratch only had to see
# them more often. **With a thousand labelled digits, looking first isn't worth its compute.**
#
# On photographs, MAE's lead only grows, though these were shifted and mirrored, too. With ten
# times the steps, scratch knows its own thousand by heart, and gets *fewer* new ones right than
# before. What would help it is [more labels](#Counted-in-labels). **What MAE found in 45,000
# photographs, scratch doesn't find in a thousand, even with as much compute.**
#
# On shapes, scratch most likely doesn't catch up either. There we ran the long training only once
# with each of five learning rates, so there's no upper square. But it never got more than 21% of
# held-out shapes right.
#
# Why the difference? Here's our guess. The colours and stripes of a shape are random, and from a
# thousand labels it's hard to find out that they don't matter. But to *complete* a shape you need
# its outline, and you can practise that on as many as you like. Digits have neither
# colours nor stripes.
#
# ## Your turn
#
# On the site, here's the network itself. Write a digit on the right, and cover or uncover its
# patches on the left. How few does it take until you can read what comes back?
#
# <div class="try" data-part="mask"></div>
#
# Have you got a folder of unsorted pictures? Start this, go for a half-hour walk, and then try one
# of your pictures:
#
# ```
# vitedu train mae-shapes data=FOLDER steps=1000
# vitedu predict runs/mae-shapes-… PICTURE --complete mine.png
# ```
#
# `mine.png` shows what was left of your picture, what your own network made of it, and the
# original, at 32 pixels. Expect the right colours in a blur: the recipe's full 20,000 steps take
# a night. Then sort a few pictures into class folders, and teach it their names:
#
# ```
# vitedu train finetune data=LABELLED weights=runs/mae-shapes-…
# ```
#
# ## What to take with you
#
# 1. Hide most of a picture, ask for the rest, and a ViT learns from pictures alone. That's cheap if
#    the encoder sees only what isn't hidden. Add positions before you hide.
# 2. Always ask a simple rival, too. Our classifier read a copy more easily than the painting.
# 3. Before you believe a lead, give scratch as much compute. With a thousand labels, the
#    lead was gone on digits, but not on photographs, and most likely not on shapes.
#
# **Four questions** ([answers](#Solutions))
#
# 1. Why does `random_mask` rank random numbers, instead of tossing a coin for each patch?
# 2. Which parts of a masked autoencoder see mask tokens, and which never do?
# 3. A pretrained network beats the same network from scratch after as many steps. What do you ask
#    before you believe that pretraining helps?
# 4. Copied digits are further from the truth than painted ones, and easier to read. How can
#    that be?
#
# We've learned from many labels, from few, and now from none. But what we
# wanted in the end was always one word for a whole picture. **What if we ask where things are?** That's
# [chapter 20](20_beyond.ipynb).
#
# ## Exercises
#
# ✎ Write `random_mask` and `masked_error` again from memory. After `from vitedu import check`,
# `check.random_mask(random_mask)` and `check.masked_error(masked_error)` tell you how closely yours
# agree with ours, or what's likely to be wrong with them.
#
# **1.** ★ `num_hidden` rounds down what stays. What is the smallest number of patches of
# which three quarters can be hidden, with at least one left to see?
#
# **2.** ★ A ViT-B/16 sees 196 patches. Hide 90% of them. What share of its dense layers' work is
# left, and what share of attention's?
#
# **3.** ★★ Set `share` to ½ and to 0.9 in the first cell, and run only that cell and the drawing
# after it: later cells count on twelve patches. What changes in the pictures? Why does it run at all, and does it run well?
#
# **4.** ★★ The decoder gives an answer for visible patches too. Predict: is its error
# there smaller than at hidden patches, or larger? Then measure it with `masked_error`.
#
# **5.** ★★ Keep twelve patches that are all empty. What does the network draw when it sees
# only darkness?
#
# **6.** ★★★ Train on normalised pixels: `vitedu train mae-mnist model.normalised=true`.
# Fit linear classifiers on the frozen features. Was it worth it, and how many seeds
# would you need to say so?
#
# ## Second reading
#
# ### How it learned
#
# Here's the loss of our network while it was trained. The dotted line is what you get if you always
# answer the mean of all digits.

# %% tags=["hide-input"]
guess = (train - train.mean(dim=0)).square().mean().item()
run = result["config"]["pretraining"]["mae-mnist"]
figures.show(*unlabelled.losses(run["curve"], guess))

# %% [markdown]
# It takes over two hundred steps just to be as good as one and the same blur for every picture.
# To get below it, the network has to find out that the scraps say something about the rest.
#
# ### A strip of a 4
#
# You can watch our network hedge. Here it sees only a strip of twelve patches of a 4, and then the
# same strip moved or turned:

# %% tags=["hide-input"]
# a 1 for each patch that stays; leave twelve, as in training
keep = torch.tensor(
    [
        [0, 0, 1, 1, 0, 0, 0],
        [0, 0, 1, 1, 0, 0, 0],
        [0, 0, 1, 1, 0, 0, 0],
        [0, 0, 1, 1, 0, 0, 0],
        [0, 0, 1, 1, 0, 0, 0],
        [0, 0, 1, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0],
    ]
)
every = [keep, keep.roll(1, 1), keep.roll(2, 1), keep.T, keep.T.roll(2, 0)]
masks = torch.stack([~each.bool().flatten() for each in every])
one = digits[3:4]
pieces = patchify(one, 4).masked_fill(masks[..., None], -1)
with torch.no_grad():
    answers = torch.cat([model.complete(one, each[None]) for each in masks])
    before, after = (
        classifier(x.clamp(-1, 1)).argmax(dim=1).tolist()
        for x in (unpatchify(pieces, 4, (7, 7)), answers)
    )
figures.show(
    *unlabelled.guesses(shown(one)[0], masks, before, shown(answers), after)
)

# %% tags=["nbval-check-output", "hide-cell"]
assert before == [5, 4, 1, 4, 4] and after == [4, 4, 4, 4, 9]
print("check: strips become a 4, and the lower half of this 4 a 9")

# %% [markdown]
# On black, the classifier takes the three upright strips for a 5, a 4 and a 1. Completed, each is a
# 4. The first of the two turned strips is read as a 4 both times.
#
# In the last picture completing does harm: above the crossbar the network paints a cloud, round
# enough for the classifier to say 9. But you'd have had to guess, too, because the lower half of
# this 4 is also the lower half of many a 9. What was hidden is gone. What comes
# back is what digits usually look like.
#
# ### Counted in labels
#
# What is looking first worth in labels? Let's set all four starts of the photographs free again,
# with half as many labels, and with five times as many.

# %% tags=["hide-input"]
figures.show(*unlabelled.by_labels(cifar))


# %% [markdown]
# With 500 labels all four know their own photographs nearly by heart (on the right), so more steps
# have little left to teach them. And MAE is almost seven points ahead of scratch.
#
# The short arrow starts there: with 500 labels, MAE is about as good as scratch with a thousand, in
# equal steps, and for scratch more steps made it [no better](#Three-kinds-of-pictures). So beside
# 500 labels, having looked first is worth about 500 more. With more labels it's harder to say: of
# five thousand, scratch knows only half, so it isn't done. That's why the long arrow, from MAE with
# 1,000 to scratch with 5,000, is grey.
#
# And on shapes? In [chapter 14](14_resnets.ipynb)'s race, a smaller ViT learned a thousand larger
# shapes by heart, and got 26% of new ones right.
#
# ### Masked patch prediction
#
# The ViT paper tried this a year before MAE, in a paragraph of its appendix. *Masked patch
# prediction* (MPP) follows BERT, which learned language by filling in missing words.
# Half of the patches are [spoilt](#Spoiling,-to-the-letter), but none is left out. So the encoder
# still gets all tokens, and there's no decoder. Instead of pixels,
# a linear head has to name one colour for each spoilt patch: its mean colour, with three bits for
# each of red, green and blue.
#
# Three bits are eight levels. So a colour has $8 \cdot 8 \cdot 8 = 512$ classes, and the
# question becomes the one you know: which class is it? A patch that's half black and half white has
# the mean (½, ½, ½), so each level is $8 \cdot ½ = 4$, and the class $64 \cdot 4 + 8 \cdot 4 + 4 =
# 292$. Which one is pure blue? (Class 7.) Write it before you read on, and
# `check.colour_classes(colour_classes)` looks at yours.


# %% tags=["teaches"]
def colour_classes(pixels: Tensor) -> Tensor:
    """Colours in [0, 1], (..., c) -> their classes, c digits of 3 bits each."""
    bins = (pixels * LEVELS).long().clamp(0, LEVELS - 1)
    places = LEVELS ** torch.arange(bins.shape[-1] - 1, -1, -1)
    return (bins * places.to(bins.device)).sum(dim=-1)


# %% tags=["hide-input"]
cup = vitedu.preprocess(vitedu.load("ViT-Ti/16"), photo("coffee"))  # -1 to 1
means = F.avg_pool2d(cup, 16).permute(0, 2, 3, 1)  # (1, 14, 14, 3)
asked = colour_classes((means + 1) / 2)[0]
figures.show(*unlabelled.mosaic(shown(cup)[0], asked))


# %% [markdown]
# On the right is all that a network is asked for: a little question for each patch, with
# 512 possible answers. To get them right in the middle of the saucer, a look at the
# neighbours is enough. At its rim you have to know where a saucer ends.
#
# ### Spoiling, to the letter
#
# Masked patch prediction chooses half of the patches, and spoils their embeddings in three
# ways:
#
# * 80% become a learned mask token,
# * 10% become another patch (we take one of the same picture),
# * 10% stay as they are, though the network doesn't know which.
#
# Why keep any? The paper doesn't say, but here's a good reason. Without them, whenever the
# network is asked about a patch that it can see, that patch would be wrong, and it would learn
# to distrust its eyes. Later, with labels, there are no mask tokens, and what it sees is all it
# has.


# %% tags=["teaches"]
def spoil(
    x: Tensor,
    mask: Tensor,
    mask_token: Tensor,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Embeddings (b, n, d), spoilt where `mask` (b, n) is True."""
    b, n = mask.shape
    chance = torch.rand(b, n, generator=generator).to(x.device)
    # another one: 1 to n - 1 places further on
    step = torch.randint(1, n, (b, n), generator=generator)
    other = ((torch.arange(n) + step) % n).to(x.device)
    others = x.gather(1, other[..., None].expand_as(x))
    chance, mask = chance[..., None], mask[..., None]
    x = torch.where(mask & (chance < 0.1), others, x)
    return torch.where(mask & (chance >= 0.2), mask_token.to(x), x)


# %% [markdown]
# Numbered tokens make it visible. With 1,000 patches, and −1 for the mask token:

# %% tags=["hide-input", "nbval-check-output"]
numbered = torch.arange(1000.0).view(1, 1000, 1)
chosen = random_mask(1, 1000, 0.5, torch.Generator().manual_seed(2))
after = spoil(
    numbered,
    chosen,
    torch.full((1, 1, 1), -1.0),
    torch.Generator().manual_seed(3),
)
masked = (after == -1).sum().item()
moved = ((after != numbered) & (after != -1)).sum().item()
assert abs(masked - 400) < 30 and abs(moved - 50) < 20
print(f"of 500, masked {masked}, another {moved}, kept {500 - masked - moved}")

# %% [markdown]
# ### Normalised pixels
#
# Many people train with *normalised* pixels: in every patch, subtract the mean of its pixels
# and divide by their standard deviation. The loss then asks for edges instead of brightness,
# and He et al. find the features better for it. But what do you see if you draw the answer?
# Let's not even use a network. This is the *perfect* answer:

# %%
variance, mean = torch.var_mean(pixels, dim=-1, keepdim=True)
perfect = (pixels - mean) / (variance + 1e-6).sqrt()

# %% tags=["failure", "hide-input"]
rows = {
    "perfect": shown(unpatchify(perfect, 4, (7, 7))),
    "true": shown(digits),
}
figures.show(*unlabelled.targets(rows))

# %% [markdown]
# The strokes are all there, but black has become grey, and
# wherever a stroke passes, another grey in each patch. So you
# undo it: times the deviation, plus the mean. But of *which* patch? The hidden one, whose
# mean the network was never asked for. You have to take it from the true picture, and now
# your reconstruction has the right brightness everywhere, whatever the network says. In one
# popular repository it took [an
# issue](https://github.com/pengzhiliang/MAE-pytorch/issues/40) to point that out.
#
# ### Labels that are all the same
#
# The most flattering mistake in this book: `colour_classes` wants
# pixels between 0 and 1. Ours are between −1 and 1, as the network likes them. What if
# you forget? And what if you divide by 255, and somebody before you already has?

# %%
grey = F.avg_pool2d(train, 4).permute(0, 2, 3, 1)  # (2500, 7, 7, 1), -1 to 1
careful = colour_classes((grey + 1) / 2)
careless = colour_classes(grey)
twice = colour_classes((grey + 1) / 2 / 255)

# %% tags=["failure", "hide-input"]
ways = {"0 to 1": careful, "-1 to 1": careless, "/ 255 twice": twice}
for name, classes in ways.items():
    counts = classes.flatten().bincount(minlength=8)
    shares = counts / counts.sum()
    loss = -(shares * shares.clamp(min=1e-9).log()).sum()
    print(
        f"{name:12} commonest class {shares.max():.0%}, "
        f"loss of a constant answer {loss.abs():.2f}"
    )

# %% tags=["nbval-check-output", "hide-cell"]
assert torch.equal(colour_classes(torch.ones(2, 3)), torch.tensor([511, 511]))
assert (careless == 0).double().mean() > 0.9 > (careful == 0).double().mean()
assert not twice.any()
print("check: from -1 to 1, more than nine labels in ten are the same")

# %% [markdown]
# (Digits are grey, so here there are eight classes instead of 512.) Between −1 and 1, all
# that's darker than the middle lands in the lowest class, and a little more. Divided twice,
# everything does, and a network that always says *dark* has a loss of 0 and is always right. When a
# loss gets very low very quickly, look at the labels.
#
# ### Three targets
#
# The paper tried three: the mean colour; the patch shrunk to 4 × 4 pixels with a class for each
# of them; and all pixels with a squared error. All worked, though the last slightly worse.
# Spoiling only 15% of the patches, as BERT does with words, was slightly worse than half.
# `MPPConfig(target=...)` knows all three, as `"mean"`, `"small"` and `"pixels"`. Here they are,
# for as many multiply-adds each, and then a thousand labels (± is the error of the mean of three
# draws; a digit is grey, so a colour has eight classes):

# %% tags=["hide-input"]
more = record | results.read("unlabelled-targets")["metrics"] | cifar
kinds = ("probe", "tuned")
for heading, places in {
    "digits (%)": {"mean": "mpp-mnist", "small": "small", "pixels": "pixels"},
    "photographs (%)": {x: f"cifar-mpp-{x}/1000" for x in unlabelled.TARGETS},
}.items():
    print(f"{heading:15} {'frozen':>10} {'set free':>10}")
    for name, words in unlabelled.TARGETS.items():
        rows = [more[f"{kind}/{places[name]}"]["per_seed"] for kind in kinds]
        means = [torch.tensor(row).mean() for row in rows]
        errors = [torch.tensor(row).std() / len(row) ** 0.5 for row in rows]
        cells = [f"{m:.1f} ± {e:.1f}" for m, e in zip(means, errors)]
        print(f"{words:15}", *(f"{cell:>10}" for cell in cells))

# %% [markdown]
# On digits that's the paper's order: the first two about level, and all pixels behind, by more
# than five points where features are frozen (a result; each was pretrained once). Set free for
# only 150 steps, all three get worse.
#
# On photographs the order is reversed. Where features are frozen, all pixels are seven points ahead
# of this mean colour (a result), and at least four ahead of the two that began with other random weights.
# Set free, they're one point ahead (draw by draw 2.4 errors, a hint). MAE, which asks for pixels,
# too (normalised ones), gets 46% frozen and 48% set free.
#
# ### Set free, on digits
#
# Every marker is one run with its own draw of labels, on the right a thousand.

# %% tags=["hide-input"]
longer = results.read("unlabelled-labels")["metrics"]["package/1000"]
record |= {"tuned/mae-mnist, longer": longer}
figures.show(*unlabelled.bought(record))

# %% [markdown]
# On the left, a *single* label of each digit is enough for MAE's features to get nearly half of the
# new ones right, and the pixels only a third. With ten of each, the pixels have caught up.
#
# On the right, after 450 steps, MAE's start gets 94%, ten points more than the pixels. But scratch
# doesn't know its *own* digits yet (the dashed line), and given [as much
# compute](#Three-kinds-of-pictures) it's ahead.
#
# Each start has its own learning rate, the best of three to six on a thousand held-out digits.
#
# ### At full scale
#
# Masked patch prediction brought a ViT-B/16 to 79.9% on ImageNet, two points more than from
# scratch, and four less than pretraining with labels. A year later, MAE on ImageNet's own pictures
# brought a B/16 from 82.3% to 83.6%.
#
# ### Since then
#
# Before the ViT there was [iGPT](https://proceedings.mlr.press/v119/chen20s.html) (Chen
# et al. 2020), GPT-2 for pixels: one token per pixel, its colour one of 512, and the
# question is always *which comes next?* One token per pixel turns even a tiny picture into
# a long sequence. It took 6.8 billion weights to reach 72.0% on ImageNet with a linear
# probe. A patch makes one token of 256 pixels: that's what the ViT changed.
#
# And after it? Most of what pixels hold is texture that nobody needs. So ask for something more abstract. But who
# knows the answer, if nobody labels? A slow copy of the network itself.
#
# | who | what has to be found | what came out |
# |---|---|---|
# | [DINO](https://arxiv.org/abs/2104.14294) (Caron et al. 2021) | what the slow copy says about another crop of the picture | 78.3% on ImageNet by nearest neighbours, with a small ViT; attention that follows outlines |
# | [MAE](https://arxiv.org/abs/2111.06377) (He et al. 2022) | hidden pixels | B/16 83.6% fine-tuned |
# | [iBOT](https://arxiv.org/abs/2111.07832) (Zhou et al. 2022) | DINO's question, and the slow copy's tokens for hidden patches | B/16 79.5% with a linear probe, 83.8% fine-tuned |
# | [data2vec](https://arxiv.org/abs/2202.03555) (Baevski et al. 2022) | the slow copy's vectors of hidden parts, for pictures, speech and text alike | one recipe for three kinds of data |
# | [DINOv2](https://arxiv.org/abs/2304.07193) (Oquab et al. 2023) | iBOT's questions, on 142 million selected pictures | frozen features that serve for nearly everything |
# | [DINOv3](https://arxiv.org/abs/2508.10104) (Siméoni et al. 2025) | the same with 1.7 billion pictures and 7 billion weights | features of single patches that stay sharp in long training |
#
# Many of these weights are a line away, `vitedu.load("timm/vit_base_patch16_224.mae",
# num_classes=0)` for example, and everything in chapters 9 to 13 works with them.
#
# ## Where this is in the paper
#
# | here | in the paper |
# |---|---|
# | masked patch prediction, its three targets, 79.9% and 77.9% | section 4.6 and appendix B.1.2 |
# | completing pictures, leaving hidden patches out | not there: He et al. 2022 |
#
# ### What differs
#
# The paper pretrains B/16 on JFT, 300 million photographs, for a million steps of 4,096.
# Ours have four blocks of 64 numbers and saw digits, or six of 128 and CIFAR-10 or drawn shapes,
# each picture 28 times at most, so they took minutes. The paper's colours have three channels,
# digits have one. It gives no code for the numbering of colours; $64 r + 8 g + b$ is ours. He
# et al. mostly learn normalised pixels, as we did on CIFAR-10 but not on digits, with a
# decoder of eight blocks; ours have one or two.
#
# ## Three readings
#
# * [He et al. 2022](https://arxiv.org/abs/2111.06377): why three quarters, why a small
#   decoder, why pixels.
# * [Chen et al. 2020](https://proceedings.mlr.press/v119/chen20s.html) read pictures
#   pixel by pixel, as text, and find that the best features are in the middle of the
#   network.
# * [Caron et al. 2021](https://arxiv.org/abs/2104.14294) disagree about what to ask for:
#   nothing is filled in, and yet outlines appear.
#
# ## Solutions
#
# <details><summary>Four questions</summary>
#
# 1. With coins, another number of patches would stay in each picture, and they wouldn't fit
#    into one tensor.
# 2. The decoder sees them, in all the empty places. The encoder never does.
# 3. What happens if scratch gets as much compute, pretraining included? At least, does it know its
#    own labelled pictures yet? And did both have their own best learning rate?
# 4. The copy settles for one whole digit. A squared error asks for the mean of all that could
#    be there, which is blurred.
#
# </details>
#
# <details><summary>Solution 1</summary>
#
# Four. Of two or three patches, a quarter is less than one whole patch, and rounded down
# that's none. The package refuses, and says so.
#
# </details>
#
# <details><summary>Solution 2</summary>
#
# A tenth of 196, rounded down, is 19. So about a tenth of the dense layers' work is left, and
# about a hundredth of attention's.
#
# </details>
#
# <details><summary>Solution 3</summary>
#
# It gets worse both ways. With less to see, that's no surprise. With half of the picture it runs,
# since it takes any number of tokens. But in training it has only ever met twelve, and what's right
# for twelve isn't right for 24: it does worse than the mean digit, 0.26, with
# twice as much to see. Below are the errors on all test digits.
#
# </details>

# %% tags=["hide-cell"]
for share in (0.5, 0.75, 0.9):
    covers = random_mask(500, 49, share, torch.Generator().manual_seed(0))
    with torch.no_grad():
        error = model(in_range(data.test.images), covers).mean()
    print(f"{share:.0%} hidden: error {error:.2f}")

# %% [markdown]
# <details><summary>Solution 4</summary>
#
# Larger! Nobody ever asked it for these, so it answers anything there. That's why
# `complete` keeps the visible patches of the picture. These are the six digits from the
# beginning; over all 500 test digits, the error of hidden patches is 0.19.
#
# </details>

# %% tags=["hide-cell"]
print(f"hidden  {masked_error(found, pixels, mask).mean():.2f}")
print(f"visible {masked_error(found, pixels, ~mask).mean():.2f}")

# %% [markdown]
# <details><summary>Solution 5</summary>
#
# A faint upright cloud in the middle, broader or narrower, but never a digit: where it's dark
# says little. With a squared error, if many answers are possible, the best one
# is their mean. That's also why everything that it draws is blurred.
#
# </details>

# %% tags=["hide-cell"]
empty = patchify(digits, 4).amax(dim=2) < -0.99  # (6, 49)
noise = torch.rand(6, 49, generator=torch.Generator().manual_seed(0))
ranks = noise.masked_fill(~empty, 2).argsort(dim=1).argsort(dim=1)
kept = ranks < 12  # twelve of the empty ones
with torch.no_grad():
    alone = model.complete(digits, ~kept)
figures.show(*unlabelled.completed(shown(digits), ~kept, shown(alone)))

# %% [markdown]
# <details><summary>Solution 6</summary>
#
# We haven't tried. Take three seeds of each at least, and the rule of [chapter
# 5](05_mnist.ipynb): divide the difference by its error. Below 2 it's no result, from 2
# to 3 a hint, above 3 a result.
#
# </details>
