"""``verify``, ``explain`` and ``bench`` of a loop without an end: on inputs that they draw themselves they end."""

import re
import threading
import time

import pytest
from commands import run_main

import mdf_loop
from mdf_loop.models import verifying


@pytest.mark.parametrize("command", ["verify", "explain", "bench"])
def test_a_loop_without_an_end_can_be_stopped(command, tmp_path, capsys):
    path = tmp_path / "m.yaml"
    path.write_text(
        "m: {graphs: {g: {nodes: {n: {parameters: {body: {value: {carried: {x: 1 - x}, while: x < 2}}, "
        "run: {function: onnx::Loop, args: {x: 0.0, body: body}}}, output_ports: {o: {value: run.x}}}}}}}"
    )
    assert run_main(command, path, "--timeout", "0.3") == 1
    assert "--timeout 0.3 stops it here" in capsys.readouterr().err


class Elapsed(threading.Timer):
    """A timer whose time is over at once, if it warns; one that ends a run never gets there."""

    def start(self):
        if self.interval == verifying.SLOW:
            self.function(*self.args)


ENDLESS = """m:
  graphs:
    g:
      nodes:
        n:
          input_ports: {begin: {}, go: {}}
          parameters:
            body: {value: {carried: {x: 1 - x}, while: x < 2 + go * 0}}
            run: {function: onnx::Loop, args: {x: begin, body: body}}
          output_ports: {o: {value: run.x}}
"""


@pytest.mark.parametrize("engine", ["interpret", "numpy", "jit", "auto"])
@pytest.mark.parametrize("command", ["verify", "explain", "bench"])
def test_a_loop_without_an_end_on_drawn_inputs_is_ended(command, engine, tmp_path, capsys, monkeypatch):
    path = tmp_path / "m.yaml"
    path.write_text(ENDLESS)
    monkeypatch.setattr(verifying, "PATIENCE", 0.4)
    with mdf_loop.options(engine=engine):
        assert run_main(command, path, "--set", "go=0") == 1
    said = " ".join(capsys.readouterr().err.split())
    assert re.search(r"did not end in 0.4 s with begin = [-\d.]+, drawn at random: no value was given.", said)
    assert re.search(r"give --set begin=... or --input; --timeout lets it run longer", said)


def test_ctrl_c_stays_what_it_is_while_inputs_are_drawn():
    with pytest.raises(KeyboardInterrupt), verifying.ending_if_endless({"x": 1.0}):
        raise KeyboardInterrupt


def test_a_run_that_ends_just_before_it_is_ended(monkeypatch):
    monkeypatch.setattr(verifying, "PATIENCE", 0.05)
    with verifying.ending_if_endless({"x": 1.0}):
        pass
    time.sleep(0.1)  # and no Ctrl-C comes later


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ("begin", r"has run for 10 s with begin = [-\d.]+, drawn at random.*--set begin=... or --input; --timeout stops it"),
        ("0.5", r"^(?!.*has run for)"),
    ],
)
@pytest.mark.parametrize("command", ["verify", "explain", "bench"])
def test_a_run_that_takes_long_says_what_it_was_given(command, start, said, tmp_path, capsys, monkeypatch):
    path = tmp_path / "m.yaml"
    path.write_text(
        "m: {graphs: {g: {nodes: {n: {input_ports: {begin: {}}, parameters: {body: {value: {carried: {x: 1 - x}, while: x < 2}}, "
        f"run: {{function: onnx::Loop, args: {{M: 30, x: {start}, body: body}}}}}}, "
        "output_ports: {o: {value: run.x}}}}}}}"
    )
    if start != "begin":
        path.write_text(path.read_text().replace("input_ports: {begin: {}}, ", ""))
    monkeypatch.setattr("mdf_loop.models.verifying.threading.Timer", Elapsed)
    assert run_main(command, path, *(["--seconds", "0"] if command == "bench" else [])) == 0
    assert re.search(said, capsys.readouterr().err, re.DOTALL)
    assert run_main(command, path, "--timeout", "60", *(["--seconds", "0"] if command == "bench" else [])) == 0
    assert "has run for" not in capsys.readouterr().err
