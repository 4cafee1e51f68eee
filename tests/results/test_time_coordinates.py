"""Rows of iterations have a time, where the model says how long an iteration takes."""

import numpy as np
import onnx.parser
import pytest
import yaml

pytest.importorskip("xarray", reason="labelled results need it: pip install -e .[sweep]")

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.errors import LoopWarning
from mdf_loop.models import saving

DDM, FITZHUGH = "examples/drift_diffusion.yaml", "examples/gallery/fitzhugh_nagumo.yaml"

MODEL = """
neuron:
  graphs:
    neuron:
      nodes:
        cell:
          input_ports: {current: {default_value: 1.5}}
          parameters:
            body: {value: {derivatives: {v: current - v}, dt: 0.25, collected: {path: v}}}
            run: {function: onnx::Loop, args: {M: 6, cond: true, v: 0.0, body: body}}
          output_ports: {path: {value: run.path}}
"""


def test_collected_and_recorded_values_have_the_time_at_the_end_of_their_iteration():
    found = mdf_loop.run(DDM, seed=1, dt=0.002)
    path = found.to_xarray().path
    np.testing.assert_allclose(path.time, 0.002 * np.arange(1, len(path) + 1))
    assert path.time.dims == ("iteration",)
    assert abs(float(path.time[-1]) + 0.3 - found["reaction_time"]) < 1e-9
    recorded = mdf_loop.run(DDM, seed=1, record=["decision.trial.x"], every=5).to_xarray()
    name = next(name for name in recorded if "trial" in name)
    np.testing.assert_allclose(recorded[name].iteration % 5, 0)
    np.testing.assert_allclose(recorded[name].time, 0.001 * recorded[name].iteration)


def test_trials_and_sweeps_have_it_unless_the_step_is_swept():
    trials = mdf_loop.run(DDM, seed=1, trials=3).to_xarray()
    np.testing.assert_allclose(trials.time, 0.001 * np.arange(1, trials.sizes["iteration"] + 1))
    swept = mdf_loop.sweep(DDM, {"drift": [0.5, 1.0]}, seed=1, dt=0.004)
    np.testing.assert_allclose(swept.time, 0.004 * np.arange(1, swept.sizes["iteration"] + 1))
    assert "time" not in mdf_loop.sweep(DDM, {"dt": [0.002, 0.004]}, seed=1).coords


def test_a_step_that_equations_say_counts(tmp_path):
    path = tmp_path / "neuron.yaml"
    path.write_text(MODEL)
    found = mdf_loop.run(path)
    np.testing.assert_allclose(found.to_xarray().time, 0.25 * np.arange(1, 7))
    np.testing.assert_allclose(found["path"], 1.5 * (1 - 0.75 ** np.arange(1, 7)), rtol=1e-12)


def test_what_is_saved_keeps_it_and_an_output_of_that_name_stays(tmp_path):
    found = mdf_loop.run(DDM, seed=1)
    found.save(tmp_path / "run.nc")
    again = mdf_loop.open(tmp_path / "run.nc")
    np.testing.assert_allclose(again.to_xarray().time, found.to_xarray().time)
    named = yaml.safe_load(MODEL)
    ports = named["neuron"]["graphs"]["neuron"]["nodes"]["cell"]["output_ports"]
    ports["time"] = {"value": "run.v"}
    (tmp_path / "named.yaml").write_text(yaml.safe_dump(named))
    labelled = mdf_loop.run(tmp_path / "named.yaml").to_xarray()
    assert "time" in labelled.data_vars
    assert "time" not in labelled.path.coords


CLOCK = """
clock:
  graphs:
    clock:
      nodes:
        n:
          parameters:
            dt: {value: 0.25}
            body:
              value:
                let: {now: t + 0, later: now + dt}
                carried: {t: t + dt, x: later}
                collected: {path: t, state: x + 0, seen: now}
                while: t < 1.5
            run: {function: onnx::Loop, args: {M: 9, cond: true, t: 0.0, x: 0.0, body: body}}
          output_ports: {path: {value: run.path}}
"""
STARTS, ENDS = ("n.t", "n.x", "n.now"), ("n.path", "n.state", "n.later")


def clock(tmp_path):
    """A model all of whose values are the time in it."""
    path = tmp_path / "clock.yaml"
    path.write_text(CLOCK)
    return path


@pytest.mark.parametrize("how", [{}, {"every": 2}, {"trials": 2}])
@pytest.mark.parametrize("record", [STARTS[:1], STARTS, ENDS, (*STARTS, *ENDS)], ids=lambda names: "-".join(names))
def test_each_value_has_the_time_that_it_belongs_to(tmp_path, record, how):
    found = mdf_loop.run(clock(tmp_path), record=record, **how).to_xarray()
    for name in (*record, "path"):
        value = found[name].isel(trial=0) if "trial" in found[name].dims else found[name]
        own = f"{value.dims[0].removesuffix('iteration')}time"
        np.testing.assert_allclose(found[value.attrs.get("time", own)], value, err_msg=name)


def test_values_of_both_ends_share_the_axis_of_iterations(tmp_path):
    found = mdf_loop.run(clock(tmp_path), record="n.t").to_xarray()
    assert {"start_time", "end_time"} <= set(found.coords)
    assert "time" not in found.coords
    assert len(found.to_dataframe()) == found.sizes["iteration"] == len(found.path)


@pytest.mark.parametrize("suffix", [".npz", ".nc", ".zarr"])
def test_a_saved_recording_keeps_its_times(tmp_path, suffix):
    pytest.importorskip({".nc": "h5netcdf", ".zarr": "zarr"}.get(suffix, "numpy"), reason="the file needs it")
    found = mdf_loop.run(clock(tmp_path), record=["n.t", "n.path"])
    found.save(tmp_path / f"run{suffix}")
    assert mdf_loop.open(tmp_path / f"run{suffix}").to_xarray().identical(found.to_xarray())


def test_lines_of_a_plot_have_the_times_of_their_values(tmp_path):
    pytest.importorskip("matplotlib", reason="plots need it")
    found = mdf_loop.run(clock(tmp_path), record=(*STARTS, *ENDS))
    for source in (found, found.to_xarray()):
        for name in (*STARTS, *ENDS, "path"):
            (line,) = mdf_loop.plot(source, name).lines
            np.testing.assert_allclose(*line.get_data(), err_msg=name)
            assert line.axes.get_xlabel() == "time"


ONNX = """
    <ir_version: 8, opset_import: ["" : 18]>
    clock (int64 M, double start, double dt) => (double last, double[n] path)
    {
      yes = Constant <value: tensor = bool {1}> ()
      last, path = Loop <body = body (int64 i, bool go, double t) => (bool go_out, double t_out, double kept)
        {
          zero = Constant <value: tensor = double {0}> ()
          now = Add (t, zero)
          t_out = Add (now, dt)
          later = Add (t_out, zero)
          go_out = Identity (go)
          kept = Identity (later)
        }> (M, yes, start)
    }
"""


def test_in_a_graph_of_operators_each_value_has_the_time_that_it_belongs_to():
    names = [f"last.{name}" for name in ("t", "now", "t_out", "later")]
    model = mdf_loop.prepare(onnx.parser.parse_model(ONNX))
    found = model(M=np.int64(4), start=np.float64(0), dt=np.float64(0.5), record=names).to_xarray()
    for name in names:
        np.testing.assert_allclose(found[found[name].attrs["time"]], found[name], err_msg=name)


def test_models_without_a_step_have_none():
    assert "time" not in mdf_loop.run("examples/accumulate.yaml", x=[10, 20, 5], y=0).to_xarray().coords


TWO_STEPS = """
m:
  format: ModECI MDF v0.4
  graphs:
    g:
      nodes:
        n:
          parameters:
            dt: {value: 0.1}
            gain: {value: 2.0}
            body: {value: {derivatives: {v: 1 - v}, OWN, collected: {path: v}}}
            run: {function: onnx::Loop, args: {M: 5, v: 0.0, body: body}}
          output_ports: {v: {value: run.v}, path: {value: run.path}}
"""


@pytest.mark.parametrize("own", ["dt: 0.01", "let: {dt: 0.01}", "let: {dt: 1 / 100}"])
def test_the_time_is_that_of_the_steps_that_ran(tmp_path, own):
    """A body that has its own step does not read that of the node, and a run and a check say so."""
    path = tmp_path / "two.yaml"
    path.write_text(TWO_STEPS.replace("OWN", own))
    step = None if "/" in own else 0.01
    assert mdf_loop.run(path).about.dt == step
    for given in ({"dt": 0.5}, {"gain": 3.0}, {"n.gain": 3.0}):
        with pytest.warns(mdf_loop.errors.LoopWarning, match=f"nothing reads '{next(iter(given))}'"):
            assert mdf_loop.run(path, **given).about.dt == step
    with pytest.warns(mdf_loop.errors.LoopWarning, match="nothing reads 'gain'"):
        mdf_loop.sweep(path, over={"gain": [1.0, 2.0]})
    assert [found.message for found in check(path)] == ["g/n/dt: nothing reads it", "g/n/gain: nothing reads it"]
    path.write_text(TWO_STEPS.replace("OWN", "method: euler"))
    assert mdf_loop.run(path, dt=0.5).about.dt == 0.5  # and no warning


def test_a_function_reads_what_it_takes_by_name(tmp_path):
    path = tmp_path / "named.yaml"
    node = "{parameters: {A: {value: [3.0]}, B: {value: 2.0}}, functions: {f: {function: 'onnx::Mul', args: {}}}"
    path.write_text(
        f"m: {{format: ModECI MDF v0.4, graphs: {{g: {{nodes: {{n: {node}, output_ports: {{w: {{value: f}}}}}}}}}}}}}}"
    )
    assert check(path) == []
    assert mdf_loop.run(path, A=[7.0])["w"] == 14.0


def model_of(tmp_path, nodes, rest=""):
    """A model of nodes in YAML."""
    path = tmp_path / "model.yaml"
    path.write_text(f"m: {{format: ModECI MDF v0.4, graphs: {{g: {{nodes: {{{nodes}}}{rest}}}}}}}")
    return path


EVENTS = """syn: {
  parameters: {events: {value: [1.0, 2.0, 3.0]}, body: {value: {carried: {w: w + e}, scanned: [e], collected: {ws: w}}},
    run: {function: 'onnx::Scan', args: {w: 0.0, e: events, num_scan_inputs: 1, body: body}}},
  output_ports: {ws: {value: run.ws}}}"""
CELL = """cell: {
  parameters: {dt: {value: 0.5, metadata: {units: ms}}, body: {value: {carried: {v: v + dt}, collected: {spikes: v + 0}}},
    run: {function: 'onnx::Loop', args: {M: LENGTH, cond: true, v: 0.0, body: body}}},
  output_ports: {spikes: {value: run.spikes}}}"""


@pytest.mark.parametrize("length", [3, 5])
def test_rows_of_a_loop_that_reads_no_step_have_no_time(tmp_path, length):
    path = model_of(tmp_path, f"{EVENTS}, {CELL.replace('LENGTH', str(length))}")
    for found in (
        mdf_loop.run(path, record=["syn.w"]).to_xarray(),
        mdf_loop.run(path, trials=2).to_xarray(),
        mdf_loop.sweep(path, {"events": [[1.0, 2.0, 3.0]]}),
    ):
        assert not any("time" in name for name in found.ws.coords)
        (time,) = (found.coords[name] for name in found.spikes.coords if "time" in name)
        np.testing.assert_allclose(time, 0.5 * np.arange(1, length + 1))
        assert time.attrs["units"] == "ms"
    assert "time" not in mdf_loop.sweep(path, {"events": [[1.0, 2.0, 3.0]]}, outputs=["ws"]).coords


def test_axes_are_shared_by_rows_of_one_time(tmp_path):
    pytest.importorskip("matplotlib", reason="plots need it")
    found = mdf_loop.run(model_of(tmp_path, f"{EVENTS}, {CELL.replace('LENGTH', '3')}"))
    for source in (found, found.to_xarray()):
        labels = {mdf_loop.plot(source, name).get_xlabel() for name in ("ws", "spikes")}
        assert "time (ms)" in labels or "spikes_time (ms)" in labels
        assert any("iteration" in label for label in labels)
    axes = found.plot().figure.axes
    assert sorted(each.get_xlabel() for each in axes) == ["iteration", "time (ms)"]
    assert all(len(each.lines) == 1 for each in axes)


def test_the_step_of_one_node_among_several_is_that_which_is_given(tmp_path):
    other = CELL.replace("cell", "slow").replace("spikes", "slow").replace("0.5", "2.0").replace("LENGTH", "4")
    path = model_of(tmp_path, f"{CELL.replace('LENGTH', '4')}, {other}")
    assert mdf_loop.run(path, **{"cell.dt": 0.25}).about.steps == {"spikes": 0.25, "slow": 2.0}
    found = mdf_loop.run(path).to_xarray()
    np.testing.assert_allclose(found.spikes.time, found.spikes)
    np.testing.assert_allclose(found.slow.slow_time, found.slow)


STEPPED = """acc: {metadata: {loop: {iterations_per_execution: 4}}, input_ports: {dt: {default_value: 0.01}},
  parameters: {body: {value: {carried: {x: x + dt, t: t + dt}, while: x < 0.95}},
    run: {function: 'onnx::Loop', args: {M: 100, cond: true, x: 0.0, t: 0.0, body: body}}},
  output_ports: {x: {value: run.x}, t: {value: run.t}}}"""
TERMINATION = ", conditions: {termination: {environment_state_update: {type: AfterNPasses, kwargs: {n: 6}}}}"


def test_rows_of_passes_have_no_time(tmp_path):
    pytest.importorskip("matplotlib", reason="plots need it")
    every_second = (
        "a: {parameters: {k: {value: k + 1, default_initial_value: 0}}, output_ports: {k: {value: k}}}, "
        "b: {parameters: {dt: {value: 0.1}, t: {value: t + dt, default_initial_value: 0.0}}, output_ports: {t: {value: t}}}"
    )
    specific = ", conditions: {node_specific: {b: {type: EveryNCalls, kwargs: {dependencies: a, n: 2}}}, " + TERMINATION[15:]
    for nodes, rest, name in ((STEPPED, TERMINATION, "acc.x"), (every_second, specific, "b.t")):
        found = mdf_loop.run(model_of(tmp_path, nodes, rest), record=[name])
        assert found.about.iterations == 6
        assert found.about.steps == {} == dict(mdf_loop.run(model_of(tmp_path, nodes), record=[name]).about.steps)
        labelled = found.to_xarray()
        assert "time" not in labelled.coords
        assert labelled.iteration.attrs["long_name"] == "pass"
        found.save(tmp_path / "r.npz")
        for source in (found, labelled, mdf_loop.open(tmp_path / "r.npz")):
            assert mdf_loop.plot(source, name).get_xlabel() == "pass"
    model = model_of(tmp_path, every_second)
    for labelled in (
        mdf_loop.run(model, steps=3, collect=True).to_xarray(),
        mdf_loop.sweep(model, {"dt": [1.0]}, steps=3, collect=True),
    ):
        assert labelled.iteration.attrs["long_name"] == "step"


BODIES = {
    "nothing reads it": ("{carried: {v: v + 1}, collected: {path: v}}", False),
    "a let hides it": ("{let: {dt: 0.1}, carried: {v: v + 1}, collected: {path: v}}", False),
    "only the condition reads it": ("{carried: {v: v + 1}, collected: {path: v}, while: v * dt < 100}", True),
    "a derivative reads it": ("{derivatives: {v: -v}, collected: {path: v}}", True),
    "a carried value hides a parameter": ("{carried: {v: v + decay, decay: decay + 1}, collected: {path: v}}", False),
    "through a parameter": ("{carried: {v: v * decay}, collected: {path: v}}", True),
}


@pytest.mark.parametrize("case", BODIES)
def test_only_a_loop_that_reads_the_step_goes_through_time(tmp_path, case):
    body, is_timed = BODIES[case]
    node = f"""n: {{parameters: {{dt: {{value: 0.1}}, decay: {{value: 1 - dt}}, body: {{value: {body}}},
        run: {{function: 'onnx::Loop', args: {{M: 4, cond: true, v: 1.0, MOREbody: body}}}}}},
        output_ports: {{path: {{value: run.path}}}}}}"""
    path = model_of(tmp_path, node.replace("MORE", "decay: 1.0, " if "decay: decay" in body else ""))
    found = mdf_loop.run(path, record=["n.v"])
    assert found.about.steps == ({"path": 0.1, "n.v": 0.1} if is_timed else {})


def test_the_iterations_around_a_loop_through_time_have_none():
    text = ONNX.replace("kept = Identity (later)", "INNER kept = Identity (later)").replace(
        "INNER",
        "s = Loop <body = inner (int64 j, bool g, double u) => (bool g_out, double u_out) "
        "{ g_out = Identity (g) u_out = Add (u, dt) }> (M, yes, t)",
    )
    found = mdf_loop.prepare(onnx.parser.parse_model(text))(
        M=np.int64(4), start=np.float64(0), dt=np.float64(0.5), record=["last.t"]
    )
    assert found.about.steps == {}


@pytest.mark.parametrize("suffix", ["npz", "nc"])
def test_files_of_earlier_versions_have_one_step_for_all_rows(tmp_path, monkeypatch, suffix):
    found = mdf_loop.run(DDM, seed=1, dt=0.002, record=["decision.trial.t"])

    def as_before(results, arrays, there=None):
        said = saving_now(results, arrays, there)
        steps = said["about"].pop("steps")
        said["about"]["dt"] = steps["items"][0]
        return said

    saving_now = saving.said_of
    monkeypatch.setattr(saving, "said_of", as_before)
    found.save(tmp_path / f"r.{suffix}")
    with pytest.warns(LoopWarning, match=r"earlier version of mdf_loop, which took dt=0.002 for the step of all rows"):
        read = mdf_loop.open(tmp_path / f"r.{suffix}")
    assert read.about.steps == dict(found.about.steps) == {"path": 0.002, "decision.trial.t": 0.002}
    assert read.to_xarray().equals(found.to_xarray())
