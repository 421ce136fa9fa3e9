"""Memory that was let go of goes back to the system."""

from __future__ import annotations

import contextlib
import ctypes


def give_back() -> None:
    """Have the allocator return what it keeps for later.

    Glibc keeps freed memory in pools, several a core. What the compiler leaves in them, hundreds of megabytes a program,
    would stay part of the process for good, and the next program's share would come on top.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):  # another system's allocator
        ctypes.CDLL(None).malloc_trim(0)
