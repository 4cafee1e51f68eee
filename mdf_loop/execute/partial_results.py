"""Nothing is lost: whatever ends a run early leaves with the results of one moment of its outermost loop.

Each way into the executor - a loop, a whole model, a step of a scheduled one - is called through :func:`keeping`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from mdf_loop.errors import IterationError, IterationLimit, LoopInterrupted, PartialResults, is_from_outside, keeps_results
from mdf_loop.options import Run

T = TypeVar("T")

Named = Callable[[PartialResults], dict[str, Any]]
"""The outputs of a model by name, as far as they are known when an error leaves it."""


def keeping(run: Run, call: Callable[[], T], named: Named | None = None, begun: Callable[[], None] | None = None) -> T:
    """Call something; what ends it early keeps what the outermost loop of the run had computed.

    Ctrl-C becomes LoopInterrupted wherever it strikes, also while results are stacked and copied, or while an error
    gets what had been computed: then this is done a second time.  So everything that makes results of a run has to
    happen inside ``call``.  What else comes from outside leaves as itself, with the same attributes.  The random stream
    goes back to where it was at the moment whose results are kept.

    Parameters
    ----------
    run : Run
        What loops inside run in; ``run.finish`` is applied to partial results.
    call : callable
    named : callable, optional
        What the outputs are, if ``call`` runs a model.
    begun : callable, optional
        Begins the outermost loop, where Ctrl-C struck a program that had not said which it is.

    Raises
    ------
    PartialResults
        For Ctrl-C and MemoryError as well; all other errors leave as they are, and so does what comes from outside.
    """
    try:
        try:
            return call()
        except BaseException as error:
            _end(error, run, named, begun)
            raise
    except BaseException as error:
        if isinstance(error, PartialResults) or keeps_results(error):
            raise
        _end(error, run, named, begun)
        raise


def _end(error: BaseException, run: Run, named: Named | None, begun: Callable[[], None] | None) -> None:
    """Give an error that ends a run early what had been computed, or raise another one with that in its place."""
    if isinstance(error, PartialResults | MemoryError) or is_from_outside(error):
        ended = _ended(error, run, named, begun)
        if ended is not error:
            raise ended from error


def limit_reached(most: int | None) -> IterationLimit:
    """The error for a loop that would go on."""
    return IterationLimit(f"the loop would go on; options(max_iterations={most}) stops it here")


def _ended(error: BaseException, run: Run, named: Named | None, begun: Callable[[], None] | None) -> BaseException:
    """The error to leave with, once it holds what had been computed."""
    if isinstance(error, PartialResults):
        ended = error
    elif is_from_outside(error):
        ended = LoopInterrupted("interrupted")
        if keeps_results(error):  # of a run inside of this one
            ended.partial, ended.iteration = error.partial, error.iteration  # type: ignore[attr-defined]
    else:
        ended = IterationError("there is not enough memory to go on")
    progress = ended.progress or (run.outermost if ended.partial is None else None)
    if progress is None and begun is not None and isinstance(ended, LoopInterrupted):
        begun()
        progress = run.outermost
    if progress is not None:
        _keep(ended, progress)
    if named is not None:
        ended.outputs = named(ended)
    if type(error) is KeyboardInterrupt or ended is error or not is_from_outside(error):
        return ended
    ended.give_to(error)
    return error


def _keep(ended: PartialResults, progress: Any) -> None:
    """Make a loop's results so far part of an error."""
    moment = progress.moment
    progress.stream.restore(moment.drawn)
    if not ended.path:
        ended.within(f"after {moment.iteration} iteration{'s' * (moment.iteration != 1)} of {progress.name}")
    ended.partial, ended.iteration, ended.progress = progress.partial(), moment.iteration, None
