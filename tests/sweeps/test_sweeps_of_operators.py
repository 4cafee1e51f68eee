"""Sweeps and trials of models of ONNX, OpenVINO and MDF that came from ONNX are their single runs, to the last bit."""

from pathlib import Path

import numpy as np
import onnx.parser
import pytest

pytest.importorskip("xarray")

from openvino_models import saved
from swept_models import loop_graph

import mdf_loop
from mdf_loop.sweeps import task as tasks
from mdf_loop.sweeps import vectors
from mdf_loop.sweeps.checkpoints.digest import lines_of
from mdf_loop.sweeps.sources import engine_of

MODELS = Path(__file__).parents[1] / "models"
HEAD = '<ir_version: 8, opset_import: ["" : 18]> '
ENGINES = ["interpret", "numpy", "jit", "auto"]

DIFFUSION = """m (double drift, int64 n, double start = {0.0}, double dt = {0.01}) => (double x, double t, double[k] path) {
  go = Constant <value = bool {1}> ()
  x, t, path = Loop (n, go, start, start) <body = b (int64 i, bool c, double x, double t)
      => (bool on, double y, double u, double y) {
    push = Mul (drift, dt) z = RandomNormalLike (x) r = Sqrt (dt) k = Mul (r, z) s = Add (push, k) y = Add (x, s) u = Add (t, dt)
    a = Abs (y) one = Constant <value = double {0.2}> () on = Less (a, one)
  }>
}"""
BODY = "b (int64 i, bool c, double v) => (bool on, double w) { on = Identity (c) %s }"
LOOP = "m (double x, int64 n) => (%s) { go = Constant <value = bool {1}> () %s }"


def looping(inside, outputs="double y", before="", behind="", start="x"):
    """A loop of one value, and what stands around it."""
    loop = f"{before} y = Loop (n, go, {start}) <body = {BODY % inside}> {behind}"
    return LOOP % (outputs, loop)


TEXTS = {
    "a diffusion": (DIFFUSION, {"drift": [-1.0, 0.0, 2.0]}, {"n": 40}),
    "a default swept": (DIFFUSION, {"dt": [0.01, 0.02], "start": [0.0, 0.1]}, {"n": 30, "drift": 1.0}),
    "lengths swept": (DIFFUSION, {"n": [0, 1, 7]}, {"drift": 1.0}),
    "exact": (looping("w = Mul (v, v)"), {"x": [0.5, 1.5, -1.0]}, {"n": 5}),
    "functions inside and around": (
        looping("e = Tanh (v) f = Exp (e) w = Sin (f)", "double z", "s = Exp (x)", "z = Log (y)", "s"),
        {"x": np.linspace(-1, 1, 7)},
        {"n": 5},
    ),
    "what passes by": (
        looping("w = Add (v, v)", "double y, double x2, double q", "x2 = Mul (x, x)", "q = Identity (y)"),
        {"x": [0.5, 1.5]},
        {"n": 3},
    ),
    "drawn around": (
        looping(
            "z = RandomUniformLike (v) w = Add (v, z)",
            "double y, double q",
            "s = RandomNormalLike (x)",
            "q = RandomNormalLike (y)",
            "s",
        ),
        {"x": [1.0, 2.0]},
        {"n": 3},
    ),
    "a seed of its own": (looping("z = RandomNormalLike <seed = 3.0> (v) w = Add (v, z)"), {"x": [1.0, 2.0]}, {"n": 3}),
    "two loops that draw": (
        LOOP
        % (
            "double y, double z",
            f"y = Loop (n, go, x) <body = {BODY % 'r = RandomNormalLike (v) w = Add (v, r)'}>"
            f" z = Loop (n, go, y) <body = {BODY % 'r = RandomUniformLike (v) w = Mul (v, r)'}>",
        ),
        {"x": [1.0, 2.0]},
        {"n": 4},
    ),
    "a loop in a loop": (
        looping(f"w = Loop (i, c, v) <body = {(BODY % 'w = Add (v, x)').replace('b (', 'inner (')}>"),
        {"x": [1.0, 0.1]},
        {"n": 4},
    ),
    "branches": (
        looping(
            "w = Add (v, x)",
            "double z",
            behind="p = Less (y, x) z = If (p) <then_branch = t () => (double o) { o = Exp (y) },"
            " else_branch = e () => (double o) { o = RandomNormalLike (y) }>",
        ),
        {"x": [1.0, -1.0]},
        {"n": 4},
    ),
    "rows of every length": (
        "m (double[k] x, int64 n) => (double[j] y, double s) { go = Constant <value = bool {1}> () "
        "y, s2 = Loop (n, go, x) <body = b (int64 i, bool c, double[k] v) => (bool on, double[j] w, double q) { "
        "on = Identity (c) w = Concat <axis = 0> (v, x) q = ReduceMax <keepdims = 0> (w) }> "
        "s = ReduceMax <keepdims = 0> (s2) }",
        {"n": [1, 2, 3]},
        {"x": [1.0, 2.0]},
    ),
    "scanned": (
        "m (float[3] x, float a) => (float[3] y, float t) { z = Constant <value = float {0.0}> () "
        "t, y = Scan <num_scan_inputs = 1, body = b (float s, float p) => (float u, float u) { q = Mul (p, a) u = Add (s, q) }> "
        "(z, x) }",
        {"a": [1, 2.5]},
        {"x": [1, 2, 3]},
    ),
    "without a loop": (
        "m (float[2] x, float a) => (float[1] y) <int64[1] zero = {0}, float[2, 1] w = {0.3, 0.7}> { "
        "s = Mul (x, a) h = Tanh (s) r = Unsqueeze (h, zero) p = MatMul (r, w) y = Squeeze (p, zero) }",
        {"a": [1, 2.5, 3]},
        {"x": [0.1, 0.2]},
    ),
    "halves and whole numbers": (
        "m (float16 x, int64 n, int32 k, bool c) => (float16 y, int32 q) { y, q = Loop (n, c, x, k) <body = "
        "b (int64 i, bool c, float16 v, int32 j) => (bool c, float16 w, int32 m2) { w = Add (v, v) m2 = Mul (j, j) }> }",
        {"x": [0.1, 3.0], "c": [True, False], "k": [3, 70000]},
        {"n": 3},
    ),
    "some that fail": (
        looping("t = Constant <value = double[3] {1.0, 2.0, 3.0}> () g = Gather (t, i) w = Add (v, g)"),
        {"n": [2, 3, 4]},
        {"x": 1.0},
    ),
}


def prepared_as(text, form):
    """A model of a text, as what it is prepared of."""
    model = onnx.parser.parse_model(HEAD + text)
    return mdf_loop.prepare(model if form == "onnx" else mdf_loop.convert(model))


def assert_single_runs(model, grid, given, engine, trials, outputs=None):
    """What a sweep gives is what its single runs give under its engine, to the last bit, as far as they go."""
    with mdf_loop.options(engine=engine):
        swept = mdf_loop.sweep(model, grid, trials=trials, seed=5, **given)
    names = outputs or list(model.outputs)
    shape = [len(values) for values in grid.values()]
    failed = 0
    with mdf_loop.options(engine=swept.attrs["engine"]):
        for p, place in enumerate(np.ndindex(*shape)):
            point = {name: values[k] for (name, values), k in zip(grid.items(), place, strict=True)}
            for trial in range(trials):
                try:
                    alone = model(**point, **given, seed=np.random.SeedSequence(5, spawn_key=(p, trial)))
                except mdf_loop.LoopError:
                    failed += 1
                    continue
                for name in names:
                    here, value = swept[name].values[(*place, trial)], np.asarray(alone[name])
                    np.testing.assert_array_equal(here[tuple(map(slice, value.shape))], value, err_msg=f"{name} at {point}")
                    assert here.dtype == value.dtype or failed or here.shape != value.shape
    assert len(swept.attrs["errors"]) == failed


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", TEXTS)
def test_a_sweep_of_an_onnx_model_is_its_single_runs(name, engine):
    text, grid, given = TEXTS[name]
    assert_single_runs(prepared_as(text, "onnx"), grid, given, engine, 3)


@pytest.mark.parametrize("engine", ["numpy", "jit", "auto"])
@pytest.mark.parametrize("name", TEXTS)
def test_a_sweep_of_a_converted_model_is_its_single_runs(name, engine):
    text, grid, given = TEXTS[name]
    assert_single_runs(prepared_as(text, "mdf"), grid, given, engine, 2)


@pytest.mark.parametrize("engine", ENGINES)
def test_trials_of_an_onnx_model_are_its_single_runs(engine):
    model = prepared_as(DIFFUSION, "onnx")
    with mdf_loop.options(engine=engine):
        r = model(drift=1.0, n=40, trials=20, seed=5)
        for k in range(20):
            alone = model(drift=1.0, n=40, seed=np.random.SeedSequence(5, spawn_key=(0, k)))
            count = len(alone["path"])
            assert (r["x"][k], r["t"][k]) == (alone["x"], alone["t"])
            assert r.iterations is None or r.iterations[k] == count  # where the whole graph is one program they are not known
            np.testing.assert_array_equal(r["path"][k][:count], alone["path"])


@pytest.mark.parametrize("name", ["ddm_ts", "for_ts", "nested_ts", "while_ts", "scan_dyn", "while_loop_dyn", "cond_dyn"])
@pytest.mark.parametrize("engine", ["numpy", "jit"])
def test_a_sweep_of_an_exported_model_is_its_single_runs(name, engine):
    model = mdf_loop.prepare(MODELS / f"{name}.onnx")
    rng = np.random.default_rng(2)

    def value(port):
        shape = [n if isinstance(n, int) else 3 for n in port.type.shape or ()]
        return (
            rng.normal(size=shape).astype(port.type.dtype) if port.type.dtype.kind == "f" else np.full(shape, 3, port.type.dtype)
        )

    first, *others = model.inputs.values()
    assert_single_runs(model, {first.name: [value(first) for _ in range(3)]}, {p.name: value(p) for p in others}, engine, 2)


@pytest.mark.parametrize(("name", "is_run"), [("a diffusion", True), ("exact", True), ("functions inside and around", True)])
def test_runs_of_an_onnx_model_are_not_run_one_by_one(name, is_run, monkeypatch):
    text, grid, given = TEXTS[name]
    monkeypatch.setattr(tasks.Task, "warn_of_loops", lambda _: None)  # which looks at the first run
    monkeypatch.setattr(tasks.Task, "_alone", lambda self, k, run: pytest.fail("a run by itself"))
    for form in ("onnx", "mdf"):
        with mdf_loop.options(engine="jit"):
            assert mdf_loop.sweep(prepared_as(text, form), grid, trials=4, seed=1, **given).sizes["trial"] == 4


def test_engines_that_agree_stay_what_was_chosen():
    assert is_exact("a diffusion")
    assert not is_exact("functions inside and around")
    assert not is_exact("drawn around")


def is_exact(name):
    """Whether all engines give the same bits for the first point of a grid."""
    text, grid, given = TEXTS[name]
    model, inputs = prepared_as(text, "onnx"), {**given, **{key: values[0] for key, values in grid.items()}}
    return engine_of("auto", model, inputs, [*model.outputs]) == "auto"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_sweep_of_an_openvino_model_is_its_single_runs(engine):
    model = mdf_loop.prepare(MODELS / "ov_loop.xml")
    x = np.float32(np.arange(np.prod(model.inputs["X"].type.shape)).reshape(model.inputs["X"].type.shape))
    s = np.float32(np.ones(model.inputs["S"].type.shape))
    assert_single_runs(model, {"S": [s, 2 * s, s / 3]}, {"X": x}, engine, 2)


@pytest.mark.parametrize("engine", ENGINES)
def test_variables_of_openvino_begin_in_each_run(engine, tmp_path):
    ov = pytest.importorskip("openvino")
    from openvino import opset13 as ops

    x = ops.parameter([2], np.float32, name="x")
    kept = ops.read_value(ops.constant(np.float32([1, 2])), "v", ov.Type.f32, ov.PartialShape([2]))
    added = ops.add(kept, x)
    model = ov.Model([ops.result(ops.multiply(added, x))], [ops.assign(added, "v")], [x], "keeping")
    model = mdf_loop.prepare(saved(model, tmp_path))
    assert_single_runs(model, {next(iter(model.inputs)): [np.float32([1, 2]), np.float32([3, 4])]}, {}, engine, 3)


def test_types_of_a_prepared_model_are_found_once(monkeypatch):
    calls = []
    infer = mdf_loop.backend.asked_types
    monkeypatch.setattr(mdf_loop.backend, "asked_types", lambda body: calls.append(body) or infer(body))
    model = prepared_as(TEXTS["exact"][0].replace("m (", "not_prepared_before (", 1), "onnx")
    for x in (0.5, 1, np.float32(2), np.array(1.5)):
        model(x=x, n=2)
    mdf_loop.sweep(model, {"x": [1.0, 2.0]}, n=2)
    assert len(calls) == 1


def test_a_model_that_was_called_is_the_same_to_a_checkpoint():
    model = prepared_as(TEXTS["exact"][0], "onnx")
    before = lines_of(tasks.Task(model, {"n": 2}))
    model(x=1.0, n=2), mdf_loop.sweep(model, {"x": [1.0, 2.0]}, n=2)
    assert lines_of(tasks.Task(model, {"n": 2})) == before


@pytest.mark.parametrize("asked", ["Size (h)", "Shape (h)"])
def test_what_depends_on_the_form_of_values_stays_that_of_one_run(asked):
    body = f"b (int64 i, bool c, double[n] x) => (bool c, double[n] h, k) {{ h = Mul (x, x) k = {asked} }}"
    model = mdf_loop.prepare(loop_graph(body, {"x": [1.0]}, {"x": "x"}, ["run[1]"], m=9))
    for engine in ("interpret", "numpy"):
        with mdf_loop.options(engine=engine):
            found = mdf_loop.sweep(model, {"x": [[1.0], [3.0]]}).o0.values
        np.testing.assert_array_equal(found, 1)


@pytest.mark.parametrize(("block_bytes", "most"), [(1 << 22, 64), (1 << 12, 4), (1 << 9, 1)])
def test_numpy_computes_as_many_runs_at_once_as_a_block_has_room_for(block_bytes, most, monkeypatch):
    body = "b (int64 i, bool c, double[100] v) => (bool on, double[100] w) { on = Identity (c) u = Mul (v, k) w = Add (u, k) }"
    text = f"m (double k, double[100] x, int64 n) => (double[100] y) {{ y = Loop (n, , x) <body = {body}> }}"
    found, original = [0], vectors.vmap
    monkeypatch.setattr(vectors, "vmap", lambda step, differs, lanes: found.append(lanes) or original(step, differs, lanes))
    with mdf_loop.options(engine="numpy", block_bytes=block_bytes):
        model = mdf_loop.prepare(onnx.parser.parse_model(HEAD + text))
        swept = mdf_loop.sweep(model, {"k": np.linspace(0, 1, 64)}, x=np.arange(100.0), n=3)
    assert max(found) == most
    for k, row in zip(swept.k.values, swept.y.values, strict=True):
        np.testing.assert_array_equal(row, model(k=k, x=np.arange(100.0), n=3)["y"])
