"""Training: configs and recipes, the loop, checkpoints, and runs in folders."""

from zerocross.train.assign import changed
from zerocross.train.config import Config, Data, Model, Real, Stage, Task, from_dict, to_dict, with_method
from zerocross.train.evaluate import evaluate, recalibrate_batch_norm
from zerocross.train.loop import Fitted, RunError, fit, make_fabric
from zerocross.train.recipes import RECIPES, Recipe
from zerocross.train.run import Finished, Place, begin, load_data, load_model, resume
from zerocross.train.stop import Stopped

__all__ = [
    "RECIPES",
    "Config",
    "Data",
    "Finished",
    "Fitted",
    "Model",
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
    "load_model",
    "make_fabric",
    "recalibrate_batch_norm",
    "resume",
    "to_dict",
    "with_method",
]
