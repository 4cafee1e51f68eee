"""What other systems refuse: descriptors that only read, file systems without links, consoles with few characters, no stdout."""

import errno
import io
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from commands import run_main

import mdf_loop
from mdf_loop.writers.atomic_files import second_name
from tests.results.test_writing import WRITERS, contents, model, result

fcntl = pytest.importorskip("fcntl", reason="the rules of Windows are tried on systems that have others")

EXAMPLES = Path(__file__).parents[2] / "examples"
DIFFUSION = EXAMPLES / "drift_diffusion.yaml"


@pytest.fixture(params=["Windows", "FAT"])
def system(request, monkeypatch):
    """Let Python refuse what such a system refuses; says what it refused."""
    refused: list[str] = []

    def refusing(name, original, is_refused, number):
        def call(*args, **more):
            if is_refused(*args, **more):
                refused.append(name)
                raise OSError(number, os.strerror(number))
            return original(*args, **more)

        monkeypatch.setattr(os, name, call)

    if request.param == "Windows":
        refusing("fsync", os.fsync, lambda number: fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY, errno.EACCES)
        refusing("open", os.open, lambda path, *_, **__: os.path.isdir(path), errno.EACCES)
        refusing("rename", os.rename, lambda old, new: os.path.lexists(new), errno.EEXIST)
    else:
        refusing("link", os.link, lambda *_: True, errno.EPERM)
    return SimpleNamespace(name=request.param, refused=refused)


@pytest.mark.parametrize("name", WRITERS)
def test_files_are_replaced(name, system, tmp_path):
    WRITERS[name](tmp_path, 1.0)
    old = contents(tmp_path)
    WRITERS[name](tmp_path, 2.0)
    new = contents(tmp_path)
    assert len(new) == len(old)
    assert new != old
    if "convert" in name:
        assert result(next(path for path in tmp_path.iterdir() if path.suffix != ".npz")) == 2.0


def test_weights_get_a_free_name(system, tmp_path):
    for value in (1.0, 2.0, 2.0, 3.0):
        mdf_loop.convert(model(value), tmp_path / "m.yaml")
        assert result(tmp_path / "m.yaml") == value
        assert len(contents(tmp_path)) == 2
    assert ("link" in system.refused) == (system.name == "FAT")


def test_sweeps_go_on_from_their_checkpoint(system, tmp_path):
    place = tmp_path / "c.zarr"
    wanted = mdf_loop.sweep(DIFFUSION, trials=20, seed=3)
    for trials in (10, 20, 20):
        found = mdf_loop.sweep(DIFFUSION, trials=trials, seed=3, checkpoint=place, chunk=7)
    assert found.identical(wanted)
    assert not [path for path in place.iterdir() if path.name.startswith(".")]
    assert ("link" in system.refused) == (system.name == "FAT")


def test_a_second_name_never_replaces_a_file(system, tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).write_text(name)
    with pytest.raises(FileExistsError):
        second_name(tmp_path / "one", tmp_path / "other")
    with pytest.raises(FileNotFoundError):
        second_name(tmp_path / "none", tmp_path / "free")
    second_name(tmp_path / "one", tmp_path / "third")
    assert {name: text.decode() for name, text in contents(tmp_path).items()} == {"one": "one", "other": "other", "third": "one"}


ENCODINGS = "cp1252", "cp932", "ascii", "utf-8"
COMMANDS = ("run",), ("explain",), ("check",), ("draw",), ("bench", "--seconds", "0.01"), ("sweep", "--trials", "2"), ("verify",)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A model whose folder and file have names that few encodings know; it is where the command runs."""
    place = tmp_path / "a b" / "Übung 漢字"
    place.mkdir(parents=True)
    (place / "モデル é.yaml").write_bytes((EXAMPLES / "oscillator.yaml").read_bytes())
    monkeypatch.chdir(place)
    return place


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_what_the_console_cannot_show_is_replaced(arguments, encoding, folder, monkeypatch):
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding) for _ in range(2))
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    assert run_main(arguments[0], "モデル é.yaml", *arguments[1:]) == 0
    out.flush()
    text = out.buffer.getvalue().decode(encoding)
    if arguments[0] == "bench":
        assert ("█" if encoding == "utf-8" else "#") in text
    if arguments[0] in ("run", "check"):
        assert "モデル é.yaml".encode(encoding, "replace").decode(encoding) in text


@pytest.mark.parametrize("arguments", [*COMMANDS, ("run", "--set", "nothing=1")], ids=" ".join)
def test_commands_run_without_stdout_and_stderr(arguments, folder, monkeypatch):
    """A windowed program on Windows has neither."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert run_main(arguments[0], "モデル é.yaml", *arguments[1:]) == ("nothing=1" in arguments)


@pytest.mark.parametrize("closed", ["", ">&-"])
def test_a_command_in_the_encoding_of_a_system(closed, folder):
    """The cache of machine code and outputs lie in such folders, too."""
    arguments = [sys.executable, "-m", "mdf_loop", "run", "モデル é.yaml", "--output", "結果 1.npz"]
    line = ["sh", "-c", f'exec "$@" {closed}', "sh", *arguments]
    variables = {"PYTHONPATH": str(EXAMPLES.parent), "PYTHONIOENCODING": "cp1252", "MDF_LOOP_CACHE": str(folder / "cache ü")}
    done = subprocess.run(line, env={**os.environ, **variables}, capture_output=True)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr
    with np.load(folder / "結果 1.npz") as found:
        assert found.files


def test_checkpoints_lie_in_folders_with_any_name(folder):
    found = mdf_loop.sweep(DIFFUSION, trials=4, seed=3, checkpoint=folder / "点 c.zarr")
    assert mdf_loop.open(folder / "点 c.zarr").identical(found)
