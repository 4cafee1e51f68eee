"""What is changed in MDF's engine while it is registered, besides that it evaluates no text.

- Its nodes and passes stop when the time is over, and keep what was computed.
- What it prints goes to the log; the descriptions that it makes for that are not made.
- ONNX's random operators draw from the stream of the run, as in loops.  MDF hands each operator to onnxruntime, which begins
  again each time: every evaluation would draw the same numbers.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import io
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import IterationLimit, LoopTimeout, keeps_results, let_through, warn_user
from mdf_loop.integrations.scheduler import stepped_of
from mdf_loop.kernels import load_kernels
from mdf_loop.kernels.mdf.expression_operators import from_onnx, leaving, to_onnx
from mdf_loop.ops.registry import KERNELS, lookup
from mdf_loop.options import check_time, current_options, current_stream
from mdf_loop.readers.mdf.by_place import LOOPS
from mdf_loop.readers.mdf.node_functions import is_no_seed
from mdf_loop.system.threads import holding
from mdf_loop.types.schemas import schema_of

MANY_PASSES = 5000
"""Passes of one evaluation from which on a warning says that its end may never come."""

Places = Mapping[str, tuple[str, str]]
"""Outputs by name: the node and the port of each."""


def keeping_partial(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    """``evaluate`` of a parameter or function: the value of a loop that ended early is what it had computed."""
    try:
        return original(self, *args, **kwargs)
    except BaseException as error:
        if not keeps_results(error):
            raise
        if error.partial is not None:
            self.curr_value = error.partial if len(error.partial) != 1 else error.partial[0]
        raise


def ending_in_time(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    """``EvaluableNode.evaluate``: begins only if there is time left; output ports take what a loop had computed."""
    try:
        check_time()
    except LoopTimeout:
        if any(thing.function in LOOPS for thing in (*self.node.parameters, *self.node.functions)):
            with contextlib.suppress(LoopTimeout):  # its loop looks at the time too; that it cannot be read comes first
                original(self, *args, **kwargs)
        raise
    try:
        return original(self, *args, **kwargs)
    except BaseException as error:
        if keeps_results(error):
            _take_what_there_is(self)
        raise


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


def values_of(evaluable: Any, places: Places) -> dict[str, Any]:
    """What output ports hold."""
    return {name: leaving(evaluable.enodes[node].evaluable_outputs[port].curr_value) for name, (node, port) in places.items()}


def ending_passes(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    """``EvaluableGraph.evaluate``: its scheduler goes on with another pass only if there is time, and another is allowed.

    It would go on for ever where no node runs any more and termination never holds.
    """
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


def warn_of_passes(passes: int, waits: Sequence[str] = ()) -> None:
    """Say that the end of an evaluation may never come, with the thresholds that it may wait for."""
    cause = f"look whether it reaches {', '.join(waits)}; perhaps" if waits else "perhaps"
    warn_user(
        f"one evaluation of the model has had {passes} passes, and its conditions of termination do not hold yet; {cause} it "
        "needs inputs that are not 0; options(timeout=...) ends it"
    )


def _limited(scheduler: Any, run: Callable[..., Iterator[Any]], *args: Any, **kwargs: Any) -> Iterator[Any]:
    """What a scheduler says runs next, as long as it may."""
    limit, time, is_said = current_options().max_iterations, scheduler.get_clock(None).time, False
    for ready in run(*args, **kwargs):
        at = time.pass_
        if at >= MANY_PASSES and not is_said:
            is_said = True
            warn_of_passes(at)
        what = f"pass {at} of MDF's scheduler" + ", in which no node runs" * (not ready)
        if limit is not None and at >= max(limit, 1):  # one pass is no going on
            error = IterationLimit(f"the model would go on; options(max_iterations={limit}) stops it here")
            error.within(what)
            raise error
        try:
            if at:  # the first pass reads the bodies of loops, which look at the time themselves: what cannot be read comes first
                check_time()
        except LoopTimeout as over:
            over.within(what)
            raise
        yield ready


log = logging.getLogger("mdf_loop.mdf")

_quiet: contextvars.ContextVar[bool] = contextvars.ContextVar("mdf_loop_quiet", default=False)


@contextlib.contextmanager
def quiet_mdf() -> Iterator[None]:
    """Send what MDF's engine prints to the log (level DEBUG).

    Where mdf_loop is registered with MDF the engine's own ``print`` does it, for this thread or task; otherwise all that is
    printed meanwhile goes there.
    """
    from modeci_mdf import execution_engine

    if "print" in vars(execution_engine):
        with holding(_quiet, True):
            yield
        return
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        yield
    for line in printed.getvalue().splitlines():
        log.debug(line)


def print_or_log(original: Callable[..., Any], *values: Any, **kwargs: Any) -> None:
    """What MDF's engine calls for ``print``: the same, unless it was asked to be quiet."""
    if _quiet.get():
        log.debug(" ".join(map(str, values)))
    else:
        original(*values, **kwargs)


_unheard: contextvars.ContextVar[bool] = contextvars.ContextVar("mdf_loop_unheard", default=False)


def unheard_inside(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``evaluate_expr`` of MDF's engine: unless it is asked for output, what it calls need not describe anything."""
    if kwargs.get("verbose") or args[4:5] == (True,):
        return original(*args, **kwargs)
    token = _unheard.set(True)
    try:
        return original(*args, **kwargs)
    finally:
        _unheard.reset(token)


def silent(original: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """A function that describes values, and says nothing where it is not printed."""
    return "" if _unheard.get() else original(*args, **kwargs)


OPSET = 15
"""The version of ONNX that MDF has them in."""


def drawn(called: str, said: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    """What a random operator of a node draws from the stream of the run.

    Parameters
    ----------
    called : str
        As MDF calls it: its name in small letters.
    said : mapping
        What the node says that MDF looks for inputs and attributes in.
    values : mapping
        The values of all that.

    Returns
    -------
    array or None
        None where it is left to MDF: it is no such operator, has a seed of its own, or nothing runs.
    """
    op, stream = _by_call().get(called), current_stream()
    seed = values.get("seed") if said.get("seed") is not None else None
    if op is None or stream is None or not (seed is None or is_no_seed(seed)):
        return None
    schema = schema_of(op, OPSET)
    assert schema is not None
    inputs = [to_onnx(np.asarray(values[formal.name])) for formal in schema.inputs if formal.name in said]
    given = [name for name in schema.attributes if name in said and name != "seed" and values.get(name) is not None]
    attributes = {name: _plain(values[name]) for name in given}
    return from_onnx(lookup(op, OPSET).run(*inputs, **attributes, rng=stream.shared()))


def said_of_seeds(graph: Any) -> str:
    """What is to be said of the seeds in a graph; an empty text if nothing is."""
    for node in graph.nodes:
        held = {parameter.id: parameter.value for parameter in node.parameters}
        for thing in (*node.functions, *node.parameters):
            name = thing.function if isinstance(thing.function, str) else ""
            seed = (thing.args or {}).get("seed", held.get("seed"))
            seed = held.get(seed, seed) if isinstance(seed, str) else seed
            if is_no_seed(seed) and name.removeprefix("onnx::").lower() in _by_call():
                return (
                    f"{node.id}/{thing.id}: seed -1 says that there is none, as PsyNeuLink writes it, and numbers are drawn "
                    "from the stream of the run; MDF's own engine takes -1 for a seed and draws the same number in every step"
                )
    return ""


@functools.cache
def _by_call() -> dict[str, str]:
    """The operators that only draw, by what MDF calls them."""
    load_kernels()
    drawing = (op for (domain, op), versions in KERNELS.items() if not domain and "rng" in _parameters(versions[-1].run))
    schemas = [(op, schema_of(op, OPSET)) for op in drawing]
    return {op.lower(): op for op, schema in schemas if schema is not None and schema.max_output == 1}


def _parameters(function: Any) -> Mapping[str, Any]:
    try:
        return inspect.signature(function).parameters
    except ValueError:  # a function of C
        return {}


def _plain(value: Any) -> Any:
    """An attribute as kernels take it."""
    array = np.asarray(value)
    return tuple(array.tolist()) if array.ndim else array.item()
