"""Every ONNX node case runs through ``mdf_loop.backend`` and gives the published result."""

import re

import numpy as np
import onnx.parser
import pytest
from in_groups import each
from node_cases import RANDOM, assert_same, node_cases

import mdf_loop
from mdf_loop import backend
from mdf_loop.errors import ArgumentError

EXCLUDED: dict[str, str] = {}
"""Cases that are not run, each with its reason.  The aim is none."""


@each("name", [name for name in node_cases() if name not in EXCLUDED])
def test_node_case(name):
    case = node_cases()[name]
    rep = backend.prepare(case.model)
    for inputs, expected in case.data_sets:
        results = rep.run(inputs)
        assert len(results) == len(expected)
        for k, (actual, wanted) in enumerate(zip(results, expected, strict=True)):
            if name in RANDOM:
                assert (actual.shape, actual.dtype) == (np.shape(wanted), np.asarray(wanted).dtype)
            else:
                assert_same(actual, wanted, case.rtol, case.atol, f"output {k}")


@pytest.mark.parametrize(
    ("name", "hint"), [("engine", "with mdf_loop.options(engine=...)"), ("providers", "no option 'providers'")]
)
def test_options_that_would_count_for_nothing_are_refused(name, hint):
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 18]> g (float[2] x) => (float[2] y) { y = Add (x, x) }')
    x = np.ones(2, np.float32)
    for call in (
        lambda: backend.prepare(model, **{name: "jit"}),
        lambda: backend.run_model(model, [x], **{name: "jit"}),
        lambda: backend.prepare(model).run([x], **{name: "jit"}),
    ):
        with pytest.raises(ArgumentError, match=re.escape(hint)):
            call()


DECLARED = """<ir_version: 10, opset_import: ["" : 20]> g (float[N] x, int64 k) => (float[N] y, int64 n) {
    y = Add (x, x) n = Mul (k, k) }"""


@pytest.mark.parametrize("given", [[1, 2], (1.0, 2.0), np.array([1.0, 2.0]), np.array([1, 2])], ids=repr)
def test_a_value_becomes_the_tensor_that_an_input_declares(given):
    """A list beside another was once a longer list."""
    rep = backend.prepare(onnx.parser.parse_model(DECLARED))
    for inputs in ([given, 3], {"x": given, "k": np.int32(3)}):
        for _ in range(2):
            y, n = rep.run(inputs)
            assert (y.dtype, y.tolist(), n.dtype, n.tolist()) == (np.float32, [2.0, 4.0], np.int64, 9)


@pytest.mark.parametrize(
    ("given", "said"), [([[1.0, 2.0], [3.0]], "ragged"), ("ab", "must be float32; got string"), ([1.0, None], "x")]
)
def test_a_value_that_is_no_tensor_is_refused(given, said):
    with pytest.raises(ArgumentError, match=said):
        backend.run_model(onnx.parser.parse_model(DECLARED), [given, 3])
    with pytest.raises(ArgumentError, match="must be int64; got float64"):
        backend.run_model(onnx.parser.parse_model(DECLARED), [[1.0], 1.5])


SHAPED = """<ir_version: 8, opset_import: ["": 18]>
g (float[3] x, float[n, 2] m, float[1] one, float free) => (float[3] y, float[n, 2] r) {
    z = Mul (x, one) y = Add (z, free) r = Identity (m)
}"""

GIVEN = {"x": np.ones(3), "m": np.ones((4, 2)), "one": np.ones(1), "free": 2.0}

WAYS = {
    "run": lambda model, given: mdf_loop.run(model, **given),
    "backend": lambda model, given: dict(zip("yr", backend.prepare(model).run(given), strict=True)),
    "converted": lambda model, given: mdf_loop.run(mdf_loop.convert(model), **given),
    "jax": lambda model, given: pytest.importorskip("jax") and mdf_loop.to_jax(model)(**given),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(
    ("name", "shape"), [("x", (4,)), ("x", ()), ("x", (1, 3)), ("m", (4, 3)), ("m", (2,)), ("one", (2,)), ("free", (1,))]
)
def test_an_input_has_the_shape_that_is_declared(way, name, shape):
    model = onnx.parser.parse_model(SHAPED)
    with pytest.raises(ArgumentError, match=rf"input '{name}' must be float32\[.*\]; got \w+\[{','.join(map(str, shape))}\]"):
        way(model, {**GIVEN, name: np.ones(shape)})


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_lengths_with_a_name_are_free_and_a_number_is_an_array_of_one(way):
    model = onnx.parser.parse_model(SHAPED)
    for given in ({}, {"m": np.ones((7, 2))}, {"one": 1.0}):
        found = way(model, {**GIVEN, **given})
        np.testing.assert_array_equal(found["y"], np.full(3, 3.0))
