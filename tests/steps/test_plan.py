"""The plan of a loop, as ``explain()`` prints it, and that loops of each kind run as planned."""

import logging
import re

import numpy as np
import pytest

from mdf_loop import compile, loop, options
from mdf_loop.errors import ArgumentError, IterationError, MalformedBody

HEAD = "body (int64 i, bool go, double s) => (bool go_out, double t"


def explained(text, *given, source=False, steps=False, **named):
    planned = compile(text, **{k: named.pop(k) for k in ("num_scan_inputs",) if k in named})
    if given:
        planned(*given, **named)
    lines = planned.explain(source, steps).split("\n")
    return "\n".join(line for line in lines if "llvmlite is not installed" not in line)


def assert_bits_equal(results, expected):
    if not isinstance(expected, tuple):
        results, expected = (results,), (expected,)
    for actual, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(actual, wanted, strict=True)


def lines(text):
    return [line.strip() for line in text.strip().splitlines()]


def assert_explained(actual, expected):
    assert lines(actual) == lines(expected)


def test_what_depends_on_nothing_that_varies_is_hoisted():
    assert_explained(
        explained(f"{HEAD}) {{ go_out = Identity (go) a = Exp (w) b = Mul (a, w) t = Mul (s, b) }}"),
        """
        Loop over body: the trip count is given
        aliases, second names for values:
          go_out = Identity (go)
        hoisted, run once:
          a = Exp (w)
          b = Mul (a, w)
        batched, a block of iterations at once:
          t = Mul (s, b)  [multiply.accumulate]
        """,
    )


def test_what_needs_a_value_that_changes_once_is_hoisted_late():
    assert_explained(
        explained(f"{HEAD}, double u) {{ go_out = Identity (go) t = Identity (w) u = Exp (s) }}"),
        """
        Loop over body: the trip count is given
        aliases, second names for values:
          go_out = Identity (go)
          t = Identity (w)
        hoisted from the second iteration on:
          u = Exp (s)
        """,
    )


def test_recurrence_is_stepped_and_what_feeds_it_or_follows_is_batched():
    text = f"""{HEAD}, double d) {{ go_out = Identity (go) x = Gather (w, i) y = Sin (x)
        a = Mul (s, s) t = Sub (a, y) d = Cos (t) }}"""
    assert_explained(
        explained(text),
        """
        Loop over body: the trip count is given
        aliases, second names for values:
          go_out = Identity (go)
        batched, a block of iterations at once:
          x = Gather (w, i)
          y = Sin (x)
        stepped, one iteration after the other:
          a = Mul (s, s)  (s of the iteration before is needed)
          t = Sub (a, y)  (s of the iteration before is needed)
          s = t of the iteration before
        batched, a block of iterations at once:
          d = Cos (t)
        """,
    )


def test_recurrences_of_several_values_name_all_of_them():
    text = """body (int64 i, bool go, double v, double w) => (bool go_out, double v2, double w2)
        { go_out = Identity (go) a = Mul (v, w) v2 = Sub (a, w) w2 = Add (v, w) }"""
    assert "v2 = Sub (a, w)  (v and w of the iteration before are needed)" in explained(text)


@pytest.mark.parametrize("total", ["s = Add (a, r) z = Add (s, bias)", "s = Add (r, a) z = Add (bias, s)"])
def test_bias_is_added_to_the_product_that_needs_no_recurrence(total):
    text = f"""body (int64 i, bool go, float[2,4] h) => (bool go_out, float[2,4] h_out) {{
        go_out = Identity (go) x = Gather (xs, i) a = MatMul (x, W) r = MatMul (h, R) {total} h_out = Tanh (z) }}"""
    rng = np.random.default_rng(0)
    given = {"xs": (50, 2, 3), "W": (3, 4), "R": (4, 4), "bias": (4,)}
    captured = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in given.items()}
    call = (50, True, np.zeros((2, 4), np.float32))
    with options(engine="interpret"):
        expected = loop(*call, body=text, **captured)
    planned = compile(text)
    np.testing.assert_allclose(planned(*call, **captured), expected, rtol=1e-4, atol=1e-5)
    batched, stepped = planned.explain().split("stepped, ")
    assert "s = Add (a, bias)" in batched
    assert "z = Add (s, r)" in stepped
    kept = text.replace("float[2,4] h_out)", "float[2,4] h_out, float[2,4] s)", 1)
    assert "Add (a, bias)" not in compile(kept).explain()


def test_growing_sequence_is_an_idiom():
    text = """body (int64 i, bool go, seq(double[n]) s) => (bool go_out, seq(double[n]) t)
        { go_out = Identity (go) x = Gather (w, i) t = SequenceInsert (s, x) }"""
    assert "t = SequenceInsert (s, x)  [a list that grows]" in explained(text)


def test_value_fed_from_outside_its_recurrence_is_shifted():
    text = f"{HEAD}, double d) {{ go_out = Identity (go) t = Gather (w, i) d = Sub (t, s) }}"
    assert "s = t of the iteration before" in explained(text)
    assert "stepped" not in explained(text)


def test_condition_of_batched_values_ends_a_block():
    text = f"{HEAD}) {{ x = Gather (w, i) t = Add (s, x) go_out = Less (t, k) }}"
    assert explained(text).startswith(
        "Loop over body: the condition is looked at for a block of iterations; the first false one ends it"
    )


def test_what_the_condition_needs_is_batched_first_so_that_nothing_else_runs_beyond_the_end():
    text = f"{HEAD}, double d) {{ y = Gather (v, i) d = Exp (y) x = Gather (w, i) t = Add (s, x) go_out = Less (t, k) }}"
    assert_explained(
        explained(text),
        """
        Loop over body: the condition is looked at for a block of iterations; the first false one ends it
        batched, a block of iterations at once:
          x = Gather (w, i)
          t = Add (s, x)  [add.accumulate]
          go_out = Less (t, k)
        batched, a block of iterations at once:
          y = Gather (v, i)
          d = Exp (y)
        """,
    )


def test_part_of_a_condition_that_is_known_ahead_ends_a_block():
    """The rows that an iteration behind the last one would take are not there: a block that went on would fail."""
    text = """walk (int64 i, bool go, double x, int64 n) => (bool go_out, double t, int64 n_out) {
      n_out = Add (n, one) early = Less (n_out, most) at = Reshape (n, size) to = Add (at, size) p = Slice (w, at, to)
      r = Squeeze (p, nought) s = Mul (x, x) t = Sub (s, r) near = Less (t, far) go_out = And (early, near)
    }"""
    found = explained(text)
    assert "up to the first false condition" in found
    assert found.index("early = Less") < found.index("p = Slice")
    given = {"w": np.linspace(0.1, 0.4, 50), "one": 1, "most": 50, "size": np.array([1]), "nought": np.array([0]), "far": 9.0}
    results = {}
    for engine in ("interpret", "numpy"):
        with options(engine=engine):
            planned = compile(text)
            results[engine] = planned(1 << 62, True, 0.2, 0, **given)
    assert results["numpy"] == results["interpret"]
    assert results["numpy"][1] == 50
    assert "failed" not in planned.explain()


def test_shapes_that_are_made_of_constants_are_known_to_what_is_stepped():
    """So that it reshapes in the open, without a call."""
    text = f"""{HEAD}) {{ go_out = Identity (go) n = Constant <value_ints = [2]> () m = Constant <value_ints = [3]> ()
      shape = Concat <axis = 0> (n, m) a = Mul (s, s) b = Expand (a, shape) c = Sin (b) t = ReduceMax <keepdims = 0> (c) }}"""
    with options(engine="numpy"):
        planned = compile(text)
        planned(40_000, True, 0.5)
    found = planned.explain(True, True)
    assert "shape = Concat" in found[: found.index("stepped")]  # hoisted
    assert "broadcast" in found
    assert "apply Expand" not in found


def test_block_that_fails_does_not_have_its_programs_written_again(caplog):
    """What fails is what the loop would read behind its end; the types are what they were."""
    text = f"{HEAD}) {{ x = Gather (w, i) a = Mul (s, s) t = Add (a, x) go_out = Less (t, k) }}"
    w = np.append(np.full(4999, 0.1), 5.0)  # the last row ends the loop, in the middle of a block
    with options(engine="numpy"), caplog.at_level(logging.INFO, "mdf_loop"):
        planned = compile(text)
        found = [planned(1 << 62, True, 0.5, w=w, k=1.0)]
        assert "failed" in planned.explain()
        caplog.clear()
        found.append(planned(1 << 62, True, 0.5, w=w, k=1.0))
    assert not [record for record in caplog.records if "printed" in record.getMessage()]
    assert found[0] == found[1]


def test_condition_of_a_recurrence_is_stepped_with_it():
    text = f"{HEAD}, double d) {{ a = Mul (s, s) t = Sub (a, k) b = Abs (t) go_out = Less (b, k) d = Exp (t) }}"
    assert_explained(
        explained(text),
        """
        Loop over body: the condition is looked at in each iteration
        stepped, one iteration after the other, up to the first false condition:
          a = Mul (s, s)  (s of the iteration before is needed)
          t = Sub (a, k)  (s of the iteration before is needed)
          b = Abs (t)  (the condition needs it, and it needs what is stepped)
          go_out = Less (b, k)  (the condition needs it, and it needs what is stepped)
          s = t of the iteration before
        batched, a block of iterations at once:
          d = Exp (t)
        """,
    )


def test_random_numbers_are_drawn_in_order():
    text = f"{HEAD}, double r) {{ go_out = Identity (go) r = RandomNormalLike (s) t = Add (s, r) }}"
    assert "r = RandomNormalLike (w)  (draws random numbers, in order)" in explained(
        f"{HEAD}, double r) {{ go_out = Identity (go) r = RandomNormalLike (w) t = Add (s, r) }}"
    )
    assert "(s of the iteration before is needed)" in explained(text)


def test_scan_and_inner_loops_are_explained():
    text = "body (double s, double x) => (double t, double y) { t = Add (s, x) y = Mul (t, x) }"
    assert_explained(
        explained(text, num_scan_inputs=1),
        """
        Scan over body: the trip count is given
        batched, a block of iterations at once:
          t = Add (s, x)  [add.accumulate]
          y = Mul (t, x)
        """,
    )
    inner = "inner (int64 j, bool c, double a) => (bool c, double b) { b = Add (a, s) }"
    text = f"""{HEAD}) {{ go_out = Identity (go) n = Constant <value_int = 3> () t = Loop (n, go, s) <body = {inner}> }}"""
    found = explained(text)
    assert "inside Loop -> t:" in found
    assert "b = Add (a, s)  [add.accumulate]" in found


def test_source_and_steps_show_the_program_of_the_last_call():
    text = f"{HEAD}) {{ go_out = Identity (go) a = Mul (s, s) t = Sub (a, k) }}"
    with options(engine="numpy"):
        assert "as Python" not in explained(text, source=True)
        assert "as a Step" not in explained(text, steps=True)
        found = explained(text, 50, True, 0.5, k=0.25, source=True)
        assert "the last run, of 50 iterations, was one program in Python\n  as Python:\n" in found
        assert "for i" in found
        assert "as a Step" not in found
        assert "= mul f, f" in explained(text, 50, True, 0.5, k=0.25, steps=True)
        found = explained(text, 20_000, True, 0.5, k=0.25, source=True, steps=True)
        assert found.index("  as a Step:\n    step (") < found.index("  as Python:\n    def program(")
        assert found.endswith("the last run had 20000 iterations")


def test_explain_tells_of_machine_code():
    pytest.importorskip("llvmlite")
    text = f"{HEAD}) {{ go_out = Identity (go) a = Mul (s, s) t = Sub (a, k) }}"
    with options(engine="jit"):
        found = explained(text, 50, True, 0.5, k=0.25, source=True, steps=True)
    assert re.search(r"was one program in machine code \([\d,]+ bytes, made in \d+ ms\)\n  as a Step:", found)
    assert "as Python" not in found
    with options(engine="jit", timeout=60):
        found = explained(text, 20_000, True, 0.5, k=0.25, steps=True)
    assert re.search(r"  in machine code \([\d,]+ bytes, made in \d+ ms\)\n  as a Step:", found)


@pytest.mark.parametrize("count", [5, 20_000])
def test_explain_says_why_there_is_no_machine_code(count):
    pytest.importorskip("llvmlite")
    text = """b (int64 i, bool go, double s, string[n] u) => (bool go_out, double t, string[n] u_out)
        { go_out = Identity (go) t = Add (s, s) u_out = StringNormalizer <case_change_action = "UPPER"> (u) }"""
    with options(engine="jit"):
        found = explained(text, count, True, 0.5, np.array(["a"], object))
    assert re.search("not machine code: .+", found)
    assert ("one program in Python" in found) == (count == 5)


def test_what_is_no_machine_code_runs_in_the_blocks_of_the_plan():
    """And not one iteration after the other at first, which is for what might be."""
    pytest.importorskip("llvmlite")
    text = """b (int64 i, bool go, string s) => (bool go_out, string t)
        { go_out = Identity (go) u = Gather (pieces, i) t = StringConcat (s, u) }"""
    text, given = {"onnx": text, "opset": 20}, (1000, True, np.array("", object))
    found = {}
    for engine in ("numpy", "jit"):
        with options(engine=engine):
            found[engine] = explained(text, *given, pieces=np.array(["a"] * 1000, object))
    assert "the last run had 1000 iterations" in found["numpy"]
    assert "the last run had 1000 iterations" in found["jit"]
    assert "not machine code: " in found["jit"]


def test_explain_shows_the_plan_for_wide_rows_once_they_came():
    text = """b (int64 i, bool go, double[n] s) => (bool go_out, double[n] t, double[n] u)
        { go_out = Identity (go) t = Add (s, w) u = Sin (t) }"""
    planned = compile(text)
    with options(engine="numpy"):  # what engine auto runs depends on the clock
        planned(200, True, np.zeros(5), w=np.ones(5))
        assert "add.accumulate" in planned.explain()
        planned(200, True, np.zeros(5000), w=np.ones(5000))
    assert "u = Sin (t)  (its values are wide)" in planned.explain()


def test_explain_tells_of_blocks_that_the_interpreter_had_to_run():
    planned = compile(f"{HEAD}) {{ go_out = Identity (go) x = Gather (w, i) t = Add (s, x) }}")
    assert planned(100, True, 0.0, w=np.ones(100)) == 100.0
    assert "a block that failed" not in planned.explain()
    with options(engine="numpy"), pytest.raises(IterationError):  # machine code has another way to say so
        planned(200, True, 0.0, w=np.ones(100))
    assert "a block that failed: 32 iterations were given back to the interpreter: IndexError" in planned.explain()


KINDS = {
    "scalars": (f"{HEAD}) {{ go_out = Identity (go) a = Mul (s, s) t = Sub (a, k) }}", (0.5,), {"k": 0.75}),
    "vectors": (
        """b (int64 i, bool go, double[n] s) => (bool go_out, double[n] t)
        { go_out = Identity (go) a = Mul (s, s) t = Sub (a, k) }""",
        (np.linspace(0, 1, 7),),
        {"k": 0.75},
    ),
    "whole numbers": (
        "b (int64 i, bool go, int64 s) => (bool go_out, int64 t) { go_out = Identity (go) a = Mul (s, k) t = Add (a, i) }",
        (3,),
        {"k": 6364136223846793005},
    ),
    "singles": (
        "b (int64 i, bool go, float s) => (bool go_out, float t) { go_out = Identity (go) a = Mul (s, s) t = Sub (a, k) }",
        (np.float32(0.5),),
        {"k": np.float32(0.75)},
    ),
    "handed on": (
        """b (int64 i, bool go, double x, double y, double z) => (bool go_out, double y, double z, double t, double y2)
        { go_out = Identity (go) a = Mul (x, k) t = Sub (a, z) y2 = Identity (y) }""",
        (0.1, 0.2, 0.3),
        {"k": 0.75},
    ),
    "swapped": (
        """b (int64 i, bool go, double x, double y) => (bool go_out, double y, double x, double y2)
        { go_out = Identity (go) y2 = Sin (y) }""",
        (0.1, 0.2),
        {},
    ),
    "growing": (
        "b (int64 i, bool go, double[n] s) => (bool go_out, double[m] t) { go_out = Identity (go) t = Concat <axis = 0> (s, k) }",
        (np.ones(2),),
        {"k": np.array([0.5])},
    ),
    "flags": (
        "b (int64 i, bool go, bool s) => (bool go_out, bool t) { go_out = Identity (go) a = Not (s) t = Xor (a, k) }",
        (True,),
        {"k": False},
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_no_block_of_an_ordinary_loop_is_given_up(name, caplog):
    text, carried, captured = KINDS[name]
    with caplog.at_level(logging.DEBUG, "mdf_loop"):
        results = compile(text)(200, True, *carried, **captured)
    assert "failed" not in caplog.text
    with options(engine="interpret"):
        expected = loop(200, True, *carried, body=text, **captured)
    assert_bits_equal(results, expected)


def test_compile_refuses_what_it_cannot_plan():
    with pytest.raises(ArgumentError, match="compile: body is missing"):
        compile(None)
    with pytest.raises(ArgumentError, match="a Python callable runs as it is"):
        compile(lambda i, go, x: (go, x))
    with pytest.raises(ArgumentError, match="scan_input_axes belong to a Scan; give num_scan_inputs as well"):
        compile(f"{HEAD}) {{ go_out = Identity (go) t = Neg (s) }}", scan_input_axes=[0])
    with pytest.raises(ArgumentError, match="num_scan_inputs must be a whole number from 1 to 1; got 2"):
        compile("b (double x) => (double y) { y = Neg (x) }", num_scan_inputs=2)
    with pytest.raises(MalformedBody):
        compile("b (double x) => (double y) { y = Neg (z ")


def test_compiled_loop_takes_arguments_like_loop():
    text = f"{HEAD}, double u) {{ go_out = Identity (go) t = Add (s, w) u = Mul (t, t) }}"
    planned = compile(text)
    for given in ((4, True, 1.0), (np.array([4]), None, 1)):
        assert_bits_equal(planned(*given, w=2.0), loop(*given, body=text, w=2.0))
    assert_bits_equal(planned(M=3, cond=True, v_initial=0.5, w=2.0), loop(M=3, cond=True, v_initial=0.5, body=text, w=2.0))
    assert repr(planned) == "<Loop over <Body 'body': 3 inputs, 3 nodes, 3 outputs>>"


WRONG = [
    ((4, True), {"w": 2.0}),
    ((4, True, 1.0, 2.0), {"w": 2.0}),
    ((4.5, True, 1.0), {"w": 2.0}),
    ((4, True, 1.0), {}),
    ((4, True, 1.0), {"w": "text"}),
    ((4, True, 1.0), {"w": 2.0, "v": 1.0}),
    (("", "", 1.0), {"w": 2.0}),
]


@pytest.mark.parametrize(("given", "captured"), WRONG)
def test_compiled_loop_refuses_what_loop_refuses(given, captured):
    text = f"{HEAD}) {{ go_out = Identity (go) t = Add (s, w) }}"
    with pytest.raises(ArgumentError) as expected:
        loop(*given, body=text, **captured)
    with pytest.raises(type(expected.value)):
        compile(text)(*given, **captured)


SETTLING = {
    "false": "w = Xor (a, a) z = Add (y, k)",
    "true": "w = Or (a, a) z = Add (y, k)",
    "false, and a recurrence that is stepped": "w = Xor (a, a) q = Mul (y, y) z = Sub (q, k)",
}


@pytest.mark.parametrize("text", SETTLING.values(), ids=list(SETTLING))
def test_condition_that_changes_once_ends_the_loop_where_it_does(text):
    body = f"b (int64 i, bool go, bool v, double y) => (bool v, bool w, double z) {{ {text} }}"
    with options(engine="interpret"):
        expected = loop(50, True, True, 1.0, body=body, a=True, k=1.0)
    with options(engine="numpy"):
        assert_bits_equal(loop(50, True, True, 1.0, body=body, a=True, k=1.0), expected)


def test_loop_that_runs_out_of_memory_ends_and_keeps_what_it_has(monkeypatch):
    from mdf_loop.execute.collect import Growing

    extend = Growing.extend

    def short_of_memory(self, rows, most):
        if self.length + len(rows) > 10_000:
            raise MemoryError("Unable to allocate")
        extend(self, rows, most)

    monkeypatch.setattr(Growing, "extend", short_of_memory)
    text = f"{HEAD}, double u) {{ go_out = Identity (go) t = Add (s, w) u = Identity (t) }}"
    with options(block_bytes=1000), pytest.raises(IterationError, match="not enough memory for the next iterations") as raised:
        loop(10**9, True, 0.0, body=text, w=1.0)
    carried, collected = raised.value.partial
    assert raised.value.iteration == len(collected) == carried <= 10_000
    assert isinstance(raised.value.__cause__, MemoryError)
