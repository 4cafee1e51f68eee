"""Gradients by JAX are those of differences: of every primitive that has one, and of what is built of them."""

import numpy as np
import onnx.parser
import pytest

import mdf_loop
from mdf_loop.backends.jax.jnp_templates import TEMPLATES
from mdf_loop.step.primitives import PRIMITIVES

jax = pytest.importorskip("jax", reason='jax is not installed: pip install -e ".[jax]"')
jnp = jax.numpy

from jax.test_util import check_grads  # noqa: E402

AT = {
    "acosh": (1.5, 2.7),
    "acos": (0.3, -0.6),
    "asin": (0.3, -0.6),
    "atanh": (0.3, -0.6),
    "pow": (1.3, 0.7),
    "floordiv": (1.3, 0.7),
}
"""Where a primitive is defined, if that is not at 1.3 and 0.4."""

WITHOUT = {
    **dict.fromkeys(("lt", "le", "gt", "ge", "eq", "ne", "signbit", "isfinite", "isinf", "isnan"), "a truth value"),
    **dict.fromkeys(("and_", "or_", "xor", "not_", "shl", "shr", "gcd", "lcm"), "of whole numbers"),
    **dict.fromkeys(("floor", "ceil", "rint", "trunc", "round", "whole", "sign", "floordiv"), "constant but for jumps"),
    **dict.fromkeys(("nextafter", "ldexp"), "of the digits of a number"),
}
"""Primitives that have no gradient, and why."""


pytestmark = pytest.mark.usefixtures("in_64_bits", "compiled_quickly")


def test_every_primitive_has_a_template():
    assert {name.removeprefix("math.").removeprefix("python.") for name in PRIMITIVES} <= {*TEMPLATES}


@pytest.mark.parametrize("name", sorted(name for name in TEMPLATES if name not in WITHOUT))
def test_a_primitive_has_the_gradient_of_differences(name):
    template, at = TEMPLATES[name], AT.get(name, (1.3, 0.4))
    count = _arguments(name)
    check_grads(template, [jnp.asarray(x) for x in at[:count]], order=1, modes=["fwd", "rev"], rtol=1e-5, atol=1e-6)


def _arguments(name):
    row = PRIMITIVES.get(name) or PRIMITIVES[f"math.{name}"]
    if row.ufunc is not None:
        return row.ufunc.nin
    return 2 if name in ("quotient", "fmod", "remainder") else 1


STRUCTURAL = {
    "cast": "y = Cast <to = 11> (x)",
    "concat": "y = Concat <axis = 1> (x, x)",
    "cumulative sums": "a = Constant <value_int = 1> () y = CumSum (x, a)",
    "dot": "z = Transpose (x) y = MatMul (x, z)",
    "gather": "i = Constant <value_ints = [2, 0, 2]> () y = Gather <axis = 1> (x, i)",
    "largest": "y = ReduceMax <axes = [1]> (x)",
    "least": "y = ReduceMin <axes = [1]> (x)",
    "means": "y = ReduceMean <axes = [0]> (x)",
    "products": "y = ReduceProd <axes = [1]> (x)",
    "put": "i = Constant <value = int64[1, 2] {1, 2}> () u = ReduceSum <keepdims = 0> (x) q = Unsqueeze <axes = [0]> (u) "
    "y = ScatterND (x, i, q)",
    "reshape": "s = Constant <value_ints = [2, 6]> () z = Reshape (x, s) y = Mul (z, z)",
    "select": "c = Greater (x, h) z = Mul (x, x) y = Where (c, x, z)",
    "slice": "b = Constant <value_ints = [1]> () e = Constant <value_ints = [3]> () y = Slice (x, b, e)",
    "softmax": "y = Softmax <axis = 1> (x)",
    "squares": "y = ReduceSumSquare <axes = [0]> (x)",
    "broadcast": "s = Constant <value_ints = [2, 3, 4]> () z = Expand (x, s) y = Mul (z, z)",
    "branch": "q = ReduceSum <keepdims = 0> (x) c = Greater (q, h) "
    "y = If (c) <then_branch = t () => (double a) { a = Mul (x, x) }, else_branch = e () => (double b) { b = Neg (x) }>",
}
"""What moves, chooses and puts together, in nodes of ONNX: ``x`` is [3, 4], ``h`` a number."""


@pytest.mark.parametrize("name", STRUCTURAL)
def test_what_is_structural_has_the_gradient_of_differences(name):
    text = f'<ir_version: 8, opset_import: ["": 12]> g (double[3, 4] x, double h) => (double y) {{ {STRUCTURAL[name]} }}'
    f = mdf_loop.to_jax(onnx.parser.parse_model(text))
    x = jnp.asarray(np.random.default_rng(1).permutation(12).reshape(3, 4) / 7 - 0.6)
    check_grads(lambda x: f(x=x, h=jnp.asarray(0.31))["y"], [x], order=1, modes=["fwd", "rev"], rtol=1e-5, atol=1e-6)


def test_the_weights_of_an_exported_network_have_gradients():
    f = mdf_loop.to_jax("examples/gallery/rnn.onnx", outputs=["prediction"])
    x = jnp.asarray(np.sin(np.arange(10.0))[:, None, None], np.float32)
    gradient = jax.grad(lambda x: f(x=x)["prediction"].sum())(x)
    step = np.zeros(x.shape, np.float32)
    step[3] = 1e-2
    want = (f(x=x + step)["prediction"].sum() - f(x=x - step)["prediction"].sum()) / 2e-2
    np.testing.assert_allclose(gradient[3, 0, 0], want, rtol=2e-2)
