"""How a loop ends: by its trip count, by its condition, never, by nan, and by a body that means to end it."""

import warnings
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from commands import run_main
from modeci_mdf.mdf import Graph, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.errors import ArgumentError, IterationError, IterationLimit, LoopTimeout, LoopWarning, UnsupportedOp

ENGINES = ["interpret", "numpy", "jit", "auto"]
HUGE = 2**63 - 1


@pytest.fixture(params=ENGINES)
def engine(request):
    """Every engine in turn."""
    with mdf_loop.options(engine=request.param):
        yield request.param


@mdf_loop.body
def traced(i, go, x):
    """Hands its condition on."""
    return go, x + 1


ONNX = "b (int64 i, bool c, double x) => (bool d, double y) {{ {} y = Add(x, x) }}"
MDF = {
    "graph_b": {
        "metadata": {"inputs": ["i", "c", "x"], "outputs": ["c", "y"]},
        "nodes": {"n": {"input_ports": {"x": {}}, "output_ports": {"y": {"value": "x + 1"}}}},
    }
}
NEVER = {
    "handed on": ("x: x + 1", {}),
    "constant": ("x: x + 1\nwhile: 1 < 2", {}),
    "captured": ("x: x + 1\nwhile: limit > 0", {"limit": 1.0}),
    "carried": ({"carried": {"x": "x + 1", "limit": "limit"}, "while": "limit > 0"}, {"limit": 1.0}),
    "onnx handed on": ("b (int64 i, bool c, double x) => (bool c, double y) { y = Add(x, x) }", {}),
    "onnx identity": (ONNX.format("d = Identity(c)"), {}),
    "onnx constant": (ONNX.format("d = Constant<value = bool {1}>()"), {}),
    "onnx joined": (ONNX.format("t = Constant<value = bool {1}>() d = Or(c, t)"), {}),
    "traced": (traced, {}),
    "mdf": (MDF, {}),
}


@pytest.mark.parametrize("m", [None, HUGE, np.array([HUGE])], ids=["no M", "M", "array"])
@pytest.mark.parametrize("name", NEVER)
def test_a_loop_that_never_ends_is_refused(name, m, engine):
    body, given = NEVER[name]
    with pytest.raises(ArgumentError, match=r"would never end.*Give M.*condition"):
        mdf_loop.loop(m, True, 1.0, body=body, **given)
    with mdf_loop.options(max_iterations=3), pytest.raises(IterationLimit):
        mdf_loop.loop(m, True, 1.0, body=body, **given)


def test_time_may_end_a_loop(engine):
    with mdf_loop.options(timeout=0.05), pytest.raises(LoopTimeout):
        mdf_loop.loop(None, True, 1.0, body="x: x + 1")


@pytest.mark.parametrize("m", [None, HUGE])
def test_what_may_end_runs(m, engine):
    assert mdf_loop.loop(m, False, 1.0, body="x: x + 1") == 1.0
    assert mdf_loop.loop(m, True, 8.0, body="x: x / 2\nwhile: x > 1") == 1.0
    assert mdf_loop.loop(m, True, 8.0, body="x: x / 2\nwhile: go", go=False) == 4.0
    counted = ONNX.format("two = Constant<value = int64 {2}>() d = Less(i, two)")
    assert mdf_loop.loop(m, True, 1.0, body=counted) == 8.0


def test_a_loop_inside_another_is_refused_as_well(engine):
    inner = "inner (int64 j, bool cc, double a) => (bool cc, double b) { b = Add(a, a) }"
    for m in ("m", ""):
        text = f"o (int64 i, bool c, double x) => (bool c, double y) {{ m = Constant<value = int64 {{{HUGE}}}>() "
        with pytest.raises(mdf_loop.LoopError, match="would never end"):
            mdf_loop.loop(3, True, 1.0, body=f"{text} y = Loop({m}, c, x) <body = {inner}> }}")


def test_while_ends_a_loop_without_cond(engine):
    for m in (1000, None):
        assert mdf_loop.loop(m, None, 8.0, body="x: x / 2\nwhile: x > 1") == 1.0
        assert mdf_loop.compile("x: x / 2\nwhile: x > 1")(m, None, 8.0) == 1.0
    assert mdf_loop.loop(1000, False, 8.0, body="x: x / 2\nwhile: x > 1") == 8.0


MODEL = """
m:
  format: ModECI MDF v0.4
  graphs:
    g:
      nodes:
        n:
          parameters:
            start: {value: 8.0}
            body: {value: BODY}
            run: {function: onnx::Loop, args: {ARGS x: start, body: body}}
          output_ports: {x: {value: run}}
"""


def written(folder, body, args=""):
    """A model file."""
    path = folder / "model.yaml"
    path.write_text(MODEL.replace("BODY", body).replace("ARGS", args))
    return path


@pytest.mark.parametrize("args", ["", "M: 1000,"])
def test_while_ends_a_loop_of_a_model(tmp_path, args, engine):
    path = written(tmp_path, "{carried: {x: x / 2}, while: x > 1}", args)
    assert mdf_loop.run(path)["x"] == 1.0
    assert mdf_loop.run(path, steps=2)["x"] == 1.0
    assert mdf_loop.sweep(path, over={"start": [8.0, 9.0]})["x"].values.tolist() == [1.0, 0.5625]
    onnx_model = mdf_loop.to_onnx(path)
    assert mdf_loop.backend.run_model(onnx_model, [])[0] == 1.0
    assert mdf_loop.run(mdf_loop.convert(onnx_model))["x"] == 1.0


@pytest.mark.parametrize(
    "body", ["{carried: {x: x + 1}}", "{carried: {x: x + 1}, while: true}", "{carried: {x: x + 1}, while: start > 0}"]
)
def test_check_finds_what_never_ends(tmp_path, body):
    for args in ("cond: true,", f"M: {HUGE}, cond: true,"):
        path = written(tmp_path, body, args)
        assert any("would never end" in problem.message and problem.line for problem in check(path))
        with pytest.raises(ArgumentError, match="would never end"):
            mdf_loop.run(path)
    assert not [p for p in check(written(tmp_path, body, "M: 10,")) if p.kind == "error"]


def told(call):
    """What a call gives, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = call()
    return found, [str(warning.message) for warning in caught if issubclass(warning.category, LoopWarning)]


NAN = {
    "carried": ("v: v + 0.1 * (1 - v)\nwhile: v < 1", {"v": np.nan}, "iteration 0 of Loop.*compares v, which is nan"),
    "captured": ("v: v + 1\nwhile: v < limit", {"v": 0.0, "limit": np.nan}, "iteration 0 of Loop.*limit"),
    "later": ("v: v * 10\nw: v - v\nwhile: abs(w) < 1", {"v": 1e300, "w": 0.0}, "iteration 9 of Loop.*w"),
    "computed": ("v: v\nw: w\nn: n + 1\nwhile: v / w < 1", {"v": 0.0, "w": 0.0, "n": 0}, "computed of v, w"),
    "joined": ("v: v + 1\nwhile: v > 0 and v < limit", {"v": 0.0, "limit": np.nan}, "iteration 0 of Loop"),
    "onnx": (
        "b (int64 i, bool c, double x) => (bool d, double y) { y = Sqrt(x) o = Constant<value = double {9}>() d = Less(y, o) }",
        {"x": -1.0},
        "iteration 0 of Loop.*x",
    ),
}


@pytest.mark.parametrize("name", NAN)
def test_nan_in_a_condition_warns(name, engine):
    body, given, said = NAN[name]
    with pytest.warns(LoopWarning, match=said) as found:
        mdf_loop.loop(100, True, body=body, **given)
    assert len(found) == 1  # the condition is not inverted


COMPARES = """<ir_version: 10, opset_import: ["" : 20]>
g (float s, float z) => (float r) <int64 M = {9}, bool go = {1}, float k = {3.0}> {
    r = Loop <body = b (int64 i, bool c, float x) => (bool d, float y) { y = %s %s }> (M, go, s) }
"""
CONDITIONS = {
    "before": "d = Less (x, k)",
    "behind": "d = Less (y, k)",
    "captured": "d = Less (z, k)",
    "computed": "q = Div (x, z) d = LessOrEqual (q, k)",
}


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("step", ["Log (x)", "Add (x, x)", "Identity (z)", "Sub (x, z)"])
@pytest.mark.parametrize("given", [(-1.0, 1.0), (1.0, 1.0), (4.0, np.nan), (np.nan, 1.0), (0.0, 0.0), (np.inf, np.inf)], ids=str)
def test_every_engine_tells_of_nan_in_a_loop_of_a_graph_and_of_nothing_else(condition, step, given):
    """The graph is one program in most engines: it leaves the run to those that warn."""
    model, found = onnx.parser.parse_model(COMPARES % (step, CONDITIONS[condition])), {}
    inputs = [np.float32(x) for x in given]
    for how in ENGINES:
        with mdf_loop.options(engine=how):
            prepared = mdf_loop.backend.prepare(model)
            found[how] = [told(lambda prepared=prepared: prepared.run(inputs)) for _ in range(2)]
    for how in ENGINES:
        assert repr(found[how]) == repr(found["interpret"]), how


GIVEN = [(1.0, 1.0), (-1.0, 1.0), (4.0, np.nan), (np.nan, 1.0), (0.0, 0.0), (np.inf, np.inf)]


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("step", ["Log (x)", "Sub (x, z)"])
def test_a_sweep_tells_of_the_first_run_whose_condition_compares_nan(condition, step, engine):
    model = mdf_loop.prepare(onnx.parser.parse_model(COMPARES % (step, CONDITIONS[condition])))
    alone = [told(lambda s=s, z=z: model(s=np.float32(s), z=np.float32(z)))[1] for s, z in GIVEN]
    over = [{"s": np.float32(s), "z": np.float32(z)} for s, z in GIVEN]
    for chunk in (None, 2):
        _, said = told(lambda chunk=chunk: mdf_loop.sweep(model, over, trials=3, chunk=chunk))
        first = next((k for k, each in enumerate(alone) if each), None)
        assert [text.partition(" (")[0] for text in said] == ([] if first is None else [f"point {first}"])
        assert all(text.endswith(alone[first][0]) for text in said)


DIFFUSION = Path(__file__).parents[2] / "examples" / "drift_diffusion.yaml"
HOW = {"seed": 1, "outputs": ["reaction_time"]}


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("drift", {}),
        ("bound", {"reduce": "mean"}),
        ("drift", {"reduce": [0.5], "chunk": 7}),
        ("bound", {"workers": 2, "chunk": 7}),
        ("drift", {"chunk": 1}),
    ],
    ids=str,
)
def test_nan_that_no_output_shows_is_reported_once_by_a_sweep(engine, name, how):
    over = {name: [0.5, np.nan, 1.0]}
    _, said = told(lambda: mdf_loop.sweep(DIFFUSION, over, trials=8, **HOW, **how))
    assert len(said) == 1
    assert said[0].startswith(f"point 1 ({name}=nan), trial 0, and perhaps other runs: iteration 0 of Loop")
    assert told(lambda: mdf_loop.sweep(DIFFUSION, {name: [0.5, 1.0]}, trials=8, **HOW, **how))[1] == []


def test_trials_and_stores_tell_of_nan_once(engine, tmp_path):
    _, said = told(lambda: mdf_loop.run(DIFFUSION, drift=np.nan, trials=20, seed=1))
    assert len(said) == 1
    assert said[0].startswith("trial 0, and perhaps other runs: iteration 0 of Loop")
    over = {"drift": [0.5, np.nan]}
    _, said = told(lambda: mdf_loop.sweep(DIFFUSION, over, trials=20, store=tmp_path / "s.zarr", **HOW))
    assert len(said) == 1
    assert said[0].startswith("point 1 (drift=nan), trial 0, and perhaps other runs: iteration 0 of Loop")


@pytest.mark.parametrize("how", [{}, {"store": "s.zarr"}], ids=str)
def test_a_sweep_whose_warning_is_an_error_keeps_its_results(tmp_path, monkeypatch, how):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LoopWarning)
        with pytest.raises(LoopWarning) as raised:
            mdf_loop.sweep(DIFFUSION, {"drift": [0.5, np.nan]}, trials=8, **HOW, **how)
        assert raised.value.results.reaction_time.shape == (2, 8)
        with pytest.raises(LoopWarning) as raised:
            mdf_loop.run(DIFFUSION, drift=np.nan, trials=20, seed=1)
    assert raised.value.results["reaction_time"].shape == (20,)


def test_runs_that_take_long_are_not_run_again_for_their_warnings(monkeypatch):
    monkeypatch.setattr("mdf_loop.sweeps.task.AGAIN", 1e-9)
    over = {"drift": [0.5, np.nan]}
    assert told(lambda: mdf_loop.sweep(DIFFUSION, over, trials=20, **HOW))[1] == []
    _, said = told(lambda: mdf_loop.sweep(DIFFUSION, over, chunk=1, **HOW))  # each run by itself: it is known which one warns
    assert said == ["point 1 (drift=nan), trial 0, and perhaps other runs: it has a warning; run it by itself to see which"]


def test_a_value_that_becomes_nan_behind_the_comparison_is_not_reported(engine):
    model = onnx.parser.parse_model(COMPARES % ("Identity (z)", "d = Equal (x, k)"))
    assert told(lambda: mdf_loop.backend.run_model(model, [np.float32(1), np.float32(np.nan)]))[1] == []


def test_numbers_in_a_condition_do_not_warn(engine):
    for body, given in (("v: v + 1\nwhile: v < 5", {"v": 0.0}), ("v: v / w\nw: w\nwhile: v / w > 1", {"v": 8.0, "w": 2.0})):
        assert told(lambda body=body, given=given: mdf_loop.loop(100, True, body=body, **given))[1] == []
    nan_aside = "v: v + 1\nw: w * 2\nwhile: v < 5"
    assert told(lambda: mdf_loop.loop(100, True, body=nan_aside, v=0.0, w=np.nan))[1] == []


BREAKS = """<ir_version: 8, opset_import: ["" : 18]> g (int64 n, float x) => (float y) {
    y = Loop (n, , x) <body = b (int64 i, bool c, float a) => (bool d, float e) {
        two = Constant <value = float {2.0}> () e = Mul (a, two)
        most = Constant <value = float {100.0}> () d = Less (e, most) }> }
"""
"""What onnxscript makes of ``for i in range(n): ...; if a >= 100: break``."""


def test_a_body_that_breaks_is_reported_and_obeyed(engine):
    model, inputs = onnx.parser.parse_model(BREAKS), [np.int64(10), np.float32(1)]
    (found,), said = told(lambda: mdf_loop.backend.run_model(model, inputs))
    assert found == 1024
    (message,) = said
    assert all(part in message for part in ("obey_body_condition=True", "--obey-body-condition", "break"))
    with mdf_loop.options(obey_body_condition=True):
        (found,), said = told(lambda: mdf_loop.backend.run_model(model, inputs))
    assert (found, said) == (128, [])


@pytest.mark.parametrize("how", ["numpy", "jit"])
def test_no_engine_falls_back_for_a_body_that_is_obeyed(how):
    """The plan is that of the same loop with a condition that is given."""
    computed = "k = Constant<value = double {1.01}>() y = Mul(x, k) l = Constant<value = double {1e30}>() d = Less(y, l)"
    body = f"b (int64 i, bool c, double x) => (bool d, double y) {{ {computed} }}"
    obeyed, given = mdf_loop.compile(body), mdf_loop.compile(body)
    with mdf_loop.options(engine=how, obey_body_condition=True):
        assert obeyed(100_000, None, 1.0) == given(100_000, True, 1.0)
        assert str(obeyed.explain()) == str(given.explain())


@pytest.mark.parametrize("command", ["run", "sweep", "bench", "verify", "explain"])
def test_the_command_obeys_a_body(tmp_path, command, capsys):
    path = tmp_path / "breaks.onnx"
    onnx.save(onnx.parser.parse_model(BREAKS), path)
    more = ["--over", "n=9,10"] if command == "sweep" else ["--set", "n=10"]
    for flags in ([], ["--obey-body-condition"]):
        code = run_main(command, path, *more, "--set", "x=1.0", *flags)
        assert code == (0 if flags or command != "verify" else 1)  # onnxruntime always obeys
        said = capsys.readouterr()
        assert ("goes on" in said.err) == (not flags)
        if command in ("run", "sweep"):
            assert ("128" in said.out) == bool(flags)


LOOKS_UP = """b (int64 i, bool go, double a) => (bool on, double b, double c) {
    most = Constant <value = int64 {20}> () k = Min (i, most) on = Gather (t, k) b = Where (go, a, most_a) c = Identity (a) }"""


@pytest.mark.parametrize("block_bytes", [1, 64, 1 << 20])
@pytest.mark.parametrize("ends", [0, 1, 3, 12])
def test_a_condition_that_is_looked_up_ends_a_loop_in_blocks_of_every_length(ends, block_bytes, engine):
    """In a block of one iteration its place is the same in every iteration, and so is the condition."""
    t = np.arange(21) != ends
    with mdf_loop.options(engine=engine, block_bytes=block_bytes):
        last, rows = mdf_loop.loop(18, True, 0.5, body=LOOKS_UP, t=t, most_a=9.0)
    assert (last, len(rows)) == (0.5, ends + 1)


def test_a_negative_trip_count_has_one_warning():
    with pytest.warns(LoopWarning, match="the trip count M is -3, so no iteration runs") as told:
        assert mdf_loop.loop(-3, True, 1.0, body="x: x + 1") == 1
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mdf_loop.loop(0, True, 1.0, body="x: x + 1") == 1


@mdf_loop.body
def inverted(i, go, x, *, bound):
    """Returns when it ends."""
    x = x + 0.1
    return x > bound, x


INVERTED = {
    "equations": ("x: x + 0.1\nwhile: x > bound", 0.0),
    "a let": ("let y: 2 * x\nx: x + 0.1\nwhile: y > bound", 0.0),
    "a function": (inverted, 0.0),
}


@pytest.mark.parametrize("m", [None, 30])
@pytest.mark.parametrize("name", INVERTED)
def test_a_condition_that_is_false_at_the_beginning_is_warned_of(name, m, engine):
    body, x = INVERTED[name]
    with pytest.warns(LoopWarning) as found:
        mdf_loop.loop(m, True, x, body=body, bound=1.0)
    (said,) = [str(each.message) for each in found]
    assert "is the condition to go on, and false at the beginning, so only one iteration runs; if it is meant to end" in said
    assert said.endswith("negate it" if body is inverted else "write while: not (...)")
    assert ("return x > bound, x" if body is inverted else "equations/line") in said


@pytest.mark.parametrize(
    ("body", "m", "given"),
    [
        ("x: x + 0.1\nwhile: x > bound", 1, {"bound": 1.0}),
        ("x: x + 0.1\nwhile: x < bound", 30, {"bound": 0.05}),
        ("x: x + 0.1\nwhile: bound > 1", 30, {"bound": 1.0}),
        ("x: x + 0.1\nwhile: i < 0", 30, {}),
        ("x: x + 0.1\nwhile: x + noise() > bound", 30, {"bound": 9.0}),
    ],
)
def test_a_loop_that_ends_behind_its_first_iteration_otherwise_is_not(body, m, given, engine):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mdf_loop.loop(m, True, 0.0, body=body, **given) == 0.1


def test_a_loop_inside_another_may_end_at_once():
    @mdf_loop.body
    def outer(i, go, x, *, bound):
        return go, mdf_loop.loop(9, True, x, body="x: x + 0.1\nwhile: x > bound", bound=bound)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mdf_loop.loop(3, True, 0.0, body=outer, bound=1.0) == pytest.approx(0.3)


NO_CONDITIONS = {"a float": "x", "a computed float": "x - 1", "several": "array([x, x]) > 0", "a number": "3 - i", "nan": "nan"}


@pytest.mark.parametrize("engine", [*ENGINES, "jax"])
@pytest.mark.parametrize("condition", NO_CONDITIONS.values(), ids=NO_CONDITIONS)
def test_a_condition_is_one_boolean_on_every_engine(condition, engine, request):
    """JAX took every number but 0 for true."""
    if engine == "jax":
        pytest.importorskip("jax")
        request.getfixturevalue("in_64_bits")
    with warnings.catch_warnings(), mdf_loop.options(engine=engine):
        warnings.simplefilter("ignore", LoopWarning)
        with pytest.raises(IterationError, match="while must be one boolean"):
            mdf_loop.loop(4, True, 1.0, body=f"x: 2 * x\nwhile: {condition}")


@pytest.mark.parametrize("write", ["to_onnx", "to_jax"])
@pytest.mark.parametrize("condition", ["x", "array([x, x]) > 0"])
def test_what_is_no_condition_is_not_written_as_one(condition, write, request):
    if write == "to_jax":
        pytest.importorskip("jax")
        request.getfixturevalue("in_64_bits")
    body = Parameter(id="body", value={"carried": {"x": "2 * x"}, "while": condition})
    run = Parameter(id="run", function="onnx::Loop", args={"M": 4, "x": 1.0, "body": "body"})
    graph = Graph(id="g", nodes=[Node(id="n", parameters=[body, run], output_ports=[OutputPort(id="x", value="run")])])
    with pytest.raises(UnsupportedOp, match=r"condition must be one boolean; got (float64|bool)"):
        getattr(mdf_loop, write)(graph)()
