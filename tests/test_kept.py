"""Nothing is lost: whatever ends a run early, and wherever, leaves with the results of one moment."""

import os

import numpy as np
import pytest
from striking import Strike, strikes

import mdf_loop
from mdf_loop import backend, options
from mdf_loop.errors import LoopError, LoopInterrupted, PartialResults
from mdf_loop.options import RandomStream, random_stream
from mdf_loop.registry import KERNELS

MOST = int(os.environ.get("MDF_LOOP_STRIKES", "60"))
"""How often each call is struck."""

HEAD = '<ir_version: 10, opset_import: ["": 18, "example": 1]>'
N = 6


@pytest.fixture
def striking(monkeypatch):
    """The strike under way; bodies arm it by the operator Arm, which gives what it gets."""
    holder = {}

    @mdf_loop.kernel("Arm", domain="example")
    def arm(x):
        holder["strike"].arm()
        return x

    yield holder
    del KERNELS["example", "Arm"]


def make(holder, kind=KeyboardInterrupt):
    """Makes strikes of one kind."""

    def made(at):
        holder["strike"] = Strike(at, kind)
        return holder["strike"]

    return made


# Loops of every form: each is a function of the trip count (M or the number of rows)

PLAIN = f"""{HEAD} b (int64 i, bool c, double s, double p) => (bool c, double t, double p2, double y, int64 i) {{
  u = example.Arm (s) t = Add (u, one) p2 = Neg (p) y = Mul (t, t) }}"""

DRAWING = f"""{HEAD} b (int64 i, bool c, double[2] s) => (bool c, double[2] t, double[2] y) {{
  u = example.Arm (s) r = RandomNormal <shape = [2], dtype = 11> () t = Add (u, r) y = Mul (t, half) }}"""

NESTED = f"""{HEAD} b (int64 i, bool c, double s) => (bool c, double t, double[N] y) {{
  u = example.Arm (s)
  t, y = Loop <body = inner (int64 j, bool d, double a) => (bool d, double b, double b2) {{
    b = Add (a, one) b2 = Identity (b) }}> (three, c, u) }}"""

WHILE = f"""{HEAD} b (int64 i, bool c, double s) => (bool go, double t, double y) {{
  u = example.Arm (s) t = Add (u, one) y = Mul (t, t) go = Less (t, limit) }}"""

SCANNED = f"""{HEAD} b (double s, double[2] x) => (double t, double[2] y) {{
  u = example.Arm (s) m = ReduceSum <keepdims = 0> (x) t = Add (u, m) y = Mul (x, x) }}"""

MODEL = f"""{HEAD} g (int64 n, double x) => (double last, double[N] rows) {{
  c = Constant <value = bool {{1}}> ()
  a, rows = Loop <body = b (int64 i, bool d, double s) => (bool d, double t, double y) {{
    u = example.Arm (s) t = Add (u, x) y = Mul (t, t) }}> (n, c, x)
  last = Identity (a) }}"""


def drawn(n):
    """A loop that draws, and the number that comes next."""
    return mdf_loop.loop(n, True, np.zeros(2), body=DRAWING, half=0.5)


def function(holder):
    """A Python body that changes its arrays in place."""

    def body(i, c, s, rows):
        holder["strike"].arm()
        s += 1
        return True, s, [*rows, s], s * 2, i

    return lambda n: mdf_loop.loop(n, True, np.zeros(2), [np.zeros(2)], body=body)


def scan_function(holder):
    def body(s, x):
        holder["strike"].arm()
        return s + x, s * x

    return lambda n: mdf_loop.scan(np.float64(1), np.arange(1.0, n + 1), num_scan_inputs=1, body=body)


def python_around_graph(holder):
    """A Python body that runs a loop of its own, which draws from the same stream."""

    def body(i, c, s):
        holder["strike"].arm()
        return True, mdf_loop.loop(2, True, s, body=DRAWING, half=0.5)[0]

    return lambda n: mdf_loop.loop(n, True, np.zeros(2), body=body)


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


FORMS = {
    "plain": lambda _: lambda n: mdf_loop.loop(n, True, 0.0, 1.0, body=PLAIN, one=1.0),
    "drawing": lambda _: drawn,
    "nested": lambda _: lambda n: mdf_loop.loop(n, True, 0.0, body=NESTED, one=1.0, three=3),
    "while": lambda _: lambda n: mdf_loop.loop(n if n != N else None, True, 0.0, body=WHILE, one=1.0, limit=float(N)),
    "scan": lambda _: lambda n: mdf_loop.scan(0.0, np.arange(2.0 * n).reshape(n, 2), num_scan_inputs=1, body=SCANNED),
    "compiled": lambda _: lambda n: mdf_loop.compile(PLAIN)(n, True, 0.0, 1.0, one=1.0),
    "function": function,
    "scan of a function": scan_function,
    "a function around a graph": python_around_graph,
}


def same(one, other):
    """Whether two results are the same: types, shapes, values; sequences as well."""
    if isinstance(one, list) or isinstance(other, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    return np.asarray(one).dtype == np.asarray(other).dtype and np.array_equal(one, other)


def expected(call, n):
    """Results of so many iterations, interpreted, and the random number that comes next."""
    with options(engine="interpret"), random_stream(RandomStream(5)) as stream:
        return as_tuple(call(n)), stream.shared().random()


def ended(error, call, known):
    """Whether an error holds what so many iterations give."""
    assert isinstance(error.iteration, int)
    if error.iteration not in known:
        known[error.iteration] = expected(call, error.iteration)
    return known[error.iteration]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("engine", ["interpret", "numpy", "auto"])
@pytest.mark.parametrize("form", FORMS)
def test_what_strikes_between_two_instructions_leaves_the_results_of_one_moment(form, engine, kind, striking):
    striker, call = make(striking, kind), FORMS[form](striking)
    striker(None)
    call(2)  # planned
    full, known = expected(call, N), {}
    with options(engine=engine):
        for at in strikes(lambda: call(N), striker, MOST):
            strike = striker(at)
            with random_stream(RandomStream(5)) as stream:
                try:
                    found = as_tuple(strike(lambda: call(N)))
                    assert kind is MemoryError  # a block may be run again with less
                    assert all(map(same, found, full[0])), strike.place
                except PartialResults as error:
                    assert isinstance(error, LoopInterrupted if kind is KeyboardInterrupt else LoopError)
                    wanted, following = ended(error, call, known)
                    n_carried = 2 if form in ("plain", "compiled", "function") else 1
                    assert all(map(same, error.partial[:n_carried], wanted[:n_carried])), strike.place
                    if error.iteration:
                        rows = zip(error.partial[n_carried:], wanted[n_carried:], strict=True)
                        assert all(same(*pair) or (pair[0] is None and kind is MemoryError) for pair in rows), strike.place
                    assert stream.shared().random() == following, strike.place


@pytest.mark.parametrize("engine", ["interpret", "numpy"])
def test_whole_models_keep_the_results_of_their_loop_and_the_outputs_known(engine, striking):
    striker = make(striking)
    striker(None)
    model = backend.prepare(__import__("onnx").parser.parse_model(MODEL))

    def call(n):
        return model.run([np.int64(n), np.float64(1)])

    call(2)
    with options(engine=engine):
        for at in strikes(lambda: call(N), striker, MOST):
            strike = striker(at)
            with pytest.raises(LoopInterrupted) as info:
                strike(lambda: call(N))
            k = info.value.iteration
            want = np.arange(2.0, k + 2)
            assert info.value.partial[0] == k + 1, strike.place
            assert k == 0 or np.array_equal(info.value.partial[1], want**2), strike.place
            assert k == 0 or np.array_equal(info.value.outputs["rows"], want**2), strike.place
            assert info.value.outputs.get("last", N + 1) == N + 1
