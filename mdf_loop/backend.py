"""``onnx.backend.base.Backend`` over the executor: run whole ONNX models.

>>> import onnx.parser, numpy as np
>>> from mdf_loop import backend
>>> model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 18]> g (float[2] x) => (float[2] y) { y = Add(x, x) }')
>>> backend.run_model(model, [np.array([1, 2], np.float32)])[0]
array([2., 4.], dtype=float32)
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep

from mdf_loop.errors import (
    ArgumentError,
    KindError,
    MalformedBody,
    PartialResults,
    did_you_mean,
    in_words,
    is_from_outside,
    warn_user,
)
from mdf_loop.execute.graphs import Graph
from mdf_loop.execute.interpret import InterpretedBody
from mdf_loop.execute.partial_results import keeping
from mdf_loop.ir import Body, ValueType
from mdf_loop.options import Options, Run, public, start_run
from mdf_loop.readers.arguments import how_to_give
from mdf_loop.readers.onnx.file import load_onnx
from mdf_loop.readers.onnx.graph import read_model
from mdf_loop.types.declared import check_declared_types
from mdf_loop.types.fitting import as_tensor, fit_values, handed_out, handed_out_partly, refuse_nothing, refuse_shape
from mdf_loop.types.required import Asked, asked_types


class LoopRep(BackendRep):
    """A model ready to run.

    Attributes
    ----------
    body : Body
    graph : Graph
        What runs it.
    keeps : bool
        Whether a run leaves something to the next one.
    """

    keeps = False
    _seen: list[Any] | None = None  # the shapes of the inputs of the call before

    def __init__(self, body: Body) -> None:
        if body.captures:
            raise MalformedBody(f"reads {', '.join(map(repr, body.captures))}, which nothing in the model provides", (body.name,))
        self.body = body
        self.graph = Graph(body)  # finds what is wrong with nodes, so it comes first
        check_declared_types(body)
        self._needed = [name for name in body.inputs if name not in body.defaults]
        self._names = tuple(body.inputs)
        self._all = frozenset(self._names)
        self._asked = [f"input {name!r}" for name in body.inputs]

    def __getstate__(self) -> dict[str, Any]:
        """Without what was made of the body when it was asked for: models are known again by what they are pickled as."""
        return {name: value for name, value in vars(self).items() if name not in ("_fitting", "_plain", "_shaped", "_seen")}

    @public
    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run the model.

        Parameters
        ----------
        inputs : sequence, mapping or array
            Values of the model's inputs, in order or by name.  They become the types that the model declares, as those of
            :func:`mdf_loop.run` do.  Inputs with an initializer may be left out.

        Returns
        -------
        tuple
            The model's outputs in order: arrays, lists for sequences, None for an empty optional.

        Raises
        ------
        ArgumentError
            An input is missing, or an input or option does not exist.
        KindError
            A value cannot become what the model declares.
        IterationError, LoopTimeout, LoopInterrupted
            A node failed, ``options(timeout=...)`` was reached, or Ctrl-C: ``.partial`` and ``.iteration`` are those of the
            loop that ran last, ``.outputs`` what is known of the model's.
        """
        if kwargs:
            _refuse(kwargs)
        run = start_run()
        if run.options.how.device and run.enclosing is None:
            title = run.options.how.title
            warn_user(f"mdf_loop.backend runs {self.body.name} in engine 'numpy', not by {title}; mdf_loop.run(model) does")
        return self.run_in(run, inputs)

    def run_in(self, run: Run, inputs: Any) -> tuple[Any, ...]:
        """The same in a run that has begun."""
        return run_kept(self.graph, self._given(inputs), run, self._as_values)

    def values(self, inputs: Mapping[str, Any]) -> list[Any]:
        """What its graph is run with: values without a type of their own by name, and those that inputs have by themselves.

        Raises
        ------
        ArgumentError, KindError
            An input is missing, there is no such input, or a value cannot become what the model declares.
        """
        return self._as_values(self._given(inputs))

    def _given(self, inputs: Any) -> tuple[Any, ...]:
        """A value for each input, in order, of the type that the model declares."""
        given = self.fit(self._by_name(inputs))
        whole = given if len(given) == len(self._names) else {**self.body.defaults, **given}
        values = tuple([whole[name] for name in self._names])
        shapes = [getattr(value, "shape", None) for value in values]
        if shapes != self._seen:  # those of the call before need not be looked at again
            for name, declared in self._shaped.items():
                if name in given:
                    refuse_shape(name, given[name], declared)
            self._seen = shapes
        return values

    def _as_values(self, given: Sequence[Any]) -> list[Any]:
        return [as_value(value, what) for value, what in zip(given, self._asked, strict=True)]

    def fit(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Values that have no type of their own (from files, from the command line), made into what the model asks for.

        Raises
        ------
        KindError
            A value cannot become what the model declares.
        """
        plain = self._plain
        for name, value in inputs.items():
            if type(value) is not np.ndarray or value.dtype is not plain.get(name):
                refuse_nothing(self.body, inputs, "input")
                known = {name: value for name, value in inputs.items() if name in self._fitting}
                inputs = {**inputs, **fit_values(self._fitting, known)}
                break
        return inputs

    @functools.cached_property
    def _fitting(self) -> dict[str, Asked]:
        """What is asked of each input: it follows from the body alone."""
        return asked_types(self.body)

    @functools.cached_property
    def _plain(self) -> dict[str, np.dtype]:
        """The element types of inputs that are declared as tensors: arrays of that type need no fitting."""
        declared = {name: self.body.type_of(name) for name in self._names}
        return {name: kind.dtype for name, kind in declared.items() if kind.kind == "tensor" and kind.dtype is not None}

    @functools.cached_property
    def _shaped(self) -> dict[str, ValueType]:
        """The types of those that something reads, which have to be of the shape that is declared."""
        read = {*self.body.outputs, *(name for node in self.body.nodes for name in node.reads)}
        return {name: self.body.type_of(name) for name in self._plain if name in read}

    def _by_name(self, inputs: Any) -> Mapping[str, Any]:
        if type(inputs) is dict or isinstance(inputs, Mapping):
            if inputs.keys() == self._all:
                return inputs
            given = dict(inputs)
        else:
            values = listed_values(inputs)
            names = self._needed if len(values) == len(self._needed) else list(self.body.inputs)
            if len(values) > len(names):
                takes = f"{len(names)} {'input' if len(names) == 1 else 'inputs'} ({', '.join(names)})"
                raise ArgumentError(f"the model takes {takes}; {len(values)} were given")
            given = dict(zip(names, values, strict=False))
        refuse_other_names(given, self._needed, self.body.inputs, self.body)
        return given


def refuse_other_names(given: Mapping[str, Any], needed: Iterable[str], names: Sequence[str], body: Body | None = None) -> None:
    """See that all inputs are given that are needed, and no others than there are.

    Parameters
    ----------
    given : mapping
    needed, names : iterable of str
        The inputs without a default, and all of them.
    body : Body, optional
        The graph, whose constants are no inputs: the message says how one becomes an input.

    Raises
    ------
    ArgumentError
    """
    missing, unknown = [name for name in needed if name not in given], sorted(set(given) - set(names), key=str)
    if missing or unknown:
        raise ArgumentError(
            f"the model takes inputs ({', '.join(names)})"
            + (f"; missing: {', '.join(missing)}" if missing else "")
            + (f"; unknown: {', '.join(map(str, unknown))}{did_you_mean(unknown[0], missing or names)}" if unknown else "")
            + (f". {how_to_give(missing)}" if missing else "")
            + _of_constants([name for name in unknown if body is not None and name in _constants_in(body)])
        )


def _constants_in(body: Body) -> set[str]:
    """The constants of a graph, and of the bodies in it."""
    return {*body.constants, *(name for node in body.nodes for _, inner in node.bodies for name in _constants_in(inner))}


def _of_constants(names: Sequence[str]) -> str:
    if not names:
        return ""
    options, listed = " ".join(f"--as-input {name}" for name in names), ", ".join(map(repr, names))
    verb, each = ("are constants", "they become inputs") if names[1:] else ("is a constant", "it becomes an input")
    return (
        f". {listed} {verb} of this ONNX model; {each} where the model is written: mdf-loop convert MODEL.yaml MODEL.onnx "
        f"{options}, or to_onnx(model, inputs={[*names]}). Converted to MDF, a model takes constants like inputs"
    )


def run_kept(
    execute: InterpretedBody, given: tuple[Any, ...], run: Run, as_values: Callable[[Sequence[Any]], list[Any]] = list
) -> tuple[Any, ...]:
    """Run a graph without a loop around it; what ends it early keeps the outputs that were known.

    ``as_values`` makes values as the executor wants them of what is given.
    """
    struck, run.finish = None, handed_out_partly
    try:
        if (results := execute.again(given, run)) is not None:
            return results
    except MemoryError:
        pass  # there may be less to do in another way
    except BaseException as error:
        if not (isinstance(error, PartialResults) or is_from_outside(error)):
            raise
        struck = error
    return _run_kept(execute, given, run, as_values, struck)


def _run_kept(
    execute: InterpretedBody,
    given: tuple[Any, ...],
    run: Run,
    as_values: Callable[[Sequence[Any]], list[Any]],
    struck: BaseException | None,
) -> tuple[Any, ...]:
    """The same if it has not been run just so before, or something ``struck`` while it was."""
    drawn, env = run.stream.save(), list[Any]()

    def begin() -> list[Any]:
        """The values before the first node, made once: what is wrong with one that is given is an error of the call."""
        nonlocal env
        env = env or execute.begin(as_values(given), (), run)
        return env

    def ordinary() -> tuple[Any, ...]:
        with np.errstate(all="ignore"):
            results = [*execute.finish(begin())]
        return tuple(handed_out(results))

    def call() -> tuple[Any, ...]:
        if struck is not None:
            raise struck
        results = execute.at_once(begin(), run)
        return execute.timed(run.options, ordinary) if results is None else tuple(handed_out([*results]))

    def begun() -> None:
        run.stream.restore(drawn)
        with np.errstate(all="ignore"), contextlib.suppress(PartialResults):
            execute.interrupt(begin())

    def known(error: PartialResults) -> dict[str, Any]:
        found = execute.known(begin(), run, error.partial)
        return dict(zip(found, handed_out_partly([*found.values()]), strict=True))

    return keeping(run, call, known, begun)


class LoopBackend(Backend):
    """The backend: ``prepare``, ``run_model``, ``run_node``, ``supports_device``."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto | str | os.PathLike, device: str = "CPU", **kwargs: Any) -> LoopRep:
        """Read a model once.  Call ``run`` of the result as often as needed.

        Raises
        ------
        MalformedBody, UnsupportedOp
            The model is broken, the file does not exist, or an operator has no kernel.
        KindError
            It is neither a model nor a path.
        ArgumentError
            There is no such device, or no such option: an engine is chosen for runs, by ``mdf_loop.options(engine=...)``.
        """
        _refuse(kwargs)
        if not cls.supports_device(device):
            raise ArgumentError(
                f"device must be 'CPU'; got {in_words(device)}; mdf_loop.options(engine='jax') runs models on others"
            )
        if isinstance(model, str | os.PathLike):
            model = load_onnx(model)
        return LoopRep(read_model(model))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Read a model and run it once; see :meth:`LoopRep.run`."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one node; ``opset_version`` chooses the version of its operator.

        Raises
        ------
        KindError
            It is no node.
        """
        if not isinstance(node, onnx.NodeProto):
            raise KindError(f"run_node takes an onnx.NodeProto; got {type(node).__name__}")
        names = [name for name in node.input if name]
        graph = onnx.helper.make_graph(
            [node],
            "node",
            [onnx.helper.make_value_info(name, onnx.TypeProto()) for name in dict.fromkeys(names)],
            [onnx.helper.make_value_info(name, onnx.TypeProto()) for name in node.output if name],
        )
        version = kwargs.get("opset_version") or onnx.defs.onnx_opset_version()
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(node.domain, version)])
        return cls.run_model(model, inputs, device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Only the CPU."""
        return isinstance(device, str) and device.split(":")[0].upper() == "CPU"


def _refuse(named: Mapping[str, Any]) -> None:
    """Options of other backends, or of runs: they would be taken and count for nothing."""
    for name in named:
        where = f"; write: with mdf_loop.options({name}=...)" if name in Options.__dataclass_fields__ else ""
        raise ArgumentError(f"there is no option {name!r} of a model here{where}")


def listed_values(inputs: Any) -> list[Any]:
    """The inputs of a model in their order; an array is a single one.

    Raises
    ------
    KindError
        They have no order.
    """
    if isinstance(inputs, np.ndarray):
        return [inputs]
    if isinstance(inputs, str | bytes) or not isinstance(inputs, Iterable):
        raise KindError(f"the inputs of a model are a list of values, or a dict by name; got {type(inputs).__name__}")
    return list(inputs)


def as_value(value: Any, what: str = "a value") -> Any:
    """A value from outside as the executor wants it: arrays, lists for sequences, None for an empty optional.

    Raises
    ------
    KindError
        It is nothing that a model can take.
    """
    if type(value) is np.ndarray:
        return as_tensor(value, what)
    if isinstance(value, list | tuple):
        return [as_value(v, what) for v in value]
    return value if value is None or isinstance(value, Mapping) else as_tensor(value, what)


prepare = LoopBackend.prepare
run_model = LoopBackend.run_model
run_node = LoopBackend.run_node
supports_device = LoopBackend.supports_device
