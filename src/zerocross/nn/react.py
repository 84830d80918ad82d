"""ReActNet's two activations: a sign and a PReLU with learned shifts per channel."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zerocross.nn.sign import Sign


class RSign(nn.Module):
    """The sign around a learned threshold per channel (ReActNet): ``sign(x + shift)``.

    Args:
        channels: the size of dimension 1 of the input, which may be (N, C) or (N, C, H, W).
        surrogate: the surrogate gradient, a name of `SURROGATES`.
        standardize: see `Sign`.

    Examples:
        >>> import torch
        >>> from zerocross.nn import RSign
        >>> RSign(channels=1)(torch.tensor([[-0.5], [0.5]])).tolist()
        [[-1.0], [1.0]]
    """

    def __init__(self, channels: int, surrogate: str = "polynomial", standardize: str = "none") -> None:
        super().__init__()
        self.sign = Sign(surrogate, standardize=standardize)
        self.shift = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """Return -1 or +1 for every element."""
        return self.sign(x + per_channel(self.shift, x))

    def extra_repr(self) -> str:
        """Return the settings of this layer for print."""
        return f"{len(self.shift)}"


class RPReLU(nn.Module):
    """A PReLU with learned shifts before and after it (ReActNet): ``prelu(x + shift_in) + shift_out``.

    Args:
        channels: the size of dimension 1 of the input, which may be (N, C) or (N, C, H, W).
        slope: the initial slope on the negative side.

    Examples:
        >>> import torch
        >>> from zerocross.nn import RPReLU
        >>> RPReLU(channels=1)(torch.tensor([[-4.0], [4.0]])).tolist()
        [[-1.0], [4.0]]
    """

    def __init__(self, channels: int, slope: float = 0.25) -> None:
        super().__init__()
        self.shift_in = nn.Parameter(torch.zeros(channels))
        self.slope = nn.Parameter(torch.full((channels,), slope))
        self.shift_out = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """Apply shift, PReLU and shift to every element."""
        shifted = x + per_channel(self.shift_in, x)
        bent = torch.where(shifted >= 0, shifted, per_channel(self.slope, x) * shifted)
        return bent + per_channel(self.shift_out, x)

    def extra_repr(self) -> str:
        """Return the settings of this layer for print."""
        return f"{len(self.slope)}"


def per_channel(values: Tensor, x: Tensor) -> Tensor:
    """Return one value per channel in the dtype of `x`, in a shape that broadcasts along its dimension 1."""
    # The dtype matters: a float32 parameter would promote a bfloat16 activation to float32.
    return values.to(x.dtype).view(-1, *(1,) * (x.dim() - 2))
