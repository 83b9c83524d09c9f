"""The attention maps of the last block for a photograph: vitedu."""

import vitedu

model = vitedu.load("ViT-Ti/16")
with vitedu.record_attention(model) as maps:
    model(vitedu.preprocess(model, "photo.jpg"))
print(maps[-1].shape)
