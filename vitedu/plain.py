"""A whole Vision Transformer and its training, in one file to copy and keep.

Chapters 1 to 5 of the book write this file, definition by definition. It needs
torch and einops; the first training at the end also asks for vitedu's digits:

    python -m vitedu.plain

`ViT()` is ViT-Ti/16. Its state_dict has timm's names, so real weights load.
`vitedu.vit` is the same network with options, guards and faster attention.
"""

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn


# Chapter 1: images as words
def patchify(images, patch_size):
    """(b, c, h, w) -> (b, n, p*p*c): flat patches, row by row."""
    p = patch_size
    return rearrange(images, "b c (gh p) (gw q) -> b (gh gw) (p q c)", p=p, q=p)


class PatchEmbedding(nn.Module):
    """Each patch times E of equation (1): (b, c, h, w) -> (b, n, d)."""

    def __init__(self, patch_size, in_channels, embed_dim):
        super().__init__()
        p = patch_size
        self.proj = nn.Conv2d(in_channels, embed_dim, p, stride=p)

    def forward(self, images):
        x = self.proj(images)  # (b, d, gh, gw)
        return rearrange(x, "b d gh gw -> b (gh gw) d")


# Chapter 2: attention
def attention(q, k, v):
    """Equations (6) and (7), for q, k, v (..., t, hd): values and weights."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # (..., t, t)
    weights = scores.softmax(dim=-1)  # each row sums to 1
    return weights @ v, weights


class MultiHeadAttention(nn.Module):
    """Equations (5) to (8), all heads at once: (b, t, d) -> (b, t, d)."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)  # U_qkv
        self.proj = nn.Linear(embed_dim, embed_dim)  # U_msa

    def forward(self, x):
        parts = "b t (three heads hd) -> three b heads t hd"
        q, k, v = rearrange(self.qkv(x), parts, three=3, heads=self.num_heads)
        values, _ = attention(q, k, v)  # (b, heads, t, hd)
        return self.proj(rearrange(values, "b heads t hd -> b t (heads hd)"))


# Chapter 3: the encoder
class MLP(nn.Module):
    """Two dense layers with a GELU between them: (b, t, d) -> (b, t, d)."""

    def __init__(self, embed_dim, mlp_dim):
        super().__init__()
        self.fc1 = nn.Linear(embed_dim, mlp_dim)
        self.fc2 = nn.Linear(mlp_dim, embed_dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


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


# Chapter 4: the Vision Transformer
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


# Chapter 5: the first training
def warmup_cosine(step, lr, num_steps, warmup_steps):
    """The rate of a step: a line up to `lr`, then a cosine down to 0."""
    if step < warmup_steps:
        return lr * step / warmup_steps
    progress = (step - warmup_steps) / (num_steps - warmup_steps)
    return lr * (1 + math.cos(math.pi * progress)) / 2


def train_step(model, optimizer, images, labels):
    """One update of the weights; the mean loss of the batch before it."""
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@torch.no_grad()
def accuracy(model, images, labels, batch_size=500):
    """The share of all images whose largest logit is that of their label."""
    correct = 0
    for x, y in zip(images.split(batch_size), labels.split(batch_size)):
        correct += (model(x).argmax(dim=-1) == y).sum().item()
    return correct / len(labels)


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


if __name__ == "__main__":
    from vitedu.data import load_dataset

    torch.manual_seed(0)
    digits = load_dataset("digits")
    x, y = digits.train.images / 127.5 - 1, digits.train.labels
    steps = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    x = torch.cat([x.roll(step, (2, 3)) for step in steps])  # nine places each
    model = ViT(28, 7, 1, 10, embed_dim=32, depth=2, num_heads=4, mlp_dim=64)
    losses = train(model, x, y.repeat(9), epochs=4, lr=0.01)
    print(f"loss {losses[0]:.2f} -> {losses[-100:].mean():.2f}")
    x, y = digits.test.images / 127.5 - 1, digits.test.labels
    print(f"{accuracy(model, x, y):.1%} of {len(y)} digits it never saw")
