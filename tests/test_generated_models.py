"""Random models with loops and branches, through MDF and back: bit for bit the same."""

import numpy as np
from converting import by_engine
from generated import cases, write
from hypothesis import HealthCheck, given, settings
from onnx import helper, numpy_helper

import mdf_loop
from mdf_loop import backend, options
from mdf_loop.readers import read
from mdf_loop.types.elements import CODES

relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def model_around(case):
    """A model with one Loop; None if the Loop has no outputs."""
    body = write(case.body)
    if len(body.output) == 1:
        return None
    captured = {name: value for name, value in case.captured.items() if name in read(body).captures}
    carried = {f"start.{k}": np.asarray(value) for k, value in enumerate(case.carried)}
    first = {"M.1": case.trip_count, "go?": case.cond}
    limits = {name: np.array(value, bool if name == "go?" else np.int64) for name, value in first.items() if value is not None}
    names = [name if value is not None else "" for name, value in first.items()]
    outputs = [f"out/{k}" for k in range(len(body.output) - 1)]
    loop = helper.make_node("Loop", [*names, *carried], outputs, name="the loop", body=body)
    inputs = {**limits, **carried}
    constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in captured.items()]
    graph = helper.make_graph(
        [loop],
        "around it",
        [helper.make_tensor_value_info(name, CODES[value.dtype], value.shape) for name, value in inputs.items()],
        [helper.make_tensor_value_info(name, _type(body.output[k + 1]), None) for k, name in enumerate(outputs)],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), inputs


def _type(value):
    return value.type.tensor_type.elem_type


@settings(relaxed, max_examples=150)
@given(cases())
def test_a_generated_model_is_the_same_in_mdf_and_after_it(case):
    made = model_around(case)
    if made is None:
        return
    model, inputs = made
    with options(obey_body_condition=True):
        expected = backend.run_model(model, inputs)
        converted = mdf_loop.convert(model)
        runs = [list(mdf_loop.run(converted, **inputs).values()), by_engine(converted, inputs)]
        runs.append(list(mdf_loop.run(mdf_loop.convert(model, body="onnx"), **inputs).values()))
    for results in runs:
        for actual, wanted in zip(results, expected, strict=True):
            np.testing.assert_array_equal(actual, wanted, strict=True)
