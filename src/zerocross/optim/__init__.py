"""Optimizers for binary weights: ordinary `torch.optim.Optimizer`s."""

import zerocross.needs_torch  # noqa: F401
from zerocross.optim.base import BinaryOptimizer
from zerocross.optim.bayesbinn import BayesBiNN
from zerocross.optim.bold import BOLD
from zerocross.optim.bop import Bop
from zerocross.optim.bop2ndorder import Bop2ndOrder
from zerocross.optim.cascade_filter import CascadeFilter
from zerocross.optim.clip import clip_after_step, project_after_step
from zerocross.optim.finite import NonFiniteError
from zerocross.optim.flips import ff_ratio, unwrapped
from zerocross.optim.gradient_filter import GradientFilter
from zerocross.optim.hooks import keep_after_step
from zerocross.optim.hybrid import HybridOptimizer
from zerocross.optim.iir_filter import IIRGradientFilter
from zerocross.optim.latent_sgd import LatentSGD
from zerocross.optim.ovsw import OvSW
from zerocross.optim.schedule import Ramp, Schedule, set_field, set_value
from zerocross.optim.split import ParamSplit, binary_kinds, split_params

__all__ = [
    "BOLD",
    "BayesBiNN",
    "BinaryOptimizer",
    "Bop",
    "Bop2ndOrder",
    "CascadeFilter",
    "GradientFilter",
    "HybridOptimizer",
    "IIRGradientFilter",
    "LatentSGD",
    "NonFiniteError",
    "OvSW",
    "ParamSplit",
    "Ramp",
    "Schedule",
    "binary_kinds",
    "clip_after_step",
    "ff_ratio",
    "keep_after_step",
    "project_after_step",
    "set_field",
    "set_value",
    "split_params",
    "unwrapped",
]
