"""Engine ``jax``: models, loops and sweeps run by JAX."""

import pickle
import shutil
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from fuzzed import draws, first_call, fuzzed_loops
from jax_laws import assert_near
from modeci_mdf.mdf import Graph, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.errors import ArgumentError, IterationError, LoopError, LoopWarning

jax = pytest.importorskip("jax", reason='jax is not installed: pip install -e ".[jax]"')

FHN, DDM = "examples/gallery/fitzhugh_nagumo.yaml", "examples/drift_diffusion.yaml"


pytestmark = pytest.mark.usefixtures("in_64_bits", "compiled_quickly")


@pytest.fixture
def calls(monkeypatch):
    """The numbers of runs that were given to JAX at once."""
    from mdf_loop.backends.jax import function

    found, vmapped = [], function.vmapped

    def counted(model, inputs, columns, seed, places):
        found.append(len(places[1]))
        return vmapped(model, inputs, columns, seed, places)

    monkeypatch.setattr(function, "vmapped", counted)
    return found


def by_jax(call, *args, **named):
    """What a call gives in engine jax; a warning is an error."""
    with mdf_loop.options(engine="jax"), warnings.catch_warnings():
        warnings.simplefilter("error", LoopWarning)
        return call(*args, **named)


def interpreted(call, *args, **named):
    with mdf_loop.options(engine="interpret"):
        return call(*args, **named)


@pytest.mark.parametrize("path", [FHN, "examples/rnn.yaml", "examples/gallery/rnn.onnx", "examples/leaky_accumulator.yaml"])
def test_a_run_gives_what_other_engines_give(path):
    model = mdf_loop.prepare(path)
    given = {n: np.ones((2, *p.type.shape[1:]), p.type.dtype) for n, p in model.inputs.items() if p.required}
    found, want = by_jax(model, **given), interpreted(model, **given)
    assert list(found) == list(want)
    for name in want:
        np.testing.assert_allclose(found[name], want[name], rtol=1e-5, atol=1e-6)


def test_models_in_steps_give_what_other_engines_give():
    for how in ({"steps": 50, "time_increment": 0.01}, {"steps": 50, "time_increment": 0.01, "collect": True}):
        found, want = (engine(mdf_loop.run, "examples/oscillator.yaml", **how) for engine in (by_jax, interpreted))
        for name in want:
            np.testing.assert_allclose(found[name], want[name], rtol=1e-9)


ADD_UP = """b (int64 i, bool c, double s) => (bool d, double t, double u) {
    x = Gather (w, i) t = Add (s, x) h = Constant <value_float = 100.0> () k = CastLike (h, t) d = Less (t, k) u = Mul (t, x) }"""


def test_loops_of_their_own_give_what_other_engines_give():
    w = np.arange(20.0)
    for m, s in ((5, 0.5), (20, 1.0), (0, 2.0)):
        for go in (True, None):
            found, want = (how(mdf_loop.loop, m, go, s, body=ADD_UP, w=w) for how in (by_jax, interpreted))
            assert type(found) is tuple
            for each, expected in zip(found, want, strict=True):
                assert_near(each, expected, 1e-12, 0)
                assert each.flags.writeable


@mdf_loop.body
def halved(i, go, x):
    return x > 1, x / 2, x


def test_bodies_of_other_forms():
    assert_near(by_jax(mdf_loop.compile("x: x * rate"), 3, x=8.0, rate=0.5), 1.0, 1e-12, 0)
    end, seen = by_jax(mdf_loop.loop, 30, True, 6.0, body=halved)
    assert_near(end, 0.375, 1e-12, 0)
    assert_near(seen, [6, 3, 1.5, 0.75], 1e-12, 0)
    running = "s (double a, double x) => (double b, double c) { b = Add (a, x) c = Identity (b) }"
    total, sums = by_jax(mdf_loop.scan, 0.0, [1.0, 2.0, 3.0], body=running, num_scan_inputs=1)
    assert total == 6.0
    assert_near(sums, [1.0, 3.0, 6.0], 1e-12, 0)


NAMED = """b (int64 i, bool c, double {carried}) => (bool d, double t, double a, double {collected}) {{
    t = Add ({carried}, {carried}) a = Identity (t) {collected} = Neg (t)
    k = Constant <value = double {{20.0}}> () d = Less (t, k) }}"""


@pytest.mark.parametrize("carried", ["s", "key", "noise", "inputs", "self"])
@pytest.mark.parametrize("collected", ["b", "a_length", "t_length"])
@pytest.mark.parametrize("go", [True, None])
def test_names_of_a_body_are_no_names_of_ours(carried, collected, go):
    body = NAMED.format(carried=carried, collected=collected)
    found, want = (how(mdf_loop.loop, 9, go, 1.0, body=body) for how in (by_jax, interpreted))
    for each, expected in zip(found, want, strict=True):
        assert_near(each, expected, 1e-12, 0)


def test_a_function_names_lengths_as_no_output_is_called():
    found = mdf_loop.to_jax(mdf_loop.compile(NAMED.format(carried="s", collected="a_length")))(M=9, cond=True, s=1.0)
    assert {*found} == {"t", "a", "a_length", "a_length_2", "a_length_length"}
    assert int(found["a_length_2"]) == int(found["a_length_length"]) == 5
    assert found["a_length"][:5].tolist() == [-2.0, -4.0, -8.0, -16.0, -32.0]


def test_a_function_has_one_argument_that_is_called_key():
    function = mdf_loop.to_jax(mdf_loop.compile(NAMED.format(carried="key", collected="b")))
    with pytest.raises(mdf_loop.errors.ArgumentError, match="an input called 'key'"):
        function(M=9, cond=True, key=1.0)


def test_whole_numbers_stay_whole():
    found = by_jax(mdf_loop.loop, 5, None, x=np.int64(2), body="x: x * 3")
    assert found.dtype == np.int64
    assert found == 486


def test_fuzzed_loops():
    compared = 0
    for case in fuzzed_loops(25):
        call = first_call(case)
        if draws(case) or not case.exact:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LoopWarning)
            try:
                want = interpreted(call)
            except LoopError:
                continue
            with mdf_loop.options(engine="jax"):
                found = call()
        assert type(found) is type(want)
        for each, expected in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, want)), strict=True):
            if np.size(expected):  # of no iteration the interpreter does not know the shape
                assert_near(each, expected, 1e-6, 1e-9)
                compared += 1
    assert compared > 15


IN_A_BRANCH = """b (int64 i, bool c, double s) => (bool c, double t) {
    three = Constant <value = int64 {3}> () late = GreaterOrEqual (i, three)
    x = If (late) <then_branch = t () => (double y) { y = Gather (w, i) }, else_branch = e () => (double y) { y = Identity (s) }>
    t = Add (s, x) }"""


def inside_a_loop(body):
    inner = f"n = Size (v) h = Identity (g) r = Loop (n, h, s) <body = {body}>"
    return f"a (int64 k, bool g, double s) => (bool g, double r) {{ {inner} }}"


@pytest.mark.parametrize("body", [ADD_UP, IN_A_BRANCH, inside_a_loop(IN_A_BRANCH)], ids=["loop", "branch", "nested"])
def test_an_error_of_a_run_is_that_of_other_engines(body):
    for w in (np.arange(7.0), np.arange(3.0)):
        given = {"w": w, "v": np.zeros(7)} if "Size" in body else {"w": w}
        with warnings.catch_warnings():
            warnings.simplefilter("error", LoopWarning)
            if len(w) == 7:
                assert by_jax(mdf_loop.loop, 7, True, 1.0, body=body, **given) is not None
                continue
            for engine in (by_jax, interpreted):
                with pytest.raises(IterationError, match="index 3 is out of bounds for axis 0 with size 3"):
                    engine(mdf_loop.loop, 7, True, 1.0, body=body, **given)


def quotient():
    """1 / x of Python's numbers, for which 0 is an error."""
    node = Node(
        id="A",
        parameters=[Parameter(id="x", value=2.0), Parameter(id="y", value="1.0 / x")],
        output_ports=[OutputPort(id="o", value="y")],
    )
    return mdf_loop.prepare(Graph(id="quotient", nodes=[node]))


def test_an_error_of_a_model_is_that_of_other_engines():
    model = quotient()
    assert by_jax(model, x=4.0)["o"] == 0.25
    for how in ({}, {"steps": 3}):
        with pytest.raises(IterationError, match="float division by zero"):
            by_jax(model, x=0.0, **how)


def test_a_point_of_a_sweep_that_is_an_error_is_one_in_every_engine(calls):
    found = by_jax(mdf_loop.sweep, quotient(), {"x": [1.0, 2.0]})
    np.testing.assert_array_equal(found.o, [1.0, 0.5])
    with mdf_loop.options(engine="jax"), pytest.warns(LoopWarning, match="1 of 3 runs failed; the first, point 1"):
        found = mdf_loop.sweep(quotient(), {"x": [1.0, 0.0, 2.0]})
    np.testing.assert_array_equal(found.o, [1.0, np.nan, 0.5])
    assert calls == [2, 3]


def test_noise_follows_the_seed():
    body = "b (int64 i, bool c, double s) => (bool c, double t) { z = RandomNormalLike (s) t = Add (s, z) }"

    def end(seed):
        with mdf_loop.options(seed=seed):
            return float(by_jax(mdf_loop.loop, 10, True, 0.0, body=body))

    assert end(1) == end(1) != end(2)


@pytest.fixture
def newton(tmp_path):
    """A model that has not warned yet: it collects values until it ends, and nothing says how many."""
    return shutil.copy("examples/newton.yaml", tmp_path)


def test_what_has_no_form_runs_in_another_engine_and_warns_once(newton):
    model = mdf_loop.prepare("examples/newton.yaml")
    with (
        mdf_loop.options(engine="jax"),
        pytest.warns(LoopWarning, match="newton runs in engine 'numpy', not by JAX: .*run") as told,
    ):
        roots = [model(a=a)["root"] for a in (2.0, 3.0, 4.0)]
    assert len(told) == 1
    np.testing.assert_allclose(roots, np.sqrt([2, 3, 4]))


def test_what_jax_refused_is_not_tried_again(monkeypatch):
    from mdf_loop.backends.jax import function

    tries = []
    lowered = function.lowered
    monkeypatch.setattr(function, "lowered", lambda *args: tries.append(args) or lowered(*args))
    grow = mdf_loop.compile("b (int64 i, bool c, double[?] s) => (bool c, double[?] t) { t = Concat <axis = 0> (s, s) }")
    with mdf_loop.options(engine="jax"), pytest.warns(LoopWarning, match="the loop over 'b' runs in engine 'numpy'") as told:
        lengths = [len(grow(3, True, np.full(2, k))) for k in range(3)]
    assert lengths == [16, 16, 16]
    assert len(tries) == len(told) == 1


@pytest.mark.parametrize(
    ("options", "how", "reason"),
    [
        ({}, {"record": "neuron.run.v"}, "recorded"),
        ({"max_iterations": 5000}, {}, r"options\(max_iterations=\)"),
        ({"timeout": 60.0}, {}, r"options\(timeout=\)"),
        ({"progress": lambda report: True}, {}, r"options\(progress=\)"),
    ],
    ids=["record", "max_iterations", "timeout", "progress"],
)
def test_what_is_asked_for_and_jax_cannot_do_is_said(options, how, reason):
    with mdf_loop.options(engine="jax", **options), pytest.warns(LoopWarning, match=f"not by JAX: .*{reason}"):
        found = mdf_loop.run(FHN, current=0.3, **how)
    want = interpreted(mdf_loop.run, FHN, current=0.3, **how)
    np.testing.assert_allclose(found["voltage"], want["voltage"], rtol=1e-9)


def test_functions_of_python_and_the_backend_of_onnx_say_that_they_are_not_by_jax():
    def add(i, go, x):
        return True, x + i

    model = mdf_loop.backend.prepare(mdf_loop.to_onnx("examples/accumulate.yaml"))
    with mdf_loop.options(engine="jax"):
        with pytest.warns(LoopWarning, match="'add' is called in each iteration; @mdf_loop.body"):
            assert mdf_loop.loop(3, True, 1.0, body=add) == 4.0
        with pytest.warns(LoopWarning, match=r"mdf_loop\.backend runs"):
            model.run({})


def test_a_loop_that_has_run_by_jax_can_be_pickled():
    loop = mdf_loop.compile("x: x * rate").record
    prepared = mdf_loop.prepare("examples/leaky_accumulator.yaml")
    by_jax(prepared)
    again = pickle.loads(pickle.dumps(prepared))
    assert by_jax(again).keys() == by_jax(prepared).keys()
    assert loop.body.name


def test_a_sweep_is_one_call(calls):
    currents = np.linspace(0, 1, 5)
    found = by_jax(mdf_loop.sweep, FHN, {"current": currents})
    assert calls == [5]
    want = mdf_loop.sweep(FHN, {"current": currents})
    for name in want.data_vars:
        np.testing.assert_allclose(found[name], want[name], rtol=1e-8, atol=1e-9)


def test_trials_have_numbers_of_their_own_and_the_same_again():
    with mdf_loop.options(engine="jax"):
        first, again = (
            mdf_loop.sweep(DDM, {"drift": [0.5, 2.0]}, trials=200, seed=3, outputs=["reaction_time", "path"]) for _ in range(2)
        )
        cut = mdf_loop.sweep(DDM, {"drift": [0.5, 2.0]}, trials=200, seed=3, outputs=["reaction_time"], chunk=70)
    times = first.reaction_time.values
    np.testing.assert_array_equal(times, again.reaction_time.values)
    np.testing.assert_array_equal(times, cut.reaction_time.values)
    assert len(np.unique(times)) > 150
    assert times[0].mean() > times[1].mean()
    lengths = np.isfinite(first.path.values).sum(-1)
    assert first.path.shape == (2, 200, lengths.max())
    np.testing.assert_allclose(times, 0.3 + 0.001 * lengths, rtol=1e-9)


@pytest.mark.parametrize(("n", "trials"), [(1100, None), (11, 100), (1, 1100)])
def test_any_number_of_points_and_trials_is_one_call(n, trials, calls):
    drifts = np.linspace(6.0, 9.0, n)  # which end soon
    found = by_jax(mdf_loop.sweep, DDM, {"drift": drifts}, trials=trials, seed=3, outputs=["evidence"])
    assert calls == [n * (trials or 1)]
    assert len(np.unique(found.evidence)) == found.evidence.size


@pytest.mark.parametrize("over", [{"drift": [0.0, 3.0]}, {"max_steps": [100, 200]}])
def test_runs_that_ended_at_m_are_counted(over):
    given = {"max_steps": 200, "drift": 3.0}
    given = {name: value for name, value in given.items() if name not in over}
    s = by_jax(mdf_loop.sweep, DDM, over, trials=40, seed=1, outputs=["reaction_time"], **given)
    limits = np.array(over.get("max_steps", [200, 200]))
    cut = int((s.reaction_time.values > 0.3 + 0.001 * limits[:, None] - 1e-6).sum())
    assert 0 < cut < 80
    assert s.attrs["ended"] == f"{cut} of 80 runs ended at M, not earlier by their condition"
    r = by_jax(mdf_loop.run, DDM, trials=40, seed=1, max_steps=200)
    np.testing.assert_array_equal(r.iterations, r.about.lengths["path"])
    np.testing.assert_array_equal(r.stop == "trip count", r.iterations == 200)


def test_trials_of_one_run_are_one_call(calls):
    found = by_jax(mdf_loop.run, DDM, trials=1100, seed=1, drift=8.0)
    assert calls == [1100]
    assert found["reaction_time"].shape == (1100,)


def test_results_that_take_much_room_come_in_several_calls(calls, monkeypatch):
    from mdf_loop.sweeps import vmapped

    monkeypatch.setattr(vmapped, "FEW", 1)
    monkeypatch.setattr(vmapped, "MOST_BYTES", 200_000)
    found = by_jax(mdf_loop.sweep, FHN, {"current": np.linspace(0, 1, 14)})
    assert len(calls) == 5
    assert max(calls) <= 3
    assert found.voltage.shape == (14, 4000)


def test_batches_of_a_simulator_share_no_noise(calls):
    f = mdf_loop.simulator(DDM, ["drift"], ["evidence"], trials=5, seed=7)
    theta = np.full((4, 1), 8.0)
    both = np.concatenate([by_jax(f, theta) for _ in range(2)])
    assert calls == [20, 20]
    assert len(np.unique(both)) == both.size
    np.testing.assert_array_equal(by_jax(f, theta, seed=range(4)), both[:4])


def test_a_sweep_that_jax_cannot_do_says_so(newton):
    with mdf_loop.options(engine="jax"), pytest.warns(LoopWarning, match="newton runs in engine 'numpy', not by JAX"):
        found = mdf_loop.sweep(newton, {"a": [4.0, 9.0]}, outputs=["guesses"])
    np.testing.assert_allclose(found.guesses.values[:, 4], [2, 3], rtol=1e-3)


@pytest.fixture
def in_32_bits():
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", True)


def test_double_precision_has_to_be_on(in_32_bits):
    with mdf_loop.options(engine="jax"), pytest.raises(ArgumentError, match="jax_enable_x64"):
        mdf_loop.run(FHN)


def test_arrays_of_64_bits_are_not_cut_in_silence(in_32_bits):
    with mdf_loop.options(engine="jax"), pytest.raises(ArgumentError, match=r"'s' is float64.*jax_enable_x64"):
        mdf_loop.loop(3, True, 0.5, body=ADD_UP, w=np.arange(4.0))


@pytest.mark.parametrize("n", [1, 7])
def test_the_trip_count_of_exported_while_loops_needs_no_64_bits(in_32_bits, n):
    model = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 17]>
        halved (float x, bool go) => (float end) <int64 most = {{{np.iinfo(np.int64).max}}}> {{
          end = Loop (most, go, x) <body = b (int64 i, bool c, float u) => (bool d, float v)
            <float half = {{0.5}}, float one = {{1}}> {{ v = Mul (u, half) d = Greater (v, one) }}>
        }}""")
    with mdf_loop.options(engine="jax"), warnings.catch_warnings(action="error"):
        assert mdf_loop.run(model, x=np.float32(1.5 * 2 ** (n - 1)), go=True)["end"] == 0.75


def test_bench_shows_it():
    from mdf_loop.models.benching import bench

    timings = {timing.name: timing for timing in bench(Path(FHN), {}, seconds=0.0)}
    assert timings["jax"].seconds > 0
    assert not timings["jax"].reason


def test_explain_shows_how_jax_ran_a_model_and_a_loop():
    model, loop = mdf_loop.prepare(DDM), mdf_loop.compile("x: x / 2\nwhile: x > 1")
    with mdf_loop.options(engine="jax"):
        loop(100, True, 8.0)
        shown = [str(model.explain()), str(loop.explain())]
    assert all("as a function of JAX" in text and "a while" in text for text in shown)
    assert "as a function of JAX" not in model.explain() + loop.explain()


def test_a_loop_of_no_iteration_may_read_rows_that_are_not_there():
    text = """<ir_version: 9, opset_import: ["": 20]> g (float[n,2] xs, float[2] h) => (float[2] y, float[k,2] rows)
        <int64 none = {0}, bool yes = {1}> {
        y, last, rows = Loop (none, yes, h, xs) <body = b (int64 i, bool c, float[2] s, float[n,2] all)
            => (bool c, float[2] t, float[n,2] all, float[2] s) { x = Gather (all, i) t = Add (s, x) }> }"""
    model, given = onnx.parser.parse_model(text), {"xs": np.ones((0, 2), np.float32), "h": np.ones(2, np.float32)}
    found, want = by_jax(mdf_loop.run, model, **given), interpreted(mdf_loop.run, model, **given)
    for name in want:
        np.testing.assert_array_equal(found[name], want[name], strict=True)


@pytest.mark.parametrize("function", ["erfc", "gamma", "lgamma"])
def test_functions_of_math_of_a_number(function):
    body = f"x: x * 0.5 + 1\ncollect made: {function}(x)"
    with mdf_loop.options(engine="jax"):
        _, found = mdf_loop.loop(5, True, 1.5, body=body)
    with mdf_loop.options(engine="interpret"):
        assert_near(found, mdf_loop.loop(5, True, 1.5, body=body)[1], rtol=1e-12, atol=0)
