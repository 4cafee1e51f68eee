"""A graph of MDF with its loops inside as one program of all runs: what is computed before and behind loops belongs to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.calls.calling import results_of
from mdf_loop.execute.graphs import Graph
from mdf_loop.execute.nan_warnings import Compared
from mdf_loop.execute.specialised import Specialised
from mdf_loop.ir import Node
from mdf_loop.models.once import Given, OnceEvaluation, Request, part_of_model
from mdf_loop.options import Options, Run
from mdf_loop.readers.expressions.values import DOMAIN
from mdf_loop.readers.mdf.control_functions import local_names, rename_captures
from mdf_loop.step.structure import computed_exactly
from mdf_loop.sweeps.machine_runs import NotTogether, for_many, refuse_other
from mdf_loop.sweeps.vectors import Vectors

KINDS = "bif"
"""Kinds of numbers, each of which holds those before it."""


class WholeGraph:
    """All nodes of a graph, ready to be machine code for many runs.

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
    ends : list of str
        Carried values of an only loop that its condition compares: outputs behind those that are wanted and the number of
        its iterations.
    request : Request
        What the first loop of that run is asked.

    Raises
    ------
    NotTogether
        A loop is given something else than the graph says.
    """

    def __init__(self, evaluation: OnceEvaluation, wanted: Sequence[int], given: Given, run: Run) -> None:
        self.evaluation, body = evaluation, evaluation.body
        self.vectors, self._nodes, self._fresh = Vectors(), list[Node](), 0
        outputs = [body.outputs[k] for k in wanted]
        read = {*outputs, *(name for node in body.nodes for name in node.reads)}
        self._whole = {node.outputs[0] for node in body.nodes if (node.domain, node.op) == (DOMAIN, "whole")}
        requests = _requests(evaluation, given, run)
        self.request, self._decide = requests[0][0], list[str]()
        self.ends, more = list[str](), list[str]()
        known = {id(request.node): (request, values) for request, values in requests}
        for node in body.nodes:
            if node.loop is None:
                self._nodes.append(node)
                continue
            looped = self._called(node, *known[id(node)], read)
            if len(requests) == 1:
                compared = Compared(looped.loop).carried  # type: ignore[arg-type]
                self.ends, more = [name for _, name in compared], ["iterations~", *(looped.outputs[k] for k, _ in compared)]
            self._nodes.append(looped)
        self.body = replace(body, nodes=tuple(self._nodes), outputs=(*outputs, *more))
        self.graph = Graph(self.body)

    def _called(self, node: Node, request: Request, values: Mapping[str, Any], read: set[str]) -> Node:
        """A loop as operators have it: what it is called with is made what its body asks for by nodes before it."""
        record, arguments = request.prepared.record, request.arguments
        n, first = record.n_inputs, 2 + len(record.carried) + len(record.scanned)
        names = [*node.inputs[2:first], *node.captures]
        fitted = [*arguments.carried, *arguments.scanned, *arguments.captured]
        taken = [self._fitted(name, values[name], x) for name, x in zip(names, fitted, strict=True)]
        self._decide += filter(None, node.inputs[:2])
        captures = taken[first - 2 :]
        if not local_names(record.body).isdisjoint(captures):
            raise NotTogether("a value in a loop has the name of one outside")
        looped = record.with_body(rename_captures(record.body, dict(zip(record.body.captures, captures, strict=True))))
        before = len(record.carried) + len(record.last)
        kept = [k for k, name in enumerate(node.outputs[before:]) if name in read]
        looped = replace(looped, collected=tuple(looped.collected[k] for k in kept))
        outputs = (*node.outputs[:before], *(node.outputs[before + k] for k in kept), "iterations~")
        inputs = (*node.inputs[:2], *taken[: first - 2], *node.inputs[first:n])
        captured = tuple(dict.fromkeys(captures))
        return replace(node, inputs=inputs, outputs=outputs, attrs={"loop": looped}, captures=captured, domain="")

    def _fitted(self, name: str, given: Any, fitted: Any) -> str:
        """The name of a value as a loop takes it."""
        is_numpys = isinstance(given, np.ndarray | np.generic)
        if (name in self._whole and not is_numpys) or type(given) is type(fitted) is not np.ndarray:
            return name  # an int or a float compiles where it makes no difference which of them it is
        if not isinstance(fitted, np.ndarray | np.generic):
            raise NotTogether("a loop takes a value as another kind")
        kind, is_array = np.asarray(given).dtype.kind, isinstance(fitted, np.ndarray)
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
        """The program for such values, of which some differ from run to run.

        Raises
        ------
        NotTogether
            There is none that gives the bits of each run alone, in which nodes around loops are run one by one.
        """
        if {self.body.inputs[k] for k in differs} & {*self._decide}:
            raise NotTogether("the trip count or the condition is swept")
        if not {*self._decide} <= {*self.body.inputs, *self.body.constants}:
            raise NotTogether("the trip count or the condition is computed")
        made = for_many(self.graph.machine_code(values, options), options)
        if made is None or not computed_exactly(made.step, self.body.nodes):
            raise NotTogether("what is computed around loops has no machine code of the same bits")
        return made


def _requests(evaluation: OnceEvaluation, given: Given, run: Run) -> list[tuple[Request, dict[str, Any]]]:
    """What each loop is asked in one run, with the values of its names; loops before the last one have one iteration then."""
    env = evaluation.begin(given, run)
    steps, count = evaluation.steps(env), sum(node.loop is not None for node in evaluation.body.nodes)
    found, request = list[tuple[Request, dict[str, Any]]](), next(steps)
    while True:
        refuse_other(request, request.prepared, run)
        found.append((request, {name: evaluation.value(env, name) for name in request.node.reads}))
        if len(found) == count:
            return found
        request = steps.send(results_of(request.prepared, replace(request.arguments, trip_count=1), part_of_model(run)))
