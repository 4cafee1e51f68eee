"""A loop over hidden values alone, as a scheduled graph becomes one, as an ONNX model."""

from dataclasses import replace

import numpy as np
import pytest
from converting import by_onnxruntime

from mdf_loop.convert.checked import loop_to_onnx
from mdf_loop.errors import UnsupportedOp
from mdf_loop.execute.interpret import Arguments, InterpretedLoop
from mdf_loop.ir import Body, Carried, Collected, Loop, Node, State
from mdf_loop.kernels import load_kernels
from mdf_loop.options import start_run

load_kernels()


def node(op, inputs, output, **attrs):
    return Node(op, tuple(inputs.split()), (output,), attrs, output, 1, "mdf")


BODY = Body(
    "swinging",
    ("i",),
    ("x_new", "v_new", "energy", "few"),
    (
        node("multiply", "v dt", "moved"),
        node("add", "x moved", "x_new"),
        node("multiply", "x_new dt", "pulled"),
        node("subtract", "v pulled", "v_new"),
        node("multiply", "x_new x_new", "xx"),
        node("multiply", "v_new v_new", "vv"),
        node("add", "xx vv", "energy"),
        node("add", "count one", "count_new"),
        node("less", "count_new limit", "few"),
    ),
    {"dt": 0.1, "one": 1, "limit": 20},
    opsets={"": 18, "mdf": 1},
    typed=False,
    state=(State("x", "x_new", np.array([1.0, 2.0])), State("v", "v_new", np.zeros(2)), State("count", "count_new", 0)),
)

LOOP = Loop(BODY, last=("x_new", "energy"), collected=(Collected("v_new"),), index="i", name="swing")


@pytest.mark.parametrize(("trip_count", "keep_going"), [(7, None), (None, "few"), (100, "few"), (5, "few")])
def test_a_loop_over_hidden_values_gives_the_same(trip_count, keep_going):
    loop = replace(LOOP, keep_going=keep_going)
    expected = InterpretedLoop(loop)(Arguments(trip_count, True), start_run())
    actual = by_onnxruntime(loop_to_onnx(loop, trip_count, (None, None), ("x", "energy", "speeds")), {})
    assert list(actual) == ["x", "energy", "speeds"]
    for value, wanted in zip(actual.values(), expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-12)


def test_without_an_iteration_there_are_the_first_values():
    for loop, count in ((replace(LOOP, collected=()), 0), (None, None)):
        outputs = by_onnxruntime(loop_to_onnx(loop, count, ([1.0, 2.0], 5.0), ("x", "energy")), {})
        assert (outputs["x"].tolist(), float(outputs["energy"])) == ([1, 2], 5)


@pytest.mark.parametrize(
    ("loop", "message"),
    [
        (replace(LOOP, carried=(Carried("x", "x_new"),)), "^loop 'swing' needs values from outside$"),
        (replace(LOOP, collected=(Collected("v_new", axis=1),)), "^loop 'swing' collects along other axes"),
    ],
)
def test_what_is_not_of_that_kind_is_refused(loop, message):
    with pytest.raises(UnsupportedOp, match=message):
        loop_to_onnx(loop, 3, (), ("y",))


def test_a_model_without_outputs_is_refused():
    with pytest.raises(UnsupportedOp, match=r"^a model without outputs has no ONNX model$"):
        loop_to_onnx(LOOP, 3, (), ())
