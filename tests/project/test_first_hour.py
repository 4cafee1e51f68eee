"""The first hour: what the README and the quickstart say works as it stands, and what is built can be installed."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from commands import run_main

import mdf_loop
from mdf_loop.checks.model_file import check

ROOT = Path(__file__).parents[2]
QUICKSTART = (ROOT / "docs" / "quickstart.rst").read_text()


def block(text, language):
    """The first block of code of a page in Markdown."""
    return re.search(rf"```{language}\n(.*?)```", text, re.DOTALL).group(1)


def test_the_first_yaml_of_the_readme_is_a_model(tmp_path):
    path = tmp_path / "readme.yaml"
    path.write_text(block((ROOT / "README.md").read_text(), "yaml"))
    assert check(path) == []
    outputs = mdf_loop.run(path)
    assert (outputs["last"], outputs["path"].tolist()) == (1, [4, 2, 1])


def console_lines():
    """The commands that the quickstart shows."""
    return [line.strip()[2:] for line in QUICKSTART.split("\n") if line.startswith("   $ ")]


def test_the_commands_of_the_quickstart_work(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    install, *commands = console_lines()
    assert re.fullmatch(r'pip install -e "\.\[\w+\]"', install)
    extra = re.search(r"\[(\w+)\]", install).group(1)
    assert f"\n{extra} =\n" in (ROOT / "setup.cfg").read_text()
    assert len(commands) >= 4
    for command in commands:
        program, *arguments = command.split()
        assert program == "mdf-loop"
        assert run_main(*arguments) == 0, command
    assert (tmp_path / "decay.npz").exists()
    assert "nothing is wrong" in capsys.readouterr().out


def test_the_body_in_the_quickstart_is_that_of_the_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_main("new", "decay") == 0
    shown = re.search(r"code-block:: yaml\n\n(.*?)\n\n\S", QUICKSTART, re.DOTALL).group(1)
    parameters = yaml.safe_load((tmp_path / "decay.yaml").read_text())["decay"]["graphs"]["decay"]["nodes"]["decay"]["parameters"]
    assert yaml.safe_load(shown)["body"] == parameters["body"]


def python_lines(page):
    """The statements that a page shows behind >>>, those that skip left out; one text for each."""
    found: list[str] = []
    for line in page.split("\n"):
        if line.startswith(">>> "):
            found.append(line[4:])
        elif line.startswith("..."):
            found[-1] += "\n" + line[4:]
    return [text for text in found if "+SKIP" not in text]


def test_the_quickstart_is_a_notebook_too(tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    lines = python_lines(QUICKSTART)
    metadata = [{"tags": ["raises-exception"]} if "max_iterations" in line else {} for line in lines]
    cells = [nbformat.v4.new_code_cell(line, metadata=about) for line, about in zip(lines, metadata, strict=True)]
    cells.append(nbformat.v4.new_code_cell("mdf_loop.draw('examples/newton.yaml')"))
    notebook = nbformat.v4.new_notebook(cells=cells)
    environment = dict(os.environ, PYTHONPATH=str(ROOT), MPLBACKEND="agg")
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(ROOT)}})
    client.execute(env=environment)
    (drawn,) = notebook.cells[-1].outputs
    assert {"image/svg+xml", "text/html"} & set(drawn["data"])


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A wheel and an sdist, built from a copy."""
    pytest.importorskip("build")
    copy = tmp_path_factory.mktemp("source") / "mdf-loop"
    names = ("mdf_loop", "setup.cfg", "pyproject.toml", "README.md", "LICENSE", "CITATION.cff", "CHANGELOG.md", "MANIFEST.in")
    copy.mkdir()
    for name in names:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, copy / name)
    out = copy.parent / "dist"
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""})
    if done.returncode and re.search("(Unmet|Missing) dependencies", done.stdout + done.stderr):
        pytest.skip("setuptools is too old to build without a network")
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_wheel_and_sdist_hold_every_file(built):
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "mdf_loop").rglob("*.py")} | {"mdf_loop/py.typed"}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        assert files <= names
        assert not [name for name in names if name.startswith(("tests/", "docs/"))]
        metadata = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
    required = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", metadata, re.MULTILINE)
    assert {"typer", "rich", "numpy", "onnx"} <= set(required)
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert files <= inside
    assert {"README.md", "LICENSE", "setup.cfg"} <= inside


FIRST_COMMANDS = """
from mdf_loop.cli import main
from mdf_loop.settings.engines import install_line

for words in ("new first", "check first.yaml", "run first.yaml", "--version", "doctor"):
    try:
        main(words.split())
    except SystemExit as end:
        assert not end.code, words
print(install_line("plot"))
"""


def test_what_is_built_installs_and_works(built, tmp_path):
    (wheel,) = built.glob("*.whl")
    place = tmp_path / "place"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(place), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": str(place)}
    done = subprocess.run([sys.executable, "-c", FIRST_COMMANDS], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert str(place) in done.stdout
    assert done.stdout.endswith('pip install -e "PATH-OF-A-CHECKOUT[plot]"\n')
