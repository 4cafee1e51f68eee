"""Rooms are folders that can be deleted: everything else works without them, and an error names the one that is missing."""

import json
import os
import shutil
import site
import subprocess
import sys
from pathlib import Path

import pytest

from mdf_loop.ops.rooms import ROOMS

ROOT = Path(__file__).parents[2]

USE_EVERYTHING = """
import json, sys
import numpy as np
import mdf_loop
from mdf_loop.cli import main
from mdf_loop.errors import UnsupportedOp

examples = sys.argv[1]
example = f"{examples}/accumulate.yaml"

def command(*words):
    try:
        main([*words])
    except SystemExit as end:
        assert not end.code, words

assert mdf_loop.run(example)["total"] == 13.0
command("check", example)
command("convert", example, "accumulate.onnx")
assert mdf_loop.run("accumulate.onnx")["total"] == 13.0
assert mdf_loop.run(mdf_loop.convert("accumulate.onnx"))["total"] == 13.0
assert "digraph" in mdf_loop.draw(example).dot

def outcome(call):
    try:
        call()
    except UnsupportedOp as error:
        return str(error)
    return "works"

head = '<ir_version: 10, opset_import: ["": 20, "ai.onnx.ml": 3]>'
concat = f"{head} f (int64 i, bool c, string s) => (bool c, string t) {{ t = StringConcat (s, s) }}"
scale = f"{head} f (int64 i, bool c, float[1] x) => (bool c, float[1] y) {{ y = ai.onnx.ml.Scaler <scale = [2.0]> (x) }}"
network = f"{examples}/openvino_loop.xml"
given = {"trip_count": 2, "go": True, "start": np.ones((2, 1), np.float32)}
needed = {
    "StringConcat": outcome(lambda: mdf_loop.loop(2, True, np.array("a", object), body=concat)),
    "ai.onnx.ml::Scaler": outcome(lambda: mdf_loop.loop(2, True, np.float32([1.0]), body=scale)),
    "run": outcome(lambda: mdf_loop.run(network, **given)),
    "draw": outcome(lambda: mdf_loop.draw(network)),
    "convert": outcome(lambda: mdf_loop.convert(network)),
}
print(json.dumps(needed))
"""

NEEDS = {"mdf_loop.ml": {"StringConcat", "ai.onnx.ml::Scaler"}, "mdf_loop.openvino": {"run", "draw", "convert"}}
"""What of the script needs which room."""


def used(folder, package):
    """What the script says of each thing that needs a room, with a copy of the package in a folder."""
    (folder / "script.py").write_text(USE_EVERYTHING)
    done = subprocess.run(
        [sys.executable, "-S", "script.py", str(ROOT / "examples")],  # -S: no finder of an editable installation, which has all
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(package.parent), *site.getsitepackages()])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def package(tmp_path):
    return shutil.copytree(ROOT / "mdf_loop", tmp_path / "site" / "mdf_loop")


def test_all_rooms_are_there(tmp_path, package):
    assert set(used(tmp_path, package).values()) == {"works"}


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.package)
def test_everything_else_works_without_a_room(tmp_path, package, room):
    shutil.rmtree(package / room.package.partition(".")[2])
    found = used(tmp_path, package)
    assert {name for name, outcome in found.items() if outcome != "works"} == NEEDS[room.package]
    for name in NEEDS[room.package]:
        assert f"needs {room.package}, which was taken out of this installation" in found[name]
        assert name in found[name] or "an OpenVINO model" in found[name]


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.package)
def test_table_says_what_a_room_has(room):
    from mdf_loop.kernels import load_kernels
    from mdf_loop.ops.registry import KERNELS

    load_kernels()
    ours = {
        name
        for name, rows in KERNELS.items()
        if any(row.built_in and row.run.__module__.startswith(room.package) for row in rows)  # other tests add kernels of users
    }
    assert {op for domain, op in ours if not domain} == room.operators
    assert {domain for domain, _ in ours} <= {room.domain, ""}
