"""The same training with PyTorch Lightning: python examples/lightning_module.py [EPOCHS].

Lightning sees one optimizer and one scheduler. Leave `gradient_clip_val` unset: the sign of a filtered gradient does
not depend on the gradient's scale, but clipping changes that scale from step to step.
"""

from __future__ import annotations

import sys
from typing import Any

import pytorch_lightning as pl
import torch
from digits import load, network
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import zerocross


class BinaryClassifier(pl.LightningModule):
    """A network with binary weights, its loss, and its optimizer."""

    def __init__(self) -> None:
        super().__init__()
        self.model = network()

    def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
        x, y = batch
        loss = F.cross_entropy(self.model(x), y)
        self.log("loss", loss)
        return loss

    def on_train_batch_end(self, *_: Any) -> None:
        self.log("ff_ratio", zerocross.ff_ratio(self.optimizers()), prog_bar=True)

    def validation_step(self, batch: tuple[Tensor, Tensor], _: int) -> None:
        x, y = batch
        self.log("accuracy", (self.model(x).argmax(1) == y).float().mean(), prog_bar=True)

    def configure_optimizers(self) -> dict[str, Any]:
        binary, real, no_decay = zerocross.split_params(self.model)
        optimizer = zerocross.HybridOptimizer(
            {
                "binary": zerocross.GradientFilter(binary, alpha=3e-3, ff_every=1),
                "real": torch.optim.AdamW(real, lr=5e-3, weight_decay=1e-2),
                "no_decay": torch.optim.Adam(no_decay, lr=5e-3),
            },
            model=self.model,
        )
        steps = int(self.trainer.estimated_stepping_batches)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def main(epochs: int = 20, folder: str = "runs/lightning", **options: Any) -> pl.Trainer:
    pl.seed_everything(0)
    train, test = load()
    trainer = pl.Trainer(
        max_epochs=epochs, default_root_dir=folder, accelerator="cpu", devices=1, log_every_n_steps=1, **options
    )
    trainer.fit(
        BinaryClassifier(),
        DataLoader(train, batch_size=64, shuffle=True),
        DataLoader(TensorDataset(*test), batch_size=360),
    )
    print({name: round(float(value), 4) for name, value in trainer.callback_metrics.items()})
    return trainer


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
