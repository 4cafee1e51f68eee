"""Scheduled MDF models: MDF's own engine next to the loop they are lowered to.

python benchmarks/scheduled.py [--steps 10000]
python benchmarks/scheduled.py --engines            what a step takes in our engines
python benchmarks/scheduled.py --psyneulink         what a step of PsyNeuLink's exports takes, in MDF's engine and here

MDF's engine is timed over fewer evaluations, and the time of one is multiplied: its cost does not depend on how many
there are, but for the list of what it ran, which makes it slower still.  Outputs are compared first, type and last bit.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
import warnings
from pathlib import Path

from timing import fastest, machine  # isort: skip  (sets the number of threads before numpy loads)

import numpy as np

import mdf_loop
from mdf_loop.convert.scheduled.loops import lower
from mdf_loop.execute.numpy_engine import watched_loops
from mdf_loop.execute.programs import watched_programs
from mdf_loop.integrations.input_places import with_inputs

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "cases"))

from scheduled_models import PUBLISHED, by_mdf, threshold

NEURON = Path(__file__).parent.parent / "examples" / "gallery" / "hodgkin_huxley.yaml"
"""A neuron of MDF's own examples: time derivatives of four values, 109 operators a step."""

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


def models():
    """(name, model, time increment, inputs) of prepared models that run for many steps."""
    for name, (make, increment) in PUBLISHED.items():
        if name != "threshold":
            yield name, make(), increment, {}
    yield "Hodgkin-Huxley (PyNN)", NEURON, 1e-5, {"i_offset": [0.5]}


def engines(steps):
    """Print what a step takes in each engine, of calls of a prepared model that has been called before: the processor's time."""
    print(f"{f'ns a step, {steps} steps':28}{'numpy':>10}{'jit':>10}{'call of jit, us':>17}   engine jit ran")
    for name, source, increment, inputs in models():
        model, found = mdf_loop.prepare(source), {}
        for engine, count in (("numpy", steps // 10), ("jit", steps), ("jit", 10)):
            with mdf_loop.options(engine=engine):
                call = functools.partial(model, steps=count, time_increment=increment, **inputs)
                call()
                found[engine, count] = fastest(call, seconds=1.0, clock=time.process_time)
        with mdf_loop.options(engine="jit"), watched_programs() as programs, watched_loops() as loops:
            model(steps=steps, time_increment=increment, **inputs)
        parts = [part.latest for loop in loops if loop.latest for part in loop.latest.stepped.values()]
        what = programs[0].latest.form if programs else f"blocks of {', '.join(part.form for part in parts)}"
        each = found["numpy", steps // 10] / (steps // 10), found["jit", steps] / steps
        print(f"{name:28}{1e9 * each[0]:10,.0f}{1e9 * each[1]:10,.1f}{1e6 * found['jit', 10]:17,.0f}   {what}")


EXPORTS = {
    "DriftDiffusionIntegrator": ("ddi", {"N_ddi_InputPort_0": [[1.0]]}),
    "OrnsteinUhlenbeck": ("ou", {"N_ou_InputPort_0": [[1.0]]}),
    "DualAdaptiveIntegrator": ("dual", {"N_dual_InputPort_0": [[0.3, -1.2, 2.0]]}),
    "SoftMax, Linear": ("f_softmax", {"N0_1_InputPort_0": [[0.3, -1.2, 2.0]]}),
    "LCA, 3 units": ("lca", {"A_7_InputPort_0": [[1.0, 0.6, 0.2]]}),
}
"""Models of PsyNeuLink as it exports them, and what they are given."""


def exports(steps):
    """Print what a step of each takes in MDF's engine and in ours."""
    folder = Path(__file__).parent.parent / "tests" / "models" / "psyneulink"
    print(f"{f'us a step, {steps} steps':28}{'MDF':>10}{'numpy':>10}{'jit':>10}{'ratio':>10}")
    for name, (file, inputs) in EXPORTS.items():
        model = mdf_loop.prepare(folder / f"{file}.json")
        graph = with_inputs(model.graph, inputs)
        found = [fastest(lambda g=graph: by_mdf(g, FEWER, None), seconds=0.5, least=1) / FEWER]
        for engine, count in (("numpy", steps // 10), ("jit", steps)):
            with mdf_loop.options(engine=engine):
                call = functools.partial(model, steps=count, **inputs)
                call()
                found.append(fastest(call, seconds=1.0, clock=time.process_time) / count)
        print(f"{name:28}" + "".join(f"{1e6 * each:10,.3f}" for each in found) + f"{found[0] / found[-1]:10,.0f}")


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--engines", action="store_true", help="each engine by itself, without MDF's, ten times as many steps")
    parser.add_argument("--psyneulink", action="store_true", help="exports of PsyNeuLink, ten times as many steps")
    said = parser.parse_args()
    steps = said.steps
    warnings.simplefilter("ignore")
    print(machine())
    if said.psyneulink:
        exports(10 * steps)
        return
    if said.engines:
        engines(10 * steps)
        return
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
