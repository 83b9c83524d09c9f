"""Measures of a trained model."""

from vitedu.evaluate.accuracy import Evaluation, accuracy

__all__ = ["Evaluation", "accuracy"]
