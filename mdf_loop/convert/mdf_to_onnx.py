"""MDF models as ONNX models, which ONNX's own checker accepts."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.serialization import registry

from mdf_loop.convert.file_text import places_in
from mdf_loop.convert.loading import load, only_graph, read_content, usable
from mdf_loop.convert.named_values import Named, asked_for, freed, named_values
from mdf_loop.convert.naming import DOC_STRING, IR_VERSION, text_of, with_onnx_names
from mdf_loop.convert.weights import SUFFIXES
from mdf_loop.convert.written_models import write_checked, written_as_onnx
from mdf_loop.errors import (
    ArgumentError,
    IterationLimit,
    KindError,
    LoopError,
    MalformedBody,
    UnsupportedOp,
    warn_user,
)
from mdf_loop.ir import Body, ValueType
from mdf_loop.options import options, public, random_stream
from mdf_loop.readers import read
from mdf_loop.readers.mdf.body import dtype_of
from mdf_loop.readers.mdf.body import read_whole as read_as_it_is
from mdf_loop.readers.mdf.by_place import graph_by_place
from mdf_loop.readers.mdf.graph_objects import check_structure
from mdf_loop.readers.mdf.signature import output_ports
from mdf_loop.readers.mdf.stepped_loops import has_stepped_loops
from mdf_loop.readers.mdf.typed import OPSET, has_conditions, is_typed
from mdf_loop.settings.random_streams import RandomStream
from mdf_loop.types.schemas import LARGEST_VERSION
from mdf_loop.writers.atomic_files import replacing
from mdf_loop.writers.onnx_graph import domains_of

log = logging.getLogger(__name__)

MOST_PASSES = 100_000
"""Passes of a scheduled model up to which it is run to see whether whole numbers stay in 64 bits."""


@public
def to_onnx(
    model: Any,
    path: str | os.PathLike | None = None,
    *,
    inputs: Sequence[str] = (),
    steps: int | None = None,
    time_increment: float | None = None,
) -> onnx.ModelProto:
    """Convert an MDF model to an ONNX model that gives the same outputs.

    Parameters
    ----------
    model : modeci_mdf Model or Graph, str or path-like, or the result of :func:`mdf_loop.prepare` for an MDF model
        A model with one graph, a graph, or the path of a model file.
    path : str or path-like, optional
        Write the ONNX model to this file as well.  If ``model`` is a small MDF file too, the new file keeps it in its
        metadata, and :func:`mdf_loop.convert` gives it back.
    inputs : sequence of str
        Parameters and input ports that become inputs of the ONNX model without a default, by their ids or as ``node.id``.
        Other input ports with a default value are inputs that may be left out: an initializer of the same name has the value.
    steps : int, optional
        The number of evaluations of the model, as in :func:`mdf_loop.run`: its stateful parameters and its conditions of
        graph-scheduler become one Loop.  The default for a model with conditions is one evaluation.
    time_increment : float, optional
        The time between two steps.

    Returns
    -------
    onnx.ModelProto
        It passes ``onnx.checker`` with shape inference, except for outputs of unknown shape.

    Raises
    ------
    UnsupportedOp
        ONNX cannot express part of the model.  The message names it.
    NotLowered
        Part of a scheduled model cannot become part of a loop.  The message names it.
    MalformedBody
        The model is broken.
    ArgumentError
        A port or parameter does not exist; or ``inputs`` and ``steps`` are both given.
    FileError
        The file cannot be written.  An existing file is unchanged.

    Examples
    --------
    >>> import mdf_loop, onnx.printer
    >>> onnx_model = mdf_loop.to_onnx("examples/newton.yaml")
    >>> [node.op_type for node in onnx_model.graph.node]
    ['Loop']
    >>> scheduled = mdf_loop.to_onnx("examples/oscillator.yaml", steps=1000, time_increment=0.01)
    >>> [node.op_type for node in scheduled.graph.node]
    ['Loop']
    """
    source = _content(model) if path is not None and not inputs and steps is None and time_increment is None else None
    model = load(model) if isinstance(model, str | os.PathLike) else model
    graph = _graph(model)
    check_structure(graph)
    graph = graph_by_place(graph, read)
    if steps is None and time_increment is None and (is_typed(graph) or not (has_conditions(graph) or has_stepped_loops(graph))):
        written = write_checked(read_whole(graph, inputs), _ir_version(model))
        written.doc_string, written.graph.doc_string = text_of(model, DOC_STRING), text_of(graph, DOC_STRING)
        if source is not None and not is_typed(graph):
            keep(written, source)
    else:
        written = _scheduled(graph, steps, time_increment, inputs)
    if path is not None:
        form = registry.get_format_from_file_extension(Path(path).suffix) or "protobuf"
        with replacing(path) as file:
            file.write(registry.get(form).serialize_proto(written))
    return written


def inputs_of(model: onnx.ModelProto) -> dict[str, Any]:
    """The inputs of an ONNX model, each with its default; None for those that must be given."""
    held = {each.name: each for each in model.graph.initializer}
    named = {port.name: held.get(port.name) for port in model.graph.input}
    return {name: None if each is None else onnx.numpy_helper.to_array(each).tolist() for name, each in named.items()}


def constants_of(path: Path, inputs: Sequence[str] = ()) -> list[str]:
    """The parameters of a model file that :func:`to_onnx` writes as constants, and could write as inputs."""
    graph = _graph(load(path))
    if is_typed(graph) or has_conditions(graph):
        return []
    known = named_values(graph_by_place(graph, read))
    chosen = asked_for(known, inputs)
    return [each.name for each in known if not each.is_port and each not in chosen]


def _content(model: Any) -> Any:
    """What the file of an MDF model says; None for what is no such file."""
    is_file = isinstance(model, str | os.PathLike) and Path(model).suffix.lower() in SUFFIXES
    return read_content(Path(model)) if is_file else None


def _scheduled(graph: Any, steps: int | None, time_increment: float | None, inputs: Sequence[str]) -> onnx.ModelProto:
    """A graph under graph-scheduler as a model of its first passes and one Loop."""
    from mdf_loop.backend import prepare
    from mdf_loop.convert.scheduled.loops import ScheduledLowering, Stepping, execute
    from mdf_loop.convert.scheduled.open_start import open_run

    if inputs:
        raise ArgumentError("a scheduled model becomes a loop with all its values inside; leave out inputs=")
    if steps is None and time_increment is not None:
        raise ArgumentError("time_increment without steps; steps is the number of evaluations of the model")
    lowering = ScheduledLowering(graph, Stepping(1 if steps is None else steps, time_increment))
    run = open_run(lowering)
    if not run.names:
        raise UnsupportedOp("a model without outputs has no ONNX model")
    written = write_checked(written_as_onnx(run.body, {}, run.names))
    with contextlib.suppress(IterationLimit), options(max_iterations=MOST_PASSES), random_stream(RandomStream(0)) as stream:
        nothing, expected = stream.save(), execute(lowering.lowered())
        if stream.save() is nothing:  # random numbers need not be the same
            _check_numbers(expected, prepare(written).run([]))
    return written


def _check_numbers(expected: Mapping[str, Any], written: Sequence[Any]) -> None:
    """Python's whole numbers have no end, those of ONNX have 64 bits: what leaves them is found by running both."""
    for (name, value), other in zip(expected.items(), written, strict=True):
        kinds = {np.asarray(x).dtype.kind for x in (value, other)}  # to a negative power an integer is a fraction
        if kinds & {*"biuO"} and not np.array_equal(value, other):
            raise UnsupportedOp(
                f"output {name!r} is {_told(value)} after these steps, and {other} with the 64 bits of ONNX's whole numbers; "
                "MDF makes whole numbers of floats without a fraction (3.0 is 3)"
            )


def _told(value: Any) -> str:
    """A number in words; Python refuses to write down very long ones."""
    is_long = isinstance(value, int) and value.bit_length() > 200
    return f"a whole number of {value.bit_length()} bits" if is_long else str(value)


def _graph(model: Any) -> Any:
    graph = only_graph(model, "give") if hasattr(model, "graphs") else getattr(model, "graph", model)
    if not hasattr(graph, "nodes"):
        raise KindError(f"to_onnx takes an MDF model or graph, or the path of one; got {type(model).__name__}")
    return graph


def read_whole(graph: Any, inputs: Sequence[str] = ()) -> Body:
    """The body of a whole graph, in operators of ONNX alone; ``inputs`` are values that become inputs."""
    if is_typed(graph):
        if inputs:
            raise ArgumentError("a converted model has the inputs of its ONNX model; inputs= is for other MDF models")
        if has_conditions(graph):
            raise UnsupportedOp(f"graph {graph.id!r} has conditions, which ONNX cannot express")
        return _with_opsets_said(with_onnx_names(read(graph, kind="branch"), graph), graph)
    known = named_values(graph)
    chosen = asked_for(known, inputs)
    asked = [each for each in known if each.is_port or each in chosen]
    read_as_it_is(freed(graph, chosen), read)  # Python's lists are joined by +, not added: an input does not say what it is
    try:
        found = _written(graph, asked, [each for each in known if each not in asked])
    except LoopError as reason:
        found = _written_where_possible(graph, chosen, [each for each in known if each not in chosen], reason)
    names = {each.name for each in chosen}  # which are to be given: other tools do not list inputs with an initializer
    return replace(found, defaults={name: value for name, value in found.defaults.items() if name not in names})


def _written_where_possible(graph: Any, chosen: Sequence[Named], others: Sequence[Named], reason: LoopError) -> Body:
    """The body of a graph that needs to know some of its numbers while it is written."""
    inputs, constants = list(chosen), list[Named]()
    found = _written(graph, inputs, constants)
    for each in others:
        added = inputs if each.is_port else constants
        added.append(each)
        try:
            found = _written(graph, inputs, constants)
        except LoopError as error:
            added.remove(each)
            if each.is_port:
                warn_user(f"{each.name!r} is not an input of the ONNX model, where it is always {each.value!r}: {error}")
    log.debug("graph %r: not every number keeps its name in ONNX: %s", graph.id, reason)
    return found


def _written(graph: Any, inputs: Sequence[Named], constants: Sequence[Named]) -> Body:
    """The body of a graph: ``inputs`` are inputs that may be left out, ``constants`` initializers, both with their names."""
    names = tuple(output_ports(graph))
    body = read_as_it_is(freed(graph, [*inputs, *constants]), read)
    values, inside = {each.name: each for each in (*inputs, *constants)}, {each.name for each in constants}
    offered = [each.name for each in inputs]  # whether something reads them or not
    written = written_as_onnx(body, _inputs(graph, (*offered, *body.captures), values), names, values)
    held = {name: value for name, value in written.defaults.items() if name in inside}
    return replace(
        written,
        inputs=tuple(name for name in written.inputs if name not in inside),
        defaults={name: value for name, value in written.defaults.items() if name not in inside},
        constants={**written.constants, **held},
    )


def _with_opsets_said(body: Body, graph: Any) -> Body:
    """A body without ONNX's own domain, if its graph does not say its version and no node needs it."""
    if OPSET in graph.metadata or "" in domains_of(body):
        return body
    return replace(body, opsets={domain: version for domain, version in body.opsets.items() if domain})


def _ir_version(model: Any) -> int:
    """The version of the file format that the metadata of a converted model say; 0 if they say none."""
    said = (getattr(model, "metadata", None) or {}).get(IR_VERSION)
    return said if type(said) is int and 0 < said <= LARGEST_VERSION else 0


def _inputs(graph: Any, names: Iterable[str], values: Mapping[str, Named]) -> dict[str, tuple[Any, ValueType]]:
    """A sample and the type of each value that a graph needs, from its ports: numbers in MDF are float64."""
    ports = {port.id: port for node in graph.nodes for port in node.input_ports}
    inputs = dict[str, tuple[Any, ValueType]]()
    for name in dict.fromkeys(names):
        if name in values:
            inputs[name] = values[name].sample, values[name].type
            continue
        if name not in ports:
            raise MalformedBody(f"nothing gives a value to {name!r}", (graph.id,))
        shape = ports[name].shape if usable(ports[name].shape) else ()
        declared = dtype_of(ports[name])
        dtype = np.dtype(float) if declared is None else declared
        inputs[name] = np.ones(shape, dtype), ValueType(dtype, tuple(shape))
    return inputs


SOURCE = "mdf_loop.source"
"""The key of ``metadata_props`` that has the model as JSON."""

LONGEST = 1 << 18
"""Letters of a model up to which it is kept: larger ones are weights, which the graph has."""


def keep(written: onnx.ModelProto, content: Any) -> None:
    """Keep what an MDF file says in the ONNX model that it became, if it is small, plain and needs no other files."""
    try:
        text = json.dumps(content, ensure_ascii=False)
    except (TypeError, ValueError):  # dates and such, which are YAML's alone
        return
    if len(text) <= LONGEST and next(files_in(content), None) is None:
        written.metadata_props.add(key=SOURCE, value=text)


def files_in(content: Any) -> Iterator[str]:
    """The names of other files in a model: weights, and bodies of loops."""
    for _, value in places_in(content, kinds=(dict, list)):
        if isinstance(value, dict):
            yield from (value[key] for key in ("npz", "onnx_file") if isinstance(value.get(key), str))
