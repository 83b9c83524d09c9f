"""Attention rollout: how much of each patch reaches the answer.

`attention_map(model, vitedu.preprocess(model, "cat.jpg"))[0]` is (gh, gw).
Source: Abnar and Zuidema 2020; the paper, Figure 6 and appendix D.8.
"""

from collections.abc import Iterable, Iterator

import torch
from einops import rearrange
from torch import Tensor, nn

from vitedu.errors import UserError
from vitedu.model import ViT, record_attention
from vitedu.weights.checkpoint import Metadata
from vitedu.weights.timm import plain


def attention_rollout(
    maps: Iterable[Tensor], *, identity: float = 0.5, head: int | None = None
) -> Tensor:
    """How much of each token is in each one after the last layer: (b, t, t).

    `maps` are the layers' weights (b, heads, t, t), first layer first, as
    `record_attention` collects them. In every layer the share `identity` of a
    token is itself (the residual path; 0 leaves it out), and the rest is what
    attention mixes in: the mean over heads, or one `head`. Row i says what
    token i is made of, and sums to 1.

    ValueError: there are no maps.
    """
    reached: Tensor | None = None
    for weights in maps:
        # (b, t, t)
        mixed = weights.mean(dim=1) if head is None else weights[:, head]
        own = torch.eye(mixed.shape[-1], dtype=mixed.dtype, device=mixed.device)
        through = identity * own + (1 - identity) * mixed
        reached = through if reached is None else through @ reached
    if reached is None:
        raise ValueError(
            "attention_rollout needs the maps of a layer, got none"
        )
    return reached


def as_vit(model: nn.Module) -> ViT:
    """A ViT of this package itself, or one with the weights of timm's.

    `record_attention(as_vit(model))` has timm's maps, for
    `attention_distance`. UserError: it is neither, or timm's has a part that
    ours hasn't.
    """
    if isinstance(model, ViT):
        return model
    if not hasattr(model, "blocks") or "timm." not in type(model).__module__:
        raise UserError(
            f"a {type(model).__name__} doesn't have attention maps or tokens "
            "to look at; give a ViT of vitedu's or timm's"
        )
    state, known = model.state_dict(), getattr(model, "pretrained_cfg", {})
    config = {"pretrained_cfg": known} | known if known else {}
    found = plain.to_vitedu(state, Metadata(config=config, built=model))
    vit = ViT(found.config).to(next(iter(state.values())))
    vit.load_state_dict(found.state_dict)
    vit.preprocess = found.preprocess
    return vit.train(model.training)


@torch.no_grad()
def attention_map(
    model: nn.Module,
    images: Tensor,
    *,
    identity: float = 0.5,
    head: int | None = None,
) -> Tensor:
    """The share of each patch in the answer: (b, c, h, w) -> (b, gh, gw).

    The rollout's row of the class token, or the mean over the patches' rows if
    the model pools by it; `identity` and `head` are as in `attention_rollout`.
    Shares of the class token and registers are left out, so a map sums to less
    than 1. Keeps one layer's weights at a time.

    ValueError: the model is in training mode. UserError: its blocks don't
    attend over all tokens (a ResNet, axial attention), or its pool is "map" or
    "none".
    Source: the paper, Figure 6; the residual path as in Abnar and Zuidema.
    """
    model = as_vit(model)
    if model.training:
        raise ValueError(
            "attention_map needs the model in eval mode; call model.eval()"
        )
    layers = _layer_maps(model, model.embed(images))
    reached = attention_rollout(layers, identity=identity, head=head)
    return share_in_answer(model, reached)


def share_in_answer(model: ViT, reached: Tensor) -> Tensor:
    """A rollout (b, t, t) to the share of each patch: (b, gh, gw)."""
    config = model.config
    if config.pool not in ("token", "mean", "mean_norm"):
        raise UserError(
            f"the head of this model reads all tokens (pool={config.pool}), so "
            "the rollout doesn't say what reaches it; pool=token or mean is "
            "needed"
        )
    prefix, rows = config.num_prefix_tokens, model.patch_embed.grid[0]
    shares = reached[:, :, prefix:]  # (b, t, n)
    if config.pool == "token":
        shares = shares[:, 0]
    else:
        shares = shares[:, prefix:].mean(dim=1)
    return rearrange(shares, "b (gh gw) -> b gh gw", gh=rows).float()


def _layer_maps(model: ViT, tokens: Tensor) -> Iterator[Tensor]:
    for block in model.blocks:
        with record_attention(block) as maps:
            tokens = block(tokens)
        if len(maps) != 1 or maps[0].shape[-1] != tokens.shape[1]:
            raise UserError(
                f"a {type(block).__name__} doesn't attend over all tokens at "
                "once, so there is no rollout through it"
            )
        yield maps[0]


def class_token_maps(maps: Iterable[Tensor], grid: tuple[int, int]) -> Tensor:
    """What the class token looks at: (layers, b, heads, gh, gw).

    `maps` as in `attention_rollout`; the class token is the first, and the
    patches of `grid` = (rows, columns) are last. What it takes from itself and
    from registers is left out.

    UserError: there are no more tokens than patches, so none of the class.
    """
    rows, columns = grid
    found = []
    for weights in maps:
        if weights.shape[-1] <= rows * columns:
            raise UserError(
                f"the maps have {weights.shape[-1]} tokens, and the grid has "
                f"{rows * columns} patches, so there is no class token that "
                "looks at them"
            )
        to_patches = weights[:, :, 0, -rows * columns :]
        found.append(to_patches.unflatten(-1, grid))
    return torch.stack(found)
