"""Name what a photograph shows: ultralytics."""

from ultralytics import YOLO

(result,) = YOLO("yolo11n-cls.pt")("photo.jpg")
print(result.summary())
