"""Which way short loops are run where nothing but earlier runs tells how long they are, or what is carried in them."""

import numpy as np
import pytest

from mdf_loop import compile, options


@pytest.mark.parametrize("x", [0.5, np.float64(0.5)], ids=["a number of Python's", "a number of numpy's"])
def test_what_is_of_another_type_from_the_second_iteration_on_is_not_stepped_without_a_type(x):
    """The first value is a number, all others are arrays without dimensions."""
    planned = compile("x: where(x > 1, x * 0.5, x + 0.1)")
    with options(engine="numpy"):
        found = [planned(count, True, x) for count in (10, 1000)]
        text = planned.explain(steps=True)
    assert "float64[]" in text
    assert ": ?" not in text
    with options(engine="interpret"):
        assert found == [planned(count, True, x) for count in (10, 1000)]


def test_a_loop_that_was_over_soon_is_run_by_a_program_the_next_time():
    """No one knows how long it takes this time: as long as the last time, most likely."""
    text = "b (int64 i, bool c, double x) => (bool d, double y, double z) { y = Add (x, k) z = Tanh (y) d = Less (y, limit) }"
    planned = compile(text)
    with options(engine="numpy"):
        ends = [planned(None, True, 0.0, k=1.0, limit=limit)[0] for limit in (4.5, 4.5, 4999.5, 4999.5)]
        assert ends == [5.0, 5.0, 5000.0, 5000.0]
        assert "one program" not in planned.explain()
        planned(None, True, 0.0, k=1.0, limit=4.5)
        planned(None, True, 0.0, k=1.0, limit=4.5)
        assert "one program" in planned.explain()
