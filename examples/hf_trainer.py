"""The same training with Hugging Face's Trainer: python examples/hf_trainer.py [EPOCHS].

Optimizer and scheduler are passed together. `max_grad_norm=0` switches off Trainer's gradient clipping, which would
change the gradients' scale from step to step.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from digits import load, network
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import Dataset
from transformers import EvalPrediction, Trainer, TrainingArguments

import zerocross


class Digits(Dataset):
    """Samples as the dictionaries that Trainer expects."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"pixels": self.x[index], "labels": int(self.y[index])}


class Classifier(nn.Module):
    """A network that returns its loss, as Trainer expects."""

    def __init__(self) -> None:
        super().__init__()
        self.network = network()

    def forward(self, pixels: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        logits = self.network(pixels)
        return {"logits": logits} if labels is None else {"loss": F.cross_entropy(logits, labels), "logits": logits}


def accuracy(prediction: EvalPrediction) -> dict[str, float]:
    return {"accuracy": float((prediction.predictions.argmax(1) == prediction.label_ids).mean())}  # type: ignore[union-attr]


def main(epochs: int = 20, folder: str = "runs/hf-trainer", **options: Any) -> tuple[Trainer, dict[str, float]]:
    train, test = load()
    arguments = TrainingArguments(
        folder, num_train_epochs=epochs, per_device_train_batch_size=64, per_device_eval_batch_size=360,
        max_grad_norm=0.0, use_cpu=True, report_to="none", seed=0, logging_steps=20, **options,
    )  # fmt: skip
    model = Classifier()
    binary, real, no_decay = zerocross.split_params(model)
    optimizer = zerocross.HybridOptimizer(
        zerocross.GradientFilter(binary, alpha=3e-3, ff_every=1), torch.optim.Adam([*real, *no_decay], lr=5e-3), model
    )
    steps = epochs * -(-len(train) // 64)
    trainer = Trainer(
        model,
        arguments,
        train_dataset=Digits(*train.tensors),
        eval_dataset=Digits(*test),
        compute_metrics=accuracy,
        optimizers=(optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)),  # type: ignore[arg-type]
    )
    trainer.train()
    scores = trainer.evaluate()
    print(f"test accuracy {scores['eval_accuracy']:.1%}, last flip ratio {zerocross.ff_ratio(trainer.optimizer):.2%}")
    return trainer, scores


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
