"""zerocross pack: pack a trained network into one file for `zerocross predict` and `zerocross.runtime.load`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import numpy as np

    from zerocross import train
    from zerocross.runtime.graph import Graph

INT8_WARNING = (
    "warning: --real int8 changes predictions. In our measurements on CIFAR-10 the accuracy stayed the same, but only "
    "74 to 90 % of the predicted classes agreed with the float32 file, since a changed first layer flips signs in "
    "later ones. Evaluate this file before you use it, or pack with --real float32"
)


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write, such as model.zcb.")
    ],
    real: Annotated[
        str, typer.Option(metavar="TYPE", help="Type of the weights of real layers: float32, float16 or int8.")
    ] = "float32",
    resign: Annotated[
        bool,
        typer.Option("--resign", help="Pack the signs of binary weights other than -1 and +1, such as averaged ones."),
    ] = False,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder of the datasets, for runs of older versions. Default: that of the run."
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
) -> None:
    """Pack the network of a run into one file, with one bit per binary weight.

    Batch norm, scales, shifts and signs are folded into integer thresholds and affine steps; the table shows the result
    for each layer. The file includes preprocessing and class names, and can be read without PyTorch. No dataset is
    read: the run folder describes the inputs of its network.
    """
    from dataclasses import replace

    from zerocross import train
    from zerocross.deploy import pack
    from zerocross.deploy.pack import check_folder
    from zerocross.runtime.preprocess import Preprocessing

    if output.exists() and not overwrite:
        raise FileExistsError(f"{output} already exists: choose another name, or use --overwrite to replace it")
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
    """Return the inputs of the run's network from its folder, or from its dataset for runs of older versions."""
    from zerocross import train

    if (inputs := train.read_inputs(run)) is not None:
        return inputs
    typer.echo(f"{run} is from an older version and has no inputs.json: reading its dataset instead", err=True)
    try:
        return train.load_inputs(run, place)
    except (FileNotFoundError, ValueError) as error:
        raise ValueError(
            f"the dataset of {run} cannot be read: set its folder with --data-dir, or train the run again ({error})"
        ) from error
