"""Every error raised on purpose: its whole message, its class, and what it keeps."""

import re
import warnings

import numpy as np
import pytest
from bodies import COUNTER, RUNNING_SUM, passing, raised, says

import mdf_loop
from mdf_loop import errors, loop
from mdf_loop.errors import (
    ArgumentError,
    CollectedError,
    FileError,
    IterationError,
    IterationLimit,
    KindError,
    LoopError,
    LoopInterrupted,
    LoopStopped,
    LoopTimeout,
    LoopWarning,
    MalformedBody,
    MissingCapture,
    MissingFile,
    MissingOutput,
    NeverEnds,
    NotLowered,
    PartialResults,
    UnknownNode,
    UnsupportedOp,
)

FORMS = "give equations, an ONNX graph or text, the path of an .onnx file, an MDF graph or a Python callable as body="


# Classes


STANDARD = {
    ArgumentError: ValueError,
    KindError: (ValueError, TypeError),
    MissingCapture: (ValueError, NameError),
    MissingOutput: KeyError,
    MalformedBody: ValueError,
    NeverEnds: MalformedBody,
    UnsupportedOp: NotImplementedError,
    NotLowered: NotImplementedError,
    UnknownNode: (NotImplementedError, ValueError),
    IterationError: RuntimeError,
    CollectedError: (RuntimeError, ValueError),
    IterationLimit: RuntimeError,
    LoopTimeout: TimeoutError,
    LoopStopped: RuntimeError,
    FileError: OSError,
    MissingFile: (MalformedBody, FileError, FileNotFoundError),
}
"""Errors, and the standard exceptions that each is."""


@pytest.mark.parametrize("kind", STANDARD)
def test_every_error_is_a_loop_error_and_the_standard_exception_it_is(kind):
    assert issubclass(kind, LoopError)
    standard = STANDARD[kind]
    for each in standard if isinstance(standard, tuple) else (standard,):
        assert issubclass(kind, each)


def test_interruption_is_a_keyboard_interrupt_not_caught_as_an_error():
    assert issubclass(LoopInterrupted, KeyboardInterrupt)
    assert not issubclass(LoopInterrupted, Exception)


def test_the_table_above_is_complete():
    kinds = {value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, BaseException)}
    assert kinds == {*STANDARD, LoopError, LoopInterrupted, PartialResults, LoopWarning}
    assert mdf_loop.LoopError is LoopError


@pytest.mark.parametrize("name", ["missing.nc", "missing.zarr", "missing.npz"])
def test_a_file_of_results_that_is_not_there_is_a_missing_file(name, tmp_path):
    (tmp_path / name.replace("ss", "s")).write_text("")
    with pytest.raises(MissingFile, match=r"there is no file .*; did you mean 'mising"):
        mdf_loop.open(tmp_path / name)


def test_of_several_files_that_with_the_most_similar_ending_is_proposed(tmp_path):
    for name in ("lca.onnx", "lca.yaml", "lca.json", "other.yml"):
        (tmp_path / name).write_text("")
    with pytest.raises(MissingFile, match=r"did you mean 'lca\.yaml'"):
        mdf_loop.run(tmp_path / "lca.yml")


@pytest.mark.parametrize("name", ["model.yaml", "model.onnx"])
def test_a_model_that_is_not_there_is_a_missing_file(name, tmp_path):
    with pytest.raises(FileNotFoundError):
        mdf_loop.run(tmp_path / name)


def test_results_name_an_output_that_was_meant_as_an_attribute():
    results = mdf_loop.run("examples/drift_diffusion.yaml", seed=1)
    with pytest.raises(AttributeError, match="did you mean 'reaction_time'"):
        results.reaction_tme  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean 'recorded'"):
        results.record  # noqa: B018


# Bodies that cannot be used


@pytest.mark.parametrize("function", ["loop", "scan"])
@pytest.mark.parametrize("body", [{}, {"body": None}, {"body": ""}])
def test_missing_body(function, body):
    with pytest.raises(ArgumentError) as info:
        getattr(mdf_loop, function)(3, True, **body)
    assert str(info.value) == f"{function}: body is missing; {FORMS}"


def test_body_of_no_known_form():
    message = (
        "a body is equations, an ONNX graph, model or function, ONNX text, the path of an .onnx file, a function of onnxscript "
        'or with @mdf_loop.body, an MDF graph, a dict {"onnx": text}, {"onnx_file": path} or {"graph_<id>": graph}, '
        "or a Python callable; got int"
    )
    says(KindError, message, 3, True, body=7)


@pytest.mark.parametrize(
    ("carried", "inputs", "given", "outputs", "hint"),
    [
        (("x", "y"), "2 carried values", "4 inputs", "3 outputs", ""),
        (
            (),
            "0 carried values",
            "2 inputs",
            "1 output",
            "; a call is loop(M, cond, x, body=...): is the condition or an initial value missing?",
        ),
    ],
)
def test_wrong_number_of_carried_values_shows_the_bodys_signature(carried, inputs, given, outputs, hint):
    message = (
        f"Loop: {inputs} given, so the body must have {given} (iteration number, condition, carried values) and at least "
        f"{outputs} (condition, carried values); body 'counter' has inputs (i, c, x) and outputs (c_out, x_out)"
        f"{hint}"
    )
    says(ArgumentError, message, 3, True, *[1.0 for _ in carried], body=COUNTER, one=1)


def test_body_without_a_condition_output():
    message = (
        "Loop: 0 carried values given, so the body must have 2 inputs (iteration number, condition, carried values) and at least "
        "1 output (condition, carried values); body 'b' has inputs (i, c) and outputs ()"
        "; if the condition is missing among the outputs: (c) passes it through"
    )
    says(ArgumentError, message, 3, True, body="b (int64 i, bool c) => () { }")


def test_a_value_that_should_be_captured_is_said_with_how_to_write_it():
    @mdf_loop.body
    def decay(i, go, v, tau):
        return True, v / tau

    with pytest.raises(ArgumentError, match=r"if tau should stay the same, it is captured: .* def body\(i, go, v, \*, tau\)"):
        mdf_loop.loop(3, True, 1.0, body=decay, tau=2.0)


def test_missing_capture():
    message = (
        "Loop: body 'counter' reads 'one' from outside, which was not given; give it by name, such as loop(..., one=...), "
        "or in MDF as a port or parameter of the node (given: none)"
    )
    error = says(MissingCapture, message, 3, True, 1.0, body=COUNTER)
    assert isinstance(error, NameError)


def test_several_missing_captures():
    body = "b (int64 i, bool c, float x) => (bool c, float y) { t = Add (x, k) u = Add (t, m) y = Add (u, n) }"
    message = (
        "Loop: body 'b' reads 'm', 'n' from outside, which were not given; give them by name, such as loop(..., m=...), "
        "or in MDF as a port or parameter of the node (given: 'k')"
    )
    says(MissingCapture, message, 3, True, 1.0, body=body, k=1)


def test_value_that_the_body_does_not_read():
    message = "Loop: body 'counter' reads no outer value 'won'; it reads 'one'; did you mean 'one'?"
    says(ArgumentError, message, 3, True, 1.0, body=COUNTER, one=1, won=1)


# Trip count and condition


@pytest.mark.parametrize(
    ("m", "got"),
    [
        ([1, 2], "int64[2]"),
        (np.zeros((1, 1), int), "int64[1,1] (0)"),
        (2.0, "float64[] (2.0); write 2"),
        (2.5, "float64[] (2.5)"),
        ("three", "string[] ('three')"),
        (True, "bool[] (True); the condition comes behind it: loop(M, cond, ...), or M: and cond: in args"),
        (2j, "complex128[] (2j)"),
    ],
)
def test_trip_count_of_the_wrong_kind(m, got):
    message = f"the trip count M must be one integer, a scalar or of shape [1]; got {got}"
    error = says(KindError, message, m, True, 1.0, body=COUNTER, one=1)
    assert isinstance(error, TypeError)


@pytest.mark.parametrize(
    ("cond", "got"),
    [
        ([True, False], "bool[2]"),
        (np.ones((1, 1), bool), "bool[1,1]"),
        ("yes", "string[] ('yes')"),
        (0.5, "float64[]"),
        (2, "int64[]"),
    ],
)
def test_condition_of_the_wrong_kind(cond, got):
    message = f"the condition cond must be one boolean, a scalar or of shape [1]; got {got}"
    says(KindError, message, 3, cond, 1.0, body=COUNTER, one=1)


def test_condition_of_the_body_of_the_wrong_kind():
    error = says(
        IterationError,
        "iteration 1 of Loop: the body's condition 'go' must be one boolean, a scalar or of shape [1]; got int64[]",
        9,
        True,
        body="b (int64 i, bool c) => (go, int64 i) <int64 two = {2}> { go = Add (i, i) }".replace("Add (i, i)", "Sub (i, minus)"),
        minus=-1,
    )
    assert (error.iteration, error.partial[0].tolist()) == (1, [0])
    assert isinstance(error.__cause__, KindError)


def test_endless_loop():
    message = (
        "Loop: both M and cond are omitted, so this loop would never end. Give M or cond (in equations while: ...), or set "
        "options(max_iterations=...) to stop it there, or options(obey_body_condition=True) to let the body end it"
    )
    says(ArgumentError, message, "", "", 1.0, body=COUNTER, one=1)


# All of them


def test_no_error_hides_its_cause():
    for source in ("b (int64 i) => (", "nowhere.onnx"):
        kind = MissingFile if source == "nowhere.onnx" else MalformedBody
        assert raised(kind, 1, True, body=source).__cause__ is not None


def test_no_message_holds_an_address_or_a_line_break():
    calls = [
        lambda: loop(1, True, object(), body=passing("float")),
        lambda: loop(1, True, body=object()),
        lambda: loop(1, True, 1.0, body="b {"),
        lambda: loop(1, True, np.zeros((50, 50)), body=RUNNING_SUM, step=np.zeros(3)),
    ]
    for call in calls:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(LoopError) as info:
                call()
        assert not re.search(r"0x[0-9a-f]{6}|\n", str(info.value))
        assert len(str(info.value)) < 400
