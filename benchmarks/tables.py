"""The tables of the documentation: which script measures which. Running it measures all of them again.

python benchmarks/tables.py                  every table, one after the other: half an hour on a machine that does nothing else
python benchmarks/tables.py loops exported   those whose name contains one of these
python benchmarks/tables.py --list           the commands

A table is replaced when all its scripts have come to their end; ``stroop`` needs an environment with psyneulink.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"

PLANNED = "--engine numpy --engine auto --engine jit"

TABLES = {
    "loops": [f"loops.py {PLANNED}"],
    "first_calls": ["first_calls.py --repeat 2", "first_calls.py --warm --repeat 2"],
    "exported": [f"exported.py --engine interpret {PLANNED}"],
    "compiling": ["compiling.py --engines", "compiling.py", "compiling.py --first", "compiling.py --auto"],
    "kernels": ["kernels.py"],
    "memory": ["memory.py"],
    "mdf": ["through_mdf.py"],
    "scheduled": ["scheduled.py --engines"],
    "psyneulink": ["scheduled.py --psyneulink"],
    "stroop": ["in_psyneulink.py"],
    "sweeps": ["sweeps.py --repeat 3", "sweeps.py --part 0.1 --repeat 9"],
    "cluster": ["cluster.py"],
    "simulator": ["simulator.py"],
    "jax": ["to_jax.py", "in_jax.py"],
    "progress": ["progress.py"],
}
"""By the table ``docs/measured_<name>.txt``: what prints its parts."""

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def measure(name: str) -> str:
    """What the scripts of a table print."""
    parts = []
    for command in TABLES[name]:
        script, *options = command.split()
        made = subprocess.run(
            [sys.executable, str(HERE / script), *options],
            env={**os.environ, **ONE_THREAD},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        told = [f"python benchmarks/{command}", *made.stdout.strip("\n").splitlines()]
        parts.append("\n".join(line.rstrip() for line in told))
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Measure, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of the names of tables; all if none")
    parser.add_argument("--list", action="store_true", help="the commands")
    given = parser.parse_args()
    for name in [name for name in TABLES if not given.names or any(part in name for part in given.names)]:
        path = DOCS / f"measured_{name}.txt"
        if given.list:
            print(path.name, *TABLES[name], sep="\n    python benchmarks/")
            continue
        print(path.name, flush=True)
        try:
            path.write_text(measure(name))
        except subprocess.CalledProcessError as error:  # what it measures is not installed, or is wrong: it said so
            print(f"{path.name} stays as it was: {' '.join(error.cmd[1:])} failed", file=sys.stderr)


if __name__ == "__main__":
    main()
