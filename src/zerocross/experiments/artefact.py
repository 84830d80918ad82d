"""What a figure or table of the paper is here: claims, settings at three scales, a run, and a picture of its data.

A run gives plain containers ("data"), which `reproduce` writes as JSON. Pictures, claims and the page read only it:

    panels      what is drawn, a list of {title, x, y, x_scale, y_scale, curves, lines}; x_scale and y_scale are
                "linear" or "log"; a curve is {label, x, mean, low, high, n, style} with style "line" or "points", low
                and high the extremes over seeds (None where there is one), n their number, one for all points or a
                list (None for a number of the paper's), and perhaps dash or muted; x may be names; `lines` are
                {label, y}, the paper's own numbers
    tables      what is listed, a list of {title, columns, rows, notes}
    trace       recorded gradients, a list of {label, gradients}
    measured    the figures that the claims are judged by
    runs        hash, label, seed, accuracy and time of every training behind it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from zerocross.experiments.session import Session
    from zerocross.train.config import Config

Scale = Literal["smoke", "reduced", "paper"]
SCALES: tuple[Scale, ...] = get_args(Scale)
Data = dict[str, Any]


class NotReady(ValueError):  # noqa: N818 - nothing is wrong
    """An artefact that another command makes first; the message names it."""


@dataclass(frozen=True)
class Verdict:
    """What the figures say about a claim.

    Args:
        holds: True or False; None where it cannot be judged, and `figures` says why.
        figures: The numbers, in words.
    """

    holds: bool | None
    figures: str


@dataclass(frozen=True)
class Claim:
    """A sentence that can turn out to be false.

    Args:
        sentence: What should be seen.
        check: data -> Verdict.
        judged_from: The smallest scale that can tell; below it the figures are given without a verdict.
        paper: The paper's own figure for it, where it gives one.
    """

    sentence: str
    check: Callable[[Data], Verdict]
    judged_from: Scale = "smoke"
    paper: str = ""

    def verdict(self, data: Data, scale: Scale) -> Verdict:
        """Judge the claim by data made at a scale."""
        found = self.check(data)
        if found.holds is None or SCALES.index(scale) >= SCALES.index(self.judged_from):
            return found
        return Verdict(None, f"{found.figures}; not judged at this scale: too little training to tell")


@dataclass(frozen=True)
class Setting:
    """One value of an artefact's setting, and where it comes from.

    Args:
        name: Of the setting.
        value: As used at this scale.
        stated: Whether the paper states this value.
        why: Where it states it; or the reason for ours.
    """

    name: str
    value: str
    stated: bool
    why: str = ""


@dataclass(frozen=True)
class Artefact:
    """A figure or table of the paper.

    Args:
        name: On the command line.
        title: One line.
        caption: What is seen, in our own words.
        claims: What is checked.
        settings: scale -> what was set, stated or assumed.
        configs: scale -> the trainings that it needs, all of which are cached.
        run: (scale, session) -> data.
        plot: Draw data to a .svg or .png file.
        paper: What the paper itself shows: figure and numbers, to stand beside ours.
        notes: What a reader must know about it.
        findings: scale -> what was found out there, above all why a claim fails.
    """

    name: str
    title: str
    caption: str
    claims: tuple[Claim, ...]
    settings: Callable[[Scale], list[Setting]]
    configs: Callable[[Scale], list[Config]]
    run: Callable[[Scale, Session], Data]
    plot: Callable[[Data, Path], None]
    paper: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    findings: Mapping[Scale, str] = field(default_factory=dict)


def no_configs(scale: Scale) -> list[Config]:
    """For an artefact without cached trainings."""
    del scale
    return []
