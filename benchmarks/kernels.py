"""How fast single operators run: a model of one node next to onnxruntime, one thread each.

python benchmarks/kernels.py                     every row
python benchmarks/kernels.py MatMul NonMax       rows whose name contains one of these
python benchmarks/kernels.py --seconds 2 --json results.json
python benchmarks/kernels.py --list              names and limits

A row is right first and fast second: results are compared before anything is timed, those of machine code too.  The model is
prepared once and called for a while (``--settle``), so that engine ``auto`` has changed over to machine code where that pays.
Repetitions take turns, and the shortest of each counts.  Rows come from the modules of ``operators/``: one more is one line
there, or one more module.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from typing import Any

from timing import in_turns, machine, onnxruntime_call, tried  # isort: skip  (sets the number of threads before numpy loads)

from operators import Case, differences, every

import mdf_loop


def settled(call: Any, seconds: float) -> Any:
    """What a call gives after it has been called for so long: machine code is made meanwhile, in a thread."""
    end = time.perf_counter() + seconds
    results, error = tried(call)
    while not error and time.perf_counter() < end:
        results, error = tried(call)
    return results, error


def measure(case: Case, seconds: float, settle: float) -> dict[str, Any]:
    """One row: milliseconds of both, or what is wrong."""
    row: dict[str, Any] = {"name": case.name, "limit": case.limit, "wrong": "", "ms": {}}
    model, feeds = case.model(), case.feeds
    prepared = mdf_loop.backend.prepare(model)
    calls = {"mdf_loop": lambda: prepared.run(feeds)}
    first, error = tried(calls["mdf_loop"])
    if not error:
        results, error = settled(calls["mdf_loop"], settle)
    if error:
        return {**row, "wrong": error}
    try:
        calls["onnxruntime"] = onnxruntime_call(model, feeds)
        expected = calls["onnxruntime"]()
        row["wrong"] = differences(case, first, expected) or differences(case, results, expected)
    except Exception as error:  # it may not have the operator for this type
        calls.pop("onnxruntime", None)
        row["wrong"] = f"onnxruntime: {str(error).splitlines()[0][:100]}"
    times = in_turns(calls, seconds)
    row["ms"] = {name: 1e3 * min(found) for name, found in times.items()}
    return row


def judged(row: dict[str, Any]) -> tuple[float, str]:
    """The ratio to onnxruntime, and what to say about it."""
    ratio = row["ms"].get("mdf_loop", math.nan) / row["ms"].get("onnxruntime", math.nan)
    if row["wrong"]:
        return ratio, row["wrong"] if row["wrong"].startswith("onnxruntime") else f"WRONG {row['wrong']}"
    return ratio, "ok" if ratio <= row["limit"] else "slow"


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    ratio, said = judged(row)
    ours, theirs = (row["ms"].get(name, math.nan) for name in ("mdf_loop", "onnxruntime"))
    return f"{row['name']:42}{ours:10.3f}{theirs:10.3f}{ratio:9.2f}  {said}"


def summary(rows: list[dict[str, Any]]) -> str:
    """The geometric mean, and how many rows are as they should be."""
    found = [judged(row) for row in rows]
    ratios = [ratio for ratio, _ in found if ratio > 0]
    said = [said.split()[0] for _, said in found]
    mean = math.exp(sum(map(math.log, ratios)) / max(len(ratios), 1))
    return f"geometric mean of {len(ratios)} rows {mean:.2f}; " + ", ".join(
        f"{said.count(word)} {word}" for word in ("ok", "slow", "WRONG")
    )


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of the names of rows; all if none")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long a row is measured")
    parser.add_argument("--settle", type=float, default=1.0, help="how long a row is called before")
    parser.add_argument("--json", help="a file for all figures")
    parser.add_argument("--list", action="store_true", help="names and limits")
    return parser.parse_args()


def main() -> None:
    """Print the table."""
    said = arguments()
    chosen = (case for case in every() if not said.names or any(name in case.name for name in said.names))
    if said.list:
        for case in chosen:
            print(f"{case.name:42}{case.limit:8.3g}")
        return
    print(machine())
    print(f"{'operator':42}{'ours ms':>10}{'ort ms':>10}{'ratio':>9}")
    rows = []
    for case in chosen:
        rows.append(measure(case, said.seconds, said.settle))
        print(line(rows[-1]), flush=True)
    print(summary(rows))
    if said.json:
        with open(said.json, "w") as file:
            json.dump({"machine": machine(), "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
