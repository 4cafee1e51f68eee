"""What operators compute, in primitives: beside the kernels, and tested to be the same.

Each definition gets a builder (:mod:`mdf_loop.step.build`), the inputs and the attributes of its operator.
"""

from mdf_loop.kernels import load_functions

load_functions()
