"""Measures of a trained model."""

from vitedu.evaluate.accuracy import Evaluation, accuracy
from vitedu.evaluate.classify import Guess, classify
from vitedu.evaluate.features import Features, features
from vitedu.evaluate.logits import Answers, all_logits, top_k_correct

__all__ = [
    "Answers",
    "Evaluation",
    "Features",
    "Guess",
    "accuracy",
    "all_logits",
    "classify",
    "features",
    "top_k_correct",
]
