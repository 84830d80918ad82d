"""Write the prebuilt object code of the package, so that users need not wait for compilation: `make kernels`.

Run this after any change in `kernels/`, on Linux on x86-64. The file names contain a hash of the sources, so that
outdated code is never loaded. The same sources and versions of Numba and llvmlite give the same bytes.
"""

from __future__ import annotations

import subprocess
import sys

from zerocross.runtime.kernels.native import PREBUILT, compile_level, object_name, write_object
from zerocross.runtime.kernels.target import LEVELS, Level, level_named


def prebuilt_levels() -> list[Level]:
    """Return the levels that do not depend on the processor that compiles them."""
    return [level for level in LEVELS if level.cpu]


def prebuild(name: str) -> None:
    """Compile a level and replace its file; call this only once per process."""
    level = level_named(name, here=False)
    code = compile_level(level)
    file = PREBUILT / object_name(level)
    PREBUILT.mkdir(exist_ok=True)
    for outdated in set(PREBUILT.glob(f"{name}-*.bin")) - {file}:
        outdated.unlink()
    write_object(file, code)
    print(f"{file.name}: {len(code):,} bytes")


if __name__ == "__main__":
    for each in prebuilt_levels():
        code = f"from zerocross.runtime.prebuild import prebuild; prebuild({each.name!r})"
        subprocess.run([sys.executable, "-c", code], check=True)
