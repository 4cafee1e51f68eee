"""What is imported when the command is asked a question, and when the package is imported: modules are counted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import mdf_loop
from mdf_loop.integrations.replacements import ENGINE, found

ROOT = Path(__file__).parents[2]

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


FIRST = {
    *("mdf_loop", "mdf_loop.system", "mdf_loop.system.starting", "mdf_loop.system.threads", "mdf_loop.version"),
    *("mdf_loop.integrations", "mdf_loop.integrations.registration", "mdf_loop.integrations.replacements"),
}
"""What registering with MDF needs before MDF is there."""

WITH_ENGINE = {
    *("mdf_loop.errors", "mdf_loop.functions", "mdf_loop.functions.drift_diffusion", "mdf_loop.functions.function_rows"),
    "mdf_loop.functions.psyneulink",
    "mdf_loop.functions.psyneulink_mechanisms",
    *("mdf_loop.integrations.loop_conditions", "mdf_loop.ir", "mdf_loop.ir.records", "mdf_loop.system.html"),
}
"""What is put into MDF's engine besides: conditions, and names of functions."""


def modules_after(code):
    """The modules of the package that some code leads to, and all others."""
    collects, modules = modules_of(
        code=f"import gc, json, sys\n{code}\nprint(gc.isenabled())\nprint(json.dumps(sorted(sys.modules)))"
    )
    assert collects == "True"
    ours = {name for name in modules if name.partition(".")[0] == "mdf_loop"}
    return ours, modules - ours


def test_importing_the_package_imports_what_registering_needs_and_nothing_else():
    ours, others = modules_after("import mdf_loop")
    assert ours == FIRST
    assert not others & HEAVY
    ours, _ = modules_after("import mdf_loop, modeci_mdf.execution_engine")
    assert ours == FIRST | WITH_ENGINE
    ours, _ = modules_after("import modeci_mdf.execution_engine, mdf_loop; mdf_loop.unregister(); mdf_loop.register()")
    assert ours == FIRST | WITH_ENGINE


def test_a_public_name_imports_what_it_needs():
    ours, others = modules_after("from mdf_loop import LoopError, options")
    parts = {name.split(".")[1] for name in ours - FIRST - WITH_ENGINE}
    assert parts <= {"options", "progress", "settings", "system"}
    assert not others & HEAVY - {"numpy"}
    ours, _ = modules_after("import mdf_loop; mdf_loop.run")
    assert not ours & {f"mdf_loop.{name}" for name in ("inference", "pages", "pictures", "sweeps.sweep")}


EACH_FIRST = """
import sys

for name in sys.argv[1].split():
    if name in ("convert", "options"):  # modules have these names, too
        import mdf_loop.convert.loading, mdf_loop.options
    import mdf_loop
    assert name in dir(mdf_loop), name
    found = {}
    exec(f"from mdf_loop import {name} as found", found)
    assert found["found"] is getattr(mdf_loop, name), name
    assert callable(found["found"]) or name == "backend", name
    mdf_loop.unregister()
    for each in [each for each in sys.modules if each.partition(".")[0] == "mdf_loop"]:
        del sys.modules[each]
"""


def test_each_public_name_can_be_read_first():
    names = " ".join(mdf_loop.__all__)
    subprocess.run([sys.executable, "-c", EACH_FIRST, names], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)


def test_modules_can_be_read_and_other_names_are_refused():
    code = "import mdf_loop; assert issubclass(mdf_loop.errors.MalformedBody, mdf_loop.LoopError)"
    modules_after(code)
    for name in ("nothing", "__main__", "_nothing", "nothing.more"):
        with pytest.raises(AttributeError, match=f"module 'mdf_loop' has no attribute '{name}'"):
            getattr(mdf_loop, name)
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from mdf_loop import nothing  # noqa: F401


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.delattr(mdf_loop, "cli")
    for name in [name for name in sys.modules if name.startswith("mdf_loop.cli")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(ModuleNotFoundError, match="typer"):
        _ = mdf_loop.cli


THREADS = """
import sys, threading
sys.setswitchinterval(1e-5)
import modeci_mdf.execution_engine as engine
from modeci_mdf.mdf import Graph, Model, Node, OutputPort, Parameter
import mdf_loop

def evaluated():
    ports = [OutputPort(id="out", value="a")]
    graph = Graph(id="g", nodes=[Node(id="n", parameters=[Parameter(id="a", value="1.0 + 2.0")], output_ports=ports)])
    made = engine.EvaluableGraph(graph)
    made.evaluate()
    return made.enodes["n"].evaluable_outputs["out"].curr_value == 3

calls = [
    evaluated,
    lambda: mdf_loop.run(sys.argv[1], seed=7) is not None,
    lambda: bool(mdf_loop.loop(3, True, 0, body=lambda i, go, x: (go, x + i)) == 3),
    lambda: bool(mdf_loop.sweep(sys.argv[1], trials=2)),
    lambda: mdf_loop.options(seed=1) is not None and mdf_loop.convert is not None,
]
calls = calls * 2
gate, found = threading.Barrier(len(calls)), []

def first(call):
    gate.wait()
    found.append(call())

threads = [threading.Thread(target=first, args=(call,)) for call in calls]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert found == [True] * len(calls), found
"""


def test_threads_may_make_the_first_calls_at_the_same_time():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", THREADS, str(ROOT / "examples" / "drift_diffusion.yaml")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


FORK = """
import os, signal, sys, threading, time
import mdf_loop

begun = threading.Event()

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "mdf_loop.models.opening":
            begun.set()
            time.sleep(0.2)

sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=lambda: mdf_loop.run)
thread.start()
begun.wait()
child = os.fork()
if not child:
    signal.alarm(20)
    os._exit(0 if callable(mdf_loop.run) else 1)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not copied here")
def test_a_copy_of_the_process_can_import_what_another_thread_imported_meanwhile():
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], env=env, check=True)


def test_what_mdf_calls_is_there():
    for functions in ENGINE.values():
        for places in functions.values():
            assert all(callable(found(f"integrations.{place}")) for place in places)


@pytest.mark.parametrize(
    ("name", "package", "code"), [("mdf-loop", "typer", 130), ("mdf-loop", "ml_dtypes", 130), ("of_a_user.py", "ml_dtypes", 1)]
)
def test_ctrl_c_while_the_command_is_imported_ends_it_quietly(tmp_path, name, package, code):
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text("raise KeyboardInterrupt")
    command = "from mdf_loop.cli import main\nmain()\n"
    (tmp_path / name).write_text(command if code == 130 else "import mdf_loop\nmdf_loop.run('m.yaml')\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run([sys.executable, str(tmp_path / name), "run", "m.yaml"], env=env, capture_output=True, text=True)
    assert ("Traceback" in done.stderr) is (code != 130)
    assert done.returncode == code or code != 130
