"""``mdf-loop check``: constants that loops divide by, steps of time, nan, and exports of PsyNeuLink."""

import json
import warnings
from pathlib import Path

import pytest

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.errors import LoopWarning

PSYNEULINK = Path(__file__).parents[1] / "models" / "psyneulink"


def model(tmp_path, derivative="(current - v) / tau", ports=None, method="euler", **values):
    path = tmp_path / "m.json"
    body = {"derivatives": {"v": derivative}, "carried": {"c": "c + 0 * (tau + current)"}, "method": method}
    args = {"M": 10, "v": 0.0, "c": 0.0, "body": "body"}
    parameters = {"body": {"value": body}, "run": {"function": "onnx::Loop", "args": args}}
    parameters |= {name: {"value": value} for name, value in ({"tau": 10.0, "current": 1.5, "dt": 0.1} | values).items()}
    for name in ports or {}:
        del parameters[name]
    inputs = {name: {"default_value": value} for name, value in (ports or {}).items()}
    node = {"input_ports": inputs, "parameters": parameters, "output_ports": {"v": {"value": "run.v"}}}
    path.write_text(json.dumps({"m": {"graphs": {"g": {"nodes": {"n": node}}}}}))
    return path


LONG = "warning: g/n/dt: dt is too long: a step multiplies changes of v by "

DIVIDES = "warning: g/n/tau: tau is 0, and the body divides by it"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, []),
        ({"tau": 0}, [DIVIDES]),
        ({"tau": 0.0, "method": "rk4"}, [DIVIDES]),
        ({"ports": {"tau": 0.0}}, [DIVIDES]),
        ({"tau": [1.0, 0.0], "current": [1.0, 1.0]}, [DIVIDES]),
        (
            {"tau": 0, "derivative": "v / (2 * tau)"},
            ["warning: g/n/tau: what is computed of tau is 0, and the body divides by it"],
        ),
        ({"derivative": "where(tau > 0, current / tau, 0)", "tau": 0}, []),
        ({"derivative": "where(v > 1, 0, current / tau)", "tau": 0}, [DIVIDES]),
        ({"derivative": "where(current / tau > 1, 0, 1 + current / tau)", "tau": 0}, [DIVIDES]),
        ({"derivative": "where(isinf(current / tau), 0, 1 + current / tau)", "tau": 0}, []),
        ({"derivative": "1e300 * 1e9 + v"}, ["warning: g/n/run: iteration 0 of Loop: v became infinite, "]),
        ({"tau": "10 - 10"}, ["warning: g/n/run: iteration 1 of Loop: v became nan, "]),
        ({"derivative": "sqrt(v - 3)"}, ["warning: g/n/run: iteration 0 of Loop: v became nan, "]),
        ({"dt": 25.0}, [f"{LONG}-1.5, and short ones make them smaller; make dt shorter than the time constant of v"]),
        ({"dt": 25.0, "method": "heun"}, [f"{LONG}1.62"]),
        ({"dt": 25.0, "method": "rk4"}, []),
        ({"dt": 40.0, "method": "rk4"}, [f"{LONG}5,"]),
        ({"dt": 19.0}, []),
        ({"derivative": "-30 * v + tau * noise()"}, [f"{LONG}-2,"]),
        ({"derivative": "(current - v) / tau", "tau": [10.0, 0.04], "current": [1.0, 1.0]}, [f"{LONG}-1.5,"]),
        ({"derivative": "v / tau", "dt": 30.0}, []),
        ({"derivative": "3 * v * (1 - v)"}, []),
        ({"dt": -0.005}, ["warning: g/n/dt: dt, the length of a step, is -0.005, so time runs backwards"]),
        ({"dt": 0}, ["warning: g/n/dt: dt, the length of a step, is 0, so nothing changes"]),
    ],
)
def test_constants_that_loops_cannot_use_are_reported(said, expected, tmp_path):
    found = check(model(tmp_path, **said))
    assert len(found) == len(expected)
    for problem, text in zip(found, expected, strict=True):
        assert f"{problem.kind}: {problem.message}".startswith(text)
        assert problem.line


@pytest.mark.parametrize("drift", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
def test_a_value_without_leak_has_no_time_constant(drift, tmp_path):
    for spread in (0.1, 0.3, 1.0):
        path = model(tmp_path, f"{drift} + tau * noise()", tau=spread, dt=0.01)
        assert [problem.message for problem in check(path) if "too long" in problem.message] == []


@pytest.mark.parametrize("key", ["dt", "let"])
def test_a_long_step_that_the_body_says(key, tmp_path):
    for dt, is_long in ((25.0, True), ("tau / 2", False), ("2.5 * tau", True)):
        path = model(tmp_path)
        content = json.loads(path.read_text())
        parameters = content["m"]["graphs"]["g"]["nodes"]["n"]["parameters"]
        del parameters["dt"]
        parameters["body"]["value"] |= {"dt": dt} if key == "dt" else {"let": {"dt": dt}}
        path.write_text(json.dumps(content))
        assert [each.message.startswith("g/n/body: dt is too long") for each in check(path)] == [True] * is_long


def test_given_values_count(tmp_path):
    assert check(model(tmp_path, tau=0), {"tau": 2.0}) == []
    (problem,) = check(model(tmp_path), {"n.tau": 0.0})
    assert "tau is 0" in problem.message


@pytest.mark.parametrize("engine", ["interpret", "numpy", "jit", "auto"])
def test_a_run_warns_of_a_division_by_zero_that_a_where_hides(engine, tmp_path):
    hidden = "where(current / tau > 1, 0, 1 + current / tau)"
    with mdf_loop.options(engine=engine), pytest.warns(LoopWarning, match="tau is 0, and the body divides by it") as warned:
        mdf_loop.run(model(tmp_path, hidden, tau=0))
    assert len(warned) == 1
    with mdf_loop.options(engine=engine), warnings.catch_warnings():
        warnings.simplefilter("error")
        mdf_loop.run(model(tmp_path, hidden, tau=2.0))
        mdf_loop.run(model(tmp_path, hidden.replace("current / tau > 1", "isinf(current / tau)"), tau=0))


@pytest.mark.parametrize(("step", "what"), [(-0.1, "is -0.1, so time runs backwards"), (0, "is 0, so nothing changes")])
def test_a_step_that_is_given_and_not_positive_is_said_by_a_run_and_a_check(step, what, tmp_path):
    path = model(tmp_path)
    (problem,) = check(path, {"dt": step})
    assert what in problem.message
    with pytest.warns(LoopWarning, match=what):
        mdf_loop.run(path, dt=step)


LOST = {
    "backprop": ["no edge leads", "there is no function 'backpropagation'", "its LearningSignal"],
    "gating": ["is a gate, which multiplies what comes to port", "2 edges end in port"],
}
"""Exports that do not have all that PsyNeuLink computes, and how that is reported."""


def test_exports_of_psyneulink_have_no_warning_but_for_what_they_lose():
    found = {
        path.stem: [problem.message for problem in check(path) if problem.kind != "note"]  # such as a node that never runs
        for path in sorted(PSYNEULINK.glob("*.json"))
        if not path.name.endswith(".numbers.json")
    }
    assert len(found) > 40
    for name, messages in found.items():
        texts = LOST.get(name, [])
        assert bool(messages) == bool(texts), (name, messages)
        assert all(any(text in message for text in texts) for message in messages), (name, messages)
