"""Every artefact at smoke scale: files, pictures and reuse of trained runs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zerocross import train
from zerocross.cli.outputs import are_ours
from zerocross.figures.panel import panel_from, table_from
from zerocross.paper import fig5, fig6
from zerocross.paper.artefact import NotReady
from zerocross.paper.registry import ARTEFACTS
from zerocross.paper.reproduce import KIND, make, paths
from zerocross.paper.session import Session

Documents = Callable[[str], dict[str, Any]]
TRAINED = ("fig3", "fig4", "fig5", "fig6", "fig7", "table2")


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Return one folder for all tests and all processes of a parallel test run, which share trained runs."""
    base = tmp_path_factory.getbasetemp()
    home = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "reproduced"
    return Session(train.Placement(), home, home / "work", show=False)


@pytest.fixture(scope="session")
def documents(session: Session) -> Documents:
    """Return a function that gives the JSON of an artefact, computed once."""
    documents: dict[str, dict[str, Any]] = {}

    def get(name: str) -> dict[str, Any]:
        if name not in documents:
            make(ARTEFACTS[name], "smoke", session)
            documents[name] = json.loads(paths(session.out, name, "smoke")["json"].read_text())
        return documents[name]

    return get


def never(*words: object, **values: object) -> None:
    raise AssertionError("something was trained")


def test_artefacts_of_the_paper_come_first_in_its_order() -> None:
    assert list(ARTEFACTS) == [
        "table1", "fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "table2", "table3", "fig8", "appendix",
        "precision", "one-number",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ARTEFACTS)
def test_smoke_scale_has_claims_settings_and_provenance(documents: Documents, session: Session, name: str) -> None:
    document = documents(name)
    assert (document["kind"], document["name"], document["scale"]) == (KIND, name, "smoke")
    assert document["claims"]
    assert not [claim for claim in document["claims"] if claim["holds"] is False]
    assert all(claim["sentence"] and claim["figures"] for claim in document["claims"])
    assert document["settings"]
    assert all(isinstance(each["stated"], bool) and each["value"] and each["why"] for each in document["settings"])
    provenance = document["provenance"]
    assert {"commit", "versions", "machine", "date", "seeds", "configs"} <= set(provenance)
    assert provenance["configs"] == sorted({run["hash"] for run in document["data"]["runs"]})
    assert document["seconds"] == pytest.approx(sum(run["seconds"] for run in document["data"]["runs"]), abs=0.1)
    assert all(path.stat().st_size > 1000 for path in paths(session.out, name, "smoke").values())


@pytest.mark.parametrize("name", ARTEFACTS)
def test_every_curve_has_a_value_and_a_count_at_each_point(documents: Documents, name: str) -> None:
    data = documents(name)["data"]
    for panel in data.get("panels", []):
        assert panel["curves"]
        for curve in panel["curves"]:
            size = len(curve["x"])
            assert size == len(curve["mean"]) > 0
            assert curve["n"] is None or isinstance(curve["n"], int) or len(curve["n"]) == size
            if curve["low"] is not None:
                triples = zip(curve["low"], curve["mean"], curve["high"], strict=True)
                assert all(low - 1e-9 <= mean <= high + 1e-9 for low, mean, high in triples)
    for table in data.get("tables", []):
        assert all(len(row) == len(table["columns"]) for row in table["rows"])


@pytest.mark.parametrize("name", ["table1", "fig4", "table2", "appendix"])
def test_pictures_are_drawn_from_the_json_only(
    documents: Documents, session: Session, name: str, tmp_path: Path
) -> None:
    data = documents(name)["data"]
    panels, tables = map(panel_from, data.get("panels", [])), map(table_from, data["tables"])
    ARTEFACTS[name].plot(list(panels), list(tables), tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_bytes() == paths(session.out, name, "smoke")["svg"].read_bytes()


@pytest.mark.parametrize("name", ["fig2", "fig5", "fig7", "fig8", "table3"])
def test_nothing_is_trained_twice(
    documents: Documents, session: Session, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = documents(name)
    monkeypatch.setattr(train, "begin", never)
    monkeypatch.setattr(train, "fit", never)
    monkeypatch.setattr("zerocross.paper.exact.signs", never)
    again = ARTEFACTS[name].run("smoke", session)
    assert json.loads(json.dumps(again.to_dict())) == before["data"]


def test_figures_share_runs() -> None:
    fifth, sixth = ({config.hash for config in each.configs("reduced")} for each in (fig5, fig6))
    assert len(fifth & sixth) == 2  # the filter at alpha 0.01 with decay, for both seeds


def test_fig2_contains_complete_traces(documents: Documents) -> None:
    traces = documents("fig2")["data"]["trace"]
    assert len(traces) == 6
    assert len({trace["label"] for trace in traces}) == 6
    assert all(len(trace["gradients"]) == 44 for trace in traces)  # two epochs of 22 updates
    assert all(any(trace["gradients"]) for trace in traces)


def test_pairs_of_fig7_coincide(documents: Documents) -> None:
    """Bit-identical in float64 (a claim); in float32, rounding may cause small differences."""
    for panel in documents("fig7")["data"]["panels"]:
        one, other = panel["curves"]
        assert sum(one["mean"]) == pytest.approx(sum(other["mean"]), rel=0.05)


def test_table3_at_paper_scale_requires_torchrun(session: Session) -> None:
    with pytest.raises(NotReady, match="torchrun --nproc-per-node 3 -m zerocross train imagenet-reactnet-a"):
        make(ARTEFACTS["table3"], "paper", session)


def test_failed_runs_are_reported_after_all_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def fail(config: train.Config, *words: object, **values: object) -> None:
        tried.append(config.hash)
        raise train.RunError("training has diverged")

    monkeypatch.setattr(train, "begin", fail)
    with pytest.raises(train.RunError, match=r"3 of 3 runs failed: alpha 0\.001: training has diverged"):
        make(ARTEFACTS["fig5"], "smoke", Session(train.Placement(), tmp_path, tmp_path / "work", show=False))
    assert len(tried) == 3
    assert not list(tmp_path.glob("fig5*"))


def test_other_files_are_not_replaced(tmp_path: Path) -> None:
    files = paths(tmp_path, "fig5", "smoke")
    are_ours(files, KIND)
    files["json"].write_text(json.dumps({"kind": KIND}))
    are_ours(files, KIND)
    files["json"].write_text("{}")
    with pytest.raises(FileExistsError, match="is not from an earlier call"):
        are_ours(files, KIND)
