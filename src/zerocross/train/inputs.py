"""Inputs and classes of a run's network, stored in its folder, so that packing needs no dataset."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zerocross.data.dataset import Dataset
from zerocross.files import write_json
from zerocross.train.folder import read_json

NAME = "inputs.json"


@dataclass(frozen=True)
class Inputs:
    """The properties of a dataset that a trained network needs.

    Args:
        input_size: Size of one sample.
        class_names: One per class.
        preprocessing: How a file becomes an input, as zerocross.runtime.preprocess.Preprocessing.from_json reads it.
        source: A description of the data.

    Examples:
        >>> from zerocross import train
        >>> preprocessing = {"kind": "image", "mean": [0.5], "std": [0.5]}
        >>> train.Inputs((1, 8, 8), ("cat", "dog"), preprocessing, source="photographs").num_classes
        2
    """

    input_size: tuple[int, ...]
    class_names: tuple[str, ...]
    preprocessing: dict[str, Any]
    source: str

    @property
    def num_classes(self) -> int:
        """The number of class names."""
        return len(self.class_names)


def inputs_of(dataset: Dataset) -> Inputs:
    """Return the inputs and classes of a dataset."""
    statistics = {"mean": list(dataset.mean), "std": list(dataset.std)}
    return Inputs(
        input_size=dataset.input_size,
        class_names=dataset.class_names,
        preprocessing={**dataset.preprocess, **statistics},
        source=dataset.source,
    )


def write_inputs(folder: Path, inputs: Inputs) -> None:
    """Write inputs.json to a run folder, atomically."""
    values = {
        "input_size": list(inputs.input_size),
        "class_names": list(inputs.class_names),
        "preprocessing": inputs.preprocessing,
        "source": inputs.source,
    }
    write_json(folder / NAME, values)


def read_inputs(folder: Path) -> Inputs | None:
    """Read inputs.json of a run folder; None if it does not exist, as in folders of older versions.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from zerocross import train
        >>> with TemporaryDirectory() as folder:
        ...     print(train.read_inputs(Path(folder)))
        ...
        None
    """
    if not (folder / NAME).exists():
        return None
    values = read_json(folder, NAME)
    size, names = values.get("input_size"), values.get("class_names")
    right = (
        isinstance(size, list)
        and all(type(side) is int and side > 0 for side in size)
        and isinstance(names, list)
        and all(isinstance(name, str) for name in names)
        and isinstance(values.get("preprocessing"), dict)
        and isinstance(values.get("source"), str)
    )
    if not right or not size or not names:
        raise ValueError(
            f"{folder / NAME} is damaged: it must have input_size, class_names, preprocessing and source; remove it, "
            "and the run's dataset is read instead"
        )
    return Inputs(tuple(size), tuple(names), values["preprocessing"], values["source"])
