"""What Scan means, and every other cut of the Loop record, against literal Python loops."""

import itertools

import numpy as np
import pytest
from bodies import graph, model, onnxruntime_run, same, type_of
from hypothesis import given, settings
from hypothesis import strategies as st
from node_cases import assert_same
from onnx import helper

from mdf_loop import LoopError, backend, scan
from mdf_loop.errors import ArgumentError, CollectedError, KindError
from mdf_loop.execute.interpret import Arguments, InterpretedLoop
from mdf_loop.ir import Body, Carried, Collected, Loop, Node, Scanned
from mdf_loop.options import start_run

SUMS = "sums (float[N] s, float[N] x) => (float[N] t, float[N] o) { t = Add (s, x) o = Identity (t) }"
NEGATE = "negate (x) => (y) { y = Neg (x) }"

AXES = ("scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions")


def onnxruntime_scan(body, inputs, n_scanned, opset=18, captured=None, **attrs):
    """What onnxruntime's Scan gives."""
    body, captured = graph(body), captured or {}
    names = [f"v_{k}" for k in range(len(inputs))]
    outputs = [f"out_{k}" for k in range(len(body.output))]
    values = {**dict(zip(names, inputs, strict=True)), **captured}
    node = helper.make_node("Scan", names, outputs, body=body, num_scan_inputs=n_scanned, **attrs)
    main = helper.make_graph(
        [node],
        "main",
        [helper.make_value_info(name, type_of(value)) for name, value in values.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
    )
    return onnxruntime_run(helper.make_model(main, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), values)


def literal_scan(step, carried, scanned, in_axes, in_reverse, out_axes, out_reverse):
    """Scan as a Python loop; ``step(*carried, *parts)`` returns (carried, collected)."""
    rows = [np.moveaxis(value, axis, 0)[:: -1 if r else 1] for value, axis, r in zip(scanned, in_axes, in_reverse, strict=True)]
    collected = [[] for _ in out_axes]
    for parts in zip(*rows, strict=True):
        carried, values = step(*carried, *parts)
        for column, value in zip(collected, values, strict=True):
            column.append(value)
    ordered = [column[:: -1 if r else 1] for column, r in zip(collected, out_reverse, strict=True)]
    return [*carried, *(np.stack(column, axis) for column, axis in zip(ordered, out_axes, strict=True))]


# ONNX Scan from opset 9 on


def test_scan_carries_and_collects():
    final, sums = scan([0, 0], [[1, 2], [3, 4]], body=SUMS, num_scan_inputs=1)
    assert (final.tolist(), sums.tolist()) == ([4, 6], [[1, 2], [4, 6]])
    assert final.dtype == sums.dtype == np.float32


@pytest.mark.parametrize("opset", [9, 11, 16, 19, 21, 23, 24, 25])
def test_every_version_from_9_on_runs(opset):
    final, sums = scan([0.0], [[1.0], [2.0]], body={"onnx": SUMS, "opset": opset}, num_scan_inputs=1)
    assert (final.tolist(), sums.tolist()) == ([3], [[1], [3]])


@pytest.mark.parametrize(("in_axis", "out_axis"), list(itertools.product(range(-3, 3), range(-3, 3))), ids=lambda axis: str(axis))
def test_axes_of_inputs_and_outputs_count_from_either_end(in_axis, out_axis):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    part = "float[A,B]"
    body = f"b ({part} x) => ({part} y) {{ y = Neg (x) }}"
    result = scan(x, body=body, num_scan_inputs=1, scan_input_axes=[in_axis], scan_output_axes=[out_axis])
    same(result, literal_scan(lambda v: ([], [-v]), [], [x], [in_axis], [0], [out_axis], [0]))
    same(result, onnxruntime_scan(body, [x], 1, scan_input_axes=[in_axis], scan_output_axes=[out_axis]))


@pytest.mark.parametrize("directions", list(itertools.product((0, 1), repeat=4)), ids=lambda d: "".join(map(str, d)))
def test_every_input_and_output_has_a_direction_of_its_own(directions):
    body = """b (float s, float x, float[2] y) => (float t, float[2] o, float p) {
        t = Sub (x, s) o = Mul (y, t) p = Add (x, t)
    }"""
    x, y = np.arange(4, dtype=np.float32) + 1, np.arange(8, dtype=np.float32).reshape(2, 4)
    attrs = {
        "scan_input_axes": [0, 1],
        "scan_input_directions": list(directions[:2]),
        "scan_output_axes": [-1, 0],
        "scan_output_directions": list(directions[2:]),
    }
    result = scan(1.0, x, y, body=body, num_scan_inputs=2, **attrs)

    def step(s, x_i, y_i):
        t = x_i - s
        return [t], [y_i * t, x_i + t]

    same(result, literal_scan(step, [np.float32(1)], [x, y], *attrs.values()))
    same(result, onnxruntime_scan(body, [np.float32(1), x, y], 2, **attrs))


def test_captures_are_read_in_every_iteration():
    body = "b (float s, float x) => (float t, float o) { m = Mul (x, gain) t = Add (s, m) o = Identity (m) }"
    result = scan(0.0, [1.0, 2.0, 3.0], body=body, num_scan_inputs=1, gain=10)
    same(result, [np.float32(60), np.array([10, 20, 30], np.float32)])
    given = [np.array(0, np.float32), np.array([1, 2, 3], np.float32)]
    same(result, onnxruntime_scan(body, given, 1, captured={"gain": np.array(10, np.float32)}))


def test_scan_without_carried_values_maps():
    assert scan([1.0, 2.0], body=NEGATE, num_scan_inputs=1).tolist() == [-1, -2]


def test_scan_without_collected_values_folds():
    body = "b (int64 s, int64 x) => (int64 t) { t = Mul (s, x) }"
    assert scan(1, [1, 2, 3, 4], body=body, num_scan_inputs=1) == 24


@pytest.mark.parametrize("value", [np.array(["b", "a"], object), np.array([True, False]), np.arange(2, dtype=np.uint8)])
def test_parts_of_a_vector_are_scalars_of_its_type(value):
    body = "b (x) => (y) { y = Identity (x) }"
    result = scan(value, body=body, num_scan_inputs=1, scan_input_directions=[1])
    assert_same(result, value[::-1], 0, 0)


@pytest.mark.parametrize(("axis", "out_axis", "shape"), [(0, 0, (0, 3)), (1, 0, (0, 3)), (0, 1, (3, 0)), (0, -1, (3, 0))])
def test_scan_over_nothing_leaves_the_carried_values_and_collects_nothing(axis, out_axis, shape):
    x = np.zeros((0, 3) if axis == 0 else (3, 0), np.float32)
    attrs = {"scan_input_axes": [axis], "scan_output_axes": [out_axis]}
    final, sums = scan(np.ones(3), x, body=SUMS, num_scan_inputs=1, **attrs)
    assert (final.tolist(), sums.shape, sums.dtype) == ([1, 1, 1], shape, np.float32)


def test_scan_over_nothing_infers_shape_and_type_from_what_would_be_scanned():
    body = "b (x) => (y, z) { y = Neg (x) z = Shape (x) }"
    y, z = scan(np.zeros((3, 0, 5)), body=body, num_scan_inputs=1, scan_input_axes=[1])
    assert (y.shape, y.dtype, z.shape, z.dtype) == ((0, 3, 5), np.float64, (0, 2), np.int64)


def test_python_function_as_body():
    final, sums = scan(0, [1, 2, 3], body=lambda s, x: (s + x, s + x), num_scan_inputs=1)
    assert (final.tolist(), sums.tolist()) == (6, [1, 3, 6])
    total = scan(0, [1, 2, 3], body=lambda s, x: s + x, num_scan_inputs=1, scan_input_directions=[1])
    assert total == 6
    assert scan([1, 2], [3, 4], body=lambda x, y, scale: x * y * scale, num_scan_inputs=2, scale=2).tolist() == [6, 16]


@pytest.mark.parametrize("n", [None, 0, 3, "1", 1.0, True])
def test_number_of_scanned_inputs_must_be_said_and_fit(n):
    with pytest.raises(ArgumentError) as info:
        scan([0.0], [[1.0]], body=SUMS, num_scan_inputs=n)
    assert str(info.value) == f"scan: num_scan_inputs must be a whole number from 1 to the 2 inputs given; got {n!r}"


def test_scanned_inputs_must_have_one_length():
    with pytest.raises(ArgumentError) as info:
        scan([1, 2], [1, 2, 3], body="b (x, y) => (z) { z = Add (x, y) }", num_scan_inputs=2)
    assert str(info.value) == "Scan: all scanned inputs must have the same length along their axes; 'x' has 2, 'y' has 3"


def test_scanned_input_must_have_the_axis():
    with pytest.raises(ArgumentError) as info:
        scan([1.0, 2.0], body=NEGATE, num_scan_inputs=1, scan_input_axes=[1])
    assert str(info.value) == "Scan: scanned input 'x' is float64[2], it has no axis 1"


def test_collected_value_must_have_room_for_the_axis():
    with pytest.raises(CollectedError) as info:
        scan([1.0, 2.0], body=NEGATE, num_scan_inputs=1, scan_output_axes=[1])
    assert str(info.value) == ("iteration 0 of Scan: collected output 'y' is float64[]; it has no axis 1 to put iterations along")


@pytest.mark.parametrize("name", AXES)
def test_lists_of_axes_and_directions_must_have_one_entry_for_each_value(name):
    with pytest.raises(ArgumentError) as info:
        scan([1.0], body=NEGATE, num_scan_inputs=1, **{name: [0, 0]})
    assert str(info.value) == f"Scan: {name} has 2 entries for 1 value"


def test_directions_are_0_or_1():
    with pytest.raises(ArgumentError) as info:
        scan([1.0], body=NEGATE, num_scan_inputs=1, scan_input_directions=[-1])
    assert str(info.value) == "Scan: scan_input_directions must be 0 (forward) or 1 (reverse); got [-1]"


def test_directions_of_opset_8_are_refused_from_opset_9_on():
    text = f"main (float[N] x) => (y) {{ y = Scan <num_scan_inputs = 1, directions = [1], body = {NEGATE}> (x) }}"
    with pytest.raises(LoopError, match="Scan has no attribute directions"):
        backend.prepare(model(text, 9))


# Scan of opset 8: batches


def run_8(inputs, lengths=None, **attrs):
    said = ", ".join(f"{name} = {value}" for name, value in {"num_scan_inputs": 1, **attrs}.items())
    text = f"""main (int64[B] lens, float[B,N] s, float[B,T,N] x) => (t, o) {{
        t, o = Scan <{said}, body = {SUMS}> ({'""' if lengths is None else "lens"}, s, x)
    }}"""
    return model(text, 8), [np.zeros(1, np.int64) if lengths is None else np.array(lengths), *inputs]


BATCH = [np.array([[0, 0], [10, 20]], np.float32), np.arange(12, dtype=np.float32).reshape(2, 3, 2)]


@pytest.mark.parametrize("lengths", [None, [3, 3], [1, 2], [0, 3], [0, 0]])
@pytest.mark.parametrize("reverse", [0, 1])
def test_opset_8_runs_every_sequence_of_a_batch_for_its_own_length(lengths, reverse):
    source, inputs = run_8(BATCH, lengths, directions=[reverse])
    final, sums = backend.run_model(source, inputs)
    initial, x = BATCH
    for b in range(2):
        count = 3 if lengths is None else lengths[b]
        state, rows = initial[b], np.zeros((3, 2), np.float32)
        for k, t in enumerate(reversed(range(count)) if reverse else range(count)):
            state = rows[k] = state + x[b, t]
        np.testing.assert_array_equal(final[b], state)
        np.testing.assert_array_equal(sums[b], rows)
    if lengths is None or all(lengths):
        same((final, sums), onnxruntime_run(source, dict(zip(("lens", "s", "x"), inputs, strict=True))))


@pytest.mark.parametrize("lengths", [[4, 1], [-1, 1]])
def test_opset_8_refuses_lengths_that_the_sequences_do_not_have(lengths):
    source, inputs = run_8(BATCH, lengths)
    with pytest.raises(LoopError, match=rf"sequence_lens\[0\] is {lengths[0]}, the sequences have 3 elements"):
        backend.run_model(source, inputs)


@pytest.mark.parametrize("name", AXES)
def test_axes_and_directions_of_opset_9_are_refused_in_opset_8(name):
    source, _ = run_8(BATCH, **{name: [0]})
    with pytest.raises(LoopError, match=f"Scan has no attribute {name}"):
        backend.prepare(source)


# The Loop record itself


def literal_loop(record, arguments):
    """What a Loop record means, for the body of :func:`record_of`: y = x + p, z = p * w."""
    (x,), (w,) = arguments.carried, arguments.invariant
    scanned, array = record.scanned[0], arguments.scanned[0]
    moved, part = np.moveaxis(array, scanned.axis, 0), scanned.part
    starts = list(range(scanned.start, len(moved) - (part or 1) + 1, scanned.stride))
    if scanned.reverse:
        starts.reverse()
    y, z, collected = x, None, []
    for i in range(min(arguments.trip_count, len(starts))):
        rows = moved[starts[i]] if part is None else np.moveaxis(moved[starts[i] : starts[i] + part], 0, scanned.axis)
        x = y = x + rows.sum()
        z = rows * w
        collected.append(z)
    what = record.collected[0]
    ordered = collected[::-1] if what.reverse else collected
    return y, z, (np.stack if what.stack else np.concatenate)(ordered, axis=what.axis)


def record_of(scanned, collected):
    """A loop with one of everything: carried x, part p, invariant w, last z, collected z."""
    nodes = (
        Node("ReduceSum", ("p",), ("total",), {"keepdims": 0}, opset=18),
        Node("Add", ("x", "total"), ("y",), opset=18),
        Node("Mul", ("p", "w"), ("z",), opset=18),
    )
    body = Body("b", ("x", "p", "w"), ("y", "z"), nodes)
    return Loop(body, (Carried("x", "y"),), (scanned,), (collected,), last=("z",), invariant=("w",))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_loop_record_means_what_the_literal_loop_does(data):
    length, axis = data.draw(st.integers(5, 9)), data.draw(st.integers(-2, 1))
    part = data.draw(st.none() | st.integers(1, 3))
    scanned = Scanned("p", axis, data.draw(st.integers(0, 2)), data.draw(st.integers(1, 3)), part, data.draw(st.booleans()))
    stack = data.draw(st.booleans()) or part is None
    rank = (1 if part is None else 2) + stack
    collected = Collected("z", data.draw(st.integers(-rank, rank - 1)), stack, data.draw(st.booleans()))
    shape = [3, 3]
    shape[axis] = length
    array = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
    count = len(range(scanned.start, length - (part or 1) + 1, scanned.stride))
    arguments = Arguments(data.draw(st.integers(1, count)), True, [np.int64(5)], [array], [np.int64(10)])
    record = record_of(scanned, collected)
    for actual, expected in zip(InterpretedLoop(record)(arguments, start_run()), literal_loop(record, arguments), strict=True):
        np.testing.assert_array_equal(actual, expected, strict=True)


@pytest.mark.parametrize(("stack", "part", "shape"), [(True, None, (0, 3)), (True, 2, (0, 2, 3)), (False, 2, (0, 3))])
def test_loop_record_without_iterations_has_no_last_value(stack, part, shape):
    record = record_of(Scanned("p", part=part), Collected("z", stack=stack))
    array = np.zeros((4, 3), np.int64)
    x, last, collected = InterpretedLoop(record)(Arguments(0, True, [np.int64(5)], [array], [np.int64(1)]), start_run())
    assert (x, last, collected.shape, collected.dtype) == (5, None, shape, np.int64)


def test_loop_record_hands_out_the_iteration_number_and_obeys_its_condition():
    nodes = (Node("Less", ("i", "end"), ("go",), opset=18), Node("Add", ("x", "i"), ("y",), opset=18))
    body = Body("b", ("i", "x"), ("go", "y"), nodes, captures=("end",))
    record = Loop(body, (Carried("x", "y"),), index="i", keep_going="go", last=("go",))
    y, go = InterpretedLoop(record)(Arguments(None, True, [np.int64(0)], captured=[np.int64(3)]), start_run())
    assert (y, go) == (0 + 1 + 2 + 3, False)


def test_one_axis_may_be_a_number_and_anything_else_is_refused():
    body = "b (double s, double x) => (double t, double y) { t = Add (s, x) y = Identity (t) }"
    total, sums = scan(0.0, np.arange(3.0), body=body, num_scan_inputs=1, scan_input_directions=1)
    assert total == 3.0
    np.testing.assert_array_equal(sums, [2.0, 3.0, 3.0])
    with pytest.raises(KindError, match="scan_input_axes must be whole numbers, one for each value; got 'x'"):
        scan(0.0, np.arange(3.0), body=body, num_scan_inputs=1, scan_input_axes="x")
