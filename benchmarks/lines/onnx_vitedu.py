"""A file for onnxruntime, for any number of photographs at a time: vitedu."""

import vitedu

vitedu.weights.convert("ViT-Ti/16", "model.onnx", to="onnx")
