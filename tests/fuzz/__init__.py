"""Fuzzing: structure-aware generators and mutators, and what has to hold whatever they come up with.

``python -m tests.fuzz --help`` from the root of a checkout says how to run it; ``tests/test_fuzz.py`` runs a fixed number of
cases of each target with a fixed seed.  A case is a target's name, a seed and a number, and nothing else.
"""

import os
import sys
from pathlib import Path

_TESTS = str(Path(__file__).parent.parent)
if _TESTS not in sys.path:  # what the tests share lies there, flat
    sys.path.append(_TESTS)

os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")  # onnxruntime refuses the newest opsets without it
