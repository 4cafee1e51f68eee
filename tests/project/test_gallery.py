"""The scripts of the gallery: each runs by itself, begins with a model one can read, and ends in an assertion."""

import ast
import os
import runpy
import sys
from pathlib import Path

import pytest

from mdf_loop.checks.model_file import check

GALLERY = Path(__file__).parents[2] / "examples" / "gallery"
SCRIPTS = sorted(GALLERY.glob("*.py"))

LONGEST = 80


def model_of(path):
    """The file of a script's model."""
    return next(model for kind in (".yaml", ".json") if (model := path.with_suffix(kind)).exists())


def test_there_are_at_least_twelve():
    assert len(SCRIPTS) >= 12


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs_by_itself_and_checks_what_it_shows(path, monkeypatch, capsys):
    matplotlib = pytest.importorskip("matplotlib")
    if ".explore(" in path.read_text():
        pytest.importorskip("panel", reason="panel, of the extra explore, makes the sliders")
    matplotlib.use("agg", force=True)
    monkeypatch.setattr(sys, "argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")
    from matplotlib import pyplot

    assert pyplot.get_fignums()
    pyplot.close("all")
    capsys.readouterr()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_short_begins_with_its_model_and_ends_in_an_assertion(path):
    text = path.read_text()
    assert len(text.splitlines()) <= LONGEST
    assert isinstance(ast.parse(text).body[-1], ast.Assert)
    assert f'MODEL = Path(__file__).with_suffix("{model_of(path).suffix}")' in text
    assert model_of(path).read_text().startswith(("# ", "{"))  # JSON has no comments


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_nothing_is_wrong_with_the_models(path):
    told = [problem.message for problem in check(model_of(path))]
    of_others = path.stem in ("hodgkin_huxley", "stroop")  # MDF's own model, and what PsyNeuLink exports
    expected = ("nothing reads it", ", and not '")  # the latter are arguments that PsyNeuLink has and MDF has not
    assert [message for message in told if not (of_others and any(text in message for text in expected))] == []


@pytest.fixture
def downloads(monkeypatch):
    """What makes the downloads of the gallery complete."""
    monkeypatch.syspath_prepend(GALLERY.parent.parent / "docs")
    return pytest.importorskip("gallery_downloads")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_notebook_brings_what_it_reads(path, downloads, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, (code, *text) = {}, downloads.first_cells(path)
    exec("".join(code["source"]), names)
    assert names["__file__"] == path.name
    read = {found.name: found.read_bytes() for found in GALLERY.glob(f"{path.stem}.*") if found != path}
    assert {found.name: found.read_bytes() for found in tmp_path.iterdir()} == read
    assert all(model_of(path).read_text() in "".join(cell["source"]) for cell in text)


@pytest.mark.parametrize("name", ["bifurcation", "rnn"])
def test_a_script_is_a_notebook_too(name, downloads, tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    path = GALLERY / f"{name}.py"
    code = ["".join(downloads.first_cells(path)[0]["source"]), path.read_text()]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in code])
    environment = dict(os.environ, PYTHONPATH=str(GALLERY.parent.parent), MPLBACKEND="agg")
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute(env=environment)
