"""What exports of PsyNeuLink have that no result depends on, which is not reported, and what they lose, which is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mdf_loop.functions.function_rows import Row
from mdf_loop.functions.psyneulink import class_of
from mdf_loop.integrations.checks.findings import WARNING, Finding

OF_STATE = frozenset({"reset", "previous_value", "previous_time", "initializer", "seed", "integrator_function_value"})
"""What PsyNeuLink writes of the state of a mechanism or function; the model has the same numbers without it."""

OF_RECURRENCE = frozenset({"hetero", "auto", "competition", "smoothing_factor", "k_value", "ratio", "threshold"})
"""What PsyNeuLink writes of the recurrent projection of a mechanism, and not the projection."""

WITHOUT_EFFECT = {
    "softmax": {"adapt_scale", "adapt_entropy_weighting", "adapt_base"},  # of an adaptive gain, which is refused
    "dualadaptiveintegrator": {"rate"},
    "driftdiffusionanalytical": {"bias"},  # computed from the starting value
}
"""Arguments that PsyNeuLink writes for a function, and that its results do not depend on."""


def mechanism_of(node: Any) -> str:
    """The class of mechanism that PsyNeuLink wrote a node for; empty if it did not."""
    return said if (said := class_of(node)).endswith("Mechanism") or said == "DDM" else ""


def surplus_of(thing: Any, made: Row) -> list[str]:
    """The arguments of a function that its row does not read, but for those without an effect.

    A number of 0 adds nothing, whatever it is added to.
    """
    read = {"variable0", "shape", *made.defaults, *made.options, *made.steps, *OF_STATE, *WITHOUT_EFFECT.get(thing.function, ())}
    return [name for name, value in (thing.args or {}).items() if name not in read and not _is_zero(value)]


def _is_zero(value: Any) -> bool:
    return isinstance(value, int | float) and value == 0


def unread_things(node: Any, unread: Mapping[str, str], place: tuple[str, ...]) -> Iterator[Finding]:
    """What to report of the parameters and functions of a node that nothing reads.

    Parameters
    ----------
    node : modeci_mdf.mdf.Node
    unread : mapping of str to str
        Their names, with what to report of each.
    place : tuple of str
        The graph and the node.
    """
    mechanism, lost = mechanism_of(node), OF_RECURRENCE.intersection(unread)
    if mechanism and lost:
        message = f"{', '.join(sorted(lost))} are of a recurrent projection, which the export of this {mechanism} does not have"
        yield Finding(WARNING, f"{'/'.join(place)}: {message}; PsyNeuLink gives other numbers", place)
    for name, said in unread.items():
        if not (mechanism and name in OF_STATE | lost):
            yield Finding(WARNING, f"{'/'.join((*place, name))}: {said}", (*place, name))
