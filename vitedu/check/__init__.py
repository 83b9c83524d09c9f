"""Check what you have written: one line in, a hint out.

>>> from vitedu import check
>>> check.patchify(patchify)
✓ agrees with the book's to the last bit

A check runs your definition on small random inputs, in float64, beside the
book's. If yours differs, it looks for a mistake that others have made and says
which. One module for each chapter that asks you to write something.
"""

from vitedu.check.ablations import axial, relative_bias, table_2d
from vitedu.check.attention import attention, multi_head_attention
from vitedu.check.beyond import box_targets, ridge, suppress
from vitedu.check.bias import same_or_different, shuffle
from vitedu.check.encoder import encoder_block, layer_norm, mlp
from vitedu.check.few_shot import least_squares, nearest_mean
from vitedu.check.imagenet import real_accuracy
from vitedu.check.images import patch_embedding, patchify
from vitedu.check.inside import attention_distance, position_similarity
from vitedu.check.mnist import accuracy, train_step, warmup_cosine
from vitedu.check.recipe import decay_groups, mixup
from vitedu.check.scale import accumulated_step, all_reduce
from vitedu.check.scaling import bootstrap, power_law
from vitedu.check.speed import loss_scaler
from vitedu.check.transfer import finetune_step
from vitedu.check.unlabelled import (
    colour_classes,
    masked_error,
    random_mask,
)
from vitedu.check.verdict import Verdict
from vitedu.check.vit import initialise, vit

__all__ = [
    "Verdict",
    "accumulated_step",
    "accuracy",
    "all_reduce",
    "attention",
    "attention_distance",
    "axial",
    "bootstrap",
    "box_targets",
    "colour_classes",
    "decay_groups",
    "encoder_block",
    "finetune_step",
    "initialise",
    "layer_norm",
    "least_squares",
    "loss_scaler",
    "masked_error",
    "mixup",
    "mlp",
    "multi_head_attention",
    "nearest_mean",
    "patch_embedding",
    "patchify",
    "position_similarity",
    "power_law",
    "random_mask",
    "real_accuracy",
    "relative_bias",
    "ridge",
    "same_or_different",
    "shuffle",
    "suppress",
    "table_2d",
    "train_step",
    "vit",
    "warmup_cosine",
]
