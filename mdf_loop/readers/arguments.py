"""What a body comes as: which of the things that can be called are read, as graphs are, rather than called."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from mdf_loop.errors import ArgumentError


def is_read(source: Any) -> bool:
    """Whether a source that can be called is read all the same: a function of onnxscript, or one that is traced."""
    return hasattr(source, "to_function_proto") or hasattr(source, "to_body")


def arranged(
    names: Sequence[str], given: Sequence[Any], named: Mapping[str, Any], captures: Container[str], where: str
) -> tuple[list[Any], dict[str, Any]]:
    """The values of a body in its order, where some are given by name, and what else is given by name.

    Raises
    ------
    ArgumentError
        Together they are not what the body takes.
    """
    by_name = set() if named.keys().isdisjoint(names) else {name for name in names if name in named and name not in captures}
    if not by_name:
        return [*given], {**named}
    rest = [name for name in names if name not in by_name]
    if len(given) != len(rest):
        places = f"{', '.join(rest)} by place" if rest else "nothing more"
        raise ArgumentError(
            f"{where}: the body takes {', '.join(names)}; with {', '.join(sorted(by_name))} by name it takes {places}, and "
            f"{len(given) or 'nothing'} {'are' if len(given) > 1 else 'is'} given by place"
        )
    by_place = iter(given)
    values = [named[name] if name in by_name else next(by_place) for name in names]
    return values, {name: value for name, value in named.items() if name not in by_name}
