# %% [markdown] tags=["links", "remove-cell"]
# [Open in Colab](COLAB) · [this page on the site](SITE) · about an hour · half a minute of computing on a laptop, no GPU needed

# %% tags=["setup", "remove-cell"]
import vitedu

# %% [markdown]
# # Without labels
#
# Every network in this book so far had a teacher. For each picture, somebody had written
# down what it shows. This one has never been told anything. It has looked at 60,000
# handwritten digits, each time with three quarters of the picture covered, and guessed
# what was underneath.
#
# Here are eight digits that it has never seen. We cover 37 of their 49 patches, and ask.
# (The folded cells have the drawing code.)

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
from vitedu.model import SinCos2D, patchify, unpatchify
from vitedu.model.mae import MAE, MAEConfig, num_hidden
from vitedu.model.mpp import LEVELS, MPP, MPPConfig

STEPS = {"smoke": 6, "cpu": 240, "gpu": 240}[TIER]
result = results.read("unlabelled")
record = result["metrics"]
model = vitedu.load("mae-mnist")
data = load_dataset("digits")


def in_range(pixels):
    """From 0 to 255 as files have them to -1 to 1 as the network does."""
    return pixels / 127.5 - 1


def shown(images):
    """Back to 0 to 1, for drawing."""
    return ((images + 1) / 2).clamp(0, 1)


first = [data.test.labels.tolist().index(k) for k in (0, 2, 3, 4, 5, 6, 8, 9)]
digits = in_range(data.test.images[first])  # (8, 1, 28, 28)


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


# %%
torch.manual_seed(1)
mask = random_mask(8, 49, share=0.75)
with torch.no_grad():
    completed = model.complete(digits, mask)

# %% tags=["hide-input"]
figures.show(*unlabelled.completed(shown(digits), mask, shown(completed)))

# %% [markdown]
# It's blurred, and now and then it's wrong. But look at what it had to go on. To draw the
# rest of a digit from a few scraps of ink, you have to know something about digits: that
# strokes go on, that loops close, which curves belong together. Nobody told it that.
#
# **What can a network learn from pictures alone, and what is that worth once a few labels
# come along?**
#
# ## Hide three quarters
#
# You've just seen the first of three definitions that you'll need. It hides the same number
# of patches in every picture, so that what's left still fits into one tensor. How do you
# pick 37 of 49 at random? Deal out random numbers, and hide those with the lowest. One
# `argsort` says *which patch* has the lowest number, which the second, and so on. A second
# `argsort` turns that around, and gives each patch its rank.
#
# **Take a pencil.** Four patches draw the numbers 0.7, 0.1, 0.9 and 0.4. Write down the
# first argsort, then the argsort of that, and the mask for a share of ½.

# %%
noise = torch.tensor([0.7, 0.1, 0.9, 0.4])
noise.argsort(), noise.argsort().argsort(), noise.argsort().argsort() < 2

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
# Now comes the idea that makes a *masked autoencoder* cheap ([He et al.
# 2022](https://arxiv.org/abs/2111.06377)). You might put a blank in the place of every
# hidden patch. Instead, hidden patches are simply left out. The encoder is the ViT that you
# know, and all it gets is twelve tokens instead of 49:

# %%
tokens = model.embed(digits)  # (8, 49, 64), positions already added
visible = tokens[~mask].unflatten(0, (8, 12))  # (8, 12, 64)
z = model.norm(model.blocks(visible))  # (8, 12, 64)
z.shape

# %% [markdown] tags=["predict"]
# A ViT doesn't mind: attention takes any number of tokens. **How much of the blocks' work is
# left, when three quarters of the tokens are gone?**
#
# * about half
# * a little less than a quarter
# * about a sixteenth

# %% tags=["nbval-check-output", "hide-input"]
from vitedu.budget.operations import block_macs

whole, quarter = (block_macs(model.config, t) for t in (49, 12))
print(f"{quarter / whole:.0%} of the multiply-adds")

# %% [markdown]
# The dense layers treat each token by itself, so they cost a quarter. Attention compares
# pairs, and of the pairs only a sixteenth is left, but with 49 tokens it's a small part of
# the sum. In the paper the encoder is a ViT-L, and this is what makes it affordable.
#
# ## A decoder that fills in the rest
#
# Twelve tokens have to become 49 patches. So we need something in the empty places:
# one learned vector, the *mask token*, the same for each of them. How does it know which
# place it's in? From its position, added once more. Then come a few small blocks, and a linear map from
# each token to the sixteen pixels of its patch.

# %%
everywhere = model.mask_token.repeat(8, 49, 1)  # (8, 49, 48)
everywhere[~mask] = model.decoder_embed(z).flatten(0, 1)
everywhere = everywhere + model.decoder_pos_embed()
found = model.decoder_pred(
    model.decoder_norm(model.decoder_blocks(everywhere))
)  # (8, 49, 16)

# %% tags=["nbval-check-output", "hide-cell"]
pixels = patchify(digits, 4)
mixed = torch.where(mask[..., None], found, pixels)
assert torch.allclose(unpatchify(mixed, 4, (7, 7)), completed, atol=1e-5)
print("check: step by step, it's what model.complete does")

# %% [markdown]
# The encoder never meets a mask token, and the decoder is thrown away after training. That's
# why people call the pair *asymmetric*: a large network that understands, and a small one that
# paints.
#
# What's a good answer? One whose pixels are close to the true ones. Call the set of hidden
# patches $\mathcal{H}$, their true pixels $\mathbf{x}_i$ and the answers
# $\hat{\mathbf{x}}_i$, and let a patch have $P^2 C$ numbers. The loss is the mean squared error,
#
# $$ \ell = \frac{1}{|\mathcal{H}|} \sum_{i \in \mathcal{H}} \frac{1}{P^2 C}
# \lVert \hat{\mathbf{x}}_i - \mathbf{x}_i \rVert^2 . $$
#
# Only hidden patches count. The others were given away.


# %% tags=["teaches"]
def masked_error(found: Tensor, pixels: Tensor, mask: Tensor) -> Tensor:
    """Mean squared error of the hidden patches: (b, n, d) twice -> (b,)."""
    errors = (found - pixels).square().mean(dim=-1)  # (b, n)
    return (errors * mask).sum(dim=1) / mask.sum(dim=1)


# %% tags=["nbval-check-output", "hide-cell"]
assert torch.allclose(masked_error(found, pixels, mask), model(digits, mask))
assert torch.equal(masked_error(pixels, pixels, mask), torch.zeros(8))
print("check: the loss is the package's, and 0 for a perfect answer")

# %% [markdown]
# That's all. Let's train one here, on the 2,500 digits that come with the package. Their
# labels stay in the drawer.

# %% tags=["hide-cell"]
train = in_range(data.train.images)
SIZES = dict(
    image_size=28,
    patch_size=4,
    in_channels=1,
    embed_dim=64,
    depth=4,
    num_heads=4,
    mlp_dim=128,
    position=SinCos2D(),
    pool="mean",
    class_token=False,
)
DECODER = dict(
    decoder_dim=48, decoder_depth=1, decoder_heads=4, normalised=False
)


def new(kind, **fields):
    """A network with the same first weights each time."""
    torch.manual_seed(0)
    config = {MAE: MAEConfig, MPP: MPPConfig}.get(kind, MAEConfig)
    return kind(config(**SIZES, **fields))


# %%
def learn(network, steps=STEPS):
    """Train on the digits, without their labels; the loss of each step."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    losses = []
    for _ in range(steps):
        images = train[torch.randint(len(train), (64,))]
        loss = network(images).mean()  # draws a mask, too
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


right = learn(new(MAE, **DECODER))

# %% [markdown] tags=["predict"]
# ## Two ways to get it wrong
#
# Here's a slip that's easy to make. You throw hidden patches away first, and add the positions
# afterwards: row 0 of the table to the first patch that's left, row 1 to the second.
#
# ```python
# visible = network.patch_embed(images)[~mask].unflatten(0, (64, 12))
# visible = visible + positions[:, :12]
# ```
#
# Shapes fit, and nothing complains. **What will the loss do?**
#
# * not fall at all
# * fall at first, but stop much higher
# * fall as before: the decoder has positions of its own


# %% tags=["hide-cell"]
class Late(MAE):
    """Positions come after hiding: a mistake."""

    def encode(self, images, mask):
        x = self.patch_embed(images)[~mask].unflatten(0, (len(images), -1))
        x = x + self.pos_embed()[:, : x.shape[1]]
        return self.norm(self.blocks(x))


# %% tags=["failure"]
wrong = learn(new(Late, **DECODER))

# %% tags=["hide-input", "nbval-ignore-output"]
mean_digit = train.mean(dim=0)
guess = (train - mean_digit).square().mean().item()
curves = {"positions first": right, "hidden first": wrong}
figures.show(*unlabelled.losses(curves, guess, max(1, STEPS // 24)))

# %% [markdown]
# It falls at first. In most pictures the middle is bright and the rim is dark, and the decoder
# can learn that much without any help from the encoder. But a scrap of ink that could have come from
# anywhere tells it hardly anything more. If you only watch that the loss goes down, you'll
# never notice.
#
# The second mistake is one of looking. Many people train with *normalised* pixels: in every
# patch, subtract the mean of its pixels and divide by their standard deviation. The loss then
# asks for edges instead of brightness, and in the paper features get better by it. But what do
# you see if you draw the answer? Let's not even use a network. This is the *perfect* answer:

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
# A perfect network would look broken. So you undo it: times the deviation, plus the mean. But of
# *which* patch? The hidden one, whose mean the network was never asked for. You have to take
# it from the true picture, and now your reconstruction has the right brightness everywhere, whatever
# the network says. A [well-known repository](https://github.com/pengzhiliang/MAE-pytorch/issues/40)
# did this until somebody noticed. That's why ours, whose pictures you look at,
# learned plain pixels.
#
# ## The paper's own way
#
# The ViT paper tried this a year earlier, in a paragraph of its appendix, and called it *masked patch
# prediction*. It follows BERT, which learned language by filling in missing words. Half of the
# patches are spoilt *after* the linear embedding. Of these,
#
# * 80% become a learned mask token,
# * 10% become another patch of the same picture,
# * 10% stay as they are, though the network doesn't know which.
#
# The encoder sees all places, spoilt or not, and there's no decoder. And instead of pixels, a
# linear head has to name one colour for each spoilt patch: its mean colour, with three bits for
# each of red, green and blue.
#
# Three bits are eight levels. So a colour has $8 \cdot 8 \cdot 8 = 512$ classes, and the
# question becomes the one you know: which class is it?


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
# On the right is all that a network is asked for: 196 little questions with 512 possible
# answers. To get them right in the middle of the saucer, it's enough to look next door. At its rim you
# have to know where a saucer ends.
#
# One more slip, and it's the most comfortable one in this book. `colour_classes` wants
# pixels between 0 and 1. Ours are between −1 and 1, as the network likes them. What if you
# forget? And what if you divide by 255, and somebody before you already has?

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
        f"loss of a constant answer {loss:.2f}"
    )

# %% tags=["nbval-check-output", "hide-cell"]
assert torch.equal(colour_classes(torch.ones(2, 3)), torch.tensor([511, 511]))
assert (careless == 0).double().mean() > 0.9 > (careful == 0).double().mean()
assert not twice.any()
print("check: from -1 to 1, more than nine labels in ten are the same")

# %% [markdown]
# (Digits are grey, so here there are eight classes instead of 512.) Between −1 and 1,
# everything darker than the middle lands in class 0. Divided twice, everything does. The
# loss falls to nothing within a minute, the accuracy is wonderful, and the network has learned
# to say *dark*. When a loss gets very low very quickly, look at the labels.
#
# ## What it buys
#
# Now for the second half of our question. We've trained both, MAE and masked patch prediction
# (MPP), on the 60,000 digits of MNIST without labels, for the same number of multiply-adds.
# MAE saw more pictures for it, because each costs it less:

# %% tags=["hide-input"]
for start in ("mae-mnist", "mpp-mnist"):
    each = result["config"]["pretraining"][start]
    total = each["images"] * each["macs_per_image"]
    print(
        f"{start[:3].upper()}: {each['images']:7,} pictures, "
        f"{each['macs_per_image'] / 1e6:.1f} million multiply-adds each, "
        f"{total / 1e12:.1f} trillion in all"
    )

# %% [markdown] tags=["predict"]
# Then come labels, but only for 1,000 of the digits, 100 of each. We try two things. We freeze the network
# and fit a linear classifier on its features, as in [chapter 13](13_few_shot.ipynb). Or we fine-tune all of it,
# with a rate chosen for each start on held-out digits. Beside them is the same network without any
# pretraining. **Where will pretraining help most?**
#
# * frozen features: they're all that the classifier has
# * fine-tuning: there everything can adapt
# * nowhere: a thousand labels are enough for digits

# %% tags=["hide-input"]
figures.show(*unlabelled.bought(record))

# %% tags=["hide-input"]
print(f"{'right on 5,000 new digits (%)':38}  mean   ± error   its own 1,000")
NAMES = {
    "probe/scratch": "untrained, frozen, linear probe",
    "probe/mpp-mnist": "MPP, frozen, linear probe",
    "probe/mae-mnist": "MAE, frozen, linear probe",
    "tuned/scratch": "from scratch",
    "tuned/scratch, longer": "from scratch, three times as long",
    "tuned/mpp-mnist": "MPP, then fine-tuned",
    "tuned/mae-mnist": "MAE, then fine-tuned",
}
for name, words in NAMES.items():
    each = record[name]
    values = torch.tensor(each["per_seed"])
    error = values.std().item() / len(values) ** 0.5
    line = f"{words:38}{values.mean():6.1f}{error:10.1f}"
    if "train_per_seed" in each:
        line += f"{sum(each['train_per_seed']) / len(values):15.1f}"
    print(line)

# %% [markdown]
# RESULT
#
# The paper's numbers have the same shape. Its B/16, pretrained by masked patch prediction on 300 million
# unlabelled pictures, reaches 79.9% on ImageNet, and from scratch 77.9%. Two points; pretraining with labels
# was still 4% ahead. So the authors left it at a paragraph. A year later, MAE on ImageNet's own pictures
# brought a B/16 from 82.3% to 83.6%, and the larger the network, the more: ViT-L went from 82.6 to
# 85.9%.
#
# Do the two of them look at pictures differently? Take the distance of attention from [chapter 15](15_inside.ipynb):

# %% tags=["hide-input"]
from vitedu.interpret.distance import patch_distances

everywhere_alike = patch_distances((7, 7), 4).mean().item()
figures.show(*unlabelled.distances(record, everywhere_alike))

# %% [markdown]
# DISTANCE
#
# ## Since then
#
# Before the ViT there was [iGPT](https://proceedings.mlr.press/v119/chen20s.html) (Chen et al. 2020),
# GPT-2 for pixels: one token per pixel, its colour one of 512, and the question is always *which comes next?* With
# one token per pixel, a picture of 64 × 64 already has 4,096 of them. It took 6.8 billion weights to reach 72.0%
# on ImageNet with a linear probe. A patch of 16 × 16 turns 224 × 224 pixels into 196 tokens: that's what
# the ViT changed.
#
# And after it? People noticed that pixels may be the wrong thing to ask for, since most of a pixel is texture that
# nobody needs. So ask for something more abstract. But who knows the answer, if nobody labels? A slow copy
# of the network itself.
#
# | who | what has to be found | what came out |
# |---|---|---|
# | [DINO](https://arxiv.org/abs/2104.14294) (Caron et al. 2021) | what the slow copy says about another crop of the picture | 78.3% on ImageNet by nearest neighbours, nothing fine-tuned; attention that follows outlines |
# | [MAE](https://arxiv.org/abs/2111.06377) (He et al. 2022) | hidden pixels | B/16 83.6% fine-tuned |
# | [iBOT](https://arxiv.org/abs/2111.07832) (Zhou et al. 2022) | DINO's question, and the slow copy's tokens for hidden patches | B/16 79.5% with a linear probe, 83.8% fine-tuned |
# | [data2vec](https://arxiv.org/abs/2202.03555) (Baevski et al. 2022) | the slow copy's vectors of hidden parts, for pictures, speech and text alike | one recipe for three kinds of data |
# | [DINOv2](https://arxiv.org/abs/2304.07193) (Oquab et al. 2023) | iBOT's questions, on 142 million selected pictures | frozen features that serve for nearly everything |
# | [DINOv3](https://arxiv.org/abs/2508.10104) (Siméoni et al. 2025) | the same with 1.7 billion pictures and 7 billion weights | features of single patches that stay sharp in long training |
#
# Many of these weights are a line away, `vitedu.load("timm/vit_base_patch16_224.mae", num_classes=0)` for example,
# and everything in chapters 9 to 13 works with them.
#
# ## Your own mask
#
# Back to our small network. A completed picture isn't *the* answer, only one that fits. Choose yourself what it may
# see: `keep` has a 1 for each patch that stays.

# %%
keep = torch.tensor(
    [
        [1, 1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 0],
    ]
)
mine = ~keep.bool().flatten()[None]

# %% tags=["hide-input"]
turned = [keep, keep.flip(1), keep.T, keep.flip(1).T, 1 - keep]
masks = torch.stack([~each.bool().flatten() for each in turned])
one = digits[3:4]
with torch.no_grad():
    answers = torch.cat([model.complete(one, each[None]) for each in masks])
figures.show(*unlabelled.guesses(shown(one)[0], masks, shown(answers)))

# %% [markdown]
# GUESS
#
# And your own pictures? A folder without any classes is enough:
#
# ```
# vitedu train mae-shapes data=FOLDER
# vitedu train finetune data=LABELLED weights=runs/mae-shapes-…
# ```
#
# ## What to take with you
#
# 1. Hide most of a picture, ask for the rest, and a ViT learns from pictures alone. If the encoder sees only what
#    isn't hidden, that's cheap.
# 2. Positions come first, hiding second. Look at your labels when a loss falls too fast, and at your pictures
#    only after undoing what you did to the pixels.
# 3. What it's worth is measured with few labels, against the same network from scratch, at each one's own rate.
#
# **Five questions**
#
# 1. Why does `random_mask` rank random numbers, instead of tossing a coin for each patch?
# 2. Which parts of a masked autoencoder see mask tokens, and which never do?
# 3. Why does the loss count hidden patches alone?
# 4. In masked patch prediction, 10% of the chosen patches stay as they are. What would the network learn to do without these?
# 5. A network trained on normalised pixels gives you perfect reconstructions, brightness and all. What do you ask its author?
#
# We've now learned from labels, from few labels, and from none. But one thing has been the same all along: at the end
# stood one word for a whole picture. **What if we ask where things are?** That's [chapter 20](20_beyond.ipynb).
#
# ## Exercises
#
# ✎ Write `random_mask`, `masked_error` and `colour_classes` again from memory. After `from vitedu import check`,
# `check.random_mask(random_mask)`, `check.masked_error(masked_error)` and `check.colour_classes(colour_classes)`
# tell you how closely yours agree with ours, or what's likely to be wrong with them.
#
# **1.** ★ What is the smallest number of patches of which three quarters can be hidden, with at least one left to see? What does
# `MAEConfig` say for a picture that is a single patch?
#
# **2.** ★ A patch is half black (0, 0, 0) and half white (1, 1, 1). Which of the 512 classes has its mean colour? And which one has
# pure blue?
#
# **3.** ★★ Set `share` to ½ and to 0.9 in the second cell. (The network was trained with ¾.) What changes in the pictures, and why does
# it cope with either?
#
# **4.** ★★ In `learn`, let the loss count *all* patches instead of the hidden ones. Predict first: will the loss be lower or higher?
# And the pictures?
#
# **5.** ★★ Keep nothing but patches that are empty. What does the network draw when it sees only darkness, and what does that tell you?
#
# **6.** ★★★ Train `MPP` in the place of `MAE` with `learn`, once with classes from careful colours and once from careless ones. How
# would you find the mistake without knowing it's there?
#
# ## Second reading
#
# ### Spoiling, to the letter
#
# Masked patch prediction chooses half of the patches and spoils them in three ways. Here's the package's definition:


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
print(f"of 500, masked {masked}, another {moved}, kept {500 - masked - moved}")

# %% [markdown]
# ### Three targets
#
# The paper tried three: the mean colour; the patch shrunk to 4 × 4 pixels with a class for each of them; and all pixels with a squared
# error. All worked, the last slightly worse, and 15% of spoilt patches, as in BERT, slightly worse than half. `MPPConfig(target=...)`
# knows all three, as `"mean"`, `"small"` and `"pixels"`.
#
# ## Where this is in the paper
#
# | here | in the paper |
# |---|---|
# | masked patch prediction, its three targets, 79.9% and 77.9% | section 4.6 and appendix B.1.2 |
# | distance of attention | section 4.5 and appendix D.7 |
# | completing pictures, leaving hidden patches out | not there: He et al. 2022 |
#
# ### What differs
#
# The paper pretrains B/16 on JFT, 300 million photographs, for a million steps of 4,096. Ours has four blocks of 64 numbers, saw digits,
# and took minutes of one core. Its colours have three channels, digits have one. It gives no code for the numbering of colours; $64 r + 8 g + b$ is ours.
# Our MAE learns plain pixels, He et al. mostly normalised ones, with a decoder of eight blocks.
#
# ## Three readings
#
# * [He et al. 2022](https://arxiv.org/abs/2111.06377): why three quarters, why a small decoder, why pixels.
# * [Chen et al. 2020](https://proceedings.mlr.press/v119/chen20s.html) read pictures pixel by pixel, as text, and find that the best features are in the middle
#   of the network.
# * [Caron et al. 2021](https://arxiv.org/abs/2104.14294) disagree about what to ask for: nothing is filled in, and yet outlines appear.
#
# ## Solutions
#
# <details><summary>Solution 1</summary>
#
# Two: `int(2 · 0.25)` is 0, so nothing would be left, and the package refuses. Three give 0 as well, and four leave one. With a single
# patch, it says that hiding it leaves nothing to see, and asks for a smaller `patch_size`.
#
# </details>
#
# <details><summary>Solution 2</summary>
#
# The mean is (½, ½, ½), so each level is $8 \cdot ½ = 4$, and the class is $64 \cdot 4 + 8 \cdot 4 + 4 = 292$. Pure blue is (0, 0, 7): class 7.
#
# </details>
#
# <details><summary>Solution 3</summary>
#
# With half of the patches it's nearly right everywhere, with a tenth it often draws another digit. Attention takes any number of tokens, and each brings its
# position along, so nothing in the network depends on there being twelve.
#
# </details>
#
# <details><summary>Solution 4</summary>
#
# Lower, because visible patches are easy: the decoder only has to copy them. But copying takes up capacity that hidden patches would need. He et al. report
# slightly worse features for it.
#
# </details>
#
# <details><summary>Solution 5</summary>
#
# It draws something faint where the empty patches leave room for ink, near the mean of all digits that would be dark there. With a squared error, if
# many answers are possible, the best one is their mean. That's also why everything it draws is blurred.
#
# </details>
#
# <details><summary>Solution 6</summary>
#
# `learn(new(MPP))` trains with careful colours. For the careless ones, set `network.preprocess` to one with mean 0 and deviation 1, so that nothing is undone. The loss
# is far lower at once: compare it with the loss of a constant answer, as above, and it's hardly better than that in either case's first steps. Count the classes
# before you train.
#
# </details>
