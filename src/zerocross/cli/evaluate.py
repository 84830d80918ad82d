"""zerocross evaluate: the accuracy of a run's network, with its batch-norm statistics as they are or estimated anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    recalibrate_bn: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Also estimate batch-norm statistics anew from N training batches, and evaluate again.",
        ),
    ] = 0,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the datasets are. Default: as in the run.")
    ] = None,
    batch_size: Annotated[int, typer.Option(metavar="N", help="Samples per batch.", min=1)] = 256,
) -> None:
    """Evaluate a run's network on the part that the run evaluates on.

    Running statistics of batch norm lag behind the last flips; --recalibrate-bn estimates them from training data for
    the network as it is now, and prints both figures. The run itself is not changed.
    """
    from dataclasses import replace

    from rich.console import Console

    from zerocross import train

    console = Console(highlight=False, soft_wrap=True)
    config, place = train.read_config(run), train.read_placement(run)
    if data_dir is not None:
        place = replace(place, data_dir=str(data_dir))
    dataset = train.load_data(config, place)
    model, which = train.load_model(run, place, dataset)
    batches = dataset.eval_batches(batch_size)
    before = train.evaluate(model, batches)
    console.print(
        f"{run}, {which}, on {before['count']:,.0f} {dataset.evaluated_on} samples of {dataset.name}", markup=False
    )
    _show(console, "as trained", before)
    if recalibrate_bn:
        used = train.recalibrate_batch_norm(
            model, dataset.train_batches(config.batch_size, seed=config.seed), recalibrate_bn
        )
        after = train.evaluate(model, batches)
        _show(console, f"batch norm from {used} batches", after)


def _show(console: object, label: str, scores: dict[str, float]) -> None:
    console.print(  # type: ignore[attr-defined]
        f"  {label:28} top-1 {scores['top1']:6.2f} %   top-5 {scores['top5']:6.2f} %   loss {scores['loss']:.4f}",
        markup=False,
    )
