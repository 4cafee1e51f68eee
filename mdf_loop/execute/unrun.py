"""The types of what an untyped body would have given, for loops that never ran: ONNX's inference does not know its operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mdf_loop.errors import let_through
from mdf_loop.ir import Body, Loop, ValueType
from mdf_loop.plan.empty import infer_types
from mdf_loop.step.build import type_of_value
from mdf_loop.step.lower import lower_graph
from mdf_loop.step.records import UNKNOWN, Size, Type


class Types:
    """Infers the types of the values of a loop's body when its inputs have the types given."""

    def __init__(self, loop: Loop) -> None:
        self._body = loop.with_state_carried.body
        self._hidden = {state.input: type_of_value(state.initial) for state in loop.body.state}

    def __call__(self, body: Body, given: Mapping[str, ValueType]) -> dict[str, ValueType]:
        """What ONNX's inference finds, and of an untyped body what the rules of a Step find."""
        found = infer_types(body, given)
        return found if body.typed else found | self._by_rules({name: _as_type(kind) for name, kind in given.items()})

    def _by_rules(self, given: Mapping[str, Type]) -> dict[str, ValueType]:
        known = {**self._hidden, **given}
        names = (*self._body.inputs, *self._body.captures)
        try:
            region = lower_graph(self._body, [known.get(name, UNKNOWN) for name in names], opens=False)
        except Exception as error:  # inference is a help: what it cannot do stays open
            let_through(error)
            return {}
        results: list[tuple[str, Any]] = [*zip(self._body.outputs, region.results, strict=True)]
        return {name: _as_declared(value.type) for name, value in results if value.type.dtype is not None}


def _as_type(kind: ValueType) -> Type:
    shape = kind.shape
    return Type(kind.dtype, None if shape is None else tuple(n if isinstance(n, int) else Size() for n in shape))


def _as_declared(type: Type) -> ValueType:
    return ValueType(type.dtype, None if type.shape is None else tuple(n if isinstance(n, int) else None for n in type.shape))
