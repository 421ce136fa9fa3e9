"""A fit of a four-dimensional linear Gaussian model with 40 % of the entries missing, against the Kalman smoother.

    python benchmarks/linear_gaussian.py [--length T] [--seed N]

The exact posterior of θ is by importance sampling with the Kalman filter's likelihood, whose proposal is a Student t around
the fit's mean; its effective sample size says how far to trust it. It gives the log evidence too.
"""

from __future__ import annotations

import argparse
import time

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist

import nmax
from nmax.reference import LinearGaussian, kalman_filter, kalman_smoother

ROTATION = np.array([[0.8, 0.4, 0.0, 0.0], [-0.4, 0.8, 0.1, 0.0], [0.0, 0.0, 0.6, 0.3], [0.1, 0.0, -0.3, 0.6]])
OBSERVED = np.array([[1.0, 0.0, 0.0, 0.5], [0.0, 1.0, 0.0, 0.0], [0.0, 0.5, 1.0, 0.0]])
ERROR, MISSING = 0.5, 0.4
TRUTH = {"memory": 0.9, "level": 0.5, "noise": 0.7}
PROPOSALS, FREEDOM, WIDER, PATHS = 2_000, 8.0, 1.2, 1_000


def model() -> nmax.StateSpaceModel:
    """A damped rotation around a level, seen through a matrix."""
    matrix, observe = jnp.asarray(ROTATION, jnp.float32), jnp.asarray(OBSERVED, jnp.float32)
    return nmax.StateSpaceModel(
        prior={"memory": dist.Normal(0.8, 0.5), "level": dist.Normal(0.0, 2.0), "noise": dist.LogNormal(0.0, 1.0)},
        initial=lambda theta: jnp.zeros(4),
        transition=lambda x, theta: dist.Normal(theta["level"] + theta["memory"] * (matrix @ x), theta["noise"]).to_event(1),
        observation=lambda x, theta: dist.Normal(observe @ x, ERROR).to_event(1),
    )


def linear(flat: np.ndarray) -> LinearGaussian:
    """The same for the Kalman filter, at unconstrained θ."""
    return LinearGaussian(
        start=np.zeros(4),
        offset=np.full(4, flat[1]),
        matrix=flat[0] * ROTATION,
        noise=np.exp(2 * flat[2]) * np.eye(4),
        observe=OBSERVED,
        error=ERROR**2 * np.eye(3),
    )


def main(length: int, seed: int) -> None:
    own = model()
    y = nmax.simulate(own, TRUTH, length, key=jr.key(seed)).y.astype(float)
    rng = np.random.default_rng(seed)
    y[rng.uniform(size=y.shape) < MISSING] = np.nan
    fit = nmax.fit(own, y, key=jr.key(0), progress=False)
    draws = np.asarray(jax.vmap(own.parameters.unconstrain)(fit.theta(40_000, key=jr.key(1))), float)
    mean, root = draws.mean(axis=0), WIDER * np.linalg.cholesky(np.cov(draws.T))

    begun = time.perf_counter()
    stretch = np.sqrt(FREEDOM / rng.chisquare(FREEDOM, (PROPOSALS, 1)))
    points = mean + (rng.standard_normal((PROPOSALS, 3)) * stretch) @ root.T
    proposal = dist.MultivariateStudentT(FREEDOM, jnp.asarray(mean), jnp.asarray(root))
    log_weight = np.array([kalman_filter(linear(point), y).log_likelihood for point in points])
    log_weight += np.asarray(jax.vmap(own.parameters.log_prob)(jnp.asarray(points, jnp.float32)), float)
    log_weight -= np.asarray(proposal.log_prob(jnp.asarray(points)), float)
    weight = np.exp(log_weight - log_weight.max())
    log_evidence = log_weight.max() + np.log(weight.mean())
    error = weight.std() / weight.mean() / PROPOSALS**0.5
    weight /= weight.sum()
    exact_mean = weight @ points
    exact_sd = np.sqrt(weight @ (points - exact_mean) ** 2)
    elbo = fit.elbo(key=jr.key(2))
    seconds, effective = time.perf_counter() - begun, 1 / np.sum(weight**2)
    print(f"T = {length}: fit {fit.seconds:.1f} s; {PROPOSALS} Kalman filters {seconds:.0f} s, effective {effective:.0f}")
    print("bias / sd", np.round((mean - exact_mean) / exact_sd, 3), "sd ratio", np.round(draws.std(axis=0) / exact_sd, 3))
    print(f"log evidence {log_evidence:.2f} ± {error:.2f}, ELBO {elbo.mean:.2f} ± {elbo.standard_error:.2f}, ", end="")
    print(f"gap {log_evidence - elbo.mean:.2f} nats")

    keep = rng.choice(PROPOSALS, 200, p=weight)  # the smoother averaged over the posterior of θ
    smoothed = [kalman_smoother(linear(points[k]), y) for k in keep]
    means = np.stack([s.mean for s in smoothed])
    variance = np.mean([np.diagonal(s.covariance, axis1=1, axis2=2) for s in smoothed], axis=0) + means.var(axis=0)
    x, sd = fit.path(PATHS, key=jr.key(3))[:, 1:], np.sqrt(variance)[1:]
    off = np.abs(x.mean(axis=0) - means.mean(axis=0)[1:]) / sd
    chance, ratio = np.sqrt(2 / np.pi / PATHS), (x.std(axis=0) / sd).mean()
    print(f"path: mean off by {off.mean():.3f} of its sd (Monte Carlo alone {chance:.3f}), sd ratio {ratio:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    main(arguments.length, arguments.seed)
