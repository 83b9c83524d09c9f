"""Fine-tune on a folder of photographs, save, print the accuracy: fastai."""

from fastai.vision.all import ImageDataLoaders, Resize, accuracy, vision_learner

name = "vit_tiny_patch16_224.augreg_in21k_ft_in1k"
size = Resize(224)
data = ImageDataLoaders.from_folder("photos", valid="val", item_tfms=size)
learner = vision_learner(data, name, metrics=accuracy)
learner.fine_tune(2)
learner.save("tuned")
print(100 * learner.validate()[1])
