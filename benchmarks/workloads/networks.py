"""Recurrent networks, filters and linear algebra: products of matrices in each iteration."""

from __future__ import annotations

import numpy as np

from workloads.record import Workload
from workloads.writing import Name, Writing

F32 = np.float32


def _weights(seed: int, **shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(F32) for name, shape in shapes.items()}


def rnn(n: int = 1000, batch: int = 8, hidden: int = 64) -> Workload:
    """A simple recurrent network, all hidden states collected."""
    square = f"float[{hidden},{hidden}]"
    w = Writing(
        "rnn",
        f"int64 i, bool go, float[{batch},{hidden}] h",
        f"float[n,{batch},{hidden}] x, {square} W, {square} R, float[{hidden}] b",
    )
    x = w("Gather", w["x"], w["i"], kind="float")
    h = w("Tanh", w("MatMul", x, w["W"]) + w("MatMul", w["h"], w["R"]) + w["b"])
    captured = _weights(0, W=(hidden, hidden), R=(hidden, hidden), b=(hidden,))
    captured["x"] = np.random.default_rng(1).standard_normal((n, batch, hidden)).astype(F32)
    carried = (np.zeros((batch, hidden), F32),)
    return Workload("rnn", w.text(w.go, h, h), n, carried=carried, captured=captured, target=0.75, rtol=1e-3, atol=1e-3)


def _lstm(name: str, n: int, batch: int, hidden: int, target: float) -> Workload:
    state, gates = f"float[{batch},{hidden}]", 4 * hidden
    w = Writing(
        name,
        f"int64 i, bool go, {state} h, {state} c",
        f"float[n,{batch},{hidden}] x, float[{hidden},{gates}] W, float[{hidden},{gates}] R, float[{gates}] b",
    )
    x = w("Gather", w["x"], w["i"], kind="float")
    both = w("Gemm", x, w["W"], w["b"]) + w("Gemm", w["h"], w["R"])
    parts = w("Split", both, axis=1, num_outputs=4, outputs=4)
    i, o, f = (w("Sigmoid", part) for part in parts[:3])
    c = f * w["c"] + i * w("Tanh", parts[3])
    h = o * w("Tanh", c)
    captured = _weights(0, W=(hidden, gates), R=(hidden, gates), b=(gates,))
    captured["x"] = np.random.default_rng(1).standard_normal((n, batch, hidden)).astype(F32)
    carried = np.zeros((batch, hidden), F32), np.zeros((batch, hidden), F32)
    return Workload(name, w.text(w.go, h, c, h), n, carried=carried, captured=captured, target=target, rtol=1e-3, atol=1e-3)


def lstm_1(n: int = 100, batch: int = 1, hidden: int = 256) -> Workload:
    """LSTM from Gemm, Split, Sigmoid and Tanh, batch 1."""
    return _lstm("lstm_1", n, batch, hidden, 1.0)


def lstm_8(n: int = 100, batch: int = 8, hidden: int = 256) -> Workload:
    """The same, batch 8."""
    return _lstm("lstm_8", n, batch, hidden, 1.6)


def power_iteration(n: int = 50, size: int = 512) -> Workload:
    """v = A v / |A v|, the norms collected."""
    w = Writing("power_iteration", f"int64 i, bool go, double[{size}] v", f"double[{size},{size}] A")
    u = w("MatMul", w["A"], w["v"])
    norm = w("Sqrt", w("ReduceSum", u * u, keepdims=0))
    a = np.random.default_rng(0).random((size, size))
    return Workload("power_iteration", w.text(w.go, u / norm, norm), n, carried=(np.ones(size),), captured={"A": a}, target=0.06)


def gru_small(n: int = 1000, hidden: int = 16) -> Workload:
    """A GRU of 16 units, one vector at a time: many small operators."""
    w = Writing(
        "gru_small",
        f"float[1,{hidden}] h, float[1,{hidden}] x",
        "".join(f"float[{hidden},{hidden}] {name}," for name in ("Wz", "Wr", "Wh", "Rz", "Rr")) + f"float[{hidden},{hidden}] Rh",
    )
    h, x = w.get("h", "x")

    def both(gate: str, state: Name) -> Name:
        return w("MatMul", x, w[f"W{gate}"]) + w("MatMul", state, w[f"R{gate}"])

    z, r = w("Sigmoid", both("z", h)), w("Sigmoid", both("r", h))
    new = w("Tanh", both("h", r * h))
    h_out = z * h + (1.0 - z) * new
    captured = _weights(0, **dict.fromkeys(("Wz", "Wr", "Wh", "Rz", "Rr", "Rh"), (hidden, hidden)))
    x_all = np.random.default_rng(1).standard_normal((n, 1, hidden)).astype(F32)
    carried = (np.zeros((1, hidden), F32),)
    return Workload(
        "gru_small", w.text(h_out, h_out), carried=carried, scanned=(x_all,), captured=captured, small=True, rtol=1e-3, atol=1e-3
    )


def kalman(n: int = 1000, size: int = 4) -> Workload:
    """A Kalman filter of 4 states and one measurement: 4 x 4 products and scalars."""
    square = f"double[{size},{size}]"
    w = Writing("kalman", f"double[{size},1] m, {square} P, double[1,1] z", f"{square} F, {square} Q, double[1,{size}] H")
    m, p, z, f, q, h = w.get("m", "P", "z", "F", "Q", "H")
    m1 = w("MatMul", f, m)
    p1 = w("MatMul", w("MatMul", f, p), w("Transpose", f, perm=[1, 0])) + q
    ph = w("MatMul", p1, w("Transpose", h, perm=[1, 0]))
    gain = ph / (w("MatMul", h, ph) + 0.5)
    m2 = m1 + gain * (z - w("MatMul", h, m1))
    p2 = p1 - w("MatMul", gain, w("MatMul", h, p1))
    captured = {"F": np.eye(size) + np.diag([0.1] * (size - 1), 1), "Q": 0.01 * np.eye(size), "H": np.eye(1, size)}
    zs = np.cumsum(np.random.default_rng(0).standard_normal((n, 1, 1)), 0)
    carried = np.zeros((size, 1)), np.eye(size)
    return Workload("kalman", w.text(m2, p2, m2), carried=carried, scanned=(zs,), captured=captured, small=True)


def hidden_markov(n: int = 1000, states: int = 32) -> Workload:
    """Forward algorithm in logarithms: an exponential matrix in each step."""
    w = Writing("hidden_markov", f"double[{states}] a, double[{states}] e", f"double[{states},{states}] T")
    terms = w("Unsqueeze", w["a"], w.constant([1], "int64")) + w["T"]
    a = w("ReduceLogSumExp", terms, w.constant([0], "int64"), keepdims=0) + w["e"]
    rng = np.random.default_rng(0)
    captured = {"T": np.log(rng.dirichlet(np.ones(states), states))}
    emitted = -rng.random((n, states))
    return Workload("hidden_markov", w.text(a, a), carried=(np.zeros(states),), scanned=(emitted,), captured=captured)


def viterbi(n: int = 1000, states: int = 32) -> Workload:
    """The best path: maximum and its place in each step."""
    w = Writing("viterbi", f"double[{states}] a, double[{states}] e", f"double[{states},{states}] T")
    terms = w("Unsqueeze", w["a"], w.constant([1], "int64")) + w["T"]
    a = w("ReduceMax", terms, w.constant([0], "int64"), keepdims=0) + w["e"]
    came_from = w("ArgMax", terms, axis=0, keepdims=0, kind="int64")
    rng = np.random.default_rng(0)
    captured = {"T": np.log(rng.dirichlet(np.ones(states), states))}
    return Workload(
        "viterbi", w.text(a, came_from), carried=(np.zeros(states),), scanned=(-rng.random((n, states)),), captured=captured
    )


def greedy_decode(n: int = 1000, words: int = 5000, size: int = 128, stop: int = 100) -> Workload:
    """The best word goes back in until the last one is the end: ArgMax, and an early stop."""
    w = Writing(
        "greedy_decode",
        f"int64 i, bool go, float[{size}] h, int64 word",
        f"float[{words},{size}] E, float[{size},{size}] R, float[{size},{words}] O, int64 stop",
    )
    given = w("Gather", w["E"], w["word"], kind="float")
    h = w("Tanh", w("MatMul", w["h"], w["R"]) + given)
    word = w("ArgMax", w("MatMul", h, w["O"]), axis=0, keepdims=0, kind="int64")
    unfinished = w("And", w("Less", w["i"], w["stop"], kind="bool"), w("Greater", word, -1, kind="bool"), kind="bool")
    go = w("And", w.go, unfinished, kind="bool")
    captured = _weights(0, E=(words, size), R=(size, size), O=(size, words)) | {"stop": np.int64(stop)}
    captured["E"] *= F32(30)
    carried = np.zeros(size, F32), np.int64(1)
    return Workload("greedy_decode", w.text(go, h, word, word), n, carried=carried, captured=captured, rtol=1e-3, atol=1e-3)


def attention_cache(n: int = 200, size: int = 64) -> Workload:
    """Decoding with a cache of keys that grows by one row in each iteration."""
    w = Writing("attention_cache", f"int64 i, bool go, float[1,{size}] h, float[m,{size}] K", f"float[{size},{size}] W")
    q = w("MatMul", w["h"], w["W"])
    keys = w("Concat", w["K"], q, axis=0)
    scores = w("Softmax", w("MatMul", w["h"], w("Transpose", keys, perm=[1, 0])) * 0.125, axis=-1)
    h = w("Tanh", w("MatMul", scores, keys))
    carried = np.ones((1, size), F32), np.zeros((0, size), F32)
    captured = _weights(0, W=(size, size))
    return Workload("attention_cache", w.text(w.go, h, keys), n, carried=carried, captured=captured, rtol=1e-3, atol=1e-3)


def projection(n: int = 1000, rows: int = 8, size: int = 64) -> Workload:
    """softmax(x[i] W): no iteration needs another."""
    w = Writing("projection", f"float[{rows},{size}] x", f"float[{size},{size}] W")
    y = w("Softmax", w("MatMul", w["x"], w["W"]), axis=-1)
    x = np.random.default_rng(1).standard_normal((n, rows, size)).astype(F32)
    return Workload("projection", w.text(y), scanned=(x,), captured=_weights(0, W=(size, size)), rtol=1e-4, atol=1e-5)


def conjugate_gradient(n: int = 1000, size: int = 200) -> Workload:
    """A x = b until the residual is small: products, sums and a condition."""
    vector = f"double[{size}]"
    w = Writing(
        "conjugate_gradient", f"int64 i, bool go, {vector} x, {vector} r, {vector} p, double rr", f"double[{size},{size}] A"
    )
    x, r, p, rr = w.get("x", "r", "p", "rr")
    ap = w("MatMul", w["A"], p)
    alpha = rr / w("ReduceSum", p * ap, keepdims=0)
    x1, r1 = x + alpha * p, r - alpha * ap
    rr1 = w("ReduceSum", r1 * r1, keepdims=0)
    p1 = r1 + (rr1 / rr) * p
    rng = np.random.default_rng(0)
    root = rng.standard_normal((size, size)) / np.sqrt(size)
    a, b = root @ root.T + 0.1 * np.eye(size), rng.standard_normal(size)
    carried = np.zeros(size), b, b, b @ b
    return Workload(
        "conjugate_gradient", w.text(rr1 > 1e-10, x1, r1, p1, rr1), n, carried=carried, captured={"A": a}, rtol=1e-4, atol=1e-4
    )


def gradient_descent(n: int = 200, rows: int = 500, size: int = 50) -> Workload:
    """Linear regression: two products with a tall matrix in each step, the loss collected."""
    w = Writing("gradient_descent", f"int64 i, bool go, double[{size}] b", f"double[{rows},{size}] X, double[{rows}] y")
    error = w("MatMul", w["X"], w["b"]) - w["y"]
    step = w("MatMul", error, w["X"]) * (0.5 / rows)
    loss = w("ReduceMean", error * error, keepdims=0)
    rng = np.random.default_rng(0)
    captured = {"X": rng.standard_normal((rows, size)), "y": rng.standard_normal(rows)}
    # onnxruntime fuses the factor into the product, as a float32
    return Workload(
        "gradient_descent",
        w.text(w.go, w["b"] - step, loss),
        n,
        carried=(np.zeros(size),),
        captured=captured,
        rtol=1e-6,
        atol=1e-8,
    )


WORKLOADS = (
    rnn,
    lstm_1,
    lstm_8,
    power_iteration,
    gru_small,
    kalman,
    hidden_markov,
    viterbi,
    greedy_decode,
    attention_cache,
    projection,
    conjugate_gradient,
    gradient_descent,
)
