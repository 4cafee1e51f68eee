"""Every ONNX node case runs through ``mdf_loop.backend`` and gives the published result."""

import numpy as np
import pytest
from node_cases import RANDOM, assert_same, node_cases

from mdf_loop import backend

EXCLUDED: dict[str, str] = {}
"""Cases that are not run, each with its reason.  The aim is none."""


@pytest.mark.parametrize("name", [name for name in node_cases() if name not in EXCLUDED])
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
