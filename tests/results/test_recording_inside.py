"""``record`` of values inside the loops of nodes of scheduled models: a row for each pass, as each loop alone records it."""

import pickle

import numpy as np
import pytest
from engines import SETTLED
from modeci_mdf.mdf import Condition, ConditionSet, Edge, Function, Graph, InputPort, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.convert.scheduled.loops import ScheduledLowering
from mdf_loop.errors import ArgumentError, CollectedError, IterationLimit, LoopWarning, MalformedBody, NotLowered
from mdf_loop.models.mdf import MdfModel
from mdf_loop.models.recordings.recorded_names import loops_of

LEAK = """leak (int64 i, bool go, double v) => (bool going, double v_out, double seen) {
  change = Mul (rate, v) v_out = Sub (v, change) seen = Identity (v_out)
  going = Greater (v_out, least)
}"""
"""As many iterations as it takes: how many differs from pass to pass."""

NESTED = """outer (int64 i, bool go, double v) => (bool go, double v_out) {
  count = Add (i, one)
  v_out = Loop (count, go, v) <body = inner (int64 j, bool d, double a) => (bool d, double b) {
    small = Less (a, limit)
    b = If (small) <then_branch = t () => (double p) { p = Add (a, rate) },
      else_branch = e () => (double q) { q = Mul (a, rate) }> }>
}"""

MOST = """m (int64 i, bool go, double v) => (bool go, double v_out) {
  count = Add (i, one)
  v_out = Loop (count, go, v) <body = inner (int64 j, bool d, double a) => (bool d, double b) {
    more = Add (j, one)
    b = Loop (more, d, a) <body = innermost (int64 k, bool e, double f) => (bool e, double g) { g = Add (f, rate) }> }>
}"""

SCAN = """s (double v, double part) => (double v_out, double seen) { v_out = Add (v, part) seen = Identity (v_out) }"""

VALUES = {"rate": 0.25, "least": 1.0, "one": 1, "limit": 3.0, "parts": [1.0, 2.0, 3.0]}

LOOP = {"M": 6, "cond": True, "x": "x", "body": "body"}
CASES = {
    "a loop of another length each time": ("onnx::Loop", LEAK, LOOP, ["n.v", "n.seen", "n.run.going", "n.change"]),
    "a loop and a branch in a loop": ("onnx::Loop", NESTED, LOOP | {"M": 3}, ["n.v_out.b", "n.v_out.p", "n.count", "n.v"]),
    "three loops": ("onnx::Loop", MOST, LOOP | {"M": 3}, ["n.v_out.b.g", "n.v_out.b", "n.v"]),
    "a scan": ("onnx::Scan", SCAN, {"x": "x", "p": "parts", "num_scan_inputs": 1, "body": "body"}, ["n.seen", "n.v"]),
}

CONDITIONS = {
    "none": None,
    "every second": Condition("EveryNCalls", dependencies="count", n=2),
    "late": Condition("AfterNCalls", dependencies="count", n=3),
    "when it is large": Condition("Threshold", dependency="count", parameter="k", threshold=3, comparator=">"),
}


def alone(case, x=4.0, as_function=False):
    """The node with the loop."""
    function, body, args, _ = CASES[case]
    parameters = [Parameter(id=name, value=value) for name, value in VALUES.items() if name in body or name in args.values()]
    parameters.append(Parameter(id="body", value={"onnx": body}))
    functions = []
    if as_function:
        functions.append(Function(id="run", function=function, args=args))
    else:
        parameters.append(Parameter(id="run", function=function, args=args))
    port = InputPort(id="x", **({} if x is None else {"default_value": x}))
    several = body in (LEAK, SCAN)
    outputs = [OutputPort(id="o", value="run[0]" if several else "run")]
    return Node(id="n", input_ports=[port], parameters=parameters, functions=functions, output_ports=outputs)


def scheduled(case, condition="none", as_function=False):
    """A count that the loop begins with."""
    count = Node(id="count", parameters=[Parameter(id="k", value="k + 1.5", default_initial_value=0.0)])
    count.output_ports.append(OutputPort(id="k_out", value="k"))
    edge = Edge(id="e", sender="count", sender_port="k_out", receiver="n", receiver_port="x")
    found = CONDITIONS[condition]
    conditions = None if found is None else ConditionSet(node_specific={"n": found}, termination={})
    return Graph(id="g", nodes=[count, alone(case, None, as_function)], edges=[edge], conditions=conditions)


def new(graph):
    """A model that nothing is known of yet."""
    return MdfModel(pickle.loads(pickle.dumps(graph)))


def assert_rows(found, expected):
    if isinstance(found, list) or isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_rows(one, other)
        return
    np.testing.assert_array_equal(found, expected)
    assert np.asarray(found).dtype == np.asarray(expected).dtype


def rows_alone(case, counts, ran):
    """What a run of the loop alone records for each pass in which it ran."""
    names = CASES[case][-1]
    model = new(Graph(id="alone", nodes=[alone(case)]))
    rows = {name: [] for name in names}
    for k, runs in zip(counts, ran, strict=True):
        found = model(x=float(k), record=names).recorded if runs else dict.fromkeys(names, np.zeros(0))
        for name in names:
            rows[name].append(found[name])
    return rows


def passes_in_which_it_ran(graph, steps):
    """Whether the output of the loop's node was new in each pass: a count of its runs says so."""
    node = graph.nodes[1]
    node.parameters.append(Parameter(id="runs", value="runs + 1", default_initial_value=0))
    r = new(graph)(steps=steps, record=["n.runs", "count.k"])
    runs = np.nan_to_num(r.recorded["n.runs"])
    return r.recorded["count.k"], np.diff(runs, prepend=0.0) > 0


@pytest.mark.parametrize("engine", ["interpret", *SETTLED])
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("case", CASES)
def test_each_pass_has_what_the_loop_alone_records(case, condition, engine):
    graph, names = scheduled(case, condition), CASES[case][-1]
    with mdf_loop.options(engine=engine):
        counts, ran = passes_in_which_it_ran(scheduled(case, condition), 5)
        expected = rows_alone(case, counts, ran)
        plain, r = new(graph)(steps=5), new(graph)(steps=5, record=names)
    assert not ran.all() or condition == "none"
    assert_rows(r["o"], plain["o"])
    for name in names:
        assert_rows([*r.recorded[name]], expected[name])


@pytest.mark.parametrize("case", CASES)
def test_thinned_out_in_files_and_beside_other_values(case, tmp_path):
    names, graph = CASES[case][-1], scheduled(case, "every second")
    whole = new(graph)(steps=5, record=["n.o", *names, "count.k"])
    assert list(whole.recorded) == ["n.o", *names, "count.k"]
    thin = new(graph)(steps=5, record=["n.o", *names, "count.k"], every=3, record_to=tmp_path / "r.zarr")
    again = mdf_loop.open(tmp_path / "r.zarr")
    for name in ("n.o", *names, "count.k"):
        for found in (thin, again):
            assert_rows([*found.recorded[name]], [*whole.recorded[name]][::3])
    labelled = whole.to_xarray()
    assert labelled.sizes["iteration"] == len(whole.recorded["n.o"])
    assert labelled[names[0]].dims[0] == "iteration"


@pytest.mark.parametrize("as_function", [False, True])
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("case", CASES)
def test_mdfs_engine_records_the_same(case, condition, as_function, monkeypatch):
    graph, names = scheduled(case, condition, as_function), [*CASES[case][-1], "count.k", "n.o"]
    expected = new(graph)(steps=4, record=names)

    def refuse(*_):
        raise NotLowered("no loop today")

    monkeypatch.setattr(ScheduledLowering, "lowered", refuse)
    with pytest.warns(LoopWarning, match="no loop today"):
        found = new(graph)(steps=4, record=names)
    assert found.iterations == expected.iterations
    for name in names:
        assert len(found.recorded[name]) == len(expected.recorded[name])
        for row, wanted in zip(found.recorded[name], expected.recorded[name], strict=True):
            assert_rows(row, wanted)


def test_of_one_evaluation_in_one_pass_iterations_are_rows(monkeypatch):
    for case in CASES:
        names = CASES[case][-1]
        expected = new(Graph(id="alone", nodes=[alone(case, 1.5)]))(record=names)
        lives = new(scheduled(case))(record=names)
        for name in names:
            assert_rows(lives.recorded[name], expected.recorded[name])
        assert_rows(new(scheduled(case))(record=names[0], every=2).recorded[names[0]], expected.recorded[names[0]][::2])


def test_each_trial_has_its_own():
    graph = scheduled("a loop of another length each time")
    graph.nodes[0].parameters[0].value = "k + 1.5 + numpy.random.rand()"
    model = new(graph)
    many = model(steps=4, record="n.v", trials=3, seed=2)
    for k in range(3):
        one = model(steps=4, record="n.v", seed=np.random.SeedSequence(2, spawn_key=(0, k))).to_xarray()["n.v"].values
        found = many.recorded["n.v"][k]
        assert_rows(found[:, : one.shape[1]], one)
        assert np.isnan(found[:, one.shape[1] :]).all()


def test_what_was_recorded_when_a_run_ended_early():
    model = new(scheduled("a loop of another length each time"))
    whole = model(steps=9, record=["n.v", "n.o"])
    with mdf_loop.options(max_iterations=6), pytest.raises(IterationLimit) as info:
        model(steps=9, record=["n.v", "n.o"], collect=True)
    recorded, count = info.value.results.recorded, info.value.iteration
    assert 0 < count < 9
    assert_rows([*recorded["n.v"]], [*whole.recorded["n.v"]][:count])
    assert_rows(recorded["n.o"], whole.recorded["n.o"][:count])


def test_unknown_names_and_loops_that_go_on_in_the_next_pass():
    graph = scheduled("a loop of another length each time")
    with pytest.raises(ArgumentError, match=r"nothing to be recorded called 'n.sen'; did you mean 'n.seen'"):
        new(graph)(steps=3, record="n.sen")
    graph.nodes[1].metadata = {"loop": {"iterations_per_execution": 2}}
    graph.conditions = ConditionSet(node_specific={"n": Condition("TimeInterval", repeat=1)})  # which MDF's engine alone knows
    with pytest.warns(LoopWarning), pytest.raises(ArgumentError, match=r"n.run cannot be recorded: .* in each pass"):
        new(graph)(steps=3, record="n.seen")
    graph = scheduled("a loop of another length each time")
    graph.conditions = ConditionSet(node_specific={"n": Condition("Never")}, termination={})
    with pytest.raises(MalformedBody, match=r"never ends: 'n' never runs"):
        new(graph)(record="n.seen", steps=2)


def test_a_stepped_loop_has_a_row_of_its_iterations_for_each_pass():
    graph = scheduled("a loop of another length each time")
    graph.nodes[0].parameters[0].value = "40.0"
    whole = new(graph)(steps=1, record="n.seen").recorded["n.seen"]
    graph.nodes[1].metadata = {"loop": {"iterations_per_execution": 4}}
    graph.conditions = ConditionSet(termination={"environment_state_update": Condition("LoopFinished", dependency="n")})
    parts = new(graph)(steps=1, record="n.seen").recorded["n.seen"]
    assert [len(part) for part in parts] == [4, 2]
    assert_rows([np.concatenate([*parts])], [*whole])


def test_bodies_that_are_found_are_those_that_run():
    for case in CASES:
        for as_function in (False, True):
            loops = loops_of(Graph(id="g", nodes=[alone(case, 1.0, as_function)]))
            assert loops["n"]["run"].name == CASES[case][1].split()[0]


def test_values_that_change_their_shape_are_called_as_the_user_does(tmp_path):
    path = tmp_path / "m.yaml"
    node = (
        "{parameters: {w: {default_initial_value: [0.0], value: 'numpy.concatenate([w, [1.0]])'}}, output_ports: {p: {value: w}}}"
    )
    path.write_text(f"m: {{format: ModECI MDF v0.4, graphs: {{g: {{nodes: {{a: {node}}}}}}}}}")
    with pytest.raises(CollectedError, match=r"^pass 2 of g: collected output 'a.w' was float64\[3\] in the first iteration"):
        mdf_loop.run(path, steps=3, collect=True)
    with pytest.raises(
        CollectedError, match=r"^'a.w' has shape \[2\] in row 0 and \[3\] in row 1; what is recorded has one shape"
    ):
        mdf_loop.run(path, steps=3, record=["a.w"])
    with pytest.raises(CollectedError, match="line 2: collected output 'x' was"):
        mdf_loop.loop(3, True, 0, np.zeros(1), body="k: k + 1\nx: concatenate([x, [1.0]])\ncollect path: x")
