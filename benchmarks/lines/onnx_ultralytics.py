"""A file for onnxruntime, for any number of photographs: ultralytics."""

from ultralytics import YOLO

YOLO("yolo11n-cls.pt").export(format="onnx", dynamic=True)
