"""`zerocross models`: the networks, with weights, bits and multiply-accumulates."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    name: Annotated[str | None, typer.Argument(help="One model: show it layer by layer, and its options.")] = None,
) -> None:
    """List the models with their weights, size and multiply-accumulates (MACs)."""
    import torch

    from zerocross.models import create, names, options
    from zerocross.models.registry import MODELS
    from zerocross.nn import Summary, summary
    from zerocross.tables import bytes_text, count_text, shape_text, text_table

    def describe(name: str) -> Summary:
        with torch.device("meta"):  # shapes without memory
            return summary(create(name), (1, *MODELS[name].input_shape))

    if name is not None:
        settings = "\n".join(f"  {key} = {value!r}" for key, value in options(name).items())
        typer.echo(
            f"{describe(name)}\nOptions of zerocross.models.create({name!r}, ...), with their defaults:\n{settings}"
        )
        return
    rows = []
    for each in names():
        entry, total = MODELS[each], describe(each).total
        rows.append(
            [
                each,
                entry.data,
                shape_text(entry.input_shape),
                f"{total.binary:,}",
                f"{total.real:,}",
                f"{total.bits:.2f}",
                bytes_text(total.float_bytes),
                bytes_text(total.packed_bytes),
                count_text(total.binary_macs or 0),
                count_text(total.real_macs or 0),
            ]
        )
    header = ["model", "data", "input", "binary weights", "real", "bits", "float", "packed", "binary MACs", "real MACs"]
    typer.echo(text_table(header, rows, right=7))
    typer.echo("bits: mean per parameter. MACs: per input. One model layer by layer: zerocross models NAME")
