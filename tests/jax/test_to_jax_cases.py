"""ONNX's node cases in JAX, alone and in a loop: each gives what the interpreter gives, or is refused by name.

Cases that ONNX wrote out in other operators are left out: each operator in them has cases of its own.
"""

import ml_dtypes
import numpy as np
import pytest
from jax_laws import assert_near, given_of, has_open_length, in_a_loop, interpreted, numeric_cases, of_jax, prepared_case

from mdf_loop.errors import UnsupportedOp

jax = pytest.importorskip("jax", reason='jax is not installed: pip install -e ".[jax]"')

WITHOUT = {
    "its results are as long as values say": "Compress Loop NonMaxSuppression NonZero Range Unique",
    "it has a row of values for each loop of a batch, as version 8 has it": "Scan",
    "its kernel is ONNX's own, which looks at values": "Adagrad Adam DeformConv ImageDecoder MelWeightMatrix Momentum",
    "its kernel looks at values, or writes into memory of numpy's": (
        "CumProd Dropout MaxRoiPool MaxUnpool OneHot ReduceLogSumExp Resize RoiAlign TfIdfVectorizer TreeEnsemble Upsample"
    ),
}
"""Operators some of whose cases have no form in JAX, and why."""

REFUSED = {op: why for why, ops in WITHOUT.items() for op in ops.split()}

WITHOUT_SUBNORMALS = {"test_cast_e8m0_FLOAT_to_FLOAT8E8M0": "2 ** -127 is subnormal in float32, and XLA takes it for 0"}


def _chosen():
    """By operator: a case that is computed alone, and one that is computed in a loop, another one if there is."""
    found = {}
    for name, case in numeric_cases().items():
        if "_expanded" not in name and name not in WITHOUT_SUBNORMALS:
            found.setdefault(case.model.graph.node[0].op_type, []).append(name)
    return [names[0] for names in found.values()], [names[min(1, len(names) - 1)] for names in found.values()]


ALONE, LOOPED = _chosen()


pytestmark = pytest.mark.usefixtures("in_64_bits", "compiled_quickly")


@pytest.mark.parametrize("name", ALONE)
def test_a_node_case(name):
    case = numeric_cases()[name]
    prepared = prepared_case(case)
    check(name, lambda: (prepared.body, given_of(case, prepared.body), interpreted(prepared, case.data_sets[0][0])))


@pytest.mark.parametrize("name", [name for name in LOOPED if not has_open_length(name)])
def test_a_node_case_in_a_loop(name):
    check(name, lambda: in_a_loop(name))


def check(name, make):
    """A graph gives what is wanted, or is refused in the name of an operator that is listed."""
    case, (body, given, wanted) = numeric_cases()[name], make()
    try:
        found = of_jax(jax, body, given)
    except UnsupportedOp as error:
        operators = {node.op_type for node in case.model.graph.node}
        assert not operators.isdisjoint(REFUSED), error  # noqa: PT017
        assert any(op in str(error) for op in (*operators, "Loop")), error  # noqa: PT017
        return
    for one, other in zip(found, wanted, strict=True):
        assert_near(one, other, *_bounds(case, np.asarray(other)))


def _bounds(case, wanted):
    """Relative and absolute: those of the case, and some digits of its type, which XLA rounds at the end alone."""
    try:
        eps = float(ml_dtypes.finfo(wanted.dtype).eps)
    except ValueError:
        return 0, 0
    largest = np.abs(wanted[np.isfinite(wanted)].astype(np.complex128)).max(initial=1.0)
    return max(case.rtol, 1e-5, 8 * eps), max(case.atol, 1e-6, 4 * eps * largest)
