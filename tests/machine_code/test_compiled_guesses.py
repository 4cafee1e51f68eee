"""What a program takes for granted and looks at when it runs: parts of a known length; in machine code, lists that are rows."""

import numpy as np
import onnx
import pytest

pytest.importorskip("llvmlite")

from mdf_loop import backend, options
from mdf_loop.errors import IterationError
from mdf_loop.execute.programs import Programs
from mdf_loop.options import start_run
from mdf_loop.step.failing import guessing
from mdf_loop.step.lower import lower_graph
from mdf_loop.step.printed import printed
from mdf_loop.step.records import Type
from mdf_loop.step.structure import values_in

X = np.arange(40, dtype=np.float32).reshape(10, 4)


def model(inner, outputs, carried="float[4] c", start="", more=""):
    """A model: a loop of n iterations over x, in each of which i1 is the number of the iteration as a vector."""
    before, first = (f"{start} ", "start") if start else ("", "c0")
    text = f"""<ir_version: 8, opset_import: ["": 18]>
    m (float[10,4] x, int64 n, float[4] c0) => ({outputs}) <int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] three = {{3}},
      int64[1] nought = {{0}}, int64 last = {{-1}}, float[4] zeros = {{0, 0, 0, 0}}, float half = {{0.5}}, bool true = {{1}}> {{
      {before}y = Loop (n, true, {first}) <body = b (int64 i, bool go, {carried}) => (bool go_1, c_1) {{
        go_1 = Identity (go) i1 = Reshape (i, one) {inner}
      }}> {more}
    }}"""
    return onnx.parser.parse_model(text)


def results(given, n, engine, x=X):
    """Three calls of a prepared model: what they give, or the kind of error."""
    with options(engine=engine):
        prepared = backend.prepare(given)
        found = []
        for _ in range(3):
            try:
                found = prepared.run({"x": x, "n": np.int64(n), "c0": np.ones(4, np.float32)})
            except Exception as error:
                return type(error), prepared
        return found, prepared


def assert_alike(given, n, engine="jit"):
    expected, _ = results(given, n, "interpret")
    found, prepared = results(given, n, engine)
    if isinstance(expected, type):
        assert found is expected
        return prepared
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-6)
    return prepared


def the_programs(prepared) -> Programs:
    return prepared.graph._programs


def has_window(programs: Programs) -> bool:
    return any(v.op == "window" for v in values_in(programs.latest.step))


PARTS = {
    "rows": "e = Add (i1, three) p = Slice (x, i1, e, nought) s = ReduceSum <keepdims = 0> (p, nought) c_1 = Add (c, s)",
    "columns": "e = Add (i1, two) p = Slice (x, i1, e, one) s = ReduceMax <keepdims = 0> (p) c_1 = Add (c, s)",
    "before a place": """b = Sub (i1, one) e = Add (i1, one) p = Slice (x, b, e, nought) s = ReduceMax <keepdims = 0> (p)
      c_1 = Add (c, s)""",
    "both axes": """z = Concat <axis = 0> (i1, nought) w = Concat <axis = 0> (two, three) e = Add (z, w) p = Slice (x, z, e)
      s = ReduceSum <keepdims = 0> (p) c_1 = Add (c, s)""",
    "one row": "e = Add (one, i1) p = Slice (x, i1, e, nought) q = Squeeze (p, nought) c_1 = Add (c, q)",
}


@pytest.mark.parametrize("engine", ["jit", "numpy"])
@pytest.mark.parametrize("count", [0, 1, 3, 5, 9, 13])
@pytest.mark.parametrize("name", PARTS)
def test_parts_from_a_computed_place_on(name, count, engine):
    """Inside, at the end where they are shorter, behind it, and in front of the beginning."""
    assert_alike(model(PARTS[name], "y"), count, engine)


@pytest.mark.parametrize("engine", ["jit", "numpy"])
def test_a_part_has_a_known_length_as_long_as_it_lies_inside(engine):
    given = model(PARTS["rows"], "y")
    assert has_window(the_programs(assert_alike(given, 5, engine)))
    programs = the_programs(assert_alike(given, 10, engine))  # the last parts are shorter
    assert programs.latest is not None, "the program is written once more, without guessing"
    assert (programs.latest.size > 0) is (engine == "jit")
    assert not has_window(programs)


def test_machine_code_and_python_are_made_of_one_step():
    """With a part at a computed place, of which both take for granted that it lies inside; it is lowered once."""
    _, prepared = results(model(PARTS["rows"], "y"), 5, "numpy")
    programs = the_programs(prepared)
    step = programs.latest.step
    with options(engine="jit"):
        prepared.run({"x": X, "n": np.int64(5), "c0": np.ones(4, np.float32)})
    assert programs.latest.size > 0
    assert programs.latest.step is step


def test_only_who_says_so_guesses():
    body = backend.prepare(model(PARTS["rows"], "y")).body
    types = [Type(np.dtype(np.float32), (10, 4)), Type(np.dtype(np.int64), ()), Type(np.dtype(np.float32), (4,))]
    assert "window" not in printed(lower_graph(body, types))
    for is_compiled in (False, True):
        with guessing(True, is_compiled):
            assert "window" in printed(lower_graph(body, types))


SEQUENCE = "seq(float[4]) c"
EMPTY = "start = SequenceEmpty <dtype = 1> ()"
APPENDED = "r = Gather (x, i) t = Tanh (r) c_1 = SequenceInsert (c, t)"
ENDS = {
    "stacked": "z = ConcatFromSequence <axis = 0, new_axis = 1> (y)",
    "stacked behind": "z = ConcatFromSequence <axis = -1, new_axis = 1> (y)",
    "joined": "z = ConcatFromSequence <axis = 0> (y)",
    "counted": "z = SequenceLength (y)",
    "one of them": "z = SequenceAt (y, nought)",
    "the last of them": "z = SequenceAt (y, last)",
    "all of them, from the end": """k = SequenceLength (y) u = Cast <to = 9> (k) z = Loop (k, u, zeros) <body =
      back (int64 j, bool g, float[4] a) => (bool g_1, float[4] a_1)
      { g_1 = Identity (g) p = Sub (last, j) v = SequenceAt (y, p) h = Mul (a, half) a_1 = Add (h, v) }>""",
    "stacked and counted": """z0 = ConcatFromSequence <axis = 0, new_axis = 1> (y) k = SequenceLength (y) f = Cast <to = 1> (k)
      z = Mul (z0, f)""",
}


@pytest.mark.parametrize("count", [0, 1, 6])
@pytest.mark.parametrize("name", ENDS)
def test_lists_that_a_loop_fills(name, count):
    assert_alike(model(APPENDED, "z", SEQUENCE, EMPTY, ENDS[name]), count)


@pytest.mark.parametrize("name", ENDS)
def test_a_list_that_is_put_together_is_an_array_in_the_program(name):
    programs = the_programs(assert_alike(model(APPENDED, "z", SEQUENCE, EMPTY, ENDS[name]), 6))
    assert programs.latest.is_alone


def test_a_list_that_the_loop_looks_at_stays_one():
    inner = "k = SequenceLength (c) f = Cast <to = 1> (k) r = Gather (x, i) u = Mul (r, f) c_1 = SequenceInsert (c, u)"
    assert_alike(model(inner, "z", SEQUENCE, EMPTY, ENDS["stacked"]), 5)


def test_a_list_of_which_the_first_is_the_last_stays_one():
    inner = "z0 = Sub (i, i) r = Gather (x, i) c_1 = SequenceInsert (c, r, z0)"
    assert_alike(model(inner, "z", SEQUENCE, EMPTY, ENDS["stacked"]), 5)


def test_rows_of_several_lengths_are_joined_by_the_kernel():
    inner = "k = Add (i1, one) p = Slice (x, nought, k, nought) c_1 = SequenceInsert (c, p)"
    assert_alike(model(inner, "z", "seq(float[?,4]) c", EMPTY, "z = ConcatFromSequence <axis = 0> (y)"), 4)


def test_one_literal_in_two_types_in_one_sweep():
    """0 of int32 and of int64, 1 of float32 and float64."""
    inner = """k = Cast <to = 6> (x) z = Cast <to = 6> (nought) a = Max (k, z) l = Cast <to = 7> (a) b = Max (l, nought)
      d = Cast <to = 11> (b)
      o = CastLike (one, d) e = Add (d, o) f = Cast <to = 1> (e) w = CastLike (one, f) g = Add (f, w)
      s = ReduceSum <keepdims = 0> (g, nought) c_1 = Add (c, s)"""
    assert_alike(model(inner, "y"), 3)


OPEN = {
    "rows by number": "k = Add (i1, one) p = Slice (x, nought, k, nought) g = Gather (p, i) c_1 = Add (c, g)",
    "the last": """k = Add (i1, one) p = Slice (x, nought, k, nought) m = Neg (one) g = Gather (p, m)
      q = Squeeze (g, nought) c_1 = Add (c, q)""",
    "several": """k = Add (i1, one) p = Slice (x, nought, k, nought) w = Concat <axis = 0> (nought, i1)
      g = Gather (p, w) s = ReduceSum <keepdims = 0> (g, nought) c_1 = Add (c, s)""",
    "out of range": """k = Add (i1, one) p = Slice (x, nought, k, nought) w = Add (i, two) g = Gather (p, w)
      q = Squeeze (g, nought) c_1 = Add (c, q)""",
}


@pytest.mark.parametrize("name", OPEN)
def test_gather_of_an_axis_whose_length_changes(name):
    assert_alike(model(OPEN[name], "y"), 6)


def test_a_prepared_model_goes_straight_to_its_machine_code():
    given = model(PARTS["one row"], "y")
    _, prepared = results(given, 4, "jit")
    values = [X, np.array(4), np.ones(4, np.float32)]

    def at_once(*values):
        run = start_run()
        return prepared.graph.at_once(prepared.graph.begin(values, (), run), run)

    with options(engine="jit"):
        assert at_once(*values) is not None
        assert at_once(X[:5], *values[1:]) is None  # nothing was compiled for it
        assert at_once(X, np.array(99), values[2]) is None  # out of range
    for changes in (
        {"engine": "numpy"},
        {"engine": "interpret"},
        {"engine": "jit", "max_iterations": 9},
        {"engine": "jit", "timeout": 9},
    ):
        with options(**changes):
            assert at_once(*values) is None


def test_many_runs_of_one_program_guess_nothing():
    """A run in which a guess is wrong would undo all others."""
    _, prepared = results(model(PARTS["rows"], "y"), 5, "jit")
    programs = the_programs(prepared)
    assert has_window(programs)
    with options(engine="jit") as chosen:
        made = programs.machine_code([X, np.array(5), np.ones(4, np.float32)], chosen)
    assert made is not None
    assert not any(v.op == "window" for v in values_in(made.step))


def test_what_falls_back_is_tried_once_a_call(monkeypatch):
    given = model(PARTS["one row"].replace("Slice (x, i1, e, nought)", "Gather (x, i1)").replace("e = Add (one, i1)", ""), "y")
    _, prepared = results(given, 5, "jit")
    programs, tried = the_programs(prepared), []
    call = programs._tried
    monkeypatch.setattr(programs, "_tried", lambda *args: tried.append(args) or call(*args))
    with options(engine="jit"), pytest.raises(IterationError, match="10"):
        prepared.run({"x": X, "n": np.array(11), "c0": np.ones(4, np.float32)})  # there is no row 10
    assert sum(bool(entry.made.size) for entry, *_ in tried) == 1
