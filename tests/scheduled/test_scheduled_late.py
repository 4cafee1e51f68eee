"""Scheduled models in which a node runs late: what it sends then, and what is collected of it before."""

import warnings

import numpy as np
import pytest
from modeci_mdf.mdf import Condition, InputPort, Parameter
from scheduled_models import assert_as_mdf, counter, edge, graph, node, rows_by_mdf

import mdf_loop
from mdf_loop.convert.scheduled.first_passes import MOST_FIRST_PASSES
from mdf_loop.convert.scheduled.loops import execute, lower
from mdf_loop.errors import LoopWarning

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*is dependent on:UserWarning",  # graph-scheduler, of a node whose condition counts its own calls
    "ignore:overflow encountered:RuntimeWarning",  # MDF's engine, where models run away
    "ignore:invalid value encountered:RuntimeWarning",
)


def late_source(pass_, weight=None, value="count", until=1, **more):
    """A node that first runs after so many passes, and one that runs always and is sent its value."""
    late = node("late", [Parameter(id="sum", value="sum + x", default_initial_value=0)], ["x"], s="sum", n_late="sum * 2")
    after = [Parameter(id="sum", value="sum + y", default_initial_value=0)]
    follower = node("follower", after, [InputPort(id="y", default_value=7)], total="sum")
    when = {
        "late": Condition("AfterNPasses", n=pass_, time_scale="TimeScale.ENVIRONMENT_SEQUENCE"),
        "follower": Condition("Always"),
    }
    edges = ["A.a -> late.x", edge("late.s -> follower.y", weight)]
    return graph(counter("A", a=value), late, follower, edges=edges, conditions=when, until=Condition("AfterNPasses", n=until))


@pytest.mark.parametrize("engine", ["interpret", "numpy", "auto"])
@pytest.mark.parametrize("weight", [None, 0.5, 2, np.array([1.0, 2.0])])
@pytest.mark.parametrize("first", [1, 5, MOST_FIRST_PASSES + 5])
def test_what_a_late_node_sends_is_weighed_when_it_comes(first, weight, engine):
    with mdf_loop.options(engine=engine):
        assert_as_mdf(late_source(first, weight), MOST_FIRST_PASSES + 12)


@pytest.mark.parametrize("first", [0, 1, 5, MOST_FIRST_PASSES + 5, 200])
@pytest.mark.parametrize(("steps", "until"), [(40, 1), (40, 2), (3, 1)])
def test_before_a_node_ran_its_collected_outputs_are_none(first, steps, until):
    def make():
        return late_source(first, until=until)

    collected, rows = mdf_loop.run(make(), steps=steps, collect=True), rows_by_mdf(make, steps)
    for name, values in collected.items():
        assert len(values) == steps
        assert [value is None for value in values] == [row[name] is None for row in rows]
        assert (values.dtype == object) == any(row[name] is None for row in rows)
        np.testing.assert_array_equal([v for v in values if v is not None], [row[name] for row in rows if row[name] is not None])


def test_a_node_that_never_runs_has_no_collected_outputs():
    for more in ({}, {"only_in_mdf": "numpy.array([1] * 2)"}):
        source = graph(
            counter("A", **more), counter("B"), conditions={"B": Condition("Never")}, until=Condition("AfterNPasses", n=1)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LoopWarning)
            collected = mdf_loop.run(source, steps=1500, collect=True)
        assert [*collected["n_B"]] == [None] * 1500
        np.testing.assert_array_equal(collected["n_A"], range(1, 1501))


RECORDED = ["late.sum", "late.s", "late.x", "follower.sum", "follower.y", "A.a"]


@pytest.mark.parametrize("first", [0, 3, MOST_FIRST_PASSES + 5])
def test_recorded_rows_are_those_of_the_same_passes_and_nan_before_a_node_runs(first):
    found = mdf_loop.run(late_source(first, 0.5, until=2), steps=20, record=RECORDED, collect=True)
    recorded = found.recorded
    assert {len(rows) for rows in recorded.values()} == {40}
    np.testing.assert_array_equal(recorded["A.a"], np.arange(1, 41))
    for name in ("late.sum", "late.s", "late.x"):
        assert np.flatnonzero(~np.isnan(recorded[name]))[0] == first
    np.testing.assert_array_equal(recorded["late.s"][1::2], [np.nan if s is None else s / 2 for s in found["n_late"]])
    np.testing.assert_array_equal(np.cumsum(recorded["follower.y"]), recorded["follower.sum"])


@pytest.mark.parametrize("every", [1, 3])
def test_whole_numbers_in_a_folder_become_fractions_where_these_come_later(every, tmp_path):
    pytest.importorskip("zarr")
    how = {"steps": 60, "record": RECORDED, "every": every}
    kept = mdf_loop.run(late_source(MOST_FIRST_PASSES + 20, 0.5), **how).recorded
    written = mdf_loop.run(late_source(MOST_FIRST_PASSES + 20, 0.5), record_to=tmp_path / "r.zarr", **how).recorded
    assert (kept["follower.y"] % 1 > 0).any()
    for name in RECORDED:
        np.testing.assert_array_equal(written[name][...], kept[name])


@pytest.mark.parametrize("record", [None, "A.n_A"])
def test_many_passes_are_said_with_and_without_a_recording(record, monkeypatch):
    for name in ("integrations.scheduled_loops.MANY_PASSES", "progress.INTERVAL"):
        monkeypatch.setattr(f"mdf_loop.{name}", 0)
    with pytest.warns(LoopWarning, match="its conditions of termination do not hold yet"):
        mdf_loop.run(graph(counter("A"), until=Condition("AfterNPasses", n=5000)), record=record)


def test_a_node_that_runs_late_has_its_first_run_inside_the_loop():
    late = node(
        "late",
        [Parameter(id="base", value="x * 2"), Parameter(id="s", value="s + base", default_initial_value="base + 1")],
        ["x"],
        s="s",
    )
    follower = node("follower", [Parameter(id="sum", value="sum + y")], [InputPort(id="y", default_value=-1.5)], total="sum")
    when = {"late": Condition("AfterPass", n=MOST_FIRST_PASSES + 10)}
    until = Condition("AfterNPasses", n=MOST_FIRST_PASSES + 20)
    source = graph(
        counter("A", a="count"), late, follower, edges=["A.a -> late.x", "late.s -> follower.y"], conditions=when, until=until
    )
    lowered = assert_as_mdf(source, 2)
    assert any(True for n in lowered.loop.body.nodes if n.op == "If" or n.op == "choose")
    never = graph(counter("A", a="count"), late, edges=["A.a -> late.x"], conditions={"late": Condition("Never")}, until=until)
    assert execute(lower(never, 2))["s"] is None
