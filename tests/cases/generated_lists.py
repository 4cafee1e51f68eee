"""Loop bodies with lists, at random: statements that put in, take out, read, under If and in inner loops, as ONNX text."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from hypothesis import strategies as st

CONSTANTS = "".join(f", int64 at{k if k >= 0 else f'm{-k}'} = {{{k}}}" for k in range(-4, 5))
"""Places, by what the text calls them."""

EMPTY = "SequenceEmpty <dtype = 1> ()"


def at(k: int) -> str:
    """The name of a place."""
    return f"at{k}" if k >= 0 else f"atm{-k}"


@dataclass
class Writing:
    """A body while it is written: names of two lists and of a sum that are valid here."""

    row: str
    draw: st.DrawFn
    lists: list[str] = field(default_factory=lambda: ["c", "d"])
    total: str = "a"
    numbers: itertools.count = field(default_factory=itertools.count)

    def name(self) -> str:
        return f"v{next(self.numbers)}"

    def place(self) -> str:
        """A place that is a constant, or follows from the iteration, or None."""
        return self.draw(st.sampled_from([*map(at, (-3, -2, -1, -1, 0, 0, 1, 2)), "i_mod", "", ""]))

    def inside(self) -> Writing:
        return Writing(self.row, self.draw, list(self.lists), self.total, self.numbers)


def statement(w: Writing, depth: int) -> str:
    """One statement."""
    kinds = [append, append, pop, read, insert, replaced, length, stacked, swap, begin_again]
    kinds += [branch, branch, guarded, inner, over] if depth else []
    return w.draw(st.sampled_from(kinds))(w, depth)


def which(w: Writing) -> int:
    return w.draw(st.integers(0, 1))


def append(w, depth):
    k, new = which(w), w.name()
    text = f"{new} = SequenceInsert ({w.lists[k]}, {w.draw(st.sampled_from(['r', w.total]))})\n"
    w.lists[k] = new
    return text


def pop(w, depth):
    k, new, where = which(w), w.name(), w.place()
    text = f"{new} = SequenceErase ({', '.join(x for x in (w.lists[k], where) if x)})\n"
    w.lists[k] = new
    return text


def read(w, depth):
    value, total = w.name(), w.name()
    text = f"{value} = SequenceAt ({w.lists[which(w)]}, {w.place() or 'atm1'}) {total} = Sub ({value}, {w.total})\n"
    w.total = total
    return text


def insert(w, depth):
    k, new = which(w), w.name()
    text = f"{new} = SequenceInsert ({w.lists[k]}, r, {w.place() or 'at0'})\n"
    w.lists[k] = new
    return text


def replaced(w, depth):
    """TorchScript's ``list[k] = value``."""
    k, left, new, where = which(w), w.name(), w.name(), w.place() or "at0"
    text = f"{left} = SequenceErase ({w.lists[k]}, {where}) {new} = SequenceInsert ({left}, {w.total}, {where})\n"
    w.lists[k] = new
    return text


def length(w, depth):
    number, value, total = w.name(), w.name(), w.name()
    text = f"{number} = SequenceLength ({w.lists[which(w)]}) {value} = Cast <to = 1> ({number}) "
    text, w.total = text + f"{total} = Sub ({w.total}, {value})\n", total
    return text


def stacked(w, depth):
    whole, most, total = w.name(), w.name(), w.name()
    text = f"{whole} = ConcatFromSequence <axis = 0, new_axis = 1> ({w.lists[which(w)]}) "
    text += f"{most} = ReduceMax <keepdims = 0> ({whole}, first) {total} = Max ({most}, {w.total})\n"
    w.total = total
    return text


def swap(w, depth):
    w.lists.reverse()
    return ""


def begin_again(w, depth):
    k, new = which(w), w.name()
    w.lists[k] = new
    return f"{new} = {w.draw(st.sampled_from([EMPTY, 'SequenceConstruct (r)', 'SequenceConstruct (r, r)']))}\n"


def several(w, depth):
    return "".join(statement(w, depth) for _ in range(w.draw(st.integers(1, 3))))


def side(w, depth, is_empty):
    """A branch: what it changes, and its three results."""
    inner = w.inside()
    text = "" if is_empty else several(inner, depth - 1)
    names = [w.name() for _ in range(3)]
    given = [*inner.lists, inner.total]
    return text + " ".join(f"{n} = Identity ({x})" for n, x in zip(names, given, strict=True)), names


def under(w, depth, condition):
    results = [w.name() for _ in range(3)]
    sides = [side(w, depth, False), side(w, depth, w.draw(st.booleans()))]
    graphs = [f"{label} () => ({', '.join(names)}) {{ {text} }}" for label, (text, names) in zip(("t", "e"), sides, strict=True)]
    w.lists, w.total = results[:2], results[2]
    return f"{', '.join(results)} = If ({condition}) <then_branch = {graphs[0]}, else_branch = {graphs[1]}>\n"


def branch(w, depth):
    return under(w, depth, w.draw(st.sampled_from(["even", "high"])))


def guarded(w, depth):
    """What is done where a list has more than so many elements."""
    number, condition = w.name(), w.name()
    text = f"{number} = SequenceLength ({w.lists[which(w)]}) {condition} = Greater ({number}, {at(w.draw(st.integers(0, 4)))})\n"
    return text + under(w, depth, condition)


def inner(w, depth):
    """A loop inside, which goes on with both lists."""
    inside = Writing(w.row, w.draw, [w.name(), w.name()], w.name(), w.numbers)
    carried = ", ".join([*(f"seq({w.row}) {x}" for x in inside.lists), f"{w.row} {inside.total}"])
    number, going, going_1, before = w.name(), w.name(), w.name(), ", ".join([*w.lists, w.total])
    text, results, ends = several(inside, depth - 1), [w.name() for _ in range(3)], [w.name() for _ in range(3)]
    given = [*inside.lists, inside.total]
    text += f"{going_1} = Identity ({going}) " + " ".join(f"{n} = Identity ({x})" for n, x in zip(ends, given, strict=True))
    w.lists, w.total = results[:2], results[2]
    return (
        f"{', '.join(results)} = Loop ({at(w.draw(st.integers(0, 3)))}, even, {before}) <body = inner (int64 {number}, "
        f"bool {going}, {carried}) => (bool {going_1}, {', '.join(ends)}) {{ {text} }}>\n"
    )


def over(w, depth):
    """A loop over the elements of a list."""
    number, going, value, before, after, count, total = (w.name() for _ in range(7))
    given, first, w.total = w.lists[which(w)], w.total, total
    text = f"{going}_1 = Identity ({going}) {value} = SequenceAt ({given}, {number}) {after} = Sub ({value}, {before})"
    inputs, outputs = f"int64 {number}, bool {going}, {w.row} {before}", f"{going}_1, {after}"
    graph = f"over ({inputs}) => ({outputs}) {{ {text} }}"
    return f"{count} = SequenceLength ({given}) {total} = Loop ({count}, , {first}) <body = {graph}>\n"


BEGINS = [EMPTY, "SequenceConstruct (zero)", "SequenceConstruct (zero, one, zero)", "SplitToSequence <keepdims = 0> (x)"]
ENDS = {
    "list": ("seq({row}) z", "z = Identity (c_n)"),
    "last": ("{row} z", "z = SequenceAt (c_n, atm1)"),
    "stack": ("z", "z = ConcatFromSequence <axis = 0, new_axis = 1> (c_n)"),
    "length": ("int64 z", "z = SequenceLength (c_n)"),
}


@st.composite
def models(draw: st.DrawFn) -> str:
    """The text of a model: a loop over x that carries two lists and a sum."""
    shape = draw(st.sampled_from(["", "3"]))
    row, zeros = (f"float[{shape}]", "{0, 0, 0}") if shape else ("float", "{0}")
    w = Writing(row, draw)
    inside = "".join(statement(w, 2) for _ in range(draw(st.integers(1, 4))))
    ends = " ".join(f"{n} = Identity ({x})" for n, x in zip(("c_1", "d_1", "a_1"), (*w.lists, w.total), strict=True))
    output, behind = ENDS[draw(st.sampled_from(list(ENDS)))]
    begins = [draw(st.sampled_from(BEGINS)) for _ in range(2)]
    return f"""<ir_version: 8, opset_import: ["": 18]>
    m (float[8{", " + shape if shape else ""}] x, int64 n) => ({output.format(row=row)}, {row} a_n)
      <int64[1] first = {{0}}, bool true = {{1}}, {row} zero = {zeros}, {row} one = {zeros.replace("0", "1")}{CONSTANTS}> {{
      c_0 = {begins[0]} d_0 = {begins[1]}
      c_n, d_n, a_n = Loop (n, true, c_0, d_0, zero) <body = b (int64 i, bool go, seq({row}) c, seq({row}) d, {row} a)
        => (bool go_1, c_1, d_1, a_1) {{
        go_1 = Identity (go) r = Gather (x, i) i_mod = Mod (i, at3) even_i = Mod (i, at2) even = Equal (even_i, at0)
        highest = ReduceMax <keepdims = 0> (r) high = Greater (highest, highest_of)
        {inside} {ends}
      }}> {behind}
    }}""".replace("highest_of", "half").replace("bool true = {1}", "bool true = {1}, float half = {0.5}")
