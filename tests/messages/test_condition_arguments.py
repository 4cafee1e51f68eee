"""What conditions of graph-scheduler are given is of the kind that they take: a run and ``check`` say where it is not."""

import json
import re

import pytest
import yaml
from modeci_mdf.mdf import Condition

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.errors import LoopError

MODEL = """\
m:
  graphs:
    g:
      nodes:
        a:
          parameters:
            rate: {{default_initial_value: 0.0, value: rate + 1.0}}
          output_ports:
            last: {{value: rate}}
      conditions:
        termination:
          environment_state_update:
            type: Any
            kwargs:
              dependencies:
              - {{type: AfterPass, kwargs: {{n: 5}}}}
              - type: {}
                kwargs:
                  {}
"""
PLACE = "g/conditions/termination/environment_state_update"
THRESHOLD = "{{dependency: a, parameter: rate, {}}}".format


@pytest.mark.parametrize(
    ("kind", "keywords", "message"),
    [
        (
            "Threshold",
            THRESHOLD("threshold: '2.0', comparator: '>='"),
            "threshold of Threshold must be a number; got '2.0'; write 2.0, without quotes",
        ),
        ("Threshold", THRESHOLD("threshold: two, comparator: '>='"), "threshold of Threshold must be a number; got 'two'"),
        ("Threshold", THRESHOLD("threshold: [2.0], comparator: '>='"), "threshold of Threshold must be a number; got [2.0]"),
        ("Threshold", THRESHOLD("threshold: null, comparator: '>='"), "threshold of Threshold must be a number; got None"),
        (
            "Threshold",
            THRESHOLD("rtol: '1', comparator: '>=', threshold: 1"),
            "rtol of Threshold must be a number; got '1'; write 1, without quotes",
        ),
        (
            "Threshold",
            THRESHOLD("comparator: 2, threshold: 1"),
            "comparator of Threshold must be one of <, <=, >, >=, ==, !=; got 2",
        ),
        (
            "Threshold",
            THRESHOLD("indices: first, comparator: '>=', threshold: 1"),
            "indices of Threshold must be a whole number or a list of them; got 'first'",
        ),
        (
            "Threshold",
            THRESHOLD("indices: [0.5], comparator: '>=', threshold: 1"),
            "indices of Threshold must be a whole number or a list of them; got [0.5]",
        ),
        (
            "Threshold",
            THRESHOLD("parameter: [rate], comparator: '>=', threshold: 1"),
            "parameter of Threshold must be the id of a parameter or port; got ['rate']",
        ),
        ("JustRan", "{dependency: 7}", "dependency of JustRan must be the id of a node; got 7"),
        ("AllHaveRun", "{dependencies: [a, null]}", "dependencies of AllHaveRun must be ids of nodes; got ['a', None]"),
        (
            "AfterPass",
            "{n: 1, time_scale: PASS}",
            "time_scale of AfterPass must be a time scale such as TimeScale.PASS; got 'PASS'",
        ),
        ("Not", "{condition: a}", "condition of Not must be a condition such as {type: AfterPass, kwargs: {n: 3}}; got 'a'"),
        (
            "All",
            "{dependencies: 1}",
            "dependencies of All must be a list of conditions such as [{type: AfterPass, kwargs: {n: 3}}]; got 1",
        ),
        ("TimeTermination", "{t: [1]}", "t of TimeTermination must be a time such as '10 ms'; got [1]"),
        ("TimeTermination", "{t: 1 ms, inclusive: 3}", "inclusive of TimeTermination must be true or false; got 3"),
        ("TimeTermination", "{t: 1, unit: 3}", "unit of TimeTermination must be a unit such as ms; got 3"),
    ],
)
def test_conditions_that_are_given_another_kind(tmp_path, kind, keywords, message):
    given = yaml.safe_load(keywords)
    path = tmp_path / "m.yaml"
    path.write_text(MODEL.format(kind, json.dumps(given)))
    with pytest.raises(LoopError) as caught:
        mdf_loop.run(path)
    place = f"g/conditions/termination/environment_state_update/kwargs/dependencies/1/kwargs/{message.partition(' ')[0]}"
    assert str(caught.value) == f"{place}: {message}"
    assert [(found.line, found.message) for found in check(path)] == [(19, str(caught.value))]


@pytest.mark.parametrize(
    ("kind", "keywords", "message"),
    [
        ("EveryNCalls", {"n": 2}, "EveryNCalls takes dependency, n; missing: dependency; write {0}dependency: a, n: 2}}}}"),
        (
            "AfterNCalls",
            {},
            "AfterNCalls takes dependency, n, time_scale; missing: dependency, n; write {0}dependency: a, n: 3}}}}",
        ),
        ("AfterNCallsCombined", {"dependencies": ["a"]}, "missing: n; write {0}n: 3, dependencies: ['a']}}}}"),
        ("Not", {}, "Not takes condition; missing: condition; write {0}condition: {{type: AfterPass, kwargs: {{n: 3}}}}}}}}"),
        ("While", {}, "While calls a function in Python, of which a file has the name alone; got None; write a condition that"),
        (
            "TimeInterval",
            {},
            'graph-scheduler refuses TimeInterval: ConditionError: At least one of "repeat", "start", "end" must',
        ),
        ("TimeInterval", {"repeat": 1, "unit": "foo"}, "graph-scheduler refuses TimeInterval: UndefinedUnitError: 'foo' is not"),
        (
            "AddEdgeTo",
            {"nodes": ["a"]},
            "graph-scheduler refuses AddEdgeTo: ConditionError: AddEdgeTo must have exactly one node",
        ),
    ],
)
def test_conditions_that_cannot_be_made(tmp_path, kind, keywords, message):
    path = tmp_path / "m.yaml"
    path.write_text(MODEL.format(kind, json.dumps(keywords)))
    with pytest.raises(LoopError, match=re.escape(message.format(f"{{type: {kind}, kwargs: {{"))) as caught:
        mdf_loop.run(path)
    assert str(caught.value).startswith("g/conditions/termination/environment_state_update/kwargs/dependencies/1: ")
    assert str(caught.value) in [found.message for found in check(path)]


@pytest.mark.parametrize(
    ("kind", "keywords", "message"),
    [
        ("JustRan", {"dependency": "a"}, "JustRan is asked for before any node ran, {}{{dependency: a, n: 1}}}}"),
        ("EveryNCalls", {"dependency": "a", "n": 0}, "EveryNCalls counts since its own node ran, {}{{dependency: a, n: 0}}}}"),
    ],
)
def test_conditions_of_nodes_that_end_an_evaluation(tmp_path, kind, keywords, message):
    path = tmp_path / "m.yaml"
    path.write_text(MODEL.format(kind, json.dumps(keywords)))
    cure = "so it is no condition of termination; write {type: AfterNCalls, kwargs: "
    with pytest.raises(LoopError, match="^" + re.escape(f"{PLACE}: {message.format(cure)}")):
        mdf_loop.run(path)


@pytest.mark.parametrize(
    "build", [lambda **given: Condition("JustRan", **given), lambda **given: {"type": "JustRan", "kwargs": given}]
)
def test_what_ran_last_ends_an_evaluation_behind_other_conditions(tmp_path, build):
    path = tmp_path / "m.yaml"
    path.write_text(MODEL.format("AfterPass", "{n: 1}"))
    model = mdf_loop.load(path)
    ends = model.graphs[0].conditions.termination
    ends["environment_state_update"] = Condition("All", dependencies=[Condition("AfterNPasses", n=2), build(dependency="a")])
    assert mdf_loop.run(model)["last"] == 2
    ends["environment_state_update"] = Condition("Any", dependencies=[Condition("AfterNPasses", n=2), build(dependency="a")])
    with pytest.raises(LoopError, match="JustRan is asked for before any node ran"):
        mdf_loop.run(model)
