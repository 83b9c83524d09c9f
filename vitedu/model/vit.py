"""The Vision Transformer: equations (1) to (4).

`ViT(vit_config("ViT-B/16"))(images)` maps (b, 3, 224, 224) to (b, 1000).
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from einops import rearrange
from torch import Tensor, nn

from vitedu.errors import UserError
from vitedu.model.classifier import Classifier, checked_names
from vitedu.model.config import ViTConfig
from vitedu.model.encoder import Encoder
from vitedu.model.initialise import initialise
from vitedu.model.pool import build_pool
from vitedu.model.position import FixedTable, recompute_after_loading
from vitedu.model.resize import (
    ResizeMode,
    resize_pos_embed,
    resize_positions,
)


class ViT(Classifier):
    """The Vision Transformer: images (b, c, h, w) -> logits (b, classes).

    state_dict keys are timm's. With `num_classes=0` it returns features (b, d).
    ValueError: the images are not those the configuration describes.
    Source: paper, section 3.1; initial values as the authors' code has them.
    """

    head_name = "head"
    takes_any_size = False

    def __init__(self, config: ViTConfig) -> None:
        super().__init__(config)
        d = config.embed_dim
        self.patch_embed = config.stem.build(config)
        self.cls_token = (
            nn.Parameter(torch.zeros(1, 1, d)) if config.class_token else None
        )
        self.reg_token = None
        if config.registers:
            self.reg_token = nn.Parameter(torch.zeros(1, config.registers, d))
        self.pos_embed = config.position.build(config)
        self.dropout = nn.Dropout(config.dropout)
        self.norm_pre: nn.Module = nn.Identity()
        if getattr(config.stem, "norm", False):
            self.norm_pre = nn.LayerNorm(d, eps=config.norm_eps)
        self.blocks = Encoder(config)
        self.norm: nn.Module = nn.LayerNorm(d, eps=config.norm_eps)
        self.pool = build_pool(config)
        self.fc_norm: nn.Module = nn.Identity()
        if config.pool == "mean_norm":
            self.norm, self.fc_norm = self.fc_norm, self.norm
        self.pre_logits: nn.Module = nn.Identity()
        if config.pre_logits:
            fc = nn.Linear(d, config.pre_logits)
            self.pre_logits = nn.Sequential(OrderedDict(fc=fc, act=nn.Tanh()))
        self.head: nn.Module = nn.Identity()
        if config.num_classes:
            self.head = nn.Linear(config.pre_logits or d, config.num_classes)
        config.position.attach(self)
        self.register_load_state_dict_post_hook(recompute_after_loading)
        initialise(self)

    def embed(self, images: Tensor) -> Tensor:
        """Equation (1): (b, c, h, w) -> (b, t, d), the input of block 0."""
        pos_embed = self.pos_embed
        if self.takes_any_size:
            pos_embed = self._fit_positions(images.shape[-2:])
        return self.place(self.patch_embed(images), pos_embed)

    def place(self, x: Tensor, pos_embed: Any) -> Tensor:
        """(b, n, d) -> (b, t, d): the tokens before the patches, positions."""
        for prefix in (self.reg_token, self.cls_token):
            if prefix is not None:
                x = torch.cat([prefix.expand(x.shape[0], -1, -1), x], 1)
        x = self.dropout(self.config.position.add(x, pos_embed))
        return self.norm_pre(x)

    def forward_features(self, images: Tensor) -> Tensor:
        """(b, c, h, w) -> (b, t, d): all tokens after the final norm.

        With the pool "mean_norm" there is none before the pool.
        """
        return self.norm(self.blocks(self.embed(images)))

    def forward_head(self, tokens: Tensor, pre_logits: bool = False) -> Tensor:
        """(b, t, d) -> (b, classes): pool, then the head.

        With `pre_logits` what the head gets, (b, d).
        """
        # equation (4)
        y = self.pre_logits(self.fc_norm(self.pool(tokens)))
        return y if pre_logits else self.head(y)

    def forward(self, images: Tensor) -> Tensor:
        """(b, c, h, w) -> (b, classes), the logits."""
        return self.forward_head(self.forward_features(images))

    def forward_intermediates(
        self,
        images: Tensor,
        indices: int | Sequence[int] | None = None,
        *,
        return_prefix_tokens: bool = False,
        norm: bool = False,
        output_fmt: Literal["NCHW", "NLC"] = "NCHW",
        intermediates_only: bool = False,
    ) -> Any:
        """`forward_features`, and the patches' tokens after some blocks.

        A pair of (b, t, d) and a list; `intermediates_only` gives the list
        alone. `indices` is how many blocks, counted from the last, or their
        numbers (-1 is the last), by default all; the list is always in the
        order of the blocks.

        - return_prefix_tokens: pairs of the patches' tokens and the tokens
          before them, (b, num_prefix_tokens, d)
        - norm: with the final norm after each
        - output_fmt: images of features, (b, d, rows, columns), or with "NLC"
          (b, n, d)

        ValueError: `indices` names a block that doesn't exist, or none; another
        `output_fmt`.
        Source: timm's method of this name.
        """
        if output_fmt not in ("NCHW", "NLC"):
            raise ValueError(f"output_fmt is NCHW or NLC, not {output_fmt!r}")
        depth = len(self.blocks)
        wanted = which_blocks(depth if indices is None else indices, depth)
        x, outputs = self.embed(images), []
        num_run = max(wanted) + 1 if intermediates_only else depth
        for number, block in enumerate(self.blocks[:num_run]):
            x = block(x)
            if number in wanted:
                outputs.append(self.norm(x) if norm else x)
        prefix = self.config.num_prefix_tokens
        patches = [x[:, prefix:] for x in outputs]
        if output_fmt == "NCHW":
            rows, pattern = self.patch_embed.grid[0], "b (gh gw) d -> b d gh gw"
            patches = [
                rearrange(x, pattern, gh=rows).contiguous() for x in patches
            ]
        if return_prefix_tokens:
            before = [x[:, :prefix] for x in outputs]
            patches = list(zip(patches, before, strict=True))
        return patches if intermediates_only else (self.norm(x), patches)

    def get_intermediate_layers(
        self,
        images: Tensor,
        n: int | Sequence[int] = 1,
        *,
        reshape: bool = False,
        return_prefix_tokens: bool = False,
        norm: bool = False,
    ) -> list[Any]:
        """The list of `forward_intermediates`, with timm's older arguments.

        By default the tokens after the last block alone, as (b, n, d).
        Source: timm's method of this name, after DINO's.
        """
        return self.forward_intermediates(
            images,
            n,
            return_prefix_tokens=return_prefix_tokens,
            norm=norm,
            output_fmt="NCHW" if reshape else "NLC",
            intermediates_only=True,
        )

    def reset_classifier(
        self, num_classes: int, class_names: Sequence[str] = ()
    ) -> None:
        """Replace head and pre-logits by a head of zeros; 0 classes: none.

        Replaces the class names too, and forgets the loss.
        UserError: there are names, but not one for each class.
        Source: paper, section 3.2 and appendix B.1.1.
        """
        names = checked_names(class_names, num_classes)
        config = replace(self.config, num_classes=num_classes, pre_logits=None)
        self.config, self.class_names = config, names
        self.num_classes, self.loss_name = num_classes, None
        self.pre_logits = nn.Identity()
        self.head = nn.Identity()
        if num_classes:
            head = nn.Linear(config.embed_dim, num_classes)
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)
            weight = next(self.parameters())
            self.head = head.to(weight)  # its device and dtype

    def set_input_size(
        self,
        image_size: int | tuple[int, int],
        *,
        mode: ResizeMode | None = None,
    ) -> None:
        """Take images of another size, in place: positions are resized.

        `mode` is as in `resize_pos_embed`, by default `model.resize_mode`: the
        paper's, or that of the weights' source. A resized table becomes a new
        parameter, so build an optimizer after it; all others stay the same
        objects.

        UserError: the patches don't fit the size, or the positions cannot be
        resized; nothing has changed then.
        """
        config = replace(self.config, image_size=image_size)
        before = dict(self.named_parameters())
        after = resize_positions(
            before, self.config, config, mode=mode or self.resize_mode
        )
        self._fit_modules(config)
        for name, table in after.items():
            if table is not before[name]:
                owner, _, last = name.rpartition(".")
                is_trained = before[name].requires_grad
                resized = nn.Parameter(table.detach(), is_trained)
                setattr(self.get_submodule(owner), last, resized)
        self.config = config
        self.preprocess = replace(self.preprocess, image_size=config.image_size)

    def _fit_positions(self, image_size: Sequence[int]) -> Any:
        """`pos_embed` for images of this size, which the modules then take."""
        config = replace(self.config, image_size=tuple(image_size))
        if self.patch_embed.input_shape[1:] != config.image_size:
            self._fit_modules(config)
        table = self.pos_embed
        if table is None or isinstance(table, FixedTable):
            return table
        table = table() if isinstance(table, nn.Module) else table
        return resize_pos_embed(
            table,
            config.grid,
            old_grid=self.config.grid,
            num_prefix_tokens=table.shape[1] - self.config.num_patches,
            mode=self.resize_mode,
        )

    def _fit_modules(self, config: ViTConfig) -> None:
        """Tell each module the sizes of `config`; parameters stay."""
        # no numbers, just what its modules know
        with torch.device("meta"):
            other = type(self)(config)
        for name, module in self.named_modules():
            for size in ("input_shape", "grid", "num_patches", "compute"):
                if hasattr(module, size):
                    new = getattr(other.get_submodule(name), size)
                    setattr(module, size, new)
            if isinstance(module, FixedTable):
                # computes it again
                module.to(module.table)

    def blocks_in_order(self) -> Iterable[nn.Module]:
        """The encoder's blocks."""
        return self.blocks

    def no_weight_decay(self) -> set[str]:
        """What timm's optimizers don't decay: prefix tokens and positions."""
        names = (name for name, _ in self.named_parameters())
        own = {"cls_token", "reg_token", "pos_embed"}
        return {name for name in names if own & {*name.split(".")}}

    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        """Which parameters form a layer, for timm's layer decay.

        The final norm belongs to the last block; `coarse` changes nothing.
        """
        return {
            "stem": r"^(?:cls_token|reg_token|pos_embed|patch_embed|norm_pre)",
            "blocks": [(r"^blocks\.(\d+)", None), (r"^norm", (99999,))],
        }


def which_blocks(n: int | Sequence[int], depth: int) -> set[int]:
    """Indices of the last `n` blocks, or of those listed (-1 is the last)."""
    numbers = range(-n, 0) if isinstance(n, int) else n
    if not len(numbers) or not all(-depth <= i < depth for i in numbers):
        raise ValueError(
            f"{n!r} asks for none or too many of {depth} blocks; give a "
            f"number from 1 to {depth}, or a list of numbers from 0 to "
            f"{depth - 1}"
        )
    return {i % depth for i in numbers}


def take_any_size(model: nn.Module) -> None:
    """Let a model take images of any size that divides into patches.

    Each forward pass resizes the positions, with the same result as
    `set_input_size`. Weights, `config`, `preprocess` and files stay.

    UserError: the positions are in the blocks (Table 8's other places).
    Source: timm's `dynamic_img_size=True`.
    """
    position = getattr(model.config, "position", None)
    if getattr(position, "at", "stem") != "stem":
        raise UserError(
            f"{position} puts positions into the blocks, and only those at the "
            "stem are resized for each batch; call model.set_input_size for "
            "one other size"
        )
    model.takes_any_size = True
