"""What a trained model does: where it looks, and what it has learned."""

from vitedu.interpret.distance import attention_distance
from vitedu.interpret.explanation import Explanation, explain
from vitedu.interpret.learned import filters, position_similarity
from vitedu.interpret.removal import (
    deletion_curve,
    test_time_registers,
    without,
)
from vitedu.interpret.rollout import (
    as_vit,
    attention_map,
    attention_rollout,
    class_token_maps,
)
from vitedu.interpret.tokens import components, outlier_tokens, similar_to

__all__ = [
    "Explanation",
    "as_vit",
    "attention_distance",
    "attention_map",
    "attention_rollout",
    "class_token_maps",
    "components",
    "deletion_curve",
    "explain",
    "filters",
    "outlier_tokens",
    "position_similarity",
    "similar_to",
    "test_time_registers",
    "without",
]
