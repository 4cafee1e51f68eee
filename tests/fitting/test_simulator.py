"""A row of a simulator is a point of a sweep, to the last bit, for any engine, any batches and any model."""

import copy
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from modeci_mdf.mdf import Edge, Graph, InputPort, Model, Node, OutputPort, Parameter
from onnx import parser

pytest.importorskip("xarray")

import mdf_loop
from mdf_loop.errors import ArgumentError, KindError, LoopError, LoopWarning
from mdf_loop.settings.engines import agreeing_engines
from mdf_loop.sweeps.sources import engine_of

DDM = "examples/drift_diffusion.yaml"
NAMES, OUTPUTS = ["drift", "bound"], ["reaction_time", "evidence"]
THETA = np.random.default_rng(0).uniform(0.5, 2, (7, 2))

WALK = {"carried": {"x": "x + a * b + numpy.random.normal()", "k": "k + 1"}, "while": "abs(x) < b"}
NOISY = "b (int64 i, bool c, double x) => (bool c, double y) { z = RandomNormalLike (x) s = Mul (a, z) y = Add (x, s) }"
QUIET = "b (int64 i, bool c, double x) => (bool c, double y) { s = Mul (a, b) y = Add (x, s) }"
WAVY = "b (int64 i, bool c, double x) => (bool c, double y) { e = Tanh (a) s = Mul (e, b) y = Add (x, s) }"
LATE = "b (int64 i, bool c, double x) => (bool go, double y) { z = RandomNormalLike (x) y = Add (x, z) go = Less (y, b) }"

WALKING = """
    <ir_version: 10, opset_import: ["" : 22]>
    walk (double a, double b) => (double x) {
        m = Constant <value_int = 9> ()
        go = Constant <value = bool {1}> ()
        x = Loop (m, go, a) <body = b (int64 i, bool c, double v) => (bool c_out, double w) {
            z = RandomNormalLike (v) s = Mul (b, z) w = Add (v, s)
            d = Abs (w) n = Constant <value = double {3}> () c_out = Less (d, n)
        }>
    }"""


def of_loop(body, outputs=("run",), start="0.0", before=(), m=30):
    """A model of one node and one loop, which reads the inputs a and b."""
    ports = [InputPort(id="a", default_value=1.0), InputPort(id="b", default_value=2.0)]
    parameters = [Parameter(id=id, value=text) for id, text in before]
    parameters += [Parameter(id="body", value=body if isinstance(body, dict) else {"onnx": body}), Parameter(id="m", value=m)]
    args = {"M": "m", "cond": True, "x": start, **({"k": "0.0"} if isinstance(body, dict) else {}), "body": "body"}
    parameters.append(Parameter(id="run", function="onnx::Loop", args=args))
    node = Node(id="n", input_ports=ports, parameters=parameters)
    node.output_ports = [OutputPort(id=f"o{k}", value=text) for k, text in enumerate(outputs)]
    return Model(id="m", graphs=[Graph(id="g", nodes=[node])])


MODELS = {
    "equations": lambda: of_loop(WALK, ("run[0]", "run[1]")),
    "noisy": lambda: of_loop(NOISY),
    "quiet": lambda: of_loop(QUIET),
    "inexact": lambda: of_loop(WAVY),
    "ends": lambda: of_loop(LATE),
    "starts there": lambda: of_loop(LATE, start="a"),
    "computed before": lambda: of_loop(NOISY.replace("(a,", "(s,").replace("s = Mul", "t = Mul").replace("x, s", "x, t"),
                                       before=[("s", "a * b + 1")]),
    "compared before": lambda: of_loop(QUIET, start="s", before=[("s", "(a > b) * 1.0")]),
    "computed behind": lambda: of_loop(LATE, ("run * a",)),
    "another output": lambda: of_loop(LATE, ("run", "b")),
    "ONNX": lambda: parser.parse_model(WALKING),
}  # fmt: skip


def swept(model, theta, seed, **how):
    """The points of a sweep, as a simulator gives them."""
    points = [{"a": a, "b": b} for a, b in theta.tolist()]
    s = mdf_loop.sweep(model, points, seed=seed, **how)
    rows = [s[name].transpose("point", ...).values for name in mdf_loop.prepare(model).outputs]
    lead = 2 if "trials" in how and "reduce" not in how else 1
    return np.concatenate([row.reshape(*row.shape[:lead], -1) for row in rows], -1)


@pytest.mark.parametrize("engine", agreeing_engines())
@pytest.mark.parametrize("name", MODELS)
def test_a_row_is_a_point_of_a_sweep_and_a_run(name, engine):
    theta = np.random.default_rng(1).uniform(0.5, 2, (5, 2))
    with mdf_loop.options(engine=engine):
        model = mdf_loop.prepare(MODELS[name]())
        f = mdf_loop.simulator(model, ["a", "b"], seed=3)
        x = np.concatenate([f(theta[:2]), f(theta[2]), f(theta[3:])], axis=None).reshape(5, -1)
        np.testing.assert_array_equal(x, swept(model, theta, 3))
    with mdf_loop.options(engine=engine_of(engine, model, {"a": theta[0, 0], "b": theta[0, 1]}, [*model.outputs])):
        for r, (a, b) in enumerate(theta):
            found = model(a=float(a), b=float(b), seed=np.random.SeedSequence(3, spawn_key=(r, 0)))
            np.testing.assert_array_equal(x[r], [found[name] for name in model.outputs])


@pytest.mark.parametrize("engine", agreeing_engines())
@pytest.mark.parametrize("how", [{}, {"reduce": "mean"}, {"reduce": [0.1, 0.9]}, {"reduce": lambda x: [x.max(), x.min()]}])
@pytest.mark.parametrize("name", ["equations", "ends", "computed before", "ONNX"])
def test_trials_of_a_row_are_those_of_its_point(name, how, engine):
    theta = np.random.default_rng(2).uniform(0.5, 2, (4, 2))
    with mdf_loop.options(engine=engine):
        model = mdf_loop.prepare(MODELS[name]())
        x = mdf_loop.simulator(model, ["a", "b"], trials=13, seed=4, **how)(theta)
        found = [swept_one(model, theta, how, name) for name in model.outputs]
        np.testing.assert_array_equal(x, np.concatenate(found, -1))


def swept_one(model, theta, how, output):
    points = [{"a": a, "b": b} for a, b in theta.tolist()]
    rows = mdf_loop.sweep(model, points, seed=4, trials=13, outputs=[output], **how)[output].transpose("point", ...).values
    return rows.reshape(len(theta), -1) if how else rows[..., None]


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_batches_of_any_sizes_and_any_rows_give_the_same(data):
    trials = data.draw(st.sampled_from([None, 1, 3, 40]))
    f, g = (mdf_loop.simulator(DDM, NAMES, OUTPUTS, trials=trials, seed=7) for _ in range(2))
    cuts = sorted(data.draw(st.lists(st.integers(1, 59), max_size=6, unique=True)))
    theta = np.random.default_rng(3).uniform(0.7, 2, (60, 2))
    x = f(theta)
    parts = [g(part) for part in np.split(theta, cuts)]
    np.testing.assert_array_equal(np.concatenate(parts), x)
    np.testing.assert_array_equal(g.seeds, np.arange(60)[-len(g.seeds) :])
    rows = np.array(data.draw(st.lists(st.integers(0, 59), min_size=1, max_size=9)))
    np.testing.assert_array_equal(g(theta[rows], seed=rows), x[rows])


def test_no_two_calls_have_the_same_noise_and_seeds_repeat_one():
    f = mdf_loop.simulator(DDM, NAMES, OUTPUTS, seed=7)
    x, seeds = f(THETA), f.seeds
    y = f(THETA)
    assert not (x == y)[:, 1].any()  # of the evidence: times are multiples of a step
    np.testing.assert_array_equal(f(THETA, seed=seeds), x)
    np.testing.assert_array_equal(f(THETA, seed=f.seeds), x)
    same = f(np.tile(THETA[0], (3, 1)), seed=5)
    assert (same == same[0]).all()


@pytest.mark.parametrize("made", [lambda f: pickle.loads(pickle.dumps(f)), copy.deepcopy], ids=["pickle", "deepcopy"])
def test_a_copy_goes_on_at_rows_of_its_own(made):
    f = mdf_loop.simulator(DDM, NAMES, OUTPUTS, seed=7, trials=2)
    x = f(THETA)
    one, other = made(f), made(f)
    y, z = one(THETA), other(THETA)
    for a, b in ((x, y), (x, z), (y, z), (f(THETA), y)):
        assert not (a == b)[..., 1].any()
    assert min(one.seeds) >= 1 << 62
    np.testing.assert_array_equal(f(THETA, seed=one.seeds), y)
    with mdf_loop.options(engine="numpy"):
        np.testing.assert_array_equal(f(THETA, seed=one.seeds), y)
    np.testing.assert_array_equal(one(THETA, seed=range(7)), x)


def test_threads_share_no_row():
    f = mdf_loop.simulator(DDM, NAMES, OUTPUTS, seed=7)
    found = []

    def work():
        for _ in range(20):
            found.append(f(THETA[:3]))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = np.concatenate(found)
    assert len(np.unique(rows[:, 1])) == len(rows) == 240


def test_against_numpy_alone():
    f = mdf_loop.simulator(DDM, NAMES, OUTPUTS, trials=3, seed=7)
    x = f(THETA)
    for r, (drift, bound) in enumerate(THETA):
        for t in range(3):
            rng = np.random.default_rng(np.random.SeedSequence(7, spawn_key=(r, t)))
            evidence, time = 0.0, 0.3
            while abs(evidence) < bound and time < 5.2995:
                evidence += drift * 0.001 + np.sqrt(0.001) * rng.normal()
                time += 0.001
            np.testing.assert_allclose(x[r, t], [time, evidence], rtol=1e-12)


def test_conditions_are_a_value_for_each_row():
    f = mdf_loop.simulator(DDM, ["drift"], OUTPUTS, seed=7)
    noise, steps = np.linspace(0.5, 1.5, 7), np.arange(100, 800, 100)
    x = f(THETA[:, :1], noise=noise, max_steps=steps)
    model = mdf_loop.prepare(DDM)
    for r in range(7):
        inputs = {"drift": float(THETA[r, 0]), "noise": float(noise[r]), "max_steps": int(steps[r])}
        found = model(**inputs, seed=np.random.SeedSequence(7, spawn_key=(r, 0)))
        np.testing.assert_array_equal(x[r], [found[name] for name in OUTPUTS])
    np.testing.assert_array_equal(f(THETA[0, :1], seed=0, noise=0.5, max_steps=100), x[0])


def test_a_condition_may_be_an_array_for_each_row():
    body = "b (int64 i, bool c, double x) => (bool c, double y) { s = Gather (w, i) t = Mul (s, a) y = Add (x, t) }"
    model = of_loop(body, m=4)
    model.graphs[0].nodes[0].input_ports.append(InputPort(id="w", default_value=[1.0, 2.0, 3.0, 4.0]))
    f = mdf_loop.simulator(model, ["a"])
    stimulus = np.random.default_rng(0).normal(size=(6, 4))
    np.testing.assert_allclose(f(THETA[:6, :1], w=stimulus)[:, 0], THETA[:6, 0] * stimulus.sum(1), rtol=1e-12)
    np.testing.assert_allclose(f(THETA[:6, :1], w=stimulus[::-1])[:, 0], THETA[:6, 0] * stimulus[::-1].sum(1), rtol=1e-12)


def test_forms_of_it():
    f = mdf_loop.simulator(DDM, NAMES, OUTPUTS, trials=4, seed=7)
    x = f(THETA)
    g = mdf_loop.simulator(DDM, NAMES, OUTPUTS, trials=4, seed=7)
    named = g.dict((7,), drift=THETA[:, :1], bound=THETA[:, 1])
    assert list(named) == OUTPUTS
    np.testing.assert_array_equal(np.stack([*named.values()], -1), x)
    one = mdf_loop.simulator(DDM, NAMES, OUTPUTS, trials=4, seed=7).one({"drift": THETA[0, 0], "bound": THETA[0, 1]})
    np.testing.assert_array_equal(np.stack([*one.values()], -1), x[0])
    single = mdf_loop.simulator(DDM, NAMES, "evidence", seed=7).one({"drift": 1.0, "bound": 1.0})
    assert single["evidence"].shape == ()
    assert mdf_loop.simulator(DDM, NAMES, OUTPUTS, dtype="float32")(THETA).dtype == np.float32


def test_whole_numbers_stay_whole():
    """As trip counts have to be; a row is the point of a sweep."""
    body = {"carried": {"x": "x * k + 1"}}
    run = Parameter("run", function="onnx::Loop", args={"M": "n", "x": 1, "body": "body"})
    ports = [InputPort("n", default_value=5), InputPort("k", default_value=2)]
    node = Node("a", input_ports=ports, parameters=[Parameter("body", value=body), run])
    node.output_ports.append(OutputPort("last", value="run.x"))
    model = mdf_loop.prepare(Model("m", graphs=[Graph("g", nodes=[node])]))
    f = mdf_loop.simulator(model, ["n", "k"])
    theta = [[3, 2], [4, 3], [60, 3]]
    points = [{"n": n, "k": k} for n, k in theta]
    np.testing.assert_array_equal(f(theta)[:, 0], mdf_loop.sweep(model, points)["last"])
    np.testing.assert_array_equal(f.dict(n=[3, 4], k=[2.5, 0.5])["last"].ravel(), [25.375, 1.9375])


def test_rows_that_fail_are_nan_and_said():
    body = "b (int64 i, bool c, double x) => (bool c, double y) { k = Cast <to = 7> (a) s = Gather (w, k) y = Add (x, s) }"
    model = of_loop(body)
    model.graphs[0].nodes[0].parameters.append(Parameter(id="w", value=[1.0, 2.0]))
    f = mdf_loop.simulator(model, ["a"])
    np.testing.assert_array_equal(f([[1.0], [0.0]])[:, 0], [60, 30])
    with pytest.warns(LoopWarning, match="1 of 3 runs failed; the first, point 1"):
        x = f([[1.0], [2.0], [0.0]])
    np.testing.assert_array_equal(x[:, 0], [60, np.nan, 30])


def test_a_shallow_copy_counts_on_together_with_the_first():
    f = mdf_loop.simulator(DDM, NAMES, OUTPUTS, seed=7)
    g = copy.copy(f)
    f(THETA)
    g(THETA)
    np.testing.assert_array_equal(g.seeds, np.arange(7, 14))


def test_values_that_nothing_may_compute_with_are_not_taken_for_constants():
    f = mdf_loop.simulator(MODELS["compared before"](), ["a", "b"])
    np.testing.assert_array_equal(f([[1.0, 2.0], [3.0, 2.0]])[:, 0], [60, 181])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: mdf_loop.simulator(DDM, ["drft"]), ArgumentError, "did you mean 'drift'"),
        (lambda: mdf_loop.simulator(DDM, []), KindError, "names is a list of inputs"),
        (lambda: mdf_loop.simulator(DDM, ["drift", "drift"]), ArgumentError, "given twice"),
        (lambda: mdf_loop.simulator(DDM, ["drift"], drift=1.0), ArgumentError, "drift"),
        (lambda: mdf_loop.simulator(DDM, ["drift"], ["evidense"]), ArgumentError, "did you mean 'evidence'"),
        (lambda: mdf_loop.simulator(DDM, ["drift"], []), ArgumentError, "outputs is empty"),
        (lambda: mdf_loop.simulator(DDM, ["drift"], trials=0), ArgumentError, "trials must be at least 1"),
        (lambda: mdf_loop.simulator(DDM, ["drift"], reduce="mean"), ArgumentError, "number of trials"),
        (lambda: mdf_loop.simulator(DDM, ["drift"], seed=1)([[1.0], [1.0]]), LoopError, "output 'path' has .* in some runs"),
        (lambda: mdf_loop.simulator(DDM, NAMES, OUTPUTS)([[1.0]]), ArgumentError, "2 columns"),
        (lambda: mdf_loop.simulator(DDM, NAMES, OUTPUTS)("x"), KindError, "array of numbers"),
        (lambda: mdf_loop.simulator(DDM, NAMES, OUTPUTS)(np.zeros((0, 2))), ArgumentError, "no row"),
        (lambda: mdf_loop.simulator(DDM, NAMES, OUTPUTS)(THETA, seed=0.5), KindError, "whole numbers"),
        (lambda: mdf_loop.simulator(DDM, NAMES, OUTPUTS)(THETA, seed=[1, 2]), ArgumentError, "7 rows"),
        (lambda: mdf_loop.simulator(DDM, NAMES, OUTPUTS)(THETA, seed=-1), ArgumentError, "from 0"),
        (lambda: mdf_loop.simulator(DDM, NAMES, OUTPUTS)(THETA, noise=[1.0]), ArgumentError, "each of 7 rows"),
        (lambda: mdf_loop.simulator(DDM, NAMES, OUTPUTS)(THETA, nise=THETA[:, 0]), ArgumentError, "did you mean 'noise'"),
        (lambda: mdf_loop.simulator(DDM, NAMES, OUTPUTS)(THETA, drift=THETA[:, 0]), ArgumentError, "column of theta"),
        (lambda: mdf_loop.simulator(DDM, NAMES, OUTPUTS).one({"drift": 1.0}), ArgumentError, "missing: bound"),
        (
            lambda: mdf_loop.simulator(DDM, NAMES, OUTPUTS).one({"drift": [1, 2], "bound": [1, 2, 3]}),
            ArgumentError,
            "as many",
        ),
    ],
)
def test_errors_say_what_came(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_nan_in_theta_that_ends_a_loop_is_a_warning():
    f = mdf_loop.simulator(DDM, ["drift", "bound"], ["reaction_time"])
    with pytest.warns(LoopWarning, match="compares x, which is nan"):
        f([[np.nan, 1.0]])


def test_an_output_port_that_an_edge_reads_is_recorded(tmp_path):
    nodes = [
        Node("a", parameters=[Parameter("k", value=2.0)], output_ports=[OutputPort("w", value="k")]),
        Node("b", input_ports=[InputPort("x")], output_ports=[OutputPort("z", value="x")]),
    ]
    model = Graph("g", nodes=nodes, edges=[Edge("e", sender="a", receiver="b", sender_port="w", receiver_port="x")])
    says = r"no output called 'w'; an edge reads a\.w, so it is no output: give "
    with pytest.raises(KeyError, match=says + r"record=\['a\.w'\]"):
        mdf_loop.run(model)["w"]
    with pytest.raises(ArgumentError, match=says + "its node another output port"):
        mdf_loop.simulator(model, ["a.k"], ["w"])
    assert mdf_loop.run(model, record=["a.w"]).recorded["a.w"] == [2.0]
