# %% [markdown] tags=["links", "remove-cell"]
# [Open in Colab](COLAB) · [this page on the site](SITE) · about an hour · half a minute of computing on a laptop, no GPU needed

# %% tags=["setup", "remove-cell"]
import vitedu

# %% [markdown]
# # The Vision Transformer
#
# What's in these four photographs? Make your guesses. At the end of this page, a network that
# you've written yourself will make its own, and then it will name a photograph of yours.

# %% tags=["nbval-ignore-output", "hide-input"]
import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
_ = torch.manual_seed(0)
print(f"seed 0, cpu, torch {torch.__version__}")

# %% tags=["hide-input"]
from vitedu import figures
from vitedu.data import photo
from vitedu.figures import photos

rubbish = vitedu.data.folder_of("trashnet-small") / "train"
found = ("trash/trash54", "plastic/plastic281", "glass/glass81")
new = [rubbish / f"{name}.jpg" for name in found] + [photo("astronaut")]
reader = vitedu.load("ViT-Ti/16")
new = torch.cat([vitedu.preprocess(reader, each) for each in new])
alt = (
    "Something crumpled that light shines through, a crushed half of a "
    "bottle, a whole bottle, and a woman in an orange suit with a Space "
    "Shuttle behind her."
)
panels = {str(i): each for i, each in enumerate(new / 2 + 0.5, start=1)}
figures.show(*photos.pictures(panels, alt, columns=2))

# %% [markdown]
# The cell below opens the file of a trained network: ViT-Ti/16, a small Vision Transformer
# (*Ti* for tiny, 16 for patches of 16×16 pixels). It has seen [millions of
# photographs](#What-differs), and as far as we know, these four weren't among them. What
# training leaves behind is a list of arrays, each with a name:

# %%
trained = vitedu.load("ViT-Ti/16").double()  # float64: hardly any rounding
weights = trained.state_dict()
for name, weight in weights.items():
    if "blocks" not in name or "blocks.0" in name:
        print(f"{name:26}{tuple(weight.shape)}")
total = sum(weight.numel() for weight in weights.values())
print(f"{len(weights)} arrays, {total:,} numbers")

# %% [markdown]
# You know most of this list. `patch_embed` is [chapter 1](01_images.ipynb), `attn` is
# [chapter 2](02_attention.ipynb), and all of `blocks.0` is [chapter 3](03_encoder.ipynb). (We
# left out the eleven other blocks, which look the same.) What you haven't written yet is at
# the edges: a `cls_token`, a `pos_embed`, and at the very end a `norm` and a `head`.
#
# **What does a stack of twelve blocks still need before it can name a photograph? And how will
# you know that what you've built is the real thing?**

# %% tags=["hide-input", "margin"]
figures.show(*figures.network("token", "positions", "norm", "head"))

# %% tags=["hide-input"]
import copy

import numpy as np

from vitedu.compat import import_timm
from vitedu.figures.chapters import vit as drawings

TimmViT = import_timm().models.VisionTransformer
square = photo("hopper").crop((0, 20, 512, 532)).resize((224, 224))
pixels = torch.tensor(np.array(square)).permute(2, 0, 1)[None]
images = [2 * (pixels / 255).double() - 1]  # the square of chapter 1
for name in ("cat", "coffee"):
    images.append(vitedu.preprocess(trained, photo(name)))
images = torch.cat(images)  # (3, 3, 224, 224)
_ = trained.requires_grad_(False)  # it is here to be read


def say(logits, labels=("hopper", "cat", "coffee")):
    """Print the most probable class of each photograph, and how probable."""
    best = logits.detach().softmax(dim=-1).max(dim=-1)
    for label, share, place in zip(
        labels, best.values, best.indices, strict=True
    ):
        print(f"{label:10} {trained.class_names[place]:17} {share:4.0%}")


# %% [markdown]
# ## 196 vectors, one answer
#
# The solid boxes in the drawing are the ones you haven't written yet. (The class token comes
# first, then the positions.) Let's compute them one by one, with the trained weights. `images`
# are the three photographs of chapter 3: Grace Hopper, a cat and a cup of coffee. `say` prints
# the most probable class for each.

# %%
patches = trained.patch_embed(images)  # (b, n, d)
print(tuple(patches.shape), "->", tuple(trained.blocks(patches).shape))

# %% [markdown]
# 196 vectors per photograph go in, 196 come out, and we want one answer. Which vector should
# give it?
#
# You could take the average. In a network that was trained for it, [the average can be just as
# good](#The-mean-instead-of-the-class-token). Ours follows the [ViT
# paper](https://arxiv.org/abs/2010.11929), which borrows an idea from the language model
# [BERT](https://arxiv.org/abs/1810.04805): put one more vector in front of the patches.
#
# Think of a reporter at a meeting of the patches. She hasn't seen any of the photograph herself.
# For twelve rounds she listens, to some patches more closely than to others, and at the end you
# ask nobody but her.
#
# This vector is called the **class token**, and it's learned. Every photograph gets the same
# row on top of its 196. In the code, `expand` repeats it without copying.

# %%
cls_token = trained.cls_token.expand(len(patches), -1, -1)  # (b, 1, d)
x = torch.cat([cls_token, patches], dim=1)  # (b, n + 1, d)
print(tuple(patches.shape), "->", tuple(x.shape))


# %% [markdown]
# ## Read one row
#
# After the last block we only need the class token, row 0. But all twelve blocks have added to
# it, and there's no telling how large it is by now. One more LayerNorm brings it back to a fixed
# size.
#
# Between that row and a name there's only one linear layer, the **head**. It turns 192 numbers
# into *logits*, one score for each of the 1,000 classes of ImageNet, a collection of labelled
# photographs.


# %%
def answer(x):
    """Twelve blocks, norm, row 0, head: (b, n + 1, d) -> (b, classes)."""
    y = trained.norm(trained.blocks(x))[:, 0]  # (b, d)
    return trained.head(y)


# %% [markdown]
# Only `pos_embed` is still missing. With it, in chapter 3, Hopper was a military uniform. And
# now?

# %%
say(answer(x))

# %% [markdown]
# A space shuttle, a magnifying glass, honeycomb: nonsense, three times.
#
# What went wrong? Attention doesn't care about order, as you know from [chapter
# 2](02_attention.ipynb), and norm and MLP look at one token at a time. To this network a
# photograph is now a bag of patches, and it was never trained on bags. ([Is that really the
# reason?](#Is-it-really-the-places?))
#
# ## Where was the patch?
#
# If the network can't see where a patch was, the patch has to say so itself. That's what
# `pos_embed` is for, a table with one learned row per token. Row 5 is added to token 5,
# whatever it shows. (The class token is token 0, and the top left patch is token 1.) These
# rows are called [**position embeddings**](#Four-kinds-of-positions).
#
# Say two patches of plain blue sky are the same vector, $(1, 0)$. Add the rows $(0, 0.1)$ and
# $(0, 0.2)$, and they become $(1, 0.1)$ and $(1, 0.2)$. Now attention can tell them apart.
#
# All images [share the table](#Whose-token-is-it?), as they share the class token. Add it, and
# ask again:

# %%
say(answer(x + trained.pos_embed))

# %% [markdown]
# One addition, and all three names of chapter 3 are back.

# %% [markdown] tags=["predict"]
# Shuffle the patches, and each one gets the row of some other place. In chapter 1, that turned
# Hopper into a mortarboard. Now shuffle the table as well, in the same order. **What happens to
# the logits?**
#
# * they come out as for the unshuffled photograph
# * they come out as for the shuffled patches
# * they become something else

# %%
order = torch.randperm(196, generator=torch.Generator().manual_seed(0))
shuffled = torch.cat([cls_token, patches[:, order]], dim=1)
rows = trained.pos_embed[:, 1:][:, order]
table = torch.cat([trained.pos_embed[:, :1], rows], dim=1)
change = answer(shuffled + table) - answer(x + trained.pos_embed)
print("largest change below 1e-12:", bool(change.abs().max() < 1e-12))

# %% [markdown]
# They come out just as they did for the unshuffled photograph. Each patch took its own row
# along, so all you've done is put the tokens in another order. Attention still has no sense of
# order, but now the tokens themselves say where they come from.
#
# Nobody told the network that token 15 is just below token 1. Before training, the rows of the
# table are random. What has the network learned about places? Each map below compares one row of
# the table with all the others (by the cosine, which is 1 if two rows point the same way).

# %% tags=["hide-input"]
places = trained.pos_embed[0, 1:]
figures.show(*drawings.neighbours(places, (1, 91, 196)))
places = F.normalize(places, dim=1)
most_alike = (places @ places.T - 2 * torch.eye(196)).argmax(dim=1)
across = (most_alike % 14 - torch.arange(196) % 14).abs()
down = (most_alike // 14 - torch.arange(196) // 14).abs()
print(f"most like a direct neighbour: {(across + down == 1).sum()} of 196 rows")

# %% [markdown]
# Every single row is most like the row of a patch directly beside, above or below it. And in the
# middle map you see a bright cross: the token's own row and column. (The dark bands are places
# whose rows point more or less the other way.) Nobody drew that. The network has discovered the
# grid.
#
# ## Four equations, one class
#
# The paper writes all of this down in four equations, and you've just computed the first:
#
# $$\mathbf{z}_0 = [\mathbf{x}_\text{class};\ \mathbf{x}_p^1\mathbf{E};\ \dots;\ \mathbf{x}_p^N\mathbf{E}] + \mathbf{E}_{pos} \tag{1}$$
#
# Here $\mathbf{z}_0$ is what the first block gets. Inside the brackets are its rows, and a
# semicolon begins a new one: the class token $\mathbf{x}_\text{class}$, then each of the $N$
# flat patches $\mathbf{x}_p^i$ ($p$ for patch), times the matrix $\mathbf{E}$ from chapter 1.
# The table $\mathbf{E}_{pos}$ is added to all of them. ($N$ and the width $D$ are `n` and `d`
# in our code.)
#
# Here are all four, box by box, with their code.

# %% tags=["hide-input"]
figures.show(*drawings.equations())


def show_answers(model, photographs):
    """Photographs (b, 3, 224, 224), or one's file, and three names each."""
    if not torch.is_tensor(photographs):
        photographs = vitedu.preprocess(trained, photographs)
    best = model(photographs.double()).softmax(dim=-1).detach().topk(3)
    named = [
        [(trained.class_names[i], p) for i, p in zip(*row, strict=True)]
        for row in zip(best.indices, best.values.tolist(), strict=True)
    ]
    figures.show(*drawings.answers(photographs.float() / 2 + 0.5, named))


# %% [markdown]
# Equations (2) and (3) are the block of [chapter 3](03_encoder.ipynb), with its multi-head
# attention (MSA). The index ℓ counts the blocks, and the prime marks the tokens between a
# block's attention and its MLP. In equation (4), $\mathbf{y} = \mathrm{LN}(\mathbf{z}_L^0)$, the
# $L$ means after the last block, and the 0 means row 0, the class token.
#
# Now write it as a class. With its defaults, it's ViT-Ti/16. The parts that you wrote before
# come from `vitedu.plain`, and so does `initialise`, which gives every weight its [first
# value](#Initial-values-and-a-trap). It fills the matrices and the table of positions with
# random numbers, while the class token and the head start at zero.

# %%
from vitedu.plain import EncoderBlock, PatchEmbedding, initialise


# %% tags=["teaches"]
class ViT(nn.Module):
    """Equations (1) to (4): images (b, c, h, w) -> logits (b, classes)."""

    def __init__(
        self,
        image_size=224,
        patch_size=16,
        in_channels=3,
        num_classes=1000,
        embed_dim=192,  # D
        depth=12,  # L
        num_heads=3,
        mlp_dim=768,
    ):
        super().__init__()
        n, d = (image_size // patch_size) ** 2, embed_dim
        self.patch_embed = PatchEmbedding(patch_size, in_channels, d)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, d))
        self.pos_embed = nn.Parameter(torch.zeros(1, n + 1, d))
        blocks = [EncoderBlock(d, num_heads, mlp_dim) for _ in range(depth)]
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(d, eps=1e-6)
        self.head = nn.Linear(d, num_classes)
        initialise(self)

    def forward(self, images):
        x = self.patch_embed(images)  # (b, n, d)
        cls_token = self.cls_token.expand(len(x), -1, -1)  # (b, 1, d)
        x = torch.cat([cls_token, x], dim=1) + self.pos_embed  # equation (1)
        x = self.blocks(x)  # (b, n + 1, d), equations (2) and (3)
        y = self.norm(x)[:, 0]  # (b, d), equation (4)
        return self.head(y)


# %% [markdown]
# So far, its weights are random. Pour in the file, and ask again:

# %%
model = ViT().double()
print(model.load_state_dict(weights, strict=True))
say(model(images))

# %% [markdown]
# The three names are back, to the percent. But this time they come from *your* ViT.
#
# ## How do you know?
#
# Three right names are a good sign. But as you'll see, a network that's slightly wrong can still
# name a cat. Here are three tests that don't need names.
#
# ### A strict load
#
# You've just used the first test: with `strict=True`, PyTorch compares the name and the shape of
# every array with the file. But suppose you'd given your ViT four heads by mistake, although the
# trained network has three:

# %% tags=["failure"]
wrong = ViT(num_heads=4).double()
print(wrong.load_state_dict(weights, strict=True))
say(wrong(images))

# %% [markdown]
# "All keys matched successfully." But Hopper is now a bow tie, and the coffee is red wine.
#
# The number of heads appears in no shape: with three heads or with four, q, k and v are 192
# wide. And a part that has no weights, such as a GELU or a residual addition, isn't in the file
# at all.
#
# ### The first loss
#
# In a new network, the head is [all zeros](#A-head-of-zeros). **Show it our three
# photographs, with any labels you like. What's the loss?**

# %%
import math

fresh = ViT().double()
labels = torch.tensor([1, 20, 300])  # any three
loss = F.cross_entropy(fresh(images), labels)
print(f"loss {loss:.4f}, ln 1000 = {math.log(1000):.4f}")

# %% [markdown]
# All logits are zero, so every class gets the probability 1/1000, and the loss is $\ln 1000$,
# whatever you show it. If you get something else, look at the head.
#
# ### Somebody else's code
#
# The third test compares your logits with those of
# [timm](https://github.com/huggingface/pytorch-image-models), a widely used library whose ViT
# (here `TimmViT`) can load the authors' own weights. Correct programs agree on *any* weights, so
# we give both networks the same random ones.

# %%
_ = torch.manual_seed(0)
ours, theirs = ViT().double(), TimmViT(embed_dim=192, num_heads=3).double()
for weight in ours.parameters():
    nn.init.normal_(weight, std=0.2)
theirs.load_state_dict(ours.state_dict(), strict=True)
logits, reference = ours(images), theirs(images)

# %% tags=["hide-input"]
size, difference = reference.abs().max(), (logits - reference).abs().max()
print(f"largest logit {size:.1f}")
small = bool(difference < 1e-10 * size)
print("largest difference / largest logit below 1e-10:", small)
assert reference.std() > 0.1 and difference < 1e-10 * size
assert (model(images) - answer(x + trained.pos_embed)).abs().max() < 1e-8
assert (model(images) - trained(images)).abs().max() < 1e-8


def load(model, weights=weights):
    try:
        model.load_state_dict(weights, strict=True)
    except RuntimeError:
        return True, "it doesn't fit"
    return False, "all keys matched"


def other_code(model):
    refuses, words = load(model, ours.state_dict())
    if refuses:
        return True, words
    off = ((model(images) - reference).abs().max() / size).item()
    return off > 1e-10, f"off by {off:.0%}" if off > 1e-10 else "equal"


# %% [markdown]
# Except for rounding, the two programs agree on a thousand logits for each photograph.
#
# ### Find the bug
#
# Now it's your turn. Here's the `forward` of another `ViT`; everything else is as in yours. This
# ViT loads the file, and before any training it has the right first loss. But its logits aren't
# timm's.


# %%
class Suspect(ViT):
    def forward(self, images):
        x = self.patch_embed(images)
        cls_token = self.cls_token.expand(len(x), -1, -1)
        x = torch.cat([x, cls_token], dim=1) + self.pos_embed
        x = self.blocks(x)
        y = self.norm(x)[:, 0]
        return self.head(y)


# %% [markdown] tags=["predict"]
# **Which line is wrong?**
#
# * the one with `expand`
# * the one with `torch.cat`
# * the one with `norm`
# * the one with `head`

# %%
suspect = Suspect().double()
suspect.load_state_dict(weights, strict=True)
say(suspect(images))

# %% [markdown]
# The one with `torch.cat`: it puts the class token at the end, after the patches. Then the
# answer is read from the first patch, and every token gets a position that isn't its own.
#
# All three answers suffer, but only the coil is plainly wrong: a tabby is a cat, too. When you
# test with photographs that you know, don't stop at one.
#
# ### Six bugs, three tests
#
# Each of these six networks has one bug, and each runs without an error. You've just found the
# fifth:
#
# * *random head:* it should start at zero
# * *no last norm:* the head reads row 0 just as the blocks leave it
# * *four heads:* the trained network has three
# * *ReLU, not GELU:* in all MLPs
# * *class token last:* it comes after the patches, but row 0 is still read
# * *tanh on logits:* a tanh comes after the head

# %% tags=["hide-cell"]
from vitedu.plain import MLP


class TanhLast(ViT):
    def forward(self, images):
        return super().forward(images).tanh()


class WithReLU(MLP):
    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))


bugs = {
    "random head": ViT(),
    "no last norm": ViT(),
    "four heads": ViT(num_heads=4),
    "ReLU, not GELU": ViT(),
    "class token last": Suspect(),
    "tanh on logits": TanhLast(),
}
_ = nn.init.xavier_uniform_(bugs["random head"].head.weight)
bugs["no last norm"].norm = nn.Identity()
for block in bugs["ReLU, not GELU"].blocks:
    block.mlp = WithReLU(192, 768)


# %% [markdown] tags=["predict"]
# You have three tests: the strict load, the first loss, and the comparison with timm ("other
# code"). **Which two tests catch all six bugs?**
#
# * load and first loss
# * load and other code
# * first loss and other code


# %% tags=["hide-input"]
def first_loss(model):
    loss = F.cross_entropy(model(images), labels)
    return abs(loss - math.log(1000)) > 1e-6, f"{loss:.4f}"


TESTS = {"load": load, "first loss": first_loss, "other code": other_code}


@torch.no_grad()
def hunt(bug, test):
    is_alarm, words = TESTS[test](copy.deepcopy(bugs[bug]).double())
    return f"{'ALARM' if is_alarm else 'silent'}: {words}"


seen = {bug: {test: hunt(bug, test) for test in TESTS} for bug in bugs}
print(f"{'':18}" + "".join(f"{test:12}" for test in TESTS).rstrip())
for bug, said in seen.items():
    short = (each.split(":")[0] for each in said.values())
    print(f"{bug:18}" + "".join(f"{each:12}" for each in short).rstrip())

# %% [markdown]
# First loss and other code. The last four bugs change no weight's name or shape, and they leave
# the first loss at $\ln 1000$, so only the comparison with timm notices them. But that
# comparison begins by giving both networks new weights, so a random head is overwritten before
# it can do any harm. The strict load finds nothing but the missing norm.
#
# The tanh looks harmless, because the largest logit stays the largest. But it puts [a floor
# under the loss](#A-tanh-after-the-head), which can then never get close to zero, even if every
# answer is right.
#
# ## What's in the photograph?
#
# What were your guesses for the four photographs? The first three are from
# [TrashNet](https://github.com/garythung/trashnet), a collection of photographed rubbish. In the
# code, the four are called `new`, and `show_answers` asks your `model` for three names each:

# %%
show_answers(model, new[:3])

# %% [markdown]
# A plastic bag, half a water bottle, a wine bottle: three out of three, though we did pick them.
# Of the bag you see only folds and a seal, but your ViT is 99% sure.
#
# Nobody picked the next one: it's simply the first photograph in the folder.

# %%
show_answers(model, min(rubbish.rglob("*.jpg")))

# %% [markdown]
# Wrong, but a piece of a cardboard box, white, folded and printed, does look like an envelope.
# And *carton*, the right word, comes second.

# %% [markdown] tags=["predict"]
# The last of the four at the top is Eileen Collins, the first woman to command a Space
# Shuttle. **What will your ViT call the astronaut?**
#
# * astronaut
# * space shuttle
# * football helmet
# * bobsled

# %%
show_answers(model, new[3:])

# %% [markdown]
# It says *bobsled*, and the next two names are helmets. The crew of a bobsled wears helmets,
# too, so is the helmet to blame? Put a grey box over it and, to compare, one of the same size
# over the shuttle.

# %%
covered = new[[3, 3]]  # two copies
covered[0, :, 144:, 112:] = 0  # grey, over the helmet
covered[1, :, :140, 160:] = 0  # over the shuttle
show_answers(model, covered)

# %% [markdown]
# Without the helmet, *bobsled* drops to 9%, and both helmets are gone from the list. Without the
# shuttle, they stay. So the helmet does play a part. (And the suit? Move the box.) But where's
# *astronaut*, and where's the shuttle?

# %% tags=["hide-input"]
names = trained.class_names
chances = model(new[3:].double()).softmax(dim=-1)[0]
shuttle = chances[names.index("space shuttle")]
place = int((chances > shuttle).sum()) + 1
print("classes called astronaut:", sum("astronaut" in each for each in names))
print(f"space shuttle: {shuttle:.1%}, number {place} of {len(names)}")

# %% [markdown]
# ImageNet has no class for an astronaut, and a softmax has to hand out all of its 100% to the
# names that it has. *Space shuttle* is such a name, but even with a shuttle right behind the
# astronaut, it only comes twelfth.
#
# <div class="try" data-part="look" data-photo="astronaut" data-view="answer"></div>
#
# What *should* a network say here? That's [the last exercise](#Exercises), and an open problem.
#
# From an array of pixels to a thousand logits, every step is your own code now. So here comes
# **your photograph**. In the cell below, put the path of your file in place of ours. (In Colab,
# drop it into the folder first.) Or [try it](try.md) in the browser, without code.

# %%
PHOTO = rubbish / "trash/trash81.jpg"  # or "dog.jpg"
show_answers(model, PHOTO)

# %% [markdown]
# We picked ours: a pale, crumpled scrap, and we'd have said *paper towel* as well. What does
# your ViT call yours?
#
# ## What to take with you
#
# 1. One class token and one table of positions, the same for all images, turn a stack of
#    blocks into a Vision Transformer. A norm, row 0 and a linear layer give the answer.
# 2. Without positions a photograph is a bag of patches, whatever the weights are.
# 3. "All keys matched" proves little. Look at the first loss, compare your logits with
#    somebody else's code, and try several photographs that you know.
#
# **Five questions** ([answers](#Solutions))
#
# 1. Why does the class token have shape (1, 1, d) and not (b, 1, d)?
# 2. Which operation lets the network tell two identical patches in different places apart?
# 3. Your loss soon stops falling, far from zero, though most answers are right. What do you
#    look for?
# 4. What's the first loss of a new network with 1,000 classes, whatever you show it, and why?
# 5. `load_state_dict` says that all keys matched. Name a mistake that can still be there.
#
# All the cleverness in this chapter was borrowed: [5.7 million](#Counting-with-a-pencil)
# numbers came out of a file. You know where each of them goes, but not how anybody found
# them. Can you find your own? [Chapter 5](05_mnist.ipynb) starts with 7,850 that have learned
# nothing yet.
#
# ## Exercises
#
# ✎ Write your `ViT` again in an empty notebook, with the parts of the last three
# chapters. After `from vitedu import check`, `check.vit(ViT)` tells you how closely yours
# agrees with ours, or what's likely to be wrong with it; so does
# `check.initialise(initialise)`.
#
# **1.** ★ The same network, but with patches of 32×32 pixels. How many rows does the table
# of positions have? Does the network have more weights or fewer? If you load our file
# into it strictly, which arrays will PyTorch complain about?
#
# **2.** ★ By mistake, somebody's blocks return their input unchanged. The network runs and
# trains without an error. What accuracy does it reach on ten equally frequent classes,
# and why? Would it be the same if the answer were read from the mean of the patches?
#
# **3.** ★ What is the floor of the loss [with a tanh on the
# logits](#A-tanh-after-the-head) for two classes? For a thousand? How sure can such a network
# ever be of one class in a thousand?
#
# **4.** ★★ Leave the patches where they are, and add the shuffled `table`. Does `say` print
# the names of the shuffled patches, those of the photographs, or others? For which order of the
# patches would the normal table give the same logits?
#
# **5.** ★★ In `answer`, replace row 0 by the mean of rows 1 to 196. Before you run it with
# positions: will the network be as sure as before, much less sure, or talk nonsense? Why?
#
# **6.** ★★ `hunt("four heads", "load")` runs one test on one bug and tells you what it found.
# Add two bugs of your own to the six in `bugs`, and predict what each test will say. For
# example: q, k and v have no biases; the residual additions are forgotten. Can you find a bug
# that all three tests miss?
#
# **7.** ★★★ What should a network say about the astronaut? A simple idea is a threshold: if
# the largest probability is below it, answer "I don't know". Look for one that keeps
# Hopper, cat and coffee but rejects the astronaut, a rocket (`photo("rocket")`), a
# shuffled Hopper and pure noise:
# `say(model(2 * torch.rand(1, 3, 224, 224).double() - 1), ["noise"])`. Does it exist? Would you
# rely on it? What would you try instead?
#
# ## Second reading
#
# ### Whose token is it?
#
# In a batch, every image has its own patches, but all images share the class token and the
# table of positions. Here's a batch of three small images:

# %% tags=["hide-input"]
figures.show(*drawings.tokens())

# %% [markdown]
# The class token has a 1 in front, and it's tempting to write the batch size there:
# `nn.Parameter(torch.zeros(b, 1, d))`. You'd save the `expand`, and it all runs, at least
# until a smaller batch comes along. Its rows all start at zero, but each gets gradients
# only from its own place in the batch, so they drift apart. Here are three that differ, drawn
# at random, and the same photograph three times.

# %% tags=["failure"]
_ = torch.manual_seed(0)
token = nn.Parameter(torch.randn(3, 1, 192))  # the mistake: a batch of 3
rows = torch.cat([token, patches[[0, 0, 0]]], dim=1)  # Hopper, three times
say(answer(rows + trained.pos_embed), ("first", "second", "third"))


# %% [markdown]
# The names are wrong because the tokens are random. What matters: same pixels, same
# weights, and three different answers, depending on Hopper's place in the batch.
#
# > **Remember.** What is learned belongs to the model, never to the batch. A batch size in
# > the shape of a parameter is a bug.
#
# ### Initial values and a trap
#
# The paper doesn't say how its weights begin, but the authors' code does:
#
# | weights | first values |
# |---|---|
# | $\mathbf{E}$, the patch embedding | random, variance 1 / inputs (LeCun) |
# | q, k and v, each by itself | random, variance 2 / (inputs + outputs) (Xavier) |
# | output of attention, both layers of the MLP | random, likewise |
# | positions | random, standard deviation 0.02 |
# | biases of the MLP | random, standard deviation 0.000001 |
# | norms | scale 1, bias 0, as PyTorch does anyway |
# | class token, head, all other biases | 0 |
#
# A sum of $m$ independent products has $m$ times the variance of one product. If the weights
# of a layer with $m$ inputs have the variance $1/m$, the sum is about as large as its inputs:
# that's LeCun's rule. ($m$ is also called the *fan-in*.) Going backward, gradients are
# summed over the *outputs*, which asks for 1 / outputs instead. [Glorot and Bengio
# 2010](https://proceedings.mlr.press/v9/glorot10a.html) settle for the compromise 2 /
# (inputs + outputs), drawn uniformly between $\pm\sqrt{6 / (\text{inputs} +
# \text{outputs})}$. PyTorch calls it Xavier, after the first author's first name. The
# patch embedding gets a normal distribution, cut off at two standard deviations. Cutting
# makes it narrower, so `initialise` first widens it by 1 / 0.8796.


# %% tags=["teaches"]
@torch.no_grad()
def initialise(model):
    """Give every weight of a ViT its first value, as the authors' code does."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d):
            # LeCun: variance 1 / fan-in, after cutting at two deviations
            std = module.weight[0].numel() ** -0.5 / 0.87962566103423978
            nn.init.trunc_normal_(module.weight, 0, std, -2 * std, 2 * std)
        elif isinstance(module, nn.Linear) and name != "head":
            # q, k and v are three matrices, kept as one
            for matrix in module.weight.chunk(3 if "qkv" in name else 1):
                nn.init.xavier_uniform_(matrix)
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.normal_(module.bias, std=1e-6 if "mlp" in name else 0)
    nn.init.zeros_(model.head.weight)
    nn.init.normal_(model.pos_embed, std=0.02)


# %% [markdown]
# The trap is in `qkv`. We keep three $D \times D$ matrices as one, for speed. Ask
# Xavier's rule about that one matrix and it sees $3D$ outputs, so all weights come out
# too small, by a factor of $\sqrt{2}$. The scores of attention are products of q and k,
# so they shrink by a factor of 2. Here are both ways, for one head of 64:

# %%
D = 768
x_random = torch.randn(200, D)  # (t, d), as after a norm
drawn = [nn.init.xavier_uniform_(torch.empty(D, D)) for _ in range(3)]
each = torch.cat(drawn)  # (3 * D, D)
whole = nn.init.xavier_uniform_(torch.empty(3 * D, D))
for name, qkv in ("each by itself", each), ("all in one", whole):
    q, k = x_random @ qkv[:64].T, x_random @ qkv[D : D + 64].T
    scores = q @ k.T / math.sqrt(64)
    print(f"{name:15} scores of size {scores.std():.1f}")

# %% [markdown]
# Nobody notices, because everything runs and attention is only a bit flatter than the
# authors' at the start. That's why `initialise` cuts the matrix in three.
#
# ### A head of zeros
#
# In the first step only the head gets a gradient. On its way back to everything else the
# gradient is multiplied by the head's matrix, which is still all zeros. Take that step, and
# look again:

# %%
optimizer = torch.optim.SGD(fresh.parameters(), lr=0.1)
for step in 1, 2:
    optimizer.zero_grad()
    F.cross_entropy(fresh(images), labels).backward()
    moved = sum(bool(w.grad.any()) for w in fresh.parameters())
    print(f"step {step}: {moved} of {len(weights)} arrays have a gradient")
    optimizer.step()

# %% [markdown]
# A head of zeros is also how the paper begins to *fine-tune*, that is, to go on training
# a trained network on other data. It throws the old head away and attaches a new one of
# zeros. With a random head, the first gradients that reach the good weights would have
# been multiplied by random numbers. With zeros there are none, until the head has learned
# something.
#
# ### The mean instead of the class token
#
# You can drop the class token and average the patches. In appendix D.3 the authors report
# that it works equally well, but only with another learning rate: their first attempt,
# with the learning rate of the class token, looked far worse. Keep that in mind whenever
# two methods are compared at one fixed learning rate.
#
# ### Is it really the places?
#
# Without the table, the names were nonsense. But leaving it out does two things at once: no
# patch says where it is, and every token lacks something that the blocks have always found in
# it. To separate the two, add the same row to every patch, the mean of all 196:

# %%
same = trained.pos_embed.clone()
same[:, 1:] = same[:, 1:].mean(dim=1, keepdim=True)
say(answer(x + same))


# %% [markdown]
# Now all that's missing is the places, and the names are nonsense again.
#
# ### Four kinds of positions
#
# Table 8 of the paper compares, for ViT-B/16, no positions; the learned table we use
# (1-D); one table for rows and one for columns (2-D); and no table, but attention that
# knows how far apart two tokens are (relative). The measure is the accuracy on ImageNet
# of a linear classifier that learns from five images per class.
#
# | positions | none | 1-D | 2-D | relative |
# |---|---|---|---|---|
# | accuracy in % | 61.4 | 64.2 | 64.0 | 64.0 |
#
# So our network can't do without its positions, but one that was *trained* without them does
# surprisingly well. Having any is worth almost three points; which kind hardly matters.
# The authors' explanation: with 14×14 patches it's easy to learn the grid.
#
# ### Counting with a pencil
#
# Take a block of width $D$ whose MLP is $4D$ wide, as in all sizes of the paper. Attention
# has four matrices of $D \times D$: q, k, v and the output. The MLP has two of
# $D \times 4D$, together as large as eight of attention's. That makes $12D^2$. The rest is
# vectors: the biases ($4D$ in attention, $5D$ in the MLP) and two norms with $2D$ each, so
# a block has $12D^2 + 13D$ weights.
#
# ViT-B/16 has twelve blocks and $D = 768$. How many million weights does the whole network
# have? (Add the patch embedding, class token and positions, the last norm, and the head.)


# %%
def count(d, depth=12, n=196, patch=16 * 16 * 3, classes=1000):
    """Weights of a ViT of width d whose MLP is 4 * d wide."""
    embedding = (patch * d + d) + d + (n + 1) * d  # E, class token, positions
    block = 12 * d**2 + 13 * d
    return embedding + depth * block + 2 * d + (d * classes + classes)


for d, heads in (768, 12), (192, 3):
    network = ViT(embed_dim=d, num_heads=heads, mlp_dim=4 * d)
    found = sum(weight.numel() for weight in network.parameters())
    print(f"D = {d}: formula {count(d):,}, class {found:,}")

# %% tags=["nbval-check-output", "hide-cell"]
assert count(768) == 86_567_656 and count(192) == total == 5_717_416
larger = count(1024, 24), count(1024, 24, 7 * 7, 32 * 32 * 3)
assert [round(each / 1e6) for each in larger] == [304, 307]  # L/16, L/32
print("the second count is that of the file")

# %% [markdown]
# The second count is the one at the top of the page, and both are in [the authors' own
# tests](https://github.com/google-research/vision_transformer/blob/main/vit_jax/models_test.py).
# Table 1 of the paper prints 86, 307 and 632 million weights for ViT-B, L and H, and doesn't
# say for which patch size. For ViT-L/16 you should get 304 million: 307 come out only with
# patches of 32.
#
# If you have a file, the count tells you nothing new: where names and shapes match, so does
# the count. It's for when you have none.
#
# Where are all these weights?

# %% tags=["hide-input"]
WORDS = ("attn.", "mlp.", "patch_embed", "cls_token pos_embed", "head", "norm")


def by_group(model):
    """Number of weights in each group of the figure."""
    counts = dict.fromkeys(drawings.GROUPS, 0)
    for name, weight in model.named_parameters():
        for group, words in zip(counts, WORDS, strict=True):
            if any(word in name for word in words.split()):
                counts[group] += weight.numel()
                break
    return counts


with torch.device("meta"):
    base = ViT(embed_dim=768, num_heads=12, mlp_dim=3072)
    huge = ViT(
        patch_size=14, embed_dim=1280, depth=32, num_heads=16, mlp_dim=5120
    )
groups = {"Ti/16": ViT(), "B/16": base, "H/14": huge}
groups = {name: by_group(each) for name, each in groups.items()}
assert sum(groups["H/14"].values()) == 632_045_800
figures.show(*drawings.shares(groups))

# %% [markdown]
# In the blocks, two thirds of the weights are in the MLPs and one third in attention. Class
# token and positions are hardly visible. But if somebody's count of a *small* ViT is a little
# too low, look for these two first. They're parameters of the network itself, in no layer, so
# a count that goes from layer to layer walks past them.
#
# ### A tanh after the head
#
# Where would such a tanh come from? Perhaps from the paper. For pre-training, the first long
# training on a large collection, its head is linear, tanh, linear: there the tanh is *between*
# two layers, and the logits stay unbounded. After the head, it squeezes every logit into −1 to
# 1, and the largest stays the largest. What can be wrong with that?
#
# Take ten classes, say the handwritten digits, and a network that gets all of them right, as
# clearly as a tanh allows: logit 1 for the true class, −1 for the nine others.

# %%
perfect = 2 * torch.eye(10) - 1  # row i: 1 for class i, -1 for the others
loss = F.cross_entropy(perfect, torch.arange(10))
floor = torch.log(1 + 9 * torch.exp(torch.tensor(-2.0)))
print(f"loss {loss:.4f}, and by formula {floor:.4f}")

# %% [markdown]
# Every answer is right, and the loss is stuck at 0.8. The softmax gives the true class $e
# / (e + 9e^{-1})$, which is only 45%. Minus the logarithm of that is $\ln(1 + 9e^{-2})$,
# and it can't get any lower.
#
# There's no error and no warning. You'd see a network that learns and a loss that won't come
# down, and you'd start tuning the learning rate. Here's one that was trained with such a
# tanh, beside one without, for ten epochs on the 2,500 digits of chapter 1. The loss is that
# of the digits they learn from.

# %% tags=["hide-input", "failure", "nbval-ignore-output"]
from vitedu.data import load_dataset
from vitedu.plain import accuracy, train

data = load_dataset("digits")
digits, unseen = data.train, data.test
pixels = digits.images / 127.5 - 1  # (2500, 1, 28, 28)
sizes = {"embed_dim": 32, "depth": 2, "num_heads": 4, "mlp_dim": 64}
ends = []  # the mean loss of the last 40 batches
for name, last in ("without", nn.Identity()), ("with tanh", nn.Tanh()):
    _ = torch.manual_seed(0)
    small = ViT(28, 7, in_channels=1, num_classes=10, **sizes)
    small.head = nn.Sequential(small.head, last)
    losses = train(small, pixels, digits.labels, epochs=10, lr=0.005)
    right = accuracy(small, unseen.images / 127.5 - 1, unseen.labels)
    ends.append(losses[-40:].mean().item())
    print(f"{name:9}  loss in the end {ends[-1]:.2f},", end=" ")
    print(f"{right:.0%} of {len(unseen.labels)} unseen digits")

# %% tags=["nbval-check-output", "hide-cell"]
assert losses.min() > floor - 1e-6 and ends[1] > floor
assert ends[0] < 0.4 < floor
assert abs(floor - 0.7966) < 1e-4
print("with tanh no batch gets below the floor; without it they do")

# %% [markdown]
# The loss stays above its floor, as it must. The accuracy is eight points lower, but that's a
# single pair of runs on few digits, so don't rely on the eight.
#
# > **Remember.** Hand the cross-entropy raw scores. Squeeze them with a tanh, a sigmoid or a
# > softmax, and the loss gets a floor that no amount of training can break through.
#
# ### Another image size
#
# The table of positions has a fixed number of rows, so a network for 384×384 pixels can't
# take the one for 224. It's the only array that doesn't fit.

# %% tags=["failure", "raises-exception"]
ViT(image_size=384).load_state_dict(weights, strict=True)

# %% [markdown]
# PyTorch refuses, and does you a favour. Filling the table up with new rows would load,
# and would be wrong: token 15 begins the second line of a 14×14 grid, but in a 24×24 grid
# it's in the middle of the first. The paper treats the table as a 14×14 picture and
# enlarges it (section 3.2). [Chapter 10](10_resolution.ipynb) does that.
#
# ## Where this is in the paper
#
# Equations (1) to (4) and Figure 1 are section 3.1 of [Dosovitskiy et al.
# 2021](https://arxiv.org/abs/2010.11929). The sizes are Table 1. The head and its
# replacement are in sections 3.1 and 3.2 and appendix B.1.1. Appendix D.3 compares class
# token and mean, D.4 the kinds of positions. Initial values are in no table; ours come
# from the authors' code.
#
# ### What differs
#
# * The equations have no biases; the authors' code has them in every dense layer, and so
#   do we.
# * We use the exact GELU, as timm does. The authors' code uses an approximation that
#   differs by less than 0.0005.
# * Our head has no hidden layer, and we leave out dropout.
# * ViT-Ti isn't in the paper. It comes from
#   [Steiner et al. 2022](https://arxiv.org/abs/2106.10270), some of the same authors. All
#   the evidence says that our file holds their weights, trained on the 14 million
#   photographs of ImageNet-21k and then on ImageNet, but the file itself doesn't say so.
#
# ## Three readings
#
# * [Dosovitskiy et al. 2021](https://arxiv.org/abs/2010.11929), section 3.1 and appendix
#   D.3: two pages that you've now built, and a wrong turn that the authors report
#   themselves.
# * [Glorot and Bengio 2010](https://proceedings.mlr.press/v9/glorot10a.html) derive
#   Xavier's rule. As you read, ask what a residual addition and a norm do to the argument.
# * [Beyer et al. 2022](https://arxiv.org/abs/2205.01580) disagree. They train ViT-S/16 on
#   ImageNet alone, and the mean beats the class token by up to 1.8 points, fixed sine-cosine
#   positions beat learned ones by up to 1.5. In this chapter's paper neither mattered. Is it
#   the data, the width or the learning rate?
#
# ## Solutions
#
# <details><summary>Five questions</summary>
#
# 1. It's learned, so it belongs to the model. With $b$ rows, each place in the batch would get
#    a class token of its own, and the answer would depend on the place.
# 2. The addition of the position embeddings. Nothing else knows where a patch was.
# 3. A tanh on the logits: with ten classes, the loss then can't fall below 0.8. A sigmoid or
#    a softmax before the cross-entropy is the same kind of mistake.
# 4. $\ln 1000$: the head starts out as zeros, so all logits are zero, and each class gets the
#    probability 1/1000.
# 5. A wrong number of heads, a ReLU in place of the GELU, row 0 read although the class token
#    is last: anything that changes no weight's name or shape.
#
# </details>
#
# <details><summary>Solution 1</summary>
#
# 224 / 32 = 7, so there are 7 · 7 + 1 = 50 rows, which is 147 fewer than 197. Each has 192
# numbers, so the table loses 28,224 weights. But a patch now has four times as many
# pixels, and $\mathbf{E}$ grows by 442,368 weights. Fewer tokens, more weights. The
# strict load complains about `pos_embed` and `patch_embed.proj.weight`.
#
# </details>
#
# <details><summary>Solution 2</summary>
#
# One in ten. Row 0 is the same learned vector for every image, and without attention
# nothing ever brings the patches to it, so the logits can't depend on the image. The mean
# of the patches does see them, each on its own, so it would do better than chance.
#
# </details>
#
# <details><summary>Solution 3</summary>
#
# For $K$ classes it's $\ln(1 + (K - 1)e^{-2})$, and the largest possible probability is
# $1 / (1 + (K - 1)e^{-2})$. The next cell computes both. One class in a thousand never
# gets more than 0.7%. Put a tanh on the real network's logits, `say(answer(x +
# trained.pos_embed).tanh())`, and every answer drops to less than 1%: many
# logits are so large that their tanh is practically 1.
#
# </details>

# %% tags=["hide-cell"]
for classes in (2, 10, 1000):
    most = 1 / (1 + (classes - 1) * torch.exp(torch.tensor(-2.0)))
    print(f"{classes:5} classes: floor {-most.log():.4f}, at most {most:.1%}")

# %% [markdown]
# <details><summary>Solution 4</summary>
#
# Others: an academic gown, a barn spider, a candle. Patch $i$ now carries the row of patch
# `order[i]`. To the network that's a photograph whose patches have been put there, which is
# the shuffle backwards. So the order you're looking for is `order.argsort()`, as the next cell
# shows.
#
# </details>

# %% tags=["hide-cell"]
say(answer(x + table))
backwards = torch.cat([cls_token, patches[:, order.argsort()]], dim=1)
change = answer(backwards + trained.pos_embed) - answer(x + table)
print("largest change below 1e-12:", bool(change.abs().max() < 1e-12))

# %% [markdown]
# <details><summary>Solution 5</summary>
#
# Much less sure for two, nonsense for one. The next cell prints wool, tiger cat and cup,
# none of them with much confidence. Cat and coffee show that the rows of the
# patches know something about the picture, though the head was never trained to read
# them. Don't read too much into Hopper's wool: in solution 7, pure noise is wool as well.
#
# </details>

# %% tags=["hide-cell"]
y = trained.norm(trained.blocks(x + trained.pos_embed))[:, 1:].mean(dim=1)
say(trained.head(y))

# %% [markdown]
# <details><summary>Solution 6</summary>
#
# Without these biases, 6,912 weights and twelve names are missing, so the strict load and
# the comparison go off. Residual additions have no weights, so only the comparison
# sees them. And what do all three miss? Anything outside of the network: pixels from 0 to 1
# instead of −1 to 1, red and blue exchanged, labels in another order. For that you need
# photographs that you know.
#
# </details>
#
# <details><summary>Solution 7</summary>
#
# The next cell prints the largest probabilities. Anything around 80% would do, because the
# shuffled Hopper (a *mortarboard*, says the network) is below the cat. (The rocket is an oil
# rig to it, which has towers and lamps at dusk, too.) But you chose it
# after seeing the answers, for seven pictures. Other ideas that
# people use: add a class for "none of these"; train one yes-or-no answer per class, so
# that all of them can say no; compare the vector $\mathbf{y}$ with those of pictures that
# the network has seen, and be suspicious of what is far from all of them.
#
# </details>

# %% tags=["hide-cell"]
noise = torch.rand(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
rocket = vitedu.preprocess(trained, photo("rocket"))
others = {
    "astronaut": model(new[3:].double()),
    "rocket": answer(
        torch.cat([cls_token[:1], trained.patch_embed(rocket)], 1)
        + trained.pos_embed
    ),
    "shuffled Hopper": answer(shuffled + trained.pos_embed)[:1],
    "noise": trained(2 * noise.double() - 1),
}
for name, logits in others.items():
    share, place = logits.softmax(dim=-1)[0].max(dim=-1)
    print(f"{name:16} {trained.class_names[place]:18} {share:4.0%}")
