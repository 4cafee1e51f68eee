"""Functions of JAX: what ``to_jax`` makes of random loops and of scheduled graphs gives what the interpreter gives."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import mdf_loop
from mdf_loop import backend
from mdf_loop.errors import LoopError

from . import bodies, scheduled
from .given import GivenCase, plain_model
from .loops import value_text
from .outcome import compare_values, outcome, within
from .target import Settings, Target

MOST_PASSES = 400
"""Passes of a scheduled graph, which JAX has to know where rows are collected."""

SMALLEST = 1e-30
"""What JAX takes for 0 or not: it has no numbers below the normal ones."""


@dataclass
class JaxCase:
    """A loop in a model, or a scheduled graph; whether whole numbers are traced, or histories collected."""

    case: Any
    flag: bool


def make(choose: random.Random) -> JaxCase:
    """A scheduled graph now and then, else a loop over anything."""
    if choose.random() < 0.3:
        return JaxCase(scheduled.make(choose), choose.random() < 0.5)
    loop = bodies.make(choose)
    loop.calls = loop.calls[:1]
    return JaxCase(GivenCase(loop, (), [frozenset()], True), choose.random() < 0.5)


def check(case: JaxCase, settings: Settings) -> None:
    """What JAX computes is what the interpreter computes, where there is a function at all."""
    import jax

    jax.config.update("jax_enable_x64", True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (_check_loop if isinstance(case.case, GivenCase) else _check_graph)(case)


def _check_loop(case: JaxCase) -> None:
    loop = case.case.loop
    if not loop.graph.output[loop.attrs is None :]:
        return
    model, (feed,) = plain_model(case.case), case.case.feeds
    chosen = {name: value for name, value in loop.chosen.items() if name == "obey_body_condition"}
    expected = outcome(lambda: backend.prepare(model).run(feed), engine="interpret", **chosen)
    if expected.error is not None:
        return
    found = by_jax(model, feed, case.flag, max(loop.calls[0].count or 0, 1), chosen)
    if found is None:
        return
    same = bodies._same(replace(loop, exact=False), loop.calls[0], bodies.model_of(loop), expected)
    _compare(found, dict(zip((x.name for x in model.graph.output), expected.results, strict=True)), same)


def by_jax(model: Any, feed: dict[str, Any], traced: bool, most: int, chosen: dict[str, Any]) -> dict[str, Any] | None:
    """The outputs by name, those that may end early cut to their lengths; None if there is no function."""
    import jax.numpy as jnp

    given = {name: jnp.asarray(x) if traced and is_traced(name, x) else x for name, x in feed.items()}
    found = _answer(lambda: mdf_loop.to_jax(model, max_steps=most)(**given), chosen)
    return None if found is None else _cut(found)


def is_traced(name: str, value: Any) -> bool:
    """Whether an input may be an array of JAX."""
    return name not in ("M", "go on") and isinstance(value, np.ndarray) and value.dtype != object


def _answer(call: Any, chosen: dict[str, Any] | None = None) -> Any:
    """What a call gives; None where there is no function, which has to be said in an error of ours."""
    try:
        with mdf_loop.options(**(chosen or {})):
            return call()
    except LoopError:
        return None


def _cut(found: dict[str, Any]) -> dict[str, Any]:
    arrays = {name: np.asarray(x) for name, x in found.items()}
    lengths = {name: arrays.pop(f"{name}_length") for name in list(arrays) if f"{name}_length" in arrays}
    return {name: x[: int(lengths[name])] if name in lengths else x for name, x in arrays.items()}


def _check_graph(case: JaxCase) -> None:
    graph = case.case
    how = {"steps": graph.steps} | ({} if graph.increment is None else {"time_increment": graph.increment})
    how |= {"collect": True} if case.flag else {}
    with scheduled.others_in_place(graph) as feed:
        try:
            with mdf_loop.options(engine="interpret"), warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                wanted = mdf_loop.run(graph.graph, **how, **feed)
        except LoopError:
            return
        if caught or any(np.asarray(x).dtype == object for x in wanted.values()):
            return  # it runs in MDF's engine, or a whole number is too long
        found = _answer(lambda: mdf_loop.to_jax(graph.graph, max_steps=MOST_PASSES, **how)(**feed))
    if found is not None:
        exact = {name: np.asarray(x, np.complex128) for name, x in wanted.items()}
        if any((np.abs(x) >= 2.0**63).any() for x in exact.values()):
            return  # whole numbers of JAX end there, Python's do not
        _compare(
            {name: np.asarray(x, np.complex128) for name, x in found.items()}, exact, within(lambda _, x: 1e-9 * abs(x), 200)
        )


def _compare(found: dict[str, Any], expected: dict[str, Any], same: Any) -> None:
    for name, wanted in expected.items():
        if wanted is None or not np.size(wanted):
            continue
        given = np.asarray(found[name])
        if given.dtype.kind in "fcV" and given.shape == np.shape(wanted):
            given = np.where(np.abs(np.asarray(wanted, np.complex128)) < SMALLEST, wanted, given).astype(given.dtype)
        compare_values(given, np.asarray(wanted), "jax: a value", name, same)


def smaller(case: JaxCase) -> Iterator[JaxCase]:
    """Less in the loop or in the graph."""
    if not isinstance(case.case, GivenCase):
        for graph in scheduled.smaller(case.case):
            yield replace(case, case=graph)
        return
    for loop in bodies.smaller(case.case.loop):
        if len(loop.calls) == 1:
            yield replace(case, case=replace(case.case, loop=loop))


SCRIPT = '''"""What to_jax gives is not what the interpreter gives."""
import jax
import ml_dtypes
import numpy as np
{imports}

import mdf_loop

jax.config.update("jax_enable_x64", True)
array = np.array
model = {model}
feed = {feed}
with mdf_loop.options(engine="interpret"{chosen}):
    print(dict(mdf_loop.run(model{how}, **feed)))
traced = {{name: jax.numpy.asarray(x) if name in {traced} else x for name, x in feed.items()}}
with mdf_loop.options(engine="auto"{chosen}):
    print(mdf_loop.to_jax(model, max_steps={most}{how})(**traced))
'''


def script(case: JaxCase) -> str:
    """A script that prints what the interpreter gives and what JAX gives."""
    if isinstance(case.case, GivenCase):
        (feed,), loop = case.case.feeds, case.case.loop
        return SCRIPT.format(
            imports="from onnx import ModelProto",
            model=f'ModelProto.FromString(bytes.fromhex("{plain_model(case.case).SerializeToString().hex()}"))',
            feed="{" + ", ".join(f"{name!r}: {value_text(x)}" for name, x in feed.items()) + "}",
            chosen=", obey_body_condition=True" if loop.chosen.get("obey_body_condition") else "",
            how="",
            traced=[name for name, x in feed.items() if case.flag and is_traced(name, x)],
            most=max(loop.calls[0].count or 0, 1),
        )
    graph = case.case
    how = f", steps={graph.steps}" + ("" if graph.increment is None else f", time_increment={graph.increment}")
    with scheduled.others_in_place(graph) as feed:
        return SCRIPT.format(
            imports="from modeci_mdf.mdf import Graph",
            model=f'Graph.from_yaml("""\n{graph.graph.to_yaml()}""")',
            feed=repr(feed),
            chosen="",
            how=how + (", collect=True" if case.flag else ""),
            traced=[],
            most=MOST_PASSES,
        )


TARGET = Target(
    "jax",
    "functions of JAX, of random loops and of scheduled graphs, against the interpreter",
    make,
    check,
    script,
    smaller,
    in_tests=15,
    seconds=120,
    megabytes=8192,
)
