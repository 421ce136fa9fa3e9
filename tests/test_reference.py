"""The oracle against itself: two ways to each answer."""

import numpy as np
import pytest
from helpers import SHARED, assert_mean

from nmax import reference


def small_model():
    return reference.LinearGaussian(
        start=np.array([1.0, -1.0]),
        offset=np.array([0.2, 0.0]),
        matrix=np.array([[0.9, 0.1], [-0.2, 0.7]]),
        noise=np.array([[0.5, 0.1], [0.1, 0.3]]),
        observe=np.array([[1.0, 0.0], [0.5, 1.0]]),
        error=np.array([[0.4, 0.05], [0.05, 0.2]]),
    )


def small_data():
    y = np.random.default_rng(0).standard_normal((6, 2))
    y[2] = np.nan
    y[4, 0] = np.nan
    return y


def joint(model, rows):
    """Mean and covariance of (x_1, ..., x_T) and then (y_0, ..., y_T), by writing both as linear in the noise."""
    d, t = 2, rows - 1
    means = [model.start]
    roots = [np.zeros((d, d * t))]
    for i in range(t):
        means.append(model.offset + model.matrix @ means[-1])
        root = model.matrix @ roots[-1]
        root[:, d * i : d * (i + 1)] += np.linalg.cholesky(model.noise)
        roots.append(root)
    x_mean, x_root = np.concatenate(means), np.concatenate(roots)
    h = np.kron(np.eye(rows), model.observe)
    xx = x_root @ x_root.T
    yy = h @ xx @ h.T + np.kron(np.eye(rows), model.error)
    return x_mean, xx, h @ x_mean, yy, xx @ h.T


def test_kalman_against_the_joint_gaussian():
    model, y = small_model(), small_data()
    x_mean, xx, y_mean, yy, xy = joint(model, len(y))
    seen = ~np.isnan(y.ravel())
    yy, residual, xy = yy[np.ix_(seen, seen)], (y.ravel() - y_mean)[seen], xy[:, seen]
    log_likelihood = -0.5 * (
        residual @ np.linalg.solve(yy, residual) + np.linalg.slogdet(yy)[1] + seen.sum() * np.log(2 * np.pi)
    )
    smoothed = reference.kalman_smoother(model, y)
    covariance = xx - xy @ np.linalg.solve(yy, xy.T)
    np.testing.assert_allclose(reference.kalman_filter(model, y).log_likelihood, log_likelihood, rtol=1e-10)
    np.testing.assert_allclose(smoothed.mean.ravel(), x_mean + xy @ np.linalg.solve(yy, residual), atol=1e-10)
    for i in range(len(y)):
        block = covariance[2 * i : 2 * i + 2, 2 * i : 2 * i + 2]
        np.testing.assert_allclose(smoothed.covariance[i], block, atol=1e-10)


@pytest.mark.stat
def test_sampled_paths_have_the_smoother_s_moments():
    """20,000 paths: means and second moments of every state, false alarm 1e-6 each."""
    model, y = small_model(), small_data()
    smoothed = reference.kalman_smoother(model, y)
    x = reference.sample_paths(model, y, 20_000, seed=1)
    np.testing.assert_allclose(x[:, 0], np.tile(model.start, (20_000, 1)))
    assert_mean(x[:, 1:], smoothed.mean[1:])
    centred = x[:, 1:] - smoothed.mean[1:]
    assert_mean(centred[..., 0] * centred[..., 1], smoothed.covariance[1:, 0, 1])
    assert_mean(centred**2, np.diagonal(smoothed.covariance[1:], axis1=1, axis2=2))


def ar1_as_linear(theta):
    one = np.ones((1, 1))
    return reference.LinearGaussian(np.array([10.0]), theta[:1], theta[1] * one, np.exp(2 * theta[2]) * one, one, one)


def test_ar1_likelihood_is_the_kalman_filter_s():
    rng = np.random.default_rng(2)
    y = 10 + rng.standard_normal(50)
    y[[0, 7, 8]] = np.nan
    theta = np.array([[5.0, 0.5, 1.1], [0.0, 0.9, -1.0]])
    expected = [reference.kalman_filter(ar1_as_linear(t), y[:, None]).log_likelihood for t in theta]
    np.testing.assert_allclose(reference.ar1_log_likelihood(theta, y), expected, rtol=1e-10)


@pytest.mark.stat
def test_ar1_samplers_agree():
    """Means by both samplers; Metropolis draws are thinned to be nearly independent; false alarm 1e-6."""
    rng = np.random.default_rng(3)
    x, y = 10.0, []
    for _ in range(301):
        y.append(x + rng.standard_normal())
        x = 5 + 0.5 * x + 3 * rng.standard_normal()
    exact = reference.ar1_exact(np.array(y), 20_000, seed=0)
    walk = reference.ar1_metropolis(np.array(y), 64 * 400, seed=1, chains=64)
    assert 0.8 < exact.acceptance < 1
    assert 0.15 < walk.acceptance < 0.5
    thinned = walk.theta.reshape(400, 64, 3)[::20].reshape(-1, 3)
    assert_mean(thinned, exact.theta.mean(axis=0))
    assert reference.mmd2(walk.theta, exact.theta) < 0.01


STORED = SHARED / "reference" / "ar1_T5000_s11.npz"


@pytest.mark.skipif(not STORED.exists(), reason="the stored reference posteriors do not lie beside this clone")
def test_exact_sampler_against_the_stored_posterior():
    file = np.load(STORED)
    y, stored = file["y"].astype(float), file["theta"].astype(float)
    ours = reference.ar1_exact(y, 20_000, seed=0)
    first = -0.5 * (y[0] - 10) ** 2 - 0.5 * np.log(2 * np.pi)
    assert abs(ours.log_evidence - first - -12871.400) < 5 * np.hypot(ours.log_evidence_error, 0.002)
    assert np.abs(reference.bias_in_sd(ours.theta, stored)).max() < 0.08  # stored: 4,000 draws, nearly independent
    assert np.abs(reference.sd_ratio(ours.theta, stored) - 1).max() < 0.06
    assert abs(reference.mmd2(ours.theta, stored)) < 0.002


def test_mmd_of_known_cases():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 4_000, 3))
    assert abs(reference.mmd2(a, b)) < 0.002
    assert reference.mmd2(a + 1.0, b) > 0.1
    # two normals one sd apart in one dimension: ∫∫ of the kernel in closed form, h the median of 2χ²₁
    one, shifted = rng.standard_normal((200_000, 1)), rng.standard_normal((200_000, 1)) + 1
    h = np.median((one[:100_000] - one[100_000:]) ** 2)
    same = 1 / np.sqrt(1 + 4 / h)
    expected = 2 * same * (1 - np.exp(-1 / (h + 4)))
    assert abs(reference.mmd2(shifted, one, count=4_000) - expected) < 0.02
