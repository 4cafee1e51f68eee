"""What is written in primitives: functions of numpy, in terms of which kernels are traced, and operators that cannot be traced.

Each gets a builder (:mod:`mdf_loop.step.build`), the inputs and the attributes; tests compare them with numpy and the kernels.
"""

from mdf_loop.kernels import load_functions

load_functions()
