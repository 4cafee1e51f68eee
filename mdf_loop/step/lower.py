"""From a graph and the types of what it is given to a Step.

Nodes become what their operators are defined as; an operator without a definition, or one whose definition does not fit,
becomes ``apply``: its kernel, called as a whole.  Types follow from rules alone, nothing is tried out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from mdf_loop.ir import Body, Loop, Node
from mdf_loop.kernels import load_kernels
from mdf_loop.kernels.arrays.bounds import MOST_ELEMENTS
from mdf_loop.ops.registry import Kernel, bind, lookup
from mdf_loop.ops.rows import Bound, Call
from mdf_loop.plan.comparisons import MOST, compared, has_inf, part_computing, writes_nan
from mdf_loop.plan.invariants import is_pure, is_repeatable, lasting
from mdf_loop.plan.result_types import result_types
from mdf_loop.step.before_lowering import allows, of_constants
from mdf_loop.step.branches import OfBranches
from mdf_loop.step.build import MOST_FOLDED, Builder, CannotLower
from mdf_loop.step.check import checked
from mdf_loop.step.first_iteration import in_front
from mdf_loop.step.fixpoint import Fixpoint
from mdf_loop.step.loop_types import (
    as_declared,
    is_never_begun,
    is_no_limit,
    known_trip_count,
    known_value,
    stacked,
    types_of_results,
    with_parts_joined,
    with_rows_of,
)
from mdf_loop.step.memory import can_be_placed
from mdf_loop.step.obstacles import first_unknown
from mdf_loop.step.primitives import BOOL, INT64
from mdf_loop.step.records import UNKNOWN, Apply, LoopRegion, Region, Size, Type, Value
from mdf_loop.step.sequences import collecting, with_lists
from mdf_loop.step.trace import meaning_of
from mdf_loop.types.elements import read_only

Names = dict[str, Value]

Bind = Callable[[Node], Bound]


def lower_graph(
    body: Body,
    types: Sequence[Type],
    obey: bool = False,
    opens: bool = True,
    bound: Bind = bind,
    sees_nan: bool = False,
    is_long: bool = False,
) -> Region:
    """The Step of a graph that runs once.

    Parameters
    ----------
    body : Body
    types : sequence of Type
        Types of its inputs, then of its captures.
    obey : bool
        Whether the body of a loop whose condition was omitted may end it.
    opens : bool
        Whether loops become regions; if not, they stay operators.
    bound : callable
        Gives the kernel of a node, made ready: what is bound already need not be bound again.
    sees_nan : bool
        Whether the program ends where a loop ended because its condition compared nan: the ordinary way warns of that.
    is_long : bool
        As of :func:`lower_loop`.

    Raises
    ------
    CannotLower
        Running the graph does more than compute.
    """
    if not all(map(is_repeatable, body.nodes)):
        raise CannotLower("a node may do more than compute")
    lowering = Lowering(obey, opens, not body.typed, bound, is_long, sees_nan)
    names = (*body.inputs, *body.captures)
    scope = {name: lowering.b.param(type, k) for k, (name, type) in enumerate(zip(names, types, strict=True))}
    return lowering.whole(lowering.body(body, scope))


def lower_loop(
    record: Loop,
    types: Sequence[Type],
    has_count: bool,
    obeyed: bool,
    obey: bool = False,
    bound: Bind = bind,
    is_long: bool = False,
) -> Region:
    """The Step of one loop: its results, then the number of iterations.

    Parameters are the trip count (any number where there is none), then carried, scanned and captured values.  Where it
    ``is_long``, the types of carried values have to be known, if they can be known behind the first iteration.

    Raises
    ------
    CannotLower
        Running the loop does more than compute, or it is of a kind that has no form here.
    """
    if not all(map(is_repeatable, record.body.nodes)):
        raise CannotLower("a node may do more than compute")
    lowering = Lowering(obey, exact=not record.body.typed, bound=bound, is_long=is_long)
    params = [lowering.b.param(type, k) for k, type in enumerate(types)]
    n_carried, n_scanned = len(record.carried), len(record.scanned)
    carried, scanned = params[1 : 1 + n_carried], params[1 + n_carried : 1 + n_carried + n_scanned]
    scope = dict(zip(record.body.captures, params[1 + n_carried + n_scanned :], strict=True))
    results = lowering.loop(record, params[0] if has_count else None, None, obeyed, carried, scanned, scope)
    return lowering.whole(results[:-1])


def lower_block(
    record: Loop, carried: Sequence[Type], rows: Sequence[Type], captured: Sequence[Type], bound: Bind = bind
) -> Region:
    """The Step of a block of iterations of a loop.

    Parameters are the number of iterations, then carried values, rows (types are those of one row) and captured values.
    Results are those of the loop, then the number of iterations and the last condition; the types of what is collected say
    what its rows are.
    """
    lowering = Lowering(obey=False, exact=not record.body.typed, bound=bound)
    b, n = lowering.b, Size("n")
    count = b.param(Type(INT64, ()), 0)
    states = [b.param(type, 1 + k) for k, type in enumerate(carried)]
    stacked = [t if t.shape is None else replace(t, shape=(n, *t.shape)) for t in rows]
    scanned = [b.param(type, 1 + len(states) + k) for k, type in enumerate(stacked)]
    first = 1 + len(states) + len(scanned)
    outer = [b.param(type, first + k) for k, type in enumerate(captured)]
    scope = dict(zip(record.body.captures, outer, strict=True))
    return lowering.whole(lowering.loop(record, count, None, True, states, scanned, scope, in_block=True))


class Lowering(OfBranches):
    """One graph on its way into a Step; ``b`` is the builder, ``begun`` how many iterations stand before the next loop.

    ``exact`` says that an array without dimensions is something else than a number of numpy's: where a body has no types, either
    may reach code that sees the difference.  ``refused`` is why the definition of the node that is being lowered does not fit.
    """

    def __init__(
        self,
        obey: bool,
        opens: bool = True,
        exact: bool = False,
        bound: Bind = bind,
        is_long: bool = False,
        sees_nan: bool = False,
    ) -> None:
        load_kernels()
        self.b, self.obey, self.opens, self.exact, self.bound = Builder(), obey, opens, exact, bound
        self.depth, self.begun, self.is_long, self.sees_nan = 0, 0, is_long, sees_nan
        self.scopes, self.refused = {}, ""

    def whole(self, results: Sequence[Value]) -> Region:
        """The Step that gives these results."""
        return checked(replace(self.b.closed(results), scopes=tuple(self.scopes.values())))

    def body(self, body: Body, scope: Mapping[str, Value]) -> list[Value]:
        """The values of a body's outputs; ``scope`` has its inputs and captures."""
        if body.state:
            raise CannotLower("state that the body does not declare")
        names = {**scope, **{name: self.b.const(read_only(value), self.exact) for name, value in body.constants.items()}}
        results = self._computed(body.nodes, body.outputs, names)
        shapes = [names[name].type.shape if name in names else None for name in body.numbers]
        if any(shape != () if self.depth > 1 else shape for shape in shapes):  # a run looks at the outermost loop before
            raise CannotLower("what may be an array where the body must have a number, which is an error")
        return results

    def node(self, node: Node, names: Names) -> Sequence[Value]:
        """The values of a node's outputs."""
        bound, self.refused = self.bound(node), ""
        given = [names[name] if name else None for name in node.inputs]
        args = [None if x is None or (x.attr is None and x.op == "const") else x for x in given]
        if bound.loop is not None and self.opens:
            mark = self.b.mark()
            try:
                return self.node_of_loop(node, bound, bound.loop, args, names)
            except CannotLower:
                self.b.rewind(mark)  # it stays an operator, whose kernel says what is wrong if anything is
        if bound.branches is not None and args and args[0] is not None:
            return self._branch(bound.branches, args[0], names)
        entry = lookup(node.op, node.opset, node.domain)
        if entry.facts.draws is not None and (drawn := self._drawn(node, bound, entry.facts.draws, args)) is not None:
            return drawn
        make = meaning_of(node, entry, bound, self.exact)
        if make is not None and _are_known(args) and allows(node, [None if x is None else x.type for x in args]):
            mark = self.b.mark()
            try:
                results = self._defined(node, bound, entry, args, make, mark)
            except (CannotLower, ValueError, IndexError) as error:
                self.b.rewind(mark)  # what is wrong with it, if anything is, the kernel will say
                self.refused = str(error)
            else:
                if _KNOWN.issuperset([x.op for x in results]) or (found := self._folded(node, bound, entry, args)) is None:
                    return results
                self.b.rewind(mark)
                return found
        return self._folded(node, bound, entry, args) or self._applied(node, bound, entry, args, names)

    # Operators

    def _defined(
        self, node: Node, bound: Bound, entry: Kernel, args: Sequence[Value | None], make: Call, mark: Sequence[int]
    ) -> Sequence[Value]:
        """An operator by its definition: in the open where that is little or about numbers, else as a whole that keeps it."""
        found = make(self.b, *args)
        results = found if isinstance(found, tuple) else (found,)
        if len(results) < len(node.outputs):
            raise CannotLower("the definition says less than the node asks for")
        values = self.b.since(mark)
        if node.domain == "mdf" and any(x.type.size > MOST_ELEMENTS for x in values):
            raise CannotLower("its kernel refuses so many elements before there is memory for them")
        is_long = len(values) > 1 and not _is_little(values) and not any(x.op == "rows" for x in results)
        if (is_long or (self.exact and _adds_up(values))) and None not in args:
            self.b.rewind(mark)
            routine = _routine(node, entry, args, results[0].type)
            apply = Apply(node, bound.call, bound.needs_run, Region((), tuple(values), tuple(results)), len(results), routine)
            return self.b.apply(apply, args, [x.type for x in results])  # type: ignore[arg-type]
        return results

    def _folded(self, node: Node, bound: Bound, entry: Kernel, args: Sequence[Value | None]) -> Sequence[Value] | None:
        """An operator of constants, as constants."""
        for x in args:
            if x is not None and x.op != "const":
                return None
        found = of_constants(node, bound, entry, [None if x is None else x.attr for x in args], MOST_FOLDED)
        return None if found is None else [self.b.const(x, self.exact) for x in found]

    def _drawn(self, node: Node, bound: Bound, draws: Call, args: Sequence[Value | None]) -> Sequence[Value] | None:
        """Random numbers that one of ONNX's operators draws in the same way, if there is one; one number is Python's own."""
        try:
            values = [None if x is None else known_value(x) for x in args]
        except ValueError:
            return None
        if (same := draws(*values)) is None:
            return None
        op, attrs = same
        drawing = Node(op, (), node.outputs, attrs, node.name, opset=1)
        drawn = None if bound.drawn is None else functools.partial(bound.drawn, *values)
        operator = Apply(drawing, lambda run: bound.call(run, *values), needs_run=True, drawn=drawn)
        return self.b.apply(operator, (), [Type(np.dtype(np.float64), attrs["shape"], weak=not attrs["shape"])])

    def _applied(self, node: Node, bound: Bound, entry: Kernel, args: Sequence[Value | None], names: Names) -> Sequence[Value]:
        """An operator as a whole."""
        given = [x if x is not None else self.b.const(None) for x in args]
        captured = [names[name] for name in node.captures]
        known = [None if x is None else (x.type.dtype, x.type.lengths) for x in args]
        values = [x.attr if x is not None and x.op == "const" else None for x in args]
        found = result_types(node, known, values)
        draws = "rng" in lookup(node.op, node.opset, node.domain).parameters and (not node.domain or all(s for _, s in found))
        if self.exact and not draws:
            found = [(None, None)] * len(node.outputs)  # but random numbers are arrays, of the type that the operator says
        types = [
            UNKNOWN
            if d is None
            else Type(d, None if s is None else tuple(Size() if n is None else n for n in s), is_array=self.exact and s == ())
            for d, s in found
        ]
        routine = _routine(node, entry, args, types[0])
        apply = Apply(node, bound.call, bound.needs_run, None, len(node.outputs), routine, bound.drawn, self.refused)
        return self.b.apply(apply, [*given, *captured], types)

    # Control flow

    def node_of_loop(self, node: Node, bound: Bound, record: Loop, args: Sequence[Value | None], names: Names) -> Sequence[Value]:
        count, condition, carried, scanned, invariant, _ = record.split(args)
        if record.batched or any(value is None for value in (*carried, *scanned, *invariant)):
            raise CannotLower("a loop for each row of a batch, or an omitted carried value")
        record, scanned = with_rows_of(self.b, record, scanned)  # type: ignore[arg-type]
        count = known_trip_count(record, count, scanned)
        obeyed = record.obeys or condition is not None or self.obey
        if (not record.scanned) if count is None else is_no_limit(count):
            may_end = obeyed and record.keep_going is not None
            lasts = may_end and record.keep_going in lasting(record)
            if count is None and not may_end:
                raise CannotLower("a loop that never ends by itself")
            if count is None and lasts:
                raise CannotLower("a loop whose condition is always the same, which is refused where it begins")
            count = None if may_end and not lasts else count
        captured = {name: names[name] for name in record.body.captures}
        whole = None
        if not self.depth:
            given = [x if x is not None else self.b.const(None) for x in args]
            whole = (
                Apply(node, bound.call, bound.needs_run, None, len(node.outputs)),
                [*given, *captured.values()],
                bound.worth,
            )
        scope = {**captured, **dict(zip(record.invariant, invariant, strict=True))}
        results = self.loop(record, count, condition, obeyed, carried, scanned, scope, whole)  # type: ignore[arg-type]
        if self.sees_nan and not self.depth and obeyed and record.keep_going is not None and not record.scanned:
            self._end_at_nan(record, carried, results, captured)  # type: ignore[arg-type]
        if self.sees_nan and not self.depth and not writes_nan(record.body):
            sees_inf = not (record.body.typed or writes_nan(record.body, has_inf))
            self._end_at_new_nan(results[: len(carried)], [*carried, *scanned, *invariant, *captured.values()], sees_inf)
        return results

    def _end_at_nan(self, record: Loop, carried: Sequence[Value], results: Sequence[Value], captured: Names) -> None:
        """End the program where the condition of a loop was false at last and may have compared nan, as far as it is known."""
        b, going = self.b, results[-1]
        ends = {**captured, **dict(zip((c.output for c in record.carried), results, strict=False))}
        inputs = [c.input for c in record.carried]
        part = part_computing(record.body, sorted(compared(record)[0]), {*ends, *inputs})
        if not part.outputs or not {*ends, *inputs}.issuperset(part.inputs) or not all(map(is_pure, part.nodes)):
            return
        found = [  # what the last condition was computed of, and what the first one was
            x
            for before in (results, carried)
            for x in self.body(part, {**dict(zip(inputs, before, strict=False)), **ends})
            if x.op != "const" and x.type.kind == "f" and x.type.is_static and x.type.size <= _SMALL
        ]
        if found and going.type.is_static:
            going = b.reduce(going, "all", range(going.type.rank or 0)) if going.type.shape else going
            b.put_in("no_nan", (b.not_(going), *found), Type(BOOL, ()), len(found))

    def _end_at_new_nan(self, results: Sequence[Value], given: Sequence[Value | None], sees_inf: bool) -> None:
        """End the program where a loop has made nan, or infinity, of finite numbers."""
        made = [x for x in _small_floats(results) if not any(x is y for y in given)]
        if made:
            made = [self.b.sub(x, x) if sees_inf else x for x in made]  # infinity less itself is nan too
            self.b.put_in("no_nan", (self.b.const(np.True_), *made, *_small_floats(given)), Type(BOOL, ()), len(made))

    def loop(
        self,
        record: Loop,
        count: Value | None,
        condition: Value | None,
        obeyed: bool,
        carried: Sequence[Value],
        scanned: Sequence[Value],
        scope: Mapping[str, Value],
        whole: tuple[Apply, Sequence[Value], Callable[[int], int]] | None = None,
        in_block: bool = False,
    ) -> Sequence[Value]:
        """A loop; ``scope`` has what the body captures, and what is the same in every iteration."""
        self._see_inputs(record, (*carried, *scanned), scope)
        record, scanned = with_rows_of(self.b, record, scanned)
        if is_never_begun(record, count, condition):
            return [*carried, self.b.const(np.int64(0)), self.b.const(np.True_)]
        record, carried, lists = collecting(record, carried)
        found = self.fixpoint(record, carried, scanned, scope)
        if self.is_long and not self.depth and found.comes_later():
            return in_front(self, record, count, condition, obeyed, carried, scope)
        operator, operands, worth = whole or (None, (), None)
        rows = found.region.results[1 + len(carried) + len(record.last) :]
        attr = LoopRegion(
            found.region,
            len(carried),
            record.scanned,
            len(record.last),
            stacked(record.collected, rows, self.b.takes_open),
            has_count=count is not None,
            has_condition=condition is not None,
            obeyed=obeyed,
            name=record.name,
            in_block=in_block,
            whole=operator,
            worth=worth,
        )
        given = (x if x is not None else self.b.const(None) for x in (count, condition))
        value = self.b.put_in("loop", (*given, *found.initial, *scanned, *operands), UNKNOWN, attr)
        types = as_declared(record.body, record.results, types_of_results(attr, found.types, count, scanned))
        return with_lists(self.b, found.results(with_parts_joined(self.b, self.b.items(value, types), record, attr)), lists)

    def _see_inputs(self, record: Loop, values: Sequence[Value], scope: Mapping[str, Value]) -> None:
        """See that the loop has a Step; remember what carried and scanned values are called."""
        if any(name not in scope for name in record.invariant):
            raise CannotLower("a loop whose invariant values are not there")
        if any(what.ragged for what in record.collected):
            raise CannotLower("a loop that collects a list")
        inputs = (*(c.input for c in record.carried), *(s.input for s in record.scanned))
        self.scopes[id(record)] = (), dict(zip(inputs, values, strict=True)), ""

    def fixpoint(self, record: Loop, carried: Sequence[Value], scanned: Sequence[Value], scope: Mapping[str, Value]) -> Fixpoint:
        """The body of a loop, as a region whose types hold for every iteration."""
        found, self.begun = Fixpoint(self.b, self.body, record, carried, scanned, scope, self.begun), 0
        self.depth += 1
        try:
            found.find()
        finally:
            self.depth -= 1
        for state, x in zip(found.region.params[2:], found.initial, strict=False):
            if x.type.is_known and not state.type.is_known and (whole := first_unknown(found.first)) is not None:
                self.scopes[id(state)] = (whole.node,), dict.fromkeys(whole.node.outputs, state), whole.why
        return found


def _routine(node: Node, entry: Kernel, args: Sequence[Value | None], result: Type) -> Callable[[], Callable[..., None]] | None:
    """What makes the routine of a node with one result, if there is one for these types."""
    make = entry.make_routine
    if (
        make is None
        or len(node.outputs) != 1
        or not result.is_static
        or any(x is not None and not x.type.is_static for x in args)
    ):
        return None
    return make([None if x is None else x.type for x in args], result, **node.attrs)


def _are_known(args: Sequence[Value | None]) -> bool:
    """Whether the element types of all inputs are known, or they are lists of rows."""
    return not [x for x in args if x is not None and x.type.dtype is None and x.op != "rows"]


_KNOWN = {"const", "broadcast"}
"""What is known before anything runs: one number for all elements is better than as many."""

_CHEAP = {"reshape", "transpose", "slice", "window", "pack", "length", "place", "put"}
"""Structural operations, which are printed as they are."""

_LITTLE, _SMALL = 10, 1 << 12
"""Operations, and elements of each, up to which a definition in the open costs no more than its kernel's call and new arrays."""


def _is_little(values: Sequence[Value]) -> bool:
    """Whether what a definition says about arrays may stand in the open."""
    arrays = [v for v in values if v.type.shape != () and v.op not in _CHEAP]
    return len(arrays) <= _LITTLE and all(can_be_placed(v) and v.type.size <= _SMALL for v in arrays)


def _small_floats(values: Sequence[Value | None]) -> list[Value]:
    """What may be nan, and is not too large to be looked at."""
    there = [x for x in values if x is not None and x.op != "const" and x.type.kind == "f" and x.type.is_static]
    return [x for x in there if x.type.size <= MOST]


def _adds_up(values: Sequence[Value]) -> bool:
    """Whether floats are added or multiplied up, in an order that the back end may choose."""
    return any(v.op == "dot" or (v.op == "reduce" and v.attr.kind in ("sum", "prod") and v.type.kind == "f") for v in values)
