"""``explain`` of models in the words of their authors: nodes, equations, conditions, and how each of them ran."""

import contextlib
import re

import onnx.parser
import pytest
import yaml
from commands import run_main

import mdf_loop
from mdf_loop.models import explaining
from mdf_loop.models.verifying import verify

DECAY = """
decay:
  graphs:
    g:
      nodes:
        cell:
          parameters:
            rate: {value: 0.5}
            body:
              value:
                let: {step: sqrt(rate) * 0.1}
                carried: {x: x - step * x, total: total + x}
                collected: {path: x}
                while: x > 0.01
            run: {function: onnx::Loop, args: {M: 5000, cond: true, x: 8.0, total: 0.0, body: body}}
          output_ports: {left: {value: run.x}, path: {value: run.path}}
"""

SCHEDULED = """
clock:
  graphs:
    clock:
      nodes:
        source: {parameters: {count: {value: count + 1, default_initial_value: 0}}, output_ports: {out: {value: count}}}
        slow:
          input_ports: {drive: {}}
          parameters: {level: {value: level + 0.3 * (drive - level), default_initial_value: 0}}
          output_ports: {out: {value: level}}
      edges: {a: {sender: source, sender_port: out, receiver: slow, receiver_port: drive}}
      conditions:
        node_specific: {slow: {type: EveryNCalls, kwargs: {dependency: source, n: 3}}}
        termination: {environment_state_update: {type: AfterNCalls, kwargs: {dependency: slow, n: 4}}}
"""


@pytest.fixture
def model(tmp_path, request):
    path = tmp_path / "model.yaml"
    path.write_text(request.param)
    return path


@pytest.mark.parametrize("model", [DECAY], indirect=True)
def test_equations_are_shown_as_they_are_written_with_how_each_ran(model, capsys):
    iterations = len(mdf_loop.run(model)["path"])
    assert run_main("explain", model) == 0
    said = capsys.readouterr().out
    rows = {line.partition("#")[0].strip(): line.partition("# ")[2] for line in said.splitlines()}
    assert rows["let step: sqrt(rate) * 0.1"] == "once"
    assert rows["x: x - step * x"] == "one iteration after the other: x of the iteration before is needed"
    assert rows["while: x > 0.01"] == "the condition is looked at in each iteration"
    assert "collect path: x" in rows
    assert f"the last run had {iterations} iterations" in said or f"the last run, of {iterations} iterations" in said
    assert "~" not in said
    assert "x_next" not in said


@pytest.mark.parametrize("model", [SCHEDULED], indirect=True)
@pytest.mark.parametrize("steps", [None, 7])
def test_a_scheduled_model_is_shown_by_its_nodes_and_conditions_also_without_steps(model, steps, capsys):
    assert run_main("explain", model, *(() if steps is None else ("--steps", steps))) == 0
    said = capsys.readouterr().out
    assert "  slow when EveryNCalls(source, 3)  # one pass after the other\n      level = level + 0.3 * (drive - level)\n" in said
    assert "  environment state update ends when AfterNCalls(slow, 4)\n" in said
    given = {} if steps is None else {"steps": steps}
    passes = mdf_loop.prepare(model)(**given, record=["source.count"]).recorded["source.count"]
    (looped,) = map(int, re.findall(r"(\d+) passes after the first ones", said))
    assert 1 <= len(passes) - looped <= 6  # first ones: until types stay the same
    for internal in ("usable", "whole", "~", "evaluations"):
        assert internal not in said


@pytest.mark.parametrize("model", [DECAY, SCHEDULED], indirect=True)
@pytest.mark.parametrize("flag", ["--operators", "--source", "--show-steps"])
def test_the_plan_of_operators_is_there_on_request(model, flag, capsys):
    assert run_main("explain", model, flag) == 0
    assert "stepped, one iteration after the other" in capsys.readouterr().out


@pytest.mark.parametrize("model", [SCHEDULED], indirect=True)
def test_loops_inside_scheduled_nodes_are_shown_with_them(model):
    content = yaml.safe_load(SCHEDULED)
    nodes = content["clock"]["graphs"]["clock"]["nodes"]
    nodes["slow"] = yaml.safe_load(DECAY)["decay"]["graphs"]["g"]["nodes"]["cell"] | {"input_ports": {"drive": {}}}
    model.write_text(yaml.safe_dump(content))
    said = mdf_loop.prepare(model).explain(steps=20)
    assert "x: x - step * x" in said
    assert "~" not in said


def test_missing_inputs_are_drawn_with_the_seed_of_the_options(tmp_path, monkeypatch, capsys):
    path = tmp_path / "m.onnx"
    model = '<ir_version: 8, opset_import: ["": 18]> g (float x) => (float y) { y = Add (x, x) }'
    onnx.save(onnx.parser.parse_model(model), path)
    seen = []
    monkeypatch.setattr(explaining, "ending_if_endless", lambda drawn: contextlib.nullcontext(seen.append(float(drawn["x"]))))
    for seed in (0, 3, 3):
        assert run_main("explain", path, "--seed", str(seed)) == 0
    mdf_loop.prepare(path).explain()
    assert seen[1] == seen[2] == verify(path, {}, seed=3).inputs["x"]
    assert seen[0] == seen[3] != seen[1]
