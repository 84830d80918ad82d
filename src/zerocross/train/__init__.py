"""Training: configs and recipes, the loop, checkpoints, and runs in folders.

Names are imported on first use (PEP 562): a list of recipes needs no training engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from zerocross.extras import named

if TYPE_CHECKING:
    from zerocross.train.assign import changed
    from zerocross.train.config import Config, Data, Model, Real, Stage, Task, from_dict, to_dict
    from zerocross.train.evaluation import evaluate, recalibrate_batch_norm
    from zerocross.train.folder import Place, read_config, read_place
    from zerocross.train.inputs import Inputs, read_inputs
    from zerocross.train.loop import Fitted, fit, make_fabric
    from zerocross.train.ranks import LostPeerError, NoMeetingError, RunError
    from zerocross.train.recipes import RECIPES, Recipe
    from zerocross.train.run import Finished, begin, load_data, load_inputs, load_model, resume
    from zerocross.train.stop import Stopped
    from zerocross.train.task import trained_run
    from zerocross.train.variants import with_method

_HOME = {
    "assign": ("changed",),
    "config": ("Config", "Data", "Model", "Real", "Stage", "Task", "from_dict", "to_dict"),
    "evaluation": ("evaluate", "recalibrate_batch_norm"),
    "folder": ("Place", "read_config", "read_place"),
    "inputs": ("Inputs", "read_inputs"),
    "loop": ("Fitted", "fit", "make_fabric"),
    "ranks": ("LostPeerError", "NoMeetingError", "RunError"),
    "recipes": ("RECIPES", "Recipe"),
    "run": ("Finished", "begin", "load_data", "load_inputs", "load_model", "resume"),
    "stop": ("Stopped",),
    "variants": ("with_method",),
    "task": ("trained_run",),
}

__all__ = [
    "RECIPES",
    "Config",
    "Data",
    "Finished",
    "Fitted",
    "Inputs",
    "LostPeerError",
    "Model",
    "NoMeetingError",
    "Place",
    "Real",
    "Recipe",
    "RunError",
    "Stage",
    "Stopped",
    "Task",
    "begin",
    "changed",
    "evaluate",
    "fit",
    "from_dict",
    "load_data",
    "load_inputs",
    "load_model",
    "make_fabric",
    "read_config",
    "read_inputs",
    "read_place",
    "recalibrate_batch_norm",
    "resume",
    "to_dict",
    "trained_run",
    "with_method",
]


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            with named():
                return getattr(import_module(f"zerocross.train.{module}"), name)
    raise AttributeError(f"module 'zerocross.train' has no attribute {name!r}; it has {', '.join(__all__)}")
