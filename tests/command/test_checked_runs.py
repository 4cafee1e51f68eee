"""What ``run`` refuses ``check`` finds, with the line of the equation; of models that run it says nothing."""

import json
import random
import re

import numpy as np
import onnx.parser
import pytest
import yaml
from commands import run_main

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.errors import LoopError

EQUATIONS = """
m:
  format: ModECI MDF v0.4
  graphs:
    g:
      nodes:
        n:
          input_ports:
            threshold: {default_value: 1.0}
          parameters:
            dt: {value: 0.1}
            start: {value: 0.0}
            body:
              value:
                let:
                  k: dt * 2
                carried:
                  v: v + dt
                  w: w + k
                collected:
                  path: v
                while: v < threshold
            run:
              function: onnx::Loop
              args: {M: 5000, cond: true, v: start, w: 1.0, body: body}
          output_ports:
            v: {value: "run[0]"}
            path: {value: "run[2]"}
"""
SCAN = """
m:
  graphs:
    g:
      nodes:
        n:
          parameters:
            rows: {value: [1.0, 2.0, 3.0]}
            start: {value: 0.0}
            body:
              value:
                carried:
                  v: v + row
                collected:
                  path: v * 2
                scanned: [row]
            run:
              function: onnx::Scan
              args: {num_scan_inputs: 1, v: start, rows: rows, body: body}
          output_ports:
            v: {value: "run[0]"}
"""
TWO = (
    EQUATIONS
    + """
        o:
          input_ports:
            x: {}
          parameters:
            gain: {value: 2.0}
            kept:
              value:
                carried:
                  y: y * gain
                while: y < 100
            turn:
              function: onnx::Loop
              args: {M: 7000, cond: true, y: x, body: kept}
            z: {value: x * gain}
          output_ports:
            y: {value: turn}
            z: {value: z}
      edges:
        e: {sender: n, sender_port: v, receiver: o, receiver_port: x}
"""
)

WRONG = {
    "float condition": (EQUATIONS, "while: v < threshold", "while: threshold - v", "while:", "a comparison, such as x > 0"),
    "cond": (EQUATIONS, "cond: true", "cond: 1.0", "cond:", "write true or false"),
    "whole cond": (EQUATIONS, "cond: true", "cond: 3", "cond:", "cond must be one boolean"),
    "text as cond": (EQUATIONS, "cond: true", "cond: 'true'", "cond:", "without quotes it is a boolean"),
    "power": (EQUATIONS, "v: v + dt", "v: v + dt ^ 2", "v: v + dt ^ 2", r"a power is written \*\*"),
    "power in let": (EQUATIONS, "k: dt * 2", "k: dt ^ 2", "k: dt ^ 2", r"a power is written \*\*"),
    "text": (EQUATIONS, "dt: {value: 0.1}", "dt: {value: '20 ms'}", "dt: {", "'20 ms', which is not a number"),
    "text as a start": (EQUATIONS, "{value: 0.0}", "{value: '5 mV'}", "start: {", "'5 mV', which is not a number"),
    "vector": (EQUATIONS, "start: {value: 0.0}", "start: {value: [0.0, 0.0]}", "while:", "any.* or all"),
    "shapes": (EQUATIONS, "dt: {value: 0.1}", "dt: {value: [0.1, 0.2]}", "while:", "one boolean"),
    "shapes of two": (EQUATIONS, "w: w + k", "w: ones(3) @ ones(2)", "w: ones", "failed on"),
    "name": (EQUATIONS, "w: w + k", "w: w + kk", "w: w", "reads 'kk'"),
    "result": (EQUATIONS, '"run[2]"', '"run[3]"', "path: {", "has 3 results"),
    "count": (EQUATIONS, "M: 5000", "M: 2.5", "M:", "whole number"),
    "no value": (EQUATIONS, "{default_value: 1.0}", "{}", "threshold: {", "input 'threshold' of node 'n' has no value"),
    "no number": (EQUATIONS, "dt: {value: 0.1}", "dt: {}", "dt: {", "parameter 'dt' of node 'n' has no value"),
    "scanned number": (SCAN, "[1.0, 2.0, 3.0]", "3.0", "run:", "axis"),
    "in a scan": (SCAN, "path: v * 2", "path: v ^ 2", "path: v ^ 2", r"a power is written \*\*"),
    "behind a cut loop": (TWO, "y: y * gain", "y: y ^ gain", "y: y ^ gain", r"a power is written \*\*"),
    "condition behind one": (TWO, "while: y < 100", "while: 100 - y", "while: 100", "a comparison, such as x > 0"),
    "expression behind one": (TWO, "value: x * gain", "value: x * gain + 'a'", "z: {value: x", "add"),
}


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_what_run_refuses_is_found_with_its_line(case, suffix, tmp_path, capsys):
    text, right, wrong, place, told = case
    assert right in text
    text = text.replace(right, wrong, 1)
    if suffix == ".json":
        text, place = json.dumps(yaml.safe_load(text), indent=1), f'"{place.split(":")[0]}": '
    path = tmp_path / f"m{suffix}"
    path.write_text(text)
    with pytest.raises(LoopError):
        mdf_loop.run(path)
    problem = next(problem for problem in check(path) if problem.kind == "error")
    assert re.search(told, problem.message)
    assert place in text.split("\n")[problem.line - 1]
    assert run_main("check", path) == 1
    assert f"{path}:{problem.line}: error: " in capsys.readouterr().out


@pytest.mark.parametrize("text", [EQUATIONS, SCAN, TWO])
def test_models_that_run_are_fine(text, tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text(text)
    assert mdf_loop.run(path)
    assert check(path) == []


def test_inputs_can_be_given(tmp_path, capsys):
    path = tmp_path / "m.yaml"
    path.write_text(EQUATIONS.replace("{default_value: 1.0}", "{}"))
    assert [problem.kind for problem in check(path)] == ["note", "error"]
    assert check(path, {"threshold": 1.0}) == check(path, {"n.threshold": 1.0}) == []
    assert run_main("check", path, "--set", "threshold=1") == 0
    assert run_main("check", path, "--set", "threshold=[1, 2]") == 1
    assert "any(...) or all(...)" in capsys.readouterr().out


def test_numbers_behind_a_loop_that_was_cut_short_are_not_blamed(tmp_path):
    """What follows a long loop in a trial is not what follows it in a run."""
    path = tmp_path / "m.yaml"
    text = TWO.replace("z: {value: x * gain}", "z: {value: 1 // (1 if x > 0.5 else 0)}")
    path.write_text(text.replace("v: v + dt", "v: v + dt / 200"))
    assert mdf_loop.run(path)["z"] == 1
    assert check(path) == []


def test_types_that_a_network_declares(tmp_path):
    text = '<ir_version: 10, opset_import: ["": 18]> g (float x) => (float y) <double w = {2}> { y = Mul (x, w) }'
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    (problem,) = check(path)
    assert "'x' is float and 'w' is double, but Mul takes operands of one type" in problem.message


@pytest.mark.parametrize("seed", range(12))
def test_all_nodes_that_fail_by_themselves_are_found(seed, tmp_path):
    choose = random.Random(seed)
    nodes, edges, failing, below = {}, {}, set(), set()
    for k in range(6):
        senders = choose.sample([*nodes], min(len(nodes), choose.choice([0, 0, 1, 2])))
        fails = choose.random() < 0.4
        text = " + ".join(["c", *(f"from_{other}" for other in senders)]) + ("[7]" if fails else "")
        nodes[f"n{k}"] = {
            "input_ports": {f"from_{other}": {"shape": [2]} for other in senders},
            "parameters": {"c": {"value": [1.0, 2.0]}, "y": {"value": f"numpy.array({text.replace('[7]', '')}){'[7]' * fails}"}},
            "output_ports": {"out": {"value": "y"}},
        }
        for other in senders:
            edges[f"{other}{k}"] = {"sender": other, "sender_port": "out", "receiver": f"n{k}", "receiver_port": f"from_{other}"}
        if below.intersection(senders) or failing.intersection(senders):
            below.add(f"n{k}")
        elif fails:
            failing.add(f"n{k}")
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"m": {"graphs": {"g": {"nodes": nodes, "edges": edges}}}}))
    errors = [problem.message for problem in check(path) if problem.kind == "error"]
    assert sorted(re.findall(r"^g/(n\d)/", "\n".join(errors), re.MULTILINE)) == sorted(failing)
    assert len(errors) == len(failing)


NAMED = [
    ("v", "run[0]"),
    ("w", "run[1]"),
    ("path", "run[2]"),
    ("v", "run.v"),
    ("end", "run.w"),
    ("v", "run[1]"),
    ("only", "run[2]"),
]
BY_PLACE = [("end", "run[0]"), ("path", "run[1]")]


@pytest.mark.parametrize(("port", "text"), [*NAMED, *BY_PLACE])
def test_a_result_that_sorting_the_file_would_change_is_reported(port, text, tmp_path):
    content = yaml.safe_load(EQUATIONS)
    content["m"]["graphs"]["g"]["nodes"]["n"]["output_ports"] = {port: {"value": text}}
    path = tmp_path / "model.json"
    path.write_text(json.dumps(content))
    told = [problem.message for problem in check(path) if "another order" in problem.message]
    carried = ["v", "w"]
    assert told == [
        f"g/n/{port}: {text} is {carried[int(text[4])]!r} in this order, and another result in another order; "
        f"write run.{carried[int(text[4])]}"
        for _ in range((port, text) in BY_PLACE)
    ]
    if not told:
        wanted = mdf_loop.run(path)[port]
        (tmp_path / "sorted.json").write_text(json.dumps(content, sort_keys=True))
        assert np.array_equal(mdf_loop.run(tmp_path / "sorted.json")[port], wanted)


@pytest.mark.parametrize(
    ("going", "m", "is_said"), [("x < 3", 50, True), ("x < 0.03", 50, False), ("x < 3", 5000, False), ("1 < 2", 50, False)]
)
def test_a_condition_that_ends_no_iteration_of_the_run_that_check_tries(going, m, is_said, tmp_path):
    body = f"{{carried: {{x: x + 0.001}}, while: '{going}'}}"
    loop = f"{{function: 'onnx::Loop', args: {{M: {m}, x: 0.0, body: body}}}}"
    node = f"{{parameters: {{body: {{value: {body}}}, run: {loop}}}, output_ports: {{y: {{value: run}}}}}}"
    path = tmp_path / "m.yaml"
    path.write_text(f"m: {{format: ModECI MDF v0.4, graphs: {{g: {{nodes: {{n: {node}}}}}}}}}")
    said = "g/n/run: in the run that check tries, its condition was true after all 50 iterations, M: it ended at M"
    assert [(each.kind, said in each.message) for each in check(path)] == [("note", True)] * is_said


def scheduled(folder, condition, end="{type: AfterPass, kwargs: {n: 5}}"):
    """What check says of a node b with a condition behind a node a that counts."""
    a = "{parameters: {x: {default_initial_value: 0.0, value: x + 1}}, output_ports: {o: {value: x}}}"
    b = "{input_ports: {i: {}}, parameters: {y: {value: 2 * i}}, output_ports: {p: {value: y}}}"
    edge = "{sender: a, sender_port: o, receiver: b, receiver_port: i}"
    conditions = f"{{node_specific: {{b: {condition}}}, termination: {{environment_state_update: {end}}}}}"
    path = folder / "m.yaml"
    graph = f"{{nodes: {{a: {a}, b: {b}}}, edges: {{e: {edge}}}, conditions: {conditions}}}"
    path.write_text(f"m: {{format: ModECI MDF v0.4, graphs: {{g: {graph}}}}}")
    return [(each.kind, each.message) for each in check(path)]


@pytest.mark.parametrize(("threshold", "is_said"), [(4.0, False), (1e6, True)])
def test_an_evaluation_that_does_not_end_in_the_run_that_check_tries(threshold, is_said, tmp_path):
    given = f"{{dependency: a, parameter: x, threshold: {threshold}, comparator: '>='}}"
    found = scheduled(tmp_path, "{type: Always}", f"{{type: Threshold, kwargs: {given}}}")
    said = (
        "g: in the run that check tries, the conditions of termination do not hold after 1000 passes, and check waits no longer; "
    )
    cure = f"a run goes on until they hold: look whether it reaches a.x >= {threshold}, and give inputs that are not 0"
    assert found == [("note", said + cure)] * is_said
    if is_said:
        (found,) = scheduled(tmp_path, "{type: TimeInterval, kwargs: {start: 1 ms}}", f"{{type: Threshold, kwargs: {given}}}")
        assert found == ("note", f"{said}a run goes on until they hold: look at them, and give inputs that are not 0")


def test_conditions_that_count_to_zero(tmp_path):
    place = "g/conditions/node_specific/b: n of"
    for kind, value in (("EveryNCalls", "always"), ("AfterNCalls", "always"), ("BeforeNCalls", "never")):
        for form in ("{}", "{{type: All, kwargs: {{args: [{}]}}}}"):
            found = scheduled(tmp_path, form.format(f"{{type: {kind}, kwargs: {{dependency: a, n: 0}}}}"))
            assert found[0] == ("warning", f"{place} {kind} is 0, so it is {value} true; a count begins with 1")
            assert len(found) == 1 + (value == "never")  # the node never runs
    for condition in ("{type: EveryNCalls, kwargs: {dependency: a, n: 1}}", "{type: AtPass, kwargs: {n: 0}}"):
        assert scheduled(tmp_path, condition) == []
    found = scheduled(tmp_path, "{type: EveryNPasses, kwargs: {n: 0}}")
    assert found == [("error", f"{place.replace(':', '/kwargs/n:')} EveryNPasses must be a whole number from 1 on; got 0")]


def test_a_node_whose_condition_is_never_true(tmp_path):
    condition = "{type: Threshold, kwargs: {dependency: a, parameter: x, threshold: LIMIT, comparator: '>='}}"
    (found,) = scheduled(tmp_path, condition.replace("LIMIT", "100.0"))
    assert found[0] == "note"
    assert found[1].startswith("g/b: it did not run in the 6 passes of the run that check tries, and its outputs are None")
    assert scheduled(tmp_path, condition.replace("LIMIT", "3.0")) == []
