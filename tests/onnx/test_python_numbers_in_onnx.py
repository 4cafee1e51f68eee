"""Python's numbers of a graph that runs once are Python's in ONNX and JAX too: exported == run, or refused by name."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from modeci_mdf.mdf import Graph, InputPort, Model, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.backend import prepare
from mdf_loop.errors import LoopError, UnsupportedOp

INPUTS = {"a": 2.0, "b": 3.5, "n": 3, "p": -3}
PARAMETERS = {"k": 7, "w": 2.5, "yes": True, "minus": -2}

NUMBERS = st.sampled_from([*INPUTS, *PARAMETERS, "0", "1", "2", "-1", "0.5", "3000000000"])


def _larger(inner):
    comparisons = st.builds("({} {} {})".format, inner, st.sampled_from([">", ">=", "<", "==", "!="]), inner)
    arithmetic = st.builds("({} {} {})".format, inner, st.sampled_from(["+", "+", "-", "*", "/", "//", "%"]), inner)
    others = st.builds("({}({}))".format, st.sampled_from(["-", "abs", "+", "int", "not "]), inner)
    powers = st.builds("({} ** {})".format, inner, st.sampled_from(["2", "-1", "p", "n", "(a > 1)"]))
    chosen = st.builds("({} if {} else {})".format, inner, inner, inner)
    extremes = st.builds("{}({}, {})".format, st.sampled_from(["max", "min"]), inner, inner)
    return comparisons | comparisons | arithmetic | arithmetic | powers | others | chosen | extremes


EXPRESSIONS = st.recursive(NUMBERS, _larger, max_leaves=8)


def model(text, inputs=INPUTS, parameters=PARAMETERS):
    """A model with one output of this text."""
    node = Node(
        id="x",
        input_ports=[InputPort(id=name, default_value=value) for name, value in inputs.items()],
        parameters=[Parameter(id=name, value=value) for name, value in parameters.items()],
        output_ports=[OutputPort(id="out", value=text)],
    )
    return Model(id="m", graphs=[Graph(id="m", nodes=[node])])


def exported(made):
    """What the ONNX model gives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return prepare(mdf_loop.to_onnx(made)).run([])[0]


def number(made, **given):
    """What Python makes of it: the interpreter says."""
    with mdf_loop.options(engine="interpret"):
        return mdf_loop.run(made, **given)["out"]


@settings(max_examples=150, deadline=None)
@given(EXPRESSIONS)
def test_what_is_exported_gives_the_number_that_a_run_gives(text):
    try:
        expected, found = number(model(text)), exported(model(text))
    except LoopError:
        return
    np.testing.assert_allclose(np.float64(found), np.float64(expected), rtol=1e-12, err_msg=text)


VOTES = ["2 * ((a > 1) + (b > 1))", "max(a > 0, b > 0) + (a > 0)", "w * ((a > 0) + (b > 0))", "(a > 1) * (b > 1)", "-(a > 1)"]


@pytest.mark.parametrize("text", [*VOTES, "k ** -1", "n ** minus", "10 ** p", "n ** (a > 1)", "(a > 1) ** (b > 1)", "n ** 2"])
def test_truth_values_are_numbers_and_negative_powers_fractions(text):
    expected, found = number(model(text)), exported(model(text))
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_an_exponent_that_says_whether_there_is_a_fraction_is_no_input():
    with pytest.warns(UserWarning, match="'p' is not an input of the ONNX model, where it is always -3: .*write 10.0"):
        mdf_loop.to_onnx(model("10 ** p", {"p": -3}, {}))
    assert number(model("10.0 ** p", {"p": -3}, {})) == exported(model("10.0 ** p", {"p": -3}, {})) == 0.001


@pytest.mark.parametrize("text", ["n * n * n", "n ** 3", "2 ** n", "n * 1000000000000 * 10000000", "int(1e30) + n"])
@pytest.mark.parametrize("is_input", [False, True], ids=["parameter", "input"])
def test_whole_numbers_of_more_than_64_bits_are_refused_by_name(text, is_input):
    values = [{"n": 3_000_000_000 if "2 **" not in text else 64}, {}]
    with pytest.raises(UnsupportedOp, match=r"m/x\.out: a whole number is too large for int64"):
        mdf_loop.to_onnx(model(text, *values[:: 1 if is_input else -1]))


@pytest.mark.parametrize("text", ["n * n * n * 1.0", "n * n * n // n // n"])
def test_a_long_number_on_the_way_to_one_that_fits_is_computed(text):
    made = model(text, {"n": 3_000_000_000}, {})
    assert exported(made) == number(made)


def looped(text, kk=3.0, start=1):
    """A loop whose body reads an input and what is made of it."""
    loop = {"M": 3, "x": "start", "body": {"carried": {"x": text}}}
    node = Node(
        id="n",
        input_ports=[InputPort(id="kk", default_value=kk)],
        parameters=[
            Parameter(id="start", value=start),
            Parameter(id="k", value="kk * 2"),
            Parameter(id="run", function="onnx::Loop", args=loop),
        ],
        output_ports=[OutputPort(id="out", value="run")],
    )
    return Model(id="m", graphs=[Graph(id="m", nodes=[node])])


@pytest.mark.filterwarnings("ignore:.*adds truth values")
@pytest.mark.parametrize("text", ["x + ((k > 0) + (kk > 0))", "x + (k > 0) + (kk > 0)", "x + ((start > 0) + (start > -1))"])
def test_in_a_body_numbers_are_numpys(text):
    made = looped(text)
    assert exported(made) == number(made)


@pytest.mark.parametrize(("text", "j"), [("x + start ** -1", 1), ("x + start ** kk", -1)])
def test_a_negative_power_that_a_run_refuses_is_refused(text, j):
    made = looped(text, j, 7)
    with pytest.raises(LoopError, match="negative integer powers"):
        number(made)
    with pytest.raises(UnsupportedOp, match="negative powers of its own whole numbers: begin with a float"):
        mdf_loop.to_onnx(made)
