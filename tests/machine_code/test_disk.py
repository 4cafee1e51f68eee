"""Object code on disk: what is found there is what was written there, by us, for this machine; anything else is not there."""

import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mdf_loop.backends.llvm.linking.object_code import ABANDONED, FOLDER, MAGIC, MOST, MOST_BYTES, Disk, disk, folder
from mdf_loop.system.checksums import checksum

KEY, OTHER = checksum("one"), checksum("other")
CONTENT = b"\x7fELF" + bytes(range(256))

owned = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")


@pytest.fixture
def kept(tmp_path):
    """A folder with one entry."""
    made = Disk(tmp_path / "some" / "cache")
    made.write(KEY, CONTENT)
    return made


def the_file(kept):
    (found,) = kept.kept()
    return Path(found.path)


def test_what_was_written_is_read(kept):
    assert kept.read(KEY) == CONTENT
    assert kept.read(OTHER) is None
    kept.write(KEY, b"newer")
    assert kept.read(KEY) == b"newer"
    assert Disk(kept.path).read(KEY) == b"newer"
    assert [file.name for file in kept.path.iterdir()] == [f"{KEY}.object"]


@pytest.mark.parametrize(
    "change",
    [
        lambda found: b"",
        lambda found: found[:-1],
        lambda found: found[: len(MAGIC)],
        lambda found: found + b"\0",
        lambda found: b"another program\n" + found,
        lambda found: bytes(len(found)),
        *(lambda found, k=k: found[:k] + bytes([found[k] ^ 1]) + found[k + 1 :] for k in (0, len(MAGIC), len(MAGIC) + 31, -1)),
    ],
)
def test_damaged_entries_are_not_there(kept, change):
    place = the_file(kept)
    place.write_bytes(change(place.read_bytes()))
    assert kept.read(KEY) is None
    kept.write(KEY, CONTENT)  # and are made good
    assert kept.read(KEY) == CONTENT


def test_an_entry_of_another_name_is_not_taken_for_it(kept):
    the_file(kept).rename(kept.path / f"{OTHER}.object")
    assert kept.read(OTHER) is None


@owned
def test_what_others_could_have_written_is_not_trusted(kept, tmp_path):
    the_file(kept).chmod(0o666)
    assert kept.read(KEY) is None
    the_file(kept).chmod(0o600)
    assert kept.read(KEY) == CONTENT
    kept.path.chmod(0o777)
    assert kept.read(KEY) is None
    assert "others can write" in kept.refusal()
    kept.write(OTHER, CONTENT)
    assert not (kept.path / f"{OTHER}.object").exists()
    kept.path.chmod(0o755)
    assert not kept.refusal()
    assert kept.read(KEY) == CONTENT


@owned
def test_what_belongs_to_another_user_is_not_trusted(kept, monkeypatch):
    somebody = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody)
    assert kept.read(KEY) is None
    assert "belongs to another user" in kept.refusal()


@owned
def test_links_are_not_followed_and_the_folder_is_the_users_own(kept, tmp_path):
    place = the_file(kept)
    assert stat.S_IMODE(kept.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    elsewhere = tmp_path / "elsewhere"
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    assert kept.read(KEY) is None


@owned
@pytest.mark.parametrize("kind", ["pipe", "socket", "directory", "link to a device"])
def test_what_is_no_file_is_no_entry_and_nothing_waits_for_it(kind, kept):
    place = the_file(kept)
    place.unlink()
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "socket":
        here = os.getcwd()
        os.chdir(kept.path)  # the name of a socket is short
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("s")
        os.chdir(here)
        os.rename(kept.path / "s", place)
    elif kind == "directory":
        place.mkdir()
    else:
        place.symlink_to("/dev/zero")
    assert kept.read(KEY) is None
    if kind != "directory":
        kept.write(KEY, CONTENT)
        assert kept.read(KEY) == CONTENT


def test_folders_that_cannot_be_are_no_cache(tmp_path, caplog):
    (tmp_path / "file").write_text("a file")
    for path in (tmp_path / "file", tmp_path / "file" / "inside", tmp_path / ("x" * 5000)):
        caplog.clear()
        with caplog.at_level("DEBUG", logger="mdf_loop"):
            made = Disk(path)
            made.write(KEY, CONTENT)
            assert made.read(KEY) is None
            assert list(made.kept()) == []
            assert made.clear() == 0
        assert caplog.records
    place = Disk(tmp_path / "folder").path / f"{KEY}.object"
    place.mkdir(parents=True)
    assert Disk(place.parent).read(KEY) is None
    Disk(place.parent).write(KEY, CONTENT)
    assert [file.name for file in place.parent.iterdir()] == [place.name]  # nothing is left beside


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_folders_that_may_not_be_written_to_are_still_read(kept):
    kept.path.chmod(0o500)
    kept.write(OTHER, CONTENT)
    assert kept.read(OTHER) is None
    assert kept.read(KEY) == CONTENT
    kept.path.chmod(0o700)


def test_a_disk_that_is_full_is_no_cache(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    made = Disk(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        made.write(KEY, CONTENT)
    assert made.read(KEY) is None
    assert not list(tmp_path.iterdir())


def test_what_was_used_longest_ago_goes_first(tmp_path):
    made = Disk(tmp_path, most_bytes=10_000)
    keys = [checksum(str(k)) for k in range(40)]
    for k, key in enumerate(keys):
        made.write(key, bytes(1000))
        os.utime(tmp_path / f"{key}.object", (k, k))
        made.read(keys[0])
    assert sum(each.size for each in made.kept()) <= 10_000
    assert made.read(keys[0]) is not None
    assert made.read(keys[-1]) is not None
    assert made.read(keys[1]) is None
    made.write(KEY, bytes(20_000))  # more than there may be at all
    assert made.read(KEY) is None
    few = Disk(tmp_path, most_entries=3)
    few.write(KEY, CONTENT)
    assert len(list(few.kept())) <= 3


def test_files_of_others_are_left_alone(kept):
    (kept.path / "thesis.tex").write_text("...")
    (kept.path / "0123456789abcdef.object").write_text("...")
    old = kept.path / ".0123456789abcdef.tmp"
    old.write_text("never finished")
    os.utime(old, (0, 0))
    new = kept.path / ".0123456789abcdee.tmp"
    new.write_text("not finished yet")
    assert ABANDONED > 60
    Disk(kept.path).write(OTHER, CONTENT)
    assert not old.exists()
    assert new.exists()
    assert kept.clear() == 3
    assert sorted(file.name for file in kept.path.iterdir()) == ["0123456789abcdef.object", "thesis.tex"]


def test_many_write_and_read_at_once(tmp_path):
    wrong = []

    def work(number):
        made = Disk(tmp_path, most_bytes=30_000)
        for k in range(150):
            name = str((number + k) % 37)
            made.write(checksum(name), name.encode() * 500)
            found = made.read(checksum(name))
            if found not in (None, name.encode() * 500):
                wrong.append(name)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong


def test_where_the_folder_is(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", "/home/me")
    assert {folder({FOLDER: word}) for word in ("off", "OFF", "0", "no", "false")} == {None}
    assert folder({FOLDER: str(tmp_path)}) == tmp_path
    for system, environment, expected in [
        ("linux", {"XDG_CACHE_HOME": "/var/mine"}, "/var/mine/mdf-loop"),
        ("linux", {"XDG_CACHE_HOME": "not/absolute"}, "/home/me/.cache/mdf-loop"),
        ("linux", {}, "/home/me/.cache/mdf-loop"),
        ("darwin", {}, "/home/me/Library/Caches/mdf-loop"),
    ]:
        monkeypatch.setattr(sys, "platform", system)
        assert folder(environment) == Path(expected)


def test_without_a_home_there_is_no_cache(monkeypatch):
    def homeless(cls):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", classmethod(homeless))
    assert folder({}) is None or sys.platform == "win32"


def test_the_environment_says_how_much(monkeypatch, tmp_path):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    for said, expected in [("12345", 12345), ("much", MOST_BYTES), ("", MOST_BYTES)]:
        monkeypatch.setenv(MOST, said)
        assert disk().most_bytes == expected
    monkeypatch.setenv(FOLDER, "off")
    assert disk() is None


CODE = """
import logging, sys
import numpy as np
import mdf_loop
from mdf_loop.backends.llvm.linking import machine
compiled, plain = [], machine.Machine._compiled
machine.Machine._compiled = lambda self, text, level: compiled.append(text) or plain(self, text, level)
body = "b (int64 i, bool c, float[n] x, double y) => (bool c2, float[n] x2, double y2, bool[m] s)"
body += " { c2 = Identity (c) x2 = Tanh (x) d = RandomNormal <shape=[1], dtype=11> () t = Squeeze (d) y2 = Add (y, t)"
body += " s = Less (x, x2) }"
with mdf_loop.options(engine="jit", seed=3):
    x, y, s = mdf_loop.loop(50, True, np.linspace(-2, 2, 9, dtype=np.float32), 1.5, body=body)
print(len(compiled), x.tobytes().hex(), float(y).hex(), s.dtype, s.sum())
"""


def results_in_a_process(**environment):
    found = subprocess.run(
        [sys.executable, "-c", CODE], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    count, *results = found.stdout.split()
    return int(count), results


def test_another_process_finds_what_was_compiled(tmp_path):
    pytest.importorskip("llvmlite")
    where = {FOLDER: str(tmp_path)}
    first, results = results_in_a_process(**where, PYTHONHASHSEED="1")
    assert first > 0
    assert results_in_a_process(**where, PYTHONHASHSEED="2") == (0, results)
    for place in tmp_path.iterdir():
        place.write_bytes(place.read_bytes()[:-7])
    assert results_in_a_process(**where) == (first, results)


def test_what_code_depends_on_is_in_its_name(tmp_path, monkeypatch):
    pytest.importorskip("llvmlite")
    import llvmlite

    import mdf_loop
    from mdf_loop.backends.llvm.linking import machine
    from mdf_loop.backends.llvm.linking.machine import Machine

    this = Machine()
    for part in (mdf_loop.__version__, llvmlite.__version__, this.triple, this.cpu, this.features.flatten(), "sroa"):
        assert str(part) in this.identity
    monkeypatch.setenv(FOLDER, str(tmp_path))
    text = "define i64 @f() {\n  ret i64 7\n}\n"
    this._object(text)
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr(machine.Machine, "_compiled", lambda self, text, level: b"compiled again")
    assert this._object(text) != b"compiled again"
    assert this._object(text, machine.IN_A_HURRY) == b"compiled again"
    this.identity += "another"
    assert this._object(text) == b"compiled again"
    assert checksum("ab", "c") != checksum("a", "bc")
