"""MDF's own examples as loops: ``python benchmarks/mdf_examples.py <folder of examples> [--steps 5]``.

For each model in the folder (that of MDF's repository) that MDF's engine runs: whether it becomes a loop, or in one line why
not, and how far the outputs after some steps are from those of MDF's engine, in units in the last place of 32 bits.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import mdf_loop
from mdf_loop.convert.scheduled.loops import execute, lower
from mdf_loop.errors import LoopError
from mdf_loop.readers.mdf.signature import output_ports

INCREMENT = 0.1


def models(folder: Path) -> Iterator[Path]:
    """The files that may be models; of one in several formats the first."""
    seen = set[Path]()
    for path in sorted([*folder.rglob("*.yaml"), *folder.rglob("*.json")], key=str):
        if path.with_suffix("") not in seen:
            seen.add(path.with_suffix(""))
            yield path


def graph_in(path: Path) -> Any:
    """The graph of a file; None if it is no model of one graph."""
    with contextlib.suppress(LoopError), contextlib.redirect_stdout(io.StringIO()):
        graphs = mdf_loop.load(path).graphs
        return graphs[0] if len(graphs) == 1 else None


def by_mdf(graph: Any, steps: int) -> dict[str, Any] | None:
    """What MDF's engine gives; None if it fails."""
    from modeci_mdf.execution_engine import EvaluableGraph

    try:
        with contextlib.redirect_stdout(io.StringIO()):
            engine = EvaluableGraph(graph)
            engine.evaluate()
            for _ in range(steps - 1):
                engine.evaluate(time_increment=INCREMENT)
    except Exception:
        return None
    nodes = engine.enodes
    return {name: nodes[node].evaluable_outputs[port].curr_value for name, (node, port) in output_ports(graph).items()}


def as_loop(path: Path, steps: int, expected: dict[str, Any]) -> str:
    """What becomes of a model."""
    try:
        lowered = lower(graph_in(path), steps, INCREMENT)
        found = execute(lowered)
    except LoopError as error:
        return f"no: {' '.join(str(error).split())}"
    return f"a loop, {max((distance(found[name], value) for name, value in expected.items()), default=0):.3g}"


def distance(found: Any, expected: Any) -> float:
    """The largest difference, in units in the last place of 32 bits; 0 where all bits are the same."""
    one, other = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if np.array_equal(one, other, equal_nan=True):
        return 0.0
    unit = np.spacing(np.abs(other).astype(np.float32)).astype(np.float64)
    return float(np.nanmax(np.abs(one - other) / unit))


def main() -> None:
    """Go through all of them."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--steps", type=int, default=5)
    said = arguments.parse_args()
    warnings.simplefilter("ignore")
    for path in models(said.folder):
        graph = graph_in(path)
        expected = None if graph is None else by_mdf(graph, said.steps)
        if expected is not None:
            print(f"{path.relative_to(said.folder)!s:48} {as_loop(path, said.steps, expected)}", flush=True)


if __name__ == "__main__":
    main()
