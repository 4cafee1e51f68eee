"""Quantization is computed in float32 at least, whatever the type of the scale: nothing overflows or is lost on the way."""

import ml_dtypes
import numpy as np
import pytest
from node_cases import assert_same

from mdf_loop.kernels import load_kernels
from mdf_loop.ops.registry import lookup

load_kernels()

SCALES = [np.float16, ml_dtypes.bfloat16, np.float32]


@pytest.mark.parametrize("scale_type", SCALES)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32])
def test_dequantized_numbers_are_rounded_once(dtype, scale_type):
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.max, limits.max // 3, 0, 1, min(limits.max, 2049), min(limits.max, 100000)], dtype)
    scale = np.array(0.25, scale_type)
    for zero in (None, np.array(limits.max if limits.bits < 32 else 0, dtype)):
        found = lookup("DequantizeLinear", 21).run(x, scale, zero)
        centred = x.astype(np.int64) - (0 if zero is None else int(zero))
        with np.errstate(over="ignore"):
            wanted = (centred.astype(np.float32) * np.float32(0.25)).astype(scale_type)
        assert_same(found, wanted, 0, 0)


@pytest.mark.parametrize("scale_type", SCALES)
@pytest.mark.parametrize("opset", [10, 21, 23, 25])
def test_numbers_too_large_for_the_type_of_the_scale_are_divided_first(opset, scale_type):
    x = np.array([100000, -70000, 2**31 - 1, 0], np.int32)
    found = lookup("QuantizeLinear", opset).run(x, np.array(1000, scale_type), np.array(3, np.int16))
    assert_same(found, np.array([103, -67, 32767, 3], np.int16), 0 if opset < 23 or scale_type == np.float32 else 0.01, 0)


def test_before_version_23_the_quotient_is_not_rounded_to_half_precision():
    x = np.array([2049.4, 3001, -4097], np.float16)
    found = lookup("QuantizeLinear", 21).run(x, np.array(0.5, np.float16), np.array(0, np.int16))
    assert_same(found, np.rint(x.astype(np.float32) / 0.5).astype(np.int16), 0, 0)


def test_from_version_23_on_the_scale_or_the_attribute_says_the_precision():
    x, scale, zero = np.array([1500.5], np.float32), np.array(0.5, np.float16), np.array(0, np.int16)
    rounded = np.float16(np.float32(1500.5) / np.float32(scale))
    assert lookup("QuantizeLinear", 23).run(x, scale, zero)[0] == int(rounded)
    exact = np.rint(np.float32(1500.5) / np.float32(scale))
    assert lookup("QuantizeLinear", 23).run(x, scale, zero, precision=1)[0] == exact != int(rounded)
