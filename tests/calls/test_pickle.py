"""What was prepared once can be sent to another process: a pickled copy gives the same, and errors keep what they hold."""

import copy
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from mdf_bodies import graph, node, stepping
from modeci_mdf.mdf import Condition, ConditionSet, Parameter
from swept_models import limited

import mdf_loop
from mdf_loop import backend, openvino, options
from mdf_loop.errors import CollectedError, IterationError, IterationLimit, LoopInterrupted, LoopTimeout

ROOT = Path(__file__).parents[2]

NESTED = """o (int64 i, bool c, float[2] s) => (bool c, float[2] t, float[2] y) {
    small = Less (i, two) n = Add (i, two)
    u = Loop <body = inner (int64 j, bool d, float[2] a) => (bool d, float[2] b) { b = Add (a, w) }> (n, c, s)
    t = If (small) <then_branch = p () => (q) { q = Neg (u) }, else_branch = r () => (v) { v = Tanh (u) }>
    y = Mul (t, t) }"""
SCANNED = "b (float s, float[2] x) => (float t, float[2] y) { m = ReduceSum <keepdims = 0> (x) t = Add (s, m) y = Neg (x) }"
RANDOM = "b (int64 i, bool c, float[2] s) => (bool c, float[2] t) { r = RandomNormal <shape = [2]> () t = Add (s, r) }"
CONSTANTS = """<ir_version: 10, opset_import: ["": 18]> b (int64 i, bool c, bfloat16[2] s) => (bool c, bfloat16[2] t, string n)
    <bfloat16[2] k = {1, 2}, string name = {"name"}> { t = Add (s, k) n = Identity (name) }"""


def counting():
    """A body that MDF's engine runs: a condition that has no operator."""
    made = stepping([Parameter(id="n", default_initial_value=0, value="n + 1")], y="x + n")
    made.conditions = ConditionSet(node_specific={"A": Condition(type="Always")})
    return made


COMPILED = {
    "nested": (lambda: mdf_loop.compile(NESTED), (30, True, np.ones(2, np.float32)), {"w": np.float32(0.5), "two": 2}),
    "scan": (lambda: mdf_loop.compile(SCANNED, num_scan_inputs=1), (np.float32(0), np.ones((40, 2), np.float32)), {}),
    "random": (lambda: mdf_loop.compile(RANDOM), (30, True, np.ones(2, np.float32)), {}),
    "constants": (lambda: mdf_loop.compile(CONSTANTS), (30, True, np.ones(2)), {}),
    "an expression": (lambda: mdf_loop.compile(stepping(y="x * 1.5 + i", ports=("x", "i"))), (30, True, 1.0), {}),
    "stateful": (lambda: mdf_loop.compile(counting()), (30, True, 1.0), {}),
    "two nodes": (
        lambda: mdf_loop.compile(graph(node("A", ["x"], {"y": "x + 1"}), inputs=("i", "go", "x"))),
        (30, True, 1.0),
        {},
    ),
}


def listed(results):
    return [np.asarray(value).tolist() for value in (results if isinstance(results, tuple) else (results,))]


@pytest.mark.parametrize("engine", ["interpret", "numpy", "auto"])
@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_loop_that_ran_in_any_engine(name, engine):
    make, args, captured = COMPILED[name]
    compiled = make()
    with options(engine=engine, seed=3):
        want = listed(compiled(*args, **captured))
        for copied in (pickle.loads(pickle.dumps(compiled)), copy.deepcopy(compiled)):
            assert listed(copied(*args, **captured)) == want
            assert copied.explain().split("\n")[0] == compiled.explain().split("\n")[0]


def in_another_process(thing, call, tmp_path):
    """What an expression gives there, in which ``thing`` is the copy; in an engine whose digits depend on no clock."""
    path = tmp_path / "thing.pickle"
    path.write_bytes(pickle.dumps(thing))
    code = f"import pickle; thing = pickle.load(open({str(path)!r}, 'rb')); import numpy as np; import mdf_loop\n"
    code += f"with mdf_loop.options(engine='numpy'): print({call})"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()


def test_in_another_process(tmp_path):
    compiled = mdf_loop.compile(NESTED)
    call = "[np.asarray(v).tolist() for v in thing(30, True, np.ones(2, np.float32), w=np.float32(0.5), two=2)]"
    with options(engine="numpy"):
        want = listed(compiled(30, True, np.ones(2, np.float32), w=np.float32(0.5), two=2))
    assert in_another_process(compiled, call, tmp_path) == str(want)


MODEL = """<ir_version: 10, opset_import: ["": 18]> g (int64 n, float[2] x) => (float[2] y, float[N, 2] z) {
    y, z = Loop <body = b (int64 i, bool c, float[2] s) => (bool c, float[2] t, float[2] u) {
        t = Neg (s) u = Tanh (t) }> (n, , x) }"""


@pytest.mark.parametrize("engine", ["interpret", "numpy", "auto"])
def test_models_of_onnx(engine, tmp_path):
    model, given = backend.prepare(onnx.parser.parse_model(MODEL)), [np.int64(41), np.float32([1, 2])]
    with options(engine=engine):
        want = listed(model.run(given))
        assert listed(pickle.loads(pickle.dumps(model)).run(given)) == want
    with options(engine="numpy"):
        call = "[v.tolist() for v in thing.run([np.int64(41), np.float32([1, 2])])]"
        assert in_another_process(model, call, tmp_path) == str(listed(model.run(given)))


def test_models_of_openvino():
    model = openvino.prepare(ROOT / "tests/models/ov_loop.xml")
    shapes = [[d if isinstance(d, int) else 4 for d in model.body.type_of(name).shape] for name in model.inputs]
    given = [np.ones(shape, np.float32) for shape in shapes]
    want = listed(model.run(given))
    copied = pickle.loads(pickle.dumps(model))
    assert listed(copied.run(given)) == want
    assert (copied.inputs, copied.outputs) == (model.inputs, model.outputs)


@pytest.mark.parametrize("kind", [IterationError, CollectedError, IterationLimit, LoopTimeout, LoopInterrupted])
def test_errors_keep_what_they_hold(kind):
    def body(i, c, s):
        if i == 2:
            raise kind("so it is")
        return True, s + 1, s

    with pytest.raises(kind) as info:
        mdf_loop.loop(5, True, 0.0, body=body)
    copied = pickle.loads(pickle.dumps(info.value))
    assert (type(copied), str(copied), copied.iteration) == (kind, str(info.value), 2)
    assert listed(copied.partial) == [2.0, [0.0, 1.0]]


def test_an_error_of_a_worker_has_the_results_of_the_run():
    with ProcessPoolExecutor(1, get_context("spawn")) as pool, pytest.raises(IterationLimit) as caught:
        pool.submit(limited, 0).result()
    with pytest.raises(IterationLimit) as here:
        limited(0)
    found, wanted = caught.value.results, here.value.results
    assert (found.iterations, found.stop) == (wanted.iterations, wanted.stop) == (5, "max_iterations")
    assert found["path"].tolist() == wanted["path"].tolist()
    assert found.recorded["decision.trial.x"].tolist() == wanted.recorded["decision.trial.x"].tolist()
