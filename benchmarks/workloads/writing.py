"""ONNX text of a body, written by doing arithmetic on names.

>>> w = Writing("double_it", "int64 i, bool go, double x")
>>> print(w.text(w.go, w["x"] * 2.0))
double_it (int64 i, bool go, double x) => (go_1, v1) <double k1 = {2.0}> {
    v1 = Mul (x, k1)
    go_1 = Identity (go)
}
"""

from __future__ import annotations

from typing import Any


class Name:
    """A value of the body that is being written."""

    def __init__(self, writing: Writing, name: str, kind: str) -> None:
        self.writing, self.name, self.kind = writing, name, kind

    def __add__(self, other: Any) -> Name:
        return self.writing("Add", self, other)

    def __radd__(self, other: Any) -> Name:
        return self.writing("Add", self.writing.constant(other, self.kind), self)

    def __sub__(self, other: Any) -> Name:
        return self.writing("Sub", self, other)

    def __rsub__(self, other: Any) -> Name:
        return self.writing("Sub", self.writing.constant(other, self.kind), self)

    def __mul__(self, other: Any) -> Name:
        return self.writing("Mul", self, other)

    def __rmul__(self, other: Any) -> Name:
        return self.writing("Mul", self.writing.constant(other, self.kind), self)

    def __truediv__(self, other: Any) -> Name:
        return self.writing("Div", self, other)

    def __rtruediv__(self, other: Any) -> Name:
        return self.writing("Div", self.writing.constant(other, self.kind), self)

    def __mod__(self, other: Any) -> Name:
        return self.writing("Mod", self, other)

    def __neg__(self) -> Name:
        return self.writing("Neg", self)

    def __lt__(self, other: Any) -> Name:
        return self.writing("Less", self, other, kind="bool")

    def __gt__(self, other: Any) -> Name:
        return self.writing("Greater", self, other, kind="bool")


class Writing:
    """A body being written; call it with an operator and its inputs to add a node.

    ``signature`` is the text of the inputs; ``captured`` that of outer values, with their types.
    """

    def __init__(self, name: str, signature: str, captured: str = "") -> None:
        self.name, self.signature = name, signature
        self.lines: list[str] = []
        self.constants: list[str] = []
        self._known: dict[tuple[str, str], Name] = {}
        self._count = 0
        self.inputs = [self._declared(part) for part in _parts(signature)]
        self._names = {value.name: value for value in [*self.inputs, *map(self._declared, _parts(captured))]}

    def __getitem__(self, name: str) -> Name:
        return self._names[name]

    def get(self, *names: str) -> list[Name]:
        """Several values at once."""
        return [self[name] for name in names]

    @property
    def go(self) -> Name:
        """The condition that came in: the loop goes on."""
        return self["go"]

    def __call__(self, op: str, *inputs: Any, kind: str = "", outputs: int = 1, **attrs: Any) -> Any:
        """Add a node; numbers among its inputs become constants of the type of the values beside them."""
        beside = next((value.kind for value in inputs if isinstance(value, Name) and value.kind != "bool"), "bool")
        given = [value if isinstance(value, Name) else self.constant(value, beside) for value in inputs]
        made = [self._new(kind or beside) for _ in range(outputs)]
        told = ", ".join(
            f"{key} = {value if isinstance(value, int | float | list) else _quoted(value)}" for key, value in attrs.items()
        )
        call = f"{op} <{told}>" if told else op
        self.lines.append(f"{', '.join(v.name for v in made)} = {call} ({', '.join(v.name for v in given)})")
        return made[0] if outputs == 1 else made

    def constant(self, value: Any, kind: str) -> Name:
        """A constant of the body: a number, a list of numbers, or text."""
        key = kind, repr(value)
        if key not in self._known:
            name = Name(self, f"k{len(self._known) + 1}", kind)
            items = value if isinstance(value, list) else [value]
            shown = ", ".join(
                _quoted(item) if isinstance(item, str) else str(int(item) if kind == "bool" else item) for item in items
            )
            self.constants.append(f"{kind}{f'[{len(items)}]' if isinstance(value, list) else ''} {name.name} = {{{shown}}}")
            self._known[key] = name
        return self._known[key]

    def add_line(self, line: str) -> None:
        """A node as it is."""
        self.lines.append(line)

    def text(self, *outputs: Name) -> str:
        """The whole body.  Outputs that are inputs, constants or named twice go through an Identity: onnxruntime wants it."""
        made = {name.strip() for line in self.lines for name in line.partition("=")[0].split(",")}
        names: list[str] = []
        for value in outputs:
            name = value.name
            if name not in made or name in names:
                name = f"{value.name}_{1 + sum(n.startswith(value.name) for n in names)}"
                self.lines.append(f"{name} = Identity ({value.name})")
            names.append(name)
        constants = f" <{', '.join(self.constants)}>" if self.constants else ""
        lines = "".join(f"    {line}\n" for line in self.lines)
        return f"{self.name} ({self.signature}) => ({', '.join(names)}){constants} {{\n{lines}}}"

    def _new(self, kind: str) -> Name:
        self._count += 1
        return Name(self, f"v{self._count}", kind)

    def _declared(self, text: str) -> Name:
        kind, _, name = text.rpartition(" ")
        return Name(self, name, kind.partition("[")[0])


def _parts(text: str) -> list[str]:
    """A list of declarations, split at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for k, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "," and not depth:
            parts.append(text[start:k].strip())
            start = k + 1
    return [*parts, text[start:].strip()] if text.strip() else []


def _quoted(text: str) -> str:
    return '"' + text + '"'
