"""Random small loop bodies: drawn by hypothesis, written as ONNX, and run by a literal Python loop over numpy.

Every operator here is exact (no sum over an axis, which onnxruntime computes in floats even for int64, and no
transcendental function), so that results can be compared bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from onnx import GraphProto, helper

FLOAT, INT, BOOL = np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.bool_)
CODES = {FLOAT: 1, INT: 7, BOOL: 9}
SHAPES = [(), (3,), (2, 3), (1, 2, 3)]
NUMBERS = (FLOAT, INT)


@dataclass(frozen=True)
class Value:
    """A value of a program: its name and type."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]


@dataclass
class Step:
    """One operation; ``programs`` are the bodies of a Loop or the branches of an If."""

    op: str
    inputs: list[str]
    output: Value
    attrs: dict[str, Any] = field(default_factory=dict)
    programs: list[Program] = field(default_factory=list)


@dataclass
class Program:
    """A graph: its inputs, steps and outputs, all by value."""

    name: str
    inputs: list[Value]
    steps: list[Step]
    outputs: list[Value]


@dataclass
class Case:
    """A loop with everything it is given."""

    body: Program
    n_carried: int
    trip_count: int | None
    cond: bool | None
    carried: list[np.ndarray]
    captured: dict[str, np.ndarray]


UNARY = {"Neg": (np.negative, NUMBERS), "Abs": (np.absolute, NUMBERS), "Not": (np.logical_not, (BOOL,))}
UNARY |= {"Identity": (lambda x: x, (FLOAT, INT, BOOL)), "Transpose": (np.transpose, (FLOAT, INT, BOOL))}
BINARY = {"Add": (np.add, NUMBERS), "Sub": (np.subtract, NUMBERS), "Mul": (np.multiply, NUMBERS)}
BINARY |= {"And": (np.logical_and, (BOOL,)), "Xor": (np.logical_xor, (BOOL,))}
COMPARISON = {"Less": np.less, "Greater": np.greater, "Equal": np.equal}
OPERATORS = [*UNARY, *BINARY, *COMPARISON, "Cast", "Where", "ReduceMax"]


class Names:
    """Names that were not given before."""

    def __init__(self) -> None:
        self.count = 0

    def new(self) -> str:
        self.count += 1
        return f"v{self.count}"


# Drawing


@st.composite
def cases(draw: Any) -> Case:
    """A loop: carried and collected values of several types and ranks, captures, a condition, nested control flow."""
    names = Names()
    captures = [draw(values(names)) for _ in range(draw(st.integers(0, 2)))]
    body, n_carried = draw(loop_bodies(names, captures, 1))
    cond = draw(st.sampled_from([True] * 7 + [None] * 3 + [False]))
    ends = body.outputs[0].name.startswith("end")  # the condition turns false by itself
    counts = st.sampled_from([-1, 0, 1, 2, 2, 3, 3, 4, 5, 6])
    trip_count = draw(st.none() | counts if ends and cond is not None else counts)
    given = [draw(arrays(value)) for value in body.inputs[2 : 2 + n_carried]]
    return Case(body, n_carried, trip_count, cond, given, {value.name: draw(arrays(value)) for value in captures})


@st.composite
def values(draw: Any, names: Names, dtypes: Sequence[np.dtype] = (FLOAT, INT, BOOL)) -> Value:
    """A value of any type."""
    return Value(names.new(), draw(st.sampled_from(dtypes)), draw(st.sampled_from(SHAPES)))


@st.composite
def arrays(draw: Any, value: Value) -> np.ndarray:
    """Contents for a value: small numbers, and now and then a large one or none."""
    elements = {
        FLOAT: st.integers(-8, 8).map(lambda n: n / 4) | st.sampled_from([np.inf, np.nan, 1e30, -0.0]),
        INT: st.integers(-5, 5) | st.sampled_from([2**62, -(2**63)]),
        BOOL: st.booleans(),
    }[value.dtype]
    size = int(np.prod(value.shape))
    return np.array(draw(st.lists(elements, min_size=size, max_size=size)), value.dtype).reshape(value.shape)


@st.composite
def loop_bodies(draw: Any, names: Names, outer: list[Value], depth: int) -> tuple[Program, int]:
    """The body of a Loop and how many values it carries; an inner one carries what there is outside."""
    kinds = st.sampled_from([(v.dtype, v.shape) for v in outer]).map(lambda kind: Value(names.new(), *kind))
    carried = [draw(kinds if depth > 1 else values(names)) for _ in range(draw(st.sampled_from([0, 1, 1, 2, 2, 3])))]
    inputs = [Value(names.new(), INT, ()), Value(names.new(), BOOL, ()), *carried]
    scope = [*outer, *inputs]
    steps = draw(step_lists(names, scope, depth))
    condition = draw(conditions(names, scope, steps, inputs))
    round_trip = [draw(st.sampled_from([v for v in scope if (v.dtype, v.shape) == (c.dtype, c.shape)])) for c in carried]
    can_be_collected = [v for v in scope if v is not inputs[1]]
    collected = [draw(st.sampled_from(can_be_collected)) for _ in range(draw(st.sampled_from([0, 1, 1, 2, 3])))]
    return Program(f"body_{depth}", inputs, steps, [condition, *round_trip, *collected]), len(carried)


@st.composite
def conditions(draw: Any, names: Names, scope: list[Value], steps: list[Step], inputs: list[Value]) -> Value:
    """A condition: the one that came in, a comparison with the iteration number, or anything boolean."""
    kind = draw(st.sampled_from(["same", "end", "any"]))
    if kind == "end":
        limit, end = Value(names.new(), INT, ()), Value(f"end_{names.new()}", BOOL, ())
        steps.append(Step("Constant", [], limit, {"value_int": draw(st.integers(-1, 5))}))
        steps.append(Step("Less", [inputs[0].name, limit.name], end))
        return end
    scalars = [v for v in scope if v.dtype == BOOL and v.shape == ()]
    return draw(st.sampled_from(scalars)) if kind == "any" else inputs[1]


@st.composite
def step_lists(draw: Any, names: Names, scope: list[Value], depth: int) -> list[Step]:
    """Steps over what is in scope; their outputs come into scope."""
    steps = []
    for _ in range(draw(st.integers(0, 6))):
        nested = depth < 3 and draw(st.sampled_from([False] * 4 + [True]))
        step = draw(nested_steps(names, scope, depth) if nested else simple_steps(names, scope))
        if step is not None:
            steps.append(step)
            scope.append(step.output)
    return steps


@st.composite
def simple_steps(draw: Any, names: Names, scope: list[Value]) -> Step | None:
    """One operator over values in scope, or None if they do not fit it."""
    op = draw(st.sampled_from(OPERATORS))
    if op == "Where":
        flags = [v for v in scope if v.dtype == BOOL]
        chosen = [draw(st.sampled_from(flags)), *draw(pairs(scope, NUMBERS))]
    elif op in UNARY or op in ("Cast", "ReduceMax"):
        dtypes = UNARY[op][1] if op in UNARY else (INT, BOOL) if op == "Cast" else (INT,)
        chosen = [draw(st.sampled_from([v for v in scope if v.dtype in dtypes] or scope[:1]))]
        if chosen[0].dtype not in dtypes:
            return None
    else:
        chosen = draw(pairs(scope, BINARY[op][1] if op in BINARY else NUMBERS))
    try:
        shape = np.broadcast_shapes(*[v.shape for v in chosen])
    except ValueError:
        return None
    if not chosen or len(chosen) < (3 if op == "Where" else 1):
        return None
    dtype, attrs = chosen[-1].dtype, {}
    if op in COMPARISON:
        dtype = BOOL
    elif op == "Cast":
        dtype = draw(st.sampled_from(NUMBERS))
        attrs = {"to": CODES[dtype]}
    elif op == "ReduceMax":
        shape, attrs = (), {"keepdims": 0}
    elif op == "Transpose":
        shape = shape[::-1]
    return Step(op, [v.name for v in chosen], Value(names.new(), dtype, shape), attrs)


@st.composite
def pairs(draw: Any, scope: list[Value], dtypes: Sequence[np.dtype]) -> list[Value]:
    """Two values of one type, or none."""
    possible = [v for v in scope if v.dtype in dtypes]
    if not possible:
        return []
    first = draw(st.sampled_from(possible))
    return [first, draw(st.sampled_from([v for v in possible if v.dtype == first.dtype]))]


@st.composite
def nested_steps(draw: Any, names: Names, scope: list[Value], depth: int) -> Step | None:
    """An If, or a Loop with a trip count alone, that reads the scope; one of the Loop's outputs is picked."""
    if draw(st.booleans()):
        flags = [v for v in scope if v.dtype == BOOL and v.shape == ()]
        result = Value(names.new(), *draw(st.sampled_from([(v.dtype, v.shape) for v in scope])))
        branches = []
        for name in ("then", "else"):
            inner = list(scope)
            steps = draw(step_lists(names, inner, depth + 1))
            same_type = [v for v in inner if (v.dtype, v.shape) == (result.dtype, result.shape)]
            branches.append(Program(f"{name}_{depth}", [], steps, [draw(st.sampled_from(same_type))]))
        return Step("If", [draw(st.sampled_from(flags)).name], result, programs=branches)
    body, n_carried = draw(loop_bodies(names, list(scope), depth + 1))
    start = [draw(st.sampled_from([v for v in scope if (v.dtype, v.shape) == (c.dtype, c.shape)])) for c in body.inputs[2:]]
    exact = body.outputs[0] is body.inputs[1]  # or else the number of rows may differ from time to time
    choices = range(len(body.outputs) - 1 if exact else n_carried)
    if not choices:
        return None
    count, pick = draw(st.integers(0, 3)), draw(st.sampled_from(choices))
    kind = body.outputs[1 + pick]
    result = Value(names.new(), kind.dtype, kind.shape if pick < n_carried else (count, *kind.shape))
    return Step("Loop", [v.name for v in start], result, {"count": count, "pick": pick}, [body])


# Writing


def write(program: Program, through_identity: bool = False) -> GraphProto:
    """A program as a GraphProto; onnxruntime wants outputs that are inputs or captures to go through an Identity."""
    nodes = [node for step in program.steps for node in write_step(step, through_identity)]
    names = [value.name for value in program.outputs]
    if through_identity:
        nodes += [helper.make_node("Identity", [name], [f"{program.name}_out_{k}"]) for k, name in enumerate(names)]
        names = [f"{program.name}_out_{k}" for k in range(len(names))]
    inputs = [helper.make_tensor_value_info(v.name, CODES[v.dtype], v.shape) for v in program.inputs]
    outputs = [helper.make_tensor_value_info(n, CODES[v.dtype], v.shape) for n, v in zip(names, program.outputs, strict=True)]
    return helper.make_graph(nodes, program.name, inputs, outputs)


def write_step(step: Step, through_identity: bool) -> list[Any]:
    """A step as nodes."""
    graphs = [write(program, through_identity) for program in step.programs]
    if step.op == "If":
        return [helper.make_node("If", step.inputs, [step.output.name], then_branch=graphs[0], else_branch=graphs[1])]
    if step.op == "Loop":
        count = f"count_{step.output.name}"
        constant = helper.make_node("Constant", [], [count], value_int=step.attrs["count"])
        outputs = [f"unused_{step.output.name}_{k}" for k in range(len(graphs[0].output) - 1)]
        outputs[step.attrs["pick"]] = step.output.name
        return [constant, helper.make_node("Loop", [count, "", *step.inputs], outputs, body=graphs[0])]
    return [helper.make_node(step.op, step.inputs, [step.output.name], **step.attrs)]


# Running


def run_program(program: Program, env: dict[str, Any], obey: bool) -> list[np.ndarray]:
    """The outputs of a program whose inputs and captures are in ``env``."""
    env = dict(env)
    for step in program.steps:
        env[step.output.name] = np.asarray(run_step(step, env, obey), step.output.dtype)
    return [env[value.name] for value in program.outputs]


def run_step(step: Step, env: dict[str, Any], obey: bool) -> Any:
    """One step in numpy."""
    if step.op == "If":
        return run_program(step.programs[0 if env[step.inputs[0]] else 1], env, obey)[0]
    if step.op == "Loop":
        start = [env[name] for name in step.inputs]
        return run_loop(step.programs[0], step.attrs["count"], None, start, env, obey)[step.attrs["pick"]]
    if step.op == "Constant":
        return step.attrs["value_int"]
    given = [env[name] for name in step.inputs]
    if step.op == "Cast":
        return given[0].astype(step.output.dtype)
    if step.op == "Where":
        return np.where(*given)
    if step.op == "ReduceMax":
        return np.max(given[0], initial=np.iinfo(np.int64).min)  # of no element, as the text has it
    return {**{k: f for k, (f, _) in {**UNARY, **BINARY}.items()}, **COMPARISON}[step.op](*given)


def run_loop(
    body: Program, count: int | None, cond: bool | None, carried: list[Any], env: dict[str, Any], obey: bool
) -> list[np.ndarray]:
    """The specification's C code; ``obey`` lets the body's condition end a loop whose own was omitted."""
    going, i, rows, condition = cond is not False, 0, [], np.bool_(True)
    while going and (count is None or i < count):
        names = [value.name for value in body.inputs]
        inner = {**env, **dict(zip(names, [np.int64(i), condition, *carried], strict=True))}
        condition, *results = run_program(body, inner, obey)
        going = bool(condition) if cond is not None or obey else True
        carried, row = results[: len(carried)], results[len(carried) :]
        rows.append(row)
        i += 1
    kinds = body.outputs[1 + len(carried) :]
    collected = [np.array([row[k] for row in rows], v.dtype).reshape(len(rows), *v.shape) for k, v in enumerate(kinds)]
    return [*carried, *collected]
