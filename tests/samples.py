"""Inputs for kernels that ONNX has no single-node case for: (op or domain::op, opset, inputs, attributes)."""

from samples_arithmetic import SAMPLES as ARITHMETIC
from samples_expression import SAMPLES as EXPRESSION
from samples_linear import SAMPLES as LINEAR
from samples_openvino import SAMPLES as OPENVINO
from samples_shaping import SAMPLES as SHAPING

SAMPLES = [*ARITHMETIC, *SHAPING, *LINEAR, *EXPRESSION, *OPENVINO]
