"""The texts of a node made into functions: what MDF's engine evaluates, looked at once.

Each function takes the values of a node by name and gives what :func:`mdf_loop.integrations.patches.no_eval.evaluated` gives;
texts that are numbers, names or elements of tuples need no evaluation at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from typing import Any

import numpy as np

from mdf_loop.errors import MalformedBody
from mdf_loop.integrations.evaluator import _parsed
from mdf_loop.integrations.patches.no_eval import evaluated
from mdf_loop.readers.expressions.expression_text import number_in

Scope = dict[str, Any]
Text = Callable[[Scope], Any]

_ELEMENT = re.compile(r"\s*([A-Za-z_]\w*)\[(\d{1,6})\]\s*")


class NotDirect(Exception):
    """Something that is left to MDF's own engine; says what."""


def value_of(source: Any, names: Container[str]) -> Text:
    """What a value or the text of one evaluates to.

    Parameters
    ----------
    source : object
        A number, array, list or dict, or a text.
    names : container of str
        The names that have a value by then.

    Raises
    ------
    NotDirect
        MDF's engine would make a text of it, or refuse it.
    """
    if not isinstance(source, str):
        value = np.array(source) if isinstance(source, list | np.ndarray) else source
        return lambda scope: value
    if source in names:
        return lambda scope: _settled(scope[source], source, scope)
    number = number_in(source)
    if number is not None:
        return lambda scope: number
    if _parsed(source) is None:
        raise NotDirect(f"the text {source[:60]!r} is no expression")
    element = _ELEMENT.fullmatch(source)
    if element is not None and element[1] in names:
        return _element(element[1], int(element[2]), source)
    return lambda scope: _told(evaluated(source, scope), source)


def argument_of(source: Any, names: Container[str]) -> Text:
    """What an argument of a Loop, Scan or If is: a name gives its value as it is, and an empty text nothing."""
    if not isinstance(source, str):
        return lambda scope: source
    if source == "":
        return lambda scope: None
    if source in names:
        return lambda scope: scope[source]
    return value_of(source, names)


def element_in(source: Any) -> tuple[str, int] | None:
    """The name and the place where a text is an element of a tuple, such as ``trial[0]``."""
    found = _ELEMENT.fullmatch(source) if isinstance(source, str) else None
    return (found[1], int(found[2])) if found is not None else None


def _settled(value: Any, source: str, scope: Scope) -> Any:
    return value if type(value) in _PLAIN else _told(evaluated(source, scope), source)


def _element(name: str, place: int, source: str) -> Text:
    def element(scope: Scope) -> Any:
        value = scope[name]
        if type(value) is tuple:
            found = value[place]
            if type(found) is np.ndarray:
                return found
        return _told(evaluated(source, scope), source)

    return element


def _told(value: Any, source: str) -> Any:
    """A value that is no text: MDF's engine takes one for an expression that it could not evaluate."""
    if type(value) is str:
        raise MalformedBody(f"the text {source[:60]!r} has no value")
    return value


_PLAIN = {float, int, bool, np.ndarray, np.float64, np.float32, np.int64, np.bool_, dict}
"""Values that stay what they are when MDF evaluates their names."""
