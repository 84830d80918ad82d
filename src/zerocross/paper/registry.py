"""The artefacts by name, in the order of the paper; artefacts beyond the paper come last."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from zerocross.checks import check_choice
from zerocross.paper import (
    appendix,
    fig2,
    fig3,
    fig4,
    fig5,
    fig6,
    fig7,
    fig8,
    one_number,
    precision,
    table1,
    table2,
    table3,
)
from zerocross.paper.artefact import Artefact

_PAPER = (table1, fig2, fig3, fig4, fig5, fig6, fig7, table2, table3, fig8, appendix)
_BEYOND = (precision, one_number)

ARTEFACTS: Mapping[str, Artefact] = MappingProxyType(
    {module.ARTEFACT.name: module.ARTEFACT for module in (*_PAPER, *_BEYOND)}
)


def get(name: str) -> Artefact:
    """Return the artefact with this name, or raise a ValueError that lists the names."""
    check_choice("artefact", name, ARTEFACTS)
    return ARTEFACTS[name]
