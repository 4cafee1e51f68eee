"""Machine code reads and writes where it has room, and nowhere else.

Python's debug allocator looks behind each piece of growing memory; pages that cannot be touched stand behind all, or before.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")

PROGRAM = '''
import numpy as np, onnx.parser
import mdf_loop

HEAD = """<ir_version: 8, opset_import: ["": 21]>
body (int64 i, bool go, float[n] x, float[6] y, float[6,3] w) => (bool on, float[m] x2, float[6] y2, float[6,3] w2)
<int64[1] one = {{1}}, int64[1] zero = {{0}}, int64[1] three = {{3}}, float half = {{0.5}}>
{{ place = Reshape (i, one)  on = Identity (go)  y2 = Mul (y, half)  w2 = Identity (w) {nodes} }}"""

for nodes in BODIES:
    body, found = onnx.parser.parse_model(HEAD.format(nodes=nodes)), {}
    for engine in ("interpret", "jit"):
        found[engine] = []
        with mdf_loop.options(engine=engine):
            run = mdf_loop.compile(body)
            for count in (1, 2, 3, 6):
                try:
                    given = np.arange(3, dtype=np.float32), np.arange(6, dtype=np.float32), np.ones((6, 3), np.float32)
                    found[engine].append(run(count, True, *given))
                except mdf_loop.LoopError as error:
                    found[engine].append(str(error))
    assert "machine code" in run.explain(), nodes
    assert repr(found["jit"]) == repr(found["interpret"]), nodes
'''

INNER = """Scan <num_scan_inputs = 1, body = inner (float[k] s, float p) => (float[k2] s2, float r) {{
  s2 = Identity ({state})  r = Identity (p) }}> ({begins}, {scanned})"""

BODIES = [
    "x2 = Concat <axis = 0> (x, x)",
    "t = Concat <axis = 0> (x, y) x2 = Concat <axis = 0> (t, y)",
    "t = Concat <axis = 0> (y, y) u = Concat <axis = 0> (t, x, t) x2 = Slice (u, zero, three)",
    "x2 = MatMul (w, x)",
    "x2 = Slice (y, zero, place)",
    "a = Unsqueeze (x, zero) b = Unsqueeze (y, one) c = Mul (a, b) x2 = ReduceSum <keepdims = 0> (c, one)",
    "t = Concat <axis = 0> (x, x) x2, r = " + INNER.format(state="s", begins="t", scanned="t"),
    "t = Concat <axis = 0> (x, x) x2, r = " + INNER.format(state="t", begins="t", scanned="x"),
    "t = Concat <axis = 0> (x, y) x2, r = " + INNER.format(state="y", begins="t", scanned="x"),
    "t, x2 = " + INNER.format(state="s", begins="x", scanned="y"),
    "t, r = " + INNER.format(state="s", begins="x", scanned="x") + " x2 = Concat <axis = 0> (r, r)",
]
"""Carried values that become longer, values put behind others and read or carried by an inner loop."""


COPIES = """
import os, traceback
import mdf_loop.backends.llvm.compiled_program
from tests.fuzz.guarded import guarded
for name, (side, program) in {cases!r}.items():
    if (copy := os.fork()) == 0:
        try:
            with guarded(side):
                exec(program, {{}})
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(name, os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]), sep=": ", flush=True)
"""
"""Programs in guarded memory, each in a copy of a process that has imported everything, and how they ended."""

MUTANTS = {
    "memory that grows by too little": (
        "behind",
        """
from mdf_loop.backends.llvm.emitter import Emitter
grown = Emitter.grown
Emitter.grown = lambda self, memory, size: grown(self, memory, self.text.sub(size, 1))
""",
    ),
    "results that are too short": (
        "behind",
        """
from mdf_loop.backends.llvm.program_layout import ProgramTable
new = ProgramTable._new
def shorter(self):
    array = new(self)
    [place] = [place for place, x in self.arrays.items() if x is array]
    self.arrays[place] = array[:-1].copy()
    return self.arrays[place]
ProgramTable._new = shorter
""",
    ),
}
SHIFTED = """
from mdf_loop.backends.llvm.lanes.vector_lanes import Lanes, Place
way = Lanes.{name}
def shifted(self, *given):
    return way(self, *given[:-1], self.shifted(given[-1], Place("{by}")))
Lanes.{name} = shifted
"""
for name in ("load", "store"):
    for side, by in (("behind", 1), ("before", -1)):
        MUTANTS[f"{name} one element {side}"] = side, SHIFTED.format(name=name, by=by)
"""Machine code that leaves its memory on purpose: the side, and what is changed."""


def run(code, **more):
    environment = {**os.environ, "MDF_LOOP_CACHE": "off", **more}
    root = Path(__file__).parents[2]
    return subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=environment, cwd=root, capture_output=True, text=True)


def test_no_byte_behind_growing_memory_is_written():
    done = run(f"BODIES = {BODIES!r}\n" + PROGRAM, PYTHONMALLOC="debug")
    assert done.returncode == 0, done.stderr[:2000]


needs_pages = pytest.mark.skipif(sys.platform != "linux", reason="memory is asked for as Linux gives it")


@pytest.fixture(scope="module")
def ended():
    """How the bodies ended in memory that is guarded on a side, and mutants of machine code in theirs; what was said."""
    cases = {side: (side, f"BODIES = {BODIES!r}\n" + PROGRAM) for side in ("behind", "before")}
    cases |= {name: (side, change + f"BODIES = {BODIES[:2]!r}\n" + PROGRAM) for name, (side, change) in MUTANTS.items()}
    done = run(COPIES.format(cases=cases))
    assert done.returncode == 0, done.stderr[:2000]
    return {name: int(status) for name, status in (line.split(": ") for line in done.stdout.splitlines())}, done.stderr


@needs_pages
@pytest.mark.parametrize("side", ["behind", "before"])
def test_no_byte_behind_or_before_any_memory_is_touched(side, ended):
    assert ended[0][side] == 0, ended[1][:2000]


@needs_pages
@pytest.mark.parametrize("name", MUTANTS)
def test_machine_code_that_leaves_its_memory_dies(name, ended):
    assert ended[0][name] in (-signal.SIGSEGV, -signal.SIGBUS), ended[1][:2000]
