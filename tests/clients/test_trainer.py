"""transformers' Trainer, around a module that returns its loss."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from tests.clients.marks import client

pytestmark = client("accelerate", "transformers")


class WithLoss(nn.Module):
    """What Trainer expects of a model: named inputs, and loss beside logits.

    It also keeps `model.config` out of Trainer's sight, who would write into
    it.
    """

    def __init__(self, model):
        super().__init__()
        self.model = model
        # what Trainer calls for `activation_checkpointing=True`
        recompute = model.activation_checkpointing_enable
        self.activation_checkpointing_enable = recompute

    def forward(self, images, labels):
        logits = self.model(images)
        return {"loss": cross_entropy(logits, labels), "logits": logits}


def test_it_trains_and_evaluates(tiny, batches, tmp_path):
    import transformers

    images, labels = map(torch.cat, zip(*batches, strict=True))
    data = [
        {"images": image, "labels": label}
        for image, label in zip(images, labels, strict=True)
    ]
    arguments = transformers.TrainingArguments(
        str(tmp_path),
        num_train_epochs=8,
        learning_rate=3e-3,
        activation_checkpointing=True,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(
        WithLoss(tiny),
        arguments,
        train_dataset=data,
        eval_dataset=data,
        compute_metrics=lambda answers: {
            "right": (answers.predictions.argmax(1) == answers.label_ids).mean()
        },
    )
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    after = trainer.evaluate()
    assert "forward" in vars(tiny.blocks[0])  # it is recomputed
    assert after["eval_loss"] < before / 2
    assert after["eval_right"] == 1
    trainer.save_model()
    assert (tmp_path / "model.safetensors").is_file()
