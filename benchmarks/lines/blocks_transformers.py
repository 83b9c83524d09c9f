"""Maps (d, 14, 14) of the last four blocks for a photograph: transformers."""

from transformers import AutoImageProcessor, AutoModel

name = "google/vit-base-patch16-224"
processor = AutoImageProcessor.from_pretrained(name)
model = AutoModel.from_pretrained(name)
inputs = processor("photo.jpg", return_tensors="pt")
for tokens in model(**inputs, output_hidden_states=True).hidden_states[-4:]:
    print(tokens[:, 1:].mT.unflatten(2, (14, 14)).shape)
