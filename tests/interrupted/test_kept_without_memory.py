"""Where there is no memory for what a loop collected, its carried values are kept."""

import dataclasses

import pytest

import mdf_loop
from mdf_loop import options
from mdf_loop.errors import LoopError
from mdf_loop.execute import programs, specialised
from mdf_loop.execute.collect import Gathering

WHILE = """<ir_version: 10, opset_import: ["": 18]> b (int64 i, bool c, double s) => (bool go, double t, double y) {
  u = Identity (s) t = Add (u, one) y = Mul (t, t) go = Less (t, limit) }"""

COUNTING = {"graph": WHILE, "function": lambda i, c, s: (True, s + 1, s)}


@pytest.fixture
def no_memory(monkeypatch):
    """There is none for the array of what was collected."""

    def array(self, iterations=None):
        raise MemoryError

    monkeypatch.setattr(Gathering, "array", array)


def assert_carried_ones_are_kept(engine, count, body, **named):
    with options(engine=engine), pytest.raises(LoopError) as info:
        mdf_loop.loop(count, True, 0.0, body=body, **named)
    assert isinstance(info.value.__cause__, MemoryError)
    assert (info.value.iteration, info.value.partial[0], info.value.partial[1]) == (count, count, None)
    assert str(info.value).startswith(f"after {count} iterations of Loop: ")


@pytest.mark.parametrize("engine", ["interpret", "numpy"])
@pytest.mark.parametrize("form", COUNTING)
def test_where_there_is_no_memory_for_collected_values_carried_ones_are_kept(form, engine, no_memory):
    named = {"one": 1.0, "limit": 1e9} if form == "graph" else {}
    assert_carried_ones_are_kept(engine, 20_000, COUNTING[form], **named)  # fewer would be one program


def test_a_program_that_finds_no_memory_leaves_the_loop_to_what_keeps_carried_values(no_memory, monkeypatch):
    plain, ended = specialised.in_python, []

    def in_python(*how):
        made = plain(*how)

        def call(run, *values):
            ended.append(made.call(run, *values))
            raise MemoryError

        return dataclasses.replace(made, call=call)

    monkeypatch.setattr(programs, "in_python", in_python)
    unseen = COUNTING["graph"].replace(" b (", " unseen (")
    assert_carried_ones_are_kept("numpy", 50, unseen, one=1.0, limit=1e9)
    assert len(ended) == 1
