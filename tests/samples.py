"""Inputs for kernels that ONNX has no single-node case for: (op, opset, inputs, attributes)."""

from samples_arithmetic import SAMPLES as ARITHMETIC
from samples_shaping import SAMPLES as SHAPING
from samples_linear import SAMPLES as LINEAR

SAMPLES = [*ARITHMETIC, *SHAPING, *LINEAR]
