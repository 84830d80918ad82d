"""Memory that a training step frees is kept for the next one, instead of being returned to the system."""

from __future__ import annotations

import ctypes
import functools
import platform

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # glibc's malloc.h
_LARGEST_MMAP_THRESHOLD = 32 << 20  # what mallopt accepts
_NEVER = 2**31 - 1  # mallopt takes an int


@functools.cache
def keep_freed_memory() -> bool:
    """Tell glibc's malloc to keep what is freed, for the rest of this process; returns whether it did.

    By default glibc maps every large block anew and unmaps it when it is freed, so that each update of a network
    touches tens of thousands of fresh pages: 10 to 25 % of the time of an update on a CPU. Blocks above 32 MiB are
    mapped anew all the same. Changes no result. Does nothing without glibc.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    settings = {_MMAP_THRESHOLD: _LARGEST_MMAP_THRESHOLD, _TRIM_THRESHOLD: _NEVER, _TOP_PAD: 256 << 20}
    return all(mallopt(name, value) == 1 for name, value in settings.items())
