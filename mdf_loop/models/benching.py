"""How long a model takes wherever it can run: in each engine, and in onnxruntime."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdf_loop.backend import prepare
from mdf_loop.errors import let_through
from mdf_loop.models.opening import run
from mdf_loop.models.verifying import ONNXRUNTIME, ending_if_endless, on_device, onnxruntime_session, opened
from mdf_loop.options import options
from mdf_loop.readers.onnx.file import load_onnx
from mdf_loop.settings.engines import DEFINITION, ENGINES

AT_MOST_RUNS = 1000


@dataclass(frozen=True)
class Timing:
    """How long a model took at one place.

    Attributes
    ----------
    name : str
        The engine.
    seconds : float or None
        The median run; None if it did not run.
    runs : int
        How many there were after the first, which reads, plans and compiles.
    first : float or None
        How long that took.
    reason : str
        Why it did not run.
    """

    name: str
    seconds: float | None = None
    runs: int = 0
    first: float | None = None
    reason: str = ""


def bench(
    path: Path, given: Mapping[str, Any], seconds: float = 1.0, seed: int = 0, how: Mapping[str, Any] | None = None
) -> list[Timing]:
    """Run a model again and again at each place, and take the median: noise may end a loop early in one run, and late in another.

    Parameters
    ----------
    path : Path
        A model file.
    given : mapping of str to value
        Inputs by name; those that are missing are drawn by their declared types.
    seconds : float
        How long each place may take after its first run.
    seed : int
        Of the inputs that are drawn, and of random operators.
    how : mapping, optional
        ``steps`` and ``time_increment``, as :func:`mdf_loop.run` takes them.

    Returns
    -------
    list of Timing
        The reference engine first, onnxruntime last.

    Raises
    ------
    LoopError
        The model cannot be read.
    """
    how = dict(how or {})
    model, inputs = opened(path, given, seed)
    call = _call(path, model, {**inputs, **how})
    places = [DEFINITION, *(name for name in ENGINES if name != DEFINITION)]
    calls = {name: on_device(model, inputs, how) if ENGINES[name].device else call for name in places}
    invented = {name: value for name, value in inputs.items() if name not in given}
    found = [_timed(name, calls[name], seconds, seed, invented if name == DEFINITION else {}, engine=name) for name in places]
    return [*found, _in_onnxruntime(path, model, inputs, how, seconds)]


def _call(path: Path, model: Any, inputs: Mapping[str, Any]) -> Callable[[], Any]:
    """A run of what has been read."""
    if path.suffix.lower() == ".onnx":
        prepared = prepare(load_onnx(path))
        given = prepared.fit(inputs)
        return lambda: prepared.run(given)
    return lambda: run(path if path.suffix.lower() == ".xml" else model, **inputs)


def _in_onnxruntime(path: Path, model: Any, inputs: Mapping[str, Any], how: Mapping[str, Any], seconds: float) -> Timing:
    try:
        session, feed = onnxruntime_session(path, model, inputs, how)
    except ImportError:
        return Timing(ONNXRUNTIME, reason="not installed")
    except Exception as error:
        let_through(error)
        return Timing(ONNXRUNTIME, reason=" ".join(str(error).split()) or type(error).__name__)
    return _timed(ONNXRUNTIME, lambda: session.run(None, feed), seconds, 0, {})


def _timed(name: str, call: Callable[[], Any], seconds: float, seed: int, invented: Mapping[str, Any], **chosen: Any) -> Timing:
    """The median of as many runs as there is time for, each with random numbers of its own."""
    times = list[float]()
    try:
        with options(seed=seed, **chosen), ending_if_endless(invented):
            first = _seconds(call)
        end = time.perf_counter() + seconds
        while len(times) < AT_MOST_RUNS and (not times or time.perf_counter() < end):
            with options(seed=seed + len(times), **chosen):
                times.append(_seconds(call))
    except Exception as error:
        let_through(error)
        return Timing(name, reason=" ".join(str(error).split()) or type(error).__name__)
    return Timing(name, statistics.median(times), len(times), first)


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
