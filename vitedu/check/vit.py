"""Chapter 4: the whole network, and its first values."""

from typing import Any

import torch
from torch import Tensor, nn

from vitedu import plain
from vitedu.check.verdict import (
    Mistake,
    Wrong,
    agreement,
    built,
    call,
    check_function,
    judged,
    numbers,
    shaken,
)

# image_size, patch_size, in_channels, num_classes, embed_dim, depth, num_heads,
# mlp_dim
SIZES = (8, 4, 3, 5, 12, 2, 3, 20)


@judged
def vit(theirs: Any) -> str:
    """Check `ViT(image_size, patch_size, in_channels, num_classes, …)`."""
    ours = shaken(plain.ViT(*SIZES))
    module = built(theirs, ours, *SIZES)
    model: Any = ours

    def network(
        x: Tensor,
        join: Any = lambda token, x: torch.cat([token, x], dim=1),
        place: Any = lambda x: x + model.pos_embed,
        blocks: Any = model.blocks,
        read: Any = lambda x: model.norm(x)[:, 0],
    ) -> Tensor:
        x = model.patch_embed(x)
        token = model.cls_token.expand(len(x), -1, -1)
        return model.head(read(blocks(place(join(token, x)))))

    def last(token: Tensor, x: Tensor) -> Tensor:
        return torch.cat([x, token], dim=1)

    def patches_only(x: Tensor) -> Tensor:
        return torch.cat([x[:, :1], x[:, 1:] + model.pos_embed[:, 1:]], dim=1)

    def first_block_twice(x: Tensor) -> Tensor:
        return model.blocks[0](model.blocks[0](x))

    def backwards(x: Tensor) -> Tensor:
        return model.blocks[0](model.blocks[1](x))

    mistakes = [
        Mistake(
            "the class token is the last one; the paper puts it in front, and "
            "the first row of pos_embed is meant for it",
            lambda x: network(
                x, join=last, read=lambda x: model.norm(x)[:, -1]
            ),
        ),
        Mistake(
            "the class token is the last one, and then you read the first, "
            "which is a patch",
            lambda x: network(x, join=last),
        ),
        Mistake(
            "positions are added to the patches only; the class token has one "
            "as well, the first row of pos_embed",
            lambda x: network(x, place=patches_only),
        ),
        Mistake(
            "the positions are never added, so the network sees a bag of "
            "patches",
            lambda x: network(x, place=lambda x: x),
        ),
        Mistake(
            "you take the mean of all tokens; equation (4) reads the class "
            "token alone: [:, 0]",
            lambda x: network(x, read=lambda x: model.norm(x).mean(dim=1)),
        ),
        Mistake(
            "you take the mean of the patches; equation (4) reads the class "
            "token: [:, 0]",
            lambda x: network(
                x, read=lambda x: model.norm(x)[:, 1:].mean(dim=1)
            ),
        ),
        Mistake(
            "you read the last token; the class token is the first: [:, 0]",
            lambda x: network(x, read=lambda x: model.norm(x)[:, -1]),
        ),
        Mistake(
            "you read the first patch; the class token comes before it: [:, 0]",
            lambda x: network(x, read=lambda x: model.norm(x)[:, 1]),
        ),
        Mistake(
            "the last norm is missing: equation (4) norms the class token "
            "before the head",
            lambda x: network(x, read=lambda x: x[:, 0]),
        ),
        Mistake(
            "there is a softmax at the end; return the logits, since the loss "
            "takes a softmax itself",
            lambda x: network(x).softmax(dim=-1),
        ),
        Mistake(
            "every token gets logits; pick the class token: [:, 0]",
            lambda x: network(x, read=model.norm),
        ),
        Mistake(
            "the blocks are never called",
            lambda x: network(x, blocks=lambda x: x),
        ),
        Mistake(
            "all tokens go through the first block again and again; each "
            "block has weights of its own",
            lambda x: network(x, blocks=first_block_twice),
        ),
        Mistake(
            "the blocks run from the last to the first",
            lambda x: network(x, blocks=backwards),
        ),
        Mistake(
            "only the first block is called",
            lambda x: network(x, blocks=model.blocks[0]),
        ),
    ]
    return agreement(module, ours, [(numbers(2, 3, 8, 8),)], mistakes)


UNTOUCHED = 7.0  # no initial value is that


@judged
def initialise(theirs: Any) -> str:
    """Check `initialise(model)`: first values in place, as the authors have."""
    check_function(theirs)
    found, wanted = (untouched() for _ in range(2))
    with torch.no_grad():  # a reader's may come without its decorator
        call(theirs, found)
    plain.initialise(wanted)
    values = dict(found.named_parameters())
    for name, right in wanted.named_parameters():
        if "norm" not in name and name != "cls_token":
            check_values(name, values[name].detach(), right.detach())
    return (
        "every kind of weight has the authors' mean, spread and largest value, "
        "within what chance allows"
    )


def untouched() -> nn.Module:
    """A network whose first values have all still to be given."""
    torch.manual_seed(0)
    model = plain.ViT(64, 8, 3, 100, embed_dim=96, depth=1, mlp_dim=192)
    for name, weight in model.named_parameters():
        if "norm" not in name and name != "cls_token":
            weight.data.fill_(UNTOUCHED)
    return model


def check_values(name: str, found: Tensor, wanted: Tensor) -> None:
    """Wrong, and the likely reason, if these aren't from one distribution."""
    if bool((found == UNTOUCHED).all()):
        raise Wrong(f"{name} is left as it was")
    if not wanted.any():
        if found.any():
            raise Wrong(f"{name} should be zero; {WHY_ZERO.get(name, BIASES)}")
        return
    if not found.any():
        raise Wrong(
            f"{name} is all zeros; its spread should be {spread(wanted)}"
        )
    ratio = (found.std() / wanted.std()).item()
    if 0.93 < ratio < 1.07:  # 6,000 numbers and more; biases: below
        if found.abs().max() > 1.15 * wanted.abs().max() and "patch" in name:
            raise Wrong(
                f"{name} has values beyond two deviations; the authors cut "
                "there: nn.init.trunc_normal_ with a and b"
            )
        return
    if found.dim() == 1:
        if 0.7 < ratio < 1.4:  # a hundred numbers
            return
        raise Wrong(
            f"{name} has a spread of {spread(found)}, and the authors' has "
            f"{spread(wanted)}"
        )
    reason = ""
    if "qkv" in name and 0.6 < ratio < 0.8:
        reason = ": q, k and v are three square matrices, so give each its own"
    elif "patch" in name and 0.84 < ratio < 0.92:
        reason = ": cutting at two deviations took some away; divide by 0.8796"
    elif "patch" in name and 0.5 < ratio < 0.65:
        reason = ": that's PyTorch's default; LeCun's has variance 1 / fan-in"
    elif "patch" not in name and 0.5 < ratio < 0.65:
        reason = ": that looks like PyTorch's default, not like Xavier's"
    raise Wrong(
        f"{name} has a spread of {spread(found)}, and the authors' has "
        f"{spread(wanted)}{reason}"
    )


def spread(values: Tensor) -> str:
    return f"{values.std().item():.2g}"


BIASES = "the authors' biases start at zero, but for the MLP's tiny ones"
WHY_ZERO = {
    "head.weight": "so that all classes are equally likely at the start"
}
