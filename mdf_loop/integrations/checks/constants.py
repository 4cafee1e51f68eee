"""Constants of a model that its loops cannot use: zeros that they divide by, and steps of time that are not positive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mdf_loop.calls.prepared import read_once
from mdf_loop.errors import LoopError
from mdf_loop.execute.endless import computing
from mdf_loop.integrations.checks.findings import WARNING, Finding
from mdf_loop.ir import Body
from mdf_loop.ops.registry import facts
from mdf_loop.options import start_run
from mdf_loop.readers.expressions.derivatives import STEP
from mdf_loop.readers.expressions.expression_text import number_in
from mdf_loop.readers.mdf.by_place import equations_of, graph_by_place, signature_of
from mdf_loop.readers.mdf.input_ports import default_value_of
from mdf_loop.readers.mdf.node import CONTROL


def wrong_with_constants(graph: Any, given: Mapping[str, Any]) -> Iterator[Finding]:
    """Divisors that are 0, and values of ``dt`` that are not positive, as far as the model or ``given`` says the values."""
    for node in graph_by_place(graph, read_once).nodes:
        values = _values_of(graph, node, given)
        for thing in (*node.functions, *node.parameters):
            if thing.function not in CONTROL:
                continue
            place, args = (str(graph.id), node.id), {**(thing.args or {})}
            known = values | {key: values.get(value, value) if isinstance(value, str) else value for key, value in args.items()}
            for key in ("then_branch", "else_branch") if signature_of(thing.function, args)[1] == "branch" else ("body",):
                source = known.get(key)
                if isinstance(source, dict):
                    yield from _of_divisors(read_once(source, *signature_of(thing.function, args)), known, place, values)
            said = equations_of(node, thing)
            if said is not None and said.derivatives and (step := _number(said.let.get(STEP, known.get(STEP)))) is not None:
                yield from _of_step(step, (*place, next((name for name in (STEP, "body") if name in values), thing.id)))


def _values_of(graph: Any, node: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of ports and parameters of a node that no edge brings and nothing computes."""
    fed = {edge.receiver_port for edge in graph.edges if edge.receiver == node.id}
    values = {port.id: default_value_of(port) for port in node.input_ports if port.id not in fed}
    values |= {each.id: each.value for each in node.parameters if each.function is None}
    return values | {name: given.get(f"{node.id}.{name}", given.get(name, value)) for name, value in values.items()}


def _of_divisors(body: Body, known: Mapping[str, Any], place: tuple[str, ...], values: Mapping[str, Any]) -> Iterator[Finding]:
    if any(node.op.lower().endswith("where") for node in body.nodes):
        return  # which may leave out what a division by 0 gives
    numbers = {name: value for name in body.captures if (value := _number(known.get(name))) is not None}
    for divisor in dict.fromkeys(node.inputs[1] for node in body.nodes if facts(node).divides):
        part = computing(body, [divisor], numbers).body
        read = [divisor] if divisor in numbers else [*part.inputs]
        if not set(read) <= numbers.keys() or not _has_zero(body, divisor, numbers):
            continue
        names = ", ".join(read)
        said = f"{names} is 0" if divisor in numbers else f"what is computed of {names} is 0"
        where = (*place, read[0]) if read and read[0] in values else place
        said = f"{said}, and the body divides by it" if read else "the body divides by 0"
        yield Finding(WARNING, f"{'/'.join(where)}: {said}", where)


def _has_zero(body: Body, divisor: str, numbers: Mapping[str, Any]) -> bool:
    """Whether a divisor that is computed from known numbers is 0, or has a 0 in it."""
    try:
        with np.errstate(all="ignore"):
            part = computing(body, [divisor], numbers)
            made = (
                numbers[divisor] if divisor in numbers else part([numbers[name] for name in part.body.inputs], (), start_run())[0]
            )
            return bool((np.asarray(made) == 0).any())
    except (LoopError, ValueError, TypeError, ArithmeticError, IndexError):
        return False  # a run says it


def _of_step(step: Any, place: tuple[str, ...]) -> Iterator[Finding]:
    if np.size(step) == 1 and step <= 0:
        what = "so nothing changes" if step == 0 else "so time runs backwards"
        yield Finding(WARNING, f"{'/'.join(place)}: {STEP}, the length of a step, is {step}, {what}", place)


def _number(value: Any) -> Any:
    """A number or an array that is written in a model; None for anything else."""
    array = np.asarray(number_in(value) if isinstance(value, str) else value)
    return array if array.dtype.kind in "biuf" else None
