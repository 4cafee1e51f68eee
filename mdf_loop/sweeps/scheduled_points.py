"""Scheduled models at many points at once: values of all points as arrays, in one loop over the steps.

That is done for models that compute with numbers by ``+ - * /`` alone, and whose schedule does not depend on them: an array
of the values at all points then goes the way that one number goes, and each of its elements has the bits that it has alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.convert.scheduled.loops import Lowered, execute, lower
from mdf_loop.convert.scheduled.lowered_runs import LoopBehind
from mdf_loop.errors import NotLowered
from mdf_loop.integrations.evaluator import parsed
from mdf_loop.integrations.input_places import with_inputs
from mdf_loop.ir import Loop, State
from mdf_loop.models.mdf import MdfModel
from mdf_loop.models.model import Wish
from mdf_loop.options import Run, part_of, random_stream
from mdf_loop.sweeps.machine_runs import NotTogether
from mdf_loop.sweeps.rows.rows_of_runs import Chunk, whole_column

if TYPE_CHECKING:
    from mdf_loop.sweeps.task import Task

PLAIN = ("add", "subtract", "multiply", "negative", "positive", "absolute", "divide", "numpy.maximum", "numpy.minimum")
"""What may be done to a value that differs from point to point."""

TEXTS = (ast.BinOp, ast.UnaryOp, ast.Name, ast.Constant, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.USub, ast.UAdd, ast.Load)
"""What an expression may be made of."""


def run_points(task: Task, start: int, stop: int, run: Run, _seconds: float) -> Chunk:
    """The outputs of some runs of a scheduled model, at several points, whose inputs are the same or floats.

    Raises
    ------
    NotTogether
        The points have to be run one by one; says why.
    """
    model, wish, (first, last) = task.model, task.wish, (start // task.trials, (stop - 1) // task.trials)
    if not isinstance(model, MdfModel) or wish.steps is None or wish.record or last == first:
        raise NotTogether("it is no scheduled model at several points")
    if run.options.trusted or run.options.max_iterations is not None:
        raise NotTogether("something bounds or watches each run")
    columns = task.grid.columns(np.arange(first, last + 1)) or {}
    differing = {name: rows for name, rows in columns.items() if rows.tobytes() != rows[:1].tobytes() * len(rows)}
    if not differing or any(rows.dtype != np.float64 or rows.ndim > 1 for rows in differing.values()):
        raise NotTogether("what differs from point to point is no float")
    found = _outputs(model.graph, task.inputs_of(first), differing, wish, run)
    which = np.arange(start, stop) // task.trials - first
    return Chunk({name: whole_column(found[name][which]) for name in task.names})


def _outputs(
    graph: Any, inputs: Mapping[str, Any], columns: Mapping[str, np.ndarray], wish: Wish, run: Run
) -> dict[str, np.ndarray]:
    """The outputs at some points, a row for each; ``columns`` are the inputs that differ."""
    for text in _texts(graph):
        tree = parsed(text)
        if tree is None or not all(isinstance(part, TEXTS) for part in ast.walk(tree)):
            raise NotTogether(f"{text!r} is more than + - * /")
    count, how = len(next(iter(columns.values()))), (wish.steps or 1, wish.time_increment, wish.collect)
    try:
        alone = lower(with_inputs(graph, inputs), *how)
        many = lower(with_inputs(graph, {**inputs, **columns}), *how)
    except NotLowered as error:
        raise NotTogether(str(error)) from error
    widened, differing = _widened(alone, many, count)
    with part_of(run), random_stream(run.stream):
        outputs = execute(widened, Run(run.options, run.stream, deadline=run.deadline, enclosing=run))
    return {name: _rows(value, name in differing, count) for name, value in outputs.items()}


def _texts(graph: Any) -> Iterator[str]:
    """All expressions of a graph."""
    for node in graph.nodes:
        for parameter in node.parameters:
            if parameter.function or parameter.conditions:
                raise NotTogether(f"{node.id}.{parameter.id} is more than an expression")
            for text in (parameter.value, parameter.default_initial_value, parameter.time_derivative):
                if isinstance(text, str):
                    yield text
        if node.functions:
            raise NotTogether(f"{node.id} has functions")
        yield from (port.value for port in node.output_ports if isinstance(port.value, str))


def _widened(alone: Lowered, many: Lowered, count: int) -> tuple[Lowered, set[str]]:
    """The loop of all points with an array in each place whose value will differ, and the outputs that differ."""
    if alone.loop is None or many.behind is None or many.trip_count is None or alone.trip_count != many.trip_count:
        raise NotTogether("its schedule is no loop of so many passes")
    held = (*alone.loop.body.constants.values(), *(state.initial for state in alone.loop.body.state), *alone.first)
    if any(not isinstance(value, bool | int | float | np.generic) for value in held):
        raise NotTogether("it computes with arrays")
    if [node.op for node in alone.loop.body.nodes] != [node.op for node in many.behind.loop.body.nodes]:
        raise NotTogether("what it computes depends on the point")
    loop, differing = many.behind.loop, _differing(many.behind.loop)
    states = tuple(_wide(state, count) if state.input in differing else state for state in loop.body.state)
    wide = replace(loop, body=replace(loop.body, state=states))
    outputs = {name for name, value in zip(many.names, loop.last, strict=True) if value in differing}
    first, *rows = [_wide_row(many, row, outputs, count) for row in (many.first, *many.rows)]
    return Lowered(many.plan, first, tuple(rows), many.ends, LoopBehind(wide, many.behind.keys)), outputs


def _differing(loop: Loop) -> set[str]:
    """The values of a loop's body that differ from point to point."""
    body = loop.body
    found = {name for name, value in body.constants.items() if np.ndim(value)}
    found |= {state.input for state in body.state if np.ndim(state.initial)}
    while True:
        before = len(found)
        for node in body.nodes:
            if found.isdisjoint(node.reads):
                continue
            if node.domain != "mdf" or node.op not in PLAIN or (node.op == "divide" and node.inputs[1] in found):
                raise NotTogether(f"{node.op} of a value that differs from point to point")
            found.update(node.outputs)
        found |= {state.input for state in body.state if state.output in found}
        if len(found) == before:
            break
    if loop.keep_going in found:
        raise NotTogether("when it ends depends on the point")
    return found


def _wide(state: State, count: int) -> State:
    value = np.array(np.broadcast_to(np.asarray(state.initial, np.float64), count))
    if not np.isfinite(value).all():
        raise NotTogether(f"{state.input} is no number at some point")
    return replace(state, initial=value)


def _wide_row(many: Lowered, row: Sequence[Any], outputs: set[str], count: int) -> tuple[Any, ...]:
    return tuple(
        np.array(np.broadcast_to(np.asarray(value, np.float64), count)) if name in outputs and value is not None else value
        for name, value in zip(many.names, row, strict=False)
    )


def _rows(value: Any, is_differing: bool, count: int) -> np.ndarray:
    """A row for each point."""
    array = np.asarray(value)
    if array.dtype == object:
        raise NotTogether("an output has no value in some steps")
    return np.moveaxis(array, -1, 0) if is_differing else np.broadcast_to(array, (count, *array.shape))
