"""Expressions that are not on the list, that explode, or that hide where texts can: none of them is ever evaluated.

A canary is a function that an expression would reach if Python evaluated it.
"""

from __future__ import annotations

import contextlib
import io
import random
import sys
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from modeci_mdf.mdf import Condition, ConditionSet, Function, Graph, InputPort, Model, Node, OutputPort, Parameter
from modeci_mdf.mdf import ParameterCondition as Switch

import mdf_loop
from mdf_loop.errors import LoopError

from .files import innermost
from .target import Failure, Settings, Target

CANARY = "fuzz_canary"
SONG = f"__import__('{CANARY}').sing()"
"""What only evaluation by Python can answer."""
HOSTILE = [
    SONG,
    f"(lambda: {SONG})()",
    f"[{SONG}][0]",
    f"[{SONG} for _ in (1,)][0]",
    f"x if {SONG} else x",
    f"x[{SONG}]",
    f"len(f'{{{SONG}}}')",
    f"numpy.array([{SONG}])",
    f'eval("{SONG}")',
    f"numpy.f2py.os.sys.modules['{CANARY}'].sing()",
    f"math.__loader__.load_module('{CANARY}').sing()",
    f"numpy.vectorize({SONG})",
    f"().__class__.__base__.__subclasses__() and {SONG}",
    f"numpy.sum(x, axis={SONG})",
    f"x + ({SONG})",
    f"(y := {SONG})",
    f"{{'a': {SONG}}}['a']",
    f"max(x, key=lambda v: {SONG})",
    f"__builtins__['eval'](\"{SONG}\")",
    f"numpy.load.__globals__['__builtins__']['__import__']('{CANARY}').sing()",
    f"x\n + {SONG}",
    f"'%s' % {SONG}",
    f"print({SONG})",
    f"sorted([x], key=__import__('{CANARY}').sing)",
]
EXPLODING = [
    "2**2**2**2**2**2",
    "9**9**9**9",
    "1 << 10**9",
    "(1 << 10**6) ** 10**6",
    "[0] * 10**10",
    "'a' * 10**10",
    "(1,) * 10**9",
    "numpy.zeros(10**12)",
    "numpy.ones((10**6, 10**6))",
    "numpy.arange(10**12)",
    "numpy.repeat(x, 10**12)",
    "numpy.tile(x, 10**11)",
    "numpy.eye(10**6)",
    "10**10**8",
    "math.factorial(10**7)",
    "len(range(10**30))",
    "sum(range(10**11))",
    "numpy.linspace(0, 1, 10**11)",
    "(" * 3000 + "x" + ")" * 3000,
    "-" * 5000 + "x",
    "x" + "+x" * 30000,
    "not " * 3000 + "x",
    "x" + "[0]" * 3000,
    "x < " * 500 + "x",
    "int('9' * 10**6)",
    "3 ** 3 ** 3 ** 3 ** x",
    "x ** 10 ** 10 ** 10",
    "numpy.power(10, 10**12)",
    "numpy.broadcast_to(x, (10**7, 10**7))",
    "1e308 ** 1e308",
]
PLACES = (
    "value",
    "output",
    "default_value",
    "default_initial_value",
    "time_derivative",
    "argument",
    "switch test",
    "switch value",
)
PLACES += ("condition", "list", "nested list", "dict", "function value", "weight", "shape", "id", "metadata")


@dataclass
class ExpressionCase:
    """A text, where in a model it hides, and how the model is run."""

    text: str
    place: str
    as_body: bool
    steps: int | None


def make(choose: random.Random) -> ExpressionCase:
    """A hostile or exploding text, varied, somewhere."""
    text = choose.choice(HOSTILE if choose.random() < 0.6 else EXPLODING)
    for _ in range(choose.choice([0, 0, 1, 2])):
        text = _varied(choose, text)
    return ExpressionCase(text, choose.choice(PLACES), choose.random() < 0.6, choose.choice([None, None, 2]))


def _varied(choose: random.Random, text: str) -> str:
    ways = ["({})", " {} ", "x + {}", "[{}]", "[[{}]]", "({},)", "abs({})", "numpy.add(x, {})", "{} if x else {}", "+{}", "\t{}"]
    ways += ["numpy.array([x, {}])", "x * 0 + {}", "{}\n", "({}) and x", "x or {}", "numpy.where(x > 0, {}, x)", "lambda: {}"]
    return choose.choice(ways).replace("{}", text)


def model_of(case: ExpressionCase) -> Any:
    """The model: of one node, or of one whose loop has that for a body."""
    text, place = case.text, case.place
    hidden: dict[str, Any] = {"list": [text, 1.0], "nested list": [[1.0, text]], "dict": {"a": text}}
    parameters = [Parameter(id="p", value=hidden.get(place, text if place == "value" else 1.0))]
    if place in ("default_initial_value", "time_derivative"):
        said = {"default_initial_value": 1.0, "time_derivative": "1", place: text}
        parameters.append(Parameter(id="s", **said))
    if place.startswith("switch"):
        test, value = (text, "1") if place == "switch test" else ("x > 0", text)
        parameters.append(Parameter(id="s", value="1", conditions=[Switch(id="k", test=test, value=value)]))
    functions = []
    if place == "argument":
        functions.append(Function(id="f", function="linear", args={"variable0": text, "slope": 1.0, "intercept": 0.0}))
    if place == "function value":
        functions.append(Function(id="f", value=text))
    port = InputPort(id="x", default_value=text if place == "default_value" else 1.0, shape=text if place == "shape" else None)
    read = "f" if functions else "s" if len(parameters) > 1 else "p"
    shown = text if place == "output" else f"{read}[0]" if place in ("list", "dict") else read
    conditions = None
    if place == "condition":
        conditions = ConditionSet(
            node_specific={"A": Condition("Threshold", dependency="A", parameter="p", threshold=text, comparator=">")}
        )
    node = Node(
        id="A" if place != "id" else text,
        input_ports=[port],
        parameters=parameters,
        functions=functions,
        output_ports=[OutputPort(id="y", value=shown)],
        metadata={"note": text} if place == "metadata" else None,
    )
    graph = Graph(id="g", nodes=[node], edges=[], conditions=conditions)
    return graph if not case.as_body else _loop_over(graph)


def _loop_over(body: Any) -> Any:
    body.metadata = {"inputs": ["i", "go", "x"], "outputs": ["go", "y"]}
    held = Parameter(id="body", value={"graph_g": body.to_dict()["g"] if "g" in body.to_dict() else body.to_dict()})
    run = Parameter(id="run", function="onnx::Loop", args={"M": "3", "cond": "true", "v_initial": "x", "body": "body"})
    node = Node(
        id="L",
        input_ports=[InputPort(id="x", default_value=1.0)],
        parameters=[held, run],
        output_ports=[OutputPort(id="y", value="run[0]")],
    )
    return Graph(id="outer", nodes=[node], edges=[])


def check(case: ExpressionCase, settings: Settings) -> None:
    """The canary keeps silent; a result or a LoopError comes out."""
    sung: list[bool] = []
    canary = types.ModuleType(CANARY)
    canary.sing = lambda *args: sung.append(True) or 1.0  # type: ignore[attr-defined]
    sys.modules[CANARY] = canary
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            try:
                graph = model_of(case)
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                return  # MDF's own classes refuse to hold the text
            for what, call in _calls(case, graph):
                _run(what, call, sung)
    finally:
        del sys.modules[CANARY]


def _calls(case: ExpressionCase, graph: Any) -> list[Any]:
    model = Model(id="m", graphs=[graph])
    calls = [
        ("run", lambda: mdf_loop.run(graph)),
        ("run in steps", lambda: mdf_loop.run(model, steps=case.steps or 2)),
        ("to_onnx", lambda: mdf_loop.to_onnx(model)),
    ]
    if case.as_body:
        plain = model_of(replace(case, as_body=False))
        plain.metadata = {"inputs": ["i", "go", "x"], "outputs": ["go", "y"]}
        calls.append(("loop", lambda: mdf_loop.loop(3, True, 1.0, body=plain)))
    return calls


def _run(what: str, call: Any, sung: list[bool]) -> None:
    try:
        with mdf_loop.options(max_iterations=5):
            call()
    except LoopError:
        pass
    except Exception as error:
        if sung:
            raise Failure(f"{what}: the text was evaluated") from error
        raise Failure(
            f"{what}: {type(error).__name__} escaped at {innermost(error)}", " ".join(str(error).split())[:300]
        ) from error
    if sung:
        raise Failure(f"{what}: the text was evaluated")


def smaller(case: ExpressionCase) -> Iterator[ExpressionCase]:
    """The plain texts; without steps; not in a body."""
    if case.steps:
        yield replace(case, steps=None)
    if case.as_body:
        yield replace(case, as_body=False)
    for text in [*HOSTILE[:1], *EXPLODING[:1], *HOSTILE, *EXPLODING, "x"]:
        if len(text) < len(case.text):
            yield replace(case, text=text)


def script(case: ExpressionCase) -> str:
    """A script that runs the case."""
    from .files import ROOT

    return f'''"""A text of a model that is evaluated, or explodes."""
import resource
import signal
import sys

resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
signal.alarm(60)
sys.path.insert(0, {str(ROOT)!r})
from tests.fuzz.expressions import ExpressionCase, check, model_of
from tests.fuzz.target import Settings

case = {case!r}
print(model_of(case).to_yaml())
check(case, Settings())
'''


TARGET = Target(
    "expressions",
    "texts of models that must never be evaluated, and expressions that explode",
    make,
    check,
    script,
    smaller,
    in_tests=60,
    seconds=10,
    megabytes=2048,
)
