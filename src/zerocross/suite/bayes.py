"""Bayesian search over the settings of a table, with many repeats at once.

A Gaussian process (BoTorch's SingleTaskGP with its default priors) is fitted to the scores seen so far, for all repeats
in one batch; the next trial is the untried setting with the highest expected improvement.
"""

from __future__ import annotations

import warnings

import numpy as np

from zerocross.suite.trials import qualities

INITIAL = 5  # random trials before the first model, as in zerocross.tune
_FIT_STEPS = 40


def bayesian_search(x: np.ndarray, table: np.ndarray, trials: int, repeats: int = 300, seed: int = 0) -> np.ndarray:
    """Return the quality of the selected setting after 1, 2, ... trials of each search: (repeats, trials).

    Args:
        x: Coordinates of the settings in [0, 1], (settings, parameters).
        table: Scores, settings by seeds, at least 2 seeds.
        trials: At most the number of settings.
        repeats: Number of searches; each sees one seed, in turn.
        seed: Seed of the initial trials.
    """
    count, seeds = table.shape
    if not 1 <= trials <= count:
        raise ValueError(f"trials is {trials}; it must be 1 to {count}, the number of settings")
    seen = np.arange(repeats) % seeds
    scores, quality = table.T[seen], qualities(table)[seen]
    random = np.random.default_rng(seed)
    tried = np.array([random.permutation(count)[: min(INITIAL, trials)] for _ in range(repeats)])
    while tried.shape[1] < trials:
        gain = _expected_improvement(x, tried, np.take_along_axis(scores, tried, axis=1))
        np.put_along_axis(gain, tried, -np.inf, axis=1)
        tried = np.column_stack([tried, gain.argmax(axis=1)])
    rows = np.arange(repeats)
    found = np.take_along_axis(scores, tried, axis=1)
    best = [tried[rows, found[:, :k].argmax(axis=1)] for k in range(1, trials + 1)]
    return np.column_stack([quality[rows, chosen] for chosen in best])


def _expected_improvement(x: np.ndarray, tried: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the expected improvement over the best score seen, (repeats, settings), in standard deviations."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    points = torch.from_numpy(x).double()
    seen = torch.from_numpy(scores).double().unsqueeze(-1)
    spread = seen.std(dim=1, keepdim=True)
    y = (seen - seen.mean(dim=1, keepdim=True)) / torch.where(spread > 0, spread, torch.ones_like(spread))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from fits that stop early: a worse model, not an error
        model = SingleTaskGP(points[torch.from_numpy(tried)], y, outcome_transform=None)
        fit_gpytorch_mll(
            ExactMarginalLogLikelihood(model.likelihood, model), optimizer_kwargs={"options": {"maxiter": _FIT_STEPS}}
        )
        with torch.no_grad():
            posterior = model.posterior(points.expand(len(y), *points.shape))
    deviation = posterior.variance.squeeze(-1).clamp_min(1e-12).sqrt()
    above = (posterior.mean.squeeze(-1) - y.amax(dim=1)) / deviation
    normal = torch.distributions.Normal(0.0, 1.0)
    gain = deviation * (above * normal.cdf(above) + normal.log_prob(above).exp())
    return (gain + 1e-12 * above).numpy()  # if all gains underflow, choose the one closest to an improvement
