"""Loops that PyTorch and JAX exported: whole calls of a prepared model, next to onnxruntime and to what the frameworks gave.

python benchmarks/exported.py                        every model of exported/, on each engine
python benchmarks/exported.py kalman beam            those whose name contains one of these
python benchmarks/exported.py --folder PATH          another folder of NAME.onnx and NAME.npz
python benchmarks/exported.py --engine jit --json results.json

NAME.npz holds in0, in1, ... in the order of the model's inputs and out0, out1, ... as the framework gave them.  Where JAX is
installed, its own compiled function stands beside the loops that came from it; where numba is, some are written for it by hand.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from timing import Call, in_turns, machine, onnxruntime_call, tried  # isort: skip  (sets the number of threads before numpy loads)

import numpy as np
import onnx
from loops import with_engine

import mdf_loop
from mdf_loop import backend
from mdf_loop.settings.engines import agreeing_engines

FOLDER = Path(__file__).parent / "exported"

RELATIVE, ABSOLUTE = {"float32": 2e-3, "float64": 1e-6}, {"float32": 2e-4, "float64": 1e-9}
"""How far results may be from the framework's: both add up in an order of their own, and loops repeat it."""


class Model(NamedTuple):
    """An exported loop: the model, its inputs by name, what the framework gave."""

    name: str
    model: onnx.ModelProto
    inputs: dict[str, np.ndarray]
    expected: tuple[np.ndarray, ...]


def models(folder: Path = FOLDER, names: list[str] | None = None) -> Iterator[Model]:
    """The models of a folder, by name."""
    for path in sorted(folder.glob("*.onnx")):
        if names and not any(part in path.stem for part in names):
            continue
        model = onnx.load(path)
        given = {x.name for x in model.graph.initializer}
        asked = [x.name for x in model.graph.input if x.name not in given]
        with np.load(path.with_suffix(".npz")) as arrays:
            inputs = {name: arrays[f"in{k}"] for k, name in enumerate(asked)}
            expected = tuple(arrays[f"out{k}"] for k in range(len(model.graph.output)))
        yield Model(path.stem, model, inputs, expected)


def differences(found: tuple[Any, ...], expected: tuple[np.ndarray, ...]) -> str:
    """What is wrong with results, in words; empty if nothing is."""
    for k, (x, wanted) in enumerate(zip(found, expected, strict=True)):
        x = np.asarray(x)
        if x.shape != wanted.shape or x.dtype != wanted.dtype:
            return f"result {k} is {x.dtype}{list(x.shape)}, not {wanted.dtype}{list(wanted.shape)}"
        relative, absolute = (bound.get(str(wanted.dtype), 0) for bound in (RELATIVE, ABSOLUTE))
        if not np.allclose(x, wanted, relative, absolute, equal_nan=True):
            return f"result {k} differs by {np.nanmax(np.abs(x.astype(float) - wanted.astype(float))):.3g}"
    return ""


def our_call(work: Model, engine: str) -> Call:
    """A prepared model, called."""
    context, prepared = with_engine(engine), backend.prepare(work.model)
    return lambda: context.run(prepared.run, work.inputs)


def calls(work: Model, engines: list[str]) -> dict[str, Call]:
    """Everybody who can run it."""
    makers = {"onnxruntime": lambda: onnxruntime_call(work.model, work.inputs)}
    makers |= {engine: functools.partial(our_call, work, engine) for engine in engines}
    makers |= {"jax": lambda: jax_call(work), "numba": lambda: numba_call(work)}
    return {name: call for name, make in makers.items() if (call := _or_error(make)) is not None}


def _or_error(make: Callable[[], Call | None]) -> Call | None:
    """What is made; where that fails, a call that says why."""
    try:
        return make()
    except Exception as error:
        return functools.partial(_fail, error)


def _fail(error: Exception) -> Any:
    raise error


def jax_call(work: Model) -> Call | None:
    """JAX's own function, compiled, where the loop came from there."""
    if not work.name.startswith("jax_") or importlib.util.find_spec("jax") is None:
        return None
    sys.path.insert(0, str(FOLDER))
    import from_jax
    import jax

    if work.name not in from_jax.LOOPS:
        return None
    run = jax.jit(from_jax.LOOPS[work.name].function)
    given = list(work.inputs.values())
    return lambda: tuple(jax.tree.leaves(jax.block_until_ready(run(*given))))


def numba_call(work: Model) -> Call | None:
    """The same by hand in numba, where it was written."""
    if importlib.util.find_spec("numba") is None:
        return None
    sys.path.insert(0, str(FOLDER))
    import by_hand

    run = by_hand.FUNCTIONS.get(work.name)
    given = list(work.inputs.values())
    return None if run is None else lambda: run(*given)


def warmed_up(work: Model, call: Call, seconds: float) -> str:
    """Call it for a while; gives what is wrong with the results."""
    start, count = time.perf_counter(), 0
    while count < WARM or time.perf_counter() - start < seconds:
        results, error = tried(lambda: tuple(call()))
        if error := error or differences(results, work.expected):
            return error
        count += 1
    return ""


def measure(work: Model, engines: list[str], seconds: float) -> dict[str, Any]:
    """One row: microseconds of a call, and what is wrong with its results."""
    row: dict[str, Any] = {"name": work.name, "wrong": {}}
    ready = {}
    for name, call in calls(work, engines).items():
        if wrong := warmed_up(work, call, SETTLING.get(name, 0.1)):
            row["wrong"][name] = wrong
        else:
            ready[name] = call
    row["us"] = {name: 1e6 * min(found) for name, found in (in_turns(ready, seconds) if ready else {}).items()}
    return row


WARM, SETTLING = 12, {"auto": 2.0}
"""Calls of each before it is measured, and seconds of those who decide meanwhile how to run."""


def line(row: dict[str, Any], columns: list[str]) -> str:
    """A row of the table: onnxruntime's microseconds, and everybody's share of them."""
    base = row["us"].get("onnxruntime", math.nan)
    shares = "".join(f"{row['us'][name] / base:10.3f}" if name in row["us"] else f"{'-':>10}" for name in columns)
    wrong = "".join(f"  {name}: {what}" for name, what in row["wrong"].items())
    return f"{row['name']:32}{base:12.1f}{shares}{wrong}"


def mean(rows: list[dict[str, Any]], name: str, other: str) -> tuple[float, int]:
    """The geometric mean of one's time by another's, and over how many rows."""
    ratios = [row["us"][name] / row["us"][other] for row in rows if name in row["us"] and other in row["us"]]
    return (math.exp(sum(map(math.log, ratios)) / len(ratios)), len(ratios)) if ratios else (math.nan, 0)


def summary(rows: list[dict[str, Any]], engines: list[str]) -> Iterator[str]:
    """Geometric means, and how many rows are slower than onnxruntime."""
    for engine in engines:
        parts = []
        for other in ("onnxruntime", "jax", "numba"):
            ratio, count = mean(rows, engine, other)
            parts += [f"{ratio:.3f} of {other} ({count} rows)"] if count else []
        both = [row["us"] for row in rows if {engine, "onnxruntime"} <= row["us"].keys()]
        slower = sum(us[engine] > us["onnxruntime"] for us in both)
        yield f"{engine}: geometric mean {', '.join(parts)}; {slower} slower than onnxruntime"


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of the names of models; all if none")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where NAME.onnx and NAME.npz stand")
    parser.add_argument("--engine", action="append", dest="engines", help="an engine of options(); may be repeated")
    parser.add_argument("--seconds", type=float, default=0.3, help="how long a row is measured")
    parser.add_argument("--json", help="a file for all figures")
    return parser.parse_args()


def main() -> None:
    """Print the table."""
    said = arguments()
    engines = said.engines or list(agreeing_engines())
    columns = [*engines, *(name for name in ("jax", "numba") if importlib.util.find_spec(name))]
    print(machine())
    print(f"{'onnxruntime: microseconds, others: share':44}" + "".join(f"{name:>10}" for name in columns))
    rows = []
    for work in models(said.folder, said.names):
        rows.append(measure(work, engines, said.seconds))
        print(line(rows[-1], columns), flush=True)
    print("\n".join(summary(rows, engines)))
    if said.json:
        Path(said.json).write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1))


if __name__ == "__main__":
    assert mdf_loop  # the package is what is measured
    main()
