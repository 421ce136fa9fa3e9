"""Laws that every flow obeys, over a catalogue of all of them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from numpyro.distributions.transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    IdentityTransform,
    SigmoidTransform,
    SoftplusTransform,
)

from nmax._types import Reach
from nmax.flows import (
    Backwards,
    Bijectors,
    Chain,
    Constrain,
    MovingAverage,
    Side,
    Standardise,
    ThetaFlow,
    nma_layers,
)

SIDE, THETA, TIME = 4, 3, 9


def randomised(flow, seed=1):
    """The same flow with all weights drawn anew: at the identity, where layers start, many laws hold trivially."""
    params, rest = eqx.partition(flow, eqx.is_inexact_array)
    leaves, tree = jax.tree.flatten(params)
    keys = jr.split(jr.key(seed), max(len(leaves), 1))
    leaves = [0.2 * jr.normal(k, leaf.shape) for k, leaf in zip(keys, leaves, strict=False)]
    return eqx.combine(jax.tree.unflatten(tree, leaves), rest)


def layer(d, kept=()):
    return MovingAverage(3, state=d, side=SIDE, theta=THETA, kept=kept, width=8, key=jr.key(d))


def stack(d, *, layers=3, reverse=False, end=()):
    made = nma_layers(layers, 2, state=d, side=SIDE, theta=THETA, width=8, reverse=reverse, key=jr.key(d))
    return Chain((*made, *end))


def ends(d):
    transforms = [
        SoftplusTransform(),
        ExpTransform(),
        SigmoidTransform(),
        ComposeTransform([SigmoidTransform(), AffineTransform(-1.0, 3.0)]),
        IdentityTransform(),
    ]
    return Standardise(jnp.zeros(d), jnp.zeros(d)), Constrain(Bijectors(tuple(transforms[:d])))


CATALOGUE = {"layer, d=1": (1, layer(1)), "layer backwards, d=1": (1, Backwards(layer(1)))}
for d in (1, 2, 3, 5):
    CATALOGUE |= {
        f"coupling, d={d}": (d, layer(d, kept=tuple(range(d // 2)))),
        f"stack, d={d}": (d, stack(d)),
        f"stack with reversal, d={d}": (d, stack(d, reverse=True)),
        f"stack, constrained, d={d}": (d, stack(d, end=ends(d))),
        f"stack with reversal, constrained, d={d}": (d, stack(d, layers=4, reverse=True, end=ends(d))),
        f"standardise, d={d}": (d, ends(d)[0]),
        f"constrain, d={d}": (d, ends(d)[1]),
    }
CATALOGUE = {name: (d, randomised(flow)) for name, (d, flow) in CATALOGUE.items()}
every_flow = pytest.mark.parametrize(("d", "flow"), CATALOGUE.values(), ids=CATALOGUE.keys())


def inputs(d, flow, time=TIME, live=True):
    left, right = flow.reach
    noise = time + left + right
    z, local, theta = (jr.normal(jr.key(k), shape) for k, shape in enumerate([(noise, d), (noise, SIDE), (THETA,)]))
    live = jnp.ones((noise, d), bool) if live is True else live
    return jnp.where(live, z, 0.0), Side(local, theta, live)


def check_log_det(d, flow, drawn):
    """The law for a whole series of TIME steps of which the entries `drawn` are variables, all noise beyond them zero."""
    left, right = flow.reach
    live = jnp.zeros((TIME + left + right, d), bool).at[left : left + TIME].set(drawn)
    chain = flow if isinstance(flow, Chain) else Chain((flow,))
    z, side = inputs(d, flow, live=live)
    jacobian = jax.jit(jax.jacobian(lambda z: chain(z, side)[0].ravel()))(z)[:, left : left + TIME]
    free = np.flatnonzero(np.asarray(drawn))
    sign, log_det = jnp.linalg.slogdet(jacobian.reshape(TIME * d, TIME * d)[np.ix_(free, free)])
    assert sign == 1
    np.testing.assert_allclose(jnp.sum(chain(z, side)[1]), log_det, rtol=1e-4, atol=1e-4)


@every_flow
def test_log_scales_are_those_of_the_jacobian(d, flow):
    check_log_det(d, flow, jnp.ones((TIME, d), bool))


@every_flow
def test_log_det_with_entries_that_are_not_drawn(d, flow):
    """Entries that the data show are no longer variables: the density is that of the others."""
    check_log_det(d, flow, jr.bernoulli(jr.key(5), 0.7, (TIME, d)))


@every_flow
def test_window_of_path_is_path_of_window(d, flow):
    z, side = inputs(d, flow)
    left, right = flow.reach
    x, log_scale = flow(z, side)
    a, b = 3, 7
    inner = slice(a, b + left + right)
    x_part, log_part = flow(z[inner], Side(side.local[inner], side.theta, side.live[inner]))
    np.testing.assert_allclose(x_part, x[a:b], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(log_part, log_scale[a:b], rtol=1e-5, atol=1e-6)


@every_flow
def test_reach_is_respected_and_used_up(d, flow):
    """Noise outside the reach of a step changes nothing there; noise at its very edge changes something."""
    z, side = inputs(d, flow)
    left, right = flow.reach
    middle = TIME // 2  # row `middle` of the path is row `middle + left` of the noise
    jacobian = jax.jacobian(lambda z: flow(z, side)[0][middle])(z)
    felt = np.abs(np.asarray(jacobian)).sum(axis=(0, 2))
    outside = np.ones(len(z), bool)
    outside[middle : middle + left + right + 1] = False
    assert (felt[outside] == 0).all()
    assert felt[middle] > 0
    assert felt[middle + left + right] > 0


@every_flow
def test_theta_and_side_information_are_used(d, flow):
    if not [leaf for leaf in jax.tree.leaves(flow) if eqx.is_inexact_array(leaf)] or flow.reach == Reach(0, 0):
        return  # elementwise flows use neither, and say so by their docstring; asserted by the reach test
    z, side = inputs(d, flow)
    x, _ = flow(z, side)
    assert not np.allclose(flow(z, Side(side.local, side.theta + 1, side.live))[0], x)
    assert not np.allclose(flow(z, Side(side.local + 1, side.theta, side.live))[0], x)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize("reverse", [False, True])
def test_layers_start_exactly_at_the_identity(d, reverse):
    flow = stack(d, reverse=reverse)
    z, side = inputs(d, flow)
    x, log_scale = flow(z, side)
    left, _ = flow.reach
    np.testing.assert_allclose(x, z[left : left + TIME], atol=1e-5)
    np.testing.assert_allclose(log_scale, 0.0, atol=1e-5)


@pytest.mark.parametrize(("layers", "reverse", "reach"), [(3, False, (6, 0)), (3, True, (4, 2)), (4, True, (4, 4))])
def test_reaches_add_up(layers, reverse, reach):
    assert stack(2, layers=layers, reverse=reverse).reach == reach


@pytest.mark.parametrize("d", [2, 3, 5])
def test_every_component_is_moved(d):
    flow = randomised(stack(d, layers=3))
    z, side = inputs(d, flow)
    left, _ = flow.reach
    assert (np.abs(np.asarray(flow(z, side)[0] - z[left:])).max(axis=0) > 1e-3).all()


def test_a_layer_must_move_something():
    with pytest.raises(ValueError, match="a component to move"):
        MovingAverage(2, state=2, side=1, theta=1, kept=(0, 1), key=jr.key(0))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_theta_flow_density_and_inverse(size):
    flow = ThetaFlow(jnp.arange(float(size)), jnp.full(size, 0.5), key=jr.key(0))
    start, _ = flow(jnp.zeros(size))
    np.testing.assert_allclose(start, np.arange(size), atol=1e-6)
    flow = eqx.tree_at(lambda f: f.autoregressive, flow, replace_fn=randomised) if size > 1 else flow
    lower = jnp.tril(0.3 * jnp.ones((size, size))) + 0.5 * jnp.eye(size)
    flow = eqx.tree_at(lambda f: f.head.matrix, flow, lower)
    e = jr.normal(jr.key(2), (size,))
    theta, log_q = flow(e)
    _, log_det = jnp.linalg.slogdet(jax.jacobian(lambda e: flow(e)[0])(e))
    base = -0.5 * jnp.sum(e**2) - 0.5 * size * jnp.log(2 * jnp.pi)
    np.testing.assert_allclose(log_q, base - log_det, rtol=1e-4)
    np.testing.assert_allclose(flow.noise(theta), e, atol=1e-4)


def test_head_coordinates_are_those_of_its_docstring():
    """The whitened gradient is the derivative along (c, M), and `moved` goes along them."""
    flow = ThetaFlow(jnp.array([1.0, -1.0]), jnp.array([0.5, 2.0]), layers=0, key=jr.key(0))
    head = eqx.tree_at(lambda h: h.matrix, flow.head, jnp.array([[0.5, 0.0], [0.7, 2.0]]))
    e = jnp.array([0.3, -1.2])

    def value(loc, matrix):
        return jnp.sum(jnp.sin(loc + matrix @ e))

    plain = jax.grad(lambda h: value(h.loc, h.matrix))(head)
    c, m = jnp.array([0.1, 0.2]), jnp.array([[0.3, 0.0], [-0.4, 0.5]])
    along = jax.grad(lambda s: value(head.loc + head.matrix @ (s * c), head.matrix @ (jnp.eye(2) + s * m)))(0.0)
    own = head.whitened(plain)
    np.testing.assert_allclose(jnp.sum(own.loc * c) + jnp.sum(own.matrix * m), along, rtol=1e-5)
    small = 1e-3
    step = head.moved(type(head)(small * c, small * m))
    np.testing.assert_allclose(step.loc, small * head.matrix @ c, rtol=1e-5)
    np.testing.assert_allclose(step.matrix, small * head.matrix @ m, rtol=1e-2)
