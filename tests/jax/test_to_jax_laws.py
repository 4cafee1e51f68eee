"""The laws of JAX: what it computes is what the interpreter computes, for exported loops and all examples."""

import sys
from pathlib import Path

import numpy as np
import pytest
from jax_laws import interpreted, of_jax

import mdf_loop
from mdf_loop import backend, options
from mdf_loop.errors import UnsupportedOp

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from exported import differences, models

jax = pytest.importorskip("jax", reason='jax is not installed: pip install -e ".[jax]"')

WORKS = {work.name: work for work in models()}


pytestmark = pytest.mark.usefixtures("in_64_bits")


FIXED, MASK = "keep the elements in an array of fixed length", "compute with a mask of full length"
LISTS = f"/Loop.*: it gives or carries .*: JAX needs types and lengths that stay the same; {FIXED}"
OF_LISTS = ("deque_maximum", "label_path", "sliding_window", "sorted_insertion", "stack_machine", "undo", "growing_cache")
NOT_IN_JAX = {f"script_{name}": LISTS for name in OF_LISTS} | {
    "script_selection_sort": f"/Slice: Slice has no form in JAX: .*{MASK}",
    "jax_limited_memory_bfgs": f"node_NonZero.*: NonZero has no form in JAX: .*{MASK}",
}
"""Exported loops that have no form in JAX, for they make lists, or arrays as long as values say: the error says
which node, and what to do."""


@pytest.mark.parametrize("name", WORKS)
def test_exported_loops(name):
    work = WORKS[name]
    prepared = backend.prepare(work.model)
    given = {**prepared.body.defaults, **work.inputs}
    if name in NOT_IN_JAX:
        with pytest.raises(UnsupportedOp, match=NOT_IN_JAX[name]):
            of_jax(jax, prepared.body, given)
        return
    assert differences(tuple(of_jax(jax, prepared.body, given)), work.expected) == ""


ROWS = {"gallery/lorenz.yaml": 3000}
"""Rows of a chaotic model before the last digits of numbers decide where it goes."""

EXAMPLES = sorted(
    str(path.relative_to("examples"))
    for path in Path("examples").rglob("*.*")
    if path.suffix in (".yaml", ".onnx") or (path.suffix == ".json" and not path.with_suffix(".yaml").exists())
)
"""All models; one that stands there as YAML and as JSON once."""


@pytest.mark.parametrize("path", EXAMPLES)
def test_examples(path):
    """Values are those of a run; so are random numbers, each example draws at one place."""
    model = mdf_loop.prepare(f"examples/{path}")
    given = {
        n: np.ones([d if isinstance(d, int) else 2 for d in p.type.shape or ()], p.type.dtype or float)
        for n, p in model.inputs.items()
        if p.required
    }
    f = mdf_loop.to_jax(model, max_steps=1000)
    with options(engine="interpret", seed=7):
        want = model(**given)
    draws = {} if given else f.draws
    assert len(draws) <= 1
    noise = (
        {"noise": {name: np.random.default_rng(7).standard_normal(draw.shape) for name, draw in draws.items()}} if draws else {}
    )
    found = f(**given, **noise)
    assert {name for name in found if not name.endswith("_length")} == set(want)
    for name, expected in want.items():
        value = np.asarray(found[name])
        if f"{name}_length" in found:
            value = value[: int(found[f"{name}_length"])]
        if path in ROWS and np.ndim(expected):
            value, expected = value[: ROWS[path]], expected[: ROWS[path]]
        np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-6, err_msg=name)


def test_a_graph_of_float32_is_computed_in_it():
    work = next(work for work in WORKS.values() if all(x.dtype == np.float32 for x in work.expected))
    prepared = backend.prepare(work.model)
    found = of_jax(jax, prepared.body, {**prepared.body.defaults, **work.inputs})
    for one, other in zip(found, interpreted(prepared, work.inputs), strict=True):
        assert one.dtype == other.dtype
