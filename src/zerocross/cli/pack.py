"""zerocross pack: a trained network as one file of bits, for `zerocross predict` and `zerocross.runtime.load`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


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
        Path | None, typer.Option(metavar="DIR", help="Where the datasets are. Default: as in the run.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
) -> None:
    """Pack a run's network into one file: a bit for each binary weight, the rest real.

    Batch norm, scales, shifts and signs are folded into integer thresholds and affine steps; the table says what became
    of each layer. The file carries preprocessing and class names, and is read without PyTorch.
    """
    from dataclasses import replace

    from zerocross import train
    from zerocross.deploy import pack
    from zerocross.deploy.pack import check_folder
    from zerocross.deploy.recipe import preprocessing_of

    if output.exists() and not overwrite:
        raise FileExistsError(f"{output} exists: choose another name, or overwrite it with --overwrite")
    check_folder(output)
    config, place = train.read_config(run), train.read_placement(run)
    if data_dir is not None:
        place = replace(place, data_dir=str(data_dir))
    dataset = train.load_data(config, place)
    model, which = train.load_model(run, place, dataset)
    packed = pack(
        model,
        dataset.input_size,
        real=real,
        preprocessing=preprocessing_of(dataset),
        classes=dataset.class_names,
        resign=resign,
        provenance={
            "network": config.model.name,
            "method": config.method,
            "config": config.hash,
            "weights": which,
            "data": dataset.source,
        },
    )
    packed.save(output, overwrite=overwrite)
    typer.echo(packed.table())
    typer.echo(f"{output}: {which} of {run}; try: zerocross predict {output} FILE")
