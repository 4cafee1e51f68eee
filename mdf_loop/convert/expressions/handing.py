"""What MDF's engine does with values in front of an operator of ONNX and behind it, in operators of ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.convert.expressions.table import Emitter, Traced, lowered


@lowered("to_onnx", "from_onnx")
def _handed(emitter: Emitter, inputs: list[Traced], sample: Any) -> str:
    (value,) = inputs
    name = emitter.typed(value, np.asarray(sample).dtype)
    return emitter.shaped(name, (1,)) if value.rank == 0 and np.ndim(sample) else name


@lowered("flattened")
def _flattened(emitter: Emitter, inputs: list[Traced], sample: Any) -> str:
    return emitter.shaped(emitter.typed(inputs[0], sample.dtype), (-1,))
