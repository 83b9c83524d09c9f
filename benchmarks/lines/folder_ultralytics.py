"""Name every photograph of a folder: ultralytics."""

from ultralytics import YOLO

for result in YOLO("yolo11n-cls.pt")("album"):
    print(result.path, result.summary())
