"""An operator that fails ends the loop even if nothing reads its result, or only a part of it, on every engine."""

import numpy as np
import pytest
from engines import OTHERS

from mdf_loop import loop, options
from mdf_loop.errors import LoopError

x = np.arange(6.0).reshape(3, 2)

FAILING = {
    "Gather of a number": "v = Gather <axis = 1> (x, i)",
    "Gather of several": "k = Constant <value = int64[2] {0, 0}> () j = Add (k, i) v = Gather <axis = 1> (x, j)",
    "Gather that is sliced": """
        k = Constant <value = int64[2] {-2, 0}> () j = Add (k, i) w = Gather <axis = 1> (x, j)
        from = Constant <value_ints = [0]> () to = Constant <value_ints = [1]> () axes = Constant <value_ints = [1]> ()
        v = Slice (w, from, to, axes)""",
    "GatherElements": """
        k = Constant <value = int64[1, 2] {0, 0}> () j = Add (k, i) v = GatherElements <axis = 1> (x, j)""",
    "GatherElements of one element": """
        k = Constant <value = int64[1, 1] {0}> () j = Add (k, i) e = Constant <value = double[1, 1] {3.0}> ()
        v = GatherElements <axis = 1> (e, j)""",
    "GatherND": "k = Constant <value = int64[1, 2] {0, 0}> () j = Add (k, i) v = GatherND (x, j)",
    "GatherND of rows": "k = Constant <value = int64[2, 1] {1, 1}> () j = Add (k, i) v = GatherND (x, j)",
}


def body(failing: str, is_read: bool) -> str:
    out = "r = ReduceMax <keepdims = 0> (v) s_out = Add (s, r)" if is_read else "s_out = Identity (s)"
    return f"b (int64 i, bool c, double s) => (bool c, double s_out) {{ {failing} {out} }}"


def error_of(text: str, engine: str) -> str:
    with options(engine=engine), pytest.raises(LoopError) as caught:
        loop(5, True, 0.0, body=text, x=x)
    return str(caught.value)


@pytest.mark.parametrize("engine", OTHERS)
@pytest.mark.parametrize("failing", FAILING)
@pytest.mark.parametrize("is_read", [False, True])
def test_an_index_out_of_range_ends_the_loop(failing, is_read, engine):
    text = body(FAILING[failing], is_read)
    assert error_of(text, engine) == error_of(text, "interpret")


@pytest.mark.parametrize("engine", OTHERS)
@pytest.mark.parametrize("failing", FAILING)
def test_and_in_an_inner_loop_whose_results_nothing_reads(failing, engine):
    text = f"""b (int64 n, bool c, double s) => (bool c, double s_out) {{
        five = Constant <value_int = 5> ()
        t = Loop <body: graph = inner (int64 i, bool d, double u) => (bool d, double u_out) {{
            {FAILING[failing]} u_out = Identity (u)
        }}> (five, c, s)
        s_out = Identity (s)
    }}"""
    assert error_of(text, engine) == error_of(text, "interpret")
