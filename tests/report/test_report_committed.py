"""README, docs/claims.md and the committed page agree with the committed results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from zerocross.paper import registry
from zerocross.report import results
from zerocross.report.markup import text
from zerocross.report.sections import claims_of

ROOT = Path(__file__).parents[2]
ARTEFACTS = {found["name"]: found for found in results.read(ROOT / "results").artefacts}


@pytest.mark.parametrize("name", ARTEFACTS)
def test_the_table_counts_the_claims_that_hold(name: str):
    table = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    rows = re.findall(rf"^\| \[{name}\]\(\S+\) \|.*\| (.*?) \|$", table, re.MULTILINE)
    verdicts = [claim["holds"] for claim in claims_of(ARTEFACTS[name])]
    judged = [holds for holds in verdicts if holds is not None]
    assert rows == [f"{sum(judged)} of {len(judged)}" if judged else "not judged"]


def test_readme_counts_the_artefacts_whose_claims_hold():
    holding = [
        name for name, result in ARTEFACTS.items() if all(claim["holds"] is not False for claim in claims_of(result))
    ]
    stated = re.findall(r"In (\d+) of (\d+) figures and tables", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert stated == [(str(len(holding)), str(len(ARTEFACTS)))]


@pytest.mark.parametrize("name", ARTEFACTS)
def test_the_page_has_every_claim_with_its_figures(name: str):
    page = (ROOT / "docs" / "report.html").read_text(encoding="utf-8")
    for claim in claims_of(ARTEFACTS[name]):
        assert text(claim["sentence"]) in page
        assert text(claim["figures"]) in page


def test_all_artefacts_are_committed():
    not_run = {"one-number"}  # beyond the paper; takes almost two hours
    assert set(ARTEFACTS) == set(registry.ARTEFACTS) - not_run


@pytest.mark.parametrize("name", ARTEFACTS)
def test_failed_claims_are_explained(name: str):
    result = ARTEFACTS[name]
    if any(claim["holds"] is False for claim in claims_of(result)):
        assert registry.get(name).findings[result["scale"]] in result["notes"]
