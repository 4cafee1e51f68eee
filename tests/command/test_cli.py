"""The command ``mdf-loop``."""

import importlib
import json
import subprocess
import sys

import numpy as np
import onnx.parser
import pytest
from commands import run_main

import mdf_loop
from mdf_loop.cli import describe, write_json
from mdf_loop.errors import LoopError, LoopInterrupted
from mdf_loop.models.explaining import explain_model
from mdf_loop.models.results import Results
from tests.calls.test_run import counting_model


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "counting.yaml"
    counting_model().to_yaml_file(str(path))
    return path


def test_run_prints_the_outputs_as_a_table(model_file, capsys):
    assert run_main("run", model_file) == 0
    out = capsys.readouterr().out
    assert [word in out for word in ("total", "sums", "float64", "9.5", "[3]")] == [True] * 5


def test_set_gives_inputs_as_json(model_file, capsys):
    assert run_main("run", model_file, "--set", "step=1", "--set", "extra=10") == 0
    assert "14.5" in capsys.readouterr().out


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_inputs_and_outputs_are_files(model_file, tmp_path, suffix, capsys):
    given, wanted = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    if suffix == ".json":
        given.write_text(json.dumps({"step": 1}))
    else:
        np.savez(given, step=1)
    assert run_main("run", model_file, "--input", given, "--output", wanted) == 0
    outputs = json.loads(wanted.read_text()) if suffix == ".json" else np.load(wanted)
    assert float(outputs["total"]) == 5.0
    np.testing.assert_array_equal(outputs["sums"], [3, 4, 5])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nowhere.yaml"], "mdf-loop: there is no file 'nowhere.yaml'\n"),
        (["run", "MODEL", "--set", "step"], "mdf-loop: --set takes NAME=VALUE; got 'step'\n"),
        (["run", "MODEL", "--output", "x.txt"], "mdf-loop: --output takes a .npz, .json, .nc or .zarr file; got 'x.txt'\n"),
        (["run", "MODEL", "--input", "x.txt"], "mdf-loop: --input takes a .npz or .json file; got 'x.txt'\n"),
        (["run", "MODEL", "--input", "no.npz"], "mdf-loop: there is no file 'no.npz'\n"),
        (["run", "MODEL", "--seed", "-1"], "mdf-loop: seed must be None or a whole number from 0 on; got -1\n"),
    ],
)
def test_an_error_is_one_paragraph_on_stderr(model_file, capsys, arguments, message):
    assert run_main(*[str(model_file) if a == "MODEL" else a for a in arguments]) == 1
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", message)


def test_an_error_in_a_body_names_the_node_of_the_model(model_file, capsys):
    assert run_main("run", model_file, "--set", "step=[1,2]", "--set", "level=[1,2,3]") == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "Add -> y_out failed on (float64[3], float64[2])" in err
    assert "in MDF parameter or function 'count' (onnx::Loop)" in err


def test_debug_shows_the_traceback():
    command = [sys.executable, "-m", "mdf_loop", "run", "nowhere.yaml", "--debug"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert "MissingFile" in result.stderr


@pytest.mark.parametrize(("flags", "trusted"), [((), False), (("--trusted",), True)])
@pytest.mark.parametrize(
    ("command", "function"),
    [
        (("run", "m.yaml"), "models.opening.run"),
        (("explain", "m.yaml"), "models.explaining.explain_model"),
        (("verify", "m.yaml"), "models.verifying.verify"),
        (("convert", "m.yaml", "m.onnx"), "convert.mdf_to_onnx.to_onnx"),
        (("convert", "m.onnx", "m.yaml"), "convert.converting.convert"),
        (("convert", "m.xml", "m.onnx"), "convert.openvino_to_onnx.openvino_to_onnx"),
    ],
)
def test_trusted_holds_for_every_command_that_reads_a_model(monkeypatch, command, function, flags, trusted):
    from mdf_loop.options import current_options

    seen = []

    def note(*_, **__):
        seen.append(current_options().trusted)
        raise LoopError("seen")

    module, _, name = f"mdf_loop.{function}".rpartition(".")
    monkeypatch.setattr(importlib.import_module(module), name, note)
    assert run_main(*command, *flags) == 1
    assert seen == [trusted]


def test_max_iterations_stops_a_loop(model_file, capsys):
    assert run_main("run", model_file, "--max-iterations", "2") == 1
    assert "--max-iterations 2 stops it here" in capsys.readouterr().err


def test_options_are_named_as_they_are_typed():
    from mdf_loop.cli.problems import as_typed

    said = "options(timeout=2) stops it; options(max_iterations=...) or options(trusted=True), not options(engine='jit')"
    assert as_typed(said, {"timeout", "max_iterations", "trusted"}) == (
        "--timeout 2 stops it; --max-iterations or --trusted, not options(engine='jit')"
    )
    said = "options(obey_body_condition=True), on the command line --obey-body-condition, stops there"
    assert as_typed(said, {"obey_body_condition"}) == "--obey-body-condition stops there"
    said = "give store= alone, or fill=..., not steps=3, x.store= or seed="
    assert as_typed(said, {"store", "fill", "steps"}) == "give --store alone, or --fill, not steps=3, x.store= or seed="


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_warnings_are_paragraphs_without_lines_of_python(flags, tmp_path, capsys):
    path = tmp_path / "m.yaml"
    node = "{input_ports: {x: {}}, parameters: {k: {value: 1e3}, y: {value: x * k}}, output_ports: {y: {value: y}}}"
    path.write_text(f"m: {{graphs: {{g: {{nodes: {{n: {node}}}}}}}}}")
    assert run_main("run", path, *flags) == 0
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2
    assert "1e3 is a text in YAML 1.1" in told[0]
    assert "input 'x' of node 'n' has no value" in told[1]
    for line in told:
        assert "LoopWarning" not in line
        assert ".py" not in line
        assert line.startswith('{"warning": ' if flags else "mdf-loop: warning: ")


def test_ops_lists_every_operator(capsys):
    from mdf_loop.ops.registry import INTERNAL_DOMAINS, KERNELS

    assert run_main("ops") == 0
    out = capsys.readouterr().out
    assert "LeakyRelu" in out
    assert len(out.splitlines()) >= sum(domain not in INTERNAL_DOMAINS for domain, _ in KERNELS)
    assert "python" not in out


def test_values_are_described_in_few_characters():
    assert describe(np.float32([1.5, 2])) == ("float32", "[2]", "[1.5 2. ]")
    assert describe([np.float32(1), np.float32(2)]) == ("sequence", "2 values", "1., 2.")
    assert describe(None) == ("optional", "", "empty")
    assert describe(np.array("text", object)) == ("string", "[]", "'text'")


def test_types_that_files_lack_are_widened(tmp_path):
    import ml_dtypes

    outputs = {"b": np.array([1.5], ml_dtypes.bfloat16), "i": np.array([-3], ml_dtypes.int4), "s": [np.array("x", object)]}
    Results(outputs).save(tmp_path / "o.npz")
    with np.load(tmp_path / "o.npz") as read:
        assert {name: (read[name].dtype.name, read[name].tolist()) for name in outputs} == {
            "b": ("float32", [1.5]),
            "i": ("int8", [-3]),
            "s": ("str32", ["x"]),
        }
    found = mdf_loop.open(tmp_path / "o.npz")
    assert {name: found[name].dtype for name in "bi"} == {name: outputs[name].dtype for name in "bi"}
    write_json(tmp_path / "o.json", outputs | {"c": np.array([1 + 2j])})
    assert json.loads((tmp_path / "o.json").read_text()) == {"b": [1.5], "i": [-3], "s": ["x"], "c": [[1.0, 2.0]]}


def test_explain_prints_how_each_loop_of_a_model_ran(capsys):
    assert run_main("explain", "examples/rnn.yaml") == 0
    out = capsys.readouterr().out
    assert out.startswith("Scan 'network.unrolled' over rnn: the trip count is given\n")
    assert "h_out = Tanh (biased)  (h of the iteration before is needed)" in out


def test_explain_shows_the_source_of_recurrences(capsys):
    with mdf_loop.options(engine="numpy"):  # auto may have it compiled by now
        assert run_main("explain", "examples/newton.yaml", "--set", "a=1e300", "--source") == 0
    out = capsys.readouterr().out
    assert "as Python:" in out
    assert "for i" in out


def test_explain_tells_of_inner_loops_inside_the_outer_one(capsys):
    assert run_main("explain", "tests/models/nested_ts.onnx", "--set", "x=[[1, 2, 3], [4, 5, 6]]", "--set", "n=5") == 0
    out = capsys.readouterr().out
    assert "inside Loop ->" in out


def test_explain_says_that_no_loop_ran(tmp_path, capsys):
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 18]> g (float x) => (float y) { y = Add (x, x) }')
    onnx.save(model, tmp_path / "double.onnx")
    assert run_main("explain", tmp_path / "double.onnx", "--set", "x=1") == 0
    assert capsys.readouterr().out == "no Loop or Scan ran\n"


@pytest.mark.parametrize(
    ("place", "arguments"),
    [("opening.run", ["run"]), ("explaining.explain_model", ["explain"]), ("verifying.verify", ["verify"])],
)
@pytest.mark.parametrize(
    ("done", "message"),
    [
        (None, "mdf-loop: interrupted\n"),
        (1, "mdf-loop: interrupted after 1 iteration of the outermost loop\n"),
        (7, "mdf-loop: interrupted after 7 iterations of the outermost loop\n"),
    ],
)
def test_an_interrupted_command_says_how_far_it_came(place, arguments, done, message, model_file, monkeypatch, capsys):
    def interrupted(*_, **__):
        error = LoopInterrupted("interrupted") if done is not None else KeyboardInterrupt()
        error.iteration = done
        raise error

    monkeypatch.setattr(f"mdf_loop.models.{place}", interrupted)
    assert run_main(*arguments, model_file) == 130
    assert capsys.readouterr().err == message


COUNTING = """m:
  graphs:
    g:
      nodes:
        n:
          parameters:
            start: {value: 0.0}
            body:
              value:
                onnx: 'b (int64 i, bool c, double s) => (bool c, double t, double u) <double one = {1}> {
                  t = Add (s, one) u = Neg (t) }'
            run: {function: 'onnx::Loop', args: {M: COUNT, cond: true, v_initial: start, body: body}}
          output_ports:
            total: {value: 'run[0]'}
            rows: {value: 'run[1]'}
"""


def partial_run(tmp_path, *arguments, count=1000):
    """The exit code, and what was written."""
    model, wanted = tmp_path / "m.yaml", tmp_path / "o.json"
    model.write_text(COUNTING.replace("COUNT", str(count)))
    code = run_main("run", model, "--output", wanted, *arguments)
    return code, json.loads(wanted.read_text()) if wanted.exists() else None


def test_output_gets_partial_results_and_stderr_says_so(tmp_path, capsys):
    code, wrote = partial_run(tmp_path, "--max-iterations", "3")
    assert (code, wrote) == (1, {"total": 3.0, "rows": [-1.0, -2.0, -3.0]})
    said = capsys.readouterr()
    assert (
        f"mdf-loop: total, rows after 3 iterations of the outermost loop: written to {str(tmp_path / 'o.json')!r}\n" in said.err
    )
    assert "the loop would go on" in said.err
    assert not said.out


def test_timeout(tmp_path, capsys):
    code, wrote = partial_run(tmp_path, "--timeout", "0.3", count=10**15)
    assert code == 1
    assert wrote is not None
    assert wrote.get("total", 0.0) == len(wrote.get("rows", ()))
    assert "--timeout 0.3 stops it here" in capsys.readouterr().err


def test_ctrl_c_writes_partial_results_too(tmp_path, capsys, monkeypatch):
    def run(*_, **__):
        error = LoopInterrupted("interrupted")
        error.iteration, error.outputs = 2, {"total": np.float64(2)}
        raise error

    monkeypatch.setattr("mdf_loop.models.opening.run", run)
    code, wrote = partial_run(tmp_path)
    assert (code, wrote) == (130, {"total": 2.0})
    assert capsys.readouterr().err.count("after 2 iterations of the outermost loop") == 2


def test_nothing_is_written_where_nothing_is_known(tmp_path, capsys):
    code, wrote = partial_run(tmp_path, "--max-iterations", "0")
    assert (code, wrote) == (1, {"total": 0.0})
    (tmp_path / "o.json").unlink()
    model = tmp_path / "m.onnx"
    text = '<ir_version: 10, opset_import: ["": 18]> g (double[2] x, double[3] y) => (double[2] z) { z = Add (x, y) }'
    onnx.save(onnx.parser.parse_model(text), model)
    assert run_main("run", model, "--output", tmp_path / "o.json", "--set", "x=[1, 2]", "--set", "y=[1, 2, 3]") == 1
    assert not (tmp_path / "o.json").exists()
    assert "no output was known, so" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [[], ["--set", "n=2"]])
def test_explain_draws_values_that_are_not_given(tmp_path, capsys, flags):
    text = """<ir_version: 10, opset_import: ["": 18]> main (int64 n, float[3] x) => (float[3] y) {
      y = Loop <body = b (int64 i, bool c, float[3] s) => (bool c, float[3] t) { t = Tanh (s) }> (n, , x) }"""
    model = onnx.parser.parse_model(text)
    onnx.save(model, tmp_path / "m.onnx")
    mdf_loop.convert(model, tmp_path / "m.yaml")
    for name in ("m.onnx", "m.yaml"):
        assert run_main("explain", tmp_path / name, *flags) == 0
        assert "Loop" in capsys.readouterr().out
    for source in (model, mdf_loop.convert(model)):
        said = explain_model(source)[0]
        assert "Tanh" in said or "one program" in said  # a model that ran before may be one by now


LATE = """
m:
  graphs:
    g:
      nodes:
        a: {parameters: {n: {value: n + 1}}, output_ports: {count: {value: n}, large: {value: 10 ** 5000}}}
        b: {parameters: {n: {value: n + 0.5}}, output_ports: {late: {value: n}}}
      conditions:
        node_specific: {b: {type: AfterPass, kwargs: {n: 1, time_scale: TimeScale.ENVIRONMENT_SEQUENCE}}}
        termination: {environment_state_update: {type: AfterNPasses, kwargs: {n: 1}}}
"""


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_steps_without_a_value_are_written_as_none_or_nan(tmp_path, capsys, suffix):
    model, wanted = tmp_path / "late.yaml", tmp_path / f"out{suffix}"
    model.write_text(LATE.replace(", large: {value: 10 ** 5000}", ""))
    assert run_main("run", model, "--steps", "4", "--collect", "--output", wanted) == 0
    assert "[None None 0.5 1.0]" in capsys.readouterr().out
    if suffix == ".json":
        assert json.loads(wanted.read_text())["late"] == [None, None, 0.5, 1]
    else:
        np.testing.assert_array_equal(np.load(wanted)["late"], [np.nan, np.nan, 0.5, 1])


def test_numbers_that_python_does_not_write_are_reported(tmp_path, capsys):
    (tmp_path / "late.yaml").write_text(LATE)
    assert run_main("run", tmp_path / "late.yaml") == 0
    assert "16610 bits" in capsys.readouterr().out
