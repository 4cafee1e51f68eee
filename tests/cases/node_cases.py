"""ONNX's own node cases, collected once: cases that we did not write."""

from __future__ import annotations

import functools
import warnings
from collections import Counter
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

RANDOM = {
    "test_bernoulli": "draws random numbers",
    "test_bernoulli_double": "draws random numbers",
    "test_bernoulli_seed": "draws random numbers",
    "test_bernoulli_expanded": "draws random numbers",
    "test_bernoulli_double_expanded": "draws random numbers",
    "test_bernoulli_seed_expanded": "draws random numbers",
    "test_training_dropout": "draws random numbers",
    "test_training_dropout_mask": "draws random numbers",
    "test_training_dropout_default": "draws random numbers",
    "test_training_dropout_default_mask": "draws random numbers",
}
"""Cases whose numbers cannot be compared, with the reason.  Their shapes and types are compared instead."""


@functools.cache
def node_cases() -> dict[str, Any]:
    """Every node case of the installed onnx, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases = {case.name: case for case in collect_testcases(None)}
    for case in cases.values():
        for values in (values for data_set in case.data_sets for values in data_set):
            values[:] = map(_array, values)
    return cases


def _array(value: Any) -> Any:
    """Some cases hold protobufs, of types that numpy lacks."""
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def single_node_cases() -> dict[str, Any]:
    """The cases that are one node and nothing else."""
    return {name: case for name, case in node_cases().items() if len(case.model.graph.node) == 1}


def without_likes(most: int = 3, alone: bool = True) -> list[str]:
    """The names of the cases; of those with the same operators the first ones, unless they are one node and that is to be all."""
    seen, names = Counter[frozenset[str]](), []
    for name, case in node_cases().items():
        nodes = case.model.graph.node
        operators = frozenset(node.op_type for node in nodes)
        seen[operators] += 1
        if seen[operators] <= most or (alone and len(nodes) == 1):
            names.append(name)
    return names


def assert_same(actual: Any, expected: Any, rtol: float, atol: float, where: str = "output") -> None:
    """Same structure, type and shape; numbers within the tolerances."""
    if isinstance(expected, list):
        assert isinstance(actual, list), f"{where}: expected a sequence, got {type(actual).__name__}"
        assert len(actual) == len(expected), f"{where}: expected {len(expected)} elements, got {len(actual)}"
        for k, (a, e) in enumerate(zip(actual, expected, strict=True)):
            assert_same(a, e, rtol, atol, f"{where}[{k}]")
        return
    if expected is None:
        assert actual is None, f"{where}: expected an empty optional"
        return
    expected = np.asarray(expected)
    assert isinstance(actual, np.ndarray), f"{where}: expected an array, got {type(actual).__name__}"
    if expected.dtype.kind in "US":
        expected = expected.astype(object)
    assert actual.dtype == expected.dtype, f"{where}: expected {expected.dtype}, got {actual.dtype}"
    assert actual.shape == expected.shape, f"{where}: expected shape {expected.shape}, got {actual.shape}"
    if expected.dtype == object or expected.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, expected, err_msg=where)
    else:
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(actual.astype(wide), expected.astype(wide), rtol=rtol, atol=atol, err_msg=where)
