"""Name what a photograph shows: vitedu."""

import vitedu

print(vitedu.classify("ViT-Ti/16", "photo.jpg"))
