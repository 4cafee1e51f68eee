"""What is wrong with the values, texts and conditions of a graph, as far as that can be seen without running it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from modeci_mdf.functions.standard import mdf_functions

from mdf_loop.errors import LoopError
from mdf_loop.functions.psyneulink import FUNCTIONS, row_of
from mdf_loop.integrations.checks.exported import mechanism_of, surplus_of
from mdf_loop.integrations.checks.findings import ERROR, WARNING, Finding
from mdf_loop.integrations.patches.no_eval import TEXTS, conditions_of, refuse_condition, refuse_keywords
from mdf_loop.kernels import load_kernels
from mdf_loop.readers.expressions.expression_text import excerpt, is_python, number_in
from mdf_loop.readers.mdf.engine_body import refuse_text
from mdf_loop.readers.mdf.input_ports import default_value_of
from mdf_loop.readers.mdf.names import needed_arguments, surplus
from mdf_loop.readers.mdf.node_functions import standard_expression, texts


def wrong_with_values(graph: Any, node: Any) -> Iterator[Finding]:
    """Defaults and values that are not what their ports declare, or no numbers."""
    for port in node.input_ports:
        place = (str(graph.id), node.id, port.id)
        if default_value_of(port) is not None and not isinstance(default_value_of(port), dict):
            yield from (Finding(kind, f"{'/'.join(place)}: {said}", place) for kind, said in _of_default(port))
    for parameter in node.parameters:
        place = (str(graph.id), node.id, parameter.id)
        for value in (parameter.value, parameter.default_initial_value):
            if isinstance(value, list) and (said := _of_list(value)):
                yield Finding(ERROR, f"{'/'.join(place)}: {said}", place)
        yield from _of_trip_count(parameter, node, place)
        if said := _of_comma(parameter.value):
            yield Finding(WARNING, f"{'/'.join(place)}: {said}", place)
    for thing in (*node.functions, *node.parameters):
        place = (str(graph.id), node.id, thing.id)
        args = thing.args or {}
        made = row_of(thing, node) if thing.function in FUNCTIONS else None
        more = surplus(thing.function, args, mdf_functions) if made is None else surplus_of(thing, made)
        for name in more if more and args.keys() >= {*needed_arguments(thing.function, mdf_functions)} else ():
            if name == "variable0" and mechanism_of(node):
                continue  # PsyNeuLink writes it for functions without an input, too
            takes = ", ".join(mdf_functions[thing.function]["arguments"] if made is None else ["variable0", *made.defaults])
            yield Finding(WARNING, f"{'/'.join(place)}: {thing.function} takes {takes or 'nothing'}, and not {name!r}", place)
    for port in node.output_ports:
        if port.value is None:
            place = (str(graph.id), node.id, port.id)
            yield Finding(WARNING, f"{'/'.join(place)}: it has no value, so it is not an output; write value: ...", place)


def _of_comma(text: Any) -> str:
    """What is wrong with a decimal comma, which makes two numbers; empty for other values."""
    found = re.fullmatch(r"\s*([-+]?\d+),(\d+)\s*", text) if isinstance(text, str) else None
    return f"its value {text!r} is two numbers; a decimal point is written {found[1]}.{found[2]}" if found else ""


def _of_default(port: Any) -> Iterator[tuple[str, str]]:
    """What is wrong with the default of a port: its kind, its shape, its type."""
    default, declared = default_value_of(port), port.type or ""
    if isinstance(default, str):
        if number_in(default) is None and declared.lower() not in TEXTS:
            wanted = f"declared is {declared}" if declared else "if it is meant as a text, declare type: string"
            yield (ERROR if declared else WARNING), f"its default is the text {excerpt(default)}, not a number; {wanted}"
        return
    if isinstance(default, list) and (said := _of_list(default)):
        yield ERROR, said
        return
    value, shape = np.asarray(default), tuple(port.shape or ())
    if shape and all(isinstance(n, int) for n in shape) and value.shape != shape:
        yield ERROR, f"its default has shape {list(value.shape)}, declared is {list(shape)}"
    if declared and not _fits(value, declared):
        yield ERROR, f"its default is {value.dtype}, declared is {declared}"


def _of_list(value: list[Any]) -> str:
    """What is wrong with a list that is meant as an array; empty if nothing is."""
    try:
        array = np.array(value)
    except ValueError:
        return "its rows differ in length; an array has rows of one length"
    wrong = [item for item in np.array(value, object).ravel() if isinstance(item, str) and number_in(item) is None]
    if array.dtype.kind == "U" and 0 < len(wrong) < array.size:
        return f"{excerpt(wrong[0])} among its numbers is a text"
    return ""


def _fits(value: np.ndarray, declared: str) -> bool:
    """Whether a number of a file can be of a declared type; what numpy does not know says nothing."""
    try:
        dtype = np.dtype(declared)
    except TypeError:
        return True
    return np.can_cast(value.dtype, dtype, "same_kind")


def _of_trip_count(parameter: Any, node: Any, place: tuple[str, ...]) -> Iterator[Finding]:
    """A trip count that is written down and is no whole number."""
    if parameter.function != "onnx::Loop":
        return
    count = (parameter.args or {}).get("M")
    held = {other.id: other.value for other in node.parameters if other.function is None}
    count = held.get(count, count) if isinstance(count, str) else count
    if isinstance(count, str) and number_in(count) is not None:
        count = number_in(count)
    is_list = isinstance(count, list) and [*map(type, count)] != [int]
    if type(count) is int and count < 0:
        yield Finding(WARNING, f"{'/'.join(place)}: the trip count M is {count}, so no iteration runs", place)
    if is_list or isinstance(count, bool | float):
        meant = f"; write {int(count)}" if isinstance(count, float) and count.is_integer() else ""
        yield Finding(ERROR, f"{'/'.join(place)}: the trip count M is a whole number; got {count!r}{meant}", place)


def wrong_with_texts(graph: Any, node: Any) -> Iterator[Finding]:
    """Expressions that are refused when the model runs; a text that Python cannot read is a text, and no expression."""
    load_kernels()
    functions = ((thing.id, thing.function) for thing in (*node.parameters, *node.functions))
    for name, source in (*texts(node), *functions):
        if not isinstance(source, str) or not is_python(source) or standard_expression(source) is not None:
            continue
        place = (str(graph.id), node.id, name)
        try:
            refuse_text(source, place)
        except LoopError as error:
            yield Finding(ERROR, str(error), place)


def wrong_with_conditions(graph: Any) -> Iterator[Finding]:
    """Conditions that graph-scheduler does not have, or that are given what they do not take."""
    for place, condition in conditions_of(graph):
        try:
            refuse_condition(condition, place)
            refuse_keywords(condition, place)
        except LoopError as error:
            yield Finding(ERROR, str(error), place)
