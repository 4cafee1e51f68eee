"""Which updates of one part of an array are written over it: those after which nobody reads what it was."""

from __future__ import annotations

from collections.abc import Collection

from mdf_loop.backends.llvm.fusion import ELEMENTWISE, Fusion, is_lazy
from mdf_loop.ops.registry import facts
from mdf_loop.step.liveness import read_by
from mdf_loop.step.records import Apply, Region, Value

END = 1 << 60
"""The place of what is read when an iteration is over."""


def overwriting(region: Region, owned: Collection[Value], fusion: Fusion) -> set[Value]:
    """The updates of a region that may be written over their first argument.

    Parameters
    ----------
    region : Region
    owned : collection of Value
        Parameters whose memory is this region's own.
    fusion : Fusion
        What is written where it is made; all else is computed where it is read, which may be later.
    """
    place = {value: k for k, value in enumerate(region.values)}
    readers: dict[Value, list[Value | None]] = {}
    known: dict[tuple[Value, Value], int] = {}
    for value in region.values:
        for x in dict.fromkeys(read_by(value)):
            readers.setdefault(x, []).append(value)
    for x in region.results:
        readers.setdefault(x, []).append(None)

    def last_read(value: Value, but: Value) -> int:
        """The last place at which a value is read, by what is computed later on as well."""
        if (value, but) not in known:
            known[value, but] = look_for_last_read(value, but)
        return known[value, but]

    def look_for_last_read(value: Value, but: Value) -> int:
        found = -1
        for reader in readers.get(value, ()):
            if reader is None:
                found = END
            elif reader is not but:
                found = max(found, place[reader], last_read(reader, but) if _may_look_at(reader, fusion) else -1)
        return found

    own = {*owned, *(v for v in region.values if _is_fresh(v, fusion))}
    found = set()
    for value in region.values:
        if replaces_parts(value) and value.args[0] in own and last_read(value.args[0], value) <= place[value]:
            found.add(value)
    return found


def replaces_parts(value: Value) -> bool:
    """Whether a value is its first argument with parts replaced."""
    return value.op == "put" or is_longer(value) or (isinstance(value.attr, Apply) and facts(value.attr.node).replaces_parts)


def is_longer(value: Value) -> bool:
    """Whether a value is its first argument with more behind it."""
    shape = value.type.shape
    return value.op == "concat" and shape is not None and all(n == 1 for n in shape[: value.attr])


def _may_look_at(value: Value, fusion: Fusion) -> bool:
    """Whether the memory of an argument may be read when a value is, later than where it stands."""
    if value.op in ELEMENTWISE:
        return is_lazy(value) and value not in fusion.written
    return not (value.op in ("reduce", "dot", "concat", "pack", "length", "place_in") or replaces_parts(value))


def _is_fresh(value: Value, fusion: Fusion) -> bool:
    """Whether a value has memory of its own."""
    return value.op in ("concat", "dot", "reduce") or replaces_parts(value) or value in fusion.written
