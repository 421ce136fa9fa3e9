import jax.numpy as jnp
import numpy as np
import pytest

from nmax.data import Windows, make_series

NAN = np.nan


def test_gaps_are_filled_with_lines_and_the_next_observation_is_known():
    series = make_series(np.array([[NAN, 1.0], [2.0, NAN], [NAN, NAN], [4.0, 4.0], [NAN, NAN]]))
    np.testing.assert_allclose(series.values, [[2, 1], [2, 2], [3, 3], [4, 4], [4, 4]])
    np.testing.assert_array_equal(series.next_observed, [[1, 0], [1, 3], [3, 3], [3, 3], [5, 5]])
    assert series.partial
    assert not series.complete
    assert series.length == 4
    np.testing.assert_allclose(series.centre, [3.0, 2.5])


def test_one_dimension_is_one_column():
    series = make_series(np.arange(5.0))
    assert series.values.shape == (5, 1)
    assert series.complete
    assert not series.has_inputs


def test_constant_columns_have_unit_scale():
    np.testing.assert_array_equal(make_series(np.full((4, 2), 7.0)).scale, [1.0, 1.0])
    series = make_series(np.full(1_001, 0.1), np.full(1_001, 0.1))  # whose mean is 0.1 but for a rounding error
    np.testing.assert_array_equal([series.scale[0], series.input_scale[0]], [1.0, 1.0])


@pytest.mark.parametrize(("length", "width"), [(10, 3), (10, 10), (1, 1), (7, 2), (12, 4)])
def test_windows_partition_the_steps(length, width):
    windows = Windows(length, width)
    start, size = windows.at(jnp.arange(windows.count))
    steps = np.concatenate([np.arange(a, a + n) for a, n in zip(np.asarray(start), np.asarray(size), strict=True)])
    np.testing.assert_array_equal(steps, np.arange(1, length + 1))


@pytest.mark.parametrize(("length", "width", "count"), [(10, 3, 4), (5, 2, 8), (101, 10, 7), (3, 3, 1)])
def test_each_window_is_drawn_with_its_share_of_the_steps(length, width, count):
    """Exactly: over all shifts, every step picks its window equally often."""
    windows = Windows(length, width)
    starts = np.concatenate([np.asarray(windows.spread(jnp.int32(shift), count).start) for shift in range(length)])
    _, size = windows.at(jnp.arange(windows.count))
    drawn = np.bincount((starts - 1) // width, minlength=windows.count)
    np.testing.assert_array_equal(drawn, count * np.asarray(size))


def test_shifts_of_successive_steps_cover_the_series():
    """Any 20 successive draws of 5 windows out of 100 see at least 80 of them; independent ones would see 63."""
    windows = Windows(1_000, 10)
    for first in range(0, 200, 20):
        shifts = [windows.shift(jnp.int32(7), jnp.int32(n), 5) for n in range(first, first + 20)]
        seen = {int(s) for shift in shifts for s in np.asarray(windows.spread(shift, 5).start)}
        assert len(seen) >= 80


def test_shifts_are_a_permutation_of_the_first_ones():
    """So a uniform first shift makes every later one uniform."""
    windows = Windows(101, 10)
    shifts = [int(windows.shift(jnp.int32(first), jnp.int32(3), 5)) for first in range(101)]
    assert sorted(shifts) == list(range(101))


def test_a_long_series_does_not_overflow():
    windows = Windows(1_000_000_000, 50)
    start = np.asarray(windows.spread(windows.shift(jnp.int32(999_999_999), jnp.int32(2**20), 50), 50).start)
    assert start.min() >= 1
    assert start.max() <= 1_000_000_000
