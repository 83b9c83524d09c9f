"""Name what a photograph shows: transformers."""

from transformers import pipeline

print(pipeline("image-classification")("photo.jpg"))
