"""What is imported when the command is asked a question, and when the package is imported: modules are counted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

HEAVY = {"graph_scheduler", "mdf_loop.backend", "modeci_mdf", "numpy", "onnx", "onnxruntime", "pandas", "scipy"}
"""What no question needs."""

ASKING = """
import json, runpy, sys
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    print()
    print(json.dumps(sorted(sys.modules)))
"""


def modules_of(*command, code=ASKING):
    """What a command printed, and the modules that were imported at its end."""
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, command)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=True,
    )
    *printed, modules = found.stdout.rstrip("\n").split("\n")
    return "\n".join(printed), set(json.loads(modules))


@pytest.fixture
def script(tmp_path):
    """The script that an installation writes."""
    path = tmp_path / "mdf-loop"
    path.write_text("import sys\nfrom mdf_loop.cli import main\nsys.exit(main())\n")
    return path


@pytest.mark.parametrize("asked", [["--version"], ["--help"], ["-h"], ["run", "--help"], ["sweep", "-h"]], ids=" ".join)
def test_questions_need_neither_mdf_nor_numpy(script, asked):
    printed, modules = modules_of(script, *asked)
    assert "mdf-loop" in printed
    assert not modules & HEAVY
    assert len([name for name in modules if name.startswith("mdf_loop")]) <= 30


def test_what_is_no_question_has_everything(script, tmp_path):
    printed, modules = modules_of(script, "run", ROOT / "examples" / "drift_diffusion.yaml", "--seed", "7")
    assert "evidence" in printed
    assert {"modeci_mdf", "mdf_loop.backend"} <= modules
    assert not modules & LATER - {"mdf_loop.cli"}


LATER = {
    "mdf_loop.backends.llvm.emitter",
    "mdf_loop.cli",
    "mdf_loop.openvino.xml",
    "mdf_loop.sweeps.side_by_side",
    "llvmlite",
    "xarray",
    "modeci_mdf.execution_engine",
    "graph_scheduler",
    "onnxruntime",
    "matplotlib",
    "scipy",
}
"""What neither an import nor a run of a small model needs."""


def test_importing_the_package_leaves_what_only_some_need():
    code = "import gc, json, sys\nimport mdf_loop\nprint(gc.isenabled())\nprint(json.dumps(sorted(sys.modules)))"
    collects, modules = modules_of(code=code)
    assert collects == "True"
    assert not modules & LATER
    assert len([name for name in modules if name.startswith("mdf_loop")]) <= 260


@pytest.mark.parametrize(("name", "code"), [("mdf-loop", 130), ("of_a_user.py", 1)])
def test_ctrl_c_while_the_command_is_imported_ends_it_quietly(tmp_path, name, code):
    (tmp_path / "ml_dtypes").mkdir()
    (tmp_path / "ml_dtypes" / "__init__.py").write_text("raise KeyboardInterrupt")
    (tmp_path / name).write_text("from mdf_loop.cli import main\nmain()\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run([sys.executable, str(tmp_path / name), "run", "m.yaml"], env=env, capture_output=True, text=True)
    assert ("Traceback" in done.stderr) is (code != 130)
    assert done.returncode == code or code != 130
