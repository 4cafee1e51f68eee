"""One drawn number that all elements of an array share is warned of, where it is not drawn for all of them."""

import json
import re
import warnings

import numpy as np
import pytest
from engines import ENGINES
from modeci_mdf.mdf import Graph, InputPort, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.errors import LoopWarning

SHARED = [
    "x: x + noise()",
    "x: A @ x - 0.1 * noise()",
    "x: x + s * normal(0, 1) + A[0]",
    "x: x + normal(s * dt, sqrt(dt))",
    "x: x + poisson(s)",
    "x: x * noise()",
    "x: x * (1 + 0.1 * random())",
    "x: x + A[0] * noise()",
    "x: where(uniform() < 0.5, x, -x)",
    "x: where(x > uniform(), 1.0, 0.0)",
    "x: maximum(x + noise(), 0)",
    "dx/dt: -x + s * noise()\nmethod: heun",
    "x: x + cumsum(x > uniform())",
]
OF_OTHERS = ["x: 0.5 * x\ncollect y: x + noise()", "let z: A[0] * noise()\nx: x + z", "x: 0.5 * x\ncollect y: A[0] + noise()"]
MEANT_SO = [
    "x: x + noise(x)",
    "dx/dt: -x + s * noise(x[0])",
    "let z: noise()\nx: x + z",
    "let z: s * noise()\nx: x * z",
    "x: where(uniform(x) < 0.5, x, -x)",
    "x: where(uniform(x[0]) < 0.5, x, -x)",
    "x: x + noise(A)[0]",
    "x: x + poisson(s + zeros_like(x))",
    "x: 0.5 * x\ncollect y: x[0] + noise()",
    "let c: argmax(cumsum(x) > uniform())\nx: where(arange(3) == c, x + 1, x)",
    "x: where(arange(3) == argmax(cumsum(x) > uniform()), x + 1, x)",
    "x: x + any(x > uniform()) + max(x + noise()) + (x + noise())[0]",
]
GROWING = ["x: x + noise(x) + A[0]", "x: x + normal(0.5 * x, 1) + A[0]", "x: A[0] + poisson(x)", "let z: uniform(x)\nx: z + A[0]"]
SAID = "a draw without an array gives one number, which all elements of "


def draws_of(body, x, n=30):
    """What a loop with a draw warns of."""
    known = {"A": 0.5 * np.eye(3), "s": 2.0, "dt": 0.1}
    given = {name: value for name, value in known.items() if re.search(rf"\b{name}\b", body)}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        mdf_loop.loop(n, True, body=body, x=x, **given)
    return [str(each.message) for each in told]


@pytest.mark.parametrize("engine", ENGINES)
def test_one_drawn_number_for_all_elements_is_warned_of(engine):
    with mdf_loop.options(engine=engine, seed=1):
        for body in SHARED:
            (told,) = draws_of(body, np.ones(3))
            assert f"{SAID}x share; noise(x) and uniform(x) draw one for each" in told
            assert told.startswith("equations/")
            assert draws_of(body.replace("A[0]", "s").replace("A @ x", "x"), 1.0) == []
        for body in OF_OTHERS:
            (told,) = draws_of(body, np.ones(3))
            assert f"{SAID}an array share" in told
        assert [body for body in MEANT_SO if draws_of(body, np.ones(3))] == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("n", [1, 30])
def test_a_number_that_becomes_an_array_has_one_draw_for_all_at_first(engine, n):
    with mdf_loop.options(engine=engine, seed=1):
        for body in GROWING:
            (told,) = draws_of(body, 1.0, n)
            assert told.startswith(
                "equations/line 1: one number is drawn for all elements in iteration 0, as x begins as a number"
            )
            assert draws_of(body, np.ones(3), n) == []
        assert draws_of("x: A[0] + x", 1.0, n) == []


def test_check_warns_of_it(tmp_path):
    node = {"parameters": {"body": {"value": {"carried": {"x": "x + noise(x) + w"}}}, "w": {"value": [1.0, 2.0]}}}
    node["parameters"]["run"] = {"function": "onnx::Loop", "args": {"M": 3, "x": 0.0, "body": "body"}}
    node["output_ports"] = {"o": {"value": "run"}}
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"m": {"format": "ModECI MDF v0.4", "graphs": {"g": {"nodes": {"n": node}}}}}))
    (finding,) = check(path)
    assert "one number is drawn for all elements in iteration 0, as x begins as a number" in str(finding)
    node["parameters"]["run"]["args"]["x"] = [0.0, 0.0]
    path.write_text(json.dumps({"m": {"format": "ModECI MDF v0.4", "graphs": {"g": {"nodes": {"n": node}}}}}))
    assert check(path) == []


def graph_of(text, initial, more=None):
    """A graph whose parameter w.x goes on from pass to pass, and the same as the body of a loop."""
    parameters = [Parameter(id=id, value=value) for id, value in (more or {}).items()]
    stateful = Parameter(id="x", value=text, default_initial_value=initial)
    alone = Graph(id="g", nodes=[Node(id="w", parameters=[*parameters, stateful], output_ports=[OutputPort(id="y", value="x")])])
    again = Parameter(id="new", value=text)
    node = Node(id="w", parameters=[*parameters, again], input_ports=[InputPort(id=id) for id in ("i", "go", "x")])
    node.output_ports += [OutputPort(id="on", value="i >= 0"), OutputPort(id="y", value="new")]
    said = {"inputs": ["i", "go", "x"], "outputs": ["on", "y"]}
    return alone, Graph(id="b", nodes=[node], metadata=said)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("text", "initial", "more", "cure"),
    [
        ("x + numpy.random.normal(0, 1)", [0.0, 0.0, 0.0], {}, "numpy.random.normal(0, 1, 3)"),
        ("0.5 * x + 0.1 * numpy.random.uniform(0, 1)", [[0.0, 0.0]] * 3, {}, "numpy.random.uniform(0, 1, (3, 2))"),
        ("x + numpy.random.randn()", [0.0, 0.0], {}, "numpy.random.normal(0, 1, 2)"),
        ("x + numpy.random.normal(0, 1, 3)", [0.0, 0.0, 0.0], {}, ""),
        ("0.5 * x + numpy.random.uniform(0, 1, (3, 2))", [[0.0, 0.0]] * 3, {}, ""),
        ("x + numpy.random.normal(0, 1)", 0.0, {}, ""),
        ("x + drawn", [0.0, 0.0, 0.0], {"drawn": "numpy.random.normal(0, 1)"}, ""),
    ],
)
def test_graphs_of_mdf_that_share_a_draw(engine, text, initial, more, cure):
    alone, body = graph_of(text, initial, more)
    with mdf_loop.options(engine=engine, seed=1):
        for name, call in (
            ("w.x", lambda: mdf_loop.run(alone, steps=30)),
            ("w.new", lambda: mdf_loop.loop(30, True, np.array(initial), body=body)),
        ):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always", LoopWarning)
                call()
            said = [str(each.message) for each in told if issubclass(each.category, LoopWarning)]
            assert [f"{SAID}{name} share; " in each and cure in each for each in said] == [True] * bool(cure)


def once(text, start):
    """A graph that is evaluated once."""
    parameters = [
        Parameter(id="s", value=start),
        Parameter(id="e", value="numpy.random.normal(0, 1)"),
        Parameter(id="x", value=text),
    ]
    return Graph(id="g", nodes=[Node(id="w", parameters=parameters, output_ports=[OutputPort(id="y", value="x + 0 * e")])])


@pytest.mark.parametrize("times", [None, 3, 100])
@pytest.mark.parametrize(
    ("text", "start", "cure"),
    [
        ("numpy.array(s) + numpy.random.normal(0, 1)", [0.0, 0.0, 0.0], "numpy.random.normal(0, 1, 3)"),
        ("numpy.array(s) * numpy.random.uniform(0, 1)", [[0.0, 0.0]] * 3, "numpy.random.uniform(0, 1, (3, 2))"),
        ("numpy.array(s) + numpy.random.normal(0, 1, 3)", [0.0, 0.0, 0.0], ""),
        ("s + numpy.random.normal(0, 1)", 0.0, ""),
        ("numpy.array(s) + e", [0.0, 0.0, 0.0], ""),
    ],
)
def test_graphs_that_run_once_say_it_too(text, start, cure, times):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", LoopWarning)
        mdf_loop.run(once(text, start), trials=times, seed=1)
    said = [str(each.message) for each in told if issubclass(each.category, LoopWarning)]
    assert [f"node 'w': {SAID}w.x share; " in each and cure in each for each in said] == [True] * bool(cure)


@mdf_loop.body
def choosing(i, go, x):
    c = np.argmax(np.cumsum(x / x.sum()) > mdf_loop.body.uniform())
    x[c] += 1
    return go, x


@pytest.mark.parametrize("engine", ENGINES)
def test_a_choice_by_one_draw_is_shared_by_no_elements(engine):
    with mdf_loop.options(engine=engine, seed=1), warnings.catch_warnings():
        warnings.simplefilter("error")
        mdf_loop.loop(30, True, body=choosing, x=np.ones(3))
    (told,) = draws_of("x: x + sum(where(A > uniform(), 1.0, 0.0), axis=1)", np.ones(3))  # a sum for each row
    assert told.startswith(f"equations/line 1: {SAID}x share")


@mdf_loop.body
def drawing(i, go, x, *, s):
    return True, x + mdf_loop.body.normal(0.0, s)


@pytest.mark.parametrize("body", ["x: x + normal(0, s)", "x: x + poisson(s)", drawing])
@pytest.mark.parametrize("first", [np.ones(3), 1.0])
def test_what_is_said_depends_on_what_each_run_is_given(body, first):
    for s in (first, np.ones(3), 1.0, np.ones(3), np.ones(1)):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            mdf_loop.loop(5, True, x=np.zeros(3), s=s, body=body)
        assert [SAID in str(each.message) for each in told] == [True] * (np.size(s) == 1)


SCHEDULED = """
m:
  graphs:
    g:
      nodes:
        a:
          parameters: {{x: {{value: "x + {draw}", default_initial_value: [0.0, 0.0, 0.0]}}}}
          output_ports: {{o: {{value: x}}}}
        b:
          input_ports: {{y: {{}}}}
          output_ports: {{p: {{value: y * 2}}}}
      edges: {{e: {{sender: a, receiver: b, sender_port: o, receiver_port: y}}}}
      conditions:
        node_specific:
          a: {{type: {condition}}}
          b: {{type: EveryNCalls, kwargs: {{dependencies: a, n: 2}}}}
"""


@pytest.mark.parametrize("condition", ["Always", "EveryNPasses, kwargs: {n: 2}"])
@pytest.mark.parametrize(("draw", "is_shared"), [("numpy.random.normal(0, 1)", True), ("numpy.random.normal(0, 1, 3)", False)])
def test_graphs_with_conditions_are_looked_at_too(tmp_path, condition, draw, is_shared):
    path = tmp_path / "m.yaml"
    path.write_text(SCHEDULED.format(condition=condition, draw=draw))
    for how in ({}, {"steps": 1}, {"steps": 40}, {"steps": 40, "record": ["a.x"]}, {"trials": 3}, {"steps": 4, "trials": 3}):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", LoopWarning)
            mdf_loop.run(path, **how)
        found = [str(each.message) for each in told if SAID in str(each.message)]
        assert len(found) == is_shared, (how, found)
