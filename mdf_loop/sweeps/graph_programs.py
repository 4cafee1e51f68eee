"""A graph of MDF with its loops inside as one program of all runs: what is computed before and behind loops belongs to it."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.calls.calling import results_of
from mdf_loop.convert.scheduled.open_start import OpenRun
from mdf_loop.execute.graphs import Graph
from mdf_loop.execute.specialised import Specialised
from mdf_loop.execute.warnings.nan_warnings import Compared
from mdf_loop.integrations.input_places import Given, Place
from mdf_loop.ir import Body, Loop, Node
from mdf_loop.ir.fresh_names import rename_captures
from mdf_loop.models.once import OnceEvaluation, Request, part_of_model
from mdf_loop.models.results import stops_of
from mdf_loop.options import Options, Run
from mdf_loop.plan.invariants import draws
from mdf_loop.readers.expressions.values import DOMAIN, Number
from mdf_loop.readers.mdf.control_functions import local_names
from mdf_loop.step.build import CannotLower, type_of_value
from mdf_loop.step.lower import lower_graph
from mdf_loop.step.records import Type
from mdf_loop.step.structure import computed_exactly, gives_same_bits
from mdf_loop.sweeps.machine_runs import NotTogether, refuse_other
from mdf_loop.sweeps.vectors import Share, Vectors

KINDS = "bif"
"""Kinds of numbers, each of which holds those before it."""


Kinds = tuple[tuple[Place, Number], ...]
"""Places in a graph that values are given for, and which of Python's numbers each is."""

ITERATIONS = "iterations~"
"""What the number of iterations of a loop is called, behind its other results."""


def counting(node: Node, record: Loop, read: Collection[str]) -> Node:
    """A loop that collects only what is read, with the number of its iterations behind all other results."""
    before = len(record.carried) + len(record.last)
    names = [node.outputs[k] if k < len(node.outputs) else "" for k in range(before + len(record.collected))]
    kept = [k for k, name in enumerate(names[before:]) if name in read]
    looped = replace(record, collected=tuple(record.collected[k] for k in kept))
    ends = [name or f"end~{k}" for k, name in enumerate(names[:before])]
    return replace(node, outputs=(*ends, *(names[before + k] for k in kept), ITERATIONS), attrs={**node.attrs, "loop": looped})


def counted(body: Body) -> Body:
    """A graph whose loops are :func:`counting`."""
    read = {*body.outputs, *(name for node in body.nodes for name in node.reads)}
    nodes = [node if node.loop is None else counting(node, node.loop, read) for node in body.nodes]
    return replace(body, nodes=tuple(nodes))


class GraphOfRuns:
    """A graph, ready to be machine code for many runs.

    Parameters
    ----------
    body : Body
        With loops that are :func:`counting`, if it has one.
    trip_count : int, optional
        That of the first loop in one of the runs.
    limit : str
        The value that is the trip count of an only loop, if that may differ from run to run.

    Attributes
    ----------
    more : list of str
        Outputs behind those that are wanted: of an only loop the number of iterations, what its
        condition compares, and ``limit``.
    ends : list of str
        What the values that its condition compares are called in the loop.
    draws : bool
        Whether anything in it draws random numbers.
    """

    def __init__(self, body: Body, trip_count: int | None, limit: str = "") -> None:
        self.trip_count, self.vectors, self.draws = trip_count, Vectors(), any(map(draws, body.nodes))
        self._is_exact: bool | None = None
        self.more, self.ends = list[str](), list[str]()
        loops = [node for node in body.nodes if node.loop is not None]
        if len(loops) == 1:
            compared = Compared(loops[0].loop).carried  # type: ignore[arg-type]
            self.ends = [name for _, name in compared]
            self.more = [ITERATIONS, *(loops[0].outputs[k] for k, _ in compared), *([limit] if limit else [])]
        self.body = replace(body, outputs=(*body.outputs, *self.more))
        self.graph = Graph(self.body)

    def results(self, found: Sequence[Any]) -> Sequence[Any]:
        """The outputs, of what the body gives before ``more``: a row of each for each run."""
        return found

    def ended(self, lengths: np.ndarray, limits: Any) -> tuple[np.ndarray, np.ndarray]:
        """The iterations of runs, and why they stopped, by the iterations of the only loop and its trip counts."""
        return lengths, stops_of(lengths, limits)

    def _types(self, values: Sequence[Any]) -> list[Type]:
        return [type_of_value(value, not self.body.typed) for value in values]

    def is_exact(self, values: Sequence[Any]) -> bool:
        """Whether it gives the same bits in all engines, and draws random numbers in loops alone; for values of its types."""
        if self._is_exact is None:
            with contextlib.suppress(CannotLower):
                around = any(draws(node) for node in self.body.nodes if node.loop is None)
                self._is_exact = not around and gives_same_bits(lower_graph(self.body, self._types(values)))
        return bool(self._is_exact)

    def in_numpy(
        self, values: Sequence[Any], columns: Mapping[int, np.ndarray], which: np.ndarray, run: Run, share: Share
    ) -> list[np.ndarray]:
        """The results of many runs at once, where they have the bits of each run alone; see :class:`Vectors`.

        Raises
        ------
        NotTogether, CannotLower, FallBack, LoopTimeout
        """
        if self.draws or not self.is_exact(values):
            raise NotTogether("it draws random numbers, or has other bits where many runs are computed at once")
        step = lower_graph(self.body, self._types(values), run.options.obey_body_condition, is_long=True)
        with np.errstate(all="ignore"):
            return self.vectors.run_in_numpy(step, values, [columns.get(k) for k in range(len(values))], which, run, share)

    def machine_code(self, values: Sequence[Any], differs: Sequence[int], options: Options) -> Specialised:
        """The program for such values, of which some differ from run to run.

        Raises
        ------
        NotTogether
            There is none that gives the bits of each run alone.
        """
        from mdf_loop.backends.llvm.many_runs import can_run_many

        made = self.graph.machine_code(values, options)
        if made is None or not can_run_many(made.call) or not (options.how.compiles or self.is_exact(values)):
            raise NotTogether("there is no machine code of the same bits")
        return made


class PassesOfRuns(GraphOfRuns):
    """All evaluations of a scheduled graph.

    Parameters
    ----------
    run : OpenRun
    wanted : sequence of int
        Which outputs are wanted.
    kinds : Kinds
        What its inputs are.

    Raises
    ------
    NotTogether
        It is over before a loop begins.
    """

    def __init__(self, run: OpenRun, wanted: Sequence[int], kinds: Kinds) -> None:
        body = counted(replace(run.body, outputs=tuple([run.body.outputs[k] for k in run.places(wanted)])))
        trip_counts = [body.constants.get(node.inputs[0]) for node in body.nodes if node.loop is not None]
        if len(trip_counts) != 1:
            raise NotTogether("it is over before a loop begins")
        self.run, self.names, self.kinds = run, [run.names[k] for k in wanted], kinds
        self.places = tuple(place for place, _ in kinds)
        super().__init__(body, trip_counts[0])

    def results(self, found: Sequence[Any]) -> Sequence[Any]:
        """The outputs of the last evaluation, or of all: one without a pass has those of the one before."""
        run = self.run
        ends = found[len(self.names) * run.width :] if run.tells_ends else ()
        if any((over != over[:1]).any() for over in map(np.asarray, ends)):
            raise NotTogether("evaluations are over after other passes")
        return run.evaluations(self.names, found, axis=1) if run.width else found

    def ended(self, lengths: np.ndarray, limits: Any) -> tuple[np.ndarray, np.ndarray]:
        """The passes of runs, each of which stops after its steps."""
        return lengths + self.run.passes, stops_of(lengths, 0)


class WholeGraph(GraphOfRuns):
    """All nodes of a graph of MDF.

    Parameters
    ----------
    evaluation : OnceEvaluation
    wanted : sequence of int
        Which outputs are wanted.
    given : mapping
        What one of the runs is given.
    run : Run
        Whose options say how everything is run, with a stream of its own.

    Attributes
    ----------
    places : tuple of Place
        What its inputs are the values of.

    Raises
    ------
    NotTogether
        A loop is given something else than the graph says.
    """

    def __init__(self, evaluation: OnceEvaluation, wanted: Sequence[int], given: Given, run: Run) -> None:
        self.evaluation, body = evaluation, evaluation.body
        self._nodes, self._fresh, self._decide = list[Node](), 0, list[str]()
        outputs = tuple([body.outputs[k] for k in wanted])
        read = {*outputs, *(name for node in body.nodes for name in node.reads)}
        self._whole = {node.outputs[0] for node in body.nodes if (node.domain, node.op) == (DOMAIN, "whole")}
        requests = _requests(evaluation, given, run)
        known = {id(request.node): request for request in requests}
        for node in body.nodes:
            self._nodes.append(node if node.loop is None else self._called(node, known[id(node)], read))
        limits = [node.inputs[0] for node in body.nodes if node.loop is not None]
        self._limit = limits[0] if len(limits) == 1 and limits[0] in body.inputs else ""
        trip_count = requests[0].arguments.trip_count
        super().__init__(replace(body, nodes=tuple(self._nodes), outputs=outputs), trip_count, self._limit)
        self.places = evaluation.inputs

    def _called(self, node: Node, request: Request, read: set[str]) -> Node:
        """A loop as operators have it: what it is called with is made what its body asks for by nodes before it."""
        record, arguments = request.prepared.record, request.arguments
        n, first = record.n_inputs, 2 + len(record.carried) + len(record.scanned)
        names = [*node.inputs[2:first], *node.captures]
        fitted = [*arguments.carried, *arguments.scanned, *arguments.captured]
        is_typed, values = record.body.typed, dict(zip((*node.inputs, *node.captures), request.values, strict=True))
        taken = [self._fitted(name, values[name], x, is_typed) for name, x in zip(names, fitted, strict=True)]
        self._decide += filter(None, node.inputs[:2])
        captures = taken[first - 2 :]
        if not local_names(record.body).isdisjoint(captures):
            raise NotTogether("a value in a loop has the name of one outside")
        looped = record.with_body(rename_captures(record.body, dict(zip(record.body.captures, captures, strict=True))))
        inputs = (*node.inputs[:2], *taken[: first - 2], *node.inputs[first:n])
        called = replace(node, inputs=inputs, attrs={}, captures=tuple(dict.fromkeys(captures)), domain="")
        return counting(called, looped, read)

    def _fitted(self, name: str, given: Any, fitted: Any, is_typed: bool) -> str:
        """The name of a value as a loop takes it; one whose body has types takes numbers for arrays without axes."""
        is_numpys = isinstance(given, np.ndarray | np.generic)
        if (name in self._whole and not is_numpys) or type(given) is type(fitted) is not np.ndarray:
            return name  # an int or a float compiles where it makes no difference which of them it is
        if not isinstance(fitted, np.ndarray | np.generic):
            raise NotTogether("a loop takes a value as another kind")
        kind, is_array = np.asarray(given).dtype.kind, isinstance(fitted, np.ndarray) and not is_typed
        if np.shape(given) != fitted.shape or kind not in KINDS or KINDS.index(kind) > KINDS.find(fitted.dtype.kind):
            raise NotTogether("a loop takes a value in another shape or kind")
        if not is_numpys or given.dtype != fitted.dtype or (isinstance(given, np.ndarray) and not is_array):
            name, given = self._add(f"numpy.{fitted.dtype.name}".replace("numpy.bool", "numpy.bool_"), name), np.float64(0)
        return self._add("numpy.array", name) if is_array and isinstance(given, np.generic) and not fitted.ndim else name

    def _add(self, op: str, name: str) -> str:
        self._fresh += 1
        fresh = f"{name}~{self._fresh}"
        self._nodes.append(Node(op, (name,), (fresh,), {}, "", 1, DOMAIN))
        return fresh

    def machine_code(self, values: Sequence[Any], differs: Sequence[int], options: Options) -> Specialised:
        """The same; each run alone runs nodes around loops one by one."""
        decide = {*self._decide} - ({self._limit} if self._has_whole_limit(values) else set())
        if {self.body.inputs[k] for k in differs} & decide:
            raise NotTogether("the trip count or the condition is swept")
        if not {*self._decide} <= {*self.body.inputs, *self.body.constants}:
            raise NotTogether("the trip count or the condition is computed")
        made = super().machine_code(values, differs, options)
        if not computed_exactly(made.step, self.body.nodes):
            raise NotTogether("what is computed around loops has no machine code of the same bits")
        return made

    def _has_whole_limit(self, values: Sequence[Any]) -> bool:
        """Whether the trip count of an only loop is an int, as it is in all runs then."""
        return bool(self._limit) and type(values[self.body.inputs.index(self._limit)]) is int


def _requests(evaluation: OnceEvaluation, given: Given, run: Run) -> list[Request]:
    """What each loop is asked in one run; loops before the last one have one iteration then."""
    found, count = list[Request](), sum(node.loop is not None for node in evaluation.body.nodes)

    def call(request: Request, run: Run) -> Any:
        refuse_other(request.prepared.endless, request.arguments, run)
        found.append(request)
        if len(found) == count:
            raise _AllSeen
        return results_of(request.prepared, replace(request.arguments, trip_count=1), part_of_model(run))

    with contextlib.suppress(_AllSeen):
        evaluation.evaluate(given, run, call)
    return found


class _AllSeen(Exception):
    """The last loop of a graph is not run."""
