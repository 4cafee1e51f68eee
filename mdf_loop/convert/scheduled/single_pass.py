"""A graph that is evaluated once as a body: the one pass there is, with nothing that lives from pass to pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mdf_loop.convert.scheduled.conditions import Key
from mdf_loop.convert.scheduled.passes import OPSETS, Pass
from mdf_loop.convert.scheduled.run_order import RunPlan, read_schedule
from mdf_loop.convert.scheduled.slots import GivenInput, Reading, Slots
from mdf_loop.ir import Body
from mdf_loop.ir.well_formed import check_body
from mdf_loop.readers.expressions.values import BodyBuilder, NotCompiled, Unavailable, Value
from mdf_loop.readers.onnx.graph import DEFAULT_OPSET


@dataclass(frozen=True)
class OnceBody:
    """What one evaluation of a graph computes.

    Attributes
    ----------
    body : Body
        Its outputs are those of the graph, then what is recorded.  Its loops are called as ``mdf_loop.loop`` is: what they
        capture has other names inside.
    inputs : tuple of (node, id)
        The places in the graph that its inputs are the values of.
    names : tuple of str
        The outputs of the graph.
    """

    body: Body
    inputs: tuple[tuple[str, str], ...]
    names: tuple[str, ...]


class OnceValues(Slots):
    """Values of the pass: inputs where they are given, operators where nodes have run."""

    is_known, calls_loops = False, True

    def get(self, key: Key, default: Any = None) -> Value | Unavailable:
        """A value; there is no later pass that may read it."""
        return self.peek(key, default)


def read_once(graph: Any, given: Mapping[GivenInput, Any], record: Sequence[Key] = ()) -> OnceBody:
    """The body of a graph whose nodes all run once.

    Parameters
    ----------
    graph : modeci_mdf Graph
    given : mapping of GivenInput to value
        Values for places of the graph; the body depends on their types alone.
    record : sequence of Key
        Values that become outputs as well.

    Raises
    ------
    NotCompiled, LoopError
        It has conditions, operators cannot express it, or it is broken; says which.
    """
    plan = RunPlan(graph, read_schedule(graph), 1, None, tuple(record))
    if plan.schedule.passes != 1:
        raise NotCompiled("it has conditions")
    reading = Reading()
    while True:
        reading.changed, builder = False, BodyBuilder(reading, (), (), DEFAULT_OPSET)
        store = OnceValues({each.key: value for each, value in given.items()}, builder, reading)
        Pass(plan, store, builder).run()
        keys = (*(("output", *place) for place in plan.outputs.values()), *record)
        results = [_available(store, key) for key in keys]
        if not reading.changed:
            break
    loops = [Value(name) for node in builder.nodes if node.loop is not None for name in node.outputs[:1]]
    body = builder.finish(graph.id, [*results, *loops], OPSETS)  # MDF runs a loop that nothing reads as well
    names = {state.input for state in body.state}
    inputs = {key: name for key, name in store.inputs.items() if name in names}
    body = replace(body, inputs=tuple(inputs.values()), outputs=body.outputs[: len(results)], state=())
    return OnceBody(check_body(body, (graph.id,)), tuple((node, id) for _, node, id in inputs), tuple(plan.outputs))


def _available(store: OnceValues, key: Key) -> Value:
    value = store.get(key)
    if isinstance(value, Unavailable):
        raise NotCompiled(f"{key[1]}.{key[2]}: {value.reason}")
    return value
