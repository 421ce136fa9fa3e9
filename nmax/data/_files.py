"""From files to columns: CSV and TSV, Parquet, NumPy's own, Zarr."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nmax.data._choose import TIME_NAMES
from nmax.data._csv import read_csv
from nmax.data._frames import from_array, from_arrow, from_object
from nmax.data._raw import Raw, check_names


def from_file(source: str | Path) -> Raw:
    """The columns of a file, read as its suffix says."""
    path = Path(source).expanduser()
    if "://" in str(source):
        raise ValueError(f"The data must be a file on this machine; got the address {source}. Download it first.")
    name = path.name.lower()
    suffix = next((suffix for suffix in READERS if name.endswith(suffix)), None)
    if suffix is None:
        raise ValueError(f"The name of a data file must end in one of {', '.join(READERS)}; got {path.name!r}.")
    if not path.exists():
        there = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, there, n=1)
        raise FileNotFoundError(f"There is no file {path}.{f' Did you mean {near[0]}?' if near else ''}")
    if path.is_dir() and suffix not in FOLDERS or path.is_file() and suffix == ".zarr":
        raise ValueError(f"{path} must be a {'folder' if path.is_file() else 'file'}, as its name says; it is not.")
    raw = READERS[suffix](path)
    if not raw.length:
        raise ValueError(f"The file must hold rows; {path} has none.")
    return raw


def _read_parquet(path: Path) -> Raw:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(path)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} cannot be read as Parquet: {error}.") from error
    return from_arrow(table, str(path))


def _load(path: Path) -> Any:
    """NumPy's own formats, never by way of pickle, which could run anything."""
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        if "pickle" in str(error):
            raise ValueError(_objects(path)) from error
        raise ValueError(f"{path} cannot be read as {path.suffix}: {error}.") from error


def _objects(path: Path) -> str:
    return f"Arrays must hold numbers; {path} holds pickled objects, which are not read. Save it as an array of floats."


def _read_npy(path: Path) -> Raw:
    array = _load(path)
    return from_object(array) or from_array(array)


def _read_npz(path: Path) -> Raw:
    """`y`, and if they are there `inputs`, `time` or `times`, and the names `columns` and `input_columns`."""
    with _load(path) as file:
        try:
            arrays = {name: file[name] for name in file.files}
        except ValueError as error:
            raise ValueError(_objects(path)) from error
    return from_arrays(arrays, str(path))


def from_arrays(arrays: dict[str, np.ndarray], source: str) -> Raw:
    """The columns of several arrays: `y` with its companions, one array of any name, or columns of one length."""
    if len(arrays) == 1:
        arrays = {"y": next(iter(arrays.values()))}
    if "y" not in arrays:
        lengths = {array.shape for array in arrays.values()}
        if len(lengths) != 1 or len(next(iter(lengths))) != 1:
            shapes = {name: array.shape for name, array in arrays.items()}
            raise ValueError(f"{source} must hold an array `y`, one array alone, or columns of one length; got {shapes}.")
        return Raw(dict(arrays))
    columns = _companion(arrays, "y", "columns", "y", source)
    inputs = _companion(arrays, "inputs", "input_columns", "u", source) if "inputs" in arrays else {}
    clocks = [arrays[name] for name in arrays if name.lower() in (*TIME_NAMES, "times")]
    if len(clocks) > 1 or any(clock.ndim != 1 for clock in clocks):
        raise ValueError(f"{source} must hold one array of times, of one dimension; got {len(clocks)}.")
    clock = {"time": clocks[0]} if clocks else {}
    check_names([*clock, *columns, *inputs], source)
    lengths = {name: len(column) for name, column in (clock | columns | inputs).items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"The arrays in {source} must have one row for each record; their lengths are {lengths}.")
    known = {"y", "inputs", "columns", "input_columns", *TIME_NAMES, "times"}
    notes = tuple(f"Array `{name}` was left out." for name in arrays if name.lower() not in known)
    return Raw(clock | columns | inputs, index="time" if clock else None, inputs=tuple(inputs), notes=notes)


def _companion(arrays: dict[str, np.ndarray], name: str, names: str, letter: str, source: str) -> dict[str, np.ndarray]:
    """The columns of an array by the names in another one."""
    raw = from_array(arrays[name], letter)
    if names not in arrays:
        return raw.columns
    given = [str(label) for label in np.atleast_1d(arrays[names])]
    if len(given) != len(raw.columns):
        raise ValueError(f"`{names}` in {source} must name the {len(raw.columns)} columns of `{name}`; got {len(given)}.")
    check_names(given, source)
    return dict(zip(given, raw.columns.values(), strict=True))


def _read_zarr(path: Path) -> Raw:
    """An array, a group that xarray has written, or a group of arrays as in a `.npz`."""
    import zarr

    try:
        store = zarr.open(path, mode="r")
    except (FileNotFoundError, KeyError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as Zarr: {error}.") from error
    if isinstance(store, zarr.Array):
        return from_array(store[...])
    arrays = dict(store.arrays())
    if all(_has_dimensions(array) for array in arrays.values()):
        import xarray

        with xarray.open_zarr(path, consolidated=False) as data:
            raw = from_object(data[sorted(data.data_vars, key=str)])
    else:
        raw = from_arrays({name: np.asarray(arrays[name][...]) for name in sorted(arrays)}, str(path))
    assert raw is not None
    return dataclasses.replace(raw, ordered=False)


def _has_dimensions(array: Any) -> bool:
    """Whether the dimensions of a Zarr array have names, as xarray gives them in either version of the format."""
    return bool(getattr(array.metadata, "dimension_names", None)) or "_ARRAY_DIMENSIONS" in array.attrs


READERS: dict[str, Callable[[Path], Raw]] = {
    ".csv": read_csv,
    ".csv.gz": read_csv,
    ".tsv": lambda path: read_csv(path, "\t"),
    ".tsv.gz": lambda path: read_csv(path, "\t"),
    ".parquet": _read_parquet,
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".zarr": _read_zarr,
}
FOLDERS = (".zarr", ".parquet")  # what may be a folder
