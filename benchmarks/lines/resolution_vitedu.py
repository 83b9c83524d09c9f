"""Name what a photograph shows, read at 384 by 384 pixels: vitedu."""

import vitedu

model = vitedu.load("ViT-Ti/16", image_size=384)
print(vitedu.classify(model, "photo.jpg"))
