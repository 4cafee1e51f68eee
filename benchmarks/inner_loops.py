"""One inner loop in all its forms: what an iteration costs as a Loop, a Scan, and a TensorIterator as OpenVINO's reader makes it.

The rows that a form gets are numbers, or vectors. Those of a TensorIterator have one axis more: it stands below
a Loop over such rows.

python benchmarks/inner_loops.py [--seconds S]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

from timing import in_turns, machine  # isort: skip  (sets the number of threads before numpy loads)

import numpy as np

import mdf_loop
from mdf_loop.calls.control_flow import LoopNode
from mdf_loop.calls.prepared import PreparedLoop, prepare_loop
from mdf_loop.execute.interpret import Arguments
from mdf_loop.ir import Body, Loop, Node
from mdf_loop.options import start_run
from mdf_loop.readers import read

INNER = 60
"""Iterations of the inner loop."""

STEP = "e = Mul (a, x) b = Add (e, k) y = Sub (b, x)"
BY_NUMBER = "z, ys = Loop (n, yes, s) <body = inner (int64{} j, bool on, double{} a) => (on, b, y) {{ x = Gather (w, j) {} }}>"
SCAN = f"z, ys = Scan <num_scan_inputs = 1, body = inner (double a, double x) => (b, y) {{ {STEP} }}> (s, w)"
FORMS = {
    "Loop": BY_NUMBER.format("", "", STEP),
    "Scan": SCAN,
    "Loop, rows with an axis": BY_NUMBER.format("[1]", "[1]", STEP),
    "TensorIterator": SCAN,
    "TensorIterator, reversed": SCAN,
    "Loop of OpenVINO": SCAN,
}
OUTER = """outer (int64 i, bool go, double s) => (go, s_next)
<int64 n = {{{}}}, bool yes = {{1}}> {{ {} m = ReduceMax <keepdims = 0> (ys) half = Mul (m, k) s_next = Add (z, half) }}"""
ENGINES = {"interpret": 5, "numpy": 40, "jit": 2000}
"""How many iterations of the outer loop each engine runs."""


def of_openvino(form: str, loop: Loop) -> Loop:
    """A Scan over rows as the loop that OpenVINO's reader makes of its own operators: over parts of one row, which are joined."""
    is_back = form.endswith("reversed")
    scanned = tuple(replace(part, part=1, reverse=is_back) for part in loop.scanned)
    collected = tuple(replace(what, stack=False, reverse=is_back) for what in loop.collected)
    made = replace(loop, scanned=scanned, collected=collected, unlimited=True, said=())
    if form != "Loop of OpenVINO":
        return made
    going = {"going": np.True_}
    body = replace(loop.body, constants={**loop.body.constants, **going}, outputs=(*loop.body.outputs, "going"))
    return replace(made, body=body, keep_going="going")


def body_with(form: str) -> Body:
    """The body of the outer loop, whose first node is the inner one."""
    body = read(OUTER.format(INNER, FORMS[form]), 1)
    node, *rest = body.nodes
    if "of OpenVINO" in form or form.startswith("TensorIterator"):
        assert node.loop is not None
        inputs = ("n" if form.startswith("Loop") else "", *node.inputs[1:])
        node = replace(node, inputs=inputs, attrs={"loop": of_openvino(form, node.loop)})
    return replace(body, nodes=(node, *rest))


def inner_node(form: str) -> Node:
    """The node of the inner loop."""
    return body_with(form).nodes[0]


def calls_of(form: str, shape: tuple[int, ...]) -> dict[str, Callable[[], object]]:
    """A call of the whole on each engine."""
    has_axis = form not in ("Loop", "Scan")
    start = np.ones((1, *shape) if has_axis else shape)
    given = {"w": np.linspace(-1, 1, INNER * int(np.prod(shape))).reshape(INNER, *shape), "k": np.full(start.shape, 0.25)}

    def call(engine: str, iterations: int, prepared: PreparedLoop) -> object:
        captured = [given[name] for name in prepared.record.body.captures]
        with mdf_loop.options(engine=engine):
            return prepared.execute(Arguments(iterations, True, [start], captured=captured), start_run())

    prepared = prepare_loop(body_with(form), 1)
    return {engine: lambda e=engine, n=n: call(e, n, prepared) for engine, n in ENGINES.items()}  # type: ignore[misc]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each engine and shape")
    seconds = parser.parse_args().seconds
    print(machine())
    for shape in ((), (16,)):
        calls = {form: calls_of(form, shape) for form in FORMS}
        print(f"\nrows of shape {list(shape)}, us for each inner iteration, and how often that of the Loop above it")
        print(f"{'':26}" + "".join(f"{engine:>22}" for engine in ENGINES))
        table: dict[str, list[float]] = {form: [] for form in FORMS}
        for engine, n in ENGINES.items():
            times = in_turns({form: calls[form][engine] for form in FORMS}, seconds, time.process_time)
            for form in FORMS:
                table[form].append(1e6 * min(times[form]) / n / INNER)
        base: list[float] = []
        for form, row in table.items():
            base = row if form.startswith("Loop") and "OpenVINO" not in form else base
            print(f"{form:26}" + "".join(f"{t:14.4f}{t / b:8.2f}" for t, b in zip(row, base, strict=True)))
    nodes = {form: inner_node(form) for form in FORMS}
    times = in_turns({form: lambda node=node: LoopNode(node) for form, node in nodes.items()}, seconds, time.process_time)
    print("\nmaking the node ready, us")
    for form, row in times.items():
        print(f"{form:26}{1e6 * min(row):14.1f}")


if __name__ == "__main__":
    main()
