"""One finding about this machine, and how a list of them is printed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zerocross.checks import check_choice

STATES = ("ok", "missing", "broken")


@dataclass(frozen=True)
class Diagnosis:
    """The state of one piece.

    Args:
        area: the group it is printed in: "python", "processor", "extras", ...
        name: the piece.
        state: "ok"; "missing": something optional is absent or of another version; "broken": something
            essential does not work.
        detail: one line: the version, the folder, the reason.
        fix: the command or the step that adds the piece; empty where none is needed.
    """

    area: str
    name: str
    state: str
    detail: str
    fix: str = ""

    def __post_init__(self) -> None:
        check_choice("state", self.state, STATES)


def healthy(findings: Iterable[Diagnosis]) -> bool:
    """Whether nothing is broken; optional pieces may be missing."""
    return all(each.state != "broken" for each in findings)


def render(findings: Iterable[Diagnosis]) -> str:
    """Lay out findings area by area, each fix below its finding."""
    findings = list(findings)
    width = max(len(each.name) for each in findings)
    lines: list[str] = []
    area = None
    for each in findings:
        if each.area != area:
            area = each.area
            lines += ["", area]
        lines.append(f"  {each.name:{width}}  {each.state:7}  {each.detail}".rstrip())
        if each.fix:
            lines.append(f"  {'':{width}}  {'':7}  fix: {each.fix}")
    return "\n".join(lines[1:])
