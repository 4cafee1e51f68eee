"""Slices of a port map: how inputs are cut up and outputs put together, compared with OpenVINO where it is right."""

import numpy as np
import openvino
import openvino.opset16 as op
import pytest
from openvino_models import (
    Body,
    S,
    X,
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
from mdf_loop.errors import ArgumentError, IterationError, MalformedBody
from mdf_loop.openvino import prepare
from mdf_loop.plan.schedule import Batched, make_plan


def iterated(x, *, axis=0, back_to=None, **how):
    """A TensorIterator that carries the sum of the parts of x and puts the parts, doubled, together again."""
    part = how.get("part", 1)
    parameter = op.parameter(x.shape, np.float32)
    shape = [part if k == axis % x.ndim else size for k, size in enumerate(x.shape)]
    body = Body()
    p, v = body.parameter(shape), body.parameter(shape)
    total, doubled = body.result(op.add(p, v)), body.result(op.add(p, p))
    loop = op.tensor_iterator()
    loop.set_function(body.model())
    slices_of(loop, p, parameter, axis=axis, **how)
    loop.set_merged_input(v, constant(np.zeros(shape)).output(0), total.output(0))
    back = back_to or {"stride": part, "part": part}
    outputs = [loop.get_iter_value(total.output(0), -1), joined(loop, doubled, axis=axis, **back)]
    return openvino.Model(outputs, [parameter], "iterated")


SLICED = {
    "forwards": {},
    "backwards": {"start": -1, "end": 0, "stride": -1},
    "in twos": {"stride": 2, "part": 2},
    "in twos backwards": {"start": -1, "end": 0, "stride": -2, "part": 2},
    "along axis 1": {"axis": 1},
    "all but the last": {"end": -2},
    "all but the first, backwards": {"start": -1, "end": 1, "stride": -1},
    "backwards and back": {"start": -1, "end": 0, "stride": -1, "back_to": {"start": -1, "end": 0, "stride": -1}},
    "backwards, together along axis 1": {
        "axis": 1,
        "start": -1,
        "end": 0,
        "stride": -1,
        "back_to": {"start": -1, "end": 0, "stride": -1},
    },
}


@pytest.mark.parametrize("how", SLICED)
def test_tensor_iterator_slices_as_openvino_does(how, tmp_path):
    assert_as_openvino(iterated(X, **SLICED[how]), tmp_path, X)


FROM_THE_WRONG_PLACE = {
    "from the second row on": ({"start": 1}, [1, 2, 3]),
    "from the third last row backwards": ({"start": -2, "end": 0, "stride": -1}, [2, 1, 0]),
    "from the second row to the third": ({"start": 1, "end": -2}, [1, 2]),
}


@pytest.mark.parametrize("how", FROM_THE_WRONG_PLACE)
def test_slices_start_where_the_port_map_says(how, tmp_path):
    """OpenVINO's CPU plugin counts the iterations right and reads from the first (or last) row all the same."""
    slices, rows = FROM_THE_WRONG_PLACE[how]
    total, doubled = ours(iterated(X, **slices), tmp_path, X)
    np.testing.assert_array_equal(total, X[rows].sum(0, keepdims=True))
    np.testing.assert_array_equal(doubled, 2 * X[rows])
    assert not np.array_equal(openvino_run(iterated(X, **slices), X)[1], doubled)


def test_the_end_of_a_slice_is_part_of_it(tmp_path):
    """As in OpenVINO's shape inference; a positive end means something else to its plugin, which then refuses."""
    path = edited(iterated(X), tmp_path, ('internal_layer_id="0" start="0" end="-1"', 'internal_layer_id="0" start="1" end="2"'))
    np.testing.assert_array_equal(prepare(path).run([X])[1], 2 * X[[1, 2]])


def test_a_stride_that_is_not_the_part_is_refused(tmp_path):
    """OpenVINO accepts part_size 2 with stride 1 for inputs of unknown length and sums other rows."""
    path = edited(iterated(X, stride=2, part=2), tmp_path, ('stride="2" part_size="2"', 'stride="1" part_size="2"'))
    with pytest.raises(
        MalformedBody, match="part_size of an input is 2 and its stride 1; the stride must be as long as the part"
    ):
        prepare(path)


def test_slices_that_do_not_come_out_even_or_leave_the_input_are_refused(tmp_path):
    rows = 'internal_layer_id="0" start="0" end="-1" stride="2"'
    for start, end, message in ((0, 2, "3 rows cannot be cut into parts of 2"), (1, 4, "do not lie inside axis 0")):
        change = (rows, f'internal_layer_id="0" start="{start}" end="{end}" stride="2"')
        with pytest.raises(IterationError, match=message):
            prepare(edited(iterated(X, stride=2, part=2), tmp_path, change)).run([X])


def test_a_port_map_without_start_end_stride_and_part_size_takes_the_defaults(tmp_path):
    for model, *values in ((iterated(X), X), (summing(), np.int64(4), X)):
        path = edited(model, tmp_path, (' start="0" end="-1" stride="1" part_size="1"', ""))
        for mine, theirs in zip(prepare(path).run(list(values)), openvino_run(model, *values), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def without_slices(x):
    body = Body()
    v = body.parameter([3])
    more = body.result(op.add(v, constant(1)))
    row = body.result(op.unsqueeze(more.input_value(0), op.constant([0])))
    loop = op.tensor_iterator()
    loop.set_function(body.model())
    loop.set_merged_input(v, x.output(0), more.output(0))
    return [loop.get_iter_value(more.output(0), -1), joined(loop, row, end=5)]


def test_a_tensor_iterator_without_slices_runs_as_often_as_its_outputs_say(tmp_path):
    assert_as_openvino(model_of(without_slices, S), tmp_path, S)


def test_sliced_inputs_of_a_tensor_iterator_must_have_as_many_parts(tmp_path):
    x, y = op.parameter([-1, 3], np.float32), op.parameter([-1, 3], np.float32)
    body = Body()
    a, b = body.parameter([1, 3]), body.parameter([1, 3])
    both = body.result(op.add(a, b))
    loop = op.tensor_iterator()
    loop.set_function(body.model())
    slices_of(loop, a, x)
    slices_of(loop, b, y)
    path = saved(openvino.Model([joined(loop, both)], [x, y], "m"), tmp_path)
    np.testing.assert_array_equal(prepare(path).run([X, X])[0], 2 * X)
    with pytest.raises(IterationError, match=r"all sliced inputs must have as many parts; .* has 4, .* has 3") as caught:
        prepare(path).run([X, X[:3]])
    assert isinstance(caught.value.__cause__, ArgumentError)


def scalars(x):
    body = Body()
    i, v = body.parameter([], np.int32), body.parameter([3])
    number, total = body.result(op.multiply(i, i)), body.result(op.reduce_sum(v, op.constant([0])))
    loop = loop_over(body, op.constant(4), None, i)
    loop.set_invariant_input(v, x.output(0))
    return [joined(loop, number), joined(loop, total)]


def test_scalars_are_put_together_as_one_element_each(tmp_path):
    squares, totals = ours(model_of(scalars, S), tmp_path, S)
    np.testing.assert_array_equal(squares, [0, 1, 4, 9])
    np.testing.assert_array_equal(totals, [6, 6, 6, 6])


def test_slices_and_what_is_put_together_run_for_many_iterations_at_once(tmp_path):
    (node,) = prepare("tests/models/ov_loop.xml").body.nodes
    plan = make_plan(node.loop)
    (part,) = plan.parts
    assert isinstance(part, Batched)
    for how in SLICED.values():
        nodes = prepare(saved(iterated(X, **how), tmp_path)).body.nodes
        assert all(isinstance(part, Batched) for part in make_plan(nodes[-1].loop).parts)


# Parts that are longer than their part_size


def times(value, size, axis):
    """A value, its double and so on, one behind the other: what makes a part of so many rows."""
    return op.concat([op.multiply(value, constant([k + 1])) for k in range(size)], axis)


def repeated(value, count):
    """As many copies of a row as a value says: how long this is, no one knows before it runs."""
    return op.broadcast(value, op.concat([op.unsqueeze(count, op.constant([0])), op.constant([3])], 0))


def long_parts(size, *, kind="loop", axis=0, open_length=False, declared=1, back=False):
    """Each row of x makes a part of so many rows or columns; the port map says a part has ``declared``."""
    x, n = op.parameter([4, 3], np.float32, name="x"), op.parameter([], np.int64, name="n")
    body = Body()
    row = body.parameter([1, 3])
    count = body.parameter([], np.int64) if open_length else None
    part = body.result(repeated(row, count) if open_length else times(row, size, axis))
    if kind == "loop":
        loop = loop_over(body, op.constant(4))
    else:
        loop = op.tensor_iterator()
        loop.set_function(body.model())
    slices_of(loop, row, x)
    if open_length:
        loop.set_invariant_input(count, n.output(0))
    how = {"start": -1, "end": 0, "stride": -declared} if back else {"stride": declared}
    return openvino.Model([joined(loop, part, axis=axis, part=declared, **how)], [x, n], "long")


def parts_of(size, axis=0, open_length=False):
    """What the body makes of each row of X."""
    factors = [1] * size if open_length else range(1, size + 1)
    return [np.concatenate([np.float32(k) * X[i : i + 1] for k in factors], axis) for i in range(len(X))]


WAYS = {
    "a Loop": {},
    "a Loop, along axis 1": {"axis": 1},
    "a Loop, of a length that is not declared": {"open_length": True},
    "a TensorIterator": {"kind": "iterator"},
    "a TensorIterator, backwards": {"kind": "iterator", "back": True},
    "a TensorIterator, along axis 1, backwards": {"kind": "iterator", "back": True, "axis": 1},
    "a TensorIterator, of a length that is not declared": {"kind": "iterator", "open_length": True},
}


@pytest.mark.parametrize("engine", ["interpret", "numpy", "jit"])
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("way", WAYS)
def test_a_part_that_is_longer_than_its_part_size_is_put_there_whole(way, size, engine, tmp_path):
    how = WAYS[way]
    axis, model = how.get("axis", 0), long_parts(size, **how)
    parts = parts_of(size, axis, how.get("open_length", False))
    with mdf_loop.options(engine=engine):
        (actual,) = prepare(saved(model, tmp_path)).run([X, np.int64(size)])
    np.testing.assert_array_equal(actual, np.concatenate(parts[::-1] if how.get("back") else parts, axis))
    if how.get("kind") is None:  # OpenVINO's shapes of a Loop; its plugin refuses, or gives memory that nothing wrote to
        assert model.outputs[0].partial_shape.compatible(openvino.PartialShape(actual.shape))


@pytest.mark.parametrize("kind", ["loop", "iterator"])
def test_a_part_as_long_as_its_part_size_gives_what_openvino_gives(kind, tmp_path):
    declared = 1 if kind == "loop" else 2
    assert_as_openvino(long_parts(declared, kind=kind, declared=declared), tmp_path, X, np.int64(1))


def test_a_part_that_is_declared_shorter_than_its_part_size_is_refused(tmp_path):
    with pytest.raises(MalformedBody, match=r"declared as float32\[1,3\]; along axis 0 its part_size is 2"):
        prepare(saved(long_parts(1, kind="iterator", declared=2), tmp_path))
