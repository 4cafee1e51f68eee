"""OpenVINO models as ONNX: onnxruntime and our own backend give for them what we give for the OpenVINO model."""

import tempfile
from pathlib import Path

import numpy as np
import onnx
import openvino
import openvino.opset16 as op
import pytest
from bodies import onnxruntime_run
from hypothesis import given, settings
from openvino_models import model_of, saved

from mdf_loop import backend
from mdf_loop.convert.openvino_to_onnx import openvino_to_onnx
from mdf_loop.errors import UnsupportedOp
from mdf_loop.openvino import prepare
from tests.openvino import test_openvino_loops as loops
from tests.openvino import test_openvino_operations as operations
from tests.openvino import test_openvino_port_maps as port_maps
from tests.openvino import test_openvino_slices as parts


def assert_same_as_onnx(model, folder, *values, with_onnxruntime=True, is_checked=True):
    """Three runs of one model: as OpenVINO's file, and as ONNX in onnxruntime and in our backend."""
    path = saved(model, folder)
    written = openvino_to_onnx(path)
    if is_checked:  # the checker wants a shape of each input, of which the rank may be open
        onnx.checker.check_model(written, full_check=True)
    expected = prepare(path).run(list(values))
    names = [value.name for value in written.graph.input]
    given_values = {name: np.asarray(value) for name, value in zip(names, values, strict=True)}
    runs = [backend.run_model(written, given_values)]
    if with_onnxruntime:
        runs.append(onnxruntime_run(written, given_values))
    for results in runs:
        assert len(results) == len(expected)
        for theirs, mine in zip(results, expected, strict=True):
            assert (np.shape(theirs), np.asarray(theirs).dtype) == (mine.shape, mine.dtype)
            np.testing.assert_allclose(theirs, mine, 2e-5, 2e-5)


UNSUPPORTED = {
    "attention",
    "attention causal",
    "attention with a mask of booleans",
    "attention with mask and scale",
    "bucketize",
    "bucketize left",
    "eye",
    "gather_nd 5 in two batches",
    "pad symmetric",
    "reverse_sequence further axes",
    "roll",
    "scatter_elements_update max alone",
    "scatter_elements_update mean alone",
    "scatter_update along axis 1",
    "search_sorted",
    "search_sorted right",
    "slice_scatter",
}
"""Operations that ONNX has no operators for, as they are used in the cases."""

NOT_IN_ONNXRUNTIME = {"unique", "unique of all"}
"""It has no kernel for Unique of these types."""


@pytest.mark.parametrize("case", operations.CASES)
def test_operation_is_the_same_as_onnx(case, tmp_path):
    build, *values = operations.CASES[case]
    model = model_of(build, *values)
    if case in UNSUPPORTED:
        with pytest.raises(UnsupportedOp, match=r"model/\w+(\.\d)?: \w+ has no ONNX operator"):
            openvino_to_onnx(saved(model, tmp_path))
    else:
        assert_same_as_onnx(model, tmp_path, *values, with_onnxruntime=case not in NOT_IN_ONNXRUNTIME)


@pytest.mark.parametrize("is_rank_open", [False, True])
@pytest.mark.parametrize("case", ["abs", "reshape", "softmax", "strided_slice", "transpose", "one_hot in front"])
def test_lengths_and_ranks_may_be_left_open(case, is_rank_open, tmp_path):
    build, value = operations.CASES[case]
    shape = openvino.PartialShape.dynamic() if is_rank_open else openvino.PartialShape([-1] * value.ndim)
    parameter = op.parameter(shape, value.dtype)
    assert_same_as_onnx(openvino.Model([build(parameter)], [parameter], "model"), tmp_path, value, is_checked=not is_rank_open)


@pytest.mark.parametrize("mode", loops.MODES)
def test_the_modes_of_a_loop_are_the_same_as_onnx(mode, tmp_path):
    trip_count, go, stop_at, _ = loops.MODES[mode]
    model, *values = loops.counting(trip_count, go, stop_at=stop_at)
    assert_same_as_onnx(model, tmp_path, *values)


@pytest.mark.parametrize("how", parts.SLICED | {key: slices for key, (slices, _) in parts.FROM_THE_WRONG_PLACE.items()})
def test_slices_are_the_same_as_onnx(how, tmp_path):
    slices = parts.SLICED.get(how) or parts.FROM_THE_WRONG_PLACE.get(how, [{}])[0]
    assert_same_as_onnx(parts.iterated(loops.X, **slices), tmp_path, loops.X)


LOOPS = {
    "nested, with branches": (loops.nested, loops.X),
    "a loop in a loop": (loops.loop_in_loop, loops.X),
    "scalars put together": (parts.scalars, loops.S),
    "a last value": (loops.squared, np.int64(2), loops.S),
    "invariant": (loops.invariant, loops.S, np.float32(0.5)),
    "changing places": (loops.swapping, loops.S, -loops.S),
    "one result for two": (loops.feeding_two, loops.S, -loops.S),
    "a recurrent network": (loops.recurrent, loops.SEQUENCE, *loops.STATES),
    "without slices": (parts.without_slices, loops.S),
}


@pytest.mark.parametrize("what", LOOPS)
def test_loop_is_the_same_as_onnx(what, tmp_path):
    build, *values = LOOPS[what]
    assert_same_as_onnx(model_of(build, *values), tmp_path, *values)


@pytest.mark.parametrize(("dtype", "shape"), [(np.int32, ()), (np.int32, (1,)), (np.int64, (1,))])
def test_types_and_shapes_of_numbers_are_the_same_as_onnx(dtype, shape, tmp_path):
    model, *values = loops.counting([3], dtype=np.int32, index_dtype=dtype, index_shape=shape)
    assert_same_as_onnx(model, tmp_path, *values)


@settings(max_examples=30, deadline=None)
@given(port_maps.port_maps())
def test_any_port_map_is_the_same_as_onnx(how):
    with tempfile.TemporaryDirectory() as folder:
        assert_same_as_onnx(port_maps.built(how), Path(folder), *port_maps.values_of(how))


def test_a_trip_count_beyond_the_slices_is_refused_there_too(tmp_path):
    written = openvino_to_onnx(saved(loops.summing(), tmp_path))
    assert backend.run_model(written, [np.int64(4), loops.X])[1].shape == (4, 3)
    for run in (lambda *values: backend.run_model(written, values), lambda m, x: onnxruntime_run(written, {"count": m, "x": x})):
        with pytest.raises(Exception, match=r"(?i)index|indices|out of bounds"):
            run(np.int64(6), loops.X)


def test_a_model_with_variables_is_not_an_onnx_model(tmp_path):
    x = op.parameter([2], np.float32)
    kept = op.read_value(x, "total")
    model = openvino.Model([op.result(kept)], [op.assign(op.add(kept, x), "total")], [x], "m")
    with pytest.raises(UnsupportedOp, match=r"the model keeps values from run to run \(total\), which ONNX models cannot"):
        openvino_to_onnx(saved(model, tmp_path))
