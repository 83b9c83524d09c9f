"""The attention maps of the last block for a photograph: transformers."""

from transformers import AutoImageProcessor, AutoModel

name = "google/vit-base-patch16-224"
processor = AutoImageProcessor.from_pretrained(name)
model = AutoModel.from_pretrained(name, attn_implementation="eager")
inputs = processor("photo.jpg", return_tensors="pt")
print(model(**inputs, output_attentions=True).attentions[-1].shape)
