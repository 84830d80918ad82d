"""Methods for training binary weights, by name: one row each in `registry.py`.

A method consists of an optimizer of the binary weights with its hyperparameters and the options of its layers (theta or
latent weights, binarizer, scaling, initialisation, surrogate gradients). If its authors prescribe them, it also has
settings of the real parameters, of the run and of the network, stages, and a callback `on_step(model, step, total)`.
"""

from zerocross.methods.method import Method, StageTemplate, Value, tell_progress
from zerocross.methods.registry import METHODS
from zerocross.methods.values import current_name, first_values, get, hyperparameters, ramps

__all__ = [
    "METHODS",
    "Method",
    "StageTemplate",
    "Value",
    "current_name",
    "first_values",
    "get",
    "hyperparameters",
    "ramps",
    "tell_progress",
]
