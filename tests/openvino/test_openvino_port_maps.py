"""Port maps put together at random: a literal Python loop says what they mean, OpenVINO says so too where it is right."""

import tempfile
from pathlib import Path

import numpy as np
import openvino
import openvino.opset16 as op
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openvino_models import Body, always, constant, joined, loop_over, openvino_run, saved, slices_of

import mdf_loop
from mdf_loop.errors import IterationError
from mdf_loop.openvino import prepare

WIDTH = 2
"""Length of the axes that are not sliced."""


@st.composite
def sliced(draw, parts):
    """A sliced input: its shape, and the rows of each part in the order of the iterations."""
    part, axis, backwards = draw(st.integers(1, 3)), draw(st.integers(0, 1)), draw(st.booleans())
    before, after = draw(st.sampled_from([(0, 0)] * 6 + [(1, 0), (0, 2), (2, 1)]))
    length = before + parts * part + after
    low, high = before, length - 1 - after
    first, last = (high, low) if backwards else (low, high)
    start = first - length if draw(st.booleans()) or first == length - 1 else first
    end = last - length if draw(st.booleans()) or last == length - 1 else last
    if (start, end) in ((-length, -1), (-1, -length)):  # OpenVINO's plugin knows one way to write all rows
        start, end = (-1, 0) if backwards else (0, -1)
    rows = [list(range(low + k * part, low + (k + 1) * part)) for k in range(parts)]
    how = {"axis": axis - draw(st.sampled_from([0, 0, 0, 2])), "start": start, "end": end, "stride": -part if backwards else part}
    return {**how, "part": part, "length": length, "rows": rows[::-1] if backwards else rows, "whole": not before and not after}


@st.composite
def port_maps(draw):
    """A whole Loop or TensorIterator."""
    is_loop, parts = draw(st.booleans()), draw(st.integers(1, 4))
    inputs = draw(st.lists(sliced(parts), min_size=0 if is_loop else 1, max_size=2))
    return {
        "loop": is_loop,
        "inputs": inputs,
        "trip_count": draw(st.integers(0, parts)) if is_loop else parts,
        "stop_at": draw(st.none() | st.integers(0, 4)) if is_loop else None,
        "go": draw(st.sampled_from([True, True, True, False])) if is_loop else True,
        "index": draw(st.sampled_from([None, (np.int64, ()), (np.int32, (1,))])) if is_loop else None,
        "carried": draw(st.integers(0, 2)),
        "swapped": draw(st.booleans()),
        "invariant": draw(st.booleans()),
        "backwards": not is_loop and draw(st.booleans()),
    }


def built(how):
    """The model: outputs are carried values, then the joined first carried value or sum, then each joined part."""
    body = Body()
    count, go = op.parameter([], np.int64, name="count"), op.parameter([], bool, name="go")
    extra = op.parameter([1], np.float32, name="extra")
    index = body.parameter(how["index"][1], how["index"][0]) if how["index"] else None
    parts, outer = sliced_inputs(how, body)
    inside = body.parameter([1]) if how["invariant"] else None
    total = summed(index, parts, inside)
    carried = [body.parameter([1]) for _ in range(how["carried"])]
    # Nothing is passed on unchanged: OpenVINO does not change places right.
    nexts = [op.add(op.multiply(c, constant([2])), total) for c in carried]
    feeds = [body.result(value) for value in (nexts[::-1] if how["swapped"] else nexts)]
    kept, together = body.result(total), [body.result(op.negative(part)) for part in parts]
    loop = without_ports(how, body, count, go, index)
    for part, parameter, value in zip(how["inputs"], parts, outer, strict=True):
        slices_of(loop, parameter, value, **{k: part[k] for k in ("axis", "start", "end", "stride", "part")})
    starts = [op.parameter([1], np.float32, name=f"carried{k}") for k in range(len(carried))]
    for parameter, start, feed in zip(carried, starts, feeds, strict=True):
        loop.set_merged_input(parameter, start.output(0), feed.output(0))
    if inside is not None:
        loop.set_invariant_input(inside, extra.output(0))
    outputs = [loop.get_iter_value(feed.output(0), -1) for feed in feeds] + put_together(how, loop, kept, together)
    used = [*([count, go] if how["loop"] else []), *outer, *starts, *([extra] if how["invariant"] else [])]
    return openvino.Model(outputs, used, "port_map")


def sliced_inputs(how, body):
    """The parameters for parts, inside and outside."""
    parts, outer = [], []
    for part in how["inputs"]:
        shape = [WIDTH, WIDTH]
        shape[part["axis"]] = part["part"]
        parts.append(body.parameter(shape))
        shape[part["axis"]] = -1
        outer.append(op.parameter(shape, np.float32, name=f"sliced{len(outer)}"))
    return parts, outer


def summed(index, parts, inside):
    """The sum of all that an iteration gets."""
    total = op.reshape(op.convert(index, "f32"), op.constant([1]), False) if index is not None else constant([0])
    for part in parts:
        total = op.add(total, op.reduce_sum(part, op.constant([0, 1]), False))
    return total if inside is None else op.add(total, inside)


def without_ports(how, body, count, go, index):
    """The Loop or TensorIterator; what goes in and comes out is still to be joined."""
    if not how["loop"]:
        loop = op.tensor_iterator()
        loop.set_function(body.model())
        return loop
    stops = how["stop_at"] is not None and index is not None
    condition = body.result(op.less(index, op.constant(np.array(how["stop_at"], how["index"][0]))) if stops else always())
    return loop_over(body, count, go, index, condition)


def put_together(how, loop, kept, together):
    """Outputs that are joined: the sums, and the parts where their length allows it."""
    back = {"start": -1, "end": 0, "stride": -1} if how["backwards"] else {}
    outputs = [joined(loop, kept, **back)]
    for part, result in zip(how["inputs"], together, strict=True):
        size = part["part"]
        if not how["loop"] or size == 1:
            back = {"start": -1, "end": 0, "stride": -size} if how["backwards"] else {"stride": size}
            outputs.append(joined(loop, result, axis=part["axis"] % 2, part=size, **back))
    return outputs


def meant(how, values):
    """What the port map means, in plain Python."""
    values = list(values)
    count, go = (int(values.pop(0)), bool(values.pop(0))) if how["loop"] else (how["trip_count"], True)
    arrays = [values.pop(0) for _ in how["inputs"]]
    carried = [values.pop(0) for _ in range(how["carried"])]
    extra = values.pop(0) if how["invariant"] else np.float32([0])
    sums, parts, i = [], [[] for _ in how["inputs"]], 0
    while go and i < count:
        total = np.float32([i if how["index"] else 0])
        for k, (part, array) in enumerate(zip(how["inputs"], arrays, strict=True)):
            taken = array.take(part["rows"][i], part["axis"])
            parts[k].append(-taken)
            total = total + taken.sum()
        total = total + extra
        nexts = [2 * c + total for c in carried]
        carried = nexts[::-1] if how["swapped"] else nexts
        sums.append(total)
        go = not (how["stop_at"] is not None and how["index"]) or i < how["stop_at"]
        i += 1
    turn = -1 if how["backwards"] else 1
    results = [*carried, np.concatenate(sums[::turn]) if sums else np.zeros(0, np.float32)]
    for part, rows in zip(how["inputs"], parts, strict=True):
        if not how["loop"] or part["part"] == 1:
            empty = [WIDTH, WIDTH]
            empty[part["axis"]] = 0
            results.append(np.concatenate(rows[::turn], part["axis"]) if rows else np.zeros(empty, np.float32))
    return results, i


def values_of(how):
    """Values of the model's parameters: whole numbers, so that every order of adding gives one result."""
    rng = np.random.default_rng(7)
    values = [np.int64(how["trip_count"]), np.array(how["go"])] if how["loop"] else []
    for part in how["inputs"]:
        shape = [WIDTH, WIDTH]
        shape[part["axis"]] = part["length"]
        values.append(rng.integers(-9, 9, shape).astype(np.float32))
    return values + [rng.integers(-9, 9, 1).astype(np.float32) for _ in range(how["carried"] + how["invariant"])]


def openvino_is_right(how, iterations):
    """It reads from the wrong row, or crashes, in the other cases; see test_openvino_loops."""
    return iterations > 0 and all(part["whole"] and part["axis"] >= 0 for part in how["inputs"])


@settings(max_examples=60, deadline=None)
@given(port_maps())
def test_a_port_map_means_what_the_text_says(how):
    values = values_of(how)
    expected, iterations = meant(how, values)
    with tempfile.TemporaryDirectory() as folder:
        model = built(how)
        prepared = prepare(saved(model, Path(folder)))
    for engine in ("interpret", "numpy"):
        with mdf_loop.options(engine=engine):
            actual = prepared.run(values)
        for mine, wanted in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(mine, wanted)
            assert mine.dtype == np.float32
    if openvino_is_right(how, iterations):
        for theirs, wanted in zip(openvino_run(model, *values), expected, strict=True):
            np.testing.assert_array_equal(theirs, wanted)


@settings(max_examples=15, deadline=None)
@given(port_maps().filter(lambda how: how["loop"] and how["inputs"] and not (how["stop_at"] is not None and how["index"])))
def test_going_on_beyond_the_parts_of_any_port_map_is_refused(how):
    how = {**how, "trip_count": len(how["inputs"][0]["rows"]) + 2, "go": True}
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare(saved(built(how), Path(folder)))
    with pytest.raises(IterationError, match="a sliced input has no more parts") as caught:
        prepared.run(values_of(how))
    assert caught.value.iteration == len(how["inputs"][0]["rows"])
