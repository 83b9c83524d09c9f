"""Initial values, tensor by tensor as in the authors' code (vit_jax)."""

import torch
from torch import Tensor, nn


@torch.no_grad()
def lecun_normal(weight: Tensor) -> None:
    """Fill (out, in, ...) in place: truncated normal, std sqrt(1 / fan_in).

    A normal wider by 1 / 0.8796, cut at two of its standard deviations: after
    cutting the std is right. Source: flax.
    """
    fan_in = weight[0].numel()
    std = fan_in**-0.5 / 0.87962566103423978
    nn.init.trunc_normal_(weight, std=std, a=-2 * std, b=2 * std)


@torch.no_grad()
def initialise(model: nn.Module) -> None:
    """Set every weight of a ViT in place to the authors' initial values.

    Dense kernels are Xavier-uniform, q, k and v each as a (d, d) matrix;
    convolutions and `pre_logits` LeCun-normal; biases zero, but in the MLP
    normal with std 1e-6; positions normal with std 0.02; class token and head
    zero. Draws from torch's global generator.
    Source: vit_jax's models_vit.py; flax's `head` initialiser for the zeros.
    """
    if next(model.parameters()).is_meta:
        return  # shapes without numbers
    for name, module in model.named_modules():
        if isinstance(module, nn.LayerNorm):
            module.reset_parameters()  # scale one, bias zero
        elif isinstance(module, nn.Conv2d):
            lecun_normal(module.weight)
        elif isinstance(module, nn.Linear) and name == "head":
            nn.init.zeros_(module.weight)
        elif isinstance(module, nn.Linear) and name == "pre_logits.fc":
            lecun_normal(module.weight)
        elif isinstance(module, nn.Linear):
            # a fused (3d, d) matrix would get a bound sqrt(2) too small
            parts = 3 if name.endswith("attn.qkv") else 1
            for matrix in module.weight.chunk(parts):
                nn.init.xavier_uniform_(matrix)
        if (
            isinstance(module, nn.Conv2d | nn.Linear)
            and module.bias is not None
        ):
            nn.init.normal_(module.bias, std=1e-6 if ".mlp." in name else 0.0)
    if model.cls_token is not None:
        nn.init.zeros_(model.cls_token)
    if model.reg_token is not None:
        nn.init.normal_(model.reg_token, std=1e-6)
    if isinstance(model.pos_embed, nn.Parameter):
        nn.init.normal_(model.pos_embed, std=0.02)
