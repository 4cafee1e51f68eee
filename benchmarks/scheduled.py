"""Scheduled MDF models: MDF's own engine next to the loop they are lowered to.

python benchmarks/scheduled.py [--steps 10000]

MDF's engine is timed over fewer evaluations, and the time of one is multiplied: its cost does not depend on how many
there are, but for the list of what it ran, which makes it slower still.  Outputs are compared first, type and last bit.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

from timing import fastest, machine  # isort: skip  (sets the number of threads before numpy loads)

import numpy as np

import mdf_loop
from mdf_loop.convert.scheduled.loops import lower

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from scheduled_models import PUBLISHED, by_mdf, threshold

FEWER = 200
"""Evaluations by MDF's engine."""


def cases(steps):
    """(name, what makes the graph, time increment, evaluations, evaluations by MDF) of each row."""
    for name, (make, increment) in PUBLISHED.items():
        if name != "threshold":
            yield name, make, increment, steps, FEWER
    yield "threshold, one evaluation", lambda: threshold(limit=steps), None, 1, 1


def same(actual, expected):
    """Whether outputs are equal in type and value."""
    return all(
        type(actual[name]) is type(value) and np.array_equal(actual[name], value, equal_nan=np.asarray(value).dtype.kind == "f")
        for name, value in expected.items()
    )


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10_000)
    steps = parser.parse_args().steps
    warnings.simplefilter("ignore")
    print(machine())
    print(f"{f'{steps} steps':28}{'MDF s':>10}{'interpret s':>13}{'loop s':>10}{'lowering s':>12}{'ratio':>9}  same")
    for name, make, increment, count, fewer in cases(steps):
        graph = make()
        equal = same(mdf_loop.run(graph, steps=fewer, time_increment=increment), by_mdf(graph, fewer, increment))
        theirs = fastest(lambda g=graph, n=fewer, dt=increment: by_mdf(g, n, dt), seconds=0.5, least=1) * count / fewer
        ours = fastest(lambda g=graph, n=count, dt=increment: mdf_loop.run(g, steps=n, time_increment=dt), seconds=0.5)
        lowering = fastest(lambda g=graph, n=count, dt=increment: lower(g, n, dt), seconds=0.2)
        with mdf_loop.options(engine="interpret"):
            slow = fastest(
                lambda g=graph, n=count, dt=increment: mdf_loop.run(g, steps=n, time_increment=dt), seconds=0.5, least=1
            )
        print(f"{name:28}{theirs:10.3f}{slow:13.4f}{ours:10.4f}{lowering:12.4f}{theirs / ours:9.0f}  {'yes' if equal else 'NO'}")


if __name__ == "__main__":
    main()
