"""Do ArviZ 0.23 and 1.x open what nmax exports? Writes a fit and chains to a temporary folder, and lets both read them.

    python benchmarks/arviz_versions.py /path/to/python-with-arviz-0.23 /path/to/python-with-arviz-1

The two interpreters need arviz, h5netcdf, h5py, zarr and matplotlib; they do not need nmax.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

READER = r"""
import sys, warnings
import matplotlib
matplotlib.use("Agg")
warnings.simplefilter("ignore", (DeprecationWarning, FutureWarning))
import arviz as az, matplotlib.pyplot as plt, numpy as np, xarray as xr

print("arviz", az.__version__, "xarray", xr.__version__, "numpy", np.__version__)
folder, new = sys.argv[1], int(az.__version__.split(".")[0]) >= 1


def ran(name, call):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        made = call()
    plt.close("all")
    heard = sorted({str(one.message).splitlines()[0] for one in said if issubclass(one.category, UserWarning)})
    print(f"  {name}: ran" + (f" (warned: {'; '.join(heard)})" if heard else ""))
    return made


def opened(place, form):
    if form == "nc":
        return az.from_netcdf(place, engine="h5netcdf")
    tree = xr.open_datatree(place, engine="zarr")  # ArviZ 0.23 refuses zarr 3 in `from_zarr`, and names this way round it
    return tree if new else az.InferenceData.from_datatree(tree)


for kind in ("fit", "chains"):
    for form in ("nc", "zarr"):
        place = f"{folder}/{kind}.{form}"
        data = ran(f"open {kind}.{form}", lambda: opened(place, form))
        groups = sorted(data.children) if new else sorted(data.groups())
        print("  groups:", ", ".join(groups))
        table = ran("summary", lambda: az.summary(data))
        print("   ", str(table).replace("\n", "\n    "))
    names = ["level", "noise"]
    if new:
        ran("plot_dist", lambda: az.plot_dist(data, var_names=names, backend="matplotlib"))
        ran("plot_trace", lambda: az.plot_trace(data, var_names=names, backend="matplotlib"))
        ran("plot_trace_dist", lambda: az.plot_trace_dist(data, var_names=names, backend="matplotlib"))
        ran("plot_forest", lambda: az.plot_forest(data, var_names=names, backend="matplotlib"))
        ran("plot_ppc_dist", lambda: az.plot_ppc_dist(data, var_names=["y"], num_samples=20, backend="matplotlib"))
        ahead = {"group": "predictions", "var_names": ["y"], "coords": {"column": "flow"}}
        ran("plot_dist of predictions", lambda: az.plot_dist(data, **ahead, backend="matplotlib"))
    else:
        ran("plot_posterior", lambda: az.plot_posterior(data, var_names=names))
        ran("plot_dist", lambda: az.plot_dist(data.posterior["level"]))
        ran("plot_trace", lambda: az.plot_trace(data, var_names=names))
        ran("plot_forest", lambda: az.plot_forest(data, var_names=names))
        ran("plot_ppc", lambda: az.plot_ppc(data, var_names=["y"], num_pp_samples=20))
        ran("plot_posterior of predictions", lambda: az.plot_posterior(data, group="predictions", var_names=["y"]))
    if kind == "chains":
        ran("plot_energy", lambda: az.plot_energy(data))
    paths = data["posterior_paths"] if new else data.posterior_paths
    print("  paths:", dict(paths.sizes), "from", str(paths["time"].values[0]), "to", str(paths["time"].values[-1]))
"""


def main(old: str, new: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        reader = Path(folder) / "reader.py"
        reader.write_text(READER)
        codes = []
        for python in (old, new):
            done = subprocess.run([python, str(reader), folder], capture_output=True, text=True, check=False)
            print(done.stdout + done.stderr[-3_000:], flush=True)
            codes.append(done.returncode)
    print("both open it" if not any(codes) else f"failed: {codes}")
    return int(any(codes))


def write(folder: Path) -> None:
    import jax.random as jr
    import numpy as np
    import numpyro.distributions as dist

    import nmax
    from nmax.data import Table

    model = nmax.StateSpaceModel(
        prior={
            "level": dist.Normal(2.0, 1.0),
            "noise": dist.LogNormal(0.0, 0.5),
            "push": dist.Normal(0.0, 1.0).expand([2]).to_event(1),
        },
        initial=lambda theta: theta["level"][None],
        transition=lambda x, theta, u: dist.Normal(
            0.2 * theta["level"] + 0.8 * x + theta["push"] @ u, theta["noise"]
        ).to_event(1),
        observation=lambda x, theta, u: dist.Normal(x, 0.5).to_event(1),
        states=("stock",),
    )
    inputs = np.random.default_rng(0).normal(size=(201, 2))
    truth = {"level": 2.0, "noise": 1.0, "push": [0.5, -0.5]}
    _, y = nmax.simulate(model, truth, 200, inputs=inputs, key=jr.key(1))
    y[50:60] = np.nan
    days = np.datetime64("2024-01-01", "D") + np.arange(201)
    table = Table(y, inputs, ("flow",), ("rain", "heat"), days, "day")
    fit = nmax.fit(model, table, key=jr.key(0), progress=False)
    chains = nmax.sample(model, table, fit=fit, key=jr.key(2), draws=250, warmup=50, chains=4, progress=False)
    for name, posterior in (("fit", fit), ("chains", chains)):
        ahead = posterior.forecast(10, 200, inputs=np.zeros((10, 2)), key=jr.key(3))
        posterior.to_datatree(forecast=ahead).to_netcdf(folder / f"{name}.nc", engine="h5netcdf")
        posterior.to_zarr(folder / f"{name}.zarr", forecast=ahead, chunk=64)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
