"""Loops that are put together in unusual ways, on every engine, against the same in numpy."""

import numpy as np
import onnx.parser
import pytest

from mdf_loop import backend, options
from mdf_loop.settings.engines import agreeing_engines

HEADER = '<ir_version: 10, opset_import: ["": 20]>\n'

ENDS_IN_THE_CONDITION = """g (float[n] x) => (float y, int64 k) <bool t = {1}, int64 zero = {0}, float one = {1}> {
  s = Shape (x)  n0 = Squeeze (s)
  y, k = Loop <body = b (int64 i, bool c, float p, int64 j) => (bool d, float q, int64 j2) <int64 o = {1}, float limit = {9}> {
    e = Gather (x, i)  q = Mul (p, e)  j2 = Add (j, o)  d = Less (q, limit) }> (n0, t, one, zero) }"""


def ends_in_the_condition(x):
    y, k = np.float32(1), 0
    for e in x:
        y, k = y * e, k + 1
        if not y < 9:
            break
    return y, np.int64(k)


CAPTURES_THROUGH_TWO = """g (float[2] x, float w) => (float[2] y, float[a,b,2] h)
<bool t = {1}, int64 three = {3}, int64 two = {2}> {
  y, h = Loop <body = outer (int64 i, bool c, float[2] p) => (bool c, float[2] q, float[b,2] hh) {
    q, hh = Loop <body = inner (int64 j, bool d, float[2] r) => (bool d, float[2] s, float[2] s) {
      ij = Add (i, j)  f = Cast <to = 1> (ij)  u = Mul (f, w)  v = Add (r, u)  s = Mul (v, x) }> (two, t, p) }> (three, t, x) }"""


def captures_through_two(x, w):
    y, h = x, np.zeros((3, 2, 2), np.float32)
    for i in range(3):
        for j in range(2):
            y = (y + np.float32(i + j) * w) * x
            h[i, j] = y
    return y, h


WRAPS_AROUND = """g (uint64 x) => (uint64 y, bool[k] h) <bool t = {1}, int64 n = {70}> {
  y, h = Loop <body = b (int64 i, bool c, uint64 p) => (bool c, uint64 q, bool d)
    <uint64 a = {6364136223846793005}, uint64 o = {1442695040888963407}, uint64 half = {9223372036854775808}> {
    r = Mul (p, a)  q = Add (r, o)  d = Less (q, half) }> (n, t, x) }"""


def wraps_around(x):
    y, h = int(x), []
    for _ in range(70):
        y = (y * 6364136223846793005 + 1442695040888963407) % 2**64
        h.append(y < 2**63)
    return np.uint64(y), np.array(h)


WALKS_OVER_PLACES = """g (float[3,3] x) => (float[3,3] y) <bool t = {1}, int64 n = {6}> {
  y = Loop <body = b (int64 i, bool c, float[3,3] p) => (bool c, float[3,3] q)
    <int64 three = {3}, int64[2] shape = {1, 2}, int64[1] first = {0}> {
    column = Mod (i, three)  row = Div (i, three)  a = Unsqueeze (row, first)  b = Unsqueeze (column, first)
    place = Concat <axis = 0> (a, b)  places = Reshape (place, shape)  v = GatherND (p, places)  w = Add (v, v)
    q = ScatterND <reduction = "add"> (p, places, w) }> (n, t, x) }"""


def walks_over_places(x):
    y = x.copy()
    for i in range(6):
        y[i // 3, i % 3] *= 3
    return (y,)


FALLS_IN_HALVES = """g (float[n] x) => (float[m] y) <bool t = {1}, int64 n = {2}> {
  y = Loop <body = b (int64 i, bool c, float[p] x) => (bool c, float[q] y) <int64[1] two = {2}, int64[1] one = {1}> {
    s = Shape (x)  half = Div (s, two)  k = Max (half, one)  v, at = TopK <largest = 0> (x, k)  f = Cast <to = 1> (at)
    y = Add (v, f) }> (n, t, x) }"""


def falls_in_halves(x):
    for _ in range(2):
        at = np.argsort(x, kind="stable")[: max(len(x) // 2, 1)]
        x = x[at] + at.astype(np.float32)
    return (x,)


BACKWARDS = """g (float[2,n] x, float[2] s0) => (float[2] s, float[2,n] h) {
  s, h = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1], scan_output_axes = [1],
    scan_output_directions = [1], body = b (float[2] a, float[2] e) => (float[2] b, float[2] c) {
    b = Add (a, e)  c = Mul (b, e) }> (s0, x) }"""


def backwards(x, s0):
    s, h = s0, np.zeros_like(x)
    for k in reversed(range(x.shape[1])):
        s = s + x[:, k]
        h[:, k] = s * x[:, k]
    return s, h


def floats(*numbers):
    return np.array(numbers, np.float32)


NINE = np.arange(9, dtype=np.float32).reshape(3, 3)

CASES = [
    (ENDS_IN_THE_CONDITION, ends_in_the_condition, {"x": floats(2, 2, 2, 2, 2)}),
    (ENDS_IN_THE_CONDITION, ends_in_the_condition, {"x": floats(np.nan, 2)}),
    (ENDS_IN_THE_CONDITION, ends_in_the_condition, {"x": floats()}),
    (CAPTURES_THROUGH_TWO, captures_through_two, {"x": floats(0.5, -1), "w": np.float32(0.25)}),
    (WRAPS_AROUND, wraps_around, {"x": np.uint64(1)}),
    (WRAPS_AROUND, wraps_around, {"x": np.uint64(2**64 - 1)}),
    (WALKS_OVER_PLACES, walks_over_places, {"x": NINE}),
    (FALLS_IN_HALVES, falls_in_halves, {"x": floats(5, 3, 1, 4, 2, 9)}),
    (FALLS_IN_HALVES, falls_in_halves, {"x": floats(1)}),
    (BACKWARDS, backwards, {"x": NINE[:2], "s0": floats(1, -2)}),
    (BACKWARDS, backwards, {"x": NINE[:2, :0], "s0": floats(1, -2)}),
]


@pytest.mark.filterwarnings("ignore:.*which is nan")
@pytest.mark.parametrize("engine", agreeing_engines())
@pytest.mark.parametrize(("text", "by_hand", "given"), CASES, ids=[f"{by.__name__}-{k}" for k, (_, by, _) in enumerate(CASES)])
def test_engines_give_what_numpy_gives(text, by_hand, given, engine):
    with options(engine=engine):
        prepared = backend.prepare(onnx.parser.parse_model(HEADER + text))
        for _ in range(2):  # engine auto interprets first calls
            for found, want in zip(prepared.run(given), by_hand(**given), strict=True):
                assert found.dtype == want.dtype
                np.testing.assert_array_equal(found, want)
