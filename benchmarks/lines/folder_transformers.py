"""Name every photograph of a folder: transformers."""

from pathlib import Path

from transformers import pipeline

classify = pipeline("image-classification")
for path in sorted(Path("album").glob("*.jpg")):
    print(path, classify(str(path)))
