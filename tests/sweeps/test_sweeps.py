"""Trials and sweeps: each run is what it would be alone, bit for bit, whatever the chunks, the workers and the order."""

import itertools
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from engines import ENGINES
from modeci_mdf.mdf import Edge, Graph, InputPort, Node, OutputPort, Parameter
from swept_models import GATHERING, loop_graph

import mdf_loop
from mdf_loop.errors import ArgumentError, IterationError, KindError, LoopError, LoopInterrupted, LoopTimeout
from mdf_loop.ops.registry import KERNELS
from mdf_loop.settings.engines import can_compile
from mdf_loop.settings.random_streams import words_of
from mdf_loop.sweeps import machine_runs, side_by_side
from mdf_loop.sweeps.seeds import seed_of, streams_of

pytest.importorskip("xarray")

ROOT = Path(__file__).parents[2]
DIFFUSION = ROOT / "examples" / "drift_diffusion.yaml"
OVER = {"drift": [0.0, 1.0, 2.5], "bound": [0.3, 0.5]}
COMPILING = {"auto", "jit"} if can_compile() else set()


def is_at_once(monkeypatch):
    """Counts the runs that are done at once, in engine auto however short they are."""
    monkeypatch.setattr(machine_runs, "WORTH", 1)
    done, original = [], side_by_side.many

    def counted(made, vectors, values, columns, which, *more):
        found = original(made, vectors, values, columns, which, *more)
        done.append(len(which))
        return found

    monkeypatch.setattr(side_by_side, "many", counted)
    return done


def alone(model, names, point, k, inputs, seed=1, **how):
    """One run as a user runs it."""
    return mdf_loop.run(model, seed=np.random.SeedSequence(seed, spawn_key=(point, k)), **inputs, **how)


def assert_law(model, s, over, trials, seed=1, how=None, **inputs):
    """Every run of a sweep is the run alone."""
    for p, values in enumerate(itertools.product(*over.values())):
        point = dict(zip(over, values, strict=True))
        for k in range(trials):
            r = alone(model, (), p, k, {**point, **inputs}, seed, **(how or {}))
            row = s.sel({name: value for name, value in point.items() if name in s.dims})
            row = row.isel(trial=k) if "trial" in s.dims else row
            for name, value in r.items():
                found = row[name].values
                if f"{name}_length" in s:
                    assert int(row[f"{name}_length"]) == len(value)
                    assert np.isnan(found[len(value) :]).all()
                    found = found[: len(value)]
                np.testing.assert_array_equal(found, np.asarray(value), err_msg=f"{name} {point} {k}")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("chunk", [1, 7, None])
def test_a_sweep_is_the_loop_of_single_runs(engine, chunk, monkeypatch):
    done = is_at_once(monkeypatch)
    with mdf_loop.options(engine=engine):
        s = mdf_loop.sweep(DIFFUSION, OVER, trials=4, seed=1, chunk=chunk)
        assert bool(done) == (chunk != 1 and engine in COMPILING)
        assert s.path.dims == ("drift", "bound", "trial", "iteration")
        assert_law(DIFFUSION, s, OVER, 4)


def test_trials_of_a_run_are_those_of_point_0():
    r = mdf_loop.run(DIFFUSION, trials=5, seed=1, bound=0.5)
    for k in range(5):
        one = alone(DIFFUSION, (), 0, k, {"bound": 0.5})
        assert r["reaction_time"][k] == one["reaction_time"]
        assert r.iterations[k] == one.iterations
        assert r.stop[k] == one.stop
        np.testing.assert_array_equal(r["path"][k, : one.iterations], one["path"])
    assert r.to_xarray().path.dims[0] == "trial"
    assert r.about.lengths["path"].tolist() == r.iterations.tolist()


def test_common_noise_gives_every_point_the_same_streams():
    s = mdf_loop.sweep(DIFFUSION, {"drift": [1.0, 1.0]}, trials=3, seed=1, common_noise=True)
    np.testing.assert_array_equal(s.reaction_time[0], s.reaction_time[1])
    one = mdf_loop.run(DIFFUSION, drift=1.0, seed=np.random.SeedSequence(1, spawn_key=(2,)))
    assert s.reaction_time.values[1, 2] == one["reaction_time"]
    s = mdf_loop.sweep(DIFFUSION, {"drift": [1.0, 1.0]}, trials=3, seed=1)
    assert (s.reaction_time[0].values != s.reaction_time[1].values).any()


@pytest.mark.parametrize(
    "seed", [0, 1, 2**40, 2**200 + 3, np.random.SeedSequence(5, spawn_key=(7,)), np.random.SeedSequence([1, 2])]
)
@pytest.mark.parametrize("common_noise", [False, True])
def test_streams_begun_at_once_are_those_of_numpy(seed, common_noise):
    points, trials = np.array([0, 3, 2**32 - 1, 1 << 31]), np.array([5, 0, 9, 2**32 - 1])
    begun = streams_of(seed, points, trials, common_noise)
    for row, point, trial in zip(begun, points.tolist(), trials.tolist(), strict=True):
        expected = np.random.default_rng(seed_of(seed, point, trial, common_noise))
        assert row.tobytes() == words_of(expected.bit_generator.state)
    (row,) = streams_of(seed, np.array([1 << 33]), np.array([0]))
    assert row.tobytes() == words_of(np.random.default_rng(seed_of(seed, 1 << 33, 0)).bit_generator.state)


BODIES = {
    "reductions": (
        """b (int64 i, bool c, double[n] x) => (bool c, double[n] y, double s, double[n] k) {
          s = ReduceSum <keepdims = 0> (x) m = ReduceMax <keepdims = 1> (x) d = Sub (x, m)
          e = Mul (d, a) y = Add (e, s) k = Abs (y) }""",
        {"a": 0.01, "x": np.linspace(0.1, 1, 7)},
        ("run[0]", "run[1]", "run[2]"),
    ),
    "a swap and the number of the iteration": (
        """b (int64 i, bool c, double x, double y) => (bool c, double y, double x2, int64 j) {
          f = Cast <to = 11> (i) g = Mul (f, a) x2 = Add (x, g) j = Identity (i) }""",
        {"a": 0.1, "x": 1.0, "y": 2.0},
        ("run[0]", "run[1]", "run[2]"),
    ),
    "arrays drawn, float32": (
        """b (int64 i, bool c, float[3] x) => (bool go, float[3] y, float[3] z) {
          z = RandomNormal <shape = [3], mean = 0.5, scale = 2.0> () w = RandomNormalLike <mean = 0.5, scale = 2.0> (x)
          d = Sub (z, w) e = Mul (a, d) y = Add (x, e) n = ReduceMax <keepdims = 0> (y) go = Less (n, top) }""",
        {"a": 0.1, "x": [0.0, 0.1, 0.2], "top": 2.0},
        ("run[0]", "run[1]"),
    ),
    "uniform numbers and a choice": (
        """b (int64 i, bool c, double x) => (bool go, double y) {
          u = RandomUniformLike (x) up = Less (u, a) one = Constant <value_float = 1.0> () o = CastLike (one, x) n = Neg (o)
          s = Where (up, o, n) y = Add (x, s) h = Abs (y) go = Less (h, top) }""".replace(
            "CastLike (one, x)", "Cast <to = 11> (one)"
        ),
        {"a": 0.6, "x": 0.0, "top": 5.0},
        ("run",),
    ),
    "gathered and sliced": (
        """b (int64 i, bool c, double[n] x) => (bool c, double[n] y, double p) {
          p = Gather (w, i) r = Slice (x, one, end) q = Slice (x, zero, one) t = Concat <axis = 0> (r, q) y = Mul (t, a) }""",
        {"a": 0.99, "x": [1.0, 2.0, 3.0], "w": np.arange(50.0), "one": [1], "end": [3], "zero": [0]},
        ("run[0]", "run[1]"),
    ),
    "a loop inside": (
        """b (int64 i, bool c, double x) => (bool c, double y) { n = Constant <value_int = 3> () d = Mul (x, a)
          s = Loop (n, c, d) <body = inner (int64 j, bool g, double v) => (bool g, double w) { h = Mul (v, a) w = Add (h, x) }>
          z = RandomUniformLike (x) t = Mul (s, a) y = Add (t, z) }""",
        {"a": 0.25, "x": 1.0},
        ("run",),
    ),
    "functions that differ in the last place": (
        """b (int64 i, bool c, double x) => (bool c, double y) {
          e = Exp (x) f = Mul (a, e) g = RandomNormalLike (x) y = Tanh (f) }""",
        {"a": 0.9, "x": 0.3},
        ("run",),
    ),
    "an expression around the loop": (
        "b (int64 i, bool c, double x) => (bool c, double y) { y = Mul (x, a) }",
        {"a": 0.99, "x": 1.0},
        ("run * 2", "numpy.exp(run)"),
    ),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", BODIES)
def test_bodies_of_every_kind_give_each_run_what_it_gives_alone(name, engine, monkeypatch):
    done = is_at_once(monkeypatch)
    body, values, outputs = BODIES[name]
    names = [key for key in ("x", "y") if key in values]
    graph = loop_graph(body, values, {key: key for key in names}, outputs)
    over = {"a": [values["a"], values["a"] * 0.5, values["a"]], "m": [1, 40, 17]}
    with mdf_loop.options(engine=engine):
        s = mdf_loop.sweep(graph, over, trials=2, seed=1, chunk=10)
    with mdf_loop.options(engine=s.attrs["engine"]):
        for p, (a, m) in enumerate(itertools.product(*over.values())):
            for k in range(2):
                r = alone(graph, (), p, k, {"a": a, "m": m})
                row = s.isel(a=p // 3, m=p % 3, trial=k)
                for key, value in r.items():
                    found = row[key].values[: len(value)] if f"{key}_length" in s else row[key].values
                    np.testing.assert_array_equal(found, value)
    is_left = name == "an expression around the loop"  # it may differ in the last place
    assert bool(done) == (s.attrs["engine"] in COMPILING and not is_left)


def test_a_kernel_that_does_more_than_compute_is_called_in_each_run():
    called = []

    @mdf_loop.kernel("Count", domain="my.sweeps", pure=False)
    def count(x):
        called.append(1)
        return x + x

    body = """<ir_version: 10, opset_import: ["": 20, "my.sweeps": 1]>
      b (int64 i, bool c, double x) => (bool c, double y) { t = my.sweeps.Count (a) y = Add (x, t) }"""
    try:
        with mdf_loop.options(engine="numpy"):
            mdf_loop.sweep(loop_graph(body, {"a": 0.5, "x": 1.0}, {"x": "x"}, ("run",), m=4), {"x": [1.0, 2.0]}, trials=3, seed=1)
        assert len(called) == 2 * 3 * 4
    finally:
        del KERNELS["my.sweeps", "Count"]


def test_values_of_several_nodes_and_loops():
    first = loop_graph(
        "b (int64 i, bool c, double x) => (bool c, double y) { y = Add (x, a) }", {"a": 0.5, "x": 0.0}, {"x": "x"}
    ).nodes[0]
    second = loop_graph(
        "b (int64 i, bool c, double x) => (bool c, double y) { y = Mul (x, f) }", {"f": 1.01}, {"x": "start"}
    ).nodes[0]
    second.id = "second"
    second.input_ports.append(InputPort(id="start"))
    edge = Edge(id="e", sender="n", sender_port="o0", receiver="second", receiver_port="start")
    graph = Graph(id="g", nodes=[first, second], edges=[edge])
    s = mdf_loop.sweep(graph, {"a": [0.1, 0.2], "f": [1.0, 1.01]})
    for p, (a, f) in enumerate(itertools.product([0.1, 0.2], [1.0, 1.01])):
        assert s.o0.values.ravel()[p] == mdf_loop.run(graph, a=a, f=f)["o0"]


def test_scheduled_models_and_onnx_models_are_swept_too():
    path, how = ROOT / "examples" / "oscillator.yaml", {"steps": 50, "time_increment": 0.01}
    s = mdf_loop.sweep(path, {"stiffness": [1.0, 4.0], "damping": [0.1, 0.5]}, seed=1, **how)
    assert s.level.dims == ("stiffness", "damping")
    assert_law(path, s, {"stiffness": [1.0, 4.0], "damping": [0.1, 0.5]}, 1, how=how)
    import onnx.parser

    head = '<ir_version: 8, opset_import: ["": 18]>'
    model = onnx.parser.parse_model(f"{head} g (double x) => (double y) {{ z = RandomNormalLike (x) y = Add (x, z) }}")
    s = mdf_loop.sweep(model, {"x": [1.0, 2.0]}, trials=3, seed=1)
    assert_law(model, s, {"x": [1.0, 2.0]}, 3)


@pytest.mark.parametrize("collect", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_scheduled_models_at_many_points_are_one_program(engine, collect, monkeypatch):
    from mdf_loop.sweeps import task

    found = []
    original = task.run_together
    monkeypatch.setattr(task, "run_together", lambda *args: found.append(original(*args)) or found[-1])
    path, how = ROOT / "examples" / "oscillator.yaml", {"steps": 60, "time_increment": 0.01, "collect": collect}
    over = {"stiffness": np.linspace(1.0, 4.0, 11).tolist(), "damping": [0.1, 0.5, 0.7]}
    with mdf_loop.options(engine=engine):
        s = mdf_loop.sweep(path, over, seed=1, **how)
        assert_law(path, s, over, 1, how=how)
        many, one = (mdf_loop.run(path, trials=trials, seed=1, **how) for trials in (40, 2))
    assert len(found) == 2 * (engine != "interpret") + (engine == "jit")
    assert s["count"].dtype == np.int64
    assert {*many.iterations.tolist()} == {*one.iterations.tolist()} == {60}
    assert {*many.stop} == {*one.stop} == {"trip count"}


@pytest.mark.parametrize(
    "values",
    [
        {"a": "k ** 2 + a", "k": 1.5},
        {"a": "a / k", "k": 0.0},
        {"a": "numpy.exp(k) + a * 0", "k": 1.5},
        {"a": "a + k * w[1]", "k": 1.5, "w": [1.0, 2.0]},
        {"a": "a + int(k)", "k": 1.5},
    ],
    ids=["power", "division", "function", "array", "number"],
)
def test_scheduled_models_that_compute_otherwise_are_run_point_by_point(values):
    node = Node(id="n", parameters=[Parameter(id=key, value=value) for key, value in values.items()])
    node.parameters[0].default_initial_value = 1.0
    node.output_ports.append(OutputPort(id="o", value="a"))
    graph, points = Graph(id="g", nodes=[node]), [0.7, 1.5, 0.0]
    s = mdf_loop.sweep(graph, {"k": points}, seed=1, steps=5)
    for k, point in enumerate(points):
        try:
            expected = mdf_loop.run(graph, k=point, steps=5)["o"]
        except LoopError:
            assert np.isnan(s.o.values[k])
            assert s.attrs["errors"]
        else:
            assert s.o.values[k] == expected


def test_a_list_of_points_and_a_table():
    points = [{"drift": 0.0, "bound": 0.3}, {"drift": 2.0, "bound": 0.5}]
    pandas = pytest.importorskip("pandas")
    for over in (points, pandas.DataFrame(points)):
        s = mdf_loop.sweep(DIFFUSION, over, trials=2, seed=1, outputs=["reaction_time"])
        assert s.reaction_time.dims == ("point", "trial")
        assert s.bound.values.tolist() == [0.3, 0.5]
        assert s.reaction_time.values[1, 1] == alone(DIFFUSION, (), 1, 1, points[1])["reaction_time"]


def test_outputs_that_are_kept_and_what_is_made_of_trials():
    whole = mdf_loop.sweep(DIFFUSION, OVER, trials=6, seed=1)
    kept = mdf_loop.sweep(DIFFUSION, OVER, trials=6, seed=1, outputs=["evidence"])
    assert list(kept) == ["evidence"]
    np.testing.assert_array_equal(kept.evidence, whole.evidence)
    for names in (["evidence", "reaction_time"], ["reaction_time", "evidence"]):
        both = mdf_loop.sweep(DIFFUSION, OVER, trials=6, seed=1, outputs=names)
        assert list(both) == names  # in the order in which they are asked for
        np.testing.assert_array_equal(both.evidence, whole.evidence)
    for chunk in (1, 12, None):
        mean = mdf_loop.sweep(DIFFUSION, OVER, trials=6, seed=1, outputs=["reaction_time"], reduce="mean", chunk=chunk)
        assert mean.reaction_time.dims == ("drift", "bound")
        np.testing.assert_array_equal(mean.reaction_time, whole.reaction_time.values.mean(axis=2))
    levels = mdf_loop.sweep(DIFFUSION, OVER, trials=6, seed=1, outputs="reaction_time", reduce=[0.1, 0.9])
    np.testing.assert_array_equal(levels.reaction_time[..., 1], np.quantile(whole.reaction_time.values, 0.9, axis=2))
    both = mdf_loop.sweep(
        DIFFUSION, OVER, trials=6, seed=1, reduce={"evidence": lambda x: (x > 0).mean(0), "reaction_time": "max"}
    )
    assert list(both) == ["evidence", "reaction_time"]
    np.testing.assert_array_equal(both.evidence, (whole.evidence.values > 0).mean(axis=2))


def test_points_that_fail_are_reported_and_the_others_are_there():
    graph = loop_graph(GATHERING, {"x": 0.0, "w": [1.0, 2.0, 3.0]}, {"x": "x"}, ("run[1]",))
    s = mdf_loop.sweep(graph, {"m": [2, 9, 3]})
    assert s.o0.values[0, :2].tolist() == [1, 2]
    assert np.isnan(s.o0.values[1]).all()
    assert s.o0.values[2].tolist() == [1, 2, 3]
    (error,) = s.attrs["errors"]
    assert error.startswith("point 1 (m=9), trial 0: iteration 3 of Loop 'n.run': Gather -> g failed")
    with pytest.raises(IterationError) as info:
        mdf_loop.sweep(graph, {"m": [2, 9, 3]}, on_error="raise")
    assert "in point 1 (m=9), trial 0" in info.value.__notes__
    everywhere = mdf_loop.sweep(graph, {"m": [9, 8]})
    assert np.isnan(everywhere.o0.values).all()
    assert len(everywhere.attrs["errors"]) == 2


def test_a_timeout_is_for_the_whole_sweep_and_keeps_what_is_complete(monkeypatch):
    now = SimpleNamespace(value=0.0)  # a minute is over when two points are
    monkeypatch.setattr(sys.modules["mdf_loop.options"], "time", SimpleNamespace(monotonic=lambda: now.value))
    how = {"chunk": 2, "outputs": ["reaction_time"], "progress": lambda done, size: setattr(now, "value", 60.0 * (done == 4))}
    with mdf_loop.options(timeout=50), pytest.raises(LoopTimeout) as info:
        mdf_loop.sweep(DIFFUSION, {"bound": [0.1, 0.2, 1e9]}, trials=2, seed=1, max_steps=10**9, **how)
    found = info.value.results
    assert found.attrs["complete"] == 4
    assert np.isnan(found.reaction_time.values[2]).all()
    assert found.reaction_time.values[1, 1] == alone(DIFFUSION, (), 1, 1, {"bound": 0.2, "max_steps": 10**9})["reaction_time"]


def test_ctrl_c_keeps_what_is_complete():
    def interrupt(done, size):
        if done >= 4:
            raise KeyboardInterrupt

    with pytest.raises(LoopInterrupted) as info:
        mdf_loop.sweep(DIFFUSION, OVER, seed=1, chunk=2, outputs=["reaction_time"], progress=interrupt)
    assert info.value.results.attrs["complete"] == 4
    assert np.isfinite(info.value.results.reaction_time.values.ravel()).tolist() == [True] * 4 + [False] * 2


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"over": {"drft": [1.0]}}, ArgumentError, "did you mean 'drift'"),
        ({"over": {"drift": []}}, ArgumentError, "with at least one"),
        ({"over": {"drift": 1.0}}, ArgumentError, "is a list of values"),
        ({"over": 3}, KindError, "over is a mapping"),
        ({"over": [{"drift": 1.0}, {"bound": 1.0}]}, ArgumentError, "all points have the same names"),
        ({"over": {"drift": [1.0]}, "drift": 2.0}, ArgumentError, "swept over, and given as well"),
        ({"trials": 0}, ArgumentError, "trials must be at least 1"),
        ({"trials": 1.5}, KindError, "trials must be a whole number"),
        ({"outputs": ["evidenc"]}, ArgumentError, "did you mean 'evidence'"),
        ({"reduce": "average"}, ArgumentError, "reduce is mean, median"),
        ({"reduce": ("mean", "std")}, ArgumentError, "reduce is mean, median"),
        ({"reduce": []}, ArgumentError, "reduce is mean, median"),
        ({"reduce": {"evidenc": "mean"}}, ArgumentError, "did you mean 'evidence'"),
        ({"reduce": {"path": "mean"}, "outputs": ["evidence"]}, ArgumentError, "there are evidence"),
        ({"record": ["decision.x"]}, ArgumentError, "it takes no record"),
        ({"workers": SimpleNamespace(scheduler_info=dict)}, KindError, "a dask.distributed.Client is given as client="),
        ({"client": 3}, KindError, "client must be a dask.distributed.Client; got int"),
        ({"over": {"decisionn.drift": [1.0]}}, ArgumentError, "no input called 'decisionn.drift'; did you mean 'drift'"),
        ({"fill": "a"}, KindError, "fill must be a number; got 'a'"),
        ({"on_error": "ignore"}, ArgumentError, "on_error must be"),
    ],
)
def test_what_makes_no_sense_is_said(arguments, kind, message):
    with pytest.raises(kind, match=message):
        mdf_loop.sweep(DIFFUSION, **arguments)


@pytest.mark.parametrize("over", [None, {}])
def test_a_sweep_over_nothing_is_one_point(over):
    found = mdf_loop.sweep(DIFFUSION, over, seed=1, outputs=["reaction_time", "path"])
    one = mdf_loop.run(DIFFUSION, seed=np.random.SeedSequence(1, spawn_key=(0, 0)))
    assert found.reaction_time.dims == ()
    for name in ("reaction_time", "path"):
        np.testing.assert_array_equal(found[name].values, one[name])


@pytest.mark.skipif(not COMPILING, reason="chunks are one call of machine code, which needs llvmlite")
def test_memory_is_that_of_a_chunk_beside_the_result():
    def peak(points):
        over = {"drift": np.linspace(0, 1, points)}
        with mdf_loop.options(engine="jit"):
            tracemalloc.start()
            found = mdf_loop.sweep(DIFFUSION, over, trials=10, seed=1, outputs=["reaction_time"], chunk=500)
            size = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return size - 4 * found.nbytes

    peak(50)  # which makes what is kept for the next sweep
    # Eight times the chunks. A chunk holds as many iterations as its longest trial, and that differs.
    assert peak(800) < 2 * peak(100)
