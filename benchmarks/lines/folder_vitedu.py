"""Name every photograph of a folder: vitedu."""

import vitedu

for each in vitedu.predict("ViT-Ti/16", "album"):
    print(each.file, each.names or each.error)
