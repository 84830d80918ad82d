"""The parts of an artefact (a figure or table of the paper): claims, settings at three scales, a run, and a picture."""

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
Measured = dict[str, Any]  # the numbers that claims are judged on, as plain containers


class NotReady(ValueError):  # noqa: N818 - not an error
    """Raised for an artefact that needs another command first; the message names the command."""


@dataclass(frozen=True)
class Content:
    """The output of an artefact's run. `reproduce` writes it as JSON, from which pictures, claims and page are created.

    Args:
        measured: The numbers that claims are judged on, as plain containers.
        runs: Hash, label, seed, accuracy and time of every training of the artefact.
        panels: Panels to draw.
        tables: Tables to show.
        trace: Recorded gradients, each {label, gradients}, for the filter explorer of the page.
    """

    measured: Measured
    runs: Sequence[Mapping[str, Any]]
    panels: Sequence[Panel] = ()
    tables: Sequence[Table] = ()
    trace: Sequence[Mapping[str, Any]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain containers for JSON."""
        return {
            **({"panels": [each.to_dict() for each in self.panels]} if self.panels else {}),
            "tables": [each.to_dict() for each in self.tables],
            **({"trace": list(self.trace)} if self.trace else {}),
            "measured": self.measured,
            "runs": list(self.runs),
        }


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim.

    Args:
        holds: True or False; None if the claim cannot be judged, for the reason in `figures`.
        figures: The numbers, in words.
    """

    holds: bool | None
    figures: str


@dataclass(frozen=True)
class Claim:
    """A claim of the paper that can turn out to be false.

    Args:
        sentence: The claim.
        check: Content.measured -> Verdict.
        judged_from: The smallest scale at which the claim can be judged; below it, figures are shown without a verdict.
        paper: The paper's own figure, if it gives one.
    """

    sentence: str
    check: Callable[[Measured], Verdict]
    judged_from: Scale = "smoke"
    paper: str = ""

    def verdict(self, measured: Measured, scale: Scale) -> Verdict:
        """Judge the claim on numbers measured at a scale."""
        verdict = self.check(measured)
        if verdict.holds is None or SCALES.index(scale) >= SCALES.index(self.judged_from):
            return verdict
        return Verdict(None, f"{verdict.figures}; not judged at this scale: too little training")


@dataclass(frozen=True)
class Setting:
    """A setting of an artefact and its source.

    Args:
        name: Name of the setting.
        value: Its value at this scale.
        stated: True if the paper states this value.
        why: The section that states it, or the reason for our choice.
    """

    name: str
    value: str
    stated: bool
    why: str = ""


@dataclass(frozen=True)
class Artefact:
    """A figure or table of the paper.

    Args:
        name: Name on the command line.
        title: One line.
        caption: What the figure or table shows.
        claims: The claims to check.
        settings: scale -> the settings, each stated by the paper or assumed.
        configs: scale -> the trainings that it needs, which are cached.
        run: (scale, session) -> content.
        plot: Draws panels, or tables if there are no panels, to a .svg or .png file.
        paper: Figure and numbers of the paper, to compare with ours.
        notes: Notes for the reader.
        findings: scale -> observations at that scale, such as why a claim fails.
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
    """Return no configs, for an artefact without cached trainings."""
    del scale
    return []
