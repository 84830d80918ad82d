"""Binarizers turn a latent weight into -1 and +1 times a scale (AdaBin: two values): one published method per file.

A binarizer is a module constructed with the layer's weight (for its shape and initial values) and called with it:
forward(w) returns the weight that the layer computes with, differentiable in w and in the binarizer's own parameters;
before_sign(w) returns the real tensor of w's shape whose sign it takes, used to count flips; start(w) returns its own
parameters for weights loaded from elsewhere. A binarizer that changes during training has set_progress(progress); one
that fits something to the weights once per epoch has refit(w). Parameters that learn at a rate of their own are listed
in lr_factors: name -> share of the real parameters' learning rate.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from zerocross.nn.binarizers.adabin import AdaBin
from zerocross.nn.binarizers.binary_connect import BinaryConnect
from zerocross.nn.binarizers.dorefa import DoReFa
from zerocross.nn.binarizers.dsq import DSQ
from zerocross.nn.binarizers.ewgs import EWGS
from zerocross.nn.binarizers.ir_net import IRNet
from zerocross.nn.binarizers.ovsw import OvSWWeight
from zerocross.nn.binarizers.rbnn import RBNN
from zerocross.nn.binarizers.recu import ReCU
from zerocross.nn.binarizers.reste import ReSTE
from zerocross.nn.binarizers.siman import SiMaN
from zerocross.nn.binarizers.xnor_net import XNORNet
from zerocross.nn.binarizers.xnor_net_pp import XNORNetPP


class Binarizer(Protocol):
    """The interface of binarizers; see the module's docstring."""

    def __call__(self, w: Tensor, /) -> Tensor:
        """Return the weight that the layer computes with."""
        ...

    def before_sign(self, w: Tensor) -> Tensor:
        """Return the real tensor whose sign is taken."""
        ...

    def start(self, w: Tensor) -> dict[str, Tensor]:
        """Return the binarizer's own parameters for these weights."""
        ...


BINARIZERS = {
    "binaryconnect": BinaryConnect,
    "xnor-net": XNORNet,
    "xnor-net++": XNORNetPP,
    "dorefa": DoReFa,
    "ir-net": IRNet,
    "dsq": DSQ,
    "recu": ReCU,
    "reste": ReSTE,
    "adabin": AdaBin,
    "siman": SiMaN,
    "ovsw": OvSWWeight,
    "rbnn": RBNN,
    "ewgs": EWGS,
}
"""Name -> class, constructed with the layer's weight.

Examples:
    >>> import torch
    >>> from zerocross.nn import BINARIZERS
    >>> weight = torch.tensor([[0.2, -0.6]])
    >>> BINARIZERS["xnor-net"](weight)(weight).sign().tolist()
    [[1.0, -1.0]]
"""

__all__ = [
    "BINARIZERS",
    "DSQ",
    "EWGS",
    "RBNN",
    "AdaBin",
    "BinaryConnect",
    "Binarizer",
    "DoReFa",
    "IRNet",
    "OvSWWeight",
    "ReCU",
    "ReSTE",
    "SiMaN",
    "XNORNet",
    "XNORNetPP",
]
