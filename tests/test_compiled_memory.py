"""Machine code writes where it has room, and nowhere else: Python's debug allocator looks behind each piece of growing memory."""

import os
import subprocess
import sys

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


def test_no_byte_behind_growing_memory_is_written():
    environment = {**os.environ, "PYTHONMALLOC": "debug"}
    code = f"BODIES = {BODIES!r}\n" + PROGRAM
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]
