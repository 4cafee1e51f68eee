"""Every target, by name.  One more is a module with a ``TARGET``, and a line here."""

from __future__ import annotations

import importlib

from .target import Target

MODULES = (
    "bodies",
    "plain",
    "changing",
    "given",
    "operators",
    "files",
    "expressions",
    "mdf_loops",
    "scheduled",
    "damaged",
    "checked",
    "swept",
    "pieces",
    "names",
    "jax",
)


def targets(only: list[str] | None = None) -> dict[str, Target]:
    """The targets of these names, or all."""
    found = {}
    for name in only or MODULES:
        if name not in (*MODULES, "self_test"):
            raise SystemExit(f"there is no target {name!r}; there are {', '.join(MODULES)}")
        found[name] = importlib.import_module(f".{name}", __package__).TARGET
    return found
