"""What in a graph changes nothing is warned of by runs as it is by ``check``: its author means it to change something."""

import warnings

import pytest

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.errors import LoopWarning

EDGE = """
m:
  graphs:
    g:
      nodes:
        a:
          output_ports: {o: {value: 3.0}}
        b:
          input_ports: {x: {}}
          parameters: {f: {function: linear, args: {variable0: x, slope: 2.0, intercept: 0.0}}}
          output_ports: {p: {value: f}}
      edges: {e: {sender: a, receiver: b, sender_port: o, receiver_port: x, parameters: {weight: 2.0}}}
      conditions: {node_specific: {b: {type: EveryNCalls, kwargs: {dependencies: a, n: 1}}}}
"""
LOOP = """
m:
  graphs:
    g:
      nodes:
        a:
          parameters: {run: {function: "onnx::Loop", args: {M: 5, cond: true, v: 1.0, body: {carried: {v: v * 2}}}}}
          output_ports: {p: {value: run}}
"""
OVERLOOKED = {
    "a weight": (EDGE, "weight:", "wieght:", 6.0, "nothing reads wieght of edge 'e'"),
    "an argument": (
        EDGE,
        "intercept: 0.0",
        "intercept: 0.0, ofset: 1.0",
        12.0,
        "linear takes variable0, slope, intercept, and not 'ofset'",
    ),
    "a count": (EDGE, "n: 1", "n: 0", 12.0, "n of EveryNCalls is 0, so it is always true"),
    "a condition": (LOOP, "cond: true", "cond: false", 1.0, "no iteration runs: cond, the condition to go on, is false"),
    "no iteration": (LOOP, "M: 5", "M: 0", 1.0, "the trip count M is 0, so no iteration runs"),
}


def said(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LoopWarning)
        found = call()
    return found, [str(each.message) for each in caught]


@pytest.mark.parametrize("case", OVERLOOKED)
def test_runs_and_check_say_it(tmp_path, case):
    text, right, wrong, value, what = OVERLOOKED[case]
    path = tmp_path / "m.yaml"
    path.write_text(text)
    found, told = said(lambda: mdf_loop.run(path))
    assert found["p"] == {EDGE: 12.0, LOOP: 32.0}[text]
    assert told == []
    assert check(path) == []
    path.write_text(text.replace(right, wrong))
    found, told = said(lambda: mdf_loop.run(path))
    assert found["p"] == value
    assert sum(what in each for each in told) == 1, told
    assert sum(what in each.message for each in check(path)) == 1


@pytest.mark.parametrize(
    ("parameter", "is_read"), [("x: {value: 2.0}", False), ("x: {time_derivative: '1.0', default_initial_value: 0.0}", True)]
)
def test_a_time_increment_that_nothing_reads_is_said(tmp_path, parameter, is_read):
    path = tmp_path / "m.yaml"
    path.write_text(f"m: {{graphs: {{g: {{nodes: {{a: {{parameters: {{{parameter}}}, output_ports: {{o: {{value: x}}}}}}}}}}}}}}")
    _, told = said(lambda: mdf_loop.run(path, steps=3, time_increment=0.1))
    assert any("nothing reads time_increment" in each for each in told) != is_read
