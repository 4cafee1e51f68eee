"""Functions without branches, in instructions: the same for one number and for lanes, within 2.5 units in the last place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from mdf_loop.backends.llvm.lanes.element_types import FLOAT32, FLOAT64
from mdf_loop.backends.llvm.lanes.vector_lanes import Lanes
from mdf_loop.backends.llvm.mathematics import coefficients


class Real:
    """Numbers of one type of floats, and arithmetic with them."""

    def __init__(self, lanes: Lanes, dtype: np.dtype) -> None:
        self.lanes, self.dtype = lanes, dtype
        self.new, self.type = lanes.text.new, lanes.register(dtype)
        self.is_short = dtype == FLOAT32
        self.integer = np.dtype(np.int32 if self.is_short else np.int64)
        self.bits = lanes.register(self.integer)
        self.fraction, self.bias = (23, 127) if self.is_short else (52, 1023)

    def k(self, value: float) -> str:
        """A constant."""
        return self.lanes.number(self.dtype, value)

    def n(self, value: int) -> str:
        """A whole constant as wide as a float."""
        return self.lanes.number(self.integer, value)

    def add(self, a: str, b: str) -> str:
        """a + b."""
        return self.new(f"fadd {self.type} {a}, {b}")

    def sub(self, a: str, b: str) -> str:
        """a - b."""
        return self.new(f"fsub {self.type} {a}, {b}")

    def mul(self, a: str, b: str) -> str:
        """a * b."""
        return self.new(f"fmul {self.type} {a}, {b}")

    def div(self, a: str, b: str) -> str:
        """a / b."""
        return self.new(f"fdiv {self.type} {a}, {b}")

    def neg(self, a: str) -> str:
        """-a."""
        return self.new(f"fneg {self.type} {a}")

    def fma(self, a: str, b: str, c: str) -> str:
        """a * b + c, rounded once where the processor can."""
        return self.lanes.call("fmuladd", self.dtype, a, b, c)

    def exact(self, a: str, b: str, c: str) -> str:
        """a * b + c, rounded once everywhere."""
        return self.lanes.call("fma", self.dtype, a, b, c)

    def whole(self, instruction: str, a: str, b: str) -> str:
        """An instruction of whole numbers."""
        return self.new(f"{instruction} {self.bits} {a}, {b}")

    def call(self, name: str, *args: str) -> str:
        """One of LLVM's functions."""
        return self.lanes.call(name, self.dtype, *args)

    def is_(self, question: str, a: str, b: str) -> str:
        """A comparison."""
        return self.new(f"fcmp {question} {self.type} {a}, {b}")

    def select(self, condition: str, a: str, b: str) -> str:
        """a where the condition holds."""
        return self.lanes.select(self.dtype, condition, a, b)

    def to_bits(self, x: str) -> str:
        """The bits of a float."""
        return self.new(f"bitcast {self.type} {x} to {self.bits}")

    def of_bits(self, x: str) -> str:
        """The float of such bits."""
        return self.new(f"bitcast {self.bits} {x} to {self.type}")

    def between(self, x: str, low: float, high: float) -> str:
        """x, but at least ``low`` and at most ``high``; nan becomes one of them."""
        x = self.select(self.is_("ogt", x, self.k(low)), x, self.k(low))
        return self.select(self.is_("olt", x, self.k(high)), x, self.k(high))

    def polynomial(self, x: str, of: Sequence[float]) -> str:
        """Horner's rule; of long ones for pairs of coefficients, which takes half the time."""
        parts = [self.k(value) for value in of]
        power = x
        if len(parts) > 4:
            power = self.mul(x, x)
            pairs = zip(parts[::2], [*parts[1::2], ""], strict=False)
            parts = [self.fma(odd, x, even) if odd else even for even, odd in pairs]
        found = parts[-1]
        for part in parts[-2::-1]:
            found = self.fma(found, power, part)
        return found

    # What several functions share

    def reduced(self, x: str) -> tuple[str, str]:
        """x = n ln 2 + r: n in the lowest bits of a float, and r."""
        shift = self.k(1.5 * 2.0**self.fraction)
        shifted = self.fma(x, self.k(1 / math.log(2)), shift)
        n = self.sub(shifted, shift)
        high, low = coefficients.LN2[self.dtype.itemsize]
        return shifted, self.fma(n, self.k(-low), self.fma(n, self.k(-high), x))

    def expm1_of(self, r: str) -> str:
        """e^r - 1 for small r."""
        return self.fma(self.mul(r, r), self.polynomial(r, coefficients.EXP[self.dtype.itemsize]), r)

    def power_of_two(self, n: str) -> str:
        """2^n of a whole number."""
        return self.of_bits(self.whole("shl", self.whole("add", n, self.n(self.bias)), self.n(self.fraction)))

    def exponent(self, shifted: str) -> str:
        """The whole number in the lowest bits of what ``reduced`` gives, with its sign."""
        spare = self.n(8 if self.is_short else 12)
        return self.whole("ashr", self.whole("shl", self.to_bits(shifted), spare), spare)


def exp(f: Real, x: str, lost: str = "") -> str:
    """e^x, or e^(x + lost); scaled in two steps, so that what is subnormal is right."""
    low, high = (-104.0, 89.0) if f.is_short else (-746.0, 710.0)
    shifted, r = f.reduced(f.between(x, low, high))
    r = f.add(r, lost) if lost else r
    y = f.add(f.expm1_of(r), f.k(1))
    n = f.exponent(shifted)
    half = f.whole("ashr", n, f.n(1))
    y = f.mul(f.mul(y, f.power_of_two(half)), f.power_of_two(f.whole("sub", n, half)))
    return f.select(f.is_("uno", x, x), x, y)


def _expm1_within(f: Real, x: str) -> str:
    """e^x - 1 where e^x is neither very small nor very large."""
    shifted, r = f.reduced(x)
    scale = f.power_of_two(f.to_bits(shifted))
    return f.fma(scale, f.expm1_of(r), f.sub(scale, f.k(1)))


def expm1(f: Real, x: str) -> str:
    """e^x - 1."""
    end = 20.0 if f.is_short else 40.0
    within = _expm1_within(f, f.between(x, -end, end))
    y = f.select(f.is_("ogt", x, f.k(end)), exp(f, x), within)
    y = f.select(f.is_("oeq", x, f.k(0)), x, y)
    return f.select(f.is_("uno", x, x), x, y)


def tanh(f: Real, x: str) -> str:
    """(e^2x - 1) / (e^2x + 1)."""
    size = f.call("fabs", x)
    near = f.select(f.is_("olt", size, f.k(10.0 if f.is_short else 20.0)), size, f.k(10.0 if f.is_short else 20.0))
    e = _expm1_within(f, f.mul(near, f.k(2)))
    y = f.call("copysign", f.div(e, f.add(e, f.k(2))), x)
    return f.select(f.is_("uno", x, x), x, y)


def parted(f: Real, x: str) -> tuple[str, str]:
    """n and m of x = 2^n m, m from the root of 1/2 to that of 2; of what is subnormal as well."""
    up = 25 if f.is_short else 54
    is_small = f.is_("olt", x, f.k(2.0 ** (1 - f.bias)))
    bits = f.to_bits(f.select(is_small, f.mul(x, f.k(2.0**up)), x))
    root = int(np.asarray(math.sqrt(0.5), f.dtype).view(f.integer))
    n = f.whole("ashr", f.whole("sub", bits, f.n(root)), f.n(f.fraction))
    m = f.of_bits(f.whole("sub", bits, f.whole("shl", n, f.n(f.fraction))))
    number = f.new(f"sitofp {f.bits} {n} to {f.type}")
    return f.select(is_small, f.sub(number, f.k(up)), number), m


def log(f: Real, x: str) -> str:
    """The natural logarithm: x = 2^n m with m near 1."""
    number, m = parted(f, x)
    d = f.sub(m, f.k(1))
    s = f.div(d, f.add(d, f.k(2)))
    z = f.mul(s, s)
    rest = f.mul(z, f.polynomial(z, coefficients.LOG[f.dtype.itemsize]))
    half = f.mul(f.mul(d, d), f.k(0.5))
    high, low = coefficients.LN2[f.dtype.itemsize]
    inner = f.fma(s, f.add(half, rest), f.mul(number, f.k(low)))
    y = f.add(f.mul(number, f.k(high)), f.sub(d, f.sub(half, inner)))
    y = f.select(f.is_("oeq", x, f.k(0)), f.k(-math.inf), y)
    y = f.select(f.is_("oeq", x, f.k(math.inf)), x, y)
    return f.select(f.is_("ult", x, f.k(0)), f.k(math.nan), y)


def log1p(f: Real, x: str) -> str:
    """ln(1 + x): what 1 + x lost is put back."""
    u = f.add(x, f.k(1))
    lost = f.div(f.sub(x, f.sub(u, f.k(1))), u)
    is_plain = f.is_("olt", f.call("fabs", f.sub(lost, lost)), f.k(1))  # neither nan nor infinite
    y = f.add(log(f, u), f.select(is_plain, lost, f.k(0)))
    return f.select(f.is_("oeq", x, f.k(0)), x, y)


def _sine_or_cosine(f: Real, x: str, is_cosine: bool) -> str:
    """x = n pi / 2 + r with pi / 2 in three parts: good for |x| up to 1e9 (1e6 of float32)."""
    shift = f.k(1.5 * 2.0**f.fraction)
    shifted = f.exact(x, f.k(2 / math.pi), shift)
    n, r = f.sub(shifted, shift), x
    for part in coefficients.HALF_PI[f.dtype.itemsize]:
        r = f.exact(n, f.k(-part), r)
    z = f.mul(r, r)
    sine = f.fma(f.mul(r, z), f.polynomial(z, coefficients.SIN[f.dtype.itemsize]), r)
    cosine = f.fma(f.mul(z, z), f.polynomial(z, coefficients.COS[f.dtype.itemsize]), f.fma(z, f.k(-0.5), f.k(1)))
    quarter = f.to_bits(shifted)
    if is_cosine:
        quarter = f.whole("add", quarter, f.n(1))
    is_odd = f.new(f"icmp ne {f.bits} {f.whole('and', quarter, f.n(1))}, {f.n(0)}")
    y = f.select(is_odd, cosine, sine)
    sign = f.whole("shl", f.whole("and", quarter, f.n(2)), f.n(8 * f.dtype.itemsize - 2))
    y = f.of_bits(f.whole("xor", f.to_bits(y), sign))
    return y if is_cosine else f.select(f.is_("oeq", x, f.k(0)), x, y)


def sin(f: Real, x: str) -> str:
    """The sine."""
    return _sine_or_cosine(f, x, is_cosine=False)


def cos(f: Real, x: str) -> str:
    """The cosine."""
    return _sine_or_cosine(f, x, is_cosine=True)


def erf(f: Real, x: str) -> str:
    """The error function: a polynomial near 0, 1 - e^p(x) elsewhere."""
    size, end = f.call("fabs", x), 3.95 if f.is_short else 5.95
    near = f.fma(x, f.polynomial(f.mul(x, x), coefficients.ERF[f.dtype.itemsize]), x)
    far = f.select(f.is_("olt", size, f.k(end)), size, f.k(end))
    power = f.mul(far, f.polynomial(far, coefficients.LOG_ERFC[f.dtype.itemsize]))
    shifted, r = f.reduced(power)
    small = f.mul(f.add(f.expm1_of(r), f.k(1)), f.power_of_two(f.to_bits(shifted)))
    y = f.call("copysign", f.sub(f.k(1), small), x)
    y = f.select(f.is_("olt", size, f.k(0.92)), near, y)
    return f.select(f.is_("uno", x, x), x, y)


def by_double(function: Callable[..., str]) -> Callable[..., str]:
    """A function of float32 computed in float64."""

    def wide(f: Real, *args: str) -> str:
        double = Real(f.lanes, FLOAT64)
        given = [f.new(f"fpext {f.type} {x} to {double.type}") for x in args]
        return f.new(f"fptrunc {double.type} {function(double, *given)} to {f.type}")

    return wide


Two = tuple[str, str]
"""A number and what it has lost."""


def power_by_logarithm(f: Real, x: str, y: str) -> str:
    """The same with a logarithm of one number: digits enough for float32."""
    return _with_signs(f, x, y, exp(f, f.mul(y, log(f, f.call("fabs", x)))))


def power(f: Real, x: str, y: str) -> str:
    """x^y, with the signs and special values that C's pow has."""
    size = f.call("fabs", x)
    high, low = _logarithm(f, size)
    whole = f.mul(y, high)
    lost = f.fma(y, low, f.exact(y, high, f.neg(whole)))
    is_near = f.is_("olt", f.call("fabs", whole), f.k(1000.0))
    found = exp(f, whole, f.select(is_near, lost, f.k(0)))
    end = f.select(f.is_("ogt", y, f.k(0)), size, f.div(f.k(1), size))
    for value in (0.0, math.inf):
        found = f.select(f.is_("oeq", size, f.k(value)), end, found)
    found = f.select(f.is_("uno", x, y), f.add(x, y), found)
    return _with_signs(f, x, y, found)


def _logarithm(f: Real, x: str) -> Two:
    """ln x of a positive finite number: x = 2^n m, and ln m = s (2 + s^2 (2/3 + ...)) with s = (m - 1) / (m + 1)."""
    n, m = parted(f, x)
    d, t = f.sub(m, f.k(1)), f.add(m, f.k(1))
    s = f.div(d, t)
    s_low = f.sub(f.exact(f.neg(s), t, d), f.mul(s, f.sub(m, f.sub(t, f.k(1)))))
    s_low = f.div(s_low, t)
    z = f.mul(s, s)
    z_low = f.fma(f.mul(s, f.k(2)), s_low, f.exact(s, s, f.neg(z)))
    rest = f.mul(z, f.polynomial(z, coefficients.LOG_BEHIND_THIRDS))
    third, third_low = coefficients.TWO_THIRDS
    a = _sum(f, f.k(third), rest)
    w = _product(f, (z, z_low), (a[0], f.add(a[1], f.k(third_low))))
    v = _sum(f, f.k(2), w[0])
    part = _product(f, (s, s_low), (v[0], f.add(v[1], w[1])))
    high, low = coefficients.LN2[f.dtype.itemsize]
    total = _sum(f, f.mul(n, f.k(high)), part[0])
    return _sum(f, total[0], f.add(total[1], f.fma(n, f.k(low), part[1])))


def _sum(f: Real, a: str, b: str) -> Two:
    """a + b, where a is not smaller than b unless it is 0."""
    total = f.add(a, b)
    return total, f.sub(b, f.sub(total, a))


def _product(f: Real, a: Two, b: Two) -> Two:
    """The product of two numbers with what they have lost."""
    found = f.mul(a[0], b[0])
    lost = f.exact(a[0], b[0], f.neg(found))
    return found, f.fma(a[0], b[1], f.fma(a[1], b[0], lost))


def _with_signs(f: Real, x: str, y: str, found: str) -> str:
    """|x|^y made x^y: the sign of a negative x, and what has a value of its own."""
    size = f.call("fabs", x)
    is_whole = f.is_("oeq", f.call("trunc", y), y)
    half = f.mul(y, f.k(0.5))
    is_odd = f.new(f"and {f.lanes.of('i1')} {is_whole}, {f.is_('une', f.call('trunc', half), half)}")
    found = f.select(is_odd, f.call("copysign", found, x), found)
    is_finite = f.is_("olt", size, f.k(math.inf))
    is_below = f.new(f"and {f.lanes.of('i1')} {f.is_('olt', x, f.k(0))}, {is_finite}")
    is_root = f.new(f"and {f.lanes.of('i1')} {is_below}, {f.is_('one', f.call('trunc', y), y)}")
    found = f.select(is_root, f.k(math.nan), found)
    is_unit = f.new(f"and {f.lanes.of('i1')} {f.is_('oeq', x, f.k(-1))}, {f.is_('oeq', f.call('fabs', y), f.k(math.inf))}")
    one = f.new(f"or {f.lanes.of('i1')} {f.is_('oeq', x, f.k(1))}, {f.is_('oeq', y, f.k(0))}")
    return f.select(f.new(f"or {f.lanes.of('i1')} {one}, {is_unit}"), f.k(1), found)
