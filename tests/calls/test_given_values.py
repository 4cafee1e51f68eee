"""A value that is given is used, whatever default stands beside it: on every engine, and by every way into the library.

Change one input at a time: each engine's results change exactly when the interpreter's do, and are what it gives.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from bodies import MODELS
from engines import ENGINES, SETTLED
from engines import OTHERS as FAST
from given_values import others, with_defaults
from onnx import parser

import mdf_loop
from mdf_loop import backend, options
from mdf_loop.errors import IterationLimit, LoopError
from mdf_loop.models.verifying import drawn, needed

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from exported import models as exported_models

ROOT = Path(__file__).parents[2]
F, I = np.float32, np.int64
X = np.arange(6, dtype=F)
ON = "c = Constant <value = bool {1}> () s = Constant <value = float {1}> ()"

CASES = {
    "added": ("(float[3] x, float[3] y) => (float[3] z) { z = Add (x, y) }", {"y": X[:3]}, {"x": X[1:4]}),
    "multiplied": ("(float[2] x, float[2,2] w) => (float[2] z) { z = MatMul (x, w) }", {"w": np.eye(2, dtype=F)}, {"x": X[:2]}),
    "shape": (
        "(float[6] x, int64[2] s) => (float[a] z) { o = Constant <value_ints = [0]> () y = Reshape (x, s) "
        "z = ReduceSum <keepdims = 0> (y, o) }",
        {"s": np.array([2, 3])},
        {"x": X},
    ),
    "lengths": ("(float[1] x, int64[1] s) => (float[a] z) { z = Expand (x, s) }", {"s": np.array([2])}, {"x": X[1:2]}),
    "axes": (
        "(float[2,3] x, int64[1] a) => (float[b] z) { z = ReduceSum <keepdims = 0> (x, a) }",
        {"a": np.array([0])},
        {"x": X.reshape(2, 3)},
    ),
    "places": (
        "(float[6] x, int64[1] b, int64[1] e) => (float[n] z) { z = Slice (x, b, e) }",
        {"b": np.array([1]), "e": np.array([4])},
        {"x": X},
    ),
    "index": ("(float[6] x, int64 k) => (float z) { z = Gather (x, k) }", {"k": I(2)}, {"x": X}),
    "range": (
        "(int64 b, int64 e) => (int64[n] z) { one = Constant <value_int = 1> () z = Range (b, e, one) }",
        {"b": I(1), "e": I(7)},
        {},
    ),
    "filled": ("(int64[1] s) => (float[n] z) { z = ConstantOfShape (s) }", {"s": np.array([2])}, {}),
    "largest": ("(float[6] x, int64[1] k) => (float[n] z, int64[n] at) { z, at = TopK (x, k) }", {"k": np.array([2])}, {"x": X}),
    "branch": (
        "(float x, bool c) => (float z) { z = If <then_branch = t () => (float p) { p = Add (x, x) }, "
        "else_branch = e () => (float q) { q = Neg (x) }> (c) }",
        {"c": np.True_},
        {"x": F(3)},
    ),
    "loop": (
        "(int64 n, bool c, float s, float d) => (float z, float[k] rows) { z, rows = Loop <body = b (int64 i, bool g, float a) "
        "=> (bool g2, float a2, float row) { g2 = Identity (g) a2 = Add (a, d) row = Mul (a, d) }> (n, c, s) }",
        {"n": I(3), "c": np.True_, "s": F(1), "d": F(0.5)},
        {},
    ),
    "computed count": (
        f"(int64 n, float d) => (float z) {{ m = Add (n, n) {ON} z = Loop <body = b (int64 i, bool g, float a) => (bool g, "
        "float a2) { a2 = Add (a, d) }> (m, c, s) }",
        {"n": I(30), "d": F(0.5)},
        {},
    ),
    "threshold": (
        f"(float limit, float d) => (float z) {{ m = Constant <value_int = 100> () {ON} z = Loop <body = b (int64 i, bool g, "
        "float a) => (bool g2, float a2) { e = Add (d, d) a2 = Add (a, e) g2 = Less (a2, limit) }> (m, c, s) }",
        {"limit": F(6), "d": F(0.5)},
        {},
    ),
    "two levels down": (
        f"(int64 n, float d) => (float z) {{ {ON} z = Loop <body = b (int64 i, bool g, float a) => (bool g, float a3) {{ a3 = "
        "Loop <body = u (int64 j, bool h, float r) => (bool h, float r2) { r2 = Add (r, d) }> (n, g, a) }> (n, c, s) }",
        {"n": I(3), "d": F(0.5)},
        {},
    ),
    "scan": (
        "(float s, float[k] xs, float w) => (float z, float[k] rows) { z, rows = Scan <num_scan_inputs = 1, body = b (float a, "
        "float x) => (float a2, float row) { y = Mul (x, w) a2 = Add (a, y) row = Neg (a2) }> (s, xs) }",
        {"s": F(1), "xs": X, "w": F(2)},
        {},
    ),
}
"""What the values of inputs decide: text, defaults, and what is given besides."""

FITTING = {
    ("shape", "s"): [np.array([3, 2]), np.array([1, 6]), np.array([6, 1])],
    ("axes", "a"): [np.array([1]), np.array([-1]), np.array([-2])],
}
"""Other values where not any will do."""


def feeds_of(name):
    """What one input after the other is given, while the others are left to their defaults; nothing first and last."""
    _, defaults, given = CASES[name]
    fed = [{**given, key: other} for key, value in defaults.items() for other in FITTING.get((name, key)) or others(value)]
    return [given, *fed, given]


def same(found, expected):
    """Whether two results are the same, but for what engines may add up in another order."""
    found, expected = np.asarray(found), np.asarray(expected)
    return found.shape == expected.shape and np.allclose(found, expected, rtol=1e-5, atol=1e-6, equal_nan=True)


def each(run):
    """A way that runs one feed after the other."""
    return lambda model, feeds, path: [run(model, feed) for feed in feeds]


def by_backend(model, feeds, path):
    prepared = backend.prepare(model)
    names = [value.name for value in model.graph.output]
    return [dict(zip(names, [prepared.run(prepared.fit(feed)) for _ in range(3)][-1], strict=True)) for feed in feeds]


def prepared_once(model, feeds, path):
    prepared = mdf_loop.prepare(model)
    return [[prepared(**feed) for _ in range(3)][-1] for feed in feeds]


def from_file(model, feeds, path):
    onnx.save(model, path / "model.onnx")
    return [mdf_loop.run(path / "model.onnx", **feed) for feed in feeds]


def recorded(model, feed):
    names = [value.name for value in model.graph.output]
    return {name: rows[0] for name, rows in mdf_loop.run(model, record=names, **feed).recorded.items()}


def swept(model, feed):
    """Two points that are the same, by values; what is no number is given to both."""
    numbers = {name: value for name, value in feed.items() if np.ndim(value) == 0}
    found = mdf_loop.sweep(model, [numbers, numbers], **{name: feed[name] for name in feed.keys() - numbers})
    return {name: found[name].values[0] for name in mdf_loop.prepare(model).outputs}


WAYS = {
    "backend": by_backend,
    "run": each(lambda model, feed: mdf_loop.run(model, **feed)),
    "prepared": prepared_once,
    "file": from_file,
    "recorded": each(recorded),
    "swept": each(swept),
    "converted": lambda model, feeds, path: prepared_once(mdf_loop.convert(model), feeds, path),
    "converted, as text": each(lambda model, feed: mdf_loop.run(mdf_loop.convert(model, body="onnx"), **feed)),
    "converted, swept": each(lambda model, feed: swept(mdf_loop.convert(model), feed)),
    "there and back": lambda model, feeds, path: prepared_once(mdf_loop.to_onnx(mdf_loop.convert(model)), feeds, path),
}


def model_of(name):
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> g {CASES[name][0]}')


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", CASES)
def test_what_is_given_counts_on_every_engine_by_every_way(name, sparse, tmp_path):
    plain, defaults = model_of(name), CASES[name][1]
    if sparse and not any(np.ndim(value) == 1 for value in defaults.values()):
        pytest.skip("has no vector that could be sparse")
    model, feeds = with_defaults(plain, defaults, sparse), feeds_of(name)
    with options(engine="interpret"):
        expected = [mdf_loop.run(plain, **{**defaults, **feed}) for feed in feeds]
    assert any(not same(found[key], expected[0][key]) for found in expected for key in found)
    for engine in ENGINES:
        for way, run in WAYS.items():
            with options(engine=engine):
                for feed, found, wanted in zip(feeds, run(model, feeds, tmp_path), expected, strict=True):
                    assert {key: value for key, value in wanted.items() if not same(found[key], value)} == {}, (engine, way, feed)


@pytest.mark.parametrize("name", CASES)
def test_onnxruntime_agrees(name):
    runtime = pytest.importorskip("onnxruntime")
    model = with_defaults(model_of(name), CASES[name][1])
    quiet = runtime.SessionOptions()
    quiet.log_severity_level = 3
    session = runtime.InferenceSession(model.SerializeToString(), quiet, providers=["CPUExecutionProvider"])
    prepared = backend.prepare(model)
    for feed in feeds_of(name):
        wanted = session.run(None, {key: np.asarray(value) for key, value in feed.items()})
        assert all(map(same, prepared.run(feed), wanted)), feed


def files():
    """The models that stand in the project."""
    found = [*(ROOT / "examples").glob("*.[yxo]*"), *(ROOT / "examples" / "gallery").glob("*.[yo]*"), *MODELS.glob("*.[xo]*")]
    return sorted(path for path in found if path.suffix in (".yaml", ".onnx", ".xml"))


SCHEDULED = {"oscillator": 30, "leaky_accumulator": 5, "threshold": 5}
"""Models of the project that also run in steps."""

RUNS = [(path, {}) for path in files()] + [(path, {"steps": SCHEDULED[path.stem]}) for path in files() if path.stem in SCHEDULED]
MOST = 20_000
"""Iterations up to which a value is one that a model can be given."""


def law(model, given, how, engines, most=3):
    """Change one input at a time; returns how many changes changed the interpreter's results."""
    start = outcome(model, given, how, "interpret")
    changed = 0
    for name, port in model.inputs.items():
        value = given.get(name, port.default)
        if value is None or isinstance(value, str | dict) or name == "steps":  # the argument of the call has this name
            continue
        for other in list(others(value))[:most]:
            feed = {**given, name: other}
            expected = outcome(model, feed, how, "interpret")
            if expected is IterationLimit or (isinstance(expected, dict) and not settled(expected)):
                continue
            changed += not alike(expected, start)
            for engine in engines:
                found = outcome(model, feed, how, engine)
                assert alike(found, expected), f"{name}={other!r} on {engine}: {found}, not {expected}"
    return changed


def outcome(model, feed, how, engine):
    """What a run gives by name, or the class of its error; for auto the third run, which may be compiled."""
    with options(engine=engine, seed=3, max_iterations=MOST if engine == "interpret" else None):
        try:
            return [dict(model(**feed, **how)) for _ in range(3 if engine == "auto" else 1)][-1]
        except LoopError as error:
            return type(error)


def settled(outputs):
    """Whether no number grew so large that the last places decide everything."""
    numbers = [np.asarray(value) for value in outputs.values() if np.asarray(value).dtype.kind == "f"]
    return all(np.isfinite(value).all() and np.abs(value).max(initial=0) < 1e6 for value in numbers)


def alike(found, expected):
    """Whether two outcomes are the same error, or the same results as far as long loops of mathematics go."""
    if not isinstance(found, dict) or not isinstance(expected, dict):
        return found is expected
    return found.keys() == expected.keys() and all(near(found[name], expected[name]) for name in expected)


def near(found, expected):
    found, expected = np.asarray(found), np.asarray(expected)
    if expected.dtype.kind not in "fc":
        return np.array_equal(found, expected)
    return found.shape == expected.shape and np.allclose(found, expected, rtol=1e-3, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize(("path", "how"), RUNS, ids=[f"{path.stem}{path.suffix}{''.join(how)}" for path, how in RUNS])
def test_every_input_of_the_projects_models_counts(path, how):
    model = mdf_loop.prepare(path)
    given = drawn(needed(model), 0, set())
    changed = law(model, given, how, SETTLED, most=1 if len(model.inputs) > 6 or path.stem == "lorenz" else 3)
    assert changed or not model.inputs or path.stem == "newton_fractal"  # where each start near by leads to the same root


@pytest.mark.parametrize("work", [*exported_models()], ids=lambda work: work.name)
def test_what_an_exported_loop_is_given_wins_over_its_defaults(work):
    """What its own inputs were becomes their defaults: given another value, it gives what it gives without defaults."""
    prepared = {engine: (backend.prepare(work.model), backend.prepare(with_defaults(work.model, work.inputs))) for engine in FAST}
    for name, value in work.inputs.items():
        for other in list(others(value))[:1]:
            for engine, (plain, defaults) in prepared.items():
                expected, found = (
                    of(run, feed, engine) for run, feed in ((plain, {**work.inputs, name: other}), (defaults, {name: other}))
                )
                assert alike(found, expected), (name, engine)


def of(prepared, feed, engine):
    """What a prepared model gives, or the class of its error."""
    with options(engine=engine, seed=3):
        try:
            return dict(enumerate(prepared.run(feed)))
        except LoopError as error:
            return type(error)
