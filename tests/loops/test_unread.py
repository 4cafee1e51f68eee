"""What is declared in a body and read by nothing: a call may give it, and a recording says how it can be had."""

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import ArgumentError


@mdf_loop.body
def declares(i, go, x, *, rate, later, more=3.0):
    return True, x + rate


@mdf_loop.body
def scans(total, part, *, k, later=2.0):
    return total + k * part


EQUATIONS = {"carried": {"x": "x + rate"}, "captured": ["later"]}


@pytest.mark.parametrize("body", [declares, EQUATIONS], ids=["function", "equations"])
@pytest.mark.parametrize("given", [{}, {"later": np.ones(2)}])
def test_a_call_may_give_what_a_body_declares(body, given):
    assert mdf_loop.loop(3, True, 0.0, body=body, rate=2.0, **given) == 6.0
    assert mdf_loop.compile(body)(3, True, 0.0, rate=2.0, **given) == 6.0
    with pytest.raises(ArgumentError, match="reads no outer value 'latr'"):
        mdf_loop.loop(3, True, 0.0, body=body, rate=2.0, latr=1.0)


def test_scans_branches_and_bodies_inside():
    assert mdf_loop.scan(0.0, [1.0, 2.0], body=scans, num_scan_inputs=1, k=2.0, later=1.0) == 6.0

    @mdf_loop.body
    def outer(i, go, x, *, rate, later=3.0):
        return True, mdf_loop.loop(2, True, x, body=declares, rate=rate, later=later)

    assert mdf_loop.loop(3, True, 0.0, body=outer, rate=1.0, later=1.0) == 6.0
    branches = {"then_branch": mdf_loop.body(lambda *, a, b: a), "else_branch": mdf_loop.body(lambda *, a, b: a + 1)}
    assert mdf_loop.if_(False, **branches, a=1.0, b=2.0) == 2.0
    with pytest.raises(ArgumentError, match="no branch reads an outer value 'c'"):
        mdf_loop.if_(False, **branches, a=1.0, c=2.0)


MODEL = """m:
  graphs:
    m:
      nodes:
        n:
          parameters:
            body: {value: {carried: {x: x + 1}, let: {y: 2 * x}MORE}}
            run: {function: onnx::Loop, args: {M: 3, x: 0.0, body: body}}
          output_ports: {o: {value: run.x}}
"""


@pytest.mark.parametrize("name", ["n.y", "n.run.y"])
def test_a_let_that_nothing_reads_can_be_recorded_where_it_is_collected(name, tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text(MODEL.replace("MORE", ""))
    with pytest.raises(ArgumentError, match=f"'{name}' cannot be recorded: nothing reads 'y'.*") as caught:
        mdf_loop.run(path, record=name)
    cure = str(caught.value).partition("collect it: ")[2].partition(", or")[0]
    path.write_text(MODEL.replace("MORE", f", {cure}"))
    assert mdf_loop.run(path, record=name).recorded[name].tolist() == [0, 2, 4]
