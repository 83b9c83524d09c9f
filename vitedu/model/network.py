"""From a configuration to its network.

`new_network(vit_config("ViT-B/16"))` is a ViT.
"""

from typing import overload

from vitedu.model.config import ViTConfig
from vitedu.model.resnet import ResNet, ResNetConfig
from vitedu.model.vit import ViT


@overload
def new_network(config: ViTConfig) -> ViT: ...
@overload
def new_network(config: ResNetConfig) -> ResNet: ...
@overload
def new_network(config: ViTConfig | ResNetConfig) -> ViT | ResNet: ...
def new_network(config: ViTConfig | ResNetConfig) -> ViT | ResNet:
    """The network of a configuration with freshly drawn weights."""
    return ResNet(config) if isinstance(config, ResNetConfig) else ViT(config)
