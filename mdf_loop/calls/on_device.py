"""What an engine on a device runs of a model or a loop, a loop as a graph that runs once, a warning where another one has to."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mdf_loop.calls.callables import Called, name_of
from mdf_loop.errors import ArgumentError, KindError, MalformedBody, NotLowered, UnsupportedOp, did_you_mean, warn_user
from mdf_loop.execute.interpret import Arguments
from mdf_loop.ir import Body, Loop, Node
from mdf_loop.options import Run, current_options
from mdf_loop.readers.expressions.equations import EQUATIONS
from mdf_loop.settings.random_streams import Seed
from mdf_loop.system.threads import Recent
from mdf_loop.types.fitting import fit_values
from mdf_loop.types.ports import Input, Output, Ports, numbered
from mdf_loop.types.required import Asked, asked_types

if TYPE_CHECKING:
    from mdf_loop.calls.prepared import PreparedLoop

T = TypeVar("T")

MOST = 64
"""Functions that are kept, kinds of calls that JAX has no form for, and reasons that were said once."""


class OnDevice:
    """What an engine on a device runs of a model or a loop.

    Parameters
    ----------
    name : str
        What warnings call it.
    source : callable
        ``source(**how)`` is what a function is made of; ``how`` says in which steps a model is evaluated.

    Attributes
    ----------
    latest : Function or None
        What ran last; None if another engine ran last.
    """

    latest: Any = None

    def __init__(self, name: str, source: Callable[..., Any]) -> None:
        self.name, self._source = name, source
        self._functions = Recent[Any](MOST)
        self._refused, self._warned = Recent[str](MOST), Recent[bool](MOST)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled without what was compiled."""
        return type(self), (self.name, self._source)

    def found(
        self, inputs: Mapping[str, Any], call: Callable[[Any], T], outputs: Sequence[str] | None = None, **how: Hashable
    ) -> T | None:
        """What a call of the function gives; None, with a warning, if it has no form there; None as well if the run is an error.

        Raises
        ------
        ArgumentError
            The call is wrong, or the back end has 32 bits where the model needs 64.
        """
        backend = current_options().how.on_device
        self.latest, key = None, (backend.__name__, outputs, *how.items())
        kind = (key, *((name, *_kind_of(value)) for name, value in inputs.items()))
        if (known := self._refused.get(kind)) is not None:
            self.left(known)
            return None
        try:
            function = self._functions.of(key, lambda: backend.Function(self._source(**how), outputs))
            result = call(function)
        except backend.FailsOnDevice:
            return None
        except (UnsupportedOp, NotLowered, MalformedBody) as reason:
            said = str(reason)
            self.left(self._refused.of(kind, lambda: said))
            return None
        self.latest = function
        return result

    def is_left(self, run: Run) -> bool:
        """Whether options ask for what no back end on a device can do, whatever it runs; warns if so."""
        ends = {
            "options(max_iterations=)": run.options.max_iterations is not None,
            "options(timeout=)": run.deadline is not None,
            "options(progress=)": run.watch is not None,
        }
        asked = [name for name, is_asked in ends.items() if is_asked]
        if asked:
            self.left(
                f"{' and '.join(asked)} needs a look at the loop while it runs, and {run.options.how.title} runs it as a whole"
            )
        return bool(asked)

    def left(self, reason: str) -> None:
        """Say, once, that engine ``numpy`` runs it, and why."""
        self.latest = None
        if self._warned.get(reason) is None:
            self._warned.of(reason, lambda: True)
            warn_user(f"{self.name} runs in engine 'numpy', not by {current_options().how.title}: {reason}")


def _kind_of(value: Any) -> tuple[Any, ...]:
    """What decides whether there is a form for an input: its type, and the value of a whole number."""
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", ())
    is_whole = isinstance(value, int) or (dtype is not None and shape == () and dtype.kind in "biu")
    return type(value), str(dtype), shape, int(value) if is_whole else None


def loop_on_device(prepared: PreparedLoop, arguments: Arguments, run: Run) -> list[Any] | None:
    """The results of a loop that was called by itself; None, with a warning, if it has no form there."""
    record, device, engine = prepared.record, prepared.on_device, run.options.how
    if called := next((value.function for value in arguments.captured if isinstance(value, Called)), None):
        device.left(
            f"{name_of(called)!r} is called in each iteration; @mdf_loop.body makes it a body that {engine.title} can run"
        )
        return None
    named = [*prepared.names, *record.body.captures]
    if not {"M", "cond"}.isdisjoint(named):
        device.left("a value of its body is called M or cond, as the trip count and the condition are")
        return None
    if device.is_left(run):
        return None
    limits = {} if record.scanned else {"M": arguments.trip_count, "cond": arguments.go}
    values = [*map(engine.on_device.traced, [*arguments.carried, *arguments.scanned]), *arguments.captured]
    inputs = {**limits, **dict(zip(named, values, strict=True))}
    key = key_of(run.stream.seed)
    found = device.found(inputs, lambda function: engine.on_device.run_alone(function, key, inputs))
    return None if found is None else [row for row, _ in in_rows(found, ()).values()]


def key_of(seed: Seed) -> int:
    """A number that begins the random numbers on a device, from a seed of ours."""
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(int(seed))
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))


def in_rows(found: Mapping[str, Any], lead: tuple[int, ...]) -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
    """What a function gives on a device as numpy's arrays, each with the lengths of its rows; of one run cut to its length."""
    made: dict[str, tuple[np.ndarray, np.ndarray | None]] = {}
    for name, value in found.items():
        array, lengths = value if isinstance(value, tuple) else (value, None)
        array = np.asarray(array)
        if not lead:
            made[name] = (array if lengths is None else array[: int(lengths)])[()], None
        elif array.ndim > len(lead):
            made[name] = array, np.full(lead, array.shape[1]) if lengths is None else np.asarray(lengths)
        else:
            made[name] = array, None
    return made


@dataclass(frozen=True)
class OpenGraph:
    """A graph that runs once, with some of its inputs open.

    Attributes
    ----------
    body : Body
    outputs : tuple of str
        What its outputs are called.
    inputs : mapping of str to str
        Which of its inputs and captures is which open input of the model.
    history : OpenRun or None
        How its outputs make up those of all evaluations of a scheduled graph.
    """

    body: Body
    outputs: tuple[str, ...]
    inputs: Mapping[str, str]
    history: Any = None


class LoopAlone:
    """A loop over a body: its trip count and condition, carried and captured values are inputs."""

    def __init__(self, loop: Loop, collected: Sequence[str] = ()) -> None:
        self.record = record = loop.with_state_carried()
        body, hidden = record.body, loop.body.state
        self.name, self._hidden = body.name, {state.input: state.initial for state in hidden}
        self._given = [c.input for c in loop.carried] + [s.input for s in record.scanned]
        names = [*(() if record.scanned else ("M", "cond")), *self._given, *body.captures]
        optional = {"M", "cond", *body.defaults}
        ports = {n: Input(n, body.type_of(n), body.defaults.get(n), "loop", n not in optional) for n in names}
        self.inputs: Mapping[str, Any] = Ports(ports)
        n, named = len(record.carried) - len(hidden), numbered(record.results)
        self._results = [*named[:n], *named[len(record.carried) :]]
        types = dict(zip(named, map(body.type_of, record.results), strict=True))
        of_carried = [c.input for c in record.carried[:n]] if body.name == EQUATIONS or body.places else named[:n]
        others = [name if body.typed else name.partition("~")[0] for name in record.results[len(record.carried) :]]
        self._outputs = numbered([*of_carried, *(collected or others)])
        ports_out = zip(self._outputs, self._results, strict=True)
        self.outputs: Mapping[str, Any] = Ports({name: Output(name, types[result], "loop") for name, result in ports_out})
        self._asked = asked_types(body, [(c.input, c.output) for c in record.carried]) if body.typed else {}

    def opened(self, known: Mapping[str, Any], traced: Mapping[str, Any]) -> OpenGraph:
        """A graph of this one loop."""
        record = self.record
        for name in (*known, *traced):
            if name not in self.inputs:
                meant = did_you_mean(name, self.inputs) or f"; it takes {', '.join(self.inputs)}"
                raise ArgumentError(f"the loop takes no {name!r}{meant}")
            if isinstance(value := known.get(name), str | Mapping) and value:
                raise KindError(f"{name!r} must be a number or an array; got {value!r}")
        given = {**self._hidden, **record.body.defaults, **{name: self.fitted(name, value) for name, value in known.items()}}
        there = {name for name, value in given.items() if value is not None} | {*traced}
        if missing := [name for name, port in self.inputs.items() if port.required and name not in there]:
            raise ArgumentError(f"the loop takes {', '.join(self.inputs)}; missing: {', '.join(missing)}")
        values = [c.input for c in record.carried] + [s.input for s in record.scanned]
        first, captures = [name if name in there else "" for name in ("M", "cond")], record.body.captures
        named = numbered(record.results)
        node = Node("Loop", (*first, *values), named, {"loop": record}, opset=1, captures=captures)
        reads = tuple(dict.fromkeys(node.reads))
        body = Body(self.name, reads, tuple(self._results), (node,), typed=record.body.typed)
        body = with_constants(body, {name: value for name, value in given.items() if name in reads and name not in traced})
        return OpenGraph(body, self._outputs, {name: name for name in traced if name in reads})

    def fitted(self, name: str, value: Any) -> Any:
        """A value in the element type that the body asks for."""
        return fitted_to(self._asked.get(name), name, value)

    def located(self, error: Exception) -> Exception:
        """The error itself."""
        return error


def fitted_to(asked: Asked | None, name: str, value: Any) -> Any:
    """A value in the element type that is asked for."""
    if asked is None or asked.dtype is None:
        return value
    if hasattr(value, "astype") and not isinstance(value, np.ndarray | np.generic):  # an array of JAX
        return value.astype(asked.dtype)
    return fit_values({name: asked}, {name: value})[name]


def with_constants(body: Body, constants: Mapping[str, Any]) -> Body:
    """A body in which some inputs are constants."""
    inputs = tuple(name for name in body.inputs if name not in constants)
    return Body(**{**vars(body), "inputs": inputs, "constants": {**body.constants, **constants}, "defaults": {}})
