"""The quickstart and the gallery as a newcomer meets them: a fresh environment, the page's own lines, each supported Python."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_first_hour import QUICKSTART, ROOT, console_lines

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


@pytest.fixture(scope="module", params=["3.11", "3.13"])
def fresh(request, tmp_path_factory):
    """A checkout, and an environment into which the quickstart's first line has installed it."""
    python = interpreter(request.param)
    place = tmp_path_factory.mktemp(f"python{request.param}")
    checkout, environment = place / "checkout", place / "environment"
    checkout.mkdir()
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        extra = {"ignore": shutil.ignore_patterns("__pycache__", "_build")} if copy is shutil.copytree else {}
        copy(ROOT / name, checkout / name, **extra)
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


@pytest.mark.parametrize("script", sorted(GALLERY.glob("*.py")), ids=lambda path: path.stem)
def test_a_script_of_the_gallery(with_gallery, script):
    checkout = with_gallery.checkout
    done([with_gallery.bin / "python", checkout / script.relative_to(ROOT)], checkout)
