"""Fine-tune on a folder of photographs, save, report the accuracy: vitedu."""

import vitedu

run = vitedu.finetune("ViT-Ti/16", "photos", "tuned", epochs=2)
print(run.result["metrics"]["test_accuracy"]["value"])
