"""What ends early in MDF's engine: its nodes and passes stop when the time is over, and keep what was computed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mdf_loop.errors import IterationLimit, LoopTimeout, keeps_results, let_through, warn_user
from mdf_loop.execute.partial_results import keeping
from mdf_loop.integrations.scheduler import stepped_of
from mdf_loop.kernels.mdf.expression_operators import leaving
from mdf_loop.options import check_time, current_options, part_of, start_run

MANY_PASSES = 5000
"""Passes of one evaluation from which on a warning says that its end may never come."""

Places = Mapping[str, tuple[str, str]]
"""Outputs by name: the node and the port of each."""


def keeping_partial(original: Callable[..., Any]) -> Callable[..., Any]:
    """``evaluate`` of a parameter or function: the value of a loop that ended early is what it had computed."""

    @functools.wraps(original)
    def evaluate(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            if not keeps_results(error):
                raise
            if error.partial is not None:
                self.curr_value = error.partial if len(error.partial) != 1 else error.partial[0]
            raise

    return evaluate


def ending_in_time(original: Callable[..., Any]) -> Callable[..., Any]:
    """``EvaluableNode.evaluate``: begins only if there is time left; output ports take what a loop had computed."""

    @functools.wraps(original)
    def evaluate(self: Any, *args: Any, **kwargs: Any) -> Any:
        check_time()
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            if keeps_results(error):
                _take_what_there_is(self)
            raise

    return evaluate


def _take_what_there_is(node: Any) -> None:
    """Give the output ports of a node the values that follow from those its inputs, functions and parameters have."""
    known: dict[str, Any] = {}
    for things in (node.evaluable_inputs, node.evaluable_functions, node.evaluable_parameters):
        for id, thing in things.items():
            known[id] = getattr(thing, "curr_value", None)
            if stepped := stepped_of(thing):
                stepped.publish(known)
    for port in node.evaluable_outputs.values():
        try:
            port.evaluate(known)
        except Exception as error:  # nothing had been computed that it could be made of
            let_through(error)
            port.curr_value = None


def evaluated(evaluable: Any, places: Places) -> dict[str, Any]:
    """Evaluate a graph once; its outputs by name.

    Raises
    ------
    PartialResults
        It ended early; ``.outputs`` are those that have a value.
    """
    run = start_run()

    def call() -> dict[str, Any]:
        with part_of(run):
            evaluable.evaluate()
        return values_of(evaluable, places)

    return keeping(run, call, lambda _: {name: v for name, v in values_of(evaluable, places).items() if v is not None})


def values_of(evaluable: Any, places: Places) -> dict[str, Any]:
    """What output ports hold."""
    return {name: leaving(evaluable.enodes[node].evaluable_outputs[port].curr_value) for name, (node, port) in places.items()}


def ending_passes(original: Callable[..., Any]) -> Callable[..., Any]:
    """``EvaluableGraph.evaluate``: its scheduler goes on with another pass only if there is time, and another is allowed.

    It would go on for ever where no node runs any more and termination never holds.
    """

    @functools.wraps(original)
    def evaluate(self: Any, *args: Any, **kwargs: Any) -> Any:
        scheduler = self.scheduler
        own = vars(scheduler).get("run")  # of code that records what it runs
        scheduler.run = functools.partial(_limited, scheduler, scheduler.run)
        try:
            return original(self, *args, **kwargs)
        finally:
            if own is None:
                del scheduler.run
            else:
                scheduler.run = own

    return evaluate


def _limited(scheduler: Any, run: Callable[..., Iterator[Any]], *args: Any, **kwargs: Any) -> Iterator[Any]:
    """What a scheduler says runs next, as long as it may."""
    limit, time, is_said = current_options().max_iterations, scheduler.get_clock(None).time, False
    for ready in run(*args, **kwargs):
        at = time.pass_
        if at >= MANY_PASSES and not is_said:
            is_said = True
            warn_user(
                f"one evaluation of the model has had {at} passes, and its conditions of termination do not hold yet; perhaps it "
                "needs inputs that are not 0; options(timeout=...) ends it"
            )
        what = f"pass {at} of MDF's scheduler" + ", in which no node runs" * (not ready)
        if limit is not None and at >= max(limit, 1):  # one pass is no going on
            error = IterationLimit(f"the model would go on; options(max_iterations={limit}) stops it here")
            error.within(what)
            raise error
        try:
            check_time()
        except LoopTimeout as over:
            over.within(what)
            raise
        yield ready
