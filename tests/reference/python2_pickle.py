"""Pickles as Python 2 writes them at protocol 2: byte strings as (SHORT_)BINSTRING, and numpy's old module name."""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any

Pickler: Any = vars(pickle)["_Pickler"]  # the pure Python pickler, whose methods can be replaced


class Python2Pickler(Pickler):
    dispatch = dict(Pickler.dispatch)

    def save_string(self, text: bytes | str) -> None:
        data = text.encode("latin1") if isinstance(text, str) else text
        self.write(b"U" + bytes([len(data)]) + data if len(data) < 256 else b"T" + struct.pack("<i", len(data)) + data)
        self.memoize(text)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        module = obj.__module__.replace("numpy._core", "numpy.core")
        self.write(f"c{module}\n{name or obj.__qualname__}\n".encode())
        self.memoize(obj)

    dispatch |= {bytes: save_string, str: save_string}
    dispatch |= {type: save_global, type(len): save_global, type(save_global): save_global}


def dumps(value: Any) -> bytes:
    out = io.BytesIO()
    Python2Pickler(out, protocol=2).dump(value)
    return out.getvalue()
