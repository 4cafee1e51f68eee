"""ONNX models around random loops whose inputs have defaults, given and not: what is given counts, on every engine."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from converting import by_engine
from given_values import with_defaults
from onnx import ModelProto, TypeProto, helper

import mdf_loop
from mdf_loop import backend
from mdf_loop.types.elements import CODES

from . import bodies
from .drawing import read_names
from .loops import IMPORTS, LoopCase, smaller, value_text
from .outcome import Outcome, Same, compare, compare_values, outcome, to_the_bit, within
from .target import FAST, Failure, Settings, Target

Feed = dict[str, Any]


@dataclass
class GivenCase:
    """A loop with its calls; the inputs of the model around it that have defaults, and for each call those it leaves out."""

    loop: LoopCase
    defaults: tuple[str, ...]
    left_out: list[frozenset[str]]
    declared: bool

    @property
    def inputs(self) -> Feed:
        """What the first call gives to each input of the model, which is the default of those that have one."""
        return _feed(self.loop, 0)

    @property
    def feeds(self) -> list[Feed]:
        """What each call gives to all inputs, those that it leaves out as their defaults."""
        first, found = self.inputs, []
        for k, left_out in enumerate(self.left_out):
            feed = _feed(self.loop, k)
            found.append({name: first[name] if name in left_out else _fitting(feed[name], first[name]) for name in first})
        return found


def _feed(case: LoopCase, k: int) -> Feed:
    call, wanted = case.calls[k], read_names(case.graph)
    limits = {"M": call.count, "go on": call.cond} if case.attrs is None else {}
    types = {"M": np.int64, "go on": np.bool_}
    found = {name: np.array(value, types[name]) for name, value in limits.items() if value is not None}
    found |= {f"start {k}": value for k, value in enumerate(call.carried)}
    return found | {name: value for name, value in call.captured.items() if name in wanted}


def _fitting(value: Any, first: Any) -> Any:
    """A value that the model's input may have: of the type of the first one."""
    return value if not isinstance(first, np.ndarray) or value.dtype == first.dtype else first


def make(choose: random.Random) -> GivenCase:
    """A loop over anything, in a model some of whose inputs have defaults."""
    loop = bodies.make(choose)
    loop.calls = [replace(call, count=loop.calls[0].count and call.count, cond=loop.calls[0].cond) for call in loop.calls]
    if loop.attrs is None and choose.random() < 0.5:  # the same with another number of iterations: M may be what is left out
        loop.calls.append(replace(loop.calls[0], count=loop.calls[0].count and choose.choice(bodies.COUNTS[:8])))
    if len(loop.calls) == 1:
        loop.calls.append(loop.calls[0])
    arrays = [name for name, value in _feed(loop, 0).items() if isinstance(value, np.ndarray)]
    defaults = tuple(name for name in arrays if choose.random() < 0.6)
    left_out = [frozenset(name for name in defaults if choose.random() < 0.5) for _ in loop.calls]
    return GivenCase(loop, defaults, left_out, choose.random() < 0.7)


def plain_model(case: GivenCase) -> ModelProto:
    """The model without defaults."""
    loop, inputs = case.loop, case.inputs
    first = ["M" if "M" in inputs else "", "go on" if "go on" in inputs else ""] if loop.attrs is None else []
    carried = [name for name in inputs if name.startswith("start ")]
    outputs = [f"result {k}" for k in range(len(loop.graph.output) - (loop.attrs is None))]
    op = "Loop" if loop.attrs is None else "Scan"
    node = helper.make_node(op, [*first, *carried], outputs, body=loop.graph, **(loop.attrs or {}))
    ports = [helper.make_value_info(name, _type(value, case.declared)) for name, value in inputs.items()]
    graph = helper.make_graph([node], "g", ports, [helper.make_value_info(name, TypeProto()) for name in outputs])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*entry) for entry in IMPORTS], ir_version=10)


def _type(value: Any, declared: bool) -> TypeProto:
    if isinstance(value, list):
        item = helper.make_tensor_type_proto(CODES[value[0].dtype], None) if value else TypeProto()
        return helper.make_sequence_type_proto(item) if value else TypeProto()
    return helper.make_tensor_type_proto(CODES[value.dtype], None) if declared else TypeProto()


def model_of(case: GivenCase) -> ModelProto:
    """The model with its defaults."""
    return with_defaults(plain_model(case), {name: case.inputs[name] for name in case.defaults})


# Checking


def check(case: GivenCase, settings: Settings) -> None:
    """Every engine gives, with what is left out, what the interpreter gives of the model without defaults, given everything."""
    if not case.loop.graph.output[case.loop.attrs is None :]:
        return
    expected = _runs(plain_model(case), case.feeds, case, "interpret")
    model, feeds = model_of(case), given_feeds(case)
    for engine in ("interpret", *settings.engines):
        for found, wanted in zip(_runs(model, feeds, case, engine), expected, strict=True):
            compare(found, wanted, engine, _same(case))
    _check_converted(case, model, feeds, expected)


def _same(case: GivenCase) -> Same:
    return to_the_bit if case.loop.exact else within(lambda where, value: 0.0, 1e6)


def given_feeds(case: GivenCase) -> list[Feed]:
    """What each call gives."""
    return [
        {name: value for name, value in feed.items() if name not in left_out}
        for feed, left_out in zip(case.feeds, case.left_out, strict=True)
    ]


def _runs(model: ModelProto, feeds: list[Feed], case: GivenCase, engine: str) -> list[Outcome]:
    """One prepared model, called with one feed after the other."""
    first = outcome(lambda: backend.prepare(model), engine=engine, **case.loop.chosen)
    if first.error is not None:
        return [first] * len(feeds)
    (prepared,) = first.results
    return [outcome(lambda feed=feed: prepared.run(feed), engine=engine, **case.loop.chosen).copied() for feed in feeds]


def _check_converted(case: GivenCase, model: ModelProto, feeds: list[Feed], expected: list[Outcome]) -> None:
    """The same of the MDF model that it is converted to, where that can be."""
    if any(wanted.error is not None for wanted in expected) or not case.declared:
        return
    models = [outcome(lambda body=body: mdf_loop.convert(model, body=body)) for body in ("mdf", "onnx")]
    if any(converted.error is not None for converted in models):
        return
    mdf, texts = (converted.results[0] for converted in models)
    ways: list[tuple[Callable[[], Any], Outcome]] = [
        (lambda feed=feed: mdf_loop.run(mdf, **feed).values(), wanted) for feed, wanted in zip(feeds, expected, strict=True)
    ]
    ways.append((lambda: mdf_loop.run(texts, **feeds[0]).values(), expected[0]))
    ways.append((lambda: by_engine(mdf, feeds[0]), expected[0]))
    for run, wanted in ways:
        found = outcome(lambda run=run: tuple(run()), **case.loop.chosen)
        if found.error is not None:
            raise Failure("converted: an error", f"{found.error!r}")
        for a, e in zip(found.results, wanted.results, strict=True):
            if (
                isinstance(e, np.ndarray) and e.size
            ):  # of no iteration the MDF model may know the type, where ONNX's leaves it open
                compare_values(np.asarray(a), e, "converted: result", "one", _same(case))


# Smaller, and as a script


def fewer(case: GivenCase) -> Iterator[GivenCase]:
    """Fewer defaults, and less in the loop."""
    for name in case.defaults:
        kept = tuple(other for other in case.defaults if other != name)
        yield replace(case, defaults=kept, left_out=[names - {name} for names in case.left_out])
    for loop in smaller(case.loop):
        if len(loop.calls) == len(case.loop.calls):
            there = _feed(loop, 0).keys()
            kept = tuple(name for name in case.defaults if name in there)
            yield replace(case, loop=loop, defaults=kept, left_out=[names & {*kept} for names in case.left_out])
        for k in range(len(case.left_out)):
            if loop.calls == case.loop.calls[:k] + case.loop.calls[k + 1 :]:
                yield replace(case, loop=loop, left_out=case.left_out[:k] + case.left_out[k + 1 :])


SCRIPT = '''"""A model with defaults that are used though a value is given."""
import sys

import ml_dtypes
import numpy as np
from onnx import ModelProto

import mdf_loop

array = np.array
plain, model = (ModelProto.FromString(bytes.fromhex(text)) for text in ("{plain}", "{model}"))
feeds = [
{feeds}
]


def run(model, engine, feeds):
    found, prepared = [], mdf_loop.backend.prepare(model)
    with mdf_loop.options(engine=engine, seed=7{chosen}):
        for feed in feeds:
            try:
                found.append(prepared.run(feed))
            except mdf_loop.LoopError as error:
                found.append(repr(error))
    return found


expected = run(plain, "interpret", [everything for everything, _ in feeds])
print("interpret:", *map(repr, expected), sep="\\n  ")
different = False
for engine in ("interpret", *{engines!r}):
    actual = run(model, engine, [given for _, given in feeds])
    print(engine + ":", *map(repr, actual), sep="\\n  ")
    different |= repr(actual) != repr(expected)
sys.exit(different)
'''


def script(case: GivenCase) -> str:
    """A script that runs the model with and without its defaults."""

    def text(feed: Mapping[str, Any]) -> str:
        return f"{{{', '.join(f'{name!r}: {value_text(value)}' for name, value in feed.items())}}}"

    feeds = "\n".join(f"    ({text(a)}, {text(b)})," for a, b in zip(case.feeds, given_feeds(case), strict=True))
    chosen = "".join(f", {name}={value!r}" for name, value in case.loop.chosen.items())
    plain, model = (made.SerializeToString().hex() for made in (plain_model(case), model_of(case)))
    return SCRIPT.format(plain=plain, model=model, feeds=feeds, chosen=chosen, engines=FAST)


TARGET = Target(
    "given",
    "models whose inputs have defaults, given and left out",
    make,
    check,
    script,
    fewer,
    in_tests=25,
)
