"""Several processes that fit together: who reads what, and how what they found is put together.

JAX's own runtime connects them (`jax.distributed.initialize`). Every process runs the same program; training divides the
windows of a step between the processes and takes the mean of their gradients, one all-reduce a step. They meet within a fit
only: what is done with its result, a process does alone, and waits for nobody.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "windows"
_MEETING: ContextVar[bool] = ContextVar("meeting", default=False)


@dataclasses.dataclass(frozen=True)
class Processes:
    """Who takes part.

    Attributes:
        rank: number of this process.
        count: of all processes.
        mesh: one device of each.
    """

    rank: int
    count: int
    mesh: Mesh

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes."""
        return self.rank == 0

    def replicated(self, tree: Any) -> Any:
        """Arrays that are the same in all processes, as arrays of all of them."""
        everywhere = NamedSharding(self.mesh, PartitionSpec())

        def one(leaf):
            if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
                return jr.wrap_key_data(one(jr.key_data(leaf)), impl=jr.key_impl(leaf))
            local = np.asarray(leaf)
            return jax.make_array_from_callback(local.shape, everywhere, lambda index: local[index])

        return jax.tree.map(lambda leaf: one(leaf) if isinstance(leaf, (jax.Array, np.ndarray)) else leaf, tree)

    def joined(self, tree: Any, axis: int) -> Any:
        """Arrays of which each process has its own part along an axis."""
        spread = NamedSharding(self.mesh, PartitionSpec(*(None,) * axis, AXIS))
        return jax.tree.map(lambda leaf: jax.make_array_from_process_local_data(spread, np.asarray(leaf)), tree)

    def local(self, tree: Any) -> Any:
        """Arrays of all of them that are the same in each, as this process's own."""
        return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)) if isinstance(leaf, jax.Array) else leaf, tree)

    def gathered(self, array: np.ndarray) -> list[np.ndarray]:
        """The arrays of all processes, in the order of their ranks; they must have the same shape."""
        from jax.experimental.multihost_utils import process_allgather

        as_bytes = np.ascontiguousarray(array).view(np.uint8)  # JAX would cut double precision down to single
        return [np.asarray(part).view(array.dtype) for part in process_allgather(as_bytes)]

    def agreed(self, value: bool) -> bool:
        """What the first process says, in all of them."""
        from jax.experimental.multihost_utils import broadcast_one_to_all

        return bool(broadcast_one_to_all(np.int32(value)))


@contextlib.contextmanager
def meeting() -> Iterator[None]:
    """Within, the processes that JAX has connected work together; all of them must come here."""
    before = _MEETING.set(True)
    try:
        yield
    finally:
        _MEETING.reset(before)


def connected() -> bool:
    """Whether JAX has connected this process to others."""
    return jax.distributed.is_initialized() and jax.process_count() > 1


def processes() -> Processes | None:
    """The processes that are working together, or None where this one is alone, or does something of its own."""
    if not (_MEETING.get() and connected()):
        return None
    devices = {device.process_index: device for device in reversed(jax.devices())}
    mesh = Mesh(np.array([devices[k] for k in range(jax.process_count())]), (AXIS,))
    return Processes(jax.process_index(), jax.process_count(), mesh)


def writes() -> bool:
    """Whether this process is the one that writes what several have in common."""
    return not connected() or jax.process_index() == 0
