"""Values in other orders of memory, as Transpose gives them: kernels give what they give for values in C order."""

import numpy as np
import pytest
from in_groups import each
from node_cases import RANDOM, assert_same, single_node_cases, without_likes

import mdf_loop

ORDERS = {
    "Fortran": np.asfortranarray,
    "backwards": lambda x: x[::-1].copy()[::-1],
    "every second": lambda x: np.repeat(x, 2, 0)[::2],
}


def in_order(values, turned):
    return [turned(x) if isinstance(x, np.ndarray) and x.ndim and x.size else x for x in values]


def run(case, values, engine):
    with mdf_loop.options(engine=engine, seed=1):
        return mdf_loop.backend.run_model(case.model, values)


@each("name", [name for name in without_likes(alone=False) if name in single_node_cases() and name not in RANDOM])
def test_a_kernel_takes_values_in_every_order(name):
    case = single_node_cases()[name]
    for inputs, _ in case.data_sets:
        try:
            expected = run(case, inputs, "interpret")
        except mdf_loop.LoopError as error:
            pytest.skip(f"an operator without a kernel, or a case that is an error: {error}")
        for order, turned in ORDERS.items():
            found = run(case, in_order(inputs, turned), "interpret")
            for k, (x, y) in enumerate(zip(found, expected, strict=True)):
                assert_same(x, y, 1e-6, 1e-6, f"output {k}, {order}")
