"""For tests of programs: none of their blocks may be left to the interpreter, which would hide everything."""

import logging

import pytest

from mdf_loop import loop

ends_in_an_error = pytest.mark.ends_in_an_error


@pytest.fixture(autouse=True)
def no_block_fails(request, caplog):
    """What is tested has to run as a program, unless it is said that it ends in an error."""
    with caplog.at_level(logging.DEBUG, "mdf_loop"):
        yield
    if "ends_in_an_error" not in request.keywords:
        assert not [record.getMessage() for record in caplog.get_records("call") if "failed" in record.getMessage()]


def run(text, n, *carried, opset=20, **captured):
    """A call of a loop whose body is ONNX text."""
    return lambda: loop(n, True, *carried, body={"onnx": text, "opset": opset}, **captured)
