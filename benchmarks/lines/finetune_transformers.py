"""Fine-tune on a folder of photographs, save, print accuracy: transformers."""

import transformers
from datasets import load_dataset
from torchvision.transforms import v2

name = "google/vit-base-patch16-224"
photos = load_dataset("photos")
classes = photos["train"].features["label"].names
processor = transformers.AutoImageProcessor.from_pretrained(name)
model = transformers.AutoModelForImageClassification.from_pretrained(
    name, num_labels=len(classes), ignore_mismatched_sizes=True
)
augment = v2.Compose([v2.RandomResizedCrop(224), v2.RandomHorizontalFlip()])


def prepared(batch):
    return {**processor(batch["image"]), "labels": batch["label"]}


def augmented(batch):
    return prepared({**batch, "image": augment(batch["image"])})


def accuracy(prediction):
    logits, labels = prediction
    return {"accuracy": 100 * (logits.argmax(1) == labels).mean()}


trainer = transformers.Trainer(
    model,
    transformers.TrainingArguments(
        "tuned", num_train_epochs=2, remove_unused_columns=False
    ),
    train_dataset=photos["train"].with_transform(augmented),
    eval_dataset=photos["validation"].with_transform(prepared),
    compute_metrics=accuracy,
)
trainer.train()
trainer.save_model()
print(trainer.evaluate()["eval_accuracy"])
