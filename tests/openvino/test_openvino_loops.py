"""Loop, TensorIterator and If of OpenVINO: every feature of their port maps, compared with OpenVINO where it is right."""

import re

import numpy as np
import openvino
import openvino.opset16 as op
import pytest
from openvino_models import (
    Body,
    S,
    X,
    always,
    assert_as_openvino,
    constant,
    edited,
    joined,
    loop_over,
    model_of,
    openvino_run,
    ours,
    saved,
    slices_of,
    summing,
)

import mdf_loop
from mdf_loop.errors import IterationError, IterationLimit, KindError
from mdf_loop.openvino import prepare
from mdf_loop.plan.schedule import make_plan


def counting(trip_count, go=None, *, stop_at=None, index_dtype=np.int64, index_shape=(), dtype=np.int64):
    """x doubles and takes the iteration number on; the body's condition is ``i < stop_at``."""

    def build(m, x):
        body = Body()
        i, v = body.parameter(index_shape, index_dtype), body.parameter([3])
        number = op.convert(i, "f32")
        doubled = body.result(op.add(op.add(v, v), number))
        row = body.result(op.unsqueeze(doubled.input_value(0), op.constant([0])))
        numbers = body.result(op.reshape(number, op.constant([1]), False))
        condition = body.result(always() if stop_at is None else op.less(i, op.constant(np.array(stop_at, index_dtype))))
        loop = loop_over(body, m, None if go is None else always(go), i, condition)
        loop.set_merged_input(v, x.output(0), doubled.output(0))
        last = loop.get_iter_value(doubled.output(0), -1)
        return [last, joined(loop, row), joined(loop, numbers)]

    return model_of(build, np.asarray(trip_count, dtype), S), np.asarray(trip_count, dtype), S


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("trip_count", [3, [3], 1])
def test_trip_count_is_a_scalar_or_one_element_of_either_integer_type(trip_count, dtype, tmp_path):
    assert_as_openvino(*_with_folder(counting(trip_count, dtype=dtype), tmp_path))


def _with_folder(case, folder):
    model, *values = case
    return model, folder, *values


@pytest.mark.parametrize(("dtype", "shape"), [(np.int32, ()), (np.int32, (1,)), (np.int64, (1,))])
def test_iteration_number_has_the_type_and_shape_that_the_body_declares(dtype, shape, tmp_path):
    assert_as_openvino(*_with_folder(counting(4, index_dtype=dtype, index_shape=shape), tmp_path))


MODES = {
    "for": (4, True, None, 4),
    "for, ended by the body": (9, True, 2, 3),
    "while": (-1, True, 2, 3),
    "do while, once": (-1, True, 0, 1),
    "for with condition, the condition later": (3, True, 7, 3),
}
"""Trip count, execution condition, where the body's condition turns false, and how many iterations that makes."""


@pytest.mark.parametrize("mode", MODES)
def test_the_mode_runs_as_often_as_the_text_says(mode, tmp_path):
    trip_count, go, stop_at, iterations = MODES[mode]
    model, *values = counting(trip_count, go, stop_at=stop_at)
    assert_as_openvino(model, tmp_path, *values)
    assert len(ours(model, tmp_path, *values)[1]) == iterations


@pytest.mark.parametrize(("trip_count", "go"), [(0, True), (5, False), (-1, False)])
def test_without_an_iteration_carried_values_stay_and_nothing_is_joined(trip_count, go, tmp_path):
    model, *values = counting(trip_count, go, stop_at=2)
    last, rows, numbers = ours(model, tmp_path, *values)
    np.testing.assert_array_equal(last, S)
    assert (rows.shape, rows.dtype) == ((0, 3), np.float32)
    assert (numbers.shape, numbers.dtype) == ((0,), np.float32)


def test_an_endless_loop_is_refused_unless_the_iterations_are_limited(tmp_path):
    """OpenVINO gives memory that nothing wrote to."""
    path = saved(counting(-1)[0], tmp_path)
    prepared = prepare(path)
    with pytest.raises(IterationError, match=re.escape("the trip count is -1 and the body's condition is always true")):
        prepared.run([np.int64(-1), S])
    with mdf_loop.options(max_iterations=3), pytest.raises(IterationLimit) as caught:
        prepared.run([np.int64(-1), S])
    assert caught.value.iteration == 3
    np.testing.assert_array_equal(caught.value.partial[0], ours(counting(3)[0], tmp_path, np.int64(3), S)[0])


def test_a_condition_that_comes_from_outside_and_stays_is_endless_as_well(tmp_path):
    def build(m, go):
        body = Body()
        inside, v = body.parameter([], bool), body.parameter([])
        condition, more = body.result(inside), body.result(op.add(v, constant(1)))
        loop = loop_over(body, m, go, None, condition)
        loop.set_invariant_input(inside, go.output(0))
        loop.set_merged_input(v, constant(0).output(0), more.output(0))
        return [loop.get_iter_value(more.output(0), -1)]

    prepared = prepare(saved(model_of(build, np.int64(1), np.array(True)), tmp_path))
    with pytest.raises(IterationError, match="this loop would never end"):
        prepared.run([np.int64(-1), np.array(True)])
    assert prepared.run([np.int64(5), np.array(True)])[0] == 5
    assert prepared.run([np.int64(-1), np.array(False)])[0] == 0


@pytest.mark.parametrize("trip_count", [-2, -5])
def test_a_trip_count_below_minus_one_is_refused(trip_count, tmp_path):
    """OpenVINO runs no iteration and gives memory that nothing wrote to."""
    with pytest.raises(IterationError, match=f"the trip count is {trip_count}; it must be 0 or more, or -1 for no limit"):
        ours(counting(trip_count)[0], tmp_path, np.int64(trip_count), S)


def test_a_trip_count_of_two_elements_is_refused(tmp_path):
    with pytest.raises(IterationError, match=re.escape("the trip count M must be one integer")) as caught:
        ours(summing([-1]), tmp_path, np.int64([1, 2]), X)
    assert isinstance(caught.value.__cause__, KindError)


def test_fewer_iterations_than_slices_leave_the_rest(tmp_path):
    for trip_count in (1, 3, 4):
        assert_as_openvino(summing(), tmp_path, np.int64(trip_count), X)


def test_a_trip_count_beyond_the_slices_is_refused_with_what_was_computed(tmp_path):
    """OpenVINO reads on behind the end of the input."""
    with pytest.raises(IterationError) as caught:
        ours(summing(), tmp_path, np.int64(6), X)
    assert "iteration 4 of Loop 'Loop_" in str(caught.value)
    assert "its trip count is 6, but a sliced input has no more parts" in str(caught.value)
    assert "has 4" in str(caught.value)
    assert caught.value.iteration == 4
    np.testing.assert_array_equal(caught.value.partial[0], X.sum(0, keepdims=True))


def test_a_trip_count_beyond_the_slices_does_not_matter_if_the_body_ends_in_time(tmp_path):
    for trip_count in (6, -1):
        for stop_at, fails in ((3, False), (4, True)):
            m, x = op.parameter([], np.int64), op.parameter([4, 3], np.float32)
            body = Body()
            i, part = body.parameter([], np.int64), body.parameter([1, 3])
            row, condition = body.result(op.negative(part)), body.result(op.less(i, op.constant(stop_at)))
            loop = loop_over(body, m, None, i, condition)
            slices_of(loop, part, x)
            path = saved(openvino.Model([joined(loop, row)], [m, x], "m"), tmp_path)
            if fails:
                with pytest.raises(IterationError, match="has no more parts"):
                    prepare(path).run([np.int64(trip_count), X])
            else:
                np.testing.assert_array_equal(prepare(path).run([np.int64(trip_count), X])[0], -X)


def test_no_iteration_over_a_sliced_input_gives_nothing_joined(tmp_path):
    """OpenVINO ends the process."""
    total, rows = ours(summing(), tmp_path, np.int64(0), X)
    np.testing.assert_array_equal(total, [[0, 0, 0]])
    assert rows.shape == (0, 3)


def squared(m, x):
    body = Body()
    v = body.parameter([3])
    square = body.result(op.multiply(v, v))
    loop = loop_over(body, m)
    loop.set_invariant_input(v, x.output(0))
    return [loop.get_iter_value(square.output(0), -1)]


def test_a_last_value_without_an_iteration_is_refused(tmp_path):
    model = model_of(squared, np.int64(1), S)
    np.testing.assert_array_equal(ours(model, tmp_path, np.int64(2), S)[0], S * S)
    with pytest.raises(IterationError, match=r"there was no iteration, so '.*' has no last value"):
        ours(model, tmp_path, np.int64(0), S)


def invariant(x, step):
    body = Body()
    v, s = body.parameter([3]), body.parameter([])
    more = body.result(op.add(v, s))
    loop = loop_over(body, op.constant(3))
    loop.set_merged_input(v, x.output(0), more.output(0))
    loop.set_invariant_input(s, step.output(0))
    return [loop.get_iter_value(more.output(0), -1)]


def test_a_loop_without_iteration_number_and_with_invariant_inputs(tmp_path):
    assert_as_openvino(model_of(invariant, S, np.float32(0.5)), tmp_path, S, np.float32(0.5))


def swapping(x, y):
    body = Body()
    a, b = body.parameter([3]), body.parameter([3])
    first, second = body.result(b), body.result(a)
    loop = loop_over(body, op.constant(3))
    loop.set_merged_input(a, x.output(0), first.output(0))
    loop.set_merged_input(b, y.output(0), second.output(0))
    return [loop.get_iter_value(first.output(0), -1), loop.get_iter_value(second.output(0), -1)]


def test_values_that_are_carried_may_change_places(tmp_path):
    """OpenVINO gives both outputs one value when nothing stands between."""
    x, y = ours(model_of(swapping, S, -S), tmp_path, S, -S)
    np.testing.assert_array_equal(x, -S)
    np.testing.assert_array_equal(y, S)


def feeding_two(x, y):
    body = Body()
    a, b = body.parameter([3]), body.parameter([3])
    both = body.result(op.add(a, op.multiply(b, constant(2))))
    rows = body.result(op.unsqueeze(op.subtract(a, b), op.constant([0])))
    loop = loop_over(body, op.constant(3))
    loop.set_merged_input(a, x.output(0), both.output(0))
    loop.set_merged_input(b, y.output(0), both.output(0))
    return [loop.get_iter_value(both.output(0), -1), joined(loop, rows)]


def test_one_result_may_feed_two_parameters(tmp_path):
    last, rows = ours(model_of(feeding_two, S, -S), tmp_path, S, -S)
    np.testing.assert_array_equal(last, -9 * S)
    np.testing.assert_array_equal(rows, [2 * S, 0 * S, 0 * S])


def test_the_one_parameter_without_an_entry_is_the_iteration_number(tmp_path):
    model, *values = counting(4)
    entry = re.search(r'<input external_port_id="-1"[^>]*purpose="current_iteration"[^>]*/>', saved(model, tmp_path).read_text())
    path = edited(model, tmp_path, (entry[0], ""))
    for mine, theirs in zip(prepare(path).run(list(values)), openvino_run(model, *values), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def recurrent(x, h, c, *, backwards=False):
    """An LSTM over axis 1 as exporters write it: cut, squeezed, one cell, put together again."""
    weights = [op.constant(np.float32(np.sin(np.arange(np.prod(shape)))).reshape(shape)) for shape in ((8, 3), (8, 2), (8,))]
    body = Body()
    part, hidden, cell = body.parameter([2, 1, 3]), body.parameter([2, 2]), body.parameter([2, 2])
    made = op.lstm_cell(op.squeeze(part, op.constant([1])), hidden, cell, *weights, 2)
    next_hidden, next_cell = body.result(made.output(0)), body.result(made.output(1))
    row = body.result(op.unsqueeze(made.output(0), op.constant([1])))
    loop = op.tensor_iterator()
    loop.set_function(body.model())
    how = {"start": -1, "end": 0, "stride": -1} if backwards else {}
    slices_of(loop, part, x, axis=1, **how)
    loop.set_merged_input(hidden, h.output(0), next_hidden.output(0))
    loop.set_merged_input(cell, c.output(0), next_cell.output(0))
    return [
        joined(loop, row, axis=1, **how),
        loop.get_iter_value(next_hidden.output(0), -1),
        loop.get_iter_value(next_cell.output(0), -1),
    ]


SEQUENCE = np.float32(np.cos(np.arange(30))).reshape(2, 5, 3)
STATES = np.float32([[0.1, -0.2], [0.3, 0.4]]), np.float32([[0.5, 0.6], [-0.7, 0.8]])


@pytest.mark.parametrize("backwards", [False, True])
def test_a_recurrent_network_gives_what_openvino_and_its_sequence_operation_give(backwards, tmp_path):
    model = model_of(lambda *values: recurrent(*values, backwards=backwards), SEQUENCE, *STATES)
    assert_as_openvino(model, tmp_path, SEQUENCE, *STATES)

    def whole(x, h, c):
        shapes = ((8, 3), (8, 2), (8,))
        weights = [op.constant(np.float32(np.sin(np.arange(np.prod(shape)))).reshape(1, *shape)) for shape in shapes]
        states = [op.unsqueeze(state, op.constant([1])) for state in (h, c)]
        lengths = op.constant(np.int32([5, 5]))
        made = op.lstm_sequence(x, *states, lengths, *weights, 2, "reverse" if backwards else "forward")
        return [op.squeeze(made.output(0), op.constant([1])).output(0)]

    (rows,) = ours(model_of(whole, SEQUENCE, *STATES), tmp_path, SEQUENCE, *STATES)
    np.testing.assert_allclose(ours(model, tmp_path, SEQUENCE, *STATES)[0], rows, rtol=1e-5, atol=1e-6)


def inner(x, count):
    body = Body()
    v = body.parameter([1, 3])
    more = body.result(op.multiply(v, constant(1.5)))
    loop = loop_over(body, count)
    loop.set_merged_input(v, x.output(0), more.output(0))
    return loop, loop.get_iter_value(more.output(0), -1)


def branch(make):
    body = Body()
    p, n = body.parameter([1, 3]), body.parameter([], np.int64)
    result = body.result(make(p, n))
    return body, p, n, result


def nested(x):
    body = Body()
    i, part = body.parameter([], np.int64), body.parameter([1, 3])
    then_body, p, n, then_result = branch(lambda p, n: inner(p, n)[1])
    else_body, q, k, else_result = branch(lambda q, k: op.subtract(q, op.convert(k, "f32")))
    choice = op.if_op(op.equal(op.mod(i, op.constant(2)), op.constant(0)).output(0))
    choice.set_then_body(then_body.model())
    choice.set_else_body(else_body.model())
    choice.set_input(part.output(0), p, q)
    choice.set_input(i.output(0), n, k)
    chosen = body.result(choice.set_output(then_result, else_result))
    loop = loop_over(body, op.constant(4), None, i)
    slices_of(loop, part, x)
    return [joined(loop, chosen)]


def test_loops_stand_in_loops_and_in_branches(tmp_path):
    (rows,) = ours(model_of(nested, X), tmp_path, X)
    np.testing.assert_allclose(rows, [X[0], X[1] - 1, X[2] * 2.25, X[3] - 3])
    assert_as_openvino(model_of(nested, X), tmp_path, X)


def test_loops_and_branches_are_the_nodes_that_they_are_elsewhere(tmp_path):
    (outer,) = prepare(saved(model_of(nested, X), tmp_path)).body.nodes
    (choice,) = (node for node in outer.loop.body.nodes if any(True for _ in node.bodies))
    assert (choice.op, choice.domain, [key for key, _ in choice.bodies]) == ("If", "", ["then_branch", "else_branch"])
    (inside,) = (node for node in choice.attrs["then_branch"].nodes if node.loop is not None)
    for node in (outer, inside):
        assert (node.op, node.domain, node.called, [*node.attrs]) == ("Loop", "", "Loop", ["loop"])


@pytest.mark.parametrize("go", [True, False])
def test_if_takes_one_of_its_branches(go, tmp_path):
    def build(condition, x, y):
        then_body, else_body = Body(), Body()
        a, b = then_body.parameter([3]), else_body.parameter([3])
        first = then_body.result(op.relu(a)), then_body.result(constant([1, 2]))
        second = else_body.result(op.negative(b)), else_body.result(constant([3, 4]))
        choice = op.if_op(condition)
        choice.set_then_body(then_body.model())
        choice.set_else_body(else_body.model())
        choice.set_input(x.output(0), a, None)
        choice.set_input(y.output(0), None, b)
        return [choice.set_output(*pair) for pair in zip(first, second, strict=True)]

    values = np.array(go), S, -S
    assert_as_openvino(model_of(build, *values), tmp_path, *values)


def loop_in_loop(x):
    inner, body = Body(), Body()
    w = inner.parameter([1, 3])
    more = inner.result(op.multiply(w, constant(1.5)))
    part = body.parameter([1, 3])
    loop = loop_over(inner, op.constant(2))
    loop.set_merged_input(w, part.output(0), more.output(0))
    row = body.result(op.add(loop.get_iter_value(more.output(0), -1), constant(1)))
    outer = loop_over(body, op.constant(4))
    slices_of(outer, part, x)
    return [joined(outer, row)]


def test_a_loop_in_a_loop_does_not_keep_the_outer_one_from_being_planned(tmp_path):
    assert_as_openvino(model_of(loop_in_loop, X), tmp_path, X)
    (node,) = prepare(saved(model_of(loop_in_loop, X), tmp_path)).body.nodes
    assert make_plan(node.loop).refusal == ""


def test_variables_keep_their_value_from_run_to_run(tmp_path):
    x = op.parameter([2], np.float32, name="x")
    start = op.multiply(x, constant(10))
    kept = op.read_value(start, "total")
    total = op.add(kept, x)
    model = openvino.Model([op.result(total)], [op.assign(total, "total")], [x], "m")
    path = saved(model, tmp_path)
    prepared = prepare(path)
    request = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    for value in ([1, 2], [3, 4], [5, 6]):
        (theirs,) = request.infer([np.float32(value)]).values()
        np.testing.assert_array_equal(prepared.run([np.float32(value)])[0], theirs)
    prepared.reset()
    np.testing.assert_array_equal(prepared.run({"x": np.float32([1, 2])})[0], [11, 22])
    np.testing.assert_array_equal(next(iter(mdf_loop.run(path, x=[1, 2]).values())), [11, 22])
