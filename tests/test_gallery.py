"""The scripts of the gallery: each runs by itself, begins with a model one can read, and ends in an assertion."""

import ast
import runpy
import sys
from pathlib import Path

import pytest

from mdf_loop.integrations.checking import check

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
