"""Networks on the Hub: they can be pushed and loaded, from a folder and from a local server; no network access."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from forks import SMALL
from reference.fake_hub import TOKEN, Hub, serving
from zerocross import hub, train
from zerocross.cli import app
from zerocross.zoo.card import read_card


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub") / "run"
    assert app.run(["train", *SMALL, "--epochs", "1", "--quiet", "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def server() -> Iterator[Hub]:
    with serving(Hub()) as site:
        yield site


def same_network(run: Path, result: torch.nn.Module) -> bool:
    expected, state = train.load_model(run)[0].state_dict(), result.state_dict()
    assert not result.training
    return set(expected) == set(state) and all(torch.equal(expected[name], state[name]) for name in state)


def test_a_saved_folder_is_complete(run: Path, tmp_path: Path):
    card = hub.save(run, tmp_path / "mine", title="Scans of digits", evaluate=True)
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {
        "README.md", "card.json", "model.zcb", "model.safetensors",
    }  # fmt: skip
    assert card == read_card(tmp_path / "mine" / "card.json")
    assert (card.name, card.title, card.data_licence) == ("mine", "Scans of digits", "CC BY 4.0")
    assert card.samples == 359
    page = (tmp_path / "mine" / "README.md").read_text(encoding="utf-8")
    assert page.startswith("---\nlicense: apache-2.0\nlibrary_name: zerocross\n")
    assert "pipeline_tag: image-classification\n---\n" in page
    assert card.markdown() in page
    assert same_network(run, hub.from_pretrained(tmp_path / "mine"))
    x = np.random.default_rng(0).standard_normal((4, 1, 8, 8)).astype(np.float32)
    with torch.no_grad():
        expected = hub.from_pretrained(str(tmp_path / "mine"))(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(hub.load(tmp_path / "mine")(x), expected, atol=1e-4)
    with pytest.raises(FileExistsError, match=r"already contains card\.json"):
        hub.save(run, tmp_path / "mine")


def test_a_pushed_network_can_be_loaded(run: Path, tmp_path: Path, server: Hub):
    address = hub.push(run, "someone/digits", token=TOKEN, endpoint=server.address)
    assert address == f"{server.address}/someone/digits/commit/{'0' * 39}1"
    files = server.repos["someone/digits"]
    assert set(files) == {"README.md", "card.json", "model.zcb", "model.safetensors"}
    card = json.loads(files["card.json"])
    assert card["name"] == "digits"
    assert card["samples"] == 0
    assert b"| packed file | not evaluated |" in files["README.md"]
    assert b'zerocross.hub.load("someone/digits")' in files["README.md"]
    assert server.messages == [f"zerocross: digits_net, filter, 1 epochs, config {card['config']}"]
    where = {"endpoint": server.address, "cache_dir": tmp_path / "cache"}
    assert same_network(run, hub.from_pretrained("someone/digits", **where))
    packed = hub.load("someone/digits", **where)
    assert packed.classes == tuple("0123456789")

    before, size = len(server.requests), len(files["model.zcb"])
    # Again, to the existing repository.
    hub.push(run, "someone/digits", token=TOKEN, endpoint=server.address, real="int8")
    assert len(server.repos["someone/digits"]["model.zcb"]) < size
    assert len(server.messages) == 2
    assert len(server.requests) - before < 10


def test_a_local_copy_is_read_without_the_hub(run: Path, tmp_path: Path, server: Hub):
    hub.push(run, "someone/digits", token=TOKEN, endpoint=server.address)
    where = {"endpoint": server.address, "cache_dir": tmp_path / "cache"}
    hub.from_pretrained("someone/digits", **where)
    before = len(server.requests)
    assert same_network(run, hub.from_pretrained("someone/digits", local_files_only=True, **where))
    assert len(server.requests) == before
    with pytest.raises(ConnectionError, match="the Hub cannot be reached, and there is no local copy"):
        hub.from_pretrained("someone/other", local_files_only=True, **where)


def test_changed_files_are_refused(run: Path, tmp_path: Path, server: Hub):
    hub.push(run, "someone/digits", token=TOKEN, endpoint=server.address)
    files = server.repos["someone/digits"]
    files["model.safetensors"] = files["model.safetensors"][:-1] + b"!"
    files["model.zcb"] = files["model.zcb"][:-1] + b"!"
    where = {"endpoint": server.address, "cache_dir": tmp_path / "cache"}
    for use in (hub.from_pretrained, hub.load):
        with pytest.raises(ValueError, match=r"does not match its card \(sha256 .* fetch it again"):
            use("someone/digits", **where)


def test_a_card_of_an_invalid_network_is_refused(run: Path, tmp_path: Path):
    hub.save(run, tmp_path / "mine")
    card = json.loads((tmp_path / "mine" / "card.json").read_text(encoding="utf-8"))
    for change, reason in (
        ({"network": "os.system"}, "model = 'os.system': it must be one of"),
        ({"options": {**card["options"], "wide": 3}}, "has no option 'wide'"),
        ({"options": {**card["options"], "width": "wide"}}, "cannot be built"),
        ({"options": {**card["options"], "width": 8}}, "does not fit the network"),
    ):
        (tmp_path / "mine" / "card.json").write_text(json.dumps({**card, **change}), encoding="utf-8")
        with pytest.raises(ValueError, match=reason):
            hub.from_pretrained(tmp_path / "mine")


def test_errors_suggest_a_solution(run: Path, tmp_path: Path, server: Hub):
    where = {"endpoint": server.address, "cache_dir": tmp_path / "cache"}
    with pytest.raises(PermissionError, match=r"cannot push to someone/digits: log in with `hf auth login`, or pass"):
        hub.push(run, "someone/digits", token="hf_wrong", endpoint=server.address)
    assert server.repos == {}
    with pytest.raises(
        FileNotFoundError, match=r"cannot fetch card\.json of someone/none: the repository or revision does not exist"
    ):
        hub.from_pretrained("someone/none", **where)
    server.repos["someone/else"] = {"README.md": b""}
    with pytest.raises(FileNotFoundError, match=r"someone/else: it was not pushed by zerocross\.hub"):
        hub.load("someone/else", **where)
    with pytest.raises(ValueError, match="repo = 'digits': it must have the form user/name"):
        hub.push(run, "digits")
    with pytest.raises(FileNotFoundError, match="neither a folder nor the name of a model on the Hub"):
        hub.from_pretrained(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match=r"has no card\.json: it was not written by zerocross\.hub\.save"):
        hub.from_pretrained(tmp_path)
    with pytest.raises(FileNotFoundError, match="is not a run folder"):
        hub.push(tmp_path, "someone/digits", token=TOKEN, endpoint=server.address)
    server.broken = 500
    with pytest.raises(ConnectionError, match="cannot push to someone/digits: try again later"):
        hub.push(run, "someone/digits", token=TOKEN, endpoint=server.address)


def test_the_packed_network_needs_no_torch(run: Path, tmp_path: Path):
    hub.save(run, tmp_path / "mine")
    code = "import sys, zerocross; zerocross.hub.load(sys.argv[1]); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path / "mine")], check=False).returncode == 0
