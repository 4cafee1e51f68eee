"""Errors leave public functions with the lines of the caller's code alone, unless ``options(traceback=True)``."""

import inspect
import logging
import os
import pdb
import subprocess
import sys
import textwrap
import traceback
from pathlib import Path

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import ArgumentError, KindError, LoopError, LoopInterrupted
from mdf_loop.options import public

ROOT = Path(__file__).parents[2]
NEWTON = ROOT / "examples/newton.yaml"
ENDLESS = "b (int64 i, bool c, double x) => (bool c, double y) { y = Add (x, x) }"


def files_of(error):
    """The files of the lines in the tracebacks of an error and its causes."""
    found = []
    while error is not None:
        found += [entry.filename for entry in traceback.extract_tb(error.__traceback__)]
        error = error.__cause__ or error.__context__
    return found


def of_library(error):
    return [file for file in files_of(error) if str(ROOT / "mdf_loop") in file or "<program>" in file]


MODEL = mdf_loop.prepare(NEWTON)
RESULTS = mdf_loop.run(NEWTON)
MISTAKES = {
    "run": lambda: mdf_loop.run(NEWTON, b=1),
    "run a file that is not there": lambda: mdf_loop.run("nothing.yaml"),
    "a model": lambda: MODEL(b=1),
    "a wrong type": lambda: MODEL(a="text"),
    "explain": lambda: MODEL.explain(b=1),
    "explore": lambda: MODEL.explore(b=(0, 1)),
    "an option": lambda: mdf_loop.options(engin="jit"),
    "the value of an option": lambda: mdf_loop.options(engine="fast"),
    "an argument": lambda: mdf_loop.draw(NEWTON, levl="equations"),
    "an argument that is missing": lambda: mdf_loop.load(),
    "a style": lambda: mdf_loop.plot(RESULTS, "guesses", colr="red"),
    "prepare": lambda: mdf_loop.prepare(3),
    "load": lambda: mdf_loop.load("nothing.json"),
    "open": lambda: mdf_loop.open("nothing.npz"),
    "draw": lambda: mdf_loop.draw(NEWTON, level="words"),
    "plot": lambda: mdf_loop.plot(RESULTS, "voltage"),
    "results": lambda: RESULTS["voltage"],
    "results plotted": lambda: RESULTS.plot("voltage"),
    "results saved": lambda: RESULTS.save("results.txt"),
    "sweep": lambda: mdf_loop.sweep(NEWTON, {"b": [1, 2]}),
    "a run of a sweep": lambda: mdf_loop.sweep(NEWTON, {"a": ["x"]}, on_error="raise"),
    "simulator": lambda: mdf_loop.simulator(NEWTON, ["b"]),
    "a simulator": lambda: mdf_loop.simulator(NEWTON, ["a"], trials=None)(np.ones((2, 2))),
    "fit": lambda: mdf_loop.fit(NEWTON, {"root": 1.0}, over={"b": (0, 1)}),
    "convert": lambda: mdf_loop.convert(ENDLESS, body="words"),
    "to_onnx": lambda: mdf_loop.to_onnx("nothing.yaml"),
    "loop": lambda: mdf_loop.loop(2.5, True, 1.0, body=ENDLESS),
    "loop in an iteration": lambda: mdf_loop.loop(3, True, np.ones(2), body="x: x + y", y=np.ones(3)),
    "scan": lambda: mdf_loop.scan(np.ones(3), body=ENDLESS),
    "if_": lambda: mdf_loop.if_(True, then_branch="x: 1"),
    "compile": lambda: mdf_loop.compile(3),
    "compiled": lambda: mdf_loop.compile(ENDLESS)(2, True, "text"),
    "body": lambda: mdf_loop.loop(2, True, 1.0, body=mdf_loop.body(lambda i, go, x: (True, 1 if x > 0 else 2))),
    "backend": lambda: mdf_loop.backend.prepare(mdf_loop.to_onnx(NEWTON)).run([1.0] * 9),
}


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("whole", [False, True])
def test_lines_of_the_library_are_there_only_when_asked_for(name, whole):
    with mdf_loop.options(traceback=whole), pytest.raises(LoopError) as caught:
        MISTAKES[name]()
    assert bool(of_library(caught.value)) is whole
    assert files_of(caught.value)[:1]
    assert all(__file__ in file for file in files_of(caught.value) if not whole)


def bad(i, go, x):
    return True, x + [1.0, 2.0][int(i)]


def test_lines_of_a_function_of_the_caller_stay():
    with mdf_loop.options(traceback=False), pytest.raises(LoopError) as caught:
        mdf_loop.loop(5, True, 1.0, body=bad)
    assert not of_library(caught.value)
    (entry,) = traceback.extract_tb(caught.value.__cause__.__traceback__)
    assert entry.name == "bad"
    assert "[int(i)]" in entry.line


def test_ctrl_c_too():
    def struck(report):
        raise LoopInterrupted("Ctrl-C")

    with mdf_loop.options(traceback=False, progress=struck), pytest.raises(LoopInterrupted) as caught:
        mdf_loop.loop(10**12, True, 1.0, body="x: x * 0.5")
    assert not of_library(caught.value)


def test_an_error_that_the_caller_was_handling_keeps_all_its_lines():
    def handling(first):
        before = len(traceback.extract_tb(first.__traceback__))
        with mdf_loop.options(traceback=False), pytest.raises(LoopError) as caught:
            mdf_loop.run(NEWTON, b=1)
        return caught.value.__context__, before

    try:
        np.concatenate([np.ones((2, 2)), np.ones(3)])
    except ValueError as error:
        first, (context, before) = error, handling(error)
    assert context is first
    assert len(traceback.extract_tb(first.__traceback__)) == before


@pytest.mark.parametrize("name", sorted({*mdf_loop.__all__} - {"LoopError", "backend", "kernel", "register", "unregister"}))
def test_every_public_function_is_one_whose_errors_are_the_callers(name):
    assert getattr(mdf_loop, name).__code__.co_filename == str(ROOT / "mdf_loop/options.py")
    assert str(inspect.signature(getattr(mdf_loop, name))) == str(inspect.signature(getattr(mdf_loop, name).__wrapped__))


SCRIPT = textwrap.dedent(
    """
    import mdf_loop

    def simulate():
        return mdf_loop.run({model!r}, b=1)

    with mdf_loop.options(traceback={whole}):
        simulate()
    """
)


@pytest.mark.parametrize("whole", [False, True])
def test_a_script_shows_the_line_of_its_own(tmp_path, whole):
    (tmp_path / "script.py").write_text(SCRIPT.format(model=str(NEWTON), whole=whole))
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, text=True, capture_output=True, env=_with_package())
    assert done.returncode == 1
    shown = [line.strip() for line in done.stderr.splitlines()]
    lines = [line for line in shown if line.startswith("File ")]
    assert len(lines) == 2 or (whole and len(lines) > 2)
    assert "simulate()" in shown
    assert f"return mdf_loop.run({str(NEWTON)!r}, b=1)" in shown
    assert done.stderr.splitlines()[-2 if "in " in shown[-1] else -1].startswith("mdf_loop.errors.ArgumentError")


def _with_package():
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def test_a_notebook_shows_the_line_of_its_cell(tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    call = f"mdf_loop.run({str(NEWTON)!r}, b=1)"
    cells = ["import mdf_loop", call, f"with mdf_loop.options(traceback=True):\n    {call}"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    client = nbclient.NotebookClient(notebook, timeout=600, allow_errors=True, resources={"metadata": {"path": str(tmp_path)}})
    client.execute(env=_with_package())
    hidden, whole = ("\n".join(cell.outputs[0]["traceback"]) for cell in notebook.cells[1:])
    assert "mdf_loop/" not in hidden
    assert "ArgumentError" in hidden
    assert "mdf_loop/models/" in whole
    assert "ArgumentError" in whole


def test_a_debugger_and_a_log_get_the_lines_that_are_kept(caplog):
    with mdf_loop.options(traceback=True):
        try:
            mdf_loop.run(NEWTON, b=1)
        except LoopError as error:
            stack, _ = pdb.Pdb(stdout=open(os.devnull, "w")).get_stack(None, error.__traceback__)  # noqa: SIM115
            logging.getLogger("of_a_user").exception("it failed")
    assert any("mdf_loop/models" in frame.f_code.co_filename for frame, _ in stack)
    assert "mdf_loop/models" in caplog.text


def test_debug_of_the_command_shows_the_lines_of_the_library():
    command = [sys.executable, "-m", "mdf_loop", "run", str(NEWTON), "--set", "b=1"]
    plain, whole = (
        subprocess.run([*command, *more], text=True, capture_output=True, env=_with_package()).stderr
        for more in ([], ["--debug"])
    )
    assert "Traceback" not in plain
    assert "mdf_loop/models/" in whole


def test_a_misspelt_argument_is_named_with_the_one_that_was_meant():
    with pytest.raises(KindError, match=r"draw: no argument 'levl'; did you mean .level.[?]; it takes model, steps") as caught:
        mdf_loop.draw(NEWTON, levl="equations")
    assert caught.value.__suppress_context__  # Python's own error says less
    with pytest.raises(TypeError, match="load: missing a required argument: 'path'"):
        mdf_loop.load()
    with pytest.raises(ArgumentError, match=r"unknown option engin; did you mean .engine.[?]"):
        mdf_loop.options(engin="jit")


def test_an_error_of_type_inside_a_function_stays_as_it_is():
    @public
    def called(value):
        return value + "text"

    with pytest.raises(TypeError, match="unsupported operand") as caught:
        called(1)
    assert not isinstance(caught.value, LoopError)


def of_no_name(i, go, x):
    return go, x + undefined_name  # noqa: F821


def of_numpys(i, go, x):
    return go, x + np.reshape(np.ones(3), (2, 2))


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("function", "kind"), [(of_no_name, NameError), (of_numpys, ValueError)])
@pytest.mark.parametrize("call", [lambda body: mdf_loop.loop(3, True, 1.0, body=body), mdf_loop.compile])
def test_an_error_of_the_callers_own_in_a_body_shows_their_lines(call, function, kind, whole):
    with mdf_loop.options(traceback=whole), pytest.raises(kind) as caught:
        call(mdf_loop.body(function))
    assert bool(of_library(caught.value)) is whole
    assert function.__name__ in [entry.name for entry in traceback.extract_tb(caught.value.__traceback__)]


def test_an_error_of_ours_inside_a_function_of_the_callers_keeps_all_its_lines(monkeypatch):
    monkeypatch.setattr("mdf_loop.readers.python.tracing.Trace.place", None)
    with mdf_loop.options(traceback=False), pytest.raises(TypeError) as caught:
        mdf_loop.loop(3, True, 1.0, body=mdf_loop.body(lambda i, go, x: (go, x + 1)))
    assert of_library(caught.value)
