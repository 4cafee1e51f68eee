"""Registration with MDF: ``onnx::Loop``, ``onnx::Scan`` and ``onnx::If`` run inside MDF's own engine.

MDF has no place for functions from outside, so ``register`` replaces a few attributes of MDF's modules, and ``unregister``
puts back exactly what was there.  A module is changed when it is imported: MDF's engine, with the packages that it needs, takes
longer to import than all the rest, and most models run without it.  What it is changed to is imported when it is called.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

from mdf_loop.integrations.replacements import FUNCTIONS, Replacement, around, found, of_engine

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
    from mdf_loop.functions import psyneulink

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
        "function": OURS[called],
    }


def _imported_at_first(name: str) -> Callable[..., Any]:
    """A public function as MDF has it."""

    def called(*args: Any, **named: Any) -> Any:
        return found(f"calls.calling.{name}")(*args, **named)

    called.__name__, called.__doc__ = name, f"As ``mdf_loop.{name}``."
    return called


OURS = {"loop": _imported_at_first("loop"), "scan": _imported_at_first("scan"), "if": _imported_at_first("if_")}
"""What runs for each of our functions, by the name MDF calls it by."""


def _conditions(ours: Any) -> Iterable[Replacement]:
    """What is added to the conditions of graph-scheduler."""
    return [(sys.modules["graph_scheduler.condition"], each.__name__, each) for each in ours.CONDITIONS]


def _with_conditions(_: Any) -> Iterable[Replacement]:
    """Import the conditions that are added, unless that is what imports graph-scheduler now."""
    importlib.import_module(CONDITIONS)
    return ()


DESCRIBING = ("_params_info", "_val_info")
"""Functions that the engine has from modelspec, for what it prints."""

STANDARD, CONDITIONS = "modeci_mdf.functions.standard", "mdf_loop.integrations.loop_conditions"

CHANGES: Mapping[str, Callable[[Any], Iterable[Replacement]]] = {
    STANDARD: _functions,
    "modeci_mdf.functions.onnx": lambda onnx: [(onnx, name, function) for name, function in OURS.items()],
    "modelspec.utils": lambda utils: [
        (utils, name, around(getattr(utils, name), "engine_patches.silent")) for name in DESCRIBING
    ],
    CONDITIONS: _conditions,
    "graph_scheduler": _with_conditions,
    "modeci_mdf.execution_engine": of_engine,
}
"""What is replaced in each module."""
