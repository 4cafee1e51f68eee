"""What Python and MDF skip - a branch not taken, a condition behind one that decides - can not fail, nor be seen."""

import numpy as np
import pytest
from modeci_mdf.mdf import Condition, Parameter
from scheduled_models import by_mdf, counter, graph, node

import mdf_loop

ENGINES = ["interpret", "numpy", "jit"]
LARGE = 2305843009213693951


@pytest.fixture(params=ENGINES)
def engine(request):
    if request.param == "jit":
        pytest.importorskip("llvmlite")
    with mdf_loop.options(engine=request.param):
        yield request.param


@pytest.mark.parametrize("start", [True, np.int8(1), np.array([True]), np.uint8(1), np.array(1.5)])
@pytest.mark.parametrize(
    "text",
    [
        "x if x < 5 else x - x",
        "-x if x > 5 else x",
        "x if x < 5 else +x",
        "x if x < 5 else x + 300",
        "x if x < 5 else -1 * x",
        "x < 5 and x or x - x",
        "x < 5 or x - x",
        "x > 5 and x - x",
        "x if x < 5 else 2 * x - x",
    ],
)
def test_a_branch_that_would_fail_is_not_computed(engine, text, start):
    result = mdf_loop.loop(3, True, start, body={"carried": {"x": text}})
    expected = start
    for _ in range(3):
        expected = eval(text, {"x": np.asarray(expected)[()]})
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("text", [f"(x * x) % {LARGE}", f"x + 1 if i < 5 else (x * x) % {LARGE}", f"x + (x > {LARGE})"])
@pytest.mark.parametrize("start", [np.int32(100003), np.array([100003, 7], np.int32), np.int8(5), 7, np.float32(3)])
def test_a_number_too_large_for_a_type_fails_alike_in_every_engine(text, start):
    pytest.importorskip("llvmlite")
    found = []
    for name in ENGINES:
        with mdf_loop.options(engine=name):
            try:
                found.append(repr(mdf_loop.loop(12, True, start, body={"carried": {"x": text}})))
            except mdf_loop.LoopError as error:
                found.append(f"{type(error).__name__}: {error}")
    assert found == found[:1] * 3


@pytest.mark.parametrize("place", ["termination", "node"])
@pytest.mark.parametrize("kind", ["All", "Any", "nested"])
def test_a_threshold_behind_a_condition_that_decides_is_not_looked_at(engine, kind, place):
    root = node("A", [Parameter(id="s", value="(0.5 - s) ** 0.5", default_initial_value=2.0)], s_out="s")
    over = Condition("Threshold", dependency="A", parameter="s", threshold=2, comparator=">")
    never, always = Condition("AfterNCalls", dependency="B", n=99), Condition("AfterNPasses", n=0)
    if kind == "Any":
        decided = Condition("Not", condition=Condition("Any", dependencies=[always, over]))
    else:
        inner = over if kind == "All" else Condition("Any", dependencies=[Condition("Never"), over])
        decided = Condition("All", dependencies=[never, inner])
    end = Condition("AfterNPasses", n=6)
    parts = [root, counter("B", b="count")]
    if place == "node":
        source = graph(*parts, counter("C", c="count"), conditions={"C": decided}, until=end)
    else:
        source = graph(*parts, until=Condition("Any", dependencies=[decided, end]))
    expected, actual = by_mdf(source, 2), mdf_loop.run(source, steps=2)
    assert actual["n_B"] == expected["n_B"] == 12
    assert actual["s_out"] == expected["s_out"]
