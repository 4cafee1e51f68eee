"""What is known of a primitive is on its row: a back end says how it is spelt, a definition which ones an operator is."""

import ast
import builtins
import contextlib
import keyword
from pathlib import Path

import numpy as np
from definitions import assert_same, every_pair, numbers_of
from in_groups import each

from mdf_loop.backends.python import numbers
from mdf_loop.backends.python.printer import program
from mdf_loop.kernels import load_kernels
from mdf_loop.ops.registry import KERNELS
from mdf_loop.step.build import Builder
from mdf_loop.step.failing import FallBack
from mdf_loop.step.primitives import PRIMITIVES
from mdf_loop.step.records import Type

ROOT = Path(__file__).parents[2]
ROOMS = {"step", "backends", "kernels"}
"""Folders in which primitives are named."""

FILES = sorted(path.relative_to(ROOT) for path in (ROOT / "mdf_loop").rglob("*.py"))


PRIMITIVE_NAMES = {name for name in PRIMITIVES if name.isidentifier() and not hasattr(builtins, name)}


def listed(path, names, root=ROOT):
    """Constants of a file that list three of some names or more."""
    for statement in ast.parse((root / path).read_text()).body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            texts = [x.value for x in ast.walk(statement.value) if isinstance(x, ast.Constant) and isinstance(x.value, str)]
            if len(names.intersection(" ".join(texts).split())) >= 3:
                yield statement.lineno


WORDS_OF_OTHERS = Path("mdf_loop/readers/expressions/other_notations.py")
"""Functions of MATLAB, R and others beside what they are called here, some of which are called as primitives are."""


@each("path", [path for path in FILES if path.parts[1] not in ROOMS and path != WORDS_OF_OTHERS], size=1000)
def test_no_other_room_lists_primitives(path):
    assert not list(listed(path, PRIMITIVE_NAMES)), "a fact about primitives is a field of step.primitives.Primitive"


def test_guard_finds_a_list_of_primitives(tmp_path):
    text = 'EXACT = {"add", "sub"}\nBUILTINS = "abs max min pow"\nCHEAP: set = {"add", "neg", "sqrt"}'
    (tmp_path / "wrong.py").write_text(text)
    assert list(listed(Path("wrong.py"), PRIMITIVE_NAMES, tmp_path)) == [3]


OPERATORS_LISTED = {
    "kernels": "what they are",
    "readers": "from names in expressions to operators",
    "convert/scheduled/conditions.py": "comparisons that a condition of graph-scheduler names",
    "step/trace.py": "functions of numpy that give an array of no axes where others give a number",
}
"""Where the operators of expressions are listed, and why."""


def test_operators_of_expressions_are_listed_only_where_there_is_a_reason():
    load_kernels()
    names = {op for domain, op in KERNELS if domain == "mdf" and not keyword.iskeyword(op)} - {*PRIMITIVES}
    found = {"/".join(path.parts[1:]) for path in FILES if list(listed(path, names))}
    assert {file if file in OPERATORS_LISTED else file.split("/")[0] for file in found} == set(OPERATORS_LISTED)


@each("name", PRIMITIVES, size=1000)
def test_what_wraps_around_may_leave_its_type(name):
    row = PRIMITIVES[name]
    assert row.leaves or not row.wraps
    assert row.cost >= 1
    assert not (row.is_question and row.leaves)


SINGLE = {"f": np.dtype(np.float64), "i": np.dtype(np.int64), "b": np.dtype(np.bool_)}
"""By kind: numbers that are Python's own inside a program."""


@each("name,kind", {**numbers.TEMPLATES, **numbers.FUNCTIONS}, size=1000)
def test_a_single_number_in_python_is_numpys(name, kind):
    """The same bits, within 3 units in the last place for functions such as exp; or the program bails out."""
    row, dtype = PRIMITIVES[name], SINGLE[kind]
    count = row.ufunc.nin if row.ufunc is not None else {"erf": 1, "quotient": 2}[name]
    b = Builder()
    call, _ = program(b.closed([b.element(name, *[b.param(Type(dtype, ()), k) for k in range(count)])]))
    compared = 0
    for given in zip(*every_pair(*[numbers_of(dtype, 12, k) for k in range(count)]), strict=True):
        with np.errstate(all="ignore"), contextlib.suppress(FallBack, ArithmeticError, ValueError):
            (found,) = call(None, *given)
            assert_same(np.asarray(found), np.asarray(row.call(*given)), 0 if row.is_exact else 3)
            compared += 1
    assert compared
