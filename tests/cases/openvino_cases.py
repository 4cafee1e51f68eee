"""Single operations of OpenVINO with inputs: what makes the model, and what it is given."""

import numpy as np
import openvino.opset1 as op1
import openvino.opset3 as op3
import openvino.opset4 as op4
import openvino.opset5 as op5
import openvino.opset7 as op7
import openvino.opset8 as op8
import openvino.opset12 as op12
import openvino.opset15 as op15
import openvino.opset16 as op

rng = np.random.default_rng(4)


def c(value, dtype=np.int64):
    """A constant."""
    return op.constant(np.asarray(value, dtype))


def f(*shape):
    """float32 between -2 and 2, no two the same."""
    size = int(np.prod(shape))
    return np.float32(rng.permutation(size) * 4 / max(size, 1) - 2 + 0.1).reshape(shape)


def i(*shape, low=-5, high=6):
    return rng.integers(low, high, shape).astype(np.int32)


def b(*shape):
    return rng.integers(0, 2, shape).astype(bool)


def w(*shape):
    """Weights."""
    return op.constant(f(*shape) / 2)


X, Y, ROW, UNIT, ABOVE = (
    f(3, 4),
    f(3, 4) * np.float32(1.37),
    f(4) * np.float32(1.37),
    np.float32(f(3, 4) / 4),
    np.float32(f(3, 4) + 4),
)
N, POSITIVE = i(3, 4), i(3, 4, low=1, high=5)
ODD = np.float32([1.5, -np.inf, np.inf, np.nan, 0, -0.0])
HALVES = np.float32([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.7])

OF_ONE = {
    "abs": X,
    "acos": UNIT,
    "acosh": ABOVE,
    "asin": UNIT,
    "asinh": X,
    "atan": X,
    "atanh": UNIT,
    "ceiling": X,
    "cos": X,
    "cosh": X,
    "erf": X,
    "exp": X,
    "floor": X,
    "hsigmoid": X * 3,
    "hswish": X * 3,
    "is_finite": ODD,
    "is_inf": ODD,
    "is_nan": ODD,
    "log": ABOVE,
    "logical_not": b(3, 4),
    "mish": X,
    "negative": X,
    "relu": X,
    "sigmoid": X,
    "sign": X,
    "sin": X,
    "sinh": X,
    "softplus": X,
    "softsign": X,
    "sqrt": ABOVE,
    "tan": X,
    "tanh": X,
}

CASES = {name: (lambda x, name=name: getattr(op, name)(x), value) for name, value in OF_ONE.items()}
CASES |= {
    f"{name} {what}": (lambda x, y, name=name: getattr(op, name)(x, y), *values)
    for name in ("add", "subtract", "multiply", "maximum", "minimum", "squared_difference", "mod", "floor_mod")
    for what, values in {"f32": (X, Y), "row": (X, ROW), "i32": (N, POSITIVE)}.items()
}
CASES |= {
    f"{name} {what}": (lambda x, y, name=name: getattr(op, name)(x, y), *values)
    for name in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
    for what, values in {"f32": (X, ROW), "i32": (N, POSITIVE)}.items()
}
CASES |= {
    f"{name}": (lambda x, y, name=name: getattr(op, name)(x, y), b(3, 4), b(4))
    for name in ("logical_and", "logical_or", "logical_xor")
}
CASES |= {
    f"{name}": (lambda x, y, name=name: getattr(op, name)(x, y), POSITIVE, i(4, low=1, high=5))
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift")
}
CASES |= {
    f"{name} keep_dims {keep} axes {axes}": (lambda x, n=name, k=keep, a=axes: getattr(op, n)(x, c(a), k), value)
    for name, value in {
        "reduce_sum": f(2, 3, 4),
        "reduce_mean": f(2, 3, 4),
        "reduce_max": f(2, 3, 4),
        "reduce_min": f(2, 3, 4),
        "reduce_prod": f(2, 3, 4),
        "reduce_l1": f(2, 3, 4),
        "reduce_l2": f(2, 3, 4),
        "reduce_logical_and": b(2, 3, 4),
        "reduce_logical_or": b(2, 3, 4),
    }.items()
    for keep, axes in ((True, [1]), (False, [0, -1]))
}
CASES |= {
    "add without broadcasting": (lambda x, y: op.add(x, y, auto_broadcast="NONE"), X, Y),
    "add of a scalar": (lambda x: op.add(x, c(1.5, np.float32)), X),
    "bitwise_not": (lambda x: op.bitwise_not(x), N),
    "clamp": (lambda x: op.clamp(x, -0.5, 1.25), X),
    "clamp i32": (lambda x: op.clamp(x, -2.0, 3.0), N),
    "convert to i32": (lambda x: op.convert(x, "i32"), X),
    "convert to boolean": (lambda x: op.convert(x, "boolean"), np.float32([0, 0.5, -2])),
    "convert to f32": (lambda x: op.convert(x, "f32"), N),
    "convert_like": (lambda x: op.convert_like(x, c(1, np.int32)), X),
    "convert_promote_types": (lambda x, y: op.convert_promote_types(x, y, True), N, X),
    "divide": (lambda x, y: op.divide(x, y), X, ROW),
    "divide cut off": (lambda x, y: op.divide(x, y, auto_broadcast="NUMPY"), i(3, low=0), i(3, low=1)),
    "elu": (lambda x: op.elu(x, 0.7), X),
    "gelu erf": (lambda x: op.gelu(x, "erf"), X),
    "gelu tanh": (lambda x: op.gelu(x, "tanh"), X),
    "hard_sigmoid": (lambda x: op.hard_sigmoid(x, c(0.3, np.float32), c(0.4, np.float32)), X),
    "identity": (lambda x: op.identity(x), X),
    "is_inf negative only": (lambda x: op.is_inf(x, {"detect_positive": False}), ODD),
    "power": (lambda x, y: op.power(x, y), ABOVE, ROW),
    "prelu": (lambda x: op.prelu(x, c([0.2], np.float32)), X),
    "prelu by channel": (lambda x: op.prelu(x, c([0.1, 0.2, 0.3], np.float32)), f(2, 3, 4)),
    "round to even": (lambda x: op.round(x, "half_to_even"), HALVES),
    "round away": (lambda x: op.round(x, "half_away_from_zero"), HALVES),
    "select": (lambda q, x, y: op.select(q, x, y), b(3, 4), X, ROW),
    "selu": (lambda x: op.selu(x, c(1.67, np.float32), c(1.05, np.float32)), X),
    "swish": (lambda x: op.swish(x), X),
    "swish with beta": (lambda x: op.swish(x, c(1.5, np.float32)), X),
    # order and running
    "cum_sum": (lambda x: op.cum_sum(x, c(1)), X),
    "cum_sum exclusive backwards": (lambda x: op.cum_sum(x, c(-1), True, True), X),
    "softmax": (lambda x: op.softmax(x, -1), X),
    "softmax 1": (lambda x: op1.softmax(x, 1), f(2, 3, 4)),
    "log_softmax": (lambda x: op.log_softmax(x, 1), X),
    "top_k": (lambda x: op.topk(x, c(2), 1, "max", "value"), X),
    "top_k smallest by place": (lambda x: op.topk(x, c(2), 1, "min", "index", "i64"), X),
    "top_k 3": (lambda x: op3.topk(x, c(3), -1, "max", "value"), X),
    "non_zero": (lambda x: op.non_zero(x, "i32"), N),
    "unique": (lambda x: op.unique(x, c(0), True, "i32"), i(6)),
    "unique of all": (lambda x: op.unique(x), i(3, 3)),
    "bucketize": (lambda x: op.bucketize(x, c([-1, 0, 1], np.float32), "i32"), X),
    "bucketize left": (lambda x: op.bucketize(x, c([-1, 0, 1]), "i32", False), i(6)),
    "search_sorted": (lambda x: op.search_sorted(c([[1, 2, 4], [0, 3, 3]], np.float32), x), np.float32([[2, 9], [3, -1]])),
    "search_sorted right": (lambda x: op.search_sorted(c([1, 2, 4], np.float32), x, True), np.float32([2, 9, 0])),
    # shapes
    "reshape": (lambda x: op.reshape(x, c([0, -1, 2]), True), X),
    "reshape without zeros": (lambda x: op.reshape(x, c([2, 6]), False), X),
    "squeeze": (lambda x: op.squeeze(x, c([0, -1])), f(1, 3, 1)),
    "squeeze all": (lambda x: op.squeeze(x), f(1, 3, 1)),
    "squeeze 15": (lambda x: op15.squeeze(x, c([0, 1]), True), f(1, 3, 1)),
    "unsqueeze": (lambda x: op.unsqueeze(x, c([0, -1])), X),
    "transpose": (lambda x: op.transpose(x, c([2, 0, 1])), f(2, 3, 4)),
    "transpose all": (lambda x: op.transpose(x, op.constant(np.zeros(0, np.int64))), f(2, 3, 4)),
    "shape_of": (lambda x: op.shape_of(x), X),
    "shape_of i32": (lambda x: op.shape_of(x, "i32"), X),
    "broadcast": (lambda x: op.broadcast(x, c([2, 3, 4])), ROW),
    "broadcast both ways": (lambda x: op.broadcast(x, c([3, 1]), broadcast_spec="BIDIRECTIONAL"), f(1, 4)),
    "broadcast explicitly": (lambda x: op.broadcast(x, c([2, 3, 4]), c([1]), "EXPLICIT"), f(3)),
    "concat": (lambda x, y: op.concat([x, y], 1), X, Y),
    "split": (lambda x: op.split(x, c(1), 2), X),
    "variadic_split": (lambda x: op.variadic_split(x, c(1), c([1, 3])), X),
    "variadic_split with the rest": (lambda x: op.variadic_split(x, c(1), c([-1, 1])), X),
    "tile": (lambda x: op.tile(x, c([2, 1])), X),
    "tile fewer": (lambda x: op.tile(x, c([2])), X),
    "tile more": (lambda x: op.tile(x, c([2, 1, 2])), X),
    "range": (lambda x: op.range(c(1), x, c(2), "i32"), np.int32(7)),
    "range f32": (lambda x: op.range(c(0.5, np.float32), x, c(0.25, np.float32), "f32"), np.float32(2)),
    "pad": (lambda x: op.pad(x, c([1, 0]), c([0, 2]), "constant", c(7, np.float32)), X),
    "pad edge": (lambda x: op.pad(x, c([1, 0]), c([0, 2]), "edge"), X),
    "pad reflect": (lambda x: op.pad(x, c([1, 0]), c([0, 2]), "reflect"), X),
    "pad symmetric": (lambda x: op.pad(x, c([1, 0]), c([0, 2]), "symmetric"), X),
    "pad negative": (lambda x: op12.pad(x, c([-1, 1]), c([0, -1]), "constant"), X),
    "roll": (lambda x: op.roll(x, c([1, -2]), c([0, 1])), X),
    "depth_to_space": (lambda x: op.depth_to_space(x, "blocks_first", 2), f(1, 8, 2, 3)),
    "depth_to_space depth first": (lambda x: op.depth_to_space(x, "depth_first", 2), f(1, 8, 2, 3)),
    "space_to_depth": (lambda x: op.space_to_depth(x, "blocks_first", 2), f(1, 2, 4, 6)),
    "space_to_depth depth first": (lambda x: op.space_to_depth(x, "depth_first", 2), f(1, 2, 4, 6)),
    "depth_to_space of 3 axes": (lambda x: op.depth_to_space(x, "blocks_first", 2), f(1, 8, 2, 3, 1)),
    "space_to_depth of 3 axes": (lambda x: op.space_to_depth(x, "blocks_first", 2), f(1, 2, 4, 6, 2)),
    "shuffle_channels": (lambda x: op.shuffle_channels(x, 1, 2), f(1, 4, 3)),
    "eye": (lambda x: op.eye(x, c(4), c(1), "f32"), np.int32(3)),
    # places
    "gather": (lambda x: op.gather(x, c([2, 0, -1]), c(0)), X),
    "gather in batches": (lambda x, k: op.gather(x, k, c(1), 1), X, i(3, 2, low=0, high=4)),
    "gather 1": (lambda x: op1.gather(x, c([2, 0]), c(1)), X),
    "gather 7": (lambda x: op7.gather(x, c([2, 0]), c(1)), X),
    "gather_elements": (lambda x: op.gather_elements(x, c([[0, 1, 3, 2]] * 3), 1), X),
    "gather_nd": (lambda x: op.gather_nd(x, c([[0, 1], [2, 3]])), X),
    "gather_nd in batches": (lambda x: op8.gather_nd(x, c([[1], [2], [0]]), 1), X),
    "gather_nd 5 in two batches": (lambda x: op5.gather_nd(x, c([[[1], [0]], [[3], [2]]]), 2), f(2, 2, 4)),
    "scatter_update": (lambda x, u: op.scatter_update(x, c([2, 0]), u, c(0)), X, f(2, 4)),
    "scatter_update along axis 1": (lambda x, u: op.scatter_update(x, c([2, 0]), u, c(1)), X, f(3, 2)),
    "scatter_elements_update": (lambda x, u: op.scatter_elements_update(x, c([[2, 0, 1, 0]]), u, c(0)), X, f(1, 4)),
    "scatter_elements_update sum": (
        lambda x, u: op12.scatter_elements_update(x, c([[2, 0, 1, 0]] * 2), u, c(0), "sum"),
        X,
        f(2, 4),
    ),
    "scatter_elements_update mean alone": (
        lambda x, u: op12.scatter_elements_update(x, c([[2, 0, 1, 0]] * 2), u, c(0), "mean", False),
        X,
        f(2, 4),
    ),
    "scatter_elements_update max alone": (
        lambda x, u: op12.scatter_elements_update(x, c([[2, 0, 1, 0]] * 2), u, c(0), "max", False),
        X,
        f(2, 4),
    ),
    "scatter_nd_update": (lambda x, u: op4.scatter_nd_update(x, c([[0], [2]]), u), X, f(2, 4)),
    "scatter_nd_update sub": (lambda x, u: op15.scatter_nd_update(x, c([[0], [2]]), u, "sub"), X, f(2, 4)),
    "slice": (lambda x: op.slice(x, c([0, -1]), c([3, -4]), c([2, -1]), c([0, 1])), X),
    "slice all axes": (lambda x: op.slice(x, c([1, 1]), c([3, 99]), c([1, 2])), X),
    "strided_slice": (lambda x: op.strided_slice(x, c([0, 1]), c([2, 3]), c([1, 1]), [0, 0], [0, 0]), X),
    "strided_slice backwards": (lambda x: op.strided_slice(x, c([0, 0]), c([0, 0]), c([1, -2]), [1, 1], [1, 1]), X),
    "strided_slice new axis": (
        lambda x: op.strided_slice(x, c([0, 1]), c([0, 3]), c([1, 1]), [0, 0], [0, 0], [1, 0], [0, 0], [0, 0]),
        X,
    ),
    "strided_slice single": (
        lambda x: op.strided_slice(x, c([-1, 1]), c([0, 3]), c([1, 1]), [0, 0], [0, 0], [0, 0], [1, 0], [0, 0]),
        X,
    ),
    "strided_slice ellipsis": (
        lambda x: op.strided_slice(x, c([0, 1]), c([0, 3]), c([1, 1]), [0, 0], [0, 0], [0, 0], [0, 0], [1, 0]),
        f(2, 3, 4),
    ),
    "strided_slice ellipsis, new and single": (
        lambda x: op.strided_slice(
            x, c([1, 0, 0, 1]), c([2, 0, 0, 3]), c([1, 1, 1, 2]), [0] * 4, [0] * 4, [0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0]
        ),
        f(2, 3, 4),
    ),
    "slice_scatter": (lambda x, u: op.slice_scatter(x, u, c([1]), c([4]), c([2]), c([1])), X, f(3, 2)),
    "one_hot": (lambda k: op.one_hot(k, c(3), c(2, np.float32), c(-1, np.float32), -1), np.int32([0, 2, 3])),
    "one_hot in front": (lambda k: op.one_hot(k, c(3), c(2, np.float32), c(-1, np.float32), 0), np.int32([[0, 2], [1, 1]])),
    "one_hot of negative indices": (lambda k: op.one_hot(k, c(3), c(2), c(5), 0), np.int64([0, -1, -3, -4, 3])),
    "one_hot from the end": (lambda k: op.one_hot(k, c(3), c(2), c(5), 0, "normalize"), np.int64([0, -1, -3, -4, 3])),
    "reverse_sequence": (lambda x: op.reverse_sequence(x, c([1, 3, 4], np.int32), 0, 1), X),
    "reverse_sequence further axes": (lambda x: op.reverse_sequence(x, c([1, 3], np.int32), 0, 2), f(2, 2, 4)),
    # networks
    "matmul": (lambda x, y: op.matmul(x, y, False, False), f(2, 3, 4), f(4, 5)),
    "matmul transposed": (lambda x, y: op.matmul(x, y, True, True), f(2, 4, 3), f(5, 4)),
    "matmul of vectors": (lambda x, y: op.matmul(x, y, True, True), f(4), f(4)),
    "einsum": (lambda x, y: op.einsum([x, y], "bi,bj->bij"), X, f(3, 2)),
    "convolution": (lambda x, w: op.convolution(x, w, [1, 1], [1, 0], [0, 1], [1, 1]), f(1, 2, 5, 5), f(3, 2, 3, 3)),
    "convolution same": (
        lambda x, w: op.convolution(x, w, [2], [0], [0], [1], "same_upper"),
        f(1, 2, 7),
        f(3, 2, 3),
    ),
    "group_convolution": (lambda x, w: op.group_convolution(x, w, [1], [1], [1], [1]), f(1, 4, 7), f(2, 3, 2, 3)),
    "convolution_backprop_data": (
        lambda x, k: op.convolution_backprop_data(x, k, [2], None, [1], [0], [1], None, [1]),
        f(1, 2, 5),
        f(2, 3, 3),
    ),
    "lrn": (lambda x: op1.lrn(x, c([1]), 0.3, 0.75, 1.0, 3), f(1, 5, 2, 2)),
    "attention": (lambda q, k, v: op.scaled_dot_product_attention(q, k, v), f(2, 3, 4), f(2, 5, 4), f(2, 5, 6)),
    "attention causal": (
        lambda q, k, v: op.scaled_dot_product_attention(q, k, v, causal=True),
        f(2, 3, 4),
        f(2, 5, 4),
        f(2, 5, 6),
    ),
    "attention with mask and scale": (
        lambda q, k, v, m: op.scaled_dot_product_attention(q, k, v, m, c(0.3, np.float32)),
        f(2, 3, 4),
        f(2, 5, 4),
        f(2, 5, 6),
        f(3, 5),
    ),
    "attention with a mask of booleans": (
        lambda q, k, v, m: op.scaled_dot_product_attention(q, k, v, m),
        f(2, 3, 4),
        f(2, 5, 4),
        f(2, 5, 6),
        np.tri(3, 5, 1, bool),
    ),
    "max_pool": (lambda x: op.max_pool(x, [2, 2], [1, 1], [0, 0], [0, 0], [3, 3]), f(1, 2, 6, 6)),
    "max_pool 1": (lambda x: op1.max_pool(x, [2], [0], [1], [3], "ceil"), f(1, 2, 7)),
    "avg_pool": (lambda x: op1.avg_pool(x, [2], [1], [1], [3], True), f(1, 2, 7)),
    "avg_pool with padding": (lambda x: op1.avg_pool(x, [2], [1], [1], [3], False), f(1, 2, 7)),
    "batch_norm_inference": (
        lambda x: op5.batch_norm_inference(x, *(c(v, np.float32) for v in ([1, 2], [0, 1], [0.5, 1], [2, 3])), 1e-3),
        f(3, 2),
    ),
    "batch_norm_inference 1": (
        lambda x: op1.batch_norm_inference(x, *(c(v, np.float32) for v in ([1, 2], [0, 1], [0.5, 1], [2, 3])), 1e-3),
        f(3, 2),
    ),
    "mvn": (lambda x: op.mvn(x, c([1]), True, 1e-5, "inside_sqrt"), X),
    "mvn outside": (lambda x: op.mvn(x, c([1]), True, 1e-2, "outside_sqrt"), X),
    "mvn centred": (lambda x: op.mvn(x, c([0, 1]), False, 1e-5, "inside_sqrt"), X),
    "normalize_l2": (lambda x: op.normalize_l2(x, c([1]), 1e-3, "add"), X),
    "normalize_l2 max": (lambda x: op.normalize_l2(x, c([1]), 4.0, "max"), X),
    "group_normalization": (
        lambda x: op.group_normalization(x, c([1, 2, 3, 4], np.float32), c([0, 1, 0, 1], np.float32), 2, 1e-4),
        f(2, 4, 3),
    ),
    "fake_quantize": (
        lambda x: op.fake_quantize(x, *(c(v, np.float32) for v in (-1, 1.5, -2, 3)), 5),
        X,
    ),
    # recurrent
    "rnn_cell": (
        lambda x, h: op.rnn_cell(x, h, w(3, 4), w(3, 3), w(3), 3, ["tanh"], [], []),
        f(2, 4),
        f(2, 3),
    ),
    "gru_cell": (
        lambda x, h: op.gru_cell(x, h, w(9, 4), w(9, 3), w(9), 3),
        f(2, 4),
        f(2, 3),
    ),
    "gru_cell linear": (
        lambda x, h: op.gru_cell(
            x,
            h,
            w(9, 4),
            w(9, 3),
            w(12),
            3,
            ["sigmoid", "tanh"],
            [],
            [],
            0.0,
            True,
        ),
        f(2, 4),
        f(2, 3),
    ),
    "lstm_cell": (
        lambda x, h, q: op.lstm_cell(x, h, q, w(12, 4), w(12, 3), w(12), 3),
        f(2, 4),
        f(2, 3),
        f(2, 3),
    ),
    "lstm_cell with weights that are inputs": (
        lambda x, h, q, a, r: op.lstm_cell(x, h, q, a, r, w(12), 3),
        f(2, 4),
        f(2, 3),
        f(2, 3),
        f(12, 4),
        f(12, 3),
    ),
    "lstm_cell clipped": (
        lambda x, h, q: op.lstm_cell(x, h, q, w(12, 4), w(12, 3), w(12), 3, ["sigmoid", "tanh", "relu"], [], [], 0.8),
        f(2, 4),
        f(2, 3),
        f(2, 3),
    ),
    "lstm_sequence": (
        lambda x, h, q: op.lstm_sequence(x, h, q, c([4, 2], np.int32), w(1, 12, 4), w(1, 12, 3), w(1, 12), 3, "reverse"),
        f(2, 4, 4),
        f(2, 1, 3),
        f(2, 1, 3),
    ),
    "lstm_sequence both ways": (
        lambda x, h, q: op.lstm_sequence(x, h, q, c([4, 2], np.int32), w(2, 12, 4), w(2, 12, 3), w(2, 12), 3, "bidirectional"),
        f(2, 4, 4),
        f(2, 2, 3),
        f(2, 2, 3),
    ),
    "gru_sequence": (
        lambda x, h: op.gru_sequence(x, h, c([4, 2], np.int32), w(1, 9, 4), w(1, 9, 3), w(1, 9), 3, "forward"),
        f(2, 4, 4),
        f(2, 1, 3),
    ),
    "rnn_sequence": (
        lambda x, h: op.rnn_sequence(x, h, c([4, 2], np.int32), w(1, 3, 4), w(1, 3, 3), w(1, 3), 3, "forward"),
        f(2, 4, 4),
        f(2, 1, 3),
    ),
}
