"""``compile``: a body read and planned once, called often, and asked how it runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mdf_loop.calls.calling import given_arguments, is_callable, listed, required, results_of
from mdf_loop.calls.explain import Explanation, Explanations, explained
from mdf_loop.calls.prepared import PreparedLoop, prepare_loop, prepare_scan, read_once
from mdf_loop.errors import ArgumentError
from mdf_loop.ir import Loop
from mdf_loop.options import current_options, public, start_run
from mdf_loop.readers.arguments import arranged
from mdf_loop.readers.expressions.equation_texts import AMBIENT, equations_in, is_equations, within
from mdf_loop.readers.expressions.equations import TAU, reads_tau
from mdf_loop.readers.onnx.loop_records import SCAN_ATTRIBUTES

_BY_NAME = {"M", "cond", "v_initial"}


class Compiled:
    """A Loop or a Scan over a body that was read once.

    Call it as :func:`mdf_loop.loop` or :func:`mdf_loop.scan`, without ``body``.
    """

    def __init__(self, source: Any, prepare: Callable[[Any], PreparedLoop], is_scan: bool) -> None:
        self._prepare, self._is_scan = prepare, is_scan
        self._source = source if is_equations(source) else None  # others mean the same whatever is given
        self._prepared = self._usual = prepare(source)
        self._takes_tau = self._source is not None and reads_tau(equations_in(self._source))
        body = self._prepared.record.body
        self._is_plain = {"M", "cond"}.isdisjoint(body.captures)
        self._by_name = {*_BY_NAME, *body.inputs, *AMBIENT} - {*body.captures}

    @public
    def __call__(self, /, *args: Any, **named: Any) -> Any:
        """Run the loop; arguments, results and errors as :func:`mdf_loop.loop` and :func:`mdf_loop.scan` have them."""
        source = self._source if AMBIENT.isdisjoint(named) else within(self._source, named)
        prepared = self._prepared = self._usual if source is self._source else self._prepare(source)
        record = prepared.record
        if self._is_scan:
            count, go = None, True
            inputs, named = arranged(record.body.inputs, args, named, record.body.captures, "scan")
        elif (
            self._is_plain
            and len(args) > 1
            and type(args[0]) is not str
            and type(args[1]) is not str
            and named.keys().isdisjoint(self._by_name)
        ):
            count, go, *inputs = args
        else:
            count, go, inputs, named = given_arguments(args, named, record.body)
        arguments, run = prepared.arguments(inputs, named, count, go), start_run()
        if self._takes_tau and source is self._source:
            run.warn_once("tau", f"equations: {TAU}")
        prepared.endless.refuse(arguments, run)
        return results_of(prepared, arguments, run)

    @property
    def record(self) -> Loop:
        """The loop as a record."""
        return self._prepared.record

    @property
    def collected(self) -> tuple[str, ...]:
        """The names of collected values in equations; none for other bodies, whose outputs have their names."""
        return () if self._source is None else tuple(equations_in(self._source).collected)

    def explain(self, source: bool = False, steps: bool = False) -> Explanation | Explanations:
        """Show how the loop runs: its plan, and the program that ran last; in engine ``jax`` the loops of the function.

        Parameters
        ----------
        source : bool
            Also show the Python source of recurrences, or of the whole loop.  It is for the types and shapes of the last
            call, so there is none before the first call.  Machine code has no Python source.
        steps : bool
            Also show the Step that the source or the machine code was made from: each value with its type.

        Returns
        -------
        str
            A notebook shows it as tables that you can expand.
        """
        if current_options().how.device and (function := self._prepared.on_device.latest) is not None:
            return Explanations.of([function.watched.explain()])
        return explained(self._prepared.execute, source, steps)

    def _repr_html_(self) -> str:
        """What a notebook shows: the plan."""
        return self.explain()._repr_html_()

    def __repr__(self) -> str:
        return f"<{'Scan' if self._is_scan else 'Loop'} over {self._prepared.record.body!r}>"


@public
def compile(body: Any, *, num_scan_inputs: int | None = None, **attributes: Any) -> Compiled:
    """Read and plan a body once, to call it often.

    Parameters
    ----------
    body : graph, ONNX text, path, MDF graph or dict
        As in :func:`mdf_loop.loop`, but not a Python callable, which cannot be planned.
    num_scan_inputs : int, optional
        The number of scanned inputs of a Scan.  Without it, the body is that of a Loop.
    **attributes : sequence of int
        For a Scan: scan_input_axes, scan_input_directions, scan_output_axes, scan_output_directions.

    Returns
    -------
    Compiled
        Call it like :func:`mdf_loop.loop` (or :func:`mdf_loop.scan`) without ``body``.  ``.explain()`` shows how it runs.

    Raises
    ------
    ArgumentError, MalformedBody, UnsupportedOp
        The body cannot be read, or uses an operator that has no kernel.

    Examples
    --------
    >>> import mdf_loop
    >>> add = mdf_loop.compile("b (int64 i, bool c, double s) => (bool c, double t) { x = Gather (w, i) t = Add (s, x) }")
    >>> add(4, True, 0.5, w=[1.0, 2.0, 3.0, 4.0])
    array(10.5)
    >>> print(add.explain())
    Loop over b: the trip count is given
    batched, a block of iterations at once:
      x = Gather (w, i)
      t = Add (s, x)  [add.accumulate]
    the last run had 4 iterations, interpreted
    """
    if is_callable(required(body, "compile", "body")):
        raise ArgumentError(
            "compile: a Python callable runs as it is; decorate it with @mdf_loop.body, or give a graph, ONNX text, a path or an "
            "MDF graph"
        )
    if num_scan_inputs is None:
        if attributes:
            raise ArgumentError(f"compile: {', '.join(sorted(attributes))} belong to a Scan; give num_scan_inputs as well")
        return Compiled(body, _loop_of, is_scan=False)
    if unknown := sorted(set(attributes) - set(SCAN_ATTRIBUTES)):
        raise ArgumentError(f"compile: a Scan has no attribute {', '.join(unknown)}; it has {', '.join(SCAN_ATTRIBUTES)}")
    attrs = {name: listed(name, axes) for name, axes in attributes.items() if axes is not None}
    return Compiled(body, functools.partial(_scan_of, num_scan_inputs, attrs), is_scan=True)


def _loop_of(body: Any) -> PreparedLoop:
    inner = read_once(body, None, "loop")
    return prepare_loop(inner, max(len(inner.inputs) - 2, 0))


def _scan_of(n_scanned: Any, attrs: Mapping[str, tuple[int, ...]], body: Any) -> PreparedLoop:
    inner = read_once(body, None, "scan")
    if not isinstance(n_scanned, int | np.integer) or not 1 <= n_scanned <= len(inner.inputs):
        raise ArgumentError(f"compile: num_scan_inputs must be a whole number from 1 to {len(inner.inputs)}; got {n_scanned!r}")
    return prepare_scan(inner, int(n_scanned), attrs)
