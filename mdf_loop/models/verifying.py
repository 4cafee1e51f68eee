"""Whether a model gives the same outputs wherever it can run: in each engine, in MDF's own, and in onnxruntime."""

from __future__ import annotations

import _thread
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.backend import prepare
from mdf_loop.calls.on_device import in_rows, key_of
from mdf_loop.convert.loading import load
from mdf_loop.convert.mdf_to_onnx import to_onnx
from mdf_loop.convert.written_models import FIRST_WITH_INITIALIZERS
from mdf_loop.errors import LoopTimeout, MalformedBody, let_through, shortened, warn_user
from mdf_loop.integrations.engine_runs import run_in_mdf, run_typed_in_mdf
from mdf_loop.integrations.input_places import with_inputs
from mdf_loop.integrations.model_constants import with_constants
from mdf_loop.ir import ValueType
from mdf_loop.kernels.arrays.bounds import MOST_ELEMENTS, elements_of
from mdf_loop.models.mdf import MdfModel
from mdf_loop.models.model import Model
from mdf_loop.models.opening import prepare as prepared
from mdf_loop.models.opening import run
from mdf_loop.models.to_jax import source_of
from mdf_loop.options import current_options, options
from mdf_loop.readers.mdf.typed import has_conditions, is_typed
from mdf_loop.settings.engines import DEFINITION, ENGINES, agreeing_engines
from mdf_loop.types.elements import DTYPES, kind_of

MDF, ONNXRUNTIME = "MDF", "onnxruntime"

SLOW, PATIENCE = 10.0, 60.0
"""Seconds of a run with inputs that were drawn after which a warning says what may be wrong with them, and it is ended."""

UNKNOWN_LENGTH = 2
"""A dimension that a model leaves open."""


@dataclass(frozen=True)
class Evaluator:
    """What a model gave at one place.

    Attributes
    ----------
    name : str
        The engine.
    outputs : mapping of str to value, or None
        None if it did not run.
    reason : str
        Why it did not run.
    is_failure : bool
        It could have run, and failed.
    """

    name: str
    outputs: Mapping[str, Any] | None
    reason: str = ""
    is_failure: bool = False


@dataclass(frozen=True)
class Verification:
    """What a model gave everywhere.

    Attributes
    ----------
    reference : mapping of str to value
        The outputs in the engine that says what is right.
    others : list of Evaluator
    inputs : mapping of str to value
        What the model was given.
    findings : mapping of (output, place) to str
        How an output there is related to the reference: ``"same"``, ``"within 1e-07 at [0, 3]"`` (the largest difference, and
        where it is) or what is different.
    disagreements : list of str
        What is wrong, in words.
    """

    reference: Mapping[str, Any]
    others: list[Evaluator]
    inputs: Mapping[str, Any]
    findings: dict[tuple[str, str], str] = field(default_factory=dict)
    disagreements: list[str] = field(default_factory=list)


def verify(
    path: Path,
    given: Mapping[str, Any],
    seed: int = 0,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    how: Mapping[str, Any] | None = None,
) -> Verification:
    """Run a model everywhere and compare.

    Parameters
    ----------
    path : Path
        A model file.
    given : mapping of str to value
        Inputs by name; those that are missing are drawn by their declared types.
    seed : int
        Of the inputs that are drawn, and of random operators.
    rtol, atol : float
        Numbers agree if they differ by at most ``atol + rtol * |reference|``.
    how : mapping, optional
        ``steps`` and ``time_increment``, as :func:`mdf_loop.run` takes them.

    Raises
    ------
    LoopError
        The model does not run in the engine that says what is right.
    """
    how = dict(how or {})
    model, inputs = opened(path, given, seed)
    invented = {name: value for name, value in inputs.items() if name not in given}
    source = path if path.suffix.lower() in (".onnx", ".xml") else model
    asked = {**inputs, **how}
    with options(engine=DEFINITION, seed=seed), ending_if_endless(invented):
        reference = run(source, **asked)
    with options(engine=DEFINITION, seed=seed + 1):
        is_random = bool(_differences(reference, run(source, **asked), 0.0, 0.0))
    engines = [name for name in agreeing_engines() if name != DEFINITION]
    others = [_engine(name, source, asked, seed) for name in engines]
    if not is_random:  # the scheduler may draw in another order
        others += _mdf(model, inputs, how, seed)
    others += [_device(name, model, inputs, how, seed, is_random) for name in ENGINES if ENGINES[name].device]
    others.append(_onnxruntime(path, model, inputs, how, is_random))
    report = Verification(reference, others, inputs)
    for place in others:
        _compare(report, place, rtol, atol)
    return report


@contextlib.contextmanager
def ending_if_endless(invented: Mapping[str, Any]) -> Iterator[None]:
    """Warn of a run that takes long with inputs that were drawn, and end it later: a loop may have no end with them.

    A deadline in its options would change how the model runs, so it is ended as by Ctrl-C, where this is the main thread.

    Raises
    ------
    LoopTimeout
    """
    if not invented or current_options().timeout is not None:
        yield
        return
    values = ", ".join(f"{name} = {shortened(' '.join(str(value).split()), 40)}" for name, value in invented.items())
    cure = f"If a loop has no end with them, give --set {next(iter(invented))}=... or --input; options(timeout=...) "
    slow = threading.Timer(SLOW, warn_user, [f"the model has run for {SLOW:g} s with {values}, drawn at random. {cure}stops it"])
    end = Strike()
    timers = [slow, *([end.timer] if threading.current_thread() is threading.main_thread() else [])]
    try:
        for timer in timers:
            timer.daemon = True
            timer.start()
        yield
        end.call_off()
    except KeyboardInterrupt:
        if not end.has_struck:
            raise
        said = f"the model did not end in {PATIENCE:g} s with {values}, drawn at random: no value was given"
        raise LoopTimeout(f"{said}. {cure}lets it run longer") from None
    finally:
        for timer in timers:
            timer.cancel()


class Strike:
    """Ctrl-C after some time, unless it is called off before."""

    def __init__(self) -> None:
        self.timer, self.has_struck = threading.Timer(PATIENCE, self._strike), False
        self._lock, self._is_off = threading.Lock(), False

    def _strike(self) -> None:
        with self._lock:
            if not self._is_off:
                self.has_struck = True
                _thread.interrupt_main()

    def call_off(self) -> None:
        """Not any more; if it struck already it raises KeyboardInterrupt here."""
        with self._lock:
            self._is_off = True
        if self.has_struck:
            time.sleep(1)


def opened(path: Path, given: Mapping[str, Any], seed: int) -> tuple[Any, dict[str, Any]]:
    """A model file with the constants that were given in it, and its inputs; those that are missing are drawn.

    Raises
    ------
    LoopError
        The model cannot be read, or no value of an input can be drawn.
    """
    model = load(path)
    made = prepared(model)
    kinds = needed(made, given)
    if isinstance(made, MdfModel) and path.suffix.lower() not in (".onnx", ".xml"):
        given, inside = made.told_apart(given)
        model.graphs[0] = with_constants(model.graphs[0], inside) if inside else model.graphs[0]
    return model, {**drawn(kinds, seed, set(given)), **given}


def _mdf(model: Any, inputs: Mapping[str, Any], how: Mapping[str, Any], seed: int) -> list[Evaluator]:
    """MDF's own engine, where it is not that already which the model runs in."""
    (graph,) = model.graphs
    if not how and is_typed(graph):
        return [_attempt(MDF, lambda: run_typed_in_mdf(graph, inputs), seed)]
    return [_attempt(MDF, lambda: run_in_mdf(with_inputs(graph, inputs), **how), seed)] if how or has_conditions(graph) else []


def _engine(name: str, model: Any, inputs: Mapping[str, Any], seed: int) -> Evaluator:
    return _attempt(name, lambda: run(model, **inputs), seed, engine=name)


def on_device(model: Any, inputs: Mapping[str, Any], how: Mapping[str, Any]) -> Callable[[], dict[str, Any]]:
    """A run by the engine, one on a device, with the seed of the options; what has no form there is an error."""
    made: list[Any] = []

    def call() -> dict[str, Any]:
        backend = current_options().how.on_device
        if not made:
            made.append(backend.Function(source_of(prepared(model), how)))
        found = backend.run_alone(made[0], key_of(current_options().seed or 0), inputs)
        return {name: rows for name, (rows, _) in in_rows(found, ()).items()}

    return call


def _device(name: str, model: Any, inputs: Mapping[str, Any], how: Mapping[str, Any], seed: int, is_random: bool) -> Evaluator:
    """The outputs by an engine on a device, where the model has a form there."""
    if is_random:
        return Evaluator(name, None, f"the model draws random numbers, and {ENGINES[name].title} draws others")
    return replace(_attempt(name, on_device(model, inputs, how), seed, engine=name), is_failure=False)


def _attempt(name: str, call: Callable[[], Mapping[str, Any]], seed: int, **chosen: Any) -> Evaluator:
    try:
        with options(seed=seed, **chosen):
            return Evaluator(name, call())
    except ImportError as error:
        return Evaluator(name, None, _message(error))
    except Exception as error:
        let_through(error)
        return Evaluator(name, None, _message(error), is_failure=True)


def _message(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _onnxruntime(path: Path, model: Any, inputs: Mapping[str, Any], how: Mapping[str, Any], is_random: bool) -> Evaluator:
    """The outputs in onnxruntime, where the model can be said in ONNX and onnxruntime has the operators."""
    if is_random:
        return Evaluator(ONNXRUNTIME, None, "the model draws random numbers")
    try:
        session, feed = onnxruntime_session(path, model, inputs, how)
    except ImportError:
        return Evaluator(ONNXRUNTIME, None, "not installed")
    except Exception as error:
        let_through(error)
        return Evaluator(ONNXRUNTIME, None, _message(error))
    return _attempt(ONNXRUNTIME, lambda: dict(zip(_outputs(session), session.run(None, feed), strict=True)), 0)


def onnxruntime_session(
    path: Path, model: Any, inputs: Mapping[str, Any], how: Mapping[str, Any] | None = None
) -> tuple[Any, dict[str, Any]]:
    """A session of onnxruntime over a model, and what to feed it.

    Raises
    ------
    ImportError
        It is not installed.
    Exception
        The model cannot be said in ONNX, or onnxruntime cannot take it.
    """
    import onnx
    import onnxruntime  # type: ignore[import-untyped]

    os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")  # it refuses the newest opsets without
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    is_onnx = path.suffix.lower() == ".onnx"
    written = onnx.load(path) if is_onnx else _written(model, inputs, how or {})
    written.ir_version = max(written.ir_version, FIRST_WITH_INITIALIZERS)  # in older files a default cannot be replaced
    fitted = prepare(written).fit({name: value for name, value in inputs.items() if name in _inputs(written)})
    session = onnxruntime.InferenceSession(written.SerializeToString(), settings)
    return session, {name: _fed(value) for name, value in fitted.items()}


def _written(model: Any, inputs: Mapping[str, Any], how: Mapping[str, Any]) -> Any:
    """An MDF model in ONNX; ports and parameters that are no inputs there have the values they were given."""
    graph = model.graphs[0]
    return to_onnx(model, **how) if is_typed(graph) else to_onnx(with_inputs(graph, inputs), **how)


def _fed(value: Any) -> Any:
    """A value as onnxruntime takes it."""
    return [np.asarray(item) for item in value] if isinstance(value, list) else None if value is None else np.asarray(value)


def _inputs(model: Any) -> set[str]:
    return {value.name for value in model.graph.input}


def _outputs(session: Any) -> list[str]:
    return [value.name for value in session.get_outputs()]


def _compare(report: Verification, place: Evaluator, rtol: float, atol: float) -> None:
    """Add to a report how the outputs at a place are related to the reference."""
    if place.outputs is None:
        if place.is_failure:
            report.disagreements.append(f"{place.name} failed: {place.reason}")
        return
    wrong = _differences(report.reference, place.outputs, rtol, atol)
    for name, value in report.reference.items():
        if name in wrong:
            report.findings[name, place.name] = wrong[name]
            report.disagreements.append(f"output {name!r} in {place.name}: {wrong[name]}")
        else:
            distance, where = _distance(value, place.outputs[name])
            report.findings[name, place.name] = f"within {distance:.0e}{where}" if distance else "same"


def _differences(reference: Mapping[str, Any], outputs: Mapping[str, Any], rtol: float, atol: float) -> dict[str, str]:
    """Which outputs differ, and how."""
    found = {}
    for name, value in reference.items():
        if name not in outputs:
            found[name] = "is missing"
        elif difference := _difference(value, outputs[name], rtol, atol):
            found[name] = difference
    return found


def _difference(wanted: Any, actual: Any, rtol: float, atol: float) -> str:
    """How two values differ; empty if they agree."""
    if wanted is None or actual is None:
        return "" if wanted is actual else "one of them is an empty optional"
    if isinstance(wanted, list) or isinstance(actual, list):
        if not isinstance(wanted, list) or not isinstance(actual, list) or len(wanted) != len(actual):
            return "the sequences have different lengths"
        return next((text for a, b in zip(wanted, actual, strict=True) if (text := _difference(a, b, rtol, atol))), "")
    wanted, actual = np.asarray(wanted), np.asarray(actual)
    if wanted.shape != actual.shape:
        return f"shape {list(actual.shape)}, not {list(wanted.shape)}"
    if wanted.dtype.kind in "OUS":
        return "" if (wanted.astype(object) == actual.astype(object)).all() else "other texts"
    kinds = kind_of(wanted.dtype), kind_of(actual.dtype)
    if kinds[0] != kinds[1] and set(kinds) != {"integer", "float"}:
        return f"type {actual.dtype}, not {wanted.dtype}"
    if np.allclose(_wide(actual), _wide(wanted), rtol=rtol, atol=atol, equal_nan=True):
        return ""
    distance, where = _distance(wanted, actual)
    return f"differs by {distance:.2g}{where}"


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _distance(wanted: Any, actual: Any) -> tuple[float, str]:
    """The largest difference of two values that have the same shape, and where it is; nan differs from numbers by infinity."""
    if isinstance(wanted, list):
        found = [(_distance(a, b), k) for k, (a, b) in enumerate(zip(wanted, actual, strict=True))]
        (most, where), k = max(found, key=lambda each: each[0][0], default=((0.0, ""), 0))
        return most, f" in value {k}{where}"
    if wanted is None or np.asarray(wanted).dtype.kind in "OUS":
        return 0.0, ""
    one, other = _wide(np.asarray(wanted)), _wide(np.asarray(actual))
    is_nan = np.isnan(one), np.isnan(other)
    with np.errstate(all="ignore"):
        distances = np.where((one == other) | (is_nan[0] & is_nan[1]), 0.0, np.abs(one - other))
    distances = np.where(is_nan[0] ^ is_nan[1], np.inf, distances)
    if not distances.size:
        return 0.0, ""
    place = np.unravel_index(np.argmax(distances), distances.shape)
    return float(distances[place]), f" at {[*map(int, place)]}" if place else ""


def needed(model: Model, given: Iterable[str] = ()) -> dict[str, ValueType]:
    """The inputs of a prepared model that have no value, by name, with what is declared of them; numbers of MDF are float64."""
    given = {*given}
    kinds = {name: port.type for name, port in model.inputs.items() if port.default is None and name not in given}
    if not isinstance(model, MdfModel) or model.typed is not None:
        return kinds
    taken = {each.place for name in given for each in model.places.of(name)}
    kinds = {name: kind for name, kind in kinds.items() if not any(each.place in taken for each in model.places.of(name))}
    return {name: ValueType(kind.dtype or np.dtype(float), kind.shape or ()) for name, kind in kinds.items()}


def drawn(kinds: Mapping[str, ValueType], seed: int | np.random.SeedSequence, given: set[str]) -> dict[str, Any]:
    """Values of declared types: numbers around 0, small integers; dimensions of one name have one length."""
    rng = np.random.default_rng(seed)
    return {name: _draw(kind, rng, name) for name, kind in kinds.items() if name not in given}


def _draw(kind: ValueType, rng: np.random.Generator, name: str) -> Any:
    if kind.kind == "sequence":
        return [_draw(kind.element or ValueType(), rng, name) for _ in range(UNKNOWN_LENGTH)]
    if kind.kind == "optional":
        return _draw(kind.element or ValueType(), rng, name)
    if kind.kind != "tensor":
        raise MalformedBody(f"values of input {name!r} ({kind}) cannot be drawn; give it")
    shape = tuple(dim if isinstance(dim, int) else UNKNOWN_LENGTH for dim in kind.shape or ())
    if elements_of(shape) > MOST_ELEMENTS:
        raise MalformedBody(f"values of input {name!r} ({kind}) are too many to be drawn; give it")
    dtype = DTYPES[1] if kind.dtype is None else kind.dtype
    if dtype.kind == "O":
        return np.array(rng.choice(["a", "b", "c"], shape), object)
    of_kind = kind_of(dtype)
    if of_kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    return (rng.integers(0, 4, shape) if of_kind == "integer" else rng.normal(size=shape)).astype(dtype)
