"""The scripts of the gallery: each runs by itself, begins with a model one can read, and ends in an assertion."""

import ast
import os
import runpy
import sys
from pathlib import Path

import pytest

from mdf_loop.integrations.checks.model_file import check

GALLERY = Path(__file__).parent.parent / "examples" / "gallery"
SCRIPTS = sorted(GALLERY.glob("*.py"))

LONGEST = 80


def test_there_are_at_least_twelve():
    assert len(SCRIPTS) >= 12


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs_by_itself_and_checks_what_it_shows(path, monkeypatch, capsys):
    matplotlib = pytest.importorskip("matplotlib")
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
    assert 'MODEL = Path(__file__).with_suffix(".yaml")' in text
    assert path.with_suffix(".yaml").read_text().startswith("# ")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_nothing_is_wrong_with_the_models(path):
    told = [problem.message for problem in check(path.with_suffix(".yaml"))]
    assert [message for message in told if not (path.stem == "hodgkin_huxley" and "nothing reads it" in message)] == []


@pytest.fixture
def downloads(monkeypatch):
    """What makes the downloads of the gallery complete."""
    monkeypatch.syspath_prepend(GALLERY.parent.parent / "docs")
    return pytest.importorskip("gallery_downloads")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_notebook_brings_its_model(path, downloads, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(downloads.first_cell(path), names)
    assert names["__file__"] == path.name
    assert Path(f"{path.stem}.yaml").read_text() == path.with_suffix(".yaml").read_text()
    read = {found.suffix for found in GALLERY.glob(f"{path.stem}.*")} - {".py"}
    assert {found.suffix for found in downloads.beside(path)} == read


@pytest.mark.parametrize("name", ["bifurcation", "threshold"])
def test_a_script_is_a_notebook_too(name, downloads, tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    path = GALLERY / f"{name}.py"
    cells = [nbformat.v4.new_code_cell(text) for text in (downloads.first_cell(path), path.read_text())]
    notebook = nbformat.v4.new_notebook(cells=cells)
    environment = dict(os.environ, PYTHONPATH=str(GALLERY.parent.parent), MPLBACKEND="agg")
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute(env=environment)
