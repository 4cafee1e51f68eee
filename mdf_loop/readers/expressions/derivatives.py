"""Differential equations: a short form of carried values, which it is expanded into.

::

    derivatives: {v: (current - v) / tau + sigma * noise()}
    method: heun
    dt: 0.1

``v`` is carried, and becomes ``v + dt * (current - v) / tau``, by the method of Euler, of Heun or of Runge and Kutta (``rk4``),
plus ``sqrt(dt)`` times its noise (Euler-Maruyama).  In text an equation is a line ``dv/dt: ...``.  Within a step time moves with
the state: a carried ``t: t + dt`` is ``t + dt / 2`` in its middle.  Other values that are carried by equations of their own, and
the iteration number, are the same throughout a step.  ``next(v)`` is the value after the step; with Euler's method derivatives
may read it too.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.errors import MalformedBody, did_you_mean, in_words, warn_user
from mdf_loop.ir.fresh_names import FreshNames
from mdf_loop.ir.well_formed import reached
from mdf_loop.readers.expressions.expression_text import NEXT, filled, next_of, refuse_depth, tree_at, variables

if TYPE_CHECKING:
    from mdf_loop.readers.expressions.equation_texts import Equations

STEP = "dt"
"""What the length of a step is called."""

INDICES = ("i", "iteration")
"""What the iteration number is called: the first that nothing else is called."""

STAGES = {"euler": (), "heun": ("",), "rk4": (" / 2", " / 2", "")}
"""The methods: how far within a step the slope is taken again, as what a step is divided by."""

WEIGHTS = {"euler": "{0}", "heun": "({0} + {1}) / 2", "rk4": "({0} + 2 * {1} + 2 * {2} + {3}) / 6"}
"""What is made of the slopes."""

RANDOM = frozenset({"noise", "normal", "uniform", "random", "poisson"})
"""Functions that draw numbers."""

CENTRED = frozenset({"noise", "normal"})
"""Those whose mean is 0, which ``sqrt(dt)`` may scale: the mean of others would grow as dt becomes small."""


def wrong_with_step(step: Any, name: str = STEP) -> str:
    """What there is to say about the length of a step that is not positive; empty for others."""
    if not isinstance(step, int | float | np.number | np.ndarray) or getattr(step, "size", 1) != 1 or not step <= 0:
        return ""
    said = in_words(step.item() if hasattr(step, "item") else step)
    return f"{name}, the length of a step, is {said}, {'so nothing changes' if step == 0 else 'so time runs backwards'}"


def expand(said: Equations, texts: Iterable[tuple[str, str, str]]) -> None:
    """Carried values in the place of derivatives; ``texts`` are all expressions, with their places.

    Raises
    ------
    MalformedBody
        The method is none; noise is no term of a derivative; or something does not parse.
    """
    if not said.derivatives:
        if said.method:
            hint = "write derivatives: {v: (current - v) / tau}"
            raise MalformedBody(f"equations: method {said.method} is for derivatives, of which there are none; {hint}")
        return
    method = said.method or "euler"
    if method not in STAGES:
        raise MalformedBody(f"equations: method is {', '.join(STAGES)}; got {method!r}{did_you_mean(method, STAGES)}")
    for name in (*said.derivatives, STEP):
        if name == STEP and name in said.carried:
            raise MalformedBody(f"equations: {STEP} is the length of a step, and carried as well; write it as a let")
    _Expansion(said, method, texts).write()


class _Expansion:
    """Equations whose derivatives become carried values."""

    def __init__(self, said: Equations, method: str, texts: Iterable[tuple[str, str, str]]) -> None:
        self.said, self.method = said, method
        self.lets = {name: _tree(text, said.path(f"let {name}")) for name, text in said.let.items()}
        read = [variables(_tree(text, said.path(place))) for place, _, text in texts]
        self.free = FreshNames((*said.names, *said.let, *said.captured, STEP, *itertools.chain(*read)))
        self.drawing = _reaching({name for name, tree in self.lets.items() if draws(tree)}, self.lets)
        self.slopes, self.spreads = dict[str, ast.expr](), dict[str, ast.expr]()
        for name, text in said.derivatives.items():
            where, path = f"derivative of {name}", said.path(f"carried {name}")
            tree = _tree(text, path)
            if STEP in variables(tree) and not {*INDICES}.intersection(variables(tree)):  # i * dt is the time
                warn_user(
                    f"equations: the {where} reads {STEP}, by which the method multiplies it once more: write the slope alone"
                )
            if drawn := sorted(self.drawing.intersection(variables(tree))):
                raise MalformedBody(
                    f"the {where} reads {drawn[0]!r}, which draws random numbers; write the noise in the derivative itself, "
                    "where it is scaled by sqrt(dt)",
                    path,
                )
            slope, spread = _split(tree, where, path)
            self.slopes[name] = ast.Constant(0.0) if slope is None else slope
            if spread is not None:
                self.spreads[name] = spread
        self.read = behind(self.slopes.values(), self.lets)
        if STAGES[method] and (new := sorted(self.read.intersection(map(next_of, said.carried)))):
            raise MalformedBody(
                f"equations: a derivative reads {new[0]}, which is known when the step is over; method {method} looks at places "
                f"within the step. Read {new[0][len(NEXT) + 1 : -1]}, or write method: euler"
            )
        self.clocks = {name: step for name in said.carried if name in self.read and (step := self._clock(name)) is not None}

    def _clock(self, name: str) -> str | None:
        """What a step adds to a carried value that is a time: ``t: t + dt``, or another that depends on nothing but ``dt``."""
        said = self.said
        tree = None if name in self.slopes else _tree(said.carried[name], said.path(f"carried {name}"))
        if not isinstance(tree, ast.BinOp) or not isinstance(tree.op, ast.Add):
            return None
        for place, added in ((tree.left, tree.right), (tree.right, tree.left)):
            read = variables(added)
            is_step = STEP in read or (STEP in self.lets and ast.dump(added) == ast.dump(self.lets[STEP]))
            if isinstance(place, ast.Name) and place.id == name and is_step and not draws(added):
                return None if {*said.names, *said.let}.difference({STEP}).intersection(read) else ast.unparse(added)
        return None

    def write(self) -> None:
        """Write lets and carried values."""
        said = self.said
        found = self._slopes_at(1, {})
        for number, part in enumerate(STAGES[self.method], 2):
            here = self._moved(number, part, {name: slopes[-1] for name, slopes in found.items()})
            for name, (slope,) in self._slopes_at(number, here).items():
                found[name].append(slope)
        for name in self.slopes:
            added = [self._constant_step(name) or f"{STEP} * {WEIGHTS[self.method].format(*found[name])}"]
            if name in self.spreads:
                added = [*added[self._is_zero(name) :], f"sqrt({STEP}) * ({ast.unparse(self.spreads[name])})"]
            said.carried[name] = " + ".join([name, *added])

    def _constant_step(self, name: str, part: str = "") -> str | None:
        """What a step, or a part of it, adds to a value whose slope is a number; None for any other."""
        slope = self.slopes[name]
        if not isinstance(slope, ast.Constant):
            return None
        return f"{STEP}{part}" if repr(slope.value) == "1" else f"{STEP}{part} * {slope.value!r}"  # 1.0 makes floats of integers

    def _is_zero(self, name: str) -> bool:
        slope = self.slopes[name]
        return isinstance(slope, ast.Constant) and slope.value == 0

    def _slopes_at(self, number: int, here: Mapping[str, str]) -> dict[str, list[str]]:
        """The slope of each value that is no number: a let where it is read several times."""
        trees = {name: tree for name, tree in self.slopes.items() if not isinstance(tree, ast.Constant)}
        texts = {name: ast.unparse(_renamed(tree, here)) for name, tree in trees.items()}
        if self.method == "euler":
            return {name: [f"({text})"] for name, text in texts.items()}
        lets = {name: self.free.fresh(f"{name}_slope{number}") for name in texts}
        self._add_stage(lets, texts)
        return {name: [let] for name, let in lets.items()}

    def _add_stage(self, lets: Mapping[str, str], texts: Mapping[str, str]) -> None:
        """Lets for values at a place within the step, each with the place of the text that it is made of."""
        self.said.let |= {lets[name]: text for name, text in texts.items()}
        self.said.stages |= {lets[name]: f"{'let' if name in self.lets else 'carried'} {name}" for name in texts}

    def _moved(self, number: int, part: str, slopes: Mapping[str, str]) -> dict[str, str]:
        """Names at a place within the step: of the state, of time, and of what is computed of them."""
        added = {name: self._constant_step(name, part) or f"{STEP}{part} * {slopes[name]}" for name in self.slopes}
        added |= {name: f"({step}){part}" if part else step for name, step in self.clocks.items()}
        following = [name for name in self.lets if name in self.read & _reaching({*added}, self.lets)]
        here = {name: self.free.fresh(f"{name}_at{number}") for name in (*added, *following)}
        texts = {name: ast.unparse(_tree(f"{name} + {text}", (name,))) for name, text in added.items()}
        texts |= {name: ast.unparse(_renamed(self.lets[name], here)) for name in following}
        self._add_stage(here, texts)
        return here


def behind(trees: Iterable[ast.expr], lets: Mapping[str, ast.expr]) -> set[str]:
    """All names that expressions read, with those that lets among them read."""
    return reached(itertools.chain(*map(variables, trees)), lambda name: variables(lets[name]) if name in lets else ())


def _reaching(names: set[str], lets: Mapping[str, ast.expr]) -> set[str]:
    """Names, with the lets that depend on them."""
    return reached(names, lambda name: [other for other, tree in lets.items() if name in variables(tree)])


def refuse_standing_time(said: Equations, index: str) -> None:
    """See that no derivative computes the time from the iteration number, which is the same throughout a step.

    The number may say which iteration it is: in a comparison, as a place of an array, behind ``%`` and ``//``.

    Raises
    ------
    MalformedBody
        The method looks at several places of a step, and a derivative multiplies or divides the iteration number.
    """
    if not STAGES.get(said.method):
        return
    lets = {name: _tree(text, said.path(f"let {name}")) for name, text in said.let.items()}
    own = {name: _tree(said.carried[name], said.path(f"carried {name}")) for name in said.carried if name not in said.derivatives}
    times = {name: tree for name, tree in own.items() if not any(isinstance(part, _NO_TIME) for part in ast.walk(tree))}
    for name, text in said.derivatives.items():
        tree = _tree(text, said.path(f"carried {name}"))
        read = behind([tree], lets)
        for part in (tree, *(known for other, known in (lets | times).items() if other in read)):
            if (product := _scaled(part, index)) is not None:
                raise MalformedBody(
                    f"the derivative of {name} reads {ast.unparse(product)!r}, and {index} is the same throughout a step, of "
                    f"which method {said.method} looks at several places; carry the time, t: t + {STEP}, and read t",
                    said.path(f"carried {name}"),
                )


_NO_TIME = (ast.Call, ast.Compare, ast.Subscript)
"""What is in no carried value that is a time."""


def _scaled(tree: ast.AST, index: str) -> ast.AST | None:
    """The first product or quotient with the iteration number in it."""
    if isinstance(tree, ast.Subscript):
        return _scaled(tree.value, index)
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult | ast.Div) and index in variables(tree):
        return tree
    return next((found for part in ast.iter_child_nodes(tree) if (found := _scaled(part, index)) is not None), None)


def _tree(text: str, path: tuple[str, ...]) -> ast.expr:
    tree = tree_at(text, path)
    refuse_depth(tree, text, path)
    return tree


def draws(tree: ast.AST) -> bool:
    """Whether an expression draws random numbers."""
    calls = (part.func for part in ast.walk(tree) if isinstance(part, ast.Call))
    return any((isinstance(f, ast.Name) and f.id in RANDOM) or "random" in ast.unparse(f).split(".")[:-1] for f in calls)


Parts = tuple["ast.expr | None", "ast.expr | None"]
"""What a derivative has without noise, and its noise."""


def _split(tree: ast.expr, where: str, path: tuple[str, ...]) -> Parts:
    """The noise of an expression apart from the rest, of which it is a sum.

    Raises
    ------
    MalformedBody
        Noise is something else than a term that may have factors.
    """
    if not draws(tree):
        return tree, None
    if isinstance(tree, ast.Call):
        if isinstance(tree.func, ast.Name) and tree.func.id in RANDOM and not any(map(draws, tree.args)):
            _refuse_mean(tree, where, path)
            return None, tree
    elif isinstance(tree, ast.UnaryOp):
        return _around(_split(tree.operand, where, path), lambda x: ast.UnaryOp(tree.op, x))
    elif isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add | ast.Sub):
        (left, noise), (right, more) = _split(tree.left, where, path), _split(tree.right, where, path)
        return _sum(left, tree.op, right), _sum(noise, tree.op, more)
    elif isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult | ast.MatMult | ast.Div) and not draws(tree.right):
        return _around(_split(tree.left, where, path), lambda x: ast.BinOp(x, tree.op, tree.right))
    elif isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult | ast.MatMult) and not draws(tree.left):
        return _around(_split(tree.right, where, path), lambda x: ast.BinOp(tree.left, tree.op, x))
    what = f"the {where} has noise in {ast.unparse(tree)!r}"
    raise MalformedBody(
        f"{what}; noise is a term, which may have factors: drift + sigma * noise(), or L @ noise(x) with a matrix L", path
    )


def _refuse_mean(call: ast.Call, where: str, path: tuple[str, ...]) -> None:
    """See that the mean of random numbers is 0.

    Raises
    ------
    MalformedBody
    """
    name, mean = ast.unparse(call.func), call.args[0] if call.args else None
    is_zero = name == "normal" and isinstance(mean, ast.Constant) and mean.value == 0
    if name not in CENTRED or (name == "normal" and not is_zero and (call.args or call.keywords)):
        raise MalformedBody(
            f"the {where} has {ast.unparse(call)!r}, which is scaled by sqrt({STEP}) with its mean; only noise(), or "
            f"normal(0, spread), has the mean 0. Write mean + spread * noise(), or carry what is drawn in an equation of its own",
            path,
        )


def _around(parts: Parts, change: Callable[[ast.expr], ast.expr]) -> Parts:
    slope, spread = parts
    return None if slope is None else change(slope), None if spread is None else change(spread)


def _sum(left: ast.expr | None, op: ast.operator, right: ast.expr | None) -> ast.expr | None:
    if left is None:
        return ast.UnaryOp(ast.USub(), right) if right is not None and isinstance(op, ast.Sub) else right
    return left if right is None else ast.BinOp(left, op, right)


def _renamed(tree: ast.expr, names: Mapping[str, str]) -> ast.expr:
    """An expression with other names."""
    return filled(tree, {name: ast.Name(other, ast.Load()) for name, other in names.items()})
