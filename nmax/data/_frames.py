"""From objects in memory to columns: NumPy, pandas, polars, Arrow and xarray, none of which but NumPy is imported for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from nmax.data._choose import TIME_NAMES
from nmax.data._raw import Raw, check_names, kind

UNNAMED = "index"  # what an index without a name is called, as by `reset_index` of pandas


def from_object(source: Any) -> Raw | None:
    """The columns of an object with named columns or rows; None if it is nothing of the kind."""
    if _is_from("pandas", source) and hasattr(source, "iloc"):
        return _from_pandas(source)
    if _is_from("xarray", source):
        return _from_xarray(source)
    if _is_from("polars", source):
        source = source.collect() if hasattr(source, "collect") else source
        source = source.to_frame(source.name or "y") if hasattr(source, "to_frame") else source
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__dataframe__"):
        return from_arrow(source)
    if isinstance(source, np.ndarray) and source.dtype.names:
        return Raw({name: source[name] for name in source.dtype.names})
    return None


def from_array(source: Any, letter: str = "y") -> Raw:
    """The columns of an array, named y, or y0, y1, ..."""
    array = source if isinstance(source, np.ndarray) else np.asarray(source)
    if array.ndim == 0:
        raise TypeError(f"Data must be a path, an array or a frame; got {type(source).__name__}.")
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2:
        raise ValueError(f"An array must have shape (T + 1, columns) or (T + 1,); got shape {array.shape}.")
    return Raw(dict(zip(numbered(letter, array), array.T, strict=True)))


def from_arrow(source: Any, name: str = "the frame") -> Raw:
    """The columns of whatever can show itself as an Arrow table."""
    import pyarrow as pa

    if not isinstance(source, pa.Table):
        if hasattr(source, "__arrow_c_stream__"):
            source = pa.table(source)
        else:
            from pyarrow.interchange import from_dataframe

            source = from_dataframe(source)
    index, labels = _index_kept_by_pandas(source)
    names = [labels.get(str(column), str(column)) for column in source.column_names]
    check_names(names, name)
    return Raw(dict(zip(names, source.columns, strict=True)), index=index)


def _index_kept_by_pandas(table: Any) -> tuple[str | None, dict[str, str]]:
    """The column that was the index of a pandas frame, and what it is called if it had no name."""
    kept = [name for name in (table.schema.pandas_metadata or {}).get("index_columns", []) if isinstance(name, str)]
    if not kept:
        return None, {}
    _check_levels(len(kept))
    unnamed = kept[0].startswith("__index_level_")
    return (UNNAMED, {kept[0]: UNNAMED}) if unnamed else (kept[0], {})


def numbered(letter: str, array: np.ndarray) -> tuple[str, ...]:
    """Names for the columns of an array that has none."""
    count = array.shape[1] if array.ndim == 2 else 0
    return (letter,) if count == 1 else tuple(f"{letter}{k}" for k in range(count))


def _is_from(library: str, source: Any) -> bool:
    return any(parent.__module__.split(".")[0] == library for parent in type(source).__mro__)


def _from_pandas(frame: Any) -> Raw:
    if frame.ndim == 1:
        frame = frame.to_frame("y" if getattr(frame, "name", None) is None else frame.name)
    names = [str(name) for name in frame.columns]
    columns = {name: _pandas_column(frame.iloc[:, k]) for k, name in enumerate(names)}
    index = frame.index
    _check_levels(index.nlevels)
    if index.name is None and type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1):
        check_names(names, "the frame")
        return Raw(columns)
    label = UNNAMED if index.name is None else str(index.name)
    check_names([label, *names], "the frame, its index among them,")
    return Raw({label: _pandas_column(index.to_series()), **columns}, index=label)


def _check_levels(levels: int) -> None:
    if levels > 1:
        raise ValueError(
            f"A frame's index must have one level, the time; got {levels}. Pick one series of the frame, and make the other "
            "levels columns with `reset_index`."
        )


def _pandas_column(series: Any) -> Any:
    """A view of plain numbers and dates; what only pandas knows, by way of Arrow."""
    if type(series.dtype).__name__ == "PeriodDtype":
        series = series.dt.to_timestamp()
    if isinstance(series.dtype, np.dtype) and series.dtype.kind != "O":
        return series.to_numpy()
    import pyarrow as pa

    try:
        column = pa.Array.from_pandas(series)
    except pa.ArrowException:
        return series.to_numpy(dtype=object)
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


def _from_xarray(data: Any) -> Raw:
    """A `DataArray` of one or two dimensions, or the variables of a `Dataset` along one dimension."""
    if not hasattr(data, "data_vars"):
        return _from_data_array(data)
    along = {str(name): variable for name, variable in data.data_vars.items() if variable.ndim == 1}
    dimensions = {variable.dims[0] for variable in along.values()}
    if len(dimensions) != 1:
        raise ValueError(
            f"The variables of a dataset must lie along one common dimension; got {sorted(map(str, dimensions)) or 'none'}. "
            "Select them first, `dataset[['name']]`, or pass a DataArray."
        )
    (dimension,) = dimensions
    others = [name for name in map(str, data.data_vars) if name not in along]
    notes = tuple(f"Variable `{name}` was left out: it does not lie along `{dimension}` alone." for name in others)
    return _with_coordinate(data, dimension, {name: variable.values for name, variable in along.items()}, notes)


def _from_data_array(array: Any) -> Raw:
    if array.ndim not in (1, 2):
        raise ValueError(f"A DataArray must have one or two dimensions, time and column; got {array.ndim}: {array.dims}.")
    name = "y" if array.name is None else str(array.name)
    if array.ndim == 1:
        return _with_coordinate(array, array.dims[0], {name: array.values})
    time = next((k for k in (0, 1) if _is_time(array, array.dims[k])), 0)
    values, other = array.values if time == 0 else array.values.T, array.dims[1 - time]
    labels = array.coords[other].values.tolist() if other in array.coords else None
    names = numbered(name, values) if labels is None else tuple(map(str, labels))
    check_names(names, "the DataArray")
    return _with_coordinate(array, array.dims[time], dict(zip(names, values.T, strict=True)))


def _is_time(array: Any, dimension: Any) -> bool:
    named = str(dimension).lower() in TIME_NAMES
    return named or (dimension in array.coords and kind(array.coords[dimension].values) == "dates")


def _with_coordinate(data: Any, dimension: Any, columns: dict[str, Any], notes: tuple[str, ...] = ()) -> Raw:
    if dimension not in data.coords:
        return Raw(columns, notes=notes)
    check_names([str(dimension), *columns], "the array, its dimension among them,")
    return Raw({str(dimension): data.coords[dimension].values, **columns}, index=str(dimension), notes=notes)
