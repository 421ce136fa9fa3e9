"""Reading ahead: while the device works on one batch, a thread reads the next ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

AHEAD = 2  # batches that are read before they are needed

Wanted = TypeVar("Wanted")
Read = TypeVar("Read")


def read_ahead(read: Callable[[Wanted], Read], wanted: Iterable[Wanted]) -> Iterator[Read]:
    """`read` of each of `wanted` in turn, the next ones being read in a thread meanwhile; errors come where they belong."""
    wanted = list(wanted)
    if len(wanted) == 1:  # nothing to be had from a thread
        yield read(wanted[0])
        return
    waiting: deque[Future[Read]] = deque()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="nmax-reads") as reader:
        try:
            for one in wanted:
                waiting.append(reader.submit(read, one))
                if len(waiting) > AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
