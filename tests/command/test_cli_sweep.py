"""``mdf-loop sweep``, and trials and recordings of ``mdf-loop run``."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from commands import run_main

import mdf_loop
from mdf_loop.cli import parameters
from mdf_loop.cli.parameters import given_inputs, value_in
from mdf_loop.cli.sweeping import axis
from mdf_loop.errors import ArgumentError, LoopInterrupted, MalformedBody
from mdf_loop.sweeps import pieces
from mdf_loop.sweeps.pieces import FIRST
from mdf_loop.sweeps.rows.rows_of_runs import Table
from mdf_loop.sweeps.task import Task

MODEL = Path(__file__).parents[2] / "examples" / "drift_diffusion.yaml"


def test_a_sweep_says_how_many_runs_ended_at_m(tmp_path, capsys):
    said = "3 of 6 runs ended at M, not earlier by their condition"
    given = "--over", "bound=0.1,50", "--trials", "3", "--seed", "1", "--outputs", "reaction_time"
    assert run_main("sweep", MODEL, *given) == 0
    assert f"drift_diffusion.yaml, {said}" in " ".join(capsys.readouterr().out.split())
    assert run_main("sweep", MODEL, *given, "--store", tmp_path / "s.zarr") == 0
    assert said in " ".join(capsys.readouterr().out.split())
    assert run_main("sweep", MODEL, *given, "--json") == 0
    assert json.loads(capsys.readouterr().out)["ended"] == said
    assert run_main("report", MODEL, "--over", "bound=0.1,50", "--trials", "3", "--seed", "1", "-o", tmp_path / "r.html") == 0
    assert f"<p>{said}</p>" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(
    ("values", "cure", "meant"),
    [
        ("0:0.1:1", "for steps of 0.1 from 0 to 1 write 0:1:11; for one value write 0", [np.arange(11) / 10, [0]]),
        ("0.5:0.5:2", "for steps of 0.5 from 0.5 to 2 write 0.5:2:4; for one value write 0.5", [[0.5, 1, 1.5, 2], [0.5]]),
        ("1:1:3", "for steps of 1 from 1 to 3 write 1:3:3; for one value write 1", [[1, 2, 3], [1]]),
        (
            "0:0.1:2",
            "for steps of 0.1 from 0 to 2 write 0:2:21; for 2 values up to 0.1 write 0:0.1:count=2",
            [np.arange(21) / 10, [0, 0.1]],
        ),
        (
            "0:0.5:10",
            "for steps of 0.5 from 0 to 10 write 0:10:21; for 10 values up to 0.5 write 0:0.5:count=10",
            [np.arange(21) / 2, np.linspace(0, 0.5, 10)],
        ),
        ("0:0.1:0.5", "for steps of 0.1 from 0 to 0.5 write 0:0.5:6; for one value write 0", [np.arange(6) / 10, [0]]),
        ("0:0:3", "for one value write 0", [[0]]),
        ("5:1:1", "for one value write 5", [[5]]),
        ("0:1:2.5", "for one value write 0", [[0]]),
    ],
)
def test_ranges_of_other_languages_are_refused_with_both_meanings(values, cure, meant):
    with pytest.raises(MalformedBody) as said:
        axis(f"drift={values}")
    assert str(said.value) == f"--over drift={values} is FROM:TO:COUNT; {cure}"
    for text, wanted in zip(re.findall(r"write ([^;]+)", cure), meant, strict=True):
        assert np.allclose(axis(f"drift={text}")[1], wanted)


@pytest.mark.parametrize("values", ["0:1:11", "1:1:1", "2:0:3", "0:1:2", "0:2:100", "0:0.5:6", "0:0.3:100", "0:-1:5"])
def test_other_ranges_are_as_many_values(values):
    first, last, count = map(float, values.split(":"))
    assert np.array_equal(axis(f"drift={values}")[1], np.linspace(first, last, int(count)))


@pytest.mark.parametrize("values", ["a:1:2", "0:1:", "0::3", "0:1:2:3"])
def test_ends_of_a_range_are_numbers(values):
    with pytest.raises(MalformedBody, match="is not a list of values"):
        axis(f"drift={values}")


def test_a_sweep_says_first_what_it_goes_over(capsys):
    given = "--over", "drift=0:2:3", "--over", "bound=0.1,0.5", "--trials", "2", "--outputs", "reaction_time"
    assert run_main("sweep", MODEL, *given) == 0
    assert capsys.readouterr().err.splitlines()[0] == "mdf-loop: drift from 0 to 2, 3 values; bound from 0.1 to 0.5, 2 values"
    for quiet in ("--json", "--quiet"):
        assert run_main("sweep", MODEL, *given, quiet) == 0
        assert not capsys.readouterr().err


def test_progress_without_a_terminal_is_a_line_now_and_then(capsys, monkeypatch):
    given = "--over", "drift=0:2:3", "--trials", "4", "--chunk", "1", "--outputs", "reaction_time"
    for seconds, lines in ((0.0, 3), (1000.0, 1)):
        monkeypatch.setattr(parameters._Lines, "SECONDS", seconds)
        assert run_main("sweep", MODEL, *given, "--progress") == 0
        said = [line for line in capsys.readouterr().err.splitlines() if " of 12 runs, " in line]
        assert len(said) >= lines
        assert seconds == 0 or len(said) == 1
        assert run_main("sweep", MODEL, *given) == 0
        assert " of 12 runs, " not in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_a_sweep_is_written_with_labels(suffix, tmp_path, capsys):
    xarray = pytest.importorskip("xarray")
    path = tmp_path / f"out.{suffix}"
    over = ["--over", "drift=0:2:3", "--over", "bound=0.5,1"]
    said = [*over, "--trials", "4", "--seed", "1", "--outputs", "reaction_time", "--checkpoint", str(tmp_path / "c.zarr")]
    assert run_main("sweep", MODEL, *said, "-o", path) == 0
    assert "drift 3, bound 2, trial 4" in capsys.readouterr().out
    expected = mdf_loop.sweep(
        MODEL,
        {"drift": [0.0, 1.0, 2.0], "bound": [0.5, 1.0]},
        trials=4,
        seed=1,
        outputs=["reaction_time"],
    )
    how = {"engine": "h5netcdf"} if suffix == "nc" else {"engine": "zarr", "consolidated": False}
    with xarray.open_dataset(path, **how) as found:
        assert found.reaction_time.dims == ("drift", "bound", "trial")
        assert (found.reaction_time.values == expected.reaction_time.values).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--over", "drift"], "--over takes NAME=START:STOP:COUNT"),
        (["--over", "drift=a,b"], "is not a list of values"),
        (["--over", "drft=1"], "did you mean 'drift'"),
        (["--over", "drift=1", "--reduce", "0.1,x"], "--reduce: '0.1,x' is not a list of quantiles"),
        (["--over", "drift=1", "--on-error", "stop"], "on_error must be 'keep' or 'raise'; got 'stop'"),
        (["--over", 'drift=[1, "a"]'], "is numbers or texts, not both; value 1 is the text 'a'"),
        (["--over", "drift=1", "--collect"], "collect without steps"),
        (["--over", "drift=1", "-o", "out.nc", "--store", "out.zarr"], "leave out -o"),
        (["--over", "drift=1", "-o", "out.csv"], "a sweep is written to a .nc or .zarr file"),
    ],
)
def test_what_a_sweep_cannot_take_is_said(arguments, message, capsys):
    assert run_main("sweep", MODEL, *arguments) == 1
    assert message in capsys.readouterr().err


def test_a_store_takes_the_results(tmp_path, capsys):
    pytest.importorskip("zarr")
    said = ["--over", "drift=0:2:3", "--trials", "4", "--seed", "1", "--outputs", "reaction_time", "--store", tmp_path / "s.zarr"]
    assert run_main("sweep", MODEL, *said) == 0
    shown = capsys.readouterr().out
    assert "reaction_time" in shown
    assert "drift 3, trial 4" in shown
    assert "float64" in shown
    assert run_main("sweep", MODEL, *said, "--json") == 0
    content = json.loads(capsys.readouterr().out)
    assert content["outputs"] == {"reaction_time": {"dims": ["drift", "trial"]}}
    assert content["complete"] == 12
    expected = mdf_loop.sweep(MODEL, {"drift": [0.0, 1.0, 2.0]}, trials=4, seed=1, outputs=["reaction_time"])
    assert (mdf_loop.open(tmp_path / "s.zarr").reaction_time.values == expected.reaction_time.values).all()


def test_trials_and_recordings_of_a_run(tmp_path):
    path = tmp_path / "out.npz"
    said = ["--seed", "7", "--record", "decision.x_out", "--every", "50", "--output", str(path)]
    assert run_main("run", MODEL, *said) == 0
    with np.load(path) as found:
        assert found["decision.x_out"].tolist() == found["path"][::50].tolist()
    assert run_main("run", MODEL, "--trials", "3", "--output", path) == 0
    with np.load(path) as found:
        assert found["reaction_time"].shape == (3,)


@pytest.mark.parametrize("suffix", ["npz", "nc", "zarr"])
def test_a_run_is_written_with_all_that_is_known_of_it(suffix, tmp_path, capsys):
    if suffix != "npz":
        pytest.importorskip("xarray")
        pytest.importorskip({"nc": "h5netcdf", "zarr": "zarr"}[suffix])
    path = tmp_path / f"r.{suffix}"
    assert run_main("run", MODEL, "--seed", "7", "--record", "decision.z", "--output", path) == 0
    found, wanted = mdf_loop.open(path), mdf_loop.run(MODEL, seed=7, record="decision.z")
    assert list(found) == list(wanted)
    np.testing.assert_array_equal(found["path"], wanted["path"])
    np.testing.assert_array_equal(found.recorded["decision.z"], wanted.recorded["decision.z"])
    assert (found.seed, found.stop) == (7, "condition")
    assert run_main("run", MODEL, "--seed", "7", "--max-iterations", "5", "--output", path) == 1
    assert mdf_loop.open(path).stop == "max_iterations"
    assert "written to" in capsys.readouterr().err


def test_a_run_that_could_not_be_written_does_not_begin(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("mdf_loop.models.opening.run", lambda *args, **named: pytest.fail("it ran"))
    assert run_main("run", MODEL, "--output", tmp_path / "r.csv") == 1
    assert "--output takes" in capsys.readouterr().err


def test_the_command_says_what_stands_for_what_is_not_there(tmp_path, capsys):
    pytest.importorskip("h5netcdf")
    said = ["--over", "bound=[1.0, [1.0, 2.0], 0.5]", "--seed", "1", "--outputs", "reaction_time,path", "--fill", "-1", "--quiet"]
    assert run_main("sweep", MODEL, *said, "-o", tmp_path / "s.nc") == 0
    told = capsys.readouterr().err
    assert "mdf-loop: 1 of 3 runs failed" in told
    assert "failed: point 1 (bound=[1.0, 2.0]), trial 0: iteration 0 of Loop" in told
    assert "LoopWarning" not in told
    found = mdf_loop.open(tmp_path / "s.nc")
    assert (found.reaction_time > 0).values.tolist() == [True, False, True]
    assert (found.path[1] == -1).all()
    assert run_main("sweep", MODEL, *said, "--on-error", "raise") == 1
    assert "in point 1 (bound=[1.0, 2.0]), trial 0" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [[], ["--json"], ["--reduce", "mean"]], ids=str)
def test_a_sweep_of_which_all_runs_fail_is_a_failure(flags, capsys):
    assert run_main("sweep", MODEL, "--over", "bound=[[1, 2], [3, 4]]", "--trials", "2", "--quiet", *flags) == 1
    told = capsys.readouterr()
    assert "mdf-loop: 4 of 4 runs failed" in told.err
    assert told.err.count("\nfailed: point") == (2 if "--reduce" in flags else 4)
    if "--json" in flags:
        assert json.loads(told.out)["failed"] == 4


def test_the_command_keeps_the_outputs_of_all_steps(tmp_path, capsys):
    pytest.importorskip("h5netcdf")
    said = ["--over", "damping=0.1,0.2", "--steps", "4", "--time-increment", "0.1", "--collect", "--quiet"]
    assert run_main("sweep", "examples/oscillator.yaml", *said, "-o", tmp_path / "s.nc") == 0
    how = {"steps": 4, "time_increment": 0.1, "collect": True}
    expected = mdf_loop.sweep("examples/oscillator.yaml", {"damping": [0.1, 0.2]}, **how)
    np.testing.assert_array_equal(mdf_loop.open(tmp_path / "s.nc").level, expected.level)
    capsys.readouterr()


def test_a_sweep_that_ends_early_is_written(tmp_path, capsys, monkeypatch):
    pytest.importorskip("h5netcdf")

    monkeypatch.setattr(Task, "run", _interrupted_from(4))
    said = ["--over", "drift=0,1,2", "--trials", "4", "--chunk", "4", "--quiet"]
    assert run_main("sweep", MODEL, *said, "-o", tmp_path / "s.nc") == 130
    written = f"mdf-loop: written to {str(tmp_path / 's.nc')!r}\n"
    far = "mdf-loop: interrupted; 4 of 12 runs are complete; "
    assert capsys.readouterr().err == f"{written}{far}with --checkpoint the same call continues\n"
    assert mdf_loop.open(tmp_path / "s.nc").reaction_time.notnull().sum() == 4
    place = tmp_path / "c.zarr"
    assert run_main("sweep", MODEL, *said, "--checkpoint", place) == 130
    assert capsys.readouterr().err == f"{far}the same call continues from {str(place)!r}\n"
    monkeypatch.undo()
    assert run_main("sweep", MODEL, *said, "--checkpoint", place, "--json") == 0
    assert json.loads(capsys.readouterr().out)["complete"] == 12


def _interrupted_from(first):
    """``Task.run``, which Ctrl-C ends inside a loop of a run from this one on."""

    def run(self, *span, original=Task.run):
        if span[0] >= first:
            error = LoopInterrupted("interrupted")
            error.iteration, error.outputs = 0, {}
            raise error
        return original(self, *span)

    return run


def test_results_that_do_not_fit_into_memory_are_an_error():
    rows = np.broadcast_to(1.5, (1, 10**9))
    with pytest.raises(
        ArgumentError, match=r"output 'path' of 10,000,000 runs, each float64\[1000000000\], takes 74,505,806.0 GiB"
    ):
        Table(10**7).put(slice(0, 1), "path", rows)


def test_trials_that_end_early_are_written(tmp_path, capsys, monkeypatch):
    def interrupted(self, *span, original=Task.run):
        if span[0]:
            raise KeyboardInterrupt
        return original(self, *span)

    monkeypatch.setattr(Task, "run", interrupted)
    monkeypatch.setattr(pieces, "SMALL", 0)  # few trials that no one watches are one piece
    path = tmp_path / "r.npz"
    assert run_main("run", MODEL, "--trials", str(FIRST * 3), "--set", "drift=9", "--no-progress", "-o", path) == 130
    assert "of " in capsys.readouterr().err
    with np.load(path) as found:
        assert 0 < len(found["reaction_time"]) < FIRST * 3


def test_a_terminal_gets_one_bar_with_the_runs(monkeypatch, capsys):
    from mdf_loop import progress

    shown = []
    monkeypatch.setattr(progress, "_display", lambda _: (shown.append, lambda: None))
    said = ["--over", "drift=3", "--trials", "6", "--chunk", "3", "--outputs", "evidence"]
    with monkeypatch.context() as terminal:
        terminal.setattr(parameters.sys.stderr, "isatty", lambda: True)
        assert run_main("sweep", MODEL, *said, "--progress") == 0
    assert [(report.iteration, report.total, report.unit) for report in shown] == [(0, 6, "runs"), (3, 6, "runs"), (6, 6, "runs")]
    for quiet in ([], ["--quiet"], ["--no-progress"]):  # stderr is no terminal, where a bar would come after two seconds
        assert run_main("sweep", MODEL, *said, *quiet) == 0
    assert len(shown) == 3
    capsys.readouterr()


def test_a_sweep_is_plotted(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    said = ["--over", "drift=0:2:3", "--trials", "4", "--outputs", "reaction_time", "--seed", "1"]
    assert run_main("sweep", MODEL, *said, "--plot", tmp_path / "s.svg", "-o", tmp_path / "s.nc") == 0
    written = [f"mdf-loop: written to {str(tmp_path / name)!r}\n" for name in ("s.nc", "s.svg")]
    assert capsys.readouterr().err == "".join(["mdf-loop: drift from 0 to 2, 3 values\n", *written])
    assert "reaction_time" in (tmp_path / "s.svg").read_text()
    assert run_main("sweep", MODEL, *said, "--plot", tmp_path / "s.txt") == 1
    assert "a picture is written to a .png" in capsys.readouterr().err


def test_results_are_printed_before_a_picture_is_refused(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    path, picture = tmp_path / "cube.yaml", tmp_path / "p.png"
    ports = "out: {value: '[[[1, 2], [3, 4]], [[5, 6], [7, x]]]'}"
    path.write_text(f"m: {{graphs: {{g: {{nodes: {{n: {{parameters: {{x: {{value: 8}}}}, output_ports: {{{ports}}}}}}}}}}}}}")
    for command in (["run", path], ["sweep", path, "--over", "x=1,2"]):
        assert run_main(*command, "--plot", picture) == 1
        printed = capsys.readouterr()
        assert "out" in printed.out
        assert "a picture shows two" in printed.err
    assert not picture.exists()


def test_outputs_are_named_in_one_option_or_in_several(tmp_path):
    for k, names in enumerate((["--outputs", "evidence,reaction_time"], ["--outputs", "evidence", "--outputs", "reaction_time"])):
        path = tmp_path / f"{k}.nc"
        assert run_main("sweep", "examples/drift_diffusion.yaml", "--over", "drift=0:1:2", *names, "-o", path) == 0
        assert {*mdf_loop.open(path).data_vars} == {"evidence", "reaction_time"}


@pytest.mark.parametrize(("text", "value"), [(".5", 0.5), ("5.", 5.0), ("-.5", -0.5), ("+1", 1), ("-1.e-2", -0.01)])
def test_numbers_are_read_as_yaml_has_them(text, value):
    assert axis(f"drift={text},1") == ("drift", [value, 1])
    given = given_inputs([f"drift={text}"], None)
    assert (given, type(given["drift"])) == ({"drift": value}, type(value))


@pytest.mark.parametrize(
    ("text", "value"), [("[.1, -.2]", "[0.1, -0.2]"), ("nan", "nan"), ("[+1, inf]", "[1, inf]"), ('"nan, .1"', "'nan, .1'")]
)
def test_values_may_be_written_as_in_python(text, value):
    assert repr(value_in(text)) == value
