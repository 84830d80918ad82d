"""Binary layers for PyTorch: the sign and its surrogate gradients, layers, and tools for models."""

from __future__ import annotations

import zerocross.needs_torch  # noqa: F401
from zerocross.nn.average import AveragedModel
from zerocross.nn.binarize import Binarized, BinarizedLayer, BinarizeReport, binarize
from zerocross.nn.binarizers import BINARIZERS
from zerocross.nn.check import NotBinaryError, check
from zerocross.nn.layers import BinaryConv1d, BinaryConv2d, BinaryLinear
from zerocross.nn.react import RPReLU, RSign
from zerocross.nn.sign import SURROGATES, Sign, set_progress, sign
from zerocross.nn.start import start_epoch, start_from_batch
from zerocross.nn.summary import LayerSummary, Summary, summary

__all__ = [
    "BINARIZERS",
    "SURROGATES",
    "AveragedModel",
    "BinarizeReport",
    "Binarized",
    "BinarizedLayer",
    "BinaryConv1d",
    "BinaryConv2d",
    "BinaryLinear",
    "LayerSummary",
    "NotBinaryError",
    "RPReLU",
    "RSign",
    "Sign",
    "Summary",
    "binarize",
    "check",
    "set_progress",
    "sign",
    "start_epoch",
    "start_from_batch",
    "summary",
]
