"""Any kind of network: from JSON or a configuration."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from vitedu.model.config import ViTConfig
from vitedu.model.mae import MAE, MAEConfig
from vitedu.model.mpp import MPP, MPPConfig
from vitedu.model.resnet import ResNet, ResNetConfig
from vitedu.model.vit import ViT

Network: TypeAlias = ViT | ResNet
NetworkConfig: TypeAlias = ViTConfig | ResNetConfig

# by a field that no other configuration has
KINDS = {"family": ResNetConfig, "decoder_dim": MAEConfig, "target": MPPConfig}
NETWORKS = {ResNetConfig: ResNet, MAEConfig: MAE, MPPConfig: MPP}


def new_network(config: NetworkConfig) -> Any:
    """The network of a configuration, with initial weights."""
    return NETWORKS.get(type(config), ViT)(config)


def network_config(values: Any) -> NetworkConfig:
    """What `to_json` of any kind wrote. UserError: a field is wrong."""
    names = values if isinstance(values, Mapping) else ()
    kinds = [kind for name, kind in KINDS.items() if name in names]
    return (kinds or [ViTConfig])[0].from_json(values)
