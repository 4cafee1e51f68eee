"""Many small cases of one law in one test: a test costs pytest milliseconds, which is more than most of these cases."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def each(names: str, cases: Iterable[Any], size: int = 50) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Like ``pytest.mark.parametrize``, with ``size`` cases in a test: all of them run, and each that fails is named."""
    cases, arguments = list(cases), names.split(",")
    groups = [cases[k : k + size] for k in range(0, len(cases), size)]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def run(group: list[Any], **fixtures: Any) -> None:
            errors, skipped = [], []
            for case in group:
                values = (case,) if len(arguments) == 1 else case
                try:
                    test(**dict(zip(arguments, values, strict=True)), **fixtures)
                except pytest.skip.Exception as skip:
                    skipped.append(skip)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"case: {case}")
                    errors.append(error)
            if errors:
                raise BaseExceptionGroup(f"{len(errors)} of {len(group)} cases", errors)
            if len(skipped) == len(group):
                raise skipped[0]

        given = inspect.signature(test).parameters.values()
        others = [p.replace(kind=p.KEYWORD_ONLY) for p in given if p.name not in arguments]
        group = inspect.Parameter("group", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        functools.update_wrapper(run, test, updated=())
        del run.__wrapped__
        run.__signature__ = inspect.Signature([group, *others])
        run.pytestmark = getattr(test, "pytestmark", [])
        return pytest.mark.parametrize("group", groups, ids=[_name(group) for group in groups])(run)

    return decorate


def _name(group: list[Any]) -> str:
    """The first case and the last one."""
    first, last = ("-".join(map(str, case)) if isinstance(case, tuple) else str(case) for case in (group[0], group[-1]))
    return first if len(group) == 1 else f"{first} .. {last}"
