"""The quickstart and the gallery as a newcomer meets them: a fresh environment, the page's own lines, each supported Python."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

from tests.project.test_first_hour import QUICKSTART, ROOT, console_lines

pytestmark = pytest.mark.fresh

GALLERY = ROOT / "examples" / "gallery"

COPIED = ("mdf_loop", "docs", "examples", "setup.cfg", "pyproject.toml", "README.md", "LICENSE", "CITATION.cff", "CHANGELOG.md")
"""What of a checkout is needed: the environment gets a copy, so that nothing is written beside the sources."""


def candidates(version):
    """Where a Python of a version may be: every one on the path, and what version managers and installers keep."""
    name, home = f"python{version}", Path.home()
    places = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    places += sorted(Path(os.environ.get("PYENV_ROOT", home / ".pyenv")).glob(f"versions/{version}*/bin"))
    places += sorted((home / ".local/share/uv/python").glob(f"cpython-{version}*/bin"))
    return [place / name for place in places if (place / name).is_file()]


def interpreter(version):
    """A Python of a version that runs: what is called like one may be a shim that only says that there is none."""
    refused = []
    for found in candidates(version):
        asked = subprocess.run([found, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True)
        if not asked.returncode:
            return asked.stdout.strip()
        refused.append(f"{found}: {(asked.stderr.strip() or 'it says nothing').splitlines()[0]}")
    pytest.skip(f"no python{version} runs; " + ("; ".join(refused) or "there is none on the path"))


def done(command, place, **variables):
    """Run a command in a folder; the test fails with what it said if it fails."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MDF_LOOP", "VIRTUAL_ENV"))}
    finished = subprocess.run(command, cwd=place, env={**clean, "MPLBACKEND": "agg", **variables}, capture_output=True, text=True)
    assert finished.returncode == 0, f"{shlex.join(map(str, command))}\n{finished.stdout}\n{finished.stderr}"
    return finished.stdout


def installed(folder, line, checkout):
    """Run a line of a page that begins with pip install."""
    program, *arguments = shlex.split(line)
    assert (program, arguments[0]) == ("pip", "install")
    done([folder / "python", "-m", "pip", *arguments, "--quiet"], checkout)


def copied(place):
    """A copy of this checkout."""
    checkout = place / "checkout"
    checkout.mkdir()
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        left = ["__pycache__", "_build"]
        left += ["gallery", "sg_execution_times*"] if name == "docs" else []  # the documentation may be on its way there
        extra = {"ignore": shutil.ignore_patterns(*left)} if copy is shutil.copytree else {}
        copy(ROOT / name, checkout / name, **extra)
    return checkout


@pytest.fixture(scope="module", params=["3.11", "3.13", "3.14"])
def fresh(request, tmp_path_factory):
    """A checkout, and an environment into which the quickstart's first line has installed it."""
    python = interpreter(request.param)
    place = tmp_path_factory.mktemp(f"python{request.param}")
    checkout, environment = copied(place), place / "environment"
    done([python, "-m", "venv", environment], place)
    installed(environment / "bin", console_lines()[0], checkout)
    return SimpleNamespace(checkout=checkout, bin=environment / "bin", version=request.param)


def test_it_is_that_python(fresh):
    assert done([fresh.bin / "python", "--version"], fresh.checkout).startswith(f"Python {fresh.version}.")


def test_the_commands_of_the_quickstart(fresh, tmp_path):
    for line in console_lines()[1:]:
        program, *arguments = shlex.split(line)
        done([fresh.bin / program, *arguments], tmp_path)
    assert (tmp_path / "decay.npz").exists()


def test_the_lines_of_python_in_the_quickstart(fresh):
    page = Path("docs") / "quickstart.rst"
    assert (fresh.checkout / page).read_text() == QUICKSTART
    flags = ["-o", "NORMALIZE_WHITESPACE", "-o", "ELLIPSIS", "-o", "IGNORE_EXCEPTION_DETAIL"]
    done([fresh.bin / "python", "-m", "doctest", *flags, page], fresh.checkout)


@pytest.fixture(scope="module")
def with_gallery(fresh):
    """The same environment, with what the first page of the gallery says to install."""
    lines = [line.strip()[2:] for line in (GALLERY / "GALLERY_HEADER.rst").read_text().split("\n") if line.startswith("   $ ")]
    installed(fresh.bin, lines[0], fresh.checkout)
    return fresh


MORE = ("import jax", "import arviz", ".explore(")
"""What some pages need besides; they say how to install it and run in test_gallery, as it takes minutes in each environment."""

SCRIPTS = [path for path in sorted(GALLERY.glob("*.py")) if not any(line in path.read_text() for line in MORE)]


EACH = """
import os, runpy, sys, traceback
import matplotlib.pyplot, mdf_loop
for script in sys.argv[1:]:
    if (copy := os.fork()) == 0:
        try:
            runpy.run_path(script, run_name="__main__")
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(copy, 0)[1]:
        sys.exit(script)
"""
"""Runs scripts, each in a copy of a process that has imported what all of them import."""


def test_the_scripts_of_the_gallery(with_gallery):
    checkout = with_gallery.checkout
    done([with_gallery.bin / "python", "-c", EACH, *(path.relative_to(ROOT) for path in SCRIPTS)], checkout)


HEAVY = ("torch",)
"""What psyneulink asks for and runs without: gigabytes."""

BESIDE = """
import numpy as np
import psyneulink as pnl

import mdf_loop

first = pnl.IntegratorMechanism(name="A", function=pnl.AdaptiveIntegrator(rate=0.3))
last = pnl.ProcessingMechanism(name="B", function=pnl.Logistic(gain=2.0))
composition = pnl.Composition(pathways=[first, last])
with open("model.json", "w") as file:
    file.write(pnl.get_mdf_serialized(composition, simple_edge_format=True))
composition.run(inputs={first: [[1.0]]}, num_trials=5)
for engine in ("interpret", "numpy", "jit"):
    with mdf_loop.options(engine=engine):
        found = mdf_loop.run("model.json", A_InputPort_0=[[1.0]], steps=5, collect=True)
    np.testing.assert_allclose(found["B_OutputPort_0"].ravel(), np.ravel(composition.results), rtol=1e-12)
    print(engine)
"""


def test_a_model_runs_in_the_process_of_psyneulink(tmp_path):
    """One environment has both; the versions of MDF that both allow may be older than the newest."""
    checkout, python = copied(tmp_path), tmp_path / "environment" / "bin" / "python"
    done([sys.executable, "-m", "venv", tmp_path / "environment"], tmp_path)
    install = [python, "-m", "pip", "install", "--quiet"]
    done([*install, "--no-deps", "psyneulink"], tmp_path)
    say = "import importlib.metadata, json; print(json.dumps(importlib.metadata.requires('psyneulink')))"
    asked = [text for text in json.loads(done([python, "-c", say], tmp_path)) if "extra ==" not in text]
    done([*install, f"{checkout}[jit]", *(text for text in asked if Requirement(text).name not in HEAVY)], tmp_path)
    assert done([python, "-c", BESIDE], tmp_path).split() == ["interpret", "numpy", "jit"]
