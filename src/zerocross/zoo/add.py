"""Create an entry of the zoo from a finished run: packed file, weights and card.

In a checkout, this command adds a run to the zoo or replaces an entry:

    zerocross zoo add RUN --name cifar10 --overwrite

It packs the run's final weights, evaluates the packed file on the test data (which must be available: --data-dir or
ZEROCROSS_DATA), times it, and checks that the PyTorch network agrees with it. It writes NAME.zcb, NAME.safetensors and
NAME.json to src/zerocross/zoo/files/, copies the run's result to results/runs/ if it is missing, and updates the table
in docs/zoo.md. `--real int8` stores real weights as one byte each, in both files.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import nn

from zerocross import runtime, train
from zerocross.data.dataset import Dataset
from zerocross.deploy import Packed, pack
from zerocross.files import write_json, write_whole
from zerocross.provenance import provenance
from zerocross.runtime.preprocess import Preprocessing
from zerocross.train.folder import read_json
from zerocross.train.run import save_weights
from zerocross.zoo.card import Card, checksum, write_card
from zerocross.zoo.command import train_command
from zerocross.zoo.network import build, quantise, weights_file
from zerocross.zoo.sources import SOURCES, Source

REAL_TYPES = ("float32", "int8")
# Minimum share of samples with the same class: in float32, rounding changes a few signs. With int8 weights, activations
# are rounded to bytes, too, and signs close to 0 change in every later layer (see docs/deploy.md for figures).
AGREEMENT = {"float32": 0.995, "int8": 0.7}
TURNS, TURN_SECONDS = 20, 0.02


@dataclass(frozen=True)
class TrainedRun:
    """A finished run: config, result, inputs and trained network."""

    config: train.Config
    result: dict[str, Any]
    inputs: train.Inputs
    model: nn.Module


def read_run(run: Path, place: train.Placement | None = None) -> TrainedRun:
    """Read a finished run and its network."""
    result = _result(run)
    config, inputs = train.read_config(run), train.load_inputs(run, place)
    model, which = train.load_model(run, place, inputs)
    if which != "final weights":
        raise ValueError(f"{run} has no final weights (model.safetensors): train it again")
    return TrainedRun(config, result, inputs, model.eval())


def _result(run: Path) -> dict[str, Any]:
    train.read_config(run)
    if not (run / "result.json").is_file():
        raise ValueError(f"{run} is not a finished run (it has no result.json): zerocross train --resume {run}")
    return read_json(run, "result.json")


def pack_run(trained: TrainedRun, real: str) -> Packed:
    """Return the packed network of a run."""
    inputs, config = trained.inputs, trained.config
    return pack(
        trained.model,
        inputs.input_size,
        real=real,
        preprocessing=Preprocessing.from_json(inputs.preprocessing),
        classes=inputs.class_names,
        provenance={
            "network": config.model.name,
            "method": config.method,
            "config": config.hash,
            "weights": "final weights",
            "data": inputs.source,
        },
    )


def write_entry(
    run: Path,
    folder: Path,
    name: str,
    *,
    real: str = "float32",
    files: tuple[str, str, str] | None = None,
    about: Callable[[Source], Source] = lambda source: source,
    licence: str = "Apache-2.0",
    place: train.Placement | None = None,
    evaluate: bool = True,
    plain: bool = False,
) -> Card:
    """Write the packed file, the weights and the card of a finished run to a folder, replacing existing files.

    Args:
        run: Folder of a finished run.
        folder: Output folder.
        name: Name of the network.
        real: Data type of real weights, "float32" or "int8".
        files: Names of the packed file, the weights and the card; by default NAME.zcb, NAME.safetensors, NAME.json.
        about: Function that modifies the description of the data on the card.
        licence: Licence of the network's files.
        place: Placement with the folder of the datasets; by default as in the run.
        evaluate: Evaluate the packed file on the run's evaluation data, which must be available.
        plain: Write the weights as a plain state dict, which any reader of safetensors understands.
    """
    if real not in REAL_TYPES:
        raise ValueError(f"real = {real!r}: it must be one of {', '.join(REAL_TYPES)}")
    trained = read_run(run, place)
    dataset = train.load_data(trained.config, place or train.read_placement(run)) if evaluate else None
    quantised = quantise(trained.model) if real == "int8" else {}
    packed = pack_run(trained, real)
    packed_name, weights_name, card_name = files or (f"{name}.zcb", f"{name}.safetensors", f"{name}.json")
    with TemporaryDirectory(prefix="zerocross-") as temporary:  # existing files stay until the new ones are checked
        packed_path, weights_path = Path(temporary) / packed_name, Path(temporary) / weights_name
        packed.save(packed_path)
        if plain:
            save_weights(trained.model, weights_path)
        else:
            weights_path.write_bytes(weights_file(trained.model, quantised))
        network = runtime.load(packed_path)
        card = replace(
            _card(trained, name, about, licence, real),
            float_bytes=packed.float_bytes,
            packed_file=packed_name,
            packed_bytes=packed_path.stat().st_size,
            packed_sha256=checksum(packed_path),
            weights_file=weights_name,
            weights_bytes=weights_path.stat().st_size,
            weights_sha256=checksum(weights_path),
            milliseconds=milliseconds(network),
        )
        if dataset is not None:
            card = _evaluated(card, network, build(card, weights_path), dataset)
        for path in (packed_path, weights_path):
            data = path.read_bytes()
            write_whole(folder / path.name, lambda file, data=data: file.write(data))
    write_card(folder / card_name, card)
    return card


def _evaluated(card: Card, packed: runtime.Model, network: nn.Module, dataset: Dataset) -> Card:
    samples, correct, agreeing = compare(packed, network, dataset)
    least = AGREEMENT[card.real]
    if agreeing < least * samples:
        raise ValueError(
            f"the packed file and the PyTorch network give the same class for only {agreeing} of {samples} samples; at "
            f"least {least:.1%} are expected. This indicates an error; no files were written"
        )
    return replace(card, samples=samples, correct=correct, agreeing=agreeing)


def keep_result(run: Path, results: Path) -> Path:
    """Copy a run's result to results/runs/, to which cards refer; an existing result must be of the same training."""
    result = _result(run)
    path = results / f"{result['hash']}.json"
    if path.exists():
        if (stored := read_json(results, path.name))["final"] != result["final"]:
            raise ValueError(
                f"{path} contains a different result of this config ({stored['final']['top1']:.2f} %, this run has "
                f"{result['final']['top1']:.2f} %): move one of them to another folder"
            )
        return path
    write_json(path, result)
    return path


@torch.no_grad()
def compare(packed: runtime.Model, network: nn.Module, dataset: Dataset) -> tuple[int, int, int]:
    """Return the numbers of evaluation samples, of correct predictions of the packed file, and of equal predictions."""
    samples = correct = agreeing = 0
    for x, y in dataset.eval_batches(250).epoch():
        predicted = packed(x.numpy()).argmax(1)
        samples += len(y)
        correct += int((predicted == y.numpy()).sum())
        agreeing += int((predicted == network(x).argmax(1).numpy()).sum())
    return samples, correct, agreeing


def milliseconds(packed: runtime.Model) -> float:
    """Return the time of one prediction with batch size 1 on one thread: the smallest median of several turns."""
    x = np.random.default_rng(0).standard_normal((1, *packed.input_size)).astype(np.float32)
    packed(x)
    medians = []
    for _ in range(TURNS):
        times, until = [], time.perf_counter() + TURN_SECONDS
        while time.perf_counter() < until or len(times) < 3:
            began = time.perf_counter()
            packed(x)
            times.append(time.perf_counter() - began)
        medians.append(statistics.median(times))
    return round(1000 * min(medians), 4)


def _card(trained: TrainedRun, name: str, about: Callable[[Source], Source], licence: str, real: str) -> Card:
    config, result, inputs = trained.config, trained.result, trained.inputs
    unknown = Source("{source}", "{source}", "not stated", "address not stated")
    source = about(SOURCES.get(config.data.name, unknown))
    title, data = (text.format(source=inputs.source) for text in (source.title, source.data))
    binarize = config.stages[-1].binarize
    versions = result["provenance"]["versions"]
    options = {**config.model.options, "binarize": binarize}
    options.setdefault("classes", inputs.num_classes)
    return Card(
        name=name,
        title=title,
        data=data,
        data_licence=source.licence,
        data_address=source.address,
        licence=licence,
        network=config.model.name,
        options=options,
        input_size=list(inputs.input_size),
        class_names=list(inputs.class_names),
        method=config.method,
        recipe=config.recipe,
        command=train_command(config),
        epochs=sum(stage.epochs for stage in config.stages),
        seed=config.seed,
        config=config.hash,
        evaluated_on=result["evaluated_on"],
        trained_top1=round(result["final"]["top1"], 4),
        samples=0,
        correct=0,
        agreeing=0,
        real=real,
        float_bytes=0,
        packed_file="",
        packed_bytes=0,
        packed_sha256="",
        weights_file="",
        weights_bytes=0,
        weights_sha256="",
        milliseconds=0.0,
        cpu=provenance()["machine"]["cpu"],
        made_with=f"zerocross {versions['zerocross']}, torch {versions['torch']}, {result['provenance']['date'][:10]}",
    )
