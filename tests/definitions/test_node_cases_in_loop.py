"""ONNX node cases of every operator as the body of a Loop: each iteration gathers its row of every tensor.

A case runs on rows that are rolled copies of its inputs where it can run on those and its results can be stacked, and
on plain copies otherwise.  What comes out must be what the case alone gives, row by row.
"""

import functools
import warnings

import numpy as np
import onnx
from engines import SETTLED
from in_groups import each
from node_cases import RANDOM, assert_same, node_cases, without_likes
from onnx import TensorProto, helper

from mdf_loop import backend, loop, options
from mdf_loop.errors import LoopError
from mdf_loop.readers import read

ROWS = 5

NAMES = without_likes(alone=False)
"""Three cases of each set of operators."""

FEWER = without_likes(1, alone=False)
"""One of each."""

FIRST_WHERE = 9
"""The version from which on there is a Where, which keeps a case in a recurrence."""

NOT_GATHERED = ("float8", "float4", "int4", "uint4", "int2", "uint2")
"""Element types that no version of Gather takes; values of these are captured, the same in each iteration."""


def rows_of(name):
    """(inputs of each iteration, results of each iteration) of a case."""
    case = node_cases()[name]
    alone = backend.prepare(case.model)
    given = case.data_sets[0][0]
    for by in (1, 0):
        rows = [[rolled(value, k * by) for value in given] for k in range(ROWS)]
        try:
            with options(seed=1):
                results = [alone.run(row) for row in rows]
        except LoopError:
            if not by:
                raise
            continue
        if not by or all(can_be_stacked(column) for column in zip(*results, strict=True)):
            return rows, results
    raise AssertionError("copies of the inputs can always be run")


def rolled(value, by):
    return np.roll(value, by) if is_gathered(value) else value


def is_gathered(value):
    return isinstance(value, np.ndarray | np.generic) and not value.dtype.name.startswith(NOT_GATHERED)


def can_be_stacked(column):
    """Tensors of one shape and type; what cannot be collected at all is carried."""
    return not isinstance(column[0], np.ndarray) or len({(v.shape, v.dtype) for v in column}) == 1


def gathered_names(case, row):
    """The inputs of a case that each iteration gathers a row of."""
    return [value.name for value, given in zip(case.model.graph.input, row, strict=True) if is_gathered(given)]


def looped(case, rows, results, goes_round):
    """A model whose graph is the body: gathers, the case's nodes, its tensors collected and what else there is carried.

    With ``goes_round`` the first input is carried, and replaced by a row of its own in each iteration: a recurrence.
    """
    graph, tensors = case.model.graph, gathered_names(case, rows[0])
    nodes = [helper.make_node("Identity", ["go_"], ["go_out_"])]
    nodes += [helper.make_node("Gather", [f"{name}_rows_", "i_"], [name]) for name in tensors[goes_round:]]
    inputs = [
        helper.make_tensor_value_info("i_", TensorProto.INT64, []),
        helper.make_tensor_value_info("go_", TensorProto.BOOL, []),
    ]
    outputs = ["go_out_"]
    if goes_round:
        inputs.append(next(value for value in graph.input if value.name == tensors[0]))
        nodes.append(helper.make_node("Constant", [], ["one_"], value_int=1))
        nodes.append(helper.make_node("Add", ["i_", "one_"], ["i_next_"]))
        nodes.append(helper.make_node("Gather", [f"{tensors[0]}_rows_", "i_next_"], ["row_"]))
        nodes.append(helper.make_node("Where", ["stays_", tensors[0], "row_"], ["next_"]))
        outputs.append("next_")
    others = [value.name for value, result in zip(graph.output, results[0], strict=True) if not isinstance(result, np.ndarray)]
    inputs += [helper.make_value_info(f"{name}_before_", onnx.TypeProto()) for name in others]
    outputs += [*others, *[value.name for value in graph.output if value.name not in others]]
    told = [helper.make_value_info(name, onnx.TypeProto()) for name in outputs]
    body = helper.make_graph([*nodes, *graph.node], "body", inputs, told)
    imports = list(case.model.opset_import)
    if all(entry.domain for entry in imports):
        imports.append(helper.make_opsetid("", 20))
    model = helper.make_model(body, opset_imports=imports, ir_version=case.model.ir_version, functions=case.model.functions)
    return model, others


def captured_rows(case, rows, extra):
    """The inputs of a case as captures: tensors stacked (and ``extra`` more of the last row), other values as they are."""
    captured = {}
    for value, column in zip(case.model.graph.input, zip(*rows, strict=True), strict=True):
        if is_gathered(column[0]):
            captured[f"{value.name}_rows_"] = np.stack([*column, *[column[-1]] * extra])
        else:
            captured[value.name] = column[0]
    return captured


def run_looped(name, engine, goes_round=False):
    """What a Loop over a case gives, by output, and which of that was carried."""
    case, (rows, results) = node_cases()[name], cached_rows(name)
    model, others = looped(case, rows, results, goes_round)
    captured = captured_rows(case, rows, goes_round)
    state = []
    if goes_round:
        first = gathered_names(case, rows[0])[0]
        state, captured["stays_"] = [captured[f"{first}_rows_"][0, ...]], np.array(False)
    names = [value.name for value in case.model.graph.output]
    state += [results[0][names.index(other)] for other in others]
    with options(engine=engine, seed=1), warnings.catch_warnings():
        warnings.simplefilter("error")
        wanted = {name: captured[name] for name in read(model).captures}
        given = loop(ROWS, True, *state, body=model, **wanted)
    given = list(given if isinstance(given, tuple) else (given,))[goes_round:]
    return dict(zip([*others, *[n for n in names if n not in others]], given, strict=True)), others


@functools.cache
def cached_rows(name):
    return rows_of(name)


def assert_rows(name, actual, others):
    """Each row of what was collected, and the last of what was carried, is what the case alone gives."""
    case, (_, results) = node_cases()[name], cached_rows(name)
    for k, value in enumerate(case.model.graph.output):
        wanted = [row[k] for row in results]
        if value.name in others:
            assert_same(actual[value.name], wanted[-1], case.rtol, case.atol, value.name)
            continue
        assert len(actual[value.name]) == ROWS
        for i, row in enumerate(wanted):
            given = np.asarray(actual[value.name][i, ...])
            if name in RANDOM:
                assert (given.shape, given.dtype) == (row.shape, row.dtype)
            else:
                assert_same(given, row, case.rtol, case.atol, f"{value.name}, iteration {i}")


@each("name", NAMES)
def test_case_in_a_loop_gives_what_it_gives_alone(name):
    for engine in SETTLED:
        assert_rows(name, *run_looped(name, engine))


def can_go_round(name):
    """Whether a case has an input that Where takes, which first has it in version 9."""
    case = node_cases()[name]
    version = next((entry.version for entry in case.model.opset_import if not entry.domain), 20)
    return version >= FIRST_WHERE and any(is_gathered(value) for value in case.data_sets[0][0])


@each("name", [name for name in FEWER if can_go_round(name)])
def test_case_in_a_recurrence_gives_what_it_gives_alone(name):
    for engine in SETTLED:
        assert_rows(name, *run_looped(name, engine, goes_round=True))
