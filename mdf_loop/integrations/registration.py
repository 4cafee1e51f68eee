"""Registration with MDF: ``onnx::Loop``, ``onnx::Scan`` and ``onnx::If`` run inside MDF's own engine.

MDF has no place for functions from outside, so ``register`` replaces a few attributes of MDF's modules, and ``unregister``
puts back exactly what was there.  A module is changed when it is imported: MDF's engine, with the packages that it needs, takes
longer to import than all the rest, and most models run without it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

from mdf_loop.calls.calling import if_, loop, scan
from mdf_loop.functions import psyneulink
from mdf_loop.integrations import (
    engine_patches,
    mdf_engine,  # noqa: F401  (registers the kernel that runs graphs in MDF's engine)
    no_eval,
    scheduler,
    taken_over,
)
from mdf_loop.integrations.required_inputs import refusing_missing_inputs
from mdf_loop.integrations.taken_over import FUNCTIONS
from mdf_loop.integrations.typed_graph import taking_over_nodes

Replacement = tuple[Any, str, Any]
"""An object, the name of an attribute of it, and the new value."""

_MISSING = object()
_replaced: list[Replacement] = []
_entries: dict[str, Any] = {}
"""What stood in MDF's modules before: attributes as (owner, name, value), and entries of its table of functions."""


def register() -> None:
    """Add ``onnx::Loop``, ``onnx::Scan`` and ``onnx::If`` to MDF.  ``import mdf_loop`` does this.  A second call has no effect.

    MDF's modules are changed when they are imported, now or later.

    Examples
    --------
    >>> import mdf_loop
    >>> mdf_loop.register()
    >>> from modeci_mdf.functions.standard import mdf_functions
    >>> "onnx::Loop" in mdf_functions
    True
    """
    if _changing in sys.meta_path:
        return
    sys.meta_path.insert(0, _changing)
    for name in CHANGES:
        if name in sys.modules:
            _change(sys.modules[name])


def unregister() -> None:
    """Restore modeci_mdf exactly as it was before :func:`register`.  A second call has no effect."""
    if _changing in sys.meta_path:
        sys.meta_path.remove(_changing)
    while _replaced:
        owner, name, value = _replaced.pop()
        if value is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, value)
    while _entries:
        function, entry = _entries.popitem()
        functions = sys.modules[STANDARD].mdf_functions  # type: ignore[attr-defined]
        if entry is _MISSING:
            functions.pop(function, None)
        else:
            functions[function] = entry


class _Changing(MetaPathFinder):
    """Finds modules of MDF that are changed when they are imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """What others find, with a loader that changes the module."""
        if name not in CHANGES:
            return None
        finders = [finder for finder in sys.meta_path if finder is not self]
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in finders)), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _ChangingLoader(spec.loader)
        return spec


class _ChangingLoader(Loader):
    """Loads a module as another loader does, and changes it."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        if _changing in sys.meta_path:
            _change(module)


_changing = _Changing()


def _change(module: Any) -> None:
    for owner, name, value in CHANGES[module.__name__](module):
        _replaced.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, value)


def _functions(standard: Any) -> Iterable[Replacement]:
    """New entries of MDF's table of functions, which are put into it at once."""
    ours = {function: _entry(function, called) for function, called in FUNCTIONS.items()}
    for function, entry in {**ours, **psyneulink.entries()}.items():
        _entries[function] = standard.mdf_functions.get(function, _MISSING)
        standard.mdf_functions[function] = entry
    return ()


def _entry(function: str, called: str) -> dict[str, Any]:
    """The entry in MDF's table of functions, as ``add_mdf_function`` would write it."""
    arguments = {
        "loop": ["M", "cond", "v_initial", "body"],
        "scan": ["initial_state_and_scan_inputs", "body", "num_scan_inputs"],
        "if": ["cond", "then_branch", "else_branch"],
    }[called]
    return {
        "description": f"ONNX {function.removeprefix('onnx::')}, run by mdf_loop",
        "arguments": arguments,
        "expression_string": f"onnx_ops.{called}({', '.join(arguments)})",
        "function": {"loop": loop, "scan": scan, "if": if_}[called],
    }


def _of_engine(engine: Any) -> Iterable[Replacement]:
    """What is replaced in MDF's engine."""
    kinds = ("Parameter", "Function", "Node", "Graph")
    parameter, function, node, graph = (getattr(engine, f"Evaluable{kind}") for kind in kinds)
    guards = [(owner, name, value) for owner, name, value in no_eval.replacements(engine) if (owner, name) != (node, "evaluate")]
    keeping = engine_patches.keeping_partial
    evaluating = taken_over.with_one_stream(scheduler.starting_afresh(engine_patches.ending_passes(graph.evaluate)))
    return [
        (engine, "evaluate_onnx_expr", taken_over.taking_over_expressions(engine.evaluate_onnx_expr)),
        (parameter, "evaluate", keeping(taken_over.taking_over_parameters(parameter.evaluate))),
        (parameter, "get_current_value", taken_over.noting_parameters(parameter.get_current_value)),
        (function, "evaluate", keeping(taken_over.taking_over_functions(function.evaluate))),
        (node, "evaluate", engine_patches.ending_in_time(no_eval.naming(node.evaluate))),
        (node, "__init__", taken_over.ordering_captures(node.__init__)),
        (graph, "__init__", taking_over_nodes(graph.__init__)),
        (graph, "parse_condition", scheduler.reading_names(graph.parse_condition)),
        (graph, "evaluate", refusing_missing_inputs(evaluating)),
        (engine, "print", engine_patches.print_or_log),
        (engine, "evaluate_expr", engine_patches.unheard_inside(engine.evaluate_expr)),
        *guards,
    ]


def _of_modelspec(utils: Any) -> Iterable[Replacement]:
    """What is replaced in the functions that the engine has from modelspec."""
    return [(utils, name, engine_patches.silent(getattr(utils, name))) for name in ("_params_info", "_val_info")]


def _conditions(ours: Any) -> Iterable[Replacement]:
    """What is added to the conditions of graph-scheduler."""
    return [(sys.modules["graph_scheduler.condition"], each.__name__, each) for each in ours.CONDITIONS]


def _with_conditions(_: Any) -> Iterable[Replacement]:
    """Import the conditions that are added, unless that is what imports graph-scheduler now."""
    importlib.import_module(CONDITIONS)
    return ()


STANDARD, CONDITIONS = "modeci_mdf.functions.standard", "mdf_loop.integrations.loop_conditions"

CHANGES: Mapping[str, Callable[[Any], Iterable[Replacement]]] = {
    STANDARD: _functions,
    "modeci_mdf.functions.onnx": lambda onnx: [(onnx, "loop", loop), (onnx, "scan", scan), (onnx, "if", if_)],
    "modelspec.utils": _of_modelspec,
    CONDITIONS: _conditions,
    "graph_scheduler": _with_conditions,
    "modeci_mdf.execution_engine": _of_engine,
}
"""What is replaced in each module."""
