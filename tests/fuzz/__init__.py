"""Fuzzing: structure-aware generators and mutators, and what has to hold whatever they come up with.

``python -m tests.fuzz --help`` from the root of a checkout says how to run it; ``tests/engines/test_fuzz.py`` runs a fixed
number of cases of each target with a fixed seed.  A case is a target's name, a seed and a number, and nothing else.
"""

import os
import sys
from pathlib import Path

for _shared in ("helpers", "cases"):
    _folder = str(Path(__file__).parents[1] / _shared)
    if _folder not in sys.path:
        sys.path.append(_folder)

os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")  # onnxruntime refuses the newest opsets without it
