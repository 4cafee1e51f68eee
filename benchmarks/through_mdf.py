"""What MDF adds to a loop: FitzHugh-Nagumo in a Loop node, by a bare call, and by MDF's own stateful parameters.

python benchmarks/through_mdf.py [--engine NAME] [--steps N]

And the cost of one call: a planned body of one node, run for a single iteration; and a prepared ONNX model, next to the backend.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from timing import machine  # isort: skip  (sets the number of threads before numpy loads)

import numpy as np
import onnx.parser
from loops import in_turns, our_call, with_engine
from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.mdf import Graph, InputPort, Model, Node, OutputPort, Parameter
from workloads.record import Workload
from workloads.simulations import fitzhugh_nagumo
from workloads.writing import Writing

import mdf_loop
from mdf_loop import loop
from mdf_loop.integrations.engine_patches import quiet_mdf

MILLISECONDS, LIMIT_MS, LIMIT_US = 1e3, 1.0, 12.0
ABOVE_US = {"prepare(...)(...)": 10.0, "run(path, ...)": 25.0}

EXPORTED = Path(__file__).parent / "exported" / "jax_fitzhugh_nagumo.onnx"
SHORT = """<ir_version: 10, opset_import: ["": 21]> main (int64 n, double[3] x) => (double[3] y, double[n, 3] rows) {
  y, rows = Loop <body = b (int64 i, bool go, double[3] s) => (go, t, r) { t = Tanh (s)  r = Add (t, s) }> (n, , x) }"""


def loop_model(work: Workload) -> Model:
    """A model with one node that runs the workload as a Loop."""
    values = {"v0": work.carried[0], "u0": work.carried[1], **work.captured, "n": work.trip_count}
    node = Node(
        id="neuron",
        parameters=[
            Parameter(id=name, value=value.item() if hasattr(value, "item") else value) for name, value in values.items()
        ],
    )
    node.parameters.append(Parameter(id="body", value={"onnx": work.text}))
    args = {"M": "n", "cond": True, "v": "v0", "u": "u0", "body": "body"}
    node.parameters.append(Parameter(id="run", function="onnx::Loop", args=args))
    node.output_ports += [OutputPort(id=name, value=f"run[{k}]") for k, name in enumerate(("v", "u", "trace"))]
    return Model(id="fitzhugh_nagumo", graphs=[Graph(id="main", nodes=[node])])


def stateful_graph() -> Graph:
    """The same neuron as MDF writes it today: two parameters with a time derivative."""
    node = Node(id="neuron", input_ports=[InputPort(id="current", shape=(1,))])
    node.parameters += [
        Parameter(id="v", default_initial_value="-1.0", time_derivative="v - v*v*v*0.3333333333333333 - u + 0.5"),
        Parameter(id="u", default_initial_value="0.0", time_derivative="(v + 0.7 - u*0.8)*0.08"),
    ]
    node.output_ports.append(OutputPort(id="v_out", value="v"))
    return Graph(id="main", nodes=[node])


def stateful_step(steps: int) -> float:
    """Seconds of one step of MDF's own loop."""
    with quiet_mdf():
        graph = EvaluableGraph(stateful_graph(), verbose=False)
        graph.evaluate()
        start = time.perf_counter()
        for _ in range(steps):
            graph.evaluate(time_increment=0.01)
        return (time.perf_counter() - start) / steps


def through_mdf(work: Workload, engine: str) -> Callable[[], Any]:
    """A function that evaluates the model of a workload in MDF's engine."""
    model = loop_model(work)
    with quiet_mdf():
        graph = EvaluableGraph(model.graphs[0], verbose=False)

    context = with_engine(engine)

    def call() -> Any:
        with quiet_mdf():
            context.run(graph.evaluate)
        return graph.enodes["neuron"].evaluable_outputs["trace"].curr_value

    return call


def bare_call(work: Workload, engine: str) -> Callable[[], Any]:
    """A function that calls ``loop`` with the body as text, as MDF does."""
    context = with_engine(engine)
    given, body = (work.trip_count, work.cond, *work.carried), {"onnx": work.text}
    return lambda: context.run(loop, *given, body=body, **work.captured)


def onnx_calls(engine: str, source: Path | onnx.ModelProto, given: dict[str, np.ndarray]) -> dict[str, Callable[[], Any]]:
    """Ways to call one ONNX model that is prepared, or was read before."""
    context, model, rep = with_engine(engine), mdf_loop.prepare(source), mdf_loop.backend.prepare(source)
    calls: dict[str, Callable[[], Any]] = {
        "backend.prepare(...).run": lambda: context.run(rep.run, given),
        "prepare(...)(...)": lambda: context.run(model, **given),
    }
    if isinstance(source, Path):
        calls["run(path, ...)"] = lambda: context.run(mdf_loop.run, source, **given)
    for call in calls.values():
        for _ in range(50):
            call()
    return calls


def single_iteration(rank: int) -> Workload:
    """One node, one carried value, one iteration."""
    w = Writing("single", f"int64 i, bool go, double{'[3]' * (rank > 0)} y")
    return Workload("single", w.text(w.go, w["y"] + 1.0), 1, carried=(np.ones((3,) * rank)[()],))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="auto", help="an engine of options()")
    parser.add_argument("--steps", type=int, default=10_000, help="steps of the neuron")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long is measured")
    said = parser.parse_args()
    work = fitzhugh_nagumo(said.steps)
    calls = {"loop(...)": bare_call(work, said.engine), "Loop node in MDF": through_mdf(work, said.engine)}
    bare, through = (call() for call in calls.values())
    calls["compile(...)(...)"] = our_call(work, said.engine)
    assert np.array_equal(bare[2], through), "the node in MDF gives something else"
    best = {name: min(times) for name, times in in_turns(calls, said.seconds).items()}
    above = MILLISECONDS * (best["Loop node in MDF"] - best["loop(...)"])
    print(machine())
    print(f"FitzHugh-Nagumo, {said.steps} steps, engine {said.engine}")
    for name, seconds in best.items():
        print(f"  {name:34}{MILLISECONDS * seconds:12.3f} ms{1e6 * seconds / said.steps:12.3f} us per step")
    own = stateful_step(500)
    print(f"  {'stateful parameters of MDF':34}{MILLISECONDS * own * said.steps:12.3f} ms{1e6 * own:12.3f} us per step (of 500)")
    print(f"  MDF adds {above:.3f} ms (limit {LIMIT_MS} ms): {'ok' if above <= LIMIT_MS else 'slow'}")
    for name, rank in (("scalar", 0), ("vector", 1)):
        call = our_call(single_iteration(rank), said.engine)
        call()
        us = 1e6 * min(in_turns({"call": call}, said.seconds / 4)["call"])
        print(f"one call, one iteration, {name}: {us:.1f} us (limit {LIMIT_US} us): {'ok' if us <= LIMIT_US else 'slow'}")
    arrays = np.load(EXPORTED.with_suffix(".npz"))
    given = {port.name: arrays[f"in{k}"] for k, port in enumerate(onnx.load(EXPORTED).graph.input)}
    show_above(EXPORTED.name, onnx_calls(said.engine, EXPORTED, given), said.seconds)
    short = onnx_calls(said.engine, onnx.parser.parse_model(SHORT), {"n": np.array(5), "x": np.ones(3)})
    show_above("two nodes, five iterations", short, said.seconds)


def show_above(what: str, calls: dict[str, Callable[[], Any]], seconds: float) -> None:
    """Print what calls of an ONNX model take, next to the first of them."""
    (name, backend_run), *others = ((name, 1e6 * min(times)) for name, times in in_turns(calls, seconds).items())
    print(f"one call of an ONNX model, {what}: {name} {backend_run:.1f} us")
    for name, us in others:
        above = us - backend_run
        print(f"  {name:34}{us:8.1f} us, {us / backend_run:.1f} x, {above:.1f} us above (limit {ABOVE_US[name]} us)")


if __name__ == "__main__":
    main()
