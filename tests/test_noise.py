import numpy as np
import pytest

from nmax._noise import BLOCK, noise


@pytest.mark.parametrize("start", [-100, -1, 0, 63, 1_000_000_000])
def test_noise_does_not_depend_on_how_steps_are_grouped(key, start):
    whole = noise(key, start, 3 * BLOCK, 2)
    for cut in (1, 17, BLOCK, 2 * BLOCK + 5):
        parts = np.concatenate([noise(key, start, cut, 2), noise(key, start + cut, 3 * BLOCK - cut, 2)])
        np.testing.assert_array_equal(parts, whole)


def test_noise_is_standard_normal(key):
    # mean and variance of 200,000 draws; each limit is 5 standard errors, a false alarm in about a million
    z = np.asarray(noise(key, 0, 100_000, 2)).ravel()
    assert abs(z.mean()) < 5 / np.sqrt(len(z))
    assert abs(z.var() - 1) < 5 * np.sqrt(2 / len(z))
    assert len(np.unique(z)) > 0.98 * len(z)  # no block is drawn twice; float32 has some ties
