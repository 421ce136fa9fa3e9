"""One of several processes of a fit, for the tests: coordinator, number of processes, rank, folder, what to do."""

import json
import os
import sys

import jax


def main():
    address, count, rank, folder, what = sys.argv[1:6]
    jax.config.update("jax_disable_most_optimizations", True)
    if int(count) > 1:
        jax.distributed.initialize(address, int(count), int(rank), heartbeat_timeout_seconds=10)
    import jax.random as jr
    import numpy as np

    import nmax
    from nmax import _train

    model = nmax.models.ar1()
    y = nmax.simulate(model, {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}, 3_000, key=jr.key(1)).y
    data = y
    if what.startswith("disk"):
        data = nmax.source(f"{folder}/y.npy")
        read, seen = data.read, []
        data.read = lambda start, stop: (seen.append((start, stop)), read(start, stop))[1]
    if what.startswith("many"):
        data = [y[:1_200], y[1_200:1_500], y[1_500:]]
    options = {"key": jr.key(3), "progress": False}
    if "lookahead" not in what:
        guide = nmax.MovingAverageGuide(layers=1, length=3, width=16, depth=1, radius=2, theta_layers=1)
        options |= {"guide": guide, "pretrain": 20, "steps": 300, "draws": 4, "window": 20}
    if "out" in what:
        options |= {"out": f"{folder}/run", "checkpoint_every": 1e-9}
    if "die" in what and int(rank) == int(count) - 1:
        advance, calls = _train.advance, []

        def mortal(*arguments):
            calls.append(1)
            if len(calls) == 2:
                os._exit(9)
            return advance(*arguments)

        _train.advance = mortal
    fit = nmax.fit(model, data, **options)
    arrays = {"loc": fit.guide.theta_flow.head.loc, "matrix": fit.guide.theta_flow.head.matrix}
    result = {name: np.asarray(array, float).tolist() for name, array in arrays.items()}
    result["history"] = fit.history.total.astype(float).tolist()
    if what.startswith("disk"):
        result["read"] = sum(stop - start for start, stop in seen)
    with open(f"{folder}/{what}-{count}-{rank}.json", "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
