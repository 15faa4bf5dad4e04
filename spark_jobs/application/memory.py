"""The memory of the driver's Python process."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress


def trim() -> None:
    """Return freed memory to the operating system, where the C library can: glibc keeps most of it by itself.

    Arrays of many groups are freed between the steps of a release. If the C library kept their memory, it would add to
    the peak of the next step, whose objects do not fit into it.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)
