"""`nmax.sample` on the reference series: right to within its error, and how long to 1,000 effective draws.

    python benchmarks/sample.py [NAME ...] [--rival]

reads the series with their near-exact posteriors from the folder that NMAX_REFERENCE names and the Treasury bill rates from
that of NMAX_DATA. With `--rival` NumPyro's NUTS runs on the same model beside it, on the path as it is (centred).
"""

import argparse
import time

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from numpyro.infer import MCMC, NUTS

import nmax
from nmax._diagnostics import mixing
from nmax.experiments._sources import stored, treasury_bills
from nmax.models import ar1, fitzhugh_nagumo, log_prob_of_rows, lotka_volterra, stochastic_volatility

MODELS = {
    "lv_dense_s21": lotka_volterra,
    "lv_sparse_s21": lotka_volterra,
    "sv_tbill_paper": lambda: stochastic_volatility(elasticity=1.0),
    "sv_tbill_code": lambda: stochastic_volatility(elasticity=2.0),
    "fhn_T2000_s31": fitzhugh_nagumo,
    "ar1_T5000_s11": ar1,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="nmax.sample against near-exact posteriors.")
    parser.add_argument("names", nargs="*", default=list(MODELS))
    parser.add_argument("--rival", action="store_true", help="run NumPyro's NUTS as well")
    parser.add_argument("--draws", type=int, default=300, help="of each of 4 chains")
    options = parser.parse_args()
    for name in options.names:
        model = MODELS[name]()
        data = stored(name, model)
        if data is None or data.exact is None:
            raise SystemExit("Set NMAX_REFERENCE to the folder of the reference posteriors.")
        y = treasury_bills()[:, None] if name.startswith("sv") else data.y
        draws = nmax.sample(model, y, key=jr.key(0), draws=options.draws, progress=False)
        theta, size = np.asarray(draws.record.theta, float), data.exact.shape[1]
        report(name, "nmax.sample", theta[:, :, :size], data.exact, draws.seconds, draws.divergences)
        jax.clear_caches()
        if options.rival:
            theta, seconds, divergences = rival(model, y, draws.series, options.draws)
            report(name, "NumPyro NUTS", theta[:, :, :size], data.exact, seconds, divergences)
            jax.clear_caches()


def report(name: str, what: str, theta: np.ndarray, exact: np.ndarray, seconds: float, divergences: int) -> None:
    """`theta` has draws first, then chains. Errors of the exact draws themselves are left out: they are 10 times as many."""
    each = [mixing(theta[:, :, k].T) for k in range(theta.shape[2])]
    bulk = np.array([one.bulk for one in each])
    flat, sd = theta.reshape(-1, theta.shape[2]), exact.std(axis=0)
    off = (flat.mean(axis=0) - exact.mean(axis=0)) / sd
    print(f"{name} {what}: {seconds:.1f} s, worst ESS {bulk.min():.0f} (tail {min(e.tail for e in each):.0f}),", end=" ")
    print(f"R-hat {max(e.rhat for e in each):.3f}, {divergences} divergences, {1000 * seconds / bulk.min():.0f} s per 1,000")
    print(f"    bias / sd {np.round(off, 3)}, in errors {np.round(off * np.sqrt(bulk), 2)}", end=" ")
    print(f"sd ratio {np.round(flat.std(axis=0) / sd, 3)}", flush=True)


def rival(model, y, series, draws: int) -> tuple[np.ndarray, float, int]:
    """NUTS on θ and the path as it is, unconstrained; started at the prior's centre and a straight line through the data."""
    begun = time.perf_counter()
    guide = nmax.LookaheadGuide(layers=0).build(model, series, key=jr.key(0))
    transforms = [model.state_transforms[k] for k in guide.drawn]

    def potential(at):
        theta = model.parameters.constrain(at["theta"])
        u = at["u"]
        x = jnp.stack([transform(u[:, k]) for k, transform in enumerate(transforms)], axis=1)
        slopes = sum(jnp.sum(t.log_abs_det_jacobian(u[:, k], x[:, k])) for k, t in enumerate(transforms))
        index = jnp.arange(series.length + 1)
        x = guide.states(theta, jnp.concatenate([jnp.zeros((1, x.shape[1])), x]), series, index)
        rows = series.values, series.observed, series.inputs
        log_p = jnp.sum(log_prob_of_rows(model.transition_log_prob, x[:-1], x[1:], series.inputs[1:], theta=theta))
        log_p += jnp.sum(log_prob_of_rows(model.observation_log_prob, x, *rows, theta=theta))
        return -(log_p + slopes + model.parameters.log_prob(at["theta"]))

    from nmax._first_guess import first_guess

    centre = guide.theta_flow.head.loc
    guess = first_guess(model, series, model.parameters.constrain(centre), jnp.arange(series.length + 1, dtype=jnp.int32))
    u = guess[1:, jnp.array(guide.drawn)]
    start = {"theta": jnp.tile(centre, (4, 1)), "u": jnp.tile(u, (4, 1, 1))}
    start = jax.tree.map(lambda a: a + 0.05 * jr.normal(jr.key(2), a.shape), start)
    mcmc = MCMC(
        NUTS(potential_fn=potential),
        num_warmup=500,
        num_samples=draws,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jr.key(1), init_params=start, extra_fields=("diverging",))
    theta = np.asarray(mcmc.get_samples(group_by_chain=True)["theta"], float).transpose(1, 0, 2)
    return theta, time.perf_counter() - begun, int(np.sum(mcmc.get_extra_fields()["diverging"]))


if __name__ == "__main__":
    main()
