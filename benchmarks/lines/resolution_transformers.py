"""Name what a photograph shows, read at 384 by 384 pixels: transformers."""

from transformers import AutoImageProcessor, AutoModelForImageClassification

name = "google/vit-base-patch16-224"
size = {"height": 384, "width": 384}
processor = AutoImageProcessor.from_pretrained(name, size=size)
model = AutoModelForImageClassification.from_pretrained(name)
inputs = processor("photo.jpg", return_tensors="pt")
logits = model(**inputs, interpolate_pos_encoding=True).logits
print(model.config.id2label[logits.argmax().item()])
