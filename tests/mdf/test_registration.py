"""onnx::Loop, onnx::Scan and onnx::If inside MDF's own engine."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from bodies import COUNTER, RUNNING_SUM, stopping_after
from modeci_mdf import execution_engine
from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.functions.standard import mdf_functions
from modeci_mdf.mdf import Edge, Function, Graph, InputPort, Node, OutputPort, Parameter
from nodes_that_loop import SWAPPING_SUM, evaluated, loop_node, outputs

import mdf_loop
from mdf_loop.errors import KindError, LoopWarning, MissingCapture

# Registering and unregistering


def test_registering_twice_is_harmless():
    mdf_loop.register()
    before = {name: mdf_functions[name] for name in ("onnx::Loop", "onnx::Scan", "onnx::If")}
    mdf_loop.register()
    assert all(mdf_functions[name] is entry for name, entry in before.items())


SNAPSHOT = textwrap.dedent("""
    import modeci_mdf.execution_engine as engine
    import modeci_mdf.functions.onnx as functions
    import modeci_mdf.functions.standard as standard

    def snapshot():
        owners = {"onnx": functions, "engine": engine, "standard": standard}
        owners |= {name: value for name, value in vars(engine).items() if isinstance(value, type)}
        found = {(owner, name): id(value) for owner, where in owners.items() for name, value in vars(where).items()}
        found |= {("mdf_functions", name): id(value) for name, value in standard.mdf_functions.items()}
        found["order"] = list(standard.mdf_functions)
        return found

    before = snapshot()
    kept = [dict(vars(functions)), dict(vars(engine)), dict(standard.mdf_functions)]  # so that no id is used again
""")


def test_unregister_leaves_modeci_mdf_exactly_as_it_was():
    code = SNAPSHOT + textwrap.dedent("""
        import mdf_loop
        for steps in ("", "unregister", "register", "register register"):
            for step in steps.split():
                getattr(mdf_loop, step)()
            assert (snapshot() != before) == (steps != "unregister")
            mdf_loop.unregister()
            after = snapshot()
            changed = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]
            assert not changed, (steps, changed)
        mdf_loop.register()
        assert "onnx::Loop" in standard.mdf_functions
        assert mdf_loop.loop(1, True, 1, body=lambda i, c, x: (c, x + 1)) == 2
    """)
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("is_registered", [True, False])
def test_modules_that_are_imported_later_are_changed_if_it_is_registered_then(is_registered):
    code = textwrap.dedent(f"""
        import mdf_loop
        if not {is_registered}:
            mdf_loop.unregister()
        import modeci_mdf.execution_engine as engine, modeci_mdf.functions.standard as standard, graph_scheduler.condition
        def changed():
            yield from ("print" in vars(engine), "onnx::Loop" in standard.mdf_functions)
            yield hasattr(graph_scheduler.condition, "LoopFinished")
        assert [*changed()] == [{is_registered}] * 3
        for is_now, step in ((True, mdf_loop.register), (False, mdf_loop.unregister), (True, mdf_loop.register)):
            step()
            assert [*changed()] == [is_now] * 3
    """)
    subprocess.run([sys.executable, "-c", code], check=True)


def test_conditions_can_be_imported_first():
    code = "import mdf_loop.integrations.loop_conditions as ours, graph_scheduler; print(graph_scheduler.condition.LoopFinished)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unregister_puts_back_what_others_had_registered_under_our_names():
    code = textwrap.dedent("""
        from modeci_mdf.functions.standard import mdf_functions
        theirs = mdf_functions["onnx::Loop"] = {"description": "someone else's"}
        import mdf_loop
        assert mdf_functions["onnx::Loop"] is not theirs
        mdf_loop.unregister()
        assert mdf_functions["onnx::Loop"] is theirs
        assert "onnx::Scan" not in mdf_functions
    """)
    subprocess.run([sys.executable, "-c", code], check=True)


def test_loop_works_while_it_is_not_registered():
    mdf_loop.unregister()
    try:
        assert mdf_loop.loop(3, True, 0.0, body=COUNTER, one=1) == 3
        assert "onnx::Loop" not in mdf_functions
    finally:
        mdf_loop.register()


def test_modeci_mdfs_own_loop_scan_and_if_are_ours():
    import modeci_mdf.functions.onnx as functions

    assert functions.loop(3, True, 0.0, body=COUNTER, one=1) == 3
    assert functions.scan([1, 2], body=lambda x: x * 2, num_scan_inputs=1).tolist() == [2, 4]
    assert getattr(functions, "if")(True, then_branch=lambda: 1, else_branch=lambda: 2) == 1


def test_other_onnx_functions_and_mdf_functions_behave_as_before():
    node = Node(
        id="other",
        input_ports=[InputPort(id="x", default_value=[[-1.0, 2.0]])],
        parameters=[
            Parameter(id="relu", function="onnx::Relu", args={"A": "x"}),
            Parameter(id="line", function="linear", args={"variable0": "x", "slope": 2, "intercept": 1}),
            Parameter(id="value", value="x * 10"),
        ],
        output_ports=[OutputPort(id=name, value=name) for name in ("relu", "line", "value")],
    )
    node.parameters[0].args = {"X": "x"}
    registered = outputs(evaluated(node), "other")
    mdf_loop.unregister()
    try:
        alone = outputs(evaluated(node), "other")
    finally:
        mdf_loop.register()
    assert {name: np.asarray(v).tolist() for name, v in registered.items()} == {
        name: np.asarray(v).tolist() for name, v in alone.items()
    }
    assert registered["relu"].tolist() == [[0, 2]]


# A node that loops


@pytest.mark.parametrize("function", [False, True], ids=["as Parameter", "as Function"])
def test_loop_in_a_node(function):
    node = loop_node(COUNTER, {"M": 3, "cond": True, "v_initial": "x"}, {"x": 0.5}, {"one": 2}, function=function)
    assert outputs(evaluated(node))["out"] == 6.5


@pytest.mark.parametrize("function", [False, True], ids=["as Parameter", "as Function"])
def test_several_carried_and_collected_values_are_run_0_run_1_and_so_on(function):
    ports = {"x": "run[0]", "h": "run[1]", "t": "run[2]"}
    args = {"M": 4, "cond": True, "v_initial": "x0", "anything": "h0"}
    node = loop_node(SWAPPING_SUM, args, {"x0": 1.0, "h0": 1.0}, {"gain": 10}, ports, function)
    result = outputs(evaluated(node))
    assert [np.asarray(v).tolist() for v in result.values()] == [5, 8, [20, 30, 50, 80]]


def test_tuple_as_v_initial_carries_several_values():
    args = {"M": 4, "cond": True, "v_initial": "(x0, h0)"}
    node = loop_node(SWAPPING_SUM, args, {"x0": 1.0, "h0": 1.0}, {"gain": 10}, {"x": "run[0]", "t": "run[2]"})
    assert [np.asarray(v).tolist() for v in outputs(evaluated(node)).values()] == [5, [20, 30, 50, 80]]


@pytest.mark.parametrize("function", [False, True], ids=["as Parameter", "as Function"])
def test_scan_in_a_node(function):
    body = "b (float s, float x) => (float t, float o) { t = Add (s, x) o = Mul (t, gain) }"
    args = {"initial": 0, "rows": "x", "num_scan_inputs": 1}
    node = loop_node(body, args, {"x": [1.0, 2.0, 3.0]}, {"gain": 10}, {"t": "run[0]", "o": "run[1]"}, function, "onnx::Scan")
    assert [np.asarray(v).tolist() for v in outputs(evaluated(node)).values()] == [6, [10, 30, 60]]


def test_scan_in_a_node_with_axes_and_directions():
    args = {"rows": "x", "num_scan_inputs": 1, "scan_input_axes": [1], "scan_input_directions": [1], "scan_output_axes": [1]}
    node = loop_node("b (float[N] x) => (float[N] y) { y = Neg (x) }", args, {"x": [[1.0, 2.0], [3.0, 4.0]]}, called="onnx::Scan")
    assert outputs(evaluated(node))["out"].tolist() == [[-2, -1], [-4, -3]]


@pytest.mark.parametrize("function", [False, True], ids=["as Parameter", "as Function"])
@pytest.mark.parametrize(("x", "expected"), [(3.0, 9.0), (-3.0, -1.0)])
def test_if_in_a_node(function, x, expected):
    branches = {"then_branch": "t () => (y) { y = Mul (x, x) }", "else_branch": "e () => (k) <float k = {-1}> { }"}
    node = loop_node(branches, {"cond": "x > 0"}, {"x": x}, function=function, called="onnx::If")
    assert outputs(evaluated(node))["out"] == expected


def test_if_in_a_node_may_read_a_port_called_cond():
    branches = {"then_branch": "t () => (y) { y = Not (cond) }", "else_branch": "e () => (y) { y = Identity (cond) }"}
    node = loop_node(branches, {"cond": "cond"}, {"cond": True}, called="onnx::If")
    assert outputs(evaluated(node))["out"].tolist() is False


@pytest.mark.parametrize("omitted", ["", None], ids=["empty text", "null"])
def test_omitted_condition_or_trip_count(omitted):
    node = loop_node(COUNTER, {"M": 3, "cond": omitted, "v_initial": "x"}, {"x": 0.5}, {"one": 2})
    assert outputs(evaluated(node))["out"] == 6.5
    body = "b (int64 i, bool c, float x) => (bool c_out, float y) { y = Add (x, one) c_out = Less (y, limit) }"
    node = loop_node(body, {"M": omitted, "cond": True, "v_initial": "x"}, {"x": 0}, {"one": 2, "limit": 9})
    assert outputs(evaluated(node))["out"] == 10


def test_trip_count_and_condition_may_be_ports_and_expressions():
    args = {"M": "n + 1", "cond": "x < 3", "v_initial": "x"}
    for x, expected in ((1.0, 7.0), (3.0, 3.0)):
        node = loop_node(COUNTER, args, {"x": x, "n": 2}, {"one": 2})
        assert outputs(evaluated(node))["out"] == expected
    args = {"M": "M", "cond": "cond", "v_initial": "x"}
    node = loop_node(COUNTER, args, {"x": 1.0, "M": 3, "cond": True}, {"one": 2})
    assert outputs(evaluated(node))["out"] == 7


def test_captures_come_from_ports_parameters_and_functions():
    body = "b (int64 i, bool c, float x) => (bool c, float y) { t = Add (x, port) u = Add (t, parameter) y = Add (u, function) }"
    node = loop_node(body, {"M": 2, "cond": True, "v_initial": 0}, {"port": 1.0}, {"parameter": "port * 10"})
    node.functions.append(Function(id="function", value="port * 100"))
    assert outputs(evaluated(node))["out"] == 222


def test_captures_may_be_called_like_arguments_of_loop():
    body = "b (int64 i, bool c, float x) => (bool c, float y, bool s) { y = Add (x, M) s = Identity (cond) }"
    args = {"M": 2, "cond": True, "v_initial": 0}
    node = loop_node(body, args, {"M": 5.0, "cond": False}, outputs={"y": "run[0]", "s": "run[1]"})
    assert [np.asarray(v).tolist() for v in outputs(evaluated(node)).values()] == [10, [False, False]]


@pytest.mark.parametrize("order", [["run", "late"], ["late", "run"]])
def test_captured_parameter_is_evaluated_before_the_loop_wherever_it_stands(order):
    node = loop_node(COUNTER, {"M": 2, "cond": True, "v_initial": 0}, {"x": 1.0}, {})
    node.parameters.append(Parameter(id="one", value="late + x"))
    node.parameters.append(Parameter(id="late", value="x * 2"))
    node.parameters.sort(key=lambda p: order.index(p.id) if p.id in order else -1 if p.id == "body_value" else len(order))
    assert outputs(evaluated(node))["out"] == 6


def test_loop_reads_what_another_loop_of_the_node_gives():
    node = loop_node(COUNTER, {"M": 3, "cond": True, "v_initial": 0}, {}, {"one": 1}, {"out": "second"})
    node.parameters.append(
        Parameter(id="second", function="onnx::Loop", args={"M": 2, "cond": True, "v_initial": "run", "body": "body_value"})
    )
    assert outputs(evaluated(node))["out"] == 5


def test_loop_passes_its_results_over_edges():
    first = loop_node(
        RUNNING_SUM, {"M": 3, "cond": True, "v_initial": "x"}, {"x": [0.0, 1.0]}, {"step": 1}, {"x": "run[0]", "s": "run[1]"}
    )
    second = Node(
        id="after",
        input_ports=[InputPort(id="total", shape="(2,)"), InputPort(id="rows", shape="(3, 2)")],
        parameters=[Parameter(id="sum", value="total + rows[0]")],
        output_ports=[OutputPort(id="out", value="sum")],
    )
    edges = [
        Edge(id=f"e{k}", sender="looping", sender_port=a, receiver="after", receiver_port=b)
        for k, (a, b) in enumerate((("x", "total"), ("s", "rows")))
    ]
    assert outputs(evaluated(first, second, edges=edges), "after")["out"].tolist() == [4, 6]


def test_missing_capture_is_reported_with_the_place_in_the_model():
    node = loop_node(COUNTER, {"M": 3, "cond": True, "v_initial": 0})
    with pytest.raises(
        MissingCapture, match="the body reads 'one', which the node does not have; give it as a parameter"
    ) as info:
        evaluated(node)
    assert info.value.__notes__ == ["in MDF parameter or function 'run' (onnx::Loop)"]


def test_value_of_the_wrong_kind_is_reported_with_the_place_in_the_model():
    node = loop_node(COUNTER, {"M": "x", "cond": True, "v_initial": 0}, {"x": 2.5}, {"one": 1})
    with pytest.raises(KindError, match=r"the trip count M must be one integer.*2\.5") as info:
        evaluated(node)
    assert info.value.__notes__ == ["in MDF parameter or function 'run' (onnx::Loop)"]


@pytest.mark.parametrize("function", [False, True], ids=["as Parameter", "as Function"])
def test_body_may_stand_in_the_arguments_themselves(function):
    args = {"M": 3, "cond": True, "v_initial": 0, "body": {"onnx": COUNTER}}
    assert outputs(evaluated(loop_node({}, args, parameters={"one": 2}, function=function)))["out"] == 6


def test_body_may_be_the_parameter_called_body():
    node = loop_node({}, {"M": 3, "cond": True, "v_initial": 0}, parameters={"one": 2, "body": {"onnx": COUNTER}})
    assert outputs(evaluated(node))["out"] == 6


def test_warning_about_an_ignored_condition_points_at_the_users_line():
    node = loop_node(stopping_after(1), {"M": 3, "cond": "", "v_initial": 0}, outputs={"out": "run[0]"})
    graph = EvaluableGraph(Graph(id="g", nodes=[node]))
    with pytest.warns(LoopWarning, match="condition became false") as record:
        graph.evaluate()
    assert [w.filename for w in record] == [__file__]


def test_evaluate_onnx_expr_passes_every_carried_value_on():
    given = {"M": 2, "cond": True, "v_initial": 1.0, "arg_h": 1.0, "body": {"onnx": SWAPPING_SUM}}
    expression = mdf_functions["onnx::Loop"]["expression_string"]
    x, _, t = execution_engine.evaluate_onnx_expr(expression, given, {**given, "gain": 10.0})
    assert (x.tolist(), t.tolist()) == (2, [20, 30])
