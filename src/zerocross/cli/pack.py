"""zerocross pack: a trained network as one file of bits, for `zerocross predict` and `zerocross.runtime.load`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import numpy as np

    from zerocross import train
    from zerocross.runtime.graph import Graph

INT8_WARNING = (
    "warning: --real int8 changes predictions. In our measurements on CIFAR-10 accuracy was kept, but the predicted "
    "class agreed with that of the float32 file for 74 to 90 % of the images only, since a changed first layer flips "
    "signs in later ones. Evaluate this file before you use it, or pack with --real float32"
)


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write, such as model.zcb.")
    ],
    real: Annotated[
        str, typer.Option(metavar="TYPE", help="How weights of real layers are stored: float32, float16 or int8.")
    ] = "float32",
    resign: Annotated[
        bool, typer.Option("--resign", help="Pack the signs of binary weights that are not -1 and +1 (averaged ones).")
    ] = False,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where the datasets are, for runs of older versions. Default: as in the run."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
) -> None:
    """Pack a run's network into one file: a bit for each binary weight, the rest real.

    Batch norm, scales, shifts and signs are folded into integer thresholds and affine steps; the table says what became
    of each layer. The file carries preprocessing and class names, and is read without PyTorch. No dataset is read: the
    run folder says what its network takes.
    """
    from dataclasses import replace

    from zerocross import train
    from zerocross.deploy import pack
    from zerocross.deploy.pack import check_folder
    from zerocross.runtime.preprocess import Preprocessing

    if output.exists() and not overwrite:
        raise FileExistsError(f"{output} exists: choose another name, or overwrite it with --overwrite")
    check_folder(output)
    config, place = train.read_config(run), train.read_placement(run)
    if data_dir is not None:
        place = replace(place, data_dir=str(data_dir))
    inputs = _inputs(run, place)
    model, which = train.load_model(run, place, inputs)
    packed = pack(
        model,
        inputs.input_size,
        real=real,
        preprocessing=Preprocessing.from_json(inputs.preprocessing),
        classes=inputs.class_names,
        resign=resign,
        provenance={
            "network": config.model.name,
            "method": config.method,
            "config": config.hash,
            "weights": which,
            "data": inputs.source,
        },
    )
    packed.save(output, overwrite=overwrite)
    typer.echo(packed.table())
    if any(tensor.dtype.name == "int8" for tensor in _weights(packed.graph)):
        typer.echo(INT8_WARNING, err=True)
    typer.echo(f"{output}: {which} of {run}; try: zerocross predict {output} FILE")


def _weights(graph: Graph) -> list[np.ndarray]:
    return [graph.tensors[node.tensors["weight"]] for node in graph.nodes if "weight" in node.tensors]


def _inputs(run: Path, place: train.Placement) -> train.Inputs:
    """What the run's network takes: from its folder, or, where an older version made it, from its dataset."""
    from zerocross import train

    if (kept := train.read_inputs(run)) is not None:
        return kept
    typer.echo(f"{run} has no inputs.json, as runs of older versions: its dataset is read instead", err=True)
    try:
        return train.load_inputs(run, place)
    except (FileNotFoundError, ValueError) as wrong:
        raise ValueError(
            f"the dataset of {run} cannot be read: say by --data-dir where it is, or train the run again ({wrong})"
        ) from wrong
