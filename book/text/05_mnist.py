# %% [markdown] tags=["links", "remove-cell"]
# [Open in Colab](COLAB) · [this page on the site](SITE) · about an hour · about eight minutes of computing on a laptop, no GPU needed

# %% tags=["setup", "remove-cell"]
import vitedu

# %% [markdown]
# # The first training: MNIST
#
# Your network has named Grace Hopper ([chapter 4](04_vit.ipynb)), but with weights that
# somebody else had trained. Left to itself it can't even read a 7: it gives all ten
# digits the same probability, one tenth. Today you train it yourself.
#
# We'll take the smallest one that makes sense: two blocks with two heads each, 7,850
# weights in all. A training takes a minute or two, so you can afford to get things wrong.
# And we will.

# %% tags=["nbval-ignore-output", "hide-input"]
import math
import os
import statistics
from itertools import pairwise

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from vitedu import figures, results
from vitedu.data import load_dataset
from vitedu.figures import mnist
from vitedu.model import ViT as PackageViT
from vitedu.model import record_attention
from vitedu.plain import ViT, patchify
from vitedu.train import recipe

torch.set_num_threads(1)
_ = torch.manual_seed(0)
TIER = os.environ.get("VITEDU_TIER", "cpu")
print(f"tier {TIER}, seed 0, cpu, torch {torch.__version__}")

# %% [markdown]
# MNIST ([LeCun et al. 1998](https://doi.org/10.1109/5.726791)) is a set of 70,000
# handwritten digits, 28×28 grey pixels each. Ten thousand of them are for testing, and we
# won't touch those until near the end of the page. Of the rest we set aside a random
# sixth, and train on what's left. The digits we set aside tell us how we're doing.

# %%
SIZES = {
    "smoke": {"images": 2_500, "epochs": 8, "short": 1, "seeds": (0, 1)},
    "cpu": {"images": 60_000, "epochs": 15, "short": 2, "seeds": (0, 1, 2)},
}
SIZE = SIZES.get(TIER, SIZES["cpu"])  # "smoke" only proves that it all runs
data = load_dataset("mnist", fallback="digits")
images, labels = (part[: SIZE["images"]] for part in data.train)
order = torch.randperm(len(images))
held_out, learn = order.tensor_split([len(order) // 6])
x, y = images[learn] / 255, labels[learn]  # pixels from 0 to 1
x_held, y_held = images[held_out] / 255, labels[held_out]
print(f"{data.name}: {len(x):,} to learn from, {len(x_held):,} set aside")

# %% [markdown]
# If the line says `digits`, MNIST could neither be found nor downloaded, and the 2,500
# digits inside the package take its place. Everything still runs, but your numbers will
# be worse than the ones on this page.

# %% tags=["hide-input"]
firsts = [int((y == k).nonzero()[0]) for k in range(10)]
figures.show(*mnist.digit_grid(x[firsts], data.class_names, patch_size=7))


# %% [markdown]
# The blue lines are the cuts: sixteen patches, so seventeen tokens with the class token.
#
# `ViT` is the class you wrote in chapter 4, here for images of 28 pixels, patches of 7,
# one colour and ten classes. And `tutorial` is the loop of nearly every first tutorial.
# It shuffles the images, takes a *batch* of 64 at a time, computes the loss, and lets
# Adam move the weights. One pass over all the images is called an *epoch*. Let's do one.


# %%
def tiny(seed=0):
    """7,850 weights; the seed decides their first values."""
    torch.manual_seed(seed)
    return ViT(28, 7, 1, 10, embed_dim=16, depth=2, num_heads=2, mlp_dim=64)


def tutorial(model, images, labels, epochs, lr):
    """The tutorial's loop: passes over the images at a constant rate."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(64):
            loss = F.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


# %% tags=["nbval-ignore-output"]
def try_rate(lr):
    """Train for one epoch, and print how many digits are right."""
    model = tiny()
    tutorial(model, x, y, epochs=1, lr=lr)
    with torch.no_grad():
        right = model(x_held).argmax(dim=-1) == y_held
    print(f"learning rate {lr}: {right.float().mean():.0%} right")


try_rate(0.001)

# %% [markdown]
# That 0.001 is the *learning rate*, the factor on every step of the weights. It's what
# PyTorch uses if you don't say anything, and what many tutorials write. At this point you
# might conclude that the network is too small, or that it needs more epochs.
#
# **Before you go on:** we'll change that one number and nothing else. Same network, same
# first weights, same images in the same order. First the rate is ten times as large, then
# a hundred times. Better or worse? By how much?

# %% tags=["nbval-ignore-output"]
try_rate(0.01)
try_rate(0.1)

# %% [markdown]
# Ten times the rate, and four of ten mistakes are gone. A hundred times, and most of the
# accuracy is gone. Nothing in the code warned you either way.
#
# So this chapter asks: **why does a first training disappoint, which number matters most,
# and how do you find it without fooling yourself?**

# %% tags=["margin", "hide-input"]
figures.show(*figures.network("network"))

# %% [markdown]
# ## One step
#
# Here's one turn of the loop, with what it computes and the line that does it.

# %% tags=["hide-input"]
figures.show(*mnist.training_loop())


# %% [markdown]
# From the top: $p_y$ is the probability that the network gives to the true class $y$, so
# the loss $\ell$ is small when the network is right and sure of it. The gradient $g$ says
# for every weight $w$ how fast the loss would rise if that weight grew. And the step
# moves each weight so that the loss goes down. As code, it's the body of the loop you've
# just run.


# %% tags=["teaches"]
def train_step(model, optimizer, images, labels):
    """One update of the weights; the mean loss of the batch before it."""
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


# %% [markdown]
# How far does a weight move in one step? In plain gradient descent, by the learning rate
# times its gradient. Adam ([Kingma and Ba 2015](https://arxiv.org/abs/1412.6980)) does
# something else. For each weight it keeps two running means, $\hat m$ of its recent
# gradients and $\hat v$ of their squares. Then it takes this step, where $\eta$ is the
# learning rate:
#
# $$ w \leftarrow w - \eta \, \frac{\hat m}{\sqrt{\hat v}} $$
#
# In the very first step both are means of a single gradient, so $\hat m = g$ and
# $\hat v = g^2$.
#
# **Take a pencil:** two weights of the head have the gradients $g = 0.1$ and $g = 0.001$,
# and $\eta = 0.001$. How far does each of them move? You can check it at once: the head
# starts at zero ([chapter 4](04_vit.ipynb)), so after one step its weights *are* the
# distances.

# %% tags=["nbval-ignore-output"]
model = tiny()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
loss = train_step(model, optimizer, x[:64], y[:64])
print(f"first loss {loss:.4f}, and ln 10 is {math.log(10):.4f}")
head = model.head.weight.detach().abs()
gradients = model.head.weight.grad.abs()
print(f"gradients from {gradients.min():.5f} to {gradients.max():.5f}")
print(f"weights moved by {head.min():.5f} to {head.max():.5f}")

# %% tags=["nbval-check-output", "hide-input"]
assert abs(loss.item() - math.log(10)) < 1e-4
assert gradients.max() > 20 * gradients.min()
# below 1e-6 Adam's epsilon of 1e-8 begins to show
assert ((head - 0.001).abs() < 2e-5)[gradients > 1e-6].all()
assert sum(p.numel() for p in model.parameters()) == 7850
print("unequal gradients, equal steps")


# %% [markdown]
# The first loss is $\ln 10$, as [chapter 4](04_vit.ipynb) promised for a network that
# gives everything one tenth. And every weight moved by exactly the learning rate, whether
# its gradient was large or tiny, because $g / \sqrt{g^2}$ is plus or minus one. Adam keeps
# the direction and throws the size away.
#
# So with Adam, the learning rate is a *length*. It's roughly how far each weight may walk
# in a step. Our epoch had 782 steps, so at 0.001 a weight can get about 0.8 away from its
# start, if it never turns around. That's why the first run disappointed. It wasn't stuck.
# It just hadn't got anywhere yet.
#
# (The W in AdamW stands for weight decay: each step also shrinks every weight by a tiny
# share. We leave it at PyTorch's default.)
#
# ## Rise and fall
#
# Long strides get you across town, but not onto a doorstep: you keep stepping over it.
# Training is like that. Near a good place, the gradients of two batches no longer agree,
# and what's left of them is mostly noise, from whichever images happened to be in the
# batch. But Adam divides even noise by its own size, so the steps don't die away: they go
# on and on in random directions. The weights can only settle if the learning rate
# shrinks, so we let it fall to zero. (In [the second reading](#The-doorstep-in-numbers)
# you can watch two hundred weights do it.)
#
# Then why not start at full height? Because the first gradients come from a network that
# knows nothing, and Adam has seen too few of them to judge their usual size. So we rise
# from zero over the first tenth of the steps: the *warm-up*. Two blocks hardly need it,
# but deep networks can fail to train without it
# ([Liu et al. 2020](https://arxiv.org/abs/2004.08249)).
#
# Let $T$ be the number of steps in the run, $w$ how many of them are warm-up, and $\eta$
# the highest rate. Then the rate of step $t$ is a straight line up and half a cosine
# down:
#
# $$
# \eta_t = \begin{cases}
# \eta \, \dfrac{t}{w} & \text{if } t < w \\
# \dfrac{\eta}{2} \left( 1 + \cos \pi \, \dfrac{t - w}{T - w} \right)
# & \text{otherwise}
# \end{cases}
# $$
#
# Try it on paper for a very short run: $T = 8$, $w = 2$, $\eta = 1$. You should get this
# (step 8 is the first one after the end):
#
# | $t$ | 0 | 1 | 2 | 5 | 8 |
# |---|---|---|---|---|---|
# | $\eta_t$ | 0 | ½ | 1 | ½ | 0 |


# %% tags=["teaches"]
def warmup_cosine(step, lr, num_steps, warmup_steps):
    """The rate of a step: a line up to `lr`, then a cosine down to 0."""
    if step < warmup_steps:
        return lr * step / warmup_steps
    progress = (step - warmup_steps) / (num_steps - warmup_steps)
    return lr * (1 + math.cos(math.pi * progress)) / 2


# %%
print([round(warmup_cosine(t, 1.0, 8, 2), 2) for t in range(9)])

# %% tags=["hide-input"]
rates = [warmup_cosine(step, 0.01, 1_000, 100) for step in range(1_001)]
figures.show(*mnist.schedule(rates))


# %% [markdown]
# Put the step and the rate together, and you have a whole training. It's the tutorial's
# loop plus the lines that set the rate.


# %% tags=["teaches"]
def train(model, images, labels, epochs, lr, batch_size=64, warmup=0.1):
    """Train `model` in place with AdamW; the loss of every step."""
    num_steps = epochs * math.ceil(len(images) / batch_size)
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(batch_size):
            rate = warmup_cosine(len(losses), lr, num_steps, warmup * num_steps)
            for group in optimizer.param_groups:
                group["lr"] = rate
            x, y = images[batch], labels[batch]
            losses.append(train_step(model, optimizer, x, y))
    return torch.stack(losses)


# %% [markdown]
# ## How often is it right?
#
# Before we compare runs, we need a measure we can trust. *Accuracy* is the share of images
# for which the largest of the ten numbers from the head, the *logits*, is the one of the
# true class. What could go wrong?
#
# A popular tutorial tests its network on 75 photographs of food, sorted by class, in
# batches of 32. It takes the accuracy of each batch and prints the mean. Let's measure
# three lazy "networks" that way. They don't even look: each says the same thing about
# every photograph.

# %% tags=["failure"]
truth = torch.tensor([0] * 25 + [1] * 19 + [2] * 31)
for answer in range(3):
    batches = [(part == answer).float().mean() for part in truth.split(32)]
    measured = sum(batches) / len(batches)
    real = (truth == answer).float().mean()
    print(f"always {answer}: measured {measured:.2%}, really {real:.2%}")


# %% [markdown]
# Every measurement is wrong, and the last one by 13 points. The third batch holds only
# eleven images, all of class 2, and its accuracy counts as much as that of a full batch.
# A mean of means isn't the mean.
#
# It gets better. Those three wrong numbers are the *only* test accuracies in that
# tutorial's log, all ten epochs long. So its network very likely said the same thing
# about every photograph, and nobody noticed.
#
# The cure is to count. Add up the right answers over all batches, and divide once.


# %% tags=["teaches"]
@torch.no_grad()
def accuracy(model, images, labels, batch_size=500):
    """The share of all images whose largest logit is that of their label."""
    correct = 0
    for x, y in zip(images.split(batch_size), labels.split(batch_size)):
        correct += (model(x).argmax(dim=-1) == y).sum().item()
    return correct / len(labels)


# %% [markdown]
# Here's the laziest of the three networks again, measured properly. (It ignores its
# images, so we can pass anything.)


# %% tags=["hide-input"]
def always_two(images):
    """Ten logits for each image, and class 2 has the largest."""
    return F.one_hot(torch.full((len(images),), 2), 10)


print(f"{accuracy(always_two, truth, truth, batch_size=32):.2%}")

# %% tags=["nbval-check-output", "hide-input"]
counted = [accuracy(always_two, truth, truth, size) for size in (7, 32, 75)]
assert counted == [31 / 75] * 3
print("31 of 75, however they are cut into batches")

# %% [markdown]
# ## Choose without fooling yourself
#
# Which rate is best? We'll try five, each with warm-up and cosine, for two epochs. But
# which images do we compare them on?
#
# Not the test images. If you try twenty settings on them and report the best, you've
# picked one that got lucky on exactly those images, and the number you report is too
# good. That's what the digits we set aside are for. They're the *validation set*: you
# choose on it as often as you like, and the test set stays fresh for one honest reading.
#
# **Guess first:** which of the five rates wins? And how many times the winner's mistakes
# does the default make, 0.001?

# %% tags=["nbval-ignore-output"]
as_is = nn.Identity()  # changes nothing


def try_out(seed, lr=0.01, how=train, scale=as_is, shift=as_is):
    """Percent of the held-out digits misread after a short training."""
    model = tiny(seed)
    how(nn.Sequential(shift, model), scale(x), y, SIZE["short"], lr)
    return 100 - 100 * accuracy(model, scale(x_held), y_held)


by_rate = {lr: try_out(0, lr) for lr in (0.001, 0.003, 0.01, 0.03, 0.1)}
figures.show(*mnist.rates(by_rate))


# %% [markdown]
# The default makes more than twice the mistakes of the best. From 0.01 to 0.03 the curve is
# nearly flat, and one run each can't tell such neighbours apart. Further right there's a
# cliff. So we take 0.01, on the flat part and well away from the edge.
#
# It's the right rate for *this* network. The paper's on ImageNet is 0.003
# ([Dosovitskiy et al. 2021](https://arxiv.org/abs/2010.11929)), so don't keep the number,
# keep the curve. Five short runs, about a factor of three apart, and you know where you
# are.
#
# What else might help? Two cheap things. First, pixels between −1 and 1 instead of 0 and
# 1, so that paper and ink have opposite signs. Second, shifts: every time an image is
# used, it moves by up to a pixel at random, so the network doesn't keep seeing exactly
# the same digits.


# %%
class Shift(nn.Module):
    """Moves each image of (b, c, h, w) by up to a pixel along each axis."""

    def forward(self, images):
        steps = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
        moved = torch.stack([images.roll(step, (2, 3)) for step in steps])
        chosen = torch.randint(9, (len(images),))
        return moved[chosen, torch.arange(len(images))]  # one of nine each


def centre(pixels):
    """From 0..1 to -1..1."""
    return 2 * pixels - 1


# %% [markdown]
# Now one change at a time, each on top of the last, like the rungs of a ladder. How a run
# ends also depends on its *seed*, which decides the first weights and the order of the
# images. So every rung gets three seeds, which makes fifteen short trainings, and this the
# longest cell of the page.
#
# **Guess first:** which change brings most? Which brings nothing?

# %% tags=["nbval-ignore-output"]
RUNGS = {
    "0.001, constant": {"how": tutorial, "lr": 0.001},
    "0.01, constant": {"how": tutorial},
    "+ warm-up, cosine": {},
    "+ pixels in −1…1": {"scale": centre},
    "+ shifts": {"scale": centre, "shift": Shift()},
}
rungs = {
    name: [try_out(seed, **changes) for seed in SIZE["seeds"]]
    for name, changes in RUNGS.items()
}

# %% [markdown]
# Three other seeds would give another mean. How far off might it be? Typically by the
# spread of the seeds, divided by the root of their number. That's the *standard error* of
# the mean, and it's what ± stands for on this page.

# %% tags=["nbval-ignore-output"]
errors = {
    name: statistics.stdev(seeds) / math.sqrt(len(seeds))
    for name, seeds in rungs.items()
}
figures.show(*mnist.ladder(rungs, errors))

# %% [markdown]
# The grey dots are seeds, the black mark is their mean. Which of the changes would you bet
# on? To decide, divide each gain by its own error. (The errors of two means add up like
# the sides of a right triangle.)

# %% tags=["nbval-ignore-output"]
names = list(rungs)
for before, after in pairwise(names):
    gain = statistics.mean(rungs[before]) - statistics.mean(rungs[after])
    error = math.hypot(errors[before], errors[after])
    print(
        f"{after:18} gain {gain:5.2f} ± {error:.2f}, ratio {gain / error:4.1f}"
    )

# %% [markdown]
# Bet on the first two. The rate brings most, its rise and fall nearly as much, and each
# gain is more than five times its own error. The pixels are probably worth it. And the
# shifts bring nothing you could see.
#
# > **Rule of thumb.** Change one thing, use several seeds, and divide the difference by
# > its error. Below 2 it isn't a result. (Three seeds know even their error only roughly,
# > so be happier with 4.)
#
# ## Fifteen epochs
#
# Maybe it's too early to judge the shifts. They're meant against learning by heart, and
# nobody learns fifty thousand digits by heart in two epochs. So let's train for fifteen,
# without shifts and with them.

# %% tags=["nbval-ignore-output"]
finished = {}
for name, shift in {"as they are": as_is, "shifted": Shift()}.items():
    model = tiny()
    runner = nn.Sequential(shift, model)
    losses = train(runner, centre(x), y, SIZE["epochs"], lr=0.01)
    finished[name] = model
    learned = accuracy(model, centre(x), y)
    fresh = accuracy(model, centre(x_held), y_held)
    print(f"{name:11}  training {learned:.2%}, held out {fresh:.2%}")

# %% tags=["hide-input"]
per_epoch = math.ceil(len(x) / 64)
steps = range(len(losses))
rates = [warmup_cosine(t, 0.01, len(losses), 0.1 * len(losses)) for t in steps]
figures.show(*mnist.run(losses, rates, per_epoch))

# %% [markdown]
# The curve is the run with shifts. In its second half, as the rate sinks, the loss falls
# by more than half once more: the weights settle onto the doorstep. If you stop two
# recipes half way to compare them, you see how they walk, not where they arrive. That's
# why each of our short runs had a *whole* schedule.
#
# Now the two lines above it. Without shifts there's a gap: the network reads the digits it
# was trained on better than fresh ones, so it has learned some of them by heart. With
# shifts most of the gap is gone, and on fresh digits you gain a few tenths of a percent.
# Is that a result?
#
# ## What is a tenth of a percent worth?
#
# On 10,000 images, it's ten images. And those are only a sample: chance decided which
# ones we got. If a model is right with probability $p$, its accuracy on $n$ images has
# the standard error
#
# $$ \sigma = \sqrt{\frac{p \, (1 - p)}{n}} $$
#
# With $p = 0.98$ and $n = 10{,}000$ that's 0.14 %, or fourteen images. So a difference of
# ten images between two test sets means nothing.
#
# On the *same* images you can see more. Where both models are right, or both are wrong,
# they don't differ. What counts is the images that only the first gets right, $a$ of
# them, and those that only the second gets right, $b$. If the two were equally good, each
# of these images would be a coin toss between them, and the difference $b - a$ would have
# the standard error $\sqrt{a + b}$.

# %% tags=["nbval-ignore-output"]
with torch.no_grad():
    first, second = (
        model(centre(x_held)).argmax(dim=-1) == y_held
        for model in finished.values()
    )
a = (first & ~second).sum().item()
b = (second & ~first).sum().item()
print(f"right only without shifts: {a}, right only with them: {b}")
print(f"difference {b - a} images, standard error {math.sqrt(a + b):.0f}")

# %% [markdown]
# A bit more than twice its error. So between these two networks it's a result, just about.
# But each is one run with one seed, a single dot on the ladder without its error bar:
# train again, and other images are right. We take the shifts because the gap speaks for
# them too.
#
# ## The test set, once
#
# We've made all our choices. Now, and only now, we open the test set.

# %% tags=["nbval-ignore-output"]
model = finished["shifted"]
x_test, y_test = data.test.images / 255, data.test.labels
found = accuracy(model, centre(x_test), y_test)
print(f"{found:.2%} of {len(y_test):,} test images are right")

# %% tags=["nbval-check-output", "hide-input"]
with torch.no_grad():
    logits = model(centre(x_test))
answers = logits.argmax(dim=-1)
always = y_test.bincount().max() / len(y_test)
assert answers.unique().numel() > 5, "nearly the same answer to every image"
assert found > 3 * always
print("it reads: three times better than always saying the same digit")

# %% [markdown]
# You wrote every line of that network, and it's a number you can defend: no choice was
# made on these images, each was counted once, and you know how far off it may be.
#
# How good is it? The package carries the records of other runs, and you can repeat each of
# them from the command line. `mnist-seed` is the tutorial's recipe on the same network,
# for 15 epochs. `mnist-tiny` has as many weights as yours. It adds more weight decay, a
# slightly higher rate and the digits we set aside, and it reads the mean of the patch
# tokens instead of the class token. `mnist-small`, a single run, has a hundred times as
# many weights.

# %% tags=["nbval-ignore-output", "hide-input"]
for name in ("mnist-seed", "mnist-tiny", "mnist-small"):
    record = results.read(name)
    found = record["metrics"]["test_accuracy"]
    seeds = ", ".join(f"{value:.2f}" for value in found["per_seed"])
    print(f"{name:11} {found['value']:.2f} % (seeds: {seeds})")
    print(f"    {record['hardware']}, {record['date']}")
    command = record["command"].split(" && ")[0].replace(" seed=0", "")
    print(f"    {command}")

# %% [markdown]
# Your network makes half as many mistakes as the tutorial's, with no more weights and no
# more epochs. `mnist-tiny` is half a percent ahead of yours, more than three standard
# errors of the test set. It changes several things at once, so its record can't tell you
# which of them helped. And look at its seeds: the same recipe, two tenths of a percent apart.
#
# ## The ten it got most wrong
#
# Here are the ten test digits with the largest loss, the ones where your network gave the
# right answer the smallest probability. Read them yourself, write down your ten answers,
# and then open the cell below the picture.

# %% tags=["hide-input"]
each_loss = F.cross_entropy(logits, y_test, reduction="none")
worst = each_loss.topk(10).indices
titles = [f"no. {i}" for i in range(1, 11)]
figure, _ = mnist.digit_grid(x_test[worst], titles)
words = "Ten badly written digits, numbered from 1 to 10, for you to read"
figures.show(figure, f"{words}; the network got all of them wrong.")

# %% tags=["hide-cell", "nbval-ignore-output"]
sure = logits.softmax(dim=-1).amax(dim=-1)
for title, i in zip(titles, worst.tolist(), strict=True):
    print(f"{title:6} written {y_test[i]}, read {answers[i]}, ", end="")
    print(f"{sure[i]:.0%} sure")


# %% [markdown]
# How many did you get? Number 2 isn't even in one piece. But number 3 is a plain 5 to most
# eyes, and the network is completely sure that it's a 3. And nobody who has seen a long
# stroke on an 8 would call number 10 a 5. It has met fifty thousand digits, and still no
# idea of a pen.
#
# ## To take along
#
# 1. With Adam, the learning rate is the length of a step: measure it with a few short
#    runs, let it rise at the start and fall to zero at the end.
# 2. Choose on a validation set, count right answers instead of averaging percents, and
#    read the test set once.
# 3. A difference is a result when it's well over twice its standard error, and a single
#    run can't even tell you that error.
#
# Can you answer these from the page?
#
# * Why set a validation set aside, when there's a test set already?
# * Why may you not average the accuracies of the batches?
# * Why does the rate rise at first, and why must it fall at the end?
# * What is one run with one seed worth?
# * What is a tenth of a percent worth on 10,000 images?
#
# You have a recipe that works on grey digits. Try it on small photographs, and you'll soon
# join the most frequent complaint about Vision Transformers: bad accuracy from scratch.
# **What does a photograph need that a digit doesn't?** That's chapter 6.
#
# ## Exercises
#
# **1.** ★ The short last batch of a test set happens to hold the hardest images. A loop
# averages batch accuracies. Is the printed accuracy too high or too low? Would it help to
# shuffle the test images?
#
# **2.** ★ Look at the curve of the five rates. Somebody tells you that 0.02 is better
# than 0.01, and shows one run of each. What would you ask for?
#
# **3.** ★ Two models of about 98 % are measured on two *different* test sets of $n$
# images each. How large must $n$ be for a difference of 0.1 % to be two standard errors?
#
# **4.** ★★ Predict what happens to the third rung of the ladder if you leave out the
# warm-up (`warmup=0.0` runs as it is). Then try it with three seeds.
#
# **5.** ★★ Put the 16 patches of every test image into another order, the same for all
# images. Attention doesn't care about order ([chapter 2](02_attention.ipynb)). What
# accuracy do you expect from the trained network, and why?
#
# **6.** ★★★ The network of `mnist-tiny` still has a class token, though its head reads
# the mean of the patches. Could the token matter all the same? Plan an experiment that
# decides whether to remove it.
#
# ## Second reading
#
# ### Adam in four lines
#
# The main path left out where $\hat m$ and $\hat v$ come from. Adam keeps $m$, into which
# each gradient enters with one tenth, and $v$, into which its square enters with one
# thousandth. Both start at zero, so at first they're too small: after $t$ steps only the
# share $1 - 0.9^t$ of $m$ comes from gradients, and the rest is still the zero of the
# start. Divide by that share and you have $\hat m$, and $\hat v$ in the same way.


# %%
def adam(weight, grad, m, v, t, lr):
    """Adam's step t = 1, 2, ...: the new weight and the new means."""
    m = 0.9 * m + 0.1 * grad
    v = 0.999 * v + 0.001 * grad**2
    m_hat, v_hat = m / (1 - 0.9**t), v / (1 - 0.999**t)
    return weight - lr * m_hat / (v_hat.sqrt() + 1e-8), m, v


# %% tags=["nbval-check-output", "hide-input"]
weight, m, v = torch.linspace(-1, 1, 5), torch.zeros(5), torch.zeros(5)
theirs = weight.clone().requires_grad_()
optimizer = torch.optim.Adam([theirs], lr=0.001)
for t in range(1, 6):
    theirs.grad = torch.sin(t * torch.arange(1.0, 6.0))  # any gradients
    weight, m, v = adam(weight, theirs.grad, m, v, t, 0.001)
    optimizer.step()
assert torch.allclose(weight, theirs, rtol=0, atol=1e-6)
print("five steps, and the same weights as torch.optim.Adam")

# %% [markdown]
# ### The doorstep in numbers
#
# Two hundred weights start at 1 and should go to 0. Each one's gradient is the weight
# itself plus noise of size 1, as if it came from a batch. Adam takes 2,000 steps, with a
# constant rate of 0.03 or with a cosine from there to zero. How far from 0 do the weights
# end, on average?

# %% tags=["nbval-ignore-output"]
for name in ("constant", "cosine"):
    noise = torch.Generator().manual_seed(0)
    weight, m, v = torch.ones(200), torch.zeros(200), torch.zeros(200)
    for t in range(2_000):
        grad = weight + torch.randn(200, generator=noise)
        lr = warmup_cosine(t, 0.03, 2_000, 0) if name == "cosine" else 0.03
        weight, m, v = adam(weight, grad, m, v, t + 1, lr)
    print(f"{name:8} mean distance {weight.abs().mean():.2f}")

# %% [markdown]
# With the constant rate they keep wandering about. With the falling rate they get three
# times as close.
#
# ### Which digits it confuses
#
# The mistakes on the test set, by what was written and what the network read. The right
# answers on the diagonal are left out, or you'd see nothing else.

# %% tags=["hide-input"]
counts = torch.zeros(10, 10, dtype=torch.long)
one = torch.tensor(1)
counts.index_put_((y_test, answers), one, accumulate=True)
figures.show(*mnist.confusion(counts, data.class_names))


# %% [markdown]
# The four brightest cells hold a quarter of all the mistakes, and in each of them the two
# digits share many of their strokes. A 4 whose top closes is a 9, and a 5 and a 3 have
# the same lower half. Is a 4 taken for a 9 more often than a 9 for a 4? It's 15 against
# 6, and by the coin-toss rule the difference of 9 has the error $\sqrt{21} \approx 4.6$.
# Just about.
#
# ### Two rivals of the same size
#
# Is it much, for 7,850 weights? One linear layer from 784 pixels to ten classes has
# $784 \cdot 10 + 10$ weights. That's 7,850, to the last one. And here are three small
# convolutions with hardly fewer.


# %%
def linear():
    """One layer: (b, 1, 28, 28) -> (b, 10)."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def convolutions():
    """Three layers and a head: (b, 1, 28, 28) -> (b, 10)."""
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 42, 3, padding=1), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(42, 10)),
    )


# %% tags=["nbval-check-output", "hide-input"]
sizes = [
    sum(p.numel() for p in each.parameters())
    for each in (linear(), convolutions(), tiny())
]
assert sizes == [7850, 7768, 7850]
print("weights: linear 7,850, convolutions 7,768, ViT 7,850")

# %% [markdown]
# Same images, same shifts, same epochs, same rate; nobody has searched for a better rate
# for the rivals. One seed each, so mind the last digit.

# %% tags=["nbval-ignore-output"]
for build in (linear, convolutions):
    torch.manual_seed(0)
    rival = build()
    runner = nn.Sequential(Shift(), rival)
    train(runner, centre(x), y, SIZE["epochs"], lr=0.01)
    found = accuracy(rival, centre(x_test), y_test)
    print(f"{build.__name__:12} {found:.2%} of the test images")

# %% [markdown]
# The linear layer is far behind, with four times the ViT's mistakes. What the ViT has isn't
# more weights but a better use of them: the same ones for every patch, and an exchange
# between patches.
#
# And the convolutions are well ahead. They don't have to learn that a stroke is the same
# stroke one pixel further; they're built that way. The paper's comparison begins just
# like ours. Its ViTs overtake the ResNets, which are deep convolutional networks, only
# when they're trained on far more images than ImageNet has (Figures 3 and 4).
#
# ### Where it looks, and what it needs
#
# The head reads the class token, so there's one natural attention map per image: how much
# the class token takes from each patch in the last block, on the mean of the two heads.
# It's tempting to read such a map as "what mattered". There's a test for that. Blank one
# patch, see how much the loss rises, and do it for all sixteen. (A hidden cell loads your
# weights into the package's network, which can record attention maps.)

# %% tags=["nbval-check-output", "hide-input"]
recorder = PackageViT(recipe("mnist-seed", "cpu").model).eval()
recorder.load_state_dict(model.state_dict())
pictures = centre(x_test)
with record_attention(recorder) as maps, torch.no_grad():
    same = recorder(pictures)
assert torch.allclose(same, logits, atol=1e-3)
taken = maps[-1].mean(dim=1)[:, 0, 1:]  # (b, 16), by the class token
rise = torch.zeros_like(taken)
for place in range(16):
    row, column = 7 * (place // 4), 7 * (place % 4)
    blanked = pictures.clone()
    blanked[..., row : row + 7, column : column + 7] = -1.0
    with torch.no_grad():
        loss = F.cross_entropy(model(blanked), y_test, reduction="none")
    rise[:, place] = loss - each_loss
print("16 shares of attention and 16 rises of the loss for each test image")

# %% tags=["hide-input"]
share, cost = 100 * taken.mean(0).view(4, 4), rise.mean(0).view(4, 4)
names = ["attention of the\nclass token (%)", "rise of the loss\nwhen blanked"]
figures.show(*mnist.two_maps(share, cost, names))


# %% [markdown]
# Those are means over all test images. Do the maps agree image by image? Over the 16
# patches of an image, we correlate the rise of the loss (1 is perfect agreement, 0 none)
# with three things: the image's own attention map, the map of *another* image, and simply
# how much ink there is in each patch.


# %% tags=["nbval-ignore-output", "hide-input"]
def correlation(one, other):
    """Of two (b, 16), over the patches; the mean over images."""
    one = one - one.mean(dim=1, keepdim=True)
    other = other - other.mean(dim=1, keepdim=True)
    sizes = (one.norm(dim=1) * other.norm(dim=1)).clamp(min=1e-12)
    return ((one * other).sum(dim=1) / sizes).mean().item()


ink = patchify(x_test, 7).mean(dim=-1)  # (b, 16)
print(f"its own attention map      {correlation(taken, rise):.2f}")
other = correlation(taken.roll(1, dims=0), rise)
print(f"the map of another image   {other:.2f}")
print(f"the ink in each patch      {correlation(ink, rise):.2f}")

# %% [markdown]
# Already the two mean maps disagree: the class token takes most from one patch, and
# blanking another hurts most. Image by image, the map of an image agrees with the damage
# hardly better than the map of some other digit. Plain ink, which knows nothing about the
# network, beats them both.
#
# So be careful with the sentence "it looks at the loop of the 9". A map shows where values
# are taken from, and what they're worth for the answer is another question. A map
# suggests what to test. Blanking is a test.
#
# ### A race to 96 %
#
# How long until 96 % of the test images are right? The record below raced the usual
# tutorial loop (Adam at 0.001, $\tanh$ on the logits, positions and class token of size
# 1, a loader that fetches each image by itself) against `mnist-tiny` with three epochs
# and its images in memory. Same weights, same processor, taking turns.

# %% tags=["nbval-ignore-output", "hide-input"]
race = results.read("mnist-time-to-96")
for side in ("usual", "vitedu"):
    seconds = race["metrics"][f"{side}_seconds"]
    seeds = ", ".join(f"{value:.0f}" for value in seconds["per_seed"])
    print(f"{side:6} {seconds['value']:3.0f} s (seeds: {seeds})")
print(f"ratio  {race['metrics']['ratio']['value']:.1f}")
print(f"{race['hardware']}, {race['date']}")
print(race["command"])


# %% [markdown]
# Nearly nine times faster: partly because a step is cheaper without the loader, partly
# because fewer steps are needed. The record doesn't say which part is how large.
#
# ## Where this is in the paper
#
# | here | in the paper |
# |---|---|
# | rate, warm-up, decay of the rate | section 4.1 and Table 3 |
# | a validation set for choosing | the development sets behind Table 4 |
# | three seeds and their spread | Table 2: mean and deviation of three fine-tuning runs |
# | class token or mean of the patches | appendix D.3 |
# | ViT against convolutions | Figures 3 and 4, by number of training images |
#
# ### What differs
#
# The paper trains with Adam, batches of 4,096 images and 10,000 steps of warm-up. On
# ImageNet that's a rate of 0.003 with cosine decay, weight decay 0.3, dropout 0.1 and
# gradients clipped at norm 1; on the larger sets the rate falls in a straight line (Table
# 3). We use AdamW, batches of 64, a tenth of the steps as warm-up, weight decay 0.01, no
# dropout and no clipping. Its images are cropped at random and mirrored; ours are shifted
# by a pixel, because a mirrored 3 isn't a 3.
#
# ## Three readings
#
# * [Loshchilov and Hutter 2019](https://arxiv.org/abs/1711.05101) explain the W in AdamW:
#   why `weight_decay` means two different things in Adam and in AdamW.
# * [Beyer et al. 2022](https://arxiv.org/abs/2205.01580) do for ImageNet what our ladder
#   does for digits: one small ViT, a few plain changes, and a number for each.
# * [Defazio et al. 2024](https://arxiv.org/abs/2405.15682) disagree with our section on
#   rise and fall. They drop the decay of the rate, average the weights along the way
#   instead, and don't need to know beforehand when the training will end.
#
# ## Solutions
#
# <details><summary>Solution 1</summary>
#
# Too low: each image of the short batch counts as much as several others, and these are
# the hard ones. Shuffling doesn't repair it. The error then has no fixed direction, but
# there's a different one in every run. Counting repairs it.
#
# </details>
#
# <details><summary>Solution 2</summary>
#
# Several seeds of each, on images that weren't used for anything else, and the difference
# divided by its error. On a flat part of the curve one run of each decides nothing.
#
# </details>
#
# <details><summary>Solution 3</summary>
#
# The errors of two independent measurements add as squares, so the difference has the
# standard error $\sqrt{2 p (1 - p) / n}$. It must be 0.0005, which gives
# $n = 2 \cdot 0.98 \cdot 0.02 / 0.0005^2 = 156{,}800$ images in each test set. That's why
# models are compared on the same images.
#
# </details>
#
# <details><summary>Solution 4</summary>
#
# The run doesn't fail, and with three seeds you can't tell it from the others. Two blocks
# hardly need a warm-up.
#
# </details>


# %% tags=["hide-cell", "nbval-ignore-output"]
def without_warmup(*arguments):
    """`train` at full height from the first step."""
    return train(*arguments, warmup=0.0)


found = [try_out(seed, how=without_warmup) for seed in SIZE["seeds"]]
for name, seeds in (("with", rungs["+ warm-up, cosine"]), ("without", found)):
    print(f"{name:7} warm-up:", ", ".join(f"{each:.1f} %" for each in seeds))

# %% [markdown]
# <details><summary>Solution 5</summary>
#
# Very little. Attention alone wouldn't notice, but before the first block each patch gets
# the position embedding of the place it's put in. A stroke from the top that turns up at
# the bottom is read as a stroke at the bottom, and the digit falls apart. The cell below
# tries it.
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
elsewhere = torch.randperm(16, generator=torch.Generator().manual_seed(0))
shuffled = rearrange(
    patchify(centre(x_test), 7)[:, elsewhere],
    "b (gh gw) (p q c) -> b c (gh p) (gw q)",
    gh=4,
    p=7,
    q=7,
)
print(f"{accuracy(model, shuffled, y_test):.0%} of the shuffled images")

# %% [markdown]
# <details><summary>Solution 6</summary>
#
# It could: the patch tokens attend to it, and what they take from it enters the mean.
# Train with and without it, all else equal, on the images that aren't held out, for all
# epochs and with at least three seeds. Compare on the held-out images, image by image,
# and divide by the standard error. Say beforehand which difference would make you keep
# it. Without the token the network is smaller by 32 weights, the token and its position,
# so a tie is a reason to drop it.
#
# </details>
