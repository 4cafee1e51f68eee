"""The law of vmap: a Step for many at once gives what the Step gives each of them, to the last bit.

Checked primitive by primitive with numpy, over ONNX's node cases and ``samples.py`` and every combination of what differs; and
over bodies of the fuzzer with loops and branches, as printed for Python and as machine code.  Functions such as exp may differ in
the last places where numpy computes several at once; machine code gives the same bits there too.
"""

import itertools

import numpy as np
import pytest
from definitions import defined
from fuzzed import fuzzed_loops
from in_groups import each
from step_meaning import evaluate

from mdf_loop.backends.python.printer import program
from mdf_loop.errors import UnsupportedOp
from mdf_loop.execute.specialised import in_machine_code
from mdf_loop.ops.registry import lookup
from mdf_loop.options import start_run
from mdf_loop.readers import read
from mdf_loop.readers.onnx.loop_records import loop_record
from mdf_loop.settings.engines import can_compile
from mdf_loop.step.build import Builder, CannotLower, type_of_value
from mdf_loop.step.failing import FallBack
from mdf_loop.step.lower import lower_loop
from mdf_loop.step.records import Type
from mdf_loop.step.structure import adds_up_little, gives_same_bits, values_in
from mdf_loop.step.trace import definition_of, is_traced
from mdf_loop.step.vmap import vmap
from tests.fuzz.loops import model_of
from tests.kernels.test_batching import batched_nodes

N = 3

REFUSED = {
    "Einsum": "products of stacks of matrices",
    "Gather": "each has an array of its own and places of its own",
    "getitem": "whether a place is inside differs from one to the other",
    "numpy.take": "each has an array of its own and places of its own",
    **dict.fromkeys(("scipy.special.erfc", "scipy.special.gamma", "scipy.special.gammaln"), "Python computes them of one number"),
}
"""Operators of which vmap leaves something to one at a time, and what."""


def has_definition(node):
    try:
        entry = lookup(node.op, node.opset, node.domain)
    except UnsupportedOp:
        return False
    return definition_of(entry) is not None or is_traced(entry) or entry.batch is not None


CASES = {name: (node, values) for name, node, values in batched_nodes() if has_definition(node)}


def assert_rows(results, flags, expected, exact):
    """The results for all are those of each, stacked where they differ."""
    for found, is_stacked, column in zip(results, flags, zip(*expected, strict=True), strict=True):
        rows, want = found if is_stacked else np.stack([found] * len(column)), np.stack(column)
        assert (rows.dtype, rows.shape) == (want.dtype, want.shape)
        if exact or want.dtype.kind not in "fcV":
            assert np.ascontiguousarray(rows).tobytes() == want.tobytes()
        else:
            wide = np.complex128 if want.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(rows.astype(wide), want.astype(wide), rtol=1e-5, atol=1e-6)


def different(values, flags):
    """Rows of values, of which some differ from row to row."""
    return [[np.roll(v, k) if flag else v for v, flag in zip(values, flags, strict=True)] for k in range(N)]


@each("name", CASES)
def test_an_operator_for_many(name):
    node, values = CASES[name]
    can = [isinstance(v, np.ndarray) and v.dtype.kind in "biufcV" for v in values]
    for flags in itertools.islice(itertools.product(*[(True, False) if c else (False,) for c in can]), 32):
        known = [k for k, flag in enumerate(flags) if k and not flag]  # shapes and axes have to be known
        try:
            step = defined(node, values, known) if any(flags) else None
        except TypeError:  # it has no definition
            return
        if step is None:
            continue
        rows, places = different(values, flags), [param.attr for param in step.params]
        try:
            expected = [evaluate(step, [row[k] for k in places]) for row in rows]
        except KeyError:
            continue  # it has loops, or an operator as a whole
        try:
            many, are_stacked = vmap(step, [flags[k] for k in places], N)
        except CannotLower:
            assert node.op in REFUSED
            continue
        found = evaluate(many, [np.stack([row[k] for row in rows]) if flags[k] else values[k] for k in places])
        assert_rows(found, are_stacked, expected, gives_same_bits(step))


def steps_of(case):
    """The Step of a fuzzed loop, its values and which differ, the Step for many and which of its results do; None if none."""
    call = case.calls[0]
    if call.count is None or case.attrs is not None:
        return None
    names, record = len(call.carried), loop_record(read(model_of(case), len(call.carried)), len(call.carried))
    values = [np.int64(call.count), *call.carried, *(call.captured[name] for name in record.body.captures)]
    if not all(isinstance(x, np.ndarray) and x.dtype.kind in "biufc" for x in values[1:]):
        return None
    values = [np.asarray(x)[()] for x in values]
    flags = [0 < k <= names or (k > 0 and k % 2 == 0) for k in range(len(values))]
    try:
        step = lower_loop(record, [type_of_value(v) for v in values], True, call.cond is not None)
        return (step, values, flags, *vmap(step, flags, N)) if any(flags) else None
    except CannotLower:
        return None


def other(values, k):
    """Values of the same type that differ."""
    return np.roll(values, k) if values.ndim else values ^ bool(k) if values.dtype == bool else values + values.dtype.type(k)


def in_python(step):
    return program(step)[0]


def in_llvm(step):
    made = in_machine_code(step)
    return None if isinstance(made, str) else made.call


def test_fuzzed_loops_for_many():
    found = [(case, steps) for case in fuzzed_loops(160) if (steps := steps_of(case)) is not None]
    for made in (in_python, in_llvm) if can_compile() else (in_python,):
        assert sum(is_tried(made, case, *steps) for case, steps in found) > 25  # it is more than its returns


def is_tried(made, case, step, values, flags, many, are_stacked):
    """Whether there is a loop for many, which then gives what each gives."""
    one, at_once = made(step), made(many)
    if one is None or at_once is None:
        return False
    rows = [[other(v, k) if flag else v for v, flag in zip(values, flags, strict=True)] for k in range(N)]
    inputs = [np.stack([row[k] for row in rows]) if flag else values[k] for k, flag in enumerate(flags)]
    with np.errstate(all="ignore"):
        try:
            results = at_once(start_run(), *inputs)
            expected = [one(start_run(), *row) for row in rows]
        except (FallBack, ArithmeticError, ValueError, IndexError):
            return False  # programs leave them to the interpreter
    assert_rows(results, are_stacked, expected, case.exact or (made is in_llvm and adds_up_little(step)))
    return True


@pytest.mark.parametrize(("given", "wanted"), [(float, int), (float, np.int64), (int, np.int8), (int, np.uint64)])
def test_numbers_of_which_python_may_refuse_one_stay_one_by_one(given, wanted):
    b = Builder()
    x = b.param(Type(np.dtype(given), (), weak=True))
    step = b.closed([b.python(x, int) if wanted is int else b.cast(x, np.dtype(wanted))])
    with pytest.raises((FallBack, OverflowError, ValueError)):
        in_python(step)(start_run(), given("nan") if given is float else -(1 << 63))
    with pytest.raises(CannotLower, match="Python may refuse one"):
        vmap(step, [True], N)


@pytest.mark.parametrize("flags", [(False, True, False), (False, False, True)], ids=["the carried value", "the captured one"])
def test_operators_that_stay_whole_are_what_they_are_made_of(flags):
    text = """b (int64 i, bool c, float[5000] x) => (bool c, float[5000] y, float[5000] g, float[5000] h) {
        g = Gelu (w) h = Gelu (x) s = Sub (g, h) y = Softmax (s) }"""
    values = [np.int64(3), *(np.linspace(-1, k, 5000, dtype=np.float32) for k in (1, 3))]
    step = lower_loop(loop_record(read({"onnx": text, "opset": 20}, 1), 1), [type_of_value(v) for v in values], True, True)
    assert any(v.op == "apply" and v.attr.definition is not None for v in values_in(step))
    many, are_stacked = vmap(step, flags, N)
    rows = different(values, flags)
    given = [np.stack([row[k] for row in rows]) if flag else values[k] for k, flag in enumerate(flags)]
    assert_rows(
        in_python(many)(start_run(), *given), are_stacked, [in_python(step)(start_run(), *row) for row in rows], exact=False
    )
