"""Iterations that fail, and runs that are interrupted: what is said, and what is kept."""

import itertools
import signal

import numpy as np
import pytest
from bodies import RUNNING_SUM, raised, says

import mdf_loop
from mdf_loop import loop
from mdf_loop.errors import (
    CollectedError,
    IterationError,
    LoopInterrupted,
)
from mdf_loop.ops.registry import KERNELS

# Iterations that fail


def growing(node="s = Identity (y)"):
    return f"b (int64 i, bool c, float[N] x) => (bool c, float[M] y, s) {{ y = Concat <axis = 0> (x, x) {node} }}"


def test_collected_value_that_changes_its_shape():
    message = (
        "iteration 1 of Loop: collected output 's' was float32[2] in the first iteration and is float32[4] now; ONNX wants one "
        "shape and type in all iterations (carry it as a sequence if it must change)"
    )
    error = says(CollectedError, message, 3, True, [1.0], body=growing())
    assert (error.iteration, error.partial[0].tolist(), error.partial[1].tolist()) == (1, [1, 1], [[1, 1]])


def test_collected_value_that_changes_its_type():
    message = (
        "iteration 1 of Loop: collected output 'collected value 0' was int64[] in the first iteration and is float64[] now; ONNX "
        "wants one shape and type in all iterations (carry it as a sequence if it must change)"
    )
    says(CollectedError, message, 3, True, body=lambda i, c: (c, i if i == 0 else float(i)))


def test_collected_value_that_is_no_tensor():
    message = "iteration 0 of Loop: collected output 's' is sequence of 1; only tensors can be collected"
    says(CollectedError, message, 3, True, body="b (int64 i, bool c) => (bool c, s) { s = SequenceConstruct (i) }")


def test_failing_kernel_names_node_iteration_and_shapes_and_keeps_cause_and_results():
    body = growing("[joined] s = Add (y, k)").replace("s)", "float[K] t)").replace("[joined] s", "[joined] t")
    error = raised(IterationError, 5, True, [1.0], body=body, k=[1.0, 2.0])
    assert str(error) == (
        "iteration 1 of Loop: Add 'joined' failed on (float32[4], float32[2]): "
        "operands could not be broadcast together with shapes (4,) (2,)"
    )
    assert isinstance(error.__cause__, ValueError)
    assert (error.iteration, error.partial[0].tolist(), error.partial[1].tolist()) == (1, [1, 1], [[2, 3]])


def test_failing_kernel_of_a_node_without_a_name_is_named_by_its_outputs():
    error = raised(IterationError, 1, True, [1.0, 2.0], body=RUNNING_SUM, step=[1.0, 2.0, 3.0])
    assert str(error).startswith("iteration 0 of Loop: Add -> x_out failed on (float32[2], float32[3]): ")
    assert (error.iteration, error.partial[0].tolist(), error.partial[1]) == (0, [1, 2], None)


def test_failure_in_nested_loops_is_reported_from_the_outside_in_and_keeps_the_outer_results():
    inner = "inner (int64 j, bool d, float[N] y) => (bool d, float[N] z) { z = Add (y, k) }"
    body = f"""outer (int64 i, bool c, float[N] x) => (bool c, float[M] z) {{
        [within] y = Loop <body = {inner}> (one, c, x)
        z = Concat <axis = 0> (y, y)
    }}"""
    message = (
        "iteration 1 of Loop, iteration 0 of Loop 'within': Add -> z failed on (float32[4], float32[2]): operands could not be "
        "broadcast together with shapes (4,) (2,)"
    )
    error = says(IterationError, message, 5, True, [1.0, 2.0], body=body, one=1, k=[1.0, 1.0])
    assert (error.iteration, error.partial[0].tolist()) == (1, [2, 3, 2, 3])


def test_failing_python_body_is_reported_with_the_type_of_its_error():
    def step(i, cond, x):
        return cond, x, {"a": 1}["b"] if i == 2 else x

    message = "iteration 2 of Loop: Python body 'step' failed on (int64[], bool[], float64[]): KeyError: 'b'"
    error = says(IterationError, message, 5, True, 1.0, body=step)
    assert isinstance(error.__cause__, KeyError)
    assert (error.iteration, error.partial[0], error.partial[1].tolist()) == (2, 1, [1, 1])


def test_python_body_that_returns_too_little():
    message = (
        "iteration 0 of Loop: Python body 'step' failed on (int64[], bool[], float64[]): the Python body 'step' returned 1 "
        "value; it must return at least 2: the condition (in a loop), the carried values, then any collected ones"
    )
    says(IterationError, message, 5, True, 1.0, body=_returning_one)


def _returning_one(i, cond, x):
    return x


_returning_one.__name__ = "step"


def test_python_body_that_collects_a_different_number_of_values():
    error = raised(IterationError, 5, True, body=lambda i, c: (c, *[i] * (1 if i < 2 else 2)))
    assert str(error).endswith("the Python body collected 1 value in the first iteration and 2 now")
    assert error.partial[0].tolist() == [0, 1]


def test_values_gathered_in_the_iteration_that_failed_are_not_kept():
    error = raised(IterationError, 5, True, 1.0, body=lambda i, c, x: ("no" if i == 2 else True, x + 1, x))
    assert (error.iteration, error.partial[0], error.partial[1].tolist()) == (2, 3, [1, 2])


@pytest.fixture
def _own_kernels():
    """Kernels that a test adds go away with it."""
    before = set(KERNELS)
    yield
    for key in set(KERNELS) - before:
        del KERNELS[key]


@pytest.mark.usefixtures("_own_kernels")
def test_kernel_that_gives_too_few_outputs():
    @mdf_loop.kernel("OneOfTwo")
    def one_of_two(x):
        return x

    says(
        IterationError,
        "iteration 0 of Loop: OneOfTwo -> y, z failed on (float32[]): the kernel gave 1 output, the node names 2",
        1,
        True,
        1.0,
        body="b (int64 i, bool c, float x) => (bool c, float y, float z) { y, z = OneOfTwo (x) }",
    )


# Interruption


@pytest.mark.parametrize("nested", [False, True])
def test_ctrl_c_keeps_what_was_computed(nested):
    def step(i, cond, x):
        if i == 3:
            signal.raise_signal(signal.SIGINT)
        return cond, x + 1, x

    def outer(i, cond, x):
        return (cond, *loop(None, True, x, body=step)) if i == 1 else (cond, x + 10, np.zeros(3))

    with pytest.raises(KeyboardInterrupt) as info:
        loop(None, True, 0, body=outer if nested else step)
    assert type(info.value) is LoopInterrupted
    if nested:
        assert str(info.value) == "iteration 1 of Loop, iteration 3 of Loop: interrupted"
        assert (info.value.iteration, info.value.partial[0]) == (1, 10)
    else:
        assert str(info.value) == "iteration 3 of Loop: interrupted"
        assert (info.value.iteration, info.value.partial[0], info.value.partial[1].tolist()) == (3, 3, [0, 1, 2])


@pytest.mark.usefixtures("_own_kernels")
def test_ctrl_c_between_nodes_of_a_graph_keeps_what_was_computed():
    times = itertools.count()

    @mdf_loop.kernel("InterruptedAtFive", pure=False)
    def interrupted_at_five(x):
        if next(times) == 5:
            signal.raise_signal(signal.SIGINT)
        return x

    body = "b (int64 i, bool c, float x) => (bool c, float y, int64 i) { t = Add (x, one) y = InterruptedAtFive (t) }"
    error = raised(LoopInterrupted, 10, True, 0, body=body, one=1)
    assert (error.iteration, error.partial[0], error.partial[1].tolist()) == (5, 5, [0, 1, 2, 3, 4])


def test_messages_hold_no_addresses_of_objects():
    def body(i, go, x):
        raise ValueError(f"{object()} cannot be opened")

    with pytest.raises(IterationError, match="<object object> cannot be opened") as caught:
        mdf_loop.loop(1, True, 0.0, body=body)
    assert " at 0x" not in str(caught.value)
