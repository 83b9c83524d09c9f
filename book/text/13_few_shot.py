# %% [markdown] tags=["links", "remove-cell"]
# [Open in Colab](COLAB) · [this page on the site](SITE) · about an hour · about a minute of computing on a laptop, no GPU needed

# %% tags=["setup", "remove-cell"]
import vitedu

# %% [markdown]
# # Few shots and many tasks
#
# Five photographs of ants, five of bees. That's all you have, and you'd like a
# classifier. How much time would you set aside for training it?

# %% tags=["nbval-ignore-output", "hide-input"]
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from vitedu import evaluate, figures, results
from vitedu.data import find_images, folder_of, load_folder, photo
from vitedu.data import MissingDataError
from vitedu.data.readers.shapes import write_folder
from vitedu.evaluate import Features, features, sample_shots
from vitedu.figures import photos
from vitedu.figures.chapters import few_shot

torch.set_num_threads(1)
_ = torch.manual_seed(0)
TIER = os.environ.get("VITEDU_TIER", "cpu")
print(f"tier {TIER}, seed 0, cpu, torch {torch.__version__}")

# %% tags=["nbval-ignore-output", "hide-input"]
SMOKE = TIER == "smoke"  # only proves that it all runs
# photographs of each class, and how often we draw them
SHOTS, DRAWS = ((1, 2, 5), 3) if SMOKE else ((1, 2, 5, 10, 25), 30)
MANY, FEW_DRAWS = (5, 10, 25, 50, 75, 90, 96, 100, 110, 120), 10
SIZES = (4, 20, 8) if SMOKE else (10, 250, 200)  # of the generated set
made = Path(tempfile.mkdtemp()) / "shapes"
sizes = dict(zip(("num_classes", "num_train", "num_val"), SIZES, strict=True))
write_folder(made, image_size=224, **sizes)
shapes = load_folder(made)
try:
    photographs = load_folder(folder_of("ants-bees"))
    what = "photographs of ants and bees"
except MissingDataError:
    photographs, what = shapes, "no ants and bees here, generated shapes"
names = photographs.class_names
most = min(photographs.train.labels.bincount())
MANY = [shots for shots in MANY if shots <= most]

# %% [markdown]
# The folded cell above loads the photographs of [PyTorch's
# tutorial](https://docs.pytorch.org/tutorials/beginner/transfer_learning_tutorial.html)
# on transfer learning. Each goes through our small ViT once. Its weights stay *frozen*:
# they aren't trained. (All the photographs take half a minute; your ten take a second.)

# %% tags=["nbval-ignore-output"]
model = vitedu.load("ViT-Ti/16")
train = features(model, photographs.train)
test = features(model, photographs.test)
few = train.take(sample_shots(train.labels, 5, seed=0))

# %% [markdown]
# `few` has five photographs of each class, drawn at random. (A *shot* is one labelled
# example of a class.) Now for the classifier:

# %% tags=["nbval-ignore-output"]
start = time.perf_counter()
right = evaluate.fewshot_accuracy(model, few, test)
took = 1000 * (time.perf_counter() - start)
print(f"{what}: {right:.0f}% of {len(test.labels)} right")
print(f"built and tested in {took:.0f} milliseconds")

# %% [markdown]
# No epochs, no learning rate, no GPU. Inside is a single formula, and you'll see every
# line of it. **What does the network know that makes ten photographs enough, and when
# aren't they?**
#
# ## 192 numbers
#
# `features` gives you what the head would read: row 0 after the last norm, 192 numbers
# for each photograph. In [chapter 4](04_vit.ipynb) the head turned them into scores for
# the thousand classes of ImageNet. Now we leave the head off.

# %%
print(tuple(few.features.shape), tuple(few.labels.shape))

# %% [markdown]
# Are two ants more alike than an ant and a bee? First we subtract the mean of all the
# test photographs, because what they all share can't tell them apart. Then the map
# shows every pair's cosine: above 0, the two differ from the average in similar ways;
# below 0, in opposite ways.

# %% tags=["nbval-ignore-output", "hide-input"]
figures.show(*few_shot.likeness(*test, names))


# %% [markdown]
# Two bright blocks: on average the cosine is 0.1 for two photographs of the same
# insect, and −0.1 for an ant and a bee. The network already keeps them apart, and we've
# told it nothing yet.
#
# You only have to say which block is which. The simplest way: take the mean of your
# five ants and the mean of your five bees, and give a new photograph to the nearer one.


# %% tags=["nbval-ignore-output"]
def nearest_mean(x, y, xt, yt):
    """The share of test photographs nearest to the mean of their class."""
    means = torch.stack([x[y == label].mean(dim=0) for label in y.unique()])
    return (torch.cdist(xt, means).argmin(dim=1) == yt).double().mean().item()


print(f"{nearest_mean(*few, *test):.0%}")

# %% [markdown]
# As good as the first classifier, and simpler. But a distance treats all 192 numbers
# alike, and some may only say how bright it is, or whether there's grass. A *weight*
# for each number might do better, if we can find weights without training.
#
# ## Four photographs and a pencil
#
# Say there are two numbers for each photograph, and we want a score of 1 for ants and
# −1 for bees.
#
# | | first | second | target |
# |---|---|---|---|
# | ant | 1 | 1 | 1 |
# | ant | 1 | −1 | 1 |
# | bee | −1 | 1 | −1 |
# | bee | −1 | −1 | −1 |
#
# You see it at once: the first number tells ants from bees, the second doesn't. Let
# $X$ be the table of numbers, with a row for each photograph, $\mathbf{y}$ the column
# of targets, and $\mathbf{w}$ a weight for each number. The scores are $X\mathbf{w}$.
# They should be close to the targets, and the weights no larger than they need to be.
# So we minimise
#
# $$ \lVert X\mathbf{w} - \mathbf{y} \rVert^2 + \lambda \lVert \mathbf{w} \rVert^2 $$
#
# Here $\lVert\cdot\rVert^2$ is the sum of the squares, and $\lambda$ says how much
# large weights cost. At the lowest point the derivatives by all weights are zero. As a
# column:
#
# $$ 2 X^\top (X\mathbf{w} - \mathbf{y}) + 2 \lambda \mathbf{w} = 0 $$
#
# Solve for $\mathbf{w}$:
#
# $$ \mathbf{w} = (X^\top X + \lambda I)^{-1} X^\top \mathbf{y} $$
#
# ($I$ has ones on its diagonal and zeros elsewhere. In code, $X^\top$ is `x.mT`.)

# %% [markdown]
# **Take a pencil:** for the table, $X^\top X$ is 4 on the diagonal and 0 elsewhere.
# What's $X^\top \mathbf{y}$? What are the weights for $\lambda = 0$, and for
# $\lambda = 4$?

# %%
x = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
y = torch.tensor([1.0, 1.0, -1.0, -1.0])
for l2 in (0.0, 4.0):
    w = torch.linalg.solve(x.mT @ x + l2 * torch.eye(2), x.mT @ y)
    print(f"lambda {l2:g}: weights {w.tolist()}, scores {(x @ w).tolist()}")

# %% [markdown]
# The formula has found out that the second number is useless. $\lambda$ has halved the
# scores, but their signs are the same, and so are the answers.
#
# Each class gets its own column of targets: 1 for its photographs, −1 for all others.
# Put the columns side by side, call them $Y$, and you get all the weights $W$ at once.
# That's how the ViT paper compares models where *fine-tuning*, which trains all the
# weights, would cost too much ([Dosovitskiy et al.
# 2021](https://arxiv.org/abs/2010.11929)). Here's all of it:

# %% tags=["hide-input"]
figures.show(*few_shot.recipe())


# %% [markdown]
# Only whitening, the second box, is new. Suppose one number runs from −10 to 10 and
# another from −0.1 to 0.1. Then the second needs a huge weight to be heard, and
# $\lambda$ makes it pay for that. So from each number we subtract its mean over the few
# photographs, $m$, and divide by its standard deviation, $s$. The authors call this
# *whitening* (others: standardising). From here on, $X$ is the whitened table.
#
# Its last column is a constant. Like the bias of a linear layer, it raises or lowers
# all the scores of a class. Why 100 and not 1? With 100 a tiny weight will do, and
# $\lambda$ hardly notices it.


# %% tags=["teaches"]
def whiten(x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """(n, d) to (n, d + 1): centred, scaled, and 100 last for the bias."""
    return F.pad((x.double() - mean) / std, (0, 1), value=100.0)


# %% [markdown]
# Test photographs are whitened with the *same* mean and deviation, so a classifier has
# three things to remember:


# %% tags=["teaches"]
class FewShotClassifier(NamedTuple):
    """Least squares on whitened features; float64."""

    mean: Tensor  # (d,)
    std: Tensor  # (d,)
    # (d + 1, classes); the last row belongs to the bias
    weights: Tensor

    def scores(self, x: Tensor) -> Tensor:
        """Features (n, d) to (n, classes); the largest is the answer."""
        return whiten(x, self.mean, self.std) @ self.weights


# %% [markdown]
# Now the formula. `solve` would do here, too, but the authors use `eigh`. It takes a
# symmetric matrix apart into directions (`vectors`) and a size for each (`values`).
# Adding $\lambda I$ only adds $\lambda$ to each size, and to invert the matrix, you
# divide by the sizes and put it together again.


# %% tags=["teaches"]
def least_squares(x: Tensor, y: Tensor, l2: float) -> FewShotClassifier:
    """Whitening and weights from features (n, d) and labels (n,)."""
    x, targets = x.double(), 2.0 * F.one_hot(y).double() - 1.0  # 1 and -1
    mean, std = x.mean(dim=0), x.std(dim=0, correction=0) + 1e-5
    x = whiten(x, mean, std)
    # (X'X + l2)^-1 X'Y = X' (XX' + l2)^-1 Y: decompose the smaller square
    if len(x) >= x.shape[1]:
        values, vectors = torch.linalg.eigh(x.mT @ x)
        inverse = (vectors / (values + l2)) @ vectors.mT
        weights = inverse @ (x.mT @ targets)
    else:
        values, vectors = torch.linalg.eigh(x @ x.mT)
        inverse = (vectors / (values + l2)) @ vectors.mT
        weights = x.mT @ (inverse @ targets)
    return FewShotClassifier(mean, std, weights)


# %% [markdown]
# The `else` is for speed. With ten photographs, $X^\top X$ is a matrix of 193 × 193, but
# $XX^\top$ only of 10 × 10, and it [leads to the same weights](#The-smaller-square). Here
# are the scores of three test photographs, with the authors' $\lambda$ of $2^{10}$, which
# they use for every data set:

# %% tags=["nbval-ignore-output"]
classifier = least_squares(*few, l2=2.0**10)
print(classifier.scores(test.features[:3]))


# %% [markdown]
# A row is a photograph, and the columns are ants and bees. (With two classes, the
# second column is the first with its sign turned.) The scores are far from 1 and −1,
# because this $\lambda$ is large and ten photographs are few. That doesn't matter: the
# larger score is the answer, even where it's nearly a tie, as in the second row.


# %%
def fewshot_accuracy(x, y, xt, yt, l2=2.0**10):
    """The share of test photographs that a classifier from a few gets right."""
    answers = least_squares(x, y, l2).scores(xt).argmax(dim=1)
    return (answers == yt).double().mean().item()


# %% tags=["nbval-ignore-output"]
print(f"{fewshot_accuracy(*few, *test):.0%}")

# %% tags=["nbval-check-output", "hide-input"]
_ = torch.manual_seed(0)
for number in (6, 60):  # fewer photographs than numbers, and more
    random = Features(torch.randn(number, 20), torch.arange(number) % 3)
    unseen = Features(torch.randn(500, 20), torch.arange(500) % 3)
    ours = 100 * fewshot_accuracy(*random, *unseen)
    assert ours == evaluate.fewshot_accuracy(model, random, unseen)
    x, y = random
    mean, std, weights = least_squares(x, y, 4.0)
    x, y = whiten(x, mean, std), 2.0 * F.one_hot(y).double() - 1
    square = x.mT @ x + 4.0 * torch.eye(21)
    assert torch.allclose(square @ weights, x.mT @ y, atol=1e-8)
assert round(right, 6) == round(100 * fewshot_accuracy(*few, *test), 6)
print("check: the formula holds, and the accuracy is the package's")


# %% [markdown]
# There's the number from the top again.
#
# ## One, five, twenty-five
#
# Which five photographs you happen to have is luck. So we'll draw thirty times for each
# number of photographs, and test every classifier.

# %% [markdown]
# **Before you look:** with *one* ant and *one* bee, which does better, the nearest mean
# or least squares? And what percentage would you guess for each?


# %% tags=["nbval-ignore-output", "hide-input"]
def draws(data, held, method, shots, number=DRAWS, **options):
    """Accuracies of classifiers from `shots` photographs of each class."""
    rows = (sample_shots(data.labels, shots, seed) for seed in range(number))
    return [method(*data.take(each), *held, **options) for each in rows]


METHODS = {"nearest mean": nearest_mean, "least squares": fewshot_accuracy}
curves = {
    name: {shots: draws(train, test, method, shots) for shots in SHOTS}
    for name, method in METHODS.items()
}
figures.show(*few_shot.curves(curves, len(names)))

# %% [markdown]
# The bands hold eight of ten draws. (`draws`, in the folded cell, returns the accuracy
# of each.) With ten photographs or more of each, your weights are ahead by a hair, with
# five it's a tie, and the bands overlap everywhere. That's little to show for so much
# algebra.
#
# But from one of each it's little more than guessing, and the simple rule isn't! What
# has the formula done to its two photographs? Here are five of their numbers, before
# and after whitening, and below them a test photograph after whitening.

# %% tags=["nbval-ignore-output"]
one = train.take(sample_shots(train.labels, 1, seed=0)[:2])
mean, std, _ = least_squares(*one, l2=2.0**10)
print(one.features[:, :5])
print(whiten(one.features, mean, std)[:, :5].float())
print(whiten(test.features[:1], mean, std)[:, :5].float())

# %% tags=["nbval-check-output", "hide-input"]
signs = whiten(one.features, mean, std)[:, :-1]
assert (signs.abs() > 0.98).double().mean() > 0.9
print("check: of two photographs, whitening leaves the signs")

# %% [markdown]
# Of the two photographs, every number has become 1 or −1, however little they differ.
# In the second column they hardly do, so the deviation there is tiny, and the test
# photograph gets −34. A few such numbers shout down all the rest: a deviation measured on two photographs is worth nothing.
#
# And even with five of each, eight draws in ten span six percentage points. A few-shot
# number from one draw is partly luck. The authors average three draws; do at least
# that.
#
# ## What's λ for?
#
# In the pencil example $\lambda$ did nothing useful. Let's turn it almost off, to a
# millionth, and learn from more and more photographs.

# %% [markdown]
# **Guess:** you go from ten photographs in all to 240, with $\lambda$ almost off. Does
# accuracy only rise, only fall, or something else?

# %% tags=["failure", "nbval-ignore-output"]
by_lambda = {}
for name, l2 in {"almost no λ": 1e-6, "λ = 1024": 2.0**10}.items():
    by_lambda[name] = {
        len(names) * shots: statistics.mean(
            draws(train, test, fewshot_accuracy, shots, FEW_DRAWS, l2=l2)
        )
        for shots in MANY
    }
figures.show(*few_shot.dip(by_lambda, train.features.shape[1] + 1))


# %% [markdown]
# It rises, collapses where photographs and columns meet, and recovers. The trap catches
# careful people: it worked with a few photographs, so they collected more.
#
# Each photograph is an equation and each column a weight to find. With fewer
# photographs than columns, many solutions hit every target, and the formula takes the
# smallest. With far more photographs, no solution hits them all, and what's
# odd about single photographs averages out. But where the two numbers meet, exactly one solution is
# left. It hits every target, odd ones included, and needs [enormous
# weights](#The-trap-without-photographs) to do it. (This is *double descent*: the
# mistakes fall, rise and fall again.)
#
# > **Remember.** A $\lambda$ that makes no difference in your first test can still save
# > you in the second.
#
# ## The wrong mean
#
# The next mistake raises no error either, and it's a single line: somebody whitens the
# test photographs with *their own* mean and deviation. On the whole test set you'd
# hardly notice. Then a user comes along with a folder of ants.


# %% tags=["failure", "nbval-ignore-output"]
def whitened_by_itself(x):
    """The mistake: the mean and deviation of the photographs in question."""
    mean, std = x.mean(dim=0), x.std(dim=0, correction=0) + 1e-5
    return whiten(x, mean, std)


for folder, rows in {
    "all": test.labels >= 0,
    names[0]: test.labels == 0,
}.items():
    x, truth = test.take(rows)
    wrong = (whitened_by_itself(x) @ classifier.weights).argmax(dim=1) == truth
    proper = classifier.scores(x).argmax(dim=1) == truth
    print(f"{folder}: proper {proper.double().mean():.0%}", end=", ")
    print(f"by itself {wrong.double().mean():.0%}")


# %% [markdown]
# Once you subtract the mean of all the ants, nothing says "ant" any more, and each
# answer is a coin toss.
#
# > **Remember.** Measure means and deviations on the training photographs, and keep
# > them with the classifier.
#
# ## Did it need you?
#
# Time to be honest. Two of ImageNet's classes are called *ant* and *bee*. The network
# was trained on them, *with* their names, and perhaps on these very photographs: the
# tutorial says that they're a small subset of ImageNet. What does its own head say if it
# may only choose between those two?


# %% tags=["nbval-ignore-output", "hide-input"]
def own_head():
    """The share right by the head's own rows `bee` and `ant`."""
    rows = [model.class_names.index(name.removesuffix("s")) for name in names]
    scores = test.features @ model.head.weight[rows].mT + model.head.bias[rows]
    return (scores.argmax(dim=1) == test.labels).double().mean().item()


found = {
    "least squares, five of each": statistics.mean(
        draws(train, test, fewshot_accuracy, 5)
    ),
    "least squares, all": fewshot_accuracy(*train, *test),
    "logistic regression, all": (
        evaluate.linear_probe(model, train).accuracy(model, test) / 100
    ),
}
if names == ("ants", "bees"):
    found = {"its own head, no photograph": own_head(), **found}
for what, share in found.items():
    print(f"{what:29}{share:4.0%}")
record = results.read("finetune-ants-bees")
tuned = record["metrics"]["test_accuracy"]
print(f"{'fine-tuned, all (saved run)':29}{tuned['value']:3.0f}%")
print(f"    {record['hardware']}, {record['date']}")
print(f"    {record['command'].split(' && ')[0].replace(' seed=0', '')}")

# %% [markdown]
# With no photograph of yours it's as good as with all of them. Your ten taught it
# nothing about insects. They told it which of the things it knew you meant.
#
# (*Logistic regression* is a linear layer trained with cross-entropy; on frozen features
# it's called a *linear probe*. Fine-tuning is [chapter 11](11_transfer.ipynb). Don't look
# for a winner at 97%: with 153 photographs the standard error is more than one point.)
#
# Let's ask about something that isn't a class of ImageNet: ten generated shapes such as
# crosses and half discs, in random places, sizes and colours, on a noisy background.
# Each number is a mean of ten draws.

# %% tags=["nbval-ignore-output"]
train_shapes = features(model, shapes.train)
test_shapes = features(model, shapes.test)
print("of each shape", *METHODS, sep="   ")
for shots in SHOTS:
    print(f"{shots:13}", end="")
    for method in METHODS.values():
        found = draws(train_shapes, test_shapes, method, shots, FEW_DRAWS)
        print(f"{statistics.mean(found):15.0%}", end="")
    print()

# %% tags=["nbval-ignore-output", "hide-input"]
record = results.read("shapes-difficulty")
for words, key in {"1,000": "vit_1k", "100,000": "vit_100k"}.items():
    value = record["metrics"][key]["value"]
    print(f"a ViT from scratch, {words:>7} shapes of 64 pixels: {value:.0f}%")
print(f"    {record['hardware']}, {record['date']}")
print(f"    {record['command']}")

# %% [markdown]
# With five of each, the formula is level with a ViT trained from scratch on a hundred
# thousand shapes, or a little ahead. (It's no fair race: that ViT saw them smaller.) The
# 192 numbers aren't just a list of things with names: they also describe shapes that
# nobody ever asked about. And here the weights win in every row, if only by a few points.
#
# ## When training pays
#
# When is it worth training the network itself? Let's give its features a hard time:
# CIFAR-10 ([Krizhevsky
# 2009](https://www.cs.toronto.edu/~kriz/learning-features-2009-TR.pdf)) has ten kinds
# of things on 32×32 pixels. They have to be enlarged for our network, to its own 224
# pixels or, to save time, to 128. The numbers are from a saved run on 10,000 of
# the images, from a JPEG copy.

# %% [markdown]
# **Guess first:** how often is the formula right with 25 photographs of each class at
# 224 pixels? And with all 10,000 at 128 pixels, how far is fine-tuning ahead of it?

# %% tags=["nbval-ignore-output", "hide-input"]
record = results.read("cifar10-transfer")
known = {name: each["value"] for name, each in record["metrics"].items()}
columns = ("nearest mean", "formula", "linear probe", "fine-tuned")
print(" " * 18 + "".join(f"{column:>13}" for column in columns))
for side in (128, 224):
    rows = {
        f"{shots} of each": (f"nearest_mean_{shots}", f"fewshot_{shots}")
        for shots in (1, 5, 25)
    } | {"all 10,000": ("", "closed_form", "probe", "finetune")}
    for words, row in rows.items():
        print(f"{words:>10}, {side} px", end="")
        for value in (known.get(f"{name}/{side}px") for name in row):
            print(f"{f'{value:.0f}%' if value else '–':>13}", end="")
        print(f"{'–':>13}" * (len(columns) - len(row)))
used = record["dataset"]
print(f"{used['name']}, {used['num_test']:,} test images")
print(f"{record['hardware']}, {record['date']}")
print(record["command"])

# %% [markdown]
# (A few of each: means of three draws; –: not run.) The weights hardly pay. At best the formula is
# about two points ahead of the nearest mean, and at worst three behind: the features do
# the work.
#
# Training does pay, at least with ten thousand images. The network fine-tuned at 128
# pixels makes about half as many mistakes as the linear probe at 224.
#
# Enlarging shows the network nothing new, and yet the frozen features are far better at
# 224 than at 128: 25 of each do as well as all 10,000 at 128. So start with frozen
# features at the network's own size. Then you know what training has to beat.
#
# ## Can you trust the number?
#
# So far every comparison came down to one percentage on one test set. Does it tell you
# which model is better? Look at the labels first. Each class of ImageNet has a row of
# weights in the head. Which of the thousand rows are most alike?

# %% tags=["nbval-ignore-output"]
rows = F.normalize(model.head.weight.detach(), dim=1)
alike = (rows @ rows.mT).triu(diagonal=1)  # every pair once
for pair in alike.flatten().topk(8).indices.tolist():
    first, second = (model.class_names[i] for i in divmod(pair, 1000))
    print(f"{alike.flatten()[pair]:.2f}  {first} | {second}")

# %% tags=["nbval-check-output", "hide-input"]
best = divmod(int(alike.argmax()), 1000)
assert [model.class_names[i] for i in best] == ["missile", "projectile"]
print("check: the two most similar rows are missile and projectile")

# %% [markdown]
# Go on, explain to somebody the difference between a bathtub and a tub! Some of these
# pairs are two names for one thing (the *ear* is an ear of corn). Others only look
# alike, such as the huskies and the snakes. But for ImageNet each photograph has
# one right label, even if it shows several things.
#
# [Beyer et al. 2020](https://arxiv.org/abs/2006.07159) had people look again. Their
# *reassessed labels*, ReaL for short, give each photograph a *set* of right answers. If
# it's empty, the photograph doesn't count. Take five photographs of the book:

# %% tags=["nbval-ignore-output", "hide-input"]
shown = {
    name: vitedu.preprocess(model, photo(name))[0] / 2 + 0.5
    for name in ("hopper", "cat", "coffee", "astronaut", "rocket")
}
figures.show(
    *photos.pictures(
        shown,
        "Five photographs: Grace Hopper in her navy uniform; a tabby cat's "
        "face; a red cup of coffee on its saucer; an astronaut with her "
        "helmet, and behind her a model of a Space Shuttle; a rocket on its "
        "launch pad between slim towers.",
        columns=3,
    )
)

# %% [markdown]
# We made up the labels, as somebody in a hurry might have clicked them, and the sets:
# it's an illustration, not a measurement. (Behind the astronaut there's a model
# Shuttle. For the rocket no class is right: a Falcon 9 isn't a missile.)

# %%
LABELS = {
    "hopper": ("military uniform", {"military uniform"}),
    "cat": ("tabby", {"tabby", "tiger cat", "Egyptian cat"}),
    "coffee": ("cup", {"cup", "espresso"}),
    "astronaut": ("space shuttle", {"space shuttle"}),
    "rocket": ("missile", set()),
}
for name, (label, right_answers) in LABELS.items():
    answer = vitedu.classify(model, photo(name))[0].name
    verdict = "right" if answer == label else "wrong"
    real = "right" if answer in right_answers else "wrong"
    print(f"{name:9} {answer:17} {verdict}, ReaL: ", end="")
    print(real if right_answers else "not counted")


# %% [markdown]
# Same network, same answers: one of five is right, or three of four. "Espresso" was
# never a mistake. "Bobsled" still is.
#
# And the task? We picked ours, so don't trust us. VTAB ([Zhai et al.
# 2019](https://arxiv.org/abs/1910.04867)) has [nineteen tasks](#All-nineteen-tasks),
# from breeds of pets and satellite images to counting things. A model is fine-tuned on
# a thousand images of each, with one setting for all, and its score is the plain mean.
#
# The ViT paper reports, for two ViTs and a large ResNet (Table 2, all pre-trained on
# Google's JFT-300M):
#
# | | ImageNet, one label | ImageNet, ReaL | VTAB |
# |---|---|---|---|
# | ViT-H/14 | 88.55 | 90.72 | 77.63 |
# | ViT-L/16 | 87.76 | 90.54 | 76.28 |
# | BiT-L (ResNet) | 87.54 | 90.54 | 76.29 |
#
# By the single labels ViT-L beats the ResNet; by ReaL and on VTAB they're level.
# ViT-H's lead over ViT-L shrinks with ReaL and grows on VTAB. So if two models are a
# few tenths of a point apart, ask about labels and tasks before you name a winner.
#
# ## Your own, in a second
#
# Back to your ten photographs. One last step makes your classifier something to keep.
# Whitening and weights are both linear, so together they're one linear layer, and
# that's all a head is. Divide each weight by its deviation, put what's constant into
# the bias, and you have a complete ViT for your own classes.


# %%
def learn(photographs):
    """A ViT for the classes of a few photographs, without training."""
    model = vitedu.load("ViT-Ti/16", num_classes=photographs.num_classes)
    few = features(model, photographs)
    mean, std, weights = least_squares(*few, l2=2.0**10)
    weight = weights[:-1] / std[:, None]  # (d, classes)
    bias = 100 * weights[-1] - mean @ weight
    model.head.load_state_dict({"weight": weight.mT, "bias": bias})
    model.class_names = photographs.class_names
    return model


# %% tags=["nbval-ignore-output"]
ten = photographs.train.take(sample_shots(train.labels, 5, seed=0).tolist())
start = time.perf_counter()
mine = learn(ten)
print(f"{len(ten)} photographs, {time.perf_counter() - start:.1f} seconds")
print(f"{evaluate.accuracy(mine, photographs.test).accuracy:.0f}% right")

# %% tags=["nbval-check-output", "hide-input"]
wanted = least_squares(*few, l2=2.0**10).scores(test.features).float()
given = mine.head(test.features).detach()
assert torch.allclose(given, wanted, atol=1e-3)
print("check: the new head gives the scores of the classifier")

# %% [markdown]
# From ten files to a new ViT, in under a second. From five of each shape, `learn` makes
# one that names shapes in new pictures:

# %% tags=["nbval-ignore-output"]
fifty = sample_shots(train_shapes.labels, 5, seed=0).tolist()
knows_shapes = learn(shapes.train.take(fifty))

# %% tags=["nbval-ignore-output", "hide-input"]
firsts = [
    test_shapes.labels.tolist().index(label)
    for label in range(len(shapes.class_names))
]
new = [shapes.test[row][0] for row in firsts]
figures.show(
    *few_shot.answers(
        [vitedu.preprocess(model, path)[0] / 2 + 0.5 for path in new],
        [vitedu.classify(knows_shapes, path)[0].name for path in new],
        shapes.class_names,
    )
)
given = knows_shapes.head(test_shapes.features).argmax(dim=1)
share = (given == test_shapes.labels).double().mean()
print(f"of all {len(given)} test images: {share:.0%}")

# %% [markdown]
# Nine of ten, and you trained nothing. (The mistake is red, with the true name in
# brackets.) Now take your own: your two cats, screws and nails, everybody's mug in the
# office. Make a folder `mine`, and in it one for each class, with five photographs.
#
# ```python
# yours = learn(find_images("mine"))
# vitedu.save(yours, "mine.safetensors")
# ```
#
# On the command line, `vitedu predict mine.safetensors new.jpg` then tells you whose mug
# it is. (Trust the order and not the percentages: the scores are small, so they look
# undecided after a softmax.)
#
# ## What to take with you
#
# 1. The features of a trained ViT already keep kinds of things apart, so a few photographs
#    and a formula, or just their means, are enough to name them.
# 2. Without $\lambda$ more photographs can make the classifier worse: it collapses where
#    there are as many photographs as columns.
# 3. One draw, one task or one label per photograph can fool you: draw several times, try
#    many tasks, and ask what a label means.
#
# **Five questions**
#
# 1. What does `features` return for a photograph, and where in the network is it taken?
# 2. Why do we append a constant to the features, and why is it 100?
# 3. Why is least squares hardly better than guessing with one photograph of each of two
#    classes?
# 4. With $\lambda$ almost off, where does accuracy collapse, and why there?
# 5. A photograph shows a desk with a keyboard and a mouse, and its label is "desk". Which
#    answers are right by the label, and which by ReaL?
#
# All these features came from a network that cuts a photograph into squares and is told
# nothing else about images. Convolutional networks are born knowing more. **What do they
# know, and is it worth having?** That's [chapter 14](14_resnets.ipynb).
#
# ## Exercises
#
# **1.** ★ In the pencil example, relabel the first bee as an ant. What are
# $X^\top\mathbf{y}$ and the weights for $\lambda = 0$? Does every photograph still get a
# score with the right sign?
#
# **2.** ★ Add a third number to the pencil example, equal to the first in every row. Why
# does the formula fail for $\lambda = 0$? What are the weights for $\lambda = 4$?
#
# **3.** ★ You draw five photographs for each of 40 classes. Which branch of
# `least_squares` runs, and how large is the matrix that `eigh` gets? Are you near the
# place where a tiny $\lambda$ hurts?
#
# **4.** ★★ `mine` knows two classes, so it must say ants or bees, whatever you show it.
# Will it look less sure of the book's photographs than of an insect? Guess, and then
# try `vitedu.classify(mine, photo("hopper"))` and the four others.
#
# **5.** ★★ You have one photograph of each class with a label, and hundreds without,
# none of which you'll test on. So you measure the mean and deviation for whitening on
# all of them. Will least squares from one of each still be near guessing? Will it beat
# the nearest mean of the features as they are?
#
# **6.** ★★★ You want to choose $\lambda$ honestly, without touching the test set. How
# would you do it with 244 labelled photographs, and how with ten? What's wrong with
# trying a dozen values on the test photographs and reporting the best?
#
# ## Second reading
#
# ### The smaller square
#
# Why do $(X^\top X + \lambda I)^{-1} X^\top$ and $X^\top (XX^\top + \lambda I)^{-1}$
# give the same? Multiply out both sides of
#
# $$ X^\top (XX^\top + \lambda I) = (X^\top X + \lambda I) X^\top $$
#
# and you get $X^\top X X^\top + \lambda X^\top$ twice. Now multiply by one inverse from
# the left and by the other from the right. Both exist, because the sizes that `eigh`
# finds in $X^\top X$ are never negative, and $\lambda$ lifts them above zero.
#
# ### The trap without photographs
#
# Take random numbers in 20 columns, and targets that are the first column plus noise.
# The cell makes two hundred fits for each number of rows, with $\lambda$ practically
# zero, and tests each fit on 50 new rows.

# %% tags=["nbval-ignore-output"]
noise = torch.Generator().manual_seed(0)
for number in (5, 10, 18, 20, 22, 40, 100):
    errors, sizes = [], []
    for _ in range(200):
        x = torch.randn(number + 50, 20, generator=noise, dtype=torch.double)
        y = x[:, 0] + torch.randn(number + 50, generator=noise)
        w = torch.linalg.pinv(x[:number]) @ y[:number]  # lambda -> 0
        errors.append((x[number:] @ w - y[number:]).square().mean().item())
        sizes.append(w.norm().item())
    error, size = statistics.median(errors), statistics.median(sizes)
    print(f"{number:3} rows: error {error:6.1f}, size of w {size:5.2f}")

# %% [markdown]
# The true weights have size 1. Near 20 rows the fitted weights explode, and so does the
# error on new rows. [Nakkiran 2019](https://arxiv.org/abs/1912.07242) explains it with
# pencil and paper.
#
# ### All nineteen tasks
#
# The package fine-tunes on every task whose images it finds:
# `vitedu.train.run_vtab("ViT-B/16", "data", "runs/vtab")`. The nineteen, their number of
# classes, and where you get the images:

# %% tags=["nbval-ignore-output", "hide-input"]
print("task    classes where")
for task in evaluate.VTAB:
    print(f"{task.title:11} {task.num_classes:3} {task.where}")

# %% [markdown]
# Torchvision reads some of the tasks, and the package finds those itself. You hand over
# the others as arrays or folders. A thousand labelled images means 800 to learn from
# and 200 to choose the one setting by, and then all of them for the final run. The ViT paper
# takes images of 384 pixels, 2,500 steps and one learning rate for every task. The
# means of the groups are from its Table 9:
#
# | pre-trained model | natural | specialized | structured |
# |---|---|---|---|
# | ViT-H/14, JFT-300M | 86.7 | 87.0 | 65.0 |
# | ViT-L/16, ImageNet-21k | 83.3 | 84.7 | 57.5 |
#
# The lowest scores are in *structured* (how many, how far, at what angle). Numbers of
# different tasks aren't easy to compare, though: there, guessing alone gets you anything
# from one in eighteen to one in four.
#
# ## Where this is in the paper
#
# | here | in the paper |
# |---|---|
# | a classifier by formula from frozen features | section 4.1, *Metrics*; Figure 4 |
# | five shots, to compare models | Table 8 and appendix D.4 |
# | VTAB | Table 2, Figure 2; by task in Table 9 |
# | ReaL | Tables 2 and 5 |
#
# ### What differs
#
# The constants are the authors' ($\lambda$, the 100, the tiny number added to the
# deviation), and so is the way in which a seed picks the photographs. But they squeeze
# each image to 256 × 256 pixels before they cut out the middle, and we scale its short
# side, as our network's weights expect. They compute in float32, we in float64. They
# draw three times, this page up to thirty times. And the paper's few shots are mostly
# ImageNet's thousand classes, seen by larger networks.
#
# ## Three readings
#
# * [Beyer et al. 2020](https://arxiv.org/abs/2006.07159) ask "Are we done with ImageNet?",
#   and show what's wrong with its labels.
# * [Nakkiran 2019](https://arxiv.org/abs/1912.07242) works out why more data can hurt in
#   linear regression, in a few pages.
# * [Kumar et al. 2022](https://arxiv.org/abs/2202.10054) disagree with everybody who
#   fine-tunes as soon as they can afford it. It can distort good features, and on images of
#   another kind than those it was tuned on, a linear probe then does better.
#
# ## Solutions
#
# <details><summary>Solution 1</summary>
#
# The targets are $(1, 1, 1, -1)$, so $X^\top \mathbf{y} = (2, 2)$ and the weights are
# $(½, ½)$. The scores are 1, 0, 0 and −1: the second ant and the relabelled bee get
# no sign at all. One odd label among four, and the useless number has half the say.
#
# </details>
#
# <details><summary>Solution 2</summary>
#
# Two columns are equal, so $X^\top X$ has two equal rows and no inverse: however you
# share the weight between the twins, the scores are the same. With $\lambda$ equal
# shares are the cheapest. The first row of the equations is then
# $4w + 4w + \lambda w = 4$, so with $\lambda = 4$ both twins get ⅓. The second weight
# stays 0.
#
# </details>
#
# <details><summary>Solution 3</summary>
#
# That's 200 photographs, and 193 columns after whitening. There are more rows than
# columns, so the first branch runs, and `eigh` gets 193 × 193 numbers. You're right
# beside the worst place, so a tiny $\lambda$ would hurt badly.
#
# </details>
#
# <details><summary>Solution 4</summary>
#
# It names an insect every time. Sometimes the two scores are close together, but you
# can't rely on it: nobody has shown the formula what *no* insect looks like. The cell
# prints how far apart the scores are, beside the same for a typical test photograph.
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
with torch.no_grad():
    insects = mine.head(test.features).topk(2).values.diff().abs().median()
    print(f"a typical test photograph: {insects:.2f}")
    for name in LABELS:
        scores = mine(vitedu.preprocess(mine, photo(name)))[0]
        best, second = scores.topk(2).values
        print(f"{name:9} {names[scores.argmax()]:5} {best - second:.2f}")

# %% [markdown]
# <details><summary>Solution 5</summary>
#
# It's far better than guessing, because the deviations are now measured on hundreds of
# photographs. It doesn't beat the nearest mean of the features as they are. (With one
# photograph of each of two classes, least squares and the nearest mean of the *same*
# whitened features give nearly the same answers, so the cell uses the shorter one.)
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
every = train.features.double()
spread = every.std(dim=0)


def by_all(x, y, xt, yt):
    """Nearest mean after whitening by all training photographs."""
    return nearest_mean(x / spread, y, xt / spread, yt)


for name, method in {**METHODS, "whitened by all": by_all}.items():
    print(f"{name:16} {statistics.mean(draws(train, test, method, 1)):.0%}")

# %% [markdown]
# <details><summary>Solution 6</summary>
#
# With 244, hold out a fifth of each class, fit every $\lambda$ on the rest, keep the one
# that does best on the part held out, and fit once more on all of them. With ten, hold
# out one photograph at a time and fit on the other nine: ten cheap fits for each
# $\lambda$. Ten answers don't tell you much, though, and that's why a fixed value is a
# good idea. The best of a dozen on the test photographs was partly lucky on exactly
# those, as in exercise 2 of [chapter 5](05_mnist.ipynb).
#
# </details>
