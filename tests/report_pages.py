"""For tests of the report: posteriors that need no training, where their quality does not matter, and a reader of pages."""

import re
from html.parser import HTMLParser

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist

import nmax
from nmax._convergence import Convergence
from nmax._posterior import Posterior
from nmax._settings import FitSettings
from nmax._train import History, Outcome
from nmax.data import Table, Windows, as_table, make_series

EMPTY = {"meta", "link", "br", "path", "col"}
EVIL = '<script>alert("x")</script>'


def untrained(model, table):
    """A posterior that no one has trained: q is where it starts."""
    table = as_table(table)
    series = make_series(table.y, table.inputs)
    settings = nmax.LookaheadGuide(layers=0, weighted=1)
    guide = settings.build(model, series, key=jr.key(0))
    nothing = float("nan")
    rest = Convergence(
        converged=False,
        rhat=nothing,
        mean=nothing,
        mean_of="",
        width=nothing,
        width_of="",
        elbo=nothing,
        elbo_standard_error=nothing,
        judged_by="nothing",
    )
    history = History(*(np.linspace(-3.0, -1.0, 40, dtype=np.float32) for _ in History._fields))
    outcome = Outcome(guide, history, "not trained", rest, 0, 0)
    asked = FitSettings(key=jr.key(0), guide=settings, goal=1)
    return Posterior(model, table, series, Windows(series.length, min(50, series.length)), outcome, asked, 1.0)


def strange_posterior():
    """Two states, one of them observed exactly, with gaps; a constant column, one with holes; inputs; dates; odd names."""
    model = nmax.StateSpaceModel(
        prior={
            f"drift {EVIL}": dist.Normal(0.0, 1.0),
            "weights & more": dist.Normal(0.0, 1.0).expand([2]).to_event(1),
            "shares[x]": dist.Dirichlet(jnp.ones(3)),
            "sd\x00\ud800": dist.LogNormal(0.0, 0.5),
        },
        initial=lambda theta: jnp.zeros(2),
        transition=lambda x, theta, u: dist.Normal(0.9 * x + 0.1 * u[0], 0.3 * theta["sd\x00\ud800"]).to_event(1),
        observation=lambda x, theta, u: dist.Normal(jnp.stack([x[1], jnp.exp(0.1 * x[1])]), 0.5).to_event(1),
        exactly_observed={0: 0},
        states=(f"level {EVIL}", "speed"),
    )
    rng = np.random.default_rng(0)
    y = rng.normal(size=(61, 3))
    y[:, 1] = 1.5
    y[20:30] = np.nan
    y[rng.random(61) < 0.4, 2] = np.nan
    times = np.datetime64("2020-02-20") + np.arange(61)
    table = Table(y, rng.normal(size=(61, 1)), (f"a{EVIL}", "b'\"", "c"), ("u",), times, "day", ("a note",))
    return untrained(model, table)


class Reader(HTMLParser):
    """Reads a page as a browser would not: anything unbalanced is an error."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.ids, self.links, self.words, self.blocks = [], [], [], [], [], {}
        self.attributes = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        """Open an element."""
        given = dict(attrs)
        assert len(given) == len(attrs), f"an attribute twice: {attrs}"
        self.tags.append(tag)
        self.attributes.append((tag, given))
        if "id" in given:
            self.ids.append(given["id"])
        if "href" in given:
            self.links.append(given["href"])
        if tag not in EMPTY:
            self.open.append((tag, given))

    def handle_startendtag(self, tag, attrs):
        """An element of SVG that is empty."""
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        """Close the innermost element, which must be this one."""
        assert self.open, f"{tag} closed but not open"
        assert self.open[-1][0] == tag, f"{tag} closed inside {self.open[-1][0]}"
        self.open.pop()

    def handle_data(self, data):
        """Words, or what a script or a style holds."""
        if self.open and self.open[-1][0] in ("script", "style"):
            kind = self.open[-1][1].get("type", self.open[-1][0])
            self.blocks.setdefault(kind, []).append(data)
        else:
            self.words.append(data)

    @property
    def text(self):
        """All words of the page."""
        return re.sub(r"\s+", " ", " ".join(self.words)).replace("\N{NARROW NO-BREAK SPACE}", " ")
