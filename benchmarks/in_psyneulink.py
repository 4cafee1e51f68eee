"""A model of PsyNeuLink in PsyNeuLink itself, and from its JSON here: how long a step takes, and whether the numbers agree.

python benchmarks/in_psyneulink.py            in an environment with psyneulink and mdf-loop[jit]
python benchmarks/in_psyneulink.py --write    also writes examples/gallery/stroop.json and .npz

The model is that of the Stroop task by Cohen, Dunbar and McClelland (1990): a path of colours and one of words, and attention
to one of them; each unit averages its input over time.  PsyNeuLink calls a step a trial.  ``Python`` is its usual mode,
``LLVMRun`` compiles all trials of a run to machine code; what compiling takes is not counted, there or here.  Times are those of
the processor, the least of several runs.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from timing import machine  # isort: skip  (sets the number of threads before numpy loads)

import numpy as np

import mdf_loop

GALLERY = Path(__file__).parent.parent / "examples" / "gallery"
STEPS = {"Python": 100, "LLVMRun": 20_000, "numpy": 20_000, "jit": 100_000}
STIMULUS = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0]
"""A red patch, the word "green", and the colour is to be named: two units each for colours, words and attention."""

TO_HIDDEN = np.zeros((6, 4))
TO_HIDDEN[:2, :2] = [[2.2, -2.2], [-2.2, 2.2]]
TO_HIDDEN[2:4, 2:] = [[2.6, -2.6], [-2.6, 2.6]]
TO_HIDDEN[4, :2] = TO_HIDDEN[5, 2:] = 4.0
TO_RESPONSE = np.array([[1.3, -1.3], [-1.3, 1.3], [2.5, -2.5], [-2.5, 2.5]])
"""The weights of the paper: words have the stronger path."""


def stroop(pnl):
    """The model, and its input."""

    def unit(name, size, bias):
        function = pnl.Logistic(gain=1.0, bias=bias)
        return pnl.TransferMechanism(name=name, input_shapes=size, function=function, integrator_mode=True, integration_rate=0.1)

    stimulus = pnl.TransferMechanism(name="stimulus", input_shapes=6)
    path = [stimulus, TO_HIDDEN, unit("hidden", 4, -4.0), TO_RESPONSE, unit("response", 2, 0.0)]
    return pnl.Composition(name="stroop", pathways=path), stimulus


def least(call, count, repeats=3):
    """The least time of the processor for a step, in microseconds."""
    call(count)
    found = []
    for _ in range(repeats):
        begin = time.process_time()
        call(count)
        found.append(time.process_time() - begin)
    return 1e6 * min(found) / count


def in_psyneulink(pnl, mode):
    """A function that runs a number of trials in PsyNeuLink."""
    composition, stimulus = stroop(pnl)

    def call(count):
        composition.results = []  # it keeps those of all runs otherwise
        composition.run(inputs={stimulus: [STIMULUS]}, num_trials=count, execution_mode=getattr(pnl.ExecutionMode, mode))
        return composition

    return call


def exported(pnl):
    """The JSON, and PsyNeuLink's own numbers for 200 trials from the beginning."""
    composition, stimulus = stroop(pnl)
    text = pnl.get_mdf_serialized(composition, simple_edge_format=True)
    composition.run(inputs={stimulus: [STIMULUS]}, num_trials=200)
    return text, np.squeeze(composition.results)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    said = parser.parse_args()
    try:
        import psyneulink as pnl
    except ImportError:
        raise SystemExit("psyneulink is not installed here") from None
    text, numbers = exported(pnl)
    folder = GALLERY if said.write else Path.cwd()
    path = folder / "stroop.json"
    path.write_text(json.dumps(json.loads(text), indent=2) + "\n")
    if said.write:
        np.savez_compressed(path.with_suffix(".npz"), response=numbers, version=pnl.__version__)
    model = mdf_loop.prepare(path)
    given = {"stimulus_InputPort_0": [STIMULUS]}
    print(machine())
    print(f"psyneulink {pnl.__version__}; the Stroop model, microseconds a step")
    found = {}
    for mode in ("Python", "LLVMRun"):
        found[f"PsyNeuLink, {mode}"] = least(in_psyneulink(pnl, mode), STEPS[mode])
    for engine in ("numpy", "jit"):
        with mdf_loop.options(engine=engine):
            ours = np.squeeze(model(steps=200, collect=True, **given)["response_RESULT"])
            assert np.abs(ours - numbers).max() < 1e-6, engine  # MDF multiplies matrices in 32 bits
            found[f"mdf_loop, {engine}"] = least(lambda count: model(steps=count, **given), STEPS[engine])
    for name, each in found.items():
        print(f"{name:24}{each:14,.3f}{found['PsyNeuLink, Python'] / each:14,.0f} x")


if __name__ == "__main__":
    main()
