"""Arrays whose lengths change from call to call: after a few of them, one program is for all."""

import itertools

import numpy as np
import onnx.parser
import pytest

from mdf_loop import backend, options
from mdf_loop.execute import programs
from mdf_loop.execute.programs import watched_programs
from mdf_loop.execute.signatures import MANY_LENGTHS, Signatures, exact_signature, types_of

HEAD = '<ir_version: 8, opset_import: ["": 18]> g (double[n] x, double[m] y) => '
CONSTANTS = "<int64 zero = {0}, int64[1] first = {0}, int64[1] one = {1}, double half = {0.5}, int64 three = {3}, bool yes = {1}>"

MODELS = {
    "graph": f"""{HEAD} (double[p] o) {CONSTANTS}
        {{ s = Add (x, y) t = Tanh (s) r = ReduceSum <keepdims = 1> (t) o = Mul (t, r) }}""",
    "loop": f"""{HEAD} (double[p] o, double[r] sums) {CONSTANTS} {{
        o, sums = Loop (three, yes, x) <body = b (int64 i, bool c, double[k] a) => (bool d, double[l] e, double s)
        {{ d = Identity (c) t = Mul (a, y) e = Tanh (t) s = ReduceSum <keepdims = 0> (e) }}> }}""",
    "scan": f"""{HEAD} (double last, double[p] all) {CONSTANTS} {{
        last, all = Scan <num_scan_inputs = 2, body = b (double h, double a, double c) => (double i, double o)
        {{ s = Add (h, a) t = Mul (s, c) i = Tanh (t) o = Identity (t) }}> (half, x, y) }}""",
    "growing": f"""{HEAD} (double[p] o) {CONSTANTS} {{
        o = Loop (three, yes, x) <body = b (int64 i, bool c, double[k] a) => (bool d, double[l] e)
        {{ d = Identity (c) s = Slice (y, first, one) e = Concat <axis = 0> (a, s) }}> }}""",
    "branch": f"""{HEAD} (double[p] o) {CONSTANTS} {{ s = ReduceSum <keepdims = 0> (x) is = Greater (s, half)
        o = If (is) <then_branch = t () => (double[k] a) {{ a = CumSum (x, zero) }},
                     else_branch = e () => (double[l] b) {{ b = Softmax <axis = 0> (y) }}> }}""",
    "square": f"""{HEAD} (double[p] o) {CONSTANTS} {{ a = Unsqueeze (x, one) b = Unsqueeze (y, first) c = MatMul (a, b)
        t = Transpose (c) o = ReduceMax <keepdims = 0> (t, first) }}""",
}
EQUAL = [(n, n) for n in (3, 5, 1, 8, 2, 13, 4, 7, 100, 6)]
LENGTHS = [*EQUAL, (0, 0), (4, 1), (1, 4), (3, 5), (0, 3), (3, 0), (9, 9), (2, 7), *EQUAL]


def outcome(model, given):
    try:
        return [np.asarray(x) for x in model.run(given)]
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("engine", ["numpy", "jit", "auto"])
@pytest.mark.parametrize("name", MODELS)
def test_results_are_those_of_the_interpreter_for_any_lengths(name, engine):
    """Lengths that were equal for long are not always so, and one is repeated."""
    if engine == "jit":
        pytest.importorskip("llvmlite")
    model, expected = (backend.prepare(onnx.parser.parse_model(MODELS[name])) for _ in range(2))
    random = np.random.default_rng(5)
    for n, m in LENGTHS:
        given = [random.standard_normal(n), random.standard_normal(m)]
        with options(engine="interpret"):
            wanted = outcome(expected, given)
        with options(engine=engine):
            found = outcome(model, given)
        if isinstance(wanted, str):
            assert found == wanted
            continue
        for one, other in zip(found, wanted, strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("engine", ["numpy", "jit"])
def test_no_more_programs_are_made_for_more_lengths(engine, monkeypatch):
    """One was for each combination of lengths, and none for the 33rd."""
    if engine == "jit":
        pytest.importorskip("llvmlite")
    made = []
    for way in ("in_machine_code", "in_python"):
        plain = getattr(programs, way)
        monkeypatch.setattr(programs, way, lambda *given, plain=plain: made.append(given) or plain(*given))
    model = backend.prepare(onnx.parser.parse_model(MODELS["scan"]))
    with options(engine=engine), watched_programs() as watched:
        for n in range(1, 100):
            model.run([np.ones(n), np.ones(n)])
    assert len(made) == MANY_LENGTHS + 1
    assert "float64[?]" in "\n".join(watched[0].latest.lines(source=False, steps=True))


def test_the_oldest_program_is_forgotten_where_there_are_too_many(monkeypatch):
    monkeypatch.setattr(programs, "MOST_SIGNATURES", 2)
    model = backend.prepare(onnx.parser.parse_model(MODELS["graph"]))
    with options(engine="numpy"), watched_programs() as watched:
        for n in (1, 2, 3, 4):
            model.run([np.ones(n), np.ones(n)])
            assert f"float64[{n}]" in "\n".join(watched[0].latest.lines(source=False, steps=True))


def of(signatures, *shapes):
    return tuple(key[1] for key in signatures.of([np.zeros(shape) for shape in shapes]))


def test_axes_that_change_together_have_one_length():
    signatures = Signatures()
    for n in range(1, MANY_LENGTHS + 1):
        assert of(signatures, (n, 4), (n,), (4,)) == ((n, 4), (n,), (4,))
    assert of(signatures, (50, 4), (50,), (4,)) == ((-1, 4), (-1,), (4,))
    assert of(signatures, (50, 4), (51,), (4,)) == ((-1, 4), (-2,), (4,))
    assert of(signatures, (60, 4), (60,), (4,)) == ((-1, 4), (-2,), (4,))
    assert of(signatures, (2, 4), (2,), (4,)) == ((2, 4), (2,), (4,))  # there is a program for these
    assert of(signatures, (0, 4), (0,), (4,)) == ((0, 4), (0,), (4,))
    assert of(signatures, (61, 5), (61,), (4,)) == ((-1, -2), (-3,), (4,))


def test_what_cannot_be_open_is_not_asked_for_again():
    signatures = Signatures()
    for n in range(1, MANY_LENGTHS + 1):
        of(signatures, (n,))
    signatures.refuse(signatures.of([np.zeros(50)]))
    assert of(signatures, (50,)) == ((50,),)
    assert of(signatures, (51,)) == ((51,),)


def test_equal_open_lengths_are_one_size():
    given = [np.zeros((3, 4)), np.float32(1), np.zeros(3), 2.0]
    f8, f4 = np.dtype("f8"), np.dtype("f4")
    signature = (f8, (-1, 4), True), (f4, (), False), (f8, (-1,), True), float
    a, b, c, d = types_of(given, signature, exact=False)
    assert a.shape[0] is c.shape[0]
    assert (a.shape[1], b.shape, d.weak) == (4, (), True)


@pytest.mark.parametrize("dtype", ["bool", "int64", "float32", "float64", "complex128", "U1", "O"])
def test_values_of_one_element_type_and_of_several_kinds_have_signatures_of_their_own(dtype):
    """Also to ``==``: numpy takes Python's types, None, names and pairs for element types that it compares with its own."""
    array = np.zeros((), dtype)
    given = [array, np.zeros(1, dtype), array.item(), [], None]
    given += [array[()]] if isinstance(array[()], np.generic) else []
    found = [exact_signature([value]) for value in given]
    for (k, one), (n, other) in itertools.product(enumerate(found), repeat=2):
        assert (one == other) == (k == n), (given[k], given[n])
    for one, value in zip(found, given, strict=True):
        assert one == exact_signature([value]) == Signatures().of([value])
