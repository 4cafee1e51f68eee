"""The loops over steps of one graph, each made once: kept by the inputs, the steps, what is recorded and the options."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from mdf_loop.calls.content_cache import fingerprint
from mdf_loop.convert.naming import names_of
from mdf_loop.convert.scheduled.idle_evaluations import said_of_idle
from mdf_loop.convert.scheduled.loops import Lowered, ScheduledLowering, Stepping, check_steps, execute
from mdf_loop.convert.scheduled.lowered_runs import Runner
from mdf_loop.convert.scheduled.run_order import thresholds
from mdf_loop.convert.scheduled.slots import GivenInput
from mdf_loop.errors import (
    IterationError,
    LoopError,
    MalformedBody,
    NeverEnds,
    NotLowered,
    PartialResults,
    UnknownNode,
    UnsupportedOp,
    let_through,
    warn_user,
)
from mdf_loop.integrations.engine_patches import MANY_PASSES, warn_of_passes
from mdf_loop.integrations.engine_runs import Watched, kept, run_recorded_in_mdf
from mdf_loop.integrations.graph_conditions import refuse_conditions
from mdf_loop.integrations.input_places import Given, InputPlaces, Place
from mdf_loop.ops.registry import changes
from mdf_loop.options import Run, current_options
from mdf_loop.progress import Report, Watch
from mdf_loop.readers.mdf.engine_body import refuse_hanging, refuse_unimplemented
from mdf_loop.readers.mdf.input_ports import with_values
from mdf_loop.readers.mdf.typed import is_typed
from mdf_loop.system.threads import Recent

T = TypeVar("T")

log = logging.getLogger(__name__)

MOST, MOST_BYTES = 16, 1 << 26
"""How many loops are kept of one graph, and about how many bytes they may have together."""


class Shared:
    """A graph with places for what runs are given, as a loop over steps: one for all values of the same types and shapes.

    Attributes
    ----------
    refusal : str
        Why the values have to be known, if they do.

    Parameters
    ----------
    graph : modeci_mdf Graph
        It does not change from now on.
    places : iterable of Place
    how : Stepping
    """

    def __init__(self, graph: Any, places: Iterable[Place], how: Stepping) -> None:
        self.places, self.how, self.refusal = {place: GivenInput(*place) for place in places}, how, ""
        self.graph = with_values(graph, self.places)

    @cached_property
    def lowering(self) -> ScheduledLowering:
        """What makes the loop."""
        refuse_conditions(self.graph)
        return ScheduledLowering(self.graph, self.how)

    def lowered(self, given: Given) -> Lowered:
        """The loop with the values that it begins with.

        Raises
        ------
        LoopError
            As :func:`mdf_loop.convert.scheduled.loops.lower`.
        """
        return self.lowering.lowered({self.places[place]: kept(value) for place, value in given.items()})


class ScheduledLoop:
    """A graph with its inputs, as a loop over steps, or what stands against that.

    Parameters
    ----------
    graph : modeci_mdf Graph
    given : Given
    how : Stepping
    shared : Shared, optional
        The loop for any values of these types.
    """

    def __init__(self, graph: Any, given: Given, how: Stepping, shared: Shared | None) -> None:
        self._plain, self._given, self.how, self.shared = graph, given, how, shared
        self.refusal = ""
        self._same: Lowered | None = None

    @cached_property
    def graph(self) -> Any:
        """The graph with its inputs."""
        return with_values(self._plain, self._given)

    @cached_property
    def _alone(self) -> Shared:
        """The loop for these inputs."""
        return Shared(self.graph, (), self.how)

    def lowered(self, run: Run, warns: bool = True) -> Lowered | None:
        """The loop with the values that it begins with; None, and a warning, if there is none.

        What no random number is drawn for is the same each time.

        Raises
        ------
        UnknownNode, NeverEnds
            A condition names a node that is not there: MDF's engine could not run that either.
        MalformedBody
            MDF's engine would never return.
        UnsupportedOp
            It does not run a function of the graph.
        """
        if self._same is not None:
            return self._same
        drawn = run.stream.save()
        try:
            if self.refusal:
                raise NotLowered(self.refusal)
            found = self._found(run, drawn)
        except (UnknownNode, NeverEnds):
            raise
        except (NotLowered, MalformedBody, UnsupportedOp) as reason:
            if run.stream.save() is drawn:
                self.refusal = str(reason)
            run.stream.restore(drawn)
            refuse_hanging(self.graph)
            refuse_unimplemented(self.graph)
            refuse_conditions(self.graph)
            if warns:
                warn_user(f"the model runs in MDF's engine, not as a loop, which is slower: {reason}")
            return None
        if run.stream.save() is drawn:
            self._same = found
        return found

    def _found(self, run: Run, drawn: Any) -> Lowered:
        """The loop for any values of these types; where it depends on the values, or something is wrong, that for these."""
        if self.shared is not None and not self.shared.refusal:
            try:
                return self.shared.lowered(self._given)
            except PartialResults:
                raise
            except LoopError as reason:
                log.debug("%s: read again for its inputs: %s", self._plain.id, reason)
                if not isinstance(reason, IterationError):
                    self.shared.refusal = str(reason)
                run.stream.restore(drawn)
        return self._alone.lowered({})


def _passes_noted(waits: Callable[[], Sequence[str]]) -> Callable[[Report], None]:
    """What is told how many passes one evaluation has had, and warns once if they are many; ``waits`` says for what."""
    said = list[int]()

    def note(report: Report) -> None:
        if not said and report.iteration >= MANY_PASSES:
            said.append(report.iteration)
            warn_of_passes(report.iteration, waits())

    return note


class ScheduledLoops:
    """The loops of one graph, by what they depend on; the last ones that were asked for are kept.

    Parameters
    ----------
    graph : modeci_mdf Graph
        It does not change from now on.
    places : InputPlaces
        What its inputs may set.
    """

    def __init__(self, graph: Any, places: InputPlaces) -> None:
        self.graph, self._places, most = graph, places, _most(graph)
        self._kept, self._shared = Recent[ScheduledLoop](most), Recent[Shared](most)

    def run(
        self,
        inputs: Mapping[str, Any],
        how: Stepping,
        run: Run,
        is_once: bool,
        begin: Callable[[Lowered], Runner | None] = lambda _: None,
        watched: Callable[[Any], Watched] = lambda _: MappingProxyType({}),
    ) -> tuple[dict[str, Any], int | None, list[list[Any]]]:
        """The outputs by name, from the loop or from MDF's engine, the number of passes, as far as it is known, and rows.

        Names are those of ONNX in a converted graph.  Of one evaluation, without ``steps=``, many passes are worth a warning, and
        a run in MDF's engine is not, if nothing is recorded.

        Parameters
        ----------
        inputs, how, run, is_once
        begin : callable
            Gives what runs the loop, if something is recorded: rows are those of the passes before it.
        watched : callable
            Gives what runs loops of nodes of the graph in MDF's engine: rows are those of all passes.
        """
        loop = self.find(inputs, how)
        lowered = loop.lowered(run, warns=not is_once or bool(how.record))
        if is_once and run.watch is None:
            run.watch = Watch(_passes_noted(lambda: () if lowered is None else thresholds(loop.graph)), run.position)
        if lowered is None:
            outputs, rows = run_recorded_in_mdf(loop.graph, *loop.how, watched(loop.graph))
            passes = len(rows[0]) if rows else None
        else:
            for said in lowered.noted:
                run.warn_once((id(self.graph), said), said)
            outputs, rows = execute(lowered, run, begin(lowered)), lowered.recorded
            passes = lowered.passes(run)
            if said := said_of_idle(lowered, run):
                run.warn_once((id(self.graph), "idle"), f"{self.graph.id}: {said}")
        return {self._names.get(id, id): value for id, value in outputs.items()}, passes, rows

    def find(self, inputs: Mapping[str, Any], how: Stepping) -> ScheduledLoop:
        """The loop for some inputs.

        Raises
        ------
        ArgumentError
            An input is not there, or steps and time_increment are no such numbers.
        """
        check_steps(*how[:2])
        time = how.time_increment
        how = how._replace(steps=int(how.steps), time_increment=time.item() if isinstance(time, np.generic) else time)
        ids = {name: id for id, name in self._names.items()}
        given = self._places.given({ids.get(name, name): value for name, value in inputs.items()})
        key = self._key(given, how)

        def made() -> ScheduledLoop:
            return ScheduledLoop(self.graph, given, how, self._shared_by(given, how))

        return made() if key is None else self._kept.of(key, made)

    def _shared_by(self, given: Given, how: Stepping) -> Shared | None:
        """The loop for all values of these types and shapes; None where a value is no number or array of numbers."""
        if any(np.asarray(value).dtype.kind not in "biufc" for value in given.values()):
            return None
        kinds = [(place, type(given[place]), np.asarray(given[place]).dtype, np.shape(given[place])) for place in sorted(given)]
        key = self._key({}, how), tuple(kinds)
        return self._shared.of(key, lambda: Shared(self.graph, given, how))

    @staticmethod
    def _key(given: Given, how: Stepping) -> Hashable | None:
        """What a loop depends on; None where that is a file, which may change."""
        if any(isinstance(value, dict) for value in given.values()):
            return None
        values = fingerprint(tuple(sorted(given.items()))) if given else ()
        chosen = tuple([option for option in current_options().chosen.items() if option[0] != "timeout"])
        return None if values is None else (values, how, repr(how.time_increment), chosen, changes())

    @cached_property
    def _names(self) -> Mapping[str, str]:
        """What ONNX calls the ports of a converted graph."""
        return names_of(self.graph) if is_typed(self.graph) else {}


def _most(graph: Any) -> int:
    """How many loops are kept: each may hold the numbers of the graph twice, its own and those of the loop."""
    try:
        size = len(pickle.dumps(graph))
    except Exception as error:  # what pickle cannot write down
        let_through(error)
        return 1
    return max(min(MOST, MOST_BYTES // (2 * size)), 1)
