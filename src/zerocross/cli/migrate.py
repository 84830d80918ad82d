"""`zerocross migrate`: settings of other optimizers of binary weights, as the call of ours that continues from them."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(
    help="Translate settings of another optimizer of binary weights into a GradientFilter call.", no_args_is_help=True
)

_EXACT = "Same signs: at constant rates, from a zero start, without clipping and scaling of latent weights."
_SUM = 1e-20  # alpha of a filter that forgets nothing, as without weight decay


@app.command("torch")
def from_torch(
    lr: Annotated[float, typer.Option(help="Learning rate of torch.optim.SGD.")],
    momentum: Annotated[float, typer.Option(help="From 0 to below 1.")] = 0.0,
    weight_decay: Annotated[float, typer.Option(help="0 or more.")] = 0.0,
    dampening: Annotated[float, typer.Option(help="From 0 to below 1.")] = 0.0,
    nesterov: Annotated[bool, typer.Option("--nesterov", help="Nesterov's momentum.")] = False,
) -> None:
    """From torch.optim.SGD on latent weights.

    zerocross migrate torch --lr 0.1 --momentum 0.9 --weight-decay 1e-4
    """
    from zerocross.filters import SGDSettings, alpha_gamma, from_sgd

    settings = SGDSettings(lr, momentum, weight_decay, dampening, nesterov)
    given = ", ".join(
        f"{name}={value}" for name, value in settings._asdict().items() if value or name in {"lr", "momentum"}
    )
    source = f"torch.optim.SGD({given}) on latent weights"
    filt = from_sgd(*settings)
    general = f"zerocross.optim.IIRGradientFilter(binary, zerocross.filters.from_sgd({given}))"
    try:
        alpha, gamma = alpha_gamma(filt)
    except ValueError:
        _print(
            source,
            general,
            "No alpha and gamma: the filter has complex poles, so that it is no pair of moving averages; see "
            "`zerocross filter`. IIRGradientFilter applies it as it is, without alpha-decay.",
        )
        return
    notes = [_EXACT]
    if nesterov:
        exact = (
            "Same poles, not the same signs: Nesterov's filter also has a zero. The exact filter, without alpha-decay:"
        )
        notes = [exact, f"    flips = {general}"]
    if dampening and momentum:
        notes.append("torch does not dampen the very first gradient: signs may differ until it is forgotten.")
    if weight_decay and momentum:
        notes.append(
            "torch applies weight decay before momentum, which accumulates it: alpha is not lr * weight_decay."
        )
    _print(source, _filter_call(alpha, gamma), *notes, *_common_notes(alpha))


@app.command("larq")
def from_larq(
    gamma: Annotated[float | None, typer.Option(help="Bop: adaptivity rate, in (0, 1].")] = None,
    threshold: Annotated[float | None, typer.Option(help="Bop: threshold, 0 or more; Larq's default is 1e-8.")] = None,
    lr: Annotated[float | None, typer.Option(help="Keras SGD on latent weights: learning rate.")] = None,
    momentum: Annotated[float, typer.Option(help="Keras SGD: from 0 to below 1.")] = 0.0,
    weight_decay: Annotated[float, typer.Option(help="Keras SGD: its own weight_decay, 0 or more.")] = 0.0,
    l2: Annotated[float, typer.Option(help="Keras SGD: factor of an l2 kernel regularizer, 0 or more.")] = 0.0,
) -> None:
    """From Larq: Bop, or Keras' SGD on latent weights.

    zerocross migrate larq --gamma 1e-4 --threshold 1e-8

    zerocross migrate larq --lr 0.1 --momentum 0.9 --weight-decay 1e-4
    """
    if (lr is None) == (gamma is None and threshold is None):
        raise ValueError("give the settings of Bop (--gamma, --threshold) or those of Keras' SGD (--lr, ...), not both")
    if lr is None:
        _from_bop(1e-4 if gamma is None else gamma, 1e-8 if threshold is None else threshold)
        return
    if weight_decay and l2:
        raise ValueError(f"--weight-decay {weight_decay} and --l2 {l2}: give one, two kinds of decay have no one alpha")
    from zerocross.filters import alpha_gamma, from_latent, from_sgd

    # Keras decays the weight itself, as the paper's Eq. 3 does; a regularizer's gradient, 2 l2 w, enters the momentum.
    if l2:
        decay, (alpha, inner) = f"an l2 regularizer of {l2}", alpha_gamma(from_sgd(lr, momentum, 2 * l2))
    else:
        from_latent(lr, weight_decay, 1 - momentum)  # checks the ranges
        decay, alpha, inner = f"weight_decay={weight_decay}", lr * weight_decay, 1 - momentum
    _print(
        f"Keras SGD(learning_rate={lr}, momentum={momentum}) with {decay}, on latent weights",
        _filter_call(alpha, inner),
        _EXACT,
        "Larq's ste_sign stops gradients beyond |w| = 1 and weight_clip clamps there. The filter has no magnitude to "
        "clip; alpha-decay takes their place.",
        *_common_notes(alpha),
    )


def _from_bop(gamma: float, threshold: float) -> None:
    if not 0 < gamma <= 1:
        raise ValueError(f"--gamma {gamma} is outside (0, 1]: Larq's default is 1e-4")
    if not threshold >= 0:
        raise ValueError(f"--threshold {threshold} must be 0 or more: Larq's default is 1e-8")
    call = _filter_call(gamma, 1.0)
    _print(
        f"larq.optimizers.Bop(gamma={gamma:g}, threshold={threshold:g})",
        call,
        "Bop's gamma is our alpha, and there is no second average (gamma=1.0 switches it off; 0.1 is the paper's)."
        + ("" if threshold == 0 else " The filter has no threshold: weights flip when the average crosses zero."),
        "Bop itself, with its threshold:",
        f"    flips = zerocross.optim.Bop(binary, gamma={gamma:g}, tau={threshold:g})",
        "larq.optimizers.CaseOptimizer becomes zerocross.HybridOptimizer(flips, real, model).",
    )


@app.command("authors")
def from_authors(
    alpha: Annotated[float, typer.Option(help="alpha of CEMA_Optimizer, in (0, 1].")],
    gamma: Annotated[float, typer.Option(help="gamma of CEMA_Optimizer, in (0, 1].")],
) -> None:
    """From CEMA_Optimizer in the paper's own repository.

    zerocross migrate authors --alpha 1e-3 --gamma 0.1
    """
    from zerocross.filters import cascade, ema

    cascade(ema(gamma), ema(alpha))  # checks both ranges
    _print(
        f"CEMA_Optimizer(params, alpha={alpha:g}, gamma={gamma:g})",
        _filter_call(alpha, gamma),
        "Same signs, also under alpha-decay; tested against 50 steps of the authors' code.",
        "Their lr is a factor of alpha that starts at 1, ours is alpha itself: schedulers that multiply (LambdaLR, "
        "StepLR, CosineAnnealingLR) carry over unchanged, absolute values (eta_min, max_lr) must be multiplied by "
        f"{alpha:g}.",
        "A weight that is exactly 0 stays 0 there; here it gets a random sign when the optimizer is constructed.",
    )


def _filter_call(alpha: float, gamma: float) -> str:
    return f"zerocross.GradientFilter(binary, alpha={alpha or _SUM:.8g}, gamma={gamma:.8g})"


def _common_notes(alpha: float) -> list[str]:
    import math

    if not alpha:
        return [f"No weight decay: no gradient is ever forgotten, which alpha={_SUM:g} comes down to."]
    start = f"warm_start={3 * math.sqrt(alpha / 2):.3g}"
    return [
        "Schedulers of lr become schedulers of alpha, which is the lr of the filter's param groups.",
        f"From trained weights, add {start}; otherwise the first update flips about half of them.",
    ]


def _print(source: str, call: str, *notes: str) -> None:
    """Print the code first and its explanation below, as comments: the whole output is Python."""
    import textwrap

    lines = ["import zerocross", "", "binary, real, no_decay = zerocross.split_params(model)", f"flips = {call}"]
    typer.echo(f"# {source}")
    typer.echo("\n".join(lines) + "\n")
    for note in notes:
        # Code in a note is indented and stays on one line, so that it can be copied.
        wrapped = [note] if note.startswith(" ") else textwrap.wrap(note, 116, break_on_hyphens=False)
        typer.echo("\n".join(f"# {line}" for line in wrapped))
