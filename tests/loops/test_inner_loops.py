"""A loop inside a loop is lowered in one way, whatever a file called it: Loop, Scan, or a record that a reader made."""

from dataclasses import replace

import numpy as np
import pytest
from equivalence import assert_same_on_every_engine

from mdf_loop.calls.calling import loop
from mdf_loop.errors import ArgumentError, LoopError
from mdf_loop.execute.interpret import Arguments
from mdf_loop.execute.numpy_engine import NumpyLoop
from mdf_loop.ir import Body, Carried, Collected, Loop, Node, Scanned
from mdf_loop.kernels import load_kernels
from mdf_loop.options import options, start_run
from mdf_loop.readers.onnx.loop_records import as_loop, loop_record
from mdf_loop.step.fixpoint import Fixpoint
from mdf_loop.step.lower import lower_loop
from mdf_loop.step.records import Apply, LoopRegion, Type

F32, I64, BOOL = np.dtype(np.float32), np.dtype(np.int64), np.dtype(bool)
ROWS = np.linspace(-1, 1, 12, dtype=np.float32).reshape(6, 2)
CONSTANTS = {"many": np.int64(6), "endless": np.int64(-1), "yes": np.True_, "k": np.float32([0.5, 0.25])}


def nodes_of(*lines):
    return tuple(Node(op, tuple(reads.split()), (out,), attrs, opset=20) for out, op, reads, attrs in lines)


STEP = (("e", "Mul", "a x", {}), ("b", "Add", "e k", {}), ("y", "Sub", "b x", {}))
BY_NUMBER = (("x", "Gather", "w j", {}), *STEP)


def onnx_loop():
    body = Body("inner", ("j", "c", "a"), ("c", "b", "y"), nodes_of(*BY_NUMBER), captures=("w", "k"), opsets={"": 20})
    return as_loop(Node("Loop", ("many", "yes", "s"), ("s_out", "ys"), {"body": body}, opset=20, captures=("w", "k")), "outer")


def onnx_scan(opset=20):
    body = Body("inner", ("a", "x"), ("b", "y"), nodes_of(*STEP), captures=("k",), opsets={"": opset})
    inputs, attrs = ("s", "w") if opset > 8 else ("", "s", "w"), {"body": body, "num_scan_inputs": 1}
    return as_loop(Node("Scan", inputs, ("s_out", "ys"), attrs, opset=opset, captures=("k",)), "outer")


def recorded(record, *inputs):
    outputs = ("s_out", *(f"last_{name}" for name in record.last), "ys")
    return Node("Loop", inputs, outputs, {"loop": replace(record, unlimited=True)}, opset=20, captures=record.body.captures)


def record_by_rows(part=None, reverse=False):
    body = Body("inner", ("a", "x", "k"), ("b", "y"), nodes_of(*STEP), opsets={"": 20})
    if part:
        flat = nodes_of(("x", "Reshape", "p two", {}), *STEP, ("z", "Reshape", "y row", {}))
        shapes = {"two": np.array([2]), "row": np.array([1, 2])}
        body = Body("inner", ("a", "p", "k"), ("b", "z"), flat, constants=shapes, opsets={"": 20})
    scanned = Scanned("p" if part else "x", part=part, stride=part or 1, reverse=reverse)
    collected = Collected("z" if part else "y", stack=not part, reverse=reverse)
    return Loop(body, (Carried("a", "b"),), (scanned,), (collected,), invariant=("k",), name="record")


def going_on(record):
    """The record with a condition that is always true."""
    body = replace(record.body, outputs=(*record.body.outputs, "go"), constants={**record.body.constants, "go": np.True_})
    return replace(record, body=body, keep_going="go")


def record_by_number(**more):
    body = Body("inner", ("j", "a"), ("b", "y"), nodes_of(*BY_NUMBER), captures=("w", "k"), opsets={"": 20})
    return Loop(body, (Carried("a", "b"),), (), (Collected("y"),), index="j", name="record", **more)


FORMS = {
    "Loop": onnx_loop,
    "Scan": onnx_scan,
    "record over rows": lambda: recorded(record_by_rows(), "", "", "s", "w", "k"),
    "record over parts of one row": lambda: recorded(record_by_rows(1), "", "", "s", "w", "k"),
    "record over parts, from behind": lambda: recorded(record_by_rows(1, reverse=True), "", "yes", "s", "w", "k"),
    "record over as many rows as its trip count": lambda: recorded(record_by_rows(1), "many", "yes", "s", "w", "k"),
    "record over rows, without a limit": lambda: recorded(record_by_rows(), "endless", "", "s", "w", "k"),
    "record over rows, with a condition": lambda: recorded(going_on(record_by_rows()), "many", "", "s", "w", "k"),
    "record with a trip count": lambda: recorded(record_by_number(), "many", "", "s"),
    "record with a last value": lambda: recorded(record_by_number(last=("b",)), "many", "yes", "s"),
}


def around(node):
    """A loop whose body runs the node once in each iteration."""
    more = nodes_of(("m", "ReduceMax", "ys", {"keepdims": 0}), ("half", "Mul", "m k", {}), ("s_next", "Add", "s_out half", {}))
    used = {name: value for name, value in CONSTANTS.items() if name in {*node.reads, "k"}}
    captures = tuple(name for name in ("w",) if name in node.reads)
    body = Body("outer", ("i", "go", "s"), ("go", "s_next"), (node, *more), used, captures, opsets={"": 20})
    return loop_record(body, 1)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_one_loop_of_the_step_and_no_call(form):
    load_kernels()
    types = [Type(I64, ()), Type(F32, (2,)), Type(F32, (6, 2))]
    region = lower_loop(around(FORMS[form]()), types, True, True)
    found = [value for value in inside(region) if isinstance(value.attr, LoopRegion)]
    assert len(found) == 2
    assert not [value for value in inside(region) if isinstance(value.attr, Apply) and value.attr.node.loop is not None]
    assert len(work_of(form)) <= len(work_of("Loop")), "no more work than in a Loop"


def inside(region):
    for value in region.values:
        yield value
        if isinstance(value.attr, LoopRegion):
            yield from inside(value.attr.body)


def work_of(form):
    """What the inner loop computes in an iteration, but for looking at the same elements in another shape."""
    types = [Type(I64, ()), Type(F32, (2,)), Type(F32, (6, 2))]
    region = lower_loop(around(FORMS[form]()), types, True, True)
    inner = [value.attr for value in inside(region) if isinstance(value.attr, LoopRegion)][1]
    return [value for value in inner.body.values if value.op != "reshape"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_what_the_interpreter_gives(form):
    loop = NumpyLoop(around(FORMS[form]()))

    def call():
        return loop(Arguments(60, True, [np.ones(2, np.float32)], captured=[ROWS]), start_run())

    assert_same_on_every_engine(call)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_one_node(form):
    node = FORMS[form]()
    assert (node.op, node.domain, list(node.attrs)) == ("Loop", "", ["loop"])
    assert len(node.inputs) == node.loop.n_inputs
    _, _, carried, scanned, invariant, _ = node.loop.split(node.inputs)
    assert [c.output for c in node.loop.carried] == ["b"]
    assert (carried, scanned in ((), ("w",)), invariant in ((), ("k",))) == (("s",), True, True)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("size", [2, 3])
def test_parts_of_several_rows_are_rows_with_an_axis_more(size, reverse):
    nodes = nodes_of(("x", "ReduceMax", "p", {"axes": (0,), "keepdims": 0}), *STEP)
    nodes = (replace(nodes[0], opset=13), *nodes[1:])
    body = Body("inner", ("a", "p", "k"), ("b", "y"), nodes, opsets={"": 20})
    scanned = Scanned("p", part=size, stride=size, reverse=reverse)
    record = Loop(body, (Carried("a", "b"),), (scanned,), (Collected("y"),), invariant=("k",), name="record")
    outer = around(recorded(record, "", "", "s", "w", "k"))
    region = lower_loop(outer, [Type(I64, ()), Type(F32, (2,)), Type(F32, (6, 2))], True, True)
    assert sum(isinstance(value.attr, LoopRegion) for value in inside(region)) == 2
    looped = NumpyLoop(outer)
    assert_same_on_every_engine(lambda: looped(Arguments(60, True, [np.ones(2, np.float32)], captured=[ROWS]), start_run()))


@pytest.mark.parametrize("scanned", [{"part": 4, "stride": 4}, {"part": 2, "stride": 1}, {"part": 1, "stride": 1, "start": 1}])
def test_parts_that_are_not_the_whole_are_left_to_the_node(scanned):
    nodes = nodes_of(("x", "Gather", "p zero", {}), *STEP)
    body = Body("inner", ("a", "p", "k"), ("b", "y"), nodes, constants={"zero": np.int64(0)}, opsets={"": 20})
    record = Loop(body, (Carried("a", "b"),), (Scanned("p", **scanned),), (Collected("y"),), invariant=("k",), name="record")
    looped = NumpyLoop(around(recorded(record, "", "", "s", "w", "k")))
    assert_same_on_every_engine(lambda: looped(Arguments(60, True, [np.ones(2, np.float32)], captured=[ROWS]), start_run()))


@pytest.mark.parametrize("engine", ["interpret", "numpy", "auto"])
def test_a_loop_that_goes_on_behind_its_last_part_is_an_error_in_a_program_too(engine):
    outer = around(recorded(going_on(record_by_rows()), "more", "", "s", "w", "k"))
    outer = replace(outer, body=replace(outer.body, constants={**outer.body.constants, "more": np.int64(7)}))
    with options(engine=engine), pytest.raises(LoopError, match="a sliced input has no more parts"):
        NumpyLoop(outer)(Arguments(60, True, [np.ones(2, np.float32)], captured=[ROWS]), start_run())


def test_scan_8_is_a_loop_for_each_row_of_a_batch():
    node = onnx_scan(8)
    assert (node.loop.batched, node.inputs) == (True, ("", "", "s", "w"))


@pytest.mark.parametrize(
    ("record", "inputs", "what"),
    [
        (record_by_number(), ("endless", "", "s"), "never"),
        (replace(record_by_rows(), keep_going="y"), ("many", "", "s", "w", "k"), "boolean"),
        (record_by_number(), ("below", "", "s"), "trip count"),
    ],
)
def test_what_the_step_cannot_know_stays_with_the_node(record, inputs, what):
    node = recorded(record, *inputs)
    outer = around(node)
    outer = replace(outer, body=replace(outer.body, constants={**outer.body.constants, "below": np.int64(-3)}))
    loop = NumpyLoop(outer)
    given = Arguments(60, True, [np.ones(2, np.float32)], captured=[ROWS])
    if what == "never":
        outer = replace(outer, body=replace(outer.body, nodes=(node,), outputs=("go", "s_out")))
        region = lower_loop(
            replace(outer, carried=(Carried("s", "s_out"),)), [Type(I64, ()), Type(F32, (2,)), Type(F32, (6, 2))], True, True
        )
        assert sum(isinstance(value.attr, LoopRegion) for value in inside(region)) == 1
        return
    with pytest.raises((ArgumentError, LoopError), match=what):
        loop(given, start_run())


UNTYPED_COUNT = """
b (int64 i, bool c, float x) => (bool c_out, float y) {
    c_out = Identity (c)
    count = SequenceAt (counts, i)
    always = Constant <value = bool {1}> ()
    half = Constant <value = float {0.5}> ()
    y = Loop (count, always, x) <body = inner (int64 j, bool d, float z) => (bool d_out, float w) {
        d_out = Identity (d)
        w = Mul (z, half)
    }>
}"""


@pytest.mark.parametrize("ending", [{"max_iterations": 500}, {"timeout": 0.5}], ids=["limit", "timeout"])
@pytest.mark.parametrize("engine", ["interpret", "numpy", "jit", "auto"])
def test_an_inner_loop_whose_count_has_no_known_type_is_stopped(engine, ending):
    if engine == "jit":
        pytest.importorskip("llvmlite")
    counts = [np.array(n) for n in (5, 5, 5, 2**62)]
    with options(engine=engine, **ending), pytest.raises(LoopError) as caught:
        loop(4, True, np.float32(1), body=UNTYPED_COUNT, counts=counts)
    assert caught.value.iteration == 3
    assert caught.value.partial == (np.float32(0.5) ** 15,)


def test_a_body_that_hands_on_what_it_gets_is_lowered_once_at_every_depth(monkeypatch):
    """Looking at it a second time, to see that it stays the same, would cost twice as much at each depth."""
    bodies = []
    once = Fixpoint._loop_body
    monkeypatch.setattr(Fixpoint, "_loop_body", lambda self: bodies.append(self) or once(self))
    inner = "y = Tanh (x)"
    for depth in range(5):
        signature = f"b{depth} (int64 i{depth}, bool c{depth}, double x) => (bool d{depth}, double y)"
        inner = f"y = Loop (two, , x) <body = {signature} {{ d{depth} = Identity (c{depth}) {inner} }}>"
    text = f"m (int64 i, bool c, double x) => (bool c, double y) <int64 two = {{2}}> {{ {inner} }}"
    with options(engine="numpy"):
        loop(3, True, 0.5, body=text)
    assert len(bodies) == 6
