"""Folders of ``record_to``, and files of ``mdf-loop run``: ``mdf_loop.open`` gives back what was known of the run."""

import subprocess
import sys

import numpy as np
import onnx.parser
import pytest
from commands import run_main
from modeci_mdf.mdf import Condition, ConditionSet

import mdf_loop
from mdf_loop.errors import ArgumentError, FileError, IterationLimit, LoopError
from mdf_loop.models.results import Results

pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")

DIFFUSION, OSCILLATOR = "examples/drift_diffusion.yaml", "examples/oscillator.yaml"

NETWORK = """
<ir_version: 8, opset_import: ["": 18]>
net (int64 m, float x) => (float y) {
    go = Constant <value = bool {1}> ()
    y, all = Loop (m, go, x) <body = b (int64 i, bool c, float v) => (bool c, float "w/x", float "w/x") {
        one = Constant <value_float = 1.0> ()
        "w/x" = Add (v, one)
    }>
}
"""


def assert_alike(found, expected):
    """The same values and the same knowledge of the run."""
    assert type(found) is type(expected) is Results
    for part, other in ((found, expected), (found.recorded, expected.recorded), (found.inputs, expected.inputs)):
        assert list(part) == list(other)
        for name, value in other.items():
            np.testing.assert_array_equal(part[name], value, err_msg=name)
    for name in ("iterations", "stop", "seed"):
        assert getattr(found, name) == getattr(expected, name)
    assert (found.about.model, found.about.every) == (expected.about.model, expected.about.every)
    assert tuple(found.about.collected) == tuple(expected.about.collected)


@pytest.mark.parametrize(
    ("model", "how"),
    [
        (DIFFUSION, {"seed": 7, "record": ["decision.x_out", "decision.z"]}),
        (DIFFUSION, {"seed": 7, "record": ["decision.x_out", "decision.drift"], "every": 7, "drift": np.float32(0.5)}),
        (DIFFUSION, {"record": "decision.x_out", "start": [0.25]}),
        (OSCILLATOR, {"steps": 50, "time_increment": 0.01, "record": "spring.position", "collect": True}),
        ("NETWORK", {"record": "y.w/x", "m": 5, "x": 1.0}),
    ],
)
def test_a_folder_opens_as_the_run(model, how, tmp_path):
    model = onnx.parser.parse_model(NETWORK) if model == "NETWORK" else model
    r = mdf_loop.run(model, record_to=tmp_path / "r.zarr", **how)
    found = mdf_loop.open(tmp_path / "r.zarr")
    assert_alike(found, r)
    r.save(tmp_path / "r.npz")
    assert_alike(mdf_loop.open(tmp_path / "r.npz"), r)
    if model == DIFFUSION:
        assert isinstance(found.recorded["decision.x_out"], zarr.Array)
    assert found.to_xarray().equals(r.to_xarray())


def test_a_run_that_ends_early_leaves_what_is_known(tmp_path):
    with pytest.raises(IterationLimit) as error, mdf_loop.options(max_iterations=100):
        mdf_loop.run(DIFFUSION, seed=7, record="decision.x_out", record_to=tmp_path / "r.zarr")
    found = mdf_loop.open(tmp_path / "r.zarr")
    assert_alike(found, error.value.results)
    assert (found.iterations, found.stop) == (100, "max_iterations")


KILLED = """
import os, sys, mdf_loop
with mdf_loop.options(engine="numpy", progress=lambda report: report.iteration < 2000 or os.kill(os.getpid(), 9)):
    mdf_loop.run(sys.argv[1], record="decision.x_out", record_to=sys.argv[2], bound=1e9, max_steps=10**7, noise=[0.5])
"""


def test_a_run_that_is_killed_leaves_what_it_recorded(tmp_path):
    place = tmp_path / "r.zarr"
    assert subprocess.run([sys.executable, "-c", KILLED, DIFFUSION, str(place)], check=False).returncode == -9
    found = mdf_loop.open(place)
    assert (dict(found), found.iterations, found.stop) == ({}, None, None)
    np.testing.assert_array_equal(found.inputs["noise"], [0.5])
    rows = found.recorded["decision.x_out"][...]
    again = mdf_loop.run(DIFFUSION, seed=found.seed, record="decision.x_out", **{**found.inputs, "max_steps": len(rows)})
    known = ~np.isnan(rows)
    assert known[:1000].all()
    np.testing.assert_array_equal(rows[known], again.recorded["decision.x_out"][known])


def test_nothing_is_replaced_in_vain(tmp_path):
    place = tmp_path / "r.zarr"
    before = mdf_loop.run(DIFFUSION, seed=1, record="decision.x_out", record_to=place)
    with pytest.raises(ArgumentError, match="x_uot"):
        mdf_loop.run(DIFFUSION, seed=2, record="decision.x_uot", record_to=place)
    assert_alike(mdf_loop.open(place), before)
    other = mdf_loop.run(DIFFUSION, seed=2, record="decision.x_out", record_to=place)
    assert_alike(mdf_loop.open(place), other)
    mdf_loop.sweep(DIFFUSION, {"drift": [1.0]}, checkpoint=tmp_path / "c.zarr")
    with pytest.raises(LoopError, match="has no results of a run; it is not replaced"):
        mdf_loop.run(DIFFUSION, record="decision.x_out", record_to=tmp_path / "c.zarr")


def test_a_full_disk_is_an_error_and_no_run_without_a_recording(tmp_path, monkeypatch):
    def full(self, place, rows):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zarr.Array, "__setitem__", full)
    with pytest.raises(FileError, match=r"r\.zarr' cannot be written: .*No space left"):
        mdf_loop.run(DIFFUSION, record="decision.x_out", record_to=tmp_path / "r.zarr")


def test_a_body_that_is_given_is_the_one_that_is_recorded():
    body = mdf_loop.prepare(DIFFUSION).inputs["body"].default["onnx"]
    r = mdf_loop.run(DIFFUSION, seed=7, record="decision.other", body={"onnx": body.replace("x_out", "other")}, every=10)
    expected = mdf_loop.run(DIFFUSION, seed=7, record="decision.x_out", every=10)
    np.testing.assert_array_equal(r.recorded["decision.other"], expected.recorded["decision.x_out"])
    assert r["evidence"] == expected["evidence"]
    with pytest.raises(ArgumentError, match=r"nothing to be recorded called 'decision.other'"):
        mdf_loop.run(DIFFUSION, record="decision.other")


def test_the_function_that_gets_progress_is_not_written(tmp_path):
    with mdf_loop.options(progress=lambda report: True, block_bytes=1 << 20):
        r = mdf_loop.run(DIFFUSION, seed=7)
    r.save(tmp_path / "r.npz")
    assert mdf_loop.open(tmp_path / "r.npz").about.options == {"block_bytes": 1 << 20}


def test_what_the_command_writes_can_be_opened(tmp_path, capsys):
    said = ["run", DIFFUSION, "--seed", "7", "--record", "decision.x_out", "--every", "10"]
    r = mdf_loop.run(DIFFUSION, seed=7, record="decision.x_out", every=10)
    assert run_main(*said, "-o", tmp_path / "o.npz") == 0
    assert_alike(mdf_loop.open(tmp_path / "o.npz"), r)
    assert run_main(*said, "--record-to", tmp_path / "r.zarr") == 0
    assert_alike(mdf_loop.open(tmp_path / "r.zarr"), r)
    capsys.readouterr()


def test_outputs_of_a_converted_model_have_their_names_in_a_recorded_run():
    text = '<ir_version: 8, opset_import: ["": 18]> g (float x) => (float "a/y") { "a/y" = Add (x, x) }'
    model = mdf_loop.convert(onnx.parser.parse_model(text))
    model.graphs[0].conditions = ConditionSet(node_specific={"Add": Condition("Always")}, termination={})
    r = mdf_loop.run(model, x=2.0, steps=2, record="Add.a_y")
    assert dict(r) == mdf_loop.run(model, x=2.0, steps=2) == {"a/y": 4.0}
    assert r.recorded["Add.a_y"].tolist() == [4.0, 4.0]
