"""Small models of more exporters, with what the loops of ``benchmarks/exported`` do not have: every way gives their numbers.

Functions with defaults and a ``break`` (onnxscript 0.7.2), ``Scan`` before operators of ``ai.onnx.ml`` and in float64 (skl2onnx
1.20.0), int8 that becomes int32 (jax2onnx 0.17.1), an optional state and a list that loses elements (TorchScript).
"""

import sys
from pathlib import Path

import pytest
from converting import by_engine

import mdf_loop
from mdf_loop import backend, options
from mdf_loop.settings.engines import agreeing_engines

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from exported import differences, models

WORKS = {work.name: work for work in models(Path(__file__).parents[1] / "models" / "exporters")}
WAYS = {
    "in MDF": lambda model, inputs: in_mdf(model, "mdf", inputs),
    "in MDF with bodies of ONNX": lambda model, inputs: in_mdf(model, "onnx", inputs),
    "in MDF's engine": lambda model, inputs: tuple(by_engine(mdf_loop.convert(model), inputs)),
    "there and back": lambda model, inputs: backend.run_model(mdf_loop.to_onnx(mdf_loop.convert(model)), inputs),
}


def in_mdf(model, body, inputs):
    return tuple(mdf_loop.run(mdf_loop.convert(model, body=body), **inputs).values())


def as_others(name):
    """onnxscript writes ``break`` as a condition that the standard ignores."""
    return {"obey_body_condition": name == "onnxscript_break"}


def test_there_are_models():
    assert len(WORKS) == 7


@pytest.mark.parametrize("engine", agreeing_engines())
@pytest.mark.parametrize("name", WORKS)
def test_every_engine_gives_the_numbers_of_the_framework(name, engine):
    work = WORKS[name]
    with options(engine=engine, **as_others(name)):
        prepared = backend.prepare(work.model)
        for _ in range(3):  # engine auto interprets the first calls
            assert differences(prepared.run(work.inputs), work.expected) == ""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", WORKS)
def test_a_converted_model_gives_the_numbers_of_the_framework(name, way):
    work = WORKS[name]
    with options(**as_others(name)):
        assert differences(WAYS[way](work.model, work.inputs), work.expected) == ""
