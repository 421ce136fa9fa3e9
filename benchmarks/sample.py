"""`nmax.sample` on the reference series: right to within its error, and how long to 1,000 effective draws.

    python benchmarks/sample.py SHARED [NAME ...] [--rival] [--draws 150]

SHARED is the folder that holds `reference/`. With `--rival` NumPyro's NUTS runs on the same model beside it, in the
parametrisation that suits the model: the path as it is, or innovations for the components that are seen badly. It is started
at the reference posterior's mean, which nmax is not told.
"""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from numpyro.infer import MCMC, NUTS
from references import CASES, load

import nmax
from nmax._diagnostics import mixing
from nmax._first_guess import first_guess
from nmax.models import log_prob_of_rows

INNOVATIONS = {"sv_tbill_paper": (1,), "sv_tbill_code": (1,), "fhn_T2000_s31": (1,)}  # components, the others as they are
WARMUP = 500


def main() -> None:
    parser = argparse.ArgumentParser(description="nmax.sample against near-exact posteriors.")
    parser.add_argument("shared", type=Path)
    parser.add_argument("names", nargs="*", default=[name for name in CASES if name != "ar1_T100000_s11"])
    parser.add_argument("--rival", action="store_true", help="run NumPyro's NUTS as well")
    parser.add_argument("--draws", type=int, default=150, help="of each of 8 chains")
    options = parser.parse_args()
    for name in options.names:
        case = load(options.shared, name)
        draws = nmax.sample(case.model, case.y, key=jr.key(0), draws=options.draws, progress=False)
        theta = np.asarray(draws.record.theta, float)
        report(name, "nmax.sample", theta, case.theta, draws.seconds, draws.drawing, draws.divergences)
        jax.clear_caches()
        if options.rival:
            found = rival(case, draws.series, 2 * options.draws, INNOVATIONS.get(name, ()))
            report(name, "NumPyro NUTS", found[0], case.theta, *found[1:])
            jax.clear_caches()


def report(name: str, what: str, theta: np.ndarray, exact: np.ndarray, seconds: float, drawing: float, bad: int) -> None:
    """`theta` has draws first, then chains. An error of a mean counts no draw more than once, and the exact draws' own."""
    size, count = exact.shape[1], theta.shape[0] * theta.shape[1]
    each = [mixing(theta[:, :, k].T) for k in range(size)]
    bulk = np.array([one.bulk for one in each])
    flat, sd = theta.reshape(count, -1)[:, :size], exact.std(axis=0)
    off = (flat.mean(axis=0) - exact.mean(axis=0)) / sd
    error = np.sqrt(1 / np.minimum(bulk, count) + 1 / 5_000)
    worst = min(bulk.min(), count)
    needed = seconds - drawing + drawing * 1_000 / worst
    print(f"{name} {what}: {seconds:.1f} s, {drawing:.1f} of them for {count} draws; worst ESS {bulk.min():.0f}", end=" ")
    print(f"(tail {min(e.tail for e in each):.0f}), R-hat {max(e.rhat for e in each):.3f}, {bad} divergences;", end=" ")
    print(f"{needed:.0f} s to 1,000 effective draws, {1000 * drawing / worst:.1f} s for each 1,000 more")
    print(f"    bias / sd {np.round(off, 3)}, in errors {np.round(off / error, 2)};", end=" ")
    print(f"sd ratio {np.round(flat.std(axis=0) / sd, 3)}", flush=True)


def rival(case, series, draws: int, innovations: tuple[int, ...]) -> tuple[np.ndarray, float, float, int]:
    """NUTS on θ and on the path, unconstrained, or its standardised innovations."""
    begun = time.perf_counter()
    model = case.model
    guide = nmax.LookaheadGuide(layers=0).build(model, series, key=jr.key(0))
    transforms = [model.state_transforms[k] for k in guide.drawn]
    rows = series.values, series.observed, series.inputs

    def centred(at, theta):
        u = at["u"]
        x = jnp.stack([transform(u[:, k]) for k, transform in enumerate(transforms)], axis=1)
        slopes = sum(jnp.sum(t.log_abs_det_jacobian(u[:, k], x[:, k])) for k, t in enumerate(transforms))
        x = guide.states(theta, jnp.concatenate([jnp.zeros((1, x.shape[1])), x]), series, jnp.arange(series.length + 1))
        log_p = jnp.sum(log_prob_of_rows(model.transition_log_prob, x[:-1], x[1:], series.inputs[1:], theta=theta))
        return x, log_p + slopes

    def by_innovations(at, theta):
        """Components with independent noise: some drawn as innovations, the others as they are or read off the data."""

        def move(x, step):
            u, y = step
            base = model.transition(x, theta).base_dist
            after = base.loc + base.scale * u  # innovations; overwritten where the component is taken as it is
            log_p = 0.0
            for k in range(model.state_size):
                if k in innovations:
                    log_p -= 0.5 * u[k] ** 2
                    continue
                value = y[model.exactly_observed[k]] if k in model.exactly_observed else u[k]
                after = after.at[k].set(value)
                log_p += -0.5 * ((value - base.loc[k]) / base.scale[k]) ** 2 - jnp.log(base.scale[k])
            return after, (after, log_p)

        start = guide.start(theta, series)
        _, (x, log_p) = jax.lax.scan(move, start, (at["u"], series.values[1:]))
        return jnp.concatenate([start[None], x]), jnp.sum(log_p)

    def potential(at):
        theta = model.parameters.constrain(at["theta"])
        x, log_p = (by_innovations if innovations else centred)(at, theta)
        seen = jnp.sum(log_prob_of_rows(model.observation_log_prob, x, *rows, theta=theta))
        return -(log_p + seen + model.parameters.log_prob(at["theta"]))

    mean = np.zeros(model.parameters.size)
    mean[: case.theta.shape[1]] = case.theta.mean(axis=0)
    mean[case.theta.shape[1] :] = case.x_mean[0, -1]  # the start of the volatility
    theta = model.parameters.constrain(jnp.asarray(mean, jnp.float32))
    guess = first_guess(model, series, theta, jnp.arange(series.length + 1, dtype=jnp.int32))[1:]
    if innovations:
        u = guess.at[:, jnp.array(innovations)].set(0.0)
    else:
        u = guess[:, jnp.array(guide.drawn)]
    start = {"theta": jnp.tile(jnp.asarray(mean, jnp.float32), (4, 1)), "u": jnp.tile(u, (4, 1, 1))}
    start = jax.tree.map(lambda a: a + 0.02 * jr.normal(jr.key(2), a.shape), start)
    mcmc = MCMC(
        NUTS(potential_fn=potential),
        num_warmup=WARMUP,
        num_samples=draws,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.warmup(jr.key(1), init_params=start)
    jax.block_until_ready(mcmc.last_state)
    middle = time.perf_counter()
    mcmc.run(jr.key(3), extra_fields=("diverging",))
    theta = np.asarray(mcmc.get_samples(group_by_chain=True)["theta"], float).transpose(1, 0, 2)
    end = time.perf_counter()
    return theta, end - begun, end - middle, int(np.sum(mcmc.get_extra_fields()["diverging"]))


if __name__ == "__main__":
    main()
