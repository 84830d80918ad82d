"""Features of this processor that packed networks and bfloat16 training use."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from zerocross.doctor.finding import Diagnosis

# what it speeds up -> any of these features, in LLVM's spelling without signs; first those of x86-64, then of ARM
USES = {
    "popcount": (("popcnt", "neon"), "binary products"),
    "vector popcount": (("avx512vpopcntdq", "neon"), "binary products, many at a time"),
    "AVX2": (("avx2",), "packed networks on x86-64: level avx2"),
    "AVX-512": (("avx512f",), "packed networks on x86-64: level avx512, together with VNNI and vector popcount"),
    "VNNI": (("avx512vnni", "avxvnni", "dotprod"), "real layers with 8-bit weights"),
    "BF16": (("avx512bf16", "amxbf16", "bf16"), "training with --precision bf16"),
}


def features() -> frozenset[str] | None:
    """The features of this processor; None where they cannot be known without llvmlite."""
    if find_spec("llvmlite") is not None:
        import llvmlite.binding as llvm

        return frozenset(_plain(name) for name, has in llvm.get_host_cpu_features().items() if has)
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return None
    for line in text.splitlines():
        name, _, values = line.partition(":")
        if name.strip() in {"flags", "Features"}:
            arm = {"asimd": "neon", "asimddp": "dotprod"}
            return frozenset(arm.get(value, _plain(value)) for value in values.split())
    return None


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "")


def examine_processor(known: frozenset[str] | None) -> Iterator[Diagnosis]:
    """Each use in `USES`: what this processor has for it."""
    if known is None:
        yield Diagnosis(
            "processor", platform.machine(), "missing", "its features cannot be read here",
            "pip install 'zerocross[runtime]'",
        )  # fmt: skip
        return
    for name, (alternatives, use) in USES.items():
        if "neon" in known and name.startswith("AVX"):
            continue  # ARM
        present = [feature for feature in alternatives if feature in known]
        if present:
            yield Diagnosis("processor", name, "ok", f"{', '.join(present)}: {use}")
        else:
            yield Diagnosis("processor", name, "missing", f"not in this processor: {use} run without it, slower")
