"""What a body comes as: which of the things that can be called are read, as graphs are, rather than called."""

from __future__ import annotations

import difflib
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from mdf_loop.errors import ArgumentError, did_you_mean, warn_user
from mdf_loop.options import Options
from mdf_loop.readers.expressions.other_notations import slope_of


def is_read(source: Any) -> bool:
    """Whether a source that can be called is read all the same: a function of onnxscript, or one that is traced."""
    return hasattr(source, "to_function_proto") or hasattr(source, "to_body")


def arranged(
    names: Sequence[str], given: Sequence[Any], named: Mapping[str, Any], captures: Container[str], where: str
) -> tuple[list[Any], dict[str, Any]]:
    """The values of a body in its order, where some are given by name, and what else is given by name.

    Raises
    ------
    ArgumentError
        Together they are not what the body takes.
    """
    by_name = set() if named.keys().isdisjoint(names) else {name for name in names if name in named and name not in captures}
    unknown = [name for name in named if name not in names and name not in captures]
    rest = [name for name in names if name not in by_name]
    if len(given) != len(rest) and (by_name or (unknown and not given)):
        raise ArgumentError(f"{where}: the body takes {', '.join(names)}; {_unmatched(rest, given, unknown)}")
    if not by_name:
        return [*given], {**named}
    by_place = iter(given)
    values = [named[name] if name in by_name else next(by_place) for name in names]
    return values, {name: value for name, value in named.items() if name not in by_name}


def _unmatched(rest: Sequence[str], given: Sequence[Any], unknown: Iterable[str]) -> str:
    """What is missing or too much, where values that have no name go to the names that have no value."""
    missing, more = rest[len(given) :], len(given) - len(rest)
    said = [f"it has no {name!r}{meant(name, missing)}" for name in unknown]
    said += [f"no value is given for {', '.join(missing)}"] if missing else []
    said += (
        [f"{more} {'values' if more > 1 else 'value'} without a name {'are' if more > 1 else 'is'} too many"] if more > 0 else []
    )
    return "; ".join(said)


def warn_of_order(function: str, names: Sequence[str]) -> None:
    """Warn of a function as the body of a Loop whose parameters have the names of others: a value in the place of ``i``."""
    numbers, conditions = ({k for k, name in enumerate(names) if name.lower() in known} for known in (_NUMBERS, _CONDITIONS))
    is_number_later = 0 not in numbers and 1 not in conditions and (1 in numbers or "iteration" in names)
    if is_number_later or (conditions and 1 not in conditions):
        taken = dict(zip(("the iteration number", "the condition"), names, strict=False))
        given = " and ".join(f"{what} as {name!r}" for what, name in taken.items())
        said = "a Loop gives a function (i, go, *carried values) in this order"
        warn_user(f"{function}({', '.join(names)}): {said}, so it gets {given}; put its parameters in this order, or rename them")


_NUMBERS = {"i", "k", "it", "iter", "iteration", "iteration_number", "step_number"}
_CONDITIONS = {"go", "cond", "condition", "keep_going", "keepgoing", "going", "continue_"}
"""Names that the iteration number and the condition have."""


def meant(name: str, known: Iterable[str], values: Sequence[str] = ()) -> str:
    """What was probably meant by an argument that is none, for the end of a message: a name like it, or one of a loop's own."""
    known = [*known]
    if stem := _stem(name, values):  # v of v_init, where other initial values have the names of the equations
        return f"; did you mean {stem!r}?"
    if close := slope_of(name, known) or did_you_mean(name, known):
        return close
    option = next((own for own in ("M", "cond", "v_initial") if is_called(name, own)), None)
    if option is not None:
        return f"; did you mean {option!r}?"
    return f"; it is an option: with mdf_loop.options({name}=...)" if name in {each.name for each in fields(Options)} else ""


def of_let(name: str, let: Iterable[str]) -> str:
    """How a value of let becomes a result; empty for other names."""
    return f"; it is of let, which is computed and not kept: write collected: {{{name}: {name}}}" if name in let else ""


def is_called(name: str, argument: str) -> bool:
    """Whether a name is what people call an argument, such as ``over``: the values of a sweep, bounds or ranges."""
    return name.lower() in OTHER_NAMES.get(argument, "").split()


def by_stems(names: Sequence[str], keys: Sequence[str], where: str) -> list[str]:
    """Arguments in the order of the values whose names are in theirs, as in ``v_init``, ``v0`` or ``start_v``.

    Returns
    -------
    list of str
        Empty where the order of the arguments counts: their names are others.

    Raises
    ------
    ArgumentError
        The order gives a value that has the name of another one.
    """
    stems = [_stem(key, names) for key in keys]
    if sorted(map(str, stems)) == sorted(names):
        return [keys[stems.index(name)] for name in names]
    for key, name in zip(keys, names, strict=True):
        stem = _stem(key, names) or _stem(key, names, re.IGNORECASE)
        if stem not in (None, name):
            said = f"{key!r} has the name of {stem!r} in it, and is in the place of {name!r}"
            raise ArgumentError(f"{where}: {said}; give values by name: {', '.join(names)}")
    return []


def unmatched(names: Sequence[str], keys: Sequence[str]) -> tuple[list[str], list[str]]:
    """Arguments of no value, and values without an argument; of too few arguments ``x0`` and ``x_init`` are those of x."""
    stems = {} if len(keys) >= len(names) else {key: stem for key in keys if (stem := _stem(key, names)) not in (None, *keys)}
    unknown = [key for key in keys if key not in (*names, *stems)]
    return unknown, [name for name in names if name not in (*keys, *stems.values())]


def _stem(key: str, names: Iterable[str], flags: int = 0) -> str | None:
    """The only value whose name is a whole word of an argument's; of names in names the longest."""
    found = sorted((name for name in names if re.search(rf"(?:^|_){re.escape(name)}(?:_|\d|$)", key, flags)), key=len)
    return found[-1] if found and [len(name) for name in found[-2:]].count(len(found[-1])) == 1 else None


def names_in(given: Any, each: str) -> str:
    """The names that were given, one, a list or a mapping of them, each written in a form such as ``{!r}: [...]``."""
    names = [given] if isinstance(given, str) else given if isinstance(given, Iterable) else []
    return ", ".join(each.format(name) for name in names if isinstance(name, str)) or each.format("x")


def instead_in_run(name: str) -> str:
    """What to write in the place of an argument that :func:`mdf_loop.run` does not have; empty where nothing is known."""
    return next((f"; {said}" for names, said in _OF_RUNS.items() if name.lower() in names.split()), "")


def suggest_argument(error: ArgumentError, name: str, arguments: Iterable[str], instead: str | None = None) -> None:
    """Say which argument is probably meant by a name that is no input; ``instead`` where it is none of those of a run."""
    close = difflib.get_close_matches(name, [*arguments], 1, 0.75) or [own for own in arguments if is_called(name, own)]
    instead = instead_in_run(name) if instead is None else instead
    if instead := f"; did you mean the argument {close[0]!r}?" if close else instead:
        error.args = (f"{error}; {name!r} is taken for an input{instead}",)


def how_to_give(names: Sequence[str]) -> str:
    """How inputs are given that have no value, in Python and on the command line."""
    given = ", ".join(f"{name}=..." for name in names)
    typed = " ".join(f"--set {name}=..." for name in names)
    return f"Give {'them' if names[1:] else 'it'}: run(..., {given}); on the command line {typed}, or --input file.npz for arrays"


_OF_RUNS = {
    "output outputs output_names fetches returns": (
        "a run gives all outputs: take one of the results, results['name']; record=['node.value'] adds values inside the model"
    ),
    "input inputs feed feed_dict params": "inputs are given by their names: run(model, x=...), or run(model, **values)",
    "over grid sweep": "many values of an input are swept: mdf_loop.sweep(model, over={'x': [...]})",
}
"""What people give to a run that takes no such argument, and how it is done."""


OTHER_NAMES = {
    "M": "m n steps n_steps num_steps iterations n_iterations trips trip_count count max times",
    "cond": "c condition while keep_going",
    "v_initial": "v_init init initial initial_values initials state carried v0 x0",
    "over": "over grid params parameters param_grid values ranges range bounds priors space",
    "steps": "duration t_end t_max total_time n_steps num_steps",
    "trials": "n n_trials num_trials repeats n_simulations num_samples",
    "time_increment": "dt delta_t time_step timestep step_size",
    "workers": "jobs n_jobs n_workers num_workers processes cores cpus",
}
"""The arguments of a loop, a run and a sweep, and what people call them."""
