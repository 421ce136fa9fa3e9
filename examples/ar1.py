"""The main job end to end: simulate AR(1), fit it, hold the fit against the exact posterior.

    python examples/ar1.py [--length 5000] [--out out/ar1]

Prints a table and writes a figure of the marginal densities and of a stretch of the latent path.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import jax
import matplotlib
import numpy as np

import nmax
from nmax import reference

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

TRUTH = {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}
LABELS = (r"$\theta_1$ intercept", r"$\theta_2$ coefficient", r"$\log\theta_3$ log noise")
STRETCH = slice(2_000, 2_060)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=5_000, help="steps to simulate")
    parser.add_argument("--out", type=Path, default=Path("out/ar1"), help="folder for the figure")
    options = parser.parse_args()

    model = nmax.models.ar1()
    x, y = nmax.simulate(model, TRUTH, options.length, key=jax.random.key(2021))
    print(f"simulated AR(1), T = {options.length:,}, θ = (5, 0.5, 3)")
    fit = nmax.fit(model, y, key=jax.random.key(0))
    print(fit.summary(), "\n")

    begun = time.perf_counter()
    exact = reference.ar1_exact(y[:, 0], 20_000, seed=0)
    exact_seconds = time.perf_counter() - begun
    theta = fit.theta(4_000, key=jax.random.key(1))
    drawn = np.stack([theta["intercept"], theta["coefficient"], np.log(theta["noise"])], axis=1).astype(float)
    print_table(drawn, exact, fit, exact_seconds)

    options.out.mkdir(parents=True, exist_ok=True)
    draw_figure(options.out / "posterior.png", drawn, exact, fit, x, y)
    print(f"\nfigure: {options.out / 'posterior.png'}")


def print_table(drawn, exact, fit, exact_seconds) -> None:
    bias, ratio = reference.bias_in_sd(drawn, exact.theta), reference.sd_ratio(drawn, exact.theta)
    print(f"{'':<14}{'exact mean':>12}{'sd':>10}{'nmax mean':>12}{'sd':>10}{'bias / sd':>11}{'sd ratio':>10}")
    for k, name in enumerate(("θ1", "θ2", "log θ3")):
        e, q = exact.theta[:, k], drawn[:, k]
        numbers = f"{e.mean():>12.4f}{e.std():>10.4f}{q.mean():>12.4f}{q.std():>10.4f}{bias[k]:>11.3f}{ratio[k]:>10.3f}"
        print(f"{name:<14}{numbers}")
    correlation = [np.corrcoef(v.T)[0, 1] for v in (exact.theta, drawn)]
    elbo = fit.elbo(key=jax.random.key(2))
    print(f"corr(θ1, θ2)   exact {correlation[0]:.3f}, nmax {correlation[1]:.3f}")
    print(f"MMD²           {reference.mmd2(drawn, exact.theta):.4f}")
    print(f"log evidence   {exact.log_evidence:,.2f} ± {exact.log_evidence_error:.3f} nats")
    print(f"ELBO           {elbo.mean:,.2f} ± {elbo.standard_error:.2f} nats, gap {exact.log_evidence - elbo.mean:.2f}")
    print(f"seconds        fit {fit.seconds:.1f}, exact sampler {exact_seconds:.1f}")


def draw_figure(path, drawn, exact, fit, x, y) -> None:
    figure, axes = plt.subplot_mosaic([["a", "b", "c"], ["path"] * 3], figsize=(10, 6.2), layout="constrained")
    for k, name in enumerate("abc"):
        limits = exact.theta[:, k].mean() + 4 * exact.theta[:, k].std() * np.array([-1, 1])
        for values, colour, label in ((exact.theta[:, k], "tab:blue", "exact"), (drawn[:, k], "black", "nmax")):
            axes[name].plot(*density(values, limits), color=colour, label=label)
        axes[name].axvline((5.0, 0.5, np.log(3.0))[k], color="grey", linestyle="--", linewidth=1, label="truth")
        axes[name].set(xlabel=LABELS[k], yticks=[])
    axes["a"].legend(frameon=False, fontsize=8)

    stop = min(STRETCH.stop, len(y))
    start = max(0, stop - (STRETCH.stop - STRETCH.start))
    paths = fit.path(1_000, start=start, stop=stop, key=jax.random.key(3))[..., 0]
    low, high = np.quantile(paths, [0.05, 0.95], axis=0)
    exact_low, exact_high = exact_band(exact, y, start, stop)
    index = np.arange(start, stop)
    axes["path"].fill_between(index, low, high, color="black", alpha=0.2, label="nmax, 90 % band")
    axes["path"].plot(index, exact_low, color="tab:blue", linewidth=1, label="exact, 90 % band")
    axes["path"].plot(index, exact_high, color="tab:blue", linewidth=1)
    axes["path"].plot(index, x[start:stop, 0], color="tab:red", linewidth=1, label="true path")
    axes["path"].plot(index, y[start:stop, 0], "k.", markersize=3, label="observations")
    axes["path"].set(xlabel="step $i$", ylabel="$x_i$")
    axes["path"].legend(frameon=False, fontsize=8, ncols=4, loc="upper center")
    axes["path"].margins(x=0.01, y=0.18)
    figure.savefig(path, dpi=150)


def exact_band(exact, y, start, stop):
    """The 90 % band of the exact smoother, averaged over draws of θ; data 200 steps to each side are plenty."""
    first, last = max(0, start - 200), min(len(y), stop + 200)
    one, paths = np.ones((1, 1)), []
    for n, theta in enumerate(exact.theta[:: len(exact.theta) // 100]):
        begin = np.array([10.0]) if first == 0 else y[first]
        linear = reference.LinearGaussian(begin, theta[:1], theta[1] * one, np.exp(2 * theta[2]) * one, one, one)
        paths.append(reference.sample_paths(linear, y[first:last], 20, seed=n))
    return np.quantile(np.concatenate(paths)[:, start - first : stop - first, 0], [0.05, 0.95], axis=0)


def density(values, limits):
    """A kernel density estimate with Silverman's bandwidth."""
    grid = np.linspace(limits[0], limits[1], 200)
    width = 1.06 * values.std() * len(values) ** -0.2
    kernel = np.exp(-0.5 * ((grid[:, None] - values[None, :4_000]) / width) ** 2)
    return grid, kernel.mean(axis=1) / (width * np.sqrt(2 * np.pi))


if __name__ == "__main__":
    main()
