"""Methods by name: how binary weights are trained. One row each; `train/` knows none of them by name.

A method is an optimizer of the binary weights with its hyperparameters, the options that its layers need (theta or
latent weights, binarizer, scaling, start, surrogate gradients), where its authors ask for them its own settings of the
real parameters, of the run and of the network, its own stages, and, where it changes with time, `on_step(model, step,
total)`.
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
