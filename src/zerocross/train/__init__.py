"""Training: configs and recipes, the loop, checkpoints, and run folders.

Names are imported on first use (PEP 562), so that listing recipes does not import the training engine.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from zerocross.extras import named

if TYPE_CHECKING:
    from zerocross.train.assign import changed
    from zerocross.train.config import (
        Config,
        DataConfig,
        ModelConfig,
        RealConfig,
        Stage,
        TaskConfig,
        from_dict,
        to_dict,
    )
    from zerocross.train.evaluation import evaluate, recalibrate_batch_norm
    from zerocross.train.folder import Placement, read_config, read_placement
    from zerocross.train.inputs import Inputs, read_inputs
    from zerocross.train.loggers import MetricLogger
    from zerocross.train.loop import Fitted, fit, make_fabric
    from zerocross.train.ranks import LostPeerError, RendezvousError, RunError
    from zerocross.train.recipes import RECIPES, Recipe
    from zerocross.train.run import Finished, begin, load_data, load_inputs, load_model, resume
    from zerocross.train.stop import Stopped
    from zerocross.train.task import trained_run
    from zerocross.train.variants import with_method

_HOME = {
    "assign": ("changed",),
    "config": ("Config", "DataConfig", "ModelConfig", "RealConfig", "Stage", "TaskConfig", "from_dict", "to_dict"),
    "evaluation": ("evaluate", "recalibrate_batch_norm"),
    "folder": ("Placement", "read_config", "read_placement"),
    "inputs": ("Inputs", "read_inputs"),
    "loggers": ("MetricLogger",),
    "loop": ("Fitted", "fit", "make_fabric"),
    "ranks": ("LostPeerError", "RendezvousError", "RunError"),
    "recipes": ("RECIPES", "Recipe"),
    "run": ("Finished", "begin", "load_data", "load_inputs", "load_model", "resume"),
    "stop": ("Stopped",),
    "variants": ("with_method",),
    "task": ("trained_run",),
}

__all__ = [
    "RECIPES",
    "Config",
    "DataConfig",
    "Finished",
    "Fitted",
    "Inputs",
    "LostPeerError",
    "MetricLogger",
    "ModelConfig",
    "RendezvousError",
    "Placement",
    "RealConfig",
    "Recipe",
    "RunError",
    "Stage",
    "Stopped",
    "TaskConfig",
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
    "read_placement",
    "recalibrate_batch_norm",
    "resume",
    "to_dict",
    "trained_run",
    "with_method",
]


_RENAMED = {
    "Data": "DataConfig",
    "Model": "ModelConfig",
    "NoMeetingError": "RendezvousError",
    "Place": "Placement",
    "Real": "RealConfig",
    "Task": "TaskConfig",
    "read_place": "read_placement",
}


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        message = f"zerocross.train.{name} is deprecated, use zerocross.train.{_RENAMED[name]} instead"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        name = _RENAMED[name]
    for module, names in _HOME.items():
        if name in names:
            with named():
                return getattr(import_module(f"zerocross.train.{module}"), name)
    raise AttributeError(f"module 'zerocross.train' has no attribute {name!r}; it has {', '.join(__all__)}")
