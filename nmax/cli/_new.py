"""`nmax new`: a commented model file to start from."""

from __future__ import annotations

import argparse
from pathlib import Path

from nmax.cli._output import InputError, Output, add_json

HEAD = '''"""A model for nmax. Edit it, then:

    nmax simulate {name} --out data.csv      a series from it, with the parameters `theta` below
    nmax fit {name} data.csv --out run       the posterior of parameters and path
    nmax report run                          one HTML page about it

This file is ordinary Python and is run by these commands. The functions below see one step and no batch axes; they must be
written with jax.numpy, so that they can be differentiated.
"""

import jax.numpy as jnp
import numpyro.distributions as dist

import nmax

'''

STATE_SPACE = '''
def initial(theta):
    """The state at the first row, shape (d,). An unknown start is a parameter with a prior."""
    return jnp.array([theta["level"]])


def transition(x, theta):
    """The distribution of the next state given this one, with an event of shape (d,): mind the `.to_event(1)`."""
    pull = theta["memory"] * (x - theta["level"])
    return dist.Normal(theta["level"] + pull, theta["noise"]).to_event(1)


def observation(x, theta):
    """The distribution of a row of the data given the state, one entry a column."""
    return dist.Normal(x, theta["error"]).to_event(1)


model = nmax.StateSpaceModel(
    # every unknown has a name and a prior: any NumPyro distribution
    prior={
        "level": dist.Normal(0.0, 10.0),
        "memory": dist.Uniform(-1.0, 1.0),
        "noise": dist.LogNormal(0.0, 1.0),
        "error": dist.LogNormal(-1.0, 1.0),
    },
    initial=initial,
    transition=transition,
    observation=observation,
    states=("signal",),  # names of the state components
    # support=dist.constraints.positive,  # if the state must stay positive
    # exactly_observed={0: 0},            # if state component 0 is column 0 of the data, without error
)

# values for `nmax simulate`; a fit does not see them
theta = {"level": 3.0, "memory": 0.9, "noise": 1.0, "error": 0.5}
'''

SDE = '''
def initial(theta):
    """The state at the first row, shape (d,). An unknown start is a parameter with a prior."""
    return jnp.array([theta["start"]])


def drift(x, theta):
    """What x does on average in a unit of time, shape (d,)."""
    return theta["growth"] * x * (1.0 - x / theta["capacity"])


def diffusion(x, theta):
    """The variance of what x does in a unit of time: shape (d,), or a (d, d) covariance."""
    return (theta["noise"] * x) ** 2


def observation(x, theta):
    """The distribution of a row of the data given the state, one entry a column: mind the `.to_event(1)`."""
    return dist.Normal(x, theta["error"]).to_event(1)


model = nmax.SDE(
    # every unknown has a name and a prior: any NumPyro distribution
    prior={
        "start": dist.LogNormal(2.0, 1.0),
        "growth": dist.LogNormal(-1.0, 1.0),
        "capacity": dist.LogNormal(4.0, 1.0),
        "noise": dist.LogNormal(-2.0, 1.0),
        "error": dist.LogNormal(0.0, 1.0),
    },
    initial=initial,
    drift=drift,
    diffusion=diffusion,
    dt=0.1,  # the step of the grid, in the units of the data's time column; observations may be rarer
    observation=observation,
    support=dist.constraints.positive,
    states=("population",),  # names of the state components
)

# values for `nmax simulate`; a fit does not see them
theta = {"start": 8.0, "growth": 0.5, "capacity": 60.0, "noise": 0.15, "error": 2.0}
'''


def add(commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "new",
        help="write a commented model file to start from",
        description="Write a commented model file to start from.",
        epilog="examples:  nmax new model.py  |  nmax new population.py --sde",
    )
    parser.add_argument("file", type=Path, metavar="MODEL.py", help="the file to write; one that is there is left alone")
    parser.add_argument("--sde", action="store_true", help="a stochastic differential equation, by drift and diffusion")
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write the file."""
    out, file = Output(options), options.file
    if file.suffix != ".py":
        raise InputError(f"A model file must have the suffix .py; got {file}.")
    text = HEAD.format(name=file) + (SDE if options.sde else STATE_SPACE)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "x", encoding="utf-8") as handle:
            handle.write(text)
    except FileExistsError as error:
        raise InputError(f"{file} is there already, and is left as it is. Choose another name.") from error
    out.say(f"Wrote {file}. Edit it, then try it:  nmax simulate {file} --out data.csv")
    out.note(file=file)
    return out.end()
