"""RBNN: the sign of weights turned towards the rotation in which signs lose least."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from zerocross.nn.binarizers.per_filter import centred, check_several, column
from zerocross.nn.sign import rbnn_temperature, sign

_ALTERNATIONS = 3  # theirs
_SMALL = 1e-12  # added to a standard deviation, so that a filter of equal weights does not become NaN


class RBNN(nn.Module):
    """Lin et al., *Rotated Binary Neural Network*, NeurIPS 2020::

        u = (w - mean) / std                            per filter, seen as an a x b matrix U
        v = u + |sin(angle)| (left' U right - u)        the rotated part takes no gradient; an angle per filter
        out = sign(v) scale                             a learned scale per filter, from mean|w|
        d sign / dv = max(0, k (sqrt(2) t - t^2 |v|))   k = max(1/t, 1); t from 1e-2 to 10 over training

    a is the largest divisor of a filter's size up to its square root. The rotations, left (a x a) and right (b x b),
    are shared by all filters of the layer, random at first, and fitted to the weights at the start of each epoch
    (`refit`, `zerocross.nn.start_epoch`). The angle starts at random between 0 and pi/2, as in the authors' first code
    for CIFAR-10. Their last code starts it at pi/2, where v is the rotated part alone and w gets no gradient until
    weight decay has moved the angle.

    Args:
        weight: The layer's latent weight.
    """

    left: Tensor
    right: Tensor
    temperature: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        check_several(weight, "RBNN")
        first = self.start(weight)
        self.scale = nn.Parameter(first["scale"])
        self.angle = nn.Parameter(torch.rand_like(first["angle"]) * (math.pi / 2))
        self.register_buffer("left", _random(first["left"]))
        self.register_buffer("right", _random(first["right"]))
        now = torch.tensor(rbnn_temperature(0), device=weight.device)
        self.register_buffer("temperature", now, persistent=False)

    def set_progress(self, progress: float) -> None:
        """Set the temperature for this progress of training, from 0 to 1."""
        self.temperature.fill_(rbnn_temperature(progress))

    @torch.no_grad()
    def refit(self, w: Tensor) -> None:
        """Fit both rotations to these weights: alternate between signs and rotations, which an SVD gives.

        Weights that are not finite leave them as they are: training reports the divergence itself.
        """
        if not bool(torch.isfinite(w).all()):
            return
        left, right = (r.to(torch.promote_types(r.dtype, torch.float32)) for r in (self.left, self.right))
        u = _standardized(w).to(left.dtype).reshape(-1, len(left), len(right))
        for _ in range(_ALTERNATIONS):
            b = sign(left.mT @ u @ right)
            left = _nearest_rotation((u @ right @ b.mT).sum(0))
            right = _nearest_rotation((u.mT @ left @ b).sum(0))
        self.left.copy_(left)
        self.right.copy_(right)

    def forward(self, w: Tensor) -> Tensor:
        """Return -1 and +1, times the learned scale per filter."""
        return sign(self.before_sign(w), "rbnn", self.temperature) * column(self.scale, w)

    def before_sign(self, w: Tensor) -> Tensor:
        """Return the standardised weight, turned by each filter's share."""
        u = _standardized(w)
        with torch.autocast(w.device.type, enabled=False):  # in bfloat16 signs would be others than those counted
            turned = self.left.mT @ u.detach().reshape(-1, len(self.left), len(self.right)) @ self.right
        return u + column(self.angle.sin().abs(), w) * (turned.view_as(u) - u)

    def start(self, w: Tensor) -> dict[str, Tensor]:
        """Return the mean of abs(w) per filter, and angles of pi/4; weights from elsewhere start unrotated."""
        scale = w.detach().abs().flatten(1).mean(1)
        left = _divisor(w[0].numel())
        sides = {"left": left, "right": w[0].numel() // left}
        rotations = {name: torch.eye(side, dtype=w.dtype, device=w.device) for name, side in sides.items()}
        return {"scale": scale, "angle": torch.full_like(scale, math.pi / 4), **rotations}


def _standardized(w: Tensor) -> Tensor:
    balanced = centred(w)
    return balanced / (column(balanced.flatten(1).std(1), w) + _SMALL)


def _divisor(n: int) -> int:
    """The largest divisor of n up to its square root."""
    return next(side for side in range(math.isqrt(n), 0, -1) if n % side == 0)


def _random(like: Tensor) -> Tensor:
    """A random orthogonal matrix, drawn in at least float32."""
    drawn = torch.empty_like(like, dtype=torch.promote_types(like.dtype, torch.float32))
    return nn.init.orthogonal_(drawn).to(like.dtype)


def _nearest_rotation(d: Tensor) -> Tensor:
    """The orthogonal matrix R with the largest trace of R' D."""
    u, _, vh = torch.linalg.svd(d)
    return u @ vh
