"""Which functions of MDF's engine are replaced while mdf_loop is registered, and what runs around each of them.

What runs around them is imported when it is called first: an import of mdf_loop, which a program that only reads and writes MDF
models has too, needs none of it.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, cast

from mdf_loop.system.starting import importing

Replacement = tuple[Any, str, Any]
"""An object, the name of an attribute of it, and the new value."""

FUNCTIONS = {"onnx::Loop": "loop", "onnx::Scan": "scan", "onnx::If": "if"}
"""MDF's name of each function, and the name MDF calls it by."""

ENGINE: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "": {
        "evaluate_expr": ("engine_patches.unheard_inside",),
        "evaluate_onnx_expr": ("taken_over.taking_over_expressions",),
        "evaluate_params_modelspec": ("no_eval.by_the_list",),
        "get_required_variables_from_expression": ("no_eval.whole",),
        "print": ("engine_patches.print_or_log",),
    },
    "EvaluableInput": {"evaluate": ("no_eval.reading_numbers",), "set_input_value": ("no_eval.reducing",)},
    "EvaluableOutput": {"evaluate": ("no_eval.naming_port",)},
    "EvaluableParameter": {
        "evaluate": ("taken_over.taking_over_parameters", "engine_patches.keeping_partial"),
        "get_current_value": ("taken_over.noting_parameters",),
    },
    "EvaluableFunction": {"evaluate": ("taken_over.taking_over_functions", "engine_patches.keeping_partial")},
    "EvaluableNode": {
        "__init__": ("taken_over.ordering_captures",),
        "evaluate": ("no_eval.naming", "engine_patches.ending_in_time"),
    },
    "EvaluableGraph": {
        "__init__": ("typed_graph.taking_over_nodes",),
        "parse_condition": ("scheduler.reading_names",),
        "evaluate_edge": ("no_eval.weighing",),
        "evaluate": (
            "engine_patches.ending_passes",
            "scheduler.starting_afresh",
            "taken_over.with_one_stream",
            "required_inputs.refusing_missing_inputs",
        ),
    },
}
"""By classes of MDF's engine, and without a class: its functions, and modules and functions of ours, the innermost first."""

GUARDS = "no_eval"
"""The module of what guards the engine, without which nothing runs in it on our behalf."""


def of_engine(engine: ModuleType, modules: str = "") -> list[Replacement]:
    """What is replaced in MDF's engine: by all modules, or those whose names begin so."""
    made: list[Replacement] = [(engine, "actr_funcs", Listed(engine.actr_funcs))]
    for kind, functions in ENGINE.items():
        owner = getattr(engine, kind) if kind else engine
        for name, places in functions.items():
            if ours := [place for place in places if place.startswith(modules)]:
                original = getattr(owner, name, print)  # which the engine has of Python
                made.append((owner, name, functools.reduce(around, ours, original)))
    return made


def around(original: Callable[..., Any], ours: str) -> Callable[..., Any]:
    """What a function of MDF is replaced with: ``ours``, which takes the original first, then its arguments."""
    place = f"integrations.{ours}"

    @functools.wraps(original)
    def replaced(*args: Any, **kwargs: Any) -> Any:
        return found(place)(original, *args, **kwargs)

    replaced.is_ours = True  # type: ignore[attr-defined]
    return replaced


@functools.cache
def found(place: str) -> Callable[..., Any]:
    """The function that is called ``part.module.function`` in this package, which is imported when it is called first."""
    module, _, name = place.rpartition(".")
    with importing():
        return cast("Callable[..., Any]", getattr(importlib.import_module(f"mdf_loop.{module}"), name))


class Listed:
    """A module of functions for models, of which those that it exports can be looked up by a model."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattribute__(self, name: str) -> Any:
        found(f"integrations.{GUARDS}.refuse_unexported")(module := object.__getattribute__(self, "_module"), name)
        return getattr(module, name)
