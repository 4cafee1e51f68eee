"""Loops written in JAX, exported by jax2onnx.

python benchmarks/exported/from_jax.py             all of them, into this folder
python benchmarks/exported/from_jax.py kalman      those whose name contains one of these

The loops stand in the folder ``jax_loops``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from jax_loops import LOOPS


def main(names: list[str]) -> None:
    """Export all loops, or those that are named."""
    import jax2onnx
    from saving import save

    for name, loop in LOOPS.items():
        if names and not any(part in name for part in names):
            continue
        shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in loop.inputs]
        double = any(x.dtype == np.float64 for x in loop.inputs)
        model = jax2onnx.to_onnx(loop.function, shapes, model_name=name, opset=21, enable_double_precision=double)
        save(name, model, loop.inputs, loop.results())


if __name__ == "__main__":
    main(sys.argv[1:])
