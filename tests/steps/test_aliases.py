"""Second names for values are taken out before a loop is planned; results, errors and random numbers stay what they are."""

import numpy as np
import pytest
from equivalence import assert_same_on_every_engine

import mdf_loop
from mdf_loop.errors import IterationError
from mdf_loop.kernels import load_kernels
from mdf_loop.ops.registry import say
from mdf_loop.plan.aliases import without_aliases
from mdf_loop.plan.schedule import Stepped, make_plan
from mdf_loop.readers import read
from mdf_loop.readers.onnx.loop_records import loop_record

ALIASES = [
    "y = Identity (x)",
    "y = Max (x)",
    "y = Min (x)",
    "y = Sum (x)",
    "z = Cast <to = 11> (x) y = Cast <to = 11> (z)",
    "z = Cast <to = 11> (x) y = Mean (z)",
    "z = Identity (x) y = Identity (z)",
    "y = Dropout (x)",
    "y = Dropout (x, half)",
    "y = Dropout (x, half, no)",
]
NO_ALIASES = [
    "y = Max (x, half)",
    "y = Cast <to = 11> (x)",
    "y = Mean (x)",
    "y, mask = Dropout (x, half)",
    "training = Less (x, half) y = Dropout <seed = 3> (x, half, training)",
    "y = Dropout <seed = 3> (x, half, yes)",
]
TEXT = """body (int64 i, bool go, double x) => (bool go_out, double x_out, double seen, double twice)
    <double half = {{0.5}}, bool no = {{0}}, bool yes = {{1}}>
    {{ go_out = Identity (go) {statement} s = Mul (y, y) x_out = Sub (half, s) seen = Identity (y) twice = Identity (x_out) }}"""


def record(text, n_carried=1):
    load_kernels()
    return loop_record(read({"onnx": text, "opset": 20}, n_carried), n_carried)


def called(nodes):
    return [node.outputs[0] for node in nodes]


@pytest.mark.parametrize("statement", ALIASES)
def test_no_part_of_a_plan_runs_an_alias(statement):
    plan = make_plan(record(TEXT.format(statement=statement)))
    assert {"go_out", "y", "seen", "twice"} <= set(called(plan.aliases))
    (part,) = plan.parts
    assert isinstance(part, Stepped)
    assert [name for name in called(part.nodes) if name != "z"] == ["s", "x_out"]


@pytest.mark.parametrize("statement", NO_ALIASES)
def test_what_may_be_something_else_is_no_alias(statement):
    assert "y" not in called(without_aliases(record(TEXT.format(statement=statement))).nodes)


@pytest.mark.parametrize("statement", [*ALIASES, *NO_ALIASES])
def test_every_engine_gives_what_the_interpreter_gives(statement):
    body = mdf_loop.compile({"onnx": TEXT.format(statement=statement), "opset": 20})
    assert_same_on_every_engine(lambda: body(200, True, 0.25), exact=True)


def test_a_name_that_a_body_captures_stays():
    text = """body (int64 i, bool go, double x) => (bool go, double x_out) <double half = {0.5}>
        { y = Identity (x) b = Less (x, half) x_out = If (b) <
            then_branch = t () => (double a) { a = Add (y, half) }, else_branch = e () => (double a) { a = Sub (y, half) }> }"""
    assert not without_aliases(record(text)).nodes
    body = mdf_loop.compile(text)
    assert_same_on_every_engine(lambda: body(200, True, 0.25))


def test_values_that_change_places_by_second_names():
    text = """body (int64 i, bool go, double x, double y) => (bool go_out, double a, double b, double seen)
        { go_out = Identity (go) a = Identity (y) z = Identity (x) b = Identity (z) seen = Identity (b) }"""
    body = mdf_loop.compile(text)
    assert_same_on_every_engine(lambda: body(201, True, 1.0, 2.0), exact=True)


def test_a_stream_of_random_numbers_is_the_same_where_its_node_reads_another_name():
    text = """body (int64 i, bool go, float[3] x) => (bool go_out, float[3] x_out, float[3] r)
        { go_out = Identity (go) y = Identity (x) r = RandomNormalLike <seed = 3.0> (y) x_out = Add (x, r) }"""
    body = mdf_loop.compile(text)
    assert_same_on_every_engine(lambda: body(200, True, np.zeros(3, np.float32)), exact=True)


def test_errors_and_partial_results_are_those_of_the_body_as_it_is_written():
    text = """body (int64 i, bool go, int64 x) => (bool go_out, int64 x_out, int64 seen) <int64[5] table = {1, 2, 3, 4, 5}>
        { go_out = Identity (go) y = Identity (x) v = Gather (table, y) one = Identity (v) x_out = Add (one, y)
          seen = Identity (x_out) }"""

    def failure(engine):
        with mdf_loop.options(engine=engine), pytest.raises(IterationError) as caught:
            mdf_loop.loop(200, True, 0, body=text)
        return str(caught.value), [np.asarray(value).tolist() for value in caught.value.partial]

    assert failure("interpret") == failure("numpy") == failure("auto")
    assert failure("numpy")[1][1] == [1, 3, 7]


def test_a_kernel_that_took_a_place_is_an_alias_only_if_that_is_said_of_it():
    @mdf_loop.kernel("Same", domain="alias.ops")
    def same(x):
        return x

    text = (
        '<ir_version: 8, opset_import: ["": 18, "alias.ops": 1]> '
        "b (int64 i, bool c, double x) => (bool c, double z) { y = alias.ops.Same (x) z = Sin (y) }"
    )
    assert not without_aliases(loop_record(read(text, 1), 1)).nodes
    say("Same", domain="alias.ops", alias=lambda x: True)
    assert called(without_aliases(loop_record(read(text, 1), 1)).nodes) == ["y"]
    mdf_loop.kernel("Same", domain="alias.ops")(lambda x: x)
    assert not without_aliases(loop_record(read(text, 1), 1)).nodes
