"""A graph that is evaluated once as a body: the one pass there is, with nothing that lives from pass to pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mdf_loop.convert.scheduled.first_runs import Slots
from mdf_loop.convert.scheduled.passes import OPSETS, Pass
from mdf_loop.convert.scheduled.plan import RunPlan
from mdf_loop.convert.scheduled.run_order import read_schedule
from mdf_loop.convert.scheduled.slots import GivenInput, Key, Reading
from mdf_loop.ir import Body, Node
from mdf_loop.ir.well_formed import check_body
from mdf_loop.readers.expressions.values import BodyBuilder, NotCompiled, Unavailable, Value
from mdf_loop.readers.onnx.graph import DEFAULT_OPSET


@dataclass(frozen=True)
class OnceBody:
    """What one evaluation of a graph computes.

    Attributes
    ----------
    body : Body
        Its outputs are those of the graph, then what is recorded.
    inputs : tuple of (node, id)
        The places in the graph that its inputs are the values of.
    names : tuple of str
        The outputs of the graph.
    loops : mapping of str to Node
        By the first output of each loop: the loop with its body as the model says it, whose captured values keep their names.
    """

    body: Body
    inputs: tuple[tuple[str, str], ...]
    names: tuple[str, ...]
    loops: Mapping[str, Node]

    @property
    def apart(self) -> Body:
        """The same for an evaluation that runs the loops one by one: what their bodies capture is given by place."""
        return replace(self.body, nodes=tuple(self._as_read(node) for node in self.body.nodes))

    def _as_read(self, node: Node) -> Node:
        read = self.loops.get(next(iter(node.outputs), ""))
        return node if read is None else replace(read, outputs=node.outputs)


class OnceValues(Slots):
    """Values of the pass: inputs where they are given, operators where nodes have run."""

    is_known = False


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
    there = {name for node in builder.nodes for name in node.outputs}
    loops = {name: node for name, node in builder.loops.items() if name in there}
    body = builder.finish(graph.id, [*results, *map(Value, loops)], OPSETS)  # MDF runs a loop that nothing reads as well
    names = {state.input for state in body.state}
    inputs = {key: name for key, name in store.inputs.items() if name in names}
    body = replace(body, inputs=tuple(inputs.values()), outputs=body.outputs[: len(results)], state=())
    places = tuple((node, id) for _, node, id in inputs)
    return OnceBody(check_body(body, (graph.id,)), places, tuple(plan.outputs), loops)


def _available(store: OnceValues, key: Key) -> Value:
    value = store.get(key)
    if isinstance(value, Unavailable):
        raise NotCompiled(f"{key[1]}.{key[2]}: {value.reason}")
    return value
