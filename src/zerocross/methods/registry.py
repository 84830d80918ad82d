"""The registry of methods."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from zerocross.methods import optimizers
from zerocross.methods.method import Method, StageTemplate, Value

_PAPER = "Quist, Li, van Gemert, Understanding weight-magnitude hyperparameters in training binary networks, ICLR 2023"
_LATENT_TUNED = ("lr", "lr-decay", "start", "momentum", "weight decay", "scaling", "clipping")
_SGD = {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4, "schedule": "cosine"}
_START = "latent weights start uniform within +-0.1: assumed"


def _latent(binarizer: str, **more: Value) -> dict[str, Value]:
    return {"weights": "latent", "binarizer": binarizer, **more}


def _same(optimizer: str, hyperparameters: Mapping[str, Value], **more: Value) -> dict[str, Value]:
    """Return settings of real parameters for methods whose authors train all parameters with one optimizer."""
    return {"name": optimizer, **hyperparameters, **more}


_IR_NET = _SGD
_RECU = {**_SGD, "weight_decay": 5e-4}
_BINARYNET = {"lr": 1e-3, "schedule": "exponential:3e-4"}
_XNOR = {"lr": 0.01, "weight_decay": 1e-5, "schedule": "step:0.375,0.625,0.75,0.875"}
_XNOR_PP = {"lr": 1e-3, "weight_decay": 0.0, "schedule": "step:0.4444,0.7778,0.8889"}
_SIMAN = {**_SGD, "weight_decay": 0.0}
_OVSW = {"lr": 0.1, "weight_decay": 5e-4, "schedule": "cosine"}
_DOREFA = {"lr": 1e-3, "weight_decay": 0.0, "schedule": "step:0.5*0.5"}
_EWGS = {"lr": 1e-3, "weight_decay": 1e-4, "schedule": "cosine"}


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "filter": Method(
            summary="the paper's optimizer: the sign of a second-order filter of the gradient (Eqs. 11-13)",
            source=_PAPER,
            hyperparameters={"alpha": 1e-3, "gamma": 0.1, "schedule": "cosine", "warm_start": 0.0},
            tuned=("alpha", "gamma", "alpha-decay"),
            settings="published, for CIFAR-10",
            build=optimizers.second_order,
            model_options={"weights": "theta"},
            lr_name="alpha",
            golden="quist_filter",
        ),
        "flip": Method(
            summary="the filter with one number: the share of weights that noise flips in each update, decayed to zero",
            source=f"after {_PAPER}",
            hyperparameters={
                "flip_rate": 1e-2,
                "gamma": 0.1,
                "control": "open",
                "normalize": "none",
                "schedule": "cosine",
                "warm_start": 0.0,
            },
            tuned=("flip rate",),
            settings="our choice: a flip rate of 1e-2 and the paper's gamma; alpha is computed from both in each "
            "update. gamma=none sets it equal to alpha; control=closed or layer adjusts alpha to the measured flips of "
            "all weights or of each tensor; normalize=rms, sign or adam makes gradients scale-free before the filter",
            build=optimizers.flip,
            model_options={"weights": "theta"},
            lr_name="flip_rate",
            optional=("gamma",),
        ),
        "filter-order1": Method(
            summary="the filter of first order: one moving average of the gradient (Eq. 10)",
            source=_PAPER,
            hyperparameters={"alpha": 1e-3, "schedule": "cosine"},
            tuned=("alpha", "alpha-decay"),
            settings="alpha of the second-order filter",
            build=optimizers.first_order,
            model_options={"weights": "theta"},
            lr_name="alpha",
        ),
        "filter-cascade": Method(
            summary="the filter of any order: `order` moving averages in series, by default 3 (Eq. 14)",
            source=_PAPER,
            hyperparameters={"alpha": 1e-3, "gamma": 0.1, "order": 3.0, "schedule": "cosine"},
            tuned=("alpha", "gamma", "order", "alpha-decay"),
            settings="alpha and gamma of the second-order filter; order 3: our choice, since the paper stops at 2",
            build=optimizers.cascade,
            model_options={"weights": "theta"},
            lr_name="alpha",
        ),
        "latent-sgd": Method(
            summary="latent weights as defined in the paper: decoupled decay, no clipping, no scaling (Eqs. 1-5)",
            source=_PAPER,
            hyperparameters={
                "lr": 0.1,
                "gamma": 0.1,
                "weight_decay": 1e-4,
                "schedule": "cosine",
                "clip": None,
                "clip_gradient": None,
                "start": None,
            },
            tuned=_LATENT_TUNED,
            settings="published, for CIFAR-10; latent weights start within +-0.001, as in the paper's repository",
            build=optimizers.latent_sgd,
            model_options={"weights": "latent"},
        ),
        "torch-sgd": Method(
            summary="latent weights as in most code: torch's SGD, channel-mean scaling, gradients clipped at 1",
            source="Liu et al., Bi-Real Net, ECCV 2018, and most code since",
            hyperparameters=_SGD,
            tuned=_LATENT_TUNED,
            settings="the paper's baseline for CIFAR-10; latent weights start uniform within +-0.1: assumed, since "
            "from within +-0.001, as in ReActNet's code, the first update at lr 0.1 moves weights to magnitude 1, "
            "where the clipped gradient is zero: 38.4 % and hardly any flips afterwards (CIFAR-10, validation data, 5 "
            "epochs, bf16, seed 0)",
            build=optimizers.sgd,
            model_options={"weights": "latent", "scale": "channel_mean", "weight_surrogate": "clip", "init_scale": 0.1},
            golden="birealnet",
        ),
        "bop": Method(
            summary="no latent weights: flip when the average gradient exceeds a threshold",
            source="Helwegen et al., Latent Weights Do Not Exist, NeurIPS 2019",
            hyperparameters={"gamma": 1e-4, "tau": 1e-8, "schedule": "fifths"},
            tuned=("gamma", "gamma-decay", "tau"),
            settings="published, for CIFAR-10: gamma x 0.1 at each fifth of the run, Adam at a constant 0.01 for the "
            "rest; zero gradient of activations beyond 1",
            build=optimizers.bop,
            model_options={"weights": "theta", "surrogate": "clip"},
            real={"name": "adam", "lr": 0.01, "weight_decay": 0.0, "schedule": "constant"},
            run={"batch_size": 50},
            lr_name="gamma",
            golden="bop",
        ),
        "bop2ndorder": Method(
            summary="Bop with the average gradient normalised by its second moment (not a second-order filter)",
            source="Suarez-Ramirez et al., A Bop and Beyond, CVPR workshops 2021",
            hyperparameters={
                "gamma": "1e-2->1e-5",
                "sigma": "1e-7->1e-2",
                "tau": "1e-5->1e-8",
                "schedule": "constant",
            },
            tuned=("first gamma", "last gamma", "first sigma", "last sigma", "first tau", "last tau"),
            settings="published, for CIFAR-10: all linear over the run, Adam from 0.01 to 0.001 for the rest; "
            "zero gradient of activations beyond 1",
            build=optimizers.bop2ndorder,
            model_options={"weights": "theta", "surrogate": "clip"},
            real={"name": "adam", "lr": 0.01, "weight_decay": 0.0, "schedule": "linear:0.1"},
            run={"batch_size": 50},
            lr_name="gamma",
            golden="bop2ndorder",
        ),
        "adambnn": Method(
            summary="Adam on latent weights in two stages; weight decay in the first one only",
            source="Liu et al., How Do Adam and Training Strategies Help BNNs Optimization?, ICML 2021",
            hyperparameters={"lr": 1.25e-3, "weight_decay": 0.0, "schedule": "linear"},
            tuned=(*_LATENT_TUNED, "weight decay of the first stage"),
            settings="published, for ImageNet: first binary activations with real weights (decay 5e-6), then both "
            "binary (no decay), half of the epochs each",
            build=optimizers.adam,
            model_options={"weights": "latent", "scale": "channel_mean", "weight_surrogate": "clip"},
            real={"name": "adam", "lr": 1.25e-3, "weight_decay": 0.0, "schedule": "linear"},
            parts=(StageTemplate(0.5, "activations", real={"weight_decay": 5e-6}), StageTemplate(0.5, "both")),
            run={"batch_size": 256},
            golden="reactnet",
        ),
        "binarynet": Method(
            summary="the sign of latent weights that are clipped to +-1, updates multiplied by Glorot's coefficient",
            source="Courbariaux et al., Binarized Neural Networks (BinaryNet), 2016, after BinaryConnect, NeurIPS 2015",
            hyperparameters={**_BINARYNET, "clip": 1.0},
            tuned=("lr", "lr-decay", "start", "clipping"),
            settings="published, for CIFAR-10: Adam at 1e-3, exponentially to 3e-7; weights start uniform within +-1; "
            "zero gradient of activations beyond 1; without its squared hinge loss",
            build=optimizers.binarynet,
            model_options=_latent("binaryconnect", init_scale=1.0, surrogate="clip"),
            real=_same("adam", _BINARYNET, weight_decay=0.0),
            run={"batch_size": 50},
            golden="binaryconnect",
            revision=2,
        ),
        "xnor-net": Method(
            summary="latent weights centred and clamped after each update, sign times each filter's mean magnitude",
            source="Rastegari et al., XNOR-Net, ECCV 2016",
            hyperparameters=_XNOR,
            tuned=("lr", "lr-decay", "start", "weight decay"),
            settings="for CIFAR-10, as in Yu's PyTorch code: Adam at 0.01, decay 1e-5 on all parameters, x 0.1 at 3/8, "
            "5/8, 6/8 and 7/8 of the run; start normal, 0.05; zero gradient of activations beyond 1; without its "
            "dropout",
            build=optimizers.xnor_net,
            model_options=_latent("xnor-net", init="normal", init_scale=0.05, surrogate="clip"),
            real=_same("adam", _XNOR, decay="all"),
            run={"batch_size": 128},
            golden="xnornet",
            revision=2,
        ),
        "xnor-net++": Method(
            summary="the sign of latent weights, times a learned scale per filter",
            source="Bulat, Tzimiropoulos, XNOR-Net++, BMVC 2019",
            hyperparameters=_XNOR_PP,
            tuned=("lr", "lr-decay", "start", "weight decay", "clipping"),
            settings="an author's code for ImageNet: Adam at 1e-3 without decay, x 0.1 at 4/9, 7/9 and 8/9 of the run; "
            "start Kaiming normal (outputs), scales from 1; zero gradient of activations beyond 1",
            build=optimizers.adam,
            model_options=_latent("xnor-net++", init="kaiming_fan_out", surrogate="clip"),
            real=_same("adam", _XNOR_PP),
            run={"batch_size": 256},
            golden="xnornetpp",
            revision=2,
        ),
        "dorefa": Method(
            summary="the sign of latent weights, times the mean magnitude of the layer; the gradient passes unchanged",
            source="Zhou et al., DoReFa-Net, 2016",
            hyperparameters=_DOREFA,
            tuned=("lr", "lr-decay", "start", "weight decay"),
            settings="the authors' code for SVHN: Adam at 1e-3, halved at half of the run; start Kaiming normal; "
            "without its Adam's epsilon of 1e-5 and its decay of 1e-7 in the last layer. Activations are -1 and +1 "
            "here, with zero gradient beyond 1; those of the authors are 0 and 1",
            build=optimizers.adam,
            model_options=_latent("dorefa", init="kaiming_normal", surrogate="clip"),
            real=_same("adam", _DOREFA),
            run={"batch_size": 128},
            golden="dorefa",
        ),
        "ir-net": Method(
            summary="balanced, standardised latent weights, a power-of-two scale, gradients that sharpen (EDE)",
            source="Qin et al., Forward and Backward Information Retention (IR-Net), CVPR 2020",
            hyperparameters=_IR_NET,
            tuned=("lr", "lr-decay", "start", "momentum", "weight decay", "first t", "last t"),
            settings="published, for CIFAR-10; t from 1e-3 to 10 over the run, however short; a hard tanh before each "
            "sign, as in its networks; start Kaiming normal; weight decay on all parameters",
            build=optimizers.sgd,
            model_options=_latent("ir-net", init="kaiming_normal", surrogate="ede"),
            real=_same("sgd", _IR_NET, decay="all"),
            run={"batch_size": 128},
            network={"activation": "hardtanh", "shortcut": "subsample"},
            golden="irnet",
        ),
        "dsq": Method(
            summary="a soft quantiser of latent weights with learned bounds and sharpness, of which the sign is taken",
            source="Gong et al., Differentiable Soft Quantization, ICCV 2019",
            hyperparameters=_SGD,
            tuned=("lr", "lr-decay", "start", "momentum", "weight decay", "sharpness"),
            settings=f"the SGD of the paper's other CIFAR-10 rows: assumed; sharpness from 0.2: published; {_START}",
            build=optimizers.sgd,
            model_options=_latent("dsq", init_scale=0.1),
            golden="dsq",
        ),
        "recu": Method(
            summary="standardised latent weights whose tails are clamped at a rising quantile, times a learned scale",
            source="Xu et al., ReCU: Reviving the Dead Weights, ICCV 2021",
            hyperparameters=_RECU,
            tuned=("lr", "lr-decay", "start", "momentum", "weight decay", "first tau", "last tau", "warm-up"),
            settings="published, for CIFAR-10; tau from 0.85 to 0.99 over the run, however short; in training a sign's "
            "input is divided by its sample's standard deviation; start Kaiming normal; weight decay on all; "
            "warm-up over 5 epochs of 600",
            build=optimizers.sgd,
            model_options=_latent("recu", init="kaiming_normal", standardize="scale"),
            real=_same("sgd", _RECU, decay="all"),
            run={"batch_size": 256, "warmup": 5 / 600},
            network={"activation": "hardtanh", "shortcut": "pool"},
            golden="recu",
            revision=2,
        ),
        "reste": Method(
            summary="the sign of latent weights, times the layer's mean magnitude; gradients of a sharpening power",
            source="Wu et al., Estimator Meets Equilibrium Perspective (ReSTE), ICCV 2023",
            hyperparameters=_SGD,
            tuned=("lr", "lr-decay", "start", "momentum", "weight decay", "last o", "warm-up"),
            settings="published, for CIFAR-10; o from 1 to 3 over the run, however short, for weights and activations; "
            "start Kaiming normal; weight decay on all parameters; warm-up over 5 epochs of 1,000; its network has a "
            "ReLU between convolution and batch norm, which the published network here does not have",
            build=optimizers.sgd,
            model_options=_latent("reste", init="kaiming_normal", surrogate="reste"),
            real=_same("sgd", _SGD, decay="all"),
            run={"batch_size": 256, "warmup": 5 / 1000},
            network={"activation": "none", "shortcut": "subsample"},
            golden="reste",
        ),
        "adabin": Method(
            summary="two values around each filter's mean, and around a learned centre for activations; EDE's gradient",
            source="Tu et al., AdaBin: Improving Binary Neural Networks with Adaptive Binary Sets, ECCV 2022",
            hyperparameters=_SGD,
            tuned=("lr", "lr-decay", "start", "momentum", "weight decay", "first t", "last t"),
            settings="published, for CIFAR-10; t from 1e-3 to 10 over the run, however short; activations have a "
            "learned distance (from 1) and centre (from 0) per layer, as in the authors' code; start Kaiming normal; "
            "weight decay on all parameters. Its weights and activations are not -1 and +1: it cannot be packed",
            build=optimizers.sgd,
            model_options=_latent("adabin", init="kaiming_normal", surrogate="adabin"),
            real=_same("sgd", _SGD, decay="all"),
            run={"batch_size": 128},
            network={"activation": "maxout", "shortcut": "subsample"},
            golden="adabin",
        ),
        "siman": Method(
            summary="+1 for the larger half of each filter's magnitudes, -1 for the rest, times a learned scale",
            source="Lin et al., SiMaN: Sign-to-Magnitude Network Binarization, TPAMI 2022",
            hyperparameters={**_SIMAN, "percent": "15->0"},
            tuned=("lr", "lr-decay", "start", "momentum", "weight decay", "first percent", "warm-up"),
            settings="published, for CIFAR-10; stored weights centred and their magnitudes clamped to the percentiles "
            "percent and 100 - percent of the layer after each update, percent from 15 to 0 over the run, however "
            "short; each sample standardised before a sign, in evaluation too, so that it cannot be packed; start "
            "Kaiming normal: assumed; no weight decay on binary weights, 5e-4 on the rest (theirs leaves out learned "
            "scales); warm-up over 5 of 400 epochs",
            build=optimizers.siman,
            model_options=_latent("siman", init="kaiming_normal", standardize="centre"),
            real=_same("sgd", {**_SIMAN, "weight_decay": 5e-4}, decay="all"),
            run={"batch_size": 256, "warmup": 5 / 400},
            network={"activation": "prelu", "shortcut": "subsample"},
            golden="siman",
        ),
        "ovsw": Method(
            summary="the sign of latent weights; small gradients scaled up by filter, weights that never flip decayed",
            source="Xiang et al., OvSW: Overcoming Silent Weights for Accurate Binary Neural Networks, ECCV 2024",
            hyperparameters={**_OVSW, "gamma": 0.1, "delta": 0.04, "dampen": 9e-4},
            tuned=("lr", "lr-decay", "start", "momentum", "weight decay", "delta", "dampen", "warm-up"),
            settings="published, for CIFAR-10 and ResNet-20: delta 0.04, dampen 9e-4, flips averaged at 1e-3, silent "
            "below 1e-4, gamma 0.1 (momentum 0.9); in training a sign's input is divided by its sample's standard "
            "deviation; start Kaiming normal; weight decay on all parameters; warm-up over 5 epochs of 600",
            build=optimizers.ovsw,
            model_options=_latent("ovsw", init="kaiming_normal", standardize="scale_detached"),
            real=_same("sgd", _OVSW, decay="all", momentum=0.9),
            run={"batch_size": 256, "warmup": 5 / 600},
            network={"activation": "hardtanh", "shortcut": "pool"},
            golden="ovsw",
        ),
        "rbnn": Method(
            summary="latent weights turned by rotations that are fitted to them each epoch, times a learned scale",
            source="Lin et al., Rotated Binary Neural Network, NeurIPS 2020",
            hyperparameters=_SGD,
            tuned=("lr", "lr-decay", "start", "momentum", "weight decay", "first t", "last t", "warm-up"),
            settings="published, for CIFAR-10; rotations fitted by three alternations at the start of each epoch; t "
            "from 1e-2 to 10 over the run, however short; an angle per filter starts uniform in 0 to pi/2, as in the "
            "authors' first code for CIFAR-10: their last code starts it at pi/2, where weights get no gradient until "
            "weight decay has moved it (digits: no flips, 84 to 87 % in place of 96 to 97, validation data); each "
            "sample standardised before a sign, in evaluation too, so that it cannot be packed; start Kaiming normal; "
            "weight decay on all parameters; warm-up over 5 epochs of 1,000; without its batch norms' start at 1e-8",
            build=optimizers.sgd,
            model_options=_latent("rbnn", init="kaiming_normal", surrogate="rbnn", standardize="centre"),
            real=_same("sgd", _SGD, decay="all"),
            run={"batch_size": 256, "warmup": 5 / 1000},
            network={"activation": "hardtanh", "shortcut": "subsample"},
            golden="rbnn",
        ),
        "ewgs": Method(
            summary="latent weights and activations rounded between learned bounds, gradients scaled by their error",
            source="Lee et al., Network Quantization with Element-wise Gradient Scaling (EWGS), CVPR 2021",
            hyperparameters=_EWGS,
            tuned=("lr", "lr-decay", "start", "weight decay", "delta", "lr of the bounds"),
            settings="published, for CIFAR-10: Adam at 1e-3, decay 1e-4 on all but bounds and scales, which learn at "
            "a hundredth of the lr; delta fixed at 1e-3: the authors' other variant sets it from the Hessian's trace "
            "every 10 epochs. They start from a trained real network: here half of the epochs train real weights with "
            "binary activations. Activations are 0 and 1, so that it cannot be packed; their bounds start from the "
            "first batch, as published after a ReLU, and at +-3 standard deviations in networks without one; start "
            "Kaiming normal; its network has no shortcut around a single convolution, the published form here has",
            build=optimizers.adam,
            model_options=_latent("ewgs", init="kaiming_normal", surrogate="ewgs"),
            real=_same("adam", _EWGS, decay="all"),
            parts=(StageTemplate(0.5, "activations"), StageTemplate(0.5, "both")),
            run={"batch_size": 256},
            network={"activation": "relu", "shortcut": "subsample"},
            golden="ewgs",
        ),
        "bayesbinn": Method(
            summary="the sign of a natural parameter per weight, trained by the Bayesian learning rule",
            source="Meng et al., Training Binary Neural Networks using the Bayesian Learning Rule, ICML 2020",
            hyperparameters={"lr": 3e-4, "gamma": 1.0, "schedule": "cosine"},
            tuned=("lr", "lr-decay", "momentum", "temperature", "start"),
            settings="published, for CIFAR-10: temperature 1e-10, start at +-10, N = 450,000, no momentum. At these, "
            "in float32, samples are exactly the signs and it is filter-order1 with alpha = lr. Published for binary "
            "weights with real activations in all layers, without real parameters; here activations are binary and "
            "first and last layers real, trained as in the recipe: its accuracy here does not apply to that setting",
            build=optimizers.bayesbinn,
            model_options={"weights": "theta"},
            run={"batch_size": 50},
            golden="bayesbinn",
        ),
        "bold": Method(
            summary="no latent weights: votes against a weight are accumulated, and it flips when they reach one",
            source="Nguyen et al., BOLD: Boolean Logic Deep Learning, NeurIPS 2024",
            hyperparameters={"lr": 1000.0, "schedule": "cosine"},
            tuned=("lr", "lr-decay"),
            settings="the rule as printed in the paper (no code of the authors is known), with an lr of 1,000: our "
            "choice, since its votes are integer sums over a batch and here they are the gradient of the mean loss. Of "
            "1, 3, 10 and so on to 1e6 it has the best mean accuracy on validation data of digits, Crop and "
            "TwoPatterns (3 seeds: 84.1 % at 300, 85.0 at 1,000, 84.3 at 3,000). Activations' derivative is Bi-Real "
            "Net's polynomial, not its own Boolean backpropagation",
            build=optimizers.bold,
            model_options={"weights": "theta"},
            golden="bold",
        ),
    }
)
"""Name -> method, in the order of `zerocross methods`.

Examples:
    >>> from zerocross.methods import METHODS
    >>> METHODS["bop"].source
    'Helwegen et al., Latent Weights Do Not Exist, NeurIPS 2019'
"""
