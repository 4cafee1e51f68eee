"""``options(progress=...)``: what is reported while a run goes on, and that it can be stopped.  The clock is the test's own."""

import io
import logging
import re
import sys
import warnings
from types import ModuleType, SimpleNamespace

import numpy as np
import onnx.parser
import pytest
import tqdm
from commands import run_main
from engines import ENGINES

import mdf_loop
from mdf_loop import backend, options, progress
from mdf_loop.errors import ArgumentError, LoopStopped
from mdf_loop.execute.tiers import paying
from mdf_loop.models.results import Results
from mdf_loop.progress import Bar, Report, Watch

BODY = "x: x * 0.5 + i\ncollect p: x"


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by a twentieth of a second whenever something looks at it; how often that was."""
    seen = SimpleNamespace(count=0)

    def monotonic():
        seen.count += 1
        return seen.count * 0.05

    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=monotonic))
    monkeypatch.setattr(paying, "WATCHED", 0.0)  # nothing is over before there is a report
    return seen


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("engine", ENGINES)
def test_reports_come_in_order_and_know_how_many_there_will_be(engine):
    seen = []
    with options(engine=engine, progress=seen.append, block_bytes=1000):
        mdf_loop.loop(3000, True, 0.0, body=BODY)
    assert seen
    iterations = [report.iteration for report in seen]
    assert iterations == sorted(iterations)
    assert engine == "auto" or len(set(iterations)) == len(iterations)  # which may stand still to wait for machine code
    assert len(set(iterations)) > 5
    assert {(report.name, report.total) for report in seen} == {("Loop", 3000)}
    assert 0 < seen[-1].iteration <= 3000


@pytest.mark.skipif("jit" not in ENGINES, reason="needs llvmlite")
def test_what_is_over_before_a_report_runs_as_if_no_one_watched(monkeypatch):
    planned, seen = mdf_loop.compile("x: x * 0.25 + i\ncollect p: x"), []
    with options(engine="jit", progress=seen.append):
        planned(200_000, True, 0.0)
        assert "the last run had" in planned.explain()
        monkeypatch.setattr(paying, "WATCHED", 1e6)  # however slow this machine is
        last, path = planned(200_000, True, 0.0)
        assert "the last run, of 200000 iterations, was one program in machine code" in planned.explain()
    with options(engine="jit"):
        assert planned(200_000, True, 0.0)[0] == last == path[-1]


@pytest.mark.skipif("jit" not in ENGINES, reason="needs llvmlite")
def test_what_takes_longer_than_it_did_before_is_watched_all_the_same():
    planned, seen = mdf_loop.compile("x: sin(x) * 0.25 + w"), []
    with options(engine="jit", progress=seen.append):
        planned(30_000, True, 0.0, w=1.0)
        planned(30_000, True, np.zeros(10_000), w=1.0)
    assert seen
    assert seen[-1].total == 30_000


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("body", [BODY, lambda i, go, x: (True, x * 0.5 + i, x)], ids=["equations", "function"])
def test_a_function_may_stop_the_loop_and_keeps_what_was_computed(engine, body):
    with (
        options(engine=engine, progress=lambda report: report.iteration < 100, block_bytes=1000),
        pytest.raises(LoopStopped) as info,
    ):
        mdf_loop.loop(10**12, True, 0.0, body=body)
    error = info.value
    assert error.iteration >= 100
    assert len(error.partial[1]) == error.iteration
    again = mdf_loop.loop(error.iteration, True, 0.0, body=body)
    np.testing.assert_array_equal(error.partial[0], again[0])
    assert isinstance(error, mdf_loop.LoopError)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("how", [{}, {"steps": 10**7, "time_increment": 1e-9}], ids=["loop", "steps"])
def test_results_say_that_a_function_stopped_the_run(how):
    path = "examples/oscillator.yaml" if how else "examples/gallery/lorenz.yaml"
    with options(engine="interpret", progress=lambda report: False), pytest.raises(LoopStopped) as info:
        mdf_loop.run(path, **how)
    assert info.value.results.stop == "callback"
    assert info.value.results.iterations == info.value.iteration > 0


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine in ("numpy", "jit")])
@pytest.mark.parametrize("body", ["x: x * 0.5 + i", BODY])
def test_who_watches_costs_a_few_blocks(monkeypatch, engine, body):
    from mdf_loop.execute import numpy_engine

    def lengths(listener):
        found, run = [], numpy_engine.NumpyLoop._try_block
        now = [0.0]

        def noted(self, session, stage, length):
            found.append(length)
            done = run(self, session, stage, length)
            now[0] += 1e-7 * length
            return done

        def tick():
            now[0] += 1e-5  # what is interpreted takes longer
            return now[0]

        with monkeypatch.context() as patch:
            patch.setattr(paying, "WATCHED", 0.0)
            patch.setattr(numpy_engine.NumpyLoop, "_try_block", noted)
            patch.setattr(numpy_engine, "time", SimpleNamespace(perf_counter=tick))
            with options(engine=engine, progress=listener):
                mdf_loop.loop(1_000_000, True, 0.0, body=body)
        return found

    watched, alone = lengths(lambda report: None), lengths(None)
    assert sum(watched) == 999_999
    assert sum(alone) == (0 if engine == "jit" else 999_999)  # whom no one watches runs as one program
    assert len(watched) <= 10, watched


@pytest.mark.usefixtures("clock")
def test_inner_loops_report_the_outer_one():
    seen = []
    inner = mdf_loop.body(lambda i, go, x: (True, mdf_loop.loop(50, True, x, body=lambda j, go, s: (True, s + j))))
    with options(engine="interpret", progress=seen.append):
        mdf_loop.loop(40, True, 0.0, body=inner)
    assert {report.total for report in seen} == {40}
    assert [report.iteration for report in seen] == sorted(report.iteration for report in seen)


@pytest.mark.usefixtures("clock")
def test_models_report_too():
    seen = []
    text = """<ir_version: 10, opset_import: ["": 18]> main (int64 n, double x) => (double y) {
      y = Loop <body = b (int64 i, bool c, double s) => (bool c, double t) { t = Tanh (s) }> (n, , x) }"""
    with options(engine="interpret", progress=seen.append):
        backend.run_model(onnx.parser.parse_model(text), [np.array(500), np.array(1.0)])
        mdf_loop.run("examples/oscillator.yaml", steps=500, time_increment=0.01)
        mdf_loop.run("examples/drift_diffusion.yaml", seed=1)
    assert {500, 498, 5000} <= {report.total for report in seen}


def test_the_clock_is_looked_at_seldom(monkeypatch):
    looks = []
    now = SimpleNamespace(value=0.0)

    def monotonic():
        looks.append(now.value)
        return now.value

    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=monotonic))
    told = []
    watch = Watch(told.append, lambda: ("Loop", 7, None))
    for _ in range(1_000_000):
        now.value += 1e-6
        watch.passed()
    assert len(looks) < 100
    assert 5 <= len(told) <= 12


def test_a_trip_count_that_means_none_is_none():
    watch = Watch(lambda report: told.append(report), lambda: ("Loop", 7, (1 << 63) - 1))
    told = []
    watch._report(watch.started + 1)
    assert (told[0].total, told[0].left) == (None, None)


@pytest.mark.parametrize(
    ("report", "text"),
    [
        (Report("Loop", 50, 100, 2.0), "Loop: 50 of 100 iterations, 25 a second, 2 s left"),
        (Report("Loop", 1, 10_000, 1.0), "Loop: 1 of 10000 iterations, 1 a second, 2 h 46 min left"),
        (Report("Loop", 10, 2000, 1.0), "Loop: 10 of 2000 iterations, 10 a second, 3 min 19 s left"),
        (Report("Loop", 50, None, 2.0), "Loop: 50 iterations, 25 a second"),
        (Report("Loop", 10**6, None, 8.0), "Loop: 1000000 iterations, 125,000 a second"),
        (Report("Loop", 0, 10, 0.0), "Loop: 0 of 10 iterations, 0 a second"),
    ],
)
def test_a_report_in_words(report, text):
    assert str(report) == text


def test_it_is_true_false_none_or_a_function():
    with pytest.raises(ArgumentError, match="progress must be True, False, None or a function"), options(progress=3):
        pass
    with options(progress=False):
        assert mdf_loop.loop(3, True, 1, body="x: x + 1") == 4


@pytest.mark.usefixtures("clock")
def test_nothing_is_reported_where_there_is_no_terminal_but_in_the_log(caplog, capsys):
    with caplog.at_level(logging.INFO, "mdf_loop.progress"), options(engine="interpret", progress=True):
        mdf_loop.loop(500, True, 0.0, body=BODY)
    assert "of 500 iterations" in caplog.text
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("clock")
def test_a_program_without_stderr_has_the_log_too(caplog, monkeypatch):
    """A windowed program on Windows has none."""
    monkeypatch.setattr("sys.stderr", None)
    with caplog.at_level(logging.INFO, "mdf_loop.progress"), options(engine="interpret", progress=True):
        mdf_loop.loop(500, True, 0.0, body=BODY)
    assert "of 500 iterations" in caplog.text


class Terminal(io.StringIO):
    """A terminal that keeps what is written to it."""

    def isatty(self):
        """It is one."""
        return True


@pytest.mark.usefixtures("clock")
def test_a_terminal_gets_a_bar_that_goes_away(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with options(engine="interpret", progress=True):
        mdf_loop.loop(500, True, 0.0, body=BODY)
    assert "of 500 iterations" in terminal.getvalue()


@pytest.mark.usefixtures("clock")
def test_a_notebook_gets_one_too(monkeypatch):
    made = []

    class Tqdm:
        def __init__(self, **how):
            self.n, self.how, self.is_closed = 0, how, False
            made.append(self)

        def update(self, n):
            self.n += n

        def close(self):
            self.is_closed = True

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object())))
    monkeypatch.setitem(sys.modules, "tqdm.auto", SimpleNamespace(tqdm=Tqdm))
    with options(engine="interpret", progress=True):
        mdf_loop.loop(500, True, 0.0, body=BODY)
    (bar,) = made
    assert bar.how["total"] == 500
    assert 0 < bar.n <= 500
    assert bar.is_closed


def test_a_notebook_without_tqdm_gets_a_line_of_text(monkeypatch):
    lines = []
    line = SimpleNamespace(update=lambda data, raw: lines.append(data["text/plain"]))
    shown = SimpleNamespace(display=lambda *_, **how: line if how == {"raw": True, "display_id": True} else None)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(progress, "is_notebook", lambda: True)
    bar = Bar()
    for done, seconds in ((0, 0.0), (1, 0.01), (5, 1.0)):  # one that follows at once is not shown
        bar(Report("a sweep", done, 10, seconds, "runs"))
    bar.close()
    assert lines == ["a sweep: 0 of 10 runs, 0 a second", "a sweep: 5 of 10 runs, 5 a second, 1 s left", ""]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("shell", [None, SimpleNamespace()], ids=["no shell", "a shell in a terminal"])
def test_what_has_merely_imported_the_kernel_is_no_notebook(monkeypatch, caplog, shell):
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    caplog.set_level(logging.INFO, "mdf_loop.progress")
    with options(engine="interpret", progress=True):
        mdf_loop.loop(500, True, 0.0, body=BODY)
    assert "of 500 iterations" in caplog.text


def test_a_bar_waits_as_long_as_it_is_asked_to(monkeypatch):
    shown = []
    monkeypatch.setattr(progress, "_display", lambda _: (shown.append, lambda: None))
    bar = Bar(after=2.0)
    for seconds in (1.0, 1.9, 2.0, 3.0):
        bar(Report("Loop", 1, 2, seconds))
    assert [report.seconds for report in shown] == [2.0, 3.0]


@pytest.mark.parametrize(
    ("flags", "is_terminal", "told"),
    [
        ([], False, None),
        ([], True, 2.0),
        (["--progress"], True, 0.0),
        (["--progress"], False, 5.0),
        (["--no-progress"], True, False),
    ],
)
def test_the_command(monkeypatch, flags, is_terminal, told, capsys):
    seen = []
    terminal = SimpleNamespace(isatty=lambda: is_terminal, write=lambda _: None, flush=lambda: None)
    monkeypatch.setattr("mdf_loop.cli.run.sys.stderr", terminal)

    def run(*_, **__):
        from mdf_loop.options import current_options

        seen.append(current_options().progress)
        return Results({})

    monkeypatch.setattr("mdf_loop.models.opening.run", run)
    assert run_main("run", "m.yaml", *flags) == 0
    assert getattr(seen[0], "after", getattr(seen[0], "SECONDS", seen[0])) == told  # lines in a file come each so many seconds


def test_the_log_says_what_was_loaded_planned_and_compiled(caplog):
    with caplog.at_level(logging.INFO, "mdf_loop"), options(engine="numpy"):
        mdf_loop.load("examples/newton.yaml")
        mdf_loop.compile("told: told * 0.5 + i")(1000, True, 1.0)
    said = [record.getMessage() for record in caplog.records]
    assert "loaded examples/newton.yaml" in said
    assert "planned Loop over equations: 0 nodes hoisted, 0 batched, 2 stepped" in said
    assert any(re.fullmatch(r"compiled \d+ stepped nodes of equations|printed a program of \d+ lines", text) for text in said)


def test_a_notebook_without_widgets_gets_no_warning_from_the_bar(monkeypatch):
    def without_widgets(name):
        warnings.warn("IProgress not found", tqdm.TqdmWarning, stacklevel=2)
        return tqdm.tqdm

    fake = ModuleType("tqdm.auto")
    fake.__getattr__ = without_widgets
    monkeypatch.setitem(sys.modules, "tqdm.auto", fake)
    monkeypatch.setattr(progress, "is_notebook", lambda: True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        show, close = progress._display(Report("a loop", 1, 10, 0.5))
    show(Report("a loop", 2, 10, 1.0))
    close()


@pytest.mark.parametrize("engine", ["interpret", "numpy"])
def test_what_the_function_raises_has_the_results_so_far(engine):
    def fails(report):
        raise ZeroDivisionError("of the user")

    with options(progress=fails, engine=engine), pytest.raises(ZeroDivisionError, match="of the user") as caught:
        mdf_loop.loop(50_000_000, True, 0.0, body="x: x + sin(x) * 1e-3\ny: y + 1", y=0.0)
    assert caught.value.iteration > 0
    assert caught.value.partial[1] == caught.value.iteration
