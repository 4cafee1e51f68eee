"""Element types that a typed body declares are those that it computes: where they are not, it is refused before it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from mdf_loop.errors import MalformedBody
from mdf_loop.ir import Body, Node
from mdf_loop.ir.well_formed import title
from mdf_loop.types.elements import NAMES
from mdf_loop.types.required import Groups, Key, element_dtype, visit_body

_WORDS = {dtype: name for name, dtype in reversed(NAMES.items())}
"""What ONNX calls element types: of two names the one that stands first."""


def check_declared_types(body: Body, carried: Iterable[tuple[str, str]] = ()) -> None:
    """See that what a body declares of its values is what its operators give.

    Where the operators leave a type open - an operator of the user's own, an input of which nothing is declared - any
    declaration is right.  Shapes are not looked at: those that are declared are often one of many.

    Parameters
    ----------
    body : Body
        Untyped ones have nothing to check.
    carried : iterable of (input, output)
        Pairs of carried body values, which have one type.

    Raises
    ------
    MalformedBody
        Names the body, the value, both types and the node.
    """
    if body.typed:
        computed = _Computed()
        computed.go_round(body, visit_body(computed, body, {}), carried)


class _Computed(Groups):
    """What operators give, from the declared types of inputs on; the declarations of other values are held against it."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[str] = []

    def declare(self, body: Body, scope: Mapping[str, Key]) -> None:
        """Add what is declared of the inputs."""
        self.inside.append(body.name)
        for name in body.inputs:
            self.know(scope[name], element_dtype(body.type_of(name)))

    def allow(self, key: Key, dtypes: frozenset[np.dtype]) -> None:
        """What a value might be says nothing of what it is computed as."""

    def operate(self, node: Node, keys: list[Key]) -> None:
        """See that operands that have one type by the operator's schema have one type as they are computed."""
        known, expected, first = self.dtype, None, keys[0]
        unknown = list[Key]()
        for key in keys:
            dtype = known.get(key)
            if dtype is None:
                dtype = known.get(root := self.find(key))
            if dtype is None:
                unknown.append(root)
            elif expected is None:
                expected, first = dtype, key
            elif dtype is not expected and dtype != expected:
                raise MalformedBody(
                    f"node {title(node)}: {first[1]!r} is {_word(expected)} and {key[1]!r} is {_word(dtype)}, but "
                    f"{node.op} takes operands of one type; put a Cast before it",
                    (self.inside[-1],),
                )
        if expected is None:
            self.unite(unknown)
        else:
            known.update(dict.fromkeys(unknown, expected))  # which says as much as joining their groups

    def leave(self, body: Body, scope: Mapping[str, Key]) -> None:
        """Compare what is declared with what is computed."""
        self.inside.pop()
        given = {*body.inputs, *body.captures}
        for name, kind in body.types.items():
            declared = kind.dtype if kind.element is None else element_dtype(kind)
            if declared is None or name not in scope or name in given:
                continue
            if self.dtype.get(scope[name]) is not declared:
                self._compare(body, scope[name], declared)

    def go_round(self, body: Body, scope: Mapping[str, Key], pairs: Iterable[tuple[str, str]]) -> None:
        """Compare what is declared of the inputs of the next iteration with what is computed for it."""
        pairs = list(pairs)
        for name, output in pairs:
            declared = element_dtype(body.type_of(name))
            if declared is not None:
                self._compare(body, scope[output], declared, name)
        super().go_round(body, scope, pairs)

    def _compare(self, body: Body, key: Key, declared: np.dtype, fed: str = "") -> None:
        """What is declared of a value, or of the input that it is ``fed`` to in the next iteration."""
        found = self.dtype.get(self.find(key))
        if found is None or found == declared:
            return
        name = key[1]
        what = f"input {fed!r}, which output {name!r} feeds in the next iteration," if fed else _what(body, name)
        writer = next((f" (node {title(node)})" for node in body.nodes if name in node.outputs), "")
        raise MalformedBody(
            f"{what} is declared {_word(declared)}, but {name!r} is computed as {_word(found)}{writer}; "
            f"declare it {_word(found)}, or put a Cast to {_word(declared)} after the node",
            (body.name,),
        )


def _what(body: Body, name: str) -> str:
    return f"output {name!r}" if name in body.outputs else f"value {name!r}"


def _word(dtype: np.dtype) -> str:
    return _WORDS.get(dtype) or dtype.name
