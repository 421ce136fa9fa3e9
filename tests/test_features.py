import jax.numpy as jnp
import numpy as np
import pytest

from nmax.data import make_series
from nmax.features import (
    AbstractFeature,
    Inputs,
    InRange,
    NextObservation,
    Observed,
    Time,
    TimeToNext,
    default_features,
)

NAN = np.nan
Y = np.array([1.0, NAN, NAN, 4.0, NAN, 1.0, NAN])  # T = 6
INDEX = jnp.array([-3, 0, 1, 3, 4, 6, 9])
CENTRE, SCALE = 2.0, np.sqrt(2.0)


def test_values_inside_and_beyond_both_ends():
    series = make_series(Y, np.arange(7.0))
    gap = 7 / 3
    expected = {
        Time(): [-2, -1, -2 / 3, 0, 1 / 3, 1, 2],
        Observed(): [0, 1, 0, 1, 0, 0, 0],
        NextObservation(): [*((np.array([1, 1, 4, 4, 1]) - CENTRE) / SCALE), 0, 0],
        TimeToNext(): [np.log1p(3 / gap), 0, np.log1p(2 / gap), 0, np.log1p(1 / gap), -1, -1],
        InRange(): [0, 1, 1, 1, 1, 1, 0],
        Inputs(): (np.array([0, 0, 1, 3, 4, 6, 6]) - 3) / 2,
    }
    for feature, values in expected.items():
        got = feature(series, INDEX)
        assert got.shape == (len(INDEX), feature.size(series))
        np.testing.assert_allclose(got[:, 0], values, rtol=1e-5, atol=1e-6, err_msg=str(feature))


def test_columns_have_features_of_their_own():
    series = make_series(np.array([[1.0, NAN], [NAN, 2.0], [3.0, NAN]]))
    np.testing.assert_array_equal(Observed()(series, jnp.arange(3)), [[1, 0], [0, 1], [1, 0]])
    np.testing.assert_array_equal(TimeToNext()(series, jnp.arange(3))[:, 1] < 0, [False, False, True])


def test_defaults_are_the_paper_s():
    assert {type(f) for f in default_features(make_series(np.arange(5.0)))} == {
        Time,
        Observed,
        NextObservation,
        InRange,
    }
    assert TimeToNext() in default_features(make_series(Y))
    assert Inputs() in default_features(make_series(Y, np.arange(7.0)))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_features_are_of_unit_order_whatever_the_series(scale):
    length = 1_000_000
    y = scale * (50 + np.sin(np.arange(length + 1.0)))
    y[10:-10] = NAN
    series = make_series(y)
    index = jnp.array([-10, 0, length // 2, length, length + 10])
    for feature in default_features(series):
        assert np.abs(feature(series, index)).max() < 20, feature


def test_a_new_feature_is_one_class(key):
    import nmax

    class Weekday(AbstractFeature):
        def size(self, series):
            return 1

        def __call__(self, series, index):
            return (index % 7).astype(jnp.float32)[:, None] / 7

    series = make_series(np.arange(40.0))
    settings = nmax.MovingAverageGuide(features=(Weekday(), NextObservation()))
    guide = settings.build(nmax.models.ar1(), series, key=key)
    assert guide.encoder.layers[0].weight.shape[0] == 2 * 21
