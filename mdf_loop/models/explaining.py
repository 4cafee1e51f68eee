"""How the loops of a model run, in the words of its author: the model is run once, and the loops that it ran are asked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mdf_loop.calls.explain import CONDITIONS, explained, explained_graph, first_output, how_it_ran, plan_content, plan_of, ways
from mdf_loop.errors import LoopError, shortened
from mdf_loop.execute.numpy_engine import NumpyLoop, watched_loops
from mdf_loop.execute.programs import watched_programs
from mdf_loop.models.mdf import MdfModel
from mdf_loop.models.model import Model
from mdf_loop.models.opening import prepare
from mdf_loop.models.verifying import drawn, ending_if_endless, needed
from mdf_loop.options import current_options
from mdf_loop.readers.expressions.equation_texts import lines_of
from mdf_loop.readers.mdf.by_place import equations_in_nodes, node_by_name
from mdf_loop.readers.mdf.input_ports import default_value_of

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
        that are not given are drawn by their declared types, as ``mdf-loop verify`` draws them, with ``options(seed=...)`` or 0.
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
    model = prepare(model)
    with watched_programs() as graphs:
        loops = loops_of(model, inputs or {})
    on_device = vars(model).get("_on_device") if current_options().how.device else None
    if on_device is not None and on_device.latest is not None:
        return [on_device.latest.watched.explain()]
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
    drawn_ones = _missing(model, inputs)
    with watched_loops() as loops, ending_if_endless(drawn_ones):
        model(**{**drawn_ones, **inputs})
    inner = [loop for outer in loops for loop in outer.program.loops]
    return [loop for loop in loops if loop not in inner]


def _missing(model: Model, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Values for the inputs that a model needs and that are not given."""
    try:
        return drawn(needed(model, inputs), current_options().seed or 0, set(inputs))
    except LoopError:  # said with all its circumstances when the model runs
        return {}


WORDS = {
    "stepped": "one {} after the other",
    "interpreted": "one {} after the other",
    "batched": "many {}s at once",
    "recurrent": "many {}s at once",
    "hoisted": "once",
}
"""What an author reads of each way to run a node, the slowest first."""

WIDEST = 60
"""Letters of an equation up to which the words about it are on the same line, in one column."""


def of_loop(graph: Any, loop: NumpyLoop) -> list[str]:
    """How a loop ran, in the words of the graph that it belongs to; empty where the author wrote operators."""
    name = plan_of(loop).loop.name
    if name == f"passes of {graph.id}":
        return _written_passes(graph, loop)
    for node, parameter, said in equations_in_nodes(graph):
        for runs in (*node.parameters, *node.functions):
            body = (runs.args or {}).get("body", "body")
            if f"'{node.id}.{runs.id}'" in name and parameter.id == body:
                return _written_equations(f"{node.id}.{runs.id}", said, loop)
    return []


def _written_equations(called: str, said: Any, loop: NumpyLoop) -> list[str]:
    """Equations as they are written, derivatives as the carried values that they become."""
    found = _ways_of(loop, [*said.carried, *said.let, *said.collected])
    kind = "derivatives become" if said.derivatives else "equations"
    rows = [(line, _words(found.get(line.partition(":")[0].split()[-1], ()), "iteration")) for line in lines_of(said)]
    if said.going is not None:
        rows[-1] = rows[-1][0], CONDITIONS[plan_of(loop).condition]
    return [f"{called}, {kind}:", *_columns(rows), *how_it_ran(loop)]


def _written_passes(graph: Any, loop: NumpyLoop) -> list[str]:
    """Nodes, when each runs, and what ends a run."""
    conditions = getattr(graph.conditions, "node_specific", None) or {}
    ends = getattr(graph.conditions, "termination", None) or {}
    found = _ways_of(loop, [node.id for node in graph.nodes])
    lines = [f"{graph.id}, its nodes in each pass of the scheduler:"]
    for node in graph.nodes:
        when = f" when {condition_text(conditions[node.id])}" if node.id in conditions else ""
        lines.append(f"  {node.id}{when}  # {_words(found.get(node.id, ()), 'pass') or 'once'}")
        lines += [f"      {line}" for line in node_lines(node)]
    lines += [f"  {what.replace('_', ' ')} ends when {condition_text(each)}" for what, each in ends.items()]
    inner = [line for each in loop.program.loops for line in of_loop(graph, each)]
    return [*lines, *(f"  {line}" for line in inner), *how_it_ran(loop, "passes after the first ones")]


def _ways_of(loop: NumpyLoop, names: Iterable[str]) -> dict[str, list[tuple[str, str]]]:
    """How the operators ran that each equation, or each node, became, and why."""
    known, found = set(names), dict[str, list[tuple[str, str]]]()
    for node, how, why in ways(plan_of(loop)):
        made = first_output(node).partition("~")[0]
        owners = (made, made.removesuffix("_next"), made.partition(".")[0])
        owner = next((each for each in owners if each in known), "while" if made == "while" else "")
        found.setdefault(owner, []).append((how, why))
    return found


def _words(found: Iterable[tuple[str, str]], each: str) -> str:
    """How a whole equation ran: as the slowest of its operators, and why that one did."""
    hows = {WORDS[how].format(each).replace("passs", "passes"): why for how, why in reversed([*found]) if how in WORDS}
    first, *rest = [text for text in dict.fromkeys(word.format(each) for word in WORDS.values()) if text in hows] or [""]
    why = hows.get(first, "") if each == "iteration" else ""
    return first + (f": {why}" if why else "") + (f"; parts of it ran {rest[-1]}" if rest else "")


def _columns(rows: list[tuple[str, str]]) -> Iterator[str]:
    """Equations on the left, what is said of them on the right, as a comment."""
    width = max((len(text) for text, _ in rows if len(text) <= WIDEST), default=0)
    for text, words in rows:
        yield f"  {text:{width}}  # {words}" if words else f"  {text}"


def node_lines(node: Any) -> list[str]:
    """What a node of MDF says: its inputs with their defaults, its parameters and its outputs, a line each."""
    node = node_by_name(node)
    inputs = [f"{port.id} = {short(default_value_of(port))}" for port in node.input_ports if default_value_of(port) is not None]
    functions = [f"{thing.id} = {_call(thing)}" for thing in node.functions]
    parameters = [line for thing in node.parameters for line in _parameter(thing)]
    outputs = [f"{port.id} = {port.value}" for port in node.output_ports if str(port.value) != port.id]
    return [*inputs, *functions, *parameters, *outputs]


def _parameter(parameter: Any) -> Iterator[str]:
    if parameter.time_derivative is not None:
        yield f"d{parameter.id}/dt = {parameter.time_derivative}"
    elif parameter.function:
        yield f"{parameter.id} = {_call(parameter)}"
    elif parameter.value is not None:
        yield f"{parameter.id} = {short(parameter.value)}"
    if parameter.default_initial_value is not None:
        yield f"{parameter.id} starts at {short(parameter.default_initial_value)}"


def _call(thing: Any) -> str:
    """A function of MDF with its arguments; one that has its text as its value."""
    if not thing.function:
        return str(thing.value)
    given = ", ".join(f"{name}={short(value)}" for name, value in (thing.args or {}).items())
    return f"{thing.function}({given})"


def condition_text(condition: Any) -> str:
    """A condition of graph-scheduler with its arguments, those inside it too: ``EveryNCalls(leaky, 5)``."""
    given = [_inner(value) for value in (condition.kwargs or {}).values() if value is not None]
    return f"{condition.type}({', '.join(given)})" if given else str(condition.type)


def _inner(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_inner, value))
    return condition_text(value) if hasattr(value, "kwargs") else str(value)


def short(value: Any) -> str:
    """A value in a few characters; an expression in more of them."""
    return shortened(" ".join(str(value).split()), 120 if isinstance(value, str) else 24)
