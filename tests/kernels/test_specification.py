"""The specification's own examples, worked through with the numbers it publishes."""

import numpy as np
import pytest
from bodies import PREDICT_NET, counting_to, model, stopping_after
from onnx import TensorProto, helper

import mdf_loop
from mdf_loop import backend

X = np.array([1, 2, 3, 4, 5], np.float32)


def constant(name, value):
    """A Constant node."""
    kind = helper.np_dtype_to_tensor_dtype(value.dtype)
    tensor = helper.make_tensor(f"const_tensor_{name}", kind, value.shape, value.flatten())
    return helper.make_node("Constant", [], [name], value=tensor)


def scalar(name, kind, shape=()):
    return helper.make_tensor_value_info(name, kind, list(shape))


ITERATION, CONDITION_IN, CONDITION_OUT = (
    scalar("iter_count", TensorProto.INT64),
    scalar("cond_in", TensorProto.BOOL),
    scalar("cond_out", TensorProto.BOOL),
)


def run_as_node(body, opset, trip_count, initial, initial_type=None):
    """The example as the specification runs it: one Loop node in a model of that opset."""
    node = helper.make_node(
        "Loop", ["trip_count", "cond", "initial"], [f"out_{k}" for k in range(len(body.output) - 1)], body=body
    )
    initial_type = initial_type or helper.make_tensor_type_proto(TensorProto.FLOAT, [1])
    graph = helper.make_graph(
        [node],
        "example",
        [
            scalar("trip_count", TensorProto.INT64),
            scalar("cond", TensorProto.BOOL),
            helper.make_value_info("initial", initial_type),
        ],
        [helper.make_empty_tensor_value_info(name) for name in node.output],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return backend.run_model(model, [np.array(trip_count), np.array(True), initial])


def loop_11_body():
    nodes = [
        helper.make_node("Identity", ["cond_in"], ["cond_out"]),
        constant("x", X),
        constant("one", np.array(1, np.int64)),
        helper.make_node("Add", ["iter_count", "one"], ["end"]),
        helper.make_node("Unsqueeze", ["iter_count"], ["slice_start"], axes=[0]),
        helper.make_node("Unsqueeze", ["end"], ["slice_end"], axes=[0]),
        helper.make_node("Slice", ["x", "slice_start", "slice_end"], ["slice_out"]),
        helper.make_node("Add", ["y_in", "slice_out"], ["y_out"]),
        helper.make_node("Identity", ["y_out"], ["scan_out"]),
    ]
    y_in, y_out, scan_out = (scalar(name, TensorProto.FLOAT, [1]) for name in ("y_in", "y_out", "scan_out"))
    return helper.make_graph(nodes, "loop_body", [ITERATION, CONDITION_IN, y_in], [CONDITION_OUT, y_out, scan_out])


def test_loop_11_sums_a_vector_and_collects_every_sum():
    y, sums = run_as_node(loop_11_body(), 11, 5, np.array([-2], np.float32))
    np.testing.assert_array_equal(y, np.array([13], np.float32), strict=True)
    np.testing.assert_array_equal(sums, np.array([[-1], [1], [4], [8], [13]], np.float32), strict=True)


def test_loop_11_is_refused_under_opset_13_where_unsqueeze_takes_its_axes_as_input():
    with pytest.raises(mdf_loop.LoopError, match="Unsqueeze"):
        run_as_node(loop_11_body(), 13, 5, np.array([-2], np.float32))


def sequence_nodes():
    """What the sequence examples share: the slice x[:i + 1] of the constant x."""
    return [
        helper.make_node("Identity", ["cond_in"], ["cond_out"]),
        constant("x", X),
        constant("one", np.array(1, np.int64)),
        constant("slice_start", np.array([0], np.int64)),
        helper.make_node("Add", ["iter_count", "one"], ["end"]),
        constant("axes", np.array(0, np.int64)),
        helper.make_node("Unsqueeze", ["end", "axes"], ["slice_end"]),
        helper.make_node("Slice", ["x", "slice_start", "slice_end"], ["slice_out"]),
    ]


def test_loop_13_carries_a_sequence():
    nodes = [*sequence_nodes(), helper.make_node("SequenceInsert", ["seq_in", "slice_out"], ["seq_out"])]
    seq_in, seq_out = (helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, None) for name in ("seq_in", "seq_out"))
    body = helper.make_graph(nodes, "loop_body", [ITERATION, CONDITION_IN, seq_in], [CONDITION_OUT, seq_out])
    (sequence,) = run_as_node(
        body, 13, 5, [], helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    )
    assert [value.tolist() for value in sequence] == [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5]]
    assert {value.dtype for value in sequence} == {np.dtype(np.float32)}


def loop_16_body():
    sequence_of_scalars = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    then_body = helper.make_graph(
        [
            constant("constant_in", np.array(0, np.float32)),
            helper.make_node("SequenceConstruct", ["constant_in"], ["init_seq_in"]),
        ],
        "then_body",
        [],
        [helper.make_tensor_sequence_value_info("init_seq_in", TensorProto.FLOAT, [])],
    )
    else_body = helper.make_graph(
        [helper.make_node("OptionalGetElement", ["opt_seq_in"], ["seq_in"])],
        "else_body",
        [],
        [helper.make_tensor_sequence_value_info("seq_in", TensorProto.FLOAT, [])],
    )
    nodes = [
        helper.make_node("OptionalHasElement", ["opt_seq_in"], ["optional_has_elem"]),
        helper.make_node("Not", ["optional_has_elem"], ["optional_is_none"]),
        helper.make_node("If", ["optional_is_none"], ["sequence"], then_branch=then_body, else_branch=else_body),
        *sequence_nodes(),
        helper.make_node("SequenceInsert", ["sequence", "slice_out"], ["seq_out"]),
    ]
    opt_in = helper.make_value_info("opt_seq_in", helper.make_optional_type_proto(sequence_of_scalars))
    seq_out = helper.make_tensor_sequence_value_info("seq_out", TensorProto.FLOAT, [])
    return helper.make_graph(nodes, "loop_body", [ITERATION, CONDITION_IN, opt_in], [CONDITION_OUT, seq_out])


@pytest.mark.parametrize("initial", [None, [np.array(0, np.float32)]], ids=["empty optional", "optional with a sequence"])
def test_loop_16_carries_an_optional_sequence(initial):
    body = loop_16_body()
    (sequence,) = run_as_node(body, 16, 5, initial, body.input[2].type)
    assert [value.tolist() for value in sequence] == [0, [1], [1, 2], [1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5]]


def predict_net(a, b, keepgoing, max_trip_count):
    """The "equivalent C code" of the specification, line by line."""
    user_defined_vals = []
    keepgoing_out, b_out = keepgoing, b
    i = 0
    while i < max_trip_count and keepgoing_out:
        b_in = b_out
        my_local = a + b_in
        b_out = a - b_in
        keepgoing_out = my_local > b_out
        user_defined_vals.append(b_in + b_in)
        i += 1
    return b_out, user_defined_vals


def test_predict_net_gives_what_its_c_code_gives_for_the_published_constants():
    b, values = mdf_loop.loop(10, True, 6, body=PREDICT_NET, a=3)
    assert (b.tolist(), values.tolist()) == (6, [12, -6])
    assert (b.tolist(), values.tolist()) == predict_net(a=3, b=6, keepgoing=True, max_trip_count=10)
    assert b.dtype == values.dtype == np.int32


@pytest.mark.parametrize(
    ("a", "b", "keepgoing", "count"), [(0, 1, True, 10), (5, 2, True, 1), (5, 2, False, 4), (-3, 7, True, 0)]
)
def test_predict_net_gives_what_its_c_code_gives_for_other_constants(a, b, keepgoing, count):
    out, values = mdf_loop.loop(count, keepgoing, b, body=PREDICT_NET, a=a)
    assert (out.tolist(), values.tolist()) == predict_net(a, b, keepgoing, count)


def numbers(m, cond, last):
    """The iteration numbers of a loop whose body's condition turns false in iteration ``last`` (counted from 1)."""
    return mdf_loop.loop(m, cond, 0.0, body=stopping_after(last))[1].tolist()


def test_mode_of_neither_ignores_the_bodys_condition_and_never_ends_by_itself():
    with pytest.raises(mdf_loop.LoopError, match="never end"):
        numbers("", "", 2)
    with (
        mdf_loop.options(max_iterations=4),
        pytest.warns(UserWarning, match="became false"),
        pytest.raises(mdf_loop.LoopError) as info,
    ):
        numbers("", "", 2)
    assert info.value.partial[1].tolist() == [0, 1, 2, 3]


def test_mode_of_a_condition_is_a_while_loop():
    assert numbers("", True, 3) == [0, 1, 2]
    assert numbers("", False, 3) == []


def test_mode_of_a_true_condition_is_a_do_while_loop():
    assert numbers("", 1, 1) == [0]


@pytest.mark.filterwarnings("ignore:iteration 1 of Loop")
def test_mode_of_a_trip_count_is_a_for_loop_that_ignores_the_bodys_condition():
    assert numbers(4, "", 2) == [0, 1, 2, 3]


def test_mode_of_both_ends_at_whichever_comes_first():
    assert numbers(4, True, 2) == [0, 1]
    assert numbers(2, True, 4) == [0, 1]
    assert numbers(4, False, 2) == []


def test_the_condition_is_seen_before_the_next_iteration_and_not_in_the_middle_of_one():
    n, seen = mdf_loop.loop("", True, 0, body=counting_to(3))
    assert (n.tolist(), seen.tolist()) == (3, [0, 1, 2])


def test_if_example_takes_the_branch_of_the_condition():
    then_branch = "then_body () => (float[5] then_out) { then_out = Constant <value = float[5] {1, 2, 3, 4, 5}> () }"
    else_branch = "else_body () => (float[5] else_out) { else_out = Constant <value = float[5] {5, 4, 3, 2, 1}> () }"
    branches = {"then_branch": then_branch, "else_branch": else_branch}
    np.testing.assert_array_equal(mdf_loop.if_(True, **branches), np.array([1, 2, 3, 4, 5], np.float32), strict=True)
    np.testing.assert_array_equal(mdf_loop.if_(False, **branches), np.array([5, 4, 3, 2, 1], np.float32), strict=True)


SCAN_SUM = """scan_body (float[2] sum_in, float[2] next) => (float[2] sum_out, float[2] scan_out) {
    sum_out = Add (sum_in, next)
    scan_out = Identity (sum_out)
}"""


def test_scan_9_example_sums_rows():
    rows = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    final, sums = mdf_loop.scan(np.zeros(2, np.float32), rows, body=SCAN_SUM, num_scan_inputs=1)
    np.testing.assert_array_equal(final, np.array([9, 12], np.float32), strict=True)
    np.testing.assert_array_equal(sums, np.array([[1, 2], [4, 6], [9, 12]], np.float32), strict=True)


def test_scan_8_example_sums_rows_of_a_batch():
    scan = f"""sum_rows (float[1,2] initial, float[1,3,2] x) => (y, z) {{
        y, z = Scan <num_scan_inputs = 1, body = {SCAN_SUM}> ("", initial, x)
    }}"""
    y, z = backend.run_model(model(scan, 8), [np.zeros((1, 2), np.float32), np.array([[[1, 2], [3, 4], [5, 6]]], np.float32)])
    np.testing.assert_array_equal(y, np.array([[9, 12]], np.float32), strict=True)
    np.testing.assert_array_equal(z, np.array([[[1, 2], [4, 6], [9, 12]]], np.float32), strict=True)
