"""Powers: e^(y ln x), the logarithm in two numbers of which the second is what the first has lost.

The exponent may be as large as 745, so that a logarithm rounded to one number would lose ten bits of the result.
"""

from __future__ import annotations

import math

from mdf_loop.backends.llvm.mathematics import coefficients
from mdf_loop.backends.llvm.mathematics.elementary import Real, exp, log, parted

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
