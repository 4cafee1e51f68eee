"""Differential equations become carried values: those that one would write by hand, with the order that each method has."""

import math

import numpy as np
import pytest
import yaml
from engines import ENGINES
from hypothesis import given, settings
from hypothesis import strategies as st
from modeci_mdf.mdf import Graph, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.errors import LoopError, LoopWarning, MalformedBody, MissingCapture
from mdf_loop.readers.expressions.equation_texts import equations_in

METHODS = ["euler", "heun", "rk4"]


def by_hand(f, state, dt, n, method):
    """Steps of a system by numpy."""
    y = np.array(state, float)
    for _ in range(n):
        k1 = f(y)
        if method == "euler":
            y = y + dt * k1
        elif method == "heun":
            y = y + dt * (k1 + f(y + dt * k1)) / 2
        else:
            k2 = f(y + dt / 2 * k1)
            k3 = f(y + dt / 2 * k2)
            y = y + dt * (k1 + 2 * k2 + 2 * k3 + f(y + dt * k3)) / 6
    return y


TERMS = {
    "-v": lambda v, u, a, b: -v,
    "a * u - v": lambda v, u, a, b: a * u - v,
    "v - v ** 3 / 3 - u + a": lambda v, u, a, b: v - v**3 / 3 - u + a,
    "b * (v + a - u)": lambda v, u, a, b: b * (v + a - u),
    "sin(u) * a - b": lambda v, u, a, b: np.sin(u) * a - b,
    "drive - u": lambda v, u, a, b: a * v * u - u,
    "(1 - drive) / (1 + u * u)": lambda v, u, a, b: (1 - a * v * u) / (1 + u * u),
}


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(METHODS), st.sampled_from(sorted(TERMS)), st.sampled_from(sorted(TERMS)), st.integers(1, 12),
    st.floats(-1, 1), st.floats(-1, 1), st.floats(0.1, 1), st.floats(0.1, 1),
)  # fmt: skip
def test_a_system_takes_the_steps_that_one_writes_by_hand(method, first, second, n, v, u, a, b):
    body = {"derivatives": {"v": first, "u": second}, "let": {"half": "a * v", "drive": "half * u"}, "method": method}
    body["while"] = "a + b < 9"
    found = mdf_loop.loop(n, True, v, u, body=body, a=a, b=b, dt=0.1)
    steps = by_hand(lambda y: np.array([TERMS[first](*y, a, b), TERMS[second](*y, a, b)]), (v, u), 0.1, n, method)
    np.testing.assert_allclose(found, steps, rtol=1e-10, atol=1e-12)


WRITTEN = {
    "euler": "x: x + dt * (a - x * y)\ny: y + dt * (x - y)\ncollect path: x",
    "heun": """
        let p1: a - x * y
        let q1: x - y
        let x2: x + dt * p1
        let y2: y + dt * q1
        x: x + dt * (p1 + (a - x2 * y2)) / 2
        y: y + dt * (q1 + (x2 - y2)) / 2
        collect path: x
    """,
    "rk4": """
        let p1: a - x * y
        let q1: x - y
        let x2: x + dt / 2 * p1
        let y2: y + dt / 2 * q1
        let p2: a - x2 * y2
        let q2: x2 - y2
        let x3: x + dt / 2 * p2
        let y3: y + dt / 2 * q2
        let p3: a - x3 * y3
        let q3: x3 - y3
        let x4: x + dt * p3
        let y4: y + dt * q3
        x: x + dt * (p1 + 2 * p2 + 2 * p3 + (a - x4 * y4)) / 6
        y: y + dt * (q1 + 2 * q2 + 2 * q3 + (x4 - y4)) / 6
        collect path: x
    """,
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("method", METHODS)
def test_it_is_the_same_to_the_last_bit_as_equations_that_are_written_out(method, engine):
    short = f"dx/dt: a - x * y\ndy/dt: x - y\nmethod: {method}\ncollect path: x"
    with mdf_loop.options(engine=engine):
        found, wanted = (mdf_loop.loop(400, True, 0.5, 1.5, body=body, a=1.3, dt=0.05) for body in (short, WRITTEN[method]))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


CLOCKS = {
    "derivative": {"derivatives": {"t": 1}},
    "carried": {"carried": {"t": "t + dt"}},
    "turned": {"carried": {"t": "dt + t"}},
    "scaled": {"carried": {"t": "t + 1000 * dt"}, "let": {"force": "sin(2 * (t / 1000))"}},
    "captured": {"carried": {"t": "t + dt / speed"}, "let": {"force": "sin(angle)", "angle": "t * 2 * speed"}},
}
"""Ways to say what the time is: its last value is 2 in its own unit."""


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize(("method", "order"), [("euler", 1), ("heun", 2), ("rk4", 4)])
def test_errors_shrink_with_the_order_of_the_method_where_the_equations_read_the_time(method, order, clock):
    said = CLOCKS[clock]
    body = {"derivatives": {"x": "y", "y": "-x + force"}, "let": {"force": "sin(2 * t)"}, "method": method}
    body |= {key: body.get(key, {}) | said[key] for key in said if key != "let"} | {"let": said.get("let", body["let"])}
    given = {"speed": 4.0} if clock == "captured" else {}
    errors = []
    for n in (40, 80, 160):
        found = mdf_loop.loop(n, True, x=1.0, y=0.0, t=0.0, body=body, dt=2 / n, **given)
        x, y, t = (found[list(equations_in(body).carried).index(name)] for name in "xyt")
        place = math.cos(2) + 2 / 3 * math.sin(2) - math.sin(4) / 3
        speed = -math.sin(2) + 2 / 3 * math.cos(2) - 2 / 3 * math.cos(4)
        errors.append(math.hypot(x - place, y - speed))
        assert abs(t / {"scaled": 1000, "captured": 0.25}.get(clock, 1) - 2) < 1e-12
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert (np.abs(orders - order) < 0.25).all(), orders


def test_a_time_whose_step_is_a_number_moves_too():
    body = {"derivatives": {"x": "cos(t)"}, "carried": {"t": "t + 0.1"}, "dt": 0.1, "method": "rk4"}
    x, t = mdf_loop.loop(20, True, x=0.0, t=0.0, body=body)
    assert abs(x - math.sin(2)) < 1e-6
    assert abs(t - 2) < 1e-12


@pytest.mark.parametrize(
    "body",
    [
        {"derivatives": {"x": "where(i < 2, u, 0.0)"}},
        {"derivatives": {"x": "where(i % 2 == 0, u, n)"}, "carried": {"n": "n + 1"}},
        {"derivatives": {"x": "u + w"}, "let": {"w": "numpy.array([1.0, 2.0, 3.0, 4.0])[i]"}},
    ],
)
def test_the_iteration_number_and_other_values_are_the_same_throughout_a_step(body):
    given = {"n": 0.0} if "carried" in body else {}
    found = [mdf_loop.loop(4, True, body=body | {"method": how}, x=0.0, u=2.0, dt=0.5, **given) for how in METHODS]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-12)


AT_A_NUMBER = [
    {"derivatives": {"x": "sin(w * i * dt)"}},
    {"derivatives": {"x": "where(i * dt < 5, w, 0.0)"}},
    {"derivatives": {"x": "b"}, "let": {"t": "i / 10", "b": "t + w"}},
    {"derivatives": {"x": "w * t"}, "carried": {"t": "(i + 1) * dt"}},
    "dx/dt: w + (i + 0.5) * dt\nmethod: {method}",
    "index: k\ndx/dt: w * k * dt\nmethod: {method}",
]


@pytest.mark.parametrize("place", range(len(AT_A_NUMBER)))
@pytest.mark.parametrize("method", METHODS)
def test_a_time_made_of_the_iteration_number_is_refused_where_it_would_be_of_first_order(place, method):
    """It was the time at the start of the step for every slope, without a word."""
    body = AT_A_NUMBER[place]
    body = body.format(method=method) if isinstance(body, str) else body | {"method": method}
    given = {"x": 0.0, "w": 1.0, "dt": 0.1} | ({"t": 0.0} if "carried" in body else {})
    if method == "euler":
        assert mdf_loop.loop(3, True, body=body, **given) is not None
        return
    with pytest.raises(MalformedBody, match=r"the same throughout a step.*carry the time, t: t \+ dt, and read t"):
        mdf_loop.loop(3, True, body=body, **given)
    if isinstance(body, str):  # a body with constants around it is read in another way
        with pytest.raises(MalformedBody, match="the same throughout a step"):
            mdf_loop.loop(3, True, body=body.replace("w", "tau"), tau=1.0, **{k: v for k, v in given.items() if k != "w"})


def test_a_value_that_is_called_as_the_iteration_number_is_no_time():
    for body in ({"derivatives": {"v": "(i * r - v) / tau"}, "method": "rk4"}, "dv/dt: (i * r - v) / tau\nmethod: rk4"):
        v = mdf_loop.loop(100, True, 0.0, body=body, i=2.0, r=3.0, tau=0.5, dt=0.1)
        assert abs(v - 6) < 1e-6


def test_a_let_that_draws_is_refused_through_others_and_is_free_where_no_derivative_reads_it():
    body = {"derivatives": {"v": "a"}, "let": {"a": "2 * j", "j": "noise()"}, "method": "heun"}
    with pytest.raises(MalformedBody, match="reads 'a', which draws random numbers"):
        mdf_loop.loop(3, True, 1.0, body=body, dt=0.1)
    body = {"derivatives": {"v": "-v"}, "let": {"j": "v * noise()"}, "method": "heun", "collected": {"c": "v + j"}}
    v, c = mdf_loop.loop(3, True, 1.0, body=body, dt=0.1)
    assert abs(v - c[-1]) > 0


@pytest.mark.parametrize("engine", ENGINES)
def test_noise_is_scaled_by_the_root_of_the_step(engine):
    short = {"derivatives": {"x": "(a - x + s * noise()) / tau", "y": "-y - noise() * s"}}
    written = {
        "carried": {
            "x": "x + dt * ((a - x) / tau) + sqrt(dt) * (s * noise() / tau)",
            "y": "y + dt * (-y) + sqrt(dt) * (-(noise() * s))",
        }
    }
    with mdf_loop.options(seed=4, engine=engine):
        given = {"a": 1.0, "s": 0.4, "tau": 2.0, "dt": 0.01}
        found, wanted = (mdf_loop.loop(300, True, 0.0, 0.0, body=body, **given) for body in (short, written))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dt", [0.02, 0.1])
@pytest.mark.parametrize("method", METHODS)
def test_the_spread_of_a_process_does_not_depend_on_the_step(method, dt):
    body = {"derivatives": {"x": "-x + s * noise(x)"}, "method": method, "dt": dt}
    with mdf_loop.options(seed=1):
        x = mdf_loop.loop(int(8 / dt), True, np.zeros(20_000), body=body, s=0.7)
    assert abs(x.std() - 0.7 / math.sqrt(2)) < 0.02 + (0.02 if method == "euler" and dt > 0.05 else 0)
    assert abs(x.mean()) < 0.02


def test_text_and_mapping_are_the_same_and_other_values_stay():
    text = "let dt: 0.5\ndv/dt: k - v\nn: n + 1\nmethod: heun\ncollect path: v\nwhile: v < 2"
    mapping = {
        "derivatives": {"v": "k - v"}, "carried": {"n": "n + 1"}, "method": "heun", "dt": 0.5,
        "collected": {"path": "v"}, "while": "v < 2",
    }  # fmt: skip
    found, other = (mdf_loop.loop(None, True, 0.0, 0, body=body, k=3.0) for body in (text, mapping))
    for one, two in zip(found, other, strict=True):
        np.testing.assert_array_equal(one, two)
    assert equations_in(mapping).carried["v"] == "v + dt * (v_slope1 + v_slope2) / 2"
    assert list(equations_in({"carried": {"n": "n"}, "derivatives": {"v": "1"}}).carried) == ["n", "v"]


@pytest.mark.parametrize("method", ["euler", "heun", "rk4"])
@pytest.mark.parametrize(("slope", "text"), [(1, "t + dt"), (2.5, "t + dt * 2.5"), (1.0, "t + dt * 1.0")])
def test_a_slope_that_is_a_number_is_written_as_one(method, slope, text):
    body = {"derivatives": {"t": slope, "v": "t - v"}, "method": method, "dt": 0.5}
    said = equations_in(body)
    assert said.carried["t"] == text
    assert not any(name.startswith("t_slope") for name in said.let)
    other = {**body, "derivatives": {"t": f"{slope} + 0 * t", "v": "t - v"}}
    found, expected = (mdf_loop.loop(4, True, 0.0, 0.0, body=each) for each in (body, other))
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize(("term", "root"), [("L @ noise(x)", 0), ("-(L @ (s * noise(x)))", 0), ("noise(x) @ L", 1)])
@pytest.mark.parametrize("method", ["euler", "rk4"])
def test_noise_may_be_correlated_by_a_matrix(term, root, method):
    factor = np.array([[2.0, 0.0], [1.2, 1.6]])
    given = {"L": factor, "s": 1.0} if "s *" in term else {"L": factor}
    body = f"dx/dt: {term}\nmethod: {method}\ndt: 0.25\ncollect all_x: x"
    with mdf_loop.options(seed=1):
        steps = np.diff(mdf_loop.loop(40_000, True, np.zeros(2), body=body, **given)[1], axis=0)
    expected = 0.25 * (factor.T @ factor if root else factor @ factor.T)
    np.testing.assert_allclose(np.cov(steps.T), expected, rtol=0.03)


def test_a_slope_that_is_noise_alone_adds_nothing_else():
    assert equations_in({"derivatives": {"t": "noise()"}, "dt": 0.5}).carried["t"] == "t + sqrt(dt) * (noise())"


def test_names_that_are_read_are_not_taken_for_parts_of_a_step():
    body = {"derivatives": {"v": "v_slope1 - v + v_at2"}, "method": "heun"}
    found = mdf_loop.loop(5, True, 0.0, body=body, v_slope1=1.0, v_at2=2.0, dt=0.1)
    np.testing.assert_allclose(found, by_hand(lambda y: 3.0 - y, [0.0], 0.1, 5, "heun")[0], rtol=1e-12)


MODEL = """
neuron:
  graphs:
    neuron:
      nodes:
        cell:
          input_ports: {current: {default_value: 1.5}}
          parameters:
            tau: {value: 20.0}
            dt: {value: 0.1}
            body:
              value:
                derivatives: {v: (current - v) / tau, t: 1}
                method: rk4
                collected: {path: v}
                while: v < 1
            run: {function: onnx::Loop, args: {M: 10000, v: 0.0, t: 0.0, body: body}}
          output_ports: {spike: {value: run.t}, path: {value: run.path}}
"""


def test_a_model_goes_to_onnx_and_back_and_explains_what_becomes_of_it(tmp_path):
    path = tmp_path / "neuron.yaml"
    path.write_text(MODEL)
    model = mdf_loop.prepare(path)
    here = model(current=1.3)
    assert abs(here["spike"] - 20 * math.log(1.3 / 0.3)) < 0.1
    onnx = tmp_path / "neuron.onnx"
    from onnx import save

    save(mdf_loop.to_onnx(path), onnx)
    again = tmp_path / "again.yaml"
    again.write_text(yaml.safe_dump(yaml.safe_load(MODEL)))
    back = mdf_loop.convert(onnx)
    for other in (mdf_loop.prepare(onnx), mdf_loop.prepare(back), mdf_loop.prepare(again)):
        found = other(current=1.3)
        np.testing.assert_allclose(found["spike"], here["spike"], rtol=1e-12)
        np.testing.assert_allclose(found["path"], here["path"], rtol=1e-12)
    said = model.explain()
    assert said.startswith("cell.run, derivatives become:\n  let ")
    plain = mdf_loop.prepare("examples/gallery/spikes.yaml").explain(operators=True)
    assert plain.startswith("equations of neuron.body, whose parts are v_next, v_next~2, ... below\n  let is_on: ")
    assert "\n  v: where(fires, 0.0, next)\n" in plain
    assert "v: v + dt * (v_slope1 + 2 * v_slope2 + 2 * v_slope3 + v_slope4) / 6" in said
    assert model.graph.nodes[0].get_parameter("body").value["derivatives"] == {"v": "(current - v) / tau", "t": 1}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"derivatives": {"v": "-v"}, "method": "rk5"}, "method is euler, heun, rk4; got 'rk5'; did you mean 'rk4'"),
        ({"carried": {"v": "-v"}, "method": "rk4"}, "of which there are none"),
        ({"derivatives": {"v": "-v"}, "carried": {"v": "v"}}, "'v' is carried and has a derivative as well"),
        ({"derivatives": {"v": "-v"}, "carried": {"dt": "dt"}}, "dt is the length of a step"),
        ({"derivatives": {"v": "exp(noise())"}}, r"the derivative of v has noise in 'exp\(noise\(\)\)'"),
        ({"derivatives": {"v": "noise() * noise()"}}, "noise is a term"),
        ({"derivatives": {"v": "a * xi"}, "let": {"xi": "noise()"}}, "reads 'xi', which draws random numbers"),
        ({"derivatives": {"v": "(1 - "}}, "equations/v: expression"),
        ({"derivatives": ["v"]}, "derivatives: it is a mapping"),
    ],
)
def test_errors_say_what_came(body, words):
    with pytest.raises(MalformedBody, match=words):
        mdf_loop.loop(3, True, 1.0, body=body, dt=0.1)


def test_a_name_that_is_not_there_is_said():
    with pytest.raises(MissingCapture, match="reads 'vv' from outside"):
        mdf_loop.loop(3, True, 1.0, body={"derivatives": {"v": "1 - vv"}, "method": "rk4"}, dt=0.1)


@pytest.mark.parametrize(
    "drawn", ["normal(1, 0.3)", "normal(mu, 0.3)", "uniform(0, 1)", "poisson(0.3)", "2 * random()", "uniform()"]
)
def test_random_numbers_with_a_mean_are_no_term_of_a_derivative(drawn):
    """Their mean was scaled by sqrt(dt): the shorter the step, the larger the result."""
    with pytest.raises(MalformedBody, match="has the mean 0"):
        mdf_loop.loop(3, True, 1.0, body={"derivatives": {"v": f"-v / 2 + {drawn}"}}, dt=0.1, mu=0.0)


@pytest.mark.parametrize("drawn", ["0.3 * noise()", "normal(0, 0.3)", "normal(0.0, 0.3)"])
def test_a_mean_and_its_noise_do_not_depend_on_the_step(drawn):
    body = {"derivatives": {"v": f"1 - v / 2 + {drawn}"}}
    for dt in (0.1, 0.02):
        ends = []
        for seed in range(40):
            with mdf_loop.options(seed=seed):
                ends.append(mdf_loop.loop(round(10 / dt), True, 0.0, body=body, dt=dt))
        assert abs(np.mean(ends) - 1.99) < 0.3


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(METHODS), st.sampled_from(sorted(TERMS)), st.sampled_from(sorted(TERMS)), st.integers(1, 40))
def test_equations_read_the_values_after_the_step_by_next(method, first, second, n):
    body = {"derivatives": {"v": first, "u": second}, "let": {"half": "a * v", "drive": "half * u"}, "method": method}
    body["carried"] = {"choice": "where(next(v) > next(u), 1, -1)", "count": "count + (next(v) > v)"}
    body["collected"] = {"path": "v", "constants": "a + b"}
    values = {"v": 0.5, "u": -0.25, "a": 0.7, "b": 0.2, "dt": 0.1}
    v, u, choice, count, path, _ = mdf_loop.loop(n, True, choice=0, count=0, body=body, **values)
    steps = [by_hand(lambda y: np.array([TERMS[first](*y, 0.7, 0.2), TERMS[second](*y, 0.7, 0.2)]), (0.5, -0.25), 0.1, k, method)
             for k in range(n + 1)]  # fmt: skip
    np.testing.assert_allclose(path, np.array(steps)[1:, 0], rtol=1e-10, atol=1e-12)
    assert choice == (1 if v > u else -1)
    assert count == (np.diff([0.5, *path]) > 0).sum()


@pytest.mark.parametrize("engine", ENGINES)
def test_eulers_method_by_hand_gives_the_same_choices_bit_for_bit(engine):
    short = "dx/dt: drift + sigma * noise()\nchoice: where(next(x) > 0, 1, -1)\nwhile: abs(x) < 1\ndt: 0.01"
    long = "let new: x + 0.01 * drift + sqrt(0.01) * (sigma * noise())\nx: new\nchoice: where(new > 0, 1, -1)\nwhile: abs(x) < 1"
    found = []
    for body in (short, long):
        with mdf_loop.options(seed=4, engine=engine):
            found.append(mdf_loop.loop(10_000, True, x=0.0, choice=0, body=body, drift=0.5, sigma=0.8))
    assert found[0] == found[1]
    assert found[0][1] == np.sign(found[0][0])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_derivative_that_reads_the_next_value_is_semi_implicit(engine):
    with mdf_loop.options(engine=engine):
        x, v = mdf_loop.loop(60, True, x=1.0, v=0.0, body="dx/dt: next(v)\ndv/dt: -x\ndt: 0.1")
    by_numbers = [1.0, 0.0]
    for _ in range(60):
        by_numbers[1] += 0.1 * -by_numbers[0]
        by_numbers[0] += 0.1 * by_numbers[1]
    np.testing.assert_array_equal([x, v], by_numbers)


NOT_NEXT = {
    "x: next(y)\ny: next(x)": r"circular: next\(x\) reads next\(y\), next\(y\) reads next\(x\).*is x, without next",
    "x: next(x) + 1": r"next\(x\) reads itself",
    "let a: b\nlet b: next(x)\nx: a": r"equations are circular: a reads b, b reads next\(x\), next\(x\) reads a",
    "x: x / 2\nwhile: abs(next(x) - x) > 1": r"line 2: while and collected read new values: x is next\(x\) here",
    "x: x / 2\ncollect d: next(x)": r"line 2: while and collected read new values",
    "x: next(z)": r"next\(x\) is the new value of x, which is carried; got next\(z\), and carried are x",
    "let a: x\nx: next(a)": r"got next\(a\)",
    "x: next(x + 1)": r"got next\(x \+ 1\)",
    "dv/dt: next(x)\nx: x + v\nmethod: rk4\ndt: 0.1": r"a derivative reads next\(x\), .* rk4 .* Read x, or write method: euler",
    "dv/dt: a\nlet a: next(x)\nx: x + 1\nmethod: heun\ndt: 0.1": r"a derivative reads next\(x\)",
}


@pytest.mark.parametrize("body", NOT_NEXT)
def test_a_value_that_is_not_known_yet_is_refused(body):
    with pytest.raises(LoopError, match=NOT_NEXT[body]):
        mdf_loop.compile(body)


def test_names_for_a_new_value_say_next():
    with pytest.raises(MissingCapture, match=r"; next\(x\) is the value that the iteration gives to x"):
        mdf_loop.loop(3, True, 1.0, 0, body="x: x + 1\nup: x_new > 2")


@pytest.mark.parametrize(("step", "said"), [(0, "is 0, so nothing changes"), (-0.5, "is -0.5, so time runs backwards")])
def test_a_step_that_is_not_positive_is_a_warning(step, said):
    with pytest.warns(LoopWarning, match=said):
        mdf_loop.loop(3, True, 1.0, body=f"da/dt: -a\ndt: {step}")
    with pytest.warns(LoopWarning, match=said):
        mdf_loop.loop(3, True, 1.0, body="da/dt: -a", dt=step)
    args = {"M": 3, "a": 1.0, "body": "body"}
    for where in ("n.dt", "n.body"):
        own = {"derivatives": {"a": "-a"}, **({"dt": step} if where == "n.body" else {})}
        parameters = [Parameter(id="dt", value=step if where == "n.dt" else 0.5), Parameter(id="body", value=own)]
        parameters.append(Parameter(id="run", function="onnx::Loop", args=args))
        graph = Graph(id="g", nodes=[Node(id="n", parameters=parameters, output_ports=[OutputPort(id="o", value="run.a")])])
        with pytest.warns(LoopWarning, match=f"{where}: dt, the length of a step, {said}"):
            mdf_loop.run(graph)
