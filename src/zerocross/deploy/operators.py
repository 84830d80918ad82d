"""The supported ATen operators, and the steps that each is translated to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from zerocross.deploy.steps import Step
from zerocross.deploy.trace import sample_shape
from zerocross.deploy.translate import Handler, HandlerResult, OperatorContext, channel_values

Pair = Callable[[Any, int], tuple[int, int]]
LARGEST = torch.finfo(torch.float32).max


def _conv2d(context: OperatorContext) -> HandlerResult:
    return _conv(context, _weight(context, 4), _pair)


def _conv1d(context: OperatorContext) -> HandlerResult:
    return _conv(context, _weight(context, 3).unsqueeze(2), _flat)


def _conv(context: OperatorContext, weight: Tensor, pair: Pair) -> HandlerResult:
    dilation, padding = pair(context.args["dilation"], 1), context.args["padding"]
    if isinstance(padding, str):
        spans = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
        if padding == "same" and any(span % 2 for span in spans):
            raise ValueError("padding 'same' with an even kernel is asymmetric: give the padding as numbers")
        padding = [span // 2 for span in spans] if padding == "same" else 0
    attrs = {
        "shape": tuple(weight.shape),
        "stride": pair(context.args["stride"], 1),
        "padding": _pair(padding) if isinstance(context.args["padding"], str) else pair(padding, 0),
        "dilation": dilation,
        "groups": context.args["groups"],
    }
    return _with_bias(context, context.step("conv2d", context.source("input"), attrs=attrs, tensors={"weight": weight}))


def _linear(context: OperatorContext) -> HandlerResult:
    weight = _weight(context, 2)
    if len(sample_shape(context.node)) != 1:
        raise ValueError(
            f"a linear layer with outputs of shape {sample_shape(context.node)} per sample: flatten its input first"
        )
    attrs = {"shape": tuple(weight.shape)}
    return _with_bias(context, context.step("linear", context.source("input"), attrs=attrs, tensors={"weight": weight}))


def _weight(context: OperatorContext, dims: int) -> Tensor:
    weight = context.args["weight"]
    if not isinstance(weight, Tensor) or weight.dim() != dims:
        raise ValueError("a weight that depends on the input is not supported")
    return weight.detach()


def _with_bias(context: OperatorContext, layer: Step) -> list[Step]:
    """Return the layer, and its bias as a separate step that can be folded like any other shift."""
    bias = context.args["bias"]
    if bias is None:
        return [layer]

    def compute(x: Tensor) -> Tensor:
        return x + bias.view(-1, *(1,) * (x.dim() - 2))

    shift = bias.detach().double()
    tensors = {"scale": torch.ones_like(shift), "shift": shift}
    name = f"{layer.name}.bias"
    return [
        layer,
        Step("affine", (layer.name,), name, layer.shape, layer.module, "bias", tensors=tensors, eager=(compute,)),
    ]


def _batch_norm(context: OperatorContext) -> HandlerResult:
    """Batch norm with its running statistics: weight (x - mean) / sqrt(var + eps) + bias."""
    arg = {key: value.double() if isinstance(value, Tensor) else value for key, value in context.args.items()}
    scale = (arg["running_var"] + arg["eps"]).rsqrt() * (1 if arg["weight"] is None else arg["weight"])
    shift = (0 if arg["bias"] is None else arg["bias"]) - arg["running_mean"] * scale
    tensors = {"scale": scale, "shift": shift}
    return [context.step("affine", context.source("input"), label="batch norm", tensors=tensors, eager=context.eager())]


def _affine(context: OperatorContext, source: fx.Node, scale: Any, shift: Any, label: str) -> HandlerResult:
    shape = sample_shape(context.node)
    if shape != sample_shape(source):
        raise ValueError(f"a constant turns an activation {sample_shape(source)} into {shape}")
    tensors = {"scale": channel_values(scale, shape), "shift": channel_values(shift, shape)}
    return [context.step("affine", source, label=label, tensors=tensors, eager=context.eager())]


def _add(context: OperatorContext) -> HandlerResult:
    first, second, alpha = (context.args[name] for name in ("self", "other", "alpha"))
    if isinstance(first, fx.Node) and isinstance(second, fx.Node):
        if alpha != 1 or sample_shape(first) != sample_shape(second):
            raise ValueError("a weighted sum of two activations, or of different shapes, is not supported")
        return [context.step("add", first, second)]
    if isinstance(first, fx.Node):
        return _affine(context, first, 1.0, second * alpha, "shift")
    return _affine(context, context.source("other"), float(alpha), first, "shift")


def _sub(context: OperatorContext) -> HandlerResult:
    first, second, alpha = context.args["self"], context.args["other"], context.args["alpha"]
    if isinstance(first, fx.Node) and isinstance(second, fx.Node):
        raise ValueError("the difference of two activations is not supported")
    if isinstance(first, fx.Node):
        return _affine(context, first, 1.0, -second * alpha, "shift")
    return _affine(context, context.source("other"), -float(alpha), first, "shift")


def _rsub(context: OperatorContext) -> HandlerResult:
    return _affine(context, context.source(), -float(context.args["alpha"]), context.args["other"], "shift")


def _mul(context: OperatorContext) -> HandlerResult:
    first, second = context.args["self"], context.args["other"]
    if isinstance(first, fx.Node) and isinstance(second, fx.Node):
        raise ValueError("the product of two activations is not supported")
    source, factor = (first, second) if isinstance(first, fx.Node) else (context.source("other"), first)
    return _affine(context, source, factor, 0.0, "scale")


def _div(context: OperatorContext) -> HandlerResult:
    divisor = context.args["other"]
    if isinstance(divisor, fx.Node) or context.args.get("rounding_mode") is not None:
        raise ValueError("division by an activation, or with rounding, is not supported")
    return _affine(context, context.source(), 1 / divisor, 0.0, "scale")


def _neg(context: OperatorContext) -> HandlerResult:
    return _affine(context, context.source(), -1.0, 0.0, "scale")


def _prelu(context: OperatorContext) -> HandlerResult:
    slope = context.args["weight"].detach().double()
    return [context.step("prelu", context.source(), tensors={"slope": slope}, eager=context.eager())]


def _leaky_relu(context: OperatorContext) -> HandlerResult:
    slope = torch.tensor([float(context.args["negative_slope"])], dtype=torch.float64)
    return [context.step("prelu", context.source(), tensors={"slope": slope}, eager=context.eager())]


def _relu(context: OperatorContext) -> HandlerResult:
    return [context.step("relu", context.source(), eager=context.eager())]


def _clamp(context: OperatorContext) -> HandlerResult:
    bounds = [context.args.get(name, context.args.get(f"{name}_val")) for name in ("min", "max")]
    if any(isinstance(bound, Tensor | fx.Node) for bound in bounds):
        raise ValueError("bounds that are not plain numbers are not supported")
    low, high = (-LARGEST if bounds[0] is None else bounds[0], LARGEST if bounds[1] is None else bounds[1])
    attrs = {"min": float(low), "max": float(high)}
    return [context.step("hardtanh", context.source(), attrs=attrs, eager=context.eager())]


def _relu6(context: OperatorContext) -> HandlerResult:
    return [context.step("hardtanh", context.source(), attrs={"min": 0.0, "max": 6.0}, eager=context.eager())]


def _cat(context: OperatorContext) -> HandlerResult:
    parts, dim = context.args["tensors"], context.args["dim"]
    if dim % (1 + len(sample_shape(context.node))) != 1 or not all(part in context.names for part in parts):
        raise ValueError("only activations can be concatenated, and only along channels (dimension 1)")
    return [context.step("concat", *parts)] if len(parts) > 1 else context.names[parts[0]]


def _avg_pool2d(context: OperatorContext) -> HandlerResult:
    if context.args["divisor_override"] is not None:
        raise ValueError("divisor_override of an average pool is not supported")
    return _avg_pool(context, _pair)


def _avg_pool1d(context: OperatorContext) -> HandlerResult:
    return _avg_pool(context, _flat)


def _avg_pool(context: OperatorContext, pair: Pair) -> HandlerResult:
    attrs = _pool(context, pair) | {"count_include_pad": bool(context.args["count_include_pad"])}
    return [context.step("avg_pool2d", context.source(), attrs=attrs)]


def _max_pool2d(context: OperatorContext) -> HandlerResult:
    return _max_pool(context, _pair)


def _max_pool1d(context: OperatorContext) -> HandlerResult:
    return _max_pool(context, _flat)


def _max_pool(context: OperatorContext, pair: Pair) -> HandlerResult:
    attrs = _pool(context, pair) | {"dilation": pair(context.args["dilation"], 1)}
    return [context.step("max_pool2d", context.source(), attrs=attrs)]


def _pool(context: OperatorContext, pair: Pair) -> dict[str, Any]:
    kernel = context.args["kernel_size"]
    return {
        "kernel": pair(kernel, 1),
        "stride": pair(context.args["stride"] or kernel, 1),
        "padding": pair(context.args["padding"], 0),
        "ceil_mode": bool(context.args["ceil_mode"]),
    }


def _adaptive_avg_pool(context: OperatorContext) -> HandlerResult:
    channels, *size = sample_shape(context.source())
    target = list(context.args["output_size"])
    if target == size:
        return context.names[context.source()]
    if set(target) != {1}:
        raise ValueError(f"an adaptive pool from {size} to {target} is not supported: use a fixed window")
    return [_whole_pool(context, channels, size)]


def _mean(context: OperatorContext) -> HandlerResult:
    source, rank = context.source(), 1 + len(sample_shape(context.source()))
    dims = tuple(sorted(dim % rank for dim in context.args["dim"] or []))
    if (rank, dims) not in {(4, (2, 3)), (3, (2,))}:
        raise ValueError("only the mean over height and width (dimensions 2 and 3), or a series' length, is supported")
    if context.args["keepdim"]:
        channels, *size = sample_shape(source)
        return [_whole_pool(context, channels, size)]
    return [context.step("global_avg_pool", source)]


def _whole_pool(context: OperatorContext, channels: int, size: Sequence[int]) -> Step:
    window = (1, *size)[-2:]  # for a series: (1, length)
    attrs = {"kernel": window, "stride": window}
    return context.step("avg_pool2d", context.source(), attrs=attrs, shape=(channels, *(1 for _ in size)))


def _reshape(context: OperatorContext) -> HandlerResult:
    return [context.step("reshape", context.source())]


def _slice(context: OperatorContext) -> HandlerResult:
    source = context.source()
    shape, dim = sample_shape(source), context.args["dim"] % (1 + len(sample_shape(source)))
    start, end, step = context.args["start"] or 0, context.args["end"], context.args["step"]
    whole = start == 0 and (end is None or dim == 0 or end >= shape[dim - 1])
    if whole and step == 1:
        return context.names[source]
    if not whole or dim < 2 or len(shape) > 3:
        raise ValueError("activations can only be sliced with a step over rows or columns, starting at the first")
    return [context.step("subsample", source, attrs={"stride": (1, step) if dim == len(shape) else (step, 1)})]


def _pad(context: OperatorContext) -> HandlerResult:
    if context.args.get("mode", "constant") != "constant":
        raise ValueError(f"padding by {context.args['mode']} is not supported, only by a constant")
    pairs = [tuple(context.args["pad"][at : at + 2]) for at in range(0, len(context.args["pad"]), 2)]
    value = context.args["value"] or 0
    rank = len(sample_shape(context.node))
    channels = pairs.pop() if len(pairs) == rank else (0, 0)  # the last pair is that of dimension 1
    if len(pairs) > rank - 1 or (any(channels) and (value != 0 or any(any(pair) for pair in pairs))):
        raise ValueError("channels can only be padded by zeros, and not together with height and width")
    if any(channels):
        attrs = {"before": channels[0], "after": channels[1]}
        return [context.step("pad_channels", context.source(), attrs=attrs)]
    width, height = (*pairs, (0, 0), (0, 0))[:2]
    if width[0] != width[1] or height[0] != height[1] or min(width[0], height[0]) < 0 or rank == 1:
        raise ValueError("height and width must be padded equally on both sides")
    attrs = {"padding": (height[0], width[0]), "value": float(value)}
    return [context.step("pad2d", context.source(), attrs=attrs)]


def _identity(context: OperatorContext) -> HandlerResult:
    source = context.source("input" if "input" in context.args else "self")
    if context.args.get("train"):
        raise ValueError("dropout that is active in evaluation mode is not supported")
    if sample_shape(source) != sample_shape(context.node) or context.node.meta["val"].dtype != torch.float32:
        raise ValueError("a change of shape or dtype is not supported")
    return context.names[source]


def _pair(value: Any, neutral: int = 0) -> tuple[int, int]:  # noqa: ARG001 - see _flat
    """Return the numbers for height and width from one number or two."""
    numbers = [value] if isinstance(value, int) else list(value)
    return numbers[0], numbers[-1]


def _flat(value: Any, neutral: int) -> tuple[int, int]:
    """Return the numbers for height and width of a series as an image one pixel high: `neutral`, and the value."""
    return neutral, value if isinstance(value, int) else int(value[0])


HANDLERS: dict[str, Handler] = {
    "conv1d": _conv1d,
    "conv2d": _conv2d,
    "linear": _linear,
    "_native_batch_norm_legit_no_training": _batch_norm,
    "add": _add,
    "sub": _sub,
    "rsub": _rsub,
    "mul": _mul,
    "div": _div,
    "neg": _neg,
    "prelu": _prelu,
    "leaky_relu": _leaky_relu,
    "relu": _relu,
    "relu6": _relu6,
    "hardtanh": _clamp,
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": _clamp,
    "cat": _cat,
    "avg_pool1d": _avg_pool1d,
    "avg_pool2d": _avg_pool2d,
    "max_pool1d": _max_pool1d,
    "max_pool2d": _max_pool2d,
    "max_pool2d_with_indices": _max_pool2d,
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool2d", "_adaptive_avg_pool2d"), _adaptive_avg_pool),
    "mean": _mean,
    "slice": _slice,
    "pad": _pad,
    "constant_pad_nd": _pad,
    **dict.fromkeys(("flatten", "view", "reshape", "_unsafe_view", "squeeze", "unsqueeze"), _reshape),
    **dict.fromkeys(
        ("dropout", "feature_dropout", "clone", "alias", "detach", "contiguous", "to", "_to_copy"), _identity
    ),
}
"""ATen operators and the functions that translate them into steps."""
