"""Bodies as equations, in text and in mappings."""

import json

import numpy as np
import pytest
import yaml
from engines import ENGINES

import mdf_loop
from mdf_loop.errors import LoopError
from mdf_loop.readers import read
from mdf_loop.readers.expressions.equations import is_equations

OSCILLATOR = """
    # Euler's method; both lines see the values before the step
    v: v - dt * w      # so that this is simultaneous
    w: w + dt * v
    collect energy: v ** 2 + w ** 2
"""


def oscillator(n, v, w, dt):
    energies = []
    for _ in range(n):
        v, w = v - dt * w, w + dt * v
        energies.append(v**2 + w**2)
    return v, w, energies


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("n", [0, 1, 2, 300])
def test_what_is_carried_is_computed_from_what_the_iteration_found(engine, n):
    with mdf_loop.options(engine=engine):
        v, w, energies = mdf_loop.loop(n, True, 1.0, 0.0, body=OSCILLATOR, dt=0.01)
    assert (float(v), float(w), energies.tolist()) == oscillator(n, 1.0, 0.0, 0.01)


FORMS = [
    "let change: (a / x - x) / 2\nx: x + change\ncollect guesses: x\nwhile: abs(change) > 1e-12",
    {
        "let": {"change": "(a / x - x) / 2"},
        "carried": {"x": "x + change"},
        "collected": {"guesses": "x"},
        "while": "abs(change) > 1e-12",
    },
]


@pytest.mark.parametrize("body", FORMS, ids=["text", "mapping"])
@pytest.mark.parametrize("engine", ENGINES)
def test_collected_values_and_the_condition_see_what_the_iteration_made(body, engine):
    with mdf_loop.options(engine=engine):
        root, guesses = mdf_loop.loop(None, True, 1.0, body=body, a=9.0)
    assert root == 3
    assert guesses[0] == 5
    assert guesses[-1] == 3


def test_the_iteration_number_scans_and_branches():
    assert mdf_loop.loop(5, True, 0, body="x: x + i") == 10
    assert mdf_loop.loop(5, True, 0, body="i: i + iteration") == 10
    assert mdf_loop.loop(5, True, 0, body="index: k\ni: i + k") == 10
    total, sums = mdf_loop.scan(0, [1, 2, 3], num_scan_inputs=1, body="s: s + u\nscan: u\ncollect sums: s")
    assert (total, sums.tolist()) == (6, [1, 3, 6])
    body = {"carried": {"s": "s + a * b"}, "scanned": ["a", "b"]}
    assert mdf_loop.scan(0, [1, 2], [3, 4], num_scan_inputs=2, body=body) == 11
    assert mdf_loop.if_(True, then_branch="y: -x", else_branch="y: x", x=3.5) == -3.5


@pytest.mark.parametrize("engine", ENGINES)
def test_noise_is_drawn_again_and_repeats_with_the_seed(engine):
    body = "x: x + noise()\ny: y + noise(y)\nz: z + uniform() + uniform(z)\ncollect p: x"
    given = (0.0, np.zeros(3), np.zeros((2, 2)))
    with mdf_loop.options(engine=engine, seed=4):
        first, again = (mdf_loop.loop(50, True, *given, body=body) for _ in range(2))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(set(first[3].tolist())) == 50
    assert [value.shape for value in first] == [(), (3,), (2, 2), (50,)]
    rng = np.random.default_rng(4)
    expected = rng.standard_normal()
    assert first[3][0] == expected


def test_functions_go_by_their_names_alone_and_numbers_too():
    body = "x: where(x > 0, sqrt(x), exp(x)) + np.sin(pi) + math.cos(0) + max(x, 1) + clip(x, 0, 1)"
    with np.errstate(all="ignore"):
        wanted = np.sqrt(4.0) + np.sin(np.pi) + 1 + 4 + 1
    assert mdf_loop.loop(1, True, 4.0, body=body) == pytest.approx(wanted)
    assert mdf_loop.loop(1, True, 1.0, 3.0, body="pi: pi + 1\nx: x + pi")[1] == 4  # its own pi


def test_sum_min_and_max_are_those_of_arrays():
    x = np.array([[1.0, 5.0], [3.0, 2.0]])
    said = {"a": "sum(x)", "b": "sum(x, axis=0)", "c": "max(x)", "d": "min(x, 2, y)", "e": "round(x / 3, 1)"}
    body = {"carried": {"x": "x"}, "collected": said}
    _, a, b, c, d, e = mdf_loop.loop(1, True, x, body=body, y=1.5)
    assert (a[0], c[0]) == (11, 5)
    np.testing.assert_array_equal(b[0], [4, 7])
    np.testing.assert_array_equal(d[0], np.minimum(np.minimum(x, 2), 1.5))
    np.testing.assert_array_equal(e[0], np.round(x / 3, 1))


def test_lines_may_go_on_inside_brackets_and_have_comments():
    assert mdf_loop.loop(2, True, 1.0, body="# a line\nx: (x\n   + 1)  # goes on\n\n") == 3
    assert is_equations("\n  # first\n  x: x + 1")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("x: x +", "line 1: expression 'x +'"),
        ("x: x\n\ny: sqr(x)", "line 3: there is no function 'sqr'; did you mean 'sqrt'?"),
        ("x: x + uniform(0, 1, 2)", "uniform() draws one number, uniform(x) as many as x has"),
        ("x: x\nx: x + 1", "line 2: x is defined twice"),
        ("x: x\nwhile x < 3", "line 2: 'while x < 3' is not x: expression"),
        ("x: (x", "line 1: a bracket is never closed"),
        ("x: x\nlet x: 1", "'x' is carried and let as well"),
        ("x: x\nlet lambda: 1", "'lambda' (let) is a word of Python"),
        ("let y: 1\nwhile: true", "nothing is carried and nothing collected"),
        ("x:", "x has no expression"),
        ("x: x.real", "line 1: expression 'x.real'"),
        ("x: [k for k in x]", "ListComp"),
        ("x: 'text'", "a text is not a value"),
        ("x: " + "(" * 500 + "x" + ")" * 500, "line 1"),
        ("x: " + "-" * 5000 + "x", "line 1: expression"),
        ({"carried": {"x": "x"}, "whle": "x > 0"}, "unknown: whle"),
        ({"carried": {"x y": "x"}}, "'x y'"),
        ({"carried": ["x"]}, "carried: it is a mapping"),
        ({"carried": {"x": [1]}}, "equations/x: it is an expression; got [1]"),
        ({"carried": {"x": "x"}, "scanned": [1]}, "scanned are names"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_wrong_is_reported_with_its_line(body, told):
    with pytest.raises(LoopError) as caught:
        mdf_loop.loop(1, True, 1.0, body=body)
    assert told in str(caught.value)


HOSTILE = ["__import__('os').system('true')", "open('x')", "().__class__", "numpy.load('x')", "x.__class__"]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_is_evaluated(text):
    with pytest.raises(LoopError):
        mdf_loop.loop(1, True, 1.0, body=f"x: {text}")


def test_a_missing_capture_is_named():
    with pytest.raises(LoopError, match="reads 'rate' from outside"):
        mdf_loop.loop(1, True, 1.0, body="x: x * rate")


MODEL = """
decay:
  graphs:
    decay:
      nodes:
        n:
          input_ports:
            rate: {default_value: 0.5}
          parameters:
            start: {value: 8.0}
            body:
              value:
                carried:
                  x: x * rate
                collected:
                  all: x
                while: x > 1
            run: {function: 'onnx::Loop', args: {M: 10, cond: true, v_initial: start, body: body}}
          output_ports:
            last: {value: 'run[0]'}
            all: {value: 'run[1]'}
"""


def test_models_hold_equations(tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text(MODEL)
    (tmp_path / "m.json").write_text(json.dumps(yaml.safe_load(MODEL)))
    for file in (path, tmp_path / "m.json"):
        assert mdf_loop.run(file)["all"].tolist() == [4, 2, 1]
        assert mdf_loop.run(file, rate=0.25)["all"].tolist() == [2, 0.5]
    from mdf_loop.models.verifying import verify

    report = verify(path, {})
    assert not report.disagreements
    assert {place.name for place in report.others if place.outputs is not None} >= {"numpy", "onnxruntime"}


def test_equations_become_onnx_and_mdf_again():
    model = mdf_loop.load("examples/newton.yaml")
    parameter = model.graphs[0].nodes[0].get_parameter("body")
    parameter.value = {"carried": {"x": "(x + a / x) / 2"}, "collected": {"guesses": "x"}, "while": "abs(x * x - a) > tolerance"}
    written = mdf_loop.to_onnx(model, inputs=["a"])
    root, _ = mdf_loop.backend.run_model(written, {"a": np.array(9.0)})
    assert root == pytest.approx(3)
    assert mdf_loop.run(mdf_loop.convert(written), a=9.0)["root"] == root


@pytest.mark.parametrize("source", ["b () => () { }", "body.onnx", "C:\\x.onnx", "a b: c", "folder/x: y", ""])
def test_what_are_no_equations(source):
    assert not is_equations(source)


def test_a_body_has_the_names_of_its_equations():
    body = read("x: x + step\ncollect path: x")
    assert body.captures == ("step",)
    assert [str(node) for node in body.nodes] == ["x_next = add (x, step)"]


RUNNING = "s: s + x\ncollect p: s\nscan: x"


@pytest.mark.parametrize("nothing", [[], np.zeros(0)])
@pytest.mark.parametrize("engine", ENGINES)
def test_an_empty_list_is_an_array_without_elements(engine, nothing):
    with mdf_loop.options(engine=engine):
        last, path = mdf_loop.scan(0.5, nothing, num_scan_inputs=1, body=RUNNING)
        assert (last, path.shape) == (0.5, (0,))
        x, xs = mdf_loop.loop(3, True, nothing, body="x: x + 1\ncollect p: x")
        assert (x.shape, xs.shape, x.dtype) == ((0,), (3, 0), float)


def test_a_list_stays_a_list_for_bodies_that_make_sequences():
    insert = "b (int64 i, bool c, s) => (bool c, t) { t = SequenceInsert (s, i) }"
    assert len(mdf_loop.loop(2, True, [], body=insert)) == 2
    assert mdf_loop.loop(2, True, [], body=lambda i, go, s: (True, s)) == []


@pytest.mark.parametrize("body", [RUNNING, {"carried": {"s": "s + x"}, "collected": {"p": "s"}, "scanned": "x"}])
def test_equations_say_how_many_values_are_scanned(body):
    last, path = mdf_loop.scan(0.5, [1.0, 2.0], body=body)
    assert (last, path.tolist()) == (3.5, [1.5, 3.5])
    with pytest.raises(LoopError, match="num_scan_inputs must be a whole number"):
        mdf_loop.scan(0.5, [1.0, 2.0], body="s: s + 1")


KALMAN = """
let xp: F @ x
let Pp: F @ P @ F.T + Q
let S: H @ Pp @ H.T + R
let K: Pp @ H.T @ inv(S)
x: xp + K @ (z[i] - H @ xp)
P: (eye(2) - K @ H) @ Pp
collect path: x
collect d: linalg.det(S) + norm(x) + np.linalg.solve(S, z[i])[0]
"""
FILTERED = {"F": np.array([[1, 0.1], [0, 1]]), "H": np.array([[1.0, 0]]), "Q": 0.01 * np.eye(2), "R": np.array([[0.5]])}


def filtered(i, go, x, P, *, F, H, Q, R, z):
    xp, Pp = F @ x, F @ P @ F.T + Q
    S = H @ Pp @ H.T + R
    K = Pp @ H.T @ np.linalg.inv(S)
    x, P = xp + K @ (z[i] - H @ xp), (np.eye(2) - K @ H) @ Pp
    return True, x, P, x, np.linalg.det(S) + np.linalg.norm(x) + np.linalg.solve(S, z[i])[0]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("body", [KALMAN, mdf_loop.body(filtered)])
def test_a_kalman_filter_gives_what_numpy_gives(engine, body):
    values = dict(FILTERED, z=np.random.default_rng(0).normal(size=(20, 1)))
    with mdf_loop.options(engine=engine):
        found = mdf_loop.loop(20, True, np.zeros(2), np.eye(2), body=body, **values)
    expected = mdf_loop.loop(20, True, np.zeros(2), np.eye(2), body=filtered, **values)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_functions_without_a_kernel_say_what_to_do():
    for body in ("x: np.linalg.eigvals(A)[0] * x", mdf_loop.body(lambda i, go, x, *, A: (go, np.linalg.eigvals(A)[0] * x))):
        with pytest.raises(LoopError, match=r"eigvals.*a plain Python function as a body may call any"):
            mdf_loop.loop(3, True, 1.0, body=body, A=np.eye(2))


@pytest.mark.parametrize("engine", [*ENGINES, "jax"])
@pytest.mark.parametrize("n", [1, 500])
def test_equal_elements_are_sorted_in_the_order_of_their_places(engine, n):
    if engine == "jax":
        pytest.importorskip("jax")
    x = (np.arange(64) * 7 % 4).astype(np.float32)  # which numpy's usual way leaves in another order
    with mdf_loop.options(engine=engine):
        _, order = mdf_loop.loop(n, True, x, body="x: x\ncollect order: argsort(x)")
    np.testing.assert_array_equal(order, np.broadcast_to(np.argsort(x, kind="stable"), (n, 64)))
