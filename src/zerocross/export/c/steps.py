"""Write the C function of each step."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from zerocross.export.c.layout import bit_blocks, bit_words, depthwise_taps, real_blocks, sign_bytes
from zerocross.export.c.parts import Constants, Memory
from zerocross.export.c.program import BINARY, LAYERS, CBuffer, CProgram, CStep, layer_shape
from zerocross.export.c.text import comment, real, size_text
from zerocross.runtime.format import weight_signs
from zerocross.runtime.geometry import is_depthwise
from zerocross.runtime.graph import Graph, Node
from zerocross.runtime.plan import MAX_BYTE_TERMS

WINDOWS = (*BINARY, *LAYERS, "avg_pool2d", "max_pool2d", "global_avg_pool", "subsample")
_WORDS = {
    "binary_conv2d": "binary convolution", "binary_linear": "binary linear layer", "conv2d": "real convolution",
    "linear": "real linear layer", "avg_pool2d": "average pool", "max_pool2d": "maximum pool",
    "global_avg_pool": "average over the image", "subsample": "every n-th pixel", "identity": "pixel by pixel",
    "unpack": "bits as numbers", "planar": "channels first", "pixels": "channels last",
}  # fmt: skip


class CWriter:
    """Writes the functions of a program.

    Args:
        name: Prefix of all names in the file.
        program: The program, with planned memory.
        constants: Receives weights and parameters.
        memory: Receives the working memory of the steps.
    """

    def __init__(self, name: str, program: CProgram, constants: Constants, memory: Memory) -> None:
        self.name, self.program, self.constants, self.memory = name, program, constants, memory
        self.graph: Graph = program.graph
        self.kernels: set[str] = set()
        self.windows: dict[CStep, str] = {}

    # ---- names in C ----------------------------------------------------------------------------------------------

    def call(self, kernel: str, *args: object) -> str:
        """Return a call of a kernel, and include the kernel in the file."""
        self.kernels.add(kernel)
        return f"{kernel}({', '.join(str(arg) for arg in args)});"

    def constant(self, name: str) -> str:
        """Return a constant in C."""
        return f"{self.name}_constants.{name}"

    def array(self, node: Node, role: str, array: np.ndarray, about: str = "") -> str:
        """Add a constant array and return it in C."""
        return self.constant(self.constants.array(f"{node.output}_{role}", array, about))

    def scratch(self, member: str, ctype: str, count: int, about: str) -> str:
        """Return working memory of at least `count` elements, in C."""
        self.memory.need(member, ctype, count, about)
        return f"{self.name}_memory.{member}"

    def base(self, buffer: CBuffer) -> str:
        """Return the address of a stored value, in C."""
        if buffer.place != "memory":
            return buffer.place
        start = f"{self.name}_memory.{'reals' if buffer.kind == 'real' else 'bits'}"
        return f"{start} + {buffer.offset}" if buffer.offset else start

    def at_pixel(self, buffer: CBuffer, channel: int = 0) -> str:
        """Return the address of the current pixel of a stored value, in C."""
        single = buffer.size[1] * buffer.size[2] == 1
        first = channel if buffer.kind == "real" else channel // 8
        return self.base(buffer) + ("" if single else f" + pixel * {buffer.pitch}") + (f" + {first}" if first else "")

    # ---- functions -----------------------------------------------------------------------------------------------

    def function(self, number: int, step: CStep, name: str) -> tuple[str, str]:
        """Return the function of a step, and a call of it."""
        places = {buffer.place for buffer in (*step.reads(), *step.writes())}
        args = [each for each in ("input", "output") if each in places]
        types = {"input": "const float *input", "output": "float *output"}
        head = f"static STEP void {name}({', '.join(types[each] for each in args) or 'void'})"
        lines = [
            *self._clear(step),
            *self._codes(step),
            *(self._moves(step) if step.op in ("planar", "pixels") else self._pixels(step)),
        ]
        stored = [self.base(buffer) if buffer is not None else "0" for buffer in (step.real, step.bits)]
        lines.append(f"TRACE({self.name}_trace({number}, {stored[0]}, {stored[1]}));")
        body = "\n".join(f"    {line}" if line else "" for line in lines)
        return f"{comment(self._about(step))}\n{head}\n{{\n{body}\n}}", f"{name}({', '.join(args)});"

    def _about(self, step: CStep) -> str:
        kind = {"real": "floats", "bits": "bits"}
        text = f"{step.node.output}: {_WORDS[step.op]}"
        if step.op in WINDOWS and step.op not in ("global_avg_pool", "linear", "binary_linear"):
            attrs = step.node.attrs
            kernel = attrs.get("kernel", attrs.get("shape", (1, 1))[-2:])
            text += f" {kernel[0]} x {kernel[1]}" * (step.op != "subsample")
            for key in ("stride", "padding", "dilation"):
                pair = attrs.get(key, (1, 1))
                text += f", {key} {size_text(pair)}" * (pair != ((0, 0) if key == "padding" else (1, 1)))
            text += f", {attrs.get('groups')} groups" * (attrs.get("groups", 1) > 1)
        text += f"; {size_text(step.source.size)} {kind[step.source.kind]} -> {size_text(step.size)}."
        then = [f"{link.node.op} ({link.node.output})" for link in step.links]
        if step.sign is not None:
            then.append(f"{step.sign.op} ({step.sign.output})")
        return text + (f" Then {', '.join(then)}." if then else "")

    def _clear(self, step: CStep) -> list[str]:
        if not step.clear or step.real is None:
            return []
        return [f"memset({self.base(step.real)}, 0, {step.real.elements} * sizeof(float));"]

    def _codes(self, step: CStep) -> list[str]:
        """Quantise the input of a layer with int8 weights to integers, as in the packed runtime."""
        if not self._on_codes(step):
            return []
        count = step.source.elements
        codes = self.scratch("codes", "int8_t", count, "the input of a layer with int8 weights")
        return ["const float unit = " + self.call("quantise", codes, self.base(step.source), count)]

    def _on_codes(self, step: CStep) -> bool:
        """Return True if a layer multiplies integers."""
        if step.op not in LAYERS or step.node.attrs.get("groups", 1) != 1:
            return False
        weight = self.graph.tensors[step.node.tensors["weight"]]
        return weight.dtype == np.int8 and weight[0].size <= MAX_BYTE_TERMS

    def _moves(self, step: CStep) -> list[str]:
        channels, height, width = step.size
        if step.real is None:
            raise ValueError(f"step {step.node.output!r} stores nothing")
        rows, columns = (height * width, channels) if step.op == "planar" else (channels, height * width)
        return [self.call("transpose", self.base(step.real), self.base(step.source), rows, columns)]

    def _pixels(self, step: CStep) -> list[str]:
        """Return the loops over the pixels with their body."""
        _, height, width = step.size
        inner = list(self._pixel(step))
        if height * width == 1:
            uses = any("look(" in line for line in inner)
            return ["const int32_t y = 0, x = 0;"] * uses + inner
        used = any("pixel" in line for line in inner)
        at = [f"const int32_t pixel = y * {width} + x;"] * used
        return [
            f"for (int32_t y = 0; y < {height}; y++) {{",
            f"    for (int32_t x = 0; x < {width}; x++) {{",
            *(f"        {line}" for line in (*at, *inner)),
            "    }",
            "}",
        ]

    def _pixel(self, step: CStep) -> Iterator[str]:
        count = step.size[0]
        if direct := self._direct_threshold(step):
            yield from self._binary(step, negated=direct[0])
            yield direct[1]
            return
        own = step.real if step.real is not None and not step.in_place else None
        place = self.scratch("values", "float", count, "one pixel") if own is None else self.at_pixel(own, step.channel)
        yield f"float *const values = {place};"
        yield from self._source(step)
        yield from self._links(step)
        yield from self._sign(step)
        if step.in_place and step.real is not None:
            yield self.call("copy", self.at_pixel(step.real, step.channel), "values", count)

    def _links(self, step: CStep) -> Iterator[str]:
        count = step.size[0]
        for link in step.links:
            node, own = link.node, slice(link.channel, link.channel + count)
            tensors = {role: self.graph.tensors[key] for role, key in node.tensors.items()}
            if node.op == "affine":
                yield from self._affine(node, tensors["scale"][own], tensors["shift"][own])
            elif node.op == "prelu":
                single = len(tensors["slope"]) == 1
                slope = tensors["slope"] if single else tensors["slope"][own]
                yield self.call("prelu", "values", self.array(node, "slope", slope), 0 if single else 1, count)
            elif node.op == "relu":
                yield self.call("relu", "values", count)
            elif node.op == "hardtanh":
                yield self.call("clamp", "values", real(node.attrs["min"]), real(node.attrs["max"]), count)
            elif link.other is not None:
                yield self.call("shift", "values", self.at_pixel(link.other, link.channel), count)
            else:
                raise ValueError(f"node {node.output!r}: op {node.op!r} cannot be exported to C")

    def _affine(self, node: Node, scale: np.ndarray, shift: np.ndarray) -> Iterator[str]:
        args = ["values"]
        args += [self.array(node, "scale", scale)] * bool((scale != 1).any())
        args += [self.array(node, "shift", shift)] * bool((shift != 0).any())
        which = {3: "affine", 2: "scale" if (scale != 1).any() else "shift"}
        if len(args) > 1:
            yield self.call(which[len(args)], *args, len(scale))

    def _sign(self, step: CStep) -> Iterator[str]:
        if step.bits is None:
            return
        count, node = step.size[0], step.sign
        target, own = self.at_pixel(step.bits, step.channel), slice(step.channel, step.channel + step.size[0])
        if node is not None and node.op == "threshold":
            direction = self.graph.tensors[node.tensors["direction"]][own].astype(np.float32)
            threshold = self.graph.tensors[node.tensors["threshold"]][own].astype(np.float32)
            yield from self._affine(node, direction, -direction * threshold)
        shift = None if node is None else self.graph.tensor(node, "shift")
        if shift is not None and shift[own].any():
            yield self.call("pack_shifted", target, "values", self.array(node or step.node, "shift", shift[own]), count)
        else:
            yield self.call("pack_signs", target, "values", count)

    def _direct_threshold(self, step: CStep) -> tuple[np.ndarray, str] | None:
        """Return which outputs have negated weights, and the call, if the sums go directly into a threshold.

        [sum <= t] equals [-sum >= -t]: for a threshold with direction -1, the weights are negated instead.
        """
        if step.op not in BINARY or step.links or step.sign is None or step.sign.op != "threshold" or step.bits is None:
            return None
        threshold, direction = (self.graph.tensors[step.sign.tensors[role]] for role in ("threshold", "direction"))
        own = slice(step.channel, step.channel + step.size[0])
        direction = direction[own].astype(np.int64)
        limit = math.prod(layer_shape(step)[1:]) + 1  # a sum is within -limit + 1..limit - 1
        exact = np.clip(threshold[own].astype(np.int64) * direction, -limit, limit)
        kind = np.int16 if limit <= np.iinfo(np.int16).max else np.int32
        args = (self.at_pixel(step.bits, step.channel), self._sums(step))
        array = self.array(step.sign, "threshold", exact.astype(kind))
        return direction < 0, self.call(f"pack_thresholds_{np.dtype(kind).name}", *args, array, step.size[0])

    # ---- the values of a pixel -----------------------------------------------------------------------------------

    def _source(self, step: CStep) -> Iterator[str]:
        count, source = step.size[0], step.source
        if step.op in BINARY:
            yield from self._binary(step)
            yield self.call("to_reals", "values", self._sums(step), count)
        elif step.op in LAYERS:
            yield from self._real_layer(step)
        elif step.op == "unpack":
            yield self.call("unpack", "values", self.at_pixel(source), count)
        elif step.op == "identity":
            yield self.call("copy", "values", self.at_pixel(source), count)
        elif step.op == "subsample":
            down, across = step.node.attrs["stride"]
            at = f"(y * {down * source.size[2]} + x * {across}) * {source.pitch}"
            single = step.size[1] * step.size[2] == 1
            yield self.call("copy", "values", self.base(source) + ("" if single else f" + {at}"), count)
        elif step.op == "max_pool2d":
            yield self._look(step)
            yield self.call("max_pool", "values", self.base(source), self._window(step), "in", count)
        elif step.op in ("avg_pool2d", "global_avg_pool"):
            yield self._look(step)
            divisor = self._divisor(step)
            yield self.call("avg_pool", "values", self.base(source), self._window(step), "in", count, divisor)
        else:
            raise ValueError(f"node {step.node.output!r}: op {step.op!r} cannot be exported to C")

    def _divisor(self, step: CStep) -> str:
        attrs = step.node.attrs
        if step.op == "global_avg_pool":
            return str(step.source.size[1] * step.source.size[2])
        if not any(attrs["padding"]) and not attrs["ceil_mode"]:
            return str(math.prod(attrs["kernel"]))
        kernel, args = (
            ("pool_count", (self._window(step), "in")) if attrs["count_include_pad"] else ("taps_inside", ("in",))
        )
        return self.call(kernel, *args).rstrip(";")

    def _look(self, step: CStep) -> str:
        return "const struct inside in = " + self.call("look", self._window(step), "y", "x")

    def _window(self, step: CStep) -> str:
        """Return the address of the constant that describes a step's sliding window."""
        name = f"{step.node.output}_window"
        if step not in self.windows:
            attrs, source = step.node.attrs, step.source
            kernel = layer_shape(step)[2:] if "shape" in attrs else attrs.get("kernel", source.size[1:])
            pairs = {
                "kernel": kernel, "stride": attrs.get("stride", (1, 1)), "pad": attrs.get("padding", (0, 0)),
                "dilation": attrs.get("dilation", (1, 1)),
            }  # fmt: skip
            fields = {f"{key}_{axis}": pair[index] for key, pair in pairs.items() for index, axis in enumerate("yx")}
            pixel = 1 if source.planar else source.pitch
            fields |= {
                "height": source.size[1],
                "width": source.size[2],
                "line": source.size[2] * pixel,
                "pixel": pixel,
            }
            self.windows[step] = self.constant(self.constants.window(name, fields))
        return f"&{self.windows[step]}"

    def _sums(self, step: CStep) -> str:
        return self.scratch("sums", "int32_t", step.size[0], "one pixel of a binary layer")

    def _binary(self, step: CStep, negated: np.ndarray | None = None) -> Iterator[str]:
        """Yield the lines that compute the sums of a binary layer."""
        node = step.node
        outputs, inputs, *kernel = layer_shape(step)
        groups, pad = node.attrs.get("groups", 1), any(node.attrs.get("padding", (0, 0)))
        ones = pad and node.attrs["pad_value"] == 1
        aligned = groups == 1 or inputs % 8 == 0
        size = -(-inputs // 8)  # bytes of a tap
        taps, each = math.prod(kernel), outputs // groups
        words = -(-taps * (8 * size if aligned else inputs) // 64)
        signs = weight_signs(self.graph, node).reshape(outputs, inputs, *kernel)
        if negated is not None:
            signs = np.where(negated[:, None, None, None], -signs, signs)
        rows = bit_words(signs, 8 * size if aligned else inputs)
        blocks = np.concatenate([bit_blocks(rows[group * each : (group + 1) * each]) for group in range(groups)])
        about = f"{node.output}: {outputs} x {inputs} x {kernel[0]} x {kernel[1]} bits"
        weight = self.array(node, "weight", blocks, about)
        row = self.scratch("row", "uint64_t", words, "the bits under a window")
        source, sums, window = self.base(step.source), self._sums(step), self._window(step)
        if groups > 1:
            weight, sums = f"{weight} + g * {words * each}", f"{sums} + g * {each}"
            source = f"{source} + g * {size}" if aligned else source
        lines: list[str] = []
        dot = self.call("dot", sums, row, weight, words, each, taps * inputs) if aligned else ""
        if not aligned:
            mask = self.scratch("mask", "uint64_t", words, "the bits that count")
            count = self.call(
                "gather_group", row, mask, source, window, "in", f"g * {inputs}", inputs, int(ones), words
            )
            lines.append(f"const int32_t count = {inputs} * {count}")
            lines.append(self.call("dot_masked", sums, row, mask, weight, words, each, "count"))
        elif ones:
            last = (1 << (inputs % 8 or 8)) - 1
            lines += [self.call("gather_ones", row, source, window, "in", size, last, words), dot]
        elif pad:
            mask = self.scratch("mask", "uint64_t", words, "the bits that count")
            inside = self.call("taps_inside", "in").rstrip(";")
            lines += [
                f"if ({inside} == {taps}) {{",
                "    " + self.call("gather", row, source, window, "in", size, words),
                "    " + dot,
                "} else {",
                "    " + self.call("gather_border", row, mask, source, window, "in", size, words),
                "    " + self.call("dot_masked", sums, row, mask, weight, words, each, f"{inside} * {inputs}"),
                "}",
            ]
        else:
            lines += [self.call("gather", row, source, window, "in", size, words), dot]
        yield self._look(step)
        yield from _grouped(groups, lines)

    def _real_layer(self, step: CStep) -> Iterator[str]:
        """Yield the lines of a real layer: products, then the scale of int8 weights or bits, then the bias."""
        node, source = step.node, step.source
        outputs, inputs, *kernel = layer_shape(step)
        groups = node.attrs.get("groups", 1)
        stored = self.graph.tensors[node.tensors["weight"]]
        bits = stored.dtype == np.uint8
        weight = (weight_signs(self.graph, node) if bits else stored).reshape(outputs, inputs, *kernel)
        weight = weight if weight.dtype == np.int8 else weight.astype(np.float32)
        kind = "bits" if bits else "int8" if weight.dtype == np.int8 else "float"
        about = f"{node.output}: {outputs} x {inputs} x {kernel[0]} x {kernel[1]}, {kind}"
        yield self._look(step)
        if is_depthwise(node) and not bits:
            array = self.array(node, "weight", depthwise_taps(weight), about)
            window = self._window(step)
            yield self.call(f"depthwise_{kind}", "values", self.base(source), window, "in", outputs, array)
        else:
            each = outputs // groups
            parts = [(sign_bytes if bits else real_blocks)(weight[g * each : (g + 1) * each]) for g in range(groups)]
            array = self.array(node, "weight", np.concatenate(parts), about)
            channel = source.size[1] * source.size[2] if source.planar else 1
            values, start = "values", self.base(source)
            if groups > 1:
                values, start = f"values + g * {each}", f"{start} + g * {inputs * channel}"
                array = f"{array} + g * {len(parts[0])}"
            ends: tuple[str, ...] = ()
            if self._on_codes(step):
                kind, start, ends = "codes", f"{self.name}_memory.codes", ("unit",)
            args = (values, start, self._window(step), "in", inputs, channel, array, each, *ends)
            yield from _grouped(groups, [self.call(f"convolve_{kind}", *args)])
        for role, kernel_name in (("weight_scale", "scale"), ("bias", "shift")):
            vector = self.graph.tensor(node, role)
            if vector is not None:
                yield self.call(kernel_name, "values", self.array(node, role, vector), outputs)


def _grouped(groups: int, lines: list[str]) -> list[str]:
    """Return the lines, in a loop over groups if there are several."""
    if groups == 1:
        return lines
    return [f"for (int32_t g = 0; g < {groups}; g++) {{", *(f"    {line}" for line in lines), "}"]
