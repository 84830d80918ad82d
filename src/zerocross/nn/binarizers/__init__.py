"""How a latent weight becomes -1 and +1 times a scale (AdaBin: one of two values): one published method a file.

A binarizer is a module that is made with the layer's weight (its shape, and its values for a start) and called with it:
forward(w) is the weight that the layer computes with, differentiable in w and in the binarizer's own parameters;
before_sign(w) is the real tensor of w's shape whose sign it takes, by which flips are counted; start(w) gives its own
parameters for weights that come from elsewhere. One that changes with time has set_progress(progress).
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from zerocross.nn.binarizers.adabin import AdaBin
from zerocross.nn.binarizers.binary_connect import BinaryConnect
from zerocross.nn.binarizers.dorefa import DoReFa
from zerocross.nn.binarizers.dsq import DSQ
from zerocross.nn.binarizers.ir_net import IRNet
from zerocross.nn.binarizers.ovsw import OvSWWeight
from zerocross.nn.binarizers.recu import ReCU
from zerocross.nn.binarizers.reste import ReSTE
from zerocross.nn.binarizers.siman import SiMaN
from zerocross.nn.binarizers.xnor_net import XNORNet
from zerocross.nn.binarizers.xnor_net_pp import XNORNetPP


class Binarizer(Protocol):
    """What every binarizer offers; see the module's text."""

    def __call__(self, w: Tensor, /) -> Tensor:
        """The weight that the layer computes with."""
        ...

    def before_sign(self, w: Tensor) -> Tensor:
        """The real tensor whose sign is taken."""
        ...

    def start(self, w: Tensor) -> dict[str, Tensor]:
        """The binarizer's own parameters for such weights."""
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
}
"""Name -> class, made with the layer's weight."""

__all__ = [
    "BINARIZERS",
    "DSQ",
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
