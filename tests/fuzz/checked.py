"""Models with something wrong in them: what ``run`` refuses ``check`` finds, and of models that run it says nothing."""

from __future__ import annotations

import copy
import json
import random
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mdf_loop
from mdf_loop.checks.model_file import check as look_at
from mdf_loop.errors import IterationLimit, LoopError, LoopTimeout

from . import grammar
from .target import Failure, Settings, Target

NAMES = ["v", "w", "dt", "start", "gain"]
VALUES: list[Any] = [0.1, 1.0, 2, -0.5, 0, [1.0, 2.0], [1.0, 2.0, 3.0], [[1.0, 0.0], [0.5, 2.0]], True]
CONDITIONS = ["v < gain", "v + w > -100", "v - gain", "i < 3", "v > 0 and w > 0", "(v > 0) & (w > 0)", "sum(v) < 3", "v", "True"]
TEXTS = [
    "v ^ 2",
    "v + '20 ms'",
    "v @ w",
    "v[0]",
    "v[7]",
    "sqrt(v)",
    "concatenate(v, w)",
    "vv + 1",
    "(v > 0) + w",
    "v % 0",
    "v // dt",
]
ODD: list[Any] = ["20 ms", "1e9", 1.0, 0, 1, 1.5, "true", None, [1.0, 2.0], {}, "v", [True, False], "start", -3, "gain > 1"]


def make(choose: random.Random) -> dict[str, Any]:
    """One node or two, each with a loop over equations; often with one thing or two changed."""
    nodes = {"a": _node(choose)}
    if choose.random() < 0.4:
        nodes["b"] = _node(choose)
    graph: dict[str, Any] = {"nodes": nodes}
    if "b" in nodes:
        ends = {"sender": "a", "sender_port": "v", "receiver": "b", "receiver_port": "start"}
        graph["edges"] = {"e": ends}
        nodes["b"]["input_ports"]["start"] = {}
    for _ in range(choose.choice([0, 1, 1, 2])):
        choose.choice(BREAKS)(choose, choose.choice([*nodes.values()]))
    return {"m": {"graphs": {"g": graph}}}


def _node(choose: random.Random) -> dict[str, Any]:
    v, w = (grammar.expression(choose, NAMES) for _ in "vw")
    body = {
        "carried": {"v": f"v + 0 * ({v})", "w": f"w + {choose.choice(NAMES)}"},
        "collected": {"seen": choose.choice(["v", w])},
    }
    if choose.random() < 0.6:
        body["while"] = choose.choice(CONDITIONS[:2])
    count = choose.choice([0, 1, 3, 20, 20, 5000])
    loop = {"function": "onnx::Loop", "args": {"M": count, "cond": True, "v": "start", "w": 1.0, "body": "body"}}
    constants = {name: {"value": choose.choice(VALUES[:2])} for name in ("dt", "gain")}
    return {
        "input_ports": {"start": {"default_value": choose.choice([0.0, 1.5])}},
        "parameters": {**constants, "body": {"value": body}, "run": loop},
        "output_ports": {"v": {"value": "run[0]"}, "seen": {"value": "run[2]"}, "after": {"value": "run[0] * gain + 0 * dt"}},
    }


def _value(choose: random.Random, node: Any) -> None:
    node["parameters"][choose.choice(["dt", "gain"])] = {"value": choose.choice(VALUES + ODD)}


def _default(choose: random.Random, node: Any) -> None:
    node["input_ports"]["start"] = choose.choice([{}, {"default_value": choose.choice(VALUES + ODD)}, {"shape": [2]}])


def _argument(choose: random.Random, node: Any) -> None:
    node["parameters"]["run"]["args"][choose.choice(["M", "cond", "v", "w"])] = choose.choice(ODD + VALUES)


def _condition(choose: random.Random, node: Any) -> None:
    node["parameters"]["body"]["value"]["while"] = choose.choice(CONDITIONS)


def _equation(choose: random.Random, node: Any) -> None:
    key, name = choose.choice([("carried", "v"), ("carried", "w"), ("collected", "seen")])
    node["parameters"]["body"]["value"][key][name] = choose.choice(TEXTS)


def _output(choose: random.Random, node: Any) -> None:
    text = choose.choice(["run[3]", "run[0] + run[2]", "run[1][0]", "rum", "gain ^ 2", "gain + 'x'", "run[2][5]", "dt * gain"])
    if choose.random() < 0.5:  # in a parameter that is read: what nothing reads is not computed
        node["parameters"]["late"] = {"value": text}
        text = "late"
    node["output_ports"]["after"] = {"value": text}


BREAKS: list[Callable[[random.Random, Any], None]] = [_value, _default, _argument, _condition, _equation, _output]


def run_of(path: Path) -> LoopError | None:
    """The error that a run ends with, if it does."""
    try:
        with mdf_loop.options(engine="interpret", timeout=20, max_iterations=100_000, seed=1):
            mdf_loop.run(path)
    except LoopError as error:
        return error
    return None


def check(case: dict[str, Any], settings: Settings) -> None:
    """Compare what ``run`` and ``check`` say."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "m.json"
        path.write_text(json.dumps(case, indent=1))
        error, found = run_of(path), look_at(path)
    wrong = [problem.message for problem in found if problem.kind == "error"]
    if error is None and wrong:
        raise Failure("check blames a model that runs", "; ".join(wrong))
    told = [problem for problem in found if "nothing reads it" not in problem.message]
    if error is not None and not told and not isinstance(error, IterationLimit | LoopTimeout) and _is_early(error):
        raise Failure("run refuses what check does not find", f"{type(error).__name__}: {error}")


def _is_early(error: LoopError) -> bool:
    """Whether it came up before a loop was cut short, or is about kinds and not numbers."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, TypeError):
            return True
        cause = cause.__cause__
    return (getattr(error, "iteration", None) or 0) < 1000 and "5000 iterations" not in str(error)


def script(case: dict[str, Any]) -> str:
    """The model, run and checked."""
    return f'''"""What run and check say of a model."""
import json
from pathlib import Path

import mdf_loop
from mdf_loop.checks.model_file import check

Path("m.json").write_text(json.dumps({case!r}, indent=1))
print(*check(Path("m.json")), sep="\\n")
print(mdf_loop.run("m.json"))
'''


def smaller(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """With one node, or with less in a node."""
    nodes = case["m"]["graphs"]["g"]["nodes"]
    for name in [*nodes] if len(nodes) > 1 else []:
        less = copy.deepcopy(case)
        graph = less["m"]["graphs"]["g"]
        graph.pop("edges", None)
        del graph["nodes"][name]
        yield less
    for name, node in nodes.items():
        for kind in ("parameters", "output_ports"):
            for key in node[kind]:
                less = copy.deepcopy(case)
                del less["m"]["graphs"]["g"]["nodes"][name][kind][key]
                yield less


TARGET = Target(
    "checked", "models with something wrong, by run and by check", make, check, script, smaller, in_tests=25, seconds=60
)
