"""The law of batching: one call for all iterations equals the stack of one call per iteration.

Checked for every kernel that names a rule, over ONNX's node cases and ``samples.py``, for every combination
of stacked and unstacked inputs.
"""

import itertools

import numpy as np
from definitions import rule_of
from in_groups import each
from samples import single_nodes

import mdf_loop
from mdf_loop.errors import UnsupportedOp
from mdf_loop.ir import Node
from mdf_loop.kernels import load_kernels
from mdf_loop.ops.batching import by_step
from mdf_loop.ops.registry import KERNELS, bind, lookup

load_kernels()

N = 3


def batched_nodes():
    """The cases; numbers are arrays in those of ONNX, and may be Python's own in ours."""
    for name, node, values in single_nodes():
        numbers = () if name.startswith("sample_") else (np.generic, float, int)
        yield name, node, [np.asarray(v) if isinstance(v, numbers) else v for v in values]


def has_rule(node):
    try:
        return lookup(node.op, node.opset, node.domain).batch is not None
    except UnsupportedOp:
        return False


CASES = {name: (node, values) for name, node, values in batched_nodes() if has_rule(node)}


LEFT = {
    "Gemm": "products of whole numbers, times a fraction, are computed by the kernel alone",
    "Resize": "a part of the input",
    "Tile": "version 1, whose inputs are others",
    "index": "an index that makes axes",
    "numpy.outer": "numbers, which numpy gives axes",
    "numpy.ravel": "numbers, which numpy gives axes",
    "numpy.transpose": "numbers, which have none",
}
"""What Steps leave to one iteration at a time, besides texts."""


def node_of(name):
    return CASES[name][0]


def prepared(name):
    """The kernel of a case, its rule, its keywords, its inputs, and which of these can be stacked."""
    node, values = CASES[name]
    entry = lookup(node.op, node.opset, node.domain)
    return entry, rule_of(node), bind(node).keywords, values, [isinstance(v, np.ndarray) for v in values]


@each("name", CASES)
def test_rule_equals_the_stack_of_single_calls(name):
    entry, rule, attrs, values, can = prepared(name)
    ran = False
    for flags in itertools.product(*[(True, False) if c else (False,) for c in can]):
        if any(flags):
            ran |= check_flags(entry, rule, values, flags, attrs)
    is_left = entry.batch is by_step and (node_of(name).op in LEFT or any(np.asarray(v).dtype.hasobject for v in values))
    assert ran or not any(can) or is_left, "the rule never applied"


def two_of_each():
    """The names of two cases of each operator and version of it."""
    found = {}
    for name, (node, _) in CASES.items():
        found.setdefault((node.domain, node.op, node.opset), []).append(name)
    return [name for names in found.values() for name in names[:2]]


@each("name", two_of_each())
def test_what_one_call_refuses_the_rule_refuses(name):
    """Inputs with an axis less or more, or a shorter one: beside the iteration axis they may look as if they were right."""
    entry, rule, attrs, values, can = prepared(name)
    if sum(can) > 4:
        can = [c and k < 4 for k, c in enumerate(can)]  # 2 ** 4 combinations of each are enough
    for place, changed in changed_inputs(values, can):
        row = [changed if k == place else value for k, value in enumerate(values)]
        if not is_refused(lambda row=row: entry.run(*row, **attrs)):
            continue
        for flags in itertools.product(*[(True, False) if c else (False,) for c in can]):
            for count in (1, N) if any(flags) else ():
                stacked = [np.stack([v] * count) if f else v for v, f in zip(row, flags, strict=True)]
                told = f"input {place} of shape {changed.shape}, {flags}, {count} iterations"
                assert is_refused(lambda given=stacked, flags=flags: rule(entry.run, given, flags, attrs)), told


def changed_inputs(values, can):
    """(place, array) of inputs with one axis less, one more, and the last one shorter."""
    for place, value in enumerate(values):
        if can[place]:
            yield place, value[None]
            if value.ndim and len(value):
                yield place, np.asarray(value[0])
            if value.ndim and value.shape[-1] > 1:
                yield place, value[..., :-1]


def is_refused(call):
    """Whether a call raises an error, or gives nothing."""
    with np.errstate(all="ignore"):
        try:
            return call() is None
        except Exception:
            return True


def check_flags(entry, rule, values, flags, attrs):
    """Compare the rule with one call per iteration; False if there is no such combination."""
    rows = [[np.roll(v, k) if f else v for v, f in zip(values, flags, strict=True)] for k in range(N)]
    with np.errstate(all="ignore"):
        try:
            singles = [entry.run(*row, **attrs) for row in rows]
        except Exception:
            return False  # rolled inputs are not valid inputs here, e.g. a shape
        stacked = [np.stack([row[i] for row in rows]) if f else v for i, (v, f) in enumerate(zip(values, flags, strict=True))]
        result = rule(entry.run, stacked, flags, attrs)
    columns = list(zip(*[s if type(s) is tuple else (s,) for s in singles], strict=True))
    if result is None:
        # None is the only right answer where the results cannot be stacked.
        return any(len({np.shape(value) for value in column}) > 1 for column in columns)
    outputs, out_flags = result
    assert len(outputs) == len(columns) == len(out_flags)
    for output, is_stacked, column in zip(outputs, out_flags, columns, strict=True):
        for k in range(N):
            assert_close(output[k, ...] if is_stacked else output, column[k])
    return True


def assert_close(actual, expected):
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    if expected.dtype == object or expected.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, expected)
    else:
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(actual.astype(wide), expected.astype(wide), rtol=1e-6, atol=1e-6)


def test_every_rule_is_exercised():
    exercised = {(node.domain, node.op, lookup(node.op, node.opset, node.domain).since) for node, _ in CASES.values()}
    declared = {(k.domain, k.op, k.since) for versions in KERNELS.values() for k in versions if k.batch is not None}
    missing = sorted(declared - exercised)
    assert not missing, f"no ONNX case and no entry in samples.py for {missing}"


def test_a_kernel_of_a_user_is_run_for_many_iterations_by_what_it_does(rng):
    @mdf_loop.kernel("Fade", domain="my.batches", batch=by_step)
    def fade(x, w, *, rate=0.5):
        return np.where(x > 0, x * np.float32(rate), w).sum(axis=0)

    node = Node("Fade", ("x", "w"), ("y",), {"rate": 0.25}, opset=1, domain="my.batches")
    x, w = rng.standard_normal((N, 2, 3)).astype(np.float32), rng.standard_normal(3).astype(np.float32)
    try:
        (found,), flags = rule_of(node)(fade, [x, w], [True, False], node.attrs)
        assert flags == (True,)
        np.testing.assert_array_equal(found, np.stack([fade(row, w, rate=0.25) for row in x]))
        assert rule_of(node)(fade, [x.astype(object), w], [True, False], node.attrs) is None
    finally:
        del KERNELS["my.batches", "Fade"]
