"""What a function is: an expression with steps, options and defaults, and how it is written out in a node.

A node whose functions are written out says the same in MDF's own words, so that nothing that reads or evaluates nodes has to
know more functions than MDF has.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from typing import Any

import numpy as np

from mdf_loop.errors import UnsupportedOp
from mdf_loop.ir import record


@record
class Row:
    """One function.

    Attributes
    ----------
    value : str
        The expression of its result, with ``{option}`` where an option decides.
    steps : mapping of str to str
        Expressions that the result, or a later step, reads by name.
    defaults : mapping
        The numbers that count where the model gives none.
    options : mapping
        The expression of each value of an option, or that and other options that it settles.  The first is the default.
    state : mapping
        Steps that go on from their own last value, which they read as ``last_<step>``, with the argument that they start from.
    """

    value: str
    steps: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Mapping[Any, Any]] = field(default_factory=dict)
    state: Mapping[str, str] = field(default_factory=dict)


def row(value: str, state: Mapping[str, str] | None = None, **parts: Any) -> Row:
    """A row from its parts: texts are steps, dicts options, all others defaults."""
    kinds: tuple[dict[str, Any], dict[str, Any], dict[str, Any]] = {}, {}, {}
    for name, part in parts.items():
        kinds[0 if isinstance(part, str) else 2 if isinstance(part, dict) else 1][name] = part
    return Row(value, *kinds, state or {})


def written_out(node: Any, rows: Any) -> Any:
    """A node with expressions where it names functions of ours; the node itself if it names none.

    Parameters
    ----------
    node : modeci_mdf.mdf.Node
    rows : callable
        ``rows(thing, node)`` gives the Row of a function or parameter, or None.

    Raises
    ------
    UnsupportedOp
        A function is given an option that there is no expression for.
    """
    found = {id(thing): made for thing in (*node.functions, *node.parameters) if (made := rows(thing, node)) is not None}
    if not found:
        return node
    known = {thing.id for thing in (*node.input_ports, *node.functions, *node.parameters)}
    node = copy.copy(node)
    functions: list[Any] = []
    parameters: list[Any] = []
    for things, kept in ((node.functions, functions), (node.parameters, parameters)):
        for thing in things:
            if id(thing) not in found:
                kept.append(thing)
                continue
            writing = Writing(thing, found[id(thing)], known, str(node.id))
            functions += writing.before()
            parameters += writing.after()
            kept.append(writing.itself(is_function=things is not node.parameters))
    node.functions, node.parameters = functions, parameters
    return node


class Writing:
    """One function of a node, written out.

    Parameters
    ----------
    thing : modeci_mdf Function or Parameter
    made : Row
    known : collection of str
        What the node has: as for MDF's own functions, a name that no argument gives is the node's.
    where : str
        The node, for errors.
    """

    def __init__(self, thing: Any, made: Row, known: Collection[str], where: str) -> None:
        self.thing, self.row, self.where = thing, made, where
        said = {key: value for key, value in (thing.metadata or {}).items() if value is not None}
        inner = [value.get("metadata") or {} for value in said.values() if isinstance(value, dict)]
        given = {key: value for part in (*inner, said, thing.args or {}) for key, value in part.items()}
        self.options: dict[str, str] = {}
        self._choose({name: given.get(name) for name in made.options})
        self.args = {k: v for k, v in (thing.args or {}).items() if k not in made.options}
        if "variable0" not in self.args and isinstance(self.args.get("shape"), list):  # PsyNeuLink's noise: a draw has this shape
            self.args["variable0"] = np.zeros(self.args["shape"])
        for name, default in made.defaults.items():
            if name in self.args or (name in known and name not in given):
                continue
            self.args[name] = self._number(name, given.get(name, default))
        self.value, self.steps = self._text(made.value), dict[str, str]()
        self._need(self.value)

    def _choose(self, given: Mapping[str, Any]) -> None:
        settled = dict[str, Any]()
        for name, choices in self.row.options.items():
            chosen = settled.get(name, given.get(name))
            if isinstance(chosen, np.generic | np.ndarray) and np.ndim(chosen) == 0:
                chosen = chosen.item()
            chosen = next(iter(choices)) if chosen is None else chosen
            if not isinstance(chosen, str | bool) or chosen not in choices:
                raise self._unsupported(f"{name} {chosen!r}", f"; there are {', '.join(map(repr, choices))}")
            found = choices[chosen]
            self.options[name], more = found if isinstance(found, tuple) else (found, {})
            settled.update(more)

    def _number(self, name: str, value: Any) -> Any:
        if isinstance(value, str | dict):
            raise self._unsupported(f"{name} {value if isinstance(value, str) else value.get('function', value)!r}", "")
        return value

    def _unsupported(self, what: str, known: str) -> UnsupportedOp:
        return UnsupportedOp(f"{self.where}/{self.thing.id}: {self.thing.function} with {what} has no expression here{known}")

    def _text(self, text: str) -> str:
        while "{" in text:
            text = text.format_map(self.options)
        return text

    def _need(self, text: str) -> None:
        """Note the steps that a text reads, each behind those that it reads itself."""
        for name in sorted(_names(text)):
            if name in self.row.steps and name not in self.steps and name not in self.args:
                step = self._text(self.row.steps[name])
                self._need(step)
                self.steps[name] = step

    def _id(self, name: str) -> str:
        return f"{self.thing.id}_{name}"

    def before(self) -> Iterator[Any]:
        """The functions of the node that are the steps with a state."""
        for name in self.row.state:
            text, read = self.steps[name], {f"last_{name}": self._id(f"last_{name}")}
            yield like(self.thing, id=self._id(name), function=None, value=text, args={**self.args, **read})

    def after(self) -> Iterator[Any]:
        """The parameters of the node that hold the last values of these steps."""
        from modeci_mdf.mdf import Parameter

        for name, start in self.row.state.items():
            yield Parameter(id=self._id(f"last_{name}"), value=self._id(name), default_initial_value=self.args[start])

    def itself(self, is_function: bool) -> Any:
        """The function, as an expression with arguments."""
        steps = {name: self._id(name) if name in self.row.state else text for name, text in self.steps.items()}
        args = {**self.args, **steps}
        if is_function:
            return like(self.thing, function=None, value=self.value, args=args)
        return like(self.thing, function=self.value, args=args)  # an expression in place of a name: values take no arguments


def like(thing: Any, **changes: Any) -> Any:
    """A copy of a part of a model with other attributes."""
    made = copy.copy(thing)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def _names(text: str) -> set[str]:
    return {part.id for part in ast.walk(ast.parse(text, mode="eval")) if isinstance(part, ast.Name)}
