"""The Step: its builder, its table of legality, liveness and memory, its printed form, and programs made of it."""

import contextlib
import re
from dataclasses import replace

import numpy as np
import onnx
import pytest

import mdf_loop
from mdf_loop.backends.python.printer import program
from mdf_loop.options import start_run
from mdf_loop.readers import read
from mdf_loop.readers.onnx.loop_records import loop_record
from mdf_loop.step import records
from mdf_loop.step.build import Builder, CannotLower, type_of_value
from mdf_loop.step.check import RULES, IllegalStep, check, checked
from mdf_loop.step.failing import TooLong
from mdf_loop.step.lower import Lowering, lower_loop
from mdf_loop.step.memory import assign
from mdf_loop.step.primitives import PRIMITIVES
from mdf_loop.step.printed import printed
from mdf_loop.step.records import LoopRegion, Region, Shape, Size, Type, Value
from mdf_loop.step.structure import END, Liveness, may_be_memory_of_another, uses_of, values_in

FLOAT = Type(np.dtype(np.float64))
VECTOR = Type(np.dtype(np.float64), (3,))
NUMBER = Type(np.dtype(np.float64), ())


def lowered(text, *values, n_carried=1):
    record = loop_record(read(text, n_carried), n_carried)
    return check(lower_loop(record, [type_of_value(value) for value in (np.int64(3), *values)], True, True))


# Builder


def test_what_is_constant_is_computed_at_once():
    b = Builder()
    assert b.add(b.const(np.float64(1)), 2).attr == 3
    assert b.reshape(b.const(np.arange(6)), (2, 3)).attr.shape == (2, 3)
    assert b.closed([]).values == ()


def test_what_a_value_is_already_is_not_made_again():
    b = Builder()
    x = b.param(VECTOR)
    assert b.cast(x, np.float64) is b.reshape(x, (3,)) is b.broadcast(x, (3,)) is b.transpose(x, (0,)) is x
    assert b.length(x, 0).attr == 3


def test_lengths_that_do_not_go_together_are_refused():
    b = Builder()
    with pytest.raises(ValueError, match="do not go together"):
        b.add(b.param(VECTOR), b.param(Type(np.dtype(np.float64), (4,))))


def test_open_lengths_stay_open():
    b, n = Builder(), Size("n")
    x, y = b.param(Type(np.dtype(np.float64), (n,))), b.param(Type(np.dtype(np.float64), (Size("m"),)))
    assert b.add(x, x).type.shape == (n,)
    assert b.add(x, 1.0).type.shape == (n,)
    assert b.add(x, y).type.shape not in ((n,), y.type.shape)


def test_what_does_not_change_stands_in_front_of_the_loop():
    step = lowered("b (int64 i, bool c, double s) => (bool c, double t) { k = Exp (a) t = Add (s, k) }", 1.0, np.float64(2))
    assert [value.op for value in step.values][:2] == ["exp", "loop"]


# Legality


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Value("nonsense", (), NUMBER), "is no operation"),
        (Value("add", (Value("const", (), NUMBER, 1.0),) * 2, VECTOR), "the rule says"),
        (Value("select", (Value("const", (), NUMBER, 1.0),) * 3, NUMBER), "asks a bool"),
        (Value("item", (Value("const", (), NUMBER, 1.0),), NUMBER, 0), "takes one of several results"),
    ],
)
def test_an_illegal_value_is_found(value, words):
    with pytest.raises(IllegalStep, match=words):
        check(Region((), (value,), ()))


@pytest.mark.parametrize("name", RULES)
def test_every_operation_is_described(name):
    assert re.search(rf"^(\w+, )?{name}[, ] ", records.__doc__, re.MULTILINE)


def test_a_value_that_is_not_there_yet_is_found():
    x = Value("param", (), NUMBER)
    with pytest.raises(IllegalStep, match="before it is there"):
        check(Region((), (Value("neg", (x,), NUMBER),), ()))


# Liveness and memory


def test_memory_lives_as_long_as_what_looks_at_it():
    b = Builder()
    x = b.param(VECTOR)
    y = b.add(x, x)
    view = b.put_in("reshape", (y,), Type(np.dtype(np.float64), (3, 1)))
    z = b.mul(x, x)
    live = Liveness(b.closed([view]), may_be_memory_of_another)
    assert live.views(y) == {view, y}
    assert live.last_read(y) == END
    assert live.last_read(z) == -1


def test_a_carried_array_is_written_over_itself_where_each_element_reads_its_own():
    step = lowered("b (int64 i, bool c, double[3] s) => (bool c, double[3] t) { u = Mul (s, s) t = Add (u, s) }", np.ones(3))
    (loop,) = (value for value in step.values if value.op == "loop")
    places = assign(loop.attr, [])
    assert [*places.over.values()] == [0]
    assert len(places.buffers) == 1


def test_a_carried_array_that_others_keep_is_not_written_over():
    text = "b (int64 i, bool c, double[3] s, double[3] r) => (bool c, double[3] t, s_) { t = Add (s, s) s_ = Identity (s) }"
    step = lowered(text, np.ones(3), np.ones(3), n_carried=2)
    (loop,) = (value for value in step.values if value.op == "loop")
    places = assign(loop.attr, [])
    assert not places.over
    assert not places.turns


# The printed form, and programs


def test_printed_form():
    step = lowered("b (int64 i, bool c, double s) => (bool c, double t) { t = Mul (s, two) }", np.float64(1), np.float64(2))
    assert printed(step).splitlines() == [
        "step (a: int64, b: float64, c: float64) {",
        "  v1 = loop a, None, b (d: int64, e: bool, f: float64) {",
        "    v2: float64 = mul f, c",
        "    give True, v2",
        "  }",
        "  v3: float64 = item 0 v1",
        "  v4: int64 = item 1 v1",
        "  v5: bool = item 2 v1",
        "  give v3, v4",
        "}",
    ]


def test_a_program_stops_where_a_loop_is_long():
    step = lowered("b (int64 i, bool c, double s) => (bool c, double t) { t = Add (s, s) }", np.float64(1))
    call, _ = program(step, most=5)
    assert call(start_run(), np.int64(5), np.float64(1))[0] == 32
    with pytest.raises(TooLong):
        call(start_run(), np.int64(6), np.float64(1))


BODIES = {
    "numbers": ("b (int64 i, bool c, double s) => (bool c, double t, double u) { t = Tanh (s) u = Mul (t, t) }", [0.5]),
    "vectors": ("b (int64 i, bool c, float[3] s) => (bool c, float[3] t, float[3] u) { t = Sigmoid (s) u = Sub (t, s) }",
                [np.ones(3, np.float32)]),
    "while": ("b (int64 i, bool c, double s) => (bool go, double t) { t = Add (s, s) go = Less (t, limit) }", [1.0]),
    "whole numbers that wrap": ("b (int64 i, bool c, int64 s) => (bool c, int64 t) { t = Mul (s, s) }", [3]),
    "elements": ("b (int64 i, bool c, double[9] s) => (bool c, double[9] t) { j = Unsqueeze (i, zero) "
                 "v = Gather (s, j) w = Add (v, v) k = Unsqueeze (j, zero) t = ScatterND (s, k, w) }", [np.arange(9.0)]),
}  # fmt: skip
GIVEN = {"while": {"limit": 100.0}, "elements": {"zero": np.array([0])}}


@pytest.mark.parametrize("name", BODIES)
def test_programs_give_what_the_interpreter_gives(name, monkeypatch):
    text, carried = BODIES[name]
    with mdf_loop.options(engine="interpret"):
        expected = mdf_loop.loop(7, True, *carried, body=text, **GIVEN.get(name, {}))
    with mdf_loop.options(engine="numpy"):
        actual = mdf_loop.loop(7, True, *carried, body=text, **GIVEN.get(name, {}))
    pairs = [value if type(value) is tuple else (value,) for value in (actual, expected)]
    for one, other in zip(*pairs, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-6, strict=True)


def test_printed_names_are_never_the_same():
    b = Builder()
    given = [b.param(NUMBER, k) for k in range(120)]
    first, *lines = printed(b.closed([b.add(x, x) for x in given])).splitlines()
    names = [
        *(part.split(":")[0] for part in first.removeprefix("step (").split(", ")),
        *(x.split(":")[0].strip() for x in lines[:-2]),
    ]
    assert len(names) == len(set(names)) == 240


def test_arrays_of_several_types_are_not_joined():
    b = Builder()
    with pytest.raises(CannotLower, match="several types"):
        b.concat([b.param(VECTOR), b.param(Type(np.dtype(np.float32), (3,)))], 0)


@pytest.mark.parametrize(
    ("shape", "given", "legal"),
    [((2, 3), VECTOR, True), ((3, 3), Type(np.dtype(np.float64), (3, 1)), True), ((2, 4), VECTOR, False)],
)
def test_only_axes_of_length_one_are_repeated(shape, given, legal):
    x = Value("param", (), given)
    step = Region((x,), (Value("broadcast", (x,), Type(np.dtype(np.float64), shape), Shape(shape)),))
    if legal:
        check(step)
    else:
        with pytest.raises(IllegalStep, match="repeats axes of length 1"):
            check(step)


def looped(state, initial):
    """The Step of a loop that hands on what it is given."""
    body = Region(tuple(Value("param", (), type, k) for k, type in enumerate((Type(np.dtype(np.int64), ()), BOOL, state))))
    body = replace(body, results=(Value("const", (), BOOL, np.True_), body.params[2]))
    first, nothing = Value("param", (), initial), Value("const", (), Type(), None)
    return Region((first,), (Value("loop", (nothing, nothing, first), Type(), LoopRegion(body, 1)),))


BOOL = Type(np.dtype(bool), ())
SINGLES, EITHER = Type(np.dtype(np.float32), (3,)), Type(np.dtype(object), (), weak=True)
WEAK = Type(np.dtype(np.int64), (), weak=True)


@pytest.mark.parametrize(("state", "initial", "legal"), [(VECTOR, VECTOR, True), (VECTOR, SINGLES, False), (Type(), VECTOR, True),
                                                         (EITHER, WEAK, True), (WEAK, EITHER, False)])  # fmt: skip
def test_a_loop_begins_with_what_its_body_takes(state, initial, legal):
    step = looped(state, initial)
    if legal:
        check(step)
    else:
        with pytest.raises(IllegalStep, match="is given what it asks for"):
            check(step)


def test_passes_are_checked_where_that_is_asked_for(monkeypatch):
    wrong = Region((), (Value("nonsense", (), NUMBER),))
    with pytest.raises(IllegalStep):
        checked(wrong)
    monkeypatch.setenv("MDF_LOOP_CHECK", "0")
    assert checked(wrong) is wrong


def test_what_is_illegal_is_not_left_to_the_interpreter(monkeypatch):
    def wrong(self, body, scope):
        return [self.b.put_in("nonsense", (), NUMBER), *found(self, body, scope)[1:]]

    found = Lowering.body
    monkeypatch.setattr(Lowering, "body", wrong)
    with pytest.raises(IllegalStep), mdf_loop.options(engine="numpy"):
        mdf_loop.loop(7, True, 0.5, body="b (int64 i, bool c, double s) => (bool c, double t) { t = Tanh (s) }")


# Structure


def test_uses_count_only_what_is_read():
    b = Builder()
    x = b.param(NUMBER)
    y = b.neg(x)
    b.abs(y)  # nothing reads it
    z = b.add(y, y)
    uses = uses_of(b.closed([z]))
    assert (uses.count(x), uses.count(y), uses.count(z)) == (1, 2, 1)
    assert uses.is_single(z)
    assert not uses.is_single(y)
    assert uses.only_in(y, {"add"})
    assert not uses.only_in(z, {"add"})


def test_values_of_loops_are_found_inside_them():
    step = lowered("b (int64 i, bool c, double s) => (bool c, double t) { k = Exp (a) t = Add (s, k) }", 1.0, np.float64(2))
    (loop,) = (value for value in step.values if value.op == "loop")
    (end,) = loop.attr.body.values
    assert {end, *loop.attr.body.params} <= set(values_in(step))
    uses = uses_of(step)
    assert uses.homes[end] is loop.attr.body
    (hoisted,) = (value for value in step.values if value.op == "exp")
    assert not uses.is_single(hoisted)  # read once, but elsewhere
    assert sorted(place for place, _ in uses.items_of(loop)) == [0, 1]


@pytest.mark.parametrize("how", ["reshape", "broadcast"])
def test_open_lengths_of_a_new_shape_are_those_of_the_value(how):
    b, n = Builder(), Size("n")
    x = b.param(Type(np.dtype(np.float64), (n, 3)))
    step = check(b.closed([getattr(b, how)(x, (1, n, 3))]))
    given = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(program(step)[0](start_run(), given)[0], given[None])
    with pytest.raises(CannotLower, match="not known"):
        getattr(b, how)(x, (1, Size("m"), 3))


CONDITIONS = {
    "25": np.array(25),
    "1": np.array(1),
    "2.0": np.array(2.0),
    "[true]": np.array([True]),
    "[true, true]": np.array([True, True]),
}
NOT_ONE_BOOLEAN = {
    "of a loop": "b (int64 i, bool c, double s) => (go, double t) { t = Add (s, s) }",
    "omitted in a loop inside": """b (int64 i, bool c, double s) => (bool c, double t) {
        t = Loop (two, , s) <body = inner (int64 j, bool d, double a) => (go, double r) { r = Add (a, a) }> }""",
    "given to a loop inside": """b (int64 i, bool c, double s) => (bool c, double t) {
        t = Loop (two, go, s) <body = inner (int64 j, bool d, double a) => (bool d, double r) { r = Add (a, a) }> }""",
    "of an if": """b (int64 i, bool c, double s) => (bool c, double t) {
        t = If (go) <then_branch = x () => (double y) { y = Add (s, s) },
        else_branch = x () => (double z) { z = Sub (s, s) }> }""",
}


@pytest.mark.parametrize("engine", ["numpy", "jit"])
@pytest.mark.parametrize("value", CONDITIONS)
@pytest.mark.parametrize("place", NOT_ONE_BOOLEAN)
@pytest.mark.parametrize("obey", [False, True])
def test_a_constant_condition_is_one_boolean(engine, value, place, obey):
    if engine == "jit":
        pytest.importorskip("llvmlite")

    def found(engine):
        with mdf_loop.options(engine=engine, obey_body_condition=obey):
            try:
                return mdf_loop.loop(7, True, 1.0, body=constants(NOT_ONE_BOOLEAN[place], go=CONDITIONS[value], two=np.array(2)))
            except mdf_loop.LoopError as error:
                return str(error)

    expected, actual = found("interpret"), found(engine)
    assert str(actual) == str(expected)


def constants(text, **values):
    """A graph with Constant nodes in front, which every engine knows beforehand."""
    graph = onnx.parser.parse_graph(text)
    made = [onnx.helper.make_node("Constant", [], [name], value=onnx.numpy_helper.from_array(x)) for name, x in values.items()]
    nodes = [*made, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    return graph


@pytest.mark.parametrize("permutation", [(0,), (0, 1, 2), (0, 0), (1, 2)])
def test_axes_are_ordered_only_where_they_are_there(permutation):
    b = Builder()
    with pytest.raises(CannotLower, match="rank"):
        b.transpose(b.param(Type(np.dtype(np.float64), (2, 3))), permutation)


@pytest.mark.parametrize("engine", ["numpy", "jit"])
def test_what_fails_and_nothing_reads_fails_in_programs_too(engine):
    if engine == "jit":
        pytest.importorskip("llvmlite")
    body = "b (int64 i, bool c, double s) => (bool c, double t) { t = Add (s, s) d = Transpose <perm = [0]> (m) }"
    with mdf_loop.options(engine=engine), pytest.raises(mdf_loop.LoopError, match="axes"):
        mdf_loop.loop(7, True, 1.0, body=body, m=np.ones((2, 3)))


def of_two(dtype):
    """The primitives that take two numbers of a type."""
    for name, row in PRIMITIVES.items():
        if name == "quotient" or (row.ufunc is not None and row.ufunc.nin == 2):
            with contextlib.suppress(TypeError):
                row.call(dtype(7), dtype(2))
                yield name, dtype


@pytest.mark.parametrize(("name", "dtype"), [*of_two(np.float64), *of_two(np.int64)], ids=str)
def test_a_number_beside_an_array_is_one_of_its_type(name, dtype):
    b, number, array = Builder(), dtype(7), np.array([1, 2, 3], dtype)
    x, y = b.param(Type(np.dtype(dtype), ()), 0), b.param(Type(np.dtype(dtype), (3,)), 1)
    call, _ = program(b.closed([b.element(name, x, y), b.element(name, y, x)]))
    expected = PRIMITIVES[name].call(number, array), PRIMITIVES[name].call(array, number)
    for found, wanted in zip(call(start_run(), number, array), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == wanted.dtype
