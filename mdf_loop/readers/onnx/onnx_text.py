"""ONNX text: the syntax of ``onnx.parser``, looked at before onnx's parser does."""

from __future__ import annotations

import re
from typing import Any

from mdf_loop.errors import KindError, MalformedBody, in_words, let_through
from mdf_loop.ir import Body
from mdf_loop.readers.onnx.text_hints import further_errors, hint, message_of
from mdf_loop.types.schemas import LARGEST_VERSION

DEEPEST = 200
"""Brackets of ONNX text may be nested so deep: protobuf reads half of it, and onnx's parser ends the process at some 4,000."""

_TOKEN = re.compile(r'#[^\n]*+|"(?:\\.|[^"\\])*+"?|[(\[{]|[)\]}]', re.DOTALL)
"""Comments, texts (an open one up to the end, so that no place is looked at twice) and brackets."""

_STEPS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


def refuse_opset(opset: Any, what: str) -> None:
    """See that no opset is given for ``what``, which says its own.

    Raises
    ------
    MalformedBody
    """
    if opset is not None:
        raise MalformedBody(f'{what} states its own opset; leave out "opset": {opset!r}')


def read_text(text: Any, opset: int | None = None) -> Body:
    """ONNX text as a body: a graph, or a model that states its own opset.

    Raises
    ------
    MalformedBody
        The text does not parse; the message has onnx's line and column.
    KindError
        The text is no string, or the opset no whole number from 1 on.
    """
    from onnx import parser

    from mdf_loop.readers.onnx.graph import read_graph, read_model

    if not isinstance(text, str):
        raise KindError(f"the text of an ONNX body must be a string; got {type(text).__name__}")
    if opset is not None and (not isinstance(opset, int) or isinstance(opset, bool) or not 1 <= opset <= LARGEST_VERSION):
        raise KindError(f"the opset of a body must be a whole number from 1 on; got {in_words(opset)}")
    refuse_deep(text)
    is_model = text.lstrip().startswith("<")
    if is_model:
        refuse_opset(opset, "the text of a whole ONNX model")
    try:
        proto = parser.parse_model(text) if is_model else parser.parse_graph(text)
    except Exception as error:  # ParseError, or protobuf's own for what is nested too deep
        let_through(error)
        raise _with_others(MalformedBody(f"ONNX text does not parse: {message_of(error)}{hint(text)}"), text) from error
    return read_model(proto) if is_model else read_graph(proto, {"": opset} if opset else None)


def _with_others(first: MalformedBody, text: str) -> MalformedBody:
    first.others = tuple(map(MalformedBody, further_errors(text, str(first))))
    return first


def refuse_deep(text: str) -> None:
    """See that brackets are not nested deeper than onnx's parser can bear.

    Raises
    ------
    MalformedBody
    """
    depth = 0
    for found in _TOKEN.finditer(text):
        depth += _STEPS.get(found.group(), 0)
        if depth > DEEPEST:
            raise MalformedBody(f"ONNX text does not parse: its brackets are nested more than {DEEPEST} deep")
