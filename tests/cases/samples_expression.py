"""Samples for the kernels of expressions (domain ``mdf``)."""

import numpy as np

A = np.array([[1.5, -2.0, 0.25], [3.0, 0.5, -1.0]])
B = np.array([[2.0, 1.0, -0.5], [0.75, 2.5, 1.0]])
ROW = np.array([0.5, 2.0, -3.0])
SCALAR = np.array(0.75)
INTS = np.array([[5, 3, -2], [7, 1, 4]])
BITS = np.array([3, 1, 2])
SQUARE = np.array([[2.0, -1.0], [0.5, 3.0]])
UNIT = np.array([0.1, 0.9, 0.4])


def samples(names, *inputs, prefix="", **attrs):
    """One sample of each operator for each row of inputs."""
    return [(f"mdf::{prefix}{name}", 1, list(row), attrs) for name in names.split() for row in inputs]


SAMPLES = [
    *samples(
        "add subtract multiply divide floor_divide remainder", (A, B), (A, ROW), (ROW, SCALAR), (A, 2), (2.0, ROW), (INTS, BITS)
    ),
    *samples("less less_equal greater greater_equal equal not_equal", (A, B), (A, ROW), (ROW, 0.5), (SCALAR, ROW)),
    *samples("power", (np.abs(A), B), (ROW, 2), (2.0, ROW), (INTS, 2), (ROW, -1), (ROW, 0.5), (ROW, 1), (ROW, 3)),
    *samples("negative positive absolute", (A,), (SCALAR,), (INTS,)),
    *samples("invert", (INTS,), (A > 0,)),
    *samples("bitwise_and bitwise_or bitwise_xor right_shift left_shift", (INTS, BITS), (INTS, 1)),
    *samples("matmul", (A, B.T), (ROW, ROW), (A, ROW), (SQUARE, A), (np.stack([SQUARE, SQUARE]), SQUARE)),
    *samples("inv det", (SQUARE,), (np.stack([SQUARE, SQUARE.T]),), prefix="numpy.linalg."),
    *samples("solve", (SQUARE, ROW[:2]), (SQUARE, SQUARE), prefix="numpy.linalg."),
    *samples("and or", (SCALAR, np.array(0.0)), (np.array(True), np.array(False))),
    *samples("choose", (np.array(True), SCALAR, np.array(-1.0)), (SCALAR, np.array(1), np.array(2))),
    *samples("index", (A,), index=1),
    *samples("index", (A,), index=(slice(None), -1)),
    *samples("index", (A,), index=(..., None, slice(2))),
    *samples("getitem", (ROW, np.array(1)), (A, np.array([1, 0])), (A, np.array(-1)), index=("value", 0)),
    *samples("whole tensor", (A,), (SCALAR,)),
    *samples("array", (SCALAR, np.array(2.0), 1), (ROW, ROW + 1, ROW), shape=(3,)),
    *samples("array", (SCALAR, 1, SCALAR, 2.5), shape=(2, 2)),
    *samples("listed", (SCALAR, 1, 2.5), (ROW, SCALAR), (ROW, ROW + 1), place=1),
    *samples("min max", (SCALAR, np.array(0.5), np.array(0.75)), prefix="builtins."),
    *samples(
        "exp exp2 expm1 cbrt square reciprocal sign fabs sin cos tan arctan sinh cosh tanh arcsinh degrees radians deg2rad "
        "rad2deg floor ceil trunc rint isnan isinf isfinite signbit logical_not nan_to_num sinc round around array asarray",
        (A,),
        (SCALAR,),
        (np.array([np.nan, np.inf, -1.0]),),
        prefix="numpy.",
    ),
    *samples("log log2 log10 log1p sqrt", (np.abs(A),), prefix="numpy."),
    *samples("arcsin arccos arctanh", (UNIT,), prefix="numpy."),
    *samples("arccosh", (UNIT + 1,), prefix="numpy."),
    *samples(
        "arctan2 hypot copysign nextafter heaviside maximum minimum fmax fmin fmod logaddexp logaddexp2 logical_and logical_or "
        "logical_xor",
        (A, B),
        (A, ROW),
        (ROW, 0.5),
        prefix="numpy.",
    ),
    *samples("float_power", (np.abs(A), B), prefix="numpy."),
    *samples("erf erfc", (A,), (SCALAR,), (INTS,), prefix="scipy.special."),
    *samples("gamma gammaln", (np.abs(A) + 0.1,), (np.array(1.5),), (np.abs(INTS) + 1,), prefix="scipy.special."),
    *samples("gcd lcm", (INTS, BITS), prefix="numpy."),
    *samples("ldexp", (A, BITS), prefix="numpy."),
    *samples("clip", (A, -1.0, 1.0), (A, ROW, None), (SCALAR, ROW, 3.0), prefix="numpy."),
    *samples("where", (A > 0, A, B), (ROW > 0, A, 0.0), (np.array(True), ROW, SCALAR), prefix="numpy."),
    *samples("round around", (A,), prefix="numpy.", decimals=1),
    *samples("interp", (SCALAR, UNIT, ROW), (A, np.array([0.0, 1.0, 2.0]), ROW), prefix="numpy."),
    *samples("float16 float32 float64 bool_", (A,), (SCALAR,), prefix="numpy."),
    *samples("int8 int16 int32 int64 uint8 uint16 uint32 uint64", (np.abs(INTS),), prefix="numpy."),
    *samples(
        "sum prod mean median min max amin amax ptp all any nansum nanprod nanmean nanmin nanmax std var "
        "argmax argmin cumsum cumprod",
        (A,),
        (SCALAR,),
        (np.stack([A, B]),),
        prefix="numpy.",
    ),
    *samples("sum prod mean median min max ptp all any std var argmax argmin cumsum cumprod", (A,), prefix="numpy.", axis=0),
    *samples("sum mean max argmax cumsum sort argsort diff", (A,), prefix="numpy.", axis=-1),
    *samples("sum mean any", (A,), prefix="numpy.", axis=(0, -1), keepdims=True),
    *samples("sum max", (A,), (SCALAR,), prefix="numpy.", keepdims=True),
    *samples("sort argsort diff", (A,), prefix="numpy.", axis=0),
    *samples("dot", (A, ROW), (ROW, ROW), (SQUARE, A), prefix="numpy."),
    *samples("outer", (ROW, BITS), (A, ROW), (SCALAR, ROW), prefix="numpy."),
    *samples("reshape", (A, np.array([3, 2])), (A, np.array(-1)), prefix="numpy."),
    *samples("ravel transpose zeros_like ones_like", (A,), (SCALAR,), prefix="numpy."),
    *samples("transpose", (np.stack([A, B]),), prefix="numpy.", axes=(1, -1, 0)),
    *samples("swapaxes", (A,), prefix="numpy.", axis1=0, axis2=-1),
    *samples("moveaxis", (np.stack([A, B]),), prefix="numpy.", source=0, destination=2),
    *samples("moveaxis", (np.stack([A, B]),), prefix="numpy.", source=(0, 1), destination=(-1, -2)),
    *samples("expand_dims flip", (A,), (ROW,), prefix="numpy.", axis=0),
    *samples("squeeze", (A[None],), prefix="numpy.", axis=0),
    *samples("roll", (A, 1), (A, np.array(-1)), prefix="numpy.", axis=0),
    *samples("repeat", (A, 2), prefix="numpy.", axis=1),
    *samples("take", (A, np.array([1, 0])), prefix="numpy.", axis=0),
    *samples("tril triu", (A,), prefix="numpy.", k=-1),
    *samples("concatenate stack", (A, B), (ROW, ROW), prefix="numpy."),
    *samples("concatenate stack", (A, B, A), prefix="numpy.", axis=-1),
    *samples("array", (A,), prefix="numpy.", dtype=np.dtype("float32")),
]
"""Samples for the kernels of this family."""
