"""What is known of a primitive stands on its row: a back end says how it is spelt, a definition which ones an operator is."""

import ast
import builtins
from pathlib import Path

from in_groups import each

from mdf_loop.step.primitives import PRIMITIVES

ROOT = Path(__file__).parent.parent
ROOMS = {"step", "backends", "kernels"}
"""Folders in which primitives are named."""

FILES = sorted(path.relative_to(ROOT) for path in (ROOT / "mdf_loop").rglob("*.py"))


def primitives_listed(path, root=ROOT):
    """Constants of a file that list three primitives or more, other than Python's functions of such names."""
    names = {name for name in PRIMITIVES if name.isidentifier() and not hasattr(builtins, name)}
    for statement in ast.parse((root / path).read_text()).body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            texts = [x.value for x in ast.walk(statement.value) if isinstance(x, ast.Constant) and isinstance(x.value, str)]
            if len(names.intersection(" ".join(texts).split())) >= 3:
                yield statement.lineno


@each("path", [path for path in FILES if path.parts[1] not in ROOMS], size=1000)
def test_no_other_room_lists_primitives(path):
    assert not list(primitives_listed(path)), "a fact about primitives is a field of step.primitives.Primitive"


def test_guard_finds_a_list_of_primitives(tmp_path):
    text = 'EXACT = {"add", "sub"}\nBUILTINS = "abs max min pow"\nCHEAP: set = {"add", "neg", "sqrt"}'
    (tmp_path / "wrong.py").write_text(text)
    assert list(primitives_listed(Path("wrong.py"), tmp_path)) == [3]


@each("name", PRIMITIVES, size=1000)
def test_what_wraps_around_may_leave_its_type(name):
    row = PRIMITIVES[name]
    assert row.leaves or not row.wraps
    assert row.cost >= 1
    assert not (row.is_question and row.leaves)
