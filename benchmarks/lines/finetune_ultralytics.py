"""Fine-tune on a folder, save, print the accuracy: ultralytics."""

from ultralytics import YOLO

model = YOLO("yolo11n-cls.pt")
model.train(data="photos", epochs=2, imgsz=224)
print(100 * model.val().top1)
