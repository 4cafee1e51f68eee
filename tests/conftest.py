"""Shared fixtures."""

import os

import numpy as np
import pytest

os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")  # onnxruntime refuses the newest opsets without it
os.environ.setdefault("MDF_LOOP_CHECK", "1")  # what every pass makes of a Step is looked at


@pytest.fixture
def rng():
    """Random numbers that are the same in every run of the tests."""
    return np.random.default_rng(20)
