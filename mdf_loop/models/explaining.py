"""How the loops of a model run: the model is run once, and the loops that it ran are asked."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Mapping
from typing import Any

from mdf_loop.calls.explain import explained, explained_graph, plan_content
from mdf_loop.errors import LoopError
from mdf_loop.execute.numpy_engine import NumpyLoop, watched_loops
from mdf_loop.execute.programs import watched_programs
from mdf_loop.ir import ValueType
from mdf_loop.models.as_written import equations_in_nodes, of_loop
from mdf_loop.models.mdf import MdfModel
from mdf_loop.models.model import Model
from mdf_loop.models.opening import prepare
from mdf_loop.models.verifying import drawn, needed_in
from mdf_loop.readers.expressions.equation_texts import lines_of

SEED = 0
"""Of the values that are drawn for inputs that are not given."""

STEPS = 100
"""Evaluations of a model that goes on from step to step, where none are asked for."""


def explain_model(
    model: Any,
    inputs: Mapping[str, Any] | None = None,
    source: bool = False,
    show_steps: bool = False,
    operators: bool = False,
) -> list[str]:
    """How each loop of a model runs, in words.

    Parameters
    ----------
    model
        As :func:`mdf_loop.run` takes it.
    inputs : mapping, optional
        As :func:`mdf_loop.run` takes them, ``steps`` and ``time_increment`` among them.  Those that the model needs and
        that are not given are drawn by their declared types, as ``mdf-loop verify`` draws them.
    source, show_steps : bool
        Also show the programs of the plan, as Python or as Steps.
    operators : bool
        Show the plan, operator by operator, also of loops over equations and of scheduled models.

    Returns
    -------
    list of str
        One text for each graph that ran as one program, then for each loop, without those inside another one: the outer one
        tells of them.  One that says so where there was none.

    Raises
    ------
    LoopError
        The model cannot be run.
    """
    return explain_prepared(prepare(model), inputs or {}, source, show_steps, operators)


def explain_prepared(
    model: Model, inputs: Mapping[str, Any], source: bool = False, show_steps: bool = False, operators: bool = False
) -> list[str]:
    """The same of a model that is prepared."""
    with watched_programs() as graphs:
        loops = loops_of(model, inputs)
    of_loops = {id(loop.last_program) for loop in loops}
    whole = [explained_graph(graph, source, show_steps) for graph in graphs if id(graph.latest) not in of_loops]
    written = [] if operators or source or show_steps else [_as_written(model, loop) for loop in loops]
    if not any(written):
        return [*_equations(model), *whole, *(explained(loop, source, show_steps) for loop in loops)] or ["no Loop or Scan ran"]
    texts = [text or explained(loop) for text, loop in zip(written, loops, strict=True)]
    return [*whole, *texts, "each operator of the plan: explain(operators=True), or mdf-loop explain --operators"]


def _as_written(model: Model, loop: NumpyLoop) -> str:
    """How a loop ran in the words of the model's author, where those are no operators."""
    return "\n".join(of_loop(model.graph, loop)) if isinstance(model, MdfModel) else ""


def _equations(model: Model) -> list[str]:
    """Equations as the model has them, differential ones as the carried values that they become; plans have their parts."""
    found = list[str]()
    for node, parameter, said in equations_in_nodes(model.graph) if isinstance(model, MdfModel) else ():
        parts = "".join(f", whose parts are {name}_next, {name}_next~2, ... below" for name in [*said.carried][:1])
        place = f"{node.id}.{parameter.id}"
        title = f"derivatives of {place} become" if said.derivatives else f"equations of {place}{parts}"
        found.append("\n".join([title, *(f"  {line}" for line in lines_of(said))]))
    return found


def plans_of(model: Any, inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same for programs: what :func:`mdf_loop.calls.explain.plan_content` says of each loop."""
    return [plan_content(loop) for loop in loops_of(prepare(model), inputs)]


def loops_of(model: Model, inputs: Mapping[str, Any]) -> list[NumpyLoop]:
    """The loops that a prepared model runs, without those inside another one; see :func:`explain_model`."""
    loops = _loops_of(model, inputs)
    if not loops and "steps" not in inputs and isinstance(model, MdfModel) and model.typed is None and model.goes_on:
        with contextlib.suppress(LoopError):  # it cannot be run in steps, and ran without
            return _loops_of(model, {**inputs, "steps": STEPS})
    return loops


def _loops_of(model: Model, inputs: Mapping[str, Any]) -> list[NumpyLoop]:
    with watched_loops() as loops:
        model(**{**_missing(model, inputs), **inputs})
    inner = [loop for outer in loops for loop in outer.program.loops]
    return [loop for loop in loops if loop not in inner]


def _missing(model: Model, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Values for the inputs that a model needs and that are not given."""
    try:
        return drawn(needed_of(model, inputs), SEED, set(inputs))
    except LoopError:  # said with all its circumstances when the model runs
        return {}


def needed_of(model: Model, given: Container[str] = ()) -> dict[str, ValueType]:
    """The inputs that a model cannot do without, with what is declared of them; see :func:`needed_in`."""
    if isinstance(model, MdfModel) and model.typed is None:
        return needed_in(model.graph, given)
    return {name: port.type for name, port in model.inputs.items() if port.default is None}
