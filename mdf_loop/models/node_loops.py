"""A Loop or Scan of a node: its body is read once, its arguments are put together for each run of the node."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from mdf_loop.calls.calling import listed, results_of
from mdf_loop.calls.prepared import PreparedLoop, prepare_loop, prepare_scan, read_once
from mdf_loop.execute.interpret import Arguments
from mdf_loop.ir import record
from mdf_loop.models.texts import NotDirect, Scope, Text, argument_of
from mdf_loop.options import Run
from mdf_loop.readers.onnx.loop_records import SCAN_ATTRIBUTES

LOOP, SCAN = "onnx::Loop", "onnx::Scan"


@record
class Request:
    """A loop that a model wants to have run, and what its values are.

    Attributes
    ----------
    place : str
        ``node.parameter``, where it stands.
    prepared : PreparedLoop
    arguments : Arguments
    """

    place: str
    prepared: PreparedLoop
    arguments: Arguments

    def run(self, run: Run) -> Any:
        """Run it as a part of a run of the whole model."""
        part = part_of_model(run)
        self.prepared.endless.refuse(self.arguments, part)
        return results_of(self.prepared, self.arguments, part)


def part_of_model(run: Run) -> Run:
    """A run of a loop inside the run of a model: the same options, stream and time."""
    return Run(run.options, run.stream, deadline=run.deadline, enclosing=run, watch=run.watch)


@record
class GatheredArguments:
    """What a loop is to be run with, as it stands in its node: nothing is fitted to the body yet.

    Attributes
    ----------
    place : str
    prepared : PreparedLoop
    inputs : list
        Carried values, then scanned ones.
    named : dict
        What the body captures.
    count, go : value or None
        Trip count and condition.
    """

    place: str
    prepared: PreparedLoop
    inputs: list[Any]
    named: dict[str, Any]
    count: Any = None
    go: Any = None

    def request(self) -> Request:
        """What is to be run.

        Raises
        ------
        LoopError
            The values do not fit the body.
        """
        return Request(self.place, self.prepared, self.prepared.arguments(self.inputs, self.named, self.count, self.go))


class NodeLoop:
    """A Loop or Scan that stands in a node.

    Parameters
    ----------
    place : str
        ``node.parameter``.
    thing : modeci_mdf Parameter or Function
    names : container of str
        The values of the node that are known when it runs.

    Raises
    ------
    NotDirect
        Its body is not there before it runs.
    """

    def __init__(self, place: str, thing: Any, names: Container[str], literals: Mapping[str, Any]) -> None:
        self.place, self.is_scan = place, thing.function == SCAN
        args = dict(thing.args or {})
        source = args.pop("body", "body" if "body" in literals else None)
        self.source = literals.get(source) if isinstance(source, str) else source
        if not isinstance(self.source, dict):
            raise NotDirect(f"the body of {place} is not there before it runs")
        self._body = argument_of(source, names)
        texts = {key: argument_of(value, names) for key, value in args.items()}
        self._count, self._cond = texts.pop("M", None), texts.pop("cond", None)
        self._n_scanned = self._attribute(texts, "num_scan_inputs", names) if self.is_scan else None
        self._attrs = {key: self._attribute(texts, key, names) for key in SCAN_ATTRIBUTES} if self.is_scan else {}
        self._inputs = [*texts.values()]
        self._prepared: dict[int, PreparedLoop] = {}
        self.n_carried = len(self._inputs)  # until it ran

    @staticmethod
    def _attribute(texts: dict[str, Text], key: str, names: Container[str]) -> Text:
        return texts.pop(key, lambda scope: scope.get(key))

    def request(self, scope: Scope) -> Request:
        """What is to be run, with the values that the node has now.

        Raises
        ------
        NotDirect, LoopError
            As :meth:`gathered`; or the values do not fit the body.
        """
        return self.gathered(scope).request()

    def gathered(self, scope: Scope) -> GatheredArguments:
        """The values that the node has now, as they are.

        Raises
        ------
        NotDirect
            The body is another one than the model says.
        LoopError
            The body cannot be read.
        """
        if self._body(scope) is not self.source:
            raise NotDirect(f"the body of {self.place} was given")
        inputs: list[Any] = []
        for text in self._inputs:
            value = text(scope)
            inputs += value if isinstance(value, tuple) else (value,)
        return self._scan(scope, inputs) if self.is_scan else self._loop(scope, inputs)

    def prepared(self, n_carried: int) -> PreparedLoop:
        """The Loop with so many carried values."""
        found = self._prepared.get(n_carried)
        if found is None:
            found = self._prepared[n_carried] = prepare_loop(read_once(self.source, n_carried, "loop"), n_carried)
        return found

    def _loop(self, scope: Scope, carried: list[Any]) -> GatheredArguments:
        m = self._count(scope) if self._count is not None else None
        cond = self._cond(scope) if self._cond is not None else None
        prepared, self.n_carried = self.prepared(len(carried)), len(carried)
        captures = prepared.record.body.captures
        named = {name: scope[name] for name in captures if name in scope}
        for name, value in (("M", m), ("cond", cond)):
            if name in captures and name not in named and value is not None:
                named[name] = value
        return GatheredArguments(self.place, prepared, carried, named, m, cond)

    def _scan(self, scope: Scope, inputs: list[Any]) -> GatheredArguments:
        count = self._n_scanned(scope) if self._n_scanned is not None else None
        if type(count) is not int or not 1 <= count <= len(inputs):
            raise NotDirect("the number of scanned inputs is no number")
        attrs = {key: listed(key, value) for key, text in self._attrs.items() if (value := text(scope)) is not None}
        n_carried = self.n_carried = len(inputs) - count
        prepared = prepare_scan(read_once(self.source, n_carried, "scan", len(inputs)), count, attrs)
        names = prepared.record.body.inputs
        if len(names) != len(inputs):
            raise NotDirect("the number of inputs is another one")
        named = {name: scope[name] for name in prepared.record.body.captures if name in scope}
        return GatheredArguments(self.place, prepared, inputs, named)
