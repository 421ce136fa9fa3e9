"""Trees of arrays as arrays by name, and back into a tree of the same shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

Tree = TypeVar("Tree")


def named_leaves(tree: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """Every array of a tree under the path that leads to it; a random key as its numbers."""
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(tree, eqx.is_array))
    return {prefix + jax.tree_util.keystr(path): _numbers(leaf) for path, leaf in leaves}


def with_leaves(tree: Tree, arrays: Mapping[str, np.ndarray], prefix: str = "") -> Tree:
    """The tree with its arrays replaced by those of these names, which must have the same shapes and types."""
    dynamic, static = eqx.partition(tree, eqx.is_array)
    leaves, shape = jax.tree_util.tree_flatten_with_path(dynamic)
    wanted = {prefix + jax.tree_util.keystr(path): leaf for path, leaf in leaves}
    given = {name for name in arrays if name.startswith(prefix)} if prefix else set(arrays)
    if set(wanted) != given:
        odd = sorted(set(wanted) ^ given)
        raise ValueError(f"What is kept must have the same arrays as the model asks for; they differ in {odd[:3]}.")
    for name, leaf in wanted.items():
        kept, here = arrays[name], _numbers(leaf)
        if kept.shape != here.shape or kept.dtype != here.dtype:
            raise ValueError(
                f"{name} must have shape {here.shape} and type {here.dtype}; what is kept has {kept.shape}, {kept.dtype}."
            )
    restored = [_like(leaf, arrays[name]) for name, leaf in wanted.items()]
    return eqx.combine(jax.tree_util.tree_unflatten(shape, restored), static)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _numbers(leaf: Any) -> np.ndarray:
    return np.asarray(jr.key_data(leaf) if _is_key(leaf) else leaf)


def _like(leaf: Any, array: np.ndarray) -> Any:
    if _is_key(leaf):
        return jr.wrap_key_data(jnp.asarray(array), impl=jr.key_impl(leaf))
    return array if isinstance(leaf, np.ndarray) else jnp.asarray(array)
