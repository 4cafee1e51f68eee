"""What If means."""

import warnings

import numpy as np
import pytest
from bodies import graph, model, onnxruntime_run

import mdf_loop
from mdf_loop import LoopError, backend, if_, options
from mdf_loop.errors import ArgumentError, IterationError, KindError, LoopWarning, MalformedBody, MissingCapture

NEGATIVE = "negative () => (y) { y = Neg (x) }"
SAME = "same () => (y) { y = Identity (x) }"


@pytest.mark.parametrize("cond", [True, np.True_, np.array(True), np.array([True]), 1])
def test_condition_chooses_the_branch(cond):
    assert if_(cond, then_branch=NEGATIVE, else_branch=SAME, x=2.5) == -2.5
    assert if_(np.logical_not(cond), then_branch=NEGATIVE, else_branch=SAME, x=2.5) == 2.5


def test_condition_may_be_given_by_keyword():
    assert if_(cond=True, then_branch=NEGATIVE, else_branch=SAME, x=1) == -1


def test_several_outputs_are_a_tuple_and_may_differ_in_shape_and_type_between_branches():
    then_branch = "t () => (a, b) { a = Neg (x) b = Shape (x) }"
    else_branch = "e () => (b, a) { b = Shape (x) a = Neg (x) }"
    a, b = if_(True, then_branch=then_branch, else_branch=else_branch, x=[1.0, 2.0])
    assert (a.tolist(), b.tolist(), b.dtype) == ([-1, -2], [2], np.int64)
    b, a = if_(False, then_branch=then_branch, else_branch=else_branch, x=[1.0, 2.0])
    assert (a.tolist(), b.tolist()) == ([-1, -2], [2])


def test_branch_may_return_a_capture_a_constant_or_the_same_value_twice():
    body = "t () => (x, k, k) <float k = {2.5}> { }"
    assert [v.tolist() for v in if_(True, then_branch=body, else_branch=body, x=1.5)] == [1.5, 2.5, 2.5]


def test_only_the_chosen_branch_runs():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        broken = "broken () => (y) { y = Add (x, k) }"
        given = {"x": np.zeros(2), "k": np.zeros(3)}
        assert if_(False, then_branch=broken, else_branch=SAME, **given).tolist() == [0, 0]
        with pytest.raises(IterationError, match="Add -> y failed on"):
            if_(True, then_branch=broken, else_branch=SAME, **given)


def test_branches_may_be_python_functions():
    assert if_(True, then_branch=lambda x: -x, else_branch=lambda x: x, x=3) == -3
    assert if_(False, then_branch=lambda x: -x, else_branch=lambda x: (x, x + 1), x=3) == (3, 4)


def test_one_branch_may_be_a_graph_and_the_other_a_python_function():
    branches = {"then_branch": NEGATIVE, "else_branch": lambda x: x * 10}
    assert [if_(cond, **branches, x=np.float32(2)).tolist() for cond in (True, False)] == [-2, 20]


def test_branches_may_capture_a_value_called_cond():
    branch = "t () => (y) { y = Not (cond) }"
    assert if_(True, then_branch=branch, else_branch=branch).tolist() is False


def test_captures_get_the_type_that_either_branch_states_whichever_runs():
    then_branch = "t () => (float[2] y) { y = Add (x, k) }"
    for cond, expected in ((True, [2.1, 3.1]), (False, [1.1, 2.1])):
        result = if_(cond, then_branch=then_branch, else_branch=SAME, x=np.array([1.1, 2.1]), k=1)
        np.testing.assert_array_equal(result, np.array(expected, np.float32), strict=True)


@pytest.mark.parametrize("cond", ["yes", 2, 0.5, [True, False], np.zeros((1, 1), bool)])
def test_condition_of_the_wrong_kind_is_refused(cond):
    with pytest.raises(KindError, match="condition cond must be one boolean"):
        if_(cond, then_branch=NEGATIVE, else_branch=SAME, x=1)


@pytest.mark.parametrize("cond", [None, ""])
def test_condition_must_be_given(cond):
    with pytest.raises(ArgumentError) as info:
        if_(cond, then_branch=NEGATIVE, else_branch=SAME, x=1)
    assert str(info.value) == "if_: the condition cond is missing"


@pytest.mark.parametrize("missing", ["then_branch", "else_branch"])
def test_both_branches_must_be_given(missing):
    branches = {"then_branch": NEGATIVE, "else_branch": SAME, missing: None}
    with pytest.raises(ArgumentError, match=f"if_: {missing} is missing; give equations, an ONNX graph"):
        if_(True, **branches, x=1)


def test_missing_capture_is_found_whichever_branch_runs():
    for cond in (True, False):
        with pytest.raises(MissingCapture, match="if_: body 'negative' reads 'x' from outside"):
            if_(cond, then_branch=NEGATIVE, else_branch="e () => (k) <float k = {1}> { }")


def test_value_that_no_branch_reads_is_refused():
    with pytest.raises(ArgumentError) as info:
        if_(True, then_branch=NEGATIVE, else_branch=SAME, x=1, z=2)
    assert str(info.value) == "if_: no branch reads an outer value 'z'"


def test_branch_with_inputs_is_refused():
    with pytest.raises(MalformedBody) as info:
        if_(True, then_branch="t (float x) => (x) { }", else_branch=SAME, x=1)
    assert str(info.value) == "then_branch has inputs (x); a branch has none, it only captures"


def test_if_inside_a_model_agrees_with_onnxruntime():
    source = model("""main (bool c, float[2] x) => (float[2] y, float[2] z) {
        y, z = If (c) <then_branch = t () => (float[2] a, float[2] b) { a = Neg (x) b = Identity (x) },
                       else_branch = e () => (float[2] a, float[2] b) { b = Neg (x) a = Identity (x) }>
    }""")
    for cond in (True, False):
        given = {"c": np.array(cond), "x": np.array([1, 2], np.float32)}
        for ours, theirs in zip(backend.run_model(source, given), onnxruntime_run(source, given), strict=True):
            np.testing.assert_array_equal(ours, theirs, strict=True)


def test_outputs_of_an_if_node_may_be_empty_names():
    branch = "b () => (p, q) { p = Neg (x) q = Identity (x) }"
    source = model(f'main (bool c, float x) => (float z) {{ "", z = If (c) <then_branch = {branch}, else_branch = {branch}> }}')
    assert backend.run_model(source, [np.array(True), np.float32(2)])[0] == 2


def test_if_node_with_more_outputs_than_a_branch_is_refused():
    branch = "b () => (p) { p = Neg (x) }"
    source = model(f"main (bool c, float x) => (float z) {{ y, z = If (c) <then_branch = {branch}, else_branch = {branch}> }}")
    with pytest.raises(MalformedBody, match="then_branch has 1 output, the node names 2"):
        backend.prepare(source)


def test_random_branch_repeats_with_the_seed():
    branch = "r () => (y) { y = RandomNormal <shape = [3]> () }"
    results = []
    for seed in (1, 1, 2):
        with options(seed=seed):
            results.append(if_(True, then_branch=branch, else_branch=branch))
    assert np.array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])


def test_changing_a_result_does_not_change_a_constant_of_the_branch():
    branch = graph("t () => (k) <float[2] k = {1, 2}> { }")
    for _ in range(2):
        result = if_(True, then_branch=branch, else_branch=branch)
        assert result.tolist() == [1, 2]
        result += 1


def test_error_in_a_branch_keeps_its_cause():
    def fail():
        raise OSError("no disk")

    with pytest.raises(LoopError) as info:
        mdf_loop.if_(True, then_branch=fail, else_branch=fail)
    assert str(info.value) == "Python branch 'fail' failed on (): OSError: no disk"
    assert isinstance(info.value.__cause__, OSError)


@pytest.mark.parametrize("go", [True, False])
def test_branches_with_different_numbers_of_outputs_are_refused_whichever_runs(go):
    with pytest.raises(ArgumentError, match="the same number of outputs; then_branch has 2, else_branch 1"):
        mdf_loop.if_(go, then_branch="y: 1\nz: 2", else_branch="y: 2")


@pytest.mark.parametrize("other", ["z: 2\ny: 3", "y: 2\nx: 3"])
def test_branches_of_equations_that_name_other_values_are_a_warning(other):
    with pytest.warns(
        LoopWarning, match=r"then_branch \(y, z\) and else_branch \(. *, .\) give other names; results are taken by"
    ):
        assert mdf_loop.if_(True, then_branch="y: 1\nz: 2", else_branch=other) == (1, 2)


def test_branches_of_equations_with_the_same_names_are_not():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mdf_loop.if_(False, then_branch="y: 1\nz: 2", else_branch="y: 3\nz: 2") == (3, 2)
