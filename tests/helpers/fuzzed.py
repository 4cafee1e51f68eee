"""Cases of the fuzzer for laws of their own: the same ones in every run."""

import functools
from collections.abc import Callable, Iterator
from unittest import mock

from mdf_loop.kernels.arrays import bounds
from tests.fuzz.loops import LoopCase, model_of, run
from tests.fuzz.table import targets
from tests.fuzz.target import random_of
from tests.fuzz.witness import operators


def fuzzed_loops(count: int, name: str = "plain") -> Iterator[LoopCase]:
    """So many loops of a target; while one is looked at, no value may be large."""
    with mock.patch.object(bounds, "SOME_BYTES", 1 << 28):
        for number in range(count):
            yield _made(name, number)


@functools.cache
def _made(name: str, number: int) -> LoopCase:
    """Several laws look at the same cases, and making one takes longer than most of what is done with it."""
    return targets([name])[name].make(random_of(name, 1, number))


def first_call(case: LoopCase) -> Callable[[], object]:
    """The first call of a loop, under the options in force."""
    model = model_of(case)
    return lambda: run(case, case.calls[0], model)


def draws(case: LoopCase) -> bool:
    """Whether a body draws random numbers from the stream of the run."""
    return any(op.startswith(("Random", "Bernoulli", "Multinomial")) for op in operators(case.graph))
