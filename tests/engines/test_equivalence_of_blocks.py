"""Engines that run many iterations at once give what ``interpret`` gives, wherever a block of iterations begins or ends."""

import threading
from pathlib import Path

import numpy as np
import pytest
from engines import OTHERS
from equivalence import assert_equal, assert_same_on_every_engine, outcome

import mdf_loop
from mdf_loop import loop, options, scan
from mdf_loop.execute.numpy_engine import watched_loops

LENGTHS = [4, 5, 64, 65, 66, 321, 2000]
EXAMPLES = Path(__file__).parents[2] / "examples"


def run(text, m, cond, *carried, opset=20, **captured):
    return lambda: loop(m, cond, *carried, body={"onnx": text, "opset": opset}, **captured)


def ended_by_number(text, k):
    """The same body, ended after ``k`` iterations by its iteration number: a condition that runs batched."""
    return text.replace("go_out = Identity (go)", f"last = Constant <value_int = {k - 1}> () go_out = Less (i, last)")


RECURRENCES = {
    "sum": "y_out = Add (y, x)",
    "difference": "y_out = Sub (y, x)",
    "product": "y_out = Mul (x, y)",
    "largest": "y_out = Max (y, x)",
    "filter": "t = Mul (y, half) y_out = Add (t, x)",
    "stepped": "t = Mul (y, y) u = Sub (x, t) y_out = Mul (u, half)",
    "delayed": "y_out = Identity (x)",
    "kept": "y_out = Identity (y)",
    "branch": "c = Less (x, y) y_out = If (c) <then_branch = t () => (a) { a = Mul (x, half) }, "
    "else_branch = e () => (b) { b = Add (x, half) }>",
}


ENDED = [(dtype, k) for dtype in ("double", "int64") for k in LENGTHS]
ENDED += [(dtype, k) for dtype in ("float", "float16", "int16", "uint8") for k in (65,)]
"""Element types and lengths: where blocks begin and end is the same for all types, what happens there may not be."""


@pytest.mark.parametrize(("dtype", "k"), ENDED)
@pytest.mark.parametrize("how", RECURRENCES)
def test_carried_value_when_a_batched_condition_ends_the_loop(how, dtype, k):
    text = f"""ended (int64 i, bool go, {dtype} y) => (bool go_out, {dtype} y_out, {dtype} before, {dtype} after) {{
        go_out = Identity (go) x = Gather (table, i) {RECURRENCES[how]} before = Identity (y) after = Identity (y_out) }}"""
    numpy_type = {"double": np.float64, "float": np.float32}.get(dtype) or np.dtype(dtype).type
    table = (np.random.default_rng(0).random(2100) * 4).astype(numpy_type)
    captured = {"table": table} | ({"half": numpy_type(0.5)} if "half" in text else {})
    expected = assert_same_on_every_engine(run(ended_by_number(text, k), 10**7, True, numpy_type(1), **captured))
    assert len(expected.results[1]) == k
    alone = text.replace(" before, ", " nothing, ").replace(
        "before = Identity (y) after = Identity (y_out)", "nothing = Identity (x)"
    )
    alone = alone.replace(f", {dtype} after", "")
    assert_same_on_every_engine(run(ended_by_number(alone, k), 10**7, True, numpy_type(1), **captured))


@pytest.mark.parametrize("k", LENGTHS)
@pytest.mark.parametrize("added", ["x", "same", "i"])
@pytest.mark.parametrize("read", [False, True])
def test_sequence_when_a_batched_condition_ends_the_loop(k, added, read):
    more, size = (", int64 size", "size = SequenceLength (s_out)") if read else ("", "")
    kind = "int64" if added == "i" else "double"
    text = f"""ended (int64 i, bool go, seq({kind}) s, double y) => (bool go_out, s_out, y_out{more}) {{
        go_out = Identity (go) x = Gather (table, i) y_out = Add (y, x) s_out = SequenceInsert (s, {added}) {size} }}"""
    captured = {"table": np.arange(2100.0)} | ({"same": np.float64(3)} if added == "same" else {})
    start = [np.array(0)] if added == "i" else [np.array(0.5)]
    expected = assert_same_on_every_engine(run(ended_by_number(text, k), 10**7, True, start, 0.0, **captured))
    assert len(expected.results[0]) == k + 1


@pytest.mark.parametrize("k", LENGTHS)
@pytest.mark.parametrize("how", RECURRENCES)
def test_condition_that_depends_on_a_recurrence(how, k):
    text = f"""ended (int64 i, bool go, double y, int64 n) => (bool go_out, double y_out, int64 n_out, double after) {{
        x = Gather (table, i) {RECURRENCES[how]} one = Constant <value_int = 1> () n_out = Add (n, one)
        near = Less (n_out, k) calm = Less (y_out, huge) go_out = And (near, calm) after = Identity (y_out) }}"""
    captured = {"table": np.random.default_rng(0).random(2100) * 2, "k": np.int64(k), "huge": np.float64(np.inf)}
    captured |= {"half": np.float64(0.5)} if "half" in text else {}
    assert_same_on_every_engine(run(text, None, True, 0.5, 0, **captured))


@pytest.mark.parametrize("k", [3, 4, 63, 64, 65, 66, 320, 1344, 1345, 1346, 5000])
@pytest.mark.parametrize("block_bytes", [1, 5000, None])
def test_failure_at_the_edge_of_a_block(k, block_bytes):
    text = """failing (int64 i, bool go, double y, double z) => (bool go_out, y_out, z_out, row, other) {
        go_out = Identity (go) row = Gather (table, i) y_out = Add (y, row) t = Mul (z, y_out)
        z_out = Tanh (t) other = Mul (row, z) }"""
    chosen = {} if block_bytes is None else {"block_bytes": block_bytes}
    expected = assert_same_on_every_engine(run(text, 6000, True, 0.0, 0.5, table=np.linspace(0, 1, k)), exact=False, **chosen)
    assert expected.error.iteration == k


@pytest.mark.parametrize("block_bytes", [1, 100, 3000])
def test_size_of_blocks_changes_nothing(block_bytes, rng):
    text = """mixed (int64 i, bool go, double[4] y, double z, seq(double[4]) s) => (bool go_out, y_out, z_out, s_out, row, u, y) {
        go_out = Identity (go) row = Gather (table, i) y_out = Add (y, row) top = ReduceMax <keepdims = 0> (y_out)
        half = Mul (z, k) z_out = Sub (top, half) s_out = SequenceInsert (s, row) u = RandomNormalLike (z) }"""
    given = [np.zeros(4), 0.0, [np.ones(4)]]
    expected = assert_same_on_every_engine(
        run(text, 1500, True, *given, table=rng.standard_normal((1500, 4)), k=np.float64(0.5)), block_bytes=block_bytes
    )
    assert expected.error is None


@pytest.mark.parametrize("feed", ["w = Not (v)", "w = Less (n, k)", "w = Identity (u)", "w = Gather (flags, i)"])
@pytest.mark.parametrize("k", [0, 1, 3, 70])
def test_condition_that_is_a_value_of_the_iteration_before(feed, k):
    text = f"""late (int64 i, bool go, bool v, bool u, int64 n) => (bool v, bool w, bool u_out, int64 m, int64 i) {{
        {feed} u_out = Less (n, k) one = Constant <value_int = 1> () m = Add (n, one) }}"""
    captured = {"k": np.int64(k)} | ({"flags": np.arange(300) != k} if "flags" in feed else {})
    for start in (True, False):
        assert_same_on_every_engine(run(text, 200, True, start, True, 0, **captured))


@pytest.mark.parametrize("condition", ["v", "w", "on", "u"])
@pytest.mark.parametrize("feed", ["w = Not (v)", "w = Less (j, place)", "w = Identity (on)"])
def test_loop_inside_ends_by_a_value_that_is_carried(condition, feed):
    text = f"""outer (int64 i, bool go, double y) => (bool go_out, double y_out, int64 count, bool last) {{
        go_out = Identity (go) place = Mod (i, five) fit = Less (i, five) six = Constant <value_int = 6> ()
        y_out, last, rows = Loop (six, go, y, fit) <body = inner (int64 j, bool on, double z, bool v)
            => (bool {condition if condition in ("v", "w", "on") else "u"}, double z_1, bool w, int64 j) {{
                {feed} u = Less (j, i) h = Mul (z, half) z_1 = Add (h, half) }}>
        size = Shape (rows) count = ReduceSum <keepdims = 0> (size) }}"""
    captured = {"five": np.int64(5), "half": np.float64(0.5)}
    expected = assert_same_on_every_engine(run(text, 100, True, 8.0, **captured))
    assert expected.error is None


@pytest.mark.parametrize("m", [20, 60])
def test_recurrence_that_does_not_fit_its_idiom_beside_a_stepped_condition(m, rng):
    text = """ended (int64 i, bool go, double y, seq(double[1]) s, double w) => (bool go_out, y_out, s_out, w_out)
        <double half = {0.5}, double tenth = {0.1}, double end = {0.19}> {
        x = Gather (table, i) t = Mul (y, k) y_out = Add (t, x) s_out = SequenceInsert (s, new)
        c = Mul (w, half) d = Add (c, tenth) w_out = Sin (d) go_out = Less (w_out, end) }"""
    given = {"table": rng.random(m), "k": np.float64(-0.5), "new": np.zeros(1)}
    expected = assert_same_on_every_engine(run(text, m, True, 1.0, [np.ones(1)], 0.0, **given))
    assert 2 < len(expected.results[1]) < 10


INSIDE = {
    "loop": "a, rows = Loop (three, , x) <body = t (int64 j, bool on, double v) => (bool on, double w, double v) "
    "{ w = Mul (v, half) }>",
    "branch": "a = If (flag) <then_branch = p () => (d) { d = Neg (half) }, else_branch = q () => (e) { e = Identity (half) }>",
}


@pytest.mark.parametrize("inside", INSIDE)
def test_branch_with_a_loop_or_a_branch_inside_runs_in_blocks(inside, rng):
    text = f"""nested (int64 i, bool go, double y) => (bool go_out, y_out, row) <int64 three = {{3}}, int64 five = {{5}}> {{
        go_out = Identity (go) x = Gather (table, i) c = Less (i, five)
        row = If (c) <then_branch = t () => (a) {{ {INSIDE[inside]} }}, else_branch = f () => (b) {{ b = Identity (x) }}>
        y_out = Mul (y, half) }}"""
    captured = {"table": rng.random(60), "half": np.float64(0.5)} | ({"flag": np.True_} if "flag" in text else {})
    call = run(text, 60, True, 1.0, **captured)
    assert assert_same_on_every_engine(call).error is None
    with options(engine="numpy"), watched_loops() as loops:
        call()
    assert (loops[0].latest is not None, loops[0].last_failure) == (True, "")


# Random numbers

IN_A_RECURRENCE = {
    "node": "r = RandomNormalLike (y)",
    "branch": "c = Less (x, y) r = If (c) <then_branch = t () => (a) { a = RandomNormalLike (y) }, "
    "else_branch = e () => (b) { b = RandomUniformLike (x) }>",
    "loop": "two = Constant <value_int = 2> () "
    "r = Loop (two, go, y) <body = inner (int64 j, bool on, double z) => (bool on_1, double z_1) "
    "{ on_1 = Identity (on) q = RandomNormalLike (z) z_1 = Add (z, q) }>",
}


@pytest.mark.parametrize("where", IN_A_RECURRENCE)
@pytest.mark.parametrize("m", [4, 7, 70, 500])
def test_random_numbers_in_a_recurrence(where, m):
    text = f"""drawing (int64 i, bool go, double y) => (bool go_out, double y_out, double s, double u) {{
        go_out = Identity (go) x = Gather (table, i) {IN_A_RECURRENCE[where]} t = Mul (r, half)
        v = Sub (t, y) y_out = Mul (v, half) s = Identity (r) u = RandomUniformLike (x) }}"""
    captured = {"table": np.linspace(-1, 1, 500), "half": np.float64(0.5)}
    expected = assert_same_on_every_engine(run(text, m, True, 0.25, **captured))
    assert expected.error is None


@pytest.mark.parametrize("k", LENGTHS)
@pytest.mark.parametrize("where", IN_A_RECURRENCE)
def test_random_numbers_of_a_recurrence_that_decides(where, k):
    text = f"""drawing (int64 i, bool go, double y, int64 n) => (bool go_out, double y_out, int64 n_out, double s, double u) {{
        x = Gather (table, i) {IN_A_RECURRENCE[where]} t = Mul (r, half) v = Sub (t, y) y_out = Mul (v, half)
        one = Constant <value_int = 1> () n_out = Add (n, one) near = Less (n_out, k)
        calm = Less (y_out, huge) go_out = And (near, calm) s = Identity (r) u = RandomUniformLike (x) }}"""
    captured = {"table": np.linspace(-1, 1, 2001), "half": np.float64(0.5), "k": np.int64(k), "huge": np.float64(np.inf)}
    expected = assert_same_on_every_engine(run(text, 2001, True, 0.25, 0, **captured))
    assert len(expected.results[2]) == k


# Signed zeros, memory, threads


@pytest.mark.parametrize("coefficient", [-0.5, 0.5, -0.0, 0.0])
@pytest.mark.parametrize("start", [0.0, -0.0, 5e-324, -5e-324])
def test_filter_of_signed_zeros(coefficient, start, rng):
    text = """filter (int64 i, bool go, double y) => (bool go_out, y_out, s) {
        go_out = Identity (go) x = Gather (table, i) t = Mul (y, k) y_out = Add (t, x) s = Identity (y_out) }"""
    table = rng.choice([0.0, -0.0], 200)
    assert_same_on_every_engine(run(text, 200, True, start, table=table, k=np.float64(coefficient)))


@pytest.mark.parametrize("output", ["row = Gather (x, i)", "row = Identity (z)", "row = Identity (y)", "row = Identity (y_out)"])
def test_results_share_no_memory_with_what_was_given(output, rng):
    text = f"""sharing (int64 i, bool go, double[4] y, double[4] z) => (bool go_out, y_out, z_out, row) {{
        go_out = Identity (go) y_out = Gather (x, i) z_out = Add (z, y_out) {output} }}"""
    for engine in (*OTHERS, "interpret"):
        given = [rng.standard_normal(4), rng.standard_normal(4)]
        x = rng.standard_normal((100, 4))
        with options(engine=engine):
            results = run(text, 100, True, *given, x=x)()
        for value in results:
            assert value.flags.writeable
            assert not any(np.shares_memory(value, array) for array in (*given, x))
        assert not any(np.shares_memory(a, b) for k, a in enumerate(results) for b in results[:k])


def test_scanned_input_that_is_collected_as_it_is_is_a_copy(rng):
    x = rng.standard_normal((100, 4))
    for engine in (*OTHERS, "interpret"):
        with options(engine=engine):
            total, rows = scan(
                np.zeros(4), x, body="s (double[4] y, double[4] x) => (y_out, x) { y_out = Add (y, x) }", num_scan_inputs=1
            )
        assert np.array_equal(rows, x)
        assert not np.shares_memory(rows, x)
        rows[:] = 0
        total[:] = 0
        assert x.any()


def test_loop_runs_in_several_threads_at_once():
    text = """shared (int64 i, bool go, double[3] y, double z) => (bool go_out, y_out, z_out, s) {
        go_out = Identity (go) row = Gather (table, i) t = Mul (y, row) y_out = Sub (row, t)
        top = ReduceMax <keepdims = 0> (y_out) u = Mul (z, top) z_out = Sub (top, u) s = Add (y_out, z) }"""
    tables = [np.random.default_rng(k).random((700 + 100 * k, 3)) for k in range(6)]
    calls = [run(text, len(table), True, table[0], 0.5, table=table) for table in tables]
    expected = [outcome("interpret", call).results for call in calls]
    for engine in OTHERS:
        found = [None] * len(calls)

        def work(k, engine=engine, found=found):
            found[k] = [outcome(engine, calls[k]).results for _ in range(5)]

        threads = [threading.Thread(target=work, args=(k,)) for k in range(len(calls))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for wanted, runs in zip(expected, found, strict=True):
            assert runs is not None
            for results in runs:
                for actual, value in zip(results, wanted, strict=True):
                    assert_equal(actual, value, True, engine)


# Whole models


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_example_gives_the_same_on_every_engine(path):
    def call():
        outputs = mdf_loop.run(path)
        return tuple(np.asarray(outputs[name]) for name in sorted(outputs))  # MDF's own outputs may be Python's numbers

    expected = assert_same_on_every_engine(call, exact=False)
    assert expected.error is None


@pytest.mark.parametrize("m", [2, 5, 70, 400])
def test_mdf_body_of_expressions_is_the_same_on_every_engine(m):
    body = {
        "graph_neuron": {
            "metadata": {"inputs": ["i", "go", "v", "u"], "outputs": ["go", "v_out", "u_out", "trace", "n"]},
            "nodes": {
                "step": {
                    "input_ports": {"v": {}, "u": {}, "i": {}, "current": {}},
                    "parameters": {
                        "dt": {"value": 0.05},
                        "n": {"value": "n + 2", "default_initial_value": 1},
                    },
                    "output_ports": {
                        "v_out": {"value": "v + dt * (v - v**3 / 3 - u + current)"},
                        "u_out": {"value": "u + dt * 0.08 * (v + 0.7 - 0.8 * u)"},
                        "trace": {"value": "v * 2 - i"},
                        "n": {"value": "n"},
                    },
                }
            },
        }
    }
    assert_same_on_every_engine(lambda: loop(m, True, -1.0, 0.0, body=body, current=0.5), exact=False)
    assert_same_on_every_engine(lambda: loop(m, True, np.linspace(-1, 1, 5), np.zeros(5), body=body, current=0.5), exact=False)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("then", [True, False])
def test_body_without_nodes_whose_condition_changes_once(first, then):
    text = "empty (int64 i, bool go, int64 x, bool y) => (bool y, int64 k, bool later) { }"
    expected = assert_same_on_every_engine(
        run(text, 5, True, 7, first, k=np.int64(3), later=np.bool_(then)), obey_body_condition=True
    )
    assert expected.results[0] == 3
