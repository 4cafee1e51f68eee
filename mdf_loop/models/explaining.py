"""How the loops of a model run: the model is run once, and the loops that it ran are asked."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from mdf_loop.calls.explain import explained, explained_graph, plan_content
from mdf_loop.errors import LoopError
from mdf_loop.execute.numpy_engine import NumpyLoop, watched_loops
from mdf_loop.execute.programs import watched_programs
from mdf_loop.ir import ValueType
from mdf_loop.models.mdf import MdfModel
from mdf_loop.models.model import Model
from mdf_loop.models.opening import prepare
from mdf_loop.models.verifying import drawn, needed_in
from mdf_loop.readers.expressions.equation_texts import equations_in, is_equations, lines_of

SEED = 0
"""Of the values that are drawn for inputs that are not given."""


def explain_model(
    model: Any, inputs: Mapping[str, Any] | None = None, source: bool = False, show_steps: bool = False
) -> list[str]:
    """The plan of each loop that a model runs, in words.

    Parameters
    ----------
    model
        As :func:`mdf_loop.run` takes it.
    inputs : mapping, optional
        As :func:`mdf_loop.run` takes them, ``steps`` and ``time_increment`` among them.  Those that the model needs and
        that are not given are drawn by their declared types, as ``mdf-loop verify`` draws them.
    source, show_steps : bool

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
    return explain_prepared(prepare(model), inputs or {}, source, show_steps)


def explain_prepared(model: Model, inputs: Mapping[str, Any], source: bool = False, show_steps: bool = False) -> list[str]:
    """The same of a model that is prepared."""
    with watched_programs() as graphs:
        loops = loops_of(model, inputs)
    of_loops = {id(loop.last_program) for loop in loops}
    whole = [explained_graph(graph, source, show_steps) for graph in graphs if id(graph.latest) not in of_loops]
    whole = [*_equations(model), *whole]
    return [*whole, *(explained(loop, source, show_steps) for loop in loops)] or [_nothing(model, inputs)]


def _equations(model: Model) -> list[str]:
    """Equations as the model has them, differential ones as the carried values that they become; plans have their parts."""
    found = list[str]()
    for node in model.graph.nodes if isinstance(model, MdfModel) else ():
        for parameter in node.parameters:
            if not isinstance(parameter.value, Mapping) or not is_equations(parameter.value):
                continue
            said, place = equations_in(parameter.value), f"{node.id}.{parameter.id}"
            parts = "".join(f", whose parts are {name}_next, {name}_next~2, ... below" for name in [*said.carried][:1])
            title = f"derivatives of {place} become" if said.derivatives else f"equations of {place}{parts}"
            found.append("\n".join([title, *(f"  {line}" for line in lines_of(said))]))
    return found


def _nothing(model: Model, inputs: Mapping[str, Any]) -> str:
    """What is said where no loop ran: a model that goes on from step to step is one if it is given some."""
    if isinstance(model, MdfModel) and model.typed is None and model.goes_on and "steps" not in inputs:
        return (
            "no Loop or Scan ran in one evaluation of this model; it becomes a loop over steps, which "
            "explain(steps=1000), or mdf-loop explain --steps 1000, shows"
        )
    return "no Loop or Scan ran"


def plans_of(model: Any, inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same for programs: what :func:`mdf_loop.calls.explain.plan_content` says of each loop."""
    return [plan_content(loop) for loop in loops_of(prepare(model), inputs)]


def loops_of(model: Model, inputs: Mapping[str, Any]) -> list[NumpyLoop]:
    """The loops that a prepared model runs, without those inside another one; see :func:`explain_model`."""
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
