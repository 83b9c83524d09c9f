"""The Vision Transformer: equations (1) to (4).

`vit("ViT-B/16")(images)` maps (b, 3, 224, 224) to logits (b, 1000).
"""

from collections import OrderedDict
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from vitedu.model.classifier import Classifier
from vitedu.model.config import ViTConfig, vit_config
from vitedu.model.encoder import Encoder
from vitedu.model.initialise import initialise
from vitedu.model.pool import build_pool


class ViT(Classifier):
    """The Vision Transformer: images (b, c, h, w) -> logits (b, classes).

    state_dict keys are timm's. With `num_classes=0` it returns features (b, d).
    ValueError: the images are not those the configuration describes.
    Source: paper, section 3.1; initial values as the authors' code has them.
    """

    def __init__(self, config: ViTConfig) -> None:
        super().__init__(
            config.image_size, config.in_channels, config.num_classes
        )
        self.config = config
        d = config.embed_dim
        self.patch_embed = config.stem.build(config)
        self.cls_token = (
            nn.Parameter(torch.zeros(1, 1, d)) if config.class_token else None
        )
        self.pos_embed = config.position.build(config)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = Encoder(config)
        self.norm = nn.LayerNorm(d, eps=config.norm_eps)
        self.pool = build_pool(config)
        self.pre_logits = nn.Identity()
        if config.pre_logits:
            fc = nn.Linear(d, config.pre_logits)
            self.pre_logits = nn.Sequential(OrderedDict(fc=fc, act=nn.Tanh()))
        self.head = nn.Identity()
        if config.num_classes:
            self.head = nn.Linear(config.pre_logits or d, config.num_classes)
        config.position.attach(self)
        initialise(self)

    def forward_features(self, images: Tensor) -> Tensor:
        """(b, c, h, w) -> (b, t, d): all tokens after the final norm."""
        x = self.patch_embed(images)  # (b, n, d)
        if self.cls_token is not None:
            x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1)
        x = self.config.position.add(x, self.pos_embed)  # equation (1)
        x = self.blocks(self.dropout(x))  # equations (2) and (3)
        return self.norm(x)

    def forward_head(self, tokens: Tensor) -> Tensor:
        """(b, t, d) -> (b, classes): pool, then the head."""
        y = self.pool(tokens)  # equation (4)
        return self.head(self.pre_logits(y))

    def forward(self, images: Tensor) -> Tensor:
        """(b, c, h, w) -> (b, classes)."""
        return self.forward_head(self.forward_features(images))

    def reset_classifier(self, num_classes: int) -> None:
        """Replace head and pre-logits by a head of zeros; 0 classes: none.

        Source: paper, section 3.2 and appendix B.1.1.
        """
        changes = {"num_classes": num_classes, "pre_logits": None}
        self.config = replace(self.config, **changes)
        self.num_classes, self.class_names = num_classes, ()
        self.pre_logits = nn.Identity()
        self.head = nn.Identity()
        if num_classes:
            head = nn.Linear(self.config.embed_dim, num_classes)
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)
            self.head = head.to(self.norm.weight)  # its device and dtype


def vit(name: str, **fields: Any) -> ViT:
    """A new model by its name in Table 1, "ViT-B/16", with fields overridden.

    `vit("ViT-Ti/16", image_size=64, num_classes=10)`; the fields are ViTConfig's.
    UserError: the name or a field is unknown, or the fields do not fit each other.
    """
    return ViT(vit_config(name, **fields))
