"""Names in an MDF graph that nothing has: in expressions, of functions, and in what functions are given."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from mdf_loop.errors import UnsupportedOp, did_you_mean
from mdf_loop.functions.psyneulink import plain
from mdf_loop.ir import record
from mdf_loop.readers.expressions.derivatives import STEP
from mdf_loop.readers.expressions.equation_texts import is_equations, names_of
from mdf_loop.readers.expressions.expression_text import (
    BRACES,
    CONSTANTS,
    excerpt,
    is_onnx_text,
    is_python,
    number_in,
    tree_of,
    variables,
    with_point,
)
from mdf_loop.readers.expressions.function_calls import BUILTINS, MODULES
from mdf_loop.readers.expressions.other_notations import as_derivative, meant_by_name, of_signs
from mdf_loop.readers.mdf.control_functions import BODIES
from mdf_loop.readers.mdf.node import CONTROL
from mdf_loop.readers.mdf.stepped_loops import Steps
from mdf_loop.types.schemas import LARGEST_VERSION, schema_of

ALWAYS = {"t", "true", "false", "inf", "nan"} | set(MODULES)
"""What MDF's engine knows, or reads as a text or number, wherever it stands."""


@record
class UnknownName:
    """A name that is read and that nothing has, or a text that is read and holds none.

    Attributes
    ----------
    place : tuple of str
        Graph, node and what it stands in there.
    said : str
        What is wrong, and what was probably meant.
    """

    place: tuple[str, ...]
    said: str

    def __str__(self) -> str:
        return f"{'/'.join(self.place)}: {self.said}"


def unknown_names(graph: Any) -> Iterator[UnknownName]:
    """Every name in a graph that is read and that nothing has, functions that MDF does not know, and arguments they lack."""
    from modeci_mdf.functions.standard import mdf_functions

    for node in graph.nodes:
        try:
            node = plain(node)
        except UnsupportedOp as error:
            yield UnknownName((str(graph.id), node.id), str(error))
            continue
        things = (*node.functions, *node.parameters)
        known = [thing.id for thing in (*node.input_ports, *things)]
        known += [name for thing in things if thing.function == "onnx::Loop" for name in Steps(thing.id, 1).published]
        inner = {name: thing.id for thing in things for name in names_of(getattr(thing, "value", None))}
        loop = next((thing.id for thing in things if thing.function in CONTROL), "run")
        for thing in (*things, *node.output_ports):
            place = (str(graph.id), node.id, thing.id)
            for said in _of_thing(thing, known, mdf_functions):
                name = next(iter(re.findall(r"reads '(\w+)', which", said)), "")
                yield UnknownName(place, f"{said}{_inside(name, inner[name], loop) if name in inner else ''}")


def _inside(name: str, body: str, loop: str) -> str:
    """How to read a value of a body outside of it."""
    return f"; it is a value of {body!r}: write {loop}.{name} for its result, and a condition that reads it as while: of {body!r}"


def _of_thing(thing: Any, known: list[str], functions: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the names of one parameter, function or port."""
    arguments, function = getattr(thing, "args", None) or {}, getattr(thing, "function", None)
    if isinstance(function, str) and function and getattr(thing, "value", None) is None:
        yield from _of_function(function, arguments, known, functions)
    elif bodies := [name for name in arguments if name in _BODIES]:
        yield f"it has a body and no function; write function: onnx::{'Loop' if bodies == ['body'] else 'If'}"
    local = [*known, *(arguments if not function else ())]
    for attribute in ("value", "default_initial_value", "time_derivative"):
        text = getattr(thing, attribute, None)
        yield from (f"it reads {said}" for said in _unknown(text, local))
        if isinstance(text, str) and _is_text(text, local):
            meant = f"{_meant(text)}{_of_odd(text, local)}"
            yield BRACES if is_onnx_text(text) else f"its {attribute} is the text {excerpt(text)}, {NO_VALUE}{meant}"
        elif isinstance(text, str) and text in ("true", "false") and text not in local:
            yield f"its {attribute} is the text {text!r}; without quotes it is a boolean"
    said = _attributes(function)
    for place, (key, value) in enumerate(arguments.items()):  # each sees those before it
        if key in said:
            continue
        number = "" if key in _BODIES else NUMBER
        yield from (f"argument {key!r} reads {name}" for name in _unknown(value, [*known, *[*arguments][:place]], number))
        if function in CONTROL and isinstance(value, str) and value and value not in known and not is_python(value):
            yield f"argument {key!r}: {BRACES if is_onnx_text(value) else f'the text {excerpt(value)} is not an expression'}"
        elif function and isinstance(value, str) and value in ("true", "false") and value not in known:
            yield f"argument {key!r} is the text {value!r}; without quotes it is a boolean"
        elif function and function not in CONTROL and _is_text(value, known):
            yield f"argument {key!r} is the text {excerpt(value)}, {NO_VALUE}{_meant(value)}"


OTHER_STEPS = {"delta_t", "deltat", "dt_ms", "h", "step", "step_size", "time_step", "timestep", "stepsize", "d_t", "dt_"}
"""What else people call the length of a step, in small letters."""


def not_in_node(name: str, known: Collection[str], source: Any) -> str:
    """The message for a name that a body, or one of several, reads and its node does not have."""
    if name == STEP:
        like = next((each for each in known if each.lower() in OTHER_STEPS), "0.1")
        return f"the length of a step, {STEP}, is missing: write {STEP}: {like} in the body, next to its equations"
    is_comment = re.search(rf"%\s*{re.escape(name)}\s*(?:['\"\n]|$)", str(source))
    comment = "; % is the remainder, and a comment begins with #" if is_comment else ""
    meant = comment or meant_by_name(name, known) or f"; give it as a parameter: {name}: {{value: ...}}"
    return f"the body reads {name!r}, which the node does not have{meant}"


def inside_a_body(error: Exception, values: Mapping[str, Any]) -> str:
    """What to read for a name that is one inside a body, and that MDF knows too: ``t``, the time of its own integration."""
    name = next(iter(re.findall(r"there is no value '(\w+)' here", str(error))), "")
    has_it = any(isinstance(value, Mapping) and name in names_of(value) for value in values.values())
    loops = [id for id, value in values.items() if isinstance(value, tuple)]
    written = f"write {loops[0]}.{name}" if len(loops) == 1 else f"such as run.{name} of a loop run"
    return f"; the body of a loop has it inside: it is a result, {written}" if name and has_it else ""


NO_VALUE = "which is not a number or an expression"


def _meant(text: str) -> str:
    """What a text that is none was probably meant as."""
    if said := as_derivative(text):
        return said
    if is_equations(text):
        return "; a body of equations is a mapping: {carried: {x: x + 1}, while: x < 10}"
    if number := with_point(text):
        return f"; a number has a point: write {number}"
    found = _QUANTITY.fullmatch(text)
    if found and found[2] == "%":
        return f"; write {float(found[1]) / 100:g}"
    return (
        f"; write the number alone, {found[1]}, and {found[2]} into metadata: {{units: {found[2]}}}" if found else of_signs(text)
    )


_QUANTITY = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([^\W\d][\w/^*]*|%)\s*")
"""A number with a unit."""


def _is_text(source: Any, known: Collection[str]) -> bool:
    """Whether a value is a text of which MDF's engine can make nothing."""
    return isinstance(source, str) and source not in ("", *known) and number_in(source) is None and not is_python(source)


def _attributes(function: Any) -> Collection[str]:
    """The attributes of an operator of ONNX, which may be texts."""
    if not isinstance(function, str) or not function.startswith("onnx::") or function in CONTROL:
        return ()
    schema = schema_of(function.removeprefix("onnx::"), LARGEST_VERSION)
    return () if schema is None else schema.attributes


def _of_function(
    function: str, arguments: Mapping[str, Any], known: Collection[str], functions: Mapping[str, Any]
) -> Iterator[str]:
    """A function that MDF does not know - it takes the name for an expression then - or one that is not given all it takes."""
    if function not in functions:
        names = [*functions, *CONTROL]
        written = re.sub(r"[.:]+", "::", function)
        is_expression = not function.isidentifier() and ":" not in function and written not in names
        if not is_expression and function not in (*known, *arguments):
            last = written.rpartition("::")[2].lower()
            of_onnx = f"onnx::{'loop' if last in ('while', 'for', 'repeat') else last}"
            meant = next((f"; did you mean {name!r}?" for name in names if name.lower() == of_onnx), "")
            yield f"there is no function {function!r}{meant or did_you_mean(function, names)}"
        return
    if missing := [name for name in needed_arguments(function, functions) if name not in arguments and name not in known]:
        more = surplus(function, arguments, functions)
        unknown = f"; unknown: {', '.join(more)}" if more else ""
        yield f"{function} takes {', '.join(functions[function]['arguments'])}; missing: {', '.join(missing)}{unknown}"


def needed_arguments(function: str, functions: Mapping[str, Any]) -> Sequence[str]:
    """The arguments that a function must have, an operator of ONNX in every version that MDF may mean."""
    if "::" not in function:
        return functions[function]["arguments"]
    schemas = [schema_of(function.removeprefix("onnx::"), version) for version in (LARGEST_VERSION, OF_MDF)]
    needed = [
        [formal.name for formal in schema.inputs if formal.option == formal.option.Single] if schema is not None else []
        for schema in schemas
    ]
    return [] if function in CONTROL else [name for name in needed[0] if name in needed[1]]


OF_MDF = 14
"""The version of ONNX's operators that MDF's engine runs where a model says none."""


def surplus(function: Any, arguments: Mapping[str, Any], functions: Mapping[str, Any]) -> list[str]:
    """The arguments that a function does not take, which MDF's engine leaves out."""
    if function not in functions or function in CONTROL:
        return []
    taken = {*functions[function]["arguments"], *_attributes(function)}
    return [name for name in arguments if name not in taken and not _is_input(function, name)]


def _is_input(function: str, name: str) -> bool:
    """Whether an argument is an input of an operator of ONNX in its last version, of which one may be many: ``inputs_1``."""
    schema = schema_of(function.removeprefix("onnx::"), LARGEST_VERSION) if function.startswith("onnx::") else None
    many = re.sub(r"_\d+$", "", name)
    return schema is not None and any(
        formal.name == name or (formal.option == formal.option.Variadic and formal.name == many) for formal in schema.inputs
    )


_BODIES = frozenset[str]().union(*BODIES.values())

NUMBER = "; write a number, or the name of something in the node"
"""What to write for a text that is a name and nothing else."""


def _unknown(source: Any, known: Iterable[str], number: str = NUMBER) -> Iterator[str]:
    """The unknown names in one text, each once; ``number`` is what is expected in the place of a name."""
    if not isinstance(source, str) or source in known or not source or number_in(source) is not None:
        return
    try:
        tree = tree_of(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return  # a text, or an error that reading it raises
    refused = {
        ast.unparse(part.func.value)
        for part in ast.walk(tree)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute)
    }
    for name in dict.fromkeys(variables(tree)):
        if name not in known and name not in refused and name not in ALWAYS and name not in BUILTINS:
            constant = f"; write numpy.{name}" if f"numpy.{name}" in CONSTANTS else ""
            constant = constant or ("; write numpy.nan" if name == "NA" else "")
            meant = constant or _of_odd(source, known) or did_you_mean(name, known) or number * (source.strip() == name)
            yield f"{name!r}, which the node does not have{meant}"


def _of_odd(text: str, known: Iterable[str]) -> str:
    """What to do about an id that no expression can read, such as ``x-1``."""
    odd, found = next(((name, re.sub(r"\W", "_", name)) for name in known if not name.isidentifier() and name in text), ("", ""))
    return f"; {odd!r} is not a name that an expression can read: rename it, such as {found}" if odd else ""
