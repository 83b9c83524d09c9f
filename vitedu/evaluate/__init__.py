"""Measures of a trained model.

What is called an accuracy, and average precision, are in percent, here as in
logs, results and reports; probabilities, recall and precision are shares in
0..1. (The chapters' own few lines, such as `vitedu.plain.accuracy`, count
shares.)
"""

from vitedu.evaluate.accuracy import (
    Answers,
    Evaluation,
    accuracy,
    all_logits,
    top_k_correct,
)
from vitedu.evaluate.classify import Guess, classify
from vitedu.evaluate.confusion import (
    ClassScores,
    Confusion,
    Predictions,
    class_scores,
    confusion_matrix,
    most_confused,
    predictions,
)
from vitedu.evaluate.dense import (
    average_precision,
    box_iou,
    box_targets,
    coverage,
    ridge,
    suppress,
)
from vitedu.evaluate.features import Features, features
from vitedu.evaluate.fewshot import (
    FewShotClassifier,
    FewShotPoint,
    fewshot_accuracy,
    fewshot_classifier,
    fewshot_curve,
    sample_shots,
)
from vitedu.evaluate.imagenet import (
    ObjectNetEvaluation,
    RealEvaluation,
    objectnet_accuracy,
    real_accuracy,
)
from vitedu.evaluate.predict import Prediction, predict
from vitedu.evaluate.probe import LinearProbe, knn, linear_probe
from vitedu.evaluate.scaling import (
    TABLE_6,
    PowerLaw,
    Pretrained,
    bootstrap,
    interval,
    power_law,
)
from vitedu.evaluate.vtab import VTAB, VtabResult, VtabTask

__all__ = [
    "TABLE_6",
    "VTAB",
    "Answers",
    "ClassScores",
    "Confusion",
    "Evaluation",
    "Features",
    "FewShotClassifier",
    "FewShotPoint",
    "Guess",
    "LinearProbe",
    "ObjectNetEvaluation",
    "PowerLaw",
    "Prediction",
    "Predictions",
    "Pretrained",
    "RealEvaluation",
    "VtabResult",
    "VtabTask",
    "accuracy",
    "all_logits",
    "average_precision",
    "bootstrap",
    "box_iou",
    "box_targets",
    "class_scores",
    "classify",
    "confusion_matrix",
    "coverage",
    "features",
    "fewshot_accuracy",
    "fewshot_classifier",
    "fewshot_curve",
    "interval",
    "knn",
    "linear_probe",
    "most_confused",
    "objectnet_accuracy",
    "power_law",
    "predict",
    "predictions",
    "real_accuracy",
    "ridge",
    "sample_shots",
    "suppress",
    "top_k_correct",
]
