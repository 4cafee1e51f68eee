"""A plan in words: what runs how, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mdf_loop.execute.numpy_engine import NumpyLoop
from mdf_loop.execute.programs import Programs
from mdf_loop.execute.specialised import Specialised
from mdf_loop.ir import Node, record
from mdf_loop.plan.idioms import Idiom
from mdf_loop.plan.schedule import Batched, Plan, Shift, Stepped
from mdf_loop.settings.engines import can_compile, for_machine_code
from mdf_loop.system.html import folded, preformatted, table

CONDITIONS = {
    "given": "the trip count is given",
    "batched": "the condition is looked at for a block of iterations; the first false one ends it",
    "stepped": "the condition is looked at in each iteration",
}
"""How a loop finds out that it is over."""


class Explanation(str):
    """A plan in words, which a notebook shows as tables that fold.

    Attributes
    ----------
    content : dict
        The same for programs; see :func:`plan_content`.
    is_detailed : bool
        Whether it shows programs, or the Steps they were made of.
    """

    content: dict[str, Any]
    is_detailed: bool = False

    def _repr_html_(self) -> str:
        return _table(self.content) + folded("in words", preformatted(self), is_open=self.is_detailed)


class Explanations(str):
    """Several plans in words, of a whole model.

    Attributes
    ----------
    parts : tuple of str
        What is said of each: an :class:`Explanation`, or a text about the graph.
    """

    parts: tuple[str, ...] = ()

    @classmethod
    def of(cls, parts: Iterable[str]) -> Explanations:
        """Put the parts together."""
        parts = tuple(parts)
        made = cls("\n\n".join(parts) or "no Loop or Scan ran")
        made.parts = parts or (str(made),)
        return made

    def _repr_html_(self) -> str:
        return "".join(part._repr_html_() if isinstance(part, Explanation) else preformatted(part) for part in self.parts)


@record
class Wanted:
    """What is to be shown of programs: their Python, and the Steps that they were made of."""

    source: bool = False
    steps: bool = False


def explained(loop: NumpyLoop, source: bool = False, steps: bool = False) -> Explanation:
    """The plan of a loop, and of the loops inside it that are run as nodes."""
    text = Explanation("\n".join([*_lines(loop, Wanted(source, steps)), *_what_is_missing(loop)]))
    text.content, text.is_detailed = plan_content(loop), source or steps
    return text


def plan_of(loop: NumpyLoop) -> Plan:
    """The plan by which a loop ran last, or would run."""
    return (loop.latest or loop.blocks).plan


def _table(content: dict[str, Any]) -> str:
    """A plan as HTML: a table for each loop, those of inner loops inside."""
    rows = [(node["how"], node["node"], node["why"]) for node in content["nodes"]]
    inner = "".join(_table(loop) for loop in content["inner"])
    said = content["condition"] or f"interpreted: {content['refusal']}"
    title = f"{content['loop']} over {content['body']}: {said}"
    return folded(title, table(("how", "node", "why"), rows, [COLOURS[how] for how, *_ in rows]) + inner)


def _lines(loop: NumpyLoop, wanted: Wanted) -> Iterator[str]:
    plan = plan_of(loop)
    name = plan.loop.name or "loop"
    if plan.refusal:
        yield f"{name} over {plan.loop.body.name}: interpreted, node by node: {plan.refusal}"
        return
    yield f"{name} over {plan.loop.body.name}: {CONDITIONS[plan.condition]}"
    yield from _nodes("aliases, second names for values:", plan.aliases)
    yield from _nodes("hoisted, run once:", plan.hoisted)
    yield from _nodes("hoisted from the second iteration on:", plan.late)
    for part in plan.parts:
        if isinstance(part, Batched):
            yield "batched, a block of iterations at once:"
            for unit in part.units:
                yield f"  {_unit(unit, plan)}"
        else:
            yield from _stepped(loop, part, plan, wanted)
    yield from how_it_ran(loop)
    if loop.last_program:
        yield from _program(loop.last_program, wanted)
    if loop.last_failure:
        yield f"a block that failed: {loop.last_failure}"
    for step in loop.program.steps:
        for inner in step.loops:
            yield f"inside {step.node.called} -> {', '.join(filter(None, step.node.outputs))}:"
            yield from (f"  {line}" for line in _lines(inner, wanted))


def how_it_ran(loop: NumpyLoop, each: str = "iterations") -> Iterator[str]:
    """How many iterations the last run had, and as what they ran."""
    if loop.last_program:
        yield f"the last run, of {loop.last_length} {each}, was one program in {loop.last_program.form}"
    elif loop.lasted:
        forms = _forms_of_parts(loop)
        shown = "".join(f", a part of them in {form}" for form in forms) if loop.latest is not None else ", interpreted"
        yield f"the last run had {loop.lasted} {each}{shown}"
        if not forms and loop.why_not_compiled:
            yield f"not machine code: {loop.why_not_compiled}"


def _forms_of_parts(loop: NumpyLoop) -> list[str]:
    """What the machine code is that stepped parts of the last block ran as."""
    parts = loop.latest.stepped.values() if loop.latest is not None else ()
    return [part.latest.form for part in parts if part.latest is not None and part.latest.size]


def _what_is_missing(loop: NumpyLoop) -> Iterator[str]:
    """What installing llvmlite would bring, if it is not there."""
    if not can_compile() and not plan_of(loop).refusal:
        yield f"not machine code, llvmlite is not installed; it brings {for_machine_code()}"


def _nodes(title: str, nodes: tuple[Node, ...]) -> Iterator[str]:
    if nodes:
        yield title
        yield from (f"  {node}" for node in nodes)


def _unit(unit: Node | Shift | Idiom, plan: Plan) -> str:
    if isinstance(unit, Shift):
        return f"{unit.name} = {plan.carried[unit.name]} of the iteration before"
    return f"{unit.node}  [{unit.words}]" if isinstance(unit, Idiom) else str(unit)


def _stepped(loop: NumpyLoop, part: Stepped, plan: Plan, wanted: Wanted) -> Iterator[str]:
    yield "stepped, one iteration after the other" + (", up to the first false condition:" if part.decides else ":")
    for node in part.nodes:
        why = plan.reasons.get(first_output(node))
        yield f"  {node}" + (f"  ({why})" if why else "")
    for name in part.carried:
        yield f"  {name} = {plan.carried[name]} of the iteration before"
    if not loop.last_program and (program := (loop.latest or loop.blocks).latest(part)):
        if program.size:
            yield f"  in {program.form}"
        yield from _program(program, wanted)


def _program(program: Specialised, wanted: Wanted) -> Iterator[str]:
    yield from (f"  {line}" for line in program.lines(wanted.source, wanted.steps))


def explained_graph(programs: Programs, source: bool = False, steps: bool = False) -> str:
    """What there is to tell of a graph that ran as one program."""
    program = programs.latest
    if program is None:
        return ""
    return "\n".join([f"the whole model was one program in {program.form}", *_program(program, Wanted(source, steps))])


def plan_content(loop: NumpyLoop) -> dict[str, Any]:
    """The plan of a loop in dicts and lists, for programs and pictures.

    Returns
    -------
    dict
        ``loop``, ``body``, ``condition`` (in words), ``refusal`` (why all of it is interpreted; empty if it is not),
        ``nodes`` and ``inner`` (the same for loops inside).  Each node has ``node`` (its text), ``op``, ``outputs``, ``how``
        (one of :data:`WAYS`) and ``why`` (empty where there is nothing to say).
    """
    plan = plan_of(loop)
    inner = [{"inside": first_output(step.node), **plan_content(found)} for step in loop.program.steps for found in step.loops]
    return {
        "loop": plan.loop.name or "loop",
        "body": plan.loop.body.name,
        "condition": "" if plan.refusal else CONDITIONS[plan.condition],
        "refusal": plan.refusal,
        "nodes": [_node_content(node, how, why) for node, how, why in ways(plan)],
        "inner": inner,
    }


COLOURS = {
    "alias": "#ffffff",
    "hoisted": "#c7e9c0",
    "batched": "#bdd7ee",
    "recurrent": "#d9c9ec",
    "stepped": "#fdd9a8",
    "interpreted": "#e0e0e0",
}
"""A light colour for each way to run a node."""

WAYS = tuple(COLOURS)
"""How a node runs: not at all, as it only gives a value a second name; once; for many iterations at once; likewise although
each needs the one before; one by one; as it is."""


def ways(plan: Plan) -> Iterator[tuple[Node, str, str]]:
    """Each node of a plan with how it runs and why."""
    if plan.refusal:
        yield from ((node, "interpreted", plan.refusal) for node in plan.loop.body.nodes)
        return
    yield from ((node, "alias", f"a second name for {node.inputs[0]}") for node in plan.aliases)
    yield from ((node, "hoisted", "") for node in plan.hoisted)
    yield from ((node, "hoisted", "from the second iteration on") for node in plan.late)
    for part in plan.parts:
        if isinstance(part, Batched):
            for unit in part.units:
                if isinstance(unit, Node):
                    yield unit, "batched", ""
                elif not isinstance(unit, Shift):
                    yield unit.node, "recurrent", type(unit).__name__.lower()
        else:
            yield from ((node, "stepped", plan.reasons.get(first_output(node), "")) for node in part.nodes)


def first_output(node: Node) -> str:
    """What a node is known by: its first output."""
    return next(filter(None, node.outputs), node.name)


def _node_content(node: Node, how: str, why: str) -> dict[str, Any]:
    return {"node": str(node), "op": node.called, "outputs": [o for o in node.outputs if o], "how": how, "why": why}
