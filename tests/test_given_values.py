"""A value that is given is used, whatever default stands beside it: on every engine, and by every way into the library.

Change one input at a time: each engine's results change exactly when the interpreter's do, and are what it gives.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from bodies import MODELS
from engines import ENGINES
from given_values import others, with_defaults
from onnx import TensorProto, helper, numpy_helper, parser

import mdf_loop
from mdf_loop import backend, options
from mdf_loop.errors import IterationLimit, LoopError, MalformedBody
from mdf_loop.ir import Body
from mdf_loop.ir.check import check_body
from mdf_loop.models.explaining import needed_of
from mdf_loop.models.verifying import drawn

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from exported import models as exported_models

ROOT = Path(__file__).parent.parent
FAST = [engine for engine in ENGINES if engine != "interpret"]
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
        if value is None or isinstance(value, str | dict):
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
    given = drawn(needed_of(model), 0, set())
    changed = law(model, given, how, FAST, most=1 if len(model.inputs) > 8 or path.stem == "lorenz" else 3)
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


# What is no value of a model's input


@pytest.mark.parametrize("version", [3, 8])
@pytest.mark.parametrize("op", ["Loop", "Scan", "If", "SequenceMap"])
@pytest.mark.parametrize("engine", ENGINES)
def test_initializers_of_a_body_that_are_inputs_too_are_constants(op, version, engine):
    """As onnxruntime has it; files of ONNX's first versions list all initializers among the inputs."""
    given, body = {
        "Loop": (["n", "t", "z"], body_of(["i", "c", "w", "s"], ["c", "s2"], "s")),
        "Scan": (["z", "xs"], body_of(["w", "s", "x"], ["s2"], "s")),
        "If": (["t"], body_of(["w"], ["s2"], "z")),
        "SequenceMap": (["zs"], body_of(["s", "w"], ["s2"], "s")),
    }[op]
    attrs = {"then_branch": body, "else_branch": body} if op == "If" else {"body": body}
    attrs |= {"num_scan_inputs": 1} if op == "Scan" else {}
    nodes = [
        helper.make_node("Constant", [], ["n"], value_int=3),
        helper.make_node("Constant", [], ["t"], value=numpy_helper.from_array(np.array(True))),
        helper.make_node("Constant", [], ["xs"], value_floats=[0.0, 1.0, 2.0]),
        helper.make_node("SequenceConstruct", ["z"], ["zs"]),
        helper.make_node(op, given, ["r"], **attrs),
        *([helper.make_node("SequenceAt", ["r", "first"], ["y"]), helper.make_node("Constant", [], ["first"], value_int=0)]),
    ]
    nodes = [nodes[-1], *nodes[:-1]] if op == "SequenceMap" else nodes[:-2]
    outputs = [helper.make_tensor_value_info("y" if op == "SequenceMap" else "r", TensorProto.FLOAT, [])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("z", TensorProto.FLOAT, [])], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=version)
    with options(engine=engine):
        assert backend.run_model(model, {"z": F(1)})[0] == {"Loop": 7, "Scan": 7, "If": 3, "SequenceMap": 3}[op]
        assert (
            mdf_loop.run(mdf_loop.convert(model), z=1.0)[outputs[0].name] == {"Loop": 7, "Scan": 7, "If": 3, "SequenceMap": 3}[op]
        )


def body_of(inputs, outputs, read):
    """A body that adds ``w``, which is 2, to what it reads."""
    kinds = {"i": TensorProto.INT64, "c": TensorProto.BOOL}
    return helper.make_graph(
        [helper.make_node("Add", [read, "w"], ["s2"])],
        "b",
        [helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), []) for name in inputs],
        [helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), []) for name in outputs],
        [numpy_helper.from_array(F(2), "w")],
    )


def test_what_is_carried_wins_over_a_default_of_the_body():
    body = parser.parse_graph("b (int64 i, bool c, float s) => (bool c, float s2) { s2 = Add (s, s) }")
    body.initializer.append(numpy_helper.from_array(F(9), "s"))
    for engine in ENGINES:
        with options(engine=engine):
            assert mdf_loop.loop(3, True, 1.0, body=body) == 8


def test_a_shape_that_a_default_decides_is_not_declared():
    plain = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18]> g (float[n] x, int64[2] s) => (float y) { y = Reshape (x, s) }'
    )
    plain.graph.output[0].type.tensor_type.ClearField("shape")
    written = mdf_loop.to_onnx(mdf_loop.convert(with_defaults(plain, {"s": np.array([2, 3])})))
    assert not any(dim.HasField("dim_value") for dim in written.graph.output[0].type.tensor_type.shape.dim)
    assert mdf_loop.run(written, x=X, s=[3, 2])["y"].shape == (3, 2)


def test_no_constant_of_a_body_is_an_input():
    with pytest.raises(MalformedBody, match="is an input and a constant"):
        check_body(Body("b", ("x",), ("x",), constants={"x": F(1)}))
    with pytest.raises(MalformedBody, match="has a default, but is no input"):
        check_body(Body("b", ("x",), ("x",), defaults={"w": F(1)}))
    assert check_body(Body("b", ("x",), ("x",), defaults={"x": F(1)})).constants == {}
    assert "default x" in str(Body("b", ("x",), ("x",), defaults={"x": F(1)}))


# Names


@pytest.mark.parametrize(
    "name", ["self", "model", "source", "show_steps", "every", "collect", "seed", "steps", "trials", "record"]
)
def test_an_input_may_have_any_name(name):
    plain = parser.parse_model('<ir_version: 8, opset_import: ["": 18]> g (float x) => (float y) { y = Add (x, x) }')
    plain.graph.input[0].name = name
    plain.graph.node[0].input[:] = [name, name]
    for model in (plain, with_defaults(plain, {name: F(5)})):
        for source in (model, mdf_loop.convert(model), mdf_loop.to_onnx(mdf_loop.convert(model))):
            prepared = mdf_loop.prepare(source)
            for value in (1, 3.0):
                feed = {name: value}
                assert mdf_loop.run(source, **feed)["y"] == prepared(**feed)["y"] == 2 * value
                assert mdf_loop.sweep(source, {name: [value, 7.0]})["y"].values.tolist() == [2 * value, 14]
                assert prepared.explain(**feed).startswith(("no Loop or Scan ran", "the whole model was one program"))


@pytest.mark.parametrize("name", ["self", "args", "body_of", "named"])
def test_a_captured_value_may_have_any_name(name):
    text = f"b (int64 i, bool c, double x) => (bool c, double y) {{ y = Add (x, {name}) }}"
    feed = {name: 2.0}
    assert mdf_loop.loop(3, True, 1.0, body=text, **feed) == mdf_loop.compile(text)(3, True, 1.0, **feed) == 7


@pytest.mark.parametrize("name", ["fill", "chunk", "checkpoint", "workers", "outputs", "steps"])
def test_a_sweep_refuses_what_may_be_meant_as_an_input(name):
    plain = parser.parse_model('<ir_version: 8, opset_import: ["": 18]> g (float x) => (float y) { y = Add (x, x) }')
    plain.graph.input[0].name = name
    plain.graph.node[0].input[:] = [name, name]
    for source in (plain, mdf_loop.convert(plain)):
        with pytest.raises(mdf_loop.LoopError, match=f"{name} is an argument of sweep; give the input of that name in over="):
            mdf_loop.sweep(source, **{name: 3.0})
        assert mdf_loop.sweep(source, {name: [3.0]})["y"].values.tolist() == [6]


@pytest.mark.parametrize("attribute", ["value", "value_ints", "sparse_value", "other"])
@pytest.mark.parametrize("domain", ["", "ai.onnx.ml", "somebody.elses"])
@pytest.mark.parametrize("several", [False, True])
def test_a_constant_that_holds_a_graph_is_a_malformed_body(attribute, domain, several):
    inner = helper.make_graph([helper.make_node("Neg", ["x"], ["q"], domain=domain)], "in", [], [])
    constant = helper.make_node("Constant", [], ["c"])
    constant.attribute.append(helper.make_attribute(attribute, [inner] if several else inner))
    ports = [[helper.make_tensor_value_info(name, 1, [2])] for name in "xy"]
    graph = helper.make_graph([constant, helper.make_node("Add", ["x", "c"], ["y"])], "g", *ports)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(domain or "mine", 1)])
    for read in (
        backend.prepare,
        mdf_loop.prepare,
        mdf_loop.convert,
        lambda model: mdf_loop.if_(True, then_branch=model, else_branch=model),
    ):
        with pytest.raises(MalformedBody, match="Constant"):
            read(model)
