"""lightning: a module around a model, fitted by its Trainer."""

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from tests.clients.marks import client

pytestmark = [
    *client("lightning"),
    # what lightning says about our small loaders and about itself
    pytest.mark.filterwarnings("ignore:::lightning"),
    pytest.mark.filterwarnings("ignore:::pytorch_lightning"),
    pytest.mark.filterwarnings("ignore:::torch.jit"),
]


@pytest.fixture
def fit(batches, tmp_path):
    """Fits a model for five epochs; its steps' losses and modes."""
    import lightning

    class Classify(lightning.LightningModule):
        def __init__(self, model):
            super().__init__()
            self.model, self.losses, self.modes = model, [], []

        def training_step(self, batch, index):
            images, labels = batch
            loss = cross_entropy(self.model(images), labels)
            self.losses.append(loss.item())
            self.modes.append(self.model.training)
            return loss

        def validation_step(self, batch, index):
            assert not self.model.training

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    def fit(model):
        module = Classify(model)
        trainer = lightning.Trainer(
            max_epochs=5,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=tmp_path,
        )
        images, labels = map(torch.cat, zip(*batches, strict=True))
        loader = DataLoader(TensorDataset(images, labels), batch_size=4)
        trainer.fit(module, loader, loader)
        return module

    return fit


def test_it_trains_a_new_model_in_train_mode_throughout(fit, tiny):
    module = fit(tiny)
    assert sum(module.losses[-8:]) < sum(module.losses[:8]) / 2
    assert all(module.modes)
    assert tiny.training


def test_a_loaded_model_is_in_eval_mode_until_told_otherwise(fit, model):
    # lightning leaves every module in the mode that it came in
    assert not model.training
    model.reset_classifier(2)
    model.set_input_size(16)
    assert not any(fit(model).modes)
    assert all(fit(model.train()).modes)
