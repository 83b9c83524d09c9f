"""A configuration's network built by other libraries, with the same weights.

`contestants(vit_config("ViT-S/16"), ("timm",))` builds ours and timm's.
"""

import importlib.util
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from vitedu.compat import import_timm, import_torchvision
from vitedu.errors import UserError, unknown
from vitedu.model import new_network
from vitedu.model.network import NetworkConfig
from vitedu.pictures import PreprocessSpec
from vitedu.weights import DIALECTS, Checkpoint
from vitedu.weights.mapping import check_holds, check_vit

# Of the largest logit. Rounding moves the logits of a deep ViT by 1e-5, timm's
# small numbers in the norms of hybrids by 5e-4.
SAME = 1e-3


class Contestant(NamedTuple):
    """A model that takes part: images (b, c, h, w) -> logits (b, classes)."""

    name: str
    model: nn.Module
    num_parameters: int
    # of logits from ours, of the largest; None if it is another function
    difference: float | None


class Logits(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        return self.model(images).logits


def timm_model(checkpoint: Checkpoint) -> nn.Module:
    timm, dialect = import_timm(), DIALECTS["timm"]
    about = dialect.beside(checkpoint)["config.json"]
    model = timm.create_model(
        about["architecture"],
        num_classes=checkpoint.config.num_classes,
        **about["model_args"],
    )
    model.load_state_dict(dialect.from_vitedu(checkpoint))
    return model


def torchvision_model(checkpoint: Checkpoint) -> nn.Module:
    config = checkpoint.config
    arrays = DIALECTS["torchvision"].from_vitedu(checkpoint)
    check_holds("torchvision's ViT", {"gelu='tanh'": config.gelu == "tanh"})
    model = import_torchvision().models.VisionTransformer(
        config.image_size[0],
        config.patch_size[0],
        config.depth,
        config.num_heads,
        config.embed_dim,
        config.mlp_dim,
        num_classes=config.num_classes,
        representation_size=config.pre_logits,
        norm_layer=partial(nn.LayerNorm, eps=config.norm_eps),
    )
    model.load_state_dict(arrays)
    return model


def transformers_model(checkpoint: Checkpoint) -> nn.Module:
    import_torchvision()  # which transformers imports too, see vitedu.compat
    import transformers

    dialect = DIALECTS["hf"]
    about = dialect.beside(checkpoint)["config.json"]
    transformers.utils.logging.disable_progress_bar()
    model = transformers.ViTForImageClassification.from_pretrained(
        None,
        config=transformers.ViTConfig(**about),
        state_dict=dialect.from_vitedu(checkpoint),
        attn_implementation="sdpa",
    )
    return Logits(model)


def vit_pytorch_model(checkpoint: Checkpoint) -> nn.Module:
    """vit-pytorch's ViT of these sizes, which is another function.

    It has no bias in q, k and v, and two more norms in the stem.
    """
    import vit_pytorch

    config = check_vit("vit-pytorch's ViT", checkpoint.config)
    return vit_pytorch.ViT(
        image_size=config.image_size,
        patch_size=config.patch_size,
        num_classes=config.num_classes,
        dim=config.embed_dim,
        depth=config.depth,
        heads=config.num_heads,
        mlp_dim=config.mlp_dim,
        channels=config.in_channels,
        dim_head=config.embed_dim // config.num_heads,
    )


PEERS = {
    "timm": timm_model,
    "torchvision": torchvision_model,
    "transformers": transformers_model,
    "vit-pytorch": vit_pytorch_model,
}
DEPARTS = ("vit-pytorch",)  # from the paper, so it is another function


def contestants(
    config: NetworkConfig, against: Sequence[str]
) -> tuple[list[Contestant], dict[str, str]]:
    """Ours first, then the peers, on the CPU; and why others don't take part.

    All but DEPARTS have the same weights. The head is random too: behind zeros
    no gradient would flow. UserError: a name is unknown, or the model has no
    head or has dropout, which the libraries place differently.
    """
    for name in against:
        if name not in PEERS:
            raise unknown("peer", name, PEERS)
    if not config.num_classes:
        raise UserError("num_classes is 0; a training step needs a head")
    for name in ("dropout", "drop_path"):
        if share := getattr(config, name, 0.0):
            raise UserError(
                f"{name} is {share}, which peers place elsewhere; leave it at 0"
            )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        ours = new_network(config)
        head = ours.get_classifier()
        nn.init.trunc_normal_(head.weight, std=head.weight.shape[1] ** -0.5)
        spec = PreprocessSpec(config.image_size, config.in_channels)
        checkpoint = Checkpoint(config, ours.state_dict(), spec)
        images = torch.randn(1, config.in_channels, *config.image_size)
        entered, away = [contestant("vitedu", ours, ours, images)], {}
        for name in against:
            if not is_installed(name):
                away[name] = f"{name} is not installed"
                continue
            try:
                model = PEERS[name](checkpoint)
                entered.append(contestant(name, model, ours, images))
            except UserError as error:
                away[name] = str(error)
    return entered, away


def is_installed(name: str) -> bool:
    return importlib.util.find_spec(name.replace("-", "_")) is not None


def contestant(
    name: str, model: nn.Module, ours: nn.Module, images: Tensor
) -> Contestant:
    """A model compared with ours. UserError: it should be ours, and isn't."""
    counted, wanted = (
        sum(weight.numel() for weight in each.parameters())
        for each in (model, ours)
    )
    if name in DEPARTS:
        return Contestant(name, model, counted, None)
    with torch.no_grad():
        expected = ours.eval()(images)
        apart = (model.eval()(images) - expected).abs().max()
    difference = (apart / expected.abs().max()).item()
    if difference > SAME or counted != wanted:
        raise UserError(
            f"{name} builds another network: {counted:,} parameters for "
            f"{wanted:,}, and logits that differ by {difference:.0e} of the "
            "largest"
        )
    return Contestant(name, model, counted, difference)
