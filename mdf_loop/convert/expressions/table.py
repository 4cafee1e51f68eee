"""The table of what writes an operator of an expression in operators of ONNX."""

from __future__ import annotations

from collections.abc import Callable

from mdf_loop.convert.expressions.tracing import Emitter, Traced

Lowering = Callable[..., "str | Traced"]

LOWERED: dict[str, Lowering] = {}
"""For each operator of domain ``mdf`` the function that writes it: ``(emitter, inputs, sample, **attributes)`` gives the
name of the output, which has the element type of the sample, or the value itself."""


def lowered(*ops: str) -> Callable[[Lowering], Lowering]:
    """Register the function that writes some operators."""

    def register(function: Lowering) -> Lowering:
        LOWERED.update(dict.fromkeys(ops, function))
        return function

    return register


__all__ = ["LOWERED", "Emitter", "Lowering", "Traced", "lowered"]
