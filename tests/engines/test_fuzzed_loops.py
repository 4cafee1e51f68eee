"""Fuzzed loops are what the specification's C code makes of their bodies: a literal Python loop, body by body."""

import warnings

import numpy as np
import pytest
from fuzzed import draws, fuzzed_loops

from mdf_loop import options
from mdf_loop.errors import LoopError
from mdf_loop.execute.interpret import InterpretedBody
from mdf_loop.options import start_run
from mdf_loop.readers import read
from tests.fuzz.loops import model_of, run
from tests.fuzz.outcome import compare_values, to_the_bit


def literally(body, call, obey):
    """What is carried in the end, and the rows of what is collected."""
    once, captured = InterpretedBody(body), [call.captured[name] for name in body.captures]
    condition, going, carried, rows = np.True_, call.cond is not False, list(call.carried), []
    while going and len(rows) < call.count:
        condition, *results = once([np.int64(len(rows)), condition, *carried], captured, start_run())
        carried = results[: len(carried)]
        rows.append(results[len(carried) :])
        going = bool(condition) if call.cond is not None or obey else True
    return carried, rows


@pytest.mark.parametrize("name", ["bodies", "plain"])
@pytest.mark.filterwarnings("ignore")
def test_a_fuzzed_loop_is_what_a_literal_python_loop_gives(name):
    compared = 0
    for case in fuzzed_loops(150, name):
        call = case.calls[0]
        if case.attrs is None and call.count is not None and not draws(case):
            compared += sum(is_compared(case, call, obey) for obey in (False, True))
    assert compared > 120


def is_compared(case, call, obey):
    """Whether the loop has results, which then are those of the literal one."""
    model = model_of(case)
    with options(engine="interpret", obey_body_condition=obey), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = run(case, call, model)
        except LoopError:
            return False
        carried, rows = literally(read(model, len(call.carried)), call, obey)
    found = found if isinstance(found, tuple) else (found,)
    wanted = [*carried, *(np.array(column, column[0].dtype) for column in zip(*rows, strict=True))]
    for k, (value, expected) in enumerate(zip(found, wanted, strict=bool(rows))):
        for one, other in zip(*(x if isinstance(x, list) else [x] for x in (value, expected)), strict=True):
            compare_values(np.asarray(one), np.asarray(other), f"result {k}", "literally", to_the_bit)
    return True
