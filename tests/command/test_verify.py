"""``mdf-loop verify`` and ``mdf-loop convert``."""

from importlib import import_module
from importlib.util import find_spec

import numpy as np
import onnx
import pytest
from bodies import MODELS
from commands import run_main
from engines import ENGINES
from imported import onnx_model
from rich.console import Console

import mdf_loop
from mdf_loop.ir import ValueType
from mdf_loop.models import verifying
from mdf_loop.models.verifying import drawn, needed, verify


def with_64_bits():
    """Turn on 64 bits in JAX, as the command does, where it is installed."""
    if find_spec("jax") is not None:
        import_module("jax").config.update("jax_enable_x64", True)


@pytest.mark.parametrize("name", ["cond_dyn", "for_ts", "nested_ts", "scan_dyn", "while_loop_dyn", "while_ts"])
def test_what_pytorch_exported_agrees_everywhere(name, tmp_path):
    with_64_bits()
    mdf_loop.convert(MODELS / f"{name}.onnx", tmp_path / "model.yaml")
    for path in (MODELS / f"{name}.onnx", tmp_path / "model.yaml"):
        report = verify(path, {})
        assert report.disagreements == []
        names = [*(e for e in ENGINES if e != "interpret"), "MDF", "jax", "onnxruntime"]
        assert [place.name for place in report.others] == names
        assert {place for _, place in report.findings} == {*names} - ({"jax"} if find_spec("jax") is None else set())


@pytest.mark.parametrize("name", ["accumulate", "leaky_accumulator", "newton", "newton_mdf", "rnn"])
def test_an_mdf_model_is_compared_with_onnxruntime(name, capsys):
    assert run_main("verify", f"examples/{name}.yaml") == 0
    assert "onnxruntime" in capsys.readouterr().out


def test_random_models_are_compared_where_they_draw_the_same(capsys):
    assert run_main("verify", "examples/drift_diffusion.yaml", "--seed", "3") == 0
    out = capsys.readouterr().out
    assert "not in onnxruntime: the model draws random numbers" in out
    assert "same" in out


def test_disagreement_is_exit_code_1(monkeypatch, capsys):
    run = verifying.run_typed_in_mdf
    monkeypatch.setattr(verifying, "run_typed_in_mdf", lambda *given: {name: value + 1e-3 for name, value in run(*given).items()})
    assert run_main("verify", MODELS / "for_ts.onnx") == 1
    assert capsys.readouterr().err == "output 'x.4' in MDF: differs by 0.001 at [0, 0]\n"
    assert run_main("verify", MODELS / "for_ts.onnx", "--atol", "0.01") == 0


def test_what_fails_in_one_place_alone_is_a_disagreement(monkeypatch, capsys):
    def fail(*_):
        raise ValueError("no luck")

    monkeypatch.setattr(verifying, "run_typed_in_mdf", fail)
    assert run_main("verify", MODELS / "for_ts.onnx") == 1
    assert capsys.readouterr().err == "MDF failed: no luck\n"


def test_an_engine_whose_package_is_missing_is_no_disagreement(monkeypatch, capsys):
    def missing(*_):
        raise ImportError("needs something")

    monkeypatch.setattr(verifying, "run_typed_in_mdf", missing)
    assert run_main("verify", MODELS / "for_ts.onnx") == 0
    assert "not in MDF: needs something" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wanted", "actual", "difference"),
    [
        ([1.0, 2.0], [1.0, 2.0], ""),
        ([1.0, np.nan], [1.0, np.nan], ""),
        ([1.0], [1.1], "differs by 0.1 at [0]"),
        (1.0, 1.1, "differs by 0.1"),
        ([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.1], [3.5, 4.0]], "differs by 0.5 at [1, 0]"),
        ([1.0, np.nan], [1.0, 2.0], "differs by inf at [1]"),
        ([1.0], [[1.0]], "shape [1, 1], not [1]"),
        (np.array([1]), np.array([True]), "type bool, not int64"),
        (np.array(["a"], object), np.array(["b"], object), "other texts"),
    ],
)
def test_differences_are_said(wanted, actual, difference):
    found = verifying._differences({"y": np.asarray(wanted)}, {"y": np.asarray(actual)}, 1e-6, 0)
    assert found.get("y", "") == difference


@pytest.mark.parametrize("columns", [60, 80])
def test_wide_matrices_fit_into_narrow_terminals(columns, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("mdf_loop.cli.comparing.console", lambda stderr=False: Console(stderr=stderr, width=columns))
    source = "g (float[30,40] x) => (float[30,40] y, float y0) { y = Tanh (x) y0 = ReduceMax <keepdims = 0> (y) }"
    onnx.save(onnx_model(source), tmp_path / "w.onnx")
    assert run_main("verify", tmp_path / "w.onnx") == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    assert len(lines) < 25
    (row,) = [line for line in lines if line.startswith("  y ")]
    assert row.split()[1:4] == ["float32", "[30,", "40]"]
    sequences = [np.array(1.0), np.array([2.0, 3.0])]
    assert verifying._distance(sequences, [np.array(1.0), np.array([2.0, 3.25])]) == (0.25, " in value 1 at [1]")


def test_sequences_and_optionals_are_compared():
    sequences = {"s": [np.array(1.0), np.array(2.0)], "o": None}
    assert verifying._differences(sequences, {"s": [np.array(1.0)], "o": None}, 0, 0) == {
        "s": "the sequences have different lengths"
    }
    assert verifying._differences(sequences, {"s": sequences["s"], "o": np.array(1)}, 0, 0) == {
        "o": "one of them is an empty optional"
    }
    assert verifying._differences(sequences, {}, 0, 0) == {"s": "is missing", "o": "is missing"}


def test_inputs_are_drawn_by_their_types():
    source = "g (float[N,2] x, int32[N] k, bool b, string t, seq(double[3]) s) => (float[N,2] y) { y = Identity (x) }"
    kinds = needed(mdf_loop.prepare(mdf_loop.convert(onnx_model(source))))
    values = drawn(kinds, 1, {"t"})
    assert {name: (v.dtype.name, v.shape) for name, v in values.items() if name != "s"} == {
        "x": ("float32", (2, 2)),
        "k": ("int32", (2,)),
        "b": ("bool", ()),
    }
    assert [part.shape for part in values["s"]] == [(3,), (3,)]
    again = drawn(kinds, 1, {"t"})
    assert np.array_equal(values["x"], again["x"])
    assert not np.array_equal(values["x"], drawn(kinds, 2, set())["x"])
    with pytest.raises(mdf_loop.LoopError, match=r"values of input 'm' \(map\(int64\)\) cannot be drawn; give it"):
        drawn({"m": ValueType(kind="map", element=ValueType(np.dtype("int64")))}, 0, set())


def test_inputs_are_given_on_the_command_line(capsys):
    assert run_main("verify", MODELS / "for_ts.onnx", "--set", "n=0", "--set", "x=[[0,0,0],[7,7,7]]") == 0
    assert "7." in capsys.readouterr().out


def test_convert_goes_both_ways(tmp_path, capsys):
    there, back = tmp_path / "m.yaml", tmp_path / "m.onnx"
    assert run_main("convert", MODELS / "for_ts.onnx", there, "--body", "onnx", "--inline", "2") == 0
    assert run_main("convert", there, back) == 0
    assert "onnx: " in there.read_text()
    onnx.checker.check_model(onnx.load(back), full_check=True)
    assert run_main("verify", back) == 0
    capsys.readouterr()
    assert run_main("convert", MODELS / "for_ts.onnx", tmp_path / "m.txt") == 1
    assert capsys.readouterr().err == (
        "mdf-loop: IN is .onnx, .xml, .yaml or .json and OUT .yaml, .json or .onnx, of another kind than IN; "
        f"got {str(MODELS / 'for_ts.onnx')!r} and {str(tmp_path / 'm.txt')!r}\n"
    )


def test_values_given_to_ports_and_parameters_count_in_onnxruntime_too(capsys):
    assert run_main("verify", "examples/newton.yaml", "--set", "a=9", "--set", "tolerance=0.1") == 0
    assert "differs" not in capsys.readouterr().out
