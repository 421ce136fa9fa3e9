"""Runs of series on disk: of which rows and columns they are, and what can be asked of them as of those in memory."""

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from test_run_folder import PLAIN, data, same

import nmax
from nmax.data import source

MODEL = nmax.models.ar1()
BRIEF = PLAIN | {"steps": 10, "pretrain": 0}


def parquet(file, **columns):
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
    return file


def test_statistics_of_some_columns_are_not_those_of_others(tmp_path):
    y = data().ravel()
    file = parquet(tmp_path / "x.parquet", a=y, b=2 * y + 1, c=np.zeros(len(y)))
    run = BRIEF | {"out": tmp_path / "run"}
    nmax.fit(MODEL, source(file, columns=["a"]), **run)
    with pytest.raises(ValueError, match="data.sha256_of_observations is another"):
        nmax.fit(MODEL, source(file, columns=["b"]), **run)
    nmax.fit(MODEL, source(file, columns=["a"]), **run)
    run = BRIEF | {"out": tmp_path / "many"}
    nmax.fit(MODEL, [source(file, columns=["a"]), source(file, columns=["b"])], **run)
    with pytest.raises(ValueError, match="data.series 0.sha256_of_observations is another"):
        nmax.fit(MODEL, [source(file, columns=["b"]), source(file, columns=["a"])], **run)
