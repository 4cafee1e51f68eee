"""The recipes of CONTRIBUTING.md do what they say, and the picture of the house is made of the code."""

import functools
import re
import sys
import textwrap
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import mdf_loop
from mdf_loop.backends.python import peepholes
from mdf_loop.backends.python.printer import program
from mdf_loop.batching import elementwise
from mdf_loop.ops.registry import kernel, lookup, routine
from mdf_loop.settings.engines import agreeing_engines
from mdf_loop.step.build import Builder, type_of_value
from mdf_loop.step.primitives import PRIMITIVES, Primitive

ROOT = Path(__file__).parents[2]


def follow(block, **names):
    """Run a block with some names at hand; gives all names."""
    space = {"np": np, "functools": functools, **names}
    exec(block, space)
    return space


@pytest.fixture
def tables():
    """What a recipe puts into the table of primitives is gone afterwards."""
    kept = dict(PRIMITIVES)
    yield
    PRIMITIVES.clear()
    PRIMITIVES.update(kept)


def blocks_of(word):
    found = re.findall(r"^ *```python\n(.*?)^ *```", (ROOT / "CONTRIBUTING.md").read_text(), re.M | re.S)
    return [textwrap.dedent(block) for block in found if word in block]


def ran(build, *values):
    """The results of a program, and its text."""
    b = Builder()
    results = build(b, *[b.param(type_of_value(x), k) for k, x in enumerate(values)])
    call, text = program(b.closed([results]))
    return call(None, *values)[0], text


def test_an_operator_is_its_kernel(tables):
    (kernel_of,) = blocks_of("leaky_relu")
    follow(kernel_of, kernel=kernel, elementwise=elementwise)
    assert lookup("LeakyRelu", 18).define is None, "the kernel alone says what it means"
    body = "b (int64 i, bool c, float[3] s) => (bool c, float[3] t) { u = LeakyRelu <alpha = 0.5> (s) t = Neg (u) }"
    found = []
    for engine in agreeing_engines():
        with mdf_loop.options(engine=engine):
            found.append(mdf_loop.loop(100, True, np.array([1, -2, 0.5], np.float32), body=body))
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0], strict=True)


def test_a_primitive(tables):
    (block,) = blocks_of("spacing")
    follow(block, PRIMITIVES=PRIMITIVES, Primitive=Primitive)
    x = np.array([-1.0, 0.0, 2.0])
    np.testing.assert_array_equal(ran(lambda b, x: b.spacing(x), x)[0], np.spacing(x), strict=True)
    assert Builder().spacing(Builder().const(np.float64(1))).attr == 2.0**-52


def test_a_peephole(monkeypatch):
    (block,) = blocks_of("Peephole(")
    row = eval(block, {"np": np, "Peephole": peepholes.Peephole})
    x = np.array([-1.0, 0.0, 2.0])
    before, text = ran(lambda b, x: b.neg(x), x)
    assert "negative(" not in text
    monkeypatch.setattr(peepholes, "PEEPHOLES", (row,))
    after, text = ran(lambda b, x: b.neg(x), x)
    assert "negative(p0)" in text
    np.testing.assert_array_equal(after, before, strict=True)


def test_a_template(monkeypatch):
    pytest.importorskip("llvmlite")
    from mdf_loop.backends.llvm.compiled_program import program as compiled
    from mdf_loop.backends.llvm.lanes import arithmetic

    monkeypatch.setattr(arithmetic, "WRITERS", dict(arithmetic.WRITERS))
    (block,) = blocks_of("@writes")
    made = follow(block, writes=arithmetic.writes)["reciprocal"]
    assert arithmetic.WRITERS["reciprocal", "f"] is made
    b, x = Builder(), np.linspace(1, 5, 9)
    region = b.closed([b.reciprocal(b.param(type_of_value(x)))])
    np.testing.assert_array_equal(compiled(region)(None, x)[0], 1 / x, strict=True)


def test_a_routine(tables):
    (block,) = blocks_of("@routine")

    class Normalizing:
        def __init__(self, shape, size):
            self.shape, self.size = shape, size

    follow(block, routine=routine, Normalizing=Normalizing)
    type = type_of_value(np.ones((1, 2, 3, 3), np.float32))
    make = lookup("LRN", 18).make_routine
    assert make([type], type, size=3)().shape == (1, 2, 3, 3)
    assert make([type], type_of_value(np.ones(3)), size=3) is None


def test_the_picture_shows_every_part_and_who_imports_it(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    pytest.importorskip("docutils")
    import house_picture

    order = house_picture.layers()
    drawn = ElementTree.fromstring(house_picture.picture())
    texts = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert sorted(texts) == sorted(name for names in order for name in names)
    assert all(element.text for element in drawn.iter("{http://www.w3.org/2000/svg}title"))
    lines = house_picture.direct(house_picture.imports(texts), order)
    assert ("backends", "step") in lines
    assert ("cli", "errors") not in lines, "it follows from others"
    assert set(house_picture.WAY) <= set(texts)
    sys.modules.pop("house_picture")
