"""Name what a photograph shows: keras-hub."""

import keras
import keras_hub

name = "vit_base_patch16_224_imagenet"
model = keras_hub.models.ImageClassifier.from_preset(name)
image = keras.utils.load_img("photo.jpg")
pixels = keras.utils.img_to_array(image)[None]
print(keras_hub.utils.decode_imagenet_predictions(model.predict(pixels)))
