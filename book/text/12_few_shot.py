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
from vitedu.data.shapes import write_folder
from vitedu.data.sources import MissingDataError
from vitedu.evaluate import features, sample_shots
from vitedu.figures import few_shot, photos

torch.set_num_threads(1)
_ = torch.manual_seed(0)
TIER = os.environ.get("VITEDU_TIER", "cpu")
print(f"tier {TIER}, seed 0, cpu, torch {torch.__version__}")

# %% tags=["nbval-ignore-output", "hide-input"]
SMOKE = TIER == "smoke"  # only proves that it all runs
SHOTS, DRAWS = ((1, 2, 5), 3) if SMOKE else ((1, 2, 5, 10, 25), 30)
MANY, FEW_DRAWS = (1, 2, 5, 10, 25, 50, 75, 90, 96, 100, 110, 120), 10
FORMS = (4, 20, 8) if SMOKE else (10, 250, 200)
made = Path(tempfile.mkdtemp()) / "forms"
sizes = dict(zip(("num_classes", "num_train", "num_val"), FORMS, strict=True))
write_folder(made, image_size=224, **sizes)
forms = load_folder(made)
try:
    photographs = load_folder(folder_of("ants-bees"))
    what = "photographs of ants and bees"
except MissingDataError:
    photographs, what = forms, "no ants and bees here, generated forms instead"
names, K = photographs.class_names, len(photographs.class_names)
most = min(torch.tensor(photographs.train.labels).bincount())
MANY = [k for k in MANY if k <= most]
counts = f"{len(photographs.train)} to draw from, {len(photographs.test)}"
print(f"{what}: {counts} to test on")

# %% [markdown]
# A folded cell has found the `photographs`: those of [PyTorch's
# tutorial](https://docs.pytorch.org/tutorials/beginner/transfer_learning_tutorial.html)
# on transfer learning. Each of them goes through our small ViT once, and nothing in it is
# trained. (For all of them that takes half a minute; your ten need one second.)

# %% tags=["nbval-ignore-output"]
model = vitedu.load("ViT-Ti/16")
train = features(model, photographs.train)
test = features(model, photographs.test)
few = train.take(sample_shots(train.labels, 5, seed=0))

# %% [markdown]
# `few` has five photographs of each class, drawn at random. Now for the classifier:

# %% tags=["nbval-ignore-output"]
start = time.perf_counter()
right = evaluate.fewshot_accuracy(*few, *test)
took = 1000 * (time.perf_counter() - start)
print(f"{right:.0%} of {len(test.labels)} test photographs")
print(f"made and tested in {took:.0f} thousandths of a second")

# %% [markdown]
# No epochs, no learning rate, no GPU. Inside is a single formula, and you'll write it
# yourself. So: **what does the network know that makes ten photographs enough, and when
# aren't they?**
#
# ## 192 numbers
#
# `features` gives you what the head would read: row 0 after the last norm, the
# $\mathbf{y}$ of [chapter 4](04_vit.ipynb). That's 192 numbers for each photograph. In
# chapter 4 the head turned them into scores for the thousand classes of ImageNet. Now we
# leave the head off and work with the numbers themselves.

# %%
print(tuple(few.features.shape), tuple(few.labels.shape))

# %% [markdown]
# Are two ants more alike than an ant and a bee? For every pair of test photographs, the
# map shows the cosine of their features (1: same direction, 0: nothing in common), after
# the mean of all photographs is subtracted.

# %% tags=["nbval-ignore-output", "hide-input"]
figures.show(*few_shot.likeness(*test, names))


# %% [markdown]
# Two bright blocks: the network keeps ants and bees apart already, and we haven't told it
# anything yet. All that's left for you is to say which block is which. The simplest way:
# take the mean of your five ants and the mean of your five bees, and give a new
# photograph to the nearer one.


# %% tags=["nbval-ignore-output"]
def nearest_mean(x, y, xt, yt):
    """The share of test photographs nearest to the mean of their class."""
    means = torch.stack([x[y == k].mean(dim=0) for k in y.unique()])
    return (torch.cdist(xt, means).argmin(dim=1) == yt).double().mean().item()


print(f"{nearest_mean(*few, *test):.0%}")

# %% [markdown]
# That's as good as the first one. So why go on? Because a distance treats all 192 numbers
# alike, and some of them may say nothing about insects, only how bright it is, say, or
# whether there's grass. We'd rather give each number a *weight*. But how do you find
# weights without training?
#
# ## Four photographs and a pencil
#
# Say there are two numbers for each photograph, and we want a score of 1 for ants and −1
# for bees.
#
# | | first | second | target |
# |---|---|---|---|
# | ant | 1 | 1 | 1 |
# | ant | 1 | −1 | 1 |
# | bee | −1 | 1 | −1 |
# | bee | −1 | −1 | −1 |
#
# You see it at once: the first number tells, the second doesn't. Let $X$ be the table of
# numbers, with a row for each photograph, and $\mathbf{y}$ the column of targets. The
# scores are $X\mathbf{w}$. We look for weights $\mathbf{w}$ that bring the scores close to
# the targets and aren't larger than they need to be:
#
# $$ \lVert X\mathbf{w} - \mathbf{y} \rVert^2 + \lambda \lVert \mathbf{w} \rVert^2 $$
#
# $\lambda$ says how much large weights cost. This is a parabola in every weight, so its
# lowest point is where the derivative is zero, and you can solve for it:
#
# $$ \mathbf{w} = (X^\top X + \lambda I)^{-1} X^\top \mathbf{y} $$

# %% [markdown]
# **Take a pencil:** for the table, $X^\top X$ is 4 on the diagonal and 0 elsewhere. What's
# $X^\top \mathbf{y}$? What are the weights for $\lambda = 0$, and for $\lambda = 4$?

# %%
x = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
y = torch.tensor([1.0, 1.0, -1.0, -1.0])
for l2 in (0.0, 4.0):
    w = torch.linalg.solve(x.mT @ x + l2 * torch.eye(2), x.mT @ y)
    print(f"lambda {l2:g}: weights {w.tolist()}, scores {(x @ w).tolist()}")

# %% [markdown]
# The formula has found out that the second number is useless. And $\lambda$ has halved the
# scores, but their signs are the same, and so are the answers.
#
# Each class gets its own column of targets: 1 for its photographs, −1 for all others. Put
# the columns side by side, call them $Y$, and you get all weights $W$ at once. That's how the paper compares models where fine-tuning would cost too much
# ([Dosovitskiy et al. 2021](https://arxiv.org/abs/2010.11929)). From top to bottom:

# %% tags=["hide-input"]
figures.show(*few_shot.recipe())


# %% [markdown]
# Only the grey box is new. Suppose one number runs from −10 to 10 and another from −0.1
# to 0.1. Then the second one needs a huge weight to be heard, and $\lambda$ makes it pay
# for that. So we subtract from each number its mean over the few photographs, $m$, and
# divide by its standard deviation, $s$. (The authors call this *whitening*.)
#
# The last column is a constant, like the bias of a linear layer: it can raise or lower
# all scores of a class. Why 100 and not 1? With 100 a tiny weight will do, and
# $\lambda$ hardly notices it.


# %% tags=["teaches"]
def whiten(x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """(n, d) to (n, d + 1): centred, scaled, and 100 last for the bias."""
    return F.pad((x.double() - mean) / std, (0, 1), value=100.0)


# %% [markdown]
# The test photographs are whitened with the *same* mean and deviation. So a classifier
# has three things to remember:


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
# And now the formula. `eigh` writes a symmetric matrix as directions and a size for each.
# Adding $\lambda I$ adds $\lambda$ to each size, so the inverse is one division.


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
# A row is a photograph, and the columns are ants and bees. The scores are far from 1 and
# −1, because this $\lambda$ is large and ten photographs are few. That doesn't matter: the
# larger score is the answer, even where it's nearly a tie, as in the second row. What's
# left to write is counting.


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
    random = torch.randn(number, 20), torch.arange(number) % 3
    unseen = torch.randn(500, 20), torch.arange(500) % 3
    ours = fewshot_accuracy(*random, *unseen)
    assert ours == evaluate.fewshot_accuracy(*random, *unseen)
    x, y = random
    mean, std, weights = least_squares(x, y, 4.0)
    x, y = whiten(x, mean, std), 2.0 * F.one_hot(y).double() - 1
    square = x.mT @ x + 4.0 * torch.eye(21)
    assert torch.allclose(square @ weights, x.mT @ y, atol=1e-8)
assert round(right, 6) == round(fewshot_accuracy(*few, *test), 6)
print("check: the formula holds, and the accuracy is the package's")


# %% [markdown]
# There's the number from the top of the page again, now from your own function.
#
# ## One, five, twenty-five
#
# Which five photographs you happen to have is luck. So we'll draw again and again, thirty
# times for each number of photographs, and test every classifier on all the test
# photographs. With a formula that takes seconds.

# %% [markdown]
# **Before you look:** with *one* ant and *one* bee, which does better, the nearest mean or
# least squares? And how many percent would you guess for each?


# %% tags=["nbval-ignore-output", "hide-input"]
def draws(data, held, method, shots, number=DRAWS, **options):
    """Accuracies of classifiers from `shots` photographs of each class."""
    rows = (sample_shots(data.labels, shots, seed) for seed in range(number))
    return [method(*data.take(each), *held, **options) for each in rows]


METHODS = {"nearest mean": nearest_mean, "least squares": fewshot_accuracy}
curves = {
    name: {k: draws(train, test, method, k) for k in SHOTS}
    for name, method in METHODS.items()
}
figures.show(*few_shot.curves(curves, K))

# %% [markdown]
# The bands hold eight of ten draws. (The folded cell has a function for it: `draws` returns
# the accuracy of each draw.) With ten photographs or more of each, your formula is
# ahead by a hair, and with five it's level. But with one it's a coin toss, and the simple
# rule isn't! What has the formula done to its two photographs? Here are the first five of
# their numbers, before and after whitening.

# %% tags=["nbval-ignore-output"]
one = train.take(sample_shots(train.labels, 1, seed=0)[:2])
mean, std, _ = least_squares(*one, l2=2.0**10)
print(one.features[:, :5])
print(whiten(one.features, mean, std)[:, :5].float())

# %% tags=["nbval-check-output", "hide-input"]
signs = whiten(one.features, mean, std)[:, :-1]
assert (signs.abs() > 0.98).double().mean() > 0.9
print("check: of two photographs, whitening leaves the signs")

# %% [markdown]
# Every number has become 1 or −1. In the second column the two photographs hardly differ,
# in the first a lot, and after whitening you can't tell. (Adam did the same to gradients
# in its first step, in [chapter 5](05_mnist.ipynb).) A deviation measured on two
# photographs is worth nothing. The authors' sets have twenty classes and more, so even
# with one photograph of each they have enough of them to measure it.
#
# And look how wide the bands are, even at five. A few-shot number from one draw is partly
# a report about luck. The authors draw three times and average; do at least that.
#
# ## More photographs, worse classifier
#
# What's $\lambda$ for? In the pencil example it did nothing useful. Let's turn it almost
# off, to a millionth, and give the classifier more and more photographs.

# %% [markdown]
# **Guess:** from five photographs of each class to nearly a hundred, does accuracy rise,
# stay, or fall?

# %% tags=["failure", "nbval-ignore-output"]
by_lambda = {}
for name, l2 in {"almost no λ": 1e-6, "λ = 1024": 2.0**10}.items():
    by_lambda[name] = {
        K * k: statistics.mean(
            draws(train, test, fewshot_accuracy, k, FEW_DRAWS, l2=l2)
        )
        for k in MANY
    }
figures.show(*few_shot.dip(by_lambda, train.features.shape[1] + 1))


# %% [markdown]
# There's no error message, and the trap catches people who were careful: they tried it
# with a few photographs, it worked, and so they collected more.
#
# Each photograph is an equation and each column a weight to find. With fewer photographs
# than columns, many solutions hit every target, and the formula takes the smallest. With
# far more photographs, no solution hits them all, and the formula averages their quirks
# out. But where the two numbers meet, exactly one solution is left. It hits every target,
# quirks included, and needs [enormous weights](#The-trap-without-photographs) to do it.
# (This is called *double descent*, because the mistakes fall, rise and fall again.)
#
# > **Remember.** A $\lambda$ that makes no difference in your first test can still save you
# > in the second. And never choose it on the test photographs.
#
# ## Whose mean?
#
# The second bug is one line. Somebody whitens the test photographs with *their own* mean
# and deviation. On the whole test set you'd hardly notice. But then a user comes along
# with a folder of nothing but ants.


# %% tags=["failure", "nbval-ignore-output"]
def whitened_by_itself(x):
    """The mistake: the mean and deviation of the photographs in question."""
    return whiten(x, x.double().mean(dim=0), x.double().std(dim=0) + 1e-5)


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
# Once you subtract the mean of all the ants, nothing says "ant" any more, and the answers
# are coin tosses.
#
# > **Remember.** What's measured on data, such as a mean, belongs to the classifier, and
# > it's measured on the photographs to learn from.
#
# ## Did it need you?
#
# Time to be honest. Two of ImageNet's thousand classes are called *ant* and *bee*. The
# network has seen hundreds of each, *with* their names. What does its own head
# say if it may only choose between those two?


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
    "logistic regression, all": evaluate.linear_probe(train).accuracy(*test),
}
if names == ("ants", "bees"):
    found = {"its own head, no photograph": own_head(), **found}
for what, share in found.items():
    print(f"{what:29}{share:4.0%}")
record = results.read("finetune-ants-bees")
tuned = record["metrics"]["test_accuracy"]
print(f"{'fine-tuned, all (a record)':29}{tuned['value']:3.0f}%")
print(f"    {record['hardware']}, {record['date']}")
print(f"    {record['command'].split(' && ')[0].replace(' seed=0', '')}")

# %% [markdown]
# With no photograph of yours it's as good as with all of them. So your ten taught it
# nothing about insects. They told it which of the things it knew you meant.
#
# (*Logistic regression* on frozen features, with the cross-entropy you know, is called a
# *linear probe*. Fine-tuning, the subject of chapter 11, trains all weights. Don't look
# for a winner: with 153 photographs the standard error is more than one percent.)
#
# So let's ask about something without a name: ten generated forms such as crosses, rings
# and half discs, in random places, sizes and colours, on a noisy ground. None of them is a
# class of ImageNet, and guessing would get one in ten.

# %% tags=["nbval-ignore-output"]
train_forms = features(model, forms.train)
test_forms = features(model, forms.test)
for k in SHOTS:
    found = draws(train_forms, test_forms, fewshot_accuracy, k, FEW_DRAWS)
    print(f"{k:2} of each form: {statistics.mean(found):.0%}")

# %% tags=["nbval-ignore-output", "hide-input"]
record = results.read("shapes-difficulty")
for words, key in {"1,000": "vit_1k", "100,000": "vit_100k"}.items():
    value = record["metrics"][key]["value"]
    print(f"a ViT from scratch, {words:>7} forms of 64 pixels: {value:.0f}%")
print(f"    {record['hardware']}, {record['date']}")
print(f"    {record['command']}")

# %% [markdown]
# Five of each form are enough to overtake a ViT that was trained from scratch on a hundred
# thousand of them. (It's no fair race: that ViT saw them smaller, and only one run is
# recorded.) So the 192 numbers aren't just a list of things with names. They also
# describe shapes that nobody ever asked about.
#
# ## When training pays
#
# All that came from frozen features. So when is it worth training the network itself?
# Let's give the features a hard time: CIFAR-10 ([Krizhevsky
# 2009](https://www.cs.toronto.edu/~kriz/learning-features-2009-TR.pdf)) has ten kinds of
# things on 32×32 pixels, which have to be enlarged for our network. The numbers below are
# a record, and every row answers the same test images.

# %% [markdown]
# **Guess first:** how often is the formula right with 25 photographs of each class? And
# with 10,000 photographs in all, how far ahead is fine-tuning?

# %% tags=["nbval-ignore-output", "hide-input"]
record = results.read("cifar10-transfer")
found = {
    f"formula, {k} of each, {side} pixels": f"fewshot_{k}/{side}px"
    for side in (128, 224)
    for k in (1, 5, 10, 25)
} | {
    "formula, all 10,000, 128 pixels": "closed_form/128px",
    "linear probe, all, 128 pixels": "probe/128px",
    "fine-tuned, all, 128 pixels": "finetune/128px",
}
for words, key in found.items():
    print(f"{words:33}{record['metrics'][key]['value']:3.0f}%")
used = record["dataset"]
print(f"    {used['name']}, {used['num_test']:,} test images")
print(f"    {record['hardware']}, {record['date']}")
print(f"    {record['command']}")

# %% [markdown]
# (The rows with a few of each are means of three draws.) Fine-tuning is well ahead: it's
# wrong less than half as often as the linear probe on the same images. With ten thousand
# examples, the network can make itself better features for tiny pictures.
#
# But compare the rows for 224 pixels with those for 128. Enlarging shows the network
# nothing new, and yet 25 photographs of each class do as well at 224 as all 10,000 do at
# 128. Frozen features are at their best on images of the size they were trained on.
#
# So start with the formula, at the network's own size. It takes a minute, and it tells
# you what any training has to beat.
#
# ## Nineteen tasks
#
# We picked those tasks, so you shouldn't trust us. To judge features fairly you need many
# tasks, chosen before anybody has seen a result. That's VTAB ([Zhai et al.
# 2019](https://arxiv.org/abs/1910.04867)), nineteen tasks in three groups:

# %%
for task in evaluate.VTAB[:18:2]:  # nine of them
    print(f"{task.group:11}  {task.title:11}  {task.question.split(':')[0]}")

# %% [markdown]
# For each task you get a thousand labelled images, 800 to learn from and 200 to choose by,
# and all of them for the final run. The paper doesn't stop at frozen features here: it
# fine-tunes, with *one* setting for all tasks, and the score is the plain mean. These are
# the means of the groups, from the paper's Table 9:
#
# | pre-trained model | natural | specialized | structured |
# |---|---|---|---|
# | ViT-H/14, JFT-300M | 86.7 | 87.0 | 65.0 |
# | ViT-L/16, ImageNet-21k | 83.3 | 84.7 | 57.5 |
#
# (JFT-300M is Google's own set of 303 million images; ImageNet-21k has 14 million.) One
# column falls behind: *structured*, where the questions are how many, how far and at what
# angle. Some of these are simply hard. But there may be more to it: if you teach a
# network to say "dog" wherever the dog is, you also teach it not to care where.
#
# ## What's the right answer?
#
# So far we've trusted the labels. Should we? Each class of ImageNet has a row of weights in
# the head. Which of the thousand rows are most alike?

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
# Go on, explain to somebody the difference between a bathtub and a tub. In ImageNet's
# validation set each photograph has one label, and only that label is right. Besides,
# many photographs show several things: a desk with a screen, a keyboard and a mouse.
#
# [Beyer et al. 2020](https://arxiv.org/abs/2006.07159) had people look again. Their
# *reassessed labels*, ReaL for short, give each photograph a *set* of right answers. If
# the set is empty, the photograph doesn't count at all. Try it with some photographs of
# the book:

# %% tags=["nbval-ignore-output", "hide-input"]
shown = {
    name: vitedu.preprocess(model, photo(name))[0] / 2 + 0.5
    for name in ("cat", "coffee", "astronaut", "rocket")
}
figures.show(
    *photos.pictures(
        shown,
        "Four photographs: a tabby cat's face; a red cup of coffee on its "
        "saucer; an astronaut with her helmet, and behind her a model of a "
        "Space Shuttle; a rocket on its launch pad between slim towers.",
        columns=2,
    )
)

# %% [markdown]
# The single labels below are ours, as somebody in a hurry might have clicked them. So are
# the sets. There's a model of a Space Shuttle behind the astronaut, and for the
# rocket no class is right: a Falcon 9 isn't a missile.

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
# Same network, same answers: one of five is right, or three of four. "Espresso" was never
# a mistake. "Bobsled" still is.
#
# The paper prints both numbers. Its largest model has 88.55 % by the single labels and
# 90.72 % by ReaL (Table 2). So if two models are a few tenths of a percent apart, ask
# first whether the labels are that good.
#
# ## Your own, in a second
#
# One last step turns your classifier into something you can keep. Whitening and weights
# are both linear, so together they're one linear layer, and that's all a head is. Divide
# each weight by its deviation, put what's constant into the bias, and you have a complete
# ViT for your own classes.


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
# From ten files to a new ViT, in about a second. Now take your own: your two cats, screws
# and nails, everybody's mug in the office. Make a folder `mine`, and in it a folder with
# five photographs for each class.
#
# ```python
# mine = learn(find_images("mine"))
# vitedu.save(mine, "mine.safetensors")
# ```
#
# On the command line, `vitedu predict mine.safetensors new.jpg` then tells you whose mug
# it is. (Trust the order and not the percents. The scores are small, as you've seen, so a
# softmax makes them look undecided.)
#
# ## What to take with you
#
# 1. The features of a trained ViT already keep kinds of things apart, so a few photographs
#    and one formula are enough to name them.
# 2. Without $\lambda$ more photographs can make the classifier worse, and it's worst when
#    there are as many photographs as columns.
# 3. One draw, one task or one label per photograph can fool you: draw several times, try
#    many tasks, and ask what a label means.
#
# **Five questions**
#
# 1. What does `features` return for a photograph, and where in the network is it taken?
# 2. Why do we append a constant to the features, and why is it 100?
# 3. Why is least squares a coin toss with one photograph of each of two classes?
# 4. At how many photographs does the classifier without $\lambda$ do worst, and why there?
# 5. A photograph shows a desk with a keyboard and a mouse. Which answers count by its
#    one label, and which by ReaL?
#
# All these features came from a network that cuts a photograph into squares and is told
# nothing else about images. Convolutional networks are born knowing more. **What do they
# know, and is it worth having?** That's chapter 13.
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
# **4.** ★★ `mine` knows two classes, so it must say ant or bee, whatever you show it. What
# will it say about the book's photographs? Will its two scores be closer together than for
# an insect? Then try `vitedu.classify(mine, photo("hopper"))` and the four others.
#
# **5.** ★★ You have one photograph of each class with a label, and hundreds without. Whiten
# with the mean and deviation of all of them. Will that beat the coin toss? And the nearest
# mean?
#
# **6.** ★★★ You want to choose $\lambda$ honestly, without touching the test set. How would
# you do it with 244 labelled photographs, and how with ten? What's wrong with trying
# thirteen values on the test photographs and reporting the best?
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
# and you get $X^\top X X^\top + \lambda X^\top$ twice. Now multiply by one inverse from the
# left and by the other from the right. Both exist, because the sizes that `eigh` finds in
# $X^\top X$ are never negative, and $\lambda$ lifts them above zero.
#
# ### The trap without photographs
#
# Take random numbers in 20 columns, and targets that are the first column plus noise. The
# cell makes two hundred fits for each number of rows, with $\lambda$ as good as zero, and
# tests each fit on 50 new rows.

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
# `vitedu.train.run_vtab("ViT-B/16", "data", "runs/vtab")`. Where each can be had:

# %% tags=["nbval-ignore-output", "hide-input"]
for task in evaluate.VTAB:
    print(f"{task.title:12} {task.num_classes:3}  {task.where[:54]}")

# %% [markdown]
# Tasks that torchvision can read are found by themselves. You hand over the others as
# arrays or folders. The paper takes images of 384 pixels, 2,500 steps and one learning
# rate for every task.
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
# The constants are the authors': $\lambda$, the 100, the tiny number added to the
# deviation, and the draws. But they squeeze each image to 256 × 256 pixels before they cut
# out the middle, and we scale its short side, as our network's weights expect. They compute
# in float32, we in float64: with a small $\lambda$ you'd see the difference. And the
# paper's few shots are mostly ImageNet's thousand classes, seen by larger networks.
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
# Two columns are equal, so $X^\top X$ has two equal rows and no inverse: however you share
# the weight between the twins, the scores are the same. With $\lambda$ equal shares are the
# cheapest. The first row of the equations is then $4w + 4w + \lambda w = 4$, so with
# $\lambda = 4$ both twins get ⅓. The second weight stays 0.
#
# </details>
#
# <details><summary>Solution 3</summary>
#
# That's 200 photographs, and 193 columns after whitening. There are more rows than columns,
# so the first branch runs, and `eigh` gets 193 × 193 numbers. You're right beside the
# worst place, so a tiny $\lambda$ would hurt badly.
#
# </details>
#
# <details><summary>Solution 4</summary>
#
# It names an insect every time. Sometimes the two scores are close together, but you can't
# rely on it: nobody has shown the formula what *no* insect looks like. The cell prints the
# difference of the scores, beside that of a typical test photograph.
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
# It beats the coin toss by far, because the deviations are now measured on hundreds of
# photographs. It doesn't beat the nearest mean. (With one photograph of each of two
# classes, least squares and the nearest mean give the same answers, so the cell uses the
# shorter one.)
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
# good idea. The best of thirteen on the test photographs was partly lucky on exactly
# those, as in exercise 2 of [chapter 5](05_mnist.ipynb).
#
# </details>
