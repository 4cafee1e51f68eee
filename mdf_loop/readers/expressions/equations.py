"""Bodies as equations: one line for each value that goes round, for each that is collected, and for the condition.

As text::

    let step: drift * dt + sqrt(dt) * noise()
    x: x + step
    t: t + dt
    collect path: x
    while: abs(x) < bound

and the same as a mapping, for model files::

    let: {step: drift * dt + sqrt(dt) * noise()}
    carried: {x: x + step, t: t + dt}
    collected: {path: x}
    while: abs(x) < bound

Names on the right of ``let`` and of carried values are values as the iteration found them, all of them, so equations can
be written in any order.  ``collect`` and ``while`` see what the iteration made.  Any other name is captured; a few are numbers
(:data:`NUMBERS`) or the iteration number unless ``captured: [tau]`` says that they come from outside, as do all names that a
node of MDF or a call has.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mdf_loop.errors import LoopError, MalformedBody, Together, UnsupportedOp, did_you_mean, in_words
from mdf_loop.ir import Body
from mdf_loop.ir.check import check_body
from mdf_loop.kernels import load_kernels
from mdf_loop.ops.registry import KERNELS
from mdf_loop.readers.expressions.calls import BUILTINS, op_of
from mdf_loop.readers.expressions.expression import Compiler
from mdf_loop.readers.expressions.text import as_name, parse, variables
from mdf_loop.readers.expressions.values import DOMAIN, Builder, Findings, NotCompiled, Number, Value
from mdf_loop.readers.onnx.opsets import DEFAULT_OPSET

CARRIED, COLLECTED, WHILE, LET, INDEX, SCANNED = "carried", "collected", "while", "let", "index", "scanned"

CAPTURED = "captured"

EQUATIONS = "equations"
"""What a body of equations is called."""

KEYS = (CARRIED, COLLECTED, WHILE, LET, INDEX, SCANNED, CAPTURED)
"""What a mapping may say."""

NUMBERS = {"pi": "math.pi", "tau": "math.tau", "inf": "math.inf", "nan": "math.nan"}
"""Names that are numbers, unless the body or what is around it has a value of that name."""

USUAL_INDEX = "i"
"""What the iteration number is called, unless something else has that name."""

AMBIENT = frozenset({*NUMBERS, USUAL_INDEX})
"""Names that mean something in every body: those of values around it win over them."""

DRAWS = {"noise": ("numpy.random.randn", "numpy.random.normal"), "uniform": ("numpy.random.rand", "numpy.random.uniform")}
"""Random numbers: ``noise()`` is one, ``noise(x)`` as many as x has elements."""

ARRAY_FUNCTIONS: dict[str, tuple[str, str | None]] = {
    "sum": ("numpy.sum", None),
    "round": ("numpy.round", None),
    "min": ("numpy.min", "numpy.minimum"),
    "max": ("numpy.max", "numpy.maximum"),
}
"""Functions that Python has too, and that mean numpy's here: of one array, and of several."""

_LINE = re.compile(r"\s*(?:(let|collect)\s+)?([^\W\d]\w*)\s*:(?!:)\s*(.*)", re.DOTALL)
_START = re.compile(r"\s*(?:#[^\n]*\n\s*)*(?:(?:let|collect)\s+)?[^\W\d]\w*\s*:(?:\s|$)")
_BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


@dataclass
class Equations:
    """What a body says, each part in its order; the texts of expressions by name."""

    carried: dict[str, str] = field(default_factory=dict)
    collected: dict[str, str] = field(default_factory=dict)
    let: dict[str, str] = field(default_factory=dict)
    going: str | None = None
    index: str = ""
    scanned: tuple[str, ...] = ()
    captured: tuple[str, ...] = ()
    lines: dict[str, int] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """What an iteration begins with."""
        return (*self.carried, *self.scanned)

    def as_mapping(self, captured: Iterable[str]) -> dict[str, Any]:
        """The same as a mapping, in which further names are captured."""
        parts: dict[str, Any] = {CARRIED: self.carried, COLLECTED: self.collected, LET: self.let}
        parts |= {WHILE: self.going, INDEX: self.index, SCANNED: [*self.scanned], CAPTURED: [*self.captured, *captured]}
        return {key: part for key, part in parts.items() if part}


def is_equations(source: Any) -> bool:
    """Whether a source is a body of equations: a mapping with their keys, or text that begins with one."""
    if isinstance(source, Mapping):
        said = [key for key in (CARRIED, COLLECTED) if key in source]
        return bool(said) and not any(isinstance(source[key], Mapping) and "nodes" in source[key] for key in said)
    return isinstance(source, str) and "=>" not in source and _START.match(source) is not None


def equations_in(source: Any) -> Equations:
    """What a body of equations says, as text or as a mapping.

    Raises
    ------
    MalformedBody
    """
    return _of_text(source) if isinstance(source, str) else _of_mapping(source)


def within(source: Any, names: Container[str]) -> Any:
    """A body with values of such names around it: equations say that they capture those which mean something else."""
    around = [name for name in sorted(AMBIENT) if name in names]
    if not around or not is_equations(source):
        return source
    try:
        said = equations_in(source)
    except MalformedBody:  # which is told when it is read
        return source
    texts = " ".join(text for *_, text in _texts(said))
    local = {*said.names, *said.let, *said.captured, said.index}
    captured = [name for name in around if name not in local and re.search(rf"\b{name}\b", texts)]
    return said.as_mapping(captured) if captured else source


def read_equations(source: Any, kind: str = "loop") -> Body:
    """Equations as a body.

    Parameters
    ----------
    source : mapping or str
    kind : {"loop", "scan", "branch"}
        What the body is for: its inputs and outputs follow from that.  In a branch what is carried are its outputs.

    Returns
    -------
    Body
        Untyped: values keep the types they come with.

    Raises
    ------
    MalformedBody
        Something in it is no equation, or no expression; says which line; ``others`` say what else is wrong.
    UnsupportedOp
        It calls a function there is none of.
    """
    load_kernels()
    said = equations_in(source)
    _check_names(said)
    findings = Findings()
    while True:
        findings.changed = False
        try:
            body = _Reader(said, kind, findings).body()
        except NotCompiled as error:
            raise MalformedBody(f"equations: {error}, which is not possible here") from error
        if not findings.changed:
            return check_body(body, (EQUATIONS,))


class _Reader:
    """Equations on their way into a body."""

    def __init__(self, said: Equations, kind: str, findings: Findings) -> None:
        self.said, self.kind, self.together = said, kind, Together()
        inner = {*said.names, *said.let, *([said.index] if kind == "loop" else ())}
        self.trees = self._trees(inner)
        free = {name for tree in self.trees.values() for name in variables(tree)} - inner
        captured = sorted(free)
        self.condition = _unused("condition", {*inner, *captured})
        first = {"loop": (said.index, self.condition), "scan": (), "branch": ()}[kind]
        entering = () if kind == "branch" else said.names
        self.builder = Builder(findings, (*first, *entering), captured, DEFAULT_OPSET)
        self.begin: dict[str, Value] = {name: Value(name) for name in (*first, *entering)}
        self.begin |= {name: Value(name, varies=False) for name in captured}

    def body(self) -> Body:
        """Everything, in order."""
        said, builder = self.said, self.builder
        for name in self._lets():
            self.begin[name] = self._value(f"let {name}", name, self.begin)
        new = {name: self._settled(f"carried {name}", f"{name}_next", self.begin) for name in said.carried}
        after = {**self.begin, **new}
        collected = [self._settled(f"collect {name}", name, after, False) for name in said.collected]
        going = [self._value("while", "goes_on", after) if said.going else Value(self.condition)] if self.kind == "loop" else []
        self.together.settle()
        made = builder.finish(EQUATIONS, [*going, *new.values(), *collected], {"": DEFAULT_OPSET, DOMAIN: 1})
        return replace(made, ends=said.going is not None)

    def _lets(self) -> list[str]:
        """The names of ``let``, each behind those that it reads; those that read each other where they stand."""
        ordered: list[str] = []

        def add(name: str, waiting: tuple[str, ...]) -> None:
            for read in variables(self.trees[place]) if (place := f"let {name}") in self.trees else ():
                if read in self.said.let and read not in (*ordered, *waiting):
                    add(read, (*waiting, read))
            if name not in ordered:
                ordered.append(name)

        for name in self.said.let:
            add(name, (name,))
        return ordered

    def _value(self, place: str, base: str, scope: Mapping[str, Value]) -> Value:
        """A value; what is wrong with its expression is kept, and something stands for it."""
        if place not in self.trees:
            return Value(base)
        try:
            value = Compiler(self._text(place), scope, self.builder, base, self._path(place)).top(self.trees[place])
            return self.builder.array(value, base)
        except LoopError as error:
            self.together.add(error)
        except NotCompiled as error:
            self.together.add(MalformedBody(f"{error}, which is not possible here", self._path(place)))
        return Value(base)

    def _settled(self, place: str, base: str, scope: Mapping[str, Value], is_carried: bool = True) -> Value:
        """A value that leaves the body: an array, whose type does not depend on Python's numbers."""
        value = self._value(place, base, scope)
        return self.builder.tensor(value, base, floating=value.number >= Number.FLOAT) if is_carried else value

    def _text(self, place: str) -> str:
        return next(text for found, _, text in _texts(self.said) if found == place)

    def _path(self, place: str) -> tuple[str, ...]:
        line = self.said.lines.get(place)
        return (EQUATIONS, f"line {line}" if line else place.removeprefix("carried "))

    def _trees(self, known: set[str]) -> dict[str, ast.expr]:
        """The expressions by place, but for those that are none: what is wrong with them is kept."""
        trees, known = {}, {*known, *self.said.captured}
        for place, name, text in _texts(self.said):
            try:
                trees[place] = self._tree(text, known, place, name)
            except LoopError as error:
                self.together.add(error)
        return trees

    def _tree(self, text: str, known: set[str], place: str, name: str) -> ast.expr:
        try:
            return parse(text, self._path(place), lambda tree: _Plain(known).visit(tree))
        except UnsupportedOp as error:
            path = f"{'/'.join(self._path(place))}: "
            raise UnsupportedOp(path + str(error).removeprefix(path)) from error


class _Plain(ast.NodeTransformer):
    """Functions and numbers by their names alone, as formulas have them: ``sqrt(x)`` is ``numpy.sqrt(x)``."""

    def __init__(self, known: set[str]) -> None:
        self.known = known

    def visit_Call(self, tree: ast.Call) -> ast.AST:
        """A call; one of a function that is not there stays as it is, to be refused by name."""
        self.generic_visit(tree)
        if not isinstance(tree.func, ast.Name):
            return tree
        name = tree.func.id
        if name in ARRAY_FUNCTIONS:
            return self._of_arrays(name, tree)
        if name in BUILTINS:
            return tree
        if name in DRAWS and not tree.keywords and len(tree.args) <= 1:
            alone, alike = DRAWS[name]
            if not tree.args:
                return _at(ast.Call(_dotted(alone, tree), [], []), tree)
            zeros = _at(ast.Call(_dotted("numpy.zeros_like", tree), tree.args, []), tree)
            return _at(ast.Call(_dotted(alike, tree), [zeros], []), tree)
        if name in DRAWS:
            raise UnsupportedOp(
                f"{name}() draws one number, {name}(x) as many as x has; it takes nothing else: scale what it gives"
            )
        if op_of(f"numpy.{name}") is not None:
            tree.func = _dotted(f"numpy.{name}", tree)
        elif op_of(f"math.{name}") is not None:
            tree.func = _dotted(f"math.{name}", tree)
        else:
            raise UnsupportedOp(f"there is no function {name!r}{_close(name)}")
        return tree

    def _of_arrays(self, name: str, tree: ast.Call) -> ast.Call:
        """``sum(x)`` is that of all elements, and ``max(a, b)`` goes by elements, as formulas mean them."""
        alone, several = ARRAY_FUNCTIONS[name]
        if len(tree.args) == 1 or tree.keywords or several is None:
            tree.func = _dotted(alone, tree)
            return tree
        made = tree.args[0]
        for other in tree.args[1:]:
            made = _at(ast.Call(_dotted(several, tree), [made, other], []), tree)
        return made if isinstance(made, ast.Call) else tree

    def visit_Name(self, tree: ast.Name) -> ast.AST:
        """A name that is a number, where the body does not have it."""
        return _dotted(NUMBERS[tree.id], tree) if tree.id in NUMBERS and tree.id not in self.known else tree


def _close(name: str) -> str:
    functions = [op.partition(".")[2] for domain, op in KERNELS if domain == DOMAIN and op.startswith(("numpy.", "math."))]
    return did_you_mean(name, [*functions, *DRAWS, *BUILTINS])


def _at(made: Any, tree: ast.AST) -> Any:
    return ast.copy_location(made, tree)


def _dotted(name: str, tree: ast.AST) -> Any:
    head, *rest = name.split(".")
    made: Any = _at(ast.Name(head, ast.Load()), tree)
    for part in rest:
        made = _at(ast.Attribute(made, part, ast.Load()), tree)
    return made


def _texts(said: Equations) -> Iterator[tuple[str, str, str]]:
    """Every expression: its place, its name and its text."""
    for word, texts in (("let", said.let), ("carried", said.carried), ("collect", said.collected)):
        yield from ((f"{word} {name}", name, text) for name, text in texts.items())
    if said.going is not None:
        yield "while", "while", said.going


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _check_names(said: Equations) -> None:
    """See that each name has one meaning.

    Raises
    ------
    MalformedBody
    """
    seen: dict[str, str] = {}
    index = [said.index] if said.index else []
    meanings = [("carried", said.carried), ("let", said.let), ("scanned", said.scanned), ("the iteration number", index)]
    for what, names in (*meanings, ("captured", said.captured)):
        for name in names:
            if name in seen:
                raise MalformedBody(f"equations: {name!r} is {seen[name]} and {what} as well")
            if keyword.iskeyword(name):
                meant = "index: k" if what.startswith("the") else f"{name}_"
                raise MalformedBody(
                    f"equations: {name!r} ({what}) is a word of Python, which no expression can read; rename it: {meant}"
                )
            seen[name] = what
    if not said.index:
        said.index = USUAL_INDEX if USUAL_INDEX not in seen else _unused("iteration", set(seen))
    if not said.carried and not said.collected:
        raise MalformedBody("equations: nothing is carried and nothing collected; write a line such as x: x + 1")


def _of_mapping(source: Mapping[str, Any]) -> Equations:
    if unknown := sorted(set(map(str, source)) - set(KEYS)):
        meant = "".join(did_you_mean(name, KEYS) for name in unknown)
        raise MalformedBody(f"a body of equations has {', '.join(KEYS)}; unknown: {', '.join(unknown)}{meant}")
    parts = {key: _part(source.get(key), key) for key in (CARRIED, COLLECTED, LET)}
    going, index = source.get(WHILE), source.get(INDEX)
    text = None if going is None else _expression(going, WHILE)
    scanned, captured = (_listed(source.get(key) or (), key) for key in (SCANNED, CAPTURED))
    return Equations(parts[CARRIED], parts[COLLECTED], parts[LET], text, "".join(_listed(index or (), INDEX)), scanned, captured)


def _listed(names: Any, key: str) -> tuple[str, ...]:
    """Names: one, or a list of them."""
    listed = tuple(names) if isinstance(names, list | tuple) and key != INDEX else (names,) if names else ()
    for name in listed:
        if not isinstance(name, str) or not name.isidentifier():
            raise MalformedBody(f"equations: {key} {'is a name' if key == INDEX else 'are names'}; got {name!r}")
    return tuple(map(as_name, listed))


def _part(content: Any, key: str) -> dict[str, str]:
    if content is None:
        return {}
    if not isinstance(content, Mapping):
        example = f"{{{'path: x' if key == COLLECTED else 'x: x + 1'}}}"
        raise MalformedBody(
            f"equations: {key} is a mapping from names to expressions, such as {example}; got {in_words(content)[:60]}"
        )
    for name in content:
        if not isinstance(name, str) or not name.isidentifier():
            raise MalformedBody(
                f"equations: {key} has the name {name!r}; a name has letters, digits and _, and a colon behind it: x: x + 1"
            )
    return {as_name(name): _expression(text, f"{key} {name}") for name, text in content.items()}


def _expression(text: Any, where: str) -> str:
    """The text of an expression; a number alone is one, and so are true and false of YAML."""
    if not isinstance(text, str | bool | int | float):
        raise MalformedBody(f"equations: {where} is an expression; got {in_words(text)[:60]}")
    return text if isinstance(text, str) else repr(text)


def _of_text(text: str) -> Equations:
    said, together = Equations(), Together()
    for number, line in _lines(text):
        try:
            _read_line(said, line, number)
        except MalformedBody as error:
            together.add(error)
    together.settle()
    return said


def _read_line(said: Equations, line: str, number: int) -> None:
    found = _LINE.fullmatch(line)
    if found is None:
        raise MalformedBody(f"equations, line {number}: {line.strip()!r} is none: x: expression, collect x: ..., while: ...")
    word, name, expression = found.groups()
    if not expression.strip():
        raise MalformedBody(f"equations, line {number}: {name} has no expression")
    _take(said, word or "", name, expression.strip(), number)


def _take(said: Equations, word: str, name: str, text: str, number: int) -> None:
    """Add one line."""
    name = as_name(name)
    if not word and name == WHILE:
        word, name, taken = "while", "while", said.going is not None
        said.going = text
    elif not word and name == INDEX:
        said.index, taken = as_name(text), False
    elif not word and name in (SCANNED, "scan"):
        said.scanned, taken = tuple(as_name(part.strip()) for part in text.split(",")), bool(said.scanned)
    else:
        part = {"": said.carried, "let": said.let, "collect": said.collected}[word]
        taken, part[name] = name in part, text
    if taken:
        raise MalformedBody(f"equations, line {number}: {name} was said before")
    said.lines[{"": f"carried {name}", "while": "while"}.get(word, f"{word} {name}")] = number
    if not all(part.isidentifier() for part in (said.index or USUAL_INDEX, *said.scanned)):
        raise MalformedBody(f"equations, line {number}: {text!r} is no name")


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, those put together that a bracket joins, each with its number."""
    joined, start, depth = "", 0, 0
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.partition("#")[0].rstrip()
        start = start if joined else number
        joined = f"{joined} {line.strip()}" if joined else line
        depth += sum(_BRACKETS.get(letter, 0) for letter in line)
        if depth <= 0 and joined.strip():
            yield start, joined
        if depth <= 0:
            joined, depth = "", 0
    if joined.strip():
        raise MalformedBody(f"equations, line {start}: a bracket is never closed")
