"""Name what a photograph shows, read at 384 by 384 pixels: ultralytics."""

from ultralytics import YOLO

(result,) = YOLO("yolo11n-cls.pt")("photo.jpg", imgsz=384)
print(result.summary())
