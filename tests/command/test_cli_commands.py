"""What every command has, and the commands beside ``run``."""

import configparser
import importlib
import importlib.util
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from commands import run_main
from typer.testing import CliRunner

import mdf_loop
from mdf_loop import options
from mdf_loop.backends.llvm.linking.object_code import disk
from mdf_loop.cli import app
from mdf_loop.cli.console import bars
from mdf_loop.cli.installation import in_words
from mdf_loop.options import current_options
from mdf_loop.readers.expressions.equations import read_equations
from mdf_loop.readers.expressions.formula_names import functions_of_equations
from mdf_loop.readers.expressions.function_calls import op_of
from mdf_loop.settings.engines import agreeing_engines, available_engines, can_compile
from mdf_loop.system.checksums import checksum

EXAMPLES = Path(__file__).parents[2] / "examples"

COMMANDS = sorted(command.callback.__name__ for command in app.registered_commands)


def printed(capsys, *arguments, code=0):
    """What a command prints as JSON."""
    assert run_main(*arguments, "--json") == code
    return json.loads(capsys.readouterr().out)


def test_version(capsys):
    assert run_main("--version") == 0
    assert capsys.readouterr().out == f"mdf-loop {mdf_loop.__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_and_takes_json(command):
    result = CliRunner().invoke(app, [command, "-h"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == 0
    text = re.sub(r"\x1b\[[0-9;]*m", "", result.output)
    assert "--json" in text
    assert "--debug" in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete(shell):
    command = [sys.executable, "-m", "mdf_loop"]
    variables = {"_MDF_LOOP_COMPLETE": f"source_{shell}", "PYTHONPATH": str(EXAMPLES.parent)}
    result = subprocess.run(command, capture_output=True, text=True, env=variables)
    assert "_MDF_LOOP_COMPLETE=complete" in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_paragraphs_of_help_break_where_the_terminal_does(command):
    result = CliRunner().invoke(app, [command, "-h"], env={"COLUMNS": "1000", "TERM": "dumb"})
    callback = next(each for each in app.registered_commands if (each.name or each.callback.__name__) == command).callback
    shown = [line.strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", result.output).splitlines()]
    for paragraph in inspect.cleandoc(callback.__doc__).split("\n\n"):
        assert " ".join(paragraph.split()) in shown


@pytest.mark.parametrize("engine", agreeing_engines())
def test_run_and_sweep_take_an_engine(engine, monkeypatch, capsys):
    seen, run = [], mdf_loop.run  # read before it is replaced

    def watched(function):
        return lambda *inputs, **named: seen.append(current_options().engine) or function(*inputs, **named)

    for module, name in (
        (importlib.import_module("mdf_loop.models.opening"), "run"),
        (importlib.import_module("mdf_loop.sweeps.sweep"), "sweep"),
    ):
        monkeypatch.setattr(module, name, watched(getattr(module, name)))
    model = EXAMPLES / "drift_diffusion.yaml"
    assert run_main("run", model, "--seed", "3", "--engine", engine, "--json") == 0
    found = json.loads(capsys.readouterr().out)["outputs"]["reaction_time"]["value"]
    assert found == float(run(model, seed=3)["reaction_time"])
    assert run_main("sweep", model, "--over", "drift=0,1", "--trials", "2", "--quiet", "--engine", engine) == 0
    assert seen == [engine, engine]
    assert run_main("run", model, "--engine", engine + "x") == 1
    assert f"engine must be one of auto, interpret, numpy, jit, jax; got '{engine}x'" in capsys.readouterr().err


def test_run_prints_json(capsys):
    found = printed(capsys, "run", EXAMPLES / "accumulate.yaml")
    assert found["outputs"]["sums"] == {"type": "float32", "shape": [5], "value": [-1, 1, 4, 8, 13]}


def test_numbers_that_json_does_not_have_are_null(tmp_path, capsys):
    from mdf_loop.cli.console import as_json

    as_json({"a": [float("inf"), 1.5, float("nan")]})
    assert json.loads(capsys.readouterr().out) == {"a": [None, 1.5, None]}


def test_an_error_is_json_on_stderr_too(tmp_path, capsys):
    broken = tmp_path / "m.yaml"
    broken.write_text((EXAMPLES / "accumulate.yaml").read_text().replace("Gather (x, i)", "Gathr (x, i)"))
    assert run_main("run", broken, "--json") == 1
    said = capsys.readouterr()
    error = json.loads(said.err)["error"]
    assert (error["type"], error["file"]) == ("UnsupportedOp", str(broken))
    assert "did you mean 'Gather'?" in error["message"]
    assert not said.out


LINES = [
    ("y_out = Add (y, x_i)", "y_out = y + x_i", "y_out = y + x_i"),
    ("body: body}", "body: bodi}", "bodi"),
    ("onnx::Loop", "onnx::Lop", "onnx::Lop"),
    ("value: run[0]", "value: runn[0]", "total:"),
    ("input_ports:", "inputports:", "inputports:"),
    ("length, cond: true", "length, cond: [1, 2]", "cond:"),
]


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
@pytest.mark.parametrize(("right", "wrong", "told"), LINES, ids=[wrong for _, wrong, _ in LINES])
def test_errors_tell_the_file_and_the_line(tmp_path, capsys, right, wrong, told, suffix):
    text = (EXAMPLES / "accumulate.yaml").read_text()
    assert right in text
    text = text.replace(right, wrong)
    if suffix == ".json":
        text = json.dumps(yaml.safe_load(text), indent=1)
    broken = tmp_path / f"m{suffix}"
    broken.write_text(text)
    assert run_main("run", broken) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    line = int(re.match(rf"mdf-loop: {re.escape(str(broken))}:(\d+): ", said).group(1))
    assert told.rstrip(":") in text.split("\n")[line - 1]


def test_explain_as_json_says_how_each_node_runs(capsys):
    (loop,) = printed(capsys, "explain", EXAMPLES / "rnn.yaml")["loops"]
    ways = {tuple(node["outputs"]): (node["how"], node["why"]) for node in loop["nodes"]}
    assert ways["h_out",] == ("stepped", "h of the iteration before is needed")
    assert {how for how, _ in ways.values()} <= {"alias", "hoisted", "batched", "recurrent", "stepped", "interpreted"}
    assert run_main("explain", EXAMPLES / "rnn.yaml") == 0
    text = capsys.readouterr().out
    assert all(node["node"] in text for node in loop["nodes"])


def test_scheduled_models_are_explained_and_verified_with_steps(capsys):
    steps = ("--steps", "50", "--time-increment", "0.01")
    (loop,) = printed(capsys, "explain", EXAMPLES / "oscillator.yaml", *steps)["loops"]
    assert any(node["how"] == "stepped" for node in loop["nodes"])
    found = printed(capsys, "verify", EXAMPLES / "oscillator.yaml", *steps)
    assert found["agrees"]
    assert {name for name, place in found["places"].items() if place["ran"]} >= {"MDF", "numpy", "auto"}


def test_verify_as_json_has_exit_code_1_too(monkeypatch, capsys):
    from mdf_loop.models import verifying

    monkeypatch.setattr(verifying, "_differences", lambda reference, *_: dict.fromkeys(reference, "differs"))
    found = printed(capsys, "verify", EXAMPLES / "accumulate.yaml", code=1)
    assert not found["agrees"]
    assert found["disagreements"]


def test_bench_times_every_engine(capsys):
    from mdf_loop.settings.engines import ENGINES

    found = printed(capsys, "bench", EXAMPLES / "accumulate.yaml", "--seconds", "0")
    assert {t["name"] for t in found["timings"]} == {*ENGINES, "onnxruntime"}
    assert all(t["seconds"] > 0 and t["runs"] == 1 for t in found["timings"] if not t["reason"])
    assert run_main("bench", EXAMPLES / "drift_diffusion.yaml", "--seconds", "0") == 0
    assert "█" in capsys.readouterr().out


def test_bench_takes_the_median_of_runs_with_noise_of_their_own(monkeypatch):
    from mdf_loop.models import benching

    ended = []
    monkeypatch.setattr(benching, "AT_MOST_RUNS", 5)
    monkeypatch.setattr(benching, "_seconds", lambda call: call() or next(seconds))
    model = mdf_loop.load(EXAMPLES / "drift_diffusion.yaml")
    for engine in ("auto", "numpy"):
        seconds, found = iter([9.0, 3.0, 1.0, 2.0, 5.0, 5.0]), []  # the first one does not count
        timing = benching._timed(
            engine, lambda found=found: found.append(float(mdf_loop.run(model)["reaction_time"])), 60.0, 0, {}, engine=engine
        )
        assert (timing.first, timing.seconds, timing.runs) == (9.0, 3.0, 5)
        assert len({*found}) == 5
        ended.append(found)
    assert ended[0] == ended[1]


def test_bench_on_a_device_has_noise_of_its_own_in_each_run():
    pytest.importorskip("jax").config.update("jax_enable_x64", True)
    from mdf_loop.models.verifying import on_device

    call = on_device(mdf_loop.load(EXAMPLES / "drift_diffusion.yaml"), {}, {})
    found = []
    for seed in (0, 1, 0):
        with mdf_loop.options(seed=seed, engine="jax"):
            found.append(float(call()["reaction_time"]))
    assert found[0] == found[2] != found[1]


def test_bench_of_what_runs_nowhere_is_an_error(tmp_path, capsys):
    broken = tmp_path / "m.yaml"
    broken.write_text((EXAMPLES / "accumulate.yaml").read_text().replace("Gather (x, i)", "Gathr (x, i)"))
    assert run_main("bench", broken, "--seconds", "0") == 1
    assert "ran nowhere" in capsys.readouterr().err


def test_bars_are_as_long_as_their_numbers():
    assert [len(bar) for bar in bars([("a", 4.0), ("b", 1.0), ("c", 0.001), ("d", 0.0)], 40)] == [40, 10, 1, 0]
    assert bars([]) == []


@pytest.mark.usefixtures("in_64_bits")  # as in the command, whatever imported JAX before
def test_doctor(capsys):
    found = printed(capsys, "doctor")
    assert found["version"]["mdf-loop"][0] == mdf_loop.__version__
    assert {state for state, _ in found["engine"].values()} == ({"yes"} if can_compile() else {"yes", "no"})
    assert found["cache"]["machine code"][1].startswith(os.environ["MDF_LOOP_CACHE"])
    assert run_main("doctor") == 0
    assert "onnxruntime" in capsys.readouterr().out


def test_doctor_says_how_to_install_what_is_missing(monkeypatch):
    from mdf_loop.cli import installation

    monkeypatch.setitem(installation.EXTRAS, "plot", (("no_such_package",), "plots"))
    state, more = installation.diagnosis()["extra"]["plot"]
    assert state == "no"
    assert more.endswith('[plot]"')
    assert f'pip install -e "{EXAMPLES.parent}' in more


def test_doctor_says_what_keeps_the_engine_of_mdf_from_running(monkeypatch):
    from mdf_loop.cli import installation

    monkeypatch.setitem(sys.modules, "modeci_mdf.execution_engine", None)  # as where torch is damaged
    state, more = installation.diagnosis()["engine"]["MDF's own"]
    assert state == "fails"
    assert "modeci_mdf.execution_engine" in more


def test_what_llvmlite_would_bring_is_said(monkeypatch):
    from mdf_loop.calls.compiled import compile
    from mdf_loop.cli import installation
    from mdf_loop.errors import LoopError

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    available_engines.cache_clear()
    try:
        state, more = installation.diagnosis()["engine"]["jit"]
        planned = compile("x: x * 2\ncollect s: x")
        planned(5, True, 1.0)
        (said,) = [line for line in planned.explain().splitlines() if "llvmlite" in line]
        with pytest.raises(LoopError, match=r'pip install -e ".*\[jit\]"'), options(engine="jit"):
            pass
    finally:
        available_engines.cache_clear()
    assert state == "no"
    assert more in said
    assert more.endswith('[jit]"')


def test_cache_tells_what_is_kept_and_deletes_it(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("MDF_LOOP_CACHE", str(tmp_path / "kept"))
    assert printed(capsys, "cache")["entries"] == 0
    disk().write(checksum("a"), b"something")
    found = printed(capsys, "cache")
    assert (found["path"], found["entries"], found["refusal"]) == (str(tmp_path / "kept"), 1, "")
    assert 9 < found["bytes"] < found["most_bytes"]
    assert run_main("cache") == 0
    assert "1 entry" in capsys.readouterr().out
    assert printed(capsys, "cache", "--clear")["deleted"] == 1
    assert run_main("cache", "--clear") == 0
    assert "deleted 0 entries" in capsys.readouterr().out
    monkeypatch.setenv("MDF_LOOP_CACHE", "off")
    assert printed(capsys, "cache")["path"] is None
    assert run_main("cache") == 0
    assert "not kept" in capsys.readouterr().out
    monkeypatch.setenv("MDF_LOOP_CACHE", __file__)
    assert "not used" in in_words(printed(capsys, "cache"))


def test_ops_takes_a_filter(capsys):
    assert {row["operator"] for row in printed(capsys, "ops", "leaky")} == {"LeakyRelu", "leakycompetingintegrator"}
    assert run_main("ops", "leakyrelo") == 1
    assert "did you mean 'LeakyRelu'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("noise", "numpy.random.randn()"),
        ("randn", "numpy.random.randn()"),  # as numpy calls it
        ("normal", "numpy.random.normal(mean, spread)"),
        ("sigmoid", "1 / (1 + numpy.exp(-x))"),
        ("erf", "scipy.special.erf(x)"),
        ("gcd", "numpy.gcd(...)"),
        ("mod", "numpy.mod(...)"),
        ("ornstein", "numpy.sqrt(time_step_size * noise) * drawn"),
    ],
)
def test_ops_knows_the_functions_of_equations_and_nodes(name, said, capsys):
    assert run_main("ops", name) == 0
    assert said in " ".join(capsys.readouterr().out.split())


def test_what_ops_shows_of_a_function_is_what_equations_make_of_it():
    for call, becomes in functions_of_equations().items():
        if "..." in call:
            assert op_of(becomes.removesuffix("(...)")), call
        elif "scipy" not in becomes:  # which no text can call
            assert read_equations(f"y: {call}") == read_equations(f"y: {becomes}"), call


@pytest.mark.parametrize("name", ["accumulate", "newton_mdf", "oscillator"])
def test_yaml_to_json_and_back(name, tmp_path):
    there, back = tmp_path / "m.json", tmp_path / "m.yaml"
    assert run_main("convert", EXAMPLES / f"{name}.yaml", there) == 0
    assert run_main("convert", there, back) == 0
    said = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    assert json.loads(there.read_text()) == said
    assert yaml.safe_load(back.read_text()) == said


def test_models_are_written_for_people(tmp_path):
    shutil.copy(EXAMPLES / "accumulate.json", tmp_path)
    assert run_main("convert", tmp_path / "accumulate.json", tmp_path / "m.yaml") == 0
    text = (tmp_path / "m.yaml").read_text()
    assert "[1.0, 2.0, 3.0, 4.0, 5.0]" in text
    assert "onnx: |\n" in text
    assert run_main("convert", tmp_path / "m.yaml", tmp_path / "n.json") == 0
    assert "[1.0, 2.0, 3.0, 4.0, 5.0]" in (tmp_path / "n.json").read_text()


def test_a_model_that_names_files_stays_in_its_folder(tmp_path, capsys):
    (tmp_path / "other").mkdir()
    (tmp_path / "m.yaml").write_text(
        "m: {graphs: {g: {nodes: {n: {parameters: {b: {value: {onnx_file: b.onnx}}}, output_ports: {o: {value: '1'}}}}}}}\n"
    )
    assert run_main("convert", tmp_path / "m.yaml", tmp_path / "other" / "m.json") == 1
    assert "names files beside it (b.onnx)" in capsys.readouterr().err
    assert run_main("convert", tmp_path / "m.yaml", tmp_path / "m.json") == 0


def test_what_json_cannot_say_is_reported(tmp_path, capsys):
    (tmp_path / "m.yaml").write_text("m: {metadata: {day: 2020-01-01}, graphs: {}}\n")
    assert run_main("convert", tmp_path / "m.yaml", tmp_path / "m.json") == 1
    assert "put it in quotes" in capsys.readouterr().err
    assert not (tmp_path / "m.json").exists()


def test_doctor_knows_every_extra(capsys):
    said = configparser.ConfigParser()
    said.read(Path(__file__).parents[2] / "setup.cfg")
    assert run_main("doctor", "--json") == 0
    assert set(json.loads(capsys.readouterr().out)["extra"]) == set(said["options.extras_require"]) - {"all", "docs", "test"}


def test_a_model_is_never_converted_into_itself(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_main("new", "decay") == 0
    before = (tmp_path / "decay.yaml").read_text()
    (tmp_path / "other.yaml").symlink_to("decay.yaml")
    for target in ("decay.yaml", tmp_path / "decay.yaml", "other.yaml"):
        assert run_main("convert", "decay.yaml", target) == 1
        assert "IN and OUT are one file, 'decay.yaml'" in capsys.readouterr().err
    assert (tmp_path / "decay.yaml").read_text() == before
    assert run_main("convert", "decay.yaml", "copy.json") == 0


SAID = [
    (["decay.yaml", "--set", "rate=0,5"], "; write 0.5 for one number, [0,5] for a list"),
    (["decay.yaml", "--set", "rate=007"], "--set rate: '007' is not a value"),
    (["decay.yaml", "--set", "rate=."], "--set rate: '.' is not a value"),
    (["decay.yaml", "--set", "rate=abc"], """--set rate: 'abc' is not a value; there are numbers (nan and inf too)"""),
    (
        ["decay.yaml", "--set", "rate=(1,.2)"],
        "'(1,.2)' is not a value; there are numbers (nan and inf too), true, false, [1, 2], and texts in quotes; write [1,.2]",
    ),
    (["decay.yaml", "--set", "rate=abc"], """a text is --set 'rate="abc"' in a shell"""),
    (["decay.yaml", "--set", 'rate="abc"'], "a product needs numbers; one of them is a text"),
    (["decay.yaml", "rate=2"], "'rate=2' has no option: write --set rate=2;"),
    (["decay.yaml", "--set", "rate=2", "--set", "rate=3"], "--set rate is given twice: 2 and 3"),
    (["folder"], "'folder' is a folder; a model is a file in it"),
    (["latin.yaml"], "mdf-loop: latin.yaml:2: it is not UTF-8 text: it has a byte 0xe9"),
    (
        ["tab.yaml"],
        "tab.yaml:2: column 1: while scanning for the next token, found character that cannot start any token; it is a tab",
    ),
]


@pytest.mark.parametrize(("arguments", "said"), SAID, ids=[said[:25] for _, said in SAID])
def test_what_people_do_wrong_is_reported_in_their_words(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_main("new", "decay")
    (tmp_path / "folder").mkdir()
    (tmp_path / "latin.yaml").write_bytes("m:\n  graphs: é".encode("latin-1"))
    (tmp_path / "tab.yaml").write_text("m:\n\tgraphs: {}\n")
    assert run_main("run", *arguments) == 1
    assert said in capsys.readouterr().err


def test_what_can_be_recorded_is_reported_once(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_main("new", "decay")
    assert run_main("run", "decay.yaml", "--record", "zzz") == 1
    names = capsys.readouterr().err.partition("there are ")[2].partition(";")[0].split(", ")
    assert len(names) == len(set(names)) > 10


def test_convert_says_which_inputs_the_file_has_and_onnxruntime_lists_those_that_were_asked_for(tmp_path, capsys):
    model = EXAMPLES / "drift_diffusion.yaml"
    for name, said in (
        ("drift", "inputs in it: drift\n"),
        ("bound", "inputs in it: drift (default 0.8), bound; onnxruntime lists"),
    ):
        assert run_main("convert", model, tmp_path / f"{name}.onnx", "--as-input", name) == 0
        assert said in capsys.readouterr().err
        runtime = pytest.importorskip("onnxruntime")
        session = runtime.InferenceSession(tmp_path / f"{name}.onnx")
        assert [each.name for each in session.get_inputs()] == [name]
    assert printed(capsys, "convert", model, tmp_path / "m.onnx")["inputs"] == {"drift": 0.8}
