"""Loops that are control flow more than numbers: conditions, branches, nesting, sequences, text, growing values."""

from __future__ import annotations

import numpy as np

from workloads.record import Workload
from workloads.writing import Writing


def newton(a: float = 1e300) -> Workload:
    """The root of a large number by Newton's method, until it is good: some 500 iterations of scalars."""
    w = Writing("newton", "int64 i, bool go, double x", "double a")
    x = (w["x"] + w["a"] / w["x"]) * 0.5
    error = w("Abs", x * x - w["a"])
    go = w("Greater", error, w["a"] * 1e-12, kind="bool")
    return Workload("newton", w.text(go, x), None, carried=(np.float64(a),), captured={"a": np.float64(a)}, target=0.1)


def nested(outer: int = 100, inner: int = 100) -> Workload:
    """A loop of scalars inside a loop of scalars; both collect."""
    w = Writing("nested", "int64 i, bool go, double y", "int64 m")
    w.add_line(
        "z, rows = Loop (m, go, y) <body = inner (int64 j, bool on, double a) => (on_1, a_1, a_2) "
        "<double k = {0.99}> { on_1 = Identity (on) fi = Cast <to = 11> (i) "
        "b = Mul (a, k) a_1 = Add (b, fi) a_2 = Identity (a_1) }>"
    )
    w.add_line("last = ReduceSum <keepdims = 0> (rows)")
    text = w.text(w.go, w._declared("double z"), w._declared("double last"))
    return Workload("nested", text, outer, carried=(np.float64(1),), captured={"m": np.int64(inner)}, target=0.05)


def sequence(n: int = 2000, width: int = 10) -> Workload:
    """A sequence that gets one more array in each iteration."""
    w = Writing("sequence", "int64 i, bool go, seq(double[k]) s", f"double[{width}] x")
    row = w("Cast", w["i"], to=11, kind="double") * w["x"]
    s = w("SequenceInsert", w["s"], row)
    x = np.linspace(0, 1, width)
    return Workload("sequence", w.text(w.go, s), n, carried=([x],), captured={"x": x}, target=0.02)


def adds(n: int = 1000, nodes: int = 100) -> Workload:
    """A body of 100 scalar Adds."""
    w = Writing("adds", "int64 i, bool go, double y, double z")
    y, z = w.get("y", "z")
    for _ in range(nodes // 2):
        y = y + z
        z = z + 0.001
    return Workload("adds", w.text(w.go, y, z), n, carried=(np.float64(0), np.float64(-40)), target=0.3)


def collatz(n: int = 100_000, start: int = 75_128_138_247) -> Workload:
    """n / 2 or 3 n + 1 by an If, until 1 is reached: int64, 1228 iterations."""
    w = Writing("collatz", "int64 i, bool go, int64 n")
    odd = w("Cast", w("Mod", w["n"], 2), to=9, kind="bool")
    three, two, one = (w.constant(k, "int64").name for k in (3, 2, 1))
    w.add_line(
        f"m = If ({odd.name}) <then_branch = odd () => (a) {{ t = Mul (n, {three}) a = Add (t, {one}) }}, "
        f"else_branch = even () => (b) {{ b = Div (n, {two}) }}>"
    )
    m = w._declared("int64 m")
    return Workload("collatz", w.text(w("Greater", m, 1, kind="bool"), m, m), n, carried=(np.int64(start),))


def bouncing_ball(n: int = 10_000) -> Workload:
    """A ball that turns round at the floor: an If inside scalar steps, height collected."""
    w = Writing("bouncing_ball", "int64 i, bool go, double y, double s")
    y1 = w["y"] + w["s"] * 0.001
    s1 = w["s"] - 0.00981
    below = w("Less", y1, 0.0, kind="bool")
    k = w.constant(-0.9, "double").name
    w.add_line(
        f"y2, s2 = If ({below.name}) <then_branch = bounce () => (a, b) {{ a = Neg ({y1.name}) b = Mul ({s1.name}, {k}) }}, "
        f"else_branch = fly () => (c, d) {{ c = Identity ({y1.name}) d = Identity ({s1.name}) }}>"
    )
    y2, s2 = w._declared("double y2"), w._declared("double s2")
    return Workload("bouncing_ball", w.text(w.go, y2, s2, y2), n, carried=(np.float64(1), np.float64(0)))


def if_on_index(n: int = 2000, width: int = 100) -> Workload:
    """A branch chosen by a flag of each iteration; both are cheap and neither depends on the state."""
    w = Writing("if_on_index", "int64 i, bool go", f"double[n,{width}] x, bool[n] flags")
    flag, x = w("Gather", w["flags"], w["i"], kind="bool"), w("Gather", w["x"], w["i"], kind="double")
    w.add_line(
        f"y = If ({flag.name}) <then_branch = one () => (a) {{ a = Sin ({x.name}) }}, "
        f"else_branch = other () => (b) {{ b = Neg ({x.name}) }}>"
    )
    rng = np.random.default_rng(0)
    captured = {"x": rng.standard_normal((n, width)), "flags": rng.random(n) < 0.5}
    return Workload("if_on_index", w.text(w.go, w._declared("double y")), n, captured=captured)


def early_exit(n: int = 1_000_000, width: int = 100_000) -> Workload:
    """A wide body that could run a million times and ends after five: what was computed ahead is lost."""
    w = Writing("early_exit", "int64 i, bool go, double total", f"double[{width}] x")
    y = w("Sin", w["x"] * w("Cast", w["i"], to=11, kind="double"))
    total = w["total"] + w("ReduceSum", y * y, keepdims=0)
    go = w("Less", total, 2.2 * width, kind="bool")
    x = np.random.default_rng(0).random(width) * 10
    return Workload("early_exit", w.text(go, total, total), n, carried=(np.float64(0),), captured={"x": x})


def early_exit_batched(n: int = 1_000_000, width: int = 100_000) -> Workload:
    """The same, with a condition that depends on the iteration number alone."""
    w = Writing("early_exit_batched", "int64 i, bool go", f"double[{width}] x")
    y = w("Sin", w["x"] * w("Cast", w["i"], to=11, kind="double"))
    mean = w("ReduceMean", y, keepdims=0)
    x = np.random.default_rng(0).random(width) + 0.01
    return Workload("early_exit_batched", w.text(w("Less", mean, 0.7, kind="bool"), mean), n, captured={"x": x})


def search(n: int = 100_000) -> Workload:
    """The first place where a long input exceeds a bound: the condition needs no state, 50 000 iterations."""
    w = Writing("search", "int64 i, bool go", "double[n] x")
    x = w("Gather", w["x"], w["i"], kind="double")
    given = np.random.default_rng(0).random(n)
    given[n // 2] = 2
    return Workload("search", w.text(w("Less", x, 1.5, kind="bool"), x), n, captured={"x": given})


def growing(n: int = 1000) -> Workload:
    """A carried vector that gets one element longer in each iteration."""
    w = Writing("growing", "int64 i, bool go, double[k] v")
    last = w("Slice", w["v"], w.constant([-1], "int64"), w.constant([2**62], "int64"))
    v = w("Concat", w["v"], last * 0.5 + 1.0, axis=0)
    return Workload("growing", w.text(w.go, v), n, carried=(np.ones(1),))


def many_collected(n: int = 10_000, outputs: int = 20) -> Workload:
    """Twenty collected outputs of scalars."""
    w = Writing("many_collected", "int64 i, bool go, double y")
    y = w["y"] * 0.999 + 1.0
    return Workload("many_collected", w.text(w.go, y, *[y * float(k) for k in range(outputs)]), n, carried=(np.float64(0),))


def many_carried(n: int = 2000, values: int = 30) -> Workload:
    """Thirty carried scalars that change places."""
    w = Writing("many_carried", "int64 i, bool go, " + ", ".join(f"double y{k}" for k in range(values)))
    ys = w.get(*[f"y{k}" for k in range(values)])
    out = [*ys[1:], ys[0] * 0.5 + ys[1]]
    return Workload("many_carried", w.text(w.go, *out), n, carried=tuple(np.float64(k) for k in range(values)))


def text(n: int = 1000) -> Workload:
    """Text that gets one piece longer in each iteration."""
    w = Writing("text", "int64 i, bool go, string s", "string[n] pieces")
    s = w("StringConcat", w["s"], w("Gather", w["pieces"], w["i"], kind="string"))
    pieces = np.array([f"{k % 10}" for k in range(n)], object)
    return Workload("text", w.text(w.go, s), n, carried=(np.array("", object),), captured={"pieces": pieces})


def sequence_sum(n: int = 1000, width: int = 10) -> Workload:
    """Elements of a captured sequence by number, added up."""
    w = Writing("sequence_sum", f"int64 i, bool go, double[{width}] y", "seq(double[k]) s")
    y = w["y"] + w("SequenceAt", w["s"], w["i"], kind="double")
    s = list(np.random.default_rng(0).standard_normal((n, width)))
    return Workload("sequence_sum", w.text(w.go, y), n, carried=(np.zeros(width),), captured={"s": s}, small=True)


WORKLOADS = (
    newton,
    nested,
    sequence,
    adds,
    collatz,
    bouncing_ball,
    if_on_index,
    early_exit,
    early_exit_batched,
    search,
    growing,
    many_collected,
    many_carried,
    text,
    sequence_sum,
)
