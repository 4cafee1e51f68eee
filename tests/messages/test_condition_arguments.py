"""What conditions of graph-scheduler are given is of the kind that they take: a run and ``check`` say where it is not."""

import json

import pytest
import yaml

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
        ("AllHaveRun", "{dependencies: [a, null]}", "dependencies of AllHaveRun must be the id of a node; got ['a', None]"),
        (
            "AfterPass",
            "{n: 1, time_scale: PASS}",
            "time_scale of AfterPass must be a time scale such as TimeScale.PASS; got 'PASS'",
        ),
        ("Not", "{condition: a}", "condition of Not must be a condition such as {type: AfterPass, kwargs: {n: 3}}; got 'a'"),
        ("All", "{dependencies: 1}", "dependencies of All must be a condition such as {type: AfterPass, kwargs: {n: 3}}; got 1"),
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
