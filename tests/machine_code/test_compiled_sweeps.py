"""Random numbers and many runs in machine code: the numbers, and the state of the stream, are those of single draws."""

import threading
import time

import numpy as np
import pytest
from modeci_mdf.mdf import Graph, Node, OutputPort, Parameter

pytest.importorskip("llvmlite")
pytest.importorskip("xarray")


import mdf_loop
from mdf_loop.backends.llvm.compiled_program import MachineProgram, program
from mdf_loop.backends.llvm.operations import loops_and_branches
from mdf_loop.backends.llvm.operators import operator_table
from mdf_loop.execute import stepped_part
from mdf_loop.execute.specialised import Specialised
from mdf_loop.options import options, random_stream
from mdf_loop.readers import read
from mdf_loop.readers.onnx.loop_records import loop_record
from mdf_loop.settings.random_streams import RandomStream
from mdf_loop.step.failing import FallBack
from mdf_loop.step.lower import lower_loop
from mdf_loop.step.records import Type
from mdf_loop.sweeps import seeds, side_by_side, vectors

DIFFUSION = "examples/drift_diffusion.yaml"

DRAWS = {
    "normal": "z = RandomNormalLike (x)",
    "normal of other parameters": "z = RandomNormalLike <mean = 0.25, scale = 3.0> (x)",
    "uniform": "z = RandomUniformLike (x)",
    "uniform of other parameters": "z = RandomUniformLike <low = -0.7, high = 2.1> (x)",
    "two in turn": "u = RandomUniformLike (x) v = RandomNormalLike (x) w = Mul (u, v) z = Add (w, v)",
    "of another type": "h = RandomNormalLike <dtype = 1> (x) u = RandomUniformLike <dtype = 1> (x) "
    "p = CastLike (h, x) q = CastLike (u, x) z = Add (p, q)",
    "where it is decided": "s = ReduceSum <keepdims = 0> (x) o = CastLike (s, l) q = Less (o, l) "
    "z = If (q) <then_branch = t () => (double[n] p) { p = RandomNormalLike (x) }, "
    "else_branch = e () => (double[n] p) { p = RandomUniformLike (x) }>",
}


def run_both(text, x, generator, count=200, **captured):
    """Results and the stream's state behind them, by the definition of what is right and by machine code."""
    found = []
    for engine in ("interpret", "jit"):
        stream = RandomStream.over(generator())
        with options(engine=engine), random_stream(stream):
            results = mdf_loop.loop(count, True, x, body={"onnx": text}, **captured)
        found.append((results, stream.shared().bit_generator.state))
    return found


@pytest.fixture
def outside(monkeypatch):
    """The operators that programs leave to their kernels."""
    found, original = [], operator_table.run_outside

    def noting(e, v):
        found.append(v.attr.node.op)
        return original(e, v)

    monkeypatch.setattr(operator_table, "run_outside", noting)
    return found


@pytest.mark.parametrize("shape", [(), (1,), (5,), (0,)], ids=str)
@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.MT19937], ids=["pcg", "another stream"])
def test_programs_draw_what_kernels_draw(name, shape, bits, outside):
    kind = "double[n]" if shape else "double"
    body = DRAWS[name].replace("double[n]", kind)
    signature = f"b (int64 i, bool c, {kind} x) => (bool c, {kind} y, {kind} k)"
    text = f"{signature} {{ {body} h2 = Mul (x, a) y = Add (h2, z) k = Identity (z) }}"
    outer = {"a": 0.5, **({"l": 0.1} if " l)" in body else {})}
    (expected, state), (actual, moved) = run_both(text, np.zeros(shape), lambda: np.random.Generator(bits(3)), **outer)
    for a, b in zip(expected, actual, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_equal(moved, state)
    assert not outside


def test_numbers_that_the_ziggurat_seldom_gives_are_numpys_too():
    text = "b (int64 i, bool c, double x) => (bool c, double x, double k) { k = RandomNormalLike (x) }"
    with options(engine="jit", seed=11):
        drawn = mdf_loop.loop(400_000, True, 0.0, body={"onnx": text})[1]
    np.testing.assert_array_equal(drawn, np.random.default_rng(11).normal(size=400_000))
    assert np.abs(drawn).max() > 3.7  # beyond the last layer


def test_a_loop_that_ends_early_leaves_the_stream_where_single_draws_do():
    text = """b (int64 i, bool c, double x) => (bool g, double y) {
      z = RandomNormalLike (x) y = Add (x, z) d = Abs (y) g = Less (d, bound) }"""
    with random_stream(RandomStream(5)) as stream, options(engine="jit"):
        first, second = (mdf_loop.loop(None, True, 0.0, body={"onnx": text}, bound=9.0) for _ in range(2))
    rng, found = np.random.default_rng(5), []
    for _ in range(2):
        x = 0.0
        while abs(x) < 9:
            x += rng.normal()
        found.append(x)
    assert [float(first), float(second)] == found
    assert stream.shared().bit_generator.state == rng.bit_generator.state


def test_a_block_that_machine_code_leaves_draws_its_numbers_once(monkeypatch):
    """What was drawn before the program gave up is put back."""

    def drawing_in_vain(region, is_block):
        def call(run, *values):
            run.stream.shared().normal(size=3)
            raise FallBack

        return Specialised(call, region, size=1)

    monkeypatch.setattr(stepped_part, "in_machine_code", drawing_in_vain)
    text = "b (int64 i, bool c, double x) => (bool c, double y) { z = RandomNormalLike (x) h = Mul (x, z) y = Add (h, z) }"
    found = []
    for engine in ("interpret", "jit"):
        with options(engine=engine, seed=3, max_iterations=10**6):  # no program of the whole loop
            found.append(mdf_loop.loop(3000, True, 0.5, body={"onnx": text}))
    np.testing.assert_array_equal(*found)


BODIES = {
    "ends by itself": """b (int64 i, bool c, double[n] x) => (bool g, double[n] y, double s, double[n] k) {
      z = RandomNormalLike (x) n = Mul (a, z) y = Add (x, n) k = Abs (y) s = ReduceMax <keepdims = 0> (k) g = Less (s, l) }""",
    "adds up": """b (int64 i, bool c, double[n] x) => (bool c, double[n] y, double s, double[n] k) {
      s = ReduceSum <keepdims = 0> (x) z = RandomUniformLike (x) e = Mul (a, z) d = Sub (e, s) h = Mul (d, l)
      k = Add (x, h) y = Relu (k) }""",
    "exponentials": """b (int64 i, bool c, double[n] x) => (bool c, double[n] y, double s, double[n] k) {
      z = RandomNormalLike (x) e = Exp (z) h = Tanh (e) k = Mul (h, a) y = Add (x, k) s = ReduceMean <keepdims = 0> (y) }""",
    "something outside": """b (int64 i, bool c, double[n] x) => (bool c, double[n] y, double s, double[n] k) {
      z = RandomNormalLike <seed = 4.0> (x) k = Mul (z, a) w = RandomNormalLike (x) h = Add (k, w) y = Add (x, h)
      s = ReduceMax <keepdims = 0> (y) }""",
}


def graph_of(name, n=3, m=200, bodies=BODIES):
    """A graph of one loop over arrays of n elements."""
    values = {"a": 0.3, "l": 0.6, "x": [0.1] * n, "m": m, "body": {"onnx": bodies[name]}}
    parameters = [Parameter(id=id, value=value) for id, value in values.items()]
    args = {"M": "m", "cond": True, "x": "x", "body": "body"}
    parameters.append(Parameter(id="run", function="onnx::Loop", args=args))
    ports = [OutputPort(id=f"o{k}", value=f"run[{k}]") for k in range(3)]
    return Graph(id="g", nodes=[Node(id="n", parameters=parameters, output_ports=ports)])


@pytest.mark.parametrize(("n", "outputs"), [(3, ["o0", "o1", "o2"]), (40, ["o0"])], ids=str)
@pytest.mark.parametrize(("name", "engine"), [*((name, "jit") for name in BODIES), ("adds up", "auto")])
def test_a_sweep_in_machine_code_is_the_loop_of_single_runs(name, engine, n, outputs, monkeypatch):
    runs, original = [], side_by_side.many

    def counting(*args):
        found = original(*args)
        runs.append(found is not None)
        return found

    monkeypatch.setattr(side_by_side, "many", counting)
    trials = 300 if name != "something outside" else 30  # where the interpreter's kernel is called in each iteration
    model, over = mdf_loop.prepare(graph_of(name, n)), {"a": [0.1, 0.2, 0.3]}
    with options(engine=engine):
        s = mdf_loop.sweep(model, over, trials=trials, seed=1, outputs=outputs)
    with options(engine=s.attrs["engine"]):
        for p, k in [(0, 0), (1, 17), (2, trials - 1)]:
            r = mdf_loop.run(model, a=over["a"][p], seed=np.random.SeedSequence(1, spawn_key=(p, k)))
            for each in outputs:
                found = s[each].values[p, k]
                np.testing.assert_array_equal(found[: len(r[each])] if found.ndim else found, r[each])
    assert all(runs)


QUIET = {
    "plain": """b (int64 i, bool c, double[n] x) => (bool c, double[n] y, double s, double[n] k) {
      d = Div (x, l) e = Mul (d, d) k = Sub (e, a) t = Tanh (k) y = Add (t, a) s = ReduceMax <keepdims = 0> (y) }""",
    "adds up": """b (int64 i, bool c, double[n] x) => (bool c, double[n] y, double s, double[n] k) {
      s = ReduceSum <keepdims = 0> (x) e = Mul (a, x) d = Sub (e, s) k = Sin (d) y = Exp (k) }""",
    "at places": """b (int64 i, bool c, double[n] x) => (bool c, double[n] y, double s, double[n] k) <int64 three = {3}> {
      at = Mod (i, three) s = Gather (x, at) f = Floor (s) g = Add (f, a) k = Mul (x, a) h = If (c) <
        then_branch = t () => (p) { p = Sub (x, g) }, else_branch = e () => (q) { q = Neg (x) }> y = Add (h, l) }""",
    "ends by itself": """b (int64 i, bool c, double[n] x) => (bool g, double[n] y, double s, double[n] k) {
      k = Mul (x, a) y = Add (k, l) s = ReduceMax <keepdims = 0> (y) g = Less (s, l) }""",
}
AT_ONCE = {"plain", "adds up", "at places"}
"""Those of which several runs are done at once where they are short."""


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("n", [3, 40])
@pytest.mark.parametrize("name", QUIET)
def test_runs_without_noise_are_done_several_at_once(name, n, workers, monkeypatch):
    monkeypatch.setattr(vectors, "WORTH", 0.0)
    monkeypatch.setattr(vectors, "LANES", 8)
    done, original = [], vectors.Vectors.run

    def counting(self, *args):
        found = original(self, *args)
        done.append(0 if found is None else len(found[0]))
        return found

    monkeypatch.setattr(vectors.Vectors, "run", counting)
    model, over = mdf_loop.prepare(graph_of(name, n, bodies=QUIET)), {"a": np.linspace(-0.9, 0.9, 75), "l": [0.6, 0.3]}
    with options(engine="jit"):
        s = mdf_loop.sweep(model, over, workers=workers)
        for p, q in np.ndindex(75, 2):
            r = mdf_loop.run(model, a=over["a"][p], l=over["l"][q])
            for each in r:
                found = s[each].values[p, q]
                np.testing.assert_array_equal(found[: len(r[each])] if found.ndim else found, r[each])
    assert (sum(done) > 32) == (name in AT_ONCE and not (name == "adds up" and n > 8))


@pytest.mark.parametrize("name", QUIET)
def test_numpy_does_several_at_once_where_that_gives_the_same_bits(name, monkeypatch):
    done, original = [], vectors.Vectors.run_in_numpy
    monkeypatch.setattr(vectors.Vectors, "run_in_numpy", lambda self, *args: done.append(original(self, *args)) or done[-1])
    monkeypatch.setattr(vectors, "MANY", 64)
    model, over = mdf_loop.prepare(graph_of(name, 3, bodies=QUIET)), {"a": np.linspace(-0.9, 0.9, 75), "l": [0.6, 0.3]}
    with options(engine="numpy"):
        s = mdf_loop.sweep(model, over)
        for p, q in np.ndindex(75, 2):
            r = mdf_loop.run(model, a=over["a"][p], l=over["l"][q])
            for each in r:
                found = s[each].values[p, q]
                np.testing.assert_array_equal(found[: len(r[each])] if found.ndim else found, r[each])
    assert [len(found[0]) for found in done] == ([150] if name == "at places" else [])


def test_the_time_is_kept_where_numpy_does_several_at_once():
    model, begun = mdf_loop.prepare(graph_of("at places", m=10**9, bodies=QUIET)), time.perf_counter()
    with options(engine="numpy", timeout=0.5), pytest.raises(mdf_loop.errors.LoopTimeout):
        mdf_loop.sweep(model, {"a": np.linspace(-0.9, 0.9, 75)}, outputs=["o0"])
    assert time.perf_counter() - begun < 5


@pytest.mark.parametrize("engine", ["interpret", "numpy", "auto"])
def test_engines_differ_in_nothing_where_bits_are_the_same(engine):
    model, found = mdf_loop.prepare(graph_of("adds up", 7)), []
    for each in (engine, "jit"):
        with options(engine=each):
            found.append(mdf_loop.run(model, trials=4, seed=1)["o0"])
    np.testing.assert_array_equal(*found)


def test_threads_chunks_and_what_is_kept_change_nothing():
    model, over = mdf_loop.prepare(graph_of("ends by itself")), {"a": np.linspace(0.1, 0.9, 9)}
    with options(engine="jit"):
        whole = mdf_loop.sweep(model, over, trials=20, seed=3)
        for how in ({"workers": 3, "chunk": 7}, {"chunk": 50}, {"workers": 2}):
            part = mdf_loop.sweep(model, over, trials=20, seed=3, outputs=["o0"], **how)
            np.testing.assert_array_equal(whole.o0, part.o0)


def test_limits_are_kept_where_many_runs_are_one_call():
    model = mdf_loop.prepare(graph_of("ends by itself", m=10**9))
    with options(engine="jit", timeout=0.3), pytest.raises(mdf_loop.errors.LoopTimeout):
        mdf_loop.sweep(model, {"l": [1e300]}, trials=2, seed=3, outputs=["o0"])
    with options(engine="jit", max_iterations=50):
        s = mdf_loop.sweep(model, {"l": [1e300]}, trials=2, seed=3, outputs=["o0"])
    assert len(s.attrs["errors"]) == 2


def test_programs_with_nothing_outside_run_without_pythons_lock(monkeypatch):
    """While one thread is in a program that never looks around, another one works."""
    monkeypatch.setattr(loops_and_branches, "FUEL", 1 << 60)
    body = read({"onnx": "b (int64 i, bool c, double x) => (bool c, double y) { h = Mul (x, x) y = Sub (h, x) }"}, 1, "loop")
    number, count = Type(np.dtype(np.float64), ()), Type(np.dtype(np.int64), ())
    made = program(lower_loop(loop_record(body, 1), [count, number], True, True))
    assert isinstance(made, MachineProgram)
    assert made.is_free
    thread, turns = threading.Thread(target=made, args=(None, np.int64(10**8), np.float64(0.5))), 0
    thread.start()
    while thread.is_alive():
        turns += 1
        time.sleep(0.001)
    assert turns > 20


def test_streams_of_sweeps_begin_without_numpys_seeds(monkeypatch):
    def refuse(*_):
        raise AssertionError("a seed of a single run was made")

    with options(engine="interpret"):
        runs = [mdf_loop.run(DIFFUSION, drift=2.0, seed=np.random.SeedSequence(1, spawn_key=(1, k))) for k in range(3)]
    with options(engine="jit"):
        expected = mdf_loop.sweep(DIFFUSION, {"drift": [0.0, 2.0]}, trials=20, seed=1, outputs=["reaction_time"])
        monkeypatch.setattr(seeds, "seed_of", refuse)
        found = mdf_loop.sweep(DIFFUSION, {"drift": [0.0, 2.0]}, trials=20, seed=1, outputs=["reaction_time"], chunk=7)
    np.testing.assert_array_equal(found.reaction_time, expected.reaction_time)
    np.testing.assert_array_equal(found.reaction_time[1, :3], [run["reaction_time"] for run in runs])
