"""What is made of a constant is made once, forgotten with it, and never of what may change."""

import gc
import weakref

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mdf_loop
from mdf_loop.ops import prepared_constants as constants
from mdf_loop.ops.prepared_constants import once, unchangeable


def counted():
    """A function that makes something new, and how often it was called."""
    calls = []

    def make(x, *others):
        calls.append(others)
        return x + 1

    return make, calls


def test_it_is_made_once_of_a_constant_and_each_time_of_anything_else():
    make, calls = counted()
    weight, given = unchangeable(np.arange(4.0)), np.arange(4.0)
    first, second = once(make, weight), once(make, weight)
    assert first is second
    assert len(calls) == 1
    given.flags.writeable = False
    once(make, given), once(make, given), once(make, weight, given)
    assert len(calls) == 4
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 7


def test_further_constants_are_distinguished():
    make, calls = counted()
    weight, a, b = unchangeable(np.arange(4.0)), unchangeable(np.zeros(1)), unchangeable(np.zeros(1))
    for _ in range(2):
        for other in (a, b, None, np.int8(3), np.int16(3), np.int8(4)):
            once(make, weight, other)
    assert len(calls) == 6


def test_it_is_forgotten_with_the_constant():
    make, _ = counted()
    gc.collect()  # constants of other tests are forgotten now, not below
    before = constants._kept
    weight = unchangeable(np.arange(1000.0))
    made = weakref.ref(once(make, weight))
    once(lambda x: x, weight)  # itself, which would keep it alive
    assert constants._kept == before + 8000
    place = id(weight)
    del weight
    gc.collect()
    assert made() is None
    assert constants._kept == before
    assert place not in constants._known


def test_no_more_is_kept_than_there_is_room_for(monkeypatch):
    make, calls = counted()
    monkeypatch.setattr(constants, "MOST_BYTES", constants._kept + 100)
    weight = unchangeable(np.arange(1000.0))
    once(make, weight), once(make, weight)
    assert len(calls) == 2


def test_models_with_one_weight_in_two_places_give_their_own_results():
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((8, 8)).astype(np.float16) for _ in range(2)]
    x = rng.standard_normal((2, 8)).astype(np.float16)
    results = []
    for _ in range(12):  # until a program takes over
        for weight in weights:
            results.append((weight, _product(weight).run([x])[0]))
    for weight, found in results:
        np.testing.assert_array_equal(found, (x.astype(np.float32) @ weight.astype(np.float32)).astype(np.float16))


def _product(weight):
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT16, [2, 8])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT16, [2, 8])
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(weight, "w")])
    return mdf_loop.backend.prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
