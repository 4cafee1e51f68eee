"""ONNX's node cases in JAX: what has a form there gives what the interpreter gives, what has none is refused by name.

Cases that ONNX wrote out in other operators are left out: each operator in them has cases of its own.
"""

from collections import Counter

import ml_dtypes
import numpy as np
import pytest
from jax_laws import assert_near, given_of, interpreted, numeric_cases, of_jax, prepared_case

from mdf_loop.errors import UnsupportedOp

jax = pytest.importorskip("jax", reason='jax is not installed: pip install "mdf-loop[jax]"')

WITHOUT = {
    "its results are as long as values say": "Compress NonMaxSuppression NonZero Range Unique",
    "its kernel is ONNX's own, which looks at values": (
        "Adagrad Adam CausalConvWithState DFT DeformConv FlexAttention ImageDecoder LinearAttention MelWeightMatrix Momentum "
        "RotaryEmbedding STFT"
    ),
    "its kernel looks at values, or writes into memory of numpy's": (
        "BatchNormalization Cast Dropout GRU LRN LSTM MaxPool MaxRoiPool OneHot QLinearConv QLinearMatMul QuantizeLinear "
        "ReduceLogSumExp Resize RoiAlign TensorScatter TreeEnsemble Upsample GridSample Scan Loop Attention RNN MaxUnpool Col2Im"
    ),
}
"""Operators some of whose cases have no form in JAX, and why."""

REFUSED = {op: why for why, ops in WITHOUT.items() for op in ops.split()}

MOST = 3
"""Cases of one operator."""


def _chosen():
    """The first cases of each operator."""
    seen = Counter()
    for name, case in numeric_cases().items():
        operator = case.model.graph.node[0].op_type
        seen[operator] += "_expanded" not in name
        if "_expanded" not in name and seen[operator] <= MOST:
            yield name


CASES = [*_chosen()]


@pytest.fixture(autouse=True)
def _in_64_bits():
    jax.config.update("jax_enable_x64", True)


@pytest.mark.parametrize("name", CASES)
def test_a_node_case(name):
    case = numeric_cases()[name]
    prepared = prepared_case(case)
    given = given_of(case, prepared.body)
    operators = {node.op for node in prepared.body.nodes}
    try:
        found = of_jax(jax, prepared.body, given)
    except UnsupportedOp as error:
        if operators.isdisjoint(REFUSED):
            raise
        assert any(op in str(error) for op in operators), error  # noqa: PT017
        return
    for one, other in zip(found, interpreted(prepared, case.data_sets[0][0]), strict=True):
        assert_near(one, other, *_bounds(case, np.asarray(other).dtype))


def _bounds(case, dtype):
    """Relative and absolute: those of the case, and some digits of its type, which XLA rounds at the end alone."""
    try:
        eps = float(ml_dtypes.finfo(dtype).eps)
    except ValueError:
        return 0, 0
    return max(case.rtol, 1e-5, 8 * eps), max(case.atol, 1e-6, 4 * eps)
