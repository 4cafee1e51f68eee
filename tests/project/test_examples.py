"""Every example runs, and gives what its script computes without mdf_loop; the README is true."""

import doctest
import functools
import json
import runpy
from pathlib import Path

import numpy as np
import pytest
import yaml
from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.mdf import Model
from modeci_mdf.utils import load_mdf

import mdf_loop

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
MODELS = sorted(path for suffix in ("yaml", "json") for path in EXAMPLES.glob(f"*.{suffix}"))

name_of = {"ids": lambda path: path.name}


@functools.cache
def run_script(path):
    """The names that a script leaves behind, once it has run and all its asserts have held."""
    return runpy.run_path(str(path))


def script_of(model):
    """The script a model belongs to: newton_mdf.yaml belongs to newton.py."""
    (script,) = [path for path in SCRIPTS if model.stem in (path.stem, f"{path.stem}_mdf")]
    return run_script(script)


def assert_outputs(outputs, expected):
    assert outputs.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(outputs[name], expected[name], rtol=1e-9, err_msg=name)


def outputs_of(graph):
    """Every output of a graph that MDF's own engine has evaluated."""
    return {name: port.curr_value for node in graph.output_enodes for name, port in node.evaluable_outputs.items()}


def test_there_are_examples():
    assert len(SCRIPTS) >= 5
    assert len(MODELS) >= 2 * len(SCRIPTS)


@pytest.mark.parametrize("path", SCRIPTS, **name_of)
def test_script(path):
    run_script(path)


@pytest.mark.parametrize("path", MODELS, **name_of)
def test_model(path):
    script = script_of(path)
    with mdf_loop.options(seed=script.get("SEED")):
        assert_outputs(mdf_loop.run(path), script["reference"]())


@pytest.mark.parametrize("path", MODELS, **name_of)
def test_model_in_mdf(path):
    """MDF's own loader and engine need nothing but the import of mdf_loop."""
    script = script_of(path)
    with mdf_loop.options(seed=script.get("SEED")):
        graph = EvaluableGraph(load_mdf(str(path)).graphs[0])
        graph.evaluate()
    assert_outputs(outputs_of(graph), script["reference"]())


@pytest.mark.parametrize("path", MODELS, **name_of)
def test_model_written_by_mdf(path, tmp_path):
    """What MDF writes when it saves an example is the same model."""
    script, model = script_of(path), load_mdf(str(path))
    for suffix, write in ((".yaml", Model.to_yaml_file), (".json", Model.to_json_file)):
        saved = tmp_path / f"saved{suffix}"
        write(model, str(saved))
        with mdf_loop.options(seed=script.get("SEED")):
            assert_outputs(mdf_loop.run(saved), script["reference"]())


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), **name_of)
def test_yaml_and_json_are_the_same_model(path):
    assert yaml.safe_load(path.read_text()) == json.loads(path.with_suffix(".json").read_text())


def test_readme(monkeypatch):
    monkeypatch.chdir(ROOT)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    results = doctest.testfile(str(ROOT / "README.md"), module_relative=False, optionflags=flags)
    assert results.attempted
    assert not results.failed
