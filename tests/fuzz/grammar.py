"""Expressions of MDF at random, over names of any kind."""

from __future__ import annotations

import random
from collections.abc import Sequence

NUMBERS = ("0", "1", "2", "3", "-1", "0.5", "1.5", "2.0", "-0.25", "10", "1e3")
OF_TWO = ("+", "-", "*", "+", "-", "*", "/", "//", "%")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
EXACT_FUNCTIONS = ("numpy.abs({})", "abs({})", "numpy.floor({})", "numpy.ceil({})", "numpy.sign({})", "numpy.square({})")
EXACT_OF_TWO = ("numpy.maximum({}, {})", "numpy.minimum({}, {})", "numpy.where({} > 0, {}, 1)", "numpy.add({}, {})")
EXACT_OF_TWO += ("numpy.multiply({}, {})", "numpy.clip({}, -2, {})")
SMOOTH_FUNCTIONS = (
    "numpy.sin({})",
    "numpy.cos({})",
    "numpy.tanh({})",
    "numpy.exp(-abs({}))",
    "math.atan({})",
    "numpy.sqrt(abs({}))",
)


def expression(choose: random.Random, names: Sequence[str], exact: bool = True, depth: int = 0) -> str:
    """An expression; ``exact`` leaves out what need not be the same to the last bit."""
    if depth > 3 or choose.random() < 0.25 + 0.15 * depth:
        return choose.choice(names) if names and choose.random() < 0.75 else choose.choice(NUMBERS)

    def part() -> str:
        return expression(choose, names, exact, depth + 1)

    way = choose.randrange(12)
    if way <= 5:
        return f"({part()} {choose.choice(OF_TWO)} {part()})"
    if way == 6:
        return f"({part()} if {condition(choose, names)} else {part()})"
    if way == 7:
        return choose.choice(EXACT_OF_TWO).format(part(), part())
    if way == 8:
        return f"-{part()}"
    if way == 9:
        return f"({part()}) ** {choose.choice(['2', '3', '0', '1', '2.0', '0.5', '-1'])}"
    if way == 10 and not exact:
        return choose.choice(SMOOTH_FUNCTIONS).format(part())
    return choose.choice(EXACT_FUNCTIONS).format(part())


def condition(choose: random.Random, names: Sequence[str]) -> str:
    """A comparison of a name with a number."""
    name = choose.choice(names) if names else "1"
    return f"{name} {choose.choice(COMPARISONS)} {choose.choice(NUMBERS)}"
