"""MDF graphs as bodies: small builders, and running one by MDF's engine and by mdf_loop."""

import contextlib
import io

import numpy as np
from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.mdf import Function, Graph
from scheduled_models import edge
from scheduled_models import node as scheduled_node

from mdf_loop.execute.interpret import Arguments, InterpretedLoop
from mdf_loop.options import start_run
from mdf_loop.readers import read as read_mdf_graph
from mdf_loop.readers.onnx.loop_records import loop_record


def node(name, ports=(), outputs=(), parameters=(), functions=()):
    """A node; ports by id, outputs as {id: expression}."""
    return scheduled_node(name, parameters, ports, functions, **dict(outputs))


def graph(*nodes, edges=(), inputs=("i", "go", "x"), outputs=("go", "y"), **more):
    """A graph with its signature; none if ``inputs`` is None."""
    metadata = None if inputs is None else {"inputs": list(inputs), "outputs": list(outputs)}
    return Graph(
        id="g", nodes=list(nodes), edges=[edge(e) if isinstance(e, str) else e for e in edges], metadata=metadata, **more
    )


def stepping(parameters=(), functions=(), ports=("x",), **outputs):
    """A body of one node ``A``."""
    names = ("go", "y", *[name for name in outputs if name != "y"])
    return graph(node("A", ports, {"y": "x", **outputs}, parameters, functions), outputs=names)


def by_mdf(body, iterations, carried, captured=None):
    """The outputs of each iteration, by MDF's engine; carried values are passed on, as the arrays that are carried in a loop."""
    names, outputs = body.metadata["inputs"], body.metadata["outputs"]
    rows = []
    with contextlib.redirect_stdout(io.StringIO()):
        engine = EvaluableGraph(body)
        values = list(carried)
        for k in range(iterations):
            given = dict(zip(names, [np.int64(k), np.True_, *values], strict=True))
            engine.evaluate(initializer=given | (captured or {}))
            rows.append([output_of(engine, name, given) for name in outputs])
            values = [np.asarray(value) for value in rows[-1][1 : 1 + len(values)]]
    return rows


def output_of(engine, name, given):
    """An output port's value, by its own id or with its node's; or the input of this name."""
    for key, enode in engine.enodes.items():
        for port, output in enode.evaluable_outputs.items():
            if name in (port, f"{key}.{port}"):
                return output.curr_value
    return given[name]


def by_us(body, iterations, carried, captured=None):
    """The body that was read, and what the loop over it returns."""
    body = read_mdf_graph(body, len(carried))
    outer = [np.asarray((captured or {})[name]) for name in body.captures]
    arguments = Arguments(iterations, None, carried=carried, captured=outer)
    return body, InterpretedLoop(loop_record(body, len(carried)))(arguments, start_run())


def assert_as_mdf(body, iterations=6, carried=(1.5,), captured=None, falls_back=False, tolerance=0.0):
    """The last carried values and all collected ones are MDF's."""
    carried = [np.asarray(value) for value in carried]
    captured = {name: np.asarray(value) for name, value in (captured or {}).items()}
    rows = by_mdf(body, iterations, carried, captured)
    read, results = by_us(body, iterations, carried, captured)
    assert falls_back == any(n.op == "Graph" for n in read.nodes), str(read)
    expected = [*rows[-1][1 : 1 + len(carried)]]
    expected += [[row[k] for row in rows] for k in range(1 + len(carried), len(rows[0]))]
    for actual, wanted in zip(results, expected, strict=True):
        wanted = np.array(wanted)
        assert np.shape(actual) == wanted.shape
        np.testing.assert_allclose(np.asarray(actual, float), wanted.astype(float), rtol=tolerance, atol=tolerance)
        if not tolerance:
            assert np.asarray(actual).dtype.kind == wanted.dtype.kind or np.asarray(actual).dtype == np.float64
    return read


def onnx_body(function, args, *parameters, ports=("x",), outputs=None):
    return stepping(
        list(parameters), [Function(id="f", function=f"onnx::{function}", args=args)], ports, **(outputs or {"y": "f"})
    )
