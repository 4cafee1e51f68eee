"""Every operation of OpenVINO that is converted gives what OpenVINO's own plugin gives."""

import numpy as np
import openvino
import openvino.opset1 as op1
import openvino.opset16 as op
import pytest
from openvino_cases import CASES, ROW, X, c, f
from openvino_models import assert_as_openvino, model_of, ours, saved

from mdf_loop.errors import MalformedBody, UnsupportedOp
from mdf_loop.openvino import prepare
from mdf_loop.openvino.ir import _load_conversions
from mdf_loop.openvino.layer_nodes import CONVERSIONS


@pytest.mark.parametrize("case", CASES)
def test_operation_gives_what_openvino_gives(case, tmp_path):
    build, *values = CASES[case]
    assert_as_openvino(model_of(build, *values), tmp_path, *values, rtol=2e-5, atol=2e-5)


CONTROL = {"Loop", "TensorIterator", "If", "ReadValue", "Assign"}
"""Tested in other files."""

NEVER_THE_SAME = {"RandomUniform"}
"""It draws other numbers."""

NOT_IN_PYTHON = {"Reverse"}
"""OpenVINO's Python has no function for it; models that come from ONNX have it, see test_openvino_exported."""


def test_every_conversion_is_compared_with_openvino(tmp_path):
    _load_conversions()
    found = set()
    for build, *values in CASES.values():
        found |= {node.get_type_name() for node in model_of(build, *values).get_ops()}
    old_names = {"SoftMax": "Softmax"}
    left = {old_names.get(name, name) for name in CONVERSIONS} - found - CONTROL - NEVER_THE_SAME - NOT_IN_PYTHON
    assert {name for name in left if name.upper() not in {known.upper() for known in found}} == set()


def test_shapes_that_the_rule_of_broadcasting_does_not_allow_are_refused(tmp_path):
    path = saved(model_of(lambda x, y: op.add(x, y), X, ROW), tmp_path)
    text = path.read_text()
    path.write_text(text.replace('auto_broadcast="numpy"', 'auto_broadcast="none"'))
    with pytest.raises(
        MalformedBody, match=r"\(Add, opset1\): auto_broadcast is 'none', which shapes \[3, 4\] and \[4\] do not fit"
    ):
        prepare(path)
    path.write_text(text.replace('auto_broadcast="numpy"', 'auto_broadcast="pdpd"'))
    np.testing.assert_array_equal(prepare(path).run([X, ROW])[0], X + ROW)
    wider = saved(model_of(lambda x, y: op.add(y, x), X, ROW), tmp_path)
    wider.write_text(wider.read_text().replace('auto_broadcast="numpy"', 'auto_broadcast="pdpd"'))
    with pytest.raises(MalformedBody, match="auto_broadcast is 'pdpd'"):
        prepare(wider)
    path.write_text(text.replace('auto_broadcast="numpy"', 'auto_broadcast="other"'))
    with pytest.raises(UnsupportedOp, match="auto_broadcast is 'other'; known: numpy, none, explicit, pdpd"):
        prepare(path)


def test_whole_numbers_are_divided_with_rounding_down(tmp_path):
    """The text's m_pythondiv. OpenVINO does so when it folds constants; its CPU plugin cuts off."""
    a, d = np.int32([7, -7, 7, -7]), np.int32([2, 2, -2, -2])
    (rounded,) = ours(model_of(lambda x, y: op.divide(x, y), a, d), tmp_path, a, d)
    np.testing.assert_array_equal(rounded, [3, -4, -4, 3])
    folded = op.divide(op.constant(a), op.constant(d))
    outputs = [np.zeros(4, np.int32)]
    tensor = openvino.Tensor(outputs[0])
    assert folded.evaluate([tensor], [openvino.Tensor(a), openvino.Tensor(d)])
    np.testing.assert_array_equal(np.array(tensor.data), rounded)


def test_the_bias_of_lrn_counts(tmp_path):
    """OpenVINO's CPU plugin computes with 1."""
    x = f(1, 1, 2, 2)
    (y,) = ours(model_of(lambda v: op1.lrn(v, c([1]), 0.0, 0.5, 4.0, 1), x), tmp_path, x)
    np.testing.assert_allclose(y, x / 2, rtol=1e-6)


def test_halves_are_rounded_away_from_zero_and_nothing_below_a_half(tmp_path):
    """OpenVINO adds a half and rounds down, which makes 1 out of 0.49999997."""
    x = np.float32([0.49999997, -0.49999997, 0.5, 8388609.0])
    (y,) = ours(model_of(lambda v: op.round(v, "half_away_from_zero"), x), tmp_path, x)
    np.testing.assert_array_equal(y, [0, 0, 1, 8388609])


def test_orders_axes_and_counts_may_be_known_only_when_the_model_runs(tmp_path):
    """Most of these OpenVINO's CPU plugin refuses: their rank is not known."""

    def build(x, order, axis, times):
        first, second = op.variadic_split(x, axis, c([1, -1])).outputs()
        turned, tiled, taken = op.transpose(x, order), op.tile(x, times), op.gather(x, c([1]), axis)
        return [turned.output(0), first, second, tiled.output(0), taken.output(0)]

    x = f(2, 4)
    values = x, np.int64([1, 0]), np.int64(1), np.int64([2, 1, 2])
    names = [op.parameter([-1] * np.ndim(v), np.asarray(v).dtype, name=f"in{k}") for k, v in enumerate(values)]
    results = ours(openvino.Model(build(*names), names, "model"), tmp_path, *values)
    for mine, wanted in zip(results, [x.T, x[:, :1], x[:, 1:], np.tile(x, (2, 1, 2)), x[:, 1:2]], strict=True):
        np.testing.assert_array_equal(mine, wanted)


def test_random_numbers_repeat_with_the_seed_and_lie_between_the_bounds(tmp_path):
    import mdf_loop

    model = model_of(lambda low: op.random_uniform(c([1000]), low, c(3, np.float32), "f32"), np.float32(-1))
    prepared = prepare(saved(model, tmp_path))
    with mdf_loop.options(seed=1):
        first, again = prepared.run([np.float32(-1)])[0], prepared.run([np.float32(-1)])[0]
    assert first.dtype == np.float32
    assert first.shape == (1000,)
    assert first.min() >= -1
    assert first.max() < 3
    np.testing.assert_array_equal(first, again)
    with mdf_loop.options(seed=2):
        assert not np.array_equal(first, prepared.run([np.float32(-1)])[0])
