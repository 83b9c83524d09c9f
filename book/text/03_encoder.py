# %% [markdown] tags=["links", "remove-cell"]
# [Open in Colab](COLAB) · [this page on the site](SITE) · about an hour · half a minute of computing on a laptop, no GPU needed

# %% tags=["setup", "remove-cell"]
import vitedu

# %% [markdown]
# # The encoder
#
# In [chapter 2](02_attention.ipynb) every patch took one look around. That isn't enough: to see a
# uniform, one patch has to notice the braid on the cap, another the face below it, and then
# something has to put the two together. That's why our network looks around twelve times, in twelve
# *blocks*: the *encoder*. By the end of this page you'll have written such a block, poured a real
# model's weights into it, and watched the word "uniform" form inside.

# %% tags=["nbval-ignore-output", "hide-input"]
import torch
from torch import nn

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)  # sixteen digits
torch.set_grad_enabled(False)  # nothing is trained before a later section
_ = torch.manual_seed(0)
print(f"seed 0, cpu, float64, torch {torch.__version__}")

# %% tags=["hide-cell"]
import numpy as np
import torch.nn.functional as F

from vitedu import figures
from vitedu.figures.chapters import encoder as drawings

square = vitedu.data.photo("hopper").crop((0, 20, 512, 532)).resize((224, 224))
picture = torch.tensor(np.array(square)).permute(2, 0, 1) / 255  # chapter 1's


def fresh(module):
    """`module` with new weights, drawn as the paper's code draws them."""
    for name, layer in module.named_modules():
        if isinstance(layer, nn.Linear):
            # q, k and v are three matrices, kept as one
            for matrix in layer.weight.chunk(3 if name.endswith("qkv") else 1):
                nn.init.xavier_uniform_(matrix)
            nn.init.zeros_(layer.bias)
    return module


# %% tags=["hide-input"]
CAP = 33
alone = vitedu.load("ViT-Ti/16").double().patch_embed(2 * picture[None] - 1)
figures.show(*drawings.likeness(picture, {"no layer": alone[0]}, CAP))

# %% [markdown]
# The framed patch is a piece of Grace Hopper's cap. On the map beside it, the brighter a patch is,
# the closer its vector's direction is to the framed patch's. (The scale is the cosine of the angle
# between the two.) Nobody has looked around yet, so a patch knows only its own pixels, and most of
# the jacket lights up along with the cap's dark band.
#
# Now let's look around, with attention layers and nothing else. We'll take 24 of them, because each
# of our twelve blocks will get two layers, and give them [random weights](#First-values).

# %%
from vitedu.plain import MultiHeadAttention

model = vitedu.load("ViT-Ti/16").double()
hopper = 2 * picture[None] - 1  # pixels from -1 to 1
tokens = model.patch_embed(hopper)  # (1, 196, 192)
layers = [fresh(MultiHeadAttention(192, 3)) for _ in range(24)]

# %% [markdown] tags=["predict"]
# Let's draw the map again after each layer. **What will you see after two layers?**
#
# * the cap
# * the light and dark areas of the photograph
# * nothing

# %% tags=["failure"]
z, bare = tokens, [tokens]
for layer in layers:
    z = layer(z)
    bare.append(z)

# %% tags=["hide-input"]
titles = ["no layer", "after 1 layer", "after 2 layers"]
streams = {title: each[0] for title, each in zip(titles, bare, strict=False)}
figures.show(*drawings.likeness(None, streams, CAP))


# %% [markdown]
# Fog. One layer still leaves a hint of the jacket. After two, the map is a single light grey.
#
# Could a later layer still use some faint difference? Subtract the average token from every
# token, and compare the size of what's left with the size of the tokens. That ratio is the
# *spread*: at 0, all 196 vectors are equal.


# %%
def size(z):
    """How large a typical number in z is (its root mean square)."""
    return z.square().mean().sqrt().item()


def spread(z):
    """How much the tokens (b, t, d) differ: 0 if all are equal."""
    return size(z - z.mean(dim=1, keepdim=True)) / size(z)


for passed in range(6):
    left = spread(bare[passed])
    told = f"{left:.1g}" if left > 1e-14 else "nothing but rounding errors"
    print(f"layers passed: {passed}   spread: {told}")

# %% [markdown]
# Our numbers have sixteen digits, and after four layers they're used up. The other twenty layers
# receive 196 copies of one vector. Hence the question of this chapter: **what do you have to put
# around attention so that you can stack it twelve times?**
#
# ## Why it turns to fog
#
# In an attention layer, each token shares out its attention: the shares are positive and sum to 1.
# What it takes home is therefore an *average* of values, and averages lie closer together than the
# things averaged.
#
# Try it with a pencil. Take three tokens, $(4, 0)$, $(0, 2)$ and $(2, 4)$. Each gives itself
# the share ½ and the other two ¼ each. The first becomes
#
# $$\tfrac12 (4, 0) + \tfrac14 (0, 2) + \tfrac14 (2, 4) = (2.5, 1.5).$$
#
# The mean of the three, $(2, 2)$, stays where it is. But the first token was 2 away from it in each
# coordinate, and now it's only ½ away: a quarter. The next layer leaves a quarter of the quarter.

# %% tags=["hide-input", "margin"]
mix = torch.full((3, 3), 0.25) + 0.25 * torch.eye(3)  # rows sum to 1
three = torch.tensor([[4.0, 0], [0, 2], [2, 4]])  # (t, d)
figures.show(*drawings.averages([three, mix @ three, mix @ mix @ three]))

# %% [markdown] tags=["predict"]
# In a network it goes faster and faster: the more alike tokens are, the more evenly they share their
# attention ([Dong et al. 2021](https://arxiv.org/abs/2103.03404)).
#
# ## Add, don't replace
#
# The cure is tiny. A layer shouldn't *replace* its input with its output. It should *add* the two:
#
# $$\mathbf{z} \leftarrow \mathbf{z} + f(\mathbf{z}),$$
#
# where $\mathbf{z}$ holds all tokens, one per row, and $f$ is the layer.
#
# Think of a page that goes from hand to hand. Everybody reads it and adds a note, and nobody erases
# anything. In a Transformer, that page is the *residual stream*. A layer that reads from it and
# adds to it is a *residual branch*, and the plus sign a *residual connection*
# ([He et al. 2016](https://arxiv.org/abs/1512.03385)).
#
# Take your pencil again and add to each token what it took home:
#
# | | first token | mean | how far apart | compared with the mean |
# |:---|:---|:---|:---|:---|
# | at the start | $(4, 0)$ | $(2, 2)$ | 2 | as large |
# | averaged | $(2.5, 1.5)$ | $(2, 2)$ | ½ | a quarter |
# | added | $(6.5, 1.5)$ | $(4, 4)$ | 2½ | five eighths |
#
# Adding loses nothing. But the mean has doubled, and compared with it, only five eighths of the
# difference are left. If every layer did that, you'd still end up in fog, only later.
#
# Here are the 24 layers again, each with a plus sign. **How large will the tokens be?**
#
# * about as before
# * 24 times as large
# * thousands of times as large

# %% tags=["hide-cell"]
from vitedu.plain import attention

ladder = {"no layers": tokens, "attention alone": z}


def compare(stacks):
    """Note how stacks of 24 layers end, and print the last three so far."""
    ladder.update(stacks)
    print(f"{'after 24 layers':20}{'size':>8}{'spread':>8}")
    for name, end in list(ladder.items())[-3:]:
        times = f"{float(f'{size(end) / size(tokens):.2g}'):,g}x"
        print(f"{name:20}{times:>8}{spread(end):8.0%}")


# %% tags=["hide-cell"]
def largest_shares(norm):
    """How much its favourite gets from a token, on average, layer by layer."""
    z, shares = tokens, []
    for layer in layers:
        q, k, v = (
            layer.qkv(norm(z)).view(1, 196, 3, 3, 64).permute(2, 0, 3, 1, 4)
        )
        _, attended = attention(q, k, v)  # (1, heads, t, t)
        shares.append(attended.amax(dim=-1).mean().item())
        z = z + layer(norm(z))
    return "   ".join(f"layer {n}: {shares[n - 1]:.0%}" for n in (1, 4, 9, 24))


# %%
z = tokens
for layer in layers:
    z = z + layer(z)
compare({"+ add": z})

# %% [markdown]
# The table gives the size of a typical number, compared with the start, and the spread. Look at
# the size!
#
# What all tokens have in common survives the averaging, and every plus sign adds it to the stream
# again. [24 layers](#First-values) make it thousands of times as large.
#
# ## Every token at one size
#
# Is that harmful? And why is the spread still 21%, when your pencil promised fog? Here's how much of
# its attention a patch gives to its favourite, on average:

# %% tags=["hide-input"]
print(largest_shares(lambda z: z))


# %% [markdown]
# Attention becomes all or nothing. Large tokens make large scores, and a softmax of large scores
# picks a single winner. That's what kept the fog away: a patch that copies one favourite no longer
# averages. As long as [the favourites differ](#First-values), the patches do.
#
# But a softmax like that hardly changes when its scores do (chapter 2), so queries and keys
# hardly learn.
#
# So let's hand every branch tokens of a standard size. For each token, subtract the mean of its
# numbers, then divide by their standard deviation.
#
# Take the token $(3, 1)$. Subtract its mean, 2, and you have $(1, -1)$. The standard deviation is 1,
# so that's the result. Make it ten times as large, $(30, 10)$, and you get the same: only the
# pattern is left.
#
# This is *layer normalisation*
# ([Ba et al. 2016](https://arxiv.org/abs/1607.06450)), LN for short. For a token
# $\mathbf{x}$ with $D$ numbers, mean $\mu$ and standard deviation $\sigma$, number $i$
# becomes
#
# $$\text{LN}(\mathbf{x})_i = \gamma_i\, \frac{x_i - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta_i.$$
#
# The scales $\gamma_i$ and the shifts $\beta_i$ are learned, and begin as ones and zeros. Without
# the small constant $\epsilon$, you'd divide by zero for tokens like $(4, 4)$. In PyTorch this is
# `nn.LayerNorm`.


# %%
def layer_norm(x, eps=1e-6):
    """LayerNorm before its scale and shift: (..., d) -> (..., d)."""
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x - mean).square().mean(dim=-1, keepdim=True)
    return (x - mean) / (variance + eps).sqrt()


layer_norm(torch.tensor([[3.0, 1], [30, 10], [4, 4]])).round(decimals=3)

# %% tags=["nbval-check-output", "remove-cell"]
x = 5 + 3 * torch.randn(2, 7, 192)
assert torch.allclose(layer_norm(x), nn.LayerNorm(192, eps=1e-6)(x))
print("the same as nn.LayerNorm")

# %% [markdown]
# Where do we put it? At the [entrance of each branch](#Norm-first-or-last), which then reads a
# normalised copy, while the stream itself stays as it is.

# %%
z = tokens
for layer in layers:
    z = z + layer(layer_norm(z))
compare({"+ norm": z})

# %% [markdown]
# Now a layer's output no longer grows with the stream, so 24 layers make the stream only [about five
# times](#First-values) as large. And 21% of 4.7 is about what we began with, 94% of 1: the
# differences are as large as ever. (That both stacks end at 21% is [chance](#First-values).)
#
# And a patch's favourite gets this much:

# %% tags=["hide-input"]
print(largest_shares(layer_norm))

# %% [markdown]
# Equal shares for all 196 would be half a percent. So even in these untrained layers no
# favourite takes over, and training can still choose whom to look at.
#
# It takes both: the plus sign keeps the differences, and the norm keeps attention from becoming all
# or nothing.
#
# ## Then think for yourself
#
# By now the cap's patch has heard about the braid above it and the face below. But attention only
# takes averages of values, and a matrix makes the values. That gathers evidence, but can hardly
# conclude "so this is a cap".
#
# Take the smallest conclusion there is: *these two numbers differ*. We want 1 for $(2, 1)$ and
# $(1, 2)$, and 0 for $(1, 1)$ and $(2, 2)$. No matrix can do that, with or without bias. The
# first two tokens add up to $(3, 3)$, and so do the last two. Their results would have to add up to
# the same as well, but $1 + 1$ isn't $0 + 0$.
#
# Now compute $x_1 - x_2$ and $x_2 - x_1$, set whatever is negative to zero (that's a ReLU), and add.
# Try it on all four: matrix, bend, matrix is all it takes.
#
# That's why the block gets a second branch, which works on each token alone: the MLP, or *multi-layer
# perceptron*.
#
# $$\text{MLP}(\mathbf{x}) = \text{GELU}(\mathbf{x} \mathbf{W}_1 + \mathbf{b}_1)\, \mathbf{W}_2 + \mathbf{b}_2 .$$
#
# The matrix $\mathbf{W}_1$ turns the token's $D$ numbers into more of them, in the paper $4D$, and
# $\mathbf{W}_2$ brings them back; $\mathbf{b}_1$ and $\mathbf{b}_2$ are biases. The bend is a
# [GELU](#GELU,-exact-or-not) ([Hendrycks and Gimpel 2016](https://arxiv.org/abs/1606.08415)), a
# ReLU with its corner rounded off.

# %% tags=["hide-input", "margin"]
figures.show(*drawings.activations())


# %% tags=["teaches"]
class MLP(nn.Module):
    """Two dense layers with a GELU between them: (b, t, d) -> (b, t, d)."""

    def __init__(self, embed_dim, mlp_dim):
        super().__init__()
        self.fc1 = nn.Linear(embed_dim, mlp_dim)
        self.fc2 = nn.Linear(mlp_dim, embed_dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


# %% [markdown]
# Who talks to whom now? Give each part six random tokens and wiggle one of them. Its column
# shows, in colour, which outputs move.

# %% tags=["hide-input"]
from torch.autograd.functional import jacobian

parts = {"norm": nn.LayerNorm(8), "attention": fresh(MultiHeadAttention(8, 2))}
parts["MLP"] = MLP(8, 32)
x = torch.randn(1, 6, 8)
touches = {}
for name, part in parts.items():
    slopes = jacobian(part, x)[0, :, :, 0]  # (t, d, t, d)
    touches[name] = slopes.square().sum(dim=(1, 3)).sqrt()  # (t, t)
figures.show(*drawings.influence(touches))

# %% [markdown]
# > **Remember.** Tokens talk to each other in attention and nowhere else. The norm and
# > the MLP handle each token alone.
#
# ## Two equations, two lines
#
# A block reads the stream through a norm, lets the tokens talk, and adds what comes out. Then it
# reads again, lets each token think, and adds. The paper's equations (2) and (3) say just that:

# %% tags=["hide-input"]
figures.show(*drawings.block())


# %% [markdown]
# Block number $\ell$ finds $\mathbf{z}_{\ell-1}$ in the stream and leaves $\mathbf{z}_\ell$ behind;
# $\mathbf{z}'_\ell$ is what's there halfway. MSA is chapter 2's multi-head attention (the S is for
# *self*).


# %% tags=["teaches"]
class EncoderBlock(nn.Module):
    """Equations (2) and (3): (b, t, d) -> (b, t, d)."""

    def __init__(self, embed_dim, num_heads, mlp_dim):
        super().__init__()
        self.norm1 = nn.LayerNorm(embed_dim, eps=1e-6)
        self.attn = MultiHeadAttention(embed_dim, num_heads)
        self.norm2 = nn.LayerNorm(embed_dim, eps=1e-6)
        self.mlp = MLP(embed_dim, mlp_dim)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))  # equation (2)
        return x + self.mlp(self.norm2(x))  # equation (3)


# %% [markdown]
# The output has the shape of the input, so you can stack as many as you like. Here's the whole
# network, drawn from the bottom up: your block is the dashed frame, and there are $L$ of them.
# **How many norms does a network of twelve blocks have: twelve, 24 or 25?**

# %% tags=["hide-input", "margin"]
figures.show(*figures.network("encoder"))

# %%
sum(isinstance(part, nn.LayerNorm) for part in model.modules())

# %% [markdown]
# Two in each block, and one after the last.
#
# ## Is it the real thing?
#
# Build twelve blocks, pour in the trained weights of ViT-Ti/16, the model from chapter 1, and put
# yours in the place of the originals.

# %%
mine = nn.Sequential(*[EncoderBlock(192, 3, 768) for _ in range(12)])
mine.load_state_dict(model.blocks.state_dict())

# %%
theirs = model(hopper)
model.blocks = mine
difference = (model(hopper) - theirs).abs().max()
print("the same 1,000 scores, to ten decimals:", bool(difference < 1e-10))


# %% [markdown]
# You've written the real thing. (PyTorch has a block, too, [with surprises](#Somebody-else's-block).)


# %% tags=["hide-cell"]
def embed(x):
    """Pixels to what block 1 reads: (1, 197, 192), the subject of chapter 4."""
    patches = model.patch_embed(x)
    return torch.cat([model.cls_token, patches], dim=1) + model.pos_embed


start = embed(hopper)

# %% [markdown] tags=["predict"]
# ## Take one part out
#
# What does each part do for this network? Take one out everywhere, and ask about Hopper, a cat and a
# cup of coffee. ("No norms" means all 25.)
#
# The model reads its answer from one extra token that belongs to no patch: *row 0*, the class token of
# the drawing (see [chapter 4](04_vit.ipynb)).
#
# **Leave out one of these parts, and the answer is bound to be the same for all three photographs, to
# the percent. Which one?**
#
# * the plus signs
# * the norms
# * attention
# * the MLPs

# %% tags=["hide-cell"]
from copy import deepcopy

images = {"Hopper": hopper}  # what the model reads: (1, 3, 224, 224)
for name in ("cat", "coffee"):
    images[name] = vitedu.preprocess(model, vitedu.data.photo(name))
shown = {name: (image[0] + 1) / 2 for name, image in images.items()}


def best(logits):
    """The likeliest class of (1, 1000), and its probability."""
    share, place = logits.softmax(dim=-1)[0].max(dim=-1)
    return model.class_names[place], share.item()


def verdicts(network):
    """What a network says about the three photographs: names, probabilities."""
    return [best(network.eval()(image)) for image in images.values()]


def ask(name, network=model):
    """The same in one line, in percent."""
    columns = (f"{f'{n} {100 * p:.0f}':20}" for n, p in verdicts(network))
    print(f"{name:15}{''.join(columns)}".rstrip())


# %% tags=["hide-cell"]
def without(part):
    """A copy of the model that lacks one part of every block."""
    network = deepcopy(model)
    for i, block in enumerate(network.blocks):
        steps = block.norm1, block.attn, block.norm2, block.mlp
        last = {"attention": block.attn.proj, "MLPs": block.mlp.fc2}
        if part == "plus signs":
            network.blocks[i] = nn.Sequential(*steps)
        elif part == "norms":
            block.norm1 = block.norm2 = network.norm = nn.Identity()
        else:  # a branch that adds zeros
            for weight in last[part].parameters():
                weight.zero_()
    return network


# %% tags=["failure"]
networks = {"whole": model}
for part in ("plus signs", "norms", "attention", "MLPs"):
    networks[f"no {part}"] = without(part)

# %% tags=["hide-input"]
given = {name: verdicts(network) for name, network in networks.items()}
figures.show(*drawings.parts(shown, given))


# %% [markdown]
# Attention. Without it row 0 never hears about any patch, so every photograph is the same
# jigsaw puzzle.
#
# The other three do look, and each goes wrong [in its own way](#How-much-does-a-block-write?):
#
# * Without **plus signs** it's fog again: all that's left of a photograph is a single vector. In
#   your code that's two forgotten `x +`, and no error tells you.
# * Without **norms** the stream grows far too large, and the network is sure of nonsense, such
#   as a slide rule in the cup.
# * Without **MLPs** row 0 still looks (the cat gets 13%, not 15%), but it draws the same conclusion
#   every time.
#
# <div class="try" data-part="parts"></div>
#
# ## Watch the answer form
#
# After twelve blocks the network says "military uniform". But when does it know?
#
# Normally, the last norm and a matrix called the *head* (not one of attention's) turn row 0 into
# 1,000 scores, one per class: the *logits*. But blocks only [add](#How-much-does-a-block-write?) to
# the stream. Row 0 is one running sum all the way, so you can hand it to the head after any block and
# see whether it makes sense. `stream` returns the stream after every block.


# %% tags=["hide-cell"]
def stream(x):
    """What the stream holds after 0, 1, ..., 12 blocks, each (1, 197, 192)."""
    z = [embed(x)]
    for block in mine:
        z.append(block(z[-1]))
    return z


# %%
def read(z):
    """The head's best guess from the stream (1, 197, 192) as it is now."""
    logits = model.head(model.norm(z)[:, 0])  # (1, 1000)
    return best(logits)


def guesses(image):
    """The guess after 0, 1, ..., 12 blocks."""
    return [read(z) for z in stream(image)]


# %% [markdown] tags=["predict"]
# **After which block will "military uniform" first come up?**
#
# * 3
# * 7
# * 11

# %% tags=["hide-input"]
said = {name: guesses(image) for name, image in images.items()}
figures.show(*drawings.answers(shown, said))

# %% tags=["nbval-check-output", "remove-cell"]
ends = [said[name][12][0] for name in images]
assert ends == ["military uniform", "Egyptian cat", "espresso"]
assert {said[name][0][0] for name in images} == {"crayfish"}
assert {said[name][2][0] for name in images} == {"barrel"}
assert max(share for line in said.values() for _, share in line[:9]) < 0.1
assert said["Hopper"][11][0] == "military uniform"
print("three crayfish first; a uniform, a cat and an espresso last")

# %% [markdown]
# Only after block 11, and then at once with 86%.
#
# Before the first block everything is a crayfish: row 0, a learned vector, hasn't looked at anything
# yet. At block 9 or 10 something close comes up, and soon the thing itself: a suit, then the uniform;
# a tiger cat, then the Egyptian cat; a cup, then the espresso.
#
# This trick is the *logit lens* ([nostalgebraist
# 2020](https://www.lesswrong.com/posts/AcKRB8wDpdaN6v6ru/interpreting-gpt-the-logit-lens); on ViTs,
# [Vilas et al. 2023](https://arxiv.org/abs/2310.18969)). Use it with care: the head was trained to
# read the finished stream, so behind a "hook" halfway there may be a uniform that it can't read yet.
#
# And a photograph of *yours*? Put your file's name in place of this rocket:

# %%
yours = vitedu.data.photo("rocket")  # or yours = "my photo.jpg"

# %% tags=["hide-input"]
image = vitedu.preprocess(model, yours)
pictures = {"yours": (image[0] + 1) / 2}
figures.show(*drawings.answers(pictures, {"yours": guesses(image)}))

# %% [markdown]
# Poles, mostly, and then a drilling platform. Look at the steel towers on either side!
#
# ## The fog lifts
#
# Here's the map of Hopper's cap for the last time: above, what you began with and the fog;
# below, your trained blocks, with what the head says.

# %% tags=["hide-input"]
streams = {"no layer": tokens[0], "attention alone": bare[-1][0]}
for n in (4, 8, 12):
    name = f"after block {n}:\n{said['Hopper'][n][0]}"
    streams[name] = stream(hopper)[n][0]
figures.show(*drawings.likeness(picture, streams, CAP))


# %% [markdown]
# Watch the jacket. With no layer, most of it shone like the cap's band. After block 4 it has dimmed,
# and after block 8 it has nearly gone out. What shines now is the cap: the band most of all, badge
# and top more faintly. Nobody ever marked a cap for this network; it only learned to name
# photographs.
#
# Four blocks later the head says what you'd say. On the map, jacket, flag and sky have come back a
# little, but the band outshines them all. (The black corners have [huge
# vectors](#How-much-does-a-block-write?) that point away from the cap's.)
#
# Remember how this page began? Something had to put cap and face together. Your blocks take any
# number of tokens, so give them row 0 with the cap's patches alone, then with the face's, then with
# both.


# %% tags=["hide-cell"]
def area(rows, columns):
    """The numbers of the patches in some rows and columns, of 14 each."""
    return [14 * row + column for row in rows for column in columns]


def only(patches):
    """The photograph (3, 224, 224), in which all other patches are grey."""
    mask = torch.zeros(14 * 14)
    mask[patches] = 1
    mask = mask.view(14, 1, 14, 1).expand(14, 16, 14, 16).reshape(224, 224)
    return picture * mask + 0.9 * (1 - mask)


# %%
cap = area(range(0, 4), range(4, 11))
face = area(range(4, 8), range(4, 10))
heard = {}
for name, kept in {"cap": cap, "face": face, "both": cap + face}.items():
    rows = [0, *(1 + patch for patch in kept)]
    heard[name] = read(mine(start[:, rows]))

# %% tags=["hide-input"]
views = {"cap": only(cap), "face": only(face), "both": only(cap + face)}
figures.show(*drawings.parts(views, {"your blocks": list(heard.values())}))

# %% tags=["nbval-check-output", "remove-cell"]
names = [name for name, _ in heard.values()]
assert names == ["mask", "mask", "military uniform"]
assert heard["cap"][1] < 0.2 and heard["face"][1] < 0.2 < heard["both"][1]
print("cap and face are a uniform together, and neither is alone")

# %% [markdown]
# The cap alone might be a mask, and so might the face. Together they're a uniform, nearly as surely as
# in the whole photograph. (That's one photograph. Try the cap with the jacket, or with sky!)
#
# From fog to a uniform: two lines of code, twelve times over, and you wrote them.
#
# ## What to take with you
#
# 1. Attention averages, so attention alone makes all tokens equal. The plus sign keeps their
#    differences, and the norm keeps attention from becoming all or nothing.
# 2. Attention lets the tokens talk, and the MLP lets each of them think.
# 3. A block is two lines of code with four parts. Take one out of a trained network, and it talks
#    nonsense without any error.
#
# Can you answer these? ([Answers](#Solutions))
#
# 1. Why do tokens that only attend to each other end up equal, and why faster and faster?
# 2. With plus signs but no norms, what becomes of the stream, and of attention?
# 3. What does LN make of $(30, 10)$, and why does it need $\epsilon$?
# 4. Why is it always a jigsaw puzzle without attention?
#
# You can now turn 196 tokens into 196 better ones. But where does row 0 come from, and who tells
# the blocks where a patch was? **What's missing between twelve blocks and a name?** That's [chapter
# 4](04_vit.ipynb).
#
# ## Exercises
#
# ✎ Write `EncoderBlock` and what's in it again from memory. After `from vitedu import
# check`, `check.encoder_block(EncoderBlock)` tells you how closely yours agrees with
# ours, or what's likely to be wrong with it; so do `check.mlp(MLP)` and
# `check.layer_norm(layer_norm)`.
#
# **1.** ★ A LayerNorm in two dimensions has learned $\boldsymbol\gamma = (2, 1)$ and
# $\boldsymbol\beta = (0, 1)$. What does it make of $(3, 1)$, of $(1, 3)$ and of $(4, 4)$?
# Can any token come out as $(1, 1)$?
#
# **2.** ★ Count the weights of one block with $D = 192$ and an MLP of width 768: matrices,
# biases and norms. What share of them is the MLP's? Does the number of heads matter?
#
# **3.** ★ You set the last matrix and bias of both branches to zero, `attn.proj` and
# `mlp.fc2`. What does the block compute? Why might that be a sensible way to begin
# training?
#
# **4.** ★★ Somebody writes `nn.LayerNorm((197, 192))`, so that mean and deviation are taken
# over all tokens of a picture. How does the norm's panel in the drawing of who talks to
# whom change? What happens when you feed the network a larger picture?
#
# **5.** ★★ Leave out one of the twelve real blocks, so that the stream flows past it. For
# how many of the twelve does "military uniform" still come first? Predict first, then try
# it: all you need is `nn.Sequential(*mine[:i], *mine[i + 1 :])` in the place of
# `model.blocks`.
#
# **6.** ★★ Somebody takes the GELU out of every MLP, so that it computes
# $(\mathbf{x} \mathbf{W}_1 + \mathbf{b}_1) \mathbf{W}_2 + \mathbf{b}_2$. Which single
# matrix and bias compute the same? What will the real model say about the three
# photographs then: what it says without any MLP, or something else?
#
# **7.** ★★★ Our fog came from layers with new weights. Take the twelve *trained* attention
# layers, `block.attn`, and run them alone, without stream, norm and MLP. Do they keep the
# patches apart? Predict, try it, and say what your result does and doesn't show.
#
# ## Second reading
#
# ### First values
#
# In a layer that turns $a$ numbers into $b$, `fresh` draws each weight at random, evenly
# from the interval between $-\sqrt{6/(a+b)}$ and $\sqrt{6/(a+b)}$, and sets the biases to
# zero ([Glorot and Bengio 2010](https://proceedings.mlr.press/v9/glorot10a.html)). For
# $a = b$, the output is then about as large as the input, and in a random direction, which in
# 192 dimensions is nearly at a right angle to the stream.
#
# The pencil doubled the mean. Here the stream and what's added are like two sides of a square, so by
# Pythagoras a layer without norms makes the stream about $\sqrt2$ times as long, and 24 of them
# roughly $\sqrt2^{\,24} = 4096$ times. With norms each step is about as long as the start was: start
# and 24 steps, all at right angles, are $\sqrt{25} = 5$ times as long. The place of the norm and the
# first values have to be chosen together. [Chapter 4](04_vit.ipynb) has the first value of every
# weight in the network.
#
# And the two spreads of 21%, with norms and without? Here they are for four other seeds. Then,
# for our own 24 layers without norms: how many patches are somebody's favourite, in each of the three
# heads, and what the spread would be if every patch gave equal shares to all.

# %% tags=["hide-input"]
with torch.random.fork_rng():
    for seed in range(1, 5):
        _ = torch.manual_seed(seed)
        added = normed = tokens
        for _ in range(24):
            layer = fresh(MultiHeadAttention(192, 3))
            added = added + layer(added)
            normed = normed + layer(layer_norm(normed))
        told = f"+ add {spread(added):.0%}, + norm {spread(normed):.0%}"
        print(f"seed {seed}: {told}")

z = equal = tokens
for n, layer in enumerate(layers, start=1):
    q, k, v = layer.qkv(z).view(1, 196, 3, 3, 64).permute(2, 0, 3, 1, 4)
    _, attended = attention(q, k, v)  # (1, heads, t, t)
    favourites = attended.argmax(dim=-1)[0]  # (heads, t)
    if n in (9, 24):
        counts = " ".join(f"{len(each.unique())}" for each in favourites)
        print(f"layer {n}, favourites in each head: {counts}")
    z = z + layer(z)
    value = layer.qkv.weight[-192:] @ equal.mean(dim=1)[0]
    equal = equal + layer.proj(value)
print(f"equal shares, 24 layers: spread {spread(equal):.1%}")

# %% [markdown]
# With norms the spread is nearly the same each time: the differences keep their size, and only what the
# tokens share grows.
#
# Without norms the spread depends on chance, so it's a coincidence that both are 21% on this page.
# But even 7% isn't the pencil's fog, and the last three lines tell you why. With equal shares, every layer would
# add the same vector to all tokens, and beside that the differences soon count for nothing. In fact,
# the ninth layer has two dozen favourites or more in each head, so what it adds to one patch differs
# from what it adds to another. (By the last layer the favourites are few, and the fog draws in after
# all.)
#
# ### Somebody else's block
#
# You don't have to write blocks, of course. PyTorch ships one as
# `nn.TransformerEncoderLayer`, and many tutorials use it. Once the names are translated (by
# `renamed`, in a hidden cell), your weights load without an error. What will it say?

# %% tags=["hide-cell"]
NAMES = {"attn.qkv.": "self_attn.in_proj_", "attn.proj": "self_attn.out_proj"}
NAMES |= {"mlp.fc1": "linear1", "mlp.fc2": "linear2"}


def renamed(block):
    """The weights of an EncoderBlock under the names of PyTorch's layer."""
    weights = {}
    for name, weight in block.state_dict().items():
        for ours, theirs in NAMES.items():
            name = name.replace(ours, theirs)
        weights[name] = weight
    return weights


# %% tags=["failure"]
def pytorch_blocks(**options):
    """Twelve of PyTorch's layers with your weights."""
    layers = [nn.TransformerEncoderLayer(192, 3, 768, **options) for _ in mine]
    for layer, block in zip(layers, mine, strict=True):
        layer.load_state_dict(renamed(block))
    return nn.Sequential(*layers)


model.blocks = pytorch_blocks()
ask("all defaults")

# %% [markdown]
# A cardoon is a relative of the artichoke. The network sees one everywhere, and no error
# tells you why: five of the layer's defaults don't fit.
#
# Let's set four of them right (`norm_first`, `activation`, `layer_norm_eps`, `batch_first`),
# and then spoil one at a time. **One of them makes the answer the same for every photograph,
# to the percent, and one changes nothing you'd notice. Which?**

# %%
settings = {  # what your weights need, and PyTorch's default
    "norm_first": (True, False),
    "activation": ("gelu", "relu"),
    "layer_norm_eps": (1e-6, 1e-5),
    "batch_first": (True, False),
}
right = {name: needed for name, (needed, _) in settings.items()}
model.blocks = pytorch_blocks(**right)
ask("all right")
for name, (_, default) in settings.items():
    model.blocks = pytorch_blocks(**{**right, name: default})
    ask(name)

# %% tags=["nbval-check-output", "hide-cell"]
layer = nn.TransformerEncoderLayer(192, 3, 768, **right).eval()
layer.load_state_dict(renamed(mine[0]))
z = torch.randn(2, 197, 192)
assert (layer(z) - mine[0](z)).abs().max() < 1e-11
model.blocks = mine
print("set right, PyTorch's layer equals your block")

# %% [markdown]
# * `norm_first=False` puts the norms in the stream. That's where the cardoon comes from, but
#   this network does look: its percentages differ.
# * `activation="relu"` is the nastiest: you might believe Hopper's academic
#   gown.
#   (The cat has become a mushroom.)
# * `layer_norm_eps=1e-5` changes next to nothing here. It would for a very small token:
#   $(0.002, 0)$ becomes $(0.71, -0.71)$ with your $\epsilon = 10^{-6}$, and
#   $(0.30, -0.30)$ with PyTorch's.
# * The fifth default, `dropout=0.1`, changes nothing either: it zeroes random numbers, but
#   only in training.
# * `batch_first=False` takes the first axis for the tokens and the second for the batch.
#   With one picture in the batch, each token attends to itself alone, so row 0 never hears
#   of any patch. It's the mistake of [chapter 2](02_attention.ipynb), and
#   IBM's [TabFormer](https://github.com/IBM/TabFormer/pull/14), a network for tables, had it, too.
#
# ### Norm first or last
#
# The first Transformer ([Vaswani et al. 2017](https://arxiv.org/abs/1706.03762)) put
# its norms in the stream, *after* the addition:
# $\mathbf{z} \leftarrow \text{LN}(\mathbf{z} + f(\mathbf{z}))$. That's called *post-norm*;
# ours is *pre-norm*. Let's train both with Adam on 32 handwritten digits, with 24 blocks, the
# same first weights and a learning rate of 0.001. Post-norm gets a second try at a tenth of
# that. **Which of the three will know the digits by heart after 20 steps?**

# %% tags=["hide-cell"]
from vitedu.data import load_dataset
from vitedu.plain import PatchEmbedding


class PostNormBlock(EncoderBlock):
    """The order of 2017: add first, then normalise the stream."""

    def forward(self, x):
        x = self.norm1(x + self.attn(x))
        return self.norm2(x + self.mlp(x))


ORDERS = {"pre-norm": EncoderBlock, "post-norm": PostNormBlock}
train = load_dataset("digits").train
digits = train.images[:32] / 127.5 - 1  # (32, 1, 28, 28)
labels = train.labels[:32]


# %% tags=["hide-cell"]
def network(kind):
    """Digits (b, c, h, w) to normalised tokens, and a head of ten classes."""
    _ = torch.manual_seed(0)
    blocks = [fresh(kind(64, 4, 256)) for _ in range(24)]
    norm = nn.LayerNorm(64, eps=1e-6)
    body = nn.Sequential(PatchEmbedding(7, 1, 64), *blocks, norm)
    return body.float(), fresh(nn.Linear(64, 10)).float()


@torch.enable_grad()
def learn(kind, lr, steps=21):
    """Losses over some steps of Adam on the same 32 digits."""
    body, head = network(kind)
    weights = [*body.parameters(), *head.parameters()]
    optimizer, losses = torch.optim.Adam(weights, lr=lr), []
    for _ in range(steps):
        x = body(digits.float()).mean(dim=1)
        loss = F.cross_entropy(head(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% tags=["hide-input", "nbval-ignore-output"]
runs = {name: learn(kind, 1e-3) for name, kind in ORDERS.items()}
runs["post-norm, a tenth of the rate"] = learn(PostNormBlock, 1e-4)
counts = labels.bincount(minlength=10) / len(labels)
constant = -(counts * counts.clamp_min(1e-9).log()).sum().item()
figures.show(*drawings.losses(runs, constant))

# %% tags=["nbval-check-output", "hide-cell"]
fast, stuck, slow = (losses[-1] for losses in runs.values())
assert fast < 0.5 * constant and slow < 0.75 * constant < 0.9 * constant < stuck
print("pre-norm learns; post-norm only with the smaller rate")

# %% [markdown]
# At the full rate the first steps are rough. Then pre-norm learns, and at a loss of 0.2 it nearly
# knows the digits by heart. At the same rate, post-norm falls to 2.2 and stays there to the
# end. That's the loss if you never look and only know how often each digit occurs. At a
# tenth of the rate it learns too, only more slowly. (That's one seed, and a small task.) In
# practice post-norm usually gets a *warm-up*, a rate that starts near zero and climbs. [Xiong et
# al. 2020](https://arxiv.org/abs/2002.04745) trace the need for it to large gradients near the
# output, which pre-norm doesn't have.
#
# ### GELU, exact or not
#
# GELU is $x\,\Phi(x)$, where $\Phi(x)$ is the probability that a random number from the
# standard normal distribution is smaller than $x$. A little of the negative side leaks
# through: that's the dip in the figure. The authors' code approximates GELU by a
# formula with tanh; PyTorch and timm (a library of image models) compute it exactly.
# How far apart are the two?

# %% tags=["nbval-check-output", "hide-input"]
x = torch.linspace(-6, 6, 1_200_001)
difference = (F.gelu(x) - F.gelu(x, approximate="tanh")).abs()
where = x[difference.argmax()].abs()
most = difference.max()
assert most < 5e-4
print(f"{most:.1e} at most, for inputs of {where:.1f} and -{where:.1f}")

# %% [markdown]
# That won't change what the model calls a photograph, but a test that compares two
# implementations to ten digits will fail on it. `plain.py` uses the exact form; the package
# offers both.
#
# ### Stochastic depth
#
# Since the stream flows past every branch, you can do without one now and then. *Stochastic
# depth* ([Huang et al. 2016](https://arxiv.org/abs/1603.09382)) leaves out each branch at
# random while training, image by image, so that no branch can rely on all the others. At
# inference every branch is active. To keep the average the same, what a branch writes in
# training is divided by the probability of keeping it. The paper doesn't use it; its
# follow-ups do ([Steiner et al. 2022](https://arxiv.org/abs/2106.10270)), and so can the
# package: `vitedu.vit("ViT-Ti/16", drop_path=0.1)`.
#
# ### How much does a block write?
#
# Here's how much each branch of the real model adds, relative to the stream it adds to: for
# Hopper's photograph, the median over the 196 patches, in percent.

# %% tags=["hide-input"]
z = embed(hopper)
wrote = {"attention": [], "MLP": []}
for block in mine:
    branches = (block.norm1, block.attn), (block.norm2, block.mlp)
    for name, (norm, branch) in zip(wrote, branches, strict=True):
        write = branch(norm(z))
        share = write.norm(dim=-1) / z.norm(dim=-1)  # (1, 197)
        wrote[name].append(share[0, 1:].median().item())
        z = z + write
print("block    ", "".join(f"{n:5}" for n in range(1, 13)))
for name, shares in wrote.items():
    print(f"{name:9}", "".join(f"{100 * share:5.0f}" for share in shares))

# %% [markdown]
# No branch is idle: each adds between a fifth of what's there and about as much again. But
# the median hides a surprise. Here are, for each photograph, the four longest of the 196 vectors
# after block 8. The numbers behind them say how long the shortest of the four is, compared with a
# typical vector: first after block 7, then after block 8.

# %% tags=["hide-input"]
for name, image in images.items():
    z = stream(image)  # 13 times (1, 197, 192)
    lengths = [each[0, 1:].norm(dim=-1) for each in z]
    longest = lengths[8].topk(4).indices.sort().values
    times = [each[longest].min() / each.median() for each in lengths[7:9]]
    told = " -> ".join(f"{each:.0f}x" for each in times)
    print(f"{name:7} patches {longest.tolist()}: {told}")

# %% [markdown]
# They're the four corners of the picture, every time, and block 8 blows them up. (In the last
# map above they're black: their cosines with the cap's patch are even below 0,
# where that scale ends.) [Darcet et al. 2024](https://arxiv.org/abs/2309.16588) found
# such giants in much larger ViTs, usually in patches with little to see. They suggest
# that the network uses these tokens as scratch paper, and that it's better to add a few
# spare tokens for the purpose, called *registers*.
#
# What happens when a part is missing? Here's how large Hopper's patches are after block 12, compared
# with the start, and their spread. The four corners are left out, because they'd drown the rest.

# %% tags=["hide-input"]
rest = [n for n in range(196) if n not in (0, 13, 182, 195)]  # no corners
print(f"{'after block 12':15}{'size':>7}{'spread':>8}")
for name, network in networks.items():
    before, after = (z[:, 1:][:, rest] for z in (start, network.blocks(start)))
    times = f"{size(after) / size(before):.1f}x"
    print(f"{name:15}{times:>7}{spread(after):8.0%}")

# %% [markdown]
# Here's the fog without plus signs, in numbers, and the stream that grows too large without norms.
#
# ## Where this is in the paper
#
# Equations (2) and (3) and the right half of Figure 1, in section 3.1:
#
# $$\begin{align}
# \mathbf{z}'_\ell &= \text{MSA}(\text{LN}(\mathbf{z}_{\ell-1})) + \mathbf{z}_{\ell-1} \tag{2} \\
# \mathbf{z}_\ell &= \text{MLP}(\text{LN}(\mathbf{z}'_\ell)) + \mathbf{z}'_\ell \tag{3}
# \end{align}$$
#
# Attention is in appendix A. Table 1 has the depth $L$, the width $D$, the MLP's width and
# the number of heads for the three sizes B, L and H. The paper gives no reasons for its
# block. For the place of the norm it cites two papers on language,
# [Wang et al. 2019](https://arxiv.org/abs/1906.01787) and
# [Baevski and Auli 2019](https://arxiv.org/abs/1809.10853).
#
# ### What differs
#
# * The equations show no biases. The authors' code has them in every dense layer, and so
#   does ours.
# * The authors' GELU is the tanh form, ours the exact one.
# * The paper trains some models with dropout. `plain.py` leaves it out; the package has it.
#
# ## Three readings
#
# * [Dong et al. 2021](https://arxiv.org/abs/2103.03404) prove what our maps show: if the weights
#   aren't too large, each layer shrinks the spread faster than the one before. They also ask which
#   part of the block prevents it. Compare their answer on residual connections with our table of
#   stacks.
# * [Xiong et al. 2020](https://arxiv.org/abs/2002.04745) explain warm-up by the place of the
#   norm, and train pre-norm Transformers without it.
# * [Liu et al. 2020](https://arxiv.org/abs/2004.08249) disagree. Balanced gradients alone
#   don't make post-norm stable, they find; the harm is that each layer depends heavily on
#   its own branch, which amplifies small changes. And a branch that counts for too little
#   has a price as well: it limits what the trained network can reach.
#
# ## Solutions
#
# <details><summary>Four questions</summary>
#
# 1. What each takes home is an average, so they get closer together. And the more alike they
#    are, the more evenly they share their attention, so the next average is blurrier.
# 2. Each layer adds in proportion to what's there, so the stream grows to thousands of times its
#    size. Then the scores
#    are so large that each token attends to a single winner, and attention hardly learns.
# 3. $(1, -1)$, as from $(3, 1)$. A token such as $(4, 4)$ has deviation 0.
# 4. Row 0 starts out the same for every picture, and nothing but attention brings anything of a
#    patch to it.
#
# </details>
#
# <details><summary>Solution 1</summary>
#
# Before scale and shift they are $(1, -1)$, $(-1, 1)$ and $(0, 0)$, so they become
# $(2, 0)$, $(-2, 2)$ and $(0, 1)$. To get $(1, 1)$ you'd need $(0.5, 0)$ before scale and
# shift. Its numbers don't sum to zero, so no token gives it.
#
# </details>
#
# <details><summary>Solution 2</summary>
#
# Attention has four dense layers from $D$ to $D$ (q, k, v and the output), the MLP one from
# $D$ to $4D$ and one back, and each norm a scale and a shift:
# $4(D^2 + D) + (8D^2 + 5D) + 4D = 12D^2 + 13D$. For $D = 192$ that's 444,864 weights, of
# which 295,872 are the MLP's: 67%. The heads share the width between them, so their number
# doesn't matter.
#
# </details>

# %% tags=["hide-cell", "nbval-check-output"]
count = sum(weight.numel() for weight in mine[0].parameters())
of_mlp = sum(weight.numel() for weight in mine[0].mlp.parameters())
assert count == 12 * 192**2 + 13 * 192
print(f"{count:,} weights, {of_mlp:,} of them in the MLP: {of_mlp / count:.0%}")

# %% [markdown]
# <details><summary>Solution 3</summary>
#
# Both branches add zeros, so the block hands on its input, to the last bit. A deep network of
# such blocks starts out as a shallow one, and each branch speaks up when it has learned
# something to say.
#
# </details>
#
# <details><summary>Solution 4</summary>
#
# Every token then depends on every other through the common mean and deviation, so the
# panel fills up. Scale and shift have one number for each of the 197 tokens and 192
# columns, so a larger picture, which has more tokens, raises an error.
#
# </details>
#
# <details><summary>Solution 5</summary>
#
# For six of them: any one of blocks 4, 5, 6, 7, 9 and 12 can go, and it's still a
# uniform, as the next cell shows. Without block 12 it's about as sure as before, and
# that fits what the head reads after block 11. Without the first block nothing of the
# uniform is left, and the answer is a parachute. Without block 3, 8 or 11, too, the uniform
# gets next to nothing.
#
# </details>

# %% tags=["hide-cell"]
uniform = list(model.class_names).index("military uniform")
for i in range(12):
    model.blocks = nn.Sequential(*mine[:i], *mine[i + 1 :])
    shares = model(hopper)[0].softmax(dim=0)
    guess, share = model.class_names[shares.argmax()], shares[uniform]
    print(f"without block {i + 1:2}: {guess:16} uniform {share:4.0%}")
model.blocks = mine

# %% [markdown]
# <details><summary>Solution 6</summary>
#
# $\mathbf{W}_1 \mathbf{W}_2$ and $\mathbf{b}_1 \mathbf{W}_2 + \mathbf{b}_2$: without
# the bend, two matrices are no more than one. The branch still writes something, so the
# network says something else than without MLPs. But a single matrix draws no conclusions, and the
# next cell shows how much it helps: a vase, three times.
#
# </details>

# %% tags=["hide-cell"]
straight = deepcopy(model)
for block in straight.blocks:
    block.mlp = nn.Sequential(block.mlp.fc1, block.mlp.fc2)
ask("no GELU", straight)

# %% [markdown]
# <details><summary>Solution 7</summary>
#
# They hold out a little longer, as the next cell shows: from the sixth layer on only rounding
# errors are left. But these layers were trained to work inside a block, on normalised input.
# So the result doesn't show that no attention layers could be trained to do without the rest.
# Not even the proof by Dong et al. does, because it holds only for weights that aren't too
# large.
#
# </details>

# %% tags=["hide-cell"]
z = tokens
for passed, block in enumerate(mine, start=1):
    z = block.attn(z)
    left = spread(z)
    told = f"{left:.1g}" if left > 1e-14 else "nothing but rounding errors"
    print(f"layers passed: {passed:2}   spread: {told}")
