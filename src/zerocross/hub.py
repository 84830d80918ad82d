"""Push trained networks to the Hugging Face Hub and load them from there (extra `hub`).

    zerocross.hub.push("runs/mine", "user/name")             # packed file, weights and card (also as README.md)
    network = zerocross.hub.from_pretrained("user/name")     # the PyTorch network, in evaluation mode
    packed = zerocross.hub.load("user/name")                 # the packed network, without torch

`save` writes the same files to a folder, which `from_pretrained` and `load` can read, too. Files are checked against
the SHA-256 on the card. No pickle is written or read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from zerocross.checks import one_line
from zerocross.extras import named
from zerocross.files import write_text
from zerocross.zoo.card import Card, read_card, verified

if TYPE_CHECKING:
    from torch import nn

    from zerocross.runtime import Model

CARD, PACKED, WEIGHTS, PAGE = "card.json", "model.zcb", "model.safetensors", "README.md"
_TASKS = {"image": "image-classification", "logmel": "audio-classification", "wave": "audio-classification"}

__all__ = ["from_pretrained", "load", "push", "save"]


def push(
    run: str | Path,
    repo: str,
    *,
    private: bool | None = None,
    token: str | None = None,
    endpoint: str | None = None,
    **options: Any,
) -> str:
    """Push a finished run to the Hub as a new commit; create the repository if it does not exist.

    Args:
        run: Folder of the run.
        repo: Name of the repository, "user/name".
        private: Visibility of a new repository; by default the setting of the account.
        token: Token with write access; by default that of `hf auth login`.
        endpoint: Address of another hub.
        options: Options of `save`.

    Returns:
        The URL of the commit.

    Examples:
        >>> from zerocross import hub
        >>> try:
        ...     hub.push("runs/mine", "not a repository")
        ... except ValueError:
        ...     print("a repository is named user/name")
        ...
        a repository is named user/name
    """
    _check_repo(repo)
    with named():
        from huggingface_hub import CommitOperationAdd, HfApi
    with TemporaryDirectory(prefix="zerocross-") as folder:
        card = save(run, folder, name=repo.partition("/")[2], repo=repo, **options)
        api = HfApi(endpoint=endpoint, token=token, library_name="zerocross")
        files = [CommitOperationAdd(name, Path(folder) / name) for name in (CARD, PACKED, WEIGHTS, PAGE)]
        message = f"zerocross: {card.network}, {card.method}, {card.epochs} epochs, config {card.config}"
        with _named_errors(repo, "push to"):
            api.create_repo(repo, private=private, exist_ok=True)
            return api.create_commit(repo, files, commit_message=message).commit_url


def save(
    run: str | Path,
    folder: str | Path,
    *,
    name: str | None = None,
    repo: str = "user/name",
    title: str | None = None,
    licence: str = "Apache-2.0",
    data_licence: str | None = None,
    real: str = "float32",
    evaluate: bool = False,
    data_dir: str | None = None,
) -> Card:
    """Write the files that `push` uploads to a folder: card.json, model.zcb, model.safetensors and README.md.

    Args:
        run: Folder of a finished run.
        folder: Output folder; raises FileExistsError if it already contains one of these files.
        name: Name of the network; by default that of the folder.
        repo: Name of the repository on the Hub, for README.md.
        title: Short description of what the network does.
        licence: Licence of the network's files.
        data_licence: Licence of the training data, if zerocross does not know it.
        real: Data type of the weights of real layers: "float32" or "int8".
        evaluate: Evaluate the packed file for the card; this reads the run's dataset.
        data_dir: Folder of the datasets; by default as in the run.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from zerocross import hub, train
        >>> with TemporaryDirectory() as folder:
        ...     config = train.Config(stages=(train.Stage(epochs=1),))
        ...     finished = train.begin(config, Path(folder) / "run", show=False)
        ...     card = hub.save(finished.folder, Path(folder) / "mine")
        ...     print(sorted(path.name for path in Path(folder, "mine").iterdir()))
        ...
        ['README.md', 'card.json', 'model.safetensors', 'model.zcb']
    """
    with named():
        from zerocross import train
        from zerocross.zoo.add import write_entry
    run, folder = Path(run), Path(folder)
    if existing := [path for path in (CARD, PACKED, WEIGHTS, PAGE) if (folder / path).exists()]:
        raise FileExistsError(f"{folder} already contains {existing[0]}: choose another folder")
    place = train.Placement(data_dir) if data_dir is not None else None
    card = write_entry(
        run,
        folder,
        name or folder.resolve().name,
        real=real,
        files=(PACKED, WEIGHTS, CARD),
        about=lambda source: replace(source, title=title or source.title, licence=data_licence or source.licence),
        licence=licence,
        place=place,
        evaluate=evaluate,
        plain=True,
    )
    write_text(folder / PAGE, _page(card, train.load_inputs(run, place).preprocessing["kind"], repo))
    return card


def from_pretrained(source: str | Path, **where: Any) -> nn.Module:
    """Load a PyTorch network from the Hub or from a folder, in evaluation mode.

    Args:
        source: A folder written by `save`, or "user/name" on the Hub.
        where: `revision`, `token`, `endpoint`, `cache_dir`, `local_files_only` of huggingface_hub.hf_hub_download.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from zerocross import hub, train
        >>> with TemporaryDirectory() as folder:
        ...     config = train.Config(stages=(train.Stage(epochs=1),))
        ...     finished = train.begin(config, Path(folder) / "run", show=False)
        ...     card = hub.save(finished.folder, Path(folder) / "mine")
        ...     network = hub.from_pretrained(Path(folder) / "mine")  # or "user/name"
        ...
        >>> type(network).__name__
        'BiRealNet'
    """
    with named():
        from zerocross.zoo.network import build
    card = _card(source, where)
    return build(card, verified(_file(source, WEIGHTS, where), card.weights_sha256, _AGAIN))


def load(source: str | Path, threads: int = 1, **where: Any) -> Model:
    """Load a packed network from the Hub or from a folder, without torch.

    Args:
        source: As in `from_pretrained`.
        threads: Number of threads per call.
        where: As in `from_pretrained`.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from zerocross import hub, train
        >>> with TemporaryDirectory() as folder:
        ...     config = train.Config(stages=(train.Stage(epochs=1),))
        ...     finished = train.begin(config, Path(folder) / "run", show=False)
        ...     card = hub.save(finished.folder, Path(folder) / "mine")
        ...     packed = hub.load(Path(folder) / "mine")  # or "user/name"
        ...
        >>> packed.input_size
        (1, 8, 8)
    """
    with named():
        from zerocross import runtime
    card = _card(source, where)
    return runtime.load(verified(_file(source, PACKED, where), card.packed_sha256, _AGAIN), threads)


_AGAIN = "fetch it again, or push it again"


def _card(source: str | Path, where: dict[str, Any]) -> Card:
    return read_card(_file(source, CARD, where))


def _file(source: str | Path, name: str, where: dict[str, Any]) -> Path:
    folder = Path(source)
    if folder.is_dir():
        if not (folder / name).is_file():
            raise FileNotFoundError(f"{folder} has no {name}: it was not written by zerocross.hub.save")
        return folder / name
    if not isinstance(source, str) or not re.fullmatch(_REPO, source):
        raise FileNotFoundError(f"{source} is neither a folder nor the name of a model on the Hub (user/name)")
    with named():
        from huggingface_hub import hf_hub_download
    with _named_errors(source, f"fetch {name} of"):
        return Path(hf_hub_download(source, name, library_name="zerocross", **where))


_REPO = r"[\w.-]+/[\w.-]+"


def _check_repo(repo: str) -> None:
    if not re.fullmatch(_REPO, repo):
        raise ValueError(f"repo = {repo!r}: it must have the form user/name")


@contextmanager
def _named_errors(repo: str, what: str) -> Iterator[None]:
    """Convert errors of the Hub to one-line messages with a solution."""
    from huggingface_hub import errors

    try:
        yield
    except errors.RemoteEntryNotFoundError:
        raise FileNotFoundError(f"cannot {what} {repo}: it was not pushed by zerocross.hub") from None
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        raise FileNotFoundError(
            f"cannot {what} {repo}: the repository or revision does not exist, or it is private (log in with `hf auth "
            f"login`, or pass token=...) ({one_line(error)})"
        ) from None
    except errors.HfHubHTTPError as error:
        if error.response is not None and error.response.status_code in {401, 403}:
            raise PermissionError(
                f"cannot {what} {repo}: log in with `hf auth login`, or pass token=... ({one_line(error)})"
            ) from None
        raise ConnectionError(f"cannot {what} {repo}: try again later ({one_line(error)})") from None
    except errors.LocalEntryNotFoundError as error:
        raise ConnectionError(f"cannot {what} {repo}: the Hub cannot be reached, and there is no local copy") from error


def _page(card: Card, kind: str, repo: str) -> str:
    """Return README.md: metadata for the Hub, the card, and usage."""
    metadata = [
        "---",
        f"license: {card.licence.lower()}",
        "library_name: zerocross",
        "tags:",
        "- binary-neural-network",
    ]
    if kind in _TASKS:
        metadata.append(f"pipeline_tag: {_TASKS[kind]}")
    use = (
        "## Use\n\n```python\nimport zerocross\n\n"
        f'network = zerocross.hub.from_pretrained("{repo}")  # in PyTorch\n'
        f'packed = zerocross.hub.load("{repo}")  # without PyTorch\n```\n'
    )
    return "\n".join([*metadata, "---", "", card.markdown(), use])
