"""Loops and Scans over typed bodies, drawn at random: every engine gives what the interpreter gives."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

import mdf_loop

from . import contents, ideas_nested, ideas_numbers, ideas_places, ideas_shapes
from .drawing import Drawing, Value, fresh
from .loops import Call, LoopCase, model_of, run, script, smaller
from .outcome import Outcome, Same, arrays_in, compare, outcome, require_own_memory, to_the_bit, within
from .target import Failure, Settings, Target

Steps = Callable[[Drawing, int], None]
Feed = Callable[[Drawing, Value], Value]
COUNTS = (0, 1, 2, 3, 4, 5, 5, 7, 12, 20, 40, 130)
FEW = 5
"""Iterations of a loop that is not exact: small differences must not grow."""
LARGEST = 30_000
"""Bytes of results from which on no more iterations are run."""
EXACT_ELEMENTS = 16
"""Wider rows of fractions may be filtered by products of matrices, in another order."""


# Making


def make(choose: random.Random) -> LoopCase:
    """A loop over anything."""
    return getting_through(choose, _attempt)


def getting_through(choose: random.Random, attempt: Callable[[random.Random], LoopCase]) -> LoopCase:
    """A loop that gets through its first iterations, most of the time."""
    case = bounded(attempt(choose))
    for _ in range(4):
        if choose.random() < 0.15 or not _fails_early(case):
            break
        case = bounded(attempt(choose))
    return case


def bounded(case: LoopCase) -> LoopCase:
    """The same with fewer iterations, if what is carried grows fast."""
    if case.attrs is not None:
        return case  # as many as there are rows
    model = model_of(case)
    for stop in (3, 6, 12, 40):
        for call in case.calls:
            found = outcome(
                lambda call=call: run(case, call, model), **{**case.chosen, "engine": "interpret", "max_iterations": stop}
            )
            if sum(array.nbytes for array in arrays_in(list(found.results))) > LARGEST:
                calls = [replace(c, count=min(stop, stop if c.count is None else c.count)) for c in case.calls]
                return replace(case, calls=calls)
    return case


def _fails_early(case: LoopCase) -> bool:
    model = model_of(case)
    found = outcome(lambda: run(case, case.calls[0], model), engine="interpret", **case.chosen)
    return found.error is not None and (getattr(found.error, "iteration", None) or 0) < 3


def _attempt(choose: random.Random) -> LoopCase:
    exact = choose.random() < 0.7
    count = choose.choice([c for c in COUNTS if exact or c <= FEW])
    d = Drawing(choose, exact, count, choose.choice([0.0, 0.0, 0.1, 0.4]))
    is_scan = choose.random() < 0.15
    carried = [carried_value(d) for _ in range(choose.choice([1, 1, 2, 2, 3, 4] if not is_scan else [0, 1, 2]))]
    return _scan(d, carried) if is_scan else loop_over(d, carried, steps)


def carried_value(d: Drawing) -> Value:
    sample: Any = fresh(d)
    if d.choose.random() < 0.06:
        kind = contents.element_type(d.choose)
        sample = [fresh(d, None, kind) for _ in range(d.choose.randint(1, 2))]
    rounds = isinstance(sample, list) or sample.dtype.kind in "fcV"
    name = next(d.names)
    return Value(name, sample, d.exact or not rounds, frozenset({name}))


def loop_over(d: Drawing, carried: list[Value], add: Steps, feed: Feed | None = None) -> LoopCase:
    choose = d.choose
    go = Value(next(d.names), np.array(True))
    d.index = Value(next(d.names), np.array(0))
    d.scope += [d.index, go, *carried]
    add(d, choose.choice([3, 6, 10, 16]))
    outs = [(feed or fed)(d, value) for value in carried]
    ends = _condition(d, go)
    rows = [v for v in (d.any(lambda v: v is not go) for _ in range(choose.randint(0, 3))) if v and v.dtype is not None]
    typed = choose.random() < 0.85
    graph = d.finished("body", [d.index, go, *carried], [ends, *outs, *rows], typed)
    cond = choose.choice([True] * 6 + [None] * 2 + [False])
    first = Call(d.count, cond, [v.sample for v in carried], dict(d.captured))
    if choose.random() < 0.03:
        first.count = None
    return LoopCase(graph, _calls(d, first), d.exact, None, _chosen(choose, first))


def _scan(d: Drawing, carried: list[Value]) -> LoopCase:
    choose = d.choose
    scanned, rows = [], []
    for _ in range(choose.choice([1, 1, 2])):
        row = fresh(d, None, contents.element_type(choose))
        axis = choose.randint(0, row.ndim)
        whole = np.stack([row, *(contents.array(choose, row.dtype, row.shape, d.special) for _ in range(max(d.count, 1) - 1))])
        scanned.append((np.moveaxis(whole[: d.count], 0, axis), axis))
        rows.append(Value(next(d.names), row))
    d.scope += [*carried, *rows]
    d.index = Value("", np.array(0))  # a Scan has none
    steps(d, choose.choice([2, 5, 9]), scan=True)
    outs = [fed(d, value) for value in carried]
    seen = [v for v in (d.any() for _ in range(choose.randint(0 if carried else 1, 2))) if v and v.dtype is not None]
    graph = d.finished("body", [*carried, *rows], [*outs, *seen])
    attrs = {"num_scan_inputs": len(rows), "scan_input_axes": [axis for _, axis in scanned]}
    attrs["scan_input_directions"] = [choose.randint(0, 1) for _ in rows]
    if seen and choose.random() < 0.5:
        attrs["scan_output_axes"] = [choose.randint(0, len(v.shape)) for v in seen]
        attrs["scan_output_directions"] = [choose.randint(0, 1) for _ in seen]
    first = Call(None, None, [*(v.sample for v in carried), *(array for array, _ in scanned)], dict(d.captured))
    return LoopCase(graph, _calls(d, first), d.exact, attrs, _chosen(choose, first))


def steps(d: Drawing, most: int, scan: bool = False) -> None:
    """So many nodes at most, about; an idea that nothing fits adds none."""
    numbers = ideas_numbers.EXACT if d.exact else ideas_numbers.SMOOTH
    plain = [*numbers, *numbers, *ideas_places.IDEAS, *ideas_shapes.IDEAS]
    wanted = d.choose.randint(most // 2, most)
    for _ in range(3 * most):
        if sum(node.op_type != "Constant" for node in d.nodes) >= wanted:
            break
        if d.choose.random() < 0.1:
            d.choose.choice(ideas_nested.IDEAS)(d, steps)
            continue
        idea = d.choose.choice(plain)
        if not scan or idea not in NUMBERED:
            idea(d)


NUMBERED = {
    *(ideas_places.gathered, ideas_places.written, ideas_places.sliced, ideas_places.window),
    *(ideas_shapes.cut, ideas_shapes.expanded, ideas_shapes.of_a_list, ideas_shapes.branched_shape, ideas_shapes.sized),
}
"""Ideas that read the iteration number, which a Scan does not have."""


def fed(d: Drawing, value: Value) -> Value:
    """What feeds a carried value: mostly what was made of it, or any of its type, of its shape or of another; or itself."""

    def fits(v: Value) -> bool:
        if value.dtype is None or v.dtype is None:
            return v.dtype is value.dtype and v.sample[:1] and v.sample[0].dtype == value.sample[0].dtype
        return v.dtype == value.dtype and (v.exact or not value.exact)

    way = d.choose.choice(["made", "made", "made", "same shape", "changed", "changed", "any"])
    if way == "changed" and value.dtype is not None:
        return d.capture(fresh(d, None, value.dtype)) if d.choose.random() < 0.4 else ideas_shapes.changing(d, value) or value
    same = way in ("made", "same shape")
    new = way == "made"
    found = d.any(
        lambda v: fits(v) and (not same or v.shape == value.shape) and not (new and (v is value or value.name not in v.roots))
    )
    return found or value


def _condition(d: Drawing, go: Value) -> Value:
    """The one that came in, one of the iteration number or of a table, or anything boolean."""
    way = d.choose.choice(["same", "same", "number", "table", "any"])
    found = None
    if way == "number":
        found = d.add("Less", [d.index, d.constant(d.choose.choice([0, 1, 3, 10, 100]))])
    elif way == "table":
        rows = [d.choose.random() < 0.9 for _ in range(max(d.count, 1))]
        found = d.by_table(rows, bool)
    elif way == "any":
        found = d.any(lambda v: v.dtype == np.bool_ and v.shape in ((), (1,)) and v.exact)
    return found or go


def _calls(d: Drawing, first: Call) -> list[Call]:
    """The first call, and perhaps others with other counts, shapes and contents; then the first again."""
    calls = [first]
    for _ in range(d.choose.choice([0, 0, 1, 2])):
        call = copy.deepcopy(first)
        if call.count is not None and d.choose.random() < 0.5:
            call.count = d.choose.choice([c for c in COUNTS if c <= max(d.count, 2)])
        for where in (call.carried, call.captured):
            for key in list(where) if isinstance(where, dict) else range(len(where)):
                if isinstance(where[key], np.ndarray) and d.choose.random() < 0.3:
                    where[key] = _other_contents(d, where[key])
        calls.append(call)
    return calls if len(calls) == 1 else [*calls, first]


def _other_contents(d: Drawing, value: np.ndarray) -> np.ndarray:
    if value.dtype == object or d.choose.random() < 0.5:
        return contents.reshaped(d.choose, value)
    if d.choose.random() < 0.2 and value.dtype.kind in "fiu":
        with np.errstate(all="ignore"):
            return value.astype(d.choose.choice([np.float64, np.float32, np.int64]))
    return np.asarray(contents.array(d.choose, value.dtype, value.shape, 0.3))


def _chosen(choose: random.Random, call: Call) -> dict[str, Any]:
    chosen: dict[str, Any] = {"block_bytes": choose.choice([1, 200, 1000, 1 << 22, 1 << 22])}
    if choose.random() < 0.2 or call.count is None:
        chosen["max_iterations"] = choose.randint(0, 12)
    if choose.random() < 0.3:
        chosen["obey_body_condition"] = True
    return chosen


# Checking


def check(case: LoopCase, settings: Settings) -> None:
    """Every engine against the interpreter, call after call; no memory is shared or changed."""
    model = model_of(case)
    expected = [_interpreted(case, call, model) for call in case.calls]
    for engine in settings.engines:
        _forget()
        _check_engine(case, model, engine, expected)
    if settings.witness:
        from .witness import check_witness

        check_witness(case, expected)


def _interpreted(case: LoopCase, call: Call, model: Any) -> Outcome:
    given = copy.deepcopy(call)
    found = outcome(lambda: run(case, given, model), engine="interpret", **case.chosen)
    require_own_memory(found.results, [given.carried, given.captured], "interpret")
    _require_unchanged(given, call, "interpret")
    return found.copied()


def _check_engine(case: LoopCase, model: Any, engine: str, expected: list[Outcome]) -> None:
    kept: list[tuple[Outcome, Outcome]] = []
    for call, wanted in zip(case.calls, expected, strict=True):
        given = copy.deepcopy(call)
        found = outcome(lambda given=given: run(case, given, model), engine=engine, **case.chosen)
        compare(found, wanted, engine, _same(case, call, model, wanted))
        require_own_memory(found.results, [given.carried, given.captured], engine)
        _require_unchanged(given, call, engine)
        kept.append((found, found.copied()))
    for found, copied in kept:
        compare(found, copied, f"{engine} after later calls", to_the_bit)


def _require_unchanged(given: Call, call: Call, engine: str) -> None:
    for a, e in zip(arrays_in([given.carried, given.captured]), arrays_in([call.carried, call.captured]), strict=True):
        if a.tobytes() != e.tobytes() and a.dtype != object:
            raise Failure(f"{engine}: an input was changed", f"{e} became {a}")


def _forget() -> None:
    """Every engine starts without what another has learned."""
    from mdf_loop.calls import prepared

    for thing in vars(prepared).values():
        if isinstance(thing, mdf_loop.calls.content_cache.Cache):
            thing.clear()


def _same(case: LoopCase, call: Call, model: Any, expected: Outcome) -> Same:
    widest = max((a.size for a in arrays_in(list(expected.results)) if a.dtype.kind in "fV"), default=0)
    if case.exact and widest <= EXACT_ELEMENTS * max(call.count or 1, 1):
        return to_the_bit
    spreads: list[list[Any]] = []

    def spread(where: str, value: Any) -> Any:
        """How far the interpreter's own result moves if its inputs do by a few units in the last place."""
        if not spreads:
            spreads.extend(_disturbed(case, call, model, expected, k) for k in range(3))
        found = np.zeros(value.shape)
        for other in spreads:
            found = np.maximum(found, _distance(_at(other, where), value))
        return 100 * found

    return within(spread, 200)


def _at(results: Any, where: str) -> Any:
    """The value that ``number 1[2]`` means."""
    for place in re.findall(r"\d+", where):
        results = results[int(place)] if int(place) < len(results) else None
        if results is None:
            return None
    return results


def _distance(other: Any, value: np.ndarray) -> Any:
    if not isinstance(other, np.ndarray) or other.shape != value.shape:
        return np.full(value.shape, np.inf)
    with np.errstate(all="ignore"):
        far = np.abs(np.asarray(other, np.complex128) - value)
    return np.where(np.isnan(far), np.where(np.isnan(value), 0.0, np.inf), far)


def _disturbed(case: LoopCase, call: Call, model: Any, expected: Outcome, seed: int) -> Any:
    rng = np.random.default_rng(seed)

    def moved(value: Any) -> Any:
        if isinstance(value, list):
            return [moved(item) for item in value]
        if "float" not in value.dtype.name:
            return value
        unit = 4 * float(ml_dtypes.finfo(value.dtype).eps)
        with np.errstate(all="ignore"):
            return np.asarray(value.astype(float) * (1 + unit * rng.uniform(-1, 1, value.shape)) + unit * 0.01, value.dtype)

    other = Call(call.count, call.cond, moved(call.carried), {name: moved(v) for name, v in call.captured.items()})
    return outcome(lambda: run(case, other, model), engine="interpret", **case.chosen).results


TARGET = Target(
    "bodies",
    "loops over random bodies: changing shapes, places that move, nested control flow, all element types",
    make,
    check,
    script,
    smaller,
    in_tests=80,
)
