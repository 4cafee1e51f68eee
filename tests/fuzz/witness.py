"""onnxruntime as a second witness of what a loop gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from .loops import LoopCase
from .outcome import Outcome


def check_witness(case: LoopCase, expected: list[Outcome]) -> None:
    """Not yet."""
