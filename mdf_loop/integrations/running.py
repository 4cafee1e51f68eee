"""``run``: a model, by path or as an object, with inputs and outputs by name."""

from __future__ import annotations

import copy
import difflib
import os
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.arguments import handed_out
from mdf_loop.backend import prepare
from mdf_loop.convert.files import load
from mdf_loop.convert.lowering_schedule import output_ports
from mdf_loop.convert.restoring import input_ids, names_of
from mdf_loop.errors import ArgumentError, KindError, LoopError, malformed
from mdf_loop.integrations.ending import Places, evaluated
from mdf_loop.integrations.guarded import engine_at_work, refuse_graph
from mdf_loop.integrations.mdf import quiet_mdf, register
from mdf_loop.integrations.required import is_required_as
from mdf_loop.integrations.scheduled import run_steps
from mdf_loop.integrations.typed_graph import run_typed
from mdf_loop.options import OPTIONS, options, part_of, start_run
from mdf_loop.readers import load_onnx
from mdf_loop.readers.mdf_names import unknown_names
from mdf_loop.readers.mdf_objects import check_structure
from mdf_loop.readers.mdf_typed import has_conditions, is_typed


def run(
    model: Any,
    /,
    *,
    steps: int | None = None,
    time_increment: float | None = None,
    collect: bool = False,
    seed: int | None = None,
    **inputs: Any,
) -> dict[str, Any]:
    """Run a model and return its outputs by name.

    An MDF model runs in MDF's engine, under graph-scheduler; what that prints goes to the log.  With ``steps`` it is
    evaluated so many times, and becomes one loop if it can: what MDF's engine gives, many times faster.  An ONNX
    model runs in :mod:`mdf_loop.backend`, and so does an MDF graph that is an ONNX graph (its metadata says ``types``)
    and has no conditions.  An OpenVINO model runs in :mod:`mdf_loop.openvino`.

    Parameters
    ----------
    model : str, path-like, modeci_mdf Model or Graph, or onnx.ModelProto
        A path ends in ``.json``, ``.yaml``, ``.yml``, ``.onnx`` or ``.xml`` (OpenVINO).
    steps : int, optional
        How many times an MDF model is evaluated; what its stateful parameters and conditions make of that is what
        repeated calls of ``EvaluableGraph.evaluate`` make of it.
    time_increment : float, optional
        By how much time goes on from one step to the next, for parameters with a ``time_derivative``.  The first step
        has none: it gives the initial values, as in MDF's own examples.
    collect : bool
        Return each output's values of all steps, along a new first axis, in place of the last one.  An output whose node
        first runs in a later step is an array of objects, with None for the steps before.
    seed : int, optional
        As in :func:`mdf_loop.options`, for this run.  Other options are set there.
    **inputs : array_like
        Values by name.  For MDF the name of an input port without an edge, or of a parameter; ``node.name``
        where several nodes have one of that name, or where it is the name of an argument above.  For ONNX and
        OpenVINO the name of an input.

    Returns
    -------
    dict of str to value
        For MDF every output port that no edge reads, by its id (``node.id`` where several share one); for ONNX, OpenVINO
        and a converted model the outputs by the names they have there.

    Raises
    ------
    ArgumentError
        There is no such input; or ``time_increment`` or ``collect`` without ``steps``.
    MalformedBody, UnsupportedOp
        The file cannot be read or run; or it says something that MDF's engine would hand to Python's ``eval`` and that is
        not on the list of what expressions may say, without ``options(trusted=True)``.
    IterationError, IterationLimit, LoopTimeout, LoopInterrupted
        The model ended early: ``.outputs`` are its outputs by name as far as they are known, ``.partial`` and
        ``.iteration`` what its outermost loop had computed.  With ``steps``, ``.partial`` are the outputs and
        ``.iteration`` the passes of the scheduler that were completed, or the steps, where MDF's engine runs them.

    Examples
    --------
    >>> import mdf_loop
    >>> mdf_loop.run("examples/newton.yaml", a=9.0)["root"]
    array(3.)
    >>> mdf_loop.run("examples/oscillator.yaml", steps=1000, time_increment=0.01)["count"]
    1000
    """
    how = {"steps": steps, "time_increment": time_increment, "collect": collect or None}
    how = {name: value for name, value in how.items() if value is not None}
    seeded = {} if seed is None else {"seed": seed}
    with part_of(start_run()):  # however many loops there are: the time of a run begins here
        return handed_out(_run(model, how, seeded, inputs), as_arrays=False)


def _run(model: Any, how: dict[str, Any], seeded: dict[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """:func:`run`; ``how`` and ``seeded`` are what was said of its own arguments."""
    if isinstance(model, str | os.PathLike):
        return _run_file(Path(model), {**how, **seeded, **inputs})
    if hasattr(model, "SerializeToString") and hasattr(model, "graph"):
        return _run_onnx(model, {**how, **seeded, **inputs})  # which may have inputs of these names
    if not hasattr(model, "graphs") and not hasattr(model, "nodes"):
        raise KindError(f"run takes a path, an MDF model or graph, or an ONNX model; got {type(model).__name__}")
    if how and "steps" not in how:
        raise ArgumentError(f"{' and '.join(how)} without steps; steps is how many times the model is evaluated")
    check_structure(model)
    graph = _only_graph(model) if hasattr(model, "graphs") else model
    if not is_typed(graph):
        _refuse_nothing(inputs)
    with options(**seeded), malformed("this graph cannot be run", (graph.id,)):
        return _run_steps(graph, inputs, how) if how else run_graph(graph, inputs)


def _run_steps(graph: Any, inputs: Mapping[str, Any], how: Mapping[str, Any]) -> dict[str, Any]:
    names = names_of(graph) if is_typed(graph) else {}
    ids = {name: id for id, name in names.items()}
    given = {ids.get(name, name): value for name, value in inputs.items()}
    outputs = run_steps(with_inputs(graph, given), **how)
    return {names.get(id, id): value for id, value in outputs.items()}


def _run_file(path: Path, inputs: Mapping[str, Any]) -> dict[str, Any]:
    is_openvino = path.suffix.lower() == ".xml"
    model = path if is_openvino else _load_any(path)
    try:
        return _run_openvino(path, inputs) if is_openvino else run(model, **inputs)
    except LoopError as error:
        if os.fspath(path) not in str(error):
            error.add_note(f"in {os.fspath(path)}")
        raise


def _load_any(path: Path) -> Any:
    return load_onnx(path) if path.suffix.lower() == ".onnx" else load(path)


def _run_onnx(model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    prepared = prepare(model)
    given, seeded = _without_seed(inputs, prepared.body.inputs)
    with options(**seeded):
        return dict(zip(prepared.body.outputs, prepared.run(prepared.fit(given)), strict=True))


def _run_openvino(path: Path, inputs: Mapping[str, Any]) -> dict[str, Any]:
    from mdf_loop.openvino import prepare as prepare_openvino

    prepared = prepare_openvino(path)
    given, seeded = _without_seed(prepared.fit(inputs), prepared.body.inputs)
    with options(**seeded):
        return dict(zip(prepared.outputs, prepared.run(given), strict=True))


def _refuse_nothing(inputs: Mapping[str, Any]) -> None:
    """See that each input has a value: only ONNX has empty optionals."""
    for name, value in inputs.items():
        if value is None:
            raise KindError(f"input {name!r} must be numbers, booleans or strings; got None")


def _without_seed(inputs: Mapping[str, Any], names: Iterable[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The inputs of a model that is not MDF, and the seed if it is none of them.

    Raises
    ------
    ArgumentError
        Steps or another option is asked for, and the model has no input of that name.
    """
    inputs, known = dict(inputs), set(names)
    for name in ("steps", "time_increment", "collect"):
        if name in inputs and name not in known:
            raise ArgumentError(f"{name} is for MDF models, and the model has no input of that name")
    seeded = {"seed": inputs.pop("seed")} if "seed" in inputs and "seed" not in known else {}
    refuse_options(inputs, known)
    return inputs, seeded


def refuse_options(inputs: Mapping[str, Any], names: Container[str]) -> None:
    """See that no option stands among the inputs of a model that has no input of that name.

    Raises
    ------
    ArgumentError
    """
    for name, value in inputs.items():
        if name in OPTIONS and name not in names:
            raise ArgumentError(
                f"{name} is an option, and the model has no input of that name; "
                f"write: with mdf_loop.options({name}={value!r}): ..."
            )


def _only_graph(model: Any) -> Any:
    if len(model.graphs) != 1:
        names = ", ".join(repr(graph.id) for graph in model.graphs) or "none"
        raise ArgumentError(f"the model {model.id!r} has {len(model.graphs)} graphs ({names}); give run one of them")
    return model.graphs[0]


def run_graph(graph: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Run an MDF graph once; see :func:`run`.  One that is an ONNX graph needs no scheduler."""
    register()
    if is_typed(graph):
        refuse_options(inputs, {*input_ids(graph), *((graph.metadata or {}).get("inputs") or ())})
        return run_in_mdf(graph, inputs) if has_conditions(graph) or _is_fed(graph) else run_typed(graph, inputs)
    return _evaluated(with_inputs(graph, inputs), output_ports(graph))


def _is_fed(graph: Any) -> bool:
    """Whether an edge from a node of one's own feeds an input of a converted graph."""
    fed = {edge.receiver_port for edge in graph.edges}
    return any(name in fed for name in (graph.metadata or {}).get("inputs") or ())


def run_in_mdf(graph: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Run a graph that says types in MDF's engine; names are those of ONNX."""
    names = names_of(graph)
    ids = input_ids(graph)
    used = {port.id for node in graph.nodes for port in node.input_ports}
    given = {ids.get(name, name): value for name, value in inputs.items() if name not in ids or ids[name] in used}
    ports = {port.id: node.id for node in graph.nodes for port in node.output_ports}
    return _evaluated(with_inputs(graph, given), {names.get(id, id): (ports[id], id) for id in graph.metadata["outputs"]})


def _evaluated(graph: Any, places: Places) -> dict[str, Any]:
    """The outputs of a graph that MDF's engine evaluates once; what MDF prints goes to the log."""
    from modeci_mdf.execution_engine import EvaluableGraph

    try:
        with quiet_mdf(), engine_at_work(graph):
            refuse_graph(graph)
            return evaluated(EvaluableGraph(graph, verbose=False), places)
    except LoopError as error:
        for unknown in unknown_names(graph):
            error.add_note(str(unknown))
        raise


def with_inputs(graph: Any, inputs: Mapping[str, Any]) -> Any:
    """A copy of a graph in which the named ports and parameters have the given values.

    Raises
    ------
    ArgumentError
        No port or parameter has that name, or several have.
    """
    if not inputs:
        return graph
    graph = copy.deepcopy(graph)
    places = list(_places(graph))
    refuse_options(inputs, {name for node, id, *_ in places for name in (id, f"{node}.{id}")})
    for name, value in inputs.items():
        found = [(owner, attribute) for node, id, owner, attribute in places if name in (id, f"{node}.{id}")]
        required = [(owner, attribute) for _, _, owner, attribute in places if is_required_as(owner, name)]
        if len(found) != 1 and not required:
            raise ArgumentError(_not_one(name, [f"{node}.{id}" for node, id, *_ in places], bool(found)))
        for owner, attribute in required or found:
            setattr(owner, attribute, value if isinstance(value, bool | int | float | dict) else np.asarray(value))
    return graph


def _places(graph: Any) -> Iterator[tuple[str, str, Any, str]]:
    """Everything an input can set: (node, id, owner, attribute)."""
    connected = {(edge.receiver, edge.receiver_port) for edge in graph.edges}
    for node in graph.nodes:
        for port in node.input_ports:
            if (node.id, port.id) not in connected:
                yield node.id, port.id, port, "default_value"
        for parameter in node.parameters:
            if parameter.default_initial_value is not None:
                yield node.id, parameter.id, parameter, "default_initial_value"
            elif parameter.function is None:
                yield node.id, parameter.id, parameter, "value"


def _not_one(name: str, names: list[str], several: bool) -> str:
    if several:
        matching = [full for full in names if full.endswith(f".{name}")]
        return f"the name {name!r} is not unique; say which: {', '.join(matching)}"
    close = difflib.get_close_matches(name, [*names, *(full.rpartition(".")[2] for full in names)], n=3)
    meant = (
        f"; did you mean {' or '.join(map(repr, dict.fromkeys(close)))}?"
        if close
        else f"; there are {', '.join(names) or 'none'}"
    )
    return f"the model has no input port without an edge and no parameter called {name!r}{meant}"
