"""What a figure or table of the paper is here: claims, settings at three scales, a run, and a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from zerocross.figures.panel import Panel, Table

if TYPE_CHECKING:
    from zerocross.paper.session import Session
    from zerocross.train.config import Config

Scale = Literal["smoke", "reduced", "paper"]
SCALES: tuple[Scale, ...] = get_args(Scale)
Measured = dict[str, Any]  # the numbers that claims are judged by, as plain containers


class NotReady(ValueError):  # noqa: N818 - nothing is wrong
    """An artefact that another command makes first; the message names it."""


@dataclass(frozen=True)
class Content:
    """What an artefact's run gives; `reproduce` writes it as JSON, and pictures, claims and the page read only that.

    Args:
        measured: The numbers that claims are judged by, as plain containers.
        runs: Hash, label, seed, accuracy and time of every training behind it.
        panels: What is drawn.
        tables: What is listed.
        trace: Recorded gradients, {label, gradients} each, for the page's filter explorer.
    """

    measured: Measured
    runs: Sequence[Mapping[str, Any]]
    panels: Sequence[Panel] = ()
    tables: Sequence[Table] = ()
    trace: Sequence[Mapping[str, Any]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain containers, fit for JSON."""
        return {
            **({"panels": [each.to_dict() for each in self.panels]} if self.panels else {}),
            "tables": [each.to_dict() for each in self.tables],
            **({"trace": list(self.trace)} if self.trace else {}),
            "measured": self.measured,
            "runs": list(self.runs),
        }


@dataclass(frozen=True)
class Verdict:
    """What the numbers say about a claim.

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
        check: Content.measured -> Verdict.
        judged_from: The smallest scale that can tell; below it the numbers are given without a verdict.
        paper: The paper's own number for it, where it gives one.
    """

    sentence: str
    check: Callable[[Measured], Verdict]
    judged_from: Scale = "smoke"
    paper: str = ""

    def verdict(self, measured: Measured, scale: Scale) -> Verdict:
        """Judge the claim by numbers measured at a scale."""
        verdict = self.check(measured)
        if verdict.holds is None or SCALES.index(scale) >= SCALES.index(self.judged_from):
            return verdict
        return Verdict(None, f"{verdict.figures}; not judged at this scale: too little training to tell")


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
        run: (scale, session) -> content.
        plot: Draws panels, or tables where there is no panel, to a .svg or .png file.
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
    run: Callable[[Scale, Session], Content]
    plot: Callable[[Sequence[Panel], Sequence[Table], Path], None]
    paper: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    findings: Mapping[Scale, str] = field(default_factory=dict)


def no_configs(scale: Scale) -> list[Config]:
    """For an artefact without cached trainings."""
    del scale
    return []
