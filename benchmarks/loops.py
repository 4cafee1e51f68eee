"""How fast loops run: each engine next to onnxruntime, the same loop with the same inputs, one thread each.

python benchmarks/loops.py                       every row, with engine auto
python benchmarks/loops.py newton life           rows whose name contains one of these
python benchmarks/loops.py --engine auto --engine interpret --seconds 2 --json results.json
python benchmarks/loops.py --list / --show NAME  names and limits / the body of one row

A row is right first and fast second: results are compared before anything is timed.  Repetitions of all
engines take turns, and the shortest of each counts.
"""

from __future__ import annotations

import argparse
import contextvars
import json
import math
from collections.abc import Callable
from typing import Any

from timing import in_turns, machine, onnxruntime_call, tried  # isort: skip  (sets the number of threads before numpy loads)

from workloads import EVERY, Workload, differences

import mdf_loop

Call = Callable[[], Any]


def our_call(work: Workload, engine: str) -> Call:
    """A function that runs a workload here, planned before if that can be done."""
    body, captured = {"onnx": work.text, "opset": 20}, work.captured
    values = (*work.carried, *work.scanned)
    if work.scanned:
        planned = mdf_loop.compile(body, num_scan_inputs=len(work.scanned)) if hasattr(mdf_loop, "compile") else None
        run = planned or (lambda *given, **named: mdf_loop.scan(*given, body=body, num_scan_inputs=len(work.scanned), **named))
    else:
        planned = mdf_loop.compile(body) if hasattr(mdf_loop, "compile") else None
        run = planned or (lambda *given, **named: mdf_loop.loop(*given, body=body, **named))
        values = (work.trip_count, work.cond, *values)

    context = with_engine(engine)
    return lambda: context.run(run, *values, **captured)


def with_engine(engine: str) -> contextvars.Context:
    """A context in which an engine is chosen: running in it costs less than choosing it each time."""
    with mdf_loop.options(engine=engine):
        return contextvars.copy_context()


def measure(work: Workload, engines: list[str], seconds: float) -> dict[str, Any]:
    """One row: milliseconds of onnxruntime and of each engine, or what is wrong with its results."""
    row: dict[str, Any] = {"name": work.name, "target": work.target, "limit": work.limit, "wrong": {}, "ms": {}}
    runtime = onnxruntime_call(work.model, work.inputs)
    expected, error = tried(lambda: tuple(runtime()))
    if error:
        return {**row, "wrong": {"onnxruntime": error}}
    calls = {"onnxruntime": runtime}
    for engine in engines:
        call = our_call(work, engine)
        results, error = tried(call)
        again, error_again = tried(call) if not error else (None, "")
        error = error or error_again or differences(work, results, expected)
        if wrong := error or differences(work, again, expected):
            row["wrong"][engine] = wrong
        if results is not None:
            calls[engine] = call
    times = in_turns(calls, seconds)
    row["ms"] = {name: 1e3 * min(found) for name, found in times.items()}
    row["median_ms"] = {name: 1e3 * sorted(found)[len(found) // 2] for name, found in times.items()}
    return row


def judged(row: dict[str, Any], engine: str) -> tuple[float, str]:
    """The ratio to onnxruntime, and what to say about it."""
    ratio = row["ms"].get(engine, math.nan) / row["ms"].get("onnxruntime", math.nan)
    wrong = row["wrong"].get(engine) or row["wrong"].get("onnxruntime")
    return ratio, f"WRONG {wrong}" if wrong else "ok" if ratio <= row["limit"] else "slow"


def line(row: dict[str, Any], engines: list[str]) -> str:
    """A row of the table, one line for each engine."""
    lines = []
    for engine in engines:
        ratio, said = judged(row, engine)
        ours, theirs = (row["ms"].get(name, math.nan) for name in (engine, "onnxruntime"))
        bound = f"{row['limit']:7.3g}{' ' if row['target'] else '*'}"
        lines.append(f"{row['name']:24}{engine:10}{ours:12.3f}{theirs:12.3f}{ratio:10.3f}{bound}  {said}")
    return "\n".join(lines)


def summary(rows: list[dict[str, Any]], engine: str) -> str:
    """Geometric means, and how many rows are as they should be."""
    ratios = {row["name"]: judged(row, engine) for row in rows}
    promised = [ratios[row["name"]][0] for row in rows if row["target"]]
    others = [ratios[row["name"]][0] for row in rows if not row["target"]]
    means = ", ".join(
        f"{what} {math.exp(sum(map(math.log, found)) / len(found)):.3f} ({len(found)} rows)"
        for what, values in (("promised", promised), ("others", others), ("all", promised + others))
        if (found := [value for value in values if value > 0])
    )
    said = [said.split()[0] for _, said in ratios.values()]
    return f"{engine}: geometric mean of {means}; {said.count('ok')} ok, {said.count('slow')} slow, {said.count('WRONG')} wrong"


def chosen(names: list[str], promised_only: bool) -> list[Workload]:
    """The workloads whose names contain one of these; all if none is given."""
    made = (make() for make in EVERY if not names or any(name in make.__name__ for name in names))
    return [work for work in made if work.target or not promised_only]


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of the names of rows; all if none")
    parser.add_argument("--engine", action="append", dest="engines", help="an engine of options(); may be repeated")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long a row is measured")
    parser.add_argument("--promised", action="store_true", help="only rows with a target of their own")
    parser.add_argument("--json", help="a file for all figures")
    parser.add_argument("--list", action="store_true", help="names and limits")
    parser.add_argument("--show", action="store_true", help="the bodies")
    return parser.parse_args()


def main() -> None:
    """Print the table."""
    said = arguments()
    works = chosen(said.names, said.promised)
    if said.list or said.show:
        for work in works:
            print(work.text if said.show else f"{work.name:24}{work.limit:8.3g}")
        return
    engines = said.engines or ["auto"]
    print(machine())
    print(f"{'loop':24}{'engine':10}{'ours ms':>12}{'ort ms':>12}{'ratio':>10}{'limit':>7}   (* no target of its own)")
    rows = []
    for work in works:
        rows.append(measure(work, engines, said.seconds))
        print(line(rows[-1], engines), flush=True)
    for engine in engines:
        print(summary(rows, engine))
    if said.json:
        with open(said.json, "w") as file:
            json.dump({"machine": machine(), "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
