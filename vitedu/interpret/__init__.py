"""What a trained model does: where it looks."""

from vitedu.interpret.rollout import attention_map, attention_rollout

__all__ = ["attention_map", "attention_rollout"]
