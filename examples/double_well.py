"""The reference path and the posterior of a double well with few observations: writes a figure.

python examples/double_well.py [docs/figures/double_well.png]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import numpyro.distributions as dist

import nmax

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

model = nmax.SDE(
    prior={"depth": dist.LogNormal(0.0, 1.0)},
    initial=lambda theta: jnp.array([1.0]),
    drift=lambda x, theta: 4.0 * theta["depth"] * (x - x**3),
    diffusion=lambda x, theta: jnp.array([1.6]),
    dt=0.05,
    observation=lambda x, theta: dist.Normal(x, 0.2).to_event(1),
)


def main(out: Path) -> None:
    x, y = nmax.simulate(model, {"depth": 1.0}, 600, key=jax.random.key(4), observe_every=20)
    fit = nmax.fit(model, y, key=jax.random.key(0), progress=False)
    print(fit.summary())
    draws = fit.path(400, key=jax.random.key(1))[:, :, 0]
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    print(f"90 % bands hold the true path {np.mean((x[:, 0] >= low) & (x[:, 0] <= high)):.1%} of the time")
    theta = {"depth": jnp.float32(fit.theta(1_000, key=jax.random.key(2))["depth"].mean())}
    guide: Any = fit.guide
    _, reference = jax.jit(lambda s: guide.reference(theta, s, jnp.int32(0)))(fit.series)

    figure, axis = plt.subplots(figsize=(9, 3.2), layout="constrained")
    axis.fill_between(np.arange(601), low, high, color="tab:blue", alpha=0.25, linewidth=0, label="90 % of q")
    axis.plot(x[:, 0], color="grey", linewidth=1, label="truth")
    axis.plot(np.asarray(reference.mean[:601, 0]), color="tab:blue", linewidth=1.5, label="reference")
    axis.plot(y[:, 0], "k.", markersize=5, label="observed")
    axis.set(xlabel="step", ylabel="x")
    axis.legend(frameon=False, ncols=4, fontsize=8)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    print(f"figure: {out}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/double_well.png"))
