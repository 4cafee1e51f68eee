"""What the keywords of graph-scheduler's conditions take: of another kind they end in errors of Python, or are not looked at."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mdf_loop.convert.scheduled.conditions import SYMBOLS
from mdf_loop.errors import MalformedBody, in_words
from mdf_loop.readers.expressions.expression_text import number_in

_TIME = re.compile(r"\s*[-+]?[\d.]+([eE][-+]?\d{1,3})?\s*\w*\s*")


def is_count(value: Any, least: int = 0) -> bool:
    """Whether a value is a whole number from ``least`` on, as int or as float."""
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return is_number and bool(value >= least and value % 1 == 0)


def _is_number(value: Any) -> bool:
    return not isinstance(value, list | tuple) and np.asarray(value).dtype.kind in "biuf"


def _is_time(value: Any) -> bool:
    """Whether a value may be a time; graph-scheduler also takes quantities, which are objects of Python."""
    return bool(_TIME.fullmatch(value)) if isinstance(value, str) else not isinstance(value, bool | list | type(None))


def _is_unit(value: Any) -> bool:
    return value.isidentifier() if isinstance(value, str) else not isinstance(value, _PLAIN)


def _is_scale(value: Any) -> bool:
    from graph_scheduler.time import TimeScale

    return isinstance(value, TimeScale) or (isinstance(value, str) and _scale_in(value) in TimeScale.__members__)


def _scale_in(text: str) -> str:
    """The attribute of TimeScale that MDF takes a text for, under any keyword; empty for other texts."""
    from graph_scheduler.time import TimeScale
    from modeci_mdf.execution_engine import time_scale_str_regex

    scale = re.match(time_scale_str_regex, text)
    return scale[2] if scale is not None and hasattr(TimeScale, scale[2]) else ""


def _has_no(*kinds: type) -> Callable[[Any], bool]:
    """Whether a value is none of these, or a list of which no element is."""
    return lambda value: not any(isinstance(each, kinds) for each in (value, *(value if isinstance(value, list | tuple) else ())))


_PLAIN = (bool, int, float, str, list, type(None))
"""What a file may say in the place of a condition or a unit; in Python they are objects."""

_CONDITION = "a condition such as {type: AfterPass, kwargs: {n: 3}}", lambda value: not isinstance(value, _PLAIN)
_CONDITIONS = "a list of conditions such as [{type: AfterPass, kwargs: {n: 3}}]", lambda value: isinstance(value, list | tuple)
_COUNTS = tuple((f"a whole number from {least} on", lambda value, least=least: is_count(value, least)) for least in (0, 1))
_TAKEN: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "condition": _CONDITION,
    "n": _COUNTS[0],
    **dict.fromkeys(("threshold", "atol", "rtol"), ("a number", _is_number)),
    **dict.fromkeys(("t", "repeat", "start", "end"), ("a time such as '10 ms'", _is_time)),
    **dict.fromkeys(("inclusive", "start_inclusive", "end_inclusive"), ("true or false", lambda value: isinstance(value, bool))),
    "dependency": ("the id of a node", _has_no(bool, int, float, type(None), list, tuple)),
    "dependencies": ("ids of nodes", _has_no(bool, int, float, type(None))),
    "indices": ("a whole number or a list of them", _has_no(bool, float, str)),
    "comparator": (f"one of {', '.join(SYMBOLS)}", lambda value: isinstance(value, str)),
    "parameter": ("the id of a parameter or port", lambda value: isinstance(value, str)),
    "unit": ("a unit such as ms", _is_unit),
    "time_scale": ("a time scale such as TimeScale.PASS", _is_scale),
}
EXAMPLES = {"n": 3, "threshold": 1.0, "comparator": "'>='", "t": "10 ms", "condition": "{type: AfterPass, kwargs: {n: 3}}"}
"""What conditions are given in messages; of keywords that are not here the id of a node."""

_MAY_BE_NONE = ("repeat", "start", "end", "indices")


def refuse_argument(value: Any, kind: str, key: str, path: tuple[str, ...], of_conditions: bool = False) -> None:
    """See that a keyword of a condition, or of one ``of_conditions``, is given what it takes.

    Raises
    ------
    MalformedBody
    """
    said, is_right = _TAKEN.get(key, ("", bool))
    if of_conditions:
        said, is_right = _CONDITIONS
    elif kind == "EveryNPasses" and key == "n":  # it divides by it
        said, is_right = _COUNTS[1]
    if isinstance(value, str) and _scale_in(value) and not _is_scale(value):
        said, is_right = _TAKEN["time_scale"]
    if not said or is_right(value) or (value is None and key in _MAY_BE_NONE):
        return
    number = number_in(value) if isinstance(value, str) else None
    meant = f"; write {number}, without quotes" if number is not None and is_right(number) else ""
    raise MalformedBody(f"{key} of {kind} must be {said}; got {in_words(value)}{meant}", path)
