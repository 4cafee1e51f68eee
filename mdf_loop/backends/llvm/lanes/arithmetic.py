"""Primitives as instructions: by operation and kind of numbers, a template over one number or several lanes.

The bits are numpy's, but for the payload of nan: no fast mathematics, no contraction, division and shifts of whole numbers as
numpy has them.  Transcendental functions are those of :mod:`mdf_loop.backends.llvm.mathematics`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mdf_loop.backends.llvm.lanes.element_types import BOOL, FLOAT32, CannotCompile, element
from mdf_loop.backends.llvm.lanes.vector_lanes import Lanes
from mdf_loop.backends.llvm.mathematics import library
from mdf_loop.backends.llvm.mathematics.elementary import Real
from mdf_loop.step.primitives import PRIMITIVES

Write = Callable[..., str]
"""``write(lanes, dtype, *args)``; all arguments have this type."""

WRITERS: dict[tuple[str, str], Write] = {}
"""By primitive and kind of numbers."""


def writes(kinds: str, *names: str) -> Callable[[Write], Write]:
    """Say how primitives of some kinds of numbers are written."""

    def decorate(write: Write) -> Write:
        WRITERS.update({(name, kind): write for name in names for kind in kinds})
        return write

    return decorate


def written(lanes: Lanes, name: str, dtype: np.dtype, args: Sequence[str]) -> str:
    """The value of a primitive whose arguments have one type; half precision is computed in float32 and rounded.

    Raises
    ------
    CannotCompile
        There is no template for it.
    """
    kind = element(dtype).kind
    if kind == "h":
        wide = [lanes.widened(dtype, x) for x in args]
        if name in ("max", "min") and dtype == np.float16:  # of equal numbers numpy takes the first here
            wide.reverse()
        found = written(lanes, name, FLOAT32, wide)
        if name == "sign" and dtype != np.float16:  # a zero keeps its sign here
            found = written(lanes, "copysign", FLOAT32, [found, wide[0]])
        return found if PRIMITIVES[name].is_question else lanes.narrowed(dtype, found)
    write = WRITERS.get((name, kind))
    if write is None:
        raise CannotCompile(f"{name} of {dtype.name} has no compiled form")
    return write(lanes, dtype, *args)


def _plain(text: str) -> Write:
    """One instruction of two arguments."""

    def write(lanes: Lanes, dtype: np.dtype, a: str, b: str) -> str:
        return lanes.text.new(f"{text} {lanes.register(dtype)} {a}, {b}")

    return write


def _called(name: str) -> Write:
    """One of LLVM's functions."""

    def write(lanes: Lanes, dtype: np.dtype, *args: str) -> str:
        return lanes.call(name, dtype, *args)

    return write


INSTRUCTIONS = {
    "add": {"f": "fadd", "iu": "add", "b": "or"},
    "sub": {"f": "fsub", "iu": "sub"},
    "mul": {"f": "fmul", "iu": "mul", "b": "and"},
    "div": {"f": "fdiv"},
    "quotient": {"f": "fdiv"},
    "and_": {"iub": "and"},
    "or_": {"iub": "or"},
    "xor": {"iub": "xor"},
    "lt": {"f": "fcmp olt", "i": "icmp slt", "ub": "icmp ult"},
    "le": {"f": "fcmp ole", "i": "icmp sle", "ub": "icmp ule"},
    "gt": {"f": "fcmp ogt", "i": "icmp sgt", "ub": "icmp ugt"},
    "ge": {"f": "fcmp oge", "i": "icmp sge", "ub": "icmp uge"},
    "eq": {"f": "fcmp oeq", "iub": "icmp eq"},
    "ne": {"f": "fcmp une", "iub": "icmp ne"},
    "max": {"i": "llvm.smax", "u": "llvm.umax", "b": "or"},
    "min": {"i": "llvm.smin", "u": "llvm.umin", "b": "and"},
    "floor": {"f": "llvm.floor"},
    "ceil": {"f": "llvm.ceil"},
    "trunc": {"f": "llvm.trunc"},
    "rint": {"f": "llvm.roundeven"},
    "sqrt": {"f": "llvm.sqrt"},
    "abs": {"f": "llvm.fabs"},
    "copysign": {"f": "llvm.copysign"},
}
"""Primitives that are one instruction, or one of LLVM's functions, by kinds of numbers; others have a function below."""

for _name, _by_kind in INSTRUCTIONS.items():
    for _kinds, _instruction in _by_kind.items():
        _is_function = _instruction.startswith("llvm.")
        writes(_kinds, _name)(_called(_instruction.removeprefix("llvm.")) if _is_function else _plain(_instruction))


writes("f", "neg")(lambda lanes, dtype, x: lanes.text.new(f"fneg {lanes.register(dtype)} {x}"))
writes("f", "reciprocal")(lambda lanes, dtype, x: written(lanes, "div", dtype, [lanes.number(dtype, 1.0), x]))
writes("iu", "floor", "ceil", "trunc")(lambda lanes, dtype, x: x)
writes("u", "abs")(lambda lanes, dtype, x: x)


@writes("f", "signbit")
def _signbit(lanes: Lanes, dtype: np.dtype, x: str) -> str:
    f = Real(lanes, dtype)
    return f.whole("icmp slt", f.to_bits(x), f.n(0))


@writes("iu", "neg")
def _neg_whole(lanes: Lanes, dtype: np.dtype, x: str) -> str:
    return lanes.text.new(f"sub {lanes.register(dtype)} {lanes.number(dtype, 0)}, {x}")


@writes("i", "abs")
def _abs_whole(lanes: Lanes, dtype: np.dtype, x: str) -> str:
    type = lanes.register(dtype)
    call = lanes.text.declare(f"llvm.abs.{lanes.suffix(dtype)}", type, type, "i1")
    return lanes.text.new(f"{call}({type} {x}, i1 false)")


@writes("iub", "not_")
def _not(lanes: Lanes, dtype: np.dtype, x: str) -> str:
    ones = lanes.number(dtype, True if dtype == BOOL else -1)
    return lanes.text.new(f"xor {lanes.register(dtype)} {x}, {ones}")


def _extreme(question: str) -> Write:
    """nan where one is nan; of equal numbers, which zeros of two signs are, the second, as x86's instructions have it."""

    def write(lanes: Lanes, dtype: np.dtype, a: str, b: str) -> str:
        f = Real(lanes, dtype)
        found = f.select(f.is_(question, a, b), a, b)
        return f.select(f.is_("uno", a, a), a, found)

    return write


writes("f", "max")(_extreme("ogt"))
writes("f", "min")(_extreme("olt"))


@writes("f", "sign")
def _sign(lanes: Lanes, dtype: np.dtype, x: str) -> str:
    f = Real(lanes, dtype)
    found = f.select(f.is_("olt", x, f.k(0)), f.k(-1), f.k(1))
    found = f.select(f.is_("oeq", x, f.k(0)), f.k(0), found)
    return f.select(f.is_("uno", x, x), x, found)


@writes("iu", "sign")
def _sign_whole(lanes: Lanes, dtype: np.dtype, x: str) -> str:
    type, zero = lanes.register(dtype), lanes.number(dtype, 0)
    found = lanes.number(dtype, 1)
    if dtype.kind == "i":
        below = lanes.text.new(f"icmp slt {type} {x}, {zero}")
        found = lanes.select(dtype, below, lanes.number(dtype, -1), found)
    return lanes.select(dtype, lanes.text.new(f"icmp eq {type} {x}, {zero}"), zero, found)


# Division of whole numbers: by zero it gives 0, the lowest number by -1 itself


class _Division:
    """A quotient and a remainder that never trap."""

    def __init__(self, lanes: Lanes, dtype: np.dtype, a: str, b: str) -> None:
        self.lanes, self.dtype, self.a, self.b, self.by = lanes, dtype, a, b, b
        self.type, self.sign = lanes.register(dtype), "s" if dtype.kind == "i" else "u"
        self.known = _known(b)
        self.by_zero = self.by_minus = ""
        if self.known in (None, 0, -1):
            self._guard(b)

    def _guard(self, b: str) -> None:
        lanes, new = self.lanes, self.lanes.text.new
        self.by_zero = unsafe = new(f"icmp eq {self.type} {b}, {lanes.number(self.dtype, 0)}")
        if self.dtype.kind == "i":
            self.by_minus = new(f"icmp eq {self.type} {b}, {lanes.number(self.dtype, -1)}")
            unsafe = new(f"or {lanes.of('i1')} {self.by_zero}, {self.by_minus}")
        self.by = lanes.select(self.dtype, unsafe, lanes.number(self.dtype, 1), b)

    @property
    def bits(self) -> int | None:
        """Of a division by a power of two, which one."""
        return self.known.bit_length() - 1 if self.known and self.known > 0 and not self.known & (self.known - 1) else None

    def quotient(self) -> str:
        """Cut off towards zero."""
        lanes, new = self.lanes, self.lanes.text.new
        found = new(f"{self.sign}div {self.type} {self.a}, {self.by}")
        if self.by_minus:
            found = lanes.select(self.dtype, self.by_minus, _neg_whole(lanes, self.dtype, self.a), found)
        return lanes.select(self.dtype, self.by_zero, lanes.number(self.dtype, 0), found) if self.by_zero else found

    def remainder(self) -> str:
        """With the sign of the dividend; 0 of a division by zero."""
        return self.lanes.text.new(f"{self.sign}rem {self.type} {self.a}, {self.by}")

    def has_other_sign(self, remainder: str) -> str:
        """Whether something is left whose sign is not that of the divisor."""
        lanes, new = self.lanes, self.lanes.text.new
        zero = lanes.number(self.dtype, 0)
        if self.known:
            return new(f"icmp {'slt' if self.known > 0 else 'sgt'} {self.type} {remainder}, {zero}")
        differ = new(f"icmp slt {self.type} {new(f'xor {self.type} {remainder}, {self.b}')}, {zero}")
        left = new(f"icmp ne {self.type} {remainder}, {zero}")
        return new(f"and {lanes.of('i1')} {differ}, {left}")


def _known(x: str) -> int | None:
    """The whole number that is written in all lanes, if it is written there."""
    numbers = {part.split(" ")[-1] for part in x.strip("<>").split(", ")}
    (text,) = numbers if len(numbers) == 1 else ("",)
    return int(text) if text.lstrip("-").isdigit() else None


writes("iu", "quotient")(lambda lanes, dtype, a, b: _Division(lanes, dtype, a, b).quotient())
writes("iu", "fmod")(lambda lanes, dtype, a, b: _Division(lanes, dtype, a, b).remainder())


@writes("iu", "mod")
def _mod_whole(lanes: Lanes, dtype: np.dtype, a: str, b: str) -> str:
    parts = _Division(lanes, dtype, a, b)
    if parts.bits is not None:
        return lanes.text.new(f"and {parts.type} {a}, {lanes.number(dtype, (1 << parts.bits) - 1)}")
    found = parts.remainder()
    if dtype.kind == "u":
        return found
    more = lanes.text.new(f"add {parts.type} {found}, {b}")
    return lanes.select(dtype, parts.has_other_sign(found), more, found)


@writes("iu", "floordiv")
def _floordiv_whole(lanes: Lanes, dtype: np.dtype, a: str, b: str) -> str:
    parts = _Division(lanes, dtype, a, b)
    if parts.bits is not None:
        return lanes.text.new(f"{'ashr' if dtype.kind == 'i' else 'lshr'} {parts.type} {a}, {lanes.number(dtype, parts.bits)}")
    found = parts.quotient()
    if dtype.kind == "u":
        return found
    less = lanes.text.new(f"sub {parts.type} {found}, {lanes.number(dtype, 1)}")
    return lanes.select(dtype, parts.has_other_sign(parts.remainder()), less, found)


def _rest(f: Real, a: str, b: str) -> tuple[str, str]:
    """What a division of floats leaves, with the sign of ``a``, and whether that is neither zero nor of the sign of ``b``."""
    left = written(f.lanes, "fmod", f.dtype, [a, b])
    signs = [f.is_("olt", x, f.k(0)) for x in (left, b)]
    truth = f.lanes.of("i1")
    differ = f.new(f"xor {truth} {signs[0]}, {signs[1]}")
    return left, f.new(f"and {truth} {differ}, {f.is_('une', left, f.k(0))}")


@writes("f", "mod")
def _mod(lanes: Lanes, dtype: np.dtype, a: str, b: str) -> str:
    """The remainder with the sign of the divisor."""
    f = Real(lanes, dtype)
    left, is_other = _rest(f, a, b)
    found = f.select(is_other, f.add(left, b), left)
    found = f.select(f.is_("oeq", left, f.k(0)), f.call("copysign", f.k(0), b), found)
    return f.select(f.is_("oeq", b, f.k(0)), left, found)


@writes("f", "floordiv")
def _floordiv(lanes: Lanes, dtype: np.dtype, a: str, b: str) -> str:
    f = Real(lanes, dtype)
    left, is_other = _rest(f, a, b)
    whole = f.div(f.sub(a, left), b)
    whole = f.select(is_other, f.sub(whole, f.k(1)), whole)
    down = f.call("floor", whole)
    down = f.select(f.is_("ogt", f.sub(whole, down), f.k(0.5)), f.add(down, f.k(1)), down)
    quotient = f.div(a, b)
    found = f.select(f.is_("oeq", whole, f.k(0)), f.call("copysign", f.k(0), quotient), down)
    return f.select(f.is_("oeq", b, f.k(0)), quotient, found)


# Shifts: all bits are gone where it is as far as the number is wide


def _shift(instruction: str) -> Write:
    def write(lanes: Lanes, dtype: np.dtype, a: str, b: str) -> str:
        type, bits = lanes.register(dtype), 8 * dtype.itemsize
        text = "ashr" if instruction == "lshr" and dtype.kind == "i" else instruction
        inside = lanes.text.new(f"icmp ult {type} {b}, {lanes.number(dtype, bits)}")
        if text == "ashr":
            by = lanes.select(dtype, inside, b, lanes.number(dtype, bits - 1))
            return lanes.text.new(f"{text} {type} {a}, {by}")
        by = lanes.select(dtype, inside, b, lanes.number(dtype, 0))
        return lanes.select(dtype, inside, lanes.text.new(f"{text} {type} {a}, {by}"), lanes.number(dtype, 0))

    return write


writes("iu", "shl")(_shift("shl"))
writes("iu", "shr")(_shift("lshr"))


# Powers of whole numbers: products wrap around


@writes("iu", "pow")
def _pow_whole(lanes: Lanes, dtype: np.dtype, a: str, b: str) -> str:
    """By squaring, bit by bit; who wants negative exponents asks for something else."""
    new, type = lanes.text.new, lanes.register(dtype)
    found, square, one = lanes.number(dtype, 1), a, lanes.number(dtype, 1)
    steps = _steps_of(b, dtype)
    for k in range(steps):
        bit = new(f"and {type} {new(f'lshr {type} {b}, {lanes.number(dtype, k)}')}, {one}")
        is_set = new(f"icmp ne {type} {bit}, {lanes.number(dtype, 0)}")
        found = lanes.select(dtype, is_set, new(f"mul {type} {found}, {square}"), found)
        if k + 1 < steps:
            square = new(f"mul {type} {square}, {square}")
    return found


def _steps_of(exponent: str, dtype: np.dtype) -> int:
    """Bits of an exponent: few of one that is known."""
    known = _known(exponent)
    return 8 * dtype.itemsize if known is None or known < 0 else max(known.bit_length(), 1)


# Functions


def _by_library(name: str) -> Write:
    def write(lanes: Lanes, dtype: np.dtype, *args: str) -> str:
        return library.called(lanes, name, dtype, args)

    return write


for _name in (*library.FUNCTIONS, *library.FOREIGN):
    writes("f", _name)(_by_library(_name))


@writes("f", "pow")
def _pow(lanes: Lanes, dtype: np.dtype, x: str, y: str) -> str:
    """Exponents that are known make products."""
    if y == lanes.number(dtype, -1.0):
        return written(lanes, "reciprocal", dtype, [x])
    if y not in (lanes.number(dtype, 2.0), lanes.number(dtype, 3.0)):
        return library.called(lanes, "pow", dtype, [x, y])
    square = written(lanes, "mul", dtype, [x, x])
    return square if y == lanes.number(dtype, 2.0) else written(lanes, "mul", dtype, [square, x])
