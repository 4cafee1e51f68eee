"""What bodies of equations say: text or a mapping, read into names and the texts of their expressions."""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mdf_loop.errors import MalformedBody, Together, did_you_mean, in_words
from mdf_loop.ir.fresh_names import FreshNames
from mdf_loop.readers.expressions.derivatives import INDICES, STAGES, STEP, expand, refuse_standing_time
from mdf_loop.readers.expressions.expression_text import as_name, number_in
from mdf_loop.readers.expressions.other_notations import as_derivative, as_equation, meant_by_comma, meant_by_list

CARRIED, COLLECTED, WHILE, LET, INDEX, SCANNED = "carried", "collected", "while", "let", "index", "scanned"

CAPTURED = "captured"

DERIVATIVES, METHOD = "derivatives", "method"

KEYS = (CARRIED, COLLECTED, WHILE, LET, INDEX, SCANNED, CAPTURED, DERIVATIVES, METHOD, STEP)
"""What a mapping may say."""

NUMBERS = {"pi": "math.pi", "tau": "math.tau", "inf": "math.inf", "nan": "math.nan"}
"""Names that are numbers, unless the body or what is around it has a value of that name."""

AMBIENT = frozenset({*NUMBERS, *INDICES})
"""Names that mean something in every body: those of values around it win over them."""

_LINE = re.compile(r"\s*(?:(let|collect)\s+|(d)(?=\w+/dt\s*:))?([^\W\d]\w*)(?:(?<=\w)/dt)?\s*:(?!:)\s*(.*)", re.DOTALL)
_START = re.compile(r"\s*(?:#[^\n]*\n\s*)*(?:(?:let|collect)\s+)?[^\W\d]\w*(?:/dt)?\s*:(?![:\\/])(?!\S*\.onnx)")
_BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


@dataclass
class Equations:
    """What a body says, each part in its order; the texts of expressions by name.

    Derivatives are carried values too; ``stages`` are the ``let`` that methods of several stages need for these, each with the
    place of what it is made of.
    """

    carried: dict[str, str] = field(default_factory=dict)
    collected: dict[str, str] = field(default_factory=dict)
    let: dict[str, str] = field(default_factory=dict)
    going: str | None = None
    index: str = ""
    scanned: tuple[str, ...] = ()
    captured: tuple[str, ...] = ()
    derivatives: dict[str, str] = field(default_factory=dict)
    method: str = ""
    stages: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """What an iteration begins with."""
        return (*self.carried, *self.scanned)

    @property
    def number(self) -> str:
        """What the iteration number is called."""
        taken = {*self.names, *self.let, *self.captured}
        return self.index or next((name for name in INDICES if name not in taken), "") or FreshNames(taken).fresh(INDICES[-1])

    def path(self, place: str) -> tuple[str, ...]:
        """Where a text is written, such as ``let y`` or ``carried x``: its line, or its name in a mapping."""
        place = self.stages.get(place.removeprefix("let "), place)
        line = self.lines.get(place)
        return ("equations", f"line {line}" if line else place.removeprefix("carried "))

    def as_mapping(self) -> dict[str, Any]:
        """The same as a mapping, with carried values in the place of derivatives."""
        parts: dict[str, Any] = {CARRIED: self.carried, COLLECTED: self.collected, LET: self.let}
        parts |= {WHILE: self.going, INDEX: self.index, SCANNED: [*self.scanned], CAPTURED: [*self.captured]}
        return {key: part for key, part in parts.items() if part}


def is_equations(source: Any) -> bool:
    """Whether a source is a body of equations: a mapping with their keys, or lines of text that are no graph of ONNX."""
    if isinstance(source, Mapping):
        said = [key for key in (CARRIED, COLLECTED, DERIVATIVES) if key in source]
        return bool(said) and not any(isinstance(source[key], Mapping) and "nodes" in source[key] for key in said)
    if not isinstance(source, str) or "=>" in source:
        return False
    return _START.match(source) is not None or ("\n" in source.strip() and "{" not in source)


def equations_in(source: Any) -> Equations:
    """What a body of equations says, as text or as a mapping; derivatives as the carried values that they become.

    Raises
    ------
    MalformedBody
    """
    said = _of_text(source) if isinstance(source, str) else _of_mapping(source)
    expand(said, texts_of(said))
    return said


def within(source: Any, names: Collection[str]) -> Any:
    """A body with values of such names around it: equations say that they capture those which mean something else."""
    if AMBIENT.isdisjoint(names) or not is_equations(source):
        return source
    around = sorted(AMBIENT.intersection(names))
    try:
        said = equations_in(source)
    except MalformedBody:  # reading it raises the error
        return source
    texts = " ".join(text for *_, text in texts_of(said))
    local = {*said.names, *said.let, *said.captured, said.index}
    captured = [name for name in around if name not in local and re.search(rf"\b{name}\b", texts)]
    if not captured:
        return source
    said.captured = (*said.captured, *captured)
    if isinstance(source, Mapping):  # which stays as it was written
        return {**source, CAPTURED: [*said.captured]}
    refuse_standing_time(said, said.number)  # reading what its derivatives have become does not show it
    return said.as_mapping()


def names_of(source: Any) -> list[str]:
    """The names that a body of equations gives its values; none if it is no such body, or cannot be read."""
    said = _if_any(source)
    return [*said.names, *said.let, *said.collected]


def names_hidden_by(source: Any) -> set[str]:
    """Those of them that its expressions read, whatever the node calls so."""
    said = _if_any(source)
    return {*said.names, *said.let}


def _if_any(source: Any) -> Equations:
    try:
        return equations_in(source) if is_equations(source) else Equations()
    except MalformedBody:  # reading it raises the error
        return Equations()


def lines_of(said: Equations) -> list[str]:
    """Equations as they are written in text, derivatives as the carried values that they become."""
    words = {"carried": "", "let": "let ", "collect": "collect ", "while": ""}
    return [f"{words[place.partition(' ')[0]]}{name}: {text}" for place, name, text in texts_of(said)]


def texts_of(said: Equations) -> Iterator[tuple[str, str, str]]:
    """Every expression: its place, its name and its text."""
    for word, texts in (("let", said.let), ("carried", said.carried), ("collect", said.collected)):
        yield from ((f"{word} {name}", name, text) for name, text in texts.items())
    if said.going is not None:
        yield "while", "while", said.going


def check_names(said: Equations) -> None:
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
    said.index = said.number
    if not said.carried and not said.collected:
        raise MalformedBody("equations: nothing is carried and nothing collected; write a line such as x: x + 1")


_OF_OTHER_KINDS = {
    "loop": {SCANNED: "a Loop scans nothing: write function: onnx::Scan, or read an element, such as u[i]"},
    "scan": {
        WHILE: "a Scan reads all elements, so it has no condition: write function: onnx::Loop, and u[i] for an element",
        INDEX: "a Scan has no iteration number: write function: onnx::Loop, and u[i] for an element",
    },
    "branch": dict.fromkeys((WHILE, INDEX, SCANNED), "a branch runs once, so it has none"),
}
"""Keys that a body of a kind does not have, each with the reason; without a word they would do nothing."""


def refuse_of_other_kinds(said: Equations, kind: str) -> None:
    """See that equations have nothing that only bodies of other kinds have.

    Raises
    ------
    MalformedBody
    """
    has = {WHILE: said.going is not None, INDEX: bool(said.index), SCANNED: bool(said.scanned)}
    for key, reason in _OF_OTHER_KINDS[kind].items():
        if has[key]:
            raise MalformedBody(reason, said.path(key))


def _of_mapping(source: Mapping[str, Any]) -> Equations:
    together = Together()
    for name in sorted(set(map(str, source)) - set(KEYS)):
        wrong = f"a body of equations has {', '.join(KEYS)}; unknown: {name}{meant_by_key(name, source.get(name))}"
        together.add(MalformedBody(wrong, ("equations", name)))
    parts = {key: _part(source.get(key), key, together) for key in (CARRIED, COLLECTED, LET, DERIVATIVES)}
    carried = {name: text for key in source if key in (CARRIED, DERIVATIVES) for name, text in parts[key].items()}
    if both := sorted(set(parts[CARRIED]) & set(parts[DERIVATIVES])):
        together.add(
            MalformedBody(
                f"equations: {both[0]!r} is carried and has a derivative as well; leave one out (a value that jumps, as at a "
                f"spike, is carried with its step: {both[0]}: where(..., reset, {both[0]} + dt * ...))"
            )
        )
    step, text = (None if source.get(key) is None else _expression(source[key], key, together) for key in (STEP, WHILE))
    if step is not None:
        parts[LET] = {STEP: step, **parts[LET]}
    scanned, captured = (_listed(source.get(key) or (), key) for key in (SCANNED, CAPTURED))
    index = "".join(_listed(source.get(INDEX) or (), INDEX))
    together.settle()
    said = Equations(carried, parts[COLLECTED], parts[LET], text, index, scanned, captured)
    said.derivatives, said.method = parts[DERIVATIVES], str(source.get(METHOD) or "")
    return said


_ELSEWHERE = {
    **dict.fromkeys(("init", "initial", "v_initial", "start"), "; initial values are args of the loop: {x: 0.0}"),
    "equations": "; equations are in carried: {x: x + 1}, and derivatives in derivatives: {x: -x}",
    **dict.fromkeys(("parameters", "params", "constants"), "; these are parameters of the node"),
    **dict.fromkeys(("M", "for", "steps", "repeat", "trip_count"), "; the number of iterations is M in the args of the loop"),
    **dict.fromkeys(("until", "stop", "end", "break"), "; a loop goes on while something is true: while: not (...)"),
    **dict.fromkeys(("cond", "condition", "go", "keep_going"), "; the condition to go on is while: ..."),
}
"""Keys of what a body does not say, and where it is said."""


def meant_by_key(key: Any, content: Any) -> str:
    """What a key was probably meant as that no body has."""
    more = f"; an equation is in {CARRIED}: {{{key}: {content}}}" if isinstance(content, str) and str(key).isidentifier() else ""
    elsewhere = _ELSEWHERE.get(str(key), "").replace("...", content if isinstance(content, str) else "...")
    return elsewhere or as_derivative(key, content) or did_you_mean(key, KEYS) or more


def _listed(names: Any, key: str) -> tuple[str, ...]:
    """Names: one, or a list of them."""
    listed = tuple(names) if isinstance(names, list | tuple) and key != INDEX else (names,) if names else ()
    for name in listed:
        if not isinstance(name, str) or not name.isidentifier():
            raise MalformedBody(f"equations: {key} {'is a name' if key == INDEX else 'are names'}; got {name!r}")
    return tuple(map(as_name, listed))


def _part(content: Any, key: str, together: Together) -> dict[str, str]:
    if content is None:
        return {}
    if not isinstance(content, Mapping):
        example = {COLLECTED: "{path: x}", DERIVATIVES: "{x: -x}"}.get(key, "{x: x + 1}")
        is_listed = isinstance(content, list) and any(isinstance(part, Mapping) for part in content)
        meant = "; write it without - and without [ ]" if is_listed else as_derivative(content) or as_equation(str(content))
        got = f"got {in_words(content)[:60]}{meant}"
        together.add(MalformedBody(f"it is a mapping from names to expressions, such as {example}; {got}", ("equations", key)))
        return {}
    found = dict[str, str]()
    if None in content.values() and (split := meant_by_comma(content)):
        together.add(MalformedBody(split[2:], ("equations", key)))
        return {}
    for name, text in content.items():
        if name == WHILE or (name in KEYS and isinstance(text, Mapping)):
            said = f"{name!r} is a key of the body, not a value in {key}: indent it as {key} is indented"
            together.add(MalformedBody(said, ("equations", key, name)))
        elif not isinstance(name, str) or not name.isidentifier():
            word, _, value = str(name).partition(" ")
            plain = re.sub(r"\W+", "_", str(name).strip())
            meant = as_derivative(name, text) or (f"; write {plain}" if plain.isidentifier() else "")
            if key == CARRIED and re.search(r"\w[\[(]", str(name)):
                meant = as_equation(f"{name}: {text}") or meant
            if word in ("let", "collect"):
                meant = f"; write {LET if word == 'let' else COLLECTED}: {{{value}: {text}}}"
            said = f"a name has letters, digits and _, and a colon behind it: x: x + 1; got {name!r}{meant}"
            together.add(MalformedBody(said, ("equations", key, str(name))))
        else:
            found[as_name(name)] = _expression(text, f"{key} {name}", together)
    return found


def _expression(text: Any, where: str, together: Together) -> str:
    """The text of an expression; a number alone is one, and so are true and false of YAML."""
    if not isinstance(text, str | bool | int | float):
        got = "nothing" if text is None else in_words(text)[:60]
        listed = meant_by_list(text, where == WHILE) if isinstance(text, list) else ""
        path = ("equations", where.removeprefix("carried "))
        together.add(MalformedBody(f"it is an expression; got {got}{listed}", path))
    return text if isinstance(text, str) else repr(text)


def _of_text(text: str) -> Equations:
    said, together = Equations(), Together()
    for number, line in _lines(text):
        try:
            _read_line(said, line, number)
        except MalformedBody as error:
            together.add(error)
    together.settle()
    _refuse_keys(said)
    if said.derivatives and number_in(said.carried.get(STEP, "")) is not None:
        said.let = {STEP: said.carried.pop(STEP), **said.let}
        said.lines[f"let {STEP}"] = said.lines.pop(f"carried {STEP}")
    return said


def _refuse_keys(said: Equations) -> None:
    """See that no line that is carried was meant as a key.

    Raises
    ------
    MalformedBody
    """
    method, until, collect = (said.carried.get(name, "") for name in (METHOD, "until", "collect"))
    if said.derivatives and method.isidentifier():
        meant = f"method is {', '.join(STAGES)}; got {method!r}{did_you_mean(method, STAGES)}"
        raise MalformedBody(f"equations, line {said.lines[f'carried {METHOD}']}: {meant}")
    if re.search("[<>]|==", until):
        raise MalformedBody(f"equations, line {said.lines['carried until']}: {meant_by_key('until', until)[2:]}")
    if collect.isidentifier() and collect != "collect":
        raise MalformedBody(
            f"equations, line {said.lines['carried collect']}: what is collected has a name: collect path: {collect}"
        )


def _read_line(said: Equations, line: str, number: int) -> None:
    found = _LINE.fullmatch(line)
    if found is None:
        wrong = f"{line.strip()!r} is not x: expression, collect x: ... or while: ..."
        raise MalformedBody(f"equations, line {number}: {wrong}{as_equation(line.strip())}")
    word, derivative, name, expression = found.groups()
    word = word or ("derivative" if derivative else "")
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
        said.scanned, taken = _names_in(text), bool(said.scanned)
    elif not word and name == CAPTURED and all(part.isidentifier() for part in _names_in(text)):
        said.captured, taken = _names_in(text), bool(said.captured)
    elif not word and name == METHOD and text in STAGES:
        said.method, taken = text, bool(said.method)
    else:
        part = {"": said.carried, "let": said.let, "collect": said.collected, "derivative": said.carried}[word]
        taken, part[name] = name in part, text
        if word == "derivative":
            said.derivatives[name], word = text, ""
    if taken:
        raise MalformedBody(f"equations, line {number}: {name} is defined twice")
    said.lines[{"": f"carried {name}", "while": "while"}.get(word, f"{word} {name}")] = number
    if not all(part.isidentifier() for part in (said.index or INDICES[0], *said.scanned)):
        raise MalformedBody(f"equations, line {number}: {text!r} is not a name")


def _names_in(text: str) -> tuple[str, ...]:
    return tuple(as_name(part.strip()) for part in text.split(","))


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
