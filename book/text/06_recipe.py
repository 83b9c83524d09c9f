# %% [markdown] tags=["links", "remove-cell"]
# [Open in Colab](COLAB) · [this page on the site](SITE) · about an hour · about five minutes of computing on a laptop, no GPU needed · about 12 minutes on a T4 (predicted)

# %% tags=["setup", "remove-cell"]
import vitedu

# %% [markdown]
# # The recipe
#
# You've trained a ViT on digits ([chapter 5](05_mnist.ipynb)), so now you try photographs. Many
# people start with CIFAR-10 ([Krizhevsky
# 2009](https://www.cs.toronto.edu/~kriz/learning-features-2009-TR.pdf)): colour pictures of 32×32
# pixels in ten classes. And many are disappointed. Let's be disappointed, too, and then find out
# what was missing.

# %% tags=["nbval-ignore-output", "hide-input"]
import math
import os
import statistics

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from vitedu import figures, results
from vitedu.data import Augment, MissingDataError, load_dataset, mix, photo
from vitedu.data.augment import apply, augmentation_table
from vitedu.figures import photos
from vitedu.figures.chapters import recipe
from vitedu.plain import ViT, accuracy, train_step, warmup_cosine
from vitedu.train import find_device
from vitedu.train.finetune import tier_of
from vitedu.train.optimizer import parameter_groups

torch.set_num_threads(1)
_ = torch.manual_seed(0)
TIER = os.environ.get("VITEDU_TIER") or tier_of("auto")
device = find_device("auto" if TIER == "gpu" else "cpu")
print(f"tier {TIER}, seed 0, {device}, torch {torch.__version__}")

# %% tags=["nbval-ignore-output", "hide-input"]
# pictures in each part, epochs, and how often we look at a run
SIZES = {"smoke": (256, 2, 1), "cpu": (5_000, 20, 4), "gpu": (25_000, 40, 8)}
COUNT, EPOCHS, EVERY = SIZES[TIER]
try:
    data = load_dataset("cifar10")
except MissingDataError:
    data = load_dataset("shapes", image_size=32, max_images=2 * COUNT)
pixels = data.train.images[: 2 * COUNT].to(device) / 127.5 - 1
labels = data.train.labels[: 2 * COUNT].to(device)
(x_learn, x_held), (y_learn, y_held) = (
    part.split(COUNT) for part in (pixels, labels)
)
print(f"{data.name}: {len(x_learn):,} to learn from, {len(x_held):,} held out")

# %% tags=["nbval-ignore-output", "hide-input"]
kinds = y_held.unique().tolist()[:10]
shown = [int((y_held == kind).nonzero()[5]) for kind in kinds]
names = [data.class_names[kind] for kind in kinds]
ten = dict(zip(names, (x_held[shown].cpu() + 1) / 2, strict=True))
alt = f"A held-out picture of each class: {', '.join(names)}."
figures.show(*photos.pictures(ten, alt, columns=5))


# %% [markdown]
# A hidden cell has divided the pictures (`pixels`) into halves of 5,000 (`COUNT`): `x_learn`, with
# labels `y_learn`, to learn from, and `x_held`, with `y_held`, held out. A run of twenty epochs
# takes a minute.
#
# Our network is a small version of your class from chapter 4, and the loop is the usual
# tutorial's: Adam, one learning rate, nothing else.


# %%
def small(seed=0, patch=8):
    """0.3 million weights; the seed decides their first values."""
    torch.manual_seed(seed)
    sizes = {"embed_dim": 96, "depth": 4, "num_heads": 4, "mlp_dim": 192}
    return ViT(32, patch, 3, 10, **sizes).to(device)


def tutorial(model, optimizer, epochs):
    """The usual loop; it pauses after each epoch."""
    for epoch in range(1, epochs + 1):
        for batch in torch.randperm(len(x_learn)).split(64):
            train_step(model, optimizer, x_learn[batch], y_learn[batch])
        yield epoch


# %% tags=["hide-input"]
def watch(model, run):
    """Epoch -> percent right of what it learned from, and of what it didn't."""
    seen = {}
    for epoch in run:
        if epoch in (1, EPOCHS) or epoch % EVERY == 0:
            seen[epoch] = (
                100 * accuracy(model, x_learn, y_learn),
                100 * accuracy(model, x_held, y_held),
            )
    return seen


# %% [markdown]
# `watch`, in a hidden cell, trains and notes, six times, two accuracies: the *training accuracy*,
# on the pictures that the network learns from, and the *held-out accuracy* (or validation
# accuracy), on the others.

# %% tags=["nbval-ignore-output"]
first = small()
adam = torch.optim.Adam(first.parameters(), lr=0.001)
seen = watch(first, tutorial(first, adam, EPOCHS))

# %% tags=["hide-input"]
figures.show(*recipe.parting({"": seen}))


# %% [markdown]
# At the end, the training accuracy is 88%, and the held-out accuracy less than half of that. The
# blue curve soon stops rising, and what the dashed curve gains after that is learned by heart:
# the network is *overfitting*. The space between the curves is the *gap*. It's the first thing to
# look at.
#
# Are ViTs just bad at small photographs? No: [a larger one](#From-scratch,-on-a-GPU), with ten
# times your pictures and epochs, gets 87%. **So what does your run lack, and would a longer run
# need the same ingredients?** You'll build three ingredients, we'll weigh eleven, and all the
# runs will end up on one map.
#
# ## Show it something new
#
# Your network saw the same pictures twenty times over. Let's show it something new each time:
# shift each picture by up to four pixels, and mirror about half. A cat stays a cat.


# %%
def jiggle(images):
    """Shift each picture by up to 4 pixels, and mirror about half of them."""
    b, size = len(images), images.shape[-1]
    padded = F.pad(images, (4, 4, 4, 4))  # a border of 0, which is grey
    places = padded.unfold(2, size, 1).unfold(3, size, 1)  # (b, c, 9, 9, h, w)
    down, right = torch.randint(9, (2, b))  # one of 9 rows, one of 9 columns
    moved = places[torch.arange(b), :, down, right]  # (b, c, h, w)
    is_mirrored = torch.rand(b, 1, 1, 1).to(images.device) < 0.5
    return torch.where(is_mirrored, moved.flip(-1), moved)


# %% [markdown]
# `unfold` lists all views of the padded picture, and each picture picks one. In five epochs,
# your network would see a cat like this:

# %% tags=["hide-input"]
small_cat = photo("cat").crop((75, 0, 375, 300)).resize((32, 32))
cat = torch.tensor(np.array(small_cat)).permute(2, 0, 1) / 127.5 - 1
cats = torch.stack([cat] * 5)
torch.manual_seed(22)
panels = {"the photograph": cat / 2 + 0.5}
for epoch, seen_cat in enumerate(jiggle(cats), start=1):
    panels[f"epoch {epoch}"] = seen_cat / 2 + 0.5
alt = (
    "A cat of 32 by 32 pixels, and five copies of it, each shifted by up to "
    "four pixels, some mirrored, with a grey border where they moved away."
)
figures.show(*photos.pictures(panels, alt, columns=3))

# %% tags=["nbval-check-output", "hide-cell"]
windows = F.pad(cats, (4, 4, 4, 4)).unfold(2, 32, 1).unfold(3, 32, 1)
assert windows.shape == (5, 3, 9, 9, 32, 32)
assert torch.equal(windows[:, :, 4, 4], cats)
assert jiggle(cats).shape == cats.shape
print("checked: 81 places, and the middle one is the picture itself")

# %% [markdown] tags=["predict"]
# We've trained networks like yours many times, with three seeds each, changing one ingredient at a
# time. We'll call these runs our *logbook*. Without shifts and mirrors, its runs end much like
# yours: at about 90% on the training pictures, and 40% on the held-out ones. **With shifts and
# mirrors, what becomes of the 90%?**
#
# * about 90%, as before
# * about 70%
# * less than 50%

# %% tags=["nbval-ignore-output", "hide-input"]
record = results.read("cifar-switches")
metrics = record["metrics"]


def place(name):
    """Of a variant: right of its own pictures, and of others; a mean."""
    found = metrics[name]
    return statistics.mean(found["train_per_seed"]), found["value"]


move = recipe.Move(
    "shifts and mirrors", place("no augmentation"), place("recipe")
)
path = {"your first run": [*seen.values()]}
tail = {"recipe\nwithout": (94, 45.5), "recipe": (45.8, 40.2)}
figures.show(*recipe.plane(path, [move], tail, high=60))


# %% [markdown]
# On this map, a run moves to the right when its training accuracy rises, and up when its held-out
# accuracy does. On the dashed diagonal there's no gap. Your first run follows it and then turns
# away: that's overfitting.
#
# The blue arrow leads from the logbook's *recipe* without shifts and mirrors to the same recipe
# with them. (More about that recipe later.) It climbs only three points, but look how far left it
# goes! Hardly any picture comes back the same, so there's little to learn by heart.
#
# ## One extra letter
#
# Another old remedy is *weight decay*. It pulls every weight towards zero a little at each step,
# so a weight stays large only if the data keep pushing it there. Here's how chapter 5's course
# notebook asks for it, with the numbers of the ViT paper:
#
# `torch.optim.Adam(model.parameters(), lr=0.003, weight_decay=0.3)`
#
# Let's run two epochs and watch the weights that make queries, keys and values.


# %%
def two_epochs(kind):
    """Decay of 0.3 in this optimizer: what becomes of some weights."""
    model = small()
    optimizer = kind(model.parameters(), lr=0.003, weight_decay=0.3)
    weight = model.blocks[0].attn.qkv.weight
    sizes = [weight.abs().mean().item()]
    for _ in tutorial(model, optimizer, 2):
        sizes.append(weight.abs().mean().item())
    print("mean size of a weight:", " -> ".join(f"{s:.4f}" for s in sizes))
    report(model)


# %% tags=["hide-input"]
@torch.no_grad()
def report(model):
    """How many are right, and how many get the most frequent answer."""
    answers = model(x_held).argmax(dim=-1)
    most = answers.bincount().max() / len(answers)
    print(f"held out: {(answers == y_held).float().mean():.0%} right, ", end="")
    print(f"{most:.0%} get the same answer")


# %% tags=["failure", "nbval-ignore-output"]
two_epochs(torch.optim.Adam)

# %% [markdown]
# The weights are gone, and two of five pictures get one and the same answer. **What could be
# wrong?**
#
# PyTorch's `Adam` adds the decay to the *gradient*, and then divides the sum by its usual size.
# That turns even a weak pull into a full step of 0.003. A weight of 0.09 is only thirty such
# steps from zero, and an epoch has 79. Where the decay outweighs the gradient, the weights march
# to zero, and nothing warns you.
#
# `AdamW` ([Loshchilov and Hutter 2019](https://arxiv.org/abs/1711.05101)) keeps the decay out of
# that division: each step takes [a small share](#What-decay-leaves) of the weight, here about a
# thousandth.

# %% tags=["nbval-ignore-output"]
two_epochs(torch.optim.AdamW)


# %% [markdown]
# One extra letter, and the weights are still there. (The paper's 0.3 [probably
# means](#What-differs) this kind of decay.) By custom, only weight matrices decay;
# `decay_groups`, in the folded cell, sees to that.


# %% tags=["hide-input"]
def decay_groups(model, decay):
    """Kernels decay; biases, norms, class token and positions don't."""
    layers = (nn.Linear, nn.Conv2d)
    kernels = [m.weight for m in model.modules() if isinstance(m, layers)]
    known = {id(kernel) for kernel in kernels}
    others = [w for w in model.parameters() if id(w) not in known]
    return [
        {"params": kernels, "weight_decay": decay},
        {"params": others, "weight_decay": 0.0},
    ]


# %% tags=["nbval-check-output", "hide-cell"]
model = small()
ours = decay_groups(model, 0.05)
theirs = parameter_groups(model, weight_decay=0.05)
for mine, package in zip(ours, theirs, strict=True):
    assert mine["weight_decay"] == package["weight_decay"]
    assert set(map(id, mine["params"])) == set(map(id, package["params"]))
print("checked: the same two groups as the package's")


# %% [markdown]
# ## Your recipe
#
# Now put it together: shifts and mirrors, weight decay, and chapter 5's warm-up and cosine.
# (`alpha` belongs to your next ingredient, and zero leaves it out.)


# %%
def better(model, epochs, lr=0.001, decay=0.05, alpha=0.0):
    """The tutorial's loop, and the ingredients."""
    optimizer = torch.optim.AdamW(decay_groups(model, decay))
    total = epochs * math.ceil(len(x_learn) / 64)
    step = 0
    for epoch in range(1, epochs + 1):
        for batch in torch.randperm(len(x_learn)).split(64):
            for group in optimizer.param_groups:
                group["lr"] = warmup_cosine(step, lr, total, 0.05 * total)
            x = jiggle(x_learn[batch])
            y = F.one_hot(y_learn[batch], 10).float()
            if alpha:
                x, y = mixup(x, y, draw(alpha))
            train_step(model, optimizer, x, y)
            step += 1
        yield epoch


# %% tags=["nbval-ignore-output"]
second = small()
seen_better = watch(second, better(second, EPOCHS))

# %% tags=["nbval-ignore-output", "hide-input"]
runs = {"your first run": seen, "your recipe": seen_better}
paths = {name: [*each.values()] for name, each in runs.items()}
figures.show(*recipe.plane(paths, high=60))

# %% [markdown]
# Your recipe stays close to the diagonal. It overfits far less than your first run, and on the
# held-out pictures it's three and a half points better.
#
# ## Still more variety
#
# Variety helped, so let's have more of it. Lay one picture over another, like two slides in one
# projector, and mix their labels, too: 70% cat and 30% coffee. That's *mixup* ([Zhang et al.
# 2018](https://arxiv.org/abs/1710.09412)). It sounds absurd, but no mixture comes twice.
#
# Here's what the trained network from chapter 4, which never saw a mixture, makes of a cat with
# more and more coffee:

# %% tags=["nbval-ignore-output", "hide-input"]
real = vitedu.load("ViT-Ti/16")
one, other = (vitedu.preprocess(real, photo(n))[0] for n in ("cat", "coffee"))
panels = {}
for share in (1, 0.7, 0.6, 0.5, 0.3, 0):
    mixed = share * one + (1 - share) * other
    with torch.no_grad():
        top = real(mixed[None])[0].softmax(dim=-1).topk(2)
    said = "\n".join(
        f"{real.class_names[place]} {chance:.0%}"
        for chance, place in zip(*top, strict=True)
    )
    panels[f"{share:.0%} cat\n{said}"] = mixed / 2 + 0.5
said = "; ".join(title.replace("\n", ", ") for title in panels)
alt = f"A cat and a cup of coffee, laid over each other. {said}."
figures.show(*photos.pictures(panels, alt, columns=3))


# %% [markdown]
# At 60% cat, the network sees a mask, and there's none in either picture. If you want it to say
# "half and half", you have to train it on mixtures.
#
# <div class="try" data-part="mixup"></div>
#
# In symbols, let $x$ and $x'$ be the two pictures, $y$ and $y'$ their labels (1 in their class, 0
# elsewhere), and $\lambda$ the share of the first picture (`share` in the code):
#
# $$ \tilde x = \lambda\, x + (1 - \lambda)\, x' \qquad
# \tilde y = \lambda\, y + (1 - \lambda)\, y' $$
#
# Each picture's partner is its neighbour in the batch. `draw` picks a random share: the smaller
# `alpha`, the closer most shares are to 1. PyTorch's `cross_entropy` [accepts mixed
# labels](#A-whole-step).


# %%
def mixup(images, targets, share):
    """Keep this share of everything, and take the rest from its neighbour."""
    mixed = share * images + (1 - share) * images.roll(1, 0)
    return mixed, share * targets + (1 - share) * targets.roll(1, 0)


dice = np.random.default_rng(0)


def draw(alpha, random=dice):
    """A share between a half and 1."""
    share = random.beta(alpha, alpha)
    return max(share, 1 - share)


# %% tags=["nbval-check-output", "hide-cell"]
pictures, numbers = torch.rand(8, 3, 32, 32), torch.arange(8)
theirs = mix(pictures, numbers, 10, mixup=0.2, seed=5)
share = draw(0.2, np.random.default_rng(5))
ours = mixup(pictures, F.one_hot(numbers, 10).float(), share)
for mine, package in zip(ours, theirs, strict=True):
    assert torch.allclose(mine, package, atol=1e-6)
soft = torch.tensor([0.7, 0.3])
losses = [
    -(soft * torch.tensor(p).log()).sum() for p in ([0.7, 0.3], [0.99, 0.01])
]
assert losses[0] < losses[1]
print("checked: on the same draw, it's what vitedu.data.mix does")

# %% [markdown]
# **Will mixup take your recipe up or down?** Guess, and switch it on.

# %% tags=["nbval-ignore-output"]
blended = small()
seen_blended = watch(blended, better(blended, EPOCHS, alpha=0.8))  # as in DeiT

# %% tags=["nbval-ignore-output", "hide-input"]
squares = [statistics.variance(m["per_seed"]) for m in metrics.values()]
spread = math.sqrt(statistics.mean(squares))
single_error = math.sqrt(2) * spread  # of two single runs' difference
before, after = seen_better[EPOCHS], seen_blended[EPOCHS]
step_down = recipe.Move(
    "with mixup", before, after, shift=(40, -16), error=single_error
)
places = {
    "your recipe": (before[0] + 1.9, before[1]),
    "luck?": (after[0] - 0.9, after[1] - 0.6),
}
figures.show(
    *recipe.plane(None, [step_down], places, low=35, right=50, high=45)
)


# %% [markdown]
# This is a small piece of the map, enlarged. On held-out pictures, mixup cost you about one point.
# There was hardly a gap to close, so perhaps more variety can only do harm. And the grey bar?
#
# ## Or was it luck?
#
# *Twins* are runs that differ only in the seed. The logbook has [three
# twins](#Your-run-among-its-twins) of your first run:


# %% tags=["nbval-ignore-output", "hide-input"]
def spelled(values):
    """Percentages in a row."""
    return "  ".join(f"{value:.1f}" for value in values)


print("held out ", spelled(metrics["tutorial"]["per_seed"]))

# %% [markdown]
# They're more than two points apart, from nothing but luck! What are your differences worth,
# then? That depends on the *spread* of twins, their standard deviation. Three runs are [too
# few](#Three-numbers-and-their-spread) to measure it, so we average over the logbook's sixteen
# sets of three (we *pool* their spreads). A difference has an error $\sqrt 2$ times as large,
# because luck has a hand in both runs:

# %% tags=["nbval-ignore-output", "hide-input"]
error = single_error / math.sqrt(3)  # of two means' difference
gain = seen_better[EPOCHS][1] - seen[EPOCHS][1]
cost = seen_blended[EPOCHS][1] - seen_better[EPOCHS][1]
print(f"spread of twins: {spread:.2f} points")
print(f"your recipe  {gain:+.1f} points, or {gain / single_error:+.1f} errors")
print(f"mixup        {cost:+.1f} points, or {cost / single_error:+.1f} errors")

# %% [markdown]
# By chapter 5's rule, two errors are a hint and three are a result. Your recipe's gain is on the
# border between the two, and mixup's small step down, shorter than one error (the grey bar), could
# well be luck. The logbook has three seeds of everything, so its errors are smaller.
#
# ## Which ingredient did it?
#
# The logbook's recipe is your own (without mixup), plus label smoothing, averaging and four
# [small things](#The-logbook-in-numbers). Each variant leaves an ingredient out, or adds one. Six
# ingredients are new to you:
#
# | ingredient | what it does |
# |---|---|
# | [label smoothing](https://arxiv.org/abs/1512.00567) | spreads a tenth of each label over all classes |
# | [averaging](https://doi.org/10.1137/0330046) | tests a running mean of the weights |
# | [cutmix](https://arxiv.org/abs/1905.04899) | pastes a piece of the partner |
# | [RandAugment](https://arxiv.org/abs/1909.13719) | distorts pictures, say by a rotation |
# | [stochastic depth](https://arxiv.org/abs/1603.09382) | skips parts of blocks at random |
# | patches of 4 | cut a picture into 64 patches, not 16 |

# %% [markdown]
# **Write down your bets:** which ingredient brings the most, and which does harm? (Blue
# ingredients change the pictures, red the labels, orange the network and grey the steps. Small
# dots are single seeds.)

# %% tags=["nbval-ignore-output", "hide-input"]
PICTURES, STEPS, NETWORK = recipe.PICTURES, recipe.STEPS, recipe.NETWORK
INGREDIENTS = {
    "patches of 4": ("patches of 4 pixels", NETWORK),
    "shifts and mirrors": ("no augmentation", PICTURES),
    "mixup": ("with mixup", PICTURES),
    "mixup and cutmix": ("with mixup and cutmix", PICTURES),
    "RandAugment": ("with RandAugment", PICTURES),
    "warm-up": ("no warm-up", STEPS),
    "cosine": ("constant rate", STEPS),
    "averaging": ("no average of the weights", STEPS),
    "weight decay": ("no weight decay", STEPS),
    "stochastic depth": ("with stochastic depth", NETWORK),
    "label smoothing": ("no label smoothing", recipe.LABELS),
}

# %% tags=["nbval-ignore-output", "hide-input"]
whole = metrics["recipe"]["value"]


def row(words, name, kind):
    """What an ingredient brings: with it, minus without it."""
    sign = -1 if name.startswith(("no ", "constant")) else 1
    seeds = metrics[name]["per_seed"]
    return recipe.Row(words, [sign * (seed - whole) for seed in seeds], kind)


rows = [row(words, *each) for words, each in INGREDIENTS.items()]
rows.sort(key=lambda each: -each.mean)
figures.show(*recipe.brings(rows, 2 * error))


# %% [markdown]
# Smaller patches bring the most, but they take four times the work. Shifts and mirrors come second.
# Mixup really does harm, with cutmix or without, and RandAugment does far more. The other six
# ingredients stay in the grey band of [two errors](#The-price-of-half-a-point), cosine at its very
# edge, so we can't say that any of them does anything by itself.
#
# That goes for weight decay, too, after all our detective work! (In so short a run, it [hardly
# shrinks a weight](#What-decay-leaves).) But together the small things do count: even without
# shifts and mirrors, the logbook's recipe beats the tutorial's loop by two points, and that's [a
# result](#The-logbook-in-numbers).
#
# Why should some variety help, and more of it do harm? Far from the diagonal, a network knows its
# training pictures by heart. Low on the diagonal, a network hasn't even learned what it was shown,
# and variety makes that harder still. Here's a guess to test: **a wide gap calls for variety, and
# no gap calls for time.** If that's right, variety moves a run up when its gap is wide, and down
# when there's hardly a gap.
#
# ## Three times as long
#
# Let's give a run more time, and nearly all of CIFAR-10's training pictures. We tested seven
# ingredients again:
#
# | | pictures | patches | epochs | seeds |
# |---|---|---|---|---|
# | before | 5,000 | 8 | 20 | three |
# | now | 45,000 | 4 | 8, or 24 | one |

# %% [markdown] tags=["predict"]
# In 8 epochs, shifts and mirrors made no difference. Mixing (mixup with cutmix) did harm, and so
# did RandAugment. **Which of the three will a run of 24 epochs need?**
#
# * shifts and mirrors
# * mixing
# * RandAugment
# * none of them


# %% tags=["nbval-ignore-output", "hide-input"]
def brought(runs, name, epochs):
    """Points that an ingredient brings to a run on 45,000 pictures, if any."""
    title = f"{{}}, {epochs} epochs, seed 0".format
    if title(name) not in runs:
        return []
    points = runs[title(name)]["value"] - runs[title("recipe")]["value"]
    return [-points if name.startswith("no ") else points]


def twins(runs):
    """Of the recipe over 40 epochs: what its three seeds have right."""
    return [runs[f"recipe, 40 epochs, seed {n}"]["value"] for n in range(3)]


# %% tags=["nbval-ignore-output", "hide-input"]
full, halfway = (results.read(f"cifar-{x}") for x in ("full", "halfway"))
ended = full["metrics"]
eight = {name: run for name, run in ended.items() if ", 8 epochs" in name}
early = halfway["metrics"] | eight
long_rows = [
    recipe.Row(words, points, kind, brought(early, name, 8))
    for words, (name, kind) in INGREDIENTS.items()
    if (points := brought(ended, name, 24))
]
long_rows.sort(key=lambda each: -each.mean)
label = "that it brings in 24 epochs (rings: in 8)"
figures.show(*recipe.brings(long_rows, 2 * single_error, label))

# %% tags=["nbval-check-output", "hide-cell"]
errors_of_24 = {row.words: row.mean / single_error for row in long_rows}
results_of_24 = {w: e for w, e in errors_of_24.items() if abs(e) > 3}
assert [*results_of_24] == ["shifts and mirrors", "RandAugment"]
assert min(map(abs, results_of_24.values())) > 9
hints = {w: e for w, e in errors_of_24.items() if 2 <= abs(e) <= 3}
assert [*hints] == ["mixup and cutmix"]
mixed, far = long_rows[-2:]  # mixing, RandAugment
assert mixed.early[0] < -4 * single_error
assert abs(far.mean - far.early[0]) < single_error < -far.mean / 11
for row in long_rows[1:5]:  # the other four
    assert max(abs(row.mean), abs(row.early[0])) < 2 * single_error
assert min(twins(ended)) > 75
for runs in (early, ended):  # half-way, and at the end
    assert statistics.variance(twins(runs)) < spread**2
print("recipe, 40 epochs:", spelled(twins(ended)), end="; ")
print(f"two errors of two single runs: {2 * single_error:.1f}")

# %% [markdown]
# Shifts and mirrors brought nothing in 8 epochs (that's the ring), and in 24 they bring eleven
# points! (With one seed each, the band is wider. Its error comes from the runs on 5,000 pictures.)
#
# In the long run without them, the training accuracy reaches 98%, but the held-out accuracy is no
# better than in the short run. We think that the short run has no time to learn so many pictures
# by heart, so there's nothing to prevent. (We didn't note its training accuracy.) An ingredient
# that's useless in a short run can be one that a long run can't do without.
#
# No other ingredient measurably helps, and RandAugment costs [as much as
# before](#Why-RandAugment-hurts).
#
# ## A map of all the runs

# %% [markdown] tags=["predict"]
# One more question before the map: on your 5,000 pictures, the logbook's recipe also ran for 80
# epochs, and its gap opened to 23 points. By our guess, such a gap calls for variety. **Which way
# does mixing move this run on the map?**
#
# * to the left and up
# * straight to the left
# * to the left and down

# %% tags=["nbval-ignore-output", "hide-input"]
WORDS = {
    "recipe": "the recipe",
    "tutorial": "the tutorial",
    "no augmentation": "no shifts and mirrors",
    "with mixup": "+ mixup",
    "with mixup and cutmix": "+ mixup and cutmix",
    "with RandAugment": "+ RandAugment",
    "patches of 4 pixels": "patches of 4",
    "no warm-up": "no warm-up",
    "constant rate": "no cosine",
    "no average of the weights": "no averaging",
    "no weight decay": "no decay",
    "decay of everything": "decay of all",
    "with stochastic depth": "+ stochastic depth",
    "no label smoothing": "no smoothing",
}


# %% tags=["nbval-ignore-output", "hide-input"]
def single(name, epochs, seed=0):
    """Of a run on 45,000 pictures: right of its own, and of others."""
    run = ended[f"{name}, {epochs} epochs, seed {seed}"]
    return run["train"], run["value"]


mixing, bare = "with mixup and cutmix", "no augmentation"
random, finer = "with RandAugment", "patches of 4 pixels"
lower, longer, upper = place("recipe"), place("x4"), single("recipe", 24)
seeds = [single("recipe", 40, seed) for seed in range(3)]
farthest = [statistics.mean(each) for each in zip(*seeds, strict=True)]
variety, move = "shifts, mirrors", recipe.Move
moves = [
    move(variety, place(bare), lower, PICTURES, (30, -14)),
    move("mixing", lower, place(mixing), PICTURES, (-33, 5)),
    move("RandAugment", lower, place(random), PICTURES, (47, -24), 0.2),
    move("4 times as long", lower, longer, STEPS, (38, -12)),
    move("patches of 4", lower, place(finer), NETWORK, (-51, 17)),
    move("mixing", longer, place(f"{mixing} x4"), PICTURES, (10, 5)),
    move(variety, single(bare, 24), upper, PICTURES, (-24, -17)),
    move("mixing", upper, single(mixing, 24), PICTURES, (-29, 4)),
    move("RandAugment", upper, single(random, 24), PICTURES, (-79, -14)),
    move("40 epochs", upper, farthest, STEPS, (35, 15)),
]

# %% tags=["nbval-ignore-output", "hide-input"]
gpu = [results.read(x) for x in results.names() if x == "gpu-cifar"]
tuned = results.read("cifar10-finetune")
marks = {
    "a ViT with trained weights (test part)": tuned["metrics"]["test_accuracy"][
        "value"
    ]
}
if gpu:
    found = gpu[0]["metrics"]["recipe-0"]
    marks["a larger ViT, from nothing (test part)"] = found["value"]
places = {
    "5,000 pictures": (84, 35),
    "45,000 pictures,\npatches of 4": (87, 54.5),
}
kinds = {
    recipe.PICTURES: "more variety",
    recipe.STEPS: "more time",
    recipe.NETWORK: "smaller patches",
}
figures.show(*recipe.plane(None, moves, places, marks, kinds, low=30))

# %% tags=["nbval-ignore-output", "hide-input"]
if not gpu:
    print("A larger ViT: no record of a GPU here. To measure yours:")
    print("    python benchmarks/gpu_day.py --lot 5 --data FOLDER --epochs 194")
    print("The text below describes a run on our H100.")

# %% [markdown]
# It goes straight to the left. Our guess promised that it would go up as well, and that was
# [wrong](#Four-times-the-epochs).
#
# Still, look at the other arrows. Variety, in blue, always points left. Close to the diagonal it
# always points down, too, so one half of our guess stands: without a gap, variety doesn't help.
# The other half is shaky. Only from the two widest gaps does variety also point up, and both
# times it was shifts and mirrors.
#
# Time, in grey, points up and to the right: it teaches, and it opens the gap. Perhaps a run
# should climb in zigzags, like a boat against the wind: time until the gap is wide, then variety
# to make room for more time.
#
# ## Your last run
#
# How far up the map can you get? The dotted lines are two ViTs on CIFAR-10's test part: the larger
# one from the beginning, and above it one that started from weights that had seen millions of
# photographs. You've got such weights, too.

# %% [markdown] tags=["predict"]
# You have one more minute. Enlarge your pictures to 96×96, and let chapter 4's network, just as
# it is, turn each picture into the 192 numbers that its own head would read. On these numbers,
# train a new head, a single linear layer. Your recipe got 41% of the held-out pictures right.
# **What percentage will your new head get right?**

# %% tags=["nbval-ignore-output"]
# how a network that learned on 224 pixels can read 96: chapter 10
real = vitedu.load("ViT-Ti/16", image_size=96, device=device)


@torch.no_grad()
def borrowed(images):
    """What the head of the trained network would read: (b, 192)."""
    large = F.interpolate(images, 96, mode="bicubic")
    return real.forward_features(large)[:, 0]  # the class tokens


numbers = torch.cat([borrowed(part) for part in pixels.split(250)])
numbers_learn, numbers_held = numbers.split(COUNT)

# %% tags=["nbval-ignore-output"]
torch.manual_seed(0)
head = nn.Linear(192, 10).to(device)
adam = torch.optim.AdamW(head.parameters(), lr=0.001)
for _ in range(20):
    for batch in torch.randperm(COUNT).split(64):
        train_step(head, adam, numbers_learn[batch], y_learn[batch])
last = 100 * accuracy(head, numbers_held, y_held)
print(f"held out: {last:.0f}% right")

# %% tags=["nbval-ignore-output", "hide-input"]
own = 100 * accuracy(head, numbers_learn, y_learn)
end = {"your last run": [(own, last)]}
figures.show(*recipe.plane(end, moves, places, marks, kinds, low=30))

# %% tags=["nbval-ignore-output", "hide-input"]
answers = [
    [
        data.class_names[int(model(given[shown]).argmax(dim=-1)[place])]
        for model, given in ((first, x_held), (head, numbers_held))
    ]
    for place in range(len(shown))
]
figures.show(*recipe.answered(ten, answers))

# %% [markdown]
# 61%! That's twenty points more, with the same pictures and only 1,930 new weights. (It's one
# seed, but who needs an error bar for twenty points?) On the map, the red dot is ten points above
# every other run with your pictures. Under each class name is your first run's answer, and then
# your last run's: two right answers have become six. (The cat is still a frog.)
#
# The borrowed weights had a head start: they had seen dogs, frogs and trucks before. Train such
# weights further, on twice the pictures, and you get to the map's upper line ([chapter
# 11](11_transfer.ipynb)).
#
# ## What to take with you
#
# Why does a first ViT so often disappoint? Yours learned its few pictures by heart. It lacked
# variety, and perhaps smaller patches. Would all 50,000 pictures have saved you? Not without
# variety: on the map, a run on 45,000 still ends at 63%. With shifts and mirrors it gets 74%, and
# with more time 78%.
#
# And would a longer run need the same ingredients? Not always: it has time to open a gap, and
# then it may need what a short run can do without.
#
# 1. Put a run on the map before you change it. If the gap is wide, try variety, beginning with
#    shifts and mirrors. If there's hardly a gap, try more time or smaller patches.
# 2. Find out how far apart twins are before you compare recipes.
# 3. Judge an ingredient in a run as long as yours.
# 4. If you have few pictures, borrow weights that have seen many, or [use a
#    CNN](#A-CNN-from-as-few-pictures), which usually beats a ViT when pictures are scarce.
#
# **Four questions** ([answers](#Solutions))
#
# 1. Why print the training accuracy, too?
# 2. Why must the labels be mixed with the same share as the pictures?
# 3. What does `weight_decay=0.3` do in `Adam`, and what in `AdamW`?
# 4. Why do shifts and mirrors bring nothing in 8 epochs, and eleven points in 24?
#
# The pictures are smaller than a thumbnail, and yet your runs took a minute each. **What is
# the computer doing all that time?** That's [chapter 7](07_speed.ipynb).
#
# ## Exercises
#
# ✎ Write `mixup` again with random partners, and `decay_groups` in your own way. After
# `from vitedu import check`, `check.mixup(mixup)` tells you how closely yours agrees with
# ours, or what's likely to be wrong with it; so does `check.decay_groups(decay_groups)`.
#
# **1.** ★ Two recipes reach 42% on held-out pictures. Their training accuracies are 88% and 45%.
# Where are they on the map? You may change one thing in each. What?
#
# **2.** ★ A friend has a new trick. Three seeds give 44.9%, 45.0% and 45.1%. "The
# error is 0.06, and it's almost two points better than the recipe, so that's thirty
# errors!" What do you answer?
#
# **3.** ★ How many seeds per variant do you need until a difference of half a point is two
# errors? Use the pooled spread. The error of a mean of $n$ seeds is the spread over $\sqrt
# n$, and a difference has two of them.
#
# **4.** ★★ In `mixup`, take the partner's *labels* from somewhere else: `targets.roll(2,
# 0)`. Nothing complains. Predict how the two accuracies will differ from those of correct
# mixup, then try both for a few epochs with `alpha=0.2`.
#
# **5.** ★★ Train a `model = small(patch=4)` with `better(model, EPOCHS)`, which takes five
# minutes. Predict first where on the map it ends. And what would mixup do to it?
#
# **6.** ★★★ You get a GPU for one night: 50,000 pictures, and forty runs of 100 epochs.
# Plan how you'd find a better recipe. What do you run first, how many seeds does each
# switch get, what do you choose on, and what do you report in the morning?
#
# ## Second reading
#
# ### The logbook in numbers
#
# Besides what your own recipe has, the logbook's has label smoothing, averaging and four more
# things: it shortens a gradient that's longer than 1 (*clipping*, [chapter 7](07_speed.ipynb)),
# its Adam has a shorter memory in the second mean, the mean of the patches replaces the class
# token, and positions are fixed.
#
# All variants, the best first: held-out accuracy and training accuracy in percent, epochs, and
# how many multiplications a picture takes, against the recipe's. (*Decay of all* lets every
# number decay, not just weight matrices.)

# %% tags=["nbval-ignore-output", "hide-input"]
print(f"{'':34} held   learned   epochs   work")
base = metrics["recipe"]["macs_per_image"]
for name, found in sorted(metrics.items(), key=lambda each: -each[1]["value"]):
    learned = statistics.mean(found["train_per_seed"])
    work = found["macs_per_image"] / base
    words = WORDS[name.removesuffix("x4").strip() or "recipe"]
    print(
        f"{words:34}{found['value']:5.1f}{learned:10.1f}"
        f"{found['epochs']:9}{work:7.1f}"
    )

# %% tags=["nbval-ignore-output", "hide-input"]
VERDICTS = ("no result", "a hint", "a result")


def judged(words, gain):
    """A line of the table: a difference of two means, in points and errors."""
    ratio = gain / error
    verdict = VERDICTS[(abs(ratio) >= 2) + (abs(ratio) >= 3)]
    return f"{words:32}{gain:+7.1f}{ratio:+11.1f}   {verdict}"


plain = metrics["tutorial"]["value"]
print(f"{'against the recipe':32} points    ÷ error")
for name, words in WORDS.items():
    if name != "recipe":
        print(judged(words, metrics[name]["value"] - whole))
print(f"\n{'against the tutorial':32} points    ÷ error")
print(judged(WORDS[bare], metrics[bare]["value"] - plain))

# %% [markdown]
# The last line is for all the small things together: what the recipe has and the tutorial hasn't,
# without shifts and mirrors.
#
# And here are the runs on 45,000 pictures: held-out accuracy after 8 epochs, half-way through 24
# and at the end, and training accuracy at the end.

# %% tags=["nbval-ignore-output", "hide-input"]
print(f"{'':21}{'8':>6}{'12 of 24':>10}{'24':>6}{'learned':>9}{'÷ error':>9}")
for name, words in WORDS.items():
    short, long = (f"{name}, {epochs} epochs, seed 0" for epochs in (8, 24))
    if long in ended:
        start = early[short]["value"]
        middle = early.get(long, {"value": 0})["value"]
        own, held = single(name, 24)
        ratio = (held - upper[1]) / single_error
        line = f"{words:21}{start:6.1f}{middle:10.1f}{held:6.1f}{own:9.1f}"
        print(line.replace(" 0.0 ", "   - ") + f"{ratio:+9.1f}")

# %% [markdown]
# Half-way, while the rate is still high, the run without averaging is just over two errors behind,
# a hint. At the end it isn't behind at all. So perhaps averaging and cosine do the same job,
# and that's why the short recipe is no worse without its cosine. (RandAugment's middle is its
# eleventh epoch. For stochastic depth, we didn't note it. On the map, *40 epochs* leads to the mean
# of three runs. Their spread, 0.6, is below the pooled one.)
# ### A larger network
#
# Was the network too small? The package's own ViT does two and a half times the work for each
# picture. It had the same recipe and the same 40 epochs, with three seeds:

# %% tags=["nbval-ignore-output", "hide-input"]
print(f"{'million multiply-adds':24}held out      learned")
for words in ("recipe", "network of the package"):
    sized = [
        run
        for run in ended.values()
        if run["switch"] == words and run["epochs"] == 40
    ]
    print(
        f"{sized[0]['macs_per_image'] / 1e6:<24.0f}"
        f"{statistics.mean(run['value'] for run in sized):<14.1f}"
        f"{statistics.mean(run['train'] for run in sized):.1f}"
    )

# %% tags=["nbval-ignore-output", "hide-cell"]
gain = statistics.mean(x["value"] for x in sized) - statistics.mean(
    twins(ended)
)
assert len(sized) == 3
assert 1.6 < gain / (single_error / 3**0.5) < 2

# %% [markdown]
# It knows four points more of its own pictures, and of the others about one point more. That's
# less than two errors of such a difference, so by the rule it's nothing. If size helps here, it
# helps little. The larger network's gap is the wider one, and by our guess it's variety's turn.
#
# ### A whole step
#
# With mixed labels $\tilde y$ and the network's probabilities $p_k$, the cross-entropy is
# $-\sum_k \tilde y_k \ln p_k$. It's smallest if the network answers with $\tilde y$ itself. Here's
# a step with everything in it ($\eta$ is `lr`, $\delta$ is `decay`, and $s$ is what AdamW makes of
# the gradient):

# %% tags=["hide-input"]
figures.show(*recipe.step())

# %% [markdown]
# ### Three numbers and their spread
#
# Why can't three twins tell you how far apart twins are? Draw three random numbers whose true
# spread is 1, ten times over:

# %% tags=["nbval-ignore-output", "hide-input"]
three = np.random.default_rng(0).normal(0, 1, (10, 3))
print("true spread 1, measured from three numbers:")
print(spelled(sorted(three.std(axis=1, ddof=1))))

# %% [markdown]
# Often it comes out far too small, and then everything looks like a result. So we average the
# squared spreads of all variants and take the root. A difference of two single runs has an error
# of $\sqrt 2$ times that, and a difference of two means of three runs is more certain by a factor
# of $\sqrt 3$.
#
# ### What decay leaves
#
# Here are the two kinds of decay in symbols. Let $g$ be the gradient of a weight $w$, $\eta$ the
# learning rate and $\delta$ the decay. Both optimizers divide by the usual size of what they're
# given, which makes a step of about 1 out of it. Let's call this $s$:
#
# $$ \text{Adam: } w \leftarrow w - \eta\, s(g + \delta\, w) \qquad
# \text{AdamW: } w \leftarrow w - \eta\,\bigl(s(g) + \delta\, w\bigr) $$
#
# If no gradient moves a weight, then AdamW multiplies it by $1 - \eta\,\delta$ at each step. With
# a cosine the mean rate is half the highest, so after $T$ steps about $e^{-\eta\,\delta\,T/2}$ is
# left. The recipe has $\eta = 0.001$ and $\delta = 0.05$:

# %%
for name, steps, rate, decay in (
    ("your run", 1_580, 0.001, 0.05),
    ("24 epochs, 45,000 pictures", 16_896, 0.001, 0.05),
    ("300 epochs, batches of 512", 29_400, 0.001, 0.05),
    ("rate and decay doubled", 29_400, 0.002, 0.1),
):
    left = math.exp(-rate * decay * steps / 2)
    print(f"{name:27} {left:.0%} is left")

# %% [markdown]
# ### Your run among its twins
#
# Are your run and the logbook's the same experiment? One of the package's tests takes twenty steps
# with your `train_step` and with the package's own, in float64 and on the same batches, and the
# losses agree. (It does so with a small network for digits, without weight decay.) And is your
# first run an ordinary twin of the three in the logbook?

# %% tags=["nbval-ignore-output", "hide-input"]
luck = 100 * accuracy(first, x_held, y_held) - plain
luck_error = spread * math.sqrt(1 + 1 / 3)
print("your tutorial run, minus the mean of its twins: ", end="")
print(f"{luck:+.1f} points (error {luck_error:.1f})")

# %% [markdown]
# ### What one switch at a time can't see
#
# Two things. The learning rate was chosen for the recipe, and each variant has to live
# with it. Smaller patches or a constant rate might prefer a different one, so a variant
# that loses has lost with *this* rate. And switches can work together: mixup may be useless
# alone and useful with smaller patches. With eleven switches there are 2,048
# combinations, and nobody runs them all. Start from the best recipe you know, change one
# thing, and if it's a result, make that the new start.
#
# ### Four times the epochs
#
# On your 5,000 pictures, the recipe also ran for 80 epochs, with mixup and cutmix and
# without, three seeds each.

# %% tags=["nbval-ignore-output", "hide-input"]
values = {name: found["value"] for name, found in metrics.items()}
print(f"{'from 20 to 80 epochs':32} points    ÷ error")
print(judged("the recipe", values["x4"] - whole))
print(judged("+ mixup and cutmix", values[f"{mixing} x4"] - values[mixing]))
print(f"\n{'mixup and cutmix, or neither':32} points    ÷ error")
print(judged("after 20 epochs", values[mixing] - whole))
print(judged("after 80 epochs", values[f"{mixing} x4"] - values["x4"]))

# %% [markdown]
# With four times the epochs the recipe gains nearly seven points, and its gap opens. With
# mixup and cutmix it gains far more and catches up, and its gap stays below ten points. So
# what cost nearly four points in the short run costs nothing in the long one. Perhaps mixing wins
# in a longer run still; our logbook stops where the two are level.
#
# ### Why RandAugment hurts
#
# Here's what two random operations at full strength make of a cat:

# %% tags=["hide-input"]
distort = Augment(rand_layers=2)
table = augmentation_table(distort, 5, torch.Generator().manual_seed(1))
copies = (
    torch.tensor(np.array(small_cat)).permute(2, 0, 1).expand(5, -1, -1, -1)
)
panels = {"the photograph": cat / 2 + 0.5}
for epoch, seen_cat in enumerate(apply(distort, copies, table), start=1):
    panels[f"epoch {epoch}"] = seen_cat / 255
alt = (
    "A cat of 32 by 32 pixels, and five distorted copies: turned and pushed "
    "half out of the picture, slanted, in loud colours, turned and pushed up, "
    "and slanted in blue, like a negative."
)
figures.show(*photos.pictures(panels, alt, columns=3))

# %% [markdown]
# A small network has to learn that these are all cats, and it's far from done: after 24 epochs
# its training accuracy (on undistorted pictures) is 62%, and its held-out accuracy 60%. By our
# guess, that calls for time, and time did help: from 8 epochs to 24, this run gained eleven
# points. But the recipe gained as many without RandAugment. (We tried full strength only.)
#
# On ImageNet, RandAugment and mixup do win. Here's a ViT-S/16, in percent right ([Beyer et al.
# 2022](https://arxiv.org/abs/2205.01580)):
#
# | epochs | 90 | 150 | 300 |
# |---|---|---|---|
# | with RandAugment and mixup | 76.5 | 78.5 | 80.0 |
# | without | 73.6 | 73.7 | 73.7 |
#
# Without the two, the longer runs buy a tenth of a point. With them, more than three: there
# the two win together, so the table can't say which of them does it. And
# RandAugment's [authors found](https://arxiv.org/abs/1909.13719) that smaller networks want
# weaker distortions than larger ones.
#
# ### The price of half a point
#
# How many seeds does a difference cost? If $\sigma$ is the spread, the error of a
# difference of two means of $n$ seeds is $\sigma \sqrt{2/n}$. If a difference $d$ is to be
# two errors, you need $n = 8\,\sigma^2/d^2$.

# %% tags=["nbval-ignore-output"]
for difference in (2, 1, 0.5, 0.25):
    count = math.ceil(8 * (spread / difference) ** 2)
    print(f"to see a difference of {difference}: {count} seeds")

# %% [markdown]
# Half the difference costs four times the seeds. So when a paper reports a tenth of a point with
# one seed each, nobody can know yet whether it's there. (The choice of pictures makes an error
# just as large. But all variants see the same ones, so in a difference most of it cancels.)
#
# ### From scratch, on a GPU
#
# With all 50,000 pictures and 200 epochs, others have published
# [80](https://github.com/kentaroy47/vision-transformers-cifar10) and
# [91](https://github.com/omihub777/ViT-CIFAR) percent. Our 87%, by a ViT thirty times as large as
# yours, is the package's recipe `vitedu train cifar10-scratch --tier gpu`, on a copy saved as JPEG
# of quality 75: 194 epochs in six and a half minutes, with every kind of variety from this page
# (RandAugment at half strength).
#
# ### A CNN from as few pictures
#
# With little data, a CNN is ahead, even of your last run (no ViT of ours that learned from 5,000
# pictures alone got beyond 53%). Here are a larger ViT and a CNN,
# one run each, which learned from 5,000 pictures for as many seconds (20 epochs of the ViT, 223
# of the CNN) and were judged on the test part:

# %% tags=["nbval-ignore-output", "hide-input"]
scratch = results.read("cifar10-scratch-cpu")
for name, words in (("vit", "ViT"), ("cnn", "CNN")):
    print(f"{words} {scratch['metrics'][name]['value']:.1f}%")

# %% [markdown]
# What a ViT has to learn is partly built into a CNN: a convolution is born knowing that a cat is a
# cat anywhere ([chapter 14](14_resnets.ipynb)).
#
# ### Where the numbers come from
#
# Six records are quoted on this page, all measured on that JPEG copy. (The runs on 45,000
# pictures were begun on a GPU. Some were ended there, too, the others on the CPU.)

# %% tags=["nbval-ignore-output", "hide-input"]
for found in (record, halfway, full, scratch, *gpu, tuned):
    print(f"{found['hardware']}, {found['date']}")
    print(f"    {found['command']}")

# %% [markdown]
# ## Where this is in the paper
#
# | here | in the paper |
# |---|---|
# | rate, warm-up, weight decay, dropout | Table 3 and section 4.1 |
# | average of the weights | Table 2's best runs: Polyak averaging with 0.9999 |
# | fewer pictures, other settings | Figure 3: decay, dropout and smoothing are tuned |
# | a smaller task from trained weights | Table 5: CIFAR-10 by fine-tuning |
#
# ### What differs
#
# The paper never trains on CIFAR-10 from scratch. It trains on ImageNet, ImageNet-21k and
# JFT-300M, and fine-tunes on CIFAR-10. Its recipe has no mixup, no cutmix, no RandAugment and no
# stochastic depth. Against overfitting it has dropout (0.1, which sets a tenth of the activations
# to zero at random) and a decay of 0.3 on ImageNet, and above all more photographs. The
# ingredients on this page came to ViTs with DeiT ([Touvron et al.
# 2021](https://arxiv.org/abs/2012.12877)), which trained on ImageNet alone. Mixup's `alpha` of 0.8
# is DeiT's, too.
#
# The paper writes Adam and doesn't say where its decay goes. Some of its authors do in a later
# paper, the first of the readings below: it's kept out of the gradient, as in AdamW. That only
# weight matrices (*kernels*) decay is the rule of the authors' newer code.
#
# ## Three readings
#
# * [Steiner et al. 2022](https://arxiv.org/abs/2106.10270) did for ImageNet what this
#   page does for 5,000 small pictures, with thousands of runs. Their advice: get more
#   data before you augment, and augment before you regularise.
# * [Bouthillier et al. 2021](https://arxiv.org/abs/2103.03098) measure how far apart
#   twins are when you vary everything: first weights, order, split of the data. Seeds of
#   the weights alone, they find, are the smaller part.
# * [Hassani et al. 2021](https://arxiv.org/abs/2104.05704) disagree with our ending. Put
#   a few convolutions where the patches are cut, they say, and a small Transformer learns
#   CIFAR-10 from scratch as well as a CNN. Nobody else's weights are needed.
#
# ## Solutions
#
# <details><summary>The four questions</summary>
#
# 1. Together with the held-out accuracy it shows the gap, and the gap says what to try next.
# 2. The loss is smallest if the network answers with the label's mixture. With another
#    share, it would be punished for seeing what's there.
# 3. In `Adam` it's added to the gradient and then divided by the gradient's size, so the
#    weights march to zero. In `AdamW` it takes a small share of each weight at each step.
# 4. The longer run has time to learn its pictures by heart. Without shifts and mirrors, it
#    does, and reaches 98% on them.
#
# </details>
#
# <details><summary>Solution 1</summary>
#
# The first overfits: show it more variety, beginning with shifts and mirrors, or more pictures.
# The second hasn't learned even its training pictures: train it longer, cut smaller patches, or
# make it larger. In the logbook, mixup and cutmix made such a network worse.
#
# </details>
#
# <details><summary>Solution 2</summary>
#
# First, that three seeds can agree by luck, as those without shifts and mirrors do. By the
# pooled spread, the difference is two or three errors, not thirty. It's a hint, and worth
# more seeds. Second, ask on which pictures the trick was chosen, and how many
# other tricks were tried before it.
#
# </details>
#
# <details><summary>Solution 3</summary>
#
# With the spread $\sigma$, $\sigma\sqrt{2/n} = 0.25$, so $n = 32\,\sigma^2$. It's printed in [the
# price of half a point](#The-price-of-half-a-point): 22 seeds per variant.
#
# </details>
#
# <details><summary>Solution 4</summary>
#
# Every picture is labelled mostly right, and a little wrong at random. With `alpha` at 0.2
# the wrong part is usually small, so the network learns all the same. When we tried it
# for a few epochs, it was behind correct mixup by less than twins differ, so no curve will
# tell you about this mistake. A comparison with somebody else's mixup on the same
# draw, as in the hidden check above, will.
#
# </details>
#
# <details><summary>Solution 5</summary>
#
# To the right and up: smaller patches are neither variety nor time, but they let the network
# learn more. In the logbook, the training accuracy was 57% and the held-out accuracy 50%. That's
# still a narrow gap, so by the guess mixup would take it down. The nearest thing we have is the
# pair of long runs with patches of 4 on the map: their gap was hardly narrower, and mixing cost
# three points there, which is a hint.
#
# </details>
#
# <details><summary>Solution 6</summary>
#
# One good plan: first four runs for the learning rate. Then the best recipe you can copy,
# with five seeds. Then seven switches with three seeds each, chosen by the gap of those
# five runs: if it's wide, mixing, RandAugment and decay; if it's not, smaller patches and
# width. Pool the spread of all these runs, and choose on pictures held out of the training
# part. The last ten runs are for the winner and the recipe, with five *new* seeds each.
# In the morning, test the winner on the test part, once.
# Report the mean, its error, n, and the command.
#
# </details>
