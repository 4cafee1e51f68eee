"""The house: who may import whom, what public names say, and how large files and functions are."""

import ast
import functools
import inspect
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import onnx
import pytest
from in_groups import each

import mdf_loop

ROOT = Path(__file__).parents[2]
FILES = sorted(path.relative_to(ROOT) for path in (ROOT / "mdf_loop").rglob("*.py"))
TESTS = sorted(path.relative_to(ROOT) for path in (ROOT / "tests").rglob("*.py"))
OPERATORS = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}

LAYERS = [
    {"system", "version"},
    {"errors"},
    {"progress", "settings"},
    {"options"},
    {"plots"},
    {"ir"},
    {"types"},
    {"functions"},
    {"ops"},
    {"batching"},
    {"writers"},
    {"kernels"},
    {"readers"},
    {"plan"},
    {"step"},
    {"backends"},
    {"execute"},
    {"calls"},
    {"backend"},
    {"openvino", "ml"},
    {"convert"},
    {"integrations"},
    {"models"},
    {"checks"},
    {"sweeps"},
    {"inference"},
    {"pictures"},
    {"pages"},
    {"cli"},
]
"""Left never imports right; members of one layer do not import each other.  A dotted name is a part of its own."""

RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

UPWARDS = {
    ("mdf_loop/models/model.py", "sweeps"): "a call of a model may ask for trials",
    ("mdf_loop/models/model.py", "pictures"): "a model plots its picture",
    ("mdf_loop/models/model.py", "pages"): "a model is explored",
}
"""The imports that go up all the same, each inside a function and with its reason."""

FOREIGN = {
    "onnx": {
        "types",
        "readers",
        "writers",
        "plan",
        "backend.py",
        "convert",
        "integrations",
        "models",
        "openvino",
        "kernels/reference.py",
        "step/before_lowering.py",
    },
    "modeci_mdf": {"functions", "readers", "convert", "integrations", "models", "checks"},
    "graph_scheduler": {"integrations"},
    "openvino": set(),
    "onnxruntime": {"models"},
    "llvmlite": {"backends"},
    "jax": {"backends"},
    "torch": {"inference"},
    "typer": {"cli"},
    "rich": {"cli", "progress.py"},
    "tqdm": {"progress.py"},
    "matplotlib": {"plots", "pictures"},
    "panel": {"pages"},
}
"""Which parts may import which foreign package, anywhere in a file."""


parsed = functools.cache(lambda path: ast.parse(path.read_text()))


def imports(path, root=ROOT):
    """(module, line) of everything a file imports, at its top or inside a function."""
    package = path.parent.parts
    for node in ast.walk(parsed(root / path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) + "." if node.level else ""
            names = [f"{base}{node.module or ''}.{alias.name}".replace("..", ".") for alias in node.names]
        else:
            continue
        for name in names:
            yield name, node.lineno


def part(module):
    """The part of mdf_loop that a module belongs to, as LAYERS names it; None for other packages."""
    head, *rest = module.split(".")
    if head != "mdf_loop" or not rest:
        return None
    return ".".join(rest[:2]) if ".".join(rest[:2]) in RANK else rest[0]


def own(path):
    """The part of mdf_loop that a file belongs to."""
    return part(".".join(path.with_suffix("").parts))


def imported_from_above(path, root=ROOT):
    """Parts that a file imports although they do not lie below it, with the line."""
    me = own(path)
    for name, line in imports(path, root):
        other = part(name)
        if other in RANK and me in RANK and other != me and RANK[other] >= RANK[me]:
            yield other, line


ROOMS = {"openvino", "ml"}
"""Parts that may be taken out: the table of ops/rooms.py leads to them."""


@each("path", [path for path in FILES if own(path) not in ROOMS], size=1000)
def test_nothing_outside_a_room_imports_it(path):
    assert not [f"{name}, line {line}" for name, line in imports(path) if part(name) in ROOMS]


DOORS = {
    ("mdf_loop.models.model", "mdf_loop.sweeps.trials"): "a call of a model may ask for trials",
    ("mdf_loop.models.model", "mdf_loop.models.explaining"): "a model explains itself",
    ("mdf_loop.models.model", "mdf_loop.models.to_jax"): "a model runs by JAX",
    ("mdf_loop.models.model", "mdf_loop.pictures.drawing"): "a model plots its picture",
    ("mdf_loop.models.model", "mdf_loop.pages.explore"): "a model is explored",
    ("mdf_loop.models.results", "mdf_loop.models.labelled"): "results become a Dataset",
    ("mdf_loop.models.results", "mdf_loop.models.saving"): "results save themselves",
}
"""Methods of what users hold, each one line that opens a door to the module that does it: the only imports against the order."""


def modules():
    """Every module by its dotted name."""
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in FILES}


def imported_modules(name, path, known):
    """The modules that a file imports, at its top or inside a function, but for types alone."""
    tree = parsed(ROOT / path)
    tests = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    for_types = {id(node) for test in tests for node in ast.walk(test)}
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (other if other in known else node.module for other in inside if other in known or node.module in known)


def circles(graph):
    """What is left of a graph when what depends on nothing is taken out, again and again, from either end."""
    graph = {name: set(others) - {name} for name, others in graph.items()}
    while True:
        read = set().union(*graph.values()) if graph else set()
        gone = {name for name, others in graph.items() if not others or name not in read}
        if not gone:
            return graph
        graph = {name: others - gone for name, others in graph.items() if name not in gone}


def test_no_two_files_import_each_other_even_by_way_of_others():
    known = modules()
    graph = {name: set(imported_modules(name, path, known)) for name, path in known.items()}
    for name, other in DOORS:
        assert other in graph[name], f"{name} does not open the door to {other} any more"
        graph[name].discard(other)
    assert not circles(graph)


def test_guard_finds_a_circle():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == {"b": {"c"}, "c": {"b"}}


def functions(path):
    """Every function in a file, with its number of lines without the docstring."""
    for node in ast.walk(parsed(ROOT / path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            doc = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) is not None else 0
            yield node.name, node.end_lineno - node.lineno + 1 - doc


@each("path", FILES, size=1000)
def test_file_imports_only_what_lies_below_it(path):
    wrong = [f"{other}, line {line}" for other, line in imported_from_above(path) if (path.as_posix(), other) not in UPWARDS]
    assert not wrong


def test_imports_that_go_up_are_still_needed():
    found = {(path.as_posix(), other) for path in FILES for other, _ in imported_from_above(path)}
    assert set(UPWARDS) <= found, "delete what is not needed any more"


def test_every_part_has_its_layer():
    parts = {own(path) for path in FILES} - {"__init__", "__main__"}
    assert parts <= set(RANK), f"put into LAYERS: {sorted(parts - set(RANK))}"


@each("path", FILES, size=1000)
def test_foreign_packages_are_imported_only_where_they_are_needed(path):
    for name, line in imports(path):
        allowed = FOREIGN.get(name.split(".")[0])
        inside = "/".join(path.parts[1:])
        assert allowed is None or path.parts[1] in allowed or inside in allowed, f"{path}:{line} must not import {name}"


def test_optional_packages_are_not_imported_together_with_mdf_loop():
    code = (
        "import modeci_mdf.execution_engine, sys; before = set(sys.modules); import mdf_loop; print(*set(sys.modules) - before)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    tops = {name.split(".")[0] for name in loaded}
    assert not tops & {
        "numba",
        "llvmlite",
        "scipy",
        "xarray",
        "zarr",
        "h5netcdf",
        "dask",
        "distributed",
        "typer",
        "rich",
        "openvino",
        "defusedxml",
        "onnxscript",
        "torch",
        "pandas",
        "matplotlib",
        "panel",
        "sphinx",
    }


@each("path", FILES + TESTS, size=1000)
def test_no_file_is_longer_than_450_lines(path):
    assert len((ROOT / path).read_text().splitlines()) <= 450


FILES_OF_ONE_NAME = {
    "batching.py": "mdf_loop.batching is what users import; ops/batching.py has the rules",
    "records.py": "the records of the IR, and those of the Step",
}
"""File names that are in two folders, and why."""

CLASSES_OF_ONE_NAME = {"Value": "values of a Step, and values of expressions while they are read"}


def test_a_folder_has_at_most_20_files():
    count = Counter(path.parent.as_posix() for path in FILES + TESTS if "fuzz" not in path.parts)
    assert not {folder: files for folder, files in count.items() if files > 20}, "join two files, or make a folder of some"


def test_no_file_name_stands_in_two_folders():
    count = Counter(path.name for path in FILES if path.name != "__init__.py")
    assert {name for name, files in count.items() if files > 1} == set(FILES_OF_ONE_NAME), "give one of them another name"


def test_no_two_classes_have_one_name():
    trees = (parsed(ROOT / path) for path in FILES)
    count = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name for name, classes in count.items() if classes > 1} == set(CLASSES_OF_ONE_NAME), "give one another name"


@each("path", FILES, size=1000)
def test_no_function_is_longer_than_40_lines(path):
    too_long = {name: lines for name, lines in functions(path) if lines > 40}
    assert not too_long, "make two functions of it"


@each("path", FILES, size=1000)
def test_every_module_says_what_it_is(path):
    assert ast.get_docstring(parsed(ROOT / path)), f"{path} has no docstring"


def calls(path):
    """Names of the functions a file calls by their plain name."""
    for node in ast.walk(parsed(ROOT / path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id, node.lineno


@each("path", [path for path in FILES if own(path) not in ("cli",)], size=1000)
def test_nothing_but_the_command_line_prints(path):
    assert not [line for name, line in calls(path) if name == "print"]


MAY_EXECUTE = {Path("mdf_loop/backends/python/source.py")}
"""Where source that we made ourselves is turned into functions; see the files."""


@each("path", FILES, size=1000)
def test_no_text_is_evaluated_or_executed(path):
    found = [f"{name}, line {line}" for name, line in calls(path) if name in ("eval", "exec", "compile", "__import__")]
    assert not found or path in MAY_EXECUTE


def public():
    """Every name in ``__all__`` that can be called, and the public methods of classes among them."""
    for name in mdf_loop.__all__:
        value = getattr(mdf_loop, name)
        if not inspect.ismodule(value):
            yield name, value
    for name in ("prepare", "run_model", "run_node", "supports_device"):
        yield f"backend.{name}", getattr(mdf_loop.backend, name)


def test_all_names_everything_public_in_order():
    assert list(mdf_loop.__all__) == sorted(mdf_loop.__all__)
    assert all(hasattr(mdf_loop, name) for name in mdf_loop.__all__)
    assert mdf_loop.__version__


@pytest.mark.parametrize(("name", "value"), list(public()), ids=[name for name, _ in public()])
def test_public_name_has_a_docstring_with_the_sections_it_needs(name, value):
    doc = inspect.getdoc(value)
    assert doc, f"{name} has no docstring"
    if inspect.isclass(value):
        return
    sections = set(re.findall(r"^(\w+)\n-{3,}$", doc, flags=re.MULTILINE))
    parameters = [p for p in inspect.signature(inspect.unwrap(value)).parameters if p not in ("cls", "self")]
    if parameters and not name.startswith("backend."):
        assert "Parameters" in sections, f"{name} does not document its parameters"
        described = doc.split("Parameters\n", 1)[1]
        missing = [
            p
            for p in parameters
            if not re.search(rf"\b{re.escape(p)}\b", described) and p not in ("named", "args", "inputs", "changes")
        ]
        assert not missing, f"{name} does not document {missing}"
    if "raise " in inspect.getsource(inspect.unwrap(value)) and not name.startswith("backend."):
        assert "Raises" in sections, f"{name} does not say what it raises"
    if not name.startswith("backend."):
        assert "Examples" in sections or name == "unregister" or not parameters, f"{name} shows no example"


@each("path", FILES, size=1000)
def test_no_abbreviated_or_empty_names(path):
    words = re.compile(r"(Manager|Handler|Helper|Util|Impl|Base)$")
    for node in ast.walk(parsed(ROOT / path)):
        if isinstance(node, ast.ClassDef):
            assert not words.search(node.name), f"{path}:{node.lineno} {node.name}"
    assert path.stem not in ("utils", "util", "helpers", "helper", "common", "core", "base", "misc")


def test_guard_finds_what_it_is_there_to_find(tmp_path):
    wrong = Path("mdf_loop") / "readers" / "wrong.py"
    (tmp_path / wrong).parent.mkdir(parents=True)
    lines = [
        "from mdf_loop.calls.calling import loop",
        "from ..execute import interpret",
        "import mdf_loop.backend",
        "from .. import calls",
    ]
    (tmp_path / wrong).write_text(
        "\n".join([*lines, "from mdf_loop import ir, errors", "def f():", "    from mdf_loop import cli"])
    )
    assert list(imported_from_above(wrong, tmp_path)) == [("calls", 1), ("execute", 2), ("backend", 3), ("calls", 4), ("cli", 7)]


NAMES_OPERATORS = {
    "kernels": "what operators are",
    "ml": "what operators are",
    "openvino": "from names in files to records",
    "ops/rooms.py": "which operators a room has",
    "readers": "from names in files to records",
    "writers": "from records to names in files",
    "convert": "from names to names",
    "pictures": "names are drawn",
    "ops/registry.py": "versions in which exporters write an operator",
    "calls/control_flow.py": "puts control flow into the table",
    "calls/prepared.py": "the two functions of the interface that run loops are called so as well",
    "calls/compiled.py": "the two functions of the interface that run loops are called so as well",
    "types/required.py": "how values of typed bodies go into the branches of an If and out of them is ONNX's",
    "backends/llvm/operators": "a table of what is printed for an operator",
    "backends/onnx": "operators of ONNX are what it prints",
    "backends/jax/drawn.py": "a table of what is drawn for an operator",
    "calls/on_device.py": "writes a node",
}
"""Where the name of an operator may stand, and why.  Everybody else asks the operator's row in the table of kernels."""


def operators_named(path, root=ROOT):
    """Names of ONNX operators that a file spells, with the line."""
    for node in ast.walk(parsed(root / path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in OPERATORS:
            yield node.value, node.lineno


def may_name_operators(path):
    """The entry of NAMES_OPERATORS that a file falls under, or None."""
    inside = "/".join(path.parts[1:])
    return next((name for name in NAMES_OPERATORS if inside == name or inside.startswith(f"{name}/")), None)


@each("path", [path for path in FILES if may_name_operators(path) is None], size=1000)
def test_what_is_known_of_an_operator_stands_on_its_row(path):
    assert not list(operators_named(path)), "say it with registry.say beside the kernel, and ask registry.facts"


def test_files_that_may_name_operators_still_do():
    needed = {entry for path in FILES if (entry := may_name_operators(path)) is not None and any(operators_named(path))}
    assert set(NAMES_OPERATORS) <= needed, "delete what is not needed any more"


def test_guard_finds_the_name_of_an_operator(tmp_path):
    (tmp_path / "wrong.py").write_text(
        'LIGHT = {"Gather"}\ndef f(node):\n    return node.op in ("Max", "max") or node.op == "If"'
    )
    assert sorted(operators_named(Path("wrong.py"), tmp_path)) == [("Gather", 1), ("If", 3), ("Max", 3)]


@each("path", [path for path in FILES if path.as_posix() != "mdf_loop/options.py"], size=1000)
def test_engines_are_known_by_what_they_do(path):
    """No module names an engine: the table in settings/engines.py says how it runs things."""
    for node in ast.walk(parsed(ROOT / path)):
        if isinstance(node, ast.keyword) and node.arg == "engine" and isinstance(node.value, ast.Constant):
            assert node.value.value == "h5netcdf", path  # xarray's
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        assert not [side for side in sides if isinstance(side, ast.Attribute) and side.attr == "engine"], path
