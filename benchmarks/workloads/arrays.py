"""Arrays in recurrences: small and wide vectors, cellular automata, chaotic maps, graph relaxations, writes into arrays."""

from __future__ import annotations

import numpy as np

from workloads.record import Workload
from workloads.writing import Name, Writing


def vector(width: int, n: int) -> Workload:
    """Two element-wise operations on a vector."""
    w = Writing(f"vector_{width}", f"int64 i, bool go, double[{width}] y")
    y = w["y"] * 0.999 + 0.5
    name = f"vector_{width}"
    return Workload(name, w.text(w.go, y), n, carried=(np.linspace(0, 1, width),), small=width < 300)


def vector_3(n: int = 10_000) -> Workload:
    """Width 3."""
    return vector(3, n)


def vector_1000(n: int = 5000) -> Workload:
    """Width 1000."""
    return vector(1000, n)


def vector_10000(n: int = 1000) -> Workload:
    """Width 10000."""
    return vector(10_000, n)


def vector_1000000(n: int = 10) -> Workload:
    """Width 1000000, beyond the caches."""
    return vector(1_000_000, n)


def chain(n: int = 500, width: int = 10_000) -> Workload:
    """Eight element-wise operations on a wide vector in each iteration."""
    w = Writing("chain", f"int64 i, bool go, float[{width}] y")
    y = w["y"]
    t = w("Relu", y * 0.5 + 0.25) - 0.125
    t = w("Abs", t * y) + y
    y = w("Min", w("Max", t, -2.0), 2.0)
    carried = (np.linspace(-1, 1, width, dtype=np.float32),)
    return Workload("chain", w.text(w.go, y), n, carried=carried, rtol=1e-4, atol=1e-5)


def tiny(n: int = 1000, width: int = 16) -> Workload:
    """Thirty element-wise operations on 16 elements in each iteration."""
    w = Writing("tiny", f"int64 i, bool go, double[{width}] y, double[{width}] z")
    y, z = w.get("y", "z")
    for k in range(10):
        y = w("Abs", y - z * 0.5) + 0.01 * k
    return Workload("tiny", w.text(w.go, z * 0.9, y * 0.01), n, carried=(np.ones(width), np.linspace(0, 1, width)), small=True)


def lorenz_scalar(n: int = 20_000) -> Workload:
    """Lorenz system, three scalars, x collected."""
    w = Writing("lorenz_scalar", "int64 i, bool go, double x, double y, double z")
    x, y, z = w.get("x", "y", "z")
    dx, dy, dz = (y - x) * 10.0, x * (28.0 - z) - y, x * y - z * 2.6666666666666665
    out = x + dx * 0.001, y + dy * 0.001, z + dz * 0.001
    return Workload("lorenz_scalar", w.text(w.go, *out, out[0]), n, carried=tuple(map(np.float64, (1.0, 1.0, 1.0))), rtol=1e-3)


def lorenz_vector(n: int = 5000) -> Workload:
    """Lorenz system as a vector of three that is taken apart and put together."""
    w = Writing("lorenz_vector", "int64 i, bool go, double[3] s")
    x, y, z = w("Split", w["s"], axis=0, num_outputs=3, outputs=3)
    dx, dy, dz = (y - x) * 10.0, x * (28.0 - z) - y, x * y - z * 2.6666666666666665
    s = w["s"] + w("Concat", dx, dy, dz, axis=0) * 0.001
    return Workload("lorenz_vector", w.text(w.go, s, s), n, carried=(np.ones(3),), rtol=1e-3, small=True)


def logistic(width: int, n: int) -> Workload:
    """r x (1 - x) for many r."""
    w = Writing(f"logistic_{width}", f"int64 i, bool go, double[{width}] x", f"double[{width}] r")
    x = w["r"] * w["x"] * (1.0 - w["x"])
    captured = {"r": np.linspace(2.5, 4, width)}
    name = f"logistic_{width}"
    return Workload(name, w.text(w.go, x, x), n, carried=(np.full(width, 0.3),), captured=captured, small=width < 300)


def logistic_10(n: int = 5000) -> Workload:
    """Ten maps."""
    return logistic(10, n)


def logistic_1000(n: int = 1000) -> Workload:
    """A thousand maps."""
    return logistic(1000, n)


def logistic_10000(n: int = 200) -> Workload:
    """Ten thousand maps."""
    return logistic(10_000, n)


def henon(n: int = 20_000) -> Workload:
    """Henon map, two scalars, both collected."""
    w = Writing("henon", "int64 i, bool go, double x, double y")
    x = 1.0 - w["x"] * w["x"] * 1.4 + w["y"]
    y = w["x"] * 0.3
    return Workload("henon", w.text(w.go, x, y, x, y), n, carried=(np.float64(0), np.float64(0)))


def mandelbrot(n: int = 100, size: int = 64) -> Workload:
    """Points that escape are counted no more: real and imaginary parts apart."""
    grid = f"double[{size},{size}]"
    w = Writing("mandelbrot", f"int64 i, bool go, {grid} x, {grid} y, int64[{size},{size}] count", f"{grid} cx, {grid} cy")
    x, y = w.get("x", "y")
    x1, y1 = x * x - y * y + w["cx"], x * y * 2.0 + w["cy"]
    inside = w("Less", x1 * x1 + y1 * y1, 4.0, kind="bool")
    count = w["count"] + w("Cast", inside, to=7, kind="int64")
    x2, y2 = w("Where", inside, x1, x, kind="double"), w("Where", inside, y1, y, kind="double")
    cx, cy = np.meshgrid(np.linspace(-2, 0.5, size), np.linspace(-1.2, 1.2, size))
    zero = np.zeros((size, size))
    carried = zero, zero, zero.astype(np.int64)
    return Workload("mandelbrot", w.text(w.go, x2, y2, count), n, carried=carried, captured={"cx": cx, "cy": cy})


def _rolled(w: Writing, x: Name, axis: int, by: int) -> Name:
    """numpy.roll by one place, of two slices."""
    cut, ends, axes = w.constant([-by if by > 0 else 1], "int64"), w.constant([2**62], "int64"), w.constant([axis], "int64")
    zero = w.constant([0], "int64")
    return w("Concat", w("Slice", x, cut, ends, axes), w("Slice", x, zero, cut, axes), axis=axis)


def life(size: int, n: int) -> Workload:
    """Conway's game of life on a torus, the number of living cells collected."""
    w = Writing(f"life_{size}", f"int64 i, bool go, float[{size},{size}] x")
    x = w["x"]
    rows = x + _rolled(w, x, 0, 1) + _rolled(w, x, 0, -1)
    near = rows + _rolled(w, rows, 1, 1) + _rolled(w, rows, 1, -1) - x
    three, two = (w("Equal", near, float(k), kind="bool") for k in (3, 2))
    alive = w("Or", three, w("And", two, x > 0.5, kind="bool"), kind="bool")
    x1 = w("Cast", alive, to=1, kind="float")
    start = (np.random.default_rng(0).random((size, size)) < 0.3).astype(np.float32)
    return Workload(f"life_{size}", w.text(w.go, x1, w("ReduceSum", x1, keepdims=0)), n, carried=(start,), small=size < 18)


def life_16(n: int = 1000) -> Workload:
    """256 cells."""
    return life(16, n)


def life_128(n: int = 200) -> Workload:
    """16384 cells."""
    return life(128, n)


def life_convolution(n: int = 200, size: int = 64) -> Workload:
    """Life by a convolution; outside everything is dead."""
    w = Writing("life_convolution", f"int64 i, bool go, float[1,1,{size},{size}] x", "float[1,1,3,3] ring")
    near = w("Conv", w["x"], w["ring"], pads=[1, 1, 1, 1])
    three, two = (w("Equal", near, float(k), kind="bool") for k in (3, 2))
    alive = w("Or", three, w("And", two, w["x"] > 0.5, kind="bool"), kind="bool")
    ring = np.ones((1, 1, 3, 3), np.float32)
    ring[0, 0, 1, 1] = 0
    start = (np.random.default_rng(0).random((1, 1, size, size)) < 0.3).astype(np.float32)
    x1 = w("Cast", alive, to=1, kind="float")
    return Workload("life_convolution", w.text(w.go, x1), n, carried=(start,), captured={"ring": ring})


def rule_110(n: int = 1000, width: int = 200) -> Workload:
    """An automaton of booleans in one row, every row collected."""
    w = Writing("rule_110", f"int64 i, bool go, bool[{width}] x", f"int64[{width}] left, int64[{width}] right")
    x = w["x"]
    left, right = w("Gather", x, w["left"], kind="bool"), w("Gather", x, w["right"], kind="bool")
    either, all_ = w("Or", x, right, kind="bool"), w("And", w("And", left, x, kind="bool"), right, kind="bool")
    x1 = w("And", either, w("Not", all_, kind="bool"), kind="bool")
    places = np.arange(width)
    captured = {"left": np.roll(places, 1), "right": np.roll(places, -1)}
    return Workload("rule_110", w.text(w.go, x1, x1), n, carried=(places == width - 1,), captured=captured, small=True)


def heat(n: int = 300, size: int = 128) -> Workload:
    """Heat on a plate by differences of slices; the rim is zero."""
    w = Writing("heat", f"int64 i, bool go, double[{size},{size}] x")
    x = w["x"]
    near = _rolled(w, x, 0, 1) + _rolled(w, x, 0, -1) + _rolled(w, x, 1, 1) + _rolled(w, x, 1, -1)
    x1 = x + (near - x * 4.0) * 0.1
    return Workload("heat", w.text(w.go, x1), n, carried=(np.random.default_rng(0).random((size, size)),))


def floyd_warshall(size: int) -> Workload:
    """All shortest paths: d = min(d, d[:, k] + d[k, :])."""
    name = f"floyd_warshall_{size}"
    w = Writing(name, f"int64 i, bool go, float[{size},{size}] d")
    k = w("Unsqueeze", w["i"], w.constant([0], "int64"), kind="int64")
    column, row = w("Gather", w["d"], k, axis=1, kind="float"), w("Gather", w["d"], k, axis=0, kind="float")
    d = w("Min", w["d"], column + row)
    start = np.random.default_rng(0).random((size, size)).astype(np.float32) ** 4 * 100
    return Workload(name, w.text(w.go, d), size, carried=(start,), rtol=1e-5)


def floyd_warshall_32() -> Workload:
    """32 nodes."""
    return floyd_warshall(32)


def floyd_warshall_128() -> Workload:
    """128 nodes."""
    return floyd_warshall(128)


def bellman_ford(size: int = 100) -> Workload:
    """Shortest paths from one node, until nothing changes any more."""
    w = Writing("bellman_ford", f"int64 i, bool go, double[{size}] d", f"double[{size},{size}] W")
    through = w("Unsqueeze", w["d"], w.constant([1], "int64")) + w["W"]
    d = w("Min", w["d"], w("ReduceMin", through, w.constant([0], "int64"), keepdims=0))
    changed = w("Less", d, w["d"], kind="bool")
    go = w("Cast", w("ReduceMax", w("Cast", changed, to=7, kind="int64"), keepdims=0), to=9, kind="bool")
    rng = np.random.default_rng(0)
    weights = np.full((size, size), np.inf)
    weights[np.arange(size - 1), np.arange(1, size)] = rng.random(size - 1)
    start = np.full(size, np.inf)
    start[0] = 0
    return Workload("bellman_ford", w.text(go, d), size, carried=(start,), captured={"W": weights})


def scatter(n: int = 2000, width: int = 2000) -> Workload:
    """A table filled from its own entries: x[i + 2] = x[i] + x[i + 1] (modulo a prime), by ScatterND."""
    w = Writing("scatter", f"int64 i, bool go, int64[{width + 2}] x")
    one = w.constant([1], "int64")
    i = w("Unsqueeze", w["i"], w.constant([0], "int64"), kind="int64")
    a, b = w("Gather", w["x"], i, kind="int64"), w("Gather", w["x"], i + one, kind="int64")
    place = w("Unsqueeze", i + w.constant([2], "int64"), w.constant([0], "int64"), kind="int64")
    x = w("ScatterND", w["x"], place, (a + b) % 1_000_003)
    start = np.zeros(width + 2, np.int64)
    start[1] = 1
    return Workload("scatter", w.text(w.go, x), n, carried=(start,))


def sieve(size: int = 2000) -> Workload:
    """Sieve of Eratosthenes: numbers that the iteration's one divides are struck out."""
    w = Writing("sieve", f"int64 i, bool go, bool[{size}] prime", f"int64[{size}] numbers")
    divisor = w["i"] + 2
    multiple = w("Equal", w("Mod", w["numbers"], divisor), 0, kind="bool")
    larger = w("Greater", w["numbers"], divisor, kind="bool")
    prime = w("And", w["prime"], w("Not", w("And", multiple, larger, kind="bool"), kind="bool"), kind="bool")
    numbers = np.arange(size)
    return Workload("sieve", w.text(w.go, prime), int(size**0.5), carried=(numbers >= 2,), captured={"numbers": numbers})


def congruential(n: int = 50_000) -> Workload:
    """Pseudo-random int64 numbers that wrap around, collected."""
    w = Writing("congruential", "int64 i, bool go, int64 x")
    x = w["x"] * 6364136223846793005 + 1442695040888963407
    return Workload("congruential", w.text(w.go, x, x), n, carried=(np.int64(1),))


def xorshift(n: int = 10_000) -> Workload:
    """Marsaglia's generator: shifts and exclusive ors of uint64."""
    w = Writing("xorshift", "int64 i, bool go, uint64 x")
    x = w["x"]
    for direction, by in (("LEFT", 13), ("RIGHT", 7), ("LEFT", 17)):
        x = w("BitwiseXor", x, w("BitShift", x, by, direction=direction))
    return Workload("xorshift", w.text(w.go, x, x), n, carried=(np.uint64(88172645463325252),))


def greatest_divisor() -> Workload:
    """Euclid's algorithm on two neighbours of the Fibonacci sequence: 80 iterations, a short while loop."""
    w = Writing("greatest_divisor", "int64 i, bool go, int64 a, int64 b")
    b = w["a"] % w["b"]
    given = np.int64(61305790721611591), np.int64(37889062373143906)
    return Workload("greatest_divisor", w.text(w("Greater", b, 0, kind="bool"), w["b"], b), carried=given)


def flags(n: int = 10_000) -> Workload:
    """Boolean scalars: a small state machine, its output collected."""
    w = Writing("flags", "int64 i, bool go, bool a, bool b", "bool[n] x")
    a, b, x = w["a"], w["b"], w("Gather", w["x"], w["i"], kind="bool")
    a1 = w("Xor", w("And", a, w("Not", b, kind="bool"), kind="bool"), x, kind="bool")
    b1 = w("Or", w("And", b, x, kind="bool"), w("Not", a, kind="bool"), kind="bool")
    x = np.random.default_rng(0).random(n) < 0.5
    return Workload("flags", w.text(w.go, a1, b1, b1), n, carried=(np.bool_(True), np.bool_(False)), captured={"x": x})


def sorting(n: int = 200, size: int = 500) -> Workload:
    """The best ten of a vector by TopK, then moved: sorting in each iteration."""
    w = Writing("sorting", f"int64 i, bool go, double[{size}] x")
    best, _ = w("TopK", w["x"], w.constant([10], "int64"), outputs=2)
    mean = w("ReduceMean", best, keepdims=0)
    x = w("Sin", w["x"] * 0.9 + mean)
    return Workload("sorting", w.text(w.go, x, mean), n, carried=(np.random.default_rng(0).random(size),), rtol=1e-3, atol=1e-3)


def sinkhorn(n: int = 200, size: int = 64) -> Workload:
    """Rows and columns are divided by their sums in turn."""
    w = Writing("sinkhorn", f"int64 i, bool go, double[{size},{size}] P")
    p = w["P"] / w("ReduceSum", w["P"], w.constant([1], "int64"), keepdims=1)
    p = p / w("ReduceSum", p, w.constant([0], "int64"), keepdims=1)
    return Workload("sinkhorn", w.text(w.go, p), n, carried=(np.random.default_rng(0).random((size, size)),))


def k_means(n: int = 50, points: int = 500, clusters: int = 8) -> Workload:
    """Lloyd's algorithm in two dimensions with one-hot products."""
    w = Writing("k_means", f"int64 i, bool go, float[{clusters},2] c", f"float[{points},1,2] x, float[{points},2] flat")
    apart = w["x"] - w("Unsqueeze", w["c"], w.constant([0], "int64"))
    nearest = w("ArgMin", w("ReduceSum", apart * apart, w.constant([2], "int64"), keepdims=0), axis=1, keepdims=0, kind="int64")
    hot = w("OneHot", nearest, w.constant(clusters, "int64"), w.constant([0.0, 1.0], "float"), kind="float")
    total = w("ReduceSum", hot, w.constant([0], "int64"), keepdims=0)
    sums = w("MatMul", w("Transpose", hot, perm=[1, 0]), w["flat"])
    c = sums / w("Unsqueeze", w("Max", total, 1.0), w.constant([1], "int64"))
    x = np.random.default_rng(0).standard_normal((points, 2)).astype(np.float32)
    captured = {"x": x[:, None], "flat": x}
    return Workload("k_means", w.text(w.go, c), n, carried=(x[:clusters].copy(),), captured=captured, rtol=1e-3, atol=1e-3)


WORKLOADS = (
    vector_3,
    vector_1000,
    vector_10000,
    vector_1000000,
    chain,
    tiny,
    lorenz_scalar,
    lorenz_vector,
    logistic_10,
    logistic_1000,
    logistic_10000,
    henon,
    mandelbrot,
    life_16,
    life_128,
    life_convolution,
    rule_110,
    heat,
    floyd_warshall_32,
    floyd_warshall_128,
    bellman_ford,
    scatter,
    sieve,
    congruential,
    xorshift,
    greatest_divisor,
    flags,
    sorting,
    sinkhorn,
    k_means,
)
