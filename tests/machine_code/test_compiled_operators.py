"""Operators that machine code has forms of its own for: what the kernels give, with lengths known beforehand and not."""

import logging

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import mdf_loop
from mdf_loop import options

RNG = np.random.default_rng(5)
X, WHOLE = RNG.normal(size=(4, 6)), RNG.integers(-3, 3, (4, 6))
"""What the bodies below know: some matrices, numbers and places."""

GIVEN = {
    "m": X, "w": WHOLE, "v": RNG.normal(size=9), "at": np.array([3, -1, 0]), "row": np.array([[2], [-4]]), "two": np.array([2]),
    "image": RNG.normal(size=(2, 3, 7, 6)), "filters": RNG.normal(size=(4, 3, 3, 2)), "bias": RNG.normal(size=4),
    "single": RNG.normal(size=(6, 1, 3)), "line": RNG.normal(size=(1, 6, 11)), "stack": RNG.normal(size=(2, 3, 4, 5)),
    "other": RNG.normal(size=(3, 5, 2)), "bytes": RNG.integers(0, 255, (3, 8)).astype(np.uint8), "zero": np.uint8(7),
    "weights": RNG.integers(-99, 99, (8, 5)).astype(np.int8), "scale": np.float32(0.1), "f": X.astype(np.float32),
}  # fmt: skip

BODIES = {
    "TopK": "a, b = TopK(m, twos) y = Identity(a) z = Identity(b)",
    "TopK of the smallest, of columns": "a, b = TopK<axis=0, largest=0>(w, twos) y = Identity(a) z = Identity(b)",
    "ScatterElements": "y = ScatterElements<axis=1>(w, w0, w)",
    "ScatterElements that adds": 'y = ScatterElements<axis=1, reduction="add">(m, w0, m)',
    "ScatterND": "u = Gather(m, at2) y = ScatterND(m, row, u)",
    "ScatterND that multiplies": 'u = Gather(m, at2) y = ScatterND<reduction="mul">(m, row, u)',
    "GatherElements": "y = GatherElements<axis=1>(m, w0)",
    "GatherND": "y = GatherND(m, row)",
    "CumSum": "y = CumSum(m, one) z = CumSum<reverse=1>(m, nought)",
    "ArgMax of nan, zeros and equal numbers": "y = ArgMax<axis=1, keepdims=0>(odd) z = ArgMin<axis=0>(odd)",
    "ArgMin of nan, zeros and equal numbers": "f = Cast<to=1>(odd) y = ArgMin<axis=1>(f) z = ArgMax<axis=0, keepdims=0>(f)",
    "MatMul of stacks": "y = MatMul(stack, other) t = Transpose<perm=[0,1,3,2]>(stack) z = MatMul(stack, t)",
    "Conv": "y = Conv<pads=[1,0,1,1], strides=[2,1]>(image, filters, bias) z = Conv<dilations=[2,1]>(image, filters)",
    "Conv of groups": "y = Conv<group=6, pads=[2,0]>(line, single)",
    "MaxPool": "y = MaxPool<kernel_shape=[3,2], pads=[1,1,1,0], strides=[2,2]>(image)",
    "AveragePool": "y = AveragePool<kernel_shape=[3,2], pads=[1,1,1,0]>(image)",
    "MatMulInteger": "y = MatMulInteger(bytes, weights, zero)",
    "quantised": "q = QuantizeLinear(f, scale, zero) y = DequantizeLinear(q, scale, zero)",
    "DynamicQuantizeLinear": "a, b, c = DynamicQuantizeLinear(f) y = Identity(a) z = Identity(b)",
    "InstanceNormalization": "y = InstanceNormalization(image, three, three)",
    "NonZero": "c = Less(v, half) n = NonZero(c) t = Transpose(n) g = GatherND(v, t) y = ReduceSum<keepdims=0>(g)",
    "a slice that moves": "e = Add(i1, two) s = Slice(v, i1, e) y = ReduceMax<keepdims=0>(s) z = Identity(s)",
    "Softmax of what grows": "k = Add(i1, two) s = Slice(v, zeros, k) p = Softmax(s) q = Mul(p, s) y = ReduceSum<keepdims=0>(q)",
    "nothing": "y = NonZero(none) z = Add(none, none)",
    "products of nothing": "y = MatMul(thin, wide) z = MatMul(wide, thin)",
    "outside": 'y = Einsum<equation="ij,kj->ik">(m, m) z = Det(square)',
}
EXTRA = {
    "w0": np.abs(WHOLE),
    "at2": np.array([3, 0]),
    "three": np.array([1.0, 2.0, 3.0]),
    "square": X[None, :, :4],
    "none": np.zeros((0,)),
    "odd": np.array([[-0.0, 0.0, -3, 0, -3], [3, np.nan, 1, np.nan, 3], [-np.inf] * 5, [7, 7, np.inf, 7, np.inf]]),
    "thin": np.zeros((3, 0)),
    "wide": np.zeros((0, 3)),
}


def body_of(text):
    more = " z2 = Identity(z)" if " z = " in text else ""
    outputs = "go_1, y2, z2" if more else "go_1, y2"
    return (
        f"b (int64 i, bool go) => ({outputs}) "
        "<int64 one = {1}, int64 nought = {0}, int64[1] zeros = {0}, double half = {0.5}, "
        "int64[1] ones = {1}, int64[1] twos = {2}> { go_1 = Identity(go) i1 = Reshape(i, ones) "
        f"{text} y2 = Identity(y){more} }}"
    )


def captures(body):
    from mdf_loop.readers import read

    known = {**GIVEN, **EXTRA}
    return {name: known[name] for name in read(body).captures}


@pytest.mark.parametrize("name", BODIES)
def test_operators_are_their_kernels(name, caplog):
    body = body_of(BODIES[name])
    given = captures(body)

    def call():
        found = mdf_loop.loop(4, True, body=body, **given)
        return found if isinstance(found, tuple) else (found,)

    with options(engine="interpret"):
        expected = call()
    with caplog.at_level(logging.DEBUG, "mdf_loop.execute.programs"), options(engine="jit"):
        actual = call()
    assert not [r.message for r in caplog.records if "not compiled" in r.message or "given up" in r.message]
    for a, e in zip(actual, expected, strict=True):
        assert (a.shape, a.dtype) == (e.shape, e.dtype)
        np.testing.assert_allclose(a, e, rtol=1e-5 if e.dtype == np.float32 else 1e-12, atol=1e-12)


UNREAD = {
    "Gather": "d = Gather <axis = 1> (t, i)",
    "Gather of several": "d = Gather <axis = 1> (t, places)",
    "GatherElements": "d = GatherElements <axis = 0> (t, column)",
    "GatherND": "d = GatherND (t, places)",
    "ScatterElements": "d = ScatterElements <axis = 0> (t, column, t)",
    "ScatterND": "d = ScatterND (t, column, t)",
    "read by one that nobody reads": "g = Gather <axis = 1> (t, i)\n d = Not (g)",
    "read in part": "g = Concat <axis = 0> (first, last)\n h = Gather (t, g)\n d = Slice (h, first, second)",
}


@pytest.mark.parametrize("lines", UNREAD)
def test_a_place_out_of_range_is_noticed_although_nothing_reads_it(lines):
    text = f"""
        b (int64 i, bool c, bool x) => (bool c_out, bool y) {{
            c_out = Identity (c)
            y = Identity (x)
            two = Constant <value = int64[1] {{2}}> ()
            pair = Constant <value = int64[2] {{2, 1}}> ()
            first = Constant <value = int64[1] {{0}}> ()
            second = Constant <value = int64[1] {{1}}> ()
            places = Expand (i, two)
            column = Expand (i, pair)
            last = Unsqueeze (i, first)
            {UNREAD[lines]}
        }}"""
    said = []
    for engine in ("interpret", "numpy", "jit"):
        with mdf_loop.options(engine=engine), pytest.raises(mdf_loop.LoopError) as caught:
            mdf_loop.loop(3, True, True, body=text, t=np.array([[True], [False]]))
        said.append((caught.value.iteration, str(caught.value)))
    assert said[0] == said[1] == said[2]
