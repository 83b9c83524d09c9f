"""Measures of a trained model."""

from vitedu.evaluate.accuracy import Evaluation, accuracy
from vitedu.evaluate.logits import (
    Answers,
    all_logits,
    cross_entropy,
    top_k_correct,
)

__all__ = [
    "Answers",
    "Evaluation",
    "accuracy",
    "all_logits",
    "cross_entropy",
    "top_k_correct",
]
